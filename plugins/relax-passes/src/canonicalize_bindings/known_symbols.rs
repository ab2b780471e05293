//! Replaces symbolic variables that a match_cast defines as a dimension that is already known.

use plugin_api::arith::prove_equal;
use plugin_api::prelude::*;
use plugin_api::typing::infer_types::{infer_types, narrow_results};
use plugin_api::walk::scopes::{Scope, ScopeVisitor, visit_scopes};
use std::collections::{BTreeMap, BTreeSet};

/// Returns the body without known symbolic variables, with updated types. Returns the same handle if none is known.
///
/// # Errors
/// If two match_casts define one variable as different dimensions.
pub(super) fn without_known_symbols(body: &Body, ctx: &Ctx) -> Result<Body, PassError> {
    // Saves the walk over most functions.
    if !body.bindings().any(Value::is_match_cast) {
        return Ok(body.clone());
    }
    let mut walk = Walk {
        edit: body.edit(),
        fixed: fixed(body),
        known: BTreeMap::new(),
        log: Vec::new(),
        open: Vec::new(),
        contradiction: None,
    };
    visit_scopes(body, &mut walk);
    if let Some(contradiction) = walk.contradiction {
        return Err(contradiction);
    }
    let replaced = walk.edit.finish()?;
    if replaced.same(body) {
        return Ok(replaced);
    }
    narrow_results(&infer_types(&replaced, ctx)?, ctx)
}

/// Returns the variables that are kept, because parameters or scalar variables define them, or because they occur in a
/// place that is not rewritten, such as an attribute or the type of a function value.
fn fixed(body: &Body) -> BTreeSet<Sym> {
    let mut fixed = BTreeSet::new();
    let function = body.function().into_iter().flat_map(Function::params);
    function.for_each(|param| param.ty().to_owned().each_dim(true, &mut |dim| add(dim, &mut fixed)));
    for value in body.values() {
        fixed.extend(value.symbol());
        value.attrs().iter().for_each(|(_, attr)| add_attr(&attr.to_owned(), &mut fixed));
        let operands = value.operands().filter(|operand| operand.is_leaf());
        for ty in operands.map(Value::ty).chain([value.ty()]).filter(|_| value.as_function().is_none()) {
            add_functions(&ty.to_owned(), &mut fixed);
        }
    }
    fixed
}

fn add(dim: &Dim, to: &mut BTreeSet<Sym>) {
    dim.vars(&mut |sym| to.extend([sym]));
}

fn add_attr(attr: &Attr, to: &mut BTreeSet<Sym>) {
    match attr {
        Attr::Dim(dim) => add(dim, to),
        Attr::Type(ty) => ty.each_dim(true, &mut |dim| add(dim, to)),
        Attr::List(items) => items.iter().for_each(|item| add_attr(item, to)),
        Attr::Dict(items) => items.iter().for_each(|(_, item)| add_attr(item, to)),
        Attr::Object(_, items) => items.iter().for_each(|(_, item)| add_attr(item, to)),
        _ => {}
    }
}

/// Adds the variables that occur in function types inside a type.
fn add_functions(ty: &Type, to: &mut BTreeSet<Sym>) {
    match ty {
        Type::Callable { .. } => ty.each_dim(true, &mut |dim| add(dim, to)),
        Type::Tuple(fields) => fields.iter().for_each(|field| add_functions(field, to)),
        _ => {}
    }
}

/// The dimension that each variable equals, and the match_cast that defines it.
type Known<'b> = BTreeMap<Sym, (Dim, Value<'b>)>;

struct Walk<'b> {
    edit: Edit<'b>,
    fixed: BTreeSet<Sym>,
    known: Known<'b>,
    /// The known variables, in the order in which they were found.
    log: Vec<Sym>,
    /// The length of `log` at the start of each enclosing branch and function.
    open: Vec<usize>,
    /// The first contradiction between two match_casts.
    contradiction: Option<PassError>,
}

impl<'b> ScopeVisitor<'b> for Walk<'b> {
    fn enter(&mut self, scope: Scope<'b>) {
        if !matches!(scope, Scope::Block(_)) {
            self.open.push(self.log.len());
        }
    }

    /// Drops the facts that were learned inside a branch or function.
    fn leave(&mut self, scope: Scope<'b>) {
        if matches!(scope, Scope::Block(_)) {
            return;
        }
        for sym in self.log.drain(self.open.pop().unwrap_or(0)..) {
            self.known.remove(&sym);
        }
    }

    fn value(&mut self, value: Value<'b>) {
        if self.contradiction.is_some() {
            return;
        }
        if let Expr::MatchCast(source) = value.view() {
            let source = self.edit.with(source, |source| source.ty().to_owned());
            self.contradiction = self.define(&value.ty().to_owned(), &source, value).err();
        }
        if !self.known.is_empty() {
            let known = &self.known;
            self.edit.substitute_symbols(value, &|sym| known.get(&sym).map(|(dim, _)| dim.clone()));
        }
    }
}

impl<'b> Walk<'b> {
    /// Defines each variable that is a whole dimension in the type of a match_cast as the dimension of the value at
    /// that position.
    fn define(&mut self, pattern: &Type, source: &Type, cast: Value<'b>) -> Result<(), PassError> {
        match (pattern, source) {
            (Type::Tensor(a), Type::Tensor(b)) => self.dims(a.shape.as_deref(), b.shape.as_deref(), cast),
            (Type::Shape { dims: a, .. }, Type::Shape { dims: b, .. }) => self.dims(a.as_deref(), b.as_deref(), cast),
            (Type::Tuple(a), Type::Tuple(b)) => a.iter().zip(b).try_for_each(|(a, b)| self.define(a, b, cast)),
            _ => Ok(()),
        }
    }

    fn dims(&mut self, pattern: Option<&[Dim]>, source: Option<&[Dim]>, cast: Value<'b>) -> Result<(), PassError> {
        let (Some(pattern), Some(source)) = (pattern, source) else { return Ok(()) };
        for (dim, found) in pattern.iter().zip(source) {
            let Dim::Var(sym) = dim else { continue };
            match self.known.get(sym) {
                Some((said, first)) if prove_equal(said, found) == Some(false) => {
                    let name = |value: Value<'b>| value.name().unwrap_or("a match_cast").to_string();
                    let sym = self.edit.old().sym_name(sym.id).unwrap_or("n");
                    let (first, second) = (name(*first), name(cast));
                    bail!(at cast, "`{first}` and `{second}` give `{sym}` two different values");
                }
                Some(_) => {}
                None if self.fixed.contains(sym) || sym.dtype != found.dtype() => {}
                None => {
                    self.known.insert(*sym, (found.clone(), cast));
                    self.log.push(*sym);
                }
            }
        }
        Ok(())
    }
}
