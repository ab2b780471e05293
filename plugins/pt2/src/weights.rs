//! Weights and constants: their data, which is in entries of the archive.

use crate::archive::Archive;
use crate::args::Meta;
use crate::json::{field, text};
use importer::known::{Known, MOST, count};
use importer::tensor::{Res, T};
use plugin_api::prelude::*;
use serde_json::Value;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Maximum size of a weight that is copied because of its strides, as a multiple of the size of its storage.
const EXPANSION: usize = 64;

/// The descriptions of the weights or constants of a model, by name.
pub(crate) struct Weights {
    folder: &'static str,
    config: Option<Value>,
}

/// A tensor of the model that has data: a weight, a buffer or a constant.
pub(crate) struct Wanted<'n> {
    /// The name of the value in the graph.
    pub(crate) value: &'n str,
    /// The name in the model, such as `layer.weight`.
    pub(crate) name: &'n str,
    /// True if it is part of the model's state, and false if it is a constant.
    pub(crate) is_weight: bool,
}

impl Weights {
    /// Reads the descriptions of a model, from the first entry of `names` that exists.
    pub(crate) fn of(archive: &Archive, folder: &'static str, names: &[String]) -> Res<Weights> {
        let Some(name) = names.iter().find(|name| archive.has(&format!("data/{folder}/{name}"))) else {
            return Ok(Weights { folder, config: None });
        };
        let config = serde_json::from_str(&archive.text(&format!("data/{folder}/{name}"))?);
        let config: Value = config.map_err(|error| format!("the entry `{name}` is not valid JSON: {error}"))?;
        Ok(Weights { folder, config: Some(config) })
    }

    /// Returns the entry that contains the data of a tensor, and its type; `None` if there is no such tensor.
    fn find<'w>(&'w self, name: &str) -> Res<Option<(String, Meta<'w>)>> {
        let Some(config) = &self.config else { return Ok(None) };
        let Some(described) = field(config, "config")?.get(name) else { return Ok(None) };
        let path = text(described, "path_name")?;
        if path.is_empty() || path.contains(['/', '\\', '\0']) || path.starts_with('.') {
            return Err(format!("its data is in `{path}`, which is not the name of an entry"));
        }
        if described.get("use_pickle").and_then(Value::as_bool).unwrap_or(false) {
            return Err("its data is a pickled object, which is not supported".to_string());
        }
        if path.starts_with("custom_obj") {
            return Err("it is a custom object, which is not supported".to_string());
        }
        Ok(Some((format!("data/{}/{path}", self.folder), Meta::of(field(described, "tensor_meta")?)?)))
    }
}

/// The data of a tensor before its hash is computed.
struct Data<'a> {
    bytes: Cow<'a, [u8]>,
    dtype: DType,
    shape: Vec<i64>,
}

/// Reads the tensors of a model as constants, and hashes their data on several threads. Data of contiguous tensors stays in the
/// archive.
pub(crate) fn read(archive: &Archive, weights: &Weights, constants: &Weights, wanted: &[Wanted<'_>]) -> Res<Vec<T>> {
    let mut storages: BTreeMap<String, Cow<'_, [u8]>> = BTreeMap::new();
    let mut found = Vec::new();
    for tensor in wanted {
        let of = |why: String| format!("{}: {why}", described(tensor));
        let order = if tensor.is_weight { [weights, constants] } else { [constants, weights] };
        let place = match order[0].find(tensor.name).map_err(of)? {
            Some(place) => Some(place),
            None => order[1].find(tensor.name).map_err(of)?,
        };
        let (entry, meta) = place.ok_or_else(|| of("the archive does not contain its data".to_string()))?;
        if !storages.contains_key(&entry) {
            storages.insert(entry.clone(), archive.content(&entry).map_err(of)?);
        }
        found.push((entry, meta));
    }
    let mut data = Vec::with_capacity(found.len());
    for (tensor, (entry, meta)) in wanted.iter().zip(&found) {
        let storage = storages.get(entry).map_or(&[][..], |storage| storage);
        data.push(part(storage, meta).map_err(|why| format!("{}: {why}", described(tensor)))?);
    }
    let contents = Tensor::of_parts(&data.iter().map(|data| &data.bytes).collect::<Vec<_>>());
    Ok(data.iter().zip(contents).map(|(data, content)| constant(data, content)).collect())
}

fn described(tensor: &Wanted<'_>) -> String {
    format!("{} `{}`", if tensor.is_weight { "weight" } else { "constant" }, tensor.name)
}

/// Returns the constant with this content.
fn constant(data: &Data<'_>, content: Tensor) -> T {
    let few = count(&data.shape).is_some_and(|n| n <= MOST) && !matches!(data.dtype, DType::F16 | DType::BF16);
    let array = if few { Array::of(content.clone(), data.dtype, &data.shape).ok() } else { None };
    let known = array.as_ref().and_then(Known::of_array);
    T::data(&data.shape, data.dtype, content, known)
}

/// Returns the elements of a tensor in row-major order. Only tensors with other strides are copied.
fn part<'a>(storage: &'a [u8], meta: &Meta<'_>) -> Res<Data<'a>> {
    let (shape, dtype) = (meta.shape()?, meta.dtype);
    let (strides, offset) = (meta.strides()?, meta.offset()?);
    let size = dtype.bytes();
    if strides.len() != shape.len() {
        return Err(format!("it has {} strides for {} dimensions", strides.len(), shape.len()));
    }
    let wanted = count(&shape).and_then(|n| n.checked_mul(size));
    let wanted = wanted.ok_or_else(|| format!("no tensor has the shape {shape:?}"))?;
    if wanted == 0 {
        return Ok(Data { bytes: Cow::Borrowed(&[]), dtype, shape });
    }
    // The position after the last element.
    let last =
        shape.iter().zip(&strides).try_fold(offset, |at, (n, stride)| (n - 1).checked_mul(*stride)?.checked_add(at));
    let end = last.and_then(|last| usize::try_from(last).ok()?.checked_add(1)?.checked_mul(size));
    if end.is_none_or(|end| end > storage.len()) {
        return Err(format!(
            "a tensor of shape {shape:?}, strides {strides:?}, offset {offset} and type {dtype} does not lie within its {} bytes",
            storage.len()
        ));
    }
    let start = usize::try_from(offset).map_err(|_| "its offset is negative")? * size;
    if is_contiguous(&shape, &strides) {
        return Ok(Data { bytes: Cow::Borrowed(&storage[start..start + wanted]), dtype, shape });
    }
    if wanted / EXPANSION > storage.len() {
        return Err(format!(
            "a tensor of {wanted} bytes repeats a storage of {} bytes; store a contiguous copy",
            storage.len()
        ));
    }
    Ok(Data { bytes: Cow::Owned(gathered(storage, start, &shape, &strides, size)), dtype, shape })
}

fn is_contiguous(shape: &[i64], strides: &[i64]) -> bool {
    let mut step = 1;
    shape.iter().zip(strides).rev().all(|(n, stride)| {
        let fits = *n == 1 || *stride == step;
        step *= n;
        fits
    })
}

/// Copies elements to row-major order. All of them lie within the storage.
fn gathered(storage: &[u8], start: usize, shape: &[i64], strides: &[i64], size: usize) -> Vec<u8> {
    let mut starts = vec![start];
    for (n, stride) in shape.iter().zip(strides) {
        let step = *stride as usize * size;
        starts = starts.iter().flat_map(|at| (0..*n as usize).map(move |i| at + i * step)).collect();
    }
    starts.iter().flat_map(|at| storage[*at..at + size].iter().copied()).collect()
}
