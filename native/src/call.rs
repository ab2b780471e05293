//! Calls native code; defines its context and the callbacks.

use crate::emit::{FILLED, Field, MOST_VALUES, OF_CALLBACK};
use crate::threads::Threads;
use runtime::bind::{Bound, Given};
use runtime::program::{Program, Reg};
use runtime::{Fault, Limits, Room};
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::mem::offset_of;
use std::ptr::null_mut;
use std::sync::{Arc, Mutex, PoisonError};

/// The entry of a kernel; returns 0 on success.
pub(crate) type Entry = unsafe extern "C" fn(*mut Context) -> i32;
/// A function that executes some iterations of a parallel loop.
type Part = unsafe extern "C" fn(*mut Context, *mut c_void, i64, i64) -> i32;

/// The context passed to compiled code. The code accesses fields by position; each field has 8 bytes.
#[repr(C)]
pub(crate) struct Context {
    storages: *const *mut u8,
    sizes: *const i64,
    site: i64,
    n_values: i64,
    values: *mut i64,
    result: i64,
    scalars: *const i64,
    marks: *mut u8,
    unwritten: i64,
    functions: *const usize,
    work: unsafe extern "C" fn(*mut Context, i64) -> i32,
    allocate: unsafe extern "C" fn(*mut Context, i64, i64, i32) -> *mut u8,
    parallel: unsafe extern "C" fn(*mut Context, Part, *mut c_void, i64) -> i32,
    fresh: i64,
    own: *mut Own,
    host: *const Host<'static>,
}

/// Checks that the fields are at the positions used by the code.
const _: () = {
    assert!(offset_of!(Context, storages) == 8 * Field::Storages as usize);
    assert!(offset_of!(Context, sizes) == 8 * Field::Sizes as usize);
    assert!(offset_of!(Context, site) == 8 * Field::Site as usize);
    assert!(offset_of!(Context, n_values) == 8 * Field::NValues as usize);
    assert!(offset_of!(Context, values) == 8 * Field::Values as usize);
    assert!(offset_of!(Context, result) == 8 * Field::Result as usize);
    assert!(offset_of!(Context, scalars) == 8 * Field::Scalars as usize);
    assert!(offset_of!(Context, marks) == 8 * Field::Marks as usize);
    assert!(offset_of!(Context, unwritten) == 8 * Field::Unwritten as usize);
    assert!(offset_of!(Context, functions) == 8 * Field::Functions as usize);
    assert!(offset_of!(Context, work) == 8 * Field::Work as usize);
    assert!(offset_of!(Context, allocate) == 8 * Field::Allocate as usize);
    assert!(offset_of!(Context, parallel) == 8 * Field::Parallel as usize);
    assert!(offset_of!(Context, fresh) == 8 * Field::Fresh as usize);
    assert!(offset_of!(Context, own) == 8 * Field::Own as usize);
};

/// The state used by callbacks, shared by all threads of a call.
struct Host<'l> {
    program: &'l Program,
    limits: &'l Limits,
    threads: &'l Arc<Threads>,
    /// The fault of a callback.
    fault: Mutex<Option<Fault>>,
}

/// Memory that the code allocated, by storage. Each thread has its own map.
type Own = BTreeMap<i64, Room>;

/// The outcome of a call.
pub(crate) enum Ended {
    /// Success, with the result as 64 bits.
    Fine(i64),
    /// A fault of a callback.
    Fault(Fault),
    /// Failure at a site, with the values for its message.
    Site(i64, Vec<i64>),
}

/// Calls a kernel. Sets the marks of executed statements to 1.
pub(crate) fn call(
    entry: Entry,
    program: &Program,
    scalars: &[Reg],
    bound: Bound<'_>,
    (limits, threads): (&Limits, &Arc<Threads>),
    (functions, marks): (&[usize], &mut [u8]),
) -> Ended {
    let (mut storages, mut sizes) = (Vec::with_capacity(bound.memory.len()), Vec::with_capacity(bound.memory.len()));
    for memory in bound.memory {
        let (pointer, bytes) = match memory {
            Given::None => (null_mut(), 0),
            // The code writes only to writable arguments.
            Given::Read(words, bytes) => (words.as_ptr().cast_mut(), bytes),
            Given::Write(words, bytes) => (words.as_mut_ptr(), bytes),
        };
        storages.push(pointer.cast::<u8>());
        sizes.push(bytes as i64);
    }
    let values_of: Vec<i64> = scalars
        .iter()
        .map(|reg| match program.registers[reg.index()].is_float() {
            true => bound.floats.iter().find(|(of, _)| of == reg).map_or(0, |(_, value)| value.to_bits() as i64),
            false => bound.ints.iter().find(|(of, _)| of == reg).map_or(0, |(_, value)| *value),
        })
        .collect();
    let host = Host { program, limits, threads, fault: Mutex::new(None) };
    let (mut values, mut own) = ([0i64; MOST_VALUES], Own::new());
    let mut context = Context {
        storages: storages.as_ptr(),
        sizes: sizes.as_ptr(),
        site: 0,
        n_values: 0,
        values: values.as_mut_ptr(),
        result: 0,
        scalars: values_of.as_ptr(),
        marks: marks.as_mut_ptr(),
        unwritten: 0,
        functions: functions.as_ptr(),
        work,
        allocate,
        parallel,
        fresh: i64::from_ne_bytes([limits.fresh_byte(); 8]),
        own: &raw mut own,
        host: (&raw const host).cast(),
    };
    // SAFETY: the code was compiled for this program. It accesses the storages only within the sizes known at compile
    // time or stored in the context, and otherwise only fields of the context; all of these outlive the call.
    let code = unsafe { entry(&raw mut context) };
    if context.unwritten != 0 {
        limits.note_unwritten();
    }
    let fault = host.fault.into_inner().unwrap_or_else(PoisonError::into_inner);
    match (code, fault) {
        (0, _) => Ended::Fine(context.result),
        (_, Some(fault)) => Ended::Fault(fault),
        _ => Ended::Site(context.site, values[..(context.n_values as usize).min(MOST_VALUES)].to_vec()),
    }
}

impl Context {
    fn fail(&mut self, fault: Fault) {
        self.site = OF_CALLBACK;
        // SAFETY: the host outlives the call of the code, and therefore this callback.
        let host = unsafe { &*self.host };
        host.fault.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(fault);
    }
}

/// Counts work; returns 1 to end the run.
unsafe extern "C" fn work(context: *mut Context, units: i64) -> i32 {
    // SAFETY: the code passes the context that it received, which is not used elsewhere meanwhile.
    let (context, host) = unsafe { (&mut *context, &*(*context).host) };
    match host.limits.work(units.max(0) as u64) {
        Ok(()) => 0,
        Err(fault) => {
            context.fail(fault);
            1
        }
    }
}

/// Allocates memory for a storage, or returns its existing memory; returns null to end the run.
unsafe extern "C" fn allocate(context: *mut Context, storage: i64, bytes: i64, how: i32) -> *mut u8 {
    // SAFETY: as in `work`; memory allocated by the code belongs to its thread alone.
    let (context, host, own) = unsafe { (&mut *context, &*(*context).host, &mut *(*context).own) };
    let bytes = bytes.max(0) as u64;
    let byte = if how & 1 == 0 { context.fresh as u8 } else { context.fresh as u8 & 1 };
    let fill = (how & FILLED != 0).then_some(byte);
    if own.get(&storage).is_none_or(|room| room.bytes().len() as u64 / 8 != bytes.div_ceil(8)) {
        own.remove(&storage);
        match Room::any(bytes, host.limits) {
            Ok(new) => drop(own.insert(storage, new)),
            Err(fault) => {
                let name = &host.program.storages[storage as usize].name;
                context.fail(fault.at(format!("the allocation of `{name}`")));
                return null_mut();
            }
        }
    }
    let Some(room) = own.get_mut(&storage) else { return null_mut() };
    if let Some(byte) = fill {
        room.bytes_mut().fill(byte);
    }
    room.words_mut().as_mut_ptr().cast()
}

/// A pointer shared by threads: each thread uses a different part of the target, or all threads only read it.
struct Shared<T>(*mut T);

// SAFETY: the analysis of the loop proved its parts independent.
unsafe impl<T> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Shared<T> {}

impl<T> Shared<T> {
    fn get(&self) -> *mut T {
        self.0
    }
}

/// Calls a function for all iterations of a loop, on several threads; returns 1 to end the run.
unsafe extern "C" fn parallel(context: *mut Context, part: Part, frame: *mut c_void, extent: i64) -> i32 {
    // SAFETY: the host outlives the call of the code, and therefore this callback.
    let threads = unsafe { (*(*context).host).threads };
    let (shared, frame) = (Shared(context), Shared(frame));
    let failed = threads.share(usize::try_from(extent).unwrap_or(0), |next| {
        let (mut values, mut own) = ([0i64; MOST_VALUES], Own::new());
        // SAFETY: a copy of plain fields. The thread replaces the fields that it writes.
        let mut local = unsafe { std::ptr::read(shared.get()) };
        (local.values, local.own) = (values.as_mut_ptr(), &raw mut own);
        while let Some((first, end)) = next() {
            // SAFETY: the function was compiled together with the calling code; its iterations are independent of
            // each other.
            let code = unsafe { part(&raw mut local, frame.get(), first as i64, end as i64) };
            if code != 0 {
                return Some((local.site, local.n_values, values));
            }
        }
        None
    });
    let Some((site, n_values, values)) = failed else { return 0 };
    // SAFETY: the threads are done, so only the caller uses the context; there is room for all values.
    unsafe {
        ((*context).site, (*context).n_values) = (site, n_values);
        std::ptr::copy_nonoverlapping(values.as_ptr(), (*context).values, MOST_VALUES);
    }
    1
}
