//! Operators that change shapes, move elements, and join or split tensors.

use super::elementwise::typed;
use super::{Row, all, one};
use crate::graph::Cx;
use crate::node::Node;
use crate::promote::{self, Operand};
use importer::known::{self, add, div, mul, sub};
use importer::pad::padded;
use importer::tensor::{Res, T, axis_of};
use plugin_api::arith::product;
use plugin_api::prelude::*;

pub(super) const ROWS: &[Row] = &[
    one("aten.view.default", |cx, n| reshape(cx, n, "size")),
    one("aten._unsafe_view.default", |cx, n| reshape(cx, n, "size")),
    one("aten.reshape.default", |cx, n| reshape(cx, n, "shape")),
    one("aten.reshape_as.default", |cx, n| cx.reshape(&n.x()?, n.t("other")?.dims()?)),
    one("aten.view_as.default", |cx, n| cx.reshape(&n.x()?, n.t("other")?.dims()?)),
    one("aten.flatten.using_ints", flatten),
    one("aten.unflatten.int", |cx, n| {
        let x = n.x()?;
        let axis = x.axis(n.int("dim", 0)?)?;
        let mut dims = x.dims()?;
        let parts = open(n.dims("sizes")?, &dims[axis])?;
        dims.splice(axis..=axis, parts);
        cx.reshape(&x, dims)
    }),
    one("aten.squeeze.default", squeeze),
    one("aten.squeeze.dim", squeeze),
    one("aten.squeeze.dims", squeeze),
    one("aten.unsqueeze.default", |cx, n| {
        let x = n.x()?;
        let axis = axis_of(n.int("dim", 0)?, x.rank()? + 1)?;
        cx.unsqueeze(&x, &[axis])
    }),
    one("aten.permute.default", |cx, n| {
        let x = n.x()?;
        let axes: Vec<usize> = n.ints("dims")?.iter().map(|axis| x.axis(*axis)).collect::<Res<_>>()?;
        cx.transpose(&x, &axes)
    }),
    one("aten.transpose.int", |cx, n| exchanged(cx, n, "dim0", "dim1")),
    one("aten.swapaxes.default", |cx, n| exchanged(cx, n, "axis0", "axis1")),
    one("aten.swapdims.default", |cx, n| exchanged(cx, n, "dim0", "dim1")),
    one("aten.t.default", |cx, n| {
        let x = n.x()?;
        if x.rank()? < 2 { Ok(x) } else { cx.swapped(&x) }
    }),
    one("aten.mT.default", |cx, n| cx.swapped(&n.x()?)),
    one("aten.numpy_T.default", |cx, n| {
        let x = n.x()?;
        cx.transpose(&x, &(0..x.rank()?).rev().collect::<Vec<usize>>())
    }),
    one("aten.movedim.int", moved),
    one("aten.movedim.intlist", moved),
    one("aten.expand.default", expand),
    one("aten.broadcast_to.default", expand),
    one("aten.expand_as.default", |cx, n| cx.broadcast_to(&n.x()?, &n.t("other")?.dims()?)),
    one("aten.repeat.default", |cx, n| tile(cx, n, "repeats")),
    one("aten.tile.default", |cx, n| tile(cx, n, "dims")),
    one("aten.repeat_interleave.self_int", |cx, n| {
        n.ignore(&["output_size"]);
        let (x, by) = (n.x()?, n.int("repeats", 1)?);
        let (x, axis) = match n.int_if("dim")? {
            Some(axis) => (x.clone(), x.axis(axis)?),
            None => (cx.reshape(&x, vec![product(&x.dims()?)])?, 0),
        };
        cx.call("relax.repeat", &[&x], &[("repeats", by.into()), ("axis", (axis as i64).into())])
    }),
    one("aten.cat.default", cat),
    one("aten.concat.default", cat),
    one("aten.stack.default", |cx, n| {
        let parts = common(cx, n.tensors("tensors")?)?;
        let first = parts.first().ok_or("it joins no tensors")?;
        let axis = axis_of(n.int("dim", 0)?, first.rank()? + 1)?;
        let parts: Vec<T> = parts.iter().map(|part| cx.unsqueeze(part, &[axis])).collect::<Res<_>>()?;
        cx.concat(&parts, axis)
    }),
    all("aten.split.Tensor", split),
    all("aten.split.sizes", |cx, n| split_into(cx, n, "split_size")),
    all("aten.split_with_sizes.default", |cx, n| split_into(cx, n, "split_sizes")),
    all("aten.chunk.default", chunk),
    all("aten.tensor_split.sections", |cx, n| {
        let (x, count) = (n.x()?, n.int("sections", 1)?);
        let axis = x.axis(n.int("dim", 0)?)?;
        let size = x.dim(axis)?.as_int().ok_or("the size of its axis must be known")?;
        if !(1..=1 << 16).contains(&count) {
            return Err(format!("its number of sections is {count}"));
        }
        ranges(
            cx,
            &x,
            axis,
            &(0..count).map(|at| Dim::Int(size / count + i64::from(at < size % count))).collect::<Vec<Dim>>(),
        )
    }),
    all("aten.unbind.int", |cx, n| {
        let x = n.x()?;
        let axis = x.axis(n.int("dim", 0)?)?;
        let size = x.dim(axis)?.as_int().filter(|size| *size <= 1 << 16).ok_or("the size of its axis must be known")?;
        (0..size).map(|at| cx.pick(&x, axis, at)).collect()
    }),
    one("aten.select.int", |cx, n| {
        let x = n.x()?;
        let axis = x.axis(n.int("dim", 0)?)?;
        let at = n.dim_if("index")?.ok_or("its argument `index` is missing")?;
        let at = if at.as_int().is_some_and(|at| at < 0) { add(&at, &x.dim(axis)?) } else { at };
        if let (Some(index), Some(size)) = (at.as_int(), x.dim(axis)?.as_int())
            && !(0..size).contains(&index)
        {
            return Err(format!("its index {index} is outside of an axis of {size} elements"));
        }
        let part = cx.range(&x, axis, at.clone(), add(&at, &Dim::Int(1)))?;
        cx.squeeze(&part, &[axis])
    }),
    one("aten.slice.Tensor", |cx, n| {
        let x = n.x()?;
        let axis = x.axis(n.int("dim", 0)?)?;
        let (begin, end, step) = bounds(n, &x.dim(axis)?)?;
        cx.slice(&x, &[axis], &[begin], &[end], &[step])
    }),
    one("aten.narrow.default", |cx, n| {
        let x = n.x()?;
        let axis = x.axis(n.int("dim", 0)?)?;
        let (start, length) = (n.dims("start")?.remove(0), n.dims("length")?.remove(0));
        let start = if start.as_int().is_some_and(|start| start < 0) { add(&start, &x.dim(axis)?) } else { start };
        cx.range(&x, axis, start.clone(), add(&start, &length))
    }),
    one("aten.slice_scatter.default", |cx, n| {
        let (x, src) = (n.x()?, n.t("src")?);
        let axis = x.axis(n.int("dim", 0)?)?;
        let (begin, end, step) = bounds(n, &x.dim(axis)?)?;
        let prims = [begin, end, Dim::Int(step)].map(|dim| cx.b.prim_value(dim));
        let args = [cx.v(&x)?, cx.v(&src)?, prims[0], prims[1], prims[2]];
        T::of_v(cx, cx.call_v("relax.slice_scatter", &args, &[("axis", (axis as i64).into())])?)
    }),
    one("aten.select_scatter.default", |cx, n| {
        let (x, src) = (n.x()?, n.t("src")?);
        let axis = x.axis(n.int("dim", 0)?)?;
        let size = x.dim(axis)?;
        let at = n.int("index", 0)?;
        let at = if at < 0 { add(&Dim::Int(at), &size) } else { Dim::Int(at) };
        let part = cx.unsqueeze(&src, &[axis])?;
        let (before, after) = (cx.range(&x, axis, 0, at.clone())?, cx.range(&x, axis, add(&at, &Dim::Int(1)), size)?);
        cx.concat(&[before, part, after], axis)
    }),
    one("aten.flip.default", |cx, n| {
        let x = n.x()?;
        n.ints("dims")?.iter().try_fold(x, |x, axis| {
            let axis = x.axis(*axis)? as i64;
            cx.call("relax.flip", &[&x], &[("axis", axis.into())])
        })
    }),
    one("aten.roll.default", roll),
    one("aten.pixel_shuffle.default", |cx, n| {
        let by = n.int("upscale_factor", 1)?;
        let x = n.x()?;
        let (dims, rank) = (x.dims_from(3)?, x.rank()?);
        let (b, [c, h, w]) = (&dims[..rank - 3], [&dims[rank - 3], &dims[rank - 2], &dims[rank - 1]]);
        let by_dim = Dim::Int(positive(by)?);
        let c = div(c, &mul(&by_dim, &by_dim));
        let mut apart = b.to_vec();
        apart.extend([c.clone(), by_dim.clone(), by_dim.clone(), h.clone(), w.clone()]);
        let k = b.len();
        let axes: Vec<usize> = (0..k).chain([k, k + 3, k + 1, k + 4, k + 2]).collect();
        let mut whole = b.to_vec();
        whole.extend([c, mul(h, &by_dim), mul(w, &by_dim)]);
        cx.reshape(&cx.transpose(&cx.reshape(&x, apart)?, &axes)?, whole)
    }),
    one("aten.pixel_unshuffle.default", |cx, n| {
        let by = n.int("downscale_factor", 1)?;
        let x = n.x()?;
        let (dims, rank) = (x.dims_from(3)?, x.rank()?);
        let (b, [c, h, w]) = (&dims[..rank - 3], [&dims[rank - 3], &dims[rank - 2], &dims[rank - 1]]);
        let by_dim = Dim::Int(positive(by)?);
        let (h, w) = (div(h, &by_dim), div(w, &by_dim));
        let mut apart = b.to_vec();
        apart.extend([c.clone(), h.clone(), by_dim.clone(), w.clone(), by_dim.clone()]);
        let k = b.len();
        let axes: Vec<usize> = (0..k).chain([k, k + 2, k + 4, k + 1, k + 3]).collect();
        let mut whole = b.to_vec();
        whole.extend([mul(c, &mul(&by_dim, &by_dim)), h, w]);
        cx.reshape(&cx.transpose(&cx.reshape(&x, apart)?, &axes)?, whole)
    }),
    one("aten.channel_shuffle.default", |cx, n| {
        let (x, groups) = (n.x()?, Dim::Int(positive(n.int("groups", 1)?)?));
        let dims = x.dims_from(2)?;
        let mut apart = dims.clone();
        apart.splice(1..2, [groups.clone(), div(&dims[1], &groups)]);
        let mut axes: Vec<usize> = (0..apart.len()).collect();
        axes.swap(1, 2);
        cx.reshape(&cx.transpose(&cx.reshape(&x, apart)?, &axes)?, dims)
    }),
    one("aten.pad.default", |cx, n| {
        let mode = n.text_if("mode")?.unwrap_or("constant");
        pad(cx, n, "pad", mode)
    }),
    one("aten.constant_pad_nd.default", |cx, n| pad(cx, n, "pad", "constant")),
    one("aten.reflection_pad1d.default", |cx, n| pad(cx, n, "padding", "reflect")),
    one("aten.reflection_pad2d.default", |cx, n| pad(cx, n, "padding", "reflect")),
    one("aten.reflection_pad3d.default", |cx, n| pad(cx, n, "padding", "reflect")),
    one("aten.replication_pad1d.default", |cx, n| pad(cx, n, "padding", "replicate")),
    one("aten.replication_pad2d.default", |cx, n| pad(cx, n, "padding", "replicate")),
    one("aten.replication_pad3d.default", |cx, n| pad(cx, n, "padding", "replicate")),
    one("aten.as_strided.default", |cx, n| {
        let (x, size, strides) = (n.x()?, n.dims("size")?, n.ints("stride")?);
        let is_contiguous = strides.iter().enumerate().all(|(at, stride)| {
            size.get(at).and_then(Dim::as_int) == Some(1)
                || product(&size[(at + 1).min(size.len())..]).as_int() == Some(*stride)
        });
        let is_whole = known::same(&product(&size), &product(&x.dims()?)) && size.len() == strides.len();
        match is_contiguous && is_whole && n.int("storage_offset", 0)? == 0 {
            true => cx.reshape(&x, size),
            false => Err("only sizes and strides that amount to a reshape are supported".to_string()),
        }
    }),
    one("aten.diagonal.default", diagonal),
    all("aten.meshgrid.default", meshgrid),
    all("aten.meshgrid.indexing", meshgrid),
];

fn positive(value: i64) -> Res<i64> {
    if value > 0 { Ok(value) } else { Err(format!("its factor is {value}; it must be positive")) }
}

/// Replaces a size of -1 by the quotient of the number of elements and the other sizes.
fn open(mut sizes: Vec<Dim>, count: &Dim) -> Res<Vec<Dim>> {
    let Some(at) = sizes.iter().position(|size| size.as_int() == Some(-1)) else { return Ok(sizes) };
    let others = product(sizes.iter().enumerate().filter(|(i, _)| *i != at).map(|(_, size)| size));
    sizes[at] = match others.as_int() {
        Some(..=0) => return Err("a size of -1 cannot be computed beside a size of 0".to_string()),
        _ => div(count, &others),
    };
    Ok(sizes)
}

fn reshape<'a>(cx: &mut Cx<'a>, n: &Node<'a>, sizes: &str) -> Res<T> {
    let x = n.x()?;
    let sizes = open(n.dims(sizes)?, &product(&x.dims()?))?;
    cx.reshape(&x, sizes)
}

fn flatten<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<T> {
    let x = n.x()?;
    if x.rank()? == 0 {
        n.ignore(&["start_dim", "end_dim"]);
        return cx.reshape(&x, vec![Dim::Int(1)]);
    }
    let (start, end) = (x.axis(n.int("start_dim", 0)?)?, x.axis(n.int("end_dim", -1)?)?);
    if start > end {
        return Err("its first axis is after its last axis".to_string());
    }
    let mut dims = x.dims()?;
    let joined = product(&dims[start..=end]);
    dims.splice(start..=end, [joined]);
    cx.reshape(&x, dims)
}

/// Removes the axes of length 1 among the given ones, or among all.
fn squeeze<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<T> {
    let x = n.x()?;
    let dims = x.dims()?;
    let given = n.ints_if("dim")?;
    let given: Vec<usize> = match (given, dims.len()) {
        (_, 0) => Vec::new(),
        (Some(list), _) => list.iter().map(|axis| x.axis(*axis)).collect::<Res<_>>()?,
        (None, rank) => (0..rank).collect(),
    };
    let axes: Vec<usize> = given.into_iter().filter(|axis| dims[*axis].as_int() == Some(1)).collect();
    cx.squeeze(&x, &axes)
}

fn exchanged<'a>(cx: &mut Cx<'a>, n: &Node<'a>, a: &str, b: &str) -> Res<T> {
    let x = n.x()?;
    if x.rank()? == 0 {
        n.ignore(&[a, b]);
        return Ok(x);
    }
    let mut axes: Vec<usize> = (0..x.rank()?).collect();
    axes.swap(x.axis(n.int(a, 0)?)?, x.axis(n.int(b, 0)?)?);
    cx.transpose(&x, &axes)
}

fn moved<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<T> {
    let x = n.x()?;
    let list = |name: &str| n.ints(name)?.iter().map(|axis| x.axis(*axis)).collect::<Res<Vec<usize>>>();
    let (from, to) = (list("source")?, list("destination")?);
    let mut rest = (0..x.rank()?).filter(|axis| !from.contains(axis));
    let axes: Option<Vec<usize>> = (0..x.rank()?)
        .map(|at| match to.iter().position(|to| *to == at) {
            Some(k) => from.get(k).copied(),
            None => rest.next(),
        })
        .collect();
    cx.transpose(&x, &axes.ok_or("its numbers of axes differ")?)
}

/// Broadcasts; a size of -1 keeps the size of the tensor.
fn expand<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<T> {
    n.ignore(&["implicit"]);
    let (x, mut sizes) = (n.x()?, n.dims("size")?);
    let own = x.dims()?;
    let more = sizes.len().checked_sub(own.len()).ok_or("it has fewer sizes than the tensor has dimensions")?;
    for (axis, size) in sizes.iter_mut().enumerate() {
        if size.as_int() == Some(-1) {
            *size = own.get(axis.wrapping_sub(more)).cloned().ok_or("a new axis has the size -1")?;
        }
    }
    cx.broadcast_to(&x, &sizes)
}

fn tile<'a>(cx: &mut Cx<'a>, n: &Node<'a>, name: &str) -> Res<T> {
    let (x, repeats) = (n.x()?, n.dims(name)?);
    let known: Option<Vec<i64>> = repeats.iter().map(Dim::as_int).collect();
    if let Some(repeats) = known {
        if repeats.iter().all(|by| *by == 1) && repeats.len() == x.rank()? {
            return Ok(x);
        }
        return cx.call("relax.tile", &[&x], &[("repeats", repeats.into())]);
    }
    // Each axis gets an axis of repetitions before it.
    let rank = repeats.len().max(x.rank()?);
    let mut dims = vec![Dim::Int(1); rank - x.rank()?];
    dims.extend(x.dims()?);
    let mut by = vec![Dim::Int(1); rank - repeats.len()];
    by.extend(repeats);
    let apart = dims.iter().flat_map(|dim| [Dim::Int(1), dim.clone()]).collect();
    let wide: Vec<Dim> = by.iter().zip(&dims).flat_map(|(by, dim)| [by.clone(), dim.clone()]).collect();
    let whole = by.iter().zip(&dims).map(|(by, dim)| mul(by, dim)).collect();
    cx.reshape(&cx.broadcast_to(&cx.reshape(&x, apart)?, &wide)?, whole)
}

/// Converts tensors to their common data type.
fn common(cx: &Cx<'_>, parts: Vec<T>) -> Res<Vec<T>> {
    let operands: Vec<Operand> = parts.into_iter().map(Operand::Tensor).collect();
    let dtype = promote::result(&operands.iter().collect::<Vec<_>>());
    operands.iter().map(|operand| typed(cx, operand, dtype)).collect()
}

/// Joins tensors. Vectors without elements are left out, as in PyTorch.
fn cat<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<T> {
    let parts = common(cx, n.tensors("tensors")?)?;
    let is_empty = |part: &T| part.sizes().is_some_and(|sizes| sizes == [0]);
    let kept: Vec<T> = parts.iter().filter(|part| !is_empty(part)).cloned().collect();
    let first = kept.first().or(parts.first()).ok_or("it joins no tensors")?.clone();
    let axis = first.axis(n.int("dim", 0)?)?;
    match kept.len() {
        0 => Ok(first),
        _ => cx.concat(&kept, axis),
    }
}

/// Returns successive parts of these sizes.
fn ranges(cx: &Cx<'_>, x: &T, axis: usize, sizes: &[Dim]) -> Res<Vec<T>> {
    let known: Option<Vec<i64>> = sizes.iter().map(Dim::as_int).collect();
    if let (Some(known), true) = (known, sizes.len() > 1) {
        let mut at = 0;
        let ends: Vec<i64> = known[..known.len() - 1]
            .iter()
            .map(|size| {
                at += size;
                at
            })
            .collect();
        let attrs = [("indices_or_sections", ends.into()), ("axis", (axis as i64).into())];
        let tuple = cx.call_v("relax.split", &[cx.v(x)?], &attrs)?;
        return cx.parts(tuple, sizes.len());
    }
    let mut start = Dim::Int(0);
    let part = |size: &Dim| {
        let end = add(&start, size);
        let part = cx.range(x, axis, start.clone(), end.clone());
        start = end;
        part
    };
    sizes.iter().map(part).collect()
}

/// Splits an axis into parts of `size` elements; the last part may be smaller.
fn parts_of(cx: &Cx<'_>, x: &T, axis: usize, size: i64) -> Res<Vec<T>> {
    let total = x.dim(axis)?.as_int().ok_or("the size of its axis must be known")?;
    if size < 1 || total / size > 1 << 16 {
        return Err(format!("it splits {total} elements into parts of {size}"));
    }
    let count = ((total + size - 1) / size).max(1);
    let sizes: Vec<Dim> = (0..count).map(|at| Dim::Int(size.min(total - at * size))).collect();
    if count == 1 { Ok(vec![x.clone()]) } else { ranges(cx, x, axis, &sizes) }
}

fn split<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<Vec<T>> {
    let x = n.x()?;
    let axis = x.axis(n.int("dim", 0)?)?;
    let size = n.int("split_size", 1)?;
    parts_of(cx, &x, axis, size)
}

fn split_into<'a>(cx: &mut Cx<'a>, n: &Node<'a>, name: &str) -> Res<Vec<T>> {
    let x = n.x()?;
    let axis = x.axis(n.int("dim", 0)?)?;
    let sizes = n.dims(name)?;
    ranges(cx, &x, axis, &sizes)
}

fn chunk<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<Vec<T>> {
    let x = n.x()?;
    let axis = x.axis(n.int("dim", 0)?)?;
    let count = positive(n.int("chunks", 1)?)?;
    match x.dim(axis)?.as_int() {
        Some(total) => parts_of(cx, &x, axis, ((total + count - 1) / count).max(1)),
        None if n.dtypes.len() as i64 == count => {
            // The exporter has checked that the symbolic size has as many parts.
            let whole = x.dim(axis)?;
            let size = div(&add(&whole, &Dim::Int(count - 1)), &Dim::Int(count));
            let mut sizes = vec![size.clone(); count as usize - 1];
            sizes.push(sub(&whole, &mul(&size, &Dim::Int(count - 1))));
            ranges(cx, &x, axis, &sizes)
        }
        None => Err("the size of its axis must be known".to_string()),
    }
}

/// Returns the start, end and step of a slice, within an axis of `size` elements.
fn bounds<'a>(n: &Node<'a>, size: &Dim) -> Res<(Dim, Dim, i64)> {
    let zero = Dim::Int(0);
    let within = |at: Dim| -> Dim {
        let at = if at.as_int().is_some_and(|at| at < 0) { add(&at, size) } else { at };
        match (at.as_int(), size.as_int()) {
            (Some(i64::MAX), _) => size.clone(),
            (Some(at), Some(size)) => Dim::Int(at.clamp(0, size)),
            _ => known::max(&known::min(&at, size), &zero),
        }
    };
    let begin = n.dim_if("start")?.map_or(Dim::Int(0), within);
    let end = n.dim_if("end")?.map_or(size.clone(), within);
    let end = if known::proves(plugin_api::scalar::PrimOp::Lt, &end, &begin) { begin.clone() } else { end };
    Ok((begin, end, positive(n.int("step", 1)?)?))
}

fn roll<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<T> {
    let (given, shifts, axes) = (n.x()?, n.ints("shifts")?, n.ints_if("dims")?.unwrap_or_default());
    let is_flat = axes.is_empty();
    let x = if is_flat { cx.reshape(&given, vec![product(&given.dims()?)])? } else { given.clone() };
    let axes = if is_flat { vec![0] } else { axes };
    if axes.len() != shifts.len() {
        return Err("it has different numbers of shifts and axes".to_string());
    }
    let rolled = axes.iter().zip(shifts).try_fold(x, |x, (axis, shift)| {
        let axis = x.axis(*axis)?;
        let size = x.dim(axis)?;
        let by = match size.as_int() {
            Some(0) => return Ok(x),
            Some(size) => Dim::Int(shift.rem_euclid(size)),
            None => plugin_api::arith::apply(plugin_api::scalar::PrimOp::FloorMod, &Dim::Int(shift), &size),
        };
        if by.as_int() == Some(0) {
            return Ok(x);
        }
        let cut = sub(&size, &by);
        cx.concat(&[cx.range(&x, axis, cut.clone(), size)?, cx.range(&x, axis, 0, cut)?], axis)
    })?;
    cx.reshape(&rolled, given.dims()?)
}

/// Pads the last axes. The widths are in pairs, the last axis first; negative widths remove elements.
fn pad<'a>(cx: &mut Cx<'a>, n: &Node<'a>, name: &str, mode: &str) -> Res<T> {
    let (x, widths) = (n.x()?, n.dims(name)?);
    let rank = x.rank()?;
    if widths.len() % 2 != 0 || widths.len() / 2 > rank {
        return Err(format!("its argument `{name}` has {} numbers for {rank} dimensions", widths.len()));
    }
    let (mut before, mut after) = (vec![Dim::Int(0); rank], vec![Dim::Int(0); rank]);
    for (k, pair) in widths.chunks(2).enumerate() {
        before[rank - 1 - k] = pair[0].clone();
        after[rank - 1 - k] = pair[1].clone();
    }
    let value = cx.scalar(n.float("value", 0.0)?, x.dtype())?;
    let mode = match mode {
        "replicate" => "edge",
        "circular" => "wrap",
        other => other,
    };
    padded(cx, x, &before, &after, mode, &value)
}

/// Returns a diagonal of matrices as the last axis.
fn diagonal<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<T> {
    let (x, offset) = (n.x()?, n.int("offset", 0)?);
    let (a, b) = (x.axis(n.int("dim1", 0)?)?, x.axis(n.int("dim2", 1)?)?);
    let sizes = x.sizes().ok_or("its sizes must be known")?;
    if a == b {
        return Err("its two axes are the same".to_string());
    }
    let mut axes: Vec<usize> = (0..sizes.len()).filter(|axis| *axis != a && *axis != b).collect();
    let others: Vec<Dim> = axes.iter().map(|axis| Dim::Int(sizes[*axis])).collect();
    axes.extend([a, b]);
    let (rows, columns) = (sizes[a], sizes[b]);
    let (row, column) = if offset < 0 { (offset.saturating_neg(), 0) } else { (0, offset) };
    let length = (rows.saturating_sub(row)).min(columns.saturating_sub(column)).max(0);
    let mut flat = others;
    flat.push(Dim::Int(rows * columns));
    let axis = flat.len() - 1;
    let flat = cx.reshape(&cx.transpose(&x, &axes)?, flat)?;
    if length > known::MOST as i64 {
        return Err("its diagonal is longer than 4096".to_string());
    }
    let at: Vec<i64> = (0..length).map(|k| (row + k) * columns + column + k).collect();
    cx.call("relax.take", &[&flat, &cx.int64s(&[length], &at)?], &[("axis", (axis as i64).into())])
}

fn meshgrid<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<Vec<T>> {
    let vectors = n.tensors("tensors")?;
    let swaps = n.text_if("indexing")?.unwrap_or("ij") == "xy" && vectors.len() > 1;
    let sizes: Vec<Dim> = vectors.iter().map(|x| Ok(product(&x.dims()?))).collect::<Res<_>>()?;
    let place = |k: usize| if swaps && k < 2 { 1 - k } else { k };
    let mut grid = sizes.clone();
    sizes.iter().enumerate().for_each(|(k, size)| grid[place(k)] = size.clone());
    let along = |(k, x): (usize, &T)| {
        let mut dims = vec![Dim::Int(1); grid.len()];
        dims[place(k)] = sizes[k].clone();
        cx.broadcast_to(&cx.reshape(x, dims)?, &grid)
    };
    vectors.iter().enumerate().map(along).collect()
}
