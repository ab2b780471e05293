//! A text between two passes changes nothing that they do.

use super::{brief, cases, choices, made};
use passhost_tests::conformance::between::{Between, Fate, Pairs};
use passhost_tests::engine;
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
