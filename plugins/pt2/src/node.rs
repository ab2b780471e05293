//! A node with its arguments. It records which of them were read, because an unread argument would be ignored silently.

use crate::args::dtype_of;
use crate::graph::Item;
use crate::promote::Operand;
use importer::known::Elem;
use importer::tensor::{Res, T};
use plugin_api::prelude::*;
use serde_json::Value;
use std::cell::RefCell;
use std::collections::BTreeSet;

/// The value of an argument.
#[derive(Clone)]
pub(crate) enum Val<'j> {
    None,
    Tensor(T),
    Tensors(Vec<Option<T>>),
    /// Tensors and numbers that become the inputs of a graph.
    Items(Vec<Item>),
    Number(Elem),
    Numbers(Vec<Elem>),
    Bool(bool),
    Text(&'j str),
    DType(i64),
    Graph(&'j Value),
    /// A memory format, layout or device.
    Place,
}

/// A node of the graph.
pub(crate) struct Node<'j> {
    /// The operator with its overload, such as `aten.add.Tensor`.
    pub(crate) op: &'j str,
    pub(crate) args: Vec<(&'j str, Val<'j>)>,
    read: RefCell<BTreeSet<usize>>,
    /// The types of the results, if the program states them.
    pub(crate) dtypes: Vec<Option<DType>>,
}

impl<'j> Node<'j> {
    pub(crate) fn new(op: &'j str, args: Vec<(&'j str, Val<'j>)>, dtypes: Vec<Option<DType>>) -> Node<'j> {
        Node { op, args, read: RefCell::default(), dtypes }
    }

    /// Returns an argument; `None` if it is missing or `None`.
    fn arg(&self, name: &str) -> Option<&Val<'j>> {
        let at = self.args.iter().position(|(own, _)| *own == name)?;
        self.read.borrow_mut().insert(at);
        Some(&self.args[at].1).filter(|val| !matches!(val, Val::None))
    }

    /// Returns an argument by position, for operators without names of arguments.
    pub(crate) fn at(&self, at: usize) -> Res<&Val<'j>> {
        self.read.borrow_mut().insert(at);
        self.args.get(at).map(|(_, val)| val).ok_or_else(|| format!("its argument {at} is missing"))
    }

    /// Marks arguments that do not affect the result as read.
    pub(crate) fn ignore(&self, names: &[&str]) {
        let at = self.args.iter().enumerate().filter(|(_, (name, _))| names.contains(name)).map(|(at, _)| at);
        self.read.borrow_mut().extend(at);
    }

    /// Marks all arguments as read.
    pub(crate) fn ignore_all(&self) {
        self.read.borrow_mut().extend(0..self.args.len());
    }

    /// Returns the error about an argument that was not read.
    pub(crate) fn leftovers(&self) -> Option<String> {
        let read = self.read.borrow();
        let unread =
            |(at, (_, val)): &(usize, &(&str, Val<'_>))| !read.contains(at) && !matches!(val, Val::None | Val::Place);
        let (_, (name, _)) = self.args.iter().enumerate().find(unread)?;
        Some(format!("its argument `{name}` is not supported here"))
    }

    fn wrong<A>(&self, name: &str, what: &str) -> Res<A> {
        Err(format!("its argument `{name}` is not {what}"))
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.arg(name).is_some()
    }

    pub(crate) fn opt(&self, name: &str) -> Res<Option<T>> {
        match self.arg(name) {
            None => Ok(None),
            Some(Val::Tensor(x)) => Ok(Some(x.clone())),
            Some(_) => self.wrong(name, "a tensor"),
        }
    }

    pub(crate) fn t(&self, name: &str) -> Res<T> {
        self.opt(name)?.ok_or_else(|| format!("its argument `{name}` is missing"))
    }

    /// Returns the argument `self`, which some operators call `input`.
    pub(crate) fn x(&self) -> Res<T> {
        match self.opt("self")? {
            Some(x) => Ok(x),
            None => self.t("input"),
        }
    }

    pub(crate) fn tensors(&self, name: &str) -> Res<Vec<T>> {
        let all = self.opt_tensors(name)?;
        all.into_iter().map(|x| x.ok_or_else(|| format!("its argument `{name}` lacks a tensor"))).collect()
    }

    pub(crate) fn opt_tensors(&self, name: &str) -> Res<Vec<Option<T>>> {
        match self.arg(name) {
            Some(Val::Tensors(all)) => Ok(all.clone()),
            _ => self.wrong(name, "a list of tensors"),
        }
    }

    /// Returns a number or a truth value.
    pub(crate) fn number_if(&self, name: &str) -> Res<Option<Elem>> {
        match self.arg(name) {
            None => Ok(None),
            Some(Val::Number(number)) => Ok(Some(number.clone())),
            Some(Val::Bool(value)) => Ok(Some(Elem::int((*value).into()))),
            Some(_) => self.wrong(name, "a number"),
        }
    }

    pub(crate) fn dim_if(&self, name: &str) -> Res<Option<Dim>> {
        match self.number_if(name)? {
            None => Ok(None),
            Some(Elem::Int(dim)) => Ok(Some(dim)),
            Some(_) => self.wrong(name, "an integer"),
        }
    }

    pub(crate) fn int_if(&self, name: &str) -> Res<Option<i64>> {
        let Some(dim) = self.dim_if(name)? else { return Ok(None) };
        dim.as_int().map(Some).ok_or_else(|| format!("its argument `{name}` is symbolic, and must be a number here"))
    }

    pub(crate) fn int(&self, name: &str, default: i64) -> Res<i64> {
        Ok(self.int_if(name)?.unwrap_or(default))
    }

    pub(crate) fn float_if(&self, name: &str) -> Res<Option<f64>> {
        let Some(number) = self.number_if(name)? else { return Ok(None) };
        number.number().map(Some).ok_or_else(|| format!("its argument `{name}` is symbolic, and must be a number here"))
    }

    pub(crate) fn float(&self, name: &str, default: f64) -> Res<f64> {
        Ok(self.float_if(name)?.unwrap_or(default))
    }

    pub(crate) fn flag(&self, name: &str, default: bool) -> Res<bool> {
        match self.arg(name) {
            None => Ok(default),
            Some(Val::Bool(value)) => Ok(*value),
            Some(Val::Number(Elem::Int(Dim::Int(value)))) => Ok(*value != 0),
            Some(_) => self.wrong(name, "a truth value"),
        }
    }

    pub(crate) fn text_if(&self, name: &str) -> Res<Option<&'j str>> {
        match self.arg(name) {
            None => Ok(None),
            Some(Val::Text(text)) => Ok(Some(text)),
            Some(_) => self.wrong(name, "a string"),
        }
    }

    pub(crate) fn dtype(&self, name: &str) -> Res<Option<DType>> {
        match self.arg(name) {
            None => Ok(None),
            Some(Val::DType(code) | Val::Number(Elem::Int(Dim::Int(code)))) => dtype_of(*code).map(Some),
            Some(_) => self.wrong(name, "a data type"),
        }
    }

    fn numbers_if(&self, name: &str) -> Res<Option<Vec<Elem>>> {
        match self.arg(name) {
            None => Ok(None),
            Some(Val::Numbers(all)) => Ok(Some(all.clone())),
            Some(Val::Number(one)) => Ok(Some(vec![one.clone()])),
            Some(Val::Tensors(none)) if none.is_empty() => Ok(Some(Vec::new())),
            Some(_) => self.wrong(name, "a list of numbers"),
        }
    }

    pub(crate) fn dims_if(&self, name: &str) -> Res<Option<Vec<Dim>>> {
        let Some(all) = self.numbers_if(name)? else { return Ok(None) };
        let dim = |elem: Elem| if let Elem::Int(dim) = elem { Ok(dim) } else { self.wrong(name, "a list of integers") };
        all.into_iter().map(dim).collect::<Res<_>>().map(Some)
    }

    pub(crate) fn dims(&self, name: &str) -> Res<Vec<Dim>> {
        self.dims_if(name)?.ok_or_else(|| format!("its argument `{name}` is missing"))
    }

    pub(crate) fn ints_if(&self, name: &str) -> Res<Option<Vec<i64>>> {
        let Some(dims) = self.dims_if(name)? else { return Ok(None) };
        let all: Option<Vec<i64>> = dims.iter().map(Dim::as_int).collect();
        all.map(Some)
            .ok_or_else(|| format!("its argument `{name}` has symbolic numbers, and must have known numbers here"))
    }

    pub(crate) fn ints(&self, name: &str) -> Res<Vec<i64>> {
        self.ints_if(name)?.ok_or_else(|| format!("its argument `{name}` is missing"))
    }

    pub(crate) fn floats_if(&self, name: &str) -> Res<Option<Vec<f64>>> {
        let Some(all) = self.numbers_if(name)? else { return Ok(None) };
        let all: Option<Vec<f64>> = all.iter().map(Elem::number).collect();
        all.map(Some)
            .ok_or_else(|| format!("its argument `{name}` has symbolic numbers, and must have known numbers here"))
    }

    /// Returns `n` integers; a single integer applies to all axes.
    pub(crate) fn per_axis(&self, name: &str, n: usize, default: i64) -> Res<Vec<i64>> {
        match self.ints_if(name)?.filter(|list| !list.is_empty()) {
            None => Ok(vec![default; n]),
            Some(list) if list.len() == 1 => Ok(vec![list[0]; n]),
            Some(list) if list.len() == n => Ok(list),
            Some(list) => Err(format!("its argument `{name}` has {} numbers; {n} are needed", list.len())),
        }
    }

    /// Returns an operand of an elementwise operator: a tensor or a number.
    pub(crate) fn operand(&self, name: &str) -> Res<Operand> {
        match self.operand_if(name)? {
            Some(operand) => Ok(operand),
            None => Err(format!("its argument `{name}` is missing")),
        }
    }

    pub(crate) fn operand_if(&self, name: &str) -> Res<Option<Operand>> {
        Ok(match self.arg(name) {
            None => None,
            Some(Val::Tensor(x)) => Some(Operand::Tensor(x.clone())),
            Some(Val::Number(number)) => Some(Operand::Number(number.clone())),
            Some(Val::Bool(value)) => Some(Operand::Bool(*value)),
            Some(_) => return self.wrong(name, "a tensor or a number"),
        })
    }
}
