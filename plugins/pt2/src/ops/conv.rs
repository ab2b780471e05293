//! Convolutions.

use super::pool::batched;
use super::{Row, one};
use crate::graph::Cx;
use crate::node::Node;
use importer::tensor::{Res, T};
use importer::windows::{LARGEST, Windows, conv_call, with_bias};
use plugin_api::prelude::*;

pub(super) const ROWS: &[Row] = &[
    one("aten.conv1d.default", |cx, n| forward(cx, n, 1)),
    one("aten.conv2d.default", |cx, n| forward(cx, n, 2)),
    one("aten.conv3d.default", |cx, n| forward(cx, n, 3)),
    one("aten.conv1d.padding", |cx, n| forward(cx, n, 1)),
    one("aten.conv2d.padding", |cx, n| forward(cx, n, 2)),
    one("aten.conv3d.padding", |cx, n| forward(cx, n, 3)),
    one("aten.conv_transpose1d.default", |cx, n| transposed(cx, n, 1)),
    one("aten.conv_transpose2d.input", |cx, n| transposed(cx, n, 2)),
    one("aten.conv_transpose3d.input", |cx, n| transposed(cx, n, 3)),
    one("aten.convolution.default", |cx, n| {
        let count = n.t("weight")?.dims_from(3)?.len() - 2;
        if n.flag("transposed", false)? {
            return transposed(cx, n, count);
        }
        n.ignore(&["output_padding"]);
        forward(cx, n, count)
    }),
];

/// Returns the input, which may lack the batch axis.
fn input<'a>(n: &Node<'a>, count: usize) -> Res<T> {
    let x = n.x()?;
    match x.rank()? {
        rank if rank == count + 1 || rank == count + 2 => Ok(x),
        rank => Err(format!("its input has {rank} dimensions; {} are needed", count + 2)),
    }
}

/// Reads strides, padding and dilations.
fn windows<'a>(n: &Node<'a>, weight: &T, count: usize) -> Res<Windows> {
    let kernel = weight.dims_from(3)?[2..].iter().map(Dim::as_int).collect::<Option<Vec<i64>>>();
    let kernel = kernel.filter(|kernel| kernel.len() == count).ok_or("the sizes of its kernel do not fit its input")?;
    let (strides, dilations) = (n.per_axis("stride", count, 1)?, n.per_axis("dilation", count, 1)?);
    if strides.iter().chain(&dilations).chain(&kernel).any(|value| !(1..LARGEST).contains(value)) {
        return Err("strides, dilations and the kernel must be positive, and not larger than a tensor".to_string());
    }
    let mut windows = Windows { kernel, strides, dilations, pads: vec![0; 2 * count] };
    let pads = if n.op.ends_with(".padding") { n.text_if("padding")?.unwrap_or("valid") } else { "" };
    windows.pads = match pads {
        "valid" => windows.pads,
        "same" => {
            let totals: Vec<i64> = (0..count).map(|axis| windows.reach(axis) - 1).collect();
            totals.iter().map(|total| total / 2).chain(totals.iter().map(|total| total - total / 2)).collect()
        }
        "" => n.per_axis("padding", count, 0)?.repeat(2),
        other => return Err(format!("its argument `padding` is `{other}`; it must be `valid`, `same` or numbers")),
    };
    match windows.pads.iter().all(|pad| (0..LARGEST).contains(pad)) {
        true => Ok(windows),
        false => Err("its padding must not be negative or larger than a tensor".to_string()),
    }
}

fn forward<'a>(cx: &mut Cx<'a>, n: &Node<'a>, count: usize) -> Res<T> {
    let (weight, bias) = (n.t("weight")?, n.opt("bias")?);
    let [strides, padding, dilation] = windows(n, &weight, count)?.attrs();
    let groups = n.int("groups", 1)?;
    batched(cx, &input(n, count)?, count, |cx, x| {
        let attrs = [strides, padding, dilation, ("groups", groups.into())];
        let out = conv_call(cx, &format!("relax.nn.conv{count}d"), x, &weight, &attrs)?;
        with_bias(cx, out, bias)
    })
}

fn transposed<'a>(cx: &mut Cx<'a>, n: &Node<'a>, count: usize) -> Res<T> {
    let (weight, bias) = (n.t("weight")?, n.opt("bias")?);
    n.ignore(&["transposed"]);
    let [strides, padding, dilation] = windows(n, &weight, count)?.attrs();
    let (more, groups) = (n.per_axis("output_padding", count, 0)?, n.int("groups", 1)?);
    batched(cx, &input(n, count)?, count, |cx, x| {
        let attrs = [strides, padding, ("output_padding", more.into()), dilation, ("groups", groups.into())];
        let out = conv_call(cx, &format!("relax.nn.conv{count}d_transpose"), x, &weight, &attrs)?;
        with_bias(cx, out, bias)
    })
}
