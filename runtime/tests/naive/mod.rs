//! A naive evaluator of TIR, for tests. It walks the tree, computes integers in 128 bits, and does not share code with
//! the loop programs.

pub(crate) mod generate;

use plugin_api::ir::records::{buffer_of, kind};
use plugin_api::ir::{Bf16, DimExpr, F16};
use plugin_api::prelude::*;
use plugin_api::scalar::PrimOp;
use std::collections::HashMap;

/// A number: exact for integers and Booleans; floats are represented as `f64`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Num {
    I(i128),
    F(f64),
}

impl Num {
    fn int(self) -> i128 {
        match self {
            Num::I(v) => v,
            Num::F(v) => v as i128,
        }
    }

    fn float(self) -> f64 {
        match self {
            Num::I(v) => v as f64,
            Num::F(v) => v,
        }
    }

    fn truth(self) -> bool {
        match self {
            Num::I(v) => v != 0,
            Num::F(v) => v != 0.0,
        }
    }
}

/// The reason why a function does not return a result.
#[derive(Debug, PartialEq)]
pub(crate) enum Wrong {
    OutOfBounds,
    DivisionByZero,
}

/// The way in which a statement ended.
enum End {
    Next,
    Break,
    Continue,
    Return,
}

struct View {
    memory: usize,
    shape: Vec<i128>,
    strides: Vec<i128>,
    offset: i128,
}

pub(crate) struct Naive {
    vars: HashMap<u32, Num>,
    syms: HashMap<u32, i128>,
    views: HashMap<u32, View>,
    pub(crate) memory: Vec<Vec<Num>>,
}

fn dtype(value: Value<'_>) -> DType {
    let known = value.dim().map_or(value.ty().dtype(), |dim| dim.dtype());
    let truth = matches!(value.view(), Expr::Arith { op, .. } if (op.is_truth() || op == PrimOp::Not));
    if truth {
        DType::BOOL
    } else if known.is_known() {
        known
    } else {
        DType::I64
    }
}

/// Converts a number to a data type.
pub(crate) fn fit(t: DType, n: Num) -> Num {
    let bits = u32::from(t.bits());
    match t.code() {
        6 => Num::I(n.truth().into()),
        0 | 1 => {
            let signed = t.code() == 0;
            let whole = 1i128 << bits;
            let v = match n {
                Num::I(v) => v,
                Num::F(v) => {
                    let (low, high) = if signed { (-whole / 2, whole / 2 - 1) } else { (0, whole - 1) };
                    (v as i128).clamp(low, high)
                }
            };
            let v = v.rem_euclid(whole);
            Num::I(if signed && v >= whole / 2 { v - whole } else { v })
        }
        2 if bits == 64 => Num::F(n.float()),
        2 if bits == 16 => Num::F(match n {
            Num::F(v) => F16::from_f64(v).to_f32().into(),
            Num::I(v) => F16::from_f32(v as f32).to_f32().into(),
        }),
        4 => Num::F(match n {
            Num::F(v) => Bf16::from_f32(v as f32).to_f32().into(),
            Num::I(v) => Bf16::from_f32(v as f32).to_f32().into(),
        }),
        _ => Num::F(match n {
            Num::F(v) => (v as f32).into(),
            Num::I(v) => (v as f32).into(),
        }),
    }
}

/// Applies a float operation. Sums and products of two float32 are rounded to float64 first, which does not change
/// the result, because 53 bits are more than twice 24.
fn apply_floats(op: PrimOp, t: DType, a: f64, b: f64) -> Num {
    let truth = |v: bool| Num::I(v.into());
    let value = match op {
        PrimOp::Add => a + b,
        PrimOp::Sub => a - b,
        PrimOp::Mul => a * b,
        PrimOp::Div => a / b,
        PrimOp::Min => {
            if a < b {
                a
            } else {
                b
            }
        }
        PrimOp::Max => {
            if a > b {
                a
            } else {
                b
            }
        }
        PrimOp::Eq => return truth(a == b),
        PrimOp::Ne => return truth(a != b),
        PrimOp::Lt => return truth(a < b),
        PrimOp::Le => return truth(a <= b),
        PrimOp::Gt => return truth(a > b),
        PrimOp::Ge => return truth(a >= b),
        op => panic!("operation {op:?} of floats"),
    };
    fit(t, Num::F(value))
}

fn apply(op: PrimOp, t: DType, a: Num, b: Num) -> Result<Num, Wrong> {
    let truth = |v: bool| Ok(Num::I(v.into()));
    if t.is_float() {
        return Ok(apply_floats(op, t, a.float(), b.float()));
    }
    let (a, b) = (a.int(), b.int());
    if matches!(op, PrimOp::Div | PrimOp::TruncDiv | PrimOp::TruncMod | PrimOp::FloorDiv | PrimOp::FloorMod) && b == 0 {
        return Err(Wrong::DivisionByZero);
    }
    let floor = |a: i128, b: i128| if (a % b != 0) && ((a < 0) != (b < 0)) { a / b - 1 } else { a / b };
    let shift = |b: i128| b.rem_euclid(t.bits().into()) as u32;
    Ok(fit(
        t,
        Num::I(match op {
            PrimOp::Add => a + b,
            PrimOp::Sub => a - b,
            // The product of two uint64 may exceed 127 bits; bits above 64 are dropped.
            PrimOp::Mul => a.wrapping_mul(b),
            PrimOp::Div | PrimOp::TruncDiv => a / b,
            PrimOp::TruncMod => a % b,
            PrimOp::FloorDiv => floor(a, b),
            PrimOp::FloorMod => a - floor(a, b) * b,
            PrimOp::Min => a.min(b),
            PrimOp::Max => a.max(b),
            PrimOp::BitAnd => a & b,
            PrimOp::BitOr => a | b,
            PrimOp::BitXor => a ^ b,
            PrimOp::Shl => a << shift(b),
            PrimOp::Shr => a >> shift(b),
            PrimOp::Eq => return truth(a == b),
            PrimOp::Ne => return truth(a != b),
            PrimOp::Lt => return truth(a < b),
            PrimOp::Le => return truth(a <= b),
            PrimOp::Gt => return truth(a > b),
            PrimOp::Ge => return truth(a >= b),
            PrimOp::And => return truth(a != 0 && b != 0),
            PrimOp::Or => return truth(a != 0 || b != 0),
            op => panic!("operation {op:?}"),
        }),
    ))
}

impl Naive {
    /// Runs a function on buffers with the given elements.
    pub(crate) fn run(body: &Body, args: Vec<(Vec<i64>, Vec<Num>)>) -> Result<Vec<Vec<Num>>, Wrong> {
        let n = args.len();
        let mut naive = Naive { vars: HashMap::new(), syms: HashMap::new(), views: HashMap::new(), memory: Vec::new() };
        for (buffer, (shape, elements)) in body.root().param_buffers().into_iter().zip(args) {
            let ty = buffer.as_buffer_type().expect("a buffer");
            for (dim, extent) in ty.shape.iter().zip(&shape) {
                if let Dim::Var(sym) = dim {
                    naive.syms.insert(sym.id, (*extent).into());
                }
            }
            naive.memory.push(elements);
            let shape: Vec<i128> = shape.iter().map(|extent| (*extent).into()).collect();
            let memory = naive.memory.len() - 1;
            naive.view(buffer, shape, memory);
        }
        naive.content(body.root())?;
        naive.memory.truncate(n);
        Ok(naive.memory)
    }

    fn view(&mut self, buffer: Value<'_>, shape: Vec<i128>, memory: usize) {
        let mut strides = vec![1; shape.len()];
        for i in (1..shape.len()).rev() {
            strides[i - 1] = strides[i] * shape[i];
        }
        self.views.insert(buffer.word(), View { memory, shape, strides, offset: 0 });
    }

    fn dim(&self, dim: &Dim) -> Num {
        match dim {
            Dim::Int(v) => Num::I((*v).into()),
            Dim::Var(sym) => Num::I(self.syms[&sym.id]),
            Dim::Expr(e) => match &**e {
                DimExpr::Int(v, t) if t.is_float() => Num::F(*v as f64),
                DimExpr::Int(v, _) => Num::I((*v).into()),
                DimExpr::Float(bits, t) => fit(*t, Num::F(f64::from_bits(*bits))),
                DimExpr::Unary(PrimOp::Cast, t, a) => fit(*t, self.dim(a)),
                DimExpr::Unary(_, _, a) => Num::I((!self.dim(a).truth()).into()),
                DimExpr::Binary(op, t, a, b) => apply(*op, *t, self.dim(a), self.dim(b)).expect("a dimension"),
            },
        }
    }

    fn content(&mut self, region: Value<'_>) -> Result<End, Wrong> {
        for child in region.region().children() {
            let end = self.child(child)?;
            if !matches!(end, End::Next) {
                return Ok(end);
            }
        }
        Ok(End::Next)
    }

    fn child(&mut self, value: Value<'_>) -> Result<End, Wrong> {
        let Some(stmt) = value.stmt() else {
            if value.kind() == kind::BUFFER {
                self.buffer(value)?;
            }
            return if value.kind() == kind::SCOPE { self.content(value) } else { Ok(End::Next) };
        };
        match stmt {
            Stmt::For { var, min, extent, .. } => {
                let (min, extent) = (self.eval(min)?.int(), self.eval(extent)?.int());
                for i in min..min + extent {
                    self.set(var, Num::I(i));
                    match self.content(value)? {
                        End::Break => break,
                        End::Return => return Ok(End::Return),
                        _ => {}
                    }
                }
            }
            Stmt::Block => return self.block(value),
            Stmt::Store { buffer, value: stored } => {
                let n = usize::from(dtype(stored).lanes().max(1));
                let numbers = (0..n).map(|lane| self.lane(stored, lane)).collect::<Result<Vec<Num>, Wrong>>()?;
                let indices = value.as_element_access().expect("a store").indices;
                let t = buffer.as_buffer_type().expect("a buffer").dtype;
                for (lane, number) in numbers.into_iter().enumerate() {
                    let (memory, at) = self.at(buffer, &indices, lane)?;
                    self.memory[memory][at] = fit(t, number);
                }
            }
            Stmt::Evaluate(of) => drop(self.eval(of)?),
            Stmt::While { cond } => {
                while self.eval(cond)?.truth() {
                    match self.content(value)? {
                        End::Break => break,
                        End::Return => return Ok(End::Return),
                        _ => {}
                    }
                }
            }
            Stmt::If { cond } => {
                let holds = self.eval(cond)?.truth();
                let mut scopes = value.region().children().filter(|scope| scope.kind() == kind::SCOPE);
                if let Some(scope) = scopes.nth(usize::from(!holds)) {
                    return self.content(scope);
                }
            }
            Stmt::Attr { .. } => return self.content(value),
            Stmt::Bind { value: of } => {
                let number = self.eval(of)?;
                self.set(value, number);
            }
            Stmt::Return(_) => return Ok(End::Return),
            Stmt::Break => return Ok(End::Break),
            Stmt::Continue => return Ok(End::Continue),
            other => panic!("{other:?}"),
        }
        Ok(End::Next)
    }

    fn set(&mut self, var: Value<'_>, number: Num) {
        if let Some(Dim::Var(sym)) = var.ty().prims().pop() {
            self.syms.insert(sym.id, number.int());
        }
        self.vars.insert(var.word(), number);
    }

    fn buffer(&mut self, value: Value<'_>) -> Result<(), Wrong> {
        let of = value.node().expect("a node").a;
        if matches!(of, buffer_of::PARAM)
            || self.views.contains_key(&value.word()) && of == buffer_of::MATCH && value.matched_region().is_none()
        {
            return Ok(());
        }
        let ty = value.as_buffer_type().expect("a buffer");
        if let Some(region) = value.matched_region() {
            let mins =
                region.ranges.iter().map(|(min, _)| self.eval(*min).map(Num::int)).collect::<Result<Vec<_>, _>>()?;
            let shape: Vec<i128> = ty.shape.iter().map(|dim| self.dim(dim).int()).collect();
            let source = &self.views[&region.buffer.word()];
            let skipped = mins.len() - shape.len();
            let offset =
                source.offset + mins.iter().zip(&source.strides).map(|(min, stride)| min * stride).sum::<i128>();
            let view = View { memory: source.memory, shape, strides: source.strides[skipped..].to_vec(), offset };
            self.views.insert(value.word(), view);
            return Ok(());
        }
        let shape: Vec<i128> = ty.shape.iter().map(|dim| self.dim(dim).int()).collect();
        let zero = if ty.dtype.is_float() { Num::F(0.0) } else { Num::I(0) };
        self.memory.push(vec![zero; shape.iter().product::<i128>() as usize]);
        self.view(value, shape, self.memory.len() - 1);
        Ok(())
    }

    fn block(&mut self, block: Value<'_>) -> Result<End, Wrong> {
        if let Some(cond) = block.block_condition()
            && !self.eval(cond)?.truth()
        {
            return Ok(End::Next);
        }
        let mut first = true;
        for iter in block.block_iters() {
            let number = self.eval(iter.value)?;
            let (min, extent) = (self.eval(iter.min)?.int(), self.eval(iter.extent)?.int());
            if !(min..min + extent).contains(&number.int()) {
                return Err(Wrong::OutOfBounds);
            }
            first &= !iter.is_reduction || number.int() == min;
            self.set(iter.var, number);
        }
        for buffer in block.region().children().filter(|value| value.kind() == kind::BUFFER) {
            self.buffer(buffer)?;
        }
        if let Some(init) = block.block_init().filter(|_| first) {
            self.content(init)?;
        }
        for stmt in block.statements() {
            let end = self.child(stmt)?;
            if !matches!(end, End::Next) {
                return Ok(end);
            }
        }
        Ok(End::Next)
    }

    fn at(&mut self, buffer: Value<'_>, indices: &[Value<'_>], lane: usize) -> Result<(usize, usize), Wrong> {
        let index = indices.iter().map(|of| self.lane(*of, lane).map(Num::int)).collect::<Result<Vec<_>, _>>()?;
        let view = &self.views[&buffer.word()];
        if index.iter().zip(&view.shape).any(|(at, extent)| !(0..*extent).contains(at)) {
            return Err(Wrong::OutOfBounds);
        }
        let at = view.offset + index.iter().zip(&view.strides).map(|(at, stride)| at * stride).sum::<i128>();
        let at = usize::try_from(at).map_err(|_| Wrong::OutOfBounds)?;
        if at >= self.memory[view.memory].len() {
            return Err(Wrong::OutOfBounds);
        }
        Ok((view.memory, at))
    }

    fn eval(&mut self, value: Value<'_>) -> Result<Num, Wrong> {
        self.lane(value, 0)
    }

    fn lane(&mut self, value: Value<'_>, lane: usize) -> Result<Num, Wrong> {
        if let Some(dim) = value.dim() {
            return Ok(self.dim(&dim));
        }
        if let Some(number) = self.vars.get(&value.word()) {
            return Ok(*number);
        }
        let t = dtype(value);
        let t = DType::new(t.code(), t.bits(), 1);
        Ok(match value.view() {
            Expr::Load { buffer } => {
                let indices = value.as_element_access().expect("a load").indices;
                let (memory, at) = self.at(buffer, &indices, lane)?;
                self.memory[memory][at]
            }
            Expr::Arith { op: PrimOp::Not, a, .. } => Num::I((!self.lane(a, lane)?.truth()).into()),
            Expr::Arith { op: PrimOp::Cast, a, .. } => fit(t, self.lane(a, lane)?),
            Expr::Arith { op: op @ (PrimOp::And | PrimOp::Or), a, b: Some(b) } => {
                let first = self.lane(a, lane)?.truth();
                let decides = first == (op == PrimOp::Or);
                Num::I(if decides { first } else { self.lane(b, lane)?.truth() }.into())
            }
            Expr::Arith { op, a, b: Some(b) } => {
                let of = dtype(a);
                let (x, y) = (self.lane(a, lane)?, self.lane(b, lane)?);
                apply(op, DType::new(of.code(), of.bits(), 1), x, y)?
            }
            Expr::Select { cond, then, otherwise } => {
                let holds = self.lane(cond, lane)?.truth();
                self.lane(if holds { then } else { otherwise }, lane)?
            }
            Expr::Ramp { base, stride, .. } => {
                let (base, stride) = (self.eval(base)?.int(), self.eval(stride)?.int());
                fit(t, Num::I(base + stride * lane as i128))
            }
            Expr::Broadcast { value, .. } => self.eval(value)?,
            Expr::Let { var, value, body } => {
                let number = self.eval(value)?;
                self.set(var, number);
                self.lane(body, lane)?
            }
            Expr::Call(call) => self.call(call, t, lane)?,
            other => panic!("{other:?}"),
        })
    }

    fn call(&mut self, call: Call<'_>, t: DType, lane: usize) -> Result<Num, Wrong> {
        let name = call.op().expect("an operator");
        let arg = |i| call.arg(i).expect("an argument");
        if name == "tirx.if_then_else" {
            let holds = self.lane(arg(0), lane)?.truth();
            return self.lane(arg(if holds { 1 } else { 2 }), lane);
        }
        let a = self.lane(arg(0), lane)?;
        let single = |f: fn(f32) -> f32| fit(t, Num::F(f(a.float() as f32).into()));
        Ok(match name {
            "tirx.likely" => a,
            "tirx.exp" => single(libm::expf),
            "tirx.tanh" => single(libm::tanhf),
            "tirx.sqrt" => single(f32::sqrt),
            "tirx.floor" => single(f32::floor),
            "tirx.fabs" => single(f32::abs),
            "tirx.round" => single(f32::round_ties_even),
            other => panic!("{other}"),
        })
    }
}
