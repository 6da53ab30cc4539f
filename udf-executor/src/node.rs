//! What one function works with: worker, ports, handles, control queue; and every wait of the
//! process.
//!
//! All of it is used by the one worker thread. Between calls the loop uses it; inside a call the
//! function does, through [`crate::api`]. One sleeping place serves all waits, because one thread
//! sleeps at a time: messages, room, free mbufs and control messages all ring it.

use core::cell::RefCell;
use core::sync::atomic::{AtomicBool, Ordering as Std};

use executor_core::abi::control::SlotCtl;
use executor_core::abi::{MsgInfo, RuntimeTensorDesc, TENSOR_DESC_SIZE};
use executor_core::error::{AllocError, Code};
use executor_core::group::Group;
use executor_core::mbuf::Mbuf;
use executor_core::owner::SlotId;
use executor_core::pool::{Head, Worker};
use executor_core::primitive::{AtomicU64, Ordering, spin_hint};
use executor_rt::log::Logger;
use executor_rt::waiter::{Waiter, ring};
use executor_rt::{interpose, payload};
use sys::clock::MonoTime;

use crate::control::Control;
use crate::handles::Handles;
use crate::holders::Holders;
use crate::reader::Reader;
use crate::report;
use crate::writer::{Flush, Writer};

/// Set by SIGTERM.
pub(crate) static TERMINATED: AtomicBool = AtomicBool::new(false);

/// Set by SIGXFSZ: a write met the limit on file sizes. Most likely it was a line of a log.
pub(crate) static WRITE_REFUSED: AtomicBool = AtomicBool::new(false);

/// How the process ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    /// As asked: finalize message or SIGTERM.
    Clean,
    /// With a code.
    Code(Code),
}

/// What the node opted into, and limits.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Options {
    /// No answer is made for a destination that a set left out.
    pub(crate) stateful: bool,
    /// A set that was inside the function at a death is given to the successor again.
    pub(crate) redeliver: bool,
    /// Deaths by one set before it is answered with `POISON`.
    pub(crate) poison_limit: u64,
    /// Inputs are copied before the call.
    pub(crate) copy_inputs: bool,
    /// First node of the flow: numbers its inputs' steps.
    pub(crate) is_head: bool,
    /// Longest wait for a free mbuf, milliseconds.
    pub(crate) alloc_timeout_ms: u64,
    /// Rounds of looking before a sleep.
    pub(crate) spin: u32,
    /// Measure the time in user code.
    pub(crate) timing: bool,
}

/// Head of a message to be made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum HeadOf {
    /// The current input's, zeros without one.
    Input,
    /// Zeros.
    Nothing,
}

/// Which message a view stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Source {
    /// The input of this port, as the function sees it.
    Input(usize),
    /// The handle of this number.
    Handle(usize),
}

fn find<'n>(
    reader: &'n Reader,
    copies: &'n [Option<Mbuf>],
    handles: &'n Handles,
    source: Source,
) -> Option<&'n Mbuf> {
    match source {
        Source::Input(port) => match copies.get(port) {
            Some(Some(copy)) => Some(copy),
            _ => reader.get(port),
        },
        Source::Handle(index) => {
            let handle = handles.get(index)?;
            handle.reshaped.as_ref().or(handle.mbuf.as_ref())
        }
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) group: Group<'static>,
    pub(crate) worker: Worker<'static>,
    pub(crate) waiter: Waiter<'static>,
    pub(crate) reader: Reader,
    pub(crate) writer: Writer,
    pub(crate) handles: Handles,
    pub(crate) control: Control,
    pub(crate) options: Options,
    /// Copies of the inputs, with `copy_inputs`.
    pub(crate) copies: Box<[Option<Mbuf>]>,
    /// trans_id of the set under way; the set's number for a function without inputs.
    pub(crate) trans_id: u64,
    /// Next step number of a head node.
    pub(crate) step: u32,
    /// Asked to end during a wait inside the function.
    pub(crate) ending: Option<End>,
}

/// Adds to a word that only this process writes.
pub(crate) fn add(word: &AtomicU64, count: u64) {
    word.store(word.load(Ordering::Relaxed).wrapping_add(count), Ordering::Relaxed);
}

impl Node {
    /// The words of this slot.
    pub(crate) fn ctl(&self) -> &'static SlotCtl {
        self.worker.private.ctl
    }

    /// Publishes the counters of the malloc family.
    pub(crate) fn publish(&self) {
        let ctl = self.ctl();
        interpose::publish(&ctl.setup_allocations, &ctl.runtime_allocations, &ctl.user_allocations);
    }

    /// Gives an mbuf back.
    pub(crate) fn free(&mut self, mbuf: Mbuf) {
        let wakes = self.worker.free(mbuf);
        ring(&self.worker.memory, wakes);
    }

    /// Gives back what the function still holds (abi I4).
    pub(crate) fn release_handles(&mut self) {
        while let Some(index) = self.handles.any() {
            self.release(index);
        }
    }

    /// Gives one handle back.
    pub(crate) fn release(&mut self, index: usize) {
        self.handles.remove(index).into_iter().flatten().for_each(|mbuf| self.free(mbuf));
    }

    /// Gives the copies of the inputs back.
    pub(crate) fn release_copies(&mut self) {
        for index in 0..self.copies.len() {
            if let Some(mbuf) = self.copies.get_mut(index).and_then(Option::take) {
                self.free(mbuf);
            }
        }
    }

    /// Sleeps until `done`, a control message, SIGTERM or `limit`. With `pool`, a free
    /// mbuf wakes too; room for cached outputs always does.
    pub(crate) fn park(
        &mut self,
        limit: Option<MonoTime>,
        pool: bool,
        mut done: impl FnMut(&mut Node) -> bool,
    ) {
        let mut ready = |node: &mut Node| {
            done(node) || node.control.has_message(&node.worker) || TERMINATED.load(Std::Relaxed)
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

    /// Executes what came on the request queue; `Some` when the process has to end.
    pub(crate) fn serve(&mut self, logger: &Logger) -> Option<End> {
        if TERMINATED.load(Std::Relaxed) {
            return Some(End::Clean);
        }
        self.ending.or_else(|| crate::control::serve(self, logger))
    }

    fn try_alloc(&mut self, size: u64, head: HeadOf) -> Result<Mbuf, AllocError> {
        let head = match (head, self.reader.first()) {
            (HeadOf::Input, Some(input)) => Head::Of(input),
            _ => Head::Zeroed,
        };
        self.worker.alloc(size, head)
    }

    /// Allocates, waiting for a free mbuf while outputs move on and control messages are served.
    pub(crate) fn alloc(&mut self, size: u64, head: HeadOf, logger: &Logger) -> Result<Mbuf, Code> {
        match self.try_alloc(size, head) {
            Ok(mbuf) => Ok(mbuf),
            Err(AllocError::Exhausted) => {
                self.wait_for_mbuf(size, logger, |node| node.try_alloc(size, head))
            }
            Err(other) => Err(other.code()),
        }
    }

    /// A second reference on an mbuf, waiting as [`Node::alloc`] does.
    pub(crate) fn copy_ref(&mut self, source: Source, logger: &Logger) -> Result<Mbuf, Code> {
        match self.try_copy_ref(source) {
            Ok(mbuf) => Ok(mbuf),
            Err(AllocError::Exhausted) => {
                self.wait_for_mbuf(0, logger, |node| node.try_copy_ref(source))
            }
            Err(other) => Err(other.code()),
        }
    }

    fn try_copy_ref(&mut self, source: Source) -> Result<Mbuf, AllocError> {
        let Node { worker, reader, copies, handles, .. } = self;
        let mbuf = find(reader, copies, handles, source).ok_or(AllocError::Invalid)?;
        worker.copy_ref(mbuf)
    }

    /// The mbuf of a view that the function passed.
    pub(crate) fn find(&self, source: Source) -> Option<&Mbuf> {
        find(&self.reader, &self.copies, &self.handles, source)
    }

    #[cold]
    fn wait_for_mbuf(
        &mut self,
        size: u64,
        logger: &Logger,
        mut attempt: impl FnMut(&mut Node) -> Result<Mbuf, AllocError>,
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

    /// Makes an empty message with `code`: no data, head inherited from the current input. Waits
    /// for an mbuf as long as it takes.
    pub(crate) fn answer_message(&mut self, code: Code, logger: &Logger) -> Result<Mbuf, End> {
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
                    let slot = self.worker.slot();
                    access.update_msg_info(|info| as_answer(info, trans_id, code, slot));
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
        let port = self.reader.inputs.iter().position(|input| input.held.is_some()).unwrap_or(0);
        loop {
            match self.copy_ref(Source::Input(port), logger) {
                Ok(mbuf) => {
                    let access = self.worker.of(&mbuf);
                    access.set_data_len(0);
                    let trans_id = self.trans_id;
                    let slot = self.worker.slot();
                    access.update_msg_info(|info| as_answer(info, trans_id, code, slot));
                    return Ok(mbuf);
                }
                Err(Code::NO_MBUF) => {}
                Err(other) => return Err(self.ending.unwrap_or(End::Code(other))),
            }
        }
    }

    /// Answers every destination that got no message of this set.
    pub(crate) fn answer_missing(&mut self, code: Code, logger: &Logger) -> Result<(), End> {
        let mut missing = self.writer.all() & !self.writer.given;
        while missing != 0 {
            let destination = missing.trailing_zeros() as usize;
            missing &= missing - 1;
            let mbuf = self.answer_message(code, logger)?;
            self.writer.push(&mut self.worker, destination, mbuf);
            add(&self.ctl().coded, 1);
        }
        Ok(())
    }

    /// Sends what is cached, sleeping until there is room.
    pub(crate) fn flush_all(&mut self, logger: &Logger) -> Result<(), End> {
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
    pub(crate) fn wait_for_room(&mut self, logger: &Logger) -> Result<(), End> {
        self.writer.count_full_wait(&self.worker);
        self.park(None, false, |node| {
            let Node { worker, writer, .. } = node;
            writer.has_room(worker)
        });
        self.serve(logger).map_or(Ok(()), Err)
    }
}

/// Tells the host which process a code came from: `worker_id` is free in the specification.
pub(crate) fn name_slot(info: &mut MsgInfo, slot: SlotId) {
    info.worker_id = i32::try_from(slot.0).unwrap_or(-1);
}

fn as_answer(info: &mut MsgInfo, trans_id: u64, code: Code, slot: SlotId) {
    name_slot(info, slot);
    info.trans_id = trans_id;
    info.msg_type = executor_core::abi::MsgType::TENSOR_DATA;
    info.ret_code = code.to_ret_code();
    info.data_flag |= executor_core::abi::DataFlag::NULL_DATA.bits();
}
