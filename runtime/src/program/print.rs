//! Prints programs as readable text.

use super::{Access, Affine, Instr, Program};
use std::fmt::{self, Display, Formatter, Write};

impl Display for Affine {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (at, (reg, factor)) in self.terms.iter().enumerate() {
            let sign = if at > 0 { " + " } else { "" };
            match factor {
                1 => write!(f, "{sign}%{}", reg.0)?,
                factor => write!(f, "{sign}{factor} %{}", reg.0)?,
            }
        }
        match (self.constant, self.terms.is_empty()) {
            (0, false) => Ok(()),
            (constant, true) => write!(f, "{constant}"),
            (constant, false) => write!(f, " + {constant}"),
        }
    }
}

impl Display for Program {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.list(f, &self.body, 0)
    }
}

impl Program {
    fn list(&self, f: &mut Formatter<'_>, list: &[Instr], depth: usize) -> fmt::Result {
        list.iter().try_for_each(|instr| {
            write!(f, "{:width$}", "", width = depth * 2)?;
            self.instr(f, instr, depth)
        })
    }

    fn access(&self, access: &Access) -> String {
        let buffer = &self.buffers[access.buffer as usize];
        let mut text = format!("{}[{}]", buffer.name, access.offset);
        for dim in &access.checked {
            let dim = usize::from(*dim);
            let _ = write!(text, " if {} < {}", access.index[dim], buffer.shape[dim]);
        }
        text
    }

    fn instr(&self, f: &mut Formatter<'_>, instr: &Instr, depth: usize) -> fmt::Result {
        match instr {
            Instr::Const { dst, value } => writeln!(f, "%{} = {value:?}", dst.0),
            Instr::Affine { dst, form } => writeln!(f, "%{} = {form}", dst.0),
            Instr::Unary { op, dst, a } => {
                writeln!(f, "%{} = {op:?} %{} as {}", dst.0, a.0, self.registers[dst.index()])
            }
            Instr::Binary { op, dst, a, b, .. } => writeln!(f, "%{} = {op:?} %{}, %{}", dst.0, a.0, b.0),
            Instr::MulAdd { dst, a, b, c } => writeln!(f, "%{} = %{} * %{} + %{}", dst.0, a.0, b.0, c.0),
            Instr::Select { dst, cond, then, otherwise } => {
                writeln!(f, "%{} = %{} ? %{} : %{}", dst.0, cond.0, then.0, otherwise.0)
            }
            Instr::Note(note) => writeln!(f, "note %{}", note.cond.0),
            Instr::Copy { dst, src } => writeln!(f, "%{} = %{}", dst.0, src.0),
            Instr::Load { dst, access } => writeln!(f, "%{} = load {}", dst.0, self.access(access)),
            Instr::Store { src, access } => writeln!(f, "store {} = %{}", self.access(access), src.0),
            Instr::Check { form, min, extent, .. } => writeln!(f, "check {form} from {min}, {extent} values"),
            Instr::If { cond, then, otherwise, .. } => {
                writeln!(f, "if %{}", cond.0)?;
                self.list(f, then, depth + 1)?;
                if !otherwise.is_empty() {
                    writeln!(f, "{:width$}else", "", width = depth * 2)?;
                    self.list(f, otherwise, depth + 1)?;
                }
                Ok(())
            }
            Instr::For(of) => {
                let lanes = if of.lanes > 0 { format!(" lanes {}", of.lanes) } else { String::new() };
                writeln!(f, "for %{} from {}, {} times{lanes}", of.var.0, of.min, of.extent)?;
                self.list(f, &of.body, depth + 1)
            }
            Instr::While { head, cond, body, .. } => {
                writeln!(f, "while")?;
                self.list(f, head, depth + 1)?;
                writeln!(f, "{:width$}do if %{}", "", cond.0, width = depth * 2)?;
                self.list(f, body, depth + 1)
            }
            Instr::Break => writeln!(f, "break"),
            Instr::Continue => writeln!(f, "continue"),
            Instr::Return(None) => writeln!(f, "return"),
            Instr::Return(Some(reg)) => writeln!(f, "return %{}", reg.0),
            Instr::Allocate { storage, element, factors, .. } => {
                let elements: Vec<String> = factors.iter().map(|factor| format!("({factor})")).collect();
                let name = &self.storages[*storage as usize].name;
                writeln!(f, "allocate {name}: {} of {element}", elements.join(" times "))
            }
            Instr::Assert { cond, message, .. } => writeln!(f, "assert %{}: {message}", cond.0),
        }
    }
}
