//! Tests that TIR constants are folded on reading, as in TVM. The cases are TVM's own results, written by
//! `tests/oracle/folding.py`.

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
    if !again.structural_eq(&module) {
        return Err(format!("printed as another module: {}", printed.lines().last().unwrap_or_default()));
    }
    let value = printed.lines().last().and_then(|line| line.split_once(" = ")).expect("a binding").1;
    Ok(value.to_string())
}

#[test]
fn constants_are_computed_as_in_tvm() {
    let (mut same, mut other) = (0, Vec::new());
    for line in include_str!("folding.txt").lines() {
        let (expression, expected) = line.split_once(" => ").expect("a case");
        match (said(expression), expected) {
            (Ok(printed), expected) if printed == expected => same += 1,
            (Err(_), "refused") => same += 1,
            // TVM reads this, but cannot print it.
            (Ok(printed), "refused") if expression == "T.Add(T.bool(True), T.bool(True))" => {
                assert_eq!(printed, expression)
            }
            (found, expected) => other.push(format!("{expression}: TVM {expected}, found {found:?}")),
        }
    }
    assert!(other.is_empty(), "{} of {}:\n{}", other.len(), same + other.len(), other.join("\n"));
    assert_eq!(same, 5_178, "like TVM");
}

/// Nodes of dropped operands are removed.
#[test]
fn operands_go_when_a_constant_takes_their_place() {
    for (expression, expected) in [
        ("(a + 1) * 0", "0"),
        ("0 * (a * 2 + b)", "T.int64(0)"),
        ("(a + 1) % 1", "0"),
        ("W[a] * 0 + 3", "3"),
        ("b * 2 + T.Cast(\"int64\", a) * 0", "b * T.int64(2)"),
        ("a * 2 + (a + b) * 0", "T.Cast(\"int64\", a * 2)"),
    ] {
        assert_eq!(said(expression).as_deref(), Ok(expected), "{expression}");
    }
}
