//! Moves a group of bindings into a new function: the last step of fusion and grouping passes.

use crate::PassError;
use crate::ir::make::import::Importer;
use crate::ir::records::{NONE, flag, kind, leaf, tykind};
use crate::ir::{
    Attr, AttrView, AttrsId, Body, BodyBuilder, Dim, ModuleEdit, NodeSpec, Sym, Ty, Type, TypeId, V, Value,
};
use crate::rewrite::Edit;
use crate::walk::in_place::InPlace;
use crate::walk::users::{Users, statement_in};
use std::collections::{BTreeMap, BTreeSet};

/// The position of a node while groups are outlined: old position; before (0), at (1) or after (2) it; insertion order.
type Key = (u32, u8, u32);

/// State kept between the groups of an edit, so that the cost of each group depends only on its size.
#[derive(Default)]
pub(crate) struct Groups {
    facts: Option<Facts>,
    /// Nodes that were moved: members of groups, and statements moved after a call.
    moved: BTreeMap<usize, (Key, crate::rewrite::edit::Place)>,
}

/// Facts about a body that all groups need; computed once.
struct Facts {
    users: Users,
    parents: Vec<u32>,
    /// For each symbolic variable, the first node whose type mentions it.
    first_seen: Vec<usize>,
    /// True if a call may write to an argument.
    has_writes: bool,
}

impl Facts {
    fn of(body: &Body) -> Facts {
        let raw = body.raw();
        let mut first_seen = vec![usize::MAX; raw.var_names().len()];
        let mut looked_at = vec![first_seen.is_empty(); raw.types().len()];
        for (at, value) in body.values().enumerate() {
            let Some(known) = looked_at.get_mut(value.ty().id() as usize) else { continue };
            if !std::mem::replace(known, true) {
                each_symbol(value.ty(), false, &mut |sym| {
                    let first = &mut first_seen[sym.id as usize];
                    *first = at.min(*first);
                });
            }
        }
        let has_writes = !InPlace::of(body).is_empty();
        Facts { users: body.users(), parents: body.parents(), first_seen, has_writes }
    }
}

impl Edit<'_> {
    /// Moves `values`, bindings of one block, into a new private function of `module`, and calls it once. The function is named `hint`,
    /// with a number if that name is taken. Returns the name.
    ///
    /// | part of the function | content |
    /// |---|---|
    /// | parameters | the values that the group uses and does not define, in the order of first use |
    /// | last parameter | if necessary, a shape with the symbolic variables that the other parameters' types do not determine |
    /// | result | the values of the group that are used outside it: a single value or a tuple |
    ///
    /// The call replaces the last binding of the group. An earlier binding that uses the group is moved after the call, or the call is
    /// moved up. Groups of the same edit must not share bindings.
    ///
    /// `a = exp(x); b = relu(a)` becomes `b = fused(x)`:
    ///
    /// ```
    /// use plugin_api::prelude::*;
    /// use plugin_api::ir::{AttrsId, BodyBuilder};
    ///
    /// # let mut b = BodyBuilder::new();
    /// # b.begin_function(0, AttrsId::NONE, None);
    /// # let ty = b.ty(&Type::tensor([2, 3], DType::F32));
    /// # let (x, exp, relu) = (b.param("x", ty), b.op("relax.exp"), b.op("relax.nn.relu"));
    /// # b.begin_block();
    /// # let a = b.call(exp, &[x], AttrsId::NONE, ty, false, Some("a"));
    /// # let c = b.call(relu, &[a], AttrsId::NONE, ty, false, Some("b"));
    /// # b.end();
    /// # b.end_function(c, ty);
    /// # let body = b.finish()?;
    /// // def main(x: R.Tensor((2, 3), "float32")):
    /// //     a = R.exp(x)
    /// //     b = R.nn.relu(a)
    /// //     return b
    /// let module = Module::new([("main", body.clone())]);
    /// let (mut functions, mut edit) = (module.edit(), body.edit());
    /// let group = ["a", "b"].map(|name| body.lookup_binding(name).expect("a binding"));
    /// let name = edit.outline(&mut functions, &group, "fused", &[("Primitive", Attr::Bool(true))])?;
    /// functions.set("main", edit.finish()?);
    /// let module = functions.finish();
    ///
    /// assert_eq!(name, "fused");
    /// let main = module.get("main").expect("`main`");
    /// assert_eq!(main.bindings().filter_map(|value| value.as_call()?.global()).collect::<Vec<_>>(), ["fused"]);
    /// assert_eq!(module.get("fused").expect("`fused`").bindings().count(), 2);
    /// # Ok::<(), PassError>(())
    /// ```
    ///
    /// # Errors
    /// If the group cannot be one call: an outer binding both uses the group and is used by it; an effectful binding would have to be
    /// moved; a member has an effect; the group is unused; or a call between its members writes to values that they read (see
    /// [`InPlace::may_group`]).
    pub fn outline(
        &mut self,
        module: &mut ModuleEdit,
        values: &[Value<'_>],
        hint: &str,
        attrs: &[(&str, Attr)],
    ) -> Result<String, PassError> {
        let facts = self.groups.facts.take().unwrap_or_else(|| Facts::of(self.old()));
        let done = self.outline_with(&facts, module, values, hint, attrs);
        self.groups.facts = Some(facts);
        done
    }

    fn outline_with(
        &mut self,
        facts: &Facts,
        module: &mut ModuleEdit,
        values: &[Value<'_>],
        hint: &str,
        attrs: &[(&str, Attr)],
    ) -> Result<String, PassError> {
        let group = Group::new(self.old(), facts, values)?;
        if let Some(taken) = group.members.iter().find(|at| self.groups.moved.contains_key(*at)) {
            let value = group.body.value_at(*taken);
            let what = value.name().map_or("an expression of the group".to_string(), |name| format!("`{name}`"));
            let message = format!(
                "{what} is already in another group, or was moved after one; outline groups that do not share bindings"
            );
            return Err(PassError::new(message).at(value));
        }
        let behind = self.find_place(&group, facts)?;
        if facts.has_writes {
            group.stays_right(self.place().position().0 as usize, &behind)?;
        }
        let function = group.function(attrs)?;
        let name = module.add(hint, function.clone());
        self.put_call(&group, &function, &name);
        for value in behind.into_iter().map(|at| group.body.value_at(at)) {
            let key = self.key_here();
            self.move_here(value);
            self.groups.moved.insert(value.index().unwrap_or(0), (key, self.place()));
        }
        Ok(name)
    }

    fn put_call(&mut self, group: &Group<'_>, function: &Body, name: &str) {
        let body = group.body;
        let mut importer = Importer::of(function);
        let ty = importer.ty(self.builder(), function.root().ty());
        let callee = self.builder().global_var(name, ty);
        let mut args: Vec<V> = group.inputs.iter().map(|input| self.v(body.value_at(*input))).collect();
        if !group.extra.is_empty() {
            let dims: Vec<Dim> = group.extra.iter().map(|sym| Dim::Var(*sym)).collect();
            args.push(self.builder().shape(&dims));
        }
        let (key, place) = (self.key_here(), self.place());
        for at in &group.members {
            self.groups.moved.insert(*at, (key, place));
            self.discard(body.value_at(*at));
        }
        let outputs: Vec<Value<'_>> = group.outputs.iter().map(|at| body.value_at(*at)).collect();
        if let [output] = outputs.as_slice() {
            let ty = TypeId(output.ty().id());
            let call = self.call(callee, &args, AttrsId::NONE, ty, false, Some(output.name().unwrap_or("gv")));
            return self.take_place(*output, call);
        }
        let types: Vec<Type> = outputs.iter().map(|output| output.ty().to_owned()).collect();
        let ty = self.builder().ty(&Type::tuple(types));
        let call = self.call(callee, &args, AttrsId::NONE, ty, false, Some("lv"));
        let in_dataflow = body.value_at(group.header as usize).kind() == kind::DATAFLOW;
        self.update(call, |node| node.flags |= if in_dataflow { flag::INNER } else { 0 });
        for (i, output) in outputs.into_iter().enumerate() {
            let spec = NodeSpec::new(kind::TUPLE_GET).ty(TypeId(output.ty().id())).a(i as u32);
            let element = self.node(spec, &[call], Some(output.name().unwrap_or("gv")));
            self.take_place(output, element);
        }
    }

    fn take_place(&mut self, output: Value<'_>, new: V) {
        let inner = output.node().map_or(0, |node| node.flags & flag::INNER);
        self.update(new, |node| node.flags |= inner);
        self.replace(output, new);
    }

    /// Returns the key of the next insertion.
    fn key_here(&self) -> Key {
        let (at, before) = self.place().position();
        if before { (at, 0, self.n_inserted()) } else { (at - 1, 2, self.n_inserted()) }
    }

    /// Sets the place for the call of a group; returns the statements that must follow it.
    fn find_place(&mut self, group: &Group<'_>, facts: &Facts) -> Result<Vec<usize>, PassError> {
        let (body, users, parents) = (group.body, &facts.users, facts.parents.as_slice());
        let latest = group.inputs.iter().map(|at| (self.defined(body.value_at(*at)), *at)).max();
        let statement = |at: usize| statement_in(body, parents, users, group.header, at);
        let mut needy: BTreeSet<usize> = BTreeSet::new();
        for output in &group.outputs {
            needy.extend(group.outside(users.at(*output)).map(statement));
        }
        let earliest = needy.iter().map(|at| self.needed(body.value_at(*at))).min();
        let fits = |key: Key| latest.is_none_or(|(at, _)| at < key) && earliest.is_none_or(|at| key < at);
        self.before(group.last());
        let at_last = self.key_here();
        if fits(at_last) {
            return Ok(Vec::new());
        }
        match latest {
            Some((_, input)) if self.groups.moved.contains_key(&input) => {
                let (_, place) = self.groups.moved[&input];
                self.set_place(place);
            }
            Some((_, input)) if parents[input] == group.header && body.value_at(input).kind() != kind::PARAM => {
                self.after(body.value_at(input));
            }
            _ => {
                self.before(group.first());
            }
        }
        if fits(self.key_here()) {
            return Ok(Vec::new());
        }
        self.before(group.last());
        self.dependents(group, users, needy, at_last, &statement)
    }

    /// Returns the statements before the last binding of the group that depend on the group. They can follow the call, unless the group
    /// needs one of them.
    fn dependents(
        &self,
        group: &Group<'_>,
        users: &Users,
        needy: BTreeSet<usize>,
        limit: Key,
        statement: &dyn Fn(usize) -> usize,
    ) -> Result<Vec<usize>, PassError> {
        let body = group.body;
        let early = |at: &usize| self.needed(body.value_at(*at)) < limit;
        let mut behind: BTreeSet<usize> = needy.into_iter().filter(early).collect();
        let mut work: Vec<usize> = behind.iter().copied().collect();
        while let Some(at) = work.pop() {
            let value = body.value_at(at);
            let name = value.name().unwrap_or("_");
            if group.inputs.contains(&at) {
                let message =
                    format!("`{name}` needs the group, and the group needs `{name}`; they cannot become one call");
                return Err(PassError::new(message).at(value));
            }
            if group.members.contains(&at)
                || value.has(flag::REGION)
                || value.has_effect()
                || self.groups.moved.contains_key(&at)
            {
                let message = format!("`{name}` needs a part of the group, and cannot be moved after it");
                return Err(PassError::new(message).at(value));
            }
            work.extend(
                users.at(at).iter().map(|user| statement(*user as usize)).filter(early).filter(|at| behind.insert(*at)),
            );
        }
        if let Some(late) = group.inputs.iter().find(|at| self.defined(body.value_at(**at)) >= limit) {
            let message =
                format!("`{}` is computed after the group needs it", body.value_at(*late).name().unwrap_or("_"));
            return Err(PassError::new(message).at(body.value_at(*late)));
        }
        Ok(behind.into_iter().collect())
    }

    /// Returns the earliest position at which a value can be used.
    fn defined(&self, value: Value<'_>) -> Key {
        let at = value.index().unwrap_or(0);
        self.groups.moved.get(&at).map_or((value.end() as u32 - 1, 1, 0), |(key, _)| *key)
    }

    /// Returns the position at which a statement needs its operands.
    fn needed(&self, value: Value<'_>) -> Key {
        let at = value.index().unwrap_or(0);
        self.groups.moved.get(&at).map_or_else(|| (self.start_of(value), 1, 0), |(key, _)| *key)
    }
}

/// A group of bindings with its inputs and outputs, as positions in the body.
struct Group<'b> {
    body: &'b Body,
    /// The region that contains all members.
    header: u32,
    /// The members, including the values nested in them, and the content of regions.
    members: BTreeSet<usize>,
    inputs: Vec<usize>,
    outputs: Vec<usize>,
    /// Symbolic variables that the inputs do not determine.
    extra: Vec<Sym>,
}

impl<'b> Group<'b> {
    fn new(body: &'b Body, facts: &Facts, values: &[Value<'_>]) -> Result<Group<'b>, PassError> {
        let (users, parents) = (&facts.users, &facts.parents);
        let mut members = BTreeSet::new();
        let mut work: Vec<usize> = values.iter().filter_map(|value| value.index()).collect();
        let Some(header) = work.first().map(|at| parents[*at]) else {
            return Err(PassError::new("an empty group cannot become a function"));
        };
        while let Some(at) = work.pop() {
            let value = body.value_at(at);
            if value.has_effect() || parents[at] != header || !(value.is_binding() || value.is_nested()) {
                let message = "only bindings of one block that are free of side effects can become a function";
                return Err(PassError::new(message).at(value));
            }
            members.extend(at..value.end());
            let operands = value.operands().chain(value.region().nodes().flat_map(Value::operands));
            work.extend(
                operands
                    .filter(|operand| operand.is_nested())
                    .filter_map(Value::index)
                    .filter(|at| parents[*at] == header),
            );
        }
        let mut group = Group { body, header, members, inputs: Vec::new(), outputs: Vec::new(), extra: Vec::new() };
        let mut seen = BTreeSet::new();
        for at in &group.members {
            for operand in body.value_at(*at).operands().filter_map(Value::index) {
                if !group.members.contains(&operand) && seen.insert(operand) {
                    group.inputs.push(operand);
                }
            }
        }
        group.outputs =
            group.members.iter().copied().filter(|at| group.outside(users.at(*at)).next().is_some()).collect();
        if group.outputs.is_empty() {
            return Err(PassError::new("the result of the group is unused").at(group.last()));
        }
        group.find_symbols(&facts.first_seen)?;
        Ok(group)
    }

    fn outside<'s>(&'s self, users: &'s [u32]) -> impl Iterator<Item = usize> + 's {
        users.iter().map(|user| *user as usize).filter(|user| !self.members.contains(user))
    }

    fn first(&self) -> Value<'b> {
        self.statements().next().unwrap_or(self.body.root())
    }

    fn last(&self) -> Value<'b> {
        self.statements().last().unwrap_or(self.body.root())
    }

    /// Iterates over the members directly in the block, with the values nested in them.
    fn statements(&self) -> impl Iterator<Item = Value<'b>> {
        let mut end = 0;
        self.members.iter().map(|at| self.body.value_at(*at)).filter(move |value| {
            let direct = value.index().is_some_and(|at| at >= end);
            if direct {
                end = value.end();
            }
            direct
        })
    }

    /// Finds the symbolic variables that must be passed. A match_cast defines the variables that no earlier type mentions.
    fn find_symbols(&mut self, first_seen: &[usize]) -> Result<(), PassError> {
        if self.body.raw().var_names().is_empty() {
            return Ok(());
        }
        let mut known = BTreeSet::new();
        for input in &self.inputs {
            each_symbol(self.body.value_at(*input).ty(), true, &mut |sym| {
                known.insert(sym);
            });
        }
        let (mut needed, mut defined) = (BTreeSet::new(), BTreeSet::new());
        for value in self.members.iter().map(|at| self.body.value_at(*at)) {
            if value.kind() == kind::MATCH_CAST || value.symbol().is_some() {
                each_symbol(value.ty(), true, &mut |sym| {
                    if first_seen.get(sym.id as usize).copied() == value.index() {
                        defined.insert(sym);
                    }
                });
            }
            symbols_of(value, &mut |sym| {
                needed.insert(sym);
            });
        }
        for output in self.outputs.iter().map(|at| self.body.value_at(*at)) {
            let mut inner = None;
            each_symbol(output.ty(), false, &mut |sym| {
                inner = inner.or(defined.get(&sym).copied().filter(|sym| output.symbol() != Some(*sym)));
            });
            if let Some(sym) = inner {
                let name = self.body.sym_name(sym.id).unwrap_or("?");
                let message = format!("the symbolic variable `{name}` is defined in the group, and used outside it");
                return Err(PassError::new(message).at(output));
            }
        }
        self.extra = needed.into_iter().filter(|sym| !known.contains(sym) && !defined.contains(sym)).collect();
        Ok(())
    }

    /// Checks that the values read by the group, and by the statements moved after it, are the same at the place of the call.
    fn stays_right(&self, place: usize, behind: &[usize]) -> Result<(), PassError> {
        let in_place = InPlace::of(self.body);
        for value in self.statements().chain(behind.iter().map(|at| self.body.value_at(*at))) {
            let at = value.index().unwrap_or(place);
            let between = (at.min(place)..at.max(place)).filter(|between| !self.members.contains(between));
            let moves = between.into_iter().all(|other| in_place.may_move_to(value, other..other + 1));
            if !moves {
                let name = value.name().unwrap_or("_");
                let message = format!(
                    "a call between `{name}` and the rest of the group overwrites an input of `{name}`; leave `{name}` out"
                );
                return Err(PassError::new(message).at(value));
            }
        }
        if !in_place.writes_only_own(&self.statements().collect::<Vec<_>>()) {
            let message = "the group writes to a value defined outside it; leave out that call";
            return Err(PassError::new(message).at(self.last()));
        }
        Ok(())
    }

    fn function(&self, attrs: &[(&str, Attr)]) -> Result<Body, PassError> {
        let mut b = BodyBuilder::new();
        let mut importer = Importer::sparse(self.body);
        let attrs = b.attrs(attrs.iter().cloned());
        b.begin_function(flag::PRIVATE, attrs, None);
        // Map the symbolic variables first, because the parameter types that are imported next may mention them.
        let mut dims = Vec::new();
        for sym in &self.extra {
            let new = b.sym(self.body.sym_name(sym.id).unwrap_or("n"), sym.dtype);
            importer.map_sym(sym.id, new.id);
            dims.push(Dim::Var(new));
        }
        for input in self.inputs.iter().map(|at| self.body.value_at(*at)) {
            let ty = importer.ty(&mut b, input.ty());
            let param = b.param(input.name().unwrap_or("x"), ty);
            importer.map(input, param);
        }
        if !dims.is_empty() {
            let ty = b.ty(&Type::shape(dims));
            b.param("s", ty);
        }
        let flows = self.statements().all(|value| !value.has(flag::REGION));
        b.begin(NodeSpec::new(if flows { kind::DATAFLOW } else { kind::BLOCK }), &[], None);
        let mut results = Vec::new();
        for value in self.statements() {
            let copied = importer.copy(&mut b, value);
            let v =
                copied.ok_or_else(|| PassError::new("the group uses a value that is not visible to it").at(value))?;
            let output = value.index().is_some_and(|at| self.outputs.contains(&at));
            if output || !flows {
                b.clear_flags(v, flag::INNER);
            } else if value.is_bound() {
                b.add_flags(v, flag::INNER);
            }
            results.extend(output.then_some(v));
        }
        b.end();
        let result = if let [one] = results.as_slice() { *one } else { b.tuple(&results, None) };
        let ret = b.type_of(result);
        b.end_function(result, ret);
        Ok(b.finish()?)
    }
}

impl Value<'_> {
    /// Calls `f` with each symbolic variable in the type, the attributes, and the shapes, scalars and types that the value uses, once per
    /// occurrence.
    pub fn each_symbol(self, f: &mut dyn FnMut(Sym)) {
        symbols_of(self, f);
    }
}

/// Calls `f` with the symbolic variables of a value: in its type, leaf operands and attributes.
pub(crate) fn symbols_of(value: Value<'_>, f: &mut dyn FnMut(Sym)) {
    each_symbol(value.ty(), false, f);
    symbols_of_operands(value, |_| true, f);
}

/// Calls `f` with the symbolic variables in the attributes of a value, and in the leaf operands for whose indices `counts` returns true.
pub(crate) fn symbols_of_operands(value: Value<'_>, counts: impl Fn(usize) -> bool, f: &mut dyn FnMut(Sym)) {
    let leaves = value.operands().enumerate().filter(|(at, operand)| operand.is_leaf() && counts(*at));
    for (_, operand) in leaves {
        let rec = operand.leaf();
        match rec.map(|rec| rec.kind) {
            Some(leaf::TYPE) => {
                let id = rec.map_or(NONE, |rec| rec.val as u32);
                each_symbol(Ty { raw: operand.raw, id }, false, f);
            }
            // The symbolic variables in the type of a function belong to that function.
            Some(leaf::GLOBAL_VAR | leaf::EXTERN_FUNC) => {}
            _ => each_symbol(operand.ty(), false, f),
        }
    }
    value.attrs().iter().for_each(|(_, attr)| symbols_of_attr(attr, f));
}

fn symbols_of_attr(attr: AttrView<'_>, f: &mut dyn FnMut(Sym)) {
    match attr.to_owned() {
        Attr::Dim(dim) => dim.vars(&mut |sym| f(sym)),
        Attr::Type(_) => attr.as_type().into_iter().for_each(|ty| each_symbol(ty, false, f)),
        Attr::List(_) | Attr::Object(..) => attr.items().for_each(|item| symbols_of_attr(item, f)),
        Attr::Dict(_) => {
            attr.as_dict().into_iter().flat_map(|dict| dict.iter()).for_each(|(_, v)| symbols_of_attr(v, f))
        }
        _ => {}
    }
}

/// Calls `f` with the symbolic variables of a type. If `alone` is true, includes only variables that form a whole dimension, so that a
/// value of the type determines them. Variables in the type of a function belong to that function and are skipped.
pub(crate) fn each_symbol(ty: Ty<'_>, alone: bool, f: &mut dyn FnMut(Sym)) {
    let mut work = vec![ty];
    while let Some(ty) = work.pop() {
        if ty.kind() == tykind::CALLABLE {
            continue;
        }
        work.extend(ty.children());
        for dim in ty.prims() {
            match dim {
                Dim::Var(sym) => f(sym),
                dim if !alone => dim.vars(&mut |sym| f(sym)),
                _ => {}
            }
        }
    }
}
