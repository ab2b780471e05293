//! Common code of the two plugins, including the names that they export.

use plugin_api::prelude::*;
use std::sync::atomic::{AtomicU32, Ordering};

/// Visible to other libraries, under the same name as in the other plugin.
#[unsafe(no_mangle)]
pub(crate) static ZOO_NUMBER: AtomicU32 = AtomicU32::new(super::NUMBER);

/// Also visible to other libraries.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn zoo_number() -> u32 {
    ZOO_NUMBER.load(Ordering::Relaxed)
}

pub(crate) fn tell(module: &Module, ctx: &Ctx) -> Result<Module, PassError> {
    ctx.diagnostics().report(Severity::Remark, None, &format!("the number is {}", zoo_number()));
    Ok(module.clone())
}
