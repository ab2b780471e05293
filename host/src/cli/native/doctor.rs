//! The command `doctor`: shows which tools passhost found on this machine, and the purpose of each.

use crate::cli::listing::manifest_path;
use crate::cli::show::table;
use crate::engine::Engine;
use crate::files::to_stdout;
use crate::plugins::lock::Keeper;
use crate::plugins::manifest::Manifest;
use crate::report::error::Error;
use crate::run::execute::backend::native_cache;
use crate::workers::{Holding, holding};
use clap::Args;
use native::Llvm;
use passhost_lang::metadata::FormatInfo;
use registry::{Direction, OwnerId};
use std::process::{Command, Stdio};
use std::thread::available_parallelism;

#[derive(Args)]
pub(in crate::cli) struct DoctorArgs {
    /// Prints the output as JSON.
    #[arg(long)]
    pub(in crate::cli) json: bool,
}

/// A row of the table: one tool or feature for which passhost looks.
struct Finding {
    what: &'static str,
    /// A description of the tool, or the reason why it was not found.
    found: Result<String, String>,
    /// The purpose of the tool or feature.
    enables: &'static str,
}

/// Shows the table of findings.
pub(in crate::cli) fn doctor(args: &DoctorArgs) -> Result<(), Error> {
    let mut findings = findings();
    findings.push(formats());
    to_stdout(&if args.json { json(&findings) } else { text(&findings) })
}

fn findings() -> Vec<Finding> {
    let llvm = Llvm::find();
    let vectors = match &llvm {
        Ok(llvm) => Ok(format!("{} bits ({})", llvm.vector_bits(), llvm.cpu())),
        Err(_) => Err("unknown without LLVM".to_string()),
    };
    let llvm = llvm.map(|llvm| format!("{}: {} ({})", llvm.version(), llvm.path().display(), llvm.from()));
    let cores = available_parallelism().map(|cores| cores.to_string()).map_err(|error| error.to_string());
    let cache = native_cache();
    let cache = cache
        .folder()
        .map(|folder| folder.display().to_string())
        .ok_or_else(|| "the home folder is unknown".to_string());
    let python = "import importlib.metadata as m; print(m.version('apache-tvm'))";
    let finding = |what, found, enables| Finding { what, found, enables };
    let mut all = vec![
        finding("LLVM", llvm.map_err(|error| error.to_string()), "native code: exec, validate, emit"),
        finding("vectors", vectors, "the width of vectors for T.vectorized"),
        finding("cores", cores, "passes over functions, T.parallel, builds"),
        finding("cache", cache, "compiled code is reused"),
        finding("rustc", said("rustc", &["--version"]), "plugins from source: passhost new, crate = \"...\""),
        finding("cargo", said("cargo", &["--version"]), "the same"),
        finding("python3", said("python3", &["--version"]), "the Python package"),
        finding("apache-tvm", said("python3", &["-c", python]), "comparisons with TVM, which passhost does not need"),
    ];
    all.extend(isolation());
    all
}

/// Lists the file formats that the plugins of the manifest read.
fn formats() -> Finding {
    let found = manifest_path(None).and_then(|path| {
        let (engine, _) = Engine::list(&Manifest::load(&path)?, Keeper::off().builds_nothing(), &());
        let registry = engine.registry();
        let one = |(info, owner): (&FormatInfo, OwnerId)| format!("{} ({})", info.name, registry.owner(owner).name);
        Ok(std::iter::once("tvmscript".to_string()).chain(registry.formats(Direction::Read).map(one)).collect())
    });
    let found: Vec<String> = found.unwrap_or_else(|_: Error| vec!["tvmscript; no manifest was found".to_string()]);
    Finding { what: "formats", found: Ok(found.join(", ")), enables: "modules that commands read: `passhost list`" }
}

/// Returns the limits that can be enforced on the process of an isolated plugin.
fn isolation() -> Vec<Finding> {
    let found = |bound: Holding| {
        let found = if bound.holds { Ok(bound.means.to_string()) } else { Err(bound.means.to_string()) };
        Finding { what: bound.what, found, enables: bound.enables }
    };
    match holding() {
        Ok(bounds) => bounds.into_iter().map(found).collect(),
        Err(error) => {
            vec![Finding { what: "isolation", found: Err(error), enables: "isolated plugins" }]
        }
    }
}

/// Runs a program, and returns the first line of its output.
fn said(program: &str, args: &[&str]) -> Result<String, String> {
    let output = Command::new(program).args(args).stdin(Stdio::null()).stderr(Stdio::null()).output();
    let output = output.map_err(|_| "not found".to_string())?;
    let text = String::from_utf8_lossy(&output.stdout).lines().next().unwrap_or_default().to_string();
    if output.status.success() && !text.is_empty() { Ok(text) } else { Err("not found".to_string()) }
}

/// Maximum length of a reason in the table. Longer reasons are shown below the table.
const LONGEST_REASON: usize = 100;

fn text(findings: &[Finding]) -> String {
    let mut rows = vec![["WHAT", "FOUND", "FOR"].map(str::to_string).to_vec()];
    let mut below = String::new();
    for finding in findings {
        let found = match &finding.found {
            Ok(found) => found.clone(),
            Err(why) if why.chars().count() > LONGEST_REASON => {
                below.push_str(&format!("{}: {why}\n", finding.what));
                "- (see below)".to_string()
            }
            Err(why) => format!("- ({why})"),
        };
        rows.push(vec![finding.what.to_string(), found, finding.enables.to_string()]);
    }
    table(&rows) + &below
}

fn json(findings: &[Finding]) -> String {
    let rows: serde_json::Map<String, serde_json::Value> = findings
        .iter()
        .map(|finding| {
            let (found, missing) = (finding.found.as_ref().ok(), finding.found.as_ref().err());
            let row = serde_json::json!({ "found": found, "missing": missing, "for": finding.enables });
            (finding.what.to_string(), row)
        })
        .collect();
    format!("{}\n", serde_json::Value::Object(rows))
}
