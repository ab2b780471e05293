//! Moves values that are to be combined after all of their operands.

use super::branches::Combined;
use plugin_api::prelude::*;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Returns the function with the roots of each combination after its operands, as far as bindings can be moved. A
/// delayed binding is placed as early as possible.
pub(super) fn roots_after_operands(body: &Body, combinations: &[Combined<'_>]) -> Result<Body, PassError> {
    let (mut edit, regions) = (body.edit(), body.regions());
    let mut blocks: BTreeMap<u32, (Block<'_>, Vec<&Combined<'_>>)> = BTreeMap::new();
    for combined in combinations.iter().filter(|combined| !combined.operands_are_first()) {
        let block = combined.roots().next().and_then(|root| regions.around(root)?.as_block());
        if let Some(block) = block {
            blocks.entry(block.header().word()).or_insert((block, Vec::new())).1.push(combined);
        }
    }
    for (block, combinations) in blocks.into_values() {
        let has_content = |binding: Value<'_>| matches!(binding.view(), Expr::If { .. } | Expr::Function(_));
        if !block.bindings().any(has_content) {
            edit.reorder(block, &order(block, combinations));
        }
    }
    Ok(edit.finish()?)
}

/// Returns the order of the bindings of a block. Combinations in which a root depends on itself are left out.
fn order<'b>(block: Block<'b>, mut combinations: Vec<&Combined<'_>>) -> Vec<Value<'b>> {
    let bindings: Vec<Value<'b>> = block.bindings().collect();
    loop {
        let (order, stuck) = Waiting::new(&bindings, &combinations).order();
        if stuck.is_empty() {
            return order.into_iter().map(|at| bindings[at]).collect();
        }
        let stuck: BTreeSet<u32> = stuck.into_iter().map(|at| bindings[at].word()).collect();
        combinations.retain(|combined| !combined.roots().any(|root| stuck.contains(&root.word())));
    }
}

/// The dependencies between bindings.
struct Waiting {
    /// The users of each binding.
    users: Vec<Vec<usize>>,
    /// For each binding, the number of operands that have not been placed yet.
    missing: Vec<usize>,
}

impl Waiting {
    fn new(bindings: &[Value<'_>], combinations: &[&Combined<'_>]) -> Waiting {
        let at: HashMap<u32, usize> = bindings.iter().enumerate().map(|(at, value)| (value.word(), at)).collect();
        let mut waiting = Waiting { users: vec![Vec::new(); bindings.len()], missing: vec![0; bindings.len()] };
        let mut add = |need: Value<'_>, user: usize| {
            if let Some(need) = at.get(&need.word()) {
                waiting.users[*need].push(user);
                waiting.missing[user] += 1;
            }
        };
        for (user, binding) in bindings.iter().enumerate() {
            let mut work: Vec<Value<'_>> = binding.operands().collect();
            while let Some(operand) = work.pop() {
                add(operand, user);
                work.extend(operand.operands().filter(|_| operand.is_nested()));
            }
        }
        for combined in combinations {
            for user in combined.roots().filter_map(|root| at.get(&root.word()).copied()) {
                combined.operands().for_each(|operand| add(operand, user));
            }
        }
        waiting
    }

    /// Returns the order, and the bindings that cannot be placed because they are in a cycle.
    fn order(mut self) -> (Vec<usize>, Vec<usize>) {
        let (mut order, mut ready, mut seen) = (Vec::new(), BTreeSet::new(), 0);
        while seen < self.missing.len() {
            if self.missing[seen] == 0 {
                ready.insert(seen);
            }
            seen += 1;
            while let Some(next) = ready.pop_first() {
                order.push(next);
                for user in std::mem::take(&mut self.users[next]) {
                    self.missing[user] -= 1;
                    // Later bindings are placed when the loop reaches them.
                    if self.missing[user] == 0 && user < seen {
                        ready.insert(user);
                    }
                }
            }
        }
        let stuck = (0..self.missing.len()).filter(|at| self.missing[*at] > 0).collect();
        (order, stuck)
    }
}
