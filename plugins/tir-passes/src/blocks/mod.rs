//! Passes that lower blocks and buffers of a schedule to flat memory.

pub mod compact_buffer_allocation;
pub mod convert_blocks_to_opaque;
pub mod flatten_buffer;
mod in_place;
mod index;
pub mod lower_init_block;
pub mod lower_match_buffer;
pub mod lower_opaque_block;
pub mod plan_and_update_buffer_allocation_location;
mod storage_plan;
pub mod storage_rewrite;
