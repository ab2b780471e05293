//! Writes the result of a run as text. Large constants can be in a safetensors file beside it, to which the text refers.

use crate::engine::Engine;
use crate::files::mapped::{MappedFile, copy_part, map_beside};
use crate::files::safetensors::{self, Entry, has_dtype};
use crate::files::{Beside, Identity, Output, from_start, identity};
use crate::report::error::Error;
use crate::run::provenance::Provenance;
use passhost_lang::ir::{Body, DType, Module, Tensor, Type};
use script::{LARGE, References};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The place for the large constants of a text.
#[derive(Clone, Debug, Default)]
pub(super) struct Placing {
    /// The file, which must be in the folder of the text.
    pub(super) file: Option<PathBuf>,
    /// True if constants are written into the text.
    pub(super) inline: bool,
}

/// A constant of the written file.
struct Placed {
    name: String,
    tensor: Tensor,
    dtype: DType,
    shape: Vec<i64>,
}

/// The content and the type of a constant.
type Key = ((u64, u64), usize, DType, Vec<i64>);

/// The file with the constants of a text, while the text is printed.
struct Placement {
    /// The path of the file.
    path: PathBuf,
    /// The name of the file, as written in the text.
    name: String,
    /// The tensors already in the file, by position, if it is a safetensors file.
    known: BTreeMap<usize, (String, Entry)>,
    /// The current identity of the file.
    now: Option<Identity>,
    /// True if passhost wrote the file.
    is_own: bool,
    placed: RefCell<Vec<Placed>>,
    by_key: RefCell<HashMap<Key, String>>,
    /// The names of all tensors, existing and new.
    names: RefCell<BTreeSet<String>>,
    /// True if a constant is not in the file yet.
    fresh: Cell<bool>,
}

impl Placement {
    fn of(path: PathBuf) -> Placement {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let bytes = map_beside(Some(&path), &name).ok();
        let contents = bytes.as_ref().and_then(|bytes| safetensors::read(bytes).ok());
        let is_own = contents.as_ref().is_some_and(|contents| contents.is_own);
        let entries = contents.into_iter().flat_map(|contents| contents.tensors);
        let known: BTreeMap<usize, (String, Entry)> =
            entries.filter_map(|(name, entry)| entry.ok().map(|entry| (entry.data.start, (name, entry)))).collect();
        let names = known.values().map(|(name, _)| name.clone()).collect();
        let now = path.exists().then(|| identity(&path));
        Placement {
            path,
            name,
            known,
            now,
            is_own,
            placed: RefCell::default(),
            by_key: RefCell::default(),
            names: RefCell::new(names),
            fresh: Cell::new(false),
        }
    }

    /// Returns the name of a large constant in the file; `None` if the text contains the constant.
    fn name(&self, tensor: &Tensor, ty: &Type) -> Option<String> {
        let of = ty.as_tensor().filter(|of| tensor.bytes().len() >= LARGE && has_dtype(of.dtype))?;
        let shape: Vec<i64> = of.shape.as_ref()?.iter().map(|dim| dim.as_int()).collect::<Option<_>>()?;
        let key = (tensor.hash128(), tensor.bytes().len(), of.dtype, shape.clone());
        if let Some(known) = self.by_key.borrow().get(&key) {
            return Some(known.clone());
        }
        let name = self.existing(tensor, of.dtype, &shape).unwrap_or_else(|| self.fresh_name());
        self.placed.borrow_mut().push(Placed { name: name.clone(), tensor: tensor.clone(), dtype: of.dtype, shape });
        self.by_key.borrow_mut().insert(key, name.clone());
        Some(name)
    }

    /// Returns an unused name for a tensor that is not in the file yet.
    fn fresh_name(&self) -> String {
        self.fresh.set(true);
        let mut names = self.names.borrow_mut();
        let mut numbers = self.placed.borrow().len()..;
        let name = numbers.find_map(|n| Some(format!("w{n}")).filter(|name| !names.contains(name))).unwrap_or_default();
        names.insert(name.clone());
        name
    }

    /// Returns the name under which a tensor is already in the file.
    fn existing(&self, tensor: &Tensor, dtype: DType, shape: &[i64]) -> Option<String> {
        let (region, at) = tensor.region()?;
        let from = region.region::<MappedFile>()?.identity()?;
        let (name, entry) = self.known.get(&at).filter(|_| self.now.as_ref() == Some(from))?;
        let same = entry.dtype == dtype && entry.shape == shape && entry.data.len() == tensor.bytes().len();
        same.then(|| name.clone())
    }

    /// Refuses to replace a file that something else needs.
    fn check(&self, output: &Output, asked: &Placing, input: &Path) -> Result<(), Error> {
        let Some(now) = &self.now else { return Ok(()) };
        let refused = |message: String| Err(Error::Output { path: self.path.clone(), message });
        let placed = self.placed.borrow();
        let sources =
            placed.iter().filter_map(|placed| placed.tensor.region()?.0.region::<MappedFile>()?.identity().cloned());
        let is_source = sources.into_iter().any(|source| source == *now);
        if is_source && !output.leads_to(input) {
            return refused(
                "contains weights that the input uses, and would be overwritten; choose another file with --weights"
                    .to_string(),
            );
        }
        if !self.is_own && (asked.file.is_none() || is_source) {
            return refused(
                "was not written by passhost, and would be overwritten by the weights of the result; choose another file with --weights"
                    .to_string(),
            );
        }
        Ok(())
    }

    /// Writes the file with all constants. Data in other files is copied without reading holes.
    fn write(&self, beside: &mut Beside<'_>, spared: &[&Path]) -> io::Result<()> {
        let placed = self.placed.borrow();
        let file = beside.file(&self.name, spared)?;
        let entries =
            placed.iter().map(|it| (it.name.as_str(), it.dtype, it.shape.as_slice(), it.tensor.bytes().len()));
        file.write_all(&safetensors::header(entries))?;
        placed.iter().try_for_each(|it| copy_part(&it.tensor, file))
    }
}

/// The result of a run, to be written as text.
pub(super) struct Text<'a> {
    pub(super) module: &'a Module,
    /// Comments on the origins of bindings, if they are requested.
    pub(super) provenance: Option<&'a Provenance>,
    pub(super) placing: &'a Placing,
    /// The input of the run.
    pub(super) input: &'a Path,
    /// Other files that must not be overwritten.
    pub(super) spared: &'a [&'a Path],
}

/// Maximum size of the constants in a text, in bytes. A text of more than 4 GiB cannot be read.
const MOST: usize = 3 << 30;

/// A printed module, with the file for the constants that are not in the text.
pub(super) struct Ready {
    text: String,
    placement: Option<Placement>,
}

impl Text<'_> {
    /// Prints the module. Large constants become references to a file beside the output, unless they have to be in the text.
    ///
    /// # Errors
    /// If a part of the module cannot be printed, the text would be too long, or the given path of the file is not allowed.
    pub(super) fn print(&self, engine: &Engine, output: &Output) -> Result<Ready, Error> {
        let Some(path) = self.file(output)? else {
            self.fits()?;
            let text = match self.provenance {
                Some(provenance) => provenance.text(self.module, engine, None)?,
                None => engine.print_module(self.module)?,
            };
            return Ok(Ready { text, placement: None });
        };
        let placement = Placement::of(path);
        let name = |tensor: &Tensor, ty: &Type| placement.name(tensor, ty);
        let references = References { file: &placement.name, name: &name };
        let text = match self.provenance {
            Some(provenance) => provenance.text(self.module, engine, Some(references))?,
            None => script::print_referring(self.module, engine, false, references)?.text,
        };
        if placement.fresh.get() {
            placement.check(output, self.placing, self.input)?;
        }
        Ok(Ready { text, placement: Some(placement) })
    }

    /// Writes the printed module, and its file of constants, unless that file already contains them.
    ///
    /// # Errors
    /// If a file cannot be written. All files are then unchanged.
    pub(super) fn write(&self, engine: &Engine, output: &Output, ready: &Ready) -> Result<(), Error> {
        let Some(placement) = ready.placement.as_ref().filter(|placement| placement.fresh.get()) else {
            return output.write(&ready.text);
        };
        let plugins = engine.registry().owners().filter_map(|(_, owner)| owner.file.as_deref());
        let others = self.spared.iter().copied();
        let spared: Vec<&Path> = plugins.chain([engine.lock().path(), self.input]).chain(others).collect();
        output.write_with(|file| {
            file.write_all(ready.text.as_bytes())?;
            let mut beside = Beside::of(output);
            placement.write(&mut beside, &spared)?;
            beside.keep()
        })
    }

    /// Returns the path of the file for large constants; `None` if they are in the text.
    fn file(&self, output: &Output) -> Result<Option<PathBuf>, Error> {
        let wrong =
            |file: &Path, message: &str| Err(Error::Output { path: file.to_path_buf(), message: message.to_string() });
        match (&self.placing.file, output) {
            (None, _) if self.placing.inline || !self.bodies().any(has_mapped) => Ok(None),
            (None, Output::File { path, .. }) => Ok(Some(from_start(path).with_extension("safetensors"))),
            (None, _) => Ok(None),
            (Some(file), Output::File { path, .. }) => {
                let (folder, own) = (from_start(file), from_start(path));
                let same = folder.parent().map(identity) == own.parent().map(identity);
                match folder.file_name() {
                    Some(name) if same && folder != own => Ok(Some(own.with_file_name(name))),
                    _ => wrong(
                        file,
                        "is not a different file in the folder of the result, where readers look for its weights; choose such a file",
                    ),
                }
            }
            (Some(file), _) => wrong(
                file,
                "would contain the weights of a module that is not written to a file; name a file for the module with -o",
            ),
        }
    }

    fn bodies(&self) -> impl Iterator<Item = &Body> {
        self.module.functions().map(|(_, body)| body)
    }

    /// Refuses a text that would be too long to be read.
    fn fits(&self) -> Result<(), Error> {
        let tensors = self.bodies().flat_map(|body| body.raw().tensors());
        let bytes = tensors.fold(0usize, |sum, tensor| sum.saturating_add(tensor.bytes().len()));
        if bytes <= MOST {
            return Ok(());
        }
        let message = format!("the constants take {} MiB, but TVMScript can be at most 4 GiB long", bytes >> 20);
        let help =
            "name a file with -o, without --inline-weights, to write the constants to a file beside it".to_string();
        Err(Error::Request { message, help })
    }
}

/// Returns true if a function has a large constant whose data is in a mapped file.
fn has_mapped(body: &Body) -> bool {
    let is_mapped =
        |tensor: &Tensor| tensor.region().is_some_and(|(region, _)| region.region::<MappedFile>().is_some());
    body.raw().tensors().iter().any(|tensor| tensor.bytes().len() >= LARGE && is_mapped(tensor))
}
