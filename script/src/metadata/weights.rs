//! Constants whose data is in a file beside the text: the text contains `weights =
//! I.weights("model.safetensors")` above the module, which refers to `weights["w0"]`.

use passhost_lang::ir::{Tensor, Type};
use std::cell::RefCell;

/// Provides the files with the constants of a text.
pub trait Weights {
    /// Returns a constant. `file` is the file name in the text.
    ///
    /// # Errors
    /// The reason why the constant cannot be found.
    fn tensor(&self, file: &str, name: &str) -> Result<(Tensor, Type), String>;
}

/// Provides no files; for a text that is not in a file.
pub(crate) struct NoWeights;

impl Weights for NoWeights {
    fn tensor(&self, file: &str, _: &str) -> Result<(Tensor, Type), String> {
        Err(format!(
            "the data of this constant is in `{file}`, beside the file of the module; read the module from that file, not from a string"
        ))
    }
}

/// Constants that a printed text refers to but does not contain.
pub struct References<'a> {
    /// The name of the file, which is in the same folder as the text.
    pub file: &'a str,
    /// Returns the name of a constant in the file; `None` to print the constant in the text.
    pub name: &'a dyn Fn(&Tensor, &Type) -> Option<String>,
}

/// Minimum data length of constants that are printed as references.
pub const LARGE: usize = 64 << 10;

/// Handles of constants, for a text that only this process reads.
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
