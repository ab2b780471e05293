//! Tests that parsing allocates memory in proportion to the size of the text, whatever its content.

use passhost_tests::fuzz;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

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
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Returns a function of one tensor `x` and a condition `c`, with these lines.
fn function(lines: &[String]) -> String {
    let lines: String = lines.iter().map(|line| format!("        {line}\n")).collect();
    format!(
        "@I.ir_module\nclass Module:\n    @R.function(pure=False)\n    def main(x: R.Tensor((2,), \"float32\"), \
         c: R.Tensor((), \"bool\"), f: R.Callable):\n{lines}"
    )
}

/// Returns texts in which each line creates a type that is twice as large as the previous type, or one level
/// deeper.
fn bombs(n: usize) -> Vec<(&'static str, String)> {
    let lines = |first: &str, line: &dyn Fn(usize) -> String, result: &str| {
        let all = [first.to_string()].into_iter().chain((1..=n).map(line)).chain([format!("return {result}{n}")]);
        function(&all.collect::<Vec<_>>())
    };
    let before = |i: usize| i - 1;
    vec![
        ("tuples", lines("t0 = (x, x)", &|i| format!("t{i} = (t{0}, t{0})", before(i)), "t")),
        ("R.tuple", lines("t0 = R.tuple(x, x)", &|i| format!("t{i} = R.tuple(t{0}, t{0})", before(i)), "t")),
        ("declared vaguely", lines("t0 = (x, x)", &|i| format!("t{i}: R.Any = (t{0}, t{0})", before(i)), "t")),
        ("not returned", lines("t0 = (x, x)", &|i| format!("t{i} = (t{0}, t{0})", before(i)), "x if c else t")),
        ("arguments", lines("t0 = (x, x)", &|i| format!("t{i} = (t{0}, f(t{0}), t{0})", before(i)), "t")),
        ("elements", lines("t0 = (x, x)", &|i| format!("t{i} = ((t{0}, t{0}), t{0}[0])[0]", before(i)), "t")),
        (
            "branches",
            lines(
                "t0 = (x, x)",
                &|i| {
                    let (a, b) = (before(i), "        ");
                    format!("if c:\n{b}    t{i} = (t{a}, t{a})\n{b}else:\n{b}    t{i} = (t{a}, t{a})")
                },
                "t",
            ),
        ),
        (
            "functions",
            lines(
                "t0 = (x, x)",
                &|i| {
                    let (a, b) = (before(i), "        ");
                    format!(
                        "@R.function\n{b}def g{i}(y: R.Tensor((2,), \"float32\")):\n{b}    return (t{a}, t{a})\n\
                         {b}t{i} = g{i}(x)"
                    )
                },
                "t",
            ),
        ),
        ("depth", lines("t0 = (x,)", &|i| format!("t{i} = (t{},)", before(i)), "t")),
    ]
}

/// This is the only test of the program, because it counts the allocations of all threads.
#[test]
fn reading_takes_in_proportion_to_the_text() {
    // The first text causes allocations that all later texts share.
    drop(fuzz::read(&bombs(1)[0].1));
    let mut refused = 0;
    for n in (1..40).chain([100, 1_000, 3_000]) {
        for (what, text) in bombs(n) {
            let (before, start) = (USED.load(Relaxed), Instant::now());
            PEAK.store(before, Relaxed);
            let read = fuzz::read(&text);
            let peak = PEAK.load(Relaxed) - before;
            assert!(peak <= 100 * text.len() + (64 << 10), "{what} {n}: {peak} bytes for a text of {}", text.len());
            assert!(start.elapsed() < Duration::from_secs(5), "{what} {n}: {:?}", start.elapsed());
            if let Err(error) = read {
                let found = &error.diagnostics[0];
                assert!(found.span.end <= text.len() && !text[found.span.clone()].is_empty(), "{what} {n}: {error}");
                refused += usize::from(found.message.contains("the type of this value"));
            }
        }
    }
    assert!(refused > 100, "{refused} texts were refused for their types");
}
