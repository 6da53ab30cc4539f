//! Plays host and supervisor around one real `npu-executor` process: a slot for the host, one for
//! the device, three for models; queues, models and the load file in memory.
#![allow(dead_code, reason = "each test file uses its part")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "test support")]

pub(crate) mod models;

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use executor_core::abi::control::SlotCtl;
use executor_core::abi::{
    DataFlag, DataType, MsgInfo, MsgType, RuntimeTensorDesc, TENSOR_DESC_SIZE,
};
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
    BatchLoadModelMessage, ExecutorRequest, ExecutorResponse, LoadModelRequest, ModelQueuesAttrs,
    NodeOptions, QueueAttrs, decode_response,
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
const WATCHDOG_MS: u64 = 60_000;
const HOST: SlotId = SlotId(0);
/// Slot of the process.
pub(crate) const DEVICE: u32 = 1;
/// Slots of models.
pub(crate) const PLACES: [u32; 3] = [2, 3, 4];

pub(crate) fn watchdog() -> Option<MonoTime> {
    Some(MonoTime::now().add_ms(WATCHDOG_MS))
}

/// `/proc/self/fd/N` of a descriptor that the child inherits.
pub(crate) fn inherited(fd: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}

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
    created: Created,
    pub(crate) host: &'static Attached,
    supervisor: &'static Attached,
    pub(crate) worker: Worker<'static>,
    waiter: Waiter<'static>,
    requests: Producer<'static>,
    responses: Consumer<'static>,
    log: File,
    bell: EventFd,
    suspects: Vec<u64>,
    generation: u32,
    child: Option<Child>,
    queues: u32,
    load: Vec<LoadModelRequest>,
    /// Sealed models, inherited by every generation.
    models: Vec<OwnedFd>,
    pub(crate) env: Vec<(&'static str, &'static str)>,
    pub(crate) base_dir: &'static str,
}

fn queue(host: &Attached, worker: &Worker<'static>, name: &str, from: u32, to: u32) -> QueueId {
    let memory = host.group.memory;
    let config = QueueConfig {
        name,
        depth: 16,
        flags: QueueFlags::empty(),
        consumer: SlotId(to),
        consumer_waiter: 0,
        ready_bit: u32::try_from(name.len() % 8).unwrap(),
    };
    let id = memory.create_queue(worker, &config).unwrap();
    memory.grant_queue(worker, id, SlotId(from), Rights::WRITE).unwrap();
    id
}

impl Device {
    pub(crate) fn new() -> Device {
        let pools = [
            PoolConfig { block_size: 2048, block_count: 40 },
            PoolConfig { block_size: 8192, block_count: 24 },
        ];
        let part = PartitionConfig { pools: &pools, extra_entries: 64 };
        let host_pools = [
            PoolConfig { block_size: 4096, block_count: 64 },
            PoolConfig { block_size: 5 << 20, block_count: 1 },
        ];
        let host_part = PartitionConfig { pools: &host_pools, extra_entries: 16 };
        let config = GroupConfig {
            name: "test",
            partitions: &[host_part, part, part, part, part],
            workers: 1,
            lanes: 24,
            heads: 24,
            ring_words: 1024,
            queues: 32,
        };
        let created = create(&config, true).unwrap();
        let (control, arena) = (created.control.as_fd(), created.arena.as_fd());
        let host = attach(control, arena, Role::Member(HOST)).unwrap();
        let supervisor = attach(control, arena, Role::Supervisor).unwrap();
        let worker = host.worker(0, 1).unwrap();
        let requests = queue(host, &worker, "request", 0, DEVICE);
        let responses = queue(host, &worker, "response", DEVICE, 0);
        Device {
            waiter: Waiter::new(&host.group.memory, HOST, 0).unwrap(),
            requests: Producer::open(&worker, requests, None).unwrap(),
            responses: Consumer::open(&worker, responses).unwrap(),
            log: memfd::append_log("log").unwrap().into(),
            bell: EventFd::new().unwrap(),
            suspects: vec![0; suspect_words(&host.group)],
            created,
            host,
            supervisor,
            worker,
            generation: 0,
            child: None,
            queues: 0,
            load: Vec::new(),
            models: Vec::new(),
            env: Vec::new(),
            base_dir: "",
        }
    }

    /// Queues between the host and the model of a slot.
    pub(crate) fn link(&mut self, slot: u32, inputs: u32, outputs: u32) -> Links {
        let mut ids = |from, to, count| -> Vec<QueueId> {
            (0..count)
                .map(|_| {
                    self.queues += 1;
                    queue(self.host, &self.worker, &format!("q{}", self.queues), from, to)
                })
                .collect()
        };
        let (inputs, outputs) = (ids(0, slot, inputs), ids(slot, 0, outputs));
        let worker = &self.worker;
        Links {
            slot,
            inputs: inputs.iter().map(|id| Producer::open(worker, *id, None).unwrap()).collect(),
            outputs: outputs.iter().map(|id| Consumer::open(worker, *id).unwrap()).collect(),
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
        self.generation += 1;
        let batch =
            BatchLoadModelMessage { models: self.load.clone(), ..BatchLoadModelMessage::default() };
        let load = memfd::from_bytes("load", &batch.encode_to_vec()).unwrap();
        let fd = |fd: BorrowedFd<'_>| fd.as_raw_fd().to_string();
        let places: Vec<String> = PLACES.iter().map(u32::to_string).collect();
        let mut env: Vec<(String, String)> = [
            ("DFLOW_CONTROL_FD", fd(self.created.control.as_fd())),
            ("DFLOW_ARENA_FD", fd(self.created.arena.as_fd())),
            ("DFLOW_SLOT", DEVICE.to_string()),
            ("DFLOW_ALSO_SLOTS", places.join(",")),
            ("DFLOW_GENERATION", self.generation.to_string()),
            ("DFLOW_NODE", "device0".to_owned()),
            ("DFLOW_READY_FD", fd(self.bell.as_fd())),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .to_vec();
        env.extend(self.env.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())));
        let args = [
            "test".to_owned(),
            self.requests.id().0.to_string(),
            self.responses.id().0.to_string(),
            "0".to_owned(),
            format!("--base_dir={}", self.base_dir),
            format!("--load_path={}", inherited(&load).trim_start_matches(self.base_dir)),
        ];
        let mut inherit: Vec<BorrowedFd<'_>> =
            vec![self.created.control.as_fd(), self.created.arena.as_fd(), load.as_fd()];
        inherit.push(self.bell.as_fd());
        inherit.extend(self.models.iter().map(AsFd::as_fd));
        let spawn = Spawn {
            program: Path::new(env!("CARGO_BIN_EXE_npu-executor")),
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

    /// Starts it and takes the init response of a good start.
    pub(crate) fn start(&mut self) {
        self.spawn();
        self.ready();
    }

    pub(crate) fn ready(&mut self) {
        let response = self.response();
        assert_eq!(response.error_code, 0, "{response:?}\n{}", self.logs());
        assert_eq!(response.error_message, "Executor initialized success.");
    }

    pub(crate) fn ctl(&self, slot: u32) -> &'static SlotCtl {
        self.host.group.memory.private(slot).unwrap().ctl
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

    /// Sends bytes to the request queue.
    pub(crate) fn send(&mut self, msg_type: u16, bytes: &[u8]) {
        let size = bytes.len().max(1) as u64;
        let mut mbuf =
            port::alloc(&mut self.worker, &self.waiter, size, Head::Zeroed, watchdog()).unwrap();
        assert!(payload::write(&self.worker, &mut mbuf, bytes));
        self.worker.of(&mbuf).update_msg_info(|info| info.msg_type = MsgType(msg_type));
        port::enqueue(&mut self.worker, &mut self.requests, &self.waiter, mbuf, watchdog())
            .unwrap();
    }

    /// One request and its response.
    pub(crate) fn ask(&mut self, request: &ExecutorRequest) -> ExecutorResponse {
        self.send(0, &request.encode_to_vec());
        self.response()
    }

    /// Loads models while the process runs.
    pub(crate) fn load(&mut self, models: Vec<LoadModelRequest>) -> ExecutorResponse {
        let batch_load_model_message = Some(BatchLoadModelMessage { models, ..Default::default() });
        self.ask(&ExecutorRequest { batch_load_model_message, ..Default::default() })
    }

    /// As [`Device::load`], and it must go well.
    pub(crate) fn load_well(&mut self, models: Vec<LoadModelRequest>) {
        let response = self.load(models);
        assert_eq!(response.error_code, 0, "{response:?}\n{}", self.logs());
        assert_eq!(response.error_message, "success");
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

    /// Tensors in one message.
    pub(crate) fn message(&mut self, id: u64, parts: &[(RuntimeTensorDesc, Vec<u8>)]) -> Mbuf {
        let size: usize = parts.iter().map(|(_, bytes)| TENSOR_DESC_SIZE + bytes.len()).sum();
        let mut mbuf =
            port::alloc(&mut self.worker, &self.waiter, size as u64, Head::Zeroed, watchdog())
                .unwrap();
        let mut all = Vec::new();
        for (desc, bytes) in parts {
            let at = all.len();
            all.resize(at + TENSOR_DESC_SIZE, 0);
            let mut put = |offset: usize, value: i64| {
                all[at + offset..at + offset + 8].copy_from_slice(&value.to_le_bytes());
            };
            put(16, desc.dtype);
            for index in 0..9 {
                put(24 + 8 * index, { desc.shape }[index]);
            }
            put(568, desc.data_size.cast_signed());
            all.extend(bytes);
        }
        assert!(payload::write(&self.worker, &mut mbuf, &all));
        let access = self.worker.of(&mbuf);
        access.update_msg_info(|info| info.trans_id = id);
        access.write_head(0, &id.to_le_bytes());
        mbuf
    }

    /// Feeds a message.
    pub(crate) fn feed_mbuf(&mut self, links: &mut Links, input: usize, mbuf: Mbuf) {
        let producer = &mut links.inputs[input];
        port::enqueue(&mut self.worker, producer, &self.waiter, mbuf, watchdog()).unwrap();
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
        self.worker.of(&mbuf).update_msg_info(|info| {
            info.ret_code = code.to_ret_code();
            info.worker_id = 63;
            info.data_flag |= DataFlag::NULL_DATA.bits();
        });
        self.feed_mbuf(links, input, mbuf);
    }

    /// The next message of an output; panics with the log when none comes.
    pub(crate) fn fetch(&mut self, links: &mut Links, output: usize) -> Fetched {
        let consumer = &mut links.outputs[output];
        let got = port::dequeue(&mut self.worker, consumer, &self.waiter, watchdog());
        let mbuf = got.unwrap_or_else(|e| panic!("output {output}: {e}\n{}", self.logs()));
        let access = self.worker.of(&mbuf);
        let desc = payload::tensor_desc(&access);
        let bytes = payload::bytes(&access);
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
    pub(crate) fn is_silent(&mut self, links: &mut Links, output: usize) -> bool {
        match links.outputs[output].dequeue(&mut self.worker) {
            Err(DequeueError::Empty) => true,
            Err(other) => panic!("{other}"),
            Ok((mbuf, _)) => {
                eprintln!("unexpected: {:?}", self.worker.of(&mbuf).msg_info());
                port::free(&mut self.worker, mbuf);
                false
            }
        }
    }

    /// Looks until `done`, or the watchdog barks.
    pub(crate) fn until(&self, what: &str, slot: u32, mut done: impl FnMut(&SlotCtl) -> bool) {
        let limit = watchdog().unwrap();
        while !done(self.ctl(slot)) {
            assert!(!limit.is_past(MonoTime::now()), "never: {what}\n{}", self.logs());
            std::thread::yield_now();
        }
    }

    /// Waits until set `set` of a slot is inside its model.
    pub(crate) fn until_running(&self, slot: u32, set: u64) {
        self.until("running", slot, |ctl| {
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
        if poll(&mut fds, watchdog()).unwrap() == 0 {
            child.pidfd.signal(Signal::KILL).unwrap();
            panic!("the process does not end\n{}", self.logs());
        }
        child.pidfd.wait_end().unwrap()
    }

    /// What a supervisor does between two generations; messages adopted in all slots.
    pub(crate) fn sweep(&mut self) -> u32 {
        let group = self.supervisor.group;
        let mut adopted = 0;
        for slot in [DEVICE].into_iter().chain(PLACES) {
            let swept: Swept =
                Sweeper::new(&group, &mut self.suspects).sweep(SlotId(slot), Inputs::Adopt);
            adopted += swept.adopted;
        }
        ring_all(&group.memory);
        adopted
    }

    /// Kill, reap, sweep, next generation.
    pub(crate) fn kill_and_restart(&mut self) -> u32 {
        self.signal(Signal::KILL);
        self.end();
        let adopted = self.sweep();
        self.start();
        adopted
    }

    /// Ends the process by a finalize message; what it has sent stays queued.
    pub(crate) fn finalize_keeping(&mut self) {
        self.send(2, &[0]);
        assert_eq!(self.end(), Event::Exited(0), "{}", self.logs());
        self.sweep();
    }

    /// Ends the process by a finalize message; it must end well, and nothing may be left.
    pub(crate) fn finalize(&mut self) {
        self.send(2, &[0]);
        let event = self.end();
        assert_eq!(event, Event::Exited(0), "{}", self.logs());
        self.sweep();
        let usage = inspect::usage(&self.host.group);
        assert_eq!((usage.entries, usage.blocks), (0, 0), "{:?}\n{}", usage, self.logs());
        for slot in [DEVICE].into_iter().chain(PLACES) {
            let runtime = self.ctl(slot).runtime_allocations.load(Ordering::Relaxed);
            assert_eq!(runtime, 0, "allocations after seal, slot {slot}");
        }
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        if let Some(child) = self.child.take() {
            let _gone = child.pidfd.signal(Signal::KILL);
            let _gone = child.pidfd.wait_end();
        }
        let _done = (self.host.retire(), self.supervisor.retire());
    }
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

    pub(crate) fn floats(&self) -> Vec<f32> {
        self.values.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
    }

    /// Checks that it is data for this id.
    pub(crate) fn assert_data(&self, id: u64, values: &[f32]) {
        assert_eq!((self.id(), self.code(), self.user), (id, Code::SUCCESS, id), "{self:?}");
        assert!(!self.info.is_null_data(), "{self:?}");
        assert_eq!(self.floats(), values, "{self:?}");
    }

    /// Checks that it is an answer without data.
    pub(crate) fn assert_answer(&self, id: u64, code: Code) {
        assert_eq!((self.id(), self.code()), (id, code), "{self:?}");
        assert!(self.info.is_null_data(), "{self:?}");
        assert_eq!(self.user, id, "head of the input");
    }
}
