//! The page of `passhost bench`: tables and charts of the measurements, without scripts.

use super::rendered;
use crate::report::error::Error;
use minijinja::context;
use minijinja::value::Serde;
use serde_json::{Value, json};

/// Maximum number of kernels in the charts.
const SHOWN: usize = 40;
/// Width and height of the second chart.
const ROOFS: (f64, f64) = (720.0, 420.0);

/// Renders the data that `--json` prints as a page.
///
/// # Errors
/// If the template does not fit the data, which is a bug.
pub fn html(data: &Value) -> Result<String, Error> {
    let kernels: Vec<&Value> = data["kernels"].as_array().into_iter().flatten().collect();
    let longest = kernels.iter().filter_map(|kernel| kernel["time"].as_f64()).fold(f64::MIN_POSITIVE, f64::max);
    let bars: Vec<Value> = kernels
        .iter()
        .take(SHOWN)
        .map(|kernel| json!({ "kernel": kernel, "part": kernel["time"].as_f64().unwrap_or(0.0) / longest }))
        .collect();
    rendered(
        include_str!("bench.html"),
        context! {
            style => include_str!("page.css"),
            data => Serde(data),
            bars => Serde(bars),
            roofs => Serde(roofs(data, &kernels)),
        },
    )
}

/// Builds a roofline chart: operations per second over operations per byte, both logarithmic, with the limits of memory bandwidth and of
/// computation. Returns `None` if there is nothing to show.
fn roofs(data: &Value, kernels: &[&Value]) -> Option<Value> {
    let peaks = &data["peaks"];
    let (operations, bytes) = (peaks["operations_per_second"].as_f64()?, peaks["bytes_per_second"].as_f64()?);
    let point = |kernel: &&Value| {
        let (flops, of) = (kernel["operations"].as_f64()?, kernel["bytes"].as_f64()?);
        let speed = kernel["operations_per_second"].as_f64()?;
        let is_shown = flops > 0.0 && of > 0.0 && speed > 0.0;
        is_shown.then(|| (kernel["name"].as_str().unwrap_or_default().to_string(), flops / of, speed))
    };
    let points: Vec<(String, f64, f64)> = kernels.iter().filter_map(point).take(SHOWN).collect();
    let ridge = operations / bytes;
    let decades = |values: &[f64]| {
        let least = values.iter().copied().fold(f64::INFINITY, f64::min).log10().floor();
        (least, values.iter().copied().fold(0.0, f64::max).log10().ceil().max(least + 1.0))
    };
    let across = decades(&points.iter().map(|(_, x, _)| *x).chain([ridge / 10.0, ridge * 10.0]).collect::<Vec<_>>());
    let up = decades(&points.iter().map(|(_, _, y)| *y).chain([operations]).collect::<Vec<_>>());
    let x = |value: f64| ROOFS.0 * (value.log10() - across.0) / (across.1 - across.0);
    let y = |value: f64| ROOFS.1 * (1.0 - (value.log10() - up.0) / (up.1 - up.0));
    // The start of the memory line in the chart.
    let start = 10f64.powf(across.0).max(10f64.powf(up.0) / bytes);
    let powers = |(from, to): (f64, f64)| (from as i32..=to as i32).map(|power| 10f64.powi(power)).collect::<Vec<_>>();
    Some(json!({
        "width": ROOFS.0,
        "height": ROOFS.1,
        "line": format!(
            "{:.1},{:.1} {:.1},{:.1} {:.1},{:.1}",
            x(start), y(start * bytes), x(ridge), y(operations), ROOFS.0, y(operations)
        ),
        "points": points.iter().map(|(name, intensity, speed)| json!({
            "name": name, "x": x(*intensity), "y": y(*speed), "intensity": intensity, "speed": speed / 1e9,
        })).collect::<Vec<_>>(),
        "across": powers(across).into_iter().map(|value| json!({ "at": x(value), "value": value })).collect::<Vec<_>>(),
        "up": powers(up).into_iter().map(|value| json!({ "at": y(value), "value": value / 1e9 })).collect::<Vec<_>>(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data() -> Value {
        let kernel = |name: &str, time: f64, operations: Option<u64>| {
            let per_second = operations.map(|n| n as f64 / time);
            json!({
                "name": name, "calls": 1.0, "time": time, "share": 0.5, "operations": operations, "bytes": 4000,
                "operations_per_second": per_second, "bytes_per_second": 4000.0 / time,
            })
        };
        json!({
            "input": "<b>.py", "function": "main", "passes": "no passes", "backend": "x", "threads": 2,
            "peaks": { "operations_per_second": 2e11, "bytes_per_second": 2e10 },
            "runs": { "min": 0.001, "median": 0.002 }, "outside_of_kernels": 0.0001,
            "kernels": [kernel("conv<i>", 0.001, Some(100_000_000)), kernel("copy", 0.0005, Some(0)), kernel("x", 0.1, None)],
            "against": null,
        })
    }

    #[test]
    fn names_are_texts_and_only_kernels_with_operations_are_points() {
        let page = html(&data()).expect("a page");
        assert!(page.contains("conv&lt;i&gt;") && !page.contains("conv<i>") && !page.contains("<b>.py"), "{page}");
        assert_eq!(page.matches("<circle").count(), 1, "{page}");
        assert_eq!(page.matches("<rect class=\"bar\"").count(), 3, "{page}");
    }

    #[test]
    fn without_peaks_there_is_no_chart_of_them() {
        let mut data = data();
        data["peaks"] = Value::Null;
        let page = html(&data).expect("a page");
        assert_eq!((page.matches("<circle").count(), page.matches("<svg").count()), (0, 1), "{page}");
    }

    #[test]
    fn a_point_lies_where_its_numbers_say() {
        let data = data();
        let kernels: Vec<&Value> = data["kernels"].as_array().expect("kernels").iter().collect();
        let roofs = roofs(&data, &kernels).expect("a chart");
        // 25,000 operations per byte, and 10^11 per second: in the ranges 10^0 to 10^5, and 10^11 to 10^12.
        let point = &roofs["points"][0];
        let expected = ROOFS.0 * 25_000f64.log10() / 5.0;
        assert!((point["x"].as_f64().expect("a number") - expected).abs() < 1e-6, "{roofs}");
        assert_eq!(point["y"], ROOFS.1, "{roofs}");
    }
}
