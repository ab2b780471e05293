//! Finds private memory that lanes can access without a mask.
//!
//! For example, a row of 28 elements has two tiles of 16 columns, and only 12 lanes of the second tile are active.
//! Suppose that every load from the tile's memory is under the conditions on the position that its stores are under.
//! Inactive lanes then store only to elements that active lanes never load, so they may compute anything, and LLVM keeps the tile in
//! registers without a mask after each operation. Other conditions, such as on memory content, need their mask.

use super::ranges::Ranges;
use super::read;
use super::statements::varying;
use runtime::program::{
    Access, Affine, Binary, Instr, Loop, LoopKind, Program, Reg, Scalar, Sums, each_instr, each_list,
};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Returns the storages whose accesses do not need a mask.
pub(super) fn without_masks(
    program: &Program,
    ranges: &Ranges,
    sums: &Sums,
    definitions: &BTreeMap<Reg, &Instr>,
) -> BTreeSet<u32> {
    let (candidates, mut out) = (in_vectors(program), BTreeSet::new());
    if candidates.is_empty() {
        return out;
    }
    let known = Known { program, ranges, sums, definitions };
    each_list(&program.body, &mut |list| {
        let mut uses = None;
        for (at, instr) in list.iter().enumerate() {
            let Instr::Allocate { storage, .. } = instr else { continue };
            if !candidates.contains(storage) {
                continue;
            }
            let uses = uses.get_or_insert_with(|| Uses::of(program, list));
            let Some((first, last)) = uses.after(*storage, at) else { continue };
            let mut tile = Tile::new(&known, *storage, &list[first..=last]);
            if tile.list(&list[first..=last]) && tile.is_sound_without_masks() {
                out.insert(*storage);
            }
        }
    });
    out
}

/// Returns the storages that vectorized loops access.
fn in_vectors(program: &Program) -> BTreeSet<u32> {
    let mut found = BTreeSet::new();
    each_instr(&program.body, &mut |instr| {
        if let Instr::For(of) = instr
            && of.kind == LoopKind::Vectorized
        {
            each_instr(&of.body, &mut |instr| found.extend(used(program, instr)));
        }
    });
    found
}

/// Returns the storage that an instruction accesses or allocates.
fn used(program: &Program, instr: &Instr) -> Option<u32> {
    match instr {
        Instr::Load { access, .. } | Instr::Store { access, .. } => {
            Some(program.buffers[access.buffer as usize].storage)
        }
        Instr::Allocate { storage, .. } => Some(*storage),
        _ => None,
    }
}

/// For each storage, the instructions of a list that use it, in order. Instructions between two uses belong to the lifetime of a storage;
/// the many before and after its uses need not be searched.
struct Uses(HashMap<u32, Vec<usize>>);

impl Uses {
    fn of(program: &Program, list: &[Instr]) -> Uses {
        let mut uses: HashMap<u32, Vec<usize>> = HashMap::new();
        for (at, instr) in list.iter().enumerate() {
            each_instr(std::slice::from_ref(instr), &mut |instr| {
                let places = used(program, instr).map(|storage| uses.entry(storage).or_default());
                places.filter(|places| places.last() != Some(&at)).into_iter().for_each(|places| places.push(at));
            });
        }
        Uses(uses)
    }

    /// Returns the first and the last use of a storage after an instruction.
    fn after(&self, storage: u32, at: usize) -> Option<(usize, usize)> {
        let places = self.0.get(&storage)?;
        let first = places.get(places.partition_point(|place| *place <= at))?;
        Some((*first, *places.last()?))
    }
}

/// Facts about registers.
struct Known<'p> {
    program: &'p Program,
    ranges: &'p Ranges,
    sums: &'p Sums,
    /// The instructions that write registers. Registers with several values are excluded.
    definitions: &'p BTreeMap<Reg, &'p Instr>,
}

/// The condition that an index plus a loop-invariant form is less than another such form: the dimension of the index, and
/// both forms. Without a dimension, only the forms are compared.
type Condition = (Option<usize>, Affine, Affine);
type Conditions = Vec<Condition>;

/// The analysis of the accesses to a storage.
struct Tile<'p> {
    known: &'p Known<'p>,
    storage: u32,
    /// The buffer of all accesses; elements of a different buffer would have different positions.
    buffer: Option<u32>,
    /// Registers that may change during the lifetime of the storage.
    inner: BTreeSet<Reg>,
    /// The enclosing loops that can be vectorized; one of them is vectorized.
    vectors: Vec<&'p Loop>,
    /// The enclosing conditions within those loops.
    around: Vec<Reg>,
    /// The conditions of each store.
    stored: Vec<Conditions>,
    /// The known conditions of each load. Other conditions only make the load rarer.
    loaded: Vec<Conditions>,
}

impl<'p> Tile<'p> {
    fn new(known: &'p Known<'p>, storage: u32, list: &'p [Instr]) -> Tile<'p> {
        let mut inner = BTreeSet::new();
        each_instr(list, &mut |instr| {
            let computes = matches!(instr, Instr::Const { .. } | Instr::Affine { .. } | Instr::Binary { .. });
            let mut varies = !computes;
            read(instr, known.program, &mut |reg| varies |= inner.contains(&reg));
            inner.extend(instr.written().filter(|reg| varies || !known.sums.is_fixed(*reg)));
        });
        let (vectors, around, stored, loaded) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Tile { known, storage, buffer: None, inner, vectors, around, stored, loaded }
    }

    /// Returns true if each load has the conditions of all stores, so that no active lane loads what an inactive lane
    /// stored.
    fn is_sound_without_masks(&self) -> bool {
        let mut stored = self.stored.iter().flatten();
        !self.stored.is_empty() && stored.all(|condition| self.loaded.iter().all(|of| of.contains(condition)))
    }

    /// Collects the accesses in a list. Returns true if the conditions of all stores are known.
    fn list(&mut self, list: &'p [Instr]) -> bool {
        list.iter().all(|instr| match instr {
            Instr::Load { access, .. } | Instr::Store { access, .. } => {
                let is_other = self.known.program.buffers[access.buffer as usize].storage != self.storage;
                is_other || self.access(access, matches!(instr, Instr::Store { .. }))
            }
            // An allocation would replace the storage, which this analysis does not cover.
            Instr::Allocate { storage, .. } => *storage != self.storage,
            Instr::For(of) => {
                let outer = self.vectors.len();
                self.vectors.extend((of.kind == LoopKind::Vectorized).then_some(&**of));
                let good = self.list(&of.body);
                self.vectors.truncate(outer);
                good
            }
            Instr::If { cond, then, otherwise, .. } => {
                let outer = self.around.len();
                // Conditions outside vectorized loops are the same in all lanes.
                self.around.extend((!self.vectors.is_empty()).then_some(*cond));
                let good = self.list(then);
                self.around.truncate(outer);
                good && !self.touches(otherwise)
            }
            Instr::While { head, body, .. } => !self.touches(head) && !self.touches(body),
            _ => true,
        })
    }

    /// Returns true if a list accesses the storage.
    fn touches(&self, list: &[Instr]) -> bool {
        let mut found = false;
        each_instr(list, &mut |instr| {
            if let Instr::Load { access, .. } | Instr::Store { access, .. } = instr {
                found |= self.known.program.buffers[access.buffer as usize].storage == self.storage;
            }
        });
        found
    }

    fn access(&mut self, access: &Access, is_store: bool) -> bool {
        let is_one = *self.buffer.get_or_insert(access.buffer) == access.buffer;
        if !is_one || self.vectors.first().is_none_or(|of| access.offset.factor(of.var) != 1) {
            return false;
        }
        let mut conditions = Vec::new();
        for cond in self.masking() {
            let bounds = self.bounds(cond);
            let known = bounds.iter().filter_map(|bound| {
                let (form, end) = bound.as_ref()?;
                let (dim, rest) = self.position(access, form)?;
                self.is_same(end).then(|| (dim, rest, end.clone()))
            });
            let before = conditions.len();
            conditions.extend(known);
            // Other conditions only make a load rarer.
            if is_store && conditions.len() - before < bounds.len() {
                return false;
            }
        }
        let known = if is_store { &mut self.stored } else { &mut self.loaded };
        if !known.contains(&conditions) {
            known.push(conditions);
        }
        true
    }

    /// Returns the enclosing conditions that may differ between lanes. All others are branches without masks.
    fn masking(&self) -> Vec<Reg> {
        if self.around.is_empty() {
            return Vec::new();
        }
        let varying: Vec<BTreeSet<Reg>> = self.vectors.iter().map(|of| varying(self.known.program, of)).collect();
        self.around.iter().copied().filter(|cond| varying.iter().any(|of| of.contains(cond))).collect()
    }

    /// Returns true if a form does not change during the lifetime of the storage.
    fn is_same(&self, form: &Affine) -> bool {
        form.terms.iter().all(|(reg, _)| !self.inner.contains(reg))
    }

    /// Splits a form into an index of `access` and an invariant rest; returns the dimension of the index, and the rest.
    fn position(&self, access: &Access, form: &Affine) -> Option<(Option<usize>, Affine)> {
        if self.is_same(form) {
            return Some((None, form.clone()));
        }
        let buffer = &self.known.program.buffers[access.buffer as usize];
        // Beyond the end of a row, the next row starts.
        let row = |dim: usize| match dim {
            0 => Some(i64::MAX),
            dim => buffer.strides[dim - 1].as_constant()?.checked_div(buffer.strides[dim].as_constant()?),
        };
        let is_within = |dim: usize| {
            let range = self.known.ranges.form(&access.index[dim]).zip(row(dim));
            range.is_some_and(|((first, last), row)| first >= 0 && last < row)
        };
        let (dim, rest) = access.index.iter().enumerate().find_map(|(dim, index)| {
            let rest = form.plus(&self.known.sums.written_out(index), -1);
            self.is_same(&rest).then_some((dim, rest))
        })?;
        let is_place = buffer.is_distinct() && (dim..access.index.len()).all(is_within);
        is_place.then_some((Some(dim), rest))
    }

    /// Splits a condition into comparisons `a < b`, and returns `a` and `b` of each; `None` for a part of any other kind.
    fn bounds(&self, cond: Reg) -> Vec<Option<(Affine, Affine)>> {
        let written = |reg: &Reg| self.known.sums.written_out(&Affine::from(*reg));
        match self.known.definitions.get(&cond) {
            // An unsigned 64-bit comparison gives different results.
            Some(Instr::Binary { op: Binary::Lt, a, b, .. })
                if [a, b].iter().all(|of| self.known.program.registers[of.index()] != Scalar::UInt(64)) =>
            {
                vec![Some((written(a), written(b)))]
            }
            Some(Instr::Binary { op: Binary::And, a, b, .. }) => {
                [a, b].into_iter().flat_map(|part| self.bounds(*part)).collect()
            }
            _ => vec![None],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::emit::definitions;
    use runtime::program::lower;
    use script::NoOps;

    /// Each storage is used by two statements beside its allocation, so only these are searched, however many others there are.
    #[test]
    fn lifetimes_of_many_storages_take_linear_work() {
        let n = 300;
        let one = |i: usize| {
            format!(
                "        C{i} = T.alloc_buffer((16,), \"float32\")\n        for v in T.vectorized(16):\n            C{i}[v] = A[v]\n        \
                 for v in T.vectorized(16):\n            B[v] = B[v] + C{i}[v]\n"
            )
        };
        let body: String = (0..n).map(one).collect();
        let text = format!(
            "@I.ir_module\nclass Module:\n    @T.prim_func(s_tir=True)\n    def f(A: T.Buffer((16,), \"float32\"), B: T.Buffer((16,), \
             \"float32\")):\n{body}"
        );
        let module = script::read(&text, &NoOps).unwrap_or_else(|error| panic!("{error}"));
        let program = lower(module.get("f").expect("a function")).expect("it lowers");
        assert_eq!(in_vectors(&program).len(), n + 2);
        let (mut searched, mut allocated) = (0, 0);
        each_list(&program.body, &mut |list| {
            let uses = Uses::of(&program, list);
            for (at, instr) in list.iter().enumerate() {
                if let Instr::Allocate { storage, .. } = instr {
                    let (first, last) = uses.after(*storage, at).expect("it is used");
                    (searched, allocated) = (searched + last + 1 - first, allocated + 1);
                }
            }
        });
        assert!(allocated == n && searched <= 8 * n, "{searched} of {allocated}");
        let sums = Sums::of(&program, |_, _| false);
        assert_eq!(without_masks(&program, &Ranges::of(&program), &sums, &definitions(&program, &sums)).len(), n);
    }
}
