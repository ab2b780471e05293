//! Pooling operators.

use super::conv::{Framed, read_windows, spatial};
use super::{Row, all, one};
use crate::cx::Cx;
use crate::known;
use crate::node::Node;
use crate::value::{Item, Res, T};
use importer::pad::padded;
use importer::windows::{mean, reached, window_sum};
use plugin_api::prelude::*;

pub(super) const ROWS: &[Row] = &[
    all("MaxPool", 7, max_pool),
    one("AveragePool", 7, average_pool),
    one("LpPool", 7, lp_pool),
    one("GlobalAveragePool", 7, |cx, n| {
        let x = n.input(0)?;
        match x.rank()? {
            // Sums of 16-bit floats are computed in single precision.
            4 if x.dtype().bits() < 32 => {
                cx.call("relax.nn.adaptive_avg_pool2d", &[&x], &[("output_size", vec![1i64, 1].into())])
            }
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
    let kernel = kernel.ok_or("its attribute `kernel_shape` must have one number per spatial axis")?;
    let framed = Framed::of(cx, n, x, kernel, fill)?;
    // A padded tensor has exactly one window for each stride, so `ceil_mode` has no effect.
    let ceil = n.flag("ceil_mode", false)? && !framed.is_padded();
    Ok((framed, ceil))
}

fn max_pool<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<Vec<Item>> {
    let x = n.input(0)?;
    let order = n.int("storage_order", 0)?;
    if !n.wants(1) {
        return Ok(vec![largest(cx, n, &x)?.into()]);
    }
    let (framed, ceil) = windows(cx, n, &x, 0.0)?;
    if framed.is_padded() {
        return Err("its padding depends on a symbolic size; specify the input sizes".to_string());
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

fn lp_pool<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<T> {
    let x = n.input(0)?;
    let (framed, ceil) = windows(cx, n, &x, 0.0)?;
    let (x, windows) = (&framed.x, &framed.windows);
    let p = n.int("p", 2)? as f64;
    let sizes = spatial(x)?;
    let ends = reached(&sizes, windows, ceil)
        .ok_or("its result with `ceil_mode` depends on symbolic sizes; specify the input sizes")?;
    let powers = cx.bin("power", &cx.un("abs", x)?, &cx.scalar(p, x.dtype())?)?;
    let sum = window_sum(cx, &powers, windows, &windows.pads[..sizes.len()], &ends)?;
    framed.result(cx, cx.bin("power", &sum, &cx.scalar(1.0 / p, x.dtype())?)?)
}

/// Puts elements back to the positions that they had before max pooling.
fn max_unpool<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<T> {
    let (x, at) = (n.input(0)?, n.input(1)?);
    let sizes = spatial(&x)?;
    let kernel = n.ints("kernel_shape")?.ok_or("its attribute `kernel_shape` is missing")?;
    let windows = read_windows(n, &sizes, kernel)?;
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
