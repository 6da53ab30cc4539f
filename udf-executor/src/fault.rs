//! A memory fault in user code: names node, function, input and partition before the process dies.
//!
//! Foreign partitions and control pages are mapped read-only, so a fault at an address inside of
//! them is a write. The hook notes `WRITE_FAULT` for the successor and writes one line; then the
//! process dies of the signal, as it would have without it. It allocates nothing and takes no lock.

use core::sync::atomic::{AtomicU32, Ordering};
use std::fs::File;
use std::io::Write;
use std::sync::OnceLock;

use executor_core::abi::control::SlotCtl;
use executor_core::error::Code;
use executor_core::owner::SlotId;
use executor_core::region::Memory;
use executor_rt::attach::Attached;
use executor_rt::log::{Head, Level, Line, Stamp, Stream};

/// What the hook needs, fixed at setup.
#[derive(Debug)]
pub(crate) struct Place {
    /// The group.
    pub(crate) attached: &'static Attached,
    /// This slot's words.
    pub(crate) ctl: &'static SlotCtl,
    /// For the log line.
    pub(crate) node: String,
    /// The function's name.
    pub(crate) function: String,
    /// A descriptor of stderr, without std's lock.
    pub(crate) stderr: File,
    /// Block of each input of the present set; `u32::MAX` = none.
    pub(crate) inputs: Box<[AtomicU32]>,
}

static PLACE: OnceLock<Place> = OnceLock::new();

/// Installs the hook for this thread.
///
/// # Errors
/// No memory for the signal stack.
pub(crate) fn install(place: Place) -> sys::Result<()> {
    if PLACE.set(place).is_ok() { sys::signal::on_fault(hook) } else { Ok(()) }
}

/// Notes the block of an input, before it is given to the function.
pub(crate) fn note_input(port: usize, block: u32) {
    // Relaxed: read by the same thread, in its signal handler.
    if let Some(cell) = PLACE.get().and_then(|place| place.inputs.get(port)) {
        cell.store(block, Ordering::Relaxed);
    }
}

fn hook(address: usize, signal: i32) {
    let Some(place) = PLACE.get() else { return };
    let memory = &place.attached.group.memory;
    let partition = place.attached.partition_of(address);
    if partition.is_none() && !in_control(memory, address) {
        return;
    }
    place.ctl.last_code.store(Code::WRITE_FAULT.0, Ordering::Release);
    let id = place.ctl.trans_id.load(Ordering::Relaxed);
    let (node, function) = (&place.node, &place.function);
    let head = Head {
        stamp: Stamp::now(),
        level: Level::Error,
        stream: Stream::Runtime,
        node,
        trans_id: Some(id),
    };
    let line = match (input_at(memory, &place.inputs, address), partition) {
        (Some(input), Some(SlotId(slot))) => Line::new(
            &head,
            format_args!(
                "function {function} wrote into input {input} at {address:#x} (signal {signal}), \
                 which lies in the partition of slot {slot}: inputs are read-only; allocate an \
                 output, or give the node writable inputs"
            ),
        ),
        (None, Some(SlotId(slot))) => Line::new(
            &head,
            format_args!(
                "function {function} wrote to {address:#x} (signal {signal}) in the partition of \
                 slot {slot}, which is no input of this call"
            ),
        ),
        (_, None) => Line::new(
            &head,
            format_args!(
                "function {function} wrote to {address:#x} (signal {signal}) in the control segment"
            ),
        ),
    };
    // Nothing is left to do when this fails: the process is dying.
    let _written = (&place.stderr).write(line.as_bytes());
}

fn in_control(memory: &Memory<'_>, address: usize) -> bool {
    let before = usize::try_from(memory.layout.slot_descs).unwrap_or(0);
    let start = memory.slot_descs.as_ptr().addr().saturating_sub(before);
    let len = usize::try_from(memory.layout.control_len).unwrap_or(0);
    address.checked_sub(start).is_some_and(|offset| offset < len)
}

fn input_at(memory: &Memory<'_>, inputs: &[AtomicU32], address: usize) -> Option<usize> {
    inputs.iter().position(|block| {
        let Some(span) = memory.block_span(block.load(Ordering::Relaxed)) else { return false };
        let offset = address.checked_sub(span.pointer.as_ptr().addr());
        offset.is_some_and(|offset| (offset as u64) < span.len)
    })
}
