//! The backend of native code and its kernels.

use crate::cache::Cache;
use crate::call::{Ended, call};
use crate::emit::{self, ENTRY, Emitted, INTERPRET, Purpose};
use crate::forks;
use crate::functions;
use crate::llvm::{Llvm, LlvmError, Loaded, Output};
use crate::making::{Made, Making};
use crate::pad::pad;
use crate::threads::Threads;
use passhost_lang::ir::Body;
use passhost_lang::ir::constant::Number;
use runtime::bind::bind;
use runtime::fork;
use runtime::program::{Instr, Program, Proven, Reg, Scalar, each_instr, lower};
use runtime::{Arg, Backend, Fault, FaultKind, Interpreter, Kernel, Limits};
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// Executes loop programs as native code of this machine. Results are bit-identical to the interpreter's.
#[derive(Clone)]
pub struct Native {
    shared: Arc<Shared>,
}

#[derive(Clone)]
struct Shared {
    /// True if kernels record executed statements.
    remembers: bool,
    /// True if short-running functions are interpreted.
    when_long: bool,
    /// The LLVM library, found on first use.
    llvm: Arc<OnceLock<Result<Arc<Llvm>, LlvmError>>>,
    cache: Cache,
    functions: Vec<usize>,
    making: Arc<Making>,
    threads: Arc<Threads>,
}

/// A textual form of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Text {
    /// The LLVM IR emitted by passhost.
    Written,
    /// The LLVM IR after LLVM's passes.
    Optimized,
    /// Assembly of this machine.
    Assembly,
}

impl Native {
    /// Creates a backend with a library and a cache.
    pub fn new(llvm: Arc<Llvm>, cache: Cache) -> Native {
        let native = Native::finding(cache);
        let _ = native.shared.llvm.set(Ok(llvm));
        native
    }

    /// Creates a backend that finds the library on first use. Without a library, everything is interpreted.
    pub fn finding(cache: Cache) -> Native {
        forks::watch();
        let (llvm, making) = Default::default();
        let shared = Shared {
            remembers: false,
            when_long: false,
            llvm,
            cache,
            functions: functions::table(),
            making,
            threads: Arc::default(),
        };
        Native { shared: Arc::new(shared) }
    }

    /// Returns a backend whose kernels record the executed statements. These kernels are slower.
    #[must_use]
    pub fn remembering(&self) -> Native {
        Native { shared: Arc::new(Shared { remembers: true, ..Shared::clone(&self.shared) }) }
    }

    /// Returns a backend that compiles only long-running functions, because for short-running functions compilation
    /// takes longer than interpretation.
    #[must_use]
    pub fn when_long(&self) -> Native {
        Native { shared: Arc::new(Shared { when_long: true, ..Shared::clone(&self.shared) }) }
    }

    /// Returns the library.
    ///
    /// # Errors
    /// The reason why the library was not found.
    pub fn llvm(&self) -> Result<&Arc<Llvm>, LlvmError> {
        self.shared.llvm()
    }

    /// Returns the reason why the library is missing, if it was needed.
    pub fn lacks(&self) -> Option<&LlvmError> {
        self.shared.llvm.get()?.as_ref().err()
    }

    /// Returns the current statistics, including clones.
    pub fn made(&self) -> Made {
        self.shared.making.made()
    }

    /// Returns the code of a PrimFunc as text.
    ///
    /// # Errors
    /// Fails if the function cannot be compiled.
    pub fn text(&self, func: &Body, of: Text) -> Result<String, Fault> {
        let llvm = self.shared.llvm().map_err(|error| refused(&error))?;
        let emitted = Ready::of(&lower(func)?).emitted(llvm, false)?;
        let compiled = match of {
            Text::Written => return Ok(emitted.text),
            Text::Optimized => llvm.compile(&emitted.text, Output::Optimized),
            Text::Assembly => llvm.compile(&emitted.text, Output::Assembly),
        };
        let bytes = compiled.map_err(|error| refused(&error))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

fn refused(error: &LlvmError) -> Fault {
    Fault::unsupported(format!("the native code of this function: {error}"))
}

impl Backend for Native {
    fn prepare(&self, func: &Body) -> Result<Arc<dyn Kernel>, Fault> {
        let (shared, program) = (Arc::clone(&self.shared), Arc::new(lower(func)?));
        let marks = program.marks.iter().map(|_| AtomicU8::new(0)).collect();
        let is_short = shared.when_long && emit::cost(&program.body).is_some_and(|units| units < SHORT);
        let spare = AtomicU64::new(if is_short { SPARE } else { 0 });
        let interpreted = Interpreter.of(Arc::clone(&program));
        let (ready, plain, watched) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        Ok(Arc::new(Compiled { shared, program, spare, interpreted, ready, plain, watched, marks }))
    }

    fn make_ready(&self, kernels: &[Arc<dyn Kernel>], limits: &Limits) {
        let next = AtomicUsize::new(0);
        self.shared.threads.share(kernels.len(), |_| {
            while let Some(kernel) = kernels.get(next.fetch_add(1, Ordering::Relaxed)) {
                fork::inside(|| kernel.make_ready(limits));
            }
            None::<()>
        });
    }
}

/// A program prepared for code generation.
pub(crate) struct Ready {
    pub(crate) program: Program,
    pub(crate) proven: Proven,
}

impl Ready {
    pub(crate) fn of(program: &Program) -> Ready {
        let mut ready = Ready { proven: Proven::of(program), program: program.clone() };
        pad(&mut ready.program);
        ready
    }

    /// Returns the settings for code that runs in this process.
    pub(crate) fn purpose(&self, llvm: &Llvm, watched: bool) -> Purpose {
        let [half, mul_add, hides_masks] = [llvm.has_half(), llvm.has_mul_add(), llvm.loops_over_selects()];
        Purpose { watched, half, mul_add, hides_masks, standalone: false }
    }

    fn emitted(&self, llvm: &Llvm, watched: bool) -> Result<Emitted, Fault> {
        emit::emit(&self.program, &self.proven, self.purpose(llvm, watched))
    }
}

impl Shared {
    fn llvm(&self) -> Result<&Arc<Llvm>, LlvmError> {
        self.llvm.get_or_init(Llvm::find).as_ref().map_err(LlvmError::clone)
    }

    /// Compiles a program, or takes it from the cache, and loads it.
    fn code(&self, ready: &Ready, watched: bool) -> Result<Code, Fault> {
        let llvm = self.llvm().map_err(|error| refused(&error))?;
        let start = Instant::now();
        let Emitted { text, sites, scalars } = ready.emitted(llvm, watched)?;
        let key = Cache::key(&[&llvm.identity(), &functions::names(), &text]);
        // Entries are named by their content, so that several can be in memory at the same time.
        let name = format!("{ENTRY}_{key}");
        let _only = self.making.only(&key);
        if let Some(loaded) = llvm.loaded(&name) {
            return Ok(Code { loaded, sites, scalars });
        }
        let text = text.replace(&format!("@{ENTRY}("), &format!("@{name}("));
        let known = self.cache.get(&key);
        let is_known = known.is_some();
        let made = || {
            let object = llvm.compile(&text, Output::Object);
            object.inspect_err(|error| tracing::warn!("{error}")).map_err(|error| refused(&error))
        };
        let object = known.map_or_else(made, Ok)?;
        let loaded = Loaded::new(llvm, &object, &name).map_err(|error| refused(&error))?;
        if !is_known {
            self.cache.put(&key, &object);
        }
        self.making.count(is_known, start);
        Ok(Code { loaded, sites, scalars })
    }
}

/// A call with less work is interpreted, because compilation would take longer.
const SHORT: u64 = 2_000_000;
/// Total work of interpreted calls after which the function is compiled; this work takes about as long as compilation.
const SPARE: u64 = 1_000_000_000;

/// Code in memory, with the sites and scalars that its numbers refer to.
struct Code {
    loaded: Arc<Loaded>,
    sites: Vec<emit::Site>,
    scalars: Vec<Reg>,
}

/// A PrimFunc that is compiled on its first call. There is separate code for runs that record reads of unwritten
/// memory and executed statements.
struct Compiled {
    shared: Arc<Shared>,
    program: Arc<Program>,
    /// Units of work left for interpreted calls before the function is compiled.
    spare: AtomicU64,
    interpreted: Arc<dyn Kernel>,
    /// Created with the first code.
    ready: OnceLock<Ready>,
    plain: OnceLock<Option<Code>>,
    watched: OnceLock<Option<Code>>,
    marks: Vec<AtomicU8>,
}

impl Compiled {
    fn ready(&self) -> &Ready {
        self.ready.get_or_init(|| Ready::of(&self.program))
    }

    fn code(&self, watched: bool) -> Option<&Code> {
        let cell = if watched { &self.watched } else { &self.plain };
        let make = || {
            let made = self.shared.code(self.ready(), watched);
            made.inspect_err(|fault| tracing::debug!("`{}` falls back to the interpreter: {fault}", self.program.name))
                .ok()
        };
        cell.get_or_init(make).as_ref()
    }

    /// Returns true if calls within such limits need code that records reads of unwritten memory or statements.
    fn is_watched(&self, limits: &Limits) -> bool {
        self.shared.remembers || limits.fresh_byte() != 0 && !self.ready().proven.reads_what_it_wrote()
    }
}

impl Kernel for Compiled {
    fn run(&self, args: &mut [Arg<'_>], limits: &Limits) -> Result<Option<Number>, Fault> {
        let spare = self.spare.load(Ordering::Relaxed);
        if spare > 0 {
            let before = limits.work_done();
            let out = self.interpreted.run(args, limits);
            self.spare.store(spare.saturating_sub(limits.work_done() - before), Ordering::Relaxed);
            return out;
        }
        let watched = self.is_watched(limits);
        let Some(code) = self.code(watched) else { return self.interpreted.run(args, limits) };
        let in_function = |fault: Fault| match self.program.name.as_str() {
            "" => fault,
            name => fault.in_function(name),
        };
        let bound = bind(&self.program, args, limits).map_err(in_function)?;
        let mut marks = vec![0u8; self.marks.len()];
        let tables = (self.shared.functions.as_slice(), marks.as_mut_slice());
        let around = (limits, &self.shared.threads);
        let ended = fork::outside(|| call(code.loaded.entry(), &self.program, &code.scalars, bound, around, tables));
        for (mark, now) in self.marks.iter().zip(marks) {
            mark.fetch_or(now, Ordering::Relaxed);
        }
        match ended {
            Ended::Fine(bits) => Ok(result(&self.program).map(|scalar| number(scalar, bits))),
            Ended::Fault(fault) => Err(in_function(fault)),
            // The code requested the interpreter before it wrote to memory.
            Ended::Site(INTERPRET, _) => self.interpreted.run(args, limits),
            Ended::Site(site, values) => {
                let site = usize::try_from(site).ok().and_then(|site| code.sites.get(site));
                let fault = site.map(|site| site.fault(&values));
                Err(in_function(fault.unwrap_or_else(|| FaultKind::Cancelled.into())))
            }
        }
    }

    fn is_ready(&self, limits: &Limits) -> bool {
        let has = |cell: &OnceLock<Option<Code>>| cell.get().is_some();
        self.spare.load(Ordering::Relaxed) > 0 || has(if self.is_watched(limits) { &self.watched } else { &self.plain })
    }

    fn make_ready(&self, limits: &Limits) {
        if !limits.is_cancelled() && self.spare.load(Ordering::Relaxed) == 0 {
            self.code(self.is_watched(limits));
        }
    }

    fn writes_all(&self, param: usize) -> bool {
        self.interpreted.writes_all(param)
    }

    fn never_executed(&self) -> Option<&str> {
        let mut all = self.program.marks.iter().zip(self.executed());
        all.find(|(text, executed)| !text.is_empty() && !executed).map(|(text, _)| text.as_str())
    }

    /// Combines the records of compiled and interpreted calls.
    fn executed(&self) -> Vec<bool> {
        let interpreted = self.interpreted.executed();
        let own = self.marks.iter().map(|mark| mark.load(Ordering::Relaxed) != 0);
        own.zip(interpreted).map(|(own, interpreted)| own || interpreted).collect()
    }

    fn trips(&self) -> Vec<[bool; 3]> {
        self.interpreted.trips()
    }
}

/// Returns the result type, if the program has a result.
fn result(program: &Program) -> Option<Scalar> {
    let mut found = None;
    each_instr(&program.body, &mut |instr| {
        if let Instr::Return(Some(reg)) = instr {
            found = Some(program.registers[reg.index()]);
        }
    });
    found
}

fn number(scalar: Scalar, bits: i64) -> Number {
    match scalar {
        Scalar::Bool => Number::Bool(bits != 0),
        Scalar::Int(_) => Number::Int(bits),
        Scalar::UInt(_) => Number::UInt(bits as u64),
        _ => Number::Float(f64::from_bits(bits as u64)),
    }
}
