//! Runs plugins in processes of their own, so that a plugin that crashes, hangs or exits fails only its step. The host uses [`Opened`],
//! which has the same interface for plugins in this process and in workers. `docs/decisions/0009-plugins-in-workers.md` describes the data
//! that crosses the boundary, and the limits of the guarantees.

#[cfg(unix)]
mod answers;
#[cfg(unix)]
mod apart;
mod call_key;
#[cfg(unix)]
mod census;
#[cfg(unix)]
mod channel;
#[cfg(unix)]
mod limits;
#[cfg(unix)]
mod logs;
#[cfg(unix)]
mod remote;
#[cfg(target_os = "linux")]
mod said;
mod sandbox;
#[cfg(unix)]
mod serve;
#[cfg(unix)]
mod talk;
#[cfg(unix)]
mod words;
#[cfg(unix)]
mod worker;

pub(crate) use call_key::call_key;
pub(crate) use limits::Holding;
pub use limits::Limits;
pub(crate) use worker::{COMMAND, Fates, Start};

use crate::files::mapped::{Bytes, opened};
use crate::instruments::OfPlugin;
use crate::plugins::loader::Listed;
use crate::report::error::Error;
use apart::Apart;
use passhost_lang::ir::{Body, Call, Module};
use passhost_lang::metadata::OptionValue;
use passhost_lang::typing::legalized::Legalized;
use passhost_lang::typing::operators::{InferError, Inferred};
use plugin_api::abi::host::{FileFacts, OpenPlugin, RunFailure, with_services};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use worker::Worker;

/// Settings for plugins that run in their own processes.
#[derive(Clone, Debug, Default)]
pub struct Isolation {
    /// The worker program, which calls [`worker`] first, such as the command line.
    pub worker: Option<PathBuf>,
    /// True to isolate all plugins; false to isolate only plugins whose manifest entry requests it.
    pub all: bool,
    /// Limits of each worker, in addition to those in the manifest.
    pub limits: Limits,
}

/// An open plugin: in this process, or in workers.
pub enum Opened {
    /// Loaded in this process.
    Here(OpenPlugin),
    /// Loaded in worker processes.
    Apart(Box<Apart>),
}

/// Serves a host if this process was started as a worker, and then returns the exit code to end with. A program that is used as a worker must
/// call this before anything else.
pub fn worker() -> Option<u8> {
    let mut args = std::env::args_os().skip(1);
    (args.next()? == COMMAND)
        .then(|| if args.next().is_some_and(|what| what == HOLDS) { serve::show() } else { serve::run() })
}

/// Argument that makes a worker report its limits instead of serving a plugin.
const HOLDS: &str = "holds";

/// Returns the limits that can be enforced on workers on this machine, by trying them in a new process of this program.
pub(crate) fn holding() -> Result<Vec<Holding>, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut worker = std::process::Command::new(program);
    worker.args([COMMAND, HOLDS]).stdin(std::process::Stdio::null());
    let output = worker.output().map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout);
    limits::read_holding(&text).ok_or_else(|| "unknown in a worker".to_string())
}

/// A file for a reader.
pub(crate) struct Reads<'a> {
    /// Name of the input in messages.
    pub(crate) name: &'a str,
    /// The absolute path of the input, if it is a file.
    pub(crate) path: Option<&'a Path>,
    /// Returns the bytes of the input, for a reader in this process. A worker maps the file instead.
    pub(crate) bytes: &'a dyn Fn() -> Result<Bytes, Error>,
}

impl Reads<'_> {
    fn facts(&self) -> FileFacts<'_> {
        FileFacts { name: self.name, path: self.path }
    }
}

/// Passes bytes of a file to the current context. Returns false if it rejects them.
fn put_here(name: &str, bytes: &[u8]) -> bool {
    with_services(|services| services.put(name, bytes)).unwrap_or(false)
}

/// Time limit for opening a plugin, which normally takes milliseconds.
const OPENING: Duration = Duration::from_secs(60);

/// Opens a plugin in a worker process of this program, and then ends the worker. Without limits of its own, the plugin may do the same
/// there as in this process, but faults in its constructors and initialization do no harm here.
///
/// # Errors
/// If the worker cannot be started, or the plugin does not survive being opened.
pub(crate) fn try_out(listed: &Listed, limits: Option<&Limits>) -> Result<(), Error> {
    let program = std::env::current_exe().map_err(|error| Error::Request {
        message: format!("the path of this program is unknown: {error}"),
        help: "the program must not be moved while it runs".to_string(),
    })?;
    let most = Limits { timeout: Some(OPENING), ..Limits::default() };
    let limits = limits.cloned().unwrap_or_else(Limits::everything).within(&most);
    let echo = tracing::enabled!(tracing::Level::DEBUG);
    Worker::try_out(listed, &Start { program, limits, echo, fates: Arc::default(), talk: Arc::default() })
}

impl Opened {
    /// Opens a plugin in a worker.
    pub(crate) fn apart(listed: &Listed, start: Start) -> Result<Opened, Error> {
        Apart::open(listed, start).map(|apart| Opened::Apart(Box::new(apart)))
    }

    pub(crate) fn run_module(
        &self,
        pass: usize,
        module: &Module,
        options: &[OptionValue],
    ) -> Result<Module, RunFailure> {
        match self {
            Opened::Here(plugin) => plugin.run_module(pass, module, options),
            Opened::Apart(plugin) => plugin.run_module(pass, module, options),
        }
    }

    pub(crate) fn run_functions(
        &self,
        pass: usize,
        functions: &[(&str, &Body)],
        options: &[OptionValue],
    ) -> Vec<Result<Body, RunFailure>> {
        match self {
            Opened::Here(plugin) => plugin.run_functions(pass, functions, options),
            Opened::Apart(plugin) => plugin.run_functions(pass, functions, options),
        }
    }

    /// Reads a file with a reader. The outer error is about the file itself.
    pub(crate) fn read(
        &self,
        reader: usize,
        source: &Reads<'_>,
        options: &[OptionValue],
    ) -> Result<Result<Module, RunFailure>, Error> {
        match self {
            Opened::Here(plugin) => {
                let bytes = (source.bytes)()?;
                let open = |name: &str| opened(&bytes, source.path, name);
                Ok(plugin.read(reader, source.facts(), &bytes, &open, options))
            }
            Opened::Apart(plugin) => plugin.read(reader, source, options),
        }
    }

    /// Writes a module with a writer. The current context receives the bytes.
    pub(crate) fn write(
        &self,
        writer: usize,
        module: &Module,
        file: FileFacts<'_>,
        options: &[OptionValue],
    ) -> Result<(), RunFailure> {
        match self {
            Opened::Here(plugin) => plugin.write(writer, module, file, options, &mut put_here),
            Opened::Apart(plugin) => plugin.write(writer, module, file, options),
        }
    }

    pub(crate) fn check_property(&self, property: usize, function: (&str, &Body)) -> Result<(), RunFailure> {
        match self {
            Opened::Here(plugin) => plugin.check_property(property, function),
            Opened::Apart(plugin) => plugin.check_property(property, function),
        }
    }

    pub(crate) fn infer(&self, operator: usize, call: Call<'_>) -> Result<Inferred, InferError> {
        match self {
            Opened::Here(plugin) => plugin.infer(operator, call),
            Opened::Apart(plugin) => plugin.infer(operator, call),
        }
    }

    pub(crate) fn legalize(&self, operator: usize, call: Call<'_>) -> Result<Option<Legalized>, InferError> {
        match self {
            Opened::Here(plugin) => plugin.legalize(operator, call),
            Opened::Apart(plugin) => plugin.legalize(operator, call),
        }
    }

    pub(crate) fn make_instrument(&self, at: usize, options: &[OptionValue]) -> Result<Box<dyn OfPlugin>, RunFailure> {
        match self {
            Opened::Here(plugin) => plugin.make_instrument(at, options).map(|made| Box::new(made) as _),
            Opened::Apart(plugin) => plugin.make_instrument(at, options).map(|made| Box::new(made) as _),
        }
    }

    /// Shuts down the workers, and returns the error messages of the workers that did not end cleanly.
    pub(crate) fn close(&self) -> Vec<String> {
        match self {
            Opened::Here(_) => Vec::new(),
            Opened::Apart(plugin) => plugin.close(),
        }
    }
}
