//! Brings functions into A-normal form: every value that is computed has a name.
//!
//! *Expects* any function. *Keeps* the order of evaluation, blocks, names and types. *Never* changes what is computed.

use plugin_api::ir::records::{flag, kind};
use plugin_api::prelude::*;

declare_pass! {
    /// Brings functions into A-normal form: nested calls become bindings.
    ///
    /// Expects any function. Keeps the order of evaluation, blocks, names and types. Never changes what is computed.
    /// Tuples, constants and shapes may stay where they are used.
    ///
    /// ```relax before
    /// @R.function
    /// def main(x: R.Tensor((2, 3), "float32")):
    ///     y = R.nn.relu(R.add(x, x))
    ///     return y
    /// ```
    /// ```relax after
    /// @R.function
    /// def main(x: R.Tensor((2, 3), "float32")):
    ///     gv = R.add(x, x)
    ///     y = R.nn.relu(gv)
    ///     return y
    /// ```
    pub function pass NORMALIZE = "relax.Normalize" {
        opt_level: 1,
        establishes: ["relax.anf"],
        preserves: ["all"],
        run: normalize,
    }
}

declare_property! {
    /// A-normal form: every value that is computed has a name.
    ///
    /// Tuples, constants and shapes may stand where they are used.
    pub ANF = "relax.anf" { check: is_normal }
}

fn is_normal(function: &Body, _: &Ctx) -> Result<(), PassError> {
    match function.values().find(|value| needs_name(*value)) {
        Some(value) => bail!(at value, "a value is computed inside another expression and has no name"),
        None => Ok(()),
    }
}

fn normalize(body: &Body, _: &Ctx) -> Result<Body, PassError> {
    let nested: Vec<Value<'_>> = body.values().filter(|value| needs_name(*value)).collect();
    if nested.is_empty() {
        return Ok(body.clone());
    }
    let parents = body.parents();
    let mut edit = body.edit();
    let mut outside: Vec<Value<'_>> = Vec::new();
    for value in nested {
        let v = edit.v(value);
        match body.value_at(parents[value.index().unwrap_or(0)] as usize).kind() {
            kind::DATAFLOW => {
                edit.bind(v, "lv");
                edit.update(v, |node| node.flags |= flag::INNER);
            }
            kind::BLOCK => edit.bind(v, "gv"),
            _ => {
                edit.bind(v, "gv");
                outside.push(value);
            }
        }
    }
    // What a `return` computes stands in no block yet. Blocks that follow each other become one.
    for value in outside {
        edit.just_before(first_nested(value)).open(NodeSpec::new(kind::BLOCK), &[], None);
        edit.after(value).close();
    }
    Ok(edit.finish()?)
}

/// Where the expression that `value` ends begins: tuples that stay nested in it come first.
fn first_nested(value: Value<'_>) -> Value<'_> {
    let nested = value.operands().filter(|operand| operand.is_nested() && operand.kind() == kind::TUPLE);
    nested.map(first_nested).min_by_key(|first| first.index()).unwrap_or(value)
}

/// A nested value that must have a name: all but tuples, and the value of a binding at a wider type.
fn needs_name(value: Value<'_>) -> bool {
    value.is_nested() && value.kind() != kind::TUPLE && !is_value_of_alias(value)
}

/// Its user follows it directly, since nothing can stand between an alias and its one operand.
fn is_value_of_alias(value: Value<'_>) -> bool {
    let next = value.sibling(value.end());
    next.kind() == kind::ALIAS && next.operand(0) == Some(value)
}
