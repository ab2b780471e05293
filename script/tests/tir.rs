//! Tests TIR functions: each text is reprinted byte for byte in current spelling, and errors are reported with
//! their positions.

use script::{NoOps, ReadError, ReadOptions, print, read, read_with};
use std::path::Path;

/// Returns texts exactly as printed by TVM 0.27; the oracle (`tests/oracle/tir.py`) checks that TVM reads them as
/// the same module.
fn texts() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tir");
    let mut out = Vec::new();
    for entry in std::fs::read_dir(folder).expect("the folder is there").flatten() {
        let path = entry.path();
        let text = std::fs::read_to_string(&path).expect("a text");
        out.push((path.file_name().expect("a name").to_string_lossy().into_owned(), text));
    }
    out.sort();
    out
}

fn first_difference<'t>(a: &'t str, b: &'t str) -> Option<(&'t str, &'t str)> {
    a.lines().chain([""]).zip(b.lines().chain([""])).find(|(a, b)| a != b)
}

#[test]
fn every_construct_prints_as_it_was_read() {
    let texts = texts();
    assert!(texts.len() >= 5, "{} texts", texts.len());
    for (name, text) in texts {
        let module = read(&text, &NoOps).unwrap_or_else(|error| panic!("{name}: {error}"));
        let printed = print(&module, &NoOps).expect("the module can be printed");
        assert!(printed == text, "{name}: {:?}", first_difference(&text, &printed));
        let again = read(&printed, &NoOps).expect("the printed text can be read");
        assert!(again.structural_eq(&module) && again.structural_hash() == module.structural_hash(), "{name}");
    }
}

/// Returns a module with one function that consists of blocks.
fn module(params: &str, body: &str) -> String {
    let mut text =
        format!("@I.ir_module\nclass Module:\n    @T.prim_func(private=True, s_tir=True)\n    def f({params}):\n");
    for line in body.lines() {
        text.push_str(&format!("        {line}\n"));
    }
    text
}

fn faults(text: &str) -> ReadError {
    read(text, &NoOps).expect_err("a fault")
}

/// Checks that a function is rejected with the given message at the given place.
fn refused(body: &str, message: &str, place: &str) {
    let text = module("A: T.Buffer((16, 16), \"float32\"), n: T.int32", body);
    let error = faults(&text);
    let first = &error.diagnostics[0];
    assert!(first.message.contains(message), "{}", first.message);
    assert_eq!(&text[first.span.clone()], place, "{}", first.message);
}

/// TVM's TIR lacks some functions that C has.
#[test]
fn unknown_functions_are_told_with_a_remedy() {
    let text = module("A: T.Buffer((16, 16), \"float32\")", "A[0, 0] = T.lgamma(A[0, 0])");
    let error = faults(&text).diagnostics.remove(0);
    assert_eq!(error.message, "unknown expression `T.lgamma`");
    assert!(error.help.is_some_and(|help| help.contains("`T.call_pure_extern(dtype, \"name\", …)`")));
}

#[test]
fn faults_are_told_with_their_place() {
    refused("A[0] = T.float32(1.0)", "1 indices for a buffer of 2 dimensions", "0");
    refused("B[0, 0] = T.float32(1.0)", "undefined variable `B`", "B");
    refused("A[0, 0] = A", "a buffer is not a value", "A");
    refused(
        "A[0, 0] = T.expp(A[0, 0])",
        "unknown expression `T.expp`; did you mean `T.exp`, `T.exp2` or `T.exp10`?",
        "T.expp",
    );
    refused("for i in T.sequential(4):\n    T.evaluate(i)", "unknown kind of loop `T.sequential`", "T.sequential");
    refused("with T.sblok(\"b\"):\n    T.evaluate(n)", "`T.sblok` cannot be used with `with`", "T.sblok(\"b\")");
    refused("with T.sblock(\"b\"):\n    vi = T.axis.remap(\"S\", [n])", "expected a loop variable", "n");
    refused("with T.sblock(\"b\"):\n    vi = T.axis.sideways(4, n)", "unknown kind of axis", "T.axis.sideways");
    refused(
        "with T.sblock(\"b\"):\n    T.reads(A[0, 0])\n    T.evaluate(n)\n    T.reads(A[0, 1])",
        "T.reads appears twice in the block",
        "T.reads(A[0, 1])",
    );
    refused("vi = T.axis.S(4, n)", "must be inside a block", "T.axis.S");
    refused("for i in T.thread_binding(4):\n    T.evaluate(i)", "`thread` is missing", "T.thread_binding(4)");
    refused("assert n == 4", "an assertion needs a message", "assert n == 4");
    refused("with T.launch_thread(n, 4):\n    T.evaluate(n)", "`n` is not a thread", "n");
    let thread =
        |var: &str| format!("T.attr(T.iter_var({var}, None, \"ThreadIndex\", \"threadIdx.x\"), \"thread_extent\", 4)");
    let wrong = |name: &str, what: &str| format!("`{name}` is {what}, and cannot be a thread as well");
    refused(&thread("n"), &wrong("n", "a parameter"), "n");
    refused(&format!("for i in range(4):\n    {}", thread("i")), &wrong("i", "the variable of a loop"), "i");
    let in_block = format!("with T.sblock(\"b\"):\n    vi = T.axis.spatial(4, n)\n    {}", thread("vi"));
    refused(&in_block, &wrong("vi", "an iterator of a block"), "vi");
    let bound = format!("k = T.bind(n + 1)\n{}", thread("k"));
    refused(&bound, &wrong("k", "a variable that has a value"), "k");
    refused(
        &format!("for i in range(4):\n    {}", thread("i").replace("thread_extent", "virtual_thread")),
        &wrong("i", "the variable of a loop"),
        "i",
    );
    refused("T.evaluate(T.infinity(\"int32\"))", "T.infinity is not defined for int32", "\"int32\"");
    refused("T.evaluate(A.access_ptr(\"x\"))", "expected \"r\", \"w\" or \"rw\"", "\"x\"");
    refused("T.evaluate(n.data)", "expected a buffer, found `n`", "n");
    refused(
        "try:\n    T.evaluate(n)\nfinally:\n    T.evaluate(n)",
        "expected a TIR statement",
        "try:\n            T.evaluate(n)\n        finally:\n            T.evaluate(n)",
    );
    refused(
        "B = T.alloc_buffer((4,), layout=T.TileLayout(T.S[4:1]))",
        "layouts other than the default",
        "T.TileLayout(T.S[4:1])",
    );
    let matched = |text: &str, message: &str| {
        let call = format!("T.match_buffer({text})");
        let body = format!("with T.sblock(\"b\"):\n    C = {call}\n    C[0] = T.float32(0)");
        refused(&body, message, &call);
    };
    matched("A[0, 0:4], (16,)", "dimension 0 has extent 4 in the region, but 16 in the buffer");
    matched("A[0:2, 0:4], (4,)", "omits a dimension of the region with extent 2");
    matched("A[0, 0:4], (4,), \"int32\"", "the region has data type float32, but the buffer has int32");
}

/// Maps source forms to their canonical forms.
#[test]
fn what_python_and_helper_functions_say_is_read() {
    let written = [
        ("B[0] = T.ceildiv(B[1], 4)", "B[0] = (B[1] + 4 - 1) // 4"),
        ("B[0] = T.ceildiv(7, 4)", "B[0] = 2"),
        ("B[0] = T.ceildiv(n, n + 1)", "B[0] = (n + (n + 1) - 1) // (n + 1)"),
        ("B[0] = T.max_value(\"int32\")", "B[0] = 2147483647"),
        ("A[0, 0] = T.min_value(\"float32\")", "A[0, 0] = T.float32(-340282346638528859811704183484516925440.0)"),
        ("A[0, 0] = T.infinity(\"float32\")", "A[0, 0] = T.float32(\"inf\")"),
        ("D[0] = 0 < B[0] < n < 7", "D[0] = 0 < B[0] and B[0] < n and n < 7"),
        ("D[0] = 1 < 2 < B[0]", "D[0] = T.And(T.bool(True), 2 < B[0])"),
        ("D[0] = False and B[0] > 0", "D[0] = T.bool(False)"),
        ("D[0] = True and B[0] > 0", "D[0] = T.And(T.bool(True), B[0] > 0)"),
        ("B[0] = 3 if 1 < 2 else n", "B[0] = 3"),
        ("\"\"\"Doc.\"\"\"\nB[0] = 1", "B[0] = 1"),
        (
            "T.evaluate(A.access_ptr(\"rw\", offset=4))",
            "T.tvm_access_ptr(T.type_annotation(\"float32\"), A.data, 4, 252, 3)",
        ),
        (
            "T.evaluate(A.access_ptr(\"r\", offset=n))",
            "T.tvm_access_ptr(T.type_annotation(\"float32\"), A.data, n, 256 - n, 1)",
        ),
        ("T.evaluate(A.ptr_to([0, n]))", "T.address_of(A[0, n])"),
        // The forms of thread variables, also if a variable occurs twice.
        (
            "t = T.env_thread(\"threadIdx.x\")\nwith T.attr(T.iter_var(t, None, \"ThreadIndex\", \"threadIdx.x\"), \"thread_extent\", 4):\n    B[t] = 1",
            "t = T.env_thread(\"threadIdx.x\")\nT.attr(T.iter_var(t, None, \"ThreadIndex\", \"threadIdx.x\"), \"thread_extent\", 4)\nB[t] = 1",
        ),
        ("B[0] = A.shape[-1]", "B[0] = 16"),
        ("for i, j in T.grid(*A.shape):\n    B[i] = j", "for i, j in T.grid(16, 16):\n    B[i] = j"),
        ("for i in T.serial(1, stop=4):\n    B[i] = i", "for i in range(1, 4):\n    B[i] = i"),
        // The extent is the simplified difference. An explicitly written extent is not changed.
        ("for i in range(2, n + 2):\n    B[i] = i", "for i in range(2, 2 + n):\n    B[i] = i"),
        ("for i in range(1, n + 2):\n    B[i] = i", "for i in range(1, 1 + (n + 1)):\n    B[i] = i"),
        ("for i in range(n, 4 + n):\n    B[i] = i", "for i in range(n, n + 4):\n    B[i] = i"),
        ("for i in T.serial(n, n * 2):\n    B[i] = i", "for i in range(n, n + n):\n    B[i] = i"),
        ("for i in range(n + 1, n + 5):\n    B[i] = i", "for i in range(n + 1, n + 1 + 4):\n    B[i] = i"),
        (
            "for i in range(n * 2 - n, 9):\n    B[i] = i",
            "for i in range(n * 2 - n, n * 2 - n + (9 - n)):\n    B[i] = i",
        ),
        ("for i in range(n + 1 - 1):\n    B[i] = i", "for i in range(n + 1 - 1):\n    B[i] = i"),
        ("for i in range(B[0], B[1]):\n    B[i] = i", "for i in range(B[0], B[0] + (B[1] - B[0])):\n    B[i] = i"),
        ("B[T.ramp(n, 1, 4)] = B[n:4 + n]", "B[n:n + 4] = B[T.Ramp(n, 1, 4)]"),
        ("k: T.int32 = 0\nT.evaluate(k.source.data)", "k: T.int32 = 0\nT.evaluate(k.source.data)"),
        ("k: T.i32 = 0\nk.source[0] = 3", "k: T.int32 = 0\nk = 3"),
        ("k = T.bind(B[0])\nB[1] = k", "k: T.let[T.int32] = B[0]\nB[1] = k"),
        ("C = A\nC[0, 0] = T.float32(1)", "A[0, 0] = T.float32(1.0)"),
        ("[k, l] = [1, 2]\nB[0] = k + l", "k: T.int32 = 1\nl: T.int32 = 2\nB[0] = k + l"),
        ("assert n > 0, (\"ValueError\", \"n\")", "assert n > 0, (\"ValueError\", [\"n\"])"),
        ("T.evaluate(T.bf16(1))", "T.evaluate(T.bfloat16(1.0))"),
        ("T.evaluate(T.max_value(\"bfloat16\"))", "T.evaluate(T.bfloat16(340282346638528859811704183484516925440.0))"),
    ];
    written.into_iter().for_each(is_read_as);
}

/// The function folds constants, and the constructor keeps them.
#[test]
fn shifts_of_constants_are_computed() {
    let written = [
        ("B[0] = T.shift_left(4, 1)", "B[0] = 8"),
        ("B[T.shift_right(2, 1)] = T.shift_right(n, 0)", "B[1] = n"),
        ("B[0] = T.RShift(4, 1)", "B[0] = T.RShift(4, 1)"),
    ];
    written.into_iter().for_each(is_read_as);
}

#[test]
fn blocks_are_realized_where_they_are_written() {
    is_read_as(("with T.sblock(\"b\", no_realize=False):\n    B[0] = 1", "with T.sblock(\"b\"):\n    B[0] = 1"));
    let of_its_own = module("B: T.Buffer((16,), \"int32\")", "with T.sblock(\"b\", no_realize=True):\n    B[0] = 1");
    let message = &faults(&of_its_own).diagnostics[0].message;
    assert!(message.contains("blocks with `no_realize=True` are not supported"), "{message}");
}

/// Checks that statements are read as the module that is printed as `expected`.
fn is_read_as((text, expected): (&str, &str)) {
    let params =
        "A: T.Buffer((16, 16), \"float32\"), B: T.Buffer((16,), \"int32\"), D: T.Buffer((16,), \"bool\"), n: T.int32";
    let read = read(&module(params, text), &NoOps).unwrap_or_else(|error| panic!("{text}: {error}"));
    let printed = print(&read, &NoOps).expect("the module can be printed");
    let body: Vec<&str> = printed.lines().filter_map(|line| line.strip_prefix("        ")).collect();
    assert_eq!(body.join("\n"), expected, "{text}");
    let again = script::read(&printed, &NoOps).unwrap_or_else(|error| panic!("{printed}: {error}"));
    assert!(again.structural_eq(&read), "{text}");
}

#[test]
fn type_parameters_are_symbolic_variables() {
    let text = module("a: T.Buffer((k, 4), \"float32\")", "a[0, 0] = T.float32(1.0)").replace("def f(", "def f[k](");
    let printed = print(&read(&text, &NoOps).expect("it is read"), &NoOps).expect("the module can be printed");
    assert!(printed.contains("k = TypeVar(\"k\")") && printed.contains("T.Buffer((k, 4), \"float32\")"), "{printed}");
    let bounded = text.replace("[k](", "[k: int](");
    assert!(faults(&bounded).diagnostics[0].message.contains("a type parameter must be a plain name"), "a bound");
}

/// The symbol of a public function is its name, whether or not it is written.
#[test]
fn a_symbol_that_is_the_name_says_nothing() {
    let text = module("n: T.int32", "T.evaluate(n)").replace("private=True, ", "");
    let with =
        text.replace("        T.evaluate", "        T.func_attr({\"global_symbol\": \"f\"})\n        T.evaluate");
    let (text, with) = (read(&text, &NoOps).expect("it is read"), read(&with, &NoOps).expect("it is read"));
    assert!(text.structural_eq(&with));
}

#[test]
fn a_text_of_another_version_is_recognized() {
    let first = |text: &str| faults(text).diagnostics[0].clone();
    let text = module("n: T.int32", "T.evaluate(n)");
    let after = first(&text.replace("@T.prim_func", "@Ts.prim_func"));
    assert!(after.message.contains("written for a TVM newer than 0.27"), "{}", after.message);
    let old = first(&module("n: T.int32", "with T.block(\"b\"):\n    T.store(n, n)"));
    assert!(old.message.contains("written for a TVM older than 0.27"), "{}", old.message);
    assert!(old.help.is_some_and(|help| help.contains("`T.block` is now `T.sblock`")), "the new name");
    let import = first(&format!("# from tvm.script import tir as T\n{}", module("n: T.int32", "T.evaluate(m)")));
    assert!(import.message.contains("`from tvm.script import tir`"), "{}", import.message);
    let other = first(&module("n: T.int32", "T.evaluate(m)"));
    assert!(other.message.contains("undefined variable `m`"), "{}", other.message);
}

/// TVM cannot read slices with a negative step, views of a different data type without a layout, or `T.float32x6`.
#[test]
fn what_tvm_does_not_read_is_printed_otherwise() {
    let params = "A: T.Buffer((16, 16), \"float32\"), o: T.Buffer((32,), \"int32\"), n: T.int32";
    for (text, expected) in [
        ("o[31 - n * 8:31 - n * 8 + -8:-1] = T.Broadcast(1, 8)", "o[T.Ramp(31 - n * 8, -1, 8)] = T.Broadcast(1, 8)"),
        ("o[n:n + 16:2] = T.Broadcast(1, 8)", "o[n:n + 16:2] = T.Broadcast(1, 8)"),
        ("v: T.let[T.int32x6] = T.Broadcast(n, 6)\no[0:6] = v", "v = T.bind(T.Broadcast(n, 6))\no[0:6] = v"),
        ("v: T.let = T.Broadcast(n > 1, 4)\nT.evaluate(v)", "v = T.bind(T.Broadcast(n > 1, 4))\nT.evaluate(v)"),
        ("v = T.bind(T.Cast(\"int4\", n))\nT.evaluate(v)", "v = T.bind(T.Cast(\"int4\", n))\nT.evaluate(v)"),
        ("v = T.bind(T.Broadcast(n, 8))\no[0:8] = v", "v: T.let[T.int32x8] = T.Broadcast(n, 8)\no[0:8] = v"),
        ("v = A.view(\"int32\")\nv[0, 0] = 1", "v = T.decl_buffer((16, 16), \"int32\", data=A.data)\nv[0, 0] = 1"),
    ] {
        let read = read(&module(params, text), &NoOps).unwrap_or_else(|error| panic!("{text}: {error}"));
        let printed = print(&read, &NoOps).expect("the module can be printed");
        let body: Vec<&str> = printed.lines().filter_map(|line| line.strip_prefix("        ")).collect();
        assert_eq!(body.join("\n"), expected, "{text}");
    }
}

#[test]
fn several_faults_are_told_at_once_and_what_follows_from_them_is_not() {
    let text = module(
        "A: T.Buffer((16,), \"float32\")",
        "x: T.let[T.int32] = y\nA[x] = T.float32(0.0)\nA[0, 0] = T.float32(0.0)\nfor i in range(z):\n    A[i] = T.float32(0.0)",
    );
    let error = faults(&text);
    let told: Vec<&str> = error.diagnostics.iter().map(|fault| &text[fault.span.clone()]).collect();
    assert_eq!(told, ["y", "0, 0", "z"], "{:?}", error.diagnostics);
}

#[test]
fn scopes_end() {
    let body = "for i in range(4):\n    T.evaluate(i)\nT.evaluate(i)";
    refused(body, "undefined variable `i`", "i");
    refused("if n == 0:\n    x: T.let[T.int32] = n\nT.evaluate(x)", "undefined variable `x`", "x");
}

#[test]
fn the_older_spelling_is_read() {
    let old = "@I.ir_module\nclass Module:\n    @T.prim_func\n    def f(a: T.handle, B: T.Buffer((16,), \"float32\")):\n        \
               T.func_attr({\"tir.noalias\": True})\n        A = T.match_buffer(a, (16,), \"float32\")\n        \
               C = T.alloc_buffer((16,), \"float32\")\n        for i in T.serial(0, 16):\n            \
               with T.block(\"copy\"):\n                vi = T.axis.S(16, i)\n                T.reads([A[vi]])\n                \
               T.writes([C[vi]])\n                T.block_attr({\"axis\": 0})\n                C[vi] = A[vi] + 1\n";
    let printed = print(&read(old, &NoOps).expect("it is read"), &NoOps).expect("the module can be printed");
    for line in [
        "@T.prim_func(s_tir=True)",
        // In TVM 0.27, `tir.noalias` is a separate attribute without meaning.
        "T.func_attr({\"tir.noalias\": True})",
        "A = T.match_buffer(a, (16,))",
        "C = T.sblock_alloc_buffer((16,))",
        "for i in range(16):",
        "with T.sblock(\"copy\"):",
        "vi = T.axis.spatial(16, i)",
        "T.reads(A[vi])",
        "T.sblock_attr({\"axis\": 0})",
        "C[vi] = A[vi] + T.float32(1.0)",
    ] {
        assert!(printed.contains(line), "no `{line}` in\n{printed}");
    }
}

#[test]
fn many_flat_scopes_are_refused_not_recursed_into() {
    let body = "T.attr(n, \"key\", 1)\n".repeat(20_000) + "T.evaluate(n)";
    let error = faults(&module("n: T.int32", &body));
    assert!(error.diagnostics[0].message.contains("deep"), "{}", error.diagnostics[0].message);
}

#[test]
fn shapes_and_indices_speak_of_the_same_variables() {
    let text =
        module("n: T.int32, A: T.Buffer((n, 4), \"float32\")", "for i in range(n):\n    A[i, 0] = T.float32(0.0)");
    let module = read(&text, &NoOps).expect("it is read");
    let body = module.get("f").expect("is there");
    let shape = body.lookup_binding("A").expect("is there").ty().prims();
    let n = body.values().find(|value| value.name() == Some("n")).expect("is there");
    assert_eq!(plugin_api::arith::index_to_dim(n).as_ref(), shape.first());
}

#[test]
fn strings_of_several_lines_stand_in_the_metadata() {
    let text =
        module("n: T.int32", "assert n == 4, (\"ValueError\", [\"must be 4,\\nnot\", \"5\", \"must be 4,\\nnot\"])");
    let first = read(&text, &NoOps).expect("it is read");
    let printed = print(&first, &NoOps).expect("the module can be printed");
    let reference = "metadata[\"ir.StringImm\"][0]";
    let line = format!("assert n == 4, (\"ValueError\", [{reference}, \"5\", {reference}])\n");
    assert!(printed.starts_with("metadata = tvm.ir.load_json(") && printed.contains(&line), "{printed}");
    let again = read(&printed, &NoOps).expect("the printed text can be read");
    assert!(again.structural_eq(&first), "{printed}");
    assert_eq!(print(&again, &NoOps).as_ref(), Ok(&printed));
    let missing = faults(&printed.replace("[0], \"5\"", "[1], \"5\""));
    assert!(missing.diagnostics[0].message.contains("index 1 is out of range"), "{}", missing.diagnostics[0].message);
}

#[test]
fn functions_of_indices_are_attributes_of_tir_too() {
    let text = module("n: T.int32", "T.func_attr({\"order\": T.index_map(lambda i, j: (j, i))})\nT.evaluate(n)");
    let first = read(&text, &NoOps).expect("it is read");
    let printed = print(&first, &NoOps).expect("the module can be printed");
    assert!(printed.contains("{\"order\": T.index_map(lambda i, j: (j, i))}"), "{printed}");
    assert!(read(&printed, &NoOps).expect("the printed text can be read").structural_eq(&first));
}

#[test]
fn names_are_unique_where_they_are_visible_only() {
    let body =
        "for i in range(4):\n    for i in range(8):\n        T.evaluate(i)\nfor i in range(4):\n    T.evaluate(i)";
    let printed = print(&read(&module("n: T.int32", body), &NoOps).expect("it is read"), &NoOps)
        .expect("the module can be printed");
    assert!(printed.contains("for i, i_1 in T.grid(4, 8):") && printed.contains("for i in range(4):"), "{printed}");
}

#[test]
fn handles_that_a_function_matches_are_buffers_if_asked_for() {
    let written = |body: &str| {
        let text = module("a: T.handle, h: T.handle, b: T.handle, n: T.int32", body);
        let options = ReadOptions { matched_parameters: true, ..Default::default() };
        let printed = |module| print(&module, &NoOps).expect("the module can be printed");
        let plain = read(&text, &NoOps).expect("it is read as it is, too");
        (printed(read_with(&text, &NoOps, options).expect("it is read").module), printed(plain))
    };
    let body = "m = T.int64()\nA = T.match_buffer(a, (m, 4), strides=(8, 1))\nk = T.int64()\n\
                B = T.match_buffer(b, (m, k), dtype=\"int8\")\nfor i in range(m):\n    B[i, 0] = T.int8(0)";
    let (asked, plain) = written(body);
    let buffers =
        "A: T.Buffer((m, 4), \"float32\", strides=(8, 1)), h: T.handle, B: T.Buffer((m, k), \"int8\"), n: T.int32";
    assert!(asked.contains(buffers), "{asked}");
    assert!(!asked.contains("match_buffer"), "{asked}");
    assert!(plain.contains("A = T.match_buffer(a, (m, 4)"), "{plain}");
    // The handle is kept if it has other uses, if two buffers share it, or if the name is taken.
    for body in [
        "A = T.match_buffer(a, (4,))\nT.evaluate(a)",
        "A = T.match_buffer(a, (4,))\nB = T.match_buffer(a, (4,))\nA[0] = B[0]",
        "for i in range(4):\n    A = T.match_buffer(a, (4,))\n    T.evaluate(A[i])",
        "A = T.match_buffer(a, (4,))\nA = T.match_buffer(b, (4,))\nA[0] = T.float32(0)",
        "h = T.match_buffer(a, (4,))\nh[0] = T.float32(0)",
    ] {
        let (asked, plain) = written(body);
        assert_eq!(asked, plain);
        assert!(plain.contains("a: T.handle"), "{plain}");
    }
}

#[test]
fn the_data_type_of_a_field_is_given_by_place_or_by_name() {
    let text = |dtype: &str| module("h: T.handle", &format!("T.evaluate(T.tvm_struct_get(h, 0, 5, {dtype}))"));
    let [by_place, by_name] = ["\"uint8\"", "dtype=\"uint8\""].map(|dtype| read(&text(dtype), &NoOps).expect(dtype));
    assert!(by_place.structural_eq(&by_name));
}

#[test]
fn arguments_of_intrinsics_are_given_by_place_or_by_name() {
    for pair in [
        ("A[0, 0] = T.exp(x=A[0, 0])", "A[0, 0] = T.exp(A[0, 0])"),
        ("A[0, 0] = T.pow(A[0, 0], y=A[0, 1])", "A[0, 0] = T.pow(A[0, 0], A[0, 1])"),
        (
            "A[0, 0] = T.if_then_else(f=A[0, 0], cond=D[0], t=A[0, 1])",
            "A[0, 0] = T.if_then_else(D[0], A[0, 1], A[0, 0])",
        ),
        ("B[0] = T.call_extern(func_name=\"f\", dtype=\"int32\")", "B[0] = T.call_extern(\"int32\", \"f\")"),
        ("B[0] = T.reinterpret(value=A[0, 0], dtype=\"int32\")", "B[0] = T.reinterpret(\"int32\", A[0, 0])"),
        ("T.evaluate(T.int64(expr=3))", "T.evaluate(T.int64(3))"),
        // TVM ignores a data type that it infers.
        ("A[0, 0] = T.exp(A[0, 0], dtype=\"float32\")", "A[0, 0] = T.exp(A[0, 0])"),
    ] {
        is_read_as(pair);
    }
    refused("A[0, 0] = T.exp(y=A[0, 0])", "unknown, given twice, or leaves a gap", "y=A[0, 0]");
    refused("A[0, 0] = T.exp(A[0, 0], x=A[0, 0])", "given twice", "x=A[0, 0]");
    refused("A[0, 0] = T.pow(y=A[0, 0])", "leaves a gap", "y=A[0, 0]");
    refused("T.evaluate(T.tvm_tuple(1, value=2))", "takes its arguments by position", "value=2");
}
