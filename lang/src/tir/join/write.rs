//! Writes a joined function.

use super::{Alloc, Join, JoinParam, Step, root_allocs, root_block};
use crate::PassError;
use crate::arith::substitute;
use crate::ir::import::Importer;
use crate::ir::records::{buffer_of, flag, kind};
use crate::ir::{Attr, AttrsId, Body, BodyBuilder, DType, Dim, NodeSpec, Sym, Type, TypeId, V, Value};
use crate::walk::value_map::ValueSet;
use foldhash::fast::RandomState;
use std::collections::{HashMap, HashSet};

pub(super) struct Writer<'j, 'm> {
    join: &'j Join<'m>,
    b: BodyBuilder,
    /// The owner's symbolic variables, mapped to those of the new function.
    syms: HashMap<u32, Sym, RandomState>,
    /// The symbolic variables that are parameters.
    scalars: HashMap<u32, V, RandomState>,
    /// The symbolic variables that types mention.
    in_types: HashSet<u32, RandomState>,
    buffers: Vec<Option<V>>,
    names: BlockNames,
}

impl<'j, 'm> Writer<'j, 'm> {
    pub(super) fn write(join: &'j Join<'m>, params: &[JoinParam]) -> Result<Body, PassError> {
        let nodes = join.steps.iter().map(|step| step.function.len()).sum();
        let mut writer = Writer {
            join,
            b: BodyBuilder::with_capacity(nodes),
            syms: HashMap::default(),
            scalars: HashMap::default(),
            in_types: HashSet::default(),
            buffers: vec![None; join.buffers.len()],
            names: BlockNames::default(),
        };
        let attrs = writer.b.attrs([("s_tir", Attr::Bool(true)), ("tirx.noalias", Attr::Bool(true))]);
        writer.b.begin(NodeSpec::new(kind::PRIM_FUNC).flags(flag::PRIVATE).attrs(attrs), &[], None);
        params.iter().for_each(|param| writer.param(param));
        let mut steps: Vec<StepWriter<'_, 'm>> = join.steps.iter().map(StepWriter::of).collect();
        for alloc in &join.allocs {
            match alloc {
                Alloc::New(buffer) if writer.buffers[buffer.0].is_none() => {
                    let v = writer.buffer(buffer.0, NodeSpec::new(kind::BUFFER).a(buffer_of::BLOCK).flags(flag::INNER));
                    writer.buffers[buffer.0] = Some(v);
                }
                Alloc::New(_) => {}
                Alloc::Old(step, value) => steps[*step].node(&mut writer, *value)?,
            }
        }
        for step in &mut steps {
            step.content(&mut writer)?;
        }
        writer.say_scalars();
        writer.b.end();
        Ok(writer.b.finish()?)
    }

    fn param(&mut self, param: &JoinParam) {
        match param {
            JoinParam::Buffer(buffer) => {
                self.buffers[buffer.0] = Some(self.buffer(buffer.0, NodeSpec::new(kind::PARAM)))
            }
            JoinParam::Scalar(sym) => {
                let name = self.owner_name(*sym);
                let ty = self.b.ty(&Type::Prim { dtype: sym.dtype, value: None });
                let v = self.b.param(&name, ty);
                self.scalars.insert(sym.id, v);
            }
        }
    }

    /// Turns scalar parameters mentioned by types into symbolic variables.
    fn say_scalars(&mut self) {
        for (id, v) in &self.scalars {
            if let Some(sym) = self.syms.get(id).filter(|_| self.in_types.contains(id)) {
                let ty = self.b.ty(&Type::Prim { dtype: sym.dtype, value: Some(Dim::Var(*sym)) });
                self.b.set_type(*v, ty);
            }
        }
    }

    fn owner_name(&self, sym: Sym) -> String {
        self.join.owner.sym_name(sym.id).unwrap_or("n").to_string()
    }

    fn buffer(&mut self, at: usize, spec: NodeSpec) -> V {
        let planned = &self.join.buffers[at];
        let ty = planned.ty.map_dims(&mut |dim| self.owner_dim(dim));
        let ty = self.b.ty(&Type::Buffer(ty));
        self.b.node(spec.ty(ty), &[], Some(&planned.name))
    }

    fn owner_sym(&mut self, sym: Sym) -> Sym {
        if let Some(known) = self.syms.get(&sym.id) {
            return *known;
        }
        let name = self.owner_name(sym);
        let new = self.b.sym(&name, sym.dtype);
        self.syms.insert(sym.id, new);
        new
    }

    /// Converts an owner's dimension, for use in a type.
    fn owner_dim(&mut self, dim: &Dim) -> Dim {
        let mut known: HashMap<Sym, Dim, RandomState> = HashMap::default();
        dim.vars(&mut |sym| {
            self.in_types.insert(sym.id);
            known.insert(sym, Dim::Var(self.owner_sym(sym)));
        });
        substitute(dim, &|sym| known.get(&sym).cloned())
    }

    /// Converts an owner's dimension to an expression.
    fn owner_expr(&mut self, dim: &Dim) -> V {
        self.expr(dim, &mut |writer, sym| match writer.scalars.get(&sym.id) {
            Some(param) => *param,
            None => {
                let new = writer.owner_sym(sym);
                writer.b.scalar(&Dim::Var(new))
            }
        })
    }

    /// Converts a dimension to an expression; `var` returns the values of its variables.
    fn expr(&mut self, dim: &Dim, var: &mut dyn FnMut(&mut Self, Sym) -> V) -> V {
        if let Dim::Var(sym) = dim {
            return var(self, *sym);
        }
        let Some((op, dtype, operands)) = dim.operation() else { return self.b.scalar(dim) };
        let operands = operands.into_iter().map(|operand| self.expr(operand, var)).collect();
        let (spec, ops) = self.b.operation(op, operands);
        let ty = self.prim_type(dtype);
        self.b.node(spec.ty(ty), &ops, None)
    }

    fn prim_type(&mut self, dtype: DType) -> TypeId {
        self.b.ty(&Type::Prim { dtype, value: None })
    }
}

/// Copies one function.
struct StepWriter<'j, 'm> {
    step: &'j Step<'m>,
    importer: Importer<'m>,
    /// The symbolic variables that the arguments do not determine.
    syms: HashMap<u32, Sym, RandomState>,
    /// Nodes that are not copied at their position.
    left_out: ValueSet<'m>,
    /// The types in the new function, by their ids in the old function.
    types: HashMap<u32, TypeId, RandomState>,
    /// The operands of the current node.
    ops: Vec<V>,
}

impl<'j, 'm> StepWriter<'j, 'm> {
    fn of(step: &'j Step<'m>) -> StepWriter<'j, 'm> {
        let function = step.function;
        let mut left_out = ValueSet::new(function);
        let mut leave_out = |value: Value<'m>| left_out.extend(value.with_nested());
        let declared = |value: &Value<'m>| matches!(value.kind(), kind::PARAM);
        function.root().region().children().filter(declared).for_each(&mut leave_out);
        root_allocs(function).for_each(&mut leave_out);
        let is_known = |value: &Value<'m>| known_symbol(step, *value).is_some();
        function.root().region().children().filter(is_known).for_each(&mut leave_out);
        for buffer in step.buffers.keys() {
            leave_out(Value::of_word(function, *buffer));
        }
        if let Some(root) = root_block(function) {
            left_out.insert(root);
            let said = |value: &Value<'m>| matches!(value.kind(), kind::ACCESS | kind::ANNOTATE);
            let mut leave_out = |value: Value<'m>| left_out.extend(value.with_nested());
            root.region().children().filter(said).for_each(&mut leave_out);
        }
        let (importer, syms, types) = (Importer::of(function), HashMap::default(), HashMap::default());
        StepWriter { step, importer, syms, left_out, types, ops: Vec::new() }
    }

    /// Copies the content of the function.
    fn content(&mut self, w: &mut Writer<'_, 'm>) -> Result<(), PassError> {
        let function = self.step.function;
        let mut open = Vec::new();
        for value in function.root().region().nodes() {
            while open.last().is_some_and(|end| value.index().is_some_and(|at| at >= *end)) {
                open.pop();
                w.b.end();
            }
            if self.left_out.contains(value) {
                continue;
            }
            if value.kind() == kind::SBLOCK {
                self.leave_out_repeated_accesses(value);
            }
            self.node(w, value)?;
            if value.has(flag::REGION) {
                open.push(value.end());
            }
        }
        open.iter().for_each(|_| w.b.end());
        Ok(())
    }

    /// Keeps only the first declared read and write of each buffer in a block.
    fn leave_out_repeated_accesses(&mut self, block: Value<'m>) {
        let mut seen: HashSet<_, RandomState> = HashSet::default();
        for access in block.region().children().filter(|value| value.kind() == kind::ACCESS) {
            let Some(buffer) = access.operand(0) else { continue };
            let joined = self.step.buffers.get(&buffer.word()).map(|joined| joined.0);
            let what = access.node().map(|node| node.a);
            if !seen.insert((what, joined, joined.map_or(buffer.word(), |_| 0))) {
                self.left_out.extend(access.with_nested());
            }
        }
    }

    /// Copies one node; for a region, only its header.
    fn node(&mut self, w: &mut Writer<'_, 'm>, value: Value<'m>) -> Result<(), PassError> {
        self.ops.clear();
        for operand in value.operands() {
            let op = self.operand(w, operand);
            self.ops.push(op.ok_or_else(|| {
                PassError::new("a PrimFunc uses a declaration of its parameters in a way that cannot be moved")
            })?);
        }
        let node = value.node().copied();
        let (kind, flags, a) = node.map_or((0, 0, 0), |node| (node.kind, node.flags, node.a));
        let attrs: AttrsId = self.importer.attrs(&mut w.b, value);
        let spec = NodeSpec::new(kind).flags(flags).a(a).ty(self.ty(w, value)).attrs(attrs);
        let unique = value.name().filter(|_| kind == kind::SBLOCK).map(|name| w.names.unique(name));
        let name = unique.as_deref().or(value.name());
        let v =
            if value.has(flag::REGION) { w.b.begin(spec, &self.ops, name) } else { w.b.node(spec, &self.ops, name) };
        self.importer.copied(&mut w.b, value, v);
        Ok(())
    }

    fn operand(&mut self, w: &mut Writer<'_, 'm>, operand: Value<'m>) -> Option<V> {
        let known = match operand.kind() {
            _ if operand.is_leaf() => operand
                .dim()
                .filter(|dim| dim.as_int().is_none())
                .map(|dim| w.expr(&dim, &mut |w, sym| self.symbol_expr(w, sym))),
            kind::PARAM | kind::BUFFER if self.step.buffers.contains_key(&operand.word()) => {
                return self.step.buffers.get(&operand.word()).and_then(|joined| w.buffers[joined.0]);
            }
            kind::PARAM => self.step.scalars.get(&operand.word()).map(|dim| w.owner_expr(dim)),
            kind::VAR => known_symbol(self.step, operand).map(|dim| w.owner_expr(dim)),
            _ => None,
        };
        known.or_else(|| self.importer.value_of(&mut w.b, operand))
    }

    fn symbol_expr(&mut self, w: &mut Writer<'_, 'm>, sym: Sym) -> V {
        match self.step.shapes.get(sym) {
            Some(dim) => w.owner_expr(dim),
            None => {
                let own = self.own_sym(w, sym);
                w.b.scalar(&Dim::Var(own))
            }
        }
    }

    fn own_sym(&mut self, w: &mut Writer<'_, 'm>, sym: Sym) -> Sym {
        let name = self.step.function.sym_name(sym.id).unwrap_or("n");
        *self.syms.entry(sym.id).or_insert_with(|| w.b.sym(name, sym.dtype))
    }

    /// Converts a dimension of the function, for use in a type.
    fn dim(&mut self, w: &mut Writer<'_, 'm>, dim: &Dim) -> Dim {
        let mut known: HashMap<Sym, Dim, RandomState> = HashMap::default();
        dim.vars(&mut |sym| {
            let meant = match self.step.shapes.get(sym) {
                Some(dim) => w.owner_dim(dim),
                None => Dim::Var(self.own_sym(w, sym)),
            };
            known.insert(sym, meant);
        });
        substitute(dim, &|sym| known.get(&sym).cloned())
    }

    fn ty(&mut self, w: &mut Writer<'_, 'm>, value: Value<'m>) -> TypeId {
        let id = value.ty().id();
        if let Some(known) = self.types.get(&id) {
            return *known;
        }
        let ty = self.written_type(w, value);
        self.types.insert(id, ty);
        ty
    }

    fn written_type(&mut self, w: &mut Writer<'_, 'm>, value: Value<'m>) -> TypeId {
        match value.ty().to_owned() {
            Type::Buffer(buffer) => {
                let buffer = buffer.map_dims(&mut |dim| self.dim(w, dim));
                w.b.ty(&Type::Buffer(buffer))
            }
            Type::Prim { dtype, value: Some(dim) } => {
                let dim = self.dim(w, &dim);
                w.b.ty(&Type::Prim { dtype, value: Some(dim) })
            }
            _ => self.importer.ty(&mut w.b, value.ty()),
        }
    }
}

/// Returns the value of a declared variable, if the shape of an argument determines it.
fn known_symbol<'j>(step: &'j Step<'_>, value: Value<'_>) -> Option<&'j Dim> {
    value.symbol().filter(|_| value.kind() == kind::VAR).and_then(|sym| step.shapes.get(sym))
}

/// Makes names of blocks unique.
#[derive(Default)]
struct BlockNames {
    taken: HashSet<String, RandomState>,
    numbers: HashMap<String, usize, RandomState>,
}

impl BlockNames {
    /// Returns the name, with a different final number if it is taken.
    fn unique(&mut self, name: &str) -> String {
        if self.taken.insert(name.to_string()) {
            return name.to_string();
        }
        let prefix = name.trim_end_matches(|c: char| c.is_ascii_digit());
        let number = self.numbers.entry(prefix.to_string()).or_insert(0);
        loop {
            *number += 1;
            let name = format!("{prefix}{number}");
            if self.taken.insert(name.clone()) {
                return name;
            }
        }
    }
}
