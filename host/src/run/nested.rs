//! Runs inside runs: a pass of a program can run passes.

use crate::error::Error;
use std::cell::Cell;

/// A pass that runs itself would do so until the stack ends.
const DEEPEST: u32 = 32;

thread_local! {
    static RUNS: Cell<u32> = const { Cell::new(0) };
}

/// One more run on this thread, until it is dropped.
pub(super) struct Nested(());

impl Nested {
    /// # Errors
    /// If there are too many inside each other.
    pub(super) fn enter() -> Result<Nested, Error> {
        let depth = RUNS.get();
        if depth == DEEPEST {
            let message = format!("passes run passes inside each other, {DEEPEST} deep");
            let help = "a pass that runs others must not lead back to itself".to_string();
            return Err(Error::Request { message, help });
        }
        RUNS.set(depth + 1);
        Ok(Nested(()))
    }
}

impl Drop for Nested {
    fn drop(&mut self) {
        RUNS.set(RUNS.get().saturating_sub(1));
    }
}
