//! Models that run by what comes in queues, again and again, with nobody on the host.
//!
//! ```text
//! dequeue each input (one by one, by time, by id) ─► copied into the model's memory
//!   ─► an output message for each queue ─► the model is started ─► its end
//!   ─► outputs are filled ─► enqueued ─► once more
//! ```
//! The work is a stream of the device's own CPU tasks, taken in *turns*: a turn goes on until a
//! task has to wait, and then leaves the core. What it waits for asks for the next turn, which
//! does that task again from its beginning ([`waits::Waits`]).

mod alarm;
mod align;
mod message;
mod run;
mod task;
#[cfg(test)]
mod tests;
mod waits;

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError, Weak};
use std::time::{Duration, Instant};

use executor_core::error::Code;
use executor_core::model_state::Refused;
pub use executor_core::model_state::{ModelOp, ModelState};

use crate::codes::{
    AICPU_IN_WORKING, AICPU_PARAM_INVALID, AICPU_STATE, EXEC_MODEL_QUEUE_ID_INVALID, Error,
    REPORT_TIMEOUT, Result, refuse,
};
use crate::context::Context;
use crate::kernel::{Call, Function};
use crate::lock::lock;
use crate::memory::Memory;
use crate::model::Model;
use crate::stream::{Stream, StreamFlags};

use alarm::Alarm;
pub use message::{Head, Message, MessageQueue};
use run::Run;
use waits::Waits;

/// How messages of several inputs are put together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Align {
    /// The next one of each.
    #[default]
    InOrder,
    /// Times, less an offset for each queue, at most so far from each other; the oldest is dropped.
    ByTime {
        /// Of each input queue.
        offsets: Vec<u64>,
        /// Most distance.
        interval: u64,
    },
    /// The same id and route. Beyond so many ids (0 is any number) the lowest that misses
    /// something leaves.
    ById {
        /// Ids that may wait.
        max_cache: usize,
        /// Whether it is thrown away, or goes on with what is missing as a code.
        drop_out: bool,
        /// How long one may wait before it leaves likewise, milliseconds; `None`: for ever.
        timeout_ms: Option<u32>,
    },
}

/// What becomes of a set with a code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Abnormal {
    /// A code goes on with its set; otherwise a failed task ends the loop.
    pub catch: bool,
    /// A set with a code is still enqueued.
    pub enqueue: bool,
    /// A set with a code is the last one.
    pub stop: bool,
}

/// What a feed is made of.
#[derive(Clone, Debug)]
pub struct FeedConfig {
    /// A complete model.
    pub model: Model,
    /// A queue for each input; or one, of a model without inputs, which says when to run.
    pub input_queues: Vec<MessageQueue>,
    /// The model's inputs.
    pub inputs: Vec<Memory>,
    /// A queue for each output; or, of a model without outputs, any that are told of a run.
    pub output_queues: Vec<MessageQueue>,
    /// The model's outputs.
    pub outputs: Vec<Memory>,
    /// How messages are put together.
    pub align: Align,
    /// What becomes of a set with a code.
    pub abnormal: Abnormal,
}

/// A model between queues. It ends with [`Feed::destroy`], or when the last handle is gone.
#[derive(Clone, Debug)]
pub struct Feed {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    context: Context,
    state: Mutex<ModelState>,
    /// Held by a call that changes the whole.
    operation: Mutex<()>,
    loaded: Mutex<Option<Arc<Loaded>>>,
    /// Which execution this is; turns of older ones do nothing.
    generation: AtomicU64,
    /// Sets that were answered.
    iterations: AtomicU64,
    /// What the model's last run ended with.
    computed: AtomicU32,
    /// What the loop ended with.
    outcome: Mutex<Option<Code>>,
    ended: Condvar,
}

/// What is there between load and destroy.
#[derive(Debug)]
struct Loaded {
    config: FeedConfig,
    /// The input queues, each once.
    queues: Vec<MessageQueue>,
    /// Of each input its queue in `queues`.
    ports: Vec<usize>,
    turns: Stream,
    compute: Stream,
    turn: Function,
    end: Function,
    waits: Mutex<Waits>,
    run: Mutex<Run>,
    /// Of ids that may not wait for ever.
    alarm: Option<Alarm>,
}

impl Feed {
    /// A feed with nothing in it.
    #[must_use]
    pub fn new(context: &Context) -> Self {
        Self {
            shared: Arc::new(Shared {
                context: context.clone(),
                state: Mutex::new(ModelState::Uninit),
                operation: Mutex::default(),
                loaded: Mutex::default(),
                generation: AtomicU64::new(0),
                iterations: AtomicU64::new(0),
                computed: AtomicU32::new(0),
                outcome: Mutex::default(),
                ended: Condvar::new(),
            }),
        }
    }

    /// Its state.
    #[must_use]
    pub fn state(&self) -> ModelState {
        *lock(&self.shared.state)
    }

    /// Sets that were answered since it was loaded.
    #[must_use]
    pub fn iterations(&self) -> u64 {
        self.shared.iterations.load(Ordering::Acquire)
    }

    /// Gives it a model and queues.
    ///
    /// # Errors
    /// 21103 unless it is empty; 145008 when the numbers of queues do not fit; 21001 when nothing
    /// is to be waited for, a queue is another feed's already or the time of ids is 0; 207005,
    /// 207008 when the device has no function, thread or stream left.
    pub fn load(&self, config: FeedConfig) -> Result<()> {
        let _alone = self.alone()?;
        let shared = &self.shared;
        let state = self.state();
        state.after(ModelOp::Load).map_err(wrong_state)?;
        *lock(&shared.loaded) = Some(Loaded::new(shared, config)?);
        shared.iterations.store(0, Ordering::Release);
        shared.enter(ModelOp::Load)
    }

    /// Begins to take sets. What was under way is gone.
    ///
    /// # Errors
    /// 21103 in a state that does not allow it, 21100 while another such call is under way.
    pub fn execute(&self) -> Result<()> {
        self.operate(ModelOp::Execute, |shared| {
            let loaded = shared.loaded()?;
            let mut run = lock(&loaded.run);
            shared.generation.fetch_add(1, Ordering::AcqRel);
            run.rewind(loaded.queues.len(), &loaded.config.align);
            *lock(&loaded.waits) = Waits::new(loaded.wait_count());
            *lock(&shared.outcome) = None;
            drop(run);
            shared.submit_turn();
            Ok(())
        })
    }

    /// Ends the run of the model that is under way; the set is lost.
    ///
    /// # Errors
    /// As [`Feed::execute`]; 207000 for the run of a model that comes of a capture, which goes on.
    pub fn abort(&self) -> Result<()> {
        self.operate(ModelOp::Abort, |shared| {
            let model = &shared.loaded()?.config.model;
            if model.is_running() { model.abort() } else { Ok(()) }
        })
    }

    /// Takes no more sets, after the task that it is at.
    ///
    /// # Errors
    /// As [`Feed::execute`].
    pub fn stop(&self) -> Result<()> {
        self.operate(ModelOp::Stop, |_| Ok(()))
    }

    /// After a stop: can be executed again.
    ///
    /// # Errors
    /// As [`Feed::execute`].
    pub fn restart(&self) -> Result<()> {
        self.operate(ModelOp::Restart, |shared| shared.loaded().map(drop))
    }

    /// After a stop: empties its input queues and what it has of them.
    ///
    /// # Errors
    /// As [`Feed::execute`].
    pub fn clear_inputs(&self) -> Result<()> {
        self.operate(ModelOp::ClearInput, |shared| {
            let loaded = shared.loaded()?;
            lock(&loaded.run).rewind(loaded.queues.len(), &loaded.config.align);
            loaded.queues.iter().for_each(MessageQueue::clear);
            Ok(())
        })
    }

    /// Gives model and queues up; it is empty then.
    ///
    /// # Errors
    /// 21100 while another such call is under way.
    pub fn destroy(&self) -> Result<()> {
        self.operate(ModelOp::Destroy, |shared| {
            shared.generation.fetch_add(1, Ordering::AcqRel);
            let Some(loaded) = lock(&shared.loaded).take() else { return Ok(()) };
            let model = &loaded.config.model;
            let aborted = if model.is_running() { model.abort() } else { Ok(()) };
            loaded.release();
            aborted
        })
    }

    /// Waits until the loop has ended with a code; the code.
    ///
    /// # Errors
    /// 507012 after the timeout.
    pub fn wait_outcome(&self, timeout: Duration) -> Result<Code> {
        let deadline = Instant::now() + timeout;
        let mut outcome = lock(&self.shared.outcome);
        loop {
            if let Some(code) = *outcome {
                return Ok(code);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return refuse(REPORT_TIMEOUT, "the loop goes on");
            }
            let woken = self.shared.ended.wait_timeout(outcome, left);
            outcome = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// A call that changes the whole: one at a time.
    fn alone(&self) -> Result<MutexGuard<'_, ()>> {
        match self.shared.operation.try_lock() {
            Ok(guard) => Ok(guard),
            Err(TryLockError::Poisoned(poisoned)) => Ok(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => {
                refuse(AICPU_IN_WORKING, "another call of this feed is under way")
            }
        }
    }

    /// Such a call, where the state allows it; what turns do meanwhile is by the new state.
    fn operate(&self, op: ModelOp, act: impl FnOnce(&Arc<Shared>) -> Result<()>) -> Result<()> {
        let _alone = self.alone()?;
        self.shared.enter(op)?;
        act(&self.shared)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let Some(loaded) = lock(&self.loaded).take() {
            loaded.forget();
            // Perhaps on a core, in a turn: nothing is waited for.
            loaded.turns.abandon();
            loaded.compute.abandon();
        }
    }
}

impl Shared {
    /// Into the state that follows.
    fn enter(&self, op: ModelOp) -> Result<()> {
        let mut state = lock(&self.state);
        *state = state.after(op).map_err(wrong_state)?;
        Ok(())
    }

    fn loaded(&self) -> Result<Arc<Loaded>> {
        let loaded = lock(&self.loaded).clone();
        loaded.ok_or_else(|| Error::new(AICPU_STATE, "the feed has no model"))
    }

    /// The loop is over.
    fn end(&self, code: Code) {
        *lock(&self.outcome) = Some(code);
        self.ended.notify_all();
    }

    /// Something happened that a turn may wait for.
    fn event(&self, place: usize) {
        let Ok(loaded) = self.loaded() else { return };
        if loaded.event(place) {
            self.submit_turn();
        }
    }

    fn submit_turn(&self) {
        let Ok(loaded) = self.loaded() else { return };
        let generation = self.generation.load(Ordering::Acquire);
        if let Err(error) = loaded.turns.launch_cpu(&loaded.turn, 1, [generation, 0, 0, 0]) {
            self.end(error.code());
        }
    }
}

fn wrong_state(refused: Refused) -> Error {
    Error::new(AICPU_STATE, refused.to_string())
}

/// Queues, each once, and where each of the given ones is among them.
fn unique(queues: &[MessageQueue]) -> (Vec<MessageQueue>, Vec<usize>) {
    let mut once: Vec<MessageQueue> = Vec::new();
    let mut ports = Vec::new();
    for queue in queues {
        let known = once.iter().position(|known| known.is(queue));
        ports.push(known.unwrap_or(once.len()));
        if known.is_none() {
            once.push(queue.clone());
        }
    }
    (once, ports)
}

impl Loaded {
    fn new(shared: &Arc<Shared>, config: FeedConfig) -> Result<Arc<Self>> {
        let (queues, ports) = unique(&config.input_queues);
        check(&config, queues.len())?;
        let context = &shared.context;
        let any_place = queues.len() + config.output_queues.len();
        let weak = Arc::downgrade(shared);
        let ring = move || with(&weak, |shared| shared.event(any_place));
        let limited = matches!(config.align, Align::ById { timeout_ms: Some(_), .. });
        let alarm = if limited { Some(Alarm::new(ring)?) } else { None };
        let (weak, weak_end) = (Arc::downgrade(shared), Arc::downgrade(shared));
        let turns = context.stream(StreamFlags::default())?;
        let compute = context.stream(StreamFlags::default()).inspect_err(|_| turns.abandon())?;
        let turn = move |call: &Call| {
            with(&weak, |shared| shared.turn(call.args[0]));
            Ok(())
        };
        let end = move |call: &Call| {
            with(&weak_end, |shared| shared.computed(call.args[0]));
            Ok(())
        };
        let no_streams = || [&turns, &compute].map(Stream::abandon);
        let turn = context.register("feed turn", Arc::new(turn)).inspect_err(|_| {
            no_streams();
        })?;
        let end = context.register("feed end", Arc::new(end)).inspect_err(|_| {
            turn.clone().unregister();
            no_streams();
        })?;
        let count = queues.len() + config.output_queues.len() + 2;
        let mut run = Run::default();
        run.rewind(queues.len(), &config.align);
        let (waits, run) = (Mutex::new(Waits::new(count)), Mutex::new(run));
        let loaded =
            Arc::new(Self { config, queues, ports, turns, compute, turn, end, waits, run, alarm });
        loaded.subscribe(shared).inspect_err(|_| loaded.release())?;
        Ok(loaded)
    }

    fn subscribe(&self, shared: &Arc<Shared>) -> Result<()> {
        let wake = |place: usize| {
            let weak = Arc::downgrade(shared);
            Arc::new(move || with(&weak, |shared| shared.event(place)))
        };
        for (port, queue) in self.queues.iter().enumerate() {
            queue.on_not_empty(self.id(), wake(port))?;
        }
        for (index, queue) in self.config.output_queues.iter().enumerate() {
            queue.on_not_full(self.id(), wake(self.not_full(index)))?;
        }
        Ok(())
    }

    /// What queues and device keep of it goes.
    fn release(&self) {
        self.forget();
        for stream in [&self.turns, &self.compute] {
            // After what it is at, if that ends in time; else with what it is at.
            if stream.clone().destroy().is_err() {
                stream.abandon();
            }
        }
    }

    fn forget(&self) {
        for queue in self.queues.iter().chain(&self.config.output_queues) {
            queue.forget(self.id());
        }
        for function in [&self.turn, &self.end] {
            function.clone().unregister();
        }
    }

    /// Tells subscribers of queues apart.
    fn id(&self) -> u64 {
        self.turn.word()
    }
}

fn with(weak: &Weak<Shared>, act: impl FnOnce(&Shared)) {
    if let Some(shared) = weak.upgrade() {
        act(&shared);
    }
}

/// Whether queues, memory and alignment fit each other.
fn check(config: &FeedConfig, queues: usize) -> Result<()> {
    let wrong = |what: String| refuse(EXEC_MODEL_QUEUE_ID_INVALID, what);
    let (given, has) = (config.input_queues.len(), config.inputs.len());
    let control = has == 0 && given == 1;
    if given != has && !control {
        return wrong(format!("{given} input queues for {has} inputs"));
    }
    let (given, has) = (config.output_queues.len(), config.outputs.len());
    if given != has && has != 0 {
        return wrong(format!("{given} output queues for {has} outputs"));
    }
    if queues == 0 {
        return refuse(AICPU_PARAM_INVALID, "a feed without an input queue never runs");
    }
    match &config.align {
        Align::ByTime { offsets, .. } if offsets.len() != queues => {
            let what = format!("{} offsets of time for {queues} queues", offsets.len());
            refuse(AICPU_PARAM_INVALID, what)
        }
        Align::ById { timeout_ms: Some(0), .. } => {
            refuse(AICPU_PARAM_INVALID, "ids wait for 0 ms: at least 1, or for ever")
        }
        _ => Ok(()),
    }
}
