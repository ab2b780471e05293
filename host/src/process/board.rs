//! Records which plugin code runs on each thread, in memory of fixed size that can be shared with another process. The memory is read
//! after the process that wrote it has ended, or by a signal handler, so it contains only atomics, without pointers or locks.

use std::fmt::{self, Write};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::*};

/// Maximum number of distinguished threads, including the thread of the run.
pub(super) const THREADS: usize = 288;
/// Maximum number of nested calls recorded per thread; deeper calls are only counted.
const DEPTH: usize = 6;
/// Maximum number of temporary files that exist at the same time.
const FILES: usize = 8;

/// A string of up to `8 * WORDS` bytes; longer strings are cut.
pub(super) struct Text<const WORDS: usize> {
    len: AtomicU32,
    words: [AtomicU64; WORDS],
}

impl<const WORDS: usize> Text<WORDS> {
    const fn new() -> Self {
        Text { len: AtomicU32::new(0), words: [const { AtomicU64::new(0) }; WORDS] }
    }

    pub(super) fn set(&self, bytes: &[u8]) {
        let bytes = &bytes[..bytes.len().min(8 * WORDS)];
        let (whole, rest) = bytes.as_chunks::<8>();
        for (word, chunk) in self.words.iter().zip(whole) {
            word.store(u64::from_le_bytes(*chunk), Relaxed);
        }
        if let Some(word) = self.words.get(whole.len()).filter(|_| !rest.is_empty()) {
            let mut last = [0; 8];
            last[..rest.len()].copy_from_slice(rest);
            word.store(u64::from_le_bytes(last), Relaxed);
        }
        self.len.store(bytes.len() as u32, Release);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len.load(Acquire) == 0
    }

    /// Calls `f` with the bytes, eight at a time.
    fn each(&self, mut f: impl FnMut(&[u8])) {
        let len = (self.len.load(Acquire) as usize).min(8 * WORDS);
        for (at, word) in self.words.iter().enumerate().take(len.div_ceil(8)) {
            f(&word.load(Relaxed).to_le_bytes()[..(len - 8 * at).min(8)]);
        }
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.each(|bytes| out.extend_from_slice(bytes));
        out
    }
}

/// Formats without allocating. Bytes that are not printable ASCII are shown as `?`.
impl<const WORDS: usize> fmt::Display for Text<WORDS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut result = Ok(());
        self.each(|bytes| {
            for byte in bytes {
                let c = if byte.is_ascii_graphic() || *byte == b' ' { char::from(*byte) } else { '?' };
                result = result.and(f.write_char(c));
            }
        });
        result
    }
}

/// The kind of code that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Kind {
    /// Code of the host that works on a step of the plan.
    Step = 1,
    /// A pass.
    Pass = 2,
    /// The rule of an operator.
    Rule = 3,
    /// The checker of a property.
    Checker = 4,
    /// An instrument.
    Instrument = 5,
    /// Constructors and initialization of a plugin.
    Opening = 6,
    /// A reader or a writer of a file format.
    Format = 7,
}

impl Kind {
    fn read(value: u32) -> Option<Kind> {
        use Kind::*;
        [Step, Pass, Rule, Checker, Instrument, Opening, Format].into_iter().find(|kind| *kind as u32 == value)
    }
}

/// A call that has not returned.
pub(super) struct Frame {
    kind: AtomicU32,
    /// Number of the step, or 0.
    pub(super) step: AtomicU32,
    /// Name of the pass, operator, property, instrument or format.
    pub(super) name: Text<16>,
    /// The plugin that provides it.
    pub(super) plugin: Text<8>,
    /// The library of the plugin.
    pub(super) file: Text<64>,
    /// The function on which the code works, if known, or the event of an instrument.
    pub(super) about: Text<16>,
}

impl Frame {
    const fn new() -> Frame {
        let (kind, step) = (AtomicU32::new(0), AtomicU32::new(0));
        Frame { kind, step, name: Text::new(), plugin: Text::new(), file: Text::new(), about: Text::new() }
    }

    pub(super) fn kind(&self) -> Option<Kind> {
        Kind::read(self.kind.load(Acquire))
    }
}

/// Describes a call that is about to begin.
#[derive(Clone, Copy)]
pub(crate) struct Call<'a> {
    pub(crate) kind: Kind,
    /// Number of the step, or 0.
    pub(crate) step: usize,
    pub(crate) name: &'a str,
    pub(crate) plugin: &'a str,
    /// The library of the plugin; empty if it is not needed.
    pub(crate) file: &'a [u8],
    /// The function or event; empty if there is none.
    pub(crate) about: &'a str,
}

/// The calls of one thread.
pub(super) struct Slot {
    taken: AtomicBool,
    depth: AtomicU32,
    frames: [Frame; DEPTH],
}

impl Slot {
    const fn new() -> Slot {
        Slot { taken: AtomicBool::new(false), depth: AtomicU32::new(0), frames: [const { Frame::new() }; DEPTH] }
    }

    pub(super) fn push(&self, call: &Call<'_>) {
        let depth = self.depth.load(Relaxed);
        if let Some(frame) = self.frames.get(depth as usize) {
            frame.step.store(call.step as u32, Relaxed);
            frame.name.set(call.name.as_bytes());
            frame.plugin.set(call.plugin.as_bytes());
            frame.file.set(call.file);
            frame.about.set(call.about.as_bytes());
            frame.kind.store(call.kind as u32, Release);
        }
        self.depth.store(depth + 1, Release);
    }

    pub(super) fn pop(&self) {
        self.depth.store(self.depth.load(Relaxed).saturating_sub(1), Release);
    }

    /// Marks the innermost call as code of the pass, if it is the call of the host for a step. Returns true in that
    /// case.
    pub(super) fn enter_pass(&self, about: &str) -> bool {
        let Some(frame) = self.frames().last().filter(|frame| frame.kind() == Some(Kind::Step)) else { return false };
        frame.about.set(about.as_bytes());
        frame.kind.store(Kind::Pass as u32, Release);
        true
    }

    /// Marks the innermost call as host code for the step again.
    pub(super) fn leave_pass(&self) {
        if let Some(frame) = self.frames().last() {
            frame.kind.store(Kind::Step as u32, Release);
        }
    }

    /// Returns the calls that have not returned, the outermost first.
    pub(super) fn frames(&self) -> &[Frame] {
        &self.frames[..(self.depth.load(Acquire) as usize).min(DEPTH)]
    }

    /// Returns the innermost call of plugin code.
    pub(super) fn plugin_code(&self) -> Option<&Frame> {
        self.frames().last().filter(|frame| frame.kind() != Some(Kind::Step))
    }

    /// Returns the last step, even if it has ended.
    pub(super) fn last_step(&self) -> Option<&Frame> {
        self.frames.first().filter(|frame| frame.kind() == Some(Kind::Step))
    }

    fn take(&self) -> bool {
        let free = self.taken.compare_exchange(false, true, AcqRel, Relaxed).is_ok();
        if free {
            self.depth.store(0, Release);
        }
        free
    }

    pub(super) fn leave(&self) {
        self.taken.store(false, Release);
    }
}

/// The thread that received a signal, or that called `exit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Culprit {
    /// No handler saw the end.
    Unknown,
    /// A thread on which the host did not call any plugin code.
    Foreign,
    /// The thread with this slot.
    Thread(usize),
}

/// The state of a process, readable while it runs and after its end.
pub(super) struct Board {
    /// The exit code of a finished process plus 1, or 0.
    finished: AtomicU32,
    /// True if the process must end only by calling [`Board::finish`].
    begun: AtomicBool,
    /// 0 if unknown, 1 for a foreign thread, or the number of a slot plus 2.
    culprit: AtomicU32,
    /// The first signal that a handler saw.
    pub(super) signal: AtomicU32,
    /// The mapped file whose bytes had disappeared when they were read; empty if there is none.
    pub(super) lost: Text<512>,
    slots: [Slot; THREADS],
    temporary: [Text<512>; FILES],
}

impl Board {
    /// Creates an empty board, whose bytes are all 0.
    pub(super) const fn new() -> Board {
        Board {
            finished: AtomicU32::new(0),
            begun: AtomicBool::new(false),
            culprit: AtomicU32::new(0),
            signal: AtomicU32::new(0),
            lost: Text::new(),
            slots: [const { Slot::new() }; THREADS],
            temporary: [const { Text::new() }; FILES],
        }
    }

    pub(super) fn begin(&self) {
        self.begun.store(true, Release);
    }

    pub(super) fn finish(&self, code: u8) {
        self.finished.store(u32::from(code) + 1, Release);
    }

    /// Returns the exit code of a finished process.
    pub(super) fn finished(&self) -> Option<u8> {
        self.finished.load(Acquire).checked_sub(1).map(|code| code as u8)
    }

    /// Returns true if the process must not end now.
    pub(super) fn is_busy(&self) -> bool {
        let begun = self.begun.load(Acquire) && self.finished().is_none();
        begun || self.working().next().is_some()
    }

    /// Reserves a slot for a thread.
    pub(super) fn claim(&self) -> Option<&Slot> {
        self.slots.iter().find(|slot| slot.take())
    }

    /// Records the culprit. Later calls are ignored, because they are consequences of the first event.
    pub(super) fn blame(&self, slot: Option<&Slot>, signal: u32) {
        let number = slot.and_then(|slot| self.slots.iter().position(|other| std::ptr::eq(slot, other)));
        let culprit = number.map_or(1, |number| number as u32 + 2);
        if self.culprit.compare_exchange(0, culprit, AcqRel, Relaxed).is_ok() {
            self.signal.store(signal, Release);
        }
    }

    pub(super) fn culprit(&self) -> Culprit {
        match self.culprit.load(Acquire) {
            0 => Culprit::Unknown,
            1 => Culprit::Foreign,
            number => Culprit::Thread(number as usize - 2),
        }
    }

    pub(super) fn slot(&self, number: usize) -> Option<&Slot> {
        self.slots.get(number)
    }

    /// Returns the slot of the run's thread, which is reserved first.
    pub(super) fn main(&self) -> &Slot {
        &self.slots[0]
    }

    /// Returns the plugin code that is running: the innermost call of each thread.
    pub(super) fn working(&self) -> impl Iterator<Item = &Frame> {
        self.slots.iter().filter(|slot| slot.taken.load(Acquire)).filter_map(Slot::plugin_code)
    }

    /// Records a temporary file if there is room, and returns its index.
    pub(super) fn note(&self, path: &[u8]) -> Option<usize> {
        let place = self.temporary.iter().position(Text::is_empty).filter(|_| path.len() <= 8 * 512)?;
        self.temporary[place].set(path);
        Some(place)
    }

    pub(super) fn forget(&self, place: usize) {
        self.temporary[place].set(b"");
    }

    /// Returns the temporary files that still exist.
    pub(super) fn temporary(&self) -> impl Iterator<Item = Vec<u8>> {
        self.temporary.iter().filter(|path| !path.is_empty()).map(Text::bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(kind: Kind, name: &str) -> Call<'_> {
        Call { kind, step: 3, name, plugin: "acme", file: b"", about: "" }
    }

    #[test]
    fn texts_are_kept_and_cut() {
        let text = Text::<2>::new();
        for given in ["", "a", "12345678", "123456789", "1234567890123456", "12345678901234567890"] {
            text.set(given.as_bytes());
            assert_eq!(text.bytes(), &given.as_bytes()[..given.len().min(16)]);
        }
        text.set("a\u{e4}\n".as_bytes());
        assert_eq!(text.to_string(), "a???");
    }

    #[test]
    fn the_innermost_code_of_a_plugin_counts() {
        let board = Board::new();
        let slot = board.claim().expect("a free slot");
        assert!(std::ptr::eq(slot, board.main()) && !board.is_busy());
        slot.push(&call(Kind::Step, "t.Pass"));
        assert!(slot.plugin_code().is_none() && !board.is_busy());
        slot.push(&call(Kind::Pass, "t.Pass"));
        slot.push(&call(Kind::Rule, "t.op"));
        let frame = slot.plugin_code().expect("code of a plugin");
        assert_eq!((frame.kind(), frame.name.to_string()), (Some(Kind::Rule), "t.op".to_string()));
        assert!(board.is_busy());
        for at in 0..10 {
            slot.push(&call(Kind::Rule, &format!("t.op{at}")));
        }
        assert_eq!(slot.plugin_code().expect("code").name.to_string(), "t.op2");
        (0..13).for_each(|_| slot.pop());
        assert!(slot.frames().is_empty() && !board.is_busy());
        assert_eq!(slot.last_step().expect("the step").name.to_string(), "t.Pass");
    }

    #[test]
    fn a_run_is_busy_until_it_is_finished() {
        let board = Board::new();
        board.begin();
        assert!(board.is_busy() && board.finished().is_none());
        board.finish(0);
        assert!(!board.is_busy());
        assert_eq!(board.finished(), Some(0));
    }

    #[test]
    fn only_the_first_is_blamed() {
        let board = Board::new();
        let (_, second) = (board.claim(), board.claim().expect("a free slot"));
        assert_eq!(board.culprit(), Culprit::Unknown);
        board.blame(Some(second), 11);
        board.blame(None, 6);
        assert_eq!((board.culprit(), board.signal.load(Relaxed)), (Culprit::Thread(1), 11));
    }

    #[test]
    fn temporary_files_are_noted_until_they_are_gone() {
        let board = Board::new();
        let (a, b) = (board.note(b"/t/a").expect("room"), board.note(b"/t/b").expect("room"));
        board.forget(a);
        assert_eq!(board.temporary().collect::<Vec<_>>(), [b"/t/b".to_vec()]);
        board.forget(b);
        assert_eq!(board.temporary().count(), 0);
        assert_eq!(board.note(&[b'x'; 5000]), None);
    }
}
