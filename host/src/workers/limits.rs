//! Bounds of a worker process: rlimits, files, and calls of the system.

pub use crate::plugins::limits::Limits;
pub(super) use crate::plugins::limits::amount;

use plugin_api::abi::relay::{Forged, Reader, Writer};
use std::path::PathBuf;
use std::time::Duration;

pub(super) fn put(limits: &Limits, out: &mut Writer) {
    out.number(limits.memory());
    out.number(limits.cpu.map_or(0, |cpu| cpu.as_secs().max(1)));
    for paths in [&limits.read, &limits.write] {
        out.number(paths.len() as u64);
        paths.iter().for_each(|path| out.block(path.as_os_str().as_encoded_bytes()));
    }
    out.byte(u8::from(limits.network));
}

pub(super) fn take(from: &mut Reader<'_>) -> Result<Limits, Forged> {
    let (memory, cpu) = (Some(from.number()?), Some(from.number()?).filter(|cpu| *cpu > 0).map(Duration::from_secs));
    let paths = |from: &mut Reader<'_>| (0..from.count()?).map(|_| from.block().map(path)).collect();
    let (read, write): (Result<_, Forged>, Result<_, Forged>) = (paths(from), paths(from));
    Ok(Limits { timeout: None, memory, cpu, read: read?, write: write?, network: from.byte()? != 0, env: Vec::new() })
}

pub(super) fn path(bytes: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    PathBuf::from(std::ffi::OsStr::from_bytes(bytes))
}

/// Which bounds of a worker hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bounds {
    /// Only files that are granted are opened.
    pub(super) files: bool,
    /// Signals and abstract sockets do not leave the worker.
    pub(super) scopes: bool,
    /// Calls of the system that lead out of the bounds fail; why not.
    pub(super) calls: Result<(), String>,
    /// There is no network, unless it is granted.
    pub(super) network: bool,
    #[cfg(target_os = "linux")]
    pub(super) spaces: Spaces,
}

impl Bounds {
    /// What the plugin can do though the manifest does not grant it, as nothing else prevents it.
    pub(super) fn missing(&self) -> Vec<String> {
        let files = (!self.files).then(|| "the system does not restrict files (Landlock)".to_string());
        let calls = self.calls.as_ref().err();
        files
            .into_iter()
            .chain(calls.map(|why| format!("the system does not restrict calls (seccomp: {why})")))
            .collect()
    }
}

/// A bound that `doctor` shows.
pub(crate) struct Holding {
    pub(crate) what: &'static str,
    pub(crate) holds: bool,
    /// What makes it hold, or what that it does not hold means.
    pub(crate) means: &'static str,
    pub(crate) enables: &'static str,
}

/// Each bound: what makes it hold, what it means that it does not, and what it is for.
const BOUNDS: [(&str, &str, &str, &str); 7] = [
    (
        "isolation: files",
        "Landlock",
        "no Landlock: an isolated plugin opens what the user may open",
        "isolated plugins: `read` and `write`",
    ),
    (
        "isolation: calls",
        "seccomp",
        "no seccomp: it also changes modes and owners of files, and has a network",
        "modes and owners of files, shared memory, `network`",
    ),
    (
        "isolation: scopes",
        "Landlock's scopes",
        "an older Landlock: numbers of processes are compared instead",
        "signals, abstract sockets",
    ),
    (
        "isolation: processes",
        "a name space of the worker",
        "no name space: it sees others, and may signal only itself; what it starts ends with its group",
        "other processes; an end of all that it starts",
    ),
    (
        "isolation: number",
        "2048 threads and processes",
        "no name space for users: only processes are counted, five times a second",
        "processes without end",
    ),
    (
        "isolation: ipc",
        "a name space of the worker",
        "no name space: seccomp refuses it instead",
        "System V memory and queues",
    ),
    (
        "isolation: network",
        "a name space without network",
        "no name space: seccomp refuses sockets instead",
        "plugins without `network`",
    ),
];

/// What [`Bounds::holding`] wrote.
pub(crate) fn read_holding(text: &str) -> Option<Vec<Holding>> {
    let all: Vec<bool> = text.trim().chars().map(|c| c == '1').collect();
    let holding = |((what, found, missing, enables), holds): (_, &bool)| {
        let means = if *holds { found } else { missing };
        Holding { what, holds: *holds, means, enables }
    };
    (all.len() == BOUNDS.len()).then(|| BOUNDS.into_iter().zip(&all).map(holding).collect())
}

impl Bounds {
    /// A digit for each of [`BOUNDS`].
    pub(super) fn holding(&self) -> String {
        #[cfg(target_os = "linux")]
        let [processes, users, ipc] = [self.spaces.processes, self.spaces.users, self.spaces.ipc];
        #[cfg(not(target_os = "linux"))]
        let [processes, users, ipc] = [false; 3];
        let all = [self.files, self.calls.is_ok(), self.scopes, processes, users, ipc, self.network];
        all.map(|holds| if holds { '1' } else { '0' }).iter().collect()
    }
}

/// Open files of a worker, signals that wait for it, and memory that stays in memory. A file can hold memory of the kernel.
const FILES: u64 = 1024;
const SIGNALS: u64 = 4096;
const LOCKED: u64 = 8 << 20;
/// Threads and processes of a worker, where they can be counted.
const PROCESSES: u64 = 2048;
/// Addresses of a worker beside its memory, for libraries, stacks and messages. Their page tables, which no limit counts, take at
/// most a 512th of this.
const ADDRESSES: u64 = 16 << 30;

/// Bounds this process.
///
/// # Errors
/// If a bound cannot be set.
pub(super) fn bound(limits: &Limits, spaces: Spaces, library: &std::fs::File) -> Result<Bounds, String> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let to = |resource, current: Option<u64>, most: u64| {
        let lower = getrlimit(resource).maximum.map_or(most, |hard| hard.min(most));
        let current = current.map_or(lower, |current| current.min(lower));
        setrlimit(resource, Rlimit { current: Some(current), maximum: Some(lower) }).map_err(|error| error.to_string())
    };
    let set = |resource, most: u64| to(resource, None, most);
    if let Some(memory) = limits.memory.filter(|memory| *memory < u64::MAX) {
        // What is shared with the host does not count, and no file is larger than the memory.
        set(Resource::Data, memory)?;
        set(Resource::As, memory.saturating_add(ADDRESSES))?;
        set(Resource::Fsize, memory)?;
        to(Resource::Stack, getrlimit(Resource::Stack).current, memory)?;
    }
    if let Some(cpu) = limits.cpu {
        // At the soft limit a signal comes that says so, and a second later the end.
        let (soft, hard) = (cpu.as_secs(), cpu.as_secs() + 1);
        let limit = Rlimit { current: Some(soft), maximum: Some(hard) };
        setrlimit(Resource::Cpu, limit).map_err(|error| error.to_string())?;
    }
    set(Resource::Core, 0)?;
    set(Resource::Nofile, FILES)?;
    #[cfg(target_os = "linux")]
    {
        set(Resource::Sigpending, SIGNALS)?;
        set(Resource::Memlock, LOCKED)?;
        set(Resource::Msgqueue, 0)?;
        set(Resource::Nice, 0)?;
        set(Resource::Rtprio, 0)?;
        // Elsewhere, all processes of the user count.
        if spaces.users {
            set(Resource::Nproc, PROCESSES)?;
        }
    }
    sandbox::enter(limits, spaces, library)
}

#[cfg(target_os = "linux")]
use super::sandbox;
#[cfg(target_os = "linux")]
pub(super) use crate::process::keeper::Spaces;

/// Other systems have none.
#[cfg(not(target_os = "linux"))]
pub(super) type Spaces = ();

#[cfg(not(target_os = "linux"))]
mod sandbox {
    use super::{Bounds, Limits, Spaces};

    pub(super) fn enter(_: &Limits, _: Spaces, _: &std::fs::File) -> Result<Bounds, String> {
        let calls = Err("this system does not restrict files and network of a process".to_string());
        Ok(Bounds { files: true, scopes: false, calls, network: false })
    }
}
