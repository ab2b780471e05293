//! Limits how much output of a plugin is accepted: diagnostics, log events, spans, statistics and modules to show.

use crate::plugins::amounts::amount;
use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Maximum number of bytes in one call of a worker, and in one run of all workers of a plugin. Diagnostics that a person could read are far
/// shorter.
const CALL: u64 = 16 << 20;
const RUN: u64 = 64 << 20;

/// Bytes of memory that the host needs for a message besides the bytes of the message.
const EACH: u64 = 256;

/// Maximum number of statistic names of a plugin. Counting an existing statistic takes no memory.
const NAMES: usize = 10_000;
const LONGEST_NAME: usize = 1_000;

/// Maximum length of an error that is accepted beyond the limits, once per call, because an error makes its step fail.
const ERROR: usize = 1_000;

/// The amount of output of all workers of one plugin.
#[derive(Debug, Default)]
pub(crate) struct Talk(Mutex<Told>);

#[derive(Debug, Default)]
struct Told {
    run: u64,
    in_run: u64,
    in_call: u64,
    /// True if an error was accepted beyond the limits in this call.
    erred: bool,
    names: HashSet<String>,
    /// True if some statistic was not counted.
    full: bool,
}

/// The decision on a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    Yes,
    No,
    /// The message is dropped, as are all later messages of this call or run. The text is the warning to print.
    Last(String),
}

fn last(what: &str, most: u64) -> Heard {
    Heard::Last(format!("reported more than {} in one {what}; the rest is not shown", amount(most)))
}

impl Talk {
    fn told(&self) -> MutexGuard<'_, Told> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a call in the run whose number is `run`.
    pub(super) fn begin_call(&self, run: u64) {
        let mut told = self.told();
        if told.run != run {
            *told = Told { run, ..Told::default() };
        }
        (told.in_call, told.erred) = (0, false);
    }

    /// Decides whether a message of `bytes` bytes is accepted.
    pub(super) fn hears(&self, bytes: u64) -> Heard {
        let mut told = self.told();
        let cost = bytes.saturating_add(EACH);
        let (call, run) = (told.in_call, told.in_run);
        if call > CALL || run > RUN {
            return Heard::No;
        }
        (told.in_call, told.in_run) = (call.saturating_add(cost), run.saturating_add(cost));
        match (told.in_run > RUN, told.in_call > CALL) {
            (true, _) => last("run", RUN),
            (_, true) => last("call", CALL),
            _ => Heard::Yes,
        }
    }

    /// Returns the part of an error that is accepted beyond the limits; `None` if this call already had such an error.
    pub(super) fn hears_error<'m>(&self, message: &'m str) -> Option<&'m str> {
        let first = !std::mem::replace(&mut self.told().erred, true);
        first.then(|| &message[..message.floor_char_boundary(ERROR)])
    }

    /// Decides whether a statistic named `name` is counted.
    pub(super) fn counts(&self, name: &str) -> Heard {
        let mut told = self.told();
        if told.names.contains(name) {
            return Heard::Yes;
        }
        if told.names.len() < NAMES && name.len() <= LONGEST_NAME {
            told.names.insert(name.to_string());
            return Heard::Yes;
        }
        match std::mem::replace(&mut told.full, true) {
            true => Heard::No,
            false => Heard::Last(format!(
                "has more than {NAMES} statistics, or one with a name of more than {LONGEST_NAME} bytes; these are not shown"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_and_a_run_have_their_limits() {
        let talk = Talk::default();
        let mut calls = 0;
        loop {
            talk.begin_call(1);
            calls += 1;
            assert_eq!(talk.hears(CALL / 2), Heard::Yes, "call {calls}");
            let beyond = talk.hears(CALL);
            assert_eq!(talk.hears(0), Heard::No);
            match beyond {
                call if call == last("call", CALL) => {}
                other => break assert_eq!(other, last("run", RUN)),
            }
        }
        assert_eq!(calls, 3);
        talk.begin_call(1);
        assert_eq!(talk.hears(0), Heard::No, "the run has its limit in later calls, too");
        talk.begin_call(2);
        assert_eq!(talk.hears(0), Heard::Yes);
    }

    #[test]
    fn many_small_messages_and_huge_ones_come_to_an_end() {
        let talk = Talk::default();
        let heard = (0..1_000_000).filter(|_| talk.hears(0) == Heard::Yes).count();
        assert_eq!(heard as u64, CALL / EACH);
        assert!(matches!(Talk::default().hears(u64::MAX), Heard::Last(_)));
    }

    #[test]
    fn one_error_is_heard_after_too_much() {
        let talk = Talk::default();
        let long = "\u{e4}".repeat(ERROR);
        assert_eq!(talk.hears_error(&long).map(str::len), Some(ERROR));
        assert_eq!(talk.hears_error("second"), None);
        talk.begin_call(0);
        assert_eq!(talk.hears_error("short"), Some("short"));
    }

    #[test]
    fn names_of_statistics_are_few_and_short() {
        let talk = Talk::default();
        let counted = (0..2 * NAMES).filter(|at| talk.counts(&at.to_string()) == Heard::Yes).count();
        assert_eq!(counted, NAMES);
        assert_eq!((talk.counts("0"), talk.counts("new")), (Heard::Yes, Heard::No));
        assert!(matches!(Talk::default().counts(&"n".repeat(LONGEST_NAME + 1)), Heard::Last(_)));
    }
}
