//! Models are read again.
