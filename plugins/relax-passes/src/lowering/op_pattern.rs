//! How the elements that a PrimFunc stores depend on those that it loads.

use plugin_api::arith::prim;
use plugin_api::prelude::*;
use plugin_api::tir::ElementAccess;
use std::collections::BTreeSet;

/// What operator fusion must know of a PrimFunc; the numbers are those of TVM. A larger one can be fused less.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Pattern {
    /// Each element comes from those at the same position.
    Elementwise = 0,
    /// As above, of inputs that lack some of the dimensions.
    Broadcast = 1,
    /// Each element comes from one at another position.
    Injective = 2,
    /// Sum, maximum and the like.
    Reduction = 3,
    /// Something to whose results an elementwise function can be fused, such as a matrix product.
    Fusable = 4,
    /// Anything else.
    Opaque = 8,
}

impl Pattern {
    /// The pattern of a number; an unknown one is opaque.
    pub(crate) fn of_number(number: i64) -> Pattern {
        let known =
            [Pattern::Elementwise, Pattern::Broadcast, Pattern::Injective, Pattern::Reduction, Pattern::Fusable];
        usize::try_from(number).ok().and_then(|at| known.get(at)).copied().unwrap_or(Pattern::Opaque)
    }
}

/// The pattern of a PrimFunc: the worst one of its blocks.
pub(super) fn pattern_of(body: &Body) -> Pattern {
    let mut blocks = Blocks { loads: Vec::new(), store: None, pattern: Pattern::Elementwise };
    blocks.visit_body(body);
    blocks.pattern
}

struct Blocks<'a> {
    /// Loads of the innermost block so far.
    loads: Vec<ElementAccess<'a>>,
    /// Its store.
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
    /// The pattern so far, with that of a block of which everything was seen.
    fn with_block(&self, block: Value<'_>) -> Pattern {
        let Some(store) = &self.store else { return Pattern::Opaque };
        let reduced: Vec<Value<'_>> =
            block.block_iters().filter(|iter| iter.is_reduction).map(|iter| iter.var).collect();
        match self.positions(store) {
            // What follows a reduction and uses its results, as in softmax.
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

    /// How the positions of the loads of a block follow from that of its store, if they do.
    fn positions(&self, store: &ElementAccess<'_>) -> Option<Pattern> {
        let patterns: Option<Vec<Pattern>> = self.loads.iter().map(|load| position(store, load)).collect();
        let patterns = patterns?;
        let worst = patterns.iter().max().copied().unwrap_or(Pattern::Elementwise);
        let mixed = worst == Pattern::Broadcast && patterns.contains(&Pattern::Elementwise);
        Some(if mixed { Pattern::Elementwise } else { worst })
    }
}

/// How the position of a load follows from that of a store, if it does.
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

/// Whether the indices of a load are indices of a store, in this order; a dimension of one element counts for nothing.
/// An index of the store may stand for several of the load that follow each other, as in `C[i] = A[i, i]`; so it does in TVM.
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

/// Whether all indices that use reduced variables are such variables: a sum over `A[i, k]`, not over `A[i + k]`.
fn is_pure_reduction(load: &ElementAccess<'_>, reduced: &[Value<'_>]) -> bool {
    let is_reduced = |index: &Value<'_>| reduced.iter().any(|var| var == index);
    let uses_none = |index: &Value<'_>| {
        let used = variables(*index);
        !reduced.iter().filter_map(|var| variable(*var)).any(|var| used.contains(&var))
    };
    load.indices.iter().all(|index| is_reduced(index) || uses_none(index))
}

/// Whether all that a block does is `C[i, j] = C[i, j] + A[…] * B[…]`, with loads that do not use all indices of the store.
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
    let (sum, product) = operands(value, prim::ADD)?;
    let sum = load_of(sum)?;
    let (a, b) = operands(product, prim::MUL)?;
    let accumulates = sum.buffer == store.buffer && same_indices(&sum.indices, &store.indices);
    Some(accumulates && is_reused(&store, &load_of(a)?) && is_reused(&store, &load_of(b)?))
}

/// Whether a loaded element is used for several elements of the store.
fn is_reused(store: &ElementAccess<'_>, load: &ElementAccess<'_>) -> bool {
    let stored: Option<BTreeSet<Variable>> = store.indices.iter().map(|index| variable(*index)).collect();
    let loaded: BTreeSet<Variable> = load.indices.iter().flat_map(|index| variables(*index)).collect();
    stored.is_some_and(|stored| !stored.is_subset(&loaded))
}

/// The operands of an operation, without conversions around it.
fn operands(value: Value<'_>, wanted: u16) -> Option<(Value<'_>, Value<'_>)> {
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
    while let Expr::Arith { op: prim::CAST, a, .. } = value.view() {
        value = a;
    }
    value
}

/// Whether a block stores to a buffer that the caller passes.
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

/// The variable that an index is, if it is one.
fn variable(index: Value<'_>) -> Option<Variable> {
    match index.view() {
        Expr::Var | Expr::Param => Some(Variable::Value(index.word())),
        Expr::Prim => match index.dim()? {
            Dim::Var(sym) => Some(Variable::Symbol(sym)),
            _ => None,
        },
        _ => None,
    }
}

/// All variables in an index; a buffer that it loads from is one.
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

/// Whether two indices are the same variable. Equal numbers and sums are not the same, as in TVM.
fn is_same(a: Value<'_>, b: Value<'_>) -> bool {
    variable(a).is_some_and(|a| Some(a) == variable(b))
}

fn same_indices(a: &[Value<'_>], b: &[Value<'_>]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(*a, *b))
}
