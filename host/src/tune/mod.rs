//! Measurements of schedules, and the search for better ones. The passes list the schedules of a PrimFunc as attributes, and take the chosen
//! ones from a config option; this module treats schedules as text.

pub mod database;
pub(crate) mod kernel;
mod model;
pub(crate) mod processor;
pub(crate) mod search;
