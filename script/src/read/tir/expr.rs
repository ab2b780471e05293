//! Reads TIR expressions.

use crate::metadata::Object;
use crate::read::arguments::int;
use crate::read::ops::{binary_op, compare_op};
use crate::read::tir::dtypes::{is_narrower, lanes, promoted, typed, with_lanes};
use crate::read::tir::python::{PythonNumber, python_number, python_truth};
use crate::read::tir::reader::{E, HERE, Is, TirReader};
use crate::words::diagnostic::Diagnostic;
use crate::words::dtypes::dtype_named;
use crate::words::syntax::{Read, path_after, span};
use passhost_lang::ir::records::{flag, kind};
use passhost_lang::ir::{DType, Dim, DimExpr, Expr as View, NodeSpec, Type, TypeId, V, Value};
use passhost_lang::scalar::PrimOp;
use ruff_python_ast::{
    BoolOp, Expr, ExprAttribute, ExprBoolOp, ExprCompare, ExprSubscript, ExprUnaryOp, Number, Operator, UnaryOp,
};
use std::ops::Range;

impl<'a> TirReader<'a> {
    /// Reads an expression with a value, that is, neither a buffer nor a string.
    pub(super) fn value(&mut self, expr: &'a Expr) -> Read<E> {
        if let Expr::StringLiteral(_) = expr {
            return Err(Diagnostic::new(span(expr), "expected a number, found a string"));
        }
        self.value_or_text(expr)
    }

    /// Reads an expression with a value, or a string.
    pub(super) fn value_or_text(&mut self, expr: &'a Expr) -> Read<E> {
        let e = self.expr(expr)?;
        let e = match e.is {
            Is::Buffer => {
                return Err(Diagnostic::new(span(expr), "a buffer is not a value").help("load an element: A[i, j]"));
            }
            Is::Scalar => self.load_scalar(e),
            Is::Value | Is::Literal => e,
        };
        Ok(E { end: self.b.n_nodes(), ..e })
    }

    pub(super) fn load_scalar(&mut self, e: E) -> E {
        let zero = self.imm(0, DType::I32);
        let ty = self.prim_type(e.dtype);
        let v = self.b.node(NodeSpec::new(kind::LOAD).ty(ty), &[e.v, zero], None);
        typed(v, ty, e.dtype)
    }

    /// Returns an integer or bool.
    pub(super) fn imm(&mut self, value: i64, dtype: DType) -> V {
        if let Some(v) = self.literals.get(&(value, dtype.0)) {
            return *v;
        }
        let v = self.b.scalar(&Dim::int(value, dtype));
        self.literals.insert((value, dtype.0), v);
        v
    }

    pub(super) fn imm_of(&mut self, value: i64, dtype: DType, is: Is) -> E {
        let v = self.imm(value, dtype);
        E { v, ty: self.prim_type(dtype), dtype, is, end: HERE }
    }

    pub(super) fn float(&mut self, value: f64, dtype: DType, is: Is) -> E {
        let v = self.b.scalar(&Dim::float(value, dtype));
        E { v, ty: self.prim_type(dtype), dtype, is, end: HERE }
    }

    /// Returns an untyped integer literal.
    pub(super) fn number(&mut self, value: i64) -> E {
        let dtype = if i32::try_from(value).is_ok() { DType::I32 } else { DType::I64 };
        self.imm_of(value, dtype, Is::Literal)
    }

    /// Adds a node with a value of a data type.
    pub(super) fn node(&mut self, spec: NodeSpec, ops: &[V], dtype: DType) -> E {
        let ty = self.prim_type(dtype);
        let v = self.b.node(spec.ty(ty), ops, None);
        E { end: self.b.n_nodes(), ..typed(v, ty, dtype) }
    }

    /// Reads any expression.
    pub(super) fn expr(&mut self, expr: &'a Expr) -> Read<E> {
        match python_number(expr) {
            Some(PythonNumber::Int(value)) => return Ok(self.number(value)),
            Some(PythonNumber::Float(value)) => return Ok(self.float(value, DType::F32, Is::Literal)),
            None => {}
        }
        match expr {
            Expr::Name(name) => self.lookup(name.id.as_str(), span(name)),
            Expr::NumberLiteral(number) => match &number.value {
                Number::Int(_) => self.integer(expr),
                Number::Float(value) => Ok(self.float(*value, DType::F32, Is::Literal)),
                Number::Complex { .. } => Err(not_a_value(expr)),
            },
            Expr::BooleanLiteral(value) => Ok(self.imm_of(i64::from(value.value), DType::BOOL, Is::Value)),
            Expr::StringLiteral(text) => {
                let v = self.b.string(text.value.to_str());
                Ok(typed(v, TypeId::NONE, DType::VOID))
            }
            Expr::UnaryOp(unary) => self.unary(unary, expr),
            Expr::BinOp(binary) => {
                let Some(op) = binary_op(binary.op) else { return Err(not_a_value(expr)) };
                let from = self.b.n_nodes();
                let (a, b) = (self.value(&binary.left)?, self.value(&binary.right)?);
                self.operator(op, a, b, from, span(expr))
            }
            Expr::BoolOp(logic) => self.logic(logic, expr),
            Expr::Compare(compare) => self.comparison(compare, expr),
            Expr::If(choice) if let Some(always) = python_truth(&choice.test) => {
                self.value(if always { &choice.body } else { &choice.orelse })
            }
            Expr::If(choice) => {
                let cond = self.value(&choice.test)?;
                let (then, other) = (self.value(&choice.body)?, self.value(&choice.orelse)?);
                let (then, other) = self.matched(then, other, &span(expr))?;
                let ty = self.type_of_result(then);
                Ok(self.intrinsic("if_then_else", &[cond, then, other], ty, then.dtype))
            }
            Expr::Subscript(subscript) => self.subscript(subscript, expr),
            Expr::Attribute(attribute) => self.attribute(attribute, expr),
            Expr::Call(call) => self.call(call, expr),
            _ => Err(not_a_value(expr)),
        }
    }

    /// Reads an integer literal with its sign.
    fn integer(&mut self, expr: &'a Expr) -> Read<E> {
        match int(expr) {
            Some(value) => Ok(self.number(value)),
            None => Err(Diagnostic::new(span(expr), "does not fit in 64 bits")),
        }
    }

    /// Reads `-a`, `not a`, `+a` or `~a`.
    fn unary(&mut self, unary: &'a ExprUnaryOp, expr: &'a Expr) -> Read<E> {
        match (unary.op, &*unary.operand) {
            (UnaryOp::USub, Expr::NumberLiteral(number)) => match &number.value {
                Number::Float(value) => Ok(self.float(-*value, DType::F32, Is::Literal)),
                _ => self.integer(expr),
            },
            (UnaryOp::USub, operand) => {
                let from = self.b.n_nodes();
                let a = self.value(operand)?;
                self.negated(a, from, span(expr))
            }
            (UnaryOp::Not, Expr::BooleanLiteral(value)) => {
                Ok(self.imm_of(i64::from(!value.value), DType::BOOL, Is::Value))
            }
            (UnaryOp::Not, operand) => {
                let a = self.value(operand)?;
                match self.is_zero(a) {
                    Some(zero) => Ok(self.imm_of(i64::from(zero), DType::BOOL, Is::Value)),
                    None => self.inverted(a, span(expr)),
                }
            }
            (UnaryOp::UAdd, operand @ (Expr::NumberLiteral(_) | Expr::BooleanLiteral(_) | Expr::UnaryOp(_))) => {
                self.value(operand)
            }
            (UnaryOp::UAdd, _) => {
                Err(Diagnostic::new(span(expr), "TVM does not support unary `+` of expressions").help("leave it out"))
            }
            (UnaryOp::Invert, operand) => {
                let a = self.value(operand)?;
                if a.dtype.is_float() {
                    let message = format!("`~` needs integers or bools, found {}", a.dtype);
                    return Err(Diagnostic::new(span(expr), message));
                }
                let ty = self.type_of_result(a);
                Ok(self.intrinsic("bitwise_not", &[a], ty, a.dtype))
            }
        }
    }

    /// Reads `a and b and c`, from the left.
    fn logic(&mut self, logic: &'a ExprBoolOp, expr: &'a Expr) -> Read<E> {
        let op = if logic.op == BoolOp::And { PrimOp::And } else { PrimOp::Or };
        let from = self.b.n_nodes();
        // The Python value of the preceding operands. Once it decides the result, Python ignores further operands.
        let decides = logic.op == BoolOp::Or;
        let (mut all, mut known): (Option<E>, Option<bool>) = (None, None);
        for (i, value) in logic.values.iter().enumerate() {
            known = python_truth(value).filter(|_| i == 0 || known.is_some());
            let next = match python_truth(value) {
                Some(truth) => self.truth(truth),
                None => self.value(value)?,
            };
            all = Some(match all.filter(|_| known.is_none()) {
                Some(before) => self.operator(op, before, next, from, span(expr))?,
                None => next,
            });
            if known == Some(decides) {
                break;
            }
        }
        all.ok_or_else(|| not_a_value(expr))
    }

    /// Reads `a < b`; `a < b < c` is `a < b and b < c`.
    fn comparison(&mut self, compare: &'a ExprCompare, expr: &'a Expr) -> Read<E> {
        if let Some(truth) = python_truth(expr).filter(|_| compare.ops.len() > 1) {
            return Ok(self.truth(truth));
        }
        let (from, at) = (self.b.n_nodes(), span(expr));
        let (mut before, mut left) = (from, self.value(&compare.left)?);
        let mut all: Option<E> = None;
        for (i, (op, right)) in compare.ops.iter().zip(&compare.comparators).enumerate() {
            let Some(op) = compare_op(*op) else { return Err(not_a_value(expr)) };
            let right = self.value(right)?;
            let result = self.operator(op, left, right, before, at.clone())?;
            all = Some(match all {
                Some(all) => self.operator(PrimOp::And, all, result, from, at.clone())?,
                None => result,
            });
            if i + 1 < compare.ops.len() {
                before = self.b.n_nodes();
                left = self.again(right);
            }
        }
        all.ok_or_else(|| not_a_value(expr))
    }

    /// Reads `A[i, j]`, `A.strides[0]` or `metadata["ir.StringImm"][0]`.
    fn subscript(&mut self, subscript: &'a ExprSubscript, expr: &'a Expr) -> Read<E> {
        if let Expr::Attribute(attribute) = &*subscript.value
            && attribute.attr.as_str() == "strides"
        {
            let buffer = self.buffer(&attribute.value)?;
            let Some(index) = int(&subscript.slice).and_then(|index| u32::try_from(index).ok()) else {
                return Err(Diagnostic::new(span(&*subscript.slice), "expected the index of a dimension"));
            };
            return self.buffer_part(buffer, index.saturating_add(2), span(subscript));
        }
        if let Expr::Attribute(attribute) = &*subscript.value
            && attribute.attr.as_str() == "shape"
        {
            return self.extent(&attribute.value, &subscript.slice);
        }
        match self.scope.metadata(expr)? {
            Some(Object::Str(text)) => {
                let v = self.b.string(&text);
                return Ok(typed(v, TypeId::NONE, DType::VOID));
            }
            Some(_) => return Err(not_a_value(expr)),
            None => {}
        }
        let buffer = self.buffer(&subscript.value)?;
        let mut ops = vec![buffer.v];
        let lanes = self.indices(&subscript.slice, buffer, &mut ops)?;
        let dtype = with_lanes(buffer.dtype, lanes);
        Ok(self.node(NodeSpec::new(kind::LOAD), &ops, dtype))
    }

    /// Reads the indices of a load or store. Returns the number of accessed lanes.
    pub(super) fn indices(&mut self, slice: &'a Expr, buffer: E, ops: &mut Vec<V>) -> Read<i32> {
        let items = match slice {
            Expr::Tuple(tuple) => &*tuple.elts,
            one => std::slice::from_ref(one),
        };
        let rank = self.rank(buffer);
        if items.len() != rank {
            let message = format!("{} indices for a buffer of {rank} dimensions", items.len());
            return Err(Diagnostic::new(span(slice), message));
        }
        let mut lanes = 1;
        for item in items {
            let index = match item {
                Expr::Slice(slice) => self.ramp(slice)?,
                item => self.value(item)?,
            };
            let found = self::lanes(index.dtype);
            if found != 1 {
                lanes = found;
            }
            ops.push(index.v);
        }
        Ok(lanes)
    }

    pub(super) fn rank(&self, buffer: E) -> usize {
        self.b.with(buffer.v, |value| usize::try_from(value.ty().ndim()).unwrap_or(0))
    }

    /// Returns a buffer by its name.
    pub(super) fn buffer(&mut self, expr: &'a Expr) -> Read<E> {
        // `x.source` is the buffer of a scalar used by name; older modules use `x.buffer`.
        let named = match expr {
            Expr::Attribute(attribute) if matches!(attribute.attr.as_str(), "source" | "buffer") => &*attribute.value,
            other => other,
        };
        if let Expr::Name(name) = named {
            let e = self.lookup(name.id.as_str(), span(name))?;
            if matches!(e.is, Is::Buffer | Is::Scalar) {
                return Ok(e);
            }
        }
        let found = self.scope.text.get(span(expr)).unwrap_or("").lines().next().unwrap_or("").to_string();
        Err(Diagnostic::new(span(expr), format!("expected a buffer, found `{found}`"))
            .help("name a buffer: `A[i]`, `A.data`; the buffer of a scalar variable `x` is `x.source`"))
    }

    /// Reads the index `a:b:c` as a vector of indices.
    fn ramp(&mut self, slice: &'a ruff_python_ast::ExprSlice) -> Read<E> {
        let (Some(lower), Some(upper)) = (&slice.lower, &slice.upper) else {
            return Err(Diagnostic::new(span(slice), "a slice needs a start and an end").help("A[0:4]"));
        };
        let step = match slice.step.as_deref() {
            Some(step) => match int_of(step) {
                Some(step) if step != 0 => step,
                _ => return Err(Diagnostic::new(span(step), "the step of a slice must be a constant other than 0")),
            },
            None => 1,
        };
        if let Some(extent) = self.scalable_extent(lower, upper) {
            return self.scalable_ramp(lower, extent, step, span(&**upper));
        }
        let (base, extent) = self.range(lower, upper)?;
        let stride = self.imm(step, base.dtype);
        let known = self.b.with(extent.v, |value| value.dim().and_then(|dim| dim.as_int()));
        let (lanes, count) = match known {
            Some(n) => {
                let n = n / step;
                (self.imm(n, DType::I32), i32::try_from(n).unwrap_or(0))
            }
            None => (extent.v, self.lane_count(extent, span(&**upper))?),
        };
        let dtype = with_lanes(base.dtype, count);
        Ok(self.node(NodeSpec::new(kind::RAMP), &[base.v, stride, lanes], dtype))
    }

    /// Returns the extent of `lower:upper` as a multiple of `T.vscale()`; `None` if it is not a multiple.
    fn scalable_extent(&self, lower: &Expr, upper: &Expr) -> Option<i64> {
        let source = |expr: &Expr| self.scope.text.get(span(expr)).unwrap_or("");
        match upper {
            Expr::BinOp(sum) if sum.op == Operator::Add && source(&sum.left) == source(lower) => {
                self.scales(&sum.right)
            }
            upper if int_of(lower) == Some(0) => self.scales(upper),
            _ => None,
        }
    }

    /// Returns the factor of `T.vscale()` in a product.
    fn scales(&self, expr: &Expr) -> Option<i64> {
        match expr {
            Expr::Call(call) if call.arguments.is_empty() => {
                (path_after(self.scope.text, &call.func, "T") == Some("vscale")).then_some(1)
            }
            Expr::BinOp(product) if product.op == Operator::Mult => {
                let (a, b) = (&*product.left, &*product.right);
                match (int_of(a), int_of(b)) {
                    (None, Some(n)) => self.scales(a)?.checked_mul(n),
                    (Some(n), None) => self.scales(b)?.checked_mul(n),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// Reads `a:a + T.vscale() * 8:2`; as in TVM, the number of lanes is `T.vscale() * 4`.
    fn scalable_ramp(&mut self, lower: &'a Expr, extent: i64, step: i64, at: Range<usize>) -> Read<E> {
        let lanes = extent.checked_rem(step).filter(|rest| *rest == 0).and_then(|_| i32::try_from(extent / step).ok());
        let Some(lanes) = lanes.filter(|lanes| *lanes > 0) else {
            return Err(Diagnostic::new(at, "the number of lanes of a slice must be a multiple of its step")
                .help("A[i:i + T.vscale() * 8:2]"));
        };
        let base = self.value(lower)?;
        let stride = self.imm(step, base.dtype);
        let count = self.scalable_lanes(lanes);
        let dtype = with_lanes(base.dtype, -lanes);
        Ok(self.node(NodeSpec::new(kind::RAMP), &[base.v, stride, count.v], dtype))
    }

    /// Returns a number of lanes; negative for a multiple of `T.vscale()`.
    ///
    /// # Errors
    /// Fails if it is neither a number nor a multiple of `T.vscale()`.
    pub(super) fn lane_count(&self, lanes: E, at: Range<usize>) -> Read<i32> {
        let number = |value: Value<'_>| value.dim()?.as_int().and_then(|n| i32::try_from(n).ok()).filter(|n| *n > 0);
        let scales = |value: Value<'_>| value.as_call_to("tirx.vscale").is_some();
        let count = self.b.with(lanes.v, |value| match value.view() {
            View::Arith { op: PrimOp::Mul, a, b: Some(b) } if scales(a) => number(b).map(|n| -n),
            View::Arith { op: PrimOp::Mul, a, b: Some(b) } if scales(b) => number(a).map(|n| -n),
            _ if scales(value) => Some(-1),
            _ => number(value),
        });
        count.ok_or_else(|| {
            Diagnostic::new(at, "the number of lanes must be a constant, or a constant times T.vscale()")
                .help("T.vscale() * 4")
        })
    }

    /// Reads start and extent of `lower:upper`, in one data type.
    pub(super) fn range(&mut self, lower: &'a Expr, upper: &'a Expr) -> Read<(E, E)> {
        self.bounds(lower, upper, true)
    }

    /// Reads start and extent; unless `alike`, an untyped start literal keeps its own type.
    fn bounds(&mut self, lower: &'a Expr, upper: &'a Expr, alike: bool) -> Read<(E, E)> {
        let source = |expr: &Expr| self.scope.text.get(span(expr)).unwrap_or("");
        let same = source(lower) == source(upper);
        let added = match upper {
            Expr::BinOp(sum) if sum.op == Operator::Add && source(&sum.left) == source(lower) => Some(&*sum.right),
            _ => None,
        };
        let mut min = self.value(lower)?;
        if same {
            let zero = self.imm_of(0, min.dtype, Is::Value);
            return Ok((min, zero));
        }
        if let Some(extent) = added {
            let mut extent = self.value(extent)?;
            if is_narrower(extent.dtype, min.dtype) || extent.is == Is::Literal && min.is != Is::Literal {
                extent = self.retype(extent, min.dtype);
            }
            return Ok((min, extent));
        }
        let (at, from) = (span(upper), self.b.n_nodes());
        let upper = self.value(upper)?;
        if upper.dtype == DType::BOOL {
            return Err(Diagnostic::new(at, "the end of a range must be an integer, not a bool"));
        }
        let number = |reader: &Self, e: E| reader.b.with(e.v, |value| value.dim().and_then(|dim| dim.as_int()));
        match (number(self, min), number(self, upper)) {
            (Some(a), Some(b)) => {
                let dtype = promoted(min.dtype, upper.dtype).unwrap_or(upper.dtype);
                if alike {
                    min = self.imm_of(a, dtype, Is::Value);
                }
                let extent = self.imm_of(b.wrapping_sub(a), dtype, Is::Value);
                Ok((min, extent))
            }
            (Some(0), None) => {
                if min.is == Is::Literal && alike {
                    min = self.retype(min, upper.dtype);
                }
                Ok((min, upper))
            }
            _ => {
                let (start, upper) = self.matched(min, upper, &at)?;
                if alike {
                    min = start;
                }
                let again = self.copy(min.v);
                let extent = self.operator(PrimOp::Sub, upper, E { v: again, ..min }, self.b.n_nodes(), at)?;
                Ok((min, self.simplified(extent, from, min.v)))
            }
        }
    }

    /// Copies an expression, because each node has one user.
    pub(super) fn copy(&mut self, v: V) -> V {
        if v.is_leaf() || self.b.flags(v) & flag::BOUND != 0 || self.b.flags(v) & flag::REGION != 0 {
            return v;
        }
        let words: Vec<u32> = self.b.operand_words(v).to_vec();
        let mut ops = Vec::with_capacity(words.len());
        for word in words {
            let operand = self.b.value_of_word(word);
            ops.push(self.copy(operand));
        }
        let payload = self.b.with(v, |value| value.node().map_or(0, |node| node.a));
        let spec = NodeSpec::new(self.b.kind(v)).flags(self.b.flags(v)).ty(self.b.type_of(v)).a(payload);
        self.b.node(spec, &ops, None)
    }

    /// Reads `A.data`, `A.elem_offset` or `Module.f`.
    fn attribute(&mut self, attribute: &'a ExprAttribute, expr: &'a Expr) -> Read<E> {
        let part = match attribute.attr.as_str() {
            "data" => 0,
            "elem_offset" => 1,
            "source" | "buffer" => return self.buffer(expr),
            _ => return Err(not_a_value(expr)),
        };
        let buffer = self.buffer(&attribute.value)?;
        self.buffer_part(buffer, part, span(attribute))
    }

    pub(super) fn buffer_part(&mut self, buffer: E, part: u32, at: Range<usize>) -> Read<E> {
        let (dtype, scope, strides) = self.b.with(buffer.v, |value| {
            let ty = value.ty();
            (ty.dtype(), ty.buffer_scope().to_string(), ty.buffer().map_or(0, |buffer| buffer.strides_len))
        });
        let spec = NodeSpec::new(kind::BUFFER_PART).a(part);
        if part == 0 {
            let ty = self.b.ty(&Type::Pointer { dtype, scope });
            return Ok(typed(self.b.node(spec.ty(ty), &[buffer.v], None), ty, DType::HANDLE));
        }
        if part >= 2 && part - 2 >= strides {
            return Err(Diagnostic::new(at, format!("the buffer has {strides} strides")));
        }
        // An offset or stride is the buffer's number or variable, as in TVM's parser, and as written by passes.
        let dim = match self.b.type_owned(buffer.ty) {
            Type::Buffer(buffer) if part == 1 => Some(buffer.offset()),
            Type::Buffer(buffer) => buffer.strides.get(part as usize - 2).cloned(),
            _ => None,
        };
        match dim {
            Some(dim) => Ok(self.dim_value(&dim)),
            None => Ok(self.node(spec, &[buffer.v], DType::I32)),
        }
    }

    /// Converts a dimension to the expression that its printed form reads as.
    pub(super) fn dim_value(&mut self, dim: &Dim) -> E {
        let Dim::Expr(expr) = dim else {
            let v = match dim {
                Dim::Var(sym) => self.node_of(*sym),
                _ => None,
            };
            let v = match v {
                Some(v) if self.b.flags(v) & flag::BOUND != 0 => v,
                // Copies the expression.
                Some(v) => {
                    let (again, ty) = (self.copy(v), self.prim_type(dim.dtype()));
                    self.b.set_type(again, ty);
                    again
                }
                None => self.b.scalar(dim),
            };
            return typed(v, self.b.type_of(v), dim.dtype());
        };
        let arith = |op: PrimOp| NodeSpec::new(kind::ARITH).a(u32::from(op));
        match &**expr {
            DimExpr::Int(..) | DimExpr::Float(..) => {
                let v = self.b.scalar(dim);
                typed(v, self.b.type_of(v), dim.dtype())
            }
            DimExpr::Binary(op, dtype, a, b) => {
                let (a, b) = (self.dim_value(a), self.dim_value(b));
                self.node(arith(*op), &[a.v, b.v], *dtype)
            }
            DimExpr::Unary(op, dtype, a) => {
                let a = self.dim_value(a);
                self.node(arith(*op), &[a.v], *dtype)
            }
        }
    }

    /// Reads a region of a buffer: `A[i, 0:4]`, or all of `A`.
    pub(super) fn access(&mut self, expr: &'a Expr, a: u32) -> Read<V> {
        let ops = match expr {
            Expr::Subscript(subscript) => self.part_of_buffer(subscript)?,
            other => self.whole_buffer(other)?,
        };
        Ok(self.b.node(NodeSpec::new(kind::ACCESS).a(a), &ops, None))
    }

    /// Returns the buffer, followed by the start and extent of each range.
    fn part_of_buffer(&mut self, subscript: &'a ExprSubscript) -> Read<Vec<V>> {
        let buffer = self.buffer(&subscript.value)?;
        let items = match &*subscript.slice {
            Expr::Tuple(tuple) => &*tuple.elts,
            one => std::slice::from_ref(one),
        };
        let rank = self.rank(buffer);
        // `A[()]` is the region of a buffer without dimensions.
        if items.len() > rank || items.is_empty() && rank > 0 {
            let message = format!("{} ranges for a buffer of {rank} dimensions", items.len());
            return Err(Diagnostic::new(span(&*subscript.slice), message));
        }
        let Type::Buffer(ty) = self.b.type_owned(buffer.ty) else {
            return Err(Diagnostic::new(span(&*subscript.value), "expected a buffer"));
        };
        let mut ops = vec![buffer.v];
        for (item, dim) in items.iter().zip(&ty.shape) {
            let (start, extent) = self.range_of(item, dim)?;
            ops.extend([start.v, extent.v]);
        }
        // An omitted index selects the whole dimension.
        for dim in &ty.shape[items.len().min(rank)..] {
            let zero = self.imm(0, dim.dtype());
            ops.extend([zero, self.dim_value(dim).v]);
        }
        Ok(ops)
    }

    /// Reads start and extent of `0:4`, or of the single index `i`; `:4` starts at 0, and `2:` extends to the end.
    fn range_of(&mut self, item: &'a Expr, dim: &Dim) -> Read<(E, E)> {
        let Expr::Slice(slice) = item else {
            let start = self.value(item)?;
            let one = self.imm_of(1, start.dtype, Is::Value);
            return Ok((start, one));
        };
        match (&slice.lower, &slice.upper, &slice.step) {
            (Some(lower), Some(upper), None) => self.bounds(lower, upper, false),
            (None, None, None) => {
                let zero = self.imm_of(0, dim.dtype(), Is::Value);
                Ok((zero, self.dim_value(dim)))
            }
            (None, Some(upper), None) => {
                let upper = self.value(upper)?;
                let zero = self.imm_of(0, upper.dtype, Is::Value);
                Ok((zero, upper))
            }
            (Some(lower), None, None) => {
                let (lower, from) = (self.value(lower)?, self.b.n_nodes());
                let end = self.dim_value(dim);
                let again = self.again(lower);
                let extent = self.operator_function(PrimOp::Sub, end, again, from, span(slice))?;
                Ok((lower, extent))
            }
            _ => Err(Diagnostic::new(span(slice), "a range of a region cannot have a step").help("A[0:16, 0:n]")),
        }
    }

    fn whole_buffer(&mut self, expr: &'a Expr) -> Read<Vec<V>> {
        let buffer = self.buffer(expr)?;
        let Type::Buffer(ty) = self.b.type_owned(buffer.ty) else {
            return Err(Diagnostic::new(span(expr), "expected a buffer"));
        };
        let mut ops = vec![buffer.v];
        for dim in &ty.shape {
            let zero = self.imm(0, dim.dtype());
            ops.extend([zero, self.dim_value(dim).v]);
        }
        Ok(ops)
    }
}

/// Returns an integer literal, plain or typed: `4`, `T.int64(4)`.
fn int_of(expr: &Expr) -> Option<i64> {
    match expr {
        Expr::Call(call) => match (&*call.func, &*call.arguments.args) {
            (Expr::Attribute(attribute), [value]) if dtype_named(&attribute.attr).is_some() => int(value),
            _ => None,
        },
        other => int(other),
    }
}

fn not_a_value(expr: &Expr) -> Diagnostic {
    Diagnostic::new(span(expr), "expected a TIR expression")
        .help("a number, a variable, an element such as A[i, j], an operator of Python, or a call such as T.exp(x)")
}
