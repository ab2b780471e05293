//! The command `passhost`.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    passhost::cli::main()
}
