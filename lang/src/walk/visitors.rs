//! Visitors: one forward loop over the nodes, without recursion. Nested expressions precede their users, so program order is post-order;
//! region headers are visited on entry and on exit.

use crate::ir::records::{LEAF_BIT, flag, kind};
use crate::ir::{Body, Call, Expr, Function, Stmt, Value};
use crate::scalar::PrimOp;

/// Whether to visit the content of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Walk {
    /// Visit the content.
    Into,
    /// Skip the content; [`ExprVisitor::leave_region`] is not called for the region.
    Skip,
}

/// A visitor with a hook for each kind of node. All hooks have empty defaults; start with [`ExprVisitor::visit_body`].
///
/// Hooks do not call each other: nodes are visited in program order, with nested expressions before their users, so nesting may be deep. To
/// compute a result for each expression, use [`ExprFunctor`](crate::walk::functor::ExprFunctor); for TIR, use [`StmtVisitor`].
///
/// The example collects the called functions of a module, and prints one line for each binding, indented by branch:
///
/// ```
/// use plugin_api::prelude::*;
/// use plugin_api::tvm::{BlockBuilder, ExprVisitor, Walk};
///
/// /// Finds the functions that are called.
/// #[derive(Default)]
/// struct CallChecker(Vec<String>);
/// impl<'a> ExprVisitor<'a> for CallChecker {
///     fn visit_call(&mut self, call: Call<'a>) {
///         self.0.extend(call.global().map(str::to_string));
///     }
/// }
///
/// /// Prints, with regions indented.
/// #[derive(Default)]
/// struct PrintVisitor { text: String, depth: usize }
/// impl<'a> ExprVisitor<'a> for PrintVisitor {
///     fn visit_binding(&mut self, binding: Value<'a>) {
///         let (name, indent) = (binding.name().unwrap_or("_"), 2 * self.depth);
///         self.text.push_str(&format!("{:indent$}{name}\n", ""));
///     }
///     fn enter_region(&mut self, header: Value<'a>) -> Walk {
///         self.depth += usize::from(matches!(header.view(), Expr::Branch));
///         Walk::Into
///     }
///     fn leave_region(&mut self, header: Value<'a>) {
///         self.depth -= usize::from(matches!(header.view(), Expr::Branch));
///     }
/// }
///
/// let ctx = Ctx::detached();
/// let bb = BlockBuilder::new(&ctx);
/// let (x, bool) = (Type::tensor([8, 8], DType::F32), Type::tensor([0i64; 0], DType::BOOL));
/// bb.function("f", |b| b.emit_func_output(b.param("x", x.clone())));
/// bb.function("main", |b| {
///     let (x, c) = (b.param("x", x.clone()), b.param("c", bool.clone()));
///     let y = b.if_(c, |b| b.emit(b.call_global("f", &[x])), |_| x);
///     b.emit_func_output(b.emit(y));
/// });
/// let module = bb.get()?;
/// let main = module.get("main").expect("is there");
///
/// let mut calls = CallChecker::default();
/// calls.visit_body(main);
/// assert_eq!(calls.0, ["f"]);
/// let mut print = PrintVisitor::default();
/// print.visit_body(main);
/// assert_eq!(print.text, "gv1\n  gv\n");
/// # Ok::<(), PassError>(())
/// ```
///
/// A visitor can also check a custom property. Here, every tensor argument must have a known shape:
///
/// ```
/// use plugin_api::prelude::*;
/// use plugin_api::ir::{AttrsId, BodyBuilder, SealError};
/// use plugin_api::tvm::ExprVisitor;
///
/// #[derive(Default)]
/// struct KnownShapes { wrong: Option<PassError> }
/// impl<'a> ExprVisitor<'a> for KnownShapes {
///     fn visit_call(&mut self, call: Call<'a>) {
///         if let Some(arg) = call.args().find(|arg| arg.ty().is_tensor() && arg.ty().dims().is_none()) {
///             let message = format!("`{}` has no known shape; add a match_cast", arg.name().unwrap_or("_"));
///             self.wrong.get_or_insert(PassError::new(message).at(call.value()));
///         }
///     }
/// }
///
/// let mut b = BodyBuilder::new();
/// b.begin_function(0, AttrsId::NONE, None);
/// let ty = b.ty(&Type::Tensor(TensorType { dtype: DType::F32, ndim: 2, shape: None, vdevice: None }));
/// let (x, relu) = (b.param("x", ty), b.op("relax.nn.relu"));
/// b.begin_block();
/// let y = b.call(relu, &[x], AttrsId::NONE, ty, false, Some("y"));
/// b.end();
/// b.end_function(y, ty);
/// let body = b.finish()?;
/// let mut shapes = KnownShapes::default();
/// shapes.visit_body(&body);
/// assert!(shapes.wrong.expect("x is of any shape").to_string().contains("`x` has no known shape"));
/// # Ok::<(), SealError>(())
/// ```
#[allow(unused_variables, reason = "the defaults do nothing")]
pub trait ExprVisitor<'a> {
    /// Visits all nodes of a body.
    fn visit_body(&mut self, body: &'a Body)
    where
        Self: Sized,
    {
        walk(&mut Exprs(self), body);
    }

    /// Visits the header of any region, before its content and after the hook of its kind.
    fn enter_region(&mut self, header: Value<'a>) -> Walk {
        Walk::Into
    }

    /// Visits the header of any region, after its content.
    fn leave_region(&mut self, header: Value<'a>) {}

    /// Visits a value that defines a name, before the hook of its kind: a parameter or binding.
    fn visit_var_def(&mut self, var: Value<'a>) {}

    /// Visits a use of a parameter or binding, before its user; once per use.
    fn visit_var(&mut self, var: Value<'a>, user: Value<'a>) {}

    /// Visits a binding, before the hook of its kind.
    fn visit_binding(&mut self, binding: Value<'a>) {}

    /// Visits a leaf operand (operator, constant, shape…), before its user; once per use.
    fn visit_leaf(&mut self, leaf: Value<'a>, user: Value<'a>) {}

    /// Visits a parameter.
    fn visit_param(&mut self, param: Value<'a>) {}

    /// Visits a call.
    fn visit_call(&mut self, call: Call<'a>) {}

    /// Visits a tuple.
    fn visit_tuple(&mut self, tuple: Value<'a>) {}

    /// Visits an element of a tuple.
    fn visit_tuple_get(&mut self, get: Value<'a>, tuple: Value<'a>, index: u32) {}

    /// Visits an If, before its branches.
    fn visit_if(&mut self, value: Value<'a>) {}

    /// Visits a match_cast.
    fn visit_match_cast(&mut self, value: Value<'a>) {}

    /// Visits an alias of a value.
    fn visit_alias(&mut self, value: Value<'a>) {}

    /// Visits a function, including the root, before its content.
    fn visit_function(&mut self, function: Function<'a>) {}

    /// Visits the result of a function or branch.
    fn visit_yield(&mut self, value: Value<'a>) {}

    /// Visits a block, branch or nested expression of blocks, before its content.
    fn visit_block(&mut self, header: Value<'a>) {}

    /// Visits a node of a kind that is not Relax, or that this API does not support.
    fn visit_other(&mut self, value: Value<'a>) {}
}

/// The events of a traversal of all nodes; each kind of visitor implements them with its hooks.
trait Steps<'a> {
    fn leaf(&mut self, leaf: Value<'a>, user: Value<'a>);
    fn node(&mut self, value: Value<'a>);
    fn enter(&mut self, header: Value<'a>) -> Walk;
    fn leave(&mut self, header: Value<'a>);
}

fn walk<'a>(steps: &mut impl Steps<'a>, body: &'a Body) {
    let mut open: Vec<(usize, Value<'a>)> = Vec::new();
    let mut at = 0;
    while at < body.len() {
        while let Some((_, header)) = open.pop_if(|(end, _)| *end <= at) {
            steps.leave(header);
        }
        let value = body.value_at(at);
        at += 1;
        value.operands().filter(|operand| operand.is_leaf()).for_each(|leaf| steps.leaf(leaf, value));
        steps.node(value);
        if value.has(flag::REGION) {
            match steps.enter(value) {
                Walk::Into => open.push((value.end(), value)),
                Walk::Skip => at = value.end(),
            }
        }
    }
    while let Some((_, header)) = open.pop() {
        steps.leave(header);
    }
}

struct Exprs<'v, V>(&'v mut V);

impl<'a, V: ExprVisitor<'a>> Steps<'a> for Exprs<'_, V> {
    fn leaf(&mut self, leaf: Value<'a>, user: Value<'a>) {
        self.0.visit_leaf(leaf, user);
    }

    fn node(&mut self, value: Value<'a>) {
        value.operands().filter(|operand| operand.is_bound()).for_each(|var| self.0.visit_var(var, value));
        if value.is_bound() {
            self.0.visit_var_def(value);
        }
        if value.is_binding() {
            self.0.visit_binding(value);
        }
        visit_node(self.0, value);
    }

    fn enter(&mut self, header: Value<'a>) -> Walk {
        self.0.enter_region(header)
    }

    fn leave(&mut self, header: Value<'a>) {
        self.0.leave_region(header);
    }
}

fn visit_node<'a, V: ExprVisitor<'a>>(visitor: &mut V, value: Value<'a>) {
    let first = value.operand(0).unwrap_or(value);
    match value.kind() {
        kind::PARAM => visitor.visit_param(value),
        kind::CALL => value.as_call().into_iter().for_each(|call| visitor.visit_call(call)),
        kind::TUPLE => visitor.visit_tuple(value),
        kind::TUPLE_GET => visitor.visit_tuple_get(value, first, value.node().map_or(0, |node| node.a)),
        kind::IF => visitor.visit_if(value),
        kind::MATCH_CAST => visitor.visit_match_cast(value),
        kind::ALIAS => visitor.visit_alias(value),
        kind::FUNC => value.as_function().into_iter().for_each(|function| visitor.visit_function(function)),
        kind::YIELD => visitor.visit_yield(value),
        kind::BLOCK | kind::DATAFLOW | kind::BRANCH | kind::SEQ => visitor.visit_block(value),
        _ => visitor.visit_other(value),
    }
}

/// A visitor with hooks for each kind of TIR statement, and for their expressions. All hooks have empty defaults; start with
/// [`StmtVisitor::visit_body`]. As in [`ExprVisitor`], hooks do not call each other.
///
/// The example records the loop depth of each store:
///
/// ```
/// use plugin_api::prelude::*;
/// use plugin_api::tvm::StmtVisitor;
/// use plugin_api::tir::prim_func;
///
/// #[derive(Default)]
/// struct Stores { depth: usize, found: Vec<(usize, String)> }
/// impl<'a> StmtVisitor<'a> for Stores {
///     fn visit_for(&mut self, _: Value<'a>, _: Value<'a>, _: Value<'a>, _: Value<'a>) {
///         self.depth += 1;
///     }
///     fn leave_stmt(&mut self, header: Value<'a>) {
///         self.depth -= usize::from(matches!(header.stmt(), Some(Stmt::For { .. })));
///     }
///     fn visit_buffer_store(&mut self, _: Value<'a>, buffer: Value<'a>, _: Value<'a>) {
///         self.found.push((self.depth, buffer.name().unwrap_or("_").to_string()));
///     }
/// }
///
/// let body = prim_func(|t| {
///     let a = t.buffer_param("A", &[8], DType::I32);
///     t.serial("i", 8, |i| t.store(a, [i], i));
/// })?;
/// let mut stores = Stores::default();
/// stores.visit_body(&body);
/// assert_eq!(stores.found, [(1, "A".to_string())]);
/// # Ok::<(), PassError>(())
/// ```
#[allow(unused_variables, reason = "the defaults do nothing")]
pub trait StmtVisitor<'a> {
    /// Visits all nodes of a body.
    fn visit_body(&mut self, body: &'a Body)
    where
        Self: Sized,
    {
        walk(&mut Stmts(self), body);
    }

    /// Visits the header of a statement with content (loop, block, scope…) or of the function, before its content and after the hook of its kind.
    fn enter_stmt(&mut self, header: Value<'a>) -> Walk {
        Walk::Into
    }

    /// Visits the header of a statement with content, or of the function, after its content.
    fn leave_stmt(&mut self, header: Value<'a>) {}

    /// Visits any statement, before the hook of its kind.
    fn visit_stmt(&mut self, stmt: Value<'a>) {}

    /// Visits a loop, before its content.
    fn visit_for(&mut self, stmt: Value<'a>, var: Value<'a>, min: Value<'a>, extent: Value<'a>) {}

    /// Visits a loop that runs while a condition holds, before its content.
    fn visit_while(&mut self, stmt: Value<'a>, cond: Value<'a>) {}

    /// Visits a schedulable block, before its content.
    fn visit_sblock(&mut self, stmt: Value<'a>) {}

    /// Visits a store.
    fn visit_buffer_store(&mut self, stmt: Value<'a>, buffer: Value<'a>, value: Value<'a>) {}

    /// Visits an expression that is evaluated for its effects.
    fn visit_evaluate(&mut self, stmt: Value<'a>, value: Value<'a>) {}

    /// Visits an If, before its scopes.
    fn visit_if_then_else(&mut self, stmt: Value<'a>, cond: Value<'a>) {}

    /// Visits an attribute of statements, before the statements.
    fn visit_attr_stmt(&mut self, stmt: Value<'a>, key: &'a str, value: Value<'a>) {}

    /// Visits an assertion.
    fn visit_assert_stmt(&mut self, stmt: Value<'a>, cond: Value<'a>) {}

    /// Visits the binding of a scalar to a name.
    fn visit_bind(&mut self, stmt: Value<'a>, value: Value<'a>) {}

    /// Visits a launch of threads.
    fn visit_launch(&mut self, stmt: Value<'a>, thread: Option<&'a str>, extent: Value<'a>) {}

    /// Visits a return.
    fn visit_return(&mut self, stmt: Value<'a>, value: Option<Value<'a>>) {}

    /// Visits a `break`, the end of the innermost loop.
    fn visit_break(&mut self, stmt: Value<'a>) {}

    /// Visits a `continue`, the end of one iteration.
    fn visit_continue(&mut self, stmt: Value<'a>) {}

    /// Visits the condition under which the enclosing schedulable block is executed.
    fn visit_where(&mut self, stmt: Value<'a>, cond: Value<'a>) {}

    /// Visits the region of a buffer that a block reads or writes, a buffer matches, or a call takes: [`kind::ACCESS`].
    fn visit_access(&mut self, access: Value<'a>, buffer: Value<'a>) {}

    /// Visits the annotations of the enclosing schedulable block.
    fn visit_annotate(&mut self, stmt: Value<'a>) {}

    /// Visits the initialization of a reduction block, before its content.
    fn visit_init(&mut self, stmt: Value<'a>) {}

    /// Visits a parameter, loop variable, block iterator, or another variable.
    fn visit_var_def(&mut self, var: Value<'a>) {}

    /// Visits a buffer: matched, allocated or declared.
    fn visit_buffer(&mut self, buffer: Value<'a>) {}

    /// Visits any unnamed expression, after its nested expressions and before the hook of its kind; see [`Value::view`].
    fn visit_expr(&mut self, expr: Value<'a>) {}

    /// Visits an element of a buffer.
    fn visit_buffer_load(&mut self, load: Value<'a>, buffer: Value<'a>) {}

    /// Visits a call.
    fn visit_call(&mut self, call: Call<'a>) {}

    /// Visits arithmetic, a comparison, logic or a conversion; `op` is the operation.
    fn visit_arith(&mut self, value: Value<'a>, op: PrimOp) {}

    /// Visits a choice between two values.
    fn visit_select(&mut self, value: Value<'a>, cond: Value<'a>) {}

    /// Visits an expression with a value for a variable.
    fn visit_let(&mut self, value: Value<'a>, var: Value<'a>) {}

    /// Visits a vector of numbers with a constant step.
    fn visit_ramp(&mut self, value: Value<'a>) {}

    /// Visits a vector of equal elements.
    fn visit_broadcast(&mut self, value: Value<'a>) {}

    /// Visits a vector of elements of vectors.
    fn visit_shuffle(&mut self, value: Value<'a>) {}

    /// Visits the data, the offset or a stride of a buffer.
    fn visit_buffer_part(&mut self, value: Value<'a>, buffer: Value<'a>) {}

    /// Visits a leaf operand (number, symbolic variable, operator…), before its user; once per use.
    fn visit_leaf(&mut self, leaf: Value<'a>, user: Value<'a>) {}

    /// Visits any other node: the function, a scope, a result, or a kind that this API does not support.
    fn visit_other(&mut self, value: Value<'a>) {}
}

struct Stmts<'v, V>(&'v mut V);

impl<'a, V: StmtVisitor<'a>> Steps<'a> for Stmts<'_, V> {
    fn leaf(&mut self, leaf: Value<'a>, user: Value<'a>) {
        self.0.visit_leaf(leaf, user);
    }

    fn node(&mut self, value: Value<'a>) {
        let v = &mut *self.0;
        // Most nodes are expressions.
        let stmt = if value.is_nested() { None } else { value.stmt() };
        let Some(stmt) = stmt else {
            return match value.kind() {
                kind::PARAM | kind::LOOP_VAR | kind::ITER_VAR | kind::VAR => v.visit_var_def(value),
                kind::BUFFER => v.visit_buffer(value),
                kind::WHERE => v.visit_where(value, value.operand(0).unwrap_or(value)),
                kind::ACCESS => v.visit_access(value, value.operand(0).unwrap_or(value)),
                kind::ANNOTATE => v.visit_annotate(value),
                kind::INIT => v.visit_init(value),
                _ if value.is_nested() => visit_tir_expr(v, value),
                _ => v.visit_other(value),
            };
        };
        v.visit_stmt(value);
        match stmt {
            Stmt::For { var, min, extent, .. } => v.visit_for(value, var, min, extent),
            Stmt::While { cond } => v.visit_while(value, cond),
            Stmt::Block => v.visit_sblock(value),
            Stmt::Store { buffer, value: stored } => v.visit_buffer_store(value, buffer, stored),
            Stmt::Evaluate(expr) => v.visit_evaluate(value, expr),
            Stmt::If { cond } => v.visit_if_then_else(value, cond),
            Stmt::Attr { key, value: of } => v.visit_attr_stmt(value, key, of),
            Stmt::Assert { cond } => v.visit_assert_stmt(value, cond),
            Stmt::Bind { value: bound } => v.visit_bind(value, bound),
            Stmt::Launch { thread, extent } => v.visit_launch(value, thread, extent),
            Stmt::Return(returned) => v.visit_return(value, returned),
            Stmt::Break => v.visit_break(value),
            Stmt::Continue => v.visit_continue(value),
        }
    }

    fn enter(&mut self, header: Value<'a>) -> Walk {
        self.0.enter_stmt(header)
    }

    fn leave(&mut self, header: Value<'a>) {
        self.0.leave_stmt(header);
    }
}

fn visit_tir_expr<'a, V: StmtVisitor<'a>>(visitor: &mut V, expr: Value<'a>) {
    visitor.visit_expr(expr);
    match expr.view() {
        Expr::Load { buffer } => visitor.visit_buffer_load(expr, buffer),
        Expr::Call(call) => visitor.visit_call(call),
        Expr::Arith { op, .. } => visitor.visit_arith(expr, op),
        Expr::Select { cond, .. } => visitor.visit_select(expr, cond),
        Expr::Let { var, .. } => visitor.visit_let(expr, var),
        Expr::Ramp { .. } => visitor.visit_ramp(expr),
        Expr::Broadcast { .. } => visitor.visit_broadcast(expr),
        Expr::Shuffle { .. } => visitor.visit_shuffle(expr),
        Expr::BufferPart { buffer, .. } => visitor.visit_buffer_part(expr, buffer),
        _ => {}
    }
}

/// Calls `f` with every value of a body, after its parts: leaves before their first user, nodes after their operands and content, and the
/// function last.
pub fn post_order_visit<'a>(body: &'a Body, mut f: impl FnMut(Value<'a>)) {
    let mut seen = vec![false; body.raw().leaves().len()];
    let mut open: Vec<Value<'a>> = Vec::new();
    for value in body.values() {
        let at = value.index().unwrap_or(0);
        while let Some(header) = open.pop_if(|header| header.end() <= at) {
            f(header);
        }
        for leaf in value.operands().filter(|operand| operand.is_leaf()) {
            let known = seen.get_mut((leaf.word() & !LEAF_BIT) as usize);
            if known.is_some_and(|known| !std::mem::replace(known, true)) {
                f(leaf);
            }
        }
        if value.has(flag::REGION) { open.push(value) } else { f(value) }
    }
    while let Some(header) = open.pop() {
        f(header);
    }
}

/// Like [`post_order_visit`], for one value: visits its nested expressions, its content, then the value. Named operands are not visited,
/// because they are separate values; leaves are visited once per use.
///
/// ```
/// use plugin_api::prelude::*;
/// use plugin_api::ir::{AttrsId, BodyBuilder, SealError};
/// use plugin_api::walk::visitors::post_order_visit_value;
///
/// let mut b = BodyBuilder::new();
/// b.begin_function(0, AttrsId::NONE, None);
/// let ty = b.ty(&Type::tensor([8, 8], DType::F32));
/// let (x, exp, relu) = (b.param("x", ty), b.op("relax.exp"), b.op("relax.nn.relu"));
/// b.begin_block();
/// let inner = b.call(exp, &[x], AttrsId::NONE, ty, false, None);
/// let y = b.call(relu, &[inner], AttrsId::NONE, ty, false, Some("y"));
/// b.end();
/// b.end_function(y, ty);
/// let body = b.finish()?;
/// let mut calls = Vec::new();
/// post_order_visit_value(body.lookup_binding("y").expect("is there"), |value| {
///     calls.extend(value.as_call().and_then(Call::op));
/// });
/// assert_eq!(calls, ["relax.exp", "relax.nn.relu"]);
/// # Ok::<(), SealError>(())
/// ```
pub fn post_order_visit_value<'a>(root: Value<'a>, mut f: impl FnMut(Value<'a>)) {
    // The flag is true if the parts of the value were visited.
    let mut work = vec![(root, false)];
    // A valid body needs no more visits than it has nodes. The limit is for edits, during which nested expressions may form a cycle.
    let mut left = root.raw.nodes().len();
    while let Some((value, entered)) = work.pop() {
        if entered || value.is_leaf() || left == 0 {
            f(value);
            continue;
        }
        left -= 1;
        work.push((value, true));
        let first = work.len();
        work.extend(value.operands().filter(|operand| operand.is_leaf() || operand.is_nested()).map(|v| (v, false)));
        // Nested expressions are visited with their user.
        work.extend(value.region().children().filter(|child| !child.is_nested()).map(|v| (v, false)));
        work[first..].reverse();
    }
}
