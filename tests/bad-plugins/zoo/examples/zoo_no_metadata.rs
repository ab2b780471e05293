//! A library with the entry of a plugin and nothing else of one.
#![allow(unsafe_code, reason = "a name as it stands")]

/// Gives no table; nobody gets so far as to call it.
#[unsafe(no_mangle)]
pub extern "C" fn passhost_plugin_entry_v1() -> *const u8 {
    std::ptr::null()
}
