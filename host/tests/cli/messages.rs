//! Tests messages about requests that cannot be fulfilled. Each message names the value that was found, and suggests
//! a remedy. Each golden covers several commands.

use super::{Case, transcript};

const MODULE: &str = "\
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((\"n\", 3), dtype=\"float32\")) -> R.Tensor((\"n\", 3), dtype=\"float32\"):
        with R.dataflow():
            a = R.nn.relu(x)
            b = R.add(a, a)
            R.output(b)
        return b

    @R.function
    def small(y: R.Tensor((2,), dtype=\"float8_e4m3fn\")) -> R.Tensor((2,), dtype=\"float8_e4m3fn\"):
        return y
";

fn case(name: &'static str) -> Case {
    Case::new(name).standard().file("m.py", MODULE)
}

fn check(case: &Case, commands: &[&[&str]]) {
    let shown: Vec<String> = commands.iter().map(|args| transcript(args, case.run(args, b""))).collect();
    case.golden(&shown.join("\n"));
}

#[test]
fn names_that_are_not_there() {
    check(
        &case("names_that_are_not_there"),
        &[
            &["run", "m.py", "--pipeline", "relax.Normalize"],
            &["run", "m.py", "--passes", "native"],
            &[
                "run",
                "m.py",
                "--passes",
                "relax.Normalize",
                "--print-changed",
                "--print-function",
                "man",
                "-o",
                "out.py",
            ],
            &["run", "m.py", "--passes", "relax.FuseOps{fuse_opt_levl=1}"],
            &["run", "m.py", "--passes", "relax.FuseOps{fuse_opt_level=99999999999999999999}"],
            &["blame", "m.py", "--passes", "", "--at", "zz"],
            &["emit", "m.py", "--passes", "relax.LegalizeOps", "--kind", "asm", "--function", "reluu"],
            &["emit", "m.py", "--kind", "asm", "--function", "relu"],
            &["explain-match", "m.py", "--at", "b", "relax.Normalize"],
            &["replay", "m.py"],
            &["exec", "m.py", "--random", "1", "--dim", "n=9223372036854775807"],
            &["exec", "m.py", "--random", "1", "--function", "small"],
        ],
    );
}

/// The manifest contains a misspelt name of a plugin, and grants without effect.
#[test]
fn mistakes_of_a_manifest() {
    let deep = format!("search = {}{}\n", "[".repeat(100), "]".repeat(100));
    let keys = format!("{} = 1\n", vec!["a"; 100].join("."));
    let plugin = "[[plugin]]\nname = \"evl\"\nisolate = true\n";
    let folder = format!("search = [\"lib\"]\n{plugin}");
    let case = case("mistakes_of_a_manifest");
    std::fs::create_dir(case.path("lib")).expect("a folder");
    let library = format!("lib/{}evil{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    std::fs::write(case.path(&library), "").expect("a file");
    let mut shown = String::new();
    for text in [
        &*deep,
        &keys,
        &folder,
        "opt_level = 99999999999999999999\n[config]\nacme.limit = 99999999999999999999\n",
        &format!("{plugin}memory = [\"1 GiB\"]\ntimeout = true\ncpu = \"99999999999999999999 s\"\n"),
        &format!("{plugin}memory = \"1.5 GiB\"\ntimeout = \"1 minute\"\ncpu = 0x0\n"),
        &format!("{plugin}memory = \"1 KiB\"\ntimeout = -1\ncpu = 99999999999999999999\n"),
        &format!("{plugin}env = [\"A=B\", \"A*B\", \"\", \"A*\"]\nread = [\"\"]\nwrite = [\"\", \".\"]\n"),
    ] {
        std::fs::write(case.path("passes.toml"), text).expect("a manifest");
        let args = ["run", "m.py", "--passes", ""];
        let (_, said, code) = case.run(&args, b"");
        assert_ne!(code, 0, "{text}: {said}");
        // The width of a cut line does not matter.
        let lines: Vec<&str> = said.lines().filter(|line| !line.contains("[[[[") && !line.contains("a.a.a.")).collect();
        shown.push_str(&format!("{}\n\n", lines.join("\n")));
    }
    case.golden(&shown);
}

/// Each command rejects an output file whose extension belongs to another format.
#[test]
fn files_that_are_named_like_others() {
    let case = case("files_that_are_named_like_others");
    let files = ["py", "npz", "ll", "s", "o", "so", "h", "html", "json", "onnx", "txt"];
    let run = &["run", "m.py", "--passes", ""][..];
    let emit = ["llvm-ir", "optimized", "asm", "object", "shared"].map(|kind| ["emit", "m.py", "--kind", kind]);
    let until = ["m.py", "--passes", "", "--until", "fails"];
    let searches = ["reduce", "bisect"].map(|command| [&[command][..], &until].concat());
    let outputs: [(&[&str], &str, &[&str]); 12] = [
        (run, "-o", &["py"]),
        (run, "--report", &["html", "json"]),
        (run, "--trace", &["json"]),
        (run, "--bundle", &["json"]),
        (&["exec", "m.py", "--random", "1"], "-o", &["npz"]),
        (&["bench", "m.py"], "--html", &["html"]),
        (&emit[0], "-o", &["ll"]),
        (&emit[1], "-o", &["ll"]),
        (&emit[2], "-o", &["s"]),
        (&emit[3], "-o", &["o"]),
        (&emit[4], "-o", &["so"]),
        (&searches[0], "-o", &["py"]),
    ];
    let bisect = (&searches[1][..], "-o", &["py"][..]);
    for (args, option, own) in outputs.into_iter().chain([bisect]) {
        for end in files.iter().filter(|end| !own.contains(end) && **end != "txt") {
            let file = format!("out.{end}");
            let args = [args, &[option, &file]].concat();
            let (stdout, said, code) = case.run(&args, b"");
            assert_eq!((code, stdout.as_str()), (2, ""), "{args:?}: {said}");
            let is_header = *end == "h" && args[0] == "emit" && matches!(args[3], "object" | "shared");
            let why = if is_header {
                "-o names the header".to_string()
            } else {
                format!("to a file named .{end}; name it .{}", own[0])
            };
            assert!(said.contains(&why), "{args:?}: {said}");
            assert!(!case.path(&file).exists(), "{args:?}");
        }
    }
    // Cases: the right extension in capitals, an unknown extension, and no extension.
    for file in ["out.PY", "out.txt", "out"] {
        let (_, said, code) = case.run(&[run, &["-o", file]].concat(), b"");
        assert_eq!(code, 0, "{file}: {said}");
    }
}

/// A module may come from a named pipe. If no process writes to it, a warning names the pipe.
#[test]
fn pipes_that_nobody_writes_to() {
    let case = Case::empty("pipes_that_nobody_writes_to").file("passes.toml", "");
    let pipe = case.path("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo runs");
    assert!(made.success());
    for args in [&["run", "pipe", "--passes", ""][..], &["replay", "pipe"]] {
        let command = case.command(args);
        let (_, said, code) = std::thread::scope(|scope| {
            let write = || {
                std::thread::sleep(std::time::Duration::from_secs(2));
                std::fs::write(&pipe, MODULE.replace("relu(x)", "relu(x")).expect("the pipe is read");
            };
            scope.spawn(write);
            case.finish(command, b"")
        });
        assert!(said.contains("pipe is a named pipe to which nothing was written yet"), "{args:?}: {said}");
        assert!(code == 1 && said.contains("error"), "{args:?}: {code} {said}");
    }
}
