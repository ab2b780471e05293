//! Assumptions in the analyser's form.

use super::bounds::Bounds;
use super::modular::ModularSet;
use super::store::{Id, Store, is_index};
use super::sum::Sum;
use crate::ir::records::prim;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

type Map<K, T> = HashMap<K, T, foldhash::fast::FixedState>;

#[derive(Default)]
pub(super) struct Facts {
    /// Facts about variables that are bound to a value or range.
    pub(super) bound: Arc<BTreeMap<u32, (Bounds, ModularSet)>>,
    /// Facts about variables that follow from assumptions.
    pub(super) vars: Map<u32, (Bounds, ModularSet)>,
    /// Bounds of other expressions.
    pub(super) atoms: Map<Id, Bounds>,
    /// Bounds of sums of several terms without a constant, with coprime coefficients.
    pub(super) linear: Vec<Fact>,
    /// For each term, the positions in `linear` of the sums with that term.
    pub(super) with_term: Map<Id, Vec<usize>>,
    /// Conditions that are known to be true, or to be false.
    pub(super) truths: Map<Id, bool>,
}

impl Facts {
    /// Returns the facts about a variable.
    pub(super) fn of_var(&self, id: u32) -> Option<(Bounds, ModularSet)> {
        self.vars.get(&id).or_else(|| self.bound.get(&id)).copied()
    }
}

/// A sum and its bounds.
pub(super) struct Fact {
    pub(super) terms: Sum,
    pub(super) bounds: Bounds,
    /// The variable whose range implies the bounds. The range is known to be nonempty only where the variable is in scope.
    pub(super) of: Option<Id>,
}

impl Store {
    /// Assumes that a canonical condition holds; `of` is the variable if the condition is one end of its range. Expressions analysed
    /// earlier are not updated until [`Store::know_again`] is called.
    pub(super) fn assume(&mut self, cond: Id, of: Option<Id>) {
        let mut work = vec![(cond, true)];
        while let Some((id, holds)) = work.pop() {
            let node = self.at(id);
            match (node.op, holds) {
                (prim::INT, _) => continue,
                (prim::NOT, _) => work.push((node.a as Id, !holds)),
                (prim::AND, true) | (prim::OR, false) => work.extend([(node.b, holds), (node.a as Id, holds)]),
                (prim::AND, false) | (prim::OR, true) => {
                    let opposite = self.opposite(id);
                    self.facts.truths.insert(opposite, !holds);
                }
                (prim::EQ..=prim::GE, false) => {
                    let opposite = self.opposite(id);
                    if self.at(opposite).op != prim::NOT {
                        work.push((opposite, true));
                    }
                }
                (prim::EQ..=prim::GE, true) => {
                    let opposite = self.opposite(id);
                    self.assume_comparison(id, of);
                    if !matches!(self.at(opposite).op, prim::INT | prim::NOT) {
                        self.facts.truths.insert(opposite, false);
                    }
                }
                _ => {}
            }
            self.facts.truths.insert(id, holds);
        }
    }

    fn assume_comparison(&mut self, id: Id, of: Option<Id>) -> Option<()> {
        let node = self.at(id);
        let (a, b) = (node.a as Id, node.b);
        if !is_index(self.at(a).dtype) || !is_index(self.at(b).dtype) {
            return None;
        }
        let sum = self.plus(&self.sum_of(a), &self.sum_of(b), -1)?;
        let bounds = match node.op {
            prim::LT => Bounds::at_most(-1),
            prim::LE => Bounds::at_most(0),
            prim::GT => Bounds::at_least(1),
            prim::GE => Bounds::at_least(0),
            prim::EQ => Bounds::of(0, 0),
            _ => match self.sum_bounds(&sum) {
                Bounds { min: 0, max } => Bounds::of(1, max),
                Bounds { min, max: 0 } => Bounds::of(min, -1),
                _ => return None,
            },
        };
        if node.op == prim::EQ {
            self.assume_remainder(&sum);
        }
        self.assume_sum(sum, bounds, of)
    }

    fn assume_sum(&mut self, sum: Sum, bounds: Bounds, of: Option<Id>) -> Option<()> {
        let g = sum.divisor().max(1);
        let bounds = bounds.add(Bounds::exactly(sum.constant).negate());
        let bounds = ceil_floor(bounds, g);
        let terms = Sum { terms: sum.terms, constant: 0 }.divide(g);
        match terms.terms[..] {
            [] => {}
            [(id, c)] => {
                let bounds = if c < 0 { bounds.negate() } else { bounds };
                let known = self.bounds[id as usize].intersect(bounds);
                self.facts.atoms.insert(id, known);
                self.bounds[id as usize] = known;
                self.assume_factors(id);
                self.assume_dividend(id);
            }
            [(first, _), ..] => {
                let facts = &mut self.facts;
                let those = facts.with_term.get(&first).map_or(&[][..], Vec::as_slice);
                let same = |fact: &Fact| fact.terms == terms && fact.of == of;
                if let Some(i) = those.iter().copied().find(|i| same(&facts.linear[*i])) {
                    let known = &mut facts.linear[i].bounds;
                    *known = known.intersect(bounds);
                } else {
                    for (id, _) in &terms.terms {
                        facts.with_term.entry(*id).or_default().push(facts.linear.len());
                    }
                    facts.linear.push(Fact { terms, bounds, of });
                }
            }
        }
        Some(())
    }

    /// Derives that no factor of a positive product is 0, if both are known not to be negative.
    fn assume_factors(&mut self, product: Id) -> Option<()> {
        let (a, b) = self.is(product, prim::MUL).filter(|_| self.bounds[product as usize].min >= 1)?;
        let factors = [a, b].map(|factor| (factor, self.bounds[factor as usize].min));
        factors.iter().all(|(_, least)| *least >= 0).then_some(())?;
        for (factor, _) in factors.into_iter().filter(|(_, least)| *least == 0) {
            self.assume_sum(self.sum_of(factor), Bounds::at_least(1), None);
        }
        Some(())
    }

    /// Derives the bounds of `x` from those of `x // c`.
    fn assume_dividend(&mut self, quotient: Id) -> Option<()> {
        let (x, c) = self.by_constant(quotient, prim::FLOORDIV)?;
        let Bounds { min, max } = self.bounds[quotient as usize];
        let min = if min == Bounds::NEG_INF { min } else { min.checked_mul(c)? };
        let max = if max == Bounds::POS_INF { max } else { max.checked_mul(c)?.checked_add(c - 1)? };
        self.assume_sum(self.sum_of(x), Bounds::of(min, max), None)
    }

    /// Derives a modular set from `x % c == k`, where `x` is a variable.
    fn assume_remainder(&mut self, sum: &Sum) -> Option<()> {
        let [(id, unit @ (1 | -1))] = sum.terms[..] else { return None };
        let (x, c) = self.by_constant(id, prim::FLOORMOD)?;
        let var = self.at(x);
        let known = self.modular[x as usize];
        if var.op == prim::VAR && c % known.coeff.max(1) == 0 {
            let rest = sum.constant.checked_mul(-unit)?;
            self.facts.vars.insert(var.a as u32, (self.bounds[x as usize], ModularSet::new(c, rest)));
        }
        Some(())
    }
}

/// Returns the bounds of `x`, given the bounds of `g * x`.
fn ceil_floor(bounds: Bounds, g: i64) -> Bounds {
    let min =
        if bounds.min == Bounds::NEG_INF { bounds.min } else { -(-i128::from(bounds.min)).div_euclid(g.into()) as i64 };
    let max = if bounds.max == Bounds::POS_INF { bounds.max } else { bounds.max.div_euclid(g) };
    Bounds::of(min, max)
}
