//! Times the calls of kernels.

use passhost_lang::ir::Body;
use passhost_lang::ir::constant::Number;
use runtime::bind::bind;
use runtime::program::{float_operations, lower};
use runtime::vm::{Binding, Observer};
use runtime::{Arg, Backend, Fault, Kernel, Limits};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// The timed calls of all kernels of a backend. Clones share them.
#[derive(Clone, Default)]
pub struct Times {
    kernels: Arc<Mutex<Vec<Arc<Calls>>>>,
    /// The operator of the current binding, if an observer watches the run.
    operator: Arc<Mutex<Option<String>>>,
}

/// Names kernels after the operators that call them, by observing a run.
impl Observer for Times {
    fn before(&mut self, binding: &Binding<'_>) {
        let name = binding.binding().as_call().and_then(|call| call.op());
        *locked(&self.operator) = name.map(|name| name.replacen("relax.", "R.", 1));
    }
}

fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The calls of one kernel.
#[derive(Clone, Debug)]
pub struct Timed {
    /// The PrimFunc.
    pub function: Body,
    /// The operator of its first call, if that call was observed.
    pub operator: Option<String>,
    /// The number of calls.
    pub calls: u64,
    /// The total time of the calls.
    pub time: Duration,
    /// Number of float operations in the first call, if known.
    pub operations: Option<u64>,
    /// Total bytes of the tensors of the first call.
    pub bytes: u64,
}

struct Calls {
    function: Body,
    calls: AtomicU64,
    nanos: AtomicU64,
    first: OnceLock<First>,
}

/// Facts about the first call.
struct First {
    operator: Option<String>,
    operations: Option<u64>,
    bytes: u64,
}

impl Times {
    /// Wraps a backend so that its kernels are timed.
    pub(super) fn of(&self, backend: impl Backend + 'static) -> impl Backend + 'static {
        Timing { backend, times: self.clone() }
    }

    fn kernels(&self) -> Vec<Arc<Calls>> {
        locked(&self.kernels).clone()
    }

    /// Resets all counts and times.
    pub fn restart(&self) {
        for kernel in self.kernels() {
            kernel.calls.store(0, Ordering::Relaxed);
            kernel.nanos.store(0, Ordering::Relaxed);
        }
    }

    /// Returns the kernels that were called, in the order in which they were first prepared.
    pub fn taken(&self) -> Vec<Timed> {
        let timed = |calls: Arc<Calls>| {
            let first = calls.first.get();
            Timed {
                function: calls.function.clone(),
                operator: first.and_then(|first| first.operator.clone()),
                calls: calls.calls.load(Ordering::Relaxed),
                time: Duration::from_nanos(calls.nanos.load(Ordering::Relaxed)),
                operations: first.and_then(|first| first.operations),
                bytes: first.map_or(0, |first| first.bytes),
            }
        };
        self.kernels().into_iter().map(timed).filter(|timed| timed.calls > 0).collect()
    }
}

struct Timing<B> {
    backend: B,
    times: Times,
}

impl<B: Backend> Backend for Timing<B> {
    fn prepare(&self, func: &Body) -> Result<Arc<dyn Kernel>, Fault> {
        let kernel = self.backend.prepare(func)?;
        let (calls, nanos, first) = Default::default();
        let calls = Arc::new(Calls { function: func.clone(), calls, nanos, first });
        locked(&self.times.kernels).push(Arc::clone(&calls));
        Ok(Arc::new(TimedKernel { kernel, calls, times: self.times.clone() }))
    }

    fn make_ready(&self, kernels: &[Arc<dyn Kernel>], limits: &Limits) {
        self.backend.make_ready(kernels, limits);
    }
}

struct TimedKernel {
    kernel: Arc<dyn Kernel>,
    calls: Arc<Calls>,
    times: Times,
}

impl Kernel for TimedKernel {
    fn run(&self, args: &mut [Arg<'_>], limits: &Limits) -> Result<Option<Number>, Fault> {
        self.calls.first.get_or_init(|| {
            let (operations, bytes) = work(&self.calls.function, args, limits);
            First { operator: locked(&self.times.operator).clone(), operations, bytes }
        });
        let start = Instant::now();
        let result = self.kernel.run(args, limits);
        let took = start.elapsed();
        self.calls.calls.fetch_add(1, Ordering::Relaxed);
        self.calls.nanos.fetch_add(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
        result
    }

    fn is_ready(&self, limits: &Limits) -> bool {
        self.kernel.is_ready(limits)
    }

    fn make_ready(&self, limits: &Limits) {
        self.kernel.make_ready(limits);
    }

    fn writes_all(&self, param: usize) -> bool {
        self.kernel.writes_all(param)
    }

    fn never_executed(&self) -> Option<&str> {
        self.kernel.never_executed()
    }

    fn executed(&self) -> Vec<bool> {
        self.kernel.executed()
    }
}

/// Returns the number of float operations and the bytes of the tensors of a call.
fn work(function: &Body, args: &mut [Arg<'_>], limits: &Limits) -> (Option<u64>, u64) {
    let bytes = args.iter().map(|arg| match arg {
        Arg::In(tensor) => tensor.nbytes() as u64,
        Arg::Out(tensor) => tensor.nbytes() as u64,
        Arg::Int(_) | Arg::Float(_) => 0,
    });
    let bytes = bytes.sum();
    let operations = lower(function).ok().and_then(|program| {
        let known = bind(&program, args, limits).ok()?.ints;
        float_operations(&program, &known)
    });
    (operations, bytes)
}
