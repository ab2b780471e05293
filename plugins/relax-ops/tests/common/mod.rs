//! Provides the operators of this crate to the TVMScript parser, without a host.

use plugin_api::ir::Call;
use plugin_api::metadata::{ArgInfo, AttrDefault, AttrInfo, OpInfo, OptionValue};
use plugin_api::typing::operator_checks::check_call;
use plugin_api::typing::operators::{DefaultDecl, Infer, InferError, Inferred, OpDecl};
use script::Operators;
use std::collections::BTreeMap;

/// The operators of this crate, without a host.
pub(crate) struct Ops(BTreeMap<&'static str, (OpInfo, OpDecl)>);

impl Ops {
    pub(crate) fn new() -> Ops {
        Ops(relax_ops::OPERATORS.iter().map(|decl| (decl.name, (info(decl), *decl))).collect())
    }
}

fn info(decl: &OpDecl) -> OpInfo {
    let ints = |v: &[i64]| OptionValue::List(v.iter().copied().map(OptionValue::Int).collect());
    let default = |default| match default {
        DefaultDecl::Required => None,
        DefaultDecl::None => Some(AttrDefault::None),
        DefaultDecl::Bool(v) => Some(AttrDefault::Value(OptionValue::Bool(v))),
        DefaultDecl::Int(v) => Some(AttrDefault::Value(OptionValue::Int(v))),
        DefaultDecl::Float(v) => Some(AttrDefault::Value(OptionValue::Float(v))),
        DefaultDecl::Str(v) => Some(AttrDefault::Value(OptionValue::Str(v.to_string()))),
        DefaultDecl::Ints(v) => Some(AttrDefault::Value(ints(v))),
        DefaultDecl::Floats(v) => {
            Some(AttrDefault::Value(OptionValue::List(v.iter().copied().map(OptionValue::Float).collect())))
        }
        DefaultDecl::SameAs(name) => Some(AttrDefault::SameAs(name.to_string())),
        other => panic!("no attribute has a default like {other:?}"),
    };
    OpInfo {
        name: decl.name.to_string(),
        args: decl
            .args
            .iter()
            .map(|arg| ArgInfo { name: arg.name.to_string(), kind: arg.kind, optional: arg.optional })
            .collect(),
        attrs: decl
            .attrs
            .iter()
            .map(|attr| AttrInfo {
                name: attr.name.to_string(),
                ty: attr.ty,
                default: default(attr.default),
                by_name: attr.by_name,
            })
            .collect(),
        pure: decl.pure,
        doc: decl.doc.to_string(),
    }
}

impl Infer for Ops {
    fn infer(&self, call: Call<'_>) -> Result<Inferred, InferError> {
        let name = call.op().unwrap_or("?");
        let (info, decl) = self.0.get(name).ok_or_else(|| InferError::wrong(format!("no {name}")))?;
        check_call(info, call)?;
        Ok(Inferred { ty: (decl.infer)(call)?, pure: decl.pure })
    }
}

impl Operators for Ops {
    fn op_info(&self, name: &str) -> Option<&OpInfo> {
        self.0.get(name).map(|(info, _)| info)
    }

    fn near_ops(&self, _: &str) -> Vec<String> {
        Vec::new()
    }
}
