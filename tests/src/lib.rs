//! Shared helpers of the tests and benchmarks that span crates.
#![forbid(unsafe_code)]

pub mod synthetic;
