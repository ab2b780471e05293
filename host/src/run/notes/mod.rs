//! Notes that a run attaches to the functions that passes get: the origins of their values, and limits on rewrites.

pub mod limits;
pub mod provenance;
