//! Measures listing and opening plugins: `cargo bench -p passhost-tests --bench load`.
#![forbid(unsafe_code)]

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group};
use passhost::plugins::lock::Mode;
use passhost::{Engine, Manifest};
use passhost_tests::engine;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Duration;

/// Creates a number of copies of the standard plugins.
fn plugin_files(n: usize) -> (tempfile::TempDir, Vec<PathBuf>) {
    let folder = tempfile::tempdir().expect("a folder");
    let own: Vec<PathBuf> = engine().registry().owners().filter_map(|(_, owner)| owner.file.clone()).collect();
    let copy = |i: usize| {
        let path = folder.path().join(format!("plugin{i}.so"));
        std::fs::copy(&own[i % own.len()], &path).expect("a copy");
        path
    };
    let files = (0..n).map(copy).collect();
    (folder, files)
}

fn load(c: &mut Criterion) {
    let mut group = c.benchmark_group("load");
    group.sample_size(10).measurement_time(Duration::from_secs(1)).warm_up_time(Duration::from_millis(300));
    let list = |file: &PathBuf| passhost::plugins::loader::list(file, None, None).expect("a plugin");
    for n in [1, 10, 100] {
        let (_folder, files) = plugin_files(n);
        group.throughput(Throughput::Elements(n as u64));
        group.bench_function(BenchmarkId::new("metadata of plugins", n), |b| {
            b.iter(|| files.iter().map(list).collect::<Vec<_>>());
        });
    }
    for n in [1, 10, 100] {
        // An opened file stays open, so each round opens its own copies.
        group.throughput(Throughput::Elements(n as u64));
        group.bench_function(BenchmarkId::new("open plugins for the first time", n), |b| {
            b.iter_batched(
                || {
                    let (folder, files) = plugin_files(n);
                    (folder, files.iter().map(list).collect::<Vec<_>>())
                },
                |(folder, listed)| {
                    let open = listed.iter().map(|plugin| passhost::plugins::loader::open(plugin).map(drop));
                    open.collect::<Result<Vec<()>, _>>().expect("plugins open");
                    folder
                },
                criterion::BatchSize::PerIteration,
            );
        });
    }
    let (_folder, files) = plugin_files(1);
    let listed = list(&files[0]);
    group.bench_function("open one (warm)", |b| b.iter(|| passhost::plugins::loader::open(&listed).map(drop)));
    group.finish();
}

/// Measures opening the standard plugins from files with all checks, as `run` does before it parses the module. The
/// files are already open, so that only the checks are measured.
fn checks(c: &mut Criterion) {
    let (folder, files) = plugin_files(engine().registry().owners().count());
    let entry = |file: &PathBuf| format!("[[plugin]]\npath = '{}'\n", file.display());
    let manifest = folder.path().join("passes.toml");
    std::fs::write(&manifest, files.iter().map(entry).collect::<String>()).expect("a manifest");
    let manifest = Manifest::load(&manifest).expect("a manifest");
    let load = |mode: Mode| {
        let engine = Engine::with_lock(&manifest, mode, &()).expect("plugins");
        for (owner, _) in engine.registry().owners() {
            engine.open(owner).expect("a plugin opens");
        }
        engine.lock().record().expect("a lockfile");
    };
    // Hashes of recently changed files are not cached.
    std::thread::sleep(Duration::from_secs(3));
    load(Mode::Update);
    let mut group = c.benchmark_group("load with all checks");
    group.throughput(Throughput::Elements(files.len() as u64));
    for (name, mode) in [
        ("without lockfile", Mode::Off),
        ("hashes remembered", Mode::Update),
        ("first hash", Mode::Renew),
        ("locked", Mode::Locked),
    ] {
        group.bench_function(BenchmarkId::new(name, files.len()), |b| b.iter(|| load(mode)));
    }
    group.finish();
}

criterion_group!(benches, load, checks);

/// Runs the benchmarks in a process with a different cache folder, so that they do not use the user's cache.
fn main() -> ExitCode {
    const CHILD: &str = "PASSHOST_BENCH_LOAD";
    if std::env::var_os(CHILD).is_some() {
        benches();
        Criterion::default().configure_from_args().final_summary();
        return ExitCode::SUCCESS;
    }
    let cache = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(std::env::current_exe().expect("the path of this program"));
    command.args(std::env::args_os().skip(1)).env(CHILD, "1");
    command.env("XDG_CACHE_HOME", cache.path()).env("LOCALAPPDATA", cache.path());
    match command.status() {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}
