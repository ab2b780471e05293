//! Shared by the tests of the IR: a stand-in for inference, and small functions.
#![allow(dead_code, reason = "each test file uses only a part of this module")]

use plugin_api::ir::records::{self, *};
use plugin_api::ir::{AttrsId, BodyBuilder, NodeSpec, SealError, Sections};
use plugin_api::prelude::*;
use plugin_api::tvm::{BlockBuilder, FunctionBuilder, post_order_visit};
use plugin_api::typing::operators::{Infer, Inferred};
use plugin_api::walk::dump::dump;

/// Infers every operator as element-wise, except that `relax.print` has effects and `relax.shape_of` returns a
/// shape.
pub(crate) struct Elementwise;

impl Infer for Elementwise {
    fn infer(&self, call: Call<'_>) -> Result<Inferred, InferError> {
        let first = || call.arg(0).map_or(Type::Object, |arg| arg.ty().to_owned());
        match call.op() {
            Some("relax.print") => Ok(Inferred { ty: Type::tuple([]), pure: false }),
            Some("relax.shape_of") => Ok(Inferred { ty: Type::Shape { ndim: 2, dims: None }, pure: true }),
            Some(name) if name.starts_with("relax.") => Ok(Inferred { ty: first(), pure: true }),
            name => Err(InferError::UnknownOp { name: name.unwrap_or("?").to_string(), near: vec![] }),
        }
    }
}

pub(crate) fn tensor() -> Type {
    Type::tensor([8, 8], DType::F32)
}

pub(crate) fn cond() -> Type {
    Type::tensor([0i64; 0], DType::BOOL)
}

/// Builds one function; `f` writes its bindings.
pub(crate) fn build(f: impl FnOnce(&FunctionBuilder<'_, '_>)) -> Body {
    let bb = BlockBuilder::new(&Elementwise);
    bb.function("main", f);
    bb.get().expect("builds").get("main").expect("is there").clone()
}

/// `lv = add(x, x); lv1 = relu(lv); gv = multiply(lv1, x)`, in a dataflow block.
pub(crate) fn chain() -> Body {
    build(|b| {
        let x = b.param("x", tensor());
        let gv = b.dataflow(|b| {
            let lv = b.emit(b.add(x, x));
            let lv1 = b.emit(b.relu(lv));
            b.emit_output(b.multiply(lv1, x))
        });
        b.emit_func_output(gv);
    })
}

pub(crate) fn named<'a>(body: &'a Body, name: &str) -> Value<'a> {
    body.lookup_binding(name).unwrap_or_else(|| panic!("no `{name}` in\n{}", dump(body)))
}

pub(crate) fn names(body: &Body) -> Vec<&str> {
    body.bindings().filter_map(Value::name).collect()
}

pub(crate) fn seal(sections: &Sections) -> Result<Body, SealError> {
    Body::seal(sections)
}

pub(crate) fn ty_number(s: &Sections) -> usize {
    s.types.iter().position(|ty| ty.kind == tykind::TENSOR).expect("is there")
}

/// Returns a body with a node, a leaf, a type and an attribute of unknown kinds.
pub(crate) fn unknown_kinds() -> Body {
    let mut b = BodyBuilder::new();
    b.begin_function(0, AttrsId::NONE, None);
    let ty = b.ty(&tensor());
    let x = b.param("x", ty);
    b.begin(NodeSpec::new(records::kind::BLOCK), &[], None);
    let leaf = b.string("payload");
    let attrs = b.attrs([("k", Attr::Int(7))]);
    let region = b.begin(NodeSpec::new(0x8002).flags(flag::OWNER | flag::IMPURE), &[x], Some("region"));
    let inner = b.node(NodeSpec::new(0x8001).ty(ty).attrs(attrs).a(5), &[x, leaf], Some("odd"));
    b.node(NodeSpec::new(0x8003), &[inner], None);
    b.end();
    let add = b.op("relax.add");
    let y = b.call(add, &[x, x], AttrsId::NONE, ty, false, Some("y"));
    let z = b.call(add, &[y, region], AttrsId::NONE, ty, false, Some("z"));
    b.end();
    b.end_function(z, ty);
    let mut s = Sections::copy_of(&b.raw());
    let at = s.leaves.iter().position(|leaf| leaf.kind == records::leaf::STR).expect("is there");
    s.leaves[at].kind = 0x8001;
    let types = s.types.len() as u32;
    let tensor = s.types[ty_number(&s)];
    s.types.push(TypeRec { kind: 0x8001, ..tensor });
    let odd = s.nodes.iter().position(|node| node.kind == 0x8001).expect("is there");
    s.nodes[odd].ty = types;
    seal(&s).expect("valid")
}

/// Calls every function that reads a body.
pub(crate) fn use_all(body: &Body) {
    let _ = dump(body);
    let _ = body.structural_hash();
    assert!(body.structural_eq(&seal(&Sections::copy_of(body.raw())).expect("a sealed body can be sealed again")));
    post_order_visit(body, |value| {
        let _ = (value.view(), value.ty().to_owned(), value.dims(), value.dim(), value.branches(), value.name());
        if let Some(call) = value.as_call() {
            let _ = (call.op(), call.args().len(), call.type_args().len());
        }
        let _ = plugin_api::arith::index_to_dim(value);
    });
    let _ = (body.users().at(0), body.root().region().free_vars(), body.n_bindings());
    let _ = remove_all_unused(body);
    let mut edit = body.edit();
    let root = edit.v(body.root());
    edit.update(root, |node| node.flags ^= flag::PRIVATE);
    let _ = edit.finish();
    let _ = body.rewrite(|value, rw| match value.as_call() {
        Some(call) if value.index().is_some_and(|i| i % 3 == 0) => {
            let args: Vec<V> = call.args().map(|arg| rw.v(arg)).collect();
            Action::Replace(rw.call_like(call, &args))
        }
        _ => Action::Keep,
    });
}
