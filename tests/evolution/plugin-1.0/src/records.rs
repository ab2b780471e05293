//! The records of plugin API 1.0, written by hand.

use abi_stable::StableAbi;
use abi_stable::type_layout::TypeLayout;
use std::ffi::c_void;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, AtomicUsize};

/// Hash of the records and the contract of 1.0. It never changes.
pub const FINGERPRINT: u64 = 0x5810_9a20_4573_7621;
pub const ENTRY_MAGIC: u64 = 0x5041_5353_484f_5354;
pub const SLOTS: usize = 24;

/// The node kinds of 1.0 that this plugin uses.
pub mod kind {
    pub const LAST_OF_RELAX: u16 = 0x00f;
    pub const FIRST_OF_TIR: u16 = 0x101;
    pub const LAST_OF_TIR: u16 = 0x120;
}

pub mod leaf {
    pub const OP: u16 = 1;
    pub const LAST: u16 = 10;
}

pub const LEAF_BIT: u32 = 1 << 31;

macro_rules! plain {
    ($($name:ident { $($field:ident: $ty:ty),* })*) => {$(
        #[repr(C)]
        #[derive(Clone, Copy, StableAbi)]
        pub struct $name { $(pub $field: $ty),* }
    )*};
}

plain! {
    NodeRec { kind: u16, flags: u16, ty: u32, ops: u32, n_ops: u32, attrs: u32, a: u32 }
    LeafRec { kind: u16, flags: u16, ty: u32, val: u64 }
    TypeRec { kind: u16, flags: u16, dtype: u32, ndim: i32, off: u32, len: u32, aux: u32 }
    PrimRec { op: u16, flags: u16, dtype: u32, a: u32, b: u32 }
    DictRec { off: u32, len: u32 }
    AttrRec { key: u32, kind: u16, flags: u16, reserved: u64, val: u64 }
    StrRec { off: u32, len: u32 }
    ConstRec { hash_lo: u64, hash_hi: u64, bytes: u64, dtype: u32, ty: u32 }
    BufferRec {
        dtype: u32, scope: u32, shape_off: u32, shape_len: u32, strides_off: u32, strides_len: u32, elem_offset: u32,
        align: u32, offset_factor: u32, reserved: u32
    }
    RawSlice { ptr: *const u8, len: usize }
    RawBytes { ptr: *const u8, len: usize }
    DiagnosticRecord { severity: u32, index: u32, function: RawBytes, node: u64, message: RawBytes }
    LogRecord { level: u32, line: u32, target: RawBytes, file: RawBytes, message: RawBytes, fields: RawBytes }
    SpanRecord {
        level: u32, line: u32, parent: u64, name: RawBytes, target: RawBytes, file: RawBytes, fields: RawBytes
    }
    RunResult { status: u32, reserved: u32, handle: *const ModuleHdr }
}

impl RawSlice {
    /// # Safety
    /// The host gives pointer and length of records of this type that live during the call.
    pub unsafe fn get<'a, T>(self) -> &'a [T] {
        // SAFETY: as above.
        if self.len == 0 { &[] } else { unsafe { std::slice::from_raw_parts(self.ptr.cast(), self.len) } }
    }

    pub fn of<T>(items: &[T]) -> RawSlice {
        RawSlice { ptr: items.as_ptr().cast(), len: items.len() }
    }
}

impl RawBytes {
    pub const fn of(bytes: &[u8]) -> RawBytes {
        RawBytes { ptr: bytes.as_ptr(), len: bytes.len() }
    }
}

#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
pub struct RawView<'a> {
    pub slots: [RawSlice; SLOTS],
    pub tensors: RawSlice,
    #[sabi(unsafe_opaque_field)]
    pub life: PhantomData<&'a [u8]>,
}

#[repr(C)]
#[derive(StableAbi)]
pub struct BodyHdr {
    #[sabi(unsafe_opaque_field)]
    pub rc: AtomicU64,
    drop_fn: extern "C" fn(*mut BodyHdr),
    pub view: RawView<'static>,
    #[sabi(unsafe_opaque_field)]
    buffer: *mut u128,
    units: usize,
    tensors: *mut Tensor,
    n_tensors: usize,
}

#[repr(transparent)]
#[derive(StableAbi)]
pub struct Body(pub NonNull<BodyHdr>);

#[repr(C)]
#[derive(StableAbi)]
pub struct TensorHdr {
    #[sabi(unsafe_opaque_field)]
    rc: AtomicU64,
    drop_fn: extern "C" fn(*mut TensorHdr),
    hash_lo: u64,
    hash_hi: u64,
    #[sabi(unsafe_opaque_field)]
    data: *mut u128,
    units: usize,
    bytes: usize,
}

#[repr(transparent)]
#[derive(StableAbi)]
pub struct Tensor(NonNull<TensorHdr>);

#[repr(C)]
#[derive(StableAbi)]
pub struct FuncEntry {
    name: *const u8,
    name_len: usize,
    pub body: Body,
}

#[repr(C)]
#[derive(StableAbi)]
pub struct ModuleHdr {
    #[sabi(unsafe_opaque_field)]
    pub rc: AtomicU64,
    drop_fn: extern "C" fn(*mut ModuleHdr),
    pub entries: *mut FuncEntry,
    pub n_entries: usize,
    meta: Option<Body>,
    #[sabi(unsafe_opaque_field)]
    names: *const String,
}

#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
pub struct Sink {
    pub write: extern "C" fn(*mut c_void, RawBytes),
    #[sabi(unsafe_opaque_field)]
    pub data: *mut c_void,
}

#[repr(C)]
#[derive(StableAbi)]
pub struct CtxRecord {
    size: u32,
    opt_level: i32,
    pub run: u64,
}

#[repr(C)]
#[derive(StableAbi)]
pub struct Services {
    pub size: u32,
    reserved: u32,
    max_level: &'static AtomicUsize,
    pub seal: extern "C" fn(*const RawView<'static>, Sink) -> *const BodyHdr,
    module: extern "C" fn(*const RawBytes, *const *const BodyHdr, usize, *const BodyHdr) -> *const ModuleHdr,
    module_with: extern "C" fn(*const ModuleHdr, *const usize, *const *const BodyHdr, usize) -> *const ModuleHdr,
    tensor: extern "C" fn(RawBytes) -> *const TensorHdr,
    infer: extern "C" fn(*const RawView<'static>, u32, Sink) -> u32,
    print: extern "C" fn(*const BodyHdr, Sink) -> u32,
    current: extern "C" fn() -> *const CtxRecord,
    query: extern "C" fn(u64, u32, RawBytes, Sink) -> u32,
    pub diagnose: extern "C" fn(u64, *const DiagnosticRecord),
    log_enabled: extern "C" fn(u32, RawBytes) -> u32,
    log: extern "C" fn(*const LogRecord),
    span_wanted: extern "C" fn(*const SpanRecord) -> u32,
    span_new: extern "C" fn(*const SpanRecord) -> u64,
    span_record: extern "C" fn(u64, RawBytes),
    span: extern "C" fn(u64, u32, u64) -> u64,
    statistic: extern "C" fn(u64, RawBytes, u64),
    show_module: extern "C" fn(u64, *const ModuleHdr, RawBytes) -> u32,
    legalize: extern "C" fn(*const RawView<'static>, u32, *mut *const BodyHdr, Sink) -> u32,
    evaluate: extern "C" fn(u64, *const BodyHdr, u64, u64, *mut *const BodyHdr, Sink) -> u32,
}

#[repr(C)]
#[derive(StableAbi)]
pub struct Entry {
    pub magic: u64,
    pub size: u32,
    pub reserved: u32,
    pub n_passes: u32,
    pub n_operators: u32,
    pub fingerprint: u64,
    pub api: RawBytes,
    pub metadata: RawBytes,
    pub init: extern "C" fn(*const Services, Sink) -> u32,
    pub layout: extern "C" fn() -> *const u8,
    pub run_module: extern "C" fn(*const Entry, u32, *const ModuleHdr, RawBytes, *const CtxRecord, Sink) -> RunResult,
    pub run_functions: extern "C" fn(
        *const Entry,
        u32,
        *const *const BodyHdr,
        *mut *const BodyHdr,
        usize,
        RawBytes,
        *const CtxRecord,
        Sink,
    ),
    pub infer: extern "C" fn(*const Entry, u32, *const RawView<'static>, u32, Sink) -> u32,
    #[sabi(unsafe_opaque_field)]
    pub decl: *const c_void,
    pub make_instrument: extern "C" fn(*const Entry, u32, RawBytes, *mut *mut u8, Sink) -> u32,
    pub call_instrument: extern "C" fn(*mut u8, u32, *const ModuleHdr, RawBytes, Sink) -> u32,
    pub drop_instrument: extern "C" fn(*mut u8, Sink) -> u32,
    pub check_property: extern "C" fn(*const Entry, u32, *const BodyHdr, *const CtxRecord, Sink) -> u32,
    pub legalize: extern "C" fn(*const Entry, u32, *const RawView<'static>, u32, *mut *const BodyHdr, Sink) -> u32,
}

// SAFETY: immutable, and lives as long as the library.
unsafe impl Sync for Entry {}

/// All records that cross the boundary, for the host's comparison.
#[repr(C)]
#[derive(StableAbi)]
struct Boundary {
    node: NodeRec,
    leaf: LeafRec,
    ty: TypeRec,
    prim: PrimRec,
    dict: DictRec,
    attr: AttrRec,
    str: StrRec,
    constant: ConstRec,
    buffer: BufferRec,
    slice: RawSlice,
    view: RawView<'static>,
    body: BodyHdr,
    tensor: TensorHdr,
    function: FuncEntry,
    module: ModuleHdr,
    bytes: RawBytes,
    sink: Sink,
    ctx: CtxRecord,
    log: LogRecord,
    span: SpanRecord,
    diagnostic: DiagnosticRecord,
    services: Services,
    result: RunResult,
    entry: Entry,
}

pub extern "C" fn layout() -> *const u8 {
    std::ptr::from_ref::<TypeLayout>(<Boundary as StableAbi>::LAYOUT).cast()
}
