//! Finds data-parallel loops, whose iterations can run at the same time.
//!
//! A loop is data-parallel if its body executes the same instructions in each iteration (no `while`, no jumps, no
//! allocation, inner loops of the same length), and no iteration accesses an element that another iteration writes.
//! For each memory that the body writes, all accesses must have a dimension, or the whole position, of the form `c *
//! var + rest`, with the same `c` everywhere, and a `rest` of loop invariants, constants, and inner loop variables
//! that together stay below `c`. The order within an iteration is kept, so results have the same bits.

use super::hoist::invariant;
use super::{Access, Affine, Buffer, Instr, Loop, Program, Reg, Sums};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of loops that run together.
const MOST_LOOPS: usize = 3;
/// Minimum trip count of an inner loop that runs efficiently on its own.
const LONG: i64 = 16;

/// Marks the loops of a program.
pub(super) fn mark(program: &mut Program) {
    let sums = Sums::of(program, |_, _| false);
    let mut body = std::mem::take(&mut program.body);
    each_list(&mut body, Facts { buffers: &program.buffers, sums: &sums });
    program.body = body;
}

/// The buffers and sums of a program.
#[derive(Clone, Copy)]
struct Facts<'p> {
    buffers: &'p [Buffer],
    sums: &'p Sums,
}

fn each_list(list: &mut [Instr], facts: Facts<'_>) {
    for instr in list {
        match instr {
            Instr::For(of) => each_loop(of, facts),
            Instr::If { then, otherwise, .. } => {
                each_list(then, facts);
                each_list(otherwise, facts);
            }
            Instr::While { head, body, .. } => {
                each_list(head, facts);
                each_list(body, facts);
            }
            _ => {}
        }
    }
}

fn each_loop(of: &mut Loop, facts: Facts<'_>) {
    // A chain of parallel loops, each of which is the only content of the previous loop.
    let mut depth = 0;
    let mut next = Some(&*of);
    let mut last = &*of;
    while let Some(inner) = next.filter(|inner| is_parallel(inner, facts)) {
        depth += 1;
        last = inner;
        next = only_loop(&inner.body);
    }
    let marked = depth > 0 && !inner_loops_suffice(&last.body, facts);
    let mut current = of;
    for at in 0..depth {
        let left = depth - at;
        if marked && (left == MOST_LOOPS || left < MOST_LOOPS && at == 0) {
            current.lanes = left as u8;
        }
        if left > 1 {
            match &mut current.body[..] {
                [Instr::For(inner)] => current = inner,
                _ => return,
            }
        }
    }
    each_list(&mut current.body, facts);
}

fn only_loop(body: &[Instr]) -> Option<&Loop> {
    match body {
        [Instr::For(inner)] => Some(inner),
        _ => None,
    }
}

/// Returns true if all stores are in long parallel inner loops. It is then better to run these in lanes than the outer
/// loops.
fn inner_loops_suffice(body: &[Instr], facts: Facts<'_>) -> bool {
    let mut stores = 0;
    let fine = body.iter().all(|instr| match instr {
        Instr::Store { .. } => false,
        Instr::For(of) => {
            stores += 1;
            let long = of.extent.as_constant().is_none_or(|extent| extent >= LONG);
            long && is_parallel(of, facts) || inner_loops_suffice(&of.body, facts)
        }
        Instr::If { then, otherwise, .. } => {
            let lists = [then, otherwise];
            lists.iter().all(|list| list.is_empty() || inner_loops_suffice(list, facts))
        }
        _ => true,
    });
    fine && stores > 0
}

/// Returns true if threads can share the iterations of a loop, that is, if no iteration accesses elements that another
/// iteration writes. Memory that the body allocates is private to each thread.
pub fn can_be_shared(of: &Loop, program: &Program, sums: &Sums) -> bool {
    let facts = Facts { buffers: &program.buffers, sums };
    let seen = Seen { by_threads: true, ..Seen::default() };
    is_apart(of, facts, seen)
}

/// The accesses and ranges in the body of a loop.
#[derive(Default)]
struct Seen<'p> {
    /// True if the iterations run in threads, which may execute different instructions.
    by_threads: bool,
    /// Storages that each iteration allocates for itself.
    own: Vec<u32>,
    accesses: BTreeMap<u32, Vec<&'p Access>>,
    written: Vec<u32>,
    /// Least and greatest value of each inner loop variable.
    ranges: BTreeMap<Reg, (i128, i128)>,
    /// Registers that are written in the body.
    defined: BTreeSet<Reg>,
    /// Registers whose value may differ between iterations or within one, including the variable of the loop.
    varying: BTreeSet<Reg>,
}

fn is_parallel(of: &Loop, facts: Facts<'_>) -> bool {
    is_apart(of, facts, Seen::default())
}

fn is_apart<'p>(of: &'p Loop, facts: Facts<'p>, mut seen: Seen<'p>) -> bool {
    seen.varying.insert(of.var);
    if !seen.list(&of.body, facts) {
        return false;
    }
    let buffer = |access: &Access| &facts.buffers[access.buffer as usize];
    seen.written.iter().filter(|storage| !seen.own.contains(storage)).all(|storage| {
        let accesses = &seen.accesses[storage];
        let first = accesses[0];
        let is_one = accesses.iter().all(|access| access.buffer == first.buffer);
        let same_element = accesses.iter().all(|access| buffer(access).element == buffer(first).element);
        // The registers that equal indices have in common.
        let in_dim = |dim: usize| seen.told_by(accesses.iter().map(|access| &access.index[dim]), facts);
        let by_indices = || {
            let found: BTreeSet<Reg> = (0..first.index.len()).filter_map(in_dim).collect();
            facts.sums.determine(of.var, &found, &|form| seen.is_invariant(form))
        };
        let by_offset = || seen.told_by(accesses.iter().map(|access| &access.offset), facts) == Some(of.var);
        is_one && buffer(first).is_distinct() && by_indices() || same_element && by_offset()
    })
}

impl<'p> Seen<'p> {
    /// Returns true if the body of a loop executes the same instructions in each iteration.
    fn list(&mut self, list: &'p [Instr], facts: Facts<'_>) -> bool {
        list.iter().all(|instr| {
            self.define(instr);
            self.instr(instr, facts)
        })
    }

    /// Records the register that an instruction writes.
    fn define(&mut self, instr: &Instr) {
        let Some(reg) = instr.written() else { return };
        let is_again = !self.defined.insert(reg);
        if is_again || invariant(instr, &self.varying).is_none() {
            self.varying.insert(reg);
        }
    }

    /// Returns true if a form has the same value in all iterations, or if threads may compute different values.
    fn is_outer(&self, form: &Affine) -> bool {
        self.by_threads || self.is_invariant(form)
    }

    fn is_invariant(&self, form: &Affine) -> bool {
        form.terms.iter().all(|(reg, _)| !self.varying.contains(reg))
    }

    /// Returns the register whose value is the same wherever forms of one or more accesses are equal; `None` if there is no
    /// such register.
    fn told_by<'a>(&self, forms: impl Iterator<Item = &'a Affine>, facts: Facts<'_>) -> Option<Reg> {
        let (mut same, mut least, mut most) = (None, i128::MAX, i128::MIN);
        for form in forms {
            let form = facts.sums.written_out(form);
            let (mut low, mut high) = (i128::from(form.constant), i128::from(form.constant));
            let mut others = Vec::new();
            for (reg, factor) in form.terms {
                match self.ranges.get(&reg) {
                    Some((min, max)) => {
                        let ends = [min * i128::from(factor), max * i128::from(factor)];
                        (low, high) = (low + ends[0].min(ends[1]), high + ends[0].max(ends[1]));
                    }
                    None => others.push((reg, factor)),
                }
            }
            (least, most) = (least.min(low), most.max(high));
            if same.get_or_insert_with(|| others.clone()) != &others {
                return None;
            }
        }
        let same = same?;
        let mut varying = same.into_iter().filter(|(reg, _)| self.varying.contains(reg));
        let (reg, factor) = varying.next()?;
        (varying.next().is_none() && most - least < i128::from(factor).abs()).then_some(reg)
    }

    fn instr(&mut self, instr: &'p Instr, facts: Facts<'_>) -> bool {
        let same_bounds = |seen: &Seen<'_>, access: &Access| {
            let shape = &facts.buffers[access.buffer as usize].shape;
            access.checked.iter().all(|dim| seen.is_outer(&shape[usize::from(*dim)]))
        };
        match instr {
            Instr::Load { access, .. } => {
                self.accesses.entry(facts.buffers[access.buffer as usize].storage).or_default().push(access);
                same_bounds(self, access)
            }
            Instr::Store { access, .. } => {
                let storage = facts.buffers[access.buffer as usize].storage;
                self.accesses.entry(storage).or_default().push(access);
                self.written.push(storage);
                same_bounds(self, access)
            }
            Instr::Check { min, extent, .. } => self.is_outer(min) && self.is_outer(extent),
            Instr::If { then, otherwise, .. } => self.list(then, facts) && self.list(otherwise, facts),
            Instr::For(inner) => {
                if let (Some(min), Some(extent)) = (inner.min.as_constant(), inner.extent.as_constant()) {
                    let min = i128::from(min);
                    self.ranges.insert(inner.var, (min, min + i128::from(extent.max(1)) - 1));
                }
                self.is_outer(&inner.min) && self.is_outer(&inner.extent) && self.list(&inner.body, facts)
            }
            Instr::Allocate { storage, .. } if self.by_threads => {
                self.own.push(*storage);
                true
            }
            Instr::While { .. } | Instr::Break | Instr::Continue | Instr::Return(_) | Instr::Allocate { .. } => false,
            _ => true,
        }
    }
}

impl Buffer {
    /// Returns true if different indices denote different elements, that is, if each stride is at least the reach of
    /// the later dimensions.
    pub fn is_distinct(&self) -> bool {
        let dims = self.strides.iter().zip(&self.shape).rev();
        let mut reach = Affine::from(1);
        for (stride, extent) in dims {
            let known = stride == &reach
                || stride.as_constant().zip(reach.as_constant()).is_some_and(|(stride, reach)| stride >= reach);
            if !known {
                // The strides of a compact buffer are products of extents, so they are never less than the reach.
                return self.is_compact;
            }
            reach = match (stride.as_constant(), extent.as_constant()) {
                (Some(stride), Some(extent)) => Affine::from(stride.saturating_mul(extent.max(1))),
                (Some(stride), None) => extent.times(stride),
                _ => return self.is_compact,
            };
        }
        true
    }
}
