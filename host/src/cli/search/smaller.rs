//! Ways to make a module smaller. Each way lists removable parts of a module, and removes a range of them.

use super::text::{numbers, statements, unannotated, with_number, without_statements};
use crate::engine::Engine;
use crate::text::Input;
use passhost_lang::ir::records::kind;
use passhost_lang::ir::{Body, BodyKind, Function, Module, Type, Value};
use std::ops::Range;

/// Reads and prints modules.
pub(super) struct Texts<'e> {
    pub(super) engine: &'e Engine,
}

impl Texts<'_> {
    fn read(&self, text: &str) -> Option<Module> {
        self.engine.read_module(&Input::text("<smaller>", text)).module.ok()
    }

    fn print(&self, module: &Module) -> Option<String> {
        self.engine.print_module(module).ok()
    }
}

/// A way to make a module smaller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Removes functions.
    Functions,
    /// Makes a function return one of its bindings instead of its result.
    Earlier,
    /// Turns bindings into parameters of their function.
    Bindings,
    /// Removes elements of a result that is a tuple.
    Results,
    /// Removes unused parameters.
    Parameters,
    /// Removes statements of PrimFuncs, with the statements inside them.
    Statements,
    /// Makes an integer smaller everywhere in the text.
    Numbers(Number),
}

/// The new value of an integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Number {
    One,
    Two,
    Half,
}

impl Number {
    fn of(self, number: u64) -> u64 {
        match self {
            Number::One => 1,
            Number::Two => 2,
            Number::Half => number / 2,
        }
    }
}

/// All ways, in the order in which they are tried.
pub(super) const WAYS: [Way; 9] = [
    Way::Functions,
    Way::Earlier,
    Way::Bindings,
    Way::Results,
    Way::Parameters,
    Way::Statements,
    Way::Numbers(Number::One),
    Way::Numbers(Number::Two),
    Way::Numbers(Number::Half),
];

impl Way {
    /// Returns the name of the parts, such as `bindings`.
    pub(super) fn name(self) -> &'static str {
        match self {
            Way::Functions => "functions",
            Way::Earlier => "trailing bindings",
            Way::Bindings => "bindings",
            Way::Results => "results",
            Way::Parameters => "parameters",
            Way::Statements => "statements",
            Way::Numbers(_) => "numbers",
        }
    }

    /// Returns the number of removable parts of a module.
    pub(super) fn count(self, module: &Module, texts: &Texts<'_>) -> usize {
        match self {
            Way::Functions => module.len(),
            Way::Earlier | Way::Bindings => each(module, bindings).len(),
            Way::Results => each(module, results).len(),
            Way::Parameters => each(module, unused_parameters).len(),
            Way::Statements => texts.print(module).map_or(0, |text| statements(&text).len()),
            Way::Numbers(_) => texts.print(module).map_or(0, |text| numbers(&text).len()),
        }
    }

    /// Returns the module without a range of parts; `None` if the result is not a valid module.
    pub(super) fn without(self, module: &Module, parts: Range<usize>, texts: &Texts<'_>) -> Option<Module> {
        match self {
            Way::Functions => {
                let names = module.functions().map(|(name, _)| name);
                let mut edit = module.edit();
                names.skip(parts.start).take(parts.len()).for_each(|name| drop(edit.remove(name)));
                Some(edit.finish())
            }
            Way::Earlier => map(module, bindings, parts.start..parts.start + 1, returning),
            Way::Bindings => map(module, bindings, parts, cut),
            Way::Results => map(module, results, parts, without_results),
            Way::Parameters => map(module, unused_parameters, parts, without_parameters),
            Way::Statements => texts.read(&without_statements(&texts.print(module)?, parts)?),
            Way::Numbers(number) => {
                let text = unannotated(&texts.print(module)?);
                let found = numbers(&text);
                let parts = found.get(parts)?;
                let smaller = parts.iter().fold(text, |text, from| with_number(&text, *from, number.of(*from)));
                texts.read(&smaller)
            }
        }
    }
}

/// A function that finds the positions of removable parts in a Relax function.
type Find = fn(&Body) -> Vec<usize>;

fn each(module: &Module, find: Find) -> Vec<(&str, usize)> {
    let relax = module.functions().filter(|(_, body)| body.kind() == BodyKind::Function);
    relax.flat_map(|(name, body)| find(body).into_iter().map(move |at| (name, at))).collect()
}

/// Applies `change` to each function that contains parts of the range.
fn map(
    module: &Module,
    find: Find,
    parts: Range<usize>,
    change: fn(&Body, &[usize]) -> Option<Body>,
) -> Option<Module> {
    let found = each(module, find);
    let mut edit = module.edit();
    for of_one in found.get(parts)?.chunk_by(|a, b| a.0 == b.0) {
        let (name, _) = *of_one.first()?;
        let at: Vec<usize> = of_one.iter().map(|(_, at)| *at).collect();
        edit.set(name, change(module.get(name)?, &at)?);
    }
    Some(edit.finish())
}

/// Returns the bindings of the function itself, not those of nested functions and branches.
fn bindings(body: &Body) -> Vec<usize> {
    let blocks = body.function().into_iter().flat_map(Function::blocks);
    let bindings = blocks.flat_map(|block| block.region().bindings());
    bindings.filter_map(Value::index).collect()
}

/// Makes the function return the binding at `at`, and removes the bindings after it.
fn returning(body: &Body, at: &[usize]) -> Option<Body> {
    let (function, binding) = (body.function()?, body.value_at(*at.first()?));
    let end = function.value().region().children().find(|value| value.kind() == kind::YIELD)?;
    let mut edit = body.edit();
    let later = bindings(body).into_iter().skip_while(|other| Some(other) != at.first()).skip(1);
    later.for_each(|other| edit.remove(body.value_at(other)));
    edit.make_output(binding);
    edit.set_operand(end, 0, binding);
    edit.set_signature(function.params().map(|param| param.ty().to_owned()).collect(), binding.ty().to_owned());
    edit.finish().ok()
}

/// Turns bindings into parameters.
fn cut(body: &Body, bindings: &[usize]) -> Option<Body> {
    let mut edit = body.edit();
    let function = body.function()?;
    let mut params: Vec<Type> = function.params().map(|param| param.ty().to_owned()).collect();
    for at in bindings {
        let binding = body.value_at(*at);
        let (name, ty) = (binding.name().unwrap_or("cut"), binding.ty().to_owned());
        let param = edit.add_param(name, &ty);
        edit.replace(binding, param);
        params.push(ty);
    }
    edit.set_signature(params, function.ret_ty().to_owned());
    edit.finish().ok()
}

fn results(body: &Body) -> Vec<usize> {
    let fields = body.function().map_or(0, |function| function.ret_ty().children().count());
    let is_tuple = body.function().is_some_and(|function| function.ret_ty().is_tuple());
    if is_tuple && fields > 1 { (0..fields).collect() } else { Vec::new() }
}

fn without_results(body: &Body, results: &[usize]) -> Option<Body> {
    let function = body.function()?;
    let keep: Vec<bool> = (0..function.ret_ty().children().count()).map(|at| !results.contains(&at)).collect();
    if !keep.contains(&true) {
        return None;
    }
    let mut edit = body.edit();
    let ty = edit.keep_results(&keep)?;
    edit.set_signature(function.params().map(|param| param.ty().to_owned()).collect(), ty);
    edit.finish().ok()
}

fn unused_parameters(body: &Body) -> Vec<usize> {
    let (uses, params) = (body.use_counts(), body.function().into_iter().flat_map(Function::params));
    params.enumerate().filter(|(_, param)| uses.of(*param) == 0).map(|(at, _)| at).collect()
}

fn without_parameters(body: &Body, unused: &[usize]) -> Option<Body> {
    let function = body.function()?;
    let mut edit = body.edit();
    let mut kept = Vec::new();
    for (at, param) in function.params().enumerate() {
        if unused.contains(&at) {
            edit.remove(param);
        } else {
            kept.push(param.ty().to_owned());
        }
    }
    edit.set_signature(kept, function.ret_ty().to_owned());
    edit.finish().ok()
}
