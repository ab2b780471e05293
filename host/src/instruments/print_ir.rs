//! Prints the module before and after passes: the whole module, single functions, or only changes.

use crate::report::diff::unified;
use anstyle::{AnsiColor, Style};
use passhost_lang::PassError;
use passhost_lang::ir::Module;
use passhost_lang::metadata::Granularity;
use plugin_api::declare::instrument::{PassFacts, PassInstrument};
use script::Operators;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

/// A selection of passes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Passes {
    /// No passes.
    #[default]
    None,
    /// The passes with these full names.
    Named(BTreeSet<String>),
    /// All passes except Sequentials.
    All,
}

impl Passes {
    /// Returns true if the pass is selected. `All` does not select Sequentials, which must be selected by name.
    fn has(&self, pass: &PassFacts<'_>) -> bool {
        match self {
            Passes::None => false,
            Passes::Named(names) => names.contains(pass.name),
            Passes::All => pass.granularity != Granularity::Composite,
        }
    }
}

/// The form in which the changes of a pass are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Changes {
    /// A unified diff.
    Diff,
    /// New and changed functions, each in its own module; removed functions are listed by name.
    Functions,
    /// The module after the pass.
    Module,
}

/// The modules to print.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Printed {
    /// The module before these passes.
    pub before: Passes,
    /// The module after these passes.
    pub after: Passes,
    /// The changes of each pass, except Sequentials. Nothing is printed for passes that change nothing.
    pub changes: Option<Changes>,
    /// Names of functions to print instead of whole modules, each in its own module; empty for whole modules.
    pub functions: BTreeSet<String>,
    /// True if diffs are coloured.
    pub coloured: bool,
}

impl Printed {
    /// Returns true if there is anything to print.
    pub fn prints(&self) -> bool {
        (&self.before, &self.after, self.changes) != (&Passes::None, &Passes::None, None)
    }
}

/// The instrument. Each text begins with a line such as `# before step 1: relax.Normalize (passhost-relax-passes)`, and is followed by a
/// blank line.
pub struct PrintIr {
    printed: Printed,
    operators: Arc<dyn Operators>,
    out: Box<dyn FnMut(&str)>,
    /// The module before each unfinished pass, if it is needed later.
    before: Vec<Module>,
    met: Met,
}

/// The functions selected by name that have occurred in a module, shared with the instrument.
pub type Met = Rc<RefCell<BTreeSet<String>>>;

impl PrintIr {
    /// Creates an instrument that prints to `out`.
    pub fn new(printed: Printed, operators: Arc<dyn Operators>, out: Box<dyn FnMut(&str)>) -> PrintIr {
        PrintIr { printed, operators, out, before: Vec::new(), met: Met::default() }
    }

    /// Returns the functions selected by name that have occurred in a module.
    pub fn met(&self) -> Met {
        Rc::clone(&self.met)
    }

    fn meet(&self, module: &Module) {
        let here = self.printed.functions.iter().filter(|name| module.get(name).is_some()).cloned();
        self.met.borrow_mut().extend(here);
    }

    fn tell(&mut self, when: &str, pass: &PassFacts<'_>, text: &str) {
        let PassFacts { name, plugin, position, .. } = pass;
        (self.out)(&format!("# {when} step {position}: {name} ({plugin})\n{text}\n"));
    }

    /// Prints the module, or the selected functions.
    fn text(&self, module: &Module) -> String {
        if self.printed.functions.is_empty() {
            return script::print(module, &*self.operators).unwrap_or_else(|error| format!("# {error}\n"));
        }
        self.printed.functions.iter().map(|name| self.function(name, module)).collect()
    }

    fn function(&self, name: &str, module: &Module) -> String {
        match module.get(name) {
            Some(body) => {
                script::print_function(name, body, &*self.operators).unwrap_or_else(|error| format!("# {error}\n"))
            }
            None => format!("# no function `{name}`\n"),
        }
    }

    /// Prints the difference between two modules; returns `None` if they are equal.
    fn difference(&self, before: &Module, after: &Module, how: Changes) -> Option<String> {
        if before.same(after) {
            return None;
        }
        match how {
            Changes::Functions => {
                let names = changed_functions(before, after);
                let asked = |name: &&str| self.printed.functions.is_empty() || self.printed.functions.contains(*name);
                let texts: Vec<String> =
                    names.into_iter().filter(asked).map(|name| self.function(name, after)).collect();
                (!texts.is_empty()).then(|| texts.join("\n"))
            }
            Changes::Diff => {
                let text = unified(&self.text(before), &self.text(after));
                (!text.is_empty()).then(|| if self.printed.coloured { paint(&text) } else { text })
            }
            Changes::Module => {
                let text = self.text(after);
                (self.text(before) != text).then_some(text)
            }
        }
    }
}

/// Returns the names of new, removed and changed functions.
fn changed_functions<'m>(before: &'m Module, after: &'m Module) -> BTreeSet<&'m str> {
    let differs = |a: &'m Module, b: &'m Module| {
        a.functions().filter(|(name, body)| !b.get(name).is_some_and(|other| other.same(body))).map(|(name, _)| name)
    };
    differs(before, after).chain(differs(after, before)).collect()
}

/// Colours a diff: removed lines are red, added lines green, and positions cyan.
fn paint(diff: &str) -> String {
    let paint = |line: &str| {
        let colour = match line.as_bytes().first() {
            _ if line.starts_with("---") || line.starts_with("+++") => Style::new().bold(),
            Some(b'-') => AnsiColor::Red.on_default(),
            Some(b'+') => AnsiColor::Green.on_default(),
            Some(b'@') => AnsiColor::Cyan.on_default(),
            _ => return line.to_string(),
        };
        let (text, end) = line.strip_suffix('\n').map_or((line, ""), |text| (text, "\n"));
        format!("{colour}{text}{colour:#}{end}")
    };
    diff.split_inclusive('\n').map(paint).collect()
}

impl PassInstrument for PrintIr {
    fn run_before(&mut self, module: &Module, pass: &PassFacts<'_>) -> Result<(), PassError> {
        self.meet(module);
        if self.printed.before.has(pass) {
            let text = self.text(module);
            self.tell("before", pass, &text);
        }
        if self.printed.changes.is_some() {
            self.before.push(module.clone());
        }
        Ok(())
    }

    fn run_after(&mut self, module: &Module, pass: &PassFacts<'_>) -> Result<(), PassError> {
        self.meet(module);
        let before = self.before.pop().filter(|_| pass.granularity != Granularity::Composite);
        let changes = before.zip(self.printed.changes);
        if let Some(text) = changes.and_then(|(before, how)| self.difference(&before, module, how)) {
            self.tell("changed by", pass, &text);
        }
        if self.printed.after.has(pass) {
            let text = self.text(module);
            self.tell("after", pass, &text);
        }
        Ok(())
    }

    fn run_failed(&mut self, _: &Module, pass: &PassFacts<'_>, message: &str) -> Result<(), PassError> {
        self.before.pop();
        if self.printed.after.has(pass) {
            let message = message.lines().map(|line| format!("# {line}\n")).collect::<String>();
            self.tell("failed in", pass, &message);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn diffs_are_coloured_line_by_line() {
        let diff = unified("a\nb\n", "a\nc\n");
        let painted = paint(&diff);
        let coloured: Vec<&str> = painted.lines().filter(|line| line.starts_with('\u{1b}')).collect();
        assert_eq!(coloured.len(), diff.lines().count() - 1, "all but ` a`: {painted:?}");
        assert!(coloured.iter().all(|line| line.ends_with("\u{1b}[0m")), "{painted:?}");
        assert_eq!(anstream::adapter::strip_str(&painted).to_string(), diff);
    }
}
