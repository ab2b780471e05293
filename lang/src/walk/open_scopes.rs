//! The enclosing scopes during a traversal in program order.

use crate::ir::Value;

/// The entries that a traversal recorded for the enclosing loops, branches and blocks. An entry is removed when the traversal leaves its
/// scope.
///
/// ```
/// use plugin_api::prelude::*;
/// use plugin_api::walk::open_scopes::OpenScopes;
/// use plugin_api::tir::prim_func;
///
/// let body = prim_func(|t| {
///     t.serial("i", 4, |i| t.serial("j", 4, |j| t.evaluate(i + j)));
///     t.evaluate(0);
/// })?;
/// let (mut loops, mut depths) = (OpenScopes::new(), Vec::new());
/// for value in body.values() {
///     loops.go_to(value);
///     match value.stmt() {
///         Some(Stmt::For { var, .. }) => loops.open(value, var),
///         Some(Stmt::Evaluate(_)) => depths.push(loops.len()),
///         _ => {}
///     }
/// }
/// assert_eq!(depths, [2, 0]);
/// # Ok::<(), PassError>(())
/// ```
#[derive(Clone, Debug)]
pub struct OpenScopes<T> {
    /// Each open entry, with the position after the content of its header.
    open: Vec<(usize, T)>,
}

impl<T> Default for OpenScopes<T> {
    fn default() -> Self {
        OpenScopes { open: Vec::new() }
    }
}

impl<T> OpenScopes<T> {
    /// Creates a stack without open scopes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Advances to a value, and closes scopes that do not contain it. Must be called for each value in program order.
    pub fn go_to(&mut self, value: Value<'_>) {
        while self.close_before(value).is_some() {}
    }

    /// Closes the innermost scope if it does not contain a value, and returns its entry; a single step of [`OpenScopes::go_to`].
    pub fn close_before(&mut self, value: Value<'_>) -> Option<T> {
        let at = value.index()?;
        self.open.pop_if(|(end, _)| *end <= at).map(|(_, entry)| entry)
    }

    /// Closes the innermost scope, for scopes still open at the end of a traversal.
    pub fn close(&mut self) -> Option<T> {
        self.open.pop().map(|(_, entry)| entry)
    }

    /// Opens the scope of a header, which is the current value.
    pub fn open(&mut self, header: Value<'_>, entry: T) {
        self.open.push((header.end(), entry));
    }

    /// Returns the number of open scopes.
    pub fn len(&self) -> usize {
        self.open.len()
    }

    /// Returns true if no scope is open.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Returns the entry of the innermost scope.
    pub fn last(&self) -> Option<&T> {
        self.open.last().map(|(_, entry)| entry)
    }

    /// Returns the entry of a scope, where 0 is the outermost.
    pub fn get_mut(&mut self, level: usize) -> Option<&mut T> {
        self.open.get_mut(level).map(|(_, entry)| entry)
    }

    /// Iterates over the entries, the outermost first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &T> {
        self.open.iter().map(|(_, entry)| entry)
    }
}
