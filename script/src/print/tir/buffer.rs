//! Prints TIR buffers where they are declared, matched and viewed.

use crate::print::text::python_string;
use crate::print::tir::{SymText, Tir};
use passhost_lang::ir::records::{BufferRec, NONE, buffer_of, kind, prim, tyflag};
use passhost_lang::ir::{DType, Ty, Value};
use std::collections::HashSet;
use std::fmt::Write;

impl<'b> Tir<'_, '_, 'b> {
    /// Prints the buffer of a parameter as an annotation.
    pub(super) fn buffer_param(&mut self, param: Value<'b>, bound: &mut HashSet<u32>) {
        let ty = param.ty();
        let Some(buffer) = ty.buffer().copied() else { return };
        self.push("T.Buffer((");
        // 32-bit variables that are not yet introduced are quoted at their first use.
        let (mut new, mut seen) = (Vec::new(), HashSet::new());
        for (i, id) in self.raw.list(buffer.shape_off, buffer.shape_len).iter().enumerate() {
            self.p.comma(i);
            let (mut fresh, mut compound) = (false, false);
            let mut found = Vec::new();
            self.each_sym(*id, &mut |sym, dtype| found.push((sym, dtype)));
            let bare = self.raw.prims().get(*id as usize).is_some_and(|rec| rec.op == prim::VAR);
            for (sym, dtype) in found {
                let node = match self.syms.get(sym as usize) {
                    // An expression does not introduce variables.
                    Some(SymText::Node(at)) if self.body.value_at(*at as usize).is_nested() => continue,
                    other => matches!(other, Some(SymText::Node(_))),
                };
                let type_var = dtype == DType::I64 && !node;
                fresh |= !type_var && !bound.contains(&sym) && !seen.contains(&sym);
                compound |= type_var && !bare;
                seen.insert(sym);
                if matches!(self.syms.get(sym as usize), Some(SymText::New)) {
                    let name = self.define_sym(sym);
                    new.push((name, dtype, bare));
                }
            }
            let quoted = fresh || compound;
            self.push(if quoted { "\"" } else { "" });
            let from = self.p.out.len();
            self.prim(*id, 0);
            if quoted && self.p.out[from..].contains(['"', '\\']) {
                let inner = self.p.out.split_off(from);
                self.p.out.push_str(&inner.replace('\\', "\\\\").replace('"', "\\\""));
            }
            self.push(if quoted { "\"" } else { "" });
        }
        bound.extend(seen);
        self.push(if buffer.shape_len == 1 { ",)" } else { ")" });
        self.push(", \"");
        self.p.dtype(ty.dtype());
        self.push("\"");
        self.buffer_rest(param, ty, &buffer);
        self.push(")");
        self.declare(&new, 2);
    }

    /// Adds declarations of variables at the head of the body.
    fn declare(&mut self, new: &[(String, DType, bool)], depth: usize) {
        if new.is_empty() {
            return;
        }
        let indent = "    ".repeat(depth);
        if new.iter().all(|(.., bare)| *bare) {
            let names: Vec<&str> = new.iter().map(|(name, ..)| name.as_str()).collect();
            let types: Vec<String> = new.iter().map(|(_, dtype, _)| format!("T.{dtype}()")).collect();
            let _ = writeln!(self.head, "{indent}{} = {}", names.join(", "), types.join(", "));
            return;
        }
        for (name, dtype, _) in new {
            let _ = writeln!(self.head, "{indent}{name} = T.{dtype}()");
        }
    }

    /// Prints the arguments after shape, data type and data: strides, offset, scope, alignment, layout.
    fn buffer_rest(&mut self, value: Value<'b>, ty: Ty<'_>, buffer: &BufferRec) {
        self.strides(value, buffer);
        let needs_factor = self.elem_offset(value, buffer);
        if buffer.elem_offset == NONE && buffer.offset_factor != 1 {
            // An `offset_factor` without `elem_offset` would introduce a variable for the offset.
            self.push(", elem_offset=");
            self.int(0, self.offset_of(buffer).2);
        }
        let scope = ty.buffer_scope();
        let said = value.node().is_some_and(|node| node.kind == kind::BUFFER && node.a == buffer_of::ALLOC)
            && matches!(scope, "shared" | "local");
        if scope != "global" && !said {
            self.push(", scope=");
            python_string(&mut self.p.out, scope);
        }
        if buffer.align != 64 {
            let _ = write!(self.p.out, ", align={}", buffer.align);
        }
        if needs_factor || buffer.offset_factor != 1 {
            let _ = write!(self.p.out, ", offset_factor={}", buffer.offset_factor);
        }
        let tiled = ty.rec().is_some_and(|rec| rec.flags & tyflag::TILED != 0);
        match (tiled, self.s_tir) {
            (false, false) => self.push(", layout=None"),
            (true, true) => self.push(", layout=\"default\""),
            _ => {}
        }
    }

    /// Returns the variable if an expression is a single symbolic variable that is not yet introduced.
    fn new_sym(&self, id: u32) -> Option<u32> {
        let sym = self.raw.prims().get(id as usize).filter(|rec| rec.op == prim::VAR)?.a;
        matches!(self.syms.get(sym as usize), Some(SymText::New)).then_some(sym)
    }

    /// Names a symbolic variable after the part of the buffer that introduces it.
    fn call_as_part(&mut self, sym: u32, buffer: Value<'b>, part: &str) {
        let from = self.p.out.len();
        self.push_name(buffer);
        let name = self.p.out.split_off(from);
        self.syms[sym as usize] = SymText::Text(format!("{name}.{part}"));
    }

    /// Prints the strides. An offset that is just a new variable is written as a hint for its name.
    fn strides(&mut self, value: Value<'b>, buffer: &BufferRec) {
        if buffer.strides_len == 0 {
            return;
        }
        self.push(", strides=(");
        for (i, id) in self.raw.list(buffer.strides_off, buffer.strides_len).iter().enumerate() {
            self.p.comma(i);
            match self.new_sym(*id) {
                Some(sym) => {
                    let hint = self.body.sym_name(sym).unwrap_or("s").to_string();
                    python_string(&mut self.p.out, &hint);
                    self.call_as_part(sym, value, &format!("strides[{i}]"));
                }
                None => self.prim(*id, 0),
            }
        }
        self.push(if buffer.strides_len == 1 { ",)" } else { ")" });
    }

    /// Prints the offset, unless it is just a new variable, which the offset factor introduces. Returns true in
    /// that case.
    fn elem_offset(&mut self, value: Value<'b>, buffer: &BufferRec) -> bool {
        if buffer.elem_offset == NONE {
            return false;
        }
        if let Some(sym) = self.new_sym(buffer.elem_offset) {
            self.call_as_part(sym, value, "elem_offset");
            return true;
        }
        self.push(", elem_offset=");
        self.prim(buffer.elem_offset, 0);
        false
    }

    /// Declares new symbolic variables before the buffer that mentions them, except for strides and offsets that
    /// are just a variable, because the buffer introduces these.
    fn declare_before(&mut self, buffer: &BufferRec, depth: usize) {
        if self.syms.is_empty() {
            return;
        }
        let mut new = Vec::new();
        let shape = self.raw.list(buffer.shape_off, buffer.shape_len).iter().map(|id| (*id, true));
        let strides = self.raw.list(buffer.strides_off, buffer.strides_len).iter().map(|id| (*id, false));
        let offset = (buffer.elem_offset != NONE).then_some((buffer.elem_offset, false));
        for (id, always) in shape.chain(strides).chain(offset) {
            let bare = self.raw.prims().get(id as usize).is_some_and(|rec| rec.op == prim::VAR);
            if always || !bare {
                self.each_sym(id, &mut |sym, dtype| {
                    if matches!(self.syms.get(sym as usize), Some(SymText::New)) && !new.contains(&(sym, dtype)) {
                        new.push((sym, dtype));
                    }
                });
            }
        }
        let new: Vec<_> = new.into_iter().map(|(sym, dtype)| (self.define_sym(sym), dtype, false)).collect();
        let before = std::mem::take(&mut self.head);
        self.declare(&new, depth);
        let lines = std::mem::replace(&mut self.head, before);
        self.push(&lines);
    }

    pub(super) fn buffer_statement(&mut self, value: Value<'b>, depth: usize) -> Option<Value<'b>> {
        let (ty, node) = (value.ty(), value.node()?);
        let buffer = *ty.buffer()?;
        let matched = matches!(node.a, buffer_of::MATCH | buffer_of::PARAM);
        self.declare_before(&buffer, depth);
        self.indent(depth);
        self.name_node(value);
        let small = self.is_scalar(value);
        if node.a == buffer_of::ALLOC && small && ty.buffer_scope() == "local" {
            return self.scalar(value, ty);
        }
        self.push_name(value);
        self.push(" = ");
        let viewed = value.operand(0).filter(|data| data.kind() == kind::BUFFER_PART).and_then(|data| data.operand(0));
        if let Some(parent) = viewed.filter(|parent| self.is_view(value, *parent, &buffer)) {
            self.view(value, parent, &buffer);
            return None;
        }
        if node.a == buffer_of::DECL && small {
            self.declared_scalar(value, ty, &buffer);
            return None;
        }
        if node.a == buffer_of::ALLOC && small {
            // TVM prints the data type as an object, but cannot read that form.
            let _ = writeln!(self.p.out, "T.alloc_scalar(\"{}\", scope=\"{}\")", ty.dtype(), ty.buffer_scope());
            return None;
        }
        self.push(constructor(node.a, ty));
        if matched {
            self.operand(value, 0, 0);
            self.push(", ");
        }
        self.shape(&buffer);
        if ty.dtype() != DType::F32 {
            self.push(", \"");
            self.p.dtype(ty.dtype());
            self.push("\"");
        }
        if node.a == buffer_of::DECL {
            self.push(", data=");
            self.operand(value, 0, 0);
        }
        self.buffer_rest(value, ty, &buffer);
        if !value.attrs().is_empty() {
            self.push(", annotations=");
            self.plain_dict(value.attrs());
        }
        self.push(")\n");
        None
    }

    /// Prints `T.decl_scalar`, a declared single-element buffer.
    fn declared_scalar(&mut self, value: Value<'b>, ty: Ty<'_>, buffer: &BufferRec) {
        let _ = write!(self.p.out, "T.decl_scalar(T.{}, data=", ty.dtype());
        self.operand(value, 0, 0);
        self.push(", elem_offset=");
        match buffer.elem_offset {
            NONE => self.push("0"),
            offset => self.prim(offset, 0),
        }
        self.push(", scope=");
        python_string(&mut self.p.out, ty.buffer_scope());
        self.push(")\n");
    }

    fn shape(&mut self, buffer: &BufferRec) {
        self.push("(");
        for (i, id) in self.raw.list(buffer.shape_off, buffer.shape_len).iter().enumerate() {
            self.p.comma(i);
            self.prim(*id, 0);
        }
        self.push(if buffer.shape_len == 1 { ",)" } else { ")" });
    }

    /// Prints `x: T.int32 = 0`: a single-element buffer together with the next store, unless the store loads from
    /// the buffer.
    fn scalar(&mut self, value: Value<'b>, ty: Ty<'_>) -> Option<Value<'b>> {
        self.push_name(value);
        self.push(": T.");
        self.p.dtype(ty.dtype());
        let mut at = value.end();
        while at < self.body.len() && self.body.value_at(at).is_nested() {
            at = self.body.value_at(at).end();
        }
        let next = (at < self.body.len()).then(|| self.body.value_at(at));
        let store = next.filter(|next| {
            next.kind() == kind::STORE
                && next.operand(0) == Some(value)
                && next.node().is_some_and(|node| node.a == 0)
                && next.operand(1).is_some_and(|stored| !self.loads(stored, value))
        });
        if let Some(store) = store {
            self.push(" = ");
            self.operand(store, 1, 0);
        }
        self.push("\n");
        store
    }

    fn loads(&self, value: Value<'b>, buffer: Value<'b>) -> bool {
        value == buffer || value.is_nested() && value.operands().any(|operand| self.loads(operand, buffer))
    }

    /// Returns the offset of a buffer, with its data type if it is a number. If the offset is missing, the data
    /// type is that of the first extent, or 64-bit without dimensions.
    fn offset_of(&self, buffer: &BufferRec) -> (u32, i64, DType) {
        if buffer.elem_offset == NONE {
            let first = self.raw.list(buffer.shape_off, buffer.shape_len).first();
            let rec = first.and_then(|id| self.raw.prims().get(*id as usize));
            return (NONE, 0, rec.map_or(DType::I64, |rec| DType(rec.dtype)));
        }
        match self.prim_int(buffer.elem_offset) {
            Some((value, dtype)) => (NONE, value, dtype),
            None => (buffer.elem_offset, 0, DType::VOID),
        }
    }

    /// Returns true if a buffer over the data of another buffer is printed as a view, because it is a view or
    /// cannot be distinguished from one.
    fn is_view(&self, value: Value<'b>, parent: Value<'b>, buffer: &BufferRec) -> bool {
        let (ty, of) = (value.ty(), parent.ty());
        let Some(source) = of.buffer() else { return false };
        match value.node().map(|node| node.a) {
            Some(buffer_of::VIEW) => return true,
            // With a layout, a declaration uses the layout of its own shape.
            Some(buffer_of::DECL) if ty.rec().is_some_and(|rec| rec.flags & tyflag::TILED == 0) => {}
            _ => return false,
        }
        let flags = |ty: Ty<'_>| ty.rec().map(|rec| rec.flags);
        let alike = (ty.buffer_scope(), buffer.align, buffer.offset_factor)
            == (of.buffer_scope(), source.align, source.offset_factor)
            && self.offset_of(buffer) == self.offset_of(source);
        if !alike || flags(ty) != flags(of) {
            return false;
        }
        let (shape, other) =
            (self.raw.list(buffer.shape_off, buffer.shape_len), self.raw.list(source.shape_off, source.shape_len));
        // Without a layout, TVM cannot read a view with a different data type.
        if ty.dtype() != of.dtype() {
            return false;
        }
        let strides = |b: &BufferRec| self.raw.list(b.strides_off, b.strides_len);
        // TVM cannot read views of a buffer without dimensions.
        if shape == other || strides(buffer) != strides(source) || other.is_empty() {
            return false;
        }
        // Extents that differ only in their data type count as the same shape.
        let value = |id: &u32| self.prim_int(*id).map(|(value, _)| value);
        // In a view, a negative extent would mean the remaining elements.
        if shape.iter().any(|id| value(id).is_some_and(|extent| extent < 0)) {
            return false;
        }
        let equal = |(a, b): (&u32, &u32)| a == b || value(a).is_some() && value(a) == value(b);
        shape.len() != other.len() || !shape.iter().zip(other).all(equal)
    }

    /// Prints `A.view(256)` or `A.view("int32")`.
    fn view(&mut self, value: Value<'b>, parent: Value<'b>, buffer: &BufferRec) {
        self.push_name(parent);
        if value.ty().dtype() != parent.ty().dtype() {
            let _ = writeln!(self.p.out, ".view(\"{}\")", value.ty().dtype());
            return;
        }
        self.push(".view(");
        for (i, id) in self.raw.list(buffer.shape_off, buffer.shape_len).iter().enumerate() {
            self.p.comma(i);
            self.prim(*id, 0);
        }
        self.push(")\n");
    }
}

/// Returns the constructor of a kind of buffer, with the opening parenthesis.
fn constructor(of: u32, ty: Ty<'_>) -> &'static str {
    match of {
        buffer_of::MATCH | buffer_of::PARAM => "T.match_buffer(",
        buffer_of::BLOCK => "T.sblock_alloc_buffer(",
        buffer_of::ALLOC => match ty.buffer_scope() {
            "shared" => "T.alloc_shared(",
            "local" => "T.alloc_local(",
            _ => "T.alloc_buffer(",
        },
        buffer_of::DECL => "T.decl_buffer(",
        _ => "T.Buffer(",
    }
}
