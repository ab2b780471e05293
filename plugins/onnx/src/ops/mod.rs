//! The operators of ONNX: a table of the functions that build them, by domain, name and version. Each group of
//! operators has its own file.

mod attention;
mod control;
mod conv;
mod create;
mod elementwise;
mod extra;
mod image;
mod index;
mod microsoft;
mod norm;
mod pool;
mod quant;
mod reduce;
mod rnn;
mod shape;

pub(crate) use control::stacked;

use crate::cx::Cx;
use crate::node::Node;
use crate::value::{Item, Res, T};
use plugin_api::names::{did_you_mean, nearest};
use std::collections::HashMap;
use std::sync::OnceLock;

/// The domain of Microsoft's operators.
pub(crate) const MS: &str = "com.microsoft";

/// An operator, and the first version to which the row applies.
pub(crate) struct Row {
    domain: &'static str,
    name: &'static str,
    since: i64,
    pub(crate) run: Run,
    pub(crate) narrow: Narrow,
}

/// How an operator treats tensors of narrow types, whose bytes are stored as numbers of another type.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Narrow {
    /// The operator computes with numbers, so tensors of narrow types are refused.
    Refuses,
    /// The operator converts tensors of narrow types itself.
    Converts,
    /// The operator moves the elements of its first input, which keep their type.
    Moves,
    /// The operator moves the elements of all its inputs.
    MovesAll,
}

impl Row {
    const fn converting(self) -> Row {
        Row { narrow: Narrow::Converts, ..self }
    }

    const fn moving(self) -> Row {
        Row { narrow: Narrow::Moves, ..self }
    }

    const fn moving_all(self) -> Row {
        Row { narrow: Narrow::MovesAll, ..self }
    }
}

/// The function that builds an operator with one result, or with several.
#[derive(Clone, Copy)]
pub(crate) enum Run {
    One(for<'a> fn(&mut Cx<'a>, &Node<'a>) -> Res<T>),
    All(for<'a> fn(&mut Cx<'a>, &Node<'a>) -> Res<Vec<Item>>),
}

/// Creates the row of a standard operator with one result.
const fn one(name: &'static str, since: i64, run: for<'a> fn(&mut Cx<'a>, &Node<'a>) -> Res<T>) -> Row {
    Row { domain: "", name, since, run: Run::One(run), narrow: Narrow::Refuses }
}

/// Creates the row of a standard operator with several results.
const fn all(name: &'static str, since: i64, run: for<'a> fn(&mut Cx<'a>, &Node<'a>) -> Res<Vec<Item>>) -> Row {
    Row { domain: "", name, since, run: Run::All(run), narrow: Narrow::Refuses }
}

/// Moves a row to Microsoft's domain.
const fn ms(row: Row) -> Row {
    Row { domain: MS, ..row }
}

const TABLES: [&[Row]; 14] = [
    elementwise::ROWS,
    shape::ROWS,
    index::ROWS,
    reduce::ROWS,
    conv::ROWS,
    pool::ROWS,
    norm::ROWS,
    create::ROWS,
    quant::ROWS,
    image::ROWS,
    rnn::ROWS,
    control::ROWS,
    attention::ROWS,
    extra::ROWS,
];

type Table = HashMap<(&'static str, &'static str), Vec<&'static Row>>;

fn table() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(|| {
        let mut table = Table::new();
        TABLES
            .iter()
            .chain(&microsoft::TABLES)
            .flat_map(|rows| rows.iter())
            .for_each(|row| table.entry((row.domain, row.name)).or_default().push(row));
        table
    })
}

/// Finds the row of an operator by name, for a version of its domain.
pub(crate) fn find(domain: &str, name: &str, version: i64) -> Option<&'static Row> {
    let rows = table().get(&(domain, name))?;
    rows.iter().filter(|row| row.since <= version.max(7)).max_by_key(|row| row.since).copied()
}

/// Returns all operators by domain and name, in order.
#[cfg(test)]
pub(crate) fn names() -> Vec<(&'static str, &'static str)> {
    let mut names: Vec<_> = table().keys().copied().collect();
    names.sort_unstable();
    names
}

/// Returns the reason why an operator is not supported.
pub(crate) fn refusal(domain: &str, name: &str, version: i64) -> String {
    const RANDOM: &[&str] =
        &["Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"];
    if domain == "ai.onnx.ml" {
        return "classical machine learning operators are not supported; run this part of the model separately"
            .to_string();
    }
    if domain.starts_with("ai.onnx.preview.training") {
        return "training operators are not supported; export the model for inference".to_string();
    }
    if domain.is_empty() && RANDOM.contains(&name) {
        return "random-number operators are not supported, because their results differ in each run; pass the numbers as a model input".to_string();
    }
    if name.contains("String") || matches!(name, "RegexFullMatch" | "TfIdfVectorizer" | "LabelEncoder") {
        return "string operators are not supported; run this part of the model separately".to_string();
    }
    if let Some(since) = table().get(&(domain, name)).and_then(|rows| rows.iter().map(|row| row.since).min()) {
        return format!(
            "this operator is supported from version {since}, not in version {version}; convert the model with \
             onnx.version_converter"
        );
    }
    let known = table().keys().filter(|(of, _)| *of == domain).map(|(_, name)| *name);
    format!(
        "this operator is not supported{}; `allow_unknown` keeps it as a call, so that passes can run",
        did_you_mean(&nearest(name, known))
    )
}

/// Creates windows from lists, for an operator that this plugin declares.
pub(crate) fn windows_of(
    kernel: Vec<i64>,
    strides: Vec<i64>,
    dilations: Vec<i64>,
    pads: Vec<i64>,
) -> importer::windows::Windows {
    importer::windows::Windows { kernel, strides, dilations, pads }
}
