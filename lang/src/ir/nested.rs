//! The parts of recursive values. Depth and size are limited on construction, so every traversal, including drop, takes bounded stack and
//! time.

use crate::ir::records::MAX_DEPTH;
use crate::ir::types::MAX_SIZE;
use std::fmt;
use std::ops::Deref;

/// A value that may contain values of its own kind.
pub trait Nests {
    /// Returns the number of levels nested in the value; [`TOO_DEEP`] if some were omitted.
    fn depth(&self) -> u32;

    /// Returns the number of values in the value, including itself; [`TOO_LARGE`] if some were omitted.
    fn size(&self) -> u32;
}

/// The depth of a value whose inner parts were omitted.
pub const TOO_DEEP: u32 = u32::MAX;

/// The size of a value whose parts were omitted because it had more than [`MAX_SIZE`] of them.
pub const TOO_LARGE: u32 = u32::MAX;

/// Names and keywords are not counted.
impl<K, T: Nests> Nests for (K, T) {
    fn depth(&self) -> u32 {
        self.1.depth()
    }

    fn size(&self) -> u32 {
        self.1.size()
    }
}

/// The parts of a type, attribute or option value: a list that stores the nesting depth of its items. It can be read like a slice; create it with
/// `vec.into()` or `collect()`, and change it with [`Parts::edit`].
///
/// If the items are nested more than [`MAX_DEPTH`] deep, or contain more than [`MAX_SIZE`] values, they are omitted, and any value that
/// contains them is rejected. The limit is necessary because copies do not share memory: a value that contains two copies of a value that
/// contains two copies, and so on, soon exceeds all memory.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Parts<T> {
    items: Vec<T>,
    depth: u32,
    size: u32,
}

impl<T: Nests> Parts<T> {
    /// Changes the items as a vector.
    pub fn edit<R>(&mut self, change: impl FnOnce(&mut Vec<T>) -> R) -> R {
        let mut items = std::mem::take(&mut self.items);
        let out = change(&mut items);
        *self = items.into();
        out
    }
}

impl<T> Parts<T> {
    /// Returns the nesting depth, from 1; [`TOO_DEEP`] if items were omitted for that reason.
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// Returns the number of values in the items; [`TOO_LARGE`] if items were omitted for that reason.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// Returns true if nothing was omitted.
    pub fn is_whole(&self) -> bool {
        self.depth != TOO_DEEP && self.size != TOO_LARGE
    }
}

impl<T: Nests> From<Vec<T>> for Parts<T> {
    fn from(items: Vec<T>) -> Parts<T> {
        let depth = one_more(items.iter().map(Nests::depth).max().unwrap_or(0));
        let size = bounded(items.iter().fold(0, |all: u32, item| all.saturating_add(item.size())));
        let items = if depth == TOO_DEEP || size == TOO_LARGE { Vec::new() } else { items };
        Parts { items, depth, size }
    }
}

/// Returns the size of parts that consist of `size` values.
fn bounded(size: u32) -> u32 {
    if size <= MAX_SIZE { size } else { TOO_LARGE }
}

/// Returns the depth of a value that contains a value of the given depth.
fn one_more(depth: u32) -> u32 {
    if depth < MAX_DEPTH { depth + 1 } else { TOO_DEEP }
}

impl<T: Nests, const N: usize> From<[T; N]> for Parts<T> {
    fn from(items: [T; N]) -> Parts<T> {
        Vec::from(items).into()
    }
}

impl<T> From<Parts<T>> for Vec<T> {
    fn from(parts: Parts<T>) -> Vec<T> {
        parts.items
    }
}

impl<T: Nests> FromIterator<T> for Parts<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Parts<T> {
        Vec::from_iter(items).into()
    }
}

impl<T> Default for Parts<T> {
    fn default() -> Parts<T> {
        Parts { items: Vec::new(), depth: 1, size: 0 }
    }
}

impl<T> Deref for Parts<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.items
    }
}

impl<T> IntoIterator for Parts<T> {
    type Item = T;
    type IntoIter = std::vec::IntoIter<T>;

    fn into_iter(self) -> Self::IntoIter {
        self.items.into_iter()
    }
}

impl<'a, T> IntoIterator for &'a Parts<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.items.iter()
    }
}

impl<T: fmt::Debug> fmt::Debug for Parts<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Parts { depth: TOO_DEEP, .. } => f.write_str("[too deep]"),
            Parts { size: TOO_LARGE, .. } => f.write_str("[too large]"),
            Parts { items, .. } => items.fmt(f),
        }
    }
}

/// One part of a type, on the heap. It has the same limits as the items of [`Parts`]: a part that is too deep or too large becomes the default.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Part<T> {
    inner: Box<T>,
    depth: u32,
    size: u32,
}

impl<T> Part<T> {
    /// Returns the nesting depth, from 1; [`TOO_DEEP`] if the part was omitted for that reason.
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// Returns the number of values in the part; [`TOO_LARGE`] if it was omitted for that reason.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// Returns the part itself.
    pub fn into_inner(self) -> T {
        *self.inner
    }
}

impl<T: Nests + Default> Part<T> {
    /// Changes the part.
    pub fn edit<R>(&mut self, change: impl FnOnce(&mut T) -> R) -> R {
        let mut inner = std::mem::take(&mut *self.inner);
        let out = change(&mut inner);
        *self = inner.into();
        out
    }
}

impl<T: Nests + Default> From<T> for Part<T> {
    fn from(inner: T) -> Part<T> {
        let (depth, size) = (one_more(inner.depth()), bounded(inner.size()));
        let inner = if depth == TOO_DEEP || size == TOO_LARGE { Box::default() } else { Box::new(inner) };
        Part { inner, depth, size }
    }
}

impl<T> Deref for Part<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T: fmt::Debug> fmt::Debug for Part<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Part { depth: TOO_DEEP, .. } => f.write_str("too deep"),
            Part { size: TOO_LARGE, .. } => f.write_str("too large"),
            Part { inner, .. } => inner.fmt(f),
        }
    }
}
