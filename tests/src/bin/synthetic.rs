//! `synthetic FUNCTIONS BINDINGS` prints a synthetic module, for comparisons with other tools.
#![forbid(unsafe_code)]

use std::io::Write;

fn main() -> std::io::Result<()> {
    let mut numbers = std::env::args().skip(1).map(|arg| arg.parse::<usize>());
    let (Some(Ok(functions)), Some(Ok(bindings))) = (numbers.next(), numbers.next()) else {
        return Err(std::io::Error::other("usage: synthetic FUNCTIONS BINDINGS"));
    };
    std::io::stdout().lock().write_all(passhost_tests::synthetic::module_text(functions, bindings).as_bytes())
}
