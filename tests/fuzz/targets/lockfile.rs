#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| passhost_tests::fuzz::lockfile(text));
