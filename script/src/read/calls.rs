//! Reads calls of operators, of functions of the module, and of local functions.

use super::arguments::{accept, keyword};
use super::constants::number_operand;
use super::defaults::positions;
use super::dims::unknown_rank;
use super::reader::FnReader;
use crate::words::diagnostic::Diagnostic;
use crate::words::literals::Literal;
use crate::words::syntax::{Read, path_after, span};
use passhost_lang::ir::records::{LEAF_BIT, flag, kind, tykind};
use passhost_lang::ir::{Attr, AttrsId, DType, Dim, NodeSpec, TensorType, Type, TypeId, V, Value};
use passhost_lang::metadata::{ArgInfo, ArgKind, AttrInfo, AttrType, OpInfo};
use passhost_lang::typing::operator_checks::{
    add_defaults, canonical_attr, n_positional, signature, takes_any_attributes, type_name,
};
use passhost_lang::typing::operators::InferError;
use passhost_lang::typing::relations::{call_result, calls_are_pure};
use ruff_python_ast::visitor::{Visitor, walk_expr};
use ruff_python_ast::{Expr, ExprCall, ExprName, Keyword};
use std::ops::Range;

/// Keywords whose values are types of results rather than attributes.
const TYPE_KEYWORDS: &[&str] = &["out_ty", "ty_args", "out_sinfo", "sinfo_args"];

impl<'a> FnReader<'a> {
    /// Reads any call.
    pub(crate) fn call(&mut self, call: &'a ExprCall) -> Read<V> {
        let text = self.scope.text;
        if let Some(name) = path_after(text, &call.func, "R") {
            if name == "match_cast" {
                let message = "R.match_cast is a binding, not a part of an expression";
                return Err(Diagnostic::new(span(call), message).help("y = R.match_cast(value, type)"));
            }
            return match self.leaf_call(name, call)? {
                Some(leaf) => Ok(leaf),
                None => self.operator(name, call),
            };
        }
        if let Some(name) = path_after(text, &call.func, "T") {
            if name.contains('.') {
                return match self.is_operator(name) {
                    true => self.operator(name, call),
                    false => self.opaque_call(name, call),
                };
            }
            let dim = self.dim_call(call)?;
            return Ok(self.b.prim_value(&dim));
        }
        if let Expr::Attribute(method) = &*call.func
            && method.attr.as_str() == "astype"
            && !self.is_module(&method.value)
        {
            return self.astype(&method.value, call);
        }
        if let Some(name) = path(&call.func).filter(|name| self.is_operator(name)) {
            let message = format!("the operator `{name}` needs the prefix `R.`");
            return Err(Diagnostic::new(span(&*call.func), message).help(format!("write `R.{name}(...)`")));
        }
        let callee = self.expr(&call.func)?;
        if let Some(keyword) = call.arguments.keywords.first() {
            return Err(Diagnostic::new(span(keyword), "a call of a function cannot have keyword arguments"));
        }
        let args = self.values(&call.arguments.args)?;
        let ty = self.b.type_of(callee);
        let callee_ty = if ty == TypeId::NONE { Type::opaque_callable() } else { self.b.type_owned(ty) };
        if !matches!(callee_ty, Type::Callable { .. }) {
            let message = format!("a value of type {} cannot be called", crate::print::type_text(&callee_ty));
            return Err(Diagnostic::new(span(&*call.func), message).help("declare it as R.Callable"));
        }
        let types: Vec<_> = args.iter().map(|v| self.b.type_owned(self.b.type_of(*v))).collect();
        let ty = match call_result(&callee_ty, &types) {
            Ok(result) => self.b.ty(&result),
            Err(_) if self.scope.options.unchecked => TypeId::NONE,
            Err(error) => return Err(Diagnostic::new(span(call), error.to_string())),
        };
        Ok(self.b.call(callee, &args, AttrsId::NONE, ty, !calls_are_pure(&callee_ty), None))
    }

    /// Reads a tuple; inner lists also become tuples.
    pub(super) fn tuple_of(&mut self, items: &'a [Expr]) -> Read<V> {
        let item = |item| match number_operand(item, Literal::Wide) {
            Some(number) => Ok(self.b.prim_value(&number)),
            None => self.operand(item, None),
        };
        let items = items.iter().map(item).collect::<Read<Vec<V>>>()?;
        Ok(self.b.tuple(&items, None))
    }

    fn values(&mut self, items: &'a [Expr]) -> Read<Vec<V>> {
        items.iter().map(|item| self.expr(item)).collect()
    }

    /// Reads the value of a binding.
    pub(super) fn bound(&mut self, value: &'a Expr) -> Read<V> {
        match value {
            Expr::Call(call) if path_after(self.scope.text, &call.func, "R") == Some("match_cast") => {
                self.match_cast(call)
            }
            value => self.expr(value),
        }
    }

    fn match_cast(&mut self, call: &'a ExprCall) -> Read<V> {
        accept(call, 2, &[], "R.match_cast(value, type)")?;
        let [value, ty] = &*call.arguments.args else {
            return Err(Diagnostic::new(span(call), "expected R.match_cast(value, type)"));
        };
        self.name_dims(ty)?;
        let value = self.expr(value)?;
        let ty = self.type_id(ty)?;
        Ok(self.b.node(NodeSpec::new(kind::MATCH_CAST).ty(ty), &[value], None))
    }

    /// Names the dimensions of a shape variable in a checked type, such as `R.Tensor(lv, "float32")`. If the dimensions
    /// of `lv` are unknown, they get names: `R.match_cast(lv, R.Shape([lv_0, lv_1]))`.
    fn name_dims(&mut self, ty: &'a Expr) -> Read<()> {
        let mut shapes = ShapeNames { text: self.scope.text, names: Vec::new() };
        shapes.visit_expr(ty);
        for variable in shapes.names {
            let (name, at) = (variable.id.as_str(), span(variable));
            let shape = self.lookup(name, at.clone())?;
            let Type::Shape { ndim, dims: None } = self.b.type_owned(self.b.type_of(shape)) else { continue };
            if self.named_dims.contains_key(&shape) {
                continue;
            }
            let Ok(ndim) = usize::try_from(ndim) else { return Err(unknown_rank(name, at)) };
            let dims: Vec<Dim> = (0..ndim).map(|i| Dim::Var(self.b.sym(&format!("{name}_{i}"), DType::I64))).collect();
            let known = self.b.ty(&Type::shape(dims.clone()));
            self.open_block();
            let cast = self.b.node(NodeSpec::new(kind::MATCH_CAST).ty(known), &[shape], None);
            self.bind_here(name, &at, cast, None)?;
            self.named_dims.insert(shape, dims);
            self.types.clear();
        }
        Ok(())
    }

    /// Reads a call of an undeclared operator, and keeps it as written. Its type is the annotation of its binding. It
    /// is considered effectful wherever effects are allowed.
    fn opaque_call(&mut self, name: &str, call: &'a ExprCall) -> Read<V> {
        let mut values = Vec::with_capacity(call.arguments.args.len());
        for arg in &call.arguments.args {
            values.push(self.operand(arg, None)?);
        }
        let mut attrs: Vec<(&str, Attr)> = Vec::new();
        for keyword in &call.arguments.keywords {
            match &keyword.arg {
                Some(key) if is_type_keyword(keyword) => self.type_args(key.as_str(), &keyword.value, &mut values)?,
                Some(key) if attrs.iter().any(|(known, _)| *known == key.as_str()) => {
                    return Err(Diagnostic::new(span(keyword), format!("attribute `{key}` is given twice")));
                }
                Some(key) => attrs.push((key.as_str(), self.attr(&keyword.value)?)),
                None => return Err(starred(keyword)),
            }
        }
        Ok(self.kept(name, span(&*call.func), &values, attrs))
    }

    /// Builds a call that is kept as written. Records an undeclared operator for a warning; a declared operator can
    /// also be written with `T.`.
    pub(super) fn kept(&mut self, name: &str, at: Range<usize>, values: &[V], attrs: Vec<(&str, Attr)>) -> V {
        if self.scope.ops.op_info(name).is_none() {
            self.scope.opaque.borrow_mut().entry(name.to_string()).or_insert((at, 0)).1 += 1;
        }
        let attrs = self.b.attrs_as_given(attrs);
        let (callee, ty) = (self.b.op(name), self.b.ty(&Type::Object));
        let v = self.b.call(callee, values, attrs, ty, self.may_have_effects(), None);
        self.opaque.insert(v);
        v
    }

    fn operator(&mut self, name: &'a str, call: &'a ExprCall) -> Read<V> {
        // In TVM, the fourth parameter of `R.nn.attention` is `bias`. If it is given, the operator is
        // `nn.attention_bias`.
        let biased = name == "nn.attention"
            && (operand_named(call, "bias").or(call.arguments.args.get(3)))
                .is_some_and(|bias| !bias.is_none_literal_expr());
        let Some((info, callee)) = self.operator_info(if biased { "nn.attention_bias" } else { name }) else {
            return match self.shorthand(name, call)? {
                Some(made) => Ok(made),
                None => self.opaque_call(&format!("relax.{name}"), call),
            };
        };
        let (args, rest) = operands(info, call);
        let rest = rest.get(usize::from(info.name == "relax.nn.attention")..).unwrap_or_default();
        let (types, rest) = positional_types(info, call, rest)?;
        let mut values = Vec::with_capacity(args.len() + 1);
        for arg in args {
            values.push(self.operand_at(info, values.len(), arg)?);
        }
        if args.len() == 1 && is_spread(info, call) {
            let tuple = self.tuple_of(&call.arguments.args[1..])?;
            values.push(self.sized(tuple, span(call))?);
        }
        // Operands given by name, in declaration order.
        while let Some(arg) = info.args.get(values.len()) {
            match operand_named(call, &arg.name) {
                Some(value) => values.push(self.operand_at(info, values.len(), value)?),
                None if self.add_default(&info.name, &mut values) => {}
                None => break,
            }
        }
        self.no_gap(info, call, values.len())?;
        let least = info.args.iter().filter(|arg| !arg.optional && !arg.name.starts_with('*')).count();
        if values.len() < least {
            return Err(self.wrong_number(info, call, values.len()));
        }
        self.add_operands(&info.name, &mut values);
        let attrs = self.op_attrs(info, call, &rest, &values)?;
        for (name, types) in types {
            let before = values.len();
            self.type_args(name, types, &mut values)?;
            // The arguments determine the type of the result, except for its device.
            if info.name == "relax.builtin.alloc_tensor"
                && !self.scope.as_written
                && !values[before..].iter().any(|ty| self.b.with(*ty, names_a_device))
            {
                values.truncate(before);
            }
        }
        let v = self.b.call(callee, &values, attrs, TypeId::NONE, false, None);
        let what = self.scope.text.get(span(&*call.func)).unwrap_or("the call");
        let v = self.infer(v, span(call), what)?;
        match name {
            "reshape" => self.with_known_shape(v, &values, span(call), what),
            "to_vdevice" => self.on_device(v, span(call)),
            _ => Ok(v),
        }
    }

    /// Reads the operand at a position of an operator.
    fn operand_at(&mut self, info: &OpInfo, at: usize, expr: &'a Expr) -> Read<V> {
        let arg = info.args.get(at);
        match expr {
            Expr::StringLiteral(symbol) if arg.is_some_and(|arg| arg.kind == ArgKind::Function) => {
                Ok(self.b.extern_func(symbol.value.to_str(), TypeId::NONE))
            }
            Expr::Call(call)
                if arg.is_some_and(|arg| arg.kind == ArgKind::Function)
                    && let Some(symbol) = self.extern_symbol(call) =>
            {
                Ok(self.b.extern_func(symbol, TypeId::NONE))
            }
            expr => match number_operand(expr, Literal::of(info, at)) {
                Some(number) => Ok(self.b.prim_value(&number)),
                None => self.operand(expr, arg),
            },
        }
    }

    /// Replaces 0 and -1 in the shape of `R.reshape` by the extents that they mean, as TVM does.
    fn with_known_shape(&mut self, v: V, values: &[V], at: Range<usize>, what: &str) -> Read<V> {
        let stands_for = |dim: &Dim| matches!(dim.as_int(), Some(0 | -1));
        let given = values.get(1).and_then(|shape| match self.b.type_owned(self.b.type_of(*shape)) {
            Type::Shape { dims: Some(dims), .. } if dims.iter().any(stands_for) => Some(dims),
            _ => None,
        });
        let (Some(given), Type::Tensor(found)) = (given, self.b.type_owned(self.b.type_of(v))) else { return Ok(v) };
        let Some(dims) = found.shape.filter(|dims| *dims != given) else { return Ok(v) };
        let (callee, attrs) = (self.b.op("relax.reshape"), AttrsId::NONE);
        self.b.truncate(self.b.n_nodes() - 1);
        let shape = self.b.shape(&dims);
        let v = self.b.call(callee, &[values[0], shape], attrs, TypeId::NONE, false, None);
        self.infer(v, at, what)
    }

    /// Places the result of `R.to_vdevice` on the named device, with TVM's full name. The operator's rule cannot access
    /// the module's devices.
    fn on_device(&mut self, v: V, at: Range<usize>) -> Read<V> {
        let named = |value: Value<'_>| Some(value.as_call()?.attr("dst_vdevice")?.as_str()?.to_string());
        let Some(name) = self.b.with(v, named) else { return Ok(v) };
        let device = self.vdevice(&name, at)?;
        if let Some(name) = self.scope.vdevices.name(device) {
            let attrs = self.b.attrs([("dst_vdevice", Attr::Str(name.to_string()))]);
            self.b.set_attrs(v, attrs);
        }
        if let Type::Tensor(found) = self.b.type_owned(self.b.type_of(v)) {
            let ty = self.b.ty(&Type::Tensor(TensorType { vdevice: Some(device), ..found }));
            self.b.set_type(v, ty);
        }
        Ok(v)
    }

    /// Returns the symbol in `R.ExternFunc("symbol")`.
    fn extern_symbol(&self, call: &'a ExprCall) -> Option<&'a str> {
        let is_one = path_after(self.scope.text, &call.func, "R") == Some("ExternFunc");
        match &*call.arguments.args {
            [Expr::StringLiteral(symbol)] if is_one && call.arguments.keywords.is_empty() => {
                Some(symbol.value.to_str())
            }
            _ => None,
        }
    }

    /// Reads an operand. A tuple or list in place of a shape is a shape; any other list is a tuple. The arguments of a
    /// called function are a tuple, even if there is only one.
    pub(super) fn operand(&mut self, expr: &'a Expr, info: Option<&ArgInfo>) -> Read<V> {
        let v = self.plain_operand(expr, info)?;
        let arguments = info.is_some_and(|arg| arg.kind == ArgKind::Tuple && arg.name == "args");
        if !arguments || self.b.with(v, |value| value.ty().is_tuple()) {
            return Ok(v);
        }
        let v = self.b.tuple(&[v], None);
        self.sized(v, span(expr))
    }

    fn plain_operand(&mut self, expr: &'a Expr, info: Option<&ArgInfo>) -> Read<V> {
        match expr {
            Expr::Tuple(_) | Expr::List(_)
                if info.is_some_and(|arg| arg.kind == ArgKind::Shape || arg.name == "shape") =>
            {
                let dims = self.dims(expr)?;
                Ok(self.b.shape(&dims))
            }
            Expr::StringLiteral(_) if info.is_some_and(|arg| arg.name == "dtype") => {
                let dtype = super::arguments::dtype_of(expr)?;
                Ok(self.b.dtype(dtype))
            }
            Expr::List(list) => {
                let v = self.tuple_of(&list.elts)?;
                self.sized(v, span(expr))
            }
            other => self.expr(other),
        }
    }

    /// Returns the declaration and the leaf of an operator, which are looked up once per function.
    pub(super) fn operator_info(&mut self, name: &'a str) -> Option<(&'a OpInfo, V)> {
        if let Some(known) = self.operators.get(name) {
            return Some(*known);
        }
        let name = match name {
            // The operator is `R.call_tir` with a DTensor as its result.
            "dist.call_tir" => "call_tir",
            "stop_lift_params" => "builtin.stop_lift_params",
            name => name,
        };
        let ops = self.scope.ops;
        // `R.acme.swish_glu` is also the operator `acme.swish_glu`, unless Relax has an operator with that name.
        let info = ops.op_info(&format!("relax.{name}")).or_else(|| ops.op_info(name))?;
        let known = (info, self.b.op(&info.name));
        self.operators.insert(name, known);
        Some(known)
    }

    /// Returns true if a plugin declares an operator with this name and Relax does not. The operator is written
    /// `R.acme.swish_glu`.
    fn is_operator(&self, name: &str) -> bool {
        let ops = self.scope.ops;
        name.contains('.') && ops.op_info(name).is_some() && ops.op_info(&format!("relax.{name}")).is_none()
    }

    /// Checks that an argument given by name directly follows the preceding arguments, because calls cannot have gaps.
    fn no_gap(&self, info: &OpInfo, call: &ExprCall, n: usize) -> Read<()> {
        let Some((missing, rest)) = info.args.get(n..).and_then(<[ArgInfo]>::split_first) else { return Ok(()) };
        let of_rest = |keyword: &&Keyword| {
            let name = keyword.arg.as_ref().map_or("", |name| name.as_str());
            rest.iter().any(|arg| arg.name == name || other_name(&arg.name) == Some(name))
        };
        match call.arguments.keywords.iter().find(of_rest) {
            Some(keyword) => {
                let name = keyword.arg.as_ref().map_or("", |name| name.as_str());
                let message = format!("argument `{name}` needs the preceding argument `{}`", missing.name);
                Err(Diagnostic::new(span(keyword), message).help(signature(info)))
            }
            None => Ok(()),
        }
    }

    fn wrong_number(&self, info: &OpInfo, call: &ExprCall, found: usize) -> Diagnostic {
        let wanted: Vec<&str> = info.args.iter().map(|arg| arg.name.as_str()).collect();
        let message = format!("{} takes {} arguments, found {found}", info.name, wanted.len());
        Diagnostic::new(span(call), message).help(signature(info))
    }

    /// Reads and checks the attributes, and adds defaults. Equal source is read once.
    fn op_attrs(&mut self, info: &OpInfo, call: &'a ExprCall, positional: &[&'a Expr], values: &[V]) -> Read<AttrsId> {
        let keywords = &call.arguments.keywords;
        let is_operand = |keyword: &Keyword| {
            let name = keyword.arg.as_ref().map_or("", |arg| arg.as_str());
            info.args
                .iter()
                .skip(call.arguments.args.len())
                .any(|arg| arg.name == name || other_name(&arg.name) == Some(name))
        };
        let no_bias = |keyword: &Keyword| {
            info.name == "relax.nn.attention" && keyword.arg.as_ref().is_some_and(|arg| arg == "bias")
        };
        let other = |keyword: &Keyword| is_type_keyword(keyword) || is_operand(keyword) || no_bias(keyword);
        if info.attrs.is_empty() && keywords.is_empty() && positional.is_empty() {
            return Ok(AttrsId::NONE);
        }
        if positional.len() > info.attrs.len() {
            return Err(self.wrong_number(info, call, call.arguments.args.len()));
        }
        let order = positions(&info.name);
        if let (None, Some(value), Some(attr)) =
            (order, positional.get(n_positional(info)), info.attrs.get(n_positional(info)))
        {
            let message = format!("`{}` and the attributes after it must be given by name", attr.name);
            return Err(Diagnostic::new(span(*value), message).help(signature(info)));
        }
        let start = keywords.first().map(|keyword| span(keyword).start);
        let whole = start.filter(|_| positional.is_empty()).and_then(|start| {
            // The cache key is the source of the attributes, which follow the arguments.
            self.scope.text.get(start..span(call).end)
        });
        let key = whole.filter(|_| !keywords.iter().any(other));
        if let Some(id) = key.and_then(|key| self.attrs.get(key)) {
            let (op, id) = (info.name.as_str(), *id);
            if self.attrs_op.get(&id).is_some_and(|known| *known == op) {
                return Ok(id);
            }
        }
        let mut entries = self.given_attrs(info, call, positional, &other)?;
        self.add_attributes(&info.name, values, &mut entries);
        if let Some(missing) = add_defaults(info, &mut entries) {
            let message = format!("{} needs the attribute `{}`", info.name, missing.name);
            return Err(Diagnostic::new(span(call), message).help(signature(info)));
        }
        let id = self.b.attrs(entries);
        if let Some(key) = key {
            self.attrs.insert(key, id);
            self.attrs_op.insert(id, info.name.clone());
        }
        Ok(id)
    }

    /// Reads the given attributes: first by position, then by keyword, except for the keywords in `other`.
    fn given_attrs<'i>(
        &mut self,
        info: &'i OpInfo,
        call: &'a ExprCall,
        positional: &[&'a Expr],
        other: &dyn Fn(&Keyword) -> bool,
    ) -> Read<Vec<(&'i str, Attr)>>
    where
        'a: 'i,
    {
        let order = positions(&info.name);
        let mut entries: Vec<(&'i str, Attr)> = Vec::with_capacity(info.attrs.len());
        for (at, value) in positional.iter().enumerate() {
            let named = |name: &&str| info.attrs.iter().find(|attr| attr.name == **name);
            let attr = order.map_or(info.attrs.get(at), |order| order.get(at).and_then(named));
            let Some(attr) = attr else { return Err(self.wrong_number(info, call, call.arguments.args.len())) };
            entries.push((attr.name.as_str(), self.checked(attr, value)?));
        }
        for keyword in call.arguments.keywords.iter().filter(|keyword| !other(keyword)) {
            let Some(name) = keyword.arg.as_ref().map(|arg| arg.as_str()) else { return Err(starred(keyword)) };
            if takes_any_attributes(info) {
                entries.push((name, self.attr(&keyword.value)?));
                continue;
            }
            let Some(attr) = info.attrs.iter().find(|attr| attr.name == name) else {
                return Err(no_attribute(info, name, keyword));
            };
            if entries.iter().any(|(known, _)| *known == name) {
                return Err(Diagnostic::new(span(keyword), format!("attribute `{name}` is given twice")));
            }
            entries.push((attr.name.as_str(), self.checked(attr, &keyword.value)?));
        }
        Ok(entries)
    }

    /// Reads the type arguments of a call. Several results are a tuple: `out_ty=[A, B]`.
    fn type_args(&mut self, name: &str, types: &'a Expr, values: &mut Vec<V>) -> Read<()> {
        let result = matches!(name, "out_ty" | "out_sinfo");
        self.exact_shapes = result;
        let read = self.types_of_results(result, types, values);
        self.exact_shapes = false;
        read
    }

    fn types_of_results(&mut self, result: bool, types: &'a Expr, values: &mut Vec<V>) -> Read<()> {
        let items = match types {
            Expr::List(list) => &list.elts,
            Expr::Tuple(tuple) => &tuple.elts,
            other => std::slice::from_ref(other),
        };
        // A list of one type is that type, as in TVM.
        if result && (types.is_tuple_expr() || types.is_list_expr() && items.len() != 1) {
            let fields = items.iter().map(|item| self.ty(item)).collect::<Read<_>>()?;
            let ty = self.b.ty(&Type::Tuple(fields));
            values.push(self.b.type_arg(ty));
            return Ok(());
        }
        for item in items {
            let ty = self.type_id(item)?;
            values.push(self.b.type_arg(ty));
        }
        Ok(())
    }

    /// Infers the type and purity of a call of an operator; equal calls are inferred once.
    pub(super) fn infer(&mut self, v: V, at: Range<usize>, what: &str) -> Read<V> {
        let key = self.call_key(v);
        let (ty, pure) = match self.calls.get(key.as_slice()) {
            Some(known) => *known,
            None => {
                let ops = self.scope.ops;
                let inferred = self.b.with(v, |value| match value.as_call() {
                    Some(call) => ops.infer(call),
                    None => Err(InferError::wrong("not a call")),
                });
                let known = match inferred {
                    Ok(inferred) => (self.b.ty(&inferred.ty), inferred.pure),
                    Err(_) if self.scope.options.unchecked => (TypeId::NONE, true),
                    Err(error) => return Err(self.not_inferred(v, Diagnostic::new(at, format!("{what}: {error}")))),
                };
                self.calls.insert(key.into_boxed_slice(), known);
                known
            }
        };
        self.b.set_type(v, ty);
        if !pure {
            self.b.mark_effect(v);
        }
        Ok(v)
    }

    /// Adds the most likely cause to the error of a call: an operand has an unknown type because its operator is
    /// undeclared.
    fn not_inferred(&self, v: V, error: Diagnostic) -> Diagnostic {
        let operands = self.b.operand_words(v).iter().filter(|word| **word & LEAF_BIT == 0);
        let mut undeclared = operands.map(|word| self.b.value_of_word(*word)).filter(|v| self.opaque.contains(v));
        let name = undeclared.find_map(|v| self.b.with(v, |value| Some(value.as_call()?.op()?.to_string())));
        match name {
            None => error,
            Some(name) => error.help(format!(
                "no plugin declares the operator `{name}`, which computes an operand: list its plugin in passes.toml, or annotate its \
                 result, as in `y: R.Tensor((2, 3), \"float32\") = …`"
            )),
        }
    }

    /// Returns everything that the type of a call depends on: callee, leaves, types of values, attributes.
    fn call_key(&self, v: V) -> Vec<u32> {
        let mut key = Vec::with_capacity(8);
        key.push(self.b.attrs_of(v));
        for word in self.b.operand_words(v) {
            self.operand_key(*word, &mut key);
        }
        key
    }

    fn operand_key(&self, word: u32, key: &mut Vec<u32>) {
        if word & LEAF_BIT != 0 {
            key.push(word);
            return;
        }
        let v = self.b.value_of_word(word);
        if self.b.kind(v) == kind::TUPLE && self.b.flags(v) & flag::BOUND == 0 {
            key.push(u32::MAX);
            for word in self.b.operand_words(v) {
                self.operand_key(*word, key);
            }
            key.push(u32::MAX);
        } else {
            key.push(self.b.type_number(v));
            // Type rules examine the definition of a value of unknown type, so the value is part of the key.
            if self.b.with(v, |value| value.ty().kind() == tykind::OBJECT) {
                key.push(word);
            }
        }
    }
}

/// Returns the alternative name of an operand in TVM's Python function.
fn other_name(name: &str) -> Option<&'static str> {
    (name == "func").then_some("gvar")
}

/// Returns the operand that a call gives by name.
fn operand_named<'c>(call: &'c ExprCall, name: &str) -> Option<&'c Expr> {
    keyword(call, name).or_else(|| keyword(call, other_name(name)?))
}

/// Returns true if the arguments of a Python function are not given as a tuple: `R.call_py_func("f", x, y, out_ty=…)`.
fn is_spread(info: &OpInfo, call: &ExprCall) -> bool {
    let given = operand_named(call, "args").is_some();
    info.name == "relax.call_py_func" && call.arguments.args.len() != 2 && !given
}

/// Splits the positional arguments of a call into operands and the rest. Calls of packed functions take any number of
/// operands, as marked in the name of the last declared operand.
fn operands<'a>(info: &OpInfo, call: &'a ExprCall) -> (&'a [Expr], &'a [Expr]) {
    let given: &[Expr] = &call.arguments.args;
    match info.args.last() {
        Some(last) if last.name.starts_with('*') => (given, &[]),
        _ if is_spread(info, call) => (&given[..given.len().min(1)], &[]),
        _ => given.split_at(given.len().min(info.args.len())),
    }
}

/// Returns the types in a call, passed by position or by name, and the attributes passed by position.
fn positional_types<'a>(
    info: &OpInfo,
    call: &'a ExprCall,
    rest: &'a [Expr],
) -> Read<(Vec<(&'a str, &'a Expr)>, Vec<&'a Expr>)> {
    // The position of the types among TVM's arguments.
    let place = match info.name.as_str() {
        "relax.call_tir" | "relax.call_dps_packed" | "relax.call_tir_with_grad" => Some((0, "out_ty")),
        "relax.call_tir_inplace" => Some((1, "out_ty")),
        "relax.invoke_closure" | "relax.invoke_pure_closure" => Some((0, "ty_args")),
        _ => None,
    };
    let mut attrs: Vec<&Expr> = rest.iter().collect();
    let given = place.filter(|(place, _)| *place < rest.len()).map(|(place, name)| (name, attrs.remove(place)));
    let by_name = call.arguments.keywords.iter().filter(|keyword| is_type_keyword(keyword));
    let by_name = by_name.map(|keyword| (keyword.arg.as_ref().map_or("", |name| name.as_str()), &keyword.value));
    let types: Vec<_> = given.into_iter().chain(by_name).collect();
    match types.get(1) {
        Some((name, again)) => Err(Diagnostic::new(span(*again), format!("argument `{name}` is given twice"))),
        None => Ok((types, attrs)),
    }
}

/// Returns `a.b.c` as a string; `None` for other expressions.
fn path(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Name(name) => Some(name.id.to_string()),
        Expr::Attribute(attribute) => Some(format!("{}.{}", path(&attribute.value)?, attribute.attr)),
        _ => None,
    }
}

/// The variables used as shapes in types.
struct ShapeNames<'a> {
    text: &'a str,
    names: Vec<&'a ExprName>,
}

impl<'a> Visitor<'a> for ShapeNames<'a> {
    fn visit_expr(&mut self, expr: &'a Expr) {
        if let Expr::Call(call) = expr
            && path_after(self.text, &call.func, "R") == Some("Tensor")
            && let Some(Expr::Name(name)) = call.arguments.args.first().or_else(|| keyword(call, "shape"))
        {
            self.names.push(name);
        }
        walk_expr(self, expr);
    }
}

fn no_attribute(info: &OpInfo, name: &str, keyword: &Keyword) -> Diagnostic {
    let message = match info.args.iter().any(|arg| arg.name == name) {
        true => format!("argument `{name}` is given twice: by position and by name"),
        false => format!("{} does not have an attribute `{name}`", info.name),
    };
    Diagnostic::new(span(keyword), message).help(signature(info))
}

fn starred(keyword: &Keyword) -> Diagnostic {
    Diagnostic::new(span(keyword), "`**` is not supported in a call").help("write each attribute with its name: axis=1")
}

fn is_type_keyword(keyword: &Keyword) -> bool {
    keyword.arg.as_ref().is_some_and(|arg| TYPE_KEYWORDS.contains(&arg.as_str()))
}

impl<'a> FnReader<'a> {
    /// Reads an attribute, and checks it against its declared type.
    fn checked(&mut self, info: &AttrInfo, expr: &'a Expr) -> Read<Attr> {
        let value = self.attr(expr)?;
        fitting(info, value, expr)
    }
}

fn fitting(info: &AttrInfo, value: Attr, expr: &Expr) -> Read<Attr> {
    let ints = |items: &[Attr]| items.iter().all(|item| matches!(item, Attr::Int(_)));
    let fits = match (info.ty, &value) {
        (AttrType::Any, _) => true,
        (AttrType::Bool, Attr::Bool(_)) => true,
        (AttrType::Int | AttrType::OptInt, Attr::Int(_)) => true,
        (AttrType::Float, Attr::Float(_) | Attr::Int(_)) => true,
        (AttrType::Str | AttrType::DType | AttrType::OptStr, Attr::Str(_)) => true,
        (AttrType::IntList | AttrType::OptIntList | AttrType::RepeatedInts, Attr::List(items)) => ints(items),
        (AttrType::IntList | AttrType::OptIntList | AttrType::RepeatedInts, Attr::Int(_)) => true,
        (AttrType::OptInt | AttrType::OptIntList | AttrType::DType | AttrType::OptStr, Attr::None) => true,
        _ => false,
    };
    if fits {
        return Ok(canonical_attr(info, value));
    }
    Err(Diagnostic::new(span(expr), format!("attribute `{}` must be {}", info.name, type_name(info.ty))))
}

/// Returns true for the type of a tensor on a device.
fn names_a_device(ty: passhost_lang::ir::Value<'_>) -> bool {
    let passhost_lang::ir::Expr::TypeArg(ty) = ty.view() else { return false };
    ty.to_owned().as_tensor().is_some_and(|tensor| tensor.vdevice.is_some())
}
