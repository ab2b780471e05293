//! Computes the ranges of integer registers, so that no code is emitted for impossible cases.

use runtime::program::{Affine, Binary, Instr, Literal, ParamKind, Program, Reg, Scalar, Unary, each_instr};

/// The least and the greatest value.
pub(super) type Range = (i64, i64);

/// The ranges of registers, and the sizes of memory.
pub(super) struct Ranges {
    registers: Vec<Known>,
    /// Size of each storage, in elements of its buffer; `None` if unknown.
    sizes: Vec<Option<u64>>,
}

#[derive(Clone, Copy, Default)]
enum Known {
    /// Not written yet.
    #[default]
    Nothing,
    Within(Range),
    Anything,
}

impl Ranges {
    /// Analyzes a program.
    pub(super) fn of(program: &Program) -> Ranges {
        let registers = vec![Known::Nothing; program.registers.len()];
        let mut ranges = Ranges { registers, sizes: vec![None; program.storages.len()] };
        for param in &program.params {
            if let ParamKind::Tensor(of) = &param.kind {
                let extents = of.shape.iter().map(|dim| dim.as_int().and_then(|extent| u64::try_from(extent).ok()));
                let bytes = u64::try_from(of.dtype.bytes()).ok();
                let all = extents.chain([bytes]).try_fold(1u64, |all, extent| all.checked_mul(extent?));
                ranges.sizes[of.storage as usize] = all;
            }
        }
        ranges.list(program, &program.body);
        ranges
    }

    /// Returns the size of a storage in bytes; `None` if it varies between calls.
    pub(super) fn bytes(&self, storage: u32) -> Option<u64> {
        self.sizes[storage as usize]
    }

    /// Returns the range of a register.
    pub(super) fn reg(&self, reg: Reg) -> Option<Range> {
        match self.registers[reg.index()] {
            Known::Within(range) => Some(range),
            _ => None,
        }
    }

    /// Returns the range of a form; `None` if the form may wrap around.
    pub(super) fn form(&self, form: &Affine) -> Option<Range> {
        let (mut low, mut high) = (i128::from(form.constant), i128::from(form.constant));
        for (reg, factor) in &form.terms {
            let (least, most) = self.reg(*reg)?;
            let ends = [i128::from(least) * i128::from(*factor), i128::from(most) * i128::from(*factor)];
            ends.iter().all(|end| i64::try_from(*end).is_ok()).then_some(())?;
            (low, high) = (low + ends[0].min(ends[1]), high + ends[0].max(ends[1]));
        }
        Some((i64::try_from(low).ok()?, i64::try_from(high).ok()?))
    }

    /// Returns true if a register of a type holds a form without wrapping around.
    pub(super) fn fits(&self, scalar: Scalar, form: &Affine) -> bool {
        let (low, high) = if scalar == Scalar::UInt(64) { (0, i64::MAX) } else { scalar.range() };
        self.form(form).is_some_and(|(least, most)| low <= least && most <= high)
    }

    fn list(&mut self, program: &Program, list: &[Instr]) {
        for instr in list {
            match instr {
                Instr::If { then, otherwise, .. } => {
                    self.list(program, then);
                    self.list(program, otherwise);
                }
                Instr::For(of) => {
                    let least = self.form(&of.min);
                    let most = self.form(&of.extent).map(|(_, extent)| extent.max(1) - 1);
                    let range = least.zip(most).and_then(|((low, high), most)| Some((low, high.checked_add(most)?)));
                    self.set(of.var, range);
                    self.list(program, &of.body);
                }
                Instr::While { head, body, .. } => {
                    self.list(program, head);
                    self.list(program, body);
                }
                Instr::Allocate { storage, element, factors, .. } => {
                    let extents = factors.iter().map(|of| of.as_constant().map(|extent| extent.max(0) as u64));
                    let bytes = extents.chain([Some(element.bytes())]).try_fold(1u64, |all, of| all.checked_mul(of?));
                    // A storage that is allocated with two different sizes does not have a fixed size.
                    let known = self.sizes[*storage as usize].is_none_or(|before| Some(before) == bytes);
                    self.sizes[*storage as usize] = bytes.filter(|_| known);
                }
                other => self.simple(program, other),
            }
        }
    }

    fn simple(&mut self, program: &Program, instr: &Instr) {
        let of = |reg: Reg| program.registers[reg.index()];
        let (dst, range) = match instr {
            Instr::Const { dst, value: Literal::Int(value) } => (*dst, Some((*value, *value))),
            Instr::Affine { dst, form } => (*dst, self.form(form)),
            Instr::Unary { op: Unary::Cast, dst, a } if !of(*a).is_float() => (*dst, self.reg(*a)),
            Instr::Binary { op, dst, a, b, .. } if !of(*a).is_float() && !op.is_truth() => {
                (*dst, self.reg(*a).zip(self.reg(*b)).and_then(|(a, b)| binary(*op, a, b)))
            }
            Instr::Select { dst, then, otherwise, .. } => (*dst, self.reg(*then).zip(self.reg(*otherwise)).map(hull)),
            Instr::Copy { dst, src } => (*dst, self.reg(*src)),
            Instr::Const { dst, .. }
            | Instr::Unary { dst, .. }
            | Instr::Binary { dst, .. }
            | Instr::MulAdd { dst, .. }
            | Instr::Load { dst, .. } => (*dst, None),
            _ => return,
        };
        // A wrapped value can be any number of its type.
        let (low, high) = of(dst).range();
        let own = (!of(dst).is_float() && (low, high) != (i64::MIN, i64::MAX)).then_some((low, high));
        let low = if of(dst) == Scalar::UInt(64) { 0 } else { low };
        self.set(dst, range.filter(|(least, most)| low <= *least && *most <= high).or(own));
    }

    fn set(&mut self, reg: Reg, range: Option<Range>) {
        let known = &mut self.registers[reg.index()];
        *known = match (*known, range) {
            (Known::Nothing, Some(range)) => Known::Within(range),
            (Known::Within(before), Some(range)) => Known::Within(hull((before, range))),
            _ => Known::Anything,
        };
    }
}

fn hull((a, b): (Range, Range)) -> Range {
    (a.0.min(b.0), a.1.max(b.1))
}

/// Returns the range of an operation; `None` if the result may wrap around in 64 bits.
fn binary(op: Binary, a: Range, b: Range) -> Option<Range> {
    let of_ends = |f: fn(i64, i64) -> Option<i64>| {
        let ends = [f(a.0, b.0)?, f(a.0, b.1)?, f(a.1, b.0)?, f(a.1, b.1)?];
        Some((ends.into_iter().min()?, ends.into_iter().max()?))
    };
    let natural = a.0 >= 0 && b.0 > 0;
    match op {
        Binary::Add => Some((a.0.checked_add(b.0)?, a.1.checked_add(b.1)?)),
        Binary::Sub => Some((a.0.checked_sub(b.1)?, a.1.checked_sub(b.0)?)),
        Binary::Mul => of_ends(i64::checked_mul),
        Binary::FloorDiv | Binary::TruncDiv | Binary::Div if natural => Some((a.0 / b.1, a.1 / b.0)),
        Binary::FloorDiv if b.0 > 0 => of_ends(|a, b| a.checked_div_euclid(b)),
        Binary::TruncMod if natural => Some((0, a.1.min(b.1 - 1))),
        Binary::FloorMod if natural => Some((0, a.1.min(b.1 - 1))),
        Binary::FloorMod if b.0 > 0 => Some((0, b.1 - 1)),
        Binary::Min => Some((a.0.min(b.0), a.1.min(b.1))),
        Binary::Max => Some((a.0.max(b.0), a.1.max(b.1))),
        _ => None,
    }
}

/// Returns, for each register, true if it is an integer used in a linear form. Such registers are stored in 64 bits, as
/// in the interpreter.
pub(super) fn of_forms(program: &Program) -> Vec<bool> {
    let mut wide = vec![false; program.registers.len()];
    let mut note = |form: &Affine| form.terms.iter().for_each(|(reg, _)| wide[reg.index()] = true);
    for buffer in &program.buffers {
        buffer.shape.iter().chain(&buffer.strides).chain([&buffer.offset]).for_each(&mut note);
    }
    each_form(&program.body, &mut note);
    each_instr(&program.body, &mut |instr| {
        if let Instr::For(of) = instr {
            wide[of.var.index()] = true;
        }
    });
    let int = |reg: &Scalar| matches!(reg, Scalar::Int(_) | Scalar::UInt(_));
    wide.iter_mut().zip(&program.registers).for_each(|(wide, scalar)| *wide &= int(scalar));
    wide
}

fn each_form(list: &[Instr], note: &mut impl FnMut(&Affine)) {
    each_instr(list, &mut |instr| match instr {
        Instr::Affine { form, .. } => note(form),
        Instr::Load { access, .. } | Instr::Store { access, .. } => {
            access.index.iter().chain([&access.offset]).for_each(&mut *note);
        }
        Instr::Check { form, min, extent, .. } => [form, min, extent].into_iter().for_each(&mut *note),
        Instr::For(of) => [&of.min, &of.extent].into_iter().for_each(&mut *note),
        Instr::Allocate { factors, .. } => factors.iter().for_each(&mut *note),
        _ => {}
    });
}
