//! What a run notes in the functions that passes get: where their values are from, and how many rewrites may be applied.

pub mod limits;
pub mod provenance;
