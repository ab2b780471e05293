//! Tests of parts of the reader. `tests/tests/pt2` reads and executes archives.

use crate::expr::Expr;
use crate::{ops, promote};
use plugin_api::prelude::*;
use std::collections::BTreeSet;
use std::path::Path;

/// Evaluates a size for values of its symbols.
fn value(text: &str, of: &dyn Fn(&str) -> i64) -> i64 {
    let expr = Expr::parse(text).unwrap_or_else(|why| panic!("{why}"));
    expr.dim(&mut |name| Ok(Dim::Int(of(name)))).ok().and_then(|dim| dim.as_int()).expect("a number")
}

#[test]
fn sizes_are_parsed_like_sympy() {
    let of = |name: &str| if name == "s0" { 7 } else { 4 };
    for (text, wanted) in [
        ("s0", 7),
        ("2*s0 + 1", 15),
        ("-s0 + s77*3", 5),
        ("s0**2 - 4", 45),
        ("-2*s0**2", -98),
        ("((s0 - 1)//2) + 1", 4),
        ("FloorDiv(s0, 2)", 3),
        ("Mod(s0, s77)", 3),
        ("s0 % 4", 3),
        ("Max(1, s0, s77)", 7),
        ("Min(s0, s77)", 4),
        ("CeilDiv(s0, 2)", 4),
        ("s0*(s77 + 1)*2", 70),
        ("s0 - 1 - 2", 4),
        ("s0//2*2", 6),
    ] {
        assert_eq!(value(text, &of), wanted, "{text}");
    }
}

#[test]
fn linear_sizes_are_recognized() {
    let linear = |text: &str| Expr::parse(text).ok().and_then(|expr| expr.linear());
    assert_eq!(linear("3*s0 + 2"), Some((3, 2)));
    assert_eq!(linear("2*(s0 - 1)"), Some((2, -2)));
    assert_eq!((linear("s0**2"), linear("s0//2"), linear("4"), linear("-s0")), (None, None, None, None));
}

#[test]
fn common_types_are_those_of_pytorch() {
    for (a, b, wanted) in [
        (DType::U8, DType::I8, DType::I16),
        (DType::I32, DType::I64, DType::I64),
        (DType::BOOL, DType::U8, DType::U8),
        (DType::I64, DType::F16, DType::F16),
        (DType::F16, DType::BF16, DType::F32),
        (DType::BF16, DType::F64, DType::F64),
        (DType::U8, DType::I32, DType::I32),
    ] {
        assert_eq!((promote::common(a, b), promote::common(b, a)), (wanted, wanted), "{a} and {b}");
    }
}

#[test]
fn the_document_lists_the_operators() {
    let names = ops::names();
    let unique: BTreeSet<&str> = names.iter().copied().collect();
    assert_eq!(unique.len(), names.len(), "an operator is in the table twice");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/pytorch.md");
    let document = std::fs::read_to_string(path).expect("the document");
    let section = document.split("## Operators").nth(1).expect("a section");
    let listed: BTreeSet<&str> = section.split('`').skip(1).step_by(2).collect();
    let missing: Vec<&&str> = unique.difference(&listed).collect();
    let more: Vec<&&str> = listed.difference(&unique).collect();
    assert!(missing.is_empty() && more.is_empty(), "docs/pytorch.md lacks {missing:?}, and lists {more:?}");
    let count = format!("{} overloads", names.len());
    assert!(document.contains(&count), "docs/pytorch.md does not contain `{count}`");
}
