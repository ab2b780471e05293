//! Attention operators, and helpers for them.

use super::{Row, all, one};
use crate::cx::Cx;
use crate::known;
use crate::node::Node;
use crate::value::{Item, Res, T};
use plugin_api::prelude::*;

pub(super) const ROWS: &[Row] = &[
    all("Attention", 23, attention),
    one("RotaryEmbedding", 23, |cx, n| {
        let x = n.input(0)?;
        let heads = n.int("num_heads", 0)?;
        let (cos, sin) = (n.input(1)?, n.input(2)?);
        let options = Rotary { interleaved: n.flag("interleaved", false)?, width: n.int("rotary_embedding_dim", 0)? };
        rotated(cx, &x, (&cos, &sin), n.opt(3)?, heads, &options)
    }),
];

/// The operands of scaled dot-product attention, with heads on axis 1.
pub(super) struct Parts<'t> {
    pub(super) q: &'t T,
    pub(super) k: &'t T,
    pub(super) v: &'t T,
    pub(super) bias: Option<&'t T>,
    /// A score per head that takes part in the softmax but does not belong to any key or value.
    pub(super) sink: Option<&'t T>,
    pub(super) scale: f64,
    pub(super) softcap: f64,
    pub(super) precision: DType,
}

/// The intermediate results of attention: the scores before and after softcap, with the bias, and after softmax; and
/// the final result.
pub(super) struct Attended {
    products: [T; 4],
    pub(super) result: T,
}

pub(super) fn attend(cx: &Cx<'_>, p: &Parts<'_>) -> Res<Attended> {
    let dtype = p.q.dtype();
    let root = p.scale.sqrt();
    let (q, k) = (cx.mul_s(p.q, root)?, cx.mul_s(&cx.swapped(&repeated(cx, p.k, p.q)?)?, root)?);
    let raw = cx.matmul(&q, &k)?;
    let capped = match p.softcap > 0.0 {
        true => cx.mul_s(&cx.un("tanh", &cx.div(&raw, &cx.scalar(p.softcap, dtype)?)?)?, p.softcap)?,
        false => raw.clone(),
    };
    let biased = if let Some(bias) = p.bias { cx.add(&capped, bias)? } else { capped.clone() };
    let wide = cx.cast(&biased, p.precision)?;
    let last = wide.axis(-1)?;
    let mut shares = match (p.bias, p.sink) {
        (None, None) if p.precision.bits() >= 32 => {
            cx.call("relax.nn.softmax", &[&wide], &[("axis", (last as i64).into())])?
        }
        _ => shares_of(cx, &wide, p.sink)?,
    };
    shares = cx.cast(&shares, dtype)?;
    let result = cx.matmul(&shares, &repeated(cx, p.v, p.q)?)?;
    Ok(Attended { products: [raw, capped, biased, shares], result })
}

/// Computes softmax along the last axis. A row without visible keys is all zeros.
fn shares_of(cx: &Cx<'_>, scores: &T, sink: Option<&T>) -> Res<T> {
    let (last, dtype) = (scores.axis(-1)?, scores.dtype());
    let most = cx.reduce("max", scores, &[last], true)?;
    let most = cx.max_s(&most, if dtype == DType::F16 { -6e4 } else { -1e30 })?;
    let most = if let Some(sink) = sink { cx.bin("maximum", &most, sink)? } else { most };
    let powers = cx.un("exp", &cx.sub(scores, &most)?)?;
    let sum = match dtype == DType::F16 {
        true => cx.cast(&cx.reduce("sum", &cx.cast(&powers, DType::F32)?, &[last], true)?, dtype)?,
        false => cx.reduce("sum", &powers, &[last], true)?,
    };
    if let Some(sink) = sink {
        let sum = cx.add(&sum, &cx.un("exp", &cx.sub(sink, &most)?)?)?;
        return cx.div(&powers, &sum);
    }
    let empty = cx.bin("equal", &sum, &cx.scalar(0.0, dtype)?)?;
    let sum = cx.select(&empty, &cx.scalar(1.0, dtype)?, &sum)?;
    cx.div(&powers, &sum)
}

/// Repeats key or value heads to match the query heads: query head h uses head h ÷ group.
pub(super) fn repeated(cx: &Cx<'_>, x: &T, q: &T) -> Res<T> {
    let (own, wanted) = (x.dim(1)?, q.dim(1)?);
    if known::same(&own, &wanted) {
        return Ok(x.clone());
    }
    match (own.as_int(), wanted.as_int()) {
        (Some(own), Some(wanted)) if own > 0 && wanted % own == 0 => {
            cx.call("relax.repeat", &[x], &[("repeats", (wanted / own).into()), ("axis", 1i64.into())])
        }
        _ => {
            Err(format!("the number of query heads, {wanted:?}, is not a multiple of the number of key heads, {own:?}"))
        }
    }
}

/// Converts (batch, sequence, heads × size) to (batch, heads, sequence, size).
pub(super) fn split_heads(cx: &Cx<'_>, x: &T, heads: i64) -> Res<T> {
    if heads < 1 {
        return Err("its number of heads is missing".to_string());
    }
    let dims = x.dims_from(3)?;
    let size = known::div(&dims[2], &Dim::Int(heads));
    let apart = cx.reshape(x, vec![dims[0].clone(), dims[1].clone(), Dim::Int(heads), size])?;
    cx.transpose(&apart, &[0, 2, 1, 3])
}

pub(super) fn joined_heads(cx: &Cx<'_>, x: &T) -> Res<T> {
    let dims = x.dims_from(4)?;
    let together = cx.transpose(x, &[0, 2, 1, 3])?;
    cx.reshape(&together, vec![dims[0].clone(), dims[2].clone(), known::mul(&dims[1], &dims[3])])
}

/// Returns the default scale, which is 1 divided by the square root of the head size.
pub(super) fn usual_scale(q: &T) -> Res<f64> {
    let size = q.dim(3)?.as_int().ok_or("its head size is not known")?;
    Ok(1.0 / (size as f64).sqrt())
}

/// Returns a bias that is 0 where a condition holds, and otherwise minus infinity.
pub(super) fn bias_where(cx: &Cx<'_>, allowed: &T, dtype: DType) -> Res<T> {
    cx.select(allowed, &cx.scalar(0.0, dtype)?, &cx.scalar(f64::NEG_INFINITY, dtype)?)
}

/// The positions at which the windows of queries end.
pub(super) struct Frontier {
    /// The position of each query among the keys.
    pub(super) rows: T,
    pub(super) columns: T,
}

pub(super) fn frontier(cx: &Cx<'_>, q_len: &Dim, kv_len: &Dim, offset: Option<T>) -> Res<Frontier> {
    let rows = cx.unsqueeze(&cx.arange(q_len, DType::I64)?, &[1])?;
    let columns = cx.unsqueeze(&cx.arange(kv_len, DType::I64)?, &[0])?;
    let rows = if let Some(offset) = offset { cx.add(&rows, &offset)? } else { rows };
    Ok(Frontier { rows, columns })
}

/// Returns a mask of the keys that are visible to each query: the given numbers of keys before and after it. A negative
/// number means unlimited.
pub(super) fn window(cx: &Cx<'_>, f: &Frontier, left: i64, right: i64) -> Res<T> {
    let edge = |op: &str, by: i64| cx.bin(op, &f.columns, &cx.add_s(&f.rows, by as f64)?);
    match (left >= 0, right >= 0) {
        (true, true) => cx.bin("logical_and", &edge("less_equal", right)?, &edge("greater_equal", -left)?),
        (true, false) => edge("greater_equal", -left),
        _ => edge("less_equal", right),
    }
}

pub(super) fn joined_bias(cx: &Cx<'_>, bias: Option<T>, more: T) -> Res<T> {
    if let Some(bias) = bias { cx.add(&bias, &more) } else { Ok(more) }
}

fn attention<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<Vec<Item>> {
    let (mut q, mut k, mut v) = (n.input(0)?, n.input(1)?, n.input(2)?);
    let flat = q.rank()? == 3;
    let (q_heads, kv_heads) = (n.int("q_num_heads", 0)?, n.int("kv_num_heads", 0)?);
    if flat {
        q = split_heads(cx, &q, q_heads)?;
        k = split_heads(cx, &k, kv_heads)?;
        v = split_heads(cx, &v, kv_heads)?;
    }
    let dtype = q.dtype();
    let scale = match n.float_if("scale")? {
        Some(scale) => scale,
        None => usual_scale(&q)?,
    };
    let (past_k, past_v, lengths) = (n.opt(4)?, n.opt(5)?, n.opt(6)?);
    let past = past_k.as_ref().map(|past| past.dim(2)).transpose()?;
    let present_k = if let Some(past) = past_k { cx.concat(&[past, k], 2)? } else { k };
    let present_v = if let Some(past) = past_v { cx.concat(&[past, v], 2)? } else { v };
    let (q_len, kv_len) = (q.dim(2)?, present_k.dim(2)?);
    let causal = n.flag("is_causal", false)?;
    let (left, right) = (n.int("left_window_size", -1)?, n.int("right_window_size", -1)?);
    let mut bias = n.opt(3)?.map(|mask| mask_bias(cx, &mask, &kv_len, dtype)).transpose()?;
    let right = if causal { 0 } else { right };
    if left >= 0 || right >= 0 {
        let offset = match (&past, &lengths) {
            (Some(past), _) => Some(cx.reshape(&cx.of_dims(vec![past.clone()])?, vec![])?),
            (None, Some(lengths)) => {
                let q_len = cx.reshape(&cx.of_dims(vec![q_len.clone()])?, vec![])?;
                let apart = cx.sub(&cx.cast(lengths, DType::I64)?, &q_len)?;
                Some(cx.reshape(&apart, vec![lengths.dim(0)?, Dim::Int(1), Dim::Int(1), Dim::Int(1)])?)
            }
            (None, None) => None,
        };
        let f = frontier(cx, &q_len, &kv_len, offset)?;
        bias = Some(joined_bias(cx, bias, bias_where(cx, &window(cx, &f, left, right)?, dtype)?)?);
    }
    if let Some(lengths) = lengths {
        let columns = cx.arange(&kv_len, DType::I64)?;
        let lengths =
            cx.reshape(&cx.cast(&lengths, DType::I64)?, vec![lengths.dim(0)?, Dim::Int(1), Dim::Int(1), Dim::Int(1)])?;
        let inside = bias_where(cx, &cx.bin("less", &columns, &lengths)?, dtype)?;
        bias = Some(joined_bias(cx, bias, inside)?);
    }
    let precision = n.dtype_or_none("softmax_precision")?.unwrap_or(dtype);
    let softcap = n.float("softcap", 0.0)?;
    let parts =
        Parts { q: &q, k: &present_k, v: &present_v, bias: bias.as_ref(), sink: None, scale, softcap, precision };
    let attended = attend(cx, &parts)?;
    let result = if flat { joined_heads(cx, &attended.result)? } else { attended.result };
    let mode = usize::try_from(n.int("qk_matmul_output_mode", 0)?).unwrap_or(9);
    let product = attended.products.get(mode).ok_or("its attribute `qk_matmul_output_mode` must be from 0 to 3")?;
    Ok(vec![result.into(), present_k.into(), present_v.into(), product.clone().into()])
}

/// Converts a mask to a bias. Keys beyond the end of the mask are hidden.
fn mask_bias(cx: &Cx<'_>, mask: &T, kv_len: &Dim, dtype: DType) -> Res<T> {
    let bias = if mask.dtype() == DType::BOOL { bias_where(cx, mask, dtype)? } else { mask.clone() };
    let last = bias.axis(-1)?;
    let own = bias.dim(last)?;
    if own.as_int() == Some(1) || known::same(&own, kv_len) {
        return Ok(bias);
    }
    let mut after = vec![Dim::Int(0); last + 1];
    after[last] = known::sub(kv_len, &own);
    if after[last].as_int().is_some_and(|more| more < 0) {
        return Err("its mask is longer than its keys".to_string());
    }
    let value = cx.scalar(f64::NEG_INFINITY, dtype)?;
    super::shape::padded(cx, bias, &vec![Dim::Int(0); last + 1], &after, "constant", &value)
}

/// The pairing of elements in a rotary embedding.
pub(super) struct Rotary {
    pub(super) interleaved: bool,
    pub(super) width: i64,
}

/// Rotates pairs of elements by angles that depend on their positions.
pub(super) fn rotated(
    cx: &Cx<'_>,
    x: &T,
    (cos, sin): (&T, &T),
    positions: Option<T>,
    heads: i64,
    options: &Rotary,
) -> Res<T> {
    let flat = x.rank()? == 3;
    // The heads are the axis before the last: (batch, sequence, heads, size).
    let inner = match flat {
        true => {
            if heads < 1 {
                return Err("its attribute `num_heads` is missing".to_string());
            }
            let dims = x.dims()?;
            cx.reshape(
                x,
                vec![dims[0].clone(), dims[1].clone(), Dim::Int(heads), known::div(&dims[2], &Dim::Int(heads))],
            )?
        }
        false => cx.transpose(x, &[0, 2, 1, 3])?,
    };
    let size = inner.dim(3)?.as_int().ok_or("its head size is not known")?;
    let width = if options.width == 0 { size } else { options.width };
    let half = width / 2;
    let table = |cache: &T| -> Res<T> {
        let rows = match &positions {
            Some(positions) => cx.call("relax.take", &[cache, positions], &[("axis", 0i64.into())])?,
            None => cache.clone(),
        };
        let rows = if rows.dim(rows.axis(-1)?)?.as_int() == Some(half) { rows } else { cx.range(&rows, 2, 0, half)? };
        cx.unsqueeze(&rows, &[2])
    };
    let (cos, sin) = (table(cos)?, table(sin)?);
    let turning = if width == size { inner.clone() } else { cx.range(&inner, 3, 0, width)? };
    let (a, b) = match options.interleaved {
        true => {
            let every = |from: i64| cx.slice(&turning, &[3], &[Dim::Int(from)], &[Dim::Int(width)], &[2]);
            (every(0)?, every(1)?)
        }
        false => (cx.range(&turning, 3, 0, half)?, cx.range(&turning, 3, half, width)?),
    };
    let real = cx.sub(&cx.mul(&cos, &a)?, &cx.mul(&sin, &b)?)?;
    let imaginary = cx.add(&cx.mul(&sin, &a)?, &cx.mul(&cos, &b)?)?;
    let turned = match options.interleaved {
        true => {
            let pairs = super::control::stacked(cx, &[real, imaginary], 4)?;
            cx.reshape(&pairs, turning.dims()?)?
        }
        false => cx.concat(&[real, imaginary], 3)?,
    };
    let whole = if width == size { turned } else { cx.concat(&[turned, cx.range(&inner, 3, width, size)?], 3)? };
    if flat { cx.reshape(&whole, x.dims()?) } else { cx.transpose(&whole, &[0, 2, 1, 3]) }
}
