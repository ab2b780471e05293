//! Passes for CPUs.

pub mod choices;
pub mod fuse_multiply_add;
pub mod join_rows;
pub mod list_schedules;
pub mod schedule_for_cpu;
mod tile;
mod tiled;
