//! Computes the shape that results from applying an index map to a shape.
//!
//! As in TVM, if each new index is a sum of parts of old indices, a divided index is padded to a multiple of its
//! divisors. So `i % 16` has 16 values regardless of the range of `i`. If the map does not have this form, or uses a
//! part twice, the size follows from the range of the index.

use plugin_api::arith::{apply, simplify};
use plugin_api::ir::{Dim, DimExpr, Sym};
use plugin_api::scalar::{Linear, PrimOp, Split};

/// Returns the new shape, or `None` if it is unknown.
pub(crate) fn mapped(results: &[Dim], variables: &[Sym], shape: &[Dim]) -> Option<Vec<Dim>> {
    let mut map = Map { variables, shape, padding: vec![1; variables.len()], paddings: vec![0; variables.len()] };
    let sums = results.iter().map(|index| map.sum(index)).collect::<Option<Vec<Sum>>>();
    let narrow = match sums {
        Some(sums) if map.parts_are_disjoint(&sums) && sums.iter().all(|sum| map.is_mixed_radix(sum)) => {
            return sums.iter().map(|sum| map.size(sum)).collect();
        }
        sums => sums.is_some(),
    };
    let size = |index: &Dim| match index {
        Dim::Var(_) => Some(shape[map.variable(index)?].clone()),
        other => match range(other, &map, narrow) {
            Some((0, last)) => Some(apply(PrimOp::Add, &last, &Dim::Int(1))),
            _ => None,
        },
    };
    results.iter().map(size).collect()
}

/// A sum of parts of old indices.
type Sum = Linear<Split<usize>>;

struct Map<'a> {
    variables: &'a [Sym],
    shape: &'a [Dim],
    /// For each old index, a divisor of its length after padding.
    padding: Vec<i64>,
    /// The number of times each padding grew.
    paddings: Vec<u32>,
}

impl Map<'_> {
    fn variable(&self, index: &Dim) -> Option<usize> {
        let Dim::Var(sym) = index else { return None };
        self.variables.iter().position(|known| known == sym)
    }

    /// Decomposes an index into a sum of parts.
    fn sum(&mut self, index: &Dim) -> Option<Sum> {
        if let Some(number) = index.as_int() {
            return Some(Sum::constant(number));
        }
        if let Some(variable) = self.variable(index) {
            return Some(Sum::atom(Split::whole(variable)));
        }
        let Dim::Expr(e) = index else { return None };
        let DimExpr::Binary(op, _, a, b) = &**e else { return None };
        let (a, b) = (self.sum(a)?, self.sum(b)?);
        match (*op, a.as_constant(), b.as_constant()) {
            (PrimOp::Add, ..) => a.plus(b),
            (PrimOp::Sub, ..) => a.minus(b),
            (PrimOp::Mul, _, Some(by)) => a.scaled(&by),
            (PrimOp::Mul, Some(by), _) => b.scaled(&by),
            (op @ (PrimOp::FloorDiv | PrimOp::FloorMod), Some(number), Some(by @ 1..)) => {
                op.fold(number, by).map(Sum::constant)
            }
            (op @ (PrimOp::FloorDiv | PrimOp::FloorMod), _, Some(by @ 1..)) => self.divided(op, &a, by),
            _ => None,
        }
    }

    /// Returns the quotient or remainder of a multiple of a single part.
    fn divided(&mut self, op: PrimOp, sum: &Sum, by: i64) -> Option<Sum> {
        let (part, scale) = sum.as_term().filter(|(_, scale)| *scale > 0)?;
        let (part, scale) = match op {
            PrimOp::FloorDiv => part.floordiv(*scale, by)?,
            _ => part.floormod(*scale, by)?,
        };
        if sum.terms[0].0.extent.is_none() {
            let (padding, needed) = (&mut self.padding[part.source], part.upper().unwrap_or(part.lower));
            let padded = least_common_multiple(*padding, needed)?;
            self.paddings[part.source] += u32::from(padded != *padding);
            *padding = padded;
        }
        Some(Sum { terms: vec![(part, scale)], constant: 0 }.without_zeros())
    }

    /// Returns true if no part of an old index is used twice.
    fn parts_are_disjoint(&self, sums: &[Sum]) -> bool {
        let mut parts: Vec<&Split<usize>> = sums.iter().flat_map(|sum| &sum.terms).map(|(part, _)| part).collect();
        parts.sort_by_key(|part| (part.source, part.lower, part.extent));
        parts
            .chunk_by(|a, b| a.source == b.source)
            .all(|parts| parts.windows(2).all(|pair| pair[0].upper().is_some_and(|end| pair[1].lower % end == 0)))
    }

    /// Returns true if each part of a sum begins where the previous one ends.
    fn is_mixed_radix(&self, sum: &Sum) -> bool {
        let mut terms = sum.terms.clone();
        terms.sort_by_key(|(_, scale)| *scale);
        terms.iter().all(|(_, scale)| *scale > 0)
            && terms.windows(2).all(|pair| {
                let extent = self.extent(&pair[0].0).and_then(|extent| extent.as_int());
                extent.and_then(|extent| extent.checked_mul(pair[0].1)) == Some(pair[1].1)
            })
    }

    /// Returns the number of values of a part.
    fn extent(&self, part: &Split<usize>) -> Option<Dim> {
        if let Some(extent) = part.extent {
            return Some(Dim::Int(extent));
        }
        let (size, padding) = (&self.shape[part.source], self.padding[part.source]);
        if let Some(size) = size.as_int() {
            let padded = PrimOp::Mul.fold(PrimOp::FloorDiv.fold(size.checked_add(padding - 1)?, padding)?, padding)?;
            return Some(Dim::Int(padded / part.lower));
        }
        if padding == 1 {
            return Some(size.clone());
        }
        // TVM prints the number of blocks in one of these two forms.
        let blocks = match self.paddings[part.source] {
            1 => padded(size, padding).floor_div(padding),
            _ => apply(
                PrimOp::Add,
                &apply(PrimOp::FloorDiv, &apply(PrimOp::Sub, size, &Dim::Int(1)), &Dim::Int(padding)),
                &Dim::Int(1),
            ),
        };
        Some(if part.lower == padding { blocks } else { apply(PrimOp::Mul, &blocks, &Dim::Int(padding / part.lower)) })
    }

    /// Returns the size of the new dimension, or `None` if it would not begin at 0.
    fn size(&self, sum: &Sum) -> Option<Dim> {
        if sum.constant != 0 {
            return None;
        }
        let Some((last, scale)) = sum.terms.iter().max_by_key(|(_, scale)| *scale) else { return Some(Dim::Int(1)) };
        let extent = self.extent(last)?;
        match extent.as_int() {
            Some(extent) => extent.checked_mul(*scale).map(Dim::Int),
            None if *scale == 1 => Some(extent),
            None if *scale == last.lower && last.lower == self.padding[last.source] => {
                Some(padded(&self.shape[last.source], *scale))
            }
            None => Some(simplify(&(extent * *scale))),
        }
    }
}

/// Rounds a symbolic size up to a multiple.
fn padded(size: &Dim, multiple: i64) -> Dim {
    size.clone() - size.clone().floor_mod(-multiple)
}

fn least_common_multiple(a: i64, b: i64) -> Option<i64> {
    let (mut x, mut y) = (a, b);
    while y != 0 {
        (x, y) = (y, x % y);
    }
    (a / x).checked_mul(b)
}

/// Returns the smallest and largest value of an index, or `None` if unknown. If `narrow` is set, the remainder of a
/// range within one period keeps its exact bounds.
fn range(index: &Dim, map: &Map<'_>, narrow: bool) -> Option<(i64, Dim)> {
    if let Some(value) = index.as_int() {
        return Some((value, Dim::Int(value)));
    }
    if let Some(variable) = map.variable(index) {
        let last = apply(PrimOp::Sub, &map.shape[variable], &Dim::Int(1));
        return last.as_int().is_none_or(|last| last >= 0).then_some((0, last));
    }
    let Dim::Expr(e) = index else { return None };
    let DimExpr::Binary(op, _, a, b) = &**e else { return None };
    combined(*op, range(a, map, narrow)?, range(b, map, narrow)?, narrow)
}

fn combined(op: PrimOp, a: (i64, Dim), b: (i64, Dim), narrow: bool) -> Option<(i64, Dim)> {
    let by = b.1.as_int().filter(|by| *by == b.0 && *by > 0);
    match op {
        PrimOp::Add => Some((PrimOp::Add.fold(a.0, b.0)?, apply(PrimOp::Add, &a.1, &b.1))),
        PrimOp::Sub => Some((PrimOp::Sub.fold(a.0, b.1.as_int()?)?, apply(PrimOp::Sub, &a.1, &Dim::Int(b.0)))),
        PrimOp::Mul => Some((PrimOp::Mul.fold(a.0, by?)?, apply(PrimOp::Mul, &a.1, &b.1))),
        PrimOp::FloorDiv => Some((PrimOp::FloorDiv.fold(a.0, by?)?, apply(PrimOp::FloorDiv, &a.1, &b.1))),
        PrimOp::FloorMod => {
            let by = by?;
            let one_period = |last: &i64| narrow && PrimOp::FloorDiv.fold(a.0, by) == PrimOp::FloorDiv.fold(*last, by);
            match a.1.as_int().filter(one_period) {
                Some(last) => Some((PrimOp::FloorMod.fold(a.0, by)?, Dim::Int(PrimOp::FloorMod.fold(last, by)?))),
                None => Some((0, Dim::Int(by - 1))),
            }
        }
        _ => None,
    }
}
