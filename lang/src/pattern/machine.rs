//! The search engine: remaining goals, and choices for backtracking. It is not recursive, so patterns may be deep.
//!
//! If each capture of a pattern occurs in only one place, the result of matching a value does not depend on the context. Its first match is
//! then as good as any other, so its choices are dropped after the match, and the result is cached if it may be needed again. The cost of
//! each pair of pattern and value is thus constant, and the cost of a body is linear. Choices stay open only for shared captures; their
//! number is limited per root.

use super::explain::{Fault, Trace};
use super::facts::{Facts, callee, operators};
use super::matched::{DIM, Match, is_node};
use super::node::{Callee, Check, Form, Part, Test};
use super::program::{Head, Program, Row};
use crate::ir::records::{LEAF_BIT, NONE, kind};
use crate::ir::{AttrView, Value};
use hashbrown::{HashMap, HashSet};

/// Maximum number of retries in a search at one root: returns to choices, and iterations of chains, that must stay open.
pub(super) const MOST_RETRIES: usize = 10_000;

/// The way in which a value was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Root,
    /// Argument of a call.
    Arg(u32, usize),
    Element(u32, usize),
    /// The tuple that contains the value as an element.
    TupleOf(u32),
    UserOf(u32),
}

/// A remaining goal.
#[derive(Clone, Copy)]
enum Goal {
    Enter {
        row: usize,
        word: u32,
        role: Role,
    },
    Part {
        row: usize,
        part: usize,
        word: u32,
        role: Role,
    },
    /// All parts of a row matched; `choices` and `trail` are the lengths before the row.
    End {
        row: usize,
        word: u32,
        role: Role,
        choices: usize,
        trail: usize,
    },
    /// A negated pattern matched.
    Refuse {
        row: usize,
        word: u32,
        role: Role,
        choices: usize,
        muted: bool,
    },
}

/// A part of the match found so far.
#[derive(Clone, Copy)]
enum Item {
    /// A slot and its content; true if the slot was empty before.
    Filled(usize, u32, bool),
    Inner(u32),
    /// The items found by an earlier search.
    Known(usize),
}

/// The cached result of a row at a value.
#[derive(Clone, Copy)]
enum Known {
    Searching,
    Failed,
    /// The row matches, with the given items.
    Matched(usize),
}

#[derive(Clone, Copy)]
enum Other {
    /// The alternatives of a row, starting with the given one.
    Or(usize, Role),
    /// The neighbours of a value, starting with the given one.
    Each(usize),
    /// No alternative: the row does not match the value.
    Memo,
    /// The negated pattern did not match.
    Not,
}

/// A point for backtracking.
struct Choice {
    other: Other,
    row: usize,
    /// For `Each`, the part of the row.
    part: usize,
    word: u32,
    rest: u32,
    goals: usize,
    trail: usize,
    matched: usize,
    muted: bool,
}

pub(super) struct Machine<'m, 'b> {
    program: &'m Program,
    pub(super) facts: Facts<'m, 'b>,
    /// For each leaf of the body, the operator of the program; [`NONE`] for other leaves.
    ops: Vec<u32>,
    known: HashMap<(usize, u32), Known, foldhash::fast::RandomState>,
    found: Vec<Vec<Item>>,
    goals: Vec<(Goal, u32)>,
    choices: Vec<Choice>,
    trail: Vec<Item>,
    /// The contents of shared slots.
    slots: Vec<u32>,
    retries: usize,
    pub(super) steps: u64,
    trace: Option<Trace>,
}

impl<'m, 'b> Machine<'m, 'b> {
    pub(super) fn new(program: &'m Program, facts: Facts<'m, 'b>) -> Machine<'m, 'b> {
        let ops = operators(facts.body, program);
        let slots = vec![NONE; program.slots.len()];
        let (known, found, goals, choices, trail) = Default::default();
        Machine { program, facts, ops, known, found, goals, choices, trail, slots, retries: 0, steps: 0, trace: None }
    }

    /// Returns true if the root of the pattern can match a value, judging by its operator alone.
    pub(super) fn may_start(&self, value: Value<'_>) -> bool {
        let Some(ops) = &self.program.root_ops else { return true };
        self.operator(value).is_some_and(|called| ops.contains(&called))
    }

    /// Returns true if no value of the body can match.
    pub(super) fn is_hopeless(&self) -> bool {
        let wanted = |leaf: &u32, ops: &[usize]| ops.contains(&(*leaf as usize));
        self.program.root_ops.as_ref().is_some_and(|ops| !self.ops.iter().any(|leaf| wanted(leaf, ops)))
    }

    /// Returns the operator that a value calls, as an index into the operators of the program.
    fn operator(&self, value: Value<'_>) -> Option<usize> {
        let leaf = value.as_call()?.callee().word() & !LEAF_BIT;
        let op = self.ops.get(leaf as usize).filter(|op| **op != NONE && value.operand(0).is_some_and(Value::is_leaf));
        op.map(|op| *op as usize)
    }

    /// Tries the pattern at a value.
    pub(super) fn run(&mut self, word: u32) -> bool {
        self.goals.clear();
        self.choices.clear();
        self.trail.clear();
        self.slots.fill(NONE);
        self.retries = 0;
        let mut next = self.goal(Goal::Enter { row: 0, word: self.facts.origin(word), role: Role::Root }, NONE);
        while next != NONE {
            let (goal, rest) = self.goals[next as usize];
            let Some(goal) = self.step(goal, rest).or_else(|| self.retry()) else { return false };
            next = goal;
        }
        true
    }

    fn goal(&mut self, goal: Goal, rest: u32) -> u32 {
        self.goals.push((goal, rest));
        self.goals.len() as u32 - 1
    }

    fn step(&mut self, goal: Goal, rest: u32) -> Option<u32> {
        self.steps += 1;
        match goal {
            Goal::Enter { row, word, role } => self.enter(row, word, role, rest),
            Goal::Part { row, part, word, role } => self.part(row, part, (word, role), rest),
            Goal::End { row, word, role, choices, trail } => self.end(row, word, role, (choices, trail), rest),
            Goal::Refuse { row, word, role, choices, muted } => {
                self.choices.truncate(choices);
                if let Some(trace) = &mut self.trace {
                    trace.muted = muted;
                }
                self.fail(row, word, role, &Fault::Refused)
            }
        }
    }

    /// Starts matching a row at a value.
    fn enter(&mut self, at: usize, word: u32, role: Role, rest: u32) -> Option<u32> {
        let program = self.program;
        let row = &program.rows[at];
        if let Err(fault) = self.suits(row, word) {
            return self.fail(at, word, role, &fault);
        }
        let remembers = row.memo;
        if remembers && let Some(known) = self.known.get(&(at, word)) {
            let Known::Matched(found) = *known else { return None };
            self.trail.push(Item::Known(found));
            return Some(rest);
        }
        if row.is_chain() && !remembers && !self.may_retry() {
            return self.fail(at, word, role, &Fault::TooManyWays);
        }
        let (choices, trail) = (self.choices.len(), self.trail.len());
        let mut next = rest;
        if row.has_end() {
            next = self.goal(Goal::End { row: at, word, role, choices, trail }, rest);
        }
        if remembers {
            self.known.insert((at, word), Known::Searching);
            self.choose(Other::Memo, at, 0, word, next);
        }
        if let Err(fault) = self.fill(row, word) {
            return self.fail(at, word, role, &fault);
        }
        if row.is_inner() && is_node(word) {
            self.trail.push(Item::Inner(word));
        }
        if let Some(trace) = &mut self.trace {
            trace.matched.push((at, word));
        }
        for part in (0..row.parts.len()).rev() {
            next = self.goal(Goal::Part { row: at, part, word, role }, next);
        }
        self.open(at, word, role, next)
    }

    /// Pushes goals for the parts of a row.
    fn open(&mut self, at: usize, word: u32, role: Role, mut next: u32) -> Option<u32> {
        let program = self.program;
        let row = &program.rows[at];
        match &row.head {
            Head::Call(_, Some(args)) => {
                for (i, arg) in args.iter().enumerate().rev() {
                    let value = self.facts.arg(self.facts.value(word), i, row.is_prim_call())?;
                    next = self.goal(Goal::Enter { row: *arg, word: value, role: Role::Arg(word, i) }, next);
                }
            }
            Head::Tuple(Some(elements)) => {
                for (i, element) in elements.iter().enumerate().rev() {
                    let value = self.facts.origin(self.facts.value(word).operand(i)?.word());
                    next = self.goal(Goal::Enter { row: *element, word: value, role: Role::Element(word, i) }, next);
                }
            }
            Head::TupleGet(tuple) => {
                let value = self.facts.origin(self.facts.value(word).operand(0)?.word());
                next = self.goal(Goal::Enter { row: *tuple, word: value, role: Role::TupleOf(word) }, next);
            }
            Head::And(all) => {
                for one in all.iter().rev() {
                    next = self.goal(Goal::Enter { row: *one, word, role }, next);
                }
            }
            Head::Again(chain) => next = self.goal(Goal::Enter { row: *chain, word, role }, next),
            Head::Or(all) => {
                if all.len() > 1 {
                    self.choose(Other::Or(1, role), at, 0, word, next);
                }
                next = self.goal(Goal::Enter { row: *all.first()?, word, role }, next);
            }
            Head::Not(one) => {
                let (choices, muted) = (self.choices.len(), self.trace.as_ref().is_some_and(|trace| trace.muted));
                self.choose(Other::Not, at, 0, word, next);
                if let Some(trace) = &mut self.trace {
                    trace.muted = true;
                }
                let refuse = self.goal(Goal::Refuse { row: at, word, role, choices, muted }, next);
                next = self.goal(Goal::Enter { row: *one, word, role }, refuse);
            }
            Head::Any | Head::Const | Head::Param | Head::Nothing | Head::Call(_, None) | Head::Tuple(None) => {}
        }
        Some(next)
    }

    /// Starts matching a neighbour of a matched value.
    fn part(&mut self, at: usize, part: usize, (word, role): (u32, Role), rest: u32) -> Option<u32> {
        let (which, row) = self.program.rows[at].parts[part];
        match which {
            Part::Arg(i) => {
                let (i, prim) = (i as usize, self.program.rows[at].is_prim_call());
                let Some(value) = self.facts.arg(self.facts.value(word), i, prim) else {
                    return self.fail(at, word, role, &Fault::NoArg(i));
                };
                Some(self.goal(Goal::Enter { row, word: value, role: Role::Arg(word, i) }, rest))
            }
            Part::OnlyUser => match self.facts.users(word) {
                [first, others @ ..]
                    if others.iter().all(|other| other == first) && self.facts.value(*first).kind() != kind::YIELD =>
                {
                    let user = *first;
                    Some(self.goal(Goal::Enter { row, word: user, role: Role::UserOf(word) }, rest))
                }
                _ => self.fail(at, word, role, &Fault::OnlyUser),
            },
            Part::AnyArg | Part::User => match self.neighbour(at, part, word, 0) {
                Some((i, value, role)) => {
                    self.choose(Other::Each(i + 1), at, part, word, rest);
                    Some(self.goal(Goal::Enter { row, word: value, role }, rest))
                }
                None => self.fail(at, word, role, &Fault::NoNeighbour(which)),
            },
        }
    }

    /// Returns the first argument or user from number `from` on.
    fn neighbour(&self, at: usize, part: usize, word: u32, from: usize) -> Option<(usize, u32, Role)> {
        let row = &self.program.rows[at];
        if row.parts[part].0 == Part::AnyArg {
            let value = self.facts.arg(self.facts.value(word), from, row.is_prim_call())?;
            return Some((from, value, Role::Arg(word, from)));
        }
        let users = self.facts.users(word).iter().enumerate().skip(from);
        let mut users = users.filter(|(_, user)| self.facts.value(**user).kind() != kind::YIELD);
        users.next().map(|(i, user)| (i, *user, Role::UserOf(word)))
    }

    /// Finishes a row whose parts all matched: runs its checks, and drops the choices in it.
    fn end(&mut self, at: usize, word: u32, role: Role, from: (usize, usize), rest: u32) -> Option<u32> {
        let program = self.program;
        let (row, (choices, trail)) = (&program.rows[at], from);
        let remembers = row.memo;
        // The choice that caches a failure is kept as long as a failure is possible.
        self.choices.truncate(choices + usize::from(remembers));
        for check in row.checks() {
            let found = self.collect(&self.trail[trail..], word);
            let agreed = match check {
                Check::OneBlock => self.facts.in_one_block(&found.inner).then_some(()).ok_or(Fault::OtherBlock),
                Check::Closure(check) => check(&found).map_err(|why| Fault::Check(why.to_string())),
            };
            if let Err(fault) = agreed {
                return self.fail(at, word, role, &fault);
            }
        }
        if remembers {
            self.choices.truncate(choices);
            self.found.push(self.trail.drain(trail..).collect());
            let found = self.found.len() - 1;
            self.known.insert((at, word), Known::Matched(found));
            self.trail.push(Item::Known(found));
        }
        Some(rest)
    }

    fn choose(&mut self, other: Other, row: usize, part: usize, word: u32, rest: u32) {
        let (goals, trail) = (self.goals.len(), self.trail.len());
        let matched = self.trace.as_ref().map_or(0, |trace| trace.matched.len());
        let muted = self.trace.as_ref().is_some_and(|trace| trace.muted);
        self.choices.push(Choice { other, row, part, word, rest, goals, trail, matched, muted });
    }

    /// Counts one more attempt; returns false beyond the limit.
    fn may_retry(&mut self) -> bool {
        self.retries += 1;
        self.retries <= MOST_RETRIES
    }

    /// Backtracks to the last choice that has another alternative.
    fn retry(&mut self) -> Option<u32> {
        while let Some(choice) = self.choices.pop() {
            self.undo(&choice);
            self.steps += 1;
            let Choice { row, part, word, rest, .. } = choice;
            match choice.other {
                Other::Memo => drop(self.known.insert((row, word), Known::Failed)),
                Other::Not => return Some(rest),
                Other::Or(next, role) => {
                    let Head::Or(all) = &self.program.rows[row].head else { continue };
                    if self.is_too_much(row, word, role) {
                        continue;
                    }
                    if next + 1 < all.len() {
                        self.choose(Other::Or(next + 1, role), row, 0, word, rest);
                    }
                    return Some(self.goal(Goal::Enter { row: all[next], word, role }, rest));
                }
                Other::Each(from) => {
                    let Some((i, value, role)) = self.neighbour(row, part, word, from) else { continue };
                    if self.is_too_much(row, word, role) {
                        continue;
                    }
                    self.choose(Other::Each(i + 1), row, part, word, rest);
                    let row = self.program.rows[row].parts[part].1;
                    return Some(self.goal(Goal::Enter { row, word: value, role }, rest));
                }
            }
        }
        None
    }

    /// Returns true if a choice that stays open was retried too many times.
    fn is_too_much(&mut self, row: usize, word: u32, role: Role) -> bool {
        if !self.program.rows[row].open || self.may_retry() {
            return false;
        }
        self.fail(row, word, role, &Fault::TooManyWays);
        true
    }

    fn undo(&mut self, choice: &Choice) {
        self.goals.truncate(choice.goals);
        for item in self.trail.drain(choice.trail..) {
            if let Item::Filled(slot, _, true) = item {
                self.slots[slot] = NONE;
            }
        }
        if let Some(trace) = &mut self.trace {
            trace.matched.truncate(choice.matched);
            trace.muted = choice.muted;
        }
    }

    /// Fails a row, and records the reason if requested.
    fn fail(&mut self, row: usize, word: u32, role: Role, fault: &Fault) -> Option<u32> {
        if let Some(mut trace) = self.trace.take() {
            trace.failed(self.program, &self.facts, (row, word, role), &self.slots, fault);
            self.trace = Some(trace);
        }
        None
    }

    /// Fills in the captures of a row and the names of its dimensions.
    fn fill(&mut self, row: &Row, word: u32) -> Result<(), Fault> {
        for slot in &row.captures {
            if self.program.shared[*slot] && self.slots[*slot] != NONE && self.slots[*slot] != word {
                return Err(Fault::Other(*slot));
            }
            self.put(*slot, word);
        }
        if row.dims.is_empty() {
            return Ok(());
        }
        let value = self.facts.value(word);
        let ids = shape_ids(value);
        for (slot, i) in &row.dims {
            let Some(id) = ids.get(*i).copied() else { return Err(Fault::Other(*slot)) };
            let (known, dim) = (self.slots[*slot], |id: u32| crate::ir::types::dim_at(value.raw, id));
            if known != NONE && known != id && dim(known) != dim(id) {
                return Err(Fault::Other(*slot));
            }
            self.put(*slot, id);
        }
        Ok(())
    }

    fn put(&mut self, slot: usize, word: u32) {
        let first = self.program.shared[slot] && self.slots[slot] == NONE;
        if first {
            self.slots[slot] = word;
        }
        self.trail.push(Item::Filled(slot, word, first));
    }

    /// Checks the conditions of a row that concern the value alone.
    fn suits(&self, row: &Row, word: u32) -> Result<(), Fault> {
        let (value, node) = (self.facts.value(word), row.node());
        let fits = match (&row.head, &node.form) {
            (Head::Call(Some(op), _), _) if self.operator(value) != Some(*op) => false,
            (Head::Call(_, args), Form::Call(callee, _)) => self.is_call(value, callee, args.as_ref().map(Vec::len)),
            (Head::Const, _) => value.as_constant().is_some(),
            (Head::Param, _) => value.kind() == kind::PARAM,
            (Head::Tuple(elements), _) => {
                let n = elements.as_ref().map(Vec::len);
                value.kind() == kind::TUPLE && n.is_none_or(|n| n == value.n_operands())
            }
            (Head::TupleGet(_), Form::TupleGet(_, index)) => {
                value.as_tuple_get().is_some_and(|(_, i)| index.is_none_or(|index| index == i))
            }
            (Head::Nothing, _) => false,
            _ => true,
        };
        if !fits {
            return Err(Fault::Form);
        }
        node.tests.iter().position(|test| !self.holds(test, value, word)).map_or(Ok(()), |i| Err(Fault::Test(i)))
    }

    fn is_call(&self, value: Value<'b>, wanted: &Callee, n: Option<usize>) -> bool {
        let Some(call) = value.as_call() else { return false };
        let prim = matches!(wanted, Callee::Prim(_));
        let named = match wanted {
            Callee::Any | Callee::Op(_) => true,
            Callee::Global(name) => call.global().is_some_and(|found| name.as_ref().is_none_or(|name| name == found)),
            Callee::Prim(name) => callee(call).is_some_and(|found| name.as_ref().is_none_or(|name| name == found)),
        };
        named && n.is_none_or(|n| self.facts.n_args(value, prim) == Some(n))
    }

    fn holds(&self, test: &Test, value: Value<'b>, word: u32) -> bool {
        match test {
            Test::Kind(kind) => super::explain::is_kind(*kind, value),
            Test::Attr(key, wanted) => value.attr(key).is_some_and(|attr| attr.to_owned() == *wanted),
            Test::AttrIf(key, _, condition) => value.attr(key).is_some_and(|attr: AttrView<'_>| condition(attr)),
            Test::CalleeAttr(key, wanted) => {
                let function = value.as_call().and_then(callee).and_then(|name| self.facts.module?.get(name));
                function.and_then(|body| body.root().attr(key)).is_some_and(|attr| attr.to_owned() == *wanted)
            }
            Test::Type(ty) => value.ty().to_owned() == *ty,
            Test::DType(dtype) => value.ty().dtype() == *dtype,
            Test::Rank(rank) => usize::try_from(value.ty().ndim()) == Ok(*rank),
            Test::Shape(wanted) => value.ty().dims().is_some_and(|dims| {
                dims.len() == wanted.len() && dims.zip(wanted).all(|(dim, wanted)| wanted.fits(&dim))
            }),
            Test::Scalar(wanted) => super::explain::scalar(value) == Some(*wanted),
            Test::UsedOnce => match self.facts.users(word) {
                [user] => self.facts.value(*user).kind() != kind::YIELD,
                _ => false,
            },
            Test::Pure => !value.has_effect(),
            Test::When(_, condition) => condition(value),
        }
    }

    /// Tries the pattern at a value and records a trace, without using or changing cached results.
    pub(super) fn run_traced(&mut self, word: u32) -> (bool, Trace) {
        let (known, found) = (std::mem::take(&mut self.known), std::mem::take(&mut self.found));
        self.trace = Some(Trace::default());
        let matches = self.run(word);
        self.fail_as_a_whole(word, matches);
        (self.known, self.found) = (known, found);
        (matches, self.trace.take().unwrap_or_default())
    }

    /// Records a failure of the whole pattern if no failure was recorded. This happens if the failure was in a negated part, as in `!a &
    /// a`.
    fn fail_as_a_whole(&mut self, word: u32, matches: bool) {
        let silent = self.trace.as_mut().filter(|trace| !matches && trace.is_silent());
        if let Some(trace) = silent {
            trace.muted = false;
            self.fail(0, self.facts.origin(word), Role::Root, &Fault::Form);
        }
    }

    /// Returns the match at a value, after a successful search.
    pub(super) fn matched(&self, word: u32) -> Match<'b> {
        self.collect(&self.trail, self.facts.origin(word))
    }

    /// Returns true if `f` returns true for the positions of all inner values; stops at the first false.
    pub(super) fn all_inner(&self, mut f: impl FnMut(u32) -> bool) -> bool {
        self.each_item(&self.trail, |item| match item {
            Item::Inner(at) => f(*at),
            _ => true,
        })
    }

    /// Calls `f` once with each item, including the items of cached results. Stops and returns false as soon as `f`
    /// returns false; otherwise returns true.
    fn each_item(&self, items: &[Item], mut f: impl FnMut(&Item) -> bool) -> bool {
        let mut seen: HashSet<usize, foldhash::fast::RandomState> = HashSet::default();
        let mut work = vec![items.iter()];
        while let Some(items) = work.last_mut() {
            match items.next() {
                // Parts of a pattern can share cached results.
                Some(Item::Known(found)) if seen.insert(*found) => work.push(self.found[*found].iter()),
                Some(Item::Known(_)) => {}
                Some(item) if !f(item) => return false,
                Some(_) => {}
                None => drop(work.pop()),
            }
        }
        true
    }

    fn collect(&self, items: &[Item], word: u32) -> Match<'b> {
        let mut captured: Vec<(String, u32)> = self.program.slots.iter().map(|slot| (slot.clone(), NONE)).collect();
        let mut inner = Vec::new();
        self.each_item(items, |item| {
            match item {
                Item::Filled(slot, word, _) => captured[*slot].1 = *word,
                Item::Inner(at) => inner.push(*at),
                Item::Known(_) => {}
            }
            true
        });
        inner.sort_unstable();
        inner.dedup();
        Match { body: self.facts.body, root: self.facts.value(word), captured, inner }
    }
}

/// Returns the ids of the dimensions of a tensor or shape in the table of its body.
fn shape_ids(value: Value<'_>) -> &[u32] {
    let rec = value.ty().rec().filter(|_| value.ty().dims().is_some());
    rec.map_or(&[], |rec| value.raw.list(rec.off, rec.len))
}

/// Returns the name of a slot for messages.
pub(super) fn slot_name(name: &str) -> &str {
    name.trim_start_matches(DIM)
}
