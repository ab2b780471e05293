//! Reads expressions and attribute values.

use super::arguments::{accept, int, keyword, sym_declaration};
use super::constants::{Scalar, number_operand, scalar};
use super::reader::FnReader;
use super::targets;
use super::tir::python_int;
use crate::metadata::Object;
use crate::words::diagnostic::Diagnostic;
use crate::words::dtypes::dtype_named;
use crate::words::literals::Literal;
use crate::words::syntax::{Read, is_path, span};
use passhost_lang::ir::records::MAX_DEPTH;
use passhost_lang::ir::{Attr, DType, Dim, MAX_SIZE, Sym, Type, V};
use passhost_lang::names::{did_you_mean, nearest};
use ruff_python_ast::{Expr, ExprCall, ExprLambda};
use std::ops::Range;

const INDEX_MAP: &str = "T.index_map(lambda i, j: (j, i // 4, i % 4))";

/// Maximum number of parts of a type, in addition to half the number of source bytes.
const SMALL_TYPE: u64 = 512;

impl<'a> FnReader<'a> {
    /// Reads a value: variable, leaf, or nested expression.
    pub(crate) fn expr(&mut self, expr: &'a Expr) -> Read<V> {
        let v = self.value(expr)?;
        self.sized(v, span(expr))
    }

    /// Rejects a value whose type is far larger than the source, because nested tuples can double with each line.
    /// Declared types are never that large.
    pub(crate) fn sized(&mut self, v: V, at: Range<usize>) -> Read<V> {
        let (size, depth) = self.b.type_size(self.b.type_of(v));
        let most = (self.scope.text.len() as u64 / 2 + SMALL_TYPE).min(u64::from(MAX_SIZE));
        let message = if u64::from(size) > most {
            format!("the type of this value has more than {most} parts when it is written out")
        } else if depth > MAX_DEPTH {
            format!("the type of this value is nested more than {MAX_DEPTH} deep")
        } else {
            return Ok(v);
        };
        Err(Diagnostic::new(at, message).help(
            "use fewer nested tuples, because each holds the types of all its elements; use R.match_cast for \
                                               shapes that keep gaining new variables",
        ))
    }

    fn value(&mut self, expr: &'a Expr) -> Read<V> {
        match expr {
            Expr::Name(name) => self.lookup(name.id.as_str(), span(name)).or_else(|unknown| {
                // A symbolic variable stands for its value, as in `R.arange(0, n, 1)`.
                let sym = self.known_sym(name.id.as_str()).ok_or(unknown)?;
                Ok(self.b.prim_value(&Dim::Var(sym)))
            }),
            Expr::Call(call) => self.call(call),
            Expr::Tuple(tuple) => self.tuple_of(&tuple.elts),
            Expr::List(list) => self.tuple_of(&list.elts),
            Expr::If(choice) if let Expr::BooleanLiteral(always) = &*choice.test => {
                self.value(if always.value { &choice.body } else { &choice.orelse })
            }
            Expr::Subscript(subscript) => {
                match self.scope.metadata(expr)? {
                    Some(Object::Tensor(tensor, ty)) => return Ok(self.b.constant(&tensor, &ty)),
                    Some(Object::Str(_) | Object::Type) => return Err(not_a_value(expr)),
                    None => {}
                }
                let tuple = self.expr(&subscript.value)?;
                let Some(index) = int(&subscript.slice).and_then(|index| u32::try_from(index).ok()) else {
                    return Err(Diagnostic::new(span(&*subscript.slice), "expected the index of an element"));
                };
                let n = self.b.with(tuple, |tuple| match tuple.ty().is_tuple() {
                    true => tuple.ty().children().len(),
                    false => usize::MAX,
                });
                if index as usize >= n {
                    let message = format!("element {index} does not exist in a tuple of {n}");
                    return Err(Diagnostic::new(span(&*subscript.slice), message));
                }
                Ok(self.b.tuple_get(tuple, index, None))
            }
            Expr::Attribute(attribute) if self.is_module(&attribute.value) => {
                self.global(attribute.attr.as_str(), span(&attribute.attr))
            }
            Expr::BinOp(_) | Expr::UnaryOp(_) | Expr::BoolOp(_) | Expr::Compare(_) if !self.is_scalar(expr) => {
                self.python_operator(expr)
            }
            Expr::NumberLiteral(_)
            | Expr::BooleanLiteral(_)
            | Expr::BinOp(_)
            | Expr::UnaryOp(_)
            | Expr::BoolOp(_)
            | Expr::Compare(_) => {
                let dim = self.dim(expr)?;
                Ok(self.b.prim_value(&dim))
            }
            Expr::StringLiteral(text) => Ok(self.b.string(text.value.to_str())),
            _ => Err(not_a_value(expr)),
        }
    }

    /// Returns true if an expression names the module that is being read.
    pub(crate) fn is_module(&self, expr: &Expr) -> bool {
        matches!(expr, Expr::Name(name) if self.modules.contains(name.id.as_str()))
    }

    /// Returns a function of the module.
    pub(crate) fn global(&mut self, name: &'a str, at: std::ops::Range<usize>) -> Read<V> {
        if let Some(v) = self.globals.get(name) {
            return Ok(*v);
        }
        let Some((ty, n_syms)) = self.scope.globals.get(name) else {
            let near = did_you_mean(&nearest(name, self.scope.globals.keys().copied()));
            return Err(Diagnostic::new(at, format!("the module does not contain a function `{name}`{near}"))
                .help("define it in the module, or correct the name"));
        };
        // The callee's symbolic variables get new numbers in this body.
        let fresh: Vec<_> = (0..*n_syms).map(|_| self.b.sym("n", DType::I64)).collect();
        let with = |sym: Sym| fresh.get(sym.id as usize).map(|fresh| Dim::Var(Sym { dtype: sym.dtype, ..*fresh }));
        let ty = ty.map_dims(true, &|dim| passhost_lang::arith::substitute(dim, &with));
        let ty = self.b.ty(&ty);
        let v = self.b.global_var(name, ty);
        self.globals.insert(name, v);
        if self.scope.again.later.contains(name) {
            self.later.insert(v);
        }
        Ok(v)
    }

    /// Reads calls that are leaves: `R.const`, `R.shape`, `R.prim_value`, `R.str`, `R.dtype`; `None` for all
    /// others.
    pub(crate) fn leaf_call(&mut self, name: &str, call: &'a ExprCall) -> Read<Option<V>> {
        const USAGE: &str =
            "R.const(1.0, \"float32\"), R.shape([1, n]), R.prim_value(1), R.str(\"s\"), R.dtype(\"float32\")";
        let args = &call.arguments.args;
        match name {
            "const" => accept(call, 2, &["value", "dtype"], USAGE)?,
            "dist.const" => accept(call, 2, &[], "R.dist.const(1.0, R.DTensor((), \"float32\", \"mesh[0]\", \"R\"))")?,
            "shape" | "prim_value" | "str" | "dtype" => accept(call, 1, &["value"], USAGE)?,
            "tuple" => accept(call, usize::MAX, &[], "R.tuple(x, y)")?,
            "ExternFunc" => accept(call, 2, &[], "R.ExternFunc(\"symbol\", R.Callable((R.Tensor,), R.Tensor))")?,
            _ => return Ok(None),
        }
        let named = keyword(call, "value").filter(|_| args.is_empty());
        let args = named.map_or(&**args, std::slice::from_ref);
        Ok(Some(match (name, args) {
            ("const", [value]) => self.constant(value, keyword(call, "dtype"))?,
            ("const", [value, dtype]) => self.constant(value, Some(dtype))?,
            ("dist.const", [value, ty]) => match self.ty(ty)? {
                Type::DTensor(of) if of.tensor.ndim == 0 => {
                    self.scalar_constant(value, Some(of.tensor.dtype), Some(Type::DTensor(of)))?
                }
                _ => return Err(Diagnostic::new(span(ty), "expected a DTensor without dimensions")),
            },
            ("shape", [dims]) => {
                let dims = self.dims(dims)?;
                self.b.shape(&dims)
            }
            ("prim_value", [value]) => {
                let dim = self.dim(value)?;
                self.b.prim_value(&dim)
            }
            ("str", [Expr::StringLiteral(text)]) => self.b.string(text.value.to_str()),
            ("ExternFunc", [Expr::StringLiteral(symbol)]) => {
                let ty = self.b.ty(&Type::opaque_callable());
                self.b.extern_func(symbol.value.to_str(), ty)
            }
            ("ExternFunc", [Expr::StringLiteral(symbol), ty]) => {
                let ty = self.type_id(ty)?;
                self.b.extern_func(symbol.value.to_str(), ty)
            }
            ("dtype", [dtype]) => {
                let dtype = super::arguments::dtype_of(dtype)?;
                self.b.dtype(dtype)
            }
            ("tuple", items) => {
                let item = |item| match number_operand(item, Literal::Narrow) {
                    Some(number) => Ok(self.b.prim_value(&number)),
                    None => self.expr(item),
                };
                let items = items.iter().map(item).collect::<Read<Vec<V>>>()?;
                self.b.tuple(&items, None)
            }
            _ => return Err(Diagnostic::new(span(call), format!("wrong arguments for R.{name}")).help(USAGE)),
        }))
    }

    /// Reads a number bound to a name: a scalar of the declared type, otherwise a constant tensor. `None` for
    /// anything else.
    pub(crate) fn bound_number(&mut self, annotation: Option<&'a Expr>, value: &'a Expr) -> Read<Option<V>> {
        if !matches!(value, Expr::NumberLiteral(_) | Expr::BooleanLiteral(_) | Expr::UnaryOp(_)) {
            return Ok(None);
        }
        let Some(number) = scalar(value) else { return Ok(None) };
        let said = annotation.map(|annotation| self.ty(annotation)).transpose()?;
        let Some(Type::Prim { dtype, .. }) = said else {
            return self.scalar_constant(value, None, None).map(Some);
        };
        let dim = match number {
            Scalar::Bool(v) if dtype == DType::BOOL => Some(Dim::int(i64::from(v), dtype)),
            Scalar::Int(v) if dtype.is_float() => Some(Dim::float(v as f64, dtype)),
            Scalar::Int(v) if dtype != DType::BOOL => i64::try_from(v).ok().map(|v| Dim::int(v, dtype)),
            Scalar::Float(v) if dtype.is_float() => Some(Dim::float(v, dtype)),
            _ => None,
        };
        let fits = dim.filter(|_| number.fits(dtype));
        let wrong = || Diagnostic::new(span(value), format!("a scalar of {dtype} cannot hold this value"));
        fits.map(|dim| Some(self.b.prim_value(&dim))).ok_or_else(wrong)
    }
}

fn not_a_value(expr: &Expr) -> Diagnostic {
    Diagnostic::new(span(expr), "expected a value: a variable, a call such as R.add(x, y), a tuple or a constant")
}

impl<'a> FnReader<'a> {
    /// Reads a dict of attributes.
    pub(crate) fn attr_dict(&mut self, expr: &'a Expr) -> Read<Vec<(String, Attr)>> {
        let Expr::Dict(dict) = expr else {
            return Err(Diagnostic::new(span(expr), "expected a dict such as {\"num_input\": 1}"));
        };
        let mut entries: Vec<(String, Attr)> = Vec::with_capacity(dict.items.len());
        for item in &dict.items {
            let Some(key) = &item.key else {
                return Err(Diagnostic::new(span(&item.value), "expected a string as the key"));
            };
            let name = self.scope.string(key)?;
            if entries.iter().any(|(known, _)| *known == name) {
                let message = format!("key `{name}` is given twice");
                return Err(Diagnostic::new(span(key), message).help("remove one of them"));
            }
            entries.push((name, self.attr(&item.value)?));
        }
        Ok(entries)
    }

    /// Reads an attribute value.
    pub(crate) fn attr(&mut self, expr: &'a Expr) -> Read<Attr> {
        match expr {
            Expr::NoneLiteral(_) => Ok(Attr::None),
            Expr::StringLiteral(text) => Ok(Attr::Str(text.value.to_str().to_string())),
            Expr::List(list) => list.elts.iter().map(|item| self.attr(item)).collect::<Read<_>>().map(Attr::List),
            Expr::Tuple(tuple) => tuple.elts.iter().map(|item| self.attr(item)).collect::<Read<_>>().map(Attr::List),
            Expr::Dict(_) => self.attr_dict(expr).map(Attr::dict),
            // An index map.
            Expr::Lambda(lambda) => self.indices(lambda, span(expr)),
            Expr::Call(call) if !is_path(&call.func, &["float"]) => self.object(call),
            Expr::Subscript(_) => match self.scope.metadata(expr)? {
                Some(Object::Tensor(tensor, ty)) => Ok(Attr::Tensor(tensor, ty)),
                Some(Object::Str(text)) => Ok(Attr::Str(text)),
                Some(Object::Type) | None => Err(not_an_attribute(expr)),
            },
            Expr::BinOp(_) if let Some(value) = python_int(expr) => Ok(Attr::Int(value)),
            other => match scalar(other) {
                Some(Scalar::Bool(v)) => Ok(Attr::Bool(v)),
                Some(Scalar::Int(v)) => match i64::try_from(v) {
                    Ok(v) => Ok(Attr::Int(v)),
                    Err(_) => Err(Diagnostic::new(span(other), "does not fit in 64 bits")),
                },
                Some(Scalar::Float(v)) => Ok(Attr::Float(v)),
                None => Err(not_an_attribute(other)),
            },
        }
    }

    /// Reads a constructed object such as `T.target({...})` or `I.vdevice(...)`, or a typed number such as
    /// `T.int64(1)`.
    fn object(&mut self, call: &'a ExprCall) -> Read<Attr> {
        let Some(name) = dotted(&call.func) else {
            return Err(Diagnostic::new(span(call), "expected an attribute, such as T.target({...})"));
        };
        if name == "T.index_map" {
            return self.index_map(call);
        }
        // TVM accepts both names, and prints `R.device_mesh`.
        let name = if name == "R.dist.device_mesh" { "R.device_mesh".to_string() } else { name };
        if let (Some(dtype), [value]) = (name.strip_prefix("T."), &*call.arguments.args)
            && let Some(dtype) = dtype_named(dtype)
        {
            let typed = match scalar(value) {
                Some(Scalar::Float(value)) if dtype.is_float() => Some(Dim::float(value, dtype)),
                Some(Scalar::Int(value)) if dtype.is_float() => Some(Dim::float(value as f64, dtype)),
                Some(Scalar::Int(value)) => i64::try_from(value).ok().map(|value| Dim::int(value, dtype)),
                // A bool is not stored as a `Dim`, which would be printed as `True`.
                _ => None,
            };
            if let Some(typed) = typed {
                return Ok(Attr::Dim(typed));
            }
        }
        if sym_declaration("", &call.func).is_some() {
            return Err(Diagnostic::new(span(call), "expected an attribute"));
        }
        let mut args = Vec::new();
        for argument in &call.arguments.args {
            args.push((None, self.attr(argument)?));
        }
        for keyword in &call.arguments.keywords {
            args.push((keyword.arg.as_ref().map(|arg| arg.to_string()), self.attr(&keyword.value)?));
        }
        if name == "T.target" {
            targets::check(call, &args)?;
        }
        Ok(Attr::Object(name, args.into()))
    }

    /// Reads `T.index_map(lambda i, j: (j, i // 4))`.
    fn index_map(&mut self, call: &'a ExprCall) -> Read<Attr> {
        accept(call, 1, &[], INDEX_MAP)?;
        match &*call.arguments.args {
            [Expr::Lambda(lambda)] => self.indices(lambda, span(call)),
            _ => Err(Diagnostic::new(span(call), "expected a function of indices").help(INDEX_MAP)),
        }
    }

    /// Reads an index map as a list of variables and a list of new indices.
    fn indices(&mut self, lambda: &'a ExprLambda, at: Range<usize>) -> Read<Attr> {
        let wrong = || Diagnostic::new(at.clone(), "expected a function of indices").help(INDEX_MAP);
        let parameters = lambda.parameters.as_deref();
        let args = parameters.map_or(&[][..], |parameters| &parameters.args);
        if parameters.is_some_and(|all| all.len() != args.len()) || args.iter().any(|arg| arg.default.is_some()) {
            return Err(wrong());
        }
        let outer = self.syms.clone();
        let mut variables = Vec::new();
        for arg in args {
            let name = arg.parameter.name.as_str();
            // All index maps share one symbol per name, so that equal source becomes equal attributes.
            let sym = match self.index_syms.get(name) {
                Some(sym) => *sym,
                None => self.new_sym(name, DType::I64),
            };
            self.index_syms.insert(name, sym);
            self.syms.insert(name.to_string(), sym);
            variables.push(Attr::Dim(Dim::Var(sym)));
        }
        let results = match &*lambda.body {
            Expr::Tuple(tuple) => tuple.elts.iter().map(|item| self.dim(item)).collect::<Read<Vec<Dim>>>(),
            Expr::List(list) => list.elts.iter().map(|item| self.dim(item)).collect(),
            single => self.dim(single).map(|dim| vec![dim]),
        };
        self.syms = outer;
        let results = Attr::List(results?.into_iter().map(Attr::Dim).collect());
        Ok(Attr::Object("T.index_map".to_string(), [(None, Attr::list(variables)), (None, results)].into()))
    }
}

fn not_an_attribute(expr: &Expr) -> Diagnostic {
    Diagnostic::new(span(expr), "expected an attribute: a number, string, list, dict or None")
}

fn dotted(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Name(name) => Some(name.id.to_string()),
        Expr::Attribute(attribute) => Some(format!("{}.{}", dotted(&attribute.value)?, attribute.attr)),
        _ => None,
    }
}
