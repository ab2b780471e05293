//! Image and quantization operators.

use crate::declare::*;
use crate::layout::Layout;
use crate::type_rules::*;
use plugin_api::ir::{AttrView, Call, DType, TensorType, Type};
use plugin_api::metadata::{ArgKind, AttrType};
use plugin_api::typing::operators::{ArgDecl, AttrDecl, DefaultDecl, OpDecl};

const DATA_SIZE: &[ArgDecl] = &[arg("data", ArgKind::Tensor), arg("size", ArgKind::Shape)];
const SCALED: &[ArgDecl] =
    &[arg("data", ArgKind::Tensor), arg("scale", ArgKind::Tensor), arg("zero_point", ArgKind::Tensor)];

const fn resizing(layout: &'static str, rounding: &'static str) -> [AttrDecl; 9] {
    [
        // TVM always prints its default for this attribute: float32 scalars.
        attr("roi", AttrType::Any),
        attr_or("layout", AttrType::Str, DefaultDecl::Str(layout)),
        attr_or("method", AttrType::Str, DefaultDecl::Str("linear")),
        attr_or("coordinate_transformation_mode", AttrType::Str, DefaultDecl::Str("half_pixel")),
        attr_or("rounding_method", AttrType::Str, DefaultDecl::Str(rounding)),
        attr_or("cubic_alpha", AttrType::Float, DefaultDecl::Float(-0.75)),
        attr_or("cubic_exclude", AttrType::Int, DefaultDecl::Int(0)),
        attr_or("extrapolation_value", AttrType::Float, DefaultDecl::Float(0.0)),
        attr_or("out_dtype", AttrType::DType, DefaultDecl::None),
    ]
}

const RESIZE2: &[AttrDecl] = &resizing("NCHW", "round");
const RESIZE3: &[AttrDecl] = &resizing("NCDHW", "");

const fn quantizing(out: &'static str) -> [AttrDecl; 2] {
    [
        by_name(attr_or("out_dtype", AttrType::DType, DefaultDecl::Str(out))),
        attr_or("axis", AttrType::Int, DefaultDecl::Int(-1)),
    ]
}

const TO_INTS: &[AttrDecl] = &quantizing("int8");
const TO_FLOATS: &[AttrDecl] = &quantizing("float32");

pub(crate) const OPERATORS: &[OpDecl] = &[
    op(
        "relax.image.resize2d",
        documented!(
            "Images resized.",
            RESIZED,
            r#"data: R.Tensor((1, 3, 8, 8), "float32")"#,
            "R.image.resize2d(data, R.shape([16, 20]), roi=[T.float32(0.0), T.float32(0.0), T.float32(0.0), T.float32(0.0)])",
            r#"R.Tensor((1, 3, 16, 20), "float32")"#
        ),
        DATA_SIZE,
        RESIZE2,
        |call| resize(call, "NCHW"),
    ),
    op(
        "relax.image.resize3d",
        documented!(
            "Volumes resized.",
            RESIZED,
            r#"data: R.Tensor((1, 3, 4, 8, 8), "float32")"#,
            "R.image.resize3d(data, R.shape([8, 16, 20]), roi=[T.float32(0.0), T.float32(0.0), T.float32(0.0), T.float32(0.0), T.float32(0.0), T.float32(0.0)])",
            r#"R.Tensor((1, 3, 8, 16, 20), "float32")"#
        ),
        DATA_SIZE,
        RESIZE3,
        |call| resize(call, "NCDHW"),
    ),
    op(
        "relax.image.grid_sample",
        documented!(
            "Samples of images or volumes at the positions in a grid.\n\n \
             Positions range from -1 to 1 along each spatial axis. Axis 1 of `grid` contains the coordinates, beginning with the \
             last axis. `method` is `nearest`, `bilinear` or `bicubic`; `padding_mode` is `zeros`, `border` or `reflection`. \
             Unlike in TVM, volumes can be sampled bicubically, too",
            "batch and channels of `data`, and the spatial axes of `grid`",
            r#"data: R.Tensor((1, 3, 8, 8), "float32"), grid: R.Tensor((1, 2, 5, 6), "float32")"#,
            r#"R.image.grid_sample(data, grid, method="bilinear", padding_mode="border")"#,
            r#"R.Tensor((1, 3, 5, 6), "float32")"#
        ),
        &[arg("data", ArgKind::Tensor), arg("grid", ArgKind::Tensor)],
        &[
            attr_or("method", AttrType::Str, DefaultDecl::Str("bilinear")),
            attr_or("layout", AttrType::Str, DefaultDecl::Str("NCHW")),
            attr_or("padding_mode", AttrType::Str, DefaultDecl::Str("zeros")),
            attr_or("align_corners", AttrType::Bool, DefaultDecl::Bool(false)),
        ],
        grid_sample,
    ),
    op(
        "relax.quantize",
        documented!(
            "Floats quantized to integers, by scale and zero point.",
            QUANTIZED,
            r#"data: R.Tensor((2, 3), "float32"), scale: R.Tensor((3,), "float32"), zero: R.Tensor((3,), "int8")"#,
            r#"R.quantize(data, scale, zero, out_dtype="int8", axis=1)"#,
            r#"R.Tensor((2, 3), "int8")"#
        ),
        SCALED,
        TO_INTS,
        |call| {
            let dtype = out_dtype(call, "out_dtype", DType::VOID);
            needs_int(dtype, "quantized elements")?;
            converted(call, dtype)
        },
    ),
    op(
        "relax.dequantize",
        documented!(
            "Integers dequantized to floats, by scale and zero point.",
            QUANTIZED,
            r#"data: R.Tensor((2, 3), "int8"), scale: R.Tensor((3,), "float32"), zero: R.Tensor((3,), "int8")"#,
            r#"R.dequantize(data, scale, zero, out_dtype="float32", axis=1)"#,
            r#"R.Tensor((2, 3), "float32")"#
        ),
        SCALED,
        TO_FLOATS,
        |call| {
            let dtype = out_dtype(call, "out_dtype", DType::VOID);
            needs_float(dtype)?;
            converted(call, dtype)
        },
    ),
];

fn resize(call: Call<'_>, axes: &str) -> Inferred {
    let (data, (ndim, size)) = (tensor(call, 0)?, shape(call, 1)?);
    if call.attr("roi").is_none_or(AttrView::is_none) {
        return wrong("attribute `roi` must be a list of numbers, such as [T.float32(0.0), …]".to_string());
    }
    let layout = Layout::of(text(call, "layout").unwrap_or(axes), axes)?;
    let spatial = &axes.as_bytes()[2..];
    if ndim >= 0 && ndim as usize != spatial.len() {
        return wrong(format!("the size has {ndim} dimensions; it must have {}", spatial.len()));
    }
    let like = TensorType { dtype: out_dtype(call, "out_dtype", data.dtype), ..data.clone() };
    let (Some(x), Some(size)) = (layout.dims(&data, "data")?, size) else {
        return Ok(with_shape(&like, layout.ndim(), None));
    };
    let dims = layout.place(|letter| match spatial.iter().position(|axis| *axis == letter) {
        Some(i) => Ok(size[i].clone()),
        None => layout.size(x, letter),
    })?;
    Ok(with_shape(&like, layout.ndim(), Some(dims)))
}

/// Infers samples of images, or of volumes if the layout is `NCDHW`, as in TVM.
fn grid_sample(call: Call<'_>) -> Inferred {
    let (data, grid) = (tensor(call, 0)?, tensor(call, 1)?);
    let name = text(call, "layout").unwrap_or("NCHW");
    let axes = if name == "NCDHW" { "NCDHW" } else { "NCHW" };
    let layout = Layout::of(name, axes)?;
    if grid.ndim >= 0 && grid.ndim as usize != axes.len() {
        return wrong(format!("the grid must have {} dimensions, like the data, found {}", axes.len(), grid.ndim));
    }
    let (Some(x), Some(grid)) = (layout.dims(&data, "data")?, grid.shape) else {
        return Ok(with_shape(&data, layout.ndim(), None));
    };
    let dims = layout.place(|letter| match axes.bytes().position(|axis| axis == letter) {
        Some(at) if at > 1 => Ok(grid[at].clone()),
        _ => layout.size(x, letter),
    })?;
    Ok(with_shape(&data, layout.ndim(), Some(dims)))
}

fn converted(call: Call<'_>, dtype: DType) -> Inferred {
    let (data, scale, zero) = (tensor(call, 0)?, tensor(call, 1)?, tensor(call, 2)?);
    let at = axis(int(call, "axis").unwrap_or(-1), data.ndim)?;
    for (what, t) in [("scale", &scale), ("zero_point", &zero)] {
        if t.ndim > 1 {
            return wrong(format!("{what} must be a scalar or a vector, found {} dimensions", t.ndim));
        }
        if let (Some(dims), Some(at), Some([n])) = (&data.shape, at, t.shape.as_deref())
            && n.as_int() != Some(1)
            && plugin_api::arith::prove_equal(&dims[at], n) == Some(false)
        {
            return wrong(format!("{what} has {} elements, but axis {at} has {}", show(n), show(&dims[at])));
        }
    }
    Ok(Type::Tensor(TensorType { dtype, ..data }))
}
