//! Tests operands of different data types: as in TVM, they are converted to a common type, or rejected. The cases
//! are TVM's own results, written by `tests/oracle/promotion.py`.

use script::{NoOps, print, read};

/// Returns the printed value of `y = expression`, or the error.
fn said(expression: &str) -> Result<String, String> {
    let text = format!(
        "@I.ir_module\nclass Module:\n    @T.prim_func(private=True)\n    def f(a: T.int32, b: T.int64, c: T.int8, d: T.uint8, \
         e: T.uint32, f: T.float32, g: T.float16, h: T.bool, k: T.bfloat16, q: T.float8_e4m3fn, \
         V: T.Buffer((16,), \"float32\"), W: T.Buffer((16,), \"int32\")):\n        y = {expression}\n"
    );
    let module = read(&text, &NoOps).map_err(|error| error.diagnostics[0].message.clone())?;
    let printed = print(&module, &NoOps).expect("the module can be printed");
    let again = read(&printed, &NoOps).expect("the printed text can be read");
    assert!(again.structural_eq(&module), "{expression}: printed as another module:\n{printed}");
    let value = printed.lines().last().and_then(|line| line.split_once(" = ")).expect("a binding").1;
    Ok(value.to_string())
}

/// Returns true for expressions that TVM rejects and passhost accepts: powers of narrow floats, literals combined
/// with narrow floats, a float compared with an integer as a float, a non-bool literal combined with a bool.
fn only_tvm_refuses(expression: &str) -> bool {
    let has = |parts: &[&str]| parts.iter().any(|part| expression.contains(part));
    (expression.starts_with("T.pow(") || has(&[" < ", " == "])) && has(&["k", "q", "2.5"])
        || expression == "3 and W[T.Ramp(0, 1, 4)]"
        || expression.starts_with("T.Ramp(h, ")
}

#[test]
fn operands_are_brought_to_one_type_as_in_tvm() {
    let (mut same, mut wider, mut other) = (0, 0, Vec::new());
    for line in include_str!("promotion.txt").lines() {
        let (expression, expected) = line.split_once(" => ").expect("a case");
        match (said(expression), expected) {
            (Ok(printed), expected) if printed == expected => same += 1,
            (Err(_), "refused") => same += 1,
            (Ok(_), "refused") if only_tvm_refuses(expression) => wider += 1,
            (found, expected) => other.push(format!("{expression}: TVM {expected}, found {found:?}")),
        }
    }
    assert!(other.is_empty(), "{} of {}:\n{}", other.len(), same + other.len(), other.join("\n"));
    assert_eq!((same, wider), (3_794, 58), "like TVM; TVM alone refuses");
}

/// Returns the printed statements of a function.
fn statements(body: &str) -> Vec<String> {
    let body: String = body.lines().map(|line| format!("        {line}\n")).collect();
    let text = format!(
        "@I.ir_module\nclass Module:\n    @T.prim_func(private=True)\n    def f(a: T.int32, b: T.int64, x: T.float32, \
         V: T.Buffer((16,), \"float32\"), W: T.Buffer((16,), \"int32\")):\n{body}"
    );
    let module = read(&text, &NoOps).unwrap_or_else(|error| panic!("{error}"));
    let printed = print(&module, &NoOps).expect("the module can be printed");
    let again = read(&printed, &NoOps).expect("the printed text can be read");
    assert!(again.structural_eq(&module), "printed as another module:\n{printed}");
    printed.lines().filter_map(|line| line.strip_prefix("        ").map(str::to_string)).collect()
}

#[test]
fn what_is_stored_has_the_type_of_its_place() {
    assert_eq!(statements("W[0] = b * 2"), ["W[0] = T.Cast(\"int32\", b * T.int64(2))"]);
    assert_eq!(statements("W[0] = 2.5"), ["W[0] = 2"]);
    assert_eq!(statements("W[0] += b"), ["W[0] = T.Cast(\"int32\", T.Cast(\"int64\", W[0]) + b)"]);
    assert_eq!(statements("y: T.int32 = b\ny *= x")[1], "y = T.Cast(\"int32\", T.Cast(\"float32\", y) * x)");
    assert_eq!(statements("V.vstore([a], V.vload([0], \"float32x4\"))"), ["V[a:a + 4] = V[T.Ramp(0, 1, 4)]"]);
}

#[test]
fn a_number_with_a_name_is_a_scalar() {
    assert_eq!(statements("y = a + 1\ny = b"), ["y: T.int32 = a + 1", "y = T.Cast(\"int32\", b)"]);
    assert_eq!(statements("y = 1.5"), ["y: T.float32 = T.float32(1.5)"]);
    assert_eq!(statements("y = V.data"), ["y: T.let[T.handle(\"float32\", \"global\")] = V.data"]);
}

#[test]
fn bounds_of_loops_are_of_one_type() {
    let head = |text: &str| statements(&format!("for i in range({text}):\n    T.evaluate(i)"))[0].clone();
    assert_eq!(head("b"), "for i in range(b):");
    assert_eq!(head("T.int8(2), 10"), "for i in range(2, 10):");
    let start = "T.Cast(\"int64\", a * 2)";
    assert_eq!(head("a * 2, b * 3"), format!("for i in range({start}, {start} + (b * T.int64(3) - {start})):"));
}

#[test]
fn conversions_stand_where_their_operands_do() {
    // Only the right side shows that the left side must be converted, but the left side is read first.
    let nested = statements("T.evaluate(a * 2 + (a + 1 + (a - 1 + b * 3)) * (x + V[a]))");
    let inner = "T.Cast(\"int64\", a + 1) + (T.Cast(\"int64\", a - 1) + b * T.int64(3))";
    let sum = format!("T.Cast(\"float32\", a * 2) + T.Cast(\"float32\", {inner}) * (x + V[a])");
    assert_eq!(nested, [format!("T.evaluate({sum})")]);
}

#[test]
fn vectors_are_loaded_at_an_element() {
    assert_eq!(statements("T.evaluate(V.vload([0]))"), ["T.evaluate(V[0])"]);
    assert_eq!(statements("T.evaluate(V.vload([b], \"float32x4\"))"), ["T.evaluate(V[T.Ramp(b, T.int64(1), 4)])"]);
    assert_eq!(said("V.vload([0], \"float16\")").expect_err("another type"), "this loads float32, not float16");
}

#[test]
fn bits_are_inverted_by_an_operator() {
    assert_eq!(statements("T.evaluate(~(a + 1) * 2)"), ["T.evaluate(~(a + 1) * 2)"]);
    assert_eq!(statements("T.evaluate(T.bitwise_not(a))"), ["T.evaluate(~a)"]);
    assert_eq!(statements("T.bitwise_not(3)"), ["T.bitwise_not(3)"]);
}

#[test]
fn what_has_no_common_type_is_refused() {
    let refused = |text: &str, message: &str| {
        let found = said(text).expect_err(text);
        assert!(found.contains(message), "{text}: {found}");
    };
    refused("T.Add(a, b)", "operands of `+` must have the same type, found int32 and int64");
    refused("a == b", "operands of `==` must have the same type, found int32 and int64");
    refused("c & 300", "does not fit int8");
    refused("T.int8(300)", "300 does not fit int8");
    refused("T.Broadcast(f, 4) + T.Broadcast(f, 8)", "the operands float32x4 and float32x8 do not have a common type");
    refused("f // f", "`//` takes integers, found float32");
    refused("h and a", "`and` takes bools, found int32");
    refused("T.Select(h, a, b)", "the values of a Select must have the same type, found int32 and int64");
    refused("T.Shuffle([a, b], [0, 1])", "the vectors of a Shuffle must have the same type, found int32 and int64");
    refused("-d", "values of uint8 cannot be negative");
    refused("T.Cast(\"float32x4\", f)", "would change the number of lanes");
    refused("T.Ramp(V[T.Ramp(0, 1, 4)], 1, 4)", "a vector needs one value, found float32x4");
}
