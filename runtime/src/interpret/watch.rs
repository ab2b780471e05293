//! Watches a run for dependent iterations of parallel, vectorized or thread-bound loops, and for signed overflow.
//!
//! While such a loop runs, the elements read and written by its iterations are recorded. Two iterations conflict if one
//! reads an element that the other wrote, or changes an element that the other read or wrote. A vectorized loop
//! executes each statement for all iterations before the next statement, so its iterations conflict only if the result
//! differs from that of sequential execution. A write that does not change the value is not a conflict.
//!
//! While a function still contains blocks, a buffer that it allocates may be moved into the loop. Each iteration then
//! has its own copy, so iterations conflict only if one reads an element written by another. Device threads are watched
//! only for buffers passed by the caller, because shared memory belongs to a single thread block.

use crate::fault::FaultKind;
use crate::program::{Instr, Loop, LoopKind, Program, Reg, Scalar, Sums, can_be_shared, each_instr};
use std::cell::OnceCell;
use std::collections::{BTreeSet, HashMap};

/// The watched loops and memory of a program.
#[derive(Clone, Debug, Default)]
pub(super) struct Watched {
    /// Loops whose iterations are not proven independent.
    loops: BTreeSet<Reg>,
    /// Memory passed by the caller.
    given: BTreeSet<u32>,
}

impl Watched {
    pub(super) fn of(program: &Program) -> Watched {
        let (mut loops, sums) = (BTreeSet::new(), OnceCell::new());
        each_instr(&program.body, &mut |instr| {
            if let Instr::For(of) = instr
                && !matches!(of.kind, LoopKind::Serial | LoopKind::Unrolled)
                && !can_be_shared(of, program, sums.get_or_init(|| Sums::of(program, |_, _| false)))
            {
                loops.insert(of.var);
            }
        });
        Watched { loops, given: program.given().collect() }
    }

    /// Returns true if a loop must be watched.
    pub(super) fn has_loops(&self) -> bool {
        !self.loops.is_empty()
    }
}

/// An access: the iteration of the loop, and the number of earlier accesses in the iteration.
type At = (i64, u64);

/// The recorded accesses to an element.
#[derive(Default)]
struct Touched {
    /// The last write.
    write: Option<At>,
    /// The latest reads by the first and by the last iteration that read the element.
    reads: [Option<At>; 2],
}

/// A running watched loop.
struct Running {
    var: Reg,
    kind: LoopKind,
    iteration: i64,
    /// Number of accesses in the current iteration.
    accesses: u64,
    elements: HashMap<(u32, i64), Touched>,
    /// Memory that each iteration allocates.
    own: BTreeSet<u32>,
}

/// The state of a watched run.
pub(super) struct Watch<'p> {
    watched: &'p Watched,
    running: Vec<Running>,
}

/// An access to an element.
#[derive(Clone, Copy)]
pub(super) struct Touch {
    pub(super) storage: u32,
    pub(super) position: i64,
    /// `None` for a read; for a write, true if it changes the element.
    pub(super) writes: Option<bool>,
}

impl<'p> Watch<'p> {
    pub(super) fn new(watched: &'p Watched) -> Watch<'p> {
        Watch { watched, running: Vec::new() }
    }

    /// Starts a loop, and returns true if it is watched.
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

    /// Records an access to an element, and returns the resulting conflict, if any.
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
    /// Returns the conflicting access of another iteration.
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

/// Returns true if the exact result of a signed operation does not fit the type.
pub(super) fn overflows(scalar: Scalar, exact: i128) -> bool {
    let Scalar::Int(bits @ (32 | 64)) = scalar else { return false };
    let half = 1i128 << (bits - 1);
    !(-half..half).contains(&exact)
}
