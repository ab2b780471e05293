//! Kernels that cache their results. If a pass rewrote a part of a module, only that part and its dependents are executed again.

use passhost_lang::ir::Body;
use passhost_lang::ir::constant::Number;
use runtime::{Arg, Backend, Fault, Kernel, Limits, Tensor};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A backend whose kernels return the result of an earlier call with the same arguments.
pub(super) struct Remembering<B> {
    backend: B,
    results: Arc<Mutex<Results>>,
}

impl<B: Backend> Remembering<B> {
    /// Wraps a backend, with a cache of at most this many bytes.
    pub(super) fn new(backend: B, most: u64) -> Remembering<B> {
        let results = Results { most, ..Results::default() };
        Remembering { backend, results: Arc::new(Mutex::new(results)) }
    }
}

impl<B: Backend> Backend for Remembering<B> {
    fn prepare(&self, func: &Body) -> Result<Arc<dyn Kernel>, Fault> {
        let kernel = self.backend.prepare(func)?;
        let mut results = lock(&self.results);
        results.kernels += 1;
        let number = results.kernels;
        Ok(Arc::new(RememberingKernel { kernel, number, results: Arc::clone(&self.results) }))
    }
}

fn lock(results: &Mutex<Results>) -> MutexGuard<'_, Results> {
    results.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The cached results of all kernels. Half of the bytes are for new results. When these are full, older results that have not been used
/// since are dropped.
#[derive(Default)]
struct Results {
    most: u64,
    kernels: usize,
    new: HashMap<Key, Arc<Known>>,
    old: HashMap<Key, Arc<Known>>,
    bytes: u64,
}

impl Results {
    fn get(&mut self, key: &Key) -> Option<Arc<Known>> {
        if let Some(known) = self.new.get(key) {
            return Some(Arc::clone(known));
        }
        let known = self.old.remove(key)?;
        self.insert(key.clone(), Arc::clone(&known));
        Some(known)
    }

    fn insert(&mut self, key: Key, known: Arc<Known>) {
        let bytes = known.bytes();
        if bytes > self.most / 2 {
            return;
        }
        if self.bytes + bytes > self.most / 2 {
            self.old = std::mem::take(&mut self.new);
            self.bytes = 0;
        }
        self.bytes += bytes;
        self.new.insert(key, known);
    }
}

/// The key of a call: everything that its results depend on.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    kernel: usize,
    /// The byte in memory that the kernel has not written.
    fresh: u8,
    args: Vec<KeyArg>,
}

#[derive(Clone, PartialEq, Eq, Hash)]
enum KeyArg {
    In(u128),
    Out(u128),
    Int(i64),
    Float(u64),
}

impl KeyArg {
    fn of(arg: &Arg<'_>) -> KeyArg {
        match arg {
            Arg::In(tensor) => KeyArg::In(tensor.digest()),
            Arg::Out(tensor) => KeyArg::Out(tensor.digest()),
            Arg::Int(value) => KeyArg::Int(*value),
            Arg::Float(value) => KeyArg::Float(value.to_bits()),
        }
    }
}

/// The effects of a call.
struct Known {
    result: Option<Number>,
    /// Contents of the tensors that the call may have written to, in order.
    outputs: Vec<Tensor>,
    /// True if unwritten memory may have affected the call.
    is_doubtful: bool,
}

impl Known {
    /// Returns the approximate number of bytes used.
    fn bytes(&self) -> u64 {
        self.outputs.iter().map(|tensor| tensor.nbytes() as u64).sum::<u64>() + SMALLEST
    }
}

/// Approximate size of an entry without outputs, in bytes.
const SMALLEST: u64 = 512;

/// Number of bytes compared to recognize an argument; each is a unit of work.
fn bytes_of(arg: &Arg<'_>) -> u64 {
    match arg {
        Arg::In(tensor) => tensor.nbytes() as u64,
        Arg::Out(tensor) => tensor.nbytes() as u64,
        Arg::Int(_) | Arg::Float(_) => 0,
    }
}

struct RememberingKernel {
    kernel: Arc<dyn Kernel>,
    number: usize,
    results: Arc<Mutex<Results>>,
}

impl Kernel for RememberingKernel {
    fn run(&self, args: &mut [Arg<'_>], limits: &Limits) -> Result<Option<Number>, Fault> {
        limits.work(args.iter().map(bytes_of).sum())?;
        let key = Key { kernel: self.number, fresh: limits.fresh_byte(), args: args.iter().map(KeyArg::of).collect() };
        let known = lock(&self.results).get(&key);
        if let Some(known) = known {
            let outputs =
                args.iter_mut().filter_map(|arg| if let Arg::Out(tensor) = arg { Some(tensor) } else { None });
            for (output, known) in outputs.zip(&known.outputs) {
                output.bytes_mut().copy_from_slice(known.bytes());
            }
            if known.is_doubtful {
                limits.note_unwritten();
            }
            return Ok(known.result);
        }
        let was_doubtful = limits.take_unwritten();
        let result = self.kernel.run(args, limits)?;
        let is_doubtful = limits.take_unwritten();
        if was_doubtful || is_doubtful {
            limits.note_unwritten();
        }
        // Copied, so that cached results do not count against the limits of this run.
        let copy = |arg: &Arg<'_>| match arg {
            Arg::Out(tensor) => Some(Tensor::new(tensor.dtype(), tensor.shape(), tensor.bytes())),
            _ => None,
        };
        if let Ok(outputs) = args.iter().filter_map(copy).collect::<Result<Vec<Tensor>, Fault>>() {
            lock(&self.results).insert(key, Arc::new(Known { result, outputs, is_doubtful }));
        }
        Ok(result)
    }

    fn never_executed(&self) -> Option<&str> {
        self.kernel.never_executed()
    }

    fn executed(&self) -> Vec<bool> {
        self.kernel.executed()
    }

    fn trips(&self) -> Vec<[bool; 3]> {
        self.kernel.trips()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// A kernel that sums all inputs, and counts its calls.
    struct Sum(Arc<AtomicUsize>);

    impl Kernel for Sum {
        fn run(&self, args: &mut [Arg<'_>], _: &Limits) -> Result<Option<Number>, Fault> {
            self.0.fetch_add(1, Ordering::Relaxed);
            let [Arg::In(x), Arg::Out(y), Arg::Int(n)] = args else { panic!("these arguments") };
            let sum: i64 = x.values::<i64>()?.iter().sum::<i64>() + *n;
            y.bytes_mut().copy_from_slice(&sum.to_le_bytes());
            Ok(Some(Number::Int(sum)))
        }
    }

    fn kernel(calls: &Arc<AtomicUsize>, most: u64) -> RememberingKernel {
        let results = Results { most, ..Results::default() };
        let kernel = Arc::new(Sum(Arc::clone(calls)));
        RememberingKernel { kernel, number: 1, results: Arc::new(Mutex::new(results)) }
    }

    fn called(kernel: &RememberingKernel, values: Vec<i64>, before: i64, n: i64) -> (i64, Option<Number>) {
        let x = Tensor::from_vec(&[values.len() as i64], values).expect("a tensor");
        let mut y = Tensor::from_vec(&[1], vec![before]).expect("a tensor");
        let limits = Limits::unlimited();
        let mut args = [Arg::In(&x), Arg::Out(&mut y), Arg::Int(n)];
        let result = kernel.run(&mut args, &limits).expect("a result");
        (y.values::<i64>().expect("integers")[0], result)
    }

    #[test]
    fn the_same_call_is_executed_once() {
        let calls = Arc::default();
        let kernel = kernel(&calls, 1 << 20);
        for _ in 0..3 {
            assert_eq!(called(&kernel, vec![1, 2], 0, 5), (8, Some(Number::Int(8))));
        }
        assert_eq!(calls.load(Ordering::Relaxed), 1);
        assert_eq!(called(&kernel, vec![1, 3], 0, 5).0, 9, "another element");
        assert_eq!(called(&kernel, vec![1, 2], 0, 6).0, 9, "another number");
        assert_eq!(called(&kernel, vec![1, 2], 7, 5).0, 8, "the output has another content");
        assert_eq!(calls.load(Ordering::Relaxed), 4);
    }

    #[test]
    fn what_was_not_asked_for_is_forgotten() {
        let calls = Arc::default();
        let kernel = kernel(&calls, 8 * SMALLEST);
        for n in 0..100 {
            called(&kernel, vec![1], 0, n);
            called(&kernel, vec![1], 0, 0);
        }
        assert_eq!(calls.load(Ordering::Relaxed), 100, "frequently used results stay in the cache");
        let results = lock(&kernel.results);
        assert!(results.new.len() + results.old.len() <= 8, "{} and {}", results.new.len(), results.old.len());
    }
}
