//! From a command line to a processor that can run: the only part that may allocate.
//!
//! Steps and what `SlotCtl::state` shows meanwhile: attach (100), message queues (102), files,
//! library and ports (101), `init` of the function (1). A failure after the message queues are
//! there is answered with "Execute init failed."; any failure is one log line and the exit code of
//! its code.

mod attrs;
mod environment;
mod model;
mod ports;

use std::ffi::OsString;
use std::path::Path;

use executor_core::abi::control::SlotCtl;
use executor_core::error::Code;
use executor_core::primitive::Ordering;
use executor_rt::argv::{UdfArgs, parse_udf};
use executor_rt::interpose;
use executor_rt::log::{Level, Logger};
use executor_rt::server::{self, Dialect, MessageServer};
use executor_rt::waiter::Waiter;
use flow_func::abi::{ParamsV1, StrV1};
use flow_func::codes::INIT_AGAIN;
use sys::clock::MonoTime;
use sys::doorbell::EventFd;
use sys::signal::Signal;

use crate::adopt::{self, Resume};
use crate::call::{Function, Instance};
use crate::context::Context;
use crate::control::Control;
use crate::fault;
use crate::handles::Handles;
use crate::node::{End, Node, Options, TERMINATED, WRITE_REFUSED};
use crate::processor::Processor;
use crate::reader::Reader;
use crate::report;
use crate::state::{Event, State};
use crate::writer::Writer;

use environment::Environment;
use model::Model;

/// Longest wait for the grant of a queue, milliseconds (udf §3.3).
const ATTACH_MS: u64 = 10_000;
/// Wait between two calls of an `init` that asked for another one, milliseconds.
const INIT_TICK_MS: u64 = 10;
/// `SlotCtl::state` while attaching.
const STEP_ATTACH: u32 = 100;
/// `SlotCtl::state` while files, library and ports are opened.
const STEP_LOAD: u32 = 101;
/// `SlotCtl::state` while the message queues are waited for.
const STEP_QUEUES: u32 = 102;

/// Why there is no processor.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Asked to end before it began.
    Clean,
    /// What, where, found and expected.
    Code(Code, String),
}

impl Failure {
    /// A failure with its text.
    pub(crate) fn new(code: Code, text: impl Into<String>) -> Failure {
        Failure::Code(code, text.into())
    }
}

impl From<End> for Failure {
    fn from(end: End) -> Failure {
        match end {
            End::Clean => Failure::Clean,
            End::Code(code) => Failure::new(code, "a control message ended the start-up"),
        }
    }
}

/// What main runs.
#[derive(Debug)]
pub(crate) struct Ready {
    /// The loop.
    pub(crate) processor: Processor,
    /// Where it begins.
    pub(crate) resume: Resume,
    /// Rung once it is ready.
    pub(crate) bell: Option<EventFd>,
}

/// The log of this process: named after the node, level from `ASCEND_GLOBAL_LOG_LEVEL`.
pub(crate) fn logger() -> &'static Logger {
    let node = std::env::var(executor_rt::plan::ENV_NODE);
    let level = std::env::var("ASCEND_GLOBAL_LOG_LEVEL").ok().and_then(|text| text.parse().ok());
    let level = level.and_then(Level::from_number).unwrap_or(Level::Info);
    Box::leak(Box::new(Logger::new(node.as_deref().unwrap_or("udf-executor"), level)))
}

/// See the module.
///
/// # Errors
/// [`Failure`], logged by the caller.
pub(crate) fn start(
    words: impl IntoIterator<Item = OsString>,
    logger: &'static Logger,
) -> Result<Ready, Failure> {
    let args = parse_udf(words).map_err(|e| Failure::new(e.code(), e.to_string()))?;
    if args.npu_sched {
        let text = "argument --npu_sched=1: NPU-scheduled functions are not supported, expected 0";
        return Err(Failure::new(Code::FLOW_FUNC_NOT_SUPPORT, text));
    }
    let system = |e: sys::SysError| Failure::new(Code::FLOW_FUNC_FAILED, e.to_string());
    sys::process::limit_core_dumps().map_err(system)?;
    // EPERM: it leads a session, and so a group, already.
    let _leads = sys::process::own_group();
    sys::signal::install_flag(Signal::TERM, &TERMINATED).map_err(system)?;
    // Not ignored but handled: programs that the function executes keep the default.
    sys::signal::install_flag(Signal::XFSZ, &WRITE_REFUSED).map_err(system)?;
    let env = Environment::attach()?;
    let ctl = env.worker.private.ctl;
    ctl.pid.store(sys::process::pid(), Ordering::Relaxed);
    ctl.generation.store(env.generation, Ordering::Relaxed);
    ctl.state.store(STEP_ATTACH, Ordering::Release);
    let mut node = bare_node(&env)?;
    ctl.state.store(STEP_QUEUES, Ordering::Release);
    open_control(&mut node, &args, logger)?;
    ctl.state.store(STEP_LOAD, Ordering::Release);
    let model = match model::load(&args, logger) {
        Ok(model) => model,
        Err(failure) => return Err(init_failed(&mut node, logger, failure)),
    };
    let opened = ports::open(&mut node, &model, logger).and_then(|()| {
        Function::load(Path::new(&model.library), &model.function)
            .map_err(|text| Failure::new(Code::FLOW_FUNC_FAILED, text))
    });
    match opened {
        Ok(function) => init(node, function, &model, env, logger),
        Err(failure) => Err(init_failed(&mut node, logger, failure)),
    }
}

/// A node without ports.
fn bare_node(env: &Environment) -> Result<Node, Failure> {
    let memory = env.attached.group.memory;
    let worker = env.attached.worker(0, env.generation);
    let worker = worker.map_err(|e| Failure::new(e.code(), e.to_string()))?;
    let waiter = Waiter::new(&memory, worker.slot(), 0);
    let mut waiter =
        waiter.ok_or_else(|| Failure::new(Code::OVER_LIMIT, "the slot has no waiter"))?;
    sys::signal::wake_on(Signal::TERM, &waiter.ctl().sequence)
        .map_err(|e| Failure::new(Code::FLOW_FUNC_FAILED, e.to_string()))?;
    waiter.nudged = env.bell.is_some();
    Ok(Node {
        group: env.attached.group,
        worker,
        waiter,
        reader: Reader { inputs: Box::default() },
        writer: Writer::new(Box::default(), Box::default()),
        handles: Handles::new(env.entries()),
        control: Control {
            server: MessageServer::new(Dialect::Udf),
            requests: None,
            responses: None,
            spare: None,
        },
        options: Options::default(),
        copies: Box::default(),
        trans_id: 0,
        step: 0,
        ending: None,
    })
}

fn open_control(node: &mut Node, args: &UdfArgs, logger: &Logger) -> Result<(), Failure> {
    if let Some(queue) = args.request_queue {
        node.control.requests = Some(ports::consumer(node, queue, "request queue", logger)?);
    }
    if let Some(queue) = args.response_queue {
        node.control.responses =
            Some(ports::producer(node, queue, None, "response queue", logger)?);
    }
    let Node { control, worker, .. } = node;
    control.restock(worker);
    Ok(())
}

/// Answers "Execute init failed." and passes the failure on.
fn init_failed(node: &mut Node, logger: &Logger, failure: Failure) -> Failure {
    let Failure::Code(code, text) = &failure else { return failure };
    node.ctl().last_code.store(code.0, Ordering::Release);
    let Node { control, worker, .. } = node;
    match control.server.init(Err(server::Failure::new(*code, text.as_str()))) {
        Ok(reply) => {
            if let Err(code) = control.send(worker, &reply) {
                report::error(logger, None, format_args!("no init response: {code}"));
            }
        }
        Err(other) => report::error(logger, None, format_args!("{}", other.text)),
    }
    failure
}

/// Makes the context and the instance, runs `init`, sends the init response, takes over what is
/// left.
fn init(
    mut node: Node,
    function: Function,
    model: &Model,
    env: Environment,
    logger: &'static Logger,
) -> Result<Ready, Failure> {
    let inputs = node.reader.inputs.len();
    let ctl = node.ctl();
    node.options = model.options;
    if model.options.copy_inputs {
        node.copies = (0..inputs).map(|_| None).collect();
    }
    let context = Context {
        params: params(model, &node),
        attrs: attrs::convert(&model.attrs),
        logger,
        log_id: core::cell::Cell::new(None),
        node: core::cell::RefCell::new(node),
    };
    let context: &'static Context = Box::leak(Box::new(context));
    let fail = |failure| init_failed(&mut context.node.borrow_mut(), logger, failure);
    let api = Box::leak(Box::new(crate::api::table(logger)));
    let instance = function
        .create(api, context, inputs)
        .map_err(|text| fail(Failure::new(Code::FLOW_FUNC_FAILED, text)))?;
    let instance = call_init(instance, context, model).map_err(fail)?;
    let resume = finish(context, model, &env, ctl).map_err(fail)?;
    Ok(Ready { processor: Processor::new(instance, context), resume, bell: env.bell })
}

fn call_init(
    mut instance: Instance,
    context: &'static Context,
    model: &Model,
) -> Result<Instance, Failure> {
    let ctl = context.node.borrow().ctl();
    ctl.state.store(State::Init as u32, Ordering::Release);
    let mut state = State::Init.after(Event::Loaded).unwrap_or(State::InitFlowFunc);
    let limit = match model.init_timeout_ms {
        0 => MonoTime::MAX,
        ms => MonoTime::now().add_ms(ms),
    };
    loop {
        ctl.state.store(state as u32, Ordering::Release);
        let code = instance.init();
        let event = match code {
            0 => Event::InitDone,
            INIT_AGAIN => Event::InitAgain,
            _ => Event::InitFailed,
        };
        state = state.after(event).unwrap_or(State::ProcError);
        match event {
            Event::InitDone => return Ok(instance),
            Event::InitFailed => {
                let code = Code::from_ret_code(code);
                return Err(Failure::new(code, format!("init of {} failed", model.function)));
            }
            _ => {}
        }
        let now = MonoTime::now();
        if limit.is_past(now) {
            let (name, ms) = (&model.function, model.init_timeout_ms);
            let text = format!("init of {name} asks to be called again since {ms} ms, its limit");
            return Err(Failure::new(Code::FLOW_FUNC_TIME_OUT, text));
        }
        let mut node = context.node.borrow_mut();
        node.park(Some(limit.min(now.add_ms(INIT_TICK_MS))), false, |_| false);
        if let Some(end) = node.serve(context.logger) {
            return Err(end.into());
        }
    }
}

/// The last steps before seal.
fn finish(
    context: &'static Context,
    model: &Model,
    env: &Environment,
    ctl: &'static SlotCtl,
) -> Result<Resume, Failure> {
    let system = |e: sys::SysError| Failure::new(Code::MEMORY_ALLOCATION, e.to_string());
    let mut node = context.node.borrow_mut();
    let resume = adopt::adopt(&mut node);
    ctl.last_code.store(0, Ordering::Release);
    env.attached.populate_own().map_err(|e| Failure::new(e.code(), e.to_string()))?;
    let stderr = std::os::fd::AsFd::as_fd(&std::io::stderr()).try_clone_to_owned();
    let stderr =
        stderr.map_err(|e| Failure::new(Code::FLOW_FUNC_FAILED, format!("stderr: {e}")))?;
    let none = || core::sync::atomic::AtomicU32::new(u32::MAX);
    fault::install(fault::Place {
        attached: env.attached,
        ctl,
        node: model.node.clone(),
        function: model.function.clone(),
        stderr: stderr.into(),
        inputs: node.reader.inputs.iter().map(|_| none()).collect(),
    })
    .map_err(system)?;
    let Node { control, worker, .. } = &mut *node;
    let reply = control.server.init(Ok(())).map_err(|f| Failure::new(f.code, f.text))?;
    control.send(worker, &reply).map_err(|code| Failure::new(code, "response queue"))?;
    report::info(
        context.logger,
        None,
        format_args!("function {} of {} is ready", model.function, model.library),
    );
    let ctl = node.ctl();
    interpose::publish(&ctl.setup_allocations, &ctl.runtime_allocations, &ctl.user_allocations);
    Ok(resume)
}

/// Facts for the function; their texts live for ever.
fn params(model: &Model, node: &Node) -> ParamsV1 {
    let leak = |text: &str| {
        let text: &'static str = String::leak(text.to_owned());
        StrV1 { ptr: text.as_ptr(), len: text.len() as u64 }
    };
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    ParamsV1 {
        name: leak(&model.name),
        work_path: leak(&model.work_path),
        input_count: count(node.reader.inputs.len()),
        output_count: count(node.writer.ports.len()),
        device_id: model.device_id,
        instance_id: model.instance.0,
        instance_num: model.instance.1,
        reserved: 0,
    }
}
