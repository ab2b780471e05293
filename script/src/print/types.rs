//! Prints types, dimensions and scalar expressions.

use super::Printer;
use super::ops::{binary_name, folds, infix};
use super::text::{float_by_name, not_finite, python_float, python_string};
use crate::words::folding::Constant;
use passhost_lang::ir::{DTensorType, DType, Dim, DimExpr, Sym, TensorType, Type};
use passhost_lang::scalar::PrimOp;

impl Printer<'_> {
    pub(super) fn ty(&mut self, ty: &Type, sym: &dyn Fn(Sym) -> String) {
        match ty {
            Type::Object => self.out.push_str("R.Any"),
            Type::Buffer(_) | Type::Pointer { .. } => self.cannot("a TIR type in a Relax function"),
            Type::Prim { dtype, .. } => {
                self.uses_tir = true;
                self.out.push_str("T.");
                self.dtype(*dtype);
            }
            Type::Shape { dims: Some(dims), .. } => {
                self.out.push_str("R.Shape([");
                self.dims(dims, sym);
                self.out.push_str("])");
            }
            Type::Shape { ndim, .. } => self.out.push_str(&format!("R.Shape(ndim={ndim})")),
            Type::Tensor(t) => self.tensor(t, sym),
            Type::DTensor(t) => self.dtensor(t, sym),
            Type::Tuple(fields) if fields.is_empty() => self.out.push_str("R.Tuple"),
            Type::Tuple(fields) => {
                self.out.push_str("R.Tuple(");
                for (i, field) in fields.iter().enumerate() {
                    self.comma(i);
                    self.inner_ty(field, sym);
                }
                self.out.push(')');
            }
            Type::Callable { params: None, ret, pure } => self.opaque_callable(ret, *pure, sym),
            Type::Callable { params: Some(params), ret, pure } => {
                self.out.push_str("R.Callable((");
                for (i, param) in params.iter().enumerate() {
                    self.comma(i);
                    self.inner_ty(param, sym);
                }
                self.out.push_str(if params.len() == 1 { ",), " } else { "), " });
                self.inner_ty(ret, sym);
                self.out.push_str(if *pure { ", True)" } else { ", False)" });
            }
            _ => self.cannot("a type of an unknown kind"),
        }
    }

    /// Prints a type within another type. TVM also prints a scalar as `T.int64` there, but cannot read
    /// it.
    fn inner_ty(&mut self, ty: &Type, sym: &dyn Fn(Sym) -> String) {
        match ty {
            Type::Prim { dtype, .. } => {
                self.out.push_str("R.Prim(\"");
                self.dtype(*dtype);
                self.out.push_str("\")");
            }
            ty => self.ty(ty, sym),
        }
    }

    /// Prints a function type with unknown parameters, which is impure by default.
    fn opaque_callable(&mut self, ret: &Type, pure: bool, sym: &dyn Fn(Sym) -> String) {
        let known = *ret != Type::Object;
        self.out.push_str("R.Callable");
        if known || pure {
            self.out.push('(');
        }
        if known {
            self.out.push_str("ret=");
            self.inner_ty(ret, sym);
        }
        if pure {
            self.out.push_str(if known { ", purity=True" } else { "purity=True" });
        }
        if known || pure {
            self.out.push(')');
        }
    }

    fn tensor(&mut self, t: &TensorType, sym: &dyn Fn(Sym) -> String) {
        self.out.push_str("R.Tensor");
        let mut parts = 0;
        let mut open = |p: &mut Self| {
            p.out.push_str(if parts == 0 { "(" } else { ", " });
            parts += 1;
        };
        if let Some(dims) = &t.shape {
            open(self);
            self.out.push('(');
            self.dims(dims, sym);
            self.out.push_str(if dims.len() == 1 { ",)" } else { ")" });
        }
        if t.dtype.is_known() {
            open(self);
            self.out.push_str("dtype=\"");
            self.dtype(t.dtype);
            self.out.push('"');
        }
        if t.shape.is_none() && t.ndim >= 0 {
            open(self);
            self.out.push_str(&format!("ndim={}", t.ndim));
        }
        if let Some(device) = t.vdevice {
            open(self);
            self.out.push_str("vdevice=");
            match self.vdevices.name(device) {
                Some(name) => python_string(&mut self.out, name),
                None => self.cannot(format!("virtual device {device}, which the module does not have,")),
            }
        }
        if parts > 0 {
            self.out.push(')');
        }
    }

    /// Prints a DTensor; arguments are positional up to the first unknown argument, then by name.
    fn dtensor(&mut self, t: &DTensorType, sym: &dyn Fn(Sym) -> String) {
        self.out.push_str("R.DTensor(");
        let mut named = t.tensor.shape.is_none();
        let mut first = named;
        if let Some(dims) = &t.tensor.shape {
            self.out.push('(');
            self.dims(dims, sym);
            self.out.push_str(if dims.len() == 1 { ",)" } else { ")" });
        }
        let mut next = |p: &mut Self, named: bool, name: &str, value: String| {
            p.out.push_str(if std::mem::take(&mut first) { "" } else { ", " });
            if named {
                p.out.push_str(name);
            }
            p.out.push_str(&value);
        };
        if t.tensor.dtype.is_known() {
            next(self, named, "dtype=", format!("\"{}\"", t.tensor.dtype));
        } else {
            named = true;
        }
        let axis = |axis: &Option<u32>| axis.map_or("R".to_string(), |axis| format!("S[{axis}]"));
        let placement: Vec<String> = t.placement.iter().map(axis).collect();
        next(self, named, "device_mesh=", format!("\"mesh[{}]\"", t.mesh));
        next(self, named, "placement=", format!("\"{}\"", placement.join(", ")));
        if t.tensor.shape.is_none() && t.tensor.ndim >= 0 {
            next(self, true, "ndim=", t.tensor.ndim.to_string());
        }
        self.out.push(')');
    }

    pub(super) fn dims(&mut self, dims: &[Dim], sym: &dyn Fn(Sym) -> String) {
        for (i, dim) in dims.iter().enumerate() {
            self.comma(i);
            let quoted = self.in_signature && !matches!(dim, Dim::Int(_) | Dim::Var(_)) && {
                // An unquoted expression can use only scalar parameters.
                let mut quoted = false;
                dim.vars(&mut |var| quoted |= !self.scalars.contains(&var.id));
                quoted
            };
            let quote = if quoted { "\"" } else { "" };
            self.out.push_str(quote);
            let from = self.out.len();
            self.dim(dim, sym, 0);
            if quoted && self.out[from..].contains(['"', '\\']) {
                let inner = self.out.split_off(from);
                self.out.push_str(&inner.replace('\\', "\\\\").replace('"', "\\\""));
            }
            self.out.push_str(quote);
        }
    }

    /// Prints a dimension; `above` is the precedence of its context.
    fn dim(&mut self, dim: &Dim, sym: &dyn Fn(Sym) -> String, above: u8) {
        match dim {
            Dim::Int(v) if self.typed_ints => self.out.push_str(&format!("T.int64({v})")),
            Dim::Int(v) => self.int(*v),
            Dim::Var(v) => self.out.push_str(&sym(*v)),
            Dim::Expr(e) => match &**e {
                DimExpr::Int(..) | DimExpr::Float(..) => self.prim_value(dim, sym),
                DimExpr::Unary(PrimOp::Cast, dtype, a) => {
                    self.uses_tir = true;
                    self.out.push_str("T.Cast(\"");
                    self.dtype(*dtype);
                    self.out.push_str("\", ");
                    self.dim(a, sym, 0);
                    self.out.push(')');
                }
                DimExpr::Unary(_, _, a) => {
                    self.out.push_str("not (");
                    self.dim(a, sym, 0);
                    self.out.push(')');
                }
                DimExpr::Binary(op, _, a, b) => self.binary(*op, a, b, sym, above),
            },
        }
    }

    fn binary(&mut self, op: PrimOp, a: &Dim, b: &Dim, sym: &dyn Fn(Sym) -> String, above: u8) {
        if op == PrimOp::Else {
            // The second half of `T.if_then_else(`.
            self.dim(a, sym, 0);
            self.out.push_str(", ");
            return self.dim(b, sym, 0);
        }
        let same = matches!(op, PrimOp::Min | PrimOp::Max) && matches!((a, b), (Dim::Var(a), Dim::Var(b)) if a == b);
        let dtype = if matches!(a, Dim::Int(_)) { b.dtype() } else { a.dtype() };
        let folds = same || folds(op, dtype, constant(a), constant(b));
        let Some(infix) = infix(op).filter(|_| !folds) else {
            self.uses_tir = true;
            let name = binary_name(op, folds);
            self.out.push_str(&format!("T.{name}("));
            // TVM's constructors require two operands of the same type.
            let typed = self.typed_ints;
            self.typed_ints |= name.starts_with(char::is_uppercase);
            self.dim(a, sym, 0);
            self.out.push_str(", ");
            self.dim(b, sym, 0);
            self.typed_ints = typed;
            return self.out.push(')');
        };
        self.out.push_str(if infix.level < above { "(" } else { "" });
        self.dim(a, sym, infix.left());
        self.out.push_str(infix.text);
        self.dim(b, sym, infix.level + 1);
        self.out.push_str(if infix.level < above { ")" } else { "" });
    }

    /// Prints a scalar as an attribute, where integers are typed.
    pub(super) fn typed_value(&mut self, dim: &Dim, sym: &dyn Fn(Sym) -> String) {
        match dim {
            _ if self.in_indices => self.dim(dim, sym, 0),
            Dim::Int(v) => {
                self.uses_tir = true;
                self.out.push_str(&format!("T.int64({v})"));
            }
            _ => self.prim_value(dim, sym),
        }
    }

    /// Prints a scalar as a value.
    pub(super) fn prim_value(&mut self, dim: &Dim, sym: &dyn Fn(Sym) -> String) {
        if let Dim::Expr(e) = dim {
            match &**e {
                DimExpr::Int(v, dtype) if dtype.code() == 6 => {
                    return self.out.push_str(if *v != 0 { "True" } else { "False" });
                }
                DimExpr::Int(-1, DType::U64) => {
                    self.uses_tir = true;
                    return self.out.push_str("T.max_value(\"uint64\")");
                }
                DimExpr::Int(v, dtype) => {
                    self.uses_tir = true;
                    self.out.push_str("T.");
                    self.dtype(*dtype);
                    let text = if *dtype == DType::U64 { (*v as u64).to_string() } else { v.to_string() };
                    return self.out.push_str(&format!("({text})"));
                }
                DimExpr::Float(bits, dtype) => {
                    self.uses_tir = true;
                    let value = f64::from_bits(*bits);
                    if let Some(name) = float_by_name(value, *dtype) {
                        return self.out.push_str(name);
                    }
                    self.out.push_str("T.");
                    self.dtype(*dtype);
                    self.out.push('(');
                    match value.is_finite() {
                        true => python_float(&mut self.out, value),
                        false => self.out.push_str(&format!("\"{}\"", not_finite(value))),
                    }
                    return self.out.push(')');
                }
                _ => {}
            }
        }
        self.dim(dim, sym, 0);
    }
}

fn constant(dim: &Dim) -> Constant {
    match dim {
        Dim::Int(v) => Constant::Int(*v),
        Dim::Expr(e) => match **e {
            DimExpr::Int(v, _) => Constant::Int(v),
            DimExpr::Float(bits, _) => Constant::Float(f64::from_bits(bits)),
            _ => Constant::No,
        },
        Dim::Var(_) => Constant::No,
    }
}
