//! Analysis of bodies: visitors, functors, users of values, keys and maps of values, disjoint sets, scopes, the dump for debugging.

pub mod disjoint_sets;
pub mod dump;
pub mod functor;
pub mod in_place;
pub mod open_scopes;
pub mod scoped_map;
pub mod scopes;
pub mod users;
mod uses;
pub mod value_key;
pub mod value_map;
pub mod visitors;
