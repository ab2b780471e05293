//! Replaces blocks without iterators by their contents.

use plugin_api::arith::index_to_dim;
use plugin_api::ir::loop_kind;
use plugin_api::prelude::*;
use plugin_api::tir::{Tir, has_jumps};

declare_pass! {
    /// Replaces blocks without iterators by their content, after which the function can no longer be scheduled.
    ///
    /// The condition of a block becomes an If, an allocated buffer becomes an allocation statement, a loop over threads
    /// becomes a launch, and a pragma becomes an attribute. An unannotated loop with one iteration is replaced by its
    /// content. Other annotations of blocks are removed.
    ///
    /// Expects blocks without iterators; run s_tir.ConvertBlocksToOpaque first. Loops over threads must start at 0.
    ///
    /// ```relax before
    /// @T.prim_func(s_tir=True)
    /// def f(A: T.Buffer((8,), "float32")):
    ///     for i in range(8):
    ///         with T.sblock("update"):
    ///             T.where(i < 6)
    ///             T.reads(A[i])
    ///             T.writes(A[i])
    ///             A[i] = A[i] + T.float32(1)
    /// ```
    /// ```relax after
    /// @T.prim_func(s_tir=True)
    /// def f(A: T.Buffer((8,), "float32")):
    ///     for i in range(8):
    ///         if i < 6:
    ///             A[i] = A[i] + T.float32(1)
    /// ```
    pub prim_func pass LOWER_OPAQUE_BLOCK = "s_tir.LowerOpaqueBlock" { opt_level: 0, run: lower_opaque_block }
}

/// Annotation with the row alignment of buffers.
pub(super) const DIM_ALIGN: &str = "buffer_dim_align";

fn lower_opaque_block(body: &Body, _: &Ctx) -> Result<Body, PassError> {
    let alignments = alignments(body)?;
    body.try_rewrite(|value, rw| {
        match value.stmt() {
            Some(Stmt::Block) => lower_block(value, rw)?,
            Some(Stmt::For { .. }) => lower_loop(value, rw)?,
            _ if value.is_block_buffer() => lower_buffer(value, &alignments, rw),
            _ => {}
        }
        Ok(Action::Keep)
    })
}

fn lower_block<'b>(block: Value<'b>, rw: &mut Rewriter<'b>) -> Result<(), PassError> {
    if block.block_iters().next().is_some() {
        bail!(at block, "found a block with iterators; run s_tir.ConvertBlocksToOpaque first");
    }
    if block.region().children().any(Value::is_init) {
        bail!(at block, "found a block with an initialization; run s_tir.LowerInitBlock first");
    }
    if block.region().children().any(|child| child.matched_region().is_some()) {
        bail!(at block, "found a block that matches a region of a buffer; run s_tir.LowerMatchBuffer first");
    }
    let condition = block.block_condition().filter(|condition| !is_one(*condition));
    rw.tir(|t| {
        within(t, None, &pragmas(block), &|| t.block_content(block));
        if let Some(condition) = condition {
            t.around_statements(block, |statements| t.if_(condition, statements));
        }
    })
}

/// Turns a buffer of a block into an allocation, with the row alignment of the buffer.
fn lower_buffer<'b>(buffer: Value<'b>, alignments: &ValueMap<'b, Vec<Attr>>, rw: &mut Rewriter<'b>) {
    let Some(ty) = buffer.as_buffer_type() else { return };
    let rows = alignments.get(buffer).map(|rows| (DIM_ALIGN, Attr::list(rows.iter().cloned())));
    let place =
        [("buffer_allocated_addr", Attr::list([0i64; 0])), ("buffer_data_alignment", Attr::Int(ty.align.into()))];
    rw.edit().to_allocation(buffer, place.into_iter().chain(rows));
}

fn lower_loop<'b>(stmt: Value<'b>, rw: &mut Rewriter<'b>) -> Result<(), PassError> {
    let Some(Stmt::For { var, min, extent, kind }) = stmt.stmt() else { return Ok(()) };
    // A first value that is loaded is not substituted, because the content of the loop may change that memory.
    let once = is_one(extent) && stmt.annotations().is_empty() && index_to_dim(min).is_some();
    if kind == loop_kind::THREAD_BINDING {
        if once {
            let min = rw.tir(|t| t.value(min).cast(var.ty().dtype()).v())?;
            rw.edit().forward_to(var, min);
        } else if min.dim().and_then(|min| min.as_int()) != Some(0) {
            let name = var.name().unwrap_or("_");
            bail!(at stmt, "the loop over `{name}` is bound to threads, so it must start at 0; add its start to the indices");
        } else if stmt.loop_step().is_some() {
            let name = var.name().unwrap_or("_");
            bail!(at stmt, "the loop over `{name}` is bound to threads, so its step must be 1; run s_tir.CanonicalizeLoop first");
        }
        if has_jumps(stmt) {
            let name = var.name().unwrap_or("_");
            bail!(at stmt, "the loop over `{name}` is bound to threads, so its content cannot `break` or `continue`; use an If instead");
        }
        with_pragmas(stmt, var, rw)?;
        rw.edit().to_launch(stmt);
    } else if once && !has_jumps(stmt) {
        rw.tir(|t| t.loop_body(stmt, t.value(min).cast(var.ty().dtype())))?;
    } else {
        lower_pragmas(stmt, var, rw)?;
    }
    Ok(())
}

/// Turns the pragmas of a loop into attribute statements around the loop.
fn lower_pragmas<'b>(stmt: Value<'b>, var: Value<'b>, rw: &mut Rewriter<'b>) -> Result<(), PassError> {
    if let Some(free) = with_pragmas(stmt, var, rw)? {
        let others = stmt.annotations().into_iter().filter(|(key, _)| !is_pragma(key));
        rw.edit().set_free_var(var, free);
        rw.edit().set_annotations(stmt, others);
    }
    Ok(())
}

/// Writes attribute statements for the pragmas of a loop, if it has any. Returns the variable to which they apply.
fn with_pragmas<'b>(stmt: Value<'b>, var: Value<'b>, rw: &mut Rewriter<'b>) -> Result<Option<V>, PassError> {
    let pragmas = pragmas(stmt);
    if pragmas.is_empty() {
        return Ok(None);
    }
    let free = rw.tir(|t| {
        let free = t.free_var(var.name().unwrap_or("i"), var.ty().dtype()).v();
        within(t, Some(free), &pragmas, &|| t.keep(stmt));
        free
    })?;
    Ok(Some(free))
}

/// Returns the row alignment of each buffer, as declared by the blocks that write it.
pub(super) fn alignments(body: &Body) -> Result<ValueMap<'_, Vec<Attr>>, PassError> {
    let mut aligned: ValueMap<'_, Vec<Attr>> = ValueMap::new(body);
    for block in body.values().filter(|value| matches!(value.stmt(), Some(Stmt::Block))) {
        let annotations = block.annotations();
        let Some((_, Attr::List(rows))) = annotations.iter().find(|(key, _)| key == DIM_ALIGN) else { continue };
        for row in rows.iter() {
            let Attr::List(row) = row else { continue };
            let Some(Attr::Int(which)) = row.first() else { continue };
            let Some(written) = block.block_accesses().filter(|access| access.is_write).nth(*which as usize) else {
                bail!(at block, "`{DIM_ALIGN}` refers to written buffer {which}, but the block writes fewer buffers");
            };
            let row = std::iter::once(Attr::Int(-1)).chain(row.iter().skip(1).cloned());
            match aligned.get_mut(written.buffer) {
                Some(known) => known.push(Attr::list(row)),
                None => drop(aligned.insert(written.buffer, vec![Attr::list(row)])),
            }
        }
    }
    Ok(aligned)
}

/// Returns the pragmas of a loop or block.
fn pragmas(stmt: Value<'_>) -> Vec<(String, Attr)> {
    stmt.annotations().into_iter().filter(|(key, _)| is_pragma(key)).collect()
}

fn is_pragma(key: &str) -> bool {
    key.starts_with("pragma_")
}

/// Writes attribute statements around the output of `inner`.
fn within(t: &Tir<'_, '_>, about: Option<V>, attrs: &[(String, Attr)], inner: &dyn Fn()) {
    match attrs {
        [] => inner(),
        [(key, value), rest @ ..] => t.attr_stmt(key, about, value, || within(t, about, rest, inner)),
    }
}

fn is_one(value: Value<'_>) -> bool {
    value.dim().and_then(|dim| dim.as_int()) == Some(1)
}
