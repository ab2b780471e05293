//! A bundle: one file with everything needed to reproduce a failed run. `passhost run --bundle` writes it, and `passhost replay` reads it.
//!
//! The format is JSON. It contains the module before the failed step, so that completed steps need not run again; [`Bundle::past`]
//! contains the outcomes of earlier passes. Instead of the plugins, a bundle contains their lockfile entries.

use crate::files::Output;
use crate::report::error::Error;
use registry::{Outcome, Selection};
use serde_json::{Value, json};

/// Version of the format that this host writes. It is also the newest version that this host reads.
const FORM: u64 = 1;

/// A failure, in a form in which the failures of two runs can be compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// Full name of the failed pass, if a pass failed.
    pub pass: Option<String>,
    /// Number of the step in the plan.
    pub position: Option<usize>,
    /// Name of the function, if known.
    pub function: Option<String>,
    /// The kind of failure, as in [`Cause::name`](crate::report::error::Cause::name).
    pub cause: String,
    /// The error message.
    pub message: String,
}

impl Failed {
    /// Converts an error.
    pub fn of(error: &Error) -> Failed {
        match error {
            Error::Step { position, pass, function, message, cause, .. } => Failed {
                pass: Some(pass.clone()),
                position: Some(*position),
                function: function.clone(),
                cause: cause.name().to_string(),
                message: message.clone(),
            },
            Error::Instrument { pass, message, .. } => Failed {
                pass: pass.as_ref().map(|(_, name)| name.clone()),
                position: pass.as_ref().map(|(position, _)| *position),
                function: None,
                cause: "instrument".to_string(),
                message: message.clone(),
            },
            Error::Several(errors) if !errors.is_empty() => Failed::of(&errors[0]),
            Error::Rule(error) => Failed::before_all_passes("rule", without_origin(error)),
            Error::Plugin { .. } => Failed::before_all_passes("plugin", error.to_string()),
            other => Failed::before_all_passes("expectation", other.to_string()),
        }
    }

    fn before_all_passes(cause: &str, message: String) -> Failed {
        let (pass, position, function) = Default::default();
        Failed { pass, position, function, cause: cause.to_string(), message }
    }
}

/// Returns the message without the name of the input, because a replay has a different input.
fn without_origin(error: &Error) -> String {
    match error {
        Error::IllFormed { message, .. } => message.clone(),
        Error::Input { error, .. } => error.to_string(),
        other => other.to_string(),
    }
}

/// Formats as in `step 3, pass acme.Fold: panicked: index out of bounds`.
impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(position) = self.position {
            write!(f, "step {position}, ")?;
        }
        if let Some(pass) = &self.pass {
            write!(f, "pass {pass}: ")?;
        }
        f.write_str(&self.message)?;
        self.function.as_ref().map_or(Ok(()), |name| write!(f, "; in function `{name}`"))
    }
}

/// The request of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Asked {
    /// The pipeline, in the form of `--passes`.
    pub pipeline: String,
    /// Precedence levels, highest first.
    pub selections: Vec<Selection>,
    /// Config values, in the form of `--config`.
    pub config: Vec<String>,
    /// The target, in the form of `--target`.
    pub target: Option<String>,
    /// Conditions on counters of passes, in the form of `--expect`.
    pub expect: Vec<String>,
    /// The given flags of `passhost run`, such as `keep-going`.
    pub flags: Vec<String>,
    /// Limits on the rewrites of passes, in the form of `--rewrites`.
    pub rewrites: Vec<String>,
    /// Time limit for a call of an isolated plugin, in milliseconds.
    pub plugin_timeout: Option<u64>,
    /// Memory limit of an isolated plugin, in bytes.
    pub plugin_memory: Option<u64>,
    /// Processor time limit of an isolated plugin, in milliseconds.
    pub plugin_cpu: Option<u64>,
}

/// A failed run.
#[derive(Clone, Debug, PartialEq)]
pub struct Bundle {
    /// Version of passhost, and the system that it runs on.
    pub made_by: String,
    /// The request of the run.
    pub asked: Asked,
    /// The first failure.
    pub failed: Failed,
    /// The messages of the run up to and including the failure, as JSON lines in the form of `--message-format json`.
    pub messages: Vec<Value>,
    /// Outcomes of the passes before the failed pass.
    pub past: Vec<Outcome>,
    /// Lockfile entries of the plugins.
    pub lock: String,
    /// The module before the failed step.
    pub module: String,
}

impl Bundle {
    /// Returns the text of the file.
    pub fn text(&self) -> String {
        let Asked { pipeline, selections, config, target, expect, flags, rewrites, .. } = &self.asked;
        let Asked { plugin_timeout, plugin_memory, plugin_cpu, .. } = &self.asked;
        let Failed { pass, position, function, cause, message } = &self.failed;
        let past: Vec<&str> = self.past.iter().map(past_name).collect();
        let bundle = json!({
            "passhost_bundle": FORM,
            "made_by": self.made_by,
            "failed": {
                "pass": pass,
                "position": position,
                "function": function,
                "cause": cause,
                "message": message,
            },
            "asked": {
                "pipeline": pipeline,
                "selections": selections.iter().map(selection_json).collect::<Vec<_>>(),
                "config": config,
                "target": target,
                "expect": expect,
                "flags": flags,
                "rewrites": rewrites,
                "plugin_timeout": plugin_timeout,
                "plugin_memory": plugin_memory,
                "plugin_cpu": plugin_cpu,
            },
            "past": past,
            "messages": self.messages,
            "lock": self.lock,
            "module": self.module,
        });
        format!("{bundle:#}\n")
    }

    /// Writes the bundle.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&self, file: &Output) -> Result<(), Error> {
        file.write(&self.text())
    }

    /// Reads the text of a bundle.
    ///
    /// # Errors
    /// If the text is not a valid bundle.
    pub fn parse(origin: &str, text: &str) -> Result<Bundle, Error> {
        read(text).map_err(|message| match crate::text::looks_like_module(text) {
            true => Error::InputFile {
                origin: origin.to_string(),
                message: "looks like TVMScript, not like a bundle".to_string(),
                help: format!("`passhost run {origin}` runs passes over it; `run --bundle FILE` writes a bundle"),
            },
            false => Error::InputFile {
                origin: origin.to_string(),
                message: format!("is not a bundle that this passhost can replay: {message}"),
                help: "use a file that `passhost run --bundle` wrote; if it was damaged in transfer, copy it again"
                    .to_string(),
            },
        })
    }
}

fn selection_json(selection: &Selection) -> Value {
    let Selection { source, opt_level, disabled, required, instruments } = selection;
    json!({
        "source": source, "opt_level": opt_level, "disabled": disabled, "required": required, "instruments": instruments,
    })
}

/// Returns the name that a bundle uses for the outcome of a pass that ran or was vetoed.
fn past_name(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Changed => "changed",
        Outcome::Vetoed(_) => "vetoed",
        _ => "unchanged",
    }
}

fn past_named(name: &str) -> Option<Outcome> {
    Some(match name {
        "changed" => Outcome::Changed,
        "unchanged" => Outcome::Unchanged,
        "vetoed" => Outcome::Vetoed("an instrument of the previous run".to_string()),
        _ => return None,
    })
}

fn read(text: &str) -> Result<Bundle, String> {
    let all: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let all = Field { name: String::new(), value: &all };
    let form = all.get("passhost_bundle")?;
    if form.value.as_u64() != Some(FORM) {
        return Err(format!("its form is {}, but this passhost reads form {FORM}", form.value));
    }
    let (asked, failed) = (all.get("asked")?, all.get("failed")?);
    let past = all.get("past")?;
    let named = |field: Field<'_>| {
        let name = field.text()?;
        past_named(&name).ok_or_else(|| format!("`{}` has the unknown value `{name}`", past.name))
    };
    Ok(Bundle {
        made_by: all.get("made_by")?.text()?,
        asked: Asked {
            pipeline: asked.get("pipeline")?.text()?,
            selections: asked.get("selections")?.list(selection)?,
            config: asked.get("config")?.list(Field::text)?,
            target: asked.get("target")?.optional(Field::text)?,
            expect: asked.get("expect")?.list(Field::text)?,
            flags: asked.get("flags")?.list(Field::text)?,
            rewrites: asked.get("rewrites")?.list(Field::text)?,
            plugin_timeout: asked.get("plugin_timeout")?.optional(Field::integer)?,
            plugin_memory: asked.get("plugin_memory")?.optional(Field::integer)?,
            plugin_cpu: asked.get("plugin_cpu")?.optional(Field::integer)?,
        },
        failed: Failed {
            pass: failed.get("pass")?.optional(Field::text)?,
            position: failed.get("position")?.optional(Field::integer)?,
            function: failed.get("function")?.optional(Field::text)?,
            cause: failed.get("cause")?.text()?,
            message: failed.get("message")?.text()?,
        },
        messages: all.get("messages")?.list(|field| Ok(field.value.clone()))?,
        past: past.list(named)?,
        lock: all.get("lock")?.text()?,
        module: all.get("module")?.text()?,
    })
}

fn selection(field: Field<'_>) -> Result<Selection, String> {
    Ok(Selection {
        source: field.get("source")?.text()?,
        opt_level: field.get("opt_level")?.optional(Field::integer)?,
        disabled: field.get("disabled")?.list(Field::text)?,
        required: field.get("required")?.list(Field::text)?,
        instruments: field.get("instruments")?.list(Field::text)?,
    })
}

/// A value in the file, and its name for messages.
struct Field<'v> {
    name: String,
    value: &'v Value,
}

impl<'v> Field<'v> {
    fn get(&self, name: &str) -> Result<Field<'v>, String> {
        let full = if self.name.is_empty() { name.to_string() } else { format!("{}.{name}", self.name) };
        match self.value.get(name) {
            Some(value) => Ok(Field { name: full, value }),
            None => Err(format!("`{full}` is missing")),
        }
    }

    fn wrong<T>(&self, wanted: &str) -> Result<T, String> {
        Err(format!("`{}` is not {wanted}", self.name))
    }

    fn text(self) -> Result<String, String> {
        self.value.as_str().map_or_else(|| self.wrong("a text"), |text| Ok(text.to_string()))
    }

    fn integer<T: TryFrom<i64>>(self) -> Result<T, String> {
        let value = self.value.as_i64().and_then(|value| T::try_from(value).ok());
        value.map_or_else(|| self.wrong("an integer in range"), Ok)
    }

    fn optional<T>(self, read: impl FnOnce(Field<'v>) -> Result<T, String>) -> Result<Option<T>, String> {
        if self.value.is_null() { Ok(None) } else { read(self).map(Some) }
    }

    fn list<T>(&self, read: impl Fn(Field<'v>) -> Result<T, String>) -> Result<Vec<T>, String> {
        let Some(items) = self.value.as_array() else { return self.wrong("a list") };
        let field = |(at, value)| Field { name: format!("{}[{at}]", self.name), value };
        items.iter().enumerate().map(field).map(read).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bundle() -> Bundle {
        let selection = Selection {
            source: "the command line".to_string(),
            opt_level: Some(-1),
            disabled: vec!["a.A".to_string()],
            required: vec!["a.B".to_string()],
            instruments: vec!["a.I{every=2}".to_string()],
        };
        Bundle {
            made_by: "passhost 0.1.0 on x86_64-unknown-linux-gnu".to_string(),
            asked: Asked {
                pipeline: "a.A,a.B{x=1}".to_string(),
                selections: vec![selection],
                config: vec!["a.limit=16".to_string()],
                target: Some("llvm".to_string()),
                expect: vec!["a.A.n >= 1".to_string()],
                flags: vec!["keep-going".to_string(), "isolate".to_string()],
                rewrites: vec!["main=7".to_string()],
                plugin_timeout: Some(2000),
                plugin_memory: Some(1 << 40),
                plugin_cpu: None,
            },
            failed: Failed {
                pass: Some("a.B".to_string()),
                position: Some(2),
                function: Some("main".to_string()),
                cause: "panic".to_string(),
                message: "panicked: \"x\"\n".to_string(),
            },
            messages: vec![json!({ "level": "error" })],
            past: ["changed", "unchanged", "vetoed"].map(|name| past_named(name).expect("an outcome")).to_vec(),
            lock: "format = 1\n".to_string(),
            module: "# from tvm.script import ir as I\n".to_string(),
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        assert_eq!(Bundle::parse("b", &bundle().text()).expect("a bundle"), bundle());
        let bare = Bundle {
            asked: Asked::default(),
            failed: Failed { pass: None, position: None, function: None, ..bundle().failed },
            messages: Vec::new(),
            past: Vec::new(),
            ..bundle()
        };
        assert_eq!(Bundle::parse("b", &bare.text()).expect("a bundle"), bare);
    }

    #[test]
    fn each_damage_is_named() {
        let said = |text: &str| Bundle::parse("b", text).expect_err("damaged").to_string();
        assert!(said("").contains("EOF"), "{}", said(""));
        assert!(said("{}").ends_with("`passhost_bundle` is missing"));
        let text = bundle().text();
        for (from, to, why) in [
            ("\"passhost_bundle\": 1", "\"passhost_bundle\": 2", "its form is 2, but this passhost reads form 1"),
            ("\"vetoed\"", "\"veto\"", "`past` has the unknown value `veto`"),
            (
                "\"opt_level\": -1",
                "\"opt_level\": 3000000000",
                "`asked.selections[0].opt_level` is not an integer in range",
            ),
            ("\"config\": [", "\"konfig\": [", "`asked.config` is missing"),
            ("\"position\": 2", "\"position\": \"2\"", "`failed.position` is not an integer in range"),
            ("\"lock\": \"format = 1\\n\"", "\"lock\": 1", "`lock` is not a text"),
        ] {
            let damaged = text.replace(from, to);
            assert_ne!(damaged, text, "{from}");
            assert!(said(&damaged).ends_with(why), "{}", said(&damaged));
        }
        for end in 0..text.len() - 1 {
            assert!(Bundle::parse("b", &text[..end]).is_err(), "{end}");
        }
    }
}
