//! Passes over the functions of a module: their names, parameters and calls.

pub mod attach_global_symbol;
pub mod bind_params;
pub mod bind_symbolic_vars;
mod callers;
pub mod expand_tuple_arguments;
pub mod inline_private_functions;
pub mod lambda_lift;
pub mod normalize_global_var;
pub mod remove_unused_outputs;
pub mod remove_unused_parameters;
pub mod specialize_prim_func_based_on_call_site;
pub(crate) mod weights;
