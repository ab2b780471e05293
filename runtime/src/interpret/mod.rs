//! The interpreter, the backend that is always available.
//!
//! It executes a loop program instruction by instruction. In a data-parallel loop, it takes up to 512 iterations at a
//! time, called *lanes*. Each instruction processes all lanes in a tight loop before the next instruction is decoded.
//! Within each lane, operations run in program order, so results have the same bits as without lanes. Conditions that
//! differ between lanes become masks, which select the active lanes of an instruction.
//!
//! | file | what |
//! |---|---|
//! | `exec` | statements, loops, lanes, masks |
//! | `compute` | instructions on registers |
//! | `cost` | cost of instructions |
//! | `access` | loads and stores, bounds |
//! | `columns`, `memory` | registers with many lanes; elements of storages |
//! | `ints`, `floats` | operations |
//! | `watch` | conflicts between iterations that may run concurrently |

mod access;
mod columns;
mod compute;
mod cost;
mod exec;
mod floats;
mod ints;
mod memory;
mod watch;

use self::watch::Watched;
use crate::bind::bind;
use crate::fault::Fault;
use crate::fork;
use crate::kernel::{Arg, Backend, Kernel};
use crate::limits::Limits;
use crate::program::{Instr, Mark, Program, Proven, depth, each_instr, from_memory, lower, lower_strictly};
use passhost_lang::ir::Body;
use passhost_lang::ir::constant::Number;
use passhost_lang::ir::records::kind;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};

/// The interpreting backend: exact and deterministic on any machine.
///
/// ```
/// use plugin_api::prelude::*;
/// use plugin_api::tir::prim_func;
/// use runtime::{Arg, Backend, Interpreter, Limits, Tensor};
///
/// let body = prim_func(|t| {
///     let (a, b) = (t.buffer_param("A", &[3], DType::F32), t.buffer_param("B", &[3], DType::F32));
///     t.serial("i", 3, |i| t.store(b, [i], t.load(a, [i]) * 2.0));
/// })?;
/// let limits = Limits::unlimited();
/// let a = Tensor::from_vec(&[3], vec![1.0f32, 2.0, 3.0])?;
/// let mut b = Tensor::zeros(DType::F32, &[3], &limits)?;
/// Interpreter.prepare(&body)?.run(&mut [Arg::In(&a), Arg::Out(&mut b)], &limits)?;
/// assert_eq!(b.values::<f32>()?, [2.0, 4.0, 6.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Interpreter;

/// The interpreter with one iteration at a time, even in data-parallel loops; the reference for its results.
#[derive(Clone, Copy, Debug, Default)]
pub struct OneLane;

/// The interpreter with one iteration at a time, following the definition of TIR, not the practice of compilers. A
/// parallel, vectorized or thread-bound loop whose iterations depend on each other is a
/// [fault](crate::FaultKind::Race), a `Select` evaluates both of its values, and [`Limits::has_overflowed`] is true
/// after a signed integer overflowed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Watching;

impl Backend for Watching {
    fn prepare(&self, func: &Body) -> Result<Arc<dyn Kernel>, Fault> {
        let program = Arc::new(lower_strictly(func)?);
        let watched = Watched::of(&program);
        Ok(Arc::new(Interpreted { watched: Some(watched), ..Interpreted::new(program, true) }))
    }
}

impl Watching {
    /// Returns true if a watched run of the function can find more than a run of the [`Interpreter`], that is, if the
    /// function contains a `Select`, or a loop whose iterations are not proven independent.
    pub fn is_worth_it(func: &Body) -> bool {
        let has_select = func.values().any(|value| value.kind() == kind::SELECT);
        has_select || lower(func).is_ok_and(|program| Watched::of(&program).has_loops())
    }
}

impl Backend for Interpreter {
    fn prepare(&self, func: &Body) -> Result<Arc<dyn Kernel>, Fault> {
        Ok(Interpreter.of(Arc::new(lower(func)?)))
    }
}

impl Interpreter {
    /// Returns the kernel of a program.
    pub fn of(self, program: Arc<Program>) -> Arc<dyn Kernel> {
        Arc::new(Interpreted::new(program, false))
    }
}

impl Backend for OneLane {
    fn prepare(&self, func: &Body) -> Result<Arc<dyn Kernel>, Fault> {
        Ok(Arc::new(Interpreted::new(Arc::new(lower(func)?), true)))
    }
}

/// A PrimFunc prepared for the interpreter.
struct Interpreted {
    program: Arc<Program>,
    /// Nesting depth of the statements in the program.
    depth: usize,
    /// Minimum work of a call, in units.
    least: u64,
    one_lane: bool,
    watched: Option<Watched>,
    seen: Seen,
    proven: OnceLock<Proven>,
}

impl Interpreted {
    fn new(program: Arc<Program>, one_lane: bool) -> Interpreted {
        let (depth, least) = (depth(&program.body), cost::least(&program.body));
        let seen = Seen::of(&program);
        Interpreted { program, depth, least, one_lane, watched: None, seen, proven: OnceLock::new() }
    }
}

/// The executed parts of a program, by mark.
struct Seen {
    reached: Vec<AtomicBool>,
    /// Three bits per loop: it ran with no iteration, with one, and with more.
    trips: Vec<AtomicU8>,
    /// For each mark, true for a loop whose extent is read from memory.
    is_counted: Vec<bool>,
}

impl Seen {
    fn of(program: &Program) -> Seen {
        let reached = program.marks.iter().map(|_| AtomicBool::new(false)).collect();
        let trips = program.marks.iter().map(|_| AtomicU8::new(0)).collect();
        let mut is_counted = vec![false; program.marks.len()];
        let data = from_memory(program);
        each_instr(&program.body, &mut |instr| {
            if let Instr::For(of) = instr
                && of.extent.terms.iter().any(|(reg, _)| data.contains(reg))
                && let Some(counted) = of.mark.and_then(|mark| is_counted.get_mut(mark as usize))
            {
                *counted = true;
            }
        });
        Seen { reached, trips, is_counted }
    }

    /// Records that statements with a mark are executed.
    fn reach(&self, mark: Mark) {
        if let Some(reached) = mark.and_then(|mark| self.reached.get(mark as usize)) {
            reached.store(true, Ordering::Relaxed);
        }
    }

    /// Records the number of iterations of a loop.
    fn trip(&self, mark: Mark, extent: i64) {
        let Some(mark) = mark.map(|mark| mark as usize).filter(|mark| self.is_counted.get(*mark) == Some(&true)) else {
            return;
        };
        self.trips[mark].fetch_or(1 << extent.clamp(0, 2), Ordering::Relaxed);
    }
}

/// Bytes of stack for the statements of a function, which may be nested 1,000 levels deep.
const STACK: usize = 16 << 20;
/// Nesting depth below which a function does not need its own stack.
const SHALLOW: usize = 40;

impl Kernel for Interpreted {
    fn run(&self, args: &mut [Arg<'_>], limits: &Limits) -> Result<Option<Number>, Fault> {
        let program = &self.program;
        let mut execute = || {
            let bound = bind(program, args, limits)?;
            // A call that cannot finish within the limit is not started.
            limits.has_work(self.least)?;
            let work = cost::call(program, self.depth >= SHALLOW);
            let exec = exec::Exec::new(program, bound, (limits, work), (&self.seen, !self.one_lane));
            fork::outside(|| match &self.watched {
                None => exec.run(),
                Some(watched) => exec.watched(watched).run(),
            })
        };
        let out = if self.depth < SHALLOW { execute() } else { stacker::grow(STACK, execute) };
        match program.name.as_str() {
            "" => out,
            name => out.map_err(|fault| fault.in_function(name)),
        }
    }

    fn writes_all(&self, param: usize) -> bool {
        self.proven.get_or_init(|| Proven::of(&self.program)).writes_all(param)
    }

    fn never_executed(&self) -> Option<&str> {
        let mut all = self.program.marks.iter().zip(&self.seen.reached);
        let never = |(text, reached): &(&String, &AtomicBool)| !text.is_empty() && !reached.load(Ordering::Relaxed);
        all.find(never).map(|(text, _)| text.as_str())
    }

    fn executed(&self) -> Vec<bool> {
        self.seen.reached.iter().map(|reached| reached.load(Ordering::Relaxed)).collect()
    }

    fn trips(&self) -> Vec<[bool; 3]> {
        let bits = self.seen.trips.iter().map(|trips| trips.load(Ordering::Relaxed));
        let counted = bits.zip(&self.seen.is_counted).filter(|(_, is_counted)| **is_counted);
        counted.map(|(bits, _)| [0, 1, 2].map(|bit| bits >> bit & 1 == 1)).collect()
    }
}
