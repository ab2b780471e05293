//! What the two plugins have in common, down to the name of what they export.

use plugin_api::prelude::*;
use std::sync::atomic::{AtomicU32, Ordering};

/// Other libraries see it, under the same name as the one of the other plugin.
#[unsafe(no_mangle)]
pub(crate) static ZOO_NUMBER: AtomicU32 = AtomicU32::new(super::NUMBER);

/// So is this.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn zoo_number() -> u32 {
    ZOO_NUMBER.load(Ordering::Relaxed)
}

pub(crate) fn tell(module: &Module, ctx: &Ctx) -> Result<Module, PassError> {
    ctx.diagnostics().report(Severity::Remark, None, &format!("the number is {}", zoo_number()));
    Ok(module.clone())
}
