//! An example of a third-party plugin, after the Relax pass tutorial: groups two successive convolutions.
#![forbid(unsafe_code)]

pub mod group_convolutions;

use plugin_api::prelude::*;

export_plugin! {
    passes: [group_convolutions::GROUP_CONVOLUTIONS],
    config: [group_convolutions::MOST],
}
