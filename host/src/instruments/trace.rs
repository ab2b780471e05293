//! Records a run as spans in the Chrome trace format, which Perfetto and `chrome://tracing` display.

use serde_json::{Value, json};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Spans of all threads, in the order of their start. Clones share them.
#[derive(Clone)]
pub struct Trace(Arc<Recorder>);

struct Recorder {
    clock: Box<dyn Fn() -> Duration + Send + Sync>,
    /// Maximum number of recorded spans.
    most: usize,
    events: Mutex<Events>,
}

#[derive(Default)]
struct Events {
    recorded: Vec<Event>,
    /// Number of spans after the recorded ones.
    more: usize,
}

struct Event {
    category: &'static str,
    name: String,
    args: Value,
    thread: usize,
    begin: Duration,
    /// The end of the span; `None` while it is open.
    end: Option<Duration>,
}

/// A guard that ends its span when it is dropped.
#[must_use = "the span ends when this is dropped"]
pub struct Span {
    trace: Trace,
    /// The place of the event; `None` if it is not recorded.
    at: Option<usize>,
}

impl Span {
    /// Adds an argument that was not known at the start.
    pub fn note(&self, key: &str, value: &str) {
        let Some(at) = self.at else { return };
        if let Some(args) = self.trace.events().recorded.get_mut(at).and_then(|event| event.args.as_object_mut()) {
            args.insert(key.to_string(), value.into());
        }
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        let Some(at) = self.at else { return };
        let now = (self.trace.0.clock)();
        if let Some(event) = self.trace.events().recorded.get_mut(at) {
            event.end = Some(now);
        }
    }
}

/// Process number, the same for all events.
const PROCESS: u32 = 1;

/// Returns the number of the current thread: 1 for the thread of the run, then threads for passes over functions.
fn thread() -> usize {
    rayon::current_thread_index().map_or(1, |at| at + 2)
}

impl Default for Trace {
    fn default() -> Self {
        Trace::new()
    }
}

impl Trace {
    /// Starts the clock.
    pub fn new() -> Trace {
        let start = Instant::now();
        Trace::with_clock(Box::new(move || start.elapsed()))
    }

    /// Starts the clock. Records the first `most` spans, and counts the others.
    pub fn of_first(most: usize) -> Trace {
        let start = Instant::now();
        Trace::recording(Box::new(move || start.elapsed()), most)
    }

    /// Uses a different clock, for tests.
    pub fn with_clock(clock: Box<dyn Fn() -> Duration + Send + Sync>) -> Trace {
        Trace::recording(clock, usize::MAX)
    }

    fn recording(clock: Box<dyn Fn() -> Duration + Send + Sync>, most: usize) -> Trace {
        Trace(Arc::new(Recorder { clock, most, events: Mutex::default() }))
    }

    fn events(&self) -> MutexGuard<'_, Events> {
        self.0.events.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a span on this thread. `args` is an object with more facts.
    pub fn span(&self, category: &'static str, name: &str, args: Value) -> Span {
        let (name, thread) = (name.to_string(), thread());
        let mut events = self.events();
        let at = (events.recorded.len() < self.0.most).then_some(events.recorded.len());
        match at {
            Some(_) => {
                let begin = (self.0.clock)();
                events.recorded.push(Event { category, name, args, thread, begin, end: None });
            }
            None => events.more += 1,
        }
        drop(events);
        Span { trace: self.clone(), at }
    }

    /// Returns all events so far, one per line. Spans that are still open end at the current time.
    pub fn json(&self) -> String {
        let now = (self.0.clock)();
        let events = self.events();
        let mut out = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[".to_string();
        // Events are converted and written one at a time, because all events of a long run as JSON values would
        // take gigabytes.
        for (at, line) in lines(&events.recorded, now).enumerate() {
            out.push_str(if at == 0 { "\n" } else { ",\n" });
            out.push_str(&line.to_string());
        }
        out.push_str("\n]}\n");
        out
    }

    /// Returns the first events, and the number of the remaining ones.
    pub fn first(&self, most: usize) -> (Vec<Value>, usize) {
        let now = (self.0.clock)();
        let events = self.events();
        let shown = &events.recorded[..events.recorded.len().min(most)];
        let more = events.recorded.len() - shown.len() + events.more;
        (lines(shown, now).collect(), more)
    }
}

/// Converts events to values. The names of the threads come first.
fn lines(events: &[Event], now: Duration) -> impl Iterator<Item = Value> {
    let mut threads: Vec<usize> = events.iter().map(|event| event.thread).collect();
    threads.sort_unstable();
    threads.dedup();
    let names = threads.into_iter().map(|thread| {
        let name = if thread == 1 { "run".to_string() } else { format!("functions {}", thread - 1) };
        named("thread_name", thread, name)
    });
    let process = named("process_name", 0, "passhost".to_string());
    std::iter::once(process).chain(names).chain(events.iter().map(move |event| event.json(now)))
}

/// Returns the event that names a thread or the process.
fn named(what: &str, thread: usize, name: String) -> Value {
    json!({ "ph": "M", "name": what, "pid": PROCESS, "tid": thread, "args": { "name": name } })
}

impl Event {
    fn json(&self, now: Duration) -> Value {
        let micros = |time: Duration| time.as_nanos() as f64 / 1e3;
        json!({
            "ph": "X",
            "cat": self.category,
            "name": self.name,
            "pid": PROCESS,
            "tid": self.thread,
            "ts": micros(self.begin),
            "dur": micros(self.end.unwrap_or(now).saturating_sub(self.begin)),
            "args": self.args,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// Nested spans, spans of another thread, and spans that never ended are listed in the order of their start.
    #[test]
    fn spans_have_begin_length_and_thread() {
        static NOW: AtomicU64 = AtomicU64::new(0);
        let trace = Trace::with_clock(Box::new(|| Duration::from_nanos(NOW.load(Ordering::Relaxed))));
        let after = |ns| NOW.fetch_add(ns, Ordering::Relaxed);
        let outer = trace.span("pass", "t.\"Outer\"", json!({ "step": 1 }));
        after(1500);
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a thread");
        pool.install(|| {
            let _inner = trace.span("function", "f", json!({}));
            after(250);
        });
        drop(outer);
        let open = trace.span("passhost", "write", json!({}));
        open.note("failed", "no room");
        after(1000);
        let json: Value = serde_json::from_str(&trace.json()).expect("valid JSON");
        let events = json["traceEvents"].as_array().expect("a list");
        let shown: Vec<String> = events
            .iter()
            .map(|event| match event["ph"].as_str() {
                Some("X") => {
                    format!("{} {} {} {} {}", event["tid"], event["ts"], event["dur"], event["name"], event["args"])
                }
                _ => format!("{} {}", event["tid"], event["args"]["name"]),
            })
            .collect();
        let expected = [
            "0 \"passhost\"",
            "1 \"run\"",
            "2 \"functions 1\"",
            "1 0.0 1.75 \"t.\\\"Outer\\\"\" {\"step\":1}",
            "2 1.5 0.25 \"f\" {}",
            "1 1.75 1.0 \"write\" {\"failed\":\"no room\"}",
        ];
        assert_eq!(shown, expected);
    }

    /// Spans beyond the limit take no memory, but are counted.
    #[test]
    fn the_first_spans_are_kept_and_all_are_counted() {
        let trace = Trace::of_first(2);
        let outer = trace.span("run", "outer", json!({}));
        for n in 0..10 {
            trace.span("pass", "inner", json!({ "n": n })).note("more", "x");
        }
        drop(outer);
        let (events, more) = trace.first(5);
        let spans: Vec<&Value> = events.iter().filter(|event| event["ph"] == "X").collect();
        assert_eq!((spans.len(), more), (2, 9));
        assert_eq!((&spans[0]["name"], &spans[1]["args"]["more"]), (&json!("outer"), &json!("x")));
        assert_eq!(trace.events().recorded.len(), 2);
    }
}
