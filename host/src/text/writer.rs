//! Writes a module: as TVMScript, or by a writer of a plugin.

use super::reader::{FormatCall, failed};
use crate::context::PassContext;
use crate::engine::Engine;
use crate::files::{Beside, Output, Written, from_start, to_stdout};
use crate::process::{self, Kind};
use crate::report::Report;
use crate::report::error::Error;
use passhost_lang::ir::Module;
use passhost_lang::metadata::OptionValue;
use passhost_lang::names::syntax::TVMSCRIPT;
use plugin_api::abi::host::FileFacts;
use registry::registry::formats::asked;
use registry::{Direction, Format, PipelineError, PlanError, RegistryError, Stage};
use std::io::{self, Write};
use std::path::Path;

/// The way to write a module.
pub(crate) enum WrittenAs<'e> {
    /// The output is TVMScript.
    Text,
    /// A writer of a plugin, with values for all its options.
    Writer(Format<'e>, Vec<OptionValue>),
}

impl Engine {
    /// Determines how to write a module to a file. The format is the requested format, which may have options, as in
    /// `onnx{opset=17}`; otherwise, the format of the file extension; otherwise, TVMScript.
    ///
    /// # Errors
    /// If no writer, or more than one writer, matches the file, the options are invalid, or the file has the extension
    /// of another format.
    pub(crate) fn written_as(&self, shown: Option<&Path>, format: Option<&str>) -> Result<WrittenAs<'_>, Error> {
        let wrong = |error: PipelineError| Error::from(PlanError::Pipeline { error, span: None });
        let several = |error: RegistryError| Error::Request {
            message: format!("output {}: {error}", shown.unwrap_or(Path::new("-")).display()),
            help: "--to NAME chooses one of them".to_string(),
        };
        let extension = shown.and_then(Path::extension).map(|extension| extension.to_string_lossy().to_lowercase());
        let (found, options) = match format.map(|text| asked(Direction::Write, text)).transpose().map_err(wrong)? {
            Some(Stage { name, options, .. }) if name == TVMSCRIPT && options.is_empty() => return Ok(WrittenAs::Text),
            Some(Stage { name, options, .. }) => (Some(self.registry().find_format(Direction::Write, &name)?), options),
            None => {
                let by_extension = |extension: &String| {
                    self.registry().format_of_extension(Direction::Write, extension).map_err(several)
                };
                (extension.as_ref().map(by_extension).transpose()?.flatten(), Vec::new())
            }
        };
        match found {
            Some(writer) => {
                let options = writer.options(Direction::Write, &options).map_err(wrong)?;
                Ok(WrittenAs::Writer(writer, options))
            }
            None => shown.map_or(Ok(()), |shown| Written::Module.check(shown)).map(|()| WrittenAs::Text),
        }
    }

    /// Writes a module with a writer, and returns the reports of the writer. `spared` are files that it must not
    /// overwrite.
    ///
    /// # Errors
    /// If the plugin cannot be opened, the writer fails, or a file cannot be written. All files are then unchanged.
    pub(crate) fn write_by(
        &self,
        module: &Module,
        (writer, options): (&Format<'_>, &[OptionValue]),
        output: &Output,
        spared: &[&Path],
        context: &PassContext,
    ) -> Result<Vec<Report>, Error> {
        self.try_unknown(writer.owner)?;
        let (owner, name) = (self.registry().owner(writer.owner), &writer.info.name);
        let plugin = self.open(writer.owner)?;
        let (shown, place) = match output {
            Output::Stdout => ("<stdout>".to_string(), None),
            Output::File { shown, path } => (shown.display().to_string(), Some(from_start(path))),
            Output::Through(path) => (path.display().to_string(), None),
        };
        let plugins = self.registry().owners().filter_map(|(_, owner)| owner.file.as_deref());
        let spared: Vec<&Path> = plugins.chain([self.lock().path()]).chain(spared.iter().copied()).collect();
        let mut reports = Vec::new();
        let mut write = |file: &mut dyn Write| -> Result<(), Stopped> {
            let (mut beside, mut lost) = (Beside::of(output), None);
            let mut take = |name: &str, bytes: &[u8]| {
                let written = if name.is_empty() { file.write_all(bytes) } else { beside.put(name, bytes, &spared) };
                lost = written.err().or(lost.take());
                lost.is_none()
            };
            let writing = FormatCall::writing(self, name, context, &mut take);
            let about = Direction::Write.to_string();
            let call =
                process::Call { kind: Kind::Format, step: 0, name, plugin: &owner.name, file: b"", about: &about };
            let doing = process::begin(&call);
            let facts = FileFacts { name: &shown, path: place.as_deref() };
            let written = writing.run(|| plugin.write(writer.at, module, facts, options));
            drop(doing);
            reports = writing.reports(&shown, owner, Direction::Write, None);
            if let Some(error) = lost {
                return Err(Stopped::File(error));
            }
            written
                .map_err(|failure| Stopped::Writer(failed(Direction::Write, &shown, name, owner, failure).into()))?;
            file.flush().map_err(Stopped::File)?;
            beside.keep().map_err(Stopped::File)
        };
        match output {
            Output::Stdout => {
                let mut bytes = Vec::new();
                write(&mut bytes).map_err(|stopped| stopped.of("<stdout>"))?;
                let text = String::from_utf8(bytes).map_err(|_| {
                    Stopped::File(io::Error::other("it only accepts text; choose a file with -o")).of("<stdout>")
                })?;
                to_stdout(&text)?;
            }
            _ => {
                let mut stopped = None;
                let written = output.write_with(|file| {
                    write(&mut io::BufWriter::with_capacity(1 << 16, file)).map_err(|why| match why {
                        Stopped::File(error) => error,
                        Stopped::Writer(error) => {
                            stopped = Some(*error);
                            io::ErrorKind::Other.into()
                        }
                    })
                });
                stopped.map_or(written, Err)?;
            }
        }
        Ok(reports)
    }
}

/// The reason why nothing was written.
enum Stopped {
    File(io::Error),
    Writer(Box<Error>),
}

impl Stopped {
    fn of(self, shown: &str) -> Error {
        match self {
            Stopped::File(error) => Error::Write { path: shown.into(), message: error.to_string() },
            Stopped::Writer(error) => *error,
        }
    }
}
