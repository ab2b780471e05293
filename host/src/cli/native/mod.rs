//! Commands for native code.

pub(super) mod doctor;
pub(super) mod emit;
mod export;

pub(super) use doctor::doctor;
pub(super) use emit::emit;
