//! Turns nested Relax expressions with more than one user into bindings.

use super::{Edit, Item, Place, State};
use crate::ir::make::validate::is_nested;
use crate::ir::records::{LEAF_BIT, flag, kind};

impl Edit<'_> {
    /// Names each nested expression with several users, at its position. A pass may use an operand twice without checking whether it is
    /// named.
    pub(super) fn name_shared(&mut self) {
        let nodes = &self.b.pool.s.nodes;
        if !nodes.iter().any(is_nested) {
            return;
        }
        let uses = self.uses_there();
        let shared: Vec<u32> = (0..uses.len() as u32)
            .filter(|at| uses[*at as usize] > 1 && is_nested(&self.b.pool.s.nodes[*at as usize]))
            .collect();
        for at in shared.into_iter().rev() {
            if at < self.n_old {
                self.name_old(at);
            } else {
                self.name_new(at);
            }
        }
    }

    fn name_old(&mut self, at: u32) {
        let value = self.old.value_at(at as usize);
        match self.kind_around(value) {
            kind::DATAFLOW => self.name_in(at, true),
            kind::BLOCK => self.name_in(at, false),
            _ => {
                self.name_in(at, false);
                self.enclose_old(value);
            }
        }
    }

    /// New expressions in a new region are not named, because the kind of the region is not yet known.
    fn name_new(&mut self, at: u32) {
        let is_it = |(_, item): &(Place, Item)| matches!(item, Item::Node(op) if *op == at);
        let Some((place, _)) = self.side.iter().copied().find(is_it) else { return };
        if self.side.iter().any(|(_, item)| matches!(item, Item::Open(_))) {
            return;
        }
        match self.kind_at(place) {
            kind::DATAFLOW => self.name_in(at, true),
            kind::BLOCK => self.name_in(at, false),
            _ => {}
        }
    }

    fn name_in(&mut self, at: u32, in_dataflow: bool) {
        let v = self.b.v(at);
        self.b.bind(v, if in_dataflow { "lv" } else { "gv" });
        if in_dataflow {
            self.b.pool.s.nodes[at as usize].flags |= flag::INNER;
        }
    }

    /// Returns the kind of the region that contains a place.
    fn kind_at(&mut self, place: Place) -> u16 {
        if place.before {
            let at = place.at as usize;
            return if at < self.old.len() { self.kind_around(self.old.value_at(at)) } else { kind::FUNC };
        }
        // The place is either the start of a region or directly after a value.
        let follows = (!place.anchor) as usize;
        if follows > self.old.len() || follows == 0 && place.at == 0 {
            return kind::FUNC;
        }
        match follows == place.at as usize {
            true => self.old.value_at(follows - 1).kind(),
            false if follows < self.old.len() => self.kind_around(self.old.value_at(follows)),
            false => kind::FUNC,
        }
    }

    /// Counts the uses of each node in the new body.
    fn uses_there(&self) -> Vec<u32> {
        let s = &self.b.pool.s;
        let mut uses = vec![0u32; s.nodes.len()];
        let mut gone_until = 0;
        for (at, node) in s.nodes.iter().enumerate() {
            let state = self.state.get(at).copied().unwrap_or(State::Keep);
            if state == State::Removed && at < self.n_old as usize {
                gone_until = gone_until.max(self.old.value_at(at).end());
            }
            let gone = at < gone_until && state != State::Moved || state == State::Dissolved;
            if gone {
                continue;
            }
            for op in node.ops(&s.operands).iter().filter(|op| **op & LEAF_BIT == 0) {
                if let Some(uses) = uses.get_mut(self.resolve_word(*op) as usize) {
                    *uses += 1;
                }
            }
        }
        uses
    }
}
