//! Type rules in words, as the operator documentation prints them after `Type:`.

pub(crate) const SAME: &str = "that of the tensor";
pub(crate) const SAME_FLOAT: &str = "that of the tensor, whose elements must be floats";
pub(crate) const BOOL: &str = "the shape of the tensor, with elements of bool";
pub(crate) const ARITHMETIC: &str = "the data type of the operands, in the shape to which they broadcast";
pub(crate) const COMPARED: &str = "bool, in the shape to which the operands broadcast";
pub(crate) const TRIANGULAR: &str = "that of the tensor, which has at least two dimensions";
pub(crate) const CONV: &str = "batch and channels of the result, then along each spatial axis as many places as the kernel has in the padded data; elements of `out_dtype`, else of the operands";
pub(crate) const CONV_TRANSPOSE: &str = "batch and channels of the result, then along each spatial axis the length of the data whose convolution would be this data; elements of `out_dtype`, else of the operands";
pub(crate) const POOL: &str =
    "that of `data`, along each spatial axis with as many places as the window has in the padded data";
pub(crate) const ADAPTIVE: &str = "that of `data`, along each spatial axis of the length in `output_size`";
pub(crate) const NORMALIZED: &str =
    "that of `data`; the other tensors have the lengths of the normalized axes, or of the channels";
pub(crate) const ALONG: &str = "that of the tensor, which has the axis";
pub(crate) const ATTENDED: &str = "the first three dimensions of `query` and the last one of `value`";
pub(crate) const REDUCED: &str =
    "that of `x` without the axes in `axis`, by default without any; with `keepdims` their length is 1";
pub(crate) const ARG_REDUCED: &str =
    "int64, in the shape of `x` without the axis, by default without any; with `keepdims` its length is 1";
pub(crate) const ACCUMULATED: &str =
    "that of `data`, of one dimension without an axis; elements of `dtype` if it is given";
pub(crate) const TAKEN: &str = "that of `x` with the shape of `indices` in the place of the axis";
pub(crate) const FILLED: &str = "the shape that is given, with elements of `dtype`";
pub(crate) const LIKE: &str = "the shape of `x`, with elements of `dtype`, else of `x`";
pub(crate) const RESIZED: &str =
    "that of `data` with the spatial axes of this size; elements of `out_dtype` if it is given";
pub(crate) const QUANTIZED: &str = "the shape of `data`, with elements of `out_dtype`";
pub(crate) const GIVEN: &str = "the one that is given in `out_ty`";
pub(crate) const GIVEN_PACKED: &str = "the one that is given in `ty_args`";
pub(crate) const NOTHING: &str = "the empty tuple";
pub(crate) const ALLOCATED: &str = "the shape and the data type that are given";
pub(crate) const SECOND: &str = "that of the second tensor";
