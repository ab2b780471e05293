//! Operators that read or write elements at indices, or search for elements.

use super::{Row, all, one};
use crate::cx::Cx;
use crate::known::Known;
use crate::node::Node;
use crate::value::{Item, Res, T};
pub(super) use importer::index::counted;
use plugin_api::prelude::*;

pub(super) const ROWS: &[Row] = &[
    one("Gather", 7, |cx, n| {
        let (x, indices) = (n.input(0)?, n.input(1)?);
        let axis = x.axis(n.int("axis", 0)?)?;
        let indices = counted(cx, &indices, &x.dim(axis)?)?;
        cx.call("relax.take", &[&x, &indices], &[("axis", (axis as i64).into())])
    })
    .moving(),
    one("GatherElements", 11, |cx, n| {
        let (x, indices) = (n.input(0)?, n.input(1)?);
        let axis = x.axis(n.int("axis", 0)?)?;
        let indices = counted(cx, &indices, &x.dim(axis)?)?;
        cx.call("relax.gather_elements", &[&x, &indices], &[("axis", (axis as i64).into())])
    }),
    one("GatherND", 11, gather_nd),
    one("Scatter", 7, scatter_elements),
    one("ScatterElements", 11, scatter_elements),
    one("ScatterND", 11, |cx, n| {
        let (x, indices, updates) = (n.input(0)?, n.input(1)?, n.input(2)?);
        let indices = counted_all(cx, &indices, &x.dims()?, 0)?;
        cx.call("relax.scatter_nd", &[&x, &indices, &updates], &[("reduction", reduction(n)?.into())])
    }),
    one("OneHot", 9, one_hot),
    all("TopK", 7, top_k),
    one("ArgMax", 7, |cx, n| extreme_at(cx, n, "argmax")),
    one("ArgMin", 7, |cx, n| extreme_at(cx, n, "argmin")),
    one("NonZero", 9, |cx, n| {
        let x = n.input(0)?;
        // A scalar counts as one element.
        let x = if x.rank() == Ok(0) { cx.reshape(&x, vec![Dim::Int(1)])? } else { x };
        let found = cx.un("nonzero", &x)?;
        let shape = vec![Dim::Int(x.rank()? as i64), cx.fresh("found")];
        cx.shaped(&found, shape)
    }),
    one("Compress", 9, compress),
    all("Unique", 11, unique),
    one("CumSum", 11, |cx, n| cumulated(cx, n, "cumsum")),
    one("CumProd", 26, |cx, n| cumulated(cx, n, "cumprod")),
    one("TensorScatter", 24, tensor_scatter),
];

pub(super) fn gather_nd<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<T> {
    let (x, indices) = (n.input(0)?, n.input(1)?);
    let batch = n.int("batch_dims", 0)?;
    if !(0..=x.rank()? as i64).contains(&batch) {
        return Err(format!("its attribute `batch_dims` is {batch}; it must not exceed the number of dimensions"));
    }
    let indices = counted_all(cx, &indices, &x.dims()?, batch as usize)?;
    cx.call("relax.gather_nd", &[&x, &indices], &[("batch_dims", batch.into())])
}

/// Converts negative indices in tuples along the last axis to nonnegative indices. Each index of a tuple refers to its
/// own axis.
fn counted_all(cx: &Cx<'_>, indices: &T, dims: &[Dim], skip: usize) -> Res<T> {
    if indices.ints().is_some_and(|all| all.iter().all(|at| *at >= 0)) {
        return Ok(indices.clone());
    }
    let depth =
        indices.dim(indices.rank()?.saturating_sub(1))?.as_int().ok_or("the length of its indices is not known")?;
    let sizes = dims
        .get(skip..skip + depth as usize)
        .ok_or("its index tuples have more elements than the tensor has dimensions")?;
    let wide = cx.cast(indices, DType::I64)?;
    let below = cx.bin("less", &wide, &cx.scalar(0.0, DType::I64)?)?;
    let moved = cx.add(&wide, &cx.of_dims(sizes.to_vec())?)?;
    cx.select(&below, &moved, &wide)
}

fn reduction(n: &Node<'_>) -> Res<&'static str> {
    Ok(match n.text("reduction", "none")? {
        "none" => "update",
        "add" => "add",
        "mul" => "mul",
        "min" => "min",
        "max" => "max",
        other => return Err(format!("its attribute `reduction` is `{other}`; it must be none, add, mul, min or max")),
    })
}

fn scatter_elements<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<T> {
    let (x, indices, updates) = (n.input(0)?, n.input(1)?, n.input(2)?);
    let axis = x.axis(n.int("axis", 0)?)?;
    let indices = counted(cx, &indices, &x.dim(axis)?)?;
    let attrs = [("axis", (axis as i64).into()), ("reduction", reduction(n)?.into())];
    cx.call("relax.scatter_elements", &[&x, &indices, &updates], &attrs)
}

/// Returns the "on" value where the position along a new axis equals the index, and the "off" value elsewhere.
fn one_hot<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<T> {
    let (indices, depth, values) = (n.input(0)?, n.input(1)?, n.input(2)?);
    let depth = match depth.floats() {
        Some(depth) => Dim::Int(depth.first().copied().ok_or("its depth is empty")? as i64),
        None => {
            let depth = cx.cast(&cx.reshape(&depth, vec![Dim::Int(1)])?, DType::I64)?;
            cx.dims_of(&depth, "depth")?.remove(0)
        }
    };
    let rank = indices.rank()? + 1;
    let axis = crate::value::axis_of(n.int("axis", -1)?, rank)?;
    let at = cx.cast(&indices, DType::I64)?;
    let at = counted(cx, &at, &depth)?;
    let at = cx.unsqueeze(&at, &[axis])?;
    let mut shape = vec![Dim::Int(1); rank];
    shape[axis] = depth.clone();
    let along = cx.reshape(&cx.arange(&depth, DType::I64)?, shape)?;
    let hit = cx.bin("equal", &at, &along)?;
    let (off, on) = (cx.pick(&values, 0, 0)?, cx.pick(&values, 0, 1)?);
    cx.select(&hit, &on, &off)
}

/// The number of elements of `relax.topk` that stands for all.
const ALL: i64 = -1;

fn top_k<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<Vec<Item>> {
    let x = n.input(0)?;
    let k = if n.version < 10 {
        Dim::Int(n.int_if("k")?.ok_or("its attribute `k` is missing")?)
    } else {
        let k = n.input(1)?.known().and_then(Known::dims).ok_or_else(|| n.must_be_known(1))?;
        k.into_iter().next().ok_or("its input `k` is empty")?
    };
    let axis = x.axis(n.int("axis", -1)?)?;
    n.ignore(&["sorted"]);
    let largest = n.flag("largest", true)?;
    if let Some(k) = k.as_int().filter(|k| *k < 1) {
        let mut none = x.dims()?;
        none[axis] = Dim::Int(0);
        let of = |dtype: DType| -> Res<Item> { Ok(cx.filled(0.0, dtype, &none)?.into()) };
        return if k == 0 {
            Ok(vec![of(x.dtype())?, of(DType::I64)?])
        } else {
            Err(format!("its `k` is {k}; it must not be negative"))
        };
    }
    let attrs = [
        ("k", k.as_int().unwrap_or(ALL).into()),
        ("axis", (axis as i64).into()),
        ("ret_type", "both".into()),
        ("largest", largest.into()),
        ("dtype", DType::I64.into()),
    ];
    let both = cx.call_v("relax.topk", &[cx.v(&x)?], &attrs)?;
    let both = cx.parts(both, 2)?;
    if k.as_int().is_some() || crate::known::same(&k, &x.dim(axis)?) {
        return Ok(both.into_iter().map(Item::from).collect());
    }
    // The attribute of the operator is a number. For a symbolic `k`, the operator sorts all elements, and the first `k`
    // are taken.
    both.iter().map(|part| Ok(cx.range(part, axis, 0, k.clone())?.into())).collect()
}

fn extreme_at<'a>(cx: &mut Cx<'a>, n: &Node<'a>, op: &str) -> Res<T> {
    let x = n.input(0)?;
    let axis = x.axis(n.int("axis", 0)?)?;
    let keep = n.flag("keepdims", true)?;
    let attrs = [("axis", (axis as i64).into()), ("keepdims", keep.into())];
    let op = format!("relax.{op}");
    if !n.flag("select_last_index", false)? {
        return cx.call(&op, &[&x], &attrs);
    }
    let flipped = cx.call("relax.flip", &[&x], &[("axis", (axis as i64).into())])?;
    let at = cx.call(&op, &[&flipped], &attrs)?;
    let last = crate::known::sub(&x.dim(axis)?, &Dim::Int(1));
    let last = cx.reshape(&cx.of_dims(vec![last])?, vec![])?;
    cx.sub(&last, &at)
}

/// Keeps the slices where a condition holds. If the condition is shorter than the axis, the rest is dropped.
fn compress<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<T> {
    let (x, holds) = (n.input(0)?, n.input(1)?);
    let (x, axis) = match n.int_if("axis")? {
        Some(axis) => (x.clone(), x.axis(axis)?),
        None => (cx.reshape(&x, vec![plugin_api::arith::product(&x.dims()?)])?, 0),
    };
    let at = cx.un("nonzero", &holds)?;
    let at = cx.named_dims(at, "kept")?;
    let at = cx.squeeze(&at, &[0])?;
    cx.call("relax.take", &[&x, &at], &[("axis", (axis as i64).into())])
}

fn unique<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<Vec<Item>> {
    let x = n.input(0)?;
    let axis = n.int_if("axis")?.map(|axis| x.axis(axis)).transpose()?;
    let all = if n.flag("sorted", true)? { unique_sorted(cx, &x, axis)? } else { unique_in_order(cx, &x, axis)? };
    Ok(all.into_iter().map(Item::from).collect())
}

/// Returns the distinct elements, or distinct slices along an axis, in sorted order; the position of the first
/// occurrence of each; for each element, its position among the distinct elements; and the number of occurrences of
/// each.
fn unique_sorted(cx: &mut Cx<'_>, x: &T, axis: Option<usize>) -> Res<[T; 4]> {
    let flag = |value: bool| cx.b.prim_value(Dim::int(i64::from(value), DType::BOOL));
    let mut args = vec![cx.v(x)?, flag(true), flag(true), flag(true), flag(true)];
    if let Some(axis) = axis {
        args.push(cx.b.prim_value(Dim::Int(axis as i64)));
    }
    let all = cx.call_v("relax.unique", &args, &[])?;
    let mut results = Vec::new();
    for part in cx.parts(all, 4)? {
        let named = cx.named_dims(part, "unique")?;
        results.push(cx.cast(&named, if results.is_empty() { x.dtype() } else { DType::I64 })?);
    }
    results.try_into().map_err(|_| "it must have four results".to_string())
}

/// Returns the results of [`unique_sorted`] in the order of the first occurrences.
pub(super) fn unique_in_order(cx: &mut Cx<'_>, x: &T, axis: Option<usize>) -> Res<[T; 4]> {
    let [values, first, back, counts] = unique_sorted(cx, x, axis)?;
    let sorted = |x: &T| -> Res<T> {
        let attrs = [("axis", (-1i64).into()), ("descending", false.into()), ("dtype", DType::I64.into())];
        cx.call("relax.argsort", &[x], &attrs)
    };
    let order = sorted(&first)?;
    let rank = sorted(&order)?;
    let take = |x: &T, at: &T, axis: usize| cx.call("relax.take", &[x, at], &[("axis", (axis as i64).into())]);
    Ok([
        take(&values, &order, axis.unwrap_or(0))?,
        take(&first, &order, 0)?,
        take(&rank, &back, 0)?,
        take(&counts, &order, 0)?,
    ])
}

fn cumulated<'a>(cx: &mut Cx<'a>, n: &Node<'a>, op: &str) -> Res<T> {
    let x = n.input(0)?;
    let axis = *n.known_ints(1)?.unwrap_or_default().first().ok_or("its axis is missing")?;
    let axis = x.axis(axis)? as i64;
    let (exclusive, reverse) = (n.flag("exclusive", false)?, n.flag("reverse", false)?);
    let flip = |x: &T| cx.call("relax.flip", &[x], &[("axis", axis.into())]);
    let x = if reverse { flip(&x)? } else { x };
    let attrs = [("axis", axis.into()), ("dtype", x.dtype().into()), ("exclusive", exclusive.into())];
    let all = cx.call(&format!("relax.{op}"), &[&x], &attrs)?;
    if reverse { flip(&all) } else { Ok(all) }
}

/// Writes an update into a cache. Each sample has its own start index.
fn tensor_scatter<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<T> {
    let (past, update) = (n.input(0)?, n.input(1)?);
    let axis = past.axis(n.int("axis", -2)?)?;
    let circular = match n.text("mode", "linear")? {
        "linear" => false,
        "circular" => true,
        other => return Err(format!("its mode is `{other}`; it must be `linear` or `circular`")),
    };
    let dims = update.dims()?;
    let along = |at: usize| -> Res<T> {
        let mut shape = vec![Dim::Int(1); dims.len()];
        shape[at] = dims[at].clone();
        cx.reshape(&cx.arange(&dims[at], DType::I64)?, shape)
    };
    let mut at = along(axis)?;
    if let Some(start) = n.opt(2)? {
        let mut shape = vec![Dim::Int(1); dims.len()];
        shape[0] = dims[0].clone();
        let start = cx.reshape(&cx.cast(&start, DType::I64)?, shape)?;
        at = cx.add(&at, &start)?;
    }
    if circular {
        let size = cx.reshape(&cx.of_dims(vec![past.dim(axis)?])?, vec![])?;
        at = cx.bin("floor_mod", &at, &size)?;
    }
    let at = cx.broadcast_to(&at, &dims)?;
    cx.call(
        "relax.scatter_elements",
        &[&past, &at, &update],
        &[("axis", (axis as i64).into()), ("reduction", "update".into())],
    )
}
