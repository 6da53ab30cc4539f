//! Looking at the tasks of a stream, and changing them.

use std::ffi::c_int;

use npu_device::codes::{FEATURE_NOT_SUPPORT, PARAM_INVALID, TASK_TYPE_NOT_SUPPORT};
use npu_device::{Error, Result, TaskChange, TaskInfo, TaskType};

use crate::model::put_handles;
use crate::params::{self, Params};
use crate::raw::{Out, null};
use crate::state::{Handle, model, named_stream, task, tasks_of};

pub(crate) fn kind(info: &TaskInfo) -> c_int {
    match info.kind {
        TaskType::Other => 0,
        TaskType::Kernel => 1,
        TaskType::EventRecord => 2,
        TaskType::EventWait => 3,
        TaskType::EventReset => 4,
        TaskType::ValueWrite => 5,
        TaskType::ValueWait => 6,
    }
}

/// `aclrtLaunchKernelAttrValue`, as words.
type AttrValue = [u32; 4];

/// What a kernel was launched with, by the number of an `aclrtLaunchKernelAttrId`.
fn attribute(own: Handle, id: c_int) -> Result<AttrValue> {
    let is = kind(&task(own)?.0);
    if is != 1 {
        let what = format!("a task of type {is} has no attributes of a kernel");
        return Err(Error::new(TASK_TYPE_NOT_SUPPORT, what));
    }
    match id {
        // A kernel begins as soon as a core is free, nothing of it is dumped, and it has no limit.
        1 | 6 | 7 => Ok([0; 4]),
        2..=5 => {
            let what = format!("attribute {id} of a kernel: this device's cores have no such part");
            Err(Error::new(FEATURE_NOT_SUPPORT, what))
        }
        _ => Err(Error::new(PARAM_INVALID, format!("attribute {id} of a kernel: 1 to 7"))),
    }
}

api! {
    fn aclmdlRIGetTasksByStream(at: Handle, place: Out<Handle>, count: Out<u32>) {
        let tasks = named_stream(at)?.tasks();
        if count.is_null() {
            return Err(null("a place for the number of tasks"));
        }
        put_handles(&place, &count, &tasks_of(at.addr(), &tasks))
    }

    fn aclmdlRITaskGetSeqId(own: Handle, id: Out<u32>) {
        id.put(task(own)?.0.sequence)
    }

    fn aclmdlRITaskGetType(own: Handle, place: Out<c_int>) {
        place.put(kind(&task(own)?.0))
    }

    fn aclmdlRITaskGetParams(own: Handle, place: Out<Params>) {
        if place.is_null() {
            return Err(null("a place for the parameters"));
        }
        place.put(params::of(own)?)
    }

    fn aclmdlRIKernelTaskGetAttribute(own: Handle, id: c_int, place: Out<AttrValue>) {
        if place.is_null() {
            return Err(null("a place for the attribute"));
        }
        place.put(attribute(own, id)?)
    }

    fn aclmdlRITaskSetParams(own: Handle, wanted: Out<Params>) {
        let wanted = params::wanted(own, &wanted.get()?)?;
        let (info, stream) = task(own)?;
        stream.change_task(info.sequence, &wanted.change())
    }

    fn aclmdlRITaskDisable(own: Handle) {
        let (info, stream) = task(own)?;
        stream.change_task(info.sequence, &TaskChange::Nothing)
    }

    fn aclmdlRIUpdate(own: Handle) {
        model(own)?.update()
    }
}
