//! `figure-fault [--full | --smoke] [--seed N]`: kills and stops every kind of process, prints the
//! figure as one JSON object in its last line. Exit code 1 when the oracle objects.

use serde_json::json;
use tests::fault::{self, Config, Events, Report};

struct Size {
    executor: Events,
    ids: u64,
    others: u64,
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.first().is_some_and(|first| first == "role") {
        return role(&args);
    }
    let has = |name: &str| args.iter().any(|arg| arg == name);
    let seed = args.iter().position(|arg| arg == "--seed").and_then(|at| args.get(at + 1));
    let seed: u64 = seed.and_then(|text| text.parse().ok()).unwrap_or_else(time_seed);
    let size = if has("--smoke") {
        Size { executor: Events { kill: 3, stop: 2 }, ids: 1_000, others: 1 }
    } else if has("--full") {
        Size { executor: Events { kill: 330, stop: 100 }, ids: 100_000, others: 20 }
    } else {
        Size { executor: Events { kill: 30, stop: 10 }, ids: 10_000, others: 10 }
    };
    let report = run(seed, &size);
    let canary_failed = canary(seed);
    print(seed, &report, canary_failed);
    let faults = report.faults();
    faults.iter().for_each(|fault| eprintln!("fault: {fault}"));
    std::process::exit(i32::from(!faults.is_empty() || !canary_failed));
}

fn time_seed() -> u64 {
    sys::clock::MonoTime::now().as_ns() % 1_000_000
}

fn config(seed: u64, ids: u64, events: Events, namespace: bool) -> Config {
    Config { seed, ids, events, sabotage: 0, namespace, patience_ms: 30_000 }
}

fn run(seed: u64, size: &Size) -> Report {
    let mut report = Report::default();
    let add = |report: &mut Report, name: &str, more: Report| {
        let faults = more.faults();
        if !faults.is_empty() {
            println!("{name}: {}", faults.join(", "));
        }
        report.add(&more);
    };
    // Executors: most of the load in one session, a smaller one without a PID namespace.
    add(&mut report, "executors", fault::executors(&config(seed, size.ids, size.executor, true)));
    let few = Events { kill: 2, stop: 1 };
    add(&mut report, "executors, no namespace", fault::executors(&config(seed, 200, few, false)));
    for index in 0..size.others {
        let namespace = index % 2 == 0;
        let one = config(seed + index, 300, Events::default(), namespace);
        for target in ["supervisor", "watcher"] {
            add(&mut report, target, fault::supervisor(&one, target, true));
            add(&mut report, target, fault::supervisor(&one, target, false));
        }
        add(
            &mut report,
            "host killed",
            fault::host_killed(&config(seed + index, 100_000, Events::default(), namespace)),
        );
        add(
            &mut report,
            "host stopped",
            fault::host_stopped(&config(seed + index, 2_000, Events::default(), namespace)),
        );
    }
    report
}

/// With the sweep switched off the oracle must object.
fn canary(seed: u64) -> bool {
    let sick = Config {
        sabotage: 1,
        patience_ms: 2_000,
        ..config(seed, 500, Events { kill: 4, stop: 0 }, true)
    };
    !fault::executors(&sick).faults().is_empty()
}

fn print(seed: u64, report: &Report, canary_failed: bool) {
    let figure = json!({
        "seed": seed,
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
        "canary_failed": canary_failed,
    });
    println!("{figure}");
}

fn role(args: &[String]) {
    let number = |index: usize| args.get(index).and_then(|text| text.parse().ok()).unwrap_or(0u64);
    let (Some(tag), Some(namespace)) = (args.get(2), args.get(3)) else { return };
    let mut config = config(number(4), number(5), Events::default(), namespace == "1");
    config.patience_ms = u32::try_from(number(6)).unwrap_or(30_000);
    fault::host_role(&config, tag);
}
