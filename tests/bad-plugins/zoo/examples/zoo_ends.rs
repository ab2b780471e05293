//! Plugin code that ends the process in every way and place.
#![allow(unsafe_code, reason = "most ways to end a process are functions of the system")]

use plugin_api::declare::instrument::{PassFacts, PassInstrument};
use plugin_api::ir::AttrsId;
use plugin_api::prelude::*;
use std::ffi::{c_char, c_int, c_void};
use std::time::Duration;

export_plugin! {
    passes: [ENDS, REACHES, FAILS, INSERTS, CHECKED, NOTHING],
    operators: [EXITS, CRASHES, ENDLESS],
    properties: [ENDING],
    instruments: [WATCHER],
}

unsafe extern "C" {
    fn exit(code: c_int) -> !;
    fn _exit(code: c_int) -> !;
    fn quick_exit(code: c_int) -> !;
    fn atexit(handler: extern "C" fn()) -> c_int;
    fn execv(path: *const c_char, arguments: *const *const c_char) -> c_int;
    fn fork() -> c_int;
    fn raise(signal: c_int) -> c_int;
    fn pthread_exit(value: *mut c_void) -> !;
    fn close(file: c_int) -> c_int;
    fn write(file: c_int, bytes: *const c_void, n: usize) -> isize;
    fn signal(number: c_int, handler: extern "C" fn(c_int)) -> *const c_void;
    fn longjmp(place: *mut c_void, value: c_int) -> !;
}

declare_pass! {
    /// Ends the process when it reaches the function `main`.
    pub function pass ENDS = "zoo.Ends" {
        opt_level: 0,
        options: Way {
            /// The way.
            how: String = "exit",
        },
        run: ends,
    }
}

fn ends(body: &Body, way: &Way, ctx: &Ctx) -> Result<Body, PassError> {
    if ctx.function_name().is_some_and(|name| name != "main") {
        // Long enough for other threads to participate.
        std::thread::sleep(Duration::from_millis(2));
        return Ok(body.clone());
    }
    end(&way.how);
    Ok(body.clone())
}

declare_pass! {
    /// Registers code that ends the process at exit, and fails.
    pub module pass FAILS = "zoo.LeavesAndFails" { opt_level: 0, run: fails }
}

fn fails(_: &Module, _: &Ctx) -> Result<Module, PassError> {
    end("later");
    bail!("this pass always fails")
}

extern "C" fn leave() {
    // SAFETY: ends the process.
    unsafe { _exit(0) }
}

extern "C" fn crash() {
    end("segv");
}

/// Exits when it is dropped.
struct Exits;

impl Drop for Exits {
    fn drop(&mut self) {
        end("exit");
    }
}

/// Panics when it is dropped.
struct Panics;

impl Drop for Panics {
    #[allow(clippy::panic, reason = "it panics on purpose")]
    fn drop(&mut self) {
        panic!("dropped");
    }
}

/// Loops forever.
fn endless() {
    loop {
        std::thread::sleep(Duration::from_millis(1));
    }
}

extern "C" fn endless_handler() {
    endless();
}

extern "C" fn ignore(_: c_int) {}

/// Loops forever when it is dropped.
struct Loops;

impl Drop for Loops {
    fn drop(&mut self) {
        endless();
    }
}

thread_local! {
    static LOOPS: Loops = const { Loops };
}

/// Writes to every file descriptor that this process may have open.
fn everywhere(bytes: &[u8]) {
    for file in 3..64 {
        // SAFETY: the bytes live; writing to a closed descriptor is only an error.
        unsafe { write(file, bytes.as_ptr().cast(), bytes.len()) };
    }
}

declare_pass! {
    /// Opens files that a pass should not open.
    pub module pass REACHES = "zoo.Reaches" {
        opt_level: 0,
        options: Target {
            /// `write PATH`, `read PATH` or `connect`.
            what: String = "connect",
        },
        run: reaches,
    }
}

fn reaches(module: &Module, target: &Target, _: &Ctx) -> Result<Module, PassError> {
    let done = match target.what.split_once(' ') {
        Some(("write", path)) => std::fs::write(path, "written"),
        Some((_, path)) => std::fs::read(path).map(drop),
        None => std::net::UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.connect("127.0.0.1:9")),
    };
    done.map_err(|error| pass_error!("it may not {}: {error}", target.what))?;
    Ok(module.clone())
}

/// Recurses until the stack overflows.
#[inline(never)]
fn deep(n: u64) -> u64 {
    let room = std::hint::black_box([n; 64]);
    if n == u64::MAX { 0 } else { deep(n + 1) + room[n as usize % 64] }
}

#[allow(clippy::panic, reason = "one of the ways to end")]
fn panics() {
    panic!("lost");
}

/// Ends the process, or causes it to end.
fn end(how: &str) {
    // SAFETY: all of these end the process or this thread, or must be refused.
    unsafe {
        match how {
            "exit" => exit(0),
            "_exit" => _exit(0),
            "quick_exit" => quick_exit(0),
            "exec" => {
                execv(c"/bin/true".as_ptr(), [c"true".as_ptr(), std::ptr::null()].as_ptr());
            }
            "fork" => {
                if fork() > 0 {
                    _exit(0);
                }
            }
            "drop" => drop(Exits),
            "later" => {
                atexit(leave);
            }
            "crash later" => {
                atexit(crash);
            }
            "thread" => {
                std::thread::spawn(|| exit(0));
                std::thread::sleep(Duration::from_secs(5));
            }
            "overflow in a thread" => {
                let _ = std::thread::spawn(|| deep(0)).join();
            }
            "sleep" => std::thread::sleep(Duration::from_secs(60)),
            "segv" => std::ptr::without_provenance_mut::<u8>(8).write_volatile(1),
            "overflow" => {
                std::hint::black_box(deep(0));
            }
            "unwind" => {
                let _both = Panics;
                panics();
            }
            "hook" => {
                std::panic::set_hook(Box::new(|_| exit(0)));
                panics();
            }
            "hook panics" => {
                std::panic::set_hook(Box::new(|_| panics()));
                panics();
            }
            "abort" => std::process::abort(),
            "memory" => {
                std::hint::black_box(vec![0u8; isize::MAX as usize]);
            }
            "pthread_exit" => pthread_exit(std::ptr::null_mut()),
            other => end_of_worker(other),
        }
    }
}

/// Ends that no process survives or can intercept; other values are signal numbers.
fn end_of_worker(how: &str) {
    // SAFETY: as above.
    unsafe {
        match how {
            "close pipes" => {
                (3..64).for_each(|file| {
                    close(file);
                });
                endless();
            }
            "nonsense" => everywhere(&[9; 64]),
            "forged reply" => {
                everywhere(&[&[2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0][..], b"\0\0\x7f"].concat())
            }
            "endless" => endless(),
            "endless later" => {
                atexit(endless_handler);
            }
            "endless destructor" => drop(Loops),
            "endless thread-local" => LOOPS.with(|_| ()),
            "signal handler" => {
                signal(11, ignore);
                std::ptr::without_provenance_mut::<u8>(8).write_volatile(1);
            }
            "longjmp" => longjmp([0u64; 64].as_mut_ptr().cast(), 1),
            "20 GB" => {
                let all: Vec<Vec<u8>> = (0..20).map(|at| vec![at + 1; 1 << 30]).collect();
                std::hint::black_box(all);
            }
            "lingering thread" => {
                std::thread::spawn(endless);
            }
            number => {
                raise(number.parse().unwrap_or(6));
            }
        }
    }
}

declare_pass! {
    /// Writes a call of an operator into each function.
    pub function pass INSERTS = "zoo.Inserts" {
        opt_level: 0,
        options: Operator {
            /// Its name.
            name: String = "zoo.exits",
        },
        run: inserts,
    }
}

fn inserts(body: &Body, operator: &Operator, _: &Ctx) -> Result<Body, PassError> {
    let Some((first, data)) = body.bindings().find_map(|it| Some((it, it.as_call()?.arg(0)?))) else {
        return Ok(body.clone());
    };
    let mut edit = body.edit();
    edit.before(first);
    let (op, ty, data) = (edit.builder().op(&operator.name), edit.builder().ty(&data.ty().to_owned()), edit.v(data));
    let new = edit.call(op, &[data], AttrsId::NONE, ty, false, Some("new"));
    edit.replace(first, new);
    Ok(edit.finish()?)
}

declare_pass! {
    /// Does nothing.
    pub function pass NOTHING = "zoo.Idle" { opt_level: 0, run: nothing }
}

fn nothing(body: &Body, _: &Ctx) -> Result<Body, PassError> {
    Ok(body.clone())
}

const EXITS: OpDecl = OpDecl {
    name: "zoo.exits",
    args: &[ArgDecl { name: "data", ..ArgDecl::EMPTY }],
    attrs: &[],
    pure: true,
    doc: "Its rule ends the process.",
    infer: |_| {
        end("_exit");
        Err(InferError::wrong("never"))
    },
    legalize: None,
};

const CRASHES: OpDecl = OpDecl {
    name: "zoo.crashes",
    doc: "Its rule crashes.",
    infer: |_| {
        end("segv");
        Err(InferError::wrong("never"))
    },
    ..EXITS
};

/// Infers two more calls at each depth, and ignores errors.
const ENDLESS: OpDecl = OpDecl {
    name: "zoo.endless",
    doc: "Its rule requests its own type.",
    infer: |call| {
        let ctx = Ctx::current();
        let _ = ctx.infer(call);
        let _ = ctx.infer(call);
        call.arg(0).map(|arg| arg.ty().to_owned()).ok_or_else(|| InferError::wrong("no argument"))
    },
    ..EXITS
};

declare_property! {
    /// Its checker ends the process.
    pub ENDING = "zoo.ending" { check: ending }
}

fn ending(_: &Body, _: &Ctx) -> Result<(), PassError> {
    end("exit");
    Ok(())
}

declare_pass! {
    /// Requires a property that cannot be checked.
    pub function pass CHECKED = "zoo.NeedsEnding" { opt_level: 0, requires: ["zoo.ending"], run: nothing }
}

declare_instrument! {
    /// Ends the process before a pass.
    pub WATCHER = "zoo.Watcher" {
        options: Watched {
            /// The event in which it ends the process: `run_before` or `drop`.
            event: String = "run_before",
        },
        new: Watcher::new,
    }
}

struct Watcher {
    options: Watched,
}

impl Watcher {
    fn new(options: &Watched, _: &Ctx) -> Result<Watcher, PassError> {
        Ok(Watcher { options: options.clone() })
    }
}

impl PassInstrument for Watcher {
    fn run_before(&mut self, _: &Module, _: &PassFacts<'_>) -> Result<(), PassError> {
        if self.options.event == "run_before" {
            end("exit");
        }
        Ok(())
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        if self.options.event == "drop" {
            end("_exit");
        }
    }
}
