//! Convolutions and matrix products.

use super::{Row, one};
use crate::cx::Cx;
use crate::known::{self, add, sub};
use crate::node::Node;
use crate::value::{Res, T};
use importer::pad::padded;
pub(super) use importer::windows::{LARGEST, Windows, along_channels, conv_call, spatial, with_bias};
use plugin_api::prelude::*;

pub(super) const ROWS: &[Row] = &[
    one("Conv", 7, |cx, n| {
        let (x, w) = (n.input(0)?, n.input(1)?);
        let out = conv(cx, n, &x, &w)?;
        with_bias(cx, out, n.opt(2)?)
    }),
    one("ConvTranspose", 7, conv_transpose),
    one("DeformConv", 19, deform_conv),
    one("ConvInteger", 10, conv_integer),
    one("MatMul", 7, |cx, n| cx.matmul(&n.input(0)?, &n.input(1)?)),
    one("MatMulInteger", 10, matmul_integer),
    one("Gemm", 7, gemm_product),
    one("Einsum", 12, |cx, n| {
        let equation = n.text_if("equation")?.ok_or("its attribute `equation` is missing")?;
        let operands: Vec<V> = n.all()?.iter().map(|x| cx.v(x)).collect::<Res<_>>()?;
        let subscripts = equation.replace(' ', "");
        T::of_v(cx, cx.call_v("relax.einsum", &[cx.b.tuple(&operands)], &[("subscripts", subscripts.as_str().into())])?)
    }),
];

/// Returns windows without padding.
fn unpadded_windows(n: &Node<'_>, count: usize, kernel: Vec<i64>) -> Res<Windows> {
    let list = |name: &'static str| numbers(n, name, 1, count);
    let (strides, dilations) = (list("strides")?, list("dilations")?);
    if strides.iter().chain(&dilations).chain(&kernel).any(|value| !(1..LARGEST).contains(value)) {
        return Err("strides, dilations and kernel sizes must be positive, and small enough for a tensor".to_string());
    }
    Ok(Windows { kernel, strides, dilations, pads: vec![0; 2 * count] })
}

/// Reads the windows of a node.
pub(super) fn read_windows(n: &Node<'_>, sizes: &[Dim], kernel: Vec<i64>) -> Res<Windows> {
    let count = sizes.len();
    let mut windows = unpadded_windows(n, count, kernel)?;
    windows.pads = match n.text("auto_pad", "NOTSET")? {
        "NOTSET" | "" => numbers(n, "pads", 0, 2 * count)?,
        "VALID" => {
            n.ignore(&["pads"]);
            windows.pads
        }
        mode @ ("SAME_UPPER" | "SAME_LOWER") => {
            n.ignore(&["pads"]);
            let (starts, ends) = same_pads(&windows, sizes, mode == "SAME_UPPER");
            let pads: Option<Vec<i64>> = starts.iter().chain(&ends).map(Dim::as_int).collect();
            pads.ok_or("its padding depends on a symbolic size; specify the input sizes")?
        }
        other => return Err(format!("its attribute `auto_pad` is `{other}`, which ONNX does not define")),
    };
    if windows.pads.iter().any(|pad| pad.unsigned_abs() >= LARGEST as u64) {
        return Err("its padding is too large".to_string());
    }
    Ok(windows)
}

/// Returns the padding at the start of each axis, and at the end, with which the result has one element per stride.
fn same_pads(windows: &Windows, sizes: &[Dim], upper: bool) -> (Vec<Dim>, Vec<Dim>) {
    let pads = sizes.iter().enumerate().map(|(axis, size)| {
        let (reach, stride) = (windows.reach(axis), windows.strides[axis]);
        // The last window starts before the end, so that a window of one element needs no padding.
        let total = match (stride, reach) {
            (1, _) | (_, 1) => Dim::Int(reach - 1),
            _ => {
                let last = known::mul(&sub(&strides_in(size, stride), &Dim::Int(1)), &Dim::Int(stride));
                known::max(&sub(&add(&last, &Dim::Int(reach)), size), &Dim::Int(0))
            }
        };
        let (less, two) = (known::div(&total, &Dim::Int(2)), Dim::Int(2));
        let more = known::div(&add(&total, &Dim::Int(1)), &two);
        if upper { (less, more) } else { (more, less) }
    });
    pads.unzip()
}

/// Returns the numbers in an attribute; if the attribute is missing, all are `default`.
fn numbers(n: &Node<'_>, name: &'static str, default: i64, len: usize) -> Res<Vec<i64>> {
    let list = n.ints(name)?.filter(|list| !list.is_empty()).unwrap_or_else(|| vec![default; len]);
    match list.len() == len {
        true => Ok(list),
        false => Err(format!("its attribute `{name}` has {} numbers; expected {len}", list.len())),
    }
}

/// Returns the number of strides that cover a size; the last stride may be shorter.
fn strides_in(size: &Dim, stride: i64) -> Dim {
    known::div(&add(size, &Dim::Int(stride - 1)), &Dim::Int(stride))
}

/// A tensor and the windows over it.
pub(crate) struct Framed {
    pub(crate) x: T,
    pub(crate) windows: Windows,
    /// The spatial sizes of the result, if the tensor is already padded.
    out: Option<Vec<Dim>>,
}

impl Framed {
    /// Reads the windows of a node. Padding that depends on a symbolic size is added to the tensor here, with elements
    /// `fill`.
    pub(crate) fn of<'a>(cx: &Cx<'a>, n: &Node<'a>, x: &T, kernel: Vec<i64>, fill: f64) -> Res<Framed> {
        let sizes = spatial(x)?;
        let mode = n.text("auto_pad", "NOTSET")?;
        if mode.starts_with("SAME") {
            let windows = unpadded_windows(n, sizes.len(), kernel.clone())?;
            let (starts, ends) = same_pads(&windows, &sizes, mode == "SAME_UPPER");
            if starts.iter().chain(&ends).any(|by| by.as_int().is_none()) {
                n.ignore(&["pads"]);
                let all = |list: Vec<Dim>| [Dim::Int(0), Dim::Int(0)].into_iter().chain(list).collect::<Vec<Dim>>();
                let fill = cx.scalar(fill, x.dtype())?;
                let x = padded(cx, x.clone(), &all(starts), &all(ends), "constant", &fill)?;
                let out = sizes.iter().zip(&windows.strides).map(|(size, stride)| strides_in(size, *stride)).collect();
                return Ok(Framed { x, windows, out: Some(out) });
            }
        }
        Ok(Framed { x: x.clone(), windows: read_windows(n, &sizes, kernel)?, out: None })
    }

    /// Returns true if the tensor is already padded.
    pub(crate) fn is_padded(&self) -> bool {
        self.out.is_some()
    }

    /// Returns a result of the windows, with its sizes expressed in terms of the sizes of the unpadded tensor.
    pub(crate) fn result(&self, cx: &Cx<'_>, out: T) -> Res<T> {
        let Some(sizes) = &self.out else { return Ok(out) };
        let dims = out.dims()?.into_iter().take(2).chain(sizes.iter().cloned()).collect();
        cx.as_shape(&out, dims)
    }
}

/// Returns the sizes of a kernel. The attribute of the node may repeat them.
fn kernel_of(n: &Node<'_>, w: &T) -> Res<Vec<i64>> {
    let sizes = w.dims()?.get(2..).unwrap_or_default().iter().map(Dim::as_int).collect::<Option<Vec<i64>>>();
    let sizes = sizes.ok_or("the sizes of its kernel are not known")?;
    match n.ints("kernel_shape")? {
        Some(said) if !said.is_empty() && said != sizes => {
            Err(format!("its attribute `kernel_shape` is {said:?}, but the shape of its kernel is {sizes:?}"))
        }
        _ => Ok(sizes),
    }
}

pub(super) fn conv<'a>(cx: &Cx<'a>, n: &Node<'a>, x: &T, w: &T) -> Res<T> {
    let framed = Framed::of(cx, n, x, kernel_of(n, w)?, 0.0)?;
    let group = n.int("group", 1)?;
    let [strides, padding, dilation] = framed.windows.attrs();
    let op = format!("relax.nn.conv{}d", framed.windows.kernel.len());
    let out = conv_call(cx, &op, &framed.x, w, &[strides, padding, dilation, ("groups", group.into())])?;
    framed.result(cx, out)
}

fn deform_conv<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<T> {
    let (x, w, offset) = (n.input(0)?, n.input(1)?, n.input(2)?);
    let sizes = spatial(&x)?;
    if sizes.len() != 2 {
        return Err(format!("it has {} spatial axes; two are supported", sizes.len()));
    }
    let windows = read_windows(n, &sizes, kernel_of(n, &w)?)?;
    let groups = n.int("offset_group", 1)?;
    let mask = match n.opt(4)? {
        Some(mask) => mask,
        None => {
            let taps = windows.kernel.iter().product::<i64>().saturating_mul(groups);
            cx.filled(1.0, x.dtype(), &[x.dim(0)?, Dim::Int(taps), offset.dim(2)?, offset.dim(3)?])?
        }
    };
    let [strides, padding, dilation] = windows.attrs();
    let attrs = [strides, padding, dilation, ("groups", n.int("group", 1)?.into()), ("offset_groups", groups.into())];
    let out = cx.call("onnx.deform_conv", &[&x, &w, &offset, &mask], &attrs)?;
    with_bias(cx, out, n.opt(3)?)
}

fn conv_transpose<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<T> {
    let (x, w) = (n.input(0)?, n.input(1)?);
    let sizes = spatial(&x)?;
    let kernel = kernel_of(n, &w)?;
    let count = sizes.len();
    let group = n.int("group", 1)?;
    let zeros = vec![0; count];
    let more = n.ints("output_padding")?.unwrap_or_else(|| zeros.clone());
    let mut windows = match n.text("auto_pad", "NOTSET")? {
        "SAME_UPPER" | "SAME_LOWER" => Windows {
            kernel: kernel.clone(),
            strides: n.ints("strides")?.unwrap_or(vec![1; count]),
            dilations: n.ints("dilations")?.unwrap_or(vec![1; count]),
            pads: vec![0; 2 * count],
        },
        _ => read_windows(n, &sizes, kernel.clone())?,
    };
    let lists = [&windows.strides, &windows.dilations];
    if lists.iter().any(|list| list.len() != count || list.iter().any(|value| !(1..LARGEST).contains(value))) {
        return Err("its strides and dilations must have one positive number per spatial axis".to_string());
    }
    if more.len() != count || more.iter().any(|more| !(0..LARGEST).contains(more)) {
        return Err("its output padding must have one number of 0 or more per spatial axis".to_string());
    }
    let wanted = n.ints("output_shape")?.map(|shape| shape[shape.len().saturating_sub(count)..].to_vec());
    let auto = n.text("auto_pad", "NOTSET")?.to_string();
    if wanted.is_some() || auto.starts_with("SAME") {
        for axis in 0..count {
            let (stride, reach) = (windows.strides[axis], windows.reach(axis));
            let total = match &wanted {
                // The result has `stride` elements for each element of the input.
                None => more[axis] + reach - stride,
                Some(wanted) => {
                    let size = sizes[axis].as_int().filter(|size| *size < LARGEST);
                    let size = size.ok_or("its padding depends on a symbolic size; specify the input sizes")?;
                    let out = wanted.get(axis).copied().filter(|out| (0..1 << 61).contains(out));
                    let out = out.ok_or("its output shape must have one size per spatial axis")?;
                    stride * (size - 1) + more[axis] + reach - out
                }
            };
            // If the result is larger than all windows, the remaining elements are added at its end.
            let less = total / 2;
            let (start, end) = match auto.as_str() {
                _ if total < 0 => (0, total),
                "SAME_UPPER" => (less, total - less),
                _ => (total - less, less),
            };
            windows.pads[axis] = start;
            windows.pads[count + axis] = end;
        }
        n.ignore(&["pads"]);
    }
    let fits = windows.pads.iter().all(|pad| *pad >= 0)
        && more.iter().zip(&windows.strides).all(|(more, stride)| more < stride);
    if !fits {
        return unusual(cx, n, &x, &w, &windows, &more);
    }
    let [strides, padding, dilation] = windows.attrs();
    let attrs = [strides, padding, ("output_padding", more.into()), dilation, ("groups", group.into())];
    let out = cx.call(&format!("relax.nn.conv{count}d_transpose"), &[&x, &w], &attrs)?;
    with_bias(cx, out, n.opt(2)?)
}

/// Emits a transposed convolution whose result extends beyond all windows: computes it without padding, then adds zeros
/// or removes elements.
fn unusual<'a>(cx: &Cx<'a>, n: &Node<'a>, x: &T, w: &T, windows: &Windows, more: &[i64]) -> Res<T> {
    let count = more.len();
    let attrs = [
        ("strides", windows.strides.clone().into()),
        ("padding", vec![0i64; 2 * count].into()),
        ("output_padding", vec![0i64; count].into()),
        ("dilation", windows.dilations.clone().into()),
        ("groups", n.int("group", 1)?.into()),
    ];
    let whole = cx.call(&format!("relax.nn.conv{count}d_transpose"), &[x, w], &attrs)?;
    let (mut before, mut after) = (vec![Dim::Int(0); 2], vec![Dim::Int(0); 2]);
    before.extend(windows.pads[..count].iter().map(|pad| Dim::Int(-pad)));
    after.extend(windows.pads[count..].iter().zip(more).map(|(pad, more)| Dim::Int(more - pad)));
    let zero = cx.scalar(0.0, x.dtype())?;
    let out = padded(cx, whole, &before, &after, "constant", &zero)?;
    with_bias(cx, out, n.opt(2)?)
}

/// Converts a tensor to int32 and subtracts its zero point, which may be a vector along an axis.
pub(super) fn centered(cx: &Cx<'_>, x: &T, zero: Option<T>, axis: usize) -> Res<T> {
    let wide = cx.cast(x, DType::I32)?;
    let Some(zero) = zero else { return Ok(wide) };
    let zero = cx.cast(&zero, DType::I32)?;
    let zero = match zero.rank()? {
        1 => {
            let rank = x.rank()?;
            let mut shape = vec![Dim::Int(1); rank];
            if axis < rank && zero.dim(0)?.as_int() != Some(1) {
                shape[axis] = zero.dim(0)?;
            } else {
                shape = Vec::new();
            }
            cx.reshape(&zero, shape)?
        }
        _ => zero,
    };
    cx.sub(&wide, &zero)
}

fn conv_integer<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<T> {
    let x = centered(cx, &n.input(0)?, n.opt(2)?, 1)?;
    let w = centered(cx, &n.input(1)?, n.opt(3)?, 0)?;
    conv(cx, n, &x, &w)
}

fn matmul_integer<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<T> {
    let (x, w) = (n.input(0)?, n.input(1)?);
    let rows = x.rank()?.saturating_sub(2);
    let columns = w.rank()?.saturating_sub(1);
    let (x, w) = (centered(cx, &x, n.opt(2)?, rows)?, centered(cx, &w, n.opt(3)?, columns)?);
    cx.matmul(&x, &w)
}

/// Returns the operands of a product, which are the inputs `a` and `b`, transposed if an attribute requires it.
pub(super) fn gemm_operands<'a>(cx: &Cx<'a>, n: &Node<'a>, a: usize, b: usize) -> Res<(T, T)> {
    let of = |at: usize, name: &'static str| -> Res<T> {
        let x = n.input(at)?;
        if n.flag(name, false)? { cx.swapped(&x) } else { Ok(x) }
    };
    Ok((of(a, "transA")?, of(b, "transB")?))
}

pub(super) fn gemm_product<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<T> {
    let (a, b) = gemm_operands(cx, n, 0, 1)?;
    let (alpha, beta) = (n.float("alpha", 1.0)?, n.float("beta", 1.0)?);
    if !a.is_float() && (alpha.fract() != 0.0 || beta.fract() != 0.0) {
        return Err("`alpha` and `beta` must be integers if the matrices are integers".to_string());
    }
    let product = cx.matmul(&a, &b)?;
    let product = if alpha == 1.0 { product } else { cx.mul_s(&product, alpha)? };
    // An operand that is scaled by 0 is not added, even if it is infinite.
    let Some(c) = n.opt(2)?.filter(|_| beta != 0.0) else { return Ok(product) };
    let c = if beta == 1.0 { c } else { cx.mul_s(&c, beta)? };
    cx.add(&product, &c)
}
