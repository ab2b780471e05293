//! Runs passes over functions and verifies them on several threads. Results, diagnostics and errors are the same as on one thread, in
//! the same order.

use crate::verify::Affected;
use passhost_lang::ir::Body;
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The threads of a run. They are started when a pass has enough work.
pub(super) struct Workers {
    /// Number of threads; `None` for the number of cores, which is queried as late as possible, because the query takes
    /// longer than some passes.
    jobs: Option<usize>,
    pool: OnceLock<Option<ThreadPool>>,
}

/// Minimum amount of work for which other threads are woken, because waking them takes about as long.
const WORTH_IT: Duration = Duration::from_micros(200);

/// Maximum number of threads. A pool of thousands would spend its time waking and sleeping.
const MOST: usize = 256;

/// Bytes of stack of a thread. Passes may recurse as deeply as a body may be nested.
const STACK: usize = 16 << 20;

/// A function with its name.
pub(super) type Named<'a> = (&'a str, &'a Body);

/// A unit of work on one function.
pub(super) trait Work: Sync {
    /// The function.
    fn body(&self) -> &Body;
}

impl Work for Named<'_> {
    fn body(&self) -> &Body {
        self.1
    }
}

impl Work for Affected<'_> {
    fn body(&self) -> &Body {
        self.body
    }
}

impl Workers {
    /// Creates `jobs` threads; by default, one per core.
    pub(super) fn new(jobs: Option<usize>) -> Workers {
        Workers { jobs, pool: OnceLock::new() }
    }

    /// Returns the other threads, if there are any.
    fn pool(&self) -> Option<&ThreadPool> {
        let start = || {
            let cores = || std::thread::available_parallelism().map_or(1, usize::from);
            let jobs = self.jobs.unwrap_or_else(cores).min(MOST);
            let name = |at| format!("pass-{at}");
            // With a count of 0, rayon would choose the number of threads itself.
            let others = jobs.saturating_sub(1);
            let pool = ThreadPoolBuilder::new().num_threads(others).stack_size(STACK).thread_name(name);
            if others > 0 { pool.build().ok() } else { None }
        };
        self.pool.get_or_init(start).as_ref()
    }

    /// Splits the functions into consecutive stretches, calls `run` on each, and returns the results in order. The
    /// first few stretches run on this thread, to estimate the cost of the others.
    pub(super) fn run<W: Work, R: Send>(&self, functions: &[W], run: impl Fn(&[W]) -> R + Sync) -> Vec<R> {
        if self.jobs == Some(1) || functions.len() < 2 {
            return vec![run(functions)];
        }
        let weights: Vec<usize> = functions.iter().map(|work| work.body().raw().nodes().len() + 1).collect();
        let (mut done, mut out) = (0, Vec::new());
        let start = Instant::now();
        while done < functions.len() && start.elapsed() < WORTH_IT / 4 {
            // The size doubles each time, so a pass that does nothing needs only a few calls.
            let next = (2 * done).clamp(done + 1, functions.len());
            out.push(run(&functions[done..next]));
            done = next;
        }
        let weight = |range: Range<usize>| weights[range].iter().sum::<usize>();
        let (here, rest) = (weight(0..done), weight(done..functions.len()));
        let expected = start.elapsed().mul_f64(rest as f64 / here.max(1) as f64);
        let pool = if expected < WORTH_IT { None } else { self.pool() };
        let Some(pool) = pool.filter(|_| functions.len() - done > 1) else {
            if done < functions.len() {
                out.push(run(&functions[done..]));
            }
            return out;
        };
        // This thread takes part in the work, because it already has a core, while the threads of the pool wait for the system to give them
        // one.
        let stretches = stretches(&weights[done..], rest / ((pool.current_num_threads() + 1) * 8) + 1);
        let next = AtomicUsize::new(0);
        let work = || {
            let take = || stretches.get(next.fetch_add(1, Ordering::Relaxed)).cloned();
            let one = |range: Range<usize>| (range.start, run(&functions[done + range.start..done + range.end]));
            std::iter::from_fn(take).map(one).collect::<Vec<_>>()
        };
        let mut others: Vec<Vec<(usize, R)>> = Vec::new();
        others.resize_with(pool.current_num_threads(), Vec::new);
        let mut results = pool.in_place_scope(|scope| {
            for slot in &mut others {
                scope.spawn(|_| *slot = work());
            }
            work()
        });
        results.extend(others.into_iter().flatten());
        results.sort_unstable_by_key(|(start, _)| *start);
        out.extend(results.into_iter().map(|(_, result)| result));
        out
    }
}

/// Splits the range into stretches of consecutive functions, each of about the given weight.
fn stretches(weights: &[usize], each: usize) -> Vec<Range<usize>> {
    let (mut out, mut start, mut sum) = (Vec::new(), 0, 0);
    for (at, weight) in weights.iter().enumerate() {
        sum += weight;
        if sum >= each || at + 1 == weights.len() {
            out.push(start..at + 1);
            (start, sum) = (at + 1, 0);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use passhost_lang::ir::Module;
    use std::collections::BTreeSet;
    use std::sync::Mutex;
    use std::thread::{ThreadId, current, sleep};

    fn module(n: usize) -> Module {
        let text = |at| {
            format!("    @R.function\n    def f{at:04}(x: R.Tensor((2,), dtype=\"float32\")):\n        return x\n")
        };
        let functions: String = (0..n).map(text).collect();
        script::read(
            &format!("@I.ir_module\nclass Module:\n{functions}"),
            &crate::Engine::new(&none()).expect("no plugins"),
        )
        .expect("a module")
    }

    fn none() -> crate::Manifest {
        crate::Manifest::parse(std::path::Path::new("passes.toml"), "").expect("an empty manifest")
    }

    /// Returns the names in the order of the results, and the threads that did work.
    fn names(jobs: usize, n: usize, work: Duration) -> (Vec<String>, BTreeSet<String>) {
        let module = module(n);
        let functions: Vec<Named<'_>> = module.functions().collect();
        let threads: Mutex<Vec<ThreadId>> = Mutex::default();
        let run = |functions: &[Named<'_>]| {
            threads.lock().expect("no panic").push(current().id());
            functions.iter().map(|(name, _)| (sleep(work), (*name).to_string()).1).collect::<Vec<_>>()
        };
        let names = Workers::new(Some(jobs)).run(&functions, run).concat();
        let threads = threads.into_inner().expect("no panic");
        (names, threads.iter().map(|id| format!("{id:?}")).collect())
    }

    #[test]
    fn every_function_once_and_in_order() {
        for (jobs, n, work) in [(1, 7, 0), (4, 1, 300), (4, 100, 0), (2, 40, 300), (64, 9, 300)] {
            let expected: Vec<String> = (0..n).map(|at| format!("f{at:04}")).collect();
            assert_eq!(names(jobs, n, Duration::from_micros(work)).0, expected, "{jobs} {n} {work}");
        }
        assert_eq!(Workers::new(Some(4)).run(&[], |none: &[Named<'_>]| none.len()), [0]);
    }

    #[test]
    fn costly_work_is_shared_and_one_job_is_one_thread() {
        let work = Duration::from_millis(2);
        assert!(names(4, 40, work).1.len() > 1);
        assert_eq!(names(1, 40, work).1.len(), 1);
    }

    #[test]
    fn stretches_are_neighbours_of_like_weight() {
        assert_eq!(stretches(&[1, 1, 1, 5, 1, 1], 3), [0..3, 3..4, 4..6]);
        assert_eq!(stretches(&[9], 3).first(), Some(&(0..1)));
        assert!(stretches(&[], 3).is_empty());
    }
}
