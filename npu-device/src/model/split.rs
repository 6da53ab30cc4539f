//! AutoSplit: a model's tasks stand in a buffer of the host until the model is complete, and go on
//! in a *slave* stream when that buffer is nearly full. Users see one stream with one number.
//!
//! ```text
//! master: t0 t1 … t32733 activate(slave 1)     slave 1: t32734 … activate(slave 2)
//! ```

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::codes::{PARAM_INVALID, Result, STREAM_MODEL, STREAM_TASK_FULL, refuse};
use crate::device::Inner;
use crate::lock::lock;
use crate::model::Graph;
use crate::sqe::Sqe;
use crate::stream::{Core, Placed, Queue, Submit, activation};

/// Entries that the host's buffer of one stream can hold.
pub(crate) const HOST_SQES_MAX: usize = 32_767;

/// Entries that are kept free at its end.
pub(crate) const RESERVED: usize = 32;

/// Entries it begins with room for.
const HOST_SQES_FIRST: usize = 2048;

/// Entries of a device's queue, at most.
const DEPTH_MAX: usize = 32_768;

/// Depths are multiples of this.
const DEPTH_STEP: usize = 1024;

/// Whether `more` entries would come too near to the end of the buffer.
fn is_full(submit: &Submit, more: usize) -> bool {
    submit.host.len() + more + RESERVED >= HOST_SQES_MAX
}

/// Room for one entry, in a stream that no model can continue, or that none may.
pub(crate) fn reserve(submit: &mut Submit, stream: &Core) -> Result<()> {
    if is_full(submit, 1) {
        let id = stream.shown;
        if stream.is_cpu() {
            let what = format!("stream {id} has {} tasks, as the CPU's can", submit.host.len());
            return refuse(STREAM_TASK_FULL, what);
        }
        let what = format!("stream {id} has no model that could continue it");
        return refuse(PARAM_INVALID, what);
    }
    grow(submit);
    Ok(())
}

fn grow(submit: &mut Submit) {
    let (used, room) = (submit.host.len(), submit.host.capacity());
    if used == room {
        let wanted = (room * 2).clamp(HOST_SQES_FIRST, DEPTH_MAX);
        submit.host.reserve_exact(wanted - used);
    }
}

/// Appends an entry to a stream of a model, in its last slave. The model's lock is taken before
/// those of streams, and a slave is made under no stream's lock.
pub(crate) fn append(
    master: &Arc<Core>,
    device: &Inner,
    graph: &Arc<Graph>,
    mut sqe: Sqe,
) -> Result<Placed> {
    let mut build = lock(&graph.build);
    let last = lock(&master.submit).slaves.last().cloned();
    let mut last = last.unwrap_or_else(|| master.clone());
    {
        let submit = lock(&last.submit);
        last.check_open(&submit)?;
        if is_full(&submit, 1) {
            drop(submit);
            let slave = device.new_stream(master.flags, master.context, Some(master.shown))?;
            slave.set_level(master.level());
            *lock(&slave.graph) = Arc::downgrade(graph);
            let mut entry = activation(&slave);
            let mut submit = lock(&last.submit);
            last.stamp(&mut submit, &mut entry);
            submit.host.push(entry);
            drop(submit);
            build.streams.push_front(slave.clone());
            lock(&master.submit).slaves.push(slave.clone());
            last = slave;
        }
    }
    let report_all = lock(&master.submit).report_all;
    let mut submit = lock(&last.submit);
    submit.report_all = report_all;
    grow(&mut submit);
    last.stamp(&mut submit, &mut sqe);
    submit.host.push(sqe);
    let position = submit.host.len() as u64 - 1;
    drop(submit);
    Ok(Placed { stream: last, position, task: sqe.header.task })
}

/// Depth of a device's queue for so many entries.
pub(crate) fn depth(entries: usize) -> usize {
    entries.next_multiple_of(DEPTH_STEP).clamp(DEPTH_STEP, DEPTH_MAX)
}

/// Gives every stream its queue on the device and copies its entries there, at once for all.
/// Streams that have theirs are left as they are, and so are the CPU's; gives the number of those
/// that got one.
pub(crate) fn build_queues<'a>(streams: impl Iterator<Item = &'a Arc<Core>>) -> Result<usize> {
    let (mut seen, mut switched) = (0, 0);
    for core in streams {
        seen += 1;
        let mut submit = lock(&core.submit);
        if submit.complete || core.is_cpu() || core.bound.load(Ordering::Acquire) {
            continue;
        }
        let depth = depth(submit.host.len());
        fill(core, &mut submit, depth);
        switched += 1;
    }
    if seen == 0 {
        return refuse(STREAM_MODEL, "no streams to make queues for");
    }
    Ok(switched)
}

/// Packs the tasks of the CPU's streams, as many as there are, once.
pub(crate) fn pack_cpu<'a>(streams: impl Iterator<Item = &'a Arc<Core>>) {
    for core in streams.filter(|core| core.is_cpu()) {
        let mut submit = lock(&core.submit);
        if !submit.complete {
            let count = submit.host.len();
            fill(core, &mut submit, count);
        }
    }
}

/// The tasks that stood on the host are the stream's from here on.
fn fill(core: &Core, submit: &mut Submit, depth: usize) {
    let queue = Queue::line(depth);
    for (position, sqe) in (0..).zip(&submit.host) {
        queue.write(position, sqe);
    }
    core.set_queue(queue);
    core.tail.store(submit.host.len() as u64, Ordering::Release);
    submit.host = Vec::new();
    submit.complete = true;
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::{build_queues, depth, pack_cpu};
    use crate::context::Context;
    use crate::device::{Config, Device};
    use crate::lock::lock;
    use crate::stream::{Stream, StreamFlags};

    #[test]
    fn v7_6_streams_that_have_their_queue_are_skipped() {
        let context = Context::new(&Device::new(Config::default()).unwrap()).unwrap();
        let [a, b] = [0, 1].map(|_| context.stream(StreamFlags(StreamFlags::PERSISTENT)).unwrap());
        a.nop().unwrap();
        assert_eq!(build_queues([&a.core].into_iter()).unwrap(), 1);
        let queue = a.core.queue();
        assert_eq!(build_queues([&a.core, &b.core].into_iter()).unwrap(), 1);
        assert!(std::sync::Arc::ptr_eq(&queue, &a.core.queue()));
        assert_eq!(build_queues([&a.core, &b.core].into_iter()).unwrap(), 0);
        assert_eq!(build_queues([].into_iter()).unwrap_err().code().0, 107_005);
    }

    #[test]
    fn v7_5_streams_of_the_cpu_get_no_queue() {
        let context = Context::new(&Device::new(Config::default()).unwrap()).unwrap();
        let [a, b] =
            [0, 1].map(|_| context.stream(StreamFlags(StreamFlags::CPU_SCHEDULE)).unwrap());
        a.nop().unwrap();
        let streams = [&a.core, &b.core];
        assert_eq!(build_queues(streams.into_iter()).unwrap(), 0);
        assert_eq!((a.sq_depth(), a.core.entries().len()), (0, 1));
        pack_cpu(streams.into_iter());
        assert_eq!((a.sq_depth(), a.core.entries().len(), b.sq_depth()), (1, 1, 0));
        assert_eq!(build_queues(streams.into_iter()).unwrap(), 0);
    }

    /// Where the entries of a stream are, and whether the device knows of it: entries on the host,
    /// on the device, bound.
    fn place(stream: &Stream) -> (usize, u64, bool) {
        let core = &stream.core;
        let bound = core.bound.load(Ordering::Acquire);
        (lock(&core.submit).host.len(), core.tail.load(Ordering::Acquire), bound)
    }

    #[test]
    fn when_streams_are_bound_and_their_entries_submitted() {
        for auto_split in [false, true] {
            let config = Config { auto_split, ..Config::default() };
            let context = Context::new(&Device::new(config).unwrap()).unwrap();
            let stream = context.stream(StreamFlags(StreamFlags::PERSISTENT)).unwrap();
            let model = context.build_begin().unwrap();
            assert_eq!(place(&stream), (0, 0, false));
            model.bind(&stream, true).unwrap();
            assert_eq!(place(&stream), (0, 0, !auto_split));
            stream.nop().unwrap();
            stream.nop().unwrap();
            let submitted = if auto_split { (2, 0, false) } else { (0, 2, true) };
            assert_eq!(place(&stream), submitted);
            assert_eq!(stream.host_capacity() == 0, !auto_split);
            model.end_task(&stream).unwrap();
            let ended = if auto_split { (3, 0, false) } else { (0, 3, true) };
            assert_eq!(place(&stream), ended);
            model.build_end().unwrap();
            assert_eq!(place(&stream), (0, 3, true));
            model.execute(None).unwrap();
            model.unbind(&stream).unwrap();
            assert_eq!(place(&stream), (0, 0, false));
        }
    }

    #[test]
    fn v7_6_streams_that_the_device_has_bound_are_skipped() {
        let config = Config { auto_split: false, ..Config::default() };
        let context = Context::new(&Device::new(config).unwrap()).unwrap();
        let stream = context.stream(StreamFlags(StreamFlags::PERSISTENT)).unwrap();
        context.build_begin().unwrap().bind(&stream, true).unwrap();
        let queue = stream.core.queue();
        assert_eq!(build_queues([&stream.core].into_iter()).unwrap(), 0);
        assert!(std::sync::Arc::ptr_eq(&queue, &stream.core.queue()));
    }

    #[test]
    fn depths_are_multiples_of_1024_with_an_end() {
        assert_eq!(
            [0, 1, 1024, 1025, 32_000, 40_000].map(depth),
            [1024, 1024, 1024, 2048, 32_768, 32_768]
        );
    }
}
