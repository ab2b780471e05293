//! Runs every standard pass on arbitrary modules, directly and after printing and reading them, and compares the
//! results.
//!
//! A module is parsed, checked, printed and parsed again. Every pass runs on both modules, and its result is printed
//! and parsed. Every ordered pair of passes runs directly, and with the module printed and parsed between the two. Both
//! results must be structurally equal, and either both or neither must report a change. Variable names may differ,
//! because only texts need unique names. A rejected text or an ill-formed module is counted and is not a failure.

use super::{Failure, guarded};
use passhost::verify::verify_read;
use passhost::{Engine, Runner};
use plugin_api::ir::Module;
use registry::{Pipeline, Plan, Request};
use std::collections::BTreeMap;

/// The tested passes.
pub const PASSES: &[&str] = &[
    "relax.Normalize",
    "relax.CanonicalizeBindings",
    "relax.EliminateCommonSubexpr",
    "relax.DeadCodeElimination",
    "relax.ConvertToDataflow",
    "relax.ToNonDataflow",
];

/// The outcome of a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fate {
    /// The text was rejected.
    Refused,
    /// The text was parsed, but the module is ill-formed.
    IllFormed,
    /// The results are equal.
    Held,
}

/// The pairs of passes that are tried on a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pairs {
    /// All ordered pairs.
    All,
    /// One pair for each pass, in which the pass is first; the number selects the second pass.
    One(u64),
}

/// The passes, planned once.
pub struct Between<'e> {
    engine: &'e Engine,
    plans: Vec<Plan>,
}

/// The result of a pass: the module and whether it changed, or the error.
type Made = Result<(Module, bool), String>;

impl<'e> Between<'e> {
    /// Plans the passes.
    ///
    /// # Errors
    /// If a pass does not exist.
    pub fn new(engine: &'e Engine) -> Result<Between<'e>, String> {
        let plan = |pass: &&str| {
            let pipeline = Pipeline::parse(pass).map_err(|why| why.to_string())?;
            let request = Request { pipeline, ..Request::default() };
            Plan::new(&request, engine.registry()).map_err(|why| why.to_string())
        };
        Ok(Between { engine, plans: PASSES.iter().map(plan).collect::<Result<_, _>>()? })
    }

    /// Tests a text.
    ///
    /// # Errors
    /// The difference.
    pub fn text(&self, text: &str, pairs: Pairs) -> Result<Fate, Failure> {
        guarded(|| match script::read(text, self.engine) {
            Err(_) => Ok(Fate::Refused),
            Ok(module) => self.module(&module, pairs),
        })
    }

    /// Tests a module.
    ///
    /// # Errors
    /// The difference.
    pub fn module(&self, module: &Module, pairs: Pairs) -> Result<Fate, Failure> {
        if verify_read(module, self.engine).is_err() {
            return Ok(Fate::IllFormed);
        }
        let again = self.read_back("the module", module)?;
        let firsts: Vec<Made> = (0..self.plans.len()).map(|pass| self.run(pass, module)).collect();
        let mut of_module: Vec<Option<Made>> = vec![None; self.plans.len()];
        for (pass, first) in firsts.iter().enumerate() {
            let what = PASSES[pass];
            self.same(what, first, &self.run(pass, &again))?;
            let Ok((made, changed)) = first else { continue };
            let read = self.read_back(what, made)?;
            for next in self.nexts(pass, pairs) {
                let what = || format!("{what}, then {}", PASSES[next]);
                // If the first pass changed nothing, the result equals the result for the original module.
                let direct = if *changed { self.run(next, made) } else { firsts[next].clone() };
                let read = match changed {
                    true => self.run(next, &read),
                    false => of_module[next].get_or_insert_with(|| self.run(next, &read)).clone(),
                };
                self.same(&what(), &direct, &read)?;
            }
        }
        Ok(Fate::Held)
    }

    fn nexts(&self, pass: usize, pairs: Pairs) -> std::ops::Range<usize> {
        match pairs {
            Pairs::All => 0..self.plans.len(),
            Pairs::One(of) => {
                let next = (of as usize).wrapping_add(pass * 5) % self.plans.len();
                next..next + 1
            }
        }
    }

    fn run(&self, pass: usize, module: &Module) -> Made {
        let report =
            Runner::new(self.engine, BTreeMap::new()).verified_input(true).run(&self.plans[pass], module.clone());
        let report = report.map_err(|why| why.to_string())?;
        match report.error {
            None => Ok((report.module.clone(), !report.module.structural_eq(module))),
            Some(error) => Err(error.to_string()),
        }
    }

    fn print(&self, what: &str, module: &Module) -> Result<String, Failure> {
        script::print(module, self.engine).map_err(|why| Failure::new("not printed", format!("{what}: {why}")))
    }

    /// Parses the text of a module, and checks that the result equals the module.
    fn read_back(&self, what: &str, module: &Module) -> Result<Module, Failure> {
        let printed = self.print(what, module)?;
        let again = script::read(&printed, self.engine)
            .map_err(|why| Failure::new("not read again", format!("{what}: {why}\n{printed}")))?;
        if !again.structural_eq(module) {
            let difference = crate::differing(module, &again);
            return Err(Failure::new("another module", format!("{what}:\n{difference}\n{printed}")));
        }
        if let Err(why) = verify_read(&again, self.engine) {
            return Err(Failure::new("ill-formed when read again", format!("{what}: {why}\n{printed}")));
        }
        let reprinted = self.print(what, &again)?;
        if reprinted != printed {
            return Err(Failure::new("another text", format!("{what}:\n{printed}\n{reprinted}")));
        }
        Ok(again)
    }

    /// Checks that a pass returned the same result for the module itself and for the module read back from its text.
    /// Positions in error messages refer to the module that the pass received.
    fn same(&self, what: &str, direct: &Made, read: &Made) -> Result<(), Failure> {
        let ((a, x), (b, y)) = match (direct, read) {
            (Ok(a), Ok(b)) => (a, b),
            (Err(_), Err(_)) => return Ok(()),
            (Ok(_), Err(why)) => return Err(Failure::new("fails after a text", format!("{what}: {why}"))),
            (Err(why), Ok(_)) => return Err(Failure::new("fails without a text", format!("{what}: {why}"))),
        };
        let direct = self.print(what, a)?;
        if !a.structural_eq(b) {
            let (difference, read) = (crate::differing(a, b), self.print(what, b)?);
            return Err(Failure::new("another result", format!("{what}:\n{difference}\n{direct}\n{read}")));
        }
        match x == y {
            true => Ok(()),
            false => Err(Failure::new("another claim", format!("{what}: changed: {x}, after a text: {y}\n{direct}"))),
        }
    }
}
