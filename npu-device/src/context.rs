//! Contexts: every stream, model and label belongs to one, and is used with others of it only.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use crate::capture::{Active, forget_captures};
use crate::codes::{
    FEATURE_NOT_SUPPORT, MODEL_ABORT_NORMAL, PARAM_INVALID, Result, STREAM_ABORT, refuse,
};
use crate::device::{Device, Inner};
use crate::event::{Event, EventFlags};
use crate::kernel::{Function, Kernel};
use crate::label::{Label, LabelList};
use crate::lock::lock;
use crate::memory::Memory;
use crate::model::{Graph, Model};
use crate::notify::Notify;
use crate::stream::{Core, Stream, StreamFlags};

static NEXT: AtomicU32 = AtomicU32::new(1);

/// A context of a device.
#[derive(Clone, Debug)]
pub struct Context {
    inner: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    id: u32,
    device: Device,
    default: Arc<Core>,
    /// What tells the device of models; no task of a user stands in it.
    control: Arc<Core>,
    streams: Mutex<Vec<Arc<Core>>>,
    models: Mutex<Vec<Arc<Graph>>>,
    closed: AtomicBool,
    /// Captures under way; held while one begins or ends.
    captures: Mutex<Vec<Active>>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        let device = self.device.inner();
        forget_captures(&lock(&self.streams), &mut lock(&self.captures));
        for core in lock(&self.streams).iter().chain([&self.default, &self.control]) {
            device.sched.interrupt(core);
            device.streams.remove_named(core.word());
        }
        for graph in lock(&self.models).iter() {
            graph.vanish(device);
        }
    }
}

impl Context {
    /// A context with its default stream.
    ///
    /// # Errors
    /// 207008 when the device has no two streams left.
    pub fn new(device: &Device) -> Result<Self> {
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let inner = device.inner();
        let default = inner.new_stream(StreamFlags::default(), id, None)?;
        let control = inner.new_stream(StreamFlags::default(), id, None).inspect_err(|_| {
            inner.streams.remove_named(default.word());
        })?;
        control.set_level(0);
        let (device, captures) = (device.clone(), Mutex::default());
        let (streams, models) = (Mutex::default(), Mutex::default());
        Ok(Self {
            inner: Arc::new(Shared {
                id,
                device,
                default,
                control,
                streams,
                models,
                closed: AtomicBool::new(false),
                captures,
            }),
        })
    }

    pub(crate) fn id(&self) -> u32 {
        self.inner.id
    }

    pub(crate) fn device(&self) -> &Inner {
        self.inner.device.inner()
    }

    /// The stream of [`Model::execute`], and of whoever needs none of its own.
    #[must_use]
    pub fn default_stream(&self) -> Stream {
        Stream { core: self.inner.default.clone(), context: self.clone() }
    }

    pub(crate) fn control(&self) -> Stream {
        Stream { core: self.inner.control.clone(), context: self.clone() }
    }

    pub(crate) fn is_default(&self, core: &Arc<Core>) -> bool {
        Arc::ptr_eq(core, &self.inner.default)
    }

    /// A stream.
    ///
    /// # Errors
    /// 107000 for unknown flags, 207000 for those that are known and not offered, 207008 when the
    /// device has none left.
    pub fn stream(&self, flags: StreamFlags) -> Result<Stream> {
        const KNOWN: u32 = 0x3F;
        if flags.0 & !KNOWN != 0 {
            return refuse(PARAM_INVALID, format!("stream flags {:#x} are not known", flags.0));
        }
        let offered = StreamFlags::PERSISTENT | StreamFlags::CPU_SCHEDULE | StreamFlags::HINTS;
        if flags.0 & !offered != 0 {
            return refuse(FEATURE_NOT_SUPPORT, "streams of the device only are not offered");
        }
        let core = self.device().new_stream(flags, self.id(), None)?;
        lock(&self.inner.streams).push(core.clone());
        Ok(Stream { core, context: self.clone() })
    }

    /// Ends it, whoever still has a handle of it or waits in it: its runs are aborted, captured
    /// models included, its captures forgotten, its tasks dropped. Who waits
    /// gets 107023; streams take no tasks any more.
    pub fn close(&self) {
        if self.inner.closed.swap(true, Ordering::AcqRel) {
            return;
        }
        let (device, own) = (self.device(), &self.inner);
        let mut streams = lock(&own.streams).clone();
        streams.push(own.default.clone());
        forget_captures(&streams, &mut self.captures());
        Core::close_all(&streams, device);
        for graph in lock(&own.models).clone() {
            graph.fail(device, MODEL_ABORT_NORMAL);
        }
        let events = device.events.all();
        for marks in events.iter().filter(|marks| marks.is_of(self)) {
            marks.close(&device.sched, STREAM_ABORT);
        }
    }

    /// Whether it was closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.inner.closed.load(Ordering::Acquire)
    }

    pub(crate) fn forget_stream(&self, core: &Arc<Core>) {
        lock(&self.inner.streams).retain(|other| !Arc::ptr_eq(other, core));
        self.device().streams.remove_named(core.word());
    }

    /// A notify.
    ///
    /// # Errors
    /// 207009 when the device has none left.
    pub fn notify(&self) -> Result<Notify> {
        Notify::create(self)
    }

    /// An event.
    ///
    /// # Errors
    /// 107000 for unknown flags, 207005 when the device has none left.
    pub fn event(&self, flags: EventFlags) -> Result<Event> {
        Event::create(self, flags)
    }

    /// A label, of a model or (without one) of the device.
    ///
    /// # Errors
    /// 507000 when none is left or the model has ended; 107004 for a model of another context.
    pub fn label(&self, model: Option<&Model>) -> Result<Label> {
        Label::create(self, model)
    }

    /// The labels of a switch, before any of them is set.
    ///
    /// # Errors
    /// 107000 without labels; 507000 when one is in a list already.
    pub fn label_list(&self, labels: &[Label]) -> Result<LabelList> {
        LabelList::create(self, labels)
    }

    /// Memory of the device, zeroed.
    ///
    /// # Errors
    /// 107000 for a size of 0 or above 4 GiB; 207001 when there is no more.
    pub fn allocate(&self, bytes: usize) -> Result<Memory> {
        Memory::allocate(self, bytes)
    }

    /// Registers a function that streams can run.
    ///
    /// # Errors
    /// 207005 when the device has no place left.
    pub fn register(&self, name: &str, kernel: Arc<dyn Kernel>) -> Result<Function> {
        Function::register(self, name, kernel)
    }

    /// Begins a model.
    ///
    /// # Errors
    /// 207010 when the device has none left.
    pub fn build_begin(&self) -> Result<Model> {
        let model = Model::build_begin(self)?;
        self.keep_model(&model.graph);
        Ok(model)
    }

    pub(crate) fn keep_model(&self, graph: &Arc<Graph>) {
        lock(&self.inner.models).push(graph.clone());
    }

    pub(crate) fn captures(&self) -> MutexGuard<'_, Vec<Active>> {
        lock(&self.inner.captures)
    }

    /// Waits until all its streams are done with what was submitted so far.
    ///
    /// # Errors
    /// 107027 while a stream of it is captured, and all its captures are invalid then; 507046 after
    /// the timeout of a stream; the code of a task that failed.
    pub fn synchronize(&self, timeout: Option<Duration>) -> Result<()> {
        let cores = lock(&self.inner.streams).clone();
        let own = std::iter::once(self.inner.default.clone());
        let streams: Vec<Stream> =
            own.chain(cores).map(|core| Stream { core, context: self.clone() }).collect();
        let refused = streams.iter().map(Stream::refuse_in_capture).fold(Ok(()), Result::and);
        refused.and_then(|()| streams.iter().try_for_each(|stream| stream.synchronize(timeout)))
    }

    /// Copies into memory of the device, at once.
    ///
    /// # Errors
    /// 107000 outside the memory; 107030 when a capture forbids it to this thread.
    pub fn copy_in(&self, to: (&Memory, u32), bytes: &[u8]) -> Result<()> {
        self.check_at_once("a copy at once")?;
        to.0.put(to.1, bytes)
    }

    /// Copies out of memory of the device, at once.
    ///
    /// # Errors
    /// 107000 outside the memory; 107030 when a capture forbids it to this thread.
    pub fn copy_out(&self, from: (&Memory, u32), bytes: &mut [u8]) -> Result<()> {
        self.check_at_once("a copy at once")?;
        from.0.get(from.1, bytes)
    }

    /// Fills memory of the device, at once.
    ///
    /// # Errors
    /// 107000 outside the memory; 107030 when a capture forbids it to this thread.
    pub fn fill(&self, to: (&Memory, u32), value: u8, bytes: usize) -> Result<()> {
        self.check_at_once("a fill at once")?;
        to.0.check(to.1, bytes)?;
        let begin = to.1 as usize;
        to.0.write(|all| all[begin..begin + bytes].fill(value));
        Ok(())
    }

    pub(crate) fn forget_model(&self, graph: &Arc<Graph>) {
        lock(&self.inner.models).retain(|other| !Arc::ptr_eq(other, graph));
    }

    /// Models that have not been destroyed.
    #[must_use]
    pub fn model_count(&self) -> usize {
        lock(&self.inner.models).len()
    }
}
