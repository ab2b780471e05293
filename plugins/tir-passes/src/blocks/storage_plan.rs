//! Assigns storage to allocations. An allocation is alive from the first to the last statement that touches it, in the
//! scope of its allocation.

use super::in_place::is_in_place;
use plugin_api::ir::{BufferType, loop_kind};
use plugin_api::prelude::*;
use plugin_api::walk::open_scopes::OpenScopes;
use std::collections::{BTreeMap, BTreeSet};

/// Attribute of a statement that is called from elsewhere.
pub(super) const EXTERN_SCOPE: &str = "extern_scope";

/// Storage shared by allocations that are not alive at the same time.
pub(super) struct Storage<'b> {
    /// Position of the storage: the start of the enclosing thread launch or parallel loop, or of the function.
    pub(super) attach: Option<Value<'b>>,
    /// The allocations, in the order in which they become alive.
    pub(super) allocs: Vec<Value<'b>>,
    pub(super) scope: String,
    /// Data type of the first allocation.
    pub(super) dtype: DType,
    /// Size in bits; 0 if unknown.
    bits: u64,
}

/// A statement, or the start or end of a compound statement, in order.
struct Entry<'b> {
    stmt: Value<'b>,
    kind: Kind,
    /// Allocations that it touches. The end of a compound statement lists the allocations of the surrounding scope; its
    /// start does not list any.
    touched: Vec<Value<'b>>,
}

enum Kind {
    /// The start of a compound statement, and the index of its end.
    Start {
        end: usize,
    },
    End,
    Leaf,
}

/// Returns the allocation whose data a buffer uses, through declarations of other buffers over it.
pub(super) fn allocation_of(mut buffer: Value<'_>) -> Option<Value<'_>> {
    while !buffer.is_allocation() {
        let Expr::BufferPart { buffer: of, part: 0 } = buffer.operand(0)?.view() else { return None };
        buffer = of;
    }
    Some(buffer)
}

/// Plans the storage of all touched allocations of a function, except those that must stay in place.
pub(super) fn plan<'b>(body: &'b Body, stay: &ValueSet<'b>) -> Result<Vec<Storage<'b>>, PassError> {
    let entries = Linear::of(body, stay)?;
    let mut plan = Plan::new(body, &entries);
    for (at, entry) in entries.iter().enumerate() {
        match entry.kind {
            Kind::Start { end } => {
                plan.begin(entry.stmt, &entries[end].touched, end);
                plan.enter(entry.stmt);
            }
            Kind::Leaf => {
                plan.begin(entry.stmt, &entry.touched, at);
                plan.end(&entry.touched, at);
            }
            Kind::End => {
                plan.leave(entry.stmt);
                plan.end(&entry.touched, at);
            }
        }
    }
    Ok(plan.storages)
}

/// Returns true if storage is allocated in a statement rather than around it.
fn has_own_storage(stmt: Value<'_>, around: Option<Value<'_>>) -> bool {
    match stmt.stmt() {
        Some(Stmt::Launch { .. }) => true,
        Some(Stmt::For { kind: loop_kind::PARALLEL, .. }) => around.is_none(),
        _ => false,
    }
}

/// The statements in linear order.
struct Linear<'b, 's> {
    entries: Vec<Entry<'b>>,
    /// The starts of open compound statements, and the allocations touched in them.
    open: OpenScopes<(usize, Vec<Value<'b>>)>,
    /// For each allocation, the number of statements open around it.
    level: ValueMap<'b, usize>,
    /// Allocations that the expressions of the next statement touch.
    pending: Vec<Value<'b>>,
    /// Launches around the current position.
    launches: OpenScopes<()>,
    stay: &'s ValueSet<'b>,
}

impl<'b, 's> Linear<'b, 's> {
    fn of(body: &'b Body, stay: &'s ValueSet<'b>) -> Result<Vec<Entry<'b>>, PassError> {
        let (entries, open, pending, launches) = (Vec::new(), OpenScopes::new(), Vec::new(), OpenScopes::new());
        let mut linear = Linear { entries, open, level: ValueMap::new(body), pending, launches, stay };
        for value in body.values() {
            linear.launches.go_to(value);
            while let Some(closed) = linear.open.close_before(value) {
                linear.close(closed);
            }
            linear.visit(value)?;
        }
        // Closes the regions that are still open at the end of the PrimFunc.
        while let Some(closed) = linear.open.close() {
            linear.close(closed);
        }
        Ok(linear.entries)
    }

    fn visit(&mut self, value: Value<'b>) -> Result<(), PassError> {
        if value.is_allocation() {
            self.level.insert(value, self.open.len());
        }
        if matches!(value.view(), Expr::Buffer) {
            // A declaration does not touch the data that it refers to.
            self.pending.clear();
        }
        if let Some(access) = value.as_element_access() {
            if let Some(ty) = allocation_of(access.buffer).and_then(Value::as_buffer_type)
                && ty.shape.len() != 1
            {
                bail!(at value, "found an allocation of {} dimensions; run tirx.FlattenBuffer first", ty.shape.len());
            }
            self.touch(access.buffer);
        }
        if let Expr::BufferPart { buffer, part: 0 } = value.view() {
            self.touch(buffer);
        }
        let Some(stmt) = value.stmt() else { return Ok(()) };
        if matches!(stmt, Stmt::For { kind: loop_kind::VECTORIZED, .. }) {
            bail!(at value, "found a vectorized loop; run tirx.VectorizeLoop first");
        }
        if value.is_allocation() || !self.is_scope(value) {
            return self.leaf(value);
        }
        let start = self.entries.len();
        self.entries.push(Entry { stmt: value, kind: Kind::Start { end: start }, touched: Vec::new() });
        self.open.open(value, (start, Vec::new()));
        self.touch_pending(value)
    }

    /// Records that the next statement touches a buffer.
    fn touch(&mut self, buffer: Value<'b>) {
        self.pending.extend(allocation_of(buffer).filter(|alloc| !self.stay.contains(*alloc)));
    }

    /// Returns true if a statement is its own scope. Inner launches share the scope of the outermost.
    fn is_scope(&mut self, value: Value<'b>) -> bool {
        match value.stmt() {
            Some(Stmt::For { .. } | Stmt::While { .. } | Stmt::If { .. }) => true,
            Some(Stmt::Attr { key, .. }) => key == EXTERN_SCOPE,
            Some(Stmt::Launch { thread, .. }) => {
                let inner = !self.launches.is_empty();
                self.launches.open(value, ());
                thread.is_some_and(|thread| thread.starts_with("vthread")) || !inner
            }
            _ => false,
        }
    }

    fn leaf(&mut self, value: Value<'b>) -> Result<(), PassError> {
        self.open.open(value, (self.entries.len(), Vec::new()));
        self.touch_pending(value)?;
        let touched = self.open.close().map(|(_, touched)| touched).unwrap_or_default();
        if !touched.is_empty() {
            self.entries.push(Entry { stmt: value, kind: Kind::Leaf, touched });
        }
        Ok(())
    }

    fn touch_pending(&mut self, user: Value<'b>) -> Result<(), PassError> {
        for buffer in std::mem::take(&mut self.pending) {
            let Some((_, touched)) = self.level.get(buffer).and_then(|level| self.open.get_mut(*level)) else {
                bail!(at user, "a buffer is used outside the statement that allocates it");
            };
            touched.push(buffer);
        }
        Ok(())
    }

    /// Records the end of a compound statement.
    fn close(&mut self, (start, touched): (usize, Vec<Value<'b>>)) {
        let stmt = self.entries[start].stmt;
        self.entries[start].kind = Kind::Start { end: self.entries.len() };
        self.entries.push(Entry { stmt, kind: Kind::End, touched });
    }
}

/// The state of the storages while statements are walked.
struct Plan<'b> {
    storages: Vec<Storage<'b>>,
    /// The storage of each allocation.
    of: ValueMap<'b, usize>,
    /// The index of the last entry that touches each allocation.
    last: ValueMap<'b, usize>,
    /// Allocations that are or were alive.
    born: ValueSet<'b>,
    /// The place for storage whose use begins here.
    here: Place<'b>,
    /// The enclosing places, outermost first.
    around: Vec<Place<'b>>,
}

/// The function, or a statement in which storage is allocated, with its free storage.
struct Place<'b> {
    stmt: Option<Value<'b>>,
    /// Free storage of known size, by size; storages of equal size are in the order in which they became free.
    sized: BTreeMap<u64, Vec<usize>>,
    /// Free storage of unknown size.
    unsized_: Vec<usize>,
}

impl<'b> Place<'b> {
    fn new(stmt: Option<Value<'b>>) -> Place<'b> {
        Place { stmt, sized: BTreeMap::new(), unsized_: Vec::new() }
    }
}

impl<'b> Plan<'b> {
    fn new(body: &'b Body, entries: &[Entry<'b>]) -> Plan<'b> {
        let mut last = ValueMap::new(body);
        for (at, entry) in entries.iter().enumerate() {
            for buffer in &entry.touched {
                last.insert(*buffer, at);
            }
        }
        Plan {
            storages: Vec::new(),
            of: ValueMap::new(body),
            last,
            born: ValueSet::new(body),
            here: Place::new(None),
            around: Vec::new(),
        }
    }

    /// Starts the lifetimes of allocations that a statement is the first to touch, while allocations that it is the
    /// last to touch are still alive.
    fn begin(&mut self, stmt: Value<'b>, touched: &[Value<'b>], end: usize) {
        let new: Vec<Value<'_>> = touched.iter().copied().filter(|buffer| self.born.insert(*buffer)).collect();
        let dying = self.dying(touched, end);
        for buffer in &new {
            let Some(ty) = buffer.as_buffer_type() else { continue };
            let reused = if new.len() <= 2 { self.in_place(stmt, *buffer, &ty, &dying) } else { None };
            let at = reused.unwrap_or_else(|| self.find(*buffer, &ty));
            self.storages[at].allocs.push(*buffer);
            self.of.insert(*buffer, at);
        }
    }

    /// Returns the allocations that no later entry touches, each once.
    fn dying(&self, touched: &[Value<'b>], end: usize) -> Vec<Value<'b>> {
        let mut seen = BTreeSet::new();
        let last = |buffer: &&Value<'b>| self.last.get(**buffer) == Some(&end) && seen.insert(buffer.word());
        touched.iter().filter(last).copied().collect()
    }

    /// Frees the storage of allocations that are touched for the last time.
    fn end(&mut self, touched: &[Value<'b>], at: usize) {
        self.dying(touched, at).into_iter().for_each(|buffer| self.free(buffer));
    }

    fn enter(&mut self, stmt: Value<'b>) {
        if has_own_storage(stmt, self.here.stmt) {
            self.around.push(std::mem::replace(&mut self.here, Place::new(Some(stmt))));
        }
    }

    /// Drops storage allocated in a statement at its end.
    fn leave(&mut self, stmt: Value<'b>) {
        if self.here.stmt == Some(stmt)
            && let Some(outer) = self.around.pop()
        {
            self.here = outer;
        }
    }

    /// Returns the storage of an allocation that dies in this statement while each of its elements becomes the same
    /// element of the new allocation.
    fn in_place(&mut self, stmt: Value<'b>, buffer: Value<'b>, ty: &BufferType, dying: &[Value<'_>]) -> Option<usize> {
        let (at, from) = dying.iter().find_map(|from| {
            let at = *self.of.get(*from)?;
            let storage = &self.storages[at];
            let fits = storage.scope == ty.scope && storage.dtype == ty.dtype && storage.bits == bits_of(ty);
            (fits && is_in_place(stmt, buffer, *from)).then_some((at, *from))
        })?;
        // The new allocation takes over the storage.
        self.of.remove(from);
        Some(at)
    }

    /// Returns free storage that fits, or new storage.
    fn find(&mut self, buffer: Value<'b>, ty: &BufferType) -> usize {
        let bits = bits_of(ty);
        let free = if !is_shareable(ty, bits) {
            None
        } else if bits == 0 {
            let fits = |at: &usize| self.storages[*at].scope == ty.scope && self.storages[*at].dtype == ty.dtype;
            self.here.unsized_.iter().position(fits).map(|i| self.here.unsized_.remove(i))
        } else {
            self.find_sized(ty, bits)
        };
        free.unwrap_or_else(|| {
            let (attach, scope, dtype) = (self.here.stmt, ty.scope.clone(), buffer.ty().dtype());
            self.storages.push(Storage { attach, allocs: Vec::new(), scope, dtype, bits });
            self.storages.len() - 1
        })
    }

    /// Finds free storage that is at least as large, otherwise the next smaller one of the same data type, both within
    /// a factor of 16.
    fn find_sized(&mut self, ty: &BufferType, bits: u64) -> Option<usize> {
        const RANGE: u64 = 16;
        let fits = |at: usize| self.storages[at].scope == ty.scope;
        let same = |at: usize| fits(at) && self.storages[at].dtype == ty.dtype;
        let larger =
            self.here.sized.range(bits..=bits.saturating_mul(RANGE)).flat_map(of_size).find(|(_, at)| fits(*at));
        let smaller = || {
            let smaller = self.here.sized.range(bits / RANGE..bits).rev();
            smaller.flat_map(|sized| of_size(sized).rev()).find(|(_, at)| same(*at))
        };
        let (size, at) = larger.or_else(smaller)?;
        if let Some(free) = self.here.sized.get_mut(&size) {
            free.retain(|free| *free != at);
        }
        let known = &mut self.storages[at].bits;
        *known = (*known).max(bits);
        Some(at)
    }

    /// Frees the storage of an allocation after its last use.
    fn free(&mut self, buffer: Value<'_>) {
        let Some(at) = self.of.get(buffer).copied() else { return };
        let Some(ty) = buffer.as_buffer_type() else { return };
        match self.storages[at].bits {
            bits if !is_shareable(&ty, bits) => {}
            0 => self.here.unsized_.push(at),
            bits => self.here.sized.entry(bits).or_default().push(at),
        }
    }
}

/// Returns the free storages of one size, with the size.
fn of_size<'f>((size, free): (&'f u64, &'f Vec<usize>)) -> impl DoubleEndedIterator<Item = (u64, usize)> + 'f {
    free.iter().map(move |at| (*size, *at))
}

/// Returns the size of an allocation in bits; 0 if unknown.
fn bits_of(ty: &BufferType) -> u64 {
    let elements = ty.shape.iter().try_fold(1u64, |all, extent| all.checked_mul(extent.as_int()?.try_into().ok()?));
    elements.unwrap_or(0).saturating_mul(u64::from(ty.dtype.bits()) * u64::from(ty.dtype.lanes()))
}

/// Returns true if other allocations may share the storage: registers, handles, and buffers that fit into a register
/// are not shared.
fn is_shareable(ty: &BufferType, bits: u64) -> bool {
    let in_registers = !matches!(ty.scope.as_str(), "" | "global" | "shared" | "shared.dyn");
    !in_registers && ty.dtype != DType::HANDLE && !(1..=32).contains(&bits) && ty.shape.len() == 1
}
