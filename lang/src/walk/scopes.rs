//! A walk over functions, branches and blocks, with a call where each begins and ends.

use crate::ir::records::kind;
use crate::ir::{Block, Body, Function, Region, Value};

/// What holds values, and hides some of them from what is outside.
#[derive(Clone, Copy, Debug)]
pub enum Scope<'b> {
    /// A function: that of the body, or one in it.
    Function(Function<'b>),
    /// A branch of an If.
    Branch(Region<'b>),
    /// A block of bindings.
    Block(Block<'b>),
}

/// Sees the values of a body in program order, and where scopes begin and end. Each scope ends as often as it begins.
///
/// ```
/// use plugin_api::prelude::*;
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
    /// A scope begins.
    fn enter(&mut self, _: Scope<'b>) {}

    /// A scope ends.
    fn leave(&mut self, _: Scope<'b>) {}

    /// A parameter, binding, nested expression or If, or the header of a scope, before the scope begins.
    fn value(&mut self, value: Value<'b>);
}

/// Shows a visitor all of a Relax function; of other bodies their values, without scopes.
pub fn visit_scopes<'b>(body: &'b Body, visitor: &mut impl ScopeVisitor<'b>) {
    // Scopes that are open, with the position of their end: a stack of our own, as depth must not cost the thread's.
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
