//! Whether a program reads only memory that was written before.
//!
//! Each store is a fact: an element was written. Where a loop ends, the facts of its body become those of all iterations:
//! a run of elements for each loop. A load is fine if a fact from before it has the same elements. The facts of a branch
//! count after it only if it is the first iteration of reductions, which initializes what the others add to.

use super::{Access, Affine, Binary, Instr, Literal, Loop, ParamKind, Program, Reg, Unary};
use std::collections::HashMap;

/// Elements that were written: from a position on, those of runs within runs, as steps and lengths.
#[derive(Clone, PartialEq)]
struct Written {
    storage: u32,
    base: Affine,
    runs: Vec<(i64, i64)>,
}

struct Reads<'p> {
    program: &'p Program,
    defined: HashMap<Reg, &'p Instr>,
    /// What is around the current place: a loop as its variable, first value and iterations; nothing for a branch, and for a
    /// loop whose iterations are not known.
    around: Vec<Option<(Reg, i64, i64)>>,
    facts: Vec<Written>,
    /// Elements of each storage whose size is a number, in those of its buffers.
    sizes: Vec<Option<i64>>,
    fine: bool,
}

/// Whether it is proven that a program reads no element of its results, or of memory that it allocates, before it wrote it.
pub fn reads_what_it_wrote(program: &Program) -> bool {
    let mut defined = HashMap::new();
    define(&program.body, &mut defined);
    let mut sizes = vec![None; program.storages.len()];
    for param in &program.params {
        if let ParamKind::Tensor(of) = &param.kind {
            let extents = of.shape.iter().map(|dim| dim.as_int());
            sizes[of.storage as usize] = extents.into_iter().try_fold(1i64, |all, extent| all.checked_mul(extent?));
        }
    }
    let mut reads = Reads { program, defined, around: Vec::new(), facts: Vec::new(), sizes, fine: true };
    reads.list(&program.body);
    reads.fine
}

fn define<'p>(list: &'p [Instr], out: &mut HashMap<Reg, &'p Instr>) {
    for instr in list {
        match instr {
            Instr::Const { dst, .. }
            | Instr::Affine { dst, .. }
            | Instr::Unary { dst, .. }
            | Instr::Binary { dst, .. } => {
                out.insert(*dst, instr);
            }
            Instr::For(of) => define(&of.body, out),
            Instr::If { then, otherwise, .. } => [then, otherwise].into_iter().for_each(|list| define(list, out)),
            Instr::While { head, body, .. } => [head, body].into_iter().for_each(|list| define(list, out)),
            _ => {}
        }
    }
}

impl<'p> Reads<'p> {
    fn list(&mut self, list: &'p [Instr]) {
        for instr in list {
            match instr {
                Instr::Load { access, .. } => self.load(access),
                Instr::Store { access, .. } => {
                    let storage = self.program.buffers[access.buffer as usize].storage;
                    self.facts.push(Written { storage, base: access.offset.clone(), runs: Vec::new() });
                }
                Instr::Allocate { storage, factors, .. } => {
                    self.facts.retain(|fact| fact.storage != *storage);
                    let extents = factors.iter().map(Affine::as_constant);
                    self.sizes[*storage as usize] =
                        extents.into_iter().try_fold(1i64, |all, extent| all.checked_mul(extent?));
                }
                Instr::For(of) => self.for_(of),
                Instr::If { cond, then, otherwise, .. } => {
                    let before = self.facts.len();
                    self.branch(then);
                    if !self.is_first(*cond, before) {
                        self.facts.truncate(before);
                    }
                    let before = self.facts.len();
                    self.branch(otherwise);
                    self.facts.truncate(before);
                }
                Instr::While { head, body, .. } => {
                    let before = self.facts.len();
                    self.branch(head);
                    self.branch(body);
                    self.facts.truncate(before);
                }
                // What comes after a jump may not be executed.
                Instr::Break | Instr::Continue => self.fine = false,
                Instr::Return(_) => self.fine &= self.around.is_empty(),
                _ => {}
            }
        }
    }

    fn branch(&mut self, list: &'p [Instr]) {
        self.around.push(None);
        self.list(list);
        self.around.pop();
    }

    /// The loop of a variable, if its iterations are known.
    fn loop_of(&self, reg: Reg) -> Option<(Reg, i64, i64)> {
        self.around.iter().flatten().find(|(var, ..)| *var == reg).copied()
    }

    fn for_(&mut self, of: &'p Loop) {
        let known = of.min.as_constant().zip(of.extent.as_constant()).filter(|(_, extent)| *extent > 0);
        let before = self.facts.len();
        self.around.push(known.map(|(min, extent)| (of.var, min, extent)));
        self.list(&of.body);
        self.around.pop();
        // The body may allocate anew what was written before.
        let new = self.facts.split_off(before.min(self.facts.len()));
        let Some((min, extent)) = known else { return };
        self.facts.extend(new.into_iter().filter_map(|fact| over(fact, of.var, min, extent)));
    }

    fn load(&mut self, access: &Access) {
        let storage = self.program.buffers[access.buffer as usize].storage;
        if !self.program.storages[storage as usize].is_written {
            return;
        }
        let is_known = self.facts.iter().any(|fact| fact.storage == storage && self.has(fact, &access.offset));
        self.fine &= is_known;
    }

    /// Whether elements that were written include one at a position.
    fn has(&self, fact: &Written, position: &Affine) -> bool {
        // All elements of the memory; that a position is within it is checked where it is used.
        if let (0, [], [(1, n)]) = (fact.base.constant, &fact.base.terms[..], &fact.runs[..])
            && self.sizes[fact.storage as usize] == Some(*n)
        {
            return true;
        }
        let mut asked = Some(Written { storage: fact.storage, base: position.clone(), runs: Vec::new() });
        for (reg, factor) in &position.terms {
            if fact.base.factor(*reg) == *factor {
                continue;
            }
            let Some((_, min, extent)) = self.loop_of(*reg) else { return false };
            asked = asked.and_then(|asked| over(asked, *reg, min, extent));
        }
        let Some(asked) = asked else { return false };
        if asked.base.terms != fact.base.terms {
            return false;
        }
        let from = asked.base.constant.checked_sub(fact.base.constant);
        match (&fact.runs[..], from) {
            (runs, Some(0)) if *runs == asked.runs => true,
            // A run without gaps has all that lies within it.
            ([(1, n)], Some(from)) => from >= 0 && reach(&asked.runs).is_some_and(|reach| from + reach <= *n),
            _ => false,
        }
    }

    /// Whether a condition holds in the first iteration of some loops, and in that one only. The new facts of its branch must
    /// not depend on these loops, and what is within the loops must be the same in all iterations.
    fn is_first(&self, cond: Reg, new: usize) -> bool {
        match self.defined.get(&cond) {
            Some(Instr::Binary { op: Binary::And, a, b, .. }) => self.is_first(*a, new) && self.is_first(*b, new),
            Some(Instr::Binary { op: Binary::Eq, a, b, .. }) => {
                let [a, b] = [a, b].map(|reg| self.form(*reg, 0));
                let Some(apart) = a.zip(b).map(|(a, b)| a.plus(&b, -1)) else { return false };
                let apart = if apart.terms.iter().all(|(_, factor)| *factor < 0) { apart.times(-1) } else { apart };
                let mut least = apart.constant;
                for (reg, factor) in &apart.terms {
                    let Some((_, min, _)) = self.loop_of(*reg).filter(|_| *factor > 0) else { return false };
                    least = least.wrapping_add(min.wrapping_mul(*factor));
                }
                let is_one = |around: &Option<(Reg, i64, i64)>| {
                    around.is_some_and(|(var, ..)| apart.terms.iter().any(|(reg, _)| *reg == var))
                };
                let mut within = self.around.iter().skip_while(|around| !is_one(around));
                let apart_from = |fact: &Written| apart.terms.iter().all(|(var, _)| fact.base.factor(*var) == 0);
                least == 0 && within.all(Option::is_some) && self.facts[new..].iter().all(apart_from)
            }
            _ => false,
        }
    }

    /// A register as a form of loop variables.
    fn form(&self, reg: Reg, depth: u32) -> Option<Affine> {
        if depth > 8 || self.loop_of(reg).is_some() {
            return Some(reg.into());
        }
        match self.defined.get(&reg) {
            Some(Instr::Const { value: Literal::Int(value), .. }) => Some((*value).into()),
            Some(Instr::Affine { form, .. }) => Some(form.clone()),
            Some(Instr::Unary { op: Unary::Cast, a, .. }) => self.form(*a, depth + 1),
            _ => Some(reg.into()),
        }
    }
}

/// What all iterations of a loop write together.
fn over(mut fact: Written, var: Reg, min: i64, extent: i64) -> Option<Written> {
    let factor = fact.base.factor(var);
    if factor == 0 {
        return Some(fact);
    }
    fact.base = fact.base.plus(&var.into(), -factor);
    fact.base.constant = fact.base.constant.checked_add(min.checked_mul(factor)?)?;
    (factor > 0).then_some(())?;
    if extent > 1 {
        fact.runs.push((factor, extent));
        fact.runs.sort_unstable();
    }
    // Runs that follow each other without gaps are one.
    let mut runs: Vec<(i64, i64)> = Vec::with_capacity(fact.runs.len());
    for (step, n) in fact.runs {
        match runs.last_mut() {
            Some((first, many)) if first.checked_mul(*many) == Some(step) => *many = many.checked_mul(n)?,
            _ => runs.push((step, n)),
        }
    }
    fact.runs = runs;
    Some(fact)
}

/// How many positions runs reach over.
fn reach(runs: &[(i64, i64)]) -> Option<i64> {
    runs.iter().try_fold(1i64, |sum, (step, n)| sum.checked_add(step.checked_mul(n - 1)?))
}
