//! `dflow run` from one end to the other: real processes, real files. Needs the programs and the
//! library that [`library`] names.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdout, Stdio};

use dflow::tools;
use sys::pidfd::PidFd;
use sys::signal::Signal;

use super::support::{Folder, command, dflow, library};

#[test]
fn files_come_out_as_lines_and_files() {
    let folder = Folder::new("lines");
    let nodes = [("one", "identity"), ("two", "panic-on-odd")];
    let graph = folder.chain("lines", &nodes, &library());
    for (name, size) in [("in/a.bin", 8), ("in/b.bin", 16), ("in/sub/c.bin", 24)] {
        folder.file(name, &vec![b'x'; size]);
    }
    folder.file("in/sub/d.bin", &[b'y'; 5000]);
    let input = format!("file={}", folder.path("in"));
    let (out_dir, log_dir) = (folder.path("out"), folder.path("logs"));
    let args = [
        "run",
        &graph,
        "--input",
        &input,
        "--recursive",
        "--out",
        &out_dir,
        "--keep-logs",
        &log_dir,
    ];
    let (output, out, err) = dflow(&[&args[..], &["--stats"]].concat());
    assert_eq!(output.status.code(), Some(3), "{out}{err}");
    let mut lines: Vec<&str> = out.lines().collect();
    lines.sort_unstable();
    let field = |line: usize, field: usize| lines[line].split('\t').nth(field).unwrap();
    assert_eq!(lines.len(), 4, "{out}");
    assert!(field(0, 0).ends_with("a.bin") && field(0, 2) == "error 14614531 (UDF_PANIC)", "{out}");
    assert!(field(1, 0).ends_with("b.bin") && field(1, 1) == "out", "{out}");
    assert_eq!((field(1, 2), field(1, 3)), ("uint8[16]", "16"));
    assert!(field(3, 0).ends_with("d.bin") && field(3, 4).contains("at most 4096"), "{out}");
    assert_eq!(std::fs::read(folder.path("out/000002-b.bin.out")).unwrap(), [b'x'; 16]);
    assert!(std::fs::read_to_string(folder.path("logs/two.err.log")).unwrap().contains("odd id"));
    for word in ["3 ids fed", "allocations: runtime", "two:in", "high water"] {
        assert!(err.contains(word), "{word}: {err}");
    }
}

#[test]
fn all_data_is_exit_code_0_and_a_failed_node_is_4() {
    let folder = Folder::new("codes");
    let graph = folder.chain("codes", &[("one", "identity")], &library());
    let file = folder.file("a.bin", b"12345678");
    let run = ["run", &graph, "--input", &file, "--repeat", "50", "--no-namespace"];
    let (output, out, err) = dflow(&run);
    assert_eq!(output.status.code(), Some(0), "{out}{err}");
    assert_eq!(out.lines().filter(|line| line.contains("\tuint8[8]\t8\t")).count(), 50);
    let never = "code-on-id;attrs: {id: 3, code: 77};restart: {policy: never}";
    let graph = folder.chain("codes", &[("one", never)], &library());
    let run = ["run", &graph, "--input", &file, "--repeat", "50"];
    let (output, out, err) = dflow(&run);
    assert_eq!(output.status.code(), Some(4), "{out}{err}");
    assert!(err.contains("node `one` ended"), "{err}");
    let (_, log) = err.split_once("the log of node `one` ends:\n").unwrap_or(("", &err));
    assert!(
        (1..=10).contains(&log.lines().filter(|line| line.starts_with("    ")).count()),
        "{err}"
    );
    assert!(log.contains("77"), "{err}");
    assert!(out.lines().all(|line| line.split('\t').count() <= 5), "{out}");
}

#[test]
fn a_function_that_is_not_there_is_exit_code_1() {
    let folder = Folder::new("function");
    let graph = folder.chain("function", &[("one", "no-such-function")], &library());
    let (output, out, err) = dflow(&["run", &graph, "--input", &folder.file("a.bin", b"1")]);
    assert_eq!((output.status.code(), out.as_str()), (Some(1), ""), "{err}");
    assert!(err.contains("node `one`") && err.contains("no-such-function"), "{err}");
}

#[test]
fn an_attribute_of_another_kind_is_named_in_the_refusal() {
    let folder = Folder::new("attribute");
    let node = "code-on-id;attrs: {id: 2.5, code: 7}";
    let graph = folder.chain("attribute", &[("one", node)], &library());
    let (output, _, err) = dflow(&["run", &graph, "--input", &folder.file("a.bin", b"1")]);
    assert_eq!(output.status.code(), Some(1), "{err}");
    let named = "attribute `id`: found a float, the function asks for an integer";
    assert!(err.contains(named), "{err}");
}

#[test]
fn values_are_shown_where_asked_and_hidden_files_left() {
    let folder = Folder::new("values");
    let graph = folder.chain("values", &[("one", "identity")], &library());
    folder.file("in/a.bin", &[7, 8, 9, 10]);
    folder.file("in/.hidden", b"no");
    let input = folder.path("in");
    let (_, out, err) = dflow(&["run", &graph, "--input", &input, "--values", "3"]);
    let fields: Vec<&str> = out.trim_end().split('\t').collect();
    assert_eq!(fields.last(), Some(&"7 8 9 …"), "{out}{err}");
    assert_eq!(out.lines().count(), 1, "{out}{err}");
}

#[test]
fn what_nobody_takes_is_answered_by_its_deadline() {
    let folder = Folder::new("pending");
    let node = "pending-twice;attrs: {times: 9000000000}";
    let graph = folder.chain("pending", &[("one", node)], &library());
    for file in 0..20 {
        folder.file(&format!("in/{file}.bin"), b"12345678");
    }
    let input = folder.path("in");
    let (output, out, err) = dflow(&["run", &graph, "--input", &input, "--deadline-ms", "200"]);
    assert_eq!(output.status.code(), Some(3), "{out}{err}");
    assert_eq!(out.lines().filter(|line| line.contains("(DEADLINE)")).count(), 20, "{out}{err}");
    assert!(out.contains("not fed before its deadline"), "{out}");
}

#[test]
fn a_stderr_that_nobody_reads_costs_no_result() {
    let folder = Folder::new("deaf");
    let graph = folder.chain("deaf", &[("one", "identity")], &library());
    let file = folder.file("a.bin", b"12345678");
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let args = ["run", &graph, "--input", &file, &folder.path("none"), "--stats"];
    let run = |args: &[&str]| command(args).stderr(writer.try_clone().unwrap()).output().unwrap();
    assert_eq!(run(&args).status.code(), Some(2), "a path that is not there");
    let output = run(&[&args[..4], &["--stats"]].concat());
    assert_eq!(output.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&output.stdout).contains("uint8[8]"));
}

#[test]
fn a_node_that_a_signal_stopped_is_said() {
    let name = format!("stopped-{}", std::process::id());
    let mut running = Running::start(&name);
    let view = tools::group::GroupView::open(flow(&name).unwrap()).unwrap();
    let pid = view.nodes().iter().find(|node| node.label == "two").unwrap().pid;
    let node = PidFd::open(pid).unwrap();
    node.signal(Signal::STOP).unwrap();
    let mut err = BufReader::new(running.child.stderr.take().unwrap());
    let mut line = String::new();
    err.read_line(&mut line).unwrap();
    let said = format!("node `two` (process {pid}) is stopped by a signal");
    assert!(line.contains(&said) && line.contains(&format!("kill -CONT {pid}")), "{line}");
    node.signal(Signal::CONT).unwrap();
    drop(running.child.stdin.take());
    let mut rest = String::new();
    err.read_to_string(&mut rest).unwrap();
    assert_eq!(running.child.wait().unwrap().code(), Some(0), "{rest}");
}

/// A flow that runs until its stdin is closed, with one id out.
struct Running {
    child: Child,
    out: BufReader<ChildStdout>,
    _folder: Folder,
}

impl Running {
    fn start(name: &str) -> Running {
        Running::start_with(name, Folder::new(name), "-")
    }

    /// As [`Running::start`]; what comes behind the first id is read from `rest`.
    fn start_with(name: &str, folder: Folder, rest: &str) -> Running {
        let graph = folder.chain(name, &[("one", "identity"), ("two", "identity")], &library());
        let file = folder.file("a.bin", b"12345678");
        let mut run = command(&["run", &graph, "--input", &file, rest]);
        let run = run.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = run.spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        if !line.contains("uint8[8]") {
            let mut err = String::new();
            child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
            panic!("{line}{err}");
        }
        Running { child, out, _folder: folder }
    }

    /// Waits for its end: exit code and what it printed since.
    fn end(mut self) -> (Option<i32>, String, String) {
        let (mut out, mut err) = (String::new(), String::new());
        self.out.read_to_string(&mut out).unwrap();
        self.child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        (self.child.wait().unwrap().code(), out, err)
    }
}

fn flow(name: &str) -> Option<tools::Flow> {
    tools::running().into_iter().find(|flow| flow.name == name)
}

#[test]
fn a_running_flow_is_seen_by_the_tools() {
    let name = format!("seen-{}", std::process::id());
    let mut running = Running::start(&name);
    let (_, ps, err) = dflow(&["ps"]);
    assert!(ps.contains(&name) && ps.contains("running"), "{ps}{err}");
    let (output, logs, err) = dflow(&["logs", &name, "one"]);
    assert!(output.status.success() && logs.contains("is ready"), "{logs}{err}");
    assert!(!logs.contains(" two"), "{logs}");
    let (output, out, held) = dflow(&["held", &name]);
    assert!(output.status.success() && (out + &held).contains("in use"), "{held}");
    let mut follow = command(&["logs", &name, "--follow"]).stdout(Stdio::piped()).spawn().unwrap();
    // Its first line says that it has found the flow: only then may the flow end.
    let mut lines = BufReader::new(follow.stdout.take().unwrap());
    let mut shown = String::new();
    lines.read_line(&mut shown).unwrap();
    running.child.stdin.take().unwrap().write_all(b"end").unwrap();
    let (code, out, err) = running.end();
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(out.starts_with("-\tout\tuint8[3]\t3\t"), "{out}");
    lines.read_to_string(&mut shown).unwrap();
    assert!(follow.wait().unwrap().success());
    assert!(shown.contains("as asked"), "{shown}");
    assert!(flow(&name).is_none());
}

/// How many sets a node has processed.
fn processed(name: &str, node: &str) -> u64 {
    let view = tools::group::GroupView::open(flow(name).unwrap()).unwrap();
    view.nodes().into_iter().find(|state| state.label == node).unwrap().processed
}

#[test]
fn messages_go_on_while_the_host_is_stopped() {
    let name = format!("stopped-host-{}", std::process::id());
    let mut running = Running::start(&name);
    let view = tools::group::GroupView::open(flow(&name).unwrap()).unwrap();
    let two = view.nodes().into_iter().find(|state| state.label == "two").unwrap();
    let (two, host) = (PidFd::open(two.pid).unwrap(), PidFd::open(running.child.id()).unwrap());
    // The second node stands still until the first one has passed on the second id.
    two.signal(Signal::STOP).unwrap();
    running.child.stdin.take().unwrap().write_all(b"abc").unwrap();
    until(|| processed(&name, "one") == 2);
    assert_eq!(processed(&name, "two"), 1);
    host.signal(Signal::STOP).unwrap();
    until(|| stopped(running.child.id()));
    two.signal(Signal::CONT).unwrap();
    until(|| processed(&name, "two") == 2);
    assert!(stopped(running.child.id()), "the host has slept through it");
    host.signal(Signal::CONT).unwrap();
    let (code, out, err) = running.end();
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(out.starts_with("-\tout\tuint8[3]\t3\t"), "{out}");
}

/// Waits for a condition; what never comes is a hang that the test runner ends.
fn until(condition: impl Fn() -> bool) {
    while !condition() {
        std::thread::yield_now();
    }
}

/// Whether a signal has stopped a process.
fn stopped(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    status.lines().any(|line| line.starts_with("State:\tT"))
}

#[test]
fn an_interrupt_ends_the_flow_in_order_and_two_at_once() {
    for signals in [1, 2] {
        let name = format!("interrupted-{signals}-{}", std::process::id());
        let mut running = Running::start(&name);
        let found = flow(&name).unwrap();
        let supervisor = PidFd::open(found.pid).unwrap();
        let process = PidFd::open(running.child.id()).unwrap();
        // Its stdin stays open: only the interrupt ends it.
        let stdin = running.child.stdin.take();
        for _ in 0..signals {
            let _ended = process.signal(Signal::INT);
        }
        let (code, out, err) = running.end();
        drop(stdin);
        assert_eq!(code, Some(130), "{out}{err}");
        // Whoever ended it, the supervisor follows; a hang here is the test's failure.
        let mut fds = [sys::poll::PollFd::new(&supervisor, sys::poll::Events::IN)];
        assert_eq!(sys::poll::poll(&mut fds, None), Ok(1));
    }
}

fn fifo(folder: &Folder) -> String {
    let path = folder.path("fifo");
    let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
    assert!(made.success(), "mkfifo of coreutils");
    path
}

#[test]
fn one_signal_ends_a_run_that_waits_for_a_fifo() {
    for (case, has_writer, signal) in [
        ("absent", false, Signal::TERM),
        ("silent", true, Signal::TERM),
        ("int", false, Signal::INT),
    ] {
        let name = format!("fifo-{case}-{}", std::process::id());
        let folder = Folder::new(&name);
        let path = fifo(&folder);
        // Open for both, so that this side does not wait for a reader.
        let writer = std::fs::OpenOptions::new().read(true).write(true).open(&path);
        let writer = writer.ok().filter(|_| has_writer);
        let running = Running::start_with(&name, folder, &path);
        PidFd::open(running.child.id()).unwrap().signal(signal).unwrap();
        let (code, out, err) = running.end();
        assert_eq!(code, Some(130), "{out}{err}");
        assert!(err.contains("1 ids fed"), "{err}");
        drop(writer);
    }
}

#[test]
fn a_fifo_is_read_to_its_end() {
    let name = format!("fifo-data-{}", std::process::id());
    let folder = Folder::new(&name);
    let path = fifo(&folder);
    let running = Running::start_with(&name, folder, &path);
    // Waits for the reader.
    let mut writer = std::fs::File::create(&path).unwrap();
    writer.write_all(b"two ").unwrap();
    writer.write_all(b"parts").unwrap();
    drop(writer);
    let (code, out, err) = running.end();
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(out.contains("fifo\tout\tuint8[9]\t9\t"), "{out}");
}

/// A flow that never gets ready, and its supervisor's number.
fn starting(name: &str) -> (Folder, Child, u32) {
    let folder = Folder::new(name);
    // Its init asks for another one, for ever.
    let slow = "init-again;attrs: {again: 4000000000};init_timeout_ms: 600000";
    let graph = folder.chain(name, &[("one", "identity"), ("slow", slow)], &library());
    let file = folder.file("a.bin", b"12345678");
    let mut run = command(&["run", &graph, "--input", &file]);
    let child = run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let watchdog = sys::clock::MonoTime::now().add_ms(30_000);
    let found = loop {
        if let Some(found) = flow(name) {
            break found;
        }
        assert!(sys::clock::MonoTime::now() < watchdog, "no flow");
        std::thread::yield_now();
    };
    (folder, child, found.pid)
}

#[test]
fn one_signal_ends_a_start_that_takes() {
    let (_folder, child, supervisor) = starting(&format!("starting-{}", std::process::id()));
    let supervisor = PidFd::open(supervisor).unwrap();
    PidFd::open(child.id()).unwrap().signal(Signal::TERM).unwrap();
    let output = child.wait_with_output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(130), "{err}");
    assert!(err.contains("start-up stopped") && err.contains("`slow`"), "{err}");
    assert!(supervisor.is_ready(), "the supervisor is left");
}

#[test]
fn a_supervisor_that_dies_during_the_start_beside_a_stopped_watcher_is_noticed() {
    let (_folder, child, supervisor) = starting(&format!("lost-{}", std::process::id()));
    let watcher = sys::procfs::parent(supervisor).unwrap();
    let (watcher, number) = (PidFd::open(watcher).unwrap(), watcher);
    watcher.signal(Signal::STOP).unwrap();
    let watchdog = sys::clock::MonoTime::now().add_ms(30_000);
    while sys::procfs::state(number) != Some('T') {
        assert!(sys::clock::MonoTime::now() < watchdog, "not stopped");
        std::thread::yield_now();
    }
    PidFd::open(supervisor).unwrap().signal(Signal::KILL).unwrap();
    let output = child.wait_with_output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{err}");
    let named = format!("the watcher (process {number}) is stopped: continuing it");
    assert!(err.contains(&named) && err.contains("the supervisor ended"), "{err}");
    assert!(watcher.is_ready(), "the watcher is left");
}

#[test]
fn one_signal_ends_a_run_whose_output_nobody_reads() {
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::OpenOptionsExt;
    const O_NONBLOCK: i32 = 0o4000;
    let name = format!("unread-{}", std::process::id());
    let folder = Folder::new(&name);
    let graph = folder.chain(&name, &[("one", "identity")], &library());
    let file = folder.file("a.bin", b"12345678");
    let (reader, writer) = std::io::pipe().unwrap();
    // Full before the first line.
    let again = format!("/proc/self/fd/{}", writer.as_raw_fd());
    let mut filler =
        std::fs::OpenOptions::new().write(true).custom_flags(O_NONBLOCK).open(again).unwrap();
    while filler.write(&[b'x'; 4096]).is_ok() {}
    drop(filler);
    let mut run = command(&["run", &graph, "--input", &file]);
    let child = run.stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
    drop(run);
    let watchdog = sys::clock::MonoTime::now().add_ms(30_000);
    let processed = || {
        let view = tools::group::GroupView::open(flow(&name)?).ok()?;
        view.nodes().first().map(|node| node.processed)
    };
    while processed() != Some(1) {
        assert!(sys::clock::MonoTime::now() < watchdog, "nothing came out");
        std::thread::yield_now();
    }
    PidFd::open(child.id()).unwrap().signal(Signal::TERM).unwrap();
    let output = child.wait_with_output().unwrap();
    drop(reader);
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(130), "{err}");
    assert!(err.contains("1 lines were not written"), "{err}");
}
