//! Determines the format of an input: by the request, otherwise by the file extension, and otherwise by the first bytes.

use super::foreign::{self, Foreign};
use super::input::Input;
use crate::engine::Engine;
use crate::report::error::Error;
use passhost_lang::metadata::OptionValue;
use passhost_lang::names::listed;
use passhost_lang::names::syntax::{TVMSCRIPT, TVMSCRIPT_EXTENSION};
use registry::{Direction, Format, PipelineError, PlanError, Registry, RegistryError};
use std::path::{Path, PathBuf};

/// The way to read a module.
pub(super) enum Chosen<'e> {
    /// The input is TVMScript.
    Text,
    /// A reader of a plugin, with values for all its options.
    Reader(Format<'e>, Vec<OptionValue>),
}

impl Engine {
    /// Finds the reader of an input.
    ///
    /// # Errors
    /// If no reader, or more than one reader, matches the input, or the options are invalid.
    pub(super) fn chosen(&self, input: &Input) -> Result<Chosen<'_>, Error> {
        let found = match &input.format {
            Some(name) if name == TVMSCRIPT => None,
            Some(name) => Some(self.registry().find_format(Direction::Read, name)?),
            None => self.found(input)?,
        };
        let Some(format) = found else {
            return match input.format_options.first() {
                Some((option, _)) => {
                    let message = format!("option `{option}` is given, but TVMScript is read without options");
                    let help = "--from FORMAT names a format of a plugin".to_string();
                    Err(Error::Request { message, help })
                }
                None => Ok(Chosen::Text),
            };
        };
        let wrong = |error: PipelineError| Error::from(PlanError::Pipeline { error, span: None });
        let options = format.options(Direction::Read, &input.format_options).map_err(wrong)?;
        Ok(Chosen::Reader(format, options))
    }

    /// Finds the reader of an input by extension and content; returns `None` for TVMScript.
    fn found(&self, input: &Input) -> Result<Option<Format<'_>>, Error> {
        let registry = self.registry();
        let several = |error: RegistryError| Error::Request {
            message: format!("input {}: {error}", input.origin()),
            help: "--from NAME chooses one of them".to_string(),
        };
        if let Some(extension) = input.extension() {
            if extension == TVMSCRIPT_EXTENSION {
                return Ok(None);
            }
            if let Some(format) = registry.format_of_extension(Direction::Read, &extension).map_err(several)? {
                return Ok(Some(format));
            }
        }
        if input.is_text() {
            return Ok(None);
        }
        let start = input.start()?;
        match registry.reader_of_bytes(&start).map_err(several)? {
            Some(format) => Ok(Some(format)),
            // The host itself recognizes some formats whose readers declare no first bytes.
            None => Ok(foreign::of_bytes(&start).and_then(|form| registry.format(Direction::Read, form.format?))),
        }
    }

    /// Returns the path of an input that is an ONNX file, if the module has all inputs of the model and computes the same
    /// results.
    pub(crate) fn as_onnx_file(&self, input: &Input) -> Option<PathBuf> {
        let is_onnx = matches!(self.chosen(input), Ok(Chosen::Reader(format, _)) if format.info.name == "onnx");
        let only_sizes = input.format_options.iter().all(|(name, _)| matches!(name.as_str(), "shapes" | "sizes"));
        if is_onnx && only_sizes && input.params.is_none() { input.path().map(Path::to_path_buf) } else { None }
    }

    /// Returns the error for an input that looks like a different format.
    pub(super) fn in_another_form(&self, input: &Input, form: Foreign) -> Error {
        let registry = self.registry();
        let reader = form.format.and_then(|name| registry.format(Direction::Read, name));
        let (message, help) = match reader {
            Some(reader) => (
                format!("looks like {}, not TVMScript", form.what),
                format!(
                    "--from {} reads it; files with the extension .{TVMSCRIPT_EXTENSION} are TVMScript",
                    reader.info.name
                ),
            ),
            None => (
                format!("looks like {}, which no plugin in the manifest reads ({})", form.what, formats(registry)),
                format!("{}; or add a plugin with a reader to the manifest ({PAGE})", form.help),
            ),
        };
        Error::InputFile { origin: input.origin().to_string(), message, help }
    }

    /// Returns the error for a text with an unknown extension that does not look like TVMScript.
    pub(super) fn in_no_form(&self, input: &Input, extension: &str) -> Error {
        let registry = self.registry();
        let message = format!(
            "no plugin in the manifest reads .{extension} files ({}), and the file is not TVMScript",
            formats(registry)
        );
        let help = format!("--from NAME chooses a format; a plugin with a reader adds one ({PAGE})");
        Error::InputFile { origin: input.origin().to_string(), message, help }
    }
}

const PAGE: &str = "docs/writing-a-reader.md";

/// Lists the formats that can be read, as in `formats: tvmscript (.py), onnx (.onnx)`.
fn formats(registry: &Registry) -> String {
    let with_extensions = |name: &str, extensions: &[String]| match extensions {
        [] => name.to_string(),
        extensions => {
            let extensions: Vec<String> = extensions.iter().map(|extension| format!(".{extension}")).collect();
            format!("{name} ({})", extensions.join(", "))
        }
    };
    let own = with_extensions(TVMSCRIPT, &[TVMSCRIPT_EXTENSION.to_string()]);
    let others = registry.formats(Direction::Read).map(|(info, _)| with_extensions(&info.name, &info.extensions));
    format!("formats: {}", listed(&[own].into_iter().chain(others).collect::<Vec<_>>()))
}
