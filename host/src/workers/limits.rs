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

/// Bounds this process; gives what the system does not offer.
///
/// # Errors
/// If a bound cannot be set.
pub(super) fn bound(limits: &Limits, library: &std::fs::File) -> Result<Vec<String>, String> {
    use rustix::process::{Resource, Rlimit, setrlimit};
    let set = |resource, most: u64| {
        let lower = rustix::process::getrlimit(resource).maximum.map_or(most, |hard| hard.min(most));
        setrlimit(resource, Rlimit { current: Some(lower), maximum: Some(lower) }).map_err(|error| error.to_string())
    };
    if let Some(memory) = limits.memory.filter(|memory| *memory < u64::MAX) {
        // What is shared with the host does not count, and no file is larger than the memory.
        set(Resource::Data, memory)?;
        set(Resource::Fsize, memory)?;
    }
    if let Some(cpu) = limits.cpu {
        // At the soft limit a signal comes that says so, and a second later the end.
        let (soft, hard) = (cpu.as_secs(), cpu.as_secs() + 1);
        let limit = Rlimit { current: Some(soft), maximum: Some(hard) };
        setrlimit(Resource::Cpu, limit).map_err(|error| error.to_string())?;
    }
    set(Resource::Core, 0)?;
    sandbox::enter(limits, library)
}

#[cfg(target_os = "linux")]
mod sandbox {
    use super::Limits;
    use landlock::{
        ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, PathBeneath, Ruleset, RulesetAttr,
        RulesetCreatedAttr, RulesetStatus, path_beneath_rules,
    };
    use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, SeccompRule};
    use std::collections::BTreeMap;

    /// Folders with what the dynamic loader and the standard library read.
    const SYSTEM: [&str; 12] = [
        "/usr",
        "/lib",
        "/lib64",
        "/lib32",
        "/bin",
        "/sbin",
        "/opt",
        "/nix",
        "/gnu",
        "/etc/ld.so.cache",
        "/etc/ld.so.conf",
        "/etc/localtime",
    ];
    /// Devices, and facts about the process.
    const FACTS: [&str; 7] = [
        "/proc/self",
        "/proc/cpuinfo",
        "/proc/meminfo",
        "/sys/fs/cgroup",
        "/sys/devices/system",
        "/dev/urandom",
        "/dev/random",
    ];

    pub(super) fn enter(limits: &Limits, library: &std::fs::File) -> Result<Vec<String>, String> {
        let mut missing = Vec::new();
        if !files(limits, library).map_err(|error| error.to_string())? {
            missing.push("the system does not restrict files (Landlock)".to_string());
        }
        if let Err(error) = calls(limits) {
            missing.push(format!("the system does not restrict calls (seccomp: {error})"));
        }
        Ok(missing)
    }

    fn files(limits: &Limits, library: &std::fs::File) -> Result<bool, Box<dyn std::error::Error>> {
        let abi = ABI::V4;
        let (read, all) = (AccessFs::from_read(abi), AccessFs::from_all(abi));
        let rules = Ruleset::default().set_compatibility(CompatLevel::BestEffort).handle_access(all)?;
        let rules = if limits.network { rules } else { rules.handle_access(AccessNet::from_all(abi))? };
        let here =
            |paths: &[std::path::PathBuf]| paths.iter().filter(|path| path.exists()).cloned().collect::<Vec<_>>();
        let mut rules = rules.create()?.add_rules(path_beneath_rules(SYSTEM.iter().chain(&FACTS), read))?;
        rules = rules.add_rules(path_beneath_rules(["/dev/null"], all))?;
        rules = rules.add_rules(path_beneath_rules(here(&limits.read), read))?;
        rules = rules.add_rules(path_beneath_rules(here(&limits.write), all))?;
        // A private copy in memory has no path: there is nothing to allow, and a rule for it is an error.
        if std::os::unix::fs::MetadataExt::nlink(&library.metadata()?) > 0 {
            let itself = AccessFs::ReadFile | AccessFs::Execute;
            rules = rules.add_rule(PathBeneath::new(library, itself))?;
        }
        Ok(rules.restrict_self()?.ruleset != RulesetStatus::NotEnforced)
    }

    /// Calls that would lead out of the process group, to other processes, or to the network, fail.
    fn calls(limits: &Limits) -> Result<(), String> {
        let always = [
            libc::SYS_setsid,
            libc::SYS_setpgid,
            libc::SYS_ptrace,
            libc::SYS_process_vm_readv,
            libc::SYS_process_vm_writev,
            libc::SYS_pidfd_getfd,
            libc::SYS_mount,
            libc::SYS_unshare,
            libc::SYS_setns,
            libc::SYS_io_uring_setup,
            libc::SYS_bpf,
            libc::SYS_keyctl,
            libc::SYS_perf_event_open,
        ];
        let network = [
            libc::SYS_socket,
            libc::SYS_socketpair,
            libc::SYS_connect,
            libc::SYS_bind,
            libc::SYS_listen,
            libc::SYS_accept4,
        ];
        let calls = always.into_iter().chain(network.into_iter().filter(|_| !limits.network));
        let rules: BTreeMap<i64, Vec<SeccompRule>> = calls.map(|call| (call, Vec::new())).collect();
        let arch = std::env::consts::ARCH.try_into().map_err(|_| "this processor is not known".to_string())?;
        let refused = SeccompAction::Errno(libc::EPERM.cast_unsigned());
        let filter =
            SeccompFilter::new(rules, SeccompAction::Allow, refused, arch).map_err(|error| error.to_string())?;
        let program: BpfProgram = filter.try_into().map_err(|error: seccompiler::BackendError| error.to_string())?;
        seccompiler::apply_filter(&program).map_err(|error| error.to_string())
    }
}

#[cfg(not(target_os = "linux"))]
mod sandbox {
    use super::Limits;

    pub(super) fn enter(_: &Limits, _: &std::fs::File) -> Result<Vec<String>, String> {
        Ok(vec!["this system does not restrict files and network of a process".to_string()])
    }
}
