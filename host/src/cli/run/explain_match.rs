//! The command `explain-match`: shows whether the patterns of a pass match at a variable, and if not, why.

use super::executed::named::{Named, function_with, variables};
use super::reading::{engine, open, read, read_input};
use crate::cli::arguments::{InputArgs, IsolateArgs, Plugins, Select};
use crate::cli::listing::{self, load};
use crate::cli::messages::Messages;
use crate::cli::select::{Written, request};
use crate::context::Question;
use crate::files::to_stdout;
use crate::plugins::lock::Mode;
use crate::report::Report;
use crate::report::error::{Error, exit};
use crate::run::{PassDiagnostic, Runner};
use clap::Args;
use passhost_lang::ir::{Body, Module};
use passhost_lang::metadata::Granularity;
use plugin_api::declare::diagnostics::Severity;
use registry::Registry;
use registry::pipeline::Form;
use std::path::Path;
use std::sync::Arc;

#[derive(Args)]
pub(in crate::cli) struct ExplainMatchArgs {
    /// The pass, with its options: acme.GroupConvolutions or 'acme.GroupConvolutions{through=[relax.nn.relu]}'.
    pub(in crate::cli) pass: String,
    #[command(flatten)]
    pub(in crate::cli) module: InputArgs,
    /// The variable at which the pattern should match: the value that the outermost part of the pattern describes.
    #[arg(long, value_name = "VARIABLE")]
    pub(in crate::cli) at: String,
    /// The function with the variable. Default: the only function that contains it.
    #[arg(long, value_name = "NAME")]
    pub(in crate::cli) function: Option<String>,
    /// Sets a config option; `passhost config` lists them. May be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    pub(in crate::cli) config: Vec<String>,
    /// The compilation target that passes see: a name such as llvm, or JSON.
    #[arg(long, value_name = "NAME|JSON")]
    pub(in crate::cli) target: Option<String>,
    #[command(flatten)]
    pub(in crate::cli) plugins: Plugins,
    #[command(flatten)]
    pub(in crate::cli) isolate: IsolateArgs,
}

/// Runs the pass with the variable in its context, and shows the answers. Returns the exit code.
pub(in crate::cli) fn explain_match(args: &ExplainMatchArgs, messages: Messages) -> Result<u8, Error> {
    check_order(args)?;
    let (manifest, keeper) = load(&args.plugins, Mode::Update)?;
    let input = read_input(&args.module)?;
    let engine = engine(&manifest, keeper, &args.isolate, messages)?;
    let mut select = select(args);
    let (_, written) = request(&select, &manifest)?.context(&manifest, &engine)?;
    let pass = one_pass(&written, engine.registry())?;
    // The pass runs regardless of its opt_level.
    select.require = vec![pass.clone()];
    let (context, written) = request(&select, &manifest)?.context(&manifest, &engine)?;
    let plan = written.plan(&context, &engine)?;
    listing::tell(engine.lock(), messages);
    open(&engine, &plan, &input, messages)?;
    let module = read(&engine, &context, &input, messages)?;
    let question = Arc::new(Question::new(&pass, args.function.as_deref(), &args.at));
    let report = Runner::in_context(&engine, &context).asks(&question).run(&plan, module.clone())?;
    let Some(before) = question.module() else {
        let message = format!("{pass} did not run");
        let help = "`passhost plan --passes PASS` shows what would run, and why".to_string();
        return Err(report.error.unwrap_or(Error::Request { message, help }));
    };
    has_variable(args, &pass, &module, before)?;
    let answers = answers(&report.diagnostics, &pass);
    match answers.as_slice() {
        [] => say(&none(args, &pass, question.searched()), messages)?,
        answers => {
            for answer in answers {
                say(&answer.report(engine.registry()), messages)?;
            }
        }
    }
    report.error.map_or(Ok(exit::DONE), Err)
}

/// Rejects a request in which the module precedes the pass.
fn check_order(args: &ExplainMatchArgs) -> Result<(), Error> {
    let is_module = |text: &str| text == "-" || Path::new(text).is_file();
    let input = args.module.input.to_string_lossy();
    if !is_module(&args.pass) || is_module(&input) {
        return Ok(());
    }
    Err(Error::Request {
        message: format!("expected a pass before the module, but `{}` is a file", args.pass),
        help: format!("write passhost explain-match {input} {} --at {}", args.pass, args.at),
    })
}

/// Returns the request in the form of `run`.
fn select(args: &ExplainMatchArgs) -> Select {
    Select {
        passes: Some(args.pass.clone()),
        config: args.config.clone(),
        target: args.target.clone(),
        ..Select::of(args.plugins.clone())
    }
}

/// Returns the full name of the only pass in the request.
fn one_pass(written: &Written, registry: &Registry) -> Result<String, Error> {
    let help = || "use, for example, passhost explain-match acme.GroupConvolutions model.py --at lv3".to_string();
    let [stage] = written.pipeline.stages.as_slice() else {
        let message = format!("explain-match takes one pass; found {}", written.pipeline.stages.len());
        return Err(Error::Request { message, help: help() });
    };
    if stage.form != Form::Pass {
        return Err(Error::Request {
            message: format!("explain-match takes one pass; found {}", stage.name),
            help: help(),
        });
    }
    let info = registry.pass(registry.find(&stage.name)?);
    if info.granularity == Granularity::Composite {
        let message = format!("{} is a composite pass; explain-match takes one of its members", info.name);
        let help = format!("`passhost explain {}` lists them", info.name);
        return Err(Error::Request { message, help });
    }
    Ok(info.name.clone())
}

/// Returns the answers of the pass, without duplicates.
fn answers<'r>(diagnostics: &'r [PassDiagnostic], pass: &str) -> Vec<&'r PassDiagnostic> {
    let mut answers: Vec<&PassDiagnostic> = Vec::new();
    for said in diagnostics {
        let is_answer = said.pass == pass && matches!(said.severity, Severity::Missed | Severity::Matched);
        if is_answer && !answers.contains(&said) {
            answers.push(said);
        }
    }
    answers
}

/// Prints an answer on standard output, because it is the result of this command.
fn say(report: &Report, messages: Messages) -> Result<(), Error> {
    to_stdout(&if messages.is_json() { report.json() } else { report.render(true) })
}

/// Returns the answer for a pass that reported none.
fn none(args: &ExplainMatchArgs, pass: &str, searched: bool) -> Report {
    let report = if searched {
        let title = format!("{pass} uses patterns, but did not try any at `{}`", args.at);
        let help = "the pass skips this function, or tries only other values; see its documentation";
        Report::remark(title).help(help)
    } else {
        let title = format!("{pass} does not use patterns");
        Report::remark(title).help("only passes that create their matchers with `ctx.matcher` can be explained")
    };
    report.about("pass", pass)
}

/// Explains where a variable is if the function or module does not contain it when the pass begins.
fn where_else(variable: &str, wanted: Option<&str>, input: &Module, before: &Module) -> String {
    let has = |module: &Module, name: &str| module.get(name).is_some_and(|body| variables(body).contains(&variable));
    let is_prim_func = |name: &str, body: &Body| body.function().is_none() && has(before, name);
    if let Some((name, _)) = before.functions().find(|(name, body)| is_prim_func(name, body)) {
        return format!("`{variable}` is in the PrimFunc `{name}`, but patterns match bindings of Relax functions");
    }
    if input.functions().any(|(name, _)| wanted.is_none_or(|wanted| wanted == name) && has(input, name)) {
        let lost = "the input contains it, but an earlier pass removes or renames it";
        return format!("{lost}; use `passhost run` with that pass to show the remaining variables");
    }
    match before.functions().find(|(name, _)| has(before, name)) {
        Some((other, _)) => format!("function `{other}` contains it"),
        None => "use `passhost run MODULE --passes ''` to show the module with all its variables".to_string(),
    }
}

/// Checks that exactly one function of the module before the pass has the variable.
fn has_variable(args: &ExplainMatchArgs, pass: &str, input: &Module, before: &Module) -> Result<(), Error> {
    let (variable, wanted) = (args.at.as_str(), args.function.as_deref());
    let among: Vec<(&str, &Body)> = before.functions().filter(|(_, body)| body.function().is_some()).collect();
    let elsewhere = || where_else(variable, wanted, input, before);
    function_with(&Named { variable, function: wanted, when: &format!("before {pass}") }, &among, elsewhere).map(drop)
}
