//! Repeats recorded pass runs: parses the module before the pass, runs the pass as recorded, and compares the result
//! with the recorded result.

use super::modules::read;
use super::{Failure, Outcome, guarded};
use passhost::verify::verify_read;
use passhost::{Engine, Instrument, PassContext, RunReport, Runner};
use plugin_api::ir::Module;
use plugin_api::metadata::{OptionValue, PassInfo};
use registry::{Form, Pipeline, Plan, Request, Selection, Stage};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A recorded run of one pass.
#[derive(Debug)]
pub struct PassCase {
    /// The id of the case.
    pub id: String,
    /// The name of the pass in TVM.
    pub pass: String,
    /// Positional arguments.
    pub args: Vec<Value>,
    /// Keyword arguments.
    pub kwargs: serde_json::Map<String, Value>,
    /// The context: opt_level, required_pass, disabled_pass, config, target.
    pub context: Value,
    /// The module before the pass.
    pub before: String,
    /// The module after the pass; `None` if the pass raised an error.
    pub after: Option<String>,
}

/// Tests one run.
pub fn run(case: &PassCase, engine: &Arc<Engine>) -> Outcome {
    let (mut opaque_calls, operators) = (0, &**engine);
    let failure = guarded(|| {
        let (before, opaque) = read("before not read", &case.before, operators)?;
        opaque_calls = opaque;
        let after = case.after.as_ref().map(|after| read("after not read", after, operators)).transpose()?;
        match (replay(case, before, engine, None)?, after) {
            (Ok(got), Some((want, _))) if got.structural_eq(&want) => Ok(()),
            (Ok(got), Some((want, _))) => {
                let (want, got) = (
                    script::print(&want, operators).expect("the module can be printed"),
                    script::print(&got, operators).expect("the module can be printed"),
                );
                let why = super::modules::text_difference(&want, &got);
                Err(Failure::new(
                    "another result",
                    why.map_or_else(|| "the texts are equal".to_string(), |why| why.lines),
                ))
            }
            (Ok(_), None) => Err(Failure::new("did not raise", "TVM raised an error here")),
            (Err(_), None) => Ok(()),
            (Err(why), Some(_)) => Err(Failure::new("raised", why)),
        }
    });
    Outcome { id: case.id.clone(), group: case.pass.clone(), failure: failure.err(), text: None, opaque_calls }
}

/// Returns the full name of a TVM pass. Names without a namespace are Relax passes; two passes have names that differ
/// from their factories.
pub(super) fn full_name(case: &PassCase) -> String {
    match case.pass.as_str() {
        "DecomposeOps" => "relax.DecomposeOpsForInference".to_string(),
        "tirx.NarrowDataType" if case.args.is_empty() => "tirx.ForceNarrowIndexToInt32".to_string(),
        name if name.contains('.') => name.to_string(),
        name => format!("relax.{name}"),
    }
}

/// Returns the result of a pass with this full name, or its error; the input is verified as in a run.
///
/// # Errors
/// If there is no such pass, the module is ill-formed, or the pass fails.
pub fn after(pass: &str, module: Module, engine: &Arc<Engine>) -> Result<Module, String> {
    verify_read(&module, &**engine).map_err(|why| why.to_string())?;
    let kwargs = serde_json::Map::new();
    let (context, after) = (serde_json::json!({"opt_level": 9}), None);
    let (id, before, args) = (String::new(), String::new(), Vec::new());
    let case = PassCase { id, pass: pass.to_string(), args, kwargs, context, before, after };
    replay(&case, module, engine, None).unwrap_or_else(|failure| Err(failure.why))
}

/// Runs the pass with an instrument that observes it. The inner error is the error of the pass.
pub(super) fn replay(
    case: &PassCase,
    before: Module,
    engine: &Arc<Engine>,
    seen_by: Option<Instrument>,
) -> Result<Result<Module, String>, Failure> {
    let report = report_of(case, before, engine, seen_by)?;
    Ok(match report.error {
        None => Ok(report.module),
        Some(error) => Err(error.to_string()),
    })
}

/// Runs the pass, and returns the full report of the run.
pub(super) fn report_of(
    case: &PassCase,
    before: Module,
    engine: &Arc<Engine>,
    seen_by: Option<Instrument>,
) -> Result<RunReport, Failure> {
    let name = full_name(case);
    let Some(id) = engine.registry().find_full(&name) else {
        return Err(Failure::new("no such pass", name));
    };
    let options = options(case, engine.registry().pass(id))?;
    let stage = Stage { name: name.clone(), options, span: 0..name.len(), form: Form::Pass };
    let names = |key: &str| -> Vec<String> {
        let names = case.context[key].as_array().into_iter().flatten().filter_map(Value::as_str);
        names.map(str::to_string).collect()
    };
    let selection = Selection {
        source: "the record".to_string(),
        opt_level: case.context["opt_level"].as_i64().and_then(|level| level.try_into().ok()),
        disabled: names("disabled_pass"),
        required: names("required_pass"),
        ..Selection::default()
    };
    let request =
        Request { pipeline: Pipeline { stages: vec![stage] }, selections: vec![selection], ..Request::default() };
    let plan = Plan::new(&request, engine.registry()).map_err(|why| Failure::new("not planned", why))?;
    let runner = Runner::in_context(engine, &context(case, engine)?).verified_input(true);
    let report = seen_by.into_iter().fold(runner, Runner::instrument).run(&plan, before);
    report.map_err(|why| Failure::new("not planned", why))
}

/// Returns the context of the run: its target and config values. Levels and pass names belong to the plan.
fn context(case: &PassCase, engine: &Arc<Engine>) -> Result<PassContext, Failure> {
    let mut context = PassContext::builder();
    if let Some(target) = case.context["target"].as_str() {
        context = context.target(target);
    }
    for (key, value) in config(&case.context["config"])? {
        context = context.config(&key, value);
    }
    context.build(engine).map_err(|why| Failure::new("config", why))
}

/// Converts arguments to options: positional arguments are options in order, and `null` means the default.
fn options(case: &PassCase, info: &PassInfo) -> Result<Vec<(String, OptionValue)>, Failure> {
    let mut given = Vec::new();
    for (i, value) in case.args.iter().enumerate() {
        let Some(option) = info.options.get(i) else {
            return Err(Failure::new("options", format!("{} has no option for argument {i}: {value}", info.name)));
        };
        given.push((option.name.clone(), value));
    }
    given.extend(case.kwargs.iter().map(|(key, value)| (key.clone(), value)));
    let mut options = Vec::new();
    for (key, value) in given.into_iter().filter(|(_, value)| !value.is_null()) {
        let Some(value) = option_value(value) else {
            return Err(Failure::new("options", format!("{} cannot take `{key}`: {value}", info.name)));
        };
        options.push((key, value));
    }
    Ok(options)
}

/// Converts a JSON value; an object becomes a list of its entries, such as `n=16`.
fn option_value(value: &Value) -> Option<OptionValue> {
    Some(match value {
        Value::Bool(v) => OptionValue::Bool(*v),
        Value::String(v) => OptionValue::Str(v.clone()),
        Value::Number(v) => match v.as_i64() {
            Some(v) => OptionValue::Int(v),
            None => OptionValue::Float(v.as_f64()?),
        },
        Value::Array(items) => OptionValue::List(items.iter().map(option_value).collect::<Option<_>>()?),
        Value::Object(entries) => {
            OptionValue::List(entries.iter().map(|(key, value)| OptionValue::Str(format!("{key}={value}"))).collect())
        }
        Value::Null => return None,
    })
}

/// Converts config values. A structured value, recorded as `pkg.XConfig(field=value, …)`, becomes one value for each
/// field, as in `tirx.UnrollLoop.auto_max_step`.
fn config(recorded: &Value) -> Result<BTreeMap<String, OptionValue>, Failure> {
    let mut out = BTreeMap::new();
    for (key, value) in recorded.as_object().into_iter().flatten() {
        let unreadable = || Failure::new("config", format!("cannot read `{key}`: {value}"));
        match value.get("__repr__").and_then(Value::as_str) {
            Some(text) => {
                let fields =
                    text.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')')).ok_or_else(unreadable)?;
                for field in fields.split(',').filter(|field| !field.trim().is_empty()) {
                    let (name, value) = field.split_once('=').ok_or_else(unreadable)?;
                    let value = match value.trim() {
                        "True" => OptionValue::Bool(true),
                        "False" => OptionValue::Bool(false),
                        other => OptionValue::parse(other).map_err(|_| unreadable())?,
                    };
                    out.insert(format!("{key}.{}", name.trim()), value);
                }
            }
            None => {
                out.insert(key.clone(), option_value(value).ok_or_else(unreadable)?);
            }
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structured_config_is_one_value_for_each_field() {
        let recorded = serde_json::json!({"tirx.X": {"__repr__": "a.XConfig(n=8, on=True)", "__type__": "X"}, "k": 1});
        let config = config(&recorded).expect("readable");
        let found: Vec<_> = config.iter().map(|(key, value)| format!("{key}={value}")).collect();
        assert_eq!(found, ["k=1", "tirx.X.n=8", "tirx.X.on=true"]);
    }
}
