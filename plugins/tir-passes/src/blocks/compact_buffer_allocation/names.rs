//! Values that have a name, and what an index that uses these names means.

use plugin_api::prelude::*;
use plugin_api::tir::regions::reached::Ends;
use std::collections::HashMap;

/// Names of values, in the order in which they are given.
#[derive(Default)]
pub(super) struct Names {
    of: HashMap<Sym, usize>,
    /// What they mean; `None` if that is no arithmetic.
    values: Vec<Option<Dim>>,
}

impl Names {
    pub(super) fn insert(&mut self, sym: Sym, value: Option<Dim>) {
        self.of.insert(sym, self.values.len());
        self.values.push(value);
    }

    pub(super) fn len(&self) -> usize {
        self.values.len()
    }

    /// A name that an index uses, also through others or loops, only has the value that it means.
    pub(super) fn add_to(&self, running: &mut Ends, index: &Dim, before: usize) {
        let mut work = Vec::new();
        let loops = running.values().flat_map(|(min, max)| [min, max]);
        for dim in loops.chain([index]) {
            dim.vars(&mut |sym| work.push(sym));
        }
        while let Some(sym) = work.pop() {
            let value = self.of.get(&sym).filter(|at| **at >= before).and_then(|at| self.values[*at].as_ref());
            let Some(value) = value.filter(|_| !running.contains_key(&sym)) else { continue };
            value.vars(&mut |sym| work.push(sym));
            running.insert(sym, (value.clone(), value.clone()));
        }
    }
}
