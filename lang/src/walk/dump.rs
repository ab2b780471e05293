//! A text form of flat bodies for tests and debugging: one node per line, in memory order. Users see TVMScript instead.

use crate::ir::records::{flag, kind};
use crate::ir::{Body, Expr, Value};
use std::fmt::Write;

const KINDS: &[(u16, &str)] = &[
    (kind::FUNC, "func"),
    (kind::PARAM, "param"),
    (kind::BLOCK, "block"),
    (kind::DATAFLOW, "dataflow"),
    (kind::CALL, "call"),
    (kind::TUPLE, "tuple"),
    (kind::TUPLE_GET, "get"),
    (kind::IF, "if"),
    (kind::BRANCH, "branch"),
    (kind::YIELD, "yield"),
    (kind::MATCH_CAST, "match_cast"),
    (kind::ALIAS, "alias"),
    (kind::EXTERN, "extern"),
    (kind::MODULE, "module"),
    (kind::SEQ, "seq"),
    (kind::PRIM_FUNC, "prim_func"),
    (kind::BUFFER, "buffer"),
    (kind::FOR, "for"),
    (kind::SBLOCK, "sblock"),
    (kind::ITER_VAR, "iter_var"),
    (kind::STORE, "store"),
    (kind::LOAD, "load"),
    (kind::ARITH, "arith"),
    (kind::EVALUATE, "evaluate"),
    (kind::INIT, "init"),
    (kind::ACCESS, "access"),
    (kind::LOOP_VAR, "loop_var"),
    (kind::WHILE, "while"),
    (kind::BIND, "let"),
    (kind::COND, "if_then_else"),
    (kind::SCOPE, "scope"),
    (kind::ATTR, "attr"),
    (kind::ASSERT, "assert"),
    (kind::SELECT, "select"),
    (kind::RAMP, "ramp"),
    (kind::BROADCAST, "broadcast"),
    (kind::SHUFFLE, "shuffle"),
    (kind::LET, "let_in"),
    (kind::VAR, "var"),
    (kind::BUFFER_PART, "buffer_part"),
    (kind::RETURN, "return"),
    (kind::BREAK, "break"),
    (kind::CONTINUE, "continue"),
    (kind::LAUNCH, "launch"),
    (kind::WHERE, "where"),
    (kind::ANNOTATE, "annotate"),
    (kind::COMBINER, "combiner"),
];

/// Writes the nodes of a body, one per line, indented by region: `%position name: type = kind(operands) {attributes}
/// flags`.
pub fn dump(body: &Body) -> String {
    let mut out = String::new();
    let mut open: Vec<usize> = Vec::new();
    for value in body.values() {
        let at = value.index().unwrap_or(0);
        while open.pop_if(|end| *end <= at).is_some() {}
        line(&mut out, open.len(), value);
        if value.has(flag::REGION) {
            open.push(value.end());
        }
    }
    out
}

fn line(out: &mut String, depth: usize, value: Value<'_>) {
    let _ = write!(out, "{:1$}%{2}", "", depth * 2, value.index().unwrap_or(0));
    if value.is_bound() {
        let _ = write!(out, " {}", value.name().unwrap_or("_"));
    }
    if value.ty().is_known() {
        let _ = write!(out, ": {:?}", value.ty());
    }
    let _ = write!(out, " = {}", kind_name(value));
    let operands: Vec<String> = value.operands().map(operand).collect();
    let _ = write!(out, "({})", operands.join(", "));
    let a = value.node().map_or(0, |node| node.a);
    if a != 0 && !value.has(flag::REGION) {
        let _ = write!(out, " a={a}");
    }
    if !value.attrs().is_empty() {
        let _ = write!(out, " {:?}", value.attrs().to_owned());
    }
    for (bit, name) in [(flag::INNER, "inner"), (flag::IMPURE, "impure"), (flag::PRIVATE, "private")] {
        if value.has(bit) && value.kind() != kind::PARAM {
            let _ = write!(out, " {name}");
        }
    }
    out.push('\n');
}

/// Returns the kind of a node as in [`dump`].
pub fn kind_name(value: Value<'_>) -> String {
    let name = KINDS.iter().find(|(kind, _)| *kind == value.kind());
    name.map_or_else(|| format!("kind {:#x}", value.kind()), |(_, name)| (*name).to_string())
}

/// Returns an operand as in [`dump`]: the position of a node, or the content of a leaf.
pub fn operand(value: Value<'_>) -> String {
    if let Some(at) = value.index() {
        return format!("%{at}");
    }
    match value.view() {
        Expr::Op(name) => name.to_string(),
        Expr::GlobalVar(name) => format!("@{name}"),
        Expr::ExternFunc(name) => format!("extern {name}"),
        Expr::Str(text) => format!("{text:?}"),
        Expr::DType(dtype) => dtype.to_string(),
        Expr::Shape => format!("shape{:?}", value.dims().unwrap_or_default()),
        Expr::Prim => value.dim().map_or_else(String::new, |dim| format!("{dim:?}")),
        Expr::TypeArg(ty) => format!("{ty:?}"),
        Expr::Const(tensor) => format!("{tensor:?}"),
        Expr::Attr(attr) => format!("{attr:?}"),
        _ => format!("leaf {:#x}", value.leaf().map_or(0, |leaf| leaf.kind)),
    }
}
