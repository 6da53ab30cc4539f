//! `figure-alloc`: calls of the malloc family by the runtime of real executors, after `seal`.
//!
//! Messages go through a flow of all kinds of nodes: one that allocates its output, one that
//! forwards, one with two instances, a join of two inputs. A feeder and a fetcher run at once, so
//! queues are full and empty in turn. Each executor counts by interposition and publishes what it
//! counted. `user` is what the functions and their libraries allocated, apart.
//!
//! `counter_counts`: in a second session `DFLOW_ALLOCATE_ONCE` makes each executor allocate once in
//! runtime code after `seal`; true when exactly that was counted in each. The host is not counted:
//! a session allocates, and is not on the way between executors.

use benches::Failure;
use benches::args::Args;
use benches::flow::{deploy_with, feed, fetch, graph, message, node};
use benches::report::Report;
use dflow::{FlowGraph, Session};
use serde_json::Value;

/// Messages of the measured session.
const MESSAGES: u64 = 120_000;

/// Messages of the session that shows that the counter counts.
const DELIBERATE: u64 = 200;

/// Payload.
const BYTES: usize = 256;

/// Makes an executor allocate once after `seal`.
const SWITCH: &str = "DFLOW_ALLOCATE_ONCE";

fn main() -> Result<(), Failure> {
    if benches::play_role()? {
        return Ok(());
    }
    let args = Args::from_env()?;
    let messages = if args.full { 10 * MESSAGES } else { MESSAGES };
    let counts = run(false, messages)?;
    let deliberate = run(true, DELIBERATE)?;
    let mut report = Report::new("alloc");
    report.put("messages", messages);
    for absent in ["npu_executor", "host_cpu_executor", "udf_executor_cpp"] {
        report.put(absent, Value::Null);
    }
    report.put("udf_executor_rust", counts.iter().map(|counts| counts.runtime).sum::<u64>());
    report.put("user", counts.iter().map(|counts| counts.user).sum::<u64>());
    report.put("setup", counts.iter().map(|counts| counts.setup).sum::<u64>());
    report.put("executors", counts.len());
    report.put("counter_counts", deliberate.iter().all(|counts| counts.runtime == 1));
    report.print()?;
    Ok(())
}

/// What one executor counted.
struct Counts {
    setup: u64,
    runtime: u64,
    user: u64,
}

fn flow() -> Result<FlowGraph, Failure> {
    let core = sys::affinity::current_cpu();
    let node = |function: &str, from: &str| -> Result<_, Failure> {
        let mut node = node(function, from, BYTES as u64, core)?;
        // Where it runs does not matter here.
        node.cpu.clear();
        Ok(node)
    };
    let first = node("pass", "in")?;
    let (left, right) = (node("pass", "first.out")?, node("forward", "first.out")?);
    let join = node("join", "left.out")?.input("other", "right.out");
    Ok(graph("alloc", BYTES as u64)
        .node("first", first)
        .node("left", left)
        .node("right", right)
        .node("join", join)
        .node("twins", node("forward", "join.out")?.instances(2))
        .output("out", "twins.out"))
}

fn run(deliberate: bool, messages: u64) -> Result<Vec<Counts>, Failure> {
    let session = deploy_with(flow()?, |plan| {
        for executor in plan.executors.iter_mut().filter(|_| deliberate) {
            // A graph file can't set a variable of the runtime; a plan can.
            executor.env.insert(SWITCH.to_owned(), "1".to_owned());
        }
    })?;
    std::thread::scope(|scope| {
        let session = &session;
        let feeder = scope.spawn(move || feed_all(session, messages));
        for _ in 0..messages {
            let _result = fetch(session)?;
        }
        feeder.join().map_err(|_| "the feeder panicked")?.map_err(Failure::from)
    })?;
    let nodes = session.nodes();
    session.close();
    let counts = nodes.iter().map(|node| {
        let (setup, runtime, user) = node.allocations;
        Counts { setup, runtime, user }
    });
    Ok(counts.collect())
}

fn feed_all(session: &Session, messages: u64) -> Result<(), String> {
    for id in 1..=messages {
        feed(session, message(id, BYTES)).map_err(|error| error.to_string())?;
    }
    Ok(())
}
