#![no_main]

use libfuzzer_sys::fuzz_target;
use passhost::Manifest;
use std::path::Path;

fuzz_target!(|text: &str| {
    if let Err(error) = Manifest::parse(Path::new("passes.toml"), text) {
        assert!(!error.to_string().is_empty());
    }
});
