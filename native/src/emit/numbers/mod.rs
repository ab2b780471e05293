//! Emits operations on numbers.
//!
//! | file | what |
//! |---|---|
//! | `integers`, `floats` | binary operations, unary functions |
//! | `casts` | conversions between data types |
//! | `elementary` | exponentials and similar functions |
//! | `power` | powers |

mod casts;
mod elementary;
mod floats;
mod integers;
mod power;
