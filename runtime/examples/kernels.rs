//! Runs each PrimFunc of a module on random tensors, and prints the time: `kernels MODULE.py [--only NAME]
//! [--write FOLDER]`. With `--write`, the arguments before and after the run are written to files, which
//! `tests/oracle/kernels.py` compares with TVM.

#![expect(clippy::print_stdout, reason = "the program prints its results")]

use plugin_api::ir::BodyKind;
use runtime::program::{ParamKind, Program, lower};
use runtime::{Arg, Backend, Interpreter, Limits, Tensor};
use std::error::Error;
use std::path::Path;
use std::time::Instant;

/// Creates a tensor for each parameter. Shape variables are set to 3, weights are small, and variances are
/// positive.
fn arguments(program: &Program, limits: &Limits) -> Result<Vec<Tensor>, Box<dyn Error>> {
    let mut out = Vec::new();
    for (seed, param) in program.params.iter().enumerate() {
        let ParamKind::Tensor(of) = &param.kind else { return Err("a parameter that is not a tensor".into()) };
        let shape: Vec<i64> = of.shape.iter().map(|dim| dim.as_int().unwrap_or(3)).collect();
        out.push(Tensor::random(of.dtype, &shape, seed as u64, limits)?);
    }
    Ok(out)
}

fn written(folder: &Path, name: &str, when: &str, tensors: &[Tensor]) -> Result<(), Box<dyn Error>> {
    for (at, tensor) in tensors.iter().enumerate() {
        std::fs::write(folder.join(format!("{name}.{at}.{when}")), tensor.bytes())?;
        let shape: Vec<String> = tensor.shape().iter().map(|extent| extent.to_string()).collect();
        std::fs::write(folder.join(format!("{name}.{at}.type")), format!("{} {}", tensor.dtype(), shape.join(" ")))?;
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let option = |name: &str| args.iter().position(|arg| arg == name).and_then(|at| args.get(at + 1));
    let text = std::fs::read_to_string(args.first().ok_or("kernels MODULE.py [--only NAME] [--write FOLDER]")?)?;
    let module = script::read(&text, &script::NoOps)?;
    let limits = Limits::unlimited();
    for (name, body) in module.functions() {
        if body.kind() != BodyKind::PrimFunc || option("--only").is_some_and(|only| only != name) {
            continue;
        }
        let program = lower(body)?;
        if option("--only").is_some() {
            println!("{program}");
        }
        let mut tensors = arguments(&program, &limits)?;
        if let Some(folder) = option("--write") {
            written(Path::new(folder), name, "before", &tensors)?;
        }
        let kernel = Interpreter.prepare(body)?;
        let (start, work) = (Instant::now(), limits.work_done());
        kernel.run(&mut tensors.iter_mut().map(Arg::Out).collect::<Vec<_>>(), &limits)?;
        let (seconds, work) = (start.elapsed().as_secs_f64(), (limits.work_done() - work) as f64);
        println!("{name:40} {:9.2} ms {:8.0} M operations/s", seconds * 1e3, work / seconds / 1e6);
        if let Some(folder) = option("--write") {
            written(Path::new(folder), name, "after", &tensors)?;
        }
    }
    Ok(())
}
