//! What handles stand for: numbered objects, the device, the context of each thread.
//!
//! Every object has an owner: a stream its context, a branch the model it is of. With the owner
//! all that it owns goes, so no handle outlives what it needs.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashMap};
use std::ffi::{CString, c_void};
use std::num::NonZeroUsize;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread;

use npu::aligned::AlignedBytes;
use npu_device::codes::{INTERNAL_ERROR, PARAM_INVALID};
use npu_device::{
    CallbackId, Code, CondHandle, Config, Context, Device, Error, Event, Fault, Function, Label,
    LabelList, Model, Notify, Result, Stream, TaskGroup, TaskInfo,
};

use crate::desc::{Buffer, Dataset, Desc};
use crate::program::Program;
use crate::raw::{Callback, Process, forked, null};

/// A null pointer, or something else that only this layer refuses.
pub(crate) const NULL: Code = Code(100_000);
/// `aclInit` was not called.
const UNINITIALIZED: Code = Code(100_001);
/// `aclInit` was called before.
const REPEAT_INITIALIZE: Code = Code(100_002);
/// No such device.
pub(crate) const INVALID_DEVICE: Code = Code(107_001);
/// No context is current.
pub(crate) const CONTEXT_NULL: Code = Code(107_002);

/// A handle as C sees it: a pointer that points nowhere.
pub(crate) type Handle = *mut c_void;

/// A context and the function of it that calls functions of C.
#[derive(Clone)]
pub(crate) struct Home {
    pub(crate) context: Context,
    pub(crate) caller: Function,
}

/// Something with a handle.
#[derive(Clone)]
pub(crate) enum Object {
    Context(Home),
    Stream(Stream),
    Event(Event),
    Notify(Notify),
    Label(Label),
    Labels(LabelList),
    Model(Model),
    Group(TaskGroup),
    /// With the address of its cell.
    Cond(CondHandle, usize),
    Task(TaskInfo),
    Program(Arc<Program>),
    Buffer(Buffer),
    Dataset(Dataset),
    Desc(Desc),
}

impl Object {
    /// What the device keeps of it goes; a context takes its streams and models along by itself.
    fn release(self) {
        match self {
            Self::Context(home) => home.caller.unregister(),
            Self::Event(event) => event.destroy(),
            Self::Notify(notify) => notify.destroy(),
            Self::Labels(list) => list.destroy(),
            Self::Program(program) => program.release(),
            Self::Model(model) => {
                if model.is_running() {
                    // One that was captured is not aborted; it has its time to end.
                    drop(model.abort());
                }
                // Nothing to do for one that was destroyed, or that ends with its model.
                drop(model.destroy());
            }
            // One that was destroyed before its model says so, and nothing is left of it.
            Self::Label(label) => drop(label.destroy()),
            _ => {}
        }
    }
}

struct Entry {
    object: Object,
    owner: usize,
}

#[derive(Default)]
pub(crate) struct State {
    initialized: bool,
    device: Option<Device>,
    /// The context that `aclrtSetDevice` makes current.
    primary: usize,
    entries: HashMap<usize, Entry>,
    /// Owners with what they own.
    owned: BTreeSet<(usize, usize)>,
    /// Memory that was allocated, by address; whether it is the host's.
    pub(crate) memory: HashMap<usize, (AlignedBytes, bool)>,
    /// Callbacks of models: model, function, name.
    pub(crate) callbacks: Vec<(usize, usize, CallbackId)>,
    /// Addresses that parameters of tasks were given as, by task.
    addresses: HashMap<usize, Box<[usize]>>,
    next: usize,
}

static STATE: LazyLock<Mutex<State>> = LazyLock::new(Mutex::default);

thread_local! {
    static CURRENT: Cell<usize> = const { Cell::new(0) };
    static LAST: RefCell<CString> = RefCell::new(CString::default());
}

pub(crate) fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps what the last refused call of this thread said.
pub(crate) fn remember(error: &Error) {
    let name = match error.code() {
        NULL => "INVALID_PARAM",
        UNINITIALIZED => "UNINITIALIZE",
        REPEAT_INITIALIZE => "REPEAT_INITIALIZE",
        INVALID_DEVICE => "INVALID_DEVICEID",
        CONTEXT_NULL => "CONTEXT_NULL",
        code => npu_device::codes::name(code),
    };
    let text = format!("{} ({name} {})", error.reason(), error.code().0).replace('\0', " ");
    // A thread that ends calls still, from destructors of its own; then nothing is kept.
    let _gone = LAST.try_with(|last| *last.borrow_mut() = CString::new(text).unwrap_or_default());
}

/// What the last refused call of this thread said, until its next one.
pub(crate) fn last() -> *const std::ffi::c_char {
    if forked::is_child() {
        return c"this process was forked from one that used a device: it has none".as_ptr();
    }
    LAST.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

pub(crate) fn handle(number: usize) -> Handle {
    std::ptr::without_provenance_mut(number)
}

/// Gives an object a handle. Numbers are not used again.
pub(crate) fn keep(object: Object, owner: usize) -> Handle {
    keep_in(&mut state(), object, owner)
}

fn keep_in(state: &mut State, object: Object, owner: usize) -> Handle {
    state.next += 1;
    let number = state.next << 4;
    state.entries.insert(number, Entry { object, owner });
    state.owned.insert((owner, number));
    handle(number)
}

/// The handle of an object, a new one if it has none.
pub(crate) fn keep_once(same: impl Fn(&Object) -> bool, object: Object, owner: usize) -> Handle {
    let mut state = state();
    let found = state.entries.iter().find(|(_, entry)| same(&entry.object));
    match found {
        Some((number, _)) => handle(*number),
        None => keep_in(&mut state, object, owner),
    }
}

/// The object of a handle, and its owner.
pub(crate) fn find<T>(
    handle: Handle,
    what: &str,
    is: impl FnOnce(&Object) -> Option<T>,
) -> Result<(T, usize)> {
    if handle.is_null() {
        return Err(null(what));
    }
    let state = state();
    let entry = state.entries.get(&handle.addr());
    let found = entry.and_then(|entry| Some((is(&entry.object)?, entry.owner)));
    found.ok_or_else(|| {
        Error::new(PARAM_INVALID, format!("no such {what}, or it was destroyed: {handle:p}"))
    })
}

/// The first object that has something to give, by number.
pub(crate) fn search<T>(give: impl Fn(&Object) -> Option<T>) -> Option<(usize, T)> {
    let state = state();
    state.entries.iter().find_map(|(number, entry)| Some((*number, give(&entry.object)?)))
}

/// Keeps addresses for whoever asked for a task's parameters: until they are asked for again, or
/// the task ends.
pub(crate) fn keep_addresses(task: Handle, addresses: Box<[usize]>) -> *const usize {
    let mut state = state();
    let kept = state.addresses.entry(task.addr()).or_default();
    // What was given before is good as long as it says the same.
    if *kept != addresses {
        *kept = addresses;
    }
    kept.as_ptr()
}

/// Changes the object of a handle.
pub(crate) fn change<T>(
    handle: Handle,
    what: &str,
    change: impl FnOnce(&mut Object) -> Option<Result<T>>,
) -> Result<T> {
    if handle.is_null() {
        return Err(null(what));
    }
    let mut state = state();
    let changed = state.entries.get_mut(&handle.addr()).and_then(|entry| change(&mut entry.object));
    changed.unwrap_or_else(|| {
        Err(Error::new(PARAM_INVALID, format!("no such {what}, or it was destroyed: {handle:p}")))
    })
}

/// Ends a handle, those of what the object owns, and what the device keeps of them.
pub(crate) fn forget(handle: Handle) {
    forget_all(state(), vec![handle.addr()]);
}

/// Ends the handles of the tasks of streams that are no longer of their model.
pub(crate) fn forget_tasks(streams: &[Stream]) {
    let state = state();
    let of = |entry: &Entry| match &entry.object {
        Object::Stream(stream) => streams.contains(stream),
        _ => false,
    };
    let streams: Vec<usize> =
        state.entries.iter().filter(|(_, entry)| of(entry)).map(|(number, _)| *number).collect();
    let is_task = |entry: &Entry| matches!(entry.object, Object::Task(_));
    let tasks = state.entries.iter().filter(|(_, entry)| is_task(entry));
    let numbers = tasks.filter(|(_, entry)| streams.contains(&entry.owner));
    let numbers = numbers.map(|(number, _)| *number).collect();
    forget_all(state, numbers);
}

/// Ends the handles of objects for which something holds, as [`forget`].
pub(crate) fn forget_if(is: impl Fn(&Object) -> bool) {
    let state = state();
    let found = state.entries.iter().filter(|(_, entry)| is(&entry.object));
    let numbers = found.map(|(number, _)| *number).collect();
    forget_all(state, numbers);
}

fn forget_all(mut state: MutexGuard<'_, State>, mut open: Vec<usize>) {
    let mut gone = Vec::new();
    while let Some(number) = open.pop() {
        open.extend(state.owned.range((number, 0)..=(number, usize::MAX)).map(|(_, own)| *own));
        if let Some(entry) = state.entries.remove(&number) {
            state.owned.remove(&(entry.owner, number));
            state.addresses.remove(&number);
            if matches!(entry.object, Object::Model(_)) {
                state.callbacks.retain(|(model, ..)| *model != number);
            }
            gone.push(entry);
        }
    }
    drop(state);
    // Who waits in a context is told first, and its runs are over.
    for entry in &gone {
        if let Object::Context(home) = &entry.object {
            home.context.close();
        }
    }
    // Under no lock: what ends may call back. What is owned ends first.
    gone.into_iter().rev().for_each(|entry| entry.object.release());
}

macro_rules! finders {
    ($($name:ident $kind:ident $type:ty, $what:literal;)+) => {$(
        /// The object of a handle of this kind.
        pub(crate) fn $name(handle: Handle) -> Result<$type> {
            let found = find(handle, $what, |object| match object {
                Object::$kind(found) => Some(found.clone()),
                _ => None,
            });
            found.map(|(found, _)| found)
        }
    )+};
}

finders! {
    home_of Context Home, "context";
    event Event Event, "event";
    notify Notify Notify, "notify";
    label Label Label, "label";
    labels Labels LabelList, "label list";
    model Model Model, "model";
    group Group TaskGroup, "task group";
    buffer Buffer Buffer, "data buffer";
    dataset Dataset Dataset, "data set";
    desc Desc Desc, "model description";
}

/// The stream of a handle and what owns it; of null, the current context's default stream.
pub(crate) fn stream_and_owner(handle: Handle) -> Result<(Stream, usize)> {
    if handle.is_null() {
        return Ok((current()?.context.default_stream(), CURRENT.get()));
    }
    find(handle, "stream", |object| match object {
        Object::Stream(stream) => Some(stream.clone()),
        _ => None,
    })
}

/// A task, and the stream that it is of.
pub(crate) fn task(own: Handle) -> Result<(TaskInfo, Stream)> {
    let (info, stream) = find(own, "task", |object| match object {
        Object::Task(info) => Some(*info),
        _ => None,
    })?;
    Ok((info, named_stream(handle(stream))?))
}

/// The stream of a handle; of null, the current context's default stream.
pub(crate) fn stream(handle: Handle) -> Result<Stream> {
    stream_and_owner(handle).map(|(stream, _)| stream)
}

/// The stream of a handle that must be one.
pub(crate) fn named_stream(handle: Handle) -> Result<Stream> {
    if handle.is_null() { Err(null("a stream")) } else { stream(handle) }
}

/// The handle of a stream: the one it was made with, if it has one.
pub(crate) fn stream_handle(stream: &Stream, owner: usize) -> Handle {
    let same = |object: &Object| match object {
        Object::Stream(known) => known == stream,
        _ => false,
    };
    keep_once(same, Object::Stream(stream.clone()), owner)
}

/// The handle of a model.
pub(crate) fn model_handle(model: &Model, owner: usize) -> Handle {
    let same = |object: &Object| match object {
        Object::Model(known) => known == model,
        _ => false,
    };
    keep_once(same, Object::Model(model.clone()), owner)
}

/// This thread's context.
pub(crate) fn current() -> Result<Home> {
    let none = || {
        Error::new(CONTEXT_NULL, "no context is current: aclrtSetDevice or a new one comes first")
    };
    match current_number() {
        0 => Err(none()),
        number => home_of(handle(number)).map_err(|_| none()),
    }
}

/// The number of this thread's context, 0 without one.
pub(crate) fn current_number() -> usize {
    CURRENT.get()
}

pub(crate) fn make_current(number: usize) {
    CURRENT.set(number);
}

/// `aclInit`.
pub(crate) fn initialize() -> Result<()> {
    if std::mem::replace(&mut state().initialized, true) {
        return Err(Error::new(REPEAT_INITIALIZE, "aclInit was called before"));
    }
    Ok(())
}

fn uninitialized() -> Error {
    Error::new(UNINITIALIZED, "aclInit comes first")
}

/// The device, made when it is first asked for: a core for each processor.
fn device() -> Result<Device> {
    let mut state = state();
    if !state.initialized {
        return Err(uninitialized());
    }
    if let Some(device) = &state.device {
        return Ok(device.clone());
    }
    forked::watch();
    let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let device = Device::with_raw_memory(Config { cores, ..Config::default() }, Arc::new(Process))?;
    state.device = Some(device.clone());
    Ok(device)
}

/// A new context.
pub(crate) fn new_context() -> Result<Handle> {
    let context = Context::new(&device()?)?;
    let call = |call: &npu_device::Call| match Callback::of_words(&call.args) {
        Some(callback) => {
            callback.call();
            Ok(())
        }
        None => Err(Fault::Code(INTERNAL_ERROR)),
    };
    let caller = context.register("function of the host", Arc::new(call))?;
    Ok(keep(Object::Context(Home { context, caller }), 0))
}

/// The context of `aclrtSetDevice`.
pub(crate) fn primary() -> Result<usize> {
    // One at a time: whoever comes second finds what the first one made.
    static MAKING: Mutex<()> = Mutex::new(());
    let _alone = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
    let known = state().primary;
    if known != 0 && home_of(handle(known)).is_ok() {
        return Ok(known);
    }
    let number = new_context()?.addr();
    state().primary = number;
    Ok(number)
}

/// `aclrtResetDevice`: the context of `aclrtSetDevice` goes, with all that is of it.
pub(crate) fn drop_primary() {
    let number = std::mem::take(&mut state().primary);
    if number != 0 {
        forget(handle(number));
    }
}

/// `aclFinalize`: everything goes.
pub(crate) fn finalize() -> Result<()> {
    if !std::mem::take(&mut state().initialized) {
        return Err(uninitialized());
    }
    make_current(0);
    forget_if(|_| true);
    let mut state = state();
    state.primary = 0;
    let (device, memory) = (state.device.take(), std::mem::take(&mut state.memory));
    drop(state);
    // The device before the memory: what still runs may use it, and other threads of the caller's
    // may be in calls that have a part of the device.
    if let Some(device) = device {
        device.shut_down();
    }
    drop(memory);
    Ok(())
}

/// The handles of a stream's tasks: those they have already, and new ones.
pub(crate) fn tasks_of(stream: usize, tasks: &[TaskInfo]) -> Vec<Handle> {
    let mut state = state();
    let known = state.entries.iter().filter_map(|(number, entry)| match &entry.object {
        Object::Task(info) if entry.owner == stream => Some((info.sequence, *number)),
        _ => None,
    });
    let known: HashMap<u32, usize> = known.collect();
    let mut handles = Vec::new();
    for info in tasks {
        let object = Object::Task(*info);
        handles.push(match known.get(&info.sequence) {
            Some(number) => {
                state.entries.insert(*number, Entry { object, owner: stream });
                handle(*number)
            }
            None => keep_in(&mut state, object, stream),
        });
    }
    handles
}
