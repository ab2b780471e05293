//! Limits of a worker process: rlimits, files, and system calls.

pub(super) use crate::plugins::amounts::amount;
pub use crate::plugins::limits::Limits;

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

/// The limits that are in effect in a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bounds {
    /// True if only granted files can be opened.
    pub(super) files: bool,
    /// True if signals and abstract sockets cannot leave the worker.
    pub(super) scopes: bool,
    /// `Ok` if system calls that would escape the limits fail; otherwise, the reason why such calls are possible.
    pub(super) calls: Result<(), String>,
    /// True if the worker cannot use the network without a grant.
    pub(super) network: bool,
    #[cfg(target_os = "linux")]
    pub(super) spaces: Spaces,
}

impl Bounds {
    /// Lists the operations that the plugin can perform without a grant in the manifest, because the system cannot prevent them.
    pub(super) fn missing(&self) -> Vec<String> {
        let files = (!self.files).then(|| "the system does not restrict files (Landlock)".to_string());
        let calls = self.calls.as_ref().err();
        files
            .into_iter()
            .chain(calls.map(|why| format!("the system does not restrict calls (seccomp: {why})")))
            .collect()
    }
}

/// A limit that `doctor` shows.
pub(crate) struct Holding {
    pub(crate) what: &'static str,
    pub(crate) holds: bool,
    /// The mechanism that enforces the limit, or the consequence of its absence.
    pub(crate) means: &'static str,
    pub(crate) enables: &'static str,
}

/// Each limit: the mechanism that enforces it, the consequence of its absence, and its purpose.
const BOUNDS: [(&str, &str, &str, &str); 7] = [
    (
        "isolation: files",
        "Landlock",
        "without Landlock, an isolated plugin can open all files of the user",
        "isolated plugins: `read` and `write`",
    ),
    (
        "isolation: calls",
        "seccomp",
        "without seccomp, it can change modes and owners of files, and use the network",
        "modes and owners of files, shared memory, `network`",
    ),
    (
        "isolation: scopes",
        "Landlock's scopes",
        "with an older Landlock, process numbers are compared instead",
        "signals, abstract sockets",
    ),
    (
        "isolation: processes",
        "a namespace of the worker",
        "without a namespace, it sees other processes, and can signal only itself; processes that it starts end with its group",
        "other processes; the end of all processes that it starts",
    ),
    (
        "isolation: number",
        "2048 threads and processes",
        "without a user namespace, only processes are counted, five times a second",
        "endless creation of processes",
    ),
    (
        "isolation: ipc",
        "a namespace of the worker",
        "without a namespace, seccomp refuses it instead",
        "System V memory and queues",
    ),
    (
        "isolation: network",
        "a namespace without network",
        "without a namespace, seccomp refuses sockets instead",
        "plugins without `network`",
    ),
];

/// Parses the output of [`Bounds::holding`].
pub(crate) fn read_holding(text: &str) -> Option<Vec<Holding>> {
    let all: Vec<bool> = text.trim().chars().map(|c| c == '1').collect();
    let holding = |((what, found, missing, enables), holds): (_, &bool)| {
        let means = if *holds { found } else { missing };
        Holding { what, holds: *holds, means, enables }
    };
    (all.len() == BOUNDS.len()).then(|| BOUNDS.into_iter().zip(&all).map(holding).collect())
}

impl Bounds {
    /// Returns one digit for each of [`BOUNDS`], which is 1 if the limit is in effect.
    pub(super) fn holding(&self) -> String {
        #[cfg(target_os = "linux")]
        let [processes, users, ipc] = [self.spaces.processes, self.spaces.users, self.spaces.ipc];
        #[cfg(not(target_os = "linux"))]
        let [processes, users, ipc] = [false; 3];
        let all = [self.files, self.calls.is_ok(), self.scopes, processes, users, ipc, self.network];
        all.map(|holds| if holds { '1' } else { '0' }).iter().collect()
    }
}

/// Limits on open files, pending signals and locked memory of a worker. Each open file can hold kernel memory.
const FILES: u64 = 1024;
const SIGNALS: u64 = 4096;
const LOCKED: u64 = 8 << 20;
/// Maximum number of threads and processes of a worker, on systems that can count them.
const PROCESSES: u64 = 2048;
/// Address space of a worker beyond its memory limit, for libraries, stacks and messages. Page tables, which are not limited, take at most
/// 1/512 of this.
const ADDRESSES: u64 = 16 << 30;

/// Applies the limits to this process.
///
/// # Errors
/// If a limit cannot be set.
pub(super) fn bound(limits: &Limits, spaces: Spaces, library: &std::fs::File) -> Result<Bounds, String> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let to = |resource, current: Option<u64>, most: u64| {
        let lower = getrlimit(resource).maximum.map_or(most, |hard| hard.min(most));
        let current = current.map_or(lower, |current| current.min(lower));
        setrlimit(resource, Rlimit { current: Some(current), maximum: Some(lower) }).map_err(|error| error.to_string())
    };
    let set = |resource, most: u64| to(resource, None, most);
    if let Some(memory) = limits.memory.filter(|memory| *memory < u64::MAX) {
        // Memory shared with the host is not counted. No file may be larger than the memory limit.
        set(Resource::Data, memory)?;
        set(Resource::As, memory.saturating_add(ADDRESSES))?;
        set(Resource::Fsize, memory)?;
        to(Resource::Stack, getrlimit(Resource::Stack).current, memory)?;
    }
    if let Some(cpu) = limits.cpu {
        // The soft limit sends SIGXCPU, and the hard limit kills the process a second later.
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
        // Without a user namespace, the limit would count all processes of the user.
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

/// Other systems lack namespaces.
#[cfg(not(target_os = "linux"))]
pub(super) type Spaces = ();

#[cfg(not(target_os = "linux"))]
mod sandbox {
    use super::{Bounds, Limits, Spaces};

    pub(super) fn enter(_: &Limits, _: Spaces, _: &std::fs::File) -> Result<Bounds, String> {
        let calls = Err("this system cannot restrict a process's file and network access".to_string());
        Ok(Bounds { files: true, scopes: false, calls, network: false })
    }
}
