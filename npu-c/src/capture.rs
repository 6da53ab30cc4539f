//! Captures: their begin and end, task groups, conditions.

use std::ffi::c_int;

use npu::aligned::AlignedBytes;
use npu_device::codes::PARAM_INVALID;
use npu_device::{CaptureMode, CondHandle, CondType, Error, Result, exchange_capture_mode};

use crate::raw::{Out, null};
use crate::state::{
    self, Handle, Object, find, group, keep, model, model_handle, named_stream, stream_and_owner,
};

/// What `aclmdlRIAddCondTask` is given.
#[repr(C)]
pub(crate) struct CondParams {
    handle: Handle,
    kind: c_int,
    size: u32,
    models: Out<Handle>,
}

fn mode(number: c_int) -> Result<CaptureMode> {
    let modes = [CaptureMode::Global, CaptureMode::ThreadLocal, CaptureMode::Relaxed];
    modes
        .into_iter()
        .find(|mode| *mode as c_int == number)
        .ok_or_else(|| Error::new(PARAM_INVALID, format!("capture mode {number}: 0 to 2")))
}

fn cond(handle: Handle) -> Result<((CondHandle, usize), usize)> {
    find(handle, "condition", |object| match object {
        Object::Cond(cond, cell) => Some((cond.clone(), *cell)),
        _ => None,
    })
}

api! {
    fn aclmdlRICaptureBegin(at: Handle, kind: c_int) {
        let kind = mode(kind)?;
        named_stream(at)?.begin_capture(kind)
    }

    fn aclmdlRICaptureToModelRIBegin(at: Handle, into: Handle, kind: c_int) {
        let kind = mode(kind)?;
        named_stream(at)?.begin_capture_into(&model(into)?, kind)
    }

    fn aclmdlRICaptureGetInfo(at: Handle, status: Out<c_int>, place: Out<Handle>) {
        if status.is_null() && place.is_null() {
            return Err(null("one of the places for what is asked"));
        }
        let (at, owner) = stream_and_owner(at)?;
        let (found, model) = at.capture_info();
        if !status.is_null() {
            status.put(found as c_int)?;
        }
        if !place.is_null() {
            place.put(model.map_or(std::ptr::null_mut(), |model| model_handle(&model, owner)))?;
        }
        Ok(())
    }

    fn aclmdlRICaptureEnd(at: Handle, place: Out<Handle>) {
        if place.is_null() {
            return Err(null("a place for the model"));
        }
        if at.is_null() {
            return Err(null("a stream"));
        }
        let (at, owner) = stream_and_owner(at)?;
        let before = at.capture_info().1;
        let ended = at.end_capture().inspect_err(|_| {
            // Its handle, if somebody asked for it, ends with the model.
            if let (Some(gone), None) = (&before, at.capture_info().1) {
                state::forget_if(|object| match object {
                    Object::Model(known) => known == gone,
                    _ => false,
                });
            }
        })?;
        place.put(model_handle(&ended, owner))
    }

    fn aclmdlRICaptureThreadExchangeMode(place: Out<c_int>) {
        let old = exchange_capture_mode(mode(place.get()?)?);
        place.put(old as c_int)
    }

    fn aclmdlRICaptureTaskGrpBegin(at: Handle) {
        named_stream(at)?.begin_task_group()
    }

    fn aclmdlRICaptureTaskGrpEnd(at: Handle, place: Out<Handle>) {
        if place.is_null() {
            return Err(null("a place for the group"));
        }
        let own = named_stream(at)?;
        let (_, captured) = own.capture_info();
        let ended = own.end_task_group()?;
        let (_, owner) = stream_and_owner(at)?;
        let owner = captured.map_or(owner, |model| model_handle(&model, owner).addr());
        place.put(keep(Object::Group(ended), owner))
    }

    fn aclmdlRICaptureTaskUpdateBegin(at: Handle, own: Handle) {
        named_stream(at)?.begin_update(&group(own)?)
    }

    fn aclmdlRICaptureTaskUpdateEnd(at: Handle) {
        named_stream(at)?.end_update()
    }

    fn aclmdlRICondHandleCreate(own: Handle, default: u32, flag: c_int, place: Out<Handle>) {
        if place.is_null() {
            return Err(null("a place for the condition"));
        }
        if !(0..=1).contains(&flag) {
            return Err(Error::new(PARAM_INVALID, format!("flag {flag} of a condition: 0 or 1")));
        }
        let found = model(own)?;
        let mut cell = AlignedBytes::zeroed(8);
        let address = cell.as_mut_ptr().expose_provenance();
        let made = found.condition_at(address as u64, default.into(), flag == 1)?;
        found.on_destroy(move || drop(cell));
        place.put(keep(Object::Cond(made, address), own.addr()))
    }

    fn aclmdlRICondHandleGetCondPtr(own: Handle, place: Out<*mut u64>) {
        let ((_, cell), _) = cond(own)?;
        place.put(std::ptr::with_exposed_provenance_mut(cell))
    }

    fn aclmdlRIAddCondTask(params: CondParams, at: Handle, flags: u32) {
        if flags != 0 {
            return Err(Error::new(PARAM_INVALID, format!("flags {flags} of a condition: 0")));
        }
        let kinds = [CondType::If, CondType::While, CondType::Switch];
        let kind = kinds.into_iter().find(|kind| *kind as c_int == params.kind);
        let kind = kind.ok_or_else(|| {
            Error::new(PARAM_INVALID, format!("condition of kind {}: 0 to 2", params.kind))
        })?;
        let ((handle, _), owner) = cond(params.handle)?;
        if params.models.is_null() {
            return Err(null("an array for the branches"));
        }
        let made = named_stream(at)?.add_condition(&handle, kind, params.size as usize)?;
        params.models.put_all(made.iter().map(|model| model_handle(model, owner)))
    }
}
