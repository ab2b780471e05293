//! Reads ONNX models into Relax.
//!
//! A model is decoded (`proto`), its inputs become parameters (`read`), and its graph becomes bindings, node by node (`graph`).
//! `ops` has a function for each operator, found by domain, name and version. Computations of shapes are evaluated while
//! reading (`known`, `fold`), so that dimensions are symbolic instead of unknown. `declared` has operators that Relax
//! lacks.
#![forbid(unsafe_code)]

mod cx;
mod declared;
mod fold;
mod graph;
mod known;
mod names;
mod narrow;
mod node;
mod ops;
mod proto;
mod read;
mod tensors;
#[cfg(test)]
mod tests;
mod value;

use plugin_api::prelude::*;

export_plugin! { operators: declared::OPERATORS, readers: [ONNX] }

declare_reader! {
    /// Reads ONNX models.
    ///
    /// A model becomes the function `main`, whose parameters are the inputs of the model; weights are constants. The reader takes
    /// versions 7 to 28 of the standard operators, many operators of `com.microsoft`, and the functions of a model. Computations of
    /// shapes are done while reading, so that dimensions are numbers or symbolic. If only data decides a dimension, it becomes a
    /// symbolic variable that is checked when the model runs.
    ///
    /// Numbers of less than 8 bits, and floats of 8 bits, are bytes in the module: small integers as int8 or uint8, small floats
    /// by their bits as uint8.
    ///
    /// Unsupported parts are refused with node, operator, domain and version: random numbers, texts, maps, sequences as
    /// inputs, operators of training and of `ai.onnx.ml`. A result that is a sequence becomes a tuple of its elements.
    /// Data beside the model must be in its folder.
    ///
    /// Two symbolic sizes with different names are assumed to be equal if a node broadcasts them to each other. The
    /// reader reports the node, and the model checks it when it runs; `sizes` gives one of them the size 1.
    pub reader ONNX = "onnx" {
        extensions: ["onnx"],
        options: Options {
            /// Shapes of inputs, each as in `x=1,3,224,224`.
            shapes: Vec<String> = [],
            /// Sizes of dimensions that have a name in the model, each as in `batch=1`.
            sizes: Vec<String> = [],
            /// Values of inputs, which become constants, each as in `axes=[0, 1]`. If an input determines the number
            /// of dimensions of a result, its value must be given.
            values: Vec<String> = [],
            /// Makes parameters of the weights, after the inputs. The attribute `num_input` of the function is the number of
            /// inputs, and the attribute `params` contains the weights.
            keep_params_in_input: bool = false,
            /// Keeps an operator that the reader does not know as a call of an external function, so that passes can still run.
            allow_unknown: bool = false,
            /// Version of the standard operators, which replaces the version in the model; 0 keeps that of the model.
            opset: i64 in (0..=28) = 0,
        },
        example: "passhost run model.onnx --from 'onnx{shapes=[\"x=1,3,224,224\"]}' -o model.py",
        run: read,
    }
}

fn read(source: &Source<'_>, options: &Options, ctx: &Ctx) -> Result<Module, PassError> {
    let (module, notes) = read::module(source, options, ctx)?;
    for note in notes.all() {
        ctx.diagnostics().report(Severity::Remark, None, &note);
    }
    Ok(module)
}
