//! The implementations of the passes over Relax functions.

use plugin_api::ir::AttrsId;
use plugin_api::prelude::*;

/// Returns the first call of an operator, by its name without `relax.`.
fn first<'b>(body: &'b Body, op: &str) -> Option<Call<'b>> {
    body.values().find_map(|value| value.as_call_to(&format!("relax.{op}")))
}

pub(crate) fn ints(values: &[i64]) -> Attr {
    Attr::list(values.iter().map(|value| Attr::Int(*value)))
}

pub(crate) fn swapped(body: &Body, op: &str, i: usize, j: usize) -> Result<Body, PassError> {
    let mut edit = body.edit();
    if let Some(call) = first(body, op)
        && let (Some(a), Some(b)) = (call.arg(i), call.arg(j))
    {
        edit.set_operand(call.value(), i + 1, b);
        edit.set_operand(call.value(), j + 1, a);
    }
    Ok(edit.finish()?)
}

/// Replaces the call by its first argument.
pub(crate) fn dropped(body: &Body, op: &str) -> Result<Body, PassError> {
    let mut edit = body.edit();
    if let Some(call) = first(body, op)
        && let Some(arg) = call.arg(0)
    {
        edit.make_alias(call.value(), arg);
    }
    Ok(edit.finish()?)
}

pub(crate) fn round_trip(body: &Body, _: &Ctx) -> Result<Body, PassError> {
    let mut edit = body.edit();
    let casts = body.values().filter_map(|value| value.as_call_to("relax.astype"));
    for call in casts {
        if let Some(inner) = call.arg(0).and_then(|arg| arg.as_call_to("relax.astype"))
            && let Some(source) = inner.arg(0)
        {
            edit.make_alias(call.value(), source);
        }
    }
    Ok(edit.finish()?)
}

pub(crate) fn renamed(body: &Body, op: &str, to: &str) -> Result<Body, PassError> {
    let mut edit = body.edit();
    if let Some(call) = first(body, op) {
        let callee = edit.builder().op(&format!("relax.{to}"));
        edit.set_operand(call.value(), 0, callee);
    }
    Ok(edit.finish()?)
}

pub(crate) fn with_attr(body: &Body, op: &str, key: &str, attr: Attr) -> Result<Body, PassError> {
    let mut edit = body.edit();
    if let Some(call) = first(body, op) {
        edit.set_attr(call.value(), key, attr);
    }
    Ok(edit.finish()?)
}

pub(crate) fn with_constant<T: plugin_api::ir::constant::Element>(
    body: &Body,
    op: &str,
    arg: usize,
    shape: &[i64],
    values: &[T],
) -> Result<Body, PassError> {
    let mut edit = body.edit();
    if let Some(call) = first(body, op) {
        let array = Array::new(shape, values).map_err(|error| PassError::new(error.to_string()))?;
        let constant = edit.array(&array);
        edit.set_operand(call.value(), arg + 1, constant);
    }
    Ok(edit.finish()?)
}

/// Adds a named call before a value.
fn call_before(edit: &mut Edit<'_>, value: Value<'_>, op: &str, args: &[V], ty: &Type, name: &str) -> V {
    let callee = edit.builder().op(&format!("relax.{op}"));
    let ty = edit.builder().ty(ty);
    edit.before(value).call(callee, args, AttrsId::NONE, ty, false, Some(name))
}

pub(crate) fn broadcast(body: &Body, _: &Ctx) -> Result<Body, PassError> {
    let mut edit = body.edit();
    if let Some(call) = first(body, "add")
        && let Some(vector) = call.arg(1)
    {
        let (n, ty) = (4i64, Type::tensor([4i64, 1], DType::F32));
        let shape = edit.builder().shape(&[Dim::Int(n), Dim::Int(1)]);
        let vector = edit.v(vector);
        let column = call_before(&mut edit, call.value(), "reshape", &[vector, shape], &ty, "column");
        edit.set_operand(call.value(), 2, column);
    }
    Ok(edit.finish()?)
}

pub(crate) fn subexpression(body: &Body, _: &Ctx) -> Result<Body, PassError> {
    let mut edit = body.edit();
    let sums: Vec<Call<'_>> = body.values().filter_map(|value| value.as_call_to("relax.add")).collect();
    if let [first, second, ..] = sums.as_slice() {
        edit.make_alias(second.value(), first.value());
    }
    Ok(edit.finish()?)
}

pub(crate) fn in_place(body: &Body, _: &Ctx) -> Result<Body, PassError> {
    let mut edit = body.edit();
    if let Some(relu) = first(body, "nn.relu")
        && let Some(arg) = relu.arg(0)
    {
        for user in body.values().filter(|user| user.word() > relu.value().word()) {
            for (i, operand) in user.operands().enumerate() {
                if operand == arg {
                    edit.set_operand(user, i, relu.value());
                }
            }
        }
    }
    Ok(edit.finish()?)
}

pub(crate) fn bias(body: &Body, _: &Ctx) -> Result<Body, PassError> {
    let mut edit = body.edit();
    if let Some(call) = first(body, "add")
        && let (Some(x), Some(bias)) = (call.arg(0), call.arg(1))
    {
        let (ty, x, bias) = (call.ty().to_owned(), edit.v(x), edit.v(bias));
        let biased = call_before(&mut edit, call.value(), "add", &[x, bias], &ty, "biased");
        edit.set_operand(call.value(), 1, biased);
    }
    Ok(edit.finish()?)
}

/// Turns `conv2d(x, w) * s` into `conv2d(x, w * s)`. The correct change would scale the output channels of `w` by `s`.
pub(crate) fn scale_fold(body: &Body, twice: bool) -> Result<Body, PassError> {
    let mut edit = body.edit();
    if let Some(scaled) = first(body, "multiply")
        && let Some(conv) = scaled.arg(0).and_then(|arg| arg.as_call_to("relax.nn.conv2d"))
        && let (Some(weight), Some(scale)) = (conv.arg(1), scaled.arg(1))
    {
        let (ty, weight, mut scale) = (weight.ty().to_owned(), edit.v(weight), edit.v(scale));
        let at = conv.value();
        if twice {
            let shape = edit.builder().shape(&[4, 1, 1, 1].map(Dim::Int));
            let column = Type::tensor([4i64, 1, 1, 1], DType::F32);
            scale = call_before(&mut edit, at, "reshape", &[scale, shape], &column, "column");
            scale = call_before(&mut edit, at, "multiply", &[scale, scale], &column, "square");
        }
        let folded = call_before(&mut edit, at, "multiply", &[weight, scale], &ty, "folded");
        edit.set_operand(at, 2, folded);
        edit.make_alias(scaled.value(), conv.value());
    }
    Ok(edit.finish()?)
}

/// Returns different fields of the result tuple.
pub(crate) fn outputs(body: &Body, order: [usize; 2]) -> Result<Body, PassError> {
    let mut edit = body.edit();
    if let Some(result) = body.function().and_then(|function| function.result())
        && let Expr::Tuple(tuple) = result.view()
    {
        let fields: Vec<Value<'_>> = tuple.operands().collect();
        for (i, from) in order.into_iter().enumerate() {
            if let Some(field) = fields.get(from) {
                edit.set_operand(tuple, i, *field);
            }
        }
    }
    Ok(edit.finish()?)
}

/// Replaces a shape with reversed dimensions by a tensor.
pub(crate) fn symbol(body: &Body, _: &Ctx) -> Result<Body, PassError> {
    let mut edit = body.edit();
    if let Some(call) = first(body, "shape_to_tensor")
        && let Some(mut dims) = call.arg(0).and_then(Value::dims)
    {
        dims.reverse();
        let shape = edit.builder().shape(&dims);
        edit.set_operand(call.value(), 1, shape);
    }
    Ok(edit.finish()?)
}

/// Turns `(x + y) - x` into `y`, or into an operator applied to `y`.
pub(crate) fn cancelled(body: &Body, op: Option<&str>) -> Result<Body, PassError> {
    let mut edit = body.edit();
    let differences = body.values().filter_map(|value| value.as_call_to("relax.subtract"));
    for call in differences {
        let (Some(left), Some(x)) = (call.arg(0), call.arg(1)) else { continue };
        let Some(sum) = left.as_call_to("relax.add").filter(|sum| sum.arg(0) == Some(x)) else { continue };
        let Some(y) = sum.arg(1) else { continue };
        match op {
            None => edit.make_alias(call.value(), y),
            Some(op) => {
                let (of, ty) = (edit.v(y), call.ty().to_owned());
                let other = call_before(&mut edit, call.value(), op, &[of], &ty, "other");
                edit.make_alias(call.value(), other);
            }
        }
    }
    Ok(edit.finish()?)
}
