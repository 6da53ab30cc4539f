//! The loop: one set after the other through the states of [`super::state`], until it is asked to
//! end.
//!
//! ```text
//! collect (inputs marked) ─► admitted ─► delivered := s ─► execute ─► answers for what is missing
//!                           ─► flush ─► done := s ─► free
//! ```
//! | killed after | state seen | successor |
//! |---|---|---|
//! | some inputs taken | set > delivered | goes on collecting that set |
//! | delivered := s | delivered > done | answers what is not committed, or executes it again |
//! | done := s | set <= done | the sweep frees the inputs |
//!
//! No clock, no allocation, no log line and no system call on the way of a set whose peers are
//! awake.

use core::sync::atomic::Ordering as Std;

use executor_core::error::Code;
use executor_core::primitive::Ordering;
use sys::clock::MonoTime;

use super::adopt::Resume;
use super::align::Lack;
use super::reader::{Collected, Formed};
use super::state::{Event, State};
use super::writer::Flush;
use super::{Control, End, Node, TERMINATED, WRITE_REFUSED, add};
use crate::log::Logger;
use crate::report;

/// Sets between two publications of the allocation counters.
const PUBLISH_SETS: u64 = 256;
/// A task that asked to be called again is, at the latest after this many milliseconds.
const PENDING_TICK_MS: u64 = 100;

/// What became of one set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It is done: a destination that got nothing is answered with `NO_OUTPUT`, unless the node is
    /// stateful or has no inputs.
    Done,
    /// The task keeps its inputs and wants to be called again.
    Pending,
    /// This id failed: destinations that got nothing are answered with the code.
    Answer(Code),
    /// As [`Verdict::Answer`], then the loop ends with the code.
    Fatal(Code),
}

/// How one complete set is executed: what differs between executors.
pub trait Task {
    /// What interrupts the waits of this executor's nodes.
    type Control: Control;

    /// What a log line calls an execution, such as `proc`.
    const WHAT: &'static str;

    /// Calls with the node, which nobody else uses meanwhile.
    fn with_node<T>(&mut self, call: impl FnOnce(&mut Node<Self::Control>) -> T) -> T;

    /// Waits until the set that the node's reader holds may be executed. It is not delivered yet:
    /// after a death it is executed as if it had just come. Not called for a set that a dead
    /// process left inside the task.
    ///
    /// # Errors
    /// The loop has to end; the set stays collected.
    fn admit(&mut self) -> Result<(), End> {
        Ok(())
    }

    /// Executes the set that the node's reader holds; outputs go to the node's writer.
    fn execute(&mut self) -> Verdict;

    /// Gives back what it still holds of the set; its inputs are given back next.
    fn release(&mut self) {}

    /// The id that log lines belong to from now on.
    fn set_log_id(&mut self, _id: Option<u64>) {}
}

/// The loop of one node.
#[derive(Debug)]
pub struct Processor<T> {
    task: T,
    logger: &'static Logger,
    state: State,
    /// Number of the set under way.
    set: u64,
    /// Why the state is ProcError.
    failed: Code,
}

/// What collecting came to.
enum Prepared {
    /// An event without a set.
    Nothing(Event),
    /// An input queue is gone.
    Failed(Code),
    /// A set, its oldest id and its newest: if they differ, its inputs do not belong together.
    Set(u64, u64, u64),
}

impl<T: Task> Processor<T> {
    /// A processor whose task is initialised.
    pub fn new(task: T, logger: &'static Logger) -> Processor<T> {
        let failed = Code::FLOW_FUNC_FAILED;
        Processor { task, logger, state: State::Ready, set: 0, failed }
    }

    /// Takes up what `resume` says, calls `ready`, and runs until the loop has to end.
    pub fn run(&mut self, resume: Resume, ready: impl FnOnce()) -> End {
        match self.resume(resume, ready) {
            Ok(()) => self.run_sets(),
            Err(end) => end,
        }
    }

    /// What it executes.
    pub fn task(&mut self) -> &mut T {
        &mut self.task
    }

    /// Gives the task back, after the loop ended.
    pub fn into_task(self) -> T {
        self.task
    }

    fn run_sets(&mut self) -> End {
        loop {
            let event = match self.state {
                State::Ready => Ok(Event::Begin),
                State::PrepareInputData => self.prepare(),
                State::CallFlowFunc => self.execute(),
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
            self.task.with_node(|node| node.ctl().state.store(next as u32, Ordering::Relaxed));
        }
    }

    /// Takes up what a dead process of this slot left.
    fn resume(&mut self, resume: Resume, ready: impl FnOnce()) -> Result<(), End> {
        let ctl = self.task.with_node(|node| node.ctl());
        ctl.state.store(State::Ready as u32, Ordering::Release);
        ready();
        self.step(Event::Begin);
        if resume == Resume::Fresh {
            return Ok(());
        }
        self.set = ctl.set_delivered.load(Ordering::Relaxed);
        let trans_id = ctl.trans_id.load(Ordering::Relaxed);
        self.task.with_node(|node| {
            node.trans_id = trans_id;
            node.writer.given = 0;
        });
        self.task.set_log_id(Some(trans_id));
        let Resume::Answer(code) = resume else {
            self.step(Event::InputsReady);
            return Ok(());
        };
        let logger = self.logger;
        self.task.with_node(|node| {
            node.writer.given = ctl.committed.load(Ordering::Relaxed);
            node.answer_missing(code, logger)
        })?;
        self.step(Event::InputsAnswered);
        Ok(())
    }

    /// State 3: control, then inputs; sleeps while one is missing.
    fn prepare(&mut self) -> Result<Event, End> {
        let logger = self.logger;
        let (set, id, newest) = match self.task.with_node(|node| collect(node, logger))? {
            Prepared::Nothing(event) => return Ok(event),
            Prepared::Failed(code) => {
                self.failed = code;
                return Ok(Event::InputFailed);
            }
            Prepared::Set(set, id, newest) => (set, id, newest),
        };
        let refused = self.task.with_node(|node| complete(node, set, (id, newest), logger))?;
        if refused.is_none() {
            self.task.admit()?;
        }
        self.set = set;
        self.task.with_node(|node| deliver(node, set, id, newest));
        self.task.set_log_id(Some(id));
        let Some(code) = refused else { return Ok(Event::InputsReady) };
        self.task.with_node(|node| node.answer_missing(code, logger))?;
        Ok(Event::InputsAnswered)
    }

    /// State 4: one execution.
    fn execute(&mut self) -> Result<Event, End> {
        let verdict = self.task.execute();
        let logger = self.logger;
        if let Some(end) = self.task.with_node(|node| node.ending) {
            return Err(end);
        }
        match verdict {
            Verdict::Done => self.task.with_node(|node| {
                let answers = !node.options.stateful && !node.reader.inputs.is_empty();
                if answers && node.writer.given != node.writer.all() {
                    node.answer_missing(Code::NO_OUTPUT, logger)?;
                }
                Ok(Event::ProcDone)
            }),
            Verdict::Pending => self.task.with_node(|node| pending(node, logger)),
            Verdict::Answer(code) => self.task.with_node(|node| {
                report::warn(
                    logger,
                    Some(node.trans_id),
                    format_args!("this id is answered with a code: {code}"),
                );
                node.answer_missing(code, logger)?;
                Ok(Event::ProcDone)
            }),
            Verdict::Fatal(code) => {
                self.fail(code);
                Ok(Event::ProcFailed)
            }
        }
    }

    /// State 8: the open id is answered with `code`, then the loop ends with it.
    fn fail(&mut self, code: Code) {
        let logger = self.logger;
        let answered = self.task.with_node(|node| {
            let ctl = node.ctl();
            ctl.state.store(State::ProcError as u32, Ordering::Relaxed);
            ctl.last_code.store(code.0, Ordering::Release);
            let what = T::WHAT;
            report::error(
                logger,
                Some(node.trans_id),
                format_args!(
                    "{what} returned {code}: the id is answered with it, the process ends"
                ),
            );
            node.answer_missing(code, logger).and_then(|()| node.flush_all(logger))
        });
        if answered.is_ok() {
            self.done();
        }
        self.failed = code;
    }

    /// State 5: outputs that wait for room.
    fn republish(&mut self) -> Result<Event, End> {
        let logger = self.logger;
        let flushed = self.task.with_node(|node| {
            if node.writer.is_flushed() {
                return Ok(Flush::Empty);
            }
            let flush = node.writer.flush(&mut node.worker);
            match flush {
                Flush::Empty => {}
                Flush::Full => node.wait_for_room(logger)?,
                Flush::Failed(code) => report::error(
                    logger,
                    Some(node.trans_id),
                    format_args!("an output queue is gone: {code}"),
                ),
            }
            Ok(flush)
        })?;
        Ok(match flushed {
            Flush::Empty => Event::Published,
            Flush::Full => Event::OutputFull,
            Flush::Failed(code) => {
                self.failed = code;
                Event::OutputFailed
            }
        })
    }

    /// State 6: the set is answered.
    fn finish(&mut self) -> Event {
        self.done();
        self.task.set_log_id(None);
        let set = self.set;
        self.task.with_node(|node| {
            let ctl = node.ctl();
            add(&ctl.processed, 1);
            add(&ctl.progress, 1);
            if set.is_multiple_of(PUBLISH_SETS) {
                node.publish();
            }
        });
        Event::Finished
    }

    /// Notes the set as answered, then gives its inputs back.
    fn done(&mut self) {
        let set = self.set;
        // SYNC: release, pairs with the sweep's load: every output was enqueued before.
        self.task.with_node(|node| node.ctl().set_done.store(set, Ordering::Release));
        self.task.release();
        self.task.with_node(|node| {
            let Node { reader, worker, .. } = node;
            reader.free_set(worker, set);
        });
    }
}

/// Control, then inputs of the next set.
fn collect<C: Control>(node: &mut Node<C>, logger: &Logger) -> Result<Prepared, End> {
    if (TERMINATED.load(Std::Relaxed) || node.control.is_waiting(&node.worker))
        && let Some(end) = node.serve(logger)
    {
        return Err(end);
    }
    let ctl = node.ctl();
    // Own words, but a function can write over them: a wild number is the successor's to see.
    let set = ctl.set_delivered.load(Ordering::Relaxed).wrapping_add(1);
    match node.reader.collect(&mut node.worker, set) {
        Collected::Ready => {}
        Collected::Again => return Ok(Prepared::Nothing(Event::InputsMissing)),
        Collected::Missing(port) => {
            if node.options.spin != 0 {
                node.worker.prepare_next();
            }
            tell_refused_writes(logger);
            let due = node.reader.next_due();
            node.park(due, false, |node| node.reader.has_message(&node.worker, port));
            return Ok(Prepared::Nothing(Event::InputsMissing));
        }
        Collected::Timeless(port) => {
            let text = format_args!(
                "input {port}: dropped a message without a time: begin and end differ, or it is \
                 before the offset of its input"
            );
            report::warn(logger, None, text);
            return Ok(Prepared::Nothing(Event::InputsMissing));
        }
        Collected::Fault(port) => {
            report::error(
                logger,
                None,
                format_args!("input {port}: skipped an entry with impossible words"),
            );
            return Ok(Prepared::Nothing(Event::InputsMissing));
        }
        Collected::Failed(port, code) => {
            report::error(logger, None, format_args!("input {port}: {code}; it is gone"));
            return Ok(Prepared::Failed(code));
        }
    }
    ctl.set_taken.store(set, Ordering::Relaxed);
    let (id, newest) = node.reader.id_range(&node.worker).unwrap_or((set, set));
    Ok(Prepared::Set(set, id, newest))
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

/// The code that a set is answered with instead of being given to the task. One that lacks inputs
/// and is given to it all the same gets messages with a code for them.
fn complete<C: Control>(
    node: &mut Node<C>,
    set: u64,
    (id, newest): (u64, u64),
    logger: &Logger,
) -> Result<Option<Code>, End> {
    if id != newest {
        report::warn(
            logger,
            Some(id),
            format_args!("inputs of one set carry ids {id} to {newest}: the oldest is answered"),
        );
        return Ok(Some(Code::MISPAIRED));
    }
    match node.reader.formed() {
        Formed::Whole => Ok(None),
        Formed::Partial(code, lack) => {
            tell_lack(node, id, lack, logger);
            node.trans_id = id;
            node.fill_in(set, code, logger)?;
            Ok(None)
        }
        Formed::Dropped(code, lack) => {
            tell_lack(node, id, lack, logger);
            Ok(Some(code))
        }
    }
}

fn tell_lack<C: Control>(node: &Node<C>, id: u64, lack: Lack, logger: &Logger) {
    let alone = match lack {
        Lack::Apart => Some("older than what the other inputs have near it"),
        Lack::Timeless => Some("without a time: begin and end differ, or before its offset"),
        Lack::Expired | Lack::OverLimit => None,
    };
    if let Some(what) = alone {
        report::warn(logger, Some(id), format_args!("its message of the first input is {what}"));
        return;
    }
    let missing = node.reader.inputs.iter().filter(|input| input.held.is_none()).count();
    let why = match lack {
        Lack::Expired => "in time",
        _ => "while too many other ids wait",
    };
    let count = node.reader.inputs.len();
    let text = format_args!("{missing} of its {count} inputs did not come {why}");
    report::warn(logger, Some(id), text);
}

/// Commits "given to the task".
fn deliver<C: Control>(node: &mut Node<C>, set: u64, id: u64, newest: u64) {
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
    ctl.trans_id.store(id, Ordering::Relaxed);
    ctl.committed.store(0, Ordering::Relaxed);
    ctl.attempts.store(1, Ordering::Relaxed);
    // SYNC: release, pairs with the successor's load in `adopt`: the words above belong to this
    // set.
    ctl.set_delivered.store(set, Ordering::Release);
}

/// The task keeps its inputs: sleeps until something happens that could change its mind.
fn pending<C: Control>(node: &mut Node<C>, logger: &Logger) -> Result<Event, End> {
    node.writer.flush(&mut node.worker);
    let limit = MonoTime::now().add_ms(PENDING_TICK_MS);
    let mut news = NewsOf::of(node);
    node.park(Some(limit), false, |node| news.arrived(node));
    match node.serve(logger) {
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
    fn of<C>(node: &Node<C>) -> Option<NewsOf> {
        let id = node.group.waiter_id(node.worker.slot(), node.waiter.index());
        let waiter = node.worker.memory.waiter(id)?;
        let inputs = node.reader.inputs.iter();
        let bits = inputs.fold(0, |bits, input| bits | input.consumer.ready_mask());
        let _before = executor_core::wake::take_ready(waiter, bits);
        Some(NewsOf { waiter, bits })
    }
}

trait News {
    fn arrived<C>(&mut self, node: &mut Node<C>) -> bool;
}

impl News for Option<NewsOf> {
    fn arrived<C>(&mut self, node: &mut Node<C>) -> bool {
        let Node { writer, worker, .. } = node;
        let room = writer.has_room(worker);
        let news = |news: &NewsOf| news.waiter.ready.load(Ordering::Acquire) & news.bits != 0;
        room || self.as_ref().is_some_and(news)
    }
}
