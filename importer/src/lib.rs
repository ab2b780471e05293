//! Builds Relax functions from the graphs of model files. The plugins that read ONNX models and PyTorch archives share this library.
//!
//! A value of a model is a tensor ([`tensor::T`]) whose elements may be known while reading ([`known`]). [`emitter::Emitter`] emits
//! calls of Relax operators on tensors. The other modules compose several operators.
#![forbid(unsafe_code)]

pub mod arith;
pub mod branches;
pub mod emitter;
pub mod index;
pub mod known;
pub mod norm;
pub mod pad;
pub mod resize;
pub mod tensor;
pub mod windows;
