//! Losses and attention.

use crate::declare::*;
use crate::type_rules::*;
use plugin_api::arith::prove_equal;
use plugin_api::ir::{Call, TensorType, Type};
use plugin_api::metadata::{ArgKind, AttrType};
use plugin_api::typing::operators::{ArgDecl, AttrDecl, DefaultDecl, OpDecl};

const NLL: &[ArgDecl] = &[
    arg("predictions", ArgKind::Tensor),
    arg("targets", ArgKind::Tensor),
    ArgDecl { name: "weights", kind: ArgKind::Tensor, optional: true },
];
const QKV: &[ArgDecl] = &[arg("query", ArgKind::Tensor), arg("key", ArgKind::Tensor), arg("value", ArgKind::Tensor)];
const QKV_BIAS: &[ArgDecl] = &[
    arg("query", ArgKind::Tensor),
    arg("key", ArgKind::Tensor),
    arg("value", ArgKind::Tensor),
    arg("bias", ArgKind::Tensor),
];
const QKV_VAR_LEN: &[ArgDecl] = &[
    arg("query", ArgKind::Tensor),
    arg("key", ArgKind::Tensor),
    arg("value", ArgKind::Tensor),
    arg("seqstart_q", ArgKind::Tensor),
    arg("seqstart_k", ArgKind::Tensor),
    arg("max_seqlen_q", ArgKind::Tensor),
    arg("max_seqlen_k", ArgKind::Tensor),
];
const ATTENTION: &[AttrDecl] = &[
    attr_or("scale", AttrType::Any, DefaultDecl::None),
    attr_or("causal_mask", AttrType::OptStr, DefaultDecl::None),
    attr_or("window_size", AttrType::OptInt, DefaultDecl::None),
];

pub(crate) const OPERATORS: &[OpDecl] = &[
    op(
        "relax.nn.cross_entropy_with_logits",
        documented!(
            "Cross entropy of predictions and labels, as a scalar.",
            "a scalar of the data type of both",
            r#"predictions: R.Tensor((2, 3), "float32"), labels: R.Tensor((2, 3), "float32")"#,
            "R.nn.cross_entropy_with_logits(predictions, labels)",
            r#"R.Tensor((), "float32")"#
        ),
        &[arg("predictions", ArgKind::Tensor), arg("labels", ArgKind::Tensor)],
        &[],
        cross_entropy,
    ),
    op(
        "relax.nn.nll_loss",
        documented!(
            "Negative log likelihood of target classes.",
            r#"a scalar of the data type of `predictions`; with `reduction="none"`, the shape of `targets`"#,
            r#"predictions: R.Tensor((8, 10), "float32"), targets: R.Tensor((8,), "int64"), weights: R.Tensor((10,), "float32")"#,
            r#"R.nn.nll_loss(predictions, targets, weights, reduction="mean")"#,
            r#"R.Tensor((), "float32")"#
        ),
        NLL,
        &[
            attr_or("reduction", AttrType::Str, DefaultDecl::Str("mean")),
            attr_or("ignore_index", AttrType::Int, DefaultDecl::Int(-100)),
        ],
        nll,
    ),
    op(
        "relax.nn.attention",
        documented!(
            "Scaled dot-product attention.",
            ATTENDED,
            r#"query: R.Tensor((2, 8, 4, 16), "float16"), key: R.Tensor((2, 6, 4, 16), "float16"), value: R.Tensor((2, 6, 4, 32), "float16")"#,
            "R.nn.attention(query, key, value)",
            r#"R.Tensor((2, 8, 4, 32), "float16")"#
        ),
        QKV,
        ATTENTION,
        attention,
    ),
    op(
        "relax.nn.attention_bias",
        documented!(
            "Scaled dot-product attention with a bias.",
            ATTENDED,
            r#"query: R.Tensor((2, 8, 4, 16), "float32"), key: R.Tensor((2, 6, 4, 16), "float32"), value: R.Tensor((2, 6, 4, 32), "float32"), bias: R.Tensor((2, 4, 8, 6), "float32")"#,
            "R.nn.attention_bias(query, key, value, bias)",
            r#"R.Tensor((2, 8, 4, 32), "float32")"#
        ),
        QKV_BIAS,
        ATTENTION,
        attention,
    ),
    op(
        "relax.nn.attention_var_len",
        documented!(
            "Scaled dot-product attention of sequences of various lengths, one after the other.\n\n \
             Sequence `i` has the positions from `seqstart[i]` to `seqstart[i + 1]`; each query sees the keys of its \
             sequence. Positions after the last sequence give 0. TVM executes this operator only with CUTLASS",
            ATTENDED,
            r#"query: R.Tensor((1, 8, 4, 16), "float32"), key: R.Tensor((1, 6, 4, 16), "float32"), value: R.Tensor((1, 6, 4, 32), "float32"), starts: R.Tensor((3,), "int32"), most: R.Tensor((), "int32")"#,
            "R.nn.attention_var_len(query, key, value, starts, starts, most, most)",
            r#"R.Tensor((1, 8, 4, 32), "float32")"#
        ),
        QKV_VAR_LEN,
        ATTENTION,
        attention,
    ),
];

fn cross_entropy(call: Call<'_>) -> Inferred {
    let (a, b) = (tensor(call, 0)?, tensor(call, 1)?);
    let dtype = same_dtype(a.dtype, b.dtype)?;
    if a.ndim >= 0 && b.ndim >= 0 && a.ndim != b.ndim {
        return wrong(format!("predictions have {} dimensions, but labels have {}", a.ndim, b.ndim));
    }
    if let (Some(x), Some(y)) = (&a.shape, &b.shape)
        && same_shape(x, y) == Some(false)
    {
        return wrong("predictions and labels must have the same shape".to_string());
    }
    let vdevice = same_device(&a, &b)?;
    Ok(with_shape(&TensorType { dtype, ndim: 0, shape: None, vdevice }, 0, None))
}

/// Infers `nll_loss` from predictions `(N, C, d1, …)` or `(C,)`, targets `(N, d1, …)` or `()`, and weights `(C,)`.
fn nll(call: Call<'_>) -> Inferred {
    let (p, t) = (tensor(call, 0)?, tensor(call, 1)?);
    needs_int(t.dtype, "targets")?;
    if p.ndim == 0 {
        return wrong("predictions need at least one dimension, for the classes".to_string());
    }
    let ndim = if p.ndim < 0 { t.ndim } else { p.ndim - 1 };
    if t.ndim >= 0 && t.ndim != ndim {
        return wrong(format!("targets must have {ndim} dimensions, one less than the predictions, found {}", t.ndim));
    }
    let classes = usize::from(p.ndim > 1);
    if let (Some(x), Some(y)) = (&p.shape, &t.shape) {
        let outer = x.iter().enumerate().filter(|(i, _)| *i != classes).map(|(_, dim)| dim);
        for (a, b) in outer.zip(y) {
            if prove_equal(a, b) == Some(false) {
                return wrong(format!("predictions have {} elements, but targets have {}", show(a), show(b)));
            }
        }
    }
    if call.arg(2).is_some() {
        let w = tensor(call, 2)?;
        same_dtype(p.dtype, w.dtype)?;
        if w.ndim >= 0 && w.ndim != 1 {
            return wrong(format!("weights must have one dimension, found {}", w.ndim));
        }
        if let (Some(x), Some([n])) = (&p.shape, w.shape.as_deref())
            && prove_equal(&x[classes], n) == Some(false)
        {
            return wrong(format!("{} weights were given for {} classes", show(n), show(&x[classes])));
        }
    }
    match text(call, "reduction") {
        Some("mean" | "sum") => Ok(with_shape(&p, 0, None)),
        Some("none") => {
            let known = p.shape.as_ref().map(|dims| {
                dims.iter().enumerate().filter(|(i, _)| *i != classes).map(|(_, dim)| dim.clone()).collect()
            });
            Ok(with_shape(&p, ndim, known))
        }
        other => wrong(format!("reduction is \"{}\"; it must be \"mean\", \"sum\" or \"none\"", other.unwrap_or(""))),
    }
}

/// Infers attention: query `(B, S, N, H)`, key `(B, T, M, H)` and value `(B, T, M, V)` give `(B, S, N, V)`. There are
/// as many key heads as query heads, or a group of query heads shares each key head.
fn attention(call: Call<'_>) -> Inferred {
    let (q, k, v) = (tensor(call, 0)?, tensor(call, 1)?, tensor(call, 2)?);
    let dtype = same_dtype(same_dtype(q.dtype, k.dtype)?, v.dtype)?;
    for (arg, t) in QKV.iter().zip([&q, &k, &v]) {
        if t.ndim >= 0 && t.ndim != 4 {
            return wrong(format!(
                "{} must have 4 dimensions (batch, sequence, heads, width), found {}",
                arg.name, t.ndim
            ));
        }
    }
    let like = TensorType { dtype, ndim: 4, shape: None, vdevice: q.vdevice };
    let (Some(q), Some(k), Some(v)) = (q.shape, k.shape, v.shape) else { return Ok(Type::Tensor(like)) };
    let pairs = [
        ("batches", &q[0], &k[0]),
        ("batches", &q[0], &v[0]),
        ("heads of key and value", &k[2], &v[2]),
        ("widths", &q[3], &k[3]),
        ("sequence lengths", &k[1], &v[1]),
    ];
    if let Some((what, a, b)) = pairs.into_iter().find(|(_, a, b)| prove_equal(a, b) == Some(false)) {
        return wrong(format!("{what} of {} and of {} do not match", show(a), show(b)));
    }
    if let (Some(queries), Some(keys)) = (q[2].as_int(), k[2].as_int())
        && queries != keys
        && (keys < 1 || queries % keys != 0)
    {
        return wrong(format!(
            "the number of query heads, {queries}, is not a multiple of the number of key heads, {keys}"
        ));
    }
    let dims = q[..3].iter().chain(&v[3..]).cloned().collect();
    Ok(with_shape(&like, 4, Some(dims)))
}
