//! Maintains the visibility of dataflow variables when values become aliases.

use crate::ir::records::kind;
use crate::ir::{AttrsId, Expr, Type, Value};
use crate::rewrite::{Edit, Operand};
use crate::walk::value_map::ValueSet;
use std::collections::BTreeMap;

impl<'b> Edit<'b> {
    /// Returns the old value that replaces `value`; `value` itself if it is not replaced, or is replaced by a new value.
    pub fn meaning(&self, value: Value<'b>) -> Value<'b> {
        let now = Value::of_word(self.old(), self.resolve(value).word());
        if now.node().is_some() || now.leaf().is_some() { now } else { value }
    }

    /// Replaces the operands of a value for which `f` returns a different value.
    pub fn map_operands(&mut self, value: Value<'b>, f: impl Fn(Value<'b>) -> Value<'b>) {
        for (i, operand) in value.operands().enumerate() {
            let with = f(operand);
            if with != operand {
                self.set_operand(value, i, with);
            }
        }
    }

    /// Turns a binding into an alias of `source`.
    pub fn make_alias(&mut self, value: Value<'b>, source: impl Operand) {
        self.set_operands(value, &[source]);
        self.update(value, |node| (node.kind, node.attrs, node.a) = (kind::ALIAS, AttrsId::NONE.number(), 0));
    }

    /// Redirects every use of a binding to `source`, and removes the binding. If the binding was an output of a dataflow block and `source`
    /// is a variable of that block, `source` becomes the output and is returned. `source` takes the name of the binding, unless it was
    /// already an output. If a merge makes other values visible after their block, call [`Edit::promote_outputs`].
    pub fn merge(&mut self, value: Value<'b>, source: Value<'b>) -> Option<Value<'b>> {
        let hidden = |edit: &Edit<'_>| edit.with(source, |source| source.is_dataflow_var());
        let was_hidden = hidden(self);
        self.replace(value, source);
        if !was_hidden || hidden(self) {
            return None;
        }
        if source.is_dataflow_var() {
            self.set_name(source, value.name().unwrap_or("gv"));
        }
        Some(source).filter(|source| !source.is_leaf())
    }

    /// Turns outputs of dataflow blocks that are used only in their block, and not by a function in it, into variables of the block.
    /// Scalars stay outputs, because types may mention them; so do outputs whose type would become more precise than the types of their
    /// users. Returns the changed variables. Considers only uses in the old body.
    pub fn demote_outputs(&mut self) -> ValueSet<'b> {
        let (body, regions) = (self.old(), self.old().regions());
        let mut used_outside = ValueSet::new(body);
        for user in body.values() {
            let block = regions.dataflow(user);
            for operand in user.operands() {
                if !operand.is_leaf() && regions.dataflow(operand) != block {
                    used_outside.insert(operand);
                }
            }
        }
        let mut demoted = ValueSet::new(body);
        let has_scalars = body.has_scalars();
        let is_output = |value: &Value<'_>| !value.is_dataflow_var() && value.symbol().is_none();
        for output in body.bindings().filter(|value| is_output(value) && regions.dataflow(*value).is_some()) {
            if used_outside.contains(output) || has_scalars && hides_scalars(output) {
                continue;
            }
            self.make_dataflow_var(output);
            demoted.insert(output);
        }
        demoted
    }

    /// Turns variables of dataflow blocks that are now used outside their block, or by a function in it, into outputs. Considers only old
    /// values that remain.
    pub fn promote_outputs(&mut self) {
        if !self.is_dirty() {
            return;
        }
        let (body, regions) = (self.old(), self.old().regions());
        let scalars: BTreeMap<u32, Value<'_>> =
            body.bindings().filter_map(|value| Some((value.symbol()?.id, value))).collect();
        for user in body.values() {
            if self.is_removed(user) {
                continue;
            }
            for operand in user.operands() {
                let operand = self.meaning(operand);
                let block = regions.dataflow(operand);
                if block.is_some() && regions.dataflow(user) != block {
                    self.make_output(operand);
                    self.show_scalars(operand, &scalars);
                }
            }
        }
    }

    /// Also turns the scalars mentioned by the type of an output into outputs.
    fn show_scalars(&mut self, output: Value<'b>, scalars: &BTreeMap<u32, Value<'b>>) {
        if scalars.is_empty() {
            return;
        }
        let mut spoken_of: Vec<Value<'b>> = Vec::new();
        output
            .ty()
            .to_owned()
            .each_dim(true, &mut |dim| dim.vars(&mut |sym| spoken_of.extend(scalars.get(&sym.id).copied())));
        spoken_of.into_iter().for_each(|scalar| self.make_output(scalar));
    }
}

/// Returns true if the type of an alias, tuple or element differs from the type implied by its operands, because the type of an output does
/// not mention the scalars of its block.
fn hides_scalars(output: Value<'_>) -> bool {
    if output.symbol().is_some() || output.operands().any(|operand| !operand.ty().is_known()) {
        return false;
    }
    let of = |operand: Value<'_>| operand.ty().to_owned();
    let inside = match output.view() {
        Expr::Alias(source) if !source.is_nested() => Some(of(source)),
        Expr::Tuple(_) => Some(Type::Tuple(output.operands().map(of).collect())),
        Expr::TupleGet { tuple, index } => match of(tuple) {
            Type::Tuple(fields) => fields.into_iter().nth(index as usize),
            _ => None,
        },
        _ => None,
    };
    inside.is_some_and(|inside| inside != of(output))
}
