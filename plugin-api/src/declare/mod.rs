//! Declarations of a plugin: passes, options, operators, composites, config, properties, instruments, readers and writers,
//! and the context passed to its code.

pub mod analysis;
pub mod contributions;
pub mod declarations;
pub mod diagnostics;
pub mod formats;
pub mod instrument;
mod macros;
mod macros_of_contributions;
mod matching;
pub mod options;
pub mod pass;
pub mod range;
