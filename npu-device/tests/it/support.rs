//! What the tests share: devices, gates, logs of what ran.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use npu_device::{
    Call, Config, Context, Device, Fault, Function, Model, Result, Stream, StreamFlags,
};

/// Longer than anything takes.
pub(crate) const LONG: Option<Duration> = Some(Duration::from_secs(60));

pub(crate) fn config() -> Config {
    Config { cores: 2, ..Config::default() }
}

pub(crate) fn context() -> Context {
    context_of(config())
}

pub(crate) fn context_of(config: Config) -> Context {
    Context::new(&Device::new(config).unwrap()).unwrap()
}

pub(crate) fn ordinary(context: &Context) -> Stream {
    context.stream(StreamFlags::default()).unwrap()
}

pub(crate) fn persistent(context: &Context) -> Stream {
    context.stream(StreamFlags(StreamFlags::PERSISTENT)).unwrap()
}

/// A model with one head stream, nothing in it yet.
pub(crate) fn model(context: &Context) -> (Model, Stream) {
    let (model, stream) = (context.build_begin().unwrap(), persistent(context));
    model.bind(&stream, true).unwrap();
    (model, stream)
}

pub(crate) fn finish(model: &Model, stream: &Stream) {
    model.end_task(stream).unwrap();
    model.build_end().unwrap();
}

pub(crate) fn code<T>(result: Result<T>) -> u32 {
    result.err().map_or(0, |error| error.code().0)
}

/// Counts calls.
pub(crate) fn counter(context: &Context) -> (Function, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let inside = count.clone();
    let run = move |_: &Call| {
        inside.fetch_add(1, Ordering::SeqCst);
        Ok(())
    };
    (context.register("count", Arc::new(run)).unwrap(), count)
}

/// Writes down the first argument of each call.
pub(crate) fn logger(context: &Context) -> (Function, Arc<Mutex<Vec<u64>>>) {
    let log = Arc::new(Mutex::new(Vec::new()));
    let inside = log.clone();
    let run = move |call: &Call| {
        inside.lock().unwrap().push(call.args[0]);
        Ok(())
    };
    (context.register("log", Arc::new(run)).unwrap(), log)
}

/// A kernel that fails.
pub(crate) fn failing(context: &Context, fault: Fault) -> Function {
    context.register("fail", Arc::new(move |_: &Call| Err(fault))).unwrap()
}

/// A kernel that waits until the gate is opened.
#[derive(Clone)]
pub(crate) struct Gate {
    state: Arc<(Mutex<(bool, usize)>, Condvar)>,
    pub(crate) function: Function,
}

impl Gate {
    pub(crate) fn new(context: &Context) -> Self {
        let state: Arc<(Mutex<(bool, usize)>, Condvar)> = Arc::default();
        let inside = state.clone();
        let run = move |_: &Call| {
            let (lock, condition) = &*inside;
            let mut state = lock.lock().unwrap();
            state.1 += 1;
            condition.notify_all();
            drop(condition.wait_while(state, |state| !state.0).unwrap());
            Ok(())
        };
        let function = context.register("gate", Arc::new(run)).unwrap();
        Self { state, function }
    }

    pub(crate) fn open(&self) {
        self.state.0.lock().unwrap().0 = true;
        self.state.1.notify_all();
    }

    /// Until so many kernels are at the gate.
    pub(crate) fn wait_for(&self, count: usize) {
        let (lock, condition) = &*self.state;
        let state = lock.lock().unwrap();
        let limit = Duration::from_secs(60);
        let waited = condition.wait_timeout_while(state, limit, |state| state.1 < count).unwrap();
        assert!(!waited.1.timed_out(), "no kernel came to the gate");
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        // A test that failed leaves no core behind.
        self.open();
    }
}

/// Looks until something holds; a watchdog, not a measurement.
pub(crate) fn until(holds: impl Fn() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < Duration::from_secs(60), "it never happened");
        std::thread::yield_now();
    }
}
