#![no_main]

libfuzzer_sys::fuzz_target!(|section: &[u8]| passhost_tests::fuzz::metadata(section));
