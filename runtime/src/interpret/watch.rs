//! Watches a run: whether iterations of a parallel, vectorized or thread-bound loop depend on each other, and whether signed
//! integers overflow.
//!
//! While such a loop runs, the elements that its iterations read and write are recorded. Two iterations conflict if one
//! reads what another one wrote, or changes what another one read or wrote. In a vectorized loop, each statement is executed
//! for all iterations before the next one, so iterations conflict only where that order differs from one iteration after the
//! other. Writing the value that is already there changes nothing.
//!
//! Where blocks are left in a function, a buffer that it allocates may still be moved into the loop: each iteration then has
//! its own, and only an iteration that reads what another one wrote conflicts. Threads of a device are watched in functions
//! without blocks, and for buffers that a call brings, because shared memory belongs to one block of threads.

use crate::fault::FaultKind;
use crate::program::{Instr, Loop, LoopKind, Program, Reg, Scalar, can_be_shared, each_instr};
use std::collections::{BTreeSet, HashMap};

/// What is watched in a program.
#[derive(Clone, Debug, Default)]
pub(super) struct Watched {
    /// Loops of which it is not proven that their iterations are independent.
    loops: BTreeSet<Reg>,
    /// Memory that a call brings.
    given: BTreeSet<u32>,
}

impl Watched {
    pub(super) fn of(program: &Program) -> Watched {
        let mut loops = BTreeSet::new();
        each_instr(&program.body, &mut |instr| {
            if let Instr::For(of) = instr
                && is_concurrent(of.kind, program.has_blocks)
                && !can_be_shared(of, &program.buffers)
            {
                loops.insert(of.var);
            }
        });
        Watched { loops, given: program.given().collect() }
    }

    /// Whether a loop has to be watched.
    pub(super) fn has_loops(&self) -> bool {
        !self.loops.is_empty()
    }
}

fn is_concurrent(kind: LoopKind, has_blocks: bool) -> bool {
    match kind {
        LoopKind::Parallel | LoopKind::Vectorized => true,
        LoopKind::ThreadBinding => !has_blocks,
        LoopKind::Serial | LoopKind::Unrolled => false,
    }
}

/// An access: the iteration of the loop, and how many accesses of this iteration came before it.
type At = (i64, u64);

/// Who touched an element.
#[derive(Default)]
struct Touched {
    /// The last access that wrote to it.
    write: Option<At>,
    /// Accesses that read it, of the first iteration and of the last one: those that came latest in it.
    reads: [Option<At>; 2],
}

/// A loop that is being executed.
struct Running {
    var: Reg,
    kind: LoopKind,
    iteration: i64,
    /// Accesses of this iteration until now.
    accesses: u64,
    elements: HashMap<(u32, i64), Touched>,
    /// Memory that each iteration allocates.
    own: BTreeSet<u32>,
}

/// The state of a run that is watched.
pub(super) struct Watch<'p> {
    watched: &'p Watched,
    running: Vec<Running>,
}

/// An access to an element.
#[derive(Clone, Copy)]
pub(super) struct Touch {
    pub(super) storage: u32,
    pub(super) position: i64,
    /// None if it is read; else whether writing changes it.
    pub(super) writes: Option<bool>,
}

impl<'p> Watch<'p> {
    pub(super) fn new(watched: &'p Watched) -> Watch<'p> {
        Watch { watched, running: Vec::new() }
    }

    /// A loop begins; gives whether it is watched.
    pub(super) fn begin(&mut self, of: &Loop) -> bool {
        let is_watched = self.watched.loops.contains(&of.var);
        if is_watched {
            let (elements, own) = Default::default();
            self.running.push(Running { var: of.var, kind: of.kind, iteration: 0, accesses: 0, elements, own });
        }
        is_watched
    }

    pub(super) fn iteration(&mut self, iteration: i64) {
        if let Some(running) = self.running.last_mut() {
            (running.iteration, running.accesses) = (iteration, 0);
        }
    }

    pub(super) fn end(&mut self) {
        self.running.pop();
    }

    pub(super) fn allocated(&mut self, storage: u32) {
        for running in &mut self.running {
            running.own.insert(storage);
        }
    }

    /// An element is read or written; gives the conflict if this is one.
    pub(super) fn touch(&mut self, program: &Program, touch: Touch) -> Option<FaultKind> {
        let is_given = self.watched.given.contains(&touch.storage);
        let may_be_own = !is_given && program.has_blocks;
        for running in &mut self.running {
            let skips = running.kind == LoopKind::ThreadBinding && !is_given;
            if running.own.contains(&touch.storage) || skips {
                continue;
            }
            if let Some(other) = running.touch(touch, may_be_own) {
                let name = program.loops.get(&running.var).cloned().unwrap_or_default();
                let of = program.storages.get(touch.storage as usize).map_or(String::new(), |it| it.name.clone());
                let (kind, element) = (kind_name(running.kind), touch.position);
                let (first, second) = (other.0.min(running.iteration), other.0.max(running.iteration));
                return Some(FaultKind::Race { kind, name, of, element, iterations: [first, second] });
            }
        }
        None
    }
}

fn kind_name(kind: LoopKind) -> &'static str {
    match kind {
        LoopKind::Vectorized => "vectorized",
        LoopKind::ThreadBinding => "thread-bound",
        _ => "parallel",
    }
}

impl Running {
    /// The access of another iteration that conflicts with one.
    fn touch(&mut self, touch: Touch, may_be_own: bool) -> Option<At> {
        let now = (self.iteration, self.accesses);
        self.accesses += 1;
        let in_order = self.kind == LoopKind::Vectorized;
        let element = self.elements.entry((touch.storage, touch.position)).or_default();
        let other = |at: &At| at.0 != now.0;
        let Some(changes) = touch.writes else {
            let conflict = element.write.filter(other).filter(|write| !in_order || now.1 < write.1);
            let [first, last] = &mut element.reads;
            let slot = if first.is_none_or(|first| first.0 == now.0) { first } else { last };
            *slot = Some(now);
            return conflict;
        };
        let (write, reads) = (element.write, element.reads);
        element.write = Some(now);
        if !changes || may_be_own {
            return None;
        }
        let overtakes = |at: &At| !in_order || now.1 < at.1;
        write.filter(other).or_else(|| reads.into_iter().flatten().find(|at| other(at) && overtakes(at)))
    }
}

/// Whether the exact result of an operation on signed integers is another one than that of its type.
pub(super) fn overflows(scalar: Scalar, exact: i128) -> bool {
    let Scalar::Int(bits @ (32 | 64)) = scalar else { return false };
    let half = 1i128 << (bits - 1);
    !(-half..half).contains(&exact)
}
