//! The source of a module, before its format is known.

use crate::files::mapped::{Bytes, map};
use crate::files::{START, from_start, open_input, read_start, read_stream, read_text};
use crate::report::error::Error;
use passhost_lang::metadata::OptionValue;
use passhost_lang::names::syntax::TVMSCRIPT_EXTENSION;
use registry::registry::formats::asked;
use registry::{Direction, PlanError, Stage};
use script::ReadOptions;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The source of a module, with its name for messages: a file, a stream or a text.
#[derive(Clone, Debug)]
pub struct Input {
    pub(super) origin: String,
    pub(super) contents: Contents,
    pub(super) strict: bool,
    pub(super) options: ReadOptions,
    /// Name of the requested format.
    pub(super) format: Option<String>,
    /// Options for the reader of that format.
    pub(super) format_options: Vec<(String, OptionValue)>,
    /// A file with tensors to which parameters are bound.
    pub(super) params: Option<PathBuf>,
}

#[derive(Clone, Debug)]
pub(super) enum Contents {
    Text(Arc<str>),
    /// A regular file, with its absolute path.
    File(PathBuf, Arc<File>),
    /// The bytes of a stream.
    Bytes(Arc<[u8]>),
}

impl Input {
    /// Opens a file. [`Engine::read_module`](crate::Engine::read_module) reads it.
    ///
    /// # Errors
    /// If the file does not exist, or cannot be opened.
    pub fn file(path: impl AsRef<Path>) -> Result<Input, Error> {
        Input::file_as(path, None)
    }

    /// Opens a file in a given format, such as `onnx{strict=true}`. `None` leaves the choice to extension and content.
    ///
    /// # Errors
    /// As for [`Input::file`], or if `format` is not a name with options.
    pub fn file_as(path: impl AsRef<Path>, format: Option<&str>) -> Result<Input, Error> {
        let (path, origin) = (path.as_ref(), path.as_ref().display().to_string());
        let opened = open_input(path).and_then(|file| {
            let found = file.metadata()?;
            // System files, such as the files in `/proc`, may be longer than the size that they report.
            if found.is_file() && found.len() > 0 {
                return Ok(Contents::File(from_start(path), Arc::new(file)));
            }
            let bytes = read_stream(file, format.is_some())?;
            let is_text = path.extension().is_none_or(|extension| extension == TVMSCRIPT_EXTENSION);
            if bytes.is_empty() && !is_text {
                return Err(io::Error::other("the file is empty; check that it was written or downloaded completely"));
            }
            Ok(Contents::Bytes(bytes.into()))
        });
        match opened {
            Ok(contents) => Input::of(origin, contents).in_format(format),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(missing(path)),
            Err(error) => Err(unreadable(&origin, &error)),
        }
    }

    /// Reads a stream to its end; `origin` is its name in messages, such as `<stdin>`.
    ///
    /// # Errors
    /// If it cannot be read, or is too long.
    pub fn stream(origin: impl Into<String>, stream: impl Read) -> Result<Input, Error> {
        Input::stream_as(origin, stream, None)
    }

    /// Reads a stream in a given format, such as `onnx{strict=true}`. With `None`, a stream must be text.
    ///
    /// # Errors
    /// As for [`Input::stream`], or if `format` is not a name with options.
    pub fn stream_as(origin: impl Into<String>, stream: impl Read, format: Option<&str>) -> Result<Input, Error> {
        let origin = origin.into();
        let bytes = read_stream(stream, format.is_some()).map_err(|error| unreadable(&origin, &error))?;
        Input::of(origin, Contents::Bytes(bytes.into())).in_format(format)
    }

    /// Creates an input from bytes in a given format, such as `onnx{strict=true}`; `origin` is its name in messages.
    ///
    /// # Errors
    /// If `format` is not a name with options.
    pub fn of_bytes(origin: impl Into<String>, bytes: impl Into<Arc<[u8]>>, format: &str) -> Result<Input, Error> {
        Input::of(origin.into(), Contents::Bytes(bytes.into())).in_format(Some(format))
    }

    /// Creates an input from a string; `origin` is its name in messages.
    pub fn text(origin: impl Into<String>, text: impl Into<Arc<str>>) -> Input {
        Input::of(origin.into(), Contents::Text(text.into()))
    }

    fn of(origin: String, contents: Contents) -> Input {
        let (strict, options, format, format_options, params) = Default::default();
        Input { origin, contents, strict, options, format, format_options, params }
    }

    /// Returns the name of the input in messages.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// Sets whether a function is rejected if its declared result type differs from the type that it returns. Otherwise, the
    /// difference is a warning, as in TVM.
    pub fn strict(self, strict: bool) -> Input {
        Input { strict, ..self }
    }

    /// Sets how TVMScript is read. If it is read unchecked, the module is not verified either.
    pub fn options(self, options: ReadOptions) -> Input {
        Input { options, ..self }
    }

    /// Binds parameters of the function `main`, or of the only function, to the tensors of a file by their names. The data of a
    /// `.safetensors` file is not copied; the data of an `.npz` file is.
    pub fn params(self, path: Option<PathBuf>) -> Input {
        Input { params: path, ..self }
    }

    /// Adds options of the reader to those given with the format.
    pub fn format_options(mut self, options: impl IntoIterator<Item = (String, OptionValue)>) -> Input {
        self.format_options.extend(options);
        self
    }

    fn in_format(mut self, format: Option<&str>) -> Result<Input, Error> {
        if let Some(format) = format {
            let wrong = |error| Error::from(PlanError::Pipeline { error, span: None });
            let Stage { name, options, .. } = asked(Direction::Read, format).map_err(wrong)?;
            (self.format, self.format_options) = (Some(name), options);
        }
        Ok(self)
    }

    /// Returns the absolute path, if the input is a file.
    pub(super) fn path(&self) -> Option<&Path> {
        match &self.contents {
            Contents::File(path, _) => Some(path),
            _ => None,
        }
    }

    /// Returns the extension of the file, in lower case.
    pub(super) fn extension(&self) -> Option<String> {
        self.path()?.extension()?.to_str().map(str::to_lowercase)
    }

    /// Returns true if the input was created from a string.
    pub(super) fn is_text(&self) -> bool {
        matches!(self.contents, Contents::Text(_))
    }

    /// Returns the first bytes.
    pub(super) fn start(&self) -> Result<Vec<u8>, Error> {
        match &self.contents {
            Contents::Text(text) => Ok(first(text.as_bytes())),
            Contents::Bytes(bytes) => Ok(first(bytes)),
            Contents::File(_, file) => read_start(file).map_err(|error| unreadable(&self.origin, &error)),
        }
    }

    /// Returns all bytes for a plugin's reader. If the input is a file, the bytes are mapped.
    pub(super) fn bytes(&self) -> Result<Bytes, Error> {
        match &self.contents {
            Contents::Text(text) => Ok(Bytes::from(Arc::<[u8]>::from(Arc::clone(text)))),
            Contents::Bytes(bytes) => Ok(Bytes::from(Arc::clone(bytes))),
            Contents::File(path, file) => map(file, path).map_err(|error| unreadable(&self.origin, &error)),
        }
    }

    /// Returns a copy of all bytes, to be converted to text.
    pub(super) fn copied(&self) -> Result<Vec<u8>, Error> {
        match &self.contents {
            Contents::File(_, file) => read_text(file).map_err(|error| unreadable(&self.origin, &error)),
            Contents::Text(text) => Ok(text.as_bytes().to_vec()),
            Contents::Bytes(bytes) => Ok(bytes.to_vec()),
        }
    }
}

fn first(bytes: &[u8]) -> Vec<u8> {
    bytes[..bytes.len().min(START as usize)].to_vec()
}

const NAME_ONE: &str = "name a file with a module, or `-` for standard input";

fn unreadable(origin: &str, error: &io::Error) -> Error {
    Error::InputFile { origin: origin.to_string(), message: error.to_string(), help: NAME_ONE.to_string() }
}

/// Returns the error for a path at which no file exists.
pub(crate) fn missing(path: &Path) -> Error {
    let (origin, message) = (path.display().to_string(), "no such file".to_string());
    Error::InputFile { origin, message, help: NAME_ONE.to_string() }
}
