//! Tests that printing and reading the module between two passes does not change their results.

use super::{brief, cases, choices, made};
use passhost_tests::conformance::between::{Between, Fate, Pairs};
use passhost_tests::engine;
use plugin_api::ir::DType;
use proptest::prelude::*;

proptest! {
    #![proptest_config(cases(100))]

    #[test]
    fn a_text_between_two_passes_changes_nothing(bytes in choices()) {
        let module = made(&bytes);
        let between = Between::new(engine()).expect("the standard passes");
        match between.module(&module, Pairs::All) {
            Ok(fate) => prop_assert_eq!(fate, Fate::Held),
            Err(failure) => prop_assert!(false, "{}: {}\n{}", failure.kind, failure.why, brief(&module)),
        }
    }
}

/// The effect of an undeclared operator depends on the code around its call.
const UNDECLARED: &str = r#"@I.ir_module
class Module:
    @R.function(pure=False)
    def main(x: R.Any) -> R.Any:
        with R.dataflow():
            y: R.Any = R.acme.f(x)
            R.output(y)
        with R.dataflow():
            z: R.Any = R.acme.g(x)
            R.output(z)
        return y
"#;

/// The type of the view depends on the value of its last argument.
const VIEWS: &str = r#"@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4,), dtype="float32"), o: R.Any) -> R.Any:
        d = R.null_value()
        e = R.null_value()
        z = R.memory.view(x, R.shape([4]), d)
        y = R.memory.view(x, R.shape([4]), o)
        w = R.memory.view(x, R.shape([4]), e)
        return (z, y, w)
"#;

#[test]
fn what_surrounds_a_call_and_what_is_behind_a_name_counts() {
    for text in [UNDECLARED, VIEWS] {
        let module = script::read(text, engine()).expect("a module");
        let between = Between::new(engine()).expect("the standard passes");
        let fate = between.module(&module, Pairs::All);
        assert!(matches!(fate, Ok(Fate::Held)), "{fate:?}");
    }
}

#[test]
fn types_do_not_depend_on_earlier_calls() {
    let module = script::read(VIEWS, engine()).expect("a module");
    let main = module.get("main").expect("the function");
    let dtype = |name: &str| main.lookup_binding(name).expect("a view").ty().dtype();
    assert_eq!(dtype("z"), DType::F32);
    assert_eq!(dtype("y"), DType::VOID);
    assert_eq!(dtype("w"), dtype("z"));
}
