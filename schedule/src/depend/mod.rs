//! What blocks access, and whether iterations depend on each other.

pub(crate) mod digits;
pub(crate) mod facts;
pub(crate) mod order;
pub(crate) mod region;

#[cfg(test)]
mod tests;
