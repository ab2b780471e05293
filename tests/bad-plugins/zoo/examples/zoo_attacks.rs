//! A malicious plugin: `zoo.Attacks` makes system calls that no plugin needs, and fails with the outcome of each;
//! `zoo.Harms` exhausts resources until a limit ends it.
#![allow(unsafe_code, reason = "the attacks are calls of the system")]

use libc::{c_char, c_int, c_long, c_void};
use plugin_api::prelude::*;
use std::ffi::CString;
use std::io::Write;
use std::ptr::null;
use std::time::Duration;

export_plugin! {
    passes: [ATTACKS, HARMS],
}

declare_pass! {
    /// Tries each of these attacks, and fails with their outcomes.
    pub module pass ATTACKS = "zoo.Attacks" {
        opt_level: 0,
        options: Attack {
            /// The attacks, separated by commas.
            ways: String = "",
            /// A process that does not belong to this plugin.
            victim: i64 = 1,
            /// A file that does not belong to this plugin.
            file: String = "victim",
        },
        run: attacks,
    }
}

fn attacks(_: &Module, attack: &Attack, _: &Ctx) -> Result<Module, PassError> {
    let (victim, file) = (attack.victim as c_int, CString::new(attack.file.as_str()).unwrap_or_default());
    let mut said = String::new();
    for way in attack.ways.split(',') {
        let all = [signals, others, spaces, machine, kernel, metadata, opened, memory, network, devices];
        let done = all.iter().find_map(|group| group(way, victim, &file));
        let outcome = match done {
            None => "no such way".to_string(),
            Some(done) if done < 0 => {
                format!("errno {}", std::io::Error::last_os_error().raw_os_error().unwrap_or(0))
            }
            Some(_) => "done".to_string(),
        };
        said += &format!("\n{way}: {outcome}");
    }
    bail!("outcomes of the attacks:{said}")
}

/// Makes a system call by its number.
macro_rules! call {
    ($number:expr $(, $argument:expr)* $(,)?) => {{
        // SAFETY: these are attacks; their effects are unsound, and all of them must be refused.
        unsafe { libc::syscall($number as c_long $(, $argument as c_long)*) }
    }};
}

/// An address in this process, for calls that need one.
static PLACE: [u64; 512] = [0; 512];

fn place() -> c_long {
    &raw const PLACE as c_long
}

fn signals(way: &str, victim: c_int, _: &CString) -> Option<c_long> {
    Some(match way {
        "kill" => call!(libc::SYS_kill, victim, libc::SIGSTOP),
        "kill with nothing" => call!(libc::SYS_kill, victim, 0),
        "kill group" => call!(libc::SYS_kill, -victim, libc::SIGSTOP),
        "kill all" => call!(libc::SYS_kill, -1, libc::SIGCONT),
        "tkill" => call!(libc::SYS_tkill, victim, libc::SIGSTOP),
        "tgkill" => call!(libc::SYS_tgkill, victim, victim, libc::SIGSTOP),
        "rt_sigqueueinfo" => call!(libc::SYS_rt_sigqueueinfo, victim, libc::SIGTERM, queued()),
        "rt_tgsigqueueinfo" => call!(libc::SYS_rt_tgsigqueueinfo, victim, victim, libc::SIGTERM, queued()),
        "pidfd_open" => call!(libc::SYS_pidfd_open, victim, 0),
        // The other end of the socket is the host.
        "pidfd of peer" => {
            let peer = sockets().into_iter().find_map(peer_of);
            peer.map_or(-1, |peer| call!(libc::SYS_pidfd_send_signal, peer, libc::SIGSTOP, 0, 0))
        }
        "signals of a file" => call!(libc::SYS_fcntl, 2, libc::F_SETOWN, victim),
        "process group" => call!(libc::SYS_setpgid, 0, 0),
        "session" => call!(libc::SYS_setsid),
        _ => return None,
    })
}

/// Signal data that claims that the signal was queued.
fn queued() -> c_long {
    static DATA: [i32; 32] = {
        let mut data = [0; 32];
        (data[0], data[2]) = (libc::SIGTERM, libc::SI_QUEUE);
        data
    };
    &raw const DATA as c_long
}

/// Returns the open sockets of this process.
fn sockets() -> Vec<c_int> {
    (0..64).filter(|file| option(*file, libc::SO_TYPE).is_some()).collect()
}

fn option(file: c_int, name: c_int) -> Option<c_int> {
    let (mut value, mut len) = (0 as c_int, 4 as libc::socklen_t);
    // SAFETY: the value and the length are valid during the call.
    let got =
        unsafe { libc::getsockopt(file, libc::SOL_SOCKET, name, (&raw mut value).cast::<c_void>(), &raw mut len) };
    (got == 0).then_some(value)
}

/// Returns a handle of the peer process (`SO_PEERPIDFD`).
fn peer_of(socket: c_int) -> Option<c_int> {
    option(socket, 77)
}

fn others(way: &str, victim: c_int, _: &CString) -> Option<c_long> {
    Some(match way {
        "prlimit" => call!(libc::SYS_prlimit64, victim, libc::RLIMIT_NOFILE, place(), 0),
        "prlimit read" => call!(libc::SYS_prlimit64, victim, libc::RLIMIT_NOFILE, 0, place()),
        "setpriority" => call!(libc::SYS_setpriority, libc::PRIO_PROCESS, victim, 19),
        "setpriority group" => call!(libc::SYS_setpriority, libc::PRIO_PGRP, victim, 19),
        "setpriority user" => call!(libc::SYS_setpriority, libc::PRIO_USER, 0, 19),
        "getpriority" => call!(libc::SYS_getpriority, libc::PRIO_PROCESS, victim),
        "higher priority" => call!(libc::SYS_setpriority, libc::PRIO_PROCESS, 0, -10),
        "sched_setaffinity" => call!(libc::SYS_sched_setaffinity, victim, 8, place() + 8),
        "sched_setscheduler" => call!(libc::SYS_sched_setscheduler, victim, libc::SCHED_IDLE, place()),
        "sched_setparam" => call!(libc::SYS_sched_setparam, victim, place()),
        "sched_setattr" => call!(libc::SYS_sched_setattr, victim, place(), 0),
        "real time" => call!(libc::SYS_sched_setscheduler, 0, libc::SCHED_FIFO, &raw const ONE),
        "ioprio_set" => call!(libc::SYS_ioprio_set, 1, victim, 3 << 13),
        "ioprio_set user" => call!(libc::SYS_ioprio_set, 3, 0, 3 << 13),
        "process_vm_readv" => call!(libc::SYS_process_vm_readv, victim, place(), 1, place(), 1, 0),
        "process_vm_writev" => call!(libc::SYS_process_vm_writev, victim, place(), 1, place(), 1, 0),
        "process_madvise" => call!(libc::SYS_process_madvise, 0, place(), 1, 4, 0),
        "ptrace" => call!(libc::SYS_ptrace, libc::PTRACE_ATTACH, victim, 0, 0),
        "ptrace me" => call!(libc::SYS_ptrace, libc::PTRACE_TRACEME, 0, 0, 0),
        "kcmp" => call!(libc::SYS_kcmp, victim, libc::getpid(), 0, 0, 0),
        "pidfd_getfd" => call!(libc::SYS_pidfd_getfd, 0, 0, 0),
        "move_pages" => call!(libc::SYS_move_pages, victim, 0, place(), 0, place(), 0),
        "migrate_pages" => call!(libc::SYS_migrate_pages, victim, 64, place(), place()),
        "get_robust_list" => call!(libc::SYS_get_robust_list, victim, place(), place()),
        "share a core" => call!(libc::SYS_prctl, 62, 2, victim, 0, 0),
        "more rights" => call!(libc::SYS_capset, &raw const RIGHTS.0, &raw const RIGHTS.1),
        "another user" => call!(libc::SYS_setuid, 12_345),
        "other groups" => call!(libc::SYS_setgroups, 0, 0),
        "more memory" => call!(libc::SYS_prlimit64, 0, libc::RLIMIT_DATA, &raw const UNLIMITED, 0),
        "more files" => call!(libc::SYS_prlimit64, 0, libc::RLIMIT_NOFILE, &raw const UNLIMITED, 0),
        _ => return None,
    })
}

static ONE: i32 = 1;
static UNLIMITED: [u64; 2] = [u64::MAX; 2];
/// Version 3 of the structure, and all rights.
static RIGHTS: ([u32; 2], [u32; 6]) = ([0x2008_0522, 0], [u32::MAX, u32::MAX, 0, 0x1ff, 0x1ff, 0]);

fn spaces(way: &str, _: c_int, _: &CString) -> Option<c_long> {
    let folder = c"/tmp".as_ptr();
    Some(match way {
        "mount" => call!(libc::SYS_mount, folder, folder, 0, libc::MS_BIND, 0),
        "umount" => call!(libc::SYS_umount2, folder, libc::MNT_DETACH),
        "pivot_root" => call!(libc::SYS_pivot_root, folder, folder),
        "chroot" => call!(libc::SYS_chroot, folder),
        "unshare users" => call!(libc::SYS_unshare, libc::CLONE_NEWUSER),
        "unshare mounts" => call!(libc::SYS_unshare, libc::CLONE_NEWNS),
        "setns" => call!(libc::SYS_setns, 2, 0),
        "clone users" => exits(call!(libc::SYS_clone, libc::CLONE_NEWUSER | libc::SIGCHLD, 0, 0, 0, 0)),
        "clone network" => exits(call!(libc::SYS_clone, libc::CLONE_NEWNET | libc::SIGCHLD, 0, 0, 0, 0)),
        "clone for parent" => exits(call!(libc::SYS_clone, libc::CLONE_PARENT | libc::SIGCHLD, 0, 0, 0, 0)),
        "clone3" => exits(call!(libc::SYS_clone3, &raw const CLONE3, 64)),
        "open_tree" => call!(libc::SYS_open_tree, libc::AT_FDCWD, folder, 1),
        "fsopen" => call!(libc::SYS_fsopen, c"tmpfs".as_ptr(), 0),
        "move_mount" => call!(libc::SYS_move_mount, libc::AT_FDCWD, folder, libc::AT_FDCWD, folder, 0),
        "handle of a file" => {
            call!(libc::SYS_name_to_handle_at, libc::AT_FDCWD, folder, place(), &raw const PLACE[64], 0)
        }
        "open_by_handle_at" => call!(libc::SYS_open_by_handle_at, libc::AT_FDCWD, place(), 0),
        "personality" => call!(libc::SYS_personality, 0x0040_0000),
        _ => return None,
    })
}

static CLONE3: [u64; 8] = [libc::CLONE_NEWUSER as u64, 0, 0, 0, libc::SIGCHLD as u64, 0, 0, 0];

/// Exits immediately in a forked child.
fn exits(pid: c_long) -> c_long {
    if pid == 0 {
        // SAFETY: ends the process.
        unsafe { libc::_exit(0) }
    }
    pid
}

fn machine(way: &str, _: c_int, _: &CString) -> Option<c_long> {
    Some(match way {
        "reboot" => call!(libc::SYS_reboot, 0, 0, 0, 0),
        "kexec_load" => call!(libc::SYS_kexec_load, 0, 0, 0, 0),
        "init_module" => call!(libc::SYS_init_module, place(), 64, c"".as_ptr()),
        "delete_module" => call!(libc::SYS_delete_module, c"none".as_ptr(), 0),
        "swapon" => call!(libc::SYS_swapon, c"/none".as_ptr(), 0),
        "swapoff" => call!(libc::SYS_swapoff, c"/none".as_ptr()),
        "acct" => call!(libc::SYS_acct, 0),
        "syslog" => call!(libc::SYS_syslog, 10, 0, 0),
        "quotactl" => call!(libc::SYS_quotactl, 0, 0, 0, 0),
        "sethostname" => call!(libc::SYS_sethostname, c"host".as_ptr(), 4),
        "setdomainname" => call!(libc::SYS_setdomainname, c"host".as_ptr(), 4),
        "settimeofday" => call!(libc::SYS_settimeofday, place(), 0),
        "clock_settime" => call!(libc::SYS_clock_settime, 0, place()),
        "adjtimex" => call!(libc::SYS_adjtimex, &raw const PLACE[0]),
        "vhangup" => call!(libc::SYS_vhangup),
        #[cfg(target_arch = "x86_64")]
        "iopl" => call!(libc::SYS_iopl, 3),
        #[cfg(target_arch = "x86_64")]
        "ioperm" => call!(libc::SYS_ioperm, 0, 1, 1),
        #[cfg(target_arch = "x86_64")]
        "modify_ldt" => call!(libc::SYS_modify_ldt, 0, place(), 16),
        // `getpid` through the x32 system call interface.
        #[cfg(target_arch = "x86_64")]
        "x32" => call!(0x4000_0000 + libc::SYS_getpid),
        "calls to come" => call!(900),
        _ => return None,
    })
}

/// A read lock, which writers must wait for.
static READERS: libc::flock = libc::flock { l_type: libc::F_RDLCK as i16, l_whence: 0, l_start: 0, l_len: 0, l_pid: 0 };

fn kernel(way: &str, _: c_int, file: &CString) -> Option<c_long> {
    Some(match way {
        "bpf" => call!(libc::SYS_bpf, 0, place(), 64),
        "perf_event_open" => call!(libc::SYS_perf_event_open, place(), 0, -1, -1, 0),
        "userfaultfd" => call!(libc::SYS_userfaultfd, 1),
        "io_uring_setup" => call!(libc::SYS_io_uring_setup, 4, place()),
        "io_setup" => call!(libc::SYS_io_setup, 4, &raw const PLACE[100]),
        "keyctl" => call!(libc::SYS_keyctl, 0, -3, 1),
        "add_key" => call!(libc::SYS_add_key, c"user".as_ptr(), c"zoo".as_ptr(), c"x".as_ptr(), 1, -4),
        "request_key" => call!(libc::SYS_request_key, c"user".as_ptr(), c"zoo".as_ptr(), 0, -4),
        "inotify" => call!(libc::SYS_inotify_init1, 0),
        "inotify_add_watch" => call!(libc::SYS_inotify_add_watch, 2, file.as_ptr(), 1),
        "fanotify" => call!(libc::SYS_fanotify_init, 0, 0),
        "lease" => with_library(|own| call!(libc::SYS_fcntl, own, libc::F_SETLEASE, libc::F_RDLCK)),
        "flock" => with_library(|own| call!(libc::SYS_flock, own, libc::LOCK_EX)),
        "lock" => with_library(|own| call!(libc::SYS_fcntl, own, libc::F_SETLK, &raw const READERS)),
        "lock of a description" => {
            with_library(|own| call!(libc::SYS_fcntl, own, libc::F_OFD_SETLK, &raw const READERS))
        }
        "filter of calls" => call!(libc::SYS_seccomp, 0, 0, 0),
        "filter by prctl" => call!(libc::SYS_prctl, libc::PR_SET_SECCOMP, 1, 0, 0, 0),
        "rules for files" => call!(444, 0, 0, 1),
        "notify" => {
            let folder = call!(libc::SYS_openat, libc::AT_FDCWD, c"/usr".as_ptr(), libc::O_RDONLY, 0);
            call!(libc::SYS_fcntl, folder, libc::F_NOTIFY, 1)
        }
        _ => return None,
    })
}

/// Calls `f` with a descriptor of this library, which may be read.
fn with_library(f: impl Fn(c_long) -> c_long) -> c_long {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let path = maps.lines().filter_map(|line| line.split_once('/')).find(|(_, path)| path.contains("zoo_attacks"));
    let path = CString::new(format!("/{}", path.unwrap_or_default().1)).unwrap_or_default();
    f(call!(libc::SYS_openat, libc::AT_FDCWD, path.as_ptr(), libc::O_RDONLY, 0))
}

fn metadata(way: &str, _: c_int, file: &CString) -> Option<c_long> {
    let (path, here, name) = (file.as_ptr(), libc::AT_FDCWD, c"user.zoo".as_ptr());
    Some(match way {
        #[cfg(target_arch = "x86_64")]
        "chmod" => call!(libc::SYS_chmod, path, 0o777),
        "fchmod" => with_library(|own| call!(libc::SYS_fchmod, own, 0o777)),
        "fchmodat" => call!(libc::SYS_fchmodat, here, path, 0o777),
        "fchmodat2" => call!(452, here, path, 0o777, 0),
        #[cfg(target_arch = "x86_64")]
        "chown" => call!(libc::SYS_chown, path, libc::getuid(), libc::getgid()),
        #[cfg(target_arch = "x86_64")]
        "lchown" => call!(libc::SYS_lchown, path, libc::getuid(), libc::getgid()),
        "fchown" => with_library(|own| call!(libc::SYS_fchown, own, libc::getuid(), libc::getgid())),
        "fchownat" => call!(libc::SYS_fchownat, here, path, libc::getuid(), libc::getgid(), 0),
        "utimensat" => call!(libc::SYS_utimensat, here, path, 0, 0),
        "futimens" => with_library(|own| call!(libc::SYS_utimensat, own, 0, 0, 0)),
        #[cfg(target_arch = "x86_64")]
        "utime" => call!(libc::SYS_utime, path, 0),
        #[cfg(target_arch = "x86_64")]
        "utimes" => call!(libc::SYS_utimes, path, 0),
        #[cfg(target_arch = "x86_64")]
        "futimesat" => call!(libc::SYS_futimesat, here, path, 0),
        "setxattr" => call!(libc::SYS_setxattr, path, name, place(), 1, 0),
        "lsetxattr" => call!(libc::SYS_lsetxattr, path, name, place(), 1, 0),
        "fsetxattr" => with_library(|own| call!(libc::SYS_fsetxattr, own, name, place(), 1, 0)),
        "removexattr" => call!(libc::SYS_removexattr, path, name),
        "setxattrat" => call!(463, here, path, 0, name, place(), 16),
        "flags of a file" => with_library(|own| call!(libc::SYS_ioctl, own, 0x4008_6602u32, place())),
        "verity" => with_library(|own| call!(libc::SYS_ioctl, own, 0x4080_6685u32, place())),
        _ => return None,
    })
}

fn opened(way: &str, victim: c_int, file: &CString) -> Option<c_long> {
    let (path, here, new) = (file.as_ptr(), libc::AT_FDCWD, c"planted".as_ptr());
    let open = |path: *const c_char, flags: c_int, mode: c_int| call!(libc::SYS_openat, here, path, flags, mode);
    let of_victim = |name: &str| {
        let path = CString::new(format!("/proc/{victim}/{name}")).unwrap_or_default();
        open(path.as_ptr(), libc::O_RDONLY, 0)
    };
    Some(match way {
        "read" => open(path, libc::O_RDONLY, 0),
        "write" => open(path, libc::O_WRONLY, 0),
        "open and cut off" => open(path, libc::O_WRONLY | libc::O_TRUNC, 0),
        "truncate" => call!(libc::SYS_truncate, path, 0),
        "unlink" => call!(libc::SYS_unlinkat, here, path, 0),
        "rename" => call!(libc::SYS_renameat2, here, path, here, new, 0),
        "link" => call!(libc::SYS_linkat, here, path, here, new, 0),
        "symlink" => call!(libc::SYS_symlinkat, path, here, new),
        "create" => open(new, libc::O_CREAT | libc::O_WRONLY, 0o644),
        "create with rights" => open(new, libc::O_CREAT | libc::O_WRONLY, 0o4755),
        "temporary file" => open(c"/tmp".as_ptr(), libc::O_TMPFILE | libc::O_RDWR, 0o600),
        "shared memory file" => open(c"/dev/shm/zoo".as_ptr(), libc::O_CREAT | libc::O_RDWR, 0o600),
        "folder" => call!(libc::SYS_mkdirat, here, new, 0o777),
        "pipe" => call!(libc::SYS_mknodat, here, new, libc::S_IFIFO | 0o666, 0),
        "device" => call!(libc::SYS_mknodat, here, new, libc::S_IFCHR | 0o666, 0x0103),
        "openat2" => call!(libc::SYS_openat2, here, path, place(), 24),
        "environment of another" => of_victim("environ"),
        "memory of another" => of_victim("mem"),
        "files of another" => of_victim("fd"),
        "terminal" => open(c"/dev/tty".as_ptr(), libc::O_RDWR, 0),
        "disk" => open(c"/dev/vda".as_ptr(), libc::O_RDONLY, 0),
        "passwords" => open(c"/etc/shadow".as_ptr(), libc::O_RDONLY, 0),
        "list of users" => open(c"/etc/passwd".as_ptr(), libc::O_RDONLY, 0),
        "core pattern" => open(c"/proc/sys/kernel/core_pattern".as_ptr(), libc::O_WRONLY, 0),
        "cgroup" => open(c"/sys/fs/cgroup/zoo".as_ptr(), libc::O_CREAT | libc::O_WRONLY, 0o600),
        "own library" => with_library(|own| {
            let path = CString::new(format!("/proc/self/fd/{own}")).unwrap_or_default();
            open(path.as_ptr(), libc::O_WRONLY, 0)
        }),
        _ => return None,
    })
}

fn memory(way: &str, _: c_int, _: &CString) -> Option<c_long> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let map = |at: usize, len: usize, flags: c_int| call!(libc::SYS_mmap, at, len, access, flags, -1, 0);
    Some(match way {
        "shared memory" => map(0, 1 << 30, libc::MAP_SHARED | libc::MAP_ANONYMOUS),
        "validated shared memory" => map(0, 1 << 30, libc::MAP_SHARED_VALIDATE | libc::MAP_ANONYMOUS),
        "a second stack" => map(0, 1 << 30, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_GROWSDOWN),
        "private memory" => map(0, 1 << 30, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS),
        "address 0" => map(0, 4096, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED),
        "addresses" => {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
            call!(libc::SYS_mmap, 0, 400usize << 30, libc::PROT_READ, flags, -1, 0)
        }
        "pages in a pipe" => call!(libc::SYS_vmsplice, 1, place(), 1, 0),
        "a copied pipe" => call!(libc::SYS_tee, 0, 1, 1, 0),
        "memory written later" => {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let at = call!(libc::SYS_mmap, 0, 1 << 30, libc::PROT_READ, flags, -1, 0);
            call!(libc::SYS_mprotect, at, 1 << 30, access)
        }
        "locked memory" => {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let at = call!(libc::SYS_mmap, 0, 1 << 30, libc::PROT_READ, flags, -1, 0);
            call!(libc::SYS_mlock, at, 1 << 30)
        }
        "memfd_create" => call!(libc::SYS_memfd_create, c"zoo".as_ptr(), 0),
        "memfd_secret" => call!(libc::SYS_memfd_secret, 0),
        "shmget" => call!(libc::SYS_shmget, libc::IPC_PRIVATE, 16 << 20, libc::IPC_CREAT | 0o600),
        "semget" => call!(libc::SYS_semget, libc::IPC_PRIVATE, 1, libc::IPC_CREAT | 0o600),
        "msgget" => call!(libc::SYS_msgget, libc::IPC_PRIVATE, libc::IPC_CREAT | 0o600),
        "mq_open" => call!(libc::SYS_mq_open, c"zoo".as_ptr(), libc::O_CREAT | libc::O_RDWR, 0o600, 0),
        "large pipe" => {
            let mut pipe = [0; 2];
            // SAFETY: the array has room for two descriptors.
            unsafe { libc::pipe(pipe.as_mut_ptr()) };
            call!(libc::SYS_fcntl, pipe[0], libc::F_SETPIPE_SZ, 1 << 30)
        }
        _ => return None,
    })
}

fn network(way: &str, _: c_int, _: &CString) -> Option<c_long> {
    let mut pair = [0 as c_int; 2];
    Some(match way {
        "socket" => call!(libc::SYS_socket, libc::AF_INET, libc::SOCK_STREAM, 0),
        "local socket" => call!(libc::SYS_socket, libc::AF_UNIX, libc::SOCK_STREAM, 0),
        "raw socket" => call!(libc::SYS_socket, libc::AF_INET, libc::SOCK_RAW, 1),
        "netlink" => call!(libc::SYS_socket, libc::AF_NETLINK, libc::SOCK_RAW, 0),
        "socketpair" => call!(libc::SYS_socketpair, libc::AF_UNIX, libc::SOCK_STREAM, 0, pair.as_mut_ptr()),
        "connect" => call!(libc::SYS_connect, 2, place(), 16),
        "bind" => call!(libc::SYS_bind, 2, place(), 16),
        "listen" => call!(libc::SYS_listen, 2, 1),
        _ => return None,
    })
}

fn devices(way: &str, _: c_int, _: &CString) -> Option<c_long> {
    Some(match way {
        "TIOCSTI" => call!(libc::SYS_ioctl, 2, libc::TIOCSTI, c"x".as_ptr()),
        "TIOCSCTTY" => call!(libc::SYS_ioctl, 2, libc::TIOCSCTTY, 1),
        "TIOCLINUX" => call!(libc::SYS_ioctl, 2, libc::TIOCLINUX, place()),
        _ => return None,
    })
}

declare_pass! {
    /// Does harm in one of these ways.
    pub module pass HARMS = "zoo.Harms" {
        opt_level: 0,
        options: Harm {
            /// The way.
            how: String = "stop",
        },
        run: harms,
    }
}

fn harms(module: &Module, harm: &Harm, ctx: &Ctx) -> Result<Module, PassError> {
    let how = harm.how.as_str();
    harms_itself(how);
    makes_processes(how);
    forges(how);
    talks(how, module, ctx)?;
    Ok(module.clone())
}

fn forever() -> ! {
    loop {
        std::thread::sleep(Duration::from_secs(1));
    }
}

fn spin() -> ! {
    loop {
        std::hint::spin_loop();
    }
}

fn harms_itself(how: &str) {
    let limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: these are attacks; their effects are unsound, and limits end all of them.
    unsafe {
        match how {
            "stop" => _ = libc::raise(libc::SIGSTOP),
            "stop of parent" => _ = libc::kill(libc::getppid(), libc::SIGSTOP),
            "kill of parent" => _ = libc::kill(libc::getppid(), libc::SIGKILL),
            "kill of own group" => _ = libc::kill(0, libc::SIGKILL),
            "no more files" => _ = libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit),
            "no larger files" => _ = libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit),
            "spin" => spin(),
            "spin on" => {
                libc::signal(libc::SIGXCPU, libc::SIG_IGN);
                spin()
            }
            "deaf" => {
                (1..32).for_each(|signal| _ = libc::signal(signal, libc::SIG_IGN));
                forever()
            }
            "open files" => while libc::dup(2) >= 0 {},
            "no standard error" => _ = libc::close(2),
            "core" => {
                let all = libc::rlimit { rlim_cur: 1 << 30, rlim_max: 1 << 30 };
                libc::setrlimit(libc::RLIMIT_CORE, &raw const all);
                libc::abort()
            }
            "folder and mask" => {
                libc::chdir(c"/".as_ptr());
                libc::umask(0);
                libc::setlocale(libc::LC_ALL, c"tr_TR".as_ptr());
                libc::setenv(c"PATH".as_ptr(), c"/none".as_ptr(), 1);
            }
            "another program" => {
                libc::execl(c"/bin/sleep".as_ptr(), c"sleep".as_ptr(), c"1000".as_ptr(), null::<c_char>());
            }
            "timer" => _ = libc::alarm(1) + libc::sleep(5),
            "threads" => (0..64).for_each(|_| _ = std::thread::Builder::new().spawn(|| spin())),
            _ => {}
        }
    }
}

fn makes_processes(how: &str) {
    // SAFETY: the child only performs the attack.
    let fork = || unsafe { libc::fork() };
    // SAFETY: these are attacks; their effects are unsound, and limits end all of them.
    unsafe {
        match how {
            "daemon" if fork() == 0 => {
                libc::setsid();
                if fork() == 0 {
                    (0..64).for_each(|file| _ = libc::close(file));
                    forever()
                }
                libc::_exit(0);
            }
            "child that is deaf" if fork() == 0 => {
                (1..32).for_each(|signal| _ = libc::signal(signal, libc::SIG_IGN));
                forever()
            }
            "child that is stopped" if fork() == 0 => {
                libc::raise(libc::SIGSTOP);
                forever()
            }
            "bomb" => {
                // As many processes as a shared machine tolerates.
                if (0..500).any(|_| fork() == 0) {
                    forever()
                }
                forever()
            }
            "memory of children" => {
                for _ in 0..16 {
                    if fork() == 0 {
                        std::hint::black_box(vec![1u8; 50 << 20]);
                        let kept = std::hint::black_box(vec![1u8; 50 << 20]);
                        forever_with(&kept)
                    }
                }
                forever()
            }
            _ => {}
        }
    }
}

fn forever_with(kept: &[u8]) -> ! {
    std::hint::black_box(kept);
    forever()
}

/// Returns the header of a frame: kind, whether it is in shared memory, length.
fn frame(kind: u32, far: u32, len: u64) -> Vec<u8> {
    [&kind.to_le_bytes()[..], &far.to_le_bytes(), &len.to_le_bytes()].concat()
}

fn send(bytes: &[u8]) -> bool {
    // SAFETY: the bytes are valid during the call.
    sockets().into_iter().all(|socket| unsafe { libc::write(socket, bytes.as_ptr().cast(), bytes.len()) } > 0)
}

fn forges(how: &str) {
    let (gib, tell) = (1u64 << 30, |body: &[u8]| [&frame(3, 0, body.len() as u64)[..], body].concat());
    // SAFETY: these are attacks; their effects are unsound, and limits end all of them.
    unsafe {
        match how {
            "hole" | "dense" => {
                for file in 3..64 {
                    libc::ftruncate(file, 3 << 30);
                }
                if how == "dense" {
                    (3..64).for_each(|file| _ = libc::posix_fallocate(file, 0, 3 << 30));
                }
                send(&frame(2, 1, 3 * gib));
                forever()
            }
            "long" => {
                send(&frame(2, 1, u64::MAX));
                forever()
            }
            "count" => {
                // A span with more fields than any message has bytes.
                let body = [&[6u8][..], &[0; 50], &u64::MAX.to_le_bytes()].concat();
                send(&tell(&body));
                forever()
            }
            "unfinished" => {
                send(&frame(2, 0, 60 << 20));
                let part = vec![0; 1 << 16];
                while send(&part) {
                    std::thread::sleep(Duration::from_millis(20));
                }
            }
            "questions" => {
                // Requests the target without reading the answer.
                let question = [&frame(1, 0, 1)[..], &[6]].concat();
                while send(&question) {}
            }
            "files" => {
                for _ in 0..2000 {
                    give_file();
                }
                forever()
            }
            _ => {}
        }
    }
}

/// Sends an open file with an empty note.
fn give_file() {
    let mut body = [&frame(3, 0, 2)[..], &[12, 0]].concat();
    // SAFETY: zeros are a valid structure, and the data it points to is valid during the call.
    unsafe {
        let mut part = libc::iovec { iov_base: body.as_mut_ptr().cast(), iov_len: body.len() };
        let mut space = [0u64; 8];
        let mut message: libc::msghdr = std::mem::zeroed();
        (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
        (message.msg_control, message.msg_controllen) = (space.as_mut_ptr().cast(), libc::CMSG_SPACE(4) as _);
        let head = libc::CMSG_FIRSTHDR(&raw const message);
        ((*head).cmsg_level, (*head).cmsg_type) = (libc::SOL_SOCKET, libc::SCM_RIGHTS);
        (*head).cmsg_len = libc::CMSG_LEN(4) as _;
        libc::CMSG_DATA(head).cast::<c_int>().write_unaligned(2);
        sockets().into_iter().for_each(|socket| _ = libc::sendmsg(socket, &raw const message, 0));
    }
}

fn talks(how: &str, module: &Module, ctx: &Ctx) -> Result<(), PassError> {
    let long = "all is well ".repeat(1 << 16);
    match how {
        "diagnostics" => loop {
            ctx.diagnostics().report(Severity::Remark, None, &long);
        },
        "short diagnostics" => loop {
            ctx.diagnostics().report(Severity::Warning, None, "all is well");
        },
        "an error among diagnostics" => {
            for _ in 0..100 {
                ctx.diagnostics().report(Severity::Remark, None, &long);
            }
            ctx.diagnostics().report(Severity::Error, None, "this is wrong");
        }
        "log" => loop {
            plugin_api::tracing::warn!("{long}");
        },
        "statistics" => {
            for at in 0.. {
                ctx.statistic(&format!("counted {at}"), usize::MAX);
            }
        }
        "one statistic" => {
            for _ in 0..100 {
                ctx.statistic("counted", usize::MAX);
            }
        }
        "modules" => loop {
            ctx.show_module(module, &long)?;
        },
        "long error" => bail!("{}", "all is well ".repeat(20 << 20)),
        "standard error" => while std::io::stderr().write_all(long.as_bytes()).is_ok() {},
        "standard output" => while std::io::stdout().write_all(long.as_bytes()).is_ok() {},
        _ => {}
    }
    Ok(())
}
