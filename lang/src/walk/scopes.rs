//! Traverses functions, branches and blocks, with hooks at the start and end of each.

use crate::ir::records::kind;
use crate::ir::{Block, Body, Function, Region, Value};

/// A region of values, some of which may be hidden outside.
#[derive(Clone, Copy, Debug)]
pub enum Scope<'b> {
    /// The root function or a nested function.
    Function(Function<'b>),
    /// A branch of an If.
    Branch(Region<'b>),
    /// A block of bindings.
    Block(Block<'b>),
}

/// Visits the values of a body in program order, and the beginning and end of each scope. Calls of `enter` and `leave` are always
/// paired.
///
/// ```
/// use plugin_api::prelude::*;
/// use plugin_api::walk::scopes::{Scope, ScopeVisitor, visit_scopes};
///
/// /// Bindings that are in a branch.
/// #[derive(Default)]
/// struct InBranches {
///     depth: usize,
///     found: usize,
/// }
///
/// impl<'b> ScopeVisitor<'b> for InBranches {
///     fn enter(&mut self, scope: Scope<'b>) {
///         self.depth += usize::from(matches!(scope, Scope::Branch(_)));
///     }
///     fn leave(&mut self, scope: Scope<'b>) {
///         self.depth -= usize::from(matches!(scope, Scope::Branch(_)));
///     }
///     fn value(&mut self, value: Value<'b>) {
///         self.found += usize::from(self.depth > 0 && value.is_binding());
///     }
/// }
///
/// fn in_branches(function: &Body) -> usize {
///     let mut visitor = InBranches::default();
///     visit_scopes(function, &mut visitor);
///     visitor.found
/// }
/// ```
pub trait ScopeVisitor<'b> {
    /// Visits the beginning of a scope.
    fn enter(&mut self, _: Scope<'b>) {}

    /// Visits the end of a scope.
    fn leave(&mut self, _: Scope<'b>) {}

    /// Visits a parameter, binding, nested expression or If, or the header of a scope before the scope begins.
    fn value(&mut self, value: Value<'b>);
}

/// Visits a whole Relax function; for other bodies, visits only the values.
pub fn visit_scopes<'b>(body: &'b Body, visitor: &mut impl ScopeVisitor<'b>) {
    // Open scopes with the positions of their ends: an explicit stack, so that deep nesting does not exhaust the thread's stack.
    let mut open: Vec<(usize, Scope<'b>)> = Vec::new();
    for value in body.values() {
        while let Some((_, scope)) = open.pop_if(|(end, _)| value.index().is_some_and(|at| *end <= at)) {
            visitor.leave(scope);
        }
        visitor.value(value);
        if let Some(scope) = scope_of(value) {
            open.push((value.end(), scope));
            visitor.enter(scope);
        }
    }
    while let Some((_, scope)) = open.pop() {
        visitor.leave(scope);
    }
}

fn scope_of(value: Value<'_>) -> Option<Scope<'_>> {
    match value.kind() {
        kind::FUNC => value.as_function().map(Scope::Function),
        kind::BRANCH => Some(Scope::Branch(value.region())),
        _ => value.as_block().map(Scope::Block),
    }
}
