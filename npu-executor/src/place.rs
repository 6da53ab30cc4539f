//! A place: one slot of the device, with a thread that runs the model which is loaded there.
//!
//! ```text
//! thread:  waits for an order ⇄ runs the node loop of its model
//! main:    puts one order on the desk, kicks the thread's waiter, sleeps until it is answered
//! ```
//! | order | without a model | with one |
//! |---|---|---|
//! | Run | takes the model, answers when its loop has begun | – |
//! | Stop | – | the loop ends between two sets or in a wait; what it holds stays |
//! | Restart | – | everything held and queued is dropped, the loop begins anew |
//! | Unload | – | as Restart, then the model is given back |
//! | End | the thread ends | the thread ends; what it holds is the sweep's |
//!
//! A loop that waits for a core of the device is in a wait as in any other.
//!
//! Whoever has the [`Loaded`] has the slot's worker: the thread between Run and Unload, else main.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use executor_core::error::Code;
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
    own: Waiter<'static>,
    main: Waiter<'static>,
}

/// No state is half done under these locks.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Desk {
    /// `own` is the sleeping place of the slot, `main` that of the main thread.
    pub(crate) fn new(own: Waiter<'static>, main: Waiter<'static>) -> &'static Desk {
        Box::leak(Box::new(Desk {
            order: Mutex::new(None),
            answer: Mutex::new(None),
            news: Condvar::new(),
            waiting: AtomicBool::new(false),
            failed: AtomicU32::new(0),
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

/// What a loop has to do with others: an order on the desk ends it, and it computes only while
/// its seat holds a core of the device.
#[derive(Debug)]
pub(crate) struct Orders {
    pub(crate) desk: &'static Desk,
    pub(crate) seat: Seat,
}

impl Control for Orders {
    fn is_waiting(&mut self, _worker: &Worker<'static>) -> bool {
        self.desk.waiting.load(Ordering::Acquire)
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
                let end = run(desk, &mut loaded, resume, Answer::Done);
                model = Some(loaded);
                end
            }
            (Order::Restart, Some(loaded)) => {
                let (inputs, outputs) = clear(loaded);
                run(desk, loaded, Resume::Fresh, Answer::Dropped(inputs, outputs))
            }
            (Order::Stop, Some(loaded)) => {
                set_state(loaded, STATE_STOPPED);
                desk.reply(Answer::Done);
                End::Clean
            }
            (Order::Unload, Some(loaded)) => {
                clear(loaded);
                set_state(loaded, STATE_FREE);
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

fn clear(loaded: &mut Loaded) -> (u64, u64) {
    loaded.drop_outputs();
    loaded.node.clear()
}

/// Runs the loop until an order, SIGTERM or a fault ends it.
fn run(desk: &'static Desk, loaded: &mut Loaded, resume: Resume, begun: Answer) -> End {
    let (logger, ctl) = (loaded.logger, loaded.node.ctl());
    let end = Processor::new(Run(loaded), logger).run(resume, || desk.reply(begun));
    loaded.node.publish();
    if let End::Code(code) = end {
        ctl.last_code.store(code.0, Order32::Release);
        report::error(logger, None, format_args!("the model's loop ends: {code}"));
    }
    end
}
