//! The command `ops`: lists and explains operators.

use crate::cli::arguments::Plugins;
use crate::cli::show::{heading, owner_rows, table};
use crate::engine::Engine;
use crate::report::error::Error;
use clap::Args;
use passhost_lang::metadata::{ArgInfo, AttrInfo, OpInfo, summary};
use passhost_lang::names::visible::visible_line;
use passhost_lang::typing::operator_checks::{argument_kind, default_text, signature, type_name};
use registry::{OwnerId, Registry};
use serde_json::{Value, json};

#[derive(Args)]
pub(in crate::cli) struct OpsArgs {
    /// The full name of an operator, such as relax.nn.conv2d or R.nn.conv2d, or an unambiguous suffix: conv2d.
    pub(in crate::cli) name: Option<String>,
    #[command(flatten)]
    pub(in crate::cli) plugins: Plugins,
    /// Prints the operators as JSON.
    #[arg(long)]
    pub(in crate::cli) json: bool,
}

/// An operator and the plugin that declares it.
type Operator<'r> = (&'r OpInfo, OwnerId);

/// Lists all operators, or explains the named operator.
///
/// # Errors
/// If the name matches no operator, or more than one.
pub(in crate::cli) fn ops(engine: &Engine, args: &OpsArgs) -> Result<String, Error> {
    let registry = engine.registry();
    let named = args.name.as_deref().map(|name| registry.find_operator(name)).transpose()?;
    Ok(match (named, args.json) {
        (Some(operator), false) => explain_operator(registry, operator),
        (Some(operator), true) => format!("{:#}\n", operator_json(registry, operator)),
        (None, false) => list(registry),
        (None, true) => {
            let all: Value = sorted(registry).into_iter().map(|operator| operator_json(registry, operator)).collect();
            format!("{all:#}\n")
        }
    })
}

fn sorted(registry: &Registry) -> Vec<Operator<'_>> {
    let mut operators: Vec<_> = registry.operators().collect();
    operators.sort_by(|a, b| a.0.name.cmp(&b.0.name));
    operators
}

fn list(registry: &Registry) -> String {
    let mut rows = vec![["OPERATOR", "PLUGIN", "CALLED AS", "WHAT IT DOES"].map(str::to_string).to_vec()];
    for (info, owner) in sorted(registry) {
        let plugin = registry.owner(owner).name.clone();
        rows.push(vec![info.name.clone(), plugin, signature(info), summary(&info.doc)]);
    }
    table(&rows)
}

/// Explains one operator.
pub(super) fn explain_operator(registry: &Registry, (info, owner): Operator<'_>) -> String {
    let mut rows = owner_rows(registry.owner(owner));
    let pure = if info.pure { "yes" } else { "no: a call has side effects" };
    rows.extend([vec!["called as".to_string(), signature(info)], vec!["pure".to_string(), pure.to_string()]]);
    let mut out = heading(&format!("{} (operator)", info.name), &info.doc) + &table(&rows);
    section(&mut out, "arguments", info.args.iter().map(argument));
    section(&mut out, "attributes", info.attrs.iter().map(attribute));
    out
}

/// Appends a heading with a line for each part. Appends nothing if `parts` is empty.
fn section(out: &mut String, title: &str, parts: impl ExactSizeIterator<Item = String>) {
    if parts.len() > 0 {
        out.push_str(&format!("\n{title}\n"));
        parts.for_each(|part| out.push_str(&format!("    {}\n", visible_line(&part))));
    }
}

fn argument(arg: &ArgInfo) -> String {
    let kind = argument_kind(arg.kind);
    match arg.name.strip_prefix('*') {
        Some(name) => format!("{name}: {kind}, any number of times"),
        None => format!("{}: {kind}{}", arg.name, if arg.optional { " (optional)" } else { "" }),
    }
}

fn attribute(attr: &AttrInfo) -> String {
    let default = attr.default.as_ref().map(default_text);
    let default = default.map_or("must be given".to_string(), |default| format!("default {default}"));
    format!("{}: {} ({default})", attr.name, type_name(attr.ty))
}

fn operator_json(registry: &Registry, (info, owner): Operator<'_>) -> Value {
    let argument = |arg: &ArgInfo| {
        let (name, variadic) = (arg.name.trim_start_matches('*'), arg.name.starts_with('*'));
        json!({ "name": name, "kind": argument_kind(arg.kind), "optional": arg.optional, "variadic": variadic })
    };
    let attribute = |attr: &AttrInfo| {
        let default = attr.default.as_ref().map(default_text);
        json!({ "name": attr.name, "kind": type_name(attr.ty), "default": default })
    };
    json!({
        "operator": info.name,
        "plugin": registry.owner(owner).name,
        "called_as": signature(info),
        "pure": info.pure,
        "arguments": info.args.iter().map(argument).collect::<Value>(),
        "attributes": info.attrs.iter().map(attribute).collect::<Value>(),
        "doc": info.doc,
    })
}
