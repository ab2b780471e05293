//! Tests that constants are read with the same numbers as in TVM, or rejected as in TVM. The cases are TVM's
//! own results, written by `tests/oracle/constants.py`.

use plugin_api::ir::Module;
use script::{NoOps, print, print_with_values, read};

fn module(expression: &str) -> Result<Module, (String, String)> {
    let text = format!(
        "@I.ir_module\nclass Module:\n    @R.function\n    def main():\n        y = {expression}\n        return y\n"
    );
    read(&text, &NoOps).map_err(|error| {
        let fault = &error.diagnostics[0];
        (text[fault.span.clone()].to_string(), fault.message.clone())
    })
}

/// Returns data type, shape and data of a constant.
fn said(expression: &str) -> Result<String, (String, String)> {
    let module = module(expression)?;
    for printed in [print(&module, &NoOps), print_with_values(&module, &NoOps)] {
        let printed = printed.expect("the module can be printed");
        let again = read(&printed, &NoOps).unwrap_or_else(|error| panic!("{expression}: {error}"));
        assert!(again.structural_eq(&module), "{expression}: printed as another module:\n{printed}");
    }
    let body = module.get("main").expect("a function");
    let constant = body.values().flat_map(|value| value.operands()).find_map(|value| value.as_constant());
    let constant = constant.unwrap_or_else(|| panic!("no constant in {expression}"));
    let shape = constant.shape().iter().map(i64::to_string).collect::<Vec<_>>().join(" ");
    let data: String = constant.bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("{} ({shape}) {data}", constant.dtype()))
}

/// Returns true for constants that TVM reads and passhost rejects: untyped integers of more than 32 bits, whose
/// upper bits TVM drops; 4-bit integers; non-numeric values, which TVM converts to Booleans.
fn only_tvm_reads(expression: &str) -> bool {
    let wide =
        ["2147483648", "-2147483649", "9007199254740993", "9223372036854775807", "9223372036854775808", "1844674407"];
    !expression.contains('"') && wide.iter().any(|number| expression.contains(number))
        || ["int4", "[1j], \"bool\"", "[\"a\"], \"bool\""].iter().any(|part| expression.contains(part))
}

/// Returns true for constants that TVM rejects and passhost reads: named floats without a float type; integers
/// of more than 63 bits as `bfloat16`.
fn only_tvm_refuses(expression: &str) -> bool {
    let named = ["nan", "-inf"].iter().any(|name| expression.contains(&format!("\"{name}\"")));
    named || expression.contains("bfloat16")
}

#[test]
fn constants_have_the_numbers_that_tvm_reads() {
    let (mut same, mut narrower, mut wider, mut other) = (0, 0, 0, Vec::new());
    for line in include_str!("constants.txt").lines() {
        let (expression, expected) = line.split_once(" => ").expect("a case");
        match (said(expression), expected) {
            (Ok(found), expected) if found == expected => same += 1,
            (Err(_), "refused") => same += 1,
            (Err(_), _) if only_tvm_reads(expression) => narrower += 1,
            (Ok(_), "refused") if only_tvm_refuses(expression) => wider += 1,
            (found, expected) => other.push(format!("{expression}: TVM {expected}, found {found:?}")),
        }
    }
    assert!(other.is_empty(), "{} of {}:\n{}", other.len(), same + other.len(), other.join("\n"));
    assert_eq!((same, narrower, wider), (1_288, 18, 10), "like TVM, read by TVM only, and refused by TVM only");
}

#[test]
fn a_fault_is_underlined_where_it_is() {
    let fault = |expression: &str, at: &str, message: &str| {
        let (found, said) = module(expression).expect_err(expression);
        assert_eq!((found.as_str(), said.as_str()), (at, message), "{expression}");
    };
    fault("R.const([1, [2]])", "[2]", "expected a number, as before; found a list");
    fault("R.const([[1], 2])", "2", "expected a list, as before; found a number");
    fault("R.const([[1], [2, 3]])", "[2, 3]", "expected a list of 1 elements, as before; found 2");
    fault("R.const([7, 300], \"int8\")", "300", "the number does not fit int8, whose range is -128 to 127");
    fault("R.const([-1], \"uint8\")", "-1", "the number does not fit uint8, whose range is 0 to 255");
    fault(
        "R.const([3000000000])",
        "3000000000",
        "the number does not fit int32, whose range is -2147483648 to 2147483647",
    );
    fault("R.const(300, \"int8\")", "300", "the number does not fit int8, whose range is -128 to 127");
    fault("R.const([1.0], \"float23\")", "1.0", "constants of float23 cannot be written as numbers");
    fault(
        "R.const([1.0], \"flaot32\")",
        "\"flaot32\"",
        "unknown data type `flaot32`; data types are written like \"float32\", \"int64\", \"bool\"",
    );
    fault("R.const([x])", "x", "expected a number, True or False, or a list of these");
    fault("R.const((1, 2))", "(1, 2)", "a constant is written as a list in brackets");
    let deep = format!("R.const({}1{})", "[".repeat(65), "]".repeat(65));
    assert_eq!(module(&deep).expect_err("deep").1, "a constant has at most 64 dimensions");
}
