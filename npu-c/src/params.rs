//! Parameters of single tasks, as C sees them: 200 bytes of which the type says what the last 128
//! are.
//!
//! ```text
//! byte  size  field                 of a kernel        of a value        of an event
//!   0    4    type
//!  16    8    group, always null
//!  24   16    operator, always 0
//!  72    8    words[0]              program            address           event
//!  80    8    words[1]              configuration, 0   value             flag (4 bytes)
//!  88    8    words[2]              addresses          flag (4 bytes)
//!  96    4    words[3]              of the host, 1
//! 104    8    words[4]              bytes of addresses
//! 112    4    words[5]              blocks, 1
//! ```
//! A kernel is a compiled program: its parameters are the addresses of its inputs, then of its
//! outputs.

use std::ffi::{c_int, c_void};
use std::mem::{offset_of, size_of};

use npu_device::codes::{PARAM_INVALID, TASK_TYPE_NOT_SUPPORT};
use npu_device::sqe::Sqe;
use npu_device::{Error, Function, Result, TaskChange, TaskType, WaitValue};

use crate::desc::Buffer;
use crate::program::{Program, program};
use crate::raw::{Out, null};
use crate::state::{self, Handle, Object, task};
use crate::task::kind;

/// `aclmdlRITaskParams`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Params {
    kind: c_int,
    reserved: [u32; 3],
    group: Handle,
    operator: Handle,
    operator_bytes: usize,
    reserved_more: [u64; 4],
    words: [u64; 16],
}

const _: () = {
    assert!(size_of::<*mut c_void>() == 8, "the layout is that of 64 bits");
    assert!(size_of::<Params>() == 200);
    assert!(offset_of!(Params, group) == 16 && offset_of!(Params, operator) == 24);
    assert!(offset_of!(Params, reserved_more) == 40 && offset_of!(Params, words) == 72);
};

/// What a task is asked to be.
pub(crate) enum Wanted {
    Kernel(Function, [u64; 4]),
    Write(u64, u64),
    Wait(u64, WaitValue, u64),
}

impl Wanted {
    pub(crate) fn change(&self) -> TaskChange<'_> {
        match self {
            Self::Kernel(function, args) => TaskChange::Kernel { function, blocks: 1, args: *args },
            Self::Write(address, value) => TaskChange::Write { address: *address, value: *value },
            Self::Wait(address, condition, operand) => {
                let (address, condition, operand) = (*address, *condition, *operand);
                TaskChange::Wait { address, condition, operand }
            }
        }
    }
}

fn unknown(what: String) -> Error {
    Error::new(TASK_TYPE_NOT_SUPPORT, what)
}

fn invalid(what: String) -> Error {
    Error::new(PARAM_INVALID, what)
}

/// The parameters of a task as it is now.
pub(crate) fn of(own: Handle) -> Result<Params> {
    let (known, stream) = task(own)?;
    let place = usize::try_from(known.sequence).unwrap_or(usize::MAX);
    let Some(info) = stream.tasks().get(place).copied() else {
        return Err(invalid(format!("the stream has no task {place} any more")));
    };
    let payload = info.sqe.payload;
    let mut words = [0; 16];
    match info.kind {
        TaskType::Kernel => words[..6].copy_from_slice(&kernel(own, &info.sqe)?),
        TaskType::EventRecord | TaskType::EventWait | TaskType::EventReset => {
            words[0] = event(&info.sqe).addr() as u64;
        }
        TaskType::ValueWrite => words[..2].copy_from_slice(&payload[..2]),
        TaskType::ValueWait => words[..3].copy_from_slice(&payload[..3]),
        TaskType::Other => {
            return Err(unknown(format!("task {place} has no parameters that can be asked for")));
        }
    }
    Ok(Params {
        kind: kind(&info),
        reserved: [0; 3],
        group: std::ptr::null_mut(),
        operator: std::ptr::null_mut(),
        operator_bytes: 0,
        reserved_more: [0; 4],
        words,
    })
}

fn kernel(own: Handle, sqe: &Sqe) -> Result<[u64; 6]> {
    let found = state::search(|object| match object {
        Object::Program(program) if program.function().is_named_by(sqe) => {
            program.addresses(sqe.payload[1])
        }
        _ => None,
    });
    let (number, addresses) =
        found.ok_or_else(|| unknown("the task's program was unloaded".to_owned()))?;
    let bytes = 8 * addresses.len() as u64;
    let at = state::keep_addresses(own, addresses);
    Ok([(number >> 4) as u64, 0, at.expose_provenance() as u64, 1, bytes, 1])
}

/// The handle of the event that a task names; null when it was destroyed.
fn event(sqe: &Sqe) -> Handle {
    let found = state::search(|object| match object {
        Object::Event(event) if event.is_named_by(sqe) => Some(()),
        _ => None,
    });
    state::handle(found.map_or(0, |(number, ())| number))
}

/// What parameters ask of a task.
pub(crate) fn wanted(own: Handle, params: &Params) -> Result<Wanted> {
    let is = kind(&task(own)?.0);
    if params.kind != is {
        return Err(unknown(format!("a task of type {is} can't be one of {}", params.kind)));
    }
    let words = &params.words;
    match is {
        1 => {
            let id = u32::try_from(words[0]).map_err(|_| invalid("no such program".to_owned()))?;
            wanted_kernel(program(id)?.as_ref(), words)
        }
        5 => Ok(Wanted::Write(address(words[0])?, words[1])),
        6 => {
            let flag = words[2] & u64::from(u32::MAX);
            let condition = u8::try_from(flag).ok().and_then(WaitValue::from_number);
            let condition =
                condition.ok_or_else(|| invalid(format!("flag {flag} of a wait: 0 to 3")))?;
            Ok(Wanted::Wait(address(words[0])?, condition, words[1]))
        }
        _ => Err(unknown(format!("a task of type {is} is not changed"))),
    }
}

fn wanted_kernel(program: &Program, words: &[u64; 16]) -> Result<Wanted> {
    let (blocks, bytes) = (words[5] & u64::from(u32::MAX), words[4]);
    let ports = program.ports.inputs.iter().chain(&program.ports.outputs);
    let sizes: Vec<usize> = ports.map(|port| port.info.bytes()).collect();
    if blocks != 1 {
        return Err(invalid(format!("{blocks} blocks of a program: 1")));
    }
    if bytes != 8 * sizes.len() as u64 {
        let wanted = 8 * sizes.len();
        return Err(invalid(format!("{bytes} bytes of addresses; the program has {wanted}")));
    }
    let place: Out<usize> = Out::of_address(words[2]);
    let addresses = place.list(sizes.len())?;
    let buffers: Vec<Buffer> = addresses
        .into_iter()
        .zip(sizes)
        .map(|(address, bytes)| Buffer { address, bytes })
        .collect();
    let (inputs, outputs) = buffers.split_at(program.ports.inputs.len());
    let number = program.bind(inputs, outputs)? as u64;
    Ok(Wanted::Kernel(program.function().clone(), [number, 0, 0, 0]))
}

fn address(word: u64) -> Result<u64> {
    if word == 0 {
        return Err(null("the address of a value"));
    }
    if !word.is_multiple_of(8) {
        return Err(invalid(format!("a value at {word:#x}, not at a multiple of 8")));
    }
    Ok(word)
}
