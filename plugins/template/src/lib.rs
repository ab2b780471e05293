//! A passhost plugin: each pass has its own file and is registered here.
#![forbid(unsafe_code)]

pub mod fold_repeated;
pub mod mark_leaves;
pub mod share_calls;

use plugin_api::prelude::*;

export_plugin! {
    passes: [
        fold_repeated::FOLD_REPEATED,
        mark_leaves::MARK_LEAVES,
        share_calls::SHARE_CALLS,
    ]
}
