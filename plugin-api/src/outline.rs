//! Moves a group of bindings into a function of its own: what fusion and grouping passes end with.

use crate::ir::import::Importer;
use crate::ir::records::{flag, kind};
use crate::ir::{Attr, AttrsId, Body, BodyBuilder, Edit, ModuleEdit, NodeSpec, Type, TypeId, V, Value};
use crate::pass::PassError;
use std::collections::BTreeSet;

impl Edit<'_> {
    /// Moves `values` (bindings of one block, in program order) into a new private function of `module` called `hint`
    /// or like it, and puts one call in their place. Its parameters are what the group uses from outside, in the order
    /// of first use; its result is what is used of the group outside, a tuple if that is more than one value. Gives
    /// the name of the function.
    ///
    /// # Errors
    /// If something between the group needs a value of it, if the group has no result, or if a symbolic variable of it
    /// cannot be known from its inputs.
    pub fn outline(
        &mut self,
        module: &mut ModuleEdit,
        values: &[Value<'_>],
        hint: &str,
        attrs: &[(&str, Attr)],
    ) -> Result<String, PassError> {
        let group = Group::new(self.old(), values)?;
        let function = group.function(attrs)?;
        let name = module.add(hint, function.clone());
        self.call_in_place(&group, &function, &name);
        Ok(name)
    }

    fn call_in_place(&mut self, group: &Group<'_>, function: &Body, name: &str) {
        let mut importer = Importer::of(function);
        let ty = importer.ty(self.builder(), function.root().ty());
        let ret = function.function().map_or(TypeId::NONE, |function| importer.ty(self.builder(), function.ret_ty()));
        let callee = self.builder().global_var(name, ty);
        let args: Vec<V> = group.inputs.iter().map(|input| self.v(group.body.value_at(*input))).collect();
        self.before(group.last());
        match group.outputs.as_slice() {
            [output] => {
                let output = group.body.value_at(*output);
                let call = self.call(callee, &args, AttrsId::NONE, ret, false, Some(output.name().unwrap_or("gv")));
                self.take_place(output, call);
            }
            outputs => {
                let call = self.call(callee, &args, AttrsId::NONE, ret, false, Some("lv"));
                self.update(call, |node| node.flags |= group.last().node().map_or(0, |last| last.flags & flag::INNER));
                for (i, output) in outputs.iter().enumerate() {
                    let output = group.body.value_at(*output);
                    let ty = TypeId(output.ty().id());
                    let spec = NodeSpec::new(kind::TUPLE_GET).ty(ty).a(i as u32);
                    let element = self.node(spec, &[call], Some(output.name().unwrap_or("gv")));
                    self.take_place(output, element);
                }
            }
        }
        for value in group.members.iter().map(|at| group.body.value_at(*at)) {
            self.remove(value);
        }
    }

    fn take_place(&mut self, output: Value<'_>, new: V) {
        let inner = output.node().map_or(0, |node| node.flags & flag::INNER);
        self.update(new, |node| node.flags |= inner);
        self.replace(output, new);
    }
}

/// A group of bindings, what it uses, and what is used of it. Positions in the body.
struct Group<'b> {
    body: &'b Body,
    /// With the values nested in them.
    members: BTreeSet<usize>,
    inputs: Vec<usize>,
    outputs: Vec<usize>,
}

impl<'b> Group<'b> {
    fn new(body: &'b Body, values: &[Value<'_>]) -> Result<Group<'b>, PassError> {
        let mut members = BTreeSet::new();
        let mut work: Vec<usize> = values.iter().filter_map(|value| value.index()).collect();
        while let Some(at) = work.pop() {
            members.insert(at);
            let nested = body.value_at(at).operands().filter(|operand| operand.is_nested());
            work.extend(nested.filter_map(Value::index));
        }
        let mut group = Group { body, members, inputs: Vec::new(), outputs: Vec::new() };
        for at in &group.members {
            for operand in body.value_at(*at).operands().filter_map(Value::index) {
                if !group.members.contains(&operand) && !group.inputs.contains(&operand) {
                    group.inputs.push(operand);
                }
            }
        }
        group.find_outputs()?;
        Ok(group)
    }

    fn last(&self) -> Value<'b> {
        self.body.value_at(self.members.last().copied().unwrap_or(0))
    }

    fn find_outputs(&mut self) -> Result<(), PassError> {
        let Some((first, last)) = self.members.first().copied().zip(self.members.last().copied()) else {
            return Err(PassError::new("an empty group cannot become a function"));
        };
        let mut outputs = BTreeSet::new();
        for user in (first..self.body.len()).map(|at| self.body.value_at(at)) {
            let at = user.index().unwrap_or(0);
            if self.members.contains(&at) {
                continue;
            }
            for used in user.operands().filter_map(Value::index).filter(|used| self.members.contains(used)) {
                if at < last {
                    let message = "a value between the group needs one of the group; it cannot become one call";
                    return Err(PassError::new(message).at(user));
                }
                outputs.insert(used);
            }
        }
        if outputs.is_empty() {
            return Err(PassError::new("nothing uses the group; it has no result").at(self.last()));
        }
        self.outputs = outputs.into_iter().collect();
        Ok(())
    }

    fn function(&self, attrs: &[(&str, Attr)]) -> Result<Body, PassError> {
        let mut b = BodyBuilder::new();
        let mut importer = Importer::of(self.body);
        let attrs = b.attrs(attrs.iter().cloned());
        b.begin_function(flag::PRIVATE, attrs, None);
        let mut known = BTreeSet::new();
        for input in self.inputs.iter().map(|at| self.body.value_at(*at)) {
            each_symbol(&input.ty().to_owned(), true, &mut |id| {
                known.insert(id);
            });
            let ty = importer.ty(&mut b, input.ty());
            let param = b.param(input.name().unwrap_or("x"), ty);
            importer.map(input, param);
        }
        b.begin(NodeSpec::new(kind::DATAFLOW), &[], None);
        let mut results = Vec::new();
        for value in self.members.iter().map(|at| self.body.value_at(*at)) {
            self.check_symbols(value, &known)?;
            let copied = importer.copy(&mut b, value);
            let v = copied.ok_or_else(|| PassError::new("the group uses a value that it cannot reach").at(value))?;
            let output = value.index().is_some_and(|at| self.outputs.contains(&at));
            if output {
                b.clear_flags(v, flag::INNER);
                results.push(v);
            } else if value.is_bound() {
                b.add_flags(v, flag::INNER);
            }
        }
        b.end();
        let result = if let [one] = results.as_slice() { *one } else { b.tuple(&results, None) };
        let ret = b.type_of(result);
        b.end_function(result, ret);
        Ok(b.finish()?)
    }

    fn check_symbols(&self, value: Value<'_>, known: &BTreeSet<u32>) -> Result<(), PassError> {
        let mut missing = None;
        each_symbol(&value.ty().to_owned(), false, &mut |id| {
            if !known.contains(&id) {
                missing.get_or_insert(id);
            }
        });
        let Some(id) = missing else { return Ok(()) };
        let name = self.body.sym_name(id).unwrap_or("?");
        Err(PassError::new(format!("the inputs of the group do not tell the symbolic variable `{name}`")).at(value))
    }
}

/// Symbolic variables of a type; with `alone`, only those that stand alone as a dimension.
fn each_symbol(ty: &Type, alone: bool, f: &mut dyn FnMut(u32)) {
    let mut dims = |dims: &[crate::ir::Dim]| {
        for dim in dims {
            match dim {
                crate::ir::Dim::Var(sym) => f(sym.id),
                dim if !alone => dim.vars(&mut |sym| f(sym.id)),
                _ => {}
            }
        }
    };
    match ty {
        Type::Tensor(t) => dims(t.shape.as_deref().unwrap_or(&[])),
        Type::Shape { dims: Some(known), .. } => dims(known),
        Type::Prim { value: Some(value), .. } => dims(std::slice::from_ref(value)),
        Type::Tuple(fields) => fields.iter().for_each(|field| each_symbol(field, alone, f)),
        _ => {}
    }
}
