//! Products with matrices whose elements have a few bits.

use super::{arg, attr, dims, int, of_shape, tensor, wrong};
use plugin_api::ir::{Call, DType, Dim, Type};
use plugin_api::metadata::AttrType;
use plugin_api::te::{Te, TeExpr};
use plugin_api::typing::legalized::Legalized;
use plugin_api::typing::operators::{InferError, OpDecl};

pub(super) const MATMUL_N_BITS: OpDecl = OpDecl {
    name: "onnx.matmul_n_bits",
    doc: "Product of rows with a matrix that is quantized in blocks of rows.\n\n A byte of `packed` contains numbers of successive \
          rows, the first one in the lowest bits. An element of the matrix is the number minus the zero point of its block and column, \
          times their scale. `zero` has one element if all zero points are equal.\n\n Type: that of `x`; the last dimension is the number \
          of columns of `packed`",
    args: &[arg("x"), arg("packed"), arg("scales"), arg("zero")],
    attrs: &[attr("bits", AttrType::Int), attr("block", AttrType::Int)],
    infer,
    legalize: Some(legalize),
    ..OpDecl::EMPTY
};

fn infer(call: Call<'_>) -> Result<Type, InferError> {
    let x = tensor(call, 0)?;
    let (packed, _, zero) = (dims(call, 1, 2)?, dims(call, 2, 2)?, dims(call, 3, 2)?);
    let (bits, block) = (int(call, "bits"), int(call, "block"));
    if !matches!(bits, 2 | 4 | 8) || block < 1 {
        return wrong(format!("`bits` must be 2, 4 or 8, and `block` positive, found {bits} and {block}"));
    }
    if tensor(call, 1)?.dtype != DType::U8
        || [2, 3].iter().any(|at| tensor(call, *at).is_ok_and(|ty| ty.dtype != x.dtype))
    {
        return wrong("`packed` must be uint8, and `scales` and `zero` must have the data type of `x`");
    }
    let (Some(mut shape), Some(packed), Some(_)) = (x.shape, packed, zero) else {
        return Ok(of_shape(x.dtype, x.ndim.max(0) as usize, None));
    };
    match shape.last_mut() {
        Some(last) => *last = packed[1].clone(),
        None => return wrong("`x` must have a dimension"),
    }
    Ok(of_shape(x.dtype, shape.len(), Some(shape)))
}

fn legalize(call: Call<'_>) -> Result<Legalized, InferError> {
    let te = Te::new("matmul", call);
    let (x, packed, scales, zero) = (te.input(0)?, te.input(1)?, te.input(2)?, te.input(3)?);
    let (bits, block) = (int(call, "bits"), int(call, "block"));
    let Type::Tensor(out) = call.ty().to_owned() else { return wrong("its result is not a tensor") };
    let Some(shape) = out.shape else { return wrong("the shape of its result is not known") };
    let k = &te.reduce_axis("k", &x.shape()[x.ndim() - 1]);
    let per_byte = 8 / bits;
    let one_zero = zero.shape().iter().all(|dim| dim.as_int() == Some(1));
    let out = te.compute("matmul", &shape, |i| {
        let (rows, column) = (&i[..i.len() - 1], &i[i.len() - 1]);
        let byte = packed.at([&(k / per_byte), column]).cast(DType::I32);
        let number = byte.shift_right(((k % per_byte) * bits).cast(DType::I32)).bit_and((1 << bits) - 1);
        let none = TeExpr::of_dim(Dim::Int(0));
        let zero = zero.at(if one_zero { [none.clone(), none] } else { [k / block, column.clone()] });
        let weight = (number.cast(x.dtype()) - zero) * scales.at([&(k / block), column]);
        (x.at(rows.iter().chain([k])) * weight).sum(&[k])
    });
    te.finish(&[out])
}
