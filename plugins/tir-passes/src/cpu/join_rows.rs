//! Joins the rows of a buffer into one long row.

use plugin_api::ir::{BufferType, loop_kind};
use plugin_api::prelude::*;
use plugin_api::scalar::PrimOp;

declare_pass! {
    /// Joins rows into one long row, if a whole function processes them element by element.
    ///
    /// A processor vector cannot cross the end of a row, so a row of 55 elements takes as long as a row of 64 elements.
    /// One row of 55 * 55 elements has only one such end. A 1x1 convolution, and elementwise operations after it, can
    /// be computed in this way; a 3x3 convolution cannot, because it reads neighbours in other rows. Parameters keep
    /// their types, and are accessed through views.
    ///
    /// Expects a function that is a list of loop nests, each around one block. Other functions do not change. The order
    /// of operations for each element does not change.
    ///
    /// ```relax before
    /// @T.prim_func(s_tir=True)
    /// def main(A: T.Buffer((64, 55, 55), "float32"), B: T.Buffer((64, 55, 55), "float32")):
    ///     for c, h, w in T.grid(64, 55, 55):
    ///         with T.sblock("B"):
    ///             vc, vh, vw = T.axis.remap("SSS", [c, h, w])
    ///             T.reads(A[vc, vh, vw])
    ///             T.writes(B[vc, vh, vw])
    ///             B[vc, vh, vw] = A[vc, vh, vw] * T.float32(2.0)
    /// ```
    /// ```relax after
    /// @T.prim_func(s_tir=True)
    /// def main(A: T.Buffer((64, 55, 55), "float32"), B: T.Buffer((64, 55, 55), "float32")):
    ///     A_1 = A.view(64, 1, 3025)
    ///     B_1 = B.view(64, 1, 3025)
    ///     for c, h, w in T.grid(64, 1, 3025):
    ///         with T.sblock("B"):
    ///             vc, vh, vw = T.axis.remap("SSS", [c, h, w])
    ///             T.reads(A_1[vc, vh, vw])
    ///             T.writes(B_1[vc, vh, vw])
    ///             B_1[vc, vh, vw] = A_1[vc, vh, vw] * T.float32(2.0)
    /// ```
    pub prim_func pass JOIN_ROWS = "tir.JoinRows" { opt_level: 0, run: join_rows }
}

fn join_rows(body: &Body, ctx: &Ctx) -> Result<Body, PassError> {
    let Some(rows) = Rows::of(body) else { return Ok(body.clone()) };
    ctx.statistic("buffers with one row", rows.buffers.len());
    rows.joined(body)
}

/// A block iterator over rows and one over the elements of a row, with their extents.
#[derive(Clone, Copy)]
struct Pair<'b> {
    iters: [Value<'b>; 2],
    extents: [i64; 2],
}

/// The loops and buffers that cover all elements of rows.
struct Rows<'b> {
    pairs: Vec<Pair<'b>>,
    /// The loops over the iterators of each pair.
    loops: Vec<[Value<'b>; 2]>,
    /// Buffers whose last two dimensions are rows and the elements of a row.
    buffers: Vec<(Value<'b>, [i64; 2])>,
    /// Accesses whose last two indices are the iterators of a pair, each with the sums in these indices.
    accesses: ValueSet<'b>,
}

impl<'b> Rows<'b> {
    /// Finds the rows of a function; returns `None` if one of its blocks has a different form.
    fn of(body: &'b Body) -> Option<Rows<'b>> {
        let (pairs, loops, buffers) = (Vec::new(), Vec::new(), Vec::new());
        let mut rows = Rows { pairs, loops, buffers, accesses: ValueSet::new(body) };
        for stmt in body.root().statements() {
            rows.add_nest(stmt)?;
        }
        for value in body.values() {
            rows.add_access(value);
        }
        let users = body.users();
        (!rows.buffers.is_empty() && rows.are_all(body, &users)).then_some(rows)
    }

    /// Finds the pair of the block in a loop nest.
    fn add_nest(&mut self, nest: Value<'b>) -> Option<()> {
        let (mut loops, mut at) = (Vec::new(), nest);
        while let Some(Stmt::For { var, min, extent, kind: loop_kind::SERIAL }) = at.stmt() {
            let is_plain = number(min) == Some(0) && at.loop_step().is_none() && at.annotations().is_empty();
            loops.push((at, var, number(extent).filter(|_| is_plain)?));
            at = only(at.statements())?;
        }
        let store = only(at.statements())?.as_element_access()?;
        let [.., row, element] = store.indices[..] else { return None };
        let mut found = Vec::new();
        for index in [row, element] {
            let iter = at.block_iters().find(|iter| iter.var == index && iter.is_spatial)?;
            let (of, _, n) = loops.iter().find(|(_, var, _)| *var == iter.value)?;
            let is_whole = number(iter.min) == Some(0) && number(iter.extent) == Some(*n) && *n > 1;
            found.push((iter.var, *of, is_whole.then_some(*n)?));
        }
        let [(row, over_rows, n_rows), (element, over_elements, n)] = found[..] else { return None };
        n_rows.checked_mul(n).filter(|all| i32::try_from(*all).is_ok())?;
        self.pairs.push(Pair { iters: [row, element], extents: [n_rows, n] });
        self.loops.push([over_rows, over_elements]);
        Some(())
    }

    /// Records an access to a buffer with rows that can be joined, if its last two indices are the iterators of a pair.
    fn add_access(&mut self, value: Value<'b>) {
        let (buffer, indices) = if let Some(access) = value.as_element_access() {
            (access.buffer, access.indices)
        } else if let Some(region) = value.as_region_access() {
            let is_element = region.ranges.iter().rev().take(2).all(|(_, extent)| number(*extent) == Some(1));
            let indices = region.ranges.iter().map(|(min, _)| *min).filter(|_| is_element).collect();
            (region.buffer, indices)
        } else {
            return;
        };
        let [.., row, element] = indices[..] else { return };
        let Some(ty) = buffer.as_buffer_type().filter(|ty| ty.strides.is_empty() && ty.elem_offset.is_none()) else {
            return;
        };
        let shape = ty.shape[ty.shape.len().saturating_sub(2)..].iter().map(Dim::as_int);
        let is_pair = |pair: &&Pair<'b>| {
            pair.iters.into_iter().eq([row, element].map(without_nothing)) && shape.clone().eq(pair.extents.map(Some))
        };
        let Some(pair) = self.pairs.iter().find(is_pair) else { return };
        if self.buffers.iter().all(|(known, _)| *known != buffer) {
            self.buffers.push((buffer, pair.extents));
        }
        self.accesses.insert(value);
        for sum in [row, element].into_iter().filter(|index| index.is_nested()) {
            self.accesses.insert(sum);
        }
    }

    /// Returns true if the buffers, the iterators and the loops have no other uses.
    fn are_all(&self, body: &'b Body, users: &Users) -> bool {
        let pairs = || self.pairs.iter().zip(&self.loops);
        let used_once = |iter: Value<'b>| body.values().all(|value| self.uses_right(value, iter));
        let is_of_iterator = |of: &Value<'b>, iter: Value<'b>| match of.stmt() {
            Some(Stmt::For { var, .. }) => users.only(var) == Some(iter),
            _ => false,
        };
        let iterators = pairs().all(|(pair, loops)| {
            loops.iter().zip(pair.iters).all(|(of, iter)| is_of_iterator(of, iter))
                && pair.iters.into_iter().all(used_once)
        });
        let is_declared = |buffer: Value<'b>| buffer.is_matched_param() || buffer.is_block_buffer();
        let buffers = self
            .buffers
            .iter()
            .all(|(buffer, _)| is_declared(*buffer) && users.each(*buffer).all(|user| self.accesses.contains(user)));
        iterators && buffers
    }

    /// Returns true if a value uses an iterator of a pair either not at all, or once and in a recorded access.
    fn uses_right(&self, value: Value<'b>, iter: Value<'b>) -> bool {
        let n = value.operands().filter(|operand| *operand == iter).count();
        n == 0 || n == 1 && self.accesses.contains(value)
    }

    fn joined(&self, body: &'b Body) -> Result<Body, PassError> {
        let Some(first) = body.root().statements().next() else { return Ok(body.clone()) };
        let mut started = false;
        body.try_rewrite(|_, rw| {
            if !std::mem::replace(&mut started, true) {
                self.set_extents(rw);
                self.set_buffers(first, rw)?;
            }
            Ok::<_, PassError>(Action::Keep)
        })
    }

    fn set_extents(&self, rw: &mut Rewriter<'b>) {
        for (pair, loops) in self.pairs.iter().zip(&self.loops) {
            let [rows, elements] = pair.extents;
            for (at, extent) in [1, rows * elements].into_iter().enumerate() {
                rw.edit().set_extent(loops[at], extent);
                rw.edit().set_extent(pair.iters[at], extent);
            }
        }
    }

    /// Gives buffers of the function their new shapes; parameters are accessed through views declared before the first
    /// statement.
    fn set_buffers(&self, first: Value<'b>, rw: &mut Rewriter<'b>) -> Result<(), PassError> {
        let root = rw.body().root();
        for (buffer, [rows, elements]) in &self.buffers {
            let Some(ty) = buffer.as_buffer_type() else { continue };
            let ty = one_row(&ty, rows * elements);
            if !buffer.is_matched_param() {
                rw.set_type(*buffer, &Type::Buffer(ty));
                continue;
            }
            rw.tir(|t| {
                t.before(first);
                let view = t.decl_buffer(buffer.name().unwrap_or("buffer"), ty, t.buffer(*buffer));
                t.substitute(root, *buffer, view);
            })?;
        }
        Ok(())
    }
}

/// Returns a buffer type with one row of `elements` elements.
fn one_row(ty: &BufferType, elements: i64) -> BufferType {
    let mut shape = ty.shape.clone();
    let n = shape.len();
    for (dim, extent) in shape[n.saturating_sub(2)..].iter_mut().zip([1, elements]) {
        *dim = Dim::int(extent, dim.dtype());
    }
    BufferType { tiled: false, ..ty.viewed(shape) }
}

/// Drops an added iterator whose value can only be 0, such as an iterator over the rows of a 1x1 filter.
fn without_nothing(index: Value<'_>) -> Value<'_> {
    let is_nothing = |of: Value<'_>| {
        of.as_block_iter().is_some_and(|iter| number(iter.min) == Some(0) && number(iter.extent) == Some(1))
    };
    match index.view() {
        Expr::Arith { op: PrimOp::Add, a, b: Some(b) } if is_nothing(b) => a,
        _ => index,
    }
}

/// Returns the only item of an iterator; `None` if there is not exactly one.
fn only<T>(mut all: impl Iterator<Item = T>) -> Option<T> {
    all.next().filter(|_| all.next().is_none())
}

fn number(value: Value<'_>) -> Option<i64> {
    value.dim()?.as_int()
}
