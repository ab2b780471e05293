//! Calls a function that no library defines. Only some linkers allow that.

use plugin_api::prelude::*;

export_plugin! {
    /// Calls a function that does not exist.
    function pass "zoo.CallsNobody" { opt_level: 0, run: calls_nobody }
}

#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "a function of nobody")]
mod nobody {
    unsafe extern "C" {
        pub(super) safe fn zoo_nobody_has_this();
    }
}

fn calls_nobody(body: &Body, _: &Ctx) -> Result<Body, PassError> {
    #[cfg(target_os = "linux")]
    nobody::zoo_nobody_has_this();
    Ok(body.clone())
}
