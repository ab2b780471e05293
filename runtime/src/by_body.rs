//! Values by the content of functions.

use passhost_lang::ir::Body;
use std::collections::HashMap;

/// Values by bodies: bodies that are structurally equal have the same one.
pub struct ByBody<T> {
    by_hash: HashMap<u64, Vec<(Body, T)>>,
}

impl<T> Default for ByBody<T> {
    fn default() -> ByBody<T> {
        ByBody { by_hash: HashMap::new() }
    }
}

impl<T> ByBody<T> {
    /// The value of a body.
    pub fn get(&self, body: &Body) -> Option<&T> {
        let same = self.by_hash.get(&body.structural_hash())?;
        same.iter().find(|(known, _)| known.structural_eq(body)).map(|(_, value)| value)
    }

    /// Adds the value of a body that has none yet.
    pub fn insert(&mut self, body: &Body, value: T) {
        self.by_hash.entry(body.structural_hash()).or_default().push((body.clone(), value));
    }
}
