//! Reads types and dimensions.

use super::arguments::{accept, dtype_of, int, keyword, not_finite, wide_int};
use super::dims::{
    absolute, cast, ceildiv, computed, float, float_of, has_float, limit_of, negated, no_bools, unknown_rank,
};
use super::ops::{binary_op, compare_op, named_op};
use super::reader::FnReader;
use crate::words::diagnostic::Diagnostic;
use crate::words::dtypes::dtype_named;
use crate::words::syntax::{Read, path_after, span};
use passhost_lang::ir::{DTensorType, DType, Dim, DimExpr, TensorType, Type, TypeId};
use passhost_lang::names::listed;
use passhost_lang::scalar::{Intrinsic, Math, PrimOp};
use ruff_python_ast::{BoolOp, Expr, ExprCall, ExprCompare, ExprName, Number, Operator, UnaryOp};
use std::sync::Arc;

impl<'a> FnReader<'a> {
    /// Reads a type; equal source in the same function is read once.
    pub(crate) fn type_id(&mut self, expr: &Expr) -> Read<TypeId> {
        let source = self.scope.text.get(span(expr)).unwrap_or("");
        if let Some(id) = self.types.get(source) {
            return Ok(*id);
        }
        self.speaks_of_values = false;
        let ty = self.ty(expr)?;
        let id = self.b.ty(&ty);
        // Not cached if the type contains names, which may have different values elsewhere.
        if !self.speaks_of_values {
            self.types.insert(source, id);
        }
        Ok(id)
    }

    pub(crate) fn ty(&mut self, expr: &Expr) -> Read<Type> {
        match expr {
            Expr::Call(call) => self.type_call(call),
            // The result of a function that returns nothing.
            Expr::NoneLiteral(_) => Ok(Type::tuple([])),
            Expr::Attribute(_) => {
                let text = self.scope.text;
                match path_after(text, expr, "R") {
                    Some("Tensor") => Ok(Type::tensor_ndim(-1, DType::VOID)),
                    Some("Tuple") => Ok(Type::tuple([])),
                    Some("Shape") => Ok(Type::Shape { ndim: -1, dims: None }),
                    Some("Any" | "Object") => Ok(Type::Object),
                    Some("Callable") => Ok(Type::opaque_callable()),
                    _ => match path_after(text, expr, "T").and_then(dtype_named) {
                        Some(dtype) => Ok(Type::Prim { dtype, value: None }),
                        None => Err(not_a_type(expr)),
                    },
                }
            }
            _ => Err(not_a_type(expr)),
        }
    }

    fn type_call(&mut self, call: &ExprCall) -> Read<Type> {
        let text = self.scope.text;
        if path_after(text, &call.func, "I") == Some("StringType") {
            // TVM's type of `R.str`, which parameters cannot have.
            return accept(call, 0, &[], "I.StringType()").map(|()| Type::Object);
        }
        match path_after(text, &call.func, "R") {
            Some("Tensor") => self.tensor(call),
            Some("DTensor" | "dist.DTensor") => self.dtensor(call),
            Some("Tuple") => {
                accept(call, usize::MAX, &[], "R.Tuple(R.Tensor, R.Shape)")?;
                let items = match &*call.arguments.args {
                    [Expr::Tuple(tuple)] => &tuple.elts,
                    [Expr::List(list)] => &list.elts,
                    items => items,
                };
                Ok(Type::Tuple(items.iter().map(|item| self.ty(item)).collect::<Read<_>>()?))
            }
            Some("Shape") => self.shape_type(call),
            Some("Any" | "Object") => accept(call, 0, &[], "R.Any").map(|()| Type::Object),
            Some("Prim") => self.prim_type(call),
            Some("Callable") => self.callable(call),
            _ => Err(not_a_type(&call.func)),
        }
    }

    /// Returns an argument by position or by name.
    fn argument<'c>(call: &'c ExprCall, position: usize, name: &str) -> Option<&'c Expr> {
        call.arguments.args.get(position).or_else(|| keyword(call, name))
    }

    fn ndim(&self, call: &ExprCall) -> Read<Option<i32>> {
        let position = if path_after(self.scope.text, &call.func, "R") == Some("Tensor") { 3 } else { usize::MAX };
        let Some(value) = Self::argument(call, position, "ndim") else { return Ok(None) };
        match int(value) {
            Some(ndim) if (-1..=64).contains(&ndim) => Ok(Some(ndim as i32)),
            _ => Err(Diagnostic::new(span(value), "expected a number of dimensions from -1 (unknown) to 64")),
        }
    }

    fn shape_type(&mut self, call: &ExprCall) -> Read<Type> {
        accept(call, 1, &["values", "ndim"], "R.Shape([1, n]), R.Shape(ndim=2)")?;
        let ndim = self.ndim(call)?;
        match Self::argument(call, 0, "values").filter(|dims| !dims.is_none_literal_expr()) {
            Some(dims) => Ok(Type::shape(self.dims_of(dims, ndim)?)),
            None => Ok(Type::Shape { ndim: ndim.unwrap_or(-1), dims: None }),
        }
    }

    /// Reads dimensions, whose number may be repeated in a further argument.
    fn dims_of(&mut self, expr: &Expr, ndim: Option<i32>) -> Read<Vec<Dim>> {
        let dims = self.dims(expr)?;
        match ndim {
            Some(ndim) if ndim >= 0 && ndim as usize != dims.len() => {
                let message = format!("the shape has {} dimensions, but `ndim` is {ndim}", dims.len());
                Err(Diagnostic::new(span(expr), message).help("omit `ndim` if the shape is known"))
            }
            _ => Ok(dims),
        }
    }

    fn tensor(&mut self, call: &ExprCall) -> Read<Type> {
        let usage = "R.Tensor(shape, dtype=\"float32\", vdevice=\"llvm:0:global\", ndim=2)";
        accept(call, 4, &["shape", "dtype", "vdevice", "ndim"], usage)?;
        let (shape, dtype) = match (Self::argument(call, 0, "shape"), Self::argument(call, 1, "dtype")) {
            // `R.Tensor("float32")`
            (Some(dtype @ Expr::StringLiteral(_)), None) => (None, Some(dtype)),
            both => both,
        };
        let dtype = dtype.map_or(Ok(DType::VOID), dtype_of)?;
        let vdevice = match Self::argument(call, 2, "vdevice") {
            Some(Expr::NoneLiteral(_)) => None,
            Some(Expr::StringLiteral(name)) => Some(self.vdevice(name.value.to_str(), span(name))?),
            Some(other) => return Err(Diagnostic::new(span(other), "expected a string such as \"llvm:0:global\"")),
            None => None,
        };
        let said = self.ndim(call)?;
        let shape = shape.filter(|shape| !shape.is_none_literal_expr());
        if let Some(Expr::Name(variable)) = shape {
            let (ndim, shape) = self.shape_of(variable)?;
            return Ok(Type::Tensor(TensorType { dtype, ndim, shape, vdevice }));
        }
        let shape = shape.map(|dims| self.dims_of(dims, said)).transpose()?;
        let ndim = shape.as_ref().map_or(said.unwrap_or(-1), |dims| dims.len() as i32);
        Ok(Type::Tensor(TensorType { dtype, ndim, shape, vdevice }))
    }

    /// Returns the facts about a shape variable from its type, which a tensor type with that shape keeps.
    fn shape_of(&mut self, variable: &ExprName) -> Read<(i32, Option<Vec<Dim>>)> {
        self.speaks_of_values = true;
        let shape = self.lookup(variable.id.as_str(), span(variable))?;
        if let Some(dims) = self.named_dims.get(&shape) {
            return Ok((dims.len() as i32, Some(dims.clone())));
        }
        match self.b.type_owned(self.b.type_of(shape)) {
            Type::Shape { dims: None, .. } if self.exact_shapes => {
                Err(unknown_rank(variable.id.as_str(), span(variable)))
            }
            Type::Shape { ndim, dims } => Ok((ndim, dims)),
            _ => {
                let message = format!("`{}` is not a shape", variable.id);
                Err(Diagnostic::new(span(variable), message).help("write a shape such as (1, 3, n)"))
            }
        }
    }

    fn dtensor(&mut self, call: &ExprCall) -> Read<Type> {
        let usage = "R.DTensor((128, 128), \"float32\", \"mesh[0]\", \"S[1]\")";
        accept(call, 5, &["shape", "dtype", "device_mesh", "placement", "ndim"], usage)?;
        let dtype = Self::argument(call, 1, "dtype").map_or(Ok(DType::VOID), dtype_of)?;
        let ndim = match Self::argument(call, 4, "ndim") {
            Some(value) => int(value).and_then(|ndim| i32::try_from(ndim).ok()).filter(|ndim| (-1..=64).contains(ndim)),
            None => Some(-1),
        };
        let Some(said) = ndim else {
            return Err(Diagnostic::new(span(call), "`ndim` must be a number from -1 (unknown) to 64").help(usage));
        };
        let shape = Self::argument(call, 0, "shape").filter(|shape| !shape.is_none_literal_expr());
        let shape = shape.map(|dims| self.dims_of(dims, Some(said))).transpose()?;
        let ndim = shape.as_ref().map_or(said, |dims| dims.len() as i32);
        let mesh = match Self::argument(call, 2, "device_mesh") {
            Some(Expr::StringLiteral(name)) => self.mesh(name.value.to_str(), span(name))?,
            other => return Err(Diagnostic::new(other.map_or(span(call), span), "expected a mesh").help(usage)),
        };
        let placement = match Self::argument(call, 3, "placement") {
            Some(Expr::StringLiteral(text)) => placement(text.value.to_str(), span(text))?,
            other => return Err(Diagnostic::new(other.map_or(span(call), span), "expected a placement").help(usage)),
        };
        Ok(Type::DTensor(DTensorType { tensor: TensorType { dtype, ndim, shape, vdevice: None }, mesh, placement }))
    }

    fn mesh(&self, name: &str, at: std::ops::Range<usize>) -> Read<u32> {
        let number = name.strip_prefix("mesh[").and_then(|rest| rest.strip_suffix(']'));
        let number = number.and_then(|number| number.parse::<u32>().ok());
        number.filter(|number| (*number as usize) < self.scope.meshes).ok_or_else(|| {
            Diagnostic::new(at, format!("the module does not contain a device mesh `{name}`"))
                .help("declare it with I.module_global_infos({\"mesh\": [R.device_mesh((2,), I.Range(0, 2))]})")
        })
    }

    pub(super) fn vdevice(&self, name: &str, at: std::ops::Range<usize>) -> Read<u32> {
        let devices = &self.scope.vdevices;
        devices.find(name).ok_or_else(|| {
            let help = match devices.names() {
                [] => "declare it with I.module_global_infos({\"vdevice\": [I.vdevice(...)]})".to_string(),
                names => format!(
                    "the module has {}, each written as target kind, index within that kind, and memory scope",
                    listed(&names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>())
                ),
            };
            Diagnostic::new(at, format!("the module does not contain a virtual device `{name}`")).help(help)
        })
    }

    fn prim_type(&mut self, call: &ExprCall) -> Read<Type> {
        accept(call, 1, &["dtype"], "R.Prim(\"int64\")")?;
        match Self::argument(call, 0, "dtype") {
            Some(dtype) => Ok(Type::Prim { dtype: dtype_of(dtype)?, value: None }),
            None => Err(Diagnostic::new(span(call), "R.Prim needs a data type").help("R.Prim(\"int64\")")),
        }
    }

    fn callable(&mut self, call: &ExprCall) -> Read<Type> {
        let usage = "R.Callable((R.Tensor,), R.Tensor, True), R.Callable(ret=R.Tensor, purity=True)";
        accept(call, 3, &["params", "ret", "purity"], usage)?;
        let params = match Self::argument(call, 0, "params") {
            Some(Expr::Tuple(tuple)) => Some(&*tuple.elts),
            Some(Expr::List(list)) => Some(&*list.elts),
            Some(Expr::NoneLiteral(_)) | None => None,
            Some(one) => Some(std::slice::from_ref(one)),
        };
        let params = params.map(|items| items.iter().map(|item| self.ty(item)).collect::<Read<_>>()).transpose()?;
        // A function with unknown parameters is assumed to be impure.
        let pure = match Self::argument(call, 2, "purity") {
            Some(Expr::BooleanLiteral(value)) => value.value,
            Some(other) => return Err(Diagnostic::new(span(other), "expected True or False")),
            None => params.is_some(),
        };
        let ret = match Self::argument(call, 1, "ret") {
            Some(ret) => self.ty(ret)?,
            None => Type::Object,
        };
        Ok(Type::callable(params, ret, pure))
    }

    /// Reads the dimensions in a tuple or list.
    pub(crate) fn dims(&mut self, expr: &Expr) -> Read<Vec<Dim>> {
        let items = match expr {
            Expr::Tuple(tuple) => &tuple.elts,
            Expr::List(list) => &list.elts,
            other => return Err(Diagnostic::new(span(other), "expected a shape such as (1, 3, n)")),
        };
        items.iter().map(|item| self.shape_dim(item).and_then(|dim| whole(item, dim))).collect()
    }

    /// Reads a dimension of a shape: a scalar expression, or a string that contains a scalar expression.
    fn shape_dim(&mut self, expr: &Expr) -> Read<Dim> {
        match expr {
            Expr::StringLiteral(literal) => self.dim_text(literal.value.to_str(), span(literal)),
            expr => self.dim(expr),
        }
    }

    /// Reads a scalar expression. A string is a dimension only as a whole element of a shape.
    ///
    /// `TirReader::dim` reads the shapes of TIR, where the same syntax means something else. Here, a number is a Python integer, every
    /// operation folds, names are symbols, and anything else is an error.
    pub(crate) fn dim(&mut self, expr: &Expr) -> Read<Dim> {
        match expr {
            Expr::NumberLiteral(number) => match &number.value {
                Number::Int(value) => match value.as_i64() {
                    Some(value) => Ok(Dim::Int(value)),
                    None => Err(Diagnostic::new(span(expr), "does not fit in 64 bits")),
                },
                // A Python float is a float64.
                Number::Float(value) => Ok(Dim::float(*value, DType::F64)),
                Number::Complex { .. } => Err(not_a_dim(expr)),
            },
            Expr::BooleanLiteral(value) => Ok(Dim::int(i64::from(value.value), DType::BOOL)),
            Expr::UnaryOp(unary) if unary.op == UnaryOp::USub => match int(expr) {
                Some(value) => Ok(Dim::Int(value)),
                None => {
                    let other = self.dim(&unary.operand)?;
                    Ok(negated(other))
                }
            },
            Expr::UnaryOp(unary) if unary.op == UnaryOp::UAdd => self.dim(&unary.operand),
            Expr::UnaryOp(unary) if unary.op == UnaryOp::Not => {
                let value = self.dim(&unary.operand)?;
                if let Some(value) = value.as_int() {
                    return Ok(Dim::int(i64::from(value == 0), DType::BOOL));
                }
                Ok(Dim::Expr(Arc::new(DimExpr::Unary(PrimOp::Not, DType::BOOL, value))))
            }
            Expr::BoolOp(logic) => {
                let op = if logic.op == BoolOp::And { PrimOp::And } else { PrimOp::Or };
                let mut values = logic.values.iter().map(|value| self.dim(value));
                let first = values.next().unwrap_or_else(|| Err(not_a_dim(expr)))?;
                values.try_fold(first, |left, right| computed(op, left, right?, span(expr)))
            }
            Expr::Name(name) => self.sym(name.id.as_str(), span(name)).map(Dim::Var),
            Expr::BinOp(binary) => {
                let (left, right) = (self.dim(&binary.left)?, self.dim(&binary.right)?);
                if let (Operator::Pow, Dim::Int(base), Dim::Int(exponent @ 0..)) = (binary.op, &left, &right) {
                    let power = u32::try_from(*exponent).ok().and_then(|exponent| base.checked_pow(exponent));
                    let power = power.map(Dim::Int);
                    return power.ok_or_else(|| Diagnostic::new(span(expr), "does not fit in 64 bits"));
                }
                let op = binary_op(binary.op).ok_or_else(|| not_a_dim(expr))?;
                if let (PrimOp::Div, Dim::Int(a), Dim::Int(b @ (..=-1 | 1..))) = (op, &left, &right) {
                    // Python's true division.
                    return Ok(Dim::float(*a as f64 / *b as f64, DType::F64));
                }
                if op == PrimOp::Div && !has_float(&left) && !has_float(&right) {
                    return Err(Diagnostic::new(span(expr), "`/` of two integers is not supported")
                        .help("use `//` to round down, or T.truncdiv(a, b)"));
                }
                computed(op, left, right, span(expr))
            }
            Expr::Compare(compare) => self.compared(compare, expr),
            Expr::Call(call) => self.dim_call(call),
            _ => Err(not_a_dim(expr)),
        }
    }

    /// Reads `a < b`; `a < b < c` is `a < b and b < c`.
    fn compared(&mut self, compare: &ExprCompare, expr: &Expr) -> Read<Dim> {
        let (mut left, mut all) = (self.dim(&compare.left)?, None);
        for (op, right) in compare.ops.iter().zip(&compare.comparators) {
            let op = compare_op(*op).ok_or_else(|| not_a_dim(expr))?;
            let right = self.dim(right)?;
            let holds = computed(op, left, right.clone(), span(expr))?;
            all = Some(match all {
                Some(before) => computed(PrimOp::And, before, holds, span(expr))?,
                None => holds,
            });
            left = right;
        }
        all.ok_or_else(|| not_a_dim(expr))
    }

    /// Reads a call that is a dimension, such as `T.min(n, 4)`.
    pub(crate) fn dim_call(&mut self, call: &ExprCall) -> Read<Dim> {
        let name = path_after(self.scope.text, &call.func, "T");
        let args = &call.arguments.args;
        if let (None, Expr::Attribute(method), [dtype]) = (name, &*call.func, &**args)
            && method.attr.as_str() == "astype"
        {
            return Ok(cast(dtype_of(dtype)?, self.dim(&method.value)?));
        }
        match (name, &**args) {
            (Some("Cast"), [dtype, value]) | (Some("cast"), [value, dtype]) => {
                Ok(cast(dtype_of(dtype)?, self.dim(value)?))
            }
            (Some("Not"), [value]) => {
                let value = self.dim(value)?;
                Ok(Dim::Expr(Arc::new(DimExpr::Unary(PrimOp::Not, DType::BOOL, value))))
            }
            (Some("ceildiv"), [a, b]) => ceildiv(self.dim(a)?, self.dim(b)?, span(call)),
            (Some(limit @ ("min_value" | "max_value" | "infinity")), [dtype]) => limit_of(limit, dtype),
            // In a dimension, the unchosen value of a `T.Select` has no effect.
            (Some("if_then_else" | "Select"), [cond, then, other]) => {
                Ok(Dim::if_then_else(self.dim(cond)?, self.dim(then)?, self.dim(other)?))
            }
            (Some(name), [a, b]) if let Some(op) = named_op(name) => {
                let (a, b) = (self.dim(a)?, self.dim(b)?);
                no_bools(op, &a, &b, &span(call))?;
                // For floats, `T.Div` is the true quotient.
                let float = op == PrimOp::TruncDiv && (has_float(&a) || has_float(&b));
                let op = if float { PrimOp::Div } else { op };
                // A capitalized name is a TVM constructor, which does not fold. Shifts lack a constructor.
                match name.starts_with(char::is_uppercase) || matches!(op, PrimOp::Shl | PrimOp::Shr) {
                    true => Ok(Dim::binary(op, a, b)),
                    false => computed(op, a, b, span(call)),
                }
            }
            (Some(name), [Expr::StringLiteral(text)]) => match (dtype_named(name), not_finite(text.value.to_str())) {
                (Some(dtype), Some(value)) if dtype.is_float() => Ok(Dim::float(value, dtype)),
                _ => Err(not_a_dim(&call.func)),
            },
            (Some(name), [value]) => self.dim_of_one(name, value, call),
            (Some(_), _) => Err(not_of_dims(call)),
            _ => Err(not_a_dim(&call.func)),
        }
    }

    /// Reads a call that is a dimension and has one argument: a conversion, or a function of integers.
    fn dim_of_one(&mut self, name: &str, value: &Expr, call: &ExprCall) -> Read<Dim> {
        match (name, dtype_named(name)) {
            (_, Some(dtype)) if dtype.is_int() && wide_int(value).is_some_and(|v| dtype.has_integer(v)) => {
                // Unsigned integers wrap into the 64 bits of the record.
                Ok(Dim::int(wide_int(value).unwrap_or(0) as i64, dtype))
            }
            (_, Some(dtype)) => match self.dim(value)? {
                Dim::Int(v) if dtype.is_float() => float(v as f64, dtype, span(value)),
                Dim::Int(v) if !dtype.has_integer(v.into()) => {
                    Err(Diagnostic::new(span(value), format!("{v} does not fit {dtype}")))
                }
                Dim::Int(v) => Ok(Dim::int(v, dtype)),
                other => match float_of(&other) {
                    Some(v) => float(v, dtype, span(value)),
                    None => Ok(cast(dtype, other)),
                },
            },
            (name, None) if name == "abs" || rounds(name) => {
                let value = self.dim(value)?;
                match (name, value.as_int()) {
                    _ if !value.dtype().is_int() || value.dtype() == DType::BOOL => Err(not_of_dims(call)),
                    ("abs", Some(number)) => Ok(Dim::int(number.saturating_abs(), value.dtype())),
                    ("abs", None) => Ok(absolute(value)),
                    _ => Ok(value),
                }
            }
            (_, None) => Err(not_of_dims(call)),
        }
    }

    /// Reads a dimension inside a string: `"n"`, `"n + 1"`.
    fn dim_text(&mut self, text: &str, at: std::ops::Range<usize>) -> Read<Dim> {
        let wrong = |why: String| Diagnostic::new(at.clone(), format!("in the dimension in this string: {why}"));
        crate::read::guard::check(text).map_err(|inner| wrong(inner.message))?;
        let parsed = ruff_python_parser::parse_expression(text).map_err(|error| wrong(error.error.to_string()))?;
        crate::words::spelling::check_quoted(text, parsed.tokens()).map_err(wrong)?;
        let before = std::mem::replace(&mut self.implicit_syms, true);
        let dim = self.dim(parsed.expr()).map_err(|inner| wrong(inner.message));
        self.implicit_syms = before;
        dim
    }
}

/// Reads the placement of a tensor on a mesh: `R` or `S[axis]` per mesh axis.
fn placement(text: &str, at: std::ops::Range<usize>) -> Read<Vec<Option<u32>>> {
    let part = |part: &str| match part.trim() {
        "R" => Ok(None),
        part => {
            let axis = part.strip_prefix("S[").and_then(|rest| rest.strip_suffix(']'));
            axis.and_then(|axis| axis.parse().ok()).map(Some).ok_or_else(|| {
                Diagnostic::new(at.clone(), format!("unknown placement `{part}`")).help("\"R\", \"S[0]\", \"S[0], R\"")
            })
        }
    };
    text.split(',').map(part).collect()
}

/// Converts a dimension of a shape to int64: a constant of another data type is converted, as in TVM.
///
/// # Errors
/// Fails at `item` for anything else.
fn whole(item: &Expr, dim: Dim) -> Read<Dim> {
    let found = match (dim.dtype(), dim.as_int()) {
        _ if has_float(&dim) => "a float".to_string(),
        (DType::I64, _) => return Ok(dim),
        (DType::U64, Some(value @ ..0)) => format!("{}, which does not fit", value as u64),
        (DType::BOOL, _) => "a bool".to_string(),
        (_, Some(value)) => return Ok(Dim::Int(value)),
        (dtype, None) => dtype.to_string(),
    };
    let fault = Diagnostic::new(span(item), format!("a dimension must be an int64, found {found}"));
    Err(fault.help("T.Cast(\"int64\", n) converts an integer of another type"))
}

fn not_a_type(expr: &Expr) -> Diagnostic {
    Diagnostic::new(span(expr), "expected a type").help(
        "R.Tensor((1, n), dtype=\"float32\"), R.Shape([n]), R.Tuple(...), R.Prim(\"int64\"), R.Callable(...), R.Any",
    )
}

/// Returns true for a function that rounds to an integer.
fn rounds(name: &str) -> bool {
    Intrinsic::find(name).and_then(Intrinsic::math).is_some_and(Math::is_rounding)
}

/// Describes a call that is allowed in scalar expressions but not in dimensions.
fn not_of_dims(call: &ExprCall) -> Diagnostic {
    let name = match &*call.func {
        Expr::Attribute(attribute) => attribute.attr.as_str(),
        _ => "it",
    };
    Diagnostic::new(span(&*call.func), format!("`T.{name}` cannot be used in a dimension")).help(
        "use + - * // %, comparisons, T.min, T.max, T.ceildiv, T.if_then_else and T.Cast of integers and symbolic variables",
    )
}

fn not_a_dim(expr: &Expr) -> Diagnostic {
    Diagnostic::new(span(expr), "expected a dimension: an integer, a symbolic variable, or + - * // % of these")
}
