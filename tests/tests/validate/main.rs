//! Tests that validation finds faults of passes, and blames no correct pass.
#![forbid(unsafe_code)]

mod alarms;
mod contracts;
mod miscompiles;
mod mutants;
mod planted;
mod rarer;
mod shipped;
