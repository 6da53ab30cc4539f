//! Models that are built by hand, and what all models have.

use std::ffi::{c_char, c_void};
use std::fs::File;
use std::io::{BufWriter, Write};

use npu_device::codes::{INSUFFICIENT_INPUT_ARRAY, INTERNAL_ERROR, PARAM_INVALID};
use npu_device::{Detail, Error, Model, Stream};

use crate::raw::{Callback, Function, Out, Text, null};
use crate::runtime::timeout;
use crate::state::{
    self, Handle, Object, current, current_number, keep, model, named_stream, state, stream,
};

/// The stream runs when its model begins.
const HEAD: u32 = 0;
/// The stream runs when another one starts it.
const NOT_HEAD: u32 = 0x7FFF_FFFF;

fn invalid(what: String) -> Error {
    Error::new(PARAM_INVALID, what)
}

/// Writes handles into an array of the caller's, or only their number.
pub(crate) fn put_handles(
    place: &Out<Handle>,
    count: &Out<u32>,
    handles: &[Handle],
) -> npu_device::Result<()> {
    let room = if place.is_null() { None } else { Some(count.get()? as usize) };
    count.put(u32::try_from(handles.len()).unwrap_or(u32::MAX))?;
    match room {
        None => Ok(()),
        Some(room) if room < handles.len() => {
            let what = format!("an array of {room} for {}", handles.len());
            Err(Error::new(INSUFFICIENT_INPUT_ARRAY, what))
        }
        Some(_) => place.put_all(handles.iter().copied()),
    }
}

fn streams_of(model: &Model) -> npu_device::Result<Vec<Stream>> {
    let mut streams: Vec<Option<Stream>> = vec![None; model.streams(None)?];
    model.streams(Some(&mut streams))?;
    Ok(streams.into_iter().flatten().collect())
}

api! {
    fn aclmdlRIBuildBegin(place: Out<Handle>, flag: u32) {
        if place.is_null() {
            return Err(null("a place for the model"));
        }
        if flag != 0 {
            return Err(invalid(format!("flag {flag} of a model: 0")));
        }
        let made = current()?.context.build_begin()?;
        place.put(keep(Object::Model(made), current_number()))
    }

    fn aclmdlRIBindStream(own: Handle, at: Handle, flag: u32) {
        let (own, at) = (model(own)?, named_stream(at)?);
        match flag {
            HEAD => own.bind(&at, true),
            NOT_HEAD => own.bind(&at, false),
            _ => Err(invalid(format!("flag {flag:#x} of a stream of a model"))),
        }
    }

    fn aclmdlRIUnbindStream(own: Handle, at: Handle) {
        let at = named_stream(at)?;
        model(own)?.unbind(&at)?;
        state::forget_tasks(&[at]);
        Ok(())
    }

    fn aclmdlRIEndTask(own: Handle, at: Handle) {
        model(own)?.end_task(&named_stream(at)?).map(drop)
    }

    fn aclmdlRIBuildEnd(own: Handle, reserve: *mut c_void) {
        if !reserve.is_null() {
            return Err(invalid("the second argument of aclmdlRIBuildEnd is not null".to_owned()));
        }
        model(own)?.build_end()
    }

    fn aclmdlRIExecute(own: Handle, ms: i32) {
        model(own)?.execute(timeout(ms)?)
    }

    fn aclmdlRIExecuteAsync(own: Handle, at: Handle) {
        model(own)?.execute_async(&stream(at)?)
    }

    fn aclmdlRIAbort(own: Handle) {
        model(own)?.abort()
    }

    fn aclmdlRIDestroy(own: Handle) {
        let gone = model(own)?;
        let streams = streams_of(&gone)?;
        gone.destroy()?;
        state::forget_tasks(&streams);
        state::forget(own);
        Ok(())
    }

    fn aclmdlRISetName(own: Handle, name: Text) {
        model(own)?.set_name(&name.read()?)
    }

    fn aclmdlRIGetName(own: Handle, room: u32, place: Out<c_char>) {
        let name = model(own)?.name();
        if name.len() >= room as usize {
            let what = format!("room for {room} bytes; the name has {}, and its end", name.len());
            return Err(invalid(what));
        }
        place.put_all(name.bytes().chain([0]).map(|byte| c_char::from_ne_bytes([byte])))
    }

    fn aclmdlRIGetId(own: Handle, id: Out<u32>) {
        id.put(model(own)?.id())
    }

    fn aclmdlRIGetStreams(own: Handle, place: Out<Handle>, count: Out<u32>) {
        let streams = streams_of(&model(own)?)?;
        let streams = streams.iter();
        let handles: Vec<Handle> =
            streams.map(|stream| state::stream_handle(stream, own.addr())).collect();
        put_handles(&place, &count, &handles)
    }

    fn aclmdlRIDestroyRegisterCallback(own: Handle, function: Function, data: *mut c_void) {
        let callback = Callback::new(function, data)?;
        let id = model(own)?.on_destroy(move || callback.call());
        state().callbacks.push((own.addr(), callback.address(), id));
        Ok(())
    }

    fn aclmdlRIDestroyUnregisterCallback(own: Handle, function: Function) {
        let address = Callback::new(function, std::ptr::null_mut())?.address();
        let found = model(own)?;
        let mut state = state();
        let known = |(model, function, _): &(usize, usize, _)| {
            *model == own.addr() && *function == address
        };
        let Some(at) = state.callbacks.iter().position(known) else {
            return Err(invalid("no such callback is registered".to_owned()));
        };
        let (.., id) = state.callbacks.swap_remove(at);
        drop(state);
        found.forget_callback(id)
    }

    fn aclmdlRIDebugPrint(own: Handle) {
        let own = model(own)?;
        let mut out = std::io::stdout().lock();
        let written = own.trace(&mut out, Detail::Summary).and_then(|()| out.flush());
        written.map_err(|error| Error::new(INTERNAL_ERROR, format!("standard output: {error}")))
    }

    fn aclmdlRIDebugJsonPrint(own: Handle, path: Text, flags: u32) {
        let (own, path) = (model(own)?, path.read()?);
        let detail = match flags {
            0 => Detail::Summary,
            1 => Detail::Verbose,
            _ => return Err(invalid(format!("flags {flags} of a trace: 0 or 1"))),
        };
        let file = File::create(&*path).map_err(|error| invalid(format!("{path}: {error}")))?;
        let mut out = BufWriter::new(file);
        let written = own.trace(&mut out, detail).and_then(|()| out.flush());
        written.map_err(|error| Error::new(INTERNAL_ERROR, format!("{path}: {error}")))
    }
}
