//! Chooses names for lifted functions.

use plugin_api::names::FreshNames;
use plugin_api::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// The path of a nested function: the names of the enclosing functions, outermost first, followed by its own name.
struct Nested {
    path: Vec<String>,
    name: Option<String>,
}

/// Returns, for each function with nested functions, their names in the module, in program order.
///
/// A name is built from the names of the outermost function and the nested function. If another function has that
/// name, the names of all enclosing functions are used; if that is not unique either, a number is added.
pub(super) fn names_of(module: &Module) -> BTreeMap<String, Vec<String>> {
    let mut all: BTreeMap<String, Vec<Nested>> = BTreeMap::new();
    for (name, body) in module.functions() {
        let nested = nested_in(name, body);
        if !nested.is_empty() {
            all.insert(name.to_string(), nested);
        }
    }
    let mut taken: BTreeSet<String> = module.functions().map(|(name, _)| name.to_string()).collect();
    let short = |path: &[String]| match path {
        [first, .., last] => format!("{first}_{last}"),
        _ => path.concat(),
    };
    choose(&mut all, &mut taken, |path| Some(short(path)));
    choose(&mut all, &mut taken, |path| (path.len() > 2).then(|| path.join("_")));
    let mut used: BTreeMap<String, usize> = BTreeMap::new();
    choose(&mut all, &mut taken, |path| {
        let n = used.entry(short(path)).or_default();
        *n += 1;
        Some(format!("{}_{}", short(path), *n - 1))
    });
    let mut fresh = FreshNames::new(taken.iter().map(String::as_str));
    let named = all.into_iter().map(|(outer, nested)| {
        let names = nested.into_iter().map(|nested| nested.name.unwrap_or_else(|| fresh.fresh(&short(&nested.path))));
        (outer, names.collect())
    });
    named.collect()
}

/// Names each unnamed function for which `propose` returns a name that no other function or proposal has.
fn choose(
    all: &mut BTreeMap<String, Vec<Nested>>,
    taken: &mut BTreeSet<String>,
    mut propose: impl FnMut(&[String]) -> Option<String>,
) {
    let mut proposals: BTreeMap<String, Vec<&mut Nested>> = BTreeMap::new();
    for nested in all.values_mut().flatten().filter(|nested| nested.name.is_none()) {
        if let Some(name) = propose(&nested.path).filter(|name| !taken.contains(name)) {
            proposals.entry(name).or_default().push(nested);
        }
    }
    for (name, proposed) in proposals {
        if let [only] = proposed.into_iter().collect::<Vec<_>>().as_mut_slice() {
            only.name = Some(name.clone());
            taken.insert(name);
        }
    }
}

/// Returns the functions nested in one function, in program order.
fn nested_in(name: &str, body: &Body) -> Vec<Nested> {
    let (mut open, mut found) = (vec![(body.root(), name.to_string())], Vec::new());
    for value in body.values().skip(1).filter(|value| value.as_function().is_some()) {
        while open.len() > 1 && open.last().is_some_and(|(around, _)| !around.region().contains(value)) {
            open.pop();
        }
        open.push((value, value.name().unwrap_or("lambda").to_string()));
        found.push(Nested { path: open.iter().map(|(_, name)| name.clone()).collect(), name: None });
    }
    found
}
