//! Generates TIR statements.

use super::tir::{E, Loop, Tir};
use super::values::{DTYPES, dtype, entries, text};
use plugin_api::ir::records::{axis, buffer_of, flag, kind};
use plugin_api::ir::{AttrsId, BufferType, NodeSpec};
use plugin_api::prelude::*;
use plugin_api::scalar::PrimOp;

/// Writes a few statements. Variables that they define are not visible after them.
pub(super) fn statements(t: &mut Tir<'_, '_>, depth: usize) {
    let (vars, buffers) = (t.vars.len(), t.buffers.len());
    for _ in 0..1 + t.c.below(3) {
        statement(t, depth);
    }
    t.vars.truncate(vars);
    t.buffers.truncate(buffers);
}

fn plain(t: &mut Tir<'_, '_>, kind: u16, a: u32, ops: &[V]) {
    t.b.node(NodeSpec::new(kind).a(a).flags(flag::IMPURE), ops, None);
}

fn statement(t: &mut Tir<'_, '_>, depth: usize) {
    if t.left == 0 {
        return store(t);
    }
    t.left -= 1;
    if t.c.one_in(8) {
        let dtype = t.c.of(&[DType::I32, DType::F32]);
        let ty = t.prim_type(dtype);
        let v = t.b.node(NodeSpec::new(kind::VAR).ty(ty).flags(flag::INNER), &[], Some("x"));
        t.let_var = Some(E { v, dtype });
    }
    match t.c.below(if depth == 0 { 7 } else { 22 }) {
        0..=2 => store(t),
        3 => evaluate(t),
        4 => bind(t),
        5 => vector_store(t),
        6 => assert(t),
        7..=10 => for_(t, depth),
        11..=14 if t.s_tir => block(t, depth),
        11 | 12 => for_(t, depth),
        13 | 15 => cond(t, depth),
        16 => while_(t, depth),
        17 => attr(t, depth),
        18 => launch(t, depth),
        19 => t.allocate(buffer_of::ALLOC),
        20 => declare(t),
        21 if !t.loops.is_empty() => plain(t, t.c.of(&[kind::BREAK, kind::CONTINUE]), 0, &[]),
        _ => store(t),
    }
    t.let_var = None;
}

fn any_buffer(t: &Tir<'_, '_>) -> Option<(V, BufferType)> {
    let n = t.buffers.len();
    (n > 0).then(|| t.buffers[n - 1 - t.c.below(n)].clone())
}

fn store(t: &mut Tir<'_, '_>) {
    let Some((v, buffer)) = any_buffer(t) else { return evaluate(t) };
    let value = t.value(buffer.dtype, 3);
    let mut ops = vec![v, value.v];
    ops.extend(t.indices(&buffer, 2).into_iter().map(|e| e.v));
    plain(t, kind::STORE, 0, &ops);
}

/// Writes a store of a vector, in which some lanes may be masked.
fn vector_store(t: &mut Tir<'_, '_>) {
    let Some((v, buffer)) = any_buffer(t) else { return evaluate(t) };
    if buffer.shape.is_empty() || Tir::is_scalar(&buffer) {
        return store(t);
    }
    let value = t.vector(buffer.dtype);
    let mut ops = vec![v, value.v];
    ops.extend(t.vector_indices(&buffer).into_iter().map(|e| e.v));
    plain(t, kind::STORE, 0, &ops);
}

fn evaluate(t: &mut Tir<'_, '_>) {
    let value = match t.c.below(4) {
        0 => t.value(DType::I32, 2),
        1 => t.shuffle(DType::F32),
        _ => t.effect(),
    };
    plain(t, kind::EVALUATE, 0, &[value.v]);
}

fn bind(t: &mut Tir<'_, '_>) {
    let dtype = dtype(t.c.of(&["int32", "int64", "float32", "bool", "uint8"]));
    let value = t.value(dtype, 2);
    let ty = t.prim_type(dtype);
    let flags = if t.b.kind(value.v) == kind::CALL { flag::IMPURE } else { 0 };
    let name = t.c.of(&["a", "b", "tmp"]);
    let v = t.b.node(NodeSpec::new(kind::BIND).ty(ty).flags(flags), &[value.v], Some(name));
    t.vars.push(E { v, dtype });
}

fn assert(t: &mut Tir<'_, '_>) {
    let cond = t.condition(2);
    let error = t.b.string(t.c.of(&["RuntimeError", "ValueError"]));
    let message = text(t.c);
    let parts = [t.b.string("found "), t.b.string(&message)];
    plain(t, kind::ASSERT, 0, &[cond.v, error, parts[0], parts[1]]);
}

/// Writes a loop of any kind.
fn for_(t: &mut Tir<'_, '_>, depth: usize) {
    let index = t.index;
    let kind_ = t.c.of(&["serial", "serial", "serial", "parallel", "vectorized", "unroll", "thread_binding"]);
    let min = t.int_of(if t.c.one_in(4) { t.c.within(1, 5) } else { 0 }, index);
    let extent = if t.c.one_in(4) { t.value(index, 2) } else { t.int_of(t.c.of(&[4, 16, 1, 2]), index) };
    let mut ops = vec![min.v, extent.v];
    if kind_ == "serial" && t.c.one_in(6) {
        ops.push(t.int_of(t.c.within(2, 3), index).v);
    }
    let mut attrs: Vec<(&str, Attr)> = Vec::new();
    if kind_ != "serial" {
        attrs.push(("kind", Attr::Str(kind_.to_string())));
    }
    if kind_ == "thread_binding" {
        attrs.push(("thread", Attr::Str(t.c.of(&["threadIdx.x", "blockIdx.y", "vthread.x"]).to_string())));
    }
    if t.c.one_in(5) {
        attrs.push(("annotations", Attr::Dict(entries(t.c, 1).into())));
    }
    let attrs = if attrs.is_empty() { AttrsId::NONE } else { t.b.attrs(attrs) };
    t.b.begin(NodeSpec::new(kind::FOR).attrs(attrs), &ops, None);
    let ty = t.prim_type(index);
    let name = t.c.of(&["i", "j", "k"]);
    let v = t.b.node(NodeSpec::new(kind::LOOP_VAR).ty(ty).flags(flag::INNER), &[], Some(name));
    let var = E { v, dtype: index };
    let known = t.vars.len();
    t.vars.push(var);
    t.loops.push(Loop { var, bounds: extent.v.is_leaf().then_some((min.v, extent.v)) });
    statements(t, depth - 1);
    t.loops.pop();
    t.vars.truncate(known);
    t.b.end();
}

/// Writes a schedulable block. Only its own iterators and global names are visible in it.
fn block(t: &mut Tir<'_, '_>, depth: usize) {
    let name = t.c.of(&["block", "update", "C"]);
    t.b.begin(NodeSpec::new(kind::SBLOCK).flags(flag::BOUND), &[], Some(name));
    let iters = iterators(t);
    if t.c.one_in(4) {
        let cond = t.condition(1);
        plain(t, kind::WHERE, 0, &[cond.v]);
    }
    let inside = t.vars[..t.params].iter().copied().chain(iters).collect();
    let outside = std::mem::replace(&mut t.vars, inside);
    let loops = std::mem::take(&mut t.loops);
    let buffers = t.buffers.len();
    for a in [0, 1] {
        for _ in 0..t.c.below(3) {
            if let Some(buffer) = any_buffer(t) {
                access(t, &buffer, a);
            }
        }
    }
    if t.c.one_in(5) {
        annotate(t);
    }
    if t.c.one_in(6) {
        t.allocate(buffer_of::BLOCK);
    }
    if t.c.one_in(5) {
        match_buffer(t);
    }
    if t.c.one_in(4) {
        t.b.begin(NodeSpec::new(kind::INIT), &[], None);
        store(t);
        t.b.end();
    }
    statements(t, depth - 1);
    t.b.end();
    t.buffers.truncate(buffers);
    (t.vars, t.loops) = (outside, loops);
}

/// Writes the iterators of a block: one for each loop, or over separate ranges.
fn iterators(t: &mut Tir<'_, '_>) -> Vec<E> {
    let index = t.index;
    let ty = t.prim_type(index);
    let mut made = Vec::new();
    for open in t.loops.clone().into_iter().rev().take(t.c.below(4)) {
        let (a, bounds, value) = match (open.bounds, t.c.below(3)) {
            (Some(bounds), 0 | 1) => (t.c.of(&[axis::SPATIAL, axis::SPATIAL, axis::REDUCE]), bounds, open.var),
            _ => {
                let min = t.int_of(t.c.of(&[0, 0, 2]), index);
                let extent = t.int_of(t.c.of(&[16, 8]), index);
                let value = t.value(index, 1);
                (t.c.of(&[axis::SPATIAL, axis::REDUCE, axis::SCAN, axis::OPAQUE]), (min.v, extent.v), value)
            }
        };
        let name = t.c.of(&["vi", "vj", "vk"]);
        let spec = NodeSpec::new(kind::ITER_VAR).ty(ty).a(a).flags(flag::INNER);
        let v = t.b.node(spec, &[bounds.0, bounds.1, value.v], Some(name));
        made.push(E { v, dtype: index });
    }
    made
}

/// Writes the region of a buffer that a block reads (0) or writes (1), or that is used in another way (2).
fn access(t: &mut Tir<'_, '_>, (v, buffer): &(V, BufferType), a: u32) -> V {
    let mut ops = vec![*v];
    for _ in 0..buffer.shape.len() {
        let min = t.value(t.index, 1);
        let extent = t.int_of(t.c.of(&[1, 1, 4]), t.index);
        ops.extend([min.v, extent.v]);
    }
    t.b.node(NodeSpec::new(kind::ACCESS).a(a), &ops, None)
}

fn annotate(t: &mut Tir<'_, '_>) {
    let mut attrs = entries(t.c, 1);
    let mut ops = Vec::new();
    if let Some((buffer, _)) = any_buffer(t).filter(|_| t.c.coin()) {
        ops.push(buffer);
        let operand = Attr::Object("operand".to_string(), vec![(None, Attr::Int(0))].into());
        attrs.push(("layout_free".to_string(), Attr::list([operand])));
    }
    let attrs = t.b.attrs(attrs.iter().map(|(key, value)| (key.as_str(), value.clone())));
    t.b.node(NodeSpec::new(kind::ANNOTATE).attrs(attrs).flags(flag::IMPURE), &ops, None);
}

/// Writes a match of a buffer region under another name, which defines its strides and offset.
fn match_buffer(t: &mut Tir<'_, '_>) {
    let Some((v, source)) = any_buffer(t).filter(|(_, buffer)| !buffer.shape.is_empty()) else { return };
    if Tir::is_scalar(&source) {
        return;
    }
    let (mut ops, mut shape) = (vec![v], Vec::new());
    for _ in 0..source.shape.len() {
        let (min, extent) = (t.value(t.index, 0), t.c.of(&[4, 2, 8]));
        ops.extend([min.v, t.int_of(extent, t.index).v]);
        shape.push(t.number(extent));
    }
    let region = t.b.node(NodeSpec::new(kind::ACCESS).a(2), &ops, None);
    let mut buffer = BufferType { shape, strides: Vec::new(), elem_offset: None, ..source };
    (buffer.align, buffer.offset_factor) = (64, 1);
    if t.c.coin() {
        let index = t.index;
        buffer.strides = (0..buffer.shape.len()).map(|i| Dim::Var(t.b.sym(&format!("s{i}"), index))).collect();
        buffer.elem_offset = Some(Dim::Var(t.b.sym("elem_offset", index)));
        buffer.offset_factor = t.c.of(&[1, 4, 16]);
    }
    t.add_buffer("view", buffer, buffer_of::MATCH, &[region]);
}

fn cond(t: &mut Tir<'_, '_>, depth: usize) {
    let cond = t.condition(2);
    t.b.begin(NodeSpec::new(kind::COND), &[cond.v], None);
    for _ in 0..1 + t.c.below(2) {
        t.b.begin(NodeSpec::new(kind::SCOPE), &[], None);
        statements(t, depth - 1);
        t.b.end();
    }
    t.b.end();
}

fn while_(t: &mut Tir<'_, '_>, depth: usize) {
    let cond = t.condition(1);
    t.b.begin(NodeSpec::new(kind::WHILE), &[cond.v], None);
    statements(t, depth - 1);
    t.b.end();
}

fn attr(t: &mut Tir<'_, '_>, depth: usize) {
    let key = t.c.of(&["pragma_scope", "storage_alignment", "key"]);
    let buffer = any_buffer(t);
    let (value, node) = match (t.c.below(4), buffer) {
        (0, Some(buffer)) => {
            let node = t.data_of(&buffer);
            (t.int_of(64, DType::I32), Some(node))
        }
        (1, _) => {
            let node = combiner(t);
            (t.int_of(0, DType::I32), Some(node))
        }
        (2, _) => (E { v: t.b.string("text"), dtype: DType::VOID }, None),
        _ => (t.int_of(3, DType::I32), None),
    };
    let ops: Vec<V> = std::iter::once(value).chain(node).map(|e| e.v).collect();
    let attrs = t.b.attrs([("key", Attr::Str(key.to_string()))]);
    t.b.begin(NodeSpec::new(kind::ATTR).attrs(attrs), &ops, None);
    statements(t, depth - 1);
    t.b.end();
}

/// Returns a reduction of floats.
fn combiner(t: &mut Tir<'_, '_>) -> E {
    let identity = t.b.scalar(&Dim::float(0.0, DType::F32));
    let v = t.b.begin(NodeSpec::new(kind::COMBINER), &[identity], None);
    let ty = t.prim_type(DType::F32);
    let spec = NodeSpec::new(kind::LOOP_VAR).ty(ty).flags(flag::INNER);
    let [x, y] = ["x", "y"].map(|name| E { v: t.b.node(spec, &[], Some(name)), dtype: DType::F32 });
    let result = t.node(kind::ARITH, u32::from(t.c.of(&[PrimOp::Add, PrimOp::Mul, PrimOp::Max])), DType::F32, &[x, y]);
    t.b.node(NodeSpec::new(kind::YIELD), &[result.v], None);
    t.b.end();
    E { v, dtype: DType::VOID }
}

/// Writes a thread launch.
fn launch(t: &mut Tir<'_, '_>, depth: usize) {
    let thread = t.c.of(&["threadIdx.x", "blockIdx.x"]);
    let extent = t.int_of(t.c.of(&[32, 8]), DType::I32);
    let attrs = t.b.attrs([("thread", Attr::Str(thread.to_string()))]);
    t.b.begin(NodeSpec::new(kind::LAUNCH).attrs(attrs), &[extent.v], None);
    let ty = t.prim_type(DType::I32);
    let v = t.b.node(NodeSpec::new(kind::LOOP_VAR).ty(ty).flags(flag::INNER), &[], Some("tx"));
    let known = t.vars.len();
    t.vars.push(E { v, dtype: DType::I32 });
    statements(t, depth - 1);
    t.vars.truncate(known);
    t.b.end();
}

/// Writes a declaration of another buffer over existing data.
fn declare(t: &mut Tir<'_, '_>) {
    // TVM prints a view of a buffer with 0 dimensions but does not parse it.
    let Some(source) = any_buffer(t).filter(|(_, buffer)| !buffer.shape.is_empty()) else { return store(t) };
    let data = t.data_of(&source);
    let shape: Vec<Dim> = (0..t.c.of(&[1, 2])).map(|_| t.dim()).collect();
    let dtype = if t.c.one_in(4) { dtype(DTYPES[t.c.below(DTYPES.len())]) } else { source.1.dtype };
    let scope = source.1.scope.clone();
    let buffer = BufferType { scope, tiled: !t.s_tir, ..BufferType::new(shape, dtype) };
    t.add_buffer("V", buffer, buffer_of::DECL, &[data.v]);
}
