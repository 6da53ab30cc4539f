//! From a checked flow to slots, queues and ports.

use crate::check::{CheckedFlow, Source, Target, instance_label};
use crate::error::{PlanError, Problem};
use crate::graph::{AttrValue, QueuePolicy};
use crate::model::Program;

use super::limits::MAX_EXECUTORS;
use super::{
    DeployPlan, DestinationPlan, ExecutorPlan, HostPlan, InputPlan, Limits, ModelPlan, OutputPlan,
    QueueId, QueueKind, QueuePlan, SlotId, Work, budget, devices, private,
};

/// Depth of the request and response queues (spec/executor-deployer.md §1.8).
pub const MESSAGE_QUEUE_DEPTH: u64 = 3;

/// Name of an executor's request queue (spec/executor-deployer.md §1.8).
#[must_use]
pub fn request_queue_name(slot: SlotId) -> String {
    format!("request_queue.executor_{slot}")
}

/// Name of an executor's response queue (spec/executor-deployer.md §1.8).
#[must_use]
pub fn response_queue_name(slot: SlotId) -> String {
    format!("response_queue.executor_{slot}")
}

impl CheckedFlow {
    /// Plans the deployment on this machine.
    ///
    /// # Errors
    /// [`PlanError`] when it does not fit, with the arithmetic.
    pub fn plan(self, limits: &Limits) -> Result<DeployPlan, PlanError> {
        let slots = Slots::new(&self)?;
        let graph = self.graph();
        let mut plan = DeployPlan {
            name: graph.name.clone(),
            session: graph.session.clone(),
            host: HostPlan { inputs: Vec::new(), outputs: Vec::new() },
            executors: Vec::new(),
            queues: Vec::new(),
            partitions: Vec::new(),
        };
        let queues = Queues::new(&self, &slots, &mut plan.queues);
        let inputs = (0..graph.inputs.len())
            .map(|input| output(&self, &queues, Source::Input(input), graph.inputs.name(input)));
        plan.host.inputs = inputs.collect();
        let outputs = graph.outputs.iter().enumerate().map(|(index, (name, settings))| {
            let target = Target::Output(index);
            input(&self, queues.of(target)[0], target, name, settings.holds)
        });
        plan.host.outputs = outputs.collect();
        for node in 0..graph.nodes.len() {
            for instance in 0..graph.nodes.item(node).instances {
                let executor = executor(&self, &slots, &queues, node, instance);
                plan.executors.push(executor);
            }
        }
        devices::add(&mut plan);
        add_message_queues(&mut plan);
        budget::fill(&self, &mut plan)?;
        budget::check(&self, &plan, limits)?;
        private::check(&self, &plan, limits)?;
        Ok(plan)
    }
}

/// First slot of each node.
struct Slots(Vec<SlotId>);

impl Slots {
    fn new(flow: &CheckedFlow) -> Result<Self, PlanError> {
        let mut next: SlotId = 1;
        let mut first = Vec::new();
        for (_, node) in flow.graph().nodes.iter() {
            first.push(next);
            next = next.saturating_add(node.instances);
        }
        let executors = next as usize - 1 + devices::numbers(flow.graph()).len();
        if executors <= MAX_EXECUTORS {
            return Ok(Self(first));
        }
        Err(PlanError::Slots(Problem::new(
            flow.graph().place().port("all nodes' `instances`"),
            format!("{executors} executors"),
            format!("at most {MAX_EXECUTORS}"),
            "lower `instances`, or join nodes",
        )))
    }

    fn of(&self, flow: &CheckedFlow, node: usize) -> Vec<SlotId> {
        let first = self.0[node];
        (first..first + flow.graph().nodes.item(node).instances).collect()
    }
}

/// Queues in front of each target.
struct Queues {
    nodes: Vec<Vec<Vec<QueueId>>>,
    outputs: Vec<Vec<QueueId>>,
}

impl Queues {
    fn new(flow: &CheckedFlow, slots: &Slots, list: &mut Vec<QueuePlan>) -> Self {
        let graph = flow.graph();
        let mut add = |target: Target, consumer: &str, port: &str, slot: SlotId| {
            let id = QueueId::try_from(list.len()).unwrap_or(QueueId::MAX);
            list.push(QueuePlan {
                id,
                name: format!("{consumer}:{port}"),
                depth: flow.depth(target),
                policy: policy(flow, target),
                kind: QueueKind::Data,
                consumer_slot: slot,
                producer_slots: match flow.source(target) {
                    Source::Input(_) => vec![0],
                    Source::Node { node, .. } => slots.of(flow, node),
                },
            });
            id
        };
        let mut nodes = Vec::new();
        for (node, (name, item)) in graph.nodes.iter().enumerate() {
            let mut ports = Vec::new();
            for (input, port) in item.inputs.names().enumerate() {
                let target = Target::Node { node, input };
                let consumers = slots.of(flow, node).into_iter().zip(0..);
                let queues = consumers.map(|(slot, instance)| {
                    add(target, &instance_label(name, instance, item.instances), port, slot)
                });
                ports.push(queues.collect());
            }
            nodes.push(ports);
        }
        let outputs = graph.outputs.names().enumerate();
        let outputs =
            outputs.map(|(index, name)| vec![add(Target::Output(index), "host", name, 0)]);
        let outputs = outputs.collect();
        Self { nodes, outputs }
    }

    fn of(&self, target: Target) -> &[QueueId] {
        match target {
            Target::Node { node, input } => &self.nodes[node][input],
            Target::Output(output) => &self.outputs[output],
        }
    }
}

fn policy(flow: &CheckedFlow, target: Target) -> QueuePolicy {
    match target {
        Target::Node { node, input } => flow.graph().nodes.item(node).inputs.item(input).policy,
        Target::Output(_) => QueuePolicy::Fifo,
    }
}

fn output(flow: &CheckedFlow, queues: &Queues, source: Source, name: &str) -> OutputPlan {
    let (dtype, shape, max_bytes) = flow.message(source);
    let destinations = flow.targets(source).into_iter().map(|target| DestinationPlan {
        consumer: flow.target_name(target),
        queues: queues.of(target).to_vec(),
    });
    let destinations = destinations.collect();
    let (name, shape) = (name.to_owned(), shape.clone());
    OutputPlan { name, dtype, shape, max_bytes, pool: 0, destinations }
}

fn input(flow: &CheckedFlow, queue: QueueId, target: Target, name: &str, holds: u32) -> InputPlan {
    let source = flow.source(target);
    let (dtype, shape, max_bytes) = flow.message(source);
    InputPlan {
        name: name.to_owned(),
        source: flow.source_name(source),
        queue,
        dtype,
        shape: shape.clone(),
        max_bytes,
        holds,
        copy_pool: None,
    }
}

fn executor(
    flow: &CheckedFlow,
    slots: &Slots,
    queues: &Queues,
    node: usize,
    instance: u32,
) -> ExecutorPlan {
    let graph = flow.graph();
    let (name, item) = (graph.nodes.name(node), graph.nodes.item(node));
    let inputs = item.inputs.names().enumerate().map(|(index, port)| {
        let target = Target::Node { node, input: index };
        input(flow, queues.of(target)[instance as usize], target, port, item.holds)
    });
    let outputs = item
        .outputs
        .names()
        .enumerate()
        .map(|(index, port)| output(flow, queues, Source::Node { node, output: index }, port));
    ExecutorPlan {
        slot: slots.0[node] + instance,
        work: work(flow, node),
        node: name.to_owned(),
        label: instance_label(name, instance, item.instances),
        instance,
        instance_num: item.instances,
        library: flow.library(node),
        project: flow.project(node),
        function: item.function.clone(),
        attrs: item.attrs.iter().map(|(key, value)| (key.clone(), attr(flow, value))).collect(),
        env: item.env.clone(),
        inputs: inputs.collect(),
        align: item.align,
        align_time: item.align_time.clone(),
        outputs: outputs.collect(),
        request_queue: QueueId::MAX,
        response_queue: QueueId::MAX,
        restart: item.restart.clone(),
        redeliver: item.redeliver,
        poison_limit: item.poison_limit,
        stateful: item.stateful,
        writable_inputs: item.writable_inputs,
        forwarding: item.forwarding,
        stall_ms: item.stall_ms,
        init_timeout_ms: item.init_timeout_ms,
        cpu: item.cpu.get(instance as usize).copied(),
    }
}

/// A file is told by its absolute path: an executor's working directory is not the host's to know.
fn attr(flow: &CheckedFlow, value: &AttrValue) -> AttrValue {
    let AttrValue::File(file) = value else { return value.clone() };
    let path = flow.graph().library_path(file);
    AttrValue::File(std::path::absolute(&path).unwrap_or(path))
}

fn work(flow: &CheckedFlow, node: usize) -> Work {
    let item = flow.graph().nodes.item(node);
    match flow.model(node) {
        None => Work::Function,
        Some(path) => Work::Model(ModelPlan {
            path,
            inputs_tensor_desc: item.inputs_tensor_desc.clone(),
            device: item.device,
            cores: item.cores,
            priority: item.priority,
            threads: item.threads,
            arena_bytes: flow.program(node).map_or(0, Program::arena_bytes),
            program_bytes: flow.program(node).map_or(0, |one| one.bytes().len() as u64),
            program: flow.program(node).cloned(),
        }),
    }
}

fn add_message_queues(plan: &mut DeployPlan) {
    let queues = &mut plan.queues;
    let mut add = |name: String, kind: QueueKind, consumer_slot: SlotId, producer: SlotId| {
        let id = QueueId::try_from(queues.len()).unwrap_or(QueueId::MAX);
        let depth = u32::try_from(MESSAGE_QUEUE_DEPTH).unwrap_or(u32::MAX);
        let (policy, producer_slots) = (QueuePolicy::Fifo, vec![producer]);
        queues.push(QueuePlan { id, name, depth, policy, kind, consumer_slot, producer_slots });
        id
    };
    for executor in plan.executors.iter_mut().filter(|executor| executor.is_process()) {
        let slot = executor.slot;
        executor.request_queue = add(request_queue_name(slot), QueueKind::Request, slot, 0);
        executor.response_queue = add(response_queue_name(slot), QueueKind::Response, 0, slot);
    }
}
