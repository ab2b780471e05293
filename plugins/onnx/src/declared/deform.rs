//! Deformable convolution, and conversion of bits to another type.

use super::{arg, attr, dims, int, ints, of_shape, tensor, wrong};
use plugin_api::ir::{Call, DType, Dim, Type};
use plugin_api::metadata::AttrType;
use plugin_api::te::{Te, TeExpr, TeTensor};
use plugin_api::typing::legalized::Legalized;
use plugin_api::typing::operators::{InferError, OpDecl};

pub(super) const DEFORM_CONV: OpDecl = OpDecl {
    name: "onnx.deform_conv",
    doc: "Deformable convolution over two spatial axes: each input element is sampled at its own offset and weighted by a mask.\n\n \
          Type: batch of the tensor, channels of the kernel, spatial axes of the offsets",
    args: &[arg("x"), arg("weight"), arg("offset"), arg("mask")],
    attrs: &[
        attr("strides", AttrType::IntList),
        attr("padding", AttrType::IntList),
        attr("dilation", AttrType::IntList),
        attr("groups", AttrType::Int),
        attr("offset_groups", AttrType::Int),
    ],
    infer: infer_conv,
    legalize: Some(legalize_conv),
    ..OpDecl::EMPTY
};

pub(super) const BIT_CAST: OpDecl = OpDecl {
    name: "onnx.bit_cast",
    doc: "The same bits as elements of a different data type of equal width.\n\n Type: the shape of the tensor, with elements of `dtype`",
    args: &[arg("x")],
    attrs: &[attr("dtype", AttrType::DType)],
    infer: infer_bits,
    legalize: Some(legalize_bits),
    ..OpDecl::EMPTY
};

fn infer_conv(call: Call<'_>) -> Result<Type, InferError> {
    let x = tensor(call, 0)?;
    let (Some(x_dims), Some(w), Some(offset)) = (dims(call, 0, 4)?, dims(call, 1, 4)?, dims(call, 2, 4)?) else {
        return Ok(of_shape(x.dtype, 4, None));
    };
    let lists = [ints(call, "strides").len(), ints(call, "dilation").len(), ints(call, "padding").len()];
    if lists != [2, 2, 4] || int(call, "groups") < 1 || int(call, "offset_groups") < 1 {
        return wrong(
            "its lists must have one number per spatial axis, and its padding two; `groups` must be positive",
        );
    }
    Ok(of_shape(x.dtype, 4, Some(vec![x_dims[0].clone(), w[0].clone(), offset[2].clone(), offset[3].clone()])))
}

/// Returns the element at an integer position; 0 outside of the tensor.
fn element(x: &TeTensor, first: &[TeExpr], at: &[TeExpr], sizes: &[TeExpr]) -> TeExpr {
    let (mut inside, mut index) = (TeExpr::int(1, DType::BOOL), first.to_vec());
    for (at, size) in at.iter().zip(sizes) {
        inside = inside.and(at.ge(0.0)).and(at.le(size - 1.0));
        index.push(at.max(0.0).min(size - 1.0).cast(DType::I64));
    }
    inside.if_then_else(x.at(&index), TeExpr::int(0, DType::I64).cast(x.dtype()))
}

/// Interpolates linearly along one axis after the other. `parts` contains the element before the position along each axis, and the
/// distance from it.
fn blended(parts: &[(TeExpr, TeExpr)], at: &[TeExpr], value: &dyn Fn(&[TeExpr]) -> TeExpr) -> TeExpr {
    let Some(((floor, part), rest)) = parts.split_first() else { return value(at) };
    let along = |by: f64| {
        let place = floor + by;
        blended(rest, &[at, std::slice::from_ref(&place)].concat(), value)
    };
    let one = TeExpr::float(1.0, part.dtype());
    along(0.0) * (one - part) + along(1.0) * part
}

fn legalize_conv(call: Call<'_>) -> Result<Legalized, InferError> {
    let te = Te::new("deform_conv", call);
    let (x, w, offset, mask) = (te.input(0)?, te.input(1)?, te.input(2)?, te.input(3)?);
    let Type::Tensor(out) = call.ty().to_owned() else { return wrong("its result is not a tensor") };
    let Some(shape) = out.shape else { return wrong("the shape of its result is not known") };
    let wide = x.dtype();
    let (strides, padding, dilation) = (ints(call, "strides"), ints(call, "padding"), ints(call, "dilation"));
    let known = |dim: &Dim| {
        dim.as_int()
            .ok_or_else(|| InferError::wrong("the number of its channels or the size of its kernel is not known"))
    };
    let (inner, filters, channels) = (known(&w.shape()[1])?, known(&w.shape()[0])?, known(&x.shape()[1])?);
    let (rows, columns) = (known(&w.shape()[2])?, known(&w.shape()[3])?);
    let each_filter = (filters / int(call, "groups")).max(1);
    let each_offset = (channels / int(call, "offset_groups")).max(1);
    let c = te.reduce_axis("c", &Dim::Int(inner));
    let (ky, kx) = (te.reduce_axis("ky", &Dim::Int(rows)), te.reduce_axis("kx", &Dim::Int(columns)));
    let sizes: Vec<TeExpr> = x.shape()[2..].iter().map(|dim| TeExpr::of_dim(dim.clone()).cast(wide)).collect();
    let result = te.compute("deform_conv", &shape, |i| {
        let channel = &i[1] / each_filter * inner + &c;
        let tap = &channel / each_offset * (rows * columns) + &ky * columns + &kx;
        let place = |axis: usize, k: &TeExpr| {
            let start = &i[axis + 2] * strides[axis] - padding[axis] + k * dilation[axis];
            start.cast(wide) + offset.at([i[0].clone(), &tap * 2 + axis as i64, i[2].clone(), i[3].clone()])
        };
        let parts = [place(0, &ky), place(1, &kx)].map(|at| {
            let floor = at.math("floor");
            (floor.clone(), at - floor)
        });
        let first = [i[0].clone(), channel.clone()];
        let value = blended(&parts, &[], &|at| element(&x, &first, at, &sizes));
        let weight = w.at([i[1].clone(), c.clone(), ky.clone(), kx.clone()]);
        let share = mask.at([i[0].clone(), tap.clone(), i[2].clone(), i[3].clone()]);
        (value * weight * share).sum(&[&c, &ky, &kx])
    });
    te.finish(&[result])
}

fn wanted(call: Call<'_>) -> Result<DType, InferError> {
    match call.attr("dtype").and_then(|attr| attr.as_dtype()) {
        Some(dtype) if dtype.is_known() => Ok(dtype),
        _ => wrong("`dtype` must be a data type"),
    }
}

fn infer_bits(call: Call<'_>) -> Result<Type, InferError> {
    let (x, to) = (tensor(call, 0)?, wanted(call)?);
    match x.dtype.bits() == to.bits() || !x.dtype.is_known() {
        true => Ok(of_shape(to, x.ndim.max(0) as usize, x.shape)),
        false => wrong(format!("cannot reinterpret {} as {to}: their widths differ", x.dtype)),
    }
}

fn legalize_bits(call: Call<'_>) -> Result<Legalized, InferError> {
    let te = Te::new("bit_cast", call);
    let x = te.input(0)?;
    let to = wanted(call)?;
    let out = te.compute("bit_cast", x.shape(), |i| x.at(i).reinterpreted(to));
    te.finish(&[out])
}
