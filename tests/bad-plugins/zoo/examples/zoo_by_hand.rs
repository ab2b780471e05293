//! Implements by hand, and incorrectly, the work of the plugin API: the entry table is a copy with its own functions,
//! and sections are sent to the host unchecked.
#![allow(unsafe_code, reason = "it represents a plugin that violates the protocol")]

use plugin_api::abi::entry::Entry;
use plugin_api::abi::export::{encode, encoded_len};
use plugin_api::declare::contributions::Contributions;
use plugin_api::declare::declarations::PluginDecl;
use plugin_api::ir::Sections;
use plugin_api::prelude::*;
use std::ffi::c_void;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

const PLUGIN: PluginDecl = PluginDecl {
    name: env!("CARGO_PKG_NAME"),
    version: env!("CARGO_PKG_VERSION"),
    passes: &[
        &GIVES_NOTHING,
        &ENDS_ODDLY,
        &LIES_IN_FAILURE,
        &MODULE_ENDS_ODDLY,
        &FORGES_FUNCTION,
        &FORGES_MODULE,
        &EQUAL_COPY,
        &DANGLES,
        &LIES,
        &TWO_OF_ONE_NAME,
        &UNCOUNTED,
        &WRITES_CONTEXT,
        &UNCOUNTED_MODULE,
        &FORGES_INSIDE,
        &FLIPS,
    ],
    operators: &[],
    more: Contributions::NONE,
};

#[used]
#[cfg_attr(not(target_vendor = "apple"), unsafe(link_section = ".passhost"))]
#[cfg_attr(target_vendor = "apple", unsafe(link_section = "__DATA,__passhost"))]
static METADATA: [u8; encoded_len(&PLUGIN)] = encode(&PLUGIN);
static ENTRY: Entry = Entry::new(&PLUGIN, &METADATA);

/// Bytes that are lent for a call.
#[repr(C)]
#[derive(Clone, Copy)]
struct Bytes {
    ptr: *const u8,
    len: usize,
}

/// The host's destination for bytes.
#[repr(C)]
#[derive(Clone, Copy)]
struct Sink {
    write: extern "C" fn(*mut c_void, Bytes),
    data: *mut c_void,
}

impl Sink {
    fn put(self, bytes: &[u8]) {
        (self.write)(self.data, Bytes { ptr: bytes.as_ptr(), len: bytes.len() });
    }
}

/// The first fields of the host's table.
#[repr(C)]
struct Services {
    size: u32,
    reserved: u32,
    max_level: *const c_void,
    seal: extern "C" fn(*const c_void, Sink) -> *const c_void,
    /// Takes names, functions, their number, and attributes or null.
    module: extern "C" fn(*const Bytes, *const *const c_void, usize, *const c_void) -> *const c_void,
}

type Init = extern "C" fn(*const Services, Sink) -> u32;
type RunModule = extern "C" fn(*const Head, u32, *const c_void, Bytes, *const c_void, Sink) -> RunResult;
type RunFunctions =
    extern "C" fn(*const Head, u32, *const *const c_void, *mut *const c_void, usize, Bytes, *const c_void, Sink);

#[repr(C)]
struct RunResult {
    status: u32,
    reserved: u32,
    handle: *const c_void,
}

/// The first fields of the entry table.
#[repr(C)]
struct Head {
    magic: u64,
    size: u32,
    reserved: u32,
    n_passes: u32,
    n_operators: u32,
    fingerprint: u64,
    api: Bytes,
    metadata: Bytes,
    init: Init,
    layout: *const c_void,
    run_module: RunModule,
    run_functions: RunFunctions,
}

/// Returns the table that the plugin API creates.
fn proper() -> &'static Head {
    // SAFETY: the table starts with these fields, and lives as long as the library.
    unsafe { &*(&raw const ENTRY).cast::<Head>() }
}

/// Returns a copy of the whole table, with three functions replaced.
#[unsafe(no_mangle)]
extern "C" fn passhost_plugin_entry_v1() -> *const c_void {
    static COPY: OnceLock<usize> = OnceLock::new();
    let make = || {
        let words = size_of::<Entry>().div_ceil(8);
        let copy: &'static mut [u64] = Box::leak(vec![0; words].into_boxed_slice());
        let copy = copy.as_mut_ptr();
        // SAFETY: there is room for the table, which is plain data, and which starts with these fields.
        unsafe {
            std::ptr::copy_nonoverlapping((&raw const ENTRY).cast::<u8>(), copy.cast::<u8>(), size_of::<Entry>());
            (*copy.cast::<Head>()).init = init;
            (*copy.cast::<Head>()).run_module = run_module;
            (*copy.cast::<Head>()).run_functions = run_functions;
            if let Some(at) = null_field() {
                *copy.add(at) = 0;
            }
        }
        copy.expose_provenance()
    };
    std::ptr::with_exposed_provenance(*COPY.get_or_init(make))
}

/// Returns the index of the word in the table that `ZOO_NULL` sets to null.
fn null_field() -> Option<usize> {
    let first = std::mem::offset_of!(Head, metadata) / 8;
    Some(match std::env::var("ZOO_NULL").ok()?.as_str() {
        "metadata" => first,
        "init" => first + 2,
        "layout" => first + 3,
        "run_module" => first + 4,
        "infer" => first + 6,
        // Located after the table of declarations.
        "make_instrument" => first + 8,
        _ => return None,
    })
}

static SERVICES: AtomicPtr<Services> = AtomicPtr::new(std::ptr::null_mut());

/// Ends as `ZOO_INIT` specifies; by default, it succeeds.
#[allow(clippy::panic, reason = "one of the ways to end")]
extern "C" fn init(services: *const Services, error: Sink) -> u32 {
    SERVICES.store(services.cast_mut(), Ordering::Release);
    match std::env::var("ZOO_INIT").as_deref() {
        Ok("error") => {
            error.put(b"the licence server does not answer");
            1
        }
        Ok("panic") => {
            std::panic::set_hook(Box::new(|_| {}));
            let panic = std::panic::catch_unwind(|| panic!("no licence at all"));
            let text = panic.err().and_then(|payload| payload.downcast_ref::<&str>().map(ToString::to_string));
            error.put(text.unwrap_or_default().as_bytes());
            2
        }
        Ok("status") => 77,
        _ => (proper().init)(services, error),
    }
}

extern "C" fn run_module(
    entry: *const Head,
    pass: u32,
    module: *const c_void,
    options: Bytes,
    ctx: *const c_void,
    error: Sink,
) -> RunResult {
    match pass {
        3 => RunResult { status: 77, reserved: 0, handle: module },
        9 => RunResult { status: 0, reserved: 0, handle: two_functions(module) },
        12 => RunResult { status: 0, reserved: 0, handle: module },
        _ => (proper().run_module)(entry, pass, module, options, ctx, error),
    }
}

/// Returns a module of the host that contains the first function twice under one name.
fn two_functions(module: *const c_void) -> *const c_void {
    // SAFETY: a module is a pointer; this one is lent for the call and is not dropped.
    let module = std::mem::ManuallyDrop::new(unsafe { std::mem::transmute::<*const c_void, Module>(module) });
    let Some((_, body)) = module.functions().next() else { return std::ptr::null() };
    // SAFETY: a body is a pointer, which the module keeps alive; the table is the host's, from `init`.
    let (body, services) =
        unsafe { (std::mem::transmute_copy::<Body, *const c_void>(body), &*SERVICES.load(Ordering::Acquire)) };
    let name = Bytes { ptr: b"twin".as_ptr(), len: 4 };
    (services.module)([name, name].as_ptr(), [body, body].as_ptr(), 2, std::ptr::null())
}

extern "C" fn run_functions(
    entry: *const Head,
    pass: u32,
    bodies: *const *const c_void,
    out: *mut *const c_void,
    n: usize,
    options: Bytes,
    ctx: *const c_void,
    errors: Sink,
) {
    match pass {
        0 => {}
        // Position, status, length, text.
        1 => errors.put(&[&0u32.to_le_bytes()[..], &77u32.to_le_bytes(), &2u32.to_le_bytes(), b"oh"].concat()),
        2 => errors.put(&[&0u32.to_le_bytes()[..], &1u32.to_le_bytes(), &u32::MAX.to_le_bytes(), b"oh"].concat()),
        // SAFETY: the host gives `n` handles and room for `n` results.
        10 => unsafe { std::ptr::copy_nonoverlapping(bodies, out, n) },
        11 => {
            // SAFETY: a context has sizes, a number and an address, 8 bytes each. It is lent read-only, which this pass
            // deliberately ignores.
            unsafe { *ctx.cast_mut().cast::<usize>().add(2) = 0x1000 };
            (proper().run_functions)(entry, pass, bodies, out, n, options, ctx, errors);
        }
        _ => (proper().run_functions)(entry, pass, bodies, out, n, options, ctx, errors),
    }
}

declare_pass! {
    /// Reports no result and no failure.
    function pass GIVES_NOTHING = "zoo.GivesNothing" { opt_level: 0, run: same }
}

declare_pass! {
    /// Fails with a status that does not exist.
    function pass ENDS_ODDLY = "zoo.EndsOddly" { opt_level: 0, run: same }
}

declare_pass! {
    /// Fails with a text whose stated length exceeds its memory.
    function pass LIES_IN_FAILURE = "zoo.LiesInItsFailure" { opt_level: 0, run: same }
}

fn same(body: &Body, _: &Ctx) -> Result<Body, PassError> {
    Ok(body.clone())
}

declare_pass! {
    /// Reports neither success nor failure.
    module pass MODULE_ENDS_ODDLY = "zoo.ModuleEndsOddly" { opt_level: 0, run: same_module }
}

fn same_module(module: &Module, _: &Ctx) -> Result<Module, PassError> {
    Ok(module.clone())
}

declare_pass! {
    /// Returns a function that the host did not make.
    function pass FORGES_FUNCTION = "zoo.ForgesFunction" {
        opt_level: 0,
        options: Forgery {
            /// An `address` without memory, its `own` memory, or memory that was `dropped`.
            how: String = "address",
        },
        run: forges_function,
    }
}

fn forges_function(body: &Body, options: &Forgery, _: &Ctx) -> Result<Body, PassError> {
    let forged = match options.how.as_str() {
        "address" => std::ptr::without_provenance(0x1000),
        "own" => Box::leak(Box::new([0u128; 64])).as_ptr().cast(),
        "dropped" => {
            let copy = seal(&Sections::copy_of(body.raw()), |_| {})?;
            std::ptr::without_provenance(copy.addr())
        }
        other => bail!("no forgery `{other}`"),
    };
    // SAFETY: unsound on purpose; a body is a pointer, and this one is not to a body. Only the host looks at it.
    Ok(unsafe { std::mem::transmute::<*const c_void, Body>(forged) })
}

declare_pass! {
    /// Returns a module that the host did not make.
    module pass FORGES_MODULE = "zoo.ForgesModule" { opt_level: 0, run: forges_module }
}

fn forges_module(_: &Module, _: &Ctx) -> Result<Module, PassError> {
    // SAFETY: unsound on purpose; a module is a pointer, and this one is not to a module. Only the host looks at it.
    Ok(unsafe { std::mem::transmute::<*const c_void, Module>(std::ptr::without_provenance(0x1000)) })
}

declare_pass! {
    /// Returns a different body, although nothing changed.
    function pass EQUAL_COPY = "zoo.EqualCopy" { opt_level: 0, run: equal_copy }
}

fn equal_copy(body: &Body, _: &Ctx) -> Result<Body, PassError> {
    let copy = seal(&Sections::copy_of(body.raw()), |_| {})?;
    if copy.same(body) { bail!("the host gave the same body back") } else { Ok(copy) }
}

/// Pointer and length of a section.
#[repr(C)]
#[derive(Clone, Copy)]
struct Slice {
    ptr: *const u8,
    len: usize,
}

/// Seals a body from sections, after changing their pointers and lengths.
fn seal(sections: &Sections, change: impl FnOnce(&mut [Slice])) -> Result<Body, PassError> {
    extern "C" fn keep(data: *mut c_void, bytes: Bytes) {
        // SAFETY: `data` is the text below, and the bytes are valid during the call.
        unsafe { (*data.cast::<Vec<u8>>()).extend_from_slice(std::slice::from_raw_parts(bytes.ptr, bytes.len)) }
    }
    let view = sections.raw();
    let mut slices = vec![Slice { ptr: std::ptr::null(), len: 0 }; size_of_val(&view) / size_of::<Slice>()];
    // SAFETY: a view is an array of such slices.
    unsafe { std::ptr::copy_nonoverlapping((&raw const view).cast(), slices.as_mut_ptr(), slices.len()) };
    change(&mut slices);
    let mut why: Vec<u8> = Vec::new();
    // SAFETY: the host's table, from `init`.
    let services = unsafe { &*SERVICES.load(Ordering::Acquire) };
    let body = (services.seal)(slices.as_ptr().cast(), Sink { write: keep, data: (&raw mut why).cast() });
    if body.is_null() {
        bail!("the host says: {}", String::from_utf8_lossy(&why));
    }
    // SAFETY: a body is a pointer, and the host transfers ownership of this one.
    Ok(unsafe { std::mem::transmute::<*const c_void, Body>(body) })
}

declare_pass! {
    /// Passes invalid ids to the host.
    function pass DANGLES = "zoo.Dangles" {
        opt_level: 0,
        options: Dangling {
            /// The id.
            id: String = "operand",
        },
        run: dangles,
    }
}

fn dangles(body: &Body, options: &Dangling, _: &Ctx) -> Result<Body, PassError> {
    let mut sections = Sections::copy_of(body.raw());
    let Some(last) = sections.nodes.len().checked_sub(1) else { bail!("no nodes") };
    match options.id.as_str() {
        "operand" => sections.operands[0] = 1_000_000,
        "type" => sections.nodes[last].ty = 1_000_000,
        "operands" => sections.nodes[last].n_ops = u32::MAX,
        "attributes" => sections.nodes[last].attrs = 1_000_000,
        "region" => sections.nodes[0].a = 1_000_000,
        "string" => sections.strs[0].off = 1_000_000,
        "name" => sections.names[1] = 1_000_000,
        other => bail!("no id `{other}`"),
    }
    seal(&sections, |_| {})
}

declare_pass! {
    /// Passes wrong addresses and lengths of sections to the host.
    function pass LIES = "zoo.Lies" {
        opt_level: 0,
        options: Lie {
            /// The subject.
            about: String = "length",
        },
        run: lies,
    }
}

fn lies(body: &Body, options: &Lie, _: &Ctx) -> Result<Body, PassError> {
    let sections = Sections::copy_of(body.raw());
    let fakes = [std::ptr::without_provenance::<u8>(0x1000)];
    seal(&sections, |slices| match options.about.as_str() {
        "endless" => slices[0].len = usize::MAX,
        "longest" => slices[1].len = 1 << 40,
        "nowhere" => slices[1].ptr = std::ptr::null(),
        "odd" => slices[1].ptr = slices[1].ptr.wrapping_add(1),
        "fewer nodes" => slices[0].len -= 1,
        "fewer operands" => slices[1].len -= 1,
        "no names" => slices[12].len = 1,
        // This slot follows the slots of the sections.
        "constants" => slices[24] = Slice { ptr: (&raw const fakes).cast(), len: 1 },
        _ => {}
    })
}

declare_pass! {
    /// Returns two functions of one name to the host.
    module pass TWO_OF_ONE_NAME = "zoo.TwoOfOneName" { opt_level: 0, run: same_module }
}

declare_pass! {
    /// Returns each borrowed function without adding an owner.
    function pass UNCOUNTED = "zoo.Uncounted" { opt_level: 0, run: same }
}

declare_pass! {
    /// Writes to the borrowed context, and then uses it.
    function pass WRITES_CONTEXT = "zoo.WritesContext" { opt_level: 0, run: asks_context }
}

fn asks_context(body: &Body, ctx: &Ctx) -> Result<Body, PassError> {
    let name = ctx.pass_name();
    if name == "zoo.WritesContext" { Ok(body.clone()) } else { bail!("the pass is called `{name}`") }
}

declare_pass! {
    /// Returns the borrowed module without adding an owner.
    module pass UNCOUNTED_MODULE = "zoo.UncountedModule" { opt_level: 0, run: same_module }
}

declare_pass! {
    /// Puts functions into a module that the host did not make.
    module pass FORGES_INSIDE = "zoo.ForgesInside" { opt_level: 0, run: forges_inside }
}

fn forges_inside(module: &Module, _: &Ctx) -> Result<Module, PassError> {
    module.map_functions(|_, _| {
        let forged: *const c_void = Box::leak(Box::new([0u128; 64])).as_ptr().cast();
        // SAFETY: unsound on purpose; a body is a pointer, and this one is not to a body. Its count never reaches 0.
        Ok(unsafe { std::mem::transmute::<*const c_void, Body>(forged) })
    })
}

declare_pass! {
    /// Changes its table of sections while the host looks at it.
    function pass FLIPS = "zoo.Flips" { opt_level: 0, run: flips }
}

fn flips(body: &Body, _: &Ctx) -> Result<Body, PassError> {
    use std::sync::atomic::{AtomicBool, AtomicUsize};
    use std::time::{Duration, Instant};
    let sections = Sections::copy_of(body.raw());
    let view = sections.raw();
    let words = size_of_val(&view) / size_of::<usize>();
    let table: Vec<AtomicUsize> = (0..words).map(|_| AtomicUsize::new(0)).collect();
    // SAFETY: a view is an array of addresses and lengths, and the copy has as many words.
    unsafe {
        std::ptr::copy_nonoverlapping((&raw const view).cast::<u8>(), table.as_ptr().cast_mut().cast(), words * 8)
    };
    // The second section gets an address that is not readable.
    let (good, bad, done) = (table[2].load(Ordering::Relaxed), 0x1000, AtomicBool::new(false));
    let mut ends = [0_usize, 0];
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                // An odd address is refused; an aligned address would be read.
                [bad + 1, good].iter().for_each(|address| table[2].store(*address, Ordering::Relaxed));
            }
        });
        // On a busy machine, the other thread may sleep for long while one address is in the table.
        let (start, patience) = (Instant::now(), Duration::from_secs(20));
        while ends.iter().sum::<usize>() < 20_000 || ends[0] == 0 && start.elapsed() < patience {
            extern "C" fn drop_it(_: *mut c_void, _: Bytes) {}
            // SAFETY: the host's table, from `init`.
            let services = unsafe { &*SERVICES.load(Ordering::Acquire) };
            let sink = Sink { write: drop_it, data: std::ptr::null_mut() };
            let sealed = (services.seal)(table.as_ptr().cast(), sink);
            ends[usize::from(sealed.is_null())] += 1;
            if !sealed.is_null() {
                // SAFETY: a body is a pointer, and the host transfers ownership of this one.
                drop(unsafe { std::mem::transmute::<*const c_void, Body>(sealed) });
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    if ends[0] == 0 { bail!("nothing was sealed") } else { Ok(body.clone()) }
}
