//! Commands for native code.

mod doctor;
mod emit;
mod export;

pub(super) use doctor::doctor;
pub(super) use emit::emit;
