//! Samples at the positions in a grid.

use super::super::{Legal, cannot, result_shape};
use super::{at, wide};
use crate::declare::{flag, text};
use plugin_api::ir::{Call, DType, Dim};
use plugin_api::te::{Te, TeExpr, TeTensor};

/// The treatment of positions outside of the data.
struct Border<'c> {
    mode: &'c str,
    corners: bool,
}

impl Border<'_> {
    /// Converts a position between -1 and 1 to a position along an axis with `size` elements.
    fn place(&self, at: TeExpr, size: &TeExpr) -> TeExpr {
        match self.corners {
            true => (at + 1.0) / 2.0 * (size - 1.0),
            false => ((at + 1.0) * size - 1.0) / 2.0,
        }
    }

    /// Moves a position that is outside of the data to a position inside.
    fn kept(&self, at: TeExpr, size: &TeExpr) -> TeExpr {
        match self.mode {
            "border" => within(at, size),
            "reflection" => within(self.reflected(at, size), size),
            _ => at,
        }
    }

    /// Reflects a position at both ends of an axis. The ends are the first and the last element, or half an element
    /// beyond them.
    fn reflected(&self, at: TeExpr, size: &TeExpr) -> TeExpr {
        let (least, most) = match self.corners {
            true => (TeExpr::float(0.0, at.dtype()), size - 1.0),
            false => (TeExpr::float(-0.5, at.dtype()), size - 0.5),
        };
        let inside = at.ge(&least).and(at.le(&most));
        // Reflection at both ends has a period of twice the range. The range of a single element is 0.
        let period = (&most - &least) * 2.0;
        let apart = (&at - &least).math("fabs");
        let rest = &apart - (&apart / period.gt(0.0).select(&period, 1.0)).math("floor") * &period;
        inside.select(at, &least + rest.min(&period - &rest))
    }

    /// Returns the element at an integer position. The position may be outside of the data.
    fn element(&self, x: &TeTensor, first: &[TeExpr], at: &[TeExpr], sizes: &[TeExpr]) -> TeExpr {
        let (mut inside, mut index) = (TeExpr::int(1, DType::BOOL), first.to_vec());
        for (at, size) in at.iter().zip(sizes) {
            if !matches!(self.mode, "border" | "reflection") {
                inside = inside.and(at.ge(0.0)).and(at.le(size - 1.0));
            }
            index.push(within(self.kept(at.clone(), size), size).cast(DType::I64));
        }
        match self.mode {
            "border" | "reflection" => x.at(&index),
            _ => inside.if_then_else(x.at(&index), TeExpr::int(0, DType::I64).cast(x.dtype())),
        }
    }
}

/// Clamps a position to an axis.
fn within(at: TeExpr, size: &TeExpr) -> TeExpr {
    at.max(0.0).min(size - 1.0)
}

/// Returns the weights of the four elements around a position. `t` is the distance of the position from the second
/// element.
fn cubic(t: &TeExpr) -> [TeExpr; 4] {
    let a = -0.75;
    let far = |t: TeExpr| ((&t * a - 5.0 * a) * &t + 8.0 * a) * &t - 4.0 * a;
    let near = |t: TeExpr| (&t * (a + 2.0) - (a + 3.0)) * &t * &t + 1.0;
    let one = TeExpr::float(1.0, t.dtype());
    [far(t + 1.0), near(t.clone()), near(&one - t), far(TeExpr::float(2.0, t.dtype()) - t)]
}

/// Interpolates along one axis after the other.
fn blended(parts: &[(TeExpr, TeExpr)], is_cubic: bool, at: &[TeExpr], value: &dyn Fn(&[TeExpr]) -> TeExpr) -> TeExpr {
    let Some(((floor, part), rest)) = parts.split_first() else { return value(at) };
    let along = |by: f64| {
        let place = floor + by;
        blended(rest, is_cubic, &[at, std::slice::from_ref(&place)].concat(), value)
    };
    match is_cubic {
        true => {
            let [a, b, c, d] = cubic(part);
            along(-1.0) * a + along(0.0) * b + along(1.0) * c + along(2.0) * d
        }
        false => {
            let one = TeExpr::float(1.0, part.dtype());
            along(0.0) * (one - part) + along(1.0) * part
        }
    }
}

pub(super) fn grid_sample(call: Call<'_>) -> Legal {
    let (method, mode) = (text(call, "method").unwrap_or(""), text(call, "padding_mode").unwrap_or(""));
    if !matches!(method, "nearest" | "bilinear" | "bicubic") {
        return cannot(format!("the methods are `nearest`, `bilinear` and `bicubic`, found `{method}`"));
    }
    if !matches!(mode, "zeros" | "border" | "reflection") {
        return cannot(format!("the padding modes are `zeros`, `border` and `reflection`, found `{mode}`"));
    }
    if !matches!(text(call, "layout"), Some("NCHW" | "NCDHW")) {
        return cannot("it is legalized only for the layouts `NCHW` and `NCDHW`");
    }
    let te = Te::new("grid_sample", call);
    let (x, grid) = (te.input(0)?, te.input(1)?);
    let shape = result_shape(call)?;
    let (count, dtype) = (x.ndim() - 2, wide(&[x.dtype(), grid.dtype()]));
    let border = Border { mode, corners: flag(call, "align_corners") };
    let sizes: Vec<TeExpr> = x.shape()[2..].iter().map(|dim| TeExpr::of_dim(dim.clone()).cast(dtype)).collect();
    // The positions are a separate tensor, because each element uses them repeatedly. A cubic curve also uses
    // neighbors of a position. They may be outside of the data, so each neighbor is moved instead of the position.
    let mut whole = grid.shape().to_vec();
    whole[1] = Dim::Int(count as i64);
    let places = te.compute("grid_places", &whole, |i| {
        let on = |axis: usize| {
            let mut index = i.to_vec();
            index[1] = at((count - 1 - axis) as i64);
            let place = border.place(grid.at(&index).cast(dtype), &sizes[axis]);
            match method {
                "nearest" => border.kept(place, &sizes[axis]).math("nearbyint"),
                "bicubic" => place,
                _ => border.kept(place, &sizes[axis]),
            }
        };
        (0..count - 1).rev().fold(on(count - 1), |other, axis| i[1].eq(axis as i64).select(on(axis), other))
    });
    let result = te.compute("grid_sample", &shape, |i| {
        let place = |axis: usize| {
            let mut index = i.to_vec();
            index[1] = at(axis as i64);
            places.at(&index)
        };
        let places: Vec<TeExpr> = (0..count).map(place).collect();
        let value = |at: &[TeExpr]| border.element(&x, &i[..2], at, &sizes);
        if method == "nearest" {
            return value(&places);
        }
        let part = |at: &TeExpr| {
            let floor = at.math("floor");
            (floor.clone(), at - floor)
        };
        let parts: Vec<(TeExpr, TeExpr)> = places.iter().map(part).collect();
        blended(&parts, method == "bicubic", &[], &|at| value(at).cast(dtype)).cast(x.dtype())
    });
    te.finish(&[result])
}
