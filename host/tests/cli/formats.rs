//! Tests files in formats that plugins read and write. `tests/toy-format` stands for a third party's plugin.

use super::Case;
use super::bad_plugins::example;

/// A model in the format of the toy plugin.
const MODEL: &str = "toy 1\n# two operators\ninput x 2 3\nrelu y x\nadd z x y\noutput z\n";

fn case(name: &'static str) -> Case {
    let case = Case::new(name).crates(&["plugins/relax-ops", "plugins/relax-passes", "tests/toy-format"]);
    case.file("model.toy", MODEL)
}

impl Case {
    /// Runs a command that must succeed, and returns its standard output.
    pub(super) fn fine(&self, args: &[&str]) -> String {
        let (out, said, code) = self.run(args, b"");
        assert_eq!(code, 0, "{args:?}: {said}");
        out
    }

    /// Runs a command that must fail with this exit code, and returns its standard error.
    pub(super) fn refused(&self, args: &[&str], code: i32) -> String {
        let (out, said, found) = self.run(args, b"");
        assert_eq!((found, out.as_str()), (code, ""), "{args:?}: {said}");
        said
    }
}

#[test]
fn a_format_of_a_third_party_is_listed_and_explained() {
    let case = case("toy_listed");
    let list = case.fine(&["list"]);
    let row = |how: &str| list.lines().find(|line| line.starts_with("toy ") && line.contains(how)).unwrap_or_default();
    let words = |how| row(how).split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(words("read"), "toy toy-format read .toy, .toy1 Reads toy models.", "{list}");
    assert!(words("written").starts_with("toy toy-format written .toy Writes toy models: "), "{list}");
    let explained = case.fine(&["explain", "toy"]);
    for part in [
        "toy (reader of a file format)\n\n    Reads toy models.\n\n    The model becomes",
        "toy (writer of a file format)",
        "plugin       toy-format 0.1.0",
        "begins with  `toy 1\\n`",
        "options, as in --from 'toy{function=...}'\n    function: string (default main)",
        "fault: string, ",
        "example\n    passhost run model.toy -o model.py",
    ] {
        assert!(explained.contains(part), "{part}\n{explained}");
    }
    let said = case.refused(&["explain", "toi"], 2);
    assert!(said.contains("or file format `toi`; did you mean `toy`?"), "{said}");
    let doctor = case.fine(&["doctor"]);
    assert!(doctor.lines().any(|line| line.starts_with("formats ") && line.contains("toy (toy-format)")), "{doctor}");
}

#[test]
fn an_empty_file_is_named() {
    let case = case("toy_empty").file("empty.toy", "");
    let said = case.refused(&["exec", "empty.toy", "--random", "1"], 1);
    assert!(
        said.contains("empty.toy: the file is empty; check that it was written or downloaded completely"),
        "{said}"
    );
}

#[test]
fn modules_are_checked() {
    let case = case("toy_checked").file("model.py", "def f(:\n");
    let out = case.fine(&["check", "model.toy"]);
    assert!(out.ends_with("ok  model.toy (1 function)\n3 plugins, 0 pipelines, 1 module, no problems\n"), "{out}");
    let (out, said, code) = case.run(&["check", "model.py", "model.toy", "gone.toy"], b"");
    assert_eq!(code, 1, "{said}");
    assert!(out.contains("ok  model.toy (1 function)\n") && !out.contains("no problems"), "{out}");
    for part in ["--> model.py:1:7", "gone.toy", "2 problems in passes.toml and the modules"] {
        assert!(said.contains(part), "{part}\n{said}");
    }
    let said = case.refused(&["check", "model.toy", "--no-load"], 2);
    assert!(said.contains("cannot be used with"), "{said}");
}

#[test]
fn a_format_of_a_third_party_is_read_by_every_command() {
    let case = case("toy_read");
    let text = case.fine(&["run", "model.toy", "--passes", ""]);
    assert!(text.contains("gv: R.Tensor((2, 3), dtype=\"float32\") = R.nn.relu(x)"), "{text}");
    let case = case.file("model.py", &text);
    // A requested format takes precedence over the extension, and the extension over the first bytes.
    let case = case.file("MODEL.TOY1", MODEL).file("model", MODEL).file("model.txt", MODEL);
    for file in ["MODEL.TOY1", "model", "model.txt", "model.py"] {
        assert_eq!(case.fine(&["run", file, "--passes", ""]), text, "{file}");
    }
    let case = case.file("toy.py", MODEL);
    assert_eq!(case.fine(&["run", "toy.py", "--from", "toy", "--passes", ""]), text);
    let (out, said, code) = case.run(&["run", "-", "--passes", ""], MODEL.as_bytes());
    assert_eq!((out.as_str(), code), (text.as_str(), 0), "{said}");
    let other = case.fine(&["run", "model.toy", "--from", "toy{function=other}", "--passes", ""]);
    assert_eq!(other, text.replace("def main(", "def other("));
    // All commands that execute a module, search it or show it.
    for args in [
        &["exec", "--random", "1"][..],
        &["exec", "--random", "1", "--isolate"],
        &["validate", "--passes", "relax.LegalizeOps"],
        &["bench", "--times", "1", "--passes", "", "--json"],
        &["blame", "--passes", "relax.LegalizeOps", "--at", "gv1"],
        &["plan", "--passes", "relax.LegalizeOps"],
    ] {
        let of = |file| case.fine(&[&[args[0], file], &args[1..]].concat());
        let (toy, python) = (of("model.toy"), of("model.py"));
        assert!(args[0] == "bench" || toy == python, "{args:?}: {toy}\n{python}");
    }
    let search = ["--passes", "relax.LegalizeOps", "--until", "command: ! grep -q call_tir"];
    let found = case.fine(&[&["bisect", "model.toy"], &search[..]].concat());
    assert!(found.contains("relax.LegalizeOps"), "{found}");
    let small = case.fine(&[&["reduce", "model.toy"], &search[..]].concat());
    assert!(small.contains("I.ir_module"), "{small}");
}

#[test]
fn what_is_wrong_in_a_file_is_named_with_its_place() {
    let case = case("toy_wrong")
        .file("bad.toy", "toy 1\ninput x 2\nrelu y z\n")
        .file("none.toy", "toy 1\ninput x 0\noutput x\n");
    let said = case.refused(&["run", "bad.toy", "--passes", ""], 1);
    assert!(
        said.starts_with("error: bad.toy: reader `toy` of plugin `toy-format`: line 3: unknown value `z`\n"),
        "{said}"
    );
    assert!(said.contains("help: `passhost explain toy`"), "{said}");
    let (out, said, code) = case.run(&["run", "none.toy", "--passes", ""], b"");
    assert_eq!((code, out.is_empty()), (0, false), "{said}");
    assert!(said.contains("warning: none.toy: line 2: `x` lacks elements"), "{said}");
    assert!(said.contains("from reader `toy` of plugin `toy-format`, function `main`"), "{said}");
    for (from, message) in [
        ("toy{fault=odd}", "option `fault` of `toy` is `odd`, which is not in"),
        ("toy{fualt=loop}", "reader `toy` has no option `fualt`; did you mean `fault`?"),
        ("tvmscript{a=1}", "option `a` is given, but TVMScript is read without options"),
        ("tyo", "no reader `tyo`; did you mean `toy`?; available formats: toy, tvmscript"),
        ("toy{", "expected"),
    ] {
        let said = case.refused(&["run", "model.toy", "--from", from, "--passes", ""], 2);
        assert!(said.contains(message), "{from}: {said}");
    }
    let case = case.file("model.abc", "what is this\n").file("model.onnx", b"\x08\x08\x12\x07pytorch\x1a\x031.9");
    let said = case.refused(&["run", "model.abc", "--passes", ""], 1);
    let formats = "formats: tvmscript (.py), toy (.toy, .toy1)";
    let line = format!(
        "error: input model.abc: no plugin in the manifest reads .abc files ({formats}), and the file is not TVMScript"
    );
    assert!(said.starts_with(&line) && said.contains("docs/writing-a-reader.md"), "{said}");
    let said = case.refused(&["run", "model.onnx", "--passes", ""], 1);
    assert!(
        said.contains(&format!("looks like an ONNX model, which no plugin in the manifest reads ({formats})")),
        "{said}"
    );
}

/// Faults of a reader, each with the message if it runs in this process, and the message with `--isolate`.
const FAULTS: [(&str, &str, &str); 3] = [
    ("panic", "error: model.toy: reader `toy` of plugin `toy-format`: panicked: the reader lost its way (", ""),
    ("ill-formed", "error: model.toy: reader `toy` of plugin `toy-format`: returned an ill-formed module: ", ""),
    (
        "abort",
        "error: the reader `toy` of plugin `toy-format` was killed by SIGABRT",
        "error: model.toy: reader `toy` of plugin `toy-format`: its worker was killed by SIGABRT",
    ),
];

#[test]
fn a_reader_that_fails_is_named() {
    let case = case("toy_fails");
    for (fault, here, apart) in FAULTS {
        let from = format!("toy{{fault={fault}}}");
        let args = ["run", "model.toy", "--from", &from, "--passes", ""];
        let said = case.refused(&args, 3);
        assert!(said.contains(here), "{fault}: {said}");
        let said = case.refused(&[&args[..], &["--isolate"]].concat(), 3);
        assert!(said.contains(if apart.is_empty() { here } else { apart }), "{fault}: {said}");
    }
    let endless =
        ["run", "model.toy", "--from", "toy{fault=loop}", "--passes", "", "--isolate", "--plugin-timeout", "2s"];
    let said = case.refused(&endless, 3);
    assert!(said.contains("reader `toy` of plugin `toy-format`: its worker exceeded the time limit of 2 s"), "{said}");
    case.nothing_is_left();
}

#[test]
fn an_isolated_reader_gets_the_file_and_its_folder() {
    let case = case("toy_isolated");
    let text = case.fine(&["run", "model.toy", "--passes", ""]);
    assert_eq!(case.fine(&["run", "model.toy", "--passes", "", "--isolate"]), text);
    let (out, said, code) = case.run(&["run", "-", "--from", "toy", "--passes", "", "--isolate"], MODEL.as_bytes());
    assert_eq!((out.as_str(), code), (text.as_str(), 0), "{said}");
    // Isolates one plugin by the manifest.
    let manifest = std::fs::read_to_string(case.path("passes.toml")).expect("the manifest");
    let at = manifest.rfind("[[plugin]]").expect("the last plugin");
    let isolated = format!("{}[[plugin]]\nisolate = true\n{}", &manifest[..at], &manifest[at + 11..]);
    let case = case.file("passes.toml", isolated);
    assert_eq!(case.fine(&["run", "model.toy", "--passes", ""]), text);
    let said = case.refused(&["run", "model.toy", "--from", "toy{fault=abort}", "--passes", ""], 3);
    assert!(said.contains("its worker was killed by SIGABRT"), "{said}");
}

#[test]
fn two_readers_for_one_extension_need_a_choice() {
    let case = case("toy_twice");
    let manifest = std::fs::read_to_string(case.path("passes.toml")).expect("the manifest");
    let other = |name| format!("{manifest}[[plugin]]\npath = \"{}\"\n", example(name).display());
    let case = case.file("passes.toml", other("reads"));
    let said = case.refused(&["run", "model.toy", "--passes", ""], 2);
    let [own, zoo] = ["`toy` of plugin `toy-format` (", "`zoo` of plugin `passhost-zoo` ("];
    assert!(said.contains("more than one reader supports files with the extension `toy`: "), "{said}");
    assert!(said.contains(own) && said.contains(zoo) && said.contains("help: --from NAME"), "{said}");
    assert!(case.fine(&["run", "model.toy", "--from", "toy", "--passes", ""]).contains("R.nn.relu"));
    let case = case.file("passes.toml", other("reads_twice"));
    let said = case.refused(&["list"], 2);
    assert!(said.contains("two plugins have the reader `toy`: plugin `toy-format` ("), "{said}");
}

/// The model as the writer prints it.
const WRITTEN: &str = "toy 1\ninput x 2 3\nrelu gv x\nadd gv1 x gv\noutput gv1\n";

impl Case {
    fn content(&self, file: &str) -> String {
        std::fs::read_to_string(self.path(file)).unwrap_or_default()
    }
}

#[test]
fn a_format_of_a_third_party_is_written() {
    let case = case("toy_written");
    let run = |more: &[&str]| case.fine(&[&["run", "model.toy", "--passes", ""], more].concat());
    run(&["-o", "out.toy"]);
    assert_eq!(case.content("out.toy"), WRITTEN);
    assert_eq!(run(&["--to", "toy"]), WRITTEN);
    run(&["-o", "out.txt", "--to", "toy"]);
    assert_eq!(case.content("out.txt"), WRITTEN);
    run(&["-o", "out2.toy", "--to", "tvmscript"]);
    assert!(case.content("out2.toy").contains("I.ir_module"));
    for isolate in [&[][..], &["--isolate"]] {
        let file = if isolate.is_empty() { "here" } else { "apart" };
        let (out, names) = (format!("{file}.toy"), format!("{file}.names"));
        let to = format!("toy{{names={names}}}");
        run(&[&["-o", &out, "--to", &to], isolate].concat());
        assert_eq!((case.content(&out).as_str(), case.content(&names).as_str()), (WRITTEN, "gv\ngv1\n"));
    }
    // The writer replaces the file that was read, and the file beside it.
    run(&["-o", "model.toy", "--to", "toy{names=here.names}"]);
    assert_eq!((case.content("model.toy").as_str(), case.content("here.names").as_str()), (WRITTEN, "gv\ngv1\n"));
    case.nothing_is_left();
}

#[test]
fn a_writer_that_fails_leaves_all_files() {
    let case = case("toy_not_written").file("out.toy", "before").file("n.txt", "before");
    let model = case.fine(&["run", "model.toy", "--passes", ""]);
    let case = case.file("div.py", model.replace("R.add(x, gv)", "R.divide(x, gv)"));
    let said = case.refused(&["run", "div.py", "--passes", "", "-o", "out.toy", "--to", "toy{names=n.txt}"], 1);
    assert!(
        said.contains("out.toy: writer `toy` of plugin `toy-format`: the format does not support relax.divide"),
        "{said}"
    );
    for (names, message) in [
        ("../n.txt", "`../n.txt` is not the name of another file in the same folder"),
        ("out.toy", "`out.toy` is not the name of another file in the same folder"),
        ("model.toy", "model.toy beside it would be overwritten"),
        ("passes.toml", "passes.toml beside it would be overwritten"),
        ("passes.lock", "passes.lock beside it would be overwritten"),
    ] {
        let to = format!("toy{{names={names:?}}}");
        let said = case.refused(&["run", "model.toy", "--passes", "", "-o", "out.toy", "--to", &to], 4);
        assert!(said.contains(message), "{names}: {said}");
    }
    let said = case.refused(&["run", "model.toy", "--passes", "", "--to", "toy{names=n.txt}"], 4);
    assert!(said.contains("`n.txt` cannot be written beside it: name a file with -o"), "{said}");
    for (args, message) in [
        (&["--to", "toi"][..], "no writer `toi`; did you mean `toy`?"),
        (&["--to", "toy{nams=a}"], "writer `toy` has no option `nams`; did you mean `names`?"),
        (&["-o", "out.onnx"], "TVMScript would be written to a file named .onnx"),
        (&["-o", "out.toy", "--provenance"], "--provenance writes comments, which `toy` files cannot contain"),
    ] {
        let said = case.refused(&[&["run", "model.toy", "--passes", ""], args].concat(), 2);
        assert!(said.contains(message), "{args:?}: {said}");
    }
    assert_eq!((case.content("out.toy").as_str(), case.content("n.txt").as_str()), ("before", "before"));
    case.nothing_is_left();
}
