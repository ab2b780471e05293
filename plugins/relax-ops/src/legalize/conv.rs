//! Convolutions and transposed convolutions.

use super::blocks::padded;
use super::{Legal, Row, cannot, result_shape};
use crate::declare::{int, ints, out_dtype, text};
use plugin_api::ir::{Call, Dim};
use plugin_api::te::{Te, TeExpr, TeTensor, form};

pub(super) const ROWS: &[Row] = &[
    ("relax.nn.conv1d", |call| conv(call, "conv1d", 1)),
    ("relax.nn.conv2d", |call| conv(call, "conv2d", 2)),
    ("relax.nn.conv3d", |call| conv(call, "conv3d", 3)),
    ("relax.nn.conv1d_transpose", |call| transposed(call, "conv1d_transpose", "kernel", ["NCW", "IOW"])),
    ("relax.nn.conv2d_transpose", |call| transposed(call, "conv2d_transpose", "kernel_transform", ["NCHW", "IOHW"])),
    ("relax.nn.conv3d_transpose", |call| transposed(call, "conv3d_transpose", "kernel_transform", ["NCDHW", "IODHW"])),
];

/// The strides, padding and dilation of a convolution or pool along each spatial axis.
pub(super) struct Spatial {
    pub(super) strides: Vec<i64>,
    pub(super) dilation: Vec<i64>,
    /// The padding before and after each axis.
    pub(super) padding: Vec<(i64, i64)>,
}

impl Spatial {
    /// Reads the attributes of a call for `n` axes.
    pub(super) fn of(call: Call<'_>, n: usize) -> Option<Spatial> {
        let each = |key: &str| {
            let given = ints(call, key).unwrap_or_else(|| vec![1]);
            if given.len() == 1 { vec![given[0]; n] } else { given }
        };
        let padding = ints(call, "padding").unwrap_or_else(|| vec![0]);
        let padding: Vec<(i64, i64)> = match padding.len() {
            1 => vec![(padding[0], padding[0]); n],
            given if given == n => padding.iter().map(|both| (*both, *both)).collect(),
            given if given == 2 * n => (0..n).map(|axis| (padding[axis], padding[axis + n])).collect(),
            _ => return None,
        };
        let (strides, dilation) = (each("strides"), each("dilation"));
        (strides.len() == n && dilation.len() == n).then_some(Spatial { strides, dilation, padding })
    }

    /// Returns the data index of element `k` of the window at `at`, along an axis.
    pub(super) fn place(&self, axis: usize, at: &TeExpr, k: &TeExpr) -> TeExpr {
        at * self.strides[axis] + k * self.dilation[axis]
    }
}

/// Returns the positions of axes in a layout: first the two axes with the given letters, then the spatial axes in
/// order. Returns `None` if an axis is split, or the number of spatial axes is not `n`.
fn axes_of(layout: &str, two: [char; 2], n: usize) -> Option<Vec<usize>> {
    let letters: Vec<char> = layout.chars().collect();
    let at = |letter: char| letters.iter().position(|other| *other == letter);
    let mut axes = vec![at(two[0])?, at(two[1])?];
    axes.extend((0..letters.len()).filter(|axis| !two.contains(&letters[*axis])));
    (letters.iter().all(char::is_ascii_uppercase) && axes.len() == n + 2).then_some(axes)
}

/// Reorders the parts of a list to match a layout.
fn placed<T: Clone>(parts: &[T], axes: &[usize]) -> Vec<T> {
    let mut out: Vec<(usize, T)> = axes.iter().copied().zip(parts.iter().cloned()).collect();
    out.sort_by_key(|(at, _)| *at);
    out.into_iter().map(|(_, part)| part).collect()
}

/// Names of the axes of a kernel.
const KERNEL_AXES: [&str; 3] = ["ry", "rx", "rz"];

fn conv(call: Call<'_>, name: &str, n: usize) -> Legal {
    let layout = |key: &str| text(call, key).unwrap_or_default();
    let layouts = [layout("data_layout"), layout("kernel_layout"), layout("out_layout")];
    let (Some(data_axes), Some(kernel_axes)) = (axes_of(layouts[0], ['N', 'C'], n), axes_of(layouts[1], ['O', 'I'], n))
    else {
        return cannot(format!("it is not legalized for the layouts {}", layouts.join(", ")));
    };
    if ![layouts[0], ""].contains(&layouts[2]) {
        return cannot("it is legalized only if data and result have the same layout");
    }
    let Some(spatial) = Spatial::of(call, n) else {
        return cannot("its padding or strides do not match its number of axes");
    };
    let groups = int(call, "groups").unwrap_or(1);
    let te = Te::new(name, call);
    te.name_axes("i");
    let (x, w) = (te.input(0)?, te.input(1)?);
    let dtype = out_dtype(call, "out_dtype", x.dtype());
    let pads: Vec<(Dim, Dim)> = spatial.padding.iter().map(|(a, b)| (Dim::Int(*a), Dim::Int(*b))).collect();
    let none = (Dim::Int(0), Dim::Int(0));
    let pads = placed(&[&[none.clone(), none][..], &pads[..]].concat(), &data_axes);
    let zero = TeExpr::int(0, plugin_api::ir::DType::I64).cast(x.dtype());
    let pad = padded(&te, "pad_temp", &x, &pads, zero);
    let of_kernel = |axis: usize| &w.shape()[kernel_axes[axis]];
    let mut k = vec![te.reduce_axis("rc", of_kernel(1))];
    k.extend((0..n).map(|axis| te.reduce_axis(KERNEL_AXES[axis], of_kernel(2 + axis))));
    let shape: Vec<Dim> = result_shape(call)?.iter().map(form).collect();
    let group = if groups > 1 { "group_" } else { "" };
    let out = te.compute(&format!("{group}{name}_{}", layouts[0].to_lowercase()), &shape, |i| {
        let filter = &i[data_axes[1]];
        let channel = match groups {
            1 => k[0].clone(),
            _ => filter / (TeExpr::of_dim(of_kernel(0).clone()) / groups) * of_kernel(1) + &k[0],
        };
        let mut data = vec![i[data_axes[0]].clone(), channel];
        data.extend((0..n).map(|axis| spatial.place(axis, &i[data_axes[2 + axis]], &k[1 + axis])));
        let kernel = [&[filter.clone()][..], &k[..]].concat();
        let data = pad.at(placed(&data, &data_axes)).cast(dtype);
        let over = placed(&k, &data_axes[1..]);
        (data * w.at(placed(&kernel, &kernel_axes)).cast(dtype)).sum(&over.iter().collect::<Vec<_>>())
    });
    te.finish(&[out])
}

/// Inserts zeros between the elements along each axis.
fn dilated(te: &Te<'_>, name: &str, x: &TeTensor, strides: &[i64]) -> TeTensor {
    let sizes = x.shape().iter().zip(strides);
    let shape: Vec<Dim> = sizes
        .map(|(size, stride)| if *stride == 1 { size.clone() } else { (size.clone() - 1) * *stride + 1 })
        .collect();
    te.compute(name, &shape, |i| {
        let index: Vec<TeExpr> = i.iter().zip(strides).map(|(at, stride)| at / *stride).collect();
        let hits = i.iter().zip(strides).filter(|(_, stride)| **stride != 1).map(|(at, stride)| (at % *stride).eq(0));
        let value = x.at(&index);
        let zero = TeExpr::int(0, plugin_api::ir::DType::I64).cast(x.dtype());
        hits.reduce(|all, one| all.and(one)).map_or(value.clone(), |hit| hit.if_then_else(value, zero))
    })
}

/// Computes a transposed convolution as a convolution of zero-dilated data with the flipped kernel.
fn transposed(call: Call<'_>, name: &str, kernel_name: &str, layouts: [&str; 2]) -> Legal {
    let given = ["data_layout", "kernel_layout", "out_layout"].map(|key| text(call, key).unwrap_or_default());
    if given[..2] != layouts || ![layouts[0], ""].contains(&given[2]) {
        return cannot(format!("it is legalized only for the layouts {}", layouts.join(" and ")));
    }
    let n = layouts[0].len() - 2;
    let Some(spatial) = Spatial::of(call, n) else {
        return cannot("its padding or strides do not match its number of axes");
    };
    let more = ints(call, "output_padding").unwrap_or_else(|| vec![0; n]);
    let groups = int(call, "groups").unwrap_or(1);
    let te = Te::new(name, call);
    te.name_axes("i");
    let (x, w) = (te.input(0)?, te.input(1)?);
    let dtype = out_dtype(call, "out_dtype", x.dtype());
    let zero = TeExpr::int(0, plugin_api::ir::DType::I64).cast(x.dtype());
    let data = dilated(&te, "data_dilate", &x, &[&[1, 1][..], &spatial.strides[..]].concat());
    let w = match spatial.dilation.iter().all(|dilation| *dilation == 1) {
        true => w,
        false => dilated(&te, "kernel_dilate", &w, &[&[1, 1][..], &spatial.dilation[..]].concat()),
    };
    let edge = |axis: usize| w.shape()[2 + axis].clone() - 1;
    let mut pads = vec![(Dim::Int(0), Dim::Int(0)); 2];
    pads.extend((0..n).map(|axis| {
        let (before, after) = spatial.padding[axis];
        (edge(axis) - before, edge(axis) - after + more.get(axis).copied().unwrap_or(0))
    }));
    let data = padded(&te, "data_pad", &data, &pads, zero);
    let (inputs, outputs) = (&w.shape()[0], &w.shape()[1]);
    let shape = [&[outputs.clone(), inputs.clone()], &w.shape()[2..]].concat();
    let kernel = te.compute(kernel_name, &shape, |i| {
        let backwards = (0..n).map(|axis| TeExpr::of_dim(edge(axis)) - &i[2 + axis]);
        w.at([i[1].clone(), i[0].clone()].into_iter().chain(backwards))
    });
    let of_group = inputs.clone().floor_div(groups);
    let mut k = vec![te.reduce_axis("dc", &of_group)];
    k.extend((0..n).map(|axis| te.reduce_axis(["dh", "dw", "dd"][axis], &w.shape()[2 + axis])));
    let out = te.compute("compute", &result_shape(call)?, |i| {
        let (channel, from) = match groups {
            1 => (i[1].clone(), k[0].clone()),
            _ => (&i[1] % outputs, &i[1] / outputs * of_group + &k[0]),
        };
        let places = (0..n).map(|axis| &i[2 + axis] + &k[1 + axis]);
        let element = data.at([i[0].clone(), from.clone()].into_iter().chain(places)).cast(dtype);
        let weight = kernel.at([channel, from].into_iter().chain(k[1..].iter().cloned())).cast(dtype);
        (element * weight).sum(&k.iter().collect::<Vec<_>>())
    });
    te.finish(&[out])
}
