//! Calls the instruments of a run.
//!
//! `enter` is called in order. If one fails, the instruments already entered are exited in reverse, the list is cleared, and nothing runs.
//! `should_run` is called on all, and all must agree. `run_before` is called in order, clocks last. Every instrument whose `run_before`
//! succeeded gets exactly one `run_after` or `run_failed`, clocks first, even if another instrument failed. `exit` is called in order; a
//! failure clears the list, and later instruments are not exited. A panic is a failure, and an instrument that panicked is not called
//! again. The first failure stops the run, and failures that follow from it are reported with it. A run that keeps going drops only the
//! failed instrument. A TVM-compatible run does not call `run_failed`, and calls no instrument at the end of a pass in which an instrument
//! failed.

pub mod dump;
pub mod memory;
pub mod print_ir;
pub mod timing;
pub mod trace;

use self::trace::Trace;
use crate::process::{self, DESTRUCTOR, Kind, NEW};
use crate::report::error::{Error, Kept};
use passhost_lang::PassError;
use passhost_lang::ir::Module;
use plugin_api::abi::PluginInstrument;
use plugin_api::abi::host::RunFailure;
use plugin_api::abi::in_process::caught;
use plugin_api::declare::instrument::{PassFacts, PassInstrument};
use registry::{Compat, Owner};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// An instrument with its owner.
pub struct Instrument {
    name: Rc<str>,
    plugin: String,
    file: Option<PathBuf>,
    what: Rc<RefCell<What>>,
    /// True if the instrument belongs to an outer context, which enters and exits it.
    inherited: bool,
    /// True if the instrument failed in a run that continued.
    left_out: bool,
    /// True if the instrument measures only the pass, without the other instruments.
    clock: bool,
}

enum What {
    Own(Box<dyn PassInstrument>),
    /// An instrument of a plugin that this program links.
    Linked(Box<dyn PassInstrument>),
    Plugins(Box<dyn OfPlugin>),
}

/// An instrument of a plugin, in any process.
pub(crate) trait OfPlugin: PassInstrument {
    /// Returns true if the instrument panicked; it is then not called again.
    fn panicked(&self) -> bool;
    /// Gives the instrument back to its plugin, which destroys it.
    ///
    /// # Errors
    /// If the destructor of the instrument failed.
    fn close(self: Box<Self>) -> Result<(), RunFailure>;
}

impl OfPlugin for PluginInstrument {
    fn panicked(&self) -> bool {
        PluginInstrument::panicked(self)
    }

    fn close(self: Box<Self>) -> Result<(), RunFailure> {
        PluginInstrument::close(*self)
    }
}

impl Instrument {
    /// Creates an instrument of the program that embeds the host.
    pub fn new(name: &str, instrument: Box<dyn PassInstrument>) -> Instrument {
        Instrument::of(name, &Owner::embedder(), What::Own(instrument))
    }

    /// Creates an instrument that measures passes. It is called last before a pass and first after it, so that other instruments are not
    /// measured.
    pub fn clock(name: &str, instrument: Box<dyn PassInstrument>) -> Instrument {
        Instrument { clock: true, ..Instrument::new(name, instrument) }
    }

    /// Creates an instrument of a plugin.
    pub(crate) fn of_plugin(name: &str, owner: &Owner, instrument: Box<dyn OfPlugin>) -> Instrument {
        Instrument::of(name, owner, What::Plugins(instrument))
    }

    /// Creates an instrument of a plugin that this program links, whose functions are called directly.
    pub(crate) fn linked(name: &str, owner: &Owner, instrument: Box<dyn PassInstrument>) -> Instrument {
        Instrument::of(name, owner, What::Linked(instrument))
    }

    fn of(name: &str, owner: &Owner, what: What) -> Instrument {
        let (plugin, file, what) = (owner.name.clone(), owner.file.clone(), Rc::new(RefCell::new(what)));
        Instrument { name: name.into(), plugin, file, what, inherited: false, left_out: false, clock: false }
    }

    /// Returns the same instrument, for a context that is nested in the context of the instrument.
    pub(crate) fn inherited(&self) -> Instrument {
        let (name, plugin, file) = (Rc::clone(&self.name), self.plugin.clone(), self.file.clone());
        let (left_out, clock) = (self.left_out, self.clock);
        Instrument { name, plugin, file, what: Rc::clone(&self.what), inherited: true, left_out, clock }
    }

    /// Returns true if a plugin created the instrument. Such an instrument exists only while a context is entered.
    fn is_made(&self) -> bool {
        !self.inherited && self.what.try_borrow().is_ok_and(|what| !matches!(*what, What::Own(_)))
    }
}

/// Records that an instrument of a plugin is called, for the crash handler.
pub(crate) fn doing(name: &str, plugin: &str, file: Option<&Path>, event: &str) -> Option<process::Doing> {
    let file = file?.as_os_str().as_encoded_bytes();
    let call = process::Call { kind: Kind::Instrument, step: 0, name, plugin, file, about: event };
    Some(process::begin(&call))
}

/// The instruments whose `run_before` was called for a pass, and whose `run_after` or `run_failed` is still to be called.
#[must_use = "each of them must be called when the pass has ended"]
#[derive(Debug)]
pub struct Started(Vec<usize>);

/// The name of the instrument being called, to which its reports are attributed. Shared with the host's services.
pub(crate) type Speaking = Rc<RefCell<Option<Rc<str>>>>;

/// The instruments of a context, in the order in which they are called.
#[derive(Default)]
pub struct Instruments {
    list: Vec<Instrument>,
    mode: Mode,
    failures: Vec<Error>,
    speaking: Speaking,
    /// Libraries of plugins whose instruments panicked, with the reason.
    panicked: BTreeMap<PathBuf, String>,
    /// Number of passes in progress.
    open: usize,
}

/// How a run calls its instruments.
#[derive(Clone, Default)]
pub(crate) struct Mode {
    /// True if an instrument that fails is left out and the run continues.
    pub(crate) keep_going: bool,
    /// The mode of the run: as in passhost, or as in TVM.
    pub(crate) compat: Compat,
    /// The trace in which each call is a span.
    pub(crate) trace: Option<Trace>,
}

impl Instruments {
    /// Appends an instrument.
    pub fn push(&mut self, instrument: Instrument) {
        self.list.push(instrument);
    }

    /// Sets how the instruments are called, and returns the previous mode.
    pub(crate) fn mode(&mut self, mode: Mode) -> Mode {
        std::mem::replace(&mut self.mode, mode)
    }

    /// Returns true if the list is empty.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(crate) fn speaking(&self) -> Speaking {
        Rc::clone(&self.speaking)
    }

    /// Returns the reason if a plugin is no longer trusted because one of its instruments panicked.
    pub(crate) fn panicked(&self, library: &Path) -> Option<String> {
        self.panicked.get(library).cloned()
    }

    fn mark(&mut self, library: Option<PathBuf>, why: String) {
        if let Some(library) = library {
            self.panicked.entry(library).or_insert(why);
        }
    }

    /// Removes and returns failures that did not stop the run, or that followed from a failure that did.
    pub fn take_failures(&mut self) -> Vec<Error> {
        std::mem::take(&mut self.failures)
    }

    /// Handles an instrument of a plugin that could not be created.
    ///
    /// # Errors
    /// The given failure, unless the run keeps going.
    pub(crate) fn not_made(&mut self, name: &str, owner: &Owner, failure: &RunFailure) -> Result<(), Error> {
        let kept = Some(if self.mode.keep_going { Kept::WentOn } else { Kept::Nothing });
        if matches!(failure, RunFailure::Panic(_)) {
            self.mark(owner.file.clone(), panicked_in(&owner.name, name, NEW));
        }
        let (instrument, plugin, file) = (name.to_string(), owner.name.clone(), owner.file.clone());
        let message = failure.to_string();
        let error = Error::Instrument { instrument, plugin, file, event: NEW, pass: None, message, kept };
        if !self.mode.keep_going {
            return Err(error);
        }
        self.failures.push(error);
        Ok(())
    }

    /// Enters all instruments with the context.
    ///
    /// # Errors
    /// The first failure. Instruments entered before it are exited, and the list is empty.
    pub fn enter(&mut self) -> Result<(), Error> {
        for at in 0..self.list.len() {
            if self.list[at].inherited {
                continue;
            }
            if let Err(error) = self.call(at, "enter", None, (), |instrument| instrument.enter()) {
                for entered in (0..at).rev().filter(|at| !self.list[*at].inherited).collect::<Vec<_>>() {
                    let exited = self.call(entered, "exit", None, (), |instrument| instrument.exit());
                    self.beside(exited);
                }
                self.clear();
                return Err(error);
            }
        }
        Ok(())
    }

    /// Exits all instruments with the context.
    ///
    /// # Errors
    /// The first failure. Later instruments are not exited, and the list is empty.
    pub fn exit(&mut self) -> Result<(), Error> {
        for at in 0..self.list.len() {
            if self.list[at].inherited {
                continue;
            }
            if let Err(error) = self.call(at, "exit", None, (), |instrument| instrument.exit()) {
                self.clear();
                return Err(error);
            }
        }
        Ok(())
    }

    /// Replaces the instruments: exits the old ones, and enters the new ones.
    ///
    /// # Errors
    /// The first failure, after which the list is empty.
    pub fn replace(&mut self, others: Vec<Instrument>) -> Result<(), Error> {
        self.exit()?;
        self.clear();
        self.list = others;
        self.enter()
    }

    /// Asks all instruments whether a pass may run, and returns the names of those that veto it.
    ///
    /// # Errors
    /// The first failure.
    pub fn should_run(&mut self, module: &Module, pass: &PassFacts<'_>) -> Result<Vec<String>, Error> {
        let mut vetoes = Vec::new();
        for at in 0..self.list.len() {
            if !self.call(at, "should_run", Some(pass), true, |instrument| instrument.should_run(module, pass))? {
                vetoes.push(self.list[at].name.to_string());
            }
        }
        Ok(vetoes)
    }

    /// Calls `run_before` of all instruments.
    ///
    /// # Errors
    /// The first failure. Instruments called before it get `run_failed`.
    pub fn run_before(&mut self, module: &Module, pass: &PassFacts<'_>) -> Result<Started, Error> {
        let mut started = Started(Vec::with_capacity(self.list.len()));
        for at in self.clocks_last() {
            match self.call(at, "run_before", Some(pass), (), |instrument| instrument.run_before(module, pass)) {
                Ok(()) => started.0.push(at),
                Err(error) => {
                    self.open += 1;
                    self.run_failed(started, module, pass, &error.to_string());
                    return Err(error);
                }
            }
        }
        self.open += 1;
        Ok(started)
    }

    /// Calls `run_after` of all started instruments, with the result of the pass.
    ///
    /// # Errors
    /// The first failure. All started instruments are called regardless.
    pub fn run_after(&mut self, started: Started, module: &Module, pass: &PassFacts<'_>) -> Result<(), Error> {
        self.open = self.open.saturating_sub(1);
        let mut first = Ok(());
        for at in self.clocks_first(started) {
            let told = self.call(at, "run_after", Some(pass), (), |instrument| instrument.run_after(module, pass));
            if first.is_ok() {
                first = told;
                if first.is_err() && self.mode.compat.leaves_failed_passes_open() {
                    return first;
                }
            } else {
                self.beside(told);
            }
        }
        first
    }

    /// Calls `run_failed` of all started instruments. `module` is the module before the pass.
    pub fn run_failed(&mut self, started: Started, module: &Module, pass: &PassFacts<'_>, message: &str) {
        self.open = self.open.saturating_sub(1);
        if self.mode.compat.leaves_failed_passes_open() {
            return;
        }
        for at in self.clocks_first(started) {
            let told =
                self.call(at, "run_failed", Some(pass), (), |instrument| instrument.run_failed(module, pass, message));
            self.beside(told);
        }
    }

    fn is_clock(&self, at: usize) -> bool {
        self.list.get(at).is_some_and(|instrument| instrument.clock)
    }

    fn clocks_last(&self) -> Vec<usize> {
        let mut all: Vec<usize> = (0..self.list.len()).collect();
        all.sort_by_key(|at| self.is_clock(*at));
        all
    }

    fn clocks_first(&self, Started(mut started): Started) -> Vec<usize> {
        started.sort_by_key(|at| (!self.is_clock(*at), *at));
        started
    }

    /// Drops all instruments. Failures of plugin destructors are added to the failures.
    pub fn clear(&mut self) {
        let all = std::mem::take(&mut self.list);
        self.close(all);
    }

    /// Like [`Instruments::clear`], but only for instruments that plugins created.
    pub(crate) fn clear_made(&mut self) {
        let (made, others) = std::mem::take(&mut self.list).into_iter().partition(Instrument::is_made);
        self.list = others;
        self.close(made);
    }

    /// Returns handles of all instruments, for an inner context.
    pub(crate) fn inherited(&self) -> Vec<Instrument> {
        self.list.iter().map(Instrument::inherited).collect()
    }

    /// Returns true if a pass is in progress.
    pub(crate) fn is_watching(&self) -> bool {
        self.open > 0
    }

    fn close(&mut self, all: Vec<Instrument>) {
        for Instrument { name, plugin, file, what, inherited, .. } in all {
            // An inner context can still use the instrument. The last context that uses it closes it.
            let Some(What::Plugins(instrument)) = Rc::into_inner(what).map(RefCell::into_inner) else { continue };
            let event = DESTRUCTOR;
            let doing = doing(&name, &plugin, file.as_deref(), event);
            let closed = instrument.close();
            drop(doing);
            if let (false, Err(failure)) = (inherited, closed) {
                let (instrument, message) = (name.to_string(), failure.to_string());
                self.failures.push(Error::Instrument {
                    instrument,
                    plugin,
                    file,
                    event,
                    pass: None,
                    message,
                    kept: None,
                });
            }
        }
    }

    /// Records a failure that followed from another failure.
    fn beside(&mut self, told: Result<(), Error>) {
        self.failures.extend(told.err().map(|error| match error {
            Error::Instrument { instrument, plugin, file, event, pass, message, .. } => {
                Error::Instrument { instrument, plugin, file, event, pass, message, kept: None }
            }
            other => other,
        }));
    }

    /// Calls one instrument. In a run that keeps going, a failure removes it, and `instead` is returned, now and in later calls.
    fn call<R>(
        &mut self,
        at: usize,
        event: &'static str,
        pass: Option<&PassFacts<'_>>,
        instead: R,
        f: impl FnOnce(&mut dyn PassInstrument) -> Result<R, PassError>,
    ) -> Result<R, Error> {
        // A failure in the meantime may have cleared the list.
        let Some(instrument) = self.list.get_mut(at).filter(|instrument| !instrument.left_out) else {
            return Ok(instead);
        };
        *self.speaking.borrow_mut() = Some(Rc::clone(&instrument.name));
        let span = self.mode.trace.as_ref().map(|trace| {
            let pass = pass.map_or("", |pass| pass.name);
            trace.span("instrument", &instrument.name, serde_json::json!({ "event": event, "pass": pass }))
        });
        let doing = doing(&instrument.name, &instrument.plugin, instrument.file.as_deref(), event);
        let answer = match instrument.what.try_borrow_mut().as_deref_mut() {
            Ok(What::Own(own) | What::Linked(own)) => caught(|| f(own.as_mut())).unwrap_or_else(|failure| {
                instrument.left_out = true;
                Err(PassError::new(failure.to_string()))
            }),
            Ok(What::Plugins(instrument)) => f(instrument.as_mut()),
            Err(_) => Err(PassError::new("is called recursively; an instrument must not run passes")),
        };
        drop(doing);
        drop(span);
        *self.speaking.borrow_mut() = None;
        let message = match answer {
            Ok(answer) => return Ok(answer),
            Err(PassError { message, .. }) => message,
        };
        let panicked =
            instrument.what.try_borrow().is_ok_and(|what| matches!(&*what, What::Plugins(it) if it.panicked()));
        let error = Error::Instrument {
            instrument: instrument.name.to_string(),
            plugin: instrument.plugin.clone(),
            file: instrument.file.clone(),
            event,
            pass: pass.map(|pass| (pass.position, pass.name.to_string())),
            message,
            kept: Some(if self.mode.keep_going { Kept::WentOn } else { Kept::Nothing }),
        };
        if !self.mode.keep_going {
            return Err(error);
        }
        instrument.left_out = true;
        if panicked {
            let (file, why) = (instrument.file.clone(), panicked_in(&instrument.plugin, &instrument.name, event));
            self.mark(file, why);
        }
        self.failures.push(error);
        Ok(instead)
    }
}

fn panicked_in(plugin: &str, instrument: &str, event: &str) -> String {
    format!("plugin `{plugin}` panicked in `{event}` of the instrument `{instrument}`")
}

#[cfg(test)]
mod tests;
