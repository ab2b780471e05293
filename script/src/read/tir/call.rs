//! Reads TIR calls: calls with special syntax, intrinsics, reducers.

use crate::read::arguments::{accept, accept_named, dtype_of, in_order, keyword, wide_int};
use crate::read::ops::{named_op, operands_of};
use crate::read::tir::arith::one_of_type;
use crate::read::tir::buffer::handle_type;
use crate::read::tir::dtypes::{in_one_lane, lanes, scalar, times, typed, void_type, with_lanes};
use crate::read::tir::reader::{E, Is, TirReader};
use crate::words::diagnostic::Diagnostic;
use crate::words::dtypes::dtype_named;
use crate::words::syntax::{Read, path_after, span};
use crate::words::tir_ops;
use passhost_lang::ir::records::{flag, kind};
use passhost_lang::ir::{Attr, DType, NodeSpec, Type, TypeId, V};
use passhost_lang::names::{did_you_mean, nearest};
use passhost_lang::scalar::{DTypePlace, Intrinsic, ResultRule};
use ruff_python_ast::{Expr, ExprCall, Keyword, Number, UnaryOp};
use std::ops::Range;

impl<'a> TirReader<'a> {
    pub(super) fn call(&mut self, call: &'a ExprCall, expr: &'a Expr) -> Read<E> {
        if let Some(name) = path_after(self.scope.text, &call.func, "T") {
            return self.tir_call(name, call, expr);
        }
        if let Some(name) = path_after(self.scope.text, &call.func, self.scope.class)
            .or_else(|| path_after(self.scope.text, &call.func, "cls"))
        {
            if !self.scope.globals.contains_key(name) {
                let near = did_you_mean(&nearest(name, self.scope.globals.keys().copied()));
                let message = format!("the module does not contain a function `{name}`{near}");
                return Err(Diagnostic::new(span(&*call.func), message));
            }
            let callee = self.b.global_var(name, TypeId::NONE);
            let args = self.args(call, &call.arguments.args)?;
            let ops: Vec<V> = std::iter::once(callee).chain(args.iter().map(|e| e.v)).collect();
            let v = self.b.node(NodeSpec::new(kind::CALL).flags(flag::IMPURE), &ops, None);
            return Ok(typed(v, TypeId::NONE, DType::VOID));
        }
        if let Expr::Attribute(method) = &*call.func
            && let Some(found) = self.method(method, call)?
        {
            return Ok(found);
        }
        Err(Diagnostic::new(span(&*call.func), "expected a TIR function, such as T.exp, or a function of the module"))
    }

    /// Reads `A.vload([i], predicate=p)` or `A.vload([i], "float32x4")`.
    pub(super) fn vload(&mut self, buffer: E, call: &'a ExprCall) -> Read<E> {
        accept(call, 2, &["begin", "dtype", "predicate"], "A.vload([i], \"float32x4\")")?;
        let mut ops = vec![buffer.v];
        let Some(indices) = call.arguments.args.first() else {
            return Err(Diagnostic::new(span(call), "expected indices").help("A.vload([i], predicate=p)"));
        };
        let dtype = call.arguments.args.get(1).or_else(|| keyword(call, "dtype")).map(dtype_of).transpose()?;
        let lanes = self.list_indices(indices, times(dtype.unwrap_or(buffer.dtype), buffer.dtype), &mut ops)?;
        let loaded = with_lanes(buffer.dtype, lanes);
        if let Some(dtype) = dtype.filter(|dtype| *dtype != loaded) {
            return Err(Diagnostic::new(span(call), format!("this loads {loaded}, not {dtype}")));
        }
        let mut spec = NodeSpec::new(kind::LOAD);
        if let Some(predicate) = keyword(call, "predicate") {
            ops.push(self.value(predicate)?.v);
            spec = spec.a(1);
        }
        Ok(self.node(spec, &ops, loaded))
    }

    /// Reads the indices of an element, or of the first of `wanted` elements. Returns the number of elements.
    pub(super) fn list_indices(&mut self, indices: &'a Expr, wanted: i32, ops: &mut Vec<V>) -> Read<i32> {
        let items = match indices {
            Expr::List(list) => &*list.elts,
            Expr::Tuple(tuple) => &*tuple.elts,
            one => std::slice::from_ref(one),
        };
        let mut lanes = 1;
        for (i, item) in items.iter().enumerate() {
            let mut index = self.value(item)?;
            if i + 1 == items.len() && lanes == 1 && index.dtype.lanes() == 1 && wanted > 1 {
                let one = self.imm_of(1, index.dtype, Is::Value);
                let count = self.imm(i64::from(wanted), DType::I32);
                index = self.node(NodeSpec::new(kind::RAMP), &[index.v, one.v, count], with_lanes(index.dtype, wanted));
            }
            let found = self::lanes(index.dtype);
            lanes = if found == 1 { lanes } else { found };
            ops.push(index.v);
        }
        Ok(lanes)
    }

    /// Reads the arguments of a call: values, buffers, buffer regions, strings.
    pub(super) fn args(&mut self, call: &'a ExprCall, items: &'a [Expr]) -> Read<Vec<E>> {
        if let Some(keyword) = call.arguments.keywords.first() {
            return Err(Diagnostic::new(span(keyword), "keyword arguments are not allowed here")
                .help("pass the arguments in order, without names"));
        }
        self.positional(items)
    }

    /// Returns the arguments of an intrinsic in order. Arguments passed by name follow those passed by position.
    fn ordered_arguments(&self, name: &str, dtype: DTypePlace, call: &'a ExprCall) -> Read<Vec<&'a Expr>> {
        let mut items: Vec<&Expr> = call.arguments.args.iter().collect();
        let parameters = Intrinsic::find(name).map_or(&[][..], Intrinsic::parameters);
        for parameter in parameters.iter().skip(items.len()) {
            items.extend(keyword(call, parameter));
        }
        let n_known = items.len();
        // If a data type follows parameters without names, TVM also accepts it as a keyword.
        if dtype == DTypePlace::Last && !parameters.contains(&"dtype") {
            items.extend(keyword(call, "dtype"));
        }
        let place = |keyword: &Keyword| parameters.iter().position(|name| keyword.arg.as_deref() == Some(name));
        // TVM ignores `dtype="float32"` if it infers the type.
        let is_used = |keyword: &&Keyword| match place(keyword) {
            Some(place) => (call.arguments.args.len()..n_known).contains(&place),
            None => keyword.arg.as_ref().is_some_and(|name| name == "dtype"),
        };
        match call.arguments.keywords.iter().find(|keyword| !is_used(keyword)) {
            None => Ok(items),
            Some(keyword) if parameters.is_empty() => {
                Err(Diagnostic::new(span(keyword), format!("T.{name} takes its arguments by position"))
                    .help("pass the arguments in order, without names"))
            }
            Some(keyword) => {
                Err(Diagnostic::new(span(keyword), "this argument is unknown, given twice, or leaves a gap")
                    .help(format!("T.{name}({})", parameters.join(", "))))
            }
        }
    }

    pub(super) fn positional(&mut self, items: impl IntoIterator<Item = &'a Expr>) -> Read<Vec<E>> {
        items
            .into_iter()
            .map(|item| {
                let e = self.expr(item)?;
                let e = if e.is == Is::Scalar { self.load_scalar(e) } else { e };
                Ok(E { end: self.b.n_nodes(), ..e })
            })
            .collect()
    }

    /// Reads all arguments of a call, given by position or by name.
    pub(super) fn values<const N: usize>(&mut self, call: &'a ExprCall, name: &str, names: [&str; N]) -> Read<[E; N]> {
        let mut found = [typed(self.imm(0, DType::I32), TypeId::NONE, DType::VOID); N];
        for (slot, item) in found.iter_mut().zip(in_order(call, &format!("T.{name}"), names)?) {
            *slot = self.value(item)?;
        }
        Ok(found)
    }

    fn tir_call(&mut self, name: &'a str, call: &'a ExprCall, expr: &'a Expr) -> Read<E> {
        let args = &call.arguments.args;
        if let Some(op) = named_op(name) {
            let from = self.b.n_nodes();
            let [a, b] = self.values(call, name, operands_of(name))?;
            // A capitalized name is a TVM constructor, which does not convert.
            return if name.starts_with(char::is_uppercase) {
                self.constructor(op, a, b, span(call))
            } else {
                self.operator_function(op, a, b, from, span(call))
            };
        }
        let value = match &**args {
            [] => keyword(call, "expr"),
            [value] => Some(value),
            _ => None,
        };
        if let (Some(dtype), Some(value)) = (dtype_named(name), value) {
            return self.immediate(dtype, value);
        }
        match name {
            "Cast" => {
                let [dtype, value] = in_order(call, "T.Cast", ["dtype", "value"])?;
                let (dtype, value) = (dtype_of(dtype)?, self.value(value)?);
                same_lanes(value, dtype, span(call))?;
                Ok(self.cast(value, dtype))
            }
            "Not" => {
                let [a] = self.values(call, name, ["a"])?;
                self.inverted(a, span(call))
            }
            "Select" => {
                let [cond, a, b] = self.values(call, name, ["condition", "true_value", "false_value"])?;
                one_of_type(a, b, &span(call), || "the values of a Select".to_string())?;
                Ok(self.node(NodeSpec::new(kind::SELECT), &[cond.v, a.v, b.v], a.dtype))
            }
            "ceildiv" | "min_value" | "max_value" | "infinity" | "cast" | "call_intrin" => self.helper(name, call),
            "Ramp" | "ramp" => {
                let [base, stride, lanes] = in_order(call, &format!("T.{name}"), ["base", "stride", "lanes"])?;
                let (base, stride) = (self.one_lane(base)?, self.one_lane(stride)?);
                let (stride, at) = (self.converted(stride, base.dtype), span(lanes));
                let lanes = self.value(lanes)?;
                let count = self.lane_count(lanes, at)?;
                Ok(self.node(NodeSpec::new(kind::RAMP), &[base.v, stride.v, lanes.v], with_lanes(base.dtype, count)))
            }
            "Broadcast" | "broadcast" => {
                let [value, lanes] = in_order(call, &format!("T.{name}"), ["value", "lanes"])?;
                let (value, at) = (self.one_lane(value)?, span(lanes));
                let lanes = self.value(lanes)?;
                let count = self.lane_count(lanes, at)?;
                Ok(self.node(NodeSpec::new(kind::BROADCAST), &[value.v, lanes.v], with_lanes(value.dtype, count)))
            }
            "Shuffle" => self.shuffle(call),
            "Let" => self.let_in(call),
            "comm_reducer" => self.combiner(call),
            "call_ffi_kernel" => self.ffi_kernel(call),
            _ => self.intrinsic_call(name, call, expr),
        }
    }

    /// Reads a value that must not be a vector.
    fn one_lane(&mut self, expr: &'a Expr) -> Read<E> {
        let e = self.value(expr)?;
        if e.dtype.is_known() && e.dtype.lanes() != 1 {
            return Err(Diagnostic::new(span(expr), format!("a vector needs one value, found {}", e.dtype)));
        }
        Ok(e)
    }

    /// Reads `T.int64(1)`, `T.float32("inf")` or `T.bool(True)`; with any other expression, it is a
    /// conversion.
    fn immediate(&mut self, dtype: DType, value: &'a Expr) -> Read<E> {
        if let Some(v) = wide_int(value) {
            if dtype.is_float() {
                return Ok(self.float(v as f64, dtype, Is::Value));
            }
            if dtype.lanes() == 1 && (dtype.is_int() || dtype.code() == 6) {
                if !dtype.has_integer(v) {
                    return Err(Diagnostic::new(span(value), format!("{v} does not fit {dtype}")));
                }
                // Unsigned integers wrap into the 64 bits of the record.
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
            (Some(found), _) if dtype.is_float() && !dtype.has_float(found) => {
                Err(Diagnostic::new(span(value), format!("{found:e} does not fit {dtype}")))
            }
            (Some(value), _) if dtype.is_float() => Ok(self.float(value, dtype, Is::Value)),
            (_, Expr::BooleanLiteral(value)) if dtype.code() == 6 => {
                Ok(self.imm_of(i64::from(value.value), dtype, Is::Value))
            }
            _ => {
                let (e, at) = (self.value(value)?, span(value));
                if e.dtype.lanes() != 1 {
                    same_lanes(e, dtype, at)?;
                }
                Ok(self.converted(e, dtype))
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
        let [vectors, indices] = in_order(call, "T.Shuffle", ["vectors", "indices"])?;
        let (vectors, indices) = (self.list(vectors)?, self.list(indices)?);
        let lanes = i32::try_from(indices.len()).unwrap_or(1);
        for pair in vectors.windows(2) {
            one_of_type(in_one_lane(pair[0]), in_one_lane(pair[1]), &span(call), || {
                "the vectors of a Shuffle".to_string()
            })?;
        }
        let dtype = vectors.first().map_or(DType::VOID, |first| with_lanes(scalar(first.dtype), lanes));
        let ops: Vec<V> = vectors.iter().chain(&indices).map(|e| e.v).collect();
        Ok(self.node(NodeSpec::new(kind::SHUFFLE).a(vectors.len() as u32), &ops, dtype))
    }

    /// Reads `T.Let(body, where={x: value})`.
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
            let value = self.value(&item.value)?;
            one_of_type(var, value, &span(&item.value), || "a variable and its value".to_string())?;
            bound.push((var, value));
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

    /// Reads `T.comm_reducer(lambda x, y: x + y, [T.float32(0.0)])`.
    fn combiner(&mut self, call: &'a ExprCall) -> Read<E> {
        let [Expr::Lambda(lambda), identity] = &*call.arguments.args else {
            return Err(Diagnostic::new(span(call), "expected T.comm_reducer(lambda x, y: x + y, [T.float32(0.0)])"));
        };
        let identity = self.list(identity)?;
        let ops: Vec<V> = identity.iter().map(|e| e.v).collect();
        let params: Vec<_> = lambda.parameters.iter().flat_map(|params| &params.args).collect();
        if params.len() != 2 * identity.len() {
            let message = format!("{} parameters for {} identity elements", params.len(), identity.len());
            return Err(Diagnostic::new(span(lambda), message)
                .help("give two per element: first all left parameters, then all right parameters"));
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

    /// Reads a data type or pointer type as an argument: `"int32"`, `T.handle("int64", "global").ty`.
    pub(super) fn type_argument(&mut self, expr: &'a Expr) -> Read<(TypeId, DType)> {
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

    /// Reads `T.call_ffi_kernel("k", A.data, 16, launch_params=["threadIdx.x"], ret_ty="int32")`.
    fn ffi_kernel(&mut self, call: &'a ExprCall) -> Read<E> {
        let usage = "T.call_ffi_kernel(\"k\", A.data, 16, launch_params=[\"threadIdx.x\"], ret_ty=\"int32\")";
        accept_named(call, &["launch_params", "ret_ty"], usage)?;
        let Some(Expr::List(params)) = keyword(call, "launch_params") else {
            return Err(
                Diagnostic::new(span(call), "expected the launch parameters of the kernel as a list").help(usage)
            );
        };
        let text = |param: &Expr| match param {
            Expr::StringLiteral(text) => Ok(Attr::Str(text.value.to_str().to_string())),
            other => Err(Diagnostic::new(span(other), "expected a string").help(usage)),
        };
        let params = params.elts.iter().map(text).collect::<Read<Vec<Attr>>>()?;
        let dtype = keyword(call, "ret_ty").map_or(Ok(DType::I32), dtype_of)?;
        if !dtype.is_known() {
            return Err(Diagnostic::new(span(call), "a kernel must return a scalar").help(usage));
        }
        let args = self.positional(&call.arguments.args)?;
        let ty = self.prim_type(dtype);
        let attrs = self.b.attrs([("launch_params", Attr::list(params))]);
        let callee = self.b.op("tirx.call_ffi_kernel");
        let ops: Vec<V> = std::iter::once(callee).chain(args.iter().map(|e| e.v)).collect();
        let v = self.b.node(NodeSpec::new(kind::CALL).ty(ty).attrs(attrs), &ops, None);
        Ok(typed(v, ty, dtype))
    }

    fn intrinsic_call(&mut self, name: &'a str, call: &'a ExprCall, expr: &'a Expr) -> Read<E> {
        let name = tir_ops::printed_name(name);
        let Some((place, result)) = tir_ops::find(name) else {
            let near: Vec<String> = nearest(name, tir_ops::names()).iter().map(|near| format!("T.{near}")).collect();
            let near = did_you_mean(&near);
            return Err(Diagnostic::new(span(&*call.func), format!("unknown expression `T.{name}`{near}"))
                .label("unknown TIR operator")
                .help("call a function that TIR lacks with `T.call_pure_extern(dtype, \"name\", …)`, or compose it from functions that TIR has"));
        };
        let items = self.ordered_arguments(name, place, call)?;
        let given = match (place, &*items) {
            (DTypePlace::First, [dtype, rest @ ..]) => Some((*dtype, rest)),
            (DTypePlace::Last, [rest @ .., dtype]) => Some((*dtype, rest)),
            (DTypePlace::No, _) => None,
            _ => return Err(Diagnostic::new(span(expr), format!("T.{name} needs a data type among its arguments"))),
        };
        if let Some((dtype, rest)) = given {
            let (ty, dtype) = self.type_argument(dtype)?;
            let args = self.positional(rest.iter().copied())?;
            return Ok(self.intrinsic(name, &args, ty, dtype));
        }
        if let ("undef", [extra, ..]) = (name, &*items) {
            return Err(
                Diagnostic::new(span(*extra), "T.undef takes no arguments").help("T.Cast(\"float32\", T.undef())")
            );
        }
        let mut args = self.positional(items)?;
        if let ("if_then_else", [_, a, b]) | ("pow", [a, b]) = (name, &mut *args) {
            (*a, *b) = self.matched(*a, *b, &span(call))?;
            if name != "if_then_else" && a.dtype.is_known() && !a.dtype.is_float() {
                return Err(Diagnostic::new(span(call), format!("T.{name} takes floats, found {}", a.dtype)));
            }
        }
        let (ty, dtype) = match result {
            ResultRule::Argument(i) => match args.get(i) {
                Some(e) => (self.type_of_result(*e), e.dtype),
                None => (TypeId::NONE, DType::VOID),
            },
            ResultRule::Scalar(dtype) => (self.prim_type(dtype), dtype),
            ResultRule::Bool => {
                let lanes = args.first().map_or(1, |e| e.dtype.lanes().max(1));
                let dtype = DType::new(6, 8, lanes);
                (self.prim_type(dtype), dtype)
            }
            ResultRule::Handle => {
                let handle = Type::Pointer { dtype: DType::VOID, scope: "global".to_string() };
                (self.b.ty(&handle), DType::HANDLE)
            }
            ResultRule::Unknown | ResultRule::Unwritten => (TypeId::NONE, DType::VOID),
        };
        Ok(self.intrinsic(name, &args, ty, dtype))
    }

    /// Returns the type of a value computed from `e`, without facts about the value of `e` itself.
    pub(super) fn type_of_result(&mut self, e: E) -> TypeId {
        if e.dtype.is_known() && e.dtype != DType::HANDLE { self.prim_type(e.dtype) } else { e.ty }
    }

    pub(super) fn intrinsic(&mut self, name: &str, args: &[E], ty: TypeId, dtype: DType) -> E {
        let callee = self.b.op(&format!("tirx.{name}"));
        let ops: Vec<V> = std::iter::once(callee).chain(args.iter().map(|e| e.v)).collect();
        let v = self.b.node(NodeSpec::new(kind::CALL).ty(ty), &ops, None);
        typed(v, ty, dtype)
    }
}

/// Checks that a cast changes the type of each lane, not the number of lanes.
pub(super) fn same_lanes(value: E, dtype: DType, at: Range<usize>) -> Read<()> {
    if !value.dtype.is_known() || dtype.lanes() == value.dtype.lanes() {
        return Ok(());
    }
    Err(Diagnostic::new(at, format!("a cast from {} to {dtype} would change the number of lanes", value.dtype))
        .help("T.Broadcast(value, lanes) makes a vector"))
}
