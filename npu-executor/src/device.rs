//! The main thread: owns the places, waits for requests, and ends the process.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread::JoinHandle;

use executor_core::error::Code;
use executor_core::model_state::ModelOp;
use executor_core::owner::SlotId;
use executor_core::pool::Worker;
use executor_core::primitive::Ordering;
use executor_rt::control::{MessageQueues, Received};
use executor_rt::interpose::exempt;
use executor_rt::log::Logger;
use executor_rt::node::{self, Control, End, Failure, Node, Resume};
use executor_rt::proto::LoadModelRequest;
use executor_rt::server::Reply;
use executor_rt::{environment, interpose, process, report};
use npu::team::Team;
use sys::clock::MonoTime;
use sys::doorbell::EventFd;

use crate::cores::{Cores, Seat};
use crate::load;
use crate::model::{self, Model, Models};
use crate::place::{Answer, Desk, Order, Orders, Rounds, STATE_FREE};
use crate::task::Loaded;

/// Longest wait for room in the response queue, milliseconds (executor-deployer §1.5).
const REPLY_MS: u64 = 10_000;

/// The main thread's waits are interrupted by nothing that is not asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Nothing;

impl Control for Nothing {
    fn is_waiting(&mut self, _worker: &Worker<'static>) -> bool {
        false
    }

    fn serve(&mut self, _worker: &mut Worker<'static>, _logger: &Logger) -> Option<End> {
        None
    }
}

/// A place as main keeps it.
#[derive(Debug)]
pub(crate) struct Place {
    /// Its slot.
    pub(crate) slot: SlotId,
    /// Where its thread is met.
    pub(crate) desk: &'static Desk,
    /// The slot's worker while no model is loaded.
    pub(crate) worker: Option<Worker<'static>>,
    /// Its thread; `None` once it was joined.
    pub(crate) thread: Option<JoinHandle<()>>,
}

/// A loaded model as main keeps it.
#[derive(Clone, Debug)]
pub(crate) struct Handle {
    /// Index of its place.
    pub(crate) place: usize,
    /// Its name in logs.
    pub(crate) name: String,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Device {
    /// The process's own slot.
    pub(crate) node: Node<Nothing>,
    pub(crate) queues: MessageQueues,
    pub(crate) places: Vec<Place>,
    /// By root model and model.
    pub(crate) handles: BTreeMap<(u32, u32), Handle>,
    pub(crate) models: Models,
    /// What all models compute on.
    pub(crate) cores: &'static Cores,
    /// Threads that all models share.
    pub(crate) team: Option<&'static Team>,
    /// Before every model path.
    pub(crate) base: String,
    pub(crate) logger: &'static Logger,
    /// Of each model that was ever loaded.
    pub(crate) loggers: RefCell<Vec<(String, &'static Logger)>>,
}

impl Device {
    /// Says that it is ready, executes requests until the process has to end, and ends it.
    pub(crate) fn run(mut self, bell: Option<EventFd>) -> End {
        self.node.ctl().state.store(STATE_FREE, Ordering::Release);
        if let Some(bell) = bell {
            bell.ring();
        }
        let end = self.serve();
        self.end_threads();
        interpose::finalise();
        process::say_end(self.logger, end, None);
        if let End::Code(code) = end {
            self.node.ctl().last_code.store(code.0, Ordering::Release);
        }
        self.node.publish();
        end
    }

    fn serve(&mut self) -> End {
        loop {
            if let Some(end) = self.node.serve(self.logger).or_else(|| self.failed()) {
                return end;
            }
            match self.queues.receive(&mut self.node.worker, self.logger) {
                Received::Request(mbuf) => {
                    let asked = exempt(|| self.request(&mbuf));
                    self.node.free(mbuf);
                    if let Some(end) = asked {
                        return end;
                    }
                }
                Received::Gone(code) => return End::Code(code),
                Received::Nothing => {
                    let Device { node, queues, places, .. } = self;
                    node.park(None, false, |node| {
                        queues.has_message(&node.worker)
                            || places.iter().any(|place| place.desk.failed().is_some())
                    });
                }
            }
        }
    }

    /// A loop that ended for good ends the process: nobody else would answer its ids.
    fn failed(&self) -> Option<End> {
        self.places.iter().find_map(|place| place.desk.failed()).map(End::Code)
    }

    fn end_threads(&mut self) {
        for place in &mut self.places {
            place.desk.give(Order::End);
        }
        for place in &mut self.places {
            if let Some(thread) = place.thread.take() {
                let _ended = thread.join();
            }
        }
    }

    /// Sends a reply, waiting for room.
    pub(crate) fn reply(&mut self, reply: &Reply) -> Result<(), Code> {
        let limit = MonoTime::now().add_ms(REPLY_MS);
        loop {
            let Device { node, queues, .. } = self;
            match queues.send(&mut node.worker, reply) {
                Err(Code::QUEUE_FULL) if !limit.is_past(MonoTime::now()) => {}
                other => return other,
            }
            let Some(responses) = &mut queues.responses else { return Ok(()) };
            let responses = RefCell::new(responses);
            node.waiter.wait(
                Some(limit),
                || responses.borrow_mut().register_full_wait(),
                || responses.borrow_mut().has_room(),
            );
            responses.into_inner().withdraw_full_wait();
        }
    }

    /// Gives an order to a place and waits for what comes of it.
    pub(crate) fn order(&mut self, place: usize, order: Order) -> Result<Answer, Code> {
        if let Some(place) = self.places.get(place) {
            place.desk.give(order);
        }
        self.answer(place)
    }

    /// Waits for the answer to an order.
    pub(crate) fn answer(&mut self, place: usize) -> Result<Answer, Code> {
        let desk = self.places.get(place).ok_or(Code::DRV_INTERNAL)?.desk;
        loop {
            if let Some(answer) = desk.answer() {
                return Ok(answer);
            }
            if let Some(code) = desk.failed() {
                return Err(code);
            }
            // Not interrupted by SIGTERM: the thread sees it, too, and answers first.
            self.node.waiter.wait(None, || {}, || desk.is_answered());
        }
    }

    /// Loads one model and begins its loop; a model that is loaded already is left as it is.
    ///
    /// # Errors
    /// What does not fit; the place is free again then.
    pub(crate) fn load(&mut self, request: &LoadModelRequest) -> Result<(), Failure> {
        let key = (request.root_model_id, request.model_id);
        if self.handles.contains_key(&key) {
            return Ok(());
        }
        load::refuse_unsupported(request)?;
        let saved = &request.saved_model_file_path;
        let path = model::path_of(&self.base, &request.model_path, saved)?;
        let model = self.models.open(&path)?;
        let name = load::name(request);
        let index = self.free_place(request)?;
        let logger = self.named(&name);
        let (loaded, resume) = self.prepare(index, request, &model, logger)?;
        match self.order(index, Order::Run(loaded, resume)) {
            Ok(_) => {
                let (path, packed) = (path.display(), model.program().packed_bytes());
                if packed > 0 {
                    let what = format_args!("{packed} bytes of weights packed for this machine");
                    report::info(logger, None, what);
                }
                report::info(logger, None, format_args!("the model of {path} is ready"));
                self.handles.insert(key, Handle { place: index, name });
                Ok(())
            }
            Err(code) => Err(Failure::new(code, "the model's loop did not begin")),
        }
    }

    /// The place that the request names, or the first free one.
    fn free_place(&self, request: &LoadModelRequest) -> Result<usize, Failure> {
        let wanted = request.node_options.as_ref().map_or(0, |options| options.slot);
        let mut places = self.places.iter();
        if wanted == 0 {
            let free = places.position(|place| place.worker.is_some());
            return free.ok_or_else(|| {
                let count = self.places.len();
                let text = format!("all {count} places of the device have a model; unload one");
                Failure::new(Code::OVER_LIMIT, text)
            });
        }
        let named = places.position(|place| place.slot.0 == wanted).ok_or_else(|| {
            let text = format!("slot {wanted} is not one of this device's places");
            Failure::new(Code::PARAM_INVALID, text)
        })?;
        if self.places.get(named).is_some_and(|place| place.worker.is_some()) {
            return Ok(named);
        }
        Err(Failure::new(Code::REPEATED_INIT, format!("slot {wanted} has another model")))
    }

    /// A log under the name of a model; it lives for ever, as its name in earlier lines does.
    fn named(&self, name: &str) -> &'static Logger {
        let known = self.loggers.borrow().iter().find(|(known, _)| known == name).map(|(_, l)| *l);
        known.unwrap_or_else(|| {
            let logger: &'static Logger =
                Box::leak(Box::new(Logger::new(name, environment::level())));
            self.loggers.borrow_mut().push((name.to_owned(), logger));
            logger
        })
    }

    /// The model with its queues, and where its loop begins.
    fn prepare(
        &mut self,
        index: usize,
        request: &LoadModelRequest,
        model: &Arc<Model>,
        logger: &'static Logger,
    ) -> Result<(Box<Loaded>, Resume), Failure> {
        let (group, nudged) = (self.node.group, self.node.waiter.nudged);
        let seat = Seat::new(self.cores, index, load::level(request)?);
        let broken = || Failure::new(Code::DRV_INTERNAL, "the place has no worker");
        let place = self.places.get_mut(index).ok_or_else(broken)?;
        let worker = place.worker.take().ok_or_else(broken)?;
        let rounds = Rounds::new(request.execute_times);
        let control = Orders { desk: place.desk, seat, rounds };
        let mut node = Node::new(group, worker, control).ok_or_else(broken)?;
        node.waiter.nudged = nudged;
        let ctl = node.ctl();
        let parts = match load::fill(&mut node, request, model, logger) {
            Ok(parts) => parts,
            Err(failure) => {
                if let Failure::Code(code, _) = &failure {
                    ctl.last_code.store(code.0, Ordering::Release);
                }
                place.worker = Some(node.worker);
                return Err(failure);
            }
        };
        let entered = node.control.desk.life.enter(&[ModelOp::Load]);
        if let Err(refused) = entered {
            place.worker = Some(node.worker);
            return Err(Failure::new(Code::AICPU_STATE, refused.to_string()));
        }
        let resume = node::adopt(&mut node);
        ctl.last_code.store(0, Ordering::Release);
        let load::Parts { sources, targets, arena } = parts;
        let (model, team) = (Arc::clone(model), self.team);
        Ok((Box::new(Loaded { node, model, sources, targets, arena, team, logger }), resume))
    }

    /// Gives models back and makes their places free; codes of those that could not be.
    pub(crate) fn unload(&mut self, keys: &[(u32, u32)]) -> Vec<(u32, Code)> {
        let places: Vec<(u32, usize)> =
            keys.iter().filter_map(|key| Some((key.1, self.handles.remove(key)?.place))).collect();
        // All of them end at once; each waits for its run at most.
        for (_, place) in &places {
            if let Some(place) = self.places.get(*place) {
                place.desk.give(Order::Unload);
            }
        }
        let mut failed = Vec::new();
        for (model, index) in places {
            match self.answer(index) {
                Ok(Answer::Given(loaded)) => {
                    let Loaded { node, .. } = *loaded;
                    if let Some(place) = self.places.get_mut(index) {
                        place.worker = Some(node.worker);
                    }
                }
                Ok(_) => failed.push((model, Code::DRV_INTERNAL)),
                Err(code) => failed.push((model, code)),
            }
        }
        failed
    }
}
