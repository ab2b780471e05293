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
    let mut pass = Canonicalize { body, edit: body.edit(), parents: body.parents(), renamed: vec![false; body.len()] };
    pass.demote_outputs();
    for value in body.values().filter(|value| value.is_binding()) {
        let same = match value.view() {
            Expr::Alias(source) | Expr::MatchCast(source) if !source.is_nested() => Some(source),
            Expr::TupleGet { tuple, index } => pass.element(tuple, index),
            _ => None,
        };
        if let Some(source) = same {
            pass.rename(value, source);
        }
    }
    Ok(pass.edit.finish()?)
}

struct Canonicalize<'b> {
    body: &'b Body,
    edit: Edit<'b>,
    parents: Vec<u32>,
    /// Whether a node has the name of an output already.
    renamed: Vec<bool>,
}

impl<'b> Canonicalize<'b> {
    /// The dataflow block that a node stands in directly.
    fn block(&self, at: usize) -> Option<u32> {
        let parent = self.parents[at];
        (parent != u32::MAX && self.body.value_at(parent as usize).kind() == kind::DATAFLOW).then_some(parent)
    }

    /// Outputs that nothing outside their block uses become variables of the block.
    fn demote_outputs(&mut self) {
        let mut used_outside = vec![false; self.body.len()];
        for value in self.body.values() {
            for at in value.operands().filter_map(Value::index) {
                let block = self.block(at).map(|header| self.body.value_at(header as usize).region().range());
                used_outside[at] |= block.is_some_and(|range| !range.contains(&value.index().unwrap_or(0)));
            }
        }
        for value in self.body.values().filter(|value| value.is_bound() && !value.has(flag::INNER)) {
            let at = value.index().unwrap_or(0);
            if self.block(at).is_some() && !used_outside[at] {
                let v = self.edit.v(value);
                self.edit.update(v, |node| node.flags |= flag::INNER);
            }
        }
    }

    /// The element of a tuple that is known here.
    fn element(&self, tuple: Value<'b>, index: u32) -> Option<Value<'b>> {
        let tuple = self.meaning(tuple);
        let element = if tuple.kind() == kind::TUPLE { tuple.operand(index as usize) } else { None };
        element.filter(|element| !element.is_nested() && !element.is_leaf())
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
        if source.is_leaf() {
            let constant = matches!(source.view(), Expr::Const(_)) && value.kind() == kind::ALIAS;
            if constant && !value.has(flag::INNER) {
                self.edit.forward_to(value, with);
            }
            return;
        }
        if !same_type(value, source) {
            return;
        }
        let (at, from) = (value.index().unwrap_or(0), source.index().unwrap_or(0));
        let output = self.block(at).is_some() && !self.edit.with(self.edit.v(value), |value| value.has(flag::INNER));
        let inner = self.edit.with(with, |source| source.has(flag::INNER) && source.kind() != kind::PARAM);
        if output && inner {
            // The variable itself becomes the output, under the name of the output.
            self.edit.update(with, |node| node.flags &= !flag::INNER);
            if !std::mem::replace(&mut self.renamed[from], true) {
                self.edit.set_name(with, value.name().unwrap_or("gv"));
            }
        }
        self.edit.replace(value, with);
    }
}

fn same_type(a: Value<'_>, b: Value<'_>) -> bool {
    a.ty() == b.ty() || a.ty().to_owned() == b.ty().to_owned()
}
