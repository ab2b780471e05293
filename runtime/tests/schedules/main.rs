//! Schedules: what a primitive makes computes the same bits, is read again as what was printed, and what would compute
//! something else is refused.

mod cases;
mod common;
mod generate;
#[path = "../naive/generate.rs"]
#[allow(dead_code, reason = "another test uses more of it")]
mod naive;
mod primitives;
mod random;
mod steps;
