//! A map whose entries are removed when their scope ends, for example for common subexpression elimination.

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use std::hash::{BuildHasher, Hash};

/// A map with scopes. An inner entry hides an outer entry with the same key until its scope ends.
pub struct ScopedMap<K, T> {
    /// The position of the slot of each key.
    index: HashTable<usize>,
    hasher: RandomState,
    slots: Vec<Slot<K, T>>,
    /// The slots that received an entry in each open scope.
    scopes: Vec<Vec<usize>>,
}

/// The entries of a key, with their scopes. Most keys have only one entry.
struct Slot<K, T> {
    key: K,
    outermost: Option<(usize, T)>,
    /// The other entries, outer entries first.
    inner: Vec<(usize, T)>,
}

impl<K, T> Slot<K, T> {
    fn innermost(&self) -> Option<&T> {
        self.inner.last().or(self.outermost.as_ref()).map(|(_, value)| value)
    }

    fn level(&self) -> Option<usize> {
        self.outermost.as_ref().map(|(level, _)| *level)
    }

    fn insert(&mut self, level: usize, value: T) {
        if self.level().is_some_and(|outermost| outermost <= level) {
            let behind = self.inner.partition_point(|(known, _)| *known <= level);
            self.inner.insert(behind, (level, value));
        } else if let Some(second) = self.outermost.replace((level, value)) {
            self.inner.insert(0, second);
        }
    }

    fn remove_innermost(&mut self) {
        if self.inner.pop().is_none() {
            self.outermost = None;
        }
    }
}

impl<K, T> Default for ScopedMap<K, T> {
    fn default() -> Self {
        let (index, hasher) = (HashTable::new(), RandomState::default());
        ScopedMap { index, hasher, slots: Vec::new(), scopes: vec![Vec::new()] }
    }
}

impl<K: Hash + Eq, T> ScopedMap<K, T> {
    /// Creates an empty map with one scope.
    pub fn new() -> Self {
        Self::default()
    }

    /// Opens a scope.
    pub fn enter(&mut self) {
        self.scopes.push(Vec::new());
    }

    /// Ends the innermost scope and removes its entries.
    pub fn leave(&mut self) {
        for slot in self.scopes.pop().unwrap_or_default() {
            self.slots[slot].remove_innermost();
        }
    }

    /// Returns the number of open scopes.
    pub fn depth(&self) -> usize {
        self.scopes.len()
    }

    /// Returns the innermost entry for a key.
    pub fn get(&self, key: &K) -> Option<&T> {
        self.slot_of(key)?.innermost()
    }

    /// Adds an entry to the innermost scope.
    pub fn insert(&mut self, key: K, value: T) {
        self.insert_at(self.scopes.len() - 1, key, value);
    }

    /// Adds an entry to the scope `level` (0 is the outermost); entries of inner scopes still hide it.
    pub fn insert_at(&mut self, level: usize, key: K, value: T) {
        let slot = self.slot(key);
        self.insert_into(slot, level, value);
    }

    /// Adds an entry to the scope `level`, unless that scope or an enclosing scope contains the key. Returns the previous innermost entry
    /// for the key.
    pub fn insert_if_new(&mut self, level: usize, key: K, value: T) -> Option<T>
    where
        T: Clone,
    {
        let slot = self.slot(key);
        let known = self.slots[slot].innermost().cloned();
        if self.slots[slot].level().is_none_or(|outermost| outermost > level) {
            self.insert_into(slot, level, value);
        }
        known
    }

    fn insert_into(&mut self, slot: usize, level: usize, value: T) {
        let Some(scope) = self.scopes.get_mut(level) else { return };
        scope.push(slot);
        self.slots[slot].insert(level, value);
    }

    fn slot_of(&self, key: &K) -> Option<&Slot<K, T>> {
        let slot = self.index.find(self.hasher.hash_one(key), |slot| self.slots[*slot].key == *key)?;
        self.slots.get(*slot)
    }

    /// Returns the position of a key's slot, and creates an empty slot if necessary.
    fn slot(&mut self, key: K) -> usize {
        let (hash, new) = (self.hasher.hash_one(&key), self.slots.len());
        let hash_of = |slot: &usize| self.hasher.hash_one(&self.slots[*slot].key);
        let slot = *self.index.entry(hash, |slot| self.slots[*slot].key == key, hash_of).or_insert(new).get();
        if slot == new {
            self.slots.push(Slot { key, outermost: None, inner: Vec::new() });
        }
        slot
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
        assert_eq!(map.get(&"b"), Some(&3));
        map.leave();
        assert_eq!((map.get(&"a"), map.get(&"b")), (Some(&1), Some(&4)));
    }
}
