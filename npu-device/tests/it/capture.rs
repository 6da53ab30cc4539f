//! Capturing streams into models.

use std::sync::atomic::Ordering;

use npu_device::{CaptureMode, CaptureStatus, EventFlags, exchange_capture_mode};

use crate::support::{
    Gate, LONG, code, config, context, context_of, counter, finish, logger, model, ordinary,
    persistent, until,
};

fn on_another_thread<R: Send>(act: impl FnOnce() -> R + Send) -> R {
    std::thread::scope(|scope| scope.spawn(act).join().unwrap())
}

#[test]
fn what_is_captured_runs_with_its_model_and_not_before() {
    for auto_split in [true, false] {
        let context = context_of(npu_device::Config { auto_split, ..config() });
        let stream = ordinary(&context);
        let (count, counted) = counter(&context);
        assert_eq!(stream.capture_info().0, CaptureStatus::None);
        stream.begin_capture(CaptureMode::Global).unwrap();
        let (status, captured) = stream.capture_info();
        assert_eq!(status, CaptureStatus::Active);
        for _ in 0..100 {
            stream.launch(&count, 1, [0; 4]).unwrap();
        }
        let model = stream.end_capture().unwrap();
        assert_eq!(model.id(), captured.unwrap().id());
        stream.nop().unwrap();
        stream.synchronize(LONG).unwrap();
        assert_eq!(counted.load(Ordering::SeqCst), 0);
        for run in 1..=3 {
            model.execute_async(&stream).unwrap();
            stream.synchronize(LONG).unwrap();
            assert_eq!(counted.load(Ordering::SeqCst), run * 100);
        }
        model.destroy().unwrap();
        model.destroy().unwrap();
        assert_eq!(code(model.execute(LONG)), 507_011);
        assert_eq!(context.model_count(), 0);
    }
}

#[test]
fn v7_15_begin_and_end() {
    let context = context();
    let stream = ordinary(&context);
    assert_eq!(code(stream.end_capture()), 107_029);
    stream.begin_capture(CaptureMode::Global).unwrap();
    assert_eq!(code(stream.begin_capture(CaptureMode::Global)), 107_027);
    assert_eq!(code(on_another_thread(|| stream.end_capture())), 107_038);
    stream.end_capture().unwrap();
    stream.begin_capture(CaptureMode::Relaxed).unwrap();
    on_another_thread(|| stream.end_capture()).unwrap();
    assert_eq!(code(context.default_stream().begin_capture(CaptureMode::Global)), 107_031);
    assert_eq!(code(persistent(&context).begin_capture(CaptureMode::Global)), 107_000);
    let (normal, _) = model(&context);
    assert_eq!(code(stream.begin_capture_into(&normal, CaptureMode::Global)), 107_000);
}

#[test]
fn v7_15_calls_that_a_capture_forbids() {
    let context = context();
    let (stream, other) = (ordinary(&context), ordinary(&context));
    let memory = context.allocate(16).unwrap();
    let bypass = || {
        let copies = [
            code(context.copy_in((&memory, 0), &[1; 16])),
            code(context.copy_out((&memory, 0), &mut [0; 16])),
            code(context.fill((&memory, 0), 1, 16)),
            code(other.copy_in((&memory, 0), &[2; 16])),
        ];
        assert!(copies == [0; 4] || copies == [107_030, 107_030, 107_030, 107_041], "{copies:?}");
        copies[0] == 0
    };
    let with = |mode, act: &(dyn Fn() -> bool + Sync)| {
        let before = exchange_capture_mode(mode);
        let result = act();
        assert_eq!(exchange_capture_mode(before), mode);
        result
    };
    let modes = [CaptureMode::Global, CaptureMode::ThreadLocal, CaptureMode::Relaxed];
    // Rows: mode of the capture; columns: mode of the thread; this thread's and another one's.
    let expected = [
        ([false, false, true], [false, true, true]),
        ([false, false, true], [true, true, true]),
        ([true, true, true], [true, true, true]),
    ];
    assert!(modes.iter().all(|mode| with(*mode, &bypass)), "without a capture");
    for (mode, (own, others)) in modes.into_iter().zip(expected) {
        stream.begin_capture(mode).unwrap();
        for (thread, expected) in modes.into_iter().zip(own) {
            assert_eq!(with(thread, &bypass), expected, "{mode:?} {thread:?}");
        }
        for (thread, expected) in modes.into_iter().zip(others) {
            let found = on_another_thread(|| with(thread, &bypass));
            assert_eq!(found, expected, "{mode:?} {thread:?}, another thread");
        }
        stream.end_capture().unwrap();
    }
    // An end from a wrong thread ends what the capture forbids.
    stream.begin_capture(CaptureMode::Global).unwrap();
    assert!(!bypass());
    assert_eq!(code(on_another_thread(|| stream.end_capture())), 107_038);
    assert!(bypass());
    stream.end_capture().unwrap();
    assert_eq!(code(context.copy_in((&memory, 1), &[0; 16])), 107_000);
    assert_eq!(code(context.copy_out((&memory, 16), &mut [0; 1])), 107_000);
}

#[test]
fn v7_15_waiting_invalidates_and_nothing_is_left() {
    let context = context();
    let stream = ordinary(&context);
    let event = context.event(EventFlags::default()).unwrap();
    let streams_left = || (0..1022).map_while(|_| context.stream(Default::default()).ok()).count();
    let calls: [(&dyn Fn() -> u32, u32); 6] = [
        (&|| code(stream.synchronize(LONG)), 107_027),
        (&|| code(stream.query()), 107_027),
        (&|| code(stream.abort()), 107_027),
        (&|| code(context.synchronize(LONG)), 107_027),
        (&|| code(event.synchronize(LONG)), 107_028),
        (&|| code(event.query()), 107_028),
    ];
    for (call, expected) in calls {
        stream.begin_capture(CaptureMode::Relaxed).unwrap();
        stream.record_event(&event).unwrap();
        assert_eq!(call(), expected);
        assert_eq!(stream.capture_info().0, CaptureStatus::Invalidated);
        assert_eq!(code(stream.nop()), 507_903);
        assert_eq!(code(stream.end_capture()), 507_903);
        assert_eq!((stream.capture_info().0, context.model_count()), (CaptureStatus::None, 0));
    }
    assert_eq!(code(event.query()), 107_028, "it stays the event of a capture");
    stream.record_event(&event).unwrap();
    event.synchronize(LONG).unwrap();
    context.synchronize(LONG).unwrap();
    // Two of the context, this one, and nothing of the six captures.
    assert_eq!(streams_left(), 1024 - 3);
}

#[test]
fn v7_16_destroy_and_execute_while_capturing() {
    let context = context();
    let (stream, other) = (ordinary(&context), ordinary(&context));
    stream.begin_capture(CaptureMode::Relaxed).unwrap();
    let model = stream.capture_info().1.unwrap();
    assert_eq!(code(model.destroy()), 107_026);
    assert_eq!(code(model.execute(LONG)), 107_026);
    assert_eq!(code(model.execute_async(&other)), 107_026);
    let own = persistent(&context);
    assert_eq!(code(model.bind(&own, true)), 107_026);
    assert_eq!(code(model.unbind(&own)), 107_026);
    assert_eq!(code(model.end_task(&own)), 107_026);
    assert_eq!(code(model.build_end()), 107_026);
    assert_eq!(code(stream.clone().destroy()), 107_027);
    // That ended it; a capture can't hold the run of a model either.
    assert_eq!(code(stream.end_capture()), 507_903);
    let (normal, head) = crate::support::model(&context);
    finish(&normal, &head);
    stream.begin_capture(CaptureMode::Relaxed).unwrap();
    assert_eq!(code(normal.execute_async(&stream)), 107_030);
    let captured = stream.end_capture().unwrap();
    assert_eq!(code(captured.abort()), 207_000);
    assert_eq!(code(captured.bind(&own, true)), 107_026);
    captured.execute(LONG).unwrap();
}

#[test]
fn streams_join_by_events_and_must_be_joined_back() {
    let context = context();
    let (first, second) = (ordinary(&context), ordinary(&context));
    let (log, logged) = logger(&context);
    let [fork, back] = [0, 1].map(|_| context.event(EventFlags::default()).unwrap());
    first.begin_capture(CaptureMode::Global).unwrap();
    for number in 0..10 {
        first.launch(&log, 1, [number, 0, 0, 0]).unwrap();
    }
    first.record_event(&fork).unwrap();
    second.wait_event(&fork, 0).unwrap();
    assert_eq!(second.capture_info().0, CaptureStatus::Active);
    second.launch(&log, 1, [10, 0, 0, 0]).unwrap();
    assert_eq!(code(second.end_capture()), 107_036);
    second.record_event(&back).unwrap();
    first.wait_event(&back, 0).unwrap();
    first.launch(&log, 1, [11, 0, 0, 0]).unwrap();
    let model = first.end_capture().unwrap();
    assert_eq!(second.capture_info().0, CaptureStatus::None);
    for _ in 0..50 {
        model.execute(LONG).unwrap();
        assert_eq!(*logged.lock().unwrap(), (0..12).collect::<Vec<u64>>());
        logged.lock().unwrap().clear();
    }
    assert_eq!(code(second.wait_event(&fork, 0)), 107_028, "its capture is over");
    // Not joined back, or joined back before its last task.
    for late in [false, true] {
        first.begin_capture(CaptureMode::Global).unwrap();
        first.record_event(&fork).unwrap();
        second.wait_event(&fork, 0).unwrap();
        second.launch(&log, 1, [0; 4]).unwrap();
        if late {
            second.record_event(&back).unwrap();
            first.wait_event(&back, 0).unwrap();
            second.launch(&log, 1, [0; 4]).unwrap();
        }
        assert_eq!(code(first.end_capture()), 107_025);
        assert_eq!(second.capture_info().0, CaptureStatus::None);
    }
    assert_eq!(context.model_count(), 1);
    // One that only waited has nothing to bring back.
    first.begin_capture(CaptureMode::Global).unwrap();
    first.record_event(&fork).unwrap();
    second.wait_event(&fork, 0).unwrap();
    first.end_capture().unwrap().execute(LONG).unwrap();
}

#[test]
fn captures_depend_on_nothing_outside() {
    let context = context();
    let (first, second) = (ordinary(&context), ordinary(&context));
    let [outside, never, inside] = [0, 1, 2].map(|_| context.event(EventFlags::default()).unwrap());
    second.record_event(&outside).unwrap();
    first.begin_capture(CaptureMode::Relaxed).unwrap();
    first.wait_event(&never, 0).unwrap();
    assert_eq!(first.capture_info().0, CaptureStatus::Active);
    assert_eq!(code(first.wait_event(&outside, 0)), 107_024);
    assert_eq!(code(first.end_capture()), 507_903);
    first.begin_capture(CaptureMode::Relaxed).unwrap();
    second.begin_capture(CaptureMode::Relaxed).unwrap();
    first.record_event(&inside).unwrap();
    assert_eq!(code(second.wait_event(&inside, 0)), 107_024);
    assert_eq!(code(first.end_capture()), 507_903);
    assert_eq!(code(second.end_capture()), 507_903);
    first.begin_capture(CaptureMode::Relaxed).unwrap();
    first.record_event(&inside).unwrap();
    assert_eq!(code(context.default_stream().wait_event(&inside, 0)), 107_031);
    first.end_capture().unwrap();
}

#[test]
fn long_captures_go_on_in_more_streams() {
    let context = context();
    let stream = ordinary(&context);
    let (count, counted) = counter(&context);
    stream.begin_capture(CaptureMode::Global).unwrap();
    for _ in 0..70_000 {
        stream.launch(&count, 1, [0; 4]).unwrap();
    }
    let model = stream.end_capture().unwrap();
    model.execute(LONG).unwrap();
    assert_eq!(counted.load(Ordering::SeqCst), 70_000);
}

#[test]
fn a_running_capture_model_is_not_destroyed() {
    let patience = std::time::Duration::from_millis(50);
    let context = context_of(npu_device::Config { patience, ..config() });
    let stream = ordinary(&context);
    let gate = Gate::new(&context);
    stream.begin_capture(CaptureMode::Global).unwrap();
    stream.launch(&gate.function, 1, [0; 4]).unwrap();
    let model = stream.end_capture().unwrap();
    model.execute_async(&stream).unwrap();
    gate.wait_for(1);
    assert_eq!(code(model.destroy()), 107_037);
    gate.open();
    until(|| !model.is_running());
    model.destroy().unwrap();
}

#[test]
fn task_groups_are_updated_between_runs() {
    let patience = std::time::Duration::from_millis(50);
    let context = context_of(npu_device::Config { patience, ..config() });
    let (stream, updater) = (ordinary(&context), ordinary(&context));
    let (log, logged) = logger(&context);
    let memory = context.allocate(64).unwrap();
    let gate = Gate::new(&context);
    assert_eq!(code(stream.begin_task_group()), 107_029);
    assert_eq!(code(stream.end_task_group()), 107_029);
    stream.begin_capture(CaptureMode::Global).unwrap();
    assert_eq!(code(stream.end_task_group()), 107_000);
    stream.launch(&log, 1, [1, 0, 0, 0]).unwrap();
    stream.begin_task_group().unwrap();
    assert_eq!(code(stream.begin_task_group()), 107_000);
    stream.launch(&log, 1, [2, 0, 0, 0]).unwrap();
    assert_eq!(code(stream.nop()), 507_009);
    stream.write_value(&memory, 0, 7).unwrap();
    let group = stream.end_task_group().unwrap();
    stream.launch(&log, 1, [3, 0, 0, 0]).unwrap();
    stream.launch(&gate.function, 1, [0; 4]).unwrap();
    assert_eq!(code(stream.begin_update(&group)), 107_027);
    assert_eq!(code(updater.begin_update(&group)), 107_000, "not complete yet");
    let model = stream.end_capture().unwrap();
    assert_eq!(group.task_count(), 2);
    assert_eq!(code(updater.end_update()), 107_000);
    let update = |value: u64, kinds: [bool; 2]| {
        updater.begin_update(&group).unwrap();
        if kinds[0] {
            updater.launch(&log, 1, [value, 0, 0, 0]).unwrap();
        }
        if kinds[1] {
            updater.write_value(&memory, 0, value).unwrap();
        } else {
            updater.fill(&memory, 0, 1, 1).unwrap();
        }
        assert_eq!(code(updater.nop()), 507_009);
        code(updater.end_update())
    };
    assert_eq!(update(9, [false, true]), 107_040);
    assert_eq!(update(9, [true, false]), 107_040);
    model.execute_async(&stream).unwrap();
    gate.wait_for(1);
    assert_eq!(update(9, [true, true]), 107_037);
    gate.open();
    stream.synchronize(LONG).unwrap();
    assert_eq!((&*logged.lock().unwrap(), memory.load(0).unwrap()), (&vec![1, 2, 3], 7));
    assert_eq!(update(20, [true, true]), 0);
    model.execute(LONG).unwrap();
    assert_eq!((&logged.lock().unwrap()[3..], memory.load(0).unwrap()), (&[1, 20, 3][..], 20));
    updater.begin_update(&group).unwrap();
    assert_eq!(code(updater.begin_update(&group)), 107_000);
    assert_eq!(code(updater.begin_capture(CaptureMode::Global)), 107_000);
    model.destroy().unwrap();
    updater.launch(&log, 1, [0; 4]).unwrap();
    updater.write_value(&memory, 0, 0).unwrap();
    assert_eq!(code(updater.end_update()), 107_040, "its model has ended");
    assert_eq!(code(updater.begin_update(&group)), 107_000);
}
