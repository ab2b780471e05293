//! Measures the time of a run as a tree of spans. An instrument adds the spans of passes, and the program adds the
//! spans around them.

use super::trace::Trace;
use passhost_lang::PassError;
use passhost_lang::ir::Module;
use passhost_lang::metadata::Granularity;
use plugin_api::declare::instrument::{PassFacts, PassInstrument};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// One span of the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// Name of the span.
    pub name: String,
    /// Nesting depth; 0 for the whole run.
    pub depth: usize,
    /// Time from the start to the end of the span.
    pub total: Duration,
    /// The part of that time that is not in nested spans.
    pub own: Duration,
    /// True if the span is a pass that failed.
    pub failed: bool,
}

/// The spans in the order of their start; some of them may still be open.
struct Tree {
    clock: Box<dyn Fn() -> Duration>,
    /// Each span with its start time, and whether it is a pass.
    spans: Vec<(Span, Duration, bool)>,
    open: Vec<usize>,
}

impl Tree {
    fn begin(&mut self, name: &str, is_pass: bool) {
        let span = Span {
            name: name.to_string(),
            depth: self.open.len(),
            total: Duration::ZERO,
            own: Duration::ZERO,
            failed: false,
        };
        self.open.push(self.spans.len());
        self.spans.push((span, (self.clock)(), is_pass));
    }

    fn end(&mut self, failed: bool) {
        let now = (self.clock)();
        if let Some((span, begin, _)) = self.open.pop().and_then(|at| self.spans.get_mut(at)) {
            (span.total, span.failed) = (now.saturating_sub(*begin), failed);
        }
    }
}

/// A clock with the tree that it fills. Clones share it.
#[derive(Clone)]
pub struct Timing(Rc<RefCell<Tree>>, Option<Trace>);

impl Default for Timing {
    fn default() -> Self {
        Timing::new()
    }
}

impl Timing {
    /// Starts the total time.
    pub fn new() -> Timing {
        let start = Instant::now();
        Timing::with_clock(Box::new(move || start.elapsed()))
    }

    /// Uses a different clock, for tests.
    pub fn with_clock(clock: Box<dyn Fn() -> Duration>) -> Timing {
        let mut tree = Tree { clock, spans: Vec::new(), open: Vec::new() };
        tree.begin("total", false);
        Timing(Rc::new(RefCell::new(tree)), None)
    }

    /// Also adds the program's spans to a trace.
    pub fn traced(self, trace: Option<Trace>) -> Timing {
        Timing(self.0, trace)
    }

    /// Runs a function as a span. Passes inside the span that did not end, as in a TVM-compatible run, count as failed.
    pub fn span<R>(&self, name: &str, f: impl FnOnce() -> R) -> R {
        let depth = self.0.borrow().open.len();
        self.0.borrow_mut().begin(name, false);
        let span = self.1.as_ref().map(|trace| trace.span("passhost", name, serde_json::json!({})));
        let result = f();
        drop(span);
        let mut tree = self.0.borrow_mut();
        while tree.open.len() > depth + 1 {
            tree.end(true);
        }
        tree.end(false);
        result
    }

    /// Creates the instrument that adds a span for each pass.
    pub fn instrument(&self) -> Box<dyn PassInstrument> {
        Box::new(Passes(self.clone()))
    }

    /// Returns all spans so far. `verify` contains the verification time of each pass that did not fail, in order; it is added to the
    /// span of the pass.
    pub fn spans(&self, verify: &[Duration]) -> Vec<Span> {
        let tree = self.0.borrow();
        let now = (tree.clock)();
        let mut verify = verify.iter();
        let mut out: Vec<Span> = Vec::with_capacity(tree.spans.len());
        for (at, (span, begin, is_pass)) in tree.spans.iter().enumerate() {
            let mut span = span.clone();
            if tree.open.contains(&at) {
                span.total = now.saturating_sub(*begin);
            }
            let depth = span.depth;
            let done = *is_pass && !span.failed;
            out.push(span);
            if let Some(time) = done.then(|| verify.next()).flatten().copied() {
                out.push(Span { name: "verify".to_string(), depth: depth + 1, total: time, own: time, failed: false });
            }
        }
        own_times(&mut out);
        out
    }
}

/// Computes the self time of each span, which excludes the spans directly inside it.
fn own_times(spans: &mut [Span]) {
    let mut path: Vec<usize> = Vec::new();
    for at in 0..spans.len() {
        let (depth, total) = (spans[at].depth, spans[at].total);
        path.truncate(depth);
        spans[at].own = total;
        if let Some(parent) = path.last() {
            spans[*parent].own = spans[*parent].own.saturating_sub(total);
        }
        path.push(at);
    }
}

/// Adds the spans of passes.
struct Passes(Timing);

impl PassInstrument for Passes {
    fn run_before(&mut self, _: &Module, pass: &PassFacts<'_>) -> Result<(), PassError> {
        // For a Sequential, only its members are verified.
        self.0.0.borrow_mut().begin(pass.name, pass.granularity != Granularity::Composite);
        Ok(())
    }

    fn run_after(&mut self, _: &Module, _: &PassFacts<'_>) -> Result<(), PassError> {
        self.0.0.borrow_mut().end(false);
        Ok(())
    }

    fn run_failed(&mut self, _: &Module, _: &PassFacts<'_>, _: &str) -> Result<(), PassError> {
        self.0.0.borrow_mut().end(true);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    fn shown(timing: &Timing, verify: &[u64]) -> Vec<String> {
        let verify: Vec<Duration> = verify.iter().map(|ms| Duration::from_millis(*ms)).collect();
        let line = |span: &Span| {
            let failed = if span.failed { " failed" } else { "" };
            let (total, own) = (span.total.as_millis(), span.own.as_millis());
            format!("{}{} {total} [{own}]{failed}", "  ".repeat(span.depth), span.name)
        };
        timing.spans(&verify).iter().map(line).collect()
    }

    /// The span of a nested or failed pass ends when the pass ends.
    #[test]
    fn total_and_own_time_are_right_also_after_a_failing_pass() {
        let clock = Rc::new(Cell::new(0));
        let (now, module) = (Rc::clone(&clock), Module::new(Vec::<(String, passhost_lang::ir::Body)>::new()));
        let timing = Timing::with_clock(Box::new(move || Duration::from_millis(now.get())));
        let pass = |name| PassFacts::new(name, "t", Granularity::Module, 0, &[], 1);
        let after = |ms| clock.set(clock.get() + ms);
        timing.span("read", || after(5));
        timing.span("passes", || {
            let mut instrument = timing.instrument();
            after(1);
            instrument.run_before(&module, &pass("t.Outer")).expect("a span");
            after(10);
            instrument.run_before(&module, &pass("t.Fails")).expect("a span");
            after(3);
            instrument.run_failed(&module, &pass("t.Fails"), "it fails").expect("a span");
            after(4);
            instrument.run_after(&module, &pass("t.Outer")).expect("a span");
            instrument.run_before(&module, &pass("t.Next")).expect("a span");
            after(7);
            instrument.run_after(&module, &pass("t.Next")).expect("a span");
        });
        after(2);
        let lines = [
            "total 32 [2]",
            "  read 5 [5]",
            "  passes 25 [1]",
            "    t.Outer 17 [12]",
            "      verify 2 [2]",
            "      t.Fails 3 [3] failed",
            "    t.Next 7 [6]",
            "      verify 1 [1]",
        ];
        assert_eq!(shown(&timing, &[2, 1]), lines);
    }
}
