//! Tracks the names in use in the scopes of a TIR function, and the lowest free number for a repeated name.

use foldhash::fast::RandomState;
use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, HashSet};

/// The names in use.
#[derive(Default)]
pub(super) struct Taken<'b> {
    names: HashSet<Cow<'b, str>, RandomState>,
    /// The names in order of assignment.
    log: Vec<Cow<'b, str>>,
    /// For names that were requested again, the numbers of `name_1`, `name_2`, …
    numbers: HashMap<Cow<'b, str>, Numbers, RandomState>,
}

/// The numbers of one name.
#[derive(Default)]
struct Numbers {
    /// Greatest number looked up.
    known: u32,
    /// The free numbers among those looked up.
    free: BTreeSet<u32>,
}

impl<'b> Taken<'b> {
    /// Reserves a word permanently.
    pub(super) fn reserve(&mut self, word: &'static str) {
        self.names.insert(Cow::Borrowed(word));
    }

    /// Takes a name: the hint if it is free, otherwise the hint with the lowest free number.
    pub(super) fn fresh(&mut self, hint: Cow<'b, str>) -> Cow<'b, str> {
        let name = if self.names.contains(&hint) { Cow::Owned(self.numbered(hint)) } else { hint };
        if let Some((numbers, number)) = self.numbers_of(&name) {
            numbers.free.remove(&number);
        }
        self.names.insert(name.clone());
        self.log.push(name.clone());
        name
    }

    /// Returns a name with the lowest free number. Each number is looked up only once.
    fn numbered(&mut self, hint: Cow<'b, str>) -> String {
        let with = |number: u32| format!("{hint}_{number}");
        let numbers = self.numbers.entry(hint.clone()).or_default();
        if let Some(lowest) = numbers.free.first() {
            return with(*lowest);
        }
        loop {
            numbers.known += 1;
            let name = with(numbers.known);
            if !self.names.contains(name.as_str()) {
                return name;
            }
        }
    }

    /// Returns the number set of a numbered name, if its number was looked up.
    fn numbers_of(&mut self, name: &str) -> Option<(&mut Numbers, u32)> {
        if !name.ends_with(|last: char| last.is_ascii_digit()) || self.numbers.is_empty() {
            return None;
        }
        let (hint, number) = name.rsplit_once('_')?;
        let is_numbered = !number.starts_with('0') && number.bytes().all(|digit| digit.is_ascii_digit());
        let number: u32 = Some(number).filter(|_| is_numbered)?.parse().ok()?;
        let numbers = self.numbers.get_mut(hint)?;
        (number <= numbers.known).then_some((numbers, number))
    }

    /// Returns the number of assigned names.
    pub(super) fn mark(&self) -> usize {
        self.log.len()
    }

    /// Releases the names assigned since a mark.
    pub(super) fn release(&mut self, mark: usize) {
        for name in self.log.split_off(mark) {
            self.names.remove(&name);
            if let Some((numbers, number)) = self.numbers_of(&name) {
                numbers.free.insert(number);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Finds the lowest free number by trying all numbers.
    fn lowest(taken: &Taken<'_>, hint: &str) -> String {
        let mut all = std::iter::once(hint.to_string()).chain((1..).map(|number| format!("{hint}_{number}")));
        all.find(|name| !taken.names.contains(name.as_str())).expect("a free name")
    }

    #[test]
    fn a_name_has_the_lowest_free_number() {
        // Uses names of every kind, in scopes that open and close.
        let (mut taken, mut marks, mut state) = (Taken::default(), Vec::new(), 1u64);
        for _ in 0..20_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let of = |n: u64| (state >> 40) % n;
            match (of(5), marks.last()) {
                (0, _) => marks.push(taken.mark()),
                (1 | 2, Some(mark)) if of(3) == 0 => {
                    taken.release(*mark);
                    marks.pop();
                }
                _ => {
                    let hint = ["a", "b", "a_1", "a_3", "a_1_1", "a_01", "b_12", "a_4294967296"][of(8) as usize];
                    let expected = lowest(&taken, hint);
                    assert_eq!(taken.fresh(Cow::Borrowed(hint)), expected);
                }
            }
            if taken.mark() > 60 {
                taken.release(0);
                marks.clear();
            }
        }
    }

    #[test]
    fn each_number_is_looked_up_once() {
        let known = |taken: &Taken<'_>| taken.numbers.values().map(|numbers| u64::from(numbers.known)).sum::<u64>();
        let mut taken = Taken::default();
        for _ in 0..10_000 {
            taken.fresh(Cow::Borrowed("a"));
        }
        assert_eq!(known(&taken), 9_999);
        // After scopes close, nothing is looked up again.
        for _ in 0..10_000 {
            let mark = taken.mark();
            assert_eq!(
                (taken.fresh(Cow::Borrowed("a")), taken.fresh(Cow::Borrowed("a"))),
                ("a_10000".into(), "a_10001".into())
            );
            taken.release(mark);
        }
        assert_eq!(known(&taken), 10_001);
    }
}
