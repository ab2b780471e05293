//! Writes the module after passes into a folder, as numbered files.

use crate::files::replace;
use crate::report::error::Error;
use passhost_lang::PassError;
use passhost_lang::ir::Module;
use plugin_api::declare::instrument::{PassFacts, PassInstrument};
use script::Operators;
use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

/// The instrument. Files are `000_relax.Normalize.py`, …, in the order in which passes end.
pub struct Dump {
    folder: PathBuf,
    /// True if modules that did not change are written, too.
    all: bool,
    operators: Arc<dyn Operators>,
    written: usize,
    /// The module before each pass in progress.
    before: Vec<Module>,
    /// The most recently printed module, with its text.
    printed: Option<(Module, String)>,
    failure: Failure,
}

/// The failure that prevented a module from being written, shared with the instrument, because it does not stop the run.
pub type Failure = Rc<RefCell<Option<Error>>>;

impl Dump {
    /// Creates an instrument that writes to an existing folder. Unless `all` is true, it writes only modules whose text changed.
    pub fn new(folder: PathBuf, all: bool, operators: Arc<dyn Operators>) -> Dump {
        Dump { folder, all, operators, written: 0, before: Vec::new(), printed: None, failure: Failure::default() }
    }

    /// Returns the cell for the first failure, after which nothing more is written.
    pub fn failure(&self) -> Failure {
        Rc::clone(&self.failure)
    }

    fn write(&mut self, pass: &str, text: &str) {
        let path = self.folder.join(format!("{:03}_{}.py", self.written, file_name(pass)));
        match replace(&path, text) {
            Ok(()) => self.written += 1,
            Err(error) => *self.failure.borrow_mut() = Some(Error::Write { path, message: error.to_string() }),
        }
    }

    fn print(&mut self, module: &Module) -> String {
        match &self.printed {
            Some((known, text)) if known.same(module) => text.clone(),
            _ => script::print(module, &*self.operators).unwrap_or_else(|error| format!("# {error}\n")),
        }
    }
}

/// Maximum length of the pass name, because a file name has at most 255 bytes.
const LONGEST: usize = 200;

/// Makes the name of a pass valid in file names of every system.
fn file_name(pass: &str) -> String {
    let end = pass.floor_char_boundary(LONGEST);
    pass[..end].replace(|c: char| c.is_control() || "<>:\"/\\|?*".contains(c), "_")
}

impl PassInstrument for Dump {
    fn run_before(&mut self, module: &Module, _: &PassFacts<'_>) -> Result<(), PassError> {
        self.before.push(module.clone());
        Ok(())
    }

    fn run_after(&mut self, module: &Module, pass: &PassFacts<'_>) -> Result<(), PassError> {
        let before = self.before.pop().filter(|_| !self.all);
        if self.failure.borrow().is_some() {
            return Ok(());
        }
        if before.as_ref().is_some_and(|before| before.same(module)) {
            return Ok(());
        }
        // The result of a Sequential is in the file of its last member.
        if !self.all && self.printed.as_ref().is_some_and(|(written, _)| written.same(module)) {
            return Ok(());
        }
        let before = before.map(|before| self.print(&before));
        let text = self.print(module);
        if before.is_none_or(|before| before != text) {
            self.write(pass.name, &text);
        }
        self.printed = Some((module.clone(), text));
        Ok(())
    }

    fn run_failed(&mut self, _: &Module, _: &PassFacts<'_>, _: &str) -> Result<(), PassError> {
        self.before.pop();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_character_that_some_system_refuses_is_replaced() {
        assert_eq!(file_name("relax.Normalize"), "relax.Normalize");
        assert_eq!(file_name(&"π".repeat(300)), "π".repeat(100));
        assert_eq!(file_name("a\nb"), "a_b");
        assert_eq!(file_name("a<b>c:d\"e/f\\g|h?i*j"), "a_b_c_d_e_f_g_h_i_j");
    }
}
