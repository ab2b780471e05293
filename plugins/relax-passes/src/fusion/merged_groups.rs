//! Determines which calls of composite functions are merged.

use super::chains::Chains;
use super::taken_apart::TakenApart;
use plugin_api::prelude::*;
use plugin_api::rewrite::grouping::Groups;
use plugin_api::walk::disjoint_sets::DisjointSets;
use std::collections::BTreeMap;

/// Returns the groups of `main`: calls of composite functions of one compiler that no other group separates.
///
/// # Errors
/// If a composite function does not name its compiler.
pub(super) fn merged_groups<'b>(main: &'b Body, module: &'b Module) -> Result<Groups<'b>, PassError> {
    let tuples = TakenApart::of(main);
    let mut merging = Merging {
        module,
        tuples,
        groups: DisjointSets::default(),
        members: Vec::new(),
        group_of: ValueMap::new(main),
        places: ValueMap::new(main),
        chains: Chains::default(),
        searches: 0,
    };
    let blocks: Vec<Block<'b>> =
        main.function().into_iter().flat_map(Function::blocks).filter_map(Value::as_block).collect();
    for (at, binding) in blocks.iter().flat_map(|block| block.bindings()).enumerate() {
        merging.add(binding, at)?;
    }
    let mut groups = Groups::new(main);
    for block in blocks.into_iter().filter(|block| block.is_dataflow()) {
        let mut members: BTreeMap<usize, Vec<Value<'b>>> = BTreeMap::new();
        for binding in block.bindings() {
            let Some(member) = merging.group_of.get(binding).copied() else { continue };
            members.entry(merging.groups.root(member)).or_default().push(binding);
        }
        for (root, members) in members {
            if let Some(compiler) = merging.members[root].compiler {
                groups.add(members, &[("Codegen", compiler.into())]);
            }
        }
    }
    Ok(groups)
}

/// Groups that are being merged. Each group starts as one binding.
struct Merging<'b> {
    module: &'b Module,
    tuples: TakenApart<'b>,
    groups: DisjointSets,
    /// The data of each group, stored at its root.
    members: Vec<Member<'b>>,
    group_of: ValueMap<'b, usize>,
    /// The position of each binding, and its dependencies.
    places: ValueMap<'b, usize>,
    chains: Chains,
    /// Number of searches so far.
    searches: usize,
}

struct Member<'b> {
    compiler: Option<&'b str>,
    /// Groups on which this group depends.
    needs: Vec<usize>,
    /// Positions of the first and the last binding of the group.
    first: usize,
    last: usize,
    /// Number of the last search that visited this group.
    seen: usize,
}

impl<'b> Merging<'b> {
    fn add(&mut self, binding: Value<'b>, at: usize) -> Result<(), PassError> {
        let (mut needs, mut used_places) = (Vec::new(), Vec::new());
        binding.each_use(|_, _, used| {
            needs.extend(self.group_of.get(used));
            used_places.extend(self.places.get(used));
        });
        let group = match binding.view() {
            Expr::Alias(source) => self.of_all([source]),
            Expr::TupleGet { tuple, .. } => self.of_all([tuple]).filter(|_| self.tuples.is_taken_apart(tuple)),
            Expr::Tuple(_) => self.of_all(binding.operands()).filter(|_| self.tuples.is_taken_apart(binding)),
            Expr::Call(call) => self.merge_arguments(call, &needs, &used_places)?,
            _ => None,
        };
        let group = group.unwrap_or_else(|| {
            self.members.push(Member { compiler: None, needs: Vec::new(), first: at, last: at, seen: 0 });
            self.groups.add()
        });
        if let Some(call) = binding.as_call() {
            self.members[group].compiler = compiler_of(call, self.module)?;
        }
        self.members[group].last = at;
        for needed in needs {
            let needed = self.groups.root(needed);
            if needed != group && self.members[group].needs.last() != Some(&needed) {
                self.members[group].needs.push(needed);
            }
        }
        self.group_of.insert(binding, group);
        self.places.insert(binding, at);
        self.chains.add(used_places.into_iter().max());
        Ok(())
    }

    /// Returns the group of a compiler that contains all of `values`.
    fn of_all(&mut self, values: impl IntoIterator<Item = Value<'b>>) -> Option<usize> {
        let mut roots = Vec::new();
        for value in values {
            let group = self.group_of.get(value).copied()?;
            roots.push(self.groups.root(group));
        }
        let first = *roots.first()?;
        let same = roots.iter().all(|root| *root == first);
        (same && self.members[first].compiler.is_some()).then_some(first)
    }

    /// Merges the groups that a call joins, and returns the merged group; `None` if the call starts a new group.
    fn merge_arguments(
        &mut self,
        call: Call<'b>,
        needs: &[usize],
        places: &[usize],
    ) -> Result<Option<usize>, PassError> {
        let Some(compiler) = compiler_of(call, self.module)? else { return Ok(None) };
        let mut candidates = Vec::new();
        for arg in call.args() {
            let Some(group) = self.group_of.get(arg).copied() else { continue };
            let root = self.groups.root(group);
            if self.members[root].compiler == Some(compiler) && !candidates.contains(&root) {
                candidates.push(root);
            }
        }
        self.drop_parts(&mut candidates, needs, places);
        self.drop_needed(&mut candidates, needs);
        let mut candidates = candidates.into_iter();
        let first = candidates.next();
        if let Some(into) = first {
            candidates.for_each(|from| self.merge(from, into));
        }
        Ok(first)
    }

    /// Drops candidates containing a value that the latest argument of a call depends on. This cheap check decides most
    /// cases of [`Merging::drop_needed`].
    fn drop_parts(&mut self, candidates: &mut Vec<usize>, groups: &[usize], places: &[usize]) {
        let Some(latest) = places.iter().copied().max() else { return };
        let used: Vec<(usize, usize)> =
            groups.iter().zip(places).map(|(group, at)| (self.groups.root(*group), *at)).collect();
        let of_latest = used.iter().find(|(_, at)| *at == latest).map(|(root, _)| *root);
        let is_part = |root: usize| used.iter().any(|(of, at)| *of == root && self.chains.is_made_of(latest, *at));
        candidates.retain(|candidate| Some(*candidate) == of_latest || !is_part(*candidate));
    }

    /// Drops candidates on which one of the groups depends, because a call that joined them would create a cycle.
    fn drop_needed(&mut self, candidates: &mut Vec<usize>, groups: &[usize]) {
        let Some(earliest) = candidates.iter().map(|candidate| self.members[*candidate].first).min() else { return };
        let mut work: Vec<usize> = groups.iter().map(|group| self.groups.root(*group)).collect();
        self.searches += 1;
        let mut needed: Vec<usize> = Vec::new();
        while let Some(group) = work.pop() {
            // A group does not depend on itself, and a group that ends before the first candidate depends on none of
            // them.
            let asked = candidates.iter().any(|candidate| *candidate != group && !needed.contains(candidate));
            let member = &mut self.members[group];
            if !asked || member.last < earliest || std::mem::replace(&mut member.seen, self.searches) == self.searches {
                continue;
            }
            for at in 0..self.members[group].needs.len() {
                let below = self.groups.root(self.members[group].needs[at]);
                if candidates.contains(&below) && !needed.contains(&below) {
                    needed.push(below);
                }
                work.push(below);
            }
        }
        candidates.retain(|candidate| !needed.contains(candidate));
    }

    fn merge(&mut self, from: usize, into: usize) {
        let Some((from, into)) = self.groups.merge(from, into) else { return };
        let (needs, first) = (std::mem::take(&mut self.members[from].needs), self.members[from].first);
        let target = &mut self.members[into];
        target.needs.extend(needs);
        target.first = target.first.min(first);
    }
}

/// Returns the compiler of the composite function that a call invokes.
fn compiler_of<'b>(call: Call<'b>, module: &'b Module) -> Result<Option<&'b str>, PassError> {
    let callee = call.global().and_then(|name| module.get(name));
    let Some(mark) = callee.and_then(|body| body.root().attr("Composite")?.as_str()) else { return Ok(None) };
    match mark.split_once('.') {
        Some((compiler, _)) => Ok(Some(compiler)),
        None => {
            bail!(at call.value(), "the attribute `Composite` is `{mark}`; put the compiler first, as in `acme.{mark}`")
        }
    }
}
