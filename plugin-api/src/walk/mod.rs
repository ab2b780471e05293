//! Looks at bodies: visitors, functors, users of values, keys and maps of values, scopes, the dump for debugging.

pub mod dump;
pub mod functor;
pub mod scoped_map;
pub mod scopes;
pub mod users;
pub mod value_key;
pub mod value_map;
pub mod visitors;
