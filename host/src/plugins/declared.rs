//! Finds mistakes in plugin sources that the compiler cannot find: declarations that the plugin does not export, and undeclared operators in
//! patterns and calls.

use plugin_api::metadata::PluginMeta;
use plugin_api::names::did_you_mean;
use registry::Registry;
use std::fmt;
use std::path::{Path, PathBuf};

/// The kinds of items that a plugin declares with a macro or, for operators, as a constant, and exports in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A pass.
    Pass,
    /// A config option.
    Config,
    /// A property.
    Property,
    /// A composite pass.
    Composite,
    /// An instrument.
    Instrument,
    /// A reader.
    Reader,
    /// A writer.
    Writer,
    /// An operator.
    Operator,
}

impl Kind {
    /// The kinds with a macro.
    const WITH_MACRO: [Kind; 7] =
        [Kind::Pass, Kind::Config, Kind::Property, Kind::Composite, Kind::Instrument, Kind::Reader, Kind::Writer];

    /// Returns its macro or type, its name in messages, and its list in `export_plugin!`.
    fn words(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Kind::Pass => ("declare_pass!", "pass", "passes"),
            Kind::Config => ("declare_config!", "config option", "config"),
            Kind::Property => ("declare_property!", "property", "properties"),
            Kind::Composite => ("declare_composite!", "composite pass", "composites"),
            Kind::Instrument => ("declare_instrument!", "instrument", "instruments"),
            Kind::Reader => ("declare_reader!", "reader", "readers"),
            Kind::Writer => ("declare_writer!", "writer", "writers"),
            Kind::Operator => ("OpDecl", "operator", "operators"),
        }
    }

    /// Returns true if the plugin exports an item of this name.
    fn is_exported(self, name: &str, meta: &PluginMeta) -> bool {
        match self {
            Kind::Pass => meta.passes.iter().any(|pass| pass.name == name),
            Kind::Config => meta.config.iter().any(|option| option.name == name),
            Kind::Property => meta.properties.iter().any(|property| property.name == name),
            Kind::Composite => meta.composites.iter().any(|composite| composite.name == name),
            Kind::Instrument => meta.instruments.iter().any(|instrument| instrument.name == name),
            Kind::Reader => meta.readers.iter().any(|reader| reader.name == name),
            Kind::Writer => meta.writers.iter().any(|writer| writer.name == name),
            Kind::Operator => meta.operators.iter().any(|operator| operator.name == name),
        }
    }
}

/// A declaration that is missing in `export_plugin!`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unexported {
    /// Kind of the declaration.
    pub kind: Kind,
    /// Name of the item.
    pub name: String,
    /// The file, relative to the crate's folder.
    pub file: PathBuf,
    /// Line of the name, from 1.
    pub line: usize,
}

impl Unexported {
    /// Returns advice on what to do.
    pub fn remedy(&self) -> String {
        format!("add its constant to `{}` of `export_plugin!`", self.kind.words().2)
    }
}

impl fmt::Display for Unexported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Unexported { kind, name, file, line } = self;
        write!(
            f,
            "{}:{line} declares the {} `{name}`, but the plugin does not export it",
            file.display(),
            kind.words().1
        )
    }
}

/// Returns all declarations in a crate's sources that its plugin does not export, in the order of the files.
pub fn unexported(folder: &Path, meta: &PluginMeta) -> Vec<Unexported> {
    unexported_of(folder, |kind, name| kind.is_exported(name, meta))
}

fn unexported_of(folder: &Path, is_exported: impl Fn(Kind, &str) -> bool) -> Vec<Unexported> {
    let mut found = Vec::new();
    for (file, text) in texts(folder) {
        let mut all = declared(&text);
        all.extend(operators(&text).into_iter().map(|(name, line)| (Kind::Operator, name, line)));
        all.sort_by_key(|(_, _, line)| *line);
        let wrong = all.into_iter().filter(|(kind, name, _)| !is_exported(*kind, name));
        found.extend(wrong.map(|(kind, name, line)| Unexported { kind, name, file: file.clone(), line }));
    }
    found
}

/// An operator that occurs in a pattern or a call, but is not declared by any plugin. The pattern never matches, and the call
/// remains untyped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownOperator {
    /// Name of the operator.
    pub name: String,
    /// The file, relative to the crate's folder.
    pub file: PathBuf,
    /// Line of the name, from 1.
    pub line: usize,
    /// Operators with similar names.
    pub near: Vec<String>,
}

impl UnknownOperator {
    /// Advice on what to do.
    pub const REMEDY: &'static str = "correct the name, or list the plugin that declares the operator";
}

impl fmt::Display for UnknownOperator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let UnknownOperator { name, file, line, near } = self;
        let near = did_you_mean(near);
        write!(f, "{}:{line} uses the operator `{name}`, which no plugin declares{near}", file.display())
    }
}

/// Returns the undeclared operators in the patterns and calls of a crate's sources, in the order of the files. Skips operators in a
/// namespace without declarations, because their plugin may not be listed, unless the name resembles a declared one.
pub fn unknown_operators(folder: &Path, registry: &Registry) -> Vec<UnknownOperator> {
    let namespace = |name: &str| name.split('.').next().unwrap_or_default().to_string();
    let mut found = Vec::new();
    for (file, text) in texts(folder) {
        for (name, line) in used(&text).into_iter().filter(|(name, _)| registry.operator(name).is_none()) {
            let near = registry.near_operators(&name);
            if !near.is_empty() || registry.operators().any(|(op, _)| namespace(&op.name) == namespace(&name)) {
                found.push(UnknownOperator { name, file: file.clone(), line, near });
            }
        }
    }
    found
}

/// Functions whose first or second argument is the name of an operator. Names in calls of `call` count only if they have a namespace,
/// because other functions are also named `call`.
const TAKE_OPERATORS: [&str; 6] = ["is_op(", "is_commutative(", "as_call_to(", "call(", "call_op(", "emit_op("];

/// Returns a text with empty lines in place of comments, and without the tests at its end.
fn code_of(text: &str) -> String {
    let code = text.lines().take_while(|line| line.trim() != "#[cfg(test)]");
    let code: Vec<&str> = code.map(|line| if line.trim_start().starts_with('/') { "" } else { line }).collect();
    code.join("\n")
}

/// Returns the operators in the patterns and calls of a text, with their lines. Skips comments, and the tests at the end.
fn used(text: &str) -> Vec<(String, usize)> {
    let code = code_of(text);
    let mut found = Vec::new();
    for start in TAKE_OPERATORS {
        for (at, _) in code.match_indices(start) {
            let is_longer = code[..at].ends_with(|before: char| before.is_alphanumeric() || before == '_');
            let rest = &code[at + start.len()..];
            let Some((before, after)) = rest.split_once('"').filter(|(before, _)| !is_longer && is_skipped(before))
            else {
                continue;
            };
            let name = after.split_once('"').map(|(name, _)| name);
            let place = at + start.len() + before.len();
            let name = name.filter(|name| start.starts_with("is_") || name.contains('.'));
            found.extend(name.map(|name| (name.to_string(), 1 + code[..place].matches('\n').count())));
        }
    }
    found.sort_by_key(|(_, line)| *line);
    found
}

/// Returns true if the text between a parenthesis and a string is empty, or one argument that is a path, such as `self.ctx`.
fn is_skipped(before: &str) -> bool {
    let argument = before.trim();
    let path = argument.strip_suffix(',').unwrap_or(argument);
    argument.is_empty()
        || path.len() < argument.len() && path.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '.' | '&'))
}

/// Returns the declarations in a text, with their lines. Comments are skipped, because they contain examples.
fn declared(text: &str) -> Vec<(Kind, String, usize)> {
    let (mut found, mut open) = (Vec::new(), None);
    for (at, line) in text.lines().enumerate() {
        if line.trim_start().starts_with(['/', '#']) {
            continue;
        }
        let begun = Kind::WITH_MACRO.into_iter().find_map(|kind| Some((kind, line.split_once(kind.words().0)?.1)));
        let (kind, mut head) = match (begun, open.take()) {
            (Some((kind, rest)), _) => (kind, rest.to_string()),
            (None, Some((kind, head))) => (kind, head + line),
            (None, None) => continue,
        };
        // The first `=` comes before the name.
        match head.split_once('=').map(|(_, name)| name.trim_start()) {
            None | Some("") => {
                head.push('\n');
                open = Some((kind, head));
            }
            Some(name) => {
                let name = name.strip_prefix('"').and_then(|name| name.split_once('"'));
                found.extend(name.map(|(name, _)| (kind, name.to_string(), at + 1)));
            }
        }
    }
    found
}

/// Returns the operators that a text declares as constants with a literal name, with their lines. Skips comments, and the tests at the end.
fn operators(text: &str) -> Vec<(String, usize)> {
    let code = code_of(text);
    let mut found = Vec::new();
    for (at, _) in code.match_indices("OpDecl {") {
        // Other uses are types, such as the result of a function.
        let before = code[..at].trim_end();
        let is_value = before.ends_with(['=', '&', '(', '[', ',']) || before.ends_with("::");
        let start = at + "OpDecl {".len();
        if let Some((name, offset)) = name_in(&code[start..]).filter(|_| is_value) {
            found.push((name.to_string(), 1 + code[..start + offset].matches('\n').count()));
        }
    }
    found
}

/// Returns the string in the field `name` of a literal, and its position, from the text after the literal's opening brace.
fn name_in(fields: &str) -> Option<(&str, usize)> {
    let (mut depth, mut in_string, mut is_escaped, mut last) = (0, false, false, ' ');
    for (at, c) in fields.char_indices() {
        if in_string {
            in_string = is_escaped || c != '"';
            is_escaped = c == '\\' && !is_escaped;
            continue;
        }
        match c {
            '"' => in_string = true,
            '{' | '(' | '[' => depth += 1,
            '}' | ')' | ']' if depth == 0 => return None,
            '}' | ')' | ']' => depth -= 1,
            'n' if depth == 0 && !last.is_alphanumeric() && last != '_' => {
                if let Some(value) = fields[at..].strip_prefix("name:") {
                    let (name, _) = value.trim_start().strip_prefix('"')?.split_once('"')?;
                    return Some((name, at));
                }
            }
            _ => {}
        }
        last = c;
    }
    None
}

/// Returns the source files of a crate, relative to its folder, with their texts.
fn texts(folder: &Path) -> impl Iterator<Item = (PathBuf, String)> + use<'_> {
    sources(&folder.join("src")).into_iter().map(move |path| {
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        (path.strip_prefix(folder).unwrap_or(&path).to_path_buf(), text)
    })
}

/// Returns the Rust files in a folder and its subfolders, sorted.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let (mut files, mut folders) = (Vec::new(), vec![folder.to_path_buf()]);
    while let Some(folder) = folders.pop() {
        for path in std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_that_is_declared_is_found() {
        let text = "declare_pass! {\n    /// Folds: x = \"y\".\n    pub function pass FOLD = \"acme.Fold\" {\n        text: \
                    String = \"a.b\",\n    }\n}\ndeclare_pass! {\n    /// pub function pass DOC = \"acme.Doc\" {\n    dataflow \
                    pass LATE =\n        \"acme.Late\" { run: late }\n}\ndeclare_config! { LIMIT: i64 = \"acme.limit\" {} }\n\
                    plugin_api::declare_property! {\n    pub HELD = \"acme.held\" {}\n}\ndeclare_composite! {\n    pub TIDY = \
                    \"acme.Tidy\" {}\n}\n// declare_pass! { x = \"acme.No\" }\ndeclare_instrument! {\n    pub COUNTER = \
                    \"acme.Counter\" {}\n}\nuse plugin_api::declare_pass;\nlet text = \"acme.Text\";\n";
        let found = declared(text);
        let found: Vec<(Kind, &str, usize)> =
            found.iter().map(|(kind, name, line)| (*kind, name.as_str(), *line)).collect();
        assert_eq!(
            found,
            [
                (Kind::Pass, "acme.Fold", 3),
                (Kind::Pass, "acme.Late", 10),
                (Kind::Config, "acme.limit", 12),
                (Kind::Property, "acme.held", 14),
                (Kind::Composite, "acme.Tidy", 17),
                (Kind::Instrument, "acme.Counter", 21),
            ]
        );
    }

    #[test]
    fn declared_operators_are_found() {
        let text = "// OpDecl { name: \"no\" }\npub const A: OpDecl = OpDecl {\n    doc: \"has {name: \\\" in it\",\n    args: &[ArgDecl { \
                    name: \"x\", ..ArgDecl::EMPTY }],\n    name: \"acme.a\",\n};\nconst B: OpDecl =\n    plugin_api::OpDecl { rename: 1, \
                    name: \"acme.b\", ..A };\nfn decl() -> OpDecl {\n    let name: &str = \"no\";\n}\nconst C: OpDecl = OpDecl { name: \
                    NAME, doc: \"no\" };\n#[cfg(test)]\nconst D: OpDecl = OpDecl { name: \"no\" };\n";
        let expected = [("acme.a", 5), ("acme.b", 8)];
        assert_eq!(operators(text), expected.map(|(name, line)| (name.to_string(), line)));
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(folder.path().join("src")).expect("a folder");
        std::fs::write(folder.path().join("src/lib.rs"), text).expect("a file");
        let found = unexported_of(folder.path(), |_, name| name != "acme.b");
        let [found] = &found[..] else { panic!("{found:?}") };
        assert_eq!(
            format!("{found}; {}", found.remedy()),
            "src/lib.rs:8 declares the operator `acme.b`, but the plugin does not export it; add its constant to `operators` of \
             `export_plugin!`"
        );
    }

    #[test]
    fn operators_in_patterns_and_calls_are_found() {
        let text = "let a = is_op(\"relax.add\", [wildcard()]);\n// is_op(\"no\", ..)\nlet b = is_commutative(\n    \
                    \"relax.multiply\", a, is_op(NAME, ..));\nthis_op(\"no\");\nrw.emit_op(self.ctx, \"relax.exp\", &[x], &[]);\n\
                    rw.call_op(ctx, name(\"relax.no\"), &[x], &[]);\nlog.call(\"no\");\nvalue.as_call_to(\"relax.abs\");\n    \
                    #[cfg(test)]\nis_op(\"no\", ..);\n";
        let found = used(text);
        let expected = [("relax.add", 1), ("relax.multiply", 4), ("relax.exp", 6), ("relax.abs", 9)];
        assert_eq!(found, expected.map(|(name, line)| (name.to_string(), line)));
    }

    #[test]
    fn what_is_exported_is_not_reported() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../plugins/template");
        let found = unexported_of(&folder, |_, name| name != "template_plugin.ShareCalls");
        let found: Vec<String> = found.iter().map(|found| format!("{found}; {}", found.remedy())).collect();
        assert_eq!(found.len(), 1, "{found:?}");
        let (start, end) = found[0].split_once(":").expect("a line");
        assert_eq!(start, "src/share_calls.rs");
        let end = end.trim_start_matches(|c: char| c.is_ascii_digit());
        let expected = " declares the pass `template_plugin.ShareCalls`, but the plugin does not export it; add its constant to \
                        `passes` of `export_plugin!`";
        assert_eq!(end, expected);
    }
}
