//! Microsoft's operators on quantized tensors: they compute with floats, and quantize the result.

use crate::cx::Cx;
use crate::node::Node;
use crate::ops::conv::{centered, gemm_operands, spatial};
use crate::ops::pool::{average, largest};
use crate::ops::quant::{along_columns, dynamic, qlinear_conv_of, rounded};
use crate::ops::{Row, ms, one};
use crate::value::{Res, T};
use plugin_api::prelude::*;

pub(super) const ROWS: &[Row] = &[
    ms(one("QLinearAdd", 1, |cx, n| {
        let (a, b) = (real(cx, n, 0)?, real(cx, n, 3)?);
        let out = cx.add(&a, &b)?;
        quantized_like(cx, n, &out, 6)
    })),
    ms(one("QLinearMul", 1, |cx, n| {
        let (a, b) = (real(cx, n, 0)?, real(cx, n, 3)?);
        let out = cx.mul(&a, &b)?;
        quantized_like(cx, n, &out, 6)
    })),
    ms(one("QLinearSigmoid", 1, |cx, n| {
        let x = real(cx, n, 0)?;
        let out = cx.un("sigmoid", &x)?;
        quantized_like(cx, n, &out, 3)
    })),
    ms(one("QLinearLeakyRelu", 1, |cx, n| {
        let alpha = n.float("alpha", 0.01)?;
        let x = real(cx, n, 0)?;
        let out = cx.call("relax.nn.leakyrelu", &[&x], &[("alpha", alpha.into())])?;
        quantized_like(cx, n, &out, 3)
    })),
    ms(one("QLinearSoftmax", 1, softmax)),
    ms(one("QLinearWhere", 1, |cx, n| {
        let (a, b) = (real(cx, n, 1)?, real(cx, n, 4)?);
        let out = cx.select(&n.input(0)?, &a, &b)?;
        quantized_as(cx, n, &out, 7, n.input(1)?.dtype())
    })),
    ms(one("QLinearConcat", 1, |cx, n| {
        let parts: Vec<T> = (2..n.n_inputs()).step_by(3).map(|at| real(cx, n, at)).collect::<Res<_>>()?;
        let first = parts.first().ok_or("it needs at least one operand")?;
        let axis = first.axis(n.int_if("axis")?.ok_or("its attribute `axis` is missing")?)?;
        let out = cx.concat(&parts, axis)?;
        quantized_as(cx, n, &out, 0, n.input(2)?.dtype())
    })),
    ms(one("QLinearReduceMean", 1, |cx, n| {
        let x = real(cx, n, 0)?;
        let axes = match n.ints("axes")? {
            Some(axes) => axes.iter().map(|axis| x.axis(*axis)).collect::<Res<Vec<usize>>>()?,
            None => (0..x.rank()?).collect(),
        };
        let out = cx.reduce("mean", &x, &axes, n.flag("keepdims", true)?)?;
        quantized_like(cx, n, &out, 3)
    })),
    ms(one("QLinearGlobalAveragePool", 1, |cx, n| {
        let x = real(cx, n, 0)?;
        let rank = x.dims_from(2)?.len();
        let axes: Vec<usize> =
            if n.flag("channels_last", false)? { (1..rank - 1).collect() } else { (2..rank).collect() };
        let out = cx.reduce("mean", &x, &axes, true)?;
        quantized_like(cx, n, &out, 3)
    })),
    ms(one("QLinearAveragePool", 1, |cx, n| {
        let x = real(cx, n, 0)?;
        let last = n.flag("channels_last", false)?;
        let x = if last { channels_first(cx, &x)? } else { x };
        let out = average(cx, n, &x)?;
        let out = if last { channels_last(cx, &out)? } else { out };
        quantized_like(cx, n, &out, 3)
    })),
    ms(one("QLinearConv", 1, |cx, n| {
        let x = n.input(0)?;
        let last = n.flag("channels_last", false)?;
        let x = if last { channels_first(cx, &x)? } else { x };
        let out = qlinear_conv_of(cx, n, &x)?;
        if last { channels_last(cx, &out) } else { Ok(out) }
    })),
    ms(one("NhwcMaxPool", 1, |cx, n| {
        let x = channels_first(cx, &n.input(0)?)?;
        let out = largest(cx, n, &x)?;
        channels_last(cx, &out)
    })),
    ms(one("QGemm", 1, gemm)),
    ms(one("DynamicQuantizeMatMul", 1, |cx, n| {
        let quantized = dynamic(cx, &n.input(0)?)?;
        integer_product(cx, n, &quantized, 1, 2, 3, 4)
    })),
    ms(one("MatMulIntegerToFloat", 1, |cx, n| {
        let zero = n.opt(4)?.map_or_else(|| cx.scalar(0.0, n.input(0)?.dtype()), Ok)?;
        let quantized = vec![n.input(0)?, cx.reshape(&n.input(2)?, vec![])?, zero];
        integer_product(cx, n, &quantized, 1, 3, 5, 6)
    })),
];

/// Moves the last axis to the second position.
fn channels_first(cx: &Cx<'_>, x: &T) -> Res<T> {
    let rank = x.rank()?;
    if rank < 3 {
        return Err(format!(
            "its input has {rank} dimensions; at least 3 are needed: batch, spatial axes and channels"
        ));
    }
    let axes: Vec<usize> = [0, rank - 1].into_iter().chain(1..rank - 1).collect();
    cx.transpose(x, &axes)
}

fn channels_last(cx: &Cx<'_>, x: &T) -> Res<T> {
    spatial(x)?;
    let axes: Vec<usize> = [0].into_iter().chain(2..x.rank()?).chain([1]).collect();
    cx.transpose(x, &axes)
}

fn softmax<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<T> {
    let x = real(cx, n, 0)?;
    let axis = x.axis(n.int("axis", -1)?)?;
    let out = match n.int("opset", 13)? >= 13 {
        true => crate::ops::norm::softmax(cx, &x, axis as i64)?,
        false => crate::ops::norm::softmax_from(cx, &x, axis, crate::ops::norm::softmax)?,
    };
    quantized_like(cx, n, &out, 3)
}

/// Computes a product of quantized matrices. The result is a float tensor if the scale of the result is missing.
fn gemm<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<T> {
    let (a, b) = gemm_operands(cx, n, 0, 3)?;
    let dtype = a.dtype();
    let columns = b.rank()?.saturating_sub(1);
    let mut product = cx.matmul(&centered(cx, &a, n.opt(2)?, 0)?, &centered(cx, &b, n.opt(5)?, columns)?)?;
    if let Some(c) = n.opt(6)? {
        product = cx.add(&product, &c)?;
    }
    let scale = cx.mul(&along_columns(cx, &n.input(1)?, 2, 1)?, &along_columns(cx, &n.input(4)?, 2, 1)?)?;
    let out = cx.mul_s(&cx.mul(&cx.cast(&product, DType::F32)?, &scale)?, n.float("alpha", 1.0)?)?;
    if n.opt(7)?.is_some() { quantized_as(cx, n, &out, 7, dtype) } else { Ok(out) }
}

/// Dequantizes input `at`. Its scale and zero point are the next two inputs.
fn real<'a>(cx: &Cx<'a>, n: &Node<'a>, at: usize) -> Res<T> {
    let x = n.input(at)?;
    let value = match n.opt(at + 2)? {
        Some(zero) => cx.sub(&cx.cast(&x, DType::F32)?, &cx.cast(&cx.reshape(&zero, vec![])?, DType::F32)?)?,
        None => cx.cast(&x, DType::F32)?,
    };
    cx.mul(&value, &cx.reshape(&n.input(at + 1)?, vec![])?)
}

/// Quantizes a tensor by the scale in input `at` and the zero point in the next input.
fn quantized_like<'a>(cx: &Cx<'a>, n: &Node<'a>, x: &T, at: usize) -> Res<T> {
    quantized_as(cx, n, x, at, n.input(0)?.dtype())
}

/// Quantizes as [`quantized_like`] does. Without a zero point, the result has the given type.
fn quantized_as<'a>(cx: &Cx<'a>, n: &Node<'a>, x: &T, at: usize, dtype: DType) -> Res<T> {
    let scaled = cx.div(x, &cx.reshape(&n.input(at)?, vec![])?)?;
    let zero = n.opt(at + 1)?;
    let dtype = zero.as_ref().map_or(dtype, T::dtype);
    let zero = zero.map(|zero| cx.reshape(&zero, vec![])).transpose()?;
    rounded(cx, &scaled, zero.as_ref(), dtype)
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
    let scale = cx.mul(&quantized[1], &along_columns(cx, &n.input(scale)?, rank, rank.saturating_sub(1))?)?;
    let out = cx.mul(&cx.cast(&product, DType::F32)?, &scale)?;
    match n.opt(bias)? {
        Some(bias) => cx.add(&out, &bias),
        None => Ok(out),
    }
}
