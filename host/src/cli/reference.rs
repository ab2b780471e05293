//! Compares the options in `docs/command-line.md` with those of the program.
//! `BLESS=1 cargo test -p passhost --lib reference` rewrites them.

use super::commands::Cli;
use clap::{Arg, Command, CommandFactory};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

/// Marks the beginning of a generated block. The name of the command follows.
const BEGIN: &str = "<!-- options of ";
const END: &str = "<!-- end of options -->";

/// Returns the text of a help message as a table cell.
fn cell(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

/// Returns the names of an argument: `-o`, `--output <FILE>`.
fn names(arg: &Arg) -> String {
    if arg.is_positional() {
        return format!("`{arg}`");
    }
    let short = arg.get_short().map(|short| format!("`-{short}`, ")).unwrap_or_default();
    let values = arg.to_string();
    let long = arg.get_long().map(|long| format!("--{long}")).unwrap_or_default();
    let value = values.split_once(&long).map_or("", |(_, value)| value);
    format!("{short}`{long}{}`", value.trim_end_matches("...").replace('|', "\\|"))
}

fn meaning(arg: &Arg) -> String {
    let help = arg.get_long_help().or(arg.get_help()).map(ToString::to_string).unwrap_or_default();
    let mut text = cell(&help);
    if !text.ends_with('.') {
        text.push('.');
    }
    let values = arg.get_possible_values();
    if arg.get_action().takes_values() && !values.is_empty() {
        let value = |value: &clap::builder::PossibleValue| {
            let help = value.get_help().map_or(String::new(), |help| format!(" ({})", cell(&help.to_string())));
            format!("`{}`{help}", value.get_name())
        };
        let _ = write!(text, " Values: {}.", values.iter().map(value).collect::<Vec<_>>().join(", "));
    }
    let defaults: Vec<_> = arg.get_default_values().iter().map(|value| format!("`{}`", value.display())).collect();
    if arg.get_action().takes_values() && !defaults.is_empty() {
        let _ = write!(text, " Default: {}.", defaults.join(", "));
    }
    text
}

/// Returns the table of arguments and options. Options that are also in `known` are only listed by name.
fn options<'c>(args: impl Iterator<Item = &'c Arg>, known: Option<&Command>) -> String {
    let is_known = |arg: &Arg| {
        let same = |other: &Arg| other.get_id() == arg.get_id() && meaning(other) == meaning(arg);
        known.is_some_and(|known| known.get_arguments().any(same))
    };
    let (shared, own): (Vec<&Arg>, Vec<&Arg>) = args.filter(|arg| !arg.is_hide_set()).partition(|arg| is_known(arg));
    let mut out = String::new();
    if !own.is_empty() {
        out.push_str("| argument or option | meaning |\n|---|---|\n");
    }
    for arg in &own {
        let _ = writeln!(out, "| {} | {} |", names(arg), meaning(arg));
    }
    if !shared.is_empty() {
        let shared: Vec<String> = shared.into_iter().map(names).collect();
        let blank = if own.is_empty() { "" } else { "\n" };
        let _ = writeln!(out, "{blank}As for [`passhost run`](#passhost-run): {}.", shared.join(", "));
    }
    out
}

/// Returns the description, usage and options of a command; for the program itself, the options of every command.
fn block(root: &Command, name: &str) -> String {
    let Some(name) = name.strip_prefix("passhost ") else {
        return options(root.get_arguments(), None);
    };
    let command = root.find_subcommand(name).unwrap_or_else(|| panic!("unknown command `{name}`"));
    let about = command.get_long_about().or(command.get_about()).map(ToString::to_string).unwrap_or_default();
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ");
    let about = about.trim();
    let mut out = format!("    {usage}\n\n{about}{}\n\n", if about.ends_with('.') { "" } else { "." });
    let run = root.find_subcommand("run").filter(|_| name != "run");
    let own = command.get_arguments().filter(|arg| !arg.is_global_set() && arg.get_id() != "help");
    out.push_str(&options(own, run));
    if let Some(examples) = command.get_after_help().map(ToString::to_string) {
        let examples = examples.lines().filter(|line| line.starts_with("  "));
        out.push_str("\nExamples:\n\n");
        examples.for_each(|line| out.extend(["    ", line.trim(), "\n"]));
    }
    out
}

#[test]
fn the_reference_has_every_option_and_no_other() {
    let mut root = Cli::command();
    root.build();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/command-line.md");
    let found = std::fs::read_to_string(&path).expect("docs/command-line.md");
    let mut parts = found.split(BEGIN);
    let mut text = parts.next().unwrap_or_default().to_string();
    let mut documented = BTreeSet::new();
    for part in parts {
        let (name, rest) = part.split_once(" -->\n").expect("the end of a mark");
        let (_, rest) = rest.split_once(END).expect("the end of a block");
        let _ = write!(text, "{BEGIN}{name} -->\n{}{END}{rest}", block(&root, name));
        assert!(documented.insert(name.to_string()), "`{name}` is documented twice");
    }
    let commands = root.get_subcommands().filter(|command| !command.is_hide_set() && command.get_name() != "help");
    let commands = commands.map(|command| format!("passhost {}", command.get_name()));
    let expected: BTreeSet<String> = commands.chain(["passhost".to_string()]).collect();
    assert_eq!(documented, expected, "each command has one block `{BEGIN}passhost NAME -->` in docs/command-line.md");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, text).expect("docs/command-line.md can be written");
        return;
    }
    assert!(text == found, "docs/command-line.md does not match the options; run BLESS=1 cargo test to rewrite it");
}
