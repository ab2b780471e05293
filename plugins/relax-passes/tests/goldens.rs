//! Tests the goldens and doc examples of this plugin's passes.
#![forbid(unsafe_code)]

#[test]
fn goldens() {
    plugin_test::run!(relax_passes);
}
