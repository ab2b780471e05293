//! Chooses the schedules to measure next.
//!
//! The first measurements are spread over the estimates of the passes. A linear model of all measurements of the kernel then predicts how far
//! each estimate is from the truth. It chooses among all listed schedules and the neighbours of the fastest one, which differ from it in one
//! field. Nothing is random: the same records lead to the same choice.

use super::database::{Outcome, Record, USED};
use super::kernel::Kernel;
use super::model::{Model, fields};
use std::collections::{BTreeMap, BTreeSet};

/// Separates the schedules of the parts of a kernel.
const BETWEEN: &str = ";";
/// Stands for the usual schedule of a part.
const USUAL: &str = "-";
/// Number of schedules that are measured by one process.
pub(crate) const BATCH: usize = 8;
/// Number of batches without an improvement after which a kernel is done.
const STALE: u32 = 5;
/// Number of refusals after which a field is not tried again.
const REFUSED: usize = 2;
/// An improvement is at least this share of the time.
const IMPROVED: f64 = 0.99;
/// Number of schedules in the final comparison.
const FINALISTS: usize = 3;
/// Schedules that are slower than this are not compared again.
const PROMISING: f64 = 0.98;

/// A kernel during the search.
pub(crate) struct Search {
    pub(crate) kernel: Kernel,
    /// Nanoseconds of the kernel in one run of the model.
    pub(crate) nanos: f64,
    /// The measured schedules, with their share of the time of the usual schedule; `None` if a schedule failed.
    pub(crate) known: BTreeMap<String, Option<f64>>,
    /// The shares in the final comparison, and the nanoseconds of the fastest and of the usual schedule.
    finals: BTreeMap<String, (f64, u64, u64)>,
    /// The lowest time of the usual schedule, in nanoseconds.
    usual: Option<u64>,
    /// Number of batches since the last improvement, and of all batches.
    stale: u32,
    batches: u32,
    /// True if a process measures the kernel.
    pub(crate) is_busy: bool,
    /// True if nothing remains to be measured, or the kernel cannot be measured.
    pub(crate) is_done: bool,
}

impl Search {
    /// Continues the search that led to these records, for this processor and number of threads.
    pub(crate) fn new(kernel: Kernel, nanos: f64, records: &[Record], processor: &str, threads: u16) -> Search {
        let is_own = |record: &&Record| {
            record.kernel == kernel.key && record.processor == processor && record.threads == threads
        };
        let own: Vec<Record> = records.iter().filter(is_own).cloned().collect();
        let mut search = Search {
            kernel,
            nanos,
            known: BTreeMap::new(),
            finals: BTreeMap::new(),
            usual: None,
            stale: 0,
            batches: 0,
            is_busy: false,
            is_done: false,
        };
        for batch in own.chunks(BATCH) {
            let best = search.best();
            batch.iter().for_each(|record| search.add(record));
            search.ended(best);
        }
        search
    }

    /// Adds a record.
    pub(crate) fn add(&mut self, record: &Record) {
        let schedule = record.schedule.clone();
        match record.outcome {
            Outcome::Time { nanos, usual, is_final } => {
                let ratio = nanos as f64 / usual as f64;
                self.usual = Some(self.usual.map_or(usual, |known| known.min(usual)));
                match is_final {
                    true => drop(self.finals.insert(schedule, (ratio, nanos, usual))),
                    false => drop(self.known.insert(schedule, Some(ratio))),
                }
            }
            Outcome::Failed(_) => {
                self.finals.remove(&schedule);
                self.known.insert(schedule, None);
            }
        }
    }

    /// Counts a batch that began when the share of the fastest schedule was `before`.
    pub(crate) fn ended(&mut self, before: f64) {
        self.batches += 1;
        self.stale = if self.best() < IMPROVED * before { 0 } else { self.stale + 1 };
    }

    /// Returns the share of the fastest schedule.
    pub(crate) fn best(&self) -> f64 {
        self.known.values().flatten().copied().fold(1.0, f64::min)
    }

    /// Returns the nanoseconds of the usual schedule, and of the schedule that will be used; `None` if nothing was measured.
    pub(crate) fn compared(&self) -> Option<(u64, u64)> {
        let best = self.finals.values().min_by(|(a, ..), (b, ..)| a.total_cmp(b)).filter(|(ratio, ..)| *ratio <= USED);
        best.map(|(_, nanos, usual)| (*usual, *nanos)).or_else(|| self.usual.map(|usual| (usual, usual)))
    }

    /// Returns the time that the fastest schedule saves in one run of the model.
    pub(crate) fn gain(&self) -> f64 {
        self.nanos * (1.0 - self.best())
    }

    /// Returns the number of measured schedules.
    pub(crate) fn tried(&self) -> usize {
        self.known.len()
    }

    /// Estimates how much another batch is worth: the time of the kernel, less after batches without an improvement.
    pub(crate) fn worth(&self) -> f64 {
        if self.is_done || self.is_busy || self.stale >= STALE {
            return 0.0;
        }
        self.nanos * self.best() * 0.6f64.powi(self.stale as i32) / f64::from(self.batches + 2)
    }

    /// Returns the schedules to compare at the end, unless that happened already.
    pub(crate) fn finalists(&self) -> Vec<String> {
        let mut timed: Vec<(&String, f64)> =
            self.known.iter().filter_map(|(schedule, ratio)| Some((schedule, (*ratio)?))).collect();
        timed.sort_by(|(_, a), (_, b)| a.total_cmp(b));
        let best = timed.into_iter().filter(|(_, ratio)| *ratio < PROMISING).take(FINALISTS);
        best.map(|(schedule, _)| schedule.clone()).filter(|schedule| !self.finals.contains_key(schedule)).collect()
    }

    /// Returns the schedules to measure next; none if all were measured.
    pub(crate) fn next(&self) -> Vec<String> {
        let parts = self.kernel.parts.len();
        let listed: Vec<usize> = (0..parts).filter(|part| !self.kernel.parts[*part].is_empty()).collect();
        // Each batch varies one part of the fastest schedule; if nothing remains for it, the next part.
        (0..listed.len())
            .map(|turn| self.next_of(listed[(self.batches as usize + turn) % listed.len()]))
            .find(|next| !next.is_empty())
            .unwrap_or_default()
    }

    /// Returns schedules that differ from the fastest one only in this part.
    fn next_of(&self, part: usize) -> Vec<String> {
        let base = self.base();
        let whole = |tile: &str| {
            let mut tiles = base.clone();
            tiles[part] = tile.to_string();
            tiles.join(BETWEEN)
        };
        let list = &self.kernel.parts[part];
        let measured = self.measured(part);
        if measured.len() < BATCH {
            // Ranks at growing distances: the best estimates, and some of all others.
            let ranks = [1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233];
            let spread = ranks.into_iter().filter_map(|rank| list.get(rank)).map(|(tile, _)| whole(tile));
            let new: Vec<String> = spread.filter(|schedule| !self.known.contains_key(schedule)).take(BATCH).collect();
            if !new.is_empty() {
                return new;
            }
        }
        let usual = list[0].0.clone();
        let fastest = if base[part] == USUAL { &usual } else { &base[part] };
        let near = self.without_refused(part, neighbours(fastest, list));
        let all: BTreeSet<&String> =
            list.iter().map(|(tile, _)| tile).chain(&near).filter(|tile| **tile != usual).collect();
        let model = Model::fit(list, &measured);
        let mut new: Vec<(f64, &String)> = all
            .into_iter()
            .filter(|tile| !self.known.contains_key(&whole(tile)))
            .map(|tile| (model.predict(tile), tile))
            .collect();
        new.sort_by(|(a, x), (b, y)| a.total_cmp(b).then(x.cmp(y)));
        // Half of the batch are neighbours of the fastest schedule.
        let (close, far): (Vec<_>, Vec<_>) = new.into_iter().partition(|(_, tile)| near.contains(*tile));
        let half = BATCH / 2;
        let from_far = half.max(BATCH - close.len().min(BATCH));
        let chosen = far.iter().take(from_far);
        let rest = BATCH - chosen.len();
        chosen.chain(close.iter().take(rest)).map(|(_, tile)| whole(tile)).collect()
    }

    /// Removes schedules with a field that was refused several times, and never accepted.
    fn without_refused(&self, part: usize, tiles: BTreeSet<String>) -> BTreeSet<String> {
        let mut refused: BTreeMap<&str, usize> = BTreeMap::new();
        let mut accepted: BTreeSet<&str> = BTreeSet::new();
        for (schedule, ratio) in &self.known {
            let given = schedule.split(BETWEEN).nth(part).unwrap_or_default().split(',');
            match ratio {
                Some(_) => accepted.extend(given),
                None => given.for_each(|field| *refused.entry(field).or_default() += 1),
            }
        }
        let is_bad = |field: &str| !accepted.contains(field) && refused.get(field).is_some_and(|n| *n >= REFUSED);
        tiles.into_iter().filter(|tile| !tile.split(',').any(is_bad)).collect()
    }

    /// Returns the parts of the fastest schedule.
    fn base(&self) -> Vec<String> {
        let timed = self.known.iter().filter_map(|(schedule, ratio)| Some((schedule, (*ratio)?)));
        let fastest = timed.filter(|(_, ratio)| *ratio < 1.0).min_by(|(_, a), (_, b)| a.total_cmp(b));
        let usual = || vec![USUAL.to_string(); self.kernel.parts.len()];
        let tiles = fastest.map(|(schedule, _)| schedule.split(BETWEEN).map(str::to_string).collect::<Vec<String>>());
        tiles.filter(|tiles| tiles.len() == self.kernel.parts.len()).unwrap_or_else(usual)
    }

    /// Returns the measured schedules of a part, each with the share of its kernel.
    fn measured(&self, part: usize) -> Vec<(String, f64)> {
        let one = |(schedule, ratio): (&String, &Option<f64>)| {
            let tile = schedule.split(BETWEEN).nth(part).filter(|tile| *tile != USUAL)?;
            Some((tile.to_string(), (*ratio)?))
        };
        self.known.iter().filter_map(one).collect()
    }
}

/// Returns the schedules that differ from this one in one field, whose value occurs in the list.
fn neighbours(of: &str, list: &[(String, f64)]) -> BTreeSet<String> {
    let own = fields(of);
    let mut values: BTreeMap<&str, BTreeSet<Option<&str>>> = BTreeMap::new();
    let names: BTreeSet<&str> = list.iter().flat_map(|(tile, _)| fields(tile).into_keys()).collect();
    for (tile, _) in list {
        let given = fields(tile);
        for name in &names {
            values.entry(name).or_default().insert(given.get(name).copied());
        }
    }
    let mut out = BTreeSet::new();
    for (name, values) in values {
        for value in values.into_iter().filter(|value| *value != own.get(name).copied()) {
            let mut changed = own.clone();
            match value {
                Some(value) => changed.insert(name, value),
                None => changed.remove(name),
            };
            // The fields of a schedule are in the order of their names.
            out.insert(
                changed.into_iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(","),
            );
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use passhost_lang::ir::BodyBuilder;

    /// Returns a kernel with two parts. Its schedules have two numbers, and the estimates prefer a small `a`.
    fn kernel() -> Kernel {
        let mut b = BodyBuilder::new();
        b.begin_function(0, passhost_lang::ir::AttrsId::NONE, None);
        let unit = b.shape(&[]);
        let ty = b.type_of(unit);
        b.end_function(unit, ty);
        let body = b.finish().expect("a function");
        let part: Vec<(String, f64)> = (1..=8)
            .flat_map(|a| (1..=8).map(move |b| (format!("a={a},b={b}"), f64::from(a) + 0.1 * f64::from(b))))
            .collect();
        Kernel {
            names: vec!["f".to_string()],
            key: "0123456789abcdef".to_string(),
            body,
            parts: vec![part.clone(), part],
        }
    }

    /// Measures a schedule: the fastest one is `a=6,b=3` in both parts.
    fn record(schedule: &str) -> Record {
        let distance = |tile: &str| {
            let given = fields(tile);
            let number = |name: &str| given.get(name).and_then(|n| n.parse::<f64>().ok()).unwrap_or(1.0);
            (number("a") - 6.0).abs() + (number("b") - 3.0).abs()
        };
        let all: f64 = schedule.split(BETWEEN).map(distance).sum();
        let usual = 1000 + 100 * 14;
        let outcome = Outcome::Time { nanos: 1000 + (100.0 * all) as u64, usual, is_final: false };
        let (kernel, processor) = ("0123456789abcdef".to_string(), "cpu".to_string());
        Record { kernel, processor, threads: 1, schedule: schedule.to_string(), outcome }
    }

    fn search(records: &[Record]) -> Search {
        Search::new(kernel(), 1e6, records, "cpu", 1)
    }

    #[test]
    fn the_fastest_schedule_of_each_part_is_found() {
        let (mut search, mut n) = (search(&[]), 0);
        while search.worth() > 0.0 {
            let (next, before) = (search.next(), search.best());
            next.iter().for_each(|schedule| search.add(&record(schedule)));
            search.ended(before);
            n += next.len();
        }
        assert_eq!(search.finalists().first().map(String::as_str), Some("a=6,b=3;a=6,b=3"));
        assert!(n < 200, "{n} of 4,096 schedules were measured");
    }

    #[test]
    fn a_search_continues_from_its_records_and_repeats_nothing() {
        let (mut records, mut schedules) = (Vec::new(), BTreeSet::new());
        for _ in 0..12 {
            let next = search(&records).next();
            assert_eq!(next, search(&records).next(), "the same records lead to the same choice");
            for schedule in next {
                records.push(record(&schedule));
                assert!(schedules.insert(schedule), "a schedule is measured twice");
            }
        }
        assert_eq!(search(&records).tried(), records.len());
        assert_eq!(Search::new(kernel(), 1e6, &records, "other", 1).tried(), 0);
    }
}
