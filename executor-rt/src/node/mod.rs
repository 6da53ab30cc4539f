//! The loop of one node, shared by every executor: collect a set of inputs, execute it, send the
//! outputs, give the inputs back.
//!
//! | module | what |
//! |---|---|
//! | [`state`], [`processor`] | states as a table, the loop that goes through them |
//! | [`reader`], [`writer`] | inputs, outputs |
//! | [`align`], [`by_time`] | which messages of several inputs belong together: by id, by time |
//! | [`request`] | what a load request says of a node |
//! | [`open`] | ends of queues, waiting for their grants |
//! | [`mod@adopt`] | after a death: what the predecessor left |
//! | `holders` | who holds the mbufs, as text |
//!
//! What differs between executors is behind two traits: [`Task`], how one complete set is executed
//! (a call of a user function, a run of a model), and [`Control`], what else may interrupt a wait
//! (messages of a request queue, commands of another thread).
//!
//! All of a [`Node`] is used by one thread. One sleeping place serves all its waits: messages,
//! room, free mbufs and control all ring it.

pub mod adopt;
pub mod align;
pub mod by_time;
mod holders;
pub mod open;
pub mod processor;
pub mod reader;
pub mod request;
pub mod state;
pub mod writer;

use core::cell::RefCell;
use core::sync::atomic::{AtomicBool, Ordering as Std};

use executor_core::abi::control::SlotCtl;
use executor_core::abi::{DataFlag, MsgInfo, MsgType, RuntimeTensorDesc, TENSOR_DESC_SIZE};
use executor_core::error::{AllocError, Code};
use executor_core::group::Group;
use executor_core::mbuf::Mbuf;
use executor_core::owner::SlotId;
use executor_core::pool::{Head, Worker};
use executor_core::primitive::{AtomicU64, Ordering, spin_hint};
use sys::clock::MonoTime;

use crate::log::Logger;
use crate::waiter::{Waiter, ring};
use crate::{interpose, payload, report};

use holders::Holders;
use reader::Reader;
use writer::{Flush, Writer};

pub use adopt::{Resume, adopt};
pub use processor::{Processor, Task, Verdict};

/// Set by SIGTERM; every loop of the process ends in order. Setup names the waiter that the signal
/// wakes (`sys::signal::wake_on`).
pub static TERMINATED: AtomicBool = AtomicBool::new(false);

/// Set by SIGXFSZ: a write met the limit on file sizes. Most likely it was a line of a log.
pub static WRITE_REFUSED: AtomicBool = AtomicBool::new(false);

/// `SlotCtl::state` numbers of the start-up steps.
pub mod step {
    /// Attaching.
    pub const ATTACH: u32 = 100;
    /// Files, library, model and ports are opened.
    pub const LOAD: u32 = 101;
    /// The message queues are waited for.
    pub const QUEUES: u32 = 102;
}

/// How a loop ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// As asked: finalize message, command or SIGTERM.
    Clean,
    /// With a code.
    Code(Code),
}

/// Why a start-up failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Failure {
    /// Asked to end before it began.
    Clean,
    /// What, where, found and expected.
    Code(Code, String),
}

impl Failure {
    /// A failure with its text.
    #[must_use]
    pub fn new(code: Code, text: impl Into<String>) -> Failure {
        Failure::Code(code, text.into())
    }
}

impl From<End> for Failure {
    fn from(end: End) -> Failure {
        match end {
            End::Clean => Failure::Clean,
            End::Code(code) => Failure::new(code, "a control message ended the start-up"),
        }
    }
}

/// What the node opted into, and limits.
#[derive(Clone, Copy, Default, Debug)]
pub struct Options {
    /// No answer is made for a destination that a set left out.
    pub stateful: bool,
    /// A set that was inside the task at a death is given to the successor again.
    pub redeliver: bool,
    /// Deaths by one set before it is answered with `POISON`.
    pub poison_limit: u64,
    /// First node of the flow: numbers its inputs' steps.
    pub is_head: bool,
    /// Longest wait for a free mbuf, milliseconds.
    pub alloc_timeout_ms: u64,
    /// Rounds of looking before a sleep.
    pub spin: u32,
    /// Measure the time in the task.
    pub timing: bool,
}

/// What may interrupt the waits of a node, besides messages and SIGTERM.
pub trait Control {
    /// True when [`Control::serve`] has something to do. Whoever makes it true rings the node's
    /// waiter.
    fn is_waiting(&mut self, worker: &Worker<'static>) -> bool;

    /// The node is about to sleep: gives back what nobody may hold in its sleep.
    fn rest(&mut self) {}

    /// Does it; `Some` when the loop has to end.
    fn serve(&mut self, worker: &mut Worker<'static>, logger: &Logger) -> Option<End>;
}

/// Head of a message to be made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HeadOf {
    /// The current input's, zeros without one.
    Input,
    /// Zeros.
    Nothing,
}

/// See the module.
#[derive(Debug)]
pub struct Node<C> {
    /// The group.
    pub group: Group<'static>,
    /// The slot's worker, used by this node's thread only.
    pub worker: Worker<'static>,
    /// Its sleeping place.
    pub waiter: Waiter<'static>,
    /// Inputs.
    pub reader: Reader,
    /// Outputs.
    pub writer: Writer,
    /// What else interrupts a wait.
    pub control: C,
    /// Options and limits.
    pub options: Options,
    /// trans_id of the set under way; the set's number for a task without inputs.
    pub trans_id: u64,
    /// Next step number of a head node.
    pub step: u32,
    /// Asked to end during a wait inside the task.
    pub ending: Option<End>,
}

/// Adds to a word that only this process writes.
pub fn add(word: &AtomicU64, count: u64) {
    word.store(word.load(Ordering::Relaxed).wrapping_add(count), Ordering::Relaxed);
}

impl<C: Control> Node<C> {
    /// A node without ports. `None` when the slot has no such waiter.
    #[must_use]
    pub fn new(group: Group<'static>, worker: Worker<'static>, control: C) -> Option<Self> {
        let waiter = Waiter::new(&group.memory, worker.slot(), 0)?;
        Some(Node {
            group,
            worker,
            waiter,
            reader: Reader::default(),
            writer: Writer::new(Box::default(), Box::default()),
            control,
            options: Options::default(),
            trans_id: 0,
            step: 0,
            ending: None,
        })
    }

    /// The words of this slot.
    pub fn ctl(&self) -> &'static SlotCtl {
        self.worker.private.ctl
    }

    /// Publishes the counters of the malloc family, those of the whole process.
    pub fn publish(&self) {
        let ctl = self.ctl();
        interpose::publish(&ctl.setup_allocations, &ctl.runtime_allocations, &ctl.user_allocations);
    }

    /// Gives an mbuf back.
    pub fn free(&mut self, mbuf: Mbuf) {
        let wakes = self.worker.free(mbuf);
        ring(&self.worker.memory, wakes);
    }

    /// Sleeps until `done`, something for the control, SIGTERM or `limit`. With `pool`, a free mbuf
    /// wakes too; room for cached outputs always does.
    pub fn park(
        &mut self,
        limit: Option<MonoTime>,
        pool: bool,
        mut done: impl FnMut(&mut Self) -> bool,
    ) {
        self.control.rest();
        let mut ready = |node: &mut Self| {
            done(node) || node.control.is_waiting(&node.worker) || TERMINATED.load(Std::Relaxed)
        };
        for _ in 0..self.options.spin {
            if ready(self) {
                return;
            }
            spin_hint();
        }
        self.publish();
        add(&self.ctl().parks, 1);
        let (memory, waiter) = (self.worker.memory, self.waiter);
        let blocked = !self.writer.is_flushed();
        let this = RefCell::new(&mut *self);
        waiter.wait(
            limit,
            || {
                let mut node = this.borrow_mut();
                let Node { worker, writer, .. } = &mut **node;
                if blocked {
                    writer.register(worker);
                }
                if pool {
                    memory.register_pool_wait(waiter.slot(), waiter.index());
                }
            },
            || ready(&mut this.borrow_mut()),
        );
        if blocked {
            self.writer.withdraw();
        }
        if pool {
            memory.withdraw_pool_wait(waiter.slot(), waiter.index());
        }
        add(&self.ctl().progress, 1);
    }

    /// Does what the control wants; `Some` when the loop has to end.
    pub fn serve(&mut self, logger: &Logger) -> Option<End> {
        if TERMINATED.load(Std::Relaxed) {
            return Some(End::Clean);
        }
        self.ending.or_else(|| self.control.serve(&mut self.worker, logger))
    }

    fn try_alloc(&mut self, size: u64, head: HeadOf) -> Result<Mbuf, AllocError> {
        let head = match (head, self.reader.first()) {
            (HeadOf::Input, Some(input)) => Head::Of(input),
            _ => Head::Zeroed,
        };
        self.worker.alloc(size, head)
    }

    /// Allocates, waiting for a free mbuf while outputs move on and the control is served.
    ///
    /// # Errors
    /// [`Code::NO_MBUF`] after the node's time, [`Code::TOO_LARGE`], [`Code::FLOW_FUNC_EXIT`] when
    /// the process was asked to end meanwhile.
    pub fn alloc(&mut self, size: u64, head: HeadOf, logger: &Logger) -> Result<Mbuf, Code> {
        self.obtain(size, logger, |node| node.try_alloc(size, head))
    }

    /// A further mbuf over the data of `mbuf`, waiting as [`Node::alloc`] does.
    ///
    /// # Errors
    /// As [`Node::alloc`].
    pub fn copy_ref(&mut self, mbuf: &Mbuf, logger: &Logger) -> Result<Mbuf, Code> {
        self.obtain(0, logger, |node| node.worker.copy_ref(mbuf))
    }

    /// Tries until an mbuf is there: one of `size` bytes, for the log line.
    ///
    /// # Errors
    /// As [`Node::alloc`].
    pub fn obtain(
        &mut self,
        size: u64,
        logger: &Logger,
        mut attempt: impl FnMut(&mut Self) -> Result<Mbuf, AllocError>,
    ) -> Result<Mbuf, Code> {
        match attempt(self) {
            Ok(mbuf) => Ok(mbuf),
            Err(AllocError::Exhausted) => self.wait_for_mbuf(size, logger, attempt),
            Err(other) => Err(other.code()),
        }
    }

    #[cold]
    fn wait_for_mbuf(
        &mut self,
        size: u64,
        logger: &Logger,
        mut attempt: impl FnMut(&mut Self) -> Result<Mbuf, AllocError>,
    ) -> Result<Mbuf, Code> {
        add(&self.ctl().pool_waits, 1);
        let limit = MonoTime::now().add_ms(self.options.alloc_timeout_ms);
        loop {
            let mut got = Err(AllocError::Exhausted);
            self.park(Some(limit), true, |node| {
                let Node { worker, writer, .. } = node;
                writer.flush(worker);
                got = attempt(node);
                got != Err(AllocError::Exhausted)
            });
            match got {
                Ok(mbuf) => return Ok(mbuf),
                Err(AllocError::Exhausted) => {}
                Err(other) => return Err(other.code()),
            }
            if let Some(end) = self.serve(logger) {
                self.ending = Some(end);
                return Err(Code::FLOW_FUNC_EXIT);
            }
            if limit.is_past(MonoTime::now()) {
                let holders = Holders::of(&self.group, self.worker.slot());
                let waited = self.options.alloc_timeout_ms;
                report::error(
                    logger,
                    Some(self.trans_id),
                    format_args!(
                        "no free mbuf for {size} bytes within {waited} ms; the partition is held \
                         by {holders}; give the node more blocks or its consumers more time"
                    ),
                );
                return Err(Code::NO_MBUF);
            }
        }
    }

    /// Gives everything up that the node holds, and what is queued at its inputs: the next set
    /// starts afresh. Returns how many inputs and outputs were dropped. Nobody is answered; whoever
    /// asked for it answers the ids (executor-deployer §1.7.3).
    pub fn clear(&mut self) -> (u64, u64) {
        let Node { reader, writer, worker, .. } = self;
        let dropped = (reader.clear(worker), writer.clear(worker));
        self.ending = None;
        let ctl = self.ctl();
        let delivered = ctl.set_delivered.load(Ordering::Relaxed);
        ctl.committed.store(0, Ordering::Relaxed);
        ctl.set_done.store(delivered, Ordering::Release);
        dropped
    }

    /// Makes an empty message with `code`: no data, head inherited from the current input. Waits
    /// for an mbuf as long as it takes.
    ///
    /// # Errors
    /// The process was asked to end, or its partition is broken.
    pub fn answer_message(&mut self, code: Code, logger: &Logger) -> Result<Mbuf, End> {
        let size = TENSOR_DESC_SIZE as u64;
        loop {
            match self.alloc(size, HeadOf::Input, logger) {
                Ok(mut mbuf) => {
                    payload::set_tensor_desc(&self.worker, &mut mbuf, &RuntimeTensorDesc::empty());
                    let access = self.worker.of(&mbuf);
                    access.set_data_len(size);
                    let trans_id = self.trans_id;
                    if let Some(input) = self.reader.with_id(&self.worker, trans_id) {
                        access.copy_head_from(&self.worker.of(input));
                    }
                    self.finish_answer(&mbuf, code);
                    return Ok(mbuf);
                }
                // A partition without a block of this size: the input's block serves, with no byte
                // in use.
                Err(Code::TOO_LARGE) if self.reader.first().is_some() => {
                    return self.answer_over_input(code, logger);
                }
                Err(Code::NO_MBUF) => {}
                Err(other) => return Err(self.ending.unwrap_or(End::Code(other))),
            }
        }
    }

    fn answer_over_input(&mut self, code: Code, logger: &Logger) -> Result<Mbuf, End> {
        loop {
            let copied = self.obtain(0, logger, |node| {
                let Node { worker, reader, .. } = node;
                worker.copy_ref(reader.first().ok_or(AllocError::Invalid)?)
            });
            match copied {
                Ok(mbuf) => {
                    self.worker.of(&mbuf).set_data_len(0);
                    self.finish_answer(&mbuf, code);
                    return Ok(mbuf);
                }
                Err(Code::NO_MBUF) => {}
                Err(other) => return Err(self.ending.unwrap_or(End::Code(other))),
            }
        }
    }

    /// What its head says besides what it inherited. An answer speaks for all inputs of its id: one
    /// that ends a sequence ends it for whoever gets the answer.
    fn finish_answer(&self, mbuf: &Mbuf, code: Code) {
        let (access, trans_id, slot) = (self.worker.of(mbuf), self.trans_id, self.worker.slot());
        access.update_msg_info(|info| as_answer(info, trans_id, code, slot));
        access.set_eos(self.reader.ends_sequence(&self.worker, trans_id));
    }

    /// Gives each input of set `set` that did not come a message with `code`.
    ///
    /// # Errors
    /// As [`Node::answer_message`]; called again it goes on.
    pub(super) fn fill_in(&mut self, set: u64, code: Code, logger: &Logger) -> Result<(), End> {
        for port in 0..self.reader.inputs.len() {
            if self.reader.get(port).is_none() {
                let mbuf = self.answer_message(code, logger)?;
                self.worker.of(&mbuf).mark_input(u32::try_from(port).ok(), set);
                if let Some(input) = self.reader.inputs.get_mut(port) {
                    input.held = Some(mbuf);
                }
            }
        }
        Ok(())
    }

    /// Answers every destination that got no message of this set.
    ///
    /// # Errors
    /// As [`Node::answer_message`].
    pub fn answer_missing(&mut self, code: Code, logger: &Logger) -> Result<(), End> {
        self.answer_each(code, None, logger)
    }

    /// Passes what the input of `port` says on to every destination that got no message of this
    /// set: its code, which stays that of the process that gave it, or that there is no data.
    ///
    /// # Errors
    /// As [`Node::answer_message`].
    pub fn pass_on(&mut self, port: usize, logger: &Logger) -> Result<(), End> {
        let Some(input) = self.reader.get(port) else { return Ok(()) };
        let info = self.worker.of(input).msg_info();
        self.answer_each(Code::from_ret_code(info.ret_code), Some(info.worker_id), logger)
    }

    fn answer_each(&mut self, code: Code, of: Option<i32>, logger: &Logger) -> Result<(), End> {
        let mut missing = self.writer.all() & !self.writer.given;
        while missing != 0 {
            let destination = missing.trailing_zeros() as usize;
            missing &= missing - 1;
            let mbuf = self.answer_message(code, logger)?;
            if let Some(worker_id) = of {
                self.worker.of(&mbuf).update_msg_info(|info| info.worker_id = worker_id);
            }
            self.writer.push(&mut self.worker, destination, mbuf);
            add(&self.ctl().coded, 1);
        }
        Ok(())
    }

    /// Sends what is cached, sleeping until there is room.
    ///
    /// # Errors
    /// A queue is gone, or the process was asked to end.
    pub fn flush_all(&mut self, logger: &Logger) -> Result<(), End> {
        loop {
            match self.writer.flush(&mut self.worker) {
                Flush::Empty => return Ok(()),
                Flush::Failed(code) => return Err(End::Code(code)),
                Flush::Full => {}
            }
            self.wait_for_room(logger)?;
        }
    }

    /// One sleep until a cached output finds room.
    ///
    /// # Errors
    /// The process was asked to end.
    pub fn wait_for_room(&mut self, logger: &Logger) -> Result<(), End> {
        self.writer.count_full_wait(&self.worker);
        self.park(None, false, |node| {
            let Node { worker, writer, .. } = node;
            writer.has_room(worker)
        });
        self.serve(logger).map_or(Ok(()), Err)
    }
}

/// Tells the host which process a code came from: `worker_id` is free in the specification.
pub fn name_slot(info: &mut MsgInfo, slot: SlotId) {
    info.worker_id = i32::try_from(slot.0).unwrap_or(-1);
}

fn as_answer(info: &mut MsgInfo, trans_id: u64, code: Code, slot: SlotId) {
    name_slot(info, slot);
    info.trans_id = trans_id;
    info.msg_type = MsgType::TENSOR_DATA;
    info.ret_code = code.to_ret_code();
    info.data_flag |= DataFlag::NULL_DATA.bits();
}
