//! Maps and sets of the values of one body.

use crate::ir::{Body, Value};
use std::collections::{HashMap, HashSet};
use std::marker::PhantomData;
use std::ops::Index;

/// A map from values of one body to `T`. A lookup is as fast as in a vector.
///
/// ```
/// use plugin_api::prelude::*;
///
/// /// The length of the longest chain of calls that leads to each binding.
/// fn depths(function: &Body) -> ValueMap<'_, usize> {
///     let mut depths = ValueMap::new(function);
///     for binding in function.bindings() {
///         let longest = binding.operands().filter_map(|operand| depths.get(operand)).max().copied();
///         depths.insert(binding, longest.unwrap_or(0) + usize::from(binding.as_call().is_some()));
///     }
///     depths
/// }
/// ```
#[derive(Clone, Debug)]
pub struct ValueMap<'b, T> {
    nodes: Vec<Option<T>>,
    /// Entries of leaves, such as operators and constants, which are few.
    leaves: HashMap<u32, T, foldhash::fast::RandomState>,
    body: PhantomData<&'b Body>,
}

impl<'b, T> ValueMap<'b, T> {
    /// Creates an empty map for values of a body.
    pub fn new(body: &'b Body) -> ValueMap<'b, T> {
        let nodes = std::iter::repeat_with(|| None).take(body.len()).collect();
        ValueMap { nodes, leaves: HashMap::default(), body: PhantomData }
    }

    /// Returns the entry of a value.
    pub fn get(&self, value: Value<'_>) -> Option<&T> {
        match value.index() {
            Some(at) => self.nodes.get(at)?.as_ref(),
            None => self.leaves.get(&value.word()),
        }
    }

    /// Returns the entry of a value, mutably.
    pub fn get_mut(&mut self, value: Value<'_>) -> Option<&mut T> {
        match value.index() {
            Some(at) => self.nodes.get_mut(at)?.as_mut(),
            None => self.leaves.get_mut(&value.word()),
        }
    }

    /// Sets the entry of a value and returns the previous one. The value must belong to the body of the map.
    pub fn insert(&mut self, value: Value<'b>, new: T) -> Option<T> {
        match value.index() {
            Some(at) => self.nodes[at].replace(new),
            None => self.leaves.insert(value.word(), new),
        }
    }

    /// Removes and returns the entry of a value.
    pub fn remove(&mut self, value: Value<'_>) -> Option<T> {
        match value.index() {
            Some(at) => self.nodes.get_mut(at)?.take(),
            None => self.leaves.remove(&value.word()),
        }
    }

    /// Returns true if a value has an entry.
    pub fn contains(&self, value: Value<'_>) -> bool {
        self.get(value).is_some()
    }
}

impl<T> Index<Value<'_>> for ValueMap<'_, T> {
    type Output = T;

    /// # Panics
    /// If the value lacks an entry.
    fn index(&self, value: Value<'_>) -> &T {
        self.get(value).expect("the value has an entry")
    }
}

/// A set of values of one body.
#[derive(Clone, Debug)]
pub struct ValueSet<'b> {
    nodes: Vec<bool>,
    /// Leaves, such as operators and constants, which are few.
    leaves: HashSet<u32, foldhash::fast::RandomState>,
    body: PhantomData<&'b Body>,
}

impl<'b> ValueSet<'b> {
    /// Creates an empty set for values of a body.
    pub fn new(body: &'b Body) -> ValueSet<'b> {
        ValueSet { nodes: vec![false; body.len()], leaves: HashSet::default(), body: PhantomData }
    }

    /// Adds a value; returns true if it was not in the set. The value must belong to the body of the set.
    pub fn insert(&mut self, value: Value<'b>) -> bool {
        match value.index() {
            Some(at) => !std::mem::replace(&mut self.nodes[at], true),
            None => self.leaves.insert(value.word()),
        }
    }

    /// Removes a value; returns true if it was in the set.
    pub fn remove(&mut self, value: Value<'_>) -> bool {
        match value.index() {
            Some(at) => self.nodes.get_mut(at).is_some_and(std::mem::take),
            None => self.leaves.remove(&value.word()),
        }
    }

    /// Returns true if the set is empty.
    pub fn is_empty(&self) -> bool {
        self.leaves.is_empty() && !self.nodes.contains(&true)
    }

    /// Returns true if the set contains a value.
    pub fn contains(&self, value: Value<'_>) -> bool {
        match value.index() {
            Some(at) => self.nodes.get(at).copied().unwrap_or(false),
            None => self.leaves.contains(&value.word()),
        }
    }
}

impl<'b> Extend<Value<'b>> for ValueSet<'b> {
    fn extend<I: IntoIterator<Item = Value<'b>>>(&mut self, values: I) {
        for value in values {
            self.insert(value);
        }
    }
}
