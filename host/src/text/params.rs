//! Binds parameters of a module to tensors of a file while the module is read: a safetensors file, whose data stays in the file, or an
//! `.npz` file.

use crate::engine::Engine;
use crate::files::mapped::{map, open_regular};
use crate::files::{from_start, safetensors};
use crate::report::error::Error;
use crate::verify::verify_read;
use passhost_lang::PassError;
use passhost_lang::ir::{Array, Body, DType, Dim, Function, Module, Sym, Tensor, Value};
use passhost_lang::names::{did_you_mean, identifier, listed, nearest};
use passhost_lang::typing::infer_types::infer_types;
use runtime::Limits;
use runtime::files::{FileError, read_npz};
use runtime::vm::Inputs;
use std::collections::BTreeMap;
use std::io::Cursor;
use std::path::Path;

/// The function whose parameters are bound, unless the module has only one function.
const MAIN: &str = "main";

/// A tensor of the file.
struct Given {
    tensor: Tensor,
    dtype: DType,
    shape: Vec<i64>,
}

impl Engine {
    /// Returns the module with constants in place of the parameters for which the file has tensors.
    ///
    /// # Errors
    /// If the file cannot be read, or one of its tensors lacks a parameter or does not fit it.
    pub(super) fn bound(&self, module: &Module, path: &Path) -> Result<Module, Error> {
        let wrong = |message: String| Error::Request {
            message: format!("--params {}: {message}", path.display()),
            help: "give a .safetensors or .npz file whose tensors are named like the parameters of the function `main`"
                .to_string(),
        };
        let relax = || module.functions().filter(|(_, body)| body.function().is_some());
        let only = || relax().next().filter(|_| relax().count() == 1);
        let Some((name, body)) = relax().find(|(name, _)| *name == MAIN).or_else(only) else {
            return Err(wrong("the module has no Relax function `main`".to_string()));
        };
        let given = given(path, body).map_err(wrong)?;
        let bound = bind(body, given, self).map_err(|why| wrong(format!("function `{name}`: {why}")))?;
        let bound = module.map_functions(|other, body| -> Result<Body, PassError> {
            Ok(if other == name { bound.clone() } else { body.clone() })
        });
        let bound = bound.map_err(|error| wrong(error.to_string()))?;
        verify_read(&bound, self).map_err(|violation| wrong(violation.to_string()))?;
        Ok(bound)
    }
}

/// Reads the tensors of a file by name.
fn given(path: &Path, body: &Body) -> Result<BTreeMap<String, Given>, String> {
    let place = from_start(path);
    let file = open_regular(&place).map_err(|error| error.to_string())?;
    let bytes = map(&file, &place).map_err(|error| error.to_string())?;
    if !bytes.starts_with(b"PK") {
        let contents = safetensors::read(&bytes)?;
        let tensors = contents.tensors.into_iter().map(|(name, entry)| {
            let entry = entry.map_err(|why| format!("tensor `{name}`: {why}"))?;
            let tensor = Tensor::new(&bytes[entry.data]);
            Ok((name, Given { tensor, dtype: entry.dtype, shape: entry.shape }))
        });
        return tensors.collect();
    }
    let dtypes = Inputs::dtypes(body);
    let meant = |name: &str| dtypes.get(name).copied();
    let arrays = read_npz(Cursor::new(&bytes[..]), &meant, &Limits::unlimited());
    let arrays = arrays.map_err(|error: FileError| error.to_string())?;
    let given = |array: &runtime::Tensor| Given {
        tensor: Tensor::new(array.bytes()),
        dtype: array.dtype(),
        shape: array.shape().to_vec(),
    };
    Ok(arrays.into_iter().map(|(name, array)| (name, given(&array))).collect())
}

/// Converts the name of a tensor to a Python name that keeps letters of all languages, as TVM's importers do.
fn with_letters(name: &str) -> String {
    name.chars().map(|c| if c.is_alphanumeric() { c } else { '_' }).collect()
}

/// Replaces parameters by constants, and symbolic variables of their shapes by numbers.
fn bind(body: &Body, given: BTreeMap<String, Given>, engine: &Engine) -> Result<Body, String> {
    let params: Vec<Value<'_>> = body.function().into_iter().flat_map(Function::params).collect();
    let find = |name: &str| params.iter().position(|param| param.name() == Some(name));
    let (mut edit, mut dims, mut bound) = (body.edit(), BTreeMap::new(), BTreeMap::new());
    let mut unknown = Vec::new();
    for (name, given) in given {
        let Some(at) = find(&name).or_else(|| find(&identifier(&name))).or_else(|| find(&with_letters(&name))) else {
            unknown.push(name);
            continue;
        };
        if let Some(first) = bound.insert(at, name.clone()) {
            let param = params[at].name().unwrap_or("_");
            return Err(format!("tensors `{first}` and `{name}` are both for parameter `{param}`"));
        }
        let array = fitting(params[at], given, &mut dims).map_err(|why| format!("tensor `{name}`: {why}"))?;
        let constant = edit.array(&array);
        edit.replace(params[at], constant);
    }
    if let Some(first) = unknown.first() {
        let near = nearest(first, params.iter().filter_map(|param| param.name()));
        let names: Vec<String> = unknown.iter().take(5).map(|name| format!("`{name}`")).collect();
        let more = unknown.len() - names.len();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        return Err(format!("no parameter is called {}{more}{}", listed(&names), did_you_mean(&near)));
    }
    let edited = edit.finish().map_err(|error| error.to_string())?;
    let sized = edited.substitute_symbols(&|sym| dims.get(&sym).map(|dim| Dim::Int(*dim)));
    infer_types(&sized.map_err(|error| error.to_string())?, engine).map_err(|error| error.to_string())
}

/// Checks that a tensor fits its parameter. Adds the values of symbolic dimensions to `dims`.
fn fitting(param: Value<'_>, given: Given, dims: &mut BTreeMap<Sym, i64>) -> Result<Array, String> {
    let ty = param.ty().to_owned();
    let Some(wanted) = ty.as_tensor() else { return Err("its parameter is not a tensor".to_string()) };
    let Given { tensor, dtype, shape } = given;
    if wanted.dtype.is_known() && wanted.dtype != dtype {
        return Err(format!("its data type is {dtype}, but its parameter has {}; convert one of them", wanted.dtype));
    }
    if wanted.ndim >= 0 && wanted.ndim as usize != shape.len() {
        return Err(format!("it has {} dimensions, but its parameter has {}", shape.len(), wanted.ndim));
    }
    for (axis, (found, wanted)) in shape.iter().zip(wanted.shape.iter().flatten()).enumerate() {
        let known = match wanted {
            Dim::Var(sym) => Some(*dims.entry(*sym).or_insert(*found)),
            other => other.as_int(),
        };
        if let Some(known) = known.filter(|known| known != found) {
            return Err(format!("dimension {axis} is {found}, but {known} in its parameter"));
        }
    }
    Array::of(tensor, dtype, &shape).map_err(|error| error.to_string())
}
