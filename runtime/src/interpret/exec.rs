//! Executes statements: lists, loops, conditions, allocations.

use super::Seen;
use super::columns::{DIMS, Floats, Ints, MOST_LANES, Mask, Shape};
use super::cost;
use super::ints::Rooms;
use super::memory::{Memory, Positions};
use super::watch::{Watch, Watched};
use crate::bind::Bound;
use crate::fault::Fault;
use crate::limits::Limits;
use crate::program::{Affine, Instr, Loop, Mark, Note, Program, Reg, Scalar};
use crate::room::Room;
use passhost_lang::ir::constant::Number;
use std::ops::Range;
use std::sync::atomic::Ordering;

/// Units of work between two checks of the limits.
const BULK: u64 = 1 << 20;
/// Number of lanes of the inner loops from which the outer loops run one iteration at a time.
const ENOUGH: [i64; DIMS] = [256, 256, i64::MAX];

/// The way in which a list of instructions ended.
pub(super) enum Flow {
    Next,
    Break,
    Continue,
    Return(Option<Number>),
}

/// A run of a program.
pub(super) struct Exec<'p, 'm> {
    pub(super) program: &'p Program,
    pub(super) ints: Vec<Ints>,
    pub(super) singles: Vec<Floats<f32>>,
    pub(super) doubles: Vec<Floats<f64>>,
    pub(super) memory: Vec<Memory<'m>>,
    pub(super) shape: Shape,
    pub(super) mask: Mask,
    pub(super) rooms: Rooms,
    pub(super) positions: Positions,
    pub(super) limits: &'p Limits,
    seen: &'p Seen,
    work: u64,
    use_lanes: bool,
    pub(super) watch: Option<Watch<'p>>,
}

impl<'p, 'm> Exec<'p, 'm> {
    /// Starts a run; `work` is the work done before the first instruction.
    pub(super) fn new(
        program: &'p Program,
        bound: Bound<'m>,
        (limits, work): (&'p Limits, u64),
        (seen, use_lanes): (&'p Seen, bool),
    ) -> Exec<'p, 'm> {
        let n = program.registers.len();
        let (mut ints, mut singles, mut doubles) = (Vec::new(), Vec::new(), Vec::new());
        ints.resize_with(n, Ints::default);
        singles.resize_with(n, Floats::default);
        doubles.resize_with(n, Floats::default);
        for (reg, value) in bound.ints {
            ints[reg.index()].set(value);
        }
        for (reg, value) in bound.floats {
            singles[reg.index()].set(value as f32);
            doubles[reg.index()].set(value);
        }
        let (shape, mask, rooms, positions) = (Shape::new([1; DIMS]), None, Rooms::default(), Positions::default());
        let memory = bound.memory.into_iter().map(Memory::from).collect();
        Exec {
            program,
            ints,
            singles,
            doubles,
            memory,
            shape,
            mask,
            rooms,
            positions,
            limits,
            seen,
            work,
            use_lanes,
            watch: None,
        }
    }

    /// Turns on watching. The loops of a watched run execute one iteration at a time.
    pub(super) fn watched(self, watched: &'p Watched) -> Exec<'p, 'm> {
        Exec { watch: Some(Watch::new(watched)), use_lanes: false, ..self }
    }

    pub(super) fn run(mut self) -> Result<Option<Number>, Fault> {
        let program = self.program;
        let flow = self.list(&program.body);
        let counted = self.limits.work(self.work);
        match flow? {
            Flow::Return(value) => counted.map(|()| value),
            _ => counted.map(|()| None),
        }
    }

    /// Adds the statement's place to a fault.
    pub(super) fn at(&self, fault: impl Into<Fault>, place: u32) -> Fault {
        let fault = fault.into();
        match self.program.places.get(place as usize) {
            Some(text) => fault.at(text),
            None => fault,
        }
    }

    /// Counts units of work.
    pub(super) fn count(&mut self, units: u64) -> Result<(), Fault> {
        self.work += units;
        match self.work >= BULK {
            true => self.limits.work(std::mem::take(&mut self.work)),
            false => Ok(()),
        }
    }

    /// Records that the statements with a mark are executed.
    fn reach(&self, mark: Mark) {
        self.seen.reach(mark);
    }

    /// Returns the active lanes.
    pub(super) fn active_lanes(&self) -> impl Iterator<Item = usize> {
        let whole = self.mask.is_none().then_some(0..self.shape.total);
        whole.into_iter().chain(self.mask.iter().flatten().cloned()).flatten()
    }

    /// Records the values of a condition in the active lanes.
    pub(super) fn note(&self, note: &Note) {
        for (mark, truth) in note.marks.into_iter().zip([true, false]) {
            let new =
                mark.and_then(|mark| self.seen.reached.get(mark as usize)).filter(|it| !it.load(Ordering::Relaxed));
            let Some(new) = new else { continue };
            let is =
                |lane: usize, (cond, truth): (Reg, bool)| (self.ints[cond.index()].at(lane, &self.shape) != 0) == truth;
            let used = |lane: usize| is(lane, (note.cond, truth)) && note.within.iter().all(|when| is(lane, *when));
            if self.active_lanes().any(used) {
                new.store(true, Ordering::Relaxed);
            }
        }
    }

    /// Records the number of iterations of a loop.
    fn entered(&self, mark: Mark, extent: i64) {
        self.seen.trip(mark, extent);
        match extent > 0 {
            true => self.reach(mark),
            false => self.limits.note_unwritten(),
        }
    }

    fn list(&mut self, list: &'p [Instr]) -> Result<Flow, Fault> {
        self.count(cost::INSTRUCTION)?;
        for instr in list {
            let flow = match instr {
                Instr::For(of) => self.for_(of)?,
                Instr::If { cond, then, otherwise, marks } => self.if_(*cond, [then, otherwise], *marks)?,
                Instr::While { head, cond, body, mark } => self.while_(head, *cond, (body, *mark))?,
                Instr::Break => Flow::Break,
                Instr::Continue => Flow::Continue,
                Instr::Return(reg) => Flow::Return(reg.and_then(|reg| self.number(reg))),
                other => {
                    self.compute(other)?;
                    continue;
                }
            };
            if !matches!(flow, Flow::Next) {
                return Ok(flow);
            }
        }
        Ok(Flow::Next)
    }

    fn number(&self, reg: Reg) -> Option<Number> {
        let at = reg.index();
        let int = self.ints[at].at(0, &self.shape);
        Some(match self.program.registers[at] {
            Scalar::Bool => Number::Bool(int != 0),
            Scalar::Int(_) => Number::Int(int),
            Scalar::UInt(_) => Number::UInt(int as u64),
            Scalar::F64 => Number::Float(self.doubles[at].at(0)),
            _ => Number::Float(self.singles[at].at(0).into()),
        })
    }

    /// Evaluates a form that has the same value in all lanes.
    pub(super) fn value(&self, form: &Affine) -> i64 {
        form.terms.iter().fold(form.constant, |sum, (reg, factor)| {
            sum.wrapping_add(self.ints[reg.index()].at(0, &self.shape).wrapping_mul(*factor))
        })
    }

    fn for_(&mut self, of: &'p Loop) -> Result<Flow, Fault> {
        self.count(cost::INSTRUCTION + cost::form(&of.min) + cost::form(&of.extent))?;
        let (min, extent) = (self.value(&of.min), self.value(&of.extent));
        if of.lanes > 0 && self.use_lanes && self.shape.total == 1 && self.mask.is_none() && self.lanes(of)? {
            return Ok(Flow::Next);
        }
        self.entered(of.mark, extent);
        let is_watched = self.watch.as_mut().is_some_and(|watch| watch.begin(of));
        let mut ended = Flow::Next;
        for i in 0..extent {
            self.ints[of.var.index()].set(min.wrapping_add(i));
            if is_watched {
                self.watch.iter_mut().for_each(|watch| watch.iteration(i));
            }
            match self.list(&of.body)? {
                Flow::Next | Flow::Continue => {}
                Flow::Break => break,
                flow => {
                    ended = flow;
                    break;
                }
            }
        }
        if is_watched {
            self.watch.iter_mut().for_each(Watch::end);
        }
        Ok(ended)
    }

    /// Runs a loop and its directly nested loops many iterations at a time. Returns false, without running them,
    /// if there are too few iterations.
    fn lanes(&mut self, of: &'p Loop) -> Result<bool, Fault> {
        let mut loops: [Option<(Reg, i64, i64)>; DIMS] = [None; DIMS];
        let (mut next, mut marks) = (Some(of), Vec::new());
        for of in loops.iter_mut().skip(DIMS - usize::from(of.lanes).min(DIMS)) {
            let Some(current) = next else { break };
            *of = Some((current.var, self.value(&current.min), self.value(&current.extent)));
            marks.extend(current.mark.map(|mark| (mark, self.value(&current.extent))));
            next = match &current.body[..] {
                [Instr::For(inner)] => Some(inner),
                _ => None,
            };
        }
        let extents = loops.map(|of| of.map_or(1, |(.., extent)| extent.max(0)));
        let mut tile = [1i64; DIMS];
        let mut total = 1i64;
        for dim in (0..DIMS).rev() {
            if total < ENOUGH[dim] {
                tile[dim] = extents[dim].min(MOST_LANES as i64 / total);
                total *= tile[dim].max(1);
            }
        }
        if total < 2 || extents.contains(&0) {
            return Ok(false);
        }
        let mut innermost = of;
        for _ in 1..of.lanes {
            if let [Instr::For(inner)] = &innermost.body[..] {
                innermost = inner;
            }
        }
        for (mark, extent) in marks {
            self.reach(Some(mark));
            self.seen.trip(Some(mark), extent);
        }
        let done = self.tiles(&loops, extents, tile, &innermost.body);
        (self.shape, self.mask) = (Shape::new([1; DIMS]), None);
        done.map(|()| true)
    }

    fn tiles(
        &mut self,
        loops: &[Option<(Reg, i64, i64)>; DIMS],
        extents: [i64; DIMS],
        tile: [i64; DIMS],
        body: &'p [Instr],
    ) -> Result<(), Fault> {
        let mut start = [0i64; DIMS];
        loop {
            let size: [i64; DIMS] = std::array::from_fn(|dim| tile[dim].min(extents[dim] - start[dim]));
            self.shape = Shape::new(size.map(|n| n as usize));
            self.count(cost::TILE)?;
            for (dim, of) in loops.iter().enumerate() {
                if let Some((var, min, _)) = of {
                    let mut strides = [0; DIMS];
                    strides[dim] = 1;
                    self.ints[var.index()].set_linear(min.wrapping_add(start[dim]), strides);
                }
            }
            self.list(body)?;
            let mut dim = DIMS;
            loop {
                if dim == 0 {
                    return Ok(());
                }
                dim -= 1;
                start[dim] += tile[dim];
                if start[dim] < extents[dim] {
                    break;
                }
                start[dim] = 0;
            }
        }
    }

    fn if_(&mut self, cond: Reg, lists: [&'p [Instr]; 2], marks: [Mark; 2]) -> Result<Flow, Fault> {
        if let Some(cond) = self.ints[cond.index()].uniform() {
            let taken = usize::from(cond == 0);
            self.reach(marks[taken]);
            return self.list(lists[taken]);
        }
        self.count(cost::divide(self.shape.total))?;
        let [yes, no] = self.divided(cond);
        let all = self.mask.take();
        for ((list, mark), (runs, others)) in lists.into_iter().zip(marks).zip([(&yes, &no), (&no, &yes)]) {
            if runs.is_empty() || list.is_empty() {
                continue;
            }
            self.reach(mark);
            self.mask = if others.is_empty() { all.clone() } else { Some(runs.clone()) };
            let done = self.list(list);
            self.mask = None;
            done?;
        }
        self.mask = all;
        Ok(Flow::Next)
    }

    /// Splits the active lanes into those in which a condition holds and those in which it does not.
    fn divided(&self, cond: Reg) -> [Vec<Range<usize>>; 2] {
        let cond = &self.ints[cond.index()];
        let whole = std::iter::once(0..self.shape.total);
        let runs: Vec<Range<usize>> = self.mask.clone().unwrap_or_else(|| whole.collect());
        let mut out: [Vec<Range<usize>>; 2] = Default::default();
        for run in runs {
            let mut lane = run.start;
            while lane < run.end {
                let truth = cond.at(lane, &self.shape) != 0;
                let end = (lane + 1..run.end).find(|at| (cond.at(*at, &self.shape) != 0) != truth).unwrap_or(run.end);
                out[usize::from(!truth)].push(lane..end);
                lane = end;
            }
        }
        out
    }

    fn while_(&mut self, head: &'p [Instr], cond: Reg, (body, mark): (&'p [Instr], Mark)) -> Result<Flow, Fault> {
        loop {
            self.list(head)?;
            if self.ints[cond.index()].at(0, &self.shape) == 0 {
                return Ok(Flow::Next);
            }
            self.reach(mark);
            match self.list(body)? {
                Flow::Next | Flow::Continue => {}
                Flow::Break => return Ok(Flow::Next),
                flow => return Ok(flow),
            }
        }
    }

    pub(super) fn allocate(
        &mut self,
        storage: u32,
        element: Scalar,
        factors: &[Affine],
        place: u32,
    ) -> Result<(), Fault> {
        let at = storage as usize;
        self.watch.iter_mut().for_each(|watch| watch.allocated(storage));
        self.memory[at] = Memory::None;
        let factors: Vec<u64> = factors.iter().map(|factor| self.value(factor).max(0) as u64).collect();
        let bytes = match factors.contains(&0) {
            true => 0,
            false => factors.into_iter().fold(element.bytes(), u64::saturating_mul),
        };
        let byte = self.limits.fresh_byte();
        // A Boolean is 0 or 1.
        let byte = if element == Scalar::Bool { byte & 1 } else { byte };
        let room = Room::filled(byte, bytes, self.limits).map_err(|fault| self.at(fault, place))?;
        self.memory[at] = Memory::Own(room, bytes as usize);
        Ok(())
    }
}
