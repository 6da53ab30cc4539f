//! Plays host and supervisor around one real `udf-executor` process: two slots, queues, files in
//! memory.
#![allow(dead_code, reason = "each test file uses its part")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "test support")]

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use executor_core::abi::control::SlotCtl;
use executor_core::abi::{DataType, MsgInfo, MsgType, RuntimeTensorDesc, TENSOR_DESC_SIZE};
use executor_core::error::{Code, DequeueError};
use executor_core::inspect;
use executor_core::layout::{GroupConfig, PartitionConfig, PoolConfig};
use executor_core::mbuf::Mbuf;
use executor_core::owner::{QueueId, SlotId};
use executor_core::pool::{Head, Worker};
use executor_core::primitive::Ordering;
use executor_core::queue::{Consumer, Producer, QueueConfig, QueueFlags, Rights};
use executor_core::sweep::{Inputs, Sweeper, Swept, suspect_words};
use executor_rt::attach::{Attached, Created, Role, attach, create};
use executor_rt::proto::{
    AttrKind, AttrValue, BatchLoadModelMessage, DestinationGroup, ExecutorResponse,
    LoadModelRequest, ModelQueuesAttrs, NodeOptions, OutputDestinations, QueueAttrs, UdfDef,
    UdfModelDef, decode_response,
};
use executor_rt::waiter::{Waiter, ring_all};
use executor_rt::{payload, port};
use prost::Message;
use sys::clock::MonoTime;
use sys::doorbell::EventFd;
use sys::memfd;
use sys::pidfd::Event;
use sys::poll::{Events, PollFd, poll};
use sys::signal::Signal;
use sys::spawn::{Child, Spawn};

/// Nothing here takes that long unless it hangs.
pub(crate) const WATCHDOG_MS: u64 = 30_000;

pub(crate) fn watchdog() -> Option<MonoTime> {
    Some(MonoTime::now().add_ms(WATCHDOG_MS))
}

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

    pub(crate) fn options(mut self, change: impl FnOnce(&mut NodeOptions)) -> Setup {
        change(&mut self.options);
        self
    }
}

/// One node with its host.
pub(crate) struct Node {
    created: Created,
    pub(crate) host: &'static Attached,
    supervisor: &'static Attached,
    pub(crate) worker: Worker<'static>,
    pub(crate) waiter: Waiter<'static>,
    pub(crate) inputs: Vec<Producer<'static>>,
    pub(crate) outputs: Vec<Consumer<'static>>,
    pub(crate) requests: Producer<'static>,
    pub(crate) responses: Consumer<'static>,
    pub(crate) log: File,
    /// Rung by a process that is ready.
    pub(crate) bell: EventFd,
    setup: Setup,
    suspects: Vec<u64>,
    generation: u32,
    child: Option<Child>,
}

const EXECUTOR: SlotId = SlotId(1);
const HOST: SlotId = SlotId(0);

fn queue(host: &Attached, worker: &Worker<'static>, name: &str, depth: u32, to: SlotId) -> QueueId {
    let memory = host.group.memory;
    let config = QueueConfig {
        name,
        depth,
        flags: QueueFlags::empty(),
        consumer: to,
        consumer_waiter: 0,
        ready_bit: u32::try_from(name.len() % 8).unwrap(),
    };
    let id = memory.create_queue(worker, &config).unwrap();
    let from = if to == HOST { EXECUTOR } else { HOST };
    memory.grant_queue(worker, id, from, Rights::WRITE).unwrap();
    id
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
        let partition = PartitionConfig { pools: &pools, extra_entries: 128 };
        let host_pools = [
            PoolConfig { block_size: 4096, block_count: 64 },
            PoolConfig { block_size: 5 << 20, block_count: 1 },
        ];
        let host_part = PartitionConfig { pools: &host_pools, extra_entries: 16 };
        let config = GroupConfig {
            name: "test",
            partitions: &[host_part, partition],
            workers: 1,
            lanes: 16,
            heads: 16,
            ring_words: 1024,
            queues: 16,
        };
        let created = create(&config, true).unwrap();
        let (control, arena) = (created.control.as_fd(), created.arena.as_fd());
        let host = attach(control, arena, Role::Member(HOST)).unwrap();
        let supervisor = attach(control, arena, Role::Supervisor).unwrap();
        let worker = host.worker(0, 1).unwrap();
        let waiter = Waiter::new(&host.group.memory, HOST, 0).unwrap();
        let depth = setup.depth;
        let ids = |what: &str, count: u32, to: SlotId| -> Vec<QueueId> {
            (0..count).map(|i| queue(host, &worker, &format!("{what}{i}"), depth, to)).collect()
        };
        let inputs = ids("input", setup.inputs, EXECUTOR);
        let outputs = ids("output", setup.outputs, HOST);
        let requests = queue(host, &worker, "request", depth, EXECUTOR);
        let responses = queue(host, &worker, "response", depth, HOST);
        let open = |id: &QueueId| Producer::open(&worker, *id, None).unwrap();
        Node {
            inputs: inputs.iter().map(open).collect(),
            outputs: outputs.iter().map(|id| Consumer::open(&worker, *id).unwrap()).collect(),
            requests: open(&requests),
            responses: Consumer::open(&worker, responses).unwrap(),
            log: memfd::append_log("log").unwrap().into(),
            bell: EventFd::new().unwrap(),
            suspects: vec![0; suspect_words(&host.group)],
            created,
            host,
            supervisor,
            worker,
            waiter,
            setup,
            generation: 0,
            child: None,
        }
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
            model_path: path_of(&model),
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
        self.generation += 1;
        let fd = |fd: &OwnedFd| fd.as_raw_fd().to_string();
        let mut env: Vec<(String, String)> = [
            ("DFLOW_CONTROL_FD", fd(&self.created.control)),
            ("DFLOW_ARENA_FD", fd(&self.created.arena)),
            ("DFLOW_SLOT", "1".to_owned()),
            ("DFLOW_GENERATION", self.generation.to_string()),
            ("DFLOW_NODE", "node".to_owned()),
            ("DFLOW_READY_FD", self.bell.as_fd().as_raw_fd().to_string()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .to_vec();
        env.extend(self.setup.env.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())));
        let args = [
            "--device_id=0".to_owned(),
            format!("--load_path={}", path_of(load)),
            "--group_name=test".to_owned(),
            format!("--req_queue_id={}", self.requests.id().0),
            format!("--rsp_queue_id={}", self.responses.id().0),
        ];
        let mut inherit =
            vec![self.created.control.as_fd(), self.created.arena.as_fd(), load.as_fd()];
        inherit.push(self.bell.as_fd());
        inherit.extend(others);
        let built = PathBuf::from(env!("CARGO_BIN_EXE_udf-executor"));
        let mut program = self.setup.program.clone().unwrap_or(built);
        let mut args = args.to_vec();
        if let Some(blocks) = self.setup.file_limit {
            (&self.log).write_all(&vec![b'\n'; blocks * 512]).unwrap();
            let script = format!("ulimit -f {blocks}; exec \"$0\" \"$@\"");
            let real = program.to_str().unwrap().to_owned();
            args.splice(0..0, ["-c".to_owned(), script, real]);
            program = PathBuf::from("/bin/sh");
        }
        let spawn = Spawn {
            program: &program,
            args: &args,
            env: &env,
            inherit: &inherit,
            stdin: None,
            stdout: Some(self.log.as_fd()),
            stderr: Some(self.log.as_fd()),
            death_signal: None,
        };
        self.child = Some(spawn.spawn().unwrap());
    }

    pub(crate) fn ctl(&self) -> &'static SlotCtl {
        self.host.group.memory.private(1).unwrap().ctl
    }

    /// The words of the process, to be written over.
    pub(crate) fn own_words(&self) -> &'static SlotCtl {
        self.supervisor.group.memory.private(1).unwrap().ctl
    }

    pub(crate) fn logs(&self) -> String {
        String::from_utf8(memfd::read_all(&self.log).unwrap()).unwrap()
    }

    /// The next response; panics with the log when none comes.
    pub(crate) fn response(&mut self) -> ExecutorResponse {
        let got = port::dequeue(&mut self.worker, &mut self.responses, &self.waiter, watchdog());
        let mbuf = got.unwrap_or_else(|e| panic!("response: {e}\n{}", self.logs()));
        let response = decode_response(payload::bytes(&self.worker.of(&mbuf))).unwrap();
        port::free(&mut self.worker, mbuf);
        response
    }

    /// The init response of a good start.
    pub(crate) fn ready(&mut self) {
        let response = self.response();
        assert_eq!(response.error_code, 0, "{}", self.logs());
        assert_eq!(response.error_message, "Execute init success.");
    }

    /// Sends bytes to the request queue.
    pub(crate) fn request(&mut self, msg_type: u16, bytes: &[u8]) {
        let size = bytes.len().max(1) as u64;
        let mut mbuf =
            port::alloc(&mut self.worker, &self.waiter, size, Head::Zeroed, watchdog()).unwrap();
        assert!(payload::write(&self.worker, &mut mbuf, bytes));
        self.worker.of(&mbuf).update_msg_info(|info| info.msg_type = MsgType(msg_type));
        port::enqueue(&mut self.worker, &mut self.requests, &self.waiter, mbuf, watchdog())
            .unwrap();
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
        let size = TENSOR_DESC_SIZE + values.len();
        let mut mbuf =
            port::alloc(&mut self.worker, &self.waiter, size as u64, Head::Zeroed, watchdog())
                .unwrap();
        let mut bytes = vec![0; TENSOR_DESC_SIZE];
        bytes.extend(values);
        assert!(payload::write(&self.worker, &mut mbuf, &bytes));
        assert!(payload::set_tensor_desc(&self.worker, &mut mbuf, &desc));
        let access = self.worker.of(&mbuf);
        access.update_msg_info(|info| info.trans_id = trans_id);
        access.write_head(0, &trans_id.to_le_bytes());
        mbuf
    }

    /// Feeds a message to an input.
    pub(crate) fn feed_mbuf(&mut self, input: usize, mbuf: Mbuf) {
        let producer = &mut self.inputs[input];
        port::enqueue(&mut self.worker, producer, &self.waiter, mbuf, watchdog()).unwrap();
    }

    /// Feeds a vector to an input.
    pub(crate) fn feed(&mut self, input: usize, trans_id: u64, values: &[i64]) {
        let count = i64::try_from(values.len()).unwrap();
        let mbuf = self.tensor(trans_id, &[count], values);
        self.feed_mbuf(input, mbuf);
    }

    /// The next message of an output; panics with the log when none comes.
    pub(crate) fn fetch(&mut self, output: usize) -> Fetched {
        let consumer = &mut self.outputs[output];
        let got = port::dequeue(&mut self.worker, consumer, &self.waiter, watchdog());
        let mbuf = got.unwrap_or_else(|e| panic!("output {output}: {e}\n{}", self.logs()));
        let access = self.worker.of(&mbuf);
        let bytes = payload::bytes(&access).to_vec();
        let desc = payload::tensor_desc(&access);
        let fetched = Fetched {
            info: access.msg_info(),
            dims: desc.and_then(|desc| desc.dims().map(<[i64]>::to_vec)).unwrap_or_default(),
            values: bytes.get(TENSOR_DESC_SIZE..).unwrap_or(&[]).to_vec(),
            user: access.head_word(0),
            home: self.host.group.memory.blocks[mbuf.block() as usize].slot,
        };
        port::free(&mut self.worker, mbuf);
        fetched
    }

    /// True when nothing is queued at an output now.
    pub(crate) fn is_silent(&mut self, output: usize) -> bool {
        match self.outputs[output].dequeue(&mut self.worker) {
            Err(DequeueError::Empty) => true,
            Err(other) => panic!("{other}"),
            Ok((mbuf, _)) => {
                let info = self.worker.of(&mbuf).msg_info();
                port::free(&mut self.worker, mbuf);
                eprintln!("unexpected: {info:?}");
                false
            }
        }
    }

    /// Looks until the log has `text`, or the watchdog barks.
    pub(crate) fn until_logged(&self, text: &str) {
        self.until(text, |_| self.logs().contains(text));
    }

    /// Looks until `done`, or the watchdog barks.
    pub(crate) fn until(&self, what: &str, mut done: impl FnMut(&SlotCtl) -> bool) {
        let limit = watchdog().unwrap();
        while !done(self.ctl()) {
            assert!(!limit.is_past(MonoTime::now()), "never: {what}\n{}", self.logs());
            std::thread::yield_now();
        }
    }

    /// Waits until set `set` is inside the function.
    pub(crate) fn until_in_function(&self, set: u64) {
        self.until("in the function", |ctl| {
            ctl.set_delivered.load(Ordering::Acquire) == set
                && ctl.state.load(Ordering::Acquire) == 4
        });
    }

    pub(crate) fn signal(&self, signal: Signal) {
        self.child.as_ref().unwrap().pidfd.signal(signal).unwrap();
    }

    /// Waits for the end of the process.
    pub(crate) fn end(&mut self) -> Event {
        let child = self.child.take().unwrap();
        let mut fds = [PollFd::new(&child.pidfd, Events::IN)];
        let ready = poll(&mut fds, watchdog()).unwrap();
        if ready == 0 {
            child.pidfd.signal(Signal::KILL).unwrap();
            panic!("the process does not end\n{}", self.logs());
        }
        child.pidfd.wait_end().unwrap()
    }

    /// What a supervisor does between two generations.
    pub(crate) fn sweep(&mut self) -> Swept {
        let group = self.supervisor.group;
        let swept = Sweeper::new(&group, &mut self.suspects).sweep(EXECUTOR, Inputs::Adopt);
        ring_all(&group.memory);
        swept
    }

    /// Kill, reap, sweep, next generation.
    pub(crate) fn kill_and_restart(&mut self) -> Swept {
        self.signal(Signal::KILL);
        self.end();
        let swept = self.sweep();
        self.spawn();
        swept
    }

    /// Ends the process by a finalize message; it must end well, and nothing may be left but its
    /// spare mbuf.
    pub(crate) fn finalize(&mut self) {
        self.request(2, &[0]);
        let event = self.end();
        assert_eq!(event, Event::Exited(0), "{}", self.logs());
        self.sweep();
        let usage = inspect::usage(&self.host.group);
        assert_eq!((usage.entries, usage.blocks), (0, 0), "{:?}\n{}", usage, self.logs());
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(child) = self.child.take() {
            let _gone = child.pidfd.signal(Signal::KILL);
            let _gone = child.pidfd.wait_end();
        }
        let _done = (self.host.retire(), self.supervisor.retire());
    }
}

/// `/proc/self/fd/N` of a descriptor that the child inherits.
pub(crate) fn path_of(fd: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}

/// What came out.
#[derive(Debug)]
pub(crate) struct Fetched {
    pub(crate) info: MsgInfo,
    pub(crate) dims: Vec<i64>,
    pub(crate) values: Vec<u8>,
    pub(crate) user: u64,
    pub(crate) home: u32,
}

impl Fetched {
    pub(crate) fn id(&self) -> u64 {
        self.info.trans_id
    }

    pub(crate) fn code(&self) -> Code {
        Code::from_ret_code(self.info.ret_code)
    }

    pub(crate) fn ints(&self) -> Vec<i64> {
        self.values.as_chunks::<8>().0.iter().map(|bytes| i64::from_le_bytes(*bytes)).collect()
    }

    /// Checks that it is an answer without data.
    pub(crate) fn assert_answer(&self, id: u64, code: Code) {
        assert_eq!((self.id(), self.code()), (id, code), "{self:?}");
        assert!(self.info.is_null_data(), "{self:?}");
        assert_eq!(self.user, id, "head of the input");
    }
}
