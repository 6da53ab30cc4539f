//! From a command line to a processor that can run: the only part that may allocate.
//!
//! Steps and what `SlotCtl::state` shows meanwhile: attach (100), message queues (102), files,
//! library and ports (101), `init` of the function (1). A failure after the message queues are
//! there is answered with "Execute init failed."; any failure is one log line and the exit code of
//! its code.

mod attrs;
mod model;

use std::ffi::OsString;
use std::path::Path;

use executor_core::abi::control::SlotCtl;
use executor_core::error::Code;
use executor_core::primitive::Ordering;
use executor_rt::argv::{UdfArgs, parse_udf};
use executor_rt::control::MessageQueues;
use executor_rt::environment::Environment;
use executor_rt::log::Logger;
use executor_rt::node::by_time::Codes;
use executor_rt::node::open::Ports;
use executor_rt::node::state::{Event, State};
use executor_rt::node::{self, Failure, Resume, open, step};
use executor_rt::server::{self, Dialect, MessageServer};
use executor_rt::{interpose, report};
use flow_func::abi::{ParamsV1, StrV1};
use flow_func::codes::INIT_AGAIN;
use sys::clock::MonoTime;
use sys::doorbell::EventFd;

use crate::call::{Function, Instance};
use crate::context::{Context, LogId};
use crate::control::Control;
use crate::fault;
use crate::handles::Handles;
use crate::node::Node;
use crate::processor::Function as Task;

use model::Model;

/// Longest wait for the grant of a queue, milliseconds (udf §3.3).
const ATTACH_MS: u64 = 10_000;
/// Wait between two calls of an `init` that asked for another one, milliseconds.
const INIT_TICK_MS: u64 = 10;
/// What main runs.
#[derive(Debug)]
pub(crate) struct Ready {
    /// The loop.
    pub(crate) processor: Task,
    /// Where it begins.
    pub(crate) resume: Resume,
    /// Rung once it is ready.
    pub(crate) bell: Option<EventFd>,
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
    let env = Environment::attach(Dialect::Udf)?;
    let ctl = env.worker.private.ctl;
    let queues = MessageQueues::new(MessageServer::new(Dialect::Udf));
    let shared = env.node(Control { queues })?;
    let mut node = Node { shared, handles: Handles::new(env.entries()), copies: Box::default() };
    ctl.state.store(step::QUEUES, Ordering::Release);
    open_control(&mut node, &args, logger)?;
    ctl.state.store(step::LOAD, Ordering::Release);
    let model = match model::load(&args, logger) {
        Ok(model) => model,
        Err(failure) => return Err(init_failed(&mut node, logger, failure)),
    };
    let ports = Ports {
        name: &model.node,
        inputs: &model.inputs,
        outputs: &model.outputs,
        limit_ms: ATTACH_MS,
    };
    let opened = open::ports(&mut node, ports, logger).and_then(|()| {
        let code = Code::FLOW_FUNC_DATA_ALIGN_FAILED;
        node.reader.align(model.align, code);
        let codes = Codes { apart: code, timeless: Code::FLOW_FUNC_PARAM_INVALID };
        node.reader.align_by_time(model.align_time.clone(), codes);
        Function::load(Path::new(&model.library), &model.function)
            .map_err(|text| Failure::new(Code::FLOW_FUNC_FAILED, text))
    });
    match opened {
        Ok(function) => init(node, function, &model, env, logger),
        Err(failure) => Err(init_failed(&mut node, logger, failure)),
    }
}

fn open_control(node: &mut Node, args: &UdfArgs, logger: &Logger) -> Result<(), Failure> {
    let node = &mut node.shared;
    if let Some(queue) = args.request_queue {
        let requests = open::consumer(node, queue, ATTACH_MS, "request queue", logger)?;
        node.control.queues.requests = Some(requests);
    }
    if let Some(queue) = args.response_queue {
        let responses = open::producer(node, queue, None, ATTACH_MS, "response queue", logger)?;
        node.control.queues.responses = Some(responses);
    }
    node.control.queues.restock(&mut node.worker);
    Ok(())
}

/// Answers "Execute init failed." and passes the failure on.
fn init_failed(node: &mut Node, logger: &Logger, failure: Failure) -> Failure {
    let Failure::Code(code, text) = &failure else { return failure };
    node.ctl().last_code.store(code.0, Ordering::Release);
    let node::Node { control, worker, .. } = &mut node.shared;
    match control.queues.server.init(Err(server::Failure::new(*code, text.as_str()))) {
        Ok(reply) => {
            if let Err(code) = control.queues.send(worker, &reply) {
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
    if model.copy_inputs {
        node.copies = (0..inputs).map(|_| None).collect();
    }
    let context = Context {
        params: params(model, &node),
        attrs: attrs::convert(&model.attrs),
        logger,
        copy_forwarded: model.copy_forwarded,
        log_id: LogId::new(),
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
    Ok(Ready { processor: Task::new(instance, context), resume, bell: env.bell })
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
    let resume = node::adopt(&mut node.shared);
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
    let node::Node { control, worker, .. } = &mut node.shared;
    let reply = control.queues.server.init(Ok(())).map_err(|f| Failure::new(f.code, f.text))?;
    control.queues.send(worker, &reply).map_err(|code| Failure::new(code, "response queue"))?;
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
