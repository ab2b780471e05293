//! Plugins in processes of their own: a plugin that crashes, hangs or exits costs its step, and nothing else. The host's
//! end is [`Opened`], which is the same for a plugin here and one in a worker.
//! `docs/decisions/0009-plugins-in-workers.md` says what crosses, and what is not promised.

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

use crate::instruments::OfPlugin;
use crate::plugins::loader::Listed;
use crate::report::error::Error;
use apart::Apart;
use passhost_lang::ir::{Body, Call, Module};
use passhost_lang::metadata::OptionValue;
use passhost_lang::typing::legalized::Legalized;
use passhost_lang::typing::operators::{InferError, Inferred};
use plugin_api::abi::host::{OpenPlugin, RunFailure};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use worker::Worker;

/// Which plugins run in processes of their own, and how those are started.
#[derive(Clone, Debug, Default)]
pub struct Isolation {
    /// The program of the workers: one that calls [`worker`] first. The command line is one.
    pub worker: Option<PathBuf>,
    /// All plugins; without this, those whose entry in the manifest says so.
    pub all: bool,
    /// Limits of each worker, beside those of the manifest.
    pub limits: Limits,
}

/// A plugin that is open: in this process, or in workers.
pub enum Opened {
    /// Its library is loaded here.
    Here(OpenPlugin),
    /// Its library is loaded in processes of its own.
    Apart(Box<Apart>),
}

/// Serves a host if this process was started as a worker, and then gives the exit code to end with. A program that other
/// programs name as their worker calls this first of all.
pub fn worker() -> Option<u8> {
    let mut args = std::env::args_os().skip(1);
    (args.next()? == COMMAND)
        .then(|| if args.next().is_some_and(|what| what == HOLDS) { serve::show() } else { serve::run() })
}

/// Asks a worker which bounds it has, instead of a plugin.
const HOLDS: &str = "holds";

/// Which bounds workers have on this machine: this program tries them in a process of its own.
pub(crate) fn holding() -> Result<Vec<Holding>, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut worker = std::process::Command::new(program);
    worker.args([COMMAND, HOLDS]).stdin(std::process::Stdio::null());
    let output = worker.output().map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout);
    limits::read_holding(&text).ok_or_else(|| "a worker does not say it".to_string())
}

/// Opening takes milliseconds; after this it will not end.
const OPENING: Duration = Duration::from_secs(60);

/// Opens a plugin in a worker, which is a process of this program, and lets it end. Without limits of its own the plugin
/// may do there what it may do here: what its constructors and its initialization do wrong harms nobody else.
///
/// # Errors
/// If there can be no worker, or the plugin does not survive that.
pub(crate) fn try_out(listed: &Listed, limits: Option<&Limits>) -> Result<(), Error> {
    let program = std::env::current_exe().map_err(|error| Error::Request {
        message: format!("the file of this program is not known: {error}"),
        help: "the program must stay where it is while it works".to_string(),
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

    /// Lets its workers end; gives how those ended that did not end in order.
    pub(crate) fn close(&self) -> Vec<String> {
        match self {
            Opened::Here(_) => Vec::new(),
            Opened::Apart(plugin) => plugin.close(),
        }
    }
}
