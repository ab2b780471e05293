//! Passes for processors.

pub mod schedule_for_cpu;
mod tile;
