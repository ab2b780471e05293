//! Measures runs, alternating with runs of another program, so that other load on the machine affects both.

use super::against::Opponent;
use super::progress::Progress;
use crate::onnx::session::SessionError;
use crate::run::execute::timed::Times;
use runtime::vm::{Failure, Value};
use std::time::{Duration, Instant};

/// Smallest default number of measured runs.
const FEWEST: usize = 5;
/// Time that the default number of runs takes.
const LONG: Duration = Duration::from_secs(1);
/// Largest default number of runs.
const MOST: usize = 10_000;
/// Approximate time of one program's turn.
const TURN: Duration = Duration::from_millis(200);
/// Pause between turns, after which idle threads of the other program use no processor time.
const PAUSE: Duration = Duration::from_millis(20);

/// Times of the runs.
#[derive(Clone, Debug, Default)]
pub(super) struct Turns {
    /// Time of the first run, which compiles or loads the kernels.
    pub(super) first: Duration,
    pub(super) ours: Vec<Duration>,
    pub(super) theirs: Vec<Duration>,
}

/// The reason why the measurement ended early.
pub(super) enum Stopped {
    Ours(Failure),
    Theirs(SessionError),
}

/// Measures the requested number of runs, by default as many as take about a second. Also returns the result of the
/// last run.
pub(super) fn measured(
    run: &mut dyn FnMut() -> Result<Value, Failure>,
    times: &Times,
    mut opponent: Option<&mut Opponent>,
    (asked, progress): (Option<u32>, &Progress),
) -> Result<(Turns, Value), Stopped> {
    let mut once = || {
        let start = Instant::now();
        let value = run();
        value.map(|value| (start.elapsed(), value)).map_err(Stopped::Ours)
    };
    progress.says("the first run, which compiles or loads code");
    let mut turns = Turns { first: once()?.0, ..Turns::default() };
    // The first run is left out, because it waited for the compiler.
    let (usual, mut value) = once()?;
    let mut their_usual = None;
    if let Some(opponent) = opponent.as_deref_mut() {
        // The first run of onnxruntime is left out, too, because it allocates.
        their_usual = opponent.session.run(2).map_err(Stopped::Theirs)?.pop();
    }
    let runs = asked.map_or_else(|| fitting(LONG, usual).clamp(FEWEST, MOST), |n| n as usize);
    let in_a_turn = fitting(TURN, usual).clamp(1, runs);
    times.restart();
    progress.runs(runs);
    while turns.ours.len() < runs {
        let n = in_a_turn.min(runs - turns.ours.len());
        for _ in 0..n {
            // The values of the previous run are freed outside the measured time.
            drop(value);
            let (took, result) = once()?;
            turns.ours.push(took);
            value = result;
            progress.ran();
        }
        if let Some(opponent) = opponent.as_deref_mut() {
            std::thread::sleep(PAUSE);
            // Unless a number of runs is requested, onnxruntime runs for as long as passhost. If it is faster, it runs
            // more often.
            let fits = their_usual.filter(|_| asked.is_none()).map_or(n, |usual| fitting(TURN, usual).max(n));
            turns.theirs.extend(opponent.session.run(fits).map_err(Stopped::Theirs)?);
            std::thread::sleep(PAUSE);
        }
    }
    Ok((turns, value))
}

/// Returns the number of runs of length `usual` that fit in the time `long`.
fn fitting(long: Duration, usual: Duration) -> usize {
    (long.as_nanos() / usual.as_nanos().max(1)).min(MOST as u128) as usize
}

/// Returns the shortest time and the median.
pub(super) fn least_and_median(times: &[Duration]) -> Option<(Duration, Duration)> {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    Some((*sorted.first()?, *sorted.get(sorted.len() / 2)?))
}
