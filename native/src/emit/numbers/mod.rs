//! Emits operations on numbers.
//!
//! | file | what |
//! |---|---|
//! | `integers`, `floats` | operations on two numbers, functions of one |
//! | `casts` | conversions between data types |
//! | `elementary` | exponentials and the like |
//! | `power` | powers |

mod casts;
mod elementary;
mod floats;
mod integers;
mod power;
