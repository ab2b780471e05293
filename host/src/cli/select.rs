//! Combines the pipeline, lists of passes and config values of the command line and the manifest into a request.

use super::arguments::Select;
use crate::bundle;
use crate::context::{PassContext, not_asked_for};
use crate::engine::Engine;
use crate::files::read_small;
use crate::plugins::lock::{Keeper, Mode};
use crate::plugins::manifest::{ConfigValue, Manifest, NamedPipeline, Settings};
use crate::plugins::target::Target;
use crate::report::error::{CONFIG_HELP, Error, Problem};
use crate::tune::database;
use crate::tune::processor::processor;
use passhost_lang::metadata::OptionValue;
use passhost_lang::names::{counted, did_you_mean, few_suggestions, listed, nearest};
use registry::{Pipeline, Plan, PlanError, Request, Selection};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A request whose config values have not been checked yet.
pub(super) struct Asked {
    request: Request,
    written: Written,
    config: Config,
    target: Option<Target>,
}

/// A pipeline and its source text, so that messages can show the place of an error.
pub(super) struct Written {
    pub(super) pipeline: Pipeline,
    origin: PathBuf,
    text: Arc<str>,
    /// The position of the pipeline in the text; `None` if the text contains it in a different form, such as a string
    /// with escapes.
    start: Option<usize>,
    /// The range of the whole pipeline in the text.
    whole: Range<usize>,
    /// Names of other pipelines of the manifest that occur in the text, where only passes are allowed.
    others: Vec<String>,
}

impl Written {
    /// Parses a pipeline that fills the whole text. `passes` is the same text with blanked comments; positions in both
    /// are equal.
    fn parse(origin: PathBuf, (text, passes): (&str, &str), others: Vec<String>) -> Result<Written, Error> {
        let (pipeline, whole) = (Pipeline::default(), 0..text.len());
        Written { pipeline, origin, text: text.into(), start: Some(0), whole, others }.read(passes)
    }

    /// Reads a pipeline of a manifest.
    pub(super) fn of_manifest(manifest: &Manifest, named: &NamedPipeline) -> Result<Written, Error> {
        let whole = named.span.clone();
        let written = manifest.text.get(whole.clone()).unwrap_or_default();
        // A string with escapes is not found, because its source differs from its value.
        let start = written.find(&named.passes).map(|at| whole.start + at);
        let (origin, text) = (manifest.path.clone(), Arc::clone(&manifest.text));
        let others = pipelines_in(&named.passes, manifest);
        Written { pipeline: Pipeline::default(), origin, text, start, whole, others }.read(&named.passes)
    }

    fn read(mut self, pipeline: &str) -> Result<Written, Error> {
        self.pipeline = Pipeline::parse(pipeline).map_err(|error| self.shown(PlanError::from(error).into()))?;
        Ok(self)
    }

    /// Adds the place in the text to an error about a plan. Returns other errors unchanged.
    pub(super) fn shown(&self, error: Error) -> Error {
        let Error::Plan(wrong) = &error else { return error };
        let Some(span) = wrong.span() else { return error };
        let span = self.start.map_or(self.whole.clone(), |start| start + span.start..start + span.end);
        let error = self.other(&span).unwrap_or(error);
        Error::Entry { path: self.origin.clone(), text: Arc::clone(&self.text), span, error: Box::new(error) }
    }

    /// Returns the error for the name of a pipeline in place of a pass.
    fn other(&self, span: &Range<usize>) -> Option<Error> {
        let (before, after) = (self.text.get(..span.start)?, self.text.get(span.start..)?);
        let start = before.rfind(ends_name).map_or(0, |at| at + 1);
        let end = after.find(ends_name).map_or(self.text.len(), |at| span.start + at);
        let name = self.text.get(start..end)?;
        self.others.iter().any(|other| other == name).then(|| Error::Request {
            message: format!("expected a pass, but `{name}` is a pipeline in the manifest"),
            help: format!(
                "run the pipeline with --pipeline {name}; `passhost plan --pipeline {name}` shows its passes"
            ),
        })
    }

    /// Plans the pipeline in a context.
    pub(super) fn plan(&self, context: &PassContext, engine: &Engine) -> Result<Plan, Error> {
        context.plan(self.pipeline.clone(), engine).map_err(|error| self.shown(error))
    }
}

/// Config values that have not been checked against the declarations of plugins yet.
struct Config {
    manifest: BTreeMap<String, ConfigValue>,
    pipeline: BTreeMap<String, ConfigValue>,
    /// The schedules of `--tuned`.
    tuned: Option<OptionValue>,
    line: Vec<(String, OptionValue)>,
}

/// The config option that contains schedules.
pub(super) const SCHEDULES: &str = "tir.schedules";

impl Asked {
    /// Returns the requested context, and the pipeline that runs in it.
    ///
    /// # Errors
    /// All config values of the wrong type or range, and all unknown names in lists.
    pub(super) fn context(
        mut self,
        manifest: &Manifest,
        engine: &Arc<Engine>,
    ) -> Result<(PassContext, Written), Error> {
        let (config, wrong) = few_suggestions(|| self.config.checked(manifest, engine));
        self.request.sequentials = self.written.pipeline.sequentials();
        let context = PassContext::from_parts(engine, self.request, not_asked_for(config), self.target);
        Error::unless_any(wrong, context).map(|context| (context, self.written))
    }
}

impl Config {
    /// Returns the checked values by key, and all errors. The command line overrides the pipeline, which overrides the
    /// manifest.
    fn checked(self, manifest: &Manifest, engine: &Engine) -> (BTreeMap<String, OptionValue>, Vec<Error>) {
        let (mut config, mut problems) = checked_settings(&self.manifest, engine);
        let (pipeline, more) = checked_settings(&self.pipeline, engine);
        config.extend(pipeline);
        problems.extend(more);
        let mut errors: Vec<Error> = manifest.error(problems).into_iter().collect();
        let tuned = self.tuned.map(|value| ("--tuned", SCHEDULES.to_string(), value));
        let line = self.line.into_iter().map(|(key, value)| ("--config", key, value));
        for (of, key, value) in tuned.into_iter().chain(line) {
            match engine.config_value(&key, &value) {
                Ok(value) => {
                    config.insert(key, value);
                }
                Err(error) => errors.push(Error::Config { of, error }),
            }
        }
        (config, errors)
    }
}

/// Checks the config values of a manifest or a pipeline. Returns the valid values, and the errors about the others.
pub(super) fn checked_settings(
    given: &BTreeMap<String, ConfigValue>,
    engine: &Engine,
) -> (BTreeMap<String, OptionValue>, Vec<Problem>) {
    let (mut config, mut problems) = (BTreeMap::new(), Vec::new());
    for (key, ConfigValue { value, span }) in given {
        match engine.config_value(key, value) {
            Ok(value) => {
                config.insert(key.clone(), value);
            }
            Err(error) => problems.push(Problem {
                message: error.to_string(),
                span: Some(span.clone()),
                help: CONFIG_HELP.to_string(),
            }),
        }
    }
    problems.sort_by_key(|problem| problem.span.as_ref().map_or(0, |span| span.start));
    (config, problems)
}

/// Combines the settings of the command line, the pipeline and the manifest.
pub(super) fn request(select: &Select, manifest: &Manifest) -> Result<Asked, Error> {
    let tuned = select.tuned.as_deref().map(|path| tuned(path, select.threads)).transpose()?;
    let of_manifest = manifest.settings.config.clone();
    let mut config = Config { manifest: of_manifest, pipeline: BTreeMap::new(), tuned, line: Vec::new() };
    let mut selections = vec![Selection {
        source: "the command line".to_string(),
        opt_level: select.opt_level,
        disabled: select.disable.clone(),
        required: select.require.clone(),
        instruments: select.instrument.clone(),
    }];
    let mut target = select.target.as_deref().map(Target::parse).transpose()?;
    let written = match &select.passes {
        Some(text) => from_file(text, manifest)?,
        None => {
            let (name, pipeline) = named_pipeline(select.pipeline.as_deref(), manifest)?;
            selections.push(selection(format!("pipeline `{name}`"), &pipeline.settings));
            config.pipeline.clone_from(&pipeline.settings.config);
            target = target.or_else(|| pipeline.settings.target.clone());
            Written::of_manifest(manifest, pipeline)?
        }
    };
    selections.push(selection(manifest.path.display().to_string(), &manifest.settings));
    config.line = on_line(&select.config)?;
    let request = Request { selections, tvm_compat: select.tvm_compat, ..Request::default() };
    Ok(Asked { request, written, config, target: target.or_else(|| manifest.settings.target.clone()) })
}

/// Returns the schedules of a database for this processor, as the value of the config option [`SCHEDULES`].
fn tuned(path: &Path, threads: Option<usize>) -> Result<OptionValue, Error> {
    let records = database::read_file(path)?;
    let processor = processor()?;
    let threads = u16::try_from(threads.unwrap_or_else(rayon::current_num_threads)).unwrap_or(u16::MAX);
    let chosen = database::chosen(&records, &processor, threads);
    if !records.iter().any(|record| record.processor == processor && record.threads == threads) {
        let mut others: Vec<String> = records
            .iter()
            .map(|record| format!("{} with {}", record.processor, counted(record.threads.into(), "thread")))
            .collect();
        others.sort();
        others.dedup();
        let found = if others.is_empty() { "nothing".to_string() } else { others.join(", ") };
        tracing::warn!(
            "{} has no measurements for {processor} with {}, only for {found}; the usual schedules are used",
            path.display(),
            counted(threads.into(), "thread")
        );
    }
    Ok(OptionValue::List(
        chosen.into_iter().map(|(kernel, (schedule, _))| OptionValue::Str(format!("{kernel} {schedule}"))).collect(),
    ))
}

/// Parses values of `--config`.
fn on_line(entries: &[String]) -> Result<Vec<(String, OptionValue)>, Error> {
    let read = |entry: &String| registry::registry::config::entry("--config ", entry);
    let help = || "use, for example, --config acme.limit=16".to_string();
    let refuse = |message| Error::Request { message, help: help() };
    entries.iter().map(|entry| read(entry).map_err(refuse)).collect()
}

/// Returns the request that a bundle stores.
pub(super) fn asked_again(asked: &bundle::Asked) -> Result<Asked, Error> {
    let (manifest, pipeline) = (BTreeMap::new(), BTreeMap::new());
    let config = Config { manifest, pipeline, tuned: None, line: on_line(&asked.config)? };
    let written =
        Written::parse("<the pipeline of the bundle>".into(), (&asked.pipeline, &asked.pipeline), Vec::new())?;
    let tvm_compat = asked.flags.iter().any(|flag| flag == "tvm-compat");
    let request = Request { selections: asked.selections.clone(), tvm_compat, ..Request::default() };
    let target = asked.target.as_deref().map(Target::parse).transpose()?;
    Ok(Asked { request, written, config, target })
}

pub(super) fn selection(source: String, settings: &Settings) -> Selection {
    Selection {
        source,
        opt_level: settings.opt_level,
        disabled: settings.disabled.clone(),
        required: settings.required.clone(),
        instruments: settings.instruments.clone(),
    }
}

/// Returns true if a plugin of the manifest has a pass with this name.
fn is_pass(name: &str, manifest: &Manifest) -> bool {
    let keeper = Keeper::open(manifest, Mode::Off);
    keeper.is_ok_and(|keeper| Engine::list(manifest, keeper.builds_nothing(), &()).0.registry().find(name).is_ok())
}

/// Returns the pipeline of the manifest with this name, or the default pipeline.
pub(super) fn named_pipeline<'m>(
    name: Option<&str>,
    manifest: &'m Manifest,
) -> Result<(String, &'m NamedPipeline), Error> {
    let name = name.or(manifest.default_pipeline.as_deref()).ok_or_else(|| Error::Request {
        message: "no passes to run: the manifest does not define a default pipeline".to_string(),
        help:
            "use --passes 'A,B' or --pipeline NAME, or add a pipeline named `default` under [pipelines] in the manifest"
                .to_string(),
    })?;
    if let Some(pipeline) = manifest.pipelines.get(name) {
        return Ok((name.to_string(), pipeline));
    }
    let known: Vec<&str> = manifest.pipelines.keys().map(String::as_str).collect();
    let near = did_you_mean(&nearest(name, known.iter().copied()));
    let help = match known.as_slice() {
        _ if is_pass(name, manifest) => format!("`{name}` is a pass; use --passes {name}"),
        [] => "define one under [pipelines], or use --passes".to_string(),
        known => format!("pipelines: {}", listed(known)),
    };
    Err(Error::Request { message: format!("unknown pipeline `{name}` in {}{near}", manifest.path.display()), help })
}

/// Reads the value of `--passes`: a pipeline, or `@FILE` with a file that contains one.
fn from_file(text: &str, manifest: &Manifest) -> Result<Written, Error> {
    let Some(path) = text.strip_prefix('@') else {
        return Written::parse("<--passes>".into(), (text, text), pipelines_in(text, manifest));
    };
    let wrong = |why: String| Error::Request {
        message: format!("pipeline file {path}: {why}"),
        help: "--passes @FILE reads a pipeline from a file".to_string(),
    };
    let bytes = read_small(Path::new(path)).map_err(|error| wrong(error.to_string()))?;
    let text = String::from_utf8(bytes).map_err(|error| wrong(error.utf8_error().to_string()))?;
    Written::parse(PathBuf::from(path), (&text, &without_comments(&text)), pipelines_in(&text, manifest))
}

/// Returns the pipelines of a manifest whose names occur in a text. The text is scanned once, so the time is linear
/// even if there are many pipelines.
fn pipelines_in(text: &str, manifest: &Manifest) -> Vec<String> {
    text.split(ends_name).filter(|name| manifest.pipelines.contains_key(*name)).map(str::to_string).collect()
}

/// Returns true for a character that ends a name in a pipeline.
fn ends_name(c: char) -> bool {
    c == ',' || c.is_whitespace() || "[](){}\"".contains(c)
}

/// Replaces the byte order mark and all comments (from a `#` outside of quotes to the end of the line) with blanks, so
/// that the rest of the text keeps its position.
fn without_comments(text: &str) -> String {
    let (mut quoted, mut escaped, mut comment) = (false, false, false);
    let mut out = String::with_capacity(text.len());
    for (i, c) in text.char_indices() {
        comment = c != '\n' && (comment || c == '#' && !quoted);
        if comment || i == 0 && c == '\u{feff}' {
            out.extend(std::iter::repeat_n(' ', c.len_utf8()));
            continue;
        }
        quoted ^= c == '"' && !escaped;
        escaped = quoted && c == '\\' && !escaped;
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_are_blanks() {
        let text = "\u{feff}a.A, # π \"\nb.B{x=\"#\\\"#\"} #";
        let blank = without_comments(text);
        assert_eq!(blank, "   a.A,       \nb.B{x=\"#\\\"#\"}  ");
        assert_eq!(blank.len(), text.len());
    }
}
