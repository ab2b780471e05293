//! A worker process as the host sees it: its start, its calls and its end.

use super::answers::{answer, hear};
use super::census;
use super::channel::{Channel, Frame, MOST, memory, send_files};
use super::limits::{self, Limits, amount};
use super::logs::Spans;
use super::said::{FLOOD, Mark, Said};
use super::talk::{Heard, Talk};
use super::words::call;
use crate::plugins::loader::Listed;
use crate::process;
use crate::report::error::{Error, exit};
use plugin_api::abi::host::{current_opt_level, max_level, with_services};
use plugin_api::abi::relay::{Forged, Known, Reader, Writer};
use plugin_api::services::evaluation::EvaluationLimits;
use rustix::event::{PollFd, PollFlags, poll};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The hidden command of a worker.
pub(crate) const COMMAND: &str = "worker-process";

/// Limits on messages that arrive after the deadline of a call, because they may have been sent before it: their
/// number, bytes and delay.
const ON_ITS_WAY: (u32, usize, Duration) = (10_000, 4 << 20, Duration::from_secs(1));

/// Number of bytes that a message may have in addition to [`TIMES`] times the bytes that were sent to the worker, unless the manifest sets
/// a memory limit. The messages of one call may have twice as many in total.
const ALWAYS: u64 = 1 << 30;
const TIMES: u64 = 4;

/// Interval at which the processes of a working worker are counted.
const CENSUS: Duration = Duration::from_millis(200);

/// Time for a process to end after it closed its end of the socket, or after it was asked to end. Its keeper ends all
/// other processes first.
const PATIENCE: Duration = Duration::from_millis(500);

/// The command and environment that start a worker.
#[derive(Clone, Debug)]
pub(crate) struct Start {
    /// A program that calls `passhost::worker` first, such as the command line.
    pub(crate) program: PathBuf,
    pub(crate) limits: Limits,
    /// True if the standard error of the worker is forwarded to the standard error of this process.
    pub(crate) echo: bool,
    pub(crate) fates: Arc<Fates>,
    /// The amount of output of the plugin's workers.
    pub(crate) talk: Arc<Talk>,
}

/// The failures of an engine's workers.
#[derive(Debug, Default)]
pub(crate) struct Fates {
    /// True if a worker died or was killed.
    pub(crate) died: AtomicBool,
    /// True if the system lacked a resource that a worker needed.
    pub(crate) lacking: AtomicBool,
}

/// The end of a worker during a call.
#[derive(Clone, Debug)]
pub(crate) struct Death {
    /// The part that ended: the worker, or a thread in it.
    who: &'static str,
    /// How the part ended, such as `was killed by SIGSEGV`.
    how: String,
    /// The end of the worker's output.
    said: String,
    /// The function on which the worker was working, if known.
    pub(crate) function: Option<String>,
}

/// Formats the death, as in `its worker was killed by SIGSEGV; its output was: …`.
impl std::fmt::Display for Death {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}{}", self.who, self.how, self.said)
    }
}

impl Death {
    /// Describes an end after all work was done, as in `its worker was killed by SIGSEGV, after …; its output was: …`.
    pub(super) fn after_the_end(&self) -> String {
        format!("{} {} after the end of the run{}", self.who, self.how, self.said)
    }

    /// Builds the error of a program that did not act as a worker.
    fn refuses_program(self, program: &Path) -> Error {
        let message =
            format!("the program {} was started as a worker, but is not one: it {}", program.display(), self.how);
        Error::Request { message: format!("{message}{}", self.said), help: NAME_ONE.to_string() }
    }

    /// Builds the error of a plugin that ended its worker before doing anything. `when` is `while` or `after`.
    fn refuses(self, file: &Path, when: &str) -> Error {
        Error::Plugin {
            path: file.to_path_buf(),
            message: format!("{} {when} it was opened{}", self.how, self.said),
            help: "correct its constructors and its initialization, or remove it from the manifest".to_string(),
        }
    }
}

/// Builds the error of a program that cannot be started as a worker.
fn not_started(program: &Path, error: &io::Error) -> Error {
    let message = format!("cannot start the worker program {}: {error}", program.display());
    let wrong = [libc::ENOENT, libc::ENOTDIR, libc::EACCES, libc::ENOEXEC, libc::EISDIR, libc::ELOOP];
    let help = match error.raw_os_error() {
        Some(number) if wrong.contains(&number) => return Error::Request { message, help: NAME_ONE.to_string() },
        Some(libc::EMFILE | libc::ENFILE) => "allow more open files, for example with `ulimit -n`",
        Some(libc::EAGAIN) => "allow more processes, for example with `ulimit -u`",
        Some(libc::ENOMEM) => "free some memory",
        _ => "correct the cause, or do not isolate the plugin",
    };
    Error::Ended { message, help: help.to_string(), code: exit::FAULT }
}

const NAME_ONE: &str = "use a program that calls `passhost::worker` first, such as passhost itself, and do not move it";

pub(super) const WORKER: &str = "its worker";
const THREAD: &str = "a thread that it started in its worker";

/// The reason why a worker did not answer.
enum Cause {
    /// The worker ended, or closed its end of the socket.
    Gone,
    Late(Duration),
    Nonsense(String),
    Flood(u64),
    /// The system failed to send the message.
    Unsent(io::Error),
    /// The system failed to report whether the worker sent something.
    Unheard(io::Error),
    /// A signal stopped the worker, and nothing resumed it.
    Stopped,
    /// The worker's processes together exceed its limits.
    Excess(String),
}

/// A worker process, used by one thread at a time.
pub(crate) struct Worker {
    channel: Channel,
    child: Mutex<Child>,
    said: Mutex<Said>,
    known: Mutex<Known>,
    /// True if the process has identified itself as a worker.
    pub(super) here: AtomicBool,
    /// True if the child is a keeper process, which ends all other processes when it is terminated.
    pub(super) kept: AtomicBool,
    pub(super) spans: Mutex<Spans>,
    dead: Mutex<Option<Death>>,
    taken: Mutex<bool>,
    free: Condvar,
    start: Start,
    /// Deadline of the outermost running call.
    deadline: Mutex<Option<Instant>>,
    /// Number of bytes sent to the worker.
    given: AtomicU64,
    /// Processor time that the worker used; set when the worker has ended.
    used: Mutex<Duration>,
    /// The time at which the worker's processes were last counted, and true if they exceeded the limits then.
    counted: Mutex<(Instant, bool)>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Worker {
    /// Starts a worker, which opens a plugin.
    ///
    /// # Errors
    /// If the program does not exist, or the plugin is refused or does not survive being opened.
    pub(crate) fn start(listed: &Listed, start: &Start) -> Result<Worker, Error> {
        let (worker, missing) = Worker::begin(listed, start)?;
        for missing in missing {
            let plugin = listed.file.display();
            tracing::warn!(%plugin, "{missing}, so its worker can do more than the manifest grants");
        }
        Ok(worker)
    }

    /// Opens a plugin in a worker and then ends the worker, so that faults of the plugin do no harm in this process.
    ///
    /// # Errors
    /// As for [`Worker::start`], or a description of how the worker ended.
    pub(super) fn try_out(listed: &Listed, start: &Start) -> Result<(), Error> {
        let (worker, _) = Worker::begin(listed, start)?;
        worker.quit().map_err(|death| death.refuses(&listed.file, "after"))
    }

    /// Starts a worker that opens a plugin, and returns it with the limits that the system cannot enforce.
    fn begin(listed: &Listed, start: &Start) -> Result<(Worker, Vec<String>), Error> {
        let failed = |error: io::Error| not_started(&start.program, &error);
        let library = listed.library()?;
        let (own, other) = UnixStream::pair().map_err(failed)?;
        let (outbox, inbox) = (memory().map_err(failed)?, memory().map_err(failed)?);
        let mut command = Command::new(&start.program);
        command.arg(COMMAND).process_group(0).stderr(Stdio::piped());
        let sees = |name: &std::ffi::OsStr| start.limits.sees(&name.to_string_lossy());
        command.env_clear().envs(std::env::vars_os().filter(|(name, _)| sees(name)));
        command.stdin(library.as_input().map_err(failed)?).stdout(OwnedFd::from(other));
        let child = command.spawn();
        // Dropping the command closes the other end of the socket in this process.
        drop(command);
        let mut child = child.map_err(failed)?;
        let Some(pipe) = child.stderr.take() else { return Err(failed(io::ErrorKind::BrokenPipe.into())) };
        let said = Said::on(pipe);
        // If this fails, the process exits, which is detected later.
        let _ = rustix::io::ioctl_fionbio(&said.pipe, true);
        let _ = send_files(&own, &[&inbox, &outbox]);
        // A worker that reads nothing must not block the host forever.
        let _ = own.set_write_timeout(Some(start.limits.timeout().max(Duration::from_millis(1))));
        let worker = Worker {
            channel: Channel::new(own, outbox, inbox),
            child: Mutex::new(child),
            said: Mutex::new(said),
            known: Mutex::new(Known::new(true)),
            here: AtomicBool::new(false),
            kept: AtomicBool::new(false),
            spans: Mutex::default(),
            dead: Mutex::default(),
            taken: Mutex::default(),
            free: Condvar::new(),
            start: start.clone(),
            deadline: Mutex::default(),
            given: AtomicU64::new(0),
            used: Mutex::default(),
            counted: Mutex::new((Instant::now(), false)),
        };
        let missing = worker.open(&listed.file)?;
        Ok((worker, missing))
    }

    fn open(&self, file: &Path) -> Result<Vec<String>, Error> {
        let number = RandomState::new().hash_one(std::process::id());
        let put = |_: &mut Known, out: &mut Writer| {
            out.text(env!("CARGO_PKG_VERSION"));
            out.number(number);
            out.block(file.as_os_str().as_encoded_bytes());
            limits::put(&self.start.limits, out);
        };
        let take = |_: &mut Known, from: &mut Reader<'_>| {
            if from.number()? != number {
                return Err(Forged::new("its answer does not match the request"));
            }
            let missing = (0..from.count()?).map(|_| from.text().map(str::to_string)).collect::<Result<Vec<_>, _>>()?;
            let refused = match from.maybe_text()? {
                Some(message) => Some((message.to_string(), from.text()?.to_string())),
                None => None,
            };
            Ok((missing, refused))
        };
        let answer = self.call(call::OPEN, put, take);
        let (missing, refused) = answer.map_err(|death| match self.here.load(Ordering::Relaxed) {
            true => death.refuses(file, "while"),
            false => death.refuses_program(&self.start.program),
        })?;
        match refused {
            Some((message, help)) => Err(Error::Plugin { path: file.to_path_buf(), message, help }),
            None => Ok(missing),
        }
    }

    /// Waits until no other thread is calling the worker.
    pub(crate) fn take(&self) {
        let mut taken = lock(&self.taken);
        while *taken {
            taken = self.free.wait(taken).unwrap_or_else(PoisonError::into_inner);
        }
        *taken = true;
    }

    pub(crate) fn try_take(&self) -> bool {
        !std::mem::replace(&mut *lock(&self.taken), true)
    }

    pub(crate) fn leave(&self) {
        *lock(&self.taken) = false;
        self.free.notify_one();
    }

    pub(crate) fn is_dead(&self) -> bool {
        lock(&self.dead).is_some()
    }

    /// Describes how something outside of passhost killed the worker between calls. If the plugin ended itself, by a thread that crashed or
    /// exited, this returns `None` and the next call fails.
    pub(super) fn was_killed(&self) -> Option<String> {
        use std::os::unix::process::ExitStatusExt;
        if self.is_dead() {
            return None;
        }
        let status = self.status()?;
        status.signal().filter(|signal| BY_OTHERS.contains(signal))?;
        self.kill();
        let how = process::ended(&status, 0);
        let death = Death { who: WORKER, how: how.clone(), said: String::new(), function: None };
        *lock(&self.dead) = Some(death);
        Some(how)
    }

    /// Sends a call, and returns the content of the reply. Until the reply arrives, messages of the worker are handled
    /// with the current context of this thread.
    pub(crate) fn call<R>(
        &self,
        what: u8,
        put: impl FnOnce(&mut Known, &mut Writer),
        take: impl FnOnce(&mut Known, &mut Reader<'_>) -> Result<R, Forged>,
    ) -> Result<R, Death> {
        if let Some(death) = &*lock(&self.dead) {
            let how = format!("{} before this call", death.how);
            return Err(Death { how, function: None, ..death.clone() });
        }
        let depth = lock(&self.spans).begin();
        let deadline = self.deadline_of(depth);
        if depth == 0 {
            lock(&self.said).begin_call();
            self.start.talk.begin_call(with_services(|services| services.run()).flatten().unwrap_or(0));
        }
        let mut out = Writer::of(what);
        {
            let mut known = lock(&self.known);
            known.put_forgotten(&mut out, depth > 0);
            put_context(&mut out);
            put(&mut known, &mut out);
        }
        let reply = self.send(Frame::Call, out.bytes()).and_then(|()| self.converse(deadline));
        lock(&self.spans).end(depth);
        let reply = reply.map_err(|cause| self.die(cause))?;
        let mut from = Reader::new(reply.bytes());
        let taken = take(&mut lock(&self.known), &mut from).and_then(|taken| from.end().map(|()| taken));
        taken.map_err(|Forged(why)| self.die(Cause::Nonsense(why)))
    }

    /// Returns the deadline of a call. It is not later than the deadline of the enclosing call.
    fn deadline_of(&self, depth: usize) -> Instant {
        let own = Instant::now() + self.start.limits.timeout();
        let mut outer = lock(&self.deadline);
        let deadline = outer.filter(|_| depth > 0).map_or(own, |outer| outer.min(own));
        *outer = Some(deadline);
        deadline
    }

    fn send(&self, frame: Frame, bytes: &[u8]) -> Result<(), Cause> {
        self.given.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        self.channel.send(frame, bytes).map_err(|error| match error.kind() {
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => Cause::Gone,
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Cause::Late(self.start.limits.timeout()),
            _ => Cause::Unsent(error),
        })
    }

    /// Returns the maximum length of a message of the worker.
    fn most(&self) -> u64 {
        let limits = &self.start.limits;
        let given = self.given.load(Ordering::Relaxed);
        let most = limits.memory.unwrap_or_else(|| limits.memory().min(ALWAYS + TIMES.saturating_mul(given)));
        most.min(MOST)
    }

    /// Handles messages until the reply arrives.
    fn converse(&self, deadline: Instant) -> Result<plugin_api::abi::relay::Buffer, Cause> {
        let (mut late, mut late_bytes, mut received) = (0, 0, 0u64);
        loop {
            let most = self.most();
            self.channel.set_most(most);
            let (frame, buffer) = self.next(deadline)?;
            let len = buffer.bytes().len();
            received += len as u64;
            if received > 2 * most {
                return Err(Cause::Nonsense(format!("it sent more than {} in one call", amount(2 * most))));
            }
            let over = Instant::now().saturating_duration_since(deadline);
            if frame != Frame::Reply && !over.is_zero() {
                (late, late_bytes) = (late + 1, late_bytes + len);
                let (messages, bytes, time) = ON_ITS_WAY;
                if frame == Frame::Call || late > messages || late_bytes > bytes || over > time {
                    return Err(Cause::Late(self.start.limits.timeout()));
                }
            }
            let mut from = Reader::new(buffer.bytes());
            let nonsense = |Forged(why)| Cause::Nonsense(why);
            match frame {
                Frame::Reply => return Ok(buffer),
                Frame::Tell => hear(self, &self.known, &mut from).and_then(|()| from.end()).map_err(nonsense)?,
                Frame::Call => {
                    let mut out = Writer::default();
                    let left = deadline.saturating_duration_since(Instant::now());
                    let most = bounds(left, self.start.limits.memory());
                    answer(&self.known, most, &mut from, &mut out).and_then(|()| from.end()).map_err(nonsense)?;
                    match self.send(Frame::Reply, out.bytes()) {
                        // A dead worker is detected at the next read.
                        Ok(()) | Err(Cause::Gone) => {}
                        Err(other) => return Err(other),
                    }
                }
            }
        }
    }

    fn next(&self, deadline: Instant) -> Result<(Frame, plugin_api::abi::relay::Buffer), Cause> {
        let gone = |error: io::Error| match error.kind() {
            io::ErrorKind::InvalidData => Cause::Nonsense(error.to_string()),
            _ => Cause::Gone,
        };
        loop {
            if let Some(frame) = self.channel.buffered().map_err(gone)? {
                return Ok(frame);
            }
            let mut said = lock(&self.said);
            let (news, words, nothing) = {
                let (socket, pipe) = (self.channel.socket(), said.pipe.as_fd());
                let mut wanted =
                    [PollFd::from_borrowed_fd(socket, PollFlags::IN), PollFd::from_borrowed_fd(pipe, PollFlags::IN)];
                // Do not poll standard error after it is closed.
                let n = if said.closed() { 1 } else { 2 };
                let pause = deadline.saturating_duration_since(Instant::now()).min(Duration::from_millis(50));
                let pause = rustix::event::Timespec { tv_sec: 0, tv_nsec: pause.as_nanos().max(1_000_000) as _ };
                let found = polled(poll(&mut wanted[..n], Some(&pause)))?;
                let is = |at: usize| at < n && found > 0 && !wanted[at].revents().is_empty();
                (is(0), is(1), found == 0)
            };
            if words {
                // Read only once, because the reader of our standard error may be slower than the plugin.
                said.hear_some(self.start.echo);
                if !self.start.echo && !said.closed() && said.total > FLOOD {
                    return Err(Cause::Flood(said.total));
                }
            }
            drop(said);
            let frame = if news { self.channel.receive().map_err(gone)? } else { None };
            if let Some(frame) = frame {
                return Ok(frame);
            }
            // A message that is incomplete at the deadline counts as late.
            if Instant::now() >= deadline {
                return Err(Cause::Late(self.start.limits.timeout()));
            }
            self.count()?;
            if nothing && self.status().is_some() && !self.channel.has_news() {
                // A forked copy of the worker may keep the socket open.
                return Err(Cause::Gone);
            } else if nothing && is_stopped(&lock(&self.child)) {
                return Err(Cause::Stopped);
            }
        }
    }

    /// Counts the resources that the worker's processes use together, once per [`CENSUS`].
    ///
    /// # Errors
    /// If there are too many processes, or two counts in a row exceed the memory limit. One count is not enough, because a process that is
    /// starting a program briefly counts as two.
    fn count(&self) -> Result<(), Cause> {
        let mut counted = lock(&self.counted);
        let (at, before) = *counted;
        if at.elapsed() < CENSUS {
            return Ok(());
        }
        let own = if self.kept.load(Ordering::Relaxed) { 3 } else { 1 };
        let most = self.start.limits.memory();
        let census = census::of(lock(&self.child).id(), own, most);
        let excess = census.memory > most;
        *counted = (Instant::now(), excess);
        if census.processes > census::PROCESSES {
            return Err(Cause::Excess(format!("has more than {} processes", census::PROCESSES)));
        }
        if excess && before {
            let what = format!("needs more memory than its limit of {}", amount(most));
            let whose = match census.processes {
                processes if processes > own => format!("its {processes} processes have"),
                _ => "its open files hold".to_string(),
            };
            return Err(Cause::Excess(format!("{what}: {whose} {} MiB", census.memory >> 20)));
        }
        Ok(())
    }

    /// Returns the exit status if the process has ended. First saves the processor time of the process, which is not
    /// available afterwards.
    fn status(&self) -> Option<ExitStatus> {
        let mut child = lock(&self.child);
        if self.start.limits.cpu.is_some()
            && let Some(used) = time_of_ended(&child)
        {
            *lock(&self.used) = used;
        }
        child.try_wait().ok().flatten()
    }

    fn ended(&self, patience: Duration) -> Option<ExitStatus> {
        let start = Instant::now();
        loop {
            let status = self.status();
            if status.is_some() || start.elapsed() > patience {
                return status;
            }
            std::thread::sleep(Duration::from_micros(200));
        }
    }

    /// Ends the process and all processes that it started, and describes what happened.
    fn die(&self, cause: Cause) -> Death {
        let status = match cause {
            Cause::Gone => self.ended(PATIENCE),
            // The abort signal lets the worker's crash handler report the function on which the worker was working.
            Cause::Late(_) => {
                signal(&lock(&self.child), rustix::process::Signal::ABORT);
                self.ended(PATIENCE);
                None
            }
            _ => None,
        };
        self.kill();
        let mut said = lock(&self.said);
        said.hear_the_rest(self.start.echo);
        let mark = Mark::of(said.mark.as_deref());
        let is_late = matches!(cause, Cause::Late(_));
        let what = match cause {
            Cause::Gone => match status {
                Some(status) => self.how(&status, &mark, &said),
                None => "closed its pipe, but did not end".to_string(),
            },
            Cause::Late(limit) => format!("exceeded the time limit of {} per call", seconds(limit)),
            Cause::Nonsense(why) => format!("sent an invalid answer: {why}"),
            Cause::Flood(total) => format!("wrote {} MiB to standard error", total >> 20),
            Cause::Unsent(error) => {
                self.start.fates.lacking.store(true, Ordering::Relaxed);
                format!("did not accept the request: {error}")
            }
            Cause::Unheard(error) => {
                self.start.fates.lacking.store(true, Ordering::Relaxed);
                format!("cannot be read: {error}")
            }
            Cause::Stopped => process::STOPPED.to_string(),
            Cause::Excess(what) => what,
        };
        // The signal that ends a late call can reach any thread, so `mark.foreign` is ignored then.
        let who = if mark.foreign && !is_late { THREAD } else { WORKER };
        let death = Death { who, how: what, said: said.quoted(), function: mark.function.map(str::to_string) };
        lock(&self.spans).leave_all();
        self.start.fates.died.store(true, Ordering::Relaxed);
        *lock(&self.dead) = Some(death.clone());
        death
    }

    /// Describes how the process ended, with the limit that it exceeded.
    fn how(&self, status: &ExitStatus, mark: &Mark<'_>, said: &Said) -> String {
        use std::os::unix::process::ExitStatusExt;
        let limits = &self.start.limits;
        let text = process::ended(status, mark.signal);
        match (status.signal(), limits.cpu) {
            (Some(signal), Some(cpu)) if signal == libc::SIGXCPU || self.is_used_up(signal, cpu, mark) => {
                format!("exceeded its limit of {} of processor time (SIGXCPU)", seconds(cpu))
            }
            (Some(libc::SIGABRT), _) if said.starved => {
                format!("needs more memory than its limit of {} (SIGABRT)", amount(limits.memory()))
            }
            _ => text,
        }
    }

    /// Returns true if the process was killed because it continued after the signal for used-up processor time.
    fn is_used_up(&self, signal: i32, cpu: Duration, mark: &Mark<'_>) -> bool {
        signal == libc::SIGKILL && (mark.signal == libc::SIGXCPU || *lock(&self.used) >= cpu)
    }

    /// Ends the process and all processes that it started.
    fn kill(&self) {
        kill(&mut lock(&self.child), self.kept.load(Ordering::Relaxed));
    }

    /// Ends the process by a request. Anything but a clean exit is an error.
    ///
    /// # Errors
    /// The way in which the process ended instead.
    pub(crate) fn quit(&self) -> Result<(), Death> {
        if self.is_dead() {
            return Ok(());
        }
        self.call(call::QUIT, |_, _| (), |_, _| Ok(()))?;
        let status = self.wait_for_end();
        match status {
            Some(status) if status.success() => {
                self.kill();
                let how = "was dismissed".to_string();
                let death = Death { who: WORKER, how, said: String::new(), function: None };
                *lock(&self.dead) = Some(death);
                Ok(())
            }
            Some(_) => Err(self.die(Cause::Gone)),
            None => Err(self.die(Cause::Late(self.start.limits.timeout().min(QUIT)))),
        }
    }

    /// Waits for the end of the process. Gives the remaining threads and output of the plugin some time.
    fn wait_for_end(&self) -> Option<ExitStatus> {
        let limit = self.start.limits.timeout().min(QUIT);
        let start = Instant::now();
        loop {
            let status = self.ended(Duration::from_millis(5));
            lock(&self.said).hear_the_rest(self.start.echo);
            if status.is_some() || start.elapsed() > limit {
                return status;
            }
        }
    }
}

/// Signals by which users and systems end a process that did nothing wrong.
const BY_OTHERS: [i32; 5] = [libc::SIGKILL, libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGQUIT];

/// Maximum time for a process to end cleanly.
const QUIT: Duration = Duration::from_secs(5);

impl Drop for Worker {
    fn drop(&mut self) {
        if !self.is_dead() {
            self.kill();
        }
    }
}

fn seconds(time: Duration) -> String {
    if time.subsec_nanos() == 0 { format!("{} s", time.as_secs()) } else { format!("{} s", time.as_secs_f64()) }
}

/// Writes the list of services that the context of this call has, and the values that are requested most often.
fn put_context(out: &mut Writer) {
    let level = max_level().into_level().map_or(0, |level| match level {
        tracing::Level::ERROR => 1,
        tracing::Level::WARN => 2,
        tracing::Level::INFO => 3,
        tracing::Level::DEBUG => 4,
        tracing::Level::TRACE => 5,
    });
    out.byte(level);
    match (current_opt_level(), with_services(|services| (services.pass_name(), services.run()))) {
        (Some(opt_level), Some((pass, run))) => {
            out.byte(1);
            out.number(i64::from(opt_level).cast_unsigned());
            out.number(run.unwrap_or(0));
            out.text(&pass);
        }
        _ => out.byte(0),
    }
}

fn pid(child: &Child) -> Option<rustix::process::Pid> {
    rustix::process::Pid::from_raw(child.id().cast_signed())
}

fn signal(child: &Child, signal: rustix::process::Signal) {
    if let Some(pid) = pid(child) {
        let _ = rustix::process::kill_process(pid, signal);
    }
}

/// Ends the process and all processes that it started. A keeper is asked to terminate, because it waits until all
/// others have ended.
fn kill(child: &mut Child, kept: bool) {
    if kept {
        signal(child, rustix::process::Signal::TERM);
        let start = Instant::now();
        while matches!(child.try_wait(), Ok(None)) && start.elapsed() < KEEPER {
            std::thread::sleep(Duration::from_micros(100));
        }
    }
    if let Some(pid) = pid(child) {
        let _ = rustix::process::kill_process_group(pid, rustix::process::Signal::KILL);
    }
    let _ = child.kill();
    let _ = child.wait();
}

/// Time limit for the keeper of a worker to end the worker.
const KEEPER: Duration = Duration::from_secs(2);

/// Returns true if a signal has stopped the process.
fn is_stopped(child: &Child) -> bool {
    use rustix::process::{WaitId, WaitIdOptions, waitid};
    let asked = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    pid(child).is_some_and(|pid| matches!(waitid(WaitId::Pid(pid), asked), Ok(Some(status)) if status.stopped()))
}

/// Returns the processor time of a process that has ended and of its waited-for children. Must be called before its exit status is collected.
fn time_of_ended(child: &Child) -> Option<Duration> {
    use rustix::process::{WaitId, WaitIdOptions, waitid};
    let asked = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    waitid(WaitId::Pid(pid(child)?), asked).ok()??;
    process::processor_time(child.id())
}

/// Returns the limits on the work of the host for a worker's question: at most the time left for the call, and at most
/// the memory that the worker may use.
fn bounds(left: Duration, memory: u64) -> EvaluationLimits {
    EvaluationLimits { memory, work: (left.as_secs_f64() * WORK).min(1e18) as u64 }
}

/// Minimum number of units of work per second.
const WORK: f64 = 1e10;

/// Returns true if the message is accepted. Prints a warning when messages begin to be dropped.
fn warned(heard: Heard) -> bool {
    if let Heard::Last(what) = &heard {
        tracing::warn!("{WORKER} {what}");
    }
    heard == Heard::Yes
}

impl Worker {
    /// Returns true if a message of `bytes` bytes is accepted.
    pub(super) fn hears(&self, bytes: u64) -> bool {
        warned(self.start.talk.hears(bytes))
    }

    /// Returns true if a statistic named `name` is counted.
    pub(super) fn counts(&self, name: &str) -> bool {
        warned(self.start.talk.counts(name))
    }

    pub(super) fn talk(&self) -> &Talk {
        &self.start.talk
    }

    /// Keeps a line of the worker's log, which may be one of the last lines.
    pub(super) fn logged(&self, line: &str) {
        let mut said = lock(&self.said);
        said.note(line.as_bytes());
        said.note(b"\n");
    }
}

/// Returns the number of descriptors with news.
///
/// # Errors
/// If the call failed. The end of the worker could not be noticed then.
fn polled(found: rustix::io::Result<usize>) -> Result<usize, Cause> {
    match found {
        Err(rustix::io::Errno::INTR) => Ok(0),
        found => found.map_err(|error| Cause::Unheard(error.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno;

    /// A signal interrupts a call of `poll`, which is repeated. Other errors, such as a limit on open files that a plugin lowered, would be repeated
    /// for ever.
    #[test]
    fn a_failing_poll_is_an_error_and_no_silence() {
        assert!(matches!(polled(Ok(2)), Ok(2)));
        assert!(matches!(polled(Err(Errno::INTR)), Ok(0)));
        for errno in [Errno::INVAL, Errno::NOMEM, Errno::BADF] {
            let found = polled(Err(errno));
            assert!(matches!(&found, Err(Cause::Unheard(error)) if error.raw_os_error() == Some(errno.raw_os_error())));
        }
    }
}
