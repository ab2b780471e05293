//! Checks that a function reads back unchanged after printing.

mod difference;

use crate::Operators;
use crate::metadata::weights::Handles;
use crate::print::print_alone;
use crate::read::scope::Around;
use crate::read::{n_meshes, read_within};
use crate::words::devices::Devices;
use passhost_lang::ir::records::{kind, leaf, tykind};
use passhost_lang::ir::{Body, BodyBuilder, BodyKind, DType, Dict, Module, NodeSpec, Type, Value};
use std::collections::BTreeSet;
use std::ops::Range;

pub use difference::difference;

/// The advice for a text that reads back differently.
const REMEDY: &str = "return the module as it is read back, or a module that text can express";

/// The reason why a function does not read back unchanged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct Unfaithful {
    /// The affected node, if known.
    pub node: Option<usize>,
    /// Description of the difference.
    pub why: String,
}

impl Unfaithful {
    fn of(why: String) -> Unfaithful {
        Unfaithful { node: None, why }
    }
}

/// Checks that a function of a module reads back unchanged after printing. The functions that it refers to are
/// taken from the module.
///
/// # Errors
/// Fails if the function cannot be printed, the text cannot be read, or it reads as a different function.
pub fn reads_back(name: &str, body: &Body, module: &Module, ops: &dyn Operators) -> Result<(), Unfaithful> {
    let handles = Handles::default();
    let printed = print_alone(name, body, module, ops, &handles).map_err(|error| Unfaithful::of(error.to_string()))?;
    let node = |at: usize| printed.spans.get(name).and_then(|spans| innermost(spans, at));
    let around = Around { weights: Some(&handles), ..around(body, module) };
    let read = read_within(&printed.text, around, ops).map_err(|error| {
        let first = error.diagnostics.first();
        let message = first.map(|found| found.message.clone()).unwrap_or_default();
        let node = first.and_then(|found| node(found.span.start));
        Unfaithful { node, why: format!("its text cannot be read: {message}") }
    })?;
    match read.get(name) {
        Some(again) if again.structural_eq(body) => Ok(()),
        Some(again) => {
            let (node, what) = difference::of_bodies(body, again);
            Err(Unfaithful { node, why: format!("its text reads back as a different function: {what}; {REMEDY}") })
        }
        None => Err(Unfaithful::of("its text contains a function with a different name".to_string())),
    }
}

/// Returns a function of the module that a body refers to with an outdated type; the text would read back with the
/// current type.
pub fn stale_callee<'b>(body: &'b Body, module: &Module) -> Option<&'b str> {
    let named = body.values().flat_map(Value::operands).filter(|value| value.is_leaf() && value.ty().is_known());
    let mut known = BTreeSet::new();
    let mut named =
        named.filter(|value| known.insert(value.word())).filter_map(|value| Some((value.as_global()?, value)));
    named.find_map(|(name, value)| {
        let (ty, _) = signature(module.get(name)?);
        (!same_type(&value.ty().to_owned(), &ty)).then_some(name)
    })
}

/// Returns true if two types are equal except for the numbers of their symbolic variables.
fn same_type(a: &Type, b: &Type) -> bool {
    let alone = |ty: &Type| {
        let (mut b, mut n_syms) = (BodyBuilder::new(), 0);
        ty.each_dim(true, &mut |dim| dim.vars(&mut |sym| n_syms = n_syms.max(sym.id + 1)));
        for _ in 0..n_syms {
            b.sym("n", DType::I64);
        }
        let ty = b.ty(ty);
        let callee = b.extern_func("f", ty);
        b.node(NodeSpec::new(kind::EXTERN).ty(ty), &[callee], None);
        b.finish()
    };
    a == b || matches!((alone(a), alone(b)), (Ok(a), Ok(b)) if a.structural_eq(&b))
}

/// Checks that a module's attributes and global infos read back unchanged after printing.
///
/// # Errors
/// Fails like [`reads_back`].
pub fn attributes_read_back(module: &Module, ops: &dyn Operators) -> Result<(), Unfaithful> {
    let Some(meta) = module.meta() else { return Ok(()) };
    let alone = Module::with_meta([], Some(meta.clone()));
    let text = crate::print(&alone, ops).map_err(|error| Unfaithful::of(error.to_string()))?;
    let read = crate::read(&text, ops);
    let read = read.map_err(|error| Unfaithful::of(format!("their text cannot be read: {error}")))?;
    match read.structural_eq(&alone) {
        true => Ok(()),
        false => {
            let what = difference::of_meta(&alone, &read);
            Err(Unfaithful::of(format!("their text reads back differently: {what}; {REMEDY}")))
        }
    }
}

/// Returns the smallest node whose text contains a position.
fn innermost(spans: &[Range<usize>], at: usize) -> Option<usize> {
    let around = spans.iter().enumerate().filter(|(_, span)| span.contains(&at));
    around.min_by_key(|(_, span)| span.len()).map(|(node, _)| node)
}

/// Returns the context for the text of a body, with the functions that it refers to.
fn around<'a>(body: &'a Body, module: &'a Module) -> Around<'a> {
    let named = body.raw().leaves().iter().filter(|leaf| leaf.kind == leaf::GLOBAL_VAR);
    let named = named.map(|leaf| body.raw().str(leaf.val as u32));
    let functions = named.filter_map(|name| module.get_entry(name)).map(|(name, callee)| (name, signature(callee)));
    let infos = module.global_infos().map(Dict::to_owned).unwrap_or_default();
    let (vdevices, meshes) = (Devices::of(&infos), n_meshes(&infos));
    Around { functions: functions.collect(), vdevices, meshes, ..Around::default() }
}

/// Returns the type of a function as seen by callers, with the number of symbolic variables that it can contain.
fn signature(callee: &Body) -> (Type, u32) {
    let (ty, n_syms) = (callee.root().ty(), callee.raw().var_names().len() as u32);
    match callee.kind() {
        BodyKind::PrimFunc => {
            let dtype = match ty.kind() {
                tykind::PRIM => Some(ty.dtype()),
                tykind::POINTER if ty.dtype() == DType::VOID && ty.pointer_scope() == "global" => Some(DType::HANDLE),
                _ => None,
            };
            let ty = Type::prim_func(dtype.map(|dtype| Type::Prim { dtype, value: None }));
            (ty.with_purity(callee.is_pure_prim_func()), 0)
        }
        _ if ty.is_known() => (ty.to_owned(), n_syms),
        _ => (Type::opaque_callable(), 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::guard;
    use crate::{NoOps, read};
    use passhost_lang::ir::Call;
    use passhost_lang::metadata::OpInfo;
    use passhost_lang::names::nearest;
    use passhost_lang::typing::operators::{Infer, InferError, Inferred};
    use std::cell::Cell;

    /// Counts the suggestions.
    #[derive(Default)]
    struct Suggests(Cell<usize>);

    impl Infer for Suggests {
        fn infer(&self, call: Call<'_>) -> Result<Inferred, InferError> {
            NoOps.infer(call)
        }
    }

    impl Operators for Suggests {
        fn op_info(&self, _: &str) -> Option<&OpInfo> {
            None
        }

        fn near_ops(&self, name: &str) -> Vec<String> {
            let near = nearest(name, ["relax.made.up"]);
            self.0.set(self.0.get() + near.len());
            near
        }
    }

    /// Suggestions search the names of all operators, and would not be used.
    #[test]
    fn what_is_printed_is_read_without_suggestions() {
        let text = "@I.ir_module\nclass Module:\n    @R.function\n    def main(x: R.Any):\n        \
                    y = R.made.upp(x)\n        return y\n";
        let (module, ops) = (read(text, &NoOps).expect("a module"), Suggests::default());
        assert_eq!(reads_back("main", module.get("main").expect("main"), &module, &ops), Ok(()));
        assert_eq!(ops.0.get(), 0);
        read(text, &ops).expect("a module");
        assert_eq!(ops.0.get(), 1);
    }

    /// The text of a function nests deeper than the text from which it was read: the printer writes types, and calls for operators.
    #[test]
    fn what_the_input_nests_may_be_printed_deeper() {
        let nested = |open: &str, close: &str, n: usize| format!("{}x{}", open.repeat(n), close.repeat(n));
        let tensors = "R.Tensor((2,), \"float32\")";
        for (param, value) in [
            (tensors, nested("(", ",)", 900)),
            (tensors, nested("(", ",)", 990)),
            (tensors, nested("R.made.up(", ")", 990)),
            (tensors, nested("R.made.up((", ",))", 490)),
            ("R.Any", nested("(", ",)", 990)),
        ] {
            let text = format!(
                "@I.ir_module\nclass Module:\n    @R.function\n    def main(x: {param}):\n        y = {value}\n        return y\n"
            );
            let module = read(&text, &NoOps).unwrap_or_else(|error| panic!("{error}: {}", &value[..20]));
            assert_eq!(
                reads_back("main", module.get("main").expect("main"), &module, &NoOps),
                Ok(()),
                "{}",
                &value[..20]
            );
        }
    }

    /// A text of the host is limited, too.
    #[test]
    fn an_input_is_limited_more_than_what_is_printed() {
        let text = |n: usize| format!("{}1{}", "(".repeat(n), ")".repeat(n));
        assert_eq!(guard::depth(&text(1000), guard::MAX).ok(), Some(1000));
        assert!(
            guard::depth(&text(1001), guard::MAX).is_err() && guard::depth(&text(4000), guard::MAX_PRINTED).is_ok()
        );
        assert!(guard::depth(&text(4001), guard::MAX_PRINTED).is_err());
        // Dots nest the value before them, and nothing after them.
        let called = |n: usize| format!("{}1{}", "a.b.c(".repeat(n), ")".repeat(n));
        assert!(guard::depth(&called(500), guard::MAX).is_ok_and(|depth| depth < 510));
        assert!(guard::depth(&format!("a{}", ".b".repeat(1001)), guard::MAX).is_err());
        // A sum nests its first operand as deep as it has operators, also where that operand is in brackets.
        let sums = |n: usize, m: usize| format!("{}1{}", "(".repeat(n), format!("{})", "+1".repeat(m)).repeat(n));
        assert!(guard::depth(&sums(20, 20), guard::MAX).is_ok_and(|depth| depth >= 400));
        assert!(guard::depth(&sums(40, 30), guard::MAX).is_err());
        assert!(guard::depth(&format!("({},{})+1", sums(20, 20), sums(20, 20)), guard::MAX).is_ok());
    }
}
