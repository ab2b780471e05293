//! Reads a worker's standard error, including the notes of its crash handler.

use super::limits::amount;
use super::worker::WORKER;
use crate::process::MARK;
use passhost_lang::names::visible::visible;
use std::io::{self, IsTerminal, Read, Write};
use std::process::ChildStderr;

/// Number of bytes shown from the end of the output.
const SAID: usize = 2000;

/// Number of bytes shown from the start of a call's output if the output is too long to be shown in full. The start is
/// shown because the reason for a failure comes before a backtrace.
const FIRST: usize = 400;

/// Limit on output. Beyond this limit, a plugin that is only tried out is ended, and the output of a running plugin is no
/// longer shown.
pub(super) const FLOOD: u64 = 64 << 20;

/// Maximum number of bytes read from the pipe of a process that has ended; no pipe holds more.
const LAST: u64 = 4 << 20;

/// The standard error of a worker.
pub(super) struct Said {
    pub(super) pipe: ChildStderr,
    tail: Vec<u8>,
    /// The start of the current call's output.
    first: Vec<u8>,
    in_call: usize,
    pub(super) total: u64,
    /// Number of bytes forwarded to the standard error of this process.
    echoed: u64,
    /// The note of a crash handler.
    pub(super) mark: Option<String>,
    /// True if the standard library reported that it ran out of memory.
    pub(super) starved: bool,
    /// The start of a line, which may turn out to be a note of the crash handler.
    line: Vec<u8>,
}

/// A note of the crash handler.
pub(super) struct Mark<'a> {
    pub(super) signal: i32,
    pub(super) foreign: bool,
    pub(super) function: Option<&'a str>,
}

impl Mark<'_> {
    pub(super) fn of(line: Option<&str>) -> Mark<'_> {
        let mut words = line.unwrap_or_default().splitn(3, ' ');
        let signal = words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
        let foreign = words.next() == Some("1");
        Mark { signal, foreign, function: words.next().filter(|name| !name.is_empty()) }
    }
}

impl Said {
    pub(super) fn on(pipe: ChildStderr) -> Said {
        let (tail, first, line) = Default::default();
        Said { pipe, tail, first, in_call: 0, total: 0, echoed: 0, mark: None, starved: false, line }
    }

    /// Starts collecting the output of a new call.
    pub(super) fn begin_call(&mut self) {
        self.first.clear();
        self.in_call = 0;
    }

    pub(super) fn closed(&self) -> bool {
        self.total == u64::MAX
    }

    /// Reads the remaining output of a process that has ended or is about to end.
    pub(super) fn hear_the_rest(&mut self, echo: bool) {
        let before = self.total;
        while !self.closed() && self.total - before < LAST && self.hear_some(echo) {}
    }

    /// Reads some of the available output, and returns true if there was any.
    pub(super) fn hear_some(&mut self, echo: bool) -> bool {
        let mut buffer = [0; 1 << 14];
        match self.pipe.read(&mut buffer) {
            Ok(0) => {
                self.line_ended(echo);
                self.total = u64::MAX;
                false
            }
            Ok(n) => {
                self.total += n as u64;
                self.lines(&buffer[..n], echo);
                true
            }
            Err(error) => error.kind() == io::ErrorKind::Interrupted,
        }
    }

    /// Forwards output line by line, without the notes of the crash handler.
    fn lines(&mut self, bytes: &[u8], echo: bool) {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(part);
            let mark = MARK.as_bytes();
            let n = self.line.len().min(mark.len());
            if self.line[..n] == mark[..n] && !part.ends_with(b"\n") && self.line.len() < 2000 {
                continue;
            }
            self.line_ended(echo);
        }
    }

    fn line_ended(&mut self, echo: bool) {
        let line = std::mem::take(&mut self.line);
        if let Some(mark) = line.strip_prefix(MARK.as_bytes()) {
            self.mark = Some(String::from_utf8_lossy(mark).trim_end_matches('\n').to_string());
            return;
        }
        if echo {
            self.echo(&line);
        }
        self.starved |= line.starts_with(b"memory allocation of ");
        self.note(&line);
    }

    /// Forwards a line, up to a limit, so that a plugin cannot fill the disk.
    fn echo(&mut self, line: &[u8]) {
        let before = self.echoed;
        self.echoed += line.len() as u64;
        // A failure to write to standard error cannot be reported.
        if self.echoed <= FLOOD {
            let mut stderr = io::stderr();
            // Control characters are escaped on a terminal. Files and pipes get the bytes unchanged.
            let _ = match stderr.is_terminal() {
                true => stderr.write_all(visible(&String::from_utf8_lossy(line)).as_bytes()),
                false => stderr.write_all(line),
            };
        } else if before <= FLOOD {
            let size = amount(FLOOD);
            tracing::warn!("{WORKER} wrote more than {size} to standard error; the rest is not shown");
        }
    }

    /// Appends to the kept output.
    pub(super) fn note(&mut self, bytes: &[u8]) {
        let room = FIRST.saturating_sub(self.first.len());
        self.first.extend_from_slice(&bytes[..room.min(bytes.len())]);
        self.in_call = self.in_call.saturating_add(bytes.len());
        self.tail.extend_from_slice(bytes);
        if self.tail.len() > 4 * SAID {
            let from = self.tail.len() - SAID;
            self.tail.drain(..from);
        }
    }

    pub(super) fn quoted(&self) -> String {
        let end = &self.tail[self.tail.len().saturating_sub(SAID)..];
        // Whole lines, if there is more than one.
        let cut = if end.len() < self.tail.len() { end.iter().position(|byte| *byte == b'\n') } else { None };
        let end = &end[cut.map_or(0, |at| at + 1)..];
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_string();
        match (text(end), self.first_line()) {
            (last, _) if last.is_empty() => String::new(),
            (last, Some(first)) if self.in_call > end.len() + FIRST => {
                format!("; its output was: {}\n[...]\n{last}", text(first))
            }
            (last, _) => format!("; its output was: {last}"),
        }
    }

    /// Returns the first nonempty line of this call's output.
    fn first_line(&self) -> Option<&[u8]> {
        self.first.split(|byte| *byte == b'\n').find(|line| !line.trim_ascii().is_empty())
    }
}
