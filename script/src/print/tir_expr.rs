//! Expressions and buffers of TIR as text.

use super::deeper;
use super::text::{push_int, python_string};
use super::tir::{SymText, Tir};
use crate::tir_ops::{self, Place};
use plugin_api::ir::records::{BufferRec, NONE, NodeRec, buffer_of, kind, leaf, prim, tyflag, tykind};
use plugin_api::ir::{DType, Ty, Value};
use std::fmt::Write;

/// Text and precedence of an infix operator.
fn infix(op: u16) -> Option<(&'static str, &'static str, u8)> {
    Some(match op {
        prim::OR => (" or ", "Or", 3),
        prim::AND => (" and ", "And", 4),
        prim::EQ => (" == ", "EQ", 6),
        prim::NE => (" != ", "NE", 6),
        prim::LT => (" < ", "LT", 6),
        prim::LE => (" <= ", "LE", 6),
        prim::GT => (" > ", "GT", 6),
        prim::GE => (" >= ", "GE", 6),
        prim::BITOR => (" | ", "BitwiseOr", 7),
        prim::BITXOR => (" ^ ", "BitwiseXor", 8),
        prim::BITAND => (" & ", "BitwiseAnd", 9),
        prim::SHL => (" << ", "shift_left", 10),
        prim::SHR => (" >> ", "shift_right", 10),
        prim::ADD => (" + ", "Add", 11),
        prim::SUB => (" - ", "Sub", 11),
        prim::MUL => (" * ", "Mul", 12),
        prim::FLOORDIV => (" // ", "FloorDiv", 12),
        prim::FLOORMOD => (" % ", "FloorMod", 12),
        prim::DIV => (" / ", "Div", 12),
        _ => return None,
    })
}

/// Name of an operation that is always written as a call.
fn call_name(op: u16) -> &'static str {
    match op {
        prim::MIN => "min",
        prim::MAX => "max",
        prim::TRUNCMOD => "truncmod",
        _ => "Div",
    }
}

/// A constant operand.
#[derive(Clone, Copy, PartialEq)]
enum Constant {
    No,
    Int(i64),
    Float(f64),
}

/// Whether TVM's operators would compute `a op b` at once: then the infix form would not be read back.
fn folds(op: u16, a: Constant, b: Constant) -> bool {
    use Constant::{Float, Int, No};
    let is = |x: Constant, v: i64| x == Int(v) || x == Float(v as f64);
    let both = matches!((a, b), (Int(_), Int(_)) | (Float(_), Float(_)));
    match op {
        prim::ADD => both || is(a, 0) || is(b, 0),
        prim::SUB => both || is(b, 0),
        prim::MUL => both || is(a, 0) || is(a, 1) || is(b, 0) || is(b, 1),
        prim::DIV | prim::FLOORDIV => both || is(a, 0) || is(b, 1),
        prim::FLOORMOD => matches!((a, b), (Int(_), Int(_))) || a == Int(0) || b == Int(1),
        prim::EQ..=prim::GE | prim::BITAND | prim::BITOR | prim::BITXOR => both,
        prim::AND | prim::OR => a != No || b != No,
        _ => false,
    }
}

impl<'b> Tir<'_, '_, 'b> {
    pub(super) fn operand(&mut self, value: Value<'b>, i: usize, above: u8) {
        if let Some(operand) = value.operand(i) {
            self.expr(operand, above);
        }
    }

    /// An expression; `above` is the precedence of what is around it.
    pub(super) fn expr(&mut self, value: Value<'b>, above: u8) {
        let Some(node) = value.node() else { return self.leaf(value, above) };
        if Self::is_named(value) {
            self.push_name(value);
            if self.is_scalar(value) {
                self.push(".buffer");
            }
            return;
        }
        deeper(|| self.nested(value, node, above));
    }

    /// An expression without a name.
    fn nested(&mut self, value: Value<'b>, node: &NodeRec, above: u8) {
        match node.kind {
            kind::ARITH => self.arith(value, node.a as u16, above),
            kind::LOAD => self.load(value),
            kind::CALL => self.call(value),
            kind::SELECT => self.list_call("T.Select(", value, 0),
            kind::RAMP => self.list_call("T.Ramp(", value, 0),
            kind::BROADCAST => self.list_call("T.Broadcast(", value, 0),
            kind::SHUFFLE => {
                let vectors = node.a as usize;
                self.push("T.Shuffle([");
                for i in 0..value.n_operands() {
                    match i {
                        0 => {}
                        i if i == vectors => self.push("], ["),
                        _ => self.push(", "),
                    }
                    self.operand(value, i, 0);
                }
                self.push("])");
            }
            kind::LET => {
                self.push("T.Let(");
                self.operand(value, 2, 0);
                self.push(", where={");
                self.operand(value, 0, 0);
                self.push(": ");
                self.operand(value, 1, 0);
                self.push("})");
            }
            kind::BUFFER_PART => {
                self.operand(value, 0, 15);
                match node.a {
                    0 => self.push(".data"),
                    1 => self.push(".elem_offset"),
                    a => {
                        self.push(".strides[");
                        push_int(&mut self.p.out, i64::from(a) - 2);
                        self.push("]");
                    }
                }
            }
            kind::ACCESS => self.access(value),
            kind::COMBINER => self.combiner(value),
            _ => self.push("_"),
        }
    }

    fn list_call(&mut self, open: &str, value: Value<'b>, first: usize) {
        self.push(open);
        for i in first..value.n_operands() {
            self.p.comma(i - first);
            self.operand(value, i, 0);
        }
        self.push(")");
    }

    fn leaf(&mut self, value: Value<'b>, above: u8) {
        let Some(rec) = value.leaf() else { return };
        match rec.kind {
            leaf::PRIM => self.prim(rec.val as u32, above),
            leaf::STR => {
                let text = self.raw.str(rec.val as u32);
                self.p.tir_string(text);
            }
            leaf::GLOBAL_VAR => {
                self.push("Module.");
                let text = self.raw.str(rec.val as u32);
                self.push(text);
            }
            _ => self.push("None"),
        }
    }

    /// A number, symbolic variable or dimension.
    pub(super) fn prim(&mut self, id: u32, above: u8) {
        let Some(rec) = self.raw.prims().get(id as usize) else { return };
        let dtype = DType(rec.dtype);
        match rec.op {
            prim::INT => {
                let value = (u64::from(rec.a) | u64::from(rec.b) << 32) as i64;
                self.int(value, dtype);
            }
            prim::FLOAT => {
                let value = f64::from_bits(u64::from(rec.a) | u64::from(rec.b) << 32);
                let _ = write!(self.p.out, "T.{dtype}(");
                float(&mut self.p.out, value);
                self.push(")");
            }
            prim::VAR => self.sym(rec.a),
            prim::NOT => {
                self.push(if above > 5 { "(not " } else { "not " });
                self.prim(rec.a, 5);
                self.push(if above > 5 { ")" } else { "" });
            }
            prim::CAST => {
                let _ = write!(self.p.out, "T.Cast(\"{dtype}\", ");
                self.prim(rec.a, 0);
                self.push(")");
            }
            op => {
                let (a, b) = (rec.a, rec.b);
                let shape = infix(op).filter(|_| !folds(op, self.constant(a), self.constant(b)));
                self.binary(op, shape, above, |tir, above| tir.prim(a, above), |tir, above| tir.prim(b, above));
            }
        }
    }

    pub(super) fn int(&mut self, value: i64, dtype: DType) {
        match dtype {
            DType::I32 => push_int(&mut self.p.out, value),
            DType::BOOL => self.push(if value != 0 { "T.bool(True)" } else { "T.bool(False)" }),
            DType::I64 => {
                self.push("T.int64(");
                push_int(&mut self.p.out, value);
                self.push(")");
            }
            dtype => {
                let _ = write!(self.p.out, "T.{dtype}(");
                push_int(&mut self.p.out, value);
                self.push(")");
            }
        }
    }

    fn sym(&mut self, id: u32) {
        match self.syms.get(id as usize).cloned() {
            Some(SymText::Text(name)) => self.push(&name),
            Some(SymText::Node(at)) => self.expr(self.body.value_at(at as usize), 13),
            _ => {
                let name = self.define_sym(id);
                self.push(&name);
            }
        }
    }

    fn constant(&self, id: u32) -> Constant {
        match self.raw.prims().get(id as usize) {
            Some(rec) if rec.op == prim::INT => Constant::Int((u64::from(rec.a) | u64::from(rec.b) << 32) as i64),
            Some(rec) if rec.op == prim::FLOAT => {
                Constant::Float(f64::from_bits(u64::from(rec.a) | u64::from(rec.b) << 32))
            }
            _ => Constant::No,
        }
    }

    fn constant_of(&self, value: Value<'_>) -> Constant {
        match value.leaf() {
            Some(rec) if rec.kind == leaf::PRIM => self.constant(rec.val as u32),
            _ => Constant::No,
        }
    }

    fn binary(
        &mut self,
        op: u16,
        shape: Option<(&'static str, &'static str, u8)>,
        above: u8,
        a: impl FnOnce(&mut Self, u8),
        b: impl FnOnce(&mut Self, u8),
    ) {
        let Some((text, _, level)) = shape else {
            let name = infix(op).map_or_else(|| call_name(op), |(_, name, _)| name);
            self.push("T.");
            self.push(name);
            self.push("(");
            a(self, 0);
            self.push(", ");
            b(self, 0);
            return self.push(")");
        };
        if level < above {
            self.push("(");
        }
        a(self, level);
        self.push(text);
        b(self, level + 1);
        if level < above {
            self.push(")");
        }
    }

    fn arith(&mut self, value: Value<'b>, op: u16, above: u8) {
        let Some(a) = value.operand(0) else { return };
        match op {
            prim::NOT => {
                let plain = self.int_of(a).is_some_and(|(_, dtype)| dtype == DType::I32);
                let (open, close) = match (plain, above > 5) {
                    (true, _) => ("T.Not(", ")"),
                    (false, true) => ("(not ", ")"),
                    (false, false) => ("not ", ""),
                };
                self.push(open);
                self.expr(a, if plain { 0 } else { 5 });
                self.push(close);
            }
            prim::CAST => {
                let _ = write!(self.p.out, "T.Cast(\"{}\", ", value.ty().dtype());
                self.expr(a, 0);
                self.push(")");
            }
            op => {
                let Some(b) = value.operand(1) else { return };
                let constants = (self.constant_of(a), self.constant_of(b));
                let (x, y) = (a.ty().dtype(), b.ty().dtype());
                let alike = x == y || !x.is_known() || !y.is_known() || op >= prim::SHL;
                let shape = infix(op).filter(|_| alike && !folds(op, constants.0, constants.1));
                self.binary(op, shape, above, |tir, above| tir.expr(a, above), |tir, above| tir.expr(b, above));
            }
        }
    }

    /// `min + extent`, as TVM's operators compute it.
    pub(super) fn upper_bound(&mut self, min: Option<Value<'b>>, extent: Option<Value<'b>>) {
        let (Some(min), Some(extent)) = (min, extent) else { return };
        match (self.int_of(min), self.int_of(extent)) {
            (Some((a, x)), Some((b, y))) => self.int(a.wrapping_add(b), if x.bits() < y.bits() { y } else { x }),
            (Some((0, _)), _) => self.expr(extent, 0),
            (_, Some((0, _))) => self.expr(min, 0),
            _ => {
                self.expr(min, 11);
                self.push(" + ");
                self.expr(extent, 12);
            }
        }
    }

    fn is_scalar(&self, value: Value<'_>) -> bool {
        let ty = value.ty();
        let Some(buffer) = ty.buffer() else { return false };
        let one = || self.raw.list(buffer.shape_off, 1).first().and_then(|id| self.prim_int(*id));
        buffer.shape_len == 1
            && ty.rec().is_some_and(|rec| rec.flags & tyflag::TILED != 0)
            && (buffer.strides_len, buffer.align, buffer.offset_factor) == (0, 64, 1)
            && one().is_some_and(|(extent, _)| extent == 1)
    }

    /// `A[i, j]`, with the indices from the operand `first` on; only what is stored to is written with slices.
    pub(super) fn element(&mut self, buffer: Value<'b>, value: Value<'b>, first: usize) {
        self.push_name(buffer);
        if self.is_scalar(buffer) {
            return;
        }
        if first >= value.n_operands() {
            return self.push("[()]");
        }
        self.push("[");
        for i in first..value.n_operands() {
            self.p.comma(i - first);
            match value.operand(i) {
                Some(index) if first == 2 => self.index(index),
                Some(index) => self.expr(index, 0),
                None => {}
            }
        }
        self.push("]");
    }

    /// An index; a vector of steps of one number is a slice.
    fn index(&mut self, index: Value<'b>) {
        let stride = index.operand(1).and_then(|stride| self.int_of(stride));
        let Some((step, dtype)) = stride.filter(|_| index.kind() == kind::RAMP) else { return self.expr(index, 0) };
        let (Some(base), Some(lanes)) = (index.operand(0), index.operand(2)) else { return };
        self.expr(base, 0);
        self.push(":");
        match (self.int_of(base), self.int_of(lanes)) {
            (Some((a, _)), Some((n, _))) => self.int(a.wrapping_add(n.wrapping_mul(step)), dtype),
            (None, Some((n, _))) => {
                self.expr(base, 11);
                self.push(" + ");
                self.int(n.wrapping_mul(step), dtype);
            }
            (zero, None) => {
                if !matches!(zero, Some((0, _))) {
                    self.expr(base, 11);
                    self.push(" + ");
                }
                self.expr(lanes, if step == 1 { 0 } else { 12 });
                if step != 1 {
                    self.push(" * ");
                    self.int(step, dtype);
                }
            }
        }
        if step != 1 {
            self.push(":");
            self.int(step, dtype);
        }
    }

    fn load(&mut self, value: Value<'b>) {
        let Some(buffer) = value.operand(0) else { return };
        if value.node().is_none_or(|node| node.a == 0) {
            return self.element(buffer, value, 1);
        }
        let last = value.n_operands() - 1;
        self.expr(buffer, 0);
        self.push(".vload([");
        for i in 1..last {
            self.p.comma(i - 1);
            self.operand(value, i, 0);
        }
        self.push("], predicate=");
        self.operand(value, last, 0);
        self.push(")");
    }

    /// A region of a buffer.
    pub(super) fn access(&mut self, value: Value<'b>) {
        self.operand(value, 0, 15);
        if value.n_operands() < 2 {
            return self.push("[()]");
        }
        self.push("[");
        for i in (1..value.n_operands()).step_by(2) {
            self.p.comma(i - 1);
            let (min, extent) = (value.operand(i), value.operand(i + 1));
            self.operand(value, i, 0);
            let one = extent.and_then(|extent| self.int_of(extent)).is_some_and(|(extent, _)| extent == 1);
            if !one {
                self.push(":");
                self.upper_bound(min, extent);
            }
        }
        self.push("]");
    }

    /// A data type as an argument of a call.
    fn type_argument(&mut self, ty: Ty<'_>) {
        if ty.kind() != tykind::POINTER {
            let _ = write!(self.p.out, "\"{}\"", ty.dtype());
            return;
        }
        let from = self.p.out.len();
        self.value_type(ty);
        if !self.p.out[from..].ends_with(')') {
            self.push("()");
        }
        self.push(".ty");
    }

    fn call(&mut self, value: Value<'b>) {
        let Some(callee) = value.operand(0) else { return };
        let name = callee.leaf().filter(|leaf| leaf.kind == leaf::OP).map(|leaf| self.raw.str(leaf.val as u32));
        let Some(name) = name else {
            self.expr(callee, 0);
            return self.list_call("(", value, 1);
        };
        let name = name.strip_prefix("tirx.").unwrap_or(name);
        self.push("T.");
        self.push(name);
        self.push("(");
        let place = tir_ops::dtype_place(name);
        if place == Place::First {
            self.type_argument(value.ty());
        }
        for i in 1..value.n_operands() {
            self.p.comma(if place == Place::First { i } else { i - 1 });
            self.operand(value, i, 0);
        }
        if place == Place::Last {
            self.p.comma(value.n_operands() - 1);
            self.type_argument(value.ty());
        }
        self.push(")");
    }

    fn combiner(&mut self, value: Value<'b>) {
        let mark = self.mark();
        self.push("T.comm_reducer(lambda ");
        let mut results = None;
        for (i, child) in value.region().children().filter(|child| !child.is_nested()).enumerate() {
            if child.kind() == kind::LOOP_VAR {
                self.p.comma(i);
                self.name_node(child);
                self.push_name(child);
            } else {
                results = Some(child);
            }
        }
        self.push(": ");
        if let Some(results) = results {
            match results.n_operands() {
                1 => self.operand(results, 0, 1),
                _ => self.list_call("(", results, 0),
            }
        }
        self.release(mark);
        self.push(", [");
        for i in 0..value.n_operands() {
            self.p.comma(i);
            self.operand(value, i, 0);
        }
        self.push("])");
    }

    // Buffers.

    /// The buffer of a parameter, as its annotation.
    pub(super) fn buffer_param(&mut self, param: Value<'b>, bound: &mut Vec<u32>) {
        let ty = param.ty();
        let Some(buffer) = ty.buffer().copied() else { return };
        self.push("T.Buffer((");
        // Variables of 32 bits that nothing before brought in are quoted where they stand first.
        let (mut new, mut seen) = (Vec::new(), Vec::new());
        for (i, id) in self.raw.list(buffer.shape_off, buffer.shape_len).iter().enumerate() {
            self.p.comma(i);
            let (mut fresh, mut compound) = (false, false);
            let mut found = Vec::new();
            self.each_sym(*id, &mut |sym, dtype| found.push((sym, dtype)));
            let bare = self.raw.prims().get(*id as usize).is_some_and(|rec| rec.op == prim::VAR);
            for (sym, dtype) in found {
                let node = matches!(self.syms.get(sym as usize), Some(SymText::Node(_)));
                let type_var = dtype == DType::I64 && !node;
                fresh |= !type_var && !bound.contains(&sym) && !seen.contains(&sym);
                compound |= type_var && !bare;
                seen.push(sym);
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
        let _ = write!(self.p.out, ", \"{}\"", ty.dtype());
        self.buffer_rest(param, ty, &buffer, true);
        self.push(")");
        self.declare(&new, 2);
    }

    /// Declarations of variables at the head of the body.
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

    /// What follows shape, data type and data: strides, offset, scope, alignment, layout.
    fn buffer_rest(&mut self, value: Value<'b>, ty: Ty<'_>, buffer: &BufferRec, matched: bool) {
        let is_new = |tir: &Self, id: u32| {
            let sym = tir.raw.prims().get(id as usize).filter(|rec| rec.op == prim::VAR)?;
            matches!(tir.syms.get(sym.a as usize), Some(SymText::New)).then_some(sym.a)
        };
        if buffer.strides_len > 0 {
            self.push(", strides=(");
            for (i, id) in self.raw.list(buffer.strides_off, buffer.strides_len).iter().enumerate() {
                self.p.comma(i);
                match is_new(self, *id).filter(|_| matched) {
                    Some(sym) => {
                        let hint = self.body.sym_name(sym).unwrap_or("s").to_string();
                        python_string(&mut self.p.out, &hint);
                        let from = self.p.out.len();
                        self.push_name(value);
                        let name = self.p.out.split_off(from);
                        self.syms[sym as usize] = SymText::Text(format!("{name}.strides[{i}]"));
                    }
                    None => self.prim(*id, 0),
                }
            }
            self.push(if buffer.strides_len == 1 { ",)" } else { ")" });
        }
        let mut needs_factor = false;
        if buffer.elem_offset != NONE {
            match is_new(self, buffer.elem_offset).filter(|_| matched) {
                Some(sym) => {
                    let from = self.p.out.len();
                    self.push_name(value);
                    let name = self.p.out.split_off(from);
                    self.syms[sym as usize] = SymText::Text(format!("{name}.elem_offset"));
                    needs_factor = true;
                }
                None => {
                    self.push(", elem_offset=");
                    self.prim(buffer.elem_offset, 0);
                }
            }
        }
        if buffer.elem_offset == NONE && buffer.offset_factor != 1 && matched {
            // A factor alone would bring in a variable for the offset.
            let dtype = if buffer.shape_len == 0 { DType::I64 } else { self.offset_of(buffer).2 };
            self.push(", elem_offset=");
            self.int(0, dtype);
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

    /// Symbolic variables that nothing brought in are declared before the buffer that speaks of them.
    fn declare_before(&mut self, buffer: &BufferRec, matched: bool, depth: usize) {
        if self.syms.is_empty() {
            return;
        }
        let mut new = Vec::new();
        let shape = self.raw.list(buffer.shape_off, buffer.shape_len).iter().map(|id| (*id, true));
        let strides = self.raw.list(buffer.strides_off, buffer.strides_len).iter().map(|id| (*id, !matched));
        let offset = (buffer.elem_offset != NONE).then_some((buffer.elem_offset, !matched));
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
        self.declare_before(&buffer, matched, depth);
        self.indent(depth);
        self.name_node(value);
        // The short form says an extent of 32 bits.
        let extent = || self.raw.list(buffer.shape_off, 1).first().and_then(|id| self.prim_int(*id));
        let small = self.is_scalar(value) && extent().is_some_and(|(_, dtype)| dtype == DType::I32);
        if node.a == buffer_of::ALLOC && small && ty.buffer_scope() == "local" {
            return self.scalar(value, ty);
        }
        self.push_name(value);
        self.push(" = ");
        if node.a == buffer_of::DECL && self.view(value, &buffer) {
            self.push("\n");
            return None;
        }
        if node.a == buffer_of::DECL && small {
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
            return None;
        }
        self.push(match node.a {
            buffer_of::MATCH | buffer_of::PARAM => "T.match_buffer(",
            buffer_of::BLOCK => "T.sblock_alloc_buffer(",
            buffer_of::ALLOC => match ty.buffer_scope() {
                "shared" => "T.alloc_shared(",
                "local" => "T.alloc_local(",
                _ => "T.alloc_buffer(",
            },
            buffer_of::DECL => "T.decl_buffer(",
            _ => "T.Buffer(",
        });
        if matched {
            self.operand(value, 0, 0);
            self.push(", ");
        }
        self.shape(&buffer);
        if ty.dtype() != DType::F32 {
            let _ = write!(self.p.out, ", \"{}\"", ty.dtype());
        }
        if node.a == buffer_of::DECL {
            self.push(", data=");
            self.operand(value, 0, 0);
        }
        self.buffer_rest(value, ty, &buffer, matched);
        if !value.attrs().is_empty() {
            self.push(", annotations=");
            self.plain_dict(value.attrs());
        }
        self.push(")\n");
        None
    }

    fn shape(&mut self, buffer: &BufferRec) {
        self.push("(");
        for (i, id) in self.raw.list(buffer.shape_off, buffer.shape_len).iter().enumerate() {
            self.p.comma(i);
            self.prim(*id, 0);
        }
        self.push(if buffer.shape_len == 1 { ",)" } else { ")" });
    }

    /// `x: T.int32 = 0`: a buffer of one element, with the store that follows it.
    fn scalar(&mut self, value: Value<'b>, ty: Ty<'_>) -> Option<Value<'b>> {
        self.push_name(value);
        let _ = write!(self.p.out, ": T.{}", ty.dtype());
        let next = (value.end()..self.body.len()).map(|at| self.body.value_at(at)).find(|value| !value.is_nested());
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

    /// The offset of a buffer, with its data type where it is a number: that of the first extent if none is said.
    fn offset_of(&self, buffer: &BufferRec) -> (u32, i64, DType) {
        if buffer.elem_offset == NONE {
            let first = self.raw.list(buffer.shape_off, buffer.shape_len).first();
            let rec = first.and_then(|id| self.raw.prims().get(*id as usize));
            return (NONE, 0, rec.map_or(DType::I32, |rec| DType(rec.dtype)));
        }
        match self.prim_int(buffer.elem_offset) {
            Some((value, dtype)) => (NONE, value, dtype),
            None => (buffer.elem_offset, 0, DType::VOID),
        }
    }

    /// `A.view(256)`: another shape or data type over the data of a buffer that is named.
    fn view(&mut self, value: Value<'b>, buffer: &BufferRec) -> bool {
        let data = value.operand(0).filter(|data| data.kind() == kind::BUFFER_PART);
        let Some(parent) = data.and_then(|data| data.operand(0)) else { return false };
        let (ty, of) = (value.ty(), parent.ty());
        let Some(source) = of.buffer() else { return false };
        let flags = |ty: Ty<'_>| ty.rec().map(|rec| rec.flags);
        let alike = (buffer.scope, buffer.align, buffer.offset_factor)
            == (source.scope, source.align, source.offset_factor)
            && self.offset_of(buffer) == self.offset_of(source);
        if !alike || flags(ty) != flags(of) {
            return false;
        }
        let (shape, other) =
            (self.raw.list(buffer.shape_off, buffer.shape_len), self.raw.list(source.shape_off, source.shape_len));
        if ty.dtype() != of.dtype() {
            let (Some((last, front)), Some((old, rest))) = (shape.split_last(), other.split_last()) else {
                return false;
            };
            let (Some((last, _)), Some((old, _))) = (self.prim_int(*last), self.prim_int(*old)) else { return false };
            let (bits, before) = (i64::from(ty.dtype().bits()), i64::from(of.dtype().bits()));
            if front != rest || last * bits != old * before {
                return false;
            }
            self.push_name(parent);
            let _ = write!(self.p.out, ".view(\"{}\")", ty.dtype());
            return true;
        }
        let strides = |b: &BufferRec| self.raw.list(b.strides_off, b.strides_len);
        if shape == other || strides(buffer) != strides(source) {
            return false;
        }
        // TVM does not read views of a buffer without dimensions.
        if other.is_empty() {
            return false;
        }
        // Extents that differ in their data type only are no other shape.
        let value = |id: &u32| self.prim_int(*id).map(|(value, _)| value);
        let equal = |(a, b): (&u32, &u32)| a == b || value(a).is_some() && value(a) == value(b);
        if shape.len() == other.len() && shape.iter().zip(other).all(equal) {
            return false;
        }
        self.push_name(parent);
        self.push(".view(");
        for (i, id) in shape.iter().enumerate() {
            self.p.comma(i);
            self.prim(*id, 0);
        }
        self.push(")");
        true
    }
}

/// A float as TVM prints it in TIR: whole numbers in full.
fn float(out: &mut String, value: f64) {
    if !value.is_finite() {
        out.push_str(if value.is_nan() {
            "\"nan\""
        } else if value > 0.0 {
            "\"inf\""
        } else {
            "\"-inf\""
        });
    } else if value.fract() == 0.0 {
        let _ = write!(out, "{value:.1}");
    } else {
        super::text::python_float(out, value);
    }
}
