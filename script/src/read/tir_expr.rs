//! Expressions of TIR.

use super::ops::{binary_op, compare_op, named_op};
use super::tir::{E, Is, TirReader};
use super::tir_buffer::{handle_type, typed};
use super::types::{dtype_of, int, keyword, wide_int};
use super::{Read, path_after, span};
use crate::diagnostic::Diagnostic;
use crate::metadata::Object;
use crate::tir_ops::{self, Place, Result as OpResult};
use plugin_api::ir::records::{flag, kind, prim};
use plugin_api::ir::{DType, Dim, DimExpr, NodeSpec, Type, TypeId, V};
use plugin_api::names::{did_you_mean, nearest};
use ruff_python_ast::{BoolOp, Expr, ExprAttribute, ExprCall, ExprSubscript, Number, UnaryOp};

impl<'a> TirReader<'a> {
    /// An expression with a value: not a buffer.
    pub(super) fn value(&mut self, expr: &'a Expr) -> Read<E> {
        let e = self.expr(expr)?;
        match e.is {
            Is::Buffer => Err(Diagnostic::new(span(expr), "a buffer is no value").help("load an element: A[i, j]")),
            Is::Scalar => Ok(self.load_scalar(e)),
            Is::Value | Is::Literal => Ok(e),
        }
    }

    pub(super) fn load_scalar(&mut self, e: E) -> E {
        let zero = self.imm(0, DType::I32);
        let ty = self.prim_type(e.dtype);
        let v = self.b.node(NodeSpec::new(kind::LOAD).ty(ty), &[e.v, zero], None);
        typed(v, ty, e.dtype)
    }

    /// An integer or bool.
    pub(super) fn imm(&mut self, value: i64, dtype: DType) -> V {
        if let Some(v) = self.literals.get(&(value, dtype.0)) {
            return *v;
        }
        let v = self.b.scalar(&Dim::int(value, dtype));
        self.literals.insert((value, dtype.0), v);
        v
    }

    fn imm_of(&mut self, value: i64, dtype: DType, is: Is) -> E {
        let v = self.imm(value, dtype);
        E { v, ty: self.prim_type(dtype), dtype, is }
    }

    fn float(&mut self, value: f64, dtype: DType, is: Is) -> E {
        let v = self.b.scalar(&Dim::float(value, dtype));
        E { v, ty: self.prim_type(dtype), dtype, is }
    }

    /// A node with a value of a data type.
    fn node(&mut self, spec: NodeSpec, ops: &[V], dtype: DType) -> E {
        let ty = self.prim_type(dtype);
        typed(self.b.node(spec.ty(ty), ops, None), ty, dtype)
    }

    /// Any expression.
    pub(super) fn expr(&mut self, expr: &'a Expr) -> Read<E> {
        match expr {
            Expr::Name(name) => self.lookup(name.id.as_str(), span(name)),
            Expr::NumberLiteral(number) => match &number.value {
                Number::Int(_) => match int(expr) {
                    Some(value) => Ok(self.imm_of(value, DType::I32, Is::Literal)),
                    None => Err(Diagnostic::new(span(expr), "does not fit into 64 bits")),
                },
                Number::Float(value) => Ok(self.float(*value, DType::F32, Is::Literal)),
                Number::Complex { .. } => Err(not_a_value(expr)),
            },
            Expr::BooleanLiteral(value) => Ok(self.imm_of(i64::from(value.value), DType::BOOL, Is::Value)),
            Expr::StringLiteral(text) => {
                let v = self.b.string(text.value.to_str());
                Ok(typed(v, TypeId::NONE, DType::VOID))
            }
            Expr::UnaryOp(unary) => match (unary.op, &*unary.operand) {
                (UnaryOp::USub, Expr::NumberLiteral(number)) => match &number.value {
                    Number::Float(value) => Ok(self.float(-*value, DType::F32, Is::Literal)),
                    _ => match int(expr) {
                        Some(value) => Ok(self.imm_of(value, DType::I32, Is::Literal)),
                        None => Err(Diagnostic::new(span(expr), "does not fit into 64 bits")),
                    },
                },
                (UnaryOp::USub, operand) => {
                    let a = self.value(operand)?;
                    let zero = if a.dtype.is_float() {
                        self.float(0.0, a.dtype, Is::Value)
                    } else {
                        self.imm_of(0, a.dtype, Is::Value)
                    };
                    Ok(self.arith(prim::SUB, zero, a))
                }
                (UnaryOp::Not, operand) => {
                    let a = self.value(operand)?;
                    let dtype = DType::new(6, 8, a.dtype.lanes().max(1));
                    Ok(self.node(NodeSpec::new(kind::ARITH).a(u32::from(prim::NOT)), &[a.v], dtype))
                }
                (UnaryOp::UAdd, operand) => self.value(operand),
                (UnaryOp::Invert, operand) => {
                    let a = self.value(operand)?;
                    let ty = self.type_of_result(a);
                    Ok(self.intrinsic("bitwise_not", &[a], ty, a.dtype))
                }
            },
            Expr::BinOp(binary) => {
                let Some(op) = binary_op(binary.op) else { return Err(not_a_value(expr)) };
                let (a, b) = (self.value(&binary.left)?, self.value(&binary.right)?);
                Ok(self.arith(op, a, b))
            }
            Expr::BoolOp(logic) => {
                let op = if logic.op == BoolOp::And { prim::AND } else { prim::OR };
                let mut all: Option<E> = None;
                for value in &logic.values {
                    let next = self.value(value)?;
                    all = Some(match all {
                        Some(before) => self.arith(op, before, next),
                        None => next,
                    });
                }
                all.ok_or_else(|| not_a_value(expr))
            }
            Expr::Compare(compare) => match (&*compare.ops, &*compare.comparators) {
                ([op], [right]) => {
                    let Some(op) = compare_op(*op) else { return Err(not_a_value(expr)) };
                    let (a, b) = (self.value(&compare.left)?, self.value(right)?);
                    Ok(self.arith(op, a, b))
                }
                _ => Err(Diagnostic::new(span(expr), "comparisons are not chained in TIR").help("a < b and b < c")),
            },
            Expr::Subscript(subscript) => self.subscript(subscript, expr),
            Expr::Attribute(attribute) => self.attribute(attribute, expr),
            Expr::Call(call) => self.call(call, expr),
            _ => Err(not_a_value(expr)),
        }
    }

    /// Arithmetic; a number without a type takes that of the other operand.
    pub(super) fn arith(&mut self, op: u16, mut a: E, mut b: E) -> E {
        match (a.is == Is::Literal, b.is == Is::Literal) {
            (true, false) if b.dtype.is_known() => a = self.retype(a, b.dtype),
            (false, true) if a.dtype.is_known() => b = self.retype(b, a.dtype),
            _ => {}
        }
        // A number of fewer bits takes those of the other side, as TVM computes.
        if a.dtype.is_int() && b.dtype.is_int() && a.dtype.code() == b.dtype.code() {
            match a.dtype.bits().cmp(&b.dtype.bits()) {
                std::cmp::Ordering::Less => a = self.retype(a, b.dtype),
                std::cmp::Ordering::Greater => b = self.retype(b, a.dtype),
                std::cmp::Ordering::Equal => {}
            }
        }
        let dtype = match op {
            prim::EQ..=prim::OR => DType::new(6, 8, a.dtype.lanes().max(1)),
            _ => a.dtype,
        };
        self.node(NodeSpec::new(kind::ARITH).a(u32::from(op)), &[a.v, b.v], dtype)
    }

    /// A number of the text at another data type.
    fn retype(&mut self, literal: E, dtype: DType) -> E {
        if literal.dtype == dtype || dtype.lanes() != 1 {
            return literal;
        }
        let dim = self.b.with(literal.v, |value| value.dim());
        match dim.as_ref().and_then(Dim::as_int) {
            Some(value) if dtype.is_int() => self.imm_of(value, dtype, Is::Value),
            Some(value) if dtype.is_float() => self.float(value as f64, dtype, Is::Value),
            _ => match dim.as_ref().and_then(super::types::float_of) {
                Some(value) if dtype.is_float() => self.float(value, dtype, Is::Value),
                _ => literal,
            },
        }
    }

    /// `A[i, j]`, `A.strides[0]`, `metadata["ir.StringImm"][0]`.
    fn subscript(&mut self, subscript: &'a ExprSubscript, expr: &'a Expr) -> Read<E> {
        if let Expr::Attribute(attribute) = &*subscript.value
            && attribute.attr.as_str() == "strides"
        {
            let buffer = self.buffer(&attribute.value)?;
            let Some(index) = int(&subscript.slice).and_then(|index| u32::try_from(index).ok()) else {
                return Err(Diagnostic::new(span(&*subscript.slice), "expected the number of a dimension"));
            };
            return self.buffer_part(buffer, index.saturating_add(2), span(subscript));
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

    /// Indices of a load or store; gives the lanes of what is accessed.
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
            let found = i32::from(index.dtype.lanes() as i16);
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

    /// A buffer by its name.
    pub(super) fn buffer(&mut self, expr: &'a Expr) -> Read<E> {
        // `x.buffer` is the buffer of a scalar that is used by its name.
        let named = match expr {
            Expr::Attribute(attribute) if attribute.attr.as_str() == "buffer" => &*attribute.value,
            other => other,
        };
        if let Expr::Name(name) = named {
            let e = self.lookup(name.id.as_str(), span(name))?;
            if matches!(e.is, Is::Buffer | Is::Scalar) {
                return Ok(e);
            }
        }
        Err(Diagnostic::new(span(expr), "expected a buffer"))
    }

    /// `a:b:c` as an index is a vector of indices.
    fn ramp(&mut self, slice: &'a ruff_python_ast::ExprSlice) -> Read<E> {
        let (Some(lower), Some(upper)) = (&slice.lower, &slice.upper) else {
            return Err(Diagnostic::new(span(slice), "a slice has a start and an end").help("A[0:4]"));
        };
        let (base, extent) = self.range(lower, upper)?;
        let step = match slice.step.as_deref() {
            Some(step) => match int_of(step) {
                Some(step) if step != 0 => step,
                _ => return Err(Diagnostic::new(span(step), "the step of a slice is a number other than 0")),
            },
            None => 1,
        };
        let stride = self.imm(step, base.dtype);
        let known = self.b.with(extent.v, |value| value.dim().and_then(|dim| dim.as_int()));
        let (lanes, count) = match known {
            Some(n) => {
                let n = n / step;
                (self.imm(n, DType::I32), i32::try_from(n).unwrap_or(0))
            }
            None => (extent.v, -self.scale_of(upper)),
        };
        let dtype = with_lanes(base.dtype, count);
        Ok(self.node(NodeSpec::new(kind::RAMP), &[base.v, stride, lanes], dtype))
    }

    /// The number of lanes in `T.vscale() * 4`.
    fn scale_of(&self, expr: &Expr) -> i32 {
        let found = match expr {
            Expr::BinOp(binary) => int_of(&binary.right).or_else(|| int_of(&binary.left)),
            _ => None,
        };
        found.and_then(|n| i32::try_from(n).ok()).unwrap_or(1)
    }

    /// Start and extent of `lower:upper`, of one data type.
    pub(super) fn range(&mut self, lower: &'a Expr, upper: &'a Expr) -> Read<(E, E)> {
        self.bounds(lower, upper, true)
    }

    /// The same; without `alike`, a number without a type keeps its own as the start.
    fn bounds(&mut self, lower: &'a Expr, upper: &'a Expr, alike: bool) -> Read<(E, E)> {
        let source = |expr: &Expr| self.scope.text.get(span(expr)).unwrap_or("");
        let same = source(lower) == source(upper);
        let added = match upper {
            Expr::BinOp(sum) if sum.op == ruff_python_ast::Operator::Add && source(&sum.left) == source(lower) => {
                Some(&*sum.right)
            }
            _ => None,
        };
        let mut min = self.value(lower)?;
        if same {
            let zero = self.imm_of(0, min.dtype, Is::Value);
            return Ok((min, zero));
        }
        if let Some(extent) = added {
            let mut extent = self.value(extent)?;
            if extent.is == Is::Literal && min.is != Is::Literal {
                extent = self.retype(extent, min.dtype);
            }
            return Ok((min, extent));
        }
        let at = span(upper);
        let upper = self.value(upper)?;
        if upper.dtype == DType::BOOL {
            return Err(Diagnostic::new(at, "the end of a range is an integer, not a bool"));
        }
        let number = |reader: &Self, e: E| reader.b.with(e.v, |value| value.dim().and_then(|dim| dim.as_int()));
        match (number(self, min), number(self, upper)) {
            (Some(a), Some(b)) => {
                // Of two data types the wider one, as TVM computes.
                let dtype = match (min.is == Is::Literal, upper.is == Is::Literal) {
                    (_, true) => min.dtype,
                    (true, false) => upper.dtype,
                    (false, false) if min.dtype.bits() > upper.dtype.bits() => min.dtype,
                    (false, false) => upper.dtype,
                };
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
                let again = self.copy(min.v);
                let extent = self.arith(prim::SUB, upper, E { v: again, ..min });
                Ok((min, extent))
            }
        }
    }

    /// A second node for an expression: each has one user.
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

    /// `A.data`, `A.elem_offset`, `Module.f`.
    fn attribute(&mut self, attribute: &'a ExprAttribute, expr: &'a Expr) -> Read<E> {
        let part = match attribute.attr.as_str() {
            "data" => 0,
            "elem_offset" => 1,
            "buffer" => return self.buffer(expr),
            _ => return Err(not_a_value(expr)),
        };
        let buffer = self.buffer(&attribute.value)?;
        self.buffer_part(buffer, part, span(attribute))
    }

    fn buffer_part(&mut self, buffer: E, part: u32, at: std::ops::Range<usize>) -> Read<E> {
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
        Ok(self.node(spec, &[buffer.v], DType::I32))
    }

    /// A dimension as the expression that its text is.
    fn dim_value(&mut self, dim: &Dim) -> E {
        let Dim::Expr(expr) = dim else {
            let v = match dim {
                Dim::Var(sym) => self.node_of(*sym),
                _ => None,
            };
            let v = v.unwrap_or_else(|| self.b.scalar(dim));
            return typed(v, self.b.type_of(v), dim.dtype());
        };
        let arith = |op: u16| NodeSpec::new(kind::ARITH).a(u32::from(op));
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

    /// A region of a buffer: `A[i, 0:4]`, or all of `A`.
    pub(super) fn access(&mut self, expr: &'a Expr, a: u32) -> Read<V> {
        let mut ops = Vec::new();
        match expr {
            Expr::Subscript(subscript) => {
                let buffer = self.buffer(&subscript.value)?;
                ops.push(buffer.v);
                let items = match &*subscript.slice {
                    Expr::Tuple(tuple) => &*tuple.elts,
                    one => std::slice::from_ref(one),
                };
                let rank = self.rank(buffer);
                if items.len() != rank {
                    let message = format!("{} ranges for a buffer of {rank} dimensions", items.len());
                    return Err(Diagnostic::new(span(&*subscript.slice), message));
                }
                for item in items {
                    let (min, extent) = match item {
                        Expr::Slice(slice) => match (&slice.lower, &slice.upper, &slice.step) {
                            (Some(lower), Some(upper), None) => self.bounds(lower, upper, false)?,
                            _ => {
                                return Err(
                                    Diagnostic::new(span(slice), "a range has a start and an end").help("A[0:16, 0:n]")
                                );
                            }
                        },
                        item => {
                            let min = self.value(item)?;
                            let one = self.imm_of(1, min.dtype, Is::Value);
                            (min, one)
                        }
                    };
                    ops.extend([min.v, extent.v]);
                }
            }
            other => {
                let buffer = self.buffer(other)?;
                ops.push(buffer.v);
                let Type::Buffer(ty) = self.b.type_owned(buffer.ty) else {
                    return Err(Diagnostic::new(span(other), "expected a buffer"));
                };
                for dim in &ty.shape {
                    let zero = self.imm(0, dim.dtype());
                    ops.extend([zero, self.dim_value(dim).v]);
                }
            }
        }
        Ok(self.b.node(NodeSpec::new(kind::ACCESS).a(a), &ops, None))
    }

    fn call(&mut self, call: &'a ExprCall, expr: &'a Expr) -> Read<E> {
        if let Some(name) = path_after(self.scope.text, &call.func, "T") {
            return self.tir_call(name, call, expr);
        }
        if let Some(name) = path_after(self.scope.text, &call.func, self.scope.class)
            .or_else(|| path_after(self.scope.text, &call.func, "cls"))
        {
            if !self.scope.globals.contains_key(name) {
                let near = did_you_mean(&nearest(name, self.scope.globals.keys().copied()));
                let message = format!("no function `{name}` in the module{near}");
                return Err(Diagnostic::new(span(&*call.func), message));
            }
            let callee = self.b.global_var(name, TypeId::NONE);
            let args = self.args(call, &call.arguments.args)?;
            let ops: Vec<V> = std::iter::once(callee).chain(args.iter().map(|e| e.v)).collect();
            let v = self.b.node(NodeSpec::new(kind::CALL).flags(flag::IMPURE), &ops, None);
            return Ok(typed(v, TypeId::NONE, DType::VOID));
        }
        if let Expr::Attribute(method) = &*call.func
            && method.attr.as_str() == "vload"
        {
            let buffer = self.buffer(&method.value)?;
            return self.vload(buffer, call);
        }
        Err(Diagnostic::new(span(&*call.func), "expected a function of TIR, such as T.exp, or one of the module"))
    }

    /// `A.vload([i], predicate=p)`.
    fn vload(&mut self, buffer: E, call: &'a ExprCall) -> Read<E> {
        let mut ops = vec![buffer.v];
        let Some(indices) = call.arguments.args.first() else {
            return Err(Diagnostic::new(span(call), "expected indices").help("A.vload([i], predicate=p)"));
        };
        let lanes = self.list_indices(indices, &mut ops)?;
        if let Some(predicate) = keyword(call, "predicate") {
            ops.push(self.value(predicate)?.v);
        }
        Ok(self.node(NodeSpec::new(kind::LOAD).a(1), &ops, with_lanes(buffer.dtype, lanes)))
    }

    pub(super) fn list_indices(&mut self, indices: &'a Expr, ops: &mut Vec<V>) -> Read<i32> {
        let items = match indices {
            Expr::List(list) => &*list.elts,
            Expr::Tuple(tuple) => &*tuple.elts,
            one => std::slice::from_ref(one),
        };
        let mut lanes = 1;
        for item in items {
            let index = self.value(item)?;
            let found = i32::from(index.dtype.lanes() as i16);
            lanes = if found == 1 { lanes } else { found };
            ops.push(index.v);
        }
        Ok(lanes)
    }

    /// Arguments of a call: values, buffers, regions of them, strings.
    fn args(&mut self, call: &'a ExprCall, items: &'a [Expr]) -> Read<Vec<E>> {
        if let Some(keyword) = call.arguments.keywords.first() {
            return Err(Diagnostic::new(span(keyword), "no keyword arguments here"));
        }
        items
            .iter()
            .map(|item| {
                let e = self.expr(item)?;
                if e.is == Is::Scalar { Ok(self.load_scalar(e)) } else { Ok(e) }
            })
            .collect()
    }

    fn values<const N: usize>(&mut self, call: &'a ExprCall, name: &str) -> Read<[E; N]> {
        if call.arguments.args.len() != N || !call.arguments.keywords.is_empty() {
            let message = format!("T.{name} takes {N} arguments, found {}", call.arguments.args.len());
            return Err(Diagnostic::new(span(call), message));
        }
        let mut found = [typed(self.imm(0, DType::I32), TypeId::NONE, DType::VOID); N];
        for (slot, item) in found.iter_mut().zip(&call.arguments.args) {
            *slot = self.value(item)?;
        }
        Ok(found)
    }

    fn tir_call(&mut self, name: &'a str, call: &'a ExprCall, expr: &'a Expr) -> Read<E> {
        let args = &call.arguments.args;
        if let Some(op) = named_op(name) {
            let [a, b] = self.values(call, name)?;
            let op = if op == prim::TRUNCDIV && a.dtype.is_float() { prim::DIV } else { op };
            return Ok(self.arith(op, a, b));
        }
        if let (Ok(dtype), [value]) = (name.parse::<DType>(), &**args) {
            return self.immediate(dtype, value);
        }
        match name {
            "Cast" => {
                let [dtype, value] = &**args else {
                    return Err(Diagnostic::new(span(call), "expected T.Cast(\"float32\", value)"));
                };
                let (dtype, value) = (dtype_of(dtype)?, self.value(value)?);
                Ok(self.node(NodeSpec::new(kind::ARITH).a(u32::from(prim::CAST)), &[value.v], dtype))
            }
            "Not" => {
                let [a] = self.values(call, name)?;
                Ok(self.node(NodeSpec::new(kind::ARITH).a(u32::from(prim::NOT)), &[a.v], DType::BOOL))
            }
            "Select" => {
                let [cond, a, b] = self.values(call, name)?;
                let (a, b) = self.alike(a, b);
                Ok(self.node(NodeSpec::new(kind::SELECT), &[cond.v, a.v, b.v], a.dtype))
            }
            "Ramp" => {
                let [base, stride, lanes] = self.values(call, name)?;
                let (base, stride) = self.alike(base, stride);
                let count = self.lane_count(lanes, &args[2]);
                Ok(self.node(NodeSpec::new(kind::RAMP), &[base.v, stride.v, lanes.v], with_lanes(base.dtype, count)))
            }
            "Broadcast" => {
                let [value, lanes] = self.values(call, name)?;
                let count = self.lane_count(lanes, &args[1]);
                Ok(self.node(NodeSpec::new(kind::BROADCAST), &[value.v, lanes.v], with_lanes(value.dtype, count)))
            }
            "Shuffle" => self.shuffle(call),
            "Let" => self.let_in(call),
            "comm_reducer" => self.combiner(call),
            _ => self.intrinsic_call(name, call, expr),
        }
    }

    fn lane_count(&self, lanes: E, source: &Expr) -> i32 {
        let known = self.b.with(lanes.v, |value| value.dim().and_then(|dim| dim.as_int()));
        known.map_or_else(|| -self.scale_of(source), |n| i32::try_from(n).unwrap_or(1))
    }

    fn alike(&mut self, a: E, b: E) -> (E, E) {
        match (a.is == Is::Literal, b.is == Is::Literal) {
            (true, false) => (self.retype(a, b.dtype), b),
            (false, true) => (a, self.retype(b, a.dtype)),
            _ => (a, b),
        }
    }

    /// `T.int64(1)`, `T.float32("inf")`, `T.bool(True)`; of anything else a conversion.
    fn immediate(&mut self, dtype: DType, value: &'a Expr) -> Read<E> {
        if let Some(v) = wide_int(value) {
            if dtype.is_float() {
                return Ok(self.float(v as f64, dtype, Is::Value));
            }
            if dtype.lanes() == 1 && (dtype.is_int() || dtype.code() == 6) {
                // Integers without a sign wrap into the 64 bits of the record.
                return Ok(self.imm_of(v as i64, dtype, Is::Value));
            }
        }
        let float = match value {
            Expr::NumberLiteral(number) => match &number.value {
                Number::Float(value) => Some(*value),
                _ => None,
            },
            Expr::UnaryOp(unary) if unary.op == UnaryOp::USub => match &*unary.operand {
                Expr::NumberLiteral(number) => match &number.value {
                    Number::Float(value) => Some(-*value),
                    _ => None,
                },
                _ => None,
            },
            Expr::StringLiteral(text) => match text.value.to_str().parse() {
                Ok(value) => Some(value),
                Err(_) => return Err(Diagnostic::new(span(value), "expected a number, \"inf\", \"-inf\" or \"nan\"")),
            },
            _ => None,
        };
        match (float, value) {
            (Some(value), _) if dtype.is_float() => Ok(self.float(value, dtype, Is::Value)),
            (_, Expr::BooleanLiteral(value)) if dtype.code() == 6 => {
                Ok(self.imm_of(i64::from(value.value), dtype, Is::Value))
            }
            _ => {
                let e = self.value(value)?;
                Ok(self.node(NodeSpec::new(kind::ARITH).a(u32::from(prim::CAST)), &[e.v], dtype))
            }
        }
    }

    fn list(&mut self, expr: &'a Expr) -> Read<Vec<E>> {
        match expr {
            Expr::List(list) => list.elts.iter().map(|item| self.value(item)).collect(),
            Expr::Tuple(tuple) => tuple.elts.iter().map(|item| self.value(item)).collect(),
            other => Err(Diagnostic::new(span(other), "expected a list")),
        }
    }

    fn shuffle(&mut self, call: &'a ExprCall) -> Read<E> {
        let [vectors, indices] = &*call.arguments.args else {
            return Err(Diagnostic::new(span(call), "expected T.Shuffle([a, b], [0, 1])"));
        };
        let (vectors, indices) = (self.list(vectors)?, self.list(indices)?);
        let lanes = i32::try_from(indices.len()).unwrap_or(1);
        let dtype = vectors.first().map_or(DType::VOID, |first| with_lanes(first.dtype, lanes));
        let ops: Vec<V> = vectors.iter().chain(&indices).map(|e| e.v).collect();
        Ok(self.node(NodeSpec::new(kind::SHUFFLE).a(vectors.len() as u32), &ops, dtype))
    }

    /// `T.Let(body, where={x: value})`.
    fn let_in(&mut self, call: &'a ExprCall) -> Read<E> {
        let usage = "T.Let(x + 1, where={x: value}), with x = T.int32() above";
        let wrong = || Diagnostic::new(span(call), "expected a body and `where=`").help(usage);
        let (Some(body), Some(Expr::Dict(pairs))) = (call.arguments.args.first(), keyword(call, "where")) else {
            return Err(wrong());
        };
        let mut bound = Vec::new();
        for item in &pairs.items {
            let Some(Expr::Name(name)) = &item.key else { return Err(wrong()) };
            let var = self.lookup(name.id.as_str(), span(name))?;
            if self.b.kind(var.v) != kind::VAR {
                return Err(Diagnostic::new(span(name), "expected a variable declared above").help(usage));
            }
            bound.push((var, self.value(&item.value)?));
        }
        let mut result = self.value(body)?;
        for (var, value) in bound.into_iter().rev() {
            let ty = self.type_of_result(result);
            let spec = NodeSpec::new(kind::LET).ty(ty);
            let v = self.b.node(spec, &[var.v, value.v, result.v], None);
            result = typed(v, ty, result.dtype);
        }
        Ok(result)
    }

    /// `T.comm_reducer(lambda x, y: x + y, [T.float32(0.0)])`.
    fn combiner(&mut self, call: &'a ExprCall) -> Read<E> {
        let [Expr::Lambda(lambda), identity] = &*call.arguments.args else {
            return Err(Diagnostic::new(span(call), "expected T.comm_reducer(lambda x, y: x + y, [T.float32(0.0)])"));
        };
        let identity = self.list(identity)?;
        let ops: Vec<V> = identity.iter().map(|e| e.v).collect();
        let params: Vec<_> = lambda.parameters.iter().flat_map(|params| &params.args).collect();
        if params.len() != 2 * identity.len() {
            let message = format!("{} parameters for {} neutral elements", params.len(), identity.len());
            return Err(Diagnostic::new(span(lambda), message).help("two for each: the left ones, then the right ones"));
        }
        let v = self.b.begin(NodeSpec::new(kind::COMBINER), &ops, None);
        let mark = self.mark();
        for (i, param) in params.iter().enumerate() {
            let of = identity[i % identity.len()];
            let name = param.parameter.name.as_str();
            let spec = NodeSpec::new(kind::LOOP_VAR).ty(of.ty).flags(flag::INNER);
            let var = self.b.node(spec, &[], Some(name));
            self.define_name(name, typed(var, of.ty, of.dtype));
        }
        let results = match &*lambda.body {
            Expr::Tuple(_) | Expr::List(_) => self.list(&lambda.body)?,
            one => vec![self.value(one)?],
        };
        let results: Vec<V> = results.iter().map(|e| e.v).collect();
        self.b.node(NodeSpec::new(kind::YIELD), &results, None);
        self.leave(mark);
        self.b.end();
        Ok(typed(v, TypeId::NONE, DType::VOID))
    }

    /// A data type or pointer type as an argument: `"int32"`, `T.handle("int64", "global").ty`.
    fn type_argument(&mut self, expr: &'a Expr) -> Read<(TypeId, DType)> {
        if let Expr::Attribute(attribute) = expr
            && attribute.attr.as_str() == "ty"
            && let Expr::Call(call) = &*attribute.value
            && path_after(self.scope.text, &call.func, "T") == Some("handle")
        {
            let ty = handle_type(call)?;
            return Ok((self.b.ty(&ty), DType::HANDLE));
        }
        let dtype = dtype_of(expr)?;
        let ty = if dtype.is_known() { self.prim_type(dtype) } else { self.b.ty(&void_type()) };
        Ok((ty, dtype))
    }

    fn intrinsic_call(&mut self, name: &'a str, call: &'a ExprCall, expr: &'a Expr) -> Read<E> {
        let Some(facts) = tir_ops::find(name) else {
            let near = did_you_mean(&nearest(name, tir_ops::names()));
            return Err(Diagnostic::new(span(&*call.func), format!("no expression `T.{name}`{near}"))
                .label("not known as an operator of TIR"));
        };
        let items = &*call.arguments.args;
        let given = match (facts.dtype, items) {
            (Place::First, [dtype, rest @ ..]) => Some((dtype, rest)),
            (Place::Last, [rest @ .., dtype]) => Some((dtype, rest)),
            (Place::No, _) => None,
            _ => return Err(Diagnostic::new(span(expr), format!("T.{name} needs a data type among its arguments"))),
        };
        if let Some((dtype, rest)) = given {
            let (ty, dtype) = self.type_argument(dtype)?;
            let args = self.args(call, rest)?;
            return Ok(self.intrinsic(name, &args, ty, dtype));
        }
        let args = self.args(call, items)?;
        let (ty, dtype) = match facts.result {
            OpResult::Argument(i) => match args.get(i) {
                Some(e) => (self.type_of_result(*e), e.dtype),
                None => (TypeId::NONE, DType::VOID),
            },
            OpResult::Scalar(dtype) => (self.prim_type(dtype), dtype),
            OpResult::Bool => {
                let lanes = args.first().map_or(1, |e| e.dtype.lanes().max(1));
                let dtype = DType::new(6, 8, lanes);
                (self.prim_type(dtype), dtype)
            }
            OpResult::Handle => {
                let handle = Type::Pointer { dtype: DType::VOID, scope: "global".to_string() };
                (self.b.ty(&handle), DType::HANDLE)
            }
            OpResult::Unknown => (TypeId::NONE, DType::VOID),
        };
        Ok(self.intrinsic(name, &args, ty, dtype))
    }

    /// The type of a value that is computed from `e`: what is known of the value of `e` is not known of it.
    pub(super) fn type_of_result(&mut self, e: E) -> TypeId {
        if e.dtype.is_known() && e.dtype != DType::HANDLE { self.prim_type(e.dtype) } else { e.ty }
    }

    fn intrinsic(&mut self, name: &str, args: &[E], ty: TypeId, dtype: DType) -> E {
        let callee = self.b.op(&format!("tirx.{name}"));
        let ops: Vec<V> = std::iter::once(callee).chain(args.iter().map(|e| e.v)).collect();
        let v = self.b.node(NodeSpec::new(kind::CALL).ty(ty), &ops, None);
        typed(v, ty, dtype)
    }
}

fn void_type() -> Type {
    Type::Prim { dtype: DType::VOID, value: None }
}

/// An integer literal, plain or of a type: `4`, `T.int64(4)`.
fn int_of(expr: &Expr) -> Option<i64> {
    match expr {
        Expr::Call(call) => match (&*call.func, &*call.arguments.args) {
            (Expr::Attribute(attribute), [value]) if attribute.attr.parse::<DType>().is_ok() => int(value),
            _ => None,
        },
        other => int(other),
    }
}

/// The data type of vectors; negative lanes are multiples of `T.vscale()`.
fn with_lanes(dtype: DType, lanes: i32) -> DType {
    let own = i32::from(dtype.lanes() as i16).max(1);
    let lanes = i16::try_from(own.saturating_mul(lanes)).unwrap_or(1);
    DType::new(dtype.code(), dtype.bits(), lanes as u16)
}

fn not_a_value(expr: &Expr) -> Diagnostic {
    Diagnostic::new(span(expr), "expected an expression of TIR")
}
