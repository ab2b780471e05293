//! Whether passes preserve what a module computes: the module is executed before and after each pass that changed it, and
//! the values are compared within the tolerance that the pass declares.
//!
//! | file | what |
//! |---|---|
//! | `steps` | an instrument that keeps the modules before and after each pass |
//! | `seen` | what of a function decides its values |
//! | `units` | the functions to execute for a change |
//! | `cases` | the inputs to execute them with |
//! | `modes` | both modules as for inference or training, if the contract is about one of these |
//! | `sides` | executing a function before and after |
//! | `remembering` | what both sides share is executed once |
//! | `compare` | comparing two values |
//! | `pairing` | the first binding whose value differs |
//! | `reached` | which branches and statements the inputs reach |
//! | `precise` | the same module in float64, so that a more accurate result is not blamed |
//! | `verdict` | what is found |
//! | `checked` | a pass with its verdict, as text and JSON |

mod cases;
mod checked;
mod compare;
mod modes;
mod pairing;
mod precise;
mod reached;
mod remembering;
mod seen;
mod sides;
mod steps;
mod units;
mod verdict;

pub use self::cases::{Case, symbolic_dims};
pub use self::checked::Checked;
pub(crate) use self::checked::short;
pub use self::compare::Mismatch;
pub use self::steps::{ChangedSteps, ValidatedStep};
pub use self::verdict::{Difference, Divergence, Same, Verdict, What};

use self::compare::Allowed;
use self::reached::Unreached;
use self::sides::{Side, Sides};
use self::units::Unit;
use crate::engine::Engine;
use crate::run::execute::backend::Executor;
use crate::run::execute::executing;
use plugin_api::abi::in_process::caught;
use plugin_api::metadata::Tolerance;
use plugin_api::prelude::{Body, BodyKind, Module};
use runtime::Limits;
use runtime::vm::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The part of the memory that intermediate results may take in addition.
const REMEMBERED: u64 = 4;

/// How passes are validated.
#[derive(Clone, Debug)]
pub struct Validation {
    /// The seed of all inputs.
    pub seed: u64,
    /// Extents of symbolic dimensions by name; others get several.
    pub dims: BTreeMap<String, i64>,
    /// The function to execute; without one, each public function that a change reaches.
    pub function: Option<String>,
    /// Most bytes of tensors at a time. Intermediate results that both sides share take up to a quarter of it more.
    pub memory: u64,
    /// Most units of work for one function and pass; see [`Limits`].
    pub work: u64,
    /// What executes PrimFuncs.
    pub executor: Executor,
}

impl Validation {
    /// With these limits on memory, the usual work, and this seed.
    pub fn new(seed: u64, memory: u64) -> Validation {
        Validation {
            seed,
            dims: BTreeMap::new(),
            function: None,
            memory,
            work: runtime::USUAL_WORK,
            executor: Executor::default(),
        }
    }
}

/// Validates the passes of a run, one after the other: what was executed after a pass is not executed again before the
/// next one.
pub struct Validator<'e> {
    engine: &'e Engine,
    how: Validation,
    sides: Sides,
}

impl<'e> Validator<'e> {
    /// A validator that has executed nothing yet.
    pub fn new(engine: &'e Engine, how: Validation) -> Validator<'e> {
        let sides = Sides::new(how.memory / REMEMBERED, &how.executor);
        Validator { engine, how, sides }
    }

    /// Compares the modules before and after a pass. `progress` hears what is being executed.
    pub fn check(&mut self, step: &ValidatedStep, progress: &mut dyn FnMut(&str)) -> Verdict {
        if step.before.same(&step.after) || step.before.structural_eq(&step.after) {
            return Verdict::Unchanged;
        }
        if step.tolerance == Tolerance::Unchecked {
            return Verdict::NotValidated { why: "its contract promises nothing about values".to_string() };
        }
        let engine = self.engine;
        let check = || match modes::of(engine, step) {
            Ok(Some(step)) => self.changed(&step, progress),
            Ok(None) => self.changed(step, progress),
            Err(error) => Verdict::CheckerFailed { why: error.to_string() },
        };
        match caught(|| executing(engine, check)) {
            Ok(verdict) => verdict,
            Err(failure) => Verdict::CheckerFailed { why: failure.to_string() },
        }
    }

    fn changed(&mut self, step: &ValidatedStep, progress: &mut dyn FnMut(&str)) -> Verdict {
        let changed: BTreeSet<&str> = differing(&step.before, &step.after).into_iter().collect();
        if changed.is_empty() {
            return Verdict::Unchanged;
        }
        let units = match units::of(step, &changed, self.how.function.as_deref()) {
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

    /// One function, with all inputs.
    fn unit(
        &mut self,
        step: &ValidatedStep,
        unit: &Unit,
        changed: &BTreeSet<&str>,
        progress: &mut dyn FnMut(&str),
    ) -> Verdict {
        let Some(body) = step.before.get(unit.name()) else {
            return Verdict::NotValidated { why: "the module before the pass does not have it".to_string() };
        };
        if let Some(verdict) = signature(step, unit, body) {
            return verdict;
        }
        let from = arguments_for(step);
        let cases = cases::of(from.get(unit.name()).unwrap_or(body), &self.how);
        let allowed = Allowed::of(step.tolerance);
        let (mut same, mut tells) = (Same::default(), false);
        let (mut unusable, mut unknown) = (None, None);
        let mut work = self.how.work;
        let mut unreached = Unreached::of(step, unit, changed, &self.sides.kernels);
        for case in &cases {
            let wanted = cases::wanted(&cases, self.how.work - work, unreached.first(step).is_some());
            if case.number >= wanted {
                break;
            }
            progress(&format!("{}: `{}`, input {} of {wanted}", step.pass, unit.name(), case.number + 1));
            let limits = Limits::with_fresh_bytes(self.how.memory, work, case.fresh);
            match self.case(step, unit, case, &allowed, &limits, &mut unreached) {
                Tried::Same { largest, tells: more } => {
                    same.one(largest);
                    tells |= more;
                }
                Tried::Unusable(why) => {
                    unusable.get_or_insert(why);
                }
                Tried::Unknown(why) => {
                    unknown.get_or_insert(why);
                }
                Tried::Limit(_) if same.inputs > 0 => break,
                Tried::Limit(why) => {
                    unknown.get_or_insert(why);
                    break;
                }
                Tried::Different(difference) => return Verdict::Different(difference),
            }
            work = work.saturating_sub(limits.work_done());
        }
        let why = match unknown {
            Some(why) => why,
            None if same.inputs == 0 => match unusable {
                Some(why) => format!("no input can be executed {why}"),
                None => "it has no inputs".to_string(),
            },
            None => match unreached.first(step) {
                Some(what) => format!("no input reaches {what}"),
                None if !tells => "all numbers of its results are NaN, whatever the input".to_string(),
                None => return Verdict::Same(same),
            },
        };
        Verdict::NotValidated { why }
    }

    /// One function, with one input.
    fn case(
        &mut self,
        step: &ValidatedStep,
        unit: &Unit,
        case: &Case,
        allowed: &Allowed,
        limits: &Limits,
        unreached: &mut Unreached,
    ) -> Tried {
        let args = match cases::arguments(arguments_for(step), unit, case, limits) {
            Ok(args) => args,
            Err(why) => return Tried::Unusable(format!("before the pass: {why}")),
        };
        let engine = self.engine;
        let first = self.sides.execute(engine, &step.before, unit, case, &args, limits);
        let before = match first.side {
            Side::Value(value) => value,
            Side::Limit(why) => return Tried::Limit(why),
            Side::Cannot(why) | Side::Refuses(why, _) | Side::Fails(why, _) => {
                return Tried::Unusable(format!("before the pass: {why}"));
            }
        };
        let difference =
            |what| Difference { function: unit.name().to_string(), case: case.clone(), what, binding: None };
        let left = limits.work_limit().saturating_sub(limits.work_done());
        let second = self.sides.execute(engine, &step.after, unit, case, &args, limits);
        let found = match second.side {
            Side::Value(after) => {
                unreached.executed(&first.branches, &second.branches);
                if compare::has_function(&before.value) {
                    return Tried::Unknown("it returns a function, which nothing calls".to_string());
                }
                let found = compare::computed(&before, &after, &args, allowed);
                let same = || Tried::Same { largest: found.largest, tells: !compare::is_nan(&before.value) };
                let Some((output, mismatch)) = &found.worst else { return same() };
                let values = (&before.value, &after.value);
                let is_better = || precise::explains(engine, step, unit, &args, values, allowed, limits);
                if allowed.is_loose() && is_better() {
                    return same();
                }
                let has_new = makes_prim_funcs(step);
                let (module, value) = if has_new { (&step.after, &after.value) } else { (&step.before, &before.value) };
                if case.has_empty_dim() && self.is_unwritten(module, unit, case, &args, value) {
                    let when = if has_new { "after" } else { "before" };
                    let why = "the pass: a dimension is 0, and the result is memory that nothing was written to";
                    return Tried::Unusable(format!("{when} {why}"));
                }
                let output = unit.output_name(&step.before, output.clone());
                difference(What::Value { output, mismatch: mismatch.clone() })
            }
            // Where little was left, the limit says nothing of the pass.
            Side::Limit(why) if left / MUCH_MORE < first.work => return Tried::Limit(format!("after the pass, {why}")),
            Side::Limit(why) | Side::Cannot(why) => return Tried::Unknown(format!("after the pass, {why}")),
            Side::Refuses(why, _) if step.tolerance == Tolerance::Specialized => {
                return Tried::Unusable(format!("after the pass: {why}"));
            }
            Side::Refuses(why, at) | Side::Fails(why, at) => {
                let binding = at.and_then(|at| pairing::failing(engine, &step.after, &at));
                Difference { binding, ..difference(What::Fails { why }) }
            }
        };
        let binding = match found.binding {
            Some(binding) => Some(binding),
            None => pairing::first_difference(engine, step, unit, &args, allowed, limits, &self.sides.kernels),
        };
        Tried::Different(Box::new(Difference { binding, ..found }))
    }

    /// Whether a result depends on what memory holds that the module has not written.
    fn is_unwritten(&self, module: &Module, unit: &Unit, case: &Case, args: &[Value], value: &Value) -> bool {
        let other = Limits::with_fresh_bytes(self.how.memory, self.how.work, !case.fresh);
        let again = sides::execute(self.engine, module, unit, args, &other, &self.sides.kernels, &mut ());
        again.is_ok_and(|again| !compare::is_same(value, &again, &Allowed::of(Tolerance::Exact)))
    }
}

/// The module whose functions say which inputs there are.
fn arguments_for(step: &ValidatedStep) -> &Module {
    if step.tolerance == Tolerance::Specialized { &step.after } else { &step.before }
}

/// Whether a pass makes PrimFuncs of operators. One that reduces over an axis does not even write the first value where the
/// axis has no elements, in TVM, too; an operator has a value there.
fn makes_prim_funcs(step: &ValidatedStep) -> bool {
    let is_new = |(name, body): (&str, &Body)| body.kind() == BodyKind::PrimFunc && step.before.get(name).is_none();
    step.after.functions().any(is_new)
}

/// How much more work a pass may make of what little of it took before.
const MUCH_MORE: u64 = 8;

/// What one input leads to.
enum Tried {
    /// The values are the same, with this largest difference. They tell something unless all numbers are NaN.
    Same {
        largest: f64,
        tells: bool,
    },
    /// The module before the pass cannot be executed with it, or the one after it need not.
    Unusable(String),
    /// What the module after the pass computes is not known, or not whether it is the same.
    Unknown(String),
    /// The limit of work is reached, and there is none left for more inputs.
    Limit(String),
    Different(Box<Difference>),
}

/// What follows if a function is not there after a pass, or has other parameters.
fn signature(step: &ValidatedStep, unit: &Unit, before: &Body) -> Option<Verdict> {
    let may = step.tolerance == Tolerance::Signature;
    let narrower = step.tolerance == Tolerance::Specialized;
    let (what, why) = match step.after.get(unit.name()) {
        None => (What::Gone, "the module after the pass does not have it".to_string()),
        Some(after) => {
            let (before, after) = (units::parameters(before), units::parameters(after));
            if before == after || narrower && before.len() == after.len() {
                return None;
            }
            let why = format!("it takes ({}) after the pass, and ({}) before it", after.join(", "), before.join(", "));
            (What::Signature { why: why.clone() }, why)
        }
    };
    if may || !unit.is_public(&step.before) {
        return Some(Verdict::NotValidated { why });
    }
    let (function, case) = (unit.name().to_string(), Case::default());
    Some(Verdict::Different(Box::new(Difference { function, case, what, binding: None })))
}

/// The functions of a module that are executed otherwise than those of another one, or that only one of them has.
fn differing<'m>(before: &'m Module, after: &'m Module) -> Vec<&'m str> {
    let differs = |(name, body): &(&str, &Body)| match after.get(name) {
        Some(other) => !seen::executes_same(body, other),
        None => true,
    };
    let gone = before.functions().filter(differs).map(|(name, _)| name);
    let new = after.functions().filter(|(name, _)| before.get(name).is_none()).map(|(name, _)| name);
    gone.chain(new).collect()
}
