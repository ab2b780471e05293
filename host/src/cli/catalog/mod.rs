//! Lists the properties and config options of plugins, and explains single items by name.

mod formats;
mod instruments;
pub(super) mod operators;
mod passes;

use super::show::{heading, or_dash, owner_rows, table};
use crate::cli::arguments::Plugins;
use crate::engine::Engine;
use crate::report::error::Error;
use clap::Args;
use formats::explain_format;
use operators::explain_operator;
pub(super) use operators::ops;
use passhost_lang::metadata::{PassInfo, summary};
use passhost_lang::names::{did_you_mean, nearest};
use registry::{Direction, Owner, Registry, RegistryError};

#[derive(Args)]
pub(in crate::cli) struct ListArgs {
    #[command(flatten)]
    pub(in crate::cli) plugins: Plugins,
}

#[derive(Args)]
pub(in crate::cli) struct ExplainArgs {
    /// Full or short name of a pass, instrument or operator, or full name of a property or config option.
    pub(in crate::cli) name: String,
    #[command(flatten)]
    pub(in crate::cli) plugins: Plugins,
}

/// Lists all passes, instruments, properties, config options and file formats.
pub(super) fn list(registry: &Registry) -> String {
    let mut out = passes::list(registry) + &instruments::list(registry);
    if registry.properties().next().is_some() {
        out.push_str(&format!("\n{}", properties(registry)));
    }
    if registry.config_options().next().is_some() {
        out.push_str(&format!("\n{}", config(registry)));
    }
    out.push_str(&formats::list(registry));
    out
}

fn properties(registry: &Registry) -> String {
    let mut rows = vec![["PROPERTY", "PLUGIN", "CHECKED", "ESTABLISHED BY", "WHAT HOLDS"].map(str::to_string).to_vec()];
    let mut properties: Vec<_> = registry.properties().collect();
    properties.sort_by(|a, b| a.0.name.cmp(&b.0.name));
    for (info, owner) in properties {
        rows.push(vec![
            info.name.clone(),
            registry.owner(owner).name.clone(),
            yes_or_no(info.checked),
            or_dash(registry.establishing(&info.name).map(|id| registry.pass(id).name.clone()).collect()),
            summary(&info.doc),
        ]);
    }
    table(&rows)
}

fn yes_or_no(yes: bool) -> String {
    if yes { "yes" } else { "no" }.to_string()
}

/// Lists all config options.
pub(super) fn config(registry: &Registry) -> String {
    let head = ["CONFIG OPTION", "PLUGIN", "TYPE", "DEFAULT", "RANGE", "WHAT IT SAYS"];
    let mut rows = vec![head.map(str::to_string).to_vec()];
    let mut options: Vec<_> = registry.config_options().collect();
    options.sort_by(|a, b| a.0.name.cmp(&b.0.name));
    for (info, owner) in options {
        rows.push(vec![
            info.name.clone(),
            registry.owner(owner).name.clone(),
            info.ty.to_string(),
            info.default.as_ref().map_or("-".to_string(), ToString::to_string),
            info.allowed.text().unwrap_or("-".to_string()),
            summary(&info.doc),
        ]);
    }
    table(&rows)
}

/// Explains everything with this name: a pass, an instrument, a property, a config option, an operator, a file format.
pub(super) fn explain(engine: &Engine, name: &str) -> Result<String, Error> {
    let registry = engine.registry();
    let (pass, instrument) = (registry.find(name), registry.find_instrument(name));
    let operator = registry.find_operator(name);
    let found: Vec<String> = [
        pass.as_ref().ok().map(|pass| passes::explain(engine, *pass)),
        instrument.as_ref().ok().map(|instrument| instruments::explain_instrument(engine, *instrument)),
        explain_property(registry, name),
        explain_config(registry, name),
        operator.as_ref().ok().map(|operator| explain_operator(registry, *operator)),
        explain_format(registry, Direction::Read, name),
        explain_format(registry, Direction::Write, name),
    ]
    .into_iter()
    .flatten()
    .collect();
    if !found.is_empty() {
        return Ok(found.join("\n"));
    }
    for error in [pass.err(), instrument.err(), operator.err()].into_iter().flatten() {
        if matches!(error, RegistryError::Ambiguous { .. } | RegistryError::AmbiguousOperator { .. }) {
            return Err(error.into());
        }
    }
    let passes = registry.passes().map(|(_, info)| info.name.as_str());
    let instruments = registry.instruments().map(|(_, info)| info.name.as_str());
    let properties = registry.properties().map(|(info, _)| info.name.as_str());
    let options = registry.config_options().map(|(info, _)| info.name.as_str());
    let operators = registry.operators().map(|(info, _)| info.name.as_str());
    let formats = [Direction::Read, Direction::Write].into_iter().flat_map(|direction| registry.formats(direction));
    let formats = formats.map(|(info, _)| info.name.as_str());
    let known = passes.chain(instruments).chain(properties).chain(options).chain(operators).chain(formats);
    let near = did_you_mean(&nearest(name, known));
    Err(Error::Request {
        message: format!("no pass, instrument, property, config option, operator or file format `{name}`{near}"),
        help: "`passhost list` and `passhost ops` show all of them".to_string(),
    })
}

fn explain_property(registry: &Registry, name: &str) -> Option<String> {
    let (info, owner, _) = registry.property(name)?;
    let using = |list: fn(&PassInfo) -> &[String]| {
        let users = registry.passes().filter(|(_, pass)| list(pass).iter().any(|item| item == name));
        or_dash(users.map(|(_, pass)| pass.name.clone()).collect())
    };
    let facts = [
        ("checked", yes_or_no(info.checked)),
        ("established by", using(|pass| &pass.contract.establishes)),
        ("needed by", using(|pass| &pass.contract.requires)),
    ];
    Some(explained(registry.owner(owner), &format!("{name} (property)"), &info.doc, &facts))
}

fn explain_config(registry: &Registry, name: &str) -> Option<String> {
    let (info, owner) = registry.config(name)?;
    let facts = [
        ("type", info.ty.to_string()),
        ("default", info.default.as_ref().map_or("-".to_string(), ToString::to_string)),
        ("range", info.allowed.text().unwrap_or("-".to_string())),
    ];
    Some(explained(registry.owner(owner), &format!("{name} (config option)"), &info.doc, &facts))
}

fn explained(owner: &Owner, title: &str, doc: &str, facts: &[(&str, String)]) -> String {
    let mut rows = owner_rows(owner);
    rows.extend(facts.iter().map(|(what, is)| vec![(*what).to_string(), is.clone()]));
    format!("{}{}", heading(title, doc), table(&rows))
}
