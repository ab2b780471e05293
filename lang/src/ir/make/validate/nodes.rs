//! Validates the nodes of a body: regions, scopes, operands, and the single user of each nested expression.

use super::{SealError, id, range};
use crate::ir::make::usual_form::is_block;
use crate::ir::records::*;
use crate::ir::storage::sections::RawView;

/// An open region during the traversal of nodes.
struct Open {
    /// The position after the content of the region.
    end: u32,
    /// The end of the scope of values defined directly in the region, unless they are INNER.
    visible: u32,
    /// Number of nested expressions directly in the region that are still without a user.
    pending: i32,
    /// The kind of the last block directly in the region, if only nested expressions follow that block; otherwise 0.
    block: u16,
}

impl Open {
    /// Adds a node directly in the region; the node uses `nested` pending expressions. Returns true for a block that
    /// sealed bodies do not contain: an empty block, or a block that follows a block of the same kind.
    #[inline]
    fn take(&mut self, i: usize, node: &NodeRec, nested: i32) -> Result<bool, SealError> {
        self.pending -= nested;
        if self.pending < 0 {
            return Err(unbound_escapes(i));
        }
        self.pending += i32::from(!node.has(flag::BOUND) && is_expression(node));
        if !is_block(node.kind) {
            self.block = if is_nested(node) { self.block } else { 0 };
            return Ok(false);
        }
        let superfluous = self.block == node.kind || node.kind == kind::BLOCK && node.a == 0;
        self.block = node.kind;
        Ok(superfluous)
    }

    /// Returns the region opened by a node directly in this region.
    #[inline]
    fn inner(&self, i: usize, node: &NodeRec) -> Result<Open, SealError> {
        let end = i as u64 + 1 + u64::from(node.a);
        if end > u64::from(self.end) {
            let why = "its content extends beyond the enclosing region";
            return Err(SealError::Malformed { what: "node", index: i, why });
        }
        let end = end as u32;
        // Values defined in a block are visible after it; values defined in functions, branches and unknown regions are
        // not.
        let visible = if matches!(node.kind, kind::BLOCK | kind::DATAFLOW) { self.visible } else { end };
        Ok(Open { end, visible, pending: 0, block: 0 })
    }
}

/// Checks the nodes. Returns true if the order or the blocks differ from the canonical form.
pub(super) fn nodes(raw: &RawView<'_>) -> Result<bool, SealError> {
    let nodes = raw.nodes();
    let n = nodes.len() as u32;
    // For each bound node, the end of its scope; for each unbound node, its nesting depth.
    let mut until = vec![0u32; nodes.len()];
    let mut uses: Vec<u8> = vec![0; nodes.len()];
    // For each nested expression, the position of its first part.
    let mut starts = vec![0u32; nodes.len()];
    let mut moved = false;
    let mut open: Vec<Open> = vec![Open { end: n, visible: n, pending: 0, block: 0 }];
    for (i, node) in nodes.iter().enumerate() {
        close_ended(&mut open, i)?;
        record(raw, i, node)?;
        let (deepest, nested) = operands(raw, i, node, &until, &mut uses)?;
        if is_nested(node) || nested > 0 {
            moved |= !directly_before(raw, i, node, &mut starts);
        }
        let Some(around) = open.last_mut() else { return Err(SealError::Empty) };
        moved |= around.take(i, node, nested)?;
        let around_end = around.end;
        let visible = if node.has(flag::INNER) { around_end } else { around.visible };
        until[i] = if node.has(flag::BOUND) { visible } else { deepest + 1 };
        if deepest >= MAX_NESTED {
            return Err(SealError::TooDeep { what: "node", index: i, most: MAX_NESTED });
        }
        if node.has(flag::REGION) {
            let inner = around.inner(i, node)?;
            if node.a > 0 {
                open.push(inner);
            }
            if open.len() > MAX_DEPTH as usize {
                return Err(SealError::TooDeep { what: "region", index: i, most: MAX_DEPTH });
            }
        }
        in_place(node, i, nodes.len(), around_end)?;
    }
    finish(nodes, &uses)?;
    Ok(moved)
}

/// Closes the regions that end before node `i`; each nested expression in them must have a user.
fn close_ended(open: &mut Vec<Open>, i: usize) -> Result<(), SealError> {
    while open.len() > 1 && open.last().is_some_and(|region| region.end <= i as u32) {
        if open.pop().is_some_and(|region| region.pending != 0) {
            return Err(unbound_escapes(i));
        }
    }
    Ok(())
}

/// Checks that a node may be at position `i` of `n` nodes, in a region that ends at `end`.
fn in_place(node: &NodeRec, i: usize, n: usize, end: u32) -> Result<(), SealError> {
    let malformed = |why| Err(SealError::Malformed { what: "node", index: i, why });
    if i == 0 && n > 1 && !node.has(flag::REGION) && node.kind != kind::MODULE {
        return malformed("the root must be a region or the only node");
    }
    if node.has(flag::TERM) && i as u32 + 1 != end {
        return malformed("a terminator must be the last node of its region");
    }
    Ok(())
}

/// Returns true if the nested expressions of a node directly precede it, in the order of the operands. Records the start
/// of these expressions.
fn directly_before(raw: &RawView<'_>, i: usize, node: &NodeRec, starts: &mut [u32]) -> bool {
    let (nodes, mut at) = (raw.nodes(), i as u32);
    for op in raw.operands()[node.op_range()].iter().rev() {
        if let Some(def) = nodes.get(*op as usize).filter(|def| is_nested(def)) {
            if def.end(*op) != at {
                return false;
            }
            at = starts[*op as usize];
        }
    }
    starts[i] = at;
    true
}

fn unbound_escapes(index: usize) -> SealError {
    let why = "a nested expression is used outside the region that contains it";
    SealError::Malformed { what: "node", index, why }
}

/// Checks the conditions that involve all nodes.
fn finish(nodes: &[NodeRec], uses: &[u8]) -> Result<(), SealError> {
    let n = nodes.len();
    if nodes[0].has(flag::REGION) && nodes[0].a as usize + 1 != n {
        return Err(SealError::Malformed { what: "node", index: 0, why: "the root must span the whole body" });
    }
    for (i, node) in nodes.iter().enumerate() {
        let value = node.flags & (flag::BOUND | flag::TERM) == 0 && is_expression(node);
        if value && uses[i] != 1 {
            return Err(SealError::UnboundUses { index: i, uses: u32::from(uses[i]) });
        }
        let ends = |kind| matches!(kind, kind::FUNC | kind::BRANCH | kind::SEQ | kind::COMBINER);
        if ends(node.kind) && !nodes.get(i + node.a as usize).is_some_and(|last| node.a > 0 && last.has(flag::TERM)) {
            return Err(SealError::Malformed {
                what: "node",
                index: i,
                why: "a function or branch must end in a result",
            });
        }
    }
    Ok(())
}

/// Returns true for nodes that are values. Each value is bound or has a single user, so that equal programs have equal
/// nodes.
pub(crate) fn is_expression(node: &NodeRec) -> bool {
    matches!(
        node.kind,
        kind::CALL
            | kind::TUPLE
            | kind::TUPLE_GET
            | kind::IF
            | kind::MATCH_CAST
            | kind::ALIAS
            | kind::SEQ
            | kind::LOAD
            | kind::ARITH
            | kind::SELECT
            | kind::RAMP
            | kind::BROADCAST
            | kind::SHUFFLE
            | kind::LET
            | kind::BUFFER_PART
            | kind::COMBINER
    ) || node.kind == kind::ACCESS && node.a == ACCESS_OF_OPERAND
}

/// Returns true for a nested expression, which is a value without a name. Kinds that may be statements, in TIR or
/// unknown, are excluded.
pub(crate) fn is_nested(node: &NodeRec) -> bool {
    node.flags & (flag::BOUND | flag::TERM) == 0 && is_expression(node)
}

/// The payload of an ACCESS that is an operand of a buffer match or a call. Other ACCESSes are statements of blocks.
const ACCESS_OF_OPERAND: u32 = 2;

fn record(raw: &RawView<'_>, i: usize, node: &NodeRec) -> Result<(), SealError> {
    if node.ty != NONE {
        id("node", i, "type", node.ty, raw.types().len())?;
    }
    if node.attrs != NONE {
        id("node", i, "attributes", node.attrs, raw.dicts().len())?;
    }
    range("node", i, "operands", node.ops, node.n_ops, raw.operands().len())?;
    let (region, least) = match node.kind {
        kind::FUNC | kind::BLOCK | kind::DATAFLOW | kind::BRANCH | kind::SEQ => (true, 0),
        kind::IF => (true, 1),
        kind::CALL | kind::TUPLE_GET | kind::YIELD | kind::MATCH_CAST | kind::ALIAS | kind::EXTERN => (false, 1),
        kind::PARAM | kind::TUPLE => (false, 0),
        _ => return Ok(()),
    };
    let wrong = |why| Err(SealError::Malformed { what: "node", index: i, why });
    if node.has(flag::REGION) != region {
        return wrong("a region flag contradicts its kind");
    }
    if node.n_ops < least {
        return wrong("too few operands for its kind");
    }
    let bound = node.has(flag::BOUND);
    if node.kind == kind::PARAM && !node.has(flag::BOUND | flag::INNER) {
        return wrong("a parameter must be bound and visible only in its function");
    }
    // In a TIR function, variables that buffer types use may stand between the parameters.
    let content = |before: &NodeRec| {
        let relax = matches!(before.kind, kind::BLOCK | kind::DATAFLOW | kind::BRANCH | kind::YIELD);
        relax || is_expression(before) && before.has(flag::BOUND)
    };
    if node.kind == kind::PARAM && i.checked_sub(1).is_none_or(|before| content(&raw.nodes()[before])) {
        return wrong("a parameter comes after other content of its function");
    }
    if matches!(node.kind, kind::BLOCK | kind::DATAFLOW | kind::BRANCH | kind::YIELD) && bound {
        return wrong("a block, branch or result cannot be bound");
    }
    if node.has(flag::TERM) != (node.kind == kind::YIELD) {
        return wrong("a terminator flag contradicts its kind");
    }
    if node.has(flag::DATAFLOW) != (node.kind == kind::DATAFLOW) {
        return wrong("a dataflow flag contradicts its kind");
    }
    if node.kind == kind::IF {
        return if_shape(raw, i, node);
    }
    Ok(())
}

/// Checks that an If is followed by two branches and nothing else.
fn if_shape(raw: &RawView<'_>, i: usize, node: &NodeRec) -> Result<(), SealError> {
    let branch = |at: u64| {
        let rec = raw.nodes().get(usize::try_from(at).ok()?)?;
        (rec.kind == kind::BRANCH).then(|| at + 1 + u64::from(rec.a))
    };
    let end = branch(i as u64 + 1).and_then(branch);
    if end == Some(i as u64 + 1 + u64::from(node.a)) {
        return Ok(());
    }
    Err(SealError::Malformed { what: "node", index: i, why: "an If must be followed by two branches" })
}

/// Checks the operands. Returns the depth of the deepest unbound operand, and the number of unbound operands.
fn operands(
    raw: &RawView<'_>,
    i: usize,
    node: &NodeRec,
    until: &[u32],
    uses: &mut [u8],
) -> Result<(u32, i32), SealError> {
    let name = |at: usize| {
        let name = raw.names().get(at).and_then(|off| raw.name_at(*off));
        name.map_or_else(|| if at == i { String::new() } else { format!("node {at}") }, str::to_string)
    };
    let (mut deepest, mut nested) = (0, 0);
    for op in &raw.operands()[node.op_range()] {
        if op & LEAF_BIT != 0 {
            id("node", i, "leaf operand", op & !LEAF_BIT, raw.leaves().len())?;
            continue;
        }
        let at = *op as usize;
        if at >= i {
            id("node", i, "operand", *op, raw.nodes().len())?;
            return Err(SealError::UseBeforeDef { index: i, user: name(i), name: name(at) });
        }
        let def = &raw.nodes()[at];
        if def.has(flag::BOUND) {
            if until[at] <= i as u32 {
                return Err(SealError::Scope { index: i, user: name(i), name: name(at) });
            }
        } else {
            if def.has(flag::TERM) || matches!(def.kind, kind::BLOCK | kind::DATAFLOW | kind::BRANCH) {
                let why = "an operand must be a value";
                return Err(SealError::Malformed { what: "node", index: i, why });
            }
            deepest = deepest.max(until[at]);
            nested += i32::from(is_expression(def));
        }
        uses[at] = uses[at].saturating_add(1);
        if uses[at] > 1 && !def.has(flag::BOUND) && is_expression(def) {
            return Err(SealError::UnboundUses { index: at, uses: u32::from(uses[at]) });
        }
    }
    Ok((deepest, nested))
}
