//! Classifies how the elements that a PrimFunc stores depend on the elements that it loads.

use plugin_api::prelude::*;
use plugin_api::scalar::PrimOp;
use plugin_api::tir::ElementAccess;
use plugin_api::tvm::{StmtVisitor, Walk};
use std::collections::BTreeSet;

/// The pattern of a PrimFunc for operator fusion, with TVM's numbers. Higher numbers can be fused less.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Pattern {
    /// Each element depends on the elements at the same position.
    Elementwise = 0,
    /// Like `Elementwise`, but some inputs lack dimensions.
    Broadcast = 1,
    /// Each element depends on one element at another position.
    Injective = 2,
    /// A reduction, such as a sum or a maximum.
    Reduction = 3,
    /// A function, such as a matrix product, that can be fused with an elementwise function of its results.
    Fusable = 4,
    /// Anything else.
    Opaque = 8,
}

impl Pattern {
    /// Returns the pattern that `number` encodes; unknown numbers are opaque.
    pub(crate) fn of_number(number: i64) -> Pattern {
        let known =
            [Pattern::Elementwise, Pattern::Broadcast, Pattern::Injective, Pattern::Reduction, Pattern::Fusable];
        usize::try_from(number).ok().and_then(|at| known.get(at)).copied().unwrap_or(Pattern::Opaque)
    }
}

/// Returns the pattern of a PrimFunc, which is the worst pattern of its blocks.
pub(super) fn pattern_of(body: &Body) -> Pattern {
    let mut blocks = Blocks { loads: Vec::new(), store: None, pattern: Pattern::Elementwise };
    blocks.visit_body(body);
    blocks.pattern
}

struct Blocks<'a> {
    /// Loads found so far in the innermost block.
    loads: Vec<ElementAccess<'a>>,
    /// The store of the innermost block.
    store: Option<ElementAccess<'a>>,
    pattern: Pattern,
}

impl<'a> StmtVisitor<'a> for Blocks<'a> {
    fn enter_stmt(&mut self, header: Value<'a>) -> Walk {
        if header.is_init() {
            return Walk::Skip;
        }
        if is_block(header) {
            self.loads.clear();
            self.store = None;
        }
        Walk::Into
    }

    fn leave_stmt(&mut self, header: Value<'a>) {
        if is_block(header) {
            self.pattern = self.with_block(header);
        }
    }

    fn visit_buffer_load(&mut self, load: Value<'a>, _: Value<'a>) {
        self.loads.extend(load.as_element_access());
    }

    fn visit_buffer_store(&mut self, stmt: Value<'a>, _: Value<'a>, _: Value<'a>) {
        let store = stmt.as_element_access();
        match (&self.store, &store) {
            (Some(before), Some(store)) if !same_indices(&before.indices, &store.indices) => {
                self.pattern = Pattern::Opaque;
            }
            _ => self.store = store,
        }
    }
}

fn is_block(stmt: Value<'_>) -> bool {
    matches!(stmt.stmt(), Some(Stmt::Block)) && stmt.name() != Some("root")
}

impl Blocks<'_> {
    /// Returns the worst pattern so far, including that of a block that was fully visited.
    fn with_block(&self, block: Value<'_>) -> Pattern {
        let Some(store) = &self.store else { return Pattern::Opaque };
        let reduced: Vec<Value<'_>> =
            block.block_iters().filter(|iter| iter.is_reduction).map(|iter| iter.var).collect();
        match self.positions(store) {
            // This block follows a reduction and uses its results, as in softmax.
            Some(_) if self.pattern == Pattern::Reduction && writes_result(block) => Pattern::Fusable,
            Some(positions) => self.pattern.max(positions),
            None if reduced.is_empty() => Pattern::Opaque,
            None if is_multiply_add(block) => self.pattern.max(Pattern::Fusable),
            None if self.loads.iter().all(|load| is_pure_reduction(load, &reduced)) => {
                self.pattern.max(Pattern::Reduction)
            }
            None => self.pattern.max(Pattern::Fusable),
        }
    }

    /// Returns the relation between the positions of a block's loads and the position of its store; `None` if there is
    /// none.
    fn positions(&self, store: &ElementAccess<'_>) -> Option<Pattern> {
        let patterns: Option<Vec<Pattern>> = self.loads.iter().map(|load| position(store, load)).collect();
        let patterns = patterns?;
        let worst = patterns.iter().max().copied().unwrap_or(Pattern::Elementwise);
        let mixed = worst == Pattern::Broadcast && patterns.contains(&Pattern::Elementwise);
        Some(if mixed { Pattern::Elementwise } else { worst })
    }
}

/// Returns the relation between the position of a load and the position of a store; `None` if there is none.
fn position(store: &ElementAccess<'_>, load: &ElementAccess<'_>) -> Option<Pattern> {
    if same_indices(&store.indices, &load.indices) {
        return Some(Pattern::Elementwise);
    }
    if is_broadcast(store, load) {
        return Some(Pattern::Broadcast);
    }
    let stored: Option<BTreeSet<Variable>> = store.indices.iter().map(|index| variable(*index)).collect();
    let stored = stored?;
    let known = |index: &Value<'_>| variables(*index).is_subset(&stored);
    load.indices.iter().all(known).then_some(Pattern::Injective)
}

/// Returns true if the indices of a load are indices of a store, in the same order; dimensions of length 1 are ignored.
/// As in TVM, one store index may match several consecutive load indices, as in `C[i] = A[i, i]`.
fn is_broadcast(store: &ElementAccess<'_>, load: &ElementAccess<'_>) -> bool {
    let Some(shape) = load.buffer.as_buffer_type().map(|buffer| buffer.shape) else { return false };
    let mut stored = &store.indices[..];
    let int = |index: &Value<'_>| index.dim().and_then(|dim| dim.as_int());
    let is_unit = |extent: &Dim, index: &Value<'_>| extent.as_int() == Some(1) && int(index) == Some(0);
    let mut indices = shape.iter().zip(&load.indices).filter(|(extent, index)| !is_unit(extent, index));
    indices.all(|(_, index)| {
        while stored.first().is_some_and(|store| !is_same(*store, *index)) {
            stored = &stored[1..];
        }
        !stored.is_empty()
    })
}

/// Returns true if all indices that use reduced variables are exactly such variables: a sum over `A[i, k]`, not over
/// `A[i + k]`.
fn is_pure_reduction(load: &ElementAccess<'_>, reduced: &[Value<'_>]) -> bool {
    let is_reduced = |index: &Value<'_>| reduced.iter().any(|var| var == index);
    let uses_none = |index: &Value<'_>| {
        let used = variables(*index);
        !reduced.iter().filter_map(|var| variable(*var)).any(|var| used.contains(&var))
    };
    load.indices.iter().all(|index| is_reduced(index) || uses_none(index))
}

/// Returns true if a block only computes `C[i, j] = C[i, j] + A[…] * B[…]`, with loads that do not use all indices of
/// the store.
fn is_multiply_add(block: Value<'_>) -> bool {
    let mut statements = block.statements();
    match (statements.next(), statements.next()) {
        (Some(store), None) => multiplies_and_adds(store).unwrap_or(false),
        _ => false,
    }
}

fn multiplies_and_adds(stmt: Value<'_>) -> Option<bool> {
    let Some(Stmt::Store { value, .. }) = stmt.stmt() else { return None };
    let store = stmt.as_element_access()?;
    let (sum, product) = operands(value, PrimOp::Add)?;
    let sum = load_of(sum)?;
    let (a, b) = operands(product, PrimOp::Mul)?;
    let accumulates = sum.buffer == store.buffer && same_indices(&sum.indices, &store.indices);
    Some(accumulates && is_reused(&store, &load_of(a)?) && is_reused(&store, &load_of(b)?))
}

/// Returns true if a loaded element is used for several elements of the store.
fn is_reused(store: &ElementAccess<'_>, load: &ElementAccess<'_>) -> bool {
    let stored: Option<BTreeSet<Variable>> = store.indices.iter().map(|index| variable(*index)).collect();
    let loaded: BTreeSet<Variable> = load.indices.iter().flat_map(|index| variables(*index)).collect();
    stored.is_some_and(|stored| !stored.is_subset(&loaded))
}

/// Returns the operands of an operation. Conversions of its result are ignored.
fn operands(value: Value<'_>, wanted: PrimOp) -> Option<(Value<'_>, Value<'_>)> {
    match without_casts(value).view() {
        Expr::Arith { op, a, b: Some(b) } if op == wanted => Some((a, b)),
        _ => None,
    }
}

fn load_of(value: Value<'_>) -> Option<ElementAccess<'_>> {
    let value = without_casts(value);
    value.as_element_access().filter(|_| matches!(value.view(), Expr::Load { .. }))
}

fn without_casts(mut value: Value<'_>) -> Value<'_> {
    while let Expr::Arith { op: PrimOp::Cast, a, .. } = value.view() {
        value = a;
    }
    value
}

/// Returns true if a block stores to a buffer parameter.
fn writes_result(block: Value<'_>) -> bool {
    let stores = block.region().nodes().filter_map(|node| match node.stmt()? {
        Stmt::Store { buffer, .. } => Some(buffer),
        _ => None,
    });
    stores.into_iter().any(Value::is_param_buffer)
}

/// A variable of an index: a value of the body, or a symbolic variable of the shapes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Variable {
    Value(u32),
    Symbol(Sym),
}

/// Returns the variable of which an index consists; `None` if the index is not a variable.
fn variable(index: Value<'_>) -> Option<Variable> {
    match index.view() {
        Expr::Var | Expr::Param => Some(Variable::Value(index.word())),
        _ => None,
    }
}

/// Returns all variables in an index, including buffers that it loads from.
fn variables(index: Value<'_>) -> BTreeSet<Variable> {
    let (mut found, mut work) = (BTreeSet::new(), vec![index]);
    while let Some(value) = work.pop() {
        if let Some(dim) = value.dim() {
            dim.vars(&mut |sym| {
                found.insert(Variable::Symbol(sym));
            });
        } else if value.is_bound() {
            found.insert(Variable::Value(value.word()));
        } else {
            work.extend(value.operands());
        }
    }
    found
}

/// Returns true if two indices are the same variable. As in TVM, equal numbers or sums do not count as the same.
fn is_same(a: Value<'_>, b: Value<'_>) -> bool {
    variable(a).is_some_and(|a| Some(a) == variable(b))
}

fn same_indices(a: &[Value<'_>], b: &[Value<'_>]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(*a, *b))
}
