//! The goldens of this plugin's passes.
#![forbid(unsafe_code)]

#[test]
fn goldens() {
    plugin_test::run_goldens(env!("CARGO_MANIFEST_DIR"), env!("CARGO_PKG_NAME"));
}
