//! Starting an executor: from spawn to ready, from its death to the next result; its memory.
//!
//! The flow has one node, and both partitions (host's and node's) have about 4 MiB. Times of a
//! start are the supervisor's own: it stores the time before it spawns; the end is when this
//! process, asleep on the status word, sees the slot `Running`.

use std::fs;
use std::os::fd::AsFd;
use std::time::Instant;

use dflow::tools::flow::Flow;
use dflow::{GraphOutput, Session, Tensor};
use executor_core::owner::SlotState;
use executor_core::primitive::Ordering;
use executor_core::region::Memory;
use executor_rt::attach::{Role, attach};
use sys::clock::MonoTime;
use sys::futex;
use sys::pidfd::PidFd;
use sys::procfs;
use sys::signal::Signal;

use super::{deploy, feed, fetch, graph, message, node, patience};
use crate::Failure;

/// Payload of the messages that are sent.
const BYTES: usize = 4096;

/// Depth of both queues.
const DEPTH: u32 = 8;

/// Worst-case payload: the budget of this flow is twelve blocks of it.
const BYTES_MAX: u64 = (4 << 20) / 12 - 8192;

/// Slot of the node.
const SLOT: usize = 1;

/// A flow whose one node is killed.
#[derive(Debug)]
pub struct Starts {
    session: Session,
    memory: Memory<'static>,
    message: Tensor,
}

/// One start of the node's process.
#[derive(Clone, Copy, Debug)]
struct Start {
    pid: u32,
    generation: u32,
    /// From spawn to ready.
    ns: u64,
}

/// Memory of a process, KiB.
#[derive(Clone, Copy, Debug)]
pub struct Footprint {
    /// Anonymous resident memory.
    pub anonymous: u64,
    /// Proportional share of everything but the arena.
    pub proportional: u64,
    /// Proportional share of the arena.
    pub arena: u64,
}

impl Starts {
    /// Deploys the flow, its node on `core`.
    ///
    /// # Errors
    /// The flow could not be deployed, or its status can't be read.
    pub fn start(core: usize) -> Result<Self, Failure> {
        let mut flow = graph("start", BYTES_MAX);
        flow = flow.node("n0", node("forward", "in", BYTES_MAX, core)?);
        let flow = flow.output("out", GraphOutput::new("n0.out").depth(DEPTH));
        let session = deploy(flow)?;
        let memory = status(&session)?;
        Ok(Self { session, memory, message: message(1, BYTES) })
    }

    /// Bytes of the node's partition.
    #[must_use]
    pub fn partition_bytes(&self) -> u64 {
        self.session.plan().partitions.get(SLOT).map_or(0, |partition| partition.bytes)
    }

    /// One message through the flow.
    ///
    /// # Errors
    /// The session refused it, or answered it with a code.
    pub fn pass_one(&self) -> Result<(), Failure> {
        let id = feed(&self.session, self.message.clone())?;
        let (found, _output) = fetch(&self.session)?;
        if found == id { Ok(()) } else { Err(format!("fed id {id}, fetched {found}").into()) }
    }

    /// Kills the node's process; milliseconds from spawn to ready of its successor.
    ///
    /// # Errors
    /// It did not come up.
    pub fn ready_ms(&self) -> Result<f64, Failure> {
        let before = self.running(0)?;
        kill(before.pid)?;
        let after = self.running(before.generation)?;
        self.pass_one()?;
        Ok(ms(after.ns))
    }

    /// Kills the node's process; milliseconds until a message that is fed right after is fetched.
    ///
    /// # Errors
    /// It did not come up, or the message was answered with a code.
    pub fn restart_ms(&self) -> Result<f64, Failure> {
        let before = self.running(0)?;
        let started = Instant::now();
        kill(before.pid)?;
        self.pass_one()?;
        let elapsed = started.elapsed();
        self.running(before.generation)?;
        Ok(elapsed.as_secs_f64() * 1e3)
    }

    /// The start of the running process with a generation above `generation`.
    fn running(&self, generation: u32) -> Result<Start, Failure> {
        let status = self.memory.slot_status.get(SLOT).ok_or("the group has no slot 1")?;
        let limit = patience();
        loop {
            let sequence = self.memory.status.sequence.load(Ordering::Acquire);
            let now = MonoTime::now();
            let running = status.state.load(Ordering::Acquire) == SlotState::Running as u32;
            let found = status.generation.load(Ordering::Acquire);
            if running && found > generation {
                let spawned = MonoTime::from_ns(status.started_ns.load(Ordering::Relaxed));
                let pid = status.pid.load(Ordering::Acquire);
                return Ok(Start { pid, generation: found, ns: now.since_ns(spawned) });
            }
            if limit.is_past(now) {
                return Err("the executor did not come up in time".into());
            }
            futex::wait(&self.memory.status.sequence, sequence, Some(limit));
        }
    }

    /// Memory of the node's process now.
    ///
    /// # Errors
    /// It ended meanwhile.
    pub fn footprint(&self) -> Result<Footprint, Failure> {
        let pid = self.running(0)?.pid;
        let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
        let anonymous = kib(line.ok_or("no RssAnon in status")?)?;
        let (proportional, arena) = shares(&fs::read_to_string(format!("/proc/{pid}/smaps"))?)?;
        Ok(Footprint { anonymous, proportional, arena })
    }
}

/// The group of a session, read only.
fn status(session: &Session) -> Result<Memory<'static>, Failure> {
    let children = procfs::children(session.watcher_pid());
    let flow = children.into_iter().find_map(Flow::of).ok_or("the flow has no supervisor")?;
    let (control, arena) = (flow.open("dflow-control")?, flow.open("dflow-arena")?);
    Ok(attach(control.as_fd(), arena.as_fd(), Role::Reader)?.group.memory)
}

fn kill(pid: u32) -> Result<(), Failure> {
    Ok(PidFd::open(pid)?.signal(Signal::KILL)?)
}

#[allow(clippy::cast_precision_loss, reason = "times are far below 2^53 ns")]
fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

/// The number of a line such as `Pss:  12 kB`.
fn kib(text: &str) -> Result<u64, Failure> {
    Ok(text.trim().trim_end_matches("kB").trim().parse()?)
}

/// Proportional KiB of all mappings but the arena, and of the arena, from the text of `smaps`.
fn shares(smaps: &str) -> Result<(u64, u64), Failure> {
    let (mut others, mut arena, mut is_arena) = (0, 0, false);
    for line in smaps.lines() {
        if let Some(text) = line.strip_prefix("Pss:") {
            *(if is_arena { &mut arena } else { &mut others }) += kib(text)?;
        } else if line.split(' ').next().is_some_and(|first| first.contains('-')) {
            is_arena = line.contains("/memfd:dflow-arena");
        }
    }
    Ok((others, arena))
}

#[cfg(test)]
mod tests {
    use super::shares;

    #[test]
    fn the_arena_is_apart() {
        let smaps = "55-56 r-xp 0 00:01 7   /bin/x\nRss: 9 kB\nPss:   3 kB\nPss_Dirty: 1 kB\n\
                     60-61 rw-s 0 00:01 8   /memfd:dflow-arena (deleted)\nPss: 40 kB\n\
                     62-63 rw-p 0 00:00 0\nPss: 5 kB\nVmFlags: rd wr\n";
        assert_eq!(shares(smaps).unwrap(), (8, 40));
    }
}
