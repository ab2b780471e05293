//! Shares storage between allocations that are not alive at the same time.

use super::storage_plan::{Storage, allocation_of, plan};
use plugin_api::arith::{Analyzer, symbol_of};
use plugin_api::ir::{AttrsId, BufferType};
use plugin_api::prelude::*;
use plugin_api::scalar::PrimOp;
use std::collections::{BTreeMap, BTreeSet};

declare_pass! {
    /// Shares storage between allocations that are not alive at the same time, and allocates it at the start of the
    /// function, or at the start of the threads or the parallel loop that use it.
    ///
    /// Expects flat buffers and no vectorized loops. Removes unused allocations, and the annotations of all other
    /// allocations. Shared storage is volatile if one of its allocations is. Allocations that fit into a register, or
    /// are in a memory scope of one thread, do not share storage. An allocation whose shape depends on a loop or a
    /// name in the function does not move.
    ///
    /// ```relax before
    /// @T.prim_func(s_tir=True)
    /// def f(A: T.Buffer((16,), "float32")):
    ///     for i in range(4):
    ///         B = T.alloc_buffer((16,))
    ///         C = T.alloc_buffer((16,))
    ///         for j in range(16):
    ///             B[j] = A[15 - j]
    ///         for j in range(16):
    ///             C[j] = B[j] * T.float32(2)
    ///         for j in range(16):
    ///             A[j] = C[j]
    /// ```
    /// ```relax after
    /// @T.prim_func(s_tir=True)
    /// def f(A: T.Buffer((16,), "float32")):
    ///     B = T.alloc_buffer((16,))
    ///     for i in range(4):
    ///         C = T.decl_buffer((16,), data=B.data)
    ///         for j in range(16):
    ///             B[j] = A[15 - j]
    ///         for j in range(16):
    ///             C[j] = B[j] * T.float32(2)
    ///         for j in range(16):
    ///             A[j] = C[j]
    /// ```
    pub prim_func pass STORAGE_REWRITE = "tirx.StorageRewrite" { opt_level: 0, run: storage_rewrite }
}

fn storage_rewrite(body: &Body, _: &Ctx) -> Result<Body, PassError> {
    let stay = bound_to_their_places(body);
    let storages = plan(body, &stay)?;
    if is_done(body, &storages, &stay) {
        return Ok(body.clone());
    }
    let mut rewrite = Rewrite { shared: ValueMap::new(body), used: stay };
    let mut started = false;
    body.try_rewrite(|value, rw| {
        if !std::mem::replace(&mut started, true) {
            storages.iter().try_for_each(|storage| rewrite.allocate(storage, rw))?;
        }
        rewrite.visit(value, rw)
    })
}

/// Returns true if each storage has a single allocation that is already in place.
fn is_done(body: &Body, storages: &[Storage<'_>], stay: &ValueSet<'_>) -> bool {
    let mut contents = BTreeMap::new();
    let in_place = storages.iter().all(|storage| {
        let header = storage.attach.unwrap_or(body.root());
        let next = contents.entry(header.word()).or_insert_with(|| header.content()).next();
        matches!(storage.allocs[..], [alloc] if alloc.attrs().is_empty() && next == Some(alloc))
    });
    in_place && body.values().filter(|value| value.is_allocation() && !stay.contains(*value)).count() == storages.len()
}

/// Returns the allocations whose shapes use loop variables or names of the function. Such allocations cannot be moved
/// before those variables and names.
fn bound_to_their_places(body: &Body) -> ValueSet<'_> {
    let (mut inner, mut stay) = (BTreeSet::new(), ValueSet::new(body));
    for value in body.values() {
        let var = match value.stmt() {
            Some(Stmt::For { var, .. }) => Some(var),
            Some(Stmt::Launch { .. }) => value.region().children().next(),
            Some(Stmt::Bind { .. }) => Some(value),
            _ => None,
        };
        inner.extend(var.and_then(symbol_of));
        if value.is_allocation() {
            let mut uses = false;
            value.each_symbol(&mut |sym| uses |= inner.contains(&sym));
            stay.extend(uses.then_some(value));
        }
    }
    stay
}

/// The annotation of an allocation through which threads exchange values: every access must go to memory.
const VOLATILE: &str = "tirx.volatile";

struct Rewrite<'b> {
    /// For each allocation without its own storage, the storage to which it refers.
    shared: ValueMap<'b, V>,
    /// Allocations that are kept, possibly at a different place or as a declaration.
    used: ValueSet<'b>,
}

impl<'b> Rewrite<'b> {
    /// Allocates a storage at its place.
    fn allocate(&mut self, storage: &Storage<'b>, rw: &mut Rewriter<'b>) -> Result<(), PassError> {
        let header = storage.attach.unwrap_or(rw.body().root());
        let Some(first) = header.content().next() else { return Ok(()) };
        self.used.extend(storage.allocs.iter().copied());
        let types: Vec<BufferType> = storage.allocs.iter().filter_map(|alloc| alloc.as_buffer_type()).collect();
        let same = types.iter().all(|ty| ty.shape == types[0].shape && ty.dtype == types[0].dtype);
        let (own, others) = storage.allocs.split_at(usize::from(same));
        let name = storage.allocs.first().and_then(|alloc| alloc.name()).unwrap_or("storage");
        let data = rw.tir(|t| {
            t.before(first);
            match own {
                [own] => {
                    t.place(*own);
                    t.buffer(*own).v()
                }
                _ => t.alloc(name, largest(storage, &types)).v(),
            }
        })?;
        own.iter().for_each(|own| rw.edit().set_attrs(*own, AttrsId::NONE));
        if storage
            .allocs
            .iter()
            .any(|alloc| alloc.attr(VOLATILE).is_some_and(|volatile| volatile.as_bool() != Some(false)))
        {
            rw.edit().set_attr(data, VOLATILE, Attr::Bool(true));
        }
        for other in others {
            self.shared.insert(*other, data);
        }
        Ok(())
    }

    fn visit(&mut self, value: Value<'b>, rw: &mut Rewriter<'b>) -> Result<Action, PassError> {
        if value.is_allocation() {
            match self.shared.get(value) {
                Some(data) => rw.edit().to_declaration(value, *data),
                None if !self.used.contains(value) => rw.edit().discard(value),
                None => {}
            }
        }
        if let Expr::BufferPart { buffer, part: 0 } = value.view()
            && let Some(data) = allocation_of(buffer).and_then(|alloc| self.shared.get(alloc))
        {
            rw.edit().set_data(value, *data);
        }
        Ok(Action::Keep)
    }
}

/// Returns a buffer that is as large as the largest allocation.
fn largest(storage: &Storage<'_>, types: &[BufferType]) -> BufferType {
    let bits = |ty: &BufferType| i64::from(ty.dtype.bits()) * i64::from(ty.dtype.lanes());
    let of = i64::from(storage.dtype.bits()) * i64::from(storage.dtype.lanes());
    let size = |extent: &Dim, bits| Dim::binary(PrimOp::Mul, extent.clone(), Dim::int(bits, extent.dtype()));
    let sizes = types.iter().flat_map(|ty| ty.shape.iter().map(move |extent| size(extent, bits(ty))));
    // The division is exact: a buffer with a different data type is never larger than a buffer with the data type of
    // the storage.
    let mut analyzer = Analyzer::new();
    let most = sizes.reduce(|a, b| analyzer.greatest(a, b)).unwrap_or_else(|| Dim::int(0, DType::I32));
    let of = Dim::int(of, most.dtype());
    let elements = analyzer.simplify(&Dim::binary(PrimOp::FloorDiv, most, of));
    BufferType { scope: storage.scope.clone(), ..BufferType::new(vec![elements], storage.dtype) }
}
