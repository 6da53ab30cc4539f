//! What a `LoadModelRequest` says of a node, whatever it executes; files that requests name.

use std::path::Path;

use executor_core::error::Code;

use super::align::Settings;
use super::by_time;
use super::{Failure, Options};
use crate::proto::{DestinationGroup, LoadModelRequest, NodeOptions, OutputDestinations};

/// Milliseconds that an allocation waits for a free mbuf, unless the attribute says otherwise.
const ALLOC_TIMEOUT_MS: u64 = 10_000;
/// Request attribute with another number of milliseconds.
const ATTR_ALLOC_TIMEOUT: &str = "_dflow_alloc_timeout_ms";

/// Options of the node. Rounds of spinning and timing come from the environment (`DFLOW_SPIN`,
/// `DFLOW_TIMING`).
///
/// # Errors
/// `bad_value` with a text: an attribute is no number.
pub fn options(request: &LoadModelRequest, bad_value: Code) -> Result<Options, Failure> {
    let default = NodeOptions::default();
    let node = request.node_options.as_ref().unwrap_or(&default);
    let alloc_timeout_ms = match request.attrs.get(ATTR_ALLOC_TIMEOUT) {
        None => ALLOC_TIMEOUT_MS,
        Some(text) => text.parse().map_err(|_| {
            let what = format!("{ATTR_ALLOC_TIMEOUT}: found {text:?}, expected milliseconds");
            Failure::new(bad_value, what)
        })?,
    };
    let env = |name: &str| std::env::var(name).ok();
    Ok(Options {
        stateful: node.stateful,
        redeliver: node.redeliver,
        poison_limit: u64::from(node.poison_limit),
        is_head: request.is_head,
        alloc_timeout_ms,
        spin: env("DFLOW_SPIN").and_then(|text| text.parse().ok()).unwrap_or(0),
        timing: env("DFLOW_TIMING").is_some_and(|text| text == "1"),
    })
}

/// How the node aligns its inputs.
///
/// # Errors
/// `bad_value` with a text: out of its range.
pub fn align(request: &LoadModelRequest, bad_value: Code) -> Result<Option<Settings>, Failure> {
    let settings = Settings::of(request.input_align_attrs.as_ref());
    settings.map_err(|text| Failure::new(bad_value, format!("input_align_attrs: {text}")))
}

/// How the node aligns its inputs, of which it has so many, by time.
///
/// # Errors
/// `bad_value` with a text: out of its range, or by id, too.
pub fn align_time(
    request: &LoadModelRequest,
    inputs: usize,
    bad_value: Code,
) -> Result<Option<by_time::Settings>, Failure> {
    let by_time = request.input_align_time.as_ref();
    let by_id = request.input_align_attrs.is_some_and(|attrs| attrs.align_max_cache_num != 0);
    if by_time.is_some() && by_id {
        let text = "input_align_time with input_align_attrs: inputs are aligned by one of them";
        return Err(Failure::new(bad_value, text));
    }
    let settings = by_time::Settings::of(by_time, inputs);
    settings.map_err(|text| Failure::new(bad_value, format!("input_align_time: {text}")))
}

/// Queue of each input port.
#[must_use]
pub fn inputs(request: &LoadModelRequest) -> Vec<u32> {
    let queues = request.model_queues_attrs.iter().flat_map(|queues| &queues.input_queues_attrs);
    queues.map(|queue| queue.queue_id).collect()
}

/// Destinations of each output port: those of the request, or else the one queue of each output.
#[must_use]
pub fn outputs(request: &LoadModelRequest) -> Vec<OutputDestinations> {
    if !request.output_destinations.is_empty() {
        return request.output_destinations.clone();
    }
    let single = |id| DestinationGroup { queue_ids: vec![id] };
    let queues = request.model_queues_attrs.iter().flat_map(|queues| &queues.output_queues_attrs);
    queues.map(|queue| OutputDestinations { groups: vec![single(queue.queue_id)] }).collect()
}

/// Reads a file of at most `limit` bytes.
///
/// # Errors
/// `bad_file` with path and reason; [`Code::TOO_LARGE`].
pub fn read(path: &Path, limit: usize, bad_file: Code) -> Result<Vec<u8>, Failure> {
    let bad = |e: std::io::Error| Failure::new(bad_file, format!("{}: {e}", path.display()));
    let len = std::fs::metadata(path).map_err(bad)?.len();
    if len > limit as u64 {
        let text = format!("{}: {len} bytes, at most {limit} are allowed", path.display());
        return Err(Failure::new(Code::TOO_LARGE, text));
    }
    std::fs::read(path).map_err(bad)
}

/// Closes an inherited memory file that was read: nothing of it is needed any more.
pub fn close_inherited(path: &Path) {
    let number = path.to_str().and_then(|text| text.strip_prefix("/proc/self/fd/"));
    if let Some(raw) = number.and_then(|number| number.parse().ok()) {
        drop(sys::inherited::take(raw));
    }
}
