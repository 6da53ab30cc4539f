//! `figure-fault [--full | --smoke] [--seed N]`: kills and stops every kind of process while two
//! flows work, prints the figure as one JSON object in its last line. Exit code 1 when the oracle
//! objects, or when something is not built.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tests::fault::{self, Config, Diamond, Events, Pages, Report, Subject};

/// What one flow goes through.
struct Size {
    /// Kills and stops of each executor in the main session, and its ids at least.
    executor: Events,
    ids: u64,
    /// The same in a session without a PID namespace, in which nothing is redelivered.
    bare: Events,
    bare_ids: u64,
    /// Sessions for each kill and stop of supervisor, watcher and host.
    others: u64,
    /// Ids of a session whose supervisor or watcher, or whose host is harassed.
    keeper_ids: u64,
    host_ids: u64,
}

impl Size {
    /// Of the test functions' flow and of the page-orientation flow.
    fn of(args: &[String]) -> (Size, Size) {
        let has = |name: &str| args.iter().any(|arg| arg == name);
        let events = |kill, stop| Events { kill, stop };
        let (executor, ids, others, model, model_others) = if has("--smoke") {
            (events(3, 2), 1_000, 1, events(3, 2), 1)
        } else if has("--full") {
            (events(330, 100), 100_000, 20, events(110, 40), 10)
        } else {
            (events(30, 10), 10_000, 10, events(20, 6), 4)
        };
        let few = events(2, 1);
        let diamond = Size {
            executor,
            ids,
            bare: few,
            bare_ids: 200,
            others,
            keeper_ids: 300,
            host_ids: 2_000,
        };
        let pages = Size {
            executor: model,
            ids: 60,
            bare: if has("--smoke") { few } else { model },
            bare_ids: 20,
            others: model_others,
            keeper_ids: 16,
            host_ids: 16,
        };
        (diamond, pages)
    }
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.first().is_some_and(|first| first == "role") {
        return role(&args);
    }
    let seed = args.iter().position(|arg| arg == "--seed").and_then(|at| args.get(at + 1));
    let seed: u64 = seed.and_then(|text| text.parse().ok()).unwrap_or_else(time_seed);
    let folder = pages_folder();
    let done = Pages::make(&folder).map(|pages| figure(seed, &Size::of(&args), &pages));
    let _gone = std::fs::remove_dir_all(&folder);
    let sound = done.unwrap_or_else(|error| {
        eprintln!("figure-fault: the page-orientation flow: {error}");
        false
    });
    std::process::exit(i32::from(!sound));
}

/// Measures and prints; true when the oracle has nothing to object to and caught the canaries.
fn figure(seed: u64, sizes: &(Size, Size), pages: &Pages) -> bool {
    let reports = [run(&Diamond, seed, &sizes.0), run(pages, seed, &sizes.1)];
    let canary_failed = canaries(seed, pages);
    let mut sum = Report::default();
    reports.iter().for_each(|report| sum.add(report));
    let mut figure = object(&sum);
    figure["seed"] = json!(seed);
    figure["canary_failed"] = json!(canary_failed);
    figure["orientation"] = object(&reports[1]);
    println!("{figure}");
    let faults = sum.faults();
    faults.iter().for_each(|fault| eprintln!("fault: {fault}"));
    faults.is_empty() && canary_failed
}

fn time_seed() -> u64 {
    sys::clock::MonoTime::now().as_ns() % 1_000_000
}

/// Beside this program, which lies in a build directory; another run has its own.
fn pages_folder() -> PathBuf {
    let name = format!("figure-fault-pages-{}", std::process::id());
    std::env::current_exe().unwrap_or_default().with_file_name(name)
}

fn run(subject: &dyn Subject, seed: u64, size: &Size) -> Report {
    let mut sum = Report::default();
    let mut add = |name: &str, more: Report| {
        let faults = more.faults();
        if !faults.is_empty() {
            println!("{}, {name}: {}", subject.name(), faults.join(", "));
        }
        sum.add(&more);
    };
    let config = |seed, ids, events| Config::of(subject, seed, ids, events);
    add("executors", fault::executors(&config(seed, size.ids, size.executor)));
    let bare =
        Config { namespace: false, redeliver: false, ..config(seed + 1, size.bare_ids, size.bare) };
    add("executors, no namespace", fault::executors(&bare));
    for index in 0..size.others {
        let one = |ids| Config {
            namespace: index % 2 == 0,
            ..config(seed + index, ids, Events::default())
        };
        for target in ["supervisor", "watcher"] {
            for kill in [true, false] {
                add(target, fault::supervisor(&one(size.keeper_ids), target, kill));
            }
        }
        add("host killed", fault::host_killed(&one(100_000)));
        add("host stopped", fault::host_stopped(&one(size.host_ids)));
    }
    sum
}

/// With the sweep switched off, or other results expected, the oracle must object.
fn canaries(seed: u64, pages: &Pages) -> bool {
    let objects = |name: &str, config: &Config<'_>| {
        let faults = fault::executors(config).faults();
        println!("canary, {name}: {}", if faults.is_empty() { "not caught" } else { "caught" });
        !faults.is_empty()
    };
    let sick = |subject, ids| Config {
        sabotage: 1,
        patience_ms: 2_000,
        ..Config::of(subject, seed, ids, Events { kill: 4, stop: 0 })
    };
    let wrong = pages.with_wrong_answers();
    let caught = [
        objects("no sweep", &sick(&Diamond, 500)),
        objects("no sweep, with a model", &sick(pages, 16)),
        objects("wrong results", &Config::of(&wrong, seed, 4, Events::default())),
    ];
    caught.iter().all(|caught| *caught)
}

fn object(report: &Report) -> Value {
    json!({
        "events": report.events,
        "kills": report.kills(),
        "fed": report.fed,
        "terminal": report.terminal,
        "coded": report.coded,
        "late": report.late,
        "duplicates": report.duplicates,
        "torn": report.torn,
        "leaked_mbufs": report.leaked_mbufs,
        "leaked_blocks": report.leaked_blocks,
        "orphans": report.orphans,
        "files_left": report.files_left,
        "hangs": report.hangs,
    })
}

/// The host of a session, in a child process.
fn role(args: &[String]) {
    let number = |index: usize| args.get(index).and_then(|text| text.parse().ok()).unwrap_or(0u64);
    let (Some(tag), Some(namespace)) = (args.get(2), args.get(3)) else { return };
    let pages = args.get(7).map(|folder| Pages::open(Path::new(folder)));
    let pages = pages.transpose().unwrap_or_else(|error| panic!("{error}"));
    let subject: &dyn Subject = pages.as_ref().map_or(&Diamond, |pages| pages);
    let config = Config {
        namespace: namespace == "1",
        patience_ms: u32::try_from(number(6)).unwrap_or(30_000),
        ..Config::of(subject, number(4), number(5), Events::default())
    };
    fault::host_role(&config, tag);
}
