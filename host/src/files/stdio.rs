//! Detects whether this process was started with a standard output. If it was closed, the standard library opens
//! `/dev/null` in its place before `main`, and output would be lost without an error.

#[cfg(unix)]
mod at_start {
    #![allow(unsafe_code, reason = "a constructor, since `main` comes too late")]

    use std::sync::atomic::{AtomicBool, Ordering};

    static CLOSED: AtomicBool = AtomicBool::new(false);

    #[used]
    #[cfg_attr(not(target_vendor = "apple"), unsafe(link_section = ".init_array"))]
    #[cfg_attr(target_vendor = "apple", unsafe(link_section = "__DATA,__mod_init_func"))]
    static CONSTRUCTOR: extern "C" fn() = look;

    /// Checks standard output. Runs before the standard library is initialized, so it only makes a system call.
    extern "C" fn look() {
        // SAFETY: the call takes only numbers, and does not change anything.
        let flags = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) };
        CLOSED.store(flags == -1, Ordering::Relaxed);
    }

    pub(super) fn stdout_was_closed() -> bool {
        CLOSED.load(Ordering::Relaxed)
    }
}

/// Returns true if standard output was closed when this process was started.
pub(crate) fn stdout_was_closed() -> bool {
    #[cfg(unix)]
    return at_start::stdout_was_closed();
    #[cfg(not(unix))]
    false
}
