//! Models: streams that run together, again and again.
//!
//! ```text
//! build_begin → bind* → tasks → end_task → build_end → execute* → unbind* → destroy
//! ```
//! Executing puts two tasks into an ordinary stream: one that starts the model's head streams, and
//! one that waits for the end mark, a notify of the model's own. Both run on the device; the host
//! waits for that stream and for nothing else.

mod bind;
mod destroy;
mod edit;
mod exec;
mod execute;
mod load;
pub(crate) mod split;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use crate::capture::{Capture, Cond, External, Stage};
use crate::codes::{
    Error, INSUFFICIENT_INPUT_ARRAY, INTERNAL_ERROR, MODEL_CAPTURED, MODEL_EXECUTE, NO_MODEL,
    PARAM_INVALID, Result, refuse,
};
use crate::context::Context;
use crate::event::Marks;
use crate::label::{Ids, Mark};
use crate::lock::lock;
use crate::notify::Bit;
use crate::sched::Priority;
use crate::sqe::Sqe;
use crate::stream::{Core, Placed, Stream};

pub use edit::TaskChange;
pub(crate) use exec::{Exec, Start};

/// Models a device has.
pub(crate) const MODELS_MAX: u32 = 4096;

/// Bytes of a model's name, its end included.
const NAME_BYTES_MAX: usize = 512;

/// Tells generations of a model's number apart, so that a task never starts a model that was made
/// after it was submitted.
static SERIAL: AtomicU64 = AtomicU64::new(1);

/// What a device knows of a model.
#[derive(Debug)]
pub(crate) struct Graph {
    id: u32,
    pub(crate) serial: u64,
    pub(crate) build: Mutex<Build>,
    pub(crate) exec: Mutex<Exec>,
    pub(crate) idle: Condvar,
    /// What it is besides when it comes of a capture.
    pub(crate) capture: Option<Mutex<Capture>>,
}

/// What a model is made of.
#[derive(Debug)]
pub(crate) struct Build {
    name: String,
    /// All streams, the newest first.
    pub(crate) streams: VecDeque<Arc<Core>>,
    /// Those that run from the start, in the order of binding.
    pub(crate) heads: Vec<Arc<Core>>,
    /// The end mark.
    pub(crate) end: Option<Arc<Bit>>,
    pub(crate) complete: bool,
    pub(crate) destroyed: bool,
    pub(crate) priority: Option<Priority>,
    /// Tasks that mark events outside, or wait for such.
    pub(crate) externals: Vec<External>,
    /// Tasks that the next update replaces.
    edits: Vec<(Placed, Sqe)>,
    /// Records of events in it, of each event the first.
    rewinds: Vec<(Arc<Marks>, u64)>,
    /// None once the model ends.
    label_ids: Option<Ids>,
    labels: Vec<Arc<Mark>>,
    callbacks: Vec<(u64, Callback)>,
    next_callback: u64,
}

/// A callback of a model's end.
struct Callback(Box<dyn FnOnce() + Send>);

impl std::fmt::Debug for Callback {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Callback")
    }
}

/// Names a callback, to take it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallbackId(u64);

impl Graph {
    fn new(id: u32, label_ids: u32, capture: Option<Mutex<Capture>>) -> Self {
        Self {
            id,
            serial: SERIAL.fetch_add(1, Ordering::Relaxed),
            build: Mutex::new(Build {
                name: String::new(),
                streams: VecDeque::new(),
                heads: Vec::new(),
                end: None,
                complete: false,
                destroyed: false,
                priority: None,
                externals: Vec::new(),
                edits: Vec::new(),
                rewinds: Vec::new(),
                label_ids: Some(Ids::new(label_ids)),
                labels: Vec::new(),
                callbacks: Vec::new(),
                next_callback: 0,
            }),
            exec: Mutex::default(),
            idle: Condvar::new(),
            capture,
        }
    }

    pub(crate) fn id(&self) -> u32 {
        self.id
    }

    /// An event is recorded in this model: its mark is taken back before each run.
    pub(crate) fn rewinds_of(&self, marks: &Arc<Marks>, mark: u64) {
        let mut build = lock(&self.build);
        if !build.rewinds.iter().any(|(known, _)| Arc::ptr_eq(known, marks)) {
            build.rewinds.push((marks.clone(), mark));
        }
    }

    pub(crate) fn take_label_id(&self) -> Result<u16> {
        let mut build = lock(&self.build);
        let gone = || Error::new(INTERNAL_ERROR, "the model ends: it has no more labels");
        build.label_ids.as_mut().ok_or_else(gone)?.take()
    }

    pub(crate) fn keep_label(&self, label: &Arc<Mark>) {
        lock(&self.build).labels.push(label.clone());
    }

    pub(crate) fn drop_label(&self, label: &Arc<Mark>) -> Result<()> {
        let mut build = lock(&self.build);
        build.labels.retain(|known| !Arc::ptr_eq(known, label));
        build.label_ids.as_mut().map_or(Ok(()), |ids| ids.give_back(label.id()))
    }
}

/// A model of a context. It is there until [`Model::destroy`].
#[derive(Clone, Debug)]
pub struct Model {
    pub(crate) graph: Arc<Graph>,
    pub(crate) context: Context,
}

/// The same model, not only the same number.
impl PartialEq for Model {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.graph, &other.graph)
    }
}

impl Eq for Model {}

impl Model {
    pub(crate) fn build_begin(context: &Context) -> Result<Self> {
        Self::begin(context, None)
    }

    /// A model to capture into: a branch of a condition, or one that is the context's.
    pub(crate) fn capture_begin(context: &Context, cond: Option<&Arc<Cond>>) -> Result<Self> {
        let model = Self::begin(context, Some(Capture::new(cond.map(Arc::downgrade))))?;
        if cond.is_none() {
            context.keep_model(&model.graph);
        }
        Ok(model)
    }

    fn begin(context: &Context, capture: Option<Mutex<Capture>>) -> Result<Self> {
        let device = context.device();
        let label_ids = device.config.label_ids;
        let graph = device.models.insert(|name| Graph::new(name.id, label_ids, capture));
        let graph = graph.ok_or_else(|| {
            Error::new(NO_MODEL, format!("all {MODELS_MAX} models of the device are used"))
        })?;
        Ok(Self { graph, context: context.clone() })
    }

    /// Its number on the device.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.graph.id
    }

    /// For what is done to models that are built, not captured.
    pub(crate) fn refuse_captured(&self) -> Result<()> {
        if self.graph.capture.is_some() {
            return refuse(MODEL_CAPTURED, format!("model {} comes of a capture", self.id()));
        }
        Ok(())
    }

    /// For what is done to models that stand for themselves and are not being captured.
    pub(crate) fn check_own(&self) -> Result<()> {
        let Some(capture) = self.graph.capture.as_ref().map(lock) else { return Ok(()) };
        if capture.is_under_way() {
            return refuse(MODEL_CAPTURED, format!("model {} is being captured", self.id()));
        }
        if capture.is_sub() {
            return refuse(PARAM_INVALID, format!("model {} is a branch", self.id()));
        }
        if capture.stage != Stage::Ready {
            return refuse(MODEL_EXECUTE, format!("model {} did not become ready", self.id()));
        }
        Ok(())
    }

    /// Names it; the last name counts.
    ///
    /// # Errors
    /// 107000 for a name that is too long.
    pub fn set_name(&self, name: &str) -> Result<()> {
        if name.len() >= NAME_BYTES_MAX {
            let what = format!("a name of {} bytes, at most {}", name.len(), NAME_BYTES_MAX - 1);
            return refuse(PARAM_INVALID, what);
        }
        name.clone_into(&mut lock(&self.graph.build).name);
        Ok(())
    }

    /// Its name, empty until it is set.
    #[must_use]
    pub fn name(&self) -> String {
        lock(&self.graph.build).name.clone()
    }

    /// Its streams, the newest first; slaves are not shown. Without an array only their count;
    /// with one, as many as there are.
    ///
    /// # Errors
    /// 107039 when the array is too small; nothing is written then.
    pub fn streams(&self, array: Option<&mut [Option<Stream>]>) -> Result<usize> {
        let build = lock(&self.graph.build);
        let shown = || build.streams.iter().filter(|core| core.sq == core.shown);
        let count = shown().count();
        let Some(array) = array else { return Ok(count) };
        if array.len() < count {
            let what = format!("an array of {} for {count} streams", array.len());
            return refuse(INSUFFICIENT_INPUT_ARRAY, what);
        }
        for (place, core) in array.iter_mut().zip(shown()) {
            *place = Some(Stream { core: core.clone(), context: self.context.clone() });
        }
        Ok(count)
    }

    /// Gives all its streams, now and later, a priority.
    pub fn set_priority(&self, priority: Priority) {
        let mut build = lock(&self.graph.build);
        build.priority = Some(priority);
        build.streams.iter().for_each(|core| core.set_level(priority.level()));
    }

    /// Has something called when the model has been destroyed.
    pub fn on_destroy(&self, callback: impl FnOnce() + Send + 'static) -> CallbackId {
        let mut build = lock(&self.graph.build);
        let id = build.next_callback;
        build.next_callback += 1;
        build.callbacks.push((id, Callback(Box::new(callback))));
        CallbackId(id)
    }

    /// Takes a callback back.
    ///
    /// # Errors
    /// 107000 when there is none of this name.
    pub fn forget_callback(&self, id: CallbackId) -> Result<()> {
        let mut build = lock(&self.graph.build);
        let before = build.callbacks.len();
        build.callbacks.retain(|(known, _)| *known != id.0);
        if build.callbacks.len() == before {
            return refuse(PARAM_INVALID, "no such callback is registered");
        }
        Ok(())
    }
}
