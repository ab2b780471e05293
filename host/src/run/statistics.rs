//! The named counters of passes.

use crate::report::said::Statistic;
use std::collections::HashMap;

/// Counters without duplicates, in the order of their first use.
#[derive(Default)]
pub(super) struct Counters {
    list: Vec<Statistic>,
    /// The position of each counter in the list, by pass and name.
    places: HashMap<String, HashMap<String, usize>>,
}

impl Counters {
    /// Adds to a counter. New counters are appended to the list.
    pub(super) fn add(&mut self, pass: &str, name: &str, n: u64) {
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

    /// Returns all counters.
    pub(super) fn into_list(self) -> Vec<Statistic> {
        self.list
    }
}

/// Sums counters of the same pass and name, in the order of their first use.
pub(super) fn summed(counted: Vec<Statistic>) -> Vec<Statistic> {
    let mut counters = Counters::default();
    counted.iter().for_each(|Statistic { pass, name, sum }| counters.add(pass, name, *sum));
    counters.into_list()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_summed_in_the_order_of_their_first_mention() {
        let one = |pass: &str, name: &str, sum| Statistic { pass: pass.into(), name: name.into(), sum };
        let counted =
            vec![one("b", "y", 1), one("a", "y", 2), one("b", "x", 0), one("b", "y", u64::MAX), one("a", "y", 3)];
        assert_eq!(summed(counted), [one("b", "y", u64::MAX), one("a", "y", 5), one("b", "x", 0)]);
    }
}
