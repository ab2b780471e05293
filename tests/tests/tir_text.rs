//! Tests further TIR forms, in addition to the goldens of `tests/goldens/text`: their printed form, and the
//! rejected forms.
#![forbid(unsafe_code)]

use passhost_tests::engine;

/// Returns a module of one function over a buffer `A` of 200 floats.
fn module(decorator: &str, body: &str) -> String {
    let signature = "A: T.Buffer((200,), \"float32\"), i: T.int32, j: T.int64, p: T.handle(\"float32\", \"global\")";
    let mut text = format!("@I.ir_module\nclass Module:\n    @T.prim_func{decorator}\n    def main({signature}):\n");
    for line in body.lines() {
        text.push_str(&format!("        {line}\n"));
    }
    text
}

/// Returns the printed body, which must parse to the same module.
fn printed(decorator: &str, body: &str) -> String {
    let text = module(decorator, body);
    let module = script::read(&text, engine()).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let printed = script::print(&module, engine()).expect("the module can be printed");
    let again = script::read(&printed, engine()).unwrap_or_else(|error| panic!("{error}\n{printed}"));
    assert!(again.structural_eq(&module), "{printed}");
    let body = printed.split_once("):\n").map_or("", |(_, body)| body);
    body.lines().map(|line| format!("{}\n", line.strip_prefix("        ").unwrap_or(line))).collect()
}

fn prints(decorator: &str, body: &str, expected: &str) {
    assert_eq!(printed(decorator, body).trim_end(), expected, "{body}");
}

const OLD: &str = "(s_tir=True)";

#[test]
fn lanes_of_slices_are_what_tvm_computes() {
    let stored = |index: &str, n: u32| format!("A[{index}] = T.Broadcast(T.float32(1.0), T.vscale() * {n})");
    for (written, expected, n) in [
        ("0:4 * T.vscale()", "0:T.vscale() * 4", 4),
        ("i:i + 2 * (T.vscale() * 2)", "i:i + T.vscale() * 4", 4),
        ("i + 1:i + 1 + T.vscale() * 6:T.int32(3)", "i + 1:i + 1 + T.vscale() * 2 * 3:3", 2),
        ("T.Ramp(11, 2, T.vscale() * 4)", "11:11 + T.vscale() * 4 * 2:2", 4),
        // TVM does not parse these as slices.
        ("T.Ramp(i, -1, T.vscale() * 4)", "T.Ramp(i, -1, T.vscale() * 4)", 4),
        ("T.Ramp(j, T.int64(1), T.vscale() * 4)", "T.Ramp(j, T.int64(1), T.vscale() * 4)", 4),
        ("T.Ramp(0, 1, 4 * T.vscale())", "T.Ramp(0, 1, 4 * T.vscale())", 4),
    ] {
        prints(OLD, &stored(written, n), &stored(expected, n));
    }
    let text = module(OLD, &stored("i:i + T.vscale() * 7:3", 2));
    let error = script::read(&text, engine()).expect_err("7 is not a multiple of 3");
    assert!(error.diagnostics[0].message.contains("a multiple of its step"), "{error}");
    assert_eq!(&text[error.diagnostics[0].span.clone()], "i + T.vscale() * 7");
}

/// A factor without an offset defines a variable, a factor of 0 is the same as no factor, and an offset of 0 is
/// kept.
#[test]
fn offsets_of_buffers() {
    let declared = |rest: &str| format!("b = T.decl_buffer((2,), data=p{rest})\nT.evaluate(b[0])");
    for (written, expected) in [
        (", offset_factor=1", ", offset_factor=1"),
        (", offset_factor=4", ", offset_factor=4"),
        (", offset_factor=0, align=0", ""),
        (", elem_offset=0, offset_factor=1", ""),
        (", elem_offset=0, offset_factor=4", ", elem_offset=0, offset_factor=4"),
        (", elem_offset=i", ", elem_offset=i"),
    ] {
        prints(OLD, &declared(written), &declared(expected));
    }
    let (some, none) = (module(OLD, &declared(", offset_factor=1")), module(OLD, &declared("")));
    let read = |text: &str| script::read(text, engine()).expect("a module");
    assert!(!read(&some).structural_eq(&read(&none)));
}

/// A scalar with an offset must be a buffer over existing data, at an existing offset.
#[test]
fn scalars_with_offsets() {
    for line in [
        "x = T.decl_scalar(T.float32, data=p, elem_offset=i, scope=\"global\")\nT.evaluate(x)",
        "x = T.decl_buffer((1,), data=p, offset_factor=1)\nT.evaluate(x[0])",
        "x = T.alloc_local((1,), offset_factor=1)\nT.evaluate(x[0])",
        "x = T.alloc_local((1,), elem_offset=i)\nx[0] = A[0]\nT.evaluate(x[0])",
    ] {
        prints("", line, line);
    }
}

/// An attribute covers the rest of its scope only if it applies to everything there.
#[test]
fn attributes_with_something_behind_them() {
    for (inside, behind) in [("T.evaluate(0)", "x = T.float32()"), ("A[0] = A[1]", "b = T.Buffer((2,))")] {
        let body = format!("with T.attr({{\"key\": 3}}):\n    {inside}\n{behind}");
        prints(OLD, &body, &body);
    }
    prints(OLD, "with T.attr({\"key\": 3}):\n    T.evaluate(0)", "T.attr({\"key\": 3})\nT.evaluate(0)");
}

#[test]
fn keys_of_several_lines_are_strings() {
    let text = module(OLD, "T.func_attr({metadata[\"ir.Type\"][0]: 1})\nT.evaluate(0)");
    let error = script::read(&text, engine()).expect_err("no such entry");
    assert!(error.diagnostics[0].message.contains("the text lacks the metadata with its constants"), "{error}");
    let text = module(OLD, "T.func_attr({i: 1})\nT.evaluate(0)");
    let error = script::read(&text, engine()).expect_err("no string");
    assert!(error.diagnostics[0].message.contains("expected a string as the key"), "{error}");
}

#[test]
fn the_scope_of_a_scalar_is_its_second_argument() {
    prints("", "x = T.alloc_scalar(\"int32\", \"local\")\nx = 3", "x: T.int32 = 3");
    prints("", "x = T.local_scalar(\"int32\")\nx = i", "x: T.int32 = i");
}
