//! Operators of Microsoft's domain, which onnxruntime and its tools put into models.

mod attention;
mod matrix;
mod other;
mod quant;

use super::Row;

pub(super) const TABLES: [&[Row]; 4] = [attention::ROWS, matrix::ROWS, other::ROWS, quant::ROWS];
