//! Finds the rewrite that introduces a fault, and the bindings that it needs.

use super::predicate::{Passes, Predicate};
use super::prepared::Prepared;
use super::reduce::write;
use super::smaller::{Texts, Way};
use crate::report::error::Error;
use crate::run::limits::heard;
use passhost_lang::ir::{Module, Value};
use serde_json::Value as Json;
use std::path::Path;

/// Upper bound for the number of rewrites in a function.
const MOST: u32 = 1 << 24;

/// Maximum number of bindings that is still a useful result.
const FEW: usize = 3;

/// A rewrite of a pass in a function.
pub(super) struct Rewrite {
    /// The number of the rewrite, from 1.
    pub(super) number: u32,
    /// The name of a value that the rewrite changes.
    pub(super) at: Option<String>,
}

/// A pass that runs alone, and a reduced module that shows the fault.
pub(super) struct Place<'p> {
    pub(super) prepared: &'p Prepared,
    pub(super) predicate: Predicate,
    pub(super) passes: Passes,
    pub(super) module: Module,
}

impl Place<'_> {
    /// Finds the rewrite that introduces the fault, and its function. First tries each function with no rewrites in the
    /// other functions. Returns `None` if no single rewrite introduces the fault.
    pub(super) fn rewrite(&self) -> Result<Option<(String, Rewrite)>, Error> {
        let file = self.prepared.folder.path().join("rewrites.py");
        write(&file, &self.prepared.engine.print_module(&self.module)?)?;
        let alone = self.passes.clone().with(NO_REWRITE);
        for (predicate, passes) in
            [(self.predicate.clone().with(NO_REWRITE), &alone), (self.predicate.clone(), &self.passes)]
        {
            for (name, _) in self.module.functions() {
                if let Some(number) = first_rewrite(&predicate, name, &file)? {
                    let at = next_after(passes, name, number - 1, &file)?;
                    return Ok(Some((name.to_string(), Rewrite { number, at })));
                }
            }
        }
        Ok(None)
    }

    /// Turns every binding that the fault does not need into a parameter. Returns the remaining bindings, if they are
    /// few.
    pub(super) fn bindings(&self) -> Result<Vec<String>, Error> {
        let texts = Texts { engine: &self.prepared.engine };
        let file = self.prepared.folder.path().join("bindings.py");
        let mut module = self.module.clone();
        let mut chunk = Way::Bindings.count(&module, &texts);
        while chunk > 0 {
            let mut at = 0;
            while at < Way::Bindings.count(&module, &texts) {
                let end = (at + chunk).min(Way::Bindings.count(&module, &texts));
                let smaller = Way::Bindings.without(&module, at..end, &texts);
                let text = smaller.as_ref().and_then(|smaller| self.prepared.engine.print_module(smaller).ok());
                let holds =
                    text.map(|text| write(&file, &text).and_then(|()| self.predicate.holds(&file))).transpose()?;
                match smaller.filter(|_| holds == Some(true)) {
                    Some(smaller) => module = smaller,
                    None => at = end,
                }
            }
            chunk /= 2;
        }
        let bindings = module.functions().flat_map(|(_, body)| body.bindings());
        let names: Vec<String> = bindings.filter_map(Value::name).map(str::to_string).collect();
        Ok(if names.len() <= FEW { names } else { Vec::new() })
    }
}

/// Finds, by binary search, the number of the rewrite of a function that introduces the fault.
fn first_rewrite(predicate: &Predicate, function: &str, file: &Path) -> Result<Option<u32>, Error> {
    let holds = |most: u32| predicate.clone().with(limit(function, most)).holds(file);
    if holds(0)? || !holds(MOST)? {
        return Ok(None);
    }
    let (mut good, mut bad) = (0, 1);
    while !holds(bad)? {
        (good, bad) = (bad, bad * 2);
    }
    while bad - good > 1 {
        let middle = good + (bad - good) / 2;
        if holds(middle)? { bad = middle } else { good = middle }
    }
    Ok(Some(bad))
}

/// Returns the value that the rewrite after the first `most` rewrites changes, as a run with this limit reports it.
fn next_after(passes: &Passes, function: &str, most: u32, file: &Path) -> Result<Option<String>, Error> {
    let messages = passes.clone().with(limit(function, most)).messages(file)?;
    let about = |message: &&Json| message["function"] == function;
    let next = |message: &Json| Some(heard(message["message"].as_str()?)?.1?.to_string());
    Ok(messages.iter().filter(about).find_map(next))
}

/// The option that applies no rewrites.
const NO_REWRITE: &str = "--rewrites=0";

/// Returns the option that applies at most `most` rewrites in a function.
fn limit(function: &str, most: u32) -> String {
    format!("--rewrites={function}={most}")
}
