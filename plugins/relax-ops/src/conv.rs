//! Convolutions, in any layout that names each axis by one letter.

use crate::declare::*;
use plugin_api::arith::{apply, prove_equal};
use plugin_api::ir::records::prim::{ADD, FLOORDIV, MUL, SUB};
use plugin_api::ir::{Call, Dim, TensorType, Type};
use plugin_api::meta::{ArgKind, AttrType};
use plugin_api::op::{ArgDecl, AttrDecl, DefaultDecl, InferError, OpDecl};

const ARGS: &[ArgDecl] = &[arg("data", ArgKind::Tensor), arg("weight", ArgKind::Tensor)];

const fn attrs(
    ones: &'static [i64],
    zeros: &'static [i64],
    data: &'static str,
    kernel: &'static str,
) -> [AttrDecl; 8] {
    [
        attr_or("strides", AttrType::IntList, DefaultDecl::Ints(ones)),
        attr_or("padding", AttrType::IntList, DefaultDecl::Ints(zeros)),
        attr_or("dilation", AttrType::IntList, DefaultDecl::Ints(ones)),
        attr_or("groups", AttrType::Int, DefaultDecl::Int(1)),
        attr_or("data_layout", AttrType::Str, DefaultDecl::Str(data)),
        attr_or("kernel_layout", AttrType::Str, DefaultDecl::Str(kernel)),
        attr_or("out_layout", AttrType::OptStr, DefaultDecl::Str(data)),
        attr_or("out_dtype", AttrType::DType, DefaultDecl::None),
    ]
}

const CONV1D: &[AttrDecl] = &attrs(&[1], &[0, 0], "NCW", "OIW");
const CONV2D: &[AttrDecl] = &attrs(&[1, 1], &[0, 0, 0, 0], "NCHW", "OIHW");
const CONV3D: &[AttrDecl] = &attrs(&[1, 1, 1], &[0, 0, 0, 0, 0, 0], "NCDHW", "OIDHW");

pub(crate) const OPERATORS: &[OpDecl] = &[
    op("relax.nn.conv1d", "Convolution over one spatial axis.", ARGS, CONV1D, conv),
    op("relax.nn.conv2d", "Convolution over two spatial axes.", ARGS, CONV2D, conv),
    op("relax.nn.conv3d", "Convolution over three spatial axes.", ARGS, CONV3D, conv),
];

/// Letters of the spatial axes of a layout, in the order of `strides` and the like.
pub(crate) fn spatial(layout: &str) -> Vec<char> {
    "DHW".chars().filter(|axis| layout.contains(*axis)).collect()
}

/// Position of an axis in a layout.
pub(crate) fn position(layout: &str, axis: char) -> Result<usize, InferError> {
    let found = layout.chars().position(|letter| letter == axis);
    found.ok_or_else(|| InferError::wrong(format!("layout \"{layout}\" has no axis {axis}")))
}

/// Padding before and after each of `n` spatial axes: from one value, one for each axis, or one for each side.
pub(crate) fn padding(values: &[i64], n: usize) -> Result<Vec<(i64, i64)>, InferError> {
    match values.len() {
        1 => Ok(vec![(values[0], values[0]); n]),
        len if len == n => Ok(values.iter().map(|v| (*v, *v)).collect()),
        len if len == 2 * n => Ok((0..n).map(|i| (values[i], values[i + n])).collect()),
        len => wrong(format!("padding has {len} values; it must have 1, {n} or {}", 2 * n)),
    }
}

/// One value for each of `n` axes.
pub(crate) fn per_axis(values: &[i64], n: usize, what: &str) -> Result<Vec<i64>, InferError> {
    match values.len() {
        1 => Ok(vec![values[0]; n]),
        len if len == n => Ok(values.to_vec()),
        len => wrong(format!("{what} has {len} values; it must have 1 or {n}")),
    }
}

/// Checks that a layout fits a tensor, and gives the dimensions if they are known.
pub(crate) fn laid_out<'t>(t: &'t TensorType, layout: &str, what: &str) -> Result<Option<&'t [Dim]>, InferError> {
    let n = layout.chars().count() as i32;
    if t.ndim >= 0 && t.ndim != n {
        return wrong(format!("{what} has {} dimensions, but its layout \"{layout}\" has {n}", t.ndim));
    }
    Ok(t.shape.as_deref())
}

fn conv(call: Call<'_>) -> Inferred {
    let (data, weight) = (tensor(call, 0)?, tensor(call, 1)?);
    let layout = text(call, "data_layout").unwrap_or("NCHW");
    let kernel = text(call, "kernel_layout").unwrap_or("OIHW");
    let out = text(call, "out_layout").filter(|out| !out.is_empty()).unwrap_or(layout);
    let dtype = out_dtype(call, "out_dtype", same_dtype(data.dtype, weight.dtype)?);
    let ndim = out.chars().count() as i32;
    let known = (laid_out(&data, layout, "data")?, laid_out(&weight, kernel, "weight")?);
    let (Some(x), Some(w)) = known else {
        return Ok(Type::Tensor(TensorType { dtype, ndim, shape: None, vdevice: data.vdevice }));
    };
    let groups = int(call, "groups").unwrap_or(1);
    check_channels(&x[position(layout, 'C')?], &w[position(kernel, 'I')?], &w[position(kernel, 'O')?], groups)?;
    let axes = spatial(layout);
    let strides = per_axis(&ints(call, "strides").unwrap_or_default(), axes.len(), "strides")?;
    let dilation = per_axis(&ints(call, "dilation").unwrap_or_default(), axes.len(), "dilation")?;
    let padding = padding(&ints(call, "padding").unwrap_or_default(), axes.len())?;
    let mut dims = Vec::with_capacity(out.len());
    for letter in out.chars() {
        dims.push(match letter {
            'N' => x[position(layout, 'N')?].clone(),
            'C' => w[position(kernel, 'O')?].clone(),
            letter => {
                let i = position(&axes.iter().collect::<String>(), letter)?;
                let (size, window) = (&x[position(layout, letter)?], &w[position(kernel, letter)?]);
                extent(size, window, strides[i], dilation[i], padding[i])?
            }
        });
    }
    Ok(Type::Tensor(TensorType { dtype, ndim, shape: Some(dims), vdevice: data.vdevice }))
}

fn check_channels(data: &Dim, taken: &Dim, given: &Dim, groups: i64) -> Result<(), InferError> {
    let needed = apply(MUL, taken, &Dim::Int(groups));
    if prove_equal(data, &needed) == Some(false) {
        return wrong(format!(
            "data has {} channels, but the weight takes {} in each of {groups} groups",
            show(data),
            show(taken)
        ));
    }
    match given.as_int() {
        Some(given) if groups < 1 || given % groups != 0 => {
            wrong(format!("the weight gives {given} channels, which {groups} groups do not divide"))
        }
        _ => Ok(()),
    }
}

fn show(dim: &Dim) -> String {
    dim.as_int().map_or_else(|| "symbolic".to_string(), |v| v.to_string())
}

/// Number of positions of a window of `window` elements, `dilation` apart, moved by `stride`.
fn extent(size: &Dim, window: &Dim, stride: i64, dilation: i64, pad: (i64, i64)) -> Result<Dim, InferError> {
    if stride < 1 || dilation < 1 {
        return wrong(format!("strides and dilation must be positive, found {stride} and {dilation}"));
    }
    let reach = apply(ADD, &apply(MUL, &apply(SUB, window, &Dim::Int(1)), &Dim::Int(dilation)), &Dim::Int(1));
    let free = apply(SUB, &apply(ADD, size, &Dim::Int(pad.0 + pad.1)), &reach);
    if free.as_int().is_some_and(|free| free < 0) {
        return wrong(format!("a window of {} does not fit into {} elements", show(&reach), show(size)));
    }
    Ok(apply(ADD, &apply(FLOORDIV, &free, &Dim::Int(stride)), &Dim::Int(1)))
}
