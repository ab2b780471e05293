//! The conformance runner, which compares passhost's results with modules and pass runs recorded from TVM.
//!
//! A case that cannot be tried counts as not equal, with the reason, so that no case is skipped silently.

pub mod between;
mod cause;
pub mod isolated;
mod metadata;
pub mod modules;
pub mod passes;
pub mod report;
pub mod validated;

pub use cause::TextDifference;

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The outcome of one case.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The id of the case.
    pub id: String,
    /// The pass of the case; empty for modules.
    pub group: String,
    /// The reason why the case is not equal; `None` if it is equal.
    pub failure: Option<Failure>,
    /// The difference between the printed and the given text; `None` if they are equal, or if there is no such text.
    pub text: Option<TextDifference>,
    /// Number of calls of operators that no plugin declares.
    pub opaque_calls: usize,
}

impl Outcome {
    /// Creates the outcome of a line that is not a case, which counts as not equal.
    pub fn no_case(place: String, why: String) -> Outcome {
        let text = Some(TextDifference::not_printed());
        Outcome { id: place, group: String::new(), failure: Some(Failure::new("no case", why)), text, opaque_calls: 0 }
    }
}

/// The reason why a case is not equal.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The kind of failure, as a keyword.
    pub kind: &'static str,
    /// The message.
    pub why: String,
}

impl Failure {
    /// Creates a failure of a kind.
    pub fn new(kind: &'static str, why: impl ToString) -> Failure {
        Failure { kind, why: why.to_string() }
    }
}

/// Stack size of a worker in bytes: the usual size for a program's main thread.
pub const STACK: usize = 8 << 20;

/// Runs `f` on all cases, on as many threads as there are cores; the results are in the order of the cases.
pub fn in_parallel<C: Sync, R: Send>(cases: &[C], f: impl Fn(&C) -> R + Sync, done: impl Fn() + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::with_capacity(cases.len()));
    let work = || {
        loop {
            let i = next.fetch_add(1, Ordering::Relaxed);
            let Some(case) = cases.get(i) else { return };
            let result = f(case);
            results.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push((i, result));
            done();
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            // If a thread cannot be started, the others do its work.
            let _ = std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, work);
        }
    });
    let mut results = results.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    results.sort_by_key(|(i, _)| *i);
    results.into_iter().map(|(_, result)| result).collect()
}

/// Returns the result of `f`, or a failure if `f` panics. A panic is a bug in passhost that affects only one case.
pub(crate) fn guarded<T>(f: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
        Err(Failure::new("panicked", text.unwrap_or("without a message")))
    })
}
