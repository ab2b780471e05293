//! Generates well-typed Relax and TIR modules from a source of choices, for property tests, fuzzing and comparisons
//! with TVM.
//!
//! Relax functions are built by `BlockBuilder`, TIR functions node by node. The source is a byte string, so tools that
//! shrink bytes shrink modules, and a fuzzer that changes bytes changes modules.

mod algebra;
pub mod carried;
mod choices;
mod in_place;
mod relax;
mod tir;
mod tir_expr;
mod tir_stmt;
mod values;

pub use choices::{Choices, bytes_of};
pub use in_place::in_place_module;

use plugin_api::ir::records::kind;
use plugin_api::ir::{BodyBuilder, NodeSpec};
use plugin_api::prelude::*;
use plugin_api::tvm::BlockBuilder;
use relax::Relax;
use script::Operators;

/// The names that modules may mention.
pub struct Vocabulary<'o> {
    ops: &'o dyn Operators,
    /// Number of virtual devices in the global infos.
    devices: usize,
}

impl<'o> Vocabulary<'o> {
    /// Creates a vocabulary of the declared operators.
    pub fn new(ops: &'o dyn Operators) -> Vocabulary<'o> {
        Vocabulary { ops, devices: 0 }
    }

    fn has(&self, op: &str) -> bool {
        self.ops.op_info(op).is_some()
    }

    fn takes(&self, op: &str, attr: &str) -> bool {
        self.ops.op_info(op).is_some_and(|info| info.attrs.iter().any(|known| known.name == attr))
    }

    /// Returns the first operator of the list that is declared; if none is, the last operator.
    fn first<'n>(&self, names: &[&'n str]) -> &'n str {
        names.iter().copied().find(|name| self.has(name)).unwrap_or(names[names.len() - 1])
    }
}

/// A function of the module that others can call.
struct Callee {
    name: String,
    /// Parameters of a Relax function.
    params: Option<Vec<Type>>,
    pure: bool,
    /// For a TIR function, the tensors that it takes and the tensor that it returns.
    buffers: Option<tir::Buffers>,
}

const NAMES: &[&str] = &["main", "f", "g", "fused_add"];

/// Generates a module of a few functions.
///
/// # Panics
/// If the builders reject a call of the generator, which is a bug in one of the two.
pub fn module(choices: &Choices<'_>, ops: &dyn Operators) -> Module {
    functions(choices, ops, 1)
}

/// Generates a module with up to `times` times as many functions.
///
/// # Panics
/// As [`module`].
pub fn wide_module(choices: &Choices<'_>, ops: &dyn Operators, times: usize) -> Module {
    functions(choices, ops, times)
}

/// Generates a module of one function with operator groups that algebra and fusion passes look for.
///
/// # Panics
/// As [`module`].
pub fn algebra_module(choices: &Choices<'_>, ops: &dyn Operators) -> Module {
    let bb = BlockBuilder::new(ops);
    let body = bb.body("main", |b| algebra::function(choices, b));
    bb.add_func("main", body.unwrap_or_else(|| panic!("the builder refuses a call of the generator")));
    bb.get().unwrap_or_else(|error| panic!("the builder refuses a call of the generator: {error}"))
}

fn functions(choices: &Choices<'_>, ops: &dyn Operators, times: usize) -> Module {
    let mut vocabulary = Vocabulary::new(ops);
    vocabulary.devices = if choices.one_in(4) { 2 } else { 0 };
    let bb = BlockBuilder::new(ops);
    let mut callees = Vec::new();
    for i in 0..times * choices.below(3) {
        let others: Vec<String> = callees.iter().map(|callee: &Callee| callee.name.clone()).collect();
        let (body, buffers) = tir::prim_func(choices, &others);
        let name = bb.add_func(["prim", "matmul"][i % 2], body);
        callees.push(Callee { name, params: None, pure: false, buffers });
    }
    for i in 0..choices.below(2) {
        let name = bb.add_func("ext", external(choices, i));
        callees.push(Callee { name, params: None, pure: false, buffers: None });
    }
    for _ in 0..times * (1 + choices.below(3)) {
        let relax = Relax::new(choices, &vocabulary, &callees);
        let Some(body) = bb.body("f", |b| relax.function(b)) else { break };
        let ty = body.root().ty().to_owned();
        let name = bb.add_func(choices.of(NAMES), body);
        let Type::Callable { params, pure, .. } = ty else { continue };
        callees.push(Callee { name, params: params.map(Into::into), pure, buffers: None });
    }
    let module = bb.get().unwrap_or_else(|error| panic!("the builder refuses a call of the generator: {error}"));
    with_attrs(&module, choices, vocabulary.devices)
}

fn external(choices: &Choices<'_>, i: usize) -> Body {
    let mut b = BodyBuilder::new();
    let ty = match choices.below(2) {
        0 => Type::opaque_callable(),
        _ => {
            let params = Some(vec![Type::tensor([2i64, 4], DType::F32)]);
            Type::callable(params, Type::tensor([2i64], DType::F32), true)
        }
    };
    let ty = b.ty(&ty);
    let callee = b.extern_func(["ext_one", "ext_two"][i % 2], ty);
    b.node(NodeSpec::new(kind::EXTERN).ty(ty), &[callee], None);
    b.finish().expect("the generator makes valid functions")
}

fn with_attrs(module: &Module, choices: &Choices<'_>, devices: usize) -> Module {
    let attrs = relax::module_attrs(choices);
    let device = |i: usize| {
        let target = ["keys", "kind", "mtriple", "tag"].into_iter().zip([
            Attr::list([Attr::Str("cpu".into())]),
            Attr::Str("llvm".into()),
            Attr::Str("x86_64-conda-linux-gnu".into()),
            Attr::Str(String::new()),
        ]);
        let target = Attr::Dict(target.map(|(key, value)| (key.to_string(), value)).collect());
        let args = [target, Attr::Int(i as i64), Attr::Str("global".into())];
        Attr::Object("I.vdevice".into(), args.into_iter().map(|arg| (None, arg)).collect())
    };
    let infos = match devices {
        0 => Vec::new(),
        n => vec![("vdevice".to_string(), Attr::List((0..n).map(device).collect()))],
    };
    let mut edit = module.edit();
    edit.set_attrs(attrs, infos).expect("the generator makes valid attributes");
    edit.finish()
}
