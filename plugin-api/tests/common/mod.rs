//! What the tests of the IR share: a stand-in for inference, and small functions.
#![allow(dead_code, reason = "each test file uses a part of it")]

use plugin_api::prelude::*;

/// Every operator is element by element; `relax.print` has an effect, `relax.shape_of` gives a shape.
pub(crate) struct Elementwise;

impl Infer for Elementwise {
    fn infer(&self, call: Call<'_>) -> Result<Inferred, InferError> {
        let first = || call.arg(0).map_or(Type::Object, |arg| arg.ty().to_owned());
        match call.op() {
            Some("relax.print") => Ok(Inferred { ty: Type::Tuple(vec![]), pure: false }),
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

/// Builds one function.
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
    body.lookup_binding(name).unwrap_or_else(|| panic!("no `{name}` in\n{}", plugin_api::dump::dump(body)))
}

pub(crate) fn names(body: &Body) -> Vec<&str> {
    body.bindings().filter_map(Value::name).collect()
}
