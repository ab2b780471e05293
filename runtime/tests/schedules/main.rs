//! Tests schedules: a primitive preserves the computed bits, its result can be printed and read back, and
//! primitives that would change the result are rejected.

mod cases;
mod common;
mod generate;
#[path = "../naive/generate.rs"]
#[allow(dead_code, reason = "another test uses more of it")]
mod naive;
mod primitives;
mod random;
mod steps;
