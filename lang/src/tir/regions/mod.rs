//! The reads and writes of schedulable blocks: buffer regions, their indices, and the bounds of an index over loops.
//!
//! | file | what |
//! |---|---|
//! | `linear` | indices as sums, in TVM's written form |
//! | `conditions` | the conditions that hold at a value |
//! | `reached` | the bounds of an index over the ranges of variables, under conditions |
//! | `lasting` | indices with the same value in all iterations of the enclosing loops |
//! | `region` | parts of buffers, and the union of two |
//! | `detect` | the accesses of a block or loop to outer buffers |
//! | `complete` | the regions of blocks that do not declare them |

mod complete;
pub mod conditions;
mod detect;
pub mod lasting;
pub mod linear;
pub mod reached;
pub mod region;

pub use complete::complete_regions;
pub use detect::{Accessed, BufferRegion, Detector};
