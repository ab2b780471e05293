//! What a plugin declares: passes, options, operators, composites, config, properties and instruments, and the context that
//! its code gets.

pub mod analysis;
pub mod contributions;
pub mod declarations;
pub mod diagnostics;
pub mod instrument;
mod macros;
mod macros_of_contributions;
mod matching;
pub mod options;
pub mod pass;
pub mod range;
