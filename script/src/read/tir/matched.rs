//! Turns matched handles into buffers, as TVM does: `A = T.match_buffer(a, (16,), "float32")`, where `a` is a
//! parameter, turns the parameter into a buffer.

use crate::read::tir::reader::{Matched, TirReader};
use crate::words::syntax::{is_path, span};
use ruff_python_ast::visitor::{Visitor, walk_expr};
use ruff_python_ast::{Expr, Stmt, StmtFunctionDef};
use std::collections::HashMap;

impl<'a> TirReader<'a> {
    /// Returns the handle parameters that are matched by a top-level statement of the function and otherwise
    /// unused.
    pub(super) fn matched_handles(&self, def: &'a StmtFunctionDef) -> HashMap<&'a str, Matched<'a>> {
        let mut found = HashMap::new();
        if !self.scope.options.matched_parameters {
            return found;
        }
        for stmt in &def.body {
            if let Some((handle, matched)) = self.match_buffer_of(stmt)
                && def.parameters.args.iter().any(|param| {
                    let annotation = param.parameter.annotation.as_deref();
                    param.parameter.name.as_str() == handle
                        && annotation.is_some_and(|annotation| is_path(annotation, &["T", "handle"]))
                })
            {
                found.insert(handle, matched);
            }
        }
        if !found.is_empty() {
            let mut uses = Uses::default();
            uses.visit_body(&def.body);
            let params = def.parameters.args.iter().map(|param| param.parameter.name.as_str());
            let names: Vec<&str> = params.chain(found.values().map(|matched| matched.name)).collect();
            let taken = |name: &str| names.iter().filter(|known| **known == name).count() > 1;
            found.retain(|handle, matched| uses.0.get(handle) == Some(&1) && !taken(matched.name));
        }
        found
    }

    /// Returns true if a statement only declares the buffer of a parameter.
    pub(super) fn is_of_parameter(&self, stmt: &'a Stmt) -> bool {
        self.match_buffer_of(stmt).is_some_and(|(handle, matched)| {
            self.matched.get(handle).is_some_and(|known| span(known.call) == span(matched.call))
        })
    }

    fn match_buffer_of(&self, stmt: &'a Stmt) -> Option<(&'a str, Matched<'a>)> {
        let Stmt::Assign(assign) = stmt else { return None };
        let ([Expr::Name(name)], Some(("match_buffer", call))) =
            (assign.targets.as_slice(), self.tir_call_of(&assign.value))
        else {
            return None;
        };
        match call.arguments.args.first() {
            Some(Expr::Name(handle)) => Some((handle.id.as_str(), Matched { name: name.id.as_str(), call })),
            _ => None,
        }
    }
}

/// Number of uses of each name.
#[derive(Default)]
struct Uses<'a>(HashMap<&'a str, usize>);

impl<'a> Visitor<'a> for Uses<'a> {
    fn visit_expr(&mut self, expr: &'a Expr) {
        if let Expr::Name(name) = expr {
            *self.0.entry(name.id.as_str()).or_default() += 1;
        }
        walk_expr(self, expr);
    }
}
