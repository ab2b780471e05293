//! Builds one LLVM function: stack slots for registers, labels, and instructions that read and write registers.

use super::Field;
use super::{Module, types};
use crate::emit::ranges::Range;
use runtime::program::{Affine, Literal, Reg, Scalar};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{Arguments, Write};

/// A function under construction.
pub(super) struct Function<'f, 'p> {
    pub(super) module: &'f mut Module<'p>,
    head: String,
    /// Stack slots, at the start of the function.
    slots: String,
    text: String,
    next: usize,
    known: BTreeSet<String>,
    /// True if the current block has ended.
    ended: bool,
    /// Targets of `continue` and `break`, the innermost loop last.
    pub(super) loops: Vec<[String; 2]>,
    /// Memory allocated by this function, by storage.
    pub(super) allocated: BTreeMap<u32, Memory>,
    /// Bytes of allocated memory on the stack.
    pub(super) on_stack: u64,
    /// The loop whose iterations are the lanes of vectors, if the current code is vectorized.
    pub(super) vector: Option<Vector>,
    /// The stack slot with the mask of active lanes, if the current code is masked.
    pub(super) mask: Option<String>,
    /// Number of lanes of the current instruction.
    pub(super) lanes: u32,
    /// True if the code runs on one of several threads.
    pub(super) in_thread: bool,
}

/// Allocated memory.
#[derive(Clone)]
pub(super) enum Memory {
    /// Memory on the stack, with the name of the slot.
    Stack(String),
    /// Memory on the heap, with the names of two slots: for the pointer, and for the size in bytes.
    Heap([String; 2]),
}

/// A loop whose iterations are the lanes of vectors.
pub(super) struct Vector {
    pub(super) var: Reg,
    pub(super) lanes: u32,
    /// Registers that differ between the lanes.
    pub(super) varying: BTreeSet<Reg>,
}

impl<'f, 'p> Function<'f, 'p> {
    pub(super) fn new(module: &'f mut Module<'p>, head: String) -> Function<'f, 'p> {
        Function {
            module,
            head,
            slots: String::new(),
            text: String::new(),
            next: 0,
            known: BTreeSet::new(),
            ended: false,
            loops: Vec::new(),
            allocated: BTreeMap::new(),
            on_stack: 0,
            vector: None,
            mask: None,
            lanes: 1,
            in_thread: false,
        }
    }

    /// Ends the function by returning `code`, and adds it to the module.
    pub(super) fn finish(mut self, code: &str) {
        self.leave();
        self.ret(code);
        self.close();
    }

    /// Adds the function to the module.
    pub(super) fn close(self) {
        let attributes = if self.head.contains("internal") { "#1" } else { "#0" };
        let Function { module, head, slots, text, .. } = self;
        let _ =
            write!(module.functions, "{head} {attributes} {{\nentry:\n{slots}  br label %begin\nbegin:\n{text}}}\n\n");
    }

    /// Returns 0 as a value that LLVM cannot fold.
    pub(super) fn unknown_zero(&mut self) -> &'static str {
        if self.known.insert("zero".to_string()) {
            self.slots.push_str("  %zero = call i64 asm \"\", \"=r,0\"(i64 0)\n");
        }
        "%zero"
    }

    pub(super) fn line(&mut self, text: Arguments<'_>) {
        if self.ended {
            // Code after a jump is unreachable but must be in a block.
            let label = self.label();
            let _ = writeln!(self.text, "{label}:");
            self.ended = false;
        }
        let _ = writeln!(self.text, "  {text}");
    }

    /// Emits an operation, and returns the name of the result.
    pub(super) fn op(&mut self, text: Arguments<'_>) -> String {
        self.next += 1;
        let name = format!("%t{}", self.next);
        self.line(format_args!("{name} = {text}"));
        name
    }

    pub(super) fn label(&mut self) -> String {
        self.next += 1;
        format!("l{}", self.next)
    }

    /// Starts a block.
    pub(super) fn start(&mut self, label: &str) {
        let _ = writeln!(self.text, "{label}:");
        self.ended = false;
    }

    /// Emits a jump to `label`, unless the block has ended.
    pub(super) fn go(&mut self, label: &str) {
        if !self.ended {
            self.line(format_args!("br label %{label}"));
            self.ended = true;
        }
    }

    pub(super) fn branch(&mut self, cond: &str, yes: &str, no: &str) {
        self.line(format_args!("br i1 {cond}, label %{yes}, label %{no}"));
        self.ended = true;
    }

    pub(super) fn ret(&mut self, code: &str) {
        self.ret_of("i32", code);
    }

    /// Emits a return of a value, unless the block has ended.
    pub(super) fn ret_of(&mut self, ty: &str, value: &str) {
        if !self.ended {
            self.line(format_args!("ret {ty} {value}"));
            self.ended = true;
        }
    }

    /// Leaves the function if a callback returned nonzero.
    pub(super) fn leave_if(&mut self, code: &str) {
        let (bad, good) = (self.label(), self.label());
        let failed = self.op(format_args!("icmp ne i32 {code}, 0"));
        self.branch(&failed, &bad, &good);
        self.start(&bad);
        self.ret("1");
        self.start(&good);
    }

    /// Returns a stack slot.
    pub(super) fn slot(&mut self, name: &str, ty: &str) -> String {
        let name = format!("%{name}");
        if self.known.insert(name.clone()) {
            let _ = writeln!(self.slots, "  {name} = alloca {ty}, align 64");
        }
        name
    }

    /// Returns a stack slot with an initial value.
    pub(super) fn slot_with(&mut self, name: &str, ty: &str, value: &str) -> String {
        let is_new = !self.known.contains(&format!("%{name}"));
        let name = self.slot(name, ty);
        if is_new {
            let _ = writeln!(self.slots, "  store {ty} {value}, ptr {name}");
        }
        name
    }

    /// Returns the address of a field of the context.
    pub(super) fn context_at(&mut self, field: Field) -> String {
        self.op(format_args!("getelementptr i64, ptr %context, i64 {}", field as u32))
    }

    /// Returns the value of a field of the context.
    pub(super) fn context_field(&mut self, field: Field, ty: &str) -> String {
        let at = self.context_at(field);
        self.op(format_args!("load {ty}, ptr {at}, align 8"))
    }

    /// Returns a callback: a field of the context, or a function of the exported library.
    pub(super) fn callback(&mut self, field: Field) -> String {
        match (self.module.purpose.standalone, field) {
            (true, Field::Allocate) => "@passhost.allocate".to_string(),
            (true, Field::Parallel) => "@passhost.parallel".to_string(),
            _ => self.context_field(field, "ptr"),
        }
    }

    /// Reads the scalars passed by the caller.
    pub(super) fn scalars(&mut self, scalars: &[Reg]) {
        let all = self.context_field(Field::Scalars, "ptr");
        for (n, reg) in scalars.iter().enumerate() {
            let at = self.op(format_args!("getelementptr i64, ptr {all}, i64 {n}"));
            let value = match self.module.scalar(*reg) {
                scalar if scalar.is_float() => {
                    let value = self.op(format_args!("load double, ptr {at}, align 8"));
                    match scalar {
                        Scalar::F64 => value,
                        _ => self.op(format_args!("fptrunc double {value} to float")),
                    }
                }
                scalar => {
                    let value = self.op(format_args!("load i64, ptr {at}, align 8"));
                    match self.is_wide(*reg) || types::bits(scalar) == 64 {
                        true => value,
                        false => self.op(format_args!("trunc i64 {value} to {}", types::of(scalar))),
                    }
                }
            };
            self.write(*reg, &value);
        }
    }

    /// Returns true if a register is kept in 64 bits.
    pub(super) fn is_wide(&self, reg: Reg) -> bool {
        self.module.wide[reg.index()]
    }

    /// Returns the LLVM type in which a register is stored.
    pub(super) fn kept(&self, reg: Reg) -> &'static str {
        if self.is_wide(reg) { "i64" } else { types::of(self.module.scalar(reg)) }
    }

    pub(super) fn lanes_of(&self, reg: Reg) -> u32 {
        let varying = |vector: &&Vector| vector.varying.contains(&reg);
        self.vector.as_ref().filter(varying).map_or(1, |vector| vector.lanes)
    }

    fn place_of(&mut self, reg: Reg) -> (String, String, u32) {
        let lanes = self.lanes_of(reg);
        let ty = types::lanes(self.kept(reg), lanes);
        let name = if lanes == 1 { format!("r{}", reg.0) } else { format!("v{}x{lanes}", reg.0) };
        let slot = self.slot(&name, &ty);
        (slot, ty, lanes)
    }

    /// Returns the stored value of a register in all lanes of the current instruction.
    pub(super) fn kept_value(&mut self, reg: Reg) -> String {
        if let Some(value) = self.module.constants.get(&reg) {
            return self.literal(reg, *value);
        }
        let (slot, ty, lanes) = self.place_of(reg);
        let value = self.op(format_args!("load {ty}, ptr {slot}"));
        if lanes == self.lanes { value } else { self.splat(&ty, &value) }
    }

    /// Copies a value to all lanes.
    pub(super) fn splat(&mut self, base: &str, value: &str) -> String {
        if self.lanes == 1 {
            return value.to_string();
        }
        let ty = types::lanes(base, self.lanes);
        let one = self.op(format_args!("insertelement {ty} poison, {base} {value}, i64 0"));
        let mask = format!("<{} x i32> zeroinitializer", self.lanes);
        self.op(format_args!("shufflevector {ty} {one}, {ty} poison, {mask}"))
    }

    /// Returns a number as the stored value of a register, in all lanes.
    pub(super) fn literal(&self, reg: Reg, value: Literal) -> String {
        let base = self.kept(reg);
        let text = match value {
            Literal::Int(value) if base == "i1" => (value != 0).to_string(),
            Literal::Int(value) => self.module.scalar(reg).wrap(value).to_string(),
            Literal::Float(value) if base == "double" => types::float(value),
            Literal::Float(value) => types::float((value as f32).into()),
        };
        self.constant(base, &text)
    }

    /// Returns a constant in all lanes.
    pub(super) fn constant(&self, base: &str, value: &str) -> String {
        match self.lanes {
            1 => value.to_string(),
            lanes => {
                let all: Vec<String> = (0..lanes).map(|_| format!("{base} {value}")).collect();
                format!("<{}>", all.join(", "))
            }
        }
    }

    /// Returns `base` with the lanes of the current instruction.
    pub(super) fn ty(&self, base: &str) -> String {
        types::lanes(base, self.lanes)
    }

    /// Returns the value of a register, in its computation type.
    pub(super) fn value(&mut self, reg: Reg) -> String {
        let (value, scalar) = (self.kept_value(reg), self.module.scalar(reg));
        match self.is_wide(reg) && types::bits(scalar) < 64 {
            true => self.op(format_args!("trunc {} {value} to {}", self.ty("i64"), self.ty(types::of(scalar)))),
            false => value,
        }
    }

    /// Writes a register from a value of its storage type.
    pub(super) fn write(&mut self, reg: Reg, value: &str) {
        let (slot, ty, lanes) = self.place_of(reg);
        debug_assert!(lanes == self.lanes, "a value for all lanes");
        self.line(format_args!("store {ty} {value}, ptr {slot}"));
    }

    /// Writes a register from a value of its computation type.
    pub(super) fn set(&mut self, reg: Reg, value: &str) {
        let scalar = self.module.scalar(reg);
        let value = match self.is_wide(reg) && types::bits(scalar) < 64 {
            true => self.extended(scalar, value),
            false => value.to_string(),
        };
        self.write(reg, &value);
    }

    /// Extends an integer of a type to 64 bits, as in the interpreter.
    pub(super) fn extended(&mut self, scalar: Scalar, value: &str) -> String {
        if types::bits(scalar) == 64 {
            return value.to_string();
        }
        let how = if types::is_unsigned(scalar) { "zext" } else { "sext" };
        self.op(format_args!("{how} {} {value} to {}", self.ty(types::of(scalar)), self.ty("i64")))
    }

    /// Truncates a 64-bit integer to a type.
    pub(super) fn cut(&mut self, scalar: Scalar, value: &str) -> String {
        let zero = self.constant("i64", "0");
        match scalar {
            Scalar::Bool => self.op(format_args!("icmp ne {} {value}, {zero}", self.ty("i64"))),
            scalar if types::bits(scalar) == 64 => value.to_string(),
            scalar => self.op(format_args!("trunc {} {value} to {}", self.ty("i64"), self.ty(types::of(scalar)))),
        }
    }

    /// Returns the value of a register in 64 bits.
    pub(super) fn index(&mut self, reg: Reg) -> String {
        let value = self.kept_value(reg);
        if self.is_wide(reg) { value } else { self.extended(self.module.scalar(reg), &value) }
    }

    /// Returns the value of a form in all lanes of the current instruction.
    pub(super) fn form(&mut self, form: &Affine) -> String {
        let nsw = if self.range(form).is_some() { " nsw" } else { "" };
        let ty = self.ty("i64");
        let mut sum: Option<String> = None;
        for (reg, factor) in &form.terms {
            let value = self.index(*reg);
            let term = match factor {
                1 => value,
                factor => {
                    let factor = self.constant("i64", &factor.to_string());
                    self.op(format_args!("mul{nsw} {ty} {value}, {factor}"))
                }
            };
            sum = Some(match sum {
                None => term,
                Some(sum) => self.op(format_args!("add {ty} {sum}, {term}")),
            });
        }
        let constant = self.constant("i64", &form.constant.to_string());
        match sum {
            None => constant,
            Some(sum) if form.constant == 0 => sum,
            Some(sum) => self.op(format_args!("add {ty} {sum}, {constant}")),
        }
    }

    /// Returns the range of a form, if it is bounded.
    pub(super) fn range(&self, form: &Affine) -> Option<Range> {
        self.module.ranges.form(form)
    }

    /// Calls an intrinsic on the current lanes, and adds its declaration.
    pub(super) fn intrinsic(&mut self, name: &str, base: &str, args: &[&str], more: &str) -> String {
        let ty = self.ty(base);
        let full = format!("llvm.{name}.{}", types::suffix(base, self.lanes));
        let types: Vec<&str> = args.iter().map(|_| ty.as_str()).collect();
        let more_type = if more.is_empty() { "" } else { ", i1" };
        self.module.declared.insert(format!("declare {ty} @{full}({}{more_type})", types.join(", ")));
        let args: Vec<String> = args.iter().map(|arg| format!("{ty} {arg}")).collect();
        self.op(format_args!("call {ty} @{full}({}{more})", args.join(", ")))
    }
}
