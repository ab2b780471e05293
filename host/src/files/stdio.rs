//! Whether this process began with a standard output. The standard library opens `/dev/null` in the place of one that is
//! closed, before `main`: what is written there would be lost without an error.

#[cfg(unix)]
mod at_start {
    #![allow(unsafe_code, reason = "a constructor, since `main` comes too late")]

    use std::sync::atomic::{AtomicBool, Ordering};

    static CLOSED: AtomicBool = AtomicBool::new(false);

    #[used]
    #[cfg_attr(not(target_vendor = "apple"), unsafe(link_section = ".init_array"))]
    #[cfg_attr(target_vendor = "apple", unsafe(link_section = "__DATA,__mod_init_func"))]
    static CONSTRUCTOR: extern "C" fn() = look;

    /// Runs before the standard library is ready, so it does no more than ask the system.
    extern "C" fn look() {
        // SAFETY: the call takes numbers and changes nothing.
        let flags = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) };
        CLOSED.store(flags == -1, Ordering::Relaxed);
    }

    pub(super) fn stdout_was_closed() -> bool {
        CLOSED.load(Ordering::Relaxed)
    }
}

/// Whether standard output was closed when this process began.
pub(crate) fn stdout_was_closed() -> bool {
    #[cfg(unix)]
    return at_start::stdout_was_closed();
    #[cfg(not(unix))]
    false
}
