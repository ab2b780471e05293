//! Tests checking and printing of 100,000 nested expressions on a thread with a stack of 2 MiB.
//! `plugin-api/tests/deep.rs` walks and rewrites such expressions.
#![forbid(unsafe_code)]

use passhost::verify::verify_module;
use plugin_api::ir::records::{flag, kind};
use plugin_api::ir::{AttrsId, BodyBuilder, NodeSpec};
use plugin_api::prelude::*;
use plugin_api::scalar::PrimOp;
use script::{NoOps, print, print_with_spans};

const N: usize = 100_000;

/// Returns a Relax function that computes `relu(relu(… x …))`, and a TIR function that evaluates `n - (n - (… n …))`.
fn module() -> Module {
    let mut b = BodyBuilder::new();
    b.begin_function(0, AttrsId::NONE, None);
    let ty = b.ty(&Type::tensor([8, 8], DType::F32));
    let (x, relu) = (b.param("x", ty), b.op("relax.nn.relu"));
    b.begin(NodeSpec::new(kind::BLOCK), &[], None);
    let y = (0..N).fold(x, |v, _| b.call(relu, &[v], AttrsId::NONE, ty, false, None));
    b.bind(y, "y");
    b.end();
    b.end_function(y, ty);
    let main = b.finish().expect("valid");

    let mut b = BodyBuilder::new();
    let int = b.ty(&Type::Prim { dtype: DType::I64, value: None });
    b.begin(NodeSpec::new(kind::PRIM_FUNC), &[], None);
    let n = b.param("n", int);
    let difference = NodeSpec::new(kind::ARITH).ty(int).a(PrimOp::Sub.into());
    let sum = (0..N).fold(n, |v, _| b.node(difference, &[n, v], None));
    b.node(NodeSpec::new(kind::EVALUATE).flags(flag::IMPURE), &[sum], None);
    b.end();
    Module::new([("main", main), ("tir", b.finish().expect("valid"))])
}

#[test]
fn nested_expressions_are_checked_and_printed_on_a_small_stack() {
    let thread = std::thread::Builder::new().stack_size(2 << 20).spawn(|| {
        let module = module();
        verify_module(&module, passhost_tests::engine()).expect("well-formed");
        let text = print(&module, &NoOps).expect("the module can be printed");
        assert_eq!(text.matches("R.nn.relu(").count(), N);
        assert_eq!(text.matches("n - ").count(), N);
        let opened = text.bytes().filter(|byte| *byte == b'(').count();
        assert_eq!(opened, text.bytes().filter(|byte| *byte == b')').count());
        let printed = print_with_spans(&module, &NoOps).expect("the module can be printed");
        assert_eq!(printed.text, text);
        let innermost = printed.spans["main"][3].clone();
        assert_eq!(&text[innermost], "R.nn.relu(x)");
    });
    thread.expect("a thread").join().expect("no overflow");
}
