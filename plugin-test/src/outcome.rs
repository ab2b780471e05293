//! What becomes of a module, in-process and through the built library.

use crate::in_process::InProcess;
use crate::{Tested, diff, text};
use passhost::{Error, Runner};
use plugin_api::ir::Module;
use std::collections::BTreeMap;

/// How a run stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) pass: String,
    pub(crate) function: Option<String>,
    pub(crate) message: String,
}

/// What one way gave, in terms that both have.
pub(crate) struct Run {
    pub(crate) result: Result<Module, Failure>,
    /// Diagnostics as text.
    pub(crate) said: Vec<String>,
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
        let runner = Runner::new(&self.engine, BTreeMap::new()).deny_unknown_operators(true);
        let report = runner.run(&plan, before.clone());
        let report = report.map_err(|error| text(&error))?;
        let said = report.diagnostics.iter();
        let said = said.map(|said| diagnostic(&said.pass, said.function.as_deref(), &said.message)).collect();
        let error = report.error;
        let result = match &error {
            None => Ok(report.module),
            Some(Error::Step { pass, function, message, .. }) => {
                Err(Failure { pass: pass.clone(), function: function.clone(), message: without_place(message) })
            }
            Some(other) => return Err(text(other)),
        };
        let through_library = Run { result, said };
        let in_process = InProcess::new(self, plan.opt_level).run(&plan, before.clone())?;
        let (library, process) = (self.show(&through_library)?, self.show(&in_process)?);
        if library != process {
            let diff = diff(("through the library", &library), ("in-process", &process));
            return Err(format!("the two ways differ; a pass must not depend on state of its own process\n{diff}"));
        }
        let Ok(after) = through_library.result else {
            let message = error.map(|error| error.to_string()).unwrap_or_default();
            return Ok(Outcome { golden: format!("-- error\n{message}\n\n"), printed: None });
        };
        let printed = self.print(&after)?;
        if !after.structural_eq(&self.read(&printed)?) {
            return Err(format!("the result does not read back to itself:\n{printed}"));
        }
        let same = after.same(&before);
        let golden = if same { "-- unchanged\n\n".to_string() } else { format!("-- after\n{printed}\n") };
        Ok(Outcome { golden, printed: Some(printed) })
    }

    pub(crate) fn read(&self, module: &str) -> Result<Module, String> {
        script::read(module, &self.engine).map_err(|error| format!("{error}"))
    }

    pub(crate) fn print(&self, module: &Module) -> Result<String, String> {
        script::print_with_values(module, &self.engine).map_err(|error| error.to_string())
    }

    fn show(&self, run: &Run) -> Result<String, String> {
        let said: String = run.said.iter().map(|said| format!("{said}\n")).collect();
        Ok(match &run.result {
            Ok(module) => said + &self.print(module)?,
            Err(Failure { pass, function, message }) => {
                let function = function.as_ref().map_or(String::new(), |name| format!(", function `{name}`"));
                format!("{said}pass `{pass}`{function}: {message}\n")
            }
        })
    }
}

/// A diagnostic as both ways have it.
pub(crate) fn diagnostic(pass: &str, function: Option<&str>, message: &str) -> String {
    format!("{pass}: {}: {message}", function.unwrap_or("-"))
}

/// The library says where a pass panicked, a panic of this process does not.
fn without_place(message: &str) -> String {
    let cut = |text: &str| Some(text.rsplit_once(" (")?.0.to_string());
    let panicked = message.starts_with("panicked: ");
    panicked.then(|| cut(message)).flatten().unwrap_or_else(|| message.to_string())
}
