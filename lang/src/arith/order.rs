//! Proofs of order, and the rules based on them: `min`, `max`, comparisons, logic, choices.

use super::bounds::Bounds;
use super::modular::gcd;
use super::store::{IF_THEN_ELSE, Id, SELECT, Store, is_index};
use super::sum::Sum;
use crate::ir::DType;
use crate::ir::records::{NONE, prim};

/// Maximum number of atoms that one proof replaces by their bounds, in sequence.
const MAX_STEPS: u32 = 3;
/// Maximum number of terms of a sum for which such replacements are tried; the work is a power of this number.
const MAX_TRIED: usize = 6;
/// Maximum depth of nested rules at which `min` and `max` in comparisons are expanded, because the work doubles with
/// each level.
const MAX_COMPARED: u32 = 4;

/// `T < u`, where `T` is a sum without a constant and with coprime coefficients.
struct Less {
    terms: Sum,
    u: i64,
}

impl Store {
    /// Returns true if a sum is provably nonnegative.
    pub(super) fn at_least_0(&self, sum: &Sum) -> bool {
        self.least(sum, MAX_STEPS) >= 0
    }

    /// Returns the bounds of a sum, using bounds of its `min`, `max` and quotient terms.
    pub(super) fn tight_bounds(&self, sum: &Sum) -> Bounds {
        let bounds = self.sum_bounds(sum);
        let max = |store: &Store| store.least(&sum.scale(-1)?, MAX_STEPS).checked_neg();
        bounds.intersect(Bounds::of(self.least(sum, MAX_STEPS), max(self).unwrap_or(Bounds::POS_INF)))
    }

    /// Returns a lower bound of the sum. The search stops at the first nonnegative bound.
    fn least(&self, sum: &Sum, steps: u32) -> i64 {
        let mut least = self.sum_bounds(sum).min;
        if steps == 0 || least >= 0 || sum.terms.len() > MAX_TRIED {
            return least;
        }
        for (id, c) in &sum.terms {
            let node = self.at(*id);
            let with = |part: Id, c: i64| {
                let rest = self.plus(sum, &Sum::atom(*id), c.checked_neg()?)?;
                self.plus(&rest, &self.sum_of(part), c)
            };
            let of = |part: Id| with(part, *c).map_or(Bounds::NEG_INF, |sum| self.least(&sum, steps - 1));
            let (a, b) = (node.a as Id, node.b);
            let bound = match node.op {
                _ if !is_index(node.dtype) => continue,
                // `min` is at most both operands, and `max` at least both.
                prim::MIN if *c < 0 => of(a).max(of(b)),
                prim::MAX if *c > 0 => of(a).max(of(b)),
                prim::MIN | prim::MAX => of(a).min(of(b)),
                SELECT | IF_THEN_ELSE => of(b).min(of(node.c)),
                prim::FLOORDIV => {
                    let by_number = self.least_of_quotient(sum, (*id, *c), steps);
                    by_number.or_else(|| self.least_below_factor(sum, (*id, *c), steps)).unwrap_or(Bounds::NEG_INF)
                }
                // A remainder is at most the divisor minus 1.
                prim::FLOORMOD if *c < 0 && self.bounds[b as usize].min >= 0 => {
                    let with_divisor = of(b);
                    if with_divisor == Bounds::NEG_INF { continue } else { with_divisor.saturating_sub(*c) }
                }
                _ => continue,
            };
            least = least.max(bound);
        }
        least
    }

    /// Returns a lower bound of `d * sum`, where `d * (x // d)` is replaced by `x` minus at most `d - 1`.
    fn least_of_quotient(&self, sum: &Sum, (id, c): (Id, i64), steps: u32) -> Option<i64> {
        let (x, d) = self.by_constant(id, prim::FLOORDIV)?;
        let rest = self.plus(sum, &Sum::atom(id), c.checked_neg()?)?.scale(d)?;
        let whole = self.plus(&rest, &self.sum_of(x), c)?;
        let least = self.least(&whole, steps - 1);
        let less = if c > 0 { (d - 1).checked_mul(c)? } else { 0 };
        (least != Bounds::NEG_INF).then_some(())?;
        Some(-(-(i128::from(least) - i128::from(less))).div_euclid(d.into())).and_then(|v| i64::try_from(v).ok())
    }

    /// Returns a lower bound of `sum`, where `x // d` is replaced by `n - 1` because of `x < n * d`. `d` is not constant, and `n * d` is a
    /// product that an assumption mentions.
    fn least_below_factor(&self, sum: &Sum, (id, c): (Id, i64), steps: u32) -> Option<i64> {
        let (x, d) = self.is(id, prim::FLOORDIV).filter(|(_, d)| self.as_int(*d).is_none())?;
        (c < 0 && self.bounds[d as usize].min >= 0).then_some(())?;
        let products =
            self.facts.with_term.keys().filter_map(|product| Some((*product, self.other_factor(*product, d)?)));
        let bounds = products.filter_map(|(product, n)| {
            let room = self.plus(&Sum::atom(product), &self.sum_of(x), -1)?;
            (self.least(&room, steps - 1) >= 1).then_some(())?;
            let rest = self.plus(sum, &Sum::atom(id), c.checked_neg()?)?;
            let least = self.least(&self.plus(&rest, &self.sum_of(n), c)?, steps - 1);
            (least != Bounds::NEG_INF).then(|| least.saturating_sub(c))
        });
        bounds.max()
    }

    /// Returns the factor that a product has besides `d`.
    fn other_factor(&self, product: Id, d: Id) -> Option<Id> {
        let (a, b) = self.is(product, prim::MUL)?;
        if a == d { Some(b) } else { Some(a).filter(|_| b == d) }
    }

    /// Returns the canonical `min` or `max` of canonical integers.
    pub(super) fn extreme(&mut self, op: u16, a: Id, b: Id, dtype: DType) -> Id {
        let (x, y) = (self.sum_of(a), self.sum_of(b));
        let out = self.deeper(|store| store.extreme_of(op, &x, &y, dtype));
        out.and_then(|sum| self.make(sum, dtype)).unwrap_or_else(|| self.binary(op, dtype, a, b))
    }

    fn extreme_of(&mut self, op: u16, a: &Sum, b: &Sum, dtype: DType) -> Option<Sum> {
        let (up, down) = (self.plus(b, a, -1)?, self.plus(a, b, -1)?);
        if self.at_least_0(&up) {
            return Some(if op == prim::MIN { a.clone() } else { b.clone() });
        }
        if self.at_least_0(&down) {
            return Some(if op == prim::MIN { b.clone() } else { a.clone() });
        }
        if let Some(one) = self.extreme_of_nested(op, a, b, dtype).or_else(|| self.extreme_of_nested(op, b, a, dtype)) {
            return Some(one);
        }
        self.extreme_of_rests(op, a, b, dtype)
    }

    /// Factors out of `min(a, b)` the parts that both operands share: terms, the constant, the divisor and the sign.
    fn extreme_of_rests(&mut self, mut op: u16, a: &Sum, b: &Sum, dtype: DType) -> Option<Sum> {
        let common = common(a, b);
        let (mut x, mut y) = (self.plus(a, &common, -1)?, self.plus(b, &common, -1)?);
        let divisor = [x.divisor(), y.divisor(), x.constant, y.constant].iter().fold(0, |g, v| gcd(g, (*v).into()));
        let mut factor = i64::try_from(divisor).ok()?.max(1);
        (x, y) = (x.divide(factor), y.divide(factor));
        if x.terms.iter().chain(&y.terms).all(|(_, c)| *c < 0) {
            (x, y) = (x.scale(-1)?, y.scale(-1)?);
            op = if op == prim::MIN { prim::MAX } else { prim::MIN };
            factor = factor.checked_neg()?;
        }
        let (mut x, mut y) = self.build_both([&x, &y], [a, b], dtype)?;
        // A constant is the last operand.
        let swap = match (self.as_int(x), self.as_int(y)) {
            (Some(_), _) => true,
            (_, Some(_)) => false,
            _ => self.compare(x, y).is_gt(),
        };
        if swap {
            (x, y) = (y, x);
        }
        let atom = self.binary(op, dtype, x, y);
        self.plus(&common, &Sum::atom(atom), factor)
    }

    /// Simplifies `min(min(p, q), b)` and `min(max(p, q), b)` if `b` can be compared with `p` or `q`.
    fn extreme_of_nested(&mut self, op: u16, a: &Sum, b: &Sum, dtype: DType) -> Option<Sum> {
        let other = if op == prim::MIN { prim::MAX } else { prim::MIN };
        let [(atom, 1)] = a.terms[..] else { return None };
        let ((p, q), same) = self
            .is(atom, op)
            .map(|parts| (parts, true))
            .or_else(|| self.is(atom, other).map(|parts| (parts, false)))?;
        for (part, left) in [(p, q), (q, p)] {
            let part = self.sum_of(part).shift(a.constant)?;
            let left = self.sum_of(left).shift(a.constant)?;
            let difference = if op == prim::MIN { self.plus(&part, b, -1)? } else { self.plus(b, &part, -1)? };
            // `b` is at least as extreme as `part`, so `part` can be dropped.
            if self.at_least_0(&difference) {
                return if same { self.deeper(|store| store.extreme_of(op, &left, b, dtype)) } else { Some(b.clone()) };
            }
        }
        None
    }

    /// Returns the canonical comparison of canonical operands.
    pub(super) fn comparison(&mut self, op: u16, a: Id, b: Id) -> Id {
        let (op, a, b) = match op {
            prim::GT => (prim::LT, b, a),
            prim::GE => (prim::LE, b, a),
            _ => (op, a, b),
        };
        let index = |id: Id| is_index(self.at(id).dtype);
        let id = if index(a) && index(b) {
            let dtype = if self.as_int(a).is_some() { self.at(b).dtype } else { self.at(a).dtype };
            let given = [self.sum_of(a), self.sum_of(b)];
            let difference = self.plus(&given[0], &given[1], -1);
            difference.and_then(|sum| self.deeper(|store| store.compare_to_0(op, sum, &given, dtype)))
        } else {
            let reflexive = a == b && !self.at(a).dtype.is_float() && self.at(a).op != prim::FLOAT;
            reflexive.then(|| self.truth(matches!(op, prim::EQ | prim::LE)))
        };
        let id = id.unwrap_or_else(|| self.binary(op, DType::BOOL, a, b));
        self.known(id)
    }

    /// Returns the assumed truth value of a condition; otherwise, returns the condition.
    pub(super) fn known(&mut self, id: Id) -> Id {
        match self.facts.truths.get(&id).copied() {
            Some(value) => self.truth(value),
            None => id,
        }
    }

    /// Compares a difference with 0. Returns `None` if a side of the comparison may not fit its data type, given that the sums in `given`
    /// fit.
    fn compare_to_0(&mut self, op: u16, mut sum: Sum, given: &[Sum], dtype: DType) -> Option<Id> {
        if matches!(op, prim::EQ | prim::NE) {
            return self.equal_to_0(op, sum, given, dtype);
        }
        if op == prim::LE {
            sum = sum.shift(-1)?;
        }
        let never = self.at_least_0(&sum);
        if never || sum.scale(-1)?.shift(-1).is_some_and(|less| self.at_least_0(&less)) {
            return Some(self.truth(!never));
        }
        if op == prim::LT
            && let Some(known) = self.less_of_parts(&sum, given, dtype)
        {
            return Some(known);
        }
        let less = Store::less(&sum)?;
        if let Some(known) = self.compare_atom(&less, dtype) {
            return Some(known);
        }
        let (above, below) = less.terms.terms.iter().partition(|(_, c)| *c > 0);
        let (above, below) = (Sum { terms: above, constant: 0 }, Sum { terms: below, constant: 0 }.scale(-1)?);
        let (op, left, right) = if above.terms.is_empty() {
            (prim::LE, Sum::constant(1i64.checked_sub(less.u)?), below)
        } else if below.terms.is_empty() {
            (prim::LT, above, Sum::constant(less.u))
        } else if less.u == 1 {
            (prim::LE, above, below)
        } else if less.u >= 0 {
            (prim::LT, above, below.shift(less.u)?)
        } else {
            (prim::LT, above.shift(less.u.checked_neg()?)?, below)
        };
        let (left, right) = self.build_both([&left, &right], given, dtype)?;
        Some(self.binary(op, DType::BOOL, left, right))
    }

    /// Rewrites `x // c < u` as `x < c * u`, and `max(p, q) < u` as `p < u and q < u` if one of the two conditions is known.
    fn compare_atom(&mut self, less: &Less, dtype: DType) -> Option<Id> {
        let [(atom, sign @ (1 | -1))] = less.terms.terms[..] else { return None };
        // The condition is `atom < u` if the sign is positive, and `atom >= u` otherwise.
        let u = if sign > 0 { less.u } else { 1i64.checked_sub(less.u)? };
        let ask = |store: &mut Store, part: Id, u: i64| {
            let part = store.sum_of(part);
            let sum = part.clone().shift(u.checked_neg()?)?;
            let (op, sum) = if sign > 0 { (prim::LT, sum) } else { (prim::LE, sum.scale(-1)?) };
            store.deeper(|store| store.compare_to_0(op, sum, &[part], dtype))
        };
        if let Some((x, c)) = self.by_constant(atom, prim::FLOORDIV) {
            let u = u.checked_mul(c).filter(|u| Bounds::of_dtype(dtype).contains(*u))?;
            return ask(self, x, u);
        }
        let node = self.at(atom);
        if !matches!(node.op, prim::MIN | prim::MAX) || self.depth > MAX_COMPARED {
            return None;
        }
        let (a, b) = (ask(self, node.a as Id, u)?, ask(self, node.b, u)?);
        let all = (node.op == prim::MAX) == (sign > 0);
        match (self.as_int(a), self.as_int(b)) {
            (None, None) => None,
            _ => Some(self.logic(if all { prim::AND } else { prim::OR }, a, b)),
        }
    }

    /// Rewrites `d * a + rest < 0`, where `a` is a sum. If the rest is nonnegative and less than `d`, the result is `a < 0`; if the rest is `x % m`
    /// and `d` divides `m`, the result is `a + x // d % (m // d) < 0`.
    fn less_of_parts(&mut self, sum: &Sum, given: &[Sum], dtype: DType) -> Option<Id> {
        let several = sum.terms.iter().filter(|(_, c)| c.abs() > 1);
        let (n, d) = several.fold((0, gcd(0, sum.constant.into())), |(n, d), (_, c)| (n + 1, gcd(d, (*c).into())));
        let d = i64::try_from(d).ok().filter(|d| n > 0 && *d > 1)?;
        let (whole, mut rest) = sum.split(d);
        rest.constant = 0;
        let whole = Sum { terms: whole.terms, constant: sum.constant }.divide(d);
        let bounds = self.tight_bounds(&rest);
        let sum = match rest.terms[..] {
            [] => return None,
            _ if bounds.min >= 0 && bounds.max < d => whole,
            [(part, 1)] => {
                let (x, m) = self.by_constant(part, prim::FLOORMOD).filter(|(_, m)| m % d == 0)?;
                let (by, modulus) = (self.int(d, dtype), self.int(m / d, dtype));
                let quotient = self.floordiv(x, by, dtype);
                let written = self.binary(prim::FLOORDIV, dtype, x, by);
                // Keep a quotient as written if it would not become shorter.
                let part = if self.size[quotient as usize] < self.size[written as usize] {
                    self.floormod(quotient, modulus, dtype)
                } else {
                    self.binary(prim::FLOORMOD, dtype, written, modulus)
                };
                self.plus(&whole, &self.sum_of(part), 1)?
            }
            _ => return None,
        };
        let given: Vec<Sum> = given.iter().map(|given| given.split(d).0.divide(d)).collect();
        self.deeper(|store| store.compare_to_0(prim::LT, sum, &given, dtype))
    }

    /// Returns `sum < 0` in the form `T < u`.
    fn less(sum: &Sum) -> Option<Less> {
        let g = sum.divisor().max(1);
        let terms = Sum { terms: sum.terms.clone(), constant: 0 }.divide(g);
        let u = -(i128::from(sum.constant).div_euclid(g.into()));
        Some(Less { terms, u: i64::try_from(u).ok()? })
    }

    /// Returns the comparison (`==` or `!=`) of a sum with 0. Overflow need not be checked, because sides that wrap around are equal
    /// if and only if the given sides are.
    fn equal_to_0(&mut self, op: u16, sum: Sum, given: &[Sum], dtype: DType) -> Option<Id> {
        let bounds = self.tight_bounds(&sum);
        let g = sum.divisor().max(1);
        let never = !bounds.contains(0) || !self.sum_modular(&sum).contains(0) || sum.constant % g != 0;
        if never || bounds.constant() == Some(0) {
            return Some(self.truth(never == (op == prim::NE)));
        }
        // A value other than the least is greater than the least; a value other than the greatest is less than the greatest.
        if op == prim::NE && bounds.min >= 0 {
            return self.compare_to_0(prim::LT, sum.scale(-1)?, given, dtype);
        }
        if op == prim::NE && bounds.max <= 0 {
            return self.compare_to_0(prim::LT, sum, given, dtype);
        }
        let sign = if sum.terms.first().is_some_and(|(_, c)| *c < 0) { -1 } else { 1 };
        let terms = sum.terms.iter().map(|(id, c)| (*id, c / g * sign)).collect();
        let sum = Sum { terms, constant: (sum.constant / g).checked_mul(sign)? };
        let (left, right) = sum.terms.iter().partition(|(_, c)| *c > 0);
        let (left, right) = (Sum { terms: left, constant: 0 }, Sum { terms: right, constant: sum.constant }.scale(-1)?);
        let (left, right) = (self.build(&left, dtype)?, self.build(&right, dtype)?);
        Some(self.binary(op, DType::BOOL, left, right))
    }

    /// Returns the canonical negation of a canonical condition. The negation of an `and` is the `or` of the negated
    /// sides, and vice versa.
    pub(super) fn opposite(&mut self, cond: Id) -> Id {
        let mut work = vec![(cond, false)];
        while let Some((id, sides_are_done)) = work.pop() {
            if self.opposites[id as usize] != NONE {
                continue;
            }
            let node = self.at(id);
            let (a, b) = (node.a as Id, node.b);
            let opposite = match node.op {
                prim::AND | prim::OR if !sides_are_done => {
                    work.extend([(id, true), (b, false), (a, false)]);
                    continue;
                }
                prim::AND => self.logic(prim::OR, self.opposites[a as usize], self.opposites[b as usize]),
                prim::OR => self.logic(prim::AND, self.opposites[a as usize], self.opposites[b as usize]),
                _ => self.negation(id),
            };
            self.opposites[id as usize] = opposite;
            // Many conditions have a constant negation, but a constant has only one negation.
            if self.as_int(opposite).is_none() && self.opposites[opposite as usize] == NONE {
                self.opposites[opposite as usize] = id;
            }
        }
        self.opposites[cond as usize]
    }

    fn are_opposites(&mut self, a: Id, b: Id) -> bool {
        match self.at(a).op {
            prim::AND | prim::OR => self.opposites[a as usize] == b,
            _ => self.negation(a) == b || self.negation(b) == a,
        }
    }

    /// Returns the canonical negation of a canonical condition that is not an `and` or `or`.
    fn negation(&mut self, id: Id) -> Id {
        let node = self.at(id);
        let (a, b) = (node.a as Id, node.b);
        // A comparison of floats and its opposite may both be false. Only comparisons are sure to have operands.
        let ints = matches!(node.op, prim::EQ..=prim::GE) && self.at(a).dtype.is_int();
        match node.op {
            prim::INT => self.truth(node.a == 0),
            prim::NOT => a,
            prim::LT if ints => self.comparison(prim::LE, b, a),
            prim::LE if ints => self.comparison(prim::LT, b, a),
            prim::GT if ints => self.comparison(prim::LE, a, b),
            prim::GE if ints => self.comparison(prim::LT, a, b),
            prim::EQ if ints => self.comparison(prim::NE, a, b),
            prim::NE if ints => self.comparison(prim::EQ, a, b),
            _ => {
                let id = self.unary(prim::NOT, DType::BOOL, id);
                self.known(id)
            }
        }
    }

    /// Returns the canonical `and` or `or` of two canonical conditions, in the given order.
    pub(super) fn logic(&mut self, op: u16, a: Id, b: Id) -> Id {
        let neutral = op == prim::AND;
        match (self.as_int(a).map(|v| v != 0), self.as_int(b).map(|v| v != 0)) {
            (Some(v), _) => return if v == neutral { b } else { a },
            (_, Some(v)) => return if v == neutral { a } else { b },
            _ if a == b => return a,
            _ => {}
        }
        if self.are_opposites(a, b) {
            return self.truth(!neutral);
        }
        if let Some(known) = self.both_equal(op, a, b) {
            return known;
        }
        let id = self.both_less(op, a, b).unwrap_or_else(|| self.binary(op, DType::BOOL, a, b));
        self.known(id)
    }

    /// Combines two comparisons of the same expression with numbers; at least one of them is `==` or `!=`.
    fn both_equal(&mut self, op: u16, a: Id, b: Id) -> Option<Id> {
        let equation = |store: &Store, id: Id| {
            let node = store.at(id);
            let number = matches!(node.op, prim::EQ | prim::NE).then(|| store.as_int(node.b))??;
            Some((node.a, number, node.op == prim::EQ))
        };
        let ((x, c, equal), (y, d, also)) = (equation(self, a)?, equation(self, b)?);
        if x != y {
            return None;
        }
        // In an `and`, the `==` is the stronger condition; in an `or`, the `!=` is the weaker condition.
        match (op == prim::AND, equal, also) {
            (true, true, true) => Some(if c == d { a } else { self.truth(false) }),
            (true, true, false) => Some(if c == d { self.truth(false) } else { a }),
            (true, false, true) => Some(if c == d { self.truth(false) } else { b }),
            (false, false, false) => Some(if c == d { a } else { self.truth(true) }),
            (false, false, true) => Some(if c == d { self.truth(true) } else { a }),
            (false, true, false) => Some(if c == d { self.truth(true) } else { b }),
            _ => None,
        }
    }

    /// Combines two inequalities of the same sum.
    fn both_less(&mut self, op: u16, a: Id, b: Id) -> Option<Id> {
        let (x, y) = (self.as_less(a)?, self.as_less(b)?);
        if x.terms == y.terms {
            return Some(if (x.u <= y.u) == (op == prim::AND) { a } else { b });
        }
        // `T < x.u` and `T > -y.u`.
        if x.terms == y.terms.scale(-1)? {
            let gap = i128::from(x.u) + i128::from(y.u);
            // If the gap is at most 1, no integer satisfies both conditions; if it is at least 1, every integer satisfies at least one.
            return match op {
                prim::AND if gap <= 1 => Some(self.truth(false)),
                prim::OR if gap >= 1 => Some(self.truth(true)),
                _ => None,
            };
        }
        None
    }

    fn as_less(&self, id: Id) -> Option<Less> {
        let node = self.at(id);
        let (a, b) = (node.a as Id, node.b);
        if !matches!(node.op, prim::LT | prim::LE) || !is_index(self.at(a).dtype) || !is_index(self.at(b).dtype) {
            return None;
        }
        let sum = self.plus(&self.sum_of(a), &self.sum_of(b), -1)?;
        Store::less(&if node.op == prim::LE { sum.shift(-1)? } else { sum })
    }

    /// Returns the canonical choice between canonical values.
    pub(super) fn choice(&mut self, op: u16, dtype: DType, cond: Id, then: Id, other: Id) -> Id {
        match self.as_int(cond) {
            Some(0) => other,
            Some(_) => then,
            None if then == other => then,
            None => {
                let (cond, then, other) = match self.at(cond).op {
                    prim::NOT => (self.at(cond).a as Id, other, then),
                    _ => (cond, then, other),
                };
                self.node(super::store::Node { op, dtype, a: cond.into(), b: then, c: other })
            }
        }
    }
}

/// Returns the terms and the part of the constant that two sums share.
fn common(a: &Sum, b: &Sum) -> Sum {
    let terms = a.terms.iter().filter(|term| b.terms.contains(term)).copied().collect();
    let constant = match (a.as_constant(), b.as_constant()) {
        (Some(_), None) => b.constant,
        (None, Some(_)) => a.constant,
        _ if a.constant.signum() != b.constant.signum() => 0,
        _ if a.constant < 0 => a.constant.max(b.constant),
        _ => a.constant.min(b.constant),
    };
    Sum { terms, constant }
}
