//! TIR expressions are trees: an expression with several uses is written once per use.

use super::{Edit, Item, Place, State};
use crate::ir::MAX_SIZE;
use crate::ir::make::validate::{SealError, is_nested};
use crate::ir::records::{LEAF_BIT, NONE, NodeRec, flag};

impl Edit<'_> {
    /// Gives each use of a nested expression after the first a separate copy.
    ///
    /// # Errors
    /// If the result would have too many nodes, because a few expressions that share parts can expand to a huge tree.
    pub(super) fn unshare(&mut self) -> Result<(), SealError> {
        let mut used = vec![false; self.n_nodes()];
        let mut copies = Vec::new();
        for at in 0..self.n_old {
            if matches!(self.state[at as usize], State::Keep | State::Moved) {
                let place = Place { at, before: true, anchor: 0 };
                self.unshare_operands(at, &mut used, &mut copies)?;
                self.side.extend(copies.drain(..).map(|copy| (place, Item::Node(copy))));
            }
        }
        let side = std::mem::take(&mut self.side);
        let mut with_copies = Vec::with_capacity(side.len());
        for (place, item) in side {
            if let Item::Node(op) | Item::Open(op) = item
                && op >= self.n_old
                && (op as usize) < used.len()
            {
                self.unshare_operands(op, &mut used, &mut copies)?;
                with_copies.extend(copies.drain(..).map(|copy| (place, Item::Node(copy))));
            }
            with_copies.push((place, item));
        }
        self.side = with_copies;
        Ok(())
    }

    /// Processes the operands of one node; `copies` receives the necessary copies, in output order.
    fn unshare_operands(&mut self, user: u32, used: &mut [bool], copies: &mut Vec<u32>) -> Result<(), SealError> {
        let range = self.b.pool.s.nodes[user as usize].op_range();
        let shared = |edit: &Self, word: u32| {
            word & LEAF_BIT == 0
                && edit.b.pool.s.nodes.get(word as usize).is_some_and(|node| is_nested(node) && !node.has(flag::REGION))
        };
        for slot in range {
            let Some(operand) = self.b.pool.s.operands.get(slot).copied() else { break };
            let word = self.resolve_word(operand);
            if !shared(self, word) || !used.get(word as usize).is_some_and(|used| *used) {
                if let Some(used) = used.get_mut(word as usize).filter(|_| word & LEAF_BIT == 0) {
                    *used = true;
                }
                continue;
            }
            let most = used.len() + MAX_SIZE as usize;
            self.b.pool.s.operands[slot] = self.copy_of(word, most, copies, &shared)?;
        }
        Ok(())
    }

    /// Copies an expression and all expressions nested in it, up to `most` nodes in total.
    fn copy_of(
        &mut self,
        root: u32,
        most: usize,
        copies: &mut Vec<u32>,
        shared: &dyn Fn(&Self, u32) -> bool,
    ) -> Result<u32, SealError> {
        // Operands first: each expression is entered, and is left when its operands have copies.
        let (mut work, mut done) = (vec![(root, false)], Vec::new());
        // Counts each entered expression as a node, so the limit `most` also ends the traversal of a cycle.
        let mut nodes = self.b.pool.s.nodes.len();
        while let Some((op, ready)) = work.pop() {
            let node = self.b.pool.s.nodes[op as usize];
            let operands: Vec<u32> =
                node.ops(&self.b.pool.s.operands).iter().map(|operand| self.resolve_word(*operand)).collect();
            let inner: Vec<u32> = operands.iter().copied().filter(|word| shared(self, *word)).collect();
            if !ready {
                if nodes >= most {
                    return Err(SealError::TooLarge { what: "node", index: root as usize });
                }
                nodes += 1;
                work.push((op, true));
                work.extend(inner.iter().rev().map(|word| (*word, false)));
                continue;
            }
            let s = &mut self.b.pool.s;
            let mut made = done.split_off(done.len() - inner.len()).into_iter();
            let (ops, id) = (s.operands.len() as u32, s.nodes.len() as u32);
            for word in operands {
                let own = inner.contains(&word).then(|| made.next()).flatten();
                s.operands.push(own.unwrap_or(word));
            }
            s.nodes.push(NodeRec { ops, ..node });
            s.names.push(NONE);
            copies.push(id);
            done.push(id);
        }
        Ok(done.pop().unwrap_or(root))
    }
}
