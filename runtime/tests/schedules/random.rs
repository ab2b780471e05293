//! Tests random primitives on generated functions: each accepted primitive preserves the computed bits.

use crate::common::{func, inputs, reads_back, same_values, same_values_for, text, try_run};
use crate::generate::function;
use crate::naive::Generator;
use crate::primitives::matmul_of;
use crate::steps::{Choices, step};
use passhost_schedule::{Schedule, Trace};
use plugin_api::prelude::*;
use proptest::prelude::*;

/// Applies primitives, and checks the results. Returns the number of accepted primitives.
fn check(before: &Body, steps: &[u64]) -> usize {
    let mut sch = Schedule::new(before).expect("a schedule");
    let mut accepted = 0;
    for seed in steps {
        let was = sch.finish().expect("a body");
        match step(&mut sch, &mut Choices(seed | 1)) {
            Ok(()) => accepted += 1,
            Err(error) => {
                let now = sch.finish().expect("a body");
                assert!(now.structural_eq(&was), "a refused primitive changes nothing: {error}");
            }
        }
    }
    let after = sch.finish().unwrap_or_else(|error| panic!("{error}\n{}{}", text(before), sch.trace()));
    reads_back(&after);
    let ran = std::panic::catch_unwind(|| same_values(before, &after));
    assert!(ran.is_ok(), "of\n{}", sch.trace());
    let trace = sch.trace().to_string();
    let again: Trace = trace.parse().unwrap_or_else(|error| panic!("{error}"));
    let again = again.apply(before).unwrap_or_else(|error| panic!("{error}\n{trace}"));
    assert!(again.structural_eq(&after), "{trace}");
    accepted
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: std::env::var("CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(256),
        failure_persistence: None,
        max_shrink_iters: 400,
        ..ProptestConfig::default()
    })]

    #[test]
    fn what_is_accepted_computes_the_same(kind in any::<u64>(), steps in prop::collection::vec(any::<u64>(), 1..24)) {
        let before = func(&function(&mut Choices(kind | 1)));
        check(&before, &steps);
    }

    #[test]
    fn any_text_is_a_trace_or_refused(text in r#"[a-c0-2=(),\[\]" \\\nu{}Nonet-]{0,80}"#) {
        if let Ok(trace) = text.parse::<Trace>() {
            let again: Trace = trace.to_string().parse().expect("the printed text can be read");
            prop_assert_eq!(again, trace);
        }
    }
}

/// Applies random primitives to a schedule for all numbers of rows, and others to a schedule for one row.
#[test]
fn versions_compute_the_same_for_any_number_of_rows() {
    let before = func(&matmul_of("n"));
    for seed in 1..40u64 {
        let mut choices = Choices(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let mut any = Schedule::new(&before).expect("a schedule");
        let mut one = any.clone();
        let rows = one.get_loops(one.get_block("C").expect("a block")).expect("loops")[0];
        one.assume(rows, 1).expect("a symbolic dimension");
        for _ in 0..8 {
            [&mut any, &mut one].into_iter().for_each(|sch| drop(step(sch, &mut choices)));
        }
        let both = any.finish_versions(std::slice::from_ref(&one));
        let both = both.unwrap_or_else(|error| panic!("{error}\n{}\n{}", any.trace(), one.trace()));
        reads_back(&both);
        [1, 7].iter().for_each(|rows| same_values_for(&before, &both, *rows));
    }
}

#[test]
fn many_primitives_are_accepted() {
    let mut accepted = 0;
    for seed in 1..60u64 {
        let mut choices = Choices(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let before = func(&function(&mut choices));
        let steps: Vec<u64> = (0..12).map(|_| choices.below(usize::MAX) as u64).collect();
        accepted += check(&before, &steps);
    }
    assert!(accepted > 200, "{accepted}");
}

/// Tests functions that legalization never produces: with several writes to the same element, conditions, divisions,
/// and wraparound.
#[test]
fn other_functions_stay_as_they_are_or_compute_the_same() {
    let (mut accepted, mut tried) = (0, 0);
    let cases: u64 = std::env::var("CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(200);
    for seed in 0..cases {
        let (source, buffers) = Generator::function(seed);
        // The reader rejects a division by zero.
        let Ok(module) = script::read(&source, &script::NoOps) else { continue };
        let before = module.get("f").expect("a function");
        let again =
            Schedule::new(before).and_then(|sch| sch.finish()).unwrap_or_else(|error| panic!("{error}\n{source}"));
        assert!(again.structural_eq(before), "{source}");
        let tensors = inputs(before, seed);
        if buffers.is_empty() || try_run(before, tensors.clone()).is_err() {
            continue;
        }
        let mut sch = Schedule::new(before).expect("a schedule");
        let mut choices = Choices(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        for _ in 0..12 {
            tried += 1;
            let keeps_sums = sch.clone();
            accepted += usize::from(step(&mut sch, &mut choices).is_ok());
            // Reordered float sums have different bits.
            if sch.trace().to_string().lines().last().is_some_and(|line| line.starts_with("reorder")) {
                sch = keeps_sums;
            }
        }
        let after = sch.finish().unwrap_or_else(|error| panic!("{error}\n{source}{}", sch.trace()));
        let (a, b) = (try_run(before, tensors.clone()), try_run(&after, tensors));
        let (a, b) = (a.expect("it ran"), b.unwrap_or_else(|fault| panic!("{fault}\n{source}{}", sch.trace())));
        for (a, b) in a.iter().zip(&b) {
            let bits = |tensor: &runtime::Tensor| tensor.numbers().map(|n| format!("{n:?}")).collect::<Vec<String>>();
            assert_eq!(bits(a), bits(b), "{source}{}{}", sch.trace(), text(&after));
        }
    }
    assert!(accepted * 5 > tried, "{accepted} of {tried}");
}
