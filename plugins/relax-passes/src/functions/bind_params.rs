//! Replaces parameters by constants.

use plugin_api::names::{did_you_mean, nearest};
use plugin_api::prelude::*;
use plugin_api::typing::infer_types::infer_types;
use std::collections::{BTreeMap, BTreeSet};

declare_pass! {
    /// Replaces parameters of a function by constants.
    ///
    /// Expects any module. Other parameters are kept. Naming a parameter that the function does not have is an error,
    /// and so is a value that does not fit the parameter's type. With `params=["w=2.5"]`, the function below has the
    /// one parameter `x` and multiplies it by 2.5; without options, it does not change.
    ///
    /// ```relax before
    /// @R.function
    /// def main(x: R.Tensor((2, 3), "float32"), w: R.Tensor((), "float32")):
    ///     y = R.multiply(x, w)
    ///     return y
    /// ```
    /// ```relax after
    /// @R.function
    /// def main(x: R.Tensor((2, 3), "float32"), w: R.Tensor((), "float32")):
    ///     y = R.multiply(x, w)
    ///     return y
    /// ```
    pub module pass BIND_PARAMS = "relax.BindParams" {
        opt_level: 0,
        preserves: [keeps_form],
        options: Options {
            /// The function.
            func_name: String = "main",
            /// The parameters, each with its value, such as `w=[[1, 2], [3, 4]]`.
            params: Vec<String> = [],
        },
        tolerance: Tolerance::Signature,
        run: bind_params,
    }
}

fn bind_params(module: &Module, options: &Options, ctx: &Ctx) -> Result<Module, PassError> {
    if module.get(&options.func_name).and_then(Body::function).is_none() {
        let near = nearest(&options.func_name, module.functions().map(|(name, _)| name));
        bail!(
            option "`func_name` is `{}`, which is not a Relax function of the module{}",
            options.func_name,
            did_you_mean(&near)
        );
    }
    ctx.statistic("parameters bound", options.params.len());
    module.map_functions(|name, body| match name == options.func_name && !options.params.is_empty() {
        true => bind(body, &options.params, ctx).map_err(|error| error.in_function(name)),
        false => Ok(body.clone()),
    })
}

/// Replaces parameters by constants. The symbolic variables of their shapes are bound as well.
fn bind(body: &Body, entries: &[String], ctx: &Ctx) -> Result<Body, PassError> {
    let params: Vec<Value<'_>> = body.function().into_iter().flat_map(Function::params).collect();
    let (mut edit, mut dims, mut bound) = (body.edit(), BTreeMap::new(), BTreeSet::new());
    for entry in entries {
        let Some((name, text)) = entry.split_once('=').map(|(name, text)| (name.trim(), text)) else {
            bail!(option "`params` contains `{entry}`; expected a parameter and its value, such as `w=[1, 2]`");
        };
        let Some(param) = params.iter().find(|param| param.name() == Some(name)) else {
            let near = nearest(name, params.iter().filter_map(|param| param.name()));
            bail!(option "`params` names `{name}`, which is not a parameter{}", did_you_mean(&near));
        };
        if !bound.insert(name) {
            bail!(option "`params` gives two values for `{name}`; remove one of them");
        }
        let array = constant(*param, text, &mut dims).map_err(|error| error.at(*param).of_option())?;
        let constant = edit.array(&array);
        edit.replace(*param, constant);
    }
    let with_constants = edit.finish()?.substitute_symbols(&|sym| dims.get(&sym).map(|dim| Dim::Int(*dim)))?;
    infer_types(&with_constants, ctx)
}

/// Parses the value of a parameter, and adds the values of its symbolic dimensions to `dims`.
fn constant(param: Value<'_>, text: &str, dims: &mut BTreeMap<Sym, i64>) -> Result<Array, PassError> {
    let mut numbers = Numbers { rest: text.trim(), shape: Vec::new(), values: Vec::new() };
    numbers.read(0)?;
    if !numbers.rest.is_empty() {
        bail!("the value ends before `{}`; write numbers in brackets, such as `[[1, 2], [3, 4]]`", numbers.rest);
    }
    let ty = param.ty().to_owned();
    let Some(tensor) = ty.as_tensor() else { bail!("the parameter is not a tensor; only tensors can be bound") };
    let wanted = tensor.shape.clone().unwrap_or_default();
    if tensor.ndim >= 0 && tensor.ndim as usize != numbers.shape.len() {
        bail!("the value has {} dimensions, but the parameter has {}", numbers.shape.len(), tensor.ndim);
    }
    for (found, wanted) in numbers.shape.iter().zip(&wanted) {
        let known = match wanted {
            Dim::Var(sym) => Some(*dims.entry(*sym).or_insert(*found)),
            other => other.as_int(),
        };
        if known.is_some_and(|known| known != *found) {
            bail!("the value has a dimension of {found}, but the parameter has {}", known.unwrap_or_default());
        }
    }
    let dtype = if tensor.dtype.is_known() { tensor.dtype } else { DType::F32 };
    if let Some(value) = numbers.values.iter().find(|value| !fits(**value, dtype)) {
        bail!("the elements of the parameter are {dtype}, which cannot represent {value}");
    }
    Ok(Array::new(&numbers.shape, numbers.values)?.cast(dtype)?)
}

/// Returns true if a data type can represent a number, which is rounded if the type is a float.
fn fits(value: f64, dtype: DType) -> bool {
    // Beyond this, an f64 does not represent every integer exactly.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    match dtype.is_int() || dtype == DType::BOOL {
        true => value.fract() == 0.0 && value.abs() <= EXACT && dtype.has_integer(value as i128),
        false => dtype.has_float(value),
    }
}

/// Reads numbers in brackets, such as `[[1, 2], [3, 4]]`.
struct Numbers<'t> {
    rest: &'t str,
    /// Number of items at each nesting depth.
    shape: Vec<i64>,
    values: Vec<f64>,
}

impl Numbers<'_> {
    fn read(&mut self, depth: usize) -> Result<(), PassError> {
        if !self.takes('[') {
            let end = self.rest.find([',', ']']).unwrap_or(self.rest.len());
            let (number, rest) = self.rest.split_at(end);
            let Ok(number) = number.trim().parse() else { bail!("`{}` is not a number", number.trim()) };
            (self.rest, _) = (rest, self.values.push(number));
            return Ok(());
        }
        let mut items = 0;
        while !self.takes(']') {
            if items > 0 && !self.takes(',') {
                bail!("expected `,` or `]` before `{}`", self.rest);
            }
            let known = self.shape.len();
            if known == depth {
                self.shape.push(0);
            }
            self.read(depth + 1)?;
            items += 1;
        }
        match self.shape.get_mut(depth) {
            Some(before) if *before == 0 => *before = items,
            Some(before) if *before != items => {
                bail!("lists at one depth have different lengths, {before} and {items}")
            }
            Some(_) => {}
            None => self.shape.push(items),
        }
        Ok(())
    }

    /// Consumes one character if it comes next.
    fn takes(&mut self, wanted: char) -> bool {
        let rest = self.rest.trim_start().strip_prefix(wanted);
        if let Some(rest) = rest {
            self.rest = rest.trim_start();
        }
        rest.is_some()
    }
}
