//! The kinds of messages between host and worker, as the first byte of each message, and the encoding of a file in a
//! message.

use super::limits;
use plugin_api::abi::host::FileFacts;
use plugin_api::abi::relay::{Forged, Reader, Writer};
use std::path::PathBuf;

/// Puts a file into a message: its path, or its bytes if it has none.
pub(super) fn put_file(out: &mut Writer, file: FileFacts<'_>, bytes: &[u8]) {
    out.text(file.name);
    out.byte(u8::from(file.path.is_some()));
    out.block(file.path.map_or(bytes, |path| path.as_os_str().as_encoded_bytes()));
}

/// Reads what [`put_file`] wrote: the name, the path, and the bytes of a file without a path.
pub(super) fn take_file<'a>(from: &mut Reader<'a>) -> Result<(&'a str, Option<PathBuf>, &'a [u8]), Forged> {
    let name = from.text()?;
    let has_path = from.byte()? != 0;
    let block = from.block()?;
    Ok(if has_path { (name, Some(limits::path(block)), &[]) } else { (name, None, block) })
}

/// Calls from the host.
pub(super) mod call {
    pub(crate) const OPEN: u8 = 1;
    pub(crate) const RUN_MODULE: u8 = 2;
    pub(crate) const RUN_FUNCTIONS: u8 = 3;
    pub(crate) const CHECK: u8 = 4;
    pub(crate) const INFER: u8 = 5;
    pub(crate) const LEGALIZE: u8 = 6;
    pub(crate) const MAKE: u8 = 7;
    pub(crate) const EVENT: u8 = 8;
    pub(crate) const DROP: u8 = 9;
    pub(crate) const QUIT: u8 = 10;
    pub(crate) const READ: u8 = 11;
    pub(crate) const WRITE: u8 = 12;
}

/// Questions from a worker.
pub(super) mod ask {
    pub(crate) const INFER: u8 = 1;
    pub(crate) const LEGALIZE: u8 = 2;
    pub(crate) const EVALUATE: u8 = 3;
    pub(crate) const PRINT: u8 = 4;
    pub(crate) const CONFIG: u8 = 5;
    pub(crate) const TARGET: u8 = 6;
    pub(crate) const WANTED: u8 = 7;
    /// Bytes of a file that a writer writes. The reply is true if the host accepts them.
    pub(crate) const PUT: u8 = 8;
}

/// Reports from a worker.
pub(super) mod tell {
    pub(crate) const DIAGNOSE: u8 = 1;
    pub(crate) const LABEL: u8 = 2;
    pub(crate) const STATISTIC: u8 = 3;
    pub(crate) const SHOW: u8 = 4;
    pub(crate) const LOG: u8 = 5;
    pub(crate) const SPAN: u8 = 6;
    pub(crate) const RECORD: u8 = 7;
    pub(crate) const ENTER: u8 = 8;
    pub(crate) const EXIT: u8 = 9;
    pub(crate) const CLOSE: u8 = 10;
    pub(crate) const FOLLOWS: u8 = 11;
    /// Sent by a worker that is about to open the plugin.
    pub(crate) const HERE: u8 = 12;
}

/// The events of an instrument.
pub(super) mod event {
    pub(crate) const ENTER: u8 = 1;
    pub(crate) const EXIT: u8 = 2;
    pub(crate) const SHOULD_RUN: u8 = 3;
    pub(crate) const RUN_BEFORE: u8 = 4;
    pub(crate) const RUN_AFTER: u8 = 5;
    pub(crate) const RUN_FAILED: u8 = 6;
}
