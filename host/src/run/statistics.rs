//! What passes count by name.

/// A counter of a pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statistic {
    /// Full name of the pass, or of the instrument that counted.
    pub pass: String,
    /// Name of the counter.
    pub name: String,
    /// What was added up.
    pub sum: u64,
}

/// Adds to a counter of the list; one that is not there yet comes to its end.
pub(super) fn add(list: &mut Vec<Statistic>, pass: &str, name: &str, n: u64) {
    match list.iter_mut().find(|counter| counter.pass == pass && counter.name == name) {
        Some(counter) => counter.sum = counter.sum.saturating_add(n),
        None => list.push(Statistic { pass: pass.to_string(), name: name.to_string(), sum: n }),
    }
}

/// Each counter once, in the order in which they come first.
pub(super) fn summed(counted: Vec<Statistic>) -> Vec<Statistic> {
    let mut list = Vec::new();
    for Statistic { pass, name, sum } in counted {
        add(&mut list, &pass, &name, sum);
    }
    list
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
