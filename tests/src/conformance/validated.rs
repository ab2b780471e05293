//! Validates recorded pass runs: parses the module before the pass, runs the pass as recorded, and compares the values.

use super::modules::read;
use super::passes::{PassCase, full_name, replay};
use super::{Failure, guarded};
use crate::validation::{self, Tally};
use passhost::run::validate::{ChangedSteps, Verdict};
use passhost::{Engine, Instrument};
use std::sync::Arc;

/// The seed of all inputs.
const SEED: u64 = 1;

/// Validates one run; returns the verdict on the pass, or the reason why it did not run.
///
/// # Errors
/// If the module cannot be parsed, or the pass does not run or fails.
pub fn run(case: &PassCase, engine: &Arc<Engine>) -> Result<Verdict, Failure> {
    guarded(|| {
        let (before, _) = read("before not read", &case.before, engine)?;
        let steps = ChangedSteps::default();
        let seen_by = Instrument::new("validate", steps.instrument(engine.registry()));
        replay(case, before, engine, Some(seen_by))?.map_err(|why| Failure::new("raised", why))?;
        let (steps, pass) = (steps.take(), full_name(case));
        // A composite pass appears as its members.
        let of_case = |at: usize| steps[at].pass == pass || steps.iter().all(|step| step.pass != pass);
        let mut worst = Verdict::Unchanged;
        for step in (0..steps.len()).filter(|at| of_case(*at)) {
            let verdict = validation::verdict(engine, &steps[step], SEED);
            if badness(&verdict) > badness(&worst) {
                worst = verdict;
            }
        }
        Ok(worst)
    })
}

fn badness(verdict: &Verdict) -> u8 {
    match verdict {
        Verdict::Unchanged => 0,
        Verdict::Same(_) => 1,
        Verdict::NotValidated { .. } => 2,
        _ => 3,
    }
}

/// Counts all verdicts; returns true if no pass is blamed, and the text.
pub fn report(verdicts: Vec<(&PassCase, Result<Verdict, Failure>)>) -> (bool, String) {
    let mut tally = Tally::default();
    let mut not_run = std::collections::BTreeMap::<&str, usize>::new();
    for (case, verdict) in verdicts {
        match verdict {
            Ok(verdict) => tally.add(&format!("{} of {}", case.pass, case.id), verdict),
            Err(failure) if failure.kind == "panicked" => tally.blame(&case.id, &failure.why),
            // TVM's passes raise errors, too.
            Err(failure) => *not_run.entry(failure.kind).or_default() += 1,
        }
    }
    let mut text = tally.to_string();
    not_run.iter().for_each(|(kind, n)| text.push_str(&format!("{n} runs without a result: {kind}\n")));
    (tally.blamed.is_empty(), text)
}
