//! Writes the function of a group.

use super::{Constants, Group, Groups};
use crate::PassError;
use crate::ir::import::Importer;
use crate::ir::records::flag;
use crate::ir::{Body, BodyBuilder, Dim, Expr, Sym, Ty, Type, TypeId, V, Value};
use crate::rewrite::outline::{each_symbol, symbols_of, symbols_of_operands};
use std::collections::{HashMap, HashSet};

/// What a parameter is for.
pub(super) enum Input<'b> {
    /// A variable, a constant, a shape.
    Value(Value<'b>),
    /// An element of a tuple of which only elements are used.
    Element { tuple: Value<'b>, index: u32, ty: Ty<'b> },
}

/// The function of a group, and what its call passes.
pub(super) struct Outlined<'b> {
    pub(super) function: Body,
    pub(super) hint: String,
    pub(super) inputs: Vec<Input<'b>>,
    /// Symbolic variables that the inputs do not tell.
    pub(super) symbols: Vec<Sym>,
}

impl<'b> Outlined<'b> {
    pub(super) fn of(
        group: usize,
        groups: &Groups<'b>,
        outputs: &[Value<'b>],
        constants: Constants,
    ) -> Result<Outlined<'b>, PassError> {
        let body = groups.body;
        let members = &groups.groups[group].members;
        let mut inputs = Inputs::new(constants);
        for member in members {
            member.each_use(|user, at, used| {
                if groups.group_of.get(used) != Some(&group) {
                    inputs.add(*member, user, at, used);
                }
            });
        }
        inputs.split_tuples();
        let symbols = free_symbols(&inputs, members);
        let names = |sym: Sym| body.sym_name(sym.id).unwrap_or("n").to_string();
        let function = Writer::new(body, &inputs).write(&groups.groups[group], &symbols, outputs, names)?;
        Ok(Outlined { function, hint: hint(members), inputs: inputs.all, symbols })
    }
}

/// The name of the function of a group: of what it calls.
fn hint(members: &[Value<'_>]) -> String {
    let mut hint = "fused".to_string();
    for call in members.iter().filter_map(|member| member.as_call()) {
        let called = match call.op() {
            Some("relax.call_tir" | "relax.call_tir_inplace") => call.arg(0).and_then(Value::as_global),
            Some(op) => Some(op),
            None => call.global().map(|name| name.strip_prefix("fused_").unwrap_or(name)),
        };
        called.into_iter().for_each(|called| hint.extend(["_", called]));
    }
    hint
}

/// What a group uses and does not define.
struct Inputs<'b> {
    constants: Constants,
    all: Vec<Input<'b>>,
    /// Which input a variable or a leaf is, by its operand word.
    known: HashMap<u32, usize>,
    /// Tuples of which only elements are used so far, and the bindings of these.
    partly: HashMap<usize, Vec<(Value<'b>, u32)>>,
    /// Which input a use of a leaf means: its user, and the number of the operand.
    lifted: HashMap<(u32, usize), usize>,
    /// Bindings of elements that are inputs themselves, by their operand words.
    elements: HashMap<u32, usize>,
}

impl<'b> Inputs<'b> {
    fn new(constants: Constants) -> Inputs<'b> {
        Inputs {
            constants,
            all: Vec::new(),
            known: HashMap::new(),
            partly: HashMap::new(),
            lifted: HashMap::new(),
            elements: HashMap::new(),
        }
    }

    /// A use by `user`, which is `member` or nested in it.
    fn add(&mut self, member: Value<'b>, user: Value<'b>, at: usize, used: Value<'b>) {
        if used.is_leaf() && !self.is_lifted(user, at, used) || known_shape(used).is_some() {
            return;
        }
        // A scalar constant is written where it is used, so that each use has its own.
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

    /// Whether a leaf becomes a parameter: a constant, or a shape or scalar with symbolic variables. A symbolic variable stays,
    /// and so do those that a PrimFunc takes.
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

    /// Puts the elements of a tuple of which only elements are used in its place.
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

/// The shape or scalar that a variable is another name for, if it is known: a group says it itself.
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
    /// Its type; `None` of a scalar expression: its parameter is a symbolic variable of its own.
    fn ty(&self) -> Option<Ty<'b>> {
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

/// Symbolic variables that the inputs do not tell, in the order in which they come.
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
        symbols_of_operands(part, |at| !inputs.lifted.contains_key(&(part.word(), at)), &mut see);
        part.region().nodes().for_each(|inner| symbols_of(inner, &mut see));
    }
    free
}

struct Writer<'w, 'b> {
    b: BodyBuilder,
    importer: Importer<'b>,
    inputs: &'w Inputs<'b>,
    params: Vec<V>,
}

impl<'w, 'b> Writer<'w, 'b> {
    fn new(body: &'b Body, inputs: &'w Inputs<'b>) -> Writer<'w, 'b> {
        Writer { b: BodyBuilder::new(), importer: Importer::sparse(body), inputs, params: Vec::new() }
    }

    fn write(
        mut self,
        group: &Group<'b>,
        symbols: &[Sym],
        outputs: &[Value<'b>],
        names: impl Fn(Sym) -> String,
    ) -> Result<Body, PassError> {
        let attrs = self.b.attrs(group.attrs.iter().map(|(key, attr)| (key.as_str(), attr.clone())));
        self.b.begin_function(flag::PRIVATE, attrs, None);
        self.params(symbols, names);
        let computed = group.members.iter().filter(|member| !self.inputs.elements.contains_key(&member.word()));
        let computed: Vec<Value<'b>> = computed.copied().collect();
        for member in &group.members {
            if let Some(input) = self.inputs.elements.get(&member.word()) {
                self.importer.map(*member, self.params[*input]);
            }
        }
        let visible: HashSet<u32> = outputs.iter().map(|output| output.word()).collect();
        if !computed.is_empty() {
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

    fn params(&mut self, symbols: &[Sym], names: impl Fn(Sym) -> String) {
        // Before the types of the parameters are brought over: these may use them.
        let mut dims = Vec::new();
        for sym in symbols {
            let new = self.b.sym(&names(*sym), sym.dtype);
            self.importer.map_sym(sym.id, new.id);
            dims.push(Dim::Var(new));
        }
        for input in &self.inputs.all {
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
        let unreached = |part| PassError::new("the group uses a value that it cannot reach").at(part);
        let mut last = None;
        for part in member.with_nested() {
            let ops: Option<Vec<V>> =
                part.operands().enumerate().map(|(at, used)| self.operand(part, at, used)).collect();
            let ops = ops.ok_or_else(|| unreached(part))?;
            let lifts = (0..ops.len()).any(|at| self.inputs.lifted.contains_key(&(part.word(), at)));
            let copied = if part.has(flag::REGION) {
                self.importer.copy(&mut self.b, part)
            } else if lifts && part.is_nested() && matches!(part.view(), Expr::Tuple(_)) {
                // Its type is that of the parameters.
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
        match self.inputs.lifted.get(&(user.word(), at)) {
            Some(input) => Some(self.params[*input]),
            None => {
                let copied = self.importer.value_of(&mut self.b, used);
                copied.or_else(|| self.importer.value_of(&mut self.b, known_shape(used)?))
            }
        }
    }
}
