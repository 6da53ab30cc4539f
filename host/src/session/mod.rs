//! A running flow: feed, fetch, cancel, close.
//!
//! ```text
//! feed ─► ledger.open ─► host partition ─► queues ─► executors ─► queues ─► fetch ─► ledger.settle
//!                  watch threads: watcher's pidfd; StatusCtl (deaths, sweeps, failures)
//! ```
//! Invariants: H1 each (trans_id, output port) ends in exactly one [`Event`]. H2 feed hands
//! everything back on failure: no id is half fed. H3 nothing here is on the path between executors:
//! a stopped host stops nothing.
//!
//! | dies | effect |
//! |---|---|
//! | executor | swept and restarted by the supervisor; ids that nothing carries are answered here |
//! | supervisor or watcher | each open id is answered SUPERVISOR_DIED; further feeds are refused |
//! | one of them while the other is stopped | the stopped one is continued, and ends the rest |
//! | host | the supervisor ends everything |
//!
//! One thread may feed while another fetches; everything takes a deadline:
//! ```no_run
//! use dflow::{Feed, FetchError, MonoTime, Session, Tensor};
//!
//! fn run(session: &Session, files: Vec<Vec<u8>>) -> Result<(), Box<dyn std::error::Error>> {
//!     let count = files.len() * session.plan().host.outputs.len();
//!     std::thread::scope(|scope| {
//!         scope.spawn(|| {
//!             for file in files {
//!                 let feed = Feed::of(vec![Tensor::bytes(file)]);
//!                 let feed = Feed { deadline_ms: Some(500), ..feed };
//!                 // Waits for room. What can't be fed comes back with the reason.
//!                 if let Err(refused) = session.feed(feed, None) {
//!                     eprintln!("{refused}: {} tensors back", refused.feed.tensors.len());
//!                 }
//!             }
//!         });
//!         for _ in 0..count {
//!             match session.fetch(Some(MonoTime::now().add_ms(1_000))) {
//!                 Ok(event) => match event.outcome {
//!                     Ok(data) => println!("id {}: {} bytes", event.trans_id, data.bytes().len()),
//!                     Err(failure) => println!("id {}: {failure}", event.trans_id),
//!                 },
//!                 Err(FetchError::TimedOut) => continue,
//!                 Err(ended) => return Err(ended.into()),
//!             }
//!         }
//!         Ok(())
//!     })
//! }
//! ```

mod feed;
mod fetch;
mod ledger;
mod lost;
mod message;
mod turn;
mod watch;

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use executor_core::error::{AttachError, Code};
use executor_core::inspect::{self, Usage};
use executor_core::mbuf::Mbuf;
use executor_core::pool::Worker;
use executor_core::queue::QueueInfo;
use executor_rt::attach::{Attached, Failure as GroupFailure};
use executor_rt::plan::command;
use executor_rt::{payload, port};
use sys::clock::MonoTime;
use sys::doorbell::EventFd;

pub use feed::{FeedError, FeedReason};
pub use fetch::FetchError;
pub use ledger::LedgerCounts;
pub use message::{Event, Failure, Feed, Output, Tensor};

use crate::deploy::group::group_error;
use crate::deploy::launch::Launched;
use crate::deploy::responses::Responses;
use crate::error::{DeployError, Place, Problem};
use crate::plan::DeployPlan;
use ledger::Ledger;
use turn::Turn;

/// Why a session no longer runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ended {
    /// NODE_FAILED, SUPERVISOR_DIED, PEER_FAULT or SESSION_CLOSED.
    pub code: Code,
    /// In words.
    pub reason: String,
    /// The last lines of failed nodes' logs, each with its newline; empty for other reasons.
    pub log: String,
}

pub(crate) struct Shared {
    pub(crate) attached: &'static Attached,
    pub(crate) plan: DeployPlan,
    ledger: Mutex<Ledger>,
    room: Condvar,
    /// Threads that sleep on `room`; changed under the ledger's lock.
    feeders: AtomicU32,
    feed: Turn<feed::FeedSide>,
    fetch: Turn<fetch::FetchSide>,
    spare: Mutex<Worker<'static>>,
    ended: Mutex<Option<Ended>>,
    launched: Launched,
    stop: EventFd,
    closing: AtomicBool,
    restarts: AtomicU64,
    outputs_out: AtomicU64,
    closed: AtomicBool,
    retired: AtomicBool,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("flow", &self.plan.name).finish_non_exhaustive()
    }
}

/// Locks also after a panic of another thread: the data is consistent at every unlock.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    fn payload<'a>(&'a self, mbuf: &'a Mbuf) -> &'a [u8] {
        self.attached.group.memory.mbuf(mbuf).map_or(&[], |access| payload::bytes_of(access, mbuf))
    }

    fn give_back(&self, mbuf: Mbuf) {
        port::free(&mut lock(&self.spare), mbuf);
        // SYNC: SeqCst, pairs with `shut_down`: of closing and the last drop, the later one sees
        // both.
        self.outputs_out.fetch_sub(1, Ordering::SeqCst);
        self.retire_unused();
    }

    /// Gives the group's memory back once the session is closed and nobody holds an output: nobody
    /// can fetch another one.
    fn retire_unused(&self) {
        let unused =
            self.closed.load(Ordering::SeqCst) && self.outputs_out.load(Ordering::SeqCst) == 0;
        if unused && !self.retired.swap(true, Ordering::SeqCst) {
            let _ = self.attached.retire();
        }
    }

    /// Answers every open id and refuses further feeds; the first reason stays.
    fn end(&self, code: Code, reason: &str) {
        self.end_with_log(code, reason, String::new());
    }

    /// As [`Shared::end`], with what logs say about it.
    fn end_with_log(&self, code: Code, reason: &str, log: String) {
        lock(&self.ended).get_or_insert_with(|| Ended { code, reason: reason.to_owned(), log });
        lock(&self.ledger).answer_all(code, reason);
        self.wake();
    }

    /// Wakes a feed that waits for room in the ledger, which was given back under its lock before.
    fn tell_room(&self) {
        // Relaxed: the ledger's lock ordered it.
        if self.feeders.load(Ordering::Relaxed) > 0 {
            self.room.notify_one();
        }
    }

    /// Wakes feed and fetch, so that they look at the ledger again.
    fn wake(&self) {
        self.room.notify_all();
        for waiter in fetch::host_waiters(self) {
            waiter.kick();
        }
    }
}

/// A session's ends of queues, and its workers: everything that can be refused before processes
/// run.
#[derive(Debug)]
pub(crate) struct Ends {
    feed: feed::FeedSide,
    fetch: fetch::FetchSide,
    spare: Worker<'static>,
    stop: EventFd,
    /// Taken out by the deployer until the session takes over.
    pub(crate) responses: Responses,
}

impl Ends {
    /// Opens them; `control` is the worker that made the queues.
    ///
    /// # Errors
    /// The group has no such worker or queue: a fault of the planner.
    pub(crate) fn open(
        plan: &DeployPlan,
        attached: &'static Attached,
        control: Worker<'static>,
    ) -> Result<Ends, DeployError> {
        let group = |error: AttachError| group_error(plan, GroupFailure::Attach(error));
        let queue = |_| group(AttachError::Slot);
        Ok(Ends {
            feed: feed::FeedSide::open(plan, attached.worker(0, 1).map_err(group)?)
                .map_err(queue)?,
            fetch: fetch::FetchSide::open(plan, attached.worker(1, 1).map_err(group)?)
                .map_err(queue)?,
            spare: attached.worker(3, 1).map_err(group)?,
            stop: EventFd::new().map_err(|e| group_error(plan, GroupFailure::Sys(e)))?,
            responses: Responses::open(plan, control).map_err(queue)?,
        })
    }
}

/// Counts of a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// The ledger's.
    pub ledger: LedgerCounts,
    /// Ids open now.
    pub open: usize,
    /// Restarts of all nodes.
    pub restarts: u64,
}

/// Counters of one executor, as it publishes them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NodeCounts {
    /// Label of the executor.
    pub label: String,
    /// Node.
    pub node: String,
    /// Process id as the host sees it; 0 while none runs, and for the moment between the start of a
    /// process (which may already work) and the supervisor's note of it.
    pub pid: u32,
    /// Restarts.
    pub restarts: u32,
    /// Input sets done.
    pub processed: u64,
    /// Nanoseconds inside the function (0 unless deployed with `timing`).
    pub user_ns: u64,
    /// malloc-family calls: before seal, by the runtime after it, in user code after it.
    pub allocations: (u64, u64, u64),
    /// Payload bytes the runtime copied.
    pub bytes_copied: u64,
    /// Answers with a code.
    pub coded: u64,
    /// Messages that came after a node that aligns its inputs gave their id up; dropped.
    pub late: u64,
}

/// A running flow. `Sync`: one thread may feed while another fetches.
#[derive(Debug)]
pub struct Session {
    shared: Arc<Shared>,
    watchers: Vec<JoinHandle<()>>,
}

impl Session {
    pub(crate) fn new(
        plan: DeployPlan,
        attached: &'static Attached,
        ends: Ends,
        launched: Launched,
    ) -> Result<Session, DeployError> {
        let max_open = usize::try_from(plan.session.max_open).unwrap_or(usize::MAX);
        let shared = Arc::new(Shared {
            attached,
            ledger: Mutex::new(Ledger::new(plan.host.outputs.len(), max_open.max(1))),
            room: Condvar::new(),
            feeders: AtomicU32::new(0),
            feed: Turn::new(ends.feed),
            fetch: Turn::new(ends.fetch),
            spare: Mutex::new(ends.spare),
            ended: Mutex::new(None),
            launched,
            stop: ends.stop,
            closing: AtomicBool::new(false),
            restarts: AtomicU64::new(0),
            outputs_out: AtomicU64::new(0),
            closed: AtomicBool::new(false),
            retired: AtomicBool::new(false),
            plan,
        });
        let mut session = Session { shared, watchers: Vec::new() };
        // A session that is refused here is shut down by being dropped.
        session.watchers = watch::start(&session.shared, ends.responses).map_err(|error| {
            DeployError::Start(Problem::new(
                Place::graph(&session.shared.plan.name),
                error.to_string(),
                "two threads that watch the flow",
                "raise the limit of processes (`ulimit -u`)",
            ))
        })?;
        Ok(session)
    }

    /// Feeds one transaction; its id. Waits for room (open ids, blocks, queues) until `deadline`,
    /// for ever with `None`.
    ///
    /// # Errors
    /// [`FeedError`] hands the feed back with the reason.
    pub fn feed(&self, feed: Feed, deadline: Option<MonoTime>) -> Result<u64, FeedError> {
        feed::feed(&self.shared, feed, deadline)
    }

    /// The next terminal event of any id and port. Waits until `deadline`, for ever with `None`.
    /// One thread fetches at a time; a second one waits for its turn, at most until its deadline.
    ///
    /// # Errors
    /// [`FetchError::TimedOut`] exactly at the deadline; [`FetchError::Ended`] when the session has
    /// ended and every event was fetched.
    pub fn fetch(&self, deadline: Option<MonoTime>) -> Result<Event, FetchError> {
        fetch::fetch(&self.shared, deadline)
    }

    /// Cancels an open id: its ports are answered CANCELLED and whatever still arrives is dropped
    /// and counted. False when it is not open.
    #[must_use]
    pub fn cancel(&self, trans_id: u64) -> bool {
        let mut ledger = lock(&self.shared.ledger);
        let open = ledger.answer(trans_id, Code::CANCELLED, "cancelled by the user");
        ledger.counts.cancelled += u64::from(open);
        drop(ledger);
        self.shared.wake();
        open
    }

    /// The plan it was deployed from.
    #[must_use]
    pub fn plan(&self) -> &DeployPlan {
        &self.shared.plan
    }

    /// Counts now.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let ledger = lock(&self.shared.ledger);
        let restarts = self.shared.restarts.load(Ordering::Relaxed);
        Counts { ledger: ledger.counts, open: ledger.open_count(), restarts }
    }

    /// Why the session ended by itself, if it did.
    #[must_use]
    pub fn ended(&self) -> Option<Ended> {
        lock(&self.shared.ended).clone()
    }

    /// Mbufs of the whole group in use.
    #[must_use]
    pub fn usage(&self) -> Usage {
        inspect::usage(&self.shared.attached.group)
    }

    /// Every live mbuf with its holder.
    pub fn held(&self) -> impl Iterator<Item = inspect::Held> + use<'_> {
        inspect::held(&self.shared.attached.group)
    }

    /// Counters of every queue, in plan order.
    #[must_use]
    pub fn queues(&self) -> Vec<QueueInfo> {
        let memory = self.shared.attached.group.memory;
        let queues = self.shared.plan.queues.iter();
        queues
            .filter_map(|q| memory.query_queue(executor_core::owner::QueueId(q.id)).ok())
            .collect()
    }

    /// Counters of every executor.
    #[must_use]
    pub fn nodes(&self) -> Vec<NodeCounts> {
        let executors = self.shared.plan.executors.iter();
        executors.filter_map(|executor| watch::node_counts(&self.shared, executor)).collect()
    }

    /// Process ids of the watcher and the supervisor's children live in [`NodeCounts::pid`]; this
    /// is the watcher's.
    #[must_use]
    pub fn watcher_pid(&self) -> u32 {
        self.shared.launched.keepers.watcher().pid
    }

    /// Descriptors of the stdout and stderr logs of executor number `index` in plan order, while
    /// the session lives.
    #[must_use]
    pub fn logs(&self, index: usize) -> Option<(&std::os::fd::OwnedFd, &std::os::fd::OwnedFd)> {
        self.shared.launched.files.get(index).map(|files| (&*files.stdout, &*files.stderr))
    }

    /// Ends the flow: executors finish what they hold (at most 10 s). Fetch everything before: what
    /// is still open is answered SESSION_CLOSED to nobody. Outputs that were fetched stay readable.
    /// Who is waited for longer than a second is said ([`crate::notice`]); a stopped supervisor or
    /// watcher is continued then, and killed where that does not help.
    /// Dropping a session does the same with less patience (2 s).
    pub fn close(mut self) {
        self.shut_down(15_000);
    }

    fn shut_down(&mut self, patience_ms: u64) {
        if self.shared.closing.swap(true, Ordering::AcqRel) {
            return;
        }
        let launched = &self.shared.launched;
        let _ = sys::socket::send(&launched.command, &[command::STOP]);
        launched.keepers.end(patience_ms, &|| watch::living(&self.shared));
        self.shared.end(Code::SESSION_CLOSED, "the session was closed");
        self.shared.stop.ring();
        for thread in self.watchers.drain(..) {
            // The status word is not the host's to change, so a thread that was about to sleep on
            // it could miss one wake-up.
            while !thread.is_finished() {
                watch::nudge(&self.shared);
                std::thread::sleep(Duration::from_millis(1));
            }
            let _ = thread.join();
        }
        self.shared.closed.store(true, Ordering::SeqCst);
        self.shared.retire_unused();
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.shut_down(2_000);
    }
}
