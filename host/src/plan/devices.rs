//! Devices: one process for all models of a device, in a slot behind those of the nodes.

use std::collections::{BTreeMap, BTreeSet};

use super::{DeployPlan, DevicePlan, ExecutorPlan, QueueId, SlotId, Work};
use crate::graph::{FlowGraph, Forwarding, Restart, RestartPolicy, WritableInputs};

/// Devices of a graph.
pub(super) fn numbers(graph: &FlowGraph) -> BTreeSet<u32> {
    let models = graph.nodes.iter().filter(|(_, node)| node.model.is_some());
    models.map(|(_, node)| node.device).collect()
}

/// Adds the devices' executors.
pub(super) fn add(plan: &mut DeployPlan) {
    let mut devices: BTreeMap<u32, (DevicePlan, Vec<&ExecutorPlan>)> = BTreeMap::new();
    for executor in &plan.executors {
        if let Work::Model(model) = &executor.work {
            let number = model.device;
            let new = DevicePlan { device: number, cores: None, threads: 1, models: Vec::new() };
            let (device, models) = devices.entry(number).or_insert((new, Vec::new()));
            device.threads = model.threads.max(device.threads);
            device.cores = device.cores.or(model.cores);
            device.models.push(executor.slot);
            models.push(executor);
        }
    }
    let first = plan.executors.len() + 1;
    let added: Vec<ExecutorPlan> = devices
        .into_values()
        .zip(first..)
        .map(|((plan, models), slot)| {
            device(plan, SlotId::try_from(slot).unwrap_or(SlotId::MAX), &models)
        })
        .collect();
    plan.executors.extend(added);
}

/// The process lives and dies with all its models, so it is as patient as the most patient of them
/// where a kill would be wrong, and as strict as the strictest where it counts deaths.
fn device(plan: DevicePlan, slot: SlotId, models: &[&ExecutorPlan]) -> ExecutorPlan {
    let policy = |wanted: RestartPolicy| models.iter().any(|model| model.restart.policy == wanted);
    let restart = Restart {
        policy: if policy(RestartPolicy::Never) {
            RestartPolicy::Never
        } else if policy(RestartPolicy::OnFailure) {
            RestartPolicy::OnFailure
        } else {
            RestartPolicy::Always
        },
        max: models.iter().map(|model| model.restart.max).min().unwrap_or(0),
        backoff_ms: models.iter().map(|model| model.restart.backoff_ms).max().unwrap_or(0),
    };
    let label = format!("device:{}", plan.device);
    ExecutorPlan {
        slot,
        work: Work::Device(plan),
        node: label.clone(),
        label,
        instance: 0,
        instance_num: 1,
        library: std::path::PathBuf::new(),
        project: None,
        function: String::new(),
        attrs: BTreeMap::new(),
        env: BTreeMap::new(),
        inputs: Vec::new(),
        align: None,
        align_time: None,
        outputs: Vec::new(),
        request_queue: QueueId::MAX,
        response_queue: QueueId::MAX,
        restart,
        redeliver: false,
        poison_limit: 0,
        stateful: false,
        writable_inputs: WritableInputs::Share,
        forwarding: Forwarding::Share,
        stall_ms: models.iter().map(|model| model.stall_ms).max().unwrap_or(0),
        init_timeout_ms: models.iter().map(|model| model.init_timeout_ms).max().unwrap_or(0),
        cpu: None,
    }
}
