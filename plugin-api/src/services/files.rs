//! Where a writer puts the bytes of its files.

use crate::ir::storage::layout::layout;
use crate::services::RawBytes;
use std::ffi::c_void;

/// What the host did with bytes.
pub(crate) mod taken {
    pub(crate) const YES: u32 = 0;
    pub(crate) const NO: u32 = 1;
}

/// Takes the bytes of files. The host says why it takes no more; the plugin only learns that it does not.
#[repr(C)]
#[derive(Clone, Copy, abi_stable::StableAbi)]
pub(crate) struct Files {
    /// Data; name of a file beside the output, or nothing for the output itself; bytes that follow those before them.
    put: extern "C" fn(*mut c_void, RawBytes, RawBytes) -> u32,
    #[sabi(unsafe_opaque_field)]
    data: *mut c_void,
}

layout!(Files { put, data });

/// Takes the next bytes of a file beside the output, or of the output itself if the name is empty; false if it does not.
pub(crate) type Take<'a> = dyn FnMut(&str, &[u8]) -> bool + 'a;

extern "C" fn put(data: *mut c_void, name: RawBytes, bytes: RawBytes) -> u32 {
    // SAFETY: `data` is the reference that `Files::to` was given, which lives during its call, as the bytes do during
    // this one.
    let (take, name, bytes) = unsafe { (&mut *data.cast::<&mut Take<'_>>(), name.get(), bytes.get()) };
    let taken = std::str::from_utf8(name).is_ok_and(|name| take(name, bytes));
    if taken { taken::YES } else { taken::NO }
}

impl Files {
    /// Runs `f` with a value that hands bytes to `take`.
    pub(crate) fn to<R>(mut take: &mut Take<'_>, f: impl FnOnce(Files) -> R) -> R {
        f(Files { put, data: (&raw mut take).cast() })
    }

    /// Hands bytes over; false if they are not taken.
    pub(crate) fn put(self, name: &str, bytes: &[u8]) -> bool {
        (self.put)(self.data, RawBytes::of(name.as_bytes()), RawBytes::of(bytes)) == taken::YES
    }
}
