//! A map whose entries go when their scope ends: what common subexpression elimination and the like need.

use std::collections::HashMap;
use std::hash::Hash;

/// A map with scopes. An inner entry hides an outer one of the same key until its scope ends.
pub struct ScopedMap<K, T> {
    map: HashMap<K, Vec<(usize, T)>, foldhash::fast::RandomState>,
    scopes: Vec<Vec<K>>,
}

impl<K: Hash + Eq + Clone, T> Default for ScopedMap<K, T> {
    fn default() -> Self {
        ScopedMap { map: HashMap::default(), scopes: vec![Vec::new()] }
    }
}

impl<K: Hash + Eq + Clone, T> ScopedMap<K, T> {
    /// An empty map with one scope.
    pub fn new() -> Self {
        Self::default()
    }

    /// Opens a scope.
    pub fn enter(&mut self) {
        self.scopes.push(Vec::new());
    }

    /// Ends the innermost scope; its entries go.
    pub fn leave(&mut self) {
        for key in self.scopes.pop().unwrap_or_default() {
            if let Some(entries) = self.map.get_mut(&key) {
                entries.pop();
                if entries.is_empty() {
                    self.map.remove(&key);
                }
            }
        }
    }

    /// Number of scopes that are open.
    pub fn depth(&self) -> usize {
        self.scopes.len()
    }

    /// The innermost entry of a key.
    pub fn get(&self, key: &K) -> Option<&T> {
        self.map.get(key)?.last().map(|(_, value)| value)
    }

    /// The outermost scope that has an entry of a key (0 is the outermost).
    pub fn level_of(&self, key: &K) -> Option<usize> {
        self.map.get(key)?.first().map(|(level, _)| *level)
    }

    /// Adds an entry to the innermost scope.
    pub fn insert(&mut self, key: K, value: T) {
        let depth = self.scopes.len();
        self.insert_at(depth - 1, key, value);
    }

    /// Adds an entry to the scope `level` (0 is the outermost); entries of inner scopes go on hiding it.
    pub fn insert_at(&mut self, level: usize, key: K, value: T) {
        let Some(scope) = self.scopes.get_mut(level) else { return };
        scope.push(key.clone());
        let entries = self.map.entry(key).or_default();
        let behind = entries.partition_point(|(known, _)| *known <= level);
        entries.insert(behind, (level, value));
    }
}

#[cfg(test)]
mod tests {
    use super::ScopedMap;

    #[test]
    fn entries_go_with_their_scope() {
        let mut map = ScopedMap::new();
        map.insert("a", 1);
        map.enter();
        map.insert("a", 2);
        map.insert("b", 3);
        assert_eq!((map.get(&"a"), map.get(&"b")), (Some(&2), Some(&3)));
        map.insert_at(0, "b", 4);
        assert_eq!((map.get(&"b"), map.level_of(&"b")), (Some(&3), Some(0)));
        map.leave();
        assert_eq!((map.get(&"a"), map.get(&"b")), (Some(&1), Some(&4)));
    }
}
