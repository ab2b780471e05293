//! Commands about native code.

mod doctor;
mod emit;

pub(super) use doctor::doctor;
pub(super) use emit::emit;
