//! Determines the expressions to name, and the positions of the names.

use plugin_api::ir::DimExpr;
use plugin_api::prelude::*;
use plugin_api::scalar::PrimOp;
use std::collections::{HashMap, HashSet};

/// The number of an expression; equal expressions have equal numbers.
pub(super) type ExprId = usize;

/// The position at which an expression was first seen.
#[derive(Clone, Debug)]
pub(super) enum Source<'b> {
    Value(Value<'b>),
    /// A dimension in the type of a buffer.
    Dim(Dim),
}

/// An expression that is named.
#[derive(Clone, Debug)]
pub(super) struct Chosen<'b> {
    pub(super) id: ExprId,
    pub(super) source: Source<'b>,
    /// True if it occurs in the type of a buffer.
    pub(super) in_type: bool,
}

/// The expressions that are named, in order of definition.
pub(super) struct Plan<'b> {
    pub(super) chosen: Vec<Chosen<'b>>,
    /// Positions in `chosen` of the names defined before each statement.
    pub(super) before: HashMap<Value<'b>, Vec<usize>>,
    pub(super) ids: HashMap<Value<'b>, ExprId>,
    pub(super) dims: HashMap<Dim, ExprId>,
}

/// Returns true if a buffer is declared among the statements, so that values can be computed before it. That is not
/// possible for buffers in the header of a block or of the function.
pub(super) fn is_declared_here(value: Value<'_>) -> bool {
    let in_head = value.is_matched_param() || value.is_block_buffer() || value.matched_region().is_some();
    matches!(value.view(), Expr::Buffer) && !in_head
}

/// The content of a loop, a branch, a block, or the function.
struct Scope<'b> {
    parent: usize,
    depth: usize,
    /// The statement that contains it.
    of: Value<'b>,
}

/// An expression that may be named.
struct Entry<'b> {
    id: ExprId,
    source: Source<'b>,
    in_type: bool,
    /// True if it divides by a possible zero in a position where it may not be evaluated.
    guarded: bool,
    count: usize,
    /// The number of these uses that are inside other named expressions.
    consumed: usize,
    /// Nesting depth of the candidates inside it.
    depth: usize,
    scope: usize,
    first_scope: usize,
    first_stmt: Value<'b>,
    /// Candidates directly inside it, repeated as often as they occur.
    children: Vec<usize>,
}

/// Walks a function in program order.
struct Planner<'b> {
    numbers: HashMap<Vec<u64>, ExprId>,
    /// The entry of each expression, if it has one.
    entry_of: HashMap<ExprId, usize>,
    entries: Vec<Entry<'b>>,
    scopes: Vec<Scope<'b>>,
    scope: usize,
    stmt: Value<'b>,
    /// The position of names needed by the next statement, if it is not directly before that statement.
    place: Option<Value<'b>>,
    /// Number of `let` expressions around the current position; their contents cannot be named outside.
    lets: usize,
    /// Number of choices around the current position that may leave it unevaluated.
    choices: usize,
    /// Expressions that divide by a possible zero.
    dividing: HashSet<ExprId>,
    /// Numbers that are valid divisors.
    divisors: HashSet<ExprId>,
    ids: HashMap<Value<'b>, ExprId>,
    dims: HashMap<Dim, ExprId>,
}

impl<'b> Plan<'b> {
    pub(super) fn of(body: &'b Body) -> Plan<'b> {
        let root = body.root();
        let mut planner = Planner {
            numbers: HashMap::new(),
            entry_of: HashMap::new(),
            entries: Vec::new(),
            scopes: vec![Scope { parent: 0, depth: 0, of: root }],
            scope: 0,
            stmt: root,
            place: None,
            lets: 0,
            choices: 0,
            dividing: HashSet::new(),
            divisors: HashSet::new(),
            ids: HashMap::new(),
            dims: HashMap::new(),
        };
        planner.content(root);
        planner.finish()
    }
}

impl<'b> Planner<'b> {
    fn content(&mut self, stmt: Value<'b>) {
        // The variables of `let` expressions are declared before the statement that contains them.
        let mut declared = None;
        for child in stmt.region().children().filter(|child| !child.is_nested()) {
            let is_declared = child.stmt().is_none() && child.n_operands() == 0 && matches!(child.view(), Expr::Var);
            let own = matches!(stmt.stmt(), Some(Stmt::For { var, .. }) if var == child);
            if is_declared && !own && !matches!(stmt.stmt(), Some(Stmt::Launch { .. })) {
                declared.get_or_insert(child);
            } else if child.stmt().is_some() || is_declared_here(child) {
                self.place = declared.take();
                self.visit(child);
            } else {
                // A variable before a matched buffer is one of its dimensions.
                declared = None;
            }
        }
    }

    fn visit(&mut self, stmt: Value<'b>) {
        match stmt.stmt() {
            Some(Stmt::For { .. } | Stmt::While { .. } | Stmt::Attr { .. } | Stmt::Launch { .. } | Stmt::Block) => {
                self.parts(stmt);
                self.inner(stmt, stmt);
            }
            Some(Stmt::If { .. }) => {
                self.parts(stmt);
                for branch in stmt.if_branches() {
                    self.inner(stmt, branch);
                }
            }
            _ => {
                self.parts(stmt);
                if is_declared_here(stmt) {
                    self.buffer(stmt);
                }
            }
        }
    }

    fn parts(&mut self, stmt: Value<'b>) {
        self.stmt = self.place.take().unwrap_or(stmt);
        for operand in stmt.operands() {
            self.expr(operand);
        }
    }

    /// Enters `content` as its own scope of the statement `of`.
    fn inner(&mut self, of: Value<'b>, content: Value<'b>) {
        let outer = self.scope;
        self.scopes.push(Scope { parent: outer, depth: self.scopes[outer].depth + 1, of });
        self.scope = self.scopes.len() - 1;
        self.content(content);
        self.scope = outer;
    }

    fn buffer(&mut self, stmt: Value<'b>) {
        if let Type::Buffer(ty) = stmt.ty().to_owned() {
            for dim in ty.shape.iter().chain(&ty.strides).chain(&ty.elem_offset) {
                self.dim(dim);
            }
        }
    }

    /// Returns the number of an expression, or `None` if it reads memory, contains a call, or is not a TIR expression.
    fn expr(&mut self, expr: Value<'b>) -> Option<ExprId> {
        let id = match expr.view() {
            Expr::Prim => return self.dim(&expr.dim()?),
            Expr::Param | Expr::Var => {
                let key = match expr.symbol() {
                    Some(sym) => vec![0, sym.id.into(), sym.dtype.0.into()],
                    None => vec![1, expr.word().into()],
                };
                self.number(key)
            }
            Expr::Let { value, body, .. } => {
                self.expr(value);
                self.lets += 1;
                self.expr(body);
                self.lets -= 1;
                return None;
            }
            Expr::Arith { op, .. } => self.compound(expr, 0x100 + u64::from(op.code()), true)?,
            Expr::Select { .. } => self.compound(expr, 2, true)?,
            Expr::Ramp { .. } => self.compound(expr, 3, false)?,
            Expr::Broadcast { .. } => self.compound(expr, 4, false)?,
            _ => {
                self.parts_of_call(expr);
                return None;
            }
        };
        self.ids.insert(expr, id);
        Some(id)
    }

    /// Counts the parts of a call. Only one value of a choice is evaluated.
    fn parts_of_call(&mut self, expr: Value<'b>) {
        let choice = expr.as_call_to("tirx.if_then_else").map(|call| call.args().skip(1).collect::<Vec<_>>());
        for operand in expr.operands().filter(|_| expr.is_nested()) {
            let chosen = usize::from(choice.as_ref().is_some_and(|values| values.contains(&operand)));
            self.choices += chosen;
            self.expr(operand);
            self.choices -= chosen;
        }
    }

    fn compound(&mut self, expr: Value<'b>, head: u64, may_be_named: bool) -> Option<ExprId> {
        let short = usize::from(matches!(expr.view(), Expr::Arith { op: PrimOp::And | PrimOp::Or, .. }));
        let mut kids: Vec<Option<ExprId>> = Vec::new();
        for (i, operand) in expr.operands().enumerate() {
            // Operands after the first condition may not be evaluated.
            self.choices += short * i;
            kids.push(self.expr(operand));
            self.choices -= short * i;
        }
        let kids: Vec<ExprId> = kids.into_iter().collect::<Option<_>>()?;
        let dtype = expr.ty().dtype();
        let id = self.number([head, dtype.0.into()].into_iter().chain(kids.iter().map(|kid| *kid as u64)).collect());
        let op = if let Expr::Arith { op, .. } = expr.view() { Some(op) } else { None };
        self.note_division(id, op, dtype, &kids);
        if may_be_named && dtype.code() != DType::BOOL.code() {
            self.record(id, &kids, || Source::Value(expr), false);
        }
        Some(id)
    }

    /// Returns the number of a dimension, which equals the number of the equivalent expression.
    fn dim(&mut self, dim: &Dim) -> Option<ExprId> {
        let id = match dim {
            Dim::Int(value) => self.integer(*value, DType::I64),
            Dim::Var(sym) => self.number(vec![0, sym.id.into(), sym.dtype.0.into()]),
            Dim::Expr(expr) => {
                let (op, dtype, kids) = match &**expr {
                    DimExpr::Int(value, dtype) => return Some(self.integer(*value, *dtype)),
                    DimExpr::Float(bits, dtype) => return Some(self.number(vec![6, *bits, dtype.0.into()])),
                    DimExpr::Unary(op, dtype, a) => (*op, *dtype, vec![self.dim(a)?]),
                    DimExpr::Binary(PrimOp::If | PrimOp::Else, ..) => return None,
                    DimExpr::Binary(op, dtype, a, b) => (*op, *dtype, vec![self.dim(a)?, self.dim(b)?]),
                };
                let head = [0x100 + u64::from(op.code()), dtype.0.into()];
                let id = self.number(head.into_iter().chain(kids.iter().map(|kid| *kid as u64)).collect());
                self.note_division(id, Some(op), dtype, &kids);
                if dtype.code() != DType::BOOL.code() {
                    self.record(id, &kids, || Source::Dim(dim.clone()), true);
                }
                id
            }
        };
        self.dims.insert(dim.clone(), id);
        Some(id)
    }

    fn integer(&mut self, value: i64, dtype: DType) -> ExprId {
        let id = self.number(vec![5, value as u64, dtype.0.into()]);
        self.divisors.extend((value != 0).then_some(id));
        id
    }

    /// Records an expression that divides integers by a possible zero, or contains such an expression.
    fn note_division(&mut self, id: ExprId, op: Option<PrimOp>, dtype: DType, kids: &[ExprId]) {
        let divides = op.is_some_and(PrimOp::is_division) && !dtype.is_float();
        let by_zero = divides && kids.get(1).is_none_or(|by| !self.divisors.contains(by));
        if by_zero || kids.iter().any(|kid| self.dividing.contains(kid)) {
            self.dividing.insert(id);
        }
    }

    fn number(&mut self, key: Vec<u64>) -> ExprId {
        let next = self.numbers.len();
        *self.numbers.entry(key).or_insert(next)
    }

    /// Counts a use of an expression.
    fn record(&mut self, id: ExprId, kids: &[ExprId], source: impl FnOnce() -> Source<'b>, in_type: bool) {
        if self.lets > 0 {
            return;
        }
        let divides = self.dividing.contains(&id);
        if let Some(at) = self.entry_of.get(&id).copied() {
            let scope = self.common(self.entries[at].scope, self.scope);
            let entry = &mut self.entries[at];
            entry.guarded |= divides && scope != entry.first_scope;
            entry.scope = scope;
            entry.count += 1;
            entry.in_type |= in_type;
            return;
        }
        let children: Vec<usize> = kids.iter().filter_map(|kid| self.entry_of.get(kid).copied()).collect();
        let depth = 1 + children.iter().map(|child| self.entries[*child].depth).max().unwrap_or(0);
        self.entry_of.insert(id, self.entries.len());
        let (scope, first_stmt) = (self.scope, self.stmt);
        let source = source();
        let first_scope = scope;
        let (count, consumed) = (1, 0);
        let guarded = divides && self.choices > 0;
        self.entries.push(Entry {
            id,
            source,
            in_type,
            guarded,
            count,
            consumed,
            depth,
            scope,
            first_scope,
            first_stmt,
            children,
        });
    }

    /// Returns the innermost scope that contains two given scopes.
    fn common(&self, mut a: usize, mut b: usize) -> usize {
        while a != b {
            if self.scopes[a].depth >= self.scopes[b].depth {
                a = self.scopes[a].parent;
            } else {
                b = self.scopes[b].parent;
            }
        }
        a
    }

    fn finish(mut self) -> Plan<'b> {
        let mut order: Vec<usize> = (0..self.entries.len()).collect();
        order.sort_by_key(|at| self.entries[*at].depth);
        for at in &order {
            if self.entries[*at].guarded {
                continue;
            }
            // A named expression is evaluated only once, so its parts have fewer uses.
            let more = self.entries[*at].count - 1;
            for child in self.entries[*at].children.clone() {
                self.entries[child].consumed += more;
            }
        }
        let mut plan = Plan { chosen: Vec::new(), before: HashMap::new(), ids: self.ids, dims: self.dims };
        for entry in order.iter().map(|at| &self.entries[*at]) {
            if entry.guarded || entry.count < entry.consumed + 2 {
                continue;
            }
            let (mut scope, mut stmt) = (entry.first_scope, entry.first_stmt);
            while scope != entry.scope {
                stmt = self.scopes[scope].of;
                scope = self.scopes[scope].parent;
            }
            plan.before.entry(stmt).or_default().push(plan.chosen.len());
            let Entry { id, in_type, .. } = *entry;
            plan.chosen.push(Chosen { id, source: entry.source.clone(), in_type });
        }
        plan
    }
}
