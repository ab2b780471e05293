//! A few operators without a plugin: enough to exercise most of the parser.

use plugin_api::ir::Call;
use plugin_api::metadata::{ArgInfo, ArgKind, AttrDefault, AttrInfo, AttrType, OpInfo, OptionValue};
use plugin_api::prelude::Type;
use plugin_api::typing::operators::{Infer, InferError, Inferred};
use script::Operators;
use std::sync::LazyLock;

/// The operators `relax.add`, `relax.nn.relu`, `relax.concat`, `relax.sum` and `relax.print`. Each call has the type of its
/// first argument.
pub struct SomeOps;

static OPERATORS: LazyLock<[OpInfo; 5]> = LazyLock::new(|| {
    let arg = |name: &str, kind| ArgInfo { name: name.into(), kind, optional: false };
    let attr = |name: &str, ty, default| AttrInfo { name: name.into(), ty, default: Some(default), by_name: false };
    let (tensor, tuple) = (ArgKind::Tensor, ArgKind::Tuple);
    let (none, no) = (AttrDefault::None, AttrDefault::Value(OptionValue::Bool(false)));
    let op = |name: &str, args: Vec<ArgInfo>, attrs: Vec<AttrInfo>| {
        let (name, pure) = (format!("relax.{name}"), name != "print");
        OpInfo { name, args, attrs, pure, doc: String::new() }
    };
    let sum = vec![attr("axis", AttrType::OptIntList, none.clone()), attr("keepdims", AttrType::Bool, no)];
    [
        op("add", vec![arg("x1", tensor), arg("x2", tensor)], vec![]),
        op("nn.relu", vec![arg("data", tensor)], vec![]),
        op("concat", vec![arg("tensors", tuple)], vec![attr("axis", AttrType::OptInt, none)]),
        op("sum", vec![arg("x", tensor)], sum),
        op("print", vec![arg("value", ArgKind::Any)], vec![]),
    ]
});

impl Infer for SomeOps {
    fn infer(&self, call: Call<'_>) -> Result<Inferred, InferError> {
        let name = call.op().unwrap_or("a call");
        let Some(info) = self.op_info(name) else {
            return Err(InferError::UnknownOp { name: name.to_string(), near: Vec::new() });
        };
        let ty = call.arg(0).map_or(Type::Object, |arg| arg.ty().to_owned());
        Ok(Inferred { ty, pure: info.pure })
    }
}

impl Operators for SomeOps {
    fn op_info(&self, name: &str) -> Option<&OpInfo> {
        OPERATORS.iter().find(|info| info.name == name)
    }

    fn near_ops(&self, _: &str) -> Vec<String> {
        Vec::new()
    }
}
