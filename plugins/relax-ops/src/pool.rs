//! Pooling, in any layout that names each axis by one letter.

use crate::conv::{laid_out, padding, per_axis, position, spatial};
use crate::declare::*;
use plugin_api::arith::apply;
use plugin_api::ir::records::prim::{ADD, FLOORDIV, SUB};
use plugin_api::ir::{Call, Dim, TensorType, Type};
use plugin_api::meta::AttrType;
use plugin_api::op::{AttrDecl, DefaultDecl, OpDecl};

const fn attrs(ones: &'static [i64], zeros: &'static [i64], layout: &'static str, count_pad: bool) -> [AttrDecl; 8] {
    [
        attr_or("pool_size", AttrType::IntList, DefaultDecl::Ints(ones)),
        attr_or("strides", AttrType::IntList, DefaultDecl::Ints(ones)),
        attr_or("dilation", AttrType::IntList, DefaultDecl::Ints(ones)),
        attr_or("padding", AttrType::IntList, DefaultDecl::Ints(zeros)),
        attr_or("ceil_mode", AttrType::Bool, DefaultDecl::Bool(false)),
        attr_or("count_include_pad", AttrType::Bool, DefaultDecl::Bool(count_pad)),
        attr_or("layout", AttrType::Str, DefaultDecl::Str(layout)),
        attr_or("out_layout", AttrType::OptStr, DefaultDecl::Str(layout)),
    ]
}

const MAX1: &[AttrDecl] = &attrs(&[1], &[0, 0], "NCW", false);
const MAX2: &[AttrDecl] = &attrs(&[1, 1], &[0, 0, 0, 0], "NCHW", false);
const MAX3: &[AttrDecl] = &attrs(&[1, 1, 1], &[0, 0, 0, 0, 0, 0], "NCDHW", false);
const AVG1: &[AttrDecl] = &attrs(&[1], &[0, 0], "NCW", true);
const AVG2: &[AttrDecl] = &attrs(&[1, 1], &[0, 0, 0, 0], "NCHW", false);
const AVG3: &[AttrDecl] = &attrs(&[1, 1, 1], &[0, 0, 0, 0, 0, 0], "NCDHW", true);
const ADAPTIVE: &[AttrDecl] = &[
    attr_or("output_size", AttrType::OptIntList, DefaultDecl::None),
    attr_or("layout", AttrType::Str, DefaultDecl::Str("NCHW")),
    attr_or("out_layout", AttrType::OptStr, DefaultDecl::Str("NCHW")),
];

pub(crate) const OPERATORS: &[OpDecl] = &[
    op("relax.nn.max_pool1d", "Largest element of each window, over one axis.", DATA, MAX1, pool),
    op("relax.nn.max_pool2d", "Largest element of each window, over two axes.", DATA, MAX2, pool),
    op("relax.nn.max_pool3d", "Largest element of each window, over three axes.", DATA, MAX3, pool),
    op("relax.nn.avg_pool1d", "Mean of each window, over one axis.", DATA, AVG1, pool),
    op("relax.nn.avg_pool2d", "Mean of each window, over two axes.", DATA, AVG2, pool),
    op("relax.nn.avg_pool3d", "Mean of each window, over three axes.", DATA, AVG3, pool),
    op("relax.nn.adaptive_avg_pool2d", "Mean, to a given size of the spatial axes.", DATA, ADAPTIVE, adaptive),
];

fn pool(call: Call<'_>) -> Inferred {
    let data = tensor(call, 0)?;
    let layout = text(call, "layout").unwrap_or("NCHW");
    let out = text(call, "out_layout").filter(|out| !out.is_empty()).unwrap_or(layout);
    let ndim = out.chars().count() as i32;
    let Some(x) = laid_out(&data, layout, "data")? else { return Ok(with_shape(&data, ndim, None)) };
    let axes = spatial(layout);
    let n = axes.len();
    let window = per_axis(&ints(call, "pool_size").unwrap_or_default(), n, "pool_size")?;
    let strides = per_axis(&ints(call, "strides").unwrap_or_default(), n, "strides")?;
    let dilation = per_axis(&ints(call, "dilation").unwrap_or_default(), n, "dilation")?;
    let padding = padding(&ints(call, "padding").unwrap_or_default(), n)?;
    let ceil = flag(call, "ceil_mode");
    let mut dims = Vec::with_capacity(out.len());
    for letter in out.chars() {
        let size = x[position(layout, letter)?].clone();
        let Some(i) = axes.iter().position(|axis| *axis == letter) else {
            dims.push(size);
            continue;
        };
        if strides[i] < 1 || dilation[i] < 1 || window[i] < 1 {
            return wrong("pool_size, strides and dilation must be positive".to_string());
        }
        let reach = dilation[i] * (window[i] - 1) + 1;
        let extra = padding[i].0 + padding[i].1 + if ceil { strides[i] - 1 } else { 0 };
        let free = apply(SUB, &apply(ADD, &size, &Dim::Int(extra)), &Dim::Int(reach));
        if free.as_int().is_some_and(|free| free < 0) {
            return wrong(format!("a window of {reach} does not fit into axis {letter} of the data"));
        }
        dims.push(apply(ADD, &apply(FLOORDIV, &free, &Dim::Int(strides[i])), &Dim::Int(1)));
    }
    Ok(with_shape(&data, ndim, Some(dims)))
}

fn adaptive(call: Call<'_>) -> Inferred {
    let data = tensor(call, 0)?;
    let layout = text(call, "layout").unwrap_or("NCHW");
    let Some(x) = laid_out(&data, layout, "data")? else {
        return Ok(with_shape(&data, layout.chars().count() as i32, None));
    };
    let axes = spatial(layout);
    let mut dims = x.to_vec();
    if let Some(sizes) = ints(call, "output_size") {
        let sizes = per_axis(&sizes, axes.len(), "output_size")?;
        for (letter, size) in axes.into_iter().zip(sizes) {
            dims[position(layout, letter)?] = Dim::Int(size);
        }
    }
    Ok(Type::Tensor(TensorType { shape: Some(dims), ..data }))
}
