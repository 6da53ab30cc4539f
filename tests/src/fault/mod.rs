//! Sessions that are killed and stopped while they work, and the oracle that looks at what is left.
//!
//! Each session runs a [`Subject`]: the test functions' flow, or the page-orientation flow with its
//! model. Oracle, for every session: each fed (trans_id, port) ended in exactly one event; no id
//! ended by its deadline (that would be a hang); payloads are the results of their ids; after
//! everything was fetched and the sweeps are done no mbuf and no block is in use; no process that
//! belonged to the flow is left, grandchildren included; nothing new stands in `/dev/shm` or
//! `/tmp`. Sessions whose host is killed check the last two only.

mod busy;
mod host;
pub mod left;
mod pages;
mod subject;
mod supervisor;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use busy::executors;
pub use host::{host_killed, host_role, host_stopped};
pub use pages::Pages;
pub use subject::{Diamond, Subject};
pub use supervisor::supervisor;

/// Kills and stops of one target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Events {
    /// SIGKILLs.
    pub kill: u64,
    /// SIGSTOPs with a SIGCONT after them.
    pub stop: u64,
}

/// What sessions reported, added up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// By target.
    pub events: BTreeMap<String, Events>,
    /// Ids fed.
    pub fed: u64,
    /// Ids that got exactly one terminal event on every port.
    pub terminal: u64,
    /// Events beyond the first of an id and port that reached the user (late messages are dropped
    /// before).
    pub duplicates: u64,
    /// Messages that came after their id was answered; dropped by the session.
    pub late: u64,
    /// Events with a code.
    pub coded: u64,
    /// Payloads that were not their id's result.
    pub torn: u64,
    /// Mbuf entries in use at the end.
    pub leaked_mbufs: u64,
    /// Blocks with references at the end.
    pub leaked_blocks: u64,
    /// Processes left.
    pub orphans: u64,
    /// Files left.
    pub files_left: u64,
    /// Waits that met their watchdog, and ids that ended by their deadline.
    pub hangs: u64,
}

impl Report {
    /// Adds another report.
    pub fn add(&mut self, other: &Report) {
        for (target, events) in &other.events {
            let sum = self.events.entry(target.clone()).or_default();
            sum.kill += events.kill;
            sum.stop += events.stop;
        }
        self.fed += other.fed;
        self.terminal += other.terminal;
        self.duplicates += other.duplicates;
        self.late += other.late;
        self.coded += other.coded;
        self.torn += other.torn;
        self.leaked_mbufs += other.leaked_mbufs;
        self.leaked_blocks += other.leaked_blocks;
        self.orphans += other.orphans;
        self.files_left += other.files_left;
        self.hangs += other.hangs;
    }

    /// All kills.
    #[must_use]
    pub fn kills(&self) -> u64 {
        self.events.values().map(|events| events.kill).sum()
    }

    /// What the oracle objects to; empty when all is well.
    #[must_use]
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if self.fed != self.terminal {
            faults
                .push(format!("{} ids fed, {} ended once on every port", self.fed, self.terminal));
        }
        for (count, what) in [
            (self.duplicates, "duplicate events"),
            (self.torn, "payloads that are not their id's result"),
            (self.leaked_mbufs, "mbufs in use at the end"),
            (self.leaked_blocks, "blocks in use at the end"),
            (self.orphans, "processes left"),
            (self.files_left, "files left"),
            (self.hangs, "hangs"),
        ] {
            if count != 0 {
                faults.push(format!("{count} {what}"));
            }
        }
        faults
    }
}

/// What a session shall go through.
#[derive(Clone, Copy, Debug)]
pub struct Config<'s> {
    /// What runs.
    pub subject: &'s dyn Subject,
    /// Of the random source.
    pub seed: u64,
    /// Ids to feed at least.
    pub ids: u64,
    /// Kills and stops of each target at least.
    pub events: Events,
    /// A repair to switch off: the canary.
    pub sabotage: u32,
    /// Run the executors in a PID namespace.
    pub namespace: bool,
    /// Give the set that a process died with to its successor, where the graph says so; else it is
    /// answered.
    pub redeliver: bool,
    /// Milliseconds until an id counts as hung.
    pub patience_ms: u32,
}

impl<'s> Config<'s> {
    /// A session with all repairs on.
    #[must_use]
    pub fn of(subject: &'s dyn Subject, seed: u64, ids: u64, events: Events) -> Config<'s> {
        let (namespace, redeliver) = (true, true);
        Config {
            subject,
            seed,
            ids,
            events,
            sabotage: 0,
            namespace,
            redeliver,
            patience_ms: 30_000,
        }
    }
}
