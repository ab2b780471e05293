//! The command `replay`: re-runs the failed step of a bundle, and the steps after it.

use super::args::RunArgs;
use super::bundling::{Bundling, flags};
use super::job::{Job, Names};
use super::phases::{Asking, go};
use crate::bundle::Bundle;
use crate::cli::arguments::{ExpectArg, InputArgs, IsolateArgs, ManifestArg, Plugins, Select, rewrites};
use crate::cli::listing::manifest_path;
use crate::cli::messages::Messages;
use crate::cli::{instruments, select};
use crate::files::read_large;
use crate::plugins::amounts::within;
use crate::plugins::lock::{Keeper, Mode};
use crate::plugins::manifest::{Manifest, Settings};
use crate::report::Report;
use crate::report::error::{Error, exit};
use crate::text::Input;
use clap::Args;
use std::path::PathBuf;

#[derive(Args)]
pub(in crate::cli) struct ReplayArgs {
    /// The bundle.
    #[arg(value_name = "BUNDLE")]
    pub(in crate::cli) bundle: PathBuf,
    /// The file for the result. Default, or with `-`: standard output.
    #[arg(short, long, value_name = "FILE")]
    pub(in crate::cli) output: Option<PathBuf>,
    #[command(flatten)]
    pub(in crate::cli) manifest: ManifestArg,
    /// Runs the current plugins of the manifest. Default: plugins that differ from the plugins in the bundle are
    /// refused.
    #[arg(long)]
    pub(in crate::cli) with_current_plugins: bool,
    /// Runs only this pass.
    #[arg(long, value_name = "PASS", conflicts_with = "until")]
    pub(in crate::cli) only: Option<String>,
    /// Stops after this pass.
    #[arg(long, value_name = "PASS")]
    pub(in crate::cli) until: Option<String>,
    /// If this run also fails, writes a bundle.
    #[arg(long = "bundle", id = "new_bundle", value_name = "FILE")]
    pub(in crate::cli) new_bundle: Option<PathBuf>,
    #[command(flatten)]
    pub(in crate::cli) look: instruments::LookArgs,
    /// Number of threads for passes over functions, at most 256. Default: the number of cores.
    #[arg(short, long, value_name = "N", value_parser = within::<u16>(1..=256))]
    pub(in crate::cli) jobs: Option<u16>,
    #[command(flatten)]
    pub(in crate::cli) isolate: IsolateArgs,
}

/// A bundle, with the same request as arguments of `run`.
pub(in crate::cli) struct Replay {
    bundle: Bundle,
    pub(in crate::cli) args: RunArgs,
}

/// Reads the bundle.
///
/// # Errors
/// If the file is not a bundle, or was made by another version of the format.
pub(in crate::cli) fn read(args: &ReplayArgs) -> Result<Replay, Error> {
    let origin = args.bundle.display().to_string();
    let wrong = |message: String| Error::InputFile {
        origin: origin.clone(),
        message,
        help: "use a file that `passhost run --bundle` wrote".to_string(),
    };
    let bytes = read_large(&args.bundle).map_err(|error| wrong(error.to_string()))?;
    let text = String::from_utf8(bytes).map_err(|_| wrong("is not UTF-8, so not a bundle".to_string()))?;
    let bundle = Bundle::parse(&origin, &text)?;
    let plugins = Plugins { manifest: ManifestArg { manifest: args.manifest.manifest.clone() }, locked: false };
    let select = Select { passes: Some(bundle.asked.pipeline.clone()), ..Select::of(plugins) };
    let mut run = RunArgs {
        output: args.output.clone(),
        look: args.look.clone(),
        bundle: args.new_bundle.clone(),
        expect: ExpectArg { expect: bundle.asked.expect.clone() },
        jobs: args.jobs,
        isolate: IsolateArgs {
            isolate: false,
            plugin_timeout: bundle.asked.plugin_timeout,
            plugin_memory: bundle.asked.plugin_memory,
            plugin_cpu: bundle.asked.plugin_cpu,
        },
        ..RunArgs::of(InputArgs::of(args.bundle.clone()), select)
    };
    for text in &bundle.asked.rewrites {
        run.limit.rewrites.push(rewrites(text).map_err(|why| wrong(format!("`asked.rewrites`: {why}")))?);
    }
    for flag in &bundle.asked.flags {
        let known = flags(&mut run).into_iter().find(|(name, _)| name == flag);
        let Some((_, given)) = known else {
            return Err(wrong(format!("was written with the option `--{flag}`, which this passhost does not have")));
        };
        *given = true;
    }
    Ok(Replay { bundle, args: run })
}

/// Runs the rest of the plan. Returns the exit code.
pub(in crate::cli) fn replay(
    args: &ReplayArgs,
    Replay { bundle, args: run }: &Replay,
    seen: &instruments::Seen,
    messages: Messages,
) -> Result<u8, Error> {
    let output = run.output()?;
    if output.leads_to(&args.bundle) {
        let message = "is the bundle, which would be overwritten; choose another file with -o".to_string();
        return Err(Error::Output { path: args.bundle.clone(), message });
    }
    let path = manifest_path(run.select.plugins.manifest.manifest.as_ref())?;
    // The settings of the failed run are in the bundle, so those in the manifest are ignored.
    let manifest = Manifest { settings: Settings::default(), ..Manifest::load(&path)? };
    let keeper = match args.with_current_plugins {
        true => Keeper::open(&manifest, Mode::Update)?,
        false => Keeper::locked_to(&manifest, (&args.bundle, &bundle.lock), OTHERS).map_err(other_plugins)?,
    };
    let asked = select::asked_again(&bundle.asked)?;
    let input = Input::text(format!("<{}>", args.bundle.display()), bundle.module.as_str());
    let names = Names {
        past: bundle.past.clone(),
        first: bundle.failed.position,
        only: args.only.clone(),
        until: args.until.clone(),
    };
    let bundling = Bundling::to(args.new_bundle.as_ref())?;
    let job = Job { manifest, asked, input: input.strict(run.strict), names };
    let result = go(keeper, job, Asking { args: run, output: &output, bundling: &bundling, seen, messages });
    let failed = bundling.first();
    let is_part = args.only.is_some() || args.until.is_some();
    match failed {
        Some(failed) if failed == bundle.failed => {
            messages.report(&Report::remark("this is the same failure as in the bundle"));
        }
        Some(_) => {
            let title = format!("this failure differs from the failure in the bundle: {}", bundle.failed);
            messages.report(&Report::warning(title));
        }
        None if !is_part && matches!(result, Ok(exit::DONE)) => {
            messages.report(&Report::remark(format!("the failure in the bundle did not recur: {}", bundle.failed)));
        }
        None => {}
    }
    result
}

/// Remedy for plugins that differ from the plugins in the bundle.
const OTHERS: &str = "use the manifest and the plugins of the failed run, or --with-current-plugins";

fn other_plugins(error: Error) -> Error {
    match error {
        Error::Lockfile { path, text, mut problem } => {
            problem.help = OTHERS.to_string();
            Error::Lockfile { path, text, problem }
        }
        other => other,
    }
}
