//! What streams wait for and jump to: events, notifies, labels.

use std::ffi::c_void;

use npu_device::codes::{FEATURE_NOT_SUPPORT, PARAM_INVALID};
use npu_device::{Error, EventFlags, Label, Result};

use crate::raw::{Out, null};
use crate::runtime::timeout;
use crate::state::{
    self, Handle, Object, current, current_number, keep, label, labels, named_stream, notify,
    stream,
};

/// Flags of events that are known and not offered: progress of a capture, of the device only,
/// external, of several processes.
const NOT_OFFERED: u32 = 0x2 | 0x10 | 0x20 | 0x40;

fn make_event(place: &Out<Handle>, flags: u32) -> Result<()> {
    if place.is_null() {
        return Err(null("a place for the event"));
    }
    if flags & NOT_OFFERED != 0 {
        let what = format!("event flags {:#x} are not offered", flags & NOT_OFFERED);
        return Err(Error::new(FEATURE_NOT_SUPPORT, what));
    }
    let made = current()?.context.event(EventFlags(flags))?;
    place.put(keep(Object::Event(made), current_number()))
}

/// Whether a flag says that the other side is outside the capture.
fn external(flag: u32) -> Result<bool> {
    match flag {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Error::new(PARAM_INVALID, format!("flag {flag} of an event's task: 0 or 1"))),
    }
}

api! {
    fn aclrtCreateEvent(place: Out<Handle>) {
        make_event(&place, EventFlags::SYNC | EventFlags::TIME_LINE)
    }

    fn aclrtCreateEventWithFlag(place: Out<Handle>, flag: u32) {
        make_event(&place, flag)
    }

    fn aclrtDestroyEvent(event: Handle) {
        state::event(event)?;
        state::forget(event);
        Ok(())
    }

    fn aclrtGetEventId(event: Handle, id: Out<u32>) {
        id.put(state::event(event)?.id())
    }

    fn aclrtRecordEvent(event: Handle, own: Handle) {
        stream(own)?.record_event(&state::event(event)?).map(drop)
    }

    fn aclrtRecordEventWithFlag(event: Handle, own: Handle, flag: u32) {
        let (own, event) = (stream(own)?, state::event(event)?);
        if external(flag)? {
            own.record_event_external(&event).map(drop)
        } else {
            own.record_event(&event).map(drop)
        }
    }

    fn aclrtStreamWaitEventWithFlag(own: Handle, event: Handle, flag: u32) {
        let (own, event) = (stream(own)?, state::event(event)?);
        if external(flag)? {
            own.wait_event_external(&event).map(drop)
        } else {
            own.wait_event(&event, 0).map(drop)
        }
    }

    fn aclrtResetEvent(event: Handle, own: Handle) {
        stream(own)?.reset_event(&state::event(event)?).map(drop)
    }

    fn aclrtStreamWaitEvent(own: Handle, event: Handle) {
        stream(own)?.wait_event(&state::event(event)?, 0).map(drop)
    }

    fn aclrtQueryEventStatus(event: Handle, status: Out<i32>) {
        if status.is_null() {
            return Err(null("a place for the status"));
        }
        status.put(i32::from(state::event(event)?.query()?))
    }

    fn aclrtSynchronizeEvent(event: Handle) {
        state::event(event)?.synchronize(None)
    }

    fn aclrtSynchronizeEventWithTimeout(event: Handle, ms: i32) {
        state::event(event)?.synchronize(timeout(ms)?)
    }

    fn aclrtEventElapsedTime(ms: Out<f32>, begin: Handle, end: Handle) {
        let elapsed = state::event(begin)?.elapsed(&state::event(end)?)?;
        ms.put(elapsed.as_secs_f32() * 1000.0)
    }

    fn aclrtCreateNotify(place: Out<Handle>, flag: u64) {
        if place.is_null() {
            return Err(null("a place for the notify"));
        }
        if flag != 0 {
            return Err(Error::new(PARAM_INVALID, format!("flag {flag} of a notify: 0")));
        }
        let made = current()?.context.notify()?;
        place.put(keep(Object::Notify(made), current_number()))
    }

    fn aclrtDestroyNotify(own: Handle) {
        notify(own)?;
        state::forget(own);
        Ok(())
    }

    fn aclrtGetNotifyId(own: Handle, id: Out<u32>) {
        id.put(notify(own)?.id())
    }

    fn aclrtRecordNotify(own: Handle, at: Handle) {
        stream(at)?.record_notify(&notify(own)?).map(drop)
    }

    fn aclrtWaitAndResetNotify(own: Handle, at: Handle, seconds: u32) {
        stream(at)?.wait_notify(&notify(own)?, seconds).map(drop)
    }

    fn aclrtCreateLabel(place: Out<Handle>) {
        if place.is_null() {
            return Err(null("a place for the label"));
        }
        let made = current()?.context.label(None)?;
        place.put(keep(Object::Label(made), current_number()))
    }

    fn aclrtDestroyLabel(own: Handle) {
        label(own)?;
        state::forget(own);
        Ok(())
    }

    fn aclrtSetLabel(own: Handle, at: Handle) {
        named_stream(at)?.set_label(&label(own)?).map(drop)
    }

    fn aclrtCreateLabelList(all: Out<Handle>, count: usize, place: Out<Handle>) {
        if place.is_null() {
            return Err(null("a place for the list"));
        }
        if count > 65_535 {
            return Err(Error::new(PARAM_INVALID, format!("{count} labels: 1 to 65535")));
        }
        let all: Vec<Label> = all.list(count)?.into_iter().map(label).collect::<Result<_>>()?;
        let list = current()?.context.label_list(&all)?;
        place.put(keep(Object::Labels(list), current_number()))
    }

    fn aclrtDestroyLabelList(own: Handle) {
        labels(own)?;
        state::forget(own);
        Ok(())
    }

    fn aclrtSwitchLabelByIndex(index: *mut c_void, count: u32, list: Handle, at: Handle) {
        if index.is_null() {
            return Err(null("the address of the index"));
        }
        let (list, at) = (labels(list)?, named_stream(at)?);
        at.switch_by_index_at(index.expose_provenance() as u64, count, &list).map(drop)
    }
}
