#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use passhost_tests::fuzz;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// An allocator that counts the bytes in use.
struct Counting;

static USED: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: the system's allocator does all the work; this allocator only counts.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let used = USED.fetch_add(layout.size(), Relaxed) + layout.size();
        PEAK.fetch_max(used, Relaxed);
        // SAFETY: guaranteed by the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        USED.fetch_sub(layout.size(), Relaxed);
        // SAFETY: guaranteed by the caller.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        USED.fetch_sub(layout.size(), Relaxed);
        let used = USED.fetch_add(size, Relaxed) + size;
        PEAK.fetch_max(used, Relaxed);
        // SAFETY: guaranteed by the caller.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Bytes that parsing any text may use.
const FIXED: usize = 64 << 10;

fuzz_target!(|text: &str| {
    let before = USED.load(Relaxed);
    PEAK.store(before, Relaxed);
    let read = fuzz::read(text);
    let peak = PEAK.load(Relaxed) - before;
    assert!(peak <= 100 * text.len() + FIXED, "{peak} bytes for a text of {}", text.len());
    drop(read);
    fuzz::text(text);
});

// One in four mutations replaces the input by another generated and damaged module; the others change arbitrary bytes.
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
