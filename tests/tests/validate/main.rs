//! Validation finds what passes do wrong, and blames no pass that does nothing wrong.
#![forbid(unsafe_code)]

mod alarms;
mod contracts;
mod miscompiles;
mod mutants;
mod planted;
mod rarer;
mod shipped;
