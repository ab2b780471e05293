//! Named values, and the indices that use their names.

use plugin_api::prelude::*;
use plugin_api::tir::regions::reached::Ends;
use std::collections::HashMap;

/// The names of values, in order of definition.
#[derive(Default)]
pub(super) struct Names {
    of: HashMap<Sym, usize>,
    /// The value of each name; `None` if it is not arithmetic.
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

    /// Adds the names that an index uses, directly or through other names or loops. A name has only one possible value,
    /// its definition.
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
