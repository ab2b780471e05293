//! Conditions on the counters of a run: `acme.GroupConvolutions.groups formed >= 8`.

use super::error::Error;
use super::said::Statistic;
use passhost_lang::names::{did_you_mean, listed, nearest};
use registry::{InstrumentId, PassId, Registry};
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::fmt;

/// A comparison of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    AtLeast,
    AtMost,
    Equal,
    NotEqual,
    MoreThan,
    LessThan,
}

/// The comparison signs. A sign that begins with another sign comes before it, such as `<=` before `<`.
const COMPARISONS: [(&str, Comparison); 7] = [
    (">=", Comparison::AtLeast),
    ("<=", Comparison::AtMost),
    ("!=", Comparison::NotEqual),
    ("==", Comparison::Equal),
    ("=", Comparison::Equal),
    (">", Comparison::MoreThan),
    ("<", Comparison::LessThan),
];

/// Characters of the signs.
const SIGNS: [char; 4] = ['>', '<', '=', '!'];

/// A source of counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A pass.
    Pass(PassId),
    /// An instrument. The counters of instances with different options in one run are summed.
    Instrument(InstrumentId),
}

impl Source {
    fn find(name: &str, registry: &Registry) -> Option<Source> {
        let instrument = || registry.find_instrument(name).ok().filter(|id| registry.instrument(*id).name == name);
        registry.find_full(name).map(Source::Pass).or_else(|| instrument().map(Source::Instrument))
    }

    fn name(self, registry: &Registry) -> &str {
        match self {
            Source::Pass(pass) => &registry.pass(pass).name,
            Source::Instrument(instrument) => &registry.instrument(instrument).name,
        }
    }

    fn is_composite(self, registry: &Registry) -> bool {
        matches!(self, Source::Pass(pass) if registry.members(pass).is_some())
    }

    /// Returns true if the counter belongs to this source and is named `name`. The options of an instrument follow its
    /// name in braces.
    fn counted(self, statistic: &Statistic, name: &str) -> bool {
        let options = statistic.pass.strip_prefix(name);
        options.is_some_and(|rest| rest.is_empty() || matches!(self, Source::Instrument(_)) && rest.starts_with('{'))
    }
}

/// A condition on a counter of a pass or instrument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expectation {
    /// Full name of the pass or instrument, a dot, and the name of the counter.
    counter: String,
    comparison: Comparison,
    number: u64,
}

impl Expectation {
    /// Parses `acme.GroupConvolutions.groups formed >= 8`.
    ///
    /// ```
    /// use passhost::Expectation;
    ///
    /// let formed = Expectation::parse("acme.GroupConvolutions.groups formed>=8")?;
    /// assert_eq!(formed.to_string(), "acme.GroupConvolutions.groups formed >= 8");
    /// assert!(Expectation::parse("acme.GroupConvolutions.groups formed").is_err());
    /// # Ok::<(), passhost::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the text does not end with a comparison and a number.
    pub fn parse(text: &str) -> Result<Expectation, Error> {
        // The name of a counter can contain these characters, too.
        let Some(last) = text.rfind(SIGNS) else { return Err(wrong(text)) };
        let at = if text[..last].ends_with(SIGNS) { last - 1 } else { last };
        Expectation::of(&text[..at], &text[at..])
    }

    /// Creates the condition that a counter satisfies `bound`: `>= 8`, or `8` for equality.
    ///
    /// # Errors
    /// If `bound` is not a comparison with a number.
    pub fn of(counter: &str, bound: &str) -> Result<Expectation, Error> {
        let bound = bound.trim();
        let find = COMPARISONS.iter().find_map(|(text, comparison)| Some((*comparison, bound.strip_prefix(text)?)));
        let (comparison, number) = find.unwrap_or((Comparison::Equal, bound));
        let number = number.trim().parse().map_err(|_| wrong(&format!("{} {bound}", counter.trim())))?;
        Ok(Expectation { counter: counter.trim().to_string(), comparison, number })
    }

    /// Returns the full name of the pass or instrument, a dot, and the name of the counter.
    pub fn counter(&self) -> &str {
        &self.counter
    }

    /// Returns the pass or instrument that counts, and the name of the counter.
    ///
    /// # Errors
    /// If the counter does not name a pass or instrument of the registry, or names a composite pass, whose members count instead.
    pub fn source(&self, registry: &Registry) -> Result<(Source, &str), Error> {
        let dots = self.counter.match_indices('.').map(|(at, _)| at).rev();
        let mut split = dots.map(|at| (&self.counter[..at], &self.counter[at + 1..]));
        let found = split.find_map(|(name, counter)| Some((Source::find(name, registry)?, counter)));
        let (source, counter) = found.ok_or_else(|| self.of_nothing(registry))?;
        if source.is_composite(registry) {
            let message = format!(
                "expectation `{self}`: `{}` is a composite pass, which does not count anything itself",
                source.name(registry)
            );
            return Err(Error::Request { message, help: "use the name of one of its members".to_string() });
        }
        Ok((source, counter))
    }

    /// Builds the error about a counter that does not begin with a name in the registry.
    fn of_nothing(&self, registry: &Registry) -> Error {
        let name = self.counter.rsplit_once('.').map_or(self.counter.as_str(), |(name, _)| name);
        let passes = registry.passes().map(|(_, info)| info.name.as_str());
        let near = nearest(name, passes.chain(registry.instruments().map(|(_, info)| info.name.as_str())));
        let message = format!(
            "expectation `{self}`: it does not start with the name of a pass or an instrument{}",
            did_you_mean(&near)
        );
        let help = "write the full name of a pass or an instrument, a dot, and the name of a counter; `passhost list` shows all passes and \
                    instruments";
        Error::Request { message, help: help.to_string() }
    }

    /// Checks that the counter is as expected. A counter that was never incremented is 0, unless its name resembles that of an existing
    /// counter.
    ///
    /// # Errors
    /// If the count does not meet the condition; the error contains the count.
    pub fn check(&self, counted: &[Statistic], registry: &Registry) -> Result<(), Error> {
        let (source, counter) = self.source(registry)?;
        let name = source.name(registry);
        let all: Vec<&Statistic> = counted.iter().filter(|statistic| source.counted(statistic, name)).collect();
        let found = || all.iter().filter(|statistic| statistic.name == counter);
        let sum = found().fold(0, |sum: u64, statistic| sum.saturating_add(statistic.sum));
        let near = match found().next() {
            Some(_) => Vec::new(),
            None => nearest(counter, all.iter().map(|statistic| statistic.name.as_str())),
        };
        if self.holds(sum) && near.is_empty() {
            return Ok(());
        }
        let names: BTreeSet<String> = all.iter().map(|statistic| format!("`{}`", statistic.name)).collect();
        let names: Vec<String> = names.into_iter().collect();
        let help = match (found().next(), names.as_slice(), source) {
            (Some(_), ..) => "use `--statistics` to show all counters".to_string(),
            (None, [], Source::Pass(_)) => {
                format!("`{name}` does not have counters in this run: it is not in the pipeline, or counts nothing")
            }
            (None, [], Source::Instrument(_)) => {
                format!("`{name}` does not have counters in this run; use `--instrument {name}` to add it")
            }
            (None, names, _) => format!("`{name}` counted {}, but not `{counter}`", listed(names)),
        };
        let (expected, meant) = (self.bound(), did_you_mean(&near));
        let message = match self.holds(sum) {
            // For a counter that does not exist, an upper limit always holds.
            true => format!("`{name}` does not have a counter `{counter}`, expected {expected}{meant}"),
            false => format!("`{name}` counted {sum} for `{counter}`, expected {expected}{meant}"),
        };
        Err(Error::Unmet { message, help })
    }

    fn holds(&self, sum: u64) -> bool {
        let order = sum.cmp(&self.number);
        match self.comparison {
            Comparison::AtLeast => order != Ordering::Less,
            Comparison::AtMost => order != Ordering::Greater,
            Comparison::Equal => order == Ordering::Equal,
            Comparison::NotEqual => order != Ordering::Equal,
            Comparison::MoreThan => order == Ordering::Greater,
            Comparison::LessThan => order == Ordering::Less,
        }
    }

    fn bound(&self) -> String {
        let text = COMPARISONS.iter().find(|(_, comparison)| *comparison == self.comparison);
        format!("{} {}", text.map_or("==", |(text, _)| text), self.number)
    }
}

/// Formats the expectation in the form that is parsed.
impl fmt::Display for Expectation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.counter, self.bound())
    }
}

fn wrong(text: &str) -> Error {
    Error::Request {
        message: format!("expectation `{text}` does not compare a counter with a number"),
        help: "write, for example, 'acme.GroupConvolutions.groups formed>=8'".to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_comparison_holds_where_it_should() {
        for (text, holds) in [
            (">=2", [false, true, true]),
            ("<= 2", [true, true, false]),
            ("== 2", [false, true, false]),
            ("=2", [false, true, false]),
            ("2", [false, true, false]),
            ("!=2", [true, false, true]),
            ("> 2", [false, false, true]),
            ("<2", [true, false, false]),
        ] {
            let expectation = Expectation::of("a.B.things", text).expect("a comparison");
            assert_eq!([1, 2, 3].map(|sum| expectation.holds(sum)), holds, "{text}");
        }
    }

    #[test]
    fn what_compares_nothing_is_refused() {
        assert_eq!(Expectation::parse("a.B.loops >= 4 >= 2").expect("a comparison").counter(), "a.B.loops >= 4");
        for text in ["", "a.B.things", "a.B.things >=", "a.B.things >= many", "a.B.things >= -1", "a.B.things ! 3"] {
            assert!(Expectation::parse(text).is_err(), "{text}");
        }
    }
}
