//! The code of `docs/embedding.md`, compiled and run where `passhost` is the only dependency.
#![forbid(unsafe_code)]

/// The page.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/embedding.md")]
mod page {}
