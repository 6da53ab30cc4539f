//! Memory: of the process, both that of the device and that of the host.

use std::ffi::c_void;

use npu::aligned::AlignedBytes;
use npu_device::codes::{CAPTURE_MODE_BLOCK_ASYNC, MEMORY_ALLOCATION, PARAM_INVALID};
use npu_device::{Error, RawMemory, Result, WaitValue};

use crate::raw::{Out, Process, null};
use crate::state::{self, Handle, current, state};

/// Most bytes of one piece.
const BYTES_MAX: usize = 1 << 32;

fn allocate(place: &Out<*mut c_void>, size: usize, host: bool) -> Result<()> {
    if place.is_null() {
        return Err(null("a place for the address"));
    }
    current()?;
    if size == 0 || size > BYTES_MAX {
        return Err(Error::new(PARAM_INVALID, format!("{size} bytes of memory: 1 to {BYTES_MAX}")));
    }
    let mut bytes = AlignedBytes::try_zeroed(size)
        .map_err(|_| Error::new(MEMORY_ALLOCATION, format!("{size} bytes of memory")))?;
    let address: *mut c_void = bytes.as_mut_ptr().cast();
    state().memory.insert(address.expose_provenance(), (bytes, host));
    place.put(address)
}

fn free(address: *mut c_void, host: bool) -> Result<()> {
    if address.is_null() {
        return Err(null("memory"));
    }
    let mut state = state();
    if state.memory.get(&address.addr()).is_none_or(|(_, of_host)| *of_host != host) {
        let what = format!("{address:p} is no such memory, or was freed before");
        return Err(Error::new(PARAM_INVALID, what));
    }
    state.memory.remove(&address.addr());
    Ok(())
}

/// Whether an address lies in memory that was allocated here.
fn is_known(address: usize) -> bool {
    let state = state();
    state.memory.iter().any(|(begin, (bytes, _))| (*begin..*begin + bytes.len()).contains(&address))
}

/// A copy's ends, as words for the device.
fn ends(
    to: (*mut c_void, usize),
    from: *mut c_void,
    bytes: usize,
    kind: i32,
) -> Result<(u64, u64)> {
    if to.0.is_null() || from.is_null() {
        return Err(null("memory of a copy"));
    }
    if !(0..=3).contains(&kind) {
        return Err(Error::new(PARAM_INVALID, format!("copy of kind {kind}: 0 to 3")));
    }
    if bytes > to.1 {
        let what = format!("a copy of {bytes} bytes to memory of {}", to.1);
        return Err(Error::new(PARAM_INVALID, what));
    }
    Ok((to.0.expose_provenance() as u64, from.expose_provenance() as u64))
}

/// One side of a copy in two dimensions: where it begins, and from one row to the next.
type Rows = (*mut c_void, usize);

/// The rows of a copy in two dimensions, of so many bytes each: to, from.
fn rows(
    to: Rows,
    from: Rows,
    (width, height): (usize, usize),
    kind: i32,
) -> Result<impl Iterator<Item = (u64, u64)>> {
    let (target, source) = ends(to, from.0, width, kind)?;
    if width > from.1 {
        let what = format!("rows of {width} bytes that begin every {}", from.1);
        return Err(Error::new(PARAM_INVALID, what));
    }
    let last = height.saturating_sub(1) as u64;
    let behind = |begin: u64, pitch: usize| {
        let last = last.checked_mul(pitch as u64)?;
        begin.checked_add(last)?.checked_add(width as u64)
    };
    if behind(target, to.1).is_none() || behind(source, from.1).is_none() {
        let what = format!("{height} rows end beyond the last address");
        return Err(Error::new(PARAM_INVALID, what));
    }
    let count = if width == 0 { 0 } else { height as u64 };
    Ok((0..count).map(move |row| (target + row * to.1 as u64, source + row * from.1 as u64)))
}

/// Memory of the host in an asynchronous copy stays, or no capture forbids that it may not.
fn check_pageable(to: *mut c_void, from: *mut c_void, kind: i32) -> Result<()> {
    // The host's end, if there is one, unless it is known to stay.
    let host = match kind {
        1 => Some(from),
        2 => Some(to),
        _ => None,
    };
    let pageable = host.is_some_and(|host| !is_known(host.addr()));
    if pageable && current()?.context.check_at_once("").is_err() {
        let what = "an asynchronous copy of memory that is not of aclrtMallocHost, while a \
                    capture forbids it";
        return Err(Error::new(CAPTURE_MODE_BLOCK_ASYNC, what));
    }
    Ok(())
}

/// A fill's value and address.
fn filling(to: (*mut c_void, usize), value: i32, bytes: usize) -> Result<(u64, u8)> {
    if to.0.is_null() {
        return Err(null("memory of a fill"));
    }
    if bytes > to.1 {
        let what = format!("a fill of {bytes} bytes of memory of {}", to.1);
        return Err(Error::new(PARAM_INVALID, what));
    }
    // As of memset: the low byte.
    Ok((to.0.expose_provenance() as u64, value.to_le_bytes()[0]))
}

/// The address of a value of 64 bits.
fn value_at(address: *mut c_void) -> Result<u64> {
    if address.is_null() {
        return Err(null("a value's address"));
    }
    let address = address.expose_provenance() as u64;
    if !address.is_multiple_of(8) {
        let what = format!("a value at {address:#x}: not at a multiple of 8");
        return Err(Error::new(PARAM_INVALID, what));
    }
    Ok(address)
}

api! {
    fn aclrtMalloc(address: Out<*mut c_void>, size: usize, policy: i32) {
        // Where memory lies is the same for all policies.
        let _ = policy;
        allocate(&address, size, false)
    }

    fn aclrtFree(address: *mut c_void) {
        free(address, false)
    }

    fn aclrtMallocHost(address: Out<*mut c_void>, size: usize) {
        allocate(&address, size, true)
    }

    fn aclrtFreeHost(address: *mut c_void) {
        free(address, true)
    }

    fn aclrtMemcpy(to: *mut c_void, room: usize, from: *mut c_void, bytes: usize, kind: i32) {
        let (to, from) = ends((to, room), from, bytes, kind)?;
        current()?.context.check_at_once("a copy at once")?;
        if bytes > 0 {
            Process.copy(to, from, bytes).ok_or_else(|| null("memory of a copy"))?;
        }
        Ok(())
    }

    fn aclrtMemset(to: *mut c_void, room: usize, value: i32, bytes: usize) {
        let (to, value) = filling((to, room), value, bytes)?;
        current()?.context.check_at_once("a fill at once")?;
        Process.fill(to, value, bytes).ok_or_else(|| null("memory of a fill"))
    }

    fn aclrtMemcpyAsync(
        to: *mut c_void, room: usize, from: *mut c_void, bytes: usize, kind: i32, stream: Handle,
    ) {
        let (target, source) = ends((to, room), from, bytes, kind)?;
        let stream = state::stream(stream)?;
        check_pageable(to, from, kind)?;
        stream.copy_at(target, source, bytes).map(drop)
    }

    fn aclrtMemcpy2d(
        to: *mut c_void, to_pitch: usize, from: *mut c_void, from_pitch: usize, width: usize,
        height: usize, kind: i32,
    ) {
        let mut rows = rows((to, to_pitch), (from, from_pitch), (width, height), kind)?;
        current()?.context.check_at_once("a copy at once")?;
        rows.try_for_each(|(to, from)| {
            Process.copy(to, from, width).ok_or_else(|| null("memory of a copy"))
        })
    }

    fn aclrtMemcpy2dAsync(
        to: *mut c_void, to_pitch: usize, from: *mut c_void, from_pitch: usize, width: usize,
        height: usize, kind: i32, stream: Handle,
    ) {
        let mut rows = rows((to, to_pitch), (from, from_pitch), (width, height), kind)?;
        let stream = state::stream(stream)?;
        check_pageable(to, from, kind)?;
        rows.try_for_each(|(to, from)| stream.copy_at(to, from, width).map(drop))
    }

    fn aclrtMemsetAsync(
        to: *mut c_void, room: usize, value: i32, bytes: usize, stream: Handle,
    ) {
        let (to, value) = filling((to, room), value, bytes)?;
        state::stream(stream)?.fill_at(to, value, bytes).map(drop)
    }

    fn aclrtValueWrite(address: *mut c_void, value: u64, flag: u32, stream: Handle) {
        let address = value_at(address)?;
        if flag != 0 {
            return Err(Error::new(PARAM_INVALID, format!("flag {flag} of a written value: 0")));
        }
        state::stream(stream)?.write_value_at(address, value).map(drop)
    }

    fn aclrtValueWait(address: *mut c_void, value: u64, flag: u32, stream: Handle) {
        let address = value_at(address)?;
        let condition = match flag {
            0 => WaitValue::GreaterOrEqual,
            1 => WaitValue::Equal,
            2 => WaitValue::And,
            3 => WaitValue::Nor,
            _ => return Err(Error::new(PARAM_INVALID, format!("flag {flag} of a wait: 0 to 3"))),
        };
        state::stream(stream)?.wait_value_at(address, condition, value).map(drop)
    }
}
