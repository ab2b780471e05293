//! Reads Python functions and TVM's helper functions in PrimFuncs as the expressions that TVM creates from them.

use crate::read::arguments::{accept, dtype_of, int, keyword};
use crate::read::tir::call::same_lanes;
use crate::read::tir::reader::{E, Is, TirReader};
use crate::words::diagnostic::Diagnostic;
use crate::words::dtypes::{Extreme, extreme};
use crate::words::syntax::{Read, span};
use crate::words::tir_ops;
use passhost_lang::ir::records::kind;
use passhost_lang::ir::{BufferType, DType, NodeSpec, Type};
use passhost_lang::names::{did_you_mean, nearest};
use passhost_lang::scalar::PrimOp;
use ruff_python_ast::{Expr, ExprAttribute, ExprCall};
use std::ops::Range;

impl<'a> TirReader<'a> {
    /// Reads a call of a TVM function that builds an expression.
    pub(super) fn helper(&mut self, name: &'a str, call: &'a ExprCall) -> Read<E> {
        match name {
            "ceildiv" => self.ceildiv(call),
            "cast" => self.cast_call(call),
            "call_intrin" => self.call_intrin(call),
            extreme => self.extreme(extreme, call),
        }
    }

    /// Reads `T.cast(value, "int8")`; a constant, or a value that already has the data type, needs no cast.
    fn cast_call(&mut self, call: &'a ExprCall) -> Read<E> {
        let usage = "T.cast(value, \"float32\")";
        accept(call, 2, &["value", "dtype"], usage)?;
        let argument = |at: usize, name: &str| call.arguments.args.get(at).or_else(|| keyword(call, name));
        let (Some(value), Some(dtype)) = (argument(0, "value"), argument(1, "dtype")) else {
            return Err(Diagnostic::new(span(call), "expected a value and a data type").help(usage));
        };
        let (dtype, value) = (dtype_of(dtype)?, self.value(value)?);
        let is_broadcast = value.dtype.lanes() == 1;
        if !is_broadcast {
            same_lanes(value, dtype, span(call))?;
        }
        Ok(E { is: Is::Value, ..self.converted(value, dtype) })
    }

    /// Reads `T.call_intrin("float32", "tirx.exp", x)` as `T.exp(x)`.
    fn call_intrin(&mut self, call: &'a ExprCall) -> Read<E> {
        let usage = "T.call_intrin(\"float32\", \"tirx.exp\", x)";
        let [dtype, Expr::StringLiteral(op), rest @ ..] = &*call.arguments.args else {
            return Err(Diagnostic::new(span(call), "expected a data type, an operator and its arguments").help(usage));
        };
        let name = op.value.to_str().strip_prefix("tirx.").filter(|name| tir_ops::find(name).is_some());
        let Some(name) = name else {
            let near = nearest(op.value.to_str().trim_start_matches("tirx."), tir_ops::names());
            let near: Vec<String> = near.iter().map(|near| format!("tirx.{near}")).collect();
            let message = format!("unknown TIR operator `{}`{}", op.value.to_str(), did_you_mean(&near));
            return Err(Diagnostic::new(span(op), message).help(usage));
        };
        let (ty, dtype) = self.type_argument(dtype)?;
        let args = self.args(call, rest)?;
        Ok(self.intrinsic(name, &args, ty, dtype))
    }

    /// Reads `T.ceildiv(a, b)` as `(a + b - 1) // b`.
    fn ceildiv(&mut self, call: &'a ExprCall) -> Read<E> {
        let (from, at) = (self.b.n_nodes(), span(call));
        let [a, b] = self.values(call, "ceildiv", ["lhs", "rhs"])?;
        let (a, b) = self.matched(a, b, &at)?;
        let sum = self.operator_function(PrimOp::Add, a, b, from, at.clone())?;
        let one = self.imm_of(1, DType::I32, Is::Value);
        let one = self.converted(one, sum.dtype);
        let sum = self.operator_function(PrimOp::Sub, sum, one, from, at.clone())?;
        let divisor = self.again(b);
        self.operator_function(PrimOp::FloorDiv, sum, divisor, from, at)
    }

    /// Returns a copy of a value for another use.
    pub(super) fn again(&mut self, e: E) -> E {
        let v = self.copy(e.v);
        E { v, end: self.b.n_nodes(), ..e }
    }

    /// Reads `T.min_value("int8")`, `T.max_value("float32")` or `T.infinity("float32")`.
    fn extreme(&mut self, name: &str, call: &'a ExprCall) -> Read<E> {
        let usage = format!("T.{name}(\"float32\")");
        accept(call, 1, &["dtype"], &usage)?;
        let Some(dtype) = call.arguments.args.first().or_else(|| keyword(call, "dtype")) else {
            return Err(Diagnostic::new(span(call), format!("T.{name} needs a data type")).help(usage));
        };
        let (dtype, at) = (dtype_of(dtype)?, span(dtype));
        let found = match name {
            "infinity" => {
                let has = dtype.code() == DType::F32.code() && dtype.lanes() == 1;
                has.then_some(Extreme::Float(f64::INFINITY))
            }
            name => extreme(dtype, name == "max_value"),
        };
        match found {
            Some(Extreme::Int(value)) => Ok(self.imm_of(value, dtype, Is::Value)),
            Some(Extreme::Float(value)) => Ok(self.float(value, dtype, Is::Value)),
            None => Err(Diagnostic::new(at, format!("T.{name} is not defined for {dtype}"))
                .help(format!("write the number: T.{dtype}(1)"))),
        }
    }

    /// Reads a method of a buffer that is an expression; `None` for other methods.
    pub(super) fn method(&mut self, method: &'a ExprAttribute, call: &'a ExprCall) -> Read<Option<E>> {
        match method.attr.as_str() {
            "vload" => {
                let buffer = self.buffer(&method.value)?;
                self.vload(buffer, call).map(Some)
            }
            "astype" => {
                accept(call, 1, &["dtype"], "value.astype(\"float16\")")?;
                let Some(dtype) = call.arguments.args.first().or_else(|| keyword(call, "dtype")) else {
                    return Err(Diagnostic::new(span(call), "expected a data type").help("value.astype(\"float16\")"));
                };
                let (dtype, value) = (dtype_of(dtype)?, self.value(&method.value)?);
                Ok(Some(self.converted(value, dtype)))
            }
            "access_ptr" => {
                let buffer = self.buffer(&method.value)?;
                self.access_ptr(buffer, call).map(Some)
            }
            "ptr_to" => {
                let buffer = self.buffer(&method.value)?;
                self.ptr_to(buffer, call).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Reads `A.ptr_to([i, j])`, the address of an element.
    fn ptr_to(&mut self, buffer: E, call: &'a ExprCall) -> Read<E> {
        accept(call, 1, &[], "A.ptr_to([i, j])")?;
        let Some(indices) = call.arguments.args.first() else {
            return Err(Diagnostic::new(span(call), "expected indices").help("A.ptr_to([i, j])"));
        };
        let mut ops = vec![buffer.v];
        self.list_indices(indices, 1, &mut ops)?;
        let rank = self.rank(buffer);
        if ops.len() != rank + 1 {
            let message = format!("{} indices for a buffer of {rank} dimensions", ops.len() - 1);
            return Err(Diagnostic::new(span(indices), message));
        }
        let element = self.node(NodeSpec::new(kind::LOAD), &ops, buffer.dtype);
        let handle = self.b.ty(&Type::Pointer { dtype: DType::VOID, scope: "global".to_string() });
        Ok(self.intrinsic("address_of", &[element], handle, DType::HANDLE))
    }

    /// Reads `A.access_ptr("rw", offset=4)` as `T.tvm_access_ptr(T.type_annotation("float32"), A.data, 4, 12, 3)`.
    fn access_ptr(&mut self, buffer: E, call: &'a ExprCall) -> Read<E> {
        let usage = "A.access_ptr(\"rw\", offset=4, extent=8)";
        let names = ["access_mask", "ptr_type", "content_lanes", "offset", "extent"];
        accept(call, names.len(), &names, usage)?;
        let argument = |name: &str| {
            let at = names.iter().position(|known| *known == name)?;
            call.arguments.args.get(at).or_else(|| keyword(call, name)).filter(|value| !value.is_none_literal_expr())
        };
        let mask = access_mask(call, argument("access_mask"), usage)?;
        if let Some(ty) = argument("ptr_type").filter(|ty| text_of(ty) != Some("handle")) {
            return Err(Diagnostic::new(span(ty), "only pointers of type \"handle\" are supported").help(usage));
        }
        let lanes = match argument("content_lanes").map(|lanes| (int(lanes), span(lanes))) {
            None => 1,
            Some((Some(lanes @ 1..=1024), _)) => lanes,
            Some((_, at)) => return Err(Diagnostic::new(at, "expected a number of lanes").help(usage)),
        };
        let Type::Buffer(ty) = self.b.type_owned(buffer.ty) else {
            return Err(Diagnostic::new(span(call), "expected a buffer").help(usage));
        };
        let element = super::dtypes::with_lanes(buffer.dtype, lanes as i32);
        let of_element = self.prim_type(element);
        let element = self.intrinsic("type_annotation", &[], of_element, element);
        let data = self.buffer_part(buffer, 0, span(call))?;
        let at = span(call);
        let from = self.b.n_nodes();
        let offset = match argument("offset") {
            Some(offset) => self.value(offset)?,
            None => self.imm_of(0, DType::I32, Is::Value),
        };
        let start = self.start_of(&ty, offset, lanes, from, &at)?;
        let from = self.b.n_nodes();
        let extent = match argument("extent") {
            Some(extent) => self.value(extent)?,
            None => self.extent_of(&ty, offset, lanes, from, &at)?,
        };
        let mask = self.imm_of(mask, DType::I32, Is::Value);
        let handle = self.b.ty(&Type::Pointer { dtype: DType::VOID, scope: "global".to_string() });
        Ok(self.intrinsic("tvm_access_ptr", &[element, data, start, extent, mask], handle, DType::HANDLE))
    }

    /// Returns the start of an access, in elements of `lanes` lanes.
    fn start_of(&mut self, ty: &BufferType, offset: E, lanes: i64, from: u32, at: &Range<usize>) -> Read<E> {
        let own = ty.offset();
        if lanes == 1 {
            let own = self.dim_value(&own);
            return self.operator_function(PrimOp::Add, own, offset, from, at.clone());
        }
        // With several lanes, TVM ignores the given offset.
        let own_dtype = own.dtype();
        let own = self.dim_value(&own);
        let lanes = self.imm_of(lanes, own_dtype, Is::Value);
        self.operator_function(PrimOp::FloorDiv, own, lanes, from, at.clone())
    }

    /// Returns the number of elements, of `lanes` lanes, from an offset to the end.
    fn extent_of(&mut self, ty: &BufferType, offset: E, lanes: i64, from: u32, at: &Range<usize>) -> Read<E> {
        let mut extent = self.imm_of(1, DType::I32, Is::Value);
        let factors = match (ty.strides.first(), ty.shape.first()) {
            (Some(stride), Some(first)) => vec![stride, first],
            _ => ty.shape.iter().collect(),
        };
        for factor in factors {
            let factor = self.dim_value(factor);
            extent = self.operator_function(PrimOp::Mul, extent, factor, from, at.clone())?;
        }
        let offset = self.again(offset);
        extent = self.operator_function(PrimOp::Sub, extent, offset, from, at.clone())?;
        if lanes == 1 {
            return Ok(extent);
        }
        let lanes = self.imm_of(lanes, ty.offset().dtype(), Is::Value);
        self.operator_function(PrimOp::FloorDiv, extent, lanes, from, at.clone())
    }

    /// Reads `A.shape[0]`, an extent of a buffer.
    pub(super) fn extent(&mut self, buffer: &'a Expr, index: &'a Expr) -> Read<E> {
        let buffer = self.buffer(buffer)?;
        let Type::Buffer(ty) = self.b.type_owned(buffer.ty) else {
            return Err(Diagnostic::new(span(index), "expected a buffer"));
        };
        let rank = ty.shape.len();
        let at = int(index).and_then(|at| usize::try_from(if at < 0 { at + rank as i64 } else { at }).ok());
        match at.and_then(|at| ty.shape.get(at)) {
            Some(dim) => Ok(self.dim_value(dim)),
            None => {
                let message = format!("expected a dimension of a buffer of {rank} dimensions");
                Err(Diagnostic::new(span(index), message).help("A.shape[0]"))
            }
        }
    }

    /// Returns the extents in `T.grid(*A.shape)`; `None` for anything else.
    pub(super) fn starred_shape(&mut self, expr: &'a Expr) -> Read<Option<Vec<E>>> {
        let Expr::Starred(starred) = expr else { return Ok(None) };
        let Expr::Attribute(attribute) = &*starred.value else { return Ok(None) };
        if attribute.attr.as_str() != "shape" {
            return Ok(None);
        }
        let buffer = self.buffer(&attribute.value)?;
        let Type::Buffer(ty) = self.b.type_owned(buffer.ty) else { return Ok(None) };
        Ok(Some(ty.shape.iter().map(|dim| self.dim_value(dim)).collect()))
    }

    /// Converts a Python Boolean to an expression.
    pub(super) fn truth(&mut self, value: bool) -> E {
        self.imm_of(i64::from(value), DType::BOOL, Is::Value)
    }

    /// Reads `x = T.bind(value)` as `x: T.let = value`.
    pub(super) fn bound_to(&mut self, name: &'a str, call: &'a ExprCall) -> Read<()> {
        accept(call, 1, &["value"], "x = T.bind(value)")?;
        let Some(value) = call.arguments.args.first().or_else(|| keyword(call, "value")) else {
            return Err(Diagnostic::new(span(call), "expected a value").help("x = T.bind(value)"));
        };
        let value = self.value_or_text(value)?;
        self.bind(name, None, value)
    }
}

/// Returns the mask of an access: 1 for reading, 2 for writing.
fn access_mask(call: &ExprCall, mask: Option<&Expr>, usage: &str) -> Read<i64> {
    let wrong = |at: Range<usize>| Diagnostic::new(at, "expected \"r\", \"w\" or \"rw\"").help(usage);
    let Some(mask) = mask else { return Err(wrong(span(call))) };
    match (text_of(mask), int(mask)) {
        (Some(text), _) if !text.is_empty() && text.chars().all(|letter| matches!(letter, 'r' | 'w')) => {
            Ok(i64::from(text.contains('r')) + 2 * i64::from(text.contains('w')))
        }
        (None, Some(mask @ 1..=3)) => Ok(mask),
        _ => Err(wrong(span(mask))),
    }
}

fn text_of(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::StringLiteral(text) => Some(text.value.to_str()),
        _ => None,
    }
}
