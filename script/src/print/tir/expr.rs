//! Prints TIR expressions and buffers.

use crate::print::deeper;
use crate::print::ops::{Infix, binary_name, folds, infix};
use crate::print::text::{float_by_name, push_int, python_string};
use crate::print::tir::{SymText, Tir};
use crate::words::folding::Constant;
use crate::words::tir_ops;
use passhost_lang::ir::records::{NONE, NodeRec, buffer_of, kind, leaf, prim, tyflag, tykind};
use passhost_lang::ir::{DType, Ty, Value};
use passhost_lang::scalar::DTypePlace;
use passhost_lang::scalar::PrimOp;
use std::fmt::Write;

/// Precedence of `~`, higher than that of any binary operator.
const UNARY: u8 = 13;

impl<'b> Tir<'_, '_, 'b> {
    pub(super) fn operand(&mut self, value: Value<'b>, i: usize, above: u8) {
        if let Some(operand) = value.operand(i) {
            self.expr(operand, above);
        }
    }

    /// Prints an expression; `above` is the precedence of its context.
    pub(super) fn expr(&mut self, value: Value<'b>, above: u8) {
        let Some(node) = value.node() else { return self.leaf(value, above) };
        if Self::is_named(value) {
            self.push_name(value);
            if self.is_scalar(value) {
                self.push(".source");
            }
            return;
        }
        deeper(|| self.nested(value, node, above));
    }

    /// Prints an expression without a name.
    fn nested(&mut self, value: Value<'b>, node: &NodeRec, above: u8) {
        match node.kind {
            kind::ARITH => {
                // Validation rejects unknown codes.
                if let Some(op) = PrimOp::of_code(node.a as u16) {
                    self.arith(value, op, above);
                }
            }
            kind::LOAD => self.load(value),
            kind::CALL if inverts_bits(value) => {
                self.push("~");
                self.operand(value, 1, UNARY);
            }
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
            other => self.p.cannot(format!("a node of kind {other:#x} as an expression")),
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
                self.p.string_value(text);
            }
            leaf::GLOBAL_VAR => {
                self.push("Module.");
                let text = self.raw.str(rec.val as u32);
                self.p.dotted(text, "function");
            }
            other => self.p.cannot(format!("a leaf of kind {other:#x} as an expression")),
        }
    }

    /// Prints a number, symbolic variable or dimension.
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
                if let Some(name) = float_by_name(value, dtype) {
                    return self.push(name);
                }
                self.push("T.");
                self.p.dtype(dtype);
                self.push("(");
                float(&mut self.p.out, value);
                self.push(")");
            }
            prim::VAR => self.sym(rec.a, above),
            prim::NOT => {
                self.push(if above > 5 { "(not " } else { "not " });
                self.prim(rec.a, 5);
                self.push(if above > 5 { ")" } else { "" });
            }
            prim::CAST => {
                self.push("T.Cast(\"");
                self.p.dtype(dtype);
                self.push("\", ");
                self.prim(rec.a, 0);
                self.push(")");
            }
            prim::ELSE => {
                // The second half of `T.if_then_else(`.
                self.prim(rec.a, 0);
                self.push(", ");
                self.prim(rec.b, 0);
            }
            code => {
                let Some(op) = PrimOp::of_code(code) else { return };
                let (a, b) = (rec.a, rec.b);
                let dtype = self.raw.prims().get(a as usize).map_or(dtype, |operand| DType(operand.dtype));
                let folds = folds(op, dtype, self.constant(a), self.constant(b));
                let shape = infix(op).filter(|_| !folds);
                self.binary(
                    binary_name(op, folds),
                    shape,
                    above,
                    |tir, above| tir.prim(a, above),
                    |tir, above| tir.prim(b, above),
                );
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
            // TVM cannot read 2^64 - 1 as a number.
            DType::U64 if value == -1 => self.push("T.max_value(\"uint64\")"),
            dtype => {
                self.push("T.");
                self.p.dtype(dtype);
                self.push("(");
                match dtype {
                    DType::U64 => self.push(&(value as u64).to_string()),
                    _ => push_int(&mut self.p.out, value),
                }
                self.push(")");
            }
        }
    }

    fn sym(&mut self, id: u32, above: u8) {
        match self.syms.get(id as usize).cloned() {
            Some(SymText::Text(name)) => self.push(&name),
            Some(SymText::Node(at)) => self.expr(self.body.value_at(at as usize), above),
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
        name: &str,
        shape: Option<Infix>,
        above: u8,
        a: impl FnOnce(&mut Self, u8),
        b: impl FnOnce(&mut Self, u8),
    ) {
        let Some(infix) = shape else {
            self.push("T.");
            self.push(name);
            self.push("(");
            a(self, 0);
            self.push(", ");
            b(self, 0);
            return self.push(")");
        };
        self.push(if infix.level < above { "(" } else { "" });
        a(self, infix.left());
        self.push(infix.text);
        b(self, infix.level + 1);
        self.push(if infix.level < above { ")" } else { "" });
    }

    fn arith(&mut self, value: Value<'b>, op: PrimOp, above: u8) {
        let Some(a) = value.operand(0) else { return };
        match op {
            PrimOp::Not => {
                self.push(if above > 5 { "(not " } else { "not " });
                self.expr(a, 5);
                self.push(if above > 5 { ")" } else { "" });
            }
            PrimOp::Cast => {
                self.push("T.Cast(\"");
                self.p.dtype(value.ty().dtype());
                self.push("\", ");
                self.expr(a, 0);
                self.push(")");
            }
            op => {
                let Some(b) = value.operand(1) else { return };
                let constants = (self.constant_of(a), self.constant_of(b));
                let (x, y) = (a.ty().dtype(), b.ty().dtype());
                let alike = x == y || !x.is_known() || !y.is_known() || op >= PrimOp::Shl;
                let same = matches!(op, PrimOp::Min | PrimOp::Max) && a == b && !a.is_nested();
                let folds = same || folds(op, x, constants.0, constants.1);
                let shape = infix(op).filter(|_| alike && !folds);
                self.binary(
                    binary_name(op, folds),
                    shape,
                    above,
                    |tir, above| tir.expr(a, above),
                    |tir, above| tir.expr(b, above),
                );
            }
        }
    }

    /// Prints `min + extent`, as computed by TVM's operators.
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

    pub(super) fn is_scalar(&self, value: Value<'_>) -> bool {
        let ty = value.ty();
        let Some(buffer) = ty.buffer() else { return false };
        if value.node().is_some_and(|node| node.kind == kind::BUFFER && node.a == buffer_of::VIEW) {
            return self.is_scalar_view(value);
        }
        let one = || self.raw.list(buffer.shape_off, 1).first().and_then(|id| self.prim_int(*id));
        buffer.shape_len == 1
            && ty.rec().is_some_and(|rec| rec.flags & tyflag::TILED != 0)
            && (buffer.strides_len, buffer.align, buffer.offset_factor) == (0, 64, 1)
            && self.offset_of_scalar(value, buffer.elem_offset)
            && one() == Some((1, DType::I32))
            && Self::is_declared_short(value)
    }

    /// Returns true if a single-element buffer is declared without its shape. TVM prints every single-element
    /// buffer by name alone, but can read only these.
    fn is_declared_short(value: Value<'_>) -> bool {
        value
            .node()
            .is_some_and(|node| node.kind == kind::BUFFER && matches!(node.a, buffer_of::DECL | buffer_of::ALLOC))
    }

    /// Returns true if a view is printed by name alone. Its single-element layout is that of a scalar or of other
    /// bytes.
    fn is_scalar_view(&self, value: Value<'_>) -> bool {
        let extent = |ty: Ty<'_>| {
            let buffer = ty.buffer().filter(|buffer| buffer.shape_len == 1)?;
            self.raw.list(buffer.shape_off, 1).first().map(|id| self.prim_int(*id).map(|(extent, _)| extent))
        };
        let Some(parent) = value.operand(0).and_then(|data| data.operand(0)) else { return false };
        let (Some(own), Some(_)) = (extent(value.ty()), extent(parent.ty())) else { return false };
        own == Some(1) && (value.ty().dtype() != parent.ty().dtype() || self.is_scalar(parent))
    }

    /// Returns true if a scalar can have an offset. This is possible for a scalar declared over existing data,
    /// unless it introduces the offset's variable.
    fn offset_of_scalar(&self, value: Value<'_>, offset: u32) -> bool {
        let of = value.node().filter(|node| node.kind == kind::BUFFER).map(|node| node.a);
        if offset == NONE || of.is_none() {
            return true;
        }
        let rec = self.raw.prims().get(offset as usize).filter(|rec| rec.op == prim::VAR);
        let brought_in = rec.is_some_and(|rec| match self.syms.get(rec.a as usize) {
            Some(SymText::Text(text)) => text.ends_with(".elem_offset"),
            Some(SymText::New) => true,
            _ => false,
        });
        of == Some(buffer_of::DECL) && !brought_in
    }

    /// Prints `A[i, j]`, with the indices from operand `first` on; slices are printed only in targets of stores.
    pub(super) fn element(&mut self, buffer: Value<'b>, value: Value<'b>, first: usize) {
        self.push_name(buffer);
        if self.is_scalar(buffer) {
            if value.operand(first).is_some_and(|index| self.int_of(index) == Some((0, DType::I32))) {
                return;
            }
            self.push(".source");
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

    /// Returns true if TVM reads the number of lanes back from a slice: a number, or `T.vscale() * 4`.
    fn lanes_of_slice(&self, lanes: Value<'_>, dtype: DType) -> bool {
        if self.int_of(lanes).is_some() {
            return true;
        }
        let scales = lanes.operand(0).is_some_and(|a| a.as_call_to("tirx.vscale").is_some());
        let is_product =
            lanes.kind() == kind::ARITH && lanes.node().is_some_and(|node| node.a == u32::from(PrimOp::Mul));
        let number = lanes.operand(1).and_then(|n| self.int_of(n));
        scales && is_product && number.is_some_and(|(n, _)| n > 1) && dtype == DType::I32
    }

    /// Prints an index. A vector with a positive constant step is printed as a slice; TVM cannot read back slices
    /// with other steps.
    fn index(&mut self, index: Value<'b>) {
        let stride = index.operand(1).and_then(|stride| self.int_of(stride));
        // TVM cannot read back a slice with a negative step.
        let stride = stride.filter(|(step, _)| *step > 0 && index.kind() == kind::RAMP);
        let Some((step, dtype)) = stride else { return self.expr(index, 0) };
        let (Some(base), Some(lanes)) = (index.operand(0), index.operand(2)) else { return };
        if step <= 0 || !self.lanes_of_slice(lanes, dtype) {
            return self.expr(index, 0);
        }
        self.expr(base, 0);
        self.push(":");
        match (self.int_of(base), self.int_of(lanes)) {
            (Some((a, _)), Some((n, _))) => self.int(a.wrapping_add(n.wrapping_mul(step)), dtype),
            (None, Some((n, _))) => {
                self.expr(base, 11);
                self.push(" + ");
                self.int(n.wrapping_mul(step), dtype);
            }
            (start, None) => {
                let from_zero = matches!(start, Some((0, _)));
                if !from_zero {
                    self.expr(base, 11);
                    self.push(" + ");
                }
                self.expr(lanes, if from_zero && step == 1 { 0 } else { 12 });
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

    /// Prints a region of a buffer.
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
            let index = min.map_or(DType::VOID, |min| min.ty().dtype());
            let one = extent.and_then(|extent| self.int_of(extent)).is_some_and(|extent| extent == (1, index));
            if !one {
                self.push(":");
                self.upper_bound(min, extent);
            }
        }
        self.push("]");
    }

    /// Prints a data type as an argument of a call.
    fn type_argument(&mut self, ty: Ty<'_>) {
        if ty.kind() != tykind::POINTER {
            self.push("\"");
            self.p.dtype(ty.dtype());
            return self.push("\"");
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
        self.p.dotted(name, "operator");
        self.push("(");
        let place = tir_ops::dtype_place(name);
        if place == DTypePlace::First {
            self.type_argument(value.ty());
        }
        for i in 1..value.n_operands() {
            self.p.comma(if place == DTypePlace::First { i } else { i - 1 });
            self.operand(value, i, 0);
        }
        if place == DTypePlace::Last {
            self.p.comma(value.n_operands() - 1);
            self.type_argument(value.ty());
        }
        if let Some(params) = value.attr("launch_params") {
            // The name of a kernel is printed before the launch parameters.
            self.push(", launch_params=[");
            for (i, param) in params.items().enumerate() {
                self.p.comma(i);
                python_string(&mut self.p.out, param.as_str().unwrap_or(""));
            }
            let _ = write!(self.p.out, "], ret_ty=\"{}\"", value.ty().dtype());
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
}

/// Prints a float as TVM does in TIR: whole numbers in full.
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
        crate::print::text::python_float(out, value);
    }
}

/// Returns true if a call is printed as `~a`; false for constants, which would be folded.
pub(super) fn inverts_bits(value: Value<'_>) -> bool {
    let bits = |operand: &Value<'_>| {
        let ty = operand.ty();
        operand.node().is_some() && ty.kind() == tykind::PRIM && ty.dtype().is_known() && !ty.dtype().is_float()
    };
    value.n_operands() == 2 && value.as_call_to("tirx.bitwise_not").is_some() && value.operand(1).filter(bits).is_some()
}
