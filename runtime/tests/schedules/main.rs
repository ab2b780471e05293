//! Schedules: what a primitive makes computes the same bits, is read again as what was printed, and what would compute
//! something else is refused.

mod cases;
mod common;
mod generate;
mod primitives;
mod random;
