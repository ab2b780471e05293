//! The command `passhost`.
fn main() {}
