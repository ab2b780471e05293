//! Reads TIR statements.

use crate::read::arguments::{accept, in_order, keyword, sym_declaration};
use crate::read::ops::binary_op;
use crate::read::tir::arith::is_number;
use crate::read::tir::dtypes::{times, typed};
use crate::read::tir::python::python_truth;
use crate::read::tir::reader::{E, Is, TirReader};
use crate::words::diagnostic::Diagnostic;
use crate::words::syntax::{Read, path_after, span, unexpected};
use passhost_lang::ir::records::{flag, kind};
use passhost_lang::ir::{Attr, AttrsId, DType, Dim, NodeSpec, V};
use ruff_python_ast::{Expr, ExprCall, ExprSubscript, Stmt, StmtAugAssign, StmtFor, StmtIf, StmtWith};
use std::ops::Range;

impl<'a> TirReader<'a> {
    pub(super) fn statement(&mut self, stmt: &'a Stmt) -> Read<()> {
        match stmt {
            Stmt::Expr(expr) => self.expression(&expr.value),
            Stmt::Assign(assign) => match assign.targets.as_slice() {
                [Expr::Name(name)] => self.assign(name.id.as_str(), &assign.value),
                [Expr::Tuple(names)] => self.assign_all(&names.elts, &assign.value),
                [Expr::List(names)] => self.assign_all(&names.elts, &assign.value),
                [Expr::Subscript(target)] => {
                    let value = self.value(&assign.value)?;
                    self.store(target, value)
                }
                _ => Err(unexpected(stmt, "one variable, or an element of a buffer, to the left of `=`")),
            },
            Stmt::AnnAssign(assign) => match &*assign.target {
                Expr::Name(name) => {
                    self.annotated(name.id.as_str(), span(name), &assign.annotation, assign.value.as_deref())
                }
                _ => Err(unexpected(stmt, "`name: T.let[T.int32] = value`")),
            },
            Stmt::AugAssign(assign) => self.augmented(assign, stmt),
            Stmt::For(stmt) => self.for_(stmt),
            Stmt::While(stmt) => {
                if !stmt.orelse.is_empty() {
                    return Err(Diagnostic::new(span(&*stmt.test), "a loop in TIR cannot have an `else:`"));
                }
                let cond = self.value(&stmt.test)?;
                self.b.begin(NodeSpec::new(kind::WHILE), &[cond.v], None);
                self.body(&stmt.body);
                self.b.end();
                Ok(())
            }
            Stmt::If(stmt) => self.if_(stmt),
            Stmt::With(with) => self.with(with),
            Stmt::Assert(assert) => self.assert(&assert.test, assert.msg.as_deref(), span(assert)),
            Stmt::Return(ret) => {
                let value = ret.value.as_deref().map(|value| self.value(value)).transpose()?;
                let ops: Vec<V> = value.iter().map(|e| e.v).collect();
                self.effect(kind::RETURN, &ops);
                Ok(())
            }
            Stmt::Break(_) => {
                self.effect(kind::BREAK, &[]);
                Ok(())
            }
            Stmt::Continue(_) => {
                self.effect(kind::CONTINUE, &[]);
                Ok(())
            }
            Stmt::Pass(_) => Ok(()),
            _ => Err(unexpected(stmt, "a TIR statement: a loop, `with T.sblock(...)`, a store, `if`, `T.evaluate`")),
        }
    }

    /// Reads `A[i] += value`.
    fn augmented(&mut self, assign: &'a StmtAugAssign, stmt: &'a Stmt) -> Read<()> {
        let Some(op) = binary_op(assign.op) else {
            return Err(unexpected(stmt, "an operation that TIR supports, such as `+=`"));
        };
        let from = self.b.n_nodes();
        let (before, value) = (self.value(&assign.target)?, self.value(&assign.value)?);
        let value = self.operator(op, before, value, from, span(stmt))?;
        match &*assign.target {
            Expr::Name(name) => self.assign_value(name.id.as_str(), value),
            Expr::Subscript(target) => self.store(target, value),
            _ => Err(unexpected(stmt, "one variable, or an element of a buffer, to the left of the operator")),
        }
    }

    /// Rejects a literal that an element of the buffer cannot represent.
    fn holds(&self, buffer: E, value: E, target: &ExprSubscript) -> Read<()> {
        let number = self.b.with(value.v, |value| value.dim().and_then(|dim| dim.as_int()));
        match number.filter(|_| value.is == Is::Literal && buffer.dtype.is_int() && buffer.dtype.lanes() == 1) {
            Some(number) if !buffer.dtype.has_integer(number.into()) => {
                let message = format!("{number} does not fit the elements of the buffer, which are {}", buffer.dtype);
                Err(Diagnostic::new(span(target), message)
                    .help(format!("T.Cast(\"{}\", T.int64({number})) keeps its lowest bits", buffer.dtype)))
            }
            _ => Ok(()),
        }
    }

    /// Reads `A[i] = value`.
    fn store(&mut self, target: &'a ExprSubscript, value: E) -> Read<()> {
        let buffer = self.buffer(&target.value)?;
        self.holds(buffer, value, target)?;
        let mut ops = vec![buffer.v, self.stored(value, buffer.dtype)];
        self.indices(&target.slice, buffer, &mut ops)?;
        self.effect(kind::STORE, &ops);
        Ok(())
    }

    pub(super) fn effect(&mut self, kind: u16, ops: &[V]) {
        self.b.node(NodeSpec::new(kind).flags(flag::IMPURE), ops, None);
    }

    pub(super) fn tir_call_of<'c>(&self, expr: &'c Expr) -> Option<(&'c str, &'c ExprCall)>
    where
        'a: 'c,
    {
        let Expr::Call(call) = expr else { return None };
        Some((path_after(self.scope.text, &call.func, "T")?, call))
    }

    fn expression(&mut self, expr: &'a Expr) -> Read<()> {
        let Some((name, call)) = self.tir_call_of(expr) else {
            if let Expr::Call(call) = expr
                && let Expr::Attribute(method) = &*call.func
                && method.attr.as_str() == "vstore"
            {
                return self.vstore(&method.value, call);
            }
            // A docstring is a comment.
            if expr.is_string_literal_expr() {
                return Ok(());
            }
            let e = self.value(expr)?;
            self.effect(kind::EVALUATE, &[e.v]);
            return Ok(());
        };
        let args = &*call.arguments.args;
        if matches!(name, "reads" | "writes" | "where" | "sblock_attr" | "block_attr") {
            self.only_in_block(call)?;
        }
        match (name, args) {
            ("func_attr", [dict]) => self.func_attr(dict),
            ("reads", _) => self.accesses(args, 0),
            ("writes", _) => self.accesses(args, 1),
            ("where", [cond]) => {
                let cond = self.value(cond)?;
                self.effect(kind::WHERE, &[cond.v]);
                Ok(())
            }
            ("sblock_attr" | "block_attr", [dict]) => self.annotate(dict),
            ("evaluate", [value]) => {
                let value = self.expr(value)?;
                let value = if value.is == Is::Scalar { self.load_scalar(value) } else { value };
                self.effect(kind::EVALUATE, &[value.v]);
                Ok(())
            }
            ("attr", _) => self.attr(call),
            ("Assert", [cond, message]) => self.assert(cond, Some(message), span(call)),
            ("launch_thread", _) => self.launch(call, None),
            _ => {
                let value = self.value(expr)?;
                self.effect(kind::EVALUATE, &[value.v]);
                Ok(())
            }
        }
    }

    fn vstore(&mut self, buffer: &'a Expr, call: &'a ExprCall) -> Read<()> {
        let [indices, value] = &*call.arguments.args else {
            return Err(Diagnostic::new(span(call), "expected A.vstore([i], value, predicate=p)"));
        };
        let (buffer, value) = (self.buffer(buffer)?, self.value(value)?);
        let mut ops = vec![buffer.v, value.v];
        self.list_indices(indices, times(value.dtype, buffer.dtype), &mut ops)?;
        let mut spec = NodeSpec::new(kind::STORE).flags(flag::IMPURE);
        if let Some(predicate) = keyword(call, "predicate") {
            ops.push(self.value(predicate)?.v);
            spec = spec.a(1);
        }
        self.b.node(spec, &ops, None);
        Ok(())
    }

    fn accesses(&mut self, args: &'a [Expr], a: u32) -> Read<()> {
        let items = match args {
            [Expr::List(list)] => &*list.elts,
            items => items,
        };
        items.iter().try_for_each(|item| self.access(item, a).map(drop))
    }

    /// Reads annotations of a block. Buffers and regions in them become operands.
    fn annotate(&mut self, dict: &'a Expr) -> Read<()> {
        let Expr::Dict(dict) = dict else {
            return Err(Diagnostic::new(span(dict), "expected a dict such as {\"axis\": 0}"));
        };
        let (mut ops, mut entries) = (Vec::new(), Vec::new());
        for item in &dict.items {
            let Some(key) = &item.key else {
                return Err(Diagnostic::new(span(&item.value), "expected a string as the key"));
            };
            entries.push((self.scope.string(key)?, self.annotation(&item.value, &mut ops)?));
        }
        let attrs = self.b.attrs(entries.iter().map(|(key, value)| (key.as_str(), value.clone())));
        self.b.node(NodeSpec::new(kind::ANNOTATE).attrs(attrs).flags(flag::IMPURE), &ops, None);
        Ok(())
    }

    fn annotation(&mut self, value: &'a Expr, ops: &mut Vec<V>) -> Read<Attr> {
        match value {
            Expr::Name(name) => {
                let e = self.lookup(name.id.as_str(), span(name))?;
                ops.push(e.v);
                Ok(Attr::Object("operand".to_string(), [(None, Attr::Int(ops.len() as i64 - 1))].into()))
            }
            Expr::List(list) => {
                let items = list.elts.iter().map(|item| self.annotation(item, ops)).collect::<Read<_>>()?;
                Ok(Attr::List(items))
            }
            other => self.plain_attr(other),
        }
    }

    /// Reads `T.attr(node, "key", value)` or `T.attr({"key": value})`; opens one region per key.
    fn attr(&mut self, call: &'a ExprCall) -> Read<()> {
        match &*call.arguments.args {
            [Expr::Dict(dict)] => {
                for item in &dict.items {
                    let Some(Expr::StringLiteral(key)) = &item.key else {
                        return Err(Diagnostic::new(span(&item.value), "expected a string as the key"));
                    };
                    let value = self.value_or_text(&item.value)?;
                    self.begin_attr(key.value.to_str(), &[value.v], Vec::new());
                }
                Ok(())
            }
            [node, Expr::StringLiteral(key), value] => {
                let (mut entries, mut nodes) = (Vec::new(), Vec::new());
                match self.tir_call_of(node) {
                    Some(("iter_var", call))
                        if !matches!(call.arguments.args.first(), Some(Expr::StringLiteral(_))) =>
                    {
                        nodes = self.iter_var_node(call, &mut entries)?;
                        if matches!(key.value.to_str(), "thread_extent" | "virtual_thread") {
                            self.is_new_thread(call, nodes[0])?;
                        }
                    }
                    // A target or iteration variable is not an expression.
                    Some(("target" | "iter_var", _)) => entries.push(("node", self.plain_attr(node)?)),
                    _ => nodes.push(self.expr(node)?.v),
                }
                let value = self.value_or_text(value)?;
                let ops: Vec<V> = std::iter::once(value.v).chain(nodes).collect();
                self.begin_attr(key.value.to_str(), &ops, entries);
                Ok(())
            }
            _ => Err(Diagnostic::new(span(call), "expected an attribute")
                .help("T.attr(A, \"storage_alignment\", 64), T.attr({\"compute_scope\": \"f\"})")),
        }
    }

    /// Reads `T.iter_var(i, T.Range(0, 16), "DataPar", "")`. Returns the variable, and the start and extent of its
    /// range, if any. The kind of the variable becomes an attribute.
    fn iter_var_node(&mut self, call: &'a ExprCall, entries: &mut Vec<(&'static str, Attr)>) -> Read<Vec<V>> {
        let usage = "T.iter_var(i, T.Range(0, 16), \"DataPar\", \"\"), or None as the range";
        let [var, range, Expr::StringLiteral(kind_), Expr::StringLiteral(thread)] = &*call.arguments.args else {
            return Err(
                Diagnostic::new(span(call), "expected a variable, its range, its kind and its thread").help(usage)
            );
        };
        const KINDS: &[&str] = &[
            "DataPar",
            "ThreadIndex",
            "CommReduce",
            "Ordered",
            "Opaque",
            "Unrolled",
            "Vectorized",
            "Parallelized",
            "Tensorized",
        ];
        if !KINDS.contains(&kind_.value.to_str()) {
            let message = format!("unknown kind of iteration variable `{}`", kind_.value.to_str());
            return Err(Diagnostic::new(span(kind_), message).help(KINDS.join(", ")));
        }
        let var = match var {
            Expr::Name(name) => self.lookup(name.id.as_str(), span(name))?,
            other => return Err(Diagnostic::new(span(other), "expected a variable").help(usage)),
        };
        let mut nodes = vec![var.v];
        match range {
            Expr::NoneLiteral(_) => {}
            Expr::Tuple(pair) if pair.elts.len() == 2 => nodes.extend(self.start_and_extent(&pair.elts)?),
            other => match self.tir_call_of(other) {
                Some(("Range", range)) if range.arguments.args.len() == 2 => {
                    nodes.extend(self.start_and_extent(&range.arguments.args)?);
                }
                _ => return Err(Diagnostic::new(span(other), "expected a range").help(usage)),
            },
        }
        entries.push(("iter_type", Attr::Str(kind_.value.to_str().to_string())));
        entries.push(("thread", Attr::Str(thread.value.to_str().to_string())));
        Ok(nodes)
    }

    /// Checks that a variable may become a thread variable, that is, does not already belong to a loop, block or
    /// parameter.
    ///
    /// # Errors
    /// Fails at the variable.
    fn is_new_thread(&self, call: &ExprCall, var: V) -> Read<()> {
        let what = match self.b.kind(var) {
            kind::LOOP_VAR if var.word() > 0 && self.b.kind(self.b.value_of_word(var.word() - 1)) == kind::FOR => {
                "the variable of a loop"
            }
            kind::ITER_VAR => "an iterator of a block",
            kind::PARAM => "a parameter",
            kind::BIND => "a variable that has a value",
            _ if var.is_leaf() => "a dimension of a buffer",
            _ => return Ok(()),
        };
        let at = call.arguments.args.first().map_or_else(|| span(call), span);
        let name = self.scope.text.get(at.clone()).unwrap_or_default();
        let help = format!("declare a separate variable: {name} = T.env_thread(\"threadIdx.x\")");
        Err(Diagnostic::new(at, format!("`{name}` is {what}, and cannot be a thread as well")).help(help))
    }

    /// Reads the start and extent of a range given by start and end.
    fn start_and_extent(&mut self, pair: &'a [Expr]) -> Read<[V; 2]> {
        let (min, extent) = self.range(&pair[0], &pair[1])?;
        Ok([min.v, extent.v])
    }

    fn begin_attr(&mut self, key: &str, ops: &[V], node: Vec<(&'static str, Attr)>) {
        let mut entries = vec![("key", Attr::Str(key.to_string()))];
        entries.extend(node);
        let attrs = self.b.attrs(entries);
        self.b.begin(NodeSpec::new(kind::ATTR).attrs(attrs), ops, None);
    }

    /// Reads `T.launch_thread("threadIdx.x", 8)`; opens the region.
    pub(super) fn launch(&mut self, call: &'a ExprCall, name: Option<&'a str>) -> Read<()> {
        let usage = "tx = T.launch_thread(\"threadIdx.x\", 8)";
        let [tag, extent] = in_order(call, "T.launch_thread", ["thread", "extent"])?;
        let extent = self.value(extent)?;
        match tag {
            Expr::StringLiteral(tag) => {
                // An unnamed thread also has a variable.
                let name = name.unwrap_or("v");
                let attrs = self.b.attrs([("thread", Attr::Str(tag.value.to_str().to_string()))]);
                self.b.begin(NodeSpec::new(kind::LAUNCH).attrs(attrs), &[extent.v], None);
                self.loop_var(name, extent);
                Ok(())
            }
            Expr::Name(var) => {
                let (name, at) = (var.id.as_str(), span(var));
                let var = self.lookup(name, at.clone())?;
                let is_thread = self.b.with(var.v, |value| value.kind() == kind::VAR && value.attr("thread").is_some());
                if !is_thread {
                    return Err(Diagnostic::new(at, format!("`{name}` is not a thread"))
                        .help(format!("declare it with `{name} = T.env_thread(\"threadIdx.x\")`")));
                }
                self.b.begin(NodeSpec::new(kind::LAUNCH), &[extent.v, var.v], None);
                Ok(())
            }
            other => Err(Diagnostic::new(span(other), "expected a thread tag").help(usage)),
        }
    }

    /// Creates the variable of a loop or thread. A free variable with the same name, used above, is the same variable.
    fn loop_var(&mut self, name: &'a str, like: E) -> E {
        let ty = self.prim_type(like.dtype);
        let spec = NodeSpec::new(kind::LOOP_VAR).ty(ty).flags(flag::INNER);
        let is_free =
            |e: &E| self.b.kind(e.v) == kind::VAR && self.b.with(e.v, |value| value.attr("scope_id").is_none());
        let free = self.known(name).filter(is_free).map(|e| e.v);
        let v = self.b.node(spec, free.as_slice(), Some(name));
        let e = typed(v, ty, like.dtype);
        self.define_name(name, e);
        e
    }

    fn annotated(
        &mut self,
        name: &'a str,
        at: Range<usize>,
        annotation: &'a Expr,
        value: Option<&'a Expr>,
    ) -> Read<()> {
        let text = self.scope.text;
        if path_after(text, annotation, "T") == Some("let") {
            let Some(value) = value else { return Err(Diagnostic::new(at, "expected a value")) };
            let value = self.value_or_text(value)?;
            return self.bind(name, None, value);
        }
        if let Expr::Subscript(subscript) = annotation
            && path_after(text, &subscript.value, "T") == Some("let")
        {
            let Some(value) = value else { return Err(Diagnostic::new(at, "expected a value")) };
            let value = self.value_or_text(value)?;
            return self.bind(name, Some(&subscript.slice), value);
        }
        // `x: T.int32 = 0` is a single-element buffer, used by name.
        let (_, dtype) = self.value_type(annotation)?;
        if !dtype.is_known() || dtype == DType::HANDLE {
            return Err(Diagnostic::new(span(annotation), "expected `T.let[...]` or the type of a scalar"));
        }
        let value = value.map(|value| self.value(value)).transpose()?;
        self.new_scalar(name, dtype, value);
        Ok(())
    }

    /// Converts a value to the data type of its destination, keeping its lanes. The result of a packed function takes
    /// the requested type.
    pub(super) fn stored(&mut self, value: E, dtype: DType) -> V {
        let to = DType::new(dtype.code(), dtype.bits(), value.dtype.lanes());
        if value.dtype == to || !is_number(value.dtype) {
            return value.v;
        }
        let packed = ["tirx.call_packed", "tirx.call_cpacked"];
        let packed = self.b.with(value.v, |value| packed.iter().any(|name| value.as_call_to(name).is_some()));
        if packed { value.v } else { self.converted(value, to).v }
    }

    fn for_(&mut self, stmt: &'a StmtFor) -> Read<()> {
        let usage =
            "for i in range(16), for i, j in T.grid(16, 16), for i in T.thread_binding(16, thread=\"threadIdx.x\")";
        let wrong = |at: Range<usize>| Diagnostic::new(at, "expected a TIR loop").help(usage);
        let Expr::Call(call) = &*stmt.iter else { return Err(wrong(span(&*stmt.iter))) };
        if !stmt.orelse.is_empty() {
            return Err(Diagnostic::new(span(&*stmt.iter), "a loop in TIR cannot have an `else:`"));
        }
        let mark = self.mark();
        let name = match &*call.func {
            Expr::Name(name) if name.id.as_str() == "range" => "serial",
            func => path_after(self.scope.text, func, "T").ok_or_else(|| wrong(span(&*call.func)))?,
        };
        let regions = match (name, &*stmt.target) {
            ("grid", target) => {
                let targets = match target {
                    Expr::Tuple(tuple) => &*tuple.elts,
                    Expr::List(list) => &*list.elts,
                    one => std::slice::from_ref(one),
                };
                self.grid(targets, call, span(&*stmt.target))?;
                targets.len()
            }
            (_, Expr::Name(var)) => {
                self.loop_of(name, var.id.as_str(), call, usage)?;
                1
            }
            (_, target) => return Err(wrong(span(target))),
        };
        self.body(&stmt.body);
        (0..regions).for_each(|_| self.b.end());
        self.leave(mark);
        Ok(())
    }

    /// Reads `for i, j in T.grid(16, n)` or `for i, j in T.grid(*A.shape)`: one loop per extent, or per start and
    /// extent.
    fn grid(&mut self, targets: &'a [Expr], call: &'a ExprCall, at: Range<usize>) -> Read<()> {
        let usage = "for i, j in T.grid(16, n), for i, j in T.grid(*A.shape)";
        let named = call.arguments.keywords.first();
        if let Some(named) = named {
            return Err(Diagnostic::new(span(named), "unexpected argument of a loop").help(usage));
        }
        let mut left = targets.iter();
        let mut n_extents = 0;
        for extent in &call.arguments.args {
            let ranges = match (self.starred_shape(extent)?, extent) {
                (Some(extents), _) => extents.into_iter().map(|extent| (None, extent)).collect(),
                (None, Expr::Tuple(pair)) if pair.elts.len() == 2 => {
                    vec![(Some(self.value(&pair.elts[0])?), self.value(&pair.elts[1])?)]
                }
                (None, extent) => vec![(None, self.value(extent)?)],
            };
            for (min, extent) in ranges {
                n_extents += 1;
                let Some(target) = left.next() else { continue };
                let Expr::Name(name) = target else {
                    return Err(Diagnostic::new(span(target), "expected a variable of a loop").help(usage));
                };
                let zero = typed(self.imm(0, extent.dtype), extent.ty, extent.dtype);
                self.begin_for(name.id.as_str(), min.unwrap_or(zero), extent, None, AttrsId::NONE);
            }
        }
        if n_extents == targets.len() {
            return Ok(());
        }
        let message = format!("{} variables for {n_extents} extents", targets.len());
        Err(Diagnostic::new(at, message).help(usage))
    }

    fn begin_for(&mut self, name: &'a str, min: E, extent: E, step: Option<V>, attrs: AttrsId) {
        let ops: Vec<V> = [min.v, extent.v].into_iter().chain(step).collect();
        self.b.begin(NodeSpec::new(kind::FOR).attrs(attrs), &ops, None);
        let var = self.loop_var(name, extent);
        self.loops.insert(var.v.word(), (min.v, extent.v));
    }

    /// Reads one loop: its start, extent, step, kind and annotations.
    fn loop_of(&mut self, kind: &str, var: &'a str, call: &'a ExprCall, usage: &str) -> Read<()> {
        let mut entries: Vec<(&str, Attr)> = Vec::new();
        match kind {
            "serial" => {}
            "parallel" | "vectorized" | "unroll" | "thread_binding" => {
                entries.push(("kind", Attr::Str(kind.to_string())));
            }
            _ => return Err(Diagnostic::new(span(&*call.func), format!("unknown kind of loop `T.{kind}`")).help(usage)),
        }
        let (mut bounds, mut step, mut thread) = (Vec::new(), None, None);
        for (i, arg) in call.arguments.args.iter().enumerate() {
            match (i, arg) {
                (_, Expr::StringLiteral(tag)) if kind == "thread_binding" => thread = Some(tag),
                (0 | 1, bound) => bounds.push(bound),
                (2, value) => step = Some(value),
                (_, extra) => return Err(Diagnostic::new(span(extra), "too many arguments").help(usage)),
            }
        }
        for item in &call.arguments.keywords {
            match (item.arg.as_ref().map(|arg| arg.as_str()), &item.value) {
                (Some("thread"), Expr::StringLiteral(tag)) if kind == "thread_binding" => thread = Some(tag),
                (Some("annotations"), dict) => match self.plain_dict(dict)? {
                    none if none.is_empty() => {}
                    some => entries.push(("annotations", Attr::dict(some))),
                },
                (Some("step"), value) => step = Some(value),
                (Some("start"), value) if bounds.is_empty() => bounds.push(value),
                (Some("stop"), value) if bounds.len() == 1 => bounds.push(value),
                (Some("unroll"), Expr::BooleanLiteral(value)) if !value.value => {
                    entries.push(("annotations", Attr::dict([("disable_unroll".to_string(), Attr::Bool(true))])));
                }
                (Some("unroll"), value) => {
                    let value = self.plain_attr(value)?;
                    entries.push(("annotations", Attr::dict([("pragma_unroll".to_string(), value)])));
                }
                _ => return Err(Diagnostic::new(span(item), "unexpected argument of a loop").help(usage)),
            }
        }
        match (kind == "thread_binding", thread) {
            (true, Some(tag)) => entries.push(("thread", Attr::Str(tag.value.to_str().to_string()))),
            (true, None) => return Err(Diagnostic::new(span(call), "`thread` is missing").help(usage)),
            _ => {}
        }
        let (min, extent) = match &*bounds {
            [extent] => {
                let extent = self.value(extent)?;
                (typed(self.imm(0, extent.dtype), extent.ty, extent.dtype), extent)
            }
            [lower, upper] => self.range(lower, upper)?,
            _ => return Err(Diagnostic::new(span(call), "a loop needs an extent").help(usage)),
        };
        let step = step.map(|step| self.value(step)).transpose()?.map(|step| self.stored(step, extent.dtype));
        let attrs = if entries.is_empty() { AttrsId::NONE } else { self.b.attrs(entries) };
        self.begin_for(var, min, extent, step, attrs);
        Ok(())
    }

    fn if_(&mut self, stmt: &'a StmtIf) -> Read<()> {
        // If Python decides the condition, TVM reads only one branch.
        if let Some(always) = python_truth(&stmt.test) {
            return self.decided(stmt, always);
        }
        let cond = self.value(&stmt.test)?;
        self.b.begin(NodeSpec::new(kind::COND), &[cond.v], None);
        self.scope_of(&stmt.body);
        // An `elif` is an If in the `else:` branch of the previous If.
        let mut open = 1;
        for clause in &stmt.elif_else_clauses {
            match &clause.test {
                Some(test) => {
                    self.b.begin(NodeSpec::new(kind::SCOPE), &[], None);
                    let cond = self.value(test)?;
                    self.b.begin(NodeSpec::new(kind::COND), &[cond.v], None);
                    self.scope_of(&clause.body);
                    open += 2;
                }
                None => self.scope_of(&clause.body),
            }
        }
        (0..open).for_each(|_| self.b.end());
        Ok(())
    }

    /// Reads the branch of an If whose condition is `True` or `False`.
    fn decided(&mut self, stmt: &'a StmtIf, holds: bool) -> Read<()> {
        if holds {
            self.body(&stmt.body);
            return Ok(());
        }
        match &*stmt.elif_else_clauses {
            [] => Ok(()),
            [otherwise] if otherwise.test.is_none() => {
                self.body(&otherwise.body);
                Ok(())
            }
            [next, ..] => {
                Err(Diagnostic::new(span(next), "`elif` cannot follow `if False:`; write this condition first"))
            }
        }
    }

    fn scope_of(&mut self, stmts: &'a [Stmt]) {
        self.b.begin(NodeSpec::new(kind::SCOPE), &[], None);
        self.body(stmts);
        self.b.end();
    }

    fn with(&mut self, with: &'a StmtWith) -> Read<()> {
        let (depth, mark, mut block) = (self.b.depth(), self.mark(), false);
        for item in &with.items {
            let at = span(&item.context_expr);
            let Some((name, call)) = self.tir_call_of(&item.context_expr) else {
                return Err(Diagnostic::new(at, "expected `with T.sblock(...)`, `T.init()`, `T.attr(...)`"));
            };
            let var = match item.optional_vars.as_deref() {
                Some(Expr::Name(name)) => Some(name.id.as_str()),
                Some(other) => return Err(Diagnostic::new(span(other), "expected a variable")),
                None => None,
            };
            match name {
                "sblock" | "block" => {
                    self.begin_block(call, &with.body)?;
                    block = true;
                }
                "init" => {
                    self.only_in_block(call)?;
                    self.b.begin(NodeSpec::new(kind::INIT), &[], None);
                }
                "attr" => self.attr(call)?,
                "Assert" => self.expression(&item.context_expr)?,
                "launch_thread" => self.launch(call, var)?,
                _ => {
                    return Err(Diagnostic::new(at, format!("`T.{name}` cannot be used with `with`"))
                        .help("with T.sblock(\"name\"), T.init(), T.attr(...), T.launch_thread(...)"));
                }
            }
        }
        if block {
            let outer = self.enter_block();
            self.body(self.in_order(&with.body));
            self.leave_block(outer);
        } else {
            self.body(&with.body)
        }
        while self.b.depth() > depth {
            self.b.end();
        }
        self.leave(mark);
        Ok(())
    }

    /// Orders the statements of a block. Leading iterators, predicates and free buffers keep their places. Of the remaining
    /// statements, reads come first, then writes, then all others.
    fn in_order(&self, stmts: &'a [Stmt]) -> Vec<&'a Stmt> {
        const DECLARES: i32 = -1;
        let declares = |value: &Expr| match value {
            Expr::Tuple(tuple) => tuple.elts.iter().all(|value| sym_declaration(self.scope.text, value).is_some()),
            value => sym_declaration(self.scope.text, value).is_some(),
        };
        let rank = |stmt: &Stmt| match stmt {
            Stmt::Expr(expr) => match self.tir_call_of(&expr.value).map(|(name, _)| name) {
                Some("where") => 0,
                Some("reads") => 1,
                Some("writes") => 2,
                _ => 3,
            },
            Stmt::Assign(assign) => match self.tir_call_of(&assign.value).map(|(name, _)| name) {
                Some("Buffer" | "buffer" | "buffer_decl") => 0,
                Some(name) if name.starts_with("axis.") => 0,
                _ if declares(&assign.value) => DECLARES,
                _ => 3,
            },
            _ => 3,
        };
        let mut ranks: Vec<i32> = stmts.iter().map(rank).collect();
        // The declaration of a free variable stays with the next statement.
        let mut next = 3;
        for rank in ranks.iter_mut().rev() {
            *rank = if *rank == DECLARES { next } else { *rank };
            next = *rank;
        }
        let head = ranks.iter().position(|rank| *rank > 0).unwrap_or(stmts.len());
        let mut order: Vec<usize> = (0..stmts.len()).collect();
        order[head..].sort_by_key(|i| if ranks[*i] == 0 { 3 } else { ranks[*i] });
        order.into_iter().map(|i| &stmts[i]).collect()
    }

    fn begin_block(&mut self, call: &'a ExprCall, body: &[Stmt]) -> Read<()> {
        accept(call, 2, &["name", "no_realize"], "with T.sblock(\"name\")")?;
        match call.arguments.args.get(1).or_else(|| keyword(call, "no_realize")) {
            None => {}
            Some(Expr::BooleanLiteral(value)) if !value.value => {}
            Some(other) => {
                let message = "blocks with `no_realize=True` are not supported";
                return Err(Diagnostic::new(span(other), message).help("no_realize=False"));
            }
        }
        let name = match call.arguments.args.first().or_else(|| keyword(call, "name")) {
            Some(Expr::StringLiteral(name)) => name.value.to_str(),
            None => "",
            Some(other) => return Err(Diagnostic::new(span(other), "expected the name of the block")),
        };
        let says = |stmt: &&Stmt, what: &str| match stmt {
            Stmt::Expr(expr) => self.tir_call_of(&expr.value).is_some_and(|(name, _)| name == what),
            _ => false,
        };
        for what in ["reads", "writes", "where"] {
            if let Some(second) = body.iter().filter(|stmt| says(stmt, what)).nth(1) {
                return Err(Diagnostic::new(span(second), format!("T.{what} appears twice in the block"))
                    .help("combine both into one"));
            }
        }
        let says = |what: &str| body.iter().any(|stmt| says(&stmt, what));
        let unsaid = [("reads", "no_reads"), ("writes", "no_writes")].into_iter().filter(|(what, _)| !says(what));
        let entries: Vec<_> = unsaid.map(|(_, key)| (key, Attr::Bool(true))).collect();
        self.unsaid |= !entries.is_empty();
        let attrs = if entries.is_empty() { AttrsId::NONE } else { self.b.attrs(entries) };
        self.b.begin(NodeSpec::new(kind::SBLOCK).attrs(attrs).flags(flag::BOUND), &[], Some(name));
        Ok(())
    }

    fn assert(&mut self, test: &'a Expr, message: Option<&'a Expr>, at: Range<usize>) -> Read<()> {
        let cond = self.value(test)?;
        let mut ops = vec![cond.v];
        match message {
            Some(Expr::Tuple(tuple)) if tuple.elts.len() == 2 => {
                ops.push(self.value_or_text(&tuple.elts[0])?.v);
                let parts = match &tuple.elts[1] {
                    Expr::List(parts) => &*parts.elts,
                    text @ Expr::StringLiteral(_) => std::slice::from_ref(text),
                    other => {
                        let message = "expected a list of the parts of the message, or a string";
                        return Err(Diagnostic::new(span(other), message));
                    }
                };
                for part in parts {
                    ops.push(self.value_or_text(part)?.v);
                }
            }
            Some(Expr::StringLiteral(text)) => {
                let (error, text) = (self.b.string("RuntimeError"), self.b.string(text.value.to_str()));
                ops.extend([error, text]);
            }
            _ => {
                return Err(Diagnostic::new(at, "an assertion needs a message")
                    .help("assert n == 4, (\"ValueError\", [\"n must be 4\"])"));
            }
        }
        self.effect(kind::ASSERT, &ops);
        Ok(())
    }
}

pub(super) fn one() -> Dim {
    Dim::int(1, DType::I32)
}
