//! Reads several variables on the left of `=`. Each element gets its own binding, and all names are defined only after
//! the last binding.

use super::FnReader;
use crate::read::arguments::int;
use crate::words::diagnostic::Diagnostic;
use crate::words::syntax::{Read, path_after, span, unexpected};
use passhost_lang::ir::{Type, V};
use ruff_python_ast::{Expr, ExprName};
use std::collections::{BTreeMap, BTreeSet};

/// The value of a variable.
enum Part<'a> {
    Value(&'a Expr),
    /// A possibly nested element of a tuple.
    Element(&'a Expr, Vec<u32>),
}

/// The unpacked tuples, by source position and path.
type Tuples = BTreeMap<(usize, Vec<u32>), V>;

const HELP: &str = "bind the value to a variable first: `both = R.split(x, 2)`, then `a, b = both`";

impl<'a> FnReader<'a> {
    /// Reads `a, b = x, R.exp(y)`; `m, n = T.int64(), T.int64()`; `a, b = pair`.
    pub(super) fn unpack(&mut self, target: &'a Expr, value: &'a Expr) -> Read<()> {
        let mut parts = Vec::new();
        self.pair(target, Part::Value(value), &mut parts)?;
        let mut seen = BTreeSet::new();
        if let Some((again, _)) = parts.iter().find(|(name, _)| !seen.insert(name.id.as_str())) {
            let message = format!("`{}` appears twice to the left of `=`", again.id);
            return Err(Diagnostic::new(span(*again), message).help("rename one of them"));
        }
        let mut tuples = BTreeMap::new();
        let mut bound: Vec<(&ExprName, V)> = Vec::with_capacity(parts.len());
        for (name, part) in parts {
            let (text, at) = (name.id.as_str(), span(name));
            let v = match part {
                Part::Value(value) if self.declares(text, None, value)? => continue,
                Part::Value(value) => self.bind_unseen(text, &at, None, value)?,
                Part::Element(value, path) => {
                    self.open_block();
                    let element = self.element(value, &path, &mut tuples)?;
                    self.bind_here(text, &at, element, None)?
                }
            };
            bound.push((name, v));
        }
        for (name, v) in bound {
            self.define(name.id.as_str(), v, span(name));
        }
        Ok(())
    }

    /// Reads a value or one of its elements. As in TVM, each tuple with several used elements is bound once.
    fn element(&mut self, value: &'a Expr, path: &[u32], tuples: &mut Tuples) -> Read<V> {
        let Some((index, front)) = path.split_last() else { return self.expr(value) };
        let key = (span(value).start, front.to_vec());
        if let Some(tuple) = tuples.get(&key) {
            return Ok(self.b.tuple_get(*tuple, *index, None));
        }
        let mut tuple = self.element(value, front, tuples)?;
        if !value.is_name_expr() || !front.is_empty() {
            let name = if self.in_dataflow { "lv" } else { "gv" };
            tuple = self.bind_here(name, &span(value), tuple, None)?;
        }
        tuples.insert(key, tuple);
        Ok(self.b.tuple_get(tuple, *index, None))
    }

    /// Collects the variables of a target with their values.
    fn pair(&self, target: &'a Expr, part: Part<'a>, into: &mut Vec<(&'a ExprName, Part<'a>)>) -> Read<()> {
        let targets = match target {
            Expr::Name(name) => {
                into.push((name, part));
                return Ok(());
            }
            Expr::Tuple(tuple) => &tuple.elts,
            Expr::List(list) => &list.elts,
            other => return Err(unexpected(other, "a variable, or several in parentheses")),
        };
        let parts: Vec<Part<'a>> = match part {
            Part::Value(value) => match self.written(value) {
                Some(items) => items.iter().map(Part::Value).collect(),
                None => (0..self.n_fields(value, &[])?).map(|i| Part::Element(value, vec![i])).collect(),
            },
            Part::Element(value, path) => {
                let inner = |i| [path.as_slice(), &[i]].concat();
                (0..self.n_fields(value, &path)?).map(|i| Part::Element(value, inner(i))).collect()
            }
        };
        if parts.len() != targets.len() {
            let message = format!("{} variables for {} values", targets.len(), parts.len());
            return Err(Diagnostic::new(span(target), message).help("write a variable for each value"));
        }
        targets.iter().zip(parts).try_for_each(|(target, part)| self.pair(target, part, into))
    }

    /// Returns the elements of a tuple literal that is unpacked directly.
    fn written(&self, value: &'a Expr) -> Option<&'a [Expr]> {
        match value {
            Expr::Tuple(tuple) => Some(&tuple.elts),
            Expr::List(list) => Some(&list.elts),
            Expr::Call(call) if path_after(self.scope.text, &call.func, "R") == Some("tuple") => {
                Some(&call.arguments.args)
            }
            _ => None,
        }
    }

    /// Returns the number of fields of a tuple, or of one of its elements.
    fn n_fields(&self, value: &'a Expr, path: &[u32]) -> Read<u32> {
        let ty = path.iter().try_fold(self.known_type(value)?, |ty, index| element(ty, *index));
        match ty {
            Some(Type::Tuple(fields)) => Ok(fields.len() as u32),
            _ => Err(Diagnostic::new(span(value), "only a tuple can be unpacked").help(HELP)),
        }
    }

    /// Returns the type of a variable, or of one of its elements.
    fn known_type(&self, value: &'a Expr) -> Read<Type> {
        let found = match value {
            Expr::Name(name) => Some(self.b.type_owned(self.b.type_of(self.lookup(name.id.as_str(), span(name))?))),
            Expr::Subscript(subscript) => {
                let index = int(&subscript.slice).and_then(|index| u32::try_from(index).ok());
                let tuple = self.known_type(&subscript.value)?;
                index.and_then(|index| element(tuple, index))
            }
            _ => None,
        };
        found.ok_or_else(|| {
            Diagnostic::new(span(value), "the value is unpacked before it is bound to a name").help(HELP)
        })
    }
}

fn element(tuple: Type, index: u32) -> Option<Type> {
    match tuple {
        Type::Tuple(fields) => fields.get(index as usize).cloned(),
        _ => None,
    }
}
