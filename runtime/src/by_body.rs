//! A map keyed by the content of function bodies.

use passhost_lang::ir::Body;
use std::collections::HashMap;

/// A map from bodies to values. Structurally equal bodies share a value.
pub struct ByBody<T> {
    by_hash: HashMap<u64, Vec<(Body, T)>>,
}

impl<T> Default for ByBody<T> {
    fn default() -> ByBody<T> {
        ByBody { by_hash: HashMap::new() }
    }
}

impl<T> ByBody<T> {
    /// Returns the value of a body.
    pub fn get(&self, body: &Body) -> Option<&T> {
        let same = self.by_hash.get(&body.structural_hash())?;
        same.iter().find(|(known, _)| known.structural_eq(body)).map(|(_, value)| value)
    }

    /// Adds a value for a new body.
    pub fn insert(&mut self, body: &Body, value: T) {
        self.by_hash.entry(body.structural_hash()).or_default().push((body.clone(), value));
    }
}
