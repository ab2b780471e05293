//! The command `blame`: shows which passes created a variable of the result, and from which
//! variables.

use super::executed::named::{Named, function_with, variables};
use super::executed::prepared;
use super::reading::in_the_original_process;
use crate::cli::arguments::{InputArgs, IsolateArgs, Select};
use crate::cli::messages::Messages;
use crate::engine::Engine;
use crate::files::to_stdout;
use crate::report::error::{Error, exit};
use crate::run::provenance::Link;
use clap::Args;
use passhost_lang::ir::Module;
use passhost_lang::names::{listed, nearest};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::fmt::Write;

#[derive(Args)]
pub(in crate::cli) struct BlameArgs {
    #[command(flatten)]
    pub(in crate::cli) module: InputArgs,
    /// The variable of the module after all passes.
    #[arg(long, value_name = "VARIABLE")]
    pub(in crate::cli) at: String,
    /// The function with the variable. Default: the only function that contains it.
    #[arg(long, value_name = "NAME")]
    pub(in crate::cli) function: Option<String>,
    /// Prints the chain as JSON.
    #[arg(long)]
    pub(in crate::cli) json: bool,
    #[command(flatten)]
    pub(in crate::cli) select: Select,
    #[command(flatten)]
    pub(in crate::cli) isolate: IsolateArgs,
}

/// Runs the passes and shows the chain. Returns the exit code.
pub(in crate::cli) fn blame(args: &BlameArgs, messages: Messages) -> Result<u8, Error> {
    let prepared = prepared(&args.module, &args.isolate, &args.select, messages)?;
    let engine = &prepared.engine;
    let report = prepared.run(prepared.quiet_runner().provenance(true), messages)?;
    in_the_original_process()?;
    if let Some(error) = report.error {
        return Err(error);
    }
    let Some(provenance) = &report.provenance else { return Ok(exit::FAULT) };
    let named = Named { variable: &args.at, function: args.function.as_deref(), when: "after all passes" };
    let functions: Vec<_> = report.module.functions().collect();
    let help = || {
        let known: Vec<&str> = functions.iter().flat_map(|(_, body)| variables(body)).collect();
        let all = "use `passhost run` with the same passes to show the module with all its variables";
        match nearest(&args.at, known.iter().copied()).is_empty() {
            true => format!("variables: {}; {all}", listed(&known)),
            false => all.to_string(),
        }
    };
    let (_, body) = function_with(&named, &functions, help)?;
    let found = body.values().find(|value| value.is_bound() && value.name() == Some(&args.at));
    let chain = found.and_then(|value| value.index()).map_or_else(Vec::new, |at| provenance.chain(body, at));
    let mut texts = Texts { engine, known: HashMap::new() };
    to_stdout(&if args.json { as_json(&chain, &mut texts) } else { as_text(&chain, &mut texts) })?;
    engine.close()?;
    Ok(exit::DONE)
}

/// Prints bindings. Each function is printed only once.
struct Texts<'e> {
    engine: &'e Engine,
    known: HashMap<usize, Option<script::Printed>>,
}

impl Texts<'_> {
    /// Returns the first line of a binding, or its name if it is not on a line of its own.
    fn of(&mut self, link: &Link<'_>) -> String {
        let name = || link.value().name().unwrap_or("an unnamed value").to_string();
        let printed = self.known.entry(link.body.addr()).or_insert_with(|| {
            let module = Module::new([(link.function, link.body.clone())]);
            script::print_with_spans(&module, self.engine).ok()
        });
        let text = printed.as_ref().and_then(|printed| {
            let span = printed.spans.get(link.function)?.get(link.at)?.clone();
            let start = printed.text[..span.start].rfind('\n').map_or(0, |at| at + 1);
            // A part of a line, such as a parameter, is not a line of its own.
            let is_line = printed.text[start..span.start].trim().is_empty();
            is_line.then(|| printed.text[span].lines().next().map(str::to_string)).flatten()
        });
        text.unwrap_or_else(name)
    }
}

fn as_text(chain: &[Link<'_>], texts: &mut Texts<'_>) -> String {
    let mut out = String::new();
    for link in chain {
        let indent = "    ".repeat(link.depth);
        let _ = writeln!(out, "{indent}{}  (function {})", texts.of(link), link.function);
        let _ = match link.maker {
            _ if link.again => writeln!(out, "{indent}  as above"),
            None => writeln!(out, "{indent}  in the input"),
            Some(maker) => {
                let hash = maker.hash.as_deref().map_or(String::new(), |hash| format!(" ({hash})"));
                writeln!(out, "{indent}  step {}, {} of {}{hash}", maker.position, maker.pass, maker.plugin)
            }
        };
    }
    out
}

fn as_json(chain: &[Link<'_>], texts: &mut Texts<'_>) -> String {
    let link = |link: &Link<'_>| {
        let made =
            link.maker.map(|it| json!({ "step": it.position, "pass": it.pass, "plugin": it.plugin, "hash": it.hash }));
        json!({
            "depth": link.depth,
            "function": link.function,
            "variable": link.value().name(),
            "text": texts.of(link),
            "made_by": made,
            "again": link.again,
        })
    };
    format!("{:#}\n", Value::from(chain.iter().map(link).collect::<Vec<_>>()))
}
