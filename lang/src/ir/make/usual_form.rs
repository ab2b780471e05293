//! One form for one meaning: the order of nested expressions, blocks, data types in attributes, NaN.
//!
//! The validator notices another form while it looks at the records, and sealing brings the body into the one form. So
//! nothing that looks at a sealed body can tell who built it: a reader, a builder, an edit.

use crate::ir::make::import::rebuilt;
use crate::ir::make::validate::is_nested;
use crate::ir::records::*;
use crate::ir::storage::sections::{RawView, Sections};

/// What a valid body has in another form than the one that is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Unusual {
    /// Nested expressions do not come directly before their users, in the order of the operands; or a block goes on with
    /// the one before it, or has no content.
    pub(crate) order: bool,
    /// Attributes or dimensions.
    pub(crate) values: bool,
}

impl Unusual {
    pub(crate) fn any(self) -> bool {
        self.order || self.values
    }
}

/// The sections of a valid body in the one form.
pub(crate) fn usual(raw: &RawView<'_>, unusual: Unusual) -> Sections {
    let mut s = if unusual.values { rebuilt(raw) } else { Sections::copy_of(raw) };
    if unusual.order {
        put_in_order(&mut s);
    }
    s
}

/// Whether the bits of a float are a NaN other than the one that is stored.
pub(crate) fn is_unusual_float(bits: u64) -> bool {
    usual_float(bits) != bits
}

/// All NaN are one, since a text has one name for them.
pub(crate) fn usual_float(bits: u64) -> u64 {
    if f64::from_bits(bits).is_nan() { f64::NAN.to_bits() } else { bits }
}

/// Puts nested expressions directly before their users, in the order of the operands: where a text has them. They are
/// evaluated with their user, so a binding that was between them and their user comes first. Blocks of one kind that
/// follow each other are one, and a plain block without content is none. `Compact` in `edit.rs` writes the result of an edit
/// by the same rule; the test `the_order_of_nested_expressions_is_one` holds both to it.
fn put_in_order(s: &mut Sections) {
    let Order { order, becomes, headers } = Order::of(s);
    for word in s.operands.iter_mut().filter(|word| **word & LEAF_BIT == 0) {
        // An edit leaves operands behind that no node has.
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

/// The rows of a section in another order; nothing of a section without rows.
fn permuted<T: Copy>(rows: &[T], order: &[u32]) -> Vec<T> {
    order.iter().filter_map(|old| rows.get(*old as usize).copied()).collect()
}

enum Step {
    /// The nodes of a region from one position to another, but for nested ones.
    Content(u32, u32),
    /// A node, and what is nested in it before it.
    Tree(u32),
    Node(u32),
    /// The end of the region whose header was here, and is there now.
    End(u32, u32),
}

/// The nodes of a valid body in their order. Nesting can be deep, so a list of pending work replaces recursion.
struct Order {
    /// Their positions before.
    order: Vec<u32>,
    /// For each node its new position.
    becomes: Vec<u32>,
    /// Regions: new position, extent, and the flag of an effect if it has one.
    headers: Vec<(u32, u32, u16)>,
}

impl Order {
    fn of(s: &Sections) -> Order {
        let n = s.nodes.len();
        let mut out = Order { order: Vec::with_capacity(n), becomes: vec![NONE; n], headers: Vec::new() };
        // The block that ended last: kind, new position, and where its content ends.
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

/// Whether nodes of a kind are blocks of bindings.
pub(crate) fn is_block(kind: u16) -> bool {
    matches!(kind, kind::BLOCK | kind::DATAFLOW)
}
