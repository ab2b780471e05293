//! Reads dataflow blocks, Ifs and their branches.

use super::FnReader;
use crate::read::arguments::accept;
use crate::words::diagnostic::Diagnostic;
use crate::words::syntax::{Read, is_name, is_path, path_after, span, unexpected};
use passhost_lang::ir::records::{flag, kind};
use passhost_lang::ir::{NodeSpec, TypeId, V};
use passhost_lang::typing::relations::join;
use ruff_python_ast::{ElifElseClause, Expr, Stmt, StmtIf, StmtWith};
use std::ops::Range;

impl<'a> FnReader<'a> {
    pub(super) fn dataflow(&mut self, with: &'a StmtWith) -> Read<()> {
        let is_dataflow = match with.items.as_slice() {
            [item] => match &item.context_expr {
                Expr::Call(call) => {
                    let plain = call.arguments.is_empty() && item.optional_vars.is_none() && !with.is_async;
                    is_path(&call.func, &["R", "dataflow"]) && plain
                }
                _ => false,
            },
            _ => false,
        };
        if !is_dataflow || self.in_dataflow {
            let at = with.items.first().map_or(span(with), span);
            return Err(Diagnostic::new(at, "`with R.dataflow():` cannot be nested"));
        }
        let (output, front) = match with.body.split_last() {
            Some((Stmt::Expr(last), front)) => match &*last.value {
                Expr::Call(call) if is_path(&call.func, &["R", "output"]) => (Some(call), front),
                _ => (None, with.body.as_slice()),
            },
            _ => (None, with.body.as_slice()),
        };
        let arguments = output.iter().flat_map(|call| &call.arguments.args);
        let names = arguments.filter_map(|argument| Some(argument.as_name_expr()?.id.as_str())).collect();
        let outer_outputs = std::mem::replace(&mut self.outputs, names);
        self.open_dataflow();
        self.in_dataflow = true;
        self.scopes.push(Vec::new());
        for stmt in front {
            self.statement(stmt, None)?;
        }
        if let Some(output) = output {
            accept(output, usize::MAX, &[], "R.output(x, y)")?;
        }
        let mut outputs = Vec::new();
        for argument in output.iter().flat_map(|call| &call.arguments.args) {
            let Expr::Name(name) = argument else {
                return Err(Diagnostic::new(span(argument), "expected a variable of the dataflow block"));
            };
            let v = self.lookup(name.id.as_str(), span(name))?;
            let inside = self.locals.get(name.id.as_str()).is_some_and(|local| local.depth == self.scopes.len());
            if !inside || self.b.flags(v) & flag::INNER == 0 || v.is_leaf() {
                return Err(Diagnostic::new(
                    span(name),
                    format!("`{}` is not a variable of this dataflow block", name.id),
                ));
            }
            self.b.clear_flags(v, flag::INNER);
            outputs.push((name.id.as_str(), v));
        }
        outputs.iter().for_each(|(_, v)| self.hide_inner(*v));
        self.in_dataflow = false;
        self.outputs = outer_outputs;
        let places: Vec<Range<usize>> =
            outputs.iter().map(|(name, _)| self.locals.get(name).map_or(0..0, |local| local.span.clone())).collect();
        self.leave_names();
        for ((name, v), at) in outputs.into_iter().zip(places) {
            self.define(name, v, at);
        }
        Ok(())
    }

    /// Removes the scalars of a dataflow block from the type of a value that is visible outside.
    pub(super) fn hide_inner(&mut self, v: V) {
        self.b.hide_inner(v, self.scalars.iter().map(|(scalar, sym)| (*scalar, sym.id)));
    }

    /// Reads an If. The value of the If is the last binding of its branches, which must have the same name in both
    /// branches.
    pub(super) fn if_(&mut self, branch: &'a StmtIf) -> Read<()> {
        self.if_else(&branch.test, &branch.body, &branch.elif_else_clauses)
    }

    fn if_else(&mut self, test: &'a Expr, body: &'a [Stmt], rest: &'a [ElifElseClause]) -> Read<()> {
        if self.in_dataflow {
            return Err(Diagnostic::new(span(test), "a dataflow block cannot contain an If"));
        }
        let Some((clause, rest)) = rest.split_first() else {
            return Err(Diagnostic::new(span(test), "an If needs an `else:`")
                .help("write `else:` with a binding of the same variable"));
        };
        let (name, at) = last_target(body, span(test))?;
        let (other_name, other_at) = last_target(&clause.body, span(test))?;
        if name != other_name {
            let message = format!("the branches end with different variables, `{name}` and `{other_name}`");
            return Err(Diagnostic::new(other_at, message).other(at, "the first branch ends here"));
        }
        self.open_block();
        let cond = self.expr(test)?;
        let v = self.b.begin(NodeSpec::new(kind::IF), &[cond], Some(name));
        let then = self.branch(body, &format!("{name}_then"))?;
        let otherwise = match &clause.test {
            None => self.branch(&clause.body, &format!("{name}_else"))?,
            Some(test) => self.elif(name, test, &clause.body, rest)?,
        };
        self.b.end();
        let ty = self.join(then, otherwise);
        self.b.set_type(v, ty);
        self.sized(v, at.clone())?;
        self.count_parts(v, &at)?;
        self.name_scalar(v, name);
        self.define(name, v, at);
        Ok(())
    }

    /// Reads the branch of an `elif`, whose only content is an If.
    fn elif(&mut self, name: &str, test: &'a Expr, body: &'a [Stmt], rest: &'a [ElifElseClause]) -> Read<TypeId> {
        self.b.begin(NodeSpec::new(kind::BRANCH), &[], None);
        self.enter();
        self.if_else(test, body, rest)?;
        let result = self.lookup(name, span(test))?;
        Ok(self.end_branch(result))
    }

    /// Ends a branch with its result.
    fn end_branch(&mut self, result: V) -> TypeId {
        self.close_block();
        let ty = self.b.type_of(result);
        self.b.node(NodeSpec::new(kind::YIELD), &[result], None);
        self.leave();
        self.b.end();
        ty
    }

    /// Returns the type of an If: the type of both branches, or the common supertype.
    pub(super) fn join(&mut self, a: TypeId, b: TypeId) -> TypeId {
        if a == b || a == TypeId::NONE || b == TypeId::NONE {
            return a;
        }
        let joined = join(&self.b.type_owned(a), &self.b.type_owned(b));
        self.b.ty(&joined)
    }

    /// Reads a branch; `name` is used for an unnamed result.
    pub(super) fn branch(&mut self, body: &'a [Stmt], name: &str) -> Read<TypeId> {
        self.b.begin(NodeSpec::new(kind::BRANCH), &[], None);
        self.enter();
        let Some((last, front)) = body.split_last() else { return Ok(TypeId::NONE) };
        for stmt in front {
            self.statement(stmt, None)?;
        }
        let result = match last {
            Stmt::AnnAssign(assign) => match assign.value.as_deref() {
                Some(value) => self.branch_result(value, Some(&assign.annotation), name)?,
                None => return Err(unexpected(last, "a value")),
            },
            Stmt::Assign(assign) => self.branch_result(&assign.value, None, name)?,
            // An inner If, whose variable is the result.
            other => {
                self.statement(other, None)?;
                let (name, at) = last_target(body, span(other))?;
                self.lookup(name, at)?
            }
        };
        Ok(self.end_branch(result))
    }

    pub(super) fn is_tuple(&self, value: &Expr) -> bool {
        match value {
            Expr::Tuple(_) => true,
            Expr::Call(call) => path_after(self.scope.text, &call.func, "R") == Some("tuple"),
            _ => false,
        }
    }

    /// Returns true if a value is a leaf, such as a number, constant or shape, and not a node.
    fn is_leaf(&self, value: &Expr) -> bool {
        match value {
            Expr::NumberLiteral(_) | Expr::BooleanLiteral(_) | Expr::StringLiteral(_) | Expr::Attribute(_) => true,
            Expr::BinOp(_) | Expr::UnaryOp(_) | Expr::BoolOp(_) | Expr::Compare(_) => self.is_scalar(value),
            Expr::Subscript(outer) => match &*outer.value {
                Expr::Subscript(inner) => is_name(&inner.value, "metadata"),
                _ => false,
            },
            Expr::Call(call) => match path_after(self.scope.text, &call.func, "R") {
                Some(name) => {
                    matches!(name, "const" | "dist.const" | "shape" | "prim_value" | "str" | "dtype" | "ExternFunc")
                }
                None => path_after(self.scope.text, &call.func, "T").is_some_and(|name| !name.contains('.')),
            },
            _ => false,
        }
    }

    /// Reads the value of the last binding of a branch; anything but a variable, leaf or tuple gets its own
    /// binding.
    pub(super) fn branch_result(&mut self, value: &'a Expr, annotation: Option<&'a Expr>, name: &str) -> Read<V> {
        if let Expr::Name(variable) = value {
            let v = self.lookup(variable.id.as_str(), span(variable))?;
            annotation.map_or(Ok(()), |annotation| self.declared(name, v, annotation).map(drop))?;
            return Ok(v);
        }
        if self.is_tuple(value) {
            // A tuple is the result itself, as in the `return` of a function.
            self.close_block();
            let v = self.expr(value)?;
            annotation.map_or(Ok(()), |annotation| self.declared(name, v, annotation).map(drop))?;
            return Ok(v);
        }
        // A leaf is not a node, so a block for it would be empty.
        if !self.is_leaf(value) {
            self.open_block();
        }
        let v = match self.bound_number(annotation, value)? {
            Some(number) => number,
            None => self.bound(value)?,
        };
        if v.is_leaf() {
            return Ok(v);
        }
        self.bind_value(name, v, annotation)
    }
}

/// Returns the last bound variable among the outputs of a dataflow block.
fn last_output(with: &StmtWith, at: Range<usize>) -> Read<(&str, Range<usize>)> {
    let outputs = match with.body.split_last() {
        Some((Stmt::Expr(last), front)) => match &*last.value {
            Expr::Call(call) if is_path(&call.func, &["R", "output"]) => Some((&*call.arguments.args, front)),
            _ => None,
        },
        _ => None,
    };
    let Some((outputs, front)) = outputs else {
        return Err(Diagnostic::new(span(with), "the dataflow block at the end of a branch needs `R.output`")
            .help("R.output(y), where `y` is the result of the branch"));
    };
    let (name, place) = last_target(front, at)?;
    match outputs.iter().any(|output| output.as_name_expr().is_some_and(|output| output.id.as_str() == name)) {
        true => Ok((name, place)),
        false => {
            Err(Diagnostic::new(place, format!("`{name}` ends the branch, but its dataflow block does not output it"))
                .help(format!("R.output({name})")))
        }
    }
}

/// Returns the last bound variable of a branch.
fn last_target(body: &[Stmt], at: Range<usize>) -> Read<(&str, Range<usize>)> {
    let target = match body.last() {
        Some(Stmt::AnnAssign(assign)) => Some(&*assign.target),
        Some(Stmt::Assign(assign)) => assign.targets.first(),
        Some(Stmt::If(inner)) => return last_target(&inner.body, at),
        Some(Stmt::With(with)) => return last_output(with, at),
        _ => None,
    };
    match target {
        Some(Expr::Name(name)) => Ok((name.id.as_str(), span(name))),
        _ => Err(Diagnostic::new(at, "each branch of an If must end with a binding of the same variable")),
    }
}
