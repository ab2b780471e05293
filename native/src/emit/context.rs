//! The fields of the context that code reads and writes, by position.

/// A field of [`Context`](crate::call::Context); each field has 8 bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Field {
    /// Pointers to the memory passed by the caller, by storage.
    Storages,
    /// The size of each storage in bytes.
    Sizes,
    /// The site where the run ended.
    Site,
    /// The number of values noted at the site.
    NValues,
    /// The values noted at the site.
    Values,
    /// The result.
    Result,
    /// The numbers passed by the caller.
    Scalars,
    /// Marks of the statements that were executed.
    Marks,
    /// Set if unwritten memory was read.
    Unwritten,
    /// Addresses of float functions.
    Functions,
    /// The callback that counts work.
    Work,
    /// The callback that allocates memory.
    Allocate,
    /// The callback that runs iterations in threads.
    Parallel,
    /// The byte that fills new memory.
    Fresh,
    /// Memory that was allocated; not used by the code itself.
    Own,
}

/// Flag of an allocation that must be filled because the code may read the memory before writing it. The lowest bit of
/// the flags is set if the memory holds truth values.
pub(crate) const FILLED: i32 = 2;
