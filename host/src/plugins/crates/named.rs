//! Finds files and folders that cargo settings name: wrappers, linkers, linker scripts, files with flags, and folders with libraries. The
//! meaning of a setting depends on the tool, so every part that names an existing file or folder counts.

use super::settings::Uncovered;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// One text of a setting.
pub(super) struct Setting<'a> {
    /// Key in a configuration file, or name of the variable.
    pub(super) key: &'a str,
    pub(super) text: &'a str,
    /// The file or variable, for messages.
    pub(super) shown: &'a str,
    /// Folders where relative paths start: the folder that contains `.cargo` and, for flags, the workspace.
    pub(super) bases: [&'a Path; 2],
}

/// The files and folders that settings name.
#[derive(Default)]
pub(super) struct Named {
    /// Files, with their names in the digest.
    pub(super) files: Vec<(String, PathBuf)>,
    pub(super) uncovered: Vec<Uncovered>,
    seen: BTreeSet<PathBuf>,
}

/// Maximum number of files in a folder. Larger folders were not made for a plugin.
const MOST_FILES: usize = 1_000;

/// Maximum length of a path on any system.
const LONGEST: usize = 4_096;

/// Separators in flags; a path can begin or end at each.
const ENDS: [char; 5] = ['=', ',', ':', ';', '@'];

impl Named {
    /// Adds the files and folders that a setting names.
    pub(super) fn add(&mut self, setting: &Setting<'_>) {
        let flags = is_flags(setting.key);
        for argument in arguments(setting.text) {
            let folders = flags && searches(argument);
            let found = candidates(argument).into_iter().filter(|path| self.path(setting, path, folders)).count();
            let program = match argument.split_once("linker=") {
                Some((_, linker)) if flags && !linker.contains(char::is_whitespace) => Some(linker),
                _ => (is_program(setting.key) && argument == setting.text).then_some(argument),
            };
            // A program that is missing now may exist by the time it is run.
            if let Some(program) = program.filter(|path| found == 0 && path.contains(std::path::is_separator)) {
                let what = format!("{} refers to {program}, which does not exist", setting.shown);
                self.uncovered.push(Uncovered { what, help: "correct that setting, or run without --locked" });
            }
        }
    }

    /// Adds a file or folder, and returns true if it exists.
    fn path(&mut self, setting: &Setting<'_>, path: &str, folders: bool) -> bool {
        let mut there = false;
        for (base, from) in setting.bases.into_iter().zip(["", " (from the workspace)"]) {
            let full = base.join(path);
            let is_file = full.is_file();
            if !(is_file || folders && full.is_dir()) {
                continue;
            }
            there = true;
            if !self.seen.insert(full.clone()) {
                continue;
            }
            let name = format!("{}: {path}{from}", setting.shown);
            if is_file {
                self.more_flags(setting, path, &full);
                self.files.push((name, full));
            } else {
                self.folder(setting, &name, path, &full);
            }
        }
        there
    }

    /// Adds the paths in `@file`, which contains one flag per line.
    fn more_flags(&mut self, setting: &Setting<'_>, path: &str, file: &Path) {
        let is_list = setting.text.contains(&format!("@{path}"));
        let Some(text) = std::fs::read(file).ok().filter(|_| is_list) else { return };
        let shown = format!("{}: {path}", setting.shown);
        for line in String::from_utf8_lossy(&text).lines() {
            self.add(&Setting { key: "rustflags", text: line, shown: &shown, bases: setting.bases });
        }
    }

    fn folder(&mut self, setting: &Setting<'_>, name: &str, path: &str, folder: &Path) {
        if ["/usr", "/lib", "/lib64", "/System"].iter().any(|system| folder.starts_with(system)) {
            return;
        }
        match files_below(folder) {
            Some(files) => self.files.extend(files.into_iter().map(|(below, file)| (format!("{name}/{below}"), file))),
            None => {
                let what =
                    format!("{} refers to the folder {path}, which has more than {MOST_FILES} files", setting.shown);
                let help = "list the files that are used, or run without --locked";
                self.uncovered.push(Uncovered { what, help });
            }
        }
    }
}

/// Returns the files below a folder, by relative name, or `None` if there are too many or one cannot be read.
fn files_below(folder: &Path) -> Option<Vec<(String, PathBuf)>> {
    let (mut out, mut waiting, mut seen) = (Vec::new(), vec![(String::new(), folder.to_path_buf())], BTreeSet::new());
    while let Some((name, folder)) = waiting.pop() {
        if !seen.insert(folder.canonicalize().ok()?) {
            continue;
        }
        for entry in std::fs::read_dir(&folder).ok()? {
            let entry = entry.ok()?;
            let (path, name) = (entry.path(), format!("{name}{}", entry.file_name().to_string_lossy()));
            if path.is_dir() {
                waiting.push((name + "/", path));
            } else if path.is_file() {
                out.push((name, path));
            }
            if out.len() + waiting.len() > MOST_FILES {
                return None;
            }
        }
    }
    out.sort();
    Some(out)
}

/// Returns true if the setting contains flags of rustc or of a linker.
fn is_flags(key: &str) -> bool {
    let key = key.to_ascii_lowercase().replace('_', "-");
    ["flags", "link-search", "link-arg", "link-lib"].iter().any(|part| key.contains(part))
}

/// Returns true if the setting is only the path of a program.
fn is_program(key: &str) -> bool {
    let key = key.to_ascii_lowercase().replace('_', "-");
    ["rustc", "rustc-wrapper", "rustc-workspace-wrapper", "linker"].iter().any(|program| key == *program)
        || ["-rustc", "-wrapper", "-linker"].iter().any(|program| key.ends_with(program))
}

/// Returns true if a flag may name a folder that is searched. Other flags name a folder that is only written to, or a prefix of paths.
fn searches(flag: &str) -> bool {
    !["-prefix", "incremental", "self-profile", "out-dir"].iter().any(|other| flag.contains(other))
}

/// Returns the whole text, and its parts that may be arguments. The value of `--remap-path-prefix` stays attached to it.
fn arguments(text: &str) -> BTreeSet<&str> {
    let mut out: BTreeSet<&str> = text.split('\u{1f}').collect();
    out.insert(text);
    let mut before = "";
    for word in text.split(|c: char| c.is_whitespace() || c == '\u{1f}') {
        if !before.ends_with("-prefix") || before.contains('=') {
            out.insert(word);
        }
        before = word;
    }
    out
}

/// Returns the parts of an argument that may be paths: `-Clink-arg=-Wl,-Tx.ld` contains `x.ld`.
fn candidates(argument: &str) -> BTreeSet<&str> {
    let mut starts = vec![0];
    starts.extend(argument.match_indices(ENDS).map(|(at, end)| at + end.len()));
    // The value of a one-letter flag follows directly.
    let letters: Vec<usize> = starts.iter().filter(|at| is_short_flag(&argument[**at..])).map(|at| at + 2).collect();
    starts.extend(letters);
    let mut out = BTreeSet::new();
    for start in starts {
        let rest = &argument[start..];
        let part = rest.split(ENDS).next().unwrap_or(rest);
        out.extend([rest, part].into_iter().filter(|path| !path.is_empty() && path.len() <= LONGEST));
    }
    out
}

fn is_short_flag(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.first() == Some(&b'-') && bytes.get(1).is_some_and(u8::is_ascii_alphabetic)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the names and the uncovered parts of one setting, in a folder with some files.
    fn of(key: &str, text: &str) -> (Vec<String>, Vec<String>) {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().join("root");
        for file in ["my tools/a=b.sh", "x.ld", "args", "libs/below/a.a", "libs/b.a", "root/c.sh", "many/0"] {
            let path = folder.path().join(file);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            std::fs::write(path, "-Clinker=c.sh\n").expect("a file");
        }
        for n in 0..=MOST_FILES {
            std::fs::write(folder.path().join(format!("many/{n}")), "").expect("a file");
        }
        let mut named = Named::default();
        let text = text.replace("$", &folder.path().display().to_string());
        named.add(&Setting { key, text: &text, shown: "s", bases: [folder.path(), &root] });
        let plain = |name: String| name.replace(&folder.path().display().to_string(), "$");
        let uncovered = named.uncovered.into_iter().map(|it| plain(it.what)).collect();
        (named.files.into_iter().map(|(name, _)| plain(name)).collect(), uncovered)
    }

    #[test]
    fn each_way_to_name_a_file() {
        for (key, text, names) in [
            ("rustc-wrapper", "my tools/a=b.sh", &["s: my tools/a=b.sh"][..]),
            ("rustc-wrapper", "$/my tools/a=b.sh", &["s: $/my tools/a=b.sh"]),
            ("rustflags", "-Clinker=my tools/a=b.sh", &["s: my tools/a=b.sh"]),
            ("RUSTFLAGS", "-g -Tx.ld", &["s: x.ld"]),
            ("RUSTFLAGS", "-Clink-arg=-Wl,-Tx.ld,--gc", &["s: x.ld"]),
            ("CARGO_ENCODED_RUSTFLAGS", "-g\u{1f}-Clinker=my tools/a=b.sh", &["s: my tools/a=b.sh"]),
            ("rustflags", "c.sh", &["s: c.sh (from the workspace)"]),
            ("rustflags", "@args", &["s: args: c.sh (from the workspace)", "s: args"]),
            ("rustflags", "-L native=libs", &["s: libs/b.a", "s: libs/below/a.a"]),
            ("rustflags", "-Llibs", &["s: libs/b.a", "s: libs/below/a.a"]),
            ("rustc-link-search", "libs", &["s: libs/b.a", "s: libs/below/a.a"]),
            ("rustflags", "--remap-path-prefix=many=/a --remap-path-prefix $/many=/b", &[]),
            ("rustflags", "-L/usr/lib", &[]),
            ("target", "libs", &[]),
            ("linker", "cc", &[]),
        ] {
            assert_eq!(of(key, text), (names.iter().map(|name| name.to_string()).collect(), vec![]), "{key} = {text}");
        }
    }

    #[test]
    fn what_cannot_be_covered_is_known() {
        for (key, text, why) in [
            ("rustflags", "-Lmany", "s refers to the folder many, which has more than 1000 files"),
            ("RUSTC_WRAPPER", "later/wrap.sh", "s refers to later/wrap.sh, which does not exist"),
            ("linker", "later/my ld", "s refers to later/my ld, which does not exist"),
            ("rustflags", "-Clinker=later/ld", "s refers to later/ld, which does not exist"),
        ] {
            assert_eq!(of(key, text), (vec![], vec![why.to_string()]), "{key} = {text}");
        }
    }
}
