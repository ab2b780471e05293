//! The named counters of passes.

use crate::report::said::Statistic;
use std::collections::HashMap;

/// Counters in the order of their first use. Counts added after a mark can be undone.
#[derive(Default)]
pub(in crate::run) struct Counters {
    list: Vec<Statistic>,
    /// The position of each counter since the last mark, by pass and name.
    places: HashMap<String, HashMap<String, usize>>,
}

impl Counters {
    /// Adds to a counter. New counters are appended to the list.
    pub(in crate::run) fn add(&mut self, pass: &str, name: &str, n: u64) {
        let known = self.places.get(pass).and_then(|names| names.get(name));
        match known.and_then(|at| self.list.get_mut(*at)) {
            Some(counter) => counter.sum = counter.sum.saturating_add(n),
            None => {
                let (pass, name) = (pass.to_string(), name.to_string());
                self.places.entry(pass.clone()).or_default().insert(name.clone(), self.list.len());
                self.list.push(Statistic { pass, name, sum: n });
            }
        }
    }

    /// Adds the counters of another thread.
    pub(in crate::run) fn extend(&mut self, others: Counters) {
        others.list.iter().for_each(|Statistic { pass, name, sum }| self.add(pass, name, *sum));
    }

    /// Returns a mark for [`Counters::back_to`].
    pub(in crate::run) fn mark(&mut self) -> usize {
        self.places.clear();
        self.list.len()
    }

    /// Drops the counts that were added after a mark.
    pub(in crate::run) fn back_to(&mut self, mark: usize) {
        self.places.clear();
        self.list.truncate(mark);
    }

    /// Returns the sums, in the order of their first use.
    pub(in crate::run) fn sums(self) -> Vec<Statistic> {
        let mut sums = Counters::default();
        sums.extend(self);
        sums.list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_summed_in_the_order_of_their_first_mention() {
        let one = |pass: &str, name: &str, sum| Statistic { pass: pass.into(), name: name.into(), sum };
        let mut counted = Counters::default();
        counted.add("b", "y", 1);
        counted.mark();
        counted.add("a", "y", 2);
        let mark = counted.mark();
        counted.add("a", "y", 7);
        counted.add("c", "y", 7);
        counted.back_to(mark);
        for (pass, name, n) in [("b", "x", 0), ("b", "y", u64::MAX), ("a", "y", 3)] {
            counted.add(pass, name, n);
        }
        assert_eq!(counted.sums(), [one("b", "y", u64::MAX), one("a", "y", 5), one("b", "x", 0)]);
    }
}
