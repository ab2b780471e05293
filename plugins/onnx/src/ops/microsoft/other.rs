//! Other operators of Microsoft's domain: embeddings, and older forms of standard operators.

use crate::cx::Cx;
use crate::node::Node;
use crate::ops::norm::normalized;
use crate::ops::{Row, all, create, image, index, ms, one, shape};
use crate::value::{Item, Res, T, axis_of};
use plugin_api::prelude::*;

pub(super) const ROWS: &[Row] = &[
    ms(all("EmbedLayerNormalization", 1, embedded)),
    ms(all("QEmbedLayerNormalization", 1, quantized_embedded)),
    ms(one("Pad", 1, |cx, n| {
        let x = n.input(0)?;
        let pads = cx.dims_of(&n.input(1)?, "pad")?;
        let rank = x.rank()?;
        if pads.len() != 2 * rank {
            return Err(format!("its padding has {} numbers for {rank} axes; each axis needs two", pads.len()));
        }
        let value = match n.opt(2)? {
            Some(value) => cx.reshape(&value, vec![])?,
            None => cx.scalar(0.0, x.dtype())?,
        };
        shape::padded(cx, x, &pads[..rank], &pads[rank..], n.text("mode", "constant")?, &value)
    })),
    ms(one("ExpandDims", 1, |cx, n| {
        let x = n.input(0)?;
        let axis = *n.known_ints(1)?.unwrap_or_default().first().ok_or("its axis is empty")?;
        cx.unsqueeze(&x, &[axis_of(axis, x.rank()? + 1)?])
    })),
    ms(one("Range", 1, create::range)),
    ms(one("Trilu", 1, shape::trilu)),
    ms(one("GatherND", 1, index::gather_nd)),
    ms(one("GridSample", 1, image::grid_sample)),
    ms(all("Unique", 1, |cx, n| {
        let x = n.input(0)?;
        let [values, _, back, counts] = index::unique_in_order(cx, &x, None)?;
        Ok(vec![values.into(), back.into(), counts.into()])
    })),
    ms(one("CDist", 1, |cx, n| {
        let (a, b) = (cx.unsqueeze(&n.input(0)?, &[1])?, cx.unsqueeze(&n.input(1)?, &[0])?);
        let apart = cx.sub(&a, &b)?;
        let squares = cx.reduce("sum", &cx.mul(&apart, &apart)?, &[2], false)?;
        match n.text("metric", "sqeuclidean")? {
            "sqeuclidean" => Ok(squares),
            "euclidean" => cx.un("sqrt", &squares),
            other => Err(format!("its metric is `{other}`; it must be euclidean or sqeuclidean")),
        }
    })),
    ms(one("BiasAdd", 1, |cx, n| {
        let sum = cx.add(&n.input(0)?, &n.input(1)?)?;
        cx.add(&sum, &n.input(2)?)
    })),
    ms(one("BiasSplitGelu", 1, |cx, n| {
        let x = cx.add(&n.input(0)?, &n.input(1)?)?;
        let last = x.rank()?.saturating_sub(1);
        let size = x.dim(last)?;
        let half = crate::known::div(&size, &Dim::Int(2));
        let gate = cx.un("nn.gelu", &cx.range(&x, last, half.clone(), size)?)?;
        cx.mul(&cx.range(&x, last, 0, half)?, &gate)
    })),
];

/// The tables and weights of an embedding.
struct Embedding {
    words: T,
    positions: T,
    segments: Option<T>,
    gamma: T,
    beta: T,
    mask: Option<T>,
    places: Option<T>,
}

fn embedded<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<Vec<Item>> {
    let tables = Embedding {
        words: n.input(2)?,
        positions: n.input(3)?,
        segments: n.opt(4)?,
        gamma: n.input(5)?,
        beta: n.input(6)?,
        mask: n.opt(7)?,
        places: n.opt(8)?,
    };
    embedding(cx, n, &tables)
}

fn quantized_embedded<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<Vec<Item>> {
    let real = |at: usize, k: usize| -> Res<T> {
        let (x, scale, zero) = (n.input(at)?, n.input(8 + k)?, n.input(13 + k)?);
        let one = |x: &T| cx.cast(&cx.reshape(x, vec![])?, DType::F32);
        cx.mul(&cx.sub(&cx.cast(&x, DType::F32)?, &one(&zero)?)?, &one(&scale)?)
    };
    let segments = if n.opt(4)?.is_some() {
        Some(real(4, 2)?)
    } else {
        let _ = (n.opt(10)?, n.opt(15)?);
        None
    };
    let tables = Embedding {
        words: real(2, 0)?,
        positions: real(3, 1)?,
        segments,
        gamma: real(5, 3)?,
        beta: real(6, 4)?,
        mask: n.opt(7)?,
        places: None,
    };
    embedding(cx, n, &tables)
}

/// Returns the normalized sum of the embeddings of words, positions and segments, and the number of words of each
/// sample.
fn embedding<'a>(cx: &mut Cx<'a>, n: &Node<'a>, e: &Embedding) -> Res<Vec<Item>> {
    let (words, segments) = (n.input(0)?, n.opt(1)?);
    n.ignore(&["mask_index_type"]);
    let take = |table: &T, at: &T| cx.call("relax.take", &[table, at], &[("axis", 0i64.into())]);
    let (batch, length) = (words.dim(0)?, words.dim(1)?);
    let places = match &e.places {
        Some(places) => places.clone(),
        None => cx.unsqueeze(&cx.arange(&length, DType::I64)?, &[0])?,
    };
    let mut sum = cx.add(&take(&e.words, &words)?, &take(&e.positions, &places)?)?;
    if let (Some(table), Some(segments)) = (&e.segments, &segments) {
        sum = cx.add(&sum, &take(table, segments)?)?;
    }
    let normal = normalized(cx, &sum, &[2], n.float("epsilon", 1e-12)?)?.0;
    let out = cx.add(&cx.mul(&normal, &e.gamma)?, &e.beta)?;
    let counts = match &e.mask {
        Some(mask) => {
            let shown = cx.bin("equal", mask, &cx.scalar(1.0, mask.dtype())?)?;
            cx.reduce("sum", &cx.cast(&shown, DType::I32)?, &[1], false)?
        }
        None => cx.filled(0.0, DType::I32, &[batch])?,
    };
    Ok(vec![out.into(), counts.into(), sum.into()])
}
