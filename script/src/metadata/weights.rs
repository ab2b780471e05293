//! Constants whose data is not in the text but in a file beside it: the text contains `weights =
//! I.weights("model.safetensors")` above the module, and `weights["w0"]` in it.

use passhost_lang::ir::{Tensor, Type};
use std::cell::RefCell;

/// The files with the constants of a text.
pub trait Weights {
    /// Returns a constant. `file` is the name of the file as in the text.
    ///
    /// # Errors
    /// The reason why the constant cannot be found.
    fn tensor(&self, file: &str, name: &str) -> Result<(Tensor, Type), String>;
}

/// The files of a text that is not a file itself.
pub(crate) struct NoWeights;

impl Weights for NoWeights {
    fn tensor(&self, file: &str, _: &str) -> Result<(Tensor, Type), String> {
        Err(format!(
            "the data of this constant is in `{file}` beside the text, so the text must be read from its file, not as a string"
        ))
    }
}

/// The constants that a printed text refers to instead of containing them.
pub struct References<'a> {
    /// The name of the file, which is in the folder of the text.
    pub file: &'a str,
    /// Returns the name of a constant in the file; `None` if the text contains it.
    pub name: &'a dyn Fn(&Tensor, &Type) -> Option<String>,
}

/// The length of the shortest data of a constant to which a text refers.
pub const LARGE: usize = 64 << 10;

/// Constants of a text that only this process reads, as handles.
#[derive(Default)]
pub(crate) struct Handles(RefCell<Vec<(Tensor, Type)>>);

impl Handles {
    /// Keeps a large constant, and returns its name.
    pub(crate) fn name(&self, tensor: &Tensor, ty: &Type) -> Option<String> {
        let mut kept = self.0.borrow_mut();
        let large = tensor.bytes().len() >= LARGE;
        large.then(|| {
            kept.push((tensor.clone(), ty.clone()));
            format!("{}", kept.len() - 1)
        })
    }
}

impl Weights for Handles {
    fn tensor(&self, _: &str, name: &str) -> Result<(Tensor, Type), String> {
        let found = name.parse().ok().and_then(|at: usize| self.0.borrow().get(at).cloned());
        found.ok_or_else(|| format!("it does not contain a constant `{name}`"))
    }
}
