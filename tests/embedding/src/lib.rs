//! Compiles and runs the code of `docs/embedding.md` with `passhost` as the only dependency.
#![forbid(unsafe_code)]

/// The page.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/embedding.md")]
mod page {}
