//! Writes the function of a group.

use super::{Constants, Group, Groups};
use crate::PassError;
use crate::ir::import::Importer;
use crate::ir::records::flag;
use crate::ir::{Attr, Body, BodyBuilder, Dim, Expr, Sym, Ty, Type, TypeId, V, Value};
use crate::rewrite::outline::{each_symbol, symbols_of, symbols_of_operands};
use std::collections::{HashMap, HashSet};

/// The value that a parameter replaces.
pub(super) enum Input<'b> {
    /// A variable, constant or shape.
    Value(Value<'b>),
    /// An element of a tuple, if the group uses only elements of that tuple.
    Element { tuple: Value<'b>, index: u32, ty: Ty<'b> },
}

/// A group ready to be written as a function, with the arguments of the call.
pub(super) struct Outlined<'b, 'g> {
    body: &'b Body,
    attrs: &'g [(String, Attr)],
    pub(super) group: &'g Group<'b>,
    pub(super) outputs: &'g [Value<'b>],
    pub(super) inputs: Inputs<'b>,
    /// Symbolic variables that the inputs do not determine.
    pub(super) symbols: Vec<Sym>,
}

impl<'b, 'g> Outlined<'b, 'g> {
    pub(super) fn of(
        number: usize,
        groups: &'g Groups<'b>,
        outputs: &'g [Value<'b>],
        constants: Constants,
    ) -> Outlined<'b, 'g> {
        let (body, group) = (groups.body, &groups.groups[number]);
        let mut inputs = Inputs::new(constants);
        for member in &group.members {
            member.each_use(|user, at, used| {
                if groups.group_of.get(used) != Some(&number) {
                    inputs.add(*member, user, at, used);
                }
            });
        }
        inputs.split_tuples();
        let symbols =
            if body.raw().var_names().is_empty() { Vec::new() } else { free_symbols(&inputs, &group.members) };
        Outlined { body, attrs: &groups.attrs[group.attrs], group, outputs, inputs, symbols }
    }

    /// Writes the function.
    pub(super) fn function(&self) -> Result<Body, PassError> {
        Writer::of(self).write()
    }

    /// Returns the name of the function, built from the names of its callees.
    pub(super) fn hint(&self) -> String {
        let mut hint = "fused".to_string();
        for call in self.group.members.iter().filter_map(|member| member.as_call()) {
            let called = match call.op() {
                Some("relax.call_tir" | "relax.call_tir_inplace") => call.arg(0).and_then(Value::as_global),
                Some(op) => Some(op),
                None => call.global().map(|name| name.strip_prefix("fused_").unwrap_or(name)),
            };
            called.into_iter().for_each(|called| hint.extend(["_", called]));
        }
        hint
    }

    /// Returns the bindings of the group that the function computes. The other bindings become parameters.
    pub(super) fn computed(&self) -> impl Iterator<Item = Value<'b>> {
        self.group.members.iter().copied().filter(|member| !self.inputs.elements.contains_key(&member.word()))
    }
}

/// The values that a group uses and does not define.
pub(super) struct Inputs<'b> {
    constants: Constants,
    pub(super) all: Vec<Input<'b>>,
    /// The input for a variable or a leaf, by its operand word.
    known: Map<u32, usize>,
    /// Tuples that are used only through elements, with the bindings of these elements.
    partly: Map<usize, Vec<(Value<'b>, u32)>>,
    /// The input for a use of a leaf, by its user and the number of the operand.
    lifted: Map<(u32, usize), usize>,
    /// Bindings of tuple elements that are inputs, by their operand words.
    pub(super) elements: Map<u32, usize>,
}

type Map<K, T> = HashMap<K, T, foldhash::fast::RandomState>;

impl<'b> Inputs<'b> {
    fn new(constants: Constants) -> Inputs<'b> {
        Inputs {
            constants,
            all: Vec::new(),
            known: Map::default(),
            partly: Map::default(),
            lifted: Map::default(),
            elements: Map::default(),
        }
    }

    /// Adds a use by `user`, which is `member` or nested in it.
    fn add(&mut self, member: Value<'b>, user: Value<'b>, at: usize, used: Value<'b>) {
        if used.is_leaf() && !self.is_lifted(user, at, used) || known_shape(used).is_some() {
            return;
        }
        // Scalar constants are written separately for each use.
        let scalar = used.as_constant().is_some() && used.ty().ndim() == 0;
        let known = self.known.get(&used.word()).copied().filter(|_| !scalar);
        let input = known.unwrap_or(self.all.len());
        if known.is_none() {
            self.all.push(Input::Value(used));
            self.known.insert(used.word(), input);
        }
        if used.is_leaf() {
            self.lifted.insert((user.word(), at), input);
        } else if used.ty().is_tuple() {
            let element = member.as_tuple_get().filter(|_| user == member);
            match element {
                Some((_, index)) if known.is_none() => drop(self.partly.insert(input, vec![(member, index)])),
                Some((_, index)) => self.partly.get_mut(&input).into_iter().for_each(|gets| gets.push((member, index))),
                None => drop(self.partly.remove(&input)),
            }
        }
    }

    /// Returns the input for a leaf at an operand.
    pub(super) fn lifted(&self, user: Value<'_>, at: usize) -> Option<usize> {
        self.lifted.get(&(user.word(), at)).copied()
    }

    /// Returns true if a leaf becomes a parameter: a constant, or a shape or scalar with symbolic variables. Symbolic variables themselves, and those
    /// passed to a PrimFunc, are not lifted.
    fn is_lifted(&self, user: Value<'b>, at: usize, used: Value<'b>) -> bool {
        if used.as_constant().is_some() {
            return self.constants == Constants::Lifted;
        }
        if matches!(used.dim(), Some(Dim::Var(_))) {
            return false;
        }
        let taken_by_prim_func = at == 3 && user.as_call_to("relax.call_tir").is_some();
        let dims = used.dims().unwrap_or_default().into_iter().chain(used.dim());
        !taken_by_prim_func && dims.into_iter().any(|dim| is_symbolic(&dim))
    }

    /// Replaces tuples that are used only through elements by these elements.
    fn split_tuples(&mut self) {
        let partly = std::mem::take(&mut self.partly);
        if partly.is_empty() {
            return;
        }
        let mut now = Vec::new();
        for (at, input) in std::mem::take(&mut self.all).into_iter().enumerate() {
            now.push(self.all.len());
            match (partly.get(&at), input) {
                (Some(gets), Input::Value(tuple)) => self.add_elements(tuple, gets),
                (_, input) => self.all.push(input),
            }
        }
        self.lifted.values_mut().for_each(|input| *input = now[*input]);
    }

    fn add_elements(&mut self, tuple: Value<'b>, gets: &[(Value<'b>, u32)]) {
        let mut of_index = HashMap::new();
        for (binding, index) in gets {
            let input = *of_index.entry(*index).or_insert_with(|| {
                let ty = tuple.ty().children().nth(*index as usize).unwrap_or(binding.ty());
                self.all.push(Input::Element { tuple, index: *index, ty });
                self.all.len() - 1
            });
            self.elements.insert(binding.word(), input);
        }
    }
}

/// Returns the shape or scalar that a variable is an alias for, if it is constant. The group's function contains the value directly.
fn known_shape(variable: Value<'_>) -> Option<Value<'_>> {
    let mut value = variable;
    while let Expr::Alias(source) = value.view() {
        value = source;
    }
    let mut dims = value.dims().or(value.dim().map(|dim| vec![dim])).filter(|_| !variable.is_leaf())?.into_iter();
    (!dims.any(|dim| is_symbolic(&dim))).then_some(value)
}

fn is_symbolic(dim: &Dim) -> bool {
    let mut found = false;
    dim.vars(&mut |_| found = true);
    found
}

impl<'b> Input<'b> {
    /// Returns the type; `None` for a scalar expression, whose parameter is a new symbolic variable.
    pub(super) fn ty(&self) -> Option<Ty<'b>> {
        match self {
            Input::Value(value) => (!value.is_leaf() || value.dim().is_none()).then_some(value.ty()),
            Input::Element { ty, .. } => Some(*ty),
        }
    }

    fn name(&self) -> String {
        match self {
            Input::Value(value) => value.name().unwrap_or("param").to_string(),
            Input::Element { tuple, index, .. } => format!("{}_{index}", tuple.name().unwrap_or("param")),
        }
    }
}

/// Returns the symbolic variables that the inputs do not determine, in the order in which they occur.
fn free_symbols(inputs: &Inputs<'_>, members: &[Value<'_>]) -> Vec<Sym> {
    let mut told = HashSet::new();
    for ty in inputs.all.iter().filter_map(Input::ty) {
        each_symbol(ty, true, &mut |sym| {
            told.insert(sym);
        });
    }
    let mut free = Vec::new();
    let mut see = |sym| {
        if told.insert(sym) {
            free.push(sym);
        }
    };
    inputs.all.iter().filter_map(Input::ty).for_each(|ty| each_symbol(ty, false, &mut see));
    for part in members.iter().flat_map(|member| member.with_nested()) {
        if !part.is_nested() {
            each_symbol(part.ty(), false, &mut see);
        }
        symbols_of_operands(part, |at| inputs.lifted(part, at).is_none(), &mut see);
        part.region().nodes().for_each(|inner| symbols_of(inner, &mut see));
    }
    free
}

struct Writer<'w, 'b, 'g> {
    b: BodyBuilder,
    importer: Importer<'b>,
    outlined: &'w Outlined<'b, 'g>,
    params: Vec<V>,
}

impl<'w, 'b, 'g> Writer<'w, 'b, 'g> {
    fn of(outlined: &'w Outlined<'b, 'g>) -> Writer<'w, 'b, 'g> {
        let importer = Importer::sparse(outlined.body);
        Writer { b: BodyBuilder::new(), importer, outlined, params: Vec::new() }
    }

    fn write(mut self) -> Result<Body, PassError> {
        let Outlined { attrs, group, outputs, inputs, .. } = self.outlined;
        let attrs = self.b.attrs(attrs.iter().map(|(key, attr)| (key.as_str(), attr.clone())));
        self.b.begin_function(flag::PRIVATE, attrs, None);
        self.params();
        for member in &group.members {
            if let Some(input) = inputs.elements.get(&member.word()) {
                self.importer.map(*member, self.params[*input]);
            }
        }
        let visible: HashSet<u32> = outputs.iter().map(|output| output.word()).collect();
        let mut computed = self.outlined.computed().peekable();
        if computed.peek().is_some() {
            self.b.begin_dataflow();
            for member in computed {
                let v = self.member(member)?;
                if visible.contains(&member.word()) {
                    self.b.clear_flags(v, flag::INNER);
                } else {
                    self.b.add_flags(v, flag::INNER);
                }
            }
            self.b.end();
        }
        let results = outputs.iter().filter_map(|output| self.importer.value_of(&mut self.b, *output));
        let results: Vec<V> = results.collect();
        let result = if let [one] = results.as_slice() { *one } else { self.b.tuple(&results, None) };
        let ret = self.b.type_of(result);
        self.b.end_function(result, ret);
        Ok(self.b.finish()?)
    }

    fn params(&mut self) {
        let Outlined { body, inputs, symbols, .. } = self.outlined;
        // Map the symbolic variables first, because the parameter types that are imported next may mention them.
        let mut dims = Vec::new();
        for sym in symbols {
            let new = self.b.sym(body.sym_name(sym.id).unwrap_or("n"), sym.dtype);
            self.importer.map_sym(sym.id, new.id);
            dims.push(Dim::Var(new));
        }
        for input in &inputs.all {
            let ty = match (input, input.ty()) {
                (Input::Value(value), None) => {
                    let sym = self.b.sym("param", value.ty().dtype());
                    self.b.symbol_type(sym)
                }
                (_, ty) => ty.map_or(TypeId::NONE, |ty| self.importer.ty(&mut self.b, ty)),
            };
            let param = self.b.param(&input.name(), ty);
            if let Input::Value(value) = input {
                self.importer.map(*value, param);
            }
            self.params.push(param);
        }
        if !dims.is_empty() {
            let ty = self.b.ty(&Type::shape(dims));
            self.b.param("tir_vars", ty);
        }
    }

    fn member(&mut self, member: Value<'b>) -> Result<V, PassError> {
        let unreached = |part| PassError::new("the group uses a value that is not visible to it").at(part);
        let mut last = None;
        for part in member.with_nested() {
            let ops: Option<Vec<V>> =
                part.operands().enumerate().map(|(at, used)| self.operand(part, at, used)).collect();
            let ops = ops.ok_or_else(|| unreached(part))?;
            let lifts = (0..ops.len()).any(|at| self.outlined.inputs.lifted(part, at).is_some());
            let copied = if part.has(flag::REGION) {
                self.importer.copy(&mut self.b, part)
            } else if lifts && part.is_nested() && matches!(part.view(), Expr::Tuple(_)) {
                // The type of the tuple consists of the parameter types.
                let tuple = self.b.tuple(&ops, None);
                self.importer.map(part, tuple);
                Some(tuple)
            } else {
                self.importer.copy_with(&mut self.b, part, &ops)
            };
            last = Some(copied.ok_or_else(|| unreached(part))?);
        }
        last.ok_or_else(|| unreached(member))
    }

    fn operand(&mut self, user: Value<'b>, at: usize, used: Value<'b>) -> Option<V> {
        match self.outlined.inputs.lifted(user, at) {
            Some(input) => Some(self.params[input]),
            None => {
                let copied = self.importer.value_of(&mut self.b, used);
                copied.or_else(|| self.importer.value_of(&mut self.b, known_shape(used)?))
            }
        }
    }
}
