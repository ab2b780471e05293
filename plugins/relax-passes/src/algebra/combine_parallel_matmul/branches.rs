//! Determines which products of one tensor with several matrices can be combined.

use super::super::until_stable::Stretches;
use plugin_api::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// The operations that follow each product of a group. Forms with more operations are tried first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Form {
    /// Number of products.
    branches: usize,
    /// Rank of the added bias, if all products have a bias of this rank.
    bias: Option<i32>,
    activation: Option<&'static str>,
}

const ACTIVATIONS: [&str; 4] = ["relax.nn.relu", "relax.nn.gelu", "relax.nn.gelu_tanh", "relax.nn.silu"];

/// Returns the distinct forms of the groups of a function.
pub(super) fn forms(body: &Body) -> Vec<Form> {
    let mut products = Forms::default();
    let mut biased = Forms::default();
    let mut activated: [[Forms; ACTIVATIONS.len()]; 2] = Default::default();
    for value in body.values() {
        if let Some([tensor, _]) = args_of(value, "relax.matmul") {
            products.count(tensor, None, None);
        } else if let Some((tensor, bias)) = biased_product(value) {
            biased.count(tensor, Some(bias), None);
        }
        for (at, activation) in ACTIVATIONS.into_iter().enumerate() {
            let Some(inner) = value.as_call_to(activation).and_then(|call| call.arg(0)) else { continue };
            if let Some((tensor, bias)) = biased_product(inner) {
                activated[0][at].count(tensor, Some(bias), Some(activation));
            } else if let Some([tensor, _]) = args_of(inner, "relax.matmul") {
                activated[1][at].count(tensor, None, Some(activation));
            }
        }
    }
    // If the products of one tensor have different activations, the first activation counts.
    let mut first = Forms::default();
    for (tensor, form) in activated.into_iter().flatten().flat_map(|forms| forms.of) {
        first.of.entry(tensor).or_insert(form);
    }
    for (tensor, form) in &mut products.of {
        let mut others = [&biased, &first].into_iter().filter_map(|forms| forms.of.get(tensor).copied());
        *form = others.rfind(|other| other.branches == form.branches).unwrap_or(*form);
    }
    let all = [products, first, biased].into_iter().flat_map(|forms| forms.of.into_values());
    let forms: BTreeSet<Form> = all.filter(|form| form.branches > 1).collect();
    forms.into_iter().rev().collect()
}

/// The forms of each multiplied tensor.
#[derive(Default)]
struct Forms {
    of: BTreeMap<u32, Form>,
}

impl Forms {
    fn count(&mut self, tensor: Value<'_>, bias: Option<i32>, activation: Option<&'static str>) {
        let form = self.of.entry(tensor.word()).or_insert(Form { branches: 0, bias, activation });
        form.branches += 1;
        form.bias = form.bias.filter(|known| Some(*known) == bias);
    }
}

/// Returns the multiplied tensor and the rank of the bias, if a bias is added to a product. As in TVM, the bias may be
/// on either side, but only a bias on the right is combined.
fn biased_product(value: Value<'_>) -> Option<(Value<'_>, i32)> {
    let [a, b] = args_of(value, "relax.add")?;
    let (product, bias) = if a.as_call_to("relax.matmul").is_some() { (a, b) } else { (b, a) };
    let [tensor, _] = args_of(product, "relax.matmul")?;
    Some((tensor, bias.ty().ndim()))
}

/// Returns the arguments of a call of a binary operator.
fn args_of<'b>(value: Value<'b>, op: &str) -> Option<[Value<'b>; 2]> {
    let call = value.as_call_to(op)?;
    Some([call.arg(0)?, call.arg(1)?])
}

/// One of the products of a tensor, with the operations that follow it.
#[derive(Clone)]
pub(super) struct Branch<'b> {
    pub(super) product: Value<'b>,
    pub(super) matrix: Value<'b>,
    pub(super) bias: Option<Value<'b>>,
    /// The last value of the branch, which is replaced.
    root: Value<'b>,
}

/// Products that are combined into one.
pub(super) struct Combined<'b> {
    pub(super) tensor: Value<'b>,
    pub(super) branches: Vec<Branch<'b>>,
    pub(super) activation: Option<&'static str>,
}

impl<'b> Combined<'b> {
    pub(super) fn roots(&self) -> impl Iterator<Item = Value<'b>> {
        self.branches.iter().map(|branch| branch.root)
    }

    /// Returns the operands of the combined product.
    pub(super) fn operands(&self) -> impl Iterator<Item = Value<'b>> {
        let of_branches = self.branches.iter().flat_map(|branch| [Some(branch.matrix), branch.bias]);
        std::iter::once(self.tensor).chain(of_branches.flatten())
    }

    /// Returns true if all operands precede all roots, so that the combined product can be placed between them.
    pub(super) fn operands_are_first(&self) -> bool {
        let last = self.operands().map(Value::word).max();
        last < self.roots().map(Value::word).min()
    }

    /// Returns the positions at which the combined product is split.
    pub(super) fn cuts(&self) -> Vec<i64> {
        let widths = self.branches.iter().filter_map(|branch| dims(branch.matrix)?.last()?.as_int());
        let ends = widths.scan(0, |end, width| {
            *end += width;
            Some(*end)
        });
        ends.take(self.branches.len() - 1).collect()
    }
}

/// Returns the groups of one form that can be combined. Each group is within one stretch of bindings.
pub(super) fn combinations(body: &Body, form: Form) -> Vec<Combined<'_>> {
    let (stretches, users) = (Stretches::of(body), body.users());
    let mut groups: BTreeMap<_, (Value<'_>, Vec<Branch<'_>>)> = BTreeMap::new();
    for product in body.bindings() {
        let Some([tensor, matrix]) = args_of(product, "relax.matmul") else { continue };
        let followed_by = |value: Value<'_>, op: &str| {
            let is_first = |user: &Value<'_>| user.as_call_to(op).and_then(|call| call.arg(0)) == Some(value);
            let mut next = users.each(value).filter(is_first);
            next.find(|user| user.is_binding() && stretches.at(*user) == stretches.at(product)).map(|user| user.word())
        };
        let next = |value: Value<'_>, op: &str| followed_by(value, op).map(|word| Value::of_word(body, word));
        let mut branch = Branch { product, matrix, bias: None, root: product };
        if form.bias.is_some() {
            let Some(sum) = next(branch.root, "relax.add") else { continue };
            branch.bias = sum.as_call().and_then(|call| call.arg(1));
            branch.root = sum;
        }
        if let Some(activation) = form.activation {
            let Some(active) = next(branch.root, activation) else { continue };
            branch.root = active;
        }
        if [Some(tensor), Some(matrix), branch.bias].into_iter().flatten().all(Value::is_bound) {
            let key = (stretches.at(product), tensor.word());
            groups.entry(key).or_insert((tensor, Vec::new())).1.push(branch);
        }
    }
    let of_one_form = groups.values().flat_map(|(tensor, group)| {
        group.chunks_exact(form.branches).flat_map(|branches| combined(*tensor, branches, form))
    });
    of_one_form.collect()
}

/// Returns the parts of a group that can be combined. Each part consists of matrices of one rank and one batch.
fn combined<'b>(tensor: Value<'b>, group: &[Branch<'b>], form: Form) -> Vec<Combined<'b>> {
    let mut words: Vec<u32> =
        group.iter().flat_map(|branch| [Some(branch.matrix), branch.bias]).flatten().map(Value::word).collect();
    words.push(tensor.word());
    words.sort_unstable();
    let all_known =
        group.iter().all(|branch| dims(branch.matrix).is_some() && branch.bias.is_none_or(|bias| dims(bias).is_some()));
    if !all_known || words.windows(2).any(|pair| pair[0] == pair[1]) {
        return Vec::new();
    }
    let mut of_rank: BTreeMap<i32, Vec<Branch<'b>>> = BTreeMap::new();
    for branch in group {
        of_rank.entry(branch.matrix.ty().ndim()).or_default().push(branch.clone());
    }
    let combined = of_rank.into_iter().filter(|(rank, _)| *rank >= 2).filter_map(|(_, branches)| {
        let branches = of_one_product(branches)?;
        Some(Combined { tensor, branches, activation: form.activation })
    });
    combined.collect()
}

/// Returns the branches that can be combined, branches of known width first. Only the last width may be unknown,
/// because the split positions must be known.
fn of_one_product(mut branches: Vec<Branch<'_>>) -> Option<Vec<Branch<'_>>> {
    let matrices: Vec<Vec<Dim>> = branches.iter().filter_map(|branch| dims(branch.matrix)).collect();
    if !same_but_last(&matrices, 2) {
        return None;
    }
    let width = |branch: &Branch<'_>| dims(branch.matrix).and_then(|mut dims| dims.pop());
    let is_unknown = |branch: &Branch<'_>| width(branch).and_then(|width| width.as_int()).is_none();
    branches.sort_by_key(is_unknown);
    let unknown = branches.iter().position(is_unknown);
    branches.truncate(unknown.map_or(branches.len(), |at| at + 1));
    let dtype = branches.first()?.product.ty().dtype();
    let biases: Vec<Vec<Dim>> = branches.iter().filter_map(|branch| dims(branch.bias?)).collect();
    let one_dtype = branches.iter().all(|branch| branch.product.ty().dtype() == dtype);
    let whole = branches.iter().zip(&biases).all(|(branch, bias)| width(branch).as_ref() == bias.last());
    (branches.len() > 1 && one_dtype && whole && same_but_last(&biases, 1)).then_some(branches)
}

/// Returns true if shapes have the same rank and agree in all but the last `n` dimensions.
fn same_but_last(shapes: &[Vec<Dim>], n: usize) -> bool {
    let Some(first) = shapes.first() else { return true };
    let mut analyzer = Analyzer::new();
    shapes.iter().all(|shape| {
        let mut pairs = shape.iter().zip(first).take(first.len().saturating_sub(n));
        shape.len() == first.len() && pairs.all(|(a, b)| analyzer.prove_equal(a, b) == Some(true))
    })
}

fn dims(value: Value<'_>) -> Option<Vec<Dim>> {
    value.ty().dims().map(Iterator::collect)
}
