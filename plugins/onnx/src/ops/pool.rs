//! Pooling operators.

use super::conv::{Framed, Windows, spatial};
use super::shape::padded;
use super::{Row, all, one};
use crate::cx::Cx;
use crate::known;
use crate::node::Node;
use crate::value::{Item, Res, T};
use plugin_api::prelude::*;

pub(super) const ROWS: &[Row] = &[
    all("MaxPool", 7, max_pool),
    one("AveragePool", 7, average_pool),
    one("LpPool", 7, lp_pool),
    one("GlobalAveragePool", 7, |cx, n| {
        let x = n.input(0)?;
        match x.rank()? {
            4 => cx.call("relax.nn.adaptive_avg_pool2d", &[&x], &[("output_size", vec![1i64, 1].into())]),
            rank => cx.reduce("mean", &x, &(2..rank).collect::<Vec<_>>(), true),
        }
    }),
    one("GlobalMaxPool", 7, |cx, n| {
        let x = n.input(0)?;
        cx.reduce("max", &x, &(2..x.rank()?).collect::<Vec<_>>(), true)
    }),
    one("GlobalLpPool", 7, |cx, n| {
        let (given, p) = (n.input(0)?, n.int("p", 2)? as f64);
        let x = cx.wide(&given)?;
        let axes: Vec<usize> = (2..x.rank()?).collect();
        let powers = cx.bin("power", &cx.un("abs", &x)?, &cx.scalar(p, x.dtype())?)?;
        let sum = cx.reduce("sum", &powers, &axes, true)?;
        cx.cast(&cx.bin("power", &sum, &cx.scalar(1.0 / p, x.dtype())?)?, given.dtype())
    }),
    one("MaxUnpool", 9, max_unpool),
];

/// Returns the windows of a node over a tensor, and true if the number of windows is rounded up.
fn windows<'a>(cx: &Cx<'a>, n: &Node<'a>, x: &T, fill: f64) -> Res<(Framed, bool)> {
    let count = spatial(x)?.len();
    let kernel = n.ints("kernel_shape")?.filter(|kernel| kernel.len() == count);
    let kernel = kernel.ok_or("its attribute `kernel_shape` does not fit its input")?;
    let framed = Framed::of(cx, n, x, kernel, fill)?;
    // With its padding, the tensor has one window for each stride.
    let ceil = n.flag("ceil_mode", false)? && !framed.is_padded();
    Ok((framed, ceil))
}

/// Returns the padding, increased at the ends so that no window extends beyond it.
fn reached(sizes: &[Dim], windows: &Windows, ceil: bool) -> Option<Vec<i64>> {
    let n = sizes.len();
    let mut ends = Vec::new();
    for (axis, dim) in sizes.iter().enumerate() {
        let end = windows.pads[n + axis];
        if !ceil {
            ends.push(end);
            continue;
        }
        let size = dim.as_int()?;
        let count = windows.places(dim, axis, true).as_int()?;
        let reach = (windows.kernel[axis] - 1) * windows.dilations[axis] + 1;
        let last = (count - 1).saturating_mul(windows.strides[axis]);
        ends.push(last.saturating_add(reach - windows.pads[axis]).saturating_sub(size).max(0));
    }
    Some(ends)
}

fn max_pool<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<Vec<Item>> {
    let x = n.input(0)?;
    let order = n.int("storage_order", 0)?;
    if !n.wants(1) {
        return Ok(vec![largest(cx, n, &x)?.into()]);
    }
    let (framed, ceil) = windows(cx, n, &x, 0.0)?;
    if framed.is_padded() {
        return Err("its padding depends on a symbolic size; give sizes to the inputs".to_string());
    }
    let [strides, padding, dilation] = framed.windows.attrs();
    let pool = ("pool_size", framed.windows.kernel.clone().into());
    let attrs = [pool, strides, padding, dilation, ("ceil_mode", ceil.into()), ("storage_order", order.into())];
    let at = cx.call("onnx.max_pool_indices", &[&x], &attrs)?;
    let flat = cx.reshape(&x, vec![plugin_api::arith::product(&x.dims()?)])?;
    let place = match order {
        0 => at.clone(),
        _ => row_major(cx, &at, &spatial(&x)?)?,
    };
    let value = cx.call("relax.take", &[&flat, &place], &[("axis", 0i64.into())])?;
    Ok(vec![value.into(), at.into()])
}

/// Returns the largest element of each window.
pub(super) fn largest<'a>(cx: &Cx<'a>, n: &Node<'a>, x: &T) -> Res<T> {
    let (framed, ceil) = windows(cx, n, x, f64::NEG_INFINITY)?;
    let kernel = framed.windows.kernel.clone();
    let op = format!("relax.nn.max_pool{}d", kernel.len());
    let [strides, padding, dilation] = framed.windows.attrs();
    let attrs = [("pool_size", kernel.into()), strides, padding, dilation, ("ceil_mode", ceil.into())];
    framed.result(cx, cx.call(&op, &[&framed.x], &attrs)?)
}

/// Converts indices in column-major order of the last two axes to row-major order.
fn row_major(cx: &Cx<'_>, at: &T, sizes: &[Dim]) -> Res<T> {
    let n = sizes.len();
    if n < 2 {
        return Ok(at.clone());
    }
    let of = |dim: &Dim| -> Res<T> { cx.reshape(&cx.of_dims(vec![dim.clone()])?, vec![]) };
    let (mut rest, mut index, mut step) = (at.clone(), None::<T>, Dim::Int(1));
    let mut steps = vec![Dim::Int(1); n];
    for axis in (0..n).rev() {
        steps[axis] = step.clone();
        step = known::mul(&step, &sizes[axis]);
    }
    // The first spatial axis is contiguous.
    for axis in 0..n {
        let size = of(&sizes[axis])?;
        let place = cx.mul(&cx.bin("floor_mod", &rest, &size)?, &of(&steps[axis])?)?;
        rest = cx.bin("floor_divide", &rest, &size)?;
        index = Some(match index {
            None => place,
            Some(index) => cx.add(&index, &place)?,
        });
    }
    let whole = cx.mul(&rest, &of(&step)?)?;
    cx.add(&whole, &index.ok_or("no spatial axes")?)
}

fn average_pool<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<T> {
    let x = n.input(0)?;
    average(cx, n, &x)
}

/// Returns the mean of each window.
pub(super) fn average<'a>(cx: &Cx<'a>, n: &Node<'a>, x: &T) -> Res<T> {
    let counts = n.flag("count_include_pad", false)?;
    let mean_of = |x: &T| {
        let (framed, ceil) = windows(cx, n, x, 0.0)?;
        let mean = mean(cx, &framed.x, &framed.windows, ceil, counts)?;
        Ok::<_, String>((framed.is_padded(), framed.result(cx, mean)?))
    };
    let (is_padded, mean) = mean_of(x)?;
    if counts || !is_padded {
        return Ok(mean);
    }
    // Zeros that were added do not count.
    let (_, share) = mean_of(&cx.filled(1.0, x.dtype(), &x.dims()?)?)?;
    cx.div(&mean, &share)
}

/// Returns the mean of each window. The padding counts as elements if `counts` is true.
fn mean(cx: &Cx<'_>, x: &T, windows: &Windows, ceil: bool, counts: bool) -> Res<T> {
    let sizes = &spatial(x)?;
    let count = sizes.len();
    let op = format!("relax.nn.avg_pool{count}d");
    let [strides, padding, dilation] = windows.attrs();
    let pool = ("pool_size", windows.kernel.clone().into());
    let plain = windows.dilations.iter().all(|by| *by == 1) && !ceil;
    if plain {
        let attrs =
            [pool, strides, padding, dilation, ("ceil_mode", false.into()), ("count_include_pad", counts.into())];
        return cx.call(&op, &[x], &attrs);
    }
    // Divides the sum of each window by the number of its elements that count.
    let ends =
        reached(sizes, windows, ceil).ok_or("its rounding up depends on symbolic sizes; give sizes to the inputs")?;
    let sum = window_sum(cx, x, windows, &windows.pads[..count], &ends)?;
    let ones = cx.filled(1.0, x.dtype(), &x.dims()?)?;
    let total = match counts {
        false => window_sum(cx, &ones, windows, &windows.pads[..count], &ends)?,
        true => {
            let (before, after) = sides(&windows.pads[..count], &windows.pads[count..]);
            let one = cx.scalar(1.0, x.dtype())?;
            let ones = padded(cx, ones, &before, &after, "constant", &one)?;
            let zeros = vec![0; count];
            let rest: Vec<i64> = ends.iter().zip(&windows.pads[count..]).map(|(all, own)| all - own).collect();
            window_sum(cx, &ones, windows, &zeros, &rest)?
        }
    };
    cx.div(&sum, &total)
}

fn sides(starts: &[i64], ends: &[i64]) -> (Vec<Dim>, Vec<Dim>) {
    let of = |list: &[i64]| [0, 0].iter().chain(list).map(|by| Dim::Int(*by)).collect();
    (of(starts), of(ends))
}

/// Computes the sum of each window by adding shifted parts of the tensor, one for each position in the window.
fn window_sum(cx: &Cx<'_>, x: &T, windows: &Windows, starts: &[i64], ends: &[i64]) -> Res<T> {
    let (before, after) = sides(starts, ends);
    let zero = cx.scalar(0.0, x.dtype())?;
    let x = padded(cx, x.clone(), &before, &after, "constant", &zero)?;
    let rank = x.rank()?;
    (2..rank).try_fold(x, |x, axis| {
        let k = axis - 2;
        let size = x.dim(axis)?;
        let reach = (windows.kernel[k] - 1) * windows.dilations[k];
        let mut sum: Option<T> = None;
        if windows.kernel[k] > 4096 {
            return Err("its window is larger than 4096, which is not supported".to_string());
        }
        for at in 0..windows.kernel[k] {
            let from = at * windows.dilations[k];
            let end = known::sub(&size, &Dim::Int(reach - from));
            let part = cx.slice(&x, &[axis], &[Dim::Int(from)], &[end], &[windows.strides[k]])?;
            sum = Some(match sum {
                None => part,
                Some(sum) => cx.add(&sum, &part)?,
            });
        }
        sum.ok_or_else(|| "a window is empty".to_string())
    })
}

fn lp_pool<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<T> {
    let x = n.input(0)?;
    let (framed, ceil) = windows(cx, n, &x, 0.0)?;
    let (x, windows) = (&framed.x, &framed.windows);
    let p = n.int("p", 2)? as f64;
    let sizes = spatial(x)?;
    let ends =
        reached(&sizes, windows, ceil).ok_or("its rounding up depends on symbolic sizes; give sizes to the inputs")?;
    let powers = cx.bin("power", &cx.un("abs", x)?, &cx.scalar(p, x.dtype())?)?;
    let sum = window_sum(cx, &powers, windows, &windows.pads[..sizes.len()], &ends)?;
    framed.result(cx, cx.bin("power", &sum, &cx.scalar(1.0 / p, x.dtype())?)?)
}

/// Puts elements back to the positions that they had before max pooling.
fn max_unpool<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<T> {
    let (x, at) = (n.input(0)?, n.input(1)?);
    let sizes = spatial(&x)?;
    let kernel = n.ints("kernel_shape")?.ok_or("its attribute `kernel_shape` is missing")?;
    let windows = Windows::of(n, &sizes, kernel)?;
    let dims = x.dims()?;
    let mut own = dims[..2].to_vec();
    for (axis, size) in sizes.iter().enumerate() {
        let spread = known::mul(&known::sub(size, &Dim::Int(1)), &Dim::Int(windows.strides[axis]));
        let pads = windows.pads[axis] + windows.pads[sizes.len() + axis];
        own.push(known::add(&spread, &Dim::Int(windows.kernel[axis] - pads)));
    }
    let wanted = match n.opt(2)? {
        Some(shape) => cx.dims_of(&shape, "s")?,
        None => own.clone(),
    };
    // Indices refer to the tensor before pooling, which may be smaller than the result.
    let flat = |x: &T| cx.reshape(x, vec![plugin_api::arith::product(&dims)]);
    let zeros = cx.filled(0.0, x.dtype(), &[plugin_api::arith::product(&own)])?;
    let attrs = [("axis", 0i64.into()), ("reduction", "update".into())];
    let placed = cx.call("relax.scatter_elements", &[&zeros, &flat(&at)?, &flat(&x)?], &attrs)?;
    let placed = cx.reshape(&placed, own.clone())?;
    if wanted == own {
        return Ok(placed);
    }
    let after: Vec<Dim> = wanted.iter().zip(&own).map(|(to, from)| known::sub(to, from)).collect();
    let zero = cx.scalar(0.0, x.dtype())?;
    padded(cx, placed, &vec![Dim::Int(0); own.len()], &after, "constant", &zero)
}
