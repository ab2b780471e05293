//! Conditions as conjunctions of disjunctions.

use crate::arith::Piece;
use crate::arith::analyzer::Analyzer;
use crate::arith::store::{Id, Store};
use crate::ir::records::prim;
use crate::ir::{DType, Value};

/// Maximum number of disjunctions into which a condition is converted; other conditions are left unchanged.
const MAX_CHUNKS: usize = 64;

impl Analyzer {
    /// Like [`Analyzer::pieces`], but returns a condition as a conjunction of disjunctions: `a or b and c` becomes `(a or b) and (a or c)`.
    ///
    /// ```
    /// use plugin_api::arith::{Analyzer, Piece};
    /// use plugin_api::scalar::PrimOp;
    /// use plugin_api::prelude::*;
    /// use plugin_api::tir::prim_func;
    ///
    /// // n == 1 or m == 2 and k == 3
    /// let body = prim_func(|t| {
    ///     let [n, m, k] = ["n", "m", "k"].map(|name| t.param(name, DType::I32));
    ///     t.evaluate(n.eq(1).or(m.eq(2).and(k.eq(3))));
    /// })?;
    /// let stmt = body.values().find_map(|value| value.stmt()?.evaluated()).expect("a condition");
    /// let pieces = Analyzer::new().pieces_of_conjunction(stmt).expect("a condition");
    /// assert_eq!(pieces.last(), Some(&Piece::Op(PrimOp::And, DType::BOOL)));
    /// # Ok::<(), PassError>(())
    /// ```
    pub fn pieces_of_conjunction(&mut self, cond: Value<'_>) -> Option<Vec<Piece>> {
        self.refresh();
        let id = self.enter_opaque(cond)?;
        let store = self.store();
        let simple = store.simplify(id);
        let simple = store.and_of_ors(simple);
        self.pieces_of(id, simple)
    }
}

impl Store {
    /// Converts a condition to a conjunction of disjunctions, without redundant disjunctions.
    fn and_of_ors(&mut self, cond: Id) -> Id {
        let Some(parts) = self.conjunction(cond) else { return cond };
        let mut chunks: Vec<Vec<Id>> = Vec::new();
        for part in parts {
            let mut chunk = Vec::new();
            self.disjunction(part, &mut chunk);
            let same = |other: &Vec<Id>| other.len() == chunk.len() && other.iter().all(|part| chunk.contains(part));
            if !chunks.iter().any(same) {
                chunks.push(chunk);
            }
        }
        for chunk in &mut chunks {
            for i in 0..chunk.len() {
                for j in i + 1..chunk.len() {
                    (chunk[i], chunk[j]) = self.pair(prim::OR, chunk[i], chunk[j]);
                }
            }
        }
        self.tidy_chunks(&mut chunks);
        for i in 0..chunks.len() {
            for j in i + 1..chunks.len() {
                self.across(&mut chunks, i, j);
            }
        }
        self.tidy_chunks(&mut chunks);
        let chunks: Vec<Id> = chunks.into_iter().map(|chunk| self.joined(prim::OR, chunk)).collect();
        self.joined(prim::AND, chunks)
    }

    /// Returns the conditions whose conjunction is `cond`.
    fn conjunction(&mut self, cond: Id) -> Option<Vec<Id>> {
        if let Some((a, b)) = self.is(cond, prim::AND) {
            let (mut a, b) = (self.conjunction(a)?, self.conjunction(b)?);
            a.extend(b);
            return (a.len() <= MAX_CHUNKS).then_some(a);
        }
        let Some((a, b)) = self.is(cond, prim::OR) else { return Some(vec![cond]) };
        let (a, b) = (self.conjunction(a)?, self.conjunction(b)?);
        if a.len() * b.len() > MAX_CHUNKS {
            return None;
        }
        let pairs: Vec<(Id, Id)> = a.iter().flat_map(|a| b.iter().map(|b| (*a, *b))).collect();
        Some(pairs.into_iter().map(|(a, b)| self.binary(prim::OR, DType::BOOL, a, b)).collect())
    }

    /// Collects the conditions whose disjunction is `cond`.
    fn disjunction(&self, cond: Id, out: &mut Vec<Id>) {
        let mut work = vec![cond];
        while let Some(cond) = work.pop() {
            match self.is(cond, prim::OR) {
                Some((a, b)) => work.extend([b, a]),
                None if out.contains(&cond) => {}
                None => out.push(cond),
            }
        }
    }

    /// Returns two conditions that together are equivalent to `a` and `b`. If one condition suffices, it is the second.
    fn pair(&mut self, op: u16, a: Id, b: Id) -> (Id, Id) {
        let joint = self.logic(op, a, b);
        match self.is(joint, op) {
            Some(parts) => parts,
            None => (self.truth(op == prim::AND), joint),
        }
    }

    /// Simplifies two disjunctions, using each for the other.
    fn across(&mut self, chunks: &mut [Vec<Id>], i: usize, j: usize) {
        let (a, b) = (chunks[i].clone(), chunks[j].clone());
        let own_a: Vec<usize> = (0..a.len()).filter(|at| !b.contains(&a[*at])).collect();
        let own_b: Vec<usize> = (0..b.len()).filter(|at| !a.contains(&b[*at])).collect();
        match (&own_a[..], &own_b[..]) {
            ([], _) => chunks[j] = vec![self.truth(true)],
            (_, []) => chunks[i] = vec![self.truth(true)],
            ([x], [y]) => (chunks[i][*x], chunks[j][*y]) = self.pair(prim::AND, a[*x], b[*y]),
            _ => {}
        }
    }

    /// Removes conditions that are known to be true or false.
    fn tidy_chunks(&self, chunks: &mut Vec<Vec<Id>>) {
        for chunk in chunks.iter_mut() {
            if let Some(holds) = chunk.iter().copied().find(|part| self.as_int(*part).is_some_and(|truth| truth != 0)) {
                *chunk = vec![holds];
            } else {
                chunk.retain(|part| self.as_int(*part).is_none());
            }
        }
        if chunks.iter().any(Vec::is_empty) {
            *chunks = vec![Vec::new()];
        } else {
            chunks.retain(|chunk| chunk.iter().all(|part| self.as_int(*part).is_none()));
        }
    }

    fn joined(&mut self, op: u16, parts: Vec<Id>) -> Id {
        let all = parts.into_iter().reduce(|a, b| self.binary(op, DType::BOOL, a, b));
        all.unwrap_or_else(|| self.truth(op == prim::AND))
    }
}
