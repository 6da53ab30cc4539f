//! One real `udf-executor` in the harness: its queues, and its files in memory.
#![allow(dead_code, reason = "each test file uses its part")]
#![allow(clippy::unwrap_used, reason = "test support")]

use std::collections::BTreeMap;
use std::io::Write;
use std::ops::{Deref, DerefMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use executor_core::abi::control::SlotCtl;
use executor_core::abi::{DataType, RuntimeTensorDesc};
use executor_core::layout::{PartitionConfig, PoolConfig};
use executor_core::mbuf::Mbuf;
use executor_core::owner::QueueId;
use executor_core::queue::{Consumer, Producer};
use executor_rt::proto::{
    AttrKind, AttrValue, BatchLoadModelMessage, DestinationGroup, InputAlignAttrs,
    LoadModelRequest, ModelQueuesAttrs, NodeOptions, OutputDestinations, QueueAttrs, UdfDef,
    UdfModelDef,
};
use harness::{Fetched, PROCESS, Rig, Start, inherited};
use prost::Message;
use sys::memfd;

/// The test library, built as a dependency of these tests.
pub(crate) fn library() -> PathBuf {
    let exe = std::env::current_exe().unwrap();
    exe.parent().unwrap().join("libtestfuncs.so")
}

/// What to deploy.
#[derive(Clone)]
pub(crate) struct Setup {
    pub(crate) function: &'static str,
    pub(crate) inputs: u32,
    pub(crate) outputs: u32,
    pub(crate) attrs: Vec<(&'static str, i64)>,
    /// Attributes of other kinds.
    pub(crate) kinds: Vec<(&'static str, AttrKind)>,
    /// The library; the test library without one.
    pub(crate) library: Option<PathBuf>,
    /// The executor; the one that was built without one.
    pub(crate) program: Option<PathBuf>,
    pub(crate) request_attrs: Vec<(&'static str, &'static str)>,
    pub(crate) align: Option<InputAlignAttrs>,
    pub(crate) options: NodeOptions,
    pub(crate) depth: u32,
    pub(crate) blocks: u32,
    pub(crate) env: Vec<(&'static str, &'static str)>,
    /// The limit on file sizes, in blocks of 512 bytes; the log is as full as it may be.
    pub(crate) file_limit: Option<usize>,
    /// Consumer groups of each output port; a number is an output queue.
    pub(crate) destinations: Option<Vec<Vec<Vec<u32>>>>,
}

impl Setup {
    pub(crate) fn new(function: &'static str) -> Setup {
        Setup {
            function,
            inputs: 1,
            outputs: 1,
            attrs: Vec::new(),
            kinds: Vec::new(),
            library: None,
            program: None,
            request_attrs: Vec::new(),
            align: None,
            options: NodeOptions::default(),
            depth: 16,
            blocks: 32,
            env: Vec::new(),
            file_limit: None,
            destinations: None,
        }
    }

    pub(crate) fn ports(mut self, inputs: u32, outputs: u32) -> Setup {
        (self.inputs, self.outputs) = (inputs, outputs);
        self
    }

    /// An attribute of any kind.
    pub(crate) fn kind(mut self, name: &'static str, value: AttrKind) -> Setup {
        self.kinds.push((name, value));
        self
    }

    /// The function of another library.
    pub(crate) fn library(mut self, library: PathBuf) -> Setup {
        self.library = Some(library);
        self
    }

    pub(crate) fn attr(mut self, name: &'static str, value: i64) -> Setup {
        self.attrs.push((name, value));
        self
    }

    /// Inputs are put together by id.
    pub(crate) fn align(mut self, max: u32, timeout: i32, drop: bool) -> Setup {
        self.align = Some(InputAlignAttrs {
            align_max_cache_num: max,
            align_timeout: timeout,
            drop_when_not_align: drop,
        });
        self
    }

    pub(crate) fn options(mut self, change: impl FnOnce(&mut NodeOptions)) -> Setup {
        change(&mut self.options);
        self
    }
}

/// One node with its host.
pub(crate) struct Node {
    rig: Rig,
    pub(crate) inputs: Vec<Producer<'static>>,
    pub(crate) outputs: Vec<Consumer<'static>>,
    setup: Setup,
}

impl Deref for Node {
    type Target = Rig;

    fn deref(&self) -> &Rig {
        &self.rig
    }
}

impl DerefMut for Node {
    fn deref_mut(&mut self) -> &mut Rig {
        &mut self.rig
    }
}

impl Node {
    /// Creates group and queues and starts the process.
    pub(crate) fn start(setup: Setup) -> Node {
        let mut node = Node::prepare(setup);
        node.spawn();
        node
    }

    /// Creates group and queues.
    pub(crate) fn prepare(setup: Setup) -> Node {
        let pools = [
            PoolConfig { block_size: 2048, block_count: setup.blocks },
            PoolConfig { block_size: 65536, block_count: 4 },
        ];
        let depth = setup.depth;
        let mut rig = Rig::new(&[PartitionConfig { pools: &pools, extra_entries: 128 }], depth);
        let mut input = |i| rig.input(PROCESS, &format!("input{i}"), depth);
        let inputs = (0..setup.inputs).map(&mut input).collect();
        let mut output = |i| rig.output(PROCESS, &format!("output{i}"), depth);
        let outputs = (0..setup.outputs).map(&mut output).collect();
        Node { rig, inputs, outputs, setup }
    }

    fn files(&self) -> (OwnedFd, OwnedFd) {
        let attr = |value: i64| AttrValue { value: Some(AttrKind::I(value)) };
        let attrs = self.setup.attrs.iter().map(|(name, v)| ((*name).to_owned(), attr(*v)));
        let kind = |kind: &AttrKind| AttrValue { value: Some(kind.clone()) };
        let kinds = self.setup.kinds.iter().map(|(name, v)| ((*name).to_owned(), kind(v)));
        let def = UdfDef {
            name: "node".to_owned(),
            bin_name: "libtestfuncs.so".to_owned(),
            func_name: self.setup.function.to_owned(),
            attrs: attrs.chain(kinds).collect::<BTreeMap<_, _>>(),
            ..UdfDef::default()
        };
        let bytes = UdfModelDef { udf_def: vec![def] }.encode_to_vec();
        let model = memfd::from_bytes("model", &bytes).unwrap();
        let attrs = |ids: &[QueueId]| {
            let one = |id: &QueueId| QueueAttrs { queue_id: id.0, ..QueueAttrs::default() };
            ids.iter().map(one).collect::<Vec<_>>()
        };
        let inputs: Vec<QueueId> = self.inputs.iter().map(Producer::id).collect();
        let outputs: Vec<QueueId> = self.outputs.iter().map(Consumer::id).collect();
        let group = |numbers: &Vec<u32>| {
            let id = |n: &u32| outputs.get(*n as usize).map_or(u32::MAX, |id| id.0);
            DestinationGroup { queue_ids: numbers.iter().map(id).collect() }
        };
        let port = |groups: &Vec<Vec<u32>>| OutputDestinations {
            groups: groups.iter().map(group).collect(),
        };
        let mut options = self.setup.options.clone();
        let library = self.setup.library.clone().unwrap_or_else(library);
        options.library_path = library.to_str().unwrap().to_owned();
        let request = LoadModelRequest {
            model_path: inherited(&model),
            model_queues_attrs: Some(ModelQueuesAttrs {
                input_queues_attrs: attrs(&inputs),
                output_queues_attrs: attrs(&outputs),
            }),
            output_destinations: self
                .setup
                .destinations
                .as_ref()
                .map(|ports| ports.iter().map(port).collect())
                .unwrap_or_default(),
            attrs: self
                .setup
                .request_attrs
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
            input_align_attrs: self.setup.align,
            node_options: Some(options),
            ..LoadModelRequest::default()
        };
        let batch = BatchLoadModelMessage { models: vec![request], ..Default::default() };
        (memfd::from_bytes("load", &batch.encode_to_vec()).unwrap(), model)
    }

    /// Starts the next generation.
    pub(crate) fn spawn(&mut self) {
        let (load, model) = self.files();
        self.spawn_with(&load, &[model.as_fd()]);
    }

    /// Starts the next generation with another load file.
    pub(crate) fn spawn_with(&mut self, load: &OwnedFd, others: &[BorrowedFd<'_>]) {
        let mut args = vec![
            "--device_id=0".to_owned(),
            format!("--load_path={}", inherited(load)),
            "--group_name=test".to_owned(),
            format!("--req_queue_id={}", self.requests.id().0),
            format!("--rsp_queue_id={}", self.responses.id().0),
        ];
        let built = PathBuf::from(env!("CARGO_BIN_EXE_udf-executor"));
        let mut program = self.setup.program.clone().unwrap_or(built);
        if let Some(blocks) = self.setup.file_limit {
            (&self.log).write_all(&vec![b'\n'; blocks * 512]).unwrap();
            let script = format!("ulimit -f {blocks}; exec \"$0\" \"$@\"");
            let real = program.to_str().unwrap().to_owned();
            args.splice(0..0, ["-c".to_owned(), script, real]);
            program = PathBuf::from("/bin/sh");
        }
        let mut inherit = vec![load.as_fd()];
        inherit.extend(others);
        self.rig.spawn(&Start {
            program: &program,
            node: "node",
            args: &args,
            env: &self.setup.env,
            inherit: &inherit,
        });
    }

    pub(crate) fn ctl(&self) -> &'static SlotCtl {
        self.rig.ctl(PROCESS)
    }

    /// The words of the process, to be written over.
    pub(crate) fn own_words(&self) -> &'static SlotCtl {
        self.supervisor.group.memory.private(PROCESS).unwrap().ctl
    }

    /// The init response of a good start.
    pub(crate) fn ready(&mut self) {
        self.expect_good("Execute init success.");
    }

    /// A tensor of i64 for `trans_id`.
    pub(crate) fn tensor(&mut self, trans_id: u64, dims: &[i64], values: &[i64]) -> Mbuf {
        let values: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.tensor_of(trans_id, DataType::INT64, dims, &values)
    }

    /// A tensor of any type for `trans_id`.
    pub(crate) fn tensor_of(
        &mut self,
        trans_id: u64,
        data_type: DataType,
        dims: &[i64],
        values: &[u8],
    ) -> Mbuf {
        let desc = RuntimeTensorDesc::new(data_type, dims).unwrap();
        self.message(trans_id, &[(desc, values.to_vec())])
    }

    /// Feeds a message to an input.
    pub(crate) fn feed_mbuf(&mut self, input: usize, mbuf: Mbuf) {
        self.rig.enqueue(&mut self.inputs[input], mbuf);
    }

    /// Feeds a vector to an input.
    pub(crate) fn feed(&mut self, input: usize, trans_id: u64, values: &[i64]) {
        let count = i64::try_from(values.len()).unwrap();
        let mbuf = self.tensor(trans_id, &[count], values);
        self.feed_mbuf(input, mbuf);
    }

    /// The next message of an output; panics with the log when none comes.
    pub(crate) fn fetch(&mut self, output: usize) -> Fetched {
        self.rig.dequeue(&mut self.outputs[output])
    }

    /// True when nothing is queued at an output now.
    pub(crate) fn is_silent(&mut self, output: usize) -> bool {
        self.rig.is_empty(&mut self.outputs[output])
    }

    /// Looks until the log has `text`, or the watchdog barks.
    pub(crate) fn until_logged(&self, text: &str) {
        self.until(text, |_| self.logs().contains(text));
    }

    /// Looks until `done`, or the watchdog barks.
    pub(crate) fn until(&self, what: &str, done: impl FnMut(&SlotCtl) -> bool) {
        self.rig.until(what, PROCESS, done);
    }

    /// Waits until set `set` is inside the function.
    pub(crate) fn until_in_function(&self, set: u64) {
        self.until_inside(PROCESS, set);
    }

    /// Kill, reap, sweep, next generation; messages adopted.
    pub(crate) fn kill_and_restart(&mut self) -> u32 {
        let adopted = self.kill();
        self.spawn();
        adopted
    }
}
