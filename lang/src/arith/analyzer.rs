//! The analyser, the entry point of [`crate::arith`] for pass authors.

use super::bounds::Bounds;
use super::modular::ModularSet;
use super::of_one_type;
use super::store::{Id, Store};
use crate::ir::records::prim;
use crate::ir::{DType, Dim, Sym};
use crate::scalar::PrimOp;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Maximum number of expressions that the analyser keeps; beyond it, all are discarded.
const MAX_NODES: usize = 1 << 20;

/// Simplifies and compares integer expressions (shapes and TIR indices) using facts about their variables.
///
/// ```
/// use plugin_api::arith::{Analyzer, Bounds};
/// use plugin_api::scalar::PrimOp;
/// use plugin_api::prelude::*;
///
/// let var = |id| Sym { id, dtype: DType::I64 };
/// let [i, j, n] = [0, 1, 2].map(|id| Dim::Var(var(id)));
/// let op = Dim::binary;
/// let mut analyzer = Analyzer::new();
/// analyzer.bind_range(var(0), &Dim::Int(0), &n);
/// analyzer.bind_range(var(1), &Dim::Int(0), &Dim::Int(8));
///
/// // (i * 8 + j) // 8 is i, as j is less than 8; and i is less than n.
/// let flat = op(PrimOp::Add, op(PrimOp::Mul, i.clone(), Dim::Int(8)), j.clone());
/// assert_eq!(analyzer.simplify(&op(PrimOp::FloorDiv, flat.clone(), Dim::Int(8))), i);
/// assert!(analyzer.can_prove(&op(PrimOp::Lt, flat.clone(), op(PrimOp::Mul, n.clone(), Dim::Int(8)))));
/// assert_eq!(analyzer.const_bounds(&flat), Bounds::at_least(0));
/// // Where j is even, so is the whole.
/// let even = op(PrimOp::Eq, op(PrimOp::FloorMod, j, Dim::Int(2)), Dim::Int(0));
/// assert_eq!(analyzer.under(&even).modular_set(&flat).coeff, 2);
/// ```
///
/// Each query takes time proportional to the size of the expression. Results for parts analysed earlier are reused until a binding or
/// assumption is added. A later binding replaces an earlier one.
#[derive(Default)]
pub struct Analyzer {
    // Each branch of an If gets a copy of the analyser, so these maps are shared until an analyser adds a binding.
    vars: Arc<BTreeMap<u32, (Bounds, ModularSet)>>,
    values: Arc<BTreeMap<u32, Dim>>,
    /// The first value and the trip count of each variable.
    pub(super) ranges: Arc<BTreeMap<u32, (Sym, Dim, Dim)>>,
    /// Variables whose ranges have a non-constant end. These ranges are entered as conditions.
    open: Arc<BTreeSet<u32>>,
    assumed: Vec<Dim>,
    store: Store,
    /// True if all fields above were entered into the store.
    ready: bool,
}

impl Analyzer {
    /// Returns an analyser without bindings or assumptions.
    pub fn new() -> Analyzer {
        Analyzer::default()
    }

    fn forget(&mut self, sym: Sym) {
        Arc::make_mut(&mut self.vars).remove(&sym.id);
        Arc::make_mut(&mut self.values).remove(&sym.id);
        Arc::make_mut(&mut self.ranges).remove(&sym.id);
        Arc::make_mut(&mut self.open).remove(&sym.id);
        self.ready = false;
    }

    /// Binds the variable to constant bounds.
    ///
    /// ```
    /// # use plugin_api::{arith::{Analyzer, Bounds}, prelude::*, scalar::PrimOp};
    /// let n = Sym { id: 0, dtype: DType::I64 };
    /// let mut analyzer = Analyzer::new();
    /// analyzer.bind_bounds(n, Bounds::at_least(1));
    /// assert!(analyzer.can_prove(&Dim::binary(PrimOp::Gt, Dim::Var(n), Dim::Int(0))));
    /// ```
    pub fn bind_bounds(&mut self, sym: Sym, bounds: Bounds) {
        self.forget(sym);
        let known = (Bounds::EVERYTHING.intersect(bounds), ModularSet::EVERYTHING);
        Arc::make_mut(&mut self.vars).insert(sym.id, known);
    }

    /// Binds the variable to the values `min` to `min + extent - 1`; both `min` and `extent` may be symbolic.
    ///
    /// ```
    /// # use plugin_api::{arith::Analyzer, prelude::*, scalar::PrimOp};
    /// let (i, n) = (Sym { id: 0, dtype: DType::I64 }, Sym { id: 1, dtype: DType::I64 });
    /// let mut analyzer = Analyzer::new();
    /// analyzer.bind_range(i, &Dim::Int(0), &Dim::Var(n));
    /// let rest = Dim::binary(PrimOp::FloorMod, Dim::Var(i), Dim::Var(n));
    /// assert_eq!(analyzer.simplify(&rest), Dim::Var(i));
    /// ```
    pub fn bind_range(&mut self, sym: Sym, min: &Dim, extent: &Dim) {
        self.forget(sym);
        match (min.as_int(), extent.as_int()) {
            (Some(min), Some(extent)) => {
                let max = min.checked_add(extent).and_then(|end| end.checked_sub(1));
                // An empty range implies nothing, because its loop never runs.
                let range = Bounds::EVERYTHING.intersect(Bounds::of(min, max.unwrap_or(Bounds::POS_INF)));
                Arc::make_mut(&mut self.vars).insert(sym.id, (range, ModularSet::EVERYTHING));
            }
            _ => drop(Arc::make_mut(&mut self.open).insert(sym.id)),
        }
        Arc::make_mut(&mut self.ranges).insert(sym.id, (sym, min.clone(), extent.clone()));
    }

    /// Replaces every occurrence of the variable by a value. Does nothing if the value mentions the variable itself.
    ///
    /// ```
    /// # use plugin_api::{arith::Analyzer, prelude::*, scalar::PrimOp};
    /// let (m, n) = (Sym { id: 0, dtype: DType::I64 }, Sym { id: 1, dtype: DType::I64 });
    /// let mut analyzer = Analyzer::new();
    /// analyzer.bind_value(m, &Dim::binary(PrimOp::Mul, Dim::Var(n), Dim::Int(2)));
    /// assert_eq!(analyzer.simplify(&Dim::binary(PrimOp::FloorDiv, Dim::Var(m), Dim::Int(2))), Dim::Var(n));
    /// ```
    pub fn bind_value(&mut self, sym: Sym, value: &Dim) {
        self.forget(sym);
        let (mut cyclic, mut chained) = (false, false);
        value.vars(&mut |other| chained |= self.values.contains_key(&other.id));
        let simple = self.simplify(value);
        simple.vars(&mut |other| cyclic |= other.id == sym.id);
        if !cyclic {
            // If the value uses other bound variables, their values are substituted here, once.
            let value = if chained { simple } else { value.clone() };
            Arc::make_mut(&mut self.values).insert(sym.id, value);
            self.ready = false;
        }
    }

    /// Assumes from now on that the condition holds.
    ///
    /// ```
    /// # use plugin_api::{arith::Analyzer, prelude::*, scalar::PrimOp};
    /// let [m, n] = [0, 1].map(|id| Dim::Var(Sym { id, dtype: DType::I64 }));
    /// let mut analyzer = Analyzer::new();
    /// analyzer.assume(&Dim::binary(PrimOp::Le, m.clone(), n.clone()));
    /// assert_eq!(analyzer.simplify(&Dim::binary(PrimOp::Min, m.clone(), n)), m);
    /// ```
    pub fn assume(&mut self, condition: &Dim) {
        self.assumed.push(condition.clone());
        if self.ready {
            let id = self.store.enter(condition, &self.values);
            let id = self.store.simplify(id);
            self.store.assume(id, None);
            self.store.know_again();
        }
    }

    /// Returns a copy of the analyser that also assumes a condition, for example for a branch of an If. `self` is unchanged.
    ///
    /// ```
    /// # use plugin_api::{arith::Analyzer, prelude::*, scalar::PrimOp};
    /// let n = Dim::Var(Sym { id: 0, dtype: DType::I64 });
    /// let few = Dim::binary(PrimOp::Lt, n.clone(), Dim::Int(8));
    /// let mut analyzer = Analyzer::new();
    /// assert!(analyzer.under(&few).can_prove(&Dim::binary(PrimOp::Le, n.clone(), Dim::Int(7))));
    /// assert!(!analyzer.can_prove(&few));
    /// ```
    #[must_use]
    pub fn under(&self, condition: &Dim) -> Analyzer {
        let mut assumed = self.assumed.clone();
        assumed.push(condition.clone());
        let (vars, values) = (Arc::clone(&self.vars), Arc::clone(&self.values));
        let (ranges, open) = (Arc::clone(&self.ranges), Arc::clone(&self.open));
        Analyzer { vars, values, ranges, open, assumed, store: Store::default(), ready: false }
    }

    /// Prepares for a query: discards the stored expressions if there are too many.
    pub(super) fn refresh(&mut self) {
        self.ready &= self.store.nodes.len() <= MAX_NODES;
    }

    /// Returns the store, with all bindings and assumptions entered.
    pub(super) fn store(&mut self) -> &mut Store {
        if !self.ready {
            self.store = Store::default();
            self.store.facts.bound = Arc::clone(&self.vars);
            let mut conditions = Vec::new();
            for (sym, min, extent) in self.open.iter().filter_map(|id| self.ranges.get(id)) {
                conditions.extend(within(sym, min, extent).into_iter().map(|condition| (Some(*sym), condition)));
            }
            conditions.extend(self.assumed.iter().map(|condition| (None, condition.clone())));
            for (of, condition) in conditions {
                let id = self.store.enter(&condition, &self.values);
                let id = self.store.simplify(id);
                let of = of.map(|sym| self.store.var(sym));
                self.store.assume(id, of);
            }
            self.store.know_again();
            self.ready = true;
        }
        &mut self.store
    }

    pub(super) fn enter(&mut self, dim: &Dim) -> Id {
        self.store();
        self.store.enter(dim, &self.values)
    }

    pub(super) fn enter_simple(&mut self, dim: &Dim) -> Id {
        let id = self.enter(dim);
        self.store.simplify(id)
    }

    /// Returns the canonical form: sums that are provably equal have the same form. Expressions that cannot be simplified are returned
    /// unchanged.
    ///
    /// ```
    /// # use plugin_api::{arith::Analyzer, prelude::*, scalar::PrimOp};
    /// let x = Dim::Var(Sym { id: 0, dtype: DType::I64 });
    /// let (whole, rest) = (Dim::binary(PrimOp::FloorDiv, x.clone(), Dim::Int(4)), Dim::binary(PrimOp::FloorMod, x.clone(), Dim::Int(4)));
    /// let sum = Dim::binary(PrimOp::Add, Dim::binary(PrimOp::Mul, whole, Dim::Int(4)), rest);
    /// assert_eq!(Analyzer::new().simplify(&sum), x);
    /// ```
    pub fn simplify(&mut self, dim: &Dim) -> Dim {
        if let Dim::Int(_) = dim {
            return dim.clone();
        }
        self.refresh();
        let id = self.enter(dim);
        let simple = self.store.simplify(id);
        match self.store.leave(simple) {
            Some(simple) => simple,
            None => dim.clone(),
        }
    }

    /// Returns the lesser of two expressions, simplified, in the wider of their data types.
    ///
    /// ```
    /// # use plugin_api::{arith::Analyzer, prelude::*};
    /// let n = Dim::Var(Sym { id: 0, dtype: DType::I64 });
    /// assert_eq!(Analyzer::new().least(Dim::int(3, DType::I32), Dim::Int(5)), Dim::Int(3));
    /// assert_eq!(Analyzer::new().least(Dim::int(0, DType::I32), n).dtype(), DType::I64);
    /// ```
    pub fn least(&mut self, a: Dim, b: Dim) -> Dim {
        self.extreme(PrimOp::Min, a, b)
    }

    /// Returns the greater of two expressions, simplified, in the wider of their data types.
    pub fn greatest(&mut self, a: Dim, b: Dim) -> Dim {
        self.extreme(PrimOp::Max, a, b)
    }

    fn extreme(&mut self, op: PrimOp, a: Dim, b: Dim) -> Dim {
        let (a, b) = of_one_type(a, b);
        if a == b { a } else { self.simplify(&Dim::binary(op, a, b)) }
    }

    /// Returns `Some(true)` if two expressions are equal for all values of their variables, `Some(false)` if they are equal for no values,
    /// and `None` if neither can be proved.
    ///
    /// ```
    /// # use plugin_api::{arith::Analyzer, prelude::*, scalar::PrimOp};
    /// let n = Dim::Var(Sym { id: 0, dtype: DType::I64 });
    /// let more = Dim::binary(PrimOp::Add, n.clone(), Dim::Int(1));
    /// let mut analyzer = Analyzer::new();
    /// assert_eq!(analyzer.prove_equal(&n, &more), Some(false));
    /// assert_eq!(analyzer.prove_equal(&Dim::binary(PrimOp::Sub, more, Dim::Int(1)), &n), Some(true));
    /// ```
    pub fn prove_equal(&mut self, a: &Dim, b: &Dim) -> Option<bool> {
        self.refresh();
        let (a, b) = (self.enter(a), self.enter(b));
        self.equal(a, b)
    }

    pub(super) fn equal(&mut self, a: Id, b: Id) -> Option<bool> {
        let store = self.store();
        let (a, b) = (store.simplify(a), store.simplify(b));
        if a == b {
            return Some(true);
        }
        let equal = store.comparison(prim::EQ, a, b);
        let equal = store.simplify(equal);
        store.as_int(equal).map(|v| v != 0)
    }

    /// Returns true if a condition provably holds for all values of its variables. `false` means that no proof was found.
    ///
    /// ```
    /// # use plugin_api::{arith::Analyzer, prelude::*, scalar::PrimOp};
    /// let n = Dim::Var(Sym { id: 0, dtype: DType::I64 });
    /// let half = Dim::binary(PrimOp::FloorDiv, n.clone(), Dim::Int(2));
    /// let mut analyzer = Analyzer::new();
    /// assert!(analyzer.can_prove(&Dim::binary(PrimOp::Le, Dim::binary(PrimOp::Mul, half, Dim::Int(2)), n.clone())));
    /// assert!(!analyzer.can_prove(&Dim::binary(PrimOp::Ge, n, Dim::Int(0))));
    /// ```
    pub fn can_prove(&mut self, condition: &Dim) -> bool {
        self.refresh();
        let id = self.enter_simple(condition);
        condition.dtype() == DType::BOOL && self.store.as_int(id) == Some(1)
    }

    /// Returns true if `a >= b` provably holds for all values of the variables.
    ///
    /// ```
    /// # use plugin_api::{arith::{Analyzer, Bounds}, prelude::*};
    /// let n = Sym { id: 0, dtype: DType::I64 };
    /// let mut analyzer = Analyzer::new();
    /// analyzer.bind_bounds(n, Bounds::at_least(1));
    /// assert!(analyzer.can_prove_greater_equal(&Dim::Var(n), &Dim::Int(1)));
    /// ```
    pub fn can_prove_greater_equal(&mut self, a: &Dim, b: &Dim) -> bool {
        self.can_prove(&Dim::binary(PrimOp::Ge, a.clone(), b.clone()))
    }

    /// Returns bounds that contain all values of an integer expression. They may be wider than necessary.
    ///
    /// ```
    /// # use plugin_api::{arith::{Analyzer, Bounds}, prelude::*, scalar::PrimOp};
    /// let n = Dim::Var(Sym { id: 0, dtype: DType::I64 });
    /// let rest = Dim::binary(PrimOp::FloorMod, n.clone(), Dim::Int(4));
    /// assert_eq!(Analyzer::new().const_bounds(&rest), Bounds::of(0, 3));
    /// assert_eq!(Analyzer::new().const_bounds(&n), Bounds::EVERYTHING);
    /// ```
    pub fn const_bounds(&mut self, dim: &Dim) -> Bounds {
        self.refresh();
        let id = self.enter(dim);
        self.bounds_of(id)
    }

    pub(super) fn bounds_of(&mut self, id: Id) -> Bounds {
        let store = self.store();
        let simple = store.simplify(id);
        let written = store.bounds[id as usize].intersect(store.bounds[simple as usize]);
        let dtype = store.at(simple).dtype;
        if super::store::is_index(dtype) {
            let tight = written.intersect(store.tight_bounds(&store.sum_of(simple)));
            tight.intersect(Bounds::of_dtype(dtype))
        } else {
            written
        }
    }

    /// Returns the possible remainders of an integer expression.
    ///
    /// ```
    /// # use plugin_api::{arith::{Analyzer, ModularSet}, prelude::*, scalar::PrimOp};
    /// let n = Dim::Var(Sym { id: 0, dtype: DType::I64 });
    /// let odd = Dim::binary(PrimOp::Add, Dim::binary(PrimOp::Mul, n, Dim::Int(2)), Dim::Int(1));
    /// assert_eq!(Analyzer::new().modular_set(&odd), ModularSet::new(2, 1));
    /// ```
    pub fn modular_set(&mut self, dim: &Dim) -> ModularSet {
        self.refresh();
        let id = self.enter(dim);
        self.remainders_of(id)
    }

    pub(super) fn remainders_of(&mut self, id: Id) -> ModularSet {
        let store = self.store();
        let simple = store.simplify(id);
        let (a, b) = (store.modular[id as usize], store.modular[simple as usize]);
        // A coefficient of 0 means a single value; otherwise the larger coefficient is the stronger fact.
        if a.coeff == 0 || b.coeff != 0 && a.coeff > b.coeff { a } else { b }
    }
}

/// Builds the conditions that follow from a range.
fn within(sym: &Sym, min: &Dim, extent: &Dim) -> Vec<Dim> {
    let var = || Dim::Var(*sym);
    let end = Dim::binary(PrimOp::Add, min.clone(), extent.clone());
    let mut all = vec![Dim::binary(PrimOp::Le, min.clone(), var()), Dim::binary(PrimOp::Lt, var(), end)];
    // A loop over tiles: from `i < (n + 7) // 8`, it follows that `(i + 1) * 8 <= n + 7`.
    if let Some((PrimOp::FloorDiv, dtype, of)) = extent.operation()
        && let [n, size] = of[..]
        && size.as_int().is_some_and(|size| size > 0)
    {
        let done = Dim::binary(PrimOp::Sub, var(), min.clone());
        let done = Dim::binary(PrimOp::Add, done, Dim::int(1, dtype));
        all.push(Dim::binary(PrimOp::Le, Dim::binary(PrimOp::Mul, done, size.clone()), n.clone()));
    }
    all
}
