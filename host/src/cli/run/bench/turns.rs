//! Runs that are measured, in turns with those of another program, so that what else the machine does hits both.

use super::against::Opponent;
use super::progress::Progress;
use crate::onnx::session::SessionError;
use crate::run::execute::timed::Times;
use runtime::vm::{Failure, Value};
use std::time::{Duration, Instant};

/// At least so many runs are measured, ...
const FEWEST: usize = 5;
/// ... as many as take so long, ...
const LONG: Duration = Duration::from_secs(1);
/// ... and at most so many.
const MOST: usize = 10_000;
/// One program runs about so long before it is the other one's turn.
const TURN: Duration = Duration::from_millis(200);
/// Threads that wait for work stop to take time after this.
const PAUSE: Duration = Duration::from_millis(20);

/// How long each run took.
#[derive(Clone, Debug, Default)]
pub(super) struct Turns {
    /// The first run, which makes or loads the code of kernels.
    pub(super) first: Duration,
    pub(super) ours: Vec<Duration>,
    pub(super) theirs: Vec<Duration>,
}

/// Why there are no more runs.
pub(super) enum Stopped {
    Ours(Failure),
    Theirs(SessionError),
}

/// Measures runs: as many as are asked for, or as take about a second. Gives the result of the last one, too.
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
    progress.says("the first run, which makes or loads code");
    let mut turns = Turns { first: once()?.0, ..Turns::default() };
    // The first run waited for the compiler.
    let (usual, mut value) = once()?;
    let mut their_usual = None;
    if let Some(opponent) = opponent.as_deref_mut() {
        // The first one of theirs allocates, too.
        their_usual = opponent.session.run(2).map_err(Stopped::Theirs)?.pop();
    }
    let runs = asked.map_or_else(|| fitting(LONG, usual).clamp(FEWEST, MOST), |n| n as usize);
    let in_a_turn = fitting(TURN, usual).clamp(1, runs);
    times.restart();
    progress.runs(runs);
    while turns.ours.len() < runs {
        let n = in_a_turn.min(runs - turns.ours.len());
        for _ in 0..n {
            // The values of the run before are freed outside of the measured time.
            drop(value);
            let (took, result) = once()?;
            turns.ours.push(took);
            value = result;
            progress.ran();
        }
        if let Some(opponent) = opponent.as_deref_mut() {
            std::thread::sleep(PAUSE);
            // A faster program runs as long, not as often, unless the number of runs was asked for.
            let fits = their_usual.filter(|_| asked.is_none()).map_or(n, |usual| fitting(TURN, usual).max(n));
            turns.theirs.extend(opponent.session.run(fits).map_err(Stopped::Theirs)?);
            std::thread::sleep(PAUSE);
        }
    }
    Ok((turns, value))
}

/// How many runs of this length take so long.
fn fitting(long: Duration, usual: Duration) -> usize {
    (long.as_nanos() / usual.as_nanos().max(1)).min(MOST as u128) as usize
}

/// The least of some times, and the one in their middle.
pub(super) fn least_and_median(times: &[Duration]) -> Option<(Duration, Duration)> {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    Some((*sorted.first()?, *sorted.get(sorted.len() / 2)?))
}
