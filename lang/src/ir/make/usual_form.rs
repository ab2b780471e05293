//! The canonical form of a body. It determines the order of nested expressions, the blocks, and the forms of data types and NaN in
//! attributes.
//!
//! The validator detects deviations from the canonical form while it checks the records, and sealing converts the body. The form of a sealed body
//! therefore does not depend on whether a reader, a builder or an edit built it.

use crate::ir::make::import::rebuilt;
use crate::ir::make::validate::is_nested;
use crate::ir::records::*;
use crate::ir::storage::sections::{RawView, Sections};

/// The parts of a valid body that are not in canonical form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Unusual {
    /// True if some nested expressions do not directly precede their users in the order of the operands, or if a block
    /// is empty or continues the previous block.
    pub(crate) order: bool,
    /// True if some attributes or dimensions are not canonical.
    pub(crate) values: bool,
}

impl Unusual {
    pub(crate) fn any(self) -> bool {
        self.order || self.values
    }
}

/// Returns the sections of a valid body in canonical form.
pub(crate) fn usual(raw: &RawView<'_>, unusual: Unusual) -> Sections {
    let mut s = if unusual.values { rebuilt(raw) } else { Sections::copy_of(raw) };
    if unusual.order {
        put_in_order(&mut s);
    }
    s
}

/// Returns true for the bits of a NaN other than the canonical NaN.
pub(crate) fn is_unusual_float(bits: u64) -> bool {
    usual_float(bits) != bits
}

/// Maps every NaN to the canonical NaN, because the printed form has only one NaN.
pub(crate) fn usual_float(bits: u64) -> u64 {
    if f64::from_bits(bits).is_nan() { f64::NAN.to_bits() } else { bits }
}

/// Moves nested expressions directly before their users, in the order of the operands, as in the printed form. Nested expressions are
/// evaluated with their user, so bindings between them and the user come first. Consecutive blocks of the same kind are merged, and an
/// empty plain block is removed. `Compact` in `compact.rs` writes the result of an edit by the same rule; the test
/// `the_order_of_nested_expressions_is_one` checks both.
fn put_in_order(s: &mut Sections) {
    let Order { order, becomes, headers } = Order::of(s);
    for word in s.operands.iter_mut().filter(|word| **word & LEAF_BIT == 0) {
        // An edit may leave operands that do not belong to a node.
        *word = becomes.get(*word as usize).copied().unwrap_or(*word);
    }
    s.nodes = permuted(&s.nodes, &order);
    s.names = permuted(&s.names, &order);
    s.spans = permuted(&s.spans, &order);
    s.origins = permuted(&s.origins, &order);
    for (at, extent, effect) in headers {
        let node = &mut s.nodes[at as usize];
        node.a = extent;
        node.flags |= effect;
    }
}

/// Returns the rows of a section in the order `order`; empty if the section is empty.
fn permuted<T: Copy>(rows: &[T], order: &[u32]) -> Vec<T> {
    order.iter().filter_map(|old| rows.get(*old as usize).copied()).collect()
}

enum Step {
    /// The nodes of a region between two positions, without nested nodes.
    Content(u32, u32),
    /// A node, preceded by its nested expressions.
    Tree(u32),
    Node(u32),
    /// The end of a region, with the old and the new position of its header.
    End(u32, u32),
}

/// Computes the canonical order of the nodes of a valid body. Nesting can be deep, so a work list replaces recursion.
struct Order {
    /// The old positions of the nodes, in the new order.
    order: Vec<u32>,
    /// The new position of each node.
    becomes: Vec<u32>,
    /// For each region, the new position of its header, its extent, and the IMPURE flag if the region has an effect.
    headers: Vec<(u32, u32, u16)>,
}

impl Order {
    fn of(s: &Sections) -> Order {
        let n = s.nodes.len();
        let mut out = Order { order: Vec::with_capacity(n), becomes: vec![NONE; n], headers: Vec::new() };
        // The block that ended last: its kind, its new position, and the end of its content.
        let mut ended: Option<(u16, u32, usize)> = None;
        let mut steps = vec![Step::Content(0, n as u32)];
        while let Some(step) = steps.pop() {
            match step {
                Step::Content(mut at, end) => {
                    while at < end && is_nested(&s.nodes[at as usize]) {
                        at = s.nodes[at as usize].end(at);
                    }
                    if at < end {
                        steps.push(Step::Content(s.nodes[at as usize].end(at), end));
                        steps.push(Step::Tree(at));
                    }
                }
                Step::Tree(at) => {
                    steps.push(Step::Node(at));
                    let operands = s.nodes[at as usize].ops(&s.operands).iter().rev();
                    let nested = operands.filter(|op| **op & LEAF_BIT == 0 && is_nested(&s.nodes[**op as usize]));
                    steps.extend(nested.map(|op| Step::Tree(*op)));
                }
                Step::Node(at) => {
                    let node = s.nodes[at as usize];
                    let goes_on = ended.filter(|(kind, _, end)| *kind == node.kind && *end == out.order.len());
                    let header = goes_on.map_or(out.order.len() as u32, |(_, header, _)| header);
                    out.becomes[at as usize] = header;
                    if goes_on.is_none() {
                        out.order.push(at);
                    }
                    if node.has(flag::REGION) {
                        steps.push(Step::End(at, header));
                        steps.push(Step::Content(at + 1, node.end(at)));
                    }
                }
                Step::End(at, header) => {
                    let node = s.nodes[at as usize];
                    let extent = out.order.len() as u32 - header - 1;
                    if node.kind == kind::BLOCK && extent == 0 {
                        out.order.pop();
                        continue;
                    }
                    out.headers.push((header, extent, node.flags & flag::IMPURE));
                    if is_block(node.kind) {
                        ended = Some((node.kind, header, out.order.len()));
                    }
                }
            }
        }
        out
    }
}

/// Returns true if nodes of a kind are blocks of bindings.
pub(crate) fn is_block(kind: u16) -> bool {
    matches!(kind, kind::BLOCK | kind::DATAFLOW)
}
