//! The services of the host for a plugin: a table of functions, with safe wrappers.
//!
//! Each cdylib contains its own copy of this crate, so the table is a static of the copy, set when the plugin is
//! initialized. Without a host (in a plugin's unit tests, and in the host itself), sealing works locally, and all other
//! services report that the host is missing.

pub mod evaluation;
pub(crate) mod files;
pub(crate) mod inferred;

use crate::ir::storage::body_handle::{Body, BodyHdr};
use crate::ir::storage::layout::layout;
use crate::ir::storage::module_handle::{Module, ModuleHdr};
use crate::ir::storage::sealer::{self, Sealer};
use crate::ir::storage::sections::RawView;
use crate::ir::storage::tensor::{Tensor, TensorHdr};
use crate::ir::{Call, SealError};
use crate::services::evaluation::{Evaluated, EvaluationError, EvaluationLimits, decode_evaluation};
use crate::typing::legalized::{Legalized, decode_legalized};
use crate::typing::operators::{InferError, Inferred};
use std::ffi::c_void;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// Bytes lent to a callee for the duration of the call.
#[repr(C)]
#[derive(Clone, Copy, abi_stable::StableAbi)]
pub struct RawBytes {
    ptr: *const u8,
    len: usize,
}

impl RawBytes {
    pub(crate) const fn of(bytes: &[u8]) -> RawBytes {
        RawBytes { ptr: bytes.as_ptr(), len: bytes.len() }
    }

    /// # Safety
    /// The bytes are alive and unchanged during `'a`.
    pub(crate) unsafe fn get<'a>(self) -> &'a [u8] {
        if self.len == 0 {
            return &[];
        }
        // SAFETY: guaranteed by the caller.
        unsafe { std::slice::from_raw_parts(self.ptr, self.len) }
    }
}

/// The severity of a diagnostic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u32)]
#[non_exhaustive]
pub enum Severity {
    /// The pass will fail.
    Error = 1,
    /// Probably a mistake.
    Warning = 2,
    /// Useful information.
    Remark = 3,
    /// A missed opportunity with its reason; shown on request.
    Missed = 4,
    /// A match of a pattern; shown on request.
    Matched = 5,
}

/// Not a diagnostic, but a further labelled place of the preceding diagnostic.
pub(crate) const LABEL: u32 = 16;

/// The output of a callee. The caller allocates it, so memory is never transferred.
#[repr(C)]
#[derive(Clone, Copy, abi_stable::StableAbi)]
pub struct Sink {
    write: extern "C" fn(*mut c_void, RawBytes),
    #[sabi(unsafe_opaque_field)]
    data: *mut c_void,
}

extern "C" fn append(data: *mut c_void, bytes: RawBytes) {
    // SAFETY: `data` is the vector passed to `Sink::to`, and the bytes live during the call.
    unsafe { (*data.cast::<Vec<u8>>()).extend_from_slice(bytes.get()) }
}

impl Sink {
    /// Runs `f` with a sink that fills a vector.
    pub(crate) fn to<R>(f: impl FnOnce(Sink) -> R) -> (R, Vec<u8>) {
        let mut out = Vec::new();
        let result = f(Sink::filling(&raw mut out));
        (result, out)
    }

    /// Creates a sink that fills this vector, which must outlive the uses of the sink.
    pub(crate) fn filling(out: *mut Vec<u8>) -> Sink {
        Sink { write: append, data: out.cast() }
    }

    pub(crate) fn put(self, bytes: &[u8]) {
        (self.write)(self.data, RawBytes::of(bytes));
    }
}

/// The context of a run, in its boundary form.
#[repr(C)]
#[derive(abi_stable::StableAbi)]
pub struct CtxRecord {
    /// Size of this record.
    pub(crate) size: u32,
    pub(crate) opt_level: i32,
    /// Number of the run, never 0 and never reused. A plugin keeps this number instead of a pointer, which could
    /// dangle.
    pub(crate) run: u64,
}

/// A plugin's query to a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Query {
    /// Value of a config key, in the encoding of `wire`.
    Config = 1,
    /// Name of the running pass.
    PassName = 2,
    /// Target. The key is empty, or the position (u32) of a function in the batch, whose attribute takes precedence.
    Target = 3,
    /// Name of a function of the batch; the key is its position (u32).
    FunctionName = 4,
    /// The requested reports of missed opportunities: `*` for all, or `@` and the name of a variable. The key has the
    /// same form as for `Target`, followed by the name of the function if the pass specifies it.
    Missed = 5,
    /// The number under which analyses are cached during the call (u64).
    Run = 6,
}

/// Results of a service that may have nothing to return.
pub(crate) mod answer {
    pub(crate) const GIVEN: u32 = 0;
    pub(crate) const NONE: u32 = 1;
}

/// Answers to whether a log event or span is wanted.
pub(crate) mod wanted {
    pub(crate) const NO: u32 = 0;
    pub(crate) const YES: u32 = 1;
}

/// Levels of log events and spans; as the highest level, 0 means none.
pub(crate) mod level {
    pub(crate) const NONE: u32 = 0;
    pub(crate) const ERROR: u32 = 1;
    pub(crate) const WARN: u32 = 2;
    pub(crate) const INFO: u32 = 3;
    pub(crate) const DEBUG: u32 = 4;
    pub(crate) const TRACE: u32 = 5;
}

/// Marks a diagnostic or error without a node.
pub(crate) const NO_NODE: u64 = u64::MAX;
/// The number for no span.
pub(crate) const NO_SPAN: u64 = 0;

/// A log event.
#[repr(C)]
#[derive(abi_stable::StableAbi)]
pub struct LogRecord {
    /// See [`level`].
    pub(crate) level: u32,
    pub(crate) line: u32,
    pub(crate) target: RawBytes,
    pub(crate) file: RawBytes,
    pub(crate) message: RawBytes,
    /// For each field, `NAME` followed by `DEFAULT` (its value as text).
    pub(crate) fields: RawBytes,
}

/// A new span.
#[repr(C)]
#[derive(abi_stable::StableAbi)]
pub struct SpanRecord {
    /// See [`level`].
    pub(crate) level: u32,
    pub(crate) line: u32,
    /// A span of the same plugin, or one of [`parent`].
    pub(crate) parent: u64,
    pub(crate) name: RawBytes,
    pub(crate) target: RawBytes,
    pub(crate) file: RawBytes,
    /// `NAME` and `DEFAULT` (its value as text) of each field that has a value, then `NAME` of every field.
    pub(crate) fields: RawBytes,
}

/// Parents that are not spans of the plugin.
pub mod parent {
    /// The current span of the thread.
    pub const CURRENT: u64 = 0;
    /// No parent.
    pub const NONE: u64 = u64::MAX;
}

/// An operation on a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum SpanOp {
    /// Enters the span on this thread.
    Enter = 1,
    /// Leaves the span.
    Exit = 2,
    /// Drops the last handle of the span.
    Close = 3,
    /// Records that the span follows from the other span.
    Follows = 4,
    /// Returns the current span of the plugin on this thread, or `NO_SPAN`.
    Current = 5,
}

/// A diagnostic.
#[repr(C)]
#[derive(abi_stable::StableAbi)]
pub struct DiagnosticRecord {
    pub(crate) severity: u32,
    /// Position of the function in the batch, or `u32::MAX`.
    pub(crate) index: u32,
    /// Name of the function, or empty.
    pub(crate) function: RawBytes,
    /// Node of the function, or [`NO_NODE`].
    pub(crate) node: u64,
    pub(crate) message: RawBytes,
}

/// The table of services.
#[repr(C)]
#[derive(abi_stable::StableAbi)]
pub struct Services {
    /// Size of this record.
    pub(crate) size: u32,
    pub(crate) reserved: u32,
    /// Highest wanted [`level`] of log events. It changes with the host's filter.
    pub(crate) max_level: &'static AtomicUsize,
    pub(crate) seal: extern "C" fn(*const RawView<'static>, Sink) -> *const BodyHdr,
    pub(crate) module: extern "C" fn(*const RawBytes, *const *const BodyHdr, usize, *const BodyHdr) -> *const ModuleHdr,
    pub(crate) module_with:
        extern "C" fn(*const ModuleHdr, *const usize, *const *const BodyHdr, usize) -> *const ModuleHdr,
    pub(crate) tensor: extern "C" fn(RawBytes) -> *const TensorHdr,
    pub(crate) infer: extern "C" fn(*const RawView<'static>, u32, Sink) -> u32,
    pub(crate) print: extern "C" fn(*const BodyHdr, Sink) -> u32,
    pub(crate) current: extern "C" fn() -> *const CtxRecord,
    pub(crate) query: extern "C" fn(u64, u32, RawBytes, Sink) -> u32,
    pub(crate) diagnose: extern "C" fn(u64, *const DiagnosticRecord),
    pub(crate) log_enabled: extern "C" fn(u32, RawBytes) -> u32,
    pub(crate) log: extern "C" fn(*const LogRecord),
    /// Returns one of [`wanted`] for a span.
    pub(crate) span_wanted: extern "C" fn(*const SpanRecord) -> u32,
    /// Creates a span, or returns [`NO_SPAN`].
    pub(crate) span_new: extern "C" fn(*const SpanRecord) -> u64,
    /// Sets the values of fields of a span.
    pub(crate) span_record: extern "C" fn(u64, RawBytes),
    /// Applies an operation: span, operation, other span.
    pub(crate) span: extern "C" fn(u64, u32, u64) -> u64,
    /// Adds to a counter of the running pass: run, name of the counter, amount.
    pub(crate) statistic: extern "C" fn(u64, RawBytes, u64),
    /// Shows a module to the user: run, module, header.
    pub(crate) show_module: extern "C" fn(u64, *const ModuleHdr, RawBytes) -> u32,
    /// Legalizes a call: sections, call, place for the PrimFunc, answer.
    pub(crate) legalize: extern "C" fn(*const RawView<'static>, u32, *mut *const BodyHdr, Sink) -> u32,
    /// Executes a function without parameters: run, function, limits of bytes and operations, place for a function
    /// that returns the result, answer.
    pub(crate) evaluate: extern "C" fn(u64, *const BodyHdr, u64, u64, *mut *const BodyHdr, Sink) -> u32,
}

layout!(RawBytes { ptr, len });
layout!(Sink { write, data });
layout!(CtxRecord { size, opt_level, run });
layout!(LogRecord { level, line, target, file, message, fields });
layout!(SpanRecord { level, line, parent, name, target, file, fields });
layout!(DiagnosticRecord { severity, index, function, node, message });
layout!(Services {
    size,
    reserved,
    max_level,
    seal,
    module,
    module_with,
    tensor,
    infer,
    print,
    current,
    query,
    diagnose,
    log_enabled,
    log,
    span_wanted,
    span_new,
    span_record,
    span,
    statistic,
    show_module,
    legalize,
    evaluate
});

static SERVICES: AtomicPtr<Services> = AtomicPtr::new(std::ptr::null_mut());

/// Sets the table for this copy of the crate. Returns false if the table is shorter than in this API version.
pub(crate) fn install(table: *const Services) -> bool {
    // SAFETY: null, or the host's table, which is a static that starts with its size.
    let fits = !table.is_null() && is_long_enough(unsafe { (&raw const (*table).size).read() });
    sealer::set(&ByHost);
    SERVICES.store(if fits { table.cast_mut() } else { std::ptr::null_mut() }, Ordering::Release);
    fits
}

/// Returns true if a table of this size contains every function of this version. Tables of later versions are longer.
fn is_long_enough(size: u32) -> bool {
    size as usize >= size_of::<Services>()
}

fn table() -> Option<&'static Services> {
    // SAFETY: null, or the table of the host, which outlives every plugin.
    unsafe { SERVICES.load(Ordering::Acquire).as_ref() }
}

/// The table for the host's own process, while a context is current on this thread.
static OWN: OnceLock<fn() -> Option<&'static Services>> = OnceLock::new();

/// Sets the table for a process without an installed table: in the host's process, passes and instruments of an
/// embedder use the host's table directly.
pub(crate) fn answer_here(own: fn() -> Option<&'static Services>) {
    let _ = OWN.set(own);
}

/// Returns the table for queries to the current context.
fn context_table() -> Option<&'static Services> {
    table().or_else(|| OWN.get()?())
}

/// Creates objects through the host, and imports their handles.
struct ByHost;

impl Sealer for ByHost {
    fn seal(&self, raw: &RawView<'_>) -> Option<Result<Body, SealError>> {
        let table = table()?;
        let raw: *const RawView<'_> = raw;
        let (hdr, error) = Sink::to(|sink| (table.seal)(raw.cast(), sink));
        // SAFETY: the host returns a new handle, whose ownership passes to this code, or null.
        let body = unsafe { Body::from_ptr(hdr) };
        Some(body.ok_or_else(|| SealError::Host(String::from_utf8_lossy(&error).into_owned())))
    }

    fn module(&self, functions: &[(String, Body)], meta: Option<&Body>) -> Option<Module> {
        let table = table()?;
        let names: Vec<RawBytes> = functions.iter().map(|(name, _)| RawBytes::of(name.as_bytes())).collect();
        let bodies: Vec<*const BodyHdr> = functions.iter().map(|(_, body)| body.as_ptr()).collect();
        let meta = meta.map_or(std::ptr::null(), Body::as_ptr);
        let hdr = (table.module)(names.as_ptr(), bodies.as_ptr(), names.len(), meta);
        // SAFETY: the host returns a new handle, whose ownership passes to this code.
        unsafe { Module::from_ptr(hdr) }
    }

    fn module_with(&self, module: &Module, changed: &[(usize, Body)]) -> Option<Module> {
        let table = table()?;
        let at: Vec<usize> = changed.iter().map(|(at, _)| *at).collect();
        let bodies: Vec<*const BodyHdr> = changed.iter().map(|(_, body)| body.as_ptr()).collect();
        let hdr = (table.module_with)(module.as_ptr(), at.as_ptr(), bodies.as_ptr(), at.len());
        // SAFETY: the host returns a new handle, whose ownership passes to this code.
        unsafe { Module::from_ptr(hdr) }
    }

    fn tensor(&self, bytes: &[u8]) -> Option<Tensor> {
        let hdr = (table()?.tensor)(RawBytes::of(bytes));
        // SAFETY: the host returns a new handle, whose ownership passes to this code.
        unsafe { Tensor::from_ptr(hdr) }
    }
}

/// Infers the type of a call through the host.
pub(crate) fn infer(call: Call<'_>) -> Result<Inferred, InferError> {
    let value = call.value();
    let name = call.op().unwrap_or("a call").to_string();
    let (Some(table), Some(node)) = (context_table(), value.index()) else { return Err(InferError::NoHost(name)) };
    let raw: *const RawView<'_> = value.raw;
    let (status, bytes) = Sink::to(|sink| (table.infer)(raw.cast(), node as u32, sink));
    inferred::decode_inferred(status, &bytes)
}

/// Legalizes a call through the host; `None` if the operator lacks a legalization.
pub(crate) fn legalize(call: Call<'_>) -> Result<Option<Legalized>, InferError> {
    let value = call.value();
    let name = call.op().unwrap_or("a call").to_string();
    let (Some(table), Some(node)) = (context_table(), value.index()) else { return Err(InferError::NoHost(name)) };
    let raw: *const RawView<'_> = value.raw;
    let mut function = std::ptr::null();
    let place = &raw mut function;
    let (status, bytes) = Sink::to(|sink| (table.legalize)(raw.cast(), node as u32, place, sink));
    // SAFETY: the host returns a new handle, whose ownership passes to this code, or null.
    let function = unsafe { Body::from_ptr(function) };
    read_legalized(status, &bytes, function, call)
}

/// Decodes the answer to a legalization.
pub(crate) fn read_legalized(
    status: u32,
    bytes: &[u8],
    function: Option<Body>,
    call: Call<'_>,
) -> Result<Option<Legalized>, InferError> {
    let unreadable =
        || InferError::wrong("the legalization returned invalid data; this is a fault of the operator's plugin");
    match (status, function) {
        (inferred::NOT_LEGALIZED, _) => Ok(None),
        (inferred::OK_PURE, Some(function)) => decode_legalized(bytes, function, call).map(Some).ok_or_else(unreadable),
        (inferred::OK_PURE | inferred::OK_IMPURE, _) => Err(unreadable()),
        _ => Err(inferred::decode_inferred(status, bytes).err().unwrap_or_else(unreadable)),
    }
}

/// Encodes the answer to a legalization as status, bytes and PrimFunc.
pub(crate) fn legalized_answer(answer: Result<Option<Legalized>, InferError>) -> (u32, Vec<u8>, *const BodyHdr) {
    match answer {
        Ok(None) => (inferred::NOT_LEGALIZED, Vec::new(), std::ptr::null()),
        Ok(Some(given)) => {
            let bytes = crate::typing::legalized::encode_legalized(&given);
            (inferred::OK_PURE, bytes, given.function.into_ptr())
        }
        Err(error) => {
            let (status, bytes) = inferred::encode_inferred(&Err(error));
            (status, bytes, std::ptr::null())
        }
    }
}

/// Executes a parameterless function in the host.
pub(crate) fn evaluate(run: u64, function: &Body, limits: EvaluationLimits) -> Result<Evaluated, EvaluationError> {
    let Some(table) = context_table() else { return Err(EvaluationError::no_host()) };
    let mut result = std::ptr::null();
    let place = &raw mut result;
    let ask = |sink| (table.evaluate)(run, function.as_ptr(), limits.memory, limits.work, place, sink);
    let (status, bytes) = Sink::to(ask);
    // SAFETY: the host returns a new handle, whose ownership passes to this code, or null.
    let result = unsafe { Body::from_ptr(result) };
    decode_evaluation(status, &bytes, result)
}

/// Prints a body in the host.
pub(crate) fn print(body: &Body) -> Option<String> {
    let table = context_table()?;
    let (status, bytes) = Sink::to(|sink| (table.print)(body.as_ptr(), sink));
    (status == answer::GIVEN).then(|| String::from_utf8_lossy(&bytes).into_owned())
}

/// The part of a host's context that a plugin keeps.
#[derive(Clone, Copy)]
pub(crate) struct Current {
    pub(crate) run: u64,
    pub(crate) opt_level: i32,
}

/// Returns the current context of this thread.
pub(crate) fn current() -> Option<Current> {
    let record = context_table().map_or(std::ptr::null(), |table| (table.current)());
    // SAFETY: the current context of this thread is alive, because it ends only when control returns to the code that
    // made it current.
    unsafe { context(record) }
}

/// # Safety
/// The record is null, or alive at the time of the call. It may be dropped later, because its values are copied.
pub(crate) unsafe fn context(record: *const CtxRecord) -> Option<Current> {
    // SAFETY: guaranteed by the caller.
    unsafe { record.as_ref() }.map(|record| Current { run: record.run, opt_level: record.opt_level })
}

/// Queries the context of a run.
pub(crate) fn query(run: u64, what: Query, key: &[u8]) -> Option<Vec<u8>> {
    let table = context_table()?;
    let (status, bytes) = Sink::to(|sink| (table.query)(run, what as u32, RawBytes::of(key), sink));
    (status == answer::GIVEN).then_some(bytes)
}

/// Encodes the key of a query about a function of the batch.
pub(crate) fn function_key(index: u32) -> [u8; 4] {
    index.to_le_bytes()
}

/// Decodes the key of [`function_key`].
pub(crate) fn read_function_key(key: &[u8]) -> Option<usize> {
    Some(u32::from_le_bytes(key.try_into().ok()?) as usize)
}

/// Returns the requested reports of missed opportunities in a function of the batch, or in a function given by name.
pub(crate) fn missed_wanted(run: u64, index: u32, function: &str) -> Option<Vec<u8>> {
    query(run, Query::Missed, &[&function_key(index)[..], function.as_bytes()].concat())
}

/// The place of a diagnostic.
pub(crate) struct Place<'a> {
    /// Position of the function in the batch, or `u32::MAX`.
    pub(crate) index: u32,
    /// Name of the function, or empty.
    pub(crate) name: &'a str,
    /// Node of the function.
    pub(crate) node: Option<usize>,
}

/// Reports a diagnostic.
pub(crate) fn diagnose(run: u64, severity: Severity, at: Place<'_>, message: &str) {
    diagnose_as(run, severity as u32, at, message);
}

/// Adds a place to the last diagnostic.
pub(crate) fn label(run: u64, at: Place<'_>, text: &str) {
    diagnose_as(run, LABEL, at, text);
}

fn diagnose_as(run: u64, severity: u32, at: Place<'_>, message: &str) {
    if let Some(table) = context_table() {
        let record = DiagnosticRecord {
            severity,
            index: at.index,
            function: RawBytes::of(at.name.as_bytes()),
            node: at.node.map_or(NO_NODE, |node| node as u64),
            message: RawBytes::of(message.as_bytes()),
        };
        (table.diagnose)(run, &record);
    }
}

/// Adds to a counter of the running pass.
pub(crate) fn statistic(run: u64, name: &str, n: u64) {
    if let Some(table) = context_table() {
        (table.statistic)(run, RawBytes::of(name.as_bytes()), n);
    }
}

/// Shows a module. Returns false without a host that supports it.
pub(crate) fn show_module(run: u64, module: &Module, header: &str) -> bool {
    let show = |table: &Services| (table.show_module)(run, module.as_ptr(), RawBytes::of(header.as_bytes()));
    context_table().is_some_and(|table| show(table) == answer::GIVEN)
}

/// Returns true if the host wants events of this [`level`].
pub(crate) fn level_wanted(level: u32) -> bool {
    table().is_some_and(|table| level as usize <= table.max_level.load(Ordering::Relaxed))
}

/// Returns true if the host wants events of this level and target.
pub(crate) fn log_enabled(level: u32, target: &str) -> bool {
    let asked = |table: &Services| (table.log_enabled)(level, RawBytes::of(target.as_bytes())) != wanted::NO;
    level_wanted(level) && table().is_some_and(asked)
}

/// Sends an event to the host.
pub(crate) fn log(level: u32, target: &str, (file, line): (&str, u32), message: &str, fields: &[u8]) {
    if let Some(table) = table() {
        let bytes = |text: &str| RawBytes::of(text.as_bytes());
        let (target, file, message) = (bytes(target), bytes(file), bytes(message));
        (table.log)(&LogRecord { level, line, target, file, message, fields: RawBytes::of(fields) });
    }
}

/// Returns true if the host wants spans like this.
pub(crate) fn span_wanted(span: &SpanRecord) -> bool {
    level_wanted(span.level) && table().is_some_and(|table| (table.span_wanted)(span) != wanted::NO)
}

/// Creates a span, or returns [`NO_SPAN`].
pub(crate) fn span_new(span: &SpanRecord) -> u64 {
    table().map_or(NO_SPAN, |table| (table.span_new)(span))
}

/// Sets the values of fields of a span.
pub(crate) fn span_record(span: u64, fields: &[u8]) {
    if let Some(table) = table() {
        (table.span_record)(span, RawBytes::of(fields));
    }
}

/// Applies an operation to a span in the host.
pub(crate) fn span(span: u64, what: SpanOp, other: u64) -> u64 {
    table().map_or(NO_SPAN, |table| (table.span)(span, what as u32, other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_a_later_host_has_all_that_is_needed() {
        let size = size_of::<Services>() as u32;
        assert!(is_long_enough(size) && is_long_enough(size + 8) && is_long_enough(u32::MAX));
        assert!(!is_long_enough(size - 8) && !is_long_enough(0));
    }
}
