//! From a command line to a device whose models run: the only part that may allocate, besides later
//! loads.
//!
//! Steps and what `SlotCtl::state` shows meanwhile: attach (100), message queues (102), threads and
//! load file (101). A failure after the message queues are there is answered with its text; any
//! failure is one log line and exit code 1.

use std::collections::BTreeMap;
use std::path::PathBuf;

use executor_core::error::Code;
use executor_core::owner::SlotId;
use executor_core::primitive::Ordering;
use executor_rt::argv::{BuiltinArgs, parse_builtin};
use executor_rt::control::MessageQueues;
use executor_rt::environment::Environment;
use executor_rt::log::Logger;
use executor_rt::node::{Failure, open, request, step};
use executor_rt::proto::deployer::DUMMY_QUEUE;
use executor_rt::proto::{CONTROL_BYTES_MAX, decode_load_file};
use executor_rt::server::{self, Dialect, MessageServer};
use executor_rt::waiter::Waiter;
use executor_rt::{interpose, report};
use npu::team::Team;
use sys::doorbell::EventFd;

use crate::cores::Cores;
use crate::device::{Device, Nothing, Place};
use crate::load;
use crate::model::Models;
use crate::place::{self, Desk, Life, STATE_FREE};

/// Longest wait for the grant of a message queue, milliseconds (executor-deployer §1.4).
const ATTACH_MS: u64 = 10_000;
/// Argument with the load file.
const LOAD_PATH: &str = "--load_path";
/// Argument with the number of threads that compute a run together.
const THREADS: &str = "--threads";
/// Argument with the number of models that compute at once.
const CORES: &str = "--cores";
/// Argument with what stands before every path.
const BASE_DIR: &str = "--base_dir";

/// See the module.
///
/// # Errors
/// [`Failure`], logged by the caller.
pub(crate) fn start(
    words: &[String],
    logger: &'static Logger,
) -> Result<(Device, Option<EventFd>), Failure> {
    let args = parse_builtin(words.iter().map(String::as_str));
    let args = args.map_err(|e| Failure::new(e.code(), e.to_string()))?;
    for word in &args.ignored {
        report::warn(logger, None, format_args!("argument {word:?} is no key=value: ignored"));
    }
    let env = Environment::attach(Dialect::BuiltIn)?;
    let mut device = bare(&env, &args, logger)?;
    device.node.ctl().state.store(step::QUEUES, Ordering::Release);
    open_control(&mut device, &args)?;
    device.node.ctl().state.store(step::LOAD, Ordering::Release);
    match finish(&mut device, &env, &args) {
        Ok(()) => Ok((device, env.bell)),
        Err(failure) => {
            say_failed(&mut device, &failure);
            Err(failure)
        }
    }
}

fn bare(env: &Environment, args: &BuiltinArgs, logger: &'static Logger) -> Result<Device, Failure> {
    Ok(Device {
        // The main thread ends the others, so it alone is woken.
        node: env.node(Nothing)?,
        queues: MessageQueues::new(MessageServer::new(Dialect::BuiltIn)),
        places: Vec::new(),
        handles: BTreeMap::new(),
        models: Models::default(),
        cores: cores(env, cores_of(args)?)?,
        team: None,
        base: args.options.get(BASE_DIR).cloned().unwrap_or_default(),
        logger,
        loggers: std::cell::RefCell::default(),
    })
}

fn open_control(device: &mut Device, args: &BuiltinArgs) -> Result<(), Failure> {
    let Device { node, queues, logger, .. } = device;
    if args.request_queue != DUMMY_QUEUE {
        let queue = args.request_queue;
        queues.requests = Some(open::consumer(node, queue, ATTACH_MS, "request queue", logger)?);
    }
    if args.response_queue != DUMMY_QUEUE {
        let (queue, what) = (args.response_queue, "response queue");
        queues.responses = Some(open::producer(node, queue, None, ATTACH_MS, what, logger)?);
    }
    queues.restock(&mut node.worker);
    Ok(())
}

/// Threads, load file, init response.
fn finish(device: &mut Device, env: &Environment, args: &BuiltinArgs) -> Result<(), Failure> {
    env.attached.populate_own().map_err(|e| Failure::new(e.code(), e.to_string()))?;
    device.team = team(args, device.logger)?;
    start_threads(device, env)?;
    if let Some(path) = args.options.get(LOAD_PATH) {
        load_file(device, path)?;
    }
    for place in device.places.iter().filter(|place| place.worker.is_some()) {
        let part = device.node.worker.memory.private(place.slot.0);
        if let Some(part) = part {
            part.ctl.state.store(STATE_FREE, Ordering::Release);
        }
    }
    let reply = device.queues.server.init(Ok(())).map_err(|f| Failure::new(f.code, f.text))?;
    device.reply(&reply).map_err(|code| Failure::new(code, "response queue"))?;
    let (models, places) = (device.handles.len(), device.places.len());
    let (id, cores) = (args.device_id, cores_of(args)?);
    let text = format_args!(
        "device {id} is ready: {models} models in {places} places, {cores} of them at once"
    );
    report::info(device.logger, None, text);
    device.node.publish();
    Ok(())
}

/// A number of 1 to 64 that an argument says.
fn number(args: &BuiltinArgs, name: &str) -> Result<Option<u32>, Failure> {
    let Some(word) = args.options.get(name) else { return Ok(None) };
    let number = word.parse().ok().filter(|asked| (1..=64).contains(asked));
    number.map(Some).ok_or_else(|| {
        Failure::new(Code::PARAM_INVALID, format!("{name}={word}: expected 1 to 64"))
    })
}

/// Cores of the device: as declared, else the processors that the process may use.
fn cores_of(args: &BuiltinArgs) -> Result<u32, Failure> {
    Ok(number(args, CORES)?.unwrap_or_else(processors))
}

fn processors() -> u32 {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    u32::try_from(processors).unwrap_or(u32::MAX)
}

fn waiter(env: &Environment, slot: SlotId) -> Result<Waiter<'static>, Failure> {
    let own = Waiter::new(&env.attached.group.memory, slot, 0);
    own.ok_or_else(|| Failure::new(Code::OVER_LIMIT, "the slot has no waiter"))
}

fn cores(env: &Environment, cores: u32) -> Result<&'static Cores, Failure> {
    let bells = env.attached.also.iter().map(|slot| waiter(env, *slot));
    Ok(Cores::new(cores, bells.collect::<Result<_, _>>()?))
}

/// The threads that compute runs together with a model's own: as many as were asked for, but no
/// more than one a core. They live as long as the process.
fn team(args: &BuiltinArgs, logger: &Logger) -> Result<Option<&'static Team>, Failure> {
    let Some(asked) = number(args, THREADS)? else { return Ok(None) };
    let cores = processors().min(cores_of(args)?);
    if asked > cores {
        let text = format_args!("{asked} threads asked for, {cores} cores: {cores} threads");
        report::warn(logger, None, text);
    }
    let threads = asked.min(cores);
    if threads == 1 {
        return Ok(None);
    }
    let team = Team::new(threads as usize, interpose::adopt_thread);
    let team = team.map_err(|e| Failure::new(Code::FAILED, format!("thread: {e}")))?;
    Ok(Some(Box::leak(Box::new(team))))
}

/// One thread for every further slot of the process.
fn start_threads(device: &mut Device, env: &Environment) -> Result<(), Failure> {
    for slot in &env.attached.also {
        let worker = env.attached.worker_of(*slot, 0, env.generation);
        let worker = worker.map_err(|e| Failure::new(e.code(), e.to_string()))?;
        let life = Life::new(worker.private.ctl);
        let desk = Desk::new(waiter(env, *slot)?, device.node.waiter, life);
        let thread = std::thread::Builder::new().name(format!("model-{}", slot.0));
        let thread = thread.spawn(move || place::serve(desk));
        let thread = thread.map_err(|e| Failure::new(Code::FAILED, format!("thread: {e}")))?;
        device.places.push(Place { slot: *slot, desk, worker: Some(worker), thread: Some(thread) });
    }
    // What a thread allocates when it starts belongs to setup.
    for place in 0..device.places.len() {
        device.answer(place).map_err(|code| Failure::new(code, "a thread did not start"))?;
    }
    Ok(())
}

fn load_file(device: &mut Device, path: &str) -> Result<(), Failure> {
    let path = PathBuf::from(format!("{}{path}", device.base));
    let bytes = request::read(&path, CONTROL_BYTES_MAX, Code::PARAM_INVALID)?;
    let batch = decode_load_file(&bytes)
        .map_err(|e| Failure::new(e.code(), format!("{}: {e}", path.display())))?;
    request::close_inherited(&path);
    for request in &batch.models {
        device.load(request).map_err(|failure| match failure {
            Failure::Code(code, text) => {
                Failure::Code(code, format!("{}: {text}", load::name(request)))
            }
            Failure::Clean => Failure::Clean,
        })?;
    }
    Ok(())
}

/// The init response of a start that failed.
fn say_failed(device: &mut Device, failure: &Failure) {
    let Failure::Code(code, text) = failure else { return };
    device.node.ctl().last_code.store(code.0, Ordering::Release);
    let sent = match device.queues.server.init(Err(server::Failure::new(*code, text.as_str()))) {
        Ok(reply) => device.reply(&reply),
        Err(_) => return,
    };
    if let Err(code) = sent {
        report::error(device.logger, None, format_args!("no init response: {code}"));
    }
}
