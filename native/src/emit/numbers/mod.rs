//! Operations on numbers.
//!
//! | file | what |
//! |---|---|
//! | `integers`, `floats` | operations on two numbers, functions of one |
//! | `casts` | from one data type to another one |
//! | `elementary` | exponentials and the like |
//! | `power` | powers |

mod casts;
mod elementary;
mod floats;
mod integers;
mod power;
