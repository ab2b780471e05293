//! The entry table of a plugin, and its shims, which catch panics in the plugin.

use crate::PassError;
use crate::abi::layout::fingerprint_of_plugin;
use crate::abi::{formats, instrument};
use crate::declare::declarations::{PluginDecl, RunFn, api_of};
use crate::declare::pass::Batch;
use crate::declare::pass::Ctx;
use crate::ir::storage::body_handle::{Body, BodyHdr};
use crate::ir::storage::layout::layout;
use crate::ir::storage::module_handle::{Module, ModuleHdr};
use crate::ir::storage::sections::RawView;
use crate::ir::{Call, Value};
use crate::metadata::OptionValue;
use crate::metadata::wire::{Fields, read_value, tag};
use crate::services::files::{Files, Sources};
use crate::services::inferred::encode_inferred;
use crate::services::{self, CtxRecord, NO_NODE, RawBytes, Services, Sink, level};
use crate::typing::operators::{InferError, Inferred};
use abi_stable::StableAbi;
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Start of the entry table.
pub const ENTRY_MAGIC: u64 = 0x5041_5353_484f_5354;
/// Name of the entry symbol. `passhost_plugin_entry_c` is reserved for plugins in C.
pub const ENTRY_SYMBOL: &str = "passhost_plugin_entry_v1";

/// Status of a call into a plugin.
pub(crate) const OK: u32 = 0;
pub(crate) const FAILED: u32 = 1;
pub(crate) const PANICKED: u32 = 2;
/// Status of `should_run` if the pass must not run.
pub(super) const VETOED: u32 = 3;
/// Status of a pass that rejects an option value. An error follows, as for `FAILED`.
pub(crate) const REFUSED_OPTION: u32 = 4;

/// The entry table. Its function types are written out, because the layout comparison does not resolve aliases. Fields
/// may be added only at the end. `decl` is for the plugin's own shims.
#[repr(C)]
#[derive(StableAbi)]
pub struct Entry {
    pub(crate) magic: u64,
    pub(crate) size: u32,
    pub(crate) reserved: u32,
    pub(crate) n_passes: u32,
    pub(crate) n_operators: u32,
    pub(crate) fingerprint: u64,
    pub(crate) api: RawBytes,
    /// The metadata block in memory, which must equal the block in the file. The reference also prevents linkers from
    /// dropping the section.
    pub(crate) metadata: RawBytes,
    pub(crate) init: extern "C" fn(*const Services, Sink) -> u32,
    pub(crate) layout: extern "C" fn() -> *const u8,
    /// Parameters: table, pass, module, options, context, error.
    pub(crate) run_module:
        extern "C" fn(*const Entry, u32, *const ModuleHdr, RawBytes, *const CtxRecord, Sink) -> RunResult,
    /// Parameters: table, pass, functions, room for the results, number of functions, options, context, errors.
    pub(crate) run_functions: extern "C" fn(
        *const Entry,
        u32,
        *const *const BodyHdr,
        *mut *const BodyHdr,
        usize,
        RawBytes,
        *const CtxRecord,
        Sink,
    ),
    /// Parameters: table, operator, sections, call, answer.
    pub(crate) infer: extern "C" fn(*const Entry, u32, *const RawView<'static>, u32, Sink) -> u32,
    #[sabi(unsafe_opaque_field)]
    decl: *const PluginDecl,
    /// Parameters: table, instrument, options, place for the state, error.
    pub(crate) make_instrument: extern "C" fn(*const Entry, u32, RawBytes, *mut *mut u8, Sink) -> u32,
    /// Parameters: state, event, module or null, properties of the pass, error.
    pub(crate) call_instrument: extern "C" fn(*mut u8, u32, *const ModuleHdr, RawBytes, Sink) -> u32,
    /// Parameters: state, error.
    pub(crate) drop_instrument: extern "C" fn(*mut u8, Sink) -> u32,
    /// Parameters: table, property, function, context, error.
    pub(crate) check_property: extern "C" fn(*const Entry, u32, *const BodyHdr, *const CtxRecord, Sink) -> u32,
    /// Parameters: table, operator, sections, call, place for the PrimFunc, answer.
    pub(crate) legalize:
        extern "C" fn(*const Entry, u32, *const RawView<'static>, u32, *mut *const BodyHdr, Sink) -> u32,
}

/// The entry table of version 1.1: the table of 1.0, followed by further functions. The size field distinguishes the
/// two.
#[repr(C)]
#[derive(StableAbi)]
pub struct EntryOf1_1 {
    pub(crate) first: Entry,
    /// Parameters: table, reader, properties of the file, its bytes, options, context, files that may be opened, error.
    pub(crate) read:
        extern "C" fn(*const Entry, u32, RawBytes, RawBytes, RawBytes, *const CtxRecord, Sources, Sink) -> RunResult,
    /// Parameters: table, writer, module, properties of the file, options, context, receiver of the bytes, error.
    pub(crate) write:
        extern "C" fn(*const Entry, u32, *const ModuleHdr, RawBytes, RawBytes, *const CtxRecord, Files, Sink) -> u32,
}

/// The result of a module pass.
#[repr(C)]
#[derive(StableAbi)]
pub struct RunResult {
    pub(crate) status: u32,
    pub(crate) reserved: u32,
    pub(crate) handle: *const ModuleHdr,
}

layout!(RunResult { status, reserved, handle });
layout!(Entry {
    magic,
    size,
    reserved,
    n_passes,
    n_operators,
    fingerprint,
    api,
    metadata,
    init,
    layout,
    run_module,
    run_functions,
    infer,
    decl,
    make_instrument,
    call_instrument,
    drop_instrument,
    check_property,
    legalize
});

layout!(EntryOf1_1 { first, read, write });

// SAFETY: the table is immutable and lives as long as the library.
unsafe impl Sync for Entry {}
// SAFETY: as above.
unsafe impl Send for Entry {}

/// Lists the names and offsets of fields.
macro_rules! places {
    ($Table:ident: $($field:ident),* $(,)?) => { &[$((stringify!($field), std::mem::offset_of!($Table, $field))),*] };
}

/// Returns a copy of a record in plugin memory.
///
/// # Errors
/// The name of a field that contains null, not an address.
///
/// # Safety
/// `table` points to at least `size_of::<T>()` bytes. Any bytes are a valid `T`, except for null at `addresses`.
unsafe fn copied<T>(table: *const Entry, addresses: &[(&'static str, usize)]) -> Result<T, &'static str> {
    let mut whole = std::mem::MaybeUninit::<T>::uninit();
    // SAFETY: source and target are large enough, and bytes can be copied.
    unsafe { std::ptr::copy_nonoverlapping(table.cast::<u8>(), whole.as_mut_ptr().cast::<u8>(), size_of::<T>()) };
    let address = |at: usize| {
        // SAFETY: the whole copy is initialized, and each of these fields starts with an address.
        unsafe { whole.as_ptr().cast::<u8>().add(at).cast::<usize>().read_unaligned() }
    };
    match addresses.iter().find(|(_, at)| address(*at) == 0) {
        Some((name, _)) => Err(name),
        // SAFETY: none of the addresses is null, and the caller guarantees the rest.
        None => Ok(unsafe { whole.assume_init() }),
    }
}

impl Entry {
    /// All fields that must not be null except `decl`, which is for the plugin's own shims, and `api`, which is not
    /// read.
    const ADDRESSES: &[(&str, usize)] = places!(
        Entry: metadata,
        init,
        layout,
        run_module,
        run_functions,
        infer,
        make_instrument,
        call_instrument,
        drop_instrument,
        check_property,
        legalize,
    );

    /// Creates the table of a plugin.
    pub const fn new(decl: &'static PluginDecl, metadata: &'static [u8]) -> Entry {
        Entry {
            magic: ENTRY_MAGIC,
            size: std::mem::size_of::<Entry>() as u32,
            reserved: 0,
            n_passes: decl.passes.len() as u32,
            n_operators: decl.operators.len() as u32,
            fingerprint: fingerprint_of_plugin(decl),
            api: RawBytes::of(api_of(decl).as_bytes()),
            metadata: RawBytes::of(metadata),
            init,
            layout: crate::abi::layout::layout_here,
            run_module,
            run_functions,
            infer,
            decl,
            make_instrument: instrument::make,
            call_instrument: instrument::call,
            drop_instrument: instrument::drop_state,
            check_property,
            legalize,
        }
    }

    /// Returns the plugin's declarations; callable only in the plugin.
    pub(super) fn decl(&self) -> &'static PluginDecl {
        // SAFETY: `new` stored a reference in it.
        unsafe { &*self.decl }
    }

    /// Copies and checks the table of a plugin.
    ///
    /// # Errors
    /// The name of the required function or byte block that is null.
    ///
    /// # Safety
    /// `table` points to a whole table.
    pub(super) unsafe fn checked(table: *const Entry) -> Result<Entry, &'static str> {
        // SAFETY: the caller guarantees the bytes. Function addresses are checked; every other field accepts any value.
        unsafe { copied(table, Entry::ADDRESSES) }
    }
}

impl EntryOf1_1 {
    const ADDRESSES: &[(&str, usize)] = places!(EntryOf1_1: read, write);

    /// Creates the table of a plugin. If the plugin uses no feature of 1.1, the size field is the size in 1.0.
    pub const fn new(decl: &'static PluginDecl, metadata: &'static [u8]) -> EntryOf1_1 {
        let mut first = Entry::new(decl, metadata);
        if decl.more.has_formats() {
            first.size = std::mem::size_of::<EntryOf1_1>() as u32;
        }
        EntryOf1_1 { first, read: formats::read, write: formats::write }
    }

    /// Returns the table as the host reads it.
    pub const fn table(&'static self) -> *const Entry {
        std::ptr::from_ref(self).cast()
    }

    /// Returns the size in bytes of the table in a minor version of the API.
    pub(super) const fn size_in(minor: u64) -> usize {
        if minor == 0 { size_of::<Entry>() } else { size_of::<EntryOf1_1>() }
    }

    /// Copies and checks the table of a plugin.
    ///
    /// # Errors
    /// As for [`Entry::checked`].
    ///
    /// # Safety
    /// `table` points to a whole table of this version.
    pub(super) unsafe fn checked(table: *const Entry) -> Result<EntryOf1_1, &'static str> {
        // SAFETY: the table starts with a table of 1.0.
        unsafe { Entry::checked(table) }?;
        // SAFETY: the caller guarantees the bytes, and the fields of 1.0 were checked above.
        unsafe { copied(table, EntryOf1_1::ADDRESSES) }
    }
}

thread_local! {
    /// True while a shim on this thread catches panics.
    static IN_SHIM: Cell<bool> = const { Cell::new(false) };
    /// Message and location of the last panic on this thread, which may already have been caught elsewhere.
    static PANIC: RefCell<Option<(String, String)>> = const { RefCell::new(None) };
}

/// The panic hook of this copy of the standard library. The hook stores message and location for the shim. Panics on
/// threads started by the plugin are logged.
fn hook(info: &std::panic::PanicHookInfo<'_>) {
    let (file, line) = info.location().map_or(("", 0), |at| (at.file(), at.line()));
    let message = info.payload_as_str().unwrap_or(NO_TEXT);
    if IN_SHIM.try_with(Cell::get).unwrap_or(false) {
        let _ = PANIC.try_with(|panic| *panic.borrow_mut() = Some((message.to_string(), format!("{file}:{line}"))));
    } else {
        services::log(level::ERROR, "panic", (file, line), message, &[]);
    }
}

/// The message used for a panic whose payload is neither `&str` nor `String`.
const NO_TEXT: &str = "a payload that is not text";

/// Returns the payload's text, with the location if the hook ran for this panic. A panic propagated from another thread
/// does not run the hook, so the stored location may belong to a different panic. Leaks the payload, because its
/// destructor could panic.
fn panic_text(payload: Box<dyn Any + Send>) -> String {
    let hooked = PANIC.try_with(|panic| panic.borrow_mut().take()).ok().flatten();
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or(NO_TEXT);
    let text = match hooked {
        Some((message, place)) if message == text => format!("{text} ({place})"),
        _ => text.to_string(),
    };
    std::mem::forget(payload);
    text
}

/// Runs the work of a shim, catches panics, and returns them as text.
pub(super) fn caught<R>(work: impl FnOnce() -> R) -> Result<R, String> {
    let outer = IN_SHIM.replace(true);
    let _ = PANIC.try_with(|panic| panic.borrow_mut().take());
    let result = catch_unwind(AssertUnwindSafe(work)).map_err(panic_text);
    IN_SHIM.set(outer);
    result
}

extern "C" fn init(services: *const Services, error: Sink) -> u32 {
    let work = || {
        if !services::install(services) {
            return Err(
                "the table of the host is shorter than in the plugin API with which the plugin was built; use a newer host",
            );
        }
        std::panic::set_hook(Box::new(hook));
        crate::abi::log::forward();
        Ok(())
    };
    match caught(work) {
        Ok(Ok(())) => OK,
        Ok(Err(why)) => {
            error.put(why.as_bytes());
            FAILED
        }
        Err(panic) => {
            error.put(panic.as_bytes());
            PANICKED
        }
    }
}

/// Returns the status of a pass that returned an error.
pub(super) fn status_of(error: &PassError) -> u32 {
    if error.is_of_option { REFUSED_OPTION } else { FAILED }
}

/// Encodes an error as bytes: node (u64), length of the function's name (u32), name, message.
pub(super) fn error_bytes(error: &PassError) -> Vec<u8> {
    let function = error.function.as_deref().unwrap_or("").as_bytes();
    let node = error.node.map_or(NO_NODE, |node| node as u64);
    let length = (function.len() as u32).to_le_bytes();
    [&node.to_le_bytes()[..], &length, function, error.message.as_bytes()].concat()
}

/// Decodes the bytes of [`error_bytes`].
pub(crate) fn read_error(bytes: &[u8]) -> PassError {
    let read = || {
        let (node, rest) = bytes.split_first_chunk::<8>()?;
        let (len, rest) = rest.split_first_chunk::<4>()?;
        let (function, message) = rest.split_at_checked(u32::from_le_bytes(*len) as usize)?;
        let node = u64::from_le_bytes(*node);
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        let mut error = PassError::new(text(message));
        error.node = (node != NO_NODE).then_some(node as usize);
        error.function = (!function.is_empty()).then(|| text(function));
        Some(error)
    };
    read().unwrap_or_else(|| PassError::new(String::from_utf8_lossy(bytes)))
}

/// Encodes the values of options as bytes, in the order of their declaration.
pub(crate) fn option_bytes(values: &[OptionValue]) -> Vec<u8> {
    let mut out = Vec::new();
    values.iter().for_each(|value| {
        crate::metadata::wire::put_field(&mut out, tag::DEFAULT, &crate::metadata::wire::value_bytes(value))
    });
    out
}

/// # Safety
/// The bytes are alive during the call.
pub(super) unsafe fn read_options(bytes: RawBytes) -> Result<Vec<OptionValue>, PassError> {
    // SAFETY: guaranteed by the caller.
    let fields = Fields::new(unsafe { bytes.get() });
    let values = fields.map(|field| read_value(field.ok()?.1)).collect::<Option<Vec<_>>>();
    values.ok_or_else(|| PassError::new("the host passed invalid options"))
}

fn other_granularity() -> PassError {
    PassError::new("the host ran the pass at a different granularity than declared")
}

/// # Safety
/// `entry` is the plugin's own table; the module lives; the bytes live during the call; the context is null or
/// alive.
unsafe fn module_pass(
    entry: *const Entry,
    pass: u32,
    module: *const ModuleHdr,
    options: RawBytes,
    ctx: *const CtxRecord,
) -> Result<Module, PassError> {
    // SAFETY: as above.
    let (entry, module, options, ctx) =
        unsafe { (&*entry, Module::clone_ptr(module), read_options(options)?, Ctx::of(services::context(ctx))) };
    let module = module.ok_or_else(|| PassError::new("the host did not pass a module"))?;
    match entry.decl().passes.get(pass as usize).map(|pass| pass.run) {
        Some(RunFn::Module(run)) => run(&module, &options, &ctx),
        _ => Err(other_granularity()),
    }
}

extern "C" fn run_module(
    entry: *const Entry,
    pass: u32,
    module: *const ModuleHdr,
    options: RawBytes,
    ctx: *const CtxRecord,
    error: Sink,
) -> RunResult {
    let (status, handle) = {
        // SAFETY: the host meets the requirements of `module_pass`.
        match caught(|| unsafe { module_pass(entry, pass, module, options, ctx) }) {
            Ok(Ok(module)) => (OK, module.into_ptr()),
            Ok(Err(failure)) => {
                error.put(&error_bytes(&failure));
                (status_of(&failure), std::ptr::null())
            }
            Err(panic) => {
                error.put(panic.as_bytes());
                (PANICKED, std::ptr::null())
            }
        }
    };
    RunResult { status, reserved: 0, handle }
}

/// Encodes a failure in a batch as bytes: position (u32), status (u32), length (u32), text or error.
pub(super) fn put_failure(errors: Sink, at: usize, status: u32, bytes: &[u8]) {
    [at as u32, status, bytes.len() as u32].iter().for_each(|word| errors.put(&word.to_le_bytes()));
    errors.put(bytes);
}

/// Decodes the bytes of [`put_failure`].
pub(crate) fn read_failures(mut bytes: &[u8]) -> Vec<(usize, u32, &[u8])> {
    let mut failures = Vec::new();
    while let Some(([at, status, len], rest)) = bytes.split_first_chunk::<12>().map(|(head, rest)| {
        let word = |i: usize| u32::from_le_bytes([head[i], head[i + 1], head[i + 2], head[i + 3]]) as usize;
        ([word(0), word(4), word(8)], rest)
    }) {
        let Some((content, rest)) = rest.split_at_checked(len) else { break };
        failures.push((at, status as u32, content));
        bytes = rest;
    }
    failures
}

/// Counts the failures in the bytes of [`put_failure`], without allocating.
pub(crate) fn failures_in(mut bytes: &[u8]) -> usize {
    let mut n = 0;
    while let Some((head, rest)) = bytes.split_first_chunk::<12>() {
        let len = u32::from_le_bytes([head[8], head[9], head[10], head[11]]) as usize;
        let Some((_, rest)) = rest.split_at_checked(len) else { break };
        (n, bytes) = (n + 1, rest);
    }
    n
}

extern "C" fn run_functions(
    entry: *const Entry,
    pass: u32,
    bodies: *const *const BodyHdr,
    out: *mut *const BodyHdr,
    n: usize,
    options: RawBytes,
    ctx: *const CtxRecord,
    errors: Sink,
) {
    if n == 0 {
        return;
    }
    // SAFETY: the host passes the plugin's own table, `n` live handles, room for `n` results, bytes that live
    // during the call, and a context that is null or alive. A `Body` is a transparent pointer, so an array of
    // borrowed handles is a slice of `Body` as long as none is dropped.
    let (entry, bodies, out, ctx) = unsafe {
        let bodies = std::slice::from_raw_parts(bodies.cast::<Body>(), n);
        (&*entry, bodies, std::slice::from_raw_parts_mut(out, n), Ctx::of(services::context(ctx)))
    };
    let mut done = |i: usize, result: std::thread::Result<Result<Body, PassError>>| match result {
        Ok(Ok(body)) => out[i] = body.into_ptr(),
        Ok(Err(error)) => put_failure(errors, i, status_of(&error), &error_bytes(&error)),
        Err(payload) => put_failure(errors, i, PANICKED, panic_text(payload).as_bytes()),
    };
    let run = || {
        let mut batch = Batch::new(bodies, &ctx, &mut done);
        // SAFETY: bytes that live during the call.
        let options = unsafe { read_options(options) };
        match (entry.decl().passes.get(pass as usize).map(|pass| pass.run), options) {
            (Some(RunFn::Function(run) | RunFn::DataflowBlock(run) | RunFn::PrimFunc(run)), Ok(options)) => {
                run(&options, &mut batch);
            }
            (_, Err(error)) => batch.each(|_, _| Err(error.clone())),
            _ => batch.each(|_, _| Err(other_granularity())),
        }
    };
    if let Err(panic) = caught(run) {
        put_failure(errors, 0, PANICKED, panic.as_bytes());
    }
}

extern "C" fn check_property(
    entry: *const Entry,
    property: u32,
    body: *const BodyHdr,
    ctx: *const CtxRecord,
    error: Sink,
) -> u32 {
    // SAFETY: the host passes the plugin's own table, a live handle, and a context that is null or alive. A `Body`
    // is a transparent pointer, so a borrowed handle is a slice of one `Body` as long as it is not dropped.
    let (entry, bodies, ctx) = unsafe {
        (&*entry, std::slice::from_raw_parts((&raw const body).cast::<Body>(), 1), Ctx::of(services::context(ctx)))
    };
    let mut status = OK;
    let mut done = |_, result: std::thread::Result<Result<Body, PassError>>| match result {
        Ok(Ok(_)) => {}
        Ok(Err(failure)) => {
            error.put(&error_bytes(&failure));
            status = FAILED;
        }
        Err(payload) => {
            error.put(panic_text(payload).as_bytes());
            status = PANICKED;
        }
    };
    let run = || {
        let check = entry.decl().more.properties.get(property as usize).and_then(|property| property.check);
        let none = || PassError::new("the host requested a checker that the plugin does not have");
        Batch::new(bodies, &ctx, &mut done)
            .each(|body, ctx| check.ok_or_else(none).and_then(|check| check(body, ctx)).map(|()| body.clone()));
    };
    if let Err(panic) = caught(run) {
        error.put(panic.as_bytes());
        status = PANICKED;
    }
    status
}

extern "C" fn infer(entry: *const Entry, op: u32, raw: *const RawView<'static>, node: u32, out: Sink) -> u32 {
    let rule = || {
        // SAFETY: the host passes the plugin's own table and sections that live during the call.
        let (entry, raw) = unsafe { (&*entry, &*raw) };
        let Some(decl) = entry.decl().operators.get(op as usize) else {
            return Err(InferError::wrong("the host requested an operator that the plugin does not have"));
        };
        let ty = (decl.infer)(Call(Value { raw, op: node }))?;
        Ok(Inferred { ty, pure: decl.pure })
    };
    let answer = caught(rule).unwrap_or_else(|panic| {
        Err(InferError::Panicked(format!("the rule of the operator panicked: {panic}; this is a fault of its plugin")))
    });
    let (status, bytes) = encode_inferred(&answer);
    out.put(&bytes);
    status
}

extern "C" fn legalize(
    entry: *const Entry,
    op: u32,
    raw: *const RawView<'static>,
    node: u32,
    function: *mut *const BodyHdr,
    out: Sink,
) -> u32 {
    let rule = || {
        // SAFETY: the host passes the plugin's own table and sections that live during the call.
        let (entry, raw) = unsafe { (&*entry, &*raw) };
        let Some(decl) = entry.decl().operators.get(op as usize) else {
            return Err(InferError::wrong("the host requested an operator that the plugin does not have"));
        };
        decl.legalize.map(|legalize| legalize(Call(Value { raw, op: node }))).transpose()
    };
    let answer = caught(rule).unwrap_or_else(|panic| {
        let what = "the legalization of the operator panicked";
        Err(InferError::Panicked(format!("{what}: {panic}; this is a fault of its plugin")))
    });
    let (status, bytes, handle) = services::legalized_answer(answer);
    // SAFETY: the host passes a place for one handle.
    unsafe { function.write(handle) };
    out.put(&bytes);
    status
}
