//! Detects texts written for other versions of TVM, by spellings that changed before or after 0.27.

use super::diagnostic::Diagnostic;
use ruff_python_ast::visitor::{Visitor, walk_expr, walk_keyword};
use ruff_python_ast::{Expr, Keyword, Stmt};
use ruff_text_size::Ranged;
use std::ops::Range;

/// Spellings before TVM 0.27, and in 0.27.
const BEFORE: &[(&str, &str)] = &[
    ("I.GlobalVar", "a function by its name, `cls.f`"),
    ("R.Object", "R.Any"),
    ("R.match_shape", "R.match_cast"),
    ("T.allocate", "T.alloc_buffer"),
    ("T.allocate_const", "a constant of the Relax function"),
    ("T.block", "T.sblock"),
    ("T.block_attr", "T.sblock_attr"),
    ("T.buffer_decl", "T.Buffer"),
    ("T.let", "x: T.let[T.int32] = value"),
    ("T.LetStmt", "x: T.let[T.int32] = value"),
    ("T.load", "A[i]"),
    ("T.match_buffer_region", "T.match_buffer"),
    ("T.preflattened_buffer", "T.Buffer"),
    ("T.realize", "T.sblock"),
    ("T.store", "A[i] = value"),
    ("T.var", "T.int32()"),
    ("out_sinfo=", "out_ty="),
    ("sinfo_args=", "ty_args="),
    ("from tvm.script import tir", "from tvm.script import tirx"),
    ("metadata[\"relax.expr.Constant\"]", "metadata[\"ir.GenericConst\"]"),
];

/// Returns an error if the spellings in a text show that it was written for a TVM version other than
/// 0.27.
pub(crate) fn of_another(text: &str, body: &[Stmt]) -> Option<Diagnostic> {
    let mut found = Spellings { text, before: Vec::new(), after: None };
    found.imports();
    found.visit_body(body);
    if let Some((at, spelling)) = found.after {
        let message = format!("this text is written for a TVM newer than 0.27: it contains `{spelling}`");
        return Some(Diagnostic::new(at, message).label("TVM 0.27 does not have the dialect `s_tir`").help(
            "print the module with TVM 0.27, or write `T.prim_func(s_tir=True)`, `T.sblock`, `T.axis` and `T.reads` of `tirx`",
        ));
    }
    let (at, first) = found.before.first().cloned()?;
    let mut names: Vec<(&str, &str)> = Vec::new();
    for (_, (old, new)) in &found.before {
        if !names.iter().any(|(known, _)| known == old) {
            names.push((old, new));
        }
    }
    let renamed: Vec<String> = names.iter().map(|(old, new)| format!("`{old}` is now `{new}`")).collect();
    let message = format!("this text is written for a TVM older than 0.27, such as 0.20: it contains `{}`", first.0);
    let help = format!("in TVM 0.27, {}; print the module with TVM 0.27, or correct the names", renamed.join(", "));
    Some(Diagnostic::new(at, message).label("an older spelling").help(help))
}

type Renaming = (&'static str, &'static str);

/// The spellings of other versions in a text, with their positions.
struct Spellings<'t> {
    text: &'t str,
    before: Vec<(Range<usize>, Renaming)>,
    after: Option<(Range<usize>, String)>,
}

impl Spellings<'_> {
    /// Checks imports, which TVM prints as comments.
    fn imports(&mut self) {
        let mut start = 0;
        for line in self.text.split_inclusive('\n') {
            let import = line.trim_start_matches(['#', ' ']).trim_end();
            let at = start..start + line.trim_end().len();
            start += line.len();
            let Some(dialect) = import.strip_prefix("from tvm.script import ") else { continue };
            for part in dialect.split(',').map(str::trim) {
                match part.split_whitespace().next() {
                    Some("s_tir") => self.is_after(at.clone(), import),
                    Some("tir") => self.is_before(at.clone(), "from tvm.script import tir"),
                    _ => {}
                }
            }
        }
    }

    fn is_after(&mut self, at: Range<usize>, spelling: &str) {
        self.after.get_or_insert_with(|| (at, spelling.to_string()));
    }

    fn is_before(&mut self, at: Range<usize>, spelling: &str) {
        if let Some(renaming) = BEFORE.iter().find(|(old, _)| *old == spelling) {
            self.before.push((at, *renaming));
        }
    }
}

fn place(node: &impl Ranged) -> Range<usize> {
    node.start().to_usize()..node.end().to_usize()
}

impl<'t> Visitor<'t> for Spellings<'_> {
    fn visit_expr(&mut self, expr: &'t Expr) {
        match expr {
            Expr::Attribute(attribute) => {
                if let Expr::Name(root) = &*attribute.value {
                    let spelling = format!("{}.{}", root.id, attribute.attr);
                    match root.id.as_str() {
                        "Ts" => self.is_after(place(expr), &spelling),
                        // `T.let` is new as the type of a variable.
                        _ if spelling != "T.let" => self.is_before(place(expr), &spelling),
                        _ => {}
                    }
                }
            }
            Expr::Call(call) => {
                if let Expr::Attribute(attribute) = &*call.func
                    && attribute.attr.as_str() == "let"
                {
                    self.is_before(place(&*call.func), "T.let");
                }
            }
            Expr::Subscript(subscript) => {
                if let (Expr::Name(root), Expr::StringLiteral(key)) = (&*subscript.value, &*subscript.slice)
                    && root.id.as_str() == "metadata"
                    && key.value.to_str() == "relax.expr.Constant"
                {
                    self.is_before(place(expr), "metadata[\"relax.expr.Constant\"]");
                }
            }
            _ => {}
        }
        walk_expr(self, expr);
    }

    fn visit_keyword(&mut self, keyword: &'t Keyword) {
        match keyword.arg.as_ref().map(|name| name.as_str()) {
            Some("out_sinfo") => self.is_before(place(keyword), "out_sinfo="),
            Some("sinfo_args") => self.is_before(place(keyword), "sinfo_args="),
            _ => {}
        }
        walk_keyword(self, keyword);
    }
}
