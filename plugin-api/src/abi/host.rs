//! The host's side of the boundary: the services that it offers, and calls into an opened plugin.

use super::codec::{decode_inferred, encode_inferred};
use super::entry::{Boundary, ENTRY_MAGIC, Entry, FAILED, FINGERPRINT, OK, RunResult, options_text, read_error};
use super::module::{Module, ModuleHdr};
use super::services::{CtxRecord, LogRecord, Query, RawBytes, Services, Sink};
use super::view::{Body, BodyHdr, RawView, Tensor, TensorHdr};
use crate::ir::{Call, Value};
use crate::meta::OptionValue;
use crate::op::{InferError, Inferred};
use crate::pass::{PassError, Severity};
use abi_stable::StableAbi;
use abi_stable::abi_stability::abi_checking::check_layout_compatibility;
use abi_stable::type_layout::TypeLayout;
use std::cell::Cell;
use std::ffi::c_void;
use std::sync::OnceLock;

/// What the host does for plugins. One for each run context; calls come on the thread that runs the pass.
pub trait HostServices {
    /// Type and purity of a call, by whichever plugin has the operator.
    ///
    /// # Errors
    /// If the operator is unknown, or the call does not fit it.
    fn infer(&self, call: Call<'_>) -> Result<Inferred, InferError>;
    /// A function as TVMScript.
    fn print(&self, body: &Body) -> String;
    /// Value of a config key, as text.
    fn config(&self, key: &str) -> Option<String>;
    /// Name of the running pass.
    fn pass_name(&self) -> String;
    /// Target.
    fn target(&self) -> Option<String>;
    /// Takes a diagnostic about a node of the function that is being worked on.
    fn diagnose(&self, severity: Severity, node: Option<usize>, message: &str);
}

/// Where log events of plugins go.
pub trait LogSink: Send + Sync {
    /// Whether an event of this level (1 error … 5 trace) and target is wanted.
    fn enabled(&self, level: u32, target: &str) -> bool;
    /// Takes an event.
    fn log(&self, level: u32, target: &str, file: &str, line: u32, message: &str);
}

static LOG: OnceLock<Box<dyn LogSink>> = OnceLock::new();

/// Sets where log events of plugins go; the first call counts.
pub fn set_log_sink(sink: Box<dyn LogSink>) {
    let _ = LOG.set(sink);
}

thread_local! {
    static CURRENT: Cell<*const CtxRecord> = const { Cell::new(std::ptr::null()) };
}

struct HostRef<'a>(&'a dyn HostServices);

/// Makes `services` the current context of this thread while `f` runs.
pub fn with_current<R>(services: &dyn HostServices, opt_level: i32, f: impl FnOnce() -> R) -> R {
    struct Restore(*const CtxRecord);
    impl Drop for Restore {
        fn drop(&mut self) {
            CURRENT.with(|current| current.set(self.0));
        }
    }
    let host = HostRef(services);
    let size = std::mem::size_of::<CtxRecord>() as u32;
    let record = CtxRecord { size, opt_level, host: (&raw const host).cast::<c_void>() };
    let _restore = Restore(CURRENT.with(|current| current.replace(&record)));
    f()
}

/// Runs `f` with the services behind a context, or with those of the current one.
fn with_host<R>(record: *const CtxRecord, f: impl FnOnce(&dyn HostServices) -> R) -> Option<R> {
    let current = CURRENT.with(Cell::get);
    if current.is_null() || !(record.is_null() || std::ptr::eq(record, current)) {
        return None;
    }
    // SAFETY: `with_current` keeps the record, and what it points to, alive while it is current on this thread.
    let host = unsafe { &*(*current).host.cast::<HostRef<'_>>() };
    Some(f(host.0))
}

/// The panic of a service must not cross into the plugin.
fn guarded<R>(fallback: R, f: impl FnOnce() -> R) -> R {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)).unwrap_or(fallback)
}

static SERVICES: Services = Services {
    size: std::mem::size_of::<Services>() as u32,
    log_level: 5,
    seal: host_seal,
    module: host_module,
    module_with: host_module_with,
    tensor: host_tensor,
    infer: host_infer,
    print: host_print,
    current: host_current,
    query: host_query,
    diagnose: host_diagnose,
    log_enabled: host_log_enabled,
    log: host_log,
};

extern "C" fn host_seal(raw: *const RawView<'static>, error: Sink) -> *const BodyHdr {
    guarded(std::ptr::null(), || {
        // SAFETY: the plugin passes sections that live during the call.
        match super::seal_here(unsafe { &*raw }) {
            Ok(body) => body.into_ptr(),
            Err(why) => {
                error.put(why.to_string().as_bytes());
                std::ptr::null()
            }
        }
    })
}

extern "C" fn host_module(
    names: *const RawBytes,
    bodies: *const *const BodyHdr,
    n: usize,
    meta: *const BodyHdr,
) -> *const ModuleHdr {
    guarded(std::ptr::null(), || {
        let mut functions = Vec::with_capacity(n);
        for i in 0..n {
            // SAFETY: the plugin passes `n` names and `n` live handles.
            let (name, body) = unsafe { ((*names.add(i)).get(), Body::clone_ptr(*bodies.add(i))) };
            if let Some(body) = body {
                functions.push((String::from_utf8_lossy(name).into_owned(), body));
            }
        }
        functions.sort_by(|a, b| a.0.cmp(&b.0));
        functions.dedup_by(|a, b| a.0 == b.0);
        // SAFETY: null, or a live handle.
        let meta = unsafe { Body::clone_ptr(meta) };
        Module::from_parts_here(functions, meta).into_ptr()
    })
}

extern "C" fn host_module_with(
    module: *const ModuleHdr,
    at: *const usize,
    bodies: *const *const BodyHdr,
    n: usize,
) -> *const ModuleHdr {
    guarded(std::ptr::null(), || {
        let mut changed = Vec::with_capacity(n);
        for i in 0..n {
            // SAFETY: the plugin passes `n` positions and `n` live handles.
            let (at, body) = unsafe { (*at.add(i), Body::clone_ptr(*bodies.add(i))) };
            changed.extend(body.map(|body| (at, body)));
        }
        // SAFETY: a live module.
        match unsafe { Module::clone_ptr(module) } {
            Some(module) => module.with_bodies_here(changed).into_ptr(),
            None => std::ptr::null(),
        }
    })
}

extern "C" fn host_tensor(bytes: RawBytes) -> *const TensorHdr {
    // SAFETY: the bytes live during the call.
    guarded(std::ptr::null(), || Tensor::new_here(unsafe { bytes.get() }).into_ptr())
}

extern "C" fn host_infer(raw: *const RawView<'static>, node: u32, out: Sink) -> u32 {
    guarded(super::codec::NO_HOST, || {
        // SAFETY: the plugin passes sections that live during the call.
        let raw = unsafe { &*raw };
        let call = Call(Value { raw, op: node });
        let answer = with_host(std::ptr::null(), |host| host.infer(call));
        let name = || call.op().unwrap_or("a call").to_string();
        let (status, bytes) = encode_inferred(&answer.unwrap_or_else(|| Err(InferError::NoHost(name()))));
        out.put(&bytes);
        status
    })
}

extern "C" fn host_print(body: *const BodyHdr, out: Sink) -> u32 {
    guarded(1, || {
        // SAFETY: a live handle of the plugin.
        let Some(body) = (unsafe { Body::clone_ptr(body) }) else { return 1 };
        match with_host(std::ptr::null(), |host| host.print(&body)) {
            Some(text) => {
                out.put(text.as_bytes());
                0
            }
            None => 1,
        }
    })
}

extern "C" fn host_current() -> *const CtxRecord {
    CURRENT.with(Cell::get)
}

extern "C" fn host_query(ctx: *const CtxRecord, what: u32, key: RawBytes, out: Sink) -> u32 {
    guarded(1, || {
        // SAFETY: the bytes live during the call.
        let key = String::from_utf8_lossy(unsafe { key.get() });
        let answer = with_host(ctx, |host| match what {
            what if what == Query::Config as u32 => host.config(&key),
            what if what == Query::PassName as u32 => Some(host.pass_name()),
            what if what == Query::Target as u32 => host.target(),
            _ => None,
        });
        match answer.flatten() {
            Some(text) => {
                out.put(text.as_bytes());
                0
            }
            None => 1,
        }
    })
}

extern "C" fn host_diagnose(ctx: *const CtxRecord, severity: u32, node: u64, message: RawBytes) {
    guarded((), || {
        // SAFETY: the bytes live during the call.
        let message = String::from_utf8_lossy(unsafe { message.get() });
        let severity = match severity {
            1 => Severity::Error,
            2 => Severity::Warning,
            _ => Severity::Remark,
        };
        let node = (node != u64::MAX).then_some(node as usize);
        let _ = with_host(ctx, |host| host.diagnose(severity, node, &message));
    });
}

extern "C" fn host_log_enabled(level: u32, target: RawBytes) -> u32 {
    guarded(0, || {
        // SAFETY: the bytes live during the call.
        let target = String::from_utf8_lossy(unsafe { target.get() });
        LOG.get().map_or(0, |log| u32::from(log.enabled(level, &target)))
    })
}

extern "C" fn host_log(record: *const LogRecord) {
    guarded((), || {
        // SAFETY: the record and its texts live during the call.
        let (record, texts) = unsafe {
            let record = &*record;
            (record, [record.target, record.file, record.message].map(|bytes| String::from_utf8_lossy(bytes.get())))
        };
        if let Some(log) = LOG.get() {
            log.log(record.level, &texts[0], &texts[1], record.line, &texts[2]);
        }
    });
}

/// Why an opened library is no plugin for this host.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// The entry table is not one.
    #[error("its entry table does not start as one does; rebuild the plugin against this plugin API")]
    Magic,
    /// Table and metadata contradict each other.
    #[error("its entry table says {what} {entry}, its metadata {meta}; rebuild the plugin from one source")]
    Mismatch {
        /// What is contradicted.
        what: &'static str,
        /// In the table.
        entry: String,
        /// In the metadata.
        meta: String,
    },
    /// A record has another layout.
    #[error("layout differs: {0}; rebuild the plugin against this plugin API")]
    Layout(String),
    /// Its initialization panicked.
    #[error("its initialization panicked: {0}")]
    Init(String),
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
}

/// An opened plugin. Never unloaded, so its functions stay valid.
#[derive(Clone, Copy)]
pub struct OpenPlugin {
    entry: &'static Entry,
}

/// What the metadata said, to be compared with the entry table.
pub struct Expected<'a> {
    /// Name of the plugin.
    pub name: &'a str,
    /// API version.
    pub api: &'a str,
    /// Number of passes.
    pub passes: usize,
    /// Number of operators.
    pub operators: usize,
}

impl OpenPlugin {
    /// Checks the entry table behind `symbol`, compares layouts, and initializes the plugin.
    ///
    /// # Errors
    /// The first step that fails.
    ///
    /// # Safety
    /// `symbol` is the entry function of a library that is never unloaded.
    pub unsafe fn open(
        symbol: unsafe extern "C" fn() -> *const c_void,
        expected: &Expected<'_>,
    ) -> Result<OpenPlugin, OpenError> {
        // SAFETY: the caller vouches for the symbol. Magic and size are read before anything that depends on them;
        // the fingerprint of the metadata was compared before.
        let entry = unsafe { symbol().cast::<Entry>().as_ref() }.ok_or(OpenError::Magic)?;
        if entry.magic != ENTRY_MAGIC || (entry.size as usize) < std::mem::size_of::<Entry>() {
            return Err(OpenError::Magic);
        }
        compare(entry, expected)?;
        // SAFETY: both are layouts of the same version of abi_stable, as the fingerprint says.
        let theirs = unsafe { &*(entry.layout)().cast::<TypeLayout>() };
        check_layout_compatibility(<Boundary as StableAbi>::LAYOUT, theirs)
            .map_err(|error| OpenError::Layout(first_difference(&format!("{error}"))))?;
        let (status, text) = Sink::to(|sink| (entry.init)(&SERVICES, sink));
        match status {
            OK => Ok(OpenPlugin { entry }),
            _ => Err(OpenError::Init(String::from_utf8_lossy(&text).into_owned())),
        }
    }

    /// Runs a module pass. A context must be current ([`with_current`]).
    ///
    /// # Errors
    /// How it failed; the module is unharmed.
    pub fn run_module(&self, pass: usize, module: &Module, options: &[OptionValue]) -> Result<Module, RunFailure> {
        let text = options_text(options);
        let ctx = CURRENT.with(Cell::get);
        let options = RawBytes::of(text.as_bytes());
        let run = |sink| (self.entry.run_module)(self.entry, pass as u32, module.as_ptr(), options, ctx, sink);
        let (result, error) = Sink::to(run);
        self.check(&result, &error)?;
        // SAFETY: the plugin gives ownership of a handle.
        let new = unsafe { Module::from_ptr(result.handle) };
        let new = new.ok_or_else(|| RunFailure::Protocol("it gave no module back".into()))?;
        if !new.is_ours() {
            std::mem::forget(new);
            return Err(RunFailure::Protocol("it gave back a module that this host did not make".into()));
        }
        Ok(new)
    }

    /// Runs a function pass on each body. A context must be current ([`with_current`]).
    ///
    /// # Errors
    /// Which body failed (position), and how; the bodies are unharmed.
    pub fn run_functions(
        &self,
        pass: usize,
        bodies: &[&Body],
        options: &[OptionValue],
    ) -> Result<Vec<Body>, (usize, RunFailure)> {
        let text = options_text(options);
        let ctx = CURRENT.with(Cell::get);
        let handles: Vec<*const BodyHdr> = bodies.iter().map(|body| body.as_ptr()).collect();
        let mut out = vec![std::ptr::null(); bodies.len()];
        let options = RawBytes::of(text.as_bytes());
        let (n, slots) = (handles.len(), out.as_mut_ptr());
        let run =
            |sink| (self.entry.run_functions)(self.entry, pass as u32, handles.as_ptr(), n, slots, options, ctx, sink);
        let (result, error) = Sink::to(run);
        // SAFETY: the plugin gives ownership of the handles that it put there.
        let new: Vec<Option<Body>> = out.into_iter().map(|ptr| unsafe { Body::from_ptr(ptr) }).collect();
        self.check(&result, &error).map_err(|failure| (result.done as usize, failure))?;
        let take = |(i, body): (usize, Option<Body>)| match body {
            Some(body) if body.is_ours() => Ok(body),
            Some(body) => {
                std::mem::forget(body);
                Err((i, RunFailure::Protocol("it gave back a function that this host did not seal".into())))
            }
            None => Err((i, RunFailure::Protocol("it gave no function back".into()))),
        };
        new.into_iter().enumerate().map(take).collect()
    }

    fn check<T>(&self, result: &RunResult<T>, error: &[u8]) -> Result<(), RunFailure> {
        match result.status {
            OK => Ok(()),
            FAILED => Err(RunFailure::Error(read_error(error))),
            _ => Err(RunFailure::Panic(String::from_utf8_lossy(error).into_owned())),
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
        let ask = |sink| (self.entry.infer)(self.entry, operator as u32, raw.cast(), node as u32, sink);
        let (status, bytes) = Sink::to(ask);
        decode_inferred(status, &bytes)
    }
}

fn compare(entry: &Entry, expected: &Expected<'_>) -> Result<(), OpenError> {
    // SAFETY: static texts of the plugin.
    let (name, api) = unsafe { (entry.name.get(), entry.api.get()) };
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    let pairs = [
        ("name", text(name), expected.name.to_string()),
        ("API", text(api), expected.api.to_string()),
        ("number of passes", entry.n_passes.to_string(), expected.passes.to_string()),
        ("number of operators", entry.n_operators.to_string(), expected.operators.to_string()),
        ("fingerprint", format!("{:x}", entry.fingerprint), format!("{FINGERPRINT:x}")),
    ];
    match pairs.into_iter().find(|(_, entry, meta)| entry != meta) {
        Some((what, entry, meta)) => Err(OpenError::Mismatch { what, entry, meta }),
        None => Ok(()),
    }
}

/// One line out of a report that can have thousands.
fn first_difference(report: &str) -> String {
    let line = report.lines().map(str::trim).find(|line| line.contains("rror") || line.contains("xpected"));
    line.or_else(|| report.lines().next()).unwrap_or("unknown").to_string()
}
