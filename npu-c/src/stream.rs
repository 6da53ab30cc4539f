//! Streams, and the functions of the host in them.

use std::ffi::c_void;

use npu_device::codes::PARAM_INVALID;
use npu_device::{Error, Priority, StreamFlags};

use crate::raw::{Callback, Function, Out, null};
use crate::runtime::timeout;
use crate::state::{self, Handle, Object, current, current_number, keep, named_stream, stream};

fn make(place: &Out<Handle>, priority: u32, flags: u32) -> npu_device::Result<()> {
    if place.is_null() {
        return Err(null("a place for the stream"));
    }
    let level = i32::try_from(priority).ok().filter(|level| *level <= 7);
    let level = level.ok_or_else(|| {
        Error::new(PARAM_INVALID, format!("priority {priority} of a stream: 0 to 7"))
    })?;
    let made = current()?.context.stream(StreamFlags(flags))?;
    made.set_priority(Priority::new(level / 3, level % 3)?);
    place.put(keep(Object::Stream(made), current_number()))
}

api! {
    fn aclrtCreateStream(place: Out<Handle>) {
        make(&place, 7, 0)
    }

    fn aclrtCreateStreamWithConfig(place: Out<Handle>, priority: u32, flag: u32) {
        make(&place, priority, flag)
    }

    fn aclrtDestroyStream(own: Handle) {
        named_stream(own)?.destroy()?;
        state::forget(own);
        Ok(())
    }

    fn aclrtSynchronizeStream(own: Handle) {
        stream(own)?.synchronize(None)
    }

    fn aclrtSynchronizeStreamWithTimeout(own: Handle, ms: i32) {
        stream(own)?.synchronize(timeout(ms)?)
    }

    fn aclrtStreamQuery(own: Handle, status: Out<i32>) {
        if status.is_null() {
            return Err(null("a place for the status"));
        }
        let done = stream(own)?.query()?;
        status.put(i32::from(!done))
    }

    fn aclrtStreamAbort(own: Handle) {
        named_stream(own)?.abort()
    }

    fn aclrtStreamGetId(own: Handle, id: Out<i32>) {
        id.put(stream(own)?.id().cast_signed())
    }

    fn aclrtStreamGetFlags(own: Handle, flags: Out<u32>) {
        flags.put(stream(own)?.flags().0)
    }

    fn aclrtActiveStream(other: Handle, own: Handle) {
        stream(own)?.activate(&named_stream(other)?).map(drop)
    }

    fn aclrtCtxGetCurrentDefaultStream(place: Out<Handle>) {
        let own = current()?.context.default_stream();
        place.put(state::stream_handle(&own, current_number()))
    }

    fn aclrtLaunchHostFunc(own: Handle, function: Function, data: *mut c_void) {
        let callback = Callback::new(function, data)?;
        let (own, owner) = state::stream_and_owner(own)?;
        let home = state::home_of(state::handle(owner)).or_else(|_| current())?;
        own.host_function(&home.caller, callback.words()).map(drop)
    }
}
