//! The first program of `docs/embedding.md`.
#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "it is a program")]

use passhost::{Engine, Error, Input, Manifest, Pass};
use std::process::ExitCode;
use std::sync::Arc;

fn normalized() -> Result<String, Error> {
    let manifest = Manifest::load("passes.toml".as_ref())?;
    let engine = Arc::new(Engine::locked(&manifest)?);
    let module = engine.read_module(&Input::file("model.py")?).module?;
    let module = Pass::find(&engine, "relax.Normalize")?.run(&module)?;
    engine.print_module(&module)
}

fn main() -> ExitCode {
    match normalized() {
        Ok(text) => print!("{text}"),
        Err(error) => {
            error.reports().iter().for_each(|report| eprint!("{}", report.render(false)));
            return ExitCode::from(error.exit_code());
        }
    }
    ExitCode::SUCCESS
}
