//! The name of this machine's processor in databases.

use crate::report::error::Error;
use native::{Cache, Native};
use xxhash_rust::xxh3::xxh3_64;

/// Returns LLVM's name of the processor, and a hash of the features that LLVM lists.
///
/// # Errors
/// If no LLVM library is found. Then there is no native code either.
pub(crate) fn processor() -> Result<String, Error> {
    let native = Native::finding(Cache::none());
    let llvm = native.llvm().map_err(|error| Error::Request {
        message: format!("schedules are tuned for native code, which is not available: {error}"),
        help: "`passhost doctor` shows which LLVM library is found".to_string(),
    })?;
    let features = xxh3_64(llvm.features().as_bytes()) as u32;
    let name = llvm.cpu().replace(char::is_whitespace, "-");
    Ok(format!("{}-{features:08x}", if name.is_empty() { "unknown" } else { &name }))
}
