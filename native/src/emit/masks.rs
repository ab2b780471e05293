//! Emits conditions that differ between the lanes of a vector.

use super::function::Function;
use super::types;
use runtime::Fault;
use runtime::program::{Affine, Binary, Instr, Reg, Scalar};

/// Maximum number of instructions that are emitted twice: for vectors whose lanes are all active, and with a mask.
const MOST_TWICE: usize = 128;

/// Maximum distance between the values of a comparison in two successive lanes.
const LONGEST_STEP: i64 = 1 << 24;

/// Maximum number of comparisons in a condition of which only the last lane is tested.
const MOST_COMPARED: usize = 4;

impl Function<'_, '_> {
    /// Emits both branches of a condition that differs between lanes. If the condition can be tested in the last lane
    /// alone, vectors whose lanes are all active are computed without a mask. This excludes vectors of private memory,
    /// which would no longer stay in registers.
    pub(super) fn masked(&mut self, cond: Reg, lists: [&[Instr]; 2]) -> Result<(), Fault> {
        let [then, otherwise] = lists;
        let is_short = then.len() <= MOST_TWICE && then.iter().all(|instr| self.is_of_given_memory(instr));
        let is_alone = self.mask.is_none() && otherwise.is_empty() && is_short;
        let Some(rising) = self.rising(cond).filter(|_| is_alone) else { return self.under_masks(cond, lists) };
        let all = self.holds_in_all_lanes(cond, &rising);
        let [whole, part, end] = [self.label(), self.label(), self.label()];
        self.branch(&all, &whole, &part);
        self.start(&whole);
        self.list(then)?;
        self.go(&end);
        self.start(&part);
        self.under_masks(cond, lists)?;
        self.go(&end);
        self.start(&end);
        Ok(())
    }

    /// Returns false for an access to private memory, and for an instruction that contains others.
    fn is_of_given_memory(&self, instr: &Instr) -> bool {
        match instr {
            Instr::For(_) | Instr::If { .. } | Instr::While { .. } => false,
            Instr::Load { access, .. } | Instr::Store { access, .. } => {
                self.module.given.contains(&self.module.program.buffers[access.buffer as usize].storage)
            }
            _ => true,
        }
    }

    /// Returns the left operands of the comparisons `a < b` of which a condition consists, if each `a` grows by the same
    /// number from lane to lane, and `b` is the same in all lanes.
    fn rising(&self, cond: Reg) -> Option<Vec<Reg>> {
        let vector = self.vector.as_ref()?;
        let (mut out, mut left) = (Vec::new(), vec![cond]);
        while let Some(cond) = left.pop() {
            match self.module.definitions.get(&cond)? {
                Instr::Binary { op: Binary::And, a, b, .. } if left.len() < MOST_COMPARED => left.extend([*a, *b]),
                Instr::Binary { op: Binary::Lt, a, b, .. } if out.len() < MOST_COMPARED => {
                    let is_signed = matches!(self.module.scalar(*a), Scalar::Int(32 | 64));
                    let form = self.module.sums.written_out(&Affine::from(*a));
                    let varies = |reg: &Reg| *reg != vector.var && vector.varying.contains(reg);
                    let is_straight = !form.terms.iter().any(|(reg, _)| varies(reg));
                    let rises = (1..=LONGEST_STEP).contains(&form.factor(vector.var));
                    (is_signed && is_straight && rises && !vector.varying.contains(b)).then(|| out.push(*a))?;
                }
                _ => return None,
            }
        }
        Some(out)
    }

    /// Returns the truth of a condition in the last lane, which implies all other lanes, because no operand in `rising` wraps
    /// around between the first and the last lane.
    fn holds_in_all_lanes(&mut self, cond: Reg, rising: &[Reg]) -> String {
        let lanes = self.vector.as_ref().map_or(1, |vector| vector.lanes);
        self.lanes = lanes;
        let (last, truth) = (lanes - 1, self.ty("i1"));
        let cond = self.value(cond);
        let mut all = self.op(format_args!("extractelement {truth} {cond}, i64 {last}"));
        for reg in rising {
            let value = self.value(*reg);
            let of_lane = types::of(self.module.scalar(*reg));
            let of_vector = self.ty(of_lane);
            let [least, most] =
                [0, last].map(|lane| self.op(format_args!("extractelement {of_vector} {value}, i64 {lane}")));
            let is_ordered = self.op(format_args!("icmp sle {of_lane} {least}, {most}"));
            all = self.op(format_args!("and i1 {all}, {is_ordered}"));
        }
        self.lanes = 1;
        all
    }

    /// Emits both branches of a condition that differs between lanes; each branch masks its inactive lanes.
    fn under_masks(&mut self, cond: Reg, lists: [&[Instr]; 2]) -> Result<(), Fault> {
        let lanes = self.vector.as_ref().map_or(1, |vector| vector.lanes);
        self.lanes = lanes;
        let (truth, before) = (self.ty("i1"), self.mask.clone());
        let cond = self.value(cond);
        let (all, none) = (self.constant("i1", "true"), self.constant("i1", "false"));
        let outer = match &before {
            Some(slot) => self.op(format_args!("load {truth}, ptr {slot}")),
            None => all.clone(),
        };
        let not = self.op(format_args!("xor {truth} {cond}, {all}"));
        for (list, holds) in lists.into_iter().zip([cond, not]) {
            if list.is_empty() {
                continue;
            }
            self.lanes = lanes;
            let mask = self.op(format_args!("select {truth} {outer}, {truth} {holds}, {truth} {none}"));
            let mask = self.as_unknown(&mask);
            let name = format!("mask.{}", self.label());
            let slot = self.slot(&name, &truth);
            self.line(format_args!("store {truth} {mask}, ptr {slot}"));
            self.mask = Some(slot);
            self.list(list)?;
            self.mask.clone_from(&before);
        }
        Ok(())
    }

    /// Returns the active lanes as a value that LLVM cannot fold. For constant lanes, LLVM emits shuffles after
    /// each operation; for unknown lanes, a mask, which is free.
    pub(super) fn as_unknown(&mut self, mask: &str) -> String {
        let zero = self.unknown_zero();
        self.with_zero(mask, zero)
    }

    /// Returns the active lanes as a mask that LLVM cannot identify with other masks.
    pub(super) fn hidden(&mut self, mask: &str) -> String {
        let zero = self.op(format_args!("call i64 asm sideeffect \"\", \"=r,0\"(i64 0)"));
        self.with_zero(mask, &zero)
    }

    fn with_zero(&mut self, mask: &str, zero: &str) -> String {
        let (lanes, truth) = (self.lanes, self.ty("i1"));
        let bits = self.op(format_args!("bitcast {truth} {mask} to i{lanes}"));
        let wide = if lanes < 64 { self.op(format_args!("zext i{lanes} {bits} to i64")) } else { bits };
        let same = self.op(format_args!("xor i64 {wide}, {zero}"));
        let bits = if lanes < 64 { self.op(format_args!("trunc i64 {same} to i{lanes}")) } else { same };
        self.op(format_args!("bitcast i{lanes} {bits} to {truth}"))
    }
}
