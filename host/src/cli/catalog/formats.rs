//! Lists the readers and writers of file formats, and explains one of them.

use crate::cli::show::{explain_option, heading, or_dash, owner_rows, table};
use passhost_lang::metadata::FormatInfo;
use passhost_lang::names::visible::visible_line;
use registry::{Direction, Registry};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Lists the formats that plugins read or write; empty if there are none.
pub(super) fn list(registry: &Registry) -> String {
    let mut rows = vec![["FORMAT", "PLUGIN", "HOW", "EXTENSIONS", "WHAT IT DOES"].map(str::to_string).to_vec()];
    let mut formats: BTreeMap<(&str, &str), Vec<String>> = BTreeMap::new();
    for (direction, how) in [(Direction::Read, "read"), (Direction::Write, "written")] {
        for (info, owner) in registry.formats(direction) {
            let owner = registry.owner(owner).name.clone();
            let row = vec![info.name.clone(), owner, how.to_string(), extensions(info), info.summary()];
            formats.insert((&info.name, how), row);
        }
    }
    rows.extend(formats.into_values());
    if rows.len() == 1 { String::new() } else { format!("\n{}", table(&rows)) }
}

fn extensions(info: &FormatInfo) -> String {
    or_dash(info.extensions.iter().map(|extension| format!(".{extension}")).collect())
}

/// Explains a reader or a writer.
pub(super) fn explain_format(registry: &Registry, direction: Direction, name: &str) -> Option<String> {
    let format = registry.format(direction, name)?;
    let info = format.info;
    let mut out = heading(&format!("{name} ({direction} of a file format)"), &info.doc);
    let mut rows = owner_rows(registry.owner(format.owner));
    rows.push(vec!["extensions".to_string(), extensions(info)]);
    if direction == Direction::Read {
        let begins = info.begins.iter().map(|begin| format!("`{}`", begin.escape_ascii())).collect();
        rows.push(vec!["begins with".to_string(), or_dash(begins)]);
    }
    out.push_str(&table(&rows));
    if !info.options.is_empty() {
        let option = if direction == Direction::Read { "--from" } else { "--to" };
        let _ = writeln!(out, "\noptions, as in {option} '{name}{{{}=...}}'", info.options[0].name);
        info.options.iter().for_each(|option| explain_option(&mut out, option));
    }
    if !info.example.is_empty() {
        let _ = writeln!(out, "\nexample\n    {}", visible_line(&info.example));
    }
    Some(out)
}
