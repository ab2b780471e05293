//! Passes over expressions and loops.

pub mod canonicalize_loop;
pub mod common_subexpr_elim;
pub mod convert_ssa;
pub mod hoist_if_then_else;
pub mod loop_partition;
pub mod narrow;
pub mod remove_no_op;
mod simplify;
pub mod stmt_simplify;
pub mod unroll_loop;
pub mod vectorize_loop;
