//! Calls the public entries of executor-core without std and without an allocator.
//!
//! One process plays everybody: it formats a group in its own memory, attaches, passes mbufs
//! through a queue, looks at them as tools do, and sweeps itself. The exit code is the number of
//! the step that went wrong, 0 when none did; that it links at all is what the stage is for.
#![no_std]
#![no_main]
#![allow(unsafe_code, reason = "the entry symbol and the memory of a program without std")]

mod bare;

use core::cell::UnsafeCell;
use core::hint::black_box;
use core::ptr::NonNull;

use executor_core::abi::{DataType, MsgInfo, RuntimeTensorDesc};
use executor_core::error::Code;
use executor_core::group::{self, Group};
use executor_core::inspect;
use executor_core::layout::{GroupConfig, Layout, PartitionConfig, PoolConfig};
use executor_core::owner::SlotId;
use executor_core::pool::{Head, Worker};
use executor_core::queue::{Consumer, Producer, QueueConfig, QueueFlags, Rights};
use executor_core::sweep::{self, Inputs, Sweeper};
use executor_core::wake;

const SPACE: usize = 1 << 20;
const SLOT: SlotId = SlotId(0);

/// Zeroed pages with the alignment that a mapping has.
#[repr(C, align(4096))]
struct Pages(UnsafeCell<[u8; SPACE]>);

// SAFETY: this program has one thread.
unsafe impl Sync for Pages {}

static CONTROL: Pages = Pages(UnsafeCell::new([0; SPACE]));
static ARENA: Pages = Pages(UnsafeCell::new([0; SPACE]));

const CONFIG: GroupConfig<'static> = GroupConfig {
    name: "probe",
    partitions: &[PartitionConfig {
        pools: &[PoolConfig { block_size: 4096, block_count: 4 }],
        extra_entries: 2,
    }],
    workers: 2,
    lanes: 2,
    heads: 2,
    ring_words: 64,
    queues: 2,
};

/// What the C start-up calls.
// SAFETY: the only `main` of this program.
#[unsafe(no_mangle)]
pub extern "C" fn main() -> i32 {
    let (name, abi) = black_box(executor_core::VERSION);
    if name.is_empty() || abi == 0 || !messages() {
        return 1;
    }
    let Some(group) = attach() else { return 2 };
    let Ok(mut worker) = Worker::new(&group, SLOT, 0, 1) else { return 3 };
    let passed = pass(&mut worker);
    if let Err(step) = passed {
        return step;
    }
    if inspect::usage(&group).entries != 0 || inspect::held(&group).count() != 0 {
        return 4;
    }
    sweep(&group, &mut worker)
}

/// Layouts that travel in messages.
fn messages() -> bool {
    let info = MsgInfo::from_words(MsgInfo::default().to_words());
    let tensor = RuntimeTensorDesc::new(DataType::FLOAT, &[2, 3]);
    let bytes = DataType::FLOAT.byte_size(&[2, 3]);
    let code = Code::from_ret_code(Code::QUEUE_FULL.to_ret_code());
    info == MsgInfo::default()
        && bytes == Some(24)
        && tensor.is_some_and(|tensor| tensor.dims() == Some(&[2, 3]))
        && code.name().is_some()
        && !code.text().is_empty()
}

fn attach() -> Option<Group<'static>> {
    let layout = Layout::compute(&CONFIG).ok()?;
    let length = usize::try_from(layout.control_len).ok()?;
    // SAFETY: one thread, and no other reference to this static exists yet.
    let control = unsafe { &mut *CONTROL.0.get() };
    let layout = group::format(control.get_mut(..length)?, &CONFIG).ok()?;
    let (control, arena) = (NonNull::new(CONTROL.0.get())?, NonNull::new(ARENA.0.get())?);
    // SAFETY: both statics live for ever, are page-aligned, writable and `SPACE` bytes long; from
    // here on nothing but the group touches them.
    unsafe { Group::attach(control.cast(), layout.control_len, arena.cast(), SPACE as u64) }.ok()
}

/// Passes mbufs through a queue; an error is the number of the step that went wrong.
fn pass(worker: &mut Worker<'static>) -> Result<(), i32> {
    let memory = worker.memory;
    let config = QueueConfig {
        name: "numbers",
        depth: 2,
        flags: QueueFlags::empty(),
        consumer: SLOT,
        consumer_waiter: 0,
        ready_bit: 0,
    };
    let id = memory.create_queue(worker, &config).or(Err(10))?;
    memory.grant_queue(worker, id, SLOT, Rights::all()).or(Err(11))?;
    let mut producer = Producer::open(worker, id, Some(0)).or(Err(12))?;
    let mut consumer = Consumer::open(worker, id).or(Err(13))?;

    let mbuf = worker.alloc(100, Head::Zeroed).or(Err(14))?;
    let view = worker.of(&mbuf);
    view.update_msg_info(|info| info.trans_id = 7);
    if !view.set_data_len(100) || !view.write_head(0, b"user") {
        return Err(15);
    }
    let copy = worker.copy_ref(&mbuf).or(Err(16))?;
    if worker.is_sole_owner(&mbuf) {
        return Err(17);
    }
    let member = worker.alloc(10, Head::Of(&mbuf)).or(Err(18))?;
    worker.chain_append(&mbuf, member).or(Err(19))?;
    let mut wakes = producer.enqueue(worker, mbuf).or(Err(20))?;
    wakes.merge(producer.enqueue(worker, copy).or(Err(21))?);

    let waiter = memory.waiter(executor_core::owner::WaiterId(0)).ok_or(22)?;
    wake::begin_park(waiter);
    wake::recheck();
    wake::end_park(waiter);
    wake::take_ready(waiter, u64::MAX);

    let full = memory.query_queue(id).or(Err(23))?;
    if memory.find_queue("numbers") != Some(id) || full.size != 2 || producer.has_room() {
        return Err(24);
    }
    consumer.peek(&memory).or(Err(25))?;
    let (first, _) = consumer.dequeue(worker).or(Err(26))?;
    if worker.of(&first).msg_info().trans_id != 7 || worker.chain_get(&first, 1).is_none() {
        return Err(27);
    }
    wakes.merge(worker.free(first));
    wakes.merge(memory.destroy_queue(worker, consumer).or(Err(28))?);
    // Nobody sleeps, so nobody is to be rung.
    if wakes.is_empty() { Ok(()) } else { Err(29) }
}

/// Dies holding an mbuf, as far as the sweep can tell.
fn sweep(group: &Group<'static>, worker: &mut Worker<'static>) -> i32 {
    if worker.alloc(10, Head::Unset).is_err() {
        return 30;
    }
    let mut suspects = [0_u64; 8];
    if sweep::suspect_words(group) > suspects.len() {
        return 31;
    }
    let mut sweeper = Sweeper::new(group, &mut suspects);
    let mut swept = sweeper.sweep(SLOT, Inputs::Free);
    sweeper.recheck(&mut swept);
    if inspect::usage(group).entries == 0 { 0 } else { 32 }
}
