//! The extension module of the Python package `passhost`: the host's modules, passes and runs for the package's Python
//! code. It is private; users see only the Python code.
#![forbid(unsafe_code)]

mod engine;
mod errors;
mod execute;
mod executors;
mod ir;
mod module;
mod python_pass;
mod run;
mod schedule;
mod validate;
mod values;
mod watch;

use pyo3::prelude::*;

/// Modules, passes and runs of the host. Private to the package.
#[pymodule]
mod _passhost {
    #[pymodule_export]
    use crate::engine::{check_config, config_options, find_pass, libraries, load, operators, pass_facts, pass_names};
    #[pymodule_export]
    use crate::execute::{Array, Memory, Scalar, Shape, execute};
    #[pymodule_export]
    use crate::ir::expand::{expand, function_attrs, print_function};
    #[pymodule_export]
    use crate::ir::infer::Inferrer;
    #[pymodule_export]
    use crate::ir::legalized::legalized;
    #[pymodule_export]
    use crate::ir::modules::{
        extern_function, extern_symbol, module_attrs, module_infos, normalized, prim_func_type, remove_all_unused,
        verify, with_function_attrs, with_module_attrs,
    };
    #[pymodule_export]
    use crate::ir::records::{Records, record_kinds};
    #[pymodule_export]
    use crate::ir::seal::seal;
    #[pymodule_export]
    use crate::ir::te::te_function;
    #[pymodule_export]
    use crate::ir::tir::expand_prim_func;
    #[pymodule_export]
    use crate::ir::types::{parse_dtype, scalar_functions};
    #[pymodule_export]
    use crate::module::{Body, Module, load_bytes, load_model, print_module, read_module, unified};
    #[pymodule_export]
    use crate::python_pass::register;
    #[pymodule_export]
    use crate::run::{plan, run};
    #[pymodule_export]
    use crate::schedule::{Schedule, ScheduleBlock, ScheduleLoop};
    #[pymodule_export]
    use crate::validate::validate;
}
