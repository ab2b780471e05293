//! A plugin that uses only the records of version 1.0, not `plugin-api`.

mod metadata;
mod records;

use records::*;
use std::ffi::c_void;
use std::sync::atomic::{AtomicPtr, Ordering};

#[used]
#[cfg_attr(not(target_vendor = "apple"), unsafe(link_section = ".passhost"))]
#[cfg_attr(target_vendor = "apple", unsafe(link_section = "__DATA,__passhost"))]
static METADATA: [u8; metadata::LEN] = metadata::BYTES;

static ENTRY: Entry = Entry {
    magic: ENTRY_MAGIC,
    size: size_of::<Entry>() as u32,
    reserved: 0,
    n_passes: 2,
    n_operators: 0,
    fingerprint: FINGERPRINT,
    api: RawBytes::of(metadata::VERSION.as_bytes()),
    metadata: RawBytes::of(&METADATA),
    init,
    layout,
    run_module,
    run_functions,
    infer,
    decl: std::ptr::null(),
    make_instrument,
    call_instrument,
    drop_instrument,
    check_property,
    legalize,
};

#[unsafe(no_mangle)]
pub extern "C" fn passhost_plugin_entry_v1() -> *const Entry {
    &ENTRY
}

static SERVICES: AtomicPtr<Services> = AtomicPtr::new(std::ptr::null_mut());

extern "C" fn init(services: *const Services, error: Sink) -> u32 {
    // SAFETY: the host provides its table, which starts with its size.
    if (unsafe { (*services).size } as usize) < size_of::<Services>() {
        (error.write)(error.data, RawBytes::of(b"the host has a shorter table than 1.0"));
        return 1;
    }
    SERVICES.store(services.cast_mut(), Ordering::Release);
    0
}

fn services() -> &'static Services {
    // SAFETY: `init` received the table, which outlives the plugin.
    unsafe { &*SERVICES.load(Ordering::Acquire) }
}

extern "C" fn infer(_: *const Entry, _: u32, _: *const RawView<'static>, _: u32, _: Sink) -> u32 {
    1
}

extern "C" fn legalize(
    _: *const Entry,
    _: u32,
    _: *const RawView<'static>,
    _: u32,
    _: *mut *const BodyHdr,
    _: Sink,
) -> u32 {
    6
}

extern "C" fn make_instrument(_: *const Entry, _: u32, _: RawBytes, _: *mut *mut u8, _: Sink) -> u32 {
    1
}

extern "C" fn call_instrument(_: *mut u8, _: u32, _: *const ModuleHdr, _: RawBytes, _: Sink) -> u32 {
    1
}

extern "C" fn drop_instrument(_: *mut u8, _: Sink) -> u32 {
    1
}

extern "C" fn check_property(_: *const Entry, _: u32, _: *const BodyHdr, _: *const CtxRecord, _: Sink) -> u32 {
    1
}

/// Sections with the numbering of API 1.0.
struct Sections<'a> {
    view: &'a RawView<'static>,
    nodes: &'a [NodeRec],
    operands: &'a [u32],
    leaves: &'a [LeafRec],
    strs: &'a [StrRec],
    str_bytes: &'a [u8],
}

impl<'a> Sections<'a> {
    /// # Safety
    /// The header of a body that lives during the call.
    unsafe fn of(body: *const BodyHdr) -> Sections<'a> {
        // SAFETY: as above; the host checked the sections when it sealed them.
        unsafe {
            let view = &(*body).view;
            let slot = &view.slots;
            let (nodes, operands, leaves) = (slot[0].get(), slot[1].get(), slot[2].get());
            Sections { view, nodes, operands, leaves, strs: slot[6].get(), str_bytes: slot[7].get() }
        }
    }

    fn str(&self, id: u64) -> &'a [u8] {
        let rec = self.strs.get(id as usize).copied().unwrap_or(StrRec { off: 0, len: 0 });
        self.str_bytes.get(rec.off as usize..(rec.off + rec.len) as usize).unwrap_or(&[])
    }

    fn operands_of(&self, node: &NodeRec) -> &'a [u32] {
        &self.operands[node.ops as usize..(node.ops + node.n_ops) as usize]
    }
}

/// Counts what is reachable from nodes: nodes, operands, and those with a kind that 1.0 lacks.
fn count(body: &Sections<'_>) -> [usize; 4] {
    let known = |kind: u16| kind <= kind::LAST_OF_RELAX || (kind::FIRST_OF_TIR..=kind::LAST_OF_TIR).contains(&kind);
    let mut seen = [body.nodes.len(), 0, 0, 0];
    for node in body.nodes {
        seen[2] += usize::from(!known(node.kind));
        for op in body.operands_of(node) {
            seen[1] += 1;
            let leaf = body.leaves.get((op & !LEAF_BIT) as usize).filter(|_| op & LEAF_BIT != 0);
            seen[3] += usize::from(leaf.is_some_and(|leaf| leaf.kind > leaf::LAST));
        }
    }
    seen
}

extern "C" fn run_module(
    _: *const Entry,
    _: u32,
    module: *const ModuleHdr,
    _: RawBytes,
    ctx: *const CtxRecord,
    _: Sink,
) -> RunResult {
    // SAFETY: the module and the context live during the call.
    let (hdr, run) = unsafe { (&*module, (*ctx).run) };
    // SAFETY: the header has the number of entries.
    let functions = unsafe { std::slice::from_raw_parts(hdr.entries, hdr.n_entries) };
    let mut sum = [0; 4];
    for function in functions {
        // SAFETY: a body of the module.
        let seen = count(&unsafe { Sections::of(function.body.0.as_ptr()) });
        sum.iter_mut().zip(seen).for_each(|(sum, seen)| *sum += seen);
    }
    let [nodes, operands, odd_nodes, odd_leaves] = sum;
    let message = format!("{nodes} nodes, {operands} operands, unknown kinds: {odd_nodes} nodes, {odd_leaves} leaves");
    let (function, message) = (RawBytes::of(b""), RawBytes::of(message.as_bytes()));
    let record = DiagnosticRecord { severity: 3, index: u32::MAX, function, node: u64::MAX, message };
    (services().diagnose)(run, &record);
    // One more handle, because the caller gets its own.
    hdr.rc.fetch_add(1, Ordering::Relaxed);
    RunResult { status: 0, reserved: 0, handle: module }
}

extern "C" fn run_functions(
    _: *const Entry,
    _: u32,
    bodies: *const *const BodyHdr,
    out: *mut *const BodyHdr,
    n: usize,
    _: RawBytes,
    _: *const CtxRecord,
    errors: Sink,
) {
    for i in 0..n {
        // SAFETY: `n` bodies that live during the call, and room for as many results.
        unsafe {
            let body = *bodies.add(i);
            match rewritten(&Sections::of(body)) {
                None => {
                    (*body).rc.fetch_add(1, Ordering::Relaxed);
                    *out.add(i) = body;
                }
                Some(Ok(new)) => *out.add(i) = new,
                Some(Err(why)) => fail(errors, i, &why),
            }
        }
    }
}

/// Position, status, length, then the error: node (u64), length of the function's name (u32), message.
fn fail(errors: Sink, at: usize, why: &[u8]) {
    let error = [&u64::MAX.to_le_bytes()[..], &0u32.to_le_bytes(), why].concat();
    let head: Vec<u8> = [at as u32, 1, error.len() as u32].iter().flat_map(|word| word.to_le_bytes()).collect();
    (errors.write)(errors.data, RawBytes::of(&head));
    (errors.write)(errors.data, RawBytes::of(&error));
}

extern "C" fn keep(data: *mut c_void, bytes: RawBytes) {
    // SAFETY: `data` is the vector below, and the bytes live during the call.
    unsafe { (*data.cast::<Vec<u8>>()).extend_from_slice(std::slice::from_raw_parts(bytes.ptr, bytes.len)) }
}

/// Returns the body with another operator, or `None` if it does not call the operator. All sections except three are
/// unchanged.
fn rewritten(body: &Sections<'_>) -> Option<Result<*const BodyHdr, Vec<u8>>> {
    let is_relu = |leaf: &LeafRec| leaf.kind == leaf::OP && body.str(leaf.val) == b"relax.nn.relu";
    if !body.leaves.iter().any(is_relu) {
        return None;
    }
    let (mut leaves, mut strs, mut bytes) = (body.leaves.to_vec(), body.strs.to_vec(), body.str_bytes.to_vec());
    let name = b"relax.tanh";
    let id = strs.len() as u64;
    strs.push(StrRec { off: bytes.len() as u32, len: name.len() as u32 });
    bytes.extend_from_slice(name);
    leaves.iter_mut().filter(|leaf| is_relu(leaf)).for_each(|leaf| leaf.val = id);
    let mut view = *body.view;
    view.slots[2] = RawSlice::of(&leaves);
    view.slots[6] = RawSlice::of(&strs);
    view.slots[7] = RawSlice::of(&bytes);
    let mut why: Vec<u8> = Vec::new();
    let new = (services().seal)(&view, Sink { write: keep, data: (&raw mut why).cast() });
    Some(if new.is_null() { Err(why) } else { Ok(new) })
}
