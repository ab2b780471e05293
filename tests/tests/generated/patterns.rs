//! Tests pattern search against an exhaustive search, on generated functions and patterns.

use super::{cases, choices, made, shown};
use passhost_tests::generate::Choices;
use plugin_api::ir::records::kind;
use plugin_api::pattern::{Matcher, is_param, is_tuple, is_tuple_get};
use plugin_api::prelude::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// A pattern in the form of the exhaustive search.
enum Plain {
    Any,
    Param,
    Call(String, Option<Vec<Rc<Plain>>>),
    Tuple,
    Get(Rc<Plain>),
    Or(Rc<Plain>, Rc<Plain>),
    And(Rc<Plain>, Rc<Plain>),
    Not(Rc<Plain>),
    Bind(&'static str, Rc<Plain>),
    Once(Rc<Plain>),
    AnyArg(Rc<Plain>, Rc<Plain>),
    UsedBy(Rc<Plain>, Rc<Plain>),
    OnlyUsedBy(Rc<Plain>, Rc<Plain>),
    OneBlock(Rc<Plain>),
}

const NAMES: [&str; 2] = ["a", "b"];

/// Returns a pattern for these choices. Its operands can be earlier parts.
fn plain(choices: &Choices<'_>, ops: &[(String, usize)], before: &mut Vec<Rc<Plain>>, depth: usize) -> Rc<Plain> {
    if !before.is_empty() && choices.one_in(4) {
        return Rc::clone(&before[choices.below(before.len())]);
    }
    let leaf = depth == 0;
    let mut part = || plain(choices, ops, before, depth.saturating_sub(1));
    let made = match choices.below(if leaf { 4 } else { 14 }) {
        1 => Plain::Param,
        2 => Plain::Tuple,
        3 if !ops.is_empty() => Plain::Call(ops[choices.below(ops.len())].0.clone(), None),
        4..=5 if !ops.is_empty() => {
            let (op, n) = &ops[choices.below(ops.len())];
            Plain::Call(op.clone(), Some((0..*n).map(|_| part()).collect()))
        }
        6 => Plain::Get(part()),
        7 => Plain::Or(part(), part()),
        8 => Plain::And(part(), part()),
        9 => Plain::Not(part()),
        10 => Plain::AnyArg(part(), part()),
        11 => Plain::UsedBy(part(), part()),
        12 if choices.coin() => Plain::OnlyUsedBy(part(), part()),
        12 => Plain::Once(part()),
        13 => Plain::OneBlock(part()),
        _ if choices.coin() => Plain::Bind(NAMES[choices.below(2)], Rc::new(Plain::Any)),
        _ => Plain::Any,
    };
    let made = Rc::new(if choices.one_in(6) { Plain::Bind(NAMES[choices.below(2)], Rc::new(made)) } else { made });
    before.push(Rc::clone(&made));
    made
}

/// Converts the description to a pattern. Shared parts stay shared.
fn pattern(plain: &Rc<Plain>, known: &mut BTreeMap<*const Plain, Pattern>) -> Pattern {
    if let Some(known) = known.get(&Rc::as_ptr(plain)) {
        return known.clone();
    }
    let mut of = |plain: &Rc<Plain>| pattern(plain, known);
    // Any addition to a pattern creates a new pattern, as in the exhaustive search.
    let apart = |pattern: Pattern| wildcard() & pattern;
    let made = match &**plain {
        Plain::Any => wildcard(),
        Plain::Param => is_param(),
        Plain::Call(op, None) => is_op(op, ..),
        Plain::Call(op, Some(args)) => is_op(op, args.iter().map(&mut of).collect::<Vec<_>>()),
        Plain::Tuple => is_tuple(..),
        Plain::Get(tuple) => is_tuple_get(of(tuple), ..),
        Plain::Or(a, b) => of(a) | of(b),
        Plain::And(a, b) => of(a) & of(b),
        Plain::Not(a) => !of(a),
        Plain::Bind(name, a) => apart(of(a)).bind(*name),
        Plain::Once(a) => apart(of(a)).used_once(),
        Plain::AnyArg(a, b) => apart(of(a)).any_arg(of(b)),
        Plain::UsedBy(a, b) => apart(of(a)).used_by(of(b)),
        Plain::OnlyUsedBy(a, b) => apart(of(a)).only_used_by(of(b)),
        Plain::OneBlock(a) => apart(apart(of(a)).in_one_block()),
    };
    known.insert(Rc::as_ptr(plain), made.clone());
    made
}

/// One way to match: the captures, and the positions of inner values.
#[derive(Clone, Default)]
struct Way {
    captured: BTreeMap<&'static str, u32>,
    inner: BTreeSet<usize>,
}

/// Maximum number of ways to match that are considered.
const MOST_WAYS: usize = 2_000;

struct Naive<'b> {
    body: &'b Body,
    users: BTreeMap<u32, Vec<Value<'b>>>,
}

impl<'b> Naive<'b> {
    fn of(body: &'b Body) -> Naive<'b> {
        let mut naive = Naive { body, users: BTreeMap::new() };
        for value in body.values().filter(|value| value.kind() != kind::ALIAS) {
            for operand in value.operands() {
                let origin = naive.origin(operand).word();
                naive.users.entry(origin).or_default().push(value);
            }
        }
        naive
    }

    fn origin(&self, value: Value<'b>) -> Value<'b> {
        match value.operand(0) {
            Some(source) if value.kind() == kind::ALIAS => self.origin(source),
            _ => value,
        }
    }

    fn users(&self, value: Value<'b>) -> &[Value<'b>] {
        if value.is_leaf() { &[] } else { self.users.get(&value.word()).map_or(&[], Vec::as_slice) }
    }

    /// Returns all ways to match, preferred ones first; `None` if there are too many.
    fn ways(&self, plain: &Plain, value: Value<'b>, from: &Way) -> Option<Vec<Way>> {
        let value = self.origin(value);
        let none = Some(Vec::new());
        let found = match plain {
            Plain::Any => vec![from.clone()],
            Plain::Param if value.kind() == kind::PARAM => vec![from.clone()],
            Plain::Tuple if value.kind() == kind::TUPLE => vec![inner(from, value)],
            Plain::Call(op, args) => self.call(op, args.as_deref(), value, from)?,
            Plain::Get(tuple) => {
                let Some((found, _)) = value.as_tuple_get() else { return none };
                self.ways(tuple, found, &inner(from, value))?
            }
            Plain::Or(a, b) => [self.ways(a, value, from)?, self.ways(b, value, from)?].concat(),
            Plain::And(a, b) => self.each(&self.ways(a, value, from)?, |way| self.ways(b, value, way))?,
            Plain::Not(a) => {
                if self.ways(a, value, from)?.is_empty() {
                    vec![from.clone()]
                } else {
                    Vec::new()
                }
            }
            Plain::Bind(name, a) => {
                let mut way = from.clone();
                if *way.captured.entry(name).or_insert(value.word()) != value.word() {
                    return none;
                }
                self.ways(a, value, &way)?
            }
            Plain::Once(a) => match self.users(value) {
                [user] if user.kind() != kind::YIELD => self.ways(a, value, from)?,
                _ => return none,
            },
            Plain::AnyArg(a, b) => {
                let args = || value.as_call().into_iter().flat_map(Call::args);
                self.each(&self.ways(a, value, from)?, |way| {
                    args().map(|arg| self.ways(b, arg, way)).collect::<Option<Vec<_>>>().map(|ways| ways.concat())
                })?
            }
            Plain::UsedBy(a, b) => self.each(&self.ways(a, value, from)?, |way| {
                let users = self.users(value).iter().filter(|user| user.kind() != kind::YIELD);
                users.map(|user| self.ways(b, *user, way)).collect::<Option<Vec<_>>>().map(|ways| ways.concat())
            })?,
            Plain::OnlyUsedBy(a, b) => match self.users(value) {
                [user, others @ ..] if user.kind() != kind::YIELD && others.iter().all(|other| other == user) => {
                    self.each(&self.ways(a, value, from)?, |way| self.ways(b, *user, way))?
                }
                _ => return none,
            },
            Plain::OneBlock(a) => self.in_one_block(a, value, from)?,
            Plain::Param | Plain::Tuple => return none,
        };
        (found.len() <= MOST_WAYS).then_some(found)
    }

    fn call(&self, op: &str, args: Option<&[Rc<Plain>]>, value: Value<'b>, from: &Way) -> Option<Vec<Way>> {
        let Some(call) = value.as_call_to(op) else { return Some(Vec::new()) };
        let mut ways = vec![inner(from, value)];
        let Some(args) = args else { return Some(ways) };
        if args.len() != call.args().len() {
            return Some(Vec::new());
        }
        for (plain, arg) in args.iter().zip(call.args()) {
            ways = self.each(&ways, |way| self.ways(plain, arg, way))?;
        }
        Some(ways)
    }

    /// A check is applied only to the first way of matching, and to the match of its own pattern.
    fn in_one_block(&self, plain: &Plain, value: Value<'b>, from: &Way) -> Option<Vec<Way>> {
        let own = Way { captured: from.captured.clone(), inner: BTreeSet::new() };
        let Some(first) = self.ways(plain, value, &own)?.into_iter().next() else { return Some(Vec::new()) };
        let regions = self.body.regions();
        let around: Vec<_> = first.inner.iter().map(|at| regions.around(self.body.value_at(*at))).collect();
        if around.windows(2).any(|pair| pair[0] != pair[1]) {
            return Some(Vec::new());
        }
        Some(vec![Way { captured: first.captured, inner: first.inner.union(&from.inner).copied().collect() }])
    }

    fn each(&self, ways: &[Way], f: impl Fn(&Way) -> Option<Vec<Way>>) -> Option<Vec<Way>> {
        let mut all = Vec::new();
        for way in ways {
            all.extend(f(way)?);
            if all.len() > MOST_WAYS {
                return None;
            }
        }
        Some(all)
    }
}

fn inner(from: &Way, value: Value<'_>) -> Way {
    let mut way = from.clone();
    way.inner.extend(value.index());
    way
}

/// Returns the operators that a function calls, with the number of arguments.
fn operators(body: &Body) -> Vec<(String, usize)> {
    let calls = body.values().filter_map(Value::as_call);
    let ops: BTreeSet<_> = calls.filter_map(|call| Some((call.op()?.to_string(), call.args().len()))).collect();
    ops.into_iter().collect()
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn the_search_agrees_with_one_that_tries_everything(bytes in choices(), pattern_bytes in choices()) {
        let module = made(&bytes);
        for (name, body) in module.functions().filter(|(_, body)| body.function().is_some()) {
            let plain = plain(&Choices::new(&pattern_bytes), &operators(body), &mut Vec::new(), 4);
            let pattern = pattern(&plain, &mut BTreeMap::new());
            let (naive, matcher, in_place) = (Naive::of(body), Matcher::new(&pattern), InPlace::of(body));
            let mut search = matcher.on(body);
            for value in body.values().filter(|value| value.kind() != kind::YIELD) {
                let Some(mut ways) = naive.ways(&plain, value, &Way::default()) else { continue };
                // The search refuses its match if a call between the parts may write to memory that they read.
                let moves = |at: &usize| in_place.may_move(body.value_at(*at), value);
                if ways.first().is_some_and(|first| !first.inner.iter().all(moves)) {
                    ways.clear();
                }
                let found = search.at(value);
                let shown = || format!("{pattern} at {value:?} of {name}\n{}", shown(&module));
                prop_assert_eq!(found.is_some(), !ways.is_empty(), "{}", shown());
                prop_assert_eq!(search.explain(value).is_match(), found.is_some(), "{}", shown());
                let (Some(found), Some(first)) = (found, ways.first()) else { continue };
                for name in NAMES {
                    let captured = found.try_get(name).map(Value::word);
                    prop_assert_eq!(captured, first.captured.get(name).copied(), "{}", shown());
                }
                let inner: Vec<usize> = found.inner().into_iter().filter_map(Value::index).collect();
                prop_assert_eq!(inner, first.inner.iter().copied().collect::<Vec<_>>(), "{}", shown());
            }
        }
    }

    #[test]
    fn matches_that_do_not_overlap_are_the_greedy_ones(bytes in choices(), pattern_bytes in choices()) {
        let module = made(&bytes);
        for (_, body) in module.functions().filter(|(_, body)| body.function().is_some()) {
            let plain = plain(&Choices::new(&pattern_bytes), &operators(body), &mut Vec::new(), 3);
            let pattern = pattern(&plain, &mut BTreeMap::new());
            for from_back in [false, true] {
                let matcher = Matcher::new(&pattern);
                let matcher = if from_back { matcher.from_the_back() } else { matcher };
                let mut all: Vec<_> = matcher.on(body).all().collect();
                if from_back {
                    all.reverse();
                }
                let mut taken: BTreeSet<usize> = BTreeSet::new();
                all.retain(|found| {
                    let inner: Vec<_> = found.inner().into_iter().filter_map(Value::index).collect();
                    let free = inner.iter().all(|at| !taken.contains(at));
                    taken.extend(inner.iter().filter(|_| free));
                    free
                });
                let expected: Vec<_> = all.iter().map(Match::root).collect();
                prop_assert_eq!(matcher.on(body).disjoint().map(|found| found.root()).collect::<Vec<_>>(), expected);
            }
            let same = Matcher::new(&pattern).rewrite(body, |_, _| Ok(Action::Keep)).expect("nothing is changed");
            prop_assert!(same.same(body));
        }
    }
}
