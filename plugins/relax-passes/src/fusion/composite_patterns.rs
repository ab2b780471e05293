//! The named patterns of FuseOpsByPattern.

use plugin_api::names::{did_you_mean, nearest};
use plugin_api::prelude::*;

/// The groups: the name that follows the name of the compiler, and the parts, which are an operator, an optional bias
/// on either side, and an optional activation.
const ANCHORS: &[(&str, &str)] = &[
    ("conv1d", "relax.nn.conv1d"),
    ("conv2d", "relax.nn.conv2d"),
    ("conv3d", "relax.nn.conv3d"),
    ("conv2d_transpose", "relax.nn.conv2d_transpose"),
    ("matmul", "relax.matmul"),
];

/// Unary operators that can follow an operator of a group.
const ACTIVATIONS: &[(&str, &str)] = &[
    ("relu", "relax.nn.relu"),
    ("gelu", "relax.nn.gelu"),
    ("silu", "relax.nn.silu"),
    ("sigmoid", "relax.sigmoid"),
    ("tanh", "relax.tanh"),
];

/// Operators that form a group on their own.
const SINGLE: &[(&str, &str, usize)] = &[
    ("add", "relax.add", 2),
    ("multiply", "relax.multiply", 2),
    ("subtract", "relax.subtract", 2),
    ("divide", "relax.divide", 2),
    ("softmax", "relax.nn.softmax", 1),
    ("permute_dims", "relax.permute_dims", 1),
    ("max_pool2d", "relax.nn.max_pool2d", 1),
    ("avg_pool2d", "relax.nn.avg_pool2d", 1),
    ("concat", "relax.concat", 1),
    ("split", "relax.split", 1),
];

/// Returns the pattern named `name`, such as `acme.conv2d_bias_relu`.
///
/// # Errors
/// If no pattern has this name.
pub(super) fn pattern_of(name: &str) -> Result<Pattern, PassError> {
    let Some((compiler, group)) = name.split_once('.').filter(|(compiler, _)| !compiler.is_empty()) else {
        bail!(option "`{name}` is not the name of a pattern; write a compiler and a group of operators, as in `acme.conv2d_relu`");
    };
    let all = all();
    match all.iter().find(|(known, _)| known == group) {
        Some((_, pattern)) => Ok(pattern.clone().named(name).in_one_block()),
        None => {
            let near = nearest(group, all.iter().map(|(known, _)| known.as_str()));
            let near: Vec<String> = near.into_iter().map(|group| format!("{compiler}.{group}")).collect();
            if near.is_empty() {
                let groups: Vec<&str> = all.iter().map(|(known, _)| known.as_str()).collect();
                bail!(option "unknown pattern `{name}`; the compiler must be followed by one of {}", groups.join(", "));
            }
            bail!(option "unknown pattern `{name}`{}", did_you_mean(&near));
        }
    }
}

/// Returns all groups with their names.
fn all() -> Vec<(String, Pattern)> {
    let mut all: Vec<(String, Pattern)> = Vec::new();
    for (name, op) in ANCHORS {
        let anchor = is_op(op, [wildcard(), wildcard()]);
        let bias = is_commutative("relax.add", anchor.clone(), wildcard());
        for (name, pattern) in [(name.to_string(), anchor), (format!("{name}_bias"), bias)] {
            for (activation, op) in ACTIVATIONS {
                all.push((format!("{name}_{activation}"), is_op(op, [pattern.clone()])));
            }
            all.push((name, pattern));
        }
    }
    all.extend(ACTIVATIONS.iter().map(|(name, op)| (name.to_string(), is_op(op, [wildcard()]))));
    all.extend(SINGLE.iter().map(|(name, op, n)| (name.to_string(), is_op(op, vec![wildcard(); *n]))));
    all
}
