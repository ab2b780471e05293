//! Emits tensors as a PrimFunc: buffers, and for each computed tensor a loop nest with one schedulable block.

use super::expr::{Node, Pair, Reduction, Scatter};
use super::form::form;
use super::order::{order, read_in_steps};
use super::reads::{INDEX, Read, reads_of, same, zero};
use super::scan::Scan;
use super::{Axis, FIRST_ATOM, FIRST_AXIS, Note, Source, Step, Te, TeExpr, TeTensor};
use passhost_lang::arith::substitute;
use passhost_lang::ir::records::{axis, buffer_of, flag, kind};
use passhost_lang::ir::{Attr, AttrsId, Body, BodyBuilder, BufferType, DType, Dim, DimExpr, NodeSpec, Sym, Type, V};
use passhost_lang::scalar::PrimOp;
use passhost_lang::typing::legalized::{Legalized, LegalizedArg};
use passhost_lang::typing::operators::InferError;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The function under construction.
struct Emit<'t, 'c> {
    te: &'t Te<'c>,
    b: BodyBuilder,
    buffers: BTreeMap<usize, V>,
    /// The caller's symbolic variables, each mapped to its counterpart in this function.
    symbols: BTreeMap<u32, Sym>,
    /// Scalar parameters, and the axes of the current block, by variable number.
    scalars: BTreeMap<u32, V>,
    /// The number of blocks with each name.
    blocks: BTreeMap<String, u32>,
    /// Parts of integer expressions that are not integer arithmetic, by the number of the variable that stands for the
    /// part.
    atoms: Vec<TeExpr>,
}

/// Returns the PrimFunc that legalizes the call.
pub(super) fn function(te: &Te<'_>, results: &[TeTensor]) -> Result<Legalized, InferError> {
    let mut emit = Emit {
        te,
        b: BodyBuilder::new(),
        buffers: BTreeMap::new(),
        symbols: BTreeMap::new(),
        scalars: BTreeMap::new(),
        blocks: BTreeMap::new(),
        atoms: Vec::new(),
    };
    let (args, symbols) = emit.signature(results);
    let tensors = te.tensors.borrow();
    emit.all(&order(&tensors, results.iter().map(|result| result.id), &(0..tensors.len())));
    emit.b.end();
    let variables = emit.symbols.iter().map(|(id, here)| (Sym { id: *id, dtype: here.dtype }, *here)).collect();
    let function = finished(emit.b, te)?;
    Ok(Legalized::new(&te.name, function, args, symbols, variables))
}

/// Returns the tensors that the block of `step` computes.
fn computed<'t>(tensor: &'t TeTensor, step: &'t Step) -> &'t [TeTensor] {
    match &*step.value.node {
        Node::Pair(pair) => &pair.tensors,
        _ => std::slice::from_ref(tensor),
    }
}

fn finished(b: BodyBuilder, te: &Te<'_>) -> Result<Body, InferError> {
    b.finish().map_err(|why| {
        let of = operand_types(te).join(", ");
        let remedy =
            "convert the operands with R.astype, and report this, because it is a fault of the operator's plugin";
        InferError::wrong(format!("it cannot be legalized for operands of {of}: {why}; {remedy}"))
    })
}

/// Returns the data types of the input tensors of a call.
fn operand_types(te: &Te<'_>) -> Vec<String> {
    let mut types: Vec<String> = Vec::new();
    for (tensor, _) in te.tensors.borrow().iter().filter(|(_, source)| matches!(source, Source::Input(..))) {
        let dtype = tensor.dtype.to_string();
        if !types.contains(&dtype) {
            types.push(dtype);
        }
    }
    types
}

impl Emit<'_, '_> {
    /// Declares the buffers of tensors, and writes their computations, in order.
    fn all(&mut self, order: &[usize]) {
        let tensors = self.te.tensors.borrow();
        for id in order {
            let (tensor, source) = &tensors[*id];
            match source {
                Source::Step(step) => computed(tensor, step).iter().for_each(|tensor| self.own_buffer(tensor)),
                Source::State(scan, _) => scan.states.iter().for_each(|state| self.own_buffer(&state.tensor)),
                Source::Input(..) | Source::Second(..) => {}
            }
        }
        for id in order {
            match &tensors[*id] {
                (tensor, Source::Step(step)) => self.nest(tensor, step),
                (_, Source::State(scan, _)) => self.scan(scan),
                _ => {}
            }
        }
    }

    /// Declares the buffer of a tensor, unless there is one.
    fn own_buffer(&mut self, tensor: &TeTensor) {
        if !self.buffers.contains_key(&tensor.id) {
            let spec = NodeSpec::new(kind::BUFFER).a(buffer_of::BLOCK).flags(flag::INNER);
            self.buffer(spec, tensor.name(), tensor, true);
        }
    }

    /// Writes the first rows of the states, and a loop around a block that contains the computations of a step.
    fn scan(&mut self, scan: &Scan) {
        scan.states.iter().for_each(|state| self.nest(&state.tensor, &state.first));
        self.nested(&scan.name, &[(scan.axis.clone(), axis::OPAQUE)], |emit| {
            let te = emit.te;
            let read = read_in_steps(&te.tensors.borrow(), scan);
            for id in read {
                let tensor = te.tensors.borrow()[id].0.clone();
                emit.access_all(0, &tensor);
            }
            scan.states.iter().for_each(|state| emit.access_all(0, &state.tensor));
            scan.states.iter().for_each(|state| emit.access_all(1, &state.tensor));
            emit.all(&scan.order);
        });
    }

    /// Opens the function: declares a buffer for each input and result, and a scalar for each variable that no buffer
    /// shape determines.
    fn signature(&mut self, results: &[TeTensor]) -> (Vec<LegalizedArg>, Vec<Sym>) {
        let attrs = self.b.attrs([("s_tir", Attr::Bool(true)), ("tirx.noalias", Attr::Bool(true))]);
        self.b.begin(NodeSpec::new(kind::PRIM_FUNC).flags(flag::PRIVATE).attrs(attrs), &[], None);
        let (mut args, mut told) = (Vec::new(), Vec::new());
        let tensors = self.te.tensors.borrow();
        for (tensor, source) in tensors.iter() {
            if let Source::Input(arg, name) = source {
                args.push(*arg);
                told.extend(tensor.shape().iter().cloned());
                self.buffer(NodeSpec::new(kind::PARAM), name, tensor, false);
            }
        }
        told.extend(results.iter().flat_map(|result| result.shape().iter().cloned()));
        let untold = self.untold(&told);
        let mut of_shapes = BTreeSet::new();
        let mut see = |dim: &Dim| note(dim, &mut |sym| of_shapes.extend([sym.id]));
        tensors.iter().for_each(|(tensor, _)| tensor.shape().iter().for_each(&mut see));
        for sym in &untold {
            // A variable that no shape mentions is a plain number, because the printed form does not distinguish the
            // two.
            let ty = match of_shapes.contains(&sym.id) {
                true => {
                    let here = self.symbol(*sym);
                    self.b.symbol_type(here)
                }
                false => self.b.ty(&Type::Prim { dtype: sym.dtype, value: None }),
            };
            let v = self.b.node(NodeSpec::new(kind::PARAM).ty(ty), &[], Some(&self.name_of(*sym)));
            self.scalars.insert(sym.id, v);
        }
        for result in results {
            self.buffer(NodeSpec::new(kind::PARAM), tensors[result.id].1.name(), result, false);
        }
        (args, untold)
    }

    /// Returns the mentioned symbolic variables that shapes in `told` do not determine, in the order in which they
    /// occur: first in the shapes in `told`, then elsewhere. TVM takes the variables from a hash set; this is its most
    /// frequent order.
    fn untold(&self, told: &[Dim]) -> Vec<Sym> {
        let mut found = Vec::new();
        let mut see = |dim: &Dim| {
            note(dim, &mut |sym| {
                if !found.contains(&sym) {
                    found.push(sym)
                }
            })
        };
        told.iter().for_each(&mut see);
        for (tensor, source) in self.te.tensors.borrow().iter() {
            tensor.shape().iter().for_each(&mut see);
            if let Source::Step(step) = source {
                step.exprs().for_each(|expr| each_index(expr, &mut see));
                step.axes.iter().chain(&self.axes_of(step)).for_each(|axis| see(&axis.extent));
            }
            if let Source::State(scan, _) = source {
                see(&scan.axis.extent);
            }
        }
        let is_told = |sym: &Sym| told.iter().any(|dim| matches!(dim, Dim::Var(known) if known == sym));
        found.retain(|sym| !is_told(sym));
        found
    }

    fn axes_of(&self, step: &Step) -> Vec<Axis> {
        match &*step.value.node {
            Node::Reduce(reduction) => self.te.reduced_axes(&reduction.axes),
            Node::Pair(pair) => self.te.reduced_axes(&pair.axes),
            Node::Scatter(scatter) => self.te.reduced_axes(&scatter.axes),
            _ => Vec::new(),
        }
    }

    fn name_of(&self, sym: Sym) -> String {
        self.te.call.value().symbol_name(sym).unwrap_or("n").to_string()
    }

    /// Returns the counterpart of a caller's variable in this function.
    fn symbol(&mut self, sym: Sym) -> Sym {
        if let Some(known) = self.symbols.get(&sym.id) {
            return *known;
        }
        let here = self.b.sym(&self.name_of(sym), sym.dtype);
        self.symbols.insert(sym.id, here);
        here
    }

    /// Converts a caller's dimension to a dimension of this function.
    fn dim(&mut self, dim: &Dim) -> Dim {
        dim.vars(&mut |sym| {
            self.symbol(sym);
        });
        substitute(dim, &|sym| self.symbols.get(&sym.id).map(|here| Dim::Var(*here)))
    }

    /// Adds a buffer. The shape of a parameter is kept as written; any other shape is converted to TVM's form.
    fn buffer(&mut self, spec: NodeSpec, name: &str, tensor: &TeTensor, inner: bool) {
        let shape = tensor.shape().iter().map(|dim| if inner { self.dim(&form(dim)) } else { self.dim(dim) }).collect();
        let ty = self.b.ty(&Type::Buffer(BufferType { tiled: false, ..BufferType::new(shape, tensor.dtype) }));
        let v = self.b.node(spec.ty(ty).attrs(AttrsId::NONE), &[], Some(name));
        self.buffers.insert(tensor.id, v);
    }

    /// Writes loops over all axes, and the block inside them.
    fn nest(&mut self, tensor: &TeTensor, step: &Step) {
        if let Node::Scatter(scatter) = &*step.value.node {
            return self.scatter(tensor, step, scatter);
        }
        let reduced = self.axes_of(step);
        if reduced.iter().any(|axis| axis.extent.as_int() == Some(0)) {
            return self.of_nothing(tensor, step);
        }
        let axes: Vec<(Axis, u32)> = step
            .axes
            .iter()
            .map(|one| (one.clone(), axis::SPATIAL))
            .chain(reduced.into_iter().map(|one| (one, axis::REDUCE)))
            .collect();
        self.nested(&step.name, &axes, |emit| emit.block(tensor, step));
    }

    /// Writes the result of a reduction over zero elements, which is the start value; the reduction block itself would
    /// never run.
    fn of_nothing(&mut self, tensor: &TeTensor, step: &Step) {
        let starts = match &*step.value.node {
            Node::Reduce(reduction) => vec![(tensor.clone(), reduction.start.clone())],
            Node::Pair(pair) => pair.tensors.iter().cloned().zip(pair.start.iter().cloned()).collect(),
            _ => Vec::new(),
        };
        for (tensor, value) in starts {
            let Step { name, axes, place, notes, .. } = step;
            let (name, axes, place, notes) = (name.clone(), axes.clone(), place.clone(), notes.clone());
            self.nest(&tensor, &Step { name, axes, value, place, notes });
        }
    }

    /// Writes the initial values of all elements, followed by the changes to some of them, in order.
    fn scatter(&mut self, tensor: &TeTensor, step: &Step, scatter: &Scatter) {
        let first = Step {
            name: step.name.clone(),
            axes: step.axes.clone(),
            value: scatter.start.clone(),
            place: None,
            notes: Vec::new(),
        };
        self.nest(tensor, &first);
        let axes: Vec<(Axis, u32)> = self.axes_of(step).into_iter().map(|one| (one, axis::OPAQUE)).collect();
        self.nested(&step.name, &axes, |emit| {
            for read in reads_of(step).iter().filter(|read| read.tensor.id != tensor.id) {
                emit.access(0, &read.tensor, &read.ranges);
            }
            // The values of other tensors determine which elements change, so the whole tensor is accessed.
            emit.access_all(0, tensor);
            emit.access_all(1, tensor);
            let next = emit.simple(&scatter.next);
            emit.store(tensor, &scatter.place, next);
        });
    }

    /// Writes loops over `axes` around a block that has these axes as iterators and contains the given statements.
    fn nested(&mut self, name: &str, axes: &[(Axis, u32)], content: impl FnOnce(&mut Self)) {
        let mut vars = Vec::new();
        for (one, _) in axes {
            let dtype = one.extent.dtype();
            let (min, extent) = (self.int(0, dtype), self.index(&one.extent));
            self.b.begin(NodeSpec::new(kind::FOR), &[min, extent], None);
            let spec = NodeSpec::new(kind::LOOP_VAR).flags(flag::INNER);
            vars.push(self.node_named(spec, &[], dtype, &one.name));
        }
        let name = self.block_name(name);
        self.b.begin(NodeSpec::new(kind::SBLOCK).flags(flag::BOUND), &[], Some(&name));
        for ((one, of), var) in axes.iter().zip(vars) {
            let dtype = one.extent.dtype();
            let ops = [self.int(0, dtype), self.index(&one.extent), var];
            let spec = NodeSpec::new(kind::ITER_VAR).a(*of).flags(flag::INNER);
            let v = self.node_named(spec, &ops, dtype, &format!("v_{}", one.name));
            self.scalars.insert(one.sym.id, v);
        }
        if axes.is_empty() {
            let ops = [self.int(0, INDEX), self.int(1, INDEX), self.int(0, INDEX)];
            let spec = NodeSpec::new(kind::ITER_VAR).a(axis::SPATIAL).flags(flag::INNER);
            self.node_named(spec, &ops, INDEX, "vi");
        }
        content(self);
        (0..axes.len() + 1).for_each(|_| self.b.end());
    }

    /// Returns a block name that the function does not use yet: `hint`, or `hint_1`, `hint_2`…
    fn block_name(&mut self, hint: &str) -> String {
        let used = self.blocks.entry(hint.to_string()).or_default();
        *used += 1;
        if *used == 1 { hint.to_string() } else { format!("{hint}_{}", *used - 1) }
    }

    /// Writes a block: its reads and writes, its annotations, and its statements.
    fn block(&mut self, tensor: &TeTensor, step: &Step) {
        let one = |axis: &Axis| TeExpr::of_dim(Dim::Var(axis.sym));
        let indices = step.place.clone().unwrap_or_else(|| step.axes.iter().map(one).collect());
        let written = computed(tensor, step);
        // A pair reads the elements that it writes. Any other step that reads its own tensor is in a loop over time, and reads earlier rows.
        let is_own = |read: &Read| written.len() > 1 && written.iter().any(|own| own.id == read.tensor.id);
        for read in reads_of(step).iter().filter(|read| !is_own(read)) {
            self.access(0, &read.tensor, &read.ranges);
        }
        let point = |index: &TeExpr| (index.clone(), TeExpr::int(1, index.dtype));
        for tensor in written {
            self.access(1, tensor, &indices.iter().map(point).collect::<Vec<_>>());
        }
        self.notes(step);
        match &*step.value.node {
            Node::Reduce(Reduction { op, value, start, .. }) => {
                self.b.begin(NodeSpec::new(kind::INIT), &[], None);
                let start = self.expr(start);
                self.store(tensor, &indices, start);
                self.b.end();
                let so_far = TeExpr::new(Node::Load(tensor.clone(), indices.clone()), tensor.dtype);
                let next = TeExpr::new(Node::Binary(*op, so_far, value.clone()), tensor.dtype);
                let next = self.expr(&next);
                self.store(tensor, &indices, next);
            }
            Node::Pair(pair) => self.pair(pair, &indices),
            _ => {
                let value = self.simple(&step.value);
                self.store(tensor, &indices, value);
            }
        }
    }

    /// Writes the annotations of a block. Tensors in annotations become operands.
    fn notes(&mut self, step: &Step) {
        if step.notes.is_empty() {
            return;
        }
        let mut ops = Vec::new();
        let mut operand = |tensor: &TeTensor| {
            ops.extend(self.buffers.get(&tensor.id));
            Attr::Object("operand".to_string(), [(None, Attr::Int(ops.len() as i64 - 1))].into())
        };
        let notes: Vec<(&str, Attr)> = step
            .notes
            .iter()
            .map(|(key, note)| match note {
                Note::Attr(attr) => (key.as_str(), attr.clone()),
                Note::Tensors(tensors) => (key.as_str(), Attr::List(tensors.iter().map(&mut operand).collect())),
            })
            .collect();
        let attrs = self.b.attrs(notes);
        self.b.node(NodeSpec::new(kind::ANNOTATE).attrs(attrs).flags(flag::IMPURE), &ops, None);
    }

    /// Writes two elements that are each computed from the previous values of both.
    fn pair(&mut self, pair: &Pair, indices: &[TeExpr]) {
        self.b.begin(NodeSpec::new(kind::INIT), &[], None);
        for (tensor, start) in pair.tensors.iter().zip(&pair.start) {
            let start = self.expr(start);
            self.store(tensor, indices, start);
        }
        self.b.end();
        let mut values = Vec::new();
        for (tensor, next) in pair.tensors.iter().zip(&pair.next) {
            let next = self.expr(next);
            values.push(self.node_named(
                NodeSpec::new(kind::BIND),
                &[next],
                tensor.dtype,
                &format!("v_{}", tensor.name()),
            ));
        }
        for (tensor, value) in pair.tensors.iter().zip(values) {
            self.store(tensor, indices, value);
        }
    }

    fn access_all(&mut self, what: u32, tensor: &TeTensor) {
        let whole = |dim: &Dim| (TeExpr::int(0, dim.dtype()), TeExpr::of_dim(dim.clone()));
        self.access(what, tensor, &tensor.shape().iter().map(whole).collect::<Vec<_>>());
    }

    fn access(&mut self, what: u32, tensor: &TeTensor, ranges: &[(TeExpr, TeExpr)]) {
        let mut ops = Vec::with_capacity(1 + 2 * ranges.len());
        ops.push(self.buffers[&tensor.id]);
        for (min, extent) in ranges {
            ops.extend([self.simple(min), self.simple(extent)]);
        }
        self.b.node(NodeSpec::new(kind::ACCESS).a(what), &ops, None);
    }

    fn store(&mut self, tensor: &TeTensor, indices: &[TeExpr], value: V) {
        let mut ops = Vec::with_capacity(2 + indices.len());
        ops.extend([self.buffers[&tensor.id], value]);
        ops.extend(indices.iter().map(|index| self.simple(index)));
        self.b.node(NodeSpec::new(kind::STORE).flags(flag::IMPURE), &ops, None);
    }

    fn int(&mut self, value: i64, dtype: DType) -> V {
        self.b.scalar(&Dim::int(value, dtype))
    }

    fn node(&mut self, spec: NodeSpec, ops: &[V], dtype: DType) -> V {
        let ty = self.b.ty(&Type::Prim { dtype, value: None });
        self.b.node(spec.ty(ty), ops, None)
    }

    fn node_named(&mut self, spec: NodeSpec, ops: &[V], dtype: DType, name: &str) -> V {
        let ty = self.b.ty(&Type::Prim { dtype, value: None });
        self.b.node(spec.ty(ty), ops, Some(name))
    }

    /// Writes an expression in indices and symbolic variables, in TVM's form.
    fn index(&mut self, dim: &Dim) -> V {
        self.written(&form(dim))
    }

    /// Writes an expression, with its integer arithmetic in TVM's form.
    fn simple(&mut self, expr: &TeExpr) -> V {
        let simple = self.formed(expr);
        self.expr(&simple)
    }

    /// Returns an expression with its integer arithmetic in TVM's form.
    fn formed(&mut self, expr: &TeExpr) -> TeExpr {
        let of = |emit: &mut Self, all: &[TeExpr]| all.iter().map(|one| emit.formed(one)).collect::<Vec<_>>();
        let node = match &*expr.node {
            Node::Index(Dim::Int(_) | Dim::Var(_)) => return expr.clone(),
            Node::Index(_) => return TeExpr::of_dim(form(&self.as_dim(expr))),
            Node::Binary(_, a, _) if !a.dtype.is_float() => return TeExpr::of_dim(form(&self.as_dim(expr))),
            Node::Binary(op, a, b) => Node::Binary(*op, self.formed(a), self.formed(b)),
            Node::Unary(op, a) => Node::Unary(*op, self.formed(a)),
            Node::Load(tensor, indices) => Node::Load(tensor.clone(), of(self, indices)),
            Node::Call(op, args) => Node::Call(op.clone(), of(self, args)),
            Node::Select(c, a, b) => Node::Select(self.formed(c), self.formed(a), self.formed(b)),
            Node::Float(_) | Node::Fault(_) | Node::Reduce(_) | Node::Pair(_) | Node::Scatter(_) => {
                return expr.clone();
            }
        };
        TeExpr::new(node, expr.dtype)
    }

    /// Returns an expression as integer arithmetic of indices and atoms. Each atom stands for a part that is not
    /// integer arithmetic.
    fn as_dim(&mut self, expr: &TeExpr) -> Dim {
        match &*expr.node {
            Node::Index(dim) => dim.clone(),
            Node::Binary(op, a, b) if !a.dtype.is_float() => {
                let (a, b) = (self.as_dim(a), self.as_dim(b));
                Dim::Expr(Arc::new(DimExpr::Binary(*op, expr.dtype, a, b)))
            }
            _ => {
                let atom = self.formed(expr);
                let known = self.atoms.iter().position(|known| same(known, &atom));
                let at = known.unwrap_or_else(|| {
                    self.atoms.push(atom);
                    self.atoms.len() - 1
                });
                Dim::Var(Sym { id: FIRST_ATOM + at as u32, dtype: expr.dtype })
            }
        }
    }

    fn written(&mut self, dim: &Dim) -> V {
        match dim {
            Dim::Int(_) => self.b.scalar(dim),
            Dim::Var(sym) if sym.id >= FIRST_ATOM => {
                let atom = self.atoms[(sym.id - FIRST_ATOM) as usize].clone();
                self.expr(&atom)
            }
            Dim::Var(sym) => match self.scalars.get(&sym.id) {
                Some(v) => *v,
                None => {
                    let here = self.symbol(*sym);
                    self.b.scalar(&Dim::Var(here))
                }
            },
            Dim::Expr(_) => match dim.operation() {
                None => self.b.scalar(dim),
                Some((op, dtype, operands)) => {
                    let operands = operands.into_iter().map(|operand| self.written(operand)).collect();
                    let (spec, ops) = self.b.operation(op, operands);
                    self.node(spec, &ops, dtype)
                }
            },
        }
    }

    fn expr(&mut self, expr: &TeExpr) -> V {
        let dtype = expr.dtype;
        let arith = |op: PrimOp| NodeSpec::new(kind::ARITH).a(op.into());
        match &*expr.node {
            Node::Index(dim) => self.written(dim),
            Node::Float(value) => self.b.scalar(&Dim::float(*value, dtype)),
            Node::Load(tensor, indices) => {
                let mut ops = Vec::with_capacity(1 + indices.len());
                ops.push(self.buffers[&tensor.id]);
                ops.extend(indices.iter().map(|index| self.expr(index)));
                self.node(NodeSpec::new(kind::LOAD), &ops, dtype)
            }
            Node::Binary(op, a, b) => {
                let ops = [self.expr(a), self.expr(b)];
                self.node(arith(*op), &ops, dtype)
            }
            Node::Unary(op, a) => {
                let a = self.expr(a);
                self.node(arith(*op), &[a], dtype)
            }
            Node::Call(op, args) => {
                let mut ops = vec![self.b.op(op)];
                ops.extend(args.iter().map(|arg| self.expr(arg)));
                self.node(NodeSpec::new(kind::CALL), &ops, dtype)
            }
            Node::Select(cond, then, otherwise) => {
                let ops = [self.expr(cond), self.expr(then), self.expr(otherwise)];
                self.node(NodeSpec::new(kind::SELECT), &ops, dtype)
            }
            // `finish` rejects these, because a reduction must be a whole element, and a fault is an error.
            Node::Reduce(_) | Node::Pair(_) | Node::Scatter(_) | Node::Fault(_) => self.b.scalar(&zero()),
        }
    }
}

/// Calls `f` with each index expression in an expression.
fn each_index(expr: &TeExpr, f: &mut dyn FnMut(&Dim)) {
    match &*expr.node {
        Node::Index(dim) => f(dim),
        Node::Float(_) | Node::Fault(_) => {}
        Node::Load(_, of) | Node::Call(_, of) => of.iter().for_each(|operand| each_index(operand, f)),
        Node::Binary(_, a, b) => [a, b].into_iter().for_each(|operand| each_index(operand, f)),
        Node::Unary(_, a) => each_index(a, f),
        Node::Select(c, a, b) => [c, a, b].into_iter().for_each(|operand| each_index(operand, f)),
        Node::Reduce(reduction) => each_index(&reduction.value, f),
        Node::Pair(pair) => pair.next.iter().for_each(|operand| each_index(operand, f)),
        Node::Scatter(scatter) => {
            scatter.place.iter().chain([&scatter.start, &scatter.next]).for_each(|operand| each_index(operand, f));
        }
    }
}

/// Calls `f` with the caller's symbolic variables in a dimension, from left to right.
fn note(dim: &Dim, f: &mut dyn FnMut(Sym)) {
    dim.vars(&mut |sym| {
        if sym.id < FIRST_AXIS {
            f(sym);
        }
    });
}
