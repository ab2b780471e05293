//! A cost model with fitted constants: predicts how far the estimated time of a schedule is from the measured time.

use std::collections::{BTreeMap, BTreeSet};

/// Weight of the assumption that the estimates are right.
const RIDGE: f64 = 0.3;

/// Splits a schedule such as `l=16,n=2` into its fields.
pub(super) fn fields(schedule: &str) -> BTreeMap<&str, &str> {
    schedule.split(',').filter_map(|field| field.split_once('=')).collect()
}

/// A linear model of the logarithm of a time, over the logarithms of the numbers in a schedule, their squares and their products.
pub(super) struct Model {
    names: Vec<String>,
    estimates: BTreeMap<String, f64>,
    weights: Vec<f64>,
}

impl Model {
    /// Fits the model to measured schedules. `list` contains schedules with their estimated times.
    pub(super) fn fit(list: &[(String, f64)], measured: &[(String, f64)]) -> Model {
        let names: BTreeSet<&str> = list.iter().flat_map(|(schedule, _)| fields(schedule).into_keys()).collect();
        let names: Vec<String> = names.into_iter().map(str::to_string).collect();
        let first = list.first().map_or(1.0, |(_, time)| time.max(1e-9));
        let estimates: BTreeMap<String, f64> =
            list.iter().map(|(schedule, time)| (schedule.clone(), (time / first).max(1e-9).ln())).collect();
        let mut model = Model { names, estimates, weights: Vec::new() };
        let rows: Vec<Vec<f64>> = measured.iter().map(|(schedule, _)| model.features(schedule)).collect();
        let errors: Vec<f64> =
            measured.iter().map(|(schedule, ratio)| ratio.max(1e-9).ln() - model.estimate(schedule)).collect();
        model.weights = ridge(&rows, &errors);
        model
    }

    /// Predicts the logarithm of the time of a schedule, as a share of the time of the first one.
    pub(super) fn predict(&self, schedule: &str) -> f64 {
        let features = self.features(schedule);
        self.estimate(schedule) + features.iter().zip(&self.weights).map(|(x, w)| x * w).sum::<f64>()
    }

    /// Returns the logarithm of the estimate. A schedule that is not listed has the estimate of the most similar one.
    fn estimate(&self, schedule: &str) -> f64 {
        if let Some(estimate) = self.estimates.get(schedule) {
            return *estimate;
        }
        let own = fields(schedule);
        let common =
            |other: &str| fields(other).into_iter().filter(|(name, value)| own.get(name) == Some(value)).count();
        self.estimates.iter().max_by_key(|(other, _)| common(other)).map_or(0.0, |(_, estimate)| *estimate)
    }

    fn features(&self, schedule: &str) -> Vec<f64> {
        let given = fields(schedule);
        let number = |name: &String| {
            let last = given.get(name.as_str())?.rsplit(':').next()?;
            Some((1.0 + last.parse::<f64>().ok()?).log2())
        };
        let logs: Vec<f64> = self.names.iter().map(|name| number(name).unwrap_or(0.0)).collect();
        let mut out = vec![1.0];
        out.extend(&logs);
        for (at, a) in logs.iter().enumerate() {
            out.extend(logs[at..].iter().map(|b| a * b / 4.0));
        }
        out
    }
}

/// Returns the weights that minimize the squared errors of the predictions, plus their own squares.
fn ridge(rows: &[Vec<f64>], values: &[f64]) -> Vec<f64> {
    let n = rows.first().map_or(0, Vec::len);
    let mut matrix = vec![vec![0.0; n + 1]; n];
    for (i, line) in matrix.iter_mut().enumerate() {
        for (row, value) in rows.iter().zip(values) {
            line.iter_mut().zip(row).for_each(|(sum, x)| *sum += row[i] * x);
            line[n] += row[i] * value;
        }
        line[i] += RIDGE;
    }
    // The matrix is positive definite, so elimination needs no pivots.
    for i in 0..n {
        let (above, below) = matrix.split_at_mut(i + 1);
        let pivot = &above[i];
        for line in below {
            let factor = line[i] / pivot[i];
            line.iter_mut().zip(pivot).for_each(|(x, p)| *x -= factor * p);
        }
    }
    let mut weights = vec![0.0; n];
    for i in (0..n).rev() {
        let known: f64 = (i + 1..n).map(|j| matrix[i][j] * weights[j]).sum();
        weights[i] = (matrix[i][n] - known) / matrix[i][i];
    }
    weights
}
