//! Reads a model: decodes it, converts its inputs to parameters, and reads its graph.

use crate::cx::Cx;
use crate::graph::{Notes, Scopes};
use crate::known::{Elem, Known, MOST, rounded};
use crate::rounds::Functions;
use crate::tensors::{self, Files};
use crate::value::{Item, Res, T};
use crate::{Options, narrow, proto};
use plugin_api::names::{did_you_mean, identifier, nearest};
use plugin_api::prelude::*;
use plugin_api::tvm::{BlockBuilder, FunctionBuilder};
use plugin_api::typing::operators::Infer;
use prost::Message;
use prost::bytes::Bytes;
use proto::{Extent, TypeValue};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;

/// The name of the function for the graph of the model.
const MAIN: &str = "main";

/// Reads a model as a module.
pub(crate) fn module(source: &Source<'_>, options: &Options, infer: &dyn Infer) -> Result<(Module, Notes), PassError> {
    let (bytes, files) = (source.shared()?, Files::of(source));
    let model = proto::Model::decode(Bytes::from_owner(bytes)).map_err(|error| match other_form(source.bytes()) {
        Some(other) => PassError::new(format!("the file is not an ONNX model: {other}")),
        None => PassError::new(format!(
            "the file is not an ONNX model: {error}; check that it was written or downloaded completely"
        )),
    })?;
    if source.bytes().is_empty() {
        bail!("the file is empty; check that it was written or downloaded completely");
    }
    match function(&model, &files, options, infer, true)? {
        Some(read) => Ok(read),
        None => function(&model, &files, options, infer, false)?
            .ok_or_else(|| PassError::new("the model has branches in a place where they are not supported")),
    }
}

/// Describes the content of a file that is not an ONNX model.
fn other_form(bytes: &[u8]) -> Option<&'static str> {
    let start = bytes.trim_ascii_start();
    let begins = |with: &[u8]| start.get(..with.len()).is_some_and(|start| start.eq_ignore_ascii_case(with));
    let forms: [(&[&[u8]], &str); 6] = [
        (&[b"version https://git-lfs"], "it is a Git LFS pointer; fetch the model with `git lfs pull`"),
        (&[b"\x1f\x8b", b"\xfd7zXZ", b"BZh", b"\x28\xb5\x2f\xfd"], "it is compressed; unpack it"),
        (&[b"PK\x03\x04"], "it is a zip archive; unpack it"),
        (&[b"<!doctype", b"<html", b"<?xml"], "it is a web page; download the model itself"),
        (&[b"{"], "it is JSON"),
        (
            &[b"# from tvm", b"from tvm", b"import ", b"@I.ir_module"],
            "it looks like TVMScript; give it the extension .py",
        ),
    ];
    forms.into_iter().find(|(starts, _)| starts.iter().any(|with| begins(with))).map(|(_, what)| what)
}

/// Reads the graph as a function. Returns `None` if a part of it cannot be in a dataflow block.
fn function(
    model: &proto::Model,
    files: &Files<'_>,
    options: &Options,
    infer: &dyn Infer,
    dataflow: bool,
) -> Result<Option<(Module, Notes)>, PassError> {
    let Some(graph) = &model.graph else { bail!("the file is not an ONNX model: it does not contain a graph") };
    let given = Given::of(options)?;
    let builder = BlockBuilder::new(infer);
    let functions = Functions::of(&builder, infer);
    let (mut read, mut needs_branches, mut notes) = (Ok(()), false, Notes::default());
    builder.function(MAIN, |b| {
        read = Scopes::new(model, files, options, &functions, dataflow).and_then(|scopes| {
            let mut cx = Cx::new(b, scopes);
            let read = main(&mut cx, graph, &given);
            needs_branches = cx.scopes.needs_branches && dataflow;
            notes = cx.scopes.notes.take();
            read
        });
    });
    if needs_branches {
        return Ok(None);
    }
    read.map_err(PassError::new)?;
    Ok(Some((builder.get()?, notes)))
}

/// Builds the function of a graph.
fn main<'a>(cx: &mut Cx<'a>, graph: &'a proto::Graph, given: &Given) -> Res<()> {
    let inputs = parameters(cx, graph, given)?;
    let (b, flows) = (cx.b, cx.scopes.dataflow);
    let build = |_: &FunctionBuilder<'_, '_>| -> Res<Vec<V>> {
        let results = cx.model(graph, inputs)?;
        graph.output.iter().zip(&results).try_for_each(|(output, result)| has_declared_type(output, result))?;
        results.iter().map(|result| cx.result(result)).collect()
    };
    let results = if flows { b.dataflow(build)? } else { build(b)? };
    match results.as_slice() {
        [] => Err("the model has no outputs".to_string()),
        [one] => {
            b.emit_func_output(*one);
            Ok(())
        }
        all => {
            b.emit_func_output(b.tuple(all));
            Ok(())
        }
    }
}

/// Checks that a result has the data type that the model declares for it.
fn has_declared_type(output: &proto::ValueInfo, result: &Item) -> Res<()> {
    let (Some(declared), Item::Tensor(computed)) = (tensor_type(output), result) else { return Ok(()) };
    let (Ok(declared), computed) = (tensors::dtype_of(declared.elem_type), computed.dtype()) else { return Ok(()) };
    // Narrow numbers are computed in a wider type.
    if declared == computed || narrow::storage(declared).is_some() {
        return Ok(());
    }
    Err(format!(
        "output `{}` is declared as {declared}, but the model computes {computed}; correct the declaration, or add a Cast",
        output.name
    ))
}

/// The options about inputs.
#[derive(Default)]
struct Given {
    shapes: BTreeMap<String, Vec<i64>>,
    sizes: BTreeMap<String, i64>,
    values: BTreeMap<String, String>,
}

impl Given {
    /// Returns the shapes of the elements of a sequence.
    fn elements<'g>(&'g self, name: &'g str) -> impl Iterator<Item = &'g Vec<i64>> {
        (0..).map_while(move |at| self.shapes.get(&format!("{name}_{at}")))
    }

    fn of(options: &Options) -> Result<Given, PassError> {
        let mut given = Given::default();
        for entry in &options.shapes {
            let (name, text) = named("shapes", entry, "x=1,3,224,224")?;
            let parts = if text.is_empty() { Vec::new() } else { text.split(',').collect() };
            let sizes: Result<Vec<i64>, _> = parts.into_iter().map(|part| part.trim().parse()).collect();
            match sizes {
                Ok(sizes) if sizes.iter().all(|size| *size >= 0) => {
                    once("shapes", &name, given.shapes.insert(name.clone(), sizes))?;
                }
                _ => {
                    bail!(option "`shapes` contains `{entry}`; expected an input and its sizes, such as `x=1,3,224,224`")
                }
            }
        }
        for entry in &options.sizes {
            let (name, text) = named("sizes", entry, "batch=1")?;
            match text.parse() {
                Ok(size) if size >= 0 => once("sizes", &name, given.sizes.insert(name.clone(), size))?,
                _ => bail!(option "`sizes` contains `{entry}`; expected a dimension and its size, such as `batch=1`"),
            }
        }
        for entry in &options.values {
            let (name, text) = named("values", entry, "axes=[0, 1]")?;
            once("values", &name, given.values.insert(name.clone(), text))?;
        }
        Ok(given)
    }
}

/// Rejects a second entry for a name.
fn once<A>(option: &str, name: &str, earlier: Option<A>) -> Result<(), PassError> {
    match earlier {
        None => Ok(()),
        Some(_) => bail!(option "`{option}` has two entries for `{name}`; remove one of them"),
    }
}

fn named(option: &str, entry: &str, example: &str) -> Result<(String, String), PassError> {
    match entry.split_once('=') {
        Some((name, text)) => Ok((name.trim().to_string(), text.trim().to_string())),
        None => bail!(option "`{option}` contains `{entry}`; expected a name and a value, such as `{example}`"),
    }
}

/// Creates parameters for the inputs of a graph. Inputs whose values the options set become constants.
fn parameters<'a>(cx: &mut Cx<'a>, graph: &'a proto::Graph, given: &Given) -> Res<Vec<(String, Item)>> {
    let stored: HashMap<&str, &proto::Tensor> = graph.initializer.iter().map(|t| (t.name.as_str(), t)).collect();
    check_names(graph, given)?;
    let mut symbols: HashMap<String, Dim> = HashMap::new();
    let (mut inputs, mut tuples) = (Vec::new(), Vec::new());
    let given_inputs: Vec<&proto::ValueInfo> =
        graph.input.iter().filter(|input| !stored.contains_key(input.name.as_str())).collect();
    // Inputs get their names before symbolic dimensions do.
    let called: Vec<String> = given_inputs.iter().map(|input| cx.names.fresh(&identifier(&input.name))).collect();
    for (input, name) in given_inputs.into_iter().zip(called) {
        let of = |why: String| format!("input `{}`: {why}", input.name);
        if matches!(input.r#type.as_ref().and_then(|ty| ty.value.as_ref()), Some(TypeValue::Optional(_))) {
            cx.scopes.optional.push(input.name.as_str());
        }
        if let Some(element) = element_type(input) {
            let types = elements(element, &input.name, given).map_err(of)?;
            if !types.is_empty() {
                let n = types.len();
                tuples.push((inputs.len(), cx.b.param(&name, Type::Tuple(types.into_iter().collect())), n));
            }
            inputs.push((input.name.clone(), Item::Sequence(Rc::default())));
            continue;
        }
        let ty = input_type(cx, input, given, &mut symbols).map_err(of)?;
        let item = match given.values.get(&input.name) {
            Some(text) => constant(text, &ty).map_err(of)?,
            None => without_elements(T::of(cx.b.param(&name, ty.clone()), &ty)?),
        };
        let logical = tensor_type(input).map(|ty| tensors::dtype_of(ty.elem_type)).transpose()?;
        let item = match logical.filter(|dtype| narrow::storage(*dtype).is_some()) {
            Some(dtype) => item.with_narrow(dtype),
            None => item,
        };
        inputs.push((input.name.clone(), item.into()));
    }
    let n_inputs = inputs.len() - given.values.len();
    let params = if cx.scopes.options.keep_params_in_input { weights(cx, graph, &mut inputs)? } else { Vec::new() };
    for (at, tuple, n) in tuples {
        let parts = (0..n).map(|k| T::of_v(cx, cx.b.emit(cx.b.get(tuple, k as u32))).map(Item::from));
        inputs[at].1 = Item::Sequence(Rc::new(parts.collect::<Res<_>>()?));
    }
    let count = n_inputs as i64;
    let mut attrs = vec![("num_input", count.into())];
    if !params.is_empty() {
        attrs.push(("params", Attr::list(params)));
    }
    cx.b.func_attrs(&attrs);
    Ok(inputs)
}

/// Creates parameters for the weights, and adds them to the inputs. Returns their values.
fn weights<'a>(cx: &mut Cx<'a>, graph: &'a proto::Graph, inputs: &mut Vec<(String, Item)>) -> Res<Vec<Attr>> {
    let (scales, mut values) = (only_scales(graph), Vec::new());
    let stored = graph.initializer.iter().filter(|tensor| !tensors::is_text(tensor));
    for (tensor, constant) in tensors::read_all(stored, cx.scopes.files)? {
        let ty = Type::tensor(constant.dims()?, constant.dtype());
        let name = cx.names.fresh(&identifier(&tensor.name));
        let param = T::of(cx.b.param(&name, ty.clone()), &ty)?;
        inputs.push((tensor.name.clone(), weight(&constant, param, scales.contains(tensor.name.as_str())).into()));
        let Some(data) = constant.0.data.clone() else {
            return Err(format!("initializer `{}` contains no data", tensor.name));
        };
        values.push(Attr::Tensor(data, ty));
    }
    Ok(values)
}

/// Returns the type of the elements of an input that is a sequence of tensors.
fn element_type(input: &proto::ValueInfo) -> Option<&proto::TensorType> {
    let mut value = input.r#type.as_ref()?.value.as_ref()?;
    if let TypeValue::Optional(inner) = value {
        value = inner.elem_type.as_ref()?.value.as_ref()?;
    }
    let TypeValue::Sequence(element) = value else { return None };
    match element.elem_type.as_ref()?.value.as_ref()? {
        TypeValue::Tensor(ty) => Some(ty),
        _ => None,
    }
}

/// Returns the types of the elements of an input that is a sequence. The options have the shape of each element.
fn elements(ty: &proto::TensorType, name: &str, given: &Given) -> Res<Vec<Type>> {
    if let Some(value) = given.values.get(name) {
        return match in_brackets(value).is_some_and(|(_, numbers)| numbers.is_empty()) {
            true => Ok(Vec::new()),
            false => Err(format!("its value `{value}` is not `[]`; the value of a sequence can only be empty")),
        };
    }
    let dtype = tensors::dtype_of(ty.elem_type)?;
    if narrow::storage(dtype).is_some() {
        return Err(format!("it is a sequence of {dtype}, which is not supported"));
    }
    let types: Vec<Type> = given.elements(name).map(|sizes| Type::tensor(sizes.iter().copied(), dtype)).collect();
    match types.is_empty() {
        false => Ok(types),
        true => Err(format!(
            "it is a sequence, whose length and shapes must be known; specify each element, as in \
             `shapes=[\"{name}_0=2,3\", \"{name}_1=2,3\"]`, or an empty sequence, as in `values=[\"{name}=[]\"]`"
        )),
    }
}

/// Returns the names that the graph uses only as the region, the scales or the sizes of resized tensors.
fn only_scales(graph: &proto::Graph) -> HashSet<&str> {
    let (mut scales, mut others) = (HashSet::new(), HashSet::new());
    for node in &graph.node {
        let resizes = matches!(node.op_type.as_str(), "Resize" | "Upsample");
        for (at, name) in node.input.iter().enumerate() {
            if resizes && at > 0 { &mut scales } else { &mut others }.insert(name.as_str());
        }
    }
    scales.retain(|name| !others.contains(name));
    scales
}

/// Returns the parameter for a weight. The elements of integers, and of the scales of a Resize, are known during reading,
/// because shapes may be computed from them.
fn weight(constant: &T, param: T, scales: bool) -> T {
    if let Some(narrow) = constant.narrow() {
        return param.with_narrow(narrow);
    }
    match constant.known() {
        Some(known) if !constant.is_float() || scales => {
            let weight = T::known_as(known.clone());
            weight.0.v.set(param.0.v.get());
            weight
        }
        _ => param,
    }
}

/// Marks the value of a parameter without elements, such as empty axes, as known.
fn without_elements(x: T) -> T {
    let empty = x.sizes().filter(|sizes| sizes.contains(&0)).and_then(|sizes| Known::new(x.dtype(), sizes, Vec::new()));
    let Some(known) = empty else { return x };
    let known = T::known_as(known);
    known.0.v.set(x.0.v.get());
    known
}

/// Rejects options for inputs and dimensions that the model does not have.
fn check_names(graph: &proto::Graph, given: &Given) -> Res<()> {
    let inputs: Vec<&str> = graph.input.iter().map(|input| input.name.as_str()).collect();
    let sequences = graph.input.iter().filter(|input| element_type(input).is_some());
    let parts =
        sequences.flat_map(|input| (0..given.elements(&input.name).count()).map(|at| format!("{}_{at}", input.name)));
    let parts: HashSet<String> = parts.collect();
    for (option, name) in
        given.shapes.keys().map(|name| ("shapes", name)).chain(given.values.keys().map(|name| ("values", name)))
    {
        let is_part = option == "shapes" && parts.contains(name);
        if !inputs.contains(&name.as_str()) && !is_part {
            let near = nearest(name, inputs.iter().copied());
            return Err(format!(
                "`{option}` names `{name}`, which is not an input of the model{}",
                did_you_mean(&near)
            ));
        }
    }
    let dims =
        graph.input.iter().filter_map(tensor_type).filter_map(|ty| ty.shape.as_ref()).flat_map(|shape| &shape.dim);
    let params: Vec<&str> = dims
        .filter_map(|dim| if let Some(Extent::Param(name)) = &dim.value { Some(name.as_str()) } else { None })
        .collect();
    for name in given.sizes.keys() {
        if !params.contains(&name.as_str()) {
            let near = nearest(name, params.iter().copied());
            return Err(format!("`sizes` names `{name}`, which is not a dimension of an input{}", did_you_mean(&near)));
        }
    }
    Ok(())
}

/// Returns the tensor type of an input. For an optional tensor, that is the type of the tensor.
fn tensor_type(input: &proto::ValueInfo) -> Option<&proto::TensorType> {
    match input.r#type.as_ref()?.value.as_ref()? {
        TypeValue::Tensor(ty) => Some(ty),
        TypeValue::Optional(inner) => match inner.elem_type.as_ref()?.value.as_ref()? {
            TypeValue::Tensor(ty) => Some(ty),
            _ => None,
        },
        _ => None,
    }
}

fn input_type(
    cx: &mut Cx<'_>,
    input: &proto::ValueInfo,
    given: &Given,
    symbols: &mut HashMap<String, Dim>,
) -> Res<Type> {
    let ty = tensor_type(input)
        .ok_or("it is neither a tensor nor a sequence of tensors; maps and sparse tensors cannot be inputs")?;
    let dtype = tensors::dtype_of(ty.elem_type)?;
    let dtype = narrow::storage(dtype).unwrap_or(dtype);
    if let Some(sizes) = given.shapes.get(&input.name) {
        if ty.shape.as_ref().is_some_and(|shape| shape.dim.len() != sizes.len()) {
            return Err(format!(
                "`shapes` gives {} sizes, which does not match the number of its dimensions in the model",
                sizes.len()
            ));
        }
        return Ok(Type::tensor(sizes.iter().copied(), dtype));
    }
    let Some(shape) = &ty.shape else { return Ok(Type::tensor_ndim(-1, dtype)) };
    let mut dims = Vec::new();
    for (axis, dim) in shape.dim.iter().enumerate() {
        dims.push(match &dim.value {
            Some(Extent::Value(size)) if *size >= 0 => Dim::Int(*size),
            // Exporters name every unknown size `?`.
            Some(Extent::Param(name)) if name.contains(char::is_alphanumeric) => {
                match (given.sizes.get(name), symbols.get(name)) {
                    (Some(size), _) => Dim::Int(*size),
                    (None, Some(known)) => known.clone(),
                    (None, None) => {
                        let new = cx.fresh(name);
                        if let Dim::Var(sym) = &new {
                            cx.scopes.sizes.insert(sym.id, name.clone());
                        }
                        symbols.insert(name.clone(), new.clone());
                        new
                    }
                }
            }
            _ => cx.fresh(&format!("{}_{axis}", input.name)),
        });
    }
    Ok(Type::tensor(dims, dtype))
}

/// Parses numbers in brackets, such as `[[1, 2], [3, 4]]`, as a constant of a tensor type.
fn constant(text: &str, ty: &Type) -> Res<T> {
    let dtype = ty.as_tensor().map_or(DType::F32, |ty| ty.dtype);
    let (shape, numbers) = in_brackets(text)
        .ok_or_else(|| format!("its value `{text}` is not a list of numbers, such as `[[1, 2], [3, 4]]`"))?;
    let declared = ty.as_tensor().and_then(|ty| ty.shape.as_ref());
    let fits = |dims: &Vec<Dim>| {
        dims.len() == shape.len() && dims.iter().zip(&shape).all(|(dim, n)| dim.as_int().is_none_or(|dim| dim == *n))
    };
    if let Some(dims) = declared.filter(|dims| !fits(dims)) {
        let dims: Vec<String> =
            dims.iter().map(|dim| dim.as_int().map_or("any".to_string(), |n| n.to_string())).collect();
        return Err(format!("its value `{text}` has the shape {shape:?}, but the model has [{}]", dims.join(", ")));
    }
    if numbers.len() > MOST {
        return Err(format!("its value has {} elements; at most {MOST} can be given", numbers.len()));
    }
    let elems: Vec<Elem> = numbers.iter().map(|number| element(number, dtype)).collect::<Res<_>>()?;
    Known::new(dtype, shape, elems).map(T::known_as).ok_or_else(|| format!("its value `{text}` is not a tensor"))
}

/// Returns a number as an element of a data type.
fn element(number: &str, dtype: DType) -> Res<Elem> {
    let not = || format!("`{number}` is not a number of type {dtype}");
    let lower = number.to_ascii_lowercase();
    if dtype.is_float() {
        let value = match lower.as_str() {
            "true" => 1.0,
            "false" => 0.0,
            other => other.parse().map_err(|_| not())?,
        };
        return Ok(Elem::Float(rounded(value, dtype).unwrap_or(value)));
    }
    let value: i128 = match lower.as_str() {
        "true" => 1,
        "false" => 0,
        other => other.parse().map_err(|_| not())?,
    };
    let fits = if dtype == DType::BOOL { value == 0 || value == 1 } else { dtype.has_integer(value) };
    match (fits, i64::try_from(value)) {
        (false, _) => Err(not()),
        (true, Ok(value)) => Ok(Elem::int(value)),
        (true, Err(_)) => Err(format!("`{number}` is above 2^63 - 1, the largest number that can be given")),
    }
}

/// Returns the shape of nested brackets, and the numbers in them; `None` if they do not form a tensor.
fn in_brackets(text: &str) -> Option<(Vec<i64>, Vec<&str>)> {
    let (mut shape, mut numbers): (Vec<Option<i64>>, Vec<&str>) = (Vec::new(), Vec::new());
    let (mut counts, mut depth, mut innermost, mut rest): (Vec<i64>, usize, usize, &str) =
        (Vec::new(), 0, usize::MAX, text);
    while let Some(first) = rest.chars().next() {
        let len = match first {
            '[' | ']' => 1,
            ',' | ' ' | '\t' | '\n' => {
                rest = &rest[1..];
                continue;
            }
            _ => rest.find(['[', ']', ',', ' ', '\t', '\n']).unwrap_or(rest.len()),
        };
        let (token, others) = rest.split_at(len);
        rest = others;
        match token {
            "[" => {
                counts.push(0);
                depth = depth.max(counts.len());
                continue;
            }
            "]" => {
                let (n, at) = (counts.pop()?, counts.len());
                shape.resize(shape.len().max(at + 1), None);
                if shape[at].replace(n).is_some_and(|old| old != n) {
                    return None;
                }
            }
            number => {
                numbers.push(number);
                innermost = innermost.min(counts.len());
            }
        }
        if let Some(outer) = counts.last_mut() {
            *outer += 1;
        }
    }
    let shape: Vec<i64> = shape.into_iter().map(|n| n.unwrap_or(0)).collect();
    // All numbers are in the innermost brackets.
    (counts.is_empty() && shape.len() == depth && innermost >= depth).then_some((shape, numbers))
}
