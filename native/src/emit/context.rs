//! The fields of the context that code reads and writes, by their positions.

/// A field of [`Context`](crate::call::Context), which has 8 bytes for each.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Field {
    /// Pointers to the memory that the call gives, by storage.
    Storages,
    /// The bytes of each.
    Sizes,
    /// Where the run ended.
    Site,
    /// How many values the site noted.
    NValues,
    /// These values.
    Values,
    /// The result.
    Result,
    /// The numbers that the call gives.
    Scalars,
    /// Which statements were executed.
    Marks,
    /// Whether memory was read that nothing wrote to.
    Unwritten,
    /// Addresses of functions of floats.
    Functions,
    /// Counts work.
    Work,
    /// Makes memory.
    Allocate,
    /// Runs iterations in threads.
    Parallel,
    /// What new memory holds.
    Fresh,
    /// What was allocated; the code itself does not look.
    Own,
}

/// Set where memory is asked for that has to be filled: the code may read it before it writes it. The lowest bit says that
/// it holds truth values.
pub(crate) const FILLED: i32 = 2;
