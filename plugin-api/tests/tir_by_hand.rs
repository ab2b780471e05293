//! Builds PrimFuncs by hand to test that the format can represent TIR: a symbolic shape, a match_buffer with strides,
//! the fusion of two functions, and one simplifier for dimensions and index expressions.

use plugin_api::arith;
use plugin_api::arith::{atom_of, index_to_dim};
use plugin_api::ir::records::{flag, kind};
use plugin_api::ir::{BodyBuilder, BodyKind, BufferType, NodeSpec, Sections, TypeId};
use plugin_api::prelude::*;
use plugin_api::scalar::PrimOp;
use plugin_api::tvm::post_order_visit;
use plugin_api::walk::dump::dump;

fn buffer(shape: Vec<Dim>, strides: Vec<Dim>, elem_offset: Option<Dim>) -> BufferType {
    BufferType { strides, elem_offset, ..BufferType::new(shape, DType::F32) }
}

/// Builds a PrimFunc.
struct Tir {
    b: BodyBuilder,
    index: TypeId,
    value: TypeId,
}

impl Tir {
    fn new() -> Tir {
        let mut b = BodyBuilder::new();
        let index = b.ty(&Type::Prim { dtype: DType::I64, value: None });
        let value = b.ty(&Type::Prim { dtype: DType::F32, value: None });
        let attrs = b.attrs([("tir.noalias", Attr::Bool(true))]);
        b.begin(NodeSpec::new(kind::PRIM_FUNC).attrs(attrs), &[], None);
        Tir { b, index, value }
    }

    /// Adds a buffer parameter: the handle, and the buffer derived from it.
    fn param(&mut self, name: &str, ty: &BufferType) -> V {
        let handle = self.b.ty(&Type::Pointer { dtype: ty.dtype, scope: "global".to_string() });
        let param = self.b.param(&format!("{name}_handle"), handle);
        self.buffer(name, ty, &[param])
    }

    /// Adds a buffer. The node is the identity of the buffer; two buffers may share a record.
    fn buffer(&mut self, name: &str, ty: &BufferType, of: &[V]) -> V {
        let ty = self.b.ty(&Type::Buffer(ty.clone()));
        self.b.node(NodeSpec::new(kind::BUFFER).ty(ty).flags(flag::INNER), of, Some(name))
    }

    /// Adds a dimension, which is a leaf in an expression.
    fn dim(&mut self, dim: impl Into<Dim>) -> V {
        self.b.prim_value(&dim.into())
    }

    fn arith(&mut self, op: PrimOp, a: V, b: V, ty: TypeId) -> V {
        self.b.node(NodeSpec::new(kind::ARITH).ty(ty).a(u32::from(op)), &[a, b], None)
    }

    fn begin_for(&mut self, name: &str, extent: &Dim) -> V {
        let (min, extent) = (self.dim(0), self.dim(extent.clone()));
        self.b.begin(NodeSpec::new(kind::FOR), &[min, extent], None);
        self.b.node(NodeSpec::new(kind::LOOP_VAR).ty(self.index).flags(flag::INNER), &[], Some(name))
    }

    fn begin_block(&mut self, name: &str, extents: &[Dim], values: &[V]) -> Vec<V> {
        self.b.begin(NodeSpec::new(kind::SBLOCK).flags(flag::BOUND), &[], Some(name));
        let iters = extents.iter().zip(values).enumerate().map(|(i, (extent, value))| {
            let (min, extent) = (self.dim(0), self.dim(extent.clone()));
            let spec = NodeSpec::new(kind::ITER_VAR).ty(self.index).flags(flag::INNER);
            self.b.node(spec, &[min, extent, *value], Some(&format!("v{i}")))
        });
        iters.collect()
    }

    fn access(&mut self, write: bool, buffer: V, index: &[V]) {
        let one = self.dim(1);
        let mut ops = vec![buffer];
        ops.extend(index.iter().flat_map(|i| [*i, one]));
        self.b.node(NodeSpec::new(kind::ACCESS).a(u32::from(write)), &ops, None);
    }

    fn load(&mut self, buffer: V, index: &[V]) -> V {
        let ops: Vec<V> = std::iter::once(buffer).chain(index.iter().copied()).collect();
        self.b.node(NodeSpec::new(kind::LOAD).ty(self.value), &ops, None)
    }

    fn store(&mut self, buffer: V, value: V, index: &[V]) {
        let ops: Vec<V> = [buffer, value].into_iter().chain(index.iter().copied()).collect();
        self.b.node(NodeSpec::new(kind::STORE).flags(flag::IMPURE), &ops, None);
    }

    fn finish(mut self) -> Body {
        self.b.end();
        self.b.finish().expect("valid")
    }
}

/// Returns `B[i, j] = A[i, j] + A[i, j]` over `(n, 16)`.
fn symbolic(name: &str) -> Body {
    let mut t = Tir::new();
    let n = Dim::Var(t.b.sym(name, DType::I64));
    let shape = vec![n.clone(), Dim::Int(16)];
    let a = t.param("A", &buffer(shape.clone(), vec![], None));
    let out = t.param("B", &buffer(shape.clone(), vec![], None));
    let (i, j) = (t.begin_for("i", &shape[0]), t.begin_for("j", &shape[1]));
    let v = t.begin_block("add", &shape, &[i, j]);
    t.access(false, a, &v);
    t.access(true, out, &v);
    let (x, y) = (t.load(a, &v), t.load(a, &v));
    let ty = t.value;
    let sum = t.arith(PrimOp::Add, x, y, ty);
    t.store(out, sum, &v);
    (0..3).for_each(|_| t.b.end());
    t.finish()
}

#[test]
fn a_prim_func_with_a_symbolic_shape() {
    let (a, b) = (symbolic("n"), symbolic("rows"));
    assert_eq!(a.kind(), BodyKind::PrimFunc);
    assert!(a.structural_eq(&b), "up to the names of symbolic variables");
    assert_eq!(a.structural_hash(), b.structural_hash());
    // A traversal finds everything without TIR-specific code. An edit without changes keeps the handle. An edit with
    // changes keeps statements without users in place.
    let mut statements = 0;
    post_order_visit(&a, |value| statements += usize::from(value.kind() == kind::STORE));
    assert_eq!(statements, 1);
    assert!(remove_all_unused(&a).expect("valid").same(&a), "{}", dump(&a));
    let renamed = a.rewrite(|value, rw| {
        if value.kind() == kind::BUFFER {
            let v = rw.v(value);
            rw.edit().set_name(v, "buffer");
        }
        Action::Keep
    });
    let renamed = renamed.expect("valid");
    assert!(renamed.structural_eq(&a) && !renamed.same(&a) && renamed.len() == a.len(), "{}", dump(&renamed));
}

/// Returns a match_buffer of one row of `A`, with its own strides and offset.
fn strided(rows: i64) -> Body {
    let mut t = Tir::new();
    let stride = Dim::Var(t.b.sym("s", DType::I64));
    let a = t.param("A", &buffer(vec![Dim::Int(8), Dim::Int(16)], vec![stride.clone(), Dim::Int(1)], None));
    let i = t.begin_for("i", &Dim::Int(8 / rows));
    let v = t.begin_block("rows", &[Dim::Int(8 / rows)], &[i]);
    let (ty, factor, extent, zero, width) = (t.index, t.dim(rows), t.dim(rows), t.dim(0), t.dim(16));
    let first = t.arith(PrimOp::Mul, v[0], factor, ty);
    let region =
        t.b.node(NodeSpec::new(kind::ACCESS).flags(flag::INNER), &[a, first, extent, zero, width], Some("region"));
    let offset = Dim::Var(t.b.sym("offset", DType::I64));
    let row = t.buffer(
        "row",
        &buffer(vec![Dim::Int(rows), Dim::Int(16)], vec![stride, Dim::Int(1)], Some(offset)),
        &[region],
    );
    let x = t.load(row, &[zero, zero]);
    t.store(row, x, &[zero, zero]);
    (0..2).for_each(|_| t.b.end());
    t.finish()
}

#[test]
fn a_match_buffer_with_strides() {
    let body = strided(2);
    assert!(body.structural_eq(&strided(2)) && !body.structural_eq(&strided(4)));
    assert_ne!(body.structural_hash(), strided(4).structural_hash());
    let row = body.lookup_binding("row").expect("is there");
    let Type::Buffer(ty) = row.ty().to_owned() else { panic!("a buffer") };
    assert!(matches!((&ty.strides[0], &ty.elem_offset), (Dim::Var(_), Some(Dim::Var(_)))));
    assert_eq!(ty.shape, [Dim::Int(2), Dim::Int(16)]);
    // Buffers that share a record remain distinct, because the node is the identity.
    let again = Body::seal(&Sections::copy_of(body.raw())).expect("valid");
    assert!(again.structural_eq(&body));
    let region = row.operand(0).expect("what it matches");
    assert_eq!((region.kind(), region.operand(0).and_then(Value::name)), (kind::ACCESS, Some("A")));
}

/// Returns `B[i] = A[i] * A[i]`, over `n`.
fn square() -> Body {
    let mut t = Tir::new();
    let n = Dim::Var(t.b.sym("n", DType::I64));
    let a = t.param("A", &buffer(vec![n.clone()], vec![], None));
    let out = t.param("B", &buffer(vec![n.clone()], vec![], None));
    let i = t.begin_for("i", &n);
    let v = t.begin_block("square", &[n], &[i]);
    let (x, y, ty) = (t.load(a, &v), t.load(a, &v), t.value);
    let product = t.arith(PrimOp::Mul, x, y, ty);
    t.store(out, product, &v);
    (0..2).for_each(|_| t.b.end());
    t.finish()
}

#[test]
fn two_prim_funcs_are_fused_by_import() {
    // In square(square(A)), the fused function allocates the intermediate buffer.
    let (first, second) = (square(), square());
    let mut t = Tir::new();
    let n = t.b.sym("n", DType::I64);
    let shape = || vec![Dim::Var(n)];
    let a = t.param("A", &buffer(shape(), vec![], None));
    let out = t.param("B", &buffer(shape(), vec![], None));
    let middle = t.buffer("T", &buffer(shape(), vec![], None), &[]);
    for (body, from, to) in [(&first, a, middle), (&second, middle, out)] {
        let mut importer = t.b.importer(body.raw());
        importer.map_sym(0, n.id);
        importer.map(body.lookup_binding("A").expect("is there"), from);
        importer.map(body.lookup_binding("B").expect("is there"), to);
        for child in body.root().region().children().filter(|child| child.kind() == kind::FOR) {
            importer.copy(&mut t.b, child).expect("all operands are mapped");
        }
    }
    let fused = t.finish();
    assert_eq!(fused.raw().var_names().len(), 1, "the two share their symbolic variable");
    let users = fused.users();
    let middle = fused.lookup_binding("T").expect("is there");
    let kinds: Vec<u16> = users.each(middle).map(Value::kind).collect();
    assert_eq!(kinds, [kind::STORE, kind::LOAD, kind::LOAD], "{}", dump(&fused));
    assert_ne!(fused.structural_hash(), first.structural_hash());
    assert_eq!(fused.values().filter(|value| value.kind() == kind::FOR).count(), 2);
}

#[test]
fn one_simplifier_serves_dimensions_and_indices() {
    // (i * 16 + n * 16) // 16 is i + n, where i is a loop variable and n a symbolic dimension.
    let mut t = Tir::new();
    let n = Dim::Var(t.b.sym("n", DType::I64));
    let i = t.begin_for("i", &n);
    let (ty, sixteen, rest) = (t.index, t.dim(16), t.dim(Dim::binary(PrimOp::Mul, n.clone(), Dim::Int(16))));
    let scaled = t.arith(PrimOp::Mul, i, sixteen, ty);
    let sum = t.arith(PrimOp::Add, scaled, rest, ty);
    let quotient = t.arith(PrimOp::FloorDiv, sum, sixteen, ty);
    t.b.node(NodeSpec::new(kind::EVALUATE), &[quotient], None);
    t.b.end();
    let body = t.finish();
    let value = body
        .values()
        .find(|value| value.kind() == kind::EVALUATE)
        .and_then(|value| value.operand(0))
        .expect("is there");
    let dim = index_to_dim(value).expect("an index");
    let i = body.lookup_binding("i").expect("is there");
    let expected = Dim::binary(PrimOp::Add, index_to_dim(i).expect("an atom"), n);
    assert_eq!(arith::prove_equal(&dim, &expected), Some(true), "{:?}", arith::simplify(&dim));
    let mut atoms = Vec::new();
    arith::simplify(&dim).vars(&mut |sym| atoms.extend(atom_of(sym)));
    assert_eq!(atoms, [i.index().expect("a node")]);
    // A load is not an index.
    let loads = square();
    assert!(loads.values().filter(|value| value.kind() == kind::LOAD).all(|load| index_to_dim(load).is_none()));
}

/// An expression that is its own operand and is used elsewhere could be copied endlessly.
#[test]
fn a_cycle_of_expressions_is_refused() {
    let body = symbolic("n");
    let mut edit = body.edit();
    let sum = body.values().find(|value| value.kind() == kind::ARITH).map(|value| edit.v(value)).expect("a sum");
    edit.set_operands(sum, &[sum, sum]);
    assert!(edit.finish().is_err());
}
