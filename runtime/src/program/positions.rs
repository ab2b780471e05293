//! Finds the parameters that determine element positions or trip counts. The integers in these parameters must be
//! small; integers in other parameters may have any value.

use super::{Affine, Instr, ParamKind, Program, Reg, each_instr};
use std::collections::{BTreeSet, HashMap};

/// Returns the positions of the parameters whose integers reach an index, an extent or a `while` condition.
pub fn positions(program: &Program) -> BTreeSet<usize> {
    let mut flow = Flow::default();
    for (at, param) in program.params.iter().enumerate() {
        match &param.kind {
            ParamKind::Scalar(reg) => drop(flow.registers.insert(*reg, BTreeSet::from([at]))),
            ParamKind::Tensor(of) => drop(flow.memory.insert(of.storage, BTreeSet::from([at]))),
            ParamKind::Handle { storage } => drop(flow.memory.insert(*storage, BTreeSet::from([at]))),
        }
    }
    // Repeats until nothing changes, because a value written in one iteration may be read in the next.
    loop {
        let before = flow.size();
        each_instr(&program.body, &mut |instr| flow.through(program, instr));
        if flow.size() == before {
            return flow.found;
        }
    }
}

/// Returns the registers whose values are loaded from memory or computed from loaded values.
pub fn from_memory(program: &Program) -> BTreeSet<Reg> {
    let mut out = BTreeSet::new();
    each_instr(&program.body, &mut |instr| {
        let is_read = |reg: &Reg| out.contains(reg);
        let depends = match instr {
            Instr::Load { .. } => true,
            Instr::Affine { form, .. } => form.terms.iter().any(|(reg, _)| is_read(reg)),
            Instr::Unary { a, .. } | Instr::Copy { src: a, .. } => is_read(a),
            Instr::Binary { a, b, .. } => is_read(a) || is_read(b),
            Instr::Select { cond, then, otherwise, .. } => [cond, then, otherwise].into_iter().any(is_read),
            _ => false,
        };
        if let Some(dst) = instr.written().filter(|_| depends) {
            out.insert(dst);
        }
    });
    out
}

/// The parameters whose values flow into each register and storage.
#[derive(Default)]
struct Flow {
    registers: HashMap<Reg, BTreeSet<usize>>,
    memory: HashMap<u32, BTreeSet<usize>>,
    found: BTreeSet<usize>,
}

impl Flow {
    fn size(&self) -> usize {
        let all = self.registers.values().chain(self.memory.values());
        all.map(BTreeSet::len).sum::<usize>() + self.found.len()
    }

    fn of(&self, regs: impl IntoIterator<Item = Reg>) -> BTreeSet<usize> {
        regs.into_iter().filter_map(|reg| self.registers.get(&reg)).flatten().copied().collect()
    }

    fn form(&self, form: &Affine) -> BTreeSet<usize> {
        self.of(form.terms.iter().map(|(reg, _)| *reg))
    }

    fn into(&mut self, dst: Reg, from: BTreeSet<usize>) {
        self.registers.entry(dst).or_default().extend(from);
    }

    fn through(&mut self, program: &Program, instr: &Instr) {
        let storage = |buffer: u32| program.buffers[buffer as usize].storage;
        match instr {
            Instr::Affine { dst, form } => self.into(*dst, self.form(form)),
            Instr::Unary { dst, a, .. } => self.into(*dst, self.of([*a])),
            Instr::Binary { dst, a, b, .. } => self.into(*dst, self.of([*a, *b])),
            Instr::Select { dst, then, otherwise, .. } => self.into(*dst, self.of([*then, *otherwise])),
            Instr::Copy { dst, src } => self.into(*dst, self.of([*src])),
            Instr::Load { dst, access } => {
                self.found.extend(access.index.iter().flat_map(|form| self.form(form)).collect::<Vec<_>>());
                let from = self.memory.get(&storage(access.buffer)).cloned().unwrap_or_default();
                self.into(*dst, from);
            }
            Instr::Store { src, access } => {
                self.found.extend(access.index.iter().flat_map(|form| self.form(form)).collect::<Vec<_>>());
                let from = self.of([*src]);
                self.memory.entry(storage(access.buffer)).or_default().extend(from);
            }
            Instr::Check { form, .. } => self.found.extend(self.form(form)),
            Instr::For(of) => self.found.extend(self.form(&of.min).into_iter().chain(self.form(&of.extent))),
            Instr::While { cond, .. } => self.found.extend(self.of([*cond])),
            Instr::Allocate { factors, .. } => {
                self.found.extend(factors.iter().flat_map(|form| self.form(form)).collect::<Vec<_>>());
            }
            _ => {}
        }
    }
}
