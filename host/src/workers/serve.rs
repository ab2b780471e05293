//! The main loop of a worker: opens one plugin, and performs the host's calls until the host ends it.

use super::channel::{Channel, Frame, receive_files};
use super::limits::{self, Spaces};
use super::remote::{self, Header, Remote, Session};
use super::words::{call, event, take_file, tell};
use crate::files::mapped::{Bytes, map_as, opened};
use crate::plugins::library::Library;
use crate::plugins::loader;
use crate::process::{self, Kind};
use crate::report::error::{Error, exit};
use passhost_lang::ir::Body;
use passhost_lang::metadata::{Granularity, PluginMeta, Required};
use plugin_api::abi::PluginInstrument;
use plugin_api::abi::host::{FileFacts, OpenPlugin, RunFailure, with_current};
use plugin_api::abi::relay::{Forged, Outcome, Reader, Writer, put_inferred, put_legalized, take_call, take_values};
use plugin_api::declare::instrument::{PassFacts, PassInstrument};
use semver::VersionReq;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;

/// An open plugin.
struct Opened {
    plugin: OpenPlugin,
    meta: PluginMeta,
    file: PathBuf,
    instruments: RefCell<HashMap<u64, PluginInstrument>>,
    last: Cell<u64>,
}

/// Runs the worker or its keeper process, and returns the exit code.
pub(super) fn run() -> u8 {
    match kept() {
        Ok(spaces) => work(spaces),
        Err(code) => code,
    }
}

/// Prints the limits in effect instead of serving a host, and returns the exit code.
pub(super) fn show() -> u8 {
    use std::io::Write;
    let spaces = match kept() {
        Ok(spaces) => spaces,
        Err(code) => return code,
    };
    let limits = limits::Limits { memory: Some(1 << 30), ..limits::Limits::default() };
    let bounds = File::open("/dev/null").map_err(|error| error.to_string());
    let bounds = bounds.and_then(|library| limits::bound(&limits, spaces, &library));
    let written =
        bounds.map_err(io::Error::other).and_then(|bounds| io::stdout().write_all(bounds.holding().as_bytes()));
    if written.is_ok() { exit::DONE } else { exit::FAULT }
}

/// Forks a keeper if the system allows it, and returns the namespaces of the worker.
///
/// # Errors
/// The exit code, if this process is the keeper.
pub(super) fn kept() -> Result<Spaces, u8> {
    #[cfg(target_os = "linux")]
    return match process::keeper::keep() {
        process::keeper::Side::Worker(spaces) => Ok(spaces),
        process::keeper::Side::Keeper(code) => Err(code),
    };
    #[cfg(not(target_os = "linux"))]
    Ok(())
}

/// Returns true if a keeper process waits until all other processes of this worker have ended.
fn is_kept(spaces: Spaces) -> bool {
    #[cfg(target_os = "linux")]
    return spaces.processes;
    #[cfg(not(target_os = "linux"))]
    false
}

fn work(spaces: Spaces) -> u8 {
    match connect().map(|(channel, library)| serve(channel, spaces, library)) {
        Ok(Ok(())) => exit::DONE,
        // The host has exited, or sent an invalid message, so the error cannot be reported to it.
        Ok(Err(_)) | Err(_) => exit::FAULT,
    }
}

/// Takes over the socket from standard output and the library from standard input. The plugin's standard output then goes to standard error.
fn connect() -> io::Result<(&'static Channel, File)> {
    let socket = UnixStream::from(io::stdout().as_fd().try_clone_to_owned()?);
    let library = File::open("/proc/self/fd/0");
    let library = library.or_else(|_| io::stdin().as_fd().try_clone_to_owned().map(File::from))?;
    let null = OpenOptions::new().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(io::stderr())?;
    let files: [File; 2] =
        receive_files(&socket)?.try_into().map_err(|_| io::Error::other("two files must be sent"))?;
    let [outbox, inbox] = files;
    Ok((Box::leak(Box::new(Channel::new(socket, outbox, inbox))), library))
}

/// Ends this process, and all processes that the plugin started, when the host exits.
fn watch(channel: &'static Channel) {
    use rustix::event::{PollFd, PollFlags, poll};
    let wait = move || loop {
        let mut socket = [PollFd::from_borrowed_fd(channel.socket(), PollFlags::empty())];
        // The timeout is needed because a socket that the plugin closes stays open while `poll` waits on it.
        let pause = rustix::event::Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
        let _ = poll(&mut socket, Some(&pause));
        match socket[0].revents() {
            found if found.contains(PollFlags::NVAL) => return,
            found if found.intersects(PollFlags::HUP | PollFlags::ERR) => {
                let _ = rustix::process::kill_current_process_group(rustix::process::Signal::KILL);
            }
            _ => {}
        }
    };
    // If the thread cannot be started, a call that never ends keeps the process alive after the host has exited.
    let _ = std::thread::Builder::new().name("host".to_string()).stack_size(1 << 16).spawn(wait);
}

fn serve(channel: &'static Channel, spaces: Spaces, library: File) -> Result<(), Forged> {
    process::watch_worker();
    remote::start_log(channel);
    let session = Session::new(channel);
    let (mut library, mut opened) = (Some(library), None);
    loop {
        let (frame, buffer) = channel.wait().map_err(|error| Forged::new(error.to_string()))?;
        if frame != Frame::Call {
            return Err(Forged::new("the host sent an answer without a request"));
        }
        let mut from = Reader::new(buffer.bytes());
        let what = from.byte()?;
        session.known().take_forgotten(&mut from)?;
        let header = Header::take(&mut from)?;
        let mut out = Writer::default();
        match (what, &opened) {
            (call::OPEN, None) => {
                let Some(library) = library.take() else { return Err(Forged::new("the library is missing")) };
                // If this process ends after this point, the host can see that it was a worker. If the host has exited, the reply fails.
                let _ = channel.tell(&[tell::HERE, u8::from(is_kept(spaces))], true);
                opened = open(library, spaces, &mut from, &mut out)?;
                watch(channel);
            }
            (call::QUIT, _) => {
                let _ = channel.send(Frame::Reply, out.bytes());
                return Ok(());
            }
            (what, Some(opened)) => do_call(&session, opened, what, header, &mut from, &mut out)?,
            _ => return Err(Forged::new("a plugin has not been opened")),
        }
        remote::only_the_original();
        channel.send(Frame::Reply, out.bytes()).map_err(|error| Forged::new(error.to_string()))?;
    }
}

/// Opens the plugin within its limits.
fn open(library: File, spaces: Spaces, from: &mut Reader<'_>, out: &mut Writer) -> Result<Option<Opened>, Forged> {
    let version = from.text()?;
    let number = from.number()?;
    let file = limits::path(from.block()?);
    let limits = limits::take(from)?;
    out.number(number);
    if version != env!("CARGO_PKG_VERSION") {
        out.number(0);
        out.maybe_text(Some(&format!(
            "the worker program has version {}, but the host has {version}",
            env!("CARGO_PKG_VERSION")
        )));
        out.text("use a worker program of the same version");
        return Ok(None);
    }
    let name = file.to_string_lossy().into_owned();
    let _doing = process::begin(&process::Call {
        kind: Kind::Opening,
        step: 0,
        name: &name,
        plugin: &name,
        file: file.as_os_str().as_encoded_bytes(),
        about: "",
    });
    let bounded = limits::bound(&limits, spaces, &library).map(|bounds| bounds.missing());
    let refuse = |message: String, help: &str| Error::Plugin { path: file.clone(), message, help: help.to_string() };
    let missing = bounded.as_ref().map_or(&[][..], Vec::as_slice);
    out.number(missing.len() as u64);
    missing.iter().for_each(|missing| out.text(missing));
    let opened = bounded
        .as_ref()
        .map_err(|error| refuse(format!("cannot set its limits: {error}"), "use different limits"))
        .and_then(|_| Library::of(library, &file).map_err(|error| refuse(error.to_string(), error.help())))
        .and_then(|library| Ok((loader::list_with(&library, None, None, || Ok(()))?, library)))
        // A private copy is not under any path.
        .and_then(|(listed, library)| Ok((loader::open_as(&listed, &library)?, listed.meta)));
    match opened {
        Ok((plugin, meta)) => {
            out.maybe_text(None);
            let (instruments, last) = Default::default();
            Ok(Some(Opened { plugin, meta, file, instruments, last }))
        }
        Err(error) => {
            let (message, help) = match error {
                Error::Plugin { message, help, .. } => (message, help),
                other => (other.to_string(), String::new()),
            };
            out.maybe_text(Some(&message));
            out.text(&help);
            Ok(None)
        }
    }
}

/// Performs one call. The host's services are those of the enclosing call, if there is a context.
fn do_call(
    session: &Session,
    opened: &Opened,
    what: u8,
    header: Option<Header>,
    from: &mut Reader<'_>,
    out: &mut Writer,
) -> Result<(), Forged> {
    let nested = |what: u8, header: Option<Header>, from: &mut Reader<'_>, out: &mut Writer| {
        do_call(session, opened, what, header, from, out)
    };
    match header {
        Some(header) => {
            let level = header.opt_level;
            let remote = Remote::new(session, header, &nested);
            with_current(&remote, level, || one_call(session, opened, what, from, out))
        }
        None => one_call(session, opened, what, from, out),
    }
}

/// Records which code runs, for the crash handler.
fn doing(opened: &Opened, kind: Kind, name: &str, about: &str) -> process::Doing {
    let file = opened.file.as_os_str().as_encoded_bytes();
    process::begin(&process::Call { kind, step: 0, name, plugin: &opened.meta.name, file, about })
}

fn one_call(
    session: &Session,
    opened: &Opened,
    what: u8,
    from: &mut Reader<'_>,
    out: &mut Writer,
) -> Result<(), Forged> {
    let at = from.number()? as usize;
    let plugin = &opened.plugin;
    match what {
        call::RUN_MODULE => {
            let options = take_values(from)?;
            let module = session.known().take_module(from)?;
            let doing = doing(opened, Kind::Pass, "", "");
            let result = plugin.run_module(at, &module, &options);
            drop(doing);
            Outcome::put(out, &result);
            result.iter().for_each(|module| session.known().put_module(out, module));
        }
        call::READ => read(session, opened, at, from, out)?,
        call::WRITE => write(session, opened, at, from, out)?,
        call::RUN_FUNCTIONS => run_functions(session, opened, at, from, out)?,
        call::CHECK => {
            let name = from.text()?;
            let body = session.known().take_body(from)?;
            let doing = doing(opened, Kind::Checker, "", name);
            Outcome::put(out, &plugin.check_property(at, (name, &body)));
            drop(doing);
        }
        call::INFER => {
            let part = take_call(&mut session.known(), from)?;
            let Some(call) = part.call() else { return Err(Forged::new("the call is missing")) };
            let doing = doing(opened, Kind::Rule, call.op().unwrap_or_default(), "");
            let before = session.spoken();
            let answer = plugin.infer(at, call);
            drop(doing);
            out.byte(u8::from(session.spoken() == before));
            put_inferred(out, &answer);
        }
        call::LEGALIZE => {
            let part = take_call(&mut session.known(), from)?;
            let Some(call) = part.call() else { return Err(Forged::new("the call is missing")) };
            let doing = doing(opened, Kind::Rule, call.op().unwrap_or_default(), "");
            let answer = plugin.legalize(at, call);
            drop(doing);
            put_legalized(&mut session.known(), out, &answer);
        }
        call::MAKE => make_instrument(opened, at, from, out)?,
        call::EVENT => instrument_event(session, opened, at as u64, from, out)?,
        call::DROP => {
            let instrument = opened.instruments.borrow_mut().remove(&(at as u64));
            let doing = doing(opened, Kind::Instrument, "", process::DESTRUCTOR);
            Outcome::put(out, &instrument.map_or(Ok(()), PluginInstrument::close));
            drop(doing);
        }
        _ => return Err(Forged::new("the host requested an unknown function")),
    }
    from.end()
}

/// Reads a file with a reader of the plugin. The worker maps the file if it has a path.
fn read(session: &Session, opened: &Opened, at: usize, from: &mut Reader<'_>, out: &mut Writer) -> Result<(), Forged> {
    let options = take_values(from)?;
    let (name, path, bytes) = take_file(from)?;
    let mapped = match &path {
        Some(path) => File::open(path).and_then(|file| map_as(&file, path, Some(""))),
        None => Ok(Bytes::from(Arc::<[u8]>::from(bytes))),
    };
    let doing = doing(opened, Kind::Format, "", "reader");
    let result = mapped.map_err(|error| RunFailure::Protocol(format!("cannot read the file in its worker: {error}")));
    let result = result.and_then(|mapped| {
        let facts = FileFacts { name, path: path.as_deref() };
        let open = |name: &str| self::opened(&mapped, path.as_deref(), name);
        opened.plugin.read(at, facts, &mapped, &open, &options)
    });
    drop(doing);
    Outcome::put(out, &result);
    // The host maps the same files, so their data is sent as references.
    session.known().refer(true);
    result.iter().for_each(|module| session.known().put_module(out, module));
    session.known().refer(false);
    Ok(())
}

/// Writes a module, and sends the bytes to the host.
fn write(session: &Session, opened: &Opened, at: usize, from: &mut Reader<'_>, out: &mut Writer) -> Result<(), Forged> {
    let options = take_values(from)?;
    let (name, path, _) = take_file(from)?;
    let module = session.known().take_module(from)?;
    let doing = doing(opened, Kind::Format, "", "writer");
    let facts = FileFacts { name, path: path.as_deref() };
    let mut take = super::put_here;
    let result = opened.plugin.write(at, &module, facts, &options, &mut take);
    drop(doing);
    Outcome::put(out, &result);
    Ok(())
}

fn make_instrument(opened: &Opened, at: usize, from: &mut Reader<'_>, out: &mut Writer) -> Result<(), Forged> {
    let options = take_values(from)?;
    let doing = doing(opened, Kind::Instrument, "", process::NEW);
    let made = opened.plugin.make_instrument(at, &options);
    drop(doing);
    Outcome::put(out, &made);
    if let Ok(instrument) = made {
        let number = opened.last.get() + 1;
        opened.last.set(number);
        opened.instruments.borrow_mut().insert(number, instrument);
        out.number(number);
    }
    Ok(())
}

fn run_functions(
    session: &Session,
    opened: &Opened,
    at: usize,
    from: &mut Reader<'_>,
    out: &mut Writer,
) -> Result<(), Forged> {
    let options = take_values(from)?;
    let mut functions: Vec<(&str, Body)> = Vec::new();
    for _ in 0..from.count()? {
        let name = from.text()?;
        functions.push((name, session.known().take_body(from)?));
    }
    let functions: Vec<(&str, &Body)> = functions.iter().map(|(name, body)| (*name, body)).collect();
    let only = if let [(name, _)] = functions[..] { name } else { "" };
    let doing = doing(opened, Kind::Pass, "", only);
    let results = opened.plugin.run_functions(at, &functions, &options);
    drop(doing);
    for result in &results {
        Outcome::put(out, result);
        result.iter().for_each(|body| session.known().put_body(out, body));
    }
    Ok(())
}

fn instrument_event(
    session: &Session,
    opened: &Opened,
    number: u64,
    from: &mut Reader<'_>,
    out: &mut Writer,
) -> Result<(), Forged> {
    let what = from.byte()?;
    let module = if from.byte()? == 0 { None } else { Some(session.known().take_module(from)?) };
    let (facts, message) = if from.byte()? == 0 { (None, "") } else { (Some(Facts::take(from)?), from.text()?) };
    // The instrument is removed from the table during the call, because it may call the host, which may call back.
    let Some(mut instrument) = opened.instruments.borrow_mut().remove(&number) else {
        return Err(Forged::new("the instrument does not exist"));
    };
    let doing = doing(opened, Kind::Instrument, "", process::EVENTS.get(usize::from(what)).copied().unwrap_or(""));
    let pass = facts.as_ref().map(Facts::facts);
    let answer = match (what, &module, &pass) {
        (event::ENTER, ..) => instrument.enter().map(|()| true),
        (event::EXIT, ..) => instrument.exit().map(|()| true),
        (event::SHOULD_RUN, Some(module), Some(pass)) => instrument.should_run(module, pass),
        (event::RUN_BEFORE, Some(module), Some(pass)) => instrument.run_before(module, pass).map(|()| true),
        (event::RUN_AFTER, Some(module), Some(pass)) => instrument.run_after(module, pass).map(|()| true),
        (event::RUN_FAILED, Some(module), Some(pass)) => instrument.run_failed(module, pass, message).map(|()| true),
        _ => return Err(Forged::new("an event of an instrument is incomplete")),
    };
    drop(doing);
    out.byte(u8::from(instrument.panicked()));
    opened.instruments.borrow_mut().insert(number, instrument);
    let agrees = answer.as_ref().is_ok_and(|agrees| *agrees);
    Outcome::put(out, &answer.map_err(RunFailure::Error));
    out.byte(u8::from(agrees));
    Ok(())
}

/// The description of a pass that an instrument receives.
struct Facts<'a> {
    name: &'a str,
    opt_level: i32,
    granularity: Granularity,
    required: Vec<Required>,
    plugin: &'a str,
    position: usize,
}

impl<'a> Facts<'a> {
    fn take(from: &mut Reader<'a>) -> Result<Facts<'a>, Forged> {
        let (name, opt_level) = (from.text()?, from.number()?.cast_signed() as i32);
        let granularity = Granularity::of(from.byte()?).ok_or_else(|| Forged::new("unknown granularity"))?;
        let required = |from: &mut Reader<'a>| {
            let name = from.text()?.to_string();
            Ok(Required { name, version: from.maybe_text()?.and_then(|text| VersionReq::parse(text).ok()) })
        };
        let required = (0..from.count()?).map(|_| required(from)).collect::<Result<_, Forged>>()?;
        Ok(Facts { name, opt_level, granularity, required, plugin: from.text()?, position: from.number()? as usize })
    }

    fn facts(&self) -> PassFacts<'_> {
        let Facts { name, opt_level, granularity, ref required, plugin, position } = *self;
        PassFacts::new(name, plugin, granularity, opt_level, required, position)
    }
}

/// Reads the value of a config key, or `None` if it is not set.
pub(super) fn one_value(from: &mut Reader<'_>) -> Result<Option<passhost_lang::metadata::OptionValue>, Forged> {
    Ok(take_values(from)?.into_iter().next())
}
