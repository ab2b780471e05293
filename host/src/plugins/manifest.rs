//! `passes.toml`: the list of plugins, and the default pipeline.

use super::TRIPLE;
use super::manifest_keys::{self as keys, Key};
use crate::files::read_small;
use crate::plugins::amounts;
use crate::plugins::limits::{self, Limits};
use crate::plugins::target::Target;
use crate::report::error::{Error, Problem};
use crate::report::expect::Expectation;
use passhost_lang::metadata::OptionValue;
use passhost_lang::names::{did_you_mean, few_suggestions, nearest};
use semver::VersionReq;
use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashSet};
use std::ops::{Range, RangeInclusive};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use toml::de::{DeTable, DeValue};

/// Name of the manifest, which is searched in the current folder and its parents.
pub const FILE_NAME: &str = "passes.toml";

/// A manifest. Paths are absolute or relative to the current folder.
#[derive(Clone, Debug, Default)]
pub struct Manifest {
    /// Path of the manifest.
    pub path: PathBuf,
    /// Text of the manifest, for messages.
    pub text: Arc<str>,
    /// Plugins in order.
    pub plugins: Vec<PluginEntry>,
    /// Folders that are searched for libraries by name.
    pub search: Vec<PathBuf>,
    /// Pipelines by name.
    pub pipelines: BTreeMap<String, NamedPipeline>,
    /// Name of the pipeline that runs by default.
    pub default_pipeline: Option<String>,
    /// Settings for all pipelines.
    pub settings: Settings,
}

/// Settings of the manifest or of a pipeline.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// opt_level.
    pub opt_level: Option<i32>,
    /// Passes that must not run.
    pub disabled: Vec<String>,
    /// Passes that run regardless of their opt_level.
    pub required: Vec<String>,
    /// Instruments, as in `acme.Counter{every=2}`.
    pub instruments: Vec<String>,
    /// Compilation target.
    pub target: Option<Target>,
    /// Config values by full key.
    pub config: BTreeMap<String, ConfigValue>,
    /// Conditions on the counters of a run's passes.
    pub expect: Vec<Expectation>,
}

/// A config value of a manifest.
#[derive(Clone, Debug)]
pub struct ConfigValue {
    /// The value, as written.
    pub value: OptionValue,
    /// Place of its key in the manifest.
    pub span: Range<usize>,
}

/// A named pipeline.
#[derive(Clone, Debug, Default)]
pub struct NamedPipeline {
    /// Passes of the pipeline, as text.
    pub passes: String,
    /// Settings of the pipeline.
    pub settings: Settings,
    /// Place of the passes in the manifest.
    pub span: Range<usize>,
}

/// The source of a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A library file.
    Path(PathBuf),
    /// A library by name, in the search folders.
    Name(String),
    /// A crate that the host builds.
    Crate(PathBuf),
}

/// One plugin of the manifest.
#[derive(Clone, Debug)]
pub struct PluginEntry {
    /// The source of the plugin.
    pub source: Source,
    /// The source in a form that is the same on every system: `path lib/liba.so`. It does not depend on the given form of the manifest's
    /// path.
    pub from: String,
    /// Place of the source in the manifest.
    pub span: Range<usize>,
    /// Requirement on its version.
    pub version: Option<VersionReq>,
    /// Requirement on the plugin API that it was built against.
    pub api: Option<VersionReq>,
    /// True if it runs in its own process.
    pub isolate: bool,
    /// Resources that it may use in its process.
    pub limits: Limits,
}

/// Returns a path without `.` components, with forward slashes; `.` for the folder itself.
pub(crate) fn portable(path: &Path) -> String {
    let path: PathBuf = path.components().filter(|part| *part != Component::CurDir).collect();
    let text = path.to_string_lossy();
    let text = if cfg!(windows) { text.replace('\\', "/") } else { text.into_owned() };
    if text.is_empty() { ".".to_string() } else { text }
}

/// Returns the manifest in the current folder or its nearest parent. Otherwise, looks next to the program, where installed packages put the
/// manifest.
pub fn find() -> Option<PathBuf> {
    let here = std::env::current_dir().ok()?;
    let above = here.ancestors().map(Path::to_path_buf);
    let beside_the_program = std::env::current_exe().ok().and_then(|program| Some(program.parent()?.to_path_buf()));
    let found = above.chain(beside_the_program).map(|folder| folder.join(FILE_NAME)).find(|path| path.is_file())?;
    // Messages show the relative path if there is one.
    Some(found.strip_prefix(&here).map(Path::to_path_buf).unwrap_or(found))
}

impl Manifest {
    /// Reads a manifest.
    ///
    /// # Errors
    /// If it cannot be read, or keys or values are wrong. The error lists all mistakes with their positions.
    pub fn load(path: &Path) -> Result<Manifest, Error> {
        let (manifest, problems) = Manifest::load_all(path)?;
        manifest.without(problems)
    }

    /// Reads the text of a manifest.
    ///
    /// # Errors
    /// If keys or values are wrong. The error lists all mistakes with their positions.
    pub fn parse(path: &Path, text: &str) -> Result<Manifest, Error> {
        let (manifest, problems) = Manifest::parse_all(path, text);
        manifest.without(problems)
    }

    /// Like [`Manifest::load`], but returns the valid parts together with the problems.
    ///
    /// # Errors
    /// If the text cannot be read.
    pub fn load_all(path: &Path) -> Result<(Manifest, Vec<Problem>), Error> {
        let wrong = |message: String, help: &str| Error::Manifest {
            path: path.to_path_buf(),
            text: "".into(),
            problems: vec![Problem { message, span: None, help: help.to_string() }],
        };
        let help = "give a different file with --manifest FILE, or create one as shown in the README";
        let bytes = read_small(path).map_err(|error| wrong(error.to_string(), help))?;
        let text = String::from_utf8(bytes).map_err(|error| {
            let at = error.utf8_error().valid_up_to();
            wrong(format!("byte {at} is not UTF-8"), "save it as UTF-8")
        })?;
        Ok(Manifest::parse_all(path, &text))
    }

    /// Like [`Manifest::parse`], but returns the valid parts together with the problems.
    pub fn parse_all(path: &Path, text: &str) -> (Manifest, Vec<Problem>) {
        let reader = Reader { folder: path.parent().unwrap_or(Path::new("")), problems: RefCell::default() };
        let (table, errors) = DeTable::parse_recoverable(text);
        let ends: Vec<usize> = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at).collect();
        let mut lines = HashSet::new();
        for error in &errors {
            let span = error.span().unwrap_or(0..0);
            // Further errors on a line follow from the first.
            if lines.insert(ends.partition_point(|end| *end < span.start)) {
                let (message, help) = of_toml(error.message().trim());
                reader.wrong(message, span, help);
            }
        }
        let mut manifest = Manifest::default();
        // In an incomplete text, further problems would be guesses.
        if errors.is_empty() {
            manifest = few_suggestions(|| reader.manifest(table.get_ref()));
        }
        (manifest.path, manifest.text) = (path.to_path_buf(), text.into());
        let mut problems = reader.problems.into_inner();
        problems.sort_by_key(|problem| problem.span.as_ref().map_or(0, |span| span.start));
        (manifest, problems)
    }

    fn without(self, problems: Vec<Problem>) -> Result<Manifest, Error> {
        match self.error(problems) {
            Some(error) => Err(error),
            None => Ok(self),
        }
    }

    /// Converts problems of this manifest to an error, if there are any.
    pub fn error(&self, problems: Vec<Problem>) -> Option<Error> {
        if problems.is_empty() {
            return None;
        }
        Some(Error::Manifest { path: self.path.clone(), text: Arc::clone(&self.text), problems })
    }

    /// Adds to an error the manifest entry that led to it.
    pub fn entry(&self, span: &Range<usize>, error: Error) -> Error {
        let (path, text) = (self.path.clone(), Arc::clone(&self.text));
        Error::Entry { path, text, span: span.clone(), error: Box::new(error) }
    }
}

/// Converts a message of the TOML reader to a message about the manifest, and advice on what to do.
fn of_toml(message: &str) -> (String, &'static str) {
    // The reader accepts at most 80 levels.
    match message.contains("recursion") {
        true => {
            ("tables and lists are nested more than 80 deep".to_string(), "no key of a manifest needs so many levels")
        }
        false => (message.to_string(), "the file must be TOML: https://toml.io"),
    }
}

type Value<'t> = toml::Spanned<DeValue<'t>>;

/// Reads values, and records problems. Returns `None` for a missing or wrong value.
struct Reader<'t> {
    folder: &'t Path,
    problems: RefCell<Vec<Problem>>,
}

impl Reader<'_> {
    fn wrong(&self, message: String, span: Range<usize>, help: &str) {
        self.problems.borrow_mut().push(Problem { message, span: Some(span), help: help.to_string() });
    }

    fn expected<T>(&self, key: &str, what: &str, value: &Value<'_>) -> Option<T> {
        let found = match value.get_ref() {
            DeValue::String(_) => "a string",
            DeValue::Integer(_) => "an integer",
            DeValue::Float(_) => "a float",
            DeValue::Boolean(_) => "a boolean",
            DeValue::Datetime(_) => "a date",
            DeValue::Array(_) => "a list",
            DeValue::Table(_) => "a table",
        };
        self.wrong(format!("`{key}` must be {what}, found {found}"), value.span(), &format!("write {what}"));
        None
    }

    /// Checks that all keys are valid.
    fn check_keys(&self, table: &DeTable<'_>, known: &[&[Key]], what: &str) -> bool {
        let known = keys::names(known);
        let before = self.problems.borrow().len();
        for (key, _) in table.iter().filter(|(key, _)| !known.contains(&key.get_ref().as_ref())) {
            let near = nearest(key.get_ref(), known.iter().copied());
            let message = format!("unknown key `{}` in {what}{}", key.get_ref(), did_you_mean(&near));
            self.wrong(message, key.span(), &format!("known keys: {}", known.join(", ")));
        }
        self.problems.borrow().len() == before
    }

    fn manifest(&self, table: &DeTable<'_>) -> Manifest {
        self.check_keys(table, keys::MANIFEST, "the manifest");
        let mut manifest = Manifest { settings: self.settings(table), ..Manifest::default() };
        let folder = |folder: &String| self.folder.join(folder.replace("{triple}", TRIPLE));
        manifest.search = self.strings(table, "search").iter().map(folder).collect();
        match table.get("plugin").map(|value| (value, value.get_ref())) {
            Some((_, DeValue::Array(entries))) => {
                manifest.plugins = entries.iter().filter_map(|entry| self.plugin(entry)).collect();
            }
            Some((value, _)) => self.expected("plugin", "a list of tables: [[plugin]]", value).unwrap_or_default(),
            None => {}
        }
        match table.get("pipelines").map(|value| (value, value.get_ref())) {
            Some((_, DeValue::Table(pipelines))) => {
                for (name, value) in pipelines.iter() {
                    let name = name.get_ref().to_string();
                    // An invalid pipeline still defines its name.
                    let pipeline = self.pipeline(&name, value).unwrap_or_default();
                    manifest.pipelines.insert(name, pipeline);
                }
            }
            Some((value, _)) => self.expected("pipelines", "a table of pipelines", value).unwrap_or_default(),
            None => {}
        }
        manifest.default_pipeline = self.default_pipeline(table, &manifest.pipelines);
        manifest
    }

    fn default_pipeline(&self, table: &DeTable<'_>, known: &BTreeMap<String, NamedPipeline>) -> Option<String> {
        let Some(value) = table.get("default_pipeline") else {
            return known.contains_key("default").then(|| "default".to_string());
        };
        let name = self.string("default_pipeline", value)?;
        if known.contains_key(&name) {
            return Some(name);
        }
        let near = nearest(&name, known.keys().map(String::as_str));
        let message = format!("unknown pipeline `{name}`{}", did_you_mean(&near));
        self.wrong(message, value.span(), "define it under [pipelines]");
        None
    }

    fn string(&self, key: &str, value: &Value<'_>) -> Option<String> {
        match value.get_ref() {
            DeValue::String(text) => Some(text.to_string()),
            _ => self.expected(key, "a string", value),
        }
    }

    fn strings(&self, table: &DeTable<'_>, key: &str) -> Vec<String> {
        match table.get(key).map(|value| (value, value.get_ref())) {
            Some((_, DeValue::Array(items))) => items.iter().filter_map(|item| self.string(key, item)).collect(),
            Some((value, _)) => self.expected(key, "a list of strings", value).unwrap_or_default(),
            None => Vec::new(),
        }
    }

    fn settings(&self, table: &DeTable<'_>) -> Settings {
        let mut config = BTreeMap::new();
        match table.get("config").map(|value| (value, value.get_ref())) {
            Some((_, DeValue::Table(entries))) => self.config(entries, "", &mut config),
            Some((value, _)) => self.expected("config", "a table", value).unwrap_or_default(),
            None => {}
        }
        Settings {
            opt_level: table.get("opt_level").and_then(|value| self.opt_level(value)),
            disabled: self.strings(table, "disabled"),
            required: self.strings(table, "required"),
            instruments: self.strings(table, "instruments"),
            target: table.get("target").and_then(|value| self.target(value)),
            config,
            expect: self.expectations(table),
        }
    }

    fn expectations(&self, table: &DeTable<'_>) -> Vec<Expectation> {
        let entries = match table.get("expect").map(|value| (value, value.get_ref())) {
            Some((_, DeValue::Table(entries))) => entries,
            Some((value, _)) => return self.expected("expect", "a table", value).unwrap_or_default(),
            None => return Vec::new(),
        };
        let expectation = |(counter, value): (&toml::Spanned<Cow<'_, str>>, &Value<'_>)| {
            let bound = match value.get_ref() {
                DeValue::String(text) => text.to_string(),
                DeValue::Integer(number) => match u64::from_str_radix(number.as_str(), number.radix()) {
                    Ok(number) => number.to_string(),
                    Err(_) => number.as_str().to_string(),
                },
                _ => return self.expected(counter.get_ref(), "an integer, or a string such as \">= 8\"", value),
            };
            match Expectation::of(counter.get_ref(), &bound) {
                Ok(expectation) => Some(expectation),
                Err(error) => {
                    self.wrong(error.to_string(), value.span(), "write an integer, or a string such as \">= 8\"");
                    None
                }
            }
        };
        entries.iter().filter_map(expectation).collect()
    }

    fn target(&self, value: &Value<'_>) -> Option<Target> {
        let read = Target::parse(&self.string("target", value)?);
        if let Err(Error::Request { message, help }) = &read {
            self.wrong(message.clone(), value.span(), help);
        }
        read.ok()
    }

    fn opt_level(&self, value: &Value<'_>) -> Option<i32> {
        let DeValue::Integer(level) = value.get_ref() else { return self.expected("opt_level", "an integer", value) };
        let read = i32::from_str_radix(level.as_str(), level.radix());
        if read.is_err() {
            self.out_of_range("opt_level", value, i64::from(i32::MIN)..=i64::from(i32::MAX));
        }
        read.ok()
    }

    fn out_of_range(&self, key: &str, value: &Value<'_>, range: RangeInclusive<i64>) {
        let (least, greatest) = (range.start(), range.end());
        self.wrong(format!("`{key}` must be from {least} to {greatest}"), value.span(), "write a smaller number");
    }

    /// Reads the values of a table. Nested tables are records with fields.
    fn config(&self, entries: &DeTable<'_>, prefix: &str, config: &mut BTreeMap<String, ConfigValue>) {
        for (key, value) in entries.iter() {
            let name = format!("{prefix}{}", key.get_ref());
            if let DeValue::Table(fields) = value.get_ref() {
                if fields.is_empty() {
                    // Reported here, because an empty record lacks fields to check.
                    self.wrong(format!("config record `{name}` is empty"), key.span(), "set a field, or remove it");
                }
                self.config(fields, &format!("{name}."), config);
                continue;
            }
            let Some(value) = self.config_value(&name, value) else { continue };
            let entry = ConfigValue { value, span: key.span() };
            if config.insert(name.clone(), entry).is_some() {
                self.wrong(format!("`{name}` is set twice"), key.span(), "set it once");
            }
        }
    }

    fn config_value(&self, key: &str, value: &Value<'_>) -> Option<OptionValue> {
        match value.get_ref() {
            DeValue::String(text) => Some(OptionValue::Str(text.to_string())),
            DeValue::Integer(text) => {
                let read = i64::from_str_radix(text.as_str(), text.radix()).ok();
                if read.is_none() {
                    self.out_of_range(key, value, i64::MIN..=i64::MAX);
                }
                read.map(OptionValue::Int)
            }
            DeValue::Float(text) => {
                let read = text.as_str().parse().ok();
                if read.is_none() {
                    self.wrong(format!("`{key}` is not a number"), value.span(), "write a number such as 0.5");
                }
                read.map(OptionValue::Float)
            }
            DeValue::Boolean(value) => Some(OptionValue::Bool(*value)),
            DeValue::Array(items) => {
                let items: Vec<_> = items.iter().map(|item| self.config_value(key, item)).collect();
                items.into_iter().collect::<Option<_>>().map(OptionValue::List)
            }
            _ => self.expected(key, "a boolean, number, string or list", value),
        }
    }

    fn pipeline(&self, name: &str, value: &Value<'_>) -> Option<NamedPipeline> {
        let table = match value.get_ref() {
            DeValue::String(passes) => {
                let settings = Settings::default();
                return Some(NamedPipeline { passes: passes.to_string(), settings, span: value.span() });
            }
            DeValue::Table(table) => table,
            _ => return self.expected(name, "a string such as \"A,B{x=1}\" or a table with `passes`", value),
        };
        let all_known = self.check_keys(table, keys::PIPELINE, &format!("pipeline `{name}`"));
        let settings = self.settings(table);
        let Some(passes) = table.get("passes") else {
            // The misspelt key was already reported.
            if all_known {
                let message = format!("pipeline `{name}` has no `passes`");
                self.wrong(message, value.span(), "passes = \"relax.Normalize,acme.GroupConvolutions\"");
            }
            return None;
        };
        Some(NamedPipeline { passes: self.string("passes", passes)?, settings, span: passes.span() })
    }

    fn plugin(&self, value: &Value<'_>) -> Option<PluginEntry> {
        let DeValue::Table(table) = value.get_ref() else {
            return self.expected("plugin", "a table: [[plugin]]", value);
        };
        let all_known = self.check_keys(table, keys::PLUGIN, "[[plugin]]");
        let (version, api) = (self.requirement(table, "version"), self.requirement(table, "api"));
        let given = ["path", "name", "crate"].into_iter().filter_map(|key| Some((key, table.get(key)?)));
        let given: Vec<(&str, &Value<'_>)> = given.collect();
        let &[(key, place)] = given.as_slice() else {
            if all_known || given.len() > 1 {
                let message =
                    format!("a plugin needs exactly one of `path`, `name` and `crate`, found {}", given.len());
                self.wrong(message, value.span(), "path = \"target/release/libacme.so\"");
            }
            return None;
        };
        let text = self.string(key, place)?;
        if text.is_empty() {
            self.wrong(format!("`{key}` is empty"), place.span(), "path = \"target/release/libacme.so\"");
            return None;
        }
        let from = format!("{key} {}", if key == "name" { text.clone() } else { portable(Path::new(&text)) });
        let source = match key {
            "path" => Source::Path(self.folder.join(text)),
            "name" => Source::Name(text),
            _ => Source::Crate(self.folder.join(text)),
        };
        let isolate = self.boolean(table, "isolate");
        Some(PluginEntry { source, from, span: place.span(), version, api, isolate, limits: self.limits(table) })
    }

    fn boolean(&self, table: &DeTable<'_>, key: &str) -> bool {
        match table.get(key).map(|value| (value, value.get_ref())) {
            Some((_, DeValue::Boolean(value))) => *value,
            Some((value, _)) => self.expected(key, "true or false", value).unwrap_or_default(),
            None => false,
        }
    }

    fn limits(&self, table: &DeTable<'_>) -> Limits {
        let limit = |key: &str, example: &str, read: fn(&str) -> Result<u64, String>| {
            let value = table.get(key)?;
            let text = match value.get_ref() {
                DeValue::String(text) => text.to_string(),
                // Integers in any base are accepted. An integer without a unit has the default unit.
                DeValue::Integer(number) => match i128::from_str_radix(number.as_str(), number.radix()) {
                    Ok(number) => number.to_string(),
                    Err(_) => number.as_str().to_string(),
                },
                _ => return self.expected(key, &format!("a string such as \"{example}\""), value),
            };
            let wrong =
                |why| self.wrong(format!("`{key}`: {why}"), value.span(), &format!("as in {key} = \"{example}\""));
            read(&text).map_err(wrong).ok()
        };
        let time = |key: &str| limit(key, "30 s", amounts::milliseconds).map(Duration::from_millis);
        let paths = |key: &str| {
            let paths = self.granted(table, key, &limits::path, "\".\" is the folder of the manifest");
            paths.iter().map(|path| self.folder.join(path)).collect()
        };
        let (read, write, network) = (paths("read"), paths("write"), self.boolean(table, "network"));
        let env = self.granted(table, "env", &limits::variables, "as in env = [\"HOME\", \"ACME_*\"]");
        Limits {
            timeout: time("timeout"),
            memory: limit("memory", "2 GiB", amounts::memory),
            cpu: time("cpu"),
            read,
            write,
            network,
            env,
        }
    }

    /// Returns the strings of a list of grants. `check` returns an error for a string that would grant nothing.
    fn granted(
        &self,
        table: &DeTable<'_>,
        key: &str,
        check: &dyn Fn(&str) -> Result<(), String>,
        help: &str,
    ) -> Vec<String> {
        if let Some(DeValue::Array(items)) = table.get(key).map(|value| value.get_ref()) {
            for item in items.iter() {
                let DeValue::String(text) = item.get_ref() else { continue };
                if let Err(why) = check(text) {
                    self.wrong(format!("`{key}` grants nothing: \"{text}\" {why}"), item.span(), help);
                }
            }
        }
        self.strings(table, key)
    }

    fn requirement(&self, table: &DeTable<'_>, key: &str) -> Option<VersionReq> {
        let value = table.get(key)?;
        let text = self.string(key, value)?;
        let read = VersionReq::parse(&text);
        if let Err(error) = &read {
            self.wrong(format!("`{key}` is not a version requirement: {error}"), value.span(), "as in \">= 0.2\"");
        }
        read.ok()
    }
}
