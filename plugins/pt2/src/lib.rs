//! Reads the archives that `torch.export.save` writes into Relax.
//!
//! An archive is a zip file (`archive`) with the program as JSON (`json`, `args`) and the data of its weights (`weights`). Inputs become
//! parameters (`read`), and the graph becomes bindings, node by node (`graph`). `ops` contains a function for each operator overload.
//! Sizes are expressions of symbols (`expr`).
#![forbid(unsafe_code)]

mod archive;
mod args;
mod expr;
mod graph;
mod json;
mod node;
mod ops;
mod promote;
mod read;
#[cfg(test)]
mod tests;
mod weights;

use plugin_api::prelude::*;

export_plugin! { operators: &[], readers: [PT2] }

declare_reader! {
    /// Reads PyTorch's .pt2 archives.
    ///
    /// `torch.export.save(torch.export.export(model, inputs), "model.pt2")` writes such an archive; PyTorch 2.8 or newer is needed. The
    /// program becomes the function `main`, whose parameters are the inputs of the model; weights are constants. The program
    /// may be read before or after `run_decompositions()`. Symbolic sizes become symbolic dimensions, and the bounds of
    /// sizes become the attributes `tir_var_lower_bound` and `tir_var_upper_bound`.
    ///
    /// Weights stay in the archive, which is mapped into memory. Compressed entries and non-contiguous weights are copied.
    ///
    /// Errors about unsupported parts name the node, the operator overload, and the line in the model's source. Random numbers, complex
    /// numbers, sparse tensors, and custom objects are not supported. A program that changes an input or a buffer is refused unless the
    /// option `keep_mutations` is set.
    pub reader PT2 = "pt2" {
        extensions: ["pt2"],
        options: Options {
            /// Turns the parameters of the model into parameters of the function, which follow the inputs. The attribute
            /// `num_input` of the function is the number of inputs, and the attribute `params` contains the values.
            keep_params_as_input: bool = false,
            /// Returns a single result directly, not in a tuple.
            unwrap_unit_return_tuple: bool = false,
            /// Builds the tuple of the results after the dataflow block, whose outputs are the results.
            no_bind_return_tuple: bool = false,
            /// Returns the new values of changed buffers and inputs after the results.
            keep_mutations: bool = false,
            /// Keeps an unknown operator as a call of an external function, so that passes can still run.
            allow_unknown: bool = false,
            /// Name of the model, if the archive contains several.
            model: String = "",
        },
        example: "passhost run model.pt2 --from 'pt2{unwrap_unit_return_tuple=true}' -o model.py",
        run: read,
    }
}

fn read(source: &Source<'_>, options: &Options, ctx: &Ctx) -> Result<Module, PassError> {
    let (module, notes) = read::module(source, options, ctx)?;
    for note in notes {
        ctx.diagnostics().report(Severity::Remark, None, &note);
    }
    Ok(module)
}
