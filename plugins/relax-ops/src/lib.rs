//! Relax operators: signatures, attributes with types and defaults, purity, and type rules.
//!
//! One file for each family of rules. Names, attributes and their printing order are those of TVM 0.27.
//! `tests/data/differences.txt` explains each rule that is stricter or looser than TVM's.
#![forbid(unsafe_code)]

mod calls;
mod conv;
mod create;
mod declare;
mod distributed;
mod elementwise;
mod image;
mod index;
mod index_map;
mod layout;
mod legalize;
mod linear;
mod loss;
mod manipulate;
mod norm;
mod pool;
mod reduce;
mod runtime;
mod search;
mod sort;
mod split;
mod train;
mod type_rules;
mod view;
mod vision;

use plugin_api::export_plugin;
use plugin_api::typing::operators::OpDecl;

const FAMILIES: [&[OpDecl]; 18] = [
    elementwise::OPERATORS,
    linear::OPERATORS,
    conv::OPERATORS,
    pool::OPERATORS,
    norm::OPERATORS,
    loss::OPERATORS,
    reduce::OPERATORS,
    manipulate::OPERATORS,
    index::OPERATORS,
    sort::OPERATORS,
    search::OPERATORS,
    create::OPERATORS,
    image::OPERATORS,
    vision::OPERATORS,
    calls::OPERATORS,
    runtime::OPERATORS,
    train::OPERATORS,
    distributed::OPERATORS,
];

const N: usize = {
    let (mut n, mut family) = (0, 0);
    while family < FAMILIES.len() {
        n += FAMILIES[family].len();
        family += 1;
    }
    n
};

const fn all() -> [OpDecl; N] {
    let mut out = [elementwise::OPERATORS[0]; N];
    let (mut family, mut at) = (0, 0);
    while family < FAMILIES.len() {
        let mut i = 0;
        while i < FAMILIES[family].len() {
            out[at] = FAMILIES[family][i];
            at += 1;
            i += 1;
        }
        family += 1;
    }
    out
}

/// All operators.
pub const OPERATORS: &[OpDecl] = &legalize::with_legalizations(all());

export_plugin! { operators: OPERATORS }
