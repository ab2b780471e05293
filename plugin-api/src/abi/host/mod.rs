//! The host's side of the boundary: contexts, and calls into an opened plugin.

pub mod log;
pub(in crate::abi) mod spans;
pub(crate) mod table;
mod tracing_sink;

use crate::PassError;
use crate::abi::entry::{
    ENTRY_MAGIC, Entry, FAILED, OK, PANICKED, REFUSED_OPTION, failures_in, option_bytes, read_error, read_failures,
};
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

/// What the host does for plugins. One for each run context; calls come on the thread that runs the pass.
pub trait HostServices {
    /// Type and purity of a call, by whichever plugin has the operator.
    ///
    /// # Errors
    /// If the operator is unknown, or the call does not fit it.
    fn infer(&self, call: Call<'_>) -> Result<Inferred, InferError>;
    /// The legalization of a call, by whichever plugin has the operator; `None` if it has none. Without this nothing has
    /// one.
    ///
    /// # Errors
    /// If the operator is unknown, or this call cannot be legalized.
    fn legalize(&self, call: Call<'_>) -> Result<Option<Legalized>, InferError> {
        Err(InferError::NoHost(call.op().unwrap_or("a call").to_string()))
    }
    /// Executes a function without parameters. Without this, nothing is evaluated.
    ///
    /// # Errors
    /// Why it has no value.
    fn evaluate(&self, _function: &Body, _limits: EvaluationLimits) -> Result<Evaluated, EvaluationError> {
        Err(EvaluationError::no_host())
    }
    /// A function as TVMScript.
    fn print(&self, body: &Body) -> String;
    /// Value of a config key: as set, else its default.
    fn config(&self, key: &str) -> Option<OptionValue>;
    /// Name of the running pass.
    fn pass_name(&self) -> String;
    /// The number under which plugins keep analyses, never used twice: a new one for each run, and within a run each time
    /// that they should be forgotten; `None` where analyses are not kept.
    fn run(&self) -> Option<u64> {
        None
    }
    /// Target of the run, as a name or as JSON.
    fn target(&self) -> Option<String>;
    /// Takes a diagnostic.
    fn diagnose(&self, diagnostic: &Diagnostic<'_>);
    /// Adds a place to the diagnostic that was taken last; the message is what to write there. Without this, places are
    /// left out.
    fn label(&self, _label: &Diagnostic<'_>) {}
    /// What the user wants to know about what the running pass misses in a function. Without this, nothing.
    fn wanted(&self, _function: Option<&str>) -> Wanted {
        Wanted::Nothing
    }
    /// Adds to a counter of the running pass. Without this nothing is counted.
    fn statistic(&self, _name: &str, _n: u64) {}
    /// Shows a module as text, with a header that says which one it is. Without this nothing is shown.
    fn show_module(&self, _module: &Module, _header: &str) {}
}

/// What a pass reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Diagnostic<'a> {
    /// How bad it is.
    pub severity: Severity,
    /// Function that it is about.
    pub function: Option<&'a str>,
    /// Node of that function.
    pub node: Option<usize>,
    /// What was found, and what would be right.
    pub message: &'a str,
}

/// A context that is current. What the host needs of it stays here; plugins see the record alone.
struct Current<'a> {
    record: &'a CtxRecord,
    run: u64,
    frame: &'a Frame<'a>,
}

pub(in crate::abi) const NOTHING_DONE: (*const *const BodyHdr, *const Vec<u8>) = (std::ptr::null(), std::ptr::null());

thread_local! {
    static CURRENT: Cell<*const Current<'static>> = const { Cell::new(std::ptr::null()) };
    /// Why the host made no module for the pass that runs: the service itself can only give none.
    static NO_MODULE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Keeps the reason for the end of the call.
pub(in crate::abi) fn no_module(why: String) {
    NO_MODULE.set(Some(why));
}

/// A function that a pass is run over, with its name.
type Named<'a> = (&'a str, &'a Body);

/// What the host finds behind a context.
pub(in crate::abi) struct Frame<'a> {
    pub(in crate::abi) services: &'a dyn HostServices,
    /// Functions of the batch that is being worked on.
    batch: Cell<(*const Named<'static>, usize)>,
    /// Results of that batch, and its failures so far; null where that is not known.
    done: Cell<(*const *const BodyHdr, *const Vec<u8>)>,
}

impl Frame<'_> {
    /// Name of a function of the batch.
    pub(in crate::abi) fn function(&self, index: usize) -> Option<&str> {
        let (functions, n) = self.batch.get();
        // SAFETY: `run_functions` keeps the functions alive while they are set here.
        (index < n).then(|| unsafe { (*functions.add(index)).0 })
    }

    /// A function of the batch.
    pub(in crate::abi) fn body(&self, index: usize) -> Option<&Body> {
        let (functions, n) = self.batch.get();
        // SAFETY: as above.
        (index < n).then(|| unsafe { (*functions.add(index)).1 })
    }

    /// Position of the function that the plugin works on: passes visit them in order, and each leaves a result or a
    /// failure.
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

/// Gives the name of the function that a plugin works on in this thread, if it works on any. A signal handler can call
/// it: it takes no lock and no memory.
pub fn function_at_work(f: impl FnOnce(&str)) {
    with_frame(|frame| {
        if let Some(name) = frame.at_work().and_then(|at| frame.function(at)) {
            f(name);
        }
    });
}

/// Sets a cell back when it is dropped, also by a panic.
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

/// Runs `f` with the current context of this thread, if there is one.
fn with_own<R>(f: impl FnOnce(&Current<'_>) -> R) -> Option<R> {
    // SAFETY: `with_current` keeps it, and what it borrows, alive while it is current on this thread; `f` cannot keep
    // any of it.
    unsafe { CURRENT.with(Cell::get).as_ref() }.map(f)
}

/// The record of the current context of this thread, or null.
pub(in crate::abi) extern "C" fn current() -> *const CtxRecord {
    with_own(|current| std::ptr::from_ref(current.record)).unwrap_or(std::ptr::null())
}

/// Runs `f` with what the host has for the current context, if there is one.
pub(in crate::abi) fn with_frame<R>(f: impl FnOnce(&Frame<'_>) -> R) -> Option<R> {
    with_own(|current| f(current.frame))
}

/// Runs `f` with the services of the current context of this thread, if there is one.
pub fn with_services<R>(f: impl FnOnce(&dyn HostServices) -> R) -> Option<R> {
    with_frame(|frame| f(frame.services))
}

/// The opt_level of the current context of this thread, if there is one.
pub fn current_opt_level() -> Option<i32> {
    with_own(|current| current.record.opt_level)
}

/// The same if the current context is the one of this run. A plugin can keep a context beyond its run, or take it to
/// another thread; then there is none.
pub(in crate::abi) fn with_run<R>(run: u64, f: impl FnOnce(&Frame<'_>) -> R) -> Option<R> {
    with_own(|current| (current.run == run).then(|| f(current.frame))).flatten()
}

/// Why an opened library is no plugin for this host.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// The entry function gives nothing.
    #[error("its entry function returns no table")]
    NoTable,
    /// The entry table is not one.
    #[error("its entry table starts with {found:016x}, one of this plugin API with {ENTRY_MAGIC:016x}")]
    Magic {
        /// How the table starts.
        found: u64,
    },
    /// The table has another size.
    #[error("its entry table has {found} bytes, this host needs {needed}")]
    Size {
        /// Bytes that the table says it has.
        found: usize,
        /// Bytes that this host knows.
        needed: usize,
    },
    /// The table lacks something.
    #[error("its entry table has no `{what}`: the address is null")]
    Null {
        /// The field.
        what: &'static str,
    },
    /// Table and metadata contradict each other.
    #[error("its code says {what} {entry}, its metadata section {meta}")]
    Mismatch {
        /// What is contradicted.
        what: &'static str,
        /// In the code.
        entry: String,
        /// In the section.
        meta: String,
    },
    /// Code and metadata differ in more than a word.
    #[error("its code and its metadata section differ in {what}")]
    Differs {
        /// In what.
        what: String,
    },
    /// A record has another layout.
    #[error("layout differs: {0}")]
    Layout(String),
    /// Its initialization failed.
    #[error("its initialization failed: {0}")]
    Init(String),
    /// Its initialization panicked.
    #[error("its initialization panicked: {0}")]
    InitPanic(String),
    /// Its initialization ended in a way that this API does not have.
    #[error("its initialization ended with status {0}, which this plugin API does not have")]
    InitStatus(u32),
}

impl OpenError {
    /// What to do.
    pub fn help(&self) -> &'static str {
        match self {
            OpenError::Mismatch { .. } | OpenError::Differs { .. } => "rebuild the plugin from one source",
            OpenError::Init(_) | OpenError::InitPanic(_) => {
                "this is up to the plugin; passes of the others run without it"
            }
            _ => "rebuild the plugin against the plugin API of this host",
        }
    }
}

/// How a pass of a plugin failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunFailure {
    /// It gave an error.
    Error(PassError),
    /// It panicked; the text has message and place.
    Panic(String),
    /// It gave something that is no result.
    Protocol(String),
    /// Its process ended, or was ended, before it gave a result.
    Ended {
        /// What happened to the process.
        message: String,
        /// The function that it worked on, where that is known.
        function: Option<String>,
    },
}

impl RunFailure {
    pub(in crate::abi) fn read(status: u32, bytes: &[u8]) -> RunFailure {
        match status {
            FAILED => RunFailure::Error(read_error(bytes)),
            REFUSED_OPTION => RunFailure::Error(read_error(bytes).of_option()),
            PANICKED => RunFailure::Panic(String::from_utf8_lossy(bytes).into_owned()),
            other => RunFailure::Protocol(format!("ended with status {other}, which this plugin API does not have")),
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

/// An opened plugin. Never unloaded, so its functions stay valid.
#[derive(Clone, Copy)]
pub struct OpenPlugin {
    /// The plugin's table, as its own shims know it.
    pub(in crate::abi) own: *const Entry,
    /// The same as this host knows it.
    pub(in crate::abi) entry: &'static Entry,
}

// SAFETY: the tables are immutable and live as long as the process.
unsafe impl Send for OpenPlugin {}
// SAFETY: as above.
unsafe impl Sync for OpenPlugin {}

impl OpenPlugin {
    /// Checks the entry table behind `symbol` against the metadata of the file, compares layouts, and initializes the
    /// plugin. The host has compared API version and fingerprint of `meta` with its own before.
    ///
    /// # Errors
    /// The first step that fails.
    ///
    /// # Safety
    /// `symbol` is the entry function ([`ENTRY_SYMBOL`](crate::abi::entry::ENTRY_SYMBOL)) of a library that is never
    /// unloaded.
    pub unsafe fn open(
        symbol: unsafe extern "C" fn() -> *const c_void,
        meta: &PluginMeta,
    ) -> Result<OpenPlugin, OpenError> {
        // SAFETY: the caller vouches for the symbol. Start and size are looked at before anything else, through
        // pointers to fields whose places never change.
        let (own, entry) = unsafe {
            let own = symbol().cast::<Entry>();
            if own.is_null() {
                return Err(OpenError::NoTable);
            }
            let found = (&raw const (*own).magic).read_unaligned();
            if found != ENTRY_MAGIC {
                return Err(OpenError::Magic { found });
            }
            let found = (&raw const (*own).size).read_unaligned() as usize;
            let needed = size_of::<Entry>();
            if found != needed {
                return Err(OpenError::Size { found, needed });
            }
            (own, Entry::checked(own).map_err(|what| OpenError::Null { what })?)
        };
        compare(&entry, meta)?;
        // SAFETY: the fingerprint covers the layout of `TypeLayout`, so the plugin's is one.
        let theirs = unsafe { (entry.layout)().cast::<TypeLayout>().as_ref() };
        let theirs = theirs.ok_or_else(|| OpenError::Layout("the plugin does not say its own".to_string()))?;
        crate::abi::layout::compare(crate::abi::layout::layout_of_boundary(), theirs).map_err(OpenError::Layout)?;
        let _call = spans::Call::begin();
        let (status, text) = Sink::to(|sink| (entry.init)(&crate::abi::host::table::SERVICES, sink));
        match status {
            // One table for each plugin of the process.
            OK => Ok(OpenPlugin { own, entry: Box::leak(Box::new(entry)) }),
            FAILED => Err(OpenError::Init(String::from_utf8_lossy(&text).into_owned())),
            PANICKED => Err(OpenError::InitPanic(String::from_utf8_lossy(&text).into_owned())),
            other => Err(OpenError::InitStatus(other)),
        }
    }

    /// Runs a module pass with the values of all its options, in the order of their declaration. A context must be
    /// current ([`with_current`]).
    ///
    /// # Errors
    /// How it failed; the module is unharmed.
    pub fn run_module(&self, pass: usize, module: &Module, options: &[OptionValue]) -> Result<Module, RunFailure> {
        let options = option_bytes(options);
        let options = RawBytes::of(&options);
        let ctx = current();
        let _call = spans::Call::begin();
        let run = |sink| (self.entry.run_module)(self.own, pass as u32, module.as_ptr(), options, ctx, sink);
        let outer = NO_MODULE.take();
        let owners = module.owners();
        let (result, error) = Sink::to(run);
        let refused = NO_MODULE.replace(outer);
        if result.status != OK {
            return Err(RunFailure::read(result.status, &error));
        }
        let protocol = |why: &str| RunFailure::Protocol(refused.unwrap_or_else(|| why.to_string()));
        if !result.handle.is_null() && !ModuleHdr::is_live(result.handle) {
            return Err(protocol("returned a module that this host did not make"));
        }
        if result.handle == module.as_ptr() && module.owners() <= owners {
            return Ok(module.clone());
        }
        // SAFETY: null, or a handle whose ownership the plugin gives, and whose module lives.
        unsafe { Module::from_ptr(result.handle) }.ok_or_else(|| protocol("returned no module"))
    }

    /// Runs a function, PrimFunc or dataflow-block pass on each function, with the values of all its options, in the
    /// order of their declaration. A context must be current ([`with_current`]). All functions are visited, also
    /// behind one that failed; there is one result for each. The functions are unharmed.
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
    /// Why the function does not have the property ([`RunFailure::Error`]), or how the checker failed.
    pub fn check_property(&self, property: usize, function: (&str, &Body)) -> Result<(), RunFailure> {
        let (body, ctx) = (function.1.as_ptr(), current());
        let run = |sink| (self.entry.check_property)(self.own, property as u32, body, ctx, sink);
        let _call = spans::Call::begin();
        match with_batch(&[function], NOTHING_DONE, || Sink::to(run)) {
            (OK, _) => Ok(()),
            (status, error) => Err(RunFailure::read(status, &error)),
        }
    }

    /// Asks the rule of an operator of this plugin for the type of a call.
    ///
    /// # Errors
    /// If the call does not fit the operator.
    pub fn infer(&self, operator: usize, call: Call<'_>) -> Result<Inferred, InferError> {
        let value = call.value();
        let node = value.index().ok_or_else(|| InferError::wrong("not a call"))?;
        let raw: *const RawView<'_> = value.raw;
        let _call = spans::Call::begin();
        let ask = |sink| (self.entry.infer)(self.own, operator as u32, raw.cast(), node as u32, sink);
        let (status, bytes) = Sink::to(ask);
        decode_inferred(status, &bytes)
    }

    /// Asks an operator of this plugin for the legalization of a call; `None` if it has none.
    ///
    /// # Errors
    /// If this call cannot be legalized, or the answer is not a function that this host sealed.
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
            let what = "its legalization is a function that this host did not seal; this is a fault of its plugin";
            return Err(InferError::Panicked(what.to_string()));
        }
        // SAFETY: null, or the handle of a body that lives, whose ownership the plugin gives.
        let function = unsafe { Body::from_ptr(function) };
        services::read_legalized(status, &bytes, function, call)?.map(|answer| answer.checked(call)).transpose()
    }
}

/// Lets the current context know the functions, and what was done of them, while `f` runs over them.
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

/// Functions that are lent to a plugin for a call, each with the number of its owners before.
///
/// A plugin that gives back a function which it was lent should count one more owner for it. One that did not would
/// leave the host with an owner too many, and the function would be freed while it is in use. So a lent function whose
/// owners did not grow gets a new owner here: at worst one that is never taken off again.
struct Lent<'a> {
    functions: &'a [Named<'a>],
    owners: Vec<u64>,
    /// Where each function is; made for the first result that is not the function of its own place.
    places: OnceCell<HashMap<*const BodyHdr, usize, FixedState>>,
}

impl<'a> Lent<'a> {
    fn of(functions: &'a [Named<'a>]) -> Lent<'a> {
        Lent { functions, owners: functions.iter().map(|(_, body)| body.owners()).collect(), places: OnceCell::new() }
    }

    /// What a plugin put into the place of a result.
    fn take(&self, at: usize, handle: *const BodyHdr) -> Result<Body, RunFailure> {
        if let Some(body) = self.uncounted(at, handle) {
            return Ok(body.clone());
        }
        let is_input = self.functions.get(at).is_some_and(|(_, input)| input.as_ptr() == handle);
        if !is_input && !handle.is_null() && !BodyHdr::is_live(handle) {
            return Err(RunFailure::Protocol("returned a function that this host did not seal".into()));
        }
        // SAFETY: null, or the handle of a body that lives. The plugin gives its ownership, as far as can be seen: the
        // owners of a function that was lent grew.
        unsafe { Body::from_ptr(handle) }.ok_or_else(|| RunFailure::Protocol("returned no function".into()))
    }

    /// The function behind a handle if it was lent, and nobody counted the owner that is given.
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

/// The code of a plugin and the metadata of its file must say the same. Its own copy of the metadata is in memory.
fn compare(entry: &Entry, meta: &PluginMeta) -> Result<(), OpenError> {
    // SAFETY: not null ([`Entry::completed`]), and a static of the plugin, whose length the table says.
    let block = unsafe { entry.metadata.get() };
    let counts = (entry.n_passes as usize, entry.n_operators as usize) == (meta.passes.len(), meta.operators.len());
    if counts && entry.fingerprint == meta.fingerprint && xxh3_128(block) == meta.digest {
        return Ok(());
    }
    // Something differs: what?
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
    what.map_or(Ok(()), |what| Err(OpenError::Differs { what }))
}
