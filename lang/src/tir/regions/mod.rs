//! What schedulable blocks read and write: regions of buffers, the indices in them, and what an index reaches while loops run.
//!
//! | file | what |
//! |---|---|
//! | `linear` | indices as sums, in the form in which TVM writes them |
//! | `conditions` | conditions that hold where a value is |
//! | `reached` | between what an index lies while variables run, under conditions |
//! | `lasting` | which indices have one value in all iterations of the loops around them |
//! | `region` | parts of buffers, and how two become one |
//! | `detect` | what a block or loop accesses of the buffers around it |
//! | `complete` | the regions of blocks that do not say them |

mod complete;
pub mod conditions;
mod detect;
pub mod lasting;
pub mod linear;
pub mod reached;
pub mod region;

pub use complete::complete_regions;
pub use detect::{Accessed, BufferRegion, Detector};
