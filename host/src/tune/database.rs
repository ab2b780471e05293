//! A database of measurements: a text file with one line for each measured schedule of a kernel.
//!
//! The first line is `passhost-tuning 1`. Each other line has the key of a kernel, the processor, the number of threads, the schedule, the
//! outcome, and a checksum of the line, separated by blanks. Files can be joined with `cat`, because the first line may be repeated.
//!
//! A line is written at once, when its measurement ends. If passhost is killed during the write, the last line lacks its end; readers ignore
//! such a line. All other damage is an error.

use crate::files::from_start;
use crate::report::error::Error;
use std::collections::BTreeMap;
use std::fmt;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::xxh3_64;

/// The first word of a database.
const NAME: &str = "passhost-tuning";
/// The version of the format.
const VERSION: &str = "1";
/// Maximum size of a database in bytes.
const LARGEST: u64 = 256 << 20;
/// A schedule is used if it takes at most this share of the time of the usual schedule, in the final comparison.
pub(crate) const USED: f64 = 0.97;
/// As [`USED`], for a schedule that was measured only during the search. The fastest of many noisy measurements is too optimistic.
const USED_UNCHECKED: f64 = 0.85;

/// The measurement of a schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The key of the kernel.
    pub kernel: String,
    /// The name of the processor, and a hash of its features.
    pub processor: String,
    /// The number of threads.
    pub threads: u16,
    /// The schedule.
    pub schedule: String,
    /// The outcome of the measurement.
    pub outcome: Outcome,
}

/// The outcome of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The kernel ran.
    Time {
        /// Nanoseconds of the fastest call.
        nanos: u64,
        /// Nanoseconds of the usual schedule, measured in turns with this one.
        usual: u64,
        /// True for the longer comparison after the search.
        is_final: bool,
    },
    /// The schedule cannot be used.
    Failed(Fate),
}

/// The reason why a schedule cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The pass refused it, or it cannot be compiled or executed.
    Refused,
    /// It gives other results than the usual schedule.
    Differs,
    /// Its process crashed.
    Crashed,
    /// Its process exceeded the time limit.
    TimedOut,
}

impl Fate {
    const ALL: [(Fate, &'static str); 4] = [
        (Fate::Refused, "refused"),
        (Fate::Differs, "differs"),
        (Fate::Crashed, "crashed"),
        (Fate::TimedOut, "timed-out"),
    ];

    /// Returns the word for the reason.
    pub fn name(self) -> &'static str {
        Fate::ALL.into_iter().find(|(one, _)| *one == self).map_or("refused", |(_, name)| name)
    }

    /// Returns the reason with this word.
    pub fn of(name: &str) -> Option<Fate> {
        Fate::ALL.into_iter().find(|(_, one)| *one == name).map(|(fate, _)| fate)
    }
}

impl Record {
    /// Returns the time as a share of the time of the usual schedule, if the kernel ran.
    pub fn ratio(&self) -> Option<f64> {
        match self.outcome {
            Outcome::Time { nanos, usual, .. } => Some(nanos as f64 / usual as f64),
            Outcome::Failed(_) => None,
        }
    }

    /// Returns true for a record of the comparison after the search.
    pub fn is_final(&self) -> bool {
        matches!(self.outcome, Outcome::Time { is_final: true, .. })
    }

    /// Reads a line without its end.
    fn read(line: &str) -> Result<Record, String> {
        let (content, sum) = line.rsplit_once(' ').ok_or("it does not have a checksum")?;
        if sum != checksum(content) {
            return Err("its checksum does not match".to_string());
        }
        let words: Vec<&str> = content.split(' ').collect();
        let [kernel, processor, threads, schedule, outcome] = words[..] else {
            return Err(format!("expected 6 words, found {}", words.len() + 1));
        };
        let is_key = kernel.len() == 16 && kernel.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !is_key || processor.is_empty() || schedule.is_empty() {
            return Err(format!("expected the key of a kernel, a processor and a schedule, found `{content}`"));
        }
        let threads = threads.parse().ok().filter(|threads| *threads > 0);
        Ok(Record {
            kernel: kernel.to_string(),
            processor: processor.to_string(),
            threads: threads.ok_or("the number of threads is wrong")?,
            schedule: schedule.to_string(),
            outcome: outcome_of(outcome).ok_or_else(|| format!("unknown outcome `{outcome}`"))?,
        })
    }
}

fn outcome_of(text: &str) -> Option<Outcome> {
    let (kind, rest) = text.split_once('=')?;
    if kind == "failed" {
        return Fate::of(rest).map(Outcome::Failed);
    }
    let is_final = ["try", "final"].iter().position(|name| *name == kind)? == 1;
    let (nanos, usual) = rest.split_once('/')?;
    let number = |text: &str| text.parse::<u64>().ok().filter(|n| *n > 0);
    Some(Outcome::Time { nanos: number(nanos)?, usual: number(usual)?, is_final })
}

/// Writes the line without its end.
impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Record { kernel, processor, threads, schedule, outcome } = self;
        let outcome = match outcome {
            Outcome::Time { nanos, usual, is_final: true } => format!("final={nanos}/{usual}"),
            Outcome::Time { nanos, usual, is_final: false } => format!("try={nanos}/{usual}"),
            Outcome::Failed(fate) => format!("failed={}", fate.name()),
        };
        let content = format!("{kernel} {processor} {threads} {schedule} {outcome}");
        write!(f, "{content} {}", checksum(&content))
    }
}

fn checksum(content: &str) -> String {
    format!("{:08x}", xxh3_64(content.as_bytes()) as u32)
}

/// A mistake in a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The number of the line, from 1.
    pub line: usize,
    /// The error message.
    pub message: String,
    /// Advice on what to do.
    pub help: String,
}

/// Reads the text of a database. Also returns the number of bytes up to the end of the last complete line.
///
/// # Errors
/// The first mistake.
pub fn read(text: &str) -> Result<(Vec<Record>, usize), Mistake> {
    let whole = text.rfind('\n').map_or(0, |at| at + 1);
    let mut records = Vec::new();
    for (at, line) in text[..whole].lines().enumerate() {
        let wrong = |message: String, help: String| Mistake { line: at + 1, message, help };
        match line.strip_prefix(NAME).and_then(|rest| rest.strip_prefix(' ')) {
            Some(VERSION) => {}
            Some(version) => {
                let message =
                    format!("the version of the database is {version}, but this passhost reads version {VERSION}");
                return Err(wrong(message, "use the passhost that wrote it, or tune the model again".to_string()));
            }
            None if at == 0 => {
                let message = format!("expected `{NAME} {VERSION}`: the file is not a database of `passhost tune`");
                return Err(wrong(message, "create one with `passhost tune MODEL --database FILE`".to_string()));
            }
            None => records.push(Record::read(line).map_err(|why| {
                let help =
                    "the line is damaged; remove it to use the other lines, and tune the model again".to_string();
                wrong(why, help)
            })?),
        }
    }
    if whole == 0 && !NAME.starts_with(text.split(' ').next().unwrap_or_default()) {
        let message = "the file is not a database of `passhost tune`".to_string();
        return Err(Mistake {
            line: 1,
            message,
            help: "create one with `passhost tune MODEL --database FILE`".to_string(),
        });
    }
    Ok((records, whole))
}

/// Reads a database from a file.
///
/// # Errors
/// If the file cannot be read, or is damaged.
pub fn read_file(path: &Path) -> Result<Vec<Record>, Error> {
    let file = File::open(from_start(path)).map_err(|error| unreadable(path, &error))?;
    Ok(read_open(path, &file)?.0)
}

fn read_open(path: &Path, file: &File) -> Result<(Vec<Record>, usize), Error> {
    let mut bytes = Vec::new();
    let length = file.take(LARGEST + 1).read_to_end(&mut bytes).map_err(|error| unreadable(path, &error))?;
    if length as u64 > LARGEST {
        return Err(unreadable(path, &io::Error::other(format!("it is larger than {} MiB", LARGEST >> 20))));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        let line = error.as_bytes()[..valid].iter().filter(|byte| **byte == b'\n').count() + 1;
        let help = "the file is damaged, or not a database of `passhost tune`; tune the model again".to_string();
        mistaken(path, Mistake { line, message: "the line is not UTF-8".to_string(), help })
    })?;
    read(&text).map_err(|mistake| mistaken(path, mistake))
}

fn unreadable(path: &Path, error: &io::Error) -> Error {
    Error::Request {
        message: format!("tuning database {}: {error}", path.display()),
        help: "`passhost tune MODEL --database FILE` creates a database".to_string(),
    }
}

fn mistaken(path: &Path, Mistake { line, message, help }: Mistake) -> Error {
    Error::Request { message: format!("tuning database {}, line {line}: {message}", path.display()), help }
}

/// The chosen schedules of kernels for a processor and a number of threads, each with its share of the time of the usual schedule. They
/// depend only on the records: of several records with the same schedule, the last one counts.
pub fn chosen(records: &[Record], processor: &str, threads: u16) -> BTreeMap<String, (String, f64)> {
    let mut by_kernel: BTreeMap<&str, BTreeMap<&str, &Record>> = BTreeMap::new();
    for record in records.iter().filter(|record| record.processor == processor && record.threads == threads) {
        let known = by_kernel.entry(&record.kernel).or_default().entry(&record.schedule).or_insert(record);
        // A failure is never replaced, and the final comparison only by another one.
        if known.ratio().is_some() && (record.is_final() || !known.is_final() || record.ratio().is_none()) {
            *known = record;
        }
    }
    let best = |of_kernel: BTreeMap<&str, &Record>| {
        let has_final = of_kernel.values().any(|record| record.is_final());
        let limit = if has_final { USED } else { USED_UNCHECKED };
        let timed = of_kernel.into_iter().filter(|(_, record)| record.is_final() == has_final);
        let timed = timed.filter_map(|(schedule, record)| Some((schedule.to_string(), record.ratio()?)));
        timed.filter(|(_, ratio)| *ratio <= limit).min_by(|(_, a), (_, b)| a.total_cmp(b))
    };
    by_kernel.into_iter().filter_map(|(kernel, records)| Some((kernel.to_string(), best(records)?))).collect()
}

/// A database that grows.
pub(crate) struct Database {
    path: PathBuf,
    file: File,
    pub(crate) records: Vec<Record>,
}

impl Database {
    /// Opens a database, or creates it. Removes an incomplete last line.
    ///
    /// # Errors
    /// If the file cannot be written, is damaged, or is used by another process.
    pub(crate) fn open(path: &Path) -> Result<Database, Error> {
        let shown = path.to_path_buf();
        let failed = |error: io::Error| Error::Write { path: shown.clone(), message: error.to_string() };
        let options = OpenOptions::new().read(true).append(true).create(true).clone();
        let mut file = options.open(from_start(path)).map_err(failed)?;
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => {
                let message = format!("tuning database {}: another `passhost tune` uses it", path.display());
                let help = "wait for it, or use another file with --database; `cat` joins databases".to_string();
                return Err(Error::Request { message, help });
            }
            // Not all file systems have locks.
            Err(TryLockError::Error(_)) | Ok(()) => {}
        }
        let (records, whole) = read_open(path, &file)?;
        file.set_len(whole as u64).map_err(failed)?;
        if whole == 0 {
            file.write_all(format!("{NAME} {VERSION}\n").as_bytes()).map_err(failed)?;
        }
        file.seek(SeekFrom::End(0)).map_err(failed)?;
        Ok(Database { path: path.to_path_buf(), file, records })
    }

    /// Appends a record with a single write.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(crate) fn add(&mut self, record: Record) -> Result<(), Error> {
        let written = self.file.write_all(format!("{record}\n").as_bytes());
        written.map_err(|error| Error::Write { path: self.path.clone(), message: error.to_string() })?;
        self.records.push(record);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn record(schedule: &str, outcome: Outcome) -> Record {
        let (kernel, processor) = ("0123456789abcdef".to_string(), "cpu-00000000".to_string());
        Record { kernel, processor, threads: 2, schedule: schedule.to_string(), outcome }
    }

    fn time(nanos: u64, usual: u64, is_final: bool) -> Outcome {
        Outcome::Time { nanos, usual, is_final }
    }

    fn text(records: &[Record]) -> String {
        records.iter().fold(format!("{NAME} {VERSION}\n"), |text, record| format!("{text}{record}\n"))
    }

    fn any_record() -> impl Strategy<Value = Record> {
        let outcome = prop_oneof![
            (1..u64::MAX, 1..u64::MAX, any::<bool>()).prop_map(|(nanos, usual, is_final)| time(nanos, usual, is_final)),
            (0..Fate::ALL.len()).prop_map(|at| Outcome::Failed(Fate::ALL[at].0)),
        ];
        (any::<u64>(), "[!-~]{1,20}", 1..u16::MAX, "[!-~]{1,40}", outcome).prop_map(
            |(key, processor, threads, schedule, outcome)| Record {
                kernel: format!("{key:016x}"),
                processor,
                threads,
                schedule,
                outcome,
            },
        )
    }

    proptest! {
        /// A database is read as it was written. A part of it, as after a write that was cut off, has the records of its complete lines.
        #[test]
        fn any_records_are_read_as_written(records in prop::collection::vec(any_record(), 0..8), cut in any::<prop::sample::Index>()) {
            let whole = text(&records);
            prop_assert_eq!(read(&whole), Ok((records.clone(), whole.len())));
            let part = &whole[..cut.index(whole.len() + 1)];
            let complete = part.matches('\n').count();
            let (found, length) = read(part).expect("a part of a database");
            prop_assert_eq!(&found[..], &records[..complete.saturating_sub(1)]);
            prop_assert_eq!(length, part.rfind('\n').map_or(0, |at| at + 1));
            // Databases can be joined.
            prop_assert_eq!(read(&format!("{whole}{whole}")).expect("two databases").0.len(), 2 * records.len());
        }

        /// No damage is read as another measurement.
        #[test]
        fn a_changed_byte_is_an_error_with_its_line(records in prop::collection::vec(any_record(), 1..4), at in any::<prop::sample::Index>(), byte in b' '..=b'~') {
            let whole = text(&records);
            let at = at.index(whole.len());
            let mut bytes = whole.clone().into_bytes();
            prop_assume!(bytes[at] != byte && bytes[at] != b'\n');
            bytes[at] = byte;
            let mistake = read(&String::from_utf8(bytes).expect("ASCII")).expect_err("a damaged line");
            prop_assert_eq!(mistake.line, whole[..at].matches('\n').count() + 1);
            prop_assert!(!mistake.message.is_empty() && !mistake.help.is_empty());
        }
    }

    #[test]
    fn foreign_files_and_other_versions_are_refused() {
        let good = record("l=16", time(1, 2, false)).to_string();
        for (text, line, message) in [
            ("import tvm\n".to_string(), 1, "expected `passhost-tuning 1`: the file is not a database"),
            ("import tvm".to_string(), 1, "the file is not a database"),
            (format!("{good}\n"), 1, "expected `passhost-tuning 1`"),
            ("passhost-tuning 2\n".to_string(), 1, "version of the database is 2, but this passhost reads version 1"),
            (format!("{NAME} 1\n{good}\n{NAME} 2\n"), 3, "version of the database is 2"),
            (format!("{NAME} 1\n{good}\n\n"), 3, "does not have a checksum"),
            (format!("{NAME} 1\n{good} \n"), 2, "checksum does not match"),
        ] {
            let mistake = read(&text).expect_err(&text);
            assert_eq!(mistake.line, line, "{text}");
            assert!(mistake.message.contains(message), "{}", mistake.message);
        }
        // A valid checksum does not make a line valid.
        for content in
            ["0123 cpu 2 l=16 try=1/2", "0123456789abcdef cpu 0 l=16 try=1/2", "0123456789abcdef cpu 2 l=16 try=0/2"]
        {
            let text = format!("{NAME} 1\n{content} {}\n", checksum(content));
            assert_eq!(read(&text).expect_err(content).line, 2);
        }
        assert_eq!(read(""), Ok((Vec::new(), 0)));
    }

    #[test]
    fn the_fastest_schedule_for_this_processor_is_chosen() {
        let other = |change: fn(&mut Record)| {
            let mut record = record("other", time(1, 100, true));
            change(&mut record);
            record
        };
        let mut records = vec![
            other(|record| record.processor = "cpu-11111111".to_string()),
            other(|record| record.threads = 1),
            record("slow", time(99, 100, false)),
            record("fast", time(80, 100, false)),
            record("faster", time(70, 100, false)),
            record("wrong", time(10, 100, false)),
            record("wrong", Outcome::Failed(Fate::Differs)),
        ];
        let chosen = |records: &[Record]| {
            let mut all = chosen(records, "cpu-00000000", 2);
            let one = all.remove("0123456789abcdef").map(|(schedule, _)| schedule);
            assert!(all.is_empty());
            one
        };
        assert_eq!(chosen(&records).as_deref(), Some("faster"));
        assert_eq!(chosen(&records[..4]).as_deref(), Some("fast"));
        assert_eq!(chosen(&records[..3]), None, "a small gain in one short measurement may be noise");
        // The final comparison decides, also against the schedule.
        records.push(record("fast", time(90, 100, true)));
        assert_eq!(chosen(&records).as_deref(), Some("fast"));
        records.push(record("fast", time(50, 100, false)));
        records.push(record("faster", time(85, 100, true)));
        assert_eq!(chosen(&records).as_deref(), Some("faster"));
        records.push(record("faster", time(99, 100, true)));
        records.push(record("fast", time(98, 100, true)));
        assert_eq!(chosen(&records), None);
    }

    #[test]
    fn an_incomplete_line_is_removed_before_the_next_measurement() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.tuned");
        let records = [record("l=16", time(1, 2, false)), record("l=8", Outcome::Failed(Fate::Crashed))];
        let mut database = Database::open(&path).expect("a new database");
        database.add(records[0].clone()).expect("written");
        let message = Database::open(&path).map(drop).expect_err("used twice").to_string();
        assert!(message.contains("another `passhost tune` uses it"), "{message}");
        drop(database);
        let mut found = std::fs::read(&path).expect("a database");
        found.extend_from_slice(b"0123456789abcdef cpu-0");
        std::fs::write(&path, &found).expect("written");
        let mut database = Database::open(&path).expect("a database that was cut off");
        database.add(records[1].clone()).expect("written");
        drop(database);
        assert_eq!(std::fs::read_to_string(&path).expect("a database"), text(&records));
        // A foreign file does not change.
        std::fs::write(&path, "import tvm\n").expect("written");
        assert!(Database::open(&path).is_err());
        assert_eq!(std::fs::read_to_string(&path).expect("the file"), "import tvm\n");
    }
}
