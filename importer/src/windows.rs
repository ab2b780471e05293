//! Windows of convolutions and pooling.

use crate::emitter::Emitter;
use crate::known::{self, add, sub};
use crate::pad::padded;
use crate::tensor::{Res, T};
use plugin_api::prelude::*;

/// Upper bound on the numbers that describe windows, so that their sums fit in 64 bits.
pub const LARGEST: i64 = 1 << 30;

/// Windows over spatial axes.
pub struct Windows {
    /// The sizes of a window.
    pub kernel: Vec<i64>,
    /// The distances between the starts of windows.
    pub strides: Vec<i64>,
    /// The distances between the elements of a window.
    pub dilations: Vec<i64>,
    /// The padding at the start of each axis, followed by the padding at the end of each axis.
    pub pads: Vec<i64>,
}

impl Windows {
    /// Returns the number of elements from the first to the last element of a window along an axis, including skipped
    /// elements.
    pub fn reach(&self, axis: usize) -> i64 {
        (self.kernel[axis] - 1) * self.dilations[axis] + 1
    }

    /// Returns the number of positions of a window along an axis with `size` elements.
    pub fn places(&self, size: &Dim, axis: usize, ceil: bool) -> Dim {
        let (start, end, stride) = (self.pads[axis], self.pads[self.kernel.len() + axis], self.strides[axis]);
        let span = sub(&add(size, &Dim::Int(start + end)), &Dim::Int(self.reach(axis)));
        let by = Dim::Int(stride);
        if !ceil {
            return add(&known::div(&span, &by), &Dim::Int(1));
        }
        let up = add(&known::div(&add(&span, &Dim::Int(stride - 1)), &by), &Dim::Int(1));
        // A window must start inside of the tensor or the padding before it.
        let last = known::div(&add(&sub(size, &Dim::Int(1)), &Dim::Int(start)), &by);
        known::min(&up, &add(&last, &Dim::Int(1)))
    }

    /// Returns the attributes for the Relax operator.
    pub fn attrs(&self) -> [(&'static str, Attr); 3] {
        [
            ("strides", self.strides.clone().into()),
            ("padding", self.pads.clone().into()),
            ("dilation", self.dilations.clone().into()),
        ]
    }
}

/// Returns the spatial sizes of a tensor with one to three spatial axes.
pub fn spatial(x: &T) -> Res<Vec<Dim>> {
    let dims = x.dims()?;
    match dims.len() {
        3..=5 => Ok(dims[2..].to_vec()),
        rank => Err(format!("its input has {rank} dimensions; it must have batch, channels, and 1 to 3 spatial axes")),
    }
}

/// Emits a convolution. Sums of 16-bit floats are computed in single precision.
pub fn conv_call(cx: &Emitter<'_>, op: &str, x: &T, w: &T, attrs: &[(&str, Attr)]) -> Res<T> {
    if !matches!(x.dtype(), DType::F16 | DType::BF16) {
        return cx.call(op, &[x, w], attrs);
    }
    let mut attrs = attrs.to_vec();
    attrs.push(("out_dtype", DType::F32.into()));
    cx.cast(&cx.call(op, &[x, w], &attrs)?, x.dtype())
}

/// Adds a bias along axis 1.
pub fn with_bias(cx: &Emitter<'_>, out: T, bias: Option<T>) -> Res<T> {
    let Some(bias) = bias else { return Ok(out) };
    cx.add(&out, &along_channels(cx, &bias, out.rank()?)?)
}

/// Reshapes a vector so that it is broadcast along axis 1 of a tensor of rank `rank`.
pub fn along_channels(cx: &Emitter<'_>, vector: &T, rank: usize) -> Res<T> {
    let mut shape = vec![Dim::Int(1); rank];
    *shape.get_mut(1).ok_or("its input lacks a channel axis")? = vector.dim(0)?;
    cx.reshape(vector, shape)
}

/// Returns the padding, increased at the ends so that no window extends beyond it.
pub fn reached(sizes: &[Dim], windows: &Windows, ceil: bool) -> Option<Vec<i64>> {
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
        let last = (count - 1).saturating_mul(windows.strides[axis]);
        ends.push(last.saturating_add(windows.reach(axis) - windows.pads[axis]).saturating_sub(size).max(0));
    }
    Some(ends)
}

/// Returns the mean of each window. The padding counts as elements if `counts` is true.
pub fn mean(cx: &Emitter<'_>, x: &T, windows: &Windows, ceil: bool, counts: bool) -> Res<T> {
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
    // Divides the sum of each window by the number of counted elements.
    let ends =
        reached(sizes, windows, ceil).ok_or("its rounding up depends on symbolic sizes; specify the input sizes")?;
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
pub fn window_sum(cx: &Emitter<'_>, x: &T, windows: &Windows, starts: &[i64], ends: &[i64]) -> Res<T> {
    let (before, after) = sides(starts, ends);
    let zero = cx.scalar(0.0, x.dtype())?;
    let x = padded(cx, x.clone(), &before, &after, "constant", &zero)?;
    let rank = x.rank()?;
    (2..rank).try_fold(x, |x, axis| {
        let k = axis - 2;
        let size = x.dim(axis)?;
        let reach = windows.reach(k) - 1;
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
