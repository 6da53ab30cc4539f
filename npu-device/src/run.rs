//! What a core does: takes a stream and runs its tasks until there is none, one waits, or
//! something more urgent is ready.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use executor_core::error::Code;

use crate::codes::MODEL_EXECUTE;
use crate::device::Inner;
use crate::lock::lock;
use crate::sqe::{Sqe, WRITE_REPORT};
use crate::step::Flow;
use crate::stream::{Core, Cursor, Queue};

/// Tasks after which a core looks whether others of its level wait.
const SLICE: u32 = 64;

/// How often a core looks for another task before it leaves a stream: some microseconds.
const LOOKS: u32 = 256;

/// Why a core left a stream.
enum Pause {
    /// All tasks are done.
    Drained,
    /// A task waits, until a time perhaps.
    Blocked(Option<Instant>),
    /// Others first; `true`: it stays first of its level.
    Yield(bool),
    /// A stream of a model was stopped or failed.
    Ended,
    /// A stream of a model ends and another one goes on.
    Switch(Arc<Core>, u64),
}

impl Inner {
    /// A core's life.
    pub(crate) fn work(&self) {
        while let Some(stream) = self.sched.next() {
            self.run(&stream);
        }
    }

    fn run(&self, stream: &Arc<Core>) {
        loop {
            let pause = self.walk(stream, &mut lock(&stream.cursor));
            stream.tell_progress();
            let left = match pause {
                Pause::Drained if !stream.is_persistent() => self.sched.rest(stream),
                Pause::Drained | Pause::Ended => {
                    self.leave(stream, None);
                    true
                }
                Pause::Switch(target, at) => {
                    self.leave(stream, Some((target, at)));
                    true
                }
                Pause::Blocked(until) => self.sched.block(stream, until),
                Pause::Yield(front) => {
                    self.sched.requeue(stream, front);
                    true
                }
            };
            if left {
                return;
            }
        }
    }

    /// A stream of a model has ended; another one of it goes on perhaps.
    fn leave(&self, stream: &Arc<Core>, next: Option<(Arc<Core>, u64)>) {
        let graph = stream.graph();
        if let (Some(graph), Some(_)) = (&graph, &next) {
            graph.joins();
        }
        self.sched.deactivate(stream);
        let Some(graph) = graph else { return };
        if let Some((target, at)) = next
            && !self.sched.activate(&target, at)
        {
            graph.fail(self, MODEL_EXECUTE);
            graph.leaves(self);
        }
        graph.leaves(self);
    }

    fn walk(&self, stream: &Arc<Core>, cursor: &mut Cursor) -> Pause {
        let (queue, level, ring) = (stream.queue(), stream.level(), !stream.is_persistent());
        if stream.fresh.swap(false, Ordering::Relaxed) {
            *cursor = Cursor { at: stream.entry.load(Ordering::Relaxed), ..Cursor::default() };
        }
        let (mut tail, mut left) = (cursor.at, SLICE);
        loop {
            if stream.stop.load(Ordering::Relaxed) || stream.is_closed() {
                return self.stopped(stream, cursor, &queue);
            }
            if cursor.at == tail {
                tail = self.look_out(stream, cursor.at);
                if cursor.at == tail {
                    return Pause::Drained;
                }
            }
            let sqe = queue.read(cursor.at);
            match self.step(stream, cursor, &sqe) {
                Flow::Next => {}
                Flow::Wait => {
                    cursor.begun = true;
                    return Pause::Blocked(cursor.deadline);
                }
                Flow::Jump(target, at) if Arc::ptr_eq(&target, stream) => {
                    cursor.go_to(at);
                    if let Some(pause) = self.slice(stream, level, &mut left) {
                        return pause;
                    }
                    continue;
                }
                Flow::Jump(target, at) => return Pause::Switch(target, at),
                Flow::Fail(code) => {
                    self.failed(stream, cursor.at, &sqe, code);
                    if !ring {
                        return Pause::Ended;
                    }
                }
            }
            if ring {
                stream.head.store(cursor.at + 1, Ordering::Release);
            }
            if sqe.header.flags & WRITE_REPORT != 0 {
                stream.reports.push(stream.sq, &sqe, cursor.at + 1, Code::SUCCESS, self.begin);
            }
            cursor.go_to(cursor.at + 1);
            if let Some(pause) = self.slice(stream, level, &mut left) {
                return pause;
            }
        }
    }

    /// The tail of a stream whose tasks before `at` are all done. A device that looks out before it
    /// sleeps does so here, too: to rest and to be woken costs more than a task. Not while others
    /// wait for a core, or somebody for this stream.
    fn look_out(&self, stream: &Core, at: u64) -> u64 {
        let looks = if self.config.spin.is_zero() || stream.is_persistent() { 0 } else { LOOKS };
        for _ in 0..looks {
            let tail = stream.tail.load(Ordering::Acquire);
            let leave = tail != at || stream.is_waited_for() || stream.stop.load(Ordering::Relaxed);
            if leave || self.sched.has_ready() || self.ending.load(Ordering::Relaxed) {
                return tail;
            }
            std::hint::spin_loop();
        }
        stream.tail.load(Ordering::Acquire)
    }

    /// After a task: others first?
    fn slice(&self, stream: &Core, level: u8, left: &mut u32) -> Option<Pause> {
        if self.sched.more_urgent(level) {
            return Some(Pause::Yield(true));
        }
        *left -= 1;
        if *left > 0 {
            return None;
        }
        *left = SLICE;
        stream.tell_progress();
        let others = self.sched.as_urgent(level) || self.ending.load(Ordering::Relaxed);
        others.then_some(Pause::Yield(false))
    }

    /// A task failed: the stream keeps the code, or its model ends with it.
    fn failed(&self, stream: &Arc<Core>, at: u64, sqe: &Sqe, code: Code) {
        stream.reports.push(stream.sq, sqe, at + 1, code, self.begin);
        match stream.graph() {
            Some(graph) => graph.fail(self, code),
            None => stream.stick(code),
        }
    }

    /// The stream was told to stop: its task no longer waits, those behind it are dropped.
    fn stopped(&self, stream: &Arc<Core>, cursor: &mut Cursor, queue: &Queue) -> Pause {
        if cursor.begun {
            let sqe = queue.read(cursor.at);
            if !self.give_up(stream, cursor, &sqe) {
                return Pause::Blocked(None);
            }
        }
        if stream.is_persistent() {
            return Pause::Ended;
        }
        let tail = stream.tail.load(Ordering::Acquire);
        for position in cursor.at..tail {
            // A run that this stream has started ends with it, also if it had not waited yet.
            let sqe = queue.read(position);
            self.abandon_run(stream, &sqe);
            self.drop_record(&sqe);
        }
        cursor.go_to(tail);
        stream.head.store(tail, Ordering::Release);
        stream.stop.store(false, Ordering::Release);
        Pause::Drained
    }
}

impl Cursor {
    fn go_to(&mut self, at: u64) {
        *self = Self { at, ..Self::default() };
    }
}
