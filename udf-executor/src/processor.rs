//! The loop: one set after the other through the states of [`crate::state`], until the process
//! ends.
//!
//! ```text
//! collect (inputs marked) ─► delivered := s ─► proc ─► answers for what is missing
//!                           ─► flush ─► done := s ─► free
//! ```
//! | killed after | state seen | successor |
//! |---|---|---|
//! | some inputs taken | set > delivered | goes on collecting that set |
//! | delivered := s | delivered > done | answers what is not committed, or calls proc again |
//! | done := s | set <= done | the sweep frees the inputs |
//!
//! No clock, no allocation, no log line and no system call on the way of a set whose peers are
//! awake.

use core::sync::atomic::Ordering as Std;

use executor_core::error::Code;
use executor_core::primitive::Ordering;
use executor_rt::interpose;
use executor_rt::log::Logger;
use sys::clock::MonoTime;
use sys::doorbell::EventFd;

use crate::adopt::Resume;
use crate::call::Instance;
use crate::context::Context;
use crate::node::{End, Node, Source, TERMINATED, WRITE_REFUSED, add};
use crate::reader::Collected;
use crate::report;
use crate::state::{Event, State};
use crate::writer::Flush;

/// Sets between two publications of the allocation counters.
const PUBLISH_SETS: u64 = 256;
/// A function that asked to be called again is, at the latest after this many milliseconds.
const PENDING_TICK_MS: u64 = 100;

/// The processor of one function.
#[derive(Debug)]
pub(crate) struct Processor {
    instance: Instance,
    context: &'static Context,
    state: State,
    /// Number of the set under way.
    set: u64,
    /// Why the state is ProcError.
    failed: Code,
}

impl Processor {
    /// A processor whose function is initialised.
    pub(crate) fn new(instance: Instance, context: &'static Context) -> Processor {
        Processor { instance, context, state: State::Ready, set: 0, failed: Code::FLOW_FUNC_FAILED }
    }

    /// Runs until the process has to end.
    pub(crate) fn run(mut self, resume: Resume, bell: Option<EventFd>) -> End {
        let end = match self.resume(resume, bell) {
            Ok(()) => self.run_sets(),
            Err(end) => end,
        };
        interpose::finalise();
        let node = self.context.node.borrow();
        if let End::Code(code) = end {
            node.ctl().last_code.store(code.0, Ordering::Release);
            let id = self.context.log_id.get();
            report::error(self.context.logger, id, format_args!("the process ends: {code}"));
        } else {
            let why = if TERMINATED.load(Std::Relaxed) { "SIGTERM" } else { "a finalize message" };
            report::info(self.context.logger, None, format_args!("the process ends: {why}"));
        }
        node.publish();
        drop(node);
        if end == End::Clean {
            self.instance.destroy();
        }
        end
    }

    fn run_sets(&mut self) -> End {
        loop {
            let event = match self.state {
                State::Ready => Ok(Event::Begin),
                State::PrepareInputData => self.prepare(),
                State::CallFlowFunc => self.call(),
                State::RepublishOutputData => self.republish(),
                State::ScheduleFinish => Ok(self.finish()),
                State::Init | State::InitFlowFunc | State::ProcError => Err(End::Code(self.failed)),
            };
            match event {
                Ok(event) => self.step(event),
                Err(end) => return end,
            }
        }
    }

    fn step(&mut self, event: Event) {
        let next = self.state.after(event);
        debug_assert!(next.is_some(), "{:?} can't follow {:?}", event, self.state);
        if let Some(next) = next {
            self.state = next;
            let node = self.context.node.borrow();
            node.ctl().state.store(next as u32, Ordering::Relaxed);
        }
    }

    /// Takes up what a dead process of this slot left.
    fn resume(&mut self, resume: Resume, bell: Option<EventFd>) -> Result<(), End> {
        let ctl = self.context.node.borrow().ctl();
        ctl.state.store(State::Ready as u32, Ordering::Release);
        if let Some(bell) = bell {
            bell.ring();
        }
        self.step(Event::Begin);
        match resume {
            Resume::Fresh => {}
            Resume::Redeliver => {
                self.set = ctl.set_delivered.load(Ordering::Relaxed);
                self.begin_set(ctl.trans_id.load(Ordering::Relaxed));
                self.step(Event::InputsReady);
            }
            Resume::Answer(code) => {
                self.set = ctl.set_delivered.load(Ordering::Relaxed);
                self.begin_set(ctl.trans_id.load(Ordering::Relaxed));
                let mut node = self.context.node.borrow_mut();
                node.writer.given = ctl.committed.load(Ordering::Relaxed);
                node.answer_missing(code, self.context.logger)?;
                drop(node);
                self.step(Event::InputsAnswered);
            }
        }
        Ok(())
    }

    /// Sets what the outputs of this set inherit.
    fn begin_set(&mut self, trans_id: u64) {
        let mut node = self.context.node.borrow_mut();
        node.trans_id = trans_id;
        node.writer.given = 0;
        self.context.log_id.set(Some(trans_id));
    }

    /// State 3: control messages, then inputs; sleeps while one is missing.
    fn prepare(&mut self) -> Result<Event, End> {
        let mut node = self.context.node.borrow_mut();
        let node = &mut *node;
        let logger = self.context.logger;
        if (TERMINATED.load(Std::Relaxed) || node.control.has_message(&node.worker))
            && let Some(end) = node.serve(logger)
        {
            return Err(end);
        }
        let ctl = node.ctl();
        // Own words, but a function can write over them: a wild number is the successor's to see.
        let set = ctl.set_delivered.load(Ordering::Relaxed).wrapping_add(1);
        match node.reader.collect(&mut node.worker, set) {
            Collected::Ready => {}
            Collected::Missing(port) => {
                if node.options.spin != 0 {
                    node.worker.prepare_next();
                }
                tell_refused_writes(logger);
                node.park(None, false, |node| node.reader.has_message(&node.worker, port));
                return Ok(Event::InputsMissing);
            }
            Collected::Fault(port) => {
                report::error(
                    logger,
                    None,
                    format_args!("input {port}: skipped an entry with impossible words"),
                );
                return Ok(Event::InputsMissing);
            }
            Collected::Failed(port, code) => {
                report::error(logger, None, format_args!("input {port}: {code}; it is gone"));
                self.failed = code;
                return Ok(Event::InputFailed);
            }
        }
        self.set = set;
        ctl.set_taken.store(set, Ordering::Relaxed);
        deliver(node, self.context, set)
    }

    /// State 4: one call of `proc`.
    fn call(&mut self) -> Result<Event, End> {
        let context = self.context;
        let (timing, copies) = {
            let node = context.node.borrow();
            (node.options.timing, node.options.copy_inputs)
        };
        if copies && let Err(code) = self.copy_inputs() {
            return self.answer(code);
        }
        let code = if timing {
            let start = MonoTime::now();
            let code = self.instance.proc();
            let node = context.node.borrow();
            add(&node.ctl().user_ns, MonoTime::now().since_ns(start));
            code
        } else {
            self.instance.proc()
        };
        let mut node = context.node.borrow_mut();
        node.release_handles();
        if let Some(end) = node.ending {
            return Err(end);
        }
        match Code::from_ret_code(code) {
            Code::SUCCESS => {
                let answers = !node.options.stateful && !node.reader.inputs.is_empty();
                if answers && node.writer.given != node.writer.all() {
                    node.answer_missing(Code::NO_OUTPUT, context.logger)?;
                }
                Ok(Event::ProcDone)
            }
            Code::FLOW_FUNC_PROC_PENDING => pending(&mut node, context),
            // These fail one id; the process is sound.
            code @ (Code::UDF_PANIC | Code::NO_MBUF | Code::TOO_LARGE) => {
                drop(node);
                self.answer(code)
            }
            code => {
                drop(node);
                self.fail(code);
                Ok(Event::ProcFailed)
            }
        }
    }

    /// Copies the inputs into the own partition, once a set.
    fn copy_inputs(&mut self) -> Result<(), Code> {
        let mut node = self.context.node.borrow_mut();
        for port in 0..node.copies.len() {
            if node.copies.get(port).is_some_and(Option::is_none) {
                let copy = self.context.copy_payload(&mut node, Source::Input(port));
                let copy = copy.map_err(Code::from_ret_code)?;
                if let Some(place) = node.copies.get_mut(port) {
                    *place = Some(copy);
                }
            }
        }
        Ok(())
    }

    /// Answers this id with `code` where the function gave nothing, and goes on.
    fn answer(&mut self, code: Code) -> Result<Event, End> {
        let context = self.context;
        let mut node = context.node.borrow_mut();
        if let Some(end) = node.ending {
            return Err(end);
        }
        report::warn(
            context.logger,
            Some(node.trans_id),
            format_args!("this id is answered with a code: {code}"),
        );
        node.answer_missing(code, context.logger)?;
        Ok(Event::ProcDone)
    }

    /// State 8: the open id is answered with `code`, then the process ends with it.
    fn fail(&mut self, code: Code) {
        let context = self.context;
        let mut node = context.node.borrow_mut();
        let ctl = node.ctl();
        ctl.state.store(State::ProcError as u32, Ordering::Relaxed);
        ctl.last_code.store(code.0, Ordering::Release);
        report::error(
            context.logger,
            Some(node.trans_id),
            format_args!("proc returned {code}: the id is answered with it, the process ends"),
        );
        let answered =
            node.answer_missing(code, context.logger).and_then(|()| node.flush_all(context.logger));
        if answered.is_ok() {
            done(&mut node, self.set);
        }
        self.failed = code;
    }

    /// State 5: outputs that wait for room.
    fn republish(&mut self) -> Result<Event, End> {
        let mut node = self.context.node.borrow_mut();
        let node = &mut *node;
        if node.writer.is_flushed() {
            return Ok(Event::Published);
        }
        match node.writer.flush(&mut node.worker) {
            Flush::Empty => Ok(Event::Published),
            Flush::Full => {
                node.wait_for_room(self.context.logger)?;
                Ok(Event::OutputFull)
            }
            Flush::Failed(code) => {
                report::error(
                    self.context.logger,
                    Some(node.trans_id),
                    format_args!("an output queue is gone: {code}"),
                );
                self.failed = code;
                Ok(Event::OutputFailed)
            }
        }
    }

    /// State 6: the set is answered.
    fn finish(&mut self) -> Event {
        let mut node = self.context.node.borrow_mut();
        done(&mut node, self.set);
        self.context.log_id.set(None);
        let ctl = node.ctl();
        add(&ctl.processed, 1);
        add(&ctl.progress, 1);
        if self.set.is_multiple_of(PUBLISH_SETS) {
            node.publish();
        }
        Event::Finished
    }
}

/// Says that a write met the limit on file sizes, once the process has nothing else to do.
fn tell_refused_writes(logger: &Logger) {
    if WRITE_REFUSED.load(Std::Relaxed) && WRITE_REFUSED.swap(false, Std::Relaxed) {
        report::warn(
            logger,
            None,
            format_args!(
                "a write was refused: it met the limit on file sizes (ulimit -f); lines of this \
                 log may be missing here"
            ),
        );
    }
}

/// Commits "given to the function", or answers a set that does not belong together.
fn deliver(node: &mut Node, context: &Context, set: u64) -> Result<Event, End> {
    let (id, newest) = node.reader.id_range(&node.worker).unwrap_or((set, set));
    if id != newest {
        // The newer ones wait for their partners; marked first, so that a death now loses nothing.
        node.reader.postpone_others(&node.worker, id, set.wrapping_add(1));
    }
    if node.options.is_head
        && let Some(first) = node.reader.first()
    {
        let step = node.step;
        node.worker.of(first).update_msg_info(|info| info.step_id = step);
        node.step = step.wrapping_add(1);
    }
    let ctl = node.ctl();
    node.trans_id = id;
    node.writer.given = 0;
    context.log_id.set(Some(id));
    ctl.trans_id.store(id, Ordering::Relaxed);
    ctl.committed.store(0, Ordering::Relaxed);
    ctl.attempts.store(1, Ordering::Relaxed);
    // SYNC: release, pairs with the successor's load in `adopt`: the words above belong to this
    // set.
    ctl.set_delivered.store(set, Ordering::Release);
    if id == newest {
        return Ok(Event::InputsReady);
    }
    report::warn(
        context.logger,
        Some(id),
        format_args!("inputs of one set carry ids {id} to {newest}: the oldest is answered"),
    );
    node.answer_missing(Code::MISPAIRED, context.logger)?;
    Ok(Event::InputsAnswered)
}

/// Notes the set as answered, then gives its inputs back.
fn done(node: &mut Node, set: u64) {
    // SYNC: release, pairs with the sweep's load: every output was enqueued before.
    node.ctl().set_done.store(set, Ordering::Release);
    node.release_copies();
    let Node { reader, worker, .. } = node;
    reader.free_set(worker, set);
}

/// The function keeps its inputs: sleeps until something happens that could change its mind.
fn pending(node: &mut Node, context: &Context) -> Result<Event, End> {
    node.writer.flush(&mut node.worker);
    let limit = MonoTime::now().add_ms(PENDING_TICK_MS);
    let mut news = NewsOf::of(node);
    node.park(Some(limit), false, |node| news.arrived(node));
    match node.serve(context.logger) {
        Some(end) => Err(end),
        None => Ok(Event::ProcPending),
    }
}

/// The ready bits of the inputs: cleared once, so that a bit says "since then".
struct NewsOf {
    waiter: &'static executor_core::abi::control::WaiterCtl,
    bits: u64,
}

impl NewsOf {
    fn of(node: &Node) -> Option<NewsOf> {
        let slot = node.worker.slot().0;
        let id = node.group.waiter_id(executor_core::owner::SlotId(slot), node.waiter.index());
        let waiter = node.worker.memory.waiter(id)?;
        let inputs = node.reader.inputs.iter();
        let bits = inputs.fold(0, |bits, input| bits | input.consumer.ready_mask());
        let _before = executor_core::wake::take_ready(waiter, bits);
        Some(NewsOf { waiter, bits })
    }
}

trait News {
    fn arrived(&mut self, node: &mut Node) -> bool;
}

impl News for Option<NewsOf> {
    fn arrived(&mut self, node: &mut Node) -> bool {
        let Node { writer, worker, .. } = node;
        let room = writer.has_room(worker);
        let news = |news: &NewsOf| news.waiter.ready.load(Ordering::Acquire) & news.bits != 0;
        room || self.as_ref().is_some_and(news)
    }
}
