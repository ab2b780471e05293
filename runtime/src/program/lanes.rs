//! Finds data-parallel loops, whose iterations can run at the same time.
//!
//! A loop is data-parallel if its body executes the same instructions in each iteration (no `while`, no jumps, no
//! allocation, inner loops of the same length), and no iteration accesses an element that another iteration writes.
//! For each memory that the body writes, all accesses must have a dimension, or the whole position, of the form `c *
//! var + rest`, with the same `c` everywhere, and a `rest` of loop invariants, constants, and inner loop variables
//! that together stay below `c`. The order within an iteration is kept, so results have the same bits. Registers
//! within a loop have greater numbers than its variable, because they were created later.

use super::{Access, Affine, Buffer, Instr, Loop, Program, Reg};
use std::collections::BTreeMap;

/// Maximum number of loops that run together.
const MOST_LOOPS: usize = 3;
/// Minimum trip count of an inner loop that runs efficiently on its own.
const LONG: i64 = 16;

/// Marks the loops of a program.
pub(super) fn mark(program: &mut Program) {
    let mut body = std::mem::take(&mut program.body);
    each_list(&mut body, &program.buffers);
    program.body = body;
}

fn each_list(list: &mut [Instr], buffers: &[Buffer]) {
    for instr in list {
        match instr {
            Instr::For(of) => each_loop(of, buffers),
            Instr::If { then, otherwise, .. } => {
                each_list(then, buffers);
                each_list(otherwise, buffers);
            }
            Instr::While { head, body, .. } => {
                each_list(head, buffers);
                each_list(body, buffers);
            }
            _ => {}
        }
    }
}

fn each_loop(of: &mut Loop, buffers: &[Buffer]) {
    // A chain of parallel loops, each of which is the only content of the previous loop.
    let mut depth = 0;
    let mut next = Some(&*of);
    let mut last = &*of;
    while let Some(inner) = next.filter(|inner| is_parallel(inner, buffers)) {
        depth += 1;
        last = inner;
        next = only_loop(&inner.body);
    }
    let marked = depth > 0 && !inner_loops_suffice(&last.body, buffers);
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
    each_list(&mut current.body, buffers);
}

fn only_loop(body: &[Instr]) -> Option<&Loop> {
    match body {
        [Instr::For(inner)] => Some(inner),
        _ => None,
    }
}

/// Returns true if all stores are in long parallel inner loops. It is then better to run these in lanes than the outer
/// loops.
fn inner_loops_suffice(body: &[Instr], buffers: &[Buffer]) -> bool {
    let mut stores = 0;
    let fine = body.iter().all(|instr| match instr {
        Instr::Store { .. } => false,
        Instr::For(of) => {
            stores += 1;
            let long = of.extent.as_constant().is_none_or(|extent| extent >= LONG);
            long && is_parallel(of, buffers) || inner_loops_suffice(&of.body, buffers)
        }
        Instr::If { then, otherwise, .. } => {
            let lists = [then, otherwise];
            lists.iter().all(|list| list.is_empty() || inner_loops_suffice(list, buffers))
        }
        _ => true,
    });
    fine && stores > 0
}

/// Returns true if threads can share the iterations of a loop, that is, if no iteration accesses elements that another
/// iteration writes. Memory that the body allocates is private to each thread.
pub fn can_be_shared(of: &Loop, buffers: &[Buffer]) -> bool {
    let seen = Seen { by_threads: true, ..Seen::default() };
    is_apart(of, buffers, seen)
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
}

fn is_parallel(of: &Loop, buffers: &[Buffer]) -> bool {
    is_apart(of, buffers, Seen::default())
}

fn is_apart<'p>(of: &'p Loop, buffers: &'p [Buffer], mut seen: Seen<'p>) -> bool {
    if !seen.list(&of.body, of.var, buffers) {
        return false;
    }
    seen.written.iter().filter(|storage| !seen.own.contains(storage)).all(|storage| {
        let accesses = &seen.accesses[storage];
        let first = accesses[0];
        let one = accesses.iter().all(|access| access.buffer == first.buffer);
        let by_dim = |dim: usize| {
            let forms: Vec<&Affine> = accesses.iter().map(|access| &access.index[dim]).collect();
            are_apart(&forms, of.var, &seen.ranges)
        };
        let distinct = one && buffers[first.buffer as usize].is_distinct();
        let same_element = accesses
            .iter()
            .all(|access| buffers[access.buffer as usize].element == buffers[first.buffer as usize].element);
        let offsets: Vec<&Affine> = accesses.iter().map(|access| &access.offset).collect();
        distinct && (0..first.index.len()).any(by_dim) || same_element && are_apart(&offsets, of.var, &seen.ranges)
    })
}

impl<'p> Seen<'p> {
    /// Returns true if the body of a loop executes the same instructions in each iteration.
    fn list(&mut self, list: &'p [Instr], var: Reg, buffers: &[Buffer]) -> bool {
        let by_threads = self.by_threads;
        let outer = |form: &Affine| by_threads || form.terms.iter().all(|(reg, _)| *reg < var);
        let same_bounds = |access: &Access| {
            let shape = &buffers[access.buffer as usize].shape;
            access.checked.iter().all(|dim| outer(&shape[usize::from(*dim)]))
        };
        list.iter().all(|instr| match instr {
            Instr::Load { access, .. } => {
                self.accesses.entry(buffers[access.buffer as usize].storage).or_default().push(access);
                same_bounds(access)
            }
            Instr::Store { access, .. } => {
                let storage = buffers[access.buffer as usize].storage;
                self.accesses.entry(storage).or_default().push(access);
                self.written.push(storage);
                same_bounds(access)
            }
            Instr::Check { min, extent, .. } => outer(min) && outer(extent),
            Instr::If { then, otherwise, .. } => self.list(then, var, buffers) && self.list(otherwise, var, buffers),
            Instr::For(inner) => {
                if let (Some(min), Some(extent)) = (inner.min.as_constant(), inner.extent.as_constant()) {
                    let min = i128::from(min);
                    self.ranges.insert(inner.var, (min, min + i128::from(extent.max(1)) - 1));
                }
                outer(&inner.min) && outer(&inner.extent) && self.list(&inner.body, var, buffers)
            }
            Instr::Allocate { storage, .. } if by_threads => {
                self.own.push(*storage);
                true
            }
            Instr::While { .. } | Instr::Break | Instr::Continue | Instr::Return(_) | Instr::Allocate { .. } => false,
            _ => true,
        })
    }
}

/// Returns true if no two of the forms, of one or more accesses, are equal in different iterations of the loop over
/// `var`.
fn are_apart(forms: &[&Affine], var: Reg, ranges: &BTreeMap<Reg, (i128, i128)>) -> bool {
    let outer = |form: &Affine| form.terms.iter().filter(|(reg, _)| *reg < var).copied().collect::<Vec<(Reg, i64)>>();
    let (factor, same) = (forms[0].factor(var), outer(forms[0]));
    let (mut least, mut most) = (i128::MAX, i128::MIN);
    for form in forms {
        if form.factor(var) != factor || outer(form) != same {
            return false;
        }
        let (mut low, mut high) = (i128::from(form.constant), i128::from(form.constant));
        for (reg, factor) in form.terms.iter().filter(|(reg, _)| *reg > var) {
            let Some((min, max)) = ranges.get(reg) else { return false };
            let (a, b) = (min * i128::from(*factor), max * i128::from(*factor));
            (low, high) = (low + a.min(b), high + a.max(b));
        }
        (least, most) = (least.min(low), most.max(high));
    }
    factor != 0 && most - least < i128::from(factor).abs()
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
