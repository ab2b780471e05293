//! Orders the groups and single bindings of a block so that each item follows its dependencies.

use super::Groups;
use crate::PassError;
use crate::ir::{Block, Value};
use crate::walk::in_place::{InPlace, WrittenParams};
use crate::walk::value_map::{ValueMap, ValueSet};
use std::collections::{HashMap, HashSet};

/// An item of the final block: a binding outside all groups, or the call of a group.
#[derive(Clone, Copy)]
pub(super) enum Item<'b> {
    Binding(Value<'b>),
    Group(usize),
}

impl<'b> Item<'b> {
    pub(super) fn binding(self) -> Option<Value<'b>> {
        match self {
            Item::Binding(value) => Some(value),
            Item::Group(_) => None,
        }
    }
}

/// Plans the blocks of a function, one at a time.
pub(super) struct Plans<'g, 'b> {
    pub(super) groups: &'g Groups<'b>,
    items: Vec<Item<'b>>,
    item_of: ValueMap<'b, usize>,
    item_of_group: Vec<Option<usize>>,
    /// For each group, the values used outside it: first values that leave the block, then the others in the order of use.
    outputs: Vec<Vec<Value<'b>>>,
    is_output: ValueSet<'b>,
    in_place: InPlace<'b>,
    /// True for groups that are not outlined.
    apart: Vec<bool>,
}

impl<'g, 'b> Plans<'g, 'b> {
    pub(super) fn of(groups: &'g Groups<'b>, written: &WrittenParams) -> Plans<'g, 'b> {
        let in_place = InPlace::in_module(groups.body, written);
        let own = |group: &super::Group<'b>| in_place.is_empty() || in_place.writes_only_own(&group.members);
        Plans {
            apart: groups.groups.iter().map(|group| !own(group)).collect(),
            groups,
            items: Vec::new(),
            item_of: ValueMap::new(groups.body),
            item_of_group: vec![None; groups.len()],
            outputs: vec![Vec::new(); groups.len()],
            is_output: ValueSet::new(groups.body),
            in_place,
        }
    }

    /// Returns the results of a group in a planned block.
    pub(super) fn outputs(&self, group: usize) -> &[Value<'b>] {
        &self.outputs[group]
    }

    /// Returns the items of a block, in order; empty if the block lacks groups. Reads are not moved across in-place writes by calls. A
    /// group is not outlined if it needs a value from both before and after a write, or if it writes to memory that it did not create,
    /// because callers of its function could not see the write.
    ///
    /// # Errors
    /// If two groups depend on each other, or a group contains bindings from two blocks.
    pub(super) fn plan(&mut self, block: Block<'b>) -> Result<Vec<Item<'b>>, PassError> {
        if !block.bindings().any(|binding| self.groups.contains(binding)) {
            return Ok(Vec::new());
        }
        let first = self.items.len();
        let mut needs = self.needs(block, first)?;
        let is_ordered = !self.in_place.is_empty() || !defined_by(block).is_empty();
        let stuck = if is_ordered { stuck(&needs) } else { Vec::new() };
        if !stuck.is_empty() {
            for item in stuck {
                if let Item::Group(group) = self.items[first + item] {
                    self.apart[group] = true;
                }
            }
            self.items.truncate(first);
            self.item_of_group.iter_mut().for_each(|item| *item = item.filter(|item| *item < first));
            needs = self.needs(block, first)?;
        }
        self.sorted(first, &needs)
    }

    /// Adds the items of a block; returns the dependencies of each item, numbered relative to `first`.
    fn needs(&mut self, block: Block<'b>, first: usize) -> Result<Vec<Vec<usize>>, PassError> {
        for binding in block.bindings() {
            self.add_binding(binding, first)?;
        }
        let mut needs = vec![Vec::new(); self.items.len() - first];
        for binding in block.bindings() {
            let own = self.item_of[binding];
            binding.each_use(|_, _, used| match self.item_of.get(used) {
                Some(item) if *item >= first && *item != own => {
                    needs[own - first].push(*item - first);
                    if let Item::Group(group) = self.items[*item]
                        && self.is_output.insert(used)
                    {
                        self.outputs[group].push(used);
                    }
                }
                _ => {}
            });
        }
        if !self.in_place.is_empty() {
            self.keep_order_of_writes(block, first, &mut needs);
        }
        self.keep_symbols_defined(block, first, &mut needs);
        Ok(needs)
    }

    /// Keeps the order of each read of memory and the calls that write to the memory.
    fn keep_order_of_writes(&self, block: Block<'b>, first: usize, needs: &mut [Vec<usize>]) {
        let bindings: Vec<Value<'b>> = block.bindings().collect();
        for (at, earlier) in self.in_place.order(&bindings).into_iter().enumerate() {
            let own = self.item_of[bindings[at]] - first;
            let items = earlier.into_iter().map(|other| self.item_of[bindings[other]] - first);
            needs[own].extend(items.filter(|item| *item != own));
        }
    }

    /// Orders uses of a symbolic variable after the binding of the block that defines the variable.
    fn keep_symbols_defined(&self, block: Block<'b>, first: usize, needs: &mut [Vec<usize>]) {
        let defined = defined_by(block);
        for binding in block.bindings().filter(|_| !defined.is_empty()) {
            let own = self.item_of[binding] - first;
            for part in binding.with_nested().into_iter().chain(binding.region().nodes()) {
                part.each_symbol(&mut |sym| {
                    let by = defined.get(&sym.id).map(|by| self.item_of[*by] - first);
                    needs[own].extend(by.filter(|item| *item != own && !needs[own].contains(item)));
                });
            }
        }
    }

    fn add_binding(&mut self, binding: Value<'b>, first: usize) -> Result<(), PassError> {
        let new = self.items.len();
        let group = self.groups.group_of.get(binding).copied().filter(|group| !self.apart[*group]);
        let item = group.map_or(new, |group| *self.item_of_group[group].get_or_insert(new));
        if item < first {
            return Err(PassError::new("a group has bindings from two blocks; make one group per block").at(binding));
        }
        if item == new {
            self.items.push(group.map_or(Item::Binding(binding), Item::Group));
        }
        self.item_of.insert(binding, item);
        if let Some(group) = group
            && !binding.is_dataflow_var()
            && self.is_output.insert(binding)
        {
            self.outputs[group].push(binding);
        }
        Ok(())
    }

    /// Returns the items from `first` on, each after its dependencies, otherwise in the original order.
    fn sorted(&self, first: usize, needs: &[Vec<usize>]) -> Result<Vec<Item<'b>>, PassError> {
        let mut sorted = Vec::with_capacity(needs.len());
        // For each item, true if its dependencies are being written; and true if it has been written.
        let (mut begun, mut done) = (vec![false; needs.len()], vec![false; needs.len()]);
        let mut work = Vec::new();
        for root in 0..needs.len() {
            work.push((root, 0));
            while let Some((item, at)) = work.pop() {
                if done[item] {
                    continue;
                }
                if at == 0 && std::mem::replace(&mut begun[item], true) {
                    return Err(self.circle(first + item));
                }
                match needs[item].get(at) {
                    Some(needed) => work.extend([(item, at + 1), (*needed, 0)]),
                    None => {
                        done[item] = true;
                        sorted.push(self.items[first + item]);
                    }
                }
            }
        }
        Ok(sorted)
    }

    fn circle(&self, item: usize) -> PassError {
        let value = match self.items[item] {
            Item::Binding(value) => value,
            Item::Group(group) => self.groups.groups[group].members[0],
        };
        let name = value.name().unwrap_or("_");
        let message =
            format!("the group of `{name}` uses a value that depends on the group, so it cannot become one call");
        PassError::new(message).at(value)
    }
}

/// Returns the bindings of a block that define symbolic variables, by the numbers of the variables: scalars, and match_casts that define
/// variables.
fn defined_by(block: Block<'_>) -> HashMap<u32, Value<'_>> {
    let (mut defined, mut mentioned) = (HashMap::new(), HashSet::new());
    if !block.bindings().any(|binding| binding.is_match_cast() || binding.symbol().is_some()) {
        return defined;
    }
    let first = block.header().index().unwrap_or(0);
    let before = (0..first).map(|at| block.header().sibling(at));
    before.for_each(|value| value.each_symbol(&mut |sym| _ = mentioned.insert(sym.id)));
    for binding in block.bindings() {
        let mut of_cast = Vec::new();
        if binding.is_match_cast() {
            binding.ty().to_owned().each_defined(&mut |sym| of_cast.push(sym.id));
        }
        let new = of_cast.into_iter().filter(|sym| !mentioned.contains(sym));
        defined.extend(new.map(|sym| (sym, binding)));
        defined.extend(binding.symbol().map(|sym| (sym.id, binding)));
        for part in binding.with_nested().into_iter().chain(binding.region().nodes()) {
            part.each_symbol(&mut |sym| _ = mentioned.insert(sym.id));
        }
    }
    defined
}

/// Returns the items in dependency cycles, and the items that depend on them.
fn stuck(needs: &[Vec<usize>]) -> Vec<usize> {
    let mut users = vec![Vec::new(); needs.len()];
    let mut missing: Vec<usize> = needs.iter().map(Vec::len).collect();
    for (item, needed) in needs.iter().enumerate() {
        needed.iter().for_each(|needed| users[*needed].push(item));
    }
    let mut ready: Vec<usize> = (0..needs.len()).filter(|item| missing[*item] == 0).collect();
    while let Some(item) = ready.pop() {
        for user in &users[item] {
            missing[*user] -= 1;
            if missing[*user] == 0 {
                ready.push(*user);
            }
        }
    }
    (0..needs.len()).filter(|item| missing[*item] > 0).collect()
}
