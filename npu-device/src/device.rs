//! A device: its tables of objects, its cores, the host's thread.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::capture::{CONDS_MAX, Cond};
use crate::codes::{Error, PARAM_INVALID, RESOURCE_ALLOC_FAIL, Result, STREAM_ABORT, refuse};
use crate::event::{EVENTS_MAX, Marks};
use crate::host::{Host, Values};
use crate::kernel::{Entry, FUNCTIONS_MAX};
use crate::label::{IDS_MAX, Ids, LABELS_MAX, List, Mark};
use crate::lock::lock;
use crate::memory::{MEMORIES_MAX, Piece, RawMemory};
use crate::model::{Graph, MODELS_MAX};
use crate::notify::{Bit, NOTIFIES_MAX};
use crate::sched::Sched;
use crate::stream::{Core, STREAMS_MAX};
use crate::table::Table;

/// How a device is made.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Threads that run tasks.
    pub cores: usize,
    /// Whether streams of models are kept on the host until the model is complete, and grow.
    pub auto_split: bool,
    /// Tasks that a stream's queue holds; a power of two.
    pub sq_depth: u32,
    /// Labels that a model can have.
    pub label_ids: u32,
    /// How long a core without work, and a host that waits, look out before they sleep. Not zero
    /// only where each of them has a processor to itself.
    pub spin: Duration,
    /// How long a call waits for what should not take long: room in a queue, a model's end when it
    /// is destroyed, a task's end when its stream is aborted.
    pub patience: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            cores: 1,
            auto_split: true,
            sq_depth: 2048,
            label_ids: IDS_MAX,
            spin: Duration::ZERO,
            patience: Duration::from_secs(10),
        }
    }
}

/// A device. It ends when the last handle of it and of its contexts is gone; tasks that have not
/// run by then never do.
#[derive(Clone, Debug)]
pub struct Device {
    running: Arc<Running>,
}

/// What all threads know.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) config: Config,
    pub(crate) begin: Instant,
    pub(crate) ending: AtomicBool,
    /// Memory that is not this crate's.
    pub(crate) raw: Option<Arc<dyn RawMemory>>,
    pub(crate) sched: Sched,
    pub(crate) host: Host,
    pub(crate) values: Values,
    pub(crate) streams: Table<Core>,
    pub(crate) notifies: Table<Bit>,
    pub(crate) events: Table<Marks>,
    pub(crate) models: Table<Graph>,
    pub(crate) labels: Table<Mark>,
    pub(crate) lists: Table<List>,
    pub(crate) conds: Table<Cond>,
    pub(crate) memories: Table<Piece>,
    pub(crate) functions: Table<Entry>,
    pub(crate) label_ids: Mutex<Ids>,
}

#[derive(Debug)]
struct Running {
    inner: Arc<Inner>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// Threads that run.
    started: Arc<(Mutex<usize>, Condvar)>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Running {
    /// Ends its threads, once.
    fn stop(&self) {
        self.inner.ending.store(true, Ordering::Relaxed);
        self.inner.sched.stop();
        self.inner.host.stop();
        let own = thread::current().id();
        let threads = std::mem::take(&mut *lock(&self.threads));
        for thread in threads {
            // A kernel that held the last handle ends the device from one of its own threads.
            if thread.thread().id() != own {
                let _ = thread.join();
            }
        }
    }
}

impl Device {
    /// Makes a device and starts its threads.
    ///
    /// # Errors
    /// 107000 for a configuration that makes no sense; 207005 when a thread can't be started.
    pub fn new(config: Config) -> Result<Self> {
        Self::make(config, None)
    }

    /// The same, of which tasks can also name memory that is somebody else's, by its address.
    ///
    /// # Errors
    /// As [`Device::new`].
    pub fn with_raw_memory(config: Config, raw: Arc<dyn RawMemory>) -> Result<Self> {
        Self::make(config, Some(raw))
    }

    fn make(config: Config, raw: Option<Arc<dyn RawMemory>>) -> Result<Self> {
        if config.cores == 0 || config.cores > 1024 {
            return refuse(PARAM_INVALID, format!("{} cores: 1 to 1024", config.cores));
        }
        if !config.sq_depth.is_power_of_two() || config.sq_depth < 2 || config.sq_depth > 32_768 {
            let what = format!("queue depth {}: a power of two, 2 to 32768", config.sq_depth);
            return refuse(PARAM_INVALID, what);
        }
        if config.label_ids == 0 || config.label_ids > IDS_MAX {
            return refuse(
                PARAM_INVALID,
                format!("{} label ids: 1 to {IDS_MAX}", config.label_ids),
            );
        }
        let inner = Arc::new(Inner {
            config,
            begin: Instant::now(),
            ending: AtomicBool::new(false),
            raw,
            sched: Sched::new(STREAMS_MAX as usize, config.spin),
            host: Host::new(),
            values: Values::new(),
            streams: Table::new(STREAMS_MAX),
            notifies: Table::new(NOTIFIES_MAX),
            events: Table::new(EVENTS_MAX),
            models: Table::new(MODELS_MAX),
            labels: Table::new(LABELS_MAX),
            lists: Table::new(LABELS_MAX),
            conds: Table::new(CONDS_MAX),
            memories: Table::new(MEMORIES_MAX),
            functions: Table::new(FUNCTIONS_MAX),
            label_ids: Mutex::new(Ids::new(config.label_ids)),
        });
        let running = Running { inner, threads: Mutex::default(), started: Arc::default() };
        for core in 0..config.cores {
            running.start(format!("core {core}"), Inner::work)?;
        }
        running.start("host functions".to_owned(), |inner| inner.host.serve(inner))?;
        running.wait_started();
        Ok(Self { running: Arc::new(running) })
    }

    pub(crate) fn inner(&self) -> &Inner {
        &self.running.inner
    }

    /// Ends it, whoever still has a handle of it or of its contexts: when this returns, nothing of
    /// it runs, and nothing will. Who waits gets the codes of [`close`](crate::Context::close).
    /// From a thread of the device itself that one runs on until its task ends.
    pub fn shut_down(&self) {
        self.running.stop();
        let device = self.inner();
        Core::close_all(&device.streams.all(), device);
        device.events.all().iter().for_each(|marks| marks.close(&device.sched, STREAM_ABORT));
    }

    /// Threads that run tasks.
    #[must_use]
    pub fn cores(&self) -> usize {
        self.inner().config.cores
    }
}

impl Running {
    fn start(&self, name: String, run: fn(&Inner)) -> Result<()> {
        let (inner, started) = (self.inner.clone(), self.started.clone());
        let thread = thread::Builder::new().name(name).spawn(move || {
            *lock(&started.0) += 1;
            started.1.notify_all();
            run(&inner);
        });
        let thread = thread.map_err(|error| {
            Error::new(RESOURCE_ALLOC_FAIL, format!("a thread of the device: {error}"))
        })?;
        lock(&self.threads).push(thread);
        Ok(())
    }
}

impl Running {
    /// A thread that begins allocates; nothing does so behind the caller's back later.
    fn wait_started(&self) {
        let wanted = lock(&self.threads).len();
        let begun = self.started.1.wait_while(lock(&self.started.0), |begun| *begun < wanted);
        drop(begun.unwrap_or_else(PoisonError::into_inner));
    }
}

impl Inner {
    /// Looks out for something on the host, for as long as cores do.
    pub(crate) fn spin_until(&self, holds: impl Fn() -> bool) {
        if self.config.spin.is_zero() {
            return;
        }
        let begin = Instant::now();
        while !holds() && begin.elapsed() < self.config.spin {
            std::hint::spin_loop();
        }
    }
}
