//! The API for pass authors: the only crate that a passhost plugin depends on.
//!
//! # The shape of a pass
//!
//! A pass is a declaration and a function. This is a complete plugin with one pass:
//!
//! ```
//! use plugin_api::prelude::*;
//!
//! export_plugin! {
//!     passes: [FOLD_RELU],
//! }
//!
//! declare_pass! {
//!     /// Removes a `relax.nn.relu` whose argument is a `relax.nn.relu`.
//!     pub function pass FOLD_RELU = "acme.FoldRelu" {
//!         opt_level: 1,
//!         required: ["relax.Normalize"],
//!         run: fold_relu,
//!     }
//! }
//!
//! fn fold_relu(body: &Body, _: &Ctx) -> Result<Body, PassError> {
//!     let folded = body.rewrite(|value, rw| {
//!         let inner = value.as_call_to("relax.nn.relu").and_then(|call| call.arg(0)?.as_call_to("relax.nn.relu"));
//!         inner.map_or(Action::Keep, |call| Action::Replace(rw.v(call.value())))
//!     });
//!     Ok(folded?)
//! }
//! ```
//!
//! Import the [`prelude`], which contains the names that most passes need, at most 60. The other names are in the modules;
//! visitors, mutators and builders with the names that they have in TVM are in [`tvm`]. `passhost new my-passes` writes a crate with
//! three passes and their tests, and `docs/writing-a-pass.md` in passhost's repository is a guide.
//!
//! The word before `pass` determines the arguments of the function; see the table in [`declare_pass!`]. The host first
//! runs the passes in `required`, and verifies each changed function. A pass that changes nothing returns a clone of
//! its argument, which costs one atomic addition.
//!
//! # What a pass sees
//!
//! | type | what it is |
//! |---|---|
//! | [`Module`](prelude::Module) | an immutable map from names to functions |
//! | [`Body`](prelude::Body) | one function, Relax or TIR; immutable |
//! | [`Value`](prelude::Value) | a parameter, binding, nested expression, operator, constant… of a body; `Copy` |
//! | [`Call`](prelude::Call), [`Function`](prelude::Function), [`Region`](ir::Region) | values of a specific kind, with their methods |
//! | [`Expr`](prelude::Expr), [`Stmt`](prelude::Stmt) | the result of `value.view()`, for `match` |
//! | [`Ty`](ir::Ty), [`Dim`](prelude::Dim) | the type of a value; a dimension of a shape |
//! | [`Ctx`](prelude::Ctx) | the run: options, target, diagnostics, statistics, types of calls |
//!
//! # Where things are
//!
//! | to | use |
//! |---|---|
//! | look at values | [`Body::values`](prelude::Body::values), [`Body::bindings`](prelude::Body::bindings), [`ExprVisitor`](tvm::ExprVisitor), [`StmtVisitor`](tvm::StmtVisitor) |
//! | find the users of a value | [`Users`](prelude::Users) |
//! | find groups of values, and replace them | [`pattern`], [`Ctx::matcher`](prelude::Ctx::matcher) |
//! | replace or remove values | [`Body::rewrite`](prelude::Body::rewrite), [`ExprMutator`](tvm::ExprMutator), [`StmtMutator`](tvm::StmtMutator) |
//! | change a function step by step | [`Edit`](prelude::Edit) |
//! | transform loops and blocks of a PrimFunc, each step checked | [`schedule`] |
//! | build a function | [`BlockBuilder`](tvm::BlockBuilder); [`BodyBuilder`](ir::BodyBuilder), without type inference |
//! | simplify and compare dimensions and indices | [`Analyzer`](prelude::Analyzer) |
//! | report | [`Ctx::diagnostics`](prelude::Ctx::diagnostics), [`bail!`], [`pass_error!`] |
//! | declare more than passes | [`declare_config!`], [`declare_property!`], [`declare_composite!`], [`declare_instrument!`], [`declare_reader!`], [`declare_writer!`], [`OpDecl`](prelude::OpDecl) |
//! | export everything | [`export_plugin!`] |
//!
//! # What the host promises
//!
//! - A function passed to a pass is well-formed, and all of its values have types.
//! - Nothing changes during a pass, because modules and bodies are immutable.
//! - A panic in a pass fails only that pass, and the message names the pass.
//!
//! In return, a pass must not write to its input, keep a thread that uses the context, or print anything (use
//! diagnostics, [`tracing`] or [`Ctx::show_module`](prelude::Ctx::show_module)).
//!
//! # Versions
//!
//! This crate follows Semantic Versioning. A plugin built against 1.x runs in every host of version 1.y with y ≥ x,
//! without a rebuild. Enums and structs that may grow are `#[non_exhaustive]`, or have a constant or default for the
//! remaining fields of a literal ([`OpDecl::EMPTY`](prelude::OpDecl::EMPTY)). The modules [`abi`] and [`metadata`] are
//! for hosts. They are not covered, except for the items in the prelude, [`ArgKind`](metadata::ArgKind) and
//! [`AttrType`](metadata::AttrType). `docs/decisions/0012-plugin-api-1.0.md` in passhost's repository contains the
//! rules.
//!
//! Items of [`arith`], [`build`], [`ir`], [`names`], [`pattern`], [`rewrite`], [`scalar`], [`schedule`], [`te`],
//! [`tir`], [`typing`] and [`walk`] that are not in the prelude belong to separate crates of version 0.x, and may
//! change in their minor versions. A plugin that needs neither `schedule` nor `te` can omit them with `default-features
//! = false`.

pub mod abi;
pub mod declare;
pub mod prelude;
pub mod services;
pub mod tvm;

pub use passhost_lang::{
    PassError, arith, bail, build, ir, metadata, names, pass_error, pattern, rewrite, scalar, tir, typing, walk,
};
#[cfg(feature = "schedule")]
pub use passhost_schedule as schedule;
#[cfg(feature = "te")]
pub use passhost_te as te;

pub use tracing;
