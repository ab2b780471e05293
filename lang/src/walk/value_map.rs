//! Maps and sets of the values of one body.

use crate::ir::{Body, Value};
use std::collections::{HashMap, HashSet};
use std::marker::PhantomData;
use std::ops::Index;

/// A `T` for some values of one body. A look-up costs as much as one into a vector.
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
    /// Operators, constants and the like, of which there are few.
    leaves: HashMap<u32, T, foldhash::fast::RandomState>,
    body: PhantomData<&'b Body>,
}

impl<'b, T> ValueMap<'b, T> {
    /// An empty map for values of a body.
    pub fn new(body: &'b Body) -> ValueMap<'b, T> {
        let nodes = std::iter::repeat_with(|| None).take(body.len()).collect();
        ValueMap { nodes, leaves: HashMap::default(), body: PhantomData }
    }

    /// What a value has.
    pub fn get(&self, value: Value<'_>) -> Option<&T> {
        match value.index() {
            Some(at) => self.nodes.get(at)?.as_ref(),
            None => self.leaves.get(&value.word()),
        }
    }

    /// What a value has, to change it.
    pub fn get_mut(&mut self, value: Value<'_>) -> Option<&mut T> {
        match value.index() {
            Some(at) => self.nodes.get_mut(at)?.as_mut(),
            None => self.leaves.get_mut(&value.word()),
        }
    }

    /// Sets what a value has; returns what it had before. The value must be one of the body of the map.
    pub fn insert(&mut self, value: Value<'b>, new: T) -> Option<T> {
        match value.index() {
            Some(at) => self.nodes[at].replace(new),
            None => self.leaves.insert(value.word(), new),
        }
    }

    /// Takes what a value has.
    pub fn remove(&mut self, value: Value<'_>) -> Option<T> {
        match value.index() {
            Some(at) => self.nodes.get_mut(at)?.take(),
            None => self.leaves.remove(&value.word()),
        }
    }

    /// Whether a value has something.
    pub fn contains(&self, value: Value<'_>) -> bool {
        self.get(value).is_some()
    }
}

impl<T> Index<Value<'_>> for ValueMap<'_, T> {
    type Output = T;

    /// # Panics
    /// If the value has nothing.
    fn index(&self, value: Value<'_>) -> &T {
        self.get(value).expect("the value has an entry")
    }
}

/// Some values of one body.
#[derive(Clone, Debug)]
pub struct ValueSet<'b> {
    nodes: Vec<bool>,
    /// Operators, constants and the like, of which there are few.
    leaves: HashSet<u32, foldhash::fast::RandomState>,
    body: PhantomData<&'b Body>,
}

impl<'b> ValueSet<'b> {
    /// An empty set of values of a body.
    pub fn new(body: &'b Body) -> ValueSet<'b> {
        ValueSet { nodes: vec![false; body.len()], leaves: HashSet::default(), body: PhantomData }
    }

    /// Adds a value; says whether it is new. The value must be one of the body of the set.
    pub fn insert(&mut self, value: Value<'b>) -> bool {
        match value.index() {
            Some(at) => !std::mem::replace(&mut self.nodes[at], true),
            None => self.leaves.insert(value.word()),
        }
    }

    /// Takes a value out; says whether it was there.
    pub fn remove(&mut self, value: Value<'_>) -> bool {
        match value.index() {
            Some(at) => self.nodes.get_mut(at).is_some_and(std::mem::take),
            None => self.leaves.remove(&value.word()),
        }
    }

    /// Whether no value is in it.
    pub fn is_empty(&self) -> bool {
        self.leaves.is_empty() && !self.nodes.contains(&true)
    }

    /// Whether a value is in it.
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
