//! Keys that determine whether two values compute the same result, or the same function of other values.

use crate::ir::Value;
use foldhash::fast::RandomState;
use hashbrown::HashTable;
use std::collections::BTreeMap;
use std::hash::BuildHasher;

/// Returns a key of the computation of a value: values with equal keys are equal, unless one has an effect. The key contains kind, type,
/// attributes, payload (such as an element index) and operands of the value and its nested expressions, but no names.
///
/// `same` returns the representative of an operand: the operand itself, or the first value found equal to it.
pub fn value_key<'a>(value: Value<'a>, same: &impl Fn(Value<'a>) -> Value<'a>) -> Vec<u32> {
    let mut key = Vec::with_capacity(4 + value.n_operands());
    add_key(value, same, &mut key);
    key
}

fn add_key<'a>(value: Value<'a>, same: &impl Fn(Value<'a>) -> Value<'a>, key: &mut Vec<u32>) {
    add_head(value, key);
    // The remaining operands of this and the enclosing expressions.
    let (mut operands, mut around) = (value.operands(), Vec::new());
    // A valid body has fewer nested expressions than nodes. The limit is for edits, during which they may form a cycle.
    let mut left = value.raw.nodes().len();
    loop {
        match operands.next() {
            Some(operand) if operand.is_nested() && left > 0 => {
                left -= 1;
                // `u32::MAX` is not a valid operand word, so it marks a nested expression; the operand count delimits the expression.
                key.extend([u32::MAX, operand.n_operands() as u32]);
                add_head(operand, key);
                around.push(std::mem::replace(&mut operands, operand.operands()));
            }
            Some(operand) => key.push(same(operand).word()),
            None => match around.pop() {
                Some(outer) => operands = outer,
                None => return,
            },
        }
    }
}

/// Value numbering: assigns numbers to computations in a body. Values with equal [keys](value_key) get the same number.
///
/// ```
/// use plugin_api::prelude::*;
/// use plugin_api::ir::{AttrsId, BodyBuilder, SealError};
/// use plugin_api::walk::value_key::ValueNumbers;
///
/// let mut b = BodyBuilder::new();
/// b.begin_function(0, AttrsId::NONE, None);
/// let ty = b.ty(&Type::tensor([2, 3], DType::F32));
/// let (x, y, add) = (b.param("x", ty), b.param("y", ty), b.op("relax.add"));
/// b.begin_block();
/// let sum = b.call(add, &[x, y], AttrsId::NONE, ty, false, Some("sum"));
/// b.call(add, &[sum, y], AttrsId::NONE, ty, false, Some("more"));
/// b.call(add, &[x, y], AttrsId::NONE, ty, false, Some("again"));
/// b.end();
/// b.end_function(sum, ty);
/// let body = b.finish()?;
/// let mut numbers = ValueNumbers::new();
/// let found: Vec<u32> = body.bindings().map(|value| numbers.of(value, &|operand| operand)).collect();
/// assert_eq!(found, [0, 1, 0]);
/// # Ok::<(), SealError>(())
/// ```
#[derive(Default)]
pub struct ValueNumbers {
    /// The number of each key.
    index: HashTable<u32>,
    hasher: RandomState,
    /// The hash of each key, and its end in `words`.
    keys: Vec<(u64, usize)>,
    words: Vec<u32>,
}

impl ValueNumbers {
    /// Creates a numbering without values.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the number of a value's computation: a new number (from 0) if no earlier value computes the same.
    ///
    /// `same` returns the representative of an operand, as in [`value_key`].
    pub fn of<'a>(&mut self, value: Value<'a>, same: &impl Fn(Value<'a>) -> Value<'a>) -> u32 {
        let start = self.words.len();
        add_key(value, same, &mut self.words);
        let (known, key) = self.words.split_at(start);
        let key_of = |number: u32| {
            let number = number as usize;
            let from = number.checked_sub(1).map_or(0, |before| self.keys[before].1);
            &known[from..self.keys[number].1]
        };
        let (hash, next) = (self.hasher.hash_one(key), self.keys.len() as u32);
        let same = |number: &u32| self.keys[*number as usize].0 == hash && key_of(*number) == key;
        let number = *self.index.entry(hash, same, |number| self.keys[*number as usize].0).or_insert(next).get();
        if number == next {
            self.keys.push((hash, self.words.len()));
        } else {
            self.words.truncate(start);
        }
        number
    }
}

/// The computation of a value, independent of the values that it uses.
#[non_exhaustive]
pub struct ValueForm<'a> {
    /// The key of the computation. Values of the same body with equal keys compute the same function of their
    /// [`values`](ValueForm::values). The key contains kind, types, attributes, constants, shapes, payload, and the equality of operands.
    pub key: Vec<u32>,
    /// The distinct named values used by the value and its nested expressions, in the order of first use.
    pub values: Vec<Value<'a>>,
}

/// Returns the form of a value. A result for one value applies to all values of the same form, after substituting their `values`.
///
/// ```
/// use plugin_api::prelude::*;
/// use plugin_api::ir::{AttrsId, BodyBuilder, SealError};
/// use plugin_api::walk::value_key::value_form;
///
/// let mut b = BodyBuilder::new();
/// b.begin_function(0, AttrsId::NONE, None);
/// let ty = b.ty(&Type::tensor([2, 3], DType::F32));
/// let (x, y, add) = (b.param("x", ty), b.param("y", ty), b.op("relax.add"));
/// b.begin_block();
/// let sum = b.call(add, &[x, y], AttrsId::NONE, ty, false, Some("sum"));
/// let more = b.call(add, &[sum, y], AttrsId::NONE, ty, false, Some("more"));
/// let twice = b.call(add, &[more, more], AttrsId::NONE, ty, false, Some("twice"));
/// b.end();
/// b.end_function(twice, ty);
/// let body = b.finish()?;
/// let forms: Vec<_> = body.bindings().map(value_form).collect();
/// assert!(forms[0].key == forms[1].key && forms[0].key != forms[2].key);
/// assert_eq!((forms[1].values.len(), forms[2].values.len()), (2, 1));
/// # Ok::<(), SealError>(())
/// ```
pub fn value_form(value: Value<'_>) -> ValueForm<'_> {
    let mut form = ValueForm { key: Vec::with_capacity(4 + 3 * value.n_operands()), values: Vec::new() };
    let mut known = BTreeMap::new();
    add_head(value, &mut form.key);
    let mut rest: Vec<Value<'_>> = value.operands().rev().collect();
    // A valid body has fewer nested expressions than nodes. The limit is for edits, during which they may form a cycle.
    let mut left = value.raw.nodes().len();
    while let Some(operand) = rest.pop() {
        if operand.is_leaf() {
            form.key.push(operand.word());
        } else if operand.is_nested() && left > 0 {
            left -= 1;
            // `u32::MAX` and `u32::MAX - 1` are not valid operand words; the operand count delimits the nested expression.
            form.key.extend([u32::MAX, operand.n_operands() as u32]);
            add_head(operand, &mut form.key);
            form.values.push(operand);
            rest.extend(operand.operands().rev());
        } else {
            let next = form.values.len() as u32;
            let place = *known.entry(operand.word()).or_insert(next);
            form.key.extend([u32::MAX - 1, operand.ty().id(), place]);
            if place == next {
                form.values.push(operand);
            }
        }
    }
    form
}

fn add_head(value: Value<'_>, key: &mut Vec<u32>) {
    let payload = value.node().map_or(0, |node| node.a);
    key.extend([u32::from(value.kind()), value.ty().id(), value.attrs().id(), payload]);
}
