//! Restricts a worker on Linux with kernel features: files by Landlock, system calls by seccomp, no administrator rights, and no network.

use super::limits::{Bounds, Limits};
use crate::process::keeper::{Spaces, without_network};
use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, LandlockStatus, PathBeneath, Ruleset,
    RulesetAttr, RulesetCreatedAttr, RulesetStatus, Scope, path_beneath_rules,
};
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities, set_no_new_privs};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    sock_filter,
};
use std::collections::BTreeMap;

/// Folders that the dynamic loader and the standard library read.
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
/// Devices, and files with information about the process and the machine.
const FACTS: [&str; 7] = [
    "/proc/self",
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/sys/fs/cgroup",
    "/sys/devices/system",
    "/dev/urandom",
    "/dev/random",
];

/// Restricts this process, and returns the restrictions that are in effect.
pub(super) fn enter(limits: &Limits, spaces: Spaces, library: &std::fs::File) -> Result<Bounds, String> {
    let network = limits.network || without_network();
    // Programs that this process executes do not get more rights than the process itself.
    let _ = set_no_new_privs(true);
    if !limits.is_everything() {
        let _ = set_capabilities(None, rights(limits));
    }
    let (files, scopes) = files(limits, library).map_err(|error| error.to_string())?;
    let calls = calls(limits, spaces);
    Ok(Bounds { files, scopes, calls, network, spaces })
}

/// Returns the administrator rights that a worker keeps if the host has them.
fn rights(limits: &Limits) -> CapabilitySets {
    let mut kept = CapabilitySet::empty();
    if !limits.read.is_empty() || !limits.write.is_empty() {
        kept |= CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH;
    }
    if limits.network {
        kept |= CapabilitySet::NET_BIND_SERVICE;
    }
    let has = rustix::thread::capabilities(None).map_or(CapabilitySet::empty(), |has| has.permitted);
    let kept = kept & has;
    CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() }
}

/// Restricts access to files. Returns two flags: true if the kernel enforces this, and true if it keeps signals within
/// the sandbox.
fn files(limits: &Limits, library: &std::fs::File) -> Result<(bool, bool), Box<dyn std::error::Error>> {
    let abi = ABI::V6;
    let (read, all) = (AccessFs::from_read(abi), AccessFs::from_all(abi));
    let rules = Ruleset::default().set_compatibility(CompatLevel::BestEffort).handle_access(all)?;
    let rules = rules.scope(Scope::from_all(abi))?;
    let rules = if limits.network { rules } else { rules.handle_access(AccessNet::from_all(abi))? };
    let here = |paths: &[std::path::PathBuf]| paths.iter().filter(|path| path.exists()).cloned().collect::<Vec<_>>();
    let mut rules = rules.create()?.add_rules(path_beneath_rules(SYSTEM.iter().chain(&FACTS), read))?;
    rules = rules.add_rules(path_beneath_rules(["/dev/null"], AccessFs::from_file(abi) & all))?;
    rules = rules.add_rules(path_beneath_rules(here(&limits.read), read))?;
    let write = if limits.is_everything() { all } else { all & !links_and_devices() };
    rules = rules.add_rules(path_beneath_rules(here(&limits.write), write))?;
    // A private copy in memory is not under any path, so it does not need a rule, and adding one would fail.
    if std::os::unix::fs::MetadataExt::nlink(&library.metadata()?) > 0 {
        let itself = AccessFs::ReadFile | AccessFs::Execute;
        rules = rules.add_rule(PathBeneath::new(library, itself))?;
    }
    let status = rules.restrict_self()?;
    let scopes = matches!(status.landlock, LandlockStatus::Available { effective_abi, .. } if effective_abi >= ABI::V6);
    Ok((status.ruleset != RulesetStatus::NotEnforced, scopes))
}

/// Returns the rights to create links, which lead elsewhere, and pipes, sockets and devices, which can block a process
/// that opens them. These rights are withheld because the host may later write to the same folder.
fn links_and_devices() -> BitFlags<AccessFs> {
    AccessFs::MakeSym | AccessFs::MakeFifo | AccessFs::MakeSock | AccessFs::MakeChar | AccessFs::MakeBlock
}

/// System calls that always fail: they affect other processes, leave the process group, enter another namespace, are
/// only needed by administrators, or use memory that counts against no limit of this process.
const NEVER: &[i64] = &[
    // Processes.
    libc::SYS_setsid,
    libc::SYS_setpgid,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_process_mrelease,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_personality,
    // Namespaces and mounts.
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_chroot,
    libc::SYS_pivot_root,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_move_mount,
    libc::SYS_mount_setattr,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    457, // statmount
    458, // listmount
    467, // open_tree_attr
    470, // listns
    // The machine.
    libc::SYS_reboot,
    libc::SYS_kexec_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_syslog,
    libc::SYS_quotactl,
    443, // quotactl_fd
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_adjtimex,
    libc::SYS_clock_adjtime,
    libc::SYS_vhangup,
    // Interfaces of the kernel that seccomp cannot inspect, or that have had many vulnerabilities.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_io_setup,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_seccomp,
    444, // landlock_create_ruleset
    445, // landlock_add_rule
    446, // landlock_restrict_self
    // Pages that a pipe holds do not count against any process.
    libc::SYS_vmsplice,
    libc::SYS_tee,
    459, // lsm_get_self_attr
    460, // lsm_set_self_attr
    461, // lsm_list_modules
    // These calls watch files that other processes use.
    libc::SYS_fanotify_init,
    libc::SYS_fanotify_mark,
    libc::SYS_inotify_init1,
    libc::SYS_inotify_add_watch,
];

/// Further calls that are never allowed, which exist only on x86-64.
#[cfg(target_arch = "x86_64")]
const NEVER_HERE: &[i64] = &[
    libc::SYS_inotify_init,
    libc::SYS_iopl,
    libc::SYS_ioperm,
    libc::SYS_modify_ldt,
    libc::SYS_uselib,
    libc::SYS_sysfs,
    libc::SYS_kexec_file_load,
];
#[cfg(not(target_arch = "x86_64"))]
const NEVER_HERE: &[i64] = &[];

/// Calls that change the mode, owner, times and attributes of files, which Landlock does not restrict.
const METADATA: &[i64] = &[
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    452, // fchmodat2
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_utimensat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    463, // setxattrat
    466, // removexattrat
    469, // file_setattr
];

#[cfg(target_arch = "x86_64")]
const METADATA_HERE: &[i64] =
    &[libc::SYS_chmod, libc::SYS_chown, libc::SYS_lchown, libc::SYS_utime, libc::SYS_utimes, libc::SYS_futimesat];
#[cfg(not(target_arch = "x86_64"))]
const METADATA_HERE: &[i64] = &[];

/// Calls that create memory outside of the limits of a process, or objects that outlive the process.
const SHARED: &[i64] = &[
    libc::SYS_memfd_create,
    libc::SYS_memfd_secret,
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semctl,
    libc::SYS_semtimedop,
    libc::SYS_msgget,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_msgctl,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
];

/// Kinds of sockets that lead to other machines, and `AF_NETLINK`, which lists network interfaces. Sockets of this machine (`AF_UNIX`) lead
/// to its services.
const DOMAINS: [i64; 3] = [libc::AF_INET as i64, libc::AF_INET6 as i64, libc::AF_NETLINK as i64];

const NETWORK: &[i64] = &[
    libc::SYS_socket,
    libc::SYS_socketpair,
    libc::SYS_connect,
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_accept,
    libc::SYS_accept4,
];

/// A call, and lists of conditions on its arguments: the call fails if all conditions of one list hold.
type Refused = (i64, Vec<Vec<SeccompCondition>>);

fn when(argument: u8, op: SeccompCmpOp, value: u64) -> Result<SeccompCondition, String> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, op, value).map_err(|error| error.to_string())
}

/// Returns a condition that holds if the argument has all of these bits.
fn has(argument: u8, bits: i32) -> Result<SeccompCondition, String> {
    let bits = u64::from(bits.cast_unsigned());
    when(argument, SeccompCmpOp::MaskedEq(bits), bits)
}

/// Returns conditions that hold if the argument is none of these numbers.
fn none_of(argument: u8, numbers: &[i64]) -> Result<Vec<SeccompCondition>, String> {
    numbers.iter().map(|number| when(argument, SeccompCmpOp::Ne, u64::from(*number as u32))).collect()
}

fn is(argument: u8, number: i32) -> Result<Vec<SeccompCondition>, String> {
    Ok(vec![when(argument, SeccompCmpOp::Eq, u64::from(number.cast_unsigned()))?])
}

/// Returns calls that name a process. If the worker can see other processes, calls that name one of them fail.
fn of_other_processes(sees_others: bool) -> Result<Vec<Refused>, String> {
    let own = i64::from(std::process::id());
    let other = |argument: u8| none_of(argument, &[0, own]);
    // Conditions on calls whose first argument selects processes, groups or users, and whose second argument names one
    // of them.
    let of_which = |user: i32| -> Result<Vec<Vec<SeccompCondition>>, String> {
        let mut lists = vec![is(0, user)?];
        if sees_others {
            lists.push(other(1)?);
        }
        Ok(lists)
    };
    let mut refused = vec![
        (libc::SYS_prlimit64, vec![other(0)?]),
        (libc::SYS_migrate_pages, vec![other(0)?]),
        (libc::SYS_move_pages, vec![other(0)?]),
        (libc::SYS_get_robust_list, vec![other(0)?]),
        (libc::SYS_setpriority, of_which(libc::PRIO_USER as i32)?),
        (libc::SYS_getpriority, of_which(libc::PRIO_USER as i32)?),
        // `IOPRIO_WHO_USER`.
        (libc::SYS_ioprio_set, of_which(3)?),
        // `PR_SCHED_CORE` shares a core with another process. A seccomp filter takes kernel memory.
        (libc::SYS_prctl, vec![is(0, 62)?, is(0, libc::PR_SET_SECCOMP)?]),
    ];
    if sees_others {
        for call in [
            libc::SYS_sched_setaffinity,
            libc::SYS_sched_setscheduler,
            libc::SYS_sched_setparam,
            libc::SYS_sched_setattr,
            libc::SYS_pidfd_open,
        ] {
            refused.push((call, vec![other(0)?]));
        }
        refused.push((libc::SYS_kill, vec![none_of(0, &[0, own, -own])?]));
        for call in [libc::SYS_tkill, libc::SYS_tgkill, libc::SYS_rt_sigqueueinfo, libc::SYS_rt_tgsigqueueinfo] {
            refused.push((call, vec![none_of(0, &[own])?]));
        }
        // Always fails, because a descriptor can also refer to the process at the other end of the socket.
        refused.push((libc::SYS_pidfd_send_signal, vec![Vec::new()]));
    }
    Ok(refused)
}

/// Flags that create a process in a new namespace, or with a parent other than the caller.
const APART: [i32; 8] = [
    libc::CLONE_PARENT,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
];

/// Commands of `ioctl` that a worker may use: they query terminals and the lengths of pipes, set flags of descriptors,
/// and clone files. Other commands change devices.
const IOCTLS: [i64; 10] = [
    0x5401,      // TCGETS
    0x540f,      // TIOCGPGRP
    0x5413,      // TIOCGWINSZ
    0x541b,      // FIONREAD
    0x5421,      // FIONBIO
    0x5450,      // FIONCLEX
    0x5451,      // FIOCLEX
    0x4004_9409, // FICLONE
    0x4020_940d, // FICLONERANGE
    0x8008_6601, // FS_IOC_GETFLAGS
];

/// Range of the `ioctl` commands for sockets.
const OF_SOCKETS: (u64, u64) = (0x8900, 0x89ff);

/// Returns the commands of `fcntl` to refuse: signals, notifications and leases, and also locks if only some files are granted, because other
/// processes wait for locks and leases.
fn commands(limits: &Limits) -> Vec<i32> {
    let mut all = vec![libc::F_SETOWN, 15, 10, libc::F_SETLEASE, libc::F_NOTIFY];
    if !limits.is_everything() {
        all.extend([libc::F_SETLK, libc::F_SETLKW, libc::F_OFD_SETLK, libc::F_OFD_SETLKW]);
    }
    all
}

/// Returns calls that fail with some arguments.
fn by_arguments(limits: &Limits) -> Result<Vec<Refused>, String> {
    let mut ioctls = Vec::new();
    for (op, end) in [(SeccompCmpOp::Lt, OF_SOCKETS.0), (SeccompCmpOp::Gt, OF_SOCKETS.1)] {
        let mut all = none_of(1, &IOCTLS)?;
        all.push(when(1, op, end)?);
        ioctls.push(all);
    }
    let apart = APART.into_iter().map(|flag| Ok(vec![has(0, flag)?])).collect::<Result<_, String>>()?;
    let mut refused = vec![
        (libc::SYS_ioctl, ioctls),
        (libc::SYS_fcntl, commands(limits).into_iter().map(|command| is(1, command)).collect::<Result<_, _>>()?),
        (libc::SYS_clone, apart),
        (libc::SYS_openat, new_with_rights(2, 3)?),
        (libc::SYS_mkdirat, rights_in(2)?),
        (libc::SYS_mknodat, rights_in(2)?),
    ];
    #[cfg(target_arch = "x86_64")]
    refused.extend([
        (libc::SYS_open, new_with_rights(1, 2)?),
        (libc::SYS_creat, rights_in(1)?),
        (libc::SYS_mkdir, rights_in(1)?),
        (libc::SYS_mknod, rights_in(1)?),
    ]);
    Ok(refused)
}

/// Returns conditions on the mode bits with which a program runs with the rights of its owner or group.
fn rights_in(mode: u8) -> Result<Vec<Vec<SeccompCondition>>, String> {
    [0o4000, 0o2000].into_iter().map(|bit| Ok(vec![has(mode, bit)?])).collect()
}

/// Like [`rights_in`], for calls that create a file only with `O_CREAT`; other calls ignore the mode.
fn new_with_rights(flags: u8, mode: u8) -> Result<Vec<Vec<SeccompCondition>>, String> {
    [0o4000, 0o2000].into_iter().map(|bit| Ok(vec![has(flags, libc::O_CREAT)?, has(mode, bit)?])).collect()
}

/// Refuses shared anonymous memory and growing stacks, because neither counts against the limits of a process.
fn shared_memory() -> Result<Refused, String> {
    let shared = vec![has(3, libc::MAP_SHARED | libc::MAP_ANONYMOUS)?];
    Ok((libc::SYS_mmap, vec![shared, vec![has(3, libc::MAP_GROWSDOWN)?]]))
}

/// Makes calls that would escape these restrictions fail with EPERM.
fn calls(limits: &Limits, spaces: Spaces) -> Result<(), String> {
    let mut always: Vec<i64> = [NEVER, NEVER_HERE].concat();
    let mut some = by_arguments(limits)?;
    if !limits.is_everything() {
        always.extend([METADATA, METADATA_HERE, SHARED, &[libc::SYS_flock]].concat());
        some.push(shared_memory()?);
    }
    match limits.network {
        true => some.push((libc::SYS_socket, vec![none_of(0, &DOMAINS)?])),
        false => always.extend(NETWORK),
    }
    some.extend(of_other_processes(!spaces.processes)?);
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = always.into_iter().map(|call| (call, Vec::new())).collect();
    for (call, lists) in some {
        let lists = lists.into_iter().filter(|list| !list.is_empty());
        let made = lists.map(|list| SeccompRule::new(list).map_err(|error| error.to_string()));
        rules.insert(call, made.collect::<Result<_, _>>()?);
    }
    let arch = std::env::consts::ARCH.try_into().map_err(|_| "this processor is not supported".to_string())?;
    let refused = SeccompAction::Errno(libc::EPERM.cast_unsigned());
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refused, arch).map_err(|error| error.to_string())?;
    let program: BpfProgram = filter.try_into().map_err(|error: seccompiler::BackendError| error.to_string())?;
    // The second filter forbids installing further filters.
    for program in [&unknown_calls(), &program[..]] {
        seccompiler::apply_filter(program).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Number of the last system call that these lists cover. Later calls may do what the restrictions forbid.
const LAST: u32 = 470;

/// Makes calls appear not to exist: calls newer than [`LAST`], calls of other architectures, and calls with arguments in memory. Programs
/// then fall back, as on an older system.
fn unknown_calls() -> Vec<sock_filter> {
    const LOAD: u16 = 0x20;
    const EQUAL: u16 = 0x15;
    const GREATER: u16 = 0x25;
    const RETURN: u16 = 0x06;
    let step = |code, k, jt, jf| sock_filter { code, jt, jf, k };
    let none = 0x0005_0000 | libc::ENOSYS.cast_unsigned();
    vec![
        // Loads the number of the system call.
        step(LOAD, 0, 0, 0),
        step(GREATER, LAST, 3, 0),
        step(EQUAL, libc::SYS_clone3 as u32, 2, 0),
        step(EQUAL, libc::SYS_openat2 as u32, 1, 0),
        step(RETURN, 0x7fff_0000, 0, 0),
        step(RETURN, none, 0, 0),
    ]
}
