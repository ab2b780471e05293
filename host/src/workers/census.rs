//! Counts the resources that all processes of a worker use together, because the system's limits apply to each process
//! separately.

use std::fs::read_to_string;
use std::path::{Path, PathBuf};

/// Maximum number of processes of a worker; a worker with more is ended.
pub(super) const PROCESSES: usize = 2048;

/// The result of a count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Census {
    pub(super) processes: usize,
    /// Bytes of memory. For a worker without other processes, counts only memory of the kernel, because the worker's
    /// own limit covers the rest.
    pub(super) memory: u64,
}

/// Counts a process and all its descendants. `own` is the number of processes that belong to the worker itself; `most` is the number of bytes
/// above which memory is counted exactly.
pub(super) fn of(process: u32, own: usize, most: u64) -> Census {
    let mut all = vec![process];
    let mut at = 0;
    while at < all.len() && all.len() <= PROCESSES {
        all.extend(children(all[at]));
        at += 1;
    }
    let processes = all.len();
    if processes <= own {
        // The limit of the worker counts everything except the kernel memory of its open files.
        return Census { processes, memory: all.iter().map(|process| files(*process)).sum() };
    }
    let sum = |each: fn(u32) -> Option<u64>| all.iter().filter_map(|process| each(*process)).sum();
    let memory = sum(resident);
    // Memory that a forked process shares with its parent counts once.
    let memory =
        if memory > most { sum(|process| proportional(process).or_else(|| resident(process))) } else { memory };
    Census { processes, memory }
}

fn children(process: u32) -> Vec<u32> {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let children = |thread: &Path| read_to_string(thread.join("children")).unwrap_or_default();
    let all = threads.map(|thread| children(&thread.path()));
    all.flat_map(|text| text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>()).collect()
}

/// Maximum number of bytes of kernel memory that an open file holds, such as a full pipe.
const OF_A_FILE: u64 = 8 << 10;

/// Returns the memory of a process in bytes: private and shared pages, page tables and open files.
fn resident(process: u32) -> Option<u64> {
    let own = fields(&format!("/proc/{process}/status"), &["RssAnon:", "RssShmem:", "VmSwap:", "VmPTE:"])?;
    Some(own + files(process))
}

/// Like [`resident`], but divides shared pages among the processes that share them.
fn proportional(process: u32) -> Option<u64> {
    let own = fields(&format!("/proc/{process}/smaps_rollup"), &["Pss_Anon:", "Pss_Shmem:", "SwapPss:"])?;
    Some(own + fields(&format!("/proc/{process}/status"), &["VmPTE:"]).unwrap_or(0) + files(process))
}

/// Bytes of kernel memory per file that an epoll watches.
const OF_A_WATCH: u64 = 192;

/// Returns the kernel memory of the open files of a process. Assumes that each epoll watches all open files, because
/// the actual number is known only after reading the whole list of the epoll.
fn files(process: u32) -> u64 {
    let open = std::fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
    let open: Vec<_> = open.map(|file| file.path()).collect();
    // The first few open files are not counted, because every process has them.
    let more = (open.len() as u64).saturating_sub(16);
    if more == 0 {
        return 0;
    }
    let is_epoll =
        |path: &&PathBuf| std::fs::read_link(path).is_ok_and(|to| to.as_os_str() == "anon_inode:[eventpoll]");
    more * OF_A_FILE + open.iter().filter(is_epoll).count() as u64 * more * OF_A_WATCH
}

/// Sums the given fields, which are in kB, and returns bytes; `None` if none of the fields is present.
fn fields(path: &str, names: &[&str]) -> Option<u64> {
    let text = read_to_string(path).ok()?;
    let value =
        |name: &&str| text.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace().next()?.parse().ok();
    let all: Vec<u64> = names.iter().filter_map(value).collect();
    (!all.is_empty()).then(|| all.iter().sum::<u64>() << 10)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    /// Watching a file takes kernel memory that no limit covers.
    #[test]
    fn what_epolls_watch_is_counted() {
        use rustix::event::{EventfdFlags, epoll, eventfd};
        let before = files(std::process::id());
        let events: Vec<_> = (0..60).filter_map(|_| eventfd(0, EventfdFlags::CLOEXEC).ok()).collect();
        let watching: Vec<_> = (0..60).filter_map(|_| epoll::create(epoll::CreateFlags::CLOEXEC).ok()).collect();
        for (epoll, event) in watching.iter().flat_map(|epoll| events.iter().map(move |event| (epoll, event))) {
            epoll::add(epoll, event, epoll::EventData::new_u64(0), epoll::EventFlags::IN).expect("a watch");
        }
        let held = files(std::process::id()) - before;
        assert!(held >= 60 * 60 * OF_A_WATCH + 120 * OF_A_FILE, "{held}");
    }

    #[test]
    fn a_process_and_its_children_are_counted() {
        let mut shell = Command::new("sh");
        shell.args(["-c", "sleep 60 & sleep 60 & wait"]).stdin(Stdio::null());
        let mut child = shell.spawn().expect("a shell");
        let start = std::time::Instant::now();
        let mut census = of(child.id(), 1, 0);
        while census.processes < 3 && start.elapsed().as_secs() < 20 {
            std::thread::sleep(std::time::Duration::from_millis(5));
            census = of(child.id(), 1, 0);
        }
        let alone = of(child.id(), 3, 0);
        let (part, all) = (proportional(child.id()), resident(child.id()));
        children(child.id()).into_iter().for_each(|pid| {
            let _ = Command::new("kill").arg(pid.to_string()).status();
        });
        let _ = child.wait();
        assert!(census.processes == 3 && census.memory > 0, "{census:?}");
        assert_eq!(alone, Census { processes: 3, memory: 0 });
        // Memory that the children share with their parent is divided among them.
        assert!(part > Some(0) && part <= all, "{part:?} of {all:?}");
        assert_eq!(resident(u32::MAX), None);
    }
}
