//! Type rules in words, as the operator documentation prints them after `Type:`.

pub(crate) const SAME: &str = "that of the tensor";
pub(crate) const SAME_FLOAT: &str = "that of the tensor, whose elements must be floats";
pub(crate) const BOOL: &str = "the shape of the tensor, with data type bool";
pub(crate) const ARITHMETIC: &str = "the data type of the operands, in the shape to which they broadcast";
pub(crate) const COMPARED: &str = "bool, in the shape to which the operands broadcast";
pub(crate) const TRIANGULAR: &str = "that of the tensor, which has at least two dimensions";
pub(crate) const CONV: &str = "batch and channels of the result, then along each spatial axis the number of positions of the kernel in the padded \
                               data; elements of `out_dtype`, by default those of the operands";
pub(crate) const CONV_TRANSPOSE: &str = "batch and channels of the result, then along each spatial axis the length of the input whose convolution \
                                         has the length of this data; elements of `out_dtype`, by default those of the operands";
pub(crate) const POOL: &str =
    "that of `data`, along each spatial axis with the number of positions of the window in the padded data";
pub(crate) const ADAPTIVE: &str = "that of `data`, with the spatial axes in `output_size`";
pub(crate) const NORMALIZED: &str =
    "that of `data`; the other tensors have the lengths of the normalized axes, or of the channels";
pub(crate) const ALONG: &str = "that of the tensor, which has the axis";
pub(crate) const ATTENDED: &str = "the first three dimensions of `query` and the last one of `value`";
pub(crate) const REDUCED: &str =
    "that of `x` without the axes in `axis`, by default without any axis; with `keepdims`, these axes have length 1";
pub(crate) const ARG_REDUCED: &str = "int64, in the shape of `x` without the axis, by default without any axis; with `keepdims`, these axes have length 1";
pub(crate) const ACCUMULATED: &str = "that of `data`, in one dimension without an axis; elements of `dtype` if given";
pub(crate) const TAKEN: &str = "that of `x`, with the shape of `indices` in place of the axis";
pub(crate) const FILLED: &str = "the given shape, with elements of `dtype`";
pub(crate) const LIKE: &str = "the shape of `x`, with elements of `dtype`, by default those of `x`";
pub(crate) const RESIZED: &str =
    "that of `data`, with the spatial axes of the given size; elements of `out_dtype` if given";
pub(crate) const QUANTIZED: &str = "the shape of `data`, with elements of `out_dtype`";
pub(crate) const GIVEN: &str = "the type in `out_ty`";
pub(crate) const GIVEN_PACKED: &str = "the type in `ty_args`";
pub(crate) const NOTHING: &str = "the empty tuple";
pub(crate) const ALLOCATED: &str = "the given shape and data type";
pub(crate) const SECOND: &str = "that of the second tensor";
