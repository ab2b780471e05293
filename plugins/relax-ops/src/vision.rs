//! Object detection: regions of images, and the suppression of overlapping boxes.

use crate::declare::*;
use plugin_api::arith::prove_equal;
use plugin_api::ir::{Call, DType, Dim, TensorType, Type};
use plugin_api::metadata::{ArgKind, AttrType};
use plugin_api::typing::operators::{ArgDecl, AttrDecl, DefaultDecl, InferError, OpDecl};

const REGIONS: &[ArgDecl] = &[arg("data", ArgKind::Tensor), arg("rois", ArgKind::Tensor)];
const ALL_CLASSES: &[ArgDecl] = &[
    arg("boxes", ArgKind::Tensor),
    arg("scores", ArgKind::Tensor),
    arg("max_output_boxes_per_class", ArgKind::Tensor),
    arg("iou_threshold", ArgKind::Tensor),
    arg("score_threshold", ArgKind::Tensor),
];
const SUPPRESSED: &[ArgDecl] =
    &[arg("data", ArgKind::Tensor), arg("valid_count", ArgKind::Tensor), arg("indices", ArgKind::Tensor)];
const PREDICTED: &[ArgDecl] =
    &[arg("cls_pred", ArgKind::Tensor), arg("loc_pred", ArgKind::Tensor), arg("anchor", ArgKind::Tensor)];
const POOLED: AttrDecl = attr("pooled_size", AttrType::IntList);
const SCALE: AttrDecl = attr("spatial_scale", AttrType::Float);
const LAYOUT: AttrDecl = attr_or("layout", AttrType::Str, DefaultDecl::Str("NCHW"));
const SCORE_THRESHOLD: AttrDecl = attr_or("score_threshold", AttrType::Float, DefaultDecl::Float(0.0));
const SCORE_INDEX: AttrDecl = attr_or("score_index", AttrType::Int, DefaultDecl::Int(1));
const ID_INDEX: AttrDecl = attr_or("id_index", AttrType::Int, DefaultDecl::Int(0));

const ALIGN: &[AttrDecl] = &[
    POOLED,
    SCALE,
    attr_or("sample_ratio", AttrType::Int, DefaultDecl::Int(-1)),
    attr_or("aligned", AttrType::Bool, DefaultDecl::Bool(false)),
    LAYOUT,
    attr_or("mode", AttrType::Str, DefaultDecl::Str("avg")),
];
const SUPPRESSION: &[AttrDecl] = &[
    attr_or("max_output_size", AttrType::Int, DefaultDecl::Int(-1)),
    attr_or("iou_threshold", AttrType::Float, DefaultDecl::Float(0.5)),
    attr_or("force_suppress", AttrType::Bool, DefaultDecl::Bool(false)),
    attr_or("top_k", AttrType::Int, DefaultDecl::Int(-1)),
    attr_or("coord_start", AttrType::Int, DefaultDecl::Int(2)),
    SCORE_INDEX,
    ID_INDEX,
    attr_or("return_indices", AttrType::Bool, DefaultDecl::Bool(true)),
    attr_or("invalid_to_bottom", AttrType::Bool, DefaultDecl::Bool(false)),
    attr_or("soft_nms_sigma", AttrType::Float, DefaultDecl::Float(0.0)),
    SCORE_THRESHOLD,
];
const DECODED: &[AttrDecl] = &[
    attr_or("clip", AttrType::Bool, DefaultDecl::Bool(false)),
    attr_or("threshold", AttrType::Float, DefaultDecl::Float(0.0)),
    attr_or("variances", AttrType::Any, DefaultDecl::Floats(&[1.0, 1.0, 1.0, 1.0])),
    attr_or("keep_background", AttrType::Bool, DefaultDecl::Bool(true)),
    attr_or("apply_softmax", AttrType::Bool, DefaultDecl::Bool(true)),
];

pub(crate) const OPERATORS: &[OpDecl] = &[
    op(
        "relax.vision.roi_align",
        documented!(
            "The mean or the greatest of bilinear samples in each cell of a grid over a region.\n\n \
             A row of `rois` contains the index of an image and the corners `x1, y1, x2, y2`, which `spatial_scale` multiplies. \
             Without `aligned`, a region is at least 1 wide and high. If `sample_ratio` is not positive, the number of \
             samples of a cell along an axis is its length, rounded up. A cell without samples is 0, which TVM leaves \
             uninitialized",
            "number of regions, channels of `data`, and `pooled_size`, in the given layout; elements like `data`",
            r#"data: R.Tensor((1, 3, 8, 8), "float32"), rois: R.Tensor((4, 5), "float32")"#,
            "R.vision.roi_align(data, rois, pooled_size=[2, 2], spatial_scale=0.5)",
            r#"R.Tensor((4, 3, 2, 2), "float32")"#
        ),
        REGIONS,
        ALIGN,
        |call| regions(call, &["NCHW", "NHWC"]),
    ),
    op(
        "relax.vision.roi_pool",
        documented!(
            "The greatest element in each cell of a grid over a region; 0 for an empty cell.\n\n \
             A row of `rois` contains the index of an image and the corners `x1, y1, x2, y2`, which `spatial_scale` multiplies, \
             rounded to elements, halves away from 0; TVM rounds negative halves up",
            "number of regions, channels of `data`, and `pooled_size`; elements like `data`",
            r#"data: R.Tensor((1, 3, 8, 8), "float32"), rois: R.Tensor((4, 5), "float32")"#,
            "R.vision.roi_pool(data, rois, pooled_size=[2, 2], spatial_scale=0.5)",
            r#"R.Tensor((4, 3, 2, 2), "float32")"#
        ),
        REGIONS,
        &[POOLED, SCALE, LAYOUT],
        |call| regions(call, &["NCHW"]),
    ),
    op(
        "relax.vision.all_class_non_max_suppression",
        documented!(
            "Boxes of each class by descending score, without boxes that overlap a better box of the class.\n\n \
             A box is removed if the ratio of intersection and union is at least `iou_threshold`. Without a positive \
             `iou_threshold`, no box is selected. With the format `onnx`, the result is rows of batch, class and box, \
             and their number. The type in TVM has a row for each box of each class, but only the selected rows \
             are returned. With the format `tensorflow`, the result is pairs of class and box, their scores, and the \
             numbers of pairs; the rest is 0.\n\n TVM never returns boxes with scores of at most -1, and \
             keeps boxes with other scores of at most 0 even if they overlap better boxes; here, all scores are treated alike",
            "for `onnx`, two dimensions and `(1,)`, both int64; for `tensorflow`, \
             `(batch, classes * boxes, 2)` of int64, `(batch, classes * boxes)` of float32, and `(batch,)` of int64",
            r#"boxes: R.Tensor((1, 6, 4), "float32"), scores: R.Tensor((1, 2, 6), "float32"), most: R.Tensor((), "int64"), iou: R.Tensor((), "float32"), score: R.Tensor((), "float32")"#,
            r#"R.vision.all_class_non_max_suppression(boxes, scores, most, iou, score, output_format="tensorflow")"#,
            r#"R.Tuple(R.Tensor((1, 12, 2), "int64"), R.Tensor((1, 12), "float32"), R.Tensor((1,), "int64"))"#
        ),
        ALL_CLASSES,
        &[attr_or("output_format", AttrType::Str, DefaultDecl::Str("onnx"))],
        all_classes,
    ),
    op(
        "relax.vision.get_valid_counts",
        documented!(
            "The number of boxes with a score above a threshold, and these boxes before all others.\n\n \
             A box is a row of `data`; `score_index` is the position of its score. With an `id_index` of at least 0, \
             the element at that position must not be negative. The remaining rows contain -1",
            "the numbers, int32; the boxes, like `data`; their positions in `data`, int32",
            r#"data: R.Tensor((1, 6, 6), "float32")"#,
            "R.vision.get_valid_counts(data, score_threshold=0.5)",
            r#"R.Tuple(R.Tensor((1,), "int32"), R.Tensor((1, 6, 6), "float32"), R.Tensor((1, 6), "int32"))"#
        ),
        DATA,
        &[SCORE_THRESHOLD, ID_INDEX, SCORE_INDEX],
        valid_counts,
    ),
    op(
        "relax.vision.non_max_suppression",
        documented!(
            "Boxes by descending score, without boxes that overlap a better box.\n\n \
             A box is a row of `data` with a score, four coordinates from `coord_start` on, and a class at `id_index`; \
             a box removes boxes of its class, or of all classes with `force_suppress`. Boxes with scores of at most 0 \
             are not selected. With `soft_nms_sigma`, the score of an overlapping box decays instead, and boxes with \
             scores of at most `score_threshold` are not selected. The result consists of the elements of `indices` \
             for the selected boxes, and their number; with `soft_nms_sigma`, the boxes themselves come first. Without \
             `return_indices`, the result is only the boxes. The remaining elements are -1",
            "`(batch, boxes)` and `(batch, 1)`, both int32; with `soft_nms_sigma`, the type of `data` before them; \
             without `return_indices`, only the type of `data`",
            r#"data: R.Tensor((1, 6, 6), "float32"), count: R.Tensor((1,), "int32"), indices: R.Tensor((1, 6), "int32")"#,
            "R.vision.non_max_suppression(data, count, indices)",
            r#"R.Tuple(R.Tensor((1, 6), "int32"), R.Tensor((1, 1), "int32"))"#
        ),
        SUPPRESSED,
        SUPPRESSION,
        suppression,
    ),
    op(
        "relax.vision.multibox_transform_loc",
        documented!(
            "Boxes from offsets to anchors, and the scores of their classes.\n\n \
             An offset is `x, y, w, h`, multiplied by `variances`; an anchor is `left, top, right, bottom`; a box is \
             `ymin, xmin, ymax, xmax`. Scores below `threshold` become 0, and so do the scores of class 0 without \
             `keep_background`",
            "`(batch, anchors, 4)` and the shape of `cls_pred`; elements like `cls_pred`",
            r#"classes: R.Tensor((1, 3, 6), "float32"), offsets: R.Tensor((1, 24), "float32"), anchor: R.Tensor((1, 6, 4), "float32")"#,
            "R.vision.multibox_transform_loc(classes, offsets, anchor)",
            r#"R.Tuple(R.Tensor((1, 6, 4), "float32"), R.Tensor((1, 3, 6), "float32"))"#
        ),
        PREDICTED,
        DECODED,
        boxes,
    ),
];

/// Returns argument `i`, which must have `ndim` dimensions if their number is known.
fn ranked(call: Call<'_>, i: usize, name: &str, ndim: i32) -> Result<TensorType, InferError> {
    let t = tensor(call, i)?;
    if t.ndim >= 0 && t.ndim != ndim {
        return wrong(format!("{name} must have {ndim} dimensions, found {}", t.ndim));
    }
    Ok(t)
}

/// Returns a tensor type.
fn typed(dtype: DType, ndim: i32, shape: Option<Vec<Dim>>, like: &TensorType) -> Type {
    Type::Tensor(TensorType { dtype, ndim, shape, vdevice: like.vdevice })
}

/// Infers a grid of cells over each region. The last dimension of the regions is 5.
fn regions(call: Call<'_>, layouts: &[&str]) -> Inferred {
    let (x, rois) = (ranked(call, 0, "data", 4)?, ranked(call, 1, "rois", 2)?);
    let layout = text(call, "layout").unwrap_or("NCHW");
    if !layouts.contains(&layout) {
        return wrong(format!("layout is \"{layout}\"; it must be one of {}", layouts.join(", ")));
    }
    if let Some(mode) = text(call, "mode").filter(|mode| !matches!(*mode, "avg" | "max")) {
        return wrong(format!("mode is \"{mode}\"; it must be \"avg\" or \"max\""));
    }
    if let Some([_, width]) = rois.shape.as_deref()
        && width.as_int().is_some_and(|width| width != 5)
    {
        return wrong(format!("rois must have the shape (regions, 5), found {} columns", show(width)));
    }
    let pooled = match ints(call, "pooled_size").as_deref() {
        Some([size]) => [*size; 2],
        Some([height, width]) => [*height, *width],
        _ => return wrong("pooled_size must be one or two numbers".to_string()),
    };
    if pooled.iter().any(|size| *size < 0) {
        return wrong(format!("pooled_size must not be negative, found {pooled:?}"));
    }
    let (Some(dims), Some(rois)) = (&x.shape, &rois.shape) else { return Ok(with_shape(&x, 4, None)) };
    let [height, width] = pooled.map(Dim::Int);
    let out = match layout {
        "NCHW" => vec![rois[0].clone(), dims[1].clone(), height, width],
        _ => vec![rois[0].clone(), height, width, dims[3].clone()],
    };
    Ok(with_shape(&x, 4, Some(out)))
}

fn all_classes(call: Call<'_>) -> Inferred {
    let (x, scores) = (ranked(call, 0, "boxes", 3)?, ranked(call, 1, "scores", 3)?);
    let (Some([batch, n, _]), Some([_, classes, _])) = (x.shape.as_deref(), scores.shape.as_deref()) else {
        return wrong("the shapes of boxes and scores must be known".to_string());
    };
    let each = classes.clone() * n.clone();
    if text(call, "output_format") == Some("onnx") {
        let count = typed(DType::I64, 1, Some(vec![Dim::Int(1)]), &x);
        return Ok(Type::tuple([typed(DType::I64, 2, None, &x), count]));
    }
    let at = |dtype, dims: Vec<Dim>| typed(dtype, dims.len() as i32, Some(dims), &x);
    Ok(Type::tuple([
        at(DType::I64, vec![batch.clone(), each.clone(), Dim::Int(2)]),
        at(DType::F32, vec![batch.clone(), each]),
        at(DType::I64, vec![batch.clone()]),
    ]))
}

/// Checks that the positions of score, class and coordinates are inside a box's row.
fn inside(call: Call<'_>, length: &Dim, has_corners: bool) -> Result<(), InferError> {
    let Some(length) = length.as_int() else { return Ok(()) };
    let (score, id) = (int(call, "score_index").unwrap_or(1), int(call, "id_index").unwrap_or(0));
    if !(0..length).contains(&score) {
        return wrong(format!("score_index must be from 0 to {}, found {score}", length - 1));
    }
    let start = int(call, "coord_start").unwrap_or(2);
    if has_corners && (start < 0 || start.saturating_add(3) >= length) {
        return wrong(format!("four coordinates from {start} on are not inside a row of {length} elements"));
    }
    if !(-1..length).contains(&id) {
        return wrong(format!("id_index must be from -1 to {}, found {id}", length - 1));
    }
    Ok(())
}

fn valid_counts(call: Call<'_>) -> Inferred {
    let x = ranked(call, 0, "data", 3)?;
    let Some([batch, n, length]) = x.shape.as_deref() else {
        let fields = [typed(DType::I32, 1, None, &x), with_shape(&x, 3, None), typed(DType::I32, 2, None, &x)];
        return Ok(Type::tuple(fields));
    };
    inside(call, length, false)?;
    Ok(Type::tuple([
        typed(DType::I32, 1, Some(vec![batch.clone()]), &x),
        Type::Tensor(x.clone()),
        typed(DType::I32, 2, Some(vec![batch.clone(), n.clone()]), &x),
    ]))
}

fn suppression(call: Call<'_>) -> Inferred {
    let (x, count, indices) =
        (ranked(call, 0, "data", 3)?, ranked(call, 1, "valid_count", 1)?, ranked(call, 2, "indices", 2)?);
    for (name, t) in [("valid_count", &count), ("indices", &indices)] {
        if t.dtype.is_known() && t.dtype != DType::I32 {
            return wrong(format!("{name} must have the data type int32, found {}", t.dtype));
        }
    }
    let pair = x.shape.as_deref().map(|dims| [dims[0].clone(), dims[1].clone()]);
    if let Some([batch, n]) = &pair {
        let is = |a: &Dim, b: &Dim| prove_equal(a, b) == Some(true);
        if count.shape.as_deref().is_some_and(|dims| !is(&dims[0], batch)) {
            return wrong("valid_count must have an element for each batch of data".to_string());
        }
        if indices.shape.as_deref().is_some_and(|dims| !is(&dims[0], batch) || !is(&dims[1], n)) {
            return wrong("indices must have an element for each box of data".to_string());
        }
    }
    if let Some([_, _, length]) = x.shape.as_deref() {
        inside(call, length, true)?;
    }
    let same = with_shape(&x, 3, x.shape.clone());
    if !flag(call, "return_indices") {
        return Ok(same);
    }
    let counts = pair.as_ref().map(|[batch, _]| vec![batch.clone(), Dim::Int(1)]);
    let fields = [typed(DType::I32, 2, pair.map(Vec::from), &x), typed(DType::I32, 2, counts, &x)];
    match float(call, "soft_nms_sigma") > 0.0 {
        true => Ok(Type::tuple([same].into_iter().chain(fields))),
        false => Ok(Type::tuple(fields)),
    }
}

fn boxes(call: Call<'_>) -> Inferred {
    let (classes, offsets, anchor) =
        (ranked(call, 0, "cls_pred", 3)?, ranked(call, 1, "loc_pred", 2)?, ranked(call, 2, "anchor", 3)?);
    same_dtype(classes.dtype, offsets.dtype)?;
    same_dtype(classes.dtype, anchor.dtype)?;
    if call.attr("variances").is_some_and(|list| list.items().count() != 4) {
        return wrong("variances must be four numbers, for x, y, w and h".to_string());
    }
    let known = |t: &TensorType, axis: usize| t.shape.as_ref().and_then(|dims| dims[axis].as_int());
    let is_not = |a: Option<i64>, b: Option<i64>| a.zip(b).is_some_and(|(a, b)| a != b);
    let n = known(&classes, 2);
    if known(&offsets, 1).is_some_and(|width| width % 4 != 0)
        || is_not(known(&offsets, 1), n.map(|n| n.saturating_mul(4)))
    {
        return wrong("loc_pred must have four columns for each anchor".to_string());
    }
    if is_not(known(&classes, 0), known(&offsets, 0)) {
        return wrong("cls_pred and loc_pred must have the same number of batches".to_string());
    }
    if is_not(known(&anchor, 0), Some(1)) || is_not(known(&anchor, 2), Some(4)) || is_not(known(&anchor, 1), n) {
        return wrong("anchor must have the shape (1, anchors, 4)".to_string());
    }
    let Some([batch, _, n]) = classes.shape.as_deref() else {
        return Ok(Type::tuple([with_shape(&classes, 3, None), with_shape(&classes, 3, None)]));
    };
    let corners = with_shape(&classes, 3, Some(vec![batch.clone(), n.clone(), Dim::Int(4)]));
    Ok(Type::tuple([corners, Type::Tensor(classes.clone())]))
}

/// Returns a numeric attribute; 0 if it is absent.
fn float(call: Call<'_>, key: &str) -> f64 {
    call.attr(key).and_then(|attr| attr.as_float().or_else(|| attr.as_int().map(|n| n as f64))).unwrap_or(0.0)
}
