//! Emits lists of instructions, conditions and loops.

use super::Field;
use super::function::{Function, Vector};
use super::limits::{VECTOR, cost_of, is_large, may_be_vector, own_cost};
use super::{read, types, unasked};
use runtime::Fault;
use runtime::program::{
    Access, Affine, Instr, Literal, Loop, LoopKind, Mark, Note, Program, Reg, Scalar, can_be_shared, each_instr,
};
use std::collections::BTreeSet;
use std::fmt::Write;

/// Maximum number of lanes of a vector.
const MOST_LANES: i64 = 64;

/// Returns the registers that may differ between the iterations of a loop.
pub(super) fn varying(program: &Program, of: &Loop) -> BTreeSet<Reg> {
    let mut varying = BTreeSet::from([of.var]);
    each_instr(&of.body, &mut |instr| {
        // The result of branches varies if the condition varies.
        if let Instr::If { cond, then, otherwise, .. } = instr
            && varying.contains(cond)
        {
            each_instr(then, &mut |instr| returned(instr, &mut varying));
            each_instr(otherwise, &mut |instr| returned(instr, &mut varying));
        }
        let mut varies = false;
        read(instr, program, &mut |reg| varies |= varying.contains(&reg));
        if let Some(dst) = instr.written().filter(|_| varies) {
            varying.insert(dst);
        }
    });
    varying
}

/// Adds the register written by a copy.
fn returned(instr: &Instr, out: &mut BTreeSet<Reg>) {
    if let Instr::Copy { dst, .. } = instr {
        out.insert(*dst);
    }
}

impl Function<'_, '_> {
    pub(super) fn list(&mut self, list: &[Instr]) -> Result<(), Fault> {
        list.iter().try_for_each(|instr| self.instr(instr))
    }

    fn instr(&mut self, instr: &Instr) -> Result<(), Fault> {
        let varies = |vector: &&Vector| match instr.written() {
            Some(dst) => vector.varying.contains(&dst),
            None => matches!(instr, Instr::Store { .. }),
        };
        self.lanes = self.vector.as_ref().filter(varies).map_or(1, |vector| vector.lanes);
        match instr {
            Instr::Const { dst, value } => self.const_(*dst, *value),
            Instr::Affine { dst, form } => {
                let value = self.form(form);
                match self.fits(*dst, form) {
                    true => self.write(*dst, &value),
                    false => {
                        let value = self.cut(self.module.scalar(*dst), &value);
                        self.set(*dst, &value);
                    }
                }
            }
            Instr::Unary { op, dst, a } => self.unary(*op, *dst, *a),
            Instr::Binary { op, dst, a, b, place } => self.binary(*op, *dst, [*a, *b], *place),
            Instr::MulAdd { dst, a, b, c } => self.mul_add(*dst, [*a, *b, *c]),
            Instr::Select { dst, cond, then, otherwise } => {
                let [cond, then, otherwise] = [*cond, *then, *otherwise].map(|reg| self.value(reg));
                let ty = self.ty(types::of(self.module.scalar(*dst)));
                let truth = self.ty("i1");
                let value = self.op(format_args!("select {truth} {cond}, {ty} {then}, {ty} {otherwise}"));
                self.set(*dst, &value);
            }
            Instr::Copy { dst, src } => self.copy(*dst, *src),
            Instr::Note(note) => self.note(note),
            Instr::Load { dst, access } => self.load(*dst, access),
            Instr::Store { src, access } => self.store(*src, access),
            Instr::Check { what, form, min, extent, place } => self.check(what, [form, min, extent], *place),
            Instr::Allocate { storage, element, factors, .. } => self.allocate(*storage, *element, factors),
            Instr::Assert { cond, message, place } => {
                let holds = self.value(*cond);
                self.asserted(&holds, message, *place);
            }
            Instr::If { cond, then, otherwise, marks } => self.if_(*cond, [then, otherwise], *marks)?,
            Instr::For(of) => self.for_(of)?,
            Instr::While { head, cond, body, mark } => self.while_(head, *cond, body, *mark)?,
            Instr::Break | Instr::Continue => {
                let at = usize::from(matches!(instr, Instr::Break));
                if let Some(label) = self.loops.last().map(|labels| labels[at].clone()) {
                    self.go(&label);
                }
            }
            Instr::Return(reg) => self.return_(*reg),
        }
        Ok(())
    }

    /// Returns true if a form needs no wrapping, because the register is stored in 64 bits and the value fits its
    /// type.
    fn fits(&self, dst: Reg, form: &Affine) -> bool {
        let (low, high) = self.module.scalar(dst).range();
        let all = low == i64::MIN;
        self.is_wide(dst) && (all || self.range(form).is_some_and(|(least, most)| low <= least && most <= high))
    }

    /// Copies a register. Masked lanes keep their values.
    fn copy(&mut self, dst: Reg, src: Reg) {
        let value = self.value(src);
        let value = match self.mask.clone().filter(|_| self.lanes > 1) {
            None => value,
            Some(slot) => {
                let (truth, ty) = (self.ty("i1"), self.ty(types::of(self.module.scalar(dst))));
                let (before, mask) = (self.value(dst), self.op(format_args!("load {truth}, ptr {slot}")));
                self.merged(&ty, &mask, [&value, &before])
            }
        };
        self.set(dst, &value);
    }

    /// Selects the new value in active lanes, and the previous value in inactive lanes.
    pub(super) fn merged(&mut self, ty: &str, mask: &str, [value, before]: [&str; 2]) -> String {
        let truth = self.ty("i1");
        let mask = if self.module.purpose.hides_masks { self.hidden(mask) } else { mask.to_string() };
        self.op(format_args!("select {truth} {mask}, {ty} {value}, {ty} {before}"))
    }

    fn const_(&mut self, dst: Reg, value: Literal) {
        if !self.module.constants.contains_key(&dst) {
            let value = self.literal(dst, value);
            self.write(dst, &value);
        }
    }

    fn return_(&mut self, reg: Option<Reg>) {
        if let Some(reg) = reg {
            let (scalar, value) = (self.module.scalar(reg), self.kept_value(reg));
            let bits = match scalar {
                _ if self.is_wide(reg) => value,
                Scalar::F64 => self.op(format_args!("bitcast double {value} to i64")),
                scalar if scalar.is_float() => {
                    let double = self.op(format_args!("fpext float {value} to double"));
                    self.op(format_args!("bitcast double {double} to i64"))
                }
                scalar => self.extended(scalar, &value),
            };
            let at = self.context_at(Field::Result);
            self.line(format_args!("store i64 {bits}, ptr {at}, align 8"));
        }
        self.leave();
        self.ret("0");
    }

    /// Emits code that records that the marked statements are executed.
    fn reach(&mut self, mark: Mark) {
        if let Some(mark) = mark.filter(|_| self.module.purpose.watched) {
            let slot = self.slot_with(&format!("mark{mark}"), "i1", "false");
            self.line(format_args!("store i1 true, ptr {slot}"));
        }
    }

    /// Emits code that sets the flag in `slot` if `holds` is true.
    pub(super) fn remember(&mut self, slot: &str, holds: &str) {
        let slot = self.slot_with(slot, "i1", "false");
        let before = self.op(format_args!("load i1, ptr {slot}"));
        let now = self.op(format_args!("or i1 {before}, {holds}"));
        self.line(format_args!("store i1 {now}, ptr {slot}"));
    }

    /// Emits a test that a condition holds in at least one lane.
    fn in_any_lane(&mut self, holds: &str) -> String {
        if self.lanes == 1 {
            return holds.to_string();
        }
        let (ty, name) = (self.ty("i1"), format!("llvm.vector.reduce.or.v{}i1", self.lanes));
        self.module.declared.insert(format!("declare i1 @{name}({ty})"));
        self.op(format_args!("call i1 @{name}({ty} {holds})"))
    }

    fn note(&mut self, note: &Note) {
        if !self.module.purpose.watched {
            return;
        }
        for (mark, truth) in note.marks.into_iter().zip([true, false]) {
            let Some(mark) = mark else { continue };
            let conditions: Vec<(Reg, bool)> = note.within.iter().copied().chain([(note.cond, truth)]).collect();
            self.lanes = conditions.iter().map(|(cond, _)| self.lanes_of(*cond)).max().unwrap_or(1);
            let (ty, mut holds) = (self.ty("i1"), self.constant("i1", "true"));
            for (cond, truth) in conditions {
                let (value, truth) = (self.value(cond), self.constant("i1", &truth.to_string()));
                let is = self.op(format_args!("icmp eq {ty} {value}, {truth}"));
                holds = self.op(format_args!("and {ty} {holds}, {is}"));
            }
            let holds = self.in_any_lane(&holds);
            self.lanes = 1;
            self.remember(&format!("mark{mark}"), &holds);
        }
    }

    /// Stores the records in the context before leaving the function.
    pub(super) fn leave(&mut self) {
        if !self.module.purpose.watched {
            return;
        }
        let n = self.module.program.marks.len();
        let marks = self.context_field(Field::Marks, "ptr");
        for mark in 0..n {
            let slot = self.slot_with(&format!("mark{mark}"), "i1", "false");
            let reached = self.op(format_args!("load i1, ptr {slot}"));
            let at = self.op(format_args!("getelementptr i8, ptr {marks}, i64 {mark}"));
            self.or_into(&at, "i8", &reached);
        }
        let slot = self.slot_with("unwritten", "i1", "false");
        let unwritten = self.op(format_args!("load i1, ptr {slot}"));
        let at = self.context_at(Field::Unwritten);
        self.or_into(&at, "i64", &unwritten);
    }

    fn or_into(&mut self, at: &str, ty: &str, truth: &str) {
        let more = self.op(format_args!("zext i1 {truth} to {ty}"));
        let before = self.op(format_args!("load {ty}, ptr {at}"));
        let now = self.op(format_args!("or {ty} {before}, {more}"));
        self.line(format_args!("store {ty} {now}, ptr {at}"));
    }

    fn if_(&mut self, cond: Reg, lists: [&[Instr]; 2], marks: [Mark; 2]) -> Result<(), Fault> {
        if self.vector.as_ref().is_some_and(|vector| vector.varying.contains(&cond)) {
            return self.masked(cond, lists);
        }
        let cond = self.value(cond);
        let labels = [self.label(), self.label()];
        let end = self.label();
        self.branch(&cond, &labels[0], &labels[1]);
        for ((list, label), mark) in lists.into_iter().zip(labels).zip(marks) {
            self.start(&label);
            self.reach(mark);
            self.list(list)?;
            self.go(&end);
        }
        self.start(&end);
        Ok(())
    }

    fn while_(&mut self, head: &[Instr], cond: Reg, body: &[Instr], mark: Mark) -> Result<(), Fault> {
        let [top, inside, end] = [self.label(), self.label(), self.label()];
        self.go(&top);
        self.start(&top);
        self.spend(cost_of(head, None) + cost_of(body, None));
        self.list(head)?;
        let holds = self.value(cond);
        self.branch(&holds, &inside, &end);
        self.start(&inside);
        self.reach(mark);
        self.loops.push([top.clone(), end.clone()]);
        let done = self.list(body);
        self.loops.pop();
        self.go(&top);
        self.start(&end);
        done
    }

    fn for_(&mut self, of: &Loop) -> Result<(), Fault> {
        if let Some(vector) = self.vector_of(of) {
            return self.in_vectors(of, vector);
        }
        let is_parallel = of.kind == LoopKind::Parallel && !self.in_thread && !self.module.purpose.watched;
        if is_parallel && self.vector.is_none() && can_be_shared(of, self.module.program, &self.module.sums) {
            return self.parallel(of);
        }
        let [min, extent] = [&of.min, &of.extent].map(|form| self.form(form));
        self.loop_(of, &min, ["0", &extent])
    }

    /// Emits a loop that counts iterations in `first..end`, counted from 0; the loop variable starts at `min`.
    pub(super) fn loop_(&mut self, of: &Loop, min: &str, [first, end]: [&str; 2]) -> Result<(), Fault> {
        self.counted(of, [first, end], 1, |function, i| {
            let value = match min {
                "0" => i,
                min => function.op(format_args!("add i64 {min}, {i}")),
            };
            function.write(of.var, &value);
            function.spend_for(of, 1);
            function.list(&of.body)
        })
    }

    /// Emits code that counts the work of some iterations, unless the enclosing code counts it.
    fn spend_for(&mut self, of: &Loop, iterations: u32) {
        if let Some(cost) = own_cost(of) {
            self.spend(cost.saturating_mul(VECTOR.min(iterations.into())));
        }
    }

    /// Emits a loop that counts from `first` to `end`, exclusive, in steps.
    fn counted(
        &mut self,
        of: &Loop,
        [first, end]: [&str; 2],
        step: i64,
        body: impl FnOnce(&mut Self, String) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let [enter, top, next, after] = [self.label(), self.label(), self.label(), self.label()];
        let counter = format!("i{}", of.var.0);
        let counter = self.slot(&counter, "i64");
        let any = self.op(format_args!("icmp slt i64 {first}, {end}"));
        if self.module.purpose.watched {
            let none = self.op(format_args!("xor i1 {any}, true"));
            self.remember("unwritten", &none);
        }
        self.branch(&any, &enter, &after);
        self.start(&enter);
        self.reach(of.mark);
        self.line(format_args!("store i64 {first}, ptr {counter}"));
        self.go(&top);
        self.start(&top);
        let i = self.op(format_args!("load i64, ptr {counter}"));
        self.loops.push([next.clone(), after.clone()]);
        let done = body(self, i);
        self.loops.pop();
        self.go(&next);
        self.start(&next);
        let i = self.op(format_args!("load i64, ptr {counter}"));
        let more = self.op(format_args!("add nuw nsw i64 {i}, {step}"));
        self.line(format_args!("store i64 {more}, ptr {counter}"));
        let goes_on = self.op(format_args!("icmp slt i64 {more}, {end}"));
        let hint = self.hint(of);
        self.line(format_args!("br i1 {goes_on}, label %{top}, label %{after}{hint}"));
        self.start(&after);
        done
    }

    /// Returns the LLVM hint of a loop.
    fn hint(&mut self, of: &Loop) -> String {
        let what = match of.kind {
            LoopKind::Unrolled if self.may_be_unrolled(of) => "!\"llvm.loop.unroll.full\"",
            _ if is_large(of) => "!\"llvm.loop.vectorize.enable\", i1 false",
            LoopKind::Vectorized => "!\"llvm.loop.vectorize.enable\", i1 true",
            _ => return String::new(),
        };
        self.module.hints += 2;
        let n = self.module.hints;
        let _ = writeln!(self.module.metadata, "!{n} = distinct !{{!{n}, !{}}}\n!{} = !{{{what}}}", n + 1, n + 1);
        format!(", !llvm.loop !{n}")
    }

    /// Returns the lanes of a loop to vectorize, by request or by `unasked`; `None` if its iterations cannot run in
    /// lockstep.
    fn vector_of(&mut self, of: &Loop) -> Option<Vector> {
        let extent = of.extent.as_constant().filter(|extent| *extent >= 2)?;
        let is_chosen = self.module.unasked.contains(&of.var);
        let asked = of.kind == LoopKind::Vectorized && extent <= MOST_LANES && !self.module.purpose.watched;
        let fits = self.vector.is_none() && (asked || is_chosen);
        if !fits || !may_be_vector(of) || !can_be_shared(of, self.module.program, &self.module.sums) {
            return None;
        }
        let varying = varying(self.module.program, of);
        let lanes = if asked { extent } else { unasked::lanes(of, extent, MOST_LANES) };
        let vector = Vector { var: of.var, lanes: lanes as u32, varying };
        self.can_be_vector(&of.body, &vector, false).then_some(vector)
    }

    /// Returns true if a list can be executed in all lanes at once. If it is masked, inactive lanes must not be
    /// accessed.
    fn can_be_vector(&self, list: &[Instr], vector: &Vector, masked: bool) -> bool {
        let varies = |reg: &Reg| vector.varying.contains(reg);
        let uniform = |form: &Affine| form.terms.iter().all(|(reg, _)| !varies(reg));
        let straight = |form: &Affine| form.terms.iter().all(|(reg, _)| *reg == vector.var || !varies(reg));
        let follows = |access: &Access| access.offset.factor(vector.var) == 1;
        list.iter().all(|instr| match instr {
            Instr::Const { .. } | Instr::Affine { .. } | Instr::Select { .. } | Instr::Note(_) => true,
            Instr::MulAdd { .. } => self.module.purpose.mul_add,
            Instr::Copy { .. } => true,
            Instr::Unary { op, a, .. } => self.has_lanes(*op, *a),
            Instr::Binary { op, a, b, .. } => self.binary_has_lanes(*op, [*a, *b]),
            Instr::Load { access, .. } => {
                let fine = !self.is_checked(access) && !self.is_looked_for(access) && straight(&access.offset);
                // An element that all lanes share is loaded even if no lane is active.
                let is_one = access.offset.factor(vector.var) == 0;
                fine && (!masked || !is_one || access.is_always_inside || self.is_within(access))
            }
            Instr::Store { access, .. } => {
                let fine = !self.is_checked(access) && straight(&access.offset) && !uniform(&access.offset);
                fine && (!masked || follows(access))
            }
            Instr::If { cond, then, otherwise, .. } => {
                let masked = masked || varies(cond);
                // Watched code does not record marks under masks, so masked loops are not vectorized.
                !(masked && self.module.purpose.watched)
                    && self.can_be_vector(then, vector, masked)
                    && self.can_be_vector(otherwise, vector, masked)
            }
            Instr::For(of) => uniform(&of.min) && uniform(&of.extent) && self.can_be_vector(&of.body, vector, masked),
            _ => false,
        })
    }

    /// Executes all iterations of a loop as lanes of one or more vectors. A single remaining iteration is executed
    /// separately.
    fn in_vectors(&mut self, of: &Loop, vector: Vector) -> Result<(), Fault> {
        let (extent, lanes) = (of.extent.as_constant().unwrap_or(0), i64::from(vector.lanes));
        let min = self.form(&of.min);
        let (rest, varying) = (extent % lanes, vector.varying.clone());
        if extent == lanes {
            self.reach(of.mark);
            return self.one_vector(of, vector, &min);
        }
        let end = (extent - rest).to_string();
        self.counted(of, ["0", &end], lanes, |function, i| {
            let first = function.op(format_args!("add i64 {min}, {i}"));
            function.one_vector(of, vector, &first)
        })?;
        match rest {
            0 => Ok(()),
            1 => self.loop_(of, &min, [&end, &extent.to_string()]),
            rest => {
                let first = self.op(format_args!("add i64 {min}, {end}"));
                self.one_vector(of, Vector { var: of.var, lanes: rest as u32, varying }, &first)
            }
        }
    }

    /// Executes iterations of a loop as the lanes of one vector, starting with iteration `first`.
    fn one_vector(&mut self, of: &Loop, vector: Vector, first: &str) -> Result<(), Fault> {
        self.spend_for(of, vector.lanes);
        self.lanes = vector.lanes;
        let lanes: Vec<String> = (0..vector.lanes).map(|lane| format!("i64 {lane}")).collect();
        let all = self.splat("i64", first);
        let ty = self.ty("i64");
        let values = self.op(format_args!("add {ty} {all}, <{}>", lanes.join(", ")));
        self.vector = Some(vector);
        self.write(of.var, &values);
        let base = self.slot(&format!("first{}", of.var.0), "i64");
        self.line(format_args!("store i64 {first}, ptr {base}"));
        let done = self.list(&of.body);
        self.vector = None;
        self.lanes = 1;
        done
    }
}
