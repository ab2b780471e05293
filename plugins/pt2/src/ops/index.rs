//! Operators that pick elements by index, write to indices, and sort.

use super::elementwise::{truth, typed};
use super::{Row, all, one};
use crate::graph::Cx;
use crate::node::Node;
use crate::promote::{self, Operand};
use importer::index::counted;
use importer::known::Elem;
use importer::tensor::{Res, T};
use plugin_api::arith::product;
use plugin_api::prelude::*;

pub(super) const ROWS: &[Row] = &[
    one("aten.embedding.default", |cx, n| {
        n.ignore(&["padding_idx", "scale_grad_by_freq", "sparse"]);
        cx.call("relax.take", &[&n.t("weight")?, &n.t("indices")?], &[("axis", 0i64.into())])
    }),
    one("aten.index_select.default", |cx, n| {
        let (x, index) = (n.x()?, n.t("index")?);
        let axis = x.axis(n.int("dim", 0)?)?;
        cx.call("relax.take", &[&x, &index], &[("axis", (axis as i64).into())])
    }),
    one("aten.take.default", |cx, n| {
        let x = n.x()?;
        let count = product(&x.dims()?);
        let index = counted(cx, &n.t("index")?, &count)?;
        cx.call("relax.take", &[&cx.reshape(&x, vec![count])?, &index], &[("axis", 0i64.into())])
    }),
    one("aten.gather.default", |cx, n| {
        n.ignore(&["sparse_grad"]);
        let (x, index) = (n.x()?, n.t("index")?);
        let axis = x.axis(n.int("dim", 0)?)?;
        // The index may be shorter than the tensor along the other axes.
        let (own, wanted) = (x.dims()?, index.dims()?);
        let cut = |x: T, at: usize| match at == axis || own[at] == wanted[at] {
            true => Ok(x),
            false => cx.range(&x, at, 0, wanted[at].clone()),
        };
        let x = (0..own.len().min(wanted.len())).try_fold(x, cut)?;
        cx.call("relax.gather_elements", &[&x, &index], &[("axis", (axis as i64).into())])
    }),
    one("aten.index.Tensor", index),
    one("aten.index_put.default", index_put),
    one("aten.scatter.src", |cx, n| scatter(cx, n, "update")),
    one("aten.scatter.value", |cx, n| scatter(cx, n, "update")),
    one("aten.scatter_add.default", |cx, n| scatter(cx, n, "add")),
    one("aten.scatter_reduce.two", |cx, n| {
        if !n.flag("include_self", true)? {
            return Err("its argument `include_self` is false, which is not supported".to_string());
        }
        match n.text_if("reduce")?.unwrap_or("") {
            "sum" => scatter(cx, n, "add"),
            "prod" => scatter(cx, n, "mul"),
            "amax" => scatter(cx, n, "max"),
            "amin" => scatter(cx, n, "min"),
            other => Err(format!("its argument `reduce` is `{other}`, which is not supported")),
        }
    }),
    one("aten.masked_fill.Scalar", masked_fill),
    one("aten.masked_fill.Tensor", masked_fill),
    one("aten.masked_select.default", |cx, n| {
        let (x, mask) = (n.x()?, n.t("mask")?);
        let (x, mask) = cx.agreeing(&x, &mask)?;
        let dims = wider(&x, &mask)?;
        let (x, mask) = (cx.broadcast_to(&x, &dims)?, cx.broadcast_to(&mask, &dims)?);
        let flat = |x: &T| cx.reshape(x, vec![product(&dims)]);
        let (x, mask) = (flat(&x)?, flat(&mask)?);
        let at = cx.un("nonzero", &mask)?;
        let at = cx.named_dims(at, "kept")?;
        let at = cx.squeeze(&at, &[0])?;
        cx.call("relax.take", &[&x, &at], &[("axis", 0i64.into())])
    }),
    one("aten.nonzero.default", |cx, n| {
        let at = cx.un("nonzero", &n.x()?)?;
        let at = cx.named_dims(at, "kept")?;
        cx.transpose(&at, &[1, 0])
    }),
    one("aten.one_hot.default", |cx, n| {
        let (x, depth) = (n.x()?, n.int("num_classes", -1)?);
        if depth < 1 {
            return Err("its number of classes depends on data; give `num_classes`".to_string());
        }
        let prim = |value: i64| cx.b.prim_value(Dim::Int(value));
        let args = [cx.v(&x)?, prim(1), prim(0)];
        T::of_v(cx, cx.call_v("relax.one_hot", &args, &[("depth", depth.into()), ("axis", (-1i64).into())])?)
    }),
    all("aten.topk.default", |cx, n| {
        n.ignore(&["sorted"]);
        let x = n.x()?;
        let (axis, largest) = (x.axis(n.int("dim", -1)?)?, n.flag("largest", true)?);
        let attrs = [
            ("k", n.int("k", 1)?.into()),
            ("axis", (axis as i64).into()),
            ("ret_type", "both".into()),
            ("largest", largest.into()),
            ("dtype", DType::I64.into()),
        ];
        let both = cx.call_v("relax.topk", &[cx.v(&x)?], &attrs)?;
        cx.parts(both, 2)
    }),
    all("aten.sort.default", sort),
    all("aten.sort.stable", sort),
    one("aten.argsort.default", argsort),
    one("aten.argsort.stable", argsort),
    one("aten.bucketize.Tensor", |cx, n| buckets(cx, n, "self", "boundaries")),
    one("aten.searchsorted.Tensor", |cx, n| {
        let right = n.text_if("side")?.map(|side| side == "right");
        if n.t("sorted_sequence")?.rank()? != 1 || right == Some(true) || n.has("sorter") {
            return Err("only a vector is supported, without `sorter`, and with the side `left`".to_string());
        }
        buckets(cx, n, "self", "sorted_sequence")
    }),
    one("aten.isin.Tensor_Tensor", |cx, n| {
        n.ignore(&["assume_unique"]);
        let (x, test) = (n.t("elements")?, n.t("test_elements")?);
        let flat = cx.reshape(&test, vec![product(&test.dims()?)])?;
        let rank = x.rank()?;
        let equal = cx.cast(&cx.bin("equal", &cx.unsqueeze(&x, &[rank])?, &flat)?, DType::I8)?;
        let any = truth(cx, &cx.reduce("max", &equal, &[rank], false)?)?;
        if n.flag("invert", false)? { cx.un("logical_not", &any) } else { Ok(any) }
    }),
    one("aten.tril.default", |cx, n| triangle(cx, n, "less_equal")),
    one("aten.triu.default", |cx, n| triangle(cx, n, "greater_equal")),
];

/// Returns the shape to which two tensors of compatible shapes are broadcast.
fn wider(a: &T, b: &T) -> Res<Vec<Dim>> {
    let (a, b) = (a.dims()?, b.dims()?);
    let (long, short) = if a.len() < b.len() { (b, a) } else { (a, b) };
    let mut dims = long;
    let skipped = dims.len() - short.len();
    for (dim, other) in dims[skipped..].iter_mut().zip(short) {
        if dim.as_int() == Some(1) {
            *dim = other;
        }
    }
    Ok(dims)
}

/// The indices for some axes of a tensor.
struct Indexed {
    indices: Vec<T>,
    axes: Vec<usize>,
}

/// Reads the indices of a node. A mask becomes the indices of its true elements.
fn indices<'a>(cx: &mut Cx<'a>, n: &Node<'a>, x: &T) -> Res<Indexed> {
    let (mut indices, mut axes, mut axis) = (Vec::new(), Vec::new(), 0);
    for index in n.opt_tensors("indices")? {
        match index {
            None => axis += 1,
            Some(mask) if mask.dtype() == DType::BOOL => {
                let at = cx.un("nonzero", &mask)?;
                let at = cx.named_dims(at, "kept")?;
                for k in 0..mask.rank()? {
                    indices.push(cx.pick(&at, 0, k as i64)?);
                    axes.push(axis);
                    axis += 1;
                }
            }
            Some(index) => {
                indices.push(counted(cx, &index, &x.dim(axis)?)?);
                axes.push(axis);
                axis += 1;
            }
        }
    }
    if indices.is_empty() || axis > x.rank()? {
        return Err("its indices do not fit the tensor".to_string());
    }
    Ok(Indexed { indices, axes })
}

/// Returns elements at indices. The axes of the indices replace the indexed axes; they come first if the indexed axes are not adjacent.
fn index<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<T> {
    let x = n.x()?;
    let Indexed { indices, axes } = indices(cx, n, &x)?;
    if let ([index], [axis]) = (indices.as_slice(), axes.as_slice()) {
        return cx.call("relax.take", &[&x, index], &[("axis", (*axis as i64).into())]);
    }
    let rank = x.rank()?;
    let order: Vec<usize> = axes.iter().copied().chain((0..rank).filter(|axis| !axes.contains(axis))).collect();
    let front = cx.transpose(&x, &order)?;
    let args: Vec<V> = indices.iter().map(|index| cx.v(index)).collect::<Res<_>>()?;
    let picked = T::of_v(cx, cx.call_v("relax.index_tensor", &[cx.v(&front)?, cx.b.tuple(&args)], &[])?)?;
    let is_together = axes.windows(2).all(|pair| pair[0] + 1 == pair[1]);
    if !is_together || axes[0] == 0 {
        return Ok(picked);
    }
    // The axes before the indexed axes move back before the axes of the indices.
    let wide = picked.rank()? + axes.len() - rank;
    let back: Vec<usize> = (wide..wide + axes[0]).chain(0..wide).chain(wide + axes[0]..picked.rank()?).collect();
    cx.transpose(&picked, &back)
}

/// Writes values at indices of some axes.
fn index_put<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<T> {
    let (x, values) = (n.x()?, n.t("values")?);
    let accumulates = n.flag("accumulate", false)?;
    if let [Some(mask)] = n.opt_tensors("indices")?.as_slice()
        && mask.dtype() == DType::BOOL
        && mask.rank()? <= x.rank()?
        && values.sizes().is_some_and(|sizes| sizes.iter().product::<i64>() == 1)
        && !accumulates
    {
        // One value for all true elements.
        let after: Vec<usize> = (mask.rank()?..x.rank()?).collect();
        let (value, mask) = (cx.reshape(&values, Vec::new())?, cx.unsqueeze(mask, &after)?);
        return cx.select(&mask, &value, &x);
    }
    let Indexed { indices, axes } = indices(cx, n, &x)?;
    let values = cx.cast(&values, x.dtype())?;
    let mut shape = indices[0].dims()?;
    for index in &indices[1..] {
        let known = cx.filled(0.0, DType::BOOL, &shape)?;
        shape = wider(&known, index)?;
    }
    let rank = x.rank()?;
    let spread = |index: &T| cx.broadcast_to(&cx.cast(index, DType::I64)?, &shape);
    let whole: Vec<T> = indices.iter().map(spread).collect::<Res<_>>()?;
    if axes.len() == rank && !shape.is_empty() {
        let values = cx.broadcast_to(&values, &shape)?;
        let places: Vec<V> = whole.iter().map(|index| cx.v(index)).collect::<Res<_>>()?;
        let args = [cx.v(&x)?, cx.b.tuple(&places), cx.v(&values)?];
        return T::of_v(cx, cx.call_v("relax.index_put", &args, &[("accumulate", accumulates.into())])?);
    }
    // Moves the indexed axes to the front. In the values, the axes of the indices are at the front, or where the indexed axes were if
    // these are adjacent.
    let rest: Vec<usize> = (0..rank).filter(|axis| !axes.contains(axis)).collect();
    let order: Vec<usize> = axes.iter().chain(&rest).copied().collect();
    let (dims, wide) = (x.dims()?, shape.len());
    let ahead = if axes.windows(2).all(|pair| pair[0] + 1 == pair[1]) { axes[0] } else { 0 };
    let mut own: Vec<Dim> = rest.iter().map(|axis| dims[*axis].clone()).collect();
    drop(own.splice(ahead..ahead, shape.iter().cloned()));
    let front: Vec<usize> = (ahead..ahead + wide).chain(0..ahead).chain(ahead + wide..own.len()).collect();
    let values = cx.transpose(&cx.broadcast_to(&values, &own)?, &front)?;
    let places: Vec<T> = whole.iter().map(|index| cx.unsqueeze(index, &[wide])).collect::<Res<_>>()?;
    let places = cx.concat(&places, wide)?;
    let reduction = if accumulates { "add" } else { "update" };
    let attrs = [("reduction", reduction.into())];
    let out = cx.call("relax.scatter_nd", &[&cx.transpose(&x, &order)?, &places, &values], &attrs)?;
    let back: Vec<usize> = (0..rank).map(|axis| order.iter().position(|from| *from == axis).unwrap_or(axis)).collect();
    cx.transpose(&out, &back)
}

/// Writes elements, or one number, at indices along an axis.
fn scatter<'a>(cx: &mut Cx<'a>, n: &Node<'a>, reduction: &str) -> Res<T> {
    let (x, index) = (n.x()?, n.t("index")?);
    let axis = x.axis(n.int("dim", 0)?)?;
    let updates = match n.opt("src")? {
        Some(src) => {
            let (own, wanted) = (src.dims()?, index.dims()?);
            let cut = |src: T, at: usize| match own[at] == wanted[at] {
                true => Ok(src),
                false => cx.range(&src, at, 0, wanted[at].clone()),
            };
            (0..own.len().min(wanted.len())).try_fold(src, cut)?
        }
        None => {
            let value = typed(cx, &n.operand("value")?, x.dtype())?;
            cx.broadcast_to(&value, &index.dims()?)?
        }
    };
    let attrs = [("axis", (axis as i64).into()), ("reduction", reduction.into())];
    cx.call("relax.scatter_elements", &[&x, &index, &updates], &attrs)
}

fn masked_fill<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<T> {
    let (x, mask) = (n.x()?, n.t("mask")?);
    let value = typed(cx, &n.operand("value")?, x.dtype())?;
    cx.select(&mask, &value, &x)
}

/// Returns the sorted elements and their positions.
fn sort<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<Vec<T>> {
    let x = n.x()?;
    if x.rank()? == 0 {
        n.ignore_all();
        return Ok(vec![x, cx.scalar(0.0, DType::I64)?]);
    }
    let axis = x.axis(n.int("dim", -1)?)? as i64;
    let at = argsort(cx, n)?;
    Ok(vec![cx.call("relax.gather_elements", &[&x, &at], &[("axis", axis.into())])?, at])
}

fn argsort<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<T> {
    n.ignore(&["stable"]);
    let x = n.x()?;
    let axis = x.axis(n.int("dim", -1)?)? as i64;
    let attrs =
        [("axis", axis.into()), ("descending", n.flag("descending", false)?.into()), ("dtype", DType::I64.into())];
    cx.call("relax.argsort", &[&x], &attrs)
}

fn buckets<'a>(cx: &mut Cx<'a>, n: &Node<'a>, x: &str, boundaries: &str) -> Res<T> {
    let (x, boundaries) = (Operand::Tensor(n.t(x)?), Operand::Tensor(n.t(boundaries)?));
    let dtype = promote::result(&[&x, &boundaries]);
    let attrs = [("out_int32", n.flag("out_int32", false)?.into()), ("right", n.flag("right", false)?.into())];
    cx.call("relax.bucketize", &[&typed(cx, &x, dtype)?, &typed(cx, &boundaries, dtype)?], &attrs)
}

/// Keeps one triangle of each matrix, by comparing row and column indices.
fn triangle<'a>(cx: &mut Cx<'a>, n: &Node<'a>, keeps: &str) -> Res<T> {
    let (x, by) = (n.x()?, n.dim_if("diagonal")?.unwrap_or(Dim::Int(0)));
    let dims = x.dims_from(2)?;
    let rank = dims.len();
    let row = cx.unsqueeze(&cx.arange(&dims[rank - 2], DType::I64)?, &[1])?;
    let diagonal = cx.add(&row, &super::elementwise::scalar(cx, &Elem::Int(by), DType::I64)?)?;
    let column = cx.arange(&dims[rank - 1], DType::I64)?;
    let mask = cx.bin(keeps, &column, &diagonal)?;
    cx.select(&mask, &x, &cx.scalar(0.0, x.dtype())?)
}
