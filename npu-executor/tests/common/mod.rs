//! One real `npu-executor` in the harness: a slot for the device, three for models; queues, models
//! and the load file in memory.
#![allow(dead_code, reason = "each test file uses its part")]
#![allow(clippy::unwrap_used, reason = "test support")]

pub(crate) mod models;

use std::ops::{Deref, DerefMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use executor_core::abi::{DataFlag, DataType, RuntimeTensorDesc};
use executor_core::error::Code;
use executor_core::layout::{PartitionConfig, PoolConfig};
use executor_core::mbuf::Mbuf;
use executor_core::owner::QueueId;
use executor_core::queue::{Consumer, Producer};
use executor_rt::proto::{
    BatchLoadModelMessage, ExecutorRequest, ExecutorResponse, LoadModelRequest, ModelQueuesAttrs,
    NodeOptions, QueueAttrs,
};
use harness::{Fetched, PROCESS, Rig, Start, inherited};
use prost::Message;
use sys::memfd;

/// Slot of the process; those of models follow.
pub(crate) const DEVICE: u32 = PROCESS;
/// Depth of every queue.
const DEPTH: u32 = 16;

/// The queues of one model.
pub(crate) struct Links {
    pub(crate) slot: u32,
    pub(crate) inputs: Vec<Producer<'static>>,
    pub(crate) outputs: Vec<Consumer<'static>>,
}

impl Links {
    /// A load request for `path` as model `model_id` of root 7 in this slot.
    pub(crate) fn request(&self, model_id: u32, path: &str) -> LoadModelRequest {
        let attrs = |ids: Vec<QueueId>| {
            let one = |id: QueueId| QueueAttrs { queue_id: id.0, ..QueueAttrs::default() };
            ids.into_iter().map(one).collect()
        };
        LoadModelRequest {
            root_model_id: 7,
            model_id,
            model_path: path.to_owned(),
            execute_times: -1,
            model_queues_attrs: Some(ModelQueuesAttrs {
                input_queues_attrs: attrs(self.inputs.iter().map(Producer::id).collect()),
                output_queues_attrs: attrs(self.outputs.iter().map(Consumer::id).collect()),
            }),
            node_options: Some(NodeOptions {
                node_name: format!("model{model_id}"),
                slot: self.slot,
                ..NodeOptions::default()
            }),
            ..LoadModelRequest::default()
        }
    }
}

/// One device with its host.
pub(crate) struct Device {
    rig: Rig,
    queues: u32,
    load: Vec<LoadModelRequest>,
    /// Sealed models, inherited by every generation.
    models: Vec<OwnedFd>,
    pub(crate) env: Vec<(&'static str, &'static str)>,
    pub(crate) base_dir: &'static str,
    /// `--threads`.
    pub(crate) threads: &'static str,
    /// `--cores`.
    pub(crate) cores: Option<&'static str>,
}

impl Deref for Device {
    type Target = Rig;

    fn deref(&self) -> &Rig {
        &self.rig
    }
}

impl DerefMut for Device {
    fn deref_mut(&mut self) -> &mut Rig {
        &mut self.rig
    }
}

impl Device {
    pub(crate) fn new() -> Device {
        Device::with_places(3)
    }

    /// A device with so many slots for models, from 2 on.
    pub(crate) fn with_places(places: usize) -> Device {
        let pools = [
            PoolConfig { block_size: 2048, block_count: 40 },
            PoolConfig { block_size: 8192, block_count: 24 },
        ];
        let part = PartitionConfig { pools: &pools, extra_entries: 64 };
        Device {
            rig: Rig::new(&vec![part; places + 1], DEPTH),
            queues: 0,
            load: Vec::new(),
            models: Vec::new(),
            env: Vec::new(),
            base_dir: "",
            threads: "1",
            cores: None,
        }
    }

    /// Queues between the host and the model of a slot.
    pub(crate) fn link(&mut self, slot: u32, inputs: u32, outputs: u32) -> Links {
        let Device { rig, queues, .. } = self;
        let mut name = || {
            *queues += 1;
            format!("q{queues}")
        };
        Links {
            slot,
            inputs: (0..inputs).map(|_| rig.input(slot, &name(), DEPTH)).collect(),
            outputs: (0..outputs).map(|_| rig.output(slot, &name(), DEPTH)).collect(),
        }
    }

    /// A sealed memory file that every process of this device inherits; its path.
    pub(crate) fn model(&mut self, om: &[u8]) -> String {
        let fd = memfd::from_bytes("model", om).unwrap();
        let path = inherited(&fd);
        self.models.push(fd);
        path
    }

    /// Adds a model to the load file.
    pub(crate) fn preload(&mut self, request: LoadModelRequest) {
        self.load.push(request);
    }

    /// A model with one input and one output in `slot`, in the load file.
    pub(crate) fn with(&mut self, slot: u32, om: &[u8]) -> Links {
        let links = self.link(slot, 1, 1);
        let path = self.model(om);
        self.preload(links.request(slot, &path));
        links
    }

    /// Starts the next generation.
    pub(crate) fn spawn(&mut self) {
        let batch =
            BatchLoadModelMessage { models: self.load.clone(), ..BatchLoadModelMessage::default() };
        let load = memfd::from_bytes("load", &batch.encode_to_vec()).unwrap();
        let mut args = vec![
            "test".to_owned(),
            self.requests.id().0.to_string(),
            self.responses.id().0.to_string(),
            "0".to_owned(),
            format!("--base_dir={}", self.base_dir),
            format!("--load_path={}", inherited(&load).trim_start_matches(self.base_dir)),
            format!("--threads={}", self.threads),
        ];
        args.extend(self.cores.map(|cores| format!("--cores={cores}")));
        let mut inherit: Vec<BorrowedFd<'_>> = vec![load.as_fd()];
        inherit.extend(self.models.iter().map(AsFd::as_fd));
        self.rig.spawn(&Start {
            program: Path::new(env!("CARGO_BIN_EXE_npu-executor")),
            node: "device0",
            args: &args,
            env: &self.env,
            inherit: &inherit,
        });
    }

    /// Starts it and takes the init response of a good start.
    pub(crate) fn start(&mut self) {
        self.spawn();
        self.expect_good("Executor initialized success.");
    }

    /// One request and its response.
    pub(crate) fn ask(&mut self, request: &ExecutorRequest) -> ExecutorResponse {
        self.send(0, &request.encode_to_vec());
        self.response()
    }

    /// Loads models while the process runs.
    pub(crate) fn load(&mut self, models: Vec<LoadModelRequest>) -> ExecutorResponse {
        self.ask(&load_request(models))
    }

    /// As [`Device::load`], and it must go well.
    pub(crate) fn load_well(&mut self, models: Vec<LoadModelRequest>) {
        self.send(0, &load_request(models).encode_to_vec());
        self.expect_good("success");
    }

    /// A tensor for `trans_id`.
    pub(crate) fn tensor(
        &mut self,
        id: u64,
        dtype: DataType,
        dims: &[i64],
        values: &[f32],
    ) -> Mbuf {
        let desc = RuntimeTensorDesc::new(dtype, dims).unwrap();
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.message(id, &[(desc, bytes)])
    }

    /// Feeds a message.
    pub(crate) fn feed_mbuf(&mut self, links: &mut Links, input: usize, mbuf: Mbuf) {
        self.enqueue(&mut links.inputs[input], mbuf);
    }

    /// Feeds a vector of floats.
    pub(crate) fn feed(&mut self, links: &mut Links, input: usize, id: u64, values: &[f32]) {
        let dims = [i64::try_from(values.len()).unwrap()];
        let mbuf = self.tensor(id, DataType::FLOAT, &dims, values);
        self.feed_mbuf(links, input, mbuf);
    }

    /// Feeds a message without data and with a code.
    pub(crate) fn feed_code(&mut self, links: &mut Links, input: usize, id: u64, code: Code) {
        let mbuf = self.tensor(id, DataType::FLOAT, &[1], &[0.0]);
        self.mark(&mbuf, code);
        self.feed_mbuf(links, input, mbuf);
    }

    /// Makes it a message without data and with a code.
    pub(crate) fn mark(&mut self, mbuf: &Mbuf, code: Code) {
        self.worker.of(mbuf).update_msg_info(|info| {
            info.ret_code = code.to_ret_code();
            info.worker_id = 63;
            info.data_flag |= DataFlag::NULL_DATA.bits();
        });
    }

    /// The next message of an output; panics with the log when none comes.
    pub(crate) fn fetch(&mut self, links: &mut Links, output: usize) -> Fetched {
        self.dequeue(&mut links.outputs[output])
    }

    /// True when nothing is queued at an output now.
    pub(crate) fn is_silent(&mut self, links: &mut Links, output: usize) -> bool {
        self.is_empty(&mut links.outputs[output])
    }

    /// Kill, reap, sweep, next generation.
    pub(crate) fn kill_and_restart(&mut self) -> u32 {
        let adopted = self.kill();
        self.start();
        adopted
    }
}

fn load_request(models: Vec<LoadModelRequest>) -> ExecutorRequest {
    let batch_load_model_message = Some(BatchLoadModelMessage { models, ..Default::default() });
    ExecutorRequest { batch_load_model_message, ..Default::default() }
}
