//! The conformance runner: modules and pass runs that TVM recorded, held against what passhost makes of them.
//!
//! A case that cannot be tried counts as not equal, with its reason: nothing is skipped silently.

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

/// What became of one case.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Id of the case.
    pub id: String,
    /// What the case belongs to: the pass; empty for modules.
    pub group: String,
    /// Why it is not equal; `None` if it is.
    pub failure: Option<Failure>,
    /// Why the printed text is another one than the given; `None` if it is the same, or if there is no such text.
    pub text: Option<TextDifference>,
    /// Calls of operators that no plugin declares.
    pub opaque_calls: usize,
}

impl Outcome {
    /// A line of the file that is no case: it counts as one that is not equal.
    pub fn no_case(place: String, why: String) -> Outcome {
        let text = Some(TextDifference::not_printed());
        Outcome { id: place, group: String::new(), failure: Some(Failure::new("no case", why)), text, opaque_calls: 0 }
    }
}

/// Why a case is not equal.
#[derive(Clone, Debug)]
pub struct Failure {
    /// What failed: one of a few words.
    pub kind: &'static str,
    /// The message.
    pub why: String,
}

impl Failure {
    /// A failure of a kind.
    pub fn new(kind: &'static str, why: impl ToString) -> Failure {
        Failure { kind, why: why.to_string() }
    }
}

/// Bytes of stack of a worker: as many as the main thread of a program usually has.
pub const STACK: usize = 8 << 20;

/// Runs `f` over all cases, on as many threads as there are cores; the results are in the order of the cases.
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
            // Without a thread more, the others do its work.
            let _ = std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, work);
        }
    });
    let mut results = results.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    results.sort_by_key(|(i, _)| *i);
    results.into_iter().map(|(_, result)| result).collect()
}

/// What `f` gives, or a failure if it panics: a panic is a fault of passhost, and one case of many.
pub(crate) fn guarded<T>(f: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
        Err(Failure::new("panicked", text.unwrap_or("without a message")))
    })
}
