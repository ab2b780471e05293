//! Traverses instructions, including nested ones.

use super::{Instr, Reg};

impl Instr {
    /// Returns the two nested lists of the instruction; missing lists are empty.
    pub fn lists(&self) -> [&[Instr]; 2] {
        match self {
            Instr::For(of) => [&of.body, &[]],
            Instr::If { then, otherwise, .. } => [then, otherwise],
            Instr::While { head, body, .. } => [head, body],
            _ => [&[], &[]],
        }
    }

    fn lists_mut(&mut self) -> [&mut [Instr]; 2] {
        match self {
            Instr::For(of) => [&mut of.body, &mut []],
            Instr::If { then, otherwise, .. } => [then, otherwise],
            Instr::While { head, body, .. } => [head, body],
            _ => [&mut [], &mut []],
        }
    }

    /// Returns the register written by the instruction itself; for a loop, its variable.
    pub fn written(&self) -> Option<Reg> {
        match self {
            Instr::Const { dst, .. }
            | Instr::Affine { dst, .. }
            | Instr::Unary { dst, .. }
            | Instr::Binary { dst, .. }
            | Instr::MulAdd { dst, .. }
            | Instr::Select { dst, .. }
            | Instr::Copy { dst, .. }
            | Instr::Load { dst, .. } => Some(*dst),
            Instr::For(of) => Some(of.var),
            _ => None,
        }
    }
}

/// Calls `f` for each instruction in order, before the instructions nested in it.
pub fn each_instr<'p>(list: &'p [Instr], f: &mut impl FnMut(&'p Instr)) {
    for instr in list {
        f(instr);
        instr.lists().into_iter().for_each(|list| each_instr(list, f));
    }
}

/// Calls `f` for a list, and for each nested list.
pub fn each_list<'p>(list: &'p [Instr], f: &mut impl FnMut(&'p [Instr])) {
    f(list);
    list.iter().flat_map(Instr::lists).filter(|list| !list.is_empty()).for_each(|list| each_list(list, f));
}

/// Calls `f` for each instruction, with mutable access.
pub fn each_instr_mut(list: &mut [Instr], f: &mut impl FnMut(&mut Instr)) {
    for instr in list {
        f(instr);
        instr.lists_mut().into_iter().for_each(|list| each_instr_mut(list, f));
    }
}

/// Returns the nesting depth of a list.
pub fn depth(list: &[Instr]) -> usize {
    1 + list.iter().flat_map(Instr::lists).filter(|list| !list.is_empty()).map(depth).max().unwrap_or(0)
}
