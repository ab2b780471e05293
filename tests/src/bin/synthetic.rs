//! `synthetic FUNCTIONS BINDINGS` prints a synthetic module, and `synthetic convolutions N` prints a chain of
//! convolutions, for comparisons with other tools.
#![forbid(unsafe_code)]

use passhost_tests::synthetic::{convolutions_text, module_text};
use std::io::Write;

fn main() -> std::io::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |i: usize| args.get(i).and_then(|arg: &String| arg.parse::<usize>().ok());
    let row = args.first().is_some_and(|arg| arg == "convolutions");
    let text = match (number(0), number(1)) {
        (None, Some(n)) if row => convolutions_text(n),
        (Some(functions), Some(bindings)) => module_text(functions, bindings),
        _ => return Err(std::io::Error::other("usage: synthetic FUNCTIONS BINDINGS, or synthetic convolutions N")),
    };
    std::io::stdout().lock().write_all(text.as_bytes())
}
