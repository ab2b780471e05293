//! A library with only the entry symbol of a plugin.
#![allow(unsafe_code, reason = "a name as it stands")]

/// Returns no table; it is never called.
#[unsafe(no_mangle)]
pub extern "C" fn passhost_plugin_entry_v1() -> *const u8 {
    std::ptr::null()
}
