//! Submitting: an entry gets its task number and its place.
//!
//! A ring that is full makes the submitter wait while the device works. The line of a model's
//! stream is of fixed depth, or (AutoSplit) a buffer of the host that is continued in a slave
//! stream when it is nearly full.

use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};
use std::time::Instant;

use crate::capture::Update;
use crate::codes::{
    CAPTURE_MODE_NOT_SUPPORT, MODEL_EXECUTE, Result, STREAM_ABORT, STREAM_TASK_FULL,
    TASK_TYPE_NOT_SUPPORT, refuse,
};
use crate::device::Inner;
use crate::lock::lock;
use crate::model::{Graph, split};
use crate::sqe::{Sqe, WRITE_REPORT, kind, task};
use crate::stream::{Core, Queue};

/// The submitter's side of a stream.
#[derive(Debug, Default)]
pub(crate) struct Submit {
    /// Number of the next task; wraps before 0xFFFF.
    next_task: u16,
    /// Tasks before this are done, as it was last seen: the line of the head is the core's.
    seen_head: u64,
    /// The ring, once a task was pushed: a count of references less for each of them.
    ring: Option<Arc<Queue>>,
    /// Calls of abort under way, and all there ever were.
    pub(crate) aborting: u32,
    pub(crate) aborts: u64,
    pub(crate) report_all: bool,
    /// Entries on the host until the model is complete (AutoSplit).
    pub(crate) host: Vec<Sqe>,
    /// Streams that continue this one.
    pub(crate) slaves: Vec<Arc<Core>>,
    /// Its model is complete: nothing can be added.
    pub(crate) complete: bool,
    /// The model that it is captured into.
    pub(crate) capture: Option<Arc<Graph>>,
    /// The update that its tasks are.
    pub(crate) update: Option<Box<Update>>,
}

impl Submit {
    fn number(&mut self) -> u16 {
        let task = self.next_task;
        self.next_task = if task == 0xFFFE { 0 } else { task + 1 };
        task
    }

    /// As for a stream that was never used.
    pub(crate) fn forget_tasks(&mut self) {
        *self = Self { aborts: self.aborts, report_all: self.report_all, ..Self::default() };
    }
}

impl Core {
    /// Submits a task; gives its number and the place of the entry.
    pub(crate) fn submit(self: &Arc<Self>, device: &Inner, sqe: Sqe) -> Result<Placed> {
        if self.is_persistent() { self.append(device, sqe) } else { self.push(device, [sqe]) }
    }

    /// Into the ring, all or none, one after the other; waits for room as long as the device is
    /// patient. Gives the place of the first.
    pub(crate) fn push<const N: usize>(
        self: &Arc<Self>,
        device: &Inner,
        mut sqes: [Sqe; N],
    ) -> Result<Placed> {
        let mut deadline = None;
        loop {
            let mut submit = lock(&self.submit);
            if submit.aborting > 0 {
                return refuse(STREAM_ABORT, format!("stream {} is being aborted", self.shown));
            }
            if self.is_closed() {
                let what = format!("stream {} has ended with its context", self.shown);
                return refuse(STREAM_ABORT, what);
            }
            if submit.capture.is_some() || submit.update.is_some() {
                return self.divert(device, submit, &sqes);
            }
            let depth = submit.ring.get_or_insert_with(|| self.queue()).depth();
            let tail = self.tail.load(Ordering::Relaxed);
            let fits = |head: u64| tail + N as u64 - head <= depth;
            if !fits(submit.seen_head) {
                submit.seen_head = self.head.load(Ordering::Acquire);
            }
            if fits(submit.seen_head) {
                sqes.iter_mut().for_each(|sqe| self.stamp(&mut submit, sqe));
                for (at, sqe) in (tail..).zip(&sqes) {
                    submit.ring.iter().for_each(|ring| ring.write(at, sqe));
                }
                self.tail.store(tail + N as u64, Ordering::Release);
                drop(submit);
                self.kick(device);
                let task = sqes.first().map_or(0, |sqe| sqe.header.task);
                return Ok(Placed { stream: self.clone(), position: tail, task });
            }
            drop(submit);
            let until = *deadline.get_or_insert_with(|| Instant::now() + device.config.patience);
            let room = || fits(self.head.load(Ordering::Acquire));
            if !self.wait_until(Some(until), room) && !self.is_closed() {
                let id = self.shown;
                return refuse(STREAM_TASK_FULL, format!("stream {id} has {depth} tasks waiting"));
            }
        }
    }

    /// To where tasks go that are not run now.
    fn divert(
        self: &Arc<Self>,
        device: &Inner,
        mut submit: MutexGuard<'_, Submit>,
        sqes: &[Sqe],
    ) -> Result<Placed> {
        let [sqe] = *sqes else {
            let what = format!("stream {} is captured or updating: it runs no model", self.shown);
            return refuse(CAPTURE_MODE_NOT_SUPPORT, what);
        };
        if let Some(graph) = submit.capture.clone() {
            drop(submit);
            return graph.capture_task(self, device, sqe);
        }
        if let Some(update) = &mut submit.update {
            update.add(sqe)?;
        }
        Ok(Placed { stream: self.clone(), position: 0, task: 0 })
    }

    /// Behind the tasks of a model's stream.
    fn append(self: &Arc<Self>, device: &Inner, mut sqe: Sqe) -> Result<Placed> {
        let graph = if self.is_cpu() { self.check_cpu(&sqe).map(|()| None)? } else { self.graph() };
        if let Some(graph) =
            graph.filter(|graph| device.config.auto_split || graph.capture.is_some())
        {
            return split::append(self, device, &graph, sqe);
        }
        let mut submit = lock(&self.submit);
        self.check_open(&submit)?;
        if device.config.auto_split || self.is_cpu() {
            split::reserve(&mut submit, self)?;
            self.stamp(&mut submit, &mut sqe);
            submit.host.push(sqe);
            let position = submit.host.len() as u64 - 1;
            return Ok(Placed { stream: self.clone(), position, task: sqe.header.task });
        }
        let (queue, tail) = (self.queue(), self.tail.load(Ordering::Relaxed));
        if tail >= queue.depth() {
            let (id, depth) = (self.shown, queue.depth());
            return refuse(STREAM_TASK_FULL, format!("stream {id} is {depth} tasks deep"));
        }
        self.stamp(&mut submit, &mut sqe);
        queue.write(tail, &sqe);
        self.tail.store(tail + 1, Ordering::Release);
        Ok(Placed { stream: self.clone(), position: tail, task: sqe.header.task })
    }

    /// Whether the device's CPU has such a task.
    fn check_cpu(&self, sqe: &Sqe) -> Result<()> {
        let known = match (sqe.kind(), sqe.task_type()) {
            (kind::AICPU | kind::NOTIFY_RECORD | kind::NOTIFY_WAIT, _) => true,
            (kind::PLACE_HOLDER, of) => matches!(of, task::STREAM_ACTIVE | task::NOP),
            _ => false,
        };
        if known {
            return Ok(());
        }
        let what = format!("stream {} is of the device's CPU, which has no such task", self.shown);
        refuse(TASK_TYPE_NOT_SUPPORT, what)
    }

    pub(crate) fn check_open(&self, submit: &Submit) -> Result<()> {
        if submit.complete {
            let what =
                format!("stream {}: its model is complete, no task can be added", self.shown);
            return refuse(MODEL_EXECUTE, what);
        }
        Ok(())
    }

    /// Gives an entry its numbers.
    pub(crate) fn stamp(&self, submit: &mut Submit, sqe: &mut Sqe) {
        sqe.header.stream = u16::try_from(self.shown).unwrap_or(u16::MAX);
        sqe.header.task = submit.number();
        if submit.report_all {
            sqe.header.flags |= WRITE_REPORT;
        }
    }

    /// Tasks that stand in it, on the host or on the device.
    pub(crate) fn entries(&self) -> Vec<Sqe> {
        let submit = lock(&self.submit);
        if !submit.host.is_empty() {
            return submit.host.clone();
        }
        let queue = self.queue();
        let from = if self.is_persistent() { 0 } else { self.head.load(Ordering::Acquire) };
        (from..self.tail.load(Ordering::Acquire)).map(|at| queue.read(at)).collect()
    }
}

impl Placed {
    /// The entry, unless its model has ended.
    pub(crate) fn read(&self) -> Option<Sqe> {
        self.stream.queue().get(self.position)
    }

    /// Another task of the same kind in its place, with its numbers, unless its model has ended.
    /// The model is idle.
    pub(crate) fn replace(&self, sqe: &Sqe) {
        let queue = self.stream.queue();
        let Some(old) = queue.get(self.position) else { return };
        let mut new = *sqe;
        (new.header.stream, new.header.task) = (old.header.stream, old.header.task);
        new.header.flags = old.header.flags;
        queue.write(self.position, &new);
    }
}

/// Where a task was put.
#[derive(Clone, Debug)]
pub(crate) struct Placed {
    /// The stream that it really is in: a slave perhaps.
    pub(crate) stream: Arc<Core>,
    pub(crate) position: u64,
    pub(crate) task: u16,
}
