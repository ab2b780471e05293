//! Finds differences between functions or modules, for example between a module and the result of reading its
//! printed form.

use crate::print::{deeper, type_text};
use passhost_lang::ir::records::{flag, kind};
use passhost_lang::ir::{Attr, Body, Dict, Dim, Expr, Module, Type, Value};
use passhost_lang::walk::dump::{kind_name, operand};
use std::collections::{BTreeMap, HashMap};
use std::fmt::Debug;

/// Flags and their meanings for a value.
const FLAGS: [(u16, &str); 8] = [
    (flag::BOUND, "a name"),
    (flag::REGION, "a region"),
    (flag::DATAFLOW, "the flag of a dataflow block"),
    (flag::TERM, "the flag of the end of a region"),
    (flag::IMPURE, "an effect"),
    (flag::OWNER, "the flag of a region that is a value"),
    (flag::INNER, "the flag of a value that is visible only in its region"),
    (flag::PRIVATE, "the flag of a private function"),
];

/// Returns the differences of two modules, if any: the first difference of each function, one per line.
pub fn difference(one: &Module, other: &Module) -> Option<String> {
    let (of_one, of_other) =
        (one.functions().collect::<BTreeMap<_, _>>(), other.functions().collect::<BTreeMap<_, _>>());
    let names = of_one.keys().chain(of_other.keys().filter(|name| !of_one.contains_key(*name)));
    let of_function = |name: &&str| match (of_one.get(name), of_other.get(name)) {
        (Some(a), Some(b)) if a.structural_eq(b) => None,
        (Some(a), Some(b)) => Some(format!("function `{name}`: {}", of_bodies(a, b).1)),
        (Some(_), None) => Some(format!("function `{name}` is missing in the read module")),
        (None, _) => Some(format!("function `{name}` is only in the read module")),
    };
    let mut lines: Vec<String> = names.filter_map(of_function).collect();
    if !same_meta(one.meta(), other.meta()) {
        lines.push(format!("attributes of the module: {}", of_meta(one, other)));
    }
    (!lines.is_empty()).then(|| lines.join("\n"))
}

fn same_meta(one: Option<&Body>, other: Option<&Body>) -> bool {
    match (one, other) {
        (Some(a), Some(b)) => a.structural_eq(b),
        (a, b) => a.is_none() && b.is_none(),
    }
}

/// Returns the first difference of two functions, with its node if known.
pub(super) fn of_bodies(body: &Body, again: &Body) -> (Option<usize>, String) {
    let mut differences = Differences::default();
    let mut pairs = body.values().zip(again.values()).enumerate();
    match pairs.find_map(|(at, (one, other))| Some((at, differences.of_values(one, other)?))) {
        Some((at, what)) => (Some(at), what),
        None if body.len() != again.len() => (None, format!("it has {} nodes, read as {}", body.len(), again.len())),
        None => of_type_records(body, again),
    }
}

/// Compares the parts of types that neither their views nor their printed forms show.
fn of_type_records(body: &Body, again: &Body) -> (Option<usize>, String) {
    let record = |body: &Body, at: usize| {
        let ty = body.raw().nodes().get(at)?.ty;
        body.raw().types().get(ty as usize).map(|ty| (ty.flags, ty.ndim))
    };
    let differs = body.values().find(|value| value.index().is_some_and(|at| record(body, at) != record(again, at)));
    match differs {
        Some(value) => {
            let what = format!("the type of {} has flags or a number of parts that text cannot express", named(value));
            (value.index(), what)
        }
        None => (None, "a type in it has flags or symbolic variables that text cannot express".to_string()),
    }
}

/// Returns the first difference of the attributes and global infos of two modules.
pub(super) fn of_meta(one: &Module, other: &Module) -> String {
    let what = match (one.attrs(), other.attrs()) {
        (Some(one), Some(other)) => Differences::default().of_dicts("", one, other),
        (None, _) => Some("the original has none, but the read module has some".to_string()),
        (_, None) => Some("the original has some, but the read module has none".to_string()),
    };
    what.unwrap_or_else(|| "their order differs".to_string())
}

/// Formats the original value and the value read, both by their API names.
fn read_as(what: &str, one: &impl Debug, other: &impl Debug) -> String {
    let (one, other) = (format!("{one:?}"), format!("{other:?}"));
    format!("{what} is `{}`, read as `{}`", short(&one), short(&other))
}

fn short(text: &str) -> String {
    const LONGEST: usize = 200;
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_string(),
    }
}

/// Describes a value for authors: by its name, or by its kind and the binding that contains it.
fn named(value: Value<'_>) -> String {
    let own = |value: Value<'_>| value.name().filter(|_| value.is_bound()).map(|name| format!("`{name}`"));
    if let Some(name) = own(value) {
        return name;
    }
    match (value.kind(), value.index()) {
        (kind::FUNC | kind::PRIM_FUNC | kind::EXTERN, Some(0)) => return "the function".to_string(),
        (_, None) => return operand(value),
        (_, Some(_)) => {}
    }
    let what = kind_name(value);
    let mut user = value;
    while user.is_nested() && own(user).is_none() {
        let Some(next) = user.index().and_then(|at| at.checked_add(1)) else { break };
        user = user.sibling(next);
        if user.node().is_none() {
            break;
        }
    }
    match own(user) {
        Some(name) => format!("a nested {what} of {name}"),
        None => format!("the {what} at node {}", value.index().unwrap_or_default()),
    }
}

/// The mapping between the symbolic variables of both sides, whose numbers may differ.
#[derive(Default)]
struct Differences {
    syms: HashMap<u32, u32>,
}

impl Differences {
    fn of_values(&mut self, one: Value<'_>, other: Value<'_>) -> Option<String> {
        self.of_call_types(one, other)
            .or_else(|| self.of_records(one, other))
            .or_else(|| self.of_types(&format!("the type of {}", named(one)), one, other))
            .or_else(|| self.of_operands(one, other))
            .or_else(|| self.of_dicts(&format!(" of {}", named(one)), one.attrs(), other.attrs()))
    }

    /// Compares the types of two calls of the same operator, before flags are compared: a variable whose type
    /// differs from the type of its value is read as two nodes, so its call is unnamed.
    fn of_call_types(&mut self, one: Value<'_>, other: Value<'_>) -> Option<String> {
        let op = one.as_call()?.op()?;
        let fits = match (one.is_bound(), other.is_bound()) {
            (true, false) => true,
            (a, b) => a == b && matches!(one.ty().to_owned(), Type::Object),
        };
        other.as_call_to(op).filter(|_| fits)?;
        let what = self.of_types(&format!("the type of {}", named(one)), one, other)?;
        Some(format!(
            "{what}, which is the type of this call of `{op}`; `infer_types(&body, ctx)` sets the types of all calls"
        ))
    }

    /// Compares kind, flags, payload and number of operands.
    fn of_records(&self, one: Value<'_>, other: Value<'_>) -> Option<String> {
        let (a, b) = (one.node()?, other.node()?);
        let name = || named(one);
        if a.kind != b.kind {
            return Some(format!("{} is of kind `{}`, read as `{}`", name(), kind_name(one), kind_name(other)));
        }
        if a.flags != b.flags {
            let differs = FLAGS.iter().find(|(bit, _)| (a.flags ^ b.flags) & bit != 0);
            return Some(match differs {
                Some((bit, what)) if a.flags & bit != 0 => format!("{} has {what}, read without it", name()),
                Some((_, what)) => format!("{} is read with {what}", name()),
                None => format!("the flags of {} are {:#x}, read as {:#x}", name(), a.flags, b.flags),
            });
        }
        // In a region header, `a` is the length of the region; a later comparison finds what differs.
        if a.a != b.a && a.flags & flag::REGION == 0 {
            return Some(read_as(&format!("the number in {}", name()), &a.a, &b.a));
        }
        if a.n_ops != b.n_ops {
            return Some(format!("{} has {} operands, read as {}", name(), a.n_ops, b.n_ops));
        }
        None
    }

    fn of_types(&mut self, what: &str, one: Value<'_>, other: Value<'_>) -> Option<String> {
        match (one.ty().is_known(), other.ty().is_known()) {
            (true, true) => self.of_two_types(what, &one.ty().to_owned(), &other.ty().to_owned()),
            (true, false) => Some(format!("{what} is `{}`, read without a type", type_text(&one.ty().to_owned()))),
            (false, true) => Some(format!("{what} is missing, read as `{}`", type_text(&other.ty().to_owned()))),
            (false, false) => None,
        }
    }

    fn of_two_types(&mut self, what: &str, one: &Type, other: &Type) -> Option<String> {
        if self.same_type(one, other) {
            return None;
        }
        let (a, b) = (type_text(one), type_text(other));
        Some(if a == b {
            read_as(what, one, other)
        } else {
            format!("{what} is `{}`, read as `{}`", short(&a), short(&b))
        })
    }

    fn of_operands(&mut self, one: Value<'_>, other: Value<'_>) -> Option<String> {
        let what = |i: usize| match (one.kind(), i) {
            (kind::CALL, 0) => format!("the callee of {}", named(one)),
            (kind::CALL, _) => format!("argument {} of {}", i - 1, named(one)),
            _ => format!("operand {i} of {}", named(one)),
        };
        let mut pairs = one.operands().zip(other.operands()).enumerate();
        pairs.find_map(|(i, (a, b))| self.of_operand(&what(i), a, b))
    }

    fn of_operand(&mut self, what: &str, one: Value<'_>, other: Value<'_>) -> Option<String> {
        let shape = |value: Value<'_>| value.dims().map(Type::shape);
        let dim = |value: Value<'_>| value.dim().map(|dim| Type::shape(vec![dim]));
        let types = match (one.view(), other.view()) {
            (Expr::Shape, Expr::Shape) => shape(one).zip(shape(other)),
            (Expr::Prim, Expr::Prim) => dim(one).zip(dim(other)),
            (Expr::TypeArg(a), Expr::TypeArg(b)) => Some((a.to_owned(), b.to_owned())),
            (Expr::Attr(a), Expr::Attr(b)) => return self.of_attrs(what, &a.to_owned(), &b.to_owned()),
            (Expr::Const(a), Expr::Const(b)) if a.bytes() != b.bytes() => {
                return Some(format!("{what} is a constant, read with different values"));
            }
            _ => None,
        };
        if let Some((a, b)) = types {
            return self.of_two_types(what, &a, &b);
        }
        if one.index() != other.index() || (one.is_leaf() && operand(one) != operand(other)) {
            return Some(format!("{what} is {}, read as {}", short(&named(one)), short(&named(other))));
        }
        if one.is_leaf() { self.of_types(&format!("the type of {what}"), one, other) } else { None }
    }

    /// Compares types; symbolic variables are matched by position.
    fn same_type(&mut self, one: &Type, other: &Type) -> bool {
        let syms = |ty: &Type| {
            let mut found = Vec::new();
            ty.each_dim(true, &mut |dim| dim.vars(&mut |sym| found.push(sym.id)));
            found
        };
        super::same_type(one, other)
            && syms(one).into_iter().zip(syms(other)).all(|(a, b)| *self.syms.entry(a).or_insert(b) == b)
    }

    fn of_dicts(&mut self, of: &str, one: Dict<'_>, other: Dict<'_>) -> Option<String> {
        let by_key = |dict: Dict<'_>| dict.to_owned().into_iter().collect::<BTreeMap<String, Attr>>();
        let (a, b) = (by_key(one), by_key(other));
        let mut keys = a.keys().chain(b.keys().filter(|key| !a.contains_key(*key)));
        keys.find_map(|key| {
            let what = format!("attribute `{key}`{of}");
            match (a.get(key), b.get(key)) {
                (Some(a), Some(b)) => self.of_attrs(&what, a, b),
                (Some(a), None) => Some(format!("{what} is `{}`, read without it", short(&format!("{a:?}")))),
                (None, b) => Some(format!("{what} is not set, read as `{}`", short(&format!("{:?}", b?)))),
            }
        })
    }

    /// Returns the smallest part in which two attributes differ.
    fn of_attrs(&mut self, what: &str, one: &Attr, other: &Attr) -> Option<String> {
        deeper(|| match (one, other) {
            (Attr::Type(a), Attr::Type(b)) => self.of_two_types(what, a, b),
            (Attr::Dim(a), Attr::Dim(b)) => {
                let ty = |dim: &Dim| Type::shape(vec![dim.clone()]);
                (!self.same_type(&ty(a), &ty(b))).then(|| read_as(what, a, b))
            }
            (Attr::List(a), Attr::List(b)) if a.len() == b.len() => {
                let mut parts = a.iter().zip(b.iter()).enumerate();
                parts.find_map(|(i, (a, b))| self.of_attrs(&format!("element {i} of {what}"), a, b))
            }
            (Attr::Dict(a), Attr::Dict(b)) if a.iter().map(|(key, _)| key).eq(b.iter().map(|(key, _)| key)) => {
                let mut parts = a.iter().zip(b.iter());
                parts.find_map(|((key, a), (_, b))| self.of_attrs(&format!("entry `{key}` of {what}"), a, b))
            }
            (Attr::Object(name, a), Attr::Object(read, b))
                if name == read && a.iter().map(|(key, _)| key).eq(b.iter().map(|(key, _)| key)) =>
            {
                let mut parts = a.iter().zip(b.iter()).enumerate();
                parts.find_map(|(i, ((_, a), (_, b)))| self.of_attrs(&format!("argument {i} of {what}"), a, b))
            }
            (Attr::Float(a), Attr::Float(b)) if a.is_nan() && b.is_nan() => None,
            (a, b) => (a != b).then(|| read_as(what, a, b)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NoOps, read};

    const TEXT: &str = r#"@I.ir_module
class Module:
    I.module_attrs({"kept": [1, 2]})
    @R.function
    def main(x: R.Tensor(("n", 4), dtype="float32"), y: R.Any) -> R.Any:
        a: R.Any = R.made.up(x, y, axis=[1, 2])
        b: R.Tuple(R.Any, R.Any) = (a, R.made.up(x))
        return b
"#;

    fn differing(changed: &str) -> Option<String> {
        let module = |text: &str| read(text, &NoOps).expect("a module");
        difference(&module(TEXT), &module(changed))
    }

    /// The message contains the function, the binding, the difference, and both forms of it.
    #[test]
    fn what_differs_is_named() {
        let changes = [
            ("axis=[1, 2]", "axis=[1, 3]", "element 1 of attribute `axis` of `a` is `Int(2)`, read as `Int(3)`"),
            ("axis=[1, 2]", "axes=[1, 2]", "attribute `axis` of `a` is `List([Int(1), Int(2)])`, read without it"),
            ("R.made.up(x, y", "R.made.down(x, y", "the callee of `a` is relax.made.up, read as relax.made.down"),
            ("up(x, y", "up(y, x", "argument 0 of `a` is `x`, read as `y`"),
            ("up(x))", "up(y))", "argument 0 of a nested call of `b` is `x`, read as `y`"),
            ("up(x, y", "up(x", "`a` has 3 operands, read as 2"),
            ("a: R.Any", "a: R.Shape", "the type of `a` is `R.Any`, read as `R.Shape(ndim=-1)`"),
            ("= (a, R.made.up(x))", "= R.made.up(x)", "a nested call of `b` is read with a name"),
            ("\"float32\"", "\"float16\"", "the type of the function is"),
            ("def main", "def other", "is missing in the read module"),
            ("[1, 2]})", "[1, 2.5]})", "attributes of the module: element 1 of attribute `kept` is `Int(2)`"),
        ];
        let mut wrong = String::new();
        for (from, to, expected) in changes {
            assert_eq!(TEXT.matches(from).count(), 1, "{from}");
            let what = differing(&TEXT.replace(from, to)).unwrap_or_default();
            if !what.contains(expected) {
                wrong.push_str(&format!("{from} → {to}: {what}\n"));
            }
        }
        assert_eq!(wrong, "");
    }

    /// Kinds have the names of the API. A kind without one would be a number in the message.
    #[test]
    fn kinds_are_named() {
        let of = |value: &str| {
            format!(
                "@I.ir_module\nclass Module:\n    @T.prim_func(s_tir=True)\n    def f(A: T.Buffer((4,), \"int32\"), B: T.Buffer((4,), \
                 \"int32\")):\n        A[0] = {value}\n"
            )
        };
        let module = |value: &str| read(&of(value), &NoOps).expect("a module");
        let sum = module("A[1] + A[2]");
        for value in [
            "A[1]",
            "T.max(A[1], A[2])",
            "T.popcount(A[1])",
            "T.Select(A[1] < 3, A[1], A[2])",
            "T.Cast(\"int32\", T.Cast(\"int64\", A[1]))",
            "T.if_then_else(A[1] < 3 and not A[2] < 3, A[1], 5)",
            "A[1] + A[2] + A[3]",
        ] {
            let other = module(value);
            let what = [difference(&sum, &other), difference(&other, &sum)].map(Option::unwrap_or_default);
            assert!(what.iter().all(|what| !what.is_empty() && !what.contains("kind 0x")), "{value}: {what:?}");
            let body = other.get("f").expect("a function");
            assert!(body.values().all(|node| !kind_name(node).contains("0x")), "{value}");
        }
        let what = difference(&sum, &module("T.Select(A[1] < 3, A[1], A[2])")).unwrap_or_default();
        assert!(what.contains("is of kind `") && what.contains("`, read as `"), "{what}");
    }

    /// Names of variables do not matter.
    #[test]
    fn what_is_the_same_has_no_difference() {
        assert_eq!(differing(TEXT), None);
        assert_eq!(
            differing(&TEXT.replace("\"n\"", "\"m\"").replace("a: R.Any", "c: R.Any").replace("(a, ", "(c, ")),
            None
        );
    }
}
