//! AutoSplit: long streams of models.

use std::sync::{Arc, Mutex};

use npu_device::{Call, Config};

use crate::support::{LONG, code, config, context, context_of, finish, model, persistent};

/// The first task that stands in a slave: the first for which `cur + 1 + 32 >= 32767`.
const FIRST_IN_SLAVE: usize = 32_767 - 32 - 1;

#[test]
fn v7_7_forty_thousand_tasks_on_one_stream() {
    let context = context();
    let (model, stream) = model(&context);
    let next = Arc::new(Mutex::new((0, true)));
    let inside = next.clone();
    let run = move |call: &Call| {
        let mut state = inside.lock().unwrap();
        state.1 &= state.0 == call.args[0];
        state.0 += 1;
        Ok(())
    };
    let run = context.register("in order", Arc::new(run)).unwrap();
    let id = stream.id();
    for number in 0..40_000_usize {
        assert_eq!(stream.slave_count(), usize::from(number > FIRST_IN_SLAVE), "task {number}");
        stream.launch(&run, 1, [number as u64, 0, 0, 0]).unwrap();
    }
    assert_eq!((stream.slave_count(), stream.id()), (1, id));
    assert_eq!(model.streams(None).unwrap(), 1, "a slave is not shown");
    finish(&model, &stream);
    assert_eq!(stream.tasks().len(), 40_001, "and the end mark");
    assert!(stream.tasks().iter().all(|task| u32::from(task.sqe.header.stream) == id));
    for _ in 0..2 {
        *next.lock().unwrap() = (0, true);
        model.execute(LONG).unwrap();
        assert_eq!(*next.lock().unwrap(), (40_000, true));
    }
    model.destroy().unwrap();
    assert_eq!((stream.slave_count(), stream.tasks().len()), (0, 0));
}

#[test]
fn v7_8_the_buffer_grows_and_the_queue_is_as_deep_as_needed() {
    let context = context();
    let (model, stream) = model(&context);
    stream.nop().unwrap();
    assert_eq!((stream.host_capacity(), stream.sq_depth()), (2048, 0));
    for _ in 1..5000 {
        stream.nop().unwrap();
    }
    assert_eq!(stream.host_capacity(), 8192);
    finish(&model, &stream);
    assert_eq!((stream.host_capacity(), stream.sq_depth()), (0, 5120));
    model.execute(LONG).unwrap();
}

#[test]
fn without_autosplit_the_queue_is_of_fixed_depth() {
    let context = context_of(Config { auto_split: false, sq_depth: 64, ..config() });
    let (model, stream) = model(&context);
    assert_eq!(stream.sq_depth(), 64);
    for _ in 0..63 {
        stream.nop().unwrap();
    }
    finish(&model, &stream);
    model.execute(LONG).unwrap();
    let (_model, stream) = crate::support::model(&context);
    for _ in 0..64 {
        stream.nop().unwrap();
    }
    assert_eq!(code(stream.nop()), 507_002);
    assert_eq!(stream.slave_count(), 0);
}

#[test]
fn a_stream_that_no_model_has_can_not_be_continued() {
    let context = context();
    let stream = persistent(&context);
    for _ in 0..FIRST_IN_SLAVE {
        stream.nop().unwrap();
    }
    assert_eq!(code(stream.nop()), 107_000);
    let model = context.build_begin().unwrap();
    model.bind(&stream, true).unwrap();
    stream.nop().unwrap();
    assert_eq!(stream.slave_count(), 1);
    finish(&model, &stream);
    model.execute(LONG).unwrap();
    model.unbind(&stream).unwrap();
    assert_eq!(stream.slave_count(), 0);
}

#[test]
fn slaves_are_streams_of_the_device_and_end_with_their_number() {
    let context = context();
    let (model, stream) = model(&context);
    let mut others = Vec::new();
    while let Ok(other) = context.stream(Default::default()) {
        others.push(other);
    }
    for _ in 0..FIRST_IN_SLAVE {
        stream.nop().unwrap();
    }
    assert_eq!(code(stream.nop()), 207_008);
    others.pop().unwrap().destroy().unwrap();
    stream.nop().unwrap();
    finish(&model, &stream);
    model.execute(LONG).unwrap();
    model.destroy().unwrap();
    context.stream(Default::default()).unwrap();
}
