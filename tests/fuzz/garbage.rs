//! Real processes that are given garbage: control segments, load files, models, plans. Each ends by
//! itself, with an exit code and a text, not by a signal; what happens to be sound after all runs
//! until it is asked to end.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use executor_core::layout::{GroupConfig, Layout, PartitionConfig, PoolConfig};
use executor_core::owner::SlotId;
use executor_core::primitive::Ordering;
use executor_core::queue::{QueueConfig, QueueFlags};
use executor_rt::attach::{Attached, Created, Role, attach, create};
use executor_rt::plan::{NodePlan, Restart, RestartWhen, SupervisorPlan, process_state};
use executor_rt::proto::{
    BatchLoadModelMessage, LoadModelRequest, ModelQueuesAttrs, NodeOptions, QueueAttrs, UdfDef,
    UdfModelDef,
};
use prost::Message;
use sys::clock::MonoTime;
use sys::memfd;
use sys::pidfd::{Event, PidFd};
use sys::poll::{Events, PollFd, poll};
use sys::signal::Signal;
use sys::socket;
use sys::spawn::{Child, Spawn};
use tests::flows;
use tests::random::Random;

use crate::survivors::Watchdog;

const WATCHDOG: Duration = Duration::from_secs(120);

fn group() -> Created {
    let pools = [PoolConfig { block_size: 4096, block_count: 8 }];
    let partition = PartitionConfig { pools: &pools, extra_entries: 8 };
    let partitions = [partition; 3];
    let config = GroupConfig {
        name: "fuzz",
        partitions: &partitions,
        workers: 2,
        lanes: 4,
        heads: 4,
        ring_words: 64,
        queues: 4,
    };
    create(&config, false).unwrap()
}

/// Started with these descriptors under these names; what it wrote to stderr.
fn start(
    name: &str,
    args: &[String],
    env: &[(&str, String)],
    files: &[BorrowedFd<'_>],
) -> (Child, OwnedFd) {
    let log = memfd::append_log("fuzz-log").unwrap();
    let env: Vec<(String, String)> =
        env.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    let child = Spawn {
        program: &flows::program(name),
        args,
        env: &env,
        inherit: files,
        stdin: None,
        stdout: None,
        stderr: Some(log.as_fd()),
        death_signal: Some(Signal::KILL),
    }
    .spawn()
    .unwrap();
    (child, log)
}

fn text(log: &OwnedFd) -> String {
    String::from_utf8_lossy(&memfd::read_all(log).unwrap()).into_owned()
}

/// Waits for the end; asks a process that became ready to end.
fn end(child: &Child, is_ready: impl Fn() -> bool) -> (Event, bool) {
    let mut asked = false;
    loop {
        let look = MonoTime::now().add_ms(5);
        let ended = poll(&mut [PollFd::new(&child.pidfd, Events::IN)], Some(look));
        if ended.is_ok_and(|count| count > 0) {
            return (child.pidfd.wait_end().unwrap(), asked);
        }
        if !asked && is_ready() {
            asked = true;
            let _ = child.pidfd.signal(Signal::TERM);
        }
    }
}

#[track_caller]
fn assert_refused(event: Event, asked: bool, log: &str, what: &str) {
    match event {
        Event::Exited(0) => assert!(asked, "{what}: exit code 0\n{log}"),
        Event::Exited(code) => {
            assert!(code != 101 && code != 134, "{what}: panic\n{log}");
            assert!(!log.trim().is_empty(), "{what}: exit code {code} without a text");
        }
        other => panic!("{what}: {other:?}\n{log}"),
    }
}

/// Bytes with some of them replaced, cut off or doubled.
fn mutated(random: &mut Random, bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    match random.below(8) {
        0 => bytes.truncate(random.index(bytes.len() + 1)),
        1 => bytes.extend_from_within(..random.index(bytes.len() + 1)),
        2 => bytes.iter_mut().for_each(|byte| *byte = random.word().to_le_bytes()[0]),
        _ => {
            for _ in 0..=random.below(4) {
                let (at, bit) = (random.index(bytes.len()), random.below(8));
                let all = bytes.len();
                if let Some(byte) = bytes.get_mut(at % all.max(1)) {
                    *byte = [*byte ^ 1 << bit, 0xFF, 0, 0x80][random.index(4)];
                }
            }
        }
    }
    bytes
}

/// A control segment with a damaged header section, and words of what was done.
fn damaged(random: &mut Random, good: &Created) -> (OwnedFd, String) {
    let mut bytes = memfd::read_all(&good.control).unwrap();
    let tables = usize::try_from(good.layout.status).unwrap();
    let what = match random.below(6) {
        0 => {
            let len = random.index(bytes.len());
            bytes.truncate(len);
            format!("cut to {len} bytes")
        }
        1 => {
            bytes[8..12]
                .copy_from_slice(&u32::try_from(2 + random.below(9)).unwrap().to_le_bytes());
            "a newer version".to_owned()
        }
        2 => {
            let len = random.index(1 << 16);
            bytes = (0..len).map(|_| random.word().to_le_bytes()[0]).collect();
            format!("{len} random bytes")
        }
        3 => {
            // Counts and the hash that fits them: only the tables can tell.
            let at = 40 + 4 * random.index(8);
            let value =
                [0, 1, u32::MAX, u32::try_from(random.below(1 << 16)).unwrap()][random.index(4)];
            bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
            rehash(&mut bytes);
            format!("count at {at} is {value}")
        }
        _ => {
            let at = random.index(tables) & !7;
            let value =
                [random.word(), random.below(64), 1 << random.below(64), 0][random.index(4)];
            bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
            format!("{value:#x} at {at}")
        }
    };
    (segment(&bytes), what)
}

/// A control segment of these bytes, sealed in size only.
fn segment(bytes: &[u8]) -> OwnedFd {
    let file = memfd::create("dflow-control", bytes.len() as u64).unwrap();
    memfd::seal_size(&file).unwrap();
    let file = File::from(file);
    file.write_all_at(bytes, 0).unwrap();
    file.into()
}

/// Puts the hash and the length that the counts call for.
fn rehash(bytes: &mut [u8]) {
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let counts = executor_core::layout::Counts {
        slots: word(40),
        workers: word(44),
        lanes: word(48),
        heads: word(52),
        ring_words: word(56),
        queues: word(60),
        entries: word(64),
        pools: word(68),
    };
    let small =
        [counts.slots, counts.workers, counts.lanes, counts.heads, counts.queues, counts.pools];
    if small.into_iter().chain([counts.entries, counts.ring_words]).any(|n| n > 1 << 16) {
        return;
    }
    let arena_len = u64::from_le_bytes(bytes[32..40].try_into().unwrap());
    let layout = Layout::from_counts(counts, arena_len);
    bytes[16..24].copy_from_slice(&layout.hash().to_le_bytes());
    bytes[24..32].copy_from_slice(&layout.control_len.to_le_bytes());
}

fn executor_env(control: i32, arena: i32) -> [(&'static str, String); 5] {
    [
        ("DFLOW_CONTROL_FD", control.to_string()),
        ("DFLOW_ARENA_FD", arena.to_string()),
        ("DFLOW_SLOT", "1".to_owned()),
        ("DFLOW_GENERATION", "1".to_owned()),
        ("DFLOW_NODE", "fuzz".to_owned()),
    ]
}

fn executor_args(load: &str) -> Vec<String> {
    let words = ["--device_id=0", load, "--group_name=g"];
    words.into_iter().map(str::to_owned).collect()
}

fn for_seeds(what: &str, seconds: u64, mut one: impl FnMut(&mut Random)) {
    let limit = Duration::from_secs(if crate::is_full() { 60 } else { seconds });
    let (begun, mut count) = (Instant::now(), 0u64);
    while count < 8 || begun.elapsed() < limit {
        let seed = crate::first_seed() + count;
        let _watchdog = Watchdog::new(WATCHDOG, format!("{what} with seed {seed}"));
        one(&mut Random::new(seed));
        count += 1;
    }
    println!("{what}: {count} seeds");
}

#[test]
fn control_segments() {
    let good = group();
    for_seeds("control segments", 5, |random| {
        let (control, what) = damaged(random, &good);
        // A tool only reads, the supervisor writes nearly everything, a member its part.
        for role in [Role::Reader, Role::Supervisor, Role::Member(SlotId(1))] {
            if let Ok(attached) = attach(control.as_fd(), good.arena.as_fd(), role) {
                let _ = executor_core::inspect::usage(&attached.group);
                attached.retire().unwrap();
            }
        }
        let env = executor_env(control.as_raw_fd(), good.arena.as_raw_fd());
        let args = executor_args("--load_path=/nothing");
        let files = [control.as_fd(), good.arena.as_fd()];
        let (child, log) = start("udf-executor", &args, &env, &files);
        let (event, asked) = end(&child, || false);
        assert_refused(event, asked, &text(&log), &what);
    });
}

#[test]
fn a_newer_control_segment_is_named() {
    let good = group();
    let mut bytes = memfd::read_all(&good.control).unwrap();
    bytes[8..12].copy_from_slice(&9u32.to_le_bytes());
    let control = segment(&bytes);
    let env = executor_env(control.as_raw_fd(), good.arena.as_raw_fd());
    let files = [control.as_fd(), good.arena.as_fd()];
    let (child, log) = start("udf-executor", &executor_args("--load_path=/nothing"), &env, &files);
    let (event, _) = end(&child, || false);
    let log = text(&log);
    assert!(matches!(event, Event::Exited(code) if code != 0), "{event:?}");
    assert!(log.contains("version") && log.contains("14614537"), "{log}");
}

fn host_of(created: &Created) -> &'static Attached {
    attach(created.control.as_fd(), created.arena.as_fd(), Role::Member(SlotId(0))).unwrap()
}

/// An input and an output queue of slot 1.
fn make_queues(host: &'static Attached) {
    let worker = host.worker(0, 1).unwrap();
    for (name, consumer, ready_bit) in [("in", 1, 0), ("out", 0, 0)] {
        let config = QueueConfig {
            name,
            depth: 4,
            flags: QueueFlags::empty(),
            consumer: SlotId(consumer),
            consumer_waiter: 0,
            ready_bit,
        };
        let id = host.group.memory.create_queue(&worker, &config).unwrap();
        let to = SlotId(1 - consumer);
        let rights = executor_core::queue::Rights::WRITE;
        host.group.memory.grant_queue(&worker, id, to, rights).unwrap();
    }
}

fn load_message(model: i32) -> Vec<u8> {
    let queue =
        |id: u32| vec![QueueAttrs { queue_id: id, device_type: 1, device_id: 0, logic_id: id }];
    let request = LoadModelRequest {
        root_model_id: 1,
        model_id: 1,
        model_path: format!("/proc/self/fd/{model}"),
        replica_num: 1,
        execute_times: -1,
        model_queues_attrs: Some(ModelQueuesAttrs {
            input_queues_attrs: queue(0),
            output_queues_attrs: queue(1),
        }),
        node_options: Some(NodeOptions {
            library_path: flows::library().display().to_string(),
            // A mutated number of a queue is waited for this long at most.
            init_timeout_ms: 100,
            ..NodeOptions::default()
        }),
        ..LoadModelRequest::default()
    };
    BatchLoadModelMessage { models: vec![request], root_model_id: 1, ..Default::default() }
        .encode_to_vec()
}

#[test]
fn load_files_and_models() {
    let model = UdfModelDef {
        udf_def: vec![UdfDef {
            name: "node".to_owned(),
            bin_name: "libfaultfuncs.so".to_owned(),
            func_name: "pass".to_owned(),
            ..UdfDef::default()
        }],
    }
    .encode_to_vec();
    for_seeds("load files and models", 5, |random| {
        let created = group();
        let host = host_of(&created);
        make_queues(host);
        let bad_model = random.below(2) == 0;
        let model = if bad_model { mutated(random, &model) } else { model.clone() };
        let model = memfd::from_bytes("model", &model).unwrap();
        let load = load_message(model.as_raw_fd());
        let load = if bad_model { load } else { mutated(random, &load) };
        let load = memfd::from_bytes("load", &load).unwrap();
        let env = executor_env(created.control.as_raw_fd(), created.arena.as_raw_fd());
        let path = format!("--load_path=/proc/self/fd/{}", load.as_raw_fd());
        let files = [created.control.as_fd(), created.arena.as_fd(), load.as_fd(), model.as_fd()];
        let (child, log) = start("udf-executor", &executor_args(&path), &env, &files);
        let ctl = host.group.memory.private(1).unwrap().ctl;
        let begun = MonoTime::now();
        let ready = || {
            let state = ctl.state.load(Ordering::Acquire);
            let runs = (process_state::READY_MIN..process_state::STARTING).contains(&state);
            // A mutated number of a queue: its grant is waited for.
            runs || MonoTime::now().since_ns(begun) > 1_000_000_000
        };
        let (event, asked) = end(&child, ready);
        assert_refused(event, asked, &text(&log), "load");
        host.retire().unwrap();
    });
}

fn good_plan() -> Vec<u8> {
    let restart = Restart {
        when: RestartWhen::OnFailure,
        max: 2,
        backoff_ms: 1,
        backoff_max_ms: 8,
        window_ms: 0,
    };
    let node = |slot| NodePlan {
        slot,
        name: format!("node{slot}"),
        program: "/bin/sh".to_owned(),
        args: vec!["-c".to_owned(), "exit 1".to_owned()],
        env: Vec::new(),
        inherit: Vec::new(),
        stdout_fd: 1,
        stderr_fd: 2,
        restart,
        init_timeout_ms: 100,
        stall_ms: 100,
        cpu: None,
        also: Vec::new(),
    };
    let plan = SupervisorPlan {
        version: SupervisorPlan::VERSION,
        flow: "fuzz".to_owned(),
        nodes: vec![node(1), node(2)],
        lock_stall_ms: 100,
        namespace: false,
        log_keep_bytes: 1 << 20,
        log_fds: Vec::new(),
        sabotage: 0,
    };
    serde_json::to_vec(&plan).unwrap()
}

#[test]
fn supervisor_plans_and_groups() {
    let good = group();
    let plan = good_plan();
    for_seeds("supervisor plans and groups", 5, |random| {
        let bad_plan = random.below(2) == 0;
        let plan = if bad_plan { mutated(random, &plan) } else { plan.clone() };
        let (control, what) = if bad_plan {
            let control = memfd::read_all(&good.control).unwrap();
            (segment(&control), "plan".to_owned())
        } else {
            damaged(random, &good)
        };
        let file = memfd::from_bytes("dflow-plan", &plan).unwrap();
        let (_ours, theirs) = socket::seqpacket_pair().unwrap();
        let host = PidFd::of_self().unwrap();
        let given = [
            ("DFLOW_PLAN_FD", file.as_fd()),
            ("DFLOW_CONTROL_FD", control.as_fd()),
            ("DFLOW_ARENA_FD", good.arena.as_fd()),
            ("DFLOW_HOST_PIDFD", host.as_fd()),
            ("DFLOW_COMMAND_FD", theirs.as_fd()),
        ];
        let env = given.map(|(name, fd)| (name, fd.as_raw_fd().to_string()));
        let files = given.map(|(_, fd)| fd);
        let (child, log) = start("dflow-supervisor", &["--watcher".to_owned()], &env, &files);
        // One that accepts its plan serves until it is asked to end.
        let begun = MonoTime::now();
        let (event, asked) = end(&child, || MonoTime::now().since_ns(begun) > 300_000_000);
        let log = text(&log);
        if asked {
            // Asked before it listened, or after: both end it, and the panic's codes do not.
            let term = matches!(event, Event::Signalled { signal: Signal::TERM, .. });
            let ended = matches!(event, Event::Exited(0..=100) | Event::Exited(137));
            assert!(term || ended, "{what}: {event:?}\n{log}");
        } else {
            assert_refused(event, asked, &log, &what);
        }
        assert!(!log.contains("panicked"), "{what}: {log}\n{}", String::from_utf8_lossy(&plan));
    });
}
