//! The plugin boundary between processes: bodies, modules and tensors by number or as their sections, calls of
//! operators as parts of bodies, and answers. Both processes run this code.
//!
//! Any message may be forged. Sections become a body only as those of a plugin in the same process do: they are
//! copied and validated. Everything else is a number that is looked up, or an error.

mod answers;
mod bytes;
mod calls;
mod known;

pub use answers::{
    Outcome, put_evaluated, put_inferred, put_legalized, put_values, take_evaluated, take_inferred, take_values,
};
pub use bytes::{Buffer, Forged, Reader, Writer};
pub use calls::{CallPart, PartOf, take_call};
pub use known::{Known, Opens};
