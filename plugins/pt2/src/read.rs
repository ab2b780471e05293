//! Reads a program: finds it in the archive, converts its inputs to parameters and its weights to constants, and reads its graph.

use crate::Options;
use crate::archive::Archive;
use crate::args::{Arg, Meta};
use crate::expr::Expr;
use crate::graph::{Cx, Item};
use crate::json::{field, int, list, text, union};
use crate::ops::has_branches;
use crate::weights::{self, Wanted, Weights};
use importer::known;
use importer::tensor::{Res, T};
use plugin_api::names::{did_you_mean, identifier, nearest};
use plugin_api::prelude::*;
use plugin_api::tvm::{BlockBuilder, FunctionBuilder};
use plugin_api::typing::operators::Infer;
use serde_json::Value;

/// The name of the function for the program.
const MAIN: &str = "main";
/// The supported major version of the schema.
const SCHEMA: i64 = 8;

/// Reads a program as a module. Also returns notes for the user.
pub(crate) fn module(
    source: &Source<'_>,
    options: &Options,
    infer: &dyn Infer,
) -> Result<(Module, Vec<String>), PassError> {
    if source.bytes().is_empty() {
        bail!("the file is empty; check that it was written or downloaded completely");
    }
    let of = |why: String| PassError::new(format!("the file is not an archive of `torch.export.save`: {why}"));
    let archive = Archive::open(source.shared()?).map_err(of)?;
    let name = model_name(&archive, options).map_err(PassError::new)?;
    let program = program(&archive, &name).map_err(PassError::new)?;
    let builder = BlockBuilder::new(infer);
    let mut read = Ok(Vec::new());
    builder.function(MAIN, |b| {
        let mut cx = Cx::new(b, options);
        read = main(&mut cx, &archive, &name, &program).map(|()| std::mem::take(&mut cx.notes));
    });
    let notes = read.map_err(PassError::new)?;
    Ok((builder.get()?, notes))
}

/// Returns the name of the model to read.
fn model_name(archive: &Archive, options: &Options) -> Res<String> {
    let names = archive.names("models", ".json");
    if !options.model.is_empty() {
        return match names.contains(&options.model.as_str()) {
            true => Ok(options.model.clone()),
            false => Err(format!(
                "the archive does not contain the model `{}`{}",
                options.model,
                did_you_mean(&nearest(&options.model, names.iter().copied()))
            )),
        };
    }
    match names.as_slice() {
        [one] => Ok((*one).to_string()),
        [] => {
            Err("the archive does not contain a program; a package of AOTInductor contains only compiled code"
                .to_string())
        }
        many => Err(format!(
            "the archive contains the models {}; choose one, as in `model=\"{}\"`",
            many.join(", "),
            many[0]
        )),
    }
}

/// Decodes a program, and checks its version.
fn program(archive: &Archive, name: &str) -> Res<Value> {
    let json = archive.text(&format!("models/{name}.json"))?;
    let program: Value =
        serde_json::from_str(&json).map_err(|error| format!("the program `{name}` is not valid JSON: {error}"))?;
    let major = int(field(field(&program, "schema_version")?, "major")?)?;
    if major != SCHEMA {
        let by = program.get("torch_version").and_then(Value::as_str).unwrap_or("an unknown version");
        return Err(format!(
            "the program has version {major} of the schema, written by PyTorch {by}; only version {SCHEMA} is supported, which PyTorch 2.8 and newer write"
        ));
    }
    if archive.has("byteorder") && archive.text("byteorder")?.trim() != "little" {
        return Err("the weights are not in little-endian byte order".to_string());
    }
    Ok(program)
}

/// An input of the graph.
enum Input<'p> {
    User { name: &'p str, meta: Meta<'p> },
    Weight { wanted: Wanted<'p>, is_param: bool },
    Nothing { name: &'p str },
}

impl<'p> Input<'p> {
    fn of(spec: &'p Value, graph: &'p Value) -> Res<Option<Input<'p>>> {
        let (kind, spec) = union(spec)?;
        let weight = |key: &str, is_weight: bool, is_param: bool| {
            let wanted = Wanted { value: text(field(spec, "arg")?, "name")?, name: text(spec, key)?, is_weight };
            Ok(Some(Input::Weight { wanted, is_param }))
        };
        match kind {
            "parameter" => weight("parameter_name", true, true),
            "buffer" => weight("buffer_name", spec.get("persistent").and_then(Value::as_bool).unwrap_or(true), false),
            "tensor_constant" => weight("tensor_constant_name", false, false),
            "constant_input" => Ok(spec.get("name").and_then(Value::as_str).map(|name| Input::Nothing { name })),
            "user_input" => match Arg::of(field(spec, "arg")?)? {
                Arg::Tensor(name) => {
                    let of = |why: String| format!("input `{name}`: {why}");
                    let types = field(graph, "tensor_values")?;
                    let meta = types.get(name).ok_or_else(|| of("the program does not state its type".to_string()))?;
                    Ok(Some(Input::User { name, meta: Meta::of(meta).map_err(of)? }))
                }
                Arg::None | Arg::Text(_) | Arg::Bool(_) => Ok(None),
                Arg::Number(crate::args::Number::Name(name)) => Err(format!(
                    "input `{name}` is a number that may change; export the model with a fixed number, or with a tensor"
                )),
                Arg::Number(_) => Ok(None),
                _ => Err("an input is neither a tensor nor a number".to_string()),
            },
            "custom_obj" => Err("an input is a custom object, which is not supported".to_string()),
            other => Err(format!("an input of the kind `{other}` is not supported")),
        }
    }
}

/// Builds the function of a program.
fn main<'a>(cx: &mut Cx<'a>, archive: &Archive, name: &str, program: &'a Value) -> Res<()> {
    let module = field(program, "graph_module")?;
    let (graph, signature) = (field(module, "graph")?, field(module, "signature")?);
    let mut inputs = Vec::new();
    for spec in list(signature, "input_specs")? {
        inputs.extend(Input::of(spec, graph)?);
    }
    let mut given = parameters(cx, &inputs)?;
    let n_inputs = given.len();
    let mut attrs: Vec<(&str, Attr)> = bounds(cx, program)?;
    let config = |kind: &str, old: &str| [format!("{name}_{kind}_config.json"), format!("{name}_{old}_config.json")];
    let weights = Weights::of(archive, "weights", &config("weights", "model_param"))?;
    let constants = Weights::of(archive, "constants", &config("constants", "model_constants"))?;
    let params = stored(cx, &inputs, (archive, &weights, &constants), &mut given)?;
    if cx.options.keep_params_as_input {
        attrs.push(("num_input", (n_inputs as i64).into()));
        attrs.push(("params", Attr::list(params)));
    }
    cx.b.func_attrs(&attrs);
    let (b, flows) = (cx.b, !has_branches(graph));
    let visible = |v: V| if flows { b.emit_output(v) } else { v };
    let read = |_: &FunctionBuilder<'_, '_>| -> Res<Vec<V>> {
        let results = cx.graph(graph, given)?;
        let values = values(cx, results, list(signature, "output_specs")?)?;
        match (values.as_slice(), cx.options) {
            ([one], Options { unwrap_unit_return_tuple: true, .. }) => Ok(vec![visible(*one)]),
            (all, Options { no_bind_return_tuple: true, .. }) => Ok(all.iter().map(|v| visible(*v)).collect()),
            (all, _) => Ok(vec![visible(b.tuple(all))]),
        }
    };
    // Dataflow blocks cannot contain branches.
    let results = if flows { b.dataflow(read)? } else { read(b)? };
    let is_single = cx.options.unwrap_unit_return_tuple && results.len() == 1;
    match results.as_slice() {
        [one] if is_single || !cx.options.no_bind_return_tuple => b.emit_func_output(*one),
        all => b.emit_func_output(b.tuple(all)),
    }
    Ok(())
}

/// Creates parameters for the user inputs. Each symbol of their sizes becomes a symbolic dimension.
fn parameters<'a>(cx: &mut Cx<'a>, inputs: &[Input<'a>]) -> Res<Vec<(&'a str, Item)>> {
    let users: Vec<(&'a str, &Meta<'a>)> = inputs
        .iter()
        .filter_map(|input| if let Input::User { name, meta } = input { Some((*name, meta)) } else { None })
        .collect();
    // Inputs get their names before symbolic dimensions.
    let called: Vec<String> = users.iter().map(|(name, _)| cx.names.fresh(&identifier(name))).collect();
    for (_, meta) in &users {
        let symbols: Vec<Expr> = meta.sizes.iter().filter(|size| matches!(size, Expr::Symbol(_))).cloned().collect();
        cx.dims(&symbols)?;
    }
    let mut given = Vec::new();
    for ((name, meta), called) in users.into_iter().zip(called) {
        let mut dims = Vec::new();
        for size in &meta.sizes {
            dims.push(input_size(cx, size).map_err(|why| format!("input `{name}`: {why}"))?);
        }
        let ty = Type::tensor(dims, meta.dtype);
        given.push((name, Item::Tensor(T::of(cx.b.param(&called, ty.clone()), &ty)?)));
    }
    for input in inputs {
        if let Input::Nothing { name } = input {
            given.push((*name, Item::None));
        }
    }
    Ok(given)
}

/// Returns a size of an input. A symbol of the expression that is not itself a size of an input is computed from this size.
fn input_size(cx: &mut Cx<'_>, size: &Expr) -> Res<Dim> {
    let mut unknown = Vec::new();
    size.symbols(&mut |name| {
        if !cx.symbols.contains_key(name) && !unknown.contains(&name) {
            unknown.push(name);
        }
    });
    let mut symbols = 0;
    size.symbols(&mut |_| symbols += 1);
    match (unknown.as_slice(), size.linear()) {
        ([], _) => Ok(cx.dims(std::slice::from_ref(size))?.remove(0)),
        ([symbol], Some((a, b))) if symbols == 1 => {
            let dim = cx.fresh(&format!("{symbol}_{a}"));
            let value = known::div(&known::sub(&dim, &Dim::Int(b)), &Dim::Int(a));
            cx.symbols.insert((*symbol).to_string(), value);
            Ok(dim)
        }
        ([symbol, ..], _) => Err(format!(
            "its size depends on `{symbol}`, which is not a size of an input itself; export the model with a different dynamic shape"
        )),
    }
}

/// Returns the bounds of symbolic sizes as attributes.
fn bounds(cx: &Cx<'_>, program: &Value) -> Res<Vec<(&'static str, Attr)>> {
    let (mut lower, mut upper) = (Vec::new(), Vec::new());
    let ranges = program.get("range_constraints").and_then(Value::as_object);
    for (symbol, range) in ranges.into_iter().flatten() {
        let Some(Dim::Var(_)) = cx.symbols.get(symbol) else { continue };
        let bound = |key: &str| range.get(key).and_then(Value::as_i64);
        lower.extend(bound("min_val").map(|least| (identifier(symbol), Attr::Int(least))));
        // PyTorch writes an unlimited size as the largest integer.
        let most = bound("max_val").filter(|most| *most < i64::MAX - 1);
        upper.extend(most.map(|most| (identifier(symbol), Attr::Int(most))));
    }
    let mut attrs = Vec::new();
    for (key, bounds) in [("tir_var_lower_bound", lower), ("tir_var_upper_bound", upper)] {
        if !bounds.is_empty() {
            attrs.push((key, Attr::dict(bounds)));
        }
    }
    Ok(attrs)
}

/// Adds weights and constants to the values of the graph. With `keep_params_as_input`, parameters of the model become parameters of the
/// function, and their values are returned.
fn stored<'a>(
    cx: &mut Cx<'a>,
    inputs: &[Input<'a>],
    (archive, weights, constants): (&Archive, &Weights, &Weights),
    given: &mut Vec<(&'a str, Item)>,
) -> Res<Vec<Attr>> {
    let of = |input: &Input<'a>| match input {
        Input::Weight { wanted, is_param } => {
            Some((Wanted { value: wanted.value, name: wanted.name, is_weight: wanted.is_weight }, *is_param))
        }
        _ => None,
    };
    let (wanted, is_param): (Vec<Wanted<'a>>, Vec<bool>) = inputs.iter().filter_map(of).unzip();
    let tensors = weights::read(archive, weights, constants, &wanted)?;
    let mut params = Vec::new();
    for ((wanted, is_param), tensor) in wanted.iter().zip(is_param).zip(tensors) {
        let item = match (is_param && cx.options.keep_params_as_input, &tensor.0.data) {
            (true, Some(data)) => {
                let ty = Type::tensor(tensor.dims()?, tensor.dtype());
                params.push(Attr::Tensor(data.clone(), ty.clone()));
                let name = cx.names.fresh(&identifier(wanted.value));
                T::of(cx.b.param(&name, ty.clone()), &ty)?
            }
            _ => tensor,
        };
        given.push((wanted.value, Item::Tensor(item)));
    }
    Ok(params)
}

/// Returns the results of the function: the results of the model, followed by the new values of changed buffers, inputs and parameters.
fn values(cx: &mut Cx<'_>, results: Vec<Item>, specs: &[Value]) -> Res<Vec<V>> {
    if results.len() != specs.len() {
        return Err(format!("the graph has {} results, but the signature describes {}", results.len(), specs.len()));
    }
    let (mut own, mut changed) = (Vec::new(), Vec::new());
    for (item, spec) in results.into_iter().zip(specs) {
        match union(spec)? {
            ("user_output" | "loss_output", _) => own.push(item),
            ("token", _) => {}
            (kind @ ("buffer_mutation" | "user_input_mutation" | "parameter_mutation"), spec) => {
                let key = ["buffer_name", "user_input_name", "parameter_name"]
                    .into_iter()
                    .find(|key| spec.get(key).is_some());
                let name = key.and_then(|key| spec.get(key)).and_then(Value::as_str).unwrap_or("");
                if !cx.options.keep_mutations {
                    return Err(format!(
                        "the model changes `{name}` ({kind}), which a function cannot do; the option `keep_mutations` returns \
                         the new value after the results"
                    ));
                }
                changed.push(item);
            }
            (other, _) => return Err(format!("a result has the kind `{other}`; export the model for inference")),
        }
    }
    let n = own.len();
    own.extend(changed);
    let mut values = Vec::new();
    for item in own {
        match item {
            Item::Tensor(tensor) => values.push(cx.v(&tensor)?),
            Item::Number(known::Elem::Int(dim)) => values.push(cx.b.prim_value(dim)),
            Item::Number(known::Elem::Float(value)) => values.push(cx.b.prim_value(Dim::float(value, DType::F64))),
            Item::Number(known::Elem::Ratio(..)) => {
                return Err("a result is a quotient of symbolic sizes, which is not supported".to_string());
            }
            Item::None => {}
        }
    }
    if values.is_empty() {
        return Err("the model does not return anything".to_string());
    }
    if values.len() < n {
        cx.notes.push("the module omits results of the model that are `None`".to_string());
    }
    Ok(values)
}
