//! Which variables of a dataflow block are visible outside of it, while values become other names for others.

use crate::ir::records::flag;
use crate::ir::{AttrsId, Type, Value, records::kind};
use crate::rewrite::Edit;
use std::collections::{BTreeMap, BTreeSet};

impl<'b> Edit<'b> {
    /// The value of the old body that stands for `value` now; `value` itself where it stands, or where something new
    /// stands for it.
    pub fn meaning(&self, value: Value<'b>) -> Value<'b> {
        let now = Value::of_word(self.old(), self.resolve(self.v(value)).word());
        if now.node().is_some() || now.leaf().is_some() { now } else { value }
    }

    /// Replaces those operands of a value for which `f` gives another value.
    pub fn map_operands(&mut self, value: Value<'b>, f: impl Fn(Value<'b>) -> Value<'b>) {
        for (i, operand) in value.operands().enumerate() {
            let with = f(operand);
            if with != operand {
                let (v, with) = (self.v(value), self.v(with));
                self.set_operand(v, i, with);
            }
        }
    }

    /// The binding stays, as another name for `source`.
    pub fn make_alias(&mut self, value: Value<'b>, source: Value<'b>) {
        let (v, source) = (self.v(value), self.v(source));
        self.set_operands(v, &[source]);
        self.update(v, |node| (node.kind, node.attrs, node.a) = (kind::ALIAS, AttrsId::NONE.number(), 0));
    }

    /// Every use of a binding means `source` from now on, and the binding goes. If it was an output of a dataflow block,
    /// and `source` is a variable of that block, then `source` becomes the output, under the name of the binding unless
    /// it has been an output itself: then this gives its position. What is used behind its block only after the merge
    /// is left to [`Edit::promote_outputs`].
    pub fn merge(&mut self, value: Value<'b>, source: Value<'b>) -> Option<usize> {
        let with = self.v(source);
        let hidden = |edit: &Edit<'_>| edit.with(with, |v| v.has(flag::INNER));
        let was_hidden = hidden(self);
        self.replace(value, with);
        if !was_hidden || hidden(self) {
            return None;
        }
        if source.has(flag::INNER) {
            self.set_name(with, value.name().unwrap_or("gv"));
        }
        source.index()
    }

    /// Outputs of dataflow blocks that nothing outside of their block uses, nor a function in it, become variables of
    /// the block; scalars stay, of which types may speak. Gives their positions. Uses are those of the old body.
    pub fn demote_outputs(&mut self) -> BTreeSet<usize> {
        let (body, regions) = (self.old(), self.old().regions());
        let mut used_outside = vec![false; body.len()];
        for user in body.values() {
            for operand in user.operands() {
                if let Some(at) = operand.index().filter(|_| regions.dataflow(user) != regions.dataflow(operand)) {
                    used_outside[at] = true;
                }
            }
        }
        let mut demoted = BTreeSet::new();
        let has_scalars = body.bindings().any(|value| value.symbol().is_some());
        let is_output = |value: &Value<'_>| !value.has(flag::INNER) && value.symbol().is_none();
        for output in body.bindings().filter(|value| is_output(value) && regions.dataflow(*value).is_some()) {
            if let Some(at) = output.index().filter(|at| !used_outside[*at]) {
                let v = self.v(output);
                self.update(v, |node| node.flags |= flag::INNER);
                if has_scalars {
                    self.tell_type(output);
                }
                demoted.insert(at);
            }
        }
        demoted
    }

    /// Inside of its block, the type of another name, a tuple or an element is that of what it is made of. Outside, it says
    /// nothing of the scalars of the block.
    pub fn tell_type(&mut self, value: Value<'b>) {
        // A scalar variable is a symbolic variable, whatever it is made of.
        if value.symbol().is_some() {
            return;
        }
        let now = |operand: Value<'b>| self.with(self.v(operand), |operand| operand.ty().to_owned());
        let known = value.operands().all(|operand| operand.ty().is_known());
        let ty = match (value.kind(), value.operand(0)) {
            (kind::ALIAS, Some(source)) if known && !source.is_nested() => now(source),
            (kind::TUPLE, _) if known => Type::Tuple(value.operands().map(now).collect()),
            (kind::TUPLE_GET, Some(tuple)) if known => {
                let element = value.as_tuple_get().map_or(0, |(_, index)| index as usize);
                let Type::Tuple(fields) = now(tuple) else { return };
                let Some(field) = fields.into_iter().nth(element) else { return };
                field
            }
            _ => return,
        };
        if ty != value.ty().to_owned() {
            let v = self.v(value);
            self.set_type(v, &ty);
        }
    }

    /// Variables of dataflow blocks that are used outside of their block now, or by a function in it, become outputs.
    /// Looks at what is left of the old body.
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
                    let v = self.v(operand);
                    self.update(v, |node| node.flags &= !flag::INNER);
                    self.show_scalars(operand, &scalars);
                }
            }
        }
    }

    /// The scalars of which the type of an output speaks become outputs, too.
    fn show_scalars(&mut self, output: Value<'b>, scalars: &BTreeMap<u32, Value<'b>>) {
        if scalars.is_empty() {
            return;
        }
        let mut spoken_of: Vec<Value<'b>> = Vec::new();
        output
            .ty()
            .to_owned()
            .each_dim(true, &mut |dim| dim.vars(&mut |sym| spoken_of.extend(scalars.get(&sym.id).copied())));
        for scalar in spoken_of {
            let v = self.v(scalar);
            self.update(v, |node| node.flags &= !flag::INNER);
        }
    }
}
