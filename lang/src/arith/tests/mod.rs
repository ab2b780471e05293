//! Tests single rules, and tests random expressions by evaluating them for all values of their variables.

use super::*;
use crate::ir::DType;
use crate::scalar::PrimOp::{self, *};
use proptest::prelude::*;

fn sym(id: u32) -> Sym {
    Sym { id, dtype: DType::I64 }
}

fn var(id: u32) -> Dim {
    Dim::Var(sym(id))
}

fn op(op: PrimOp, a: impl Into<Dim>, b: impl Into<Dim>) -> Dim {
    Dim::binary(op, a.into(), b.into())
}

fn not(a: Dim) -> Dim {
    Dim::Expr(Arc::new(DimExpr::Unary(Not, DType::BOOL, a)))
}

#[test]
fn each_tile_of_a_loop_begins_within_its_extent() {
    let mut analyzer = Analyzer::new();
    analyzer.bind_range(sym(0), &Dim::Int(0), &op(FloorDiv, op(Add, var(1), 7), 8));
    let first = op(Mul, var(0), 8);
    assert!(analyzer.can_prove(&op(Lt, first.clone(), var(1))));
    assert!(analyzer.can_prove(&op(Ge, op(Min, op(Sub, var(1), 1), op(Add, first.clone(), 3)), first.clone())));
    assert!(!analyzer.can_prove(&op(Lt, op(Add, first, 1), var(1))));
    assert!(!analyzer.can_prove(&op(Ge, var(1), 1)), "the loop may not run at all");
}

#[test]
fn quotient_and_remainder_of_a_fused_loop_are_within_the_extents() {
    let [i, rows, n] = [0, 1, 2].map(var);
    let mut analyzer = Analyzer::new();
    [1, 2].iter().for_each(|id| analyzer.bind_bounds(sym(*id), Bounds::at_least(0)));
    analyzer.bind_range(sym(0), &Dim::Int(0), &op(Mul, op(Mul, rows.clone(), n.clone()), 16));
    let tile = op(FloorDiv, i.clone(), 16);
    let [row, column] = [FloorDiv, FloorMod].map(|of| op(of, tile.clone(), n.clone()));
    assert!(analyzer.can_prove(&op(Lt, row.clone(), rows.clone())));
    assert!(analyzer.can_prove(&op(Lt, column.clone(), n.clone())));
    assert!(analyzer.can_prove(&op(Ge, row.clone(), 0)) && analyzer.can_prove(&op(Ge, column.clone(), 0)));
    assert!(!analyzer.can_prove(&op(Lt, op(Add, row, 1), rows.clone())));
    assert!(!analyzer.can_prove(&op(Lt, op(Add, column, 1), n.clone())));
    assert!(!analyzer.can_prove(&op(Lt, op(FloorDiv, i, n), rows)), "the extent has another factor");
    let tiles = op(FloorDiv, op(Add, var(2), 7), 8);
    let mut analyzer = Analyzer::new();
    [1, 2].iter().for_each(|id| analyzer.bind_bounds(sym(*id), Bounds::at_least(0)));
    analyzer.bind_range(sym(0), &Dim::Int(0), &op(Mul, tiles.clone(), var(1)));
    assert!(analyzer.can_prove(&op(Lt, op(FloorDiv, var(0), tiles.clone()), var(1))));
    let first = op(Mul, op(FloorMod, var(0), tiles.clone()), 8);
    assert!(analyzer.can_prove(&op(Lt, first.clone(), var(2))));
    let row = op(Min, op(Sub, var(2), 1), op(Add, first, 3));
    assert!(analyzer.can_prove(&op(Lt, row.clone(), var(2))));
    assert!(!analyzer.can_prove(&op(Ge, row.clone(), 0)), "the loop may not run at all");
    let mut inside = analyzer.under(&op(Gt, op(Mul, tiles, var(1)), 0));
    assert!(inside.can_prove(&op(Ge, row, 0)) && inside.can_prove(&op(Ge, var(2), 1)));
    let mut unbound = Analyzer::new();
    assert!(!unbound.can_prove(&op(Lt, op(FloorMod, var(0), var(2)), var(2))), "the divisor may be negative");
}

/// Returns the value of a dimension; `None` if an operation in it is undefined.
fn value(dim: &Dim, vars: &[i64]) -> Option<i64> {
    match dim {
        Dim::Int(v) => Some(*v),
        Dim::Var(sym) => vars.get(sym.id as usize).copied(),
        Dim::Expr(e) => match &**e {
            DimExpr::Int(v, _) => Some(*v),
            DimExpr::Binary(op, _, a, b) => op.fold(value(a, vars)?, value(b, vars)?),
            DimExpr::Unary(Not, _, a) => Some(i64::from(value(a, vars)? == 0)),
            _ => None,
        },
    }
}

fn size(dim: &Dim) -> usize {
    match dim {
        Dim::Expr(e) => match &**e {
            DimExpr::Binary(_, _, a, b) => 1 + size(a) + size(b),
            DimExpr::Unary(_, _, a) => 1 + size(a),
            _ => 1,
        },
        _ => 1,
    }
}

/// Generates an operation whose code is between those of `first` and `last`, inclusive.
fn from(first: PrimOp, last: PrimOp) -> impl Strategy<Value = PrimOp> {
    (first.code()..=last.code()).prop_map(|code| PrimOp::of_code(code).expect("codes without gaps"))
}

/// Generates integers over three variables.
fn dims() -> impl Strategy<Value = Dim> {
    let leaf = prop_oneof![
        2 => (-9i64..10).prop_map(Dim::Int),
        1 => prop_oneof![Just(2), Just(4), Just(8), Just(16), Just(64)].prop_map(Dim::Int),
        4 => (0u32..3).prop_map(var)
    ];
    leaf.prop_recursive(5, 32, 2, |inner| {
        let ops = prop_oneof![4 => from(Add, Mul), 4 => from(FloorDiv, FloorMod), 1 => from(TruncDiv, TruncMod), 1 => from(Min, Max)];
        let by = prop_oneof![inner.clone(), prop_oneof![Just(2), Just(3), Just(4), Just(8)].prop_map(Dim::Int)];
        (ops, inner, by).prop_map(|(o, a, b)| op(o, a, b))
    })
}

/// Returns the value of an `int32` expression; `fit` maps each result into range.
fn value_of_32_bits(dim: &Dim, vars: &[i32], fit: fn(i64) -> Option<i64>) -> Option<i64> {
    match dim {
        Dim::Int(v) => fit(*v),
        Dim::Var(sym) => vars.get(sym.id as usize).map(|v| i64::from(*v)),
        Dim::Expr(e) => match &**e {
            DimExpr::Int(v, _) => fit(*v),
            DimExpr::Binary(op, _, a, b) => {
                fit(op.fold(value_of_32_bits(a, vars, fit)?, value_of_32_bits(b, vars, fit)?)?)
            }
            DimExpr::Unary(Not, _, a) => Some(i64::from(value_of_32_bits(a, vars, fit)? == 0)),
            _ => None,
        },
    }
}

fn within_32_bits(v: i64) -> Option<i64> {
    i32::try_from(v).ok().map(i64::from)
}

fn wrapped_to_32_bits(v: i64) -> Option<i64> {
    Some(i64::from(v as i32))
}

/// Generates `int32` arithmetic and comparisons over three variables and numbers of any size.
fn dims_of_32_bits() -> impl Strategy<Value = Dim> {
    let number = |range: std::ops::Range<i64>| range.prop_map(|v| Dim::int(v, DType::I32));
    let extreme = proptest::sample::select(vec![i32::MIN, i32::MIN + 1, i32::MAX, 1 << 30, 1_000_003, 65_536, -65_536]);
    let leaf = prop_oneof![
        3 => number(-9..10),
        1 => extreme.prop_map(|v| Dim::int(v.into(), DType::I32)),
        4 => (0u32..3).prop_map(|id| Dim::Var(Sym { id, dtype: DType::I32 }))
    ];
    let binary = |op: PrimOp, a: Dim, b: Dim| Dim::binary(op, a, b);
    let all = leaf.clone().prop_recursive(4, 16, 2, move |inner| {
        let ops = prop_oneof![4 => from(Add, Mul), 4 => from(FloorDiv, FloorMod), 1 => from(TruncDiv, TruncMod), 1 => from(Min, Max)];
        let by = prop_oneof![inner.clone(), leaf.clone()];
        (ops, inner, by).prop_map(move |(o, a, b)| binary(o, a, b))
    });
    prop_oneof![3 => all.clone(), 1 => (from(Eq, Ge), all.clone(), all).prop_map(move |(o, a, b)| binary(o, a, b))]
}

/// Generates values of `int32`, many of them extreme.
fn values_of_32_bits() -> impl Strategy<Value = [i32; 3]> {
    let any = prop_oneof![
        -20i32..40,
        any::<i32>(),
        (0i32..30).prop_map(|v| i32::MAX - v),
        (0i32..30).prop_map(|v| i32::MIN + v)
    ];
    proptest::array::uniform3(any)
}

/// Returns a Boolean variable.
fn flag(id: u32) -> Dim {
    Dim::Var(Sym { id, dtype: DType::BOOL })
}

fn conditions() -> impl Strategy<Value = Dim> {
    let leaf = prop_oneof![
        4 => (from(Eq, Ge), dims(), dims()).prop_map(|(o, a, b)| op(o, a, b)),
        1 => (3u32..5).prop_map(flag),
        1 => any::<bool>().prop_map(truth),
        1 => (from(Eq, Ne), 3u32..5, 3u32..5).prop_map(|(o, a, b)| op(o, flag(a), flag(b))),
    ];
    leaf.prop_recursive(3, 6, 2, |inner| {
        prop_oneof![
            (from(And, Or), inner.clone(), inner.clone()).prop_map(|(o, a, b)| op(o, a, b)),
            inner.prop_map(not)
        ]
    })
}

/// Generates the start and the extent of each variable's range.
fn ranges() -> impl Strategy<Value = [(i64, i64); 3]> {
    proptest::array::uniform3((-6i64..7, 1i64..9))
}

/// Returns every combination of values of the three integers, with one value for each of the two conditions.
fn points(ranges: &[(i64, i64); 3]) -> Vec<[i64; 5]> {
    let [a, b, c] = ranges.map(|(min, extent)| min..min + extent);
    let all = a.flat_map(|x| b.clone().map(move |y| (x, y)));
    all.flat_map(|(x, y)| c.clone().map(move |z| [x, y, z, x & 1, (y ^ z) & 1])).collect()
}

fn bound(ranges: &[(i64, i64); 3]) -> Analyzer {
    let mut analyzer = Analyzer::new();
    for (id, (min, extent)) in (0u32..).zip(ranges) {
        analyzer.bind_range(sym(id), &Dim::Int(*min), &Dim::Int(*extent));
    }
    analyzer
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn simplified_expressions_have_the_same_value(dim in dims(), vars in proptest::array::uniform3(-20i64..40)) {
        let simple = simplify(&dim);
        if let Some(expected) = value(&dim, &vars) {
            prop_assert_eq!(value(&simple, &vars), Some(expected), "{:?}", simple);
        }
    }

    /// Simplifying an expression that does not overflow keeps its value. A sum that a rule writes may wrap around and still give the
    /// correct result, unless it is divided or compared.
    #[test]
    fn what_does_not_overflow_has_the_same_value(dim in dims_of_32_bits(), vars in values_of_32_bits()) {
        if let Some(expected) = value_of_32_bits(&dim, &vars, within_32_bits) {
            let simple = simplify(&dim);
            prop_assert_eq!(value_of_32_bits(&simple, &vars, wrapped_to_32_bits), Some(expected), "{:?}", simple);
        }
    }

    #[test]
    fn proofs_hold(a in dims(), b in dims(), vars in proptest::array::uniform3(-20i64..40)) {
        if let (Some(proof), Some(x), Some(y)) = (prove_equal(&a, &b), value(&a, &vars), value(&b, &vars)) {
            prop_assert_eq!(proof, x == y);
        }
    }

    #[test]
    fn what_is_known_within_ranges_holds_at_every_point(dim in dims(), ranges in ranges()) {
        let mut analyzer = bound(&ranges);
        let (simple, bounds, set) = (analyzer.simplify(&dim), analyzer.const_bounds(&dim), analyzer.modular_set(&dim));
        let reached = analyzer.int_set(&dim, &[sym(0), sym(1)]);
        for point in points(&ranges) {
            let Some(expected) = value(&dim, &point) else { continue };
            prop_assert_eq!(value(&simple, &point), Some(expected), "{:?} at {:?}", simple, point);
            prop_assert!(bounds.contains(expected), "{bounds:?} at {point:?}");
            prop_assert!(set.contains(expected), "{set:?} at {point:?}");
            if let Some(min) = reached.min.as_ref().and_then(|min| value(min, &point)) {
                prop_assert!(min <= expected, "{reached:?} at {point:?}");
            }
            if let Some(max) = reached.max.as_ref().and_then(|max| value(max, &point)) {
                prop_assert!(max >= expected, "{reached:?} at {point:?}");
            }
        }
    }

    #[test]
    fn conditions_keep_their_value(dim in conditions(), ranges in ranges()) {
        let mut analyzer = bound(&ranges);
        let (simple, proven) = (analyzer.simplify(&dim), analyzer.can_prove(&dim));
        for point in points(&ranges) {
            let Some(expected) = value(&dim, &point) else { continue };
            prop_assert_eq!(value(&simple, &point), Some(expected), "{:?} at {:?}", simple, point);
            prop_assert!(!proven || expected == 1, "at {point:?}");
        }
    }

    #[test]
    fn under_a_condition_all_holds_where_it_does(dim in dims(), cond in conditions(), ranges in ranges()) {
        let mut analyzer = bound(&ranges).under(&cond);
        let (simple, bounds, set) = (analyzer.simplify(&dim), analyzer.const_bounds(&dim), analyzer.modular_set(&dim));
        for point in points(&ranges).into_iter().filter(|point| value(&cond, point) == Some(1)) {
            let Some(expected) = value(&dim, &point) else { continue };
            prop_assert_eq!(value(&simple, &point), Some(expected), "{:?} at {:?}", simple, point);
            prop_assert!(bounds.contains(expected) && set.contains(expected), "{bounds:?} {set:?} at {point:?}");
        }
    }

    #[test]
    fn what_is_simple_stays(dim in prop_oneof![dims(), conditions()], ranges in ranges()) {
        let simple = simplify(&dim);
        prop_assert_eq!(simplify(&simple), simple);
        let mut analyzer = bound(&ranges);
        let simple = analyzer.simplify(&dim);
        prop_assert_eq!(bound(&ranges).simplify(&simple), simple);
    }

    #[test]
    fn the_canonical_form_does_not_blow_up(dim in dims()) {
        prop_assert!(size(&simplify(&dim)) <= 12 * size(&dim) + 12, "{:?}", simplify(&dim));
    }

    #[test]
    fn linear_forms_are_the_expression(dim in dims(), vars in proptest::array::uniform3(-20i64..40)) {
        if let (Some(form), Some(expected)) = (Analyzer::new().linear_form(&dim, &[sym(0), sym(1)]), value(&dim, &vars)) {
            let [a, b] = [0, 1].map(|i| value(&form.terms[i].1, &vars).expect("a value") * vars[i]);
            prop_assert_eq!(a + b + value(&form.constant, &vars).expect("a value"), expected);
        }
    }
}

/// Returns an analyser that knows that `x` is in 0..64, `y` in 0..8 and `n` at least 1, and nothing about `m`.
fn some() -> Analyzer {
    let mut analyzer = Analyzer::new();
    analyzer.bind_range(sym(0), &Dim::Int(0), &Dim::Int(64));
    analyzer.bind_range(sym(1), &Dim::Int(0), &Dim::Int(8));
    analyzer.bind_bounds(sym(2), Bounds::at_least(1));
    analyzer
}

#[track_caller]
fn becomes(from: Dim, to: impl Into<Dim>) {
    assert_eq!(some().simplify(&from), to.into());
}

#[test]
fn sums_have_one_form() {
    let (n, m) = (var(0), var(1));
    assert_eq!(prove_equal(&op(Add, n.clone(), m.clone()), &op(Add, m.clone(), n.clone())), Some(true));
    assert_eq!(prove_equal(&op(FloorDiv, op(Mul, n.clone(), 2), 2), &n), Some(true));
    assert_eq!(prove_equal(&n, &m), None);
    let even = op(Add, op(Mul, n.clone(), 4), op(Mul, m.clone(), 6));
    assert_eq!(prove_equal(&even, &Dim::Int(7)), Some(false));
    assert_eq!(prove_equal(&even, &Dim::Int(8)), None);
    assert_eq!(prove_equal(&n, &op(Add, n.clone(), 1)), Some(false));
    assert_eq!(simplify(&op(Sub, op(Sub, 7, n.clone()), 2)), op(Sub, 5, n.clone()));
    assert_eq!(simplify(&op(Sub, m.clone(), op(Mul, n.clone(), 2))), op(Sub, m.clone(), op(Mul, n.clone(), 2)));
    let twice = op(Sub, op(Mul, n.clone(), 2), op(Mul, m.clone(), 2));
    assert_eq!(simplify(&op(Add, twice, 1)), op(Add, op(Mul, op(Sub, n, m), 2), 1));
}

#[test]
fn split_terms_are_put_together() {
    let [x, y, n, m] = [0, 1, 2, 3].map(var);
    let of = |x: &Dim, c: i64| op(Add, op(Mul, op(FloorDiv, x.clone(), c), c), op(FloorMod, x.clone(), c));
    becomes(of(&m, 4), m.clone());
    becomes(of(&op(Add, m.clone(), 13), 8), op(Add, m.clone(), 13));
    becomes(of(&op(Mul, m.clone(), 2), 8), op(Mul, m.clone(), 2));
    becomes(of(&op(Mul, m.clone(), 5), 8), op(Mul, m.clone(), 5));
    let middle = op(FloorMod, op(FloorDiv, m.clone(), 4), 8);
    becomes(op(Add, op(Mul, middle.clone(), 4), op(FloorMod, m.clone(), 4)), op(FloorMod, m.clone(), 32));
    becomes(op(Add, op(Mul, op(FloorDiv, m.clone(), 32), 8), middle), op(FloorDiv, m.clone(), 4));
    becomes(op(Sub, m.clone(), op(Mul, op(FloorDiv, m.clone(), 4), 4)), op(FloorMod, m.clone(), 4));
    let (whole, rest) = (op(FloorDiv, m.clone(), n.clone()), op(FloorMod, m.clone(), n.clone()));
    becomes(op(Add, op(Mul, whole, n), rest), m.clone());
    becomes(of(&op(Add, op(Mul, x.clone(), 8), y.clone()), 64), op(Add, op(Mul, x, 8), y));
}

#[test]
fn divisions() {
    let [x, y, n, m] = [0, 1, 2, 3].map(var);
    let flat = op(Add, op(Mul, m.clone(), 8), y.clone());
    becomes(op(FloorDiv, flat.clone(), 8), m.clone());
    becomes(op(FloorMod, flat.clone(), 8), y.clone());
    becomes(op(FloorDiv, flat.clone(), 16), op(FloorDiv, m.clone(), 2));
    becomes(op(FloorMod, flat, 16), op(Add, op(Mul, op(FloorMod, m.clone(), 2), 8), y.clone()));
    let open = op(Add, op(Mul, m.clone(), 8), n.clone());
    becomes(op(FloorDiv, open, 8), op(Add, op(FloorDiv, n.clone(), 8), m.clone()));
    becomes(op(FloorDiv, op(FloorDiv, m.clone(), 4), 8), op(FloorDiv, m.clone(), 32));
    becomes(op(FloorDiv, op(Add, op(FloorDiv, m.clone(), 4), 1), 8), op(FloorDiv, op(Add, m.clone(), 4), 32));
    becomes(op(FloorDiv, op(FloorMod, m.clone(), 32), 4), op(FloorMod, op(FloorDiv, m.clone(), 4), 8));
    becomes(op(FloorMod, op(FloorMod, m.clone(), 32), 4), op(FloorMod, m.clone(), 4));
    becomes(op(FloorMod, op(Mul, m.clone(), 9), 8), op(FloorMod, m.clone(), 8));
    becomes(op(FloorDiv, m.clone(), -4), op(FloorDiv, op(Mul, m.clone(), -1), 4));
    becomes(op(FloorDiv, x.clone(), 64), 0);
    becomes(op(FloorMod, op(Add, op(Mul, m.clone(), 4), 6), 4), 2);
    becomes(op(TruncDiv, x.clone(), 4), op(FloorDiv, x.clone(), 4));
    becomes(op(TruncMod, x.clone(), 4), op(FloorMod, x, 4));
    becomes(op(TruncDiv, m.clone(), 4), op(TruncDiv, m.clone(), 4));
    becomes(op(TruncDiv, op(Mul, m.clone(), 32), 4), op(Mul, m.clone(), 8));
    becomes(op(TruncDiv, op(TruncDiv, m.clone(), 4), 3), op(TruncDiv, m.clone(), 12));
    becomes(op(TruncMod, op(TruncMod, m.clone(), 8), 4), op(TruncMod, m.clone(), 4));
    becomes(op(TruncMod, op(Mul, m.clone(), 6), 4), op(Mul, op(TruncMod, op(Mul, m.clone(), 3), 2), 2));
    // Case: a symbolic divisor.
    let rows = op(Add, op(Mul, m.clone(), n.clone()), 0);
    becomes(op(FloorDiv, rows.clone(), n.clone()), m.clone());
    becomes(op(FloorMod, rows, n), 0);
}

#[test]
fn order_decides_min_max_and_comparisons() {
    let [x, y, n, m] = [0, 1, 2, 3].map(var);
    becomes(op(Min, x.clone(), 100), x.clone());
    becomes(op(Max, op(Add, m.clone(), 1), m.clone()), op(Add, m.clone(), 1));
    becomes(op(Min, op(Min, m.clone(), n.clone()), m.clone()), op(Min, n.clone(), m.clone()));
    becomes(op(Min, op(Max, m.clone(), n.clone()), m.clone()), m.clone());
    let shifted = op(Min, op(Add, m.clone(), 1), op(Add, n.clone(), 1));
    becomes(shifted, op(Add, op(Min, n.clone(), m.clone()), 1));
    let scaled = op(Max, op(Mul, n.clone(), 4), op(Mul, m.clone(), 4));
    becomes(scaled, op(Mul, op(Max, n.clone(), m.clone()), 4));
    becomes(op(Lt, y.clone(), 8), truth(true));
    becomes(op(Ge, y.clone(), 8), truth(false));
    becomes(op(Eq, op(Mul, m.clone(), 2), 7), truth(false));
    becomes(op(Le, op(Mul, op(FloorDiv, m.clone(), 3), 3), m.clone()), truth(true));
    becomes(op(Le, op(Min, m.clone(), n.clone()), op(Add, m.clone(), 2)), truth(true));
    // Equivalent comparisons are simplified to one form.
    becomes(op(Le, op(Mul, m.clone(), 2), 9), op(Lt, m.clone(), 5));
    becomes(op(Gt, m.clone(), 4), op(Le, 5, m.clone()));
    becomes(not(op(Lt, m.clone(), n.clone())), op(Le, n.clone(), m.clone()));
    becomes(op(And, op(Lt, m.clone(), 5), op(Lt, m.clone(), 3)), op(Lt, m.clone(), 3));
    becomes(op(And, op(Lt, m.clone(), 5), op(Gt, m.clone(), 5)), truth(false));
    becomes(op(Or, op(Lt, m.clone(), 5), op(Ge, m.clone(), 3)), truth(true));
    becomes(op(And, op(Lt, y, 8), op(Lt, m.clone(), 3)), op(Lt, m, 3));
    // Case: quotients and extremes in comparisons.
    let m = var(3);
    becomes(op(Le, op(FloorDiv, m.clone(), 8), 4), op(Lt, m.clone(), 40));
    becomes(op(Ge, op(FloorDiv, m.clone(), 8), 4), op(Le, 32, m.clone()));
    becomes(op(Le, op(Max, m.clone(), 8), 8), op(Lt, m.clone(), 9));
    becomes(op(Lt, op(Min, m.clone(), 8), 9), truth(true));
    becomes(op(Ge, op(Min, m.clone(), 8), 9), truth(false));
}

fn truth(value: bool) -> Dim {
    Dim::int(value.into(), DType::BOOL)
}

#[test]
fn what_is_assumed_is_used() {
    let [a, b, c] = [0, 1, 2].map(var);
    let mut analyzer = Analyzer::new();
    analyzer.assume(&op(And, op(Lt, a.clone(), b.clone()), op(Le, b.clone(), c.clone())));
    assert!(analyzer.can_prove(&op(Lt, a.clone(), c.clone())), "by way of b");
    assert!(!analyzer.can_prove(&op(Lt, a.clone(), op(Sub, c.clone(), 1))));
    let nonzero = analyzer.under(&op(Ne, a.clone(), 0)).can_prove(&op(Ne, a.clone(), 0));
    assert!(nonzero && !analyzer.can_prove(&op(Ne, a.clone(), 0)));
    // Contradictory conditions must not cause a panic.
    let mut never = analyzer.under(&op(Lt, c.clone(), a.clone())).under(&op(Lt, a.clone(), op(Sub, a.clone(), 3)));
    let _ = (never.simplify(&op(Min, a.clone(), c.clone())), never.const_bounds(&op(Sub, c, a.clone())));
    // A later binding replaces an earlier one.
    analyzer.bind_range(sym(0), &Dim::Int(0), &Dim::Int(4));
    assert!(analyzer.can_prove(&op(Lt, a.clone(), 4)));
    analyzer.bind_bounds(sym(0), Bounds::at_least(9));
    assert!(analyzer.can_prove(&op(Ge, a.clone(), 9)) && !analyzer.can_prove(&op(Lt, a.clone(), 4)));
    // A variable cannot be bound to itself, not even through another variable.
    analyzer.bind_value(sym(3), &op(Add, var(4), 1));
    analyzer.bind_value(sym(4), &var(3));
    assert_eq!(analyzer.simplify(&var(3)), op(Add, var(4), 1));
}

#[test]
fn large_integers_stay_as_they_were_written() {
    let n = var(0);
    let (max, half) = (i64::MAX, i64::MAX / 2);
    let twice = op(Mul, op(Mul, n.clone(), half), 3);
    assert_eq!(simplify(&twice), twice);
    for dim in [
        op(Add, op(Add, n.clone(), max), max),
        op(FloorDiv, op(Mul, n.clone(), i64::MIN), -1),
        op(FloorMod, op(Sub, i64::MIN, n.clone()), i64::MIN),
        op(FloorDiv, op(FloorDiv, n.clone(), max), max),
        op(Min, op(Sub, n.clone(), max), op(Add, n.clone(), max)),
        op(Lt, op(Sub, i64::MIN, n.clone()), max),
        op(FloorDiv, n.clone(), 0),
        op(FloorMod, 5, 0),
        op(Eq, op(Mul, n.clone(), max), op(Mul, n.clone(), i64::MIN)),
    ] {
        let simple = simplify(&dim);
        assert_eq!(simplify(&simple), simple);
        for at in [-1, 0, 1] {
            if let Some(expected) = value(&dim, &[at]) {
                assert_eq!(value(&simple, &[at]), Some(expected), "{simple:?}");
            }
        }
    }
    // The value does not fit in 32 bits.
    let i = Dim::Var(Sym { id: 0, dtype: DType::I32 });
    let large = Dim::binary(Add, Dim::binary(Add, i.clone(), Dim::int(max >> 32, DType::I32)), Dim::int(9, DType::I32));
    assert_eq!(simplify(&large), large);
    let small = Dim::binary(Sub, Dim::binary(Add, i.clone(), Dim::int(2, DType::I32)), Dim::int(1, DType::I32));
    assert_eq!(simplify(&small), Dim::binary(Add, i, Dim::int(1, DType::I32)));
}

#[test]
fn other_types_stay() {
    let x = |dtype| Dim::Var(Sym { id: 0, dtype });
    let byte = DType::new(1, 8, 1);
    let wraps = Dim::binary(Sub, Dim::binary(Add, x(byte), Dim::int(200, byte)), Dim::int(200, byte));
    assert_eq!(simplify(&wraps), wraps);
    let nan = Dim::binary(Eq, x(DType::F32), x(DType::F32));
    assert_eq!(simplify(&nan), nan);
    let less = not(Dim::binary(Lt, x(DType::F32), Dim::float(0.0, DType::F32)));
    assert_eq!(simplify(&less), less);
    assert_eq!(Analyzer::new().const_bounds(&x(byte)), Bounds::of(0, 255));
}

#[test]
fn shared_parts_cost_once() {
    // As a tree, `shared` would have 2^200 nodes.
    let shared = (0..200).fold(var(0), |x, i| op(Min, op(FloorDiv, x.clone(), 3), op(Add, x, i)));
    let _ = Analyzer::new().const_bounds(&shared);
    let doubled = (0..62).fold(var(0), |x, _| op(Add, x.clone(), x));
    assert_eq!(simplify(&doubled), op(Mul, var(0), 1i64 << 62));
}

const INTS: [DType; 8] = [
    DType::new(0, 8, 1),
    DType::new(0, 16, 1),
    DType::I32,
    DType::I64,
    DType::new(1, 8, 1),
    DType::new(1, 16, 1),
    DType::new(1, 32, 1),
    DType::new(1, 64, 1),
];

/// Returns the integer of the given type with these low bits.
fn wrapped(value: i128, dtype: DType) -> i128 {
    let bits = u32::from(dtype.bits());
    let low = value.rem_euclid(1 << bits);
    if dtype.code() == 0 && low >= 1 << (bits - 1) { low - (1 << bits) } else { low }
}

/// Returns the value of an expression of any type; `None` if an operation in it is undefined. Values of index types are
/// limited to `least` and its positive counterpart; values of other types wrap around.
fn typed_value(dim: &Dim, vars: &[i128], least: i128) -> Option<i128> {
    let of = |dim: &Dim| typed_value(dim, vars, least);
    let truth = |v: bool| Some(i128::from(v));
    match dim {
        Dim::Int(v) => Some((*v).into()),
        Dim::Var(sym) => vars.get(sym.id as usize).copied(),
        Dim::Expr(e) => match &**e {
            DimExpr::Int(v, _) => Some((*v).into()),
            DimExpr::Float(..) => None,
            DimExpr::Unary(Not, _, a) => truth(of(a)? == 0),
            DimExpr::Unary(_, t, a) => Some(if a.dtype() == *t { of(a)? } else { wrapped(of(a)?, *t) }),
            DimExpr::Binary(op, t, a, b) => {
                let (a, b) = (of(a)?, of(b)?);
                let plain = match *op {
                    Add => a.checked_add(b)?,
                    Sub => a.checked_sub(b)?,
                    Mul => a.checked_mul(b)?,
                    FloorDiv => a.checked_div(b)? - i128::from(a % b != 0 && (a < 0) != (b < 0)),
                    FloorMod => a.checked_rem(b)? + if a % b != 0 && (a < 0) != (b < 0) { b } else { 0 },
                    TruncDiv => a.checked_div(b)?,
                    TruncMod => a.checked_rem(b)?,
                    Min => a.min(b),
                    Max => a.max(b),
                    Eq => return truth(a == b),
                    Ne => return truth(a != b),
                    Lt => return truth(a < b),
                    Le => return truth(a <= b),
                    Gt => return truth(a > b),
                    Ge => return truth(a >= b),
                    And => return truth(a != 0 && b != 0),
                    Or => return truth(a != 0 || b != 0),
                    _ => return None,
                };
                match *t {
                    DType::I32 | DType::I64 => (least <= plain && plain < -least).then_some(plain),
                    _ => Some(wrapped(plain, *t)),
                }
            }
        },
    }
}

/// Returns true if every number in an expression fits its type.
fn is_sound(dim: &Dim) -> bool {
    match dim {
        Dim::Int(_) | Dim::Var(_) => true,
        Dim::Expr(e) => match &**e {
            DimExpr::Int(v, t) => Bounds::of_dtype(*t).contains(*v),
            DimExpr::Float(..) => true,
            DimExpr::Unary(_, _, a) => is_sound(a),
            DimExpr::Binary(_, _, a, b) => is_sound(a) && is_sound(b),
        },
    }
}

/// Returns the least and the greatest value of a type.
fn ends(dtype: DType) -> (i128, i128) {
    let bits = u32::from(dtype.bits());
    if dtype.code() == 0 { (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) } else { (0, (1 << bits) - 1) }
}

/// Generates integers of one type over three variables of that type, including its extreme values.
fn typed_dims(dtype: DType) -> impl Strategy<Value = Dim> {
    let (min, max) = ends(dtype);
    let max = i64::try_from(max).unwrap_or(i64::MAX);
    let min = min as i64;
    let leaf = prop_oneof![
        2 => (0i64..10).prop_map(move |v| Dim::int(v, dtype)),
        2 => (0i64..3).prop_map(move |v| Dim::int(max - v, dtype)),
        1 => (0i64..3).prop_map(move |v| Dim::int(min + v, dtype)),
        1 => (0i64..3).prop_map(move |v| Dim::int(max / 2 + v, dtype)),
        4 => (0u32..3).prop_map(move |id| Dim::Var(Sym { id, dtype })),
    ];
    leaf.prop_recursive(4, 16, 2, |inner| (from(Add, Max), inner.clone(), inner).prop_map(|(o, a, b)| op(o, a, b)))
}

/// Generates a type, two expressions of this type, a second type, and values for the variables.
fn typed() -> impl Strategy<Value = (Dim, Dim, DType, [i128; 3])> {
    (0..INTS.len(), 0..INTS.len()).prop_flat_map(|(at, other)| {
        let (min, max) = ends(INTS[at]);
        let near = prop_oneof![Just(min), Just(max), Just(max / 2), (-9i128..10).prop_map(move |v| v.clamp(min, max))];
        (typed_dims(INTS[at]), typed_dims(INTS[at]), Just(INTS[other]), proptest::array::uniform3(near))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 40_000, ..ProptestConfig::with_cases(4000) })]

    /// Simplification preserves values, and every number in its result fits its type. Tested for every data type, with conversions and
    /// extreme values.
    #[test]
    fn no_type_is_left((a, b, to, vars) in typed(), o in from(Eq, Ge), min in any::<bool>()) {
        let cast = |dim: &Dim| Dim::Expr(Arc::new(DimExpr::Unary(Cast, to, dim.clone())));
        let sum = op(if min { Min } else { Add }, cast(&a), cast(&b));
        let both = op(And, op(o, a.clone(), b.clone()), not(op(Lt, cast(&a), cast(&b))));
        for dim in [a.clone(), op(o, a.clone(), b.clone()), both, sum] {
            let simple = simplify(&dim);
            prop_assert!(is_sound(&simple), "{dim:?} is {simple:?}");
            if let Some(expected) = typed_value(&dim, &vars, i64::MIN.into()) {
                // Terms may move to the other side of a comparison, so a part may need more bits than before.
                let found = typed_value(&simple, &vars, -1 << 126).unwrap_or(expected);
                prop_assert_eq!(found, expected, "{:?} is {:?}", dim, simple);
                if let Ok(expected) = i64::try_from(expected) {
                    let bounds = Analyzer::new().const_bounds(&dim);
                    let fits = Bounds::of_dtype(dim.dtype()).contains(expected);
                    prop_assert!(!fits || bounds.contains(expected), "{dim:?} is {expected} and within {bounds:?}");
                }
            }
        }
    }
}

#[test]
fn what_the_type_cannot_hold_stays() {
    let int = |v| Dim::int(v, DType::I32);
    let n = || Dim::Var(Sym { id: 0, dtype: DType::I32 });
    let (max, min) = (i64::from(i32::MAX), i64::from(i32::MIN));
    let mut all = vec![
        op(Add, int(max), int(1)),
        op(Mul, int(max), int(2)),
        op(Sub, int(min), int(1)),
        op(FloorDiv, int(min), int(-1)),
        op(TruncDiv, int(min), int(-1)),
        op(Mul, op(Mul, n(), int(max)), int(2)),
        op(Mul, op(Mul, n(), int(65536)), int(65536)),
        op(Add, op(Add, n(), int(max)), int(max)),
        op(Add, op(Add, op(Add, n(), int(max)), int(max)), int(1)),
        op(Add, n(), int(min)),
    ];
    for divide in [FloorDiv, FloorMod, TruncDiv, TruncMod] {
        for dtype in INTS {
            all.push(op(divide, Dim::int(5, dtype), Dim::int(0, dtype)));
            all.push(op(divide, Dim::Var(Sym { id: 0, dtype }), Dim::int(0, dtype)));
            all.push(op(divide, Dim::int(0, dtype), Dim::int(0, dtype)));
        }
    }
    for dtype in INTS.into_iter().filter(|dtype| !matches!(*dtype, DType::I32 | DType::I64)) {
        let (min, max) = ends(dtype);
        let (min, max) = (min as i64, i64::try_from(max).unwrap_or(-1));
        all.push(op(Add, Dim::int(max, dtype), Dim::int(1, dtype)));
        all.push(op(Mul, Dim::int(max, dtype), Dim::int(2, dtype)));
        all.push(op(Sub, Dim::int(min, dtype), Dim::int(1, dtype)));
    }
    // As an unsigned number, the largest 64-bit value is not less than 1.
    let wide = DType::new(1, 64, 1);
    all.push(op(Lt, Dim::int(-1, wide), Dim::int(1, wide)));
    all.push(op(Max, Dim::int(-1, wide), Dim::int(1, wide)));
    for dim in all {
        assert_eq!(simplify(&dim), dim);
    }
}

#[test]
fn logic_of_what_is_no_comparison() {
    let (x, y) = (flag(3), flag(4));
    becomes(not(x.clone()), not(x.clone()));
    becomes(not(not(x.clone())), x.clone());
    becomes(op(And, x.clone(), y.clone()), op(And, x.clone(), y.clone()));
    becomes(op(And, x.clone(), not(x.clone())), truth(false));
    becomes(op(Or, not(x.clone()), x.clone()), truth(true));
    becomes(op(And, truth(true), x.clone()), x.clone());
    becomes(op(Eq, x.clone(), x.clone()), truth(true));
    becomes(not(op(Eq, x.clone(), y.clone())), not(op(Eq, x.clone(), y)));
    let mut assumed = Analyzer::new().under(&not(x.clone()));
    assert_eq!(assumed.simplify(&op(Or, x.clone(), op(Lt, var(0), 3))), op(Lt, var(0), 3));
}

/// Each step uses the previous step twice, so the tree of all steps has more than 2^40 nodes.
#[test]
fn shared_parts_are_not_written_without_end() {
    let dims = std::iter::successors(Some(var(0)), |dim| Some(op(BitXor, dim.clone(), op(BitAnd, dim.clone(), 1))));
    let mut analyzer = Analyzer::new();
    for (steps, dim) in dims.enumerate().take(41).filter(|(steps, _)| steps % 8 == 0) {
        let id = analyzer.store().enter(&dim, &std::collections::BTreeMap::new());
        let simple = analyzer.store().simplify(id);
        assert_eq!(analyzer.pieces_of(id, simple).is_some(), steps <= 8, "{steps} steps");
    }
}

/// `x // 16 % 16` becomes `x % 256 // 16`, and `(x + a) + b` becomes one sum, but only if all numbers fit the data type.
#[test]
fn what_is_written_fits_its_type() {
    for dtype in INTS {
        let mut analyzer = Analyzer::new();
        let (min, max) = ends(dtype);
        let (min, max) = (min as i64, i64::try_from(max).unwrap_or(i64::MAX));
        let x = || Dim::Var(Sym { id: 0, dtype });
        let int = |v: i64| Dim::int(v, dtype);
        let root = int(1 << (dtype.bits() / 2));
        let half = max / 2 + 1;
        for dim in [
            op(FloorMod, op(FloorDiv, x(), root.clone()), root.clone()),
            op(Mul, op(Mul, x(), root.clone()), root),
            op(Add, op(Add, x(), int(max)), int(1)),
            op(Add, op(Add, op(Mul, x(), int(half)), op(Mul, x(), int(half))), int(1)),
            op(Mul, op(Sub, x(), int(half)), int(4)),
            op(Sub, int(0), op(Add, x(), int(min))),
            op(Lt, op(Add, op(Add, x(), int(max)), int(1)), int(3)),
            op(Le, x(), op(Sub, op(Add, x(), int(max)), int(min))),
            op(Eq, op(Sub, x(), int(min)), int(max)),
        ] {
            let id = analyzer.store().enter(&dim, &std::collections::BTreeMap::new());
            let simple = analyzer.store().simplify(id);
            for piece in analyzer.pieces_of(id, simple).expect("it is short") {
                if let form::Piece::Leaf(number) = &piece {
                    assert!(is_sound(number), "{piece:?} of {dim:?}");
                }
            }
        }
    }
}

/// A sum whose number does not fit the data type is a single term.
#[test]
fn sums_that_do_not_fit_are_written_as_they_are() {
    let mut analyzer = Analyzer::new();
    for large in [op(Sub, i64::MAX, i64::MIN + 1), op(Mul, op(Mul, var(0), i64::MAX), i64::MAX)] {
        let id = analyzer.store().enter(&large, &std::collections::BTreeMap::new());
        let pieces = analyzer.pieces_of(id, id).expect("it is short");
        assert!(matches!(pieces.last(), Some(form::Piece::Op(Sub | Mul, _))), "{pieces:?}");
    }
}
