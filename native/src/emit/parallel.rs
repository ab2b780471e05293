//! Emits parallel loops: the body becomes a separate function, called by a callback with ranges of iterations.

use super::Field;
use super::function::{Function, Memory};
use runtime::Fault;
use runtime::program::{Instr, Loop, Reg, each_instr};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// The outer values used in the body of a loop.
struct Captured {
    registers: Vec<(Reg, &'static str)>,
    storages: Vec<u32>,
    /// The storages allocated outside the loop, with their memory.
    allocated: BTreeMap<u32, Memory>,
}

impl Function<'_, '_> {
    pub(super) fn parallel(&mut self, of: &Loop) -> Result<(), Fault> {
        self.module.outlined += 1;
        let number = self.module.outlined;
        let captured = self.captured(of);
        let [min, extent] = [&of.min, &of.extent].map(|form| self.form(form));
        // The captured values: 64-bit numbers, and pointers.
        let n = captured.registers.len() + captured.storages.len() + captured.allocated.len() + 1;
        let frame = self.slot(&format!("frame{number}"), &format!("[{n} x i64]"));
        let mut next = 0;
        let mut put = |function: &mut Self, ty: &str, value: &str| {
            let at = function.op(format_args!("getelementptr i64, ptr {frame}, i64 {next}"));
            function.line(format_args!("store {ty} {value}, ptr {at}, align 8"));
            next += 1;
        };
        let is_fixed = min.parse::<i64>().is_ok();
        if !is_fixed {
            put(self, "i64", &min);
        }
        for storage in &captured.storages {
            let pointer = self.memory(*storage);
            put(self, "ptr", &pointer);
            let bytes = match captured.allocated.get(storage) {
                Some(Memory::Heap([_, bytes])) => self.op(format_args!("load i64, ptr {bytes}")),
                Some(_) => "0".to_string(),
                None => continue,
            };
            put(self, "i64", &bytes);
        }
        for (reg, ty) in &captured.registers {
            let value = self.kept_value(*reg);
            put(self, ty, &value);
        }
        let callback = self.callback(Field::Parallel);
        let name = self.module.name;
        let args = format!("ptr %context, ptr @{name}.part{number}, ptr {frame}, i64 {extent}");
        let code = self.op(format_args!("call i32 {callback}({args})"));
        self.leave_if(&code);
        part(self, (of, is_fixed.then_some(min)), number, &captured)
    }

    fn captured(&mut self, of: &Loop) -> Captured {
        let mut free = self.free(&of.body);
        free.remove(&of.var);
        free.retain(|reg| !self.module.constants.contains_key(reg));
        let registers = free.into_iter().map(|reg| (reg, self.kept(reg))).collect();
        let (mut storages, mut own) = (BTreeSet::new(), BTreeSet::new());
        self.storages(&of.body, &mut storages);
        each_instr(&of.body, &mut |instr| {
            if let Instr::Allocate { storage, .. } = instr {
                own.insert(*storage);
            }
        });
        let storages: Vec<u32> = storages.difference(&own).copied().collect();
        let allocated = storages.iter().filter_map(|of| Some((*of, self.allocated.get(of)?.clone()))).collect();
        Captured { registers, storages, allocated }
    }
}

/// Emits two functions: one executes a range of iterations, the other unpacks the captured values for it.
fn part(
    outer: &mut Function<'_, '_>,
    (of, fixed_min): (&Loop, Option<String>),
    number: usize,
    captured: &Captured,
) -> Result<(), Fault> {
    let (mut params, mut args) = (String::new(), String::new());
    let name = outer.module.name;
    let head = format!("define internal i32 @{name}.part{number}(ptr %context, ptr %frame, i64 %first, i64 %end)");
    let mut entry = Function::new(outer.module, head);
    let mut next = 0;
    let mut take = |entry: &mut Function<'_, '_>, ty: &str| {
        let at = entry.op(format_args!("getelementptr i64, ptr %frame, i64 {next}"));
        next += 1;
        entry.op(format_args!("load {ty}, ptr {at}, align 8"))
    };
    let min = fixed_min.unwrap_or_else(|| {
        let min = take(&mut entry, "i64");
        params.push_str(", i64 %min");
        let _ = write!(args, ", i64 {min}");
        "%min".to_string()
    });
    for storage in &captured.storages {
        let pointer = take(&mut entry, "ptr");
        let align = entry.module.align(*storage);
        let _ = write!(params, ", ptr noalias align {align} %s{storage}");
        let _ = write!(args, ", ptr {pointer}");
        if captured.allocated.contains_key(storage) {
            let bytes = take(&mut entry, "i64");
            let _ = write!(params, ", i64 %bytes{storage}");
            let _ = write!(args, ", i64 {bytes}");
        }
    }
    for (reg, ty) in &captured.registers {
        let value = take(&mut entry, ty);
        let _ = write!(params, ", {ty} %given{}", reg.0);
        let _ = write!(args, ", {ty} {value}");
    }
    let work = format!("@{name}.part{number}.work");
    let code = entry.op(format_args!("call i32 {work}(ptr %context, i64 %first, i64 %end{args})"));
    entry.ret(&code);
    entry.close();
    let head = format!("define internal i32 {work}(ptr %context, i64 %first, i64 %end{params})");
    let mut body = Function::new(outer.module, head);
    body.in_thread = true;
    for storage in captured.allocated.keys() {
        let bytes = body.slot(&format!("n{storage}"), "i64");
        body.line(format_args!("store i64 %bytes{storage}, ptr {bytes}"));
        let pointer = body.slot(&format!("p{storage}"), "ptr");
        body.line(format_args!("store ptr %s{storage}, ptr {pointer}"));
        body.allocated.insert(*storage, Memory::Heap([pointer, bytes]));
    }
    for (reg, _) in &captured.registers {
        body.write(*reg, &format!("%given{}", reg.0));
    }
    body.loop_(of, &min, ["%first", "%end"])?;
    body.finish("0");
    Ok(())
}
