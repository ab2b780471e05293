//! The values that names of a model refer to.

pub(crate) use importer::tensor::{Res, T, axis_of};
use std::rc::Rc;

/// A value of a model.
#[derive(Clone)]
pub(crate) enum Item {
    Tensor(T),
    /// A sequence. Its length is known while reading.
    Sequence(Rc<Vec<Item>>),
    /// An empty optional value.
    Nothing,
    /// A string tensor. Only unneeded nodes may use it.
    Text,
}

/// The error about a string tensor.
pub(crate) const TEXT: &str = "string tensors are not supported; process strings outside the model";

impl From<T> for Item {
    fn from(tensor: T) -> Item {
        Item::Tensor(tensor)
    }
}

impl Item {
    pub(crate) fn tensor(&self) -> Res<T> {
        match self {
            Item::Tensor(tensor) => Ok(tensor.clone()),
            Item::Sequence(_) => Err("expected a tensor, found a sequence".to_string()),
            Item::Nothing => Err("expected a tensor, found an empty optional".to_string()),
            Item::Text => Err(TEXT.to_string()),
        }
    }
}
