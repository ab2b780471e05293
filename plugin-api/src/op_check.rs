//! What holds for every operator: number and kinds of arguments, presence and types of attributes.

use crate::ir::records::{attr, tykind};
use crate::ir::{AttrView, Call, Expr, Value};
use crate::meta::{ArgInfo, ArgKind, AttrDefault, AttrInfo, AttrType, OpInfo};
use crate::op::InferError;

/// Checks a call against the declaration of its operator, before its rule is asked.
///
/// Attributes that have a default may be left out. Arguments of unknown type pass: the rule decides.
///
/// # Errors
/// What does not fit, with the signature of the operator.
pub fn check_call(info: &OpInfo, call: Call<'_>) -> Result<(), InferError> {
    fault(info, call).map_or(Ok(()), |fault| Err(InferError::wrong(format!("{fault}; it is {}", signature(info)))))
}

/// How an operator is called, as in the text: `R.nn.relu(data)`.
pub fn signature(info: &OpInfo) -> String {
    let args = info.args.iter().map(|arg| if arg.optional { format!("[{}]", arg.name) } else { arg.name.clone() });
    let attrs = info.attrs.iter().map(|attr| match &attr.default {
        Some(AttrDefault::None) => format!("{}=None", attr.name),
        Some(AttrDefault::Value(value)) => format!("{}={value}", attr.name),
        None => format!("{}=…", attr.name),
    });
    let parts: Vec<String> = args.chain(attrs).collect();
    format!("{}({})", info.name.replacen("relax.", "R.", 1), parts.join(", "))
}

fn fault(info: &OpInfo, call: Call<'_>) -> Option<String> {
    let found = call.args().len();
    let variadic = info.args.last().is_some_and(|arg| arg.name.starts_with('*'));
    let least = info.args.iter().filter(|arg| !arg.optional && !arg.name.starts_with('*')).count();
    if found < least || (!variadic && found > info.args.len()) {
        let most = info.args.len();
        let wanted = match (variadic, least == most) {
            (true, _) => format!("at least {least}"),
            (false, true) => least.to_string(),
            (false, false) => format!("{least} to {most}"),
        };
        let plural = if wanted == "1" { "" } else { "s" };
        return Some(format!("{} takes {wanted} argument{plural}, found {found}", info.name));
    }
    let unfit = info.args.iter().zip(call.args()).find_map(|(arg, value)| argument_fault(arg, value));
    unfit.or_else(|| attributes_fault(info, call))
}

fn argument_fault(arg: &ArgInfo, value: Value<'_>) -> Option<String> {
    let kind = value.ty().kind();
    let fits = match arg.kind {
        ArgKind::Any => true,
        // Some operators take a scalar for a tensor; their rules tell.
        ArgKind::Tensor => matches!(kind, tykind::TENSOR | tykind::DTENSOR | tykind::PRIM),
        ArgKind::Tuple => kind == tykind::TUPLE,
        ArgKind::Shape => kind == tykind::SHAPE,
        ArgKind::Prim => kind == tykind::PRIM || matches!(value.view(), Expr::Prim),
        ArgKind::Function => {
            kind == tykind::CALLABLE || matches!(value.view(), Expr::GlobalVar(_) | Expr::ExternFunc(_) | Expr::Str(_))
        }
    };
    let unknown = !value.ty().is_known() || kind == tykind::OBJECT;
    if fits || unknown {
        return None;
    }
    let name = arg.name.trim_start_matches('*');
    Some(format!("argument `{name}` must be {}, found {}", wanted(arg.kind), type_kind(kind)))
}

fn wanted(kind: ArgKind) -> &'static str {
    match kind {
        ArgKind::Any => "a value",
        ArgKind::Tensor => "a tensor",
        ArgKind::Tuple => "a tuple",
        ArgKind::Shape => "a shape such as R.shape([1, n])",
        ArgKind::Prim => "a scalar",
        ArgKind::Function => "a function",
    }
}

fn type_kind(kind: u16) -> &'static str {
    match kind {
        tykind::TENSOR | tykind::DTENSOR => "a tensor",
        tykind::SHAPE => "a shape",
        tykind::TUPLE => "a tuple",
        tykind::PRIM => "a scalar",
        tykind::CALLABLE => "a function",
        _ => "a value of another type",
    }
}

/// Whether calls have attributes that nobody declares: those of the function that an operator with any number of
/// arguments, and no attributes of its own, calls.
pub fn takes_any_attributes(info: &OpInfo) -> bool {
    info.attrs.is_empty() && info.args.last().is_some_and(|arg| arg.name.starts_with('*'))
}

fn attributes_fault(info: &OpInfo, call: Call<'_>) -> Option<String> {
    if takes_any_attributes(info) {
        return None;
    }
    let mut present = 0;
    for (key, value) in call.attrs().iter() {
        let Some(attr) = info.attrs.iter().find(|attr| attr.name == key) else {
            return Some(format!("{} has no attribute `{key}`", info.name));
        };
        if !fits(attr.ty, value) {
            return Some(format!("attribute `{key}` must be {}, found {value:?}", type_name(attr.ty)));
        }
        present += 1;
    }
    if present == info.attrs.len() {
        return None;
    }
    let missing = |attr: &&AttrInfo| attr.default.is_none() && call.attr(&attr.name).is_none();
    info.attrs.iter().find(missing).map(|attr| format!("{} needs the attribute `{}`", info.name, attr.name))
}

/// Whether a value is of the type that an attribute has.
pub fn fits(ty: AttrType, value: AttrView<'_>) -> bool {
    let ints = || value.kind() == attr::LIST && value.items().all(|item| item.kind() == attr::INT);
    match ty {
        AttrType::Any => true,
        AttrType::Bool => value.kind() == attr::BOOL,
        AttrType::Int => value.kind() == attr::INT,
        AttrType::Float => matches!(value.kind(), attr::FLOAT | attr::INT),
        AttrType::Str => value.kind() == attr::STR,
        AttrType::IntList => ints(),
        AttrType::DType => value.is_none() || value.as_dtype().is_some(),
        AttrType::OptInt => value.is_none() || value.kind() == attr::INT,
        AttrType::OptIntList => value.is_none() || ints(),
        AttrType::OptStr => value.is_none() || value.kind() == attr::STR,
    }
}

/// The type of an attribute in a message.
pub fn type_name(ty: AttrType) -> &'static str {
    match ty {
        AttrType::Bool => "True or False",
        AttrType::Int => "an integer",
        AttrType::Float => "a number",
        AttrType::Str => "a string",
        AttrType::IntList => "a list of integers",
        AttrType::DType => "a data type such as \"float32\", or None",
        AttrType::OptInt => "an integer or None",
        AttrType::OptIntList => "a list of integers or None",
        AttrType::Any => "an attribute",
        AttrType::OptStr => "a string or None",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{Attr, AttrsId, BodyBuilder, DType, Type, TypeId};
    use crate::meta::OptionValue;

    fn info() -> OpInfo {
        let arg = |name: &str, kind, optional| ArgInfo { name: name.to_string(), kind, optional };
        let attr = |name: &str, ty, default| AttrInfo { name: name.to_string(), ty, default };
        OpInfo {
            name: "relax.test".to_string(),
            args: vec![arg("x", ArgKind::Tensor, false), arg("shape", ArgKind::Shape, true)],
            attrs: vec![
                attr("axis", AttrType::OptInt, Some(AttrDefault::None)),
                attr("dtype", AttrType::DType, None),
                attr("keep", AttrType::Bool, Some(AttrDefault::Value(OptionValue::Bool(false)))),
            ],
            pure: true,
            doc: String::new(),
        }
    }

    /// Message for a call with arguments of these types and these attributes.
    fn check(args: &[Type], attrs: &[(&str, Attr)]) -> Option<String> {
        let mut b = BodyBuilder::new();
        b.begin_function(0, AttrsId::NONE, Some("f"));
        let params: Vec<_> = args
            .iter()
            .map(|ty| {
                let ty = b.ty(ty);
                b.param("x", ty)
            })
            .collect();
        let attrs = b.attrs(attrs.iter().cloned());
        let op = b.op("relax.test");
        let call = b.call(op, &params, attrs, TypeId::NONE, false, Some("y"));
        b.with(call, |value| value.as_call().and_then(|call| check_call(&info(), call).err()).map(|e| e.to_string()))
    }

    #[test]
    fn arguments_and_attributes_are_held_to_the_declaration() {
        let tensor = Type::tensor([2, 3], DType::F32);
        let dtype = ("dtype", Attr::from("float32"));
        let said = |args: &[Type], attrs: &[(&str, Attr)]| check(args, attrs).unwrap_or_default();
        assert_eq!(said(std::slice::from_ref(&tensor), std::slice::from_ref(&dtype)), "");
        assert_eq!(said(&[Type::Object], std::slice::from_ref(&dtype)), "");
        let signature = "; it is R.test(x, [shape], axis=None, dtype=…, keep=false)";
        let cases: &[(&[Type], &[(&str, Attr)], &str)] = &[
            (&[], &[], "relax.test takes 1 to 2 arguments, found 0"),
            (&[Type::Tuple(vec![])], &[], "argument `x` must be a tensor, found a tuple"),
            (
                &[tensor.clone(), tensor.clone()],
                &[],
                "argument `shape` must be a shape such as R.shape([1, n]), found a tensor",
            ),
            (std::slice::from_ref(&tensor), &[], "relax.test needs the attribute `dtype`"),
            (std::slice::from_ref(&tensor), &[("to", Attr::Int(1))], "relax.test has no attribute `to`"),
            (
                std::slice::from_ref(&tensor),
                &[("axis", Attr::Bool(true))],
                "attribute `axis` must be an integer or None, found Bool(true)",
            ),
            (
                std::slice::from_ref(&tensor),
                &[("dtype", Attr::from("flat32"))],
                "attribute `dtype` must be a data type such as \"float32\", or None, found Str(\"flat32\")",
            ),
        ];
        for (args, attrs, expected) in cases {
            assert_eq!(said(args, attrs), format!("{expected}{signature}"));
        }
    }
}
