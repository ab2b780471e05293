//! `large` prints the time and peak memory of each command with 1,000, 10,000 and 100,000 passes, options, keys and
//! names. In each next column, a linear command takes ten times as long, and a quadratic command takes a hundred
//! times as long.
//!
//! `cargo build --release -p passhost -p passhost-zoo --bins --examples`, then `cargo run --release -p passhost-tests
//! --bin large`. Other sizes can be given: `large 10 1000`.
#![forbid(unsafe_code)]

use passhost_tests::large::{Kind, manifest, undeclared, write_plugin};
use std::io::{Error, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A kind of plugin, additional manifest entries, and commands; `LAST` is replaced by the last pass.
type Row = (Kind, &'static str, &'static [&'static [&'static str]]);

const ROWS: &[Row] = &[
    (
        Kind::Passes,
        "",
        &[
            &["list"],
            &["explain", "many.P0"],
            &["explain", "many.P0x"],
            &["config"],
            &["check"],
            &["plan", "--passes", "all()"],
            &["plan", "--json", "--passes", "all()"],
            &["plan", "--passes", "@all.txt"],
            &["plan", "--tvm-compat", "--passes", "@all.txt"],
            &["plan", "--passes", "@wrong.txt"],
            &["run", "small.py", "-o", "out.py", "--passes", "all()"],
            &["run", "small.py", "-o", "out.py", "--passes", "many.Counts{n=N}", "--statistics"],
            &["run", "undeclared.py", "-o", "out.py", "--passes", "many.Counts"],
        ],
    ),
    (
        Kind::Chain,
        "",
        &[
            &["list"],
            &["explain", "many.P0"],
            &["check"],
            &["plan", "--passes", "LAST"],
            &["plan", "--passes", "all()"],
            &["run", "small.py", "-o", "out.py", "--passes", "LAST"],
            &["run", "small.py", "-o", "out.py", "--passes", "all()"],
        ],
    ),
    (
        Kind::Contracts,
        "",
        &[
            &["list"],
            &["check"],
            &["plan", "--passes", "many.All"],
            &["run", "small.py", "-o", "out.py", "--passes", "many.All"],
        ],
    ),
    (Kind::Missing, "", &[&["list"], &["check"], &["plan", "--passes", "all()"]]),
    (Kind::Nested, "", &[&["list"], &["check"], &["plan", "--passes", "LAST"], &["explain", "LAST"]]),
    (
        Kind::Options,
        "",
        &[
            &["list"],
            &["explain", "many.P0"],
            &["check"],
            &["plan", "--passes", "@options.txt"],
            &["plan", "--passes", "many.P0{opsion_1=1}"],
            &["run", "small.py", "-o", "out.py", "--passes", "@options.txt"],
        ],
    ),
    (
        Kind::Others,
        "config keys",
        &[
            &["list"],
            &["config"],
            &["explain", "many.key_0"],
            &["check"],
            &["plan", "--passes", "many.Counts"],
            &["plan", "--passes", "many.Counts", "--config", "many.kye_1=1"],
            &["run", "undeclared.py", "-o", "out.py", "--passes", "many.Counts"],
        ],
    ),
    (Kind::Others, "unknown config keys", &[&["check"], &["plan", "--passes", "many.Counts"]]),
    (Kind::Passes, "wrong pipelines", &[&["check"], &["plan", "--pipeline", "p0"], &["list"]]),
    (Kind::Passes, "pipelines", &[&["check"], &["plan", "--pipeline", "p0"], &["plan", "--pipeline", "q0"]]),
    (Kind::Passes, "duplicate keys", &[&["check"], &["list"]]),
    (Kind::Passes, "unknown keys", &[&["check"], &["list"]]),
    (Kind::Passes, "wrong lists", &[&["check"], &["plan", "--passes", "many.P0"]]),
];

const SMALL: &str =
    "@I.ir_module\nclass Module:\n    @R.function\n    def main(x: R.Tensor((2, 3), \"float32\")):\n        return x\n";

fn main() -> Result<(), Error> {
    let sizes: Result<Vec<usize>, _> = std::env::args().skip(1).map(|n| n.parse()).collect();
    let sizes = sizes.map_err(|error| Error::other(format!("usage: large [SIZE ...]: {error}")))?;
    let sizes = if sizes.is_empty() { vec![1_000, 10_000, 100_000] } else { sizes };
    let own = std::env::current_exe()?;
    let built = own.parent().ok_or(Error::other("the folder of this program"))?;
    let mut out = std::io::stdout().lock();
    for (kind, keys, commands) in ROWS {
        let mut times = vec![String::new(); commands.len()];
        for n in &sizes {
            let folder = built.join("large-inputs").join(format!("{kind:?} {keys} {n}"));
            write_inputs(&folder, built, *kind, keys, *n)?;
            for (command, times) in commands.iter().zip(&mut times) {
                let (time, peak) = measured(&built.join("passhost"), &folder, command, *n)?;
                times.push_str(&format!("{:>8.0} ms {:>6.0} MB |", time.as_secs_f64() * 1e3, peak as f64 / 1e6));
            }
            std::fs::remove_dir_all(&folder)?;
        }
        for (command, times) in commands.iter().zip(&times) {
            writeln!(out, "{:<30} {:<55} |{times}", format!("{kind:?} {keys}"), command.join(" "))?;
        }
        out.flush()?;
    }
    Ok(())
}

fn write_inputs(folder: &Path, built: &Path, kind: Kind, keys: &str, n: usize) -> Result<(), Error> {
    std::fs::create_dir_all(folder)?;
    write_plugin(folder, &built.join("examples/libzoo_many.so"), kind, n)?;
    let list = |item: &dyn Fn(usize) -> String| (0..n).map(item).collect::<Vec<_>>().join(",");
    std::fs::write(folder.join("all.txt"), list(&|i| format!("many.P{i}")))?;
    std::fs::write(folder.join("wrong.txt"), list(&|i| format!("many.P{}x", n - i)))?;
    std::fs::write(folder.join("options.txt"), format!("many.P0{{{}}}", list(&|i| format!("option_{i}=1"))))?;
    std::fs::write(folder.join("small.py"), SMALL)?;
    std::fs::write(folder.join("undeclared.py"), undeclared(n))?;
    if keys.is_empty() { Ok(()) } else { std::fs::write(folder.join("passes.toml"), manifest(keys, n)) }
}

/// Measures the time and the peak resident memory of a command. Memory is sampled. The exit code is ignored, so that
/// commands that fail are measured, too.
fn measured(passhost: &Path, folder: &Path, command: &[&str], n: usize) -> Result<(Duration, usize), Error> {
    let (last, n) = (format!("many.P{}", n - 1), n.to_string());
    let args = command.iter().map(|arg| arg.replace("LAST", &last).replace("=N", &format!("={n}")));
    let start = Instant::now();
    let mut child = Command::new(passhost)
        .args(args)
        .current_dir(folder)
        .env("ZOO_MANY", PathBuf::from("many.block"))
        .stdin(Stdio::null())
        .stdout(std::fs::File::create(folder.join("stdout"))?)
        .stderr(std::fs::File::create(folder.join("stderr"))?)
        .spawn()?;
    let (status, mut peak) = (format!("/proc/{}/status", child.id()), 0);
    let ended = loop {
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|rest| rest.split_whitespace().next()?.parse::<usize>().ok()).unwrap_or(0);
        peak = peak.max(kib * 1024);
        if let Some(ended) = child.try_wait()? {
            break ended;
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    if ended.code().is_none_or(|code| code > 3) {
        let said = std::fs::read_to_string(folder.join("stderr"))?;
        return Err(Error::other(format!("{command:?} ended with {ended}: {said}")));
    }
    Ok((start.elapsed(), peak))
}
