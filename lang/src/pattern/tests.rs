//! Tests of search results, and of the search cost in steps.

use super::*;
use crate::ir::{Attr, Call, Constant, Dim, Module};
use crate::rewrite::mutators::Action;
use crate::{PassError, bail};

/// Builds a function whose bindings `f` writes, given its builder, its parameter `x` and their type; returns the last
/// binding.
fn function(f: impl FnOnce(&mut Calls)) -> Body {
    let mut b = BodyBuilder::new();
    b.begin_function(0, AttrsId::NONE, None);
    let ty = b.ty(&Type::tensor([2, 3], DType::F32));
    let (x, y) = (b.param("x", ty), b.param("y", ty));
    b.begin_block();
    let mut calls = Calls { b, ty, x, y, last: x };
    f(&mut calls);
    let Calls { mut b, last, .. } = calls;
    b.end();
    b.end_function(last, ty);
    b.finish().expect("a valid function")
}

struct Calls {
    b: BodyBuilder,
    ty: crate::ir::TypeId,
    x: crate::ir::V,
    y: crate::ir::V,
    last: crate::ir::V,
}

impl Calls {
    fn call(&mut self, op: &str, args: &[crate::ir::V], name: &str) -> crate::ir::V {
        let op = self.b.op(op);
        self.last = self.b.call(op, args, AttrsId::NONE, self.ty, false, Some(name));
        self.last
    }
}

fn named<'b>(body: &'b Body, name: &str) -> Value<'b> {
    body.lookup_binding(name).unwrap_or_else(|| panic!("no `{name}`"))
}

/// Returns the steps of a search for all matches, and the number of matches.
fn cost(pattern: &Pattern, body: &Body) -> (u64, usize) {
    let matcher = Matcher::new(pattern);
    let mut search = matcher.on(body);
    let found = body.bindings().filter(|value| search.at(*value).is_some()).count();
    (search.steps(), found)
}

/// Builds a ladder of `n` rungs: each adds the previous rung to itself.
fn ladder(n: usize) -> Body {
    function(|calls| {
        for i in 0..n {
            let last = calls.last;
            calls.call("relax.add", &[last, last], &format!("v{i}"));
        }
    })
}

/// Checks that doubling the function at most doubles the steps.
fn assert_linear(pattern: &Pattern, body: impl Fn(usize) -> Body) {
    let (small, large) = (cost(pattern, &body(1000)), cost(pattern, &body(2000)));
    assert!(large.0 <= 2 * small.0 + small.0 / 20, "{small:?}, then {large:?}");
    assert!(small.0 <= 1000 * 400, "{small:?}");
}

#[test]
fn alternatives_that_share_parts_cost_no_more_than_their_parts() {
    // Each level has two alternatives, which both begin with the level below: there are 2^40 combinations.
    let mut pattern = is_op("relax.add", ..);
    for _ in 0..40 {
        let below = pattern.clone();
        pattern = is_op("relax.add", [&below, &is_const()]) | is_op("relax.add", [&below, &below]);
    }
    assert_linear(&pattern, ladder);
    let body = ladder(1000);
    assert_eq!(cost(&pattern, &body).1, 1000 - 40);
}

#[test]
fn alternatives_side_by_side_are_not_multiplied() {
    // The last argument never matches: a naive search would combine the alternatives of all 30 arguments before it.
    let either = || is_op("relax.add", ..) | wildcard();
    let args: Vec<Pattern> = (0..30).map(|_| either()).chain([is_const()]).collect();
    let body = |n: usize| {
        function(|calls| {
            for i in 0..n {
                let args = vec![calls.last; 31];
                calls.call("relax.many", &args, &format!("v{i}"));
            }
        })
    };
    let pattern = is_op("relax.many", args);
    assert_linear(&pattern, body);
    assert_eq!(cost(&pattern, &body(10)).1, 0);
}

#[test]
fn chains_and_users_are_looked_at_once() {
    let chain_of_adds = is_chain(is_param(), |inner| is_op("relax.add", ..).any_arg(inner));
    assert_linear(&chain_of_adds, ladder);
    assert_eq!(cost(&chain_of_adds, &ladder(500)).1, 500);
    // Every value uses `x`, and the pattern requires a user of `x` that does not exist.
    let star = |n: usize| {
        function(|calls| {
            for i in 0..n {
                let x = calls.x;
                calls.call("relax.add", &[x, x], &format!("v{i}"));
            }
        })
    };
    let missing = is_op("relax.add", [wildcard().used_by(is_op("relax.exp", ..)), wildcard()]);
    assert_linear(&missing, star);
    assert_eq!(cost(&missing, &star(500)).1, 0);
}

#[test]
fn a_shared_capture_goes_back_to_alternatives() -> Result<(), PassError> {
    // `add(a, y) * a`, with the sum in either order: the first order binds the wrong `a`.
    let sum = is_commutative("relax.add", wildcard().bind("a"), wildcard());
    let pattern = is_op("relax.multiply", [sum, wildcard().bind("a")]);
    let body = function(|calls| {
        let (x, y) = (calls.x, calls.y);
        let sum = calls.call("relax.add", &[x, y], "sum");
        calls.call("relax.multiply", &[sum, y], "product");
    });
    let matcher = Matcher::new(&pattern);
    let found = matcher.on(&body).at(named(&body, "product")).expect("a match");
    assert_eq!(found.get("a")?.name(), Some("y"));
    Ok(())
}

#[test]
fn a_search_that_must_try_too_much_gives_up_and_says_so() {
    // The thirty captures can be bound in 2^30 ways, but no way fits.
    let mut pattern = is_const();
    for i in 0..30 {
        let name = format!("c{i}");
        let either = (wildcard().bind(name.as_str()) & !is_const()) | wildcard();
        pattern = is_op("relax.add", [either, pattern | is_op("relax.add", ..)])
            & wildcard().arg(0, wildcard().bind(name.as_str()));
    }
    let pattern = is_op("relax.neg", [pattern]).check(|_| bail!("never"));
    let body = function(|calls| {
        for i in 0..40 {
            let (x, last) = (calls.x, calls.last);
            calls.call("relax.add", &[x, last], &format!("v{i}"));
        }
        let last = calls.last;
        calls.call("relax.neg", &[last], "root");
    });
    let matcher = Matcher::new(&pattern);
    let mut search = matcher.on(&body);
    assert!(search.at(named(&body, "root")).is_none());
    assert!(search.steps() < 10_000_000, "{}", search.steps());
}

#[test]
fn depth_costs_no_stack() {
    let (n, mut pattern) = (100_000, wildcard());
    for _ in 0..n {
        pattern = is_op("relax.add", [pattern.clone(), wildcard()]);
    }
    let body = ladder(n);
    let matcher = Matcher::new(&pattern);
    assert!(matcher.on(&body).at(named(&body, &format!("v{}", n - 1))).is_some());
    assert!(matcher.on(&body).at(named(&body, &format!("v{}", n - 2))).is_none());
    assert!(pattern.to_string().contains('…'));
    drop(matcher);
    drop(pattern);
    // A chain through the whole function.
    let all = is_chain(is_param(), |inner| is_op("relax.add", [inner, wildcard()]));
    let found = Matcher::new(&all).on(&body).at(named(&body, &format!("v{}", n - 1))).map(|found| found.inner().len());
    assert_eq!(found, Some(n));
}

#[test]
fn other_names_of_a_value_are_looked_through() -> Result<(), PassError> {
    let body = function(|calls| {
        let x = calls.x;
        let relu = calls.call("relax.nn.relu", &[x], "relu");
        let alias = crate::ir::NodeSpec::new(crate::ir::records::kind::ALIAS).ty(calls.ty);
        let other = calls.b.node(alias, &[relu], Some("other"));
        calls.call("relax.exp", &[other], "exp");
    });
    let relu = is_op("relax.nn.relu", ..).used_once().only_used_by(is_op("relax.exp", ..).bind("user"));
    let pattern = is_op("relax.exp", [relu.bind("relu")]);
    let matcher = Matcher::new(&pattern);
    let found = matcher.on(&body).at(named(&body, "exp")).expect("a match");
    assert_eq!(found.get("relu")?, named(&body, "relu"));
    assert_eq!(found.get("user")?, named(&body, "exp"));
    Ok(())
}

#[test]
fn captures_say_what_is_wrong_with_them() {
    let (body, [relu, ..]) = example();
    let pattern = is_op("relax.nn.relu", [wildcard().bind("x")]) | is_op("relax.exp", [wildcard().bind("y")]);
    let matcher = Matcher::new(&pattern);
    let found = matcher.on(body).at(relu).expect("a match");
    let error = |name: &str| found.get(name).err().map(|error| error.message).unwrap_or_default();
    assert_eq!(error("z"), "the pattern does not capture `z`; it captures `x`, `y`");
    assert!(
        error("y").starts_with("the capture `y` is in a part of the pattern that this match did not use"),
        "{}",
        error("y")
    );
    assert!(found.get(Capture::<Call<'static>>::new("x")).is_err());
    assert!(found.get(Capture::<Constant<'static>>::new("x")).is_err());
    let typed =
        Matcher::new(&is_op("relax.nn.relu", [wildcard().bind(Capture::<Call<'static>>::new("x"))])).on(body).at(relu);
    assert!(typed.is_none()); // a parameter is not a call
}

/// Returns the explanation for a value of the example.
fn why(pattern: &Pattern, name: &str) -> String {
    let (body, _) = example();
    Matcher::new(pattern).on(body).explain(named(body, name)).to_string()
}

#[test]
fn the_best_failure_is_said_in_words() {
    let relu = || is_op("relax.nn.relu", ..);
    let any_sum = || is_op("relax.add", ..);
    for (pattern, at, expected) in [
        (any_sum(), "twice", "matches"),
        (is_op("relax.exp", ..), "twice", "found a call of relax.add, expected a call of relax.exp"),
        (is_op("relax.add", [wildcard()]), "twice", "found a call of relax.add with 2 arguments, expected 1"),
        (
            is_op("relax.add", [relu(), is_const()]),
            "twice",
            "argument 1 of relax.add: found a call of relax.nn.relu, expected a constant",
        ),
        (
            is_op("relax.exp", ..) | is_op("relax.tanh", ..),
            "twice",
            "found a call of relax.add, expected a call of relax.exp or relax.tanh",
        ),
        (
            is_op("relax.exp", ..) | is_op("relax.add", [relu(), is_param()]),
            "twice",
            "argument 1 of relax.add: found a call of relax.nn.relu, expected a parameter",
        ),
        (any_sum().used_once(), "sum", "found a result, expected only one"),
        (
            is_op("relax.add", [wildcard().bind("a"), wildcard().bind("a")]),
            "sum",
            "argument 1 of relax.add: found `twice`, expected `relu`, which is captured as `a`",
        ),
        (relu().attr("alpha", 1), "relu", "found no attribute `alpha`, expected alpha=1"),
        (relu().rank(4), "relu", "found 2 dimensions, expected 4 dimensions"),
        (relu().shape(("n", "n")), "relu", "found the shape (2, 3), expected 2 for `n`"),
        (relu().shape([2, 4]), "relu", "found the shape (2, 3), expected (2, 4)"),
        (relu().dtype(DType::I32), "relu", "found data type float32, expected int32"),
        (!relu(), "relu", "found a call of relax.nn.relu, expected a different value; the pattern excludes this one"),
        (
            relu().only_used_by(any_sum()),
            "relu",
            "found a value with 3 users (`twice`, `twice`, `sum`), expected only one",
        ),
        (
            is_op("relax.add", [relu(), wildcard()]).check(|_| bail!("the sum is too large")),
            "twice",
            "found that the sum is too large, expected a match that the pattern's check accepts",
        ),
        (
            relu().callee_attr("k", 1),
            "relu",
            "found a call in a matcher without a module, expected a function with the attribute k=1",
        ),
    ] {
        assert_eq!(why(&pattern, at), expected, "{pattern}");
    }
}

#[test]
fn rewriting_takes_matches_that_do_not_overlap() -> Result<(), PassError> {
    let body = function(|calls| {
        for i in 0..5 {
            let last = calls.last;
            calls.call("relax.negative", &[last], &format!("v{i}"));
        }
    });
    let twice = is_op("relax.negative", [is_op("relax.negative", [wildcard().bind("x")]).used_once()]);
    let ops = |body: &Body| body.bindings().filter_map(|value| value.name().map(str::to_string)).collect::<Vec<_>>();
    let drop_two = |matcher: Matcher<'_>| {
        matcher.rewrite(&body, |found, rw| Ok(Action::Replace(rw.v(found.get("x")?)))).map(|body| ops(&body))
    };
    assert_eq!(drop_two(Matcher::new(&twice))?, ["v4"]);
    assert_eq!(drop_two(Matcher::new(&twice).from_the_back())?, ["v0"]);
    let kept = Matcher::new(&twice).rewrite(&body, |_, _| Ok(Action::Keep))?;
    assert!(kept.same(&body));
    let failed = Matcher::new(&twice).rewrite(&body, |found, _| Err(PassError::new("no").at(found.root())));
    assert!(failed.is_err());
    Ok(())
}

#[test]
fn dimensions_and_functions_are_matched() -> Result<(), PassError> {
    let (body, [relu, ..]) = example();
    let square = Matcher::new(&wildcard().shape(("n", "m")).arg(0, wildcard().shape(("n", "m")))).on(body).at(relu);
    assert_eq!(square.expect("a match").dim("m")?, Dim::Int(3));
    let module = Module::new([("main", body.clone())]);
    let group = is_call_of_function(..).callee_attr("k", Attr::Int(1));
    let matcher = Matcher::new(&group).in_module(&module);
    assert!(matcher.on(body).all().next().is_none());
    Ok(())
}

/// The negated pattern already failed when it was tried as a positive pattern.
#[test]
fn what_cannot_match_is_explained_although_it_was_looked_at_before() {
    let (body, [relu, ..]) = super::example();
    let inner = wildcard() & (wildcard() & is_param());
    let never = !inner.clone() & inner;
    let matcher = Matcher::new(&never);
    let mut search = matcher.on(body);
    for value in [relu, body.root()] {
        assert!(search.at(value).is_none());
        assert!(!search.explain(value).is_match());
    }
}

#[test]
fn a_write_between_the_parts_is_explained() {
    let body = function(|calls| {
        let relu = calls.call("relax.nn.relu", &[calls.x], "relu");
        let op = calls.b.op("acme.writes");
        calls.b.call(op, &[calls.x], AttrsId::NONE, calls.ty, true, Some("written"));
        calls.call("relax.exp", &[relu], "exp");
    });
    let pattern = is_op("relax.exp", [is_op("relax.nn.relu", [wildcard()])]);
    let matcher = Matcher::new(&pattern);
    let mut search = matcher.on(&body);
    assert!(search.at(named(&body, "exp")).is_none());
    let why = search.explain(named(&body, "exp"));
    assert_eq!(why.failed_at(), Some(named(&body, "relu")));
    let expected = "found `relu`, which cannot be computed at `exp`: a call between them may write to its operands";
    assert_eq!(why.to_string(), expected);
}
