#![no_main]

use libfuzzer_sys::fuzz_target;
use script::NoOps;

fuzz_target!(|text: &str| {
    let Ok(module) = script::read(text, &NoOps) else { return };
    let printed = script::print(&module, &NoOps);
    let again = script::read(&printed, &NoOps).expect("what is printed can be read");
    assert!(again.structural_eq(&module), "{printed}");
});
