//! The entry table of a plugin, and the shims behind it: every one catches panics on the plugin's side.

use super::codec::encode_inferred;
use super::module::{Module, ModuleHdr};
use super::services::{CtxRecord, RawBytes, Services, Sink, install};
use super::view::{Body, BodyHdr, RawView};
use crate::decl::{PluginDecl, RunFn};
use crate::ir::records::*;
use crate::ir::{Call, Value};
use crate::meta::OptionValue;
use crate::op::{InferError, Inferred};
use crate::pass::{Batch, Ctx, PassError};
use abi_stable::StableAbi;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Start of the entry table.
pub const ENTRY_MAGIC: u64 = 0x5041_5353_484f_5354;
/// Name of the entry symbol. `passhost_plugin_entry_c` is reserved for plugins in C.
pub const ENTRY_SYMBOL: &str = "passhost_plugin_entry_v0";

/// Status of a call into a plugin.
pub(crate) const OK: u32 = 0;
pub(crate) const FAILED: u32 = 1;
pub(crate) const PANICKED: u32 = 2;

/// The entry table. `decl` is only for the plugin's own shims.
#[repr(C)]
pub struct Entry {
    pub(crate) magic: u64,
    pub(crate) size: u32,
    pub(crate) n_passes: u32,
    pub(crate) n_operators: u32,
    pub(crate) reserved: u32,
    pub(crate) fingerprint: u64,
    pub(crate) api: RawBytes,
    pub(crate) name: RawBytes,
    pub(crate) init: extern "C" fn(*const Services, Sink) -> u32,
    pub(crate) layout: extern "C" fn() -> *const u8,
    pub(crate) run_module: ModuleShim,
    pub(crate) run_functions: FunctionsShim,
    pub(crate) infer: InferShim,
    pub(crate) decl: &'static PluginDecl,
}

type ModuleShim =
    extern "C" fn(*const Entry, u32, *const ModuleHdr, RawBytes, *const CtxRecord, Sink) -> RunResult<ModuleHdr>;
type FunctionsShim = extern "C" fn(
    *const Entry,
    u32,
    *const *const BodyHdr,
    usize,
    *mut *const BodyHdr,
    RawBytes,
    *const CtxRecord,
    Sink,
) -> RunResult<BodyHdr>;
type InferShim = extern "C" fn(*const Entry, u32, *const RawView<'static>, u32, Sink) -> u32;

/// What a run gave: a status, how many functions were done, and a handle.
#[repr(C)]
pub(crate) struct RunResult<T> {
    pub(crate) status: u32,
    pub(crate) done: u32,
    pub(crate) handle: *const T,
}

// SAFETY: everything in it is immutable and lives as long as the library.
unsafe impl Sync for Entry {}

impl Entry {
    /// The table of a plugin.
    pub const fn new(decl: &'static PluginDecl) -> Entry {
        Entry {
            magic: ENTRY_MAGIC,
            size: std::mem::size_of::<Entry>() as u32,
            n_passes: decl.passes.len() as u32,
            n_operators: decl.operators.len() as u32,
            reserved: 0,
            fingerprint: FINGERPRINT,
            api: RawBytes::of_static(crate::decl::API_VERSION),
            name: RawBytes::of_static(decl.name),
            init,
            layout,
            run_module,
            run_functions,
            infer,
            decl,
        }
    }
}

impl RawBytes {
    const fn of_static(text: &'static str) -> RawBytes {
        // SAFETY: `RawBytes` has the fields pointer and length in this order and nothing else.
        unsafe { std::mem::transmute::<(*const u8, usize), RawBytes>((text.as_ptr(), text.len())) }
    }
}

macro_rules! fingerprint {
    ($($ty:ty),*) => {{
        let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
        $(
            hash = mix(hash, std::mem::size_of::<$ty>() as u64);
            hash = mix(hash, std::mem::align_of::<$ty>() as u64);
        )*
        hash
    }};
}

const fn mix(hash: u64, value: u64) -> u64 {
    (hash ^ value).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(7)
}

/// Hash over size and alignment of every record that crosses, and over the places of fields that readers rely on.
pub const FINGERPRINT: u64 = {
    let mut hash = fingerprint!(
        NodeRec,
        LeafRec,
        TypeRec,
        PrimRec,
        DictRec,
        AttrRec,
        StrRec,
        ConstRec,
        BufferRec,
        RawView<'static>,
        BodyHdr,
        ModuleHdr,
        super::view::TensorHdr,
        super::module::FuncEntry,
        Services,
        CtxRecord,
        Sink,
        RawBytes,
        Entry,
        super::services::LogRecord
    );
    hash = mix(hash, std::mem::offset_of!(NodeRec, attrs) as u64);
    hash = mix(hash, std::mem::offset_of!(TypeRec, off) as u64);
    hash = mix(hash, std::mem::offset_of!(AttrRec, val) as u64);
    hash = mix(hash, std::mem::offset_of!(Entry, infer) as u64);
    mix(hash, std::mem::offset_of!(Services, log) as u64)
};

/// The records whose layouts are compared field by field when a plugin is opened.
#[repr(C)]
#[derive(StableAbi)]
pub(crate) struct Boundary {
    node: NodeRec,
    leaf: LeafRec,
    ty: TypeRec,
    prim: PrimRec,
    dict: DictRec,
    attr: AttrRec,
    str: StrRec,
    constant: ConstRec,
    buffer: BufferRec,
    bytes: RawBytes,
    sink: Sink,
}

extern "C" fn layout() -> *const u8 {
    let layout: &'static abi_stable::type_layout::TypeLayout = <Boundary as StableAbi>::LAYOUT;
    std::ptr::from_ref(layout).cast()
}

thread_local! {
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

extern "C" fn init(services: *const Services, error: Sink) -> u32 {
    let done = catch_unwind(|| {
        install(services);
        // The hook of this copy of the standard library: it keeps message and place for the shim.
        std::panic::set_hook(Box::new(|info| {
            let place = info.location().map_or(String::new(), |at| format!(" ({}:{})", at.file(), at.line()));
            let message = info.payload_as_str().unwrap_or("a payload that is no text");
            PANIC.with(|panic| *panic.borrow_mut() = Some(format!("{message}{place}")));
        }));
        super::log::forward();
    });
    match done {
        Ok(()) => OK,
        Err(payload) => {
            report_panic(payload, error);
            PANICKED
        }
    }
}

/// Takes the text, then forgets the payload: its destructor could panic again.
fn report_panic(payload: Box<dyn std::any::Any + Send>, error: Sink) {
    let hooked = PANIC.with(|panic| panic.borrow_mut().take());
    let text = hooked.or_else(|| payload.downcast_ref::<&str>().map(|text| (*text).to_string()));
    let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
    error.put(text.as_deref().unwrap_or("a payload that is no text").as_bytes());
    std::mem::forget(payload);
}

/// An error as bytes: node (u64), length of the function's name (u32), name, message.
fn put_error(error: &PassError, sink: Sink) {
    let function = error.function.as_deref().unwrap_or("");
    sink.put(&error.node.map_or(u64::MAX, |node| node as u64).to_le_bytes());
    sink.put(&(function.len() as u32).to_le_bytes());
    sink.put(function.as_bytes());
    sink.put(error.message.as_bytes());
}

/// What [`put_error`] wrote.
pub(crate) fn read_error(bytes: &[u8]) -> PassError {
    let read = || {
        let (node, rest) = bytes.split_first_chunk::<8>()?;
        let (len, rest) = rest.split_first_chunk::<4>()?;
        let (function, message) = rest.split_at_checked(u32::from_le_bytes(*len) as usize)?;
        let node = u64::from_le_bytes(*node);
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        Some(PassError {
            message: text(message),
            node: (node != u64::MAX).then_some(node as usize),
            function: (!function.is_empty()).then(|| text(function)),
        })
    };
    read().unwrap_or_else(|| PassError::new(String::from_utf8_lossy(bytes)))
}

/// Options as text, one line each, in the order of their declaration.
pub(crate) fn options_text(values: &[OptionValue]) -> String {
    values.iter().map(|value| format!("{value}\n")).collect()
}

/// # Safety
/// The bytes live during the call.
unsafe fn read_options(entry: &Entry, pass: usize, bytes: RawBytes) -> Vec<OptionValue> {
    // SAFETY: the caller vouches for the bytes.
    let text = String::from_utf8_lossy(unsafe { bytes.get() });
    let decls = entry.decl.passes[pass].options;
    let parse = |(line, decl): (&str, &crate::decl::OptionDecl)| OptionValue::parse(line).ok()?.coerce(decl.ty);
    text.lines().zip(decls).filter_map(parse).collect()
}

extern "C" fn run_module(
    entry: *const Entry,
    pass: u32,
    module: *const ModuleHdr,
    options: RawBytes,
    ctx: *const CtxRecord,
    error: Sink,
) -> RunResult<ModuleHdr> {
    let run = || {
        // SAFETY: the host passes the plugin's own table, a live module, and bytes that live during the call.
        let (entry, module, options) =
            unsafe { (&*entry, Module::clone_ptr(module), read_options(&*entry, pass as usize, options)) };
        let module = module.ok_or_else(|| PassError::new("the host gave no module"))?;
        match entry.decl.passes[pass as usize].run {
            RunFn::Module(run) => run(&module, &options, &Ctx::over(ctx)),
            _ => Err(PassError::new("the host ran the pass at another granularity than its own")),
        }
    };
    let mut result = RunResult { status: OK, done: 0, handle: std::ptr::null() };
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(Ok(module)) => result.handle = module.into_ptr(),
        Ok(Err(failure)) => {
            put_error(&failure, error);
            result.status = FAILED;
        }
        Err(payload) => {
            report_panic(payload, error);
            result.status = PANICKED;
        }
    }
    result
}

extern "C" fn run_functions(
    entry: *const Entry,
    pass: u32,
    bodies: *const *const BodyHdr,
    n: usize,
    out: *mut *const BodyHdr,
    options: RawBytes,
    ctx: *const CtxRecord,
    error: Sink,
) -> RunResult<BodyHdr> {
    // SAFETY: the host passes the plugin's own table, `n` live handles, room for `n` results, and live bytes.
    // A `Body` is a transparent pointer, so an array of borrowed handles is an array of `&Body` targets.
    let (entry, handles, out, options) = unsafe {
        let handles = std::slice::from_raw_parts(bodies.cast::<Body>(), n);
        (&*entry, handles, std::slice::from_raw_parts_mut(out, n), read_options(&*entry, pass as usize, options))
    };
    let bodies: Vec<&Body> = handles.iter().collect();
    let mut results = Vec::with_capacity(n);
    let run = AssertUnwindSafe(|| {
        let ctx = Ctx::over(ctx);
        let mut batch = Batch::new(&bodies, &mut results, &ctx);
        match entry.decl.passes[pass as usize].run {
            RunFn::Module(_) => {}
            RunFn::Function(run) | RunFn::DataflowBlock(run) | RunFn::PrimFunc(run) => run(&options, &mut batch),
        }
    });
    let panic = catch_unwind(run).err();
    let mut result = RunResult { status: OK, done: results.len() as u32, handle: std::ptr::null() };
    for (i, (slot, body)) in out.iter_mut().zip(results).enumerate() {
        match body {
            Ok(body) => *slot = body.into_ptr(),
            Err(failure) if result.status == OK => {
                put_error(&failure, error);
                (result.status, result.done) = (FAILED, i as u32);
            }
            Err(_) => {}
        }
    }
    if let Some(payload) = panic.filter(|_| result.status == OK) {
        report_panic(payload, error);
        result.status = PANICKED;
    }
    result
}

extern "C" fn infer(entry: *const Entry, op: u32, raw: *const RawView<'static>, node: u32, out: Sink) -> u32 {
    let answer = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: the host passes the plugin's own table and sections that live during the call.
        let (entry, raw) = unsafe { (&*entry, &*raw) };
        let Some(decl) = entry.decl.operators.get(op as usize) else {
            return Err(InferError::wrong("the host asked for an operator that the plugin does not have"));
        };
        let ty = (decl.infer)(Call(Value { raw, op: node }))?;
        Ok(Inferred { ty, pure: decl.pure })
    }));
    match answer {
        Ok(answer) => {
            let (status, bytes) = encode_inferred(&answer);
            out.put(&bytes);
            status
        }
        Err(payload) => {
            out.put(b"the rule of the operator panicked: ");
            report_panic(payload, out);
            super::codec::WRONG
        }
    }
}
