//! Executes functions of a module with Python arrays and functions.

use crate::engine;
use crate::errors::{raised, raised_as};
use crate::executors::Named;
use crate::ir::types::dtype_of_name;
use crate::module::Module;
use crate::python_pass::{keep, take_raised};
use passhost::plugin_api::ir::constant::Number;
use passhost::plugin_api::ir::{DType, Type};
use passhost::run::execute::{FRESH, depends_on_unwritten, executing, failed, unwritten};
use passhost::runtime::vm::{Binding, Cause, Failure, Machine, Observer, Packed, Value};
use passhost::runtime::{Fault, Limits, Tensor, fork};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyNone, PyString, PyTuple};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// An array: its elements as bytes in row-major order.
#[pyclass(frozen, module = "passhost._passhost")]
pub(crate) struct Array(Tensor);

impl Array {
    pub(crate) fn tensor(&self) -> &Tensor {
        &self.0
    }
}

/// Memory of an array that NumPy reads, writes and keeps alive. The host no longer reads or writes it, because
/// `Tensor.numpy` drops the array that owned the memory.
#[pyclass(frozen, module = "passhost._passhost")]
pub(crate) struct Memory {
    tensor: Tensor,
    address: usize,
}

#[pymethods]
impl Memory {
    /// The array interface of NumPy: writable bytes.
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let interface = PyDict::new(py);
        interface.set_item("version", 3)?;
        interface.set_item("typestr", "|u1")?;
        interface.set_item("shape", (self.tensor.nbytes(),))?;
        interface.set_item("data", (self.address, false))?;
        Ok(interface)
    }
}

#[pymethods]
impl Array {
    #[new]
    fn new(py: Python<'_>, dtype: &str, shape: Vec<i64>, data: PyBuffer<u8>) -> PyResult<Array> {
        let wrong = |fault: Fault| PyValueError::new_err(fault.to_string());
        let mut made = Tensor::unfilled(dtype_of_name(dtype)?, &shape, &Limits::unlimited()).map_err(wrong)?;
        if made.nbytes() != data.len_bytes() {
            return Err(PyValueError::new_err(format!(
                "an array of {dtype} with the shape {shape:?} has {} bytes, but {} are given",
                made.nbytes(),
                data.len_bytes()
            )));
        }
        data.copy_to_slice(py, made.bytes_mut())?;
        Ok(Array(made))
    }

    #[getter]
    fn dtype(&self) -> String {
        self.0.dtype().to_string()
    }

    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.0.shape())
    }

    #[getter]
    fn nbytes(&self) -> usize {
        self.0.nbytes()
    }

    fn data<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.0.bytes())
    }

    /// Copies the bytes to a buffer of the same size.
    fn copy_to(&self, py: Python<'_>, to: PyBuffer<u8>) -> PyResult<()> {
        to.copy_from_slice(py, self.0.bytes())
    }

    /// Returns the memory of the array, unless something else in the host uses it.
    fn memory(&self) -> Option<Memory> {
        Some(Memory { address: self.0.address()?, tensor: self.0.clone() })
    }

    fn checksum(&self) -> u64 {
        self.0.checksum()
    }
}

/// The extents.
#[pyclass(frozen, module = "passhost._passhost")]
pub(crate) struct Shape(Vec<i64>);

#[pymethods]
impl Shape {
    #[new]
    fn new(extents: Vec<i64>) -> Shape {
        Shape(extents)
    }

    #[getter]
    fn extents<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.0)
    }
}

/// A scalar of a data type.
#[pyclass(frozen, module = "passhost._passhost")]
pub(crate) struct Scalar {
    #[pyo3(get)]
    value: Py<PyAny>,
    dtype: DType,
}

#[pymethods]
impl Scalar {
    #[new]
    fn new(value: Py<PyAny>, dtype: &str) -> PyResult<Scalar> {
        Ok(Scalar { value, dtype: dtype_of_name(dtype)? })
    }

    #[getter]
    fn dtype(&self) -> String {
        self.dtype.to_string()
    }
}

/// Converts a Python number; `dtype` is the data type of the parameter.
fn scalar(value: &Bound<'_, PyAny>, dtype: Option<DType>) -> PyResult<Value> {
    let usual = if value.is_instance_of::<PyBool>() {
        DType::BOOL
    } else if value.is_instance_of::<PyInt>() {
        DType::I64
    } else {
        DType::F64
    };
    let dtype = dtype.unwrap_or(usual);
    let number = if dtype == DType::BOOL {
        Number::Bool(value.is_truthy()?)
    } else if dtype.is_float() {
        Number::Float(value.extract()?)
    } else if dtype.code() == 1 {
        Number::UInt(value.extract()?)
    } else {
        Number::Int(value.extract()?)
    };
    Ok(Value::Scalar(passhost::runtime::vm::Scalar { number, dtype }))
}

/// Converts a Python value for the virtual machine. If arrays are collected, each tensor gets the number of its array.
fn given(value: &Bound<'_, PyAny>, dtype: Option<DType>, mut arrays: Option<&mut Vec<Py<Array>>>) -> PyResult<Value> {
    if let Ok(array) = value.cast::<Array>() {
        let tensor = array.get().0.clone();
        let Some(arrays) = arrays else { return Ok(Value::Tensor(tensor)) };
        arrays.push(array.clone().unbind());
        return Ok(Value::Tensor(tensor.with_origin(arrays.len() as u32 - 1)));
    }
    if let Ok(shape) = value.cast::<Shape>() {
        return Ok(Value::shape(&shape.get().0));
    }
    if let Ok(number) = value.cast::<Scalar>() {
        return scalar(number.get().value.bind(value.py()), Some(number.get().dtype));
    }
    if let Ok(fields) = value.cast::<PyTuple>() {
        let fields =
            fields.iter().map(|field| given(&field, None, arrays.as_deref_mut())).collect::<PyResult<Vec<Value>>>()?;
        return Value::tuple(fields).map_err(|cause| PyValueError::new_err(cause.to_string()));
    }
    if value.is_instance_of::<PyInt>() || value.is_instance_of::<PyFloat>() {
        return scalar(value, dtype);
    }
    if value.is_instance_of::<PyString>() {
        return Ok(Value::Str(value.extract::<String>()?.into()));
    }
    if value.is_none() {
        return Ok(Value::Null);
    }
    let found = value.get_type().name()?;
    Err(PyTypeError::new_err(format!("expected an array, number, shape, string or tuple, found {found}")))
}

/// Converts a value of the virtual machine for Python. A tensor that is one of the arrays becomes that object.
fn taken<'py>(py: Python<'py>, value: &Value, arrays: &[Py<Array>]) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::Tensor(tensor) => match tensor.origin().and_then(|origin| arrays.get(origin as usize)) {
            Some(array) => array.bind(py).clone().into_any(),
            None => Bound::new(py, Array(tensor.clone()))?.into_any(),
        },
        Value::Shape(extents) => Bound::new(py, Shape(extents.to_vec()))?.into_any(),
        Value::Tuple(tuple) => {
            let fields = tuple.fields().iter().map(|field| taken(py, field, arrays)).collect::<PyResult<Vec<_>>>()?;
            PyTuple::new(py, fields)?.into_any()
        }
        Value::Scalar(scalar) => match scalar.number {
            Number::Bool(value) => PyBool::new(py, value).to_owned().into_any(),
            Number::Int(value) => value.into_pyobject(py)?.into_any(),
            Number::UInt(value) => value.into_pyobject(py)?.into_any(),
            Number::Float(value) => value.into_pyobject(py)?.into_any(),
        },
        Value::Str(text) => PyString::new(py, text).into_any(),
        Value::DType(dtype) => PyString::new(py, &dtype.to_string()).into_any(),
        Value::Null | Value::Storage(_) => PyNone::get(py).to_owned().into_any(),
        other => {
            let message = format!("{} cannot be converted to Python", other.described());
            return Err(PyTypeError::new_err(message));
        }
    })
}

/// Wraps Python packed functions. Each has a name and two functions. One returns a value and, by position, the arrays
/// that it wrote to. The other takes arguments and empty arrays, and returns the filled arrays.
fn packed(functions: Vec<(String, Py<PyAny>, Py<PyAny>)>) -> Packed {
    let mut packed = Packed::standard();
    for (name, returning, filling) in functions {
        let of = name.clone();
        packed.add_writing(name.clone(), move |args, _| {
            attached(|py| returned(py, &returning, args).map_err(|error| failure(py, &of, error)))
        });
        let of = name.clone();
        packed.add_filling(name, move |args, outputs, _| {
            attached(|py| fill(py, &filling, args, outputs).map_err(|error| failure(py, &of, error)))
        });
    }
    packed
}

/// Calls Python while a module is executed. Another thread that holds the interpreter may fork.
fn attached<R>(call: impl FnOnce(Python<'_>) -> R) -> R {
    fork::outside(|| Python::attach(call))
}

fn all<'py>(py: Python<'py>, values: &[Value]) -> PyResult<Vec<Bound<'py, PyAny>>> {
    values.iter().map(|value| taken(py, value, &[])).collect()
}

fn failure(py: Python<'_>, name: &str, error: PyErr) -> Cause {
    Cause::PackedFailed { name: name.to_string(), why: keep(py, error).message }
}

fn returned(py: Python<'_>, function: &Py<PyAny>, args: &[Value]) -> PyResult<(Value, Vec<(usize, Tensor)>)> {
    let result = function.bind(py).call1((all(py, args)?,))?;
    let (value, written): (Bound<'_, PyAny>, Vec<(usize, Bound<'_, Array>)>) = result.extract()?;
    let written = written.into_iter().map(|(at, array)| (at, array.get().0.clone()));
    Ok((given(&value, None, None)?, written.collect()))
}

fn fill(py: Python<'_>, function: &Py<PyAny>, args: &[Value], outputs: &mut [Tensor]) -> PyResult<()> {
    let empty: Vec<Value> = outputs.iter().map(|output| Value::Tensor(output.clone())).collect();
    let filled: Vec<Bound<'_, Array>> = function.bind(py).call1((all(py, args)?, all(py, &empty)?))?.extract()?;
    drop(empty);
    for (output, filled) in outputs.iter_mut().zip(&filled) {
        let filled = &filled.get().0;
        if (filled.dtype(), filled.shape()) != (output.dtype(), output.shape()) {
            return Err(PyValueError::new_err("the shape or data type of an output has changed"));
        }
        output.bytes_mut().copy_from_slice(filled.bytes());
    }
    Ok(())
}

/// Checks for Ctrl-C between bindings, forwards the module's output, and records writes to arguments.
struct Watching {
    limits: Limits,
    looked: Instant,
    print: Py<PyAny>,
    /// Arguments that were written to, by number, with their current values.
    written: BTreeMap<u32, Tensor>,
}

impl Watching {
    fn stop(&self, py: Python<'_>, error: PyErr) {
        drop(keep(py, error));
        self.limits.cancel();
    }
}

impl Observer for Watching {
    fn before(&mut self, _: &Binding<'_>) {
        if self.looked.elapsed() > Duration::from_millis(100) {
            self.looked = Instant::now();
            attached(|py| py.check_signals().unwrap_or_else(|error| self.stop(py, error)));
        }
    }

    fn written(&mut self, tensor: &Tensor) {
        self.written.extend(tensor.origin().map(|origin| (origin, tensor.clone())));
    }

    fn printed(&mut self, text: &str) {
        attached(|py| self.print.call1(py, (text,)).map_or_else(|error| self.stop(py, error), drop));
    }
}

/// The result of a call, the arrays that were written to with their new values, and an optional message about the call.
type Executed = (Py<PyAny>, Vec<(Py<Array>, Array)>, Option<String>);

/// Calls a Relax function of a module. Returns the result, and the arrays that were written to, each with its new
/// value. An argument in the result is the same object. Raises an error if a result depends on uninitialized memory,
/// unless Python functions are involved, because these are not called twice. `limits` are a number of bytes and a
/// number of units of work.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "Python calls it, with a name for each")]
pub(crate) fn execute(
    py: Python<'_>,
    module: &Module,
    function: &str,
    args: Vec<Bound<'_, PyAny>>,
    functions: Vec<(String, Py<PyAny>, Py<PyAny>)>,
    print: Py<PyAny>,
    limits: (u64, u64),
    backend: Named,
) -> PyResult<Executed> {
    let engine = engine::current(py)?;
    let executor =
        py.detach(|| fork::inside(|| module.2.get(backend))).map_err(|error| raised_as(py, &error, "execution"))?;
    let dtypes = scalar_types(module, function);
    let dtype = |at: usize| dtypes.get(at).copied().flatten();
    let mut arrays = Vec::new();
    let args = args.iter().enumerate().map(|(at, value)| given(value, dtype(at), Some(&mut arrays)));
    let args = args.collect::<PyResult<Vec<Value>>>()?;
    let limits = executor.limits(limits.0, limits.1, FRESH);
    let (has_functions, packed) = (!functions.is_empty(), packed(functions));
    drop(take_raised());
    let execute = || {
        let (limits_of, looked) = (limits.clone(), Instant::now());
        let mut watching = Watching { limits: limits_of, looked, print, written: BTreeMap::new() };
        let machine = Machine::new(&module.0, &*engine).limits(&limits).packed(packed);
        let mut machine = machine.kernels(&executor.kernels).looking_for_unwritten();
        let value = executing(&engine, || machine.run(function, args.clone(), &mut watching))?;
        let doubtful = machine.unwritten().filter(|_| !has_functions).cloned();
        let how = (&limits, &executor.kernels);
        let depends = || depends_on_unwritten(&engine, &module.0, function, args, how, &value).unwrap_or(false);
        let at = doubtful.filter(|_| depends());
        Ok((value, watching.written, at))
    };
    let result = py.detach(|| fork::inside(execute));
    let (value, written, at) = result.map_err(|failure: Failure| raised_by(py, &engine, module, &failure))?;
    if let Some(at) = at {
        return Err(raised(py, &unwritten(&engine, &module.0, &at)));
    }
    let of = |origin: u32| arrays.get(origin as usize).map(|array| array.clone_ref(py));
    let written = written.into_iter().filter_map(|(origin, tensor)| Some((of(origin)?, Array(tensor)))).collect();
    Ok((taken(py, &value, &arrays)?.unbind(), written, executor.note()))
}

fn raised_by(py: Python<'_>, engine: &passhost::Engine, module: &Module, failure: &Failure) -> PyErr {
    let error = failed(engine, &module.0, failure);
    match take_raised() {
        Some(own) => match own.value(py).call_method1("add_note", (error.to_string(),)) {
            Ok(_) => own,
            Err(error) => error,
        },
        None => match failure.cause {
            Cause::OtherKind { .. } => raised_as(py, &error, "execution-kind"),
            Cause::OtherType { .. } => raised_as(py, &error, "execution-type"),
            _ => raised(py, &error),
        },
    }
}

/// Returns the data types of the scalar parameters.
fn scalar_types(module: &Module, function: &str) -> Vec<Option<DType>> {
    let Some(function) = module.0.get(function).and_then(|body| body.function()) else { return Vec::new() };
    let dtype = |ty: Type| if let Type::Prim { dtype, .. } = ty { Some(dtype) } else { None };
    function.params().map(|param| dtype(param.ty().to_owned())).collect()
}
