//! Tests the reader of PyTorch's .pt2 archives, `plugins/pt2`, with handmade archives. Modules are executed.

mod archive;
mod branches;
mod models;
mod operators;
mod refusals;

use passhost::runtime::Tensor;
use passhost::runtime::vm::{Machine, Value};
use passhost::{Error, Input};
use passhost_tests::engine;
use plugin_api::ir::Module;
use plugin_api::ir::constant::Element;
use plugin_api::prelude::DType;

/// Reads an archive; `options` are options of the reader, as in `model="m"`.
fn read_with(archive: &[u8], options: &str) -> Result<Module, Error> {
    let format = if options.is_empty() { "pt2".to_string() } else { format!("pt2{{{options}}}") };
    engine().read_module(&Input::of_bytes("model.pt2", archive.to_vec(), &format)?).module
}

fn read(archive: &[u8]) -> Module {
    read_with(archive, "").unwrap_or_else(|error| panic!("{error}"))
}

/// Returns the error about an archive, with all its details.
fn refused(archive: &[u8], options: &str) -> String {
    match read_with(archive, options) {
        Ok(_) => panic!("the archive is read"),
        Err(error) => error.to_string(),
    }
}

fn tensor(shape: &[i64], values: &[f32]) -> Value {
    Value::Tensor(Tensor::from_vec(shape, values.to_vec()).expect("as many elements"))
}

/// Executes `main`, and returns the results.
fn run(module: &Module, inputs: Vec<Value>) -> Vec<Tensor> {
    let value = Machine::new(module, engine()).run("main", inputs, &mut ()).unwrap_or_else(|why| panic!("{why:?}"));
    let fields = value.as_tuple().map_or_else(|| vec![value.clone()], <[Value]>::to_vec);
    fields.iter().map(|field| field.as_tensor().expect("a tensor").clone()).collect()
}

/// Checks the shape and the elements of a tensor of floats.
fn assert_near(found: &Tensor, shape: &[i64], wanted: &[f32]) {
    assert_eq!((found.dtype(), found.shape()), (DType::F32, shape));
    for (at, wanted) in wanted.iter().enumerate() {
        let found: f64 = found.number(at).map(f64::of).expect("an element");
        assert!((found - f64::from(*wanted)).abs() < 2e-5, "element {at} is {found} instead of {wanted}");
    }
}
