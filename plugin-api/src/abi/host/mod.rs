//! The host's side of the boundary: contexts, and calls into an opened plugin.

pub mod log;
pub(in crate::abi) mod spans;
pub(crate) mod table;
mod tracing_sink;

use crate::PassError;
use crate::abi::entry::{
    ENTRY_MAGIC, Entry, EntryOf1_1, FAILED, OK, PANICKED, REFUSED_OPTION, RunResult, failures_in, option_bytes,
    read_error, read_failures,
};
pub use crate::abi::formats::FileFacts;
use crate::abi::formats::Formats;
pub use crate::abi::host::log::{
    LogEvent, LogSink, LogSpan, Parent, TracingSink, log_sink, max_level, set_log_sink, set_max_level,
};
pub use crate::abi::layout::FINGERPRINT;
pub use crate::abi::version::{ApiMismatch, fingerprint};
use crate::declare::diagnostics::Severity;
use crate::ir::Call;
use crate::ir::storage::body_handle::{Body, BodyHdr};
use crate::ir::storage::live::Header;
use crate::ir::storage::module_handle::{Module, ModuleHdr};
use crate::ir::storage::sections::RawView;
use crate::metadata::{OptionValue, PluginMeta};
pub use crate::pattern::Wanted;
use crate::services::evaluation::{Evaluated, EvaluationError, EvaluationLimits};
pub use crate::services::files::{Open, place_beside};
use crate::services::inferred::decode_inferred;
use crate::services::{self, CtxRecord, RawBytes, Sink};
use crate::typing::legalized::Legalized;
use crate::typing::operators::{InferError, Inferred};
use abi_stable::type_layout::TypeLayout;
use foldhash::fast::FixedState;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};
use xxhash_rust::xxh3::xxh3_128;

/// The services of the host for plugins. One per run context, called on the thread that runs the pass.
pub trait HostServices {
    /// Infers the type and purity of a call, using the plugin that declares the operator.
    ///
    /// # Errors
    /// If the operator is unknown, or the call does not match it.
    fn infer(&self, call: Call<'_>) -> Result<Inferred, InferError>;
    /// Legalizes a call, using the plugin that declares the operator; `None` if the operator lacks a legalization. The
    /// default rejects all calls.
    ///
    /// # Errors
    /// If the operator is unknown, or the call cannot be legalized.
    fn legalize(&self, call: Call<'_>) -> Result<Option<Legalized>, InferError> {
        Err(InferError::NoHost(call.op().unwrap_or("a call").to_string()))
    }
    /// Executes a function without parameters. Fails by default.
    ///
    /// # Errors
    /// The reason for the failure.
    fn evaluate(&self, _function: &Body, _limits: EvaluationLimits) -> Result<Evaluated, EvaluationError> {
        Err(EvaluationError::no_host())
    }
    /// Prints a function as TVMScript.
    fn print(&self, body: &Body) -> String;
    /// Returns the value of a config key, or its default if it is not set.
    fn config(&self, key: &str) -> Option<OptionValue>;
    /// Receives the next bytes of a writer's output (if the name is empty) or of a file beside it. Returns false to
    /// reject them, as the default does.
    fn put(&self, _name: &str, _bytes: &[u8]) -> bool {
        false
    }
    /// Returns the name of the running pass.
    fn pass_name(&self) -> String;
    /// Returns the number under which plugins cache analyses; `None` if analyses are not cached. Numbers are never
    /// reused: each run has a new number, which changes within the run whenever the cache must be dropped.
    fn run(&self) -> Option<u64> {
        None
    }
    /// Returns the target of the run, as a name or as JSON.
    fn target(&self) -> Option<String>;
    /// Reports a diagnostic.
    fn diagnose(&self, diagnostic: &Diagnostic<'_>);
    /// Adds a place, labelled by the message, to the last diagnostic. Does nothing by default.
    fn label(&self, _label: &Diagnostic<'_>) {}
    /// Returns the requested reports of missed opportunities of the running pass in a function; none by default.
    fn wanted(&self, _function: Option<&str>) -> Wanted {
        Wanted::Nothing
    }
    /// Adds to a counter of the running pass. Does nothing by default.
    fn statistic(&self, _name: &str, _n: u64) {}
    /// Shows a module as text, with an identifying header. Does nothing by default.
    fn show_module(&self, _module: &Module, _header: &str) {}
}

/// A report of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Diagnostic<'a> {
    /// Severity of the diagnostic.
    pub severity: Severity,
    /// The affected function.
    pub function: Option<&'a str>,
    /// The affected node of the function.
    pub node: Option<usize>,
    /// What was found and what was expected.
    pub message: &'a str,
}

/// The current context. The host's data stays here; plugins see only the record.
struct Current<'a> {
    record: &'a CtxRecord,
    run: u64,
    frame: &'a Frame<'a>,
}

pub(in crate::abi) const NOTHING_DONE: (*const *const BodyHdr, *const Vec<u8>) = (std::ptr::null(), std::ptr::null());

thread_local! {
    static CURRENT: Cell<*const Current<'static>> = const { Cell::new(std::ptr::null()) };
    /// The reason why the host refused to build a module for the running pass; the service itself can only return null.
    static NO_MODULE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Stores the reason until the end of the call.
pub(in crate::abi) fn no_module(why: String) {
    NO_MODULE.set(Some(why));
}

/// A function that a pass is applied to, with its name.
type Named<'a> = (&'a str, &'a Body);

/// The host's data of a context.
pub(in crate::abi) struct Frame<'a> {
    pub(in crate::abi) services: &'a dyn HostServices,
    /// Functions of the current batch.
    batch: Cell<(*const Named<'static>, usize)>,
    /// Results and failures of the batch so far; null if unknown.
    done: Cell<(*const *const BodyHdr, *const Vec<u8>)>,
}

impl Frame<'_> {
    /// Returns the name of a function of the batch.
    pub(in crate::abi) fn function(&self, index: usize) -> Option<&str> {
        let (functions, n) = self.batch.get();
        // SAFETY: `run_functions` keeps the functions alive while they are set here.
        (index < n).then(|| unsafe { (*functions.add(index)).0 })
    }

    /// Returns a function of the batch.
    pub(in crate::abi) fn body(&self, index: usize) -> Option<&Body> {
        let (functions, n) = self.batch.get();
        // SAFETY: as above.
        (index < n).then(|| unsafe { (*functions.add(index)).1 })
    }

    /// Returns the position of the function that the plugin is processing. Functions are processed in order, and each
    /// adds a result or a failure.
    fn at_work(&self) -> Option<usize> {
        let ((_, n), (results, failures)) = (self.batch.get(), self.done.get());
        if results.is_null() {
            return (n == 1).then_some(0);
        }
        // SAFETY: `run_functions` keeps `n` results and the failures alive while they are set here.
        let (results, failures) = unsafe { (std::slice::from_raw_parts(results, n), &*failures) };
        Some(results.iter().filter(|result| !result.is_null()).count() + failures_in(failures))
    }
}

/// Passes to `f` the name of the function that a plugin is processing on this thread, if any. Neither locks nor
/// allocates, so it can be called in a signal handler.
pub fn function_at_work(f: impl FnOnce(&str)) {
    with_frame(|frame| {
        if let Some(name) = frame.at_work().and_then(|at| frame.function(at)) {
            f(name);
        }
    });
}

/// Restores a cell when dropped, even during a panic.
struct Restore<'a, T: Copy>(&'a Cell<T>, T);

impl<T: Copy> Drop for Restore<'_, T> {
    fn drop(&mut self) {
        self.0.set(self.1);
    }
}

/// Makes `host` the current context of this thread while `f` runs.
pub fn with_current<R>(host: &dyn HostServices, opt_level: i32, f: impl FnOnce() -> R) -> R {
    services::answer_here(|| (!current().is_null()).then_some(&table::SERVICES));
    let frame = Frame { services: host, batch: Cell::new((std::ptr::null(), 0)), done: Cell::new(NOTHING_DONE) };
    let size = std::mem::size_of::<CtxRecord>() as u32;
    static RUNS: AtomicU64 = AtomicU64::new(1);
    let run = RUNS.fetch_add(1, Ordering::Relaxed);
    let record = CtxRecord { size, opt_level, run };
    let own = Current { record: &record, run, frame: &frame };
    CURRENT.with(|current| {
        let _restore = Restore(current, current.replace((&raw const own).cast()));
        f()
    })
}

/// Runs `f` with the current context of this thread, if any.
fn with_own<R>(f: impl FnOnce(&Current<'_>) -> R) -> Option<R> {
    // SAFETY: `with_current` keeps the context and its borrows alive while it is current on this thread, and `f` cannot
    // keep references to it.
    unsafe { CURRENT.with(Cell::get).as_ref() }.map(f)
}

/// Returns the record of the current context of this thread, or null.
pub(in crate::abi) extern "C" fn current() -> *const CtxRecord {
    with_own(|current| std::ptr::from_ref(current.record)).unwrap_or(std::ptr::null())
}

/// Runs `f` with the host's data of the current context, if any.
pub(in crate::abi) fn with_frame<R>(f: impl FnOnce(&Frame<'_>) -> R) -> Option<R> {
    with_own(|current| f(current.frame))
}

/// Runs `f` with the services of the current context of this thread, if any.
pub fn with_services<R>(f: impl FnOnce(&dyn HostServices) -> R) -> Option<R> {
    with_frame(|frame| f(frame.services))
}

/// Returns the opt_level of the current context of this thread, if any.
pub fn current_opt_level() -> Option<i32> {
    with_own(|current| current.record.opt_level)
}

/// Runs `f` with the host's data if the current context belongs to this run. Returns `None` if a plugin kept the
/// context beyond its run or took it to another thread.
pub(in crate::abi) fn with_run<R>(run: u64, f: impl FnOnce(&Frame<'_>) -> R) -> Option<R> {
    with_own(|current| (current.run == run).then(|| f(current.frame))).flatten()
}

/// The reason why an opened library is not a plugin for this host.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// The entry function returned null.
    #[error("its entry function does not return a table")]
    NoTable,
    /// The entry table is invalid.
    #[error("its entry table starts with {found:016x}, expected {ENTRY_MAGIC:016x}")]
    Magic {
        /// The first bytes of the table.
        found: u64,
    },
    /// The table has an unexpected size.
    #[error("its entry table has {found} bytes, but this host needs {needed}")]
    Size {
        /// The size stored in the table, in bytes.
        found: usize,
        /// The size that this host expects, in bytes.
        needed: usize,
    },
    /// A required field of the table is null.
    #[error("the address of `{what}` in its entry table is null")]
    Null {
        /// The field.
        what: &'static str,
    },
    /// Table and metadata contradict each other.
    #[error("its code and its metadata section disagree on {what}: {entry} and {meta}")]
    Mismatch {
        /// The contradicting property.
        what: &'static str,
        /// Value of the field in the code.
        entry: String,
        /// Value of the field in the section.
        meta: String,
    },
    /// Code and metadata differ in more than a single value.
    #[error("its code and its metadata section differ in {what}")]
    Differs {
        /// The differing part.
        what: String,
    },
    /// The layout of a record differs.
    #[error("layout differs: {0}")]
    Layout(String),
    /// The initialization failed.
    #[error("its initialization failed: {0}")]
    Init(String),
    /// The initialization panicked.
    #[error("its initialization panicked: {0}")]
    InitPanic(String),
    /// The initialization returned a status that is not part of this API.
    #[error("its initialization ended with the undefined status {0}")]
    InitStatus(u32),
}

impl OpenError {
    /// Returns advice for the user.
    pub fn help(&self) -> &'static str {
        match self {
            OpenError::Mismatch { .. } | OpenError::Differs { .. } => "rebuild the plugin from one source",
            OpenError::Init(_) | OpenError::InitPanic(_) => {
                "this is a problem of the plugin; passes of other plugins do not need it"
            }
            _ => "rebuild the plugin against the plugin API of this host",
        }
    }
}

/// The failure of plugin code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunFailure {
    /// The code returned an error.
    Error(PassError),
    /// The code panicked; the string contains message and location.
    Panic(String),
    /// The code returned an invalid result.
    Protocol(String),
    /// The plugin process ended, or was killed, before it returned a result.
    Ended {
        /// The way in which the process ended.
        message: String,
        /// The function that the code was processing, if known.
        function: Option<String>,
    },
}

impl RunFailure {
    pub(in crate::abi) fn read(status: u32, bytes: &[u8]) -> RunFailure {
        match status {
            FAILED => RunFailure::Error(read_error(bytes)),
            REFUSED_OPTION => RunFailure::Error(read_error(bytes).of_option()),
            PANICKED => RunFailure::Panic(String::from_utf8_lossy(bytes).into_owned()),
            other => RunFailure::Protocol(format!("ended with the undefined status {other}")),
        }
    }
}

impl std::fmt::Display for RunFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RunFailure::Error(error) => write!(f, "{error}"),
            RunFailure::Panic(text) => write!(f, "panicked: {text}"),
            RunFailure::Protocol(text) | RunFailure::Ended { message: text, .. } => f.write_str(text),
        }
    }
}

/// An opened plugin. It is never unloaded, so its functions remain valid.
#[derive(Clone, Copy)]
pub struct OpenPlugin {
    /// The plugin's own table, for its shims.
    pub(in crate::abi) own: *const Entry,
    /// The host's copy of the table.
    pub(in crate::abi) entry: &'static Entry,
    /// The functions for readers and writers, in a plugin of API 1.1.
    pub(in crate::abi) formats: Option<Formats>,
}

// SAFETY: the tables are immutable and live as long as the process.
unsafe impl Send for OpenPlugin {}
// SAFETY: as above.
unsafe impl Sync for OpenPlugin {}

impl OpenPlugin {
    /// Checks the entry table returned by `symbol` against the metadata of the file, compares layouts, and initializes
    /// the plugin. The host must already have checked the API version and fingerprint in `meta`.
    ///
    /// # Errors
    /// The first failed step.
    ///
    /// # Safety
    /// `symbol` is the entry function ([`ENTRY_SYMBOL`](crate::abi::entry::ENTRY_SYMBOL)) of a library that is
    /// never unloaded.
    pub unsafe fn open(
        symbol: unsafe extern "C" fn() -> *const c_void,
        meta: &PluginMeta,
    ) -> Result<OpenPlugin, OpenError> {
        // SAFETY: guaranteed by the caller. Magic and size are checked first, through pointers to fields with fixed
        // offsets.
        let (own, entry, formats) = unsafe {
            let own = symbol().cast::<Entry>();
            if own.is_null() {
                return Err(OpenError::NoTable);
            }
            let found = (&raw const (*own).magic).read_unaligned();
            if found != ENTRY_MAGIC {
                return Err(OpenError::Magic { found });
            }
            let found = (&raw const (*own).size).read_unaligned() as usize;
            let needed = EntryOf1_1::size_in(meta.api.minor);
            if found != needed {
                return Err(OpenError::Size { found, needed });
            }
            let null = |what| OpenError::Null { what };
            match meta.api.minor {
                0 => (own, Entry::checked(own).map_err(null)?, None),
                _ => {
                    let EntryOf1_1 { first, read, write } = EntryOf1_1::checked(own).map_err(null)?;
                    (own, first, Some(Formats { read, write }))
                }
            }
        };
        compare(&entry, meta)?;
        // SAFETY: the fingerprint covers the layout of `TypeLayout`, so the plugin's record has this layout.
        let theirs = unsafe { (entry.layout)().cast::<TypeLayout>().as_ref() };
        let theirs = theirs.ok_or_else(|| OpenError::Layout("the version in the plugin is unknown".to_string()))?;
        crate::abi::layout::compare(crate::abi::layout::layout_of_boundary(), theirs).map_err(OpenError::Layout)?;
        let _call = spans::Call::begin();
        let (status, text) = Sink::to(|sink| (entry.init)(&crate::abi::host::table::SERVICES, sink));
        match status {
            // This leaks one table per plugin.
            OK => Ok(OpenPlugin { own, entry: Box::leak(Box::new(entry)), formats }),
            FAILED => Err(OpenError::Init(String::from_utf8_lossy(&text).into_owned())),
            PANICKED => Err(OpenError::InitPanic(String::from_utf8_lossy(&text).into_owned())),
            other => Err(OpenError::InitStatus(other)),
        }
    }

    /// Runs a module pass, given the values of all its options in declaration order. A context must be current
    /// ([`with_current`]).
    ///
    /// # Errors
    /// The failure; the module is unchanged.
    pub fn run_module(&self, pass: usize, module: &Module, options: &[OptionValue]) -> Result<Module, RunFailure> {
        let options = option_bytes(options);
        let options = RawBytes::of(&options);
        let ctx = current();
        let _call = spans::Call::begin();
        let run = |sink| (self.entry.run_module)(self.own, pass as u32, module.as_ptr(), options, ctx, sink);
        made_module(Some(module), run)
    }

    /// Runs a function, PrimFunc or dataflow-block pass on each function, given the values of all its options in
    /// declaration order. A context must be current ([`with_current`]). All functions are processed, even after a
    /// failure; there is one result per function. The functions are unchanged.
    pub fn run_functions(
        &self,
        pass: usize,
        functions: &[(&str, &Body)],
        options: &[OptionValue],
    ) -> Vec<Result<Body, RunFailure>> {
        let options = option_bytes(options);
        let options = RawBytes::of(&options);
        let handles: Vec<*const BodyHdr> = functions.iter().map(|(_, body)| body.as_ptr()).collect();
        let mut out = vec![std::ptr::null(); functions.len()];
        let mut errors = Vec::new();
        let (n, slots, ctx) = (handles.len(), out.as_mut_ptr(), current());
        let failures = &raw mut errors;
        let run = || {
            let errors = Sink::filling(failures);
            (self.entry.run_functions)(self.own, pass as u32, handles.as_ptr(), slots, n, options, ctx, errors);
        };
        let _call = spans::Call::begin();
        let lent = Lent::of(functions);
        with_batch(functions, (slots.cast_const(), failures.cast_const()), run);
        let mut results: Vec<_> = out.into_iter().enumerate().map(|(at, new)| lent.take(at, new)).collect();
        for (at, status, bytes) in read_failures(&errors) {
            if let Some(result) = results.get_mut(at) {
                *result = Err(RunFailure::read(status, bytes));
            }
        }
        results
    }

    /// Runs the checker of a property on a function. A context must be current ([`with_current`]).
    ///
    /// # Errors
    /// The reason why the function lacks the property ([`RunFailure::Error`]), or the failure of the checker.
    pub fn check_property(&self, property: usize, function: (&str, &Body)) -> Result<(), RunFailure> {
        let (body, ctx) = (function.1.as_ptr(), current());
        let run = |sink| (self.entry.check_property)(self.own, property as u32, body, ctx, sink);
        let _call = spans::Call::begin();
        match with_batch(&[function], NOTHING_DONE, || Sink::to(run)) {
            (OK, _) => Ok(()),
            (status, error) => Err(RunFailure::read(status, &error)),
        }
    }

    /// Infers the type of a call with the rule of an operator of this plugin.
    ///
    /// # Errors
    /// If the call does not match the operator.
    pub fn infer(&self, operator: usize, call: Call<'_>) -> Result<Inferred, InferError> {
        let value = call.value();
        let node = value.index().ok_or_else(|| InferError::wrong("not a call"))?;
        let raw: *const RawView<'_> = value.raw;
        let _call = spans::Call::begin();
        let ask = |sink| (self.entry.infer)(self.own, operator as u32, raw.cast(), node as u32, sink);
        let (status, bytes) = Sink::to(ask);
        decode_inferred(status, &bytes)
    }

    /// Legalizes a call with the rule of an operator of this plugin; `None` if the operator lacks a legalization.
    ///
    /// # Errors
    /// If the call cannot be legalized, or the answer is not a function sealed by this host.
    pub fn legalize(&self, operator: usize, call: Call<'_>) -> Result<Option<Legalized>, InferError> {
        let value = call.value();
        let node = value.index().ok_or_else(|| InferError::wrong("not a call"))?;
        let raw: *const RawView<'_> = value.raw;
        let _call = spans::Call::begin();
        let mut function = std::ptr::null();
        let place = &raw mut function;
        let ask = |sink| (self.entry.legalize)(self.own, operator as u32, raw.cast(), node as u32, place, sink);
        let (status, bytes) = Sink::to(ask);
        if !function.is_null() && !BodyHdr::is_live(function) {
            let what =
                "its legalization is a function that does not belong to this host; this is a fault of its plugin";
            return Err(InferError::Panicked(what.to_string()));
        }
        // SAFETY: null, or the handle of a live body whose ownership the plugin transfers.
        let function = unsafe { Body::from_ptr(function) };
        services::read_legalized(status, &bytes, function, call)?.map(|answer| answer.checked(call)).transpose()
    }
}

/// Takes ownership of the module returned by plugin code, which may be its input module.
pub(in crate::abi) fn made_module(
    lent: Option<&Module>,
    run: impl FnOnce(Sink) -> RunResult,
) -> Result<Module, RunFailure> {
    let outer = NO_MODULE.take();
    let owners = lent.map(Module::owners);
    let (result, error) = Sink::to(run);
    let refused = NO_MODULE.replace(outer);
    if result.status != OK {
        return Err(RunFailure::read(result.status, &error));
    }
    let protocol = |why: &str| RunFailure::Protocol(refused.unwrap_or_else(|| why.to_string()));
    if !result.handle.is_null() && !ModuleHdr::is_live(result.handle) {
        return Err(protocol("returned a module that does not belong to this host"));
    }
    if let Some(lent) = lent.filter(|lent| lent.as_ptr() == result.handle && Some(lent.owners()) <= owners) {
        return Ok(lent.clone());
    }
    // SAFETY: the handle is null, or refers to a live module and the plugin passes ownership.
    unsafe { Module::from_ptr(result.handle) }.ok_or_else(|| protocol("did not return a module"))
}

/// Makes the functions and their results available in the current context while `f` processes them.
pub(in crate::abi) fn with_batch<R>(
    functions: &[Named<'_>],
    done: (*const *const BodyHdr, *const Vec<u8>),
    f: impl FnOnce() -> R,
) -> R {
    let mut f = Some(f);
    let run = |frame: &Frame<'_>| {
        let _batch = Restore(&frame.batch, frame.batch.replace((functions.as_ptr().cast(), functions.len())));
        let _done = Restore(&frame.done, frame.done.replace(done));
        f.take().map(|f| f())
    };
    let result = with_frame(run).flatten();
    match (result, f) {
        (Some(result), _) => result,
        (None, Some(f)) => f(),
        (None, None) => unreachable!("`f` is taken only to give a result"),
    }
}

/// Functions lent to a plugin for a call, each with its number of owners before the call.
///
/// A plugin that returns a lent function should add an owner. Otherwise, the count would be too low, and the function
/// would be freed while in use. Therefore, a lent function whose owners did not increase gets a new owner here; at
/// worst, that owner is never released.
struct Lent<'a> {
    functions: &'a [Named<'a>],
    owners: Vec<u64>,
    /// The position of each function; built for the first result that is not the function at the same position.
    places: OnceCell<HashMap<*const BodyHdr, usize, FixedState>>,
}

impl<'a> Lent<'a> {
    fn of(functions: &'a [Named<'a>]) -> Lent<'a> {
        Lent { functions, owners: functions.iter().map(|(_, body)| body.owners()).collect(), places: OnceCell::new() }
    }

    /// Takes the handle that a plugin stored as a result.
    fn take(&self, at: usize, handle: *const BodyHdr) -> Result<Body, RunFailure> {
        if let Some(body) = self.uncounted(at, handle) {
            return Ok(body.clone());
        }
        let is_input = self.functions.get(at).is_some_and(|(_, input)| input.as_ptr() == handle);
        if !is_input && !handle.is_null() && !BodyHdr::is_live(handle) {
            return Err(RunFailure::Protocol("returned a function that does not belong to this host".into()));
        }
        // SAFETY: null, or the handle of a live body. The plugin transfers one ownership. This can be checked only for
        // lent functions: their owner count must have increased.
        unsafe { Body::from_ptr(handle) }.ok_or_else(|| RunFailure::Protocol("did not return a function".into()))
    }

    /// Returns the lent function of a handle, if its number of owners did not increase.
    fn uncounted(&self, at: usize, handle: *const BodyHdr) -> Option<&'a Body> {
        let place = match self.functions.get(at) {
            Some((_, body)) if body.as_ptr() == handle => at,
            _ => *self.places().get(&handle)?,
        };
        let body = self.functions[place].1;
        (body.owners() <= self.owners[place]).then_some(body)
    }

    fn places(&self) -> &HashMap<*const BodyHdr, usize, FixedState> {
        self.places.get_or_init(|| {
            self.functions.iter().enumerate().map(|(place, (_, body))| (body.as_ptr(), place)).collect()
        })
    }
}

/// Compares the metadata in a plugin's memory with the metadata in its file.
fn compare(entry: &Entry, meta: &PluginMeta) -> Result<(), OpenError> {
    // SAFETY: not null ([`Entry::completed`]), and a static of the plugin, whose length is in the table.
    let block = unsafe { entry.metadata.get() };
    let counts = (entry.n_passes as usize, entry.n_operators as usize) == (meta.passes.len(), meta.operators.len());
    if counts && entry.fingerprint == meta.fingerprint && xxh3_128(block) == meta.digest {
        return Ok(());
    }
    // The bytes differ; find the difference.
    let own = PluginMeta::decode(block);
    let own = own.map_err(|error| OpenError::Differs { what: format!("the copy in memory: {error}") })?;
    fn joined<'a>(names: impl Iterator<Item = &'a String>) -> String {
        names.map(String::as_str).collect::<Vec<_>>().join(", ")
    }
    let numbers = |passes: usize, operators: usize| format!("{passes} and {operators}");
    let pairs: [(&'static str, String, String); 7] = [
        ("name", own.name.clone(), meta.name.clone()),
        ("version", own.version.to_string(), meta.version.to_string()),
        ("API", own.api.to_string(), meta.api.to_string()),
        ("fingerprint", format!("{:x}", entry.fingerprint), format!("{:x}", meta.fingerprint)),
        ("passes", joined(own.passes.iter().map(|pass| &pass.name)), joined(meta.passes.iter().map(|pass| &pass.name))),
        (
            "operators",
            joined(own.operators.iter().map(|op| &op.name)),
            joined(meta.operators.iter().map(|op| &op.name)),
        ),
        (
            "numbers of passes and operators",
            numbers(entry.n_passes as usize, entry.n_operators as usize),
            numbers(meta.passes.len(), meta.operators.len()),
        ),
    ];
    if let Some((what, entry, meta)) = pairs.into_iter().find(|(_, entry, meta)| entry != meta) {
        return Err(OpenError::Mismatch { what, entry, meta });
    }
    let pass = own.passes.iter().zip(&meta.passes).find(|(own, meta)| own != meta);
    let operator = own.operators.iter().zip(&meta.operators).find(|(own, meta)| own != meta);
    let what = pass.map(|(pass, _)| format!("the facts of pass `{}`", pass.name));
    let what = what.or_else(|| operator.map(|(op, _)| format!("the facts of operator `{}`", op.name)));
    let what = what.or_else(|| (own.config != meta.config).then(|| "the config options".to_string()));
    let what = what.or_else(|| (own.properties != meta.properties).then(|| "the properties".to_string()));
    let what = what.or_else(|| (own.composites != meta.composites).then(|| "the composite passes".to_string()));
    let what = what.or_else(|| (own.instruments != meta.instruments).then(|| "its instruments".to_string()));
    let what = what.or_else(|| (own.readers != meta.readers).then(|| "its readers".to_string()));
    let what = what.or_else(|| (own.writers != meta.writers).then(|| "its writers".to_string()));
    what.map_or(Ok(()), |what| Err(OpenError::Differs { what }))
}
