//! Type rules in words, as the operator documentation prints them after `Type:`.

pub(crate) const SAME: &str = "the type of the tensor";
pub(crate) const SAME_FLOAT: &str = "the type of the tensor, whose elements must be floats";
pub(crate) const BOOL: &str = "the shape of the tensor, with data type bool";
pub(crate) const ARITHMETIC: &str = "the data type of the operands, in the shape to which they broadcast";
pub(crate) const COMPARED: &str = "bool, in the shape to which the operands broadcast";
pub(crate) const TRIANGULAR: &str = "the type of the tensor, which must have at least two dimensions";
pub(crate) const CONV: &str = "batch and channels of the result, then for each spatial axis the number of kernel positions in the \
                               padded data; elements of `out_dtype`, by default of the operands' data type";
pub(crate) const CONV_TRANSPOSE: &str = "batch and channels of the result, then for each spatial axis the length of an input whose \
                                         convolution has the length of the data; elements of `out_dtype`, by default of the operands' data type";
pub(crate) const POOL: &str =
    "the type of `data`, with spatial axes as long as the number of window positions in the padded data";
pub(crate) const ADAPTIVE: &str = "the type of `data`, with the spatial axes in `output_size`";
pub(crate) const NORMALIZED: &str =
    "the type of `data`; the other tensors must have the lengths of the normalized axes, or of the channels";
pub(crate) const ALONG: &str = "the type of the tensor, which must have the axis";
pub(crate) const ATTENDED: &str = "the first three dimensions of `query` and the last dimension of `value`";
pub(crate) const REDUCED: &str =
    "the type of `x` without the axes in `axis` (by default, all axes); with `keepdims`, these axes have length 1";
pub(crate) const ARG_REDUCED: &str =
    "int64, in the shape of `x` without the axis (by default, all axes); with `keepdims`, these axes have length 1";
pub(crate) const ACCUMULATED: &str =
    "the type of `data`, or one dimension if there is no axis; elements of `dtype` if given";
pub(crate) const TAKEN: &str = "the type of `x`, with the shape of `indices` in place of the axis";
pub(crate) const FILLED: &str = "the given shape, with elements of `dtype`";
pub(crate) const LIKE: &str = "the shape of `x`, with elements of `dtype`, by default of the data type of `x`";
pub(crate) const RESIZED: &str =
    "the type of `data`, with spatial axes of the given size; elements of `out_dtype` if given";
pub(crate) const QUANTIZED: &str = "the shape of `data`, with elements of `out_dtype`";
pub(crate) const GIVEN: &str = "the type in `out_ty`";
pub(crate) const GIVEN_PACKED: &str = "the type in `ty_args`";
pub(crate) const NOTHING: &str = "the empty tuple";
pub(crate) const ALLOCATED: &str = "the given shape and data type";
pub(crate) const SECOND: &str = "the type of the second tensor";
