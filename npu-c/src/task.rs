//! Looking at the tasks of a stream, and changing them.

use std::ffi::c_int;

use npu_device::{TaskChange, TaskInfo, TaskType};

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
