//! Tests declarations of buffers: shape, strides and offset have the same data types as in TVM. The cases are
//! TVM's own results, written by `tests/oracle/buffers.py`.

use plugin_api::ir::records::kind;
use plugin_api::ir::{BufferType, Dim, Module, Type};
use script::{NoOps, print, read};

const PARAMETERS: &str = "h: T.handle, n: T.int32, m: T.int64, A: T.Buffer((16, 4), \"float32\"), \
     B: T.Buffer((16, T.int64(4)), \"float32\"), D: T.Buffer((T.int64(16), 4), \"float32\"), \
     E: T.Buffer((T.int64(16), T.int64(4)), \"float32\"), F: T.Buffer((16, 4), \"float32\", elem_offset=4), \
     G: T.Buffer((16, 4), \"float32\", offset_factor=2), H: T.Buffer((16, 4), \"float32\", strides=(8, 1))";

/// Reads a function with the statements, inside or outside a block.
fn module(place: &str, statements: &[&str]) -> Result<Module, String> {
    let s_tir = if place.ends_with("s_tir") { ", s_tir=True" } else { "" };
    let mut text = format!(
        "@I.ir_module\nclass Module:\n    @T.prim_func(private=True{s_tir})\n    def f({PARAMETERS}):\n        T.evaluate(0)\n"
    );
    let block = place.starts_with("block");
    if block {
        text +=
            "        with T.sblock(\"b\"):\n            T.reads(A[0:16, 0:4], E[0:16, 0:4])\n            T.writes()\n";
    }
    for statement in statements {
        text += &format!("{}{statement}\n", if block { "            " } else { "        " });
    }
    let module = read(&text, &NoOps).map_err(|error| error.diagnostics[0].message.clone())?;
    let printed = print(&module, &NoOps).expect("the module can be printed");
    let again = read(&printed, &NoOps).unwrap_or_else(|error| panic!("{statements:?}: {error}\n{printed}"));
    assert!(again.structural_eq(&module), "{statements:?}: printed as another module:\n{printed}");
    Ok(module)
}

/// Returns the type of the buffer `C`.
fn declared(module: &Module) -> BufferType {
    let body = module.get("f").expect("the function");
    let found = body.values().find(|value| value.kind() == kind::BUFFER && value.name() == Some("C"));
    match found.expect("the buffer").ty().to_owned() {
        Type::Buffer(buffer) => buffer,
        other => panic!("no buffer: {other:?}"),
    }
}

fn dim(dim: &Dim) -> String {
    let kind = match (dim, dim.as_int()) {
        (_, Some(value)) => value.to_string(),
        (Dim::Var(_), _) => "var".to_string(),
        _ => "sum".to_string(),
    };
    format!("{kind}:{}", dim.dtype())
}

/// Describes a buffer in the format that `buffers.py` prints.
fn described(buffer: &BufferType) -> String {
    let dims = |dims: &[Dim]| match dims {
        [] => "none".to_string(),
        dims => dims.iter().map(dim).collect::<Vec<_>>().join(" "),
    };
    let scope = if buffer.scope.is_empty() { "global" } else { &buffer.scope };
    format!(
        "{} {}, strides {}, offset {}, factor {}, align {}, {scope}, {}",
        buffer.dtype,
        dims(&buffer.shape),
        dims(&buffer.strides),
        dim(&buffer.offset()),
        buffer.offset_factor,
        buffer.align,
        if buffer.tiled { "a layout" } else { "no layout" }
    )
}

#[test]
fn buffers_are_what_tvm_makes_of_their_declaration() {
    let (mut same, mut wider, mut other) = (0, 0, Vec::new());
    for line in include_str!("buffers.txt").lines() {
        let (case, expected) = line.split_once(" => ").expect("a case");
        let (place, statement) = case.split_once(": ").expect("a place");
        match (module(place, &[&format!("C = {statement}"), "T.evaluate(C.data)"]), expected) {
            (Ok(module), expected) if described(&declared(&module)) == expected => same += 1,
            (Err(_), "refused") => same += 1,
            // TVM rejects these because of its limitations: a view of bytes without a layout, and a block in other
            // kinds of functions.
            (Ok(_), "refused") => wider += 1,
            (Ok(module), expected) => {
                other.push(format!("{case}: TVM {expected}, found {}", described(&declared(&module))));
            }
            (Err(why), expected) => other.push(format!("{case}: TVM {expected}, found {why}")),
        }
    }
    assert!(other.is_empty(), "{} of {}:\n{}", other.len(), same + other.len(), other.join("\n"));
    assert_eq!((same, wider), (1_605, 279), "like TVM; TVM alone refuses");
}

#[test]
fn parts_of_a_buffer_have_its_data_types() {
    let written = |statements: &[&str]| {
        print(&module("block s_tir", statements).expect("read"), &NoOps).expect("the module can be printed")
    };
    let wide = "C = T.match_buffer(E[0:16, 0:4], (T.int64(16), T.int64(4)), strides=(\"s\", \"t\"), offset_factor=4)";
    let printed = written(&[wide, "T.evaluate(C.elem_offset // C.strides[0] // T.int64(4))"]);
    assert!(printed.contains("T.evaluate(C.elem_offset // C.strides[0] // T.int64(4))"), "{printed}");
    let narrow = "C = T.match_buffer(A[0:16, 0:4], (16, 4), strides=(\"s\", \"t\"), offset_factor=4)";
    let printed = written(&[narrow, "T.evaluate(C.elem_offset // C.strides[0] // T.int64(4))"]);
    assert!(printed.contains("T.Cast(\"int64\", C.elem_offset // C.strides[0]) // T.int64(4)"), "{printed}");
}

#[test]
fn a_view_is_told_from_a_declaration_by_its_layout() {
    let written = |place: &str, statement: &str| {
        let printed = print(&module(place, &[statement, "T.evaluate(C.data)"]).expect("read"), &NoOps)
            .expect("the module can be printed");
        printed.lines().find(|line| line.contains("C = ")).expect("the buffer").trim().to_string()
    };
    let (view, declaration) = ("C = A.view(64)", "C = T.decl_buffer((64,), data=A.data)");
    assert_eq!(written("body", view), view);
    assert_eq!(written("body", declaration), declaration);
    // Without a layout, a view and a declaration cannot be distinguished.
    assert_eq!(written("body s_tir", view), view);
    assert_eq!(written("body s_tir", declaration), view);
    let negative = "C = T.decl_buffer((-1,), data=A.data)";
    assert_eq!(written("body s_tir", negative), negative);
    let refused = |statement: &str| module("body", &[statement]).expect_err(statement);
    assert!(refused("C = A.view(n, -1)").contains("specify it"));
    assert!(refused("C = A.view(-1, -1)").contains("at most one"));
    assert!(refused("C = A.view(64, layout=T.x())").contains("views with a different layout"));
    assert!(refused("C = A.view(64, of=3)").contains("unexpected argument `of`"));
}

#[test]
fn where_code_is_executed_is_read_as_it_is_printed() {
    let lines = [
        "bx, by = T.cta_id([n, 4])",
        "tx = T.thread_id([32])",
        "w = T.warp_id()",
        "l = T.lane_id([32], dtype=\"uint32\")",
        "p = T.cta_id_in_pair()",
        "A[bx, tx] = T.float32(1.0)",
    ];
    let printed = print(&module("body", &lines).expect("read"), &NoOps).expect("the module can be printed");
    lines.iter().for_each(|line| assert!(printed.contains(&format!("        {line}\n")), "{line}:\n{printed}"));
    let refused = |statement: &str| module("body", &[statement]).expect_err(statement);
    assert!(refused("tx = T.thread_id([1, 2])").contains("1 variables for 2 extents"));
    assert!(refused("a, b = T.thread_id([1])").contains("2 variables for 1 extents"));
    assert!(refused("tx = T.thread_id([1], dtype=\"int64\")").contains("int32 or uint32"));
}

#[test]
fn attributes_of_iteration_variables_and_kernel_calls_are_read() {
    let lines = [
        "e: T.let[T.int32] = T.call_ffi_kernel(\"k\", A.data, n + 1, launch_params=[\"threadIdx.x\"], ret_ty=\"int32\")",
        "T.call_ffi_kernel(\"k\", launch_params=[], ret_ty=\"int64\")",
        "with T.attr(T.iter_var(n, None, \"DataPar\", \"\"), \"pragma\", 1):",
        "with T.attr(T.iter_var(m, T.Range(T.int64(2), m), \"Opaque\", \"x\"), \"pragma\", \"y\"):",
    ];
    let nested: Vec<String> = lines.iter().map(|line| line.to_string()).collect();
    let with_bodies: Vec<String> = nested
        .iter()
        .map(|line| if line.starts_with("with") { format!("{line}\n            T.evaluate(0)") } else { line.clone() })
        .collect();
    let with_bodies: Vec<&str> = with_bodies.iter().map(String::as_str).collect();
    let printed = print(&module("body", &with_bodies).expect("read"), &NoOps).expect("the module can be printed");
    for line in &lines[..3] {
        assert!(printed.contains(line.trim_end_matches(':').trim_start_matches("with ")), "{line}:\n{printed}");
    }
    let refused = |statement: &str| module("body", &[statement]).expect_err(statement);
    assert!(
        refused("T.attr(T.iter_var(n, None, \"Nothing\", \"\"), \"p\", 1)")
            .contains("unknown kind of iteration variable")
    );
    assert!(refused("T.evaluate(T.call_ffi_kernel(\"k\", ret_ty=\"int32\"))").contains("launch parameters"));
    assert!(refused("T.evaluate(T.call_ffi_kernel(\"k\", launch_params=[1]))").contains("expected a string"));
}
