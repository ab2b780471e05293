//! Pieces of memory that a module allocates, and the tensors in them. In this implementation, each tensor has
//! separate memory, so tensors that share bytes of a piece must not be in use at the same time.

use crate::room::Room;
use crate::tensor::Tensor;
use crate::vm::failure::Cause;
use std::ops::Range;
use std::sync::Weak;

/// A piece of memory: `R.vm.alloc_storage`.
#[derive(Clone, Debug)]
pub struct Piece {
    id: u64,
    /// Size of the piece in bytes.
    bytes: u64,
}

/// The pieces of a machine, and the tensors in them.
#[derive(Default)]
pub(in crate::vm) struct Pieces {
    next: u64,
    given: Vec<Given>,
}

/// A part of a piece that a tensor occupies.
struct Given {
    piece: u64,
    bytes: Range<i128>,
    memory: Weak<Room>,
}

impl Pieces {
    /// Creates a piece.
    pub(in crate::vm) fn piece(&mut self, bytes: u64) -> Piece {
        self.next += 1;
        Piece { id: self.next, bytes }
    }

    /// Assigns a part of a piece to a tensor. Values are dropped after their last use, so a tensor that still
    /// exists will be used again.
    ///
    /// # Errors
    /// Fails if the piece does not contain these bytes, or if they overlap another tensor that will be used later.
    /// `name` is the operator.
    pub(in crate::vm) fn give(&mut self, name: &str, piece: &Piece, offset: i64, tensor: &Tensor) -> Result<(), Cause> {
        let not = |why: String| Err(Cause::NotTaken { name: name.to_string(), why });
        let bytes = i128::from(offset)..i128::from(offset) + tensor.bytes().len() as i128;
        if bytes.start < 0 || bytes.end > i128::from(piece.bytes) {
            let (start, end, all) = (bytes.start, bytes.end, piece.bytes);
            return not(format!("bytes {start} to {end} exceed the piece of memory, which has {all} bytes"));
        }
        self.given.retain(|given| given.memory.strong_count() > 0);
        let overlaps = |of: &Range<i128>| of.start < bytes.end && bytes.start < of.end;
        if let Some(other) = self.given.iter().find(|given| given.piece == piece.id && overlaps(&given.bytes)) {
            let Range { start, end } = &other.bytes;
            return not(format!("bytes {start} to {end} of the piece of memory belong to a tensor that is used later"));
        }
        self.given.push(Given { piece: piece.id, bytes, memory: tensor.handle() });
        Ok(())
    }

    /// Updates the parts whose tensors were in the memory `from` and are now in the memory of `to`.
    pub(in crate::vm) fn moved(&mut self, from: usize, to: &Tensor) {
        let at_from = |given: &&mut Given| given.memory.as_ptr().addr() == from;
        self.given.iter_mut().filter(at_from).for_each(|given| given.memory = to.handle());
    }
}
