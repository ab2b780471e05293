//! Numbers: sizes of tensors, arithmetic on them, values of tensors, and assertions about them.

use super::elementwise::typed;
use super::{Row, nothing, number};
use crate::graph::Cx;
use crate::node::{Node, Val};
use crate::promote::Operand;
use importer::known::{self, Elem, arithmetic, compare};
use importer::tensor::Res;
use plugin_api::arith::product;
use plugin_api::prelude::*;
use plugin_api::scalar::PrimOp;

pub(super) const ROWS: &[Row] = &[
    number("aten.sym_size.int", |_, n| {
        let x = n.x()?;
        let axis = x.axis(n.int("dim", 0)?)?;
        x.dim(axis).map(Elem::Int)
    }),
    number("aten.sym_numel.default", |_, n| Ok(Elem::Int(product(&n.x()?.dims()?)))),
    number("aten.sym_stride.int", |_, n| {
        let x = n.x()?;
        let axis = x.axis(n.int("dim", 0)?)?;
        Ok(Elem::Int(product(&x.dims()?[axis + 1..])))
    }),
    number("aten.item.default", item),
    number("aten._local_scalar_dense.default", item),
    number("_operator.add", |_, n| computed(n, "Add")),
    number("_operator.sub", |_, n| computed(n, "Sub")),
    number("_operator.mul", |_, n| computed(n, "Mul")),
    number("_operator.floordiv", quotient),
    number("_operator.mod", |_, n| {
        let (Elem::Int(a), Elem::Int(b)) = pair(n)? else { return Err("its operands are not integers".to_string()) };
        not_zero(&b)?;
        Ok(Elem::Int(plugin_api::arith::apply(PrimOp::FloorMod, &a, &b)))
    }),
    number("_operator.truediv", |_, n| {
        let (a, b) = pair(n)?;
        let float = |elem: Elem| if let Elem::Int(dim) = elem { ratio(dim) } else { elem };
        arithmetic("Div", &float(a), &float(b), DType::F64).ok_or_else(unsupported)
    }),
    number("_operator.neg", |_, n| {
        let x = at(n, 0)?;
        match &x {
            Elem::Int(dim) => Ok(Elem::Int(known::sub(&Dim::Int(0), dim))),
            _ => arithmetic("Mul", &x, &Elem::Float(-1.0), DType::F64).ok_or_else(unsupported),
        }
    }),
    number("_operator.pos", |_, n| at(n, 0)),
    number("_operator.pow", |_, n| {
        let (a, b) = pair(n)?;
        let by = b.as_int().filter(|by| (0..=16).contains(by)).ok_or("its exponent must be from 0 to 16")?;
        (0..by).try_fold(Elem::int(1), |all, _| arithmetic("Mul", &all, &a, DType::I64)).ok_or_else(unsupported)
    }),
    number("_operator.eq", |_, n| compared(n, PrimOp::Eq, false)),
    number("_operator.ne", |_, n| compared(n, PrimOp::Eq, true)),
    number("_operator.lt", |_, n| compared(n, PrimOp::Lt, false)),
    number("_operator.le", |_, n| compared(n, PrimOp::Le, false)),
    number("_operator.gt", |_, n| compared(n, PrimOp::Gt, false)),
    number("_operator.ge", |_, n| compared(n, PrimOp::Ge, false)),
    number("torch.sym_max", |_, n| computed(n, "Max")),
    number("torch.sym_min", |_, n| computed(n, "Min")),
    number("torch.sym_int", whole),
    number("math.trunc", whole),
    number("math.floor", |_, n| rounded(n, false)),
    number("math.ceil", |_, n| rounded(n, true)),
    number("torch.sym_float", |_, n| match at(n, 0)? {
        Elem::Int(dim) => Ok(ratio(dim)),
        float => Ok(float),
    }),
    number("torch.sym_not", |_, n| {
        let Elem::Int(holds) = at(n, 0)? else { return Err(unsupported()) };
        Ok(Elem::Int(opposite(&holds)))
    }),
    nothing("aten._assert_scalar.default"),
    nothing("aten._assert_async.default"),
    nothing("aten._assert_async.msg"),
    nothing("aten._assert_tensor_metadata.default"),
    nothing("aten.sym_constrain_range.default"),
    nothing("aten.sym_constrain_range_for_size.default"),
];

fn unsupported() -> String {
    "it computes a number from symbolic sizes in a way that is not supported; export the model with fixed sizes"
        .to_string()
}

/// Returns an integer as a float.
fn ratio(dim: Dim) -> Elem {
    match dim.as_int() {
        Some(value) => Elem::Float(value as f64),
        None => Elem::Ratio(dim, 1),
    }
}

/// Returns the operand at a position.
fn at(n: &Node<'_>, at: usize) -> Res<Elem> {
    match n.at(at)? {
        Val::Number(number) => Ok(number.clone()),
        Val::Bool(value) => Ok(Elem::int((*value).into())),
        _ => Err(format!("its operand {at} is not a number")),
    }
}

fn pair(n: &Node<'_>) -> Res<(Elem, Elem)> {
    Ok((at(n, 0)?, at(n, 1)?))
}

fn not_zero(dim: &Dim) -> Res<()> {
    if dim.as_int() == Some(0) { Err("it divides by 0".to_string()) } else { Ok(()) }
}

fn computed(n: &Node<'_>, op: &str) -> Res<Elem> {
    let (a, b) = pair(n)?;
    let dtype = if matches!((&a, &b), (Elem::Int(_), Elem::Int(_))) { DType::I64 } else { DType::F64 };
    arithmetic(op, &a, &b, dtype).ok_or_else(unsupported)
}

fn quotient<'a>(_: &mut Cx<'a>, n: &Node<'a>) -> Res<Elem> {
    let (Elem::Int(a), Elem::Int(b)) = pair(n)? else { return Err("its operands are not integers".to_string()) };
    not_zero(&b)?;
    Ok(Elem::Int(known::div(&a, &b)))
}

/// Compares numbers. A comparison of symbolic sizes that is not the same for all sizes is an expression whose value is 0 or 1.
fn compared(n: &Node<'_>, op: PrimOp, negates: bool) -> Res<Elem> {
    let (a, b) = pair(n)?;
    let holds = match (compare(op, &a, &b), &a, &b) {
        (Some(Elem::Int(holds)), ..) => holds,
        (_, Elem::Int(a), Elem::Int(b)) => truth(op, a, b)?,
        // Such comparisons are operands of assertions, which are omitted.
        _ => return Ok(Elem::Float(f64::NAN)),
    };
    Ok(Elem::Int(if negates { opposite(&holds) } else { holds }))
}

/// Returns a comparison of integers as an integer.
fn truth(op: PrimOp, a: &Dim, b: &Dim) -> Res<Dim> {
    let (zero, one) = (Dim::Int(0), Dim::Int(1));
    let above = |a: &Dim, b: &Dim| known::min(&known::max(&known::sub(a, b), &zero), &one);
    Ok(match op {
        PrimOp::Gt => above(a, b),
        PrimOp::Lt => above(b, a),
        PrimOp::Ge => opposite(&above(b, a)),
        PrimOp::Le => opposite(&above(a, b)),
        PrimOp::Eq => known::sub(&opposite(&above(a, b)), &above(b, a)),
        _ => return Err(unsupported()),
    })
}

/// Returns 1 for 0, and 0 for 1.
fn opposite(holds: &Dim) -> Dim {
    known::sub(&Dim::Int(1), holds)
}

fn whole<'a>(_: &mut Cx<'a>, n: &Node<'a>) -> Res<Elem> {
    let x = at(n, 0)?;
    if let Elem::Int(_) = x { Ok(x) } else { x.cast(DType::I64).ok_or_else(unsupported) }
}

fn rounded(n: &Node<'_>, up: bool) -> Res<Elem> {
    match at(n, 0)? {
        Elem::Int(dim) => Ok(Elem::Int(dim)),
        Elem::Float(value) => Ok(Elem::int(if up { value.ceil() } else { value.floor() } as i64)),
        float => match known::floor_or_ceil(&float, up) {
            Some(Elem::Ratio(dim, 1)) => Ok(Elem::Int(dim)),
            _ => Err(unsupported()),
        },
    }
}

/// Returns the only element of a tensor. An unknown integer becomes a symbolic dimension.
fn item<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<Elem> {
    let x = n.x()?;
    if let Some(known) = x.known().filter(|known| known.elems.len() == 1) {
        return Ok(known.elems[0].clone());
    }
    if x.is_float() {
        return Err("it converts a computed float to a number, which is not supported; keep the tensor".to_string());
    }
    let x = typed(cx, &Operand::Tensor(x), DType::I64)?;
    let x = cx.reshape(&x, vec![Dim::Int(1)])?;
    Ok(Elem::Int(cx.dims_of(&x, "item")?.remove(0)))
}
