//! The properties derived from indices hold at every point.

use super::digits::{Digits, Runs};
use passhost_lang::arith::substitute;
use passhost_lang::ir::{DType, Dim, Sym};
use passhost_lang::scalar::PrimOp;
use proptest::prelude::*;
use std::collections::{BTreeSet, HashMap};

const VARS: usize = 3;

fn var(at: usize) -> Sym {
    Sym { id: at as u32, dtype: DType::I32 }
}

/// Generates a sum of multiples of variables, their quotients and their remainders.
fn index() -> impl Strategy<Value = Dim> {
    let term =
        (0..VARS, 0..4u8, prop::sample::select(vec![2i64, 3, 4, 6]), prop::sample::select(vec![1i64, 1, 2, 3, 4, 8]));
    prop::collection::vec(term, 1..4).prop_map(|terms| {
        let part = |(at, kind, by, times): (usize, u8, i64, i64)| {
            let x = Dim::Var(var(at));
            let part = match kind {
                0 => x.floor_div(by),
                1 => x.floor_mod(by),
                _ => x,
            };
            part * times
        };
        terms.into_iter().map(part).reduce(|a, b| a + b).unwrap_or(Dim::int(0, DType::I32))
    })
}

fn value(dim: &Dim, point: &[i64]) -> i64 {
    let dim = substitute(dim, &|sym| Some(Dim::int(point[sym.id as usize], DType::I32)));
    fn of(dim: &Dim) -> i64 {
        match (dim.as_int(), dim.operation()) {
            (Some(value), _) => value,
            (None, Some((op, _, parts))) => op.fold(of(parts[0]), of(parts[1])).expect("no overflow"),
            (None, None) => unreachable!("all variables have values"),
        }
    }
    of(&dim)
}

fn points(extents: &[i64]) -> Vec<Vec<i64>> {
    extents.iter().fold(vec![Vec::new()], |points, extent| {
        let longer = |point: Vec<i64>| (0..*extent).map(move |value| [point.clone(), vec![value]].concat());
        points.into_iter().flat_map(longer).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_indices_tell_they_tell_at_every_point(
        dims in prop::collection::vec(index(), 1..4),
        extents in prop::collection::vec(prop::sample::select(vec![1i64, 2, 3, 4, 6, 12]), VARS),
    ) {
        let runs: Vec<Runs> =
            extents.iter().enumerate().map(|(at, extent)| Runs { sym: var(at), extent: Some(*extent) }).collect();
        let told = Digits::new(&dims, &runs).told();
        let dense = Digits::new(&dims, &runs).dense();
        let mut seen: HashMap<Vec<i64>, Vec<i64>> = HashMap::new();
        for point in points(&extents) {
            let at: Vec<i64> = dims.iter().map(|dim| value(dim, &point)).collect();
            let first = seen.entry(at.clone()).or_insert_with(|| point.clone());
            for (which, told) in told.iter().enumerate() {
                prop_assert!(!told || first[which] == point[which], "{which} of {first:?} and {point:?} at {at:?}");
            }
        }
        let all = |dim: usize| seen.keys().map(|at| at[dim]).collect::<BTreeSet<i64>>();
        let box_of: i64 = (0..dims.len()).map(|dim| {
            let values = all(dim);
            values.last().expect("a value") - values.first().expect("a value") + 1
        }).product();
        prop_assert!(!dense || box_of == seen.len() as i64, "{box_of} points, {} are reached", seen.len());
    }
}

#[test]
fn tiles_and_fused_loops_are_told() {
    let runs = |extents: [i64; 2]| {
        let run = |(at, extent): (usize, &i64)| Runs { sym: var(at), extent: Some(*extent) };
        extents.iter().enumerate().map(run).collect::<Vec<Runs>>()
    };
    let (x, y) = (Dim::Var(var(0)), Dim::Var(var(1)));
    let tile = [x.clone() * 8 + y.clone()];
    assert_eq!(Digits::new(&tile, &runs([4, 8])).told(), [true, true]);
    assert!(Digits::new(&tile, &runs([4, 8])).dense());
    assert_eq!(Digits::new(&tile, &runs([4, 9])).told(), [false, false], "tiles overlap");
    assert!(!Digits::new(&tile, &runs([4, 7])).dense(), "there are gaps");
    let fused = [x.clone().floor_div(6), x.clone().floor_mod(6), y];
    assert_eq!(Digits::new(&fused, &runs([12, 3])).told(), [true, true]);
    assert!(Digits::new(&fused, &runs([12, 3])).dense());
    assert!(!Digits::new(&fused, &runs([10, 3])).dense(), "the last row is not full");
    let digit = Dim::binary(PrimOp::FloorMod, x.floor_div(6), Dim::int(2, DType::I32));
    assert_eq!(Digits::new(&[digit], &runs([24, 1])).told(), [false, true]);
}

#[test]
fn quotients_and_remainders_by_an_extent_tell_a_variable() {
    let [i, n, j] = [0, 1, 2].map(|at| Dim::Var(var(at)));
    let runs = [Runs { sym: var(0), extent: None }, Runs { sym: var(2), extent: Some(8) }];
    let told = |dims: &[Dim]| Digits::new(dims, &runs).told();
    let [quotient, remainder] = [i.clone().floor_div(n.clone()), i.clone().floor_mod(n.clone())];
    assert_eq!(told(&[quotient.clone(), remainder.clone() * 8 + j.clone()]), [true, true]);
    let tile = i.clone().floor_div(16);
    let three = [tile.clone().floor_div(n.clone()), tile.clone().floor_mod(n), i.clone().floor_mod(16) * 8 + j.clone()];
    assert_eq!(told(&three), [true, true]);
    assert_eq!(told(&three[1..]), [false, true]);
    assert_eq!(told(&[quotient.clone(), j.clone()]), [false, true], "the remainder is missing");
    assert_eq!(told(&[quotient.clone(), remainder.clone() * 4 + j.clone()]), [false, false], "tiles overlap");
    assert_eq!(told(&[quotient, remainder - i, j]), [false, true], "the second index is the same for all remainders");
}
