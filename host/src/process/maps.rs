//! The files that this process has mapped, so that a handler of SIGBUS can name the file whose bytes disappeared. A handler may interrupt
//! any code, so the list consists of atomics, and its entries are never freed; an entry is reused after its file is unmapped.

use std::collections::BTreeSet;
use std::path::Path;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// An entry of the list, for one mapped file.
#[derive(Debug)]
struct Entry {
    /// First address of the file; 0 while the entry is free.
    start: AtomicUsize,
    end: AtomicUsize,
    /// The path of the file: the address of bytes that are never freed, and their number.
    path: AtomicPtr<u8>,
    length: AtomicUsize,
    next: Option<&'static Entry>,
}

static FIRST: AtomicPtr<Entry> = AtomicPtr::new(null_mut());
/// The paths of all files mapped so far, so that each path is stored only once.
static PATHS: Mutex<BTreeSet<&'static [u8]>> = Mutex::new(BTreeSet::new());

/// Returns the entries. New paths are always added in front.
#[allow(unsafe_code, reason = "a list without a lock, because a signal handler reads it")]
fn entries() -> impl Iterator<Item = &'static Entry> {
    // SAFETY: null, or a leaked entry.
    let first = unsafe { FIRST.load(Ordering::Acquire).as_ref() };
    std::iter::successors(first, |entry| entry.next)
}

/// Keeps a mapped file in the list; dropping it removes the file from the list.
#[derive(Debug)]
pub(crate) struct Listed(&'static Entry);

/// Adds a file to the list.
pub(crate) fn list(bytes: &[u8], path: &Path) -> Listed {
    let path = path.as_os_str().as_encoded_bytes();
    // The lock also prevents two threads from taking the same entry.
    let mut paths = PATHS.lock().unwrap_or_else(PoisonError::into_inner);
    let path = match paths.get(path) {
        Some(known) => known,
        None => {
            let own: &'static [u8] = Box::leak(path.into());
            paths.insert(own);
            own
        }
    };
    let range = bytes.as_ptr_range();
    let entry = entries().find(|entry| entry.start.load(Ordering::Acquire) == 0).unwrap_or_else(|| {
        let [start, end, length] = [const { AtomicUsize::new(0) }; 3];
        let (path, next) = (AtomicPtr::new(null_mut()), entries().next());
        let entry: &'static Entry = Box::leak(Box::new(Entry { start, end, path, length, next }));
        FIRST.store(std::ptr::from_ref(entry).cast_mut(), Ordering::Release);
        entry
    });
    entry.path.store(path.as_ptr().cast_mut(), Ordering::Relaxed);
    entry.length.store(path.len(), Ordering::Relaxed);
    entry.end.store(range.end.addr(), Ordering::Relaxed);
    entry.start.store(range.start.addr(), Ordering::Release);
    Listed(entry)
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.0.start.store(0, Ordering::Release);
    }
}

/// Returns the path of the mapped file at an address. A signal handler may call this.
#[allow(unsafe_code, reason = "a list without a lock, because a signal handler reads it")]
pub(super) fn path_at(address: usize) -> Option<&'static [u8]> {
    let around = |entry: &&Entry| {
        let start = entry.start.load(Ordering::Acquire);
        start != 0 && (start..entry.end.load(Ordering::Relaxed)).contains(&address)
    };
    let entry = entries().find(around)?;
    let (path, length) = (entry.path.load(Ordering::Relaxed), entry.length.load(Ordering::Relaxed));
    // SAFETY: leaked bytes of this length. The thread of the handler reads them within the map, so the entry does not change meanwhile.
    Some(unsafe { std::slice::from_raw_parts(path, length) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_lead_to_paths() {
        let (one, two) = (vec![0u8; 100], vec![0u8; 100]);
        let (first, second) = (list(&one, Path::new("/a")), list(&two, Path::new("/b")));
        let at = |bytes: &[u8], place: usize| path_at(bytes.as_ptr().addr() + place);
        assert_eq!((at(&one, 0), at(&one, 99), at(&two, 50)), (Some(&b"/a"[..]), Some(&b"/a"[..]), Some(&b"/b"[..])));
        drop(first);
        assert_eq!((at(&one, 0), at(&two, 0)), (None, Some(&b"/b"[..])));
        drop(second);
        let again = list(&one, Path::new("/a"));
        assert_eq!((at(&one, 0), at(&two, 0)), (Some(&b"/a"[..]), None));
        drop(again);
    }
}
