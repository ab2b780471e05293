//! Properties of a TIR buffer derived from its type: its offset, and views of it.

use crate::ir::{BufferType, DType, Dim};
use crate::scalar::PrimOp;

impl BufferType {
    /// Returns the data type of an unspecified offset: the data type of the first extent, or a 64-bit integer for a
    /// buffer without dimensions.
    pub fn default_offset_dtype(&self) -> DType {
        self.shape.first().map_or(DType::I64, Dim::dtype)
    }

    /// Returns the offset of the first element; 0 if unspecified.
    pub fn offset(&self) -> Dim {
        self.elem_offset.clone().unwrap_or_else(|| Dim::int(0, self.default_offset_dtype()))
    }

    /// Sets the offset in canonical form: an offset equal to the default implied by the shape is omitted.
    pub fn set_offset(&mut self, offset: Dim) {
        let meant = offset.as_int() == Some(0) && offset.dtype() == self.default_offset_dtype();
        self.elem_offset = Some(offset).filter(|_| !meant);
    }

    /// Returns the declared strides; none if the number of strides differs from the number of dimensions. TVM's
    /// schedules create buffers with the wrong number of strides, and treat them as compact.
    pub fn declared_strides(&self) -> &[Dim] {
        if self.strides.len() == self.shape.len() { &self.strides } else { &[] }
    }

    /// Returns a view with a different shape. Strides and offset keep their values and data types.
    pub fn viewed(&self, shape: Vec<Dim>) -> BufferType {
        let mut view = BufferType { shape, ..self.clone() };
        view.set_offset(self.offset());
        view
    }

    /// Applies `f` to each dimension, stride and offset.
    pub fn map_dims(&self, f: &mut dyn FnMut(&Dim) -> Dim) -> BufferType {
        BufferType {
            shape: self.shape.iter().map(&mut *f).collect(),
            strides: self.strides.iter().map(&mut *f).collect(),
            elem_offset: self.elem_offset.as_ref().map(&mut *f),
            ..self.clone()
        }
    }

    /// Returns a view of the same bytes as elements of a different data type; the last dimension and the offset of the
    /// view count elements of this type. Returns `None` if the bytes cannot be divided into whole elements of that
    /// type, or if the buffer lacks dimensions.
    pub fn recast(&self, dtype: DType) -> Option<BufferType> {
        let (from, to) = (i64::from(self.dtype.bits()), i64::from(dtype.bits()));
        if from <= 0 || to <= 0 || from % to != 0 && to % from != 0 {
            return None;
        }
        let scaled = |dim: &Dim| match dim.as_int() {
            Some(count) => {
                let bits = count.checked_mul(from).filter(|bits| bits % to == 0)?;
                Some(Dim::int(bits / to, dim.dtype()))
            }
            None if from == to => Some(dim.clone()),
            None if from > to => Some(Dim::binary(PrimOp::Mul, dim.clone(), Dim::int(from / to, dim.dtype()))),
            None => Some(Dim::binary(PrimOp::FloorDiv, dim.clone(), Dim::int(to / from, dim.dtype()))),
        };
        let mut shape = self.shape.clone();
        let last = scaled(&shape.pop()?)?;
        shape.push(last);
        let mut view = BufferType { shape, dtype, ..self.clone() };
        view.set_offset(scaled(&self.offset())?);
        Some(view)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_has_one_form() {
        let mut buffer = BufferType::new(vec![Dim::int(4, DType::I32)], DType::F32);
        buffer.set_offset(Dim::int(0, DType::I32));
        assert_eq!((buffer.elem_offset.clone(), buffer.offset().dtype()), (None, DType::I32));
        buffer.set_offset(Dim::Int(0));
        assert_eq!(buffer.elem_offset, Some(Dim::Int(0)), "0 of another data type is said");
        let none = BufferType::new(Vec::new(), DType::F32);
        assert_eq!(none.offset(), Dim::Int(0), "64 bits without dimensions");
    }

    #[test]
    fn a_view_keeps_the_data_type_of_the_offset() {
        let wide = BufferType::new(vec![Dim::Int(8)], DType::F32);
        let narrow = wide.viewed(vec![Dim::int(8, DType::I32)]);
        assert_eq!(narrow.elem_offset, Some(Dim::Int(0)));
        assert_eq!(narrow.viewed(wide.shape.clone()), wide);
    }

    #[test]
    fn other_elements_scale_the_last_dimension_and_the_offset() {
        let mut buffer = BufferType::new(vec![Dim::Int(2), Dim::Int(6)], DType::F32);
        buffer.set_offset(Dim::Int(4));
        let half = buffer.recast(DType::F16).expect("they divide");
        assert_eq!((half.shape[1].as_int(), half.offset().as_int()), (Some(12), Some(8)));
        assert_eq!(half.recast(DType::F32), Some(buffer.clone()));
        buffer.set_offset(Dim::Int(3));
        assert_eq!(buffer.recast(DType::F64), None, "an offset is a whole number of elements");
    }
}
