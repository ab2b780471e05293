//! Products of matrices, and attention.

use super::elementwise::scalar;
use super::{Row, all, one};
use crate::graph::Cx;
use crate::node::Node;
use importer::known::{self, Elem};
use importer::norm::{safe_softmax, softmax};
use importer::tensor::{Res, T};
use plugin_api::prelude::*;

pub(super) const ROWS: &[Row] = &[
    one("aten.linear.default", |cx, n| {
        let (x, weight) = (n.x()?, n.t("weight")?);
        let product = match weight.rank()? {
            1 => cx.matmul(&x, &weight)?,
            _ => cx.matmul(&x, &cx.swapped(&weight)?)?,
        };
        if let Some(bias) = n.opt("bias")? { cx.add(&product, &bias) } else { Ok(product) }
    }),
    one("aten.matmul.default", |cx, n| cx.matmul(&n.x()?, &n.t("other")?)),
    one("aten.mm.default", |cx, n| cx.matmul(&n.x()?, &n.t("mat2")?)),
    one("aten.bmm.default", |cx, n| cx.matmul(&n.x()?, &n.t("mat2")?)),
    one("aten.mv.default", |cx, n| cx.matmul(&n.x()?, &n.t("vec")?)),
    one("aten.dot.default", |cx, n| cx.matmul(&n.x()?, &n.t("tensor")?)),
    one("aten.addmm.default", |cx, n| added(cx, n, "mat1", "mat2")),
    one("aten.baddbmm.default", |cx, n| added(cx, n, "batch1", "batch2")),
    one("aten.addmv.default", |cx, n| added(cx, n, "mat", "vec")),
    one("aten.outer.default", |cx, n| {
        let (a, b) = (n.x()?, n.t("vec2")?);
        cx.mul(&cx.unsqueeze(&a, &[1])?, &b)
    }),
    one("aten.einsum.default", |cx, n| {
        let equation = n.text_if("equation")?.ok_or("its argument `equation` is missing")?.replace(' ', "");
        n.ignore(&["path"]);
        let operands: Vec<V> = n.tensors("tensors")?.iter().map(|x| cx.v(x)).collect::<Res<_>>()?;
        let attrs = [("subscripts", equation.as_str().into())];
        T::of_v(cx, cx.call_v("relax.einsum", &[cx.b.tuple(&operands)], &attrs)?)
    }),
    one("aten.scaled_dot_product_attention.default", attention),
    all("aten._scaled_dot_product_flash_attention_for_cpu.default", |cx, n| Ok(vec![attention(cx, n)?])),
    all("aten._scaled_dot_product_flash_attention.default", |cx, n| {
        n.ignore(&["return_debug_mask"]);
        Ok(vec![attention(cx, n)?])
    }),
    all("aten._scaled_dot_product_efficient_attention.default", |cx, n| {
        n.ignore(&["compute_log_sumexp"]);
        Ok(vec![attention(cx, n)?])
    }),
];

/// Computes `beta * self + alpha * (a @ b)`. An operand that is scaled by 0 is not added, even if it is infinite.
fn added<'a>(cx: &mut Cx<'a>, n: &Node<'a>, a: &str, b: &str) -> Res<T> {
    let one = || Elem::int(1);
    let (alpha, beta) = (n.number_if("alpha")?.unwrap_or_else(one), n.number_if("beta")?.unwrap_or_else(one));
    let times = |x: T, by: &Elem| -> Res<T> {
        if by.number() == Some(1.0) { Ok(x) } else { cx.mul(&x, &scalar(cx, by, x.dtype())?) }
    };
    let product = times(cx.matmul(&n.t(a)?, &n.t(b)?)?, &alpha)?;
    let x = n.x()?;
    if beta.number() == Some(0.0) { Ok(product) } else { cx.add(&times(x, &beta)?, &product) }
}

/// Computes scaled dot-product attention.
fn attention<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<T> {
    let (q, mut k, mut v) = (n.t("query")?, n.t("key")?, n.t("value")?);
    if n.float("dropout_p", 0.0)? != 0.0 {
        return Err("it drops elements at random; call `model.eval()` before the export".to_string());
    }
    let dims = q.dims_from(2)?;
    let rank = dims.len();
    let scale = match n.float_if("scale")? {
        Some(scale) => cx.scalar(scale, q.dtype())?,
        None => {
            let width = dims[rank - 1].as_int().ok_or("its scale depends on a symbolic size; give `scale`")?;
            cx.scalar(1.0 / (width as f64).sqrt(), q.dtype())?
        }
    };
    if n.flag("enable_gqa", false)? {
        (k, v) = (for_heads(cx, &k, &dims[rank.saturating_sub(3)])?, for_heads(cx, &v, &dims[rank.saturating_sub(3)])?);
    }
    let mut scores = cx.mul(&cx.matmul(&q, &cx.swapped(&k)?)?, &scale)?;
    let (is_causal, mask) = (n.flag("is_causal", false)?, n.opt("attn_mask")?.or(n.opt("attn_bias")?));
    let hidden = cx.scalar(f64::NEG_INFINITY, q.dtype())?;
    if is_causal {
        let row = cx.unsqueeze(&cx.arange(&dims[rank - 2], DType::I64)?, &[1])?;
        let column = cx.arange(&k.dim(rank - 2)?, DType::I64)?;
        scores = cx.select(&cx.bin("less_equal", &column, &row)?, &scores, &hidden)?;
    }
    scores = match &mask {
        Some(mask) if mask.dtype() == DType::BOOL => cx.select(mask, &scores, &hidden)?,
        Some(mask) => cx.add(&scores, &cx.cast(mask, scores.dtype())?)?,
        None => scores,
    };
    let last = rank as i64 - 1;
    let shares = if mask.is_some() { safe_softmax(cx, &scores, last)? } else { softmax(cx, &scores, last)? };
    cx.matmul(&shares, &v)
}

/// Repeats the heads of keys or values, so that each query head has its own.
fn for_heads(cx: &Cx<'_>, x: &T, heads: &Dim) -> Res<T> {
    let dims = x.dims_from(3)?;
    let axis = dims.len() - 3;
    let by = known::div(heads, &dims[axis]).as_int().ok_or("its numbers of heads must be known")?;
    match by {
        1 => Ok(x.clone()),
        _ => cx.call("relax.repeat", &[x], &[("repeats", by.into()), ("axis", (axis as i64).into())]),
    }
}
