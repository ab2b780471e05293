//! The receiver of the bytes that a writer writes.

use crate::ir::storage::layout::layout;
use crate::services::RawBytes;
use std::ffi::c_void;

/// The replies of the host to bytes.
pub(crate) mod taken {
    pub(crate) const YES: u32 = 0;
    pub(crate) const NO: u32 = 1;
}

/// Passes the bytes of files to the host. If the host rejects them, it reports the reason itself; the plugin only gets a
/// failure.
#[repr(C)]
#[derive(Clone, Copy, abi_stable::StableAbi)]
pub(crate) struct Files {
    /// Parameters: data; name of a file beside the output, or empty for the output itself; the next bytes.
    put: extern "C" fn(*mut c_void, RawBytes, RawBytes) -> u32,
    #[sabi(unsafe_opaque_field)]
    data: *mut c_void,
}

layout!(Files { put, data });

/// Receives the next bytes of the output, whose name is empty, or of a file beside it. Returns false if it rejects them.
pub(crate) type Take<'a> = dyn FnMut(&str, &[u8]) -> bool + 'a;

extern "C" fn put(data: *mut c_void, name: RawBytes, bytes: RawBytes) -> u32 {
    // SAFETY: `data` is the reference passed to `Files::to`, which lives during that call. The bytes live during this one.
    let (take, name, bytes) = unsafe { (&mut *data.cast::<&mut Take<'_>>(), name.get(), bytes.get()) };
    let taken = std::str::from_utf8(name).is_ok_and(|name| take(name, bytes));
    if taken { taken::YES } else { taken::NO }
}

impl Files {
    /// Calls `f` with a value that passes bytes to `take`.
    pub(crate) fn to<R>(mut take: &mut Take<'_>, f: impl FnOnce(Files) -> R) -> R {
        f(Files { put, data: (&raw mut take).cast() })
    }

    /// Passes bytes on. Returns false if they are rejected.
    pub(crate) fn put(self, name: &str, bytes: &[u8]) -> bool {
        (self.put)(self.data, RawBytes::of(name.as_bytes()), RawBytes::of(bytes)) == taken::YES
    }
}
