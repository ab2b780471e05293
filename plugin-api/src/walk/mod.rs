//! Looks at bodies: visitors, functors, users of values, keys of values, the dump for debugging.

pub mod dump;
pub mod functor;
pub mod scoped_map;
pub mod users;
pub mod value_key;
pub mod visitors;
