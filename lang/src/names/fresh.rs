//! Generates unused names.

use std::collections::{BTreeMap, BTreeSet};

/// A set of used names that generates unused names: `hint`, or `hint1`, `hint2`…, as TVM numbers the functions that its passes
/// create.
///
/// ```
/// use plugin_api::names::FreshNames;
///
/// let mut names = FreshNames::new(["main", "add"]);
/// assert_eq!(names.fresh("add"), "add1");
/// assert_eq!(names.fresh("add"), "add2");
/// assert_eq!(names.fresh("relu"), "relu");
/// assert!(!names.reserve("relu"));
/// ```
#[derive(Clone, Debug, Default)]
pub struct FreshNames {
    taken: BTreeSet<String>,
    /// The last number tried for each hint.
    last: BTreeMap<String, usize>,
}

impl FreshNames {
    /// Creates the set from names in use.
    pub fn new<N: Into<String>>(taken: impl IntoIterator<Item = N>) -> FreshNames {
        FreshNames { taken: taken.into_iter().map(Into::into).collect(), last: BTreeMap::new() }
    }

    /// Reserves a name; returns `false` if it is already in use.
    pub fn reserve(&mut self, name: &str) -> bool {
        self.taken.insert(name.to_string())
    }

    /// Reserves and returns the first unused name for a hint.
    pub fn fresh(&mut self, hint: &str) -> String {
        let mut name = hint.to_string();
        while !self.taken.insert(name.clone()) {
            let last = self.last.entry(hint.to_string()).or_default();
            *last += 1;
            name = format!("{hint}{last}");
        }
        name
    }
}
