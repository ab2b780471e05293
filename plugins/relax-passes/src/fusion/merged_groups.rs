//! Which calls of composite functions are merged.

use plugin_api::prelude::*;
use std::collections::BTreeMap;

/// The groups of `main`: calls of composite functions of one compiler that no other group comes between.
///
/// # Errors
/// If a composite function does not say which compiler it is for.
pub(super) fn merged_groups<'b>(main: &'b Body, module: &'b Module) -> Result<Groups<'b>, PassError> {
    let tuples = TakenApart::of(main);
    let mut merging = Merging {
        module,
        tuples,
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
            members.entry(merging.root(member)).or_default().push(binding);
        }
        for (root, members) in members {
            if let Some(compiler) = merging.members[root].compiler {
                groups.add(members, &[("Codegen", compiler.into())]);
            }
        }
    }
    Ok(groups)
}

/// Union-find over groups. Each begins as one binding.
struct Merging<'b> {
    module: &'b Module,
    tuples: TakenApart<'b>,
    members: Vec<Member<'b>>,
    group_of: ValueMap<'b, usize>,
    /// The position of each binding, and what it is made of.
    places: ValueMap<'b, usize>,
    chains: Chains,
    /// Number of searches so far.
    searches: usize,
}

/// A group, as its root says it.
struct Member<'b> {
    parent: usize,
    compiler: Option<&'b str>,
    /// Groups that it needs.
    needs: Vec<usize>,
    /// Positions of its first and last binding.
    first: usize,
    last: usize,
    /// The last search that came across it.
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
            Expr::Alias(source) => self.group_of.get(source).copied(),
            Expr::TupleGet { tuple, .. } => self.of_all([tuple]).filter(|_| self.tuples.is_taken_apart(tuple)),
            Expr::Tuple(_) => self.of_all(binding.operands()).filter(|_| self.tuples.is_taken_apart(binding)),
            Expr::Call(call) => self.merge_arguments(call, &needs, &used_places)?,
            _ => None,
        };
        let group = group.unwrap_or_else(|| {
            let compiler = None;
            self.members.push(Member {
                parent: self.members.len(),
                compiler,
                needs: Vec::new(),
                first: at,
                last: at,
                seen: 0,
            });
            self.members.len() - 1
        });
        let group = self.root(group);
        if let Some(call) = binding.as_call() {
            self.members[group].compiler = compiler_of(call, self.module)?;
        }
        self.members[group].last = at;
        for needed in needs {
            let needed = self.root(needed);
            if needed != group && self.members[group].needs.last() != Some(&needed) {
                self.members[group].needs.push(needed);
            }
        }
        self.group_of.insert(binding, group);
        self.places.insert(binding, at);
        self.chains.add(used_places.into_iter().max());
        Ok(())
    }

    /// The group of a compiler that all of some values are in.
    fn of_all(&mut self, values: impl IntoIterator<Item = Value<'b>>) -> Option<usize> {
        let mut roots = Vec::new();
        for value in values {
            let group = self.group_of.get(value).copied()?;
            roots.push(self.root(group));
        }
        let first = *roots.first()?;
        let same = roots.iter().all(|root| *root == first);
        (same && self.members[first].compiler.is_some()).then_some(first)
    }

    /// The group that a call joins, with the other groups that it joins merged into it; `None` if it begins a new one.
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
            let root = self.root(group);
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

    /// Drops candidates that contain a value from which the latest argument of a call is computed. It is fast, and answers most
    /// of what [`Merging::drop_needed`] asks.
    fn drop_parts(&mut self, candidates: &mut Vec<usize>, groups: &[usize], places: &[usize]) {
        let Some(latest) = places.iter().copied().max() else { return };
        let used: Vec<(usize, usize)> = groups.iter().zip(places).map(|(group, at)| (self.root(*group), *at)).collect();
        let of_latest = used.iter().find(|(_, at)| *at == latest).map(|(root, _)| *root);
        let is_part = |root: usize| used.iter().any(|(of, at)| *of == root && self.chains.is_made_of(latest, *at));
        candidates.retain(|candidate| Some(*candidate) == of_latest || !is_part(*candidate));
    }

    /// Drops candidates that one of the groups needs: a call that joins them would need what needs it.
    fn drop_needed(&mut self, candidates: &mut Vec<usize>, groups: &[usize]) {
        let Some(earliest) = candidates.iter().map(|candidate| self.members[*candidate].first).min() else { return };
        let mut work: Vec<usize> = groups.iter().map(|group| self.root(*group)).collect();
        self.searches += 1;
        let mut needed: Vec<usize> = Vec::new();
        while let Some(group) = work.pop() {
            // No group needs itself, and what ends before the first candidate needs none of them.
            let asked = candidates.iter().any(|candidate| *candidate != group && !needed.contains(candidate));
            let member = &mut self.members[group];
            if !asked || member.last < earliest || std::mem::replace(&mut member.seen, self.searches) == self.searches {
                continue;
            }
            for at in 0..self.members[group].needs.len() {
                let below = self.root(self.members[group].needs[at]);
                if candidates.contains(&below) && !needed.contains(&below) {
                    needed.push(below);
                }
                work.push(below);
            }
        }
        candidates.retain(|candidate| !needed.contains(candidate));
    }

    fn merge(&mut self, from: usize, into: usize) {
        self.members[from].parent = into;
        let mut needs = std::mem::take(&mut self.members[from].needs);
        let (first, last) = (self.members[from].first, self.members[from].last);
        let target = &mut self.members[into];
        if needs.len() > target.needs.len() {
            std::mem::swap(&mut needs, &mut target.needs);
        }
        target.needs.append(&mut needs);
        (target.first, target.last) = (target.first.min(first), target.last.max(last));
    }

    fn root(&mut self, group: usize) -> usize {
        let mut root = group;
        while self.members[root].parent != root {
            root = self.members[root].parent;
        }
        let mut at = group;
        while self.members[at].parent != root {
            at = std::mem::replace(&mut self.members[at].parent, root);
        }
        root
    }
}

/// Chains of bindings, each after the latest of those that it uses.
#[derive(Default)]
struct Chains {
    links: Vec<Link>,
}

#[derive(Clone, Copy)]
struct Link {
    /// The latest binding that is used; at the start of a chain the binding itself.
    before: usize,
    depth: usize,
    /// One further up the chain, to get anywhere in a logarithmic number of steps.
    jump: usize,
}

impl Chains {
    fn add(&mut self, latest_used: Option<usize>) {
        let at = self.links.len();
        let Some(before) = latest_used else {
            return self.links.push(Link { before: at, depth: 0, jump: at });
        };
        let above = self.links[before];
        let further = self.links[above.jump];
        let even = above.depth - further.depth == further.depth - self.links[further.jump].depth;
        self.links.push(Link { before, depth: above.depth + 1, jump: if even { further.jump } else { before } });
    }

    /// Whether a chain leads from a binding up to an earlier one.
    fn is_made_of(&self, binding: usize, part: usize) -> bool {
        let mut at = binding;
        while at > part && self.links[at].depth > 0 {
            let link = self.links[at];
            at = if link.jump >= part { link.jump } else { link.before };
        }
        at == part
    }
}

/// Tuples of tensors of which nothing but elements is used, under any name.
struct TakenApart<'b> {
    /// What each other name is a name of.
    origins: ValueMap<'b, Value<'b>>,
    whole: ValueSet<'b>,
    taken: ValueSet<'b>,
}

impl<'b> TakenApart<'b> {
    fn of(body: &'b Body) -> TakenApart<'b> {
        let (origins, whole, taken) = (ValueMap::new(body), ValueSet::new(body), ValueSet::new(body));
        let mut tuples = TakenApart { origins, whole, taken };
        for user in body.values() {
            for operand in user.operands().filter(|operand| operand.ty().is_tuple()) {
                let origin = tuples.origin(operand);
                match user.view() {
                    Expr::Alias(_) if user.is_binding() => drop(tuples.origins.insert(user, origin)),
                    Expr::TupleGet { .. } => tuples.taken.extend([origin]),
                    _ => tuples.whole.extend([origin]),
                }
            }
        }
        tuples
    }

    fn origin(&self, value: Value<'b>) -> Value<'b> {
        self.origins.get(value).copied().unwrap_or(value)
    }

    fn is_taken_apart(&self, tuple: Value<'b>) -> bool {
        let origin = self.origin(tuple);
        let flat = tuple.ty().children().all(|field| field.is_tensor());
        flat && self.taken.contains(origin) && !self.whole.contains(origin)
    }
}

/// The compiler of the composite function that a call calls.
fn compiler_of<'b>(call: Call<'b>, module: &'b Module) -> Result<Option<&'b str>, PassError> {
    let callee = call.global().and_then(|name| module.get(name));
    let Some(mark) = callee.and_then(|body| body.root().attr("Composite")?.as_str()) else { return Ok(None) };
    match mark.split_once('.') {
        Some((compiler, _)) => Ok(Some(compiler)),
        None => {
            bail!(at call.value(), "the mark `Composite` is `{mark}`; write the compiler first, as in `acme.{mark}`")
        }
    }
}
