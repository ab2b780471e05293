//! Executes instructions on registers.

use super::columns::{Floats, Ints};
use super::cost;
use super::exec::Exec;
use super::floats::{self, single_of};
use super::ints;
use super::watch::overflows;
use crate::fault::{Fault, FaultKind};
use crate::program::{Affine, Binary, Instr, Literal, Reg, Scalar, Unary};
use std::mem::take;

/// The bank that holds a register.
#[derive(Clone, Copy, PartialEq)]
enum Bank {
    Int,
    Single,
    Double,
}

fn bank(scalar: Scalar) -> Bank {
    match scalar {
        Scalar::F64 => Bank::Double,
        scalar if scalar.is_float() => Bank::Single,
        _ => Bank::Int,
    }
}

impl<'p> Exec<'p, '_> {
    fn scalar(&self, reg: Reg) -> Scalar {
        self.program.registers[reg.index()]
    }

    /// Counts the work of an executed instruction. Instructions that access memory or check lanes count their work
    /// separately.
    fn counted(&mut self, instr: &'p Instr) -> Result<(), Fault> {
        let (dst, of_lane) = match instr {
            Instr::Affine { dst, form } => {
                self.count(cost::form(form))?;
                (dst, cost::varying_form(form))
            }
            Instr::Unary { op, dst, a } => (dst, cost::unary(*op, self.scalar(*a), self.scalar(*dst))),
            Instr::Binary { op, dst, a, .. } => (dst, cost::binary(*op, self.scalar(*a))),
            Instr::MulAdd { dst, .. } => (dst, cost::MUL_ADD),
            Instr::Select { dst, .. } | Instr::Copy { dst, .. } => (dst, cost::CHOICE),
            _ => return self.count(cost::INSTRUCTION),
        };
        let lanes = if self.varies(*dst) { self.shape.total } else { 1 };
        self.count(cost::INSTRUCTION + of_lane * lanes as u64)
    }

    fn varies(&self, reg: Reg) -> bool {
        match bank(self.scalar(reg)) {
            Bank::Int => self.ints[reg.index()].varying,
            Bank::Single => self.singles[reg.index()].varying,
            Bank::Double => self.doubles[reg.index()].varying,
        }
    }

    /// Executes an instruction that does not contain other instructions.
    pub(super) fn compute(&mut self, instr: &'p Instr) -> Result<(), Fault> {
        self.executed(instr)?;
        self.counted(instr)
    }

    fn executed(&mut self, instr: &'p Instr) -> Result<(), Fault> {
        match instr {
            Instr::Const { dst, value } => self.constant(*dst, *value),
            Instr::Affine { dst, form } => self.form(*dst, form),
            Instr::Unary { op, dst, a } => self.unary(*op, *dst, *a),
            Instr::Binary { op, dst, a, b, place } => return self.binary(*op, *dst, [*a, *b], *place),
            Instr::MulAdd { dst, a, b, c } => self.mul_add(*dst, [*a, *b, *c]),
            Instr::Select { dst, cond, then, otherwise } => self.select(*dst, *cond, [*then, *otherwise]),
            Instr::Note(note) => self.note(note),
            Instr::Copy { dst, src } => self.copy(*dst, *src),
            Instr::Load { dst, access } => return self.load(*dst, access),
            Instr::Store { src, access } => return self.store(*src, access),
            Instr::Check { what, form, min, extent, place } => return self.check(what, form, min, extent, *place),
            Instr::Allocate { storage, element, factors, place } => {
                return self.allocate(*storage, *element, factors, *place);
            }
            Instr::Assert { cond, message, place } => return self.assert(*cond, message, *place),
            // Jumps, and instructions that contain other instructions, are executed with their list.
            _ => {}
        }
        Ok(())
    }

    fn constant(&mut self, dst: Reg, value: Literal) {
        let at = dst.index();
        match value {
            Literal::Int(value) => self.ints[at].set(value),
            Literal::Float(value) => {
                self.singles[at].set(value as f32);
                self.doubles[at].set(value);
            }
        }
    }

    fn form(&mut self, dst: Reg, form: &Affine) {
        let (scalar, at) = (self.scalar(dst), dst.index());
        if self.watch.is_some() {
            self.note_overflow(scalar, self.exact(form));
        }
        let mut positions = take(&mut self.positions);
        self.resolve(form, &mut positions);
        let mut out = take(&mut self.ints[at]);
        let (low, high) = scalar.range();
        let fits = |(least, most)| low <= least && most <= high;
        if !positions.varying && self.shape.range(positions.base, &positions.strides).is_some_and(fits) {
            out.set_linear(positions.base, positions.strides);
        } else if !positions.varying && positions.strides == [0; 3] {
            out.set(scalar.wrap(positions.base));
        } else {
            let shape = self.shape;
            let lanes = out.vary(&shape).iter_mut().enumerate();
            lanes.for_each(|(lane, out)| *out = scalar.wrap(positions.at(lane, &shape)));
        }
        self.ints[at] = out;
        self.positions = positions;
    }

    fn binary(&mut self, op: Binary, dst: Reg, [a, b]: [Reg; 2], place: u32) -> Result<(), Fault> {
        let (of, at) = (self.scalar(a), dst.index());
        let (a, b) = (a.index(), b.index());
        match (bank(of), op.is_truth()) {
            (Bank::Int, _) => {
                if self.watch.is_some() {
                    let [x, y] = [a, b].map(|at| i128::from(self.ints[at].at(0, &self.shape)));
                    self.note_overflow(of, exact(op, x, y));
                }
                if let (Some(x), Some(y)) = (self.ints[a].uniform(), self.ints[b].uniform())
                    && let Some(value) = ints::operation(op, of, x, y)
                {
                    self.ints[at].set(value);
                    return Ok(());
                }
                let mut out = take(&mut self.ints[at]);
                let how = (&self.shape, &self.mask, &mut self.rooms);
                let done = ints::binary(op, of, [&self.ints[a], &self.ints[b]], &mut out, how);
                self.ints[at] = out;
                let zero = || self.at(FaultKind::DivisionByZero, place);
                return done.ok_or_else(zero);
            }
            (Bank::Single, true) => {
                let mut out = take(&mut self.ints[at]);
                floats::compare(op, [&self.singles[a], &self.singles[b]], &mut out, &self.shape);
                self.ints[at] = out;
            }
            (Bank::Double, true) => {
                let mut out = take(&mut self.ints[at]);
                floats::compare(op, [&self.doubles[a], &self.doubles[b]], &mut out, &self.shape);
                self.ints[at] = out;
            }
            (Bank::Single, false) => {
                let mut out = take(&mut self.singles[at]);
                floats::binary_single(op, of, [&self.singles[a], &self.singles[b]], &mut out, &self.shape);
                self.singles[at] = out;
            }
            (Bank::Double, false) => {
                let mut out = take(&mut self.doubles[at]);
                floats::binary_double(op, [&self.doubles[a], &self.doubles[b]], &mut out, &self.shape);
                self.doubles[at] = out;
            }
        }
        Ok(())
    }

    /// Evaluates a form for one iteration, without wrapping around.
    fn exact(&self, form: &Affine) -> i128 {
        let value = |reg: Reg| i128::from(self.ints[reg.index()].at(0, &self.shape));
        form.terms.iter().fold(form.constant.into(), |sum, (reg, factor)| sum + value(*reg) * i128::from(*factor))
    }

    fn note_overflow(&self, scalar: Scalar, exact: i128) {
        if overflows(scalar, exact) {
            self.limits.note_overflow();
        }
    }

    fn mul_add(&mut self, dst: Reg, operands: [Reg; 3]) {
        let (of, at, [a, b, c]) = (self.scalar(dst), dst.index(), operands.map(Reg::index));
        if bank(of) == Bank::Double {
            let mut out = take(&mut self.doubles[at]);
            let operands = [&self.doubles[a], &self.doubles[b], &self.doubles[c]];
            out.zip_three(operands, &self.shape, f64::mul_add);
            self.doubles[at] = out;
        } else {
            let mut out = take(&mut self.singles[at]);
            let operands = [&self.singles[a], &self.singles[b], &self.singles[c]];
            match of {
                Scalar::F32 => out.zip_three(operands, &self.shape, f32::mul_add),
                of => out.zip_three(operands, &self.shape, |a, b, c| of.round(a.mul_add(b, c))),
            }
            self.singles[at] = out;
        }
    }

    fn unary(&mut self, op: Unary, dst: Reg, a: Reg) {
        let (from, to) = (self.scalar(a), self.scalar(dst));
        let (at, a) = (dst.index(), a.index());
        let shape = self.shape;
        match (bank(from), bank(to)) {
            (Bank::Int, Bank::Int) => {
                let mut out = take(&mut self.ints[at]);
                ints::unary(op, from, to, &self.ints[a], &mut out, &shape);
                self.ints[at] = out;
            }
            (Bank::Int, _) => self.int_to_float(op, (from, to), at, a),
            (_, Bank::Int) => {
                if self.watch.is_some() && op == Unary::Cast && to != Scalar::Bool {
                    self.note_cast(bank(from), to, a);
                }
                self.float_to_int(op, (from, to), at, a);
            }
            (Bank::Single, Bank::Single) => {
                let mut out = take(&mut self.singles[at]);
                match op {
                    Unary::Cast => out.map(&self.singles[a], &shape, |a| to.round(a)),
                    op => floats::unary_single(op, to, &self.singles[a], &mut out, &shape),
                }
                self.singles[at] = out;
            }
            (Bank::Double, Bank::Double) => {
                let mut out = take(&mut self.doubles[at]);
                floats::unary_double(op, &self.doubles[a], &mut out, &shape);
                self.doubles[at] = out;
            }
            (Bank::Single, Bank::Double) => {
                map_lanes(&self.singles[a], &mut self.doubles[at], &shape, f64::from);
            }
            (Bank::Double, Bank::Single) => {
                map_lanes(&self.doubles[a], &mut self.singles[at], &shape, |a| to.narrow(a));
            }
        }
    }

    /// Records a cast of a float to an integer type that cannot represent it, because the result is undefined.
    fn note_cast(&self, from: Bank, to: Scalar, a: usize) {
        let value = if from == Bank::Double { self.doubles[a].at(0) } else { self.singles[a].at(0).into() };
        let (low, high) = if to == Scalar::UInt(64) { (0.0, u64::MAX as f64) } else { to.float_range() };
        if !(value.trunc() >= low && value.trunc() <= high) {
            self.limits.note_overflow();
        }
    }

    fn int_to_float(&mut self, op: Unary, (from, to): (Scalar, Scalar), at: usize, a: usize) {
        let (shape, from_bits) = (self.shape, op == Unary::Reinterpret);
        let single = |value: i64| match (from_bits, to) {
            (true, to) => to.single_of_bits(value as u32),
            _ => single_of(from, to, value),
        };
        let double = |value: i64| if from_bits { f64::from_bits(value as u64) } else { floats::double_of(from, value) };
        match bank(to) {
            Bank::Double => of_ints(&self.ints[a], &mut self.doubles[at], &shape, double),
            _ => of_ints(&self.ints[a], &mut self.singles[at], &shape, single),
        }
    }

    fn float_to_int(&mut self, op: Unary, (from, to): (Scalar, Scalar), at: usize, a: usize) {
        let (shape, out) = (self.shape, &mut self.ints[at]);
        match (op, bank(from)) {
            (Unary::Cast, Bank::Single) => {
                floats::convert(&self.singles[a], out, &shape, |a| floats::to_int(to, a.into()));
            }
            (Unary::Cast, _) => floats::convert(&self.doubles[a], out, &shape, |a| floats::to_int(to, a)),
            (Unary::Reinterpret, Bank::Single) if from == Scalar::F32 => {
                floats::convert(&self.singles[a], out, &shape, |a| to.wrap(a.to_bits().into()));
            }
            (Unary::Reinterpret, Bank::Single) => {
                floats::convert(&self.singles[a], out, &shape, |a| to.wrap(from.bits_of(a.into()) as i64));
            }
            (Unary::Reinterpret, _) => floats::convert(&self.doubles[a], out, &shape, |a| a.to_bits() as i64),
            (_, Bank::Single) => floats::question(op, &self.singles[a], out, &shape),
            _ => floats::question(op, &self.doubles[a], out, &shape),
        }
    }

    fn select(&mut self, dst: Reg, cond: Reg, [then, otherwise]: [Reg; 2]) {
        if let Some(cond) = self.ints[cond.index()].uniform() {
            return self.whole(dst, if cond != 0 { then } else { otherwise });
        }
        // The condition may be one of the two values, but not the result register.
        let cond = self.ints[cond.index()].clone();
        let (shape, at, [a, b]) = (self.shape, dst.index(), [then.index(), otherwise.index()]);
        let truth = |lane: usize| cond.at(lane, &shape) != 0;
        match bank(self.scalar(dst)) {
            Bank::Int => {
                let mut out = take(&mut self.ints[at]);
                for (lane, out) in out.vary(&shape).iter_mut().enumerate() {
                    *out = self.ints[if truth(lane) { a } else { b }].at(lane, &shape);
                }
                self.ints[at] = out;
            }
            Bank::Single => choose(&mut self.singles, [at, a, b], &shape, truth),
            Bank::Double => choose(&mut self.doubles, [at, a, b], &shape, truth),
        }
    }

    /// Copies all lanes of a register.
    fn whole(&mut self, dst: Reg, src: Reg) {
        let (at, from) = (dst.index(), src.index());
        match bank(self.scalar(dst)) {
            Bank::Int => {
                let mut out = take(&mut self.ints[at]);
                out.clone_from(&self.ints[from]);
                self.ints[at] = out;
            }
            Bank::Single => {
                let mut out = take(&mut self.singles[at]);
                out.map(&self.singles[from], &self.shape, |a| a);
                self.singles[at] = out;
            }
            Bank::Double => {
                let mut out = take(&mut self.doubles[at]);
                out.map(&self.doubles[from], &self.shape, |a| a);
                self.doubles[at] = out;
            }
        }
    }

    /// Copies the active lanes of a register; the other lanes keep their values.
    fn copy(&mut self, dst: Reg, src: Reg) {
        let Some(runs) = &self.mask else { return self.whole(dst, src) };
        let (shape, at, from) = (self.shape, dst.index(), src.index());
        let lanes = runs.iter().cloned().flatten();
        match bank(self.program.registers[at]) {
            Bank::Int => {
                let mut out = take(&mut self.ints[at]);
                let room = out.vary(&shape);
                lanes.for_each(|lane| room[lane] = self.ints[from].at(lane, &shape));
                self.ints[at] = out;
            }
            Bank::Single => {
                let mut out = take(&mut self.singles[at]);
                let room = out.vary(&shape);
                lanes.for_each(|lane| room[lane] = self.singles[from].at(lane));
                self.singles[at] = out;
            }
            Bank::Double => {
                let mut out = take(&mut self.doubles[at]);
                let room = out.vary(&shape);
                lanes.for_each(|lane| room[lane] = self.doubles[from].at(lane));
                self.doubles[at] = out;
            }
        }
    }

    fn assert(&mut self, cond: Reg, message: &str, place: u32) -> Result<(), Fault> {
        self.count(cost::look(self.shape.total))?;
        let holds = |lane: usize| self.ints[cond.index()].at(lane, &self.shape) != 0;
        let all = match &self.mask {
            None => (0..self.shape.total).all(holds),
            Some(runs) => runs.iter().cloned().flatten().all(holds),
        };
        let broken = || FaultKind::Assertion { message: message.to_string() };
        if all { Ok(()) } else { Err(self.at(broken(), place)) }
    }
}

/// Returns the exact result of an operation that may overflow; 0 for other operations.
fn exact(op: Binary, a: i128, b: i128) -> i128 {
    match op {
        Binary::Add => a + b,
        Binary::Sub => a - b,
        Binary::Mul => a * b,
        Binary::TruncDiv | Binary::FloorDiv if b == -1 => -a,
        Binary::Shl if (0..64).contains(&b) => a << b,
        _ => 0,
    }
}

fn map_lanes<A: Copy + Default, B: Copy + Default>(
    a: &Floats<A>,
    out: &mut Floats<B>,
    shape: &super::columns::Shape,
    f: impl Fn(A) -> B,
) {
    if !a.varying {
        return out.set(f(a.value));
    }
    out.vary(shape).iter_mut().zip(&a.lanes).for_each(|(out, a)| *out = f(*a));
}

fn of_ints<T: Copy + Default>(a: &Ints, out: &mut Floats<T>, shape: &super::columns::Shape, f: impl Fn(i64) -> T) {
    match a.uniform() {
        Some(a) => out.set(f(a)),
        None => out.vary(shape).iter_mut().enumerate().for_each(|(lane, out)| *out = f(a.at(lane, shape))),
    }
}

fn choose<T: Copy + Default>(
    bank: &mut [Floats<T>],
    [at, then, otherwise]: [usize; 3],
    shape: &super::columns::Shape,
    truth: impl Fn(usize) -> bool,
) {
    let mut out = take(&mut bank[at]);
    for (lane, out) in out.vary(shape).iter_mut().enumerate() {
        *out = bank[if truth(lane) { then } else { otherwise }].at(lane);
    }
    bank[at] = out;
}
