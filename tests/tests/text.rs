//! Tests parsing and printing with the real operators: round trips, and texts that must not harm the parser.
#![forbid(unsafe_code)]

use passhost::Manifest;
use passhost_tests::synthetic::module_text;
use passhost_tests::{engine, root};
use proptest::prelude::*;
use std::io::Write;
use std::path::Path;

/// Returns the models in the project, and additional models next to it if present. Some of them are lowered to TIR
/// functions.
fn models() -> Vec<(String, String)> {
    let mut out = Vec::new();
    for folder in [root().join("tests/models"), root().join("../shared/models")] {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.extension().is_some_and(|ext| ext == "py") {
                let text = std::fs::read_to_string(&path).expect("a model");
                out.push((path.display().to_string(), text));
            }
        }
    }
    out
}

#[test]
fn models_print_as_they_were_read() {
    let models = models();
    assert!(models.len() >= 3);
    if !models.iter().any(|(_, text)| text.contains("T.prim_func")) {
        let note = "no lowered models beside the project: TIR is not read in models here";
        writeln!(std::io::stderr(), "{note}").expect("stderr takes a line");
    }
    for (name, text) in models {
        let module = script::read(&text, engine()).unwrap_or_else(|error| panic!("{name}: {error}"));
        let printed = script::print(&module, engine()).expect("the module can be printed");
        assert!(printed.trim_end() == text.trim_end(), "{name} prints differently from how it was written");
        let again = script::read(&printed, engine()).expect("the printed text can be read");
        assert!(again.structural_eq(&module) && again.structural_hash() == module.structural_hash());
    }
}

#[test]
fn places_of_nodes_lie_in_the_text() {
    let module = script::read(&module_text(2, 20), engine()).expect("a module");
    let printed = script::print_with_spans(&module, engine()).expect("the module can be printed");
    assert_eq!(printed.text, script::print(&module, engine()).expect("the module can be printed"));
    for (name, body) in module.functions() {
        for value in body.bindings() {
            let span = printed.spans[name][value.index().expect("a node")].clone();
            let line = &printed.text[span];
            assert!(line.starts_with(value.name().expect("a name")), "{line}");
        }
    }
}

/// Deeply nested texts are refused, with a position. The stack is small on purpose.
#[test]
fn depth_is_refused_before_parsing() {
    let n = 100_000;
    let bombs = [
        "(".repeat(n),
        "[".repeat(n) + &"]".repeat(n),
        format!("x = {}y", "-".repeat(n)),
        format!("x = {}y", "not ".repeat(n)),
        format!("x = {}y", "~".repeat(n)),
        format!("x = a{}", ".b".repeat(n)),
        format!("x = a{}", "()".repeat(n)),
        format!("x = a{}", " ** a".repeat(n)),
        format!("x = a{}", " + a".repeat(n)),
        format!("x = {}a", "lambda: ".repeat(n)),
        format!("x = {}a", "a if a else ".repeat(n)),
        format!("x = a{}", " = a".repeat(n)),
        format!("x = {}1", "-\\\n".repeat(n)),
        format!("x = {}1", "-\\\r\n".repeat(n)),
        format!("x = f\"{{{}1}}\"", "-".repeat(n)),
        format!("x = {}0", "lambda a, b: ".repeat(n)),
        format!("x = {}", "[),".repeat(n)),
        format!("x = {}", "f(x],".repeat(n)),
        format!("x = {}1", "yield ".repeat(n)),
        format!("x = {}1", "while x: ".repeat(n)),
        format!("# a\rx = {}1", "-".repeat(n)),
        format!("x = 'a\\\r\n', {}1", "-".repeat(n)),
        format!("x = {}1", "1if 1else ".repeat(n)),
        format!("x = {}", format!("{}(", "-".repeat(400)).repeat(400)),
        (0..2_000).map(|i| format!("{}if x:\n", " ".repeat(i))).collect::<String>(),
    ];
    let run = move || {
        for bomb in bombs {
            let error = script::read(&bomb, engine()).expect_err("too deep");
            let first = &error.diagnostics[0];
            assert!(first.span.start <= bomb.len());
        }
    };
    engine();
    std::thread::Builder::new().stack_size(2 << 20).spawn(run).expect("a thread").join().expect("no panic");
}

/// Brackets and operators up to the limit are parsed, even on a small stack.
#[test]
fn a_thousand_brackets_are_no_danger() {
    let n = 998;
    let value = format!("{}x{}", "(".repeat(n), ")".repeat(n));
    let text = format!(
        "@I.ir_module\nclass Module:\n    @R.function\n    def main(x: R.Tensor((2,), \"int8\")):\n        return {value}\n"
    );
    let run = move || script::read(&text, engine()).map(drop);
    engine();
    let read = std::thread::Builder::new().stack_size(1 << 20).spawn(run).expect("a thread").join();
    assert_eq!(read.expect("no panic"), Ok(()));
}

/// A short text with many constructs, so that most damage leaves a text that is almost a module.
const SEED: &str = r#"
@I.ir_module
class Module:
    I.module_attrs({"system_lib_prefix": "a", "n": [1, 2.5, None]})
    twice = R.ExternFunc("ext_twice")
    @R.function(private=True)
    def helper(x: R.Tensor((2, 4), dtype="float32")) -> R.Tensor((2, 4), dtype="float32"):
        return R.nn.relu(x)
    @R.function(pure=False)
    def main(x: R.Tensor(("n", 4), dtype="float32"), c: R.Tensor((), "bool"), f: R.Callable(ret=R.Tensor(ndim=2))):
        R.func_attr({"num_input": 1})
        n = T.int64()
        m = T.int64()
        with R.dataflow():
            a = R.add(x, R.const(1.0, "float32"))
            b: R.Tensor(ndim=2) = R.multiply(a, a)
            R.output(b)
        s = R.match_cast(b, R.Tensor((m, 4), dtype="float32"))
        @R.function
        def again(y: R.Tensor((m, 4), dtype="float32")) -> R.Tensor((m, 4), dtype="float32"):
            return again(R.exp(y))
        if c:
            t = again(s)
            r: R.Tensor((m, 4), dtype="float32") = t
        else:
            r = s
        u = (r, R.shape([m, n + 1]), f(r), R.str("s"))
        v = R.reshape(u[0], (m * 4,))
        w = cls.helper(R.zeros((2, 4), dtype="float32"))
        R.print(v, format="{}")
        return (w, v, R.prim_value(3), cls.twice(v))
"#;

#[test]
fn the_seed_is_a_module() {
    let module = script::read(SEED, engine()).unwrap_or_else(|error| panic!("{error}"));
    let printed = script::print(&module, engine()).expect("the module can be printed");
    let again = script::read(&printed, engine()).unwrap_or_else(|error| panic!("{error}: {printed}"));
    assert!(again.structural_eq(&module), "{printed}");
}

/// Returns a strategy for inserted text: arbitrary characters, or meaningful pieces.
fn damage() -> impl Strategy<Value = String> {
    prop_oneof![2 => proptest::sample::select(PIECES).prop_map(String::from), 1 => "[\\PC\n]{0,12}"]
}

const PIECES: &[&str] =
    &["", "x", "n", "1", ", ", "R.", "()", "\n", "    ", "None", "\"m\"", "x, x", "-1", "π", "_", "c", "[0]"];

/// An undefined symbolic variable is the same everywhere: in a nested function and around it.
#[test]
fn undefined_symbolic_variables_stay_one() {
    let text = SEED.replace("R.match_cast(b, R.Tensor((m, 4), dtype", "R.match_cast(b, R.Tensor(dtype");
    assert_ne!(text, SEED);
    let module = script::read(&text, engine()).unwrap_or_else(|error| panic!("{error}"));
    let printed = script::print(&module, engine()).expect("the module can be printed");
    let again = script::read(&printed, engine()).unwrap_or_else(|error| panic!("{error}: {printed}"));
    assert!(again.structural_eq(&module), "{printed}");
}

/// Python allows blanks and line breaks within a dotted name.
#[test]
fn names_with_blanks_are_names() {
    let with = |blank: &str| {
        SEED.replace("R.reshape", &format!("R{blank}.reshape")).replace("R.exp(", &format!("R.{blank}exp("))
    };
    for blank in [" ", "    ", "\\\n"] {
        let module = script::read(&with(blank), engine()).expect("a module");
        assert!(module.structural_eq(&script::read(SEED, engine()).expect("a module")), "{blank:?}");
    }
    for text in [SEED.replace("R.nn.relu", "R.nn .relu"), SEED.replace("R.nn.relu", "R. nn.relu")] {
        if let Ok(module) = script::read(&text, engine()) {
            script::read(&script::print(&module, engine()).expect("the module can be printed"), engine())
                .expect("the printed text can be read");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,200}") {
        let _ = script::read(&text, engine());
    }

    /// Valid texts with pieces removed, duplicated and replaced give a module, or an error with its position; a parsed
    /// module prints and parses back to itself.
    #[test]
    fn damaged_texts_are_read_or_refused(at in 0usize..SEED.len(), len in 0usize..12, with in damage()) {
        let text: String = SEED.chars().take(at).chain(with.chars()).chain(SEED.chars().skip(at + len)).collect();
        match script::read(&text, engine()) {
            Ok(module) => {
                let printed = script::print(&module, engine()).expect("the module can be printed");
                let again = script::read(&printed, engine()).expect("the printed text can be read");
                prop_assert!(again.structural_eq(&module));
            }
            Err(error) => {
                for diagnostic in &error.diagnostics {
                    prop_assert!(diagnostic.span.start <= text.len() && diagnostic.span.end <= text.len());
                }
            }
        }
    }

    #[test]
    fn any_manifest_is_read_or_refused(text in "\\PC{0,120}") {
        let _ = Manifest::parse(Path::new("passes.toml"), &text);
    }
}
