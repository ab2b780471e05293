//! Infers the regions of blocks that do not declare their accesses.

use super::detect::{Accessed, BufferRegion, Detector};
use crate::ir::records::{buffer_of, kind};
use crate::ir::{Body, BodyKind, DType, SealError, Stmt, Value};
use crate::tir::Tir;

/// Returns the function with the reads and writes of every schedulable block declared. Missing declarations are inferred as in TVM's
/// parser. The outermost block of a function gets no accesses, and functions without schedulable blocks are not changed.
///
/// ```
/// use plugin_api::prelude::*;
/// use plugin_api::tir::prim_func;
///
/// // B[vi] = A[vi + 1]
/// let body = prim_func(|t| {
///     let (a, b) = (t.buffer_param("A", &[9], DType::I32), t.buffer_param("B", &[8], DType::I32));
///     t.serial("i", 8, |i| {
///         t.block("B", || {
///             let vi = t.spatial("vi", 8, i);
///             t.store(b, [vi], t.load(a, [vi + 1]));
///         });
///     });
/// })?;
/// let block = body.values().find(|value| matches!(value.stmt(), Some(Stmt::Block))).expect("a block");
/// let accessed: Vec<_> = block.block_accesses().filter_map(|access| access.buffer.name()).collect();
/// assert_eq!(accessed, ["A", "B"]);
/// # Ok::<(), PassError>(())
/// ```
///
/// # Errors
/// If a use of a buffer's data may be either a read or a write.
pub fn complete_regions(body: &Body) -> Result<Body, SealError> {
    let is_made_of_blocks = body.kind() == BodyKind::PrimFunc && body.root().attr("s_tir").is_some();
    if !is_made_of_blocks {
        return Ok(body.clone());
    }
    let root = root_block(body);
    let unsaid = body.values().filter(|value| is_unsaid(*value) && Some(*value) != root);
    let mut unsaid: Vec<(Value<'_>, Accessed<'_>)> = unsaid.map(|block| (block, Accessed::default())).collect();
    if unsaid.is_empty() {
        return Ok(body.clone());
    }
    let mut detector = Detector::new(body);
    // The accesses of a block depend on the accesses of inner blocks.
    for (block, accessed) in unsaid.iter_mut().rev() {
        *accessed = detector.accessed_in(*block);
        if let Some(opaque) = accessed.opaque.first() {
            return Err(SealError::UnknownAccess {
                block: block.name().unwrap_or("").to_string(),
                buffer: opaque.buffer.name().unwrap_or("_").to_string(),
            });
        }
        detector.note(*block, accessed);
    }
    let mut edit = body.edit();
    let written = Tir::at(&mut edit, DType::I32, |t| {
        unsaid.iter().for_each(|(block, accessed)| say(t, *block, accessed));
    });
    written.map_err(|error| SealError::Host(error.message))?;
    edit.finish()
}

fn is_unsaid(value: Value<'_>) -> bool {
    matches!(value.stmt(), Some(Stmt::Block)) && ["no_reads", "no_writes"].iter().any(|key| value.attr(key).is_some())
}

/// Returns the outermost block of a function, if it is the function's entire content.
fn root_block(body: &Body) -> Option<Value<'_>> {
    let mut content = body.root().content();
    let (first, second) = (content.next(), content.next());
    first.filter(|block| second.is_none() && block.block_iters().next().is_none())
}

fn say<'b>(t: &Tir<'_, 'b>, block: Value<'b>, accessed: &Accessed<'b>) {
    let said = || block.region().children().filter(|child| child.is_access() && !child.is_nested());
    if block.attr("no_reads").is_some() {
        let place = said().next().map_or_else(|| after_head(block), Place::Before);
        t.write_accesses(place, block, 0, &accessed.reads);
    }
    if block.attr("no_writes").is_some() {
        let place = said().last().map_or_else(|| after_head(block), Place::After);
        t.write_accesses(place, block, 1, &accessed.writes);
    }
}

/// The place for the declared accesses of a block.
enum Place<'b> {
    First,
    Before(Value<'b>),
    After(Value<'b>),
}

/// Returns the place after the iterators of a block and the other declarations printed before the regions. A free variable belongs to the
/// next node.
fn after_head(block: Value<'_>) -> Place<'_> {
    let is_free = |value: Value<'_>| value.node().is_some_and(|node| node.a == buffer_of::FREE);
    let mut place = Place::First;
    for child in block.region().children().filter(|child| !child.is_nested()) {
        match child.kind() {
            kind::ITER_VAR | kind::WHERE => place = Place::After(child),
            kind::BUFFER if is_free(child) => place = Place::After(child),
            kind::VAR => {}
            _ => break,
        }
    }
    place
}

impl<'b> Tir<'_, 'b> {
    /// Declares the accesses of an existing block.
    fn write_accesses(&self, place: Place<'b>, block: Value<'b>, what: u32, regions: &[BufferRegion<'b>]) {
        {
            let mut edit = self.edit.borrow_mut();
            edit.remove_attr(block, if what == 0 { "no_reads" } else { "no_writes" });
            match place {
                Place::First => edit.at_start(block),
                Place::Before(child) => edit.before(child),
                Place::After(child) => edit.after(child),
            };
        }
        for region in regions {
            let ranges: Vec<_> =
                region.ranges.iter().map(|range| (self.index(&range.min), self.index(&range.extent))).collect();
            self.access(what, self.buffer(region.buffer), ranges);
        }
    }
}
