//! Matrix products and convolutions of Microsoft's domain: fused operators, and operators with weights of few bits.

use crate::cx::Cx;
use crate::known;
use crate::node::Node;
use crate::ops::conv::{LARGEST, conv, gemm_product, with_bias};
use crate::ops::elementwise::{extreme_max, extreme_min, hard_sigmoid};
use crate::ops::{Row, ms, one};
use crate::value::{Res, T};
use plugin_api::prelude::*;

pub(super) const ROWS: &[Row] = &[
    ms(one("FusedMatMul", 1, fused_matmul)),
    ms(one("TransposeMatMul", 1, fused_matmul)),
    ms(one("FusedConv", 1, |cx, n| {
        let (x, w) = (n.input(0)?, n.input(1)?);
        let out = with_bias(cx, conv(cx, n, &x, &w)?, n.opt(2)?)?;
        let out = if let Some(more) = n.opt(3)? { cx.add(&out, &more)? } else { out };
        let params = n.floats("activation_params")?.unwrap_or_default();
        activated(cx, n.text("activation", "")?, &params, out)
    })),
    ms(one("FusedGemm", 1, |cx, n| {
        let out = gemm_product(cx, n)?;
        let params = ["activation_alpha", "activation_beta", "activation_gamma"].map(|name| n.float_if(name));
        let params = params.into_iter().collect::<Res<Vec<Option<f64>>>>()?.into_iter().flatten().collect::<Vec<f64>>();
        activated(cx, n.text("activation", "")?, &params, out)
    })),
    ms(one("GemmFastGelu", 1, |cx, n| {
        let out = cx.matmul(&n.input(0)?, &n.input(1)?)?;
        let out = if let Some(bias) = n.opt(2)? { cx.add(&out, &bias)? } else { out };
        cx.un("nn.gelu_tanh", &out)
    })),
    ms(one("MatMulNBits", 1, matmul_n_bits)),
    ms(one("GatherBlockQuantized", 1, gather_blocks)).converting(),
];

/// Applies the function of a fused operator.
fn activated(cx: &Cx<'_>, name: &str, params: &[f64], x: T) -> Res<T> {
    let param = |at: usize, default: f64| params.get(at).copied().unwrap_or(default);
    match name {
        "" => Ok(x),
        "Relu" => cx.un("nn.relu", &x),
        "Sigmoid" => cx.un("sigmoid", &x),
        "Tanh" => cx.un("tanh", &x),
        "LeakyRelu" => cx.call("relax.nn.leakyrelu", &[&x], &[("alpha", param(0, 0.01).into())]),
        "HardSigmoid" => hard_sigmoid(cx, &x, param(0, 0.2), param(1, 0.5)),
        "Clip" => {
            let limit = |at: usize, default: f64| cx.scalar(param(at, default), x.dtype());
            let x = extreme_max(cx, &x, &limit(0, f64::NEG_INFINITY)?)?;
            extreme_min(cx, &x, &limit(1, f64::INFINITY)?)
        }
        other => Err(format!("its activation `{other}` is not supported")),
    }
}

fn fused_matmul<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<T> {
    let operand = |at: usize, batch: &'static str, matrix: &'static str| -> Res<T> {
        let mut x = n.input(at)?;
        let rank = x.rank()?;
        if n.flag(batch, false)? && rank > 2 {
            // The first axis becomes the axis of the rows.
            let mut axes: Vec<usize> = (1..rank - 1).collect();
            axes.extend([0, rank - 1]);
            x = cx.transpose(&x, &axes)?;
        }
        // As in NumPy, a vector is not transposed.
        if n.flag(matrix, false)? && rank > 1 { cx.swapped(&x) } else { Ok(x) }
    };
    let product = cx.matmul(&operand(0, "transBatchA", "transA")?, &operand(1, "transBatchB", "transB")?)?;
    match n.float("alpha", 1.0)? {
        1.0 => Ok(product),
        alpha => cx.mul_s(&product, alpha),
    }
}

/// Returns how many numbers of the given width fit into a byte.
fn per_byte(bits: i64) -> Res<i64> {
    match bits {
        2 | 4 | 8 => Ok(8 / bits),
        _ => Err(format!("{bits}-bit weights are not supported; use 2, 4 or 8 bits")),
    }
}

/// Unpacks the numbers in bytes along the last axis. The lowest bits of a byte come first.
fn unpacked(cx: &Cx<'_>, packed: &T, bits: i64) -> Res<T> {
    let n = per_byte(bits)?;
    if n == 1 {
        return Ok(packed.clone());
    }
    let mut dims = packed.dims()?;
    let rank = dims.len();
    let mask = cx.scalar(2f64.powi(bits as i32) - 1.0, DType::U8)?;
    let part = |k: i64| -> Res<T> {
        let low = match k {
            0 => packed.clone(),
            k => cx.bin("right_shift", packed, &cx.scalar((k * bits) as f64, DType::U8)?)?,
        };
        cx.unsqueeze(&cx.bin("bitwise_and", &low, &mask)?, &[rank])
    };
    let parts: Vec<T> = (0..n).map(part).collect::<Res<_>>()?;
    if let Some(last) = dims.last_mut() {
        *last = known::mul(last, &Dim::Int(n));
    }
    cx.reshape(&cx.concat(&parts, rank)?, dims)
}

/// Computes a product with a matrix that is quantized in blocks. Each block of a column has a scale, and possibly a
/// zero point. If an input gives the block of each row, the matrix is converted to floats first.
fn matmul_n_bits<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<T> {
    let (a, packed, scales) = (n.input(0)?, n.input(1)?, n.input(2)?);
    let need = |name: &'static str| n.int_if(name)?.ok_or_else(|| format!("its attribute `{name}` is missing"));
    let (k, columns, block) = (need("K")?, need("N")?, need("block_size")?);
    let bits = n.int("bits", 4)?;
    n.ignore(&["accuracy_level"]);
    if n.int("weight_prepacked", 0)? != 0 {
        return Err("prepacked weights (`weight_prepacked`) are not supported".to_string());
    }
    if [k, columns, block].iter().any(|value| !(1..LARGEST).contains(value)) {
        return Err("its attributes `K`, `N` and `block_size` must be positive".to_string());
    }
    let blocks = (k + block - 1) / block;
    let shaped = |x: &T, last: i64| cx.reshape(x, vec![Dim::Int(columns), Dim::Int(last)]);
    let packed = shaped(&packed, blocks * block / per_byte(bits)?)?;
    let zero = match n.opt(3)? {
        None => None,
        Some(zero) if zero.is_float() => Some(shaped(&zero, blocks)?),
        Some(zero) => {
            let zero = unpacked(cx, &shaped(&zero, (blocks * bits + 7) / 8)?, bits)?;
            Some(cx.cast(&cx.range(&zero, 1, 0, blocks)?, a.dtype())?)
        }
    };
    let scales = shaped(&scales, blocks)?;
    let middle = cx.scalar(2f64.powi(bits as i32 - 1), a.dtype())?;
    let out = match n.opt(4)? {
        None => {
            let zero =
                if let Some(zero) = zero { cx.swapped(&zero)? } else { cx.reshape(&middle, vec![Dim::Int(1); 2])? };
            let attrs = [("bits", bits.into()), ("block", block.into())];
            cx.call("onnx.matmul_n_bits", &[&a, &cx.swapped(&packed)?, &cx.swapped(&scales)?, &zero], &attrs)?
        }
        Some(groups) => {
            let groups = if groups.dim(0)?.as_int() == Some(k) { groups } else { cx.range(&groups, 0, 0, k)? };
            let numbers = cx.cast(&unpacked(cx, &packed, bits)?, a.dtype())?;
            let numbers = if blocks * block == k { numbers } else { cx.range(&numbers, 1, 0, k)? };
            let of_row = |x: &T| cx.call("relax.take", &[x, &groups], &[("axis", 1i64.into())]);
            let zero = if let Some(zero) = zero { of_row(&zero)? } else { middle };
            let weight = cx.mul(&cx.sub(&numbers, &zero)?, &of_row(&scales)?)?;
            cx.matmul(&a, &cx.swapped(&weight)?)?
        }
    };
    if let Some(bias) = n.opt(5)? { cx.add(&out, &bias) } else { Ok(out) }
}

/// Takes rows of a quantized table, and converts only these rows to floats.
fn gather_blocks<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<T> {
    let (data, indices, scales, zero) = (n.input(0)?, n.input(1)?, n.input(2)?, n.opt(3)?);
    let (gather, axis) = (data.axis(n.int("gather_axis", 0)?)?, data.axis(n.int("quantize_axis", 1)?)?);
    let (block, bits) = (n.int("block_size", 128)?, n.int("bits", 4)?);
    if gather == axis || !(1..LARGEST).contains(&block) {
        return Err("gathering along the quantized axis is not supported".to_string());
    }
    let packs = data.narrow().is_none() && data.dtype() == DType::U8;
    if packs && axis + 1 != data.rank()? {
        return Err("a packed axis other than the last is not supported".to_string());
    }
    let indices = crate::ops::index::counted(cx, &indices, &data.dim(gather)?)?;
    let rows = |x: &T| cx.call("relax.take", &[&x.plain(), &indices], &[("axis", (gather as i64).into())]);
    let wide = |x: &T| -> Res<T> {
        let rows = rows(x)?;
        cx.cast(&if packs { unpacked(cx, &rows, bits)? } else { rows }, scales.dtype())
    };
    let at = if axis > gather { (axis + indices.rank()?).saturating_sub(1) } else { axis };
    let numbers = wide(&data)?;
    let size = numbers.dim(at)?;
    let scale = rows(&scales)?;
    let blocks = scale.dim(at)?;
    let spread = |x: &T| -> Res<T> {
        let each = cx.call("relax.repeat", &[x], &[("repeats", block.into()), ("axis", (at as i64).into())])?;
        if known::same(&each.dim(at)?, &size) { Ok(each) } else { cx.range(&each, at, 0, size.clone()) }
    };
    let zero = match zero {
        Some(zero) => spread(&cx.range(&wide(&zero)?, at, 0, blocks)?)?,
        None if packs => cx.scalar(2f64.powi(bits as i32 - 1), scales.dtype())?,
        None => cx.scalar(0.0, scales.dtype())?,
    };
    cx.mul(&cx.sub(&numbers, &zero)?, &spread(&scale)?)
}
