//! A flow under test: group, plan, pretended host, watcher, and waits with a watchdog.

use std::fs;
use std::io::{PipeReader, Read, pipe};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use executor_core::abi::control::{SlotCtl, SlotStatus};
use executor_core::layout::{GroupConfig, PartitionConfig, PoolConfig};
use executor_core::owner::{SlotId, SlotState};
use executor_core::pool::Worker;
use executor_core::region::Memory;
use executor_rt::attach::{Attached, Created, Role, attach, create};
use executor_rt::plan::{AlsoSlot, NodePlan, Restart, RestartWhen, SupervisorPlan, command};
use sys::clock::MonoTime;
use sys::futex::{self, WaitOutcome};
use sys::pidfd::{Event, PidFd};
use sys::poll::{Events, PollFd, poll};
use sys::signal::Signal;
use sys::spawn::{Child, Spawn};
use sys::{memfd, process, socket};

/// Longest wait for anything.
const WATCHDOG_MS: u64 = 30_000;
/// Environment by which every process of a flow is found.
const TAG: &str = "DFLOW_TEST_TAG";
/// Both ways to keep executors together.
pub(crate) const BOTH: [bool; 2] = [false, true];

static FLOWS: AtomicU32 = AtomicU32::new(0);

/// An executor that runs a shell script; restarted without end, at once.
pub(crate) fn node(slot: u32, script: &str) -> NodePlan {
    let args = ["-c", script].map(str::to_owned).to_vec();
    NodePlan {
        slot,
        name: format!("node{slot}"),
        program: "/bin/sh".to_owned(),
        args,
        env: vec![("PATH".to_owned(), "/usr/bin:/bin".to_owned())],
        inherit: Vec::new(),
        stdout_fd: 1,
        stderr_fd: 2,
        restart: Restart {
            when: RestartWhen::OnFailure,
            max: 0,
            backoff_ms: 1,
            backoff_max_ms: 1000,
            window_ms: 0,
        },
        init_timeout_ms: 0,
        stall_ms: 0,
        cpu: None,
        also: Vec::new(),
    }
}

/// As [`node`], a process with further slots.
pub(crate) fn device(slot: u32, also: &[(u32, &str)], script: &str) -> NodePlan {
    let also = also.iter().map(|(slot, name)| AlsoSlot { slot: *slot, name: (*name).to_owned() });
    NodePlan { also: also.collect(), ..node(slot, script) }
}

/// A plan that changes nothing the tests do not ask for.
pub(crate) fn plan(namespace: bool, nodes: Vec<NodePlan>) -> SupervisorPlan {
    SupervisorPlan {
        version: SupervisorPlan::VERSION,
        flow: "test".to_owned(),
        nodes,
        lock_stall_ms: 0,
        namespace,
        log_keep_bytes: 0,
        log_fds: Vec::new(),
        sabotage: 0,
    }
}

/// A started flow. Dropping it ends every process of it.
pub(crate) struct Flow {
    pub(crate) watcher: Child,
    pub(crate) host: Child,
    pub(crate) memory: Memory<'static>,
    command: OwnedFd,
    group: Created,
    out: PipeReader,
    log: OwnedFd,
    tag: String,
}

impl Flow {
    /// Starts the watcher, with `sleep` as the host.
    pub(crate) fn start(plan: SupervisorPlan) -> Flow {
        let program = Path::new(env!("CARGO_BIN_EXE_dflow-supervisor"));
        Flow::start_by(program, &["--watcher".to_owned()], plan)
    }

    /// As [`Flow::start`], with a limit on file sizes, in blocks of 512 bytes.
    pub(crate) fn start_limited(blocks: u32, plan: SupervisorPlan) -> Flow {
        let script = format!("ulimit -f {blocks}; exec \"$0\" --watcher");
        let program = env!("CARGO_BIN_EXE_dflow-supervisor").to_owned();
        Flow::start_by(Path::new("/bin/sh"), &["-c".to_owned(), script, program], plan)
    }

    fn start_by(program: &Path, args: &[String], mut plan: SupervisorPlan) -> Flow {
        let number = FLOWS.fetch_add(1, Ordering::Relaxed);
        // What the watcher leaves when it is killed becomes ours, so that no zombie stays.
        process::set_child_subreaper(true).expect("subreaper");
        let tag = format!("{}-{number}", std::process::id());
        let group = group();
        let attached = attached(&group, Role::Supervisor);
        let (out, out_writer) = pipe().expect("pipe");
        let log = memfd::append_log("dflow-log-err:test").expect("log");
        plan.log_fds = vec![log.as_raw_fd()];
        for node in &mut plan.nodes {
            node.env.push((TAG.to_owned(), tag.clone()));
            (node.stdout_fd, node.stderr_fd) = (out_writer.as_raw_fd(), log.as_raw_fd());
        }
        let host = sleeper();
        let bytes = serde_json::to_vec(&plan).expect("json");
        let plan_fd = memfd::from_bytes("dflow-plan", &bytes).expect("memfd");
        let (command, theirs) = socket::seqpacket_pair().expect("pair");
        let given = [
            ("DFLOW_PLAN_FD", plan_fd.as_fd()),
            ("DFLOW_CONTROL_FD", group.control.as_fd()),
            ("DFLOW_ARENA_FD", group.arena.as_fd()),
            ("DFLOW_HOST_PIDFD", host.pidfd.as_fd()),
            ("DFLOW_COMMAND_FD", theirs.as_fd()),
        ];
        let mut env: Vec<(String, String)> = given
            .iter()
            .map(|(name, fd)| ((*name).to_owned(), fd.as_raw_fd().to_string()))
            .collect();
        env.push((TAG.to_owned(), tag.clone()));
        let mut inherit: Vec<BorrowedFd<'_>> = given.iter().map(|(_, fd)| *fd).collect();
        inherit.extend([out_writer.as_fd(), log.as_fd()]);
        let watcher = Spawn {
            program,
            args,
            env: &env,
            inherit: &inherit,
            stdin: None,
            stdout: None,
            stderr: Some(log.as_fd()),
            death_signal: Some(Signal::KILL),
        };
        let watcher = watcher.spawn().expect("watcher");
        Flow { watcher, host, memory: attached.group.memory, command, group, out, log, tag }
    }

    /// What the supervisor says of a slot.
    pub(crate) fn status(&self, slot: u32) -> &'static SlotStatus {
        &self.memory.slot_status[slot as usize]
    }

    /// What the process of a slot says of itself; the tests write it in its place.
    pub(crate) fn process(&self, slot: u32) -> &'static SlotCtl {
        self.memory.private(slot).expect("slot").ctl
    }

    pub(crate) fn state(&self, slot: u32) -> SlotState {
        SlotState::try_from(self.status(slot).state.load(Ordering::Acquire)).expect("state")
    }

    pub(crate) fn generation(&self, slot: u32) -> u32 {
        self.status(slot).generation.load(Ordering::Acquire)
    }

    pub(crate) fn pid(&self, slot: u32) -> u32 {
        self.status(slot).pid.load(Ordering::Acquire)
    }

    /// Kind and value of the last end.
    pub(crate) fn exit(&self, slot: u32) -> (u32, u32) {
        let status = self.status(slot);
        let kind = status.exit_kind.load(Ordering::Acquire);
        (kind, status.exit_value.load(Ordering::Acquire))
    }

    pub(crate) fn phase(&self) -> u32 {
        self.memory.status.phase.load(Ordering::Acquire)
    }

    /// Waits until `holds`, looked at after every change of the status.
    pub(crate) fn until(&self, what: &str, mut holds: impl FnMut(&Flow) -> bool) {
        let deadline = MonoTime::now().add_ms(WATCHDOG_MS);
        let word = &self.memory.status.sequence;
        loop {
            let seen = word.load(Ordering::Acquire);
            if holds(self) {
                return;
            }
            if futex::wait(word, seen, Some(deadline)) == WaitOutcome::TimedOut {
                panic!("no {what}; {:?}\n{}", self.memory.slot_status, self.log());
            }
        }
    }

    /// Waits until the process number `generation` of `slot` was started; its pid.
    pub(crate) fn started(&self, slot: u32, generation: u32) -> u32 {
        self.until("start", |f| f.generation(slot) == generation && f.pid(slot) != 0);
        self.pid(slot)
    }

    /// As [`Flow::started`], and makes it `Running`.
    pub(crate) fn running(&self, slot: u32, generation: u32) -> u32 {
        let pid = self.started(slot, generation);
        self.process(slot).state.store(3, Ordering::Release);
        self.until("running", |f| f.state(slot) == SlotState::Running);
        pid
    }

    pub(crate) fn signal(&self, slot: u32, signal: Signal) {
        PidFd::open(self.pid(slot)).expect("open").signal(signal).expect("signal");
    }

    /// A worker as the process of `slot` would have it.
    pub(crate) fn worker(&self, slot: u32, generation: u32) -> Worker<'static> {
        let member = attached(&self.group, Role::Member(SlotId(slot)));
        member.worker(0, generation).expect("worker")
    }

    /// The next line that a node wrote to its stdout.
    pub(crate) fn line(&mut self) -> String {
        let mut line = Vec::new();
        loop {
            let mut byte = [0];
            wait_readable(&self.out, "line of a node");
            let count = self.out.read(&mut byte).expect("read");
            if count == 0 || byte == *b"\n" {
                return String::from_utf8(line).expect("text");
            }
            line.push(byte[0]);
        }
    }

    /// Everything on the nodes' stderr, the supervisor's and the watcher's.
    pub(crate) fn log(&self) -> String {
        String::from_utf8_lossy(&memfd::read_all(&self.log).expect("log")).into_owned()
    }

    /// Looks until the log has `text`.
    pub(crate) fn until_logged(&self, text: &str) {
        let deadline = MonoTime::now().add_ms(WATCHDOG_MS);
        while !self.log().contains(text) {
            assert!(!deadline.is_past(MonoTime::now()), "no `{text}` in\n{}", self.log());
            std::thread::yield_now();
        }
    }

    /// Asks the supervisor to end the flow.
    pub(crate) fn stop(&self) {
        socket::send(&self.command, &[command::STOP]).expect("send");
    }

    /// Processes of this flow, by their environment.
    pub(crate) fn processes(&self) -> Vec<u32> {
        let wanted = format!("{TAG}={}\0", self.tag).into_bytes();
        let all = fs::read_dir("/proc")
            .expect("proc")
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
        all.filter(|pid| {
            let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environ.windows(wanted.len()).any(|part| part == wanted)
        })
        .collect()
    }

    /// The process of this flow with the given name.
    pub(crate) fn named(&self, comm: &str) -> u32 {
        let is_it = |pid: &u32| sys::procfs::comm(*pid).as_deref() == Some(comm);
        self.processes().into_iter().find(is_it).expect("named process")
    }

    /// Waits for the end of the watcher, then of all others; how the watcher ended.
    pub(crate) fn gone(&self) -> Event {
        let left = open_all(&self.processes());
        wait_readable(&self.watcher.pidfd, "end of the watcher");
        let event = self.watcher.pidfd.wait_end().expect("wait");
        all_gone(&left);
        for pidfd in &left {
            // Ours to reap if all its parents were killed; else it is not our child.
            let _reaped = pidfd.try_wait();
        }
        assert_eq!(self.processes(), [0; 0], "processes are left");
        event
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        let left = open_all(&self.processes());
        let all = [&self.host.pidfd, &self.watcher.pidfd].into_iter().chain(&left);
        for pidfd in all.clone() {
            let _gone = pidfd.signal(Signal::KILL);
        }
        // Twice: a process whose parent is reaped in the first round becomes ours.
        for pidfd in all.clone().chain(all) {
            let _reaped = pidfd.wait_end();
        }
    }
}

/// Descriptors of processes; those that ended meanwhile are left out.
pub(crate) fn open_all(pids: &[u32]) -> Vec<PidFd> {
    pids.iter().filter_map(|pid| PidFd::open(*pid).ok()).collect()
}

/// Waits until every one has ended.
pub(crate) fn all_gone(pidfds: &[PidFd]) {
    for pidfd in pidfds {
        wait_readable(pidfd, "end of a process");
    }
}

fn wait_readable(fd: &impl AsFd, what: &str) {
    let deadline = MonoTime::now().add_ms(WATCHDOG_MS);
    let mut fds = [PollFd::new(fd, Events::IN)];
    while !fds[0].is_ready() {
        assert!(!deadline.is_past(MonoTime::now()), "no {what}");
        let _interrupted = poll(&mut fds, Some(deadline));
    }
}

fn group() -> Created {
    let pools = [PoolConfig { block_size: 256, block_count: 4 }];
    let partition = PartitionConfig { pools: &pools, extra_entries: 4 };
    let partitions = [partition; 3];
    let config = GroupConfig {
        name: "test",
        partitions: &partitions,
        workers: 2,
        lanes: 2,
        heads: 2,
        ring_words: 16,
        queues: 2,
    };
    create(&config, false).expect("group")
}

fn attached(group: &Created, role: Role) -> &'static Attached {
    attach(group.control.as_fd(), group.arena.as_fd(), role).expect("attach")
}

fn sleeper() -> Child {
    let host = Spawn {
        program: Path::new("/bin/sleep"),
        args: &["100000".to_owned()],
        env: &[],
        inherit: &[],
        stdin: None,
        stdout: None,
        stderr: None,
        death_signal: Some(Signal::KILL),
    };
    host.spawn().expect("host")
}
