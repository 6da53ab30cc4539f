//! What a load request must fit (executor-deployer §1.7.1, §2, software queues), and the model made
//! of it.
//!
//! Parts of the protocol that this version does not have are refused with their name, rather than
//! ignored: dynamic models, exceptions by trans_id, status reports, invoked models.

use std::sync::Arc;

use executor_core::abi::{RuntimeTensorDesc, TENSOR_DESC_SIZE};
use executor_core::error::Code;
use executor_core::gate::Level;
use executor_rt::log::Logger;
use executor_rt::node::by_time::Codes;
use executor_rt::node::open::{self, Ports};
use executor_rt::node::{Failure, Node, request};
use executor_rt::proto::LoadModelRequest;
use executor_rt::proto::deployer::DUMMY_QUEUE;
use npu::aligned::AlignedBytes;
use npu::tensor::TensorInfo;

use crate::model::Model;
use crate::place::Orders;
use crate::task::{BOUND_MAX, Source, Target};

/// Longest wait for the grant of a queue, milliseconds (executor-deployer §1.7.1).
const ATTACH_MS: u64 = 3_000;

/// Attributes with the priorities of process and event.
const PROCESS_PRIORITY: &str = "_eschedProcessPriority";
const EVENT_PRIORITY: &str = "_eschedEventPriority";

/// What a model has beside its node.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) sources: Box<[Source]>,
    pub(crate) targets: Box<[Target]>,
    pub(crate) arena: AlignedBytes,
}

/// Name of a model for texts: the graph's node, or the numbers of the request.
pub(crate) fn name(request: &LoadModelRequest) -> String {
    let named = request.node_options.as_ref().map(|options| options.node_name.as_str());
    match (request.model_instance_name.as_str(), named) {
        ("", None | Some("")) => format!("model {}/{}", request.root_model_id, request.model_id),
        ("", Some(name)) | (name, _) => name.to_owned(),
    }
}

/// Refuses what this version does not have.
///
/// # Errors
/// [`Code::UNSUPPORTED`] for a dynamic model, [`Code::FEATURE_NOT_SUPPORT`] for the rest.
pub(crate) fn refuse_unsupported(request: &LoadModelRequest) -> Result<(), Failure> {
    let dynamic = request.is_dynamic || request.is_dynamic_proxy_controlled;
    let missing = Code::FEATURE_NOT_SUPPORT;
    let unsupported = [
        (dynamic, Code::UNSUPPORTED, "models of unknown shape (is_dynamic)"),
        (request.enable_exception_catch, missing, "exceptions by trans_id"),
        (request.is_dynamic_sched && request.need_report_status, missing, "status reports"),
        (!request.invoked_model_queues_attrs.is_empty(), missing, "invoked models"),
    ];
    match unsupported.iter().find(|(asked, ..)| *asked) {
        Some((_, code, what)) => {
            Err(Failure::new(*code, format!("{what}: not supported by this version")))
        }
        None => Ok(()),
    }
}

/// How urgent the model is, by the two attributes that say so (host, `priority` of a node).
///
/// # Errors
/// [`Code::PARAM_INVALID`]: one of them is not 0, 1 or 2.
pub(crate) fn level(request: &LoadModelRequest) -> Result<Level, Failure> {
    let part = |name: &str| match request.attrs.get(name).map(String::as_str) {
        None => Ok(-1),
        Some("0") => Ok(0),
        Some("1") => Ok(1),
        Some("2") => Ok(2),
        Some(other) => Err(invalid(format!("{name}: found {other:?}, expected 0, 1 or 2"))),
    };
    let (process, event) = (part(PROCESS_PRIORITY)?, part(EVENT_PRIORITY)?);
    Ok(Level::of(process, event).unwrap_or(Level::LOWEST))
}

/// Checks the request against the model, opens the queues into `node`, and makes what a run needs.
///
/// # Errors
/// [`Code::EXEC_MODEL_QUEUE_ID_INVALID`] when the number of queues is not that of the model's
/// inputs or outputs, [`Code::TOO_LARGE`] when an output fits no block of the partition,
/// [`Code::MEMORY_ALLOCATION`], [`Code::PARAM_INVALID`]; what opening a queue ends with.
pub(crate) fn fill(
    node: &mut Node<Orders>,
    request: &LoadModelRequest,
    model: &Arc<Model>,
    logger: &Logger,
) -> Result<Parts, Failure> {
    node.options = request::options(request, Code::PARAM_INVALID)?;
    let align = request::align(request, Code::PARAM_INVALID)?;
    let (queues, sources) = sources(request, model)?;
    let align_time = request::align_time(request, queues.len(), Code::PARAM_INVALID)?;
    let outputs = request::outputs(request);
    let (found, has) = (outputs.len(), model.outputs().len());
    // A model without outputs may have queues that say that a set is done.
    if found != has && has != 0 {
        return Err(wrong_count("output queues", found, "outputs", has));
    }
    let targets = targets(node, request, model)?;
    let ports =
        Ports { name: &name(request), inputs: &queues, outputs: &outputs, limit_ms: ATTACH_MS };
    open::ports(node, ports, logger)?;
    node.reader.align(align, Code::AICPU_DISCARD_DATA);
    let codes = Codes { apart: Code::AICPU_DISCARD_DATA, timeless: Code::AICPU_PARAM_INVALID };
    node.reader.align_by_time(align_time, codes);
    let mut targets = targets.into_boxed_slice();
    for (port, target) in targets.iter_mut().enumerate() {
        if node.writer.ports.get(port).is_none_or(std::ops::Range::is_empty) {
            target.unread = memory("an output that nobody reads", target.bytes)?;
        }
    }
    Ok(Parts { sources, targets, arena: memory("working memory", model.arena_bytes())? })
}

/// Memory for what a model says it needs.
fn memory(what: &str, bytes: usize) -> Result<AlignedBytes, Failure> {
    AlignedBytes::try_zeroed(bytes).map_err(|_| {
        let text = format!("{bytes} bytes of {what}: the system does not give so much (ENOMEM)");
        Failure::new(Code::MEMORY_ALLOCATION, text)
    })
}

fn wrong_count(what: &str, found: usize, of: &str, has: usize) -> Failure {
    let text = format!("{found} {what}, but the model has {has} {of}");
    Failure::new(Code::EXEC_MODEL_QUEUE_ID_INVALID, text)
}

fn invalid(text: impl Into<String>) -> Failure {
    Failure::new(Code::PARAM_INVALID, text)
}

/// The unique input queues in order, and where each input of the model comes from.
fn sources(
    request: &LoadModelRequest,
    model: &Model,
) -> Result<(Vec<u32>, Box<[Source]>), Failure> {
    let queues = request::inputs(request);
    let has = model.inputs().len();
    if queues.is_empty() {
        return Err(invalid("no input queue: a model needs one to know when to run"));
    }
    if queues.contains(&DUMMY_QUEUE) {
        return Err(invalid("an input without a queue"));
    }
    // Without inputs one queue is a control input: it only says when to run.
    let control = has == 0 && queues.len() == 1;
    let offsets = match request.input_fusion_offsets.as_slice() {
        [] => vec![0; queues.len()],
        given => given.to_vec(),
    };
    if !control && (queues.len() != has || offsets.len() != has) {
        let what = if queues.len() == has { "fusion offsets" } else { "input queues" };
        let found = if queues.len() == has { offsets.len() } else { queues.len() };
        return Err(wrong_count(what, found, "inputs", has));
    }
    if has > BOUND_MAX || model.outputs().len() > BOUND_MAX {
        return Err(Failure::new(
            Code::OVER_LIMIT,
            format!("more than {BOUND_MAX} in- or outputs"),
        ));
    }
    let mut unique = Vec::new();
    let mut sources = Vec::new();
    for (index, queue) in queues.iter().enumerate() {
        let port = unique.iter().position(|known| known == queue).unwrap_or_else(|| {
            unique.push(*queue);
            unique.len() - 1
        });
        let Some(info) = model.inputs().nth(index) else { continue };
        let offset = offsets.get(index).copied().unwrap_or(0);
        let tensor = usize::try_from(offset).ok().filter(|tensor| *tensor < BOUND_MAX);
        let tensor = tensor
            .ok_or_else(|| invalid(format!("input {index}: fusion offset {offset} is no index")))?;
        let bytes = if tensor == 0 { 0 } else { info.bytes() };
        let copy = memory("a fused input's copy", bytes)?;
        sources.push(Source { port, tensor, copy });
    }
    Ok((unique, sources.into()))
}

/// Where each output goes; every message must fit a block of the slot's partition.
fn targets(
    node: &Node<Orders>,
    request: &LoadModelRequest,
    model: &Model,
) -> Result<Vec<Target>, Failure> {
    let largest = largest_block(node);
    let mut targets = Vec::new();
    for (index, info) in model.outputs().enumerate() {
        let bytes = info.bytes();
        let size = (TENSOR_DESC_SIZE + bytes) as u64;
        if size > largest {
            let slot = node.worker.slot().0;
            let text = format!(
                "output {index} ({info}) needs messages of {size} bytes; the largest block of slot \
                 {slot} has {largest}: give {} larger blocks",
                name(request)
            );
            return Err(Failure::new(Code::TOO_LARGE, text));
        }
        let desc = desc(info).ok_or_else(|| invalid(format!("output {index}: {info}")))?;
        targets.push(Target { desc, bytes, mbuf: None, unread: AlignedBytes::default() });
    }
    Ok(targets)
}

fn largest_block(node: &Node<Orders>) -> u64 {
    let memory = node.worker.memory;
    let desc = memory.slot_descs.get(node.worker.slot().0 as usize);
    let pools = desc.and_then(|desc| {
        let first = desc.first_pool as usize;
        memory.pools.get(first..first + desc.pool_count as usize)
    });
    pools.unwrap_or_default().iter().map(|pool| pool.block_size).max().unwrap_or(0)
}

fn desc(info: &TensorInfo) -> Option<RuntimeTensorDesc> {
    let dims: Option<Vec<i64>> =
        info.shape.dims().iter().map(|dim| i64::try_from(*dim).ok()).collect();
    let dims = dims?;
    let mut desc = RuntimeTensorDesc::new(info.dtype, &dims)?;
    desc.original_shape = desc.shape;
    Some(desc)
}
