//! Tests that TIR passes preserve loop-carried values (`tests/src/generate/carried.rs`).

use super::passes::report;
use super::{cases, choices, shown};
use passhost_tests::engine;
use passhost_tests::generate::carried::{COUNTS, ELEMENTS, MOST, carried_text};
use passhost_tests::generate::{Choices, bytes_of};
use passhost_tests::kernels::executed;
use plugin_api::prelude::*;
use proptest::prelude::*;
use registry::Pipeline;
use runtime::{Arg, Backend, Interpreter, Limits, Tensor};
use std::path::Path;

/// Number of runs with different arguments.
const RUNS: u64 = 6;

/// Returns passes that may refuse a function, because they expect that other passes ran before.
fn single_passes() -> Vec<&'static str> {
    let of_tir = |name: &&str| ["tir.", "tirx.", "s_tir."].iter().any(|kind| name.starts_with(kind));
    engine().registry().passes().map(|(_, pass)| pass.name.as_str()).filter(of_tir).collect()
}

/// Returns the passes of a pipeline of the default manifest.
fn pipeline(name: &str) -> Vec<String> {
    let manifest =
        std::fs::read_to_string(Path::new(passhost_tests::root()).join("passes.toml")).expect("the manifest");
    let start = manifest.find(&format!("\n{name} = \"\"\"")).expect("the pipeline") + name.len() + 7;
    let text: String = manifest[start..].split("\"\"\"").next().unwrap_or("").split_whitespace().collect();
    let text = text.replace('\\', "");
    Pipeline::parse(&text).expect("a pipeline");
    text.split(',').map(str::to_string).collect()
}

fn arguments(run: u64) -> Vec<Tensor> {
    let bytes = bytes_of(run, 64);
    let of = |elements: i64, from: usize, f: &dyn Fn(u8) -> i32| {
        let values = (0..elements as usize).map(|i| f(bytes[from + i])).collect();
        Tensor::from_vec::<i32>(&[elements], values).expect("a tensor")
    };
    let count = |byte: u8| if run == 0 { MOST as i32 } else { i32::from(byte) % (MOST as i32 + 1) };
    let any = |byte: u8| i32::from(byte) - 60;
    vec![of(COUNTS, 0, &count), of(ELEMENTS, 8, &any), of(ELEMENTS, 24, &any)]
}

/// Returns the contents of the arguments after each run of the only function of a module.
fn left(module: &Module) -> Vec<Result<Vec<u64>, String>> {
    let (_, body) = module.functions().next().expect("one function");
    (0..RUNS).map(|run| executed(&Interpreter, body, &arguments(run)).map_err(|fault| fault.to_string())).collect()
}

fn parsed(bytes: &[u8]) -> (String, Module) {
    let text = carried_text(&Choices::new(bytes));
    let module = script::read(&text, engine()).unwrap_or_else(|error| panic!("{error}\n{text}"));
    (text, module)
}

/// Runs a pass; returns an error if it refuses the module.
fn after(pass: &str, module: &Module) -> Result<Module, String> {
    let report = report(pass, module, |runner| runner);
    report.error.map_or(Ok(report.module), |error| Err(error.to_string()))
}

/// Each pass, and each step of the pipelines, must preserve the values. Each pipeline must complete.
fn keeps_values(bytes: &[u8]) {
    let (text, module) = parsed(bytes);
    let expected = left(&module);
    assert!(expected.iter().all(Result::is_ok), "{expected:?}\n{text}");
    for pass in single_passes() {
        match after(pass, &module) {
            Ok(out) => {
                assert!(left(&out) == expected, "{pass}\n{text}\n{}\n{:?}\n{expected:?}", shown(&out), left(&out))
            }
            Err(error) => {
                let blamed =
                    ["ill-formed", "panicked", "contract", "not valid"].iter().any(|word| error.contains(word));
                assert!(!blamed, "{pass}: {error}\n{text}");
            }
        }
    }
    for name in ["lower-tir", "native"] {
        let mut at = module.clone();
        for pass in pipeline(name) {
            let out = after(&pass, &at).unwrap_or_else(|error| panic!("{name}, {pass}: {error}\n{}", shown(&at)));
            let found = left(&out);
            assert!(found == expected, "{name}, {pass}\n{}\n{}\n{found:?}\n{expected:?}", shown(&at), shown(&out));
            at = out;
        }
    }
}

proptest! {
    #![proptest_config(cases(40))]

    #[test]
    fn values_that_iterations_carry_stay(bytes in choices()) {
        keeps_values(&bytes);
    }
}

/// Loops and blocks that sum each of the `n` rows of A. `m` is the length of a row, and may be 0.
const SUMS: [&str; 4] = [
    r#"
    for i, k in T.grid(n, m):
        with T.sblock("sum"):
            vi, vk = T.axis.remap("SR", [i, k])"#,
    r#"
    for k, i in T.grid(m, n):
        with T.sblock("sum"):
            vi, vk = T.axis.remap("SR", [i, k])"#,
    r#"
    for k0, i, k1 in T.grid((m + T.int64(3)) // T.int64(4), n, T.int64(4)):
        with T.sblock("sum"):
            T.where(k0 * T.int64(4) + k1 < m)
            vi = T.axis.spatial(n, i)
            vk = T.axis.reduce(m, k0 * T.int64(4) + k1)"#,
    r#"
    for i0 in range((n + T.int64(1)) // T.int64(2)):
        for i1, k in T.grid(T.int64(2), m):
            with T.sblock("sum"):
                T.where(i0 * T.int64(2) + i1 < n)
                vi = T.axis.spatial(n, i0 * T.int64(2) + i1)
                vk = T.axis.reduce(m, k)"#,
];

fn sum_of_rows(loops: &str) -> Module {
    let indent = " ".repeat(loops.lines().last().map_or(0, |line| line.len() - line.trim_start().len()));
    let block =
        ["T.reads(A[vi, vk])", "T.writes(B[vi])", "with T.init():", "    B[vi] = 1", "B[vi] = B[vi] + A[vi, vk]"];
    let block: String = block.iter().map(|line| format!("\n{indent}{line}")).collect();
    let text = format!(
        "@T.prim_func(s_tir=True)\ndef f(a: T.handle, b: T.handle):\n    n, m = T.int64(), T.int64()\n    \
         A = T.match_buffer(a, (n, m), \"int32\")\n    B = T.match_buffer(b, (n,), \"int32\"){loops}{block}\n"
    );
    script::read(&text, engine()).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Computes the sums of `n` rows of `m` ones.
fn sums(module: &Module, n: i64, m: i64) -> Vec<i32> {
    let (_, body) = module.functions().next().expect("one function");
    let all = |shape: &[i64], one: i32| {
        Tensor::from_vec::<i32>(shape, vec![one; shape.iter().product::<i64>() as usize]).expect("a tensor")
    };
    let mut tensors = [all(&[n, m], 1), all(&[n], -7)];
    let mut args: Vec<Arg<'_>> = tensors.iter_mut().map(Arg::Out).collect();
    let run = Interpreter.prepare(body).and_then(|ready| ready.run(&mut args, &Limits::new(1 << 20, 1 << 20)));
    run.unwrap_or_else(|fault| panic!("{fault}\n{}", shown(module)));
    tensors[1].values().expect("numbers")
}

/// Before and after each pass, an empty sum is its initial value.
#[test]
fn sums_of_nothing_stay() {
    for loops in SUMS {
        let module = sum_of_rows(loops);
        let check = |module: &Module, what: &str| {
            for (n, m) in [(3, 0), (1, 0), (0, 3), (0, 0), (3, 5)] {
                let expected = vec![m as i32 + 1; n as usize];
                assert_eq!(sums(module, n, m), expected, "{what} of ({n}, {m})\n{}", shown(module));
            }
        };
        check(&module, "no pass");
        for pass in single_passes() {
            if let Ok(out) = after(pass, &module) {
                check(&out, pass);
            }
        }
        for name in ["lower-tir", "native"] {
            let mut at = module.clone();
            for pass in pipeline(name) {
                at = after(&pass, &at).unwrap_or_else(|error| panic!("{name}, {pass}: {error}\n{}", shown(&at)));
                check(&at, &format!("{name}, {pass}"));
            }
        }
    }
}

/// The generator must produce the constructs for which it exists.
#[test]
fn iterations_carry_values() {
    let texts: Vec<String> = (0..200).map(|seed| carried_text(&Choices::new(&bytes_of(seed, 500)))).collect();
    for part in
        ["in range(N[", "T.min(N[", "while p[0]", "T.axis.opaque(", "% 4])", "N[1] = (", "if i1 == 0:", "T.likely("]
    {
        let n = texts.iter().filter(|text| text.contains(part)).count();
        assert!(n >= 5, "{part}: {n}");
    }
}
