//! Convolutions and transposed convolutions over one, two or three spatial axes, in any layout.

use crate::declare::*;
use crate::layout::Layout;
use crate::type_rules::*;
use plugin_api::arith::{apply, prove_equal};
use plugin_api::ir::{Call, Dim, TensorType, Type};
use plugin_api::metadata::{ArgKind, AttrType};
use plugin_api::scalar::PrimOp;
use plugin_api::typing::operators::{ArgDecl, AttrDecl, DefaultDecl, InferError, OpDecl};

const ARGS: &[ArgDecl] = &[arg("data", ArgKind::Tensor), arg("weight", ArgKind::Tensor)];

const fn list(name: &'static str, default: &'static [i64]) -> AttrDecl {
    attr_or(name, AttrType::RepeatedInts, DefaultDecl::Ints(default))
}

const fn attrs<const N: usize>(
    lists: [AttrDecl; N],
    data: &'static str,
    kernel: &'static str,
) -> ([AttrDecl; N], [AttrDecl; 5]) {
    let rest = [
        attr_or("groups", AttrType::Int, DefaultDecl::Int(1)),
        attr_or("data_layout", AttrType::Str, DefaultDecl::Str(data)),
        attr_or("kernel_layout", AttrType::Str, DefaultDecl::Str(kernel)),
        attr_or("out_layout", AttrType::OptStr, DefaultDecl::SameAs("data_layout")),
        attr_or("out_dtype", AttrType::DType, DefaultDecl::None),
    ];
    (lists, rest)
}

const fn forward(
    ones: &'static [i64],
    zeros: &'static [i64],
    data: &'static str,
    kernel: &'static str,
) -> [AttrDecl; 8] {
    let lists = [list("strides", ones), list("padding", zeros), list("dilation", ones)];
    let ([a, b, c], [d, e, f, g, h]) = attrs(lists, data, kernel);
    [a, b, c, d, e, f, g, h]
}

const fn transposed(
    ones: &'static [i64],
    zeros: &'static [i64],
    one_side: &'static [i64],
    data: &'static str,
    kernel: &'static str,
) -> [AttrDecl; 9] {
    let lists =
        [list("strides", ones), list("padding", zeros), list("output_padding", one_side), list("dilation", ones)];
    let ([a, b, c, d], [e, f, g, h, i]) = attrs(lists, data, kernel);
    [a, b, c, d, e, f, g, h, i]
}

const ONES: &[i64] = &[1, 1, 1];
const ZEROS: &[i64] = &[0; 6];

const fn first(list: &'static [i64], n: usize) -> &'static [i64] {
    list.split_at(n).0
}

const CONV1D: &[AttrDecl] = &forward(first(ONES, 1), first(ZEROS, 2), "NCW", "OIW");
const CONV2D: &[AttrDecl] = &forward(first(ONES, 2), first(ZEROS, 4), "NCHW", "OIHW");
const CONV3D: &[AttrDecl] = &forward(ONES, ZEROS, "NCDHW", "OIDHW");
const BACK1D: &[AttrDecl] = &transposed(first(ONES, 1), first(ZEROS, 2), first(ZEROS, 1), "NCW", "IOW");
const BACK2D: &[AttrDecl] = &transposed(first(ONES, 2), first(ZEROS, 4), first(ZEROS, 2), "NCHW", "IOHW");
const BACK3D: &[AttrDecl] = &transposed(ONES, ZEROS, first(ZEROS, 3), "NCDHW", "IODHW");

pub(crate) const OPERATORS: &[OpDecl] = &[
    op(
        "relax.nn.conv1d",
        documented!(
            "Convolution over one spatial axis.",
            CONV,
            r#"data: R.Tensor((1, 3, 32), "float32"), weight: R.Tensor((8, 3, 5), "float32")"#,
            "R.nn.conv1d(data, weight, strides=[2], padding=[2, 2])",
            r#"R.Tensor((1, 8, 16), "float32")"#
        ),
        ARGS,
        CONV1D,
        |call| conv(call, "NCW", "OIW"),
    ),
    op(
        "relax.nn.conv2d",
        documented!(
            "Convolution over two spatial axes.",
            CONV,
            r#"data: R.Tensor((1, 3, 32, 32), "float32"), weight: R.Tensor((8, 3, 5, 5), "float32")"#,
            "R.nn.conv2d(data, weight, strides=[2, 2], padding=[2, 2, 2, 2])",
            r#"R.Tensor((1, 8, 16, 16), "float32")"#
        ),
        ARGS,
        CONV2D,
        |call| conv(call, "NCHW", "OIHW"),
    ),
    op(
        "relax.nn.conv3d",
        documented!(
            "Convolution over three spatial axes.",
            CONV,
            r#"data: R.Tensor((1, 3, 8, 8, 8), "float32"), weight: R.Tensor((4, 3, 3, 3, 3), "float32")"#,
            "R.nn.conv3d(data, weight, padding=[1, 1, 1, 1, 1, 1])",
            r#"R.Tensor((1, 4, 8, 8, 8), "float32")"#
        ),
        ARGS,
        CONV3D,
        |call| conv(call, "NCDHW", "OIDHW"),
    ),
    op(
        "relax.nn.conv1d_transpose",
        documented!(
            "Transposed convolution over one spatial axis.",
            CONV_TRANSPOSE,
            r#"data: R.Tensor((1, 4, 8), "float32"), weight: R.Tensor((4, 6, 3), "float32")"#,
            "R.nn.conv1d_transpose(data, weight, strides=[2])",
            r#"R.Tensor((1, 6, 17), "float32")"#
        ),
        ARGS,
        BACK1D,
        |call| conv_transpose(call, "NCW", "IOW"),
    ),
    op(
        "relax.nn.conv2d_transpose",
        documented!(
            "Transposed convolution over two spatial axes.",
            CONV_TRANSPOSE,
            r#"data: R.Tensor((1, 4, 8, 8), "float32"), weight: R.Tensor((4, 6, 3, 3), "float32")"#,
            "R.nn.conv2d_transpose(data, weight, strides=[2, 2])",
            r#"R.Tensor((1, 6, 17, 17), "float32")"#
        ),
        ARGS,
        BACK2D,
        |call| conv_transpose(call, "NCHW", "IOHW"),
    ),
    op(
        "relax.nn.conv3d_transpose",
        documented!(
            "Transposed convolution over three spatial axes.",
            CONV_TRANSPOSE,
            r#"data: R.Tensor((1, 4, 4, 4, 4), "float32"), weight: R.Tensor((4, 6, 3, 3, 3), "float32")"#,
            "R.nn.conv3d_transpose(data, weight)",
            r#"R.Tensor((1, 6, 6, 6, 6), "float32")"#
        ),
        ARGS,
        BACK3D,
        |call| conv_transpose(call, "NCDHW", "IODHW"),
    ),
];

/// Maximum number of spatial axes.
const SPATIAL: usize = 3;

/// Reads an attribute with one value for each of `n` spatial axes.
pub(crate) fn per_axis(call: Call<'_>, key: &str, n: usize, least: i64) -> Result<[i64; SPATIAL], InferError> {
    let mut out = [least; SPATIAL];
    let Some(attr) = call.attr(key) else { return Ok(out) };
    let mut items = attr.items();
    let len = items.len();
    match attr.as_int() {
        Some(value) => out = [value; SPATIAL],
        None if len == 1 || len == n => {
            for (i, place) in out.iter_mut().enumerate().take(n) {
                if i == 0 || len > 1 {
                    *place = items.next().and_then(|item| item.as_int()).unwrap_or(least);
                }
            }
            if len == 1 {
                out = [out[0]; SPATIAL];
            }
        }
        None => return wrong(format!("{key} has {len} values; it must have 1 or {n}")),
    }
    match out[..n].iter().find(|value| **value < least) {
        Some(value) => wrong(format!("{key} must be at least {least}, found {value}")),
        None => Ok(out),
    }
}

/// Returns the total padding (both sides) of each of `n` spatial axes, and the padding of the first sides alone. The
/// attribute has one value, one per axis, or one per side of each axis (all first sides, then all second sides).
pub(crate) fn padding(call: Call<'_>, n: usize) -> Result<([i64; SPATIAL], [i64; SPATIAL]), InferError> {
    let values: Vec<i64> = ints(call, "padding").unwrap_or_default();
    let (mut both, mut before) = ([0; SPATIAL], [0; SPATIAL]);
    for i in 0..n {
        let (a, b) = match values.len() {
            0 => (0, 0),
            1 => (values[0], values[0]),
            len if len == n => (values[i], values[i]),
            len if len == 2 * n => (values[i], values[i + n]),
            len => return wrong(format!("padding has {len} values; it must have 1, {n} or {}", 2 * n)),
        };
        let sum = a.checked_add(b).filter(|_| a >= 0 && b >= 0);
        both[i] = sum.ok_or_else(|| InferError::wrong(format!("padding must not be negative, found {a} and {b}")))?;
        before[i] = a;
    }
    Ok((both, before))
}

/// Operands and attributes that forward and transposed convolutions share.
struct Conv<'a> {
    layout: Layout<'a>,
    kernel: Layout<'a>,
    out: Layout<'a>,
    /// Data type and device of the result.
    like: TensorType,
    data: TensorType,
    weight: TensorType,
    groups: i64,
}

impl<'a> Conv<'a> {
    fn new(call: Call<'a>, axes: &'a str, kernel_axes: &'a str) -> Result<Conv<'a>, InferError> {
        let (data, weight) = (tensor(call, 0)?, tensor(call, 1)?);
        let given = text(call, "data_layout").unwrap_or(axes);
        let layout = Layout::of(given, axes)?;
        let kernel = Layout::of(text(call, "kernel_layout").unwrap_or(kernel_axes), kernel_axes)?;
        let out = Layout::of(text(call, "out_layout").filter(|out| !out.is_empty()).unwrap_or(given), axes)?;
        let dtype = match asked_dtype(call, "out_dtype") {
            Some(dtype) => dtype,
            None => same_dtype(data.dtype, weight.dtype)?,
        };
        let like = TensorType { dtype, ndim: out.ndim(), shape: None, vdevice: same_device(&data, &weight)? };
        let groups = int(call, "groups").unwrap_or(1);
        if groups < 1 {
            return wrong(format!("groups must be positive, found {groups}"));
        }
        Ok(Conv { layout, kernel, out, like, data, weight, groups })
    }

    fn dims(&self) -> Result<Option<(&[Dim], &[Dim])>, InferError> {
        let data = self.layout.dims(&self.data, "data")?;
        Ok(data.zip(self.kernel.dims(&self.weight, "weight")?))
    }
}

fn conv(call: Call<'_>, axes: &str, kernel_axes: &str) -> Inferred {
    let conv = Conv::new(call, axes, kernel_axes)?;
    let Some((x, w)) = conv.dims()? else { return Ok(Type::Tensor(conv.like)) };
    let (taken, given) = (conv.kernel.size(w, b'I')?, conv.kernel.size(w, b'O')?);
    check_channels(&conv.layout.size(x, b'C')?, &taken, &given, conv.groups)?;
    let spatial = &axes.as_bytes()[2..];
    let n = spatial.len();
    let (strides, dilation) = (per_axis(call, "strides", n, 1)?, per_axis(call, "dilation", n, 1)?);
    let (padding, _) = padding(call, n)?;
    let dims = conv.out.place(|letter| match spatial.iter().position(|axis| *axis == letter) {
        Some(i) => {
            let (size, window) = (conv.layout.size(x, letter)?, conv.kernel.size(w, letter)?);
            extent(letter, &size, &reach(&window, dilation[i]), strides[i], padding[i])
        }
        None if letter == b'N' => conv.layout.size(x, b'N'),
        None => Ok(given.clone()),
    })?;
    Ok(with_shape(&conv.like, conv.like.ndim, Some(dims)))
}

fn check_channels(data: &Dim, taken: &Dim, given: &Dim, groups: i64) -> Result<(), InferError> {
    let needed = apply(PrimOp::Mul, taken, &Dim::Int(groups));
    if prove_equal(data, &needed) == Some(false) {
        return wrong(format!(
            "data has {} input channels, but the weight takes {} in each of {groups} groups, so {} in all",
            show(data),
            show(taken),
            show(&needed)
        ));
    }
    match given.as_int() {
        Some(given) if given % groups != 0 => {
            wrong(format!("the weight has {given} output channels, which is not a multiple of {groups} groups"))
        }
        _ => Ok(()),
    }
}

/// Returns the distance from the first to the last element that a window touches.
pub(crate) fn reach(window: &Dim, dilation: i64) -> Dim {
    apply(
        PrimOp::Add,
        &apply(PrimOp::Mul, &apply(PrimOp::Sub, window, &Dim::Int(1)), &Dim::Int(dilation)),
        &Dim::Int(1),
    )
}

/// Returns the number of positions of a window over `size` elements plus `padding`.
pub(crate) fn extent(axis: u8, size: &Dim, reach: &Dim, stride: i64, padding: i64) -> Result<Dim, InferError> {
    let free = apply(PrimOp::Sub, &apply(PrimOp::Add, size, &Dim::Int(padding)), reach);
    if free.as_int().is_some_and(|free| free < 0) {
        return wrong(format!(
            "a window over {} elements does not fit into axis {} of {} elements with padding of {padding}",
            show(reach),
            axis as char,
            show(size)
        ));
    }
    Ok(apply(PrimOp::Add, &apply(PrimOp::FloorDiv, &free, &Dim::Int(stride)), &Dim::Int(1)))
}

fn conv_transpose(call: Call<'_>, axes: &str, kernel_axes: &str) -> Inferred {
    let conv = Conv::new(call, axes, kernel_axes)?;
    let Some((x, w)) = conv.dims()? else { return Ok(Type::Tensor(conv.like)) };
    let (channels, taken) = (conv.layout.size(x, b'C')?, conv.kernel.size(w, b'I')?);
    if prove_equal(&channels, &taken) == Some(false) {
        let (channels, taken) = (show(&channels), show(&taken));
        return wrong(format!("data has {channels} input channels, but the weight takes {taken}"));
    }
    if let Some(taken) = taken.as_int().filter(|taken| taken % conv.groups != 0) {
        return wrong(format!(
            "the weight takes {taken} input channels, which is not a multiple of {} groups",
            conv.groups
        ));
    }
    let spatial = &axes.as_bytes()[2..];
    let n = spatial.len();
    let (strides, dilation) = (per_axis(call, "strides", n, 1)?, per_axis(call, "dilation", n, 1)?);
    let more = per_axis(call, "output_padding", n, 0)?;
    if let Some(i) = (0..n).find(|i| more[*i] >= strides[*i]) {
        return wrong(format!("output_padding must be less than the stride, found {} and {}", more[i], strides[i]));
    }
    let (padding, _) = padding(call, n)?;
    let given = apply(PrimOp::Mul, &conv.kernel.size(w, b'O')?, &Dim::Int(conv.groups));
    let dims = conv.out.place(|letter| match spatial.iter().position(|axis| *axis == letter) {
        Some(i) => {
            let (size, window) = (conv.layout.size(x, letter)?, conv.kernel.size(w, letter)?);
            let steps = apply(PrimOp::Mul, &apply(PrimOp::Sub, &size, &Dim::Int(1)), &Dim::Int(strides[i]));
            let rest = apply(PrimOp::Add, &reach(&window, dilation[i]), &Dim::Int(more[i].saturating_sub(padding[i])));
            Ok(apply(PrimOp::Add, &steps, &rest))
        }
        None if letter == b'N' => conv.layout.size(x, b'N'),
        None => Ok(given.clone()),
    })?;
    Ok(with_shape(&conv.like, conv.like.ndim, Some(dims)))
}
