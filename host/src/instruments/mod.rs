//! The instruments of a run, and the rules by which they are called.
//!
//! `enter` in order; if one fails, those already entered are exited in reverse, the list is cleared, and nothing runs.
//! `should_run` of all; all must agree. `run_before` in order, but of clocks last; whoever's succeeded gets exactly one
//! `run_after` or `run_failed`, clocks first, also when another instrument failed. `exit` in order; a failure clears the
//! list, and later ones are not exited. A panic is a failure, and who panicked is not called again. The first failure
//! stops the run; others that follow from it are told beside it. A run that keeps going leaves
//! an instrument out that failed, and nothing else. In a run as TVM does it there is no `run_failed`, and nobody is told
//! of the end of a pass once anybody failed in it.

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

/// One instrument, and whose it is.
pub struct Instrument {
    name: Rc<str>,
    plugin: String,
    file: Option<PathBuf>,
    what: Rc<RefCell<What>>,
    /// It is one of an outer context, which enters and exits it.
    inherited: bool,
    /// It failed in a run that went on.
    left_out: bool,
    /// It measures the pass, and not what others do around it.
    clock: bool,
}

enum What {
    Own(Box<dyn PassInstrument>),
    /// Of a plugin that this program links.
    Linked(Box<dyn PassInstrument>),
    Plugins(Box<dyn OfPlugin>),
}

/// An instrument of a plugin, wherever that runs.
pub(crate) trait OfPlugin: PassInstrument {
    /// Whether it panicked; then it is not called any more.
    fn panicked(&self) -> bool;
    /// Gives it back to its plugin.
    ///
    /// # Errors
    /// If its destructor failed.
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
    /// One of the program that embeds the host.
    pub fn new(name: &str, instrument: Box<dyn PassInstrument>) -> Instrument {
        Instrument::of(name, &Owner::embedder(), What::Own(instrument))
    }

    /// One that measures passes: it is told last that a pass begins, and first that it ended, so that what others do
    /// around the pass is not in it.
    pub fn clock(name: &str, instrument: Box<dyn PassInstrument>) -> Instrument {
        Instrument { clock: true, ..Instrument::new(name, instrument) }
    }

    /// One of a plugin.
    pub(crate) fn of_plugin(name: &str, owner: &Owner, instrument: Box<dyn OfPlugin>) -> Instrument {
        Instrument::of(name, owner, What::Plugins(instrument))
    }

    /// One of a plugin that this program links, called as a function of the program.
    pub(crate) fn linked(name: &str, owner: &Owner, instrument: Box<dyn PassInstrument>) -> Instrument {
        Instrument::of(name, owner, What::Linked(instrument))
    }

    fn of(name: &str, owner: &Owner, what: What) -> Instrument {
        let (plugin, file, what) = (owner.name.clone(), owner.file.clone(), Rc::new(RefCell::new(what)));
        Instrument { name: name.into(), plugin, file, what, inherited: false, left_out: false, clock: false }
    }

    /// The same one for a context inside the one that has it.
    pub(crate) fn inherited(&self) -> Instrument {
        let (name, plugin, file) = (Rc::clone(&self.name), self.plugin.clone(), self.file.clone());
        let (left_out, clock) = (self.left_out, self.clock);
        Instrument { name, plugin, file, what: Rc::clone(&self.what), inherited: true, left_out, clock }
    }

    /// Whether a plugin made it for the time that a context is entered.
    fn is_made(&self) -> bool {
        !self.inherited && self.what.try_borrow().is_ok_and(|what| !matches!(*what, What::Own(_)))
    }
}

/// Notes that an instrument is called, if it is one of a plugin.
pub(crate) fn doing(name: &str, plugin: &str, file: Option<&Path>, event: &str) -> Option<process::Doing> {
    let file = file?.as_os_str().as_encoded_bytes();
    let call = process::Call { kind: Kind::Instrument, step: 0, name, plugin, file, about: event };
    Some(process::begin(&call))
}

/// Who got `run_before` of a pass, and is owed an end of it.
#[must_use = "each of them must be called when the pass has ended"]
#[derive(Debug)]
pub struct Started(Vec<usize>);

/// Who is being called, for what it reports: shared with the host's services.
pub(crate) type Speaking = Rc<RefCell<Option<Rc<str>>>>;

/// The instruments of a context, in the order in which they are called.
#[derive(Default)]
pub struct Instruments {
    list: Vec<Instrument>,
    mode: Mode,
    failures: Vec<Error>,
    speaking: Speaking,
    /// Libraries of plugins of which one panicked, and where.
    panicked: BTreeMap<PathBuf, String>,
    /// Passes that were begun and have not ended.
    open: usize,
}

/// How a run calls its instruments.
#[derive(Clone, Default)]
pub(crate) struct Mode {
    /// One that fails is left out from then on, and everything else goes on.
    pub(crate) keep_going: bool,
    /// The rules of the run.
    pub(crate) compat: Compat,
    /// Where each call is to be a span.
    pub(crate) trace: Option<Trace>,
}

impl Instruments {
    /// Adds one behind the others.
    pub fn push(&mut self, instrument: Instrument) {
        self.list.push(instrument);
    }

    /// How they are called from now on; gives how they were.
    pub(crate) fn mode(&mut self, mode: Mode) -> Mode {
        std::mem::replace(&mut self.mode, mode)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(crate) fn speaking(&self) -> Speaking {
        Rc::clone(&self.speaking)
    }

    /// Why a plugin cannot be trusted any more, if an instrument of it panicked.
    pub(crate) fn panicked(&self, library: &Path) -> Option<String> {
        self.panicked.get(library).cloned()
    }

    fn mark(&mut self, library: Option<PathBuf>, why: String) {
        if let Some(library) = library {
            self.panicked.entry(library).or_insert(why);
        }
    }

    /// Failures that did not stop anything, or that followed from one that did; they are forgotten here.
    pub fn take_failures(&mut self) -> Vec<Error> {
        std::mem::take(&mut self.failures)
    }

    /// One of a plugin could not be made.
    ///
    /// # Errors
    /// That, unless everything else goes on.
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

    /// The context is entered.
    ///
    /// # Errors
    /// The first failure. Those entered before it are exited, and the list is empty.
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

    /// The context is left.
    ///
    /// # Errors
    /// The first failure. Instruments behind it are not exited, and the list is empty.
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

    /// Exits these and enters others in their place.
    ///
    /// # Errors
    /// The first failure; the list is empty then.
    pub fn replace(&mut self, others: Vec<Instrument>) -> Result<(), Error> {
        self.exit()?;
        self.clear();
        self.list = others;
        self.enter()
    }

    /// Asks all whether a pass may run; gives the names of those that veto it.
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

    /// A pass is going to run.
    ///
    /// # Errors
    /// The first failure. Those that were told before it were told that the pass failed.
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

    /// A pass ran and gave `module`.
    ///
    /// # Errors
    /// The first failure; all that were started are told nevertheless.
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

    /// A pass failed; `module` is the one before it.
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

    /// Drops all. What a destructor of a plugin does wrong is among the failures.
    pub fn clear(&mut self) {
        let all = std::mem::take(&mut self.list);
        self.close(all);
    }

    /// Drops those that plugins made, in the same way.
    pub(crate) fn clear_made(&mut self) {
        let (made, others) = std::mem::take(&mut self.list).into_iter().partition(Instrument::is_made);
        self.list = others;
        self.close(made);
    }

    /// Handles of all, for a context inside.
    pub(crate) fn inherited(&self) -> Vec<Instrument> {
        self.list.iter().map(Instrument::inherited).collect()
    }

    /// Whether a pass was begun that has not ended.
    pub(crate) fn is_watching(&self) -> bool {
        self.open > 0
    }

    fn close(&mut self, all: Vec<Instrument>) {
        for Instrument { name, plugin, file, what, inherited, .. } in all {
            // A context inside can still have it; the last one closes it.
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

    /// Notes a failure that followed from another.
    fn beside(&mut self, told: Result<(), Error>) {
        self.failures.extend(told.err().map(|error| match error {
            Error::Instrument { instrument, plugin, file, event, pass, message, .. } => {
                Error::Instrument { instrument, plugin, file, event, pass, message, kept: None }
            }
            other => other,
        }));
    }

    /// Calls one. In a run that keeps going a failure leaves it out, and the answer is `instead`, as it is for one that
    /// was left out before.
    fn call<R>(
        &mut self,
        at: usize,
        event: &'static str,
        pass: Option<&PassFacts<'_>>,
        instead: R,
        f: impl FnOnce(&mut dyn PassInstrument) -> Result<R, PassError>,
    ) -> Result<R, Error> {
        // A failure in between can have cleared the list.
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
            Err(_) => Err(PassError::new("is called while it is being called; an instrument must not run passes")),
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
