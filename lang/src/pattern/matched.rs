//! The result of a match.

use super::capture::CaptureKey;
use crate::PassError;
use crate::ir::records::{LEAF_BIT, NONE};
use crate::ir::types::dim_at;
use crate::ir::{Body, Dim, Value};
use std::fmt;

/// A match: the value that a pattern matched, and the captures.
///
/// ```
/// use plugin_api::prelude::*;
/// use plugin_api::pattern::Matcher;
///
/// let pattern = is_op("relax.add", [is_op("relax.nn.relu", [wildcard().bind("x")]), wildcard().bind("y")]);
/// # let (body, [relu, twice, _]) = plugin_api::pattern::example();
/// let found = Matcher::new(&pattern).on(&body).at(twice).expect("a match");
/// let [x, y] = found.values(["x", "y"])?;
/// assert_eq!((found.root(), x.name(), y), (twice, Some("x"), relu));
/// assert_eq!(found.inner(), [relu, twice]);
/// # Ok::<(), PassError>(())
/// ```
pub struct Match<'b> {
    pub(super) body: &'b Body,
    pub(super) root: Value<'b>,
    /// The captures by name, with their values: operand words, dimension ids, or [`NONE`].
    pub(super) captured: Vec<(String, u32)>,
    /// The positions of nodes that were matched as calls, tuples and elements, in order.
    pub(super) inner: Vec<u32>,
}

/// The prefix that distinguishes named dimensions from captures.
pub(super) const DIM: char = '#';

impl<'b> Match<'b> {
    /// Returns the value that the whole pattern matched.
    pub fn root(&self) -> Value<'b> {
        self.root
    }

    /// Returns the captured value: as a [`Value`] if the key is a name, otherwise as the type of the [`Capture`](super::Capture).
    ///
    /// # Errors
    /// If the pattern lacks a capture of that name, or the capture is in a part that was not used in this match.
    pub fn get<K: CaptureKey>(&self, key: K) -> Result<K::Of<'b>, PassError> {
        let value = self.word(key.name())?;
        let missing = || PassError::new(format!("the capture `{}` has a different kind", key.name()));
        key.of(Value::of_word(self.body, value)).ok_or_else(missing)
    }

    /// Returns the value of a capture that may be unused, such as one in an alternative or in an optional part.
    ///
    /// ```
    /// use plugin_api::prelude::*;
    /// use plugin_api::pattern::Matcher;
    ///
    /// let pattern = is_op("relax.nn.relu", ..).bind("relu") | wildcard().bind("other");
    /// # let (body, [relu, ..]) = plugin_api::pattern::example();
    /// let found = Matcher::new(&pattern).on(&body).at(relu).expect("a match");
    /// assert!(found.try_get("relu").is_some() && found.try_get("other").is_none());
    /// ```
    pub fn try_get<K: CaptureKey>(&self, key: K) -> Option<K::Of<'b>> {
        self.get(key).ok()
    }

    /// Returns several captured values as an array: `let [x, w] = found.values(["x", "w"])?;`.
    ///
    /// # Errors
    /// As for [`Match::get`].
    pub fn values<const N: usize>(&self, names: [&str; N]) -> Result<[Value<'b>; N], PassError> {
        let mut values = [self.root; N];
        for (value, name) in values.iter_mut().zip(names) {
            *value = self.get(name)?;
        }
        Ok(values)
    }

    /// Returns the dimension that matched a name in [`Pattern::shape`](super::Pattern::shape).
    ///
    /// # Errors
    /// As for [`Match::get`].
    pub fn dim(&self, name: &str) -> Result<Dim, PassError> {
        Ok(dim_at(self.body.raw(), self.word(&format!("{DIM}{name}"))?))
    }

    /// Returns the calls, tuples and elements of tuples that the pattern describes, in program order: the root, and the values between the
    /// root and the wildcards. Values matched only by a wildcard, constant or parameter pattern are not included.
    pub fn inner(&self) -> Vec<Value<'b>> {
        self.inner.iter().map(|at| self.body.value_at(*at as usize)).collect()
    }

    /// Returns the bindings among [`Match::inner`], as needed by [`Edit::outline`](crate::rewrite::Edit::outline).
    ///
    /// ```
    /// use plugin_api::prelude::*;
    /// use plugin_api::pattern::Matcher;
    ///
    /// # let (body, [relu, twice, _]) = plugin_api::pattern::example();
    /// let pattern = is_op("relax.add", ..).arg(0, is_op("relax.nn.relu", ..));
    /// let found = Matcher::new(&pattern).on(&body).at(twice).expect("a match");
    /// assert_eq!(found.bindings(), [relu, twice]);
    /// ```
    pub fn bindings(&self) -> Vec<Value<'b>> {
        self.inner().into_iter().filter(|value| value.is_binding()).collect()
    }

    fn word(&self, name: &str) -> Result<u32, PassError> {
        match self.captured.iter().find(|(known, _)| known == name) {
            Some((_, word)) if *word != NONE => Ok(*word),
            Some(_) => Err(PassError::new(format!(
                "the capture `{}` is in a part of the pattern that this match did not use; use `try_get`, which returns `None` for it",
                name.trim_start_matches(DIM)
            ))),
            None => Err(PassError::new(format!(
                "the pattern does not capture `{}`; it captures {}",
                name.trim_start_matches(DIM),
                self.names()
            ))),
        }
    }

    /// Returns the names of the captures, for messages.
    fn names(&self) -> String {
        let names: Vec<String> =
            self.captured.iter().map(|(name, _)| format!("`{}`", name.trim_start_matches(DIM))).collect();
        if names.is_empty() { "nothing".to_string() } else { names.join(", ") }
    }
}

impl fmt::Debug for Match<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = self.captured.iter().filter(|(name, word)| *word != NONE && !name.starts_with(DIM));
        let known: Vec<(&str, Value<'_>)> =
            known.map(|(name, word)| (name.as_str(), Value::of_word(self.body, *word))).collect();
        f.debug_struct("Match").field("root", &self.root).field("captured", &known).finish()
    }
}

/// Returns true if a word refers to a node.
pub(super) fn is_node(word: u32) -> bool {
    word & LEAF_BIT == 0
}
