//! Prints Relax functions.

use super::names::{Names, can_be_statement};
use super::text::python_string;
use super::{Printer, deeper, type_var};
use crate::words::literals::Literal;
use passhost_lang::ir::records::{flag, kind, tykind};
use passhost_lang::ir::{Body, Call, DType, Dim, DimExpr, Expr, Function, Sym, Ty, Type, Value};
use std::ops::Range;

impl Printer<'_> {
    /// Prints a function of a module. Returns the ranges of its values, if spans are requested.
    pub(super) fn function_of_module(&mut self, name: &str, body: &Body) -> Vec<Range<usize>> {
        let Some(function) = body.function() else { return Vec::new() };
        let names = Names::new(body, self);
        let places = if self.with_spans { vec![0..0; body.len()] } else { Vec::new() };
        let types = vec![None; body.raw().types().len()];
        let mut writer = Writer { types, p: self, body, names, places };
        writer.function(name, function, 1);
        writer.places
    }
}

/// Prints one function.
pub(super) struct Writer<'p, 'a, 'b> {
    /// Printed types of this body, by id.
    types: Vec<Option<Box<str>>>,
    pub(super) p: &'p mut Printer<'a>,
    body: &'b Body,
    names: Names,
    places: Vec<Range<usize>>,
}

impl<'b> Writer<'_, '_, 'b> {
    fn indent(&mut self, depth: usize) {
        for _ in 0..depth {
            self.p.out.push_str("    ");
        }
    }

    fn place(&mut self, value: Value<'_>, from: usize) {
        if let Some(place) = value.index().and_then(|i| self.places.get_mut(i)) {
            *place = from..self.p.out.len();
        }
    }

    /// Prints a type; each type is formatted once.
    pub(super) fn ty(&mut self, ty: Ty<'_>) {
        let Writer { p, names, types, .. } = self;
        let cached = types.get(ty.id() as usize).and_then(Option::as_deref).filter(|_| !p.in_signature);
        if let Some(text) = cached {
            return p.out.push_str(text);
        }
        let from = p.out.len();
        p.ty(&ty.to_owned(), &|sym| names.syms.get(sym.id as usize).cloned().unwrap_or_default());
        if let Some(slot) = types.get_mut(ty.id() as usize).filter(|_| !p.in_signature) {
            *slot = Some(p.out[from..].into());
        }
    }

    /// Prints the name of a node.
    fn name(&mut self, index: usize) {
        self.p.out.push_str(self.names.node(index));
    }

    fn function(&mut self, name: &str, function: Function<'b>, depth: usize) {
        self.indent(depth);
        let from = self.p.out.len();
        self.p.out.push_str(match (function.is_pure(), function.is_private()) {
            (true, false) => "@R.function\n",
            (true, true) => "@R.function(private=True)\n",
            (false, false) => "@R.function(pure=False)\n",
            (false, true) => "@R.function(pure=False, private=True)\n",
        });
        self.indent(depth);
        self.p.out.push_str("def ");
        self.p.out.push_str(name);
        self.p.out.push('(');
        self.p.in_signature = true;
        for (i, param) in function.params().enumerate() {
            self.p.comma(i);
            let start = self.p.out.len();
            self.name(param.index().unwrap_or(0));
            self.p.out.push_str(": ");
            self.ty(param.ty());
            self.place(param, start);
        }
        self.p.out.push_str(") -> ");
        self.ty(function.ret_ty());
        self.p.in_signature = false;
        self.place(function.value(), from);
        self.p.out.push_str(":\n");
        self.preamble(function, depth + 1);
        for child in function.value().region().children() {
            self.child(child, depth + 1);
        }
    }

    /// Prints attributes, symbolic variables, and `cls` if functions of the module are used.
    fn preamble(&mut self, function: Function<'b>, depth: usize) {
        if !function.attrs().is_empty() {
            self.indent(depth);
            self.p.out.push_str("R.func_attr(");
            let syms = &self.names.syms;
            self.p.dict(function.attrs(), &|sym| syms.get(sym.id as usize).cloned().unwrap_or_default());
            self.p.out.push_str(")\n");
        }
        let at = function.value().index().unwrap_or(0);
        for (id, dtype) in self.names.syms_of.remove(&at).unwrap_or_default().local {
            self.indent(depth);
            let line = format!("{} = T.{dtype}()\n", self.names.syms[id]);
            self.p.out.push_str(&line);
        }
        if at != 0 {
            return;
        }
        let is_global = |op: &u32| {
            let leaf = self.body.raw().leaves().get((op & !(1 << 31)) as usize);
            op & (1 << 31) != 0 && leaf.is_some_and(|leaf| leaf.kind == passhost_lang::ir::records::leaf::GLOBAL_VAR)
        };
        if self.body.raw().operands().iter().any(is_global) {
            self.indent(depth);
            self.p.out.push_str("cls = Module\n");
        }
    }

    /// Prints a block, a binding, or the result of the function.
    fn child(&mut self, value: Value<'b>, depth: usize) {
        match value.kind() {
            kind::PARAM => {}
            kind::BLOCK => value.region().children().for_each(|child| self.child(child, depth)),
            kind::DATAFLOW => self.dataflow(value, depth),
            kind::YIELD => {
                self.indent(depth);
                let from = self.p.out.len();
                self.p.out.push_str("return ");
                if let Some(result) = value.operand(0) {
                    self.value(result);
                }
                self.place(value, from);
                self.p.out.push('\n');
            }
            _ if value.is_bound() => self.binding(value, depth),
            // Nested values are printed where they are used.
            _ if value.is_nested() => {}
            other => self.p.cannot(format!("a node of kind {other:#x} among the bindings")),
        }
    }

    fn dataflow(&mut self, header: Value<'b>, depth: usize) {
        self.indent(depth);
        self.p.out.push_str("with R.dataflow():\n");
        let mut outputs = Vec::new();
        for child in header.region().children() {
            self.child(child, depth + 1);
            if child.is_bound() && !child.has(flag::INNER) {
                outputs.push(child.index().unwrap_or(0));
            }
        }
        self.indent(depth + 1);
        let from = self.p.out.len();
        self.p.out.push_str("R.output(");
        for (i, output) in outputs.into_iter().enumerate() {
            self.p.comma(i);
            self.name(output);
        }
        self.p.out.push(')');
        self.place(header, from);
        self.p.out.push('\n');
    }

    fn binding(&mut self, value: Value<'b>, depth: usize) {
        let at = value.index().unwrap_or(0);
        match value.view() {
            Expr::Function(function) => {
                let own =
                    self.names.syms_of.get_mut(&at).map(|own| std::mem::take(&mut own.signature)).unwrap_or_default();
                for line in self.p.imports(!own.is_empty()).lines() {
                    self.indent(depth);
                    self.p.out.push_str(line);
                    self.p.out.push('\n');
                }
                self.indent(depth);
                self.p.out.push('\n');
                for name in own {
                    self.indent(depth);
                    self.p.out.push_str(&type_var(&name));
                }
                let name = self.names.node(at).to_string();
                self.function(&name, function, depth);
                self.p.out.push('\n');
            }
            Expr::If { cond } => self.if_(value, cond, depth),
            _ => {
                self.indent(depth);
                let from = self.p.out.len();
                self.target(value);
                match value.view() {
                    Expr::Alias(source) => self.bound(source, value.ty()),
                    Expr::Tuple(tuple) if tuple.n_operands() == 1 => {
                        self.p.out.push('(');
                        self.bare_node(value);
                        self.p.out.push(')');
                    }
                    _ => self.bare_node(value),
                }
                self.place(value, from);
                self.p.out.push('\n');
            }
        }
    }

    /// Prints `name: type = `, or a part of it.
    fn target(&mut self, value: Value<'b>) {
        let index = value.index().unwrap_or(0);
        if self.names.node(index) == "_" && can_be_statement(value) {
            return;
        }
        self.name(index);
        if !typed_by_value(value) && value.ty().is_known() {
            self.p.out.push_str(": ");
            match is_name_of_string(value) {
                true => self.p.out.push_str("I.StringType()"),
                false => self.ty(value.ty()),
            }
        }
        self.p.out.push_str(" = ");
    }

    fn if_(&mut self, value: Value<'b>, cond: Value<'b>, depth: usize) {
        let Some((then, other)) = value.branches() else { return };
        self.indent(depth);
        let from = self.p.out.len();
        self.p.out.push_str("if ");
        self.bare(cond);
        self.place(value, from);
        for (branch, opening) in [(then, ":\n"), (other, "else:\n")] {
            if opening.starts_with('e') {
                self.indent(depth);
            }
            self.p.out.push_str(opening);
            for child in branch.children() {
                if child.kind() != kind::YIELD {
                    self.child(child, depth + 1);
                } else if let Some(result) = child.operand(0) {
                    self.indent(depth + 1);
                    let from = self.p.out.len();
                    self.target(value);
                    self.bound(result, value.ty());
                    self.place(child, from);
                    self.p.out.push('\n');
                }
            }
        }
    }

    /// Prints a value to the right of `=`; for an integer, the annotation `ty` determines the data type.
    fn bound(&mut self, value: Value<'b>, ty: Ty<'_>) {
        match value.dim() {
            Some(Dim::Expr(e))
                if let DimExpr::Int(v, dtype) = *e
                    && dtype != DType::BOOL
                    && ty.kind() == tykind::PRIM
                    && (v >= 0 || dtype != DType::U64) =>
            {
                self.p.int(v);
            }
            Some(Dim::Int(v)) if ty.kind() != tykind::PRIM => {
                self.p.uses_tir = true;
                self.p.out.push_str(&format!("T.int64({v})"));
            }
            // A plain `True` would be read as a tensor.
            Some(Dim::Expr(e))
                if let DimExpr::Int(v, DType::BOOL) = *e
                    && ty.kind() != tykind::PRIM =>
            {
                self.p.uses_tir = true;
                self.p.out.push_str(if v != 0 { "T.bool(True)" } else { "T.bool(False)" });
            }
            _ => self.bare(value),
        }
    }

    /// Prints a value in a place where tuples need no parentheses.
    fn bare(&mut self, value: Value<'b>) {
        if value.kind() == kind::TUPLE && !value.is_bound() && value.n_operands() != 1 {
            return self.bare_node(value);
        }
        self.value(value);
    }

    fn value(&mut self, value: Value<'b>) {
        let Some(at) = value.index() else { return self.leaf(value) };
        if value.is_bound() {
            return self.name(at);
        }
        let from = self.p.out.len();
        deeper(|| {
            if value.kind() == kind::TUPLE && value.n_operands() > 0 {
                self.p.out.push('(');
                self.bare_node(value);
                self.p.out.push(')');
            } else {
                self.bare_node(value);
            }
        });
        self.place(value, from);
    }

    /// Prints a value as an operand. The data type of a number is printed if TVM would not infer it from the context.
    fn operand(&mut self, value: Value<'b>, place: Literal) {
        match value.dim() {
            Some(Dim::Int(v)) if place == Literal::Narrow => {
                self.p.uses_tir = true;
                self.p.out.push_str(&format!("T.int64({v})"));
            }
            Some(Dim::Expr(e))
                if place == Literal::Narrow
                    && let DimExpr::Int(v, DType::I32) = *e =>
            {
                self.p.int(v);
            }
            Some(Dim::Expr(e))
                if place == Literal::Wide
                    && let DimExpr::Int(v, DType::BOOL) = *e =>
            {
                self.p.uses_tir = true;
                self.p.out.push_str(if v != 0 { "T.bool(True)" } else { "T.bool(False)" });
            }
            _ => self.value(value),
        }
    }

    fn bare_node(&mut self, value: Value<'b>) {
        match value.view() {
            Expr::Call(call) => self.call(call),
            Expr::Tuple(tuple) => {
                let n = tuple.n_operands();
                if n == 0 {
                    return self.p.out.push_str("R.tuple()");
                }
                for (i, item) in tuple.operands().enumerate() {
                    self.p.comma(i);
                    self.operand(item, Literal::Wide);
                }
                if n == 1 {
                    self.p.out.push(',');
                }
            }
            Expr::TupleGet { tuple, index } => {
                self.value(tuple);
                self.p.out.push_str(&format!("[{index}]"));
            }
            Expr::MatchCast(source) => {
                self.p.out.push_str("R.match_cast(");
                self.value(source);
                self.p.out.push_str(", ");
                self.ty(value.ty());
                self.p.out.push(')');
            }
            Expr::Alias(source) => self.value(source),
            Expr::Unknown(kind) => self.p.cannot(format!("a node of the unknown kind {kind:#x}")),
            _ => self.p.cannot(format!("a node of kind {:#x} as a value", value.kind())),
        }
    }

    fn leaf(&mut self, value: Value<'b>) {
        match value.view() {
            Expr::Op(name) => match name.strip_prefix("relax.") {
                Some(rest) => {
                    self.p.out.push_str("R.");
                    self.p.dotted(rest, "operator");
                }
                None => {
                    // A plugin's operator is also written with `R.`, unless Relax has an operator with the same name.
                    let ops = self.p.ops;
                    let declared = ops.op_info(name).is_some() && ops.op_info(&format!("relax.{name}")).is_none();
                    self.p.uses_tir |= !declared;
                    self.p.out.push_str(if declared { "R." } else { "T." });
                    self.p.dotted(name, "operator");
                }
            },
            Expr::GlobalVar(name) => {
                self.p.out.push_str("cls.");
                self.p.dotted(name, "function");
            }
            // Without a type, the packed function is the callee of an operator, which takes a string.
            Expr::ExternFunc(name) if !value.ty().is_known() => python_string(&mut self.p.out, name),
            Expr::ExternFunc(name) => {
                self.p.out.push_str("R.ExternFunc(");
                python_string(&mut self.p.out, name);
                if value.ty().to_owned() != Type::opaque_callable() {
                    self.p.out.push_str(", ");
                    self.ty(value.ty());
                }
                self.p.out.push(')');
            }
            Expr::Const(_) => self.constant(value),
            Expr::Shape => {
                let dims = value.dims().unwrap_or_default();
                let syms = &self.names.syms;
                self.p.out.push_str("R.shape([");
                self.p.dims(&dims, &|sym| syms.get(sym.id as usize).cloned().unwrap_or_default());
                self.p.out.push_str("])");
            }
            Expr::Prim => {
                let dim = value.dim().unwrap_or(Dim::Int(0));
                let syms = &self.names.syms;
                self.p.prim_value(&dim, &|sym| syms.get(sym.id as usize).cloned().unwrap_or_default());
            }
            Expr::Str(text) => {
                self.p.out.push_str("R.str(");
                python_string(&mut self.p.out, text);
                self.p.out.push(')');
            }
            Expr::DType(dtype) => {
                self.p.out.push_str("R.dtype(\"");
                self.p.dtype(dtype);
                self.p.out.push_str("\")");
            }
            Expr::TypeArg(ty) => self.ty(ty),
            Expr::Attr(attr) => {
                let syms = &self.names.syms;
                self.p.attr(attr, &|sym| syms.get(sym.id as usize).cloned().unwrap_or_default());
            }
            _ => self.p.cannot(format!("a leaf of the unknown kind {:#x}", value.leaf().map_or(0, |leaf| leaf.kind))),
        }
    }

    fn call(&mut self, call: Call<'b>) {
        let op = call.op();
        let types: Vec<Ty<'_>> = call.type_args().collect();
        match op == Some("relax.call_tir") && types.iter().any(|ty| is_distributed(*ty)) {
            true => self.p.out.push_str("R.dist.call_tir"),
            false => self.value(call.callee()),
        }
        self.p.out.push('(');
        let mut n = 0;
        let info = op.and_then(|op| self.p.ops.op_info(op));
        for arg in call.args() {
            self.p.comma(n);
            n += 1;
            self.operand(arg, info.map_or(Literal::Scalar, |info| Literal::of(info, n - 1)));
        }
        let types_first = op.is_some_and(gives_result);
        if types_first && !types.is_empty() {
            self.p.comma(n);
            n += 1;
            self.type_args(true, &types);
        }
        let attrs = call.attrs();
        let by_place = op == Some("relax.hint_on_device");
        let syms = &self.names.syms;
        let sym = |sym: Sym| syms.get(sym.id as usize).cloned().unwrap_or_default();
        let known: Vec<&str> = info.iter().flat_map(|info| &info.attrs).map(|attr| attr.name.as_str()).collect();
        let declared = known.iter().filter_map(|key| attrs.get(key).map(|value| (*key, value)));
        let mut others: Vec<_> = attrs.iter().filter(|(key, _)| !known.contains(key)).collect();
        // For an undeclared operator, the source determines the order.
        if info.is_some() {
            others.sort_by_key(|(key, _)| *key);
        }
        // `attrs_type_key`, the type of the attributes of a packed function, comes first.
        others.sort_by_key(|(key, _)| *key != "attrs_type_key");
        for (key, value) in declared.chain(others) {
            if key == "te_grad_kwargs" && value.is_none() {
                continue;
            }
            self.p.comma(n);
            n += 1;
            if !by_place {
                self.p.keyword(key);
            }
            self.p.attr(value, &sym);
        }
        if !types_first && !types.is_empty() {
            self.p.comma(n);
            self.type_args(false, &types);
        }
        self.p.out.push(')');
    }

    /// Prints the type arguments of a call: `out_ty=` for its result, a list for several results, or `ty_args=`. A list
    /// of one type means that type, so a tuple with one result is printed as a tuple.
    fn type_args(&mut self, out_ty: bool, types: &[Ty<'_>]) {
        let fields: Vec<Ty<'_>>;
        let (types, list) = match (out_ty, types) {
            (true, [one]) if one.is_tuple() => {
                fields = one.children().collect();
                (&fields[..], true)
            }
            (_, types) => (types, types.len() != 1),
        };
        let (open, close) = match (out_ty, list) {
            (true, false) => ("out_ty=", ""),
            (true, true) if types.len() == 1 => ("out_ty=(", ",)"),
            (true, true) => ("out_ty=[", "]"),
            (false, false) => ("ty_args=(", ",)"),
            (false, true) => ("ty_args=(", ")"),
        };
        self.p.out.push_str(open);
        for (i, ty) in types.iter().enumerate() {
            self.p.comma(i);
            match (*ty).to_owned() {
                // `T.int64` is a function in TVM, which cannot be an element of a tuple of types.
                Type::Prim { dtype, value: None } if !out_ty => {
                    self.p.out.push_str(&format!("R.Prim(\"{dtype}\")"));
                }
                _ => self.ty(*ty),
            }
        }
        self.p.out.push_str(close);
    }
}

/// Returns true if the type arguments of the operator are the result type, `out_ty`.
fn gives_result(op: &str) -> bool {
    let op = op.strip_prefix("relax.").unwrap_or(op);
    matches!(
        op,
        "call_tir" | "call_dps_packed" | "call_tir_inplace" | "call_tir_with_grad" | "dist.call_tir_local_view"
    )
}

/// Returns true if a value determines its type; a binding with the same type then omits the annotation.
fn typed_by_value(value: Value<'_>) -> bool {
    let Some(call) = value.as_call() else { return false };
    if !matches!(call.op(), Some("relax.call_tir" | "relax.call_dps_packed")) {
        return false;
    }
    let mut types = call.type_args();
    match (types.next(), types.next()) {
        (Some(ty), None) => ty.same(value.ty()),
        _ => true,
    }
}

/// Returns true if a binding names a string; TVM has a separate type for these.
fn is_name_of_string(value: Value<'_>) -> bool {
    let string = |value: Value<'_>| matches!(value.view(), Expr::Str(_));
    value.kind() == kind::ALIAS && value.ty().kind() == tykind::OBJECT && value.operand(0).is_some_and(string)
}

fn is_distributed(ty: Ty<'_>) -> bool {
    ty.kind() == tykind::DTENSOR || ty.is_tuple() && ty.children().any(|field| field.kind() == tykind::DTENSOR)
}
