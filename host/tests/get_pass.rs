//! Tests the process-wide `GetPass`. There is only one test, because it changes the state of the process.
#![forbid(unsafe_code)]

use passhost::{Manifest, get_pass, load_manifest};
use std::path::Path;

#[test]
fn get_pass_finds_the_passes_of_the_manifest_that_was_loaded_last() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the root of the workspace");
    let error = get_pass("relax.Normalize").expect_err("nothing is loaded yet").to_string();
    assert_eq!(error, "unknown pass `relax.Normalize`: plugins were not loaded");

    let manifest = |plugin: &str| {
        let text = format!("[[plugin]]\ncrate = \"{}\"\n", root.join(plugin).display());
        Manifest::parse(Path::new("passes.toml"), &text).expect("a manifest")
    };
    load_manifest(&manifest("plugins/relax-passes")).expect("the standard passes");
    for name in ["relax.Normalize", "Normalize"] {
        assert_eq!(get_pass(name).expect("it is there").to_string(), "relax.Normalize");
    }
    let error = get_pass("Normalise").expect_err("it is misspelt").to_string();
    assert_eq!(error, "unknown pass `Normalise`; did you mean `relax.Normalize`?");

    // A manifest that cannot be loaded changes nothing. A manifest that can be loaded replaces the previous manifest.
    load_manifest(&manifest("nowhere")).map(|_| ()).expect_err("there is no such plugin");
    assert!(get_pass("relax.Normalize").is_ok());
    load_manifest(&manifest("plugins/conv-grouping")).expect("a third party's plugin");
    assert!(get_pass("acme.GroupConvolutions").is_ok());
    assert!(get_pass("relax.Normalize").is_err());
}
