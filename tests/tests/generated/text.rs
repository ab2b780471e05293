//! Tests checking, printing, parsing, sealing and comparing.

use super::{brief, cases, choices, made, shown};
use passhost::verify::verify_module;
use passhost_tests::{differing, engine, fuzz};
use plugin_api::ir::{SealError, Sections};
use plugin_api::prelude::*;
use proptest::prelude::*;

/// Returns the body with every value and symbolic variable renamed to the same name.
fn renamed(body: &Body) -> Body {
    let mut edit = body.edit();
    // A variable named `_` is printed in a different form.
    let plain = |value: &Value<'_>| value.is_bound() && value.name() != Some("_");
    for value in body.values().filter(plain) {
        let v = edit.v(value);
        edit.set_name(v, "same");
    }
    let body = edit.finish().expect("names change nothing");
    let mut s = Sections::copy_of(body.raw());
    let Some(one) = s.names.iter().find(|off| body.raw().name_at(**off) == Some("same")).copied() else { return body };
    s.var_names.iter_mut().for_each(|off| *off = one);
    Body::seal(&s).expect("names change nothing")
}

fn all_renamed(module: &Module) -> Module {
    module.map_functions(|_, body| Ok::<_, SealError>(renamed(body))).expect("valid")
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn modules_are_well_formed(bytes in choices()) {
        let module = made(&bytes);
        let checked = verify_module(&module, engine());
        prop_assert_eq!(checked, Ok(()), "{}", brief(&module));
    }

    #[test]
    fn what_is_printed_reads_as_the_same_module(bytes in choices()) {
        let module = made(&bytes);
        let printed = shown(&module);
        let again = script::read(&printed, engine());
        let again = again.map_err(|error| TestCaseError::fail(format!("{error}\n{printed}")))?;
        let difference = again.structural_eq(&module);
        prop_assert!(difference, "{printed}\n{}", differing(&module, &again));
        prop_assert_eq!(again.structural_hash(), module.structural_hash());
        prop_assert_eq!(shown(&again), printed);
    }

    #[test]
    fn what_was_sealed_can_be_sealed(bytes in choices()) {
        for (name, body) in made(&bytes).functions() {
            let again = Body::seal(&Sections::copy_of(body.raw())).expect("valid");
            prop_assert!(again.structural_eq(body), "{name}");
            prop_assert_eq!(again.structural_hash(), body.structural_hash());
            // Tests the body as bytes, and everything that reads a body; the bytes omit the data of large constants.
            let small = body.raw().consts().iter().all(|constant| constant.bytes <= 4_096);
            prop_assert!(!small || fuzz::seal(&fuzz::bytes(body)), "{name}\n{}", plugin_api::walk::dump::dump(body));
        }
    }

    #[test]
    fn names_do_not_count(bytes in choices()) {
        let module = made(&bytes);
        let other = all_renamed(&module);
        prop_assert!(other.structural_eq(&module));
        prop_assert_eq!(other.structural_hash(), module.structural_hash());
    }

    /// Under equal names, equal modules have equal texts and different modules have different texts. The printer does
    /// not use the implementation of equality.
    #[test]
    fn equality_and_hash_are_those_of_the_text(bytes in choices(), at in any::<prop::sample::Index>(), with in any::<u8>()) {
        let mut changed = bytes.clone();
        if !changed.is_empty() {
            let at = at.index(changed.len());
            changed[at] = with;
        }
        let (a, b) = (made(&bytes), made(&changed));
        let (a, b) = (all_renamed(&a), all_renamed(&b));
        let equal = a.structural_eq(&b);
        prop_assert_eq!(equal, b.structural_eq(&a));
        prop_assert_eq!(equal, a.structural_hash() == b.structural_hash());
        prop_assert_eq!(equal, shown(&a) == shown(&b), "{}\n{}", brief(&a), brief(&b));
    }
}
