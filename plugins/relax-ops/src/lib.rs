//! Operators of Relax: signature, attributes with types and defaults, purity, and the rule for the type of a call.
//!
//! One file for each family of rules. Names, attributes and their printing order are those of TVM 0.27.
#![forbid(unsafe_code)]

mod calls;
mod conv;
mod declare;
mod elementwise;
mod linear;
mod manipulate;
mod norm;
mod pool;
mod reduce;

use plugin_api::export_plugin;
use plugin_api::op::OpDecl;

const N: usize = elementwise::OPERATORS.len()
    + conv::OPERATORS.len()
    + pool::OPERATORS.len()
    + reduce::OPERATORS.len()
    + manipulate::OPERATORS.len()
    + linear::OPERATORS.len()
    + norm::OPERATORS.len()
    + calls::OPERATORS.len();

const fn all() -> [OpDecl; N] {
    let families: [&[OpDecl]; 8] = [
        elementwise::OPERATORS,
        conv::OPERATORS,
        pool::OPERATORS,
        reduce::OPERATORS,
        manipulate::OPERATORS,
        linear::OPERATORS,
        norm::OPERATORS,
        calls::OPERATORS,
    ];
    let mut out = [elementwise::OPERATORS[0]; N];
    let (mut family, mut at) = (0, 0);
    while family < families.len() {
        let mut i = 0;
        while i < families[family].len() {
            out[at] = families[family][i];
            at += 1;
            i += 1;
        }
        family += 1;
    }
    out
}

/// All operators.
pub const OPERATORS: &[OpDecl] = &all();

export_plugin! { operators: OPERATORS }
