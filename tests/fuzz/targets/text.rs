#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use passhost_tests::fuzz;

fuzz_target!(|text: &str| fuzz::text(text));

// One change of four is another module altogether, generated and damaged; the others are any change of bytes.
fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    if seed % 4 == 0 {
        let changed = fuzz::damaged(&data[..size], seed);
        if changed.len() <= max_size.min(data.len()) {
            data[..changed.len()].copy_from_slice(changed.as_bytes());
            return changed.len();
        }
    }
    fuzzer_mutate(data, size, max_size)
});
