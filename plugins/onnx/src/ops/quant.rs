//! Operators on quantized tensors.

use super::conv::{centered, conv, with_bias};
use super::{Row, all, ms, one};
use crate::cx::Cx;
use crate::narrow;
use crate::node::Node;
use crate::value::{Item, Res, T};
use plugin_api::prelude::*;

pub(super) const ROWS: &[Row] = &[
    one("QuantizeLinear", 10, quantize_linear).converting(),
    one("DequantizeLinear", 10, dequantize_linear).converting(),
    all("DynamicQuantizeLinear", 11, |cx, n| {
        let x = n.input(0)?;
        Ok(dynamic(cx, &x)?.into_iter().map(Item::from).collect())
    }),
    one("QLinearMatMul", 10, qlinear_matmul),
    one("QLinearConv", 10, qlinear_conv),
    ms(one("QuantizeLinear", 1, quantize_linear)).converting(),
    ms(one("DequantizeLinear", 1, dequantize_linear)).converting(),
];

/// Reshapes a scale or zero point so that it is broadcast with the tensor. It is one number, a vector along an axis, or
/// a tensor of blocks.
fn spread<'a>(cx: &Cx<'a>, n: &Node<'a>, x: &T, part: &T) -> Res<T> {
    let spread = spread_bytes(cx, n, x, part)?;
    Ok(if let Some(narrow) = part.narrow() { spread.with_narrow(narrow) } else { spread })
}

fn spread_bytes<'a>(cx: &Cx<'a>, n: &Node<'a>, x: &T, part: &T) -> Res<T> {
    let block = n.int("block_size", 0)?;
    let axis = n.int("axis", 1)?;
    match part.rank()? {
        0 => Ok(part.clone()),
        1 if block == 0 => {
            if part.dim(0)?.as_int() == Some(1) {
                return cx.reshape(part, vec![]);
            }
            let mut shape = vec![Dim::Int(1); x.rank()?];
            shape[x.axis(axis)?] = part.dim(0)?;
            cx.reshape(part, shape)
        }
        rank if rank == x.rank()? && block > 0 => {
            let axis = x.axis(axis)?;
            let each =
                cx.call("relax.repeat", &[part], &[("repeats", block.into()), ("axis", (axis as i64).into())])?;
            let size = x.dim(axis)?;
            if each.dim(axis)? == size { Ok(each) } else { cx.range(&each, axis, 0, size) }
        }
        rank if rank == x.rank()? => Ok(part.clone()),
        rank => Err(format!("its scale has {rank} dimensions, which does not match its input")),
    }
}

/// Returns the least and the greatest number of an integer type.
pub(super) fn limits(dtype: DType) -> Res<(f64, f64)> {
    let bits = i32::from(dtype.bits());
    match (dtype.code(), bits) {
        (0, 1..=32) => Ok((-(2f64.powi(bits - 1)), 2f64.powi(bits - 1) - 1.0)),
        (1, 1..=32) => Ok((0.0, 2f64.powi(bits) - 1.0)),
        _ => Err(format!("quantization to {dtype} is not supported")),
    }
}

/// Rounds to the nearest integer of a type. Ties round to even.
pub(super) fn rounded(cx: &Cx<'_>, x: &T, zero: Option<&T>, dtype: DType) -> Res<T> {
    let mut at = cx.un("round", x)?;
    if let Some(zero) = zero {
        at = cx.add(&at, &cx.cast(zero, x.dtype())?)?;
    }
    let (least, most) = limits(dtype)?;
    let at = cx.bin("minimum", &cx.max_s(&at, least)?, &cx.scalar(most, x.dtype())?)?;
    if let Some(storage) = narrow::storage(dtype) {
        return Ok(cx.cast(&at, storage)?.with_narrow(dtype));
    }
    cx.cast(&at, dtype)
}

fn quantize_linear<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<T> {
    let (x, scale, zero) = (n.input(0)?, n.input(1)?, n.opt(2)?);
    let to = match (&zero, n.dtype_or_none("output_dtype")?) {
        (Some(zero), _) => zero.logical(),
        (None, Some(dtype)) if dtype.is_known() => dtype,
        (None, _) => DType::U8,
    };
    let saturates = n.flag("saturate", true)?;
    let precision = n.int("precision", 0)?;
    let wide = if x.is_float() && precision == 0 { scale.dtype() } else { DType::F32 };
    let wide = if wide.bits() < 32 { DType::F32 } else { wide };
    let scaled = cx.div(&cx.cast(&x, wide)?, &cx.cast(&spread(cx, n, &x, &scale)?, wide)?)?;
    if to.is_float() {
        let shifted = match &zero {
            Some(zero) if zero.floats() != Some(vec![0.0]) && !is_zero(zero) => {
                let zero = widened(cx, &spread(cx, n, &x, zero)?, wide)?;
                cx.add(&scaled, &zero)?
            }
            _ => scaled,
        };
        return match narrow::storage(to) {
            Some(_) => narrow::narrowed(cx, &shifted, to, saturates),
            None => cx.cast(&shifted, to),
        };
    }
    let zero = zero.map(|zero| widened(cx, &spread(cx, n, &x, &zero)?, wide)).transpose()?;
    rounded(cx, &scaled, zero.as_ref(), to)
}

/// Returns true if all bits of a constant are 0.
fn is_zero(x: &T) -> bool {
    x.0.data.as_ref().is_some_and(|data| data.bytes().iter().all(|byte| *byte == 0))
}

/// Converts a tensor of small integers or floats to a wider type.
fn widened(cx: &Cx<'_>, x: &T, wide: DType) -> Res<T> {
    narrow::widened(cx, x, wide)
}

fn dequantize_linear<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<T> {
    let (x, scale, zero) = (n.input(0)?, n.input(1)?, n.opt(2)?);
    let to = n.dtype_or_none("output_dtype")?.unwrap_or(scale.dtype());
    let wide = if scale.dtype().bits() < 32 { DType::F32 } else { scale.dtype() };
    let mut value = widened(cx, &x, wide)?;
    if let Some(zero) = zero.filter(|zero| !is_zero(zero)) {
        value = cx.sub(&value, &widened(cx, &spread(cx, n, &x, &zero)?, wide)?)?;
    }
    let scale = widened(cx, &spread(cx, n, &x, &scale)?, wide)?;
    cx.cast(&cx.mul(&value, &scale)?, to)
}

/// Quantizes to uint8 according to the range of the values. Returns the quantized tensor, the scale and the zero point.
pub(super) fn dynamic(cx: &Cx<'_>, x: &T) -> Res<Vec<T>> {
    let axes: Vec<usize> = (0..x.rank()?).collect();
    let zero = cx.scalar(0.0, x.dtype())?;
    let most = cx.bin("maximum", &cx.reduce("max", x, &axes, false)?, &zero)?;
    let least = cx.bin("minimum", &cx.reduce("min", x, &axes, false)?, &zero)?;
    let scale = cx.div(&cx.sub(&most, &least)?, &cx.scalar(255.0, x.dtype())?)?;
    // If all elements are 0, any scale is correct.
    let flat = cx.bin("equal", &scale, &zero)?;
    let divisor = cx.select(&flat, &cx.scalar(1.0, x.dtype())?, &scale)?;
    let start = cx.div(&cx.un("negative", &least)?, &divisor)?;
    let start = rounded(cx, &start, None, DType::U8)?;
    let numbers = rounded(cx, &cx.div(x, &divisor)?, Some(&start), DType::U8)?;
    Ok(vec![numbers, divisor, start])
}

/// Reshapes a scale so that it is broadcast along the columns of a product.
pub(super) fn along_columns(cx: &Cx<'_>, part: &T, rank: usize, axis: usize) -> Res<T> {
    match part.rank()? {
        1 if part.dim(0)?.as_int() == Some(1) => cx.reshape(part, vec![]),
        1 => {
            let mut shape = vec![Dim::Int(1); rank];
            *shape.get_mut(axis).ok_or("its scale has more dimensions than its result")? = part.dim(0)?;
            cx.reshape(part, shape)
        }
        _ => Ok(part.clone()),
    }
}

fn qlinear_matmul<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<T> {
    let (a, b) = (n.input(0)?, n.input(3)?);
    let (rows, columns) = (a.rank()?.saturating_sub(2), b.rank()?.saturating_sub(1));
    let product = cx.matmul(&centered(cx, &a, n.opt(2)?, rows)?, &centered(cx, &b, n.opt(5)?, columns)?)?;
    let rank = product.rank()?;
    let (sa, sb, sy) = (n.input(1)?, n.input(4)?, n.input(6)?);
    let wide = DType::F32;
    let of = |part: &T, axis: usize| along_columns(cx, &cx.cast(part, wide)?, rank, axis);
    let scale = cx.mul(&of(&sa, rank.saturating_sub(2))?, &of(&sb, rank.saturating_sub(1))?)?;
    let scale = cx.div(&scale, &of(&sy, rank.saturating_sub(1))?)?;
    let real = cx.mul(&cx.cast(&product, wide)?, &scale)?;
    let zero = n.input(7)?;
    let dtype = zero.dtype();
    let zero = along_columns(cx, &zero, rank, rank.saturating_sub(1))?;
    rounded(cx, &real, Some(&zero), dtype)
}

fn qlinear_conv<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<T> {
    let x = n.input(0)?;
    qlinear_conv_of(cx, n, &x)
}

/// Convolves a quantized tensor whose second axis is the channel axis.
pub(super) fn qlinear_conv_of<'a>(cx: &Cx<'a>, n: &Node<'a>, x: &T) -> Res<T> {
    let (x, w) = (centered(cx, x, n.opt(2)?, 1)?, centered(cx, &n.input(3)?, n.opt(5)?, 0)?);
    let out = conv(cx, n, &x, &w)?;
    let out = with_bias(cx, out, n.opt(8)?)?;
    let rank = out.rank()?;
    let (sx, sw, sy) = (n.input(1)?, n.input(4)?, n.input(6)?);
    let of = |part: &T| along_columns(cx, part, rank, 1);
    let scale = cx.div(&cx.mul(&of(&sx)?, &of(&sw)?)?, &of(&sy)?)?;
    let real = cx.mul(&cx.cast(&out, DType::F32)?, &scale)?;
    let zero = n.input(7)?;
    let dtype = zero.dtype();
    let zero = of(&zero)?;
    rounded(cx, &real, Some(&zero), dtype)
}
