//! The accesses of blocks, and dependences between iterations.

pub(crate) mod digits;
pub(crate) mod facts;
pub(crate) mod order;
pub(crate) mod region;

#[cfg(test)]
mod tests;
