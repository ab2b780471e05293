//! Validates passes: executes the module before and after each pass that changed it, and compares the values within the tolerance that the
//! pass declares.
//!
//! | file | what |
//! |---|---|
//! | `steps` | an instrument that keeps the modules before and after each pass |
//! | `units` | a function to execute, and the functions that it calls |
//! | `changed` | the functions that a pass changed, and the functions to execute for the change |
//! | `cases` | the inputs to execute them with, some of them around constants in the code |
//! | `coverage` | the coverage of the inputs |
//! | `modes` | both modules in inference or training mode, if the contract names one of these modes |
//! | `sides` | executing a function before and after |
//! | `order` | races, and faults in values that are not selected |
//! | `remembering` | a cache, so that computations that both sides share are executed once |
//! | `compare` | comparing two values |
//! | `pairing` | the first binding whose value differs |
//! | `reached` | the branches and statements that the inputs reach |
//! | `precise` | the same module in float64, so that a more accurate result is not reported |
//! | `verdict` | the results |
//! | `checked` | a pass with its verdict, as text and JSON |

mod cases;
mod changed;
mod checked;
mod compare;
mod coverage;
mod modes;
mod order;
mod pairing;
mod precise;
mod reached;
mod remembering;
mod sides;
mod steps;
mod units;
mod verdict;

pub(crate) use self::cases::arguments_of_prim_func;
pub use self::cases::settings::Validation;
pub use self::cases::{Aim, Case, parameter_names, symbolic_dims};
pub use self::checked::Checked;
pub(crate) use self::checked::short;
pub use self::compare::Mismatch;
pub use self::coverage::{Coverage, Mode};
pub use self::steps::{ChangedSteps, ValidatedStep};
pub use self::verdict::{Difference, Divergence, Same, Verdict, What};

use self::cases::{Constants, Integers, Source};
use self::compare::{Allowed, Dependence};
use self::order::Order;
use self::reached::Unreached;
use self::sides::{Computed, Side, Sides};
use self::units::Unit;
use crate::engine::Engine;
use crate::run::execute::executing;
use passhost_lang::ir::{Body, Module};
use passhost_lang::metadata::Tolerance;
use plugin_api::abi::in_process::caught;
use runtime::Limits;
use runtime::vm::{InputRange, Value};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The memory limit divided by this is the additional memory for cached intermediate results.
const REMEMBERED: u64 = 4;

/// Validates the passes of a run in order. The results after one pass are reused as the results before the next pass.
pub struct Validator<'e> {
    engine: &'e Engine,
    how: Arc<Validation>,
    sides: Sides,
}

impl<'e> Validator<'e> {
    /// Creates a validator without any results.
    pub fn new(engine: &'e Engine, how: Validation) -> Validator<'e> {
        let sides = Sides::new(how.memory / REMEMBERED, &how.executor);
        Validator { engine, how: Arc::new(how), sides }
    }

    /// Compares the modules before and after a pass. Calls `progress` with the name of the function that is being executed.
    pub fn check(&mut self, step: &ValidatedStep, progress: &mut dyn FnMut(&str)) -> Verdict {
        if step.before.same(&step.after) || step.before.structural_eq(&step.after) {
            return Verdict::Unchanged;
        }
        if step.tolerance == Tolerance::Unchecked {
            return Verdict::NotValidated { why: "its contract makes no promise about values".to_string() };
        }
        let engine = self.engine;
        let named = step.with_visible_names();
        let step = named.as_ref().unwrap_or(step);
        let check = || match modes::of(engine, step) {
            Ok(Some((step, mode))) => match self.changed(&step, progress) {
                Verdict::Same(mut same) => {
                    same.coverage.mode = mode;
                    Verdict::Same(same)
                }
                other => other,
            },
            Ok(None) => self.changed(step, progress),
            Err(error) => Verdict::CheckerFailed { why: error.to_string() },
        };
        match caught(|| executing(engine, check)) {
            Ok(verdict) => verdict,
            Err(failure) => Verdict::CheckerFailed { why: failure.to_string() },
        }
    }

    fn changed(&mut self, step: &ValidatedStep, progress: &mut dyn FnMut(&str)) -> Verdict {
        let changed: BTreeSet<&str> = changed::functions(&step.before, &step.after).into_iter().collect();
        if changed.is_empty() {
            return Verdict::Unchanged;
        }
        let units = match changed::units(step, &changed, self.how.function.as_deref()) {
            Ok(units) => units,
            Err(verdict) => return verdict,
        };
        let (mut same, mut missing) = (Same::default(), Vec::new());
        for unit in &units {
            match self.unit(step, unit, &changed, progress) {
                Verdict::Same(more) => same.add(&more),
                Verdict::NotValidated { why } => missing.push(format!("`{}`: {why}", unit.name())),
                other => return other,
            }
        }
        match missing.is_empty() {
            true => Verdict::Same(same),
            false => Verdict::NotValidated { why: missing.join("; ") },
        }
    }

    /// Validates one function with all inputs.
    fn unit(
        &mut self,
        step: &ValidatedStep,
        unit: &Unit,
        changed: &BTreeSet<&str>,
        progress: &mut dyn FnMut(&str),
    ) -> Verdict {
        let Some(body) = step.before.get(unit.name()) else {
            return Verdict::NotValidated { why: "the module before the pass does not contain it".to_string() };
        };
        if let Some(verdict) = signature(step, unit, body) {
            return verdict;
        }
        let from = arguments_for(step);
        let constants = Constants::of(&step.before, &step.after, unit);
        let source = Source::new(Arc::clone(&self.how), constants, from, unit);
        let cases = cases::of(from.get(unit.name()).unwrap_or(body), &self.how, &source);
        let mut done = Done {
            same: Same::default(),
            tells: false,
            unusable: None,
            unknown: None,
            is_unwritten: false,
            is_ordinary: false,
            unreached: Unreached::of(step, unit, changed, &self.sides.kernels),
            order: Order::new(step, unit, changed),
        };
        let about =
            About { step, unit, source: &source, allowed: Allowed::of(step.tolerance).of_types(&step.before, unit) };
        let mut work = self.how.work;
        for case in cases.iter().filter(|case| about.allowed.promises(case.range)) {
            if !done.wants(step, case, self.how.work - work) {
                continue;
            }
            progress(&format!("{}: `{}`, input {} of {}", step.pass, unit.name(), case.number + 1, cases.len()));
            let (tried, took) = self.attempts(&about, case, work, &mut done);
            work = work.saturating_sub(took);
            match done.add(case, tried) {
                None => {}
                Some(Ended::Limit) => break,
                Some(Ended::Different(difference)) => return Verdict::Different(difference),
            }
        }
        done.verdict(step)
    }

    /// Validates one function with one input. If the function fails before the pass, tries smaller integers. Also returns the work done.
    fn attempts(&mut self, about: &About<'_>, case: &Case, work: u64, done: &mut Done) -> (Tried, u64) {
        let most = if case.aim == Aim::First || case.aim == Aim::Given { work } else { work.min(OPTIONAL) };
        let mut took = 0;
        let mut first = None;
        for integers in Integers::of(case, &about.source.constants) {
            let limits = Limits::with_fresh_bytes(self.how.memory, most, case.fresh);
            let tried = self.case(about, (case, integers), &limits, done);
            took += limits.work_done();
            match tried {
                Tried::Unusable { why, of: Unfit::Integers } if case.aim != Aim::Given => {
                    first.get_or_insert(why);
                }
                tried => return (tried, took),
            }
        }
        (Tried::Unusable { why: first.unwrap_or_default(), of: Unfit::Other }, took)
    }

    /// Validates one function with one input.
    fn case(
        &mut self,
        about: &About<'_>,
        (case, integers): (&Case, Integers),
        limits: &Limits,
        done: &mut Done,
    ) -> Tried {
        let About { step, unit, source, allowed } = about;
        let unusable = |why, of| Tried::Unusable { why, of };
        let args = match source.arguments(arguments_for(step), unit, (case, integers), limits) {
            Ok(args) => args,
            Err(why) => return unusable(format!("before the pass: {why}"), Unfit::Other),
        };
        let engine = self.engine;
        let first = self.sides.execute(engine, &step.before, unit, case, &args, limits);
        let difference =
            |what| Difference { function: unit.name().to_string(), case: case.clone(), what, binding: None };
        let before = match first.side {
            Side::Value(value) => value,
            Side::Limit(why) => return Tried::Limit(why),
            Side::Fails(why, _) => return unusable(format!("before the pass: {why}"), Unfit::Integers),
            Side::Cannot(why) | Side::Refuses(why, _) => {
                return unusable(format!("before the pass: {why}"), Unfit::Other);
            }
            Side::Asserts(why) => {
                let after = self.sides.execute(engine, &step.after, unit, case, &args, limits);
                return match after.side {
                    Side::Value(_) => Tried::Different(Box::new(difference(What::Accepts { why }))),
                    _ => Tried::Violates(format!("before the pass: {why}")),
                };
            }
        };
        let left = limits.work_limit().saturating_sub(limits.work_done());
        let second = self.sides.execute(engine, &step.after, unit, case, &args, limits);
        let found = match second.side {
            Side::Value(after) => {
                done.unreached.executed(&first.branches, &second.branches);
                match self.compared(about, (case, &args), (&before, &after), limits, done) {
                    Ok(what) => difference(what),
                    Err(tried) => return tried,
                }
            }
            // If little of the work limit was left, reaching the limit is not the fault of the pass.
            Side::Limit(why) if left / MUCH_MORE < first.work => return Tried::Limit(format!("after the pass, {why}")),
            Side::Limit(why) | Side::Cannot(why) => return Tried::Unknown(format!("after the pass, {why}")),
            Side::Refuses(why, _) if step.tolerance == Tolerance::Specialized => {
                return unusable(format!("after the pass: {why}"), Unfit::Other);
            }
            Side::Asserts(why) => difference(What::Fails { why }),
            Side::Refuses(why, at) | Side::Fails(why, at) => {
                let binding = at.and_then(|at| pairing::failing(engine, &step.after, &at));
                Difference { binding, ..difference(What::Fails { why }) }
            }
        };
        let binding = match (&found.what, &found.binding) {
            (What::Unordered { .. }, _) => None,
            (_, Some(binding)) => Some(binding.clone()),
            _ => pairing::first_difference(engine, step, unit, &args, allowed, limits, &self.sides.kernels),
        };
        Tried::Different(Box::new(Difference { binding, ..found }))
    }

    /// Compares the results of both sides.
    ///
    /// # Errors
    /// The outcome of this input, if the results do not show a difference.
    fn compared(
        &self,
        about: &About<'_>,
        (case, args): (&Case, &[Value]),
        (before, after): (&Computed, &Computed),
        limits: &Limits,
        done: &mut Done,
    ) -> Result<What, Tried> {
        let About { step, unit, allowed, .. } = about;
        let (engine, memory) = (self.engine, self.how.memory);
        if compare::has_function(&before.value) {
            return Err(Tried::Unknown("it returns a function, which is never called".to_string()));
        }
        let unusable = |why: String| Err(Tried::Unusable { why, of: Unfit::Other });
        let unwritten = || {
            let why = "before the pass: the result depends on uninitialized elements".to_string();
            Err(Tried::Unusable { why, of: Unfit::Unwritten })
        };
        let found = compare::computed(before, after, args, allowed);
        let same = |depends| Tried::Same {
            largest: found.largest,
            tells: !compare::is_nan(&before.value),
            is_ordinary: !case.range.is_special()
                && depends == Dependence::Nothing
                && compare::has_elements(&before.value),
        };
        let Some((output, mismatch)) = &found.worst else {
            let depends = self.dependence(about, (case, args), before);
            if depends == Dependence::Most {
                return unwritten();
            }
            let why = done.order.introduced(engine, step, unit, (case, args), memory);
            return why.map(|why| What::Unordered { why }).ok_or_else(|| same(depends));
        };
        let values = (&before.value, &after.value);
        if allowed.is_loose() && precise::explains(engine, step, unit, args, values, allowed, limits) {
            return Err(same(Dependence::Nothing));
        }
        let is_special = case.range.is_special();
        if allowed.is_of_held_values()
            && is_special
            && precise::agree(engine, step, unit, args, allowed, limits) != Some(false)
        {
            return unusable("before the pass: a value contradicts its declared type".to_string());
        }
        let doubts = done.order.doubts(engine, step, unit, (case, args), memory);
        if doubts.is_unordered {
            return unusable(
                "before the pass: the result depends on the order of a loop whose iterations may run at the same time"
                    .to_string(),
            );
        }
        let may_overflow = is_special || case.range == InputRange::Wide;
        if may_overflow && doubts.overflows {
            return unusable("before the pass: a number overflows".to_string());
        }
        if compare::agree_where_same(before, &self.again(about, (case, args)), after, args, allowed) {
            return unwritten();
        }
        let output = unit.output_name(&step.before, output.clone());
        Ok(What::Value { output, mismatch: mismatch.clone() })
    }

    /// Returns the extent to which the results before the pass depend on unwritten memory. A function also depends on it if it fails with
    /// every other content of that memory.
    fn dependence(&self, about: &About<'_>, (case, args): (&Case, &[Value]), before: &Computed) -> Dependence {
        if !before.is_doubtful {
            return Dependence::Nothing;
        }
        let again = self.again(about, (case, args));
        if again.is_empty() { Dependence::Most } else { compare::dependence(before, &again, args) }
    }

    /// Runs the function before the pass again with different contents in unwritten memory: numbers of the opposite sign, small numbers,
    /// and zeros. A single run is not enough: a sum of large floats may stay infinite, and a minimum or a product may stay the same.
    fn again(&self, about: &About<'_>, (case, args): (&Case, &[Value])) -> Vec<Computed> {
        let (module, kernels) = (&about.step.before, &self.sides.kernels);
        let of = |fresh| {
            let other = Limits::with_fresh_bytes(self.how.memory, self.how.work, fresh);
            sides::computed(self.engine, module, about.unit, args, &other, kernels).0.ok()
        };
        [cases::of_other_sign(case.fresh), !case.fresh, 0].into_iter().filter_map(of).collect()
    }
}

/// Returns the module whose functions determine the inputs.
fn arguments_for(step: &ValidatedStep) -> &Module {
    if step.tolerance == Tolerance::Specialized { &step.after } else { &step.before }
}

/// The factor by which a pass may increase a small amount of work.
const MUCH_MORE: u64 = 8;
/// Maximum units of work for an input, except for the first few inputs.
const OPTIONAL: u64 = 4 * cases::LITTLE;

/// The function that is being validated.
struct About<'a> {
    step: &'a ValidatedStep,
    unit: &'a Unit,
    source: &'a Source,
    allowed: Allowed,
}

/// The outcome of one input.
enum Tried {
    /// The values are equal, up to this largest difference. `tells` is false if all numbers are NaN, which makes the comparison
    /// meaningless. `is_ordinary`: there are values that do not depend on uninitialized elements, and the input does not look for faults
    /// at special values.
    Same {
        largest: f64,
        tells: bool,
        is_ordinary: bool,
    },
    /// The input cannot be used: the module before the pass fails with it, or the module after the pass need not accept it.
    Unusable {
        why: String,
        of: Unfit,
    },
    /// The input violates an assertion on both sides.
    Violates(String),
    /// The result after the pass could not be computed or compared.
    Unknown(String),
    /// The limit of work is reached, so no more inputs are tried.
    Limit(String),
    Different(Box<Difference>),
}

/// The reason why an input cannot be used.
#[derive(Clone, Copy, PartialEq)]
enum Unfit {
    /// Smaller integers may help.
    Integers,
    /// The result depends on uninitialized elements.
    Unwritten,
    Other,
}

/// The findings on a function after some inputs.
struct Done {
    same: Same,
    tells: bool,
    unusable: Option<String>,
    unknown: Option<String>,
    /// True if the result of an ordinary input depends on uninitialized elements.
    is_unwritten: bool,
    /// True if an ordinary input was compared.
    is_ordinary: bool,
    unreached: Unreached,
    order: Order,
}

/// The reason to stop trying inputs.
enum Ended {
    Limit,
    Different(Box<Difference>),
}

impl Done {
    /// Returns true if an input should be tried after earlier inputs took this much work. Records inputs that the budget excludes.
    fn wants(&mut self, step: &ValidatedStep, case: &Case, work: u64) -> bool {
        let is_missing = self.unreached.first(step).is_some();
        let loops = self.unreached.loops();
        // Finding a changed condition of an assertion takes many inputs.
        let is_wanted = cases::is_wanted(case, work, is_missing, self.unreached.asserts() || loops.0 < loops.1);
        if !is_wanted && (case.aim != Aim::Coverage || is_missing) {
            self.same.coverage.left_out.insert(case.aim);
        }
        is_wanted
    }

    /// Adds the outcome of an input, and returns a reason if no more inputs should be tried.
    fn add(&mut self, case: &Case, tried: Tried) -> Option<Ended> {
        match tried {
            Tried::Same { largest, tells, is_ordinary } => {
                self.same.one(largest);
                self.same.coverage.case(case);
                self.tells |= tells;
                self.is_ordinary |= is_ordinary;
            }
            // A user who provides an input expects it to be compared.
            Tried::Unusable { why, .. } if case.aim == Aim::Given => {
                self.unknown.get_or_insert(format!("the given arrays cannot be used {why}"));
            }
            Tried::Unusable { why, of } => {
                self.is_unwritten |= of == Unfit::Unwritten && !case.range.is_special();
                self.same.coverage.refused += 1;
                self.unusable.get_or_insert(why);
            }
            Tried::Violates(why) => {
                self.same.coverage.violations += 1;
                self.unusable.get_or_insert(why);
            }
            Tried::Unknown(why) => {
                self.unknown.get_or_insert(why);
            }
            Tried::Limit(_) if self.same.inputs > 0 && case.aim != Aim::First => {
                self.same.coverage.left_out.insert(case.aim);
            }
            Tried::Limit(_) if self.same.inputs > 0 => return Some(Ended::Limit),
            Tried::Limit(why) => {
                self.unknown.get_or_insert(why);
                return Some(Ended::Limit);
            }
            Tried::Different(difference) => return Some(Ended::Different(difference)),
        }
        None
    }

    fn verdict(mut self, step: &ValidatedStep) -> Verdict {
        let coverage = &mut self.same.coverage;
        (coverage.parts, coverage.loops) = (self.unreached.parts(), self.unreached.loops());
        coverage.watched = self.order.watched;
        let why = match self.unknown {
            Some(why) => why,
            // A result that does not depend on uninitialized elements for special values, such as NaN, may depend on them for ordinary
            // values.
            None if self.is_unwritten && !self.is_ordinary => {
                "its result depends on uninitialized elements".to_string()
            }
            None if self.same.inputs == 0 => match self.unusable {
                Some(why) => format!("none of the inputs can be executed {why}"),
                None => "it does not take inputs".to_string(),
            },
            None => match self.unreached.first(step) {
                Some(what) => format!("none of the inputs reaches {what}"),
                None if !self.tells => "all its results are NaN for every input".to_string(),
                None => return Verdict::Same(self.same),
            },
        };
        Verdict::NotValidated { why }
    }
}

/// Returns the verdict if a function is missing after the pass, or has different parameters.
fn signature(step: &ValidatedStep, unit: &Unit, before: &Body) -> Option<Verdict> {
    let may = step.tolerance == Tolerance::Signature;
    let narrower = step.tolerance == Tolerance::Specialized;
    let (what, why) = match step.after.get(unit.name()) {
        None => (What::Gone, "the module after the pass does not contain it".to_string()),
        Some(after) => {
            let (before, after) = (units::parameters(before), units::parameters(after));
            if before == after || narrower && before.len() == after.len() {
                return None;
            }
            let why = format!("it takes ({}) after the pass, but ({}) before it", after.join(", "), before.join(", "));
            (What::Signature { why: why.clone() }, why)
        }
    };
    if may || !unit.is_public(&step.before) {
        return Some(Verdict::NotValidated { why });
    }
    let (function, case) = (unit.name().to_string(), Case::default());
    Some(Verdict::Different(Box::new(Difference { function, case, what, binding: None })))
}
