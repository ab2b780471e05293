//! Resolves constants that a text keeps in safetensors files beside it, as handles to the mapped files.

use crate::files::mapped::{Bytes, map_beside};
use crate::files::safetensors::{self, Contents};
use passhost_lang::ir::{Tensor, Type};
use passhost_lang::names::{did_you_mean, nearest};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;

/// The files with constants in the folder of a text, which are opened when the text names them.
pub(super) struct InFolder<'a> {
    /// The path of the text.
    path: Option<&'a Path>,
    open: RefCell<BTreeMap<String, Result<Opened, String>>>,
}

/// An open file, with the constants that the text has named so far.
struct Opened {
    bytes: Bytes,
    contents: Contents,
    named: BTreeMap<String, (Tensor, Type)>,
}

impl<'a> InFolder<'a> {
    pub(super) fn of(path: Option<&'a Path>) -> InFolder<'a> {
        InFolder { path, open: RefCell::default() }
    }
}

impl script::Weights for InFolder<'_> {
    fn tensor(&self, file: &str, name: &str) -> Result<(Tensor, Type), String> {
        let of_file = |why: &str| format!("weights `{file}`: {why}");
        let mut open = self.open.borrow_mut();
        let opened = open.entry(file.to_string()).or_insert_with(|| {
            let bytes = map_beside(self.path, file)?;
            let contents = safetensors::read(&bytes)?;
            Ok(Opened { bytes, contents, named: BTreeMap::new() })
        });
        let Opened { bytes, contents, named } = opened.as_mut().map_err(|why| of_file(why))?;
        if let Some((tensor, ty)) = named.get(name) {
            return Ok((tensor.clone(), ty.clone()));
        }
        let near = || nearest(name, contents.tensors.keys().map(String::as_str));
        let entry = contents
            .tensors
            .get(name)
            .ok_or_else(|| of_file(&format!("it does not contain a tensor `{name}`{}", did_you_mean(&near()))))?;
        let entry = entry.as_ref().map_err(|why| of_file(&format!("tensor `{name}`: {why}")))?;
        let ty = Type::tensor(entry.shape.iter().copied(), entry.dtype);
        let tensor = Tensor::new(&bytes[entry.data.clone()]);
        named.insert(name.to_string(), (tensor.clone(), ty.clone()));
        Ok((tensor, ty))
    }
}
