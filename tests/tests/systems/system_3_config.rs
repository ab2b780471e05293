//! Tests config options: registered by key with a type; unknown keys, wrong types and values out of range are errors.

use super::*;

/// Tests row 10 of the planner.
#[test]
fn row_10_config_that_does_not_fit_is_an_error() {
    let engine = engine([]);
    let error = |key: &str, value: OptionValue| {
        PassContext::builder().config(key, value).build(&engine).expect_err("it does not fit").to_string()
    };
    let about = "it is of type int, default 4, range 0..=16, declared by `host`: How many at most.";
    let near = format!("the context: unknown config option `t.limt`; did you mean `t.limit`? I{}", &about[1..]);
    assert_eq!(error("t.limt", OptionValue::Int(1)), near);
    let wrong = error("t.limit", OptionValue::Float(1.5));
    assert_eq!(wrong, format!("the context: config option `t.limit` is set to `1.5`, but {about}"));
    let far = error("t.limit", OptionValue::Int(17));
    assert_eq!(far, format!("the context: config option `t.limit` is `17`, which is not in 0..=16; {about}"));
}

#[test]
fn all_that_is_wrong_is_told_at_once() {
    let log = Log::default();
    let engine = engine([noted("t.Fold", 0, &[], &log)]);
    let context = PassContext::builder().config("t.limit", OptionValue::Int(-1)).target("?").disable(["t.Fodl"]);
    let Err(Error::Several(errors)) = context.build(&engine).map(|_| ()) else { panic!("three errors") };
    let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert!(errors[0].starts_with("the context: config option `t.limit` is `-1`"), "{errors:?}");
    assert_eq!(errors[1], "target `?` is neither a name nor a JSON object");
    // Tests row 9 of the planner.
    assert_eq!(errors[2], "disabled of the context: unknown pass `t.Fodl`; did you mean `t.Fold`?");
}
