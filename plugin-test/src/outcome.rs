//! What becomes of a module, in-process and through the built library.

use crate::{Tested, diff, text};
use passhost::{Error, Runner};
use plugin_api::ir::Module;
use registry::Plan;
use std::collections::BTreeMap;

/// How the passes of the tested plugin are called.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Through the built library.
    Library,
    /// As functions of this process.
    InProcess,
}

/// What a run one way returned.
struct Run {
    way: Way,
    result: Result<Module, Error>,
    /// Diagnostics as text.
    said: String,
}

/// What both ways gave.
pub(crate) struct Outcome {
    /// Section of a golden.
    pub(crate) golden: String,
    /// The module as text; `None` after an error.
    pub(crate) printed: Option<String>,
}

impl Tested {
    /// Runs a pipeline over a module as text, both ways.
    ///
    /// # Errors
    /// If the module cannot be read, the pipeline not be planned, the result not be read back, or if the ways differ.
    pub(crate) fn outcome(&self, passes: &str, module: &str) -> Result<Outcome, String> {
        let before = self.read(module)?;
        let plan = self.plan(passes)?;
        let library = self.run(&plan, &before, Way::Library)?;
        let in_process = self.run(&plan, &before, Way::InProcess)?;
        let (through_library, process) = (self.show(&library)?, self.show(&in_process)?);
        if through_library != process {
            let diff = diff(("through the library", &through_library), ("in-process", &process));
            return Err(format!("the two ways differ; a pass must not depend on state of its own process\n{diff}"));
        }
        let after = match library.result {
            Ok(after) => after,
            Err(error) => return Ok(Outcome { golden: format!("-- error\n{error}\n\n"), printed: None }),
        };
        let printed = self.print(&after)?;
        let again = self.read(&printed)?;
        if !after.structural_eq(&again) {
            let difference = script::difference(&after, &again).unwrap_or_default();
            return Err(format!("the result does not read back to itself: {difference}\n{printed}"));
        }
        let same = after.same(&before);
        let golden = if same { "-- unchanged\n\n".to_string() } else { format!("-- after\n{printed}\n") };
        Ok(Outcome { golden, printed: Some(printed) })
    }

    /// # Errors
    /// If the host could not run the plan, or something else than a pass stopped it.
    fn run(&self, plan: &Plan, module: &Module, way: Way) -> Result<Run, String> {
        let runner = Runner::new(&self.engine, BTreeMap::new()).deny_unknown_operators(true);
        let runner = if way == Way::InProcess { runner.linked(self.plugin) } else { runner };
        let report = runner.run(plan, module.clone()).map_err(|error| text(&error))?;
        let said = report.diagnostics.iter().map(|said| {
            let function = said.function.as_deref().unwrap_or("-");
            format!("{}: {function}: {}\n", said.pass, said.message)
        });
        let said = said.collect();
        match report.error {
            None => Ok(Run { way, result: Ok(report.module), said }),
            Some(error @ Error::Step { .. }) => Ok(Run { way, result: Err(error), said }),
            Some(other) => Err(text(&other)),
        }
    }

    pub(crate) fn read(&self, module: &str) -> Result<Module, String> {
        script::read(module, &self.engine).map_err(|error| format!("{error}"))
    }

    pub(crate) fn print(&self, module: &Module) -> Result<String, String> {
        script::print_with_values(module, &self.engine).map_err(|error| error.to_string())
    }

    /// A run as text that does not depend on the way.
    fn show(&self, Run { way, result, said }: &Run) -> Result<String, String> {
        let end = match result {
            Ok(module) => self.print(module)?,
            Err(Error::Step { pass, function, message, .. }) => {
                let function = function.as_ref().map_or(String::new(), |name| format!(", function `{name}`"));
                let message = if *way == Way::Library { without_place(message) } else { message.clone() };
                format!("pass `{pass}`{function}: {message}\n")
            }
            Err(other) => text(other),
        };
        Ok(format!("{said}{end}"))
    }
}

/// The library says where a pass panicked, a panic of this process does not.
fn without_place(message: &str) -> String {
    let cut = |text: &str| Some(text.rsplit_once(" (")?.0.to_string());
    let panicked = message.starts_with("panicked: ");
    panicked.then(|| cut(message)).flatten().unwrap_or_else(|| message.to_string())
}
