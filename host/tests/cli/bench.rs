//! Tests of `passhost bench`: its results, its page, and its messages if the other program is missing or has different
//! results.

use super::{Case, transcript};
use std::os::unix::fs::PermissionsExt;

/// A module in which each operator is a kernel, because no passes run.
const MODULE: &str = r#"
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2, 3), dtype="float32"), w: R.Tensor((3, 4), dtype="float32")):
        R.func_attr({"num_input": 1})
        with R.dataflow():
            product = R.matmul(x, w)
            sum = R.add(product, product)
            gv = R.nn.relu(sum)
            R.output(gv)
        return gv

    @R.function
    def zero(x: R.Tensor((2, 3), dtype="float32")):
        with R.dataflow():
            gv = R.multiply(x, R.const(0, "float32"))
            R.output(gv)
        return gv

    @R.function
    def same(x: R.Tensor((2, 3), dtype="float32")):
        with R.dataflow():
            gv = R.abs(x)
            R.output(gv)
        return gv

    @R.function
    def largest(x: R.Tensor((2, 3), dtype="float32")):
        with R.dataflow():
            gv = R.argmax(x, axis=1)
            R.output(gv)
        return gv
"#;

/// Imitates the script that runs onnxruntime, with results that are all zeros.
const ZEROS: &str = r#"#!/bin/sh
outputs=$(printf %s "$3" | sed 's/.*"outputs":"\([^"]*\)".*/\1/')
echo '{"version":"1.0","seconds":0.5,"outputs":1}'
while read -r command n; do
  case $command in
    run) echo '{"seconds":[0.25,0.5,0.25]}' ;;
    *) head -c 24 /dev/zero > "$outputs"; echo '{"outputs":[{"dtype":"float32","shape":[2,3]}]}' ;;
  esac
done
"#;

fn case(name: &'static str) -> Case {
    let case = Case::new(name).standard().file("model.py", MODULE).file("zeros", ZEROS);
    let case = case
        .file("missing", "#!/bin/sh\necho '{\"missing\":\"onnxruntime\",\"error\":\"No module named onnxruntime\"}'\n");
    let case = case.file("ends", "#!/bin/sh\necho 'out of luck' >&2\nexit 7\n");
    for program in ["zeros", "missing", "ends"] {
        std::fs::set_permissions(case.path(program), std::fs::Permissions::from_mode(0o755)).expect("a program");
    }
    case
}

fn json(stdout: &str) -> serde_json::Value {
    serde_json::from_str(stdout).unwrap_or_else(|error| panic!("{error}: {stdout}"))
}

#[test]
fn figures_of_a_function_and_its_kernels() {
    let case = case("figures");
    let base = ["bench", "model.py", "--backend", "interpreter", "--threads", "1"];
    let (stdout, stderr, code) =
        case.run(&[&base[..], &["--times", "3", "--json", "--html", "bench.html"]].concat(), b"");
    assert_eq!((code, stderr.as_str()), (0, ""), "{stdout}");
    let data = json(&stdout);
    let mut kernels: Vec<(&str, u64, u64, f64)> = data["kernels"]
        .as_array()
        .expect("kernels")
        .iter()
        .map(|kernel| {
            let count = |key: &str| kernel[key].as_u64().expect("a count");
            let speed = kernel["operations_per_second"].as_f64().expect("a speed");
            let expected = count("operations") as f64 / kernel["time"].as_f64().expect("a time");
            assert!((speed / expected - 1.0).abs() < 0.01, "{kernel}");
            (
                kernel["name"].as_str().expect("a name"),
                count("operations"),
                count("bytes"),
                kernel["calls"].as_f64().expect("calls"),
            )
        })
        .collect();
    kernels.sort_unstable_by(|a, b| a.0.cmp(b.0));
    // The product of 2 x 3 and 3 x 4 elements takes 24 multiplications and 24 additions. The arguments have 6, 12 and 8
    // floats, and the add uses one value twice.
    assert_eq!(kernels, [("R.add", 8, 96, 1.0), ("R.matmul", 48, 104, 1.0), ("R.nn.relu", 8, 64, 1.0)]);
    assert_eq!(data["runs"]["all"].as_array().map(Vec::len), Some(3));
    assert_eq!((&data["threads"], &data["peaks"], &data["against"]), (&1.into(), &().into(), &().into()));
    let inside: f64 =
        data["kernels"].as_array().expect("kernels").iter().filter_map(|kernel| kernel["share"].as_f64()).sum();
    assert!(inside > 0.0 && inside < 1.0, "{data}");
    let page = std::fs::read_to_string(case.path("bench.html")).expect("a page");
    well_formed(&page);
    assert!(page.contains("R.matmul</td>") && page.matches("<rect").count() == 3, "{page}");

    let (stdout, _, code) = case.run(&base, b"");
    assert_eq!(code, 0, "{stdout}");
    let lines: Vec<&str> = stdout.lines().collect();
    let first =
        "main after no passes (the manifest does not define the pipeline `native`), by the interpreter with 1 thread";
    assert_eq!(lines[0], first);
    let words = |line: &str| line.split_whitespace().map(str::to_string).collect::<Vec<_>>();
    assert_eq!(words(lines[2]), words("TIME SHARE CALLS GF/s OF PEAK GB/s OF PEAK KERNEL"), "{stdout}");
    assert!(lines[3..6].iter().any(|line| line.ends_with("  R.matmul")), "{stdout}");
    assert!(lines[6].ends_with("outside kernels: memory for results, calls"), "{stdout}");
}

#[test]
fn native_code_is_compiled_anew_and_has_peaks() {
    let case = case("native");
    let (stdout, stderr, code) = case.run(&["bench", "model.py", "--times", "1", "--cold", "--json"], b"");
    assert_eq!(code, 0, "{stderr}");
    let data = json(&stdout);
    // A machine that builds this has the LLVM library of rustc.
    assert_eq!(
        (&data["cold"]["compiled"], &data["code"]["cached"], &data["code"]["compiled"]),
        (&3.into(), &3.into(), &0.into())
    );
    let peak = |key: &str| data["peaks"][key].as_f64().expect("a peak");
    assert!(peak("operations_per_second") > 1e8 && peak("bytes_per_second") > 1e8, "{data}");
}

/// A sum whose steps depend on each other is far from the limits of every machine.
const CHAIN: &str = r#"
@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def chain(x: T.handle, s: T.Buffer((1,), "float32")):
        n = T.int64()
        X = T.match_buffer(x, (n,))
        s[0] = T.float32(0)
        for i in range(n):
            s[0] = T.sin(s[0] * T.float32(0.5) + X[i])

    @R.function
    def main(x: R.Tensor(("n",), "float32")):
        cls = Module
        return R.call_tir(cls.chain, (x,), out_ty=R.Tensor((1,), "float32"))
"#;

#[test]
fn a_slow_kernel_is_named_with_its_symbolic_dimensions() {
    let case = Case::new("slow").standard().file("chain.py", CHAIN);
    let (stdout, stderr, code) = case.run(&["bench", "chain.py", "--times", "3", "--dim", "n=100000"], b"");
    assert_eq!(code, 0, "{stderr}");
    let note = "note: less than a quarter of the peak: `chain`; `passhost run --missed` shows blocks that are not \
                scheduled, and why; `relax.BindSymbolicVars` compiles the model for certain values of `n`\n";
    assert!(stdout.contains(note), "{stdout}");
}

#[test]
fn another_program_in_turns() {
    let case = case("turns");
    let of = |module: &str, function: &str, input: &[u8]| {
        let base = ["bench", module, "--backend", "interpreter", "--against", "onnxruntime", "--times", "3"];
        let mut command = case.command(&[&base[..], &["--json", "--function", function]].concat());
        command.env("PASSHOST_PYTHON", case.path("zeros"));
        case.finish(command, input)
    };
    let run = |function: &str| of("model.py", function, b"");
    let module = std::fs::read(case.path("model.py")).expect("a module");
    let (_, stderr, code) = of("-", "zero", &module);
    assert_eq!((code, stderr.as_str()), (0, ""), "standard input is read once");
    let (stdout, stderr, code) = run("zero");
    assert_eq!((code, stderr.as_str()), (0, ""), "{stdout}");
    let against = &json(&stdout)["against"];
    assert_eq!((&against["version"], &against["difference"]), (&"1.0".into(), &0.0.into()));
    assert_eq!((&against["runs"]["min"], &against["runs"]["median"]), (&0.25.into(), &0.25.into()));
    assert!(against["ratio"].as_f64().is_some_and(|ratio| ratio > 0.0 && ratio < 4.0), "{against}");
    let (stdout, stderr, code) = run("same");
    assert_eq!((code, &json(&stdout)["against"]["difference"]), (1, &().into()), "JSON cannot represent infinity");
    assert!(stderr.contains("error: `output` differs from the result of onnxruntime by "), "{stderr}");
}

#[test]
fn bench_refusals() {
    let case = case("bench_refusals");
    let run = |python: &str, args: &[&str]| {
        let args = [&["bench", "model.py", "--against", "onnxruntime"], args].concat();
        let mut command = case.command(&args);
        command.env("PASSHOST_PYTHON", if python.is_empty() { "no-such-python".into() } else { case.path(python) });
        transcript(&args, case.finish(command, b""))
    };
    let shown = [
        run("", &[]),
        run("missing", &[]),
        run("ends", &[]),
        run("zeros", &["--function", "largest"]),
        run("zeros", &["--function", "nothing"]),
        transcript(
            &["bench", "model.py", "--html", "model.py"],
            case.run(&["bench", "model.py", "--html", "model.py"], b""),
        ),
    ];
    case.golden(&shown.join("\n"));
}

/// Checks that every element is closed in the right place.
fn well_formed(page: &str) {
    let mut open: Vec<&str> = Vec::new();
    // Styles are not elements.
    let (before, rest) = page.split_once("<style>").expect("a style");
    let (_, after) = rest.split_once("</style>").expect("its end");
    for part in [before, after].iter().flat_map(|part| part.split('<').skip(1)) {
        let tag = part.split_once('>').unwrap_or_else(|| panic!("`<{part}` is not closed")).0;
        let name = tag.split_whitespace().next().unwrap_or_default();
        match name.strip_prefix('/') {
            Some(name) => assert_eq!(open.pop(), Some(name), "{page}"),
            None if name == "!doctype" || name == "meta" => {}
            None => open.push(name),
        }
        assert_eq!(tag.matches('"').count() % 2, 0, "<{tag}>");
    }
    assert!(open.is_empty(), "{open:?}");
}
