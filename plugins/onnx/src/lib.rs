//! Reads ONNX models into Relax.
//!
//! A model is decoded (`proto`), its inputs become parameters (`read`), and its graph becomes bindings, node by node (`graph`).
//! `ops` contains a function for each operator, found by domain, name and version. Computations of shapes are evaluated while
//! reading (`known`, `fold`), so that dimensions are symbolic instead of unknown. `declared` declares operators that Relax lacks.
#![forbid(unsafe_code)]

mod cx;
mod declared;
mod fold;
mod graph;
mod narrow;
mod node;
mod ops;
mod proto;
mod read;
mod rounds;
mod tensors;
#[cfg(test)]
mod tests;
mod value;

use importer::known;
use plugin_api::prelude::*;

export_plugin! { operators: declared::OPERATORS, readers: [ONNX] }

declare_reader! {
    /// Reads ONNX models.
    ///
    /// A model becomes the function `main`, whose parameters are the inputs of the model; weights are constants. The reader
    /// supports versions 7 to 28 of the standard operators, many `com.microsoft` operators, and functions in the model. Shapes
    /// are computed during reading, so that dimensions are numbers or symbolic variables. A data-dependent dimension becomes a
    /// symbolic variable that is checked when the model runs. A loop with a data-dependent number of iterations becomes a
    /// function that calls itself.
    ///
    /// Integers of less than 8 bits, and floats of 8 bits or less, are stored as bytes in the module: small integers as int8 or
    /// uint8, small floats as uint8 with the same bits.
    ///
    /// Errors about unsupported parts name the node, operator, domain and version. Random numbers, strings, maps, training
    /// operators, and `ai.onnx.ml` operators are not supported. A result that is a sequence becomes a tuple of its elements.
    /// External data must be in the folder of the model.
    ///
    /// Two symbolic sizes with different names are assumed to be equal if a node broadcasts them to each other. The
    /// reader reports the node, and the model checks it when it runs; `sizes` can give one of them the size 1.
    pub reader ONNX = "onnx" {
        extensions: ["onnx"],
        options: Options {
            /// Shapes of inputs, each as in `x=1,3,224,224`. An input `x` that is a sequence becomes a tuple, whose elements have the
            /// shapes of `x_0`, `x_1` and so on.
            shapes: Vec<String> = [],
            /// Sizes of dimensions that have a name in the model, each as in `batch=1`.
            sizes: Vec<String> = [],
            /// Values of inputs, which become constants, each as in `axes=[0, 1]`. If an input determines the number
            /// of dimensions of a result, its value must be given.
            values: Vec<String> = [],
            /// Turns the weights into parameters, which follow the inputs. The attribute `num_input` of the function is the number
            /// of inputs, and the attribute `params` contains the weights.
            keep_params_in_input: bool = false,
            /// Keeps an unknown operator as a call of an external function, so that passes can still run.
            allow_unknown: bool = false,
            /// Version of the standard operators, in place of the version in the model; 0 keeps the version in the model.
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
