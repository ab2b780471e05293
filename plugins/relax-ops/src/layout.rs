//! Layouts such as `NCHW`, `NHWC` and the packed `NCHW16c`, `OIHW4o4i`.
//!
//! A capital letter is a whole axis, or the outer part of an axis if the same letter follows in lower case with a
//! number: in `NCHW16c`, dimension `C` counts blocks of 16 channels.

use crate::declare::wrong;
use plugin_api::arith::apply;
use plugin_api::ir::{Dim, TensorType};
use plugin_api::scalar::PrimOp;
use plugin_api::typing::operators::InferError;

/// An upper limit on the number of axes; no layout of TVM has as many.
const MAX_AXES: usize = 12;

/// The axes of a tensor in order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout<'a> {
    text: &'a str,
    /// Letter of each axis, and the block length if the letter is lower case.
    axes: [(u8, i64); MAX_AXES],
    len: usize,
}

impl<'a> Layout<'a> {
    pub(crate) fn parse(text: &'a str) -> Result<Layout<'a>, InferError> {
        let bad =
            |why: &str| InferError::wrong(format!("layout \"{text}\" {why}; write it like \"NCHW\" or \"NCHW16c\""));
        let mut layout = Layout { text, axes: [(0, 0); MAX_AXES], len: 0 };
        let mut factor: i64 = 0;
        for byte in text.bytes() {
            let axis = match byte {
                b'0'..=b'9' => {
                    let digit = i64::from(byte - b'0');
                    factor = factor
                        .checked_mul(10)
                        .and_then(|f| f.checked_add(digit))
                        .ok_or_else(|| bad("has too long a block"))?;
                    continue;
                }
                b'A'..=b'Z' if factor == 0 => (byte, 0),
                b'a'..=b'z' if factor > 0 => (byte, factor),
                b'A'..=b'Z' => return Err(bad("has a length before an upper-case letter")),
                b'a'..=b'z' => return Err(bad("has a lower-case letter without a length")),
                _ => return Err(bad("has a character that does not name an axis")),
            };
            if layout.axes[..layout.len].iter().any(|(known, _)| *known == byte) {
                return Err(bad("names an axis twice"));
            }
            *layout.axes.get_mut(layout.len).ok_or_else(|| bad("is too long"))? = axis;
            (layout.len, factor) = (layout.len + 1, 0);
        }
        let whole = |small: u8| layout.axes().iter().any(|(letter, _)| *letter == small.to_ascii_uppercase());
        match factor == 0 && layout.axes().iter().all(|(letter, _)| whole(*letter)) {
            true => Ok(layout),
            false => Err(bad("has a block for a missing axis")),
        }
    }

    /// Parses a layout that must have the axes of `like`, in any order, packed or not.
    pub(crate) fn of(text: &'a str, like: &str) -> Result<Layout<'a>, InferError> {
        let layout = Layout::parse(text)?;
        let primal = layout.axes().iter().filter(|(letter, _)| letter.is_ascii_uppercase());
        let count = primal.clone().count();
        if count != like.len() || !primal.clone().all(|(letter, _)| like.as_bytes().contains(letter)) {
            return wrong(format!("layout \"{text}\" must have the axes of \"{like}\", in any order"));
        }
        Ok(layout)
    }

    fn axes(&self) -> &[(u8, i64)] {
        &self.axes[..self.len]
    }

    /// Returns the number of dimensions.
    pub(crate) fn ndim(&self) -> i32 {
        self.len as i32
    }

    /// Returns the block length of an axis; 1 if it is not packed.
    fn block(&self, letter: u8) -> i64 {
        let small = letter.to_ascii_lowercase();
        self.axes().iter().find(|(axis, _)| *axis == small).map_or(1, |(_, factor)| *factor)
    }

    /// Returns the total length of an axis of a tensor in this layout.
    pub(crate) fn size(&self, dims: &[Dim], letter: u8) -> Result<Dim, InferError> {
        let at = self.axes().iter().position(|(axis, _)| *axis == letter);
        match at.and_then(|at| dims.get(at)) {
            Some(dim) if self.block(letter) == 1 => Ok(dim.clone()),
            Some(dim) => Ok(apply(PrimOp::Mul, dim, &Dim::Int(self.block(letter)))),
            None => wrong(format!("layout \"{}\" does not have an axis {}", self.text, letter as char)),
        }
    }

    /// Returns the dimensions of a tensor in this layout, from the total lengths of its axes.
    pub(crate) fn place(&self, mut size: impl FnMut(u8) -> Result<Dim, InferError>) -> Result<Vec<Dim>, InferError> {
        let mut out = Vec::with_capacity(self.len);
        for (letter, factor) in self.axes() {
            out.push(match (letter.is_ascii_lowercase(), self.block(*letter)) {
                (true, _) => Dim::Int(*factor),
                (false, 1) => size(*letter)?,
                (false, block) => apply(PrimOp::FloorDiv, &size(*letter)?, &Dim::Int(block)),
            });
        }
        Ok(out)
    }

    /// Checks that the layout fits a tensor, and returns the dimensions if they are known.
    pub(crate) fn dims<'t>(&self, t: &'t TensorType, what: &str) -> Result<Option<&'t [Dim]>, InferError> {
        if t.ndim >= 0 && t.ndim != self.ndim() {
            return wrong(format!(
                "{what} has {} dimensions, but its layout \"{}\" has {}",
                t.ndim,
                self.text,
                self.ndim()
            ));
        }
        Ok(t.shape.as_deref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_axes_are_put_together_and_taken_apart() {
        let packed = Layout::of("NCHW16c", "NCHW").expect("a layout");
        let dims = [1, 2, 8, 9, 16].map(Dim::Int);
        assert_eq!(packed.size(&dims, b'C').expect("C"), Dim::Int(32));
        let plain = Layout::of("NHWC", "NCHW").expect("a layout");
        let placed = plain.place(|letter| packed.size(&dims, letter)).expect("dims");
        assert_eq!(placed, [1, 8, 9, 32].map(Dim::Int));
        assert_eq!(packed.place(|letter| plain.size(&placed, letter)).expect("dims"), dims);
    }

    #[test]
    fn bad_layouts_are_refused() {
        for text in ["NC4HW", "NCHWc", "NCHWC", "NCHW4", "NHW4c", "N HW", "NCDHW", "NCH", "NCXY"] {
            assert!(Layout::of(text, "NCHW").is_err(), "{text}");
        }
    }
}
