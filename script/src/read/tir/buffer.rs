//! Reads TIR types: scalars, handles, buffers with their shapes.

use crate::read::arguments::{accept, dtype_of, int, keyword, wide_int};
use crate::read::dims::{cast, computed, has_float, negated};
use crate::read::ops::{binary_op, compare_op, named_op};
use crate::read::tir::dtypes::{is_narrower, promoted, void_type};
use crate::read::tir::python::python_int;
use crate::read::tir::reader::{Is, TirReader};
use crate::words::diagnostic::Diagnostic;
use crate::words::dtypes::dtype_named;
use crate::words::syntax::{Read, is_name, is_path, path_after, span};
use passhost_lang::ir::records::buffer_of;
use passhost_lang::ir::{BufferType, DType, Dim, DimExpr, Type, TypeId, V};
use passhost_lang::scalar::PrimOp;
use ruff_python_ast::{BoolOp, Expr, ExprCall, Number, UnaryOp};
use std::sync::Arc;

/// The arguments of a buffer, in order.
const NAMES: &[&str] =
    &["shape", "dtype", "data", "strides", "elem_offset", "byte_offset", "scope", "align", "offset_factor", "layout"];
/// Arguments without a position.
const ONLY_KEYWORDS: &[&str] = &["buffer_type", "axis_separators"];

/// Facts about a buffer that are not in its type.
#[derive(Clone, Copy, Default)]
pub(super) struct BufferFacts {
    /// The scope, if the name of the call determines it.
    pub(super) scope: &'static str,
    /// Further keywords that the call accepts.
    pub(super) keywords: &'static [&'static str],
    /// True if `byte_offset` is not one of the positional arguments.
    pub(super) without_bytes: bool,
    /// True if strides introduced by name have the data type of the first extent; otherwise they have 32 bits.
    pub(super) wide_strides: bool,
}

/// The arguments of a call that describes a buffer, with their names by position after the first `skip`.
#[derive(Clone, Copy)]
pub(super) struct BufferCall<'a> {
    call: &'a ExprCall,
    skip: usize,
    without_bytes: bool,
}

impl<'a> BufferCall<'a> {
    pub(super) fn new(call: &'a ExprCall, skip: usize, facts: BufferFacts) -> BufferCall<'a> {
        BufferCall { call, skip, without_bytes: facts.without_bytes }
    }

    fn names(self) -> impl Iterator<Item = &'static str> {
        NAMES.iter().copied().filter(move |name| !(self.without_bytes && *name == "byte_offset"))
    }

    /// Returns an argument, by position or by name.
    pub(super) fn argument(self, name: &str) -> Option<&'a Expr> {
        let at = self.names().position(|known| known == name);
        at.and_then(|at| self.call.arguments.args.get(self.skip + at)).or_else(|| keyword(self.call, name))
    }

    /// Returns an argument that is not `None`.
    pub(super) fn given(self, name: &str) -> Option<&'a Expr> {
        self.argument(name).filter(|value| !value.is_none_literal_expr())
    }
}

impl<'a> TirReader<'a> {
    /// Reads the type of a scalar or handle, with the data type of its values.
    pub(super) fn value_type(&mut self, expr: &'a Expr) -> Read<(TypeId, DType)> {
        let (path, call) = match expr {
            Expr::Call(call) => (&*call.func, Some(call)),
            path => (path, None),
        };
        match path_after(self.scope.text, path, "T") {
            Some("var") if let Some([dtype]) = call.map(|call| &*call.arguments.args) => {
                let dtype = dtype_of(dtype)?;
                Ok((self.prim_type(dtype), dtype))
            }
            Some("ptr") if let Some(call) = call => {
                let Type::Pointer { dtype, scope } = handle_type(call)? else { return Err(not_a_type(expr)) };
                let scope = if scope.is_empty() { "global".to_string() } else { scope };
                Ok((self.b.ty(&Type::Pointer { dtype, scope }), DType::HANDLE))
            }
            Some("handle") => {
                let ty = match call {
                    Some(call) => handle_type(call)?,
                    None => Type::Pointer { dtype: DType::VOID, scope: "global".to_string() },
                };
                Ok((self.b.ty(&ty), DType::HANDLE))
            }
            Some(name) if call.is_none_or(|call| call.arguments.is_empty()) => match dtype_named(name) {
                Some(dtype) if dtype.is_known() => Ok((self.prim_type(dtype), dtype)),
                Some(_) => Ok((self.b.ty(&void_type()), DType::VOID)),
                None => Err(not_a_type(expr)),
            },
            _ => Err(not_a_type(expr)),
        }
    }

    /// Returns true if a buffer is used by name alone. Only a declaration over existing data may have an offset.
    pub(super) fn is_scalar(&self, buffer: &BufferType, of: Option<u32>) -> Is {
        let one = buffer.shape.len() == 1 && buffer.shape[0].as_int() == Some(1);
        let plain = buffer.strides.is_empty() && buffer.align == 64 && buffer.offset_factor == 1;
        let brought_in = |dim: &Dim| match dim {
            Dim::Var(sym) => !self.syms.values().any(|known| known == sym) && !self.sym_of.values().any(|of| of == sym),
            _ => false,
        };
        let offset = match (&buffer.elem_offset, of) {
            (None, _) | (_, None) => true,
            (Some(offset), Some(of)) => of == buffer_of::DECL && !brought_in(offset),
        };
        // A view has the layout of another buffer.
        let own = of != Some(buffer_of::VIEW);
        if one && plain && buffer.tiled && offset && own { Is::Scalar } else { Is::Buffer }
    }

    /// Reads the type in the arguments of calls such as `T.Buffer` and `T.alloc_buffer`, after the first `skip`
    /// arguments. `extras` receives the expressions that the type mentions.
    pub(super) fn buffer_type(
        &mut self,
        call: &'a ExprCall,
        skip: usize,
        facts: BufferFacts,
    ) -> Read<(BufferType, Vec<V>)> {
        let usage = "T.Buffer((n, 16), \"float32\", strides=(16, 1), elem_offset=0, scope=\"global\", align=64)";
        for keyword in &call.arguments.keywords {
            let name = keyword.arg.as_ref().map_or("**", |arg| arg.as_str());
            if ![NAMES, ONLY_KEYWORDS, facts.keywords].iter().any(|known| known.contains(&name)) {
                return Err(Diagnostic::new(span(keyword), format!("unexpected argument `{name}`")).help(usage));
            }
        }
        let arguments = BufferCall::new(call, skip, facts);
        if let Some(extra) = call.arguments.args.get(skip + arguments.names().count()) {
            return Err(Diagnostic::new(span(extra), "too many arguments").help(usage));
        }
        let Some(shape) = arguments.argument("shape") else {
            return Err(Diagnostic::new(span(call), "a buffer needs a shape").help(usage));
        };
        let mut extras = Vec::new();
        let shape = match shape {
            Expr::Tuple(tuple) => &*tuple.elts,
            Expr::List(list) => &*list.elts,
            one => std::slice::from_ref(one),
        };
        let shape = shape.iter().map(|dim| self.buffer_dim(dim, &mut extras)).collect::<Read<Vec<Dim>>>()?;
        let dtype = arguments.argument("dtype").map_or(Ok(DType::F32), dtype_of)?;
        let mut buffer = BufferType { tiled: !self.s_tir, ..BufferType::new(shape, dtype) };
        buffer.scope = facts.scope.to_string();
        if let Some(strides) = arguments.given("strides") {
            let named = if facts.wide_strides { variable_dtype(&buffer) } else { DType::I32 };
            let items = match strides {
                Expr::Tuple(tuple) => &*tuple.elts,
                Expr::List(list) => &*list.elts,
                other => return Err(Diagnostic::new(span(other), "expected strides such as (16, 1)")),
            };
            for item in items {
                buffer.strides.push(match item {
                    // A string introduces a variable.
                    Expr::StringLiteral(name) => Dim::Var(self.b.sym(name.value.to_str(), named)),
                    item => self.buffer_dim(item, &mut extras)?,
                });
            }
        }
        self.buffer_place(arguments, &mut buffer, &mut extras)?;
        Ok((buffer, extras))
    }

    /// Reads offset, scope, alignment and layout.
    fn buffer_place(&mut self, arguments: BufferCall<'a>, buffer: &mut BufferType, extras: &mut Vec<V>) -> Read<()> {
        let given = |name| arguments.given(name);
        if let Some(scope) = given("scope") {
            let Expr::StringLiteral(scope) = scope else {
                return Err(Diagnostic::new(span(scope), "expected a memory scope such as \"shared\""));
            };
            let scope = scope.value.to_str();
            buffer.scope = if scope == "global" { String::new() } else { scope.to_string() };
        }
        for (name, field) in [("align", &mut buffer.align), ("offset_factor", &mut buffer.offset_factor)] {
            // 0 means the default.
            if let Some(value) = given(name).filter(|value| int(value) != Some(0)) {
                *field = match int(value).and_then(|value| u32::try_from(value).ok()) {
                    Some(value) => value,
                    None => return Err(Diagnostic::new(span(value), format!("expected a number as `{name}`"))),
                };
            }
        }
        match given("elem_offset") {
            Some(offset) => {
                let offset = self.buffer_dim(offset, extras)?;
                // `elem_offset=None` means no offset, whereas `offset_factor` alone would introduce a variable.
                buffer.set_offset(offset);
            }
            // An `offset_factor` without `elem_offset` introduces a variable.
            None if given("offset_factor").is_some_and(|factor| int(factor) != Some(0)) => {
                buffer.elem_offset = Some(Dim::Var(self.b.sym("elem_offset", variable_dtype(buffer))));
            }
            None => {}
        }
        if let Some(bytes) = given("byte_offset") {
            return Err(Diagnostic::new(span(bytes), "offsets in bytes are not supported")
                .help("use elem_offset=n, an offset in elements"));
        }
        match arguments.argument("layout") {
            None => {}
            Some(Expr::NoneLiteral(_)) => buffer.tiled = false,
            Some(Expr::StringLiteral(text)) if text.value.to_str() == "default" => buffer.tiled = true,
            Some(other) => {
                return Err(Diagnostic::new(span(other), "layouts other than the default are not supported")
                    .help("use layout=None, or omit it"));
            }
        }
        if let Some(other) = given("axis_separators").or(given("buffer_type")) {
            let empty = matches!(other, Expr::List(list) if list.elts.is_empty());
            let default = matches!(other, Expr::StringLiteral(text) if matches!(text.value.to_str(), "" | "default"));
            if !empty && !default {
                return Err(Diagnostic::new(span(other), "buffers in TVM 0.27 do not have this property"));
            }
        }
        Ok(())
    }

    /// Reads a dimension of a buffer. An expression that dimensions cannot represent becomes a separate node, with
    /// a symbolic variable.
    pub(super) fn buffer_dim(&mut self, expr: &'a Expr, extras: &mut Vec<V>) -> Read<Dim> {
        let found = match expr {
            Expr::StringLiteral(text) => Some(self.quoted_dim(text.value.to_str(), span(text))?),
            other => self.dim(other, false)?,
        };
        let whole = |dtype: DType| match dtype {
            dtype if dtype.is_int() && dtype.lanes() == 1 => Ok(()),
            dtype => Err(Diagnostic::new(span(expr), format!("a dimension must be an integer, found {dtype}"))),
        };
        if let Some(dim) = found {
            let float = if has_float(&dim) { DType::F32 } else { dim.dtype() };
            return whole(float).map(|()| dim);
        }
        let e = self.value(expr)?;
        whole(e.dtype)?;
        if e.v.is_leaf() || self.b.flags(e.v) & passhost_lang::ir::records::flag::BOUND != 0 {
            return Err(Diagnostic::new(span(expr), "expected a dimension"));
        }
        extras.push(e.v);
        Ok(Dim::Var(self.sym_for("dim", e)))
    }

    /// Reads a dimension inside a string, which defines undefined names.
    fn quoted_dim(&mut self, text: &str, at: std::ops::Range<usize>) -> Read<Dim> {
        let wrong = |why: String| Diagnostic::new(at.clone(), format!("in the dimension in this string: {why}"));
        crate::read::guard::check(text).map_err(|inner| wrong(inner.message))?;
        let parsed = ruff_python_parser::parse_expression(text).map_err(|error| wrong(error.error.to_string()))?;
        crate::words::spelling::check_quoted(text, parsed.tokens()).map_err(wrong)?;
        let dim = self.dim(parsed.expr(), true).map_err(|inner| wrong(inner.message))?;
        dim.ok_or_else(|| wrong("expected a dimension".to_string()))
    }

    /// Reads a name in a shape.
    fn dim_name(&mut self, name: &str, quoted: bool, at: std::ops::Range<usize>) -> Read<Option<Dim>> {
        if let Some(e) = self.known(name) {
            if e.is != Is::Value {
                return Ok(None);
            }
            if e.v.is_leaf() {
                return Ok(self.b.with(e.v, |value| value.dim()));
            }
            return Ok(Some(Dim::Var(self.sym_for(name, e))));
        }
        if let Some(sym) = self.syms.get(name) {
            return Ok(Some(Dim::Var(*sym)));
        }
        let dtype = self.declared.get(name).copied();
        let type_var = self.scope.type_vars.contains(name) || self.type_params.contains(&name);
        let dtype = match (dtype, type_var, quoted) {
            (Some(dtype), ..) => dtype,
            (None, true, _) if self.in_signature => DType::I64,
            (None, false, true) if self.in_signature => DType::I32,
            _ => return Err(self.unknown(name, at)),
        };
        let sym = self.b.sym(name, dtype);
        self.syms.insert(name.to_string(), sym);
        Ok(Some(Dim::Var(sym)))
    }

    /// Reads a dimension; `None` for an expression that dimensions cannot represent, which is then read as a value.
    ///
    /// This is separate from `FnReader::dim` of Relax, where only values matter. Here, the type of an operation also
    /// depends on how its operands are written: a literal takes the type of the other operand, and a Boolean is a number.
    /// Names refer to values, buffers and their parts, and define symbols inside a string. Only operations on integers fold.
    fn dim(&mut self, expr: &Expr, quoted: bool) -> Read<Option<Dim>> {
        Ok(match expr {
            Expr::BinOp(_) | Expr::Call(_) if let Some(value) = python_int(expr) => {
                Some(fitting(value, DType::I32, span(expr))?)
            }
            Expr::NumberLiteral(_) | Expr::UnaryOp(_) if wide_int(expr).is_some() => {
                int(expr).map(|value| Dim::int(value, DType::I32))
            }
            Expr::NumberLiteral(number) => match &number.value {
                Number::Float(value) => Some(Dim::float(*value, DType::F32)),
                _ => None,
            },
            Expr::UnaryOp(unary) if unary.op == UnaryOp::Not => {
                self.dim(&unary.operand, quoted)?.map(|a| unary_dim(PrimOp::Not, DType::BOOL, a))
            }
            Expr::UnaryOp(unary) if unary.op == UnaryOp::USub => self.dim(&unary.operand, quoted)?.map(negated),
            Expr::UnaryOp(unary) if unary.op == UnaryOp::UAdd => self.dim(&unary.operand, quoted)?,
            Expr::Name(name) => self.dim_name(name.id.as_str(), quoted, span(name))?,
            Expr::BinOp(binary) => {
                let Some(op) = binary_op(binary.op) else { return Ok(None) };
                match self.dims_of_one_type(&binary.left, &binary.right, quoted)? {
                    // As in TVM's parser, `1 * n` is folded.
                    Some((a, b)) if is_int(&a) && is_int(&b) => Some(computed(op, a, b, span(expr))?),
                    pair => pair.map(|(a, b)| Dim::binary(op, a, b)),
                }
            }
            Expr::Compare(compare) => match (&*compare.ops, &*compare.comparators) {
                ([op], [right]) => match compare_op(*op) {
                    Some(op) => self.dim_pair(op, &compare.left, right, quoted)?,
                    None => None,
                },
                _ => None,
            },
            Expr::BoolOp(logic) => {
                let op = if logic.op == BoolOp::And { PrimOp::And } else { PrimOp::Or };
                let mut all: Option<Dim> = None;
                for value in &logic.values {
                    let Some(next) = self.dim(value, quoted)? else { return Ok(None) };
                    all = Some(match all {
                        Some(before) => Dim::binary(op, before, next),
                        None => next,
                    });
                }
                all
            }
            // `A.strides[0]` and `A.elem_offset` of a buffer that introduces them.
            Expr::Subscript(subscript) => match &*subscript.value {
                Expr::Attribute(attribute) if attribute.attr.as_str() == "strides" => {
                    let index = int(&subscript.slice).and_then(|index| usize::try_from(index).ok());
                    match (self.buffer_of(&attribute.value), index) {
                        (Some(buffer), Some(index)) => buffer.strides.get(index).cloned(),
                        _ => None,
                    }
                }
                _ => None,
            },
            Expr::Attribute(attribute) if attribute.attr.as_str() == "elem_offset" => {
                self.buffer_of(&attribute.value).map(|buffer| buffer.offset())
            }
            Expr::Call(call) => self.dim_call(call, quoted)?,
            _ => None,
        })
    }

    fn buffer_of(&self, expr: &Expr) -> Option<BufferType> {
        let e = self.known(expr.as_name_expr()?.id.as_str())?;
        match self.b.type_owned(e.ty) {
            Type::Buffer(buffer) => Some(buffer),
            _ => None,
        }
    }

    /// Reads an operand of a dimension. In arithmetic, a Boolean is a number.
    fn operand_dim(&mut self, expr: &Expr, quoted: bool) -> Read<Option<Dim>> {
        match truth(expr) {
            Some(value) => Ok(Some(Dim::int(value.into(), DType::I32))),
            None => self.dim(expr, quoted),
        }
    }

    fn dim_pair(&mut self, op: PrimOp, a: &Expr, b: &Expr, quoted: bool) -> Read<Option<Dim>> {
        Ok(self.dims_of_one_type(a, b, quoted)?.map(|(x, y)| Dim::binary(op, x, y)))
    }

    /// Reads two dimensions, converted to one data type.
    fn dims_of_one_type(&mut self, a: &Expr, b: &Expr, quoted: bool) -> Read<Option<(Dim, Dim)>> {
        let (Some(x), Some(y)) = (self.operand_dim(a, quoted)?, self.operand_dim(b, quoted)?) else { return Ok(None) };
        // As in TVM, a literal, or a number with fewer bits, takes the type of the other operand.
        let is_untyped = |expr: &Expr| wide_int(expr).is_some() || truth(expr).is_some();
        let untyped = (is_untyped(a), is_untyped(b));
        let (x, y) = match (x.as_int(), y.as_int()) {
            (Some(v), _) if untyped == (true, false) && y.dtype().is_int() || is_narrower(x.dtype(), y.dtype()) => {
                (fitting(v, y.dtype(), span(a))?, y)
            }
            (_, Some(v)) if untyped == (false, true) && x.dtype().is_int() || is_narrower(y.dtype(), x.dtype()) => {
                let right = fitting(v, x.dtype(), span(b))?;
                (x, right)
            }
            _ => (x, y),
        };
        Ok(Some(match promoted(x.dtype(), y.dtype()).filter(|_| x.dtype() != y.dtype()) {
            Some(dtype) => (cast(dtype, x), cast(dtype, y)),
            None => (x, y),
        }))
    }

    fn dim_call(&mut self, call: &ExprCall, quoted: bool) -> Read<Option<Dim>> {
        let text = match &*call.func {
            Expr::Attribute(attribute) if is_name(&attribute.value, "T") => attribute.attr.as_str(),
            _ => return Ok(None),
        };
        if !call.arguments.keywords.is_empty() {
            return Ok(None);
        }
        Ok(match (text, &*call.arguments.args) {
            ("Cast", [dtype, value]) => {
                let dtype = dtype_of(dtype)?;
                self.dim(value, quoted)?.map(|value| unary_dim(PrimOp::Cast, dtype, value))
            }
            ("Not", [value]) => self.dim(value, quoted)?.map(|value| unary_dim(PrimOp::Not, DType::BOOL, value)),
            ("if_then_else", [cond, then, otherwise]) => {
                let cond = self.dim(cond, quoted)?;
                let choices = self.dims_of_one_type(then, otherwise, quoted)?;
                cond.zip(choices).map(|(cond, (then, otherwise))| Dim::if_then_else(cond, then, otherwise))
            }
            (name, [a, b]) => match named_op(name) {
                Some(op) => self.dim_pair(op, a, b, quoted)?,
                None => None,
            },
            (name, [value]) => match (dtype_named(name), int(value)) {
                (Some(dtype), Some(value)) if dtype.is_int() => Some(fitting(value, dtype, span(call))?),
                (Some(dtype), None) if dtype.is_int() => match self.dim(value, quoted)? {
                    Some(dim) => match dim.as_int() {
                        Some(value) if dtype.has_integer(value.into()) => Some(Dim::int(value, dtype)),
                        _ => Some(cast(dtype, dim)),
                    },
                    None => None,
                },
                _ => None,
            },
            _ => None,
        })
    }
}

/// Returns an integer of a data type.
///
/// # Errors
/// Fails at `at` if the type cannot represent it.
fn fitting(value: i64, dtype: DType, at: std::ops::Range<usize>) -> Read<Dim> {
    match dtype.has_integer(value.into()) {
        true => Ok(Dim::int(value, dtype)),
        false => Err(Diagnostic::new(at, format!("{value} does not fit {dtype}"))
            .help("T.Cast(\"int32\", n) converts an integer of another type")),
    }
}

/// Returns the data type of a variable introduced by a buffer for its offset or a stride.
fn variable_dtype(buffer: &BufferType) -> DType {
    buffer.shape.first().map_or(DType::I32, Dim::dtype)
}

fn unary_dim(op: PrimOp, dtype: DType, a: Dim) -> Dim {
    Dim::Expr(Arc::new(DimExpr::Unary(op, dtype, a)))
}

/// Reads `T.handle()`, `T.handle("float32", "shared")` or `T.handle(storage_scope="shared")`.
pub(super) fn handle_type(call: &ExprCall) -> Read<Type> {
    let usage = "T.handle(\"float32\", \"global\")";
    accept(call, 2, &["dtype", "storage_scope"], usage)?;
    let args = &call.arguments.args;
    let dtype = args.first().or_else(|| keyword(call, "dtype")).filter(|dtype| !dtype.is_none_literal_expr());
    let scope = match args.get(1).or_else(|| keyword(call, "storage_scope")) {
        Some(Expr::StringLiteral(scope)) => scope.value.to_str().to_string(),
        Some(other) => return Err(Diagnostic::new(span(other), "expected a memory scope").help(usage)),
        None if dtype.is_none() => "global".to_string(),
        None => String::new(),
    };
    Ok(Type::Pointer { dtype: dtype.map_or(Ok(DType::VOID), dtype_of)?, scope })
}

fn not_a_type(expr: &Expr) -> Diagnostic {
    Diagnostic::new(span(expr), "expected a TIR type")
        .help("T.int32, T.float32x4, T.handle, T.handle(\"float32\", \"global\"), T.Buffer((n, 16), \"float32\")")
}

/// Returns the value of a Boolean literal such as `True` or `T.bool(True)`.
fn truth(expr: &Expr) -> Option<bool> {
    match expr {
        Expr::BooleanLiteral(literal) => Some(literal.value),
        Expr::Call(call) if is_path(&call.func, &["T", "bool"]) && call.arguments.keywords.is_empty() => {
            match &*call.arguments.args {
                [Expr::BooleanLiteral(literal)] => Some(literal.value),
                _ => None,
            }
        }
        _ => None,
    }
}

fn is_int(dim: &Dim) -> bool {
    dim.dtype().is_int() && dim.dtype().lanes() == 1
}
