//! Checks statements: loops, blocks, buffer declarations and stores.

use crate::verify::plain::{plain_entries, plain_function_attrs};
use crate::verify::plain_tir::Plain;
use crate::verify::plain_tir::expressions::Expressions;
use crate::verify::plain_tir::tables::PlainType;
use passhost_lang::ir::RawView;
use passhost_lang::ir::records::*;

/// Maximum nesting of loops, blocks and branches.
const DEEPEST: usize = 64;
/// Maximum number of nodes of a function, and of dimensions of a buffer, for which the effort of the reader is known to
/// be small.
const MOST_NODES: usize = 1 << 20;
const MOST_DIMS: u32 = 32;

/// The part of the head of a block that was checked last. The parts are in this order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Head {
    Iterators,
    Reads,
    Writes,
    Content,
}

/// An open region during the walk.
struct Region {
    header: usize,
    end: usize,
    kind: u16,
    /// The position in the head of a block.
    head: Head,
    /// True if the predicate of a block has been seen.
    has_where: bool,
    /// Number of scopes in an If.
    scopes: u32,
    has_effect: bool,
}

/// A walk over the nodes of a function.
struct Statements<'r> {
    of: Expressions<'r>,
    nodes: &'r [NodeRec],
    open: Vec<Region>,
}

/// Checks that a PrimFunc has a common form.
pub(super) fn function(raw: &RawView<'_>) -> Plain {
    let (root, nodes) = (raw.nodes().first()?, raw.nodes());
    let flags = root.flags & !flag::PRIVATE;
    ((root.kind, flags, root.n_ops) == (kind::PRIM_FUNC, flag::REGION, 0)).then_some(())?;
    (nodes.len() <= MOST_NODES).then_some(())?;
    let of = Expressions::of(raw)?;
    (root.ty == NONE || of.tables.scalar(root.ty).is_some()).then_some(())?;
    root_attrs(raw, root.attrs)?;
    let mut walk = Statements { of, nodes, open: Vec::new() };
    let n_params = nodes[1..].iter().take_while(|node| node.kind == kind::PARAM).count();
    nodes[1..=n_params].iter().try_for_each(|param| walk.param(param))?;
    walk.enter(0)?;
    (n_params + 1..nodes.len()).try_for_each(|at| {
        walk.leave(at)?;
        walk.node(at)
    })?;
    walk.leave(nodes.len())
}

/// Checks the attributes of the function. One of them is written in the decorator.
fn root_attrs(raw: &RawView<'_>, id: u32) -> Plain {
    plain_function_attrs(raw, id)?;
    let entries = raw.dicts().get(id as usize).and_then(|dict| entries(raw, dict.off, dict.len));
    let decorator = entries.into_iter().flatten().filter(|entry| raw.str(entry.key) == "s_tir");
    decorator.into_iter().all(|entry| (entry.kind, entry.val) == (attr::BOOL, 1)).then_some(())
}

fn entries<'r>(raw: &RawView<'r>, off: u32, len: u32) -> Option<&'r [AttrRec]> {
    raw.attrs().get(off as usize..)?.get(..len as usize)
}

impl Statements<'_> {
    /// Returns the entries of a nonempty dict.
    fn entries(&self, id: u32) -> Option<&[AttrRec]> {
        let dict = self.of.raw.dicts().get(id as usize)?;
        entries(self.of.raw, dict.off, dict.len).filter(|entries| !entries.is_empty())
    }

    fn param(&self, param: &NodeRec) -> Plain {
        let fields = (param.flags, param.n_ops, param.attrs, param.a);
        (fields == (flag::BOUND | flag::INNER, 0, NONE, 0)).then_some(())?;
        match self.of.tables.ty(param.ty)? {
            PlainType::Buffer(buffer) => (buffer.rank <= MOST_DIMS).then_some(()),
            _ => Some(()),
        }
    }

    /// Opens the region of a node.
    fn enter(&mut self, at: usize) -> Plain {
        let node = self.nodes.get(at).filter(|node| node.has(flag::REGION))?;
        (self.open.len() < DEEPEST).then_some(())?;
        self.open.push(Region {
            header: at,
            end: at + 1 + node.a as usize,
            kind: node.kind,
            head: Head::Iterators,
            has_where: false,
            scopes: 0,
            has_effect: false,
        });
        Some(())
    }

    /// Closes the regions that end before a node. Their effect flags must match their content.
    fn leave(&mut self, at: usize) -> Plain {
        while let Some(region) = self.open.pop_if(|region| region.end <= at) {
            let header = &self.nodes[region.header];
            (region.kind != kind::COND || matches!(region.scopes, 1 | 2)).then_some(())?;
            if region.kind == kind::PRIM_FUNC {
                continue;
            }
            (header.has(flag::IMPURE) == region.has_effect).then_some(())?;
            if region.has_effect {
                self.effect();
            }
        }
        Some(())
    }

    /// Marks the enclosing region as having an effect.
    fn effect(&mut self) {
        if let Some(around) = self.open.last_mut() {
            around.has_effect = true;
        }
    }

    fn node(&mut self, at: usize) -> Plain {
        let node = &self.nodes[at];
        match node.kind {
            kind::ARITH | kind::LOAD | kind::CALL | kind::SELECT => return self.of.nested(at, node),
            kind::BUFFER_PART => return self.of.data(node),
            // The region that a buffer matches comes before it.
            kind::ACCESS if node.a == 2 => return self.of.region(node),
            kind::LOOP_VAR => return self.loop_var(at, node),
            _ => {}
        }
        let around = self.open.last_mut()?;
        match around.kind {
            kind::COND => {
                around.scopes += 1;
                (node.kind == kind::SCOPE).then_some(())?;
            }
            kind::SBLOCK => around.block_has(node)?,
            _ => {}
        }
        match node.kind {
            kind::FOR | kind::SBLOCK | kind::INIT | kind::COND | kind::SCOPE | kind::WHILE => self.region(at, node),
            kind::ITER_VAR | kind::BUFFER | kind::BIND => self.named(node),
            kind::ACCESS => {
                self.directly_in(kind::SBLOCK)?;
                self.of.region(node)
            }
            _ => self.statement(node),
        }
    }

    /// Checks the variable of a loop. It must come first and have the type of the extent.
    fn loop_var(&self, at: usize, var: &NodeRec) -> Plain {
        let around = self.open.last().filter(|around| around.kind == kind::FOR && around.header + 1 == at)?;
        let fields = (var.flags, var.n_ops, var.attrs, var.a);
        (fields == (flag::BOUND | flag::INNER, 0, NONE, 0)).then_some(())?;
        let extent = self.of.operands(&self.nodes[around.header]).get(1)?;
        (self.of.tables.scalar(var.ty)? == self.of.index(*extent)?.dtype).then_some(())
    }

    fn region(&mut self, at: usize, node: &NodeRec) -> Plain {
        let named = if node.kind == kind::SBLOCK { flag::BOUND } else { 0 };
        (node.flags & !flag::IMPURE == flag::REGION | named && node.ty == NONE).then_some(())?;
        let operands = self.of.operands(node);
        // The reader adds the missing access regions of a block.
        (node.attrs == NONE || node.kind == kind::FOR).then_some(())?;
        match (node.kind, operands) {
            (kind::FOR, [min, extent]) => {
                self.of.range(*min, *extent)?;
                self.nodes.get(at + 1).filter(|var| node.a > 0 && var.kind == kind::LOOP_VAR)?;
                self.loop_attrs(node.attrs)?;
            }
            (kind::SBLOCK, []) => {}
            (kind::INIT, []) => self.directly_in(kind::SBLOCK)?,
            (kind::SCOPE, []) => self.directly_in(kind::COND)?,
            (kind::COND | kind::WHILE, [cond]) => self.of.condition(*cond)?,
            _ => return None,
        }
        self.enter(at)
    }

    fn directly_in(&self, kind: u16) -> Plain {
        self.open.last().filter(|around| around.kind == kind).map(drop)
    }

    /// Checks the kind of a loop, its thread and its annotations.
    fn loop_attrs(&self, id: u32) -> Plain {
        let raw = self.of.raw;
        if id == NONE {
            return Some(());
        }
        let entries = self.entries(id)?;
        entries.is_sorted_by(|a, b| raw.str(a.key) < raw.str(b.key)).then_some(())?;
        let text = |entry: &AttrRec| if entry.kind == attr::STR { raw.str(entry.val as u32) } else { "" };
        let (mut thread, mut bound) = (false, false);
        for entry in entries {
            match raw.str(entry.key) {
                "annotations" if entry.kind == attr::DICT => self.annotations(entry.val as u32)?,
                "kind" => {
                    bound = text(entry) == "thread_binding";
                    (bound || matches!(text(entry), "parallel" | "vectorized" | "unroll")).then_some(())?;
                }
                "thread" if entry.kind == attr::STR => thread = true,
                _ => return None,
            }
            (entry.reserved == 0).then_some(())?;
        }
        (thread == bound).then_some(())
    }

    /// Checks the annotations of a loop. Two annotations have a syntax of their own, which is used if the loop has no
    /// other annotation.
    fn annotations(&self, id: u32) -> Plain {
        let raw = self.of.raw;
        let entries = self.entries(id)?;
        entries.iter().all(|entry| !matches!(raw.str(entry.key), "disable_unroll" | "pragma_unroll")).then_some(())?;
        plain_entries(raw, entries)
    }

    /// Checks a named node: an iterator of a block, a buffer, or a value.
    fn named(&mut self, node: &NodeRec) -> Plain {
        let operands = self.of.operands(node);
        (node.attrs == NONE || node.kind == kind::BUFFER).then_some(())?;
        let flags = match node.kind {
            kind::BIND => {
                let [value] = *operands else { return None };
                let dtype = self.of.value(value)?.dtype;
                (self.of.tables.scalar(node.ty)? == dtype && node.a == 0).then_some(())?;
                let is_call = self.nodes.get(value as usize).is_some_and(|value| value.kind == kind::CALL);
                if is_call {
                    self.effect();
                }
                if is_call { flag::BOUND | flag::IMPURE } else { flag::BOUND }
            }
            kind::ITER_VAR => {
                let [min, extent, value] = *operands else { return None };
                self.directly_in(kind::SBLOCK)?;
                let dtype = self.of.range(min, extent)?;
                self.of.index(value)?;
                (self.of.tables.scalar(node.ty)? == dtype && node.a <= axis::OPAQUE).then_some(())?;
                flag::BOUND | flag::INNER
            }
            _ => {
                self.buffer(node, operands)?;
                flag::BOUND | flag::INNER
            }
        };
        (node.flags == flags).then_some(())
    }

    fn buffer(&self, node: &NodeRec, operands: &[u32]) -> Plain {
        let PlainType::Buffer(buffer) = self.of.tables.ty(node.ty)? else { return None };
        (buffer.rank <= MOST_DIMS).then_some(())?;
        if node.attrs != NONE {
            (node.a == buffer_of::ALLOC).then_some(())?;
            plain_entries(self.of.raw, self.entries(node.attrs)?)?;
        }
        let is = |source: u32, kind: u16| self.nodes.get(source as usize).is_some_and(|node| node.kind == kind);
        match (node.a, operands) {
            (buffer_of::BLOCK, []) => Some(()),
            // A buffer with a single element is written as a variable, together with the following store.
            (buffer_of::ALLOC, []) => (!buffer.is_scalar).then_some(()),
            (buffer_of::MATCH, [source]) if is(*source, kind::PARAM) => self.of.pointer(*source).map(drop),
            (buffer_of::MATCH, [source]) => self.of.matched(*source, &buffer, node.ty),
            (buffer_of::DECL, [data]) => {
                let (dtype, scope) = self.of.pointer(*data)?;
                // A buffer over the data of another buffer can be written as a view.
                let fits = is(*data, kind::PARAM) || dtype == buffer.dtype && buffer.rank > 0;
                // The buffer must be in the memory scope of its data.
                (fits && !buffer.is_scalar && scope == buffer.scope).then_some(())
            }
            _ => None,
        }
    }

    /// Checks a statement with its own effect.
    fn statement(&mut self, node: &NodeRec) -> Plain {
        let operands = self.of.operands(node);
        ((node.flags, node.ty, node.a) == (flag::IMPURE, NONE, 0)).then_some(())?;
        (node.attrs == NONE || node.kind == kind::ANNOTATE).then_some(())?;
        match (node.kind, operands) {
            (kind::STORE, [buffer, value, indices @ ..]) => {
                let dtype = self.of.element(*buffer, indices)?;
                (self.of.value(*value)?.dtype == dtype).then_some(())?;
            }
            (kind::EVALUATE, [value]) => drop(self.of.value(*value)?),
            (kind::WHERE, [cond]) => {
                self.directly_in(kind::SBLOCK)?;
                self.of.condition(*cond)?;
            }
            (kind::ANNOTATE, []) => {
                self.directly_in(kind::SBLOCK)?;
                plain_entries(self.of.raw, self.entries(node.attrs)?)?;
            }
            (kind::RETURN, []) | (kind::BREAK | kind::CONTINUE, []) => {}
            (kind::RETURN, [value]) => drop(self.of.value(*value)?),
            _ => return None,
        }
        self.effect();
        Some(())
    }
}

impl Region {
    /// Checks the next node of a block. The parts of its head must be in the order of the text.
    fn block_has(&mut self, node: &NodeRec) -> Plain {
        let head = match (node.kind, node.a) {
            (kind::ITER_VAR | kind::WHERE, _) => Head::Iterators,
            (kind::ACCESS, 0) => Head::Reads,
            (kind::ACCESS, 1) => Head::Writes,
            (kind::ACCESS, _) => return None,
            _ => Head::Content,
        };
        let second = node.kind == kind::WHERE && std::mem::replace(&mut self.has_where, true);
        (head >= self.head && !second).then_some(())?;
        self.head = head;
        Some(())
    }
}
