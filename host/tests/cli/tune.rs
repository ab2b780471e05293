//! Tests of `passhost tune`, and of the databases that it writes.

use super::{Case, transcript};
use passhost::tune::database::{Outcome, Record, read_file};
use std::collections::BTreeSet;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// A kernel, and a function that calls it.
const MODULE: &str = r#"
@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def product(A: T.Buffer((48, 64), "float32"), B: T.Buffer((64, 96), "float32"), C: T.Buffer((48, 96), "float32")):
        for i, j, k in T.grid(48, 96, 64):
            with T.sblock("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0.0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]

    @R.function
    def main(x: R.Tensor((48, 64), "float32"), w: R.Tensor((64, 96), "float32")):
        cls = Module
        y = R.call_tir(cls.product, (x, w), out_ty=R.Tensor((48, 96), "float32"))
        return y
"#;

/// The pipeline `native` without its passes for Relax.
const PIPELINES: &str = r#"
[pipelines]
native = """tir.ScheduleForCPU,s_tir.LowerInitBlock,s_tir.PlanAndUpdateBufferAllocationLocation,\
  s_tir.ConvertBlocksToOpaque,s_tir.CompactBufferAllocation,s_tir.LowerMatchBuffer,s_tir.StmtSimplify,s_tir.LowerOpaqueBlock"""
"#;

fn case(name: &'static str) -> Case {
    let case = Case::new(name).crates(&["plugins/relax-ops", "plugins/relax-passes", "plugins/tir-passes"]);
    let manifest = std::fs::read_to_string(case.path("passes.toml")).expect("a manifest") + PIPELINES;
    let case = case.file("passes.toml", manifest).file("model.py", MODULE);
    let (_, stderr, code) = case.run(&["build"], b"");
    assert_eq!(code, 0, "{stderr}");
    case
}

/// Returns the first quoted text after `key`.
fn quoted<'t>(text: &'t str, key: &str) -> &'t str {
    let (_, rest) = text.split_once(key).unwrap_or_else(|| panic!("no `{key}` in {text}"));
    rest.trim_start_matches(['"', ':', ' ', '[']).split('"').next().expect("a quoted text")
}

#[test]
fn a_stopped_search_continues() {
    let case = case("stopped");
    let args = ["tune", "model.py", "--threads", "1", "--database", "a.tuned", "--time"];
    let path = case.path("a.tuned");
    let mut command = case.command(&[&args[..], &["10min"]].concat());
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("passhost runs");
    let lines = || std::fs::read_to_string(&path).unwrap_or_default().lines().count();
    let begin = Instant::now();
    while lines() < 4 {
        assert!(begin.elapsed() < Duration::from_secs(120), "nothing is measured");
        assert!(child.try_wait().expect("a process").is_none(), "the search ended");
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().expect("killed");
    child.wait().expect("an end");
    // The process that searches ends with its parent.
    while std::fs::File::open(&path).expect("a database").try_lock().is_err() {
        assert!(begin.elapsed() < Duration::from_secs(120), "the search goes on");
        std::thread::sleep(Duration::from_millis(20));
    }
    let before = read_file(&path).expect("a database");
    let cut = std::fs::read_to_string(&path).expect("a database") + "0123456789abcdef cpu";
    std::fs::write(&path, &cut).expect("written");
    let (stdout, stderr, code) = case.run(&[&args[..], &["8s", "--json"]].concat(), b"");
    assert_eq!(code, 0, "{stderr}");
    let after = read_file(&path).expect("a database");
    assert_eq!(after[..before.len()], before[..]);
    assert!(after.len() > before.len(), "{stderr}");
    let measured: BTreeSet<(&str, bool)> =
        after.iter().map(|record| (record.schedule.as_str(), record.is_final())).collect();
    assert_eq!(measured.len(), after.len(), "a schedule is measured twice");
    let tried = after.iter().filter(|record| !record.is_final()).count();
    let data: serde_json::Value = serde_json::from_str(&stdout).unwrap_or_else(|error| panic!("{error}: {stdout}"));
    let kernel = &data["kernels"][0];
    assert_eq!((&kernel["names"][0], kernel["tried"].as_u64()), (&"product".into(), Some(tried as u64)), "{data}");
    let seconds = |key: &str| kernel[key].as_f64().expect("a time");
    assert!(seconds("best") <= seconds("default") && seconds("best") > 0.0, "{data}");
}

#[test]
fn a_schedule_of_the_database_is_used() {
    let case = case("used");
    let run = |args: &[&str]| {
        let (stdout, stderr, code) = case.run(&[&["run", "model.py"], args].concat(), b"");
        assert_eq!(code, 0, "{stderr}");
        (stdout, stderr)
    };
    let native = |database: &str| run(&["--pipeline", "native", "--tuned", database]);
    let (listed, _) = run(&["--passes", "tir.ListSchedules"]);
    let (usual, _) = run(&["--pipeline", "native"]);
    // The warning about a database of nothing names this processor.
    std::fs::write(case.path("empty.tuned"), "passhost-tuning 1\n").expect("written");
    let (same, stderr) = native("empty.tuned");
    assert_eq!(same, usual);
    let (_, rest) = stderr.split_once("has no measurements for ").unwrap_or_else(|| panic!("{stderr}"));
    let processor = rest.split(' ').next().expect("a processor");
    let record = Record {
        kernel: quoted(&listed, "tir.schedule_key").to_string(),
        processor: processor.to_string(),
        threads: u16::try_from(std::thread::available_parallelism().map_or(1, usize::from)).expect("some threads"),
        schedule: "c=0:3,l=16,n=2,v=1".to_string(),
        outcome: Outcome::Time { nanos: 1, usual: 2, is_final: true },
    };
    let write = |name: &str, record: &Record| {
        std::fs::write(case.path(name), format!("passhost-tuning 1\n{record}\n")).expect("written");
    };
    write("own.tuned", &record);
    let (tuned, stderr) = native("own.tuned");
    assert!(!stderr.contains("own.tuned"), "{stderr}");
    assert!(tuned != usual && tuned == native("own.tuned").0);
    assert!(tuned.contains("T.unroll(3)"), "{tuned}");
    let exec = |args: &[&str]| {
        let (stdout, stderr, code) =
            case.run(&[&["exec", "model.py", "--random", "1", "--pipeline", "native"], args].concat(), b"");
        assert_eq!(code, 0, "{stderr}");
        stdout
    };
    assert_eq!(exec(&[]), exec(&["--tuned", "own.tuned"]), "the results have the same bits");
    write("other.tuned", &Record { processor: "z80-00000000".to_string(), ..record.clone() });
    let (other, stderr) = native("other.tuned");
    assert_eq!(other, usual);
    assert!(stderr.contains("only for z80-00000000 with "), "{stderr}");
    write("impossible.tuned", &Record { schedule: "c=0:99,l=16,n=2,v=1".to_string(), ..record });
    let (other, stderr) = run(&["--pipeline", "native", "--tuned", "impossible.tuned", "--missed"]);
    assert_eq!(other, usual);
    assert!(stderr.contains("the reduction has no tile `c=0:99,l=16,n=2,v=1`"), "{stderr}");
}

#[test]
fn databases_and_requests_that_are_refused() {
    let case = case("tune_refusals")
        .file("module.tuned", MODULE.trim_start())
        .file("later.tuned", "passhost-tuning 2\nsomething new\n")
        .file("damaged.tuned", "passhost-tuning 1\n0123456789abcdef cpu-0 1 l=16 try=1/2 00000000\n")
        .file("binary.tuned", b"passhost-tuning 1\n\xff\n");
    let shown = |args: &[&str]| transcript(args, case.run(args, b""));
    let databases = ["module.tuned", "later.tuned", "damaged.tuned", "binary.tuned", "nothing.tuned"];
    let mut all: Vec<String> =
        databases.iter().map(|name| shown(&["run", "model.py", "--passes", "", "--tuned", name])).collect();
    all.push(shown(&["tune", "model.py", "--database", "damaged.tuned"]));
    all.push(shown(&["tune", "model.py", "--passes", "s_tir.LowerInitBlock", "--database", "new.tuned"]));
    all.push(shown(&["tune", "model.py", "--function", "other", "--database", "new.tuned"]));
    case.golden(&all.join("\n"));
}
