//! What an executor is started with: its load message, its model message and its arguments.
//!
//! Both messages are sealed memfds that the executor opens as `/proc/self/fd/N`: nothing is on
//! disk.

use std::collections::BTreeMap;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use executor_rt::proto::{
    ArrayValue, AttrKind, AttrValue as WireAttr, BatchLoadModelMessage, DestinationGroup,
    InputAlignAttrs, InputAlignTime, ListInt, ListListInt, LoadModelRequest, ModelQueuesAttrs,
    NodeOptions, OutputDestinations, QueueAttrs, UdfDef, UdfModelDef, deployer::DEVICE_CPU,
    deployer::DUMMY_QUEUE,
};
use prost::Message;
use sys::memfd;

use crate::graph::{AttrValue, DType, Forwarding, Priority, WritableInputs};
use crate::plan::{DeployPlan, ExecutorPlan, InputPlan, OutputPlan, SlotId, Work};

/// The files of one executor.
#[derive(Debug)]
pub struct Files {
    /// BatchLoadModelMessage: exactly one function, or all models of a device. A model has none of
    /// its own.
    pub load: Option<OwnedFd>,
    /// UdfModelDef with exactly one definition, or a program (OM). A device has none of its own.
    pub model: Option<OwnedFd>,
    /// Stdout of the process.
    pub stdout: Arc<OwnedFd>,
    /// Stderr of the process.
    pub stderr: Arc<OwnedFd>,
}

impl Files {
    /// Makes the files of all executors of a plan, in its order.
    ///
    /// # Errors
    /// The system refuses memory or descriptors.
    pub fn of_plan(plan: &DeployPlan) -> Result<Vec<Files>, sys::SysError> {
        let models: Vec<Option<OwnedFd>> =
            plan.executors.iter().map(model).collect::<Result<_, _>>()?;
        let mut logs: BTreeMap<SlotId, [Arc<OwnedFd>; 2]> = BTreeMap::new();
        let mut loads = Vec::new();
        for (executor, own) in plan.executors.iter().zip(&models) {
            let requests = match &executor.work {
                Work::Function => own.iter().map(|fd| load_request(executor, fd)).collect(),
                Work::Device(device) => {
                    let slots = device.models.iter().map(|slot| (*slot as usize).wrapping_sub(1));
                    let pairs = slots.filter_map(|at| {
                        Some((plan.executors.get(at)?, models.get(at)?.as_ref()?))
                    });
                    pairs.map(|(model, fd)| load_request(model, fd)).collect()
                }
                Work::Model(_) => {
                    loads.push(None);
                    continue;
                }
            };
            loads.push(Some(load(requests)?));
            let log = |kind| memfd::append_log(&format!("dflow-log-{kind}:{}", executor.label));
            let both = [Arc::new(log("out")?), Arc::new(log("err")?)];
            for slot in executor.work.models().iter().chain([&executor.slot]) {
                logs.insert(*slot, both.clone());
            }
        }
        let parts = plan.executors.iter().zip(models).zip(loads);
        let files = parts.filter_map(|((executor, model), load)| {
            let [stdout, stderr] = logs.get(&executor.slot)?.clone();
            Some(Files { load, model, stdout, stderr })
        });
        Ok(files.collect())
    }

    /// Arguments of the process (udf §3.2, executor-deployer §1.2).
    #[must_use]
    pub fn args(&self, executor: &ExecutorPlan) -> Vec<String> {
        let load = self.load.as_ref().map_or(-1, AsRawFd::as_raw_fd);
        let load = format!("--load_path=/proc/self/fd/{load}");
        let group = format!("DM_QS_GROUP_{}", std::process::id());
        let (requests, responses) = (executor.request_queue, executor.response_queue);
        if let Work::Device(device) = &executor.work {
            let numbers = [requests, responses, device.device].map(|number| number.to_string());
            let words = [group].into_iter().chain(numbers);
            let threads = format!("--threads={}", device.threads);
            let cores = device.cores.map(|cores| format!("--cores={cores}"));
            let options = ["--base_dir=".to_owned(), load, threads].into_iter().chain(cores);
            return words.chain(options).collect();
        }
        vec![
            "--device_id=0".to_owned(),
            load,
            format!("--group_name={group}"),
            "--phy_device_id=-1".to_owned(),
            format!("--req_queue_id={requests}"),
            format!("--rsp_queue_id={responses}"),
        ]
    }
}

/// What the executor's load request points to.
fn model(executor: &ExecutorPlan) -> Result<Option<OwnedFd>, sys::SysError> {
    match &executor.work {
        Work::Function => {
            memfd::from_bytes("dflow-model", &model_def(executor).encode_to_vec()).map(Some)
        }
        Work::Model(model) => {
            let bytes = model.program.as_ref().map_or(&[][..], |program| program.bytes());
            memfd::from_bytes("dflow-om", bytes).map(Some)
        }
        Work::Device(_) => Ok(None),
    }
}

fn load(models: Vec<LoadModelRequest>) -> Result<OwnedFd, sys::SysError> {
    let load = BatchLoadModelMessage { models, root_model_id: 1, ..Default::default() };
    memfd::from_bytes("dflow-load", &load.encode_to_vec())
}

fn model_def(executor: &ExecutorPlan) -> UdfModelDef {
    let bin_name = executor.library.file_name().map(|name| name.to_string_lossy().into_owned());
    let attrs = executor.attrs.iter();
    let definition = UdfDef {
        name: executor.node.clone(),
        bin_name: bin_name.unwrap_or_default(),
        func_name: executor.function.clone(),
        attrs: attrs.map(|(name, value)| (name.clone(), wire(value))).collect(),
        ..Default::default()
    };
    UdfModelDef { udf_def: vec![definition] }
}

fn load_request(executor: &ExecutorPlan, model: &OwnedFd) -> LoadModelRequest {
    let is_model = !executor.is_process();
    let queue =
        |id: u32| QueueAttrs { queue_id: id, device_type: DEVICE_CPU, device_id: 0, logic_id: id };
    let inputs = executor.inputs.iter().map(|input: &InputPlan| queue(input.queue));
    let first = |output: &OutputPlan| {
        let first = output.destinations.first().and_then(|d| d.queues.first());
        queue(first.copied().unwrap_or(DUMMY_QUEUE))
    };
    LoadModelRequest {
        root_model_id: 1,
        model_id: executor.slot,
        model_path: format!("/proc/self/fd/{}", model.as_raw_fd()),
        replica_num: executor.instance_num,
        replica_idx: executor.instance,
        execute_times: -1,
        phy_device_id: -1,
        model_queues_attrs: Some(ModelQueuesAttrs {
            input_queues_attrs: inputs.collect(),
            output_queues_attrs: executor.outputs.iter().map(first).collect(),
        }),
        attrs: priority(executor),
        input_align_attrs: executor.align.map(|align| InputAlignAttrs {
            align_max_cache_num: align.max_cache,
            align_timeout: align.timeout_ms.map_or(-1, |ms| i32::try_from(ms).unwrap_or(i32::MAX)),
            drop_when_not_align: align.drop,
        }),
        input_align_time: executor.align_time.as_ref().map(|align| InputAlignTime {
            interval: align.interval,
            offsets: align.offsets.clone(),
            timeout_ms: align.timeout_ms.unwrap_or(0),
        }),
        model_instance_name: executor.label.clone(),
        output_destinations: executor.outputs.iter().map(destinations).collect(),
        node_options: Some(NodeOptions {
            stateful: executor.stateful,
            redeliver: executor.redeliver,
            poison_limit: executor.poison_limit,
            copy_inputs: executor.writable_inputs == WritableInputs::Copy,
            copy_forwarded: executor.forwarding == Forwarding::Copy,
            holds: executor.inputs.iter().map(|input| input.holds).max().unwrap_or(0),
            node_name: executor.node.clone(),
            library_path: if is_model { String::new() } else { absolute(executor) },
            init_timeout_ms: u64::from(executor.init_timeout_ms),
            slot: if is_model { executor.slot } else { 0 },
        }),
        ..Default::default()
    }
}

/// Attributes of the request with the model's priorities, as far as they are set.
fn priority(executor: &ExecutorPlan) -> BTreeMap<String, String> {
    let Work::Model(model) = &executor.work else { return BTreeMap::new() };
    let Priority { process, event } = model.priority;
    let attrs = [("_eschedProcessPriority", process), ("_eschedEventPriority", event)];
    let set = attrs.into_iter().filter_map(|(name, value)| Some((name, value?)));
    set.map(|(name, value)| (name.to_owned(), value.to_string())).collect()
}

fn absolute(executor: &ExecutorPlan) -> String {
    let path = std::path::absolute(&executor.library);
    path.unwrap_or_else(|_| executor.library.clone()).display().to_string()
}

fn destinations(output: &OutputPlan) -> OutputDestinations {
    let groups = output.destinations.iter();
    let groups = groups.map(|group| DestinationGroup { queue_ids: group.queues.clone() });
    OutputDestinations { groups: groups.collect() }
}

#[allow(clippy::cast_possible_truncation, reason = "functions see floats as f32")]
fn wire(value: &AttrValue) -> WireAttr {
    let text = |text: &String| text.clone().into_bytes();
    let list = |change: &dyn Fn(&mut ArrayValue)| {
        let mut array = ArrayValue::default();
        change(&mut array);
        AttrKind::Array(array)
    };
    let kind = match value {
        AttrValue::Int(n) => AttrKind::I(*n),
        AttrValue::Float(n) => AttrKind::F(*n as f32),
        AttrValue::Bool(b) => AttrKind::B(*b),
        AttrValue::Text(t) => AttrKind::S(text(t)),
        AttrValue::File(path) => AttrKind::S(path.to_string_lossy().into_owned().into_bytes()),
        AttrValue::DType(t) => AttrKind::Type(t.code()),
        AttrValue::Ints(all) => list(&|array| array.i.clone_from(all)),
        AttrValue::Floats(all) => list(&|array| array.f = all.iter().map(|n| *n as f32).collect()),
        AttrValue::Bools(all) => list(&|array| array.b.clone_from(all)),
        AttrValue::Texts(all) => list(&|array| array.s = all.iter().map(text).collect()),
        AttrValue::DTypes(all) => {
            list(&|array| array.r#type = all.iter().map(|t: &DType| t.code()).collect())
        }
        AttrValue::IntLists(all) => AttrKind::ListListI(ListListInt {
            list_list_i: all.iter().map(|list| ListInt { i: list.clone() }).collect(),
        }),
    };
    WireAttr { value: Some(kind) }
}
