//! Changes records of bodies at random, as a faulty pass could: every body that verifies must print as a text that
//! parses to the same module.

use super::sections::{Rng, forged};
use crate::generate::{Choices, bytes_of, module};
use passhost::verify::{is_plain_prim_func, verify_changed};
use plugin_api::ir::BodyKind;
use plugin_api::prelude::*;
use script::Operators;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Number of changes that are made to one module before the next module is used.
const USES: u64 = 128;
/// Number of choice bytes of the longest module.
const LONGEST: usize = 260;

/// The outcome of one change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The records are not a valid body.
    Refused,
    /// The body does not verify, for this reason.
    Violation(String),
    /// The body verifies and equals its parsed text.
    Good {
        /// True if verification can establish this for a PrimFunc without parsing its text.
        plain: bool,
    },
    /// The body verifies but differs from its parsed text.
    Bad(Finding),
}

/// A failure of the tested property.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// The body cannot be printed, or its text cannot be parsed, for this reason.
    Unreadable(String),
    /// The text parses to a different module; the string describes the difference.
    OtherModule(String),
    /// Some code panicked.
    Panic(String),
}

/// Counts of changes by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Number of changes.
    pub tried: u64,
    /// Number of changes that resulted in a body.
    pub sealed: u64,
    /// Bodies that verify.
    pub verified: u64,
    /// Verified PrimFuncs of the usual form, which verification does not parse again.
    pub plain: u64,
    /// Number of bodies without a readable text.
    pub unreadable: u64,
    /// Number of texts that parse to a different module.
    pub other_module: u64,
    /// Number of panics.
    pub panics: u64,
}

impl Counts {
    /// Counts an outcome.
    pub fn add(&mut self, outcome: &Outcome) {
        self.tried += 1;
        self.sealed += u64::from(!matches!(outcome, Outcome::Refused));
        self.verified += u64::from(matches!(outcome, Outcome::Good { .. } | Outcome::Bad(_)));
        self.plain += u64::from(matches!(outcome, Outcome::Good { plain: true }));
        match outcome {
            Outcome::Bad(Finding::Unreadable(_)) => self.unreadable += 1,
            Outcome::Bad(Finding::OtherModule(_)) => self.other_module += 1,
            Outcome::Bad(Finding::Panic(_)) => self.panics += 1,
            _ => {}
        }
    }

    /// Returns the sum of both.
    pub fn plus(&self, other: &Counts) -> Counts {
        Counts {
            tried: self.tried + other.tried,
            sealed: self.sealed + other.sealed,
            verified: self.verified + other.verified,
            plain: self.plain + other.plain,
            unreadable: self.unreadable + other.unreadable,
            other_module: self.other_module + other.other_module,
            panics: self.panics + other.panics,
        }
    }
}

/// A source of changes; each seed is one change.
pub struct Forge<'o> {
    ops: &'o dyn Operators,
    /// The modules to change; if empty, modules are generated.
    given: Vec<Module>,
    /// The module that was generated last, with its number.
    made: Option<(u64, Module)>,
}

impl<'o> Forge<'o> {
    /// Creates a forge for generated modules with these operators.
    pub fn new(ops: &'o dyn Operators) -> Forge<'o> {
        Forge { ops, given: Vec::new(), made: None }
    }

    /// Creates a forge for given modules.
    pub fn of(ops: &'o dyn Operators, given: Vec<Module>) -> Forge<'o> {
        Forge { ops, given, made: None }
    }

    /// Returns the module that a seed changes.
    fn module(&mut self, seed: u64) -> Module {
        let number = seed / USES;
        match (&self.made, self.given.len()) {
            (_, 1..) => self.given[(number % self.given.len() as u64) as usize].clone(),
            (Some((known, module)), _) if *known == number => module.clone(),
            _ => {
                let len = (number.wrapping_mul(0x9e37_79b9) >> 16) as usize % LONGEST;
                let module = module(&Choices::new(&bytes_of(number, len)), self.ops);
                self.made = Some((number, module.clone()));
                module
            }
        }
    }

    /// Makes the change that a seed determines, and returns its outcome.
    pub fn outcome(&mut self, seed: u64) -> Outcome {
        self.outcome_without(seed, 0)
    }

    fn outcome_without(&mut self, seed: u64, without: u32) -> Outcome {
        let before = self.module(seed);
        let looked = catch_unwind(AssertUnwindSafe(|| self.look(&before, seed, without)));
        looked.unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_string()));
            Outcome::Bad(Finding::Panic(text.unwrap_or_default()))
        })
    }

    /// Returns the changed module for a seed, or `None` if the change does not result in a body.
    fn changed(&self, before: &Module, seed: u64, without: u32) -> Option<Module> {
        let mut rng = Rng(seed);
        let functions: Vec<(&str, &Body)> = before.functions().collect();
        let (name, body) = functions[rng.below(functions.len())];
        let (_, other) = functions[rng.below(functions.len())];
        let sections = forged(body, other, seed, places(&mut rng), without);
        let mut edit = before.edit();
        edit.set(name, Body::seal(&sections).ok()?);
        Some(edit.finish())
    }

    fn look(&self, before: &Module, seed: u64, without: u32) -> Outcome {
        let Some(after) = self.changed(before, seed, without) else { return Outcome::Refused };
        if let Err(violation) = verify_changed(before, &after, self.ops) {
            return Outcome::Violation(violation.to_string());
        }
        match self.difference(&after) {
            Some(finding) => Outcome::Bad(finding),
            None => Outcome::Good {
                plain: after.functions().any(|(name, body)| {
                    let changed = !before.get(name).is_some_and(|before| before.same(body));
                    changed && body.kind() == BodyKind::PrimFunc && is_plain_prim_func(body)
                }),
            },
        }
    }

    fn difference(&self, module: &Module) -> Option<Finding> {
        let unreadable = |why: String| Some(Finding::Unreadable(why));
        let text = match script::print(module, self.ops) {
            Ok(text) => text,
            Err(error) => return unreadable(error.to_string()),
        };
        let again = match script::read(&text, self.ops) {
            Ok(again) => again,
            Err(error) => return unreadable(error.to_string()),
        };
        if !again.structural_eq(module) {
            return Some(Finding::OtherModule(crate::differing(module, &again)));
        }
        match script::print(&again, self.ops) {
            Ok(second) if second == text => None,
            _ => Some(Finding::OtherModule("it is equal, but prints as another text".to_string())),
        }
    }

    /// Describes a finding: the smallest set of changes that reproduces it, and the text.
    pub fn report(&mut self, seed: u64, finding: &Finding) -> String {
        let before = self.module(seed);
        let mut rng = Rng(seed);
        let _ = (rng.below(before.len()), rng.below(before.len()));
        let n = places(&mut rng);
        let mut without = 0;
        for i in 0..n {
            if matches!(self.outcome_without(seed, without | 1 << i), Outcome::Bad(_)) {
                without |= 1 << i;
            }
        }
        let finding = match self.outcome_without(seed, without) {
            Outcome::Bad(finding) => finding,
            _ => finding.clone(),
        };
        let changed = self.changed(&before, seed, without);
        let mut out = format!("seed {seed}, {} of {n} changes: {finding:?}\n", n - without.count_ones());
        for (name, body) in changed.iter().flat_map(Module::functions) {
            let Some(old) = before.get(name).filter(|old| !old.same(body)) else { continue };
            let (old, new) = (dump(old), dump(body));
            let lines = old.lines().zip(new.lines()).filter(|(old, new)| old != new).take(8);
            lines.for_each(|(old, new)| out.push_str(&format!("{name}:\n  was {old}\n  is  {new}\n")));
            let raw = body.raw();
            out.push_str(&format!("types {:?}\nleaves {:?}\n", raw.types(), raw.leaves()));
            out.push_str(&format!("dimensions {:?}\nlists {:?}\n", raw.prims(), raw.lists()));
            let text = script::print_function(name, body, self.ops);
            out.push_str(&text.unwrap_or_else(|error| format!("{error}\n")));
        }
        out
    }
}

/// Returns the number of places at which a seed changes its body.
fn places(rng: &mut Rng) -> u32 {
    1 + rng.below(4) as u32
}

fn dump(body: &Body) -> String {
    plugin_api::walk::dump::dump(body)
}
