//! Tracks the open spans of plugins, and the entered spans of each thread.
//!
//! A plugin can forget to leave a span, or keep a guard for later. The host's `tracing` would then attribute all later
//! events to that span. Therefore, spans are left here at the end of the call or thread in which they were entered; a
//! guard dropped later has no effect. Plugins refer to spans by number.

use crate::abi::host::log::{Parent, fields, sink, span};
use crate::services::{NO_SPAN, RawBytes, SpanOp, SpanRecord, parent};
use std::cell::RefCell;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use tracing::Span;
use tracing::field::display;

/// Maximum number of open spans of all plugins, in case a plugin never closes its spans.
const MOST_OPEN: usize = 1 << 16;

static OPEN: LazyLock<Mutex<HashMap<u64, Span>>> = LazyLock::new(Mutex::default);

fn open() -> MutexGuard<'static, HashMap<u64, Span>> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn find(id: u64) -> Option<Span> {
    open().get(&id).cloned()
}

/// The entered spans of a thread, in order of entry.
struct Entered {
    spans: Vec<(u64, Span)>,
    /// Spans before this index belong to outer calls.
    base: usize,
}

/// Leaves the remaining spans when the thread ends.
struct AtEnd;

impl Drop for AtEnd {
    fn drop(&mut self) {
        // A subscriber may already have dropped its thread-local data, and panic.
        let left = catch_unwind(AssertUnwindSafe(|| while leave_last(0) {}));
        left.unwrap_or_else(std::mem::forget);
    }
}

thread_local! {
    static ENTERED: RefCell<Entered> = const { RefCell::new(Entered { spans: Vec::new(), base: 0 }) };
    /// Must be initialized after the subscriber's thread-locals, so that it is dropped first.
    static AT_END: AtEnd = const { AtEnd };
}

/// Leaves the span that was entered last, if there are more than `base` spans. Returns true if a span was left.
fn leave_last(base: usize) -> bool {
    let pop = |entered: &mut Entered| if entered.spans.len() > base { entered.spans.pop() } else { None };
    with_entered(pop).flatten().map(|(_, span)| span.with_subscriber(|(id, subscriber)| subscriber.exit(id))).is_some()
}

/// A call into a plugin. When it ends, spans that were entered during the call are left.
pub(in crate::abi) struct Call {
    outer: usize,
}

/// Spans that stay entered after their call, between two matching events of an instrument. They belong to a single
/// thread.
#[derive(Default)]
pub(in crate::abi) struct Kept(Vec<(u64, Span)>);

impl Call {
    pub(in crate::abi) fn begin() -> Call {
        Call::resume(Kept::default())
    }

    /// Starts a call that continues an earlier call.
    pub(in crate::abi) fn resume(kept: Kept) -> Call {
        let begin = |entered: &mut Entered| {
            let outer = std::mem::replace(&mut entered.base, entered.spans.len());
            entered.spans.extend(kept.0);
            outer
        };
        Call { outer: with_entered(begin).unwrap_or(0) }
    }

    /// Ends the call without leaving the spans that were entered in it.
    pub(in crate::abi) fn pause(self) -> Kept {
        Kept(with_entered(|entered| entered.spans.split_off(entered.base)).unwrap_or_default())
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let base = with_entered(|entered| entered.base).unwrap_or(0);
        while leave_last(base) {}
        with_entered(|entered| entered.base = self.outer);
    }
}

/// Returns `None` while the thread ends, because an instrument may be dropped that late.
fn with_entered<R>(f: impl FnOnce(&mut Entered) -> R) -> Option<R> {
    ENTERED.try_with(|entered| f(&mut entered.borrow_mut())).ok()
}

/// # Safety
/// The record and its strings are alive during the call.
pub(in crate::abi) unsafe fn wanted(record: *const SpanRecord) -> bool {
    // SAFETY: guaranteed by the caller.
    sink().is_some_and(|sink| sink.span_enabled(&unsafe { span(record, |_| Parent::Current) }))
}

/// # Safety
/// The record and its strings are alive during the call.
pub(in crate::abi) unsafe fn new(record: *const SpanRecord) -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let Some(sink) = sink().filter(|_| open().len() < MOST_OPEN) else { return NO_SPAN };
    let parent = |id: u64| match id {
        parent::CURRENT => Parent::Current,
        parent::NONE => Parent::None,
        id => find(id).map_or(Parent::Current, Parent::Span),
    };
    // SAFETY: guaranteed by the caller.
    let span = sink.span(&unsafe { span(record, parent) });
    if span.is_disabled() {
        return NO_SPAN;
    }
    let id = LAST.fetch_add(1, Ordering::Relaxed) + NO_SPAN + 1;
    open().insert(id, span);
    id
}

/// # Safety
/// The bytes live during the call.
pub(in crate::abi) unsafe fn record(id: u64, bytes: RawBytes) {
    let Some(span) = find(id) else { return };
    // SAFETY: guaranteed by the caller.
    for (name, value) in fields(unsafe { bytes.get() }).0 {
        span.record(name.as_str(), display(value));
    }
}

/// Applies an operation to a span; unknown operations and spans are ignored.
pub(in crate::abi) fn happens(id: u64, what: u32, other: u64) -> u64 {
    match what {
        what if what == SpanOp::Enter as u32 => enter(id),
        what if what == SpanOp::Exit as u32 => exit(id),
        what if what == SpanOp::Close as u32 => {
            // Dropped after the lock is released, because the subscriber runs arbitrary code.
            let closed = open().remove(&id);
            drop(closed);
        }
        what if what == SpanOp::Follows as u32 => {
            if let (Some(span), Some(other)) = (find(id), find(other)) {
                span.follows_from(&other);
            }
        }
        what if what == SpanOp::Current as u32 => {
            return ENTERED.with_borrow(|entered| entered.spans[entered.base..].last().map_or(NO_SPAN, |(id, _)| *id));
        }
        _ => {}
    }
    NO_SPAN
}

fn enter(id: u64) {
    let Some(span) = find(id) else { return };
    span.with_subscriber(|(id, subscriber)| subscriber.enter(id));
    ENTERED.with_borrow_mut(|entered| entered.spans.push((id, span)));
    AT_END.with(|_| ());
}

fn exit(id: u64) {
    let last = ENTERED.with_borrow_mut(|entered| {
        let at = entered.spans[entered.base..].iter().rposition(|(entered, _)| *entered == id)?;
        Some(entered.spans.remove(entered.base + at).1)
    });
    if let Some(span) = last {
        span.with_subscriber(|(id, subscriber)| subscriber.exit(id));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::host::log::{LogEvent, LogSink, LogSpan, set_log_sink};
    use tracing::level_filters::LevelFilter;

    struct All;

    impl LogSink for All {
        fn enabled(&self, _: tracing::Level, _: &str) -> bool {
            true
        }
        fn log(&self, _: &LogEvent) {}
        fn span(&self, _: &LogSpan) -> Span {
            tracing::info_span!("any")
        }
    }

    #[test]
    fn numbers_that_nobody_gave_and_spans_without_end_do_no_harm() {
        set_log_sink(Box::new(All), LevelFilter::OFF);
        let empty = RawBytes::of(b"");
        let (name, target, file) = (RawBytes::of(b"any"), RawBytes::of(b"\xff"), empty);
        let record = SpanRecord { level: 9, line: 0, parent: 77, name, target, file, fields: RawBytes::of(b"\x01") };
        // SAFETY: the record lives.
        let make = || unsafe { new(&record) };
        let subscriber = tracing_subscriber::registry();
        tracing::subscriber::with_default(subscriber, || {
            let first = make();
            assert!(first > 0);
            for id in [0, 77, u64::MAX] {
                (0..9).for_each(|what| assert_eq!(happens(id, what, first), 0));
            }
            happens(first, SpanOp::Exit as u32, 0);
            happens(first, SpanOp::Enter as u32, 0);
            assert_eq!(happens(0, SpanOp::Current as u32, 0), first);
            {
                let _call = Call::begin();
                // A plugin leaves only spans that it entered itself.
                assert_eq!(happens(0, SpanOp::Current as u32, 0), 0);
                happens(first, SpanOp::Exit as u32, 0);
            }
            assert_eq!(happens(0, SpanOp::Current as u32, 0), first);
            let last = (1..MOST_OPEN).fold(0, |_, _| make());
            assert!(last > 0);
            assert_eq!(make(), 0, "one too many");
            happens(last, SpanOp::Close as u32, 0);
            assert!(make() > 0);
            open().clear();
            happens(first, SpanOp::Exit as u32, 0);
            assert_eq!(happens(0, SpanOp::Current as u32, 0), 0);
        });
    }
}
