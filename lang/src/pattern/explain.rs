//! Explains why a pattern does not match.

use super::capture::CaptureKind;
use super::facts::{Facts, callee};
use super::machine::{MOST_RETRIES, Role, slot_name};
use super::node::{Args, Callee, Form, Node, Part, Pattern, Test};
use super::program::Program;
use crate::ir::records::{NONE, kind};
use crate::ir::{Attr, Dim, Expr, Sym, Value};
use crate::names::counted;
use std::fmt;

/// The reason why a value does not match.
pub(super) enum Fault {
    /// The value has a different form.
    Form,
    /// A test does not hold.
    Test(usize),
    /// The capture or dimension already has a different value.
    Other(usize),
    NoArg(usize),
    OnlyUser,
    /// The value lacks an argument, or a user.
    NoNeighbour(Part),
    /// A negated pattern matched.
    Refused,
    OtherBlock,
    Check(String),
    TooManyWays,
}

/// The progress of a search, recorded for the best explanation.
#[derive(Default)]
pub(super) struct Trace {
    /// Matched rows with their values.
    pub(super) matched: Vec<(usize, u32)>,
    /// True inside a negated pattern, where failure is the desired result.
    pub(super) muted: bool,
    best: Option<Failure>,
}

struct Failure {
    rank: usize,
    matched: Vec<(usize, u32)>,
    word: u32,
    role: Role,
    found: String,
    expected: Vec<String>,
}

/// The longest partial match, and the reason why it failed; returned by [`Search::explain`](super::Search::explain).
///
/// Format it with `{explanation}`.
///
/// ```
/// use plugin_api::prelude::*;
/// use plugin_api::pattern::Matcher;
///
/// let fused = is_op("relax.add", [is_op("relax.nn.relu", ..).used_once(), wildcard()]);
/// # let (body, [relu, twice, _]) = plugin_api::pattern::example();
/// // relu = R.nn.relu(x)
/// // twice = R.add(relu, relu)
/// // sum = R.add(relu, twice)
/// let why = Matcher::new(&fused).on(&body).explain(twice);
/// assert_eq!(why.failed_at(), Some(relu));
/// assert_eq!(
///     why.to_string(),
///     "argument 0 of relax.add: found a value with 3 users (`twice`, `twice`, `sum`), expected only one"
/// );
/// ```
pub struct Explanation<'b> {
    /// The values that matched, with their descriptions in messages.
    matched: Vec<(Value<'b>, String)>,
    failure: Option<(Value<'b>, String)>,
}

impl<'b> Explanation<'b> {
    /// Returns true if the pattern matches after all.
    pub fn is_match(&self) -> bool {
        self.failure.is_none()
    }

    /// Returns the value at which the pattern failed; `None` if it matches.
    pub fn failed_at(&self) -> Option<Value<'b>> {
        self.failure.as_ref().map(|(value, _)| *value)
    }

    /// Returns the values that matched, each with a description: its name in the pattern, or its form.
    pub fn matched(&self) -> &[(Value<'b>, String)] {
        &self.matched
    }

    /// Adds that a part of the match cannot be computed at the root.
    pub(super) fn but_held(self, root: Value<'b>, part: Value<'b>) -> Explanation<'b> {
        let (at, root) = (name_of(part), name_of(root));
        let why =
            format!("found {at}, which cannot be computed at {root}: a call between them may write to its operands");
        Explanation { failure: Some((part, why)), ..self }
    }
}

impl fmt::Display for Explanation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.failure.as_ref().map_or("matches", |(_, why)| why))
    }
}

impl Trace {
    /// Returns true if no failure was recorded.
    pub(super) fn is_silent(&self) -> bool {
        self.best.is_none()
    }

    /// Records a failure if it outranks the recorded failure.
    pub(super) fn failed(
        &mut self,
        program: &Program,
        facts: &Facts<'_, '_>,
        (row, word, role): (usize, u32, Role),
        slots: &[u32],
        fault: &Fault,
    ) {
        if self.muted {
            return;
        }
        // A value of the right kind ranks higher than a value of a different kind.
        let matters = |(row, _): &&(usize, u32)| !matches!(program.rows[*row].node().form, Form::Any | Form::Or(_));
        let node = program.rows[row].node();
        let of_a_kind =
            matches!(node.form, Form::Call(..) | Form::Const | Form::Param | Form::Tuple(_) | Form::TupleGet(..));
        let near = of_a_kind && !matches!(fault, Fault::Form) || matches!(fault, Fault::TooManyWays);
        let rank = 2 * self.matched.iter().filter(matters).count() + usize::from(near);
        let words = Words { facts, value: facts.value(word), word };
        let (found, expected) = words.of(node, fault, |slot| (program.slots[slot].as_str(), slots[slot]));
        if let Some(best) = self.best.as_mut().filter(|best| best.rank >= rank) {
            // Alternatives that fail at the same value are reported together.
            let same = best.rank == rank && best.word == word && best.role == role && best.found == found;
            if same && !best.expected.contains(&expected) {
                best.expected.push(expected);
            }
            return;
        }
        let (matched, expected) = (self.matched.clone(), vec![expected]);
        self.best = Some(Failure { rank, matched, word, role, found, expected });
    }

    /// Returns the final explanation; `matches` is true if the search succeeded.
    pub(super) fn explanation<'b>(self, program: &Program, facts: &Facts<'_, 'b>, matches: bool) -> Explanation<'b> {
        let (matched, failure) = match self.best.filter(|_| !matches) {
            None => (self.matched, None),
            Some(best) => {
                let expected = one_of(&best.expected);
                let words = format!("{}found {}, expected {expected}", place(facts, best.role), best.found);
                (best.matched, Some((facts.value(best.word), words)))
            }
        };
        let named = matched.iter().filter_map(|(row, word)| {
            let row = &program.rows[*row];
            let node = row.node();
            let text = match node.captures.first() {
                Some(name) => format!("matched as `{name}`"),
                None if row.is_inner() => "matched".to_string(),
                None => return None,
            };
            Some((facts.value(*word), text))
        });
        let mut labels: Vec<(Value<'b>, String)> = Vec::new();
        for (value, text) in named {
            match labels.iter_mut().find(|(known, _)| *known == value) {
                Some((_, known)) if known == "matched" => *known = text,
                Some(_) => {}
                None => labels.push((value, text)),
            }
        }
        Explanation { matched: labels, failure }
    }
}

/// Returns alternatives in words: `a call of a, b or c`.
fn one_of(expected: &[String]) -> String {
    const CALL: &str = "a call of ";
    let calls: Option<Vec<&str>> = expected.iter().map(|text| text.strip_prefix(CALL)).collect();
    let (start, words) = match calls {
        Some(calls) => (CALL, calls),
        None => ("", expected.iter().map(String::as_str).collect()),
    };
    match words.as_slice() {
        [first @ .., last] if !first.is_empty() => format!("{start}{} or {last}", first.join(", ")),
        words => format!("{start}{}", words.join("")),
    }
}

/// Describes the way in which a value was reached.
fn place(facts: &Facts<'_, '_>, role: Role) -> String {
    let callee = |word: u32| {
        let call = facts.value(word).as_call();
        call.and_then(|call| call.op().or_else(|| callee(call))).unwrap_or("a call").to_string()
    };
    match role {
        Role::Root => String::new(),
        Role::Arg(call, i) => format!("argument {i} of {}: ", callee(call)),
        Role::Element(_, i) => format!("element {i} of the tuple: "),
        Role::TupleOf(_) => "the tuple: ".to_string(),
        Role::UserOf(value) => format!("a user of {}: ", name_of(facts.value(value))),
    }
}

fn name_of(value: Value<'_>) -> String {
    value.name().map_or_else(|| "an unnamed expression".to_string(), |name| format!("`{name}`"))
}

/// Returns true if a value is of the kind that a capture requires.
pub(super) fn is_kind(kind: CaptureKind, value: Value<'_>) -> bool {
    match kind {
        CaptureKind::Value => true,
        CaptureKind::Call => value.as_call().is_some(),
        CaptureKind::Constant => value.as_constant().is_some(),
    }
}

/// Returns the only element of a constant.
pub(super) fn scalar(value: Value<'_>) -> Option<f64> {
    let constant = value.as_constant().filter(|constant| constant.len() == 1)?;
    constant.cast::<f64>().ok()?.next()
}

/// Describes a value.
fn describe(value: Value<'_>) -> String {
    match value.view() {
        Expr::Call(call) => match (call.op(), callee(call)) {
            (Some(op), Some(function)) => format!("a call of {op} with `{function}`"),
            (Some(op), None) => format!("a call of {op}"),
            (None, Some(function)) => format!("a call of the function `{function}`"),
            (None, None) => "a call of a value".to_string(),
        },
        Expr::Param => format!("the parameter {}", name_of(value)),
        Expr::Tuple(tuple) => format!("a tuple of {}", counted(tuple.n_operands(), "element")),
        Expr::TupleGet { index, .. } => format!("element {index} of a tuple"),
        Expr::If { .. } => "an If".to_string(),
        Expr::MatchCast(_) => "a match_cast".to_string(),
        Expr::Const(_) => match scalar(value) {
            Some(scalar) => format!("the constant {scalar}"),
            None => "a constant".to_string(),
        },
        Expr::Shape => "a shape".to_string(),
        Expr::Function(_) => "a function".to_string(),
        _ => "a different kind of value".to_string(),
    }
}

/// A value to be described.
struct Words<'f, 'b> {
    facts: &'f Facts<'f, 'b>,
    value: Value<'b>,
    word: u32,
}

impl<'b> Words<'_, 'b> {
    /// Describes the value found and the value expected.
    fn of<'s>(&self, node: &Node, fault: &Fault, slot: impl Fn(usize) -> (&'s str, u32)) -> (String, String) {
        match fault {
            Fault::Form => self.form(node),
            Fault::Test(i) => node.tests.get(*i).map_or_else(Default::default, |test| self.test(test)),
            Fault::Other(at) => self.other(slot(*at)),
            Fault::NoArg(i) => (describe(self.value), format!("an argument {i}")),
            Fault::NoNeighbour(Part::AnyArg) => (describe(self.value), "an argument".to_string()),
            Fault::NoNeighbour(_) | Fault::OnlyUser => {
                let one = matches!(fault, Fault::OnlyUser);
                (self.users(), if one { "only one" } else { "a user" }.to_string())
            }
            Fault::Refused => (describe(self.value), "a different value; the pattern excludes this one".to_string()),
            Fault::OtherBlock => ("values in several blocks".to_string(), "values in one block".to_string()),
            Fault::Check(why) => (format!("that {why}"), "a match that the pattern's check accepts".to_string()),
            Fault::TooManyWays => {
                let found = format!("more than {MOST_RETRIES} ways to match");
                (found, "fewer; use a shared capture in fewer alternatives".to_string())
            }
        }
    }

    fn form(&self, node: &Node) -> (String, String) {
        let expected = match &node.form {
            Form::Call(callee, args) => {
                let prim = matches!(callee, Callee::Prim(_));
                let n = self.facts.n_args(self.value, prim);
                if let (Args::Each(all), true, Some(n)) = (args, self.is_called(callee), n) {
                    return (
                        format!("{} with {}", describe(self.value), counted(n, "argument")),
                        all.len().to_string(),
                    );
                }
                called(callee)
            }
            Form::Const => "a constant".to_string(),
            Form::Param => "a parameter".to_string(),
            Form::Tuple(Args::Any) => "a tuple".to_string(),
            Form::Tuple(Args::Each(all)) => format!("a tuple of {}", counted(all.len(), "element")),
            Form::TupleGet(_, Some(i)) => format!("element {i} of a tuple"),
            Form::TupleGet(_, None) => "an element of a tuple".to_string(),
            Form::Hole(_) => "nothing: this part of a chain is used outside it".to_string(),
            _ => "another value".to_string(),
        };
        (describe(self.value), expected)
    }

    fn is_called(&self, wanted: &Callee) -> bool {
        let Some(call) = self.value.as_call() else { return false };
        match wanted {
            Callee::Any => true,
            Callee::Op(op) => call.op() == Some(op),
            Callee::Global(name) => call.global().is_some_and(|it| name.as_ref().is_none_or(|name| name == it)),
            Callee::Prim(name) => {
                call.op() == Some(super::program::CALL_TIR)
                    && name.as_ref().is_none_or(|name| callee(call) == Some(name.as_str()))
            }
        }
    }

    fn test(&self, test: &Test) -> (String, String) {
        let ty = self.value.ty();
        let found_attr = |key: &str| match self.value.attr(key) {
            Some(attr) => format!("{key}={}", attr_text(&attr.to_owned())),
            None => format!("no attribute `{key}`"),
        };
        match test {
            Test::Kind(CaptureKind::Constant) => (describe(self.value), "a constant".to_string()),
            Test::Kind(_) => (describe(self.value), "a call".to_string()),
            Test::Attr(key, wanted) => (found_attr(key), format!("{key}={}", attr_text(wanted))),
            Test::AttrIf(key, expected, _) => (found_attr(key), expected.clone()),
            Test::CalleeAttr(key, wanted) => {
                let known = self.facts.module.is_some();
                let found =
                    if known { describe(self.value) } else { "a call in a matcher without a module".to_string() };
                (found, format!("a function with the attribute {key}={}", attr_text(wanted)))
            }
            Test::Type(wanted) => (format!("type {ty:?}"), format!("{wanted:?}")),
            Test::DType(dtype) => (format!("data type {}", ty.dtype()), dtype.to_string()),
            Test::Rank(rank) => (self.rank(), counted(*rank, "dimension")),
            Test::Shape(dims) => {
                let wanted: Vec<String> = dims.iter().map(ToString::to_string).collect();
                (self.shape(), format!("({})", wanted.join(", ")))
            }
            Test::Scalar(wanted) => (describe(self.value), format!("the constant {wanted}")),
            Test::UsedOnce => (self.users(), "only one".to_string()),
            Test::Pure => (
                format!("{}, which has side effects", describe(self.value)),
                "a value without side effects".to_string(),
            ),
            Test::When(expected, _) => (describe(self.value), expected.clone()),
        }
    }

    fn rank(&self) -> String {
        match usize::try_from(self.value.ty().ndim()) {
            Ok(rank) if self.value.ty().is_known() => counted(rank, "dimension"),
            _ => "a value of unknown rank".to_string(),
        }
    }

    fn shape(&self) -> String {
        let Some(dims) = self.value.ty().dims() else { return "a value of unknown shape".to_string() };
        let dims: Vec<String> = dims.map(|dim| self.dim(&dim)).collect();
        format!("the shape ({})", dims.join(", "))
    }

    fn dim(&self, dim: &Dim) -> String {
        let name = |sym: Sym| self.facts.body.sym_name(sym.id).map(str::to_string);
        match dim {
            Dim::Var(sym) => name(*sym).unwrap_or_else(|| format!("{dim:?}")),
            _ => dim.as_int().map_or_else(|| format!("{dim:?}"), |n| n.to_string()),
        }
    }

    fn other(&self, (slot, known): (&str, u32)) -> (String, String) {
        let name = slot_name(slot);
        if slot == name {
            let known = self.facts.value(known);
            let known = if known.name().is_some() { name_of(known) } else { describe(known) };
            let found = if self.value.name().is_some() { name_of(self.value) } else { describe(self.value) };
            return (found, format!("{known}, which is captured as `{name}`"));
        }
        let known = match known {
            NONE => "a dimension".to_string(),
            id => self.dim(&crate::ir::types::dim_at(self.value.raw, id)),
        };
        (self.shape(), format!("{known} for `{name}`"))
    }

    /// Describes the users of a value.
    fn users(&self) -> String {
        let users = self.facts.users(self.word);
        let is_result = |at: &u32| self.facts.value(*at).kind() == kind::YIELD;
        match users {
            [] if self.value.is_leaf() => format!("{}, whose users are not counted", describe(self.value)),
            [] => "an unused value".to_string(),
            [one] if is_result(one) => "a result".to_string(),
            _ => {
                let names: Vec<String> = users.iter().take(4).map(|at| self.user(*at)).collect();
                let more = if users.len() > 4 { ", …" } else { "" };
                format!("a value with {} ({}{more})", counted(users.len(), "user"), names.join(", "))
            }
        }
    }

    /// Describes a user by the name of the binding that contains it.
    fn user(&self, at: u32) -> String {
        let mut value = self.facts.value(at);
        while let (true, [next, ..]) = (value.is_nested(), self.facts.users(value.word())) {
            value = self.facts.value(*next);
        }
        match value.kind() {
            kind::YIELD => "the result".to_string(),
            _ => name_of(value),
        }
    }
}

/// Returns the value of an attribute in TVMScript, if that is short.
fn attr_text(attr: &Attr) -> String {
    match attr {
        Attr::None => "None".to_string(),
        Attr::Bool(true) => "True".to_string(),
        Attr::Bool(false) => "False".to_string(),
        Attr::Int(n) => n.to_string(),
        Attr::Float(x) => format!("{x:?}"),
        Attr::Str(text) => format!("{text:?}"),
        Attr::DType(dtype) => format!("\"{dtype}\""),
        Attr::List(items) => {
            let items: Vec<String> = items.iter().map(attr_text).collect();
            format!("[{}]", items.join(", "))
        }
        other => format!("{other:?}"),
    }
}

fn called(callee: &Callee) -> String {
    match callee {
        Callee::Any => "a call".to_string(),
        Callee::Op(op) => format!("a call of {op}"),
        Callee::Global(None) => "a call of a function of the module".to_string(),
        Callee::Global(Some(name)) => format!("a call of the function `{name}`"),
        Callee::Prim(None) => "a call of relax.call_tir".to_string(),
        Callee::Prim(Some(name)) => format!("a call of relax.call_tir with `{name}`"),
    }
}

/// The depth to which a pattern is described.
const DEEPEST: usize = 8;

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(self, DEEPEST, f)
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

fn write(pattern: &Pattern, deep: usize, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let node = &*pattern.0;
    if let Some(name) = &node.name {
        return f.write_str(name);
    }
    let Some(deep) = deep.checked_sub(1) else { return f.write_str("…") };
    match &node.form {
        Form::Any => f.write_str(node.captures.first().map_or("_", String::as_str))?,
        Form::Hole(_) => f.write_str("…")?,
        Form::Const => match (node.captures.first(), node.tests.first()) {
            (_, Some(Test::Scalar(value))) => write!(f, "{value}")?,
            (Some(name), _) => f.write_str(name)?,
            _ => f.write_str("constant")?,
        },
        Form::Param => f.write_str(node.captures.first().map_or("parameter", String::as_str))?,
        Form::Call(callee, args) => {
            match callee {
                Callee::Any => f.write_str("call")?,
                Callee::Op(op) => f.write_str(op)?,
                Callee::Global(name) => write!(f, "cls.{}", name.as_deref().unwrap_or("_"))?,
                Callee::Prim(None) => f.write_str("relax.call_tir")?,
                Callee::Prim(Some(name)) => write!(f, "relax.call_tir[{name}]")?,
            }
            write_args(args, deep, f)?;
        }
        Form::Tuple(elements) => write_args(elements, deep, f)?,
        Form::TupleGet(tuple, index) => {
            write(tuple, deep, f)?;
            match index {
                Some(index) => write!(f, "[{index}]")?,
                None => f.write_str("[_]")?,
            }
        }
        Form::Or(all) => write_all(all, " | ", deep, f)?,
        Form::And(all) => write_all(all, " & ", deep, f)?,
        Form::Chain { first, more, .. } => {
            write_all(&[first.clone(), more.clone()], " | ", deep, f)?;
            f.write_str("*")?;
        }
        Form::Not(one) => {
            f.write_str("!")?;
            write(one, deep, f)?;
        }
    }
    for (part, pattern) in &node.parts {
        match part {
            Part::Arg(i) => write!(f, ".arg({i}, ")?,
            Part::AnyArg => f.write_str(".any_arg(")?,
            Part::User => f.write_str(".used_by(")?,
            Part::OnlyUser => f.write_str(".only_used_by(")?,
        }
        write(pattern, deep, f)?;
        f.write_str(")")?;
    }
    Ok(())
}

fn write_args(args: &Args, deep: usize, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match args {
        Args::Any => f.write_str("(..)"),
        Args::Each(all) => write_all(all, ", ", deep, f),
    }
}

fn write_all(all: &[Pattern], between: &str, deep: usize, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str("(")?;
    for (i, one) in all.iter().enumerate() {
        f.write_str(if i > 0 { between } else { "" })?;
        write(one, deep, f)?;
    }
    f.write_str(")")
}
