//! What is asked for: pipeline, lists of passes, and config values, from command line and manifest.

use super::Select;
use crate::context::{PassContext, Target};
use crate::engine::Engine;
use crate::error::{CONFIG_HELP, Error, Problem};
use crate::manifest::{ConfigValue, Manifest, NamedPipeline, Settings};
use plugin_api::meta::OptionValue;
use registry::{Pipeline, PlanError, Registry, Request, Selection};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What is asked for, with values as they were given.
pub(super) struct Asked {
    request: Request,
    config: Config,
    target: Option<Target>,
}

/// Config values as they were given, not yet compared with what plugins declare.
struct Config {
    manifest: BTreeMap<String, ConfigValue>,
    pipeline: BTreeMap<String, ConfigValue>,
    line: Vec<(String, OptionValue)>,
}

impl Asked {
    /// The context that is asked for, and the pipeline that runs in it.
    ///
    /// # Errors
    /// All config values that do not fit, else the first name in a list that nobody has.
    pub(super) fn context(
        mut self,
        manifest: &Manifest,
        engine: &Arc<Engine>,
    ) -> Result<(PassContext, Pipeline), Error> {
        let config = self.config.checked(manifest, engine.registry())?;
        let pipeline = std::mem::take(&mut self.request.pipeline);
        self.request.sequentials = pipeline.sequentials();
        Ok((PassContext::from_parts(engine, self.request, config, self.target)?, pipeline))
    }
}

impl Config {
    /// Values by key as their options have them: those of the command line before those of the pipeline, these before
    /// those of the manifest.
    ///
    /// # Errors
    /// All values that do not fit.
    fn checked(self, manifest: &Manifest, registry: &Registry) -> Result<BTreeMap<String, OptionValue>, Error> {
        let (mut config, mut problems) = checked_settings(&self.manifest, registry);
        let (pipeline, more) = checked_settings(&self.pipeline, registry);
        config.extend(pipeline);
        problems.extend(more);
        let mut errors: Vec<Error> = manifest.error(problems).into_iter().collect();
        for (key, value) in self.line {
            match registry::config::check(registry, &key, &value) {
                Ok(value) => {
                    config.insert(key, value);
                }
                Err(error) => errors.push(Error::Config { of: "--config", error }),
            }
        }
        match errors.len() {
            0 => Ok(config),
            1 => Err(errors.remove(0)),
            _ => Err(Error::Several(errors)),
        }
    }
}

/// Values of a manifest or of a pipeline as their options have them, and what is wrong with the others.
pub(super) fn checked_settings(
    given: &BTreeMap<String, ConfigValue>,
    registry: &Registry,
) -> (BTreeMap<String, OptionValue>, Vec<Problem>) {
    let (mut config, mut problems) = (BTreeMap::new(), Vec::new());
    for (key, ConfigValue { value, span }) in given {
        match registry::config::check(registry, key, value) {
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

/// What command line, pipeline and manifest ask for.
pub(super) fn request(select: &Select, manifest: &Manifest) -> Result<Asked, Error> {
    let mut config = Config { manifest: manifest.settings.config.clone(), pipeline: BTreeMap::new(), line: Vec::new() };
    let mut selections = vec![Selection {
        source: "the command line".to_string(),
        opt_level: select.opt_level,
        disabled: select.disable.clone(),
        required: select.require.clone(),
        instruments: select.instrument.clone(),
    }];
    let mut target = select.target.as_deref().map(Target::parse).transpose()?;
    let text = match &select.passes {
        Some(text) => from_file(text)?,
        None => {
            let (name, pipeline) = named_pipeline(select.pipeline.as_deref(), manifest)?;
            selections.push(selection(format!("pipeline `{name}`"), &pipeline.settings));
            config.pipeline.clone_from(&pipeline.settings.config);
            target = target.or_else(|| pipeline.settings.target.clone());
            pipeline.passes.clone()
        }
    };
    selections.push(selection(manifest.path.display().to_string(), &manifest.settings));
    for entry in &select.config {
        config.line.push(config_entry(entry)?);
    }
    let pipeline = Pipeline::parse(&text).map_err(PlanError::Pipeline)?;
    let request = Request { pipeline, selections, tvm_compat: select.tvm_compat, ..Request::default() };
    Ok(Asked { request, config, target: target.or_else(|| manifest.settings.target.clone()) })
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

/// A pipeline of the manifest by name, or its default one.
fn named_pipeline<'m>(name: Option<&str>, manifest: &'m Manifest) -> Result<(String, &'m NamedPipeline), Error> {
    let name = name.or(manifest.default_pipeline.as_deref()).ok_or_else(|| Error::Request {
        message: "no passes: the manifest has no default pipeline".to_string(),
        help: "use --passes 'A,B' or --pipeline NAME, or set default_pipeline in the manifest".to_string(),
    })?;
    if let Some(pipeline) = manifest.pipelines.get(name) {
        return Ok((name.to_string(), pipeline));
    }
    let known: Vec<&str> = manifest.pipelines.keys().map(String::as_str).collect();
    let near = plugin_api::names::nearest(name, known.iter().copied());
    let near = plugin_api::names::did_you_mean(&near);
    let help = match known.as_slice() {
        [] => "define one under [pipelines], or use --passes".to_string(),
        known => format!("pipelines: {}", known.join(", ")),
    };
    Err(Error::Request { message: format!("no pipeline `{name}` in {}{near}", manifest.path.display()), help })
}

/// `KEY=VALUE`, with a key such as `acme.limit`.
fn config_entry(entry: &str) -> Result<(String, OptionValue), Error> {
    let is_key = |key: &str| {
        let word = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '-');
        key.split('.').all(word)
    };
    entry
        .split_once('=')
        .filter(|(key, _)| is_key(key))
        .and_then(|(key, value)| Some((key.to_string(), OptionValue::parse(value).ok()?)))
        .ok_or_else(|| Error::Request {
            message: format!("`--config {entry}` is not KEY=VALUE"),
            help: "as in --config acme.limit=16".to_string(),
        })
}

/// `@FILE` holds a pipeline.
fn from_file(text: &str) -> Result<String, Error> {
    let Some(path) = text.strip_prefix('@') else { return Ok(text.to_string()) };
    std::fs::read_to_string(path).map_err(|error| Error::Request {
        message: format!("pipeline file {path}: {error}"),
        help: "--passes @FILE reads a pipeline from a file".to_string(),
    })
}
