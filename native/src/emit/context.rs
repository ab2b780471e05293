//! The fields of the context that code reads and writes, by position.

/// A field of [`Context`](crate::call::Context); each field has 8 bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Field {
    /// Pointers to memory passed by the caller, by storage.
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
    /// Marks of executed statements.
    Marks,
    /// Set if unwritten memory was read.
    Unwritten,
    /// Addresses of float functions.
    Functions,
    /// The callback that counts work.
    Work,
    /// The callback that allocates memory.
    Allocate,
    /// The callback that runs iterations on threads.
    Parallel,
    /// The byte that fills new memory.
    Fresh,
    /// Allocated memory; not used by the code itself.
    Own,
}

/// Flag for an allocation that must be filled, because the code may read the memory before writing it. The lowest bit
/// of the flags is set for Boolean memory.
pub(crate) const FILLED: i32 = 2;
