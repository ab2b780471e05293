//! Lists and explains the passes of plugins.

use crate::cli::show::{explain_option, heading, or_dash, owner_rows, sha256, table};
use crate::engine::Engine;
use passhost_lang::metadata::{ConfigInfo, PassInfo};
use passhost_lang::names::visible::{visible, visible_line};
use registry::{PassId, Registry};
use std::fmt::Write;

/// Lists all passes.
pub(super) fn list(registry: &Registry) -> String {
    let mut rows =
        vec![["PASS", "PLUGIN", "LEVEL", "WORKS ON", "REQUIRED", "WHAT IT DOES"].map(str::to_string).to_vec()];
    let mut passes: Vec<(PassId, &PassInfo)> = registry.passes().collect();
    passes.sort_by(|a, b| a.1.name.cmp(&b.1.name));
    for (id, info) in passes {
        let required: Vec<String> = info.required.iter().map(ToString::to_string).collect();
        rows.push(vec![
            info.name.clone(),
            registry.pass_owner(id).name.clone(),
            info.opt_level.to_string(),
            info.granularity.to_string(),
            if required.is_empty() { "-".to_string() } else { required.join(",") },
            info.summary(),
        ]);
    }
    table(&rows)
}

/// Explains one pass.
pub(super) fn explain(engine: &Engine, pass: PassId) -> String {
    let registry = engine.registry();
    let (info, owner) = (registry.pass(pass), registry.pass_owner(pass));
    let mut out = heading(&info.name, &info.doc);
    let users = registry.passes().filter(|(_, other)| other.required.iter().any(|req| req.name == info.name));
    let users = users.map(|(id, other)| format!("{} ({})", other.name, registry.pass_owner(id).name)).collect();
    let mut rows = owner_rows(owner);
    rows.extend([
        vec!["sha256".to_string(), owner.file.as_deref().and_then(sha256).unwrap_or("-".to_string())],
        vec!["works on".to_string(), works_on(info)],
        vec!["opt_level".to_string(), info.opt_level.to_string()],
        vec!["requires".to_string(), or_dash(info.required.iter().map(ToString::to_string).collect())],
        vec!["required by".to_string(), or_dash(users)],
    ]);
    match registry.members(pass) {
        Some(members) => {
            let members = members.iter().map(ToString::to_string).collect();
            rows.push(vec!["members".to_string(), or_dash(members)]);
        }
        None => rows.extend([
            vec!["needs".to_string(), or_dash(info.contract.requires.clone())],
            vec!["establishes".to_string(), or_dash(info.contract.establishes.clone())],
            vec!["preserves".to_string(), or_dash(info.contract.preserves.clone())],
            vec!["invalidates".to_string(), or_dash(info.contract.invalidates.clone())],
            vec!["tolerance".to_string(), info.tolerance.to_string()],
        ]),
    }
    let inside = registry.passes().filter(|(id, _)| {
        let members = registry.members(*id).unwrap_or_default();
        members.iter().any(|member| member.name == info.name)
    });
    let inside: Vec<String> = inside.map(|(_, other)| other.name.clone()).collect();
    if !inside.is_empty() {
        rows.push(vec!["part of".to_string(), inside.join(", ")]);
    }
    if let Some(listed) = engine.listed(registry.pass_place(pass).0) {
        rows.push(vec!["plugin API".to_string(), listed.meta.api.to_string()]);
        rows.push(vec!["built by".to_string(), format!("{} for {}", listed.meta.rustc, listed.meta.target)]);
    }
    out.push_str(&table(&rows));
    if !info.options.is_empty() {
        out.push_str("\noptions\n");
        info.options.iter().for_each(|option| explain_option(&mut out, option));
    }
    if let Some(member) = registry.members(pass).unwrap_or_default().first() {
        let _ = writeln!(out, "\nto leave out a member, disable it: --disable {}", visible_line(&member.name));
    } else {
        config_of_plugin(&mut out, engine, pass);
    }
    out
}

/// Appends all config options of the plugin that owns the pass, because the metadata does not record which of them the
/// pass reads.
fn config_of_plugin(out: &mut String, engine: &Engine, pass: PassId) {
    let registry = engine.registry();
    let own = registry.pass_place(pass).0;
    let options: Vec<&ConfigInfo> =
        registry.config_options().filter(|(_, owner)| *owner == own).map(|(info, _)| info).collect();
    if options.is_empty() {
        return;
    }
    out.push_str("\nconfig options of its plugin\n");
    for info in options {
        let default = info.default.as_ref().map_or("not set".to_string(), |value| format!("default {value}"));
        let range = info.allowed.text().map_or(String::new(), |range| format!(", range {range}"));
        let _ = writeln!(out, "    {}: {} ({}{range})", visible_line(&info.name), info.ty, visible_line(&default));
        for line in visible(&info.doc).trim().lines() {
            let _ = writeln!(out, "{}", format!("        {}", line.trim()).trim_end());
        }
    }
}

fn works_on(info: &PassInfo) -> String {
    format!("{}{}", info.granularity, if info.sequential { ", never two at a time" } else { "" })
}
