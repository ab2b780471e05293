//! Shapes in patterns.

use crate::ir::Dim;

/// A dimension in a pattern: a number, a name, or any.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DimPattern {
    /// Any dimension.
    Any,
    /// The given number.
    Int(i64),
    /// Any dimension, but the same dimension everywhere in the pattern.
    Named(String),
}

impl From<i64> for DimPattern {
    fn from(n: i64) -> DimPattern {
        DimPattern::Int(n)
    }
}

impl From<i32> for DimPattern {
    fn from(n: i32) -> DimPattern {
        DimPattern::Int(n.into())
    }
}

impl From<&str> for DimPattern {
    fn from(name: &str) -> DimPattern {
        if name == "_" { DimPattern::Any } else { DimPattern::Named(name.to_string()) }
    }
}

impl DimPattern {
    /// Returns true if a dimension matches; names match any dimension.
    pub(super) fn fits(&self, dim: &Dim) -> bool {
        match self {
            DimPattern::Int(n) => dim.as_int() == Some(*n),
            DimPattern::Any | DimPattern::Named(_) => true,
        }
    }
}

impl std::fmt::Display for DimPattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            DimPattern::Any => f.write_str("_"),
            DimPattern::Int(n) => write!(f, "{n}"),
            DimPattern::Named(name) => f.write_str(name),
        }
    }
}

/// The argument of [`Pattern::shape`](super::Pattern::shape): an array or vector of numbers or names, or a tuple of both.
pub trait ShapePattern {
    /// Returns the dimensions.
    fn dims(self) -> Vec<DimPattern>;
}

impl<T: Into<DimPattern>, const N: usize> ShapePattern for [T; N] {
    fn dims(self) -> Vec<DimPattern> {
        self.into_iter().map(Into::into).collect()
    }
}

impl<T: Into<DimPattern>> ShapePattern for Vec<T> {
    fn dims(self) -> Vec<DimPattern> {
        self.into_iter().map(Into::into).collect()
    }
}

macro_rules! tuples {
    ($(($($ty:ident $at:tt),+))+) => {$(
        impl<$($ty: Into<DimPattern>),+> ShapePattern for ($($ty,)+) {
            fn dims(self) -> Vec<DimPattern> {
                vec![$(self.$at.into()),+]
            }
        }
    )+};
}
tuples!(
    (A 0) (A 0, B 1) (A 0, B 1, C 2) (A 0, B 1, C 2, D 3) (A 0, B 1, C 2, D 3, E 4)
    (A 0, B 1, C 2, D 3, E 4, F 5)
);
