//! Notifies the runtime of forks of this process.
#![allow(unsafe_code, reason = "handlers of forks need unsafe code")]

/// Installs the handlers, once.
pub(crate) fn watch() {
    #[cfg(unix)]
    {
        static WATCHED: std::sync::Once = std::sync::Once::new();
        // SAFETY: the functions take no arguments, do not unwind, and take no locks.
        WATCHED.call_once(|| unsafe {
            libc::pthread_atfork(Some(before), Some(after_in_parent), Some(after_in_child));
        });
    }
}

#[cfg(unix)]
extern "C" fn before() {
    runtime::fork::before();
}

#[cfg(unix)]
extern "C" fn after_in_parent() {
    runtime::fork::after_in_parent();
}

#[cfg(unix)]
extern "C" fn after_in_child() {
    runtime::fork::after_in_child();
}
