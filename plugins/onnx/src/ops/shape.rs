//! Operators that change shapes.

use super::{Row, all, one};
use crate::cx::Cx;
use crate::known::{self, add, max, min, mul, sub};
use crate::node::Node;
use crate::value::{Item, Res, T, axis_of};
pub(super) use importer::pad::padded;
use plugin_api::arith::product;
use plugin_api::prelude::*;
use plugin_api::scalar::PrimOp;

pub(super) const ROWS: &[Row] = &[
    one("Reshape", 7, reshape).moving(),
    one("Flatten", 7, |cx, n| {
        let x = n.input(0)?;
        let rank = x.rank()? as i64;
        let axis = n.int("axis", 1)?;
        let axis = if axis == rank { rank as usize } else { axis_of(axis, rank as usize)? };
        let dims = x.dims()?;
        cx.reshape(&x, vec![product(&dims[..axis]), product(&dims[axis..])])
    })
    .moving(),
    one("Transpose", 7, |cx, n| {
        let x = n.input(0)?;
        let rank = x.rank()?;
        let axes = match n.ints("perm")? {
            Some(perm) => perm.iter().map(|axis| axis_of(*axis, rank)).collect::<Res<Vec<usize>>>()?,
            None => (0..rank).rev().collect(),
        };
        cx.transpose(&x, &axes)
    })
    .moving(),
    one("Unsqueeze", 7, |cx, n| {
        let x = n.input(0)?;
        let axes = axes_of(n, 13)?.ok_or("its axes are missing")?;
        let rank = x.rank()? + axes.len();
        let mut axes: Vec<usize> = axes.iter().map(|axis| axis_of(*axis, rank)).collect::<Res<_>>()?;
        axes.sort_unstable();
        if axes.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err("two of its axes are equal".to_string());
        }
        if x.known().is_some() {
            return cx.unsqueeze(&x, &axes);
        }
        let one = |x: T, axis: usize| cx.call("relax.expand_dims", &[&x], &[("axis", vec![axis as i64].into())]);
        axes.into_iter().try_fold(x, one)
    })
    .moving(),
    one("Squeeze", 7, |cx, n| {
        let x = n.input(0)?;
        let axes = match axes_of(n, 13)? {
            Some(axes) => axes.iter().map(|axis| x.axis(*axis)).collect::<Res<Vec<usize>>>()?,
            None => {
                let dims = x.dims()?;
                let x = not_one(cx, &x, &dims)?;
                let ones: Vec<usize> = (0..dims.len()).filter(|at| dims[*at].as_int() == Some(1)).collect();
                let kept = dims.into_iter().filter(|dim| dim.as_int() != Some(1)).collect();
                return if ones.is_empty() { Ok(x) } else { cx.reshape(&x, kept) };
            }
        };
        cx.squeeze(&x, &axes)
    })
    .moving(),
    one("Concat", 7, concat).moving_all(),
    all("Split", 7, split).moving(),
    one("Slice", 7, slice).moving(),
    one("Expand", 8, expand).moving(),
    one("Tile", 7, tile).moving(),
    one("Pad", 7, pad),
    one("Shape", 7, |cx, n| {
        if n.has("start") || n.has("end") {
            return Err("the number of dimensions of its input is not known".to_string());
        }
        let shape = cx.call_v("relax.shape_of", &[cx.v(&n.input(0)?)?], &[])?;
        T::of_v(cx, cx.call_v("relax.shape_to_tensor", &[shape], &[])?)
    }),
    one("Size", 7, |cx, n| cx.un("size", &n.input(0)?)),
    one("DepthToSpace", 7, depth_to_space),
    one("SpaceToDepth", 7, space_to_depth),
    one("Trilu", 14, trilu),
    one("CenterCropPad", 18, center_crop_pad),
    one("ReverseSequence", 10, |cx, n| {
        let (x, lengths) = (n.input(0)?, n.input(1)?);
        let (time, batch) = (x.axis(n.int("time_axis", 0)?)?, x.axis(n.int("batch_axis", 1)?)?);
        super::rnn::reverse_sequence(cx, &x, &lengths, time, batch)
    }),
];

/// Emits a check that no symbolic size is 1 when the model runs: such an axis would also be removed, which changes the
/// number of dimensions. The check declares the size 0 as expected, so it fails.
fn not_one(cx: &Cx<'_>, x: &T, dims: &[Dim]) -> Res<T> {
    let one = Dim::Int(1);
    let may_be_one = |dim: &Dim| dim.as_int().is_none() && !known::proves(PrimOp::Lt, &one, dim);
    let Some(first) = dims.iter().find(|dim| may_be_one(dim)) else { return Ok(x.clone()) };
    let name = cx.scopes.size_name(first).unwrap_or("n");
    cx.scopes.note(&format!(
        "it has no axes; axes of symbolic size stay, and a check when the model runs requires that their sizes are not 1; if a \
         size is 1, give it, as in `sizes=[\"{name}=1\"]`"
    ));
    let other = |dim: &Dim| match may_be_one(dim) {
        true => Dim::if_then_else(Dim::binary(PrimOp::Eq, dim.clone(), one.clone()), Dim::Int(0), dim.clone()),
        false => dim.clone(),
    };
    cx.as_shape(x, dims.iter().map(other).collect())
}

/// Returns the axes, which are the second input from version `since` on, and an attribute before.
pub(super) fn axes_of(n: &Node<'_>, since: i64) -> Res<Option<Vec<i64>>> {
    if n.version < since { n.ints("axes") } else { n.known_ints(1) }
}

fn reshape<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<T> {
    let (x, shape) = (n.input(0)?, n.input(1)?);
    let keeps_zero = n.flag("allowzero", false)?;
    let Some(wanted) = shape.known().and_then(known::Known::dims) else {
        return reshape_by_data(cx, &x, &shape, keeps_zero);
    };
    let mut dims = Vec::with_capacity(wanted.len());
    for (at, dim) in wanted.iter().enumerate() {
        dims.push(if dim.as_int() == Some(0) && !keeps_zero { x.dim(at)? } else { dim.clone() });
    }
    let open: Vec<usize> = (0..dims.len()).filter(|at| dims[*at].as_int() == Some(-1)).collect();
    match open.as_slice() {
        [] => {}
        [at] => dims[*at] = rest_of(&x.dims()?, &dims, *at)?,
        _ => return Err(format!("its shape contains -1 {} times; at most once is allowed", open.len())),
    }
    cx.reshape(&x, dims)
}

/// Returns the size of the dimension -1 of `to`: the number of elements divided by the other dimensions.
fn rest_of(from: &[Dim], to: &[Dim], open: usize) -> Res<Dim> {
    let mut above = from.to_vec();
    let mut below: Vec<Dim> = Vec::new();
    for (_, dim) in to.iter().enumerate().filter(|(at, _)| *at != open) {
        match above.iter().position(|other| known::same(other, dim)) {
            Some(found) => drop(above.remove(found)),
            None => below.push(dim.clone()),
        }
    }
    if below.is_empty() {
        return Ok(product(&above));
    }
    let (above, below) = (product(&above), product(&below));
    if below.as_int() == Some(0) {
        return Err(
            "its shape contains both -1 and 0, so the size of the dimension -1 cannot be determined".to_string()
        );
    }
    let quotient = known::div(&above, &below);
    match (above.as_int(), below.as_int(), quotient.as_int()) {
        (Some(a), Some(b), Some(q)) if q * b != a => {
            Err(format!("the number of elements, {a}, is not a multiple of {b}, the product of the given dimensions"))
        }
        _ => Ok(quotient),
    }
}

/// Reshapes to a shape that is unknown while the model is read. The model computes the dimension -1.
fn reshape_by_data(cx: &mut Cx<'_>, x: &T, shape: &T, keeps_zero: bool) -> Res<T> {
    let n = shape.dim(0)?.as_int().ok_or("the number of dimensions of its result is not known")? as usize;
    let dims = x.dims()?;
    let zero = cx.scalar(0.0, DType::I64)?;
    let mut wanted = cx.cast(shape, DType::I64)?;
    if !keeps_zero {
        let own: Vec<Dim> = (0..n).map(|at| dims.get(at).cloned().unwrap_or(Dim::Int(0))).collect();
        let (is_zero, own) = (cx.bin("equal", &wanted, &zero)?, cx.of_dims(own)?);
        wanted = cx.select(&is_zero, &own, &wanted)?;
    }
    let total = cx.of_dims(vec![product(&dims)])?;
    let others = cx.un("negative", &cx.reduce("prod", &wanted, &[0], true)?)?;
    let others = cx.max_s(&others, 1.0)?;
    let rest = cx.bin("floor_divide", &total, &others)?;
    let open = cx.bin("less", &wanted, &zero)?;
    let wanted = cx.select(&open, &rest, &wanted)?;
    let dims = cx.dims_of(&wanted, "s")?;
    cx.reshape(x, dims)
}

fn concat<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<T> {
    let parts = n.all()?;
    let first = parts.first().ok_or("it needs at least one input")?;
    let axis = first.axis(n.int_if("axis")?.ok_or("its attribute `axis` is missing")?)?;
    let shapes: Option<Vec<Vec<Dim>>> = parts.iter().map(|part| part.shape().map(<[Dim]>::to_vec)).collect();
    let Some(shapes) = shapes.filter(|shapes| shapes.iter().all(|dims| dims.len() == shapes[0].len())) else {
        return cx.concat(&parts, axis);
    };
    // The sizes of the other axes agree, or are checked when the model runs.
    let common = |at: usize| {
        let known = shapes.iter().find(|dims| dims[at].as_int().is_some());
        known.unwrap_or(&shapes[0])[at].clone()
    };
    let common: Vec<Dim> = (0..shapes[0].len()).map(common).collect();
    let mut same = Vec::with_capacity(parts.len());
    for (part, own) in parts.iter().zip(&shapes) {
        let wanted = (0..own.len()).map(|at| {
            match at == axis || own[at].as_int().is_some() || known::same(&common[at], &own[at]) {
                true => own[at].clone(),
                false => common[at].clone(),
            }
        });
        same.push(cx.as_shape(part, wanted.collect())?);
    }
    cx.concat(&same, axis)
}

fn split<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<Vec<Item>> {
    let x = n.input(0)?;
    let axis = x.axis(n.int("axis", 0)?)?;
    let size = x.dim(axis)?;
    let sizes = if n.version < 13 {
        n.ints("split")?.map(|s| s.into_iter().map(Dim::Int).collect())
    } else {
        split_sizes(cx, n)?
    };
    let sizes: Vec<Dim> = match sizes {
        Some(sizes) => {
            n.ignore(&["num_outputs"]);
            sizes
        }
        None => {
            let parts = n.int("num_outputs", n.n_outputs() as i64)?;
            if parts < 1 || parts > n.n_outputs() as i64 {
                return Err(format!("it has {} results, but `num_outputs` is {parts}", n.n_outputs()));
            }
            let whole = size.as_int();
            let each = known::div(&add(&size, &Dim::Int(parts - 1)), &Dim::Int(parts));
            let each = if whole.is_none()
                && known::same(&mul(&known::div(&size, &Dim::Int(parts)), &Dim::Int(parts)), &size)
            {
                known::div(&size, &Dim::Int(parts))
            } else {
                each
            };
            (0..parts).map(|k| max(&min(&each, &sub(&size, &mul(&each, &Dim::Int(k)))), &Dim::Int(0))).collect()
        }
    };
    let mut from = Dim::Int(0);
    let mut parts = Vec::new();
    for part in sizes {
        let to = add(&from, &part);
        parts.push(cx.range(&x, axis, from, to.clone())?.into());
        from = to;
    }
    match (from.as_int(), size.as_int()) {
        (Some(sum), Some(size)) if sum != size => {
            Err(format!("the lengths of its parts add up to {sum}, but the axis has length {size}"))
        }
        _ => Ok(parts),
    }
}

fn split_sizes(cx: &mut Cx<'_>, n: &Node<'_>) -> Res<Option<Vec<Dim>>> {
    let Some(sizes) = n.opt(1)? else { return Ok(None) };
    cx.dims_of(&sizes, "part").map(Some)
}

/// Returns an end of a range, clamped to the bounds of the axis. Negative ends count from the end of the axis.
fn bound(at: &Dim, size: &Dim, least: i64, most: &Dim) -> Dim {
    let from_end = add(at, size);
    let zero = Dim::Int(0);
    let counted = match at.as_int() {
        Some(value) if value < 0 => from_end,
        Some(_) => at.clone(),
        None if known::proves(PrimOp::Le, &zero, at) => at.clone(),
        None => Dim::if_then_else(Dim::binary(PrimOp::Lt, at.clone(), zero), from_end, at.clone()),
    };
    max(&min(&counted, most), &Dim::Int(least))
}

fn slice<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<T> {
    let x = n.input(0)?;
    let (starts, ends, axes, steps) = if n.version < 10 {
        let list = |values: Option<Vec<i64>>| values.map(|v| v.into_iter().map(Dim::Int).collect::<Vec<Dim>>());
        let starts = list(n.ints("starts")?).ok_or("its attribute `starts` is missing")?;
        let ends = list(n.ints("ends")?).ok_or("its attribute `ends` is missing")?;
        (starts, ends, n.ints("axes")?, None)
    } else {
        let (axes, steps) = (n.known_ints(3)?, n.known_ints(4)?);
        let known = |x: &T| x.known().and_then(known::Known::dims);
        let (from, to) = (n.input(1)?, n.input(2)?);
        match (known(&from), known(&to)) {
            (Some(starts), Some(ends)) => (starts, ends, axes, steps),
            _ => return slice_by_data(cx, &x, (&from, &to), axes, steps),
        }
    };
    let axes = axes.unwrap_or_else(|| (0..starts.len() as i64).collect());
    let steps = steps.unwrap_or_else(|| vec![1; starts.len()]);
    if starts.len() != axes.len() || ends.len() != axes.len() || steps.len() != axes.len() {
        return Err("its starts, ends, axes and steps differ in length".to_string());
    }
    let axes: Vec<usize> = axes.iter().map(|axis| x.axis(*axis)).collect::<Res<_>>()?;
    let (mut out, mut begin, mut end, mut by) = (x.clone(), Vec::new(), Vec::new(), Vec::new());
    for (k, axis) in axes.iter().enumerate() {
        let size = x.dim(*axis)?;
        let last = sub(&size, &Dim::Int(1));
        match steps[k] {
            0 => return Err("a step is 0".to_string()),
            step if step > 0 => {
                begin.push(bound(&starts[k], &size, 0, &size));
                end.push(bound(&ends[k], &size, 0, &size));
                by.push(step);
            }
            step => {
                // A backward range is a forward range of the reversed tensor.
                out = cx.call("relax.flip", &[&out], &[("axis", (*axis as i64).into())])?;
                begin.push(sub(&last, &bound(&starts[k], &size, 0, &last)));
                end.push(sub(&last, &bound(&ends[k], &size, -1, &last)));
                by.push(step.checked_neg().unwrap_or(i64::MAX));
            }
        }
        let (from, to) = (begin[k].clone(), &mut end[k]);
        if !known::proves(PrimOp::Le, &from, to) {
            *to = max(to, &from);
        }
    }
    cx.slice(&out, &axes, &begin, &end, &by)
}

/// Takes ranges whose ends are unknown while the model is read. The ends are clamped to the axes when the model runs.
fn slice_by_data(
    cx: &mut Cx<'_>,
    x: &T,
    (from, to): (&T, &T),
    axes: Option<Vec<i64>>,
    steps: Option<Vec<i64>>,
) -> Res<T> {
    let n =
        [from, to].iter().find_map(|list| list.dim(0).ok()?.as_int()).ok_or("the number of its axes is not known")?;
    let axes = axes.unwrap_or_else(|| (0..n).collect());
    let steps = steps.unwrap_or_else(|| vec![1; axes.len()]);
    if axes.len() as i64 != n || steps.len() != axes.len() {
        return Err("its starts, ends, axes and steps differ in length".to_string());
    }
    let axes: Vec<usize> = axes.iter().map(|axis| x.axis(*axis)).collect::<Res<_>>()?;
    let sizes: Vec<Dim> = axes.iter().map(|axis| x.dim(*axis)).collect::<Res<_>>()?;
    let of = |f: &dyn Fn(usize) -> Dim| cx.of_dims((0..axes.len()).map(f).collect());
    let backward = |k: usize| steps[k] < 0;
    let last = |k: usize| sub(&sizes[k], &Dim::Int(1));
    let (whole, zero) = (of(&|k| sizes[k].clone())?, cx.scalar(0.0, DType::I64)?);
    let clamped = |list: &T, least: &dyn Fn(usize) -> Dim| -> Res<T> {
        let list = cx.cast(list, DType::I64)?;
        let counted = cx.select(&cx.bin("less", &list, &zero)?, &cx.add(&list, &whole)?, &list)?;
        let most = of(&|k| if backward(k) { last(k) } else { sizes[k].clone() })?;
        let at = cx.bin("maximum", &cx.bin("minimum", &counted, &most)?, &of(least)?)?;
        // A backward range is a forward range of the reversed tensor.
        let sign = of(&|k| Dim::Int(if backward(k) { -1 } else { 1 }))?;
        cx.add(&of(&|k| if backward(k) { last(k) } else { Dim::Int(0) })?, &cx.mul(&sign, &at)?)
    };
    let begin = clamped(from, &|_| Dim::Int(0))?;
    let end = clamped(to, &|k| Dim::Int(if backward(k) { -1 } else { 0 }))?;
    let end = cx.bin("maximum", &end, &begin)?;
    let out = (0..axes.len())
        .filter(|k| backward(*k))
        .try_fold(x.clone(), |x, k| cx.call("relax.flip", &[&x], &[("axis", (axes[k] as i64).into())]))?;
    let (begin, end) = (cx.dims_of(&begin, "start")?, cx.dims_of(&end, "end")?);
    let by: Vec<i64> = steps.iter().map(|step| step.checked_abs().unwrap_or(i64::MAX)).collect();
    if by.contains(&0) {
        return Err("a step is 0".to_string());
    }
    cx.slice(&out, &axes, &begin, &end, &by)
}

fn expand<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<T> {
    let (x, shape) = (n.input(0)?, n.input(1)?);
    let wanted = cx.dims_of(&shape, "s")?;
    let own = x.dims()?;
    let rank = own.len().max(wanted.len());
    let at =
        |dims: &[Dim], axis: usize| (axis + dims.len()).checked_sub(rank).map_or(Dim::Int(1), |at| dims[at].clone());
    let dims: Vec<Dim> = (0..rank)
        .map(|axis| match (at(&own, axis), at(&wanted, axis)) {
            (a, b) if b.as_int() == Some(1) || known::same(&a, &b) => a,
            (a, b) if a.as_int() == Some(1) => b,
            // One of the two is 1, but which one depends on sizes at run time.
            (a, b) => match (a.as_int(), b.as_int()) {
                (Some(_), Some(_)) | (Some(_), None) => a,
                (None, Some(_)) => b,
                (None, None) => Dim::if_then_else(Dim::binary(PrimOp::Eq, a.clone(), Dim::Int(1)), b, a),
            },
        })
        .collect();
    cx.broadcast_to(&x, &dims)
}

fn tile<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<T> {
    let (x, repeats) = (n.input(0)?, n.input(1)?);
    if let Some(repeats) = repeats.ints() {
        return cx.call("relax.tile", &[&x], &[("repeats", repeats.into())]);
    }
    let repeats = cx.dims_of(&repeats, "repeat")?;
    let dims = x.dims()?;
    if repeats.len() != dims.len() {
        return Err(format!("it has {} repeats for {} axes", repeats.len(), dims.len()));
    }
    // Inserts a new axis before each axis, and repeats the tensor along the new axes.
    let apart: Vec<Dim> = dims.iter().flat_map(|dim| [Dim::Int(1), dim.clone()]).collect();
    let wide: Vec<Dim> = repeats.iter().zip(&dims).flat_map(|(by, dim)| [by.clone(), dim.clone()]).collect();
    let x = cx.broadcast_to(&cx.reshape(&x, apart)?, &wide)?;
    cx.reshape(&x, repeats.iter().zip(&dims).map(|(by, dim)| mul(by, dim)).collect())
}

fn pad<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<T> {
    let x = n.input(0)?;
    let rank = x.rank()?;
    let mode = n.text("mode", "constant")?;
    let (pads, value, axes) = if n.version < 11 {
        let pads = n.ints("pads")?.ok_or("its attribute `pads` is missing")?;
        let value = cx.scalar(n.float("value", 0.0)?, x.dtype())?;
        (pads.into_iter().map(Dim::Int).collect(), value, None)
    } else {
        let pads = widths(cx, &n.input(1)?)?;
        let value = match n.opt(2)? {
            Some(value) => cx.reshape(&value, vec![])?,
            None => cx.scalar(0.0, x.dtype())?,
        };
        (pads, value, n.known_ints(3)?)
    };
    let axes: Vec<usize> = match axes {
        Some(axes) => axes.iter().map(|axis| x.axis(*axis)).collect::<Res<_>>()?,
        None => (0..rank).collect(),
    };
    if pads.len() != 2 * axes.len() {
        return Err(format!("its padding has {} numbers for {} axes; each axis needs two", pads.len(), axes.len()));
    }
    let (mut before, mut after) = (vec![Dim::Int(0); rank], vec![Dim::Int(0); rank]);
    for (k, axis) in axes.iter().enumerate() {
        before[*axis] = pads[k].clone();
        after[*axis] = pads[axes.len() + k].clone();
    }
    padded(cx, x, &before, &after, mode, &value)
}

/// Returns the numbers of elements to add; negative numbers mean removal. Symbols are never negative, so each number
/// from data is the difference of two symbols.
fn widths(cx: &mut Cx<'_>, pads: &T) -> Res<Vec<Dim>> {
    if let Some(dims) = pads.known().and_then(known::Known::dims) {
        return Ok(dims);
    }
    let pads = cx.cast(pads, DType::I64)?;
    let (added, removed) = (cx.max_s(&pads, 0.0)?, cx.max_s(&cx.un("negative", &pads)?, 0.0)?);
    let (added, removed) = (cx.dims_of(&added, "pad")?, cx.dims_of(&removed, "crop")?);
    Ok(added.iter().zip(&removed).map(|(added, removed)| sub(added, removed)).collect())
}

fn depth_to_space<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<T> {
    let x = n.input(0)?;
    let by = n.int_if("blocksize")?.filter(|by| *by > 0).ok_or("its attribute `blocksize` must be positive")?;
    let [b, c, h, w] = four(&x)?;
    let inner = known::div(&c, &Dim::Int(by.saturating_mul(by)));
    let block = || Dim::Int(by);
    let out = vec![b.clone(), inner.clone(), mul(&h, &block()), mul(&w, &block())];
    let (shape, axes) = match n.text("mode", "DCR")? {
        "DCR" => (vec![b, block(), block(), inner, h, w], [0, 3, 4, 1, 5, 2]),
        "CRD" => (vec![b, inner, block(), block(), h, w], [0, 1, 4, 2, 5, 3]),
        other => return Err(format!("its mode is `{other}`; it must be `DCR` or `CRD`")),
    };
    let apart = cx.transpose(&cx.reshape(&x, shape)?, &axes)?;
    cx.reshape(&apart, out)
}

fn space_to_depth<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<T> {
    let x = n.input(0)?;
    let by = n.int_if("blocksize")?.filter(|by| *by > 0).ok_or("its attribute `blocksize` must be positive")?;
    let [b, c, h, w] = four(&x)?;
    let block = || Dim::Int(by);
    let (h, w) = (known::div(&h, &block()), known::div(&w, &block()));
    let axes = match n.text("mode", "DCR")? {
        "DCR" => [0, 3, 5, 1, 2, 4],
        "CRD" => [0, 1, 3, 5, 2, 4],
        other => return Err(format!("its mode is `{other}`; it must be `DCR` or `CRD`")),
    };
    let apart = cx.reshape(&x, vec![b.clone(), c.clone(), h.clone(), block(), w.clone(), block()])?;
    cx.reshape(&cx.transpose(&apart, &axes)?, vec![b, mul(&c, &Dim::Int(by.saturating_mul(by))), h, w])
}

fn four(x: &T) -> Res<[Dim; 4]> {
    x.dims()?.try_into().map_err(|dims: Vec<Dim>| format!("expected a tensor of 4 dimensions, found {}", dims.len()))
}

/// Keeps one triangle of each matrix, by comparing row and column indices.
pub(super) fn trilu<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<T> {
    let x = n.input(0)?;
    let upper = n.flag("upper", true)?;
    let rank = x.rank()?;
    if rank < 2 {
        return Err(format!("expected a tensor of at least 2 dimensions, found {rank}"));
    }
    let (rows, columns) = (cx.arange(&x.dim(rank - 2)?, DType::I64)?, cx.arange(&x.dim(rank - 1)?, DType::I64)?);
    let mut edge = cx.unsqueeze(&rows, &[1])?;
    if let Some(k) = n.opt(1)? {
        let k = cx.cast(&cx.reshape(&k, vec![])?, DType::I64)?;
        edge = cx.add(&edge, &k)?;
    }
    let keeps = cx.bin(if upper { "greater_equal" } else { "less_equal" }, &columns, &edge)?;
    cx.select(&keeps, &x, &cx.scalar(0.0, x.dtype())?)
}

fn center_crop_pad<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<T> {
    let mut x = n.input(0)?;
    let wanted = cx.dims_of(&n.input(1)?, "s")?;
    let axes: Vec<usize> = match n.ints("axes")? {
        Some(axes) => axes.iter().map(|axis| x.axis(*axis)).collect::<Res<_>>()?,
        None => (0..x.rank()?).collect(),
    };
    if axes.len() != wanted.len() {
        return Err(format!("it has {} sizes for {} axes", wanted.len(), axes.len()));
    }
    for (axis, to) in axes.iter().zip(&wanted) {
        let from = x.dim(*axis)?;
        let half = |dim: Dim| known::div(&dim, &Dim::Int(2));
        let crops = known::proves(PrimOp::Ge, &from, to);
        if !crops && !known::proves(PrimOp::Le, &from, to) {
            return Err("whether it crops or pads depends on symbolic sizes; specify the input sizes".to_string());
        }
        if crops {
            let begin = half(sub(&from, to));
            let end = add(&begin, to);
            x = cx.range(&x, *axis, begin, end)?;
            continue;
        }
        let before = half(sub(to, &from));
        let after = sub(&sub(to, &from), &before);
        let rank = x.rank()?;
        let side =
            |by: Dim| (0..rank).map(|at| if at == *axis { by.clone() } else { Dim::Int(0) }).collect::<Vec<Dim>>();
        let zero = cx.scalar(0.0, x.dtype())?;
        x = padded(cx, x, &side(before), &side(after), "constant", &zero)?;
    }
    Ok(x)
}
