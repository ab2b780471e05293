//! Commands for native code.

pub(super) mod args;
pub(super) mod doctor;
mod emit;
mod export;

pub(super) use doctor::doctor;
pub(super) use emit::emit;
