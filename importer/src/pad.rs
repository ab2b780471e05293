//! Padding, which may be symbolic.

use crate::emitter::Emitter;
use crate::known::{self, add, max, mul, sub};
use crate::tensor::{Res, T};
use plugin_api::prelude::*;
use plugin_api::scalar::PrimOp;

/// Adds elements at both ends of axes. Negative numbers remove elements.
pub fn padded(cx: &Emitter<'_>, x: T, before: &[Dim], after: &[Dim], mode: &str, value: &T) -> Res<T> {
    let rank = before.len();
    let (mut x, zero) = (x, Dim::Int(0));
    let removed = |by: &Dim| match known::proves(PrimOp::Le, &zero, by) {
        true => zero.clone(),
        false => max(&sub(&zero, by), &zero),
    };
    for axis in 0..rank {
        let (start, end) = (removed(&before[axis]), removed(&after[axis]));
        if start != zero || end != zero {
            let size = x.dim(axis)?;
            x = cx.range(&x, axis, start, sub(&size, &end))?;
        }
    }
    let added = |dims: &[Dim]| dims.iter().map(|by| max(by, &zero)).collect::<Vec<Dim>>();
    let (before, after) = (added(before), added(after));
    let mode = match mode {
        "constant" => "constant",
        "reflect" => "reflect",
        "edge" => "replicate",
        "wrap" => "circular",
        other => return Err(format!("its mode is `{other}`; it must be `constant`, `reflect`, `edge` or `wrap`")),
    };
    let numbers: Option<Vec<i64>> = before.iter().zip(&after).flat_map(|(a, b)| [a.as_int(), b.as_int()]).collect();
    if numbers.as_ref().is_some_and(|all| all.iter().all(|by| *by == 0)) {
        return Ok(x);
    }
    match (numbers, mode, value.floats().and_then(|v| v.first().copied())) {
        (Some(widths), "constant", Some(value)) if x.dtype() == DType::F32 => {
            let attrs = [("pad_width", widths.into()), ("pad_value", value.into()), ("pad_mode", mode.into())];
            cx.call("relax.nn.pad", &[&x], &attrs)
        }
        (_, "constant", _) => {
            for axis in 0..rank {
                let side = |by: &Dim| -> Res<Option<T>> {
                    if by.as_int() == Some(0) {
                        return Ok(None);
                    }
                    let mut dims = x.dims()?;
                    dims[axis] = by.clone();
                    cx.broadcast_to(value, &dims).map(Some)
                };
                let (a, b) = (side(&before[axis])?, side(&after[axis])?);
                let parts: Vec<T> = a.into_iter().chain([x.clone()]).chain(b).collect();
                x = cx.concat(&parts, axis)?;
            }
            Ok(x)
        }
        _ => (0..rank).try_fold(x, |x, axis| reflected(cx, x, axis, &before[axis], &after[axis], mode)),
    }
}

/// Pads one axis with elements of the tensor, taken at computed indices.
fn reflected(cx: &Emitter<'_>, x: T, axis: usize, before: &Dim, after: &Dim, mode: &str) -> Res<T> {
    if before.as_int() == Some(0) && after.as_int() == Some(0) {
        return Ok(x);
    }
    let size = x.dim(axis)?;
    let total = add(&add(before, &size), after);
    let of = |dim: &Dim| -> Res<T> { cx.reshape(&cx.of_dims(vec![dim.clone()])?, vec![]) };
    let at = cx.sub(&cx.arange(&total, DType::I64)?, &of(before)?)?;
    let last = sub(&size, &Dim::Int(1));
    let at = match mode {
        "replicate" => {
            let low = cx.max_s(&at, 0.0)?;
            cx.bin("minimum", &low, &of(&last)?)?
        }
        "circular" => cx.bin("floor_mod", &at, &of(&size)?)?,
        _ => {
            let period = max(&mul(&last, &Dim::Int(2)), &Dim::Int(1));
            let at = cx.bin("floor_mod", &at, &of(&period)?)?;
            let back = cx.sub(&of(&period)?, &at)?;
            let least = cx.bin("minimum", &at, &back)?;
            if size.as_int() == Some(1) { cx.mul_s(&least, 0.0)? } else { least }
        }
    };
    cx.call("relax.take", &[&x, &at], &[("axis", (axis as i64).into())])
}
