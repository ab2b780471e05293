//! The plugin boundary between processes: bodies, modules and tensors (by number or as sections), operator
//! calls (as parts of bodies), and answers. Both processes run this code.
//!
//! Messages are not trusted. As for in-process plugins, sections are copied and validated before they become a
//! body. Everything else is a number that is looked up, or an error.

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
