//! Checks that apply to every operator: number and kinds of arguments, presence and types of attributes.

use crate::ir::records::{LEAF_BIT, LeafRec, attr, flag, kind, leaf, tykind};
use crate::ir::{Attr, AttrView, Body, Call, DType, Dict, Expr, SealError, Value};
use crate::metadata::{ArgInfo, ArgKind, AttrDefault, AttrInfo, AttrType, OpInfo, OptionValue};
use crate::rewrite::Edit;
use crate::typing::operators::InferError;
use std::collections::HashSet;

/// Checks a call against the declaration of its operator, before the operator's rule runs.
///
/// Attributes with a default may be omitted. Arguments of unknown type are accepted, and left to the rule.
///
/// # Errors
/// A description of the mismatch, with the signature of the operator.
pub fn check_call(info: &OpInfo, call: Call<'_>) -> Result<(), InferError> {
    fault(info, call)
        .map_or(Ok(()), |fault| Err(InferError::wrong(format!("{fault}; the signature is {}", signature(info)))))
}

/// Returns the signature of an operator as in TVMScript: `R.nn.relu(data)`.
pub fn signature(info: &OpInfo) -> String {
    let args = info.args.iter().map(|arg| if arg.optional { format!("[{}]", arg.name) } else { arg.name.clone() });
    let attr = |attr: &AttrInfo| match &attr.default {
        Some(default) => format!("{}={}", attr.name, default_text(default)),
        None => format!("{}=…", attr.name),
    };
    let (positional, named) = info.attrs.split_at(n_positional(info));
    let named = named.first().map(|_| "*".to_string()).into_iter().chain(named.iter().map(attr));
    let parts: Vec<String> = args.chain(positional.iter().map(attr)).chain(named).collect();
    // An operator of a different namespace is written with the namespace: `R.acme.swish_glu`.
    format!("R.{}({})", info.name.strip_prefix("relax.").unwrap_or(&info.name), parts.join(", "))
}

/// Returns the number of attributes that may be written without their names.
pub fn n_positional(info: &OpInfo) -> usize {
    info.attrs.iter().position(|attr| attr.by_name).unwrap_or(info.attrs.len())
}

/// Returns the default of an attribute as in TVMScript: `None`, `True`, `"NCHW"`, `[1, 1]`.
pub fn default_text(default: &AttrDefault) -> String {
    match default {
        AttrDefault::None => "None".to_string(),
        AttrDefault::Value(value) => python(value),
        AttrDefault::SameAs(name) => name.clone(),
    }
}

fn python(value: &OptionValue) -> String {
    match value {
        OptionValue::Bool(true) => "True".to_string(),
        OptionValue::Bool(false) => "False".to_string(),
        OptionValue::Str(text) => format!("{text:?}"),
        OptionValue::List(items) => {
            let items: Vec<String> = items.iter().map(python).collect();
            format!("[{}]", items.join(", "))
        }
        number => number.to_string(),
    }
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
        // Some operators accept a scalar instead of a tensor; their rules check this.
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
    Some(format!("argument `{name}` must be {}, found {}", argument_kind(arg.kind), type_kind(kind)))
}

/// Describes the required kind of an argument: `a tensor`.
pub fn argument_kind(kind: ArgKind) -> &'static str {
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
        _ => "a different kind of value",
    }
}

/// Returns true if calls may have attributes that the operator does not declare. This holds for operators without attributes that call a
/// function with any number of arguments; the attributes belong to that function.
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
            return Some(format!("{} does not have an attribute `{key}`", info.name));
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

/// Returns true if a value has the type of an attribute.
pub fn fits(ty: AttrType, value: AttrView<'_>) -> bool {
    let ints = || value.kind() == attr::LIST && value.items().all(|item| item.kind() == attr::INT);
    match ty {
        AttrType::Any => true,
        AttrType::Bool => value.kind() == attr::BOOL,
        AttrType::Int => value.kind() == attr::INT,
        AttrType::Float => matches!(value.kind(), attr::FLOAT | attr::INT),
        AttrType::Str => value.kind() == attr::STR,
        AttrType::IntList | AttrType::RepeatedInts => ints(),
        AttrType::DType => value.is_none() || value.as_dtype().is_some(),
        AttrType::OptInt => value.is_none() || value.kind() == attr::INT,
        AttrType::OptIntList => value.is_none() || ints(),
        AttrType::OptStr => value.is_none() || value.kind() == attr::STR,
    }
}

/// Converts an attribute to the declared form: numbers of the declared type, a single integer to a list if a list is declared, data types
/// to their canonical names. Values that do not fit are returned unchanged.
pub fn canonical_attr(info: &AttrInfo, value: Attr) -> Attr {
    match (info.ty, value) {
        (AttrType::IntList | AttrType::OptIntList, Attr::Int(v)) => Attr::list([Attr::Int(v)]),
        (AttrType::RepeatedInts, Attr::Int(v)) => repeated(info, &[Attr::Int(v)]),
        (AttrType::RepeatedInts, Attr::List(items)) => repeated(info, &items),
        (AttrType::Float, Attr::Int(v)) => Attr::Float(v as f64),
        (AttrType::DType, Attr::Str(name)) => Attr::Str(match name.parse::<DType>() {
            Ok(dtype) if dtype.to_string().parse() == Ok(dtype) => dtype.to_string(),
            _ => name,
        }),
        (_, value) => value,
    }
}

/// Returns the items, repeated to the length of the default if that is a multiple of the number of items.
fn repeated(info: &AttrInfo, items: &[Attr]) -> Attr {
    let n = items.len();
    let wanted = declared_length(info).filter(|wanted| n > 0 && wanted % n == 0).unwrap_or(n);
    Attr::list(items.iter().cycle().take(wanted).cloned())
}

/// Returns the declared number of integers for an attribute with repeated values.
pub fn declared_length(info: &AttrInfo) -> Option<usize> {
    match (info.ty, &info.default) {
        (AttrType::RepeatedInts, Some(AttrDefault::Value(OptionValue::List(items)))) => Some(items.len()),
        _ => None,
    }
}

/// Adds the defaults of omitted attributes. Returns the first omitted attribute without a default.
pub fn add_defaults<'i, K: AsRef<str> + From<&'i str>>(
    info: &'i OpInfo,
    entries: &mut Vec<(K, Attr)>,
) -> Option<&'i AttrInfo> {
    let mut missing = None;
    let value = |entries: &[(K, Attr)], name: &str| {
        let found = entries.iter().find(|(key, _)| key.as_ref() == name);
        found.map_or(Attr::None, |(_, value)| value.clone())
    };
    for attr in &info.attrs {
        if entries.iter().any(|(key, _)| key.as_ref() == attr.name) {
            continue;
        }
        match &attr.default {
            Some(AttrDefault::Value(value)) => entries.push((attr.name.as_str().into(), option_attr(value))),
            Some(AttrDefault::None | AttrDefault::SameAs(_)) => entries.push((attr.name.as_str().into(), Attr::None)),
            None => missing = missing.or(Some(attr)),
        }
    }
    for attr in &info.attrs {
        if let Some(AttrDefault::SameAs(other)) = &attr.default
            && value(entries, &attr.name) == Attr::None
        {
            let same = value(entries, other);
            let own = entries.iter_mut().find(|(key, _)| key.as_ref() == attr.name);
            own.into_iter().for_each(|(_, value)| *value = same.clone());
        }
    }
    missing
}

fn option_attr(value: &OptionValue) -> Attr {
    match value {
        OptionValue::Bool(v) => Attr::Bool(*v),
        OptionValue::Int(v) => Attr::Int(*v),
        OptionValue::Float(v) => Attr::Float(*v),
        OptionValue::Str(v) => Attr::Str(v.clone()),
        OptionValue::List(items) => Attr::List(items.iter().map(option_attr).collect()),
    }
}

/// Returns the body with the attributes of all calls in the form that parsing the printed body would produce: as declared by the operator,
/// with defaults, sorted. `info` returns the declaration of an operator. An unchanged body keeps its handle; the check visits each call.
///
/// # Errors
/// Never fails for a valid body, but the result is validated.
pub fn with_declared_attributes<'i>(body: &Body, info: impl Fn(&str) -> Option<&'i OpInfo>) -> Result<Body, SealError> {
    let mut edit: Option<Edit<'_>> = None;
    // The attributes last found correct for each operator, because successive calls often share them, and the set of all attributes found
    // correct.
    let mut last: Vec<Option<u32>> = vec![None; body.raw().leaves().len()];
    let mut right: HashSet<(u32, u32)> = HashSet::new();
    for call in body.values().filter_map(Value::as_call) {
        let (callee, attrs) = (call.callee().word(), call.attrs());
        let Some(last) = last.get_mut((callee & !LEAF_BIT) as usize) else { continue };
        let known = *last == Some(attrs.id()) || right.contains(&(callee, attrs.id()));
        let Some(name) = call.op().filter(|_| !known) else { continue };
        match info(name).and_then(|info| declared(info, attrs)) {
            None => {
                *last = Some(attrs.id());
                right.insert((callee, attrs.id()));
            }
            Some(entries) => {
                let edit = edit.get_or_insert_with(|| body.edit());
                let id = edit.builder().attrs(entries.iter().map(|(key, value)| (key.as_str(), value.clone())));
                let v = edit.v(call.value());
                edit.set_attrs(v, id);
            }
        }
    }
    edit.map_or_else(|| Ok(body.clone()), Edit::finish)
}

/// Sets the effects of calls of undeclared operators as the parser does: such calls are effectful wherever effects are allowed. An
/// unchanged body keeps its handle.
///
/// # Errors
/// Never fails for a valid body, but the result is validated.
pub fn with_effects_of_unknown<'i>(body: &Body, info: impl Fn(&str) -> Option<&'i OpInfo>) -> Result<Body, SealError> {
    let unknown = |leaf: &LeafRec| leaf.kind == leaf::OP && info(body.raw().str(leaf.val as u32)).is_none();
    let unknown: Vec<bool> = body.raw().leaves().iter().map(unknown).collect();
    if !unknown.contains(&true) {
        return Ok(body.clone());
    }
    let (mut edit, mut open) = (body.edit(), Vec::<(usize, bool)>::new());
    for value in body.values() {
        while open.pop_if(|(end, _)| Some(*end) <= value.index()).is_some() {}
        let may = open.last().is_some_and(|(_, may)| *may);
        match value.kind() {
            kind::FUNC => open.push((value.end(), value.has(flag::IMPURE))),
            kind::DATAFLOW => open.push((value.end(), false)),
            kind::CALL => {
                let callee = value.operand(0).filter(|callee| callee.is_leaf());
                let asked = callee.and_then(|callee| unknown.get((callee.word() & !LEAF_BIT) as usize)) == Some(&true);
                if asked && value.has(flag::IMPURE) != may {
                    let v = edit.v(value);
                    edit.update(v, |node| node.flags ^= flag::IMPURE);
                }
            }
            _ => {}
        }
    }
    edit.finish()
}

/// Returns the attributes of a call in the declared form; `None` if they already have it.
fn declared(info: &OpInfo, attrs: Dict<'_>) -> Option<Vec<(String, Attr)>> {
    let sorted = attrs.iter().map(|(key, _)| key).is_sorted();
    if takes_any_attributes(info) {
        return (!sorted).then(|| attrs.to_owned());
    }
    let before = attrs.to_owned();
    let form = |(key, value): &(String, Attr)| match info.attrs.iter().find(|attr| attr.name == *key) {
        Some(attr) => (key.clone(), canonical_attr(attr, value.clone())),
        None => (key.clone(), value.clone()),
    };
    let mut entries: Vec<_> = before.iter().map(form).collect();
    // A missing attribute without a default is an error of the call, reported elsewhere.
    add_defaults(info, &mut entries);
    (!sorted || entries != before).then_some(entries)
}

/// Returns the name of an attribute type for messages.
pub fn type_name(ty: AttrType) -> &'static str {
    match ty {
        AttrType::Bool => "True or False",
        AttrType::Int => "an integer",
        AttrType::Float => "a number",
        AttrType::Str => "a string",
        AttrType::IntList | AttrType::RepeatedInts => "a list of integers",
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
    use crate::ir::{AttrsId, BodyBuilder, Type, TypeId};

    fn info() -> OpInfo {
        let arg = |name: &str, kind, optional| ArgInfo { name: name.to_string(), kind, optional };
        let attr = |name: &str, ty, default| AttrInfo { name: name.to_string(), ty, default, by_name: false };
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

    /// Returns the message for a call with the given argument types and attributes.
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
        let signature = "; the signature is R.test(x, [shape], axis=None, dtype=…, keep=False)";
        let cases: &[(&[Type], &[(&str, Attr)], &str)] = &[
            (&[], &[], "relax.test takes 1 to 2 arguments, found 0"),
            (&[Type::tuple([])], &[], "argument `x` must be a tensor, found a tuple"),
            (
                &[tensor.clone(), tensor.clone()],
                &[],
                "argument `shape` must be a shape such as R.shape([1, n]), found a tensor",
            ),
            (std::slice::from_ref(&tensor), &[], "relax.test needs the attribute `dtype`"),
            (std::slice::from_ref(&tensor), &[("to", Attr::Int(1))], "relax.test does not have an attribute `to`"),
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
