#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use passhost_tests::fuzz;

fuzz_target!(|data: &[u8]| {
    fuzz::seal(data);
});

// One in eight mutations changes arbitrary bytes; the others keep the sections almost valid.
fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let changed = fuzz::mutate(&data[..size], seed);
    if seed % 8 == 0 || changed.len() > max_size {
        return fuzzer_mutate(data, size, max_size);
    }
    data[..changed.len()].copy_from_slice(&changed);
    changed.len()
});
