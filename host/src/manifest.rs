//! `passes.toml`: which plugins there are, and what runs by default.

use crate::error::Error;
use plugin_api::meta::OptionValue;
use registry::names::{did_you_mean, nearest};
use semver::VersionReq;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use toml::de::{DeTable, DeValue};

/// Name of the manifest, looked for in the current folder and those above it.
pub const FILE_NAME: &str = "passes.toml";

/// A manifest. Paths are absolute or relative to the current folder.
#[derive(Clone, Debug, Default)]
pub struct Manifest {
    /// Its path.
    pub path: PathBuf,
    /// Plugins in order.
    pub plugins: Vec<PluginEntry>,
    /// Folders in which libraries are looked for by name.
    pub search: Vec<PathBuf>,
    /// Pipelines by name.
    pub pipelines: BTreeMap<String, NamedPipeline>,
    /// Which pipeline runs when none is named.
    pub default_pipeline: Option<String>,
    /// What holds for all pipelines.
    pub settings: Settings,
}

/// Settings of the manifest or of a pipeline.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// opt_level.
    pub opt_level: Option<i32>,
    /// Passes that must not run.
    pub disabled: Vec<String>,
    /// Passes that run whatever their opt_level.
    pub required: Vec<String>,
    /// Config values.
    pub config: BTreeMap<String, OptionValue>,
}

/// A pipeline with a name.
#[derive(Clone, Debug, Default)]
pub struct NamedPipeline {
    /// Its passes, as text.
    pub passes: String,
    /// Its settings.
    pub settings: Settings,
}

/// Where a plugin comes from.
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
    /// Where it comes from.
    pub source: Source,
    /// Requirement on its version.
    pub version: Option<VersionReq>,
    /// Requirement on the plugin API that it was built against.
    pub api: Option<VersionReq>,
}

/// The manifest in the current folder or the nearest one above.
pub fn find() -> Option<PathBuf> {
    let here = std::env::current_dir().ok()?;
    let found = here.ancestors().map(|folder| folder.join(FILE_NAME)).find(|path| path.is_file())?;
    // Shown in messages: the short form where there is one.
    Some(found.strip_prefix(&here).map(Path::to_path_buf).unwrap_or(found))
}

impl Manifest {
    /// Reads a manifest.
    ///
    /// # Errors
    /// If it cannot be read, or a key or value is wrong; with the place.
    pub fn load(path: &Path) -> Result<Manifest, Error> {
        let wrong = |message: String, help: &str| Error::Manifest {
            path: path.to_path_buf(),
            message,
            place: None,
            help: help.to_string(),
        };
        let help = "name another one with --manifest FILE, or write one; the README shows how";
        let bytes = std::fs::read(path).map_err(|error| wrong(error.to_string(), help))?;
        let text = String::from_utf8(bytes).map_err(|error| {
            let at = error.utf8_error().valid_up_to();
            wrong(format!("byte {at} is not UTF-8"), "save it as UTF-8")
        })?;
        Manifest::parse(path, &text)
    }

    /// Reads the text of a manifest.
    ///
    /// # Errors
    /// If a key or value is wrong; with the place.
    pub fn parse(path: &Path, text: &str) -> Result<Manifest, Error> {
        let reader = Reader { path, text, folder: path.parent().unwrap_or(Path::new("")) };
        let table = DeTable::parse(text).map_err(|error| {
            let span = error.span().unwrap_or(0..0);
            reader.wrong(error.message().trim().to_string(), span, "the file is TOML: https://toml.io")
        })?;
        reader.manifest(table.get_ref())
    }
}

type Value<'t> = toml::Spanned<DeValue<'t>>;

/// Reads values and knows where they stand.
struct Reader<'t> {
    path: &'t Path,
    text: &'t str,
    folder: &'t Path,
}

const KEYS: &[&str] =
    &["plugin", "search", "pipelines", "default_pipeline", "opt_level", "disabled", "required", "config"];
const PLUGIN_KEYS: &[&str] = &["path", "name", "crate", "version", "api"];
const PIPELINE_KEYS: &[&str] = &["passes", "opt_level", "disabled", "required", "config"];

impl<'t> Reader<'t> {
    fn wrong(&self, message: String, span: Range<usize>, help: &str) -> Error {
        let place = Some((self.text.to_string(), span));
        Error::Manifest { path: self.path.to_path_buf(), message, place, help: help.to_string() }
    }

    fn expected(&self, key: &str, what: &str, value: &Value<'_>) -> Error {
        let found = match value.get_ref() {
            DeValue::String(_) => "a string",
            DeValue::Integer(_) => "an integer",
            DeValue::Float(_) => "a float",
            DeValue::Boolean(_) => "a boolean",
            DeValue::Datetime(_) => "a date",
            DeValue::Array(_) => "a list",
            DeValue::Table(_) => "a table",
        };
        self.wrong(format!("`{key}` must be {what}, found {found}"), value.span(), &format!("write {what}"))
    }

    fn check_keys(&self, table: &DeTable<'_>, known: &[&str], what: &str) -> Result<(), Error> {
        let unknown = table.keys().find(|key| !known.contains(&key.get_ref().as_ref()));
        let Some(key) = unknown else { return Ok(()) };
        let near = nearest(key.get_ref(), known.iter().copied());
        let message = format!("unknown key `{}` in {what}{}", key.get_ref(), did_you_mean(&near));
        Err(self.wrong(message, key.span(), &format!("known keys: {}", known.join(", "))))
    }

    fn manifest(&self, table: &DeTable<'_>) -> Result<Manifest, Error> {
        self.check_keys(table, KEYS, "the manifest")?;
        let mut manifest = Manifest { path: self.path.to_path_buf(), ..Manifest::default() };
        manifest.settings = self.settings(table)?;
        manifest.search = self.strings(table, "search")?.iter().map(|folder| self.folder.join(folder)).collect();
        if let Some(value) = table.get("plugin") {
            let DeValue::Array(entries) = value.get_ref() else {
                return Err(self.expected("plugin", "a list of tables: [[plugin]]", value));
            };
            for entry in entries.iter() {
                manifest.plugins.push(self.plugin(entry)?);
            }
        }
        if let Some(value) = table.get("pipelines") {
            let DeValue::Table(pipelines) = value.get_ref() else {
                return Err(self.expected("pipelines", "a table of pipelines", value));
            };
            for (name, value) in pipelines.iter() {
                manifest.pipelines.insert(name.get_ref().to_string(), self.pipeline(name.get_ref(), value)?);
            }
        }
        if let Some(value) = table.get("default_pipeline") {
            let name = self.string("default_pipeline", value)?;
            if !manifest.pipelines.contains_key(&name) {
                let near = nearest(&name, manifest.pipelines.keys().map(String::as_str));
                let message = format!("no pipeline `{name}` in it{}", did_you_mean(&near));
                return Err(self.wrong(message, value.span(), "define it under [pipelines]"));
            }
            manifest.default_pipeline = Some(name);
        } else if manifest.pipelines.contains_key("default") {
            manifest.default_pipeline = Some("default".to_string());
        }
        Ok(manifest)
    }

    fn string(&self, key: &str, value: &Value<'_>) -> Result<String, Error> {
        match value.get_ref() {
            DeValue::String(text) => Ok(text.to_string()),
            _ => Err(self.expected(key, "a string", value)),
        }
    }

    fn strings(&self, table: &DeTable<'_>, key: &str) -> Result<Vec<String>, Error> {
        let Some(value) = table.get(key) else { return Ok(Vec::new()) };
        match value.get_ref() {
            DeValue::Array(items) => items.iter().map(|item| self.string(key, item)).collect(),
            _ => Err(self.expected(key, "a list of strings", value)),
        }
    }

    fn settings(&self, table: &DeTable<'_>) -> Result<Settings, Error> {
        let opt_level = match table.get("opt_level") {
            None => None,
            Some(value) => match value.get_ref() {
                DeValue::Integer(level) => level.as_str().parse().ok().map(Some).ok_or_else(|| {
                    self.wrong("`opt_level` does not fit".into(), value.span(), "use a small integer such as 2")
                })?,
                _ => return Err(self.expected("opt_level", "an integer", value)),
            },
        };
        let mut config = BTreeMap::new();
        if let Some(value) = table.get("config") {
            let DeValue::Table(entries) = value.get_ref() else {
                return Err(self.expected("config", "a table", value));
            };
            for (key, value) in entries.iter() {
                config.insert(key.get_ref().to_string(), self.config_value(key.get_ref(), value)?);
            }
        }
        let (disabled, required) = (self.strings(table, "disabled")?, self.strings(table, "required")?);
        Ok(Settings { opt_level, disabled, required, config })
    }

    fn config_value(&self, key: &str, value: &Value<'_>) -> Result<OptionValue, Error> {
        let number = |what: &str| self.wrong(format!("`{key}` does not fit"), value.span(), what);
        match value.get_ref() {
            DeValue::String(text) => Ok(OptionValue::Str(text.to_string())),
            DeValue::Integer(text) => i64::from_str_radix(text.as_str(), text.radix())
                .map(OptionValue::Int)
                .map_err(|_| number("use 64 bits")),
            DeValue::Float(text) => text.as_str().parse().map(OptionValue::Float).map_err(|_| number("write a float")),
            DeValue::Boolean(value) => Ok(OptionValue::Bool(*value)),
            DeValue::Array(items) => {
                let items = items.iter().map(|item| self.config_value(key, item));
                items.collect::<Result<Vec<_>, _>>().map(OptionValue::List)
            }
            _ => Err(self.expected(key, "a boolean, number, string or list", value)),
        }
    }

    fn pipeline(&self, name: &str, value: &Value<'_>) -> Result<NamedPipeline, Error> {
        let table = match value.get_ref() {
            DeValue::String(passes) => {
                return Ok(NamedPipeline { passes: passes.to_string(), settings: Settings::default() });
            }
            DeValue::Table(table) => table,
            _ => return Err(self.expected(name, "a string such as \"A,B{x=1}\" or a table with `passes`", value)),
        };
        self.check_keys(table, PIPELINE_KEYS, &format!("pipeline `{name}`"))?;
        let Some(passes) = table.get("passes") else {
            let message = format!("pipeline `{name}` has no `passes`");
            return Err(self.wrong(message, value.span(), "passes = \"relax.Normalize,acme.GroupConvolutions\""));
        };
        Ok(NamedPipeline { passes: self.string("passes", passes)?, settings: self.settings(table)? })
    }

    fn plugin(&self, value: &Value<'_>) -> Result<PluginEntry, Error> {
        let DeValue::Table(table) = value.get_ref() else {
            return Err(self.expected("plugin", "a table: [[plugin]]", value));
        };
        self.check_keys(table, PLUGIN_KEYS, "[[plugin]]")?;
        let mut sources = Vec::new();
        for key in ["path", "name", "crate"] {
            let Some(value) = table.get(key) else { continue };
            let text = self.string(key, value)?;
            sources.push(match key {
                "path" => Source::Path(self.folder.join(text)),
                "name" => Source::Name(text),
                _ => Source::Crate(self.folder.join(text)),
            });
        }
        if sources.len() != 1 {
            let message = format!("a plugin needs one of `path`, `name` and `crate`, found {}", sources.len());
            return Err(self.wrong(message, value.span(), "path = \"target/release/libacme.so\""));
        }
        let requirement = |key: &str| match table.get(key) {
            None => Ok(None),
            Some(value) => VersionReq::parse(&self.string(key, value)?).map(Some).map_err(|error| {
                self.wrong(format!("`{key}` is no version requirement: {error}"), value.span(), "as in \">= 0.2\"")
            }),
        };
        Ok(PluginEntry { source: sources.remove(0), version: requirement("version")?, api: requirement("api")? })
    }
}
