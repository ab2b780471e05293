//! Layout transformations.

use super::{Legal, Row, cannot, float_attr, result_shape};
use plugin_api::ir::{Call, DType, Dim, DimExpr, Sym};
use plugin_api::scalar::PrimOp;
use plugin_api::te::{Te, TeExpr};
use plugin_api::typing::operators::InferError;

pub(super) const ROWS: &[Row] = &[("relax.layout_transform", layout_transform)];

/// An index map in which each new index is an old index, or a quotient or remainder of an old index by a number.
struct Parts {
    /// For each new index: the old index, and optionally the divisor, with a flag that is true for the remainder.
    parts: Vec<(usize, Option<(i64, bool)>)>,
}

impl Parts {
    fn of(results: &[Dim], variables: &[Sym]) -> Option<Parts> {
        let variable = |dim: &Dim| match dim {
            Dim::Var(sym) => variables.iter().position(|known| known == sym),
            _ => None,
        };
        let part = |dim: &Dim| match dim {
            Dim::Expr(expr) => match &**expr {
                DimExpr::Binary(op, _, old, by) if [PrimOp::FloorDiv, PrimOp::FloorMod].contains(op) => {
                    Some((variable(old)?, Some((by.as_int().filter(|by| *by > 0)?, *op == PrimOp::FloorMod))))
                }
                _ => None,
            },
            old => Some((variable(old)?, None)),
        };
        Some(Parts { parts: results.iter().map(part).collect::<Option<_>>()? })
    }

    /// Returns the positions of an old index among the new indices: whole, or quotient and remainder. Returns `None` if
    /// it is split in another way.
    fn place(&self, old: usize) -> Option<(usize, Option<(usize, i64)>)> {
        let at: Vec<usize> = (0..self.parts.len()).filter(|at| self.parts[*at].0 == old).collect();
        match &at[..] {
            [whole] if self.parts[*whole].1.is_none() => Some((*whole, None)),
            [a, b] => match (self.parts[*a].1?, self.parts[*b].1?) {
                ((by, false), (other, true)) if by == other => Some((*a, Some((*b, by)))),
                ((other, true), (by, false)) if by == other => Some((*b, Some((*a, by)))),
                _ => None,
            },
            _ => None,
        }
    }
}

fn layout_transform(call: Call<'_>) -> Legal {
    let no_map = || InferError::wrong("it is legalized only for maps of indices, quotients and remainders");
    let (variables, results) = crate::distributed::index_map(call).ok_or_else(no_map)?;
    let parts = Parts::of(&results, &variables).ok_or_else(no_map)?;
    let shape = result_shape(call)?;
    let padded = |(old, size): (usize, &Dim)| match parts.place(old)? {
        (_, None) => Some(None),
        (quotient, Some((rest, by))) => match size.as_int() {
            Some(size) if size % by == 0 => Some(None),
            _ => Some(Some((size.clone(), quotient, rest, by))),
        },
    };
    let plain = Te::new("te_layout_transform", call);
    let x = plain.input(0)?;
    let found = x.shape().iter().enumerate().map(padded).collect::<Option<Vec<_>>>().ok_or_else(no_map)?;
    let mut pads = found.into_iter().flatten();
    let Some((size, quotient, rest, by)) = pads.next() else {
        let out = plain.compute_placed("te_layout_transform", &shape, x.shape(), |i| {
            let place = parts.parts.iter().map(|(old, part)| match part {
                None => i[*old].clone(),
                Some((by, false)) => &i[*old] / *by,
                Some((by, true)) => &i[*old] % *by,
            });
            (place.collect(), x.at(i))
        });
        return plain.finish(&[out]);
    };
    if pads.next().is_some() {
        return cannot("it pads several axes");
    }
    let te = Te::new("te_layout_transform_with_pad", call);
    let x = te.input(0)?;
    let fill = float_attr(call, "pad_value").unwrap_or(0.0);
    let fill = TeExpr::float(fill, DType::F64).cast(x.dtype());
    let out = te.compute("te_layout_transform_with_pad", &shape, |i| {
        let index = (0..x.ndim()).filter_map(|old| match parts.place(old)? {
            (whole, None) => Some(i[whole].clone()),
            (quotient, Some((rest, by))) => Some(&i[quotient] * by + &i[rest]),
        });
        let value = x.at(index);
        let last = TeExpr::of_dim(size.clone());
        let padding = match size.as_int() {
            Some(known) if known % by == by - 1 => i[quotient].eq(&last / by).and(i[rest].eq(known % by)),
            Some(known) => i[quotient].eq(&last / by).and(TeExpr::int(known % by, DType::I64).le(&i[rest])),
            None => {
                let pads = (&last % -by).lt(0);
                pads.and(i[quotient].eq(&last / by)).and((&last % by).le(&i[rest]))
            }
        };
        padding.if_then_else(fill, value)
    });
    te.finish(&[out])
}
