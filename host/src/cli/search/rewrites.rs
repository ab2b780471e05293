//! The rewrite with which a fault begins, and the bindings without which it is not there.

use super::Prepared;
use super::predicate::{Passes, Predicate};
use super::reduce::write;
use super::smaller::{Texts, Way};
use crate::report::error::Error;
use crate::run::limits::heard;
use passhost_lang::ir::{Module, Value};
use serde_json::Value as Json;
use std::path::Path;

/// No pass applies more rewrites in a function.
const MOST: u32 = 1 << 24;

/// More bindings tell nobody where a fault is.
const FEW: usize = 3;

/// A rewrite of a pass in a function.
pub(super) struct Rewrite {
    /// Which one, from 1.
    pub(super) number: u32,
    /// The name of a value that it is about.
    pub(super) at: Option<String>,
}

/// A pass that is searched, alone, and the least module that shows the fault.
pub(super) struct Place<'p> {
    pub(super) prepared: &'p Prepared,
    pub(super) predicate: Predicate,
    pub(super) passes: Passes,
    pub(super) module: Module,
}

impl Place<'_> {
    /// The first rewrite with which the fault is there, in one of the functions, first without rewrites in the others; `None`
    /// if it is there without any.
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

    /// The few bindings that are left when all others became parameters of their functions.
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

/// The first rewrite in a function with which the fault is there.
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

/// Where the rewrite after so many is, which the run says that stops there.
fn next_after(passes: &Passes, function: &str, most: u32, file: &Path) -> Result<Option<String>, Error> {
    let messages = passes.clone().with(limit(function, most)).messages(file)?;
    let about = |message: &&Json| message["function"] == function;
    let next = |message: &Json| Some(heard(message["message"].as_str()?)?.1?.to_string());
    Ok(messages.iter().filter(about).find_map(next))
}

/// The option of a run that applies none.
const NO_REWRITE: &str = "--rewrites=0";

/// The option of a run that applies so many rewrites.
fn limit(function: &str, most: u32) -> String {
    format!("--rewrites={function}={most}")
}
