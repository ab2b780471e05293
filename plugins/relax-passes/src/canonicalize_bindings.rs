//! Removes bindings that only give another name: aliases, elements of known tuples, casts that cannot fail.
//!
//! *Expects* any function. *Keeps* what is computed. *Never* removes a call.
//!
//! Before: `a = R.add(x, x); b = a; t = (b, x); c = t[0]; return c`. After: `a = R.add(x, x); t = (a, x); return a`.

use plugin_api::ir::records::{flag, kind};
use plugin_api::prelude::*;

declare_pass! {
    /// Removes bindings that only give another name: aliases, elements of known tuples, casts that cannot fail.
    ///
    /// Expects any function. Keeps what is computed. Never removes a call. Outputs of a dataflow block that nothing
    /// outside uses become variables of the block.
    pub function pass CANONICALIZE_BINDINGS = "relax.CanonicalizeBindings" {
        opt_level: 0,
        preserves: ["relax.Normalize", "relax.anf", "relax.no_dataflow"],
        run: canonicalize,
    }
}

/// The pass; others run it at their end.
pub(crate) fn canonicalize(body: &Body, _: &Ctx) -> Result<Body, PassError> {
    let (edit, parents, renewed) = (body.edit(), body.parents(), vec![false; body.len()]);
    let mut pass = Canonicalize { body, edit, parents, renewed, escaped: false };
    pass.demote_outputs();
    for value in body.values().filter(|value| value.is_binding()) {
        let same = match value.view() {
            Expr::Alias(source) | Expr::MatchCast(source) if !source.is_nested() => Some(source),
            Expr::TupleGet { tuple, index } => pass.element(tuple, index),
            Expr::Tuple(tuple) => pass.copied(tuple),
            _ => None,
        };
        if let Some(source) = same.filter(|source| !source.is_leaf()) {
            pass.rename(value, source);
        }
    }
    if pass.escaped {
        pass.promote_escaped();
    }
    pass.use_constants();
    Ok(pass.edit.finish()?)
}

struct Canonicalize<'b> {
    body: &'b Body,
    edit: Edit<'b>,
    parents: Vec<u32>,
    /// Whether a node has become an output, under its name, or has ceased to be one.
    renewed: Vec<bool>,
    /// Whether a variable of a block got uses behind its block.
    escaped: bool,
}

impl<'b> Canonicalize<'b> {
    /// The dataflow block that a node stands in directly.
    fn block(&self, at: usize) -> Option<u32> {
        let parent = self.parents[at];
        (parent != u32::MAX && self.body.value_at(parent as usize).kind() == kind::DATAFLOW).then_some(parent)
    }

    /// Outputs that nothing outside their block uses, nor a function in it, become variables of the block.
    fn demote_outputs(&mut self) {
        let mut used_outside = vec![false; self.body.len()];
        for (user, value) in self.body.values().enumerate() {
            for at in value.operands().filter_map(Value::index) {
                used_outside[at] |= self.block(user) != self.block(at);
            }
        }
        for value in self.body.values().filter(|value| value.is_bound() && !value.has(flag::INNER)) {
            let at = value.index().unwrap_or(0);
            if self.block(at).is_some() && !used_outside[at] {
                let v = self.edit.v(value);
                self.edit.update(v, |node| node.flags |= flag::INNER);
                self.renewed[at] = true;
            }
        }
    }

    /// The element of a tuple that is known here.
    fn element(&self, tuple: Value<'b>, index: u32) -> Option<Value<'b>> {
        let tuple = self.meaning(tuple);
        let element = if tuple.kind() == kind::TUPLE { tuple.operand(index as usize) } else { None };
        element.filter(|element| !element.is_nested())
    }

    /// The tuple that `tuple` takes apart and puts together again.
    fn copied(&self, tuple: Value<'b>) -> Option<Value<'b>> {
        let part = |element: Value<'b>| match self.meaning(element).view() {
            Expr::TupleGet { tuple, index } => Some((self.meaning(tuple), index as usize)),
            _ => None,
        };
        let (source, _) = part(tuple.operand(0)?)?;
        let in_order =
            |(at, element)| part(element).is_some_and(|(of, index)| index == at && of.word() == source.word());
        let whole = source.ty().children().count() == tuple.operands().count();
        (whole && tuple.operands().enumerate().all(in_order)).then_some(source)
    }

    /// What a value means after the replacements so far.
    fn meaning(&self, value: Value<'b>) -> Value<'b> {
        if value.is_leaf() {
            return value;
        }
        let word = self.edit.resolve(self.edit.v(value)).word();
        Value::of_word(self.body, word)
    }

    /// `value` is another name for `source`.
    fn rename(&mut self, value: Value<'b>, source: Value<'b>) {
        let source = self.meaning(source);
        let with = self.edit.v(source);
        if !same_type(value, source) {
            return;
        }
        let (at, from) = (value.index().unwrap_or(0), source.index().unwrap_or(0));
        let is_inner = |v| self.edit.with(v, |value| value.has(flag::INNER) && value.kind() != kind::PARAM);
        if is_inner(with) && self.block(at) != self.block(from) {
            self.escaped = true;
        } else if is_inner(with) && !is_inner(self.edit.v(value)) {
            // The variable itself becomes the output, under the name of the output.
            self.edit.update(with, |node| node.flags &= !flag::INNER);
            if !std::mem::replace(&mut self.renewed[from], true) {
                self.edit.set_name(with, value.name().unwrap_or("gv"));
            }
        }
        self.edit.replace(value, with);
    }

    /// A variable of a block that is now used behind its block is an output again.
    fn promote_escaped(&mut self) {
        for (user, value) in self.body.values().enumerate() {
            if self.edit.is_removed(value) {
                continue;
            }
            for at in value.operands().filter_map(|operand| self.meaning(operand).index()).collect::<Vec<_>>() {
                if self.block(at).is_some() && self.block(user) != self.block(at) {
                    let v = self.edit.v(self.body.value_at(at));
                    self.edit.update(v, |node| node.flags &= !flag::INNER);
                }
            }
        }
    }

    /// Where a variable is known to be a constant, the constant is used. The binding stays.
    fn use_constants(&mut self) {
        let mut uses = Vec::new();
        for value in self.body.values().filter(|value| value.is_binding()) {
            let constant = match value.view() {
                Expr::Alias(source) => Some(source),
                Expr::TupleGet { tuple, index } => self.element(tuple, index),
                _ => None,
            };
            let constant = constant.filter(|constant| matches!(constant.view(), Expr::Const(_)));
            let at = value.index().unwrap_or(0);
            if let Some(constant) = constant
                .filter(|constant| !self.edit.is_removed(value) && !self.renewed[at] && same_type(value, *constant))
            {
                if uses.is_empty() {
                    uses = self.body.use_counts();
                }
                if uses[at] > 0 {
                    let with = self.edit.v(constant);
                    self.edit.forward_to(value, with);
                }
            }
        }
    }
}

fn same_type(a: Value<'_>, b: Value<'_>) -> bool {
    a.ty() == b.ty() || a.ty().to_owned() == b.ty().to_owned()
}
