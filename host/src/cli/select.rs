//! What is asked for: pipeline, lists of passes, and config values, from command line and manifest.

use super::{Select, complain};
use crate::engine::Engine;
use crate::error::Error;
use crate::manifest::{Manifest, NamedPipeline, Settings};
use crate::report::Report;
use plugin_api::meta::OptionValue;
use registry::{Pipeline, PlanError, Request, Selection};
use std::collections::BTreeMap;

/// The request, and the config values, from command line, pipeline and manifest.
pub(super) fn request(select: &Select, manifest: &Manifest) -> Result<(Request, BTreeMap<String, OptionValue>), Error> {
    let mut config = manifest.settings.config.clone();
    let mut selections = vec![Selection {
        source: "the command line".to_string(),
        opt_level: select.opt_level,
        disabled: select.disable.clone(),
        required: select.require.clone(),
        instruments: select.instrument.clone(),
    }];
    let text = match &select.passes {
        Some(text) => from_file(text)?,
        None => {
            let (name, pipeline) = named_pipeline(select.pipeline.as_deref(), manifest)?;
            selections.push(selection(format!("pipeline `{name}`"), &pipeline.settings));
            config.extend(pipeline.settings.config.clone());
            pipeline.passes.clone()
        }
    };
    selections.push(selection(manifest.path.display().to_string(), &manifest.settings));
    for entry in &select.config {
        let (key, value) = config_entry(entry)?;
        config.insert(key, value);
    }
    let pipeline = Pipeline::parse(&text).map_err(PlanError::Pipeline)?;
    Ok((Request { pipeline, selections }, config))
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

/// Warns of config values that no pass of the manifest can be meant by.
pub(super) fn warn_of_config(config: &BTreeMap<String, OptionValue>, engine: &Engine) {
    let namespace = |name: &str| name.split('.').next().unwrap_or_default().to_string();
    let mut known: Vec<String> = engine.registry().passes().map(|(_, info)| namespace(&info.name)).collect();
    known.sort();
    known.dedup();
    for key in config.keys().filter(|key| !known.contains(&namespace(key))) {
        let near = plugin_api::names::nearest(&namespace(key), known.iter().map(String::as_str));
        let near = plugin_api::names::did_you_mean(&near);
        let message =
            format!("config value `{key}`: no plugin of the manifest has passes in `{}`{near}", namespace(key));
        complain(&Report::warning(message).help("a key begins with the namespace of the passes that read it"));
    }
}

/// `@FILE` holds a pipeline.
fn from_file(text: &str) -> Result<String, Error> {
    let Some(path) = text.strip_prefix('@') else { return Ok(text.to_string()) };
    std::fs::read_to_string(path).map_err(|error| Error::Request {
        message: format!("pipeline file {path}: {error}"),
        help: "--passes @FILE reads a pipeline from a file".to_string(),
    })
}
