//! Reads and writes TVMScript, the exchange format with TVM.
#![forbid(unsafe_code)]

mod metadata;
mod print;
mod read;
mod reads_back;
mod words;

pub use metadata::weights::{LARGE, References, Weights};
pub use print::{
    Printed, Unprintable, print, print_function, print_referring, print_shown, print_with_spans, print_with_values,
    print_without_data,
};
pub use read::{ReadModule, ReadOptions, read, read_from, read_with, read_with_warnings};
pub use reads_back::{Unfaithful, attributes_read_back, difference, reads_back, stale_callee};
pub use words::diagnostic::{Diagnostic, ReadError, line_column, one_line_end};
pub use words::operators::{NoOps, Operators};
