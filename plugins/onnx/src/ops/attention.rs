//! Attention, and operators for it.

use super::{Row, all, ms, one};
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
    ms(one("RotaryEmbedding", 1, |cx, n| {
        let x = n.input(0)?;
        n.ignore(&["is_packed_batching"]);
        let heads = n.int("num_heads", 0)?;
        let (cos, sin) = (n.input(2)?, n.input(3)?);
        let options = Rotary { interleaved: n.flag("interleaved", false)?, width: n.int("rotary_embedding_dim", 0)? };
        if n.float("scale", 1.0)? != 1.0 {
            return Err("its attribute `scale` is not 1, which is not supported".to_string());
        }
        let x_heads = if heads == 0 && x.rank()? == 3 {
            let width = known::mul(&cos.dim(1)?, &Dim::Int(2));
            known::div(&x.dim(2)?, &width).as_int().ok_or("its number of heads is not known")?
        } else {
            heads
        };
        let positions = n.input(1)?;
        let positions = if positions.rank()? == 1 { offset_positions(cx, &positions, &x)? } else { positions };
        rotated(cx, &x, (&cos, &sin), Some(positions), x_heads, &options)
    })),
    ms(all("GroupQueryAttention", 1, group_query)),
    ms(all("MultiHeadAttention", 1, multi_head)),
    ms(all("Attention", 1, packed_attention)),
];

/// The operands of scaled dot-product attention, with heads on axis 1.
struct Parts<'t> {
    q: &'t T,
    k: &'t T,
    v: &'t T,
    bias: Option<&'t T>,
    scale: f64,
    softcap: f64,
    precision: DType,
}

/// The intermediate results: scores before and after softcap, with the bias, and after softmax; and the result.
struct Attended {
    products: [T; 4],
    result: T,
}

fn attend(cx: &Cx<'_>, p: &Parts<'_>) -> Res<Attended> {
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
    let last = wide.rank()? - 1;
    let mut shares = match p.bias {
        None if p.precision.bits() >= 32 => cx.call("relax.nn.softmax", &[&wide], &[("axis", (last as i64).into())])?,
        _ => {
            // A row without visible keys is all zeros.
            let most = cx.reduce("max", &wide, &[last], true)?;
            let most = cx.max_s(&most, if p.precision == DType::F16 { -6e4 } else { -1e30 })?;
            let powers = cx.un("exp", &cx.sub(&wide, &most)?)?;
            let sum = match p.precision == DType::F16 {
                true => cx.cast(&cx.reduce("sum", &cx.cast(&powers, DType::F32)?, &[last], true)?, p.precision)?,
                false => cx.reduce("sum", &powers, &[last], true)?,
            };
            let empty = cx.bin("equal", &sum, &cx.scalar(0.0, p.precision)?)?;
            let sum = cx.select(&empty, &cx.scalar(1.0, p.precision)?, &sum)?;
            cx.div(&powers, &sum)?
        }
    };
    shares = cx.cast(&shares, dtype)?;
    let result = cx.matmul(&shares, &repeated(cx, p.v, p.q)?)?;
    Ok(Attended { products: [raw, capped, biased, shares], result })
}

/// Repeats key or value heads for the query heads: query head h uses head h ÷ group.
fn repeated(cx: &Cx<'_>, x: &T, q: &T) -> Res<T> {
    let (own, wanted) = (x.dim(1)?, q.dim(1)?);
    if known::same(&own, &wanted) {
        return Ok(x.clone());
    }
    match (own.as_int(), wanted.as_int()) {
        (Some(own), Some(wanted)) if own > 0 && wanted % own == 0 => {
            cx.call("relax.repeat", &[x], &[("repeats", (wanted / own).into()), ("axis", 1i64.into())])
        }
        _ => Err(format!("{wanted:?} query heads do not fit {own:?} key heads")),
    }
}

/// Converts (batch, sequence, heads × size) to (batch, heads, sequence, size).
fn split_heads(cx: &Cx<'_>, x: &T, heads: i64) -> Res<T> {
    if heads < 1 {
        return Err("its number of heads is missing".to_string());
    }
    let dims = x.dims()?;
    let size = known::div(&dims[2], &Dim::Int(heads));
    let apart = cx.reshape(x, vec![dims[0].clone(), dims[1].clone(), Dim::Int(heads), size])?;
    cx.transpose(&apart, &[0, 2, 1, 3])
}

fn joined_heads(cx: &Cx<'_>, x: &T) -> Res<T> {
    let dims = x.dims()?;
    let together = cx.transpose(x, &[0, 2, 1, 3])?;
    cx.reshape(&together, vec![dims[0].clone(), dims[2].clone(), known::mul(&dims[1], &dims[3])])
}

/// Returns the default scale: one over the square root of the head size.
fn usual_scale(q: &T) -> Res<f64> {
    let size = q.dim(3)?.as_int().ok_or("the size of its heads is not known")?;
    Ok(1.0 / (size as f64).sqrt())
}

/// Returns a bias that is 0 where a condition holds, and otherwise minus infinity.
fn bias_where(cx: &Cx<'_>, allowed: &T, dtype: DType) -> Res<T> {
    cx.select(allowed, &cx.scalar(0.0, dtype)?, &cx.scalar(f64::NEG_INFINITY, dtype)?)
}

/// The positions at which the windows of queries end.
struct Frontier {
    /// The position of each query among the keys.
    rows: T,
    columns: T,
}

fn frontier(cx: &Cx<'_>, q_len: &Dim, kv_len: &Dim, offset: Option<T>) -> Res<Frontier> {
    let rows = cx.unsqueeze(&cx.arange(q_len, DType::I64)?, &[1])?;
    let columns = cx.unsqueeze(&cx.arange(kv_len, DType::I64)?, &[0])?;
    let rows = if let Some(offset) = offset { cx.add(&rows, &offset)? } else { rows };
    Ok(Frontier { rows, columns })
}

/// Returns a mask of the keys that are visible to each query: so many before it and after it. A negative number means
/// unlimited.
fn window(cx: &Cx<'_>, f: &Frontier, left: i64, right: i64) -> Res<T> {
    let edge = |op: &str, by: i64| cx.bin(op, &f.columns, &cx.add_s(&f.rows, by as f64)?);
    match (left >= 0, right >= 0) {
        (true, true) => cx.bin("logical_and", &edge("less_equal", right)?, &edge("greater_equal", -left)?),
        (true, false) => edge("greater_equal", -left),
        _ => edge("less_equal", right),
    }
}

fn joined_bias(cx: &Cx<'_>, bias: Option<T>, more: T) -> Res<T> {
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
    let parts = Parts { q: &q, k: &present_k, v: &present_v, bias: bias.as_ref(), scale, softcap, precision };
    let attended = attend(cx, &parts)?;
    let result = if flat { joined_heads(cx, &attended.result)? } else { attended.result };
    let mode = usize::try_from(n.int("qk_matmul_output_mode", 0)?).unwrap_or(9);
    let product = attended.products.get(mode).ok_or("its attribute `qk_matmul_output_mode` must be from 0 to 3")?;
    Ok(vec![result.into(), present_k.into(), present_v.into(), product.clone().into()])
}

/// Converts a mask to a bias. Keys beyond the end of the mask are hidden.
fn mask_bias(cx: &Cx<'_>, mask: &T, kv_len: &Dim, dtype: DType) -> Res<T> {
    let bias = if mask.dtype() == DType::BOOL { bias_where(cx, mask, dtype)? } else { mask.clone() };
    let last = bias.rank()? - 1;
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
struct Rotary {
    interleaved: bool,
    width: i64,
}

/// Rotates pairs of elements by angles that depend on positions.
fn rotated(cx: &Cx<'_>, x: &T, (cos, sin): (&T, &T), positions: Option<T>, heads: i64, options: &Rotary) -> Res<T> {
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
    let size = inner.dim(3)?.as_int().ok_or("the size of its heads is not known")?;
    let width = if options.width == 0 { size } else { options.width };
    let half = width / 2;
    let table = |cache: &T| -> Res<T> {
        let rows = match &positions {
            Some(positions) => cx.call("relax.take", &[cache, positions], &[("axis", 0i64.into())])?,
            None => cache.clone(),
        };
        let rows = if rows.dim(rows.rank()? - 1)?.as_int() == Some(half) { rows } else { cx.range(&rows, 2, 0, half)? };
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

/// Returns the positions that follow an offset, for each sample and each element of a sequence.
fn offset_positions(cx: &Cx<'_>, offset: &T, x: &T) -> Res<T> {
    let flat = x.rank()? == 3;
    let (batch, length) = (x.dim(0)?, x.dim(if flat { 1 } else { 2 })?);
    let at = cx.add(&cx.arange(&length, DType::I64)?, &cx.cast(offset, DType::I64)?)?;
    cx.broadcast_to(&at, &[batch, length])
}

/// Returns query, key and value, which may be packed in one tensor.
fn separate<'a>(cx: &Cx<'a>, n: &Node<'a>, heads: i64, kv_heads: i64) -> Res<(T, T, T)> {
    let packed = n.input(0)?;
    if let (Some(k), Some(v)) = (n.opt(1)?, n.opt(2)?) {
        return Ok((packed, k, v));
    }
    let whole = packed.dim(2)?;
    let size = known::div(&whole, &Dim::Int(heads + 2 * kv_heads));
    let (a, b) = (known::mul(&size, &Dim::Int(heads)), known::mul(&size, &Dim::Int(heads + kv_heads)));
    Ok((cx.range(&packed, 2, 0, a.clone())?, cx.range(&packed, 2, a, b.clone())?, cx.range(&packed, 2, b, whole)?))
}

/// Attention with a cache that grows. Each sample has its own length.
fn group_query<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<Vec<Item>> {
    let need = |name: &'static str| {
        let given = n.int_if(name)?.filter(|heads| (1..super::conv::LARGEST).contains(heads));
        given.ok_or_else(|| format!("its attribute `{name}` is missing, or no number of heads"))
    };
    let (heads, kv_heads) = (need("num_heads")?, need("kv_num_heads")?);
    let (q, k, v) = separate(cx, n, heads, kv_heads)?;
    let (mut q, mut k, v) =
        (split_heads(cx, &q, heads)?, split_heads(cx, &k, kv_heads)?, split_heads(cx, &v, kv_heads)?);
    let (past_k, past_v) = (n.opt(3)?, n.opt(4)?);
    // The total length includes the cache and the new keys.
    let (lengths, _) = (n.input(5)?, n.opt(6)?);
    let (batch, length) = (q.dim(0)?, q.dim(2)?);
    // The input is the number of keys of each sample minus one. The new keys are the last ones.
    let lengths = cx.reshape(&cx.cast(&lengths, DType::I64)?, vec![batch.clone()])?;
    let new = cx.reshape(&cx.of_dims(vec![length.clone()])?, vec![])?;
    let before = cx.sub(&cx.add_s(&lengths, 1.0)?, &new)?;
    let start = cx.max_s(&before, 0.0)?;
    let places = cx.add(&cx.unsqueeze(&start, &[1])?, &cx.unsqueeze(&cx.arange(&length, DType::I64)?, &[0])?)?;
    if n.flag("do_rotary", false)? {
        let (cos, sin) = (n.input(7)?, n.input(8)?);
        let options = Rotary {
            interleaved: n.flag("rotary_interleaved", false)?,
            width: cos.dim(1)?.as_int().ok_or("the width of its rotary cache is not known")?.saturating_mul(2),
        };
        let positions = n.opt(9)?.map_or_else(|| Ok::<T, String>(places.clone()), Ok)?;
        q = rotated(cx, &q, (&cos, &sin), Some(positions.clone()), 0, &options)?;
        k = rotated(cx, &k, (&cos, &sin), Some(positions), 0, &options)?;
    }
    let bias_input = n.opt(10)?;
    n.ignore(&["smooth_softmax"]);
    if n.int("local_window_size", -1)? >= 0 || n.int("smooth_softmax", 0)? > 0 {
        return Err("a local window or a smooth softmax is not supported".to_string());
    }
    let (present_k, present_v) = match (past_k, past_v) {
        (Some(past_k), Some(past_v)) => (appended(cx, past_k, k, &places)?, appended(cx, past_v, v, &places)?),
        _ => (k, v),
    };
    let kv_len = present_k.dim(2)?;
    let columns = cx.arange(&kv_len, DType::I64)?;
    let rows = cx.unsqueeze(&cx.unsqueeze(&places, &[1])?, &[3])?;
    let mut bias = bias_where(cx, &cx.bin("less_equal", &columns, &rows)?, q.dtype())?;
    if let Some(more) = bias_input {
        bias = cx.add(&bias, &more)?;
    }
    let scale = match n.float("scale", 0.0)? {
        0.0 => usual_scale(&q)?,
        scale => scale,
    };
    let softcap = n.float("softcap", 0.0)?;
    let precision = if q.dtype().bits() < 32 { DType::F32 } else { q.dtype() };
    let parts = Parts { q: &q, k: &present_k, v: &present_v, bias: Some(&bias), scale, softcap, precision };
    let result = attend(cx, &parts)?.result;
    Ok(vec![joined_heads(cx, &result)?.into(), present_k.into(), present_v.into()])
}

/// Returns a cache with new keys or values at these positions.
fn appended(cx: &Cx<'_>, past: T, new: T, places: &T) -> Res<T> {
    let dims = new.dims()?;
    let room = cx.filled(0.0, new.dtype(), &dims)?;
    let wide = cx.concat(&[past, room], 2)?;
    let at = cx.unsqueeze(&cx.unsqueeze(places, &[1])?, &[3])?;
    let at = cx.broadcast_to(&at, &dims)?;
    cx.call("relax.scatter_elements", &[&wide, &at, &new], &[("axis", 2i64.into()), ("reduction", "update".into())])
}

fn multi_head<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<Vec<Item>> {
    let heads = n.int_if("num_heads")?.ok_or("its attribute `num_heads` is missing")?;
    let (mut q, k, v) = (n.input(0)?, n.opt(1)?, n.opt(2)?);
    let (Some(mut k), Some(mut v)) = (k, v) else {
        return Err("it has packed keys and values, which are not supported; export the model without fused operators"
            .to_string());
    };
    if let Some(bias) = n.opt(3)? {
        let (a, b) = (q.dim(2)?, known::add(&q.dim(2)?, &k.dim(k.rank()? - 1)?));
        let all = bias.dim(0)?;
        q = cx.add(&q, &cx.range(&bias, 0, 0, a.clone())?)?;
        k = cx.add(&k, &cx.range(&bias, 0, a, b.clone())?)?;
        v = cx.add(&v, &cx.range(&bias, 0, b, all)?)?;
    }
    let q = split_heads(cx, &q, heads)?;
    let heads_of = |cx: &Cx<'_>, x: T| if x.rank() == Ok(4) { Ok(x) } else { split_heads(cx, &x, heads) };
    let (mut k, mut v) = (heads_of(cx, k)?, heads_of(cx, v)?);
    if n.opt(4)?.is_some() {
        return Err("its key padding mask is not supported; give an attention bias".to_string());
    }
    let mut bias = n.opt(5)?;
    if let (Some(past_k), Some(past_v)) = (n.opt(6)?, n.opt(7)?) {
        k = cx.concat(&[past_k, k], 2)?;
        v = cx.concat(&[past_v, v], 2)?;
    }
    if n.flag("unidirectional", false)? {
        let offset = known::sub(&k.dim(2)?, &q.dim(2)?);
        let offset = cx.reshape(&cx.of_dims(vec![offset])?, vec![])?;
        let f = frontier(cx, &q.dim(2)?, &k.dim(2)?, Some(offset))?;
        let causal = bias_where(cx, &cx.bin("less_equal", &f.columns, &f.rows)?, q.dtype())?;
        bias = Some(if let Some(bias) = bias { cx.add(&bias, &causal)? } else { causal });
    }
    n.ignore(&["mask_filter_value"]);
    let scale = match n.float("scale", 0.0)? {
        0.0 => usual_scale(&q)?,
        scale => scale,
    };
    let parts = Parts { q: &q, k: &k, v: &v, bias: bias.as_ref(), scale, softcap: 0.0, precision: q.dtype() };
    let result = attend(cx, &parts)?.result;
    Ok(vec![joined_heads(cx, &result)?.into(), k.into(), v.into()])
}

/// Attention whose operator includes the projection.
fn packed_attention<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<Vec<Item>> {
    let heads = n.int_if("num_heads")?.ok_or("its attribute `num_heads` is missing")?;
    let (x, weight) = (n.input(0)?, n.input(1)?);
    let mut all = cx.matmul(&x, &weight)?;
    if let Some(bias) = n.opt(2)? {
        all = cx.add(&all, &bias)?;
    }
    if n.opt(3)?.is_some() || n.opt(4)?.is_some() {
        return Err("its mask or past is not supported; export the model without fused operators".to_string());
    }
    n.ignore(&["mask_filter_value"]);
    let sizes = n.ints("qkv_hidden_sizes")?;
    let (a, b) = match sizes.as_deref() {
        Some([q, k, _]) => (Dim::Int(*q), Dim::Int(q.saturating_add(*k))),
        _ => {
            let each = known::div(&all.dim(2)?, &Dim::Int(3));
            (each.clone(), known::mul(&each, &Dim::Int(2)))
        }
    };
    let whole = all.dim(2)?;
    let parts = [cx.range(&all, 2, 0, a.clone())?, cx.range(&all, 2, a, b.clone())?, cx.range(&all, 2, b, whole)?];
    let [q, k, v] =
        [split_heads(cx, &parts[0], heads)?, split_heads(cx, &parts[1], heads)?, split_heads(cx, &parts[2], heads)?];
    let mut bias = n.opt(5)?;
    if n.flag("unidirectional", false)? {
        let f = frontier(cx, &q.dim(2)?, &k.dim(2)?, None)?;
        let causal = bias_where(cx, &cx.bin("less_equal", &f.columns, &f.rows)?, q.dtype())?;
        bias = Some(if let Some(bias) = bias { cx.add(&bias, &causal)? } else { causal });
    }
    let scale = match n.float("scale", 0.0)? {
        0.0 => usual_scale(&q)?,
        scale => scale,
    };
    let parts = Parts { q: &q, k: &k, v: &v, bias: bias.as_ref(), scale, softcap: 0.0, precision: q.dtype() };
    let result = attend(cx, &parts)?.result;
    Ok(vec![joined_heads(cx, &result)?.into()])
}
