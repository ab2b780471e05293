//! Names that are not taken yet.

use std::collections::{BTreeMap, BTreeSet};

/// Names that are taken, and new ones: `hint`, or `hint1`, `hint2`…, as TVM numbers the functions that its passes make.
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
    /// For each hint the last number that was tried.
    last: BTreeMap<String, usize>,
}

impl FreshNames {
    /// With these names taken.
    pub fn new<N: Into<String>>(taken: impl IntoIterator<Item = N>) -> FreshNames {
        FreshNames { taken: taken.into_iter().map(Into::into).collect(), last: BTreeMap::new() }
    }

    /// Takes a name; `false` if it is taken already.
    pub fn reserve(&mut self, name: &str) -> bool {
        self.taken.insert(name.to_string())
    }

    /// Takes the first name for a hint that is not taken.
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
