//! Searches functions for a pattern, and rewrites the matches.

use super::explain::Explanation;
use super::facts::Facts;
use super::machine::Machine;
use super::matched::Match;
use super::node::Pattern;
use super::program::Program;
use crate::PassError;
use crate::ir::make::validate::is_expression;
use crate::ir::records::kind;
use crate::ir::{Body, Module, Value};
use crate::rewrite::mutators::{Action, Rewriter};
use crate::rewrite::remove_unused::remove_all_unused;
use crate::walk::value_map::{ValueMap, ValueSet};
use std::sync::Arc;

/// The reports about patterns requested by the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// No reports.
    Nothing,
    /// Every partial match that failed.
    Missed,
    /// The result of each pattern for the named variable.
    At(String),
}

/// Receives reports from matchers about their patterns. `Ctx` implements this trait for `Ctx::matcher`.
pub trait Reporter {
    /// Returns the reports requested for a function; the name is empty for the function that the pass transforms.
    fn wanted(&self, function: &str) -> Wanted;

    /// Reports an attempt to match a pattern at a value for which reports were requested.
    fn tried(&self, function: &str, at: Value<'_>, pattern: &Pattern, explanation: &Explanation<'_>);
}

/// A pattern compiled for search. A match must be computable at its root, so a call between its parts that writes to an argument
/// ([`InPlace`](crate::walk::in_place::InPlace)) prevents the match. Passes obtain a matcher from `Ctx::matcher`, which also reports failed
/// matches on request.
///
/// ```
/// use plugin_api::prelude::*;
///
/// /// Replaces `relu(x) + relu(x)` by `2 * relu(x)`, say.
/// fn double(body: &Body, ctx: &Ctx) -> Result<Body, PassError> {
///     let twice = is_op("relax.add", [wildcard().bind("x"), wildcard().bind("x")]);
///     ctx.matcher(&twice).rewrite(body, |found, rw| {
///         let x = rw.v(found.get("x")?);
///         Ok(Action::Replace(rw.call("acme.double", &[x], &[], &found.root().ty().to_owned())))
///     })
/// }
/// # let (body, _) = plugin_api::pattern::example();
/// let doubled = double(&body, &Ctx::detached())?;
/// let ops: Vec<_> = doubled.bindings().filter_map(|value| value.as_call()?.op()).collect();
/// assert_eq!(ops, ["relax.nn.relu", "acme.double", "relax.add"]);
/// assert!(double(&doubled, &Ctx::detached())?.same(&doubled)); // nothing to do: the same handle
/// # Ok::<(), PassError>(())
/// ```
pub struct Matcher<'p> {
    pattern: Pattern,
    program: Program,
    module: Option<&'p Module>,
    function: &'p str,
    reporter: Option<&'p dyn Reporter>,
    from_back: bool,
}

impl<'p> Matcher<'p> {
    /// Creates a matcher without reports. In a pass, use `Ctx::matcher`.
    pub fn new(pattern: &Pattern) -> Matcher<'p> {
        let program = Program::of(pattern);
        Matcher { pattern: pattern.clone(), program, module: None, function: "", reporter: None, from_back: false }
    }

    /// Sets the receiver of reports about failed matches.
    pub fn reports_to(self, reporter: &'p dyn Reporter) -> Matcher<'p> {
        Matcher { reporter: Some(reporter), ..self }
    }

    /// Iterates over the operators of the pattern.
    #[doc(hidden)]
    pub fn operators(&self) -> impl Iterator<Item = &Arc<str>> {
        self.program.ops.iter()
    }

    /// Sets the module with the called functions, whose attributes [`callee_attr`](Pattern::callee_attr) inspects.
    pub fn in_module(self, module: &'p Module) -> Matcher<'p> {
        Matcher { module: Some(module), ..self }
    }

    /// Sets the name of the function that is searched. Only a module pass needs this, as for `Diagnostics::in_function`.
    pub fn in_function(self, name: &'p str) -> Matcher<'p> {
        Matcher { function: name, ..self }
    }

    /// Prefers the last of several overlapping matches: [`Search::disjoint`] and [`Matcher::rewrite`] begin at the end.
    ///
    /// ```
    /// use plugin_api::prelude::*;
    /// use plugin_api::pattern::{Matcher, is_call};
    ///
    /// let pair = is_op("relax.add", ..).any_arg(is_call(..));
    /// # let (body, [_, twice, sum]) = plugin_api::pattern::example();
    /// let matcher = Matcher::new(&pair);
    /// assert_eq!(matcher.on(&body).disjoint().map(|found| found.root()).collect::<Vec<_>>(), [twice]);
    /// let matcher = matcher.from_the_back();
    /// assert_eq!(matcher.on(&body).disjoint().map(|found| found.root()).collect::<Vec<_>>(), [sum]);
    /// ```
    pub fn from_the_back(self) -> Matcher<'p> {
        Matcher { from_back: true, ..self }
    }

    /// Starts a search in a function.
    pub fn on<'m, 'b>(&'m self, body: &'b Body) -> Search<'m, 'b> {
        let wanted = self.reporter.map_or(Wanted::Nothing, |reporter| reporter.wanted(self.function));
        Search { matcher: self, machine: Machine::new(&self.program, Facts::of(body, self.module)), body, wanted }
    }

    /// Calls `f` with each match, and applies the action that it returns to the root of the match. Matches do not overlap: they share no
    /// [inner](Match::inner) values. All matches are found before the first change, from the front or [from the
    /// back](Matcher::from_the_back), and are passed to `f` in program order, with the rewriter of [`Body::rewrite`]. Finally, values that
    /// became unused are removed ([`remove_all_unused`]). An unchanged body keeps its handle.
    ///
    /// # Errors
    /// The first error of `f`, or an error of [`Body::rewrite`].
    pub fn rewrite<'b>(
        &self,
        body: &'b Body,
        mut f: impl FnMut(&Match<'b>, &mut Rewriter<'b>) -> Result<Action, PassError>,
    ) -> Result<Body, PassError> {
        let mut found: ValueMap<'b, Match<'b>> = ValueMap::new(body);
        for each in self.on(body).disjoint() {
            found.insert(each.root, each);
        }
        let rewritten = body.try_rewrite(|value, rw| match found.get(value) {
            Some(found) => f(found, rw),
            None => Ok(Action::Keep),
        })?;
        if rewritten.same(body) { Ok(rewritten) } else { Ok(remove_all_unused(&rewritten)?) }
    }
}

/// A search for a pattern in one function, which caches the result for each value.
pub struct Search<'m, 'b> {
    matcher: &'m Matcher<'m>,
    machine: Machine<'m, 'b>,
    body: &'b Body,
    wanted: Wanted,
}

impl<'m, 'b> Search<'m, 'b> {
    /// Returns the match with the given root.
    ///
    /// ```
    /// use plugin_api::prelude::*;
    /// use plugin_api::pattern::Matcher;
    ///
    /// # let (body, [relu, twice, _]) = plugin_api::pattern::example();
    /// let pattern = is_op("relax.add", ..);
    /// let matcher = Matcher::new(&pattern);
    /// let mut search = matcher.on(&body);
    /// assert!(search.at(twice).is_some() && search.at(relu).is_none());
    /// ```
    pub fn at(&mut self, value: Value<'b>) -> Option<Match<'b>> {
        self.tries(value).then(|| self.machine.matched(value.word()))
    }

    /// Returns true if the pattern matches at a value; reports the result if requested.
    fn tries(&mut self, value: Value<'b>) -> bool {
        let may_start = self.machine.may_start(self.machine.facts.origin_of(value));
        let matches = may_start && self.machine.run(value.word()) && self.held(value).is_none();
        let wanted = match &self.wanted {
            Wanted::Nothing => false,
            Wanted::Missed => !matches && may_start,
            Wanted::At(name) => value.name() == Some(name),
        };
        if wanted {
            self.report(value);
            // The explanation comes from a separate search.
            return matches && self.machine.run(value.word());
        }
        matches
    }

    /// Returns a part of the match that cannot be computed at the root, because a call in between writes to a value that the part reads.
    fn held(&self, root: Value<'b>) -> Option<Value<'b>> {
        let (in_place, body) = (self.machine.facts.in_place(), self.body);
        let mut held = None;
        if !in_place.is_empty() {
            self.machine.all_inner(|at| {
                held = Some(body.value_at(at as usize)).filter(|part| !in_place.may_move(*part, root));
                held.is_none()
            });
        }
        held
    }

    fn report(&mut self, value: Value<'b>) {
        let explanation = self.explain(value);
        let began = self.wanted != Wanted::Missed || !explanation.matched().is_empty();
        if let Some(reporter) = self.matcher.reporter.filter(|_| began) {
            reporter.tried(self.matcher.function, value, &self.matcher.pattern, &explanation);
        }
    }

    /// Explains why the pattern does not match at a root: the longest partial match, and the reason why it failed.
    pub fn explain(&mut self, value: Value<'b>) -> Explanation<'b> {
        let (matches, trace) = self.machine.run_traced(value.word());
        let explanation = trace.explanation(&self.matcher.program, &self.machine.facts, matches);
        // The traced search keeps no results, so the parts come from a second search.
        let held = if matches && self.machine.run(value.word()) { self.held(value) } else { None };
        match held {
            Some(part) => explanation.but_held(value, part),
            None => explanation,
        }
    }

    /// Returns true if the search of a whole function finds a match at a value. Aliases of a value do not count as separate values.
    fn finds(&mut self, value: Value<'b>) -> bool {
        let is_asked = matches!(&self.wanted, Wanted::At(name) if value.name() == Some(name));
        let is_other_name = value.kind() == kind::ALIAS;
        let may_start = !is_other_name && value.node().is_some_and(is_expression) && self.machine.may_start(value);
        (may_start || is_asked) && self.tries(value) && !is_other_name
    }

    /// Returns the positions of all nodes, in order; empty if no value can match and no reports are requested.
    fn places(&self) -> std::ops::Range<usize> {
        let none = self.machine.is_hopeless() && !matches!(self.wanted, Wanted::At(_));
        if none { 0..0 } else { 0..self.body.len() }
    }

    /// Iterates over all matches, including overlapping ones, in program order of their roots: each call, tuple and other expression is tried once as
    /// the root. For a fixed pattern, the time is linear in the size of the function.
    ///
    /// ```
    /// use plugin_api::prelude::*;
    /// use plugin_api::pattern::Matcher;
    ///
    /// # let (body, [_, twice, sum]) = plugin_api::pattern::example();
    /// let adds = is_op("relax.add", ..);
    /// assert_eq!(Matcher::new(&adds).on(&body).all().map(|found| found.root()).collect::<Vec<_>>(), [twice, sum]);
    /// ```
    pub fn all(mut self) -> impl Iterator<Item = Match<'b>> + use<'m, 'b> {
        self.places().filter_map(move |at| {
            let value = self.body.value_at(at);
            self.finds(value).then(|| self.machine.matched(value.word()))
        })
    }

    /// Iterates over matches that do not overlap. Of several matches that share an [inner](Match::inner) value, only the first is returned
    /// (or, [from the back](Matcher::from_the_back), the last). Matches are returned in the order in which they are found.
    pub fn disjoint(mut self) -> impl Iterator<Item = Match<'b>> + use<'m, 'b> {
        let (places, from_back) = (self.places(), self.matcher.from_back);
        let mut taken = ValueSet::new(self.body);
        places.clone().filter_map(move |i| {
            let value = self.body.value_at(if from_back { places.end - 1 - i } else { i });
            if !self.finds(value) {
                return None;
            }
            let body = self.body;
            if !self.machine.all_inner(|at| !taken.contains(body.value_at(at as usize))) {
                return None;
            }
            let found = self.machine.matched(value.word());
            taken.extend(found.inner());
            Some(found)
        })
    }

    /// Returns the number of search steps, each of constant cost; for tests.
    pub fn steps(&self) -> u64 {
        self.machine.steps
    }
}
