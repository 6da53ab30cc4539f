//! A place: one slot of the device, with a thread that runs the model which is loaded there.
//!
//! ```text
//! thread:  waits for an order ⇄ runs the node loop of its model
//! main:    puts one order on the desk, kicks the thread's waiter, sleeps until it is answered
//! ```
//! | order | operations | without a model | with one |
//! |---|---|---|---|
//! | Run | execute | takes the model, answers when its loop has begun | – |
//! | Stop | stop | – | the loop ends between two sets or in a wait; what it holds stays |
//! | Restart | clearInput, restart, execute | – | drops all held and queued, begins anew |
//! | Unload | destroy | – | drops all held and queued, gives the model back |
//! | End | – | the thread ends | the thread ends; what it holds is the sweep's |
//!
//! The loop itself does endGraph behind each run and execute before the next set; a fault that ends
//! it for good is a taskReport. Loading is main's.
//!
//! A loop that waits for a core of the device is in a wait as in any other.
//!
//! Whoever has the [`Loaded`] has the slot's worker: the thread between Run and Unload, else main.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use executor_core::abi::control::SlotCtl;
use executor_core::error::Code;
use executor_core::model_state::{ModelOp, ModelState, Refused};
use executor_core::pool::Worker;
use executor_core::primitive::Ordering as Order32;
use executor_rt::log::Logger;
use executor_rt::node::{Control, End, Processor, Resume};
use executor_rt::waiter::Waiter;
use executor_rt::{interpose, report};

use crate::cores::Seat;
use crate::task::{Loaded, Run};

/// `SlotCtl::state`: stopped by a clear request (udf §3.5, suspend).
const STATE_STOPPED: u32 = 7;
/// `SlotCtl::state` of a place without a model: ready for one.
pub(crate) const STATE_FREE: u32 = 2;

/// What a clear request of type 2 does to a model.
pub(crate) const RESTART: [ModelOp; 3] = [ModelOp::ClearInput, ModelOp::Restart, ModelOp::Execute];

/// What main wants of a place's thread.
#[derive(Debug)]
pub(crate) enum Order {
    /// Run this model, beginning there.
    Run(Box<Loaded>, Resume),
    /// Stop; Restart or Unload follows.
    Stop,
    /// Drop what is there and begin anew.
    Restart,
    /// Drop what is there and give the model back.
    Unload,
    /// End the thread.
    End,
}

/// What came of an order.
#[derive(Debug)]
pub(crate) enum Answer {
    /// Done.
    Done,
    /// Done; so many messages of inputs and outputs were dropped.
    Dropped(u64, u64),
    /// The model, unloaded.
    Given(Box<Loaded>),
}

/// Where a place's model is in the table of [`ModelState`]: a word of its slot, for all to see.
///
/// Whoever has the slot's worker changes it. Main asks what is allowed before it gives an order:
/// the thread only goes from RUNNING to IDLE and back meanwhile, which makes no difference to one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Life {
    ctl: &'static SlotCtl,
}

impl Life {
    /// Of an empty place, whatever a dead process left in the word.
    pub(crate) fn new(ctl: &'static SlotCtl) -> Life {
        ctl.model.store(ModelState::Uninit as u64, Order32::Release);
        Life { ctl }
    }

    pub(crate) fn state(self) -> ModelState {
        let word = self.ctl.model.load(Order32::Acquire);
        ModelState::from_word(word).unwrap_or(ModelState::Uninit)
    }

    /// Goes through all of `ops`, or through none of them.
    pub(crate) fn enter(self, ops: &[ModelOp]) -> Result<(), Refused> {
        let after = self.check(ops)?;
        self.ctl.model.store(after as u64, Order32::Release);
        Ok(())
    }

    /// The state after all of `ops`.
    pub(crate) fn check(self, ops: &[ModelOp]) -> Result<ModelState, Refused> {
        ops.iter().try_fold(self.state(), |state, op| state.after(*op))
    }
}

/// Where main and a thread meet. It lives for ever.
#[derive(Debug)]
pub(crate) struct Desk {
    order: Mutex<Option<Order>>,
    answer: Mutex<Option<Answer>>,
    news: Condvar,
    /// An order lies there: the loop looks at this word only.
    waiting: AtomicBool,
    /// The code that ended the loop for good; 0 = none did.
    failed: AtomicU32,
    /// The state of the model.
    pub(crate) life: Life,
    own: Waiter<'static>,
    main: Waiter<'static>,
}

/// No state is half done under these locks.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Desk {
    /// `own` is the sleeping place of the slot, `main` that of the main thread.
    pub(crate) fn new(own: Waiter<'static>, main: Waiter<'static>, life: Life) -> &'static Desk {
        Box::leak(Box::new(Desk {
            order: Mutex::new(None),
            answer: Mutex::new(None),
            news: Condvar::new(),
            waiting: AtomicBool::new(false),
            failed: AtomicU32::new(0),
            life,
            own,
            main,
        }))
    }

    /// Main: gives an order; the one before was answered.
    pub(crate) fn give(&self, order: Order) {
        *lock(&self.order) = Some(order);
        // SYNC: release, pairs with the loop's acquire: the order lies there.
        self.waiting.store(true, Ordering::Release);
        self.news.notify_one();
        self.own.kick();
    }

    /// Main: the answer, once it is there.
    pub(crate) fn answer(&self) -> Option<Answer> {
        lock(&self.answer).take()
    }

    /// Main: whether [`Desk::answer`] has one, or never will.
    pub(crate) fn is_answered(&self) -> bool {
        lock(&self.answer).is_some() || self.failed().is_some()
    }

    /// The code that ended the thread's loop.
    pub(crate) fn failed(&self) -> Option<Code> {
        let code = self.failed.load(Ordering::Acquire);
        (code != 0).then_some(Code(code))
    }

    fn reply(&self, answer: Answer) {
        *lock(&self.answer) = Some(answer);
        self.main.kick();
    }

    /// Thread: sleeps until an order is there.
    fn next(&self) -> Order {
        let mut place = lock(&self.order);
        loop {
            if let Some(order) = place.take() {
                self.waiting.store(false, Ordering::Release);
                return order;
            }
            place = self.news.wait(place).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn fail(&self, code: Code) {
        self.failed.store(code.0, Ordering::Release);
        self.main.kick();
    }
}

/// What a loop has to do with others: an order on the desk ends it, as the last of its rounds does,
/// and it computes only while
/// its seat holds a core of the device.
#[derive(Debug)]
pub(crate) struct Orders {
    pub(crate) desk: &'static Desk,
    pub(crate) seat: Seat,
    pub(crate) rounds: Rounds,
}

/// How many sets the model still takes (`execute_times`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rounds {
    all: Option<u32>,
    left: Option<u32>,
}

impl Rounds {
    /// Of a load request: what is not positive is for ever.
    pub(crate) fn new(execute_times: i32) -> Rounds {
        let all = u32::try_from(execute_times).ok().filter(|times| *times > 0);
        Rounds { all, left: all }
    }

    /// One more set is answered.
    pub(crate) fn count(&mut self) {
        self.left = self.left.map(|left| left.saturating_sub(1));
    }

    /// All sets were taken: the rest waits in its queues.
    pub(crate) fn is_over(self) -> bool {
        self.left == Some(0)
    }
}

impl Control for Orders {
    fn is_waiting(&mut self, _worker: &Worker<'static>) -> bool {
        self.desk.waiting.load(Ordering::Acquire) || self.rounds.is_over()
    }

    fn rest(&mut self) {
        self.seat.leave();
    }

    fn serve(&mut self, worker: &mut Worker<'static>, _logger: &Logger) -> Option<End> {
        self.is_waiting(worker).then_some(End::Clean)
    }
}

/// The thread of a place.
pub(crate) fn serve(desk: &'static Desk) {
    interpose::adopt_thread();
    desk.reply(Answer::Done);
    let mut model: Option<Box<Loaded>> = None;
    loop {
        let end = match (desk.next(), model.as_deref_mut()) {
            (Order::Run(mut loaded, resume), None) => {
                enter(desk, &loaded, &[ModelOp::Execute]);
                let end = run(desk, &mut loaded, resume, Answer::Done);
                model = Some(loaded);
                end
            }
            (Order::Restart, Some(loaded)) => {
                let (inputs, outputs) = clear(loaded);
                enter(desk, loaded, &RESTART);
                let rounds = &mut loaded.node.control.rounds;
                rounds.left = rounds.all;
                run(desk, loaded, Resume::Fresh, Answer::Dropped(inputs, outputs))
            }
            (Order::Stop, Some(loaded)) => {
                set_state(loaded, STATE_STOPPED);
                enter(desk, loaded, &[ModelOp::Stop]);
                desk.reply(Answer::Done);
                End::Clean
            }
            (Order::Unload, Some(loaded)) => {
                clear(loaded);
                set_state(loaded, STATE_FREE);
                enter(desk, loaded, &[ModelOp::Destroy]);
                if let Some(loaded) = model.take() {
                    desk.reply(Answer::Given(loaded));
                }
                End::Clean
            }
            (Order::End, _) => return,
            // Main knows what it has loaded where.
            _ => End::Code(Code::DRV_INTERNAL),
        };
        if let End::Code(code) = end {
            desk.fail(code);
            return;
        }
    }
}

fn set_state(loaded: &Loaded, state: u32) {
    loaded.node.ctl().state.store(state, Order32::Release);
}

/// What main has found to be allowed.
fn enter(desk: &Desk, loaded: &Loaded, ops: &[ModelOp]) {
    match desk.life.enter(ops) {
        Ok(()) => report::info(loaded.logger, None, format_args!("{}", desk.life.state())),
        // A peer wrote over the word.
        Err(refused) => report::error(loaded.logger, None, format_args!("{refused}")),
    }
}

fn clear(loaded: &mut Loaded) -> (u64, u64) {
    loaded.drop_outputs();
    loaded.node.clear()
}

/// Runs the loop until an order, SIGTERM or a fault ends it.
fn run(desk: &'static Desk, loaded: &mut Loaded, resume: Resume, begun: Answer) -> End {
    let (logger, ctl) = (loaded.logger, loaded.node.ctl());
    let end = Processor::new(Run(loaded), logger).run(resume, || desk.reply(begun));
    loaded.node.publish();
    let rounds = loaded.node.control.rounds;
    if let (End::Clean, true, Some(all)) = (end, rounds.is_over(), rounds.all) {
        set_state(loaded, STATE_FREE);
        let state = desk.life.state();
        report::info(logger, None, format_args!("{state} after {all} sets; its inputs wait"));
    }
    if let End::Code(code) = end {
        ctl.last_code.store(code.0, Order32::Release);
        enter(desk, loaded, &[ModelOp::TaskReport]);
        report::error(logger, None, format_args!("the model's loop ends: {code}"));
    }
    end
}
