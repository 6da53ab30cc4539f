//! Plays host and supervisor around one real executor process: a slot for the host, one or more
//! for the process, queues, a log and files in memory.
//!
//! | module | what |
//! |---|---|
//! | here | group, queues, start and end of the process, sweep |
//! | `traffic` | requests and responses, messages to and from queues |
//! | [`Fetched`] | what came out |
//!
//! It is not: arguments, load files or libraries. What differs between executors is theirs.
#![deny(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::panic, reason = "test support")]

mod fetched;
mod traffic;

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use executor_core::abi::control::SlotCtl;
use executor_core::inspect;
use executor_core::layout::{GroupConfig, PartitionConfig, PoolConfig};
use executor_core::owner::{QueueId, SlotId};
use executor_core::pool::Worker;
use executor_core::primitive::Ordering;
use executor_core::queue::{Consumer, Producer, QueueConfig, QueueFlags, Rights};
use executor_core::sweep::{Inputs, Sweeper, suspect_words};
use executor_rt::attach::{Attached, Created, Role, attach, create};
use executor_rt::plan;
use executor_rt::waiter::{Waiter, ring_all};
use sys::clock::MonoTime;
use sys::doorbell::EventFd;
use sys::memfd;
use sys::pidfd::Event;
use sys::poll::{Events, PollFd, poll};
use sys::signal::Signal;
use sys::spawn::{Child, Spawn};

pub use fetched::Fetched;

/// Nothing here takes that long unless it hangs.
const WATCHDOG_MS: u64 = 60_000;
/// Slot of the host.
pub const HOST: u32 = 0;
/// First slot of the process, its own; what further partitions there are follow.
pub const PROCESS: u32 = 1;

/// When something hangs.
#[must_use]
pub fn watchdog() -> Option<MonoTime> {
    Some(MonoTime::now().add_ms(WATCHDOG_MS))
}

/// `/proc/self/fd/N` of a descriptor that the process inherits.
#[must_use]
pub fn inherited(fd: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}

/// What to start, besides what every executor gets.
#[derive(Debug)]
pub struct Start<'a> {
    /// The executor.
    pub program: &'a Path,
    /// Its name in logs.
    pub node: &'a str,
    /// Its arguments.
    pub args: &'a [String],
    /// Further variables.
    pub env: &'a [(&'static str, &'static str)],
    /// Further descriptors that it inherits.
    pub inherit: &'a [BorrowedFd<'a>],
}

/// A group with its host and its supervisor, and one process at a time.
#[derive(Debug)]
pub struct Rig {
    created: Created,
    /// The host's mapping.
    pub host: &'static Attached,
    /// The supervisor's, by which the process's words can be written over.
    pub supervisor: &'static Attached,
    /// The host's worker.
    pub worker: Worker<'static>,
    /// Where the host waits.
    pub waiter: Waiter<'static>,
    /// Requests to the process.
    pub requests: Producer<'static>,
    /// Its responses.
    pub responses: Consumer<'static>,
    /// What it prints.
    pub log: File,
    /// Rung by a process that is ready.
    pub bell: EventFd,
    suspects: Vec<u64>,
    slots: Vec<u32>,
    generation: u32,
    child: Option<Child>,
}

fn queue(
    host: &Attached,
    worker: &Worker<'static>,
    (name, depth): (&str, u32),
    (from, to): (u32, u32),
) -> QueueId {
    let memory = host.group.memory;
    let config = QueueConfig {
        name,
        depth,
        flags: QueueFlags::empty(),
        consumer: SlotId(to),
        consumer_waiter: 0,
        ready_bit: u32::try_from(name.len() % 8).unwrap(),
    };
    let id = memory.create_queue(worker, &config).unwrap();
    memory.grant_queue(worker, id, SlotId(from), Rights::WRITE).unwrap();
    id
}

impl Rig {
    /// A group with a slot of the process for each of these partitions, and message queues of this
    /// depth.
    #[must_use]
    pub fn new(partitions: &[PartitionConfig<'_>], depth: u32) -> Rig {
        let host_pools = [
            PoolConfig { block_size: 4096, block_count: 64 },
            PoolConfig { block_size: 5 << 20, block_count: 1 },
        ];
        let host = PartitionConfig { pools: &host_pools, extra_entries: 16 };
        let all: Vec<PartitionConfig<'_>> =
            std::iter::once(&host).chain(partitions).copied().collect();
        let config = GroupConfig {
            name: "test",
            partitions: &all,
            workers: 1,
            lanes: 24,
            heads: 24,
            ring_words: 1024,
            queues: 32,
        };
        let created = create(&config, true).unwrap();
        let (control, arena) = (created.control.as_fd(), created.arena.as_fd());
        let host = attach(control, arena, Role::Member(SlotId(HOST))).unwrap();
        let supervisor = attach(control, arena, Role::Supervisor).unwrap();
        let worker = host.worker(0, 1).unwrap();
        let requests = queue(host, &worker, ("request", depth), (HOST, PROCESS));
        let responses = queue(host, &worker, ("response", depth), (PROCESS, HOST));
        Rig {
            waiter: Waiter::new(&host.group.memory, SlotId(HOST), 0).unwrap(),
            requests: Producer::open(&worker, requests, None).unwrap(),
            responses: Consumer::open(&worker, responses).unwrap(),
            log: memfd::append_log("log").unwrap().into(),
            bell: EventFd::new().unwrap(),
            suspects: vec![0; suspect_words(&host.group)],
            slots: (PROCESS..).take(partitions.len()).collect(),
            created,
            host,
            supervisor,
            worker,
            generation: 0,
            child: None,
        }
    }

    /// An input of a slot: a queue from the host.
    pub fn input(&mut self, slot: u32, name: &str, depth: u32) -> Producer<'static> {
        let id = queue(self.host, &self.worker, (name, depth), (HOST, slot));
        Producer::open(&self.worker, id, None).unwrap()
    }

    /// An output of a slot: a queue to the host.
    pub fn output(&mut self, slot: u32, name: &str, depth: u32) -> Consumer<'static> {
        let id = queue(self.host, &self.worker, (name, depth), (slot, HOST));
        Consumer::open(&self.worker, id).unwrap()
    }

    /// Starts the next generation.
    pub fn spawn(&mut self, start: &Start<'_>) {
        self.generation += 1;
        let (control, arena) = (self.created.control.as_fd(), self.created.arena.as_fd());
        let also: Vec<String> = self.slots.iter().skip(1).map(u32::to_string).collect();
        let own = [
            (plan::ENV_CONTROL_FD, control.as_raw_fd().to_string()),
            (plan::ENV_ARENA_FD, arena.as_raw_fd().to_string()),
            (plan::ENV_SLOT, PROCESS.to_string()),
            (plan::ENV_ALSO, also.join(",")),
            (plan::ENV_GENERATION, self.generation.to_string()),
            (plan::ENV_NODE, start.node.to_owned()),
            (plan::ENV_READY_FD, self.bell.as_fd().as_raw_fd().to_string()),
        ];
        let further = start.env.iter().map(|(name, value)| (*name, (*value).to_owned()));
        let env: Vec<(String, String)> =
            own.into_iter().chain(further).map(|(name, value)| (name.to_owned(), value)).collect();
        let mut inherit = vec![control, arena, self.bell.as_fd()];
        inherit.extend(start.inherit);
        let spawn = Spawn {
            program: start.program,
            args: start.args,
            env: &env,
            inherit: &inherit,
            stdin: None,
            stdout: Some(self.log.as_fd()),
            stderr: Some(self.log.as_fd()),
            death_signal: None,
        };
        self.child = Some(spawn.spawn().unwrap());
    }

    /// The words of a slot.
    #[must_use]
    pub fn ctl(&self, slot: u32) -> &'static SlotCtl {
        self.host.group.memory.private(slot).unwrap().ctl
    }

    /// What the process printed so far.
    #[must_use]
    pub fn logs(&self) -> String {
        String::from_utf8(memfd::read_all(&self.log).unwrap()).unwrap()
    }

    /// Looks until `done`, or the watchdog barks.
    pub fn until(&self, what: &str, slot: u32, mut done: impl FnMut(&SlotCtl) -> bool) {
        let limit = watchdog().unwrap();
        while !done(self.ctl(slot)) {
            assert!(!limit.is_past(MonoTime::now()), "never: {what}\n{}", self.logs());
            std::thread::yield_now();
        }
    }

    /// Waits until the process has printed something: what it says comes after what it does.
    pub fn until_said(&self, text: &str) {
        let limit = watchdog().unwrap();
        while !self.logs().contains(text) {
            assert!(!limit.is_past(MonoTime::now()), "never said: {text}\n{}", self.logs());
            std::thread::yield_now();
        }
    }

    /// Waits until set `set` of a slot is inside its function or model.
    pub fn until_inside(&self, slot: u32, set: u64) {
        self.until("inside", slot, |ctl| {
            ctl.set_delivered.load(Ordering::Acquire) == set
                && ctl.state.load(Ordering::Acquire) == 4
        });
    }

    fn child(&self) -> &Child {
        self.child.as_ref().unwrap()
    }

    /// The process's number.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child().pid
    }

    /// The number of its process group.
    #[must_use]
    pub fn process_group(&self) -> u32 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid())).unwrap();
        // proc_pid_stat(5): pid (comm) state ppid pgrp …
        let behind = stat.rsplit_once(')').unwrap().1;
        behind.split_whitespace().nth(2).unwrap().parse().unwrap()
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        self.child().pidfd.signal(signal).unwrap();
    }

    /// Waits for its end.
    pub fn end(&mut self) -> Event {
        let child = self.child.take().unwrap();
        let mut fds = [PollFd::new(&child.pidfd, Events::IN)];
        if poll(&mut fds, watchdog()).unwrap() == 0 {
            child.pidfd.signal(Signal::KILL).unwrap();
            panic!("the process does not end\n{}", self.logs());
        }
        child.pidfd.wait_end().unwrap()
    }

    /// What a supervisor does between two generations; messages adopted in all slots.
    pub fn sweep(&mut self) -> u32 {
        let group = self.supervisor.group;
        let sweep = |slot: &u32| {
            let mut sweeper = Sweeper::new(&group, &mut self.suspects);
            sweeper.sweep(SlotId(*slot), Inputs::Adopt).adopted
        };
        let adopted = self.slots.iter().map(sweep).sum();
        ring_all(&group.memory);
        adopted
    }

    /// Kills, reaps and sweeps; messages adopted.
    pub fn kill(&mut self) -> u32 {
        self.signal(Signal::KILL);
        self.end();
        self.sweep()
    }

    /// Ends the process by a finalize message; what it has sent stays queued.
    pub fn finalize_keeping(&mut self) {
        self.send(2, &[0]);
        assert_eq!(self.end(), Event::Exited(0), "{}", self.logs());
        self.sweep();
    }

    /// Ends the process by a finalize message; it must end well, nothing may be left, and the
    /// runtime may not have allocated after seal.
    pub fn finalize(&mut self) {
        self.finalize_keeping();
        let usage = inspect::usage(&self.host.group);
        assert_eq!((usage.entries, usage.blocks), (0, 0), "{:?}\n{}", usage, self.logs());
        for slot in &self.slots {
            let runtime = self.ctl(*slot).runtime_allocations.load(Ordering::Relaxed);
            assert_eq!(runtime, 0, "allocations after seal, slot {slot}");
        }
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        if let Some(child) = self.child.take() {
            let _gone = child.pidfd.signal(Signal::KILL);
            let _gone = child.pidfd.wait_end();
        }
        let _done = (self.host.retire(), self.supervisor.retire());
    }
}
