//! Passes that narrow indices.

pub mod force_narrow_index_to_int32;
pub mod narrow_data_type;
mod narrowing;
