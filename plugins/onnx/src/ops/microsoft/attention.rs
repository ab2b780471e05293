//! Attention operators of Microsoft's domain.

use crate::cx::Cx;
use crate::known;
use crate::node::Node;
use crate::ops::attention::{
    Parts, Rotary, attend, bias_where, frontier, joined_bias, joined_heads, rotated, split_heads, usual_scale,
};
use crate::ops::{Row, all, conv, ms, one};
use crate::value::{Item, Res, T};
use plugin_api::prelude::*;

pub(super) const ROWS: &[Row] = &[
    ms(one("RotaryEmbedding", 1, rotary_embedding)),
    ms(all("GroupQueryAttention", 1, group_query)),
    ms(all("MultiHeadAttention", 1, multi_head)),
    ms(all("Attention", 1, projected)),
    ms(all("QAttention", 1, quantized)),
];

/// The value that the operators add to the score of a hidden key.
const HIDDEN: f64 = -10_000.0;

fn rotary_embedding<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<T> {
    let x = n.input(0)?;
    n.ignore(&["is_packed_batching"]);
    let heads = n.int("num_heads", 0)?;
    let (cos, sin) = (n.input(2)?, n.input(3)?);
    let options = Rotary { interleaved: n.flag("interleaved", false)?, width: n.int("rotary_embedding_dim", 0)? };
    if n.float("scale", 1.0)? != 1.0 {
        return Err("its attribute `scale` must be 1; other values are not supported".to_string());
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
}

/// Returns the positions of the elements of each sequence, counted from the offset of its sample.
fn offset_positions(cx: &Cx<'_>, offset: &T, x: &T) -> Res<T> {
    let flat = x.rank()? == 3;
    let (batch, length) = (x.dim(0)?, x.dim(if flat { 1 } else { 2 })?);
    let at = cx.add(&cx.arange(&length, DType::I64)?, &cx.cast(offset, DType::I64)?)?;
    cx.broadcast_to(&at, &[batch, length])
}

/// Returns the number of heads in an attribute.
fn heads_of(n: &Node<'_>, name: &'static str) -> Res<i64> {
    let given = n.int_if(name)?.filter(|heads| (1..conv::LARGEST).contains(heads));
    given.ok_or_else(|| format!("its attribute `{name}` must be a positive number of heads"))
}

/// Returns the factor of the scores. If the attribute is missing or 0, this is the default factor.
fn scale_of(n: &Node<'_>, q: &T) -> Res<f64> {
    match n.float("scale", 0.0)? {
        0.0 => usual_scale(q),
        scale => Ok(scale),
    }
}

/// Splits the last axis into three parts, which begin at 0, `a` and `b`.
fn thirds(cx: &Cx<'_>, x: &T, a: &Dim, b: &Dim) -> Res<[T; 3]> {
    let last = x.axis(-1)?;
    let end = x.dim(last)?;
    Ok([cx.range(x, last, 0, a.clone())?, cx.range(x, last, a.clone(), b.clone())?, cx.range(x, last, b.clone(), end)?])
}

/// Returns a dimension as a tensor of rank 0.
fn number(cx: &Cx<'_>, dim: &Dim) -> Res<T> {
    cx.reshape(&cx.of_dims(vec![dim.clone()])?, vec![])
}

/// Returns query, key and value, which may be packed in one input.
fn separate<'a>(cx: &Cx<'a>, n: &Node<'a>, heads: i64, kv_heads: i64) -> Res<[T; 3]> {
    let packed = n.input(0)?;
    if let (Some(k), Some(v)) = (n.opt(1)?, n.opt(2)?) {
        return Ok([packed, k, v]);
    }
    let size = known::div(&packed.dim(2)?, &Dim::Int(heads + 2 * kv_heads));
    thirds(cx, &packed, &known::mul(&size, &Dim::Int(heads)), &known::mul(&size, &Dim::Int(heads + kv_heads)))
}

/// The cache of keys and values, and the positions of the new keys and values in it.
struct Cache {
    /// For each sample and each new key, its position.
    places: T,
    /// Number of keys, including new ones, of the longest sample.
    total: Dim,
}

impl Cache {
    /// Returns the cache with the new keys or values, and its used part.
    fn with(&self, cx: &Cx<'_>, past: Option<T>, new: T) -> Res<(T, T)> {
        let Some(past) = past else { return Ok((new.clone(), new)) };
        let (dims, from) = (new.dims()?, past.dim(2)?);
        let to = known::max(&from, &self.total);
        let mut more = dims.clone();
        more[2] = known::sub(&to, &from);
        let wide = if more[2].as_int() == Some(0) {
            past
        } else {
            cx.concat(&[past, cx.filled(0.0, new.dtype(), &more)?], 2)?
        };
        let at = cx.unsqueeze(&cx.unsqueeze(&self.places, &[1])?, &[3])?;
        let at = cx.broadcast_to(&at, &dims)?;
        let attrs = [("axis", 2i64.into()), ("reduction", "update".into())];
        let whole = cx.call("relax.scatter_elements", &[&wide, &at, &new], &attrs)?;
        let used =
            if known::same(&to, &self.total) { whole.clone() } else { cx.range(&whole, 2, 0, self.total.clone())? };
        Ok((whole, used))
    }
}

/// Emits attention with a growing cache, in which each sample has its own length.
fn group_query<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<Vec<Item>> {
    let (heads, kv_heads) = (heads_of(n, "num_heads")?, heads_of(n, "kv_num_heads")?);
    check_cache(n)?;
    let [q, k, v] = separate(cx, n, heads, kv_heads)?;
    let (mut q, mut k, mut v) =
        (split_heads(cx, &q, heads)?, split_heads(cx, &k, kv_heads)?, split_heads(cx, &v, kv_heads)?);
    // Equal sizes may have different names in the model.
    let new = [q.dim(0)?, k.dim(1)?, q.dim(2)?, k.dim(3)?];
    let (k_dims, v_dims) = (new.to_vec(), [&new[..3], &[v.dim(3)?]].concat());
    (k, v) = (cx.fitted(&k, k_dims)?, cx.fitted(&v, v_dims)?);
    let past_k = n.opt(3)?.map(|past| as_past(cx, &past, &new, None)).transpose()?;
    let places = past_k.as_ref().map(|past| past.dim(2)).transpose()?;
    let past_v = n.opt(4)?.map(|past| as_past(cx, &past, &v.dims()?, places)).transpose()?;
    let cache = cache(cx, n, &q, past_k.is_some())?;
    if n.flag("do_rotary", false)? {
        let (cos, sin) = (n.input(7)?, n.input(8)?);
        let options = Rotary {
            interleaved: n.flag("rotary_interleaved", false)?,
            width: cos.dim(1)?.as_int().ok_or("the width of its rotary cache is not known")?.saturating_mul(2),
        };
        let positions = match n.opt(9)? {
            Some(positions) => cx.fitted(&positions, vec![q.dim(0)?, q.dim(2)?])?,
            None => cache.places.clone(),
        };
        q = rotated(cx, &q, (&cos, &sin), Some(positions.clone()), 0, &options)?;
        k = rotated(cx, &k, (&cos, &sin), Some(positions), 0, &options)?;
    } else {
        // Without rotation, the operator does not read these inputs.
        let _ = (n.opt(7)?, n.opt(8)?, n.opt(9)?);
    }
    let (present_k, keys) = cache.with(cx, past_k, k)?;
    let (present_v, values) = cache.with(cx, past_v, v)?;
    let dtype = q.dtype();
    let columns = cx.arange(&cache.total, DType::I64)?;
    let rows = cx.unsqueeze(&cx.unsqueeze(&cache.places, &[1])?, &[3])?;
    let mut visible = cx.bin("less_equal", &columns, &rows)?;
    let window = n.int("local_window_size", -1)?;
    if window >= 0 {
        let near = cx.bin("greater", &columns, &cx.add_s(&rows, -window as f64)?)?;
        visible = cx.bin("logical_and", &visible, &near)?;
    }
    let mut bias = bias_where(cx, &visible, dtype)?;
    if let Some(more) = n.opt(10)? {
        let wanted = [q.dim(0)?, q.dim(1)?, q.dim(2)?, cache.total.clone()];
        let each = more.dims_from(4)?.into_iter().zip(wanted);
        let dims = each.map(|(dim, wanted)| if dim.as_int() == Some(1) { dim } else { wanted });
        bias = cx.add(&bias, &cx.fitted(&more, dims.collect())?)?;
    }
    let precision = if dtype.bits() < 32 { DType::F32 } else { dtype };
    let smooth = n.int("smooth_softmax", -1)? > 0;
    let sink = match n.opt(11)? {
        Some(sink) => {
            Some(cx.cast(&cx.reshape(&sink, vec![Dim::Int(1), Dim::Int(heads), Dim::Int(1), Dim::Int(1)])?, precision)?)
        }
        None if smooth => Some(cx.scalar(0.0, precision)?),
        None => None,
    };
    let (scale, softcap) = (scale_of(n, &q)?, n.float("softcap", 0.0)?);
    let parts =
        Parts { q: &q, k: &keys, v: &values, bias: Some(&bias), sink: sink.as_ref(), scale, softcap, precision };
    let result = attend(cx, &parts)?.result;
    Ok(vec![joined_heads(cx, &result)?.into(), present_k.into(), present_v.into()])
}

/// Returns cached keys or values with the batch, the heads and the width of new ones, and with the given number of places.
fn as_past(cx: &Cx<'_>, past: &T, new: &[Dim], places: Option<Dim>) -> Res<T> {
    let places = match places {
        Some(places) => places,
        None => past.dim(2)?,
    };
    cx.fitted(past, vec![new[0].clone(), new[1].clone(), places, new[3].clone()])
}

/// Refuses unsupported forms of the cache.
fn check_cache(n: &Node<'_>) -> Res<()> {
    n.ignore(&["qk_norm_epsilon", "q_norm_epsilon", "k_norm_epsilon"]);
    for name in ["k_quant_type", "v_quant_type"] {
        if n.text(name, "NONE")? != "NONE" {
            return Err("quantized caches are not supported".to_string());
        }
    }
    for name in ["kv_cache_bit_width", "sliding_window_cache", "qk_output"] {
        if n.int(name, 0)? != 0 {
            return Err(format!("its attribute `{name}` must be 0; other values are not supported"));
        }
    }
    match n.flag("causal", true)? {
        true => Ok(()),
        false => Err("non-causal attention (`causal` is 0) is not supported".to_string()),
    }
}

fn cache<'a>(cx: &mut Cx<'a>, n: &Node<'a>, q: &T, has_past: bool) -> Res<Cache> {
    let (batch, length) = (q.dim(0)?, q.dim(2)?);
    // The input is the number of keys of each sample minus one. The new keys are the last ones.
    let lengths = cx.reshape(&cx.cast(&n.input(5)?, DType::I64)?, vec![batch])?;
    let total = n.opt(6)?;
    let total = match total.filter(|_| has_past) {
        Some(total) => cx.dims_of(&total, "total")?.remove(0),
        None => length.clone(),
    };
    let before = cx.sub(&cx.add_s(&lengths, 1.0)?, &number(cx, &length)?)?;
    let start = cx.max_s(&before, 0.0)?;
    let steps = cx.unsqueeze(&cx.arange(&length, DType::I64)?, &[0])?;
    Ok(Cache { places: cx.add(&cx.unsqueeze(&start, &[1])?, &steps)?, total })
}

/// Returns part `at` of a tensor (batch, sequence, heads, parts, size) as (batch, heads, sequence, size).
fn unpacked(cx: &Cx<'_>, x: &T, at: i64) -> Res<T> {
    cx.transpose(&cx.pick(x, 3, at)?, &[0, 2, 1, 3])
}

fn multi_head<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<Vec<Item>> {
    let heads = heads_of(n, "num_heads")?;
    let (q, k, v) = (n.input(0)?, n.opt(1)?, n.opt(2)?);
    let bias = n.opt(3)?;
    let (q, mut k, mut v) = match (k, v) {
        (Some(k), Some(v)) => apart(cx, heads, [q, k, v], bias)?,
        (k, None) if bias.is_none() => {
            let whole = if let Some(k) = &k { k } else { &q };
            if whole.rank()? != 5 {
                return Err("this packing of its keys and values is not supported".to_string());
            }
            let first = i64::from(k.is_none());
            let (keys, values) = (unpacked(cx, whole, first)?, unpacked(cx, whole, first + 1)?);
            (if k.is_some() { split_heads(cx, &q, heads)? } else { unpacked(cx, &q, 0)? }, keys, values)
        }
        _ => return Err("packed keys with a bias are not supported".to_string()),
    };
    let (mask, more) = (n.opt(4)?, n.opt(5)?);
    let mut past = Dim::Int(0);
    if let (Some(past_k), Some(past_v)) = (n.opt(6)?, n.opt(7)?) {
        past = past_k.dim(2)?;
        k = cx.concat(&[past_k, k], 2)?;
        v = cx.concat(&[past_v, v], 2)?;
    }
    let scale = scale_of(n, &q)?;
    let result = masked(cx, n, [&q, &k, &v], (mask, more), &past, scale)?;
    Ok(vec![joined_heads(cx, &result)?.into(), k.into(), v.into()])
}

/// Adds a bias to query, key and value, and splits their heads.
fn apart(cx: &Cx<'_>, heads: i64, [mut q, mut k, mut v]: [T; 3], bias: Option<T>) -> Res<(T, T, T)> {
    if let Some(bias) = bias {
        if k.rank()? != 3 {
            return Err("a bias is not supported for keys that are already split into heads".to_string());
        }
        let (a, b) = (q.dim(2)?, known::add(&q.dim(2)?, &k.dim(2)?));
        let [of_q, of_k, of_v] = thirds(cx, &bias, &a, &b)?;
        (q, k, v) = (cx.add(&q, &of_q)?, cx.add(&k, &of_k)?, cx.add(&v, &of_v)?);
    }
    let split = |x: T| if x.rank() == Ok(4) { Ok(x) } else { split_heads(cx, &x, heads) };
    Ok((split_heads(cx, &q, heads)?, split(k)?, split(v)?))
}

/// Computes attention with the masks of the older operators, which add a value to the scores of hidden keys.
fn masked<'a>(
    cx: &Cx<'a>,
    n: &Node<'a>,
    [q, k, v]: [&T; 3],
    (mask, mut bias): (Option<T>, Option<T>),
    past: &Dim,
    scale: f64,
) -> Res<T> {
    let hidden = n.float("mask_filter_value", HIDDEN)?;
    let dtype = q.dtype();
    if let Some(mask) = mask {
        let visible = visible(cx, &mask, &q.dim(0)?, &k.dim(2)?)?;
        let of_mask = cx.select(&visible, &cx.scalar(0.0, dtype)?, &cx.scalar(hidden, dtype)?)?;
        bias = Some(joined_bias(cx, bias, of_mask)?);
    }
    // As in onnxruntime, a single query sees all keys.
    let (n_queries, n_keys) = (q.dim(2)?, k.dim(2)?);
    if n.flag("unidirectional", false)? && n_queries.as_int() != Some(1) {
        let f = frontier(cx, &n_queries, &n_keys, Some(number(cx, past)?))?;
        let mut sees = cx.bin("less_equal", &f.columns, &f.rows)?;
        if n_queries.as_int().is_none() && !known::same(&n_keys, &known::add(past, &n_queries)) {
            let is_single = cx.bin("equal", &number(cx, &n_queries)?, &cx.scalar(1.0, DType::I64)?)?;
            sees = cx.bin("logical_or", &sees, &is_single)?;
        }
        bias = Some(joined_bias(cx, bias, bias_where(cx, &sees, dtype)?)?);
    }
    let parts = Parts { q, k, v, bias: bias.as_ref(), sink: None, scale, softcap: 0.0, precision: dtype };
    Ok(attend(cx, &parts)?.result)
}

/// Returns the positions at which a mask lets queries see keys. A mask has one of these forms: the number of keys of
/// each sample, their ends and starts, a flag per key, or a flag per query and key.
fn visible(cx: &Cx<'_>, mask: &T, batch: &Dim, n_keys: &Dim) -> Res<T> {
    let shown = |mask: &T| cx.bin("not_equal", mask, &cx.scalar(0.0, mask.dtype())?);
    let dims = mask.dims()?;
    match dims.as_slice() {
        [_, _] => cx.unsqueeze(&shown(mask)?, &[1, 2]),
        [_, _, _] => cx.unsqueeze(&shown(mask)?, &[1]),
        [all] => {
            let columns = cx.arange(n_keys, DType::I64)?;
            let mask = cx.cast(mask, DType::I64)?;
            let column = |x: T| cx.reshape(&x, vec![batch.clone(), Dim::Int(1), Dim::Int(1), Dim::Int(1)]);
            let twice = known::mul(batch, &Dim::Int(2));
            if !known::same(all, &twice) || known::same(all, batch) {
                let more = known::add(&known::mul(batch, &Dim::Int(3)), &Dim::Int(2));
                if known::same(all, &more) {
                    return Err("masks with the positions of packed sequences are not supported".to_string());
                }
                let lengths = cx.as_shape(&mask, vec![batch.clone()])?;
                return cx.bin("less", &columns, &column(lengths)?);
            }
            let ends = column(cx.range(&mask, 0, 0, batch.clone())?)?;
            let starts = column(cx.range(&mask, 0, batch.clone(), twice)?)?;
            let (before, after) = (cx.bin("less", &columns, &ends)?, cx.bin("greater_equal", &columns, &starts)?);
            cx.bin("logical_and", &before, &after)
        }
        dims => Err(format!("masks of {} dimensions are not supported", dims.len())),
    }
}

/// Emits attention for an operator that includes the projection.
fn projected<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<Vec<Item>> {
    let mut all = cx.matmul(&n.input(0)?, &n.input(1)?)?;
    if let Some(bias) = n.opt(2)? {
        all = cx.add(&all, &bias)?;
    }
    let (mask, past, more) = (n.opt(3)?, n.opt(4)?, n.opt(5)?);
    of_projection(cx, n, &all, mask, past, more)
}

/// Emits attention for an operator that includes the projection and has quantized operands.
fn quantized<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<Vec<Item>> {
    let (x, w) = (n.input(0)?, n.input(1)?);
    let (zero_x, zero_w) = (n.opt(6)?, n.opt(7)?);
    let product = cx.matmul(&conv::centered(cx, &x, zero_x, 0)?, &conv::centered(cx, &w, zero_w, 1)?)?;
    let one = |scale: T| {
        if scale.dim(0).ok().and_then(|dim| dim.as_int()) == Some(1) { cx.reshape(&scale, vec![]) } else { Ok(scale) }
    };
    let scale = cx.mul(&one(n.input(3)?)?, &one(n.input(4)?)?)?;
    let all = cx.add(&cx.mul(&cx.cast(&product, DType::F32)?, &scale)?, &n.input(2)?)?;
    let (mask, past) = (n.opt(5)?, n.opt(8)?);
    of_projection(cx, n, &all, mask, past, None)
}

/// Computes attention from a tensor whose last axis contains queries, keys and values, one after the other.
fn of_projection<'a>(
    cx: &mut Cx<'a>,
    n: &Node<'a>,
    all: &T,
    mask: Option<T>,
    past: Option<T>,
    bias: Option<T>,
) -> Res<Vec<Item>> {
    let heads = heads_of(n, "num_heads")?;
    for name in ["do_rotary", "past_present_share_buffer"] {
        if n.int(name, 0)? != 0 {
            return Err(format!("its attribute `{name}` must be 0; other values are not supported"));
        }
    }
    n.ignore(&["rotary_embedding_dim"]);
    let (a, b) = match n.ints("qkv_hidden_sizes")?.as_deref() {
        Some([q, k, _]) => (Dim::Int(*q), Dim::Int(q.saturating_add(*k))),
        _ => {
            let each = known::div(&all.dim(2)?, &Dim::Int(3));
            (each.clone(), known::mul(&each, &Dim::Int(2)))
        }
    };
    let [q, k, v] = thirds(cx, all, &a, &b)?;
    let [q, mut k, mut v] = [split_heads(cx, &q, heads)?, split_heads(cx, &k, heads)?, split_heads(cx, &v, heads)?];
    let mut before = Dim::Int(0);
    if let Some(past) = past {
        before = past.dim(3)?;
        k = cx.concat(&[cx.pick(&past, 0, 0)?, k], 2)?;
        v = cx.concat(&[cx.pick(&past, 0, 1)?, v], 2)?;
    }
    let result = masked(cx, n, [&q, &k, &v], (mask, bias), &before, scale_of(n, &q)?)?;
    let mut results = vec![joined_heads(cx, &result)?.into()];
    if n.wants(1) {
        results.push(crate::ops::control::stacked(cx, &[k, v], 0)?.into());
    }
    Ok(results)
}
