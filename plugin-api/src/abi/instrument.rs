//! Instruments across the boundary: the shims on the plugin's side, and the host's handle of an instrument.
//!
//! The state of an instrument belongs to the plugin; the host keeps an opaque pointer. The properties of a pass cross
//! as tagged fields, so that later versions can add fields.

use crate::PassError;
use crate::abi::entry::{Entry, FAILED, OK, PANICKED, VETOED, caught, error_bytes, read_error, read_options};
use crate::abi::host::spans;
use crate::abi::host::{OpenPlugin, RunFailure};
use crate::declare::instrument::{PassFacts, PassInstrument};
use crate::declare::pass::Ctx;
use crate::ir::storage::module_handle::{Module, ModuleHdr};
use crate::metadata::wire::{Fields, put_field};
use crate::metadata::{Granularity, OptionValue, Required};
use crate::services::{RawBytes, Sink};
use semver::VersionReq;

/// Numbers of the events. Never reused.
mod event {
    pub(super) const ENTER: u32 = 1;
    pub(super) const EXIT: u32 = 2;
    pub(super) const SHOULD_RUN: u32 = 3;
    pub(super) const RUN_BEFORE: u32 = 4;
    pub(super) const RUN_AFTER: u32 = 5;
    pub(super) const RUN_FAILED: u32 = 6;
}

/// Tags of the fields of an event. Never reused.
pub(super) mod field {
    pub(in super::super) const NAME: u16 = 1;
    pub(in super::super) const OPT_LEVEL: u16 = 2;
    pub(in super::super) const GRANULARITY: u16 = 3;
    /// Name of a required pass.
    pub(in super::super) const REQUIRED: u16 = 4;
    /// Version requirement on the plugin of the preceding required pass.
    pub(in super::super) const VERSION: u16 = 5;
    pub(in super::super) const PLUGIN: u16 = 6;
    pub(in super::super) const POSITION: u16 = 7;
    /// Reason why a pass failed.
    pub(in super::super) const MESSAGE: u16 = 8;
}

/// Encodes the properties of a pass as fields.
pub(super) fn facts_bytes(pass: &PassFacts<'_>) -> Vec<u8> {
    let mut out = Vec::with_capacity(128);
    put_field(&mut out, field::NAME, pass.name.as_bytes());
    put_field(&mut out, field::OPT_LEVEL, &pass.opt_level.to_le_bytes());
    put_field(&mut out, field::GRANULARITY, &[pass.granularity as u8]);
    for required in pass.required {
        put_field(&mut out, field::REQUIRED, required.name.as_bytes());
        if let Some(version) = &required.version {
            put_field(&mut out, field::VERSION, version.to_string().as_bytes());
        }
    }
    put_field(&mut out, field::PLUGIN, pass.plugin.as_bytes());
    put_field(&mut out, field::POSITION, &(pass.position as u64).to_le_bytes());
    out
}

/// Decodes the bytes of [`facts_bytes`] and the message after them.
pub(super) fn with_facts<R>(bytes: &[u8], f: impl FnOnce(&PassFacts<'_>, &str) -> R) -> R {
    let mut required: Vec<Required> = Vec::new();
    let granularity = Granularity::Module;
    let mut facts = PassFacts { name: "", opt_level: 0, granularity, required: &[], plugin: "", position: 0 };
    let mut message = "";
    for (tag, content) in Fields::new(bytes).flatten() {
        let text = std::str::from_utf8(content).unwrap_or_default();
        match tag {
            field::NAME => facts.name = text,
            field::OPT_LEVEL => facts.opt_level = content.try_into().map_or(0, i32::from_le_bytes),
            field::GRANULARITY => facts.granularity = granularity_of(content),
            field::REQUIRED => required.push(Required { name: text.to_string(), version: None }),
            field::VERSION => {
                if let Some(last) = required.last_mut() {
                    last.version = VersionReq::parse(text).ok();
                }
            }
            field::PLUGIN => facts.plugin = text,
            field::POSITION => facts.position = content.try_into().map_or(0, u64::from_le_bytes) as usize,
            field::MESSAGE => message = text,
            _ => {}
        }
    }
    f(&PassFacts { required: &required, ..facts }, message)
}

fn granularity_of(content: &[u8]) -> Granularity {
    let known = if let [number] = content { Granularity::of(*number) } else { None };
    known.unwrap_or(Granularity::Module)
}

/// Parameters: table, instrument, options, place for the state, error.
pub(super) extern "C" fn make(
    entry: *const Entry,
    at: u32,
    options: RawBytes,
    state: *mut *mut u8,
    error: Sink,
) -> u32 {
    let make = || {
        // SAFETY: the host passes the plugin's own table, and bytes that live during the call.
        let (entry, options) = unsafe { (&*entry, read_options(options)?) };
        let Some(decl) = entry.decl().more.instruments.get(at as usize) else {
            return Err(PassError::new("the host requested an instrument that the plugin does not have"));
        };
        (decl.new)(&options, &Ctx::current())
    };
    answer(caught(make), error, |instrument| {
        // SAFETY: the host passes room for a pointer.
        unsafe { *state = Box::into_raw(Box::new(instrument)).cast() };
        OK
    })
}

/// Returns the status of a shim, and sends its error.
fn answer<T>(result: Result<Result<T, PassError>, String>, error: Sink, fine: impl FnOnce(T) -> u32) -> u32 {
    match result {
        Ok(Ok(value)) => fine(value),
        Ok(Err(failure)) => {
            error.put(&error_bytes(&failure));
            FAILED
        }
        Err(panic) => {
            error.put(panic.as_bytes());
            PANICKED
        }
    }
}

/// Parameters: state, event, module or null, properties of the pass, error.
pub(super) extern "C" fn call(
    state: *mut u8,
    what: u32,
    module: *const ModuleHdr,
    facts: RawBytes,
    error: Sink,
) -> u32 {
    let call = || {
        // SAFETY: the host passes a state from `make` that is not in use, a live module or none, and bytes that
        // live during the call.
        let (instrument, module, facts) =
            unsafe { (&mut *state.cast::<Box<dyn PassInstrument>>(), Module::clone_ptr(module), facts.get()) };
        let module = || module.as_ref().ok_or_else(|| PassError::new("the host did not pass a module"));
        with_facts(facts, |pass, message| match what {
            event::ENTER => instrument.enter().map(|()| true),
            event::EXIT => instrument.exit().map(|()| true),
            event::SHOULD_RUN => instrument.should_run(module()?, pass),
            event::RUN_BEFORE => instrument.run_before(module()?, pass).map(|()| true),
            event::RUN_AFTER => instrument.run_after(module()?, pass).map(|()| true),
            event::RUN_FAILED => instrument.run_failed(module()?, pass, message).map(|()| true),
            // The event was added in a later version.
            _ => Ok(true),
        })
    };
    answer(caught(call), error, |agrees| if agrees { OK } else { VETOED })
}

/// Parameters: state, error.
pub(super) extern "C" fn drop_state(state: *mut u8, error: Sink) -> u32 {
    // SAFETY: the host passes a state from `make`, once.
    let drop_it = || unsafe { drop(Box::from_raw(state.cast::<Box<dyn PassInstrument>>())) };
    answer(caught(drop_it).map(Ok), error, |()| OK)
}

impl OpenPlugin {
    /// Creates an instrument given the values of all its options in declaration order. A context must be current
    /// ([`with_current`](crate::abi::host::with_current)).
    ///
    /// # Errors
    /// The failure.
    pub fn make_instrument(&self, at: usize, options: &[OptionValue]) -> Result<PluginInstrument, RunFailure> {
        let options = crate::abi::entry::option_bytes(options);
        let mut state = std::ptr::null_mut();
        let _call = spans::Call::begin();
        let make =
            |sink| (self.entry.make_instrument)(self.own, at as u32, RawBytes::of(&options), &raw mut state, sink);
        let (status, error) = Sink::to(make);
        if status != OK {
            return Err(RunFailure::read(status, &error));
        }
        if state.is_null() {
            return Err(RunFailure::Protocol("did not return an instrument".to_string()));
        }
        Ok(PluginInstrument { entry: self.entry, state, panicked: false, kept: Vec::new() })
    }
}

/// An instrument of a plugin. It is not called again after a panic.
pub struct PluginInstrument {
    entry: &'static Entry,
    /// The state of the instrument; null after release.
    state: *mut u8,
    panicked: bool,
    /// Spans that the instrument entered in `enter` or `run_before`, whose matching event is still to come.
    kept: Vec<spans::Kept>,
}

impl PluginInstrument {
    /// Starts the call of an event. An event that matches an earlier event continues with the spans of that event.
    fn begin(&mut self, what: u32) -> spans::Call {
        match what {
            event::EXIT | event::RUN_AFTER | event::RUN_FAILED => {
                spans::Call::resume(self.kept.pop().unwrap_or_default())
            }
            _ => spans::Call::begin(),
        }
    }

    /// Leaves the spans of events that will not get a matching event.
    fn leave_spans(&mut self) {
        while let Some(kept) = self.kept.pop() {
            drop(spans::Call::resume(kept));
        }
    }

    /// Calls the instrument. For `should_run`, returns true if the pass may run.
    fn event(&mut self, what: u32, module: Option<&Module>, facts: &[u8]) -> Result<bool, PassError> {
        if self.panicked {
            return Ok(true);
        }
        let module = module.map_or(std::ptr::null(), Module::as_ptr);
        let spans = self.begin(what);
        let call = |sink| (self.entry.call_instrument)(self.state, what, module, RawBytes::of(facts), sink);
        let (status, error) = Sink::to(call);
        match status {
            OK => {
                if matches!(what, event::ENTER | event::RUN_BEFORE) {
                    self.kept.push(spans.pause());
                }
                Ok(true)
            }
            VETOED => Ok(false),
            FAILED => Err(read_error(&error)),
            other => {
                self.panicked = true;
                drop(spans);
                self.leave_spans();
                Err(PassError::new(RunFailure::read(other, &error).to_string()))
            }
        }
    }

    /// Returns true if the instrument panicked.
    pub fn panicked(&self) -> bool {
        self.panicked
    }

    /// Returns the instrument to its plugin, which drops it.
    ///
    /// # Errors
    /// If the destructor panicked.
    pub fn close(mut self) -> Result<(), RunFailure> {
        self.give_back()
    }

    fn give_back(&mut self) -> Result<(), RunFailure> {
        let state = std::mem::replace(&mut self.state, std::ptr::null_mut());
        if state.is_null() {
            return Ok(());
        }
        let spans = spans::Call::begin();
        let (status, error) = Sink::to(|sink| (self.entry.drop_instrument)(state, sink));
        drop(spans);
        self.leave_spans();
        if status == OK { Ok(()) } else { Err(RunFailure::read(status, &error)) }
    }
}

impl Drop for PluginInstrument {
    fn drop(&mut self) {
        if let Err(failure) = self.give_back() {
            tracing::error!("the destructor of an instrument {failure}");
        }
    }
}

impl PassInstrument for PluginInstrument {
    fn enter(&mut self) -> Result<(), PassError> {
        self.event(event::ENTER, None, &[]).map(drop)
    }

    fn exit(&mut self) -> Result<(), PassError> {
        self.event(event::EXIT, None, &[]).map(drop)
    }

    fn should_run(&mut self, module: &Module, pass: &PassFacts<'_>) -> Result<bool, PassError> {
        self.event(event::SHOULD_RUN, Some(module), &facts_bytes(pass))
    }

    fn run_before(&mut self, module: &Module, pass: &PassFacts<'_>) -> Result<(), PassError> {
        self.event(event::RUN_BEFORE, Some(module), &facts_bytes(pass)).map(drop)
    }

    fn run_after(&mut self, module: &Module, pass: &PassFacts<'_>) -> Result<(), PassError> {
        self.event(event::RUN_AFTER, Some(module), &facts_bytes(pass)).map(drop)
    }

    fn run_failed(&mut self, module: &Module, pass: &PassFacts<'_>, message: &str) -> Result<(), PassError> {
        let mut facts = facts_bytes(pass);
        put_field(&mut facts, field::MESSAGE, message.as_bytes());
        self.event(event::RUN_FAILED, Some(module), &facts).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_of_a_pass_comes_over_whole() {
        let version = VersionReq::parse(">= 0.2, < 1").expect("a requirement");
        let required = [
            Required { name: "t.A".to_string(), version: None },
            Required { name: "t.B".to_string(), version: Some(version) },
        ];
        let granularities = [
            Granularity::Module,
            Granularity::Function,
            Granularity::DataflowBlock,
            Granularity::PrimFunc,
            Granularity::Composite,
        ];
        for granularity in granularities {
            let pass =
                PassFacts { name: "t.C", opt_level: -3, granularity, required: &required, plugin: "p", position: 7 };
            let mut bytes = facts_bytes(&pass);
            with_facts(&bytes, |facts, message| assert_eq!((facts, message), (&pass, "")));
            put_field(&mut bytes, 999, b"of a later version");
            put_field(&mut bytes, field::MESSAGE, "lost its way".as_bytes());
            with_facts(&bytes, |facts, message| assert_eq!((facts, message), (&pass, "lost its way")));
        }
    }
}
