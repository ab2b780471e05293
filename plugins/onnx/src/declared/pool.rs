//! The position of the largest element in each window.

use super::{arg, attr, flag, int, ints, of_shape, tensor, wrong};
use plugin_api::ir::{Call, DType, Dim, Type};
use plugin_api::metadata::AttrType;
use plugin_api::te::{Te, TeExpr, least_value};
use plugin_api::typing::legalized::Legalized;
use plugin_api::typing::operators::{InferError, OpDecl};

pub(super) const MAX_POOL_INDICES: OpDecl = OpDecl {
    name: "onnx.max_pool_indices",
    doc: "Index in the whole tensor of the largest element of each window.\n\n With `storage_order` 1, the first spatial axis varies fastest.\n\n \
          Type: int64, batch and channels of the tensor, then the number of windows along each axis",
    args: &[arg("x")],
    attrs: &[
        attr("pool_size", AttrType::IntList),
        attr("strides", AttrType::IntList),
        attr("padding", AttrType::IntList),
        attr("dilation", AttrType::IntList),
        attr("ceil_mode", AttrType::Bool),
        attr("storage_order", AttrType::Int),
    ],
    infer,
    legalize: Some(legalize),
    ..OpDecl::EMPTY
};

fn infer(call: Call<'_>) -> Result<Type, InferError> {
    let x = tensor(call, 0)?;
    let rank = ints(call, "pool_size").len() + 2;
    let Some(dims) = x.shape else { return Ok(of_shape(DType::I64, rank, None)) };
    let lists = ["strides", "dilation"].map(|key| ints(call, key).len() + 2);
    if dims.len() != rank || lists != [rank, rank] || ints(call, "padding").len() != 2 * (rank - 2) {
        return wrong("its lists must have one number per spatial axis, and its padding two");
    }
    let windows = crate::ops::windows_of(
        ints(call, "pool_size"),
        ints(call, "strides"),
        ints(call, "dilation"),
        ints(call, "padding"),
    );
    let mut out = dims[..2].to_vec();
    out.extend((0..rank - 2).map(|axis| windows.places(&dims[axis + 2], axis, flag(call, "ceil_mode"))));
    Ok(of_shape(DType::I64, rank, Some(out)))
}

fn legalize(call: Call<'_>) -> Result<Legalized, InferError> {
    let te = Te::new("max_pool_indices", call);
    let x = te.input(0)?;
    let Type::Tensor(out) = call.ty().to_owned() else { return wrong("its result is not a tensor") };
    let Some(shape) = out.shape else { return wrong("the shape of its result is not known") };
    let (kernel, strides) = (ints(call, "pool_size"), ints(call, "strides"));
    let (padding, dilation) = (ints(call, "padding"), ints(call, "dilation"));
    let columns_first = int(call, "storage_order") == 1;
    let k: Vec<TeExpr> =
        kernel.iter().enumerate().map(|(at, size)| te.reduce_axis(&format!("k{at}"), &Dim::Int(*size))).collect();
    let over: Vec<&TeExpr> = k.iter().collect();
    let start = [TeExpr::int(-1, DType::I64), least_value(x.dtype())];
    let sizes: Vec<TeExpr> = x.shape().iter().map(|dim| TeExpr::of_dim(dim.clone()).cast(DType::I64)).collect();
    let [places, _] = te.compute_pair("max_pool_indices", &shape, start, &over, |i, [at, most]| {
        let mut index = i[..2].to_vec();
        let mut inside = TeExpr::int(1, DType::BOOL);
        for axis in 0..kernel.len() {
            let place = &i[axis + 2] * strides[axis] + &k[axis] * dilation[axis] - padding[axis];
            inside = inside.and(place.ge(0)).and(place.lt(&sizes[axis + 2]));
            index.push(place.max(0).min(&sizes[axis + 2] - 1));
        }
        let value = x.at(&index);
        let mut order: Vec<usize> = vec![0, 1];
        match columns_first {
            true => order.extend((2..index.len()).rev()),
            false => order.extend(2..index.len()),
        }
        let flat = order.iter().fold(TeExpr::int(0, DType::I64), |flat, axis| flat * &sizes[*axis] + &index[*axis]);
        let better = inside.and(at.lt(0).or(value.gt(&most)));
        [better.select(flat, at), better.select(value, most)]
    });
    te.finish(&[places])
}
