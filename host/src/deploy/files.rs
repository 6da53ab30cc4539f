//! What an executor is started with: its load message, its model message and its arguments.
//!
//! Both messages are sealed memfds that the executor opens as `/proc/self/fd/N`: nothing is on
//! disk.

use std::os::fd::{AsRawFd, OwnedFd};

use executor_rt::proto::{
    ArrayValue, AttrKind, AttrValue as WireAttr, BatchLoadModelMessage, DestinationGroup, ListInt,
    ListListInt, LoadModelRequest, ModelQueuesAttrs, NodeOptions, OutputDestinations, QueueAttrs,
    UdfDef, UdfModelDef, deployer::DEVICE_CPU, deployer::DUMMY_QUEUE,
};
use prost::Message;
use sys::memfd;

use crate::graph::{AttrValue, DType, WritableInputs};
use crate::plan::{DeployPlan, ExecutorPlan, InputPlan, OutputPlan};

/// The files of one executor.
#[derive(Debug)]
pub struct Files {
    /// BatchLoadModelMessage with exactly one model.
    pub load: OwnedFd,
    /// UdfModelDef with exactly one definition.
    pub model: OwnedFd,
    /// Its stdout.
    pub stdout: OwnedFd,
    /// Its stderr.
    pub stderr: OwnedFd,
}

impl Files {
    /// Makes the files of `executor`.
    ///
    /// # Errors
    /// The system refuses memory or descriptors.
    pub fn new(executor: &ExecutorPlan) -> Result<Files, sys::SysError> {
        let model = memfd::from_bytes("dflow-model", &model_def(executor).encode_to_vec())?;
        let load = BatchLoadModelMessage {
            models: vec![load_request(executor, model.as_raw_fd())],
            root_model_id: 1,
            ..Default::default()
        };
        Ok(Files {
            load: memfd::from_bytes("dflow-load", &load.encode_to_vec())?,
            model,
            stdout: memfd::append_log(&format!("dflow-log-out:{}", executor.label))?,
            stderr: memfd::append_log(&format!("dflow-log-err:{}", executor.label))?,
        })
    }

    /// Arguments of the executor (udf §3.2).
    #[must_use]
    pub fn args(&self, plan: &DeployPlan, executor: &ExecutorPlan) -> Vec<String> {
        let _ = plan;
        vec![
            "--device_id=0".to_owned(),
            format!("--load_path=/proc/self/fd/{}", self.load.as_raw_fd()),
            format!("--group_name=DM_QS_GROUP_{}", std::process::id()),
            "--phy_device_id=-1".to_owned(),
            format!("--req_queue_id={}", executor.request_queue),
            format!("--rsp_queue_id={}", executor.response_queue),
        ]
    }
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

fn load_request(executor: &ExecutorPlan, model_fd: i32) -> LoadModelRequest {
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
        model_path: format!("/proc/self/fd/{model_fd}"),
        replica_num: executor.instance_num,
        replica_idx: executor.instance,
        execute_times: -1,
        phy_device_id: -1,
        model_queues_attrs: Some(ModelQueuesAttrs {
            input_queues_attrs: inputs.collect(),
            output_queues_attrs: executor.outputs.iter().map(first).collect(),
        }),
        model_instance_name: executor.label.clone(),
        output_destinations: executor.outputs.iter().map(destinations).collect(),
        node_options: Some(NodeOptions {
            stateful: executor.stateful,
            redeliver: executor.redeliver,
            poison_limit: executor.poison_limit,
            copy_inputs: executor.writable_inputs == WritableInputs::Copy,
            holds: executor.inputs.iter().map(|input| input.holds).max().unwrap_or(0),
            node_name: executor.node.clone(),
            library_path: absolute(executor),
            init_timeout_ms: u64::from(executor.init_timeout_ms),
            slot: 0,
        }),
        ..Default::default()
    }
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
