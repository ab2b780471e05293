//! Predicts the number of calls that a function makes.

use passhost_lang::ir::Call;
use passhost_lang::ir::{BodyKind, Expr, Module};
use std::collections::HashMap;

/// Maximum depth to which calls of functions are followed.
const DEEPEST: usize = 100;

/// Returns the number of operators, PrimFuncs and packed functions that a call of a Relax function executes if each
/// binding runs once. Recursive calls count as 0.
pub fn calls_of(module: &Module, function: &str) -> u64 {
    count(module, function, &mut HashMap::new(), 0)
}

/// Counts the calls of a function. `known` holds the counts of finished functions, and 0 for unfinished functions.
fn count<'m>(module: &'m Module, function: &'m str, known: &mut HashMap<&'m str, u64>, depth: usize) -> u64 {
    let Some(body) = module.get(function).filter(|body| body.kind() == BodyKind::Function) else { return 1 };
    if let Some(n) = known.get(function) {
        return *n;
    }
    known.insert(function, 0);
    if depth == DEEPEST {
        return 0;
    }
    let calls = body.values().filter_map(|value| value.as_call());
    let n = calls.map(|call| match call.callee().view() {
        Expr::Op(name) => u64::from(takes_time(name)),
        Expr::GlobalVar(name) => count(module, name, known, depth + 1),
        _ => u64::from(is_packed(call)),
    });
    let n = n.fold(0, u64::saturating_add);
    known.insert(function, n);
    n
}

fn is_packed(call: Call<'_>) -> bool {
    matches!(call.callee().view(), Expr::ExternFunc(_))
}

/// Returns true if an operator computes numbers, and does not merely pass values on.
fn takes_time(name: &str) -> bool {
    const SIMPLE: [&str; 10] = [
        "relax.shape_of",
        "relax.tensor_to_shape",
        "relax.shape_to_tensor",
        "relax.null_value",
        "relax.to_vdevice",
        "relax.hint_on_device",
        "relax.make_closure",
        "relax.print",
        "relax.assert_op",
        "relax.builtin.stop_lift_params",
    ];
    let families = ["relax.memory.", "relax.vm.", "relax.builtin.", "relax.invoke_"];
    !SIMPLE.contains(&name) && !families.iter().any(|family| name.starts_with(family))
}
