//! Tests every Relax construct as text: goldens that print as they were parsed, constants of any kind, and errors.
//!
//! TVM parses the goldens, too, in `tests/oracle/texts.py`.
#![forbid(unsafe_code)]

use passhost::verify::verify_module;
use passhost_tests::{engine, root};
use plugin_api::ir::{Attr, AttrsId, BodyBuilder, Tensor};
use plugin_api::prelude::*;
use proptest::prelude::*;

/// Returns the texts, by name.
fn goldens() -> Vec<(String, String)> {
    let folder = root().join("tests/goldens/text");
    let files = std::fs::read_dir(folder).expect("the folder of texts").map(|file| file.expect("a file").path());
    let mut texts: Vec<_> = files
        .map(|path| {
            let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
            (name, std::fs::read_to_string(&path).expect("a text"))
        })
        .collect();
    texts.sort();
    texts
}

/// Removes the text of the metadata, because it may differ for the same content.
fn without_metadata(text: &str) -> &str {
    text.split_once("\"\"\")\n").map_or(text, |(_, rest)| rest)
}

#[test]
fn texts_are_printed_as_they_were_read() {
    let goldens = goldens();
    assert!(goldens.len() >= 7);
    for (name, text) in goldens {
        let read = script::read_with_warnings(&text, engine()).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(read.opaque_calls, if name == "opaque" { 2 } else { 0 }, "{name}");
        verify_module(&read.module, engine()).unwrap_or_else(|violation| panic!("{name}: {violation}"));
        let printed = script::print(&read.module, engine()).expect("the module can be printed");
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(root().join(format!("tests/goldens/text/{name}.py")), &printed).expect("written");
            continue;
        }
        let difference = passhost_tests::conformance::modules::text_difference(&text, &printed);
        assert_eq!(difference, None, "{name}\n{}", without_metadata(&printed));
        let again = script::read(&printed, engine()).unwrap_or_else(|error| panic!("{name}: {error}\n{printed}"));
        assert!(again.structural_eq(&read.module), "{name}");
        assert_eq!(script::print(&again, engine()).expect("the module can be printed"), printed, "{name}");
    }
}

/// A dimension in a string has positions of its own. The parser must not mistake them for positions in the module's text.
#[test]
fn dimensions_in_strings_have_places_of_their_own() {
    for blanks in 0..80 {
        let text = format!(
            "{}# a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q.r.s.t.u.v.w.x.y.z
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((\"n\",)), y: R.Tensor((\"T.min(n, 2) + T.max(n, 4)\",))) -> R.Any:
        return y
",
            " ".repeat(blanks)
        );
        script::read(&text, engine()).unwrap_or_else(|error| panic!("{error}"));
    }
}

/// Tests handwritten texts and their printed form; `tests/oracle/written.py` checks that TVM parses both to the same
/// module.
#[test]
fn what_people_write_is_read() {
    const MARK: &str = "# is read as\n";
    let folder = root().join("tests/goldens/written");
    let files = std::fs::read_dir(folder).expect("the folder of texts").map(|file| file.expect("a file").path());
    for path in files {
        let text = std::fs::read_to_string(&path).expect("a text");
        let (written, expected) = text.split_once(MARK).unwrap_or((&text, ""));
        let name = path.display();
        let read = script::read(written, engine()).unwrap_or_else(|error| panic!("{name}: {error}"));
        verify_module(&read, engine()).unwrap_or_else(|violation| panic!("{name}: {violation}"));
        let printed = script::print(&read, engine()).expect("the module can be printed");
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(&path, format!("{written}{MARK}{printed}")).expect("written");
            continue;
        }
        assert_eq!(printed, expected, "{name}; BLESS=1 rewrites it");
        let again = script::read(&printed, engine()).unwrap_or_else(|error| panic!("{name}: {error}\n{printed}"));
        assert!(again.structural_eq(&read), "{name}");
    }
}

#[test]
fn unknown_operators_are_told_and_counted() {
    let (_, text) = goldens().into_iter().find(|(name, _)| name == "opaque").expect("the text");
    let read = script::read_with_warnings(&text, engine()).expect("a module");
    let said: Vec<&str> = read.warnings.iter().map(|warning| warning.message.as_str()).collect();
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(said[0].starts_with("unknown operator `acme.narrow`"), "{said:?}");
    assert!(said[1].starts_with("unknown operator `relax.acme.widen`"), "{said:?}");
    assert_eq!(&text[read.warnings[1].span.clone()], "R.acme.widen");
    let twice = text.replace("b: R.T", "c: R.Any = T.acme.narrow(x)\n        b: R.T");
    let read = script::read_with_warnings(&twice, engine()).expect("a module");
    assert_eq!((read.opaque_calls, read.warnings[0].label.as_str()), (3, "called 2 times, first here"));
}

/// The effect of an unknown operator is unknown, but a call in a dataflow block implies that it has no effect.
#[test]
fn attributes_of_unknown_operators_stand_as_they_were_written() {
    let (_, text) = goldens().into_iter().find(|(name, _)| name == "opaque").expect("the text");
    let other = text.replacen("mode=\"fast\", axes=[0, 1], factor=2", "axes=[0, 1], factor=2, mode=\"fast\"", 1);
    assert_ne!(text, other);
    let [text, other] = [text, other].map(|text| script::read(&text, engine()).expect("a module"));
    // Two programs that differ only in this order are equal.
    assert!(text.structural_eq(&other) && text.structural_hash() == other.structural_hash());
    assert_ne!(
        script::print(&text, engine()).expect("the module can be printed"),
        script::print(&other, engine()).expect("the module can be printed")
    );
}

#[test]
fn unknown_operators_have_effects_where_these_may_stand() {
    let module = |pure: &str, body: &str| {
        format!(
            "@I.ir_module\nclass Module:\n    @R.function{pure}\n    def main(x: R.Any) -> R.Any:\n{body}        return x\n"
        )
    };
    let call = "        y: R.Any = R.acme.f(x)\n";
    let flow = "        with R.dataflow():\n            y: R.Any = R.acme.f(x)\n            R.output(y)\n";
    for (pure, body, effect) in [("(pure=False)", call, true), ("(pure=False)", flow, false), ("", call, false)] {
        let module = script::read(&module(pure, body), engine()).expect("a module");
        verify_module(&module, engine()).expect("well-formed");
        let main = module.get("main").expect("a function");
        let calls: Vec<_> = main.values().filter(|value| value.as_call().is_some()).collect();
        assert_eq!(calls[0].has(plugin_api::ir::records::flag::IMPURE), effect, "{pure} {body}");
    }
}

/// Returns a module whose function returns a constant, which is also an attribute of the module.
fn with_constant(bytes: &[u8], ty: &Type) -> Module {
    let mut b = BodyBuilder::new();
    b.begin_function(0, AttrsId::NONE, None);
    let constant = b.constant(&Tensor::new(bytes), ty);
    let ret = b.ty(ty);
    b.end_function(constant, ret);
    let module = Module::new([("main", b.finish().expect("a function"))]);
    let mut edit = module.edit();
    let attrs = vec![("state".to_string(), Attr::list(vec![Attr::Tensor(Tensor::new(bytes), ty.clone())]))];
    edit.set_attrs(attrs, Vec::new()).expect("attributes");
    edit.finish()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn constants_come_back(
        dims in proptest::collection::vec(0i64..5, 0..4),
        dtype in proptest::sample::select(vec![
            "float32", "float16", "float64", "bfloat16", "int8", "int64", "uint8", "uint64", "bool", "float8_e4m3fn",
        ]),
        seed in any::<u64>(),
    ) {
        let dtype: DType = dtype.parse().expect("a data type");
        let n = dims.iter().product::<i64>() as usize * dtype.bytes();
        let byte = |i: usize| (seed.rotate_left((i % 64) as u32) >> 3) as u8 & if dtype == DType::BOOL { 1 } else { 0x7f };
        // Floats with the highest bits unset are numbers and never NaN.
        let bytes: Vec<u8> = (0..n).map(|i| byte(i) & if dtype.is_float() { 0x3b } else { 0xff }).collect();
        let module = with_constant(&bytes, &Type::tensor(dims, dtype));
        let printed = script::print(&module, engine()).expect("the module can be printed");
        let again = script::read(&printed, engine()).unwrap_or_else(|error| panic!("{error}\n{printed}"));
        prop_assert!(again.structural_eq(&module), "{}", printed);
    }
}

fn refused(text: &str, message: &str, place: &str) {
    let error = script::read(text, engine()).expect_err(text);
    let first = &error.diagnostics[0];
    assert!(first.message.contains(message), "{}", first.message);
    assert_eq!(&text[first.span.clone()], place, "{}", first.message);
}

fn golden(name: &str) -> String {
    goldens().into_iter().find(|(found, _)| found == name).map(|(_, text)| text).expect("a text")
}

#[test]
fn wrong_metadata_is_refused() {
    let text = golden("constants");
    let object = "metadata[\"ir.GenericConst\"][0]";
    refused(
        &text.replacen(object, "metadata[\"ir.Foo\"][0]", 1),
        "does not contain `ir.Foo`",
        "metadata[\"ir.Foo\"][0]",
    );
    let far = "metadata[\"ir.GenericConst\"][99]";
    refused(&text.replacen(object, far, 1), "index 99 is out of range", far);
    refused(&text.replacen(object, "metadata[0][0]", 1), "expected an object", "metadata[0][0]");
    let saved = text.replacen("load_json", "save_json", 1);
    let end = saved.find("\"\"\")").expect("the end") + 4;
    refused(&saved, "expected `tvm.ir.load_json", &saved["metadata = ".len()..end]);
    refused(&text.replacen("root_index", "root", 1), "the metadata cannot be read", "\"\"\"");
    refused(&format!("metadata = 1\n{}", without_metadata(&text)), "expected `tvm.ir.load_json", "1");
}

#[test]
fn wrong_meshes_are_refused() {
    let text = golden("distributed");
    for (from, to, message, place) in [
        (
            "\"mesh[0]\", \"S[0], R\"",
            "\"mesh[7]\", \"S[0], R\"",
            "the module does not contain a device mesh `mesh[7]`",
            "\"mesh[7]\"",
        ),
        ("\"mesh[0]\", \"S[0], R\"", "\"mesh[0]\", \"T[0]\"", "unknown placement `T[0]`", "\"T[0]\""),
        ("\"mesh[0]\", \"S[0], R\"", "\"mesh[0]\", 3", "expected a placement", "3"),
        (
            "num_workers=2",
            "num_workers=3",
            "the 8 elements of axis 1 are not divisible by 3 workers",
            "R.dist.redistribute_replica_to_shard(b, num_workers=3, axis=1)",
        ),
    ] {
        refused(&text.replacen(from, to, 1), message, place);
    }
}

#[test]
fn wrong_index_maps_are_refused() {
    let text = golden("operators");
    let map = "T.index_map(lambda n_1, q, w: (q, n_1, w // 4, w % 4))";
    for (to, message, place) in [
        ("T.index_map(3)", "expected a function of indices", "T.index_map(3)"),
        ("T.index_map(lambda i, *j: (i,))", "expected a function of indices", "T.index_map(lambda i, *j: (i,))"),
        ("T.index_map(lambda n_1: (z,))", "undefined symbolic variable `z`", "z"),
    ] {
        refused(&text.replacen(map, to, 1), message, place);
    }
    let few = text.replacen(map, "T.index_map(lambda i: (i,))", 1);
    let error = script::read(&few, engine()).expect_err("too few indices");
    assert!(error.to_string().contains("the map takes 1 indices, the tensor has 3 dimensions"), "{error}");
}

/// Returns a function of `x` and `c` with these lines.
fn with_lines(lines: &str) -> String {
    format!(
        "@I.ir_module\nclass Module:\n    \"\"\"What it does.\"\"\"\n    @R.function\n    def main(x: R.Tensor((2,), \"float32\")):\n{lines}"
    )
}

#[test]
fn errors_name_what_was_meant() {
    let cases = [
        (
            "        with R.dataflow():\n            y = R.exp(x)\n            R.output(x)\n        return x\n",
            "`x` is not a variable of this dataflow block",
            "x",
        ),
        ("        return x\n        y = R.exp(x)\n", "a statement after `return`", "y = R.exp(x)"),
        ("        y: R.Tensor((2,), \"float32x0\") = x\n        return y\n", "data type", "\"float32x0\""),
    ];
    for (lines, message, place) in cases {
        let text = with_lines(lines);
        let error = script::read(&text, engine()).expect_err("is wrong");
        let found = &error.diagnostics[0];
        assert!(found.message.contains(message), "{error}");
        assert_eq!(&text[found.span.clone()], place, "{error}");
    }
    // A string literal in the class body is a comment.
    assert!(script::read(&with_lines("        return x\n"), engine()).is_ok());
}

#[test]
fn lines_end_as_python_ends_them() {
    let text = with_lines("        y = R.exp(q)\n        return y\n");
    for end in ["\n", "\r\n", "\r"] {
        let text = text.replace('\n', end);
        let error = script::read(&text, engine()).expect_err("`q` is undefined");
        let at = error.diagnostics[0].span.start;
        assert_eq!(script::line_column(&text, at), (6, 19), "{end:?}");
        let report = passhost::report::Report::error("no `q`").at("a.py", text.as_str(), at..at + 1, "");
        assert!(report.render(false).contains("a.py:6:19"), "{end:?}: {}", report.render(false));
    }
}
