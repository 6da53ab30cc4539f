//! Beginning and end, devices and contexts.

use std::ffi::c_char;

use npu_device::codes::{FEATURE_NOT_SUPPORT, PARAM_INVALID};
use npu_device::{Error, Result};

use crate::raw::{Out, Text};
use crate::state::{self, Handle, INVALID_DEVICE, handle};

fn check_device(device: i32) -> Result<()> {
    if device != 0 {
        return Err(Error::new(INVALID_DEVICE, format!("device {device}: there is device 0 only")));
    }
    Ok(())
}

/// A timeout as C gives it: -1 is forever, else milliseconds.
pub(crate) fn timeout(ms: i32) -> Result<Option<std::time::Duration>> {
    match ms {
        -1 => Ok(None),
        1.. => Ok(Some(std::time::Duration::from_millis(ms.unsigned_abs().into()))),
        _ => Err(Error::new(PARAM_INVALID, format!("timeout {ms}: -1 or milliseconds"))),
    }
}

api! {
    fn aclInit(config: Text) {
        if !config.is_null() && !config.read()?.is_empty() {
            return Err(Error::new(FEATURE_NOT_SUPPORT, "configuration files are not offered"));
        }
        state::initialize()
    }

    fn aclFinalize() {
        state::finalize()
    }

    fn aclGetRecentErrMsg() -> *const c_char, or state::last(); {
        Ok(state::last())
    }

    fn aclrtGetDeviceCount(count: Out<u32>) {
        count.put(1)
    }

    fn aclrtSetDevice(device: i32) {
        check_device(device)?;
        state::make_current(state::primary()?);
        Ok(())
    }

    fn aclrtResetDevice(device: i32) {
        check_device(device)?;
        state::drop_primary();
        Ok(())
    }

    fn aclrtGetDevice(device: Out<i32>) {
        state::current()?;
        device.put(0)
    }

    fn aclrtSynchronizeDevice() {
        state::current()?.context.synchronize(None)
    }

    fn aclrtSynchronizeDeviceWithTimeout(ms: i32) {
        state::current()?.context.synchronize(timeout(ms)?)
    }

    fn aclrtCreateContext(context: Out<Handle>, device: i32) {
        check_device(device)?;
        if context.is_null() {
            return Err(crate::raw::null("a place for the context"));
        }
        let made = state::new_context()?;
        state::make_current(made.addr());
        context.put(made)
    }

    fn aclrtDestroyContext(context: Handle) {
        state::home_of(context)?;
        if state::current_number() == context.addr() {
            state::make_current(0);
        }
        state::forget(context);
        Ok(())
    }

    fn aclrtSetCurrentContext(context: Handle) {
        state::home_of(context)?;
        state::make_current(context.addr());
        Ok(())
    }

    fn aclrtGetCurrentContext(context: Out<Handle>) {
        state::current()?;
        context.put(handle(state::current_number()))
    }
}
