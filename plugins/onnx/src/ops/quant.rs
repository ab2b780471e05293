//! Operators on quantized tensors.

use super::conv::{centered, conv, with_bias};
use super::{Row, all, ms, one};
use crate::cx::Cx;
use crate::narrow;
use crate::node::Node;
use crate::value::{Item, Res, T};
use plugin_api::prelude::*;

pub(super) const ROWS: &[Row] = &[
    one("QuantizeLinear", 10, quantize_linear),
    one("DequantizeLinear", 10, dequantize_linear),
    all("DynamicQuantizeLinear", 11, |cx, n| {
        let x = n.input(0)?;
        Ok(dynamic(cx, &x)?.into_iter().map(Item::from).collect())
    }),
    one("QLinearMatMul", 10, qlinear_matmul),
    one("QLinearConv", 10, qlinear_conv),
    ms(one("QuantizeLinear", 1, quantize_linear)),
    ms(one("DequantizeLinear", 1, dequantize_linear)),
    ms(one("QLinearAdd", 1, |cx, n| qlinear_binary(cx, n, |cx, a, b| cx.add(a, b)))),
    ms(one("QLinearMul", 1, |cx, n| qlinear_binary(cx, n, |cx, a, b| cx.mul(a, b)))),
    ms(one("QLinearSigmoid", 1, |cx, n| qlinear_unary(cx, n, |cx, x| cx.un("sigmoid", x)))),
    ms(one("QLinearLeakyRelu", 1, |cx, n| {
        let alpha = n.float("alpha", 0.01)?;
        let x = real(cx, n, 0)?;
        let out = cx.call("relax.nn.leakyrelu", &[&x], &[("alpha", alpha.into())])?;
        quantized_like(cx, n, &out, 3)
    })),
    ms(one("DynamicQuantizeMatMul", 1, |cx, n| {
        let quantized = dynamic(cx, &n.input(0)?)?;
        integer_product(cx, n, &quantized, 1, 2, 3, 4)
    })),
    ms(one("MatMulIntegerToFloat", 1, |cx, n| {
        let quantized =
            vec![n.input(0)?, n.input(2)?, n.opt(4)?.map_or_else(|| cx.scalar(0.0, n.input(0)?.dtype()), Ok)?];
        integer_product(cx, n, &quantized, 1, 3, 5, 6)
    })),
];

/// Reshapes a scale or a zero point, so that it is broadcast with the tensor: as one number, along an axis, or in blocks.
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
        rank => Err(format!("its scale has {rank} dimensions, which does not fit its input")),
    }
}

/// Returns the least and the greatest number of an integer type.
pub(super) fn limits(dtype: DType) -> Res<(f64, f64)> {
    let bits = i32::from(dtype.bits());
    match (dtype.code(), bits) {
        (0, 1..=32) => Ok((-(2f64.powi(bits - 1)), 2f64.powi(bits - 1) - 1.0)),
        (1, 1..=32) => Ok((0.0, 2f64.powi(bits) - 1.0)),
        _ => Err(format!("numbers are not quantized to {dtype}")),
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

/// Quantizes to uint8, with the range of the values. Returns the numbers, the scale and the zero point.
pub(super) fn dynamic(cx: &Cx<'_>, x: &T) -> Res<Vec<T>> {
    let axes: Vec<usize> = (0..x.rank()?).collect();
    let zero = cx.scalar(0.0, x.dtype())?;
    let most = cx.bin("maximum", &cx.reduce("max", x, &axes, false)?, &zero)?;
    let least = cx.bin("minimum", &cx.reduce("min", x, &axes, false)?, &zero)?;
    let scale = cx.div(&cx.sub(&most, &least)?, &cx.scalar(255.0, x.dtype())?)?;
    // All elements are 0, so any scale is right.
    let flat = cx.bin("equal", &scale, &zero)?;
    let divisor = cx.select(&flat, &cx.scalar(1.0, x.dtype())?, &scale)?;
    let start = cx.div(&cx.un("negative", &least)?, &divisor)?;
    let start = rounded(cx, &start, None, DType::U8)?;
    let numbers = rounded(cx, &cx.div(x, &divisor)?, Some(&start), DType::U8)?;
    Ok(vec![numbers, scale, start])
}

/// Reshapes a scale, so that it is broadcast along the columns of a product.
fn along_columns(cx: &Cx<'_>, part: &T, rank: usize, axis: usize) -> Res<T> {
    match part.rank()? {
        1 if part.dim(0)?.as_int() == Some(1) => cx.reshape(part, vec![]),
        1 => {
            let mut shape = vec![Dim::Int(1); rank];
            shape[axis] = part.dim(0)?;
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
    let (x, w) = (centered(cx, &n.input(0)?, n.opt(2)?, 1)?, centered(cx, &n.input(3)?, n.opt(5)?, 0)?);
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

/// Dequantizes input `at`; the next inputs are its scale and its zero point.
fn real<'a>(cx: &Cx<'a>, n: &Node<'a>, at: usize) -> Res<T> {
    let x = n.input(at)?;
    let value = match n.opt(at + 2)? {
        Some(zero) => cx.sub(&cx.cast(&x, DType::F32)?, &cx.cast(&cx.reshape(&zero, vec![])?, DType::F32)?)?,
        None => cx.cast(&x, DType::F32)?,
    };
    cx.mul(&value, &cx.reshape(&n.input(at + 1)?, vec![])?)
}

/// Quantizes a tensor by the scale and the zero point in input `at` and the next one.
fn quantized_like<'a>(cx: &Cx<'a>, n: &Node<'a>, x: &T, at: usize) -> Res<T> {
    let scaled = cx.div(x, &cx.reshape(&n.input(at)?, vec![])?)?;
    let zero = n.opt(at + 1)?;
    let dtype = zero.as_ref().map_or(n.input(0)?.dtype(), T::dtype);
    let zero = zero.map(|zero| cx.reshape(&zero, vec![])).transpose()?;
    rounded(cx, &scaled, zero.as_ref(), dtype)
}

fn qlinear_binary<'a>(cx: &mut Cx<'a>, n: &Node<'a>, f: fn(&Cx<'a>, &T, &T) -> Res<T>) -> Res<T> {
    let (a, b) = (real(cx, n, 0)?, real(cx, n, 3)?);
    let out = f(cx, &a, &b)?;
    quantized_like(cx, n, &out, 6)
}

fn qlinear_unary<'a>(cx: &mut Cx<'a>, n: &Node<'a>, f: fn(&Cx<'a>, &T) -> Res<T>) -> Res<T> {
    let x = real(cx, n, 0)?;
    let out = f(cx, &x)?;
    quantized_like(cx, n, &out, 3)
}

/// Computes a product of integers, and scales it to floats.
fn integer_product<'a>(
    cx: &mut Cx<'a>,
    n: &Node<'a>,
    quantized: &[T],
    b: usize,
    scale: usize,
    zero: usize,
    bias: usize,
) -> Res<T> {
    let w = n.input(b)?;
    let columns = w.rank()?.saturating_sub(1);
    let x = centered(cx, &quantized[0], Some(quantized[2].clone()), 0)?;
    let product = cx.matmul(&x, &centered(cx, &w, n.opt(zero)?, columns)?)?;
    let rank = product.rank()?;
    let scale = cx.mul(&quantized[1], &along_columns(cx, &n.input(scale)?, rank, rank - 1)?)?;
    let out = cx.mul(&cx.cast(&product, DType::F32)?, &scale)?;
    match n.opt(bias)? {
        Some(bias) => cx.add(&out, &bias),
        None => Ok(out),
    }
}

/// Computes a product with a quantized matrix in blocks. Each byte holds two numbers, and each block has a scale and possibly a
/// zero point.
pub(super) fn matmul_n_bits<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<T> {
    let (a, packed, scales) = (n.input(0)?, n.input(1)?, n.input(2)?);
    let need = |name: &'static str| n.int_if(name)?.ok_or_else(|| format!("its attribute `{name}` is missing"));
    let (k, columns, block) = (need("K")?, need("N")?, need("block_size")?);
    let bits = n.int("bits", 4)?;
    n.ignore(&["accuracy_level"]);
    if [k, columns, block].iter().any(|value| !(1..super::conv::LARGEST).contains(value)) {
        return Err("its attributes `K`, `N` and `block_size` must be positive".to_string());
    }
    if !matches!(bits, 4 | 8) || n.opt(4)?.is_some() {
        return Err(format!(
            "weights of {bits} bits in blocks of {block}, or with groups, are not supported; 4 and 8 bits are"
        ));
    }
    let blocks = (k + block - 1) / block;
    let numbers = unpacked(cx, &packed, bits, vec![columns, blocks, block])?;
    let zero = match n.opt(3)? {
        None => cx.scalar(2f64.powi(bits as i32 - 1), a.dtype())?,
        Some(zero) if zero.is_float() => cx.reshape(&zero, vec![Dim::Int(columns), Dim::Int(blocks), Dim::Int(1)])?,
        Some(zero) => {
            let rows = (blocks * bits + 7) / 8;
            let zero = cx.reshape(&zero, vec![Dim::Int(columns), Dim::Int(rows)])?;
            let zero = unpacked(cx, &zero, bits, vec![columns, rows * 8 / bits])?;
            let zero = cx.range(&zero, 1, 0, blocks)?;
            cx.cast(&cx.unsqueeze(&zero, &[2])?, a.dtype())?
        }
    };
    let scales = cx.reshape(&scales, vec![Dim::Int(columns), Dim::Int(blocks), Dim::Int(1)])?;
    let weight = cx.mul(&cx.sub(&cx.cast(&numbers, a.dtype())?, &zero)?, &scales)?;
    let weight = cx.reshape(&weight, vec![Dim::Int(columns), Dim::Int(blocks * block)])?;
    let weight = if blocks * block == k { weight } else { cx.range(&weight, 1, 0, k)? };
    let out = cx.matmul(&a, &cx.swapped(&weight)?)?;
    match n.opt(5)? {
        Some(bias) => cx.add(&out, &bias),
        None => Ok(out),
    }
}

/// Unpacks numbers of 4 or 8 bits from bytes. The lower half of a byte comes first.
pub(super) fn unpacked(cx: &Cx<'_>, packed: &T, bits: i64, shape: Vec<i64>) -> Res<T> {
    let shape: Vec<Dim> = shape.into_iter().map(Dim::Int).collect();
    if bits == 8 {
        return cx.reshape(packed, shape);
    }
    let rank = packed.rank()?;
    let low = cx.bin("bitwise_and", packed, &cx.scalar(15.0, DType::U8)?)?;
    let high = cx.bin("right_shift", packed, &cx.scalar(4.0, DType::U8)?)?;
    let both = cx.concat(&[cx.unsqueeze(&low, &[rank])?, cx.unsqueeze(&high, &[rank])?], rank)?;
    cx.reshape(&both, shape)
}
