//! The files of readers and writers: the receiver of a writer's bytes, and the files opened by a reader.

use crate::ir::storage::layout::layout;
use crate::ir::storage::tensor::{Tensor, TensorHdr};
use crate::services::{RawBytes, Sink};
use std::ffi::c_void;
use std::path::{Component, Path, PathBuf};

/// The host's replies to bytes.
pub(crate) mod taken {
    pub(crate) const YES: u32 = 0;
    pub(crate) const NO: u32 = 1;
}

/// Passes the bytes of files to the host. If the host rejects them, the host reports the reason; the plugin gets only a
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

/// Receives the next bytes of the output (if the name is empty) or of a file beside it. Returns false to reject them.
pub(crate) type Take<'a> = dyn FnMut(&str, &[u8]) -> bool + 'a;

extern "C" fn put(data: *mut c_void, name: RawBytes, bytes: RawBytes) -> u32 {
    // SAFETY: `data` is the reference passed to `Files::to`, which lives during that call. The bytes live while this
    // function runs.
    let (take, name, bytes) = unsafe { (&mut *data.cast::<&mut Take<'_>>(), name.get(), bytes.get()) };
    let taken = std::str::from_utf8(name).is_ok_and(|name| take(name, bytes));
    if taken { taken::YES } else { taken::NO }
}

impl Files {
    /// Calls `f` with a value that passes bytes to `take`.
    pub(crate) fn to<R>(mut take: &mut Take<'_>, f: impl FnOnce(Files) -> R) -> R {
        f(Files { put, data: (&raw mut take).cast() })
    }

    /// Forwards bytes. Returns false if the receiver rejects them.
    pub(crate) fn put(self, name: &str, bytes: &[u8]) -> bool {
        (self.put)(self.data, RawBytes::of(name.as_bytes()), RawBytes::of(bytes)) == taken::YES
    }
}

/// Opens files for a reader: its input file (if the name is empty), and other files in the same folder.
#[repr(C)]
#[derive(Clone, Copy, abi_stable::StableAbi)]
pub(crate) struct Sources {
    /// Parameters: data; name; error. Returns a tensor with all bytes of the file and without their hash, or null.
    open: extern "C" fn(*mut c_void, RawBytes, Sink) -> *const TensorHdr,
    #[sabi(unsafe_opaque_field)]
    data: *mut c_void,
}

layout!(Sources { open, data });

/// Returns all bytes of the source (if the name is empty) or of a file in its folder, as a tensor without a hash.
pub type Open<'a> = dyn Fn(&str) -> Result<Tensor, String> + 'a;

extern "C" fn open(data: *mut c_void, name: RawBytes, error: Sink) -> *const TensorHdr {
    // SAFETY: `data` is the reference passed to `Sources::to`, which lives during that call. The bytes live while this
    // function runs.
    let (open, name) = unsafe { (&*data.cast::<&Open<'_>>(), name.get()) };
    let opened = std::str::from_utf8(name).map_err(|_| "its name is not UTF-8".to_string()).and_then(open);
    match opened {
        Ok(tensor) => tensor.into_ptr(),
        Err(why) => {
            error.put(why.as_bytes());
            std::ptr::null()
        }
    }
}

impl Sources {
    /// Calls `f` with a value that opens files with `open`.
    pub(crate) fn to<R>(mut open: &Open<'_>, f: impl FnOnce(Sources) -> R) -> R {
        f(Sources { open: self::open, data: (&raw mut open).cast() })
    }

    /// Opens a file in the host.
    ///
    /// # Errors
    /// The reason, without the name.
    pub(crate) fn open(self, name: &str) -> Result<Tensor, String> {
        let (hdr, error) = Sink::to(|sink| (self.open)(self.data, RawBytes::of(name.as_bytes()), sink));
        // SAFETY: the host returns a new handle, whose ownership passes to this code, or null.
        unsafe { Tensor::from_ptr(hdr) }.ok_or_else(|| String::from_utf8_lossy(&error).into_owned())
    }
}

/// Returns the path of a file in the folder of another file, or in a subfolder. Links must not lead out of that folder,
/// except to the real folder of the other file. For example, a model cache contains a folder of links to differently
/// named files in a different folder.
///
/// # Errors
/// If `path` is `None`, or the name leads elsewhere or is not a regular file.
pub fn place_beside(path: Option<&Path>, name: &str) -> Result<PathBuf, String> {
    let Some((path, folder)) = path.and_then(|path| Some((path, path.parent()?))) else {
        return Err(
            "it must be in the folder of the file that names it, which needs a path; specify that path".to_string()
        );
    };
    let outside = || "it is not in the folder of the file that names it; move it there".to_string();
    if name.is_empty() || !stays_inside(name) {
        return Err(outside());
    }
    let cannot = |error: std::io::Error| format!("it cannot be read: {error}");
    let place = folder.join(name).canonicalize().map_err(cannot)?;
    if !place.starts_with(folder.canonicalize().map_err(cannot)?) {
        let real = path.canonicalize().map_err(cannot)?;
        if !real.parent().is_some_and(|real| place.starts_with(real)) {
            return Err(outside());
        }
    }
    match place.metadata().map_err(cannot)?.is_file() {
        true => Ok(place),
        false => Err("it is not a regular file".to_string()),
    }
}

/// Returns true if the steps of a path never lead above its start.
fn stays_inside(name: &str) -> bool {
    let deeper = |depth: usize, part: Component<'_>| match part {
        Component::Normal(_) => Some(depth + 1),
        Component::CurDir => Some(depth),
        Component::ParentDir => depth.checked_sub(1),
        Component::RootDir | Component::Prefix(_) => None,
    };
    Path::new(name).components().try_fold(0, deeper).is_some()
}
