//! Pooling, in any layout.

use crate::conv::{extent, padding, per_axis, reach};
use crate::declare::*;
use crate::layout::Layout;
use crate::type_rules::*;
use plugin_api::arith::apply;
use plugin_api::ir::{Call, Dim};
use plugin_api::metadata::AttrType;
use plugin_api::scalar::PrimOp;
use plugin_api::typing::operators::{AttrDecl, DefaultDecl, InferError, OpDecl};

const fn attrs(ones: &'static [i64], zeros: &'static [i64], layout: &'static str, count_pad: bool) -> [AttrDecl; 8] {
    [
        attr_or("pool_size", AttrType::RepeatedInts, DefaultDecl::Ints(ones)),
        attr_or("strides", AttrType::RepeatedInts, DefaultDecl::Ints(ones)),
        by_name(attr_or("dilation", AttrType::RepeatedInts, DefaultDecl::Ints(ones))),
        attr_or("padding", AttrType::RepeatedInts, DefaultDecl::Ints(zeros)),
        attr_or("ceil_mode", AttrType::Bool, DefaultDecl::Bool(false)),
        attr_or("count_include_pad", AttrType::Bool, DefaultDecl::Bool(count_pad)),
        attr_or("layout", AttrType::Str, DefaultDecl::Str(layout)),
        attr_or("out_layout", AttrType::OptStr, DefaultDecl::SameAs("layout")),
    ]
}

const MAX1: &[AttrDecl] = &attrs(&[1], &[0, 0], "NCW", false);
const MAX2: &[AttrDecl] = &attrs(&[1, 1], &[0, 0, 0, 0], "NCHW", false);
const MAX3: &[AttrDecl] = &attrs(&[1, 1, 1], &[0, 0, 0, 0, 0, 0], "NCDHW", false);
const AVG1: &[AttrDecl] = &attrs(&[1], &[0, 0], "NCW", true);
const AVG2: &[AttrDecl] = &attrs(&[1, 1], &[0, 0, 0, 0], "NCHW", false);
const AVG3: &[AttrDecl] = &attrs(&[1, 1, 1], &[0, 0, 0, 0, 0, 0], "NCDHW", true);
const fn sized(layout: &'static str) -> [AttrDecl; 3] {
    [
        attr_or("output_size", AttrType::OptIntList, DefaultDecl::None),
        attr_or("layout", AttrType::Str, DefaultDecl::Str(layout)),
        attr_or("out_layout", AttrType::OptStr, DefaultDecl::SameAs("layout")),
    ]
}

const SIZED1: &[AttrDecl] = &sized("NCW");
const SIZED2: &[AttrDecl] = &sized("NCHW");
const SIZED3: &[AttrDecl] = &sized("NCDHW");

pub(crate) const OPERATORS: &[OpDecl] = &[
    op(
        "relax.nn.max_pool1d",
        documented!(
            "The largest element of each window, over one axis.",
            POOL,
            r#"data: R.Tensor((1, 4, 8), "float32")"#,
            "R.nn.max_pool1d(data, pool_size=[2], strides=[2])",
            r#"R.Tensor((1, 4, 4), "float32")"#
        ),
        DATA,
        MAX1,
        |call| pool(call, "NCW"),
    ),
    op(
        "relax.nn.max_pool2d",
        documented!(
            "The largest element of each window, over two axes.",
            POOL,
            r#"data: R.Tensor((1, 4, 8, 8), "float32")"#,
            "R.nn.max_pool2d(data, pool_size=[2, 2], strides=[2, 2])",
            r#"R.Tensor((1, 4, 4, 4), "float32")"#
        ),
        DATA,
        MAX2,
        |call| pool(call, "NCHW"),
    ),
    op(
        "relax.nn.max_pool3d",
        documented!(
            "The largest element of each window, over three axes.",
            POOL,
            r#"data: R.Tensor((1, 4, 8, 8, 8), "float32")"#,
            "R.nn.max_pool3d(data, pool_size=[2, 2, 2], strides=[2, 2, 2])",
            r#"R.Tensor((1, 4, 4, 4, 4), "float32")"#
        ),
        DATA,
        MAX3,
        |call| pool(call, "NCDHW"),
    ),
    op(
        "relax.nn.avg_pool1d",
        documented!(
            "The mean of each window, over one axis.",
            POOL,
            r#"data: R.Tensor((1, 4, 8), "float32")"#,
            "R.nn.avg_pool1d(data, pool_size=[2], strides=[2])",
            r#"R.Tensor((1, 4, 4), "float32")"#
        ),
        DATA,
        AVG1,
        |call| pool(call, "NCW"),
    ),
    op(
        "relax.nn.avg_pool2d",
        documented!(
            "The mean of each window, over two axes.",
            POOL,
            r#"data: R.Tensor((1, 4, 8, 8), "float32")"#,
            "R.nn.avg_pool2d(data, pool_size=[2, 2], strides=[2, 2])",
            r#"R.Tensor((1, 4, 4, 4), "float32")"#
        ),
        DATA,
        AVG2,
        |call| pool(call, "NCHW"),
    ),
    op(
        "relax.nn.avg_pool3d",
        documented!(
            "The mean of each window, over three axes.",
            POOL,
            r#"data: R.Tensor((1, 4, 8, 8, 8), "float32")"#,
            "R.nn.avg_pool3d(data, pool_size=[2, 2, 2], strides=[2, 2, 2])",
            r#"R.Tensor((1, 4, 4, 4, 4), "float32")"#
        ),
        DATA,
        AVG3,
        |call| pool(call, "NCDHW"),
    ),
    op(
        "relax.nn.adaptive_avg_pool1d",
        documented!(
            "Average pooling of the spatial axis to a given size.",
            ADAPTIVE,
            r#"data: R.Tensor((1, 4, 8), "float32")"#,
            "R.nn.adaptive_avg_pool1d(data, output_size=[2])",
            r#"R.Tensor((1, 4, 2), "float32")"#
        ),
        DATA,
        SIZED1,
        |call| adaptive(call, "NCW"),
    ),
    op(
        "relax.nn.adaptive_avg_pool2d",
        documented!(
            "Average pooling of the spatial axes to given sizes.",
            ADAPTIVE,
            r#"data: R.Tensor((1, 4, 8, 8), "float32")"#,
            "R.nn.adaptive_avg_pool2d(data, output_size=[1, 1])",
            r#"R.Tensor((1, 4, 1, 1), "float32")"#
        ),
        DATA,
        SIZED2,
        |call| adaptive(call, "NCHW"),
    ),
    op(
        "relax.nn.adaptive_avg_pool3d",
        documented!(
            "Average pooling of the spatial axes to given sizes.",
            ADAPTIVE,
            r#"data: R.Tensor((1, 4, 8, 8, 8), "float32")"#,
            "R.nn.adaptive_avg_pool3d(data, output_size=[2, 2, 2])",
            r#"R.Tensor((1, 4, 2, 2, 2), "float32")"#
        ),
        DATA,
        SIZED3,
        |call| adaptive(call, "NCDHW"),
    ),
];

fn pool(call: Call<'_>, axes: &str) -> Inferred {
    let data = tensor(call, 0)?;
    let (layout, out) = layouts(call, axes)?;
    let Some(x) = layout.dims(&data, "data")? else { return Ok(with_shape(&data, out.ndim(), None)) };
    let spatial = &axes.as_bytes()[2..];
    let n = spatial.len();
    let (window, strides) = (per_axis(call, "pool_size", n, 1)?, per_axis(call, "strides", n, 1)?);
    let dilation = per_axis(call, "dilation", n, 1)?;
    let (both, before) = padding(call, n)?;
    let ceil = flag(call, "ceil_mode");
    let dims = out.place(|letter| {
        let size = layout.size(x, letter)?;
        let Some(i) = spatial.iter().position(|axis| *axis == letter) else { return Ok(size) };
        let reach = reach(&Dim::Int(window[i]), dilation[i]);
        match ceil {
            false => extent(letter, &size, &reach, strides[i], both[i]),
            true => {
                let up = extent(letter, &size, &reach, strides[i], both[i].saturating_add(strides[i] - 1))?;
                // A window that reaches beyond the trailing padding plus one step cannot start after the last element.
                match reach.as_int() {
                    Some(reach) if both[i] - before[i] + strides[i] <= reach => Ok(up),
                    _ => Ok(starts_inside(&up, &size, before[i], strides[i])),
                }
            }
        }
    })?;
    Ok(with_shape(&data, out.ndim(), Some(dims)))
}

/// Drops the last window if it would start past the last element, which `ceil_mode` can cause. As in TVM, at most one
/// window is dropped.
fn starts_inside(positions: &Dim, size: &Dim, before: i64, stride: i64) -> Dim {
    let last = apply(PrimOp::Sub, &apply(PrimOp::Add, size, &Dim::Int(before)), &Dim::Int(1));
    let inside = apply(PrimOp::Add, &apply(PrimOp::FloorDiv, &last, &Dim::Int(stride)), &Dim::Int(1));
    apply(PrimOp::Max, &apply(PrimOp::Min, positions, &inside), &apply(PrimOp::Sub, positions, &Dim::Int(1)))
}

fn layouts<'a>(call: Call<'a>, axes: &'a str) -> Result<(Layout<'a>, Layout<'a>), InferError> {
    let layout = text(call, "layout").unwrap_or(axes);
    let out = text(call, "out_layout").filter(|out| !out.is_empty()).unwrap_or(layout);
    Ok((Layout::of(layout, axes)?, Layout::of(out, axes)?))
}

fn adaptive(call: Call<'_>, axes: &str) -> Inferred {
    let data = tensor(call, 0)?;
    let (layout, out) = layouts(call, axes)?;
    let Some(x) = layout.dims(&data, "data")? else { return Ok(with_shape(&data, out.ndim(), None)) };
    let spatial = &axes.as_bytes()[2..];
    let output_size = call.attr("output_size").filter(|attr| !attr.is_none());
    // TVM repeats a single size while it parses.
    if let Some(found) = output_size.map(|sizes| sizes.items().count()).filter(|found| *found != spatial.len()) {
        return wrong(format!("attribute `output_size` must have {} integers, found {found}", spatial.len()));
    }
    let given = output_size.is_some();
    let sizes = if given { Some(per_axis(call, "output_size", spatial.len(), 1)?) } else { None };
    let dims = out.place(|letter| match (sizes, spatial.iter().position(|axis| *axis == letter)) {
        (Some(sizes), Some(i)) => Ok(Dim::Int(sizes[i])),
        _ => layout.size(x, letter),
    })?;
    Ok(with_shape(&data, out.ndim(), Some(dims)))
}
