//! Generates TIR expressions of any data type.

use super::tir::{E, Tir};
use plugin_api::ir::records::kind;
use plugin_api::ir::{BufferType, NodeSpec, TypeId};
use plugin_api::prelude::*;
use plugin_api::scalar::PrimOp;

/// Number of lanes of vectors.
const LANES: i64 = 4;

impl Tir<'_, '_> {
    pub(super) fn node(&mut self, kind: u16, a: u32, dtype: DType, ops: &[E]) -> E {
        let ops: Vec<V> = ops.iter().map(|e| e.v).collect();
        let ty = self.prim_type(dtype);
        E { v: self.b.node(NodeSpec::new(kind).a(a).ty(ty), &ops, None), dtype }
    }

    fn arith(&mut self, op: PrimOp, dtype: DType, ops: &[E]) -> E {
        self.node(kind::ARITH, u32::from(op), dtype, ops)
    }

    pub(super) fn int_of(&mut self, value: i64, dtype: DType) -> E {
        E { v: self.b.scalar(&Dim::int(value, dtype)), dtype }
    }

    /// Returns a number of a data type.
    fn immediate(&mut self, dtype: DType) -> E {
        let v = match dtype.code() {
            6 => return self.compare(0),
            1 => self.b.scalar(&Dim::int(self.c.within(0, 100), dtype)),
            0 if dtype.bits() == 64 => self.b.scalar(&Dim::int(self.c.of(&[0, 1, -3, 1 << 40, i64::MIN + 1]), dtype)),
            0 => self.b.scalar(&Dim::int(self.c.within(-3, 100), dtype)),
            _ => {
                let value = self.c.of(&[0.0, 1.0, 0.5, -2.25, 3.0]);
                let any =
                    if dtype == DType::F32 { self.c.of(&[value, f64::INFINITY, f64::NEG_INFINITY]) } else { value };
                self.b.scalar(&Dim::float(any, dtype))
            }
        };
        E { v, dtype }
    }

    /// Returns a variable or an element of a buffer; if there is none, a number.
    fn simple(&mut self, dtype: DType, depth: usize) -> E {
        let vars: Vec<E> = self.vars.iter().rev().copied().filter(|var| var.dtype == dtype).collect();
        let buffers: Vec<(V, BufferType)> =
            self.buffers.iter().rev().filter(|(_, buffer)| buffer.dtype == dtype).cloned().collect();
        match self.c.below(4) {
            0 | 1 if !vars.is_empty() => vars[self.c.below(vars.len())],
            0..=2 if !buffers.is_empty() && depth > 0 => {
                let at = self.c.below(buffers.len());
                self.load(&buffers[at], depth - 1)
            }
            _ => self.immediate(dtype),
        }
    }

    fn load(&mut self, (v, buffer): &(V, BufferType), depth: usize) -> E {
        let mut ops = vec![E { v: *v, dtype: buffer.dtype }];
        ops.extend(self.indices(buffer, depth.min(1)));
        self.node(kind::LOAD, 0, buffer.dtype, &ops)
    }

    /// Returns the indices of an element.
    pub(super) fn indices(&mut self, buffer: &BufferType, depth: usize) -> Vec<E> {
        if Self::is_scalar(buffer) {
            return vec![self.int_of(0, DType::I32)];
        }
        (0..buffer.shape.len()).map(|_| self.value(self.index, depth)).collect()
    }

    /// Returns an expression of a data type.
    pub(super) fn value(&mut self, dtype: DType, depth: usize) -> E {
        if depth == 0 || self.c.is_empty() {
            return self.simple(dtype, depth.min(1));
        }
        match dtype.code() {
            6 => self.condition(depth),
            0 | 1 => self.integer(dtype, depth - 1),
            2 => self.float(dtype, depth - 1),
            _ => match self.c.below(3) {
                0 => self.simple(dtype, depth),
                _ => {
                    let x = self.value(DType::F32, depth - 1);
                    self.arith(PrimOp::Cast, dtype, &[x])
                }
            },
        }
    }

    fn integer(&mut self, dtype: DType, depth: usize) -> E {
        use PrimOp::*;
        match self.c.below(16) {
            0..=3 => self.simple(dtype, depth),
            4..=8 => {
                let (x, y) = (self.value(dtype, depth), self.value(dtype, depth));
                self.arith(self.c.of(&[Add, Sub, Mul, Min, Max]), dtype, &[x, y])
            }
            9 | 10 => {
                let x = self.value(dtype, depth);
                let y = self.int_of(self.c.within(2, 9), dtype);
                self.arith(self.c.of(&[FloorDiv, FloorMod, TruncDiv, TruncMod]), dtype, &[x, y])
            }
            11 => {
                let x = self.value(dtype, depth);
                let y = self.int_of(self.c.within(1, 7), dtype);
                self.arith(self.c.of(&[Shl, Shr]), dtype, &[x, y])
            }
            12 => {
                let (x, y) = (self.value(dtype, depth), self.value(dtype, depth));
                self.arith(self.c.of(&[BitAnd, BitOr, BitXor]), dtype, &[x, y])
            }
            13 => {
                let other = self.c.of(&["float32", "int8", "bool", "uint16"]).parse().expect("a data type");
                let x = self.value(other, depth);
                self.arith(Cast, dtype, &[x])
            }
            14 => self.let_in(dtype, depth),
            _ => self.choice(dtype, depth),
        }
    }

    fn float(&mut self, dtype: DType, depth: usize) -> E {
        use PrimOp::*;
        match self.c.below(12) {
            0..=3 => self.simple(dtype, depth),
            4..=7 => {
                let (x, y) = (self.value(dtype, depth), self.value(dtype, depth));
                self.arith(self.c.of(&[Add, Sub, Mul, Div, Min, Max]), dtype, &[x, y])
            }
            8 => {
                let x = self.value(dtype, depth);
                self.intrinsic(self.c.of(&["exp", "sqrt", "tanh", "sigmoid"]), dtype, &[x])
            }
            9 => {
                let x = self.value(self.index, depth);
                self.arith(Cast, dtype, &[x])
            }
            10 => self.let_in(dtype, depth),
            _ => self.choice(dtype, depth),
        }
    }

    /// Returns a selection between two values.
    fn choice(&mut self, dtype: DType, depth: usize) -> E {
        let cond = self.condition(depth);
        let (x, y) = (self.value(dtype, depth), self.value(dtype, depth));
        match self.c.coin() {
            true => self.intrinsic("if_then_else", dtype, &[cond, x, y]),
            false => self.node(kind::SELECT, 0, dtype, &[cond, x, y]),
        }
    }

    /// Returns a call of a TIR operator.
    fn intrinsic(&mut self, name: &str, dtype: DType, args: &[E]) -> E {
        let callee = E { v: self.b.op(&format!("tirx.{name}")), dtype };
        let ops: Vec<E> = std::iter::once(callee).chain(args.iter().copied()).collect();
        self.node(kind::CALL, 0, dtype, &ops)
    }

    /// Returns a comparison whose result is not constant.
    fn compare(&mut self, depth: usize) -> E {
        use PrimOp::*;
        let dtype = self.index;
        let (x, y) = (self.value(dtype, depth), self.value(dtype, depth));
        self.arith(self.c.of(&[Lt, Le, Gt, Ge, Eq, Ne]), DType::BOOL, &[x, y])
    }

    pub(super) fn condition(&mut self, depth: usize) -> E {
        if depth == 0 {
            return self.compare(0);
        }
        match self.c.below(11) {
            0..=3 => self.compare(depth - 1),
            4 => {
                let x = self.condition(depth - 1);
                self.arith(PrimOp::Not, DType::BOOL, &[x])
            }
            5 | 6 => {
                let (x, y) = (self.condition(depth - 1), self.condition(depth - 1));
                self.arith(self.c.of(&[PrimOp::And, PrimOp::Or]), DType::BOOL, &[x, y])
            }
            7 => {
                let x = self.condition(depth - 1);
                self.intrinsic("likely", DType::BOOL, &[x])
            }
            _ => self.simple(DType::BOOL, depth),
        }
    }

    /// Returns a `T.Let` with the variable that was declared for it.
    fn let_in(&mut self, dtype: DType, depth: usize) -> E {
        let Some(var) = self.let_var.take() else { return self.simple(dtype, depth) };
        let value = self.value(var.dtype, depth);
        self.vars.push(var);
        let body = self.value(dtype, depth);
        self.vars.pop();
        self.node(kind::LET, 0, dtype, &[var, value, body])
    }

    /// Returns a vector of a data type.
    pub(super) fn vector(&mut self, dtype: DType) -> E {
        let wide = DType::new(dtype.code(), dtype.bits(), LANES as u16);
        let lanes = self.int_of(LANES, DType::I32);
        let fit = |(_, buffer): &&(V, BufferType)| {
            buffer.dtype == dtype && !buffer.shape.is_empty() && !Self::is_scalar(buffer)
        };
        let buffer = self.buffers.iter().rev().find(fit).cloned();
        match buffer.filter(|_| self.c.coin()) {
            Some((v, buffer)) => {
                let mut ops = vec![E { v, dtype }];
                ops.extend(self.vector_indices(&buffer));
                self.node(kind::LOAD, 0, wide, &ops)
            }
            None => {
                let x = self.value(dtype, 1);
                self.node(kind::BROADCAST, 0, wide, &[x, lanes])
            }
        }
    }

    /// Returns indices. The last one is a vector.
    pub(super) fn vector_indices(&mut self, buffer: &BufferType) -> Vec<E> {
        let index = self.index;
        let mut out: Vec<E> = (1..buffer.shape.len()).map(|_| self.value(index, 0)).collect();
        let base = self.value(index, 1);
        let (stride, lanes) = (self.int_of(self.c.of(&[1, 1, 2]), index), self.int_of(LANES, DType::I32));
        let wide = DType::new(index.code(), index.bits(), LANES as u16);
        out.push(self.node(kind::RAMP, 0, wide, &[base, stride, lanes]));
        out
    }

    /// Returns a vector of two scalars.
    pub(super) fn shuffle(&mut self, dtype: DType) -> E {
        let (x, y) = (self.value(dtype, 1), self.value(dtype, 1));
        let (one, zero) = (self.int_of(1, DType::I32), self.int_of(0, DType::I32));
        let wide = DType::new(dtype.code(), dtype.bits(), 2);
        self.node(kind::SHUFFLE, 2, wide, &[x, y, one, zero])
    }

    /// Returns the data pointer of a buffer.
    pub(super) fn data_of(&mut self, (v, buffer): &(V, BufferType)) -> E {
        let scope = if buffer.scope.is_empty() { "global".to_string() } else { buffer.scope.clone() };
        let ty = self.b.ty(&Type::Pointer { dtype: buffer.dtype, scope });
        let v = self.b.node(NodeSpec::new(kind::BUFFER_PART).ty(ty), &[*v], None);
        E { v, dtype: DType::HANDLE }
    }

    /// Returns a call that is evaluated for its effect.
    pub(super) fn effect(&mut self) -> E {
        let others = self.others;
        if let Some(name) = others.get(self.c.below(others.len() + 1)) {
            let callee = self.b.global_var(name, TypeId::NONE);
            let x = self.value(self.index, 1);
            let spec = NodeSpec::new(kind::CALL).flags(plugin_api::ir::records::flag::IMPURE);
            return E { v: self.b.node(spec, &[callee, x.v], None), dtype: DType::VOID };
        }
        let name = self.b.string(self.c.of(&["ext_fill", "vm.builtin.f"]));
        let mut args = vec![E { v: name, dtype: DType::VOID }];
        if !self.buffers.is_empty() {
            let at = self.c.below(self.buffers.len());
            let buffer = self.buffers[at].clone();
            args.push(self.data_of(&buffer));
        }
        args.push(self.value(self.index, 1));
        self.intrinsic(self.c.of(&["call_extern", "call_pure_extern"]), DType::I32, &args)
    }
}
