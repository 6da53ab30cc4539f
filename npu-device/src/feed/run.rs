//! Turns: the tasks of a set, one after the other, until one has to wait.

use std::sync::atomic::Ordering;

use executor_core::error::Code;

use crate::codes::{AICPU_DRIVER, AICPU_TASK_FAILED};
use crate::feed::align::{Gather, REPORTED, Set};
use crate::feed::message::{Head, Message};
use crate::feed::{Align, Loaded, ModelOp, ModelState, Shared};
use crate::lock::lock;

/// What a set goes through, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    Dequeue,
    CopyInputs,
    PrepareOutputs,
    Activate,
    WaitEnd,
    FillOutputs,
    Enqueue(usize),
    Repeat,
}

/// Where the set under way is.
#[derive(Debug, Default)]
pub(super) struct Run {
    /// The task it is at.
    pub(super) at: usize,
    /// Its messages, of each input queue.
    pub(super) set: Set,
    /// Messages that wait for others.
    pub(super) gather: Option<Gather>,
    /// What leaves.
    pub(super) outputs: Vec<Option<Message>>,
    /// Its code, the first one.
    pub(super) code: i32,
    pub(super) null: bool,
    pub(super) eos: bool,
    /// The head that its outputs get.
    pub(super) head: Head,
}

impl Run {
    /// As at the beginning, with nothing left of what was under way.
    pub(super) fn rewind(&mut self, queues: usize, align: &Align) {
        *self = Self { gather: gathers(align).then(Gather::default), ..Self::default() };
        self.next_set(queues);
    }

    /// What waits for others stays.
    fn next_set(&mut self, queues: usize) {
        let gather = self.gather.take();
        *self = Self { gather, ..Self::default() };
        self.set = (0..queues).map(|_| None).collect();
    }

    /// A head came in.
    pub(super) fn take_head(&mut self, head: &Head, catch: bool) {
        self.null |= head.info.is_null_data();
        self.eos |= head.ends_sequence();
        if catch && self.code == 0 {
            self.code = head.info.ret_code;
        }
    }

    /// Whether the model is not asked.
    pub(super) fn skips(&self, catch: bool) -> bool {
        self.null || catch && self.code != 0
    }
}

fn gathers(align: &Align) -> bool {
    matches!(align, Align::ById { .. })
}

/// What a task ends with.
pub(super) enum Done {
    Next,
    /// Something will ask for another turn.
    Wait,
    /// The set is answered.
    Again,
}

impl Shared {
    /// A turn, on a core.
    pub(super) fn turn(&self, generation: u64) {
        let Ok(loaded) = self.loaded() else { return };
        let mut run = lock(&loaded.run);
        while generation == self.generation.load(Ordering::Acquire) {
            if self.enter(ModelOp::RunTask).is_err() {
                return;
            }
            let work = loaded.work(run.at);
            match loaded.perform(self, &mut run, work) {
                Ok(Done::Next) => run.at += 1,
                Ok(Done::Wait) => return,
                Ok(Done::Again) => {
                    self.iterations.fetch_add(1, Ordering::AcqRel);
                    run.next_set(loaded.queues.len());
                    if self.repeat() {
                        // Other streams have their turn in between.
                        self.submit_turn();
                    }
                    return;
                }
                Err(error) => {
                    run.at += 1;
                    let code = error.code();
                    let last = [AICPU_TASK_FAILED, AICPU_DRIVER].contains(&code);
                    if last || !loaded.config.abnormal.catch {
                        // A set whose model has ended is idle, which no report changes.
                        drop(self.enter(ModelOp::TaskReport));
                        return self.end(code);
                    }
                    if run.code == 0 {
                        run.code = reported(code);
                    }
                }
            }
        }
    }

    /// From idle to the next set, unless somebody stopped it.
    fn repeat(&self) -> bool {
        let mut state = lock(&self.state);
        let next = state.after(ModelOp::Execute).ok().filter(|_| *state == ModelState::Idle);
        if let Some(next) = next {
            *state = next;
        }
        next.is_some()
    }

    /// The model has ended: behind its run, on a core.
    pub(super) fn computed(&self, generation: u64) {
        let Ok(loaded) = self.loaded() else { return };
        let code = loaded.compute.query().err().map_or(Code::SUCCESS, |error| error.code());
        if generation != self.generation.load(Ordering::Acquire) {
            return;
        }
        self.computed.store(code.0, Ordering::Release);
        self.end_graph(&loaded);
    }

    /// The end of the model is there, or need not be waited for.
    pub(super) fn end_graph(&self, loaded: &Loaded) {
        if self.enter(ModelOp::EndGraph).is_ok() {
            self.event(loaded.end_place());
        }
    }
}

/// As a code in a head: inner ones are raised.
pub(super) fn reported(code: Code) -> i32 {
    let inner = (21_000..22_000).contains(&code.0);
    (if inner { code.0 + REPORTED } else { code.0 }).cast_signed()
}
