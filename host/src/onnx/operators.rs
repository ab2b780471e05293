//! The counterpart of each operator in ONNX.

use super::graph::{Given, Writer, float, int, ints, no_counterpart};
use passhost_lang::ir::{Call, Type};

type Write = fn(&mut Writer, Call<'_>) -> Result<Given, String>;

/// Operators with one argument and no relevant attributes.
const UNARY: [(&str, &str); 14] = [
    ("relax.nn.relu", "Relu"),
    ("relax.sigmoid", "Sigmoid"),
    ("relax.tanh", "Tanh"),
    ("relax.exp", "Exp"),
    ("relax.log", "Log"),
    ("relax.sqrt", "Sqrt"),
    ("relax.abs", "Abs"),
    ("relax.negative", "Neg"),
    ("relax.erf", "Erf"),
    ("relax.floor", "Floor"),
    ("relax.ceil", "Ceil"),
    ("relax.sin", "Sin"),
    ("relax.cos", "Cos"),
    ("relax.nn.gelu", "Gelu"),
];

/// Operators of two arguments.
const BINARY: [(&str, &str); 7] = [
    ("relax.add", "Add"),
    ("relax.subtract", "Sub"),
    ("relax.multiply", "Mul"),
    ("relax.divide", "Div"),
    ("relax.power", "Pow"),
    ("relax.maximum", "Max"),
    ("relax.minimum", "Min"),
];

/// Operators that need a conversion function of their own.
const OTHERS: [(&str, Write); 25] = [
    ("relax.nn.conv1d", |w, call| conv(w, call, 1)),
    ("relax.nn.conv2d", |w, call| conv(w, call, 2)),
    ("relax.nn.conv3d", |w, call| conv(w, call, 3)),
    ("relax.nn.max_pool1d", |w, call| pool(w, call, "MaxPool", 1)),
    ("relax.nn.max_pool2d", |w, call| pool(w, call, "MaxPool", 2)),
    ("relax.nn.max_pool3d", |w, call| pool(w, call, "MaxPool", 3)),
    ("relax.nn.avg_pool1d", |w, call| pool(w, call, "AveragePool", 1)),
    ("relax.nn.avg_pool2d", |w, call| pool(w, call, "AveragePool", 2)),
    ("relax.nn.avg_pool3d", |w, call| pool(w, call, "AveragePool", 3)),
    ("relax.nn.batch_norm", batch_norm),
    ("relax.nn.dropout", dropout),
    ("relax.nn.softmax", |w, call| along_axis(w, call, "Softmax")),
    ("relax.nn.log_softmax", |w, call| along_axis(w, call, "LogSoftmax")),
    ("relax.matmul", matmul),
    ("relax.sum", |w, call| reduce(w, call, "ReduceSum")),
    ("relax.mean", |w, call| reduce(w, call, "ReduceMean")),
    ("relax.max", |w, call| reduce(w, call, "ReduceMax")),
    ("relax.min", |w, call| reduce(w, call, "ReduceMin")),
    ("relax.reshape", |w, call| shaped(w, call, "Reshape")),
    ("relax.broadcast_to", |w, call| shaped(w, call, "Expand")),
    ("relax.expand_dims", |w, call| with_axes(w, call, "Unsqueeze")),
    ("relax.squeeze", |w, call| with_axes(w, call, "Squeeze")),
    ("relax.permute_dims", permute_dims),
    ("relax.concat", concat),
    ("relax.stack", stack),
];

/// Returns the names, without `relax.`, of the operators that have a counterpart.
pub(crate) fn known() -> Vec<&'static str> {
    let simple = UNARY.iter().chain(&BINARY).map(|(name, _)| *name);
    let mut all: Vec<&str> = simple.chain(OTHERS.iter().map(|(name, _)| *name)).collect();
    all.sort_unstable();
    all.iter().map(|name| name.trim_start_matches("relax.")).collect()
}

/// Writes a call of an operator.
pub(super) fn write(writer: &mut Writer, call: Call<'_>) -> Result<Given, String> {
    let Some(op) = call.op() else {
        let what = call.global().map_or("a call of a value".to_string(), |name| format!("a call of `{name}`"));
        return Err(no_counterpart(&what));
    };
    let simple = |table: &'static [(&str, &str)]| table.iter().find(|(name, _)| *name == op).map(|(_, onnx)| *onnx);
    if let Some(onnx) = simple(&UNARY) {
        let input = vec![writer.tensor(call, 0)?];
        return Ok(Given::Tensor(writer.node(onnx, input, Vec::new())));
    }
    if let Some(onnx) = simple(&BINARY) {
        let input = vec![writer.tensor(call, 0)?, writer.tensor(call, 1)?];
        return Ok(Given::Tensor(writer.node(onnx, input, Vec::new())));
    }
    match OTHERS.iter().find(|(name, _)| *name == op) {
        Some((_, write)) => write(writer, call),
        None => Err(no_counterpart(&shown(call))),
    }
}

/// Returns the operator as it is written in TVMScript.
fn shown(call: Call<'_>) -> String {
    call.op().unwrap_or_default().replacen("relax.", "R.", 1)
}

/// Returns the error for an attribute without a counterpart.
fn refused<T>(call: Call<'_>, what: &str) -> Result<T, String> {
    Err(no_counterpart(&format!("{} with {what}", shown(call))))
}

fn int_of(call: Call<'_>, key: &str) -> Option<i64> {
    call.attr(key)?.as_int()
}

fn flag_of(call: Call<'_>, key: &str) -> bool {
    int_of(call, key).is_some_and(|value| value != 0)
}

/// Returns a list of `n` integers; a single integer is repeated.
fn list(call: Call<'_>, key: &str, n: usize) -> Result<Vec<i64>, String> {
    match call.attr(key).and_then(|attr| attr.as_ints()) {
        Some(values) if values.len() == n => Ok(values),
        Some(values) if values.len() == 1 => Ok(vec![values[0]; n]),
        _ => refused(call, &format!("this `{key}`")),
    }
}

/// Returns the padding before each axis, followed by the padding after each axis.
fn pads(call: Call<'_>, n: usize) -> Result<Vec<i64>, String> {
    match call.attr("padding").and_then(|attr| attr.as_ints()) {
        Some(values) if values.len() == n => Ok([values.clone(), values].concat()),
        _ => list(call, "padding", 2 * n),
    }
}

/// Checks that the layout is that of ONNX: batch (or output channels), then channels, then spatial axes.
fn check_layout(call: Call<'_>, keys: &[(&str, &str)], n: usize) -> Result<(), String> {
    for (key, first) in keys {
        let wanted = format!("{first}{}", &"DHW"[3 - n..]);
        let layout = call.attr(key).and_then(|attr| attr.as_str()).unwrap_or_default();
        if layout != wanted && !(layout.is_empty() && *key == "out_layout") {
            return refused(call, &format!("{key}={layout:?}"));
        }
    }
    Ok(())
}

/// Checks that the result has the data type of the arguments.
fn check_dtype(call: Call<'_>) -> Result<(), String> {
    let of_argument = call.arg(0).map(|arg| arg.ty().dtype());
    match of_argument == Some(call.ty().dtype()) {
        true => Ok(()),
        false => refused(call, "a different data type of the result"),
    }
}

fn conv(writer: &mut Writer, call: Call<'_>, n: usize) -> Result<Given, String> {
    check_layout(call, &[("data_layout", "NC"), ("kernel_layout", "OI"), ("out_layout", "NC")], n)?;
    check_dtype(call)?;
    let attributes = vec![
        ints("strides", list(call, "strides", n)?),
        ints("pads", pads(call, n)?),
        ints("dilations", list(call, "dilation", n)?),
        int("group", int_of(call, "groups").unwrap_or(1)),
    ];
    let input = vec![writer.tensor(call, 0)?, writer.tensor(call, 1)?];
    Ok(Given::Tensor(writer.node("Conv", input, attributes)))
}

fn pool(writer: &mut Writer, call: Call<'_>, op: &str, n: usize) -> Result<Given, String> {
    check_layout(call, &[("layout", "NC"), ("out_layout", "NC")], n)?;
    let mut attributes = vec![
        ints("kernel_shape", list(call, "pool_size", n)?),
        ints("strides", list(call, "strides", n)?),
        ints("pads", pads(call, n)?),
        ints("dilations", list(call, "dilation", n)?),
        int("ceil_mode", flag_of(call, "ceil_mode").into()),
    ];
    if op == "AveragePool" {
        attributes.push(int("count_include_pad", flag_of(call, "count_include_pad").into()));
    }
    let input = vec![writer.tensor(call, 0)?];
    Ok(Given::Tensor(writer.node(op, input, attributes)))
}

/// Writes a batch normalization. Except in training, the moving mean and variance are those of the arguments.
fn batch_norm(writer: &mut Writer, call: Call<'_>) -> Result<Given, String> {
    if int_of(call, "axis") != Some(1) {
        return refused(call, "an axis other than 1");
    }
    if let Some(key) = ["center", "scale"].into_iter().find(|key| !flag_of(call, key)) {
        return refused(call, &format!("{key}=False"));
    }
    if flag_of(call, "training") {
        return refused(call, "training=True");
    }
    let input = (0..5).map(|i| writer.tensor(call, i)).collect::<Result<Vec<String>, String>>()?;
    let moving = [input[3].clone(), input[4].clone()].map(Given::Tensor);
    let epsilon = call.attr("epsilon").and_then(|attr| attr.as_float()).unwrap_or(1e-5);
    let out = writer.node("BatchNormalization", input, vec![float("epsilon", epsilon)]);
    Ok(Given::Tuple([Given::Tensor(out)].into_iter().chain(moving).collect()))
}

fn dropout(writer: &mut Writer, call: Call<'_>) -> Result<Given, String> {
    let input = vec![writer.tensor(call, 0)?];
    let out = writer.node("Identity", input, Vec::new());
    Ok(Given::Tuple(vec![Given::Tensor(out), Given::Nothing("the mask of R.nn.dropout")]))
}

fn along_axis(writer: &mut Writer, call: Call<'_>, op: &str) -> Result<Given, String> {
    let input = vec![writer.tensor(call, 0)?];
    let axis = int_of(call, "axis").unwrap_or(-1);
    Ok(Given::Tensor(writer.node(op, input, vec![int("axis", axis)])))
}

fn matmul(writer: &mut Writer, call: Call<'_>) -> Result<Given, String> {
    check_dtype(call)?;
    let input = vec![writer.tensor(call, 0)?, writer.tensor(call, 1)?];
    Ok(Given::Tensor(writer.node("MatMul", input, Vec::new())))
}

/// Returns the first argument, and the axes as a second argument. If the call does not name axes, the second
/// argument is omitted, and the operator applies to all axes.
fn input_and_axes(writer: &mut Writer, call: Call<'_>) -> Result<Vec<String>, String> {
    let mut input = vec![writer.tensor(call, 0)?];
    match call.attr("axis") {
        Some(attr) if !attr.is_none() => match attr.as_ints().or_else(|| attr.as_int().map(|axis| vec![axis])) {
            Some(axes) => input.push(writer.integers(&axes)?),
            None => return refused(call, "this `axis`"),
        },
        _ => {}
    }
    Ok(input)
}

fn reduce(writer: &mut Writer, call: Call<'_>, op: &str) -> Result<Given, String> {
    let input = input_and_axes(writer, call)?;
    let keeps = int("keepdims", flag_of(call, "keepdims").into());
    // Without this attribute, an empty list of axes would mean all axes.
    let none = int("noop_with_empty_axes", (input.len() > 1).into());
    Ok(Given::Tensor(writer.node(op, input, vec![keeps, none])))
}

fn with_axes(writer: &mut Writer, call: Call<'_>, op: &str) -> Result<Given, String> {
    let input = input_and_axes(writer, call)?;
    Ok(Given::Tensor(writer.node(op, input, Vec::new())))
}

/// Writes an operator whose second argument is the shape of its result.
fn shaped(writer: &mut Writer, call: Call<'_>, op: &str) -> Result<Given, String> {
    let shape = match call.ty().to_owned() {
        Type::Tensor(ty) => ty.shape.and_then(|dims| dims.iter().map(|dim| dim.as_int()).collect::<Option<Vec<i64>>>()),
        _ => None,
    };
    let Some(shape) = shape else { return refused(call, "a shape that is not constant") };
    let input = vec![writer.tensor(call, 0)?, writer.integers(&shape)?];
    // A 0 in the shape would mean the extent of the argument.
    let attributes = if op == "Reshape" { vec![int("allowzero", 1)] } else { Vec::new() };
    Ok(Given::Tensor(writer.node(op, input, attributes)))
}

fn permute_dims(writer: &mut Writer, call: Call<'_>) -> Result<Given, String> {
    let input = vec![writer.tensor(call, 0)?];
    let axes = call.attr("axes").filter(|attr| !attr.is_none());
    let attributes = match axes.map(|attr| attr.as_ints()) {
        // By default, both operators reverse the axes.
        None => Vec::new(),
        Some(Some(axes)) => {
            let ndim = axes.len() as i64;
            vec![ints("perm", axes.iter().map(|axis| axis.rem_euclid(ndim)).collect())]
        }
        Some(None) => return refused(call, "these `axes`"),
    };
    Ok(Given::Tensor(writer.node("Transpose", input, attributes)))
}

/// Returns the tensors in the first argument, which is a tuple.
fn fields(writer: &mut Writer, call: Call<'_>) -> Result<Vec<String>, String> {
    let tuple = call.arg(0).map(|arg| writer.given(arg)).transpose()?;
    let Some(Given::Tuple(fields)) = tuple else { return refused(call, "this argument") };
    let name = |field: Given| match field {
        Given::Tensor(name) => Ok(name),
        Given::Nothing(what) => Err(no_counterpart(what)),
        Given::Tuple(_) => refused(call, "a tuple of tuples"),
    };
    fields.into_iter().map(name).collect()
}

fn concat(writer: &mut Writer, call: Call<'_>) -> Result<Given, String> {
    let Some(axis) = int_of(call, "axis") else { return refused(call, "no axis") };
    let input = fields(writer, call)?;
    Ok(Given::Tensor(writer.node("Concat", input, vec![int("axis", axis)])))
}

fn stack(writer: &mut Writer, call: Call<'_>) -> Result<Given, String> {
    let axis = int_of(call, "axis").unwrap_or(0);
    let axes = writer.integers(&[axis])?;
    let fields = fields(writer, call)?;
    let each: Vec<String> =
        fields.into_iter().map(|field| writer.node("Unsqueeze", vec![field, axes.clone()], Vec::new())).collect();
    Ok(Given::Tensor(writer.node("Concat", each, vec![int("axis", axis)])))
}
