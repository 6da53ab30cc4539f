//! Events that captured models share with what is outside them.

use std::sync::atomic::Ordering;
use std::time::Duration;

use npu_device::{CaptureMode, CondType, Event, EventFlags, Fault, Model, Stream, TaskType};

use crate::support::{Gate, LONG, code, context, counter, failing, ordinary, until};

fn captured(stream: &Stream, tasks: impl FnOnce()) -> Model {
    stream.begin_capture(CaptureMode::Relaxed).unwrap();
    tasks();
    stream.end_capture().unwrap()
}

fn passed(event: &Event) -> bool {
    event.query().unwrap()
}

#[test]
fn a_model_marks_an_event_for_others_with_every_run() {
    let context = context();
    let [stream, caller, other] = [0, 1, 2].map(|_| ordinary(&context));
    let (event, notify) =
        (context.event(EventFlags::default()).unwrap(), context.notify().unwrap());
    let (count, counted) = counter(&context);
    let model = captured(&stream, || {
        stream.wait_notify(&notify, 0).unwrap();
        stream.record_event_external(&event).unwrap();
    });
    assert!(passed(&event), "no run was submitted yet");
    for run in 1..=3 {
        model.execute_async(&caller).unwrap();
        // What waits now, waits for this run.
        other.wait_event(&event, 0).unwrap();
        other.launch(&count, 1, [0; 4]).unwrap();
        until(|| model.is_running());
        assert!(!passed(&event));
        assert_eq!(counted.load(Ordering::SeqCst), run - 1);
        stream.record_notify(&notify).unwrap();
        event.synchronize(LONG).unwrap();
        other.synchronize(LONG).unwrap();
        caller.synchronize(LONG).unwrap();
        assert_eq!(counted.load(Ordering::SeqCst), run);
    }
}

#[test]
fn a_model_waits_for_what_was_recorded_before_its_run() {
    let context = context();
    let [stream, caller, other] = [0, 1, 2].map(|_| ordinary(&context));
    let event = context.event(EventFlags::default()).unwrap();
    let (count, counted) = counter(&context);
    let model = captured(&stream, || {
        stream.wait_event_external(&event).unwrap();
        stream.launch(&count, 1, [0; 4]).unwrap();
    });
    // Nothing was recorded: at once.
    model.execute(LONG).unwrap();
    let (first, second) = (Gate::new(&context), Gate::new(&context));
    other.launch(&first.function, 1, [0; 4]).unwrap();
    other.record_event(&event).unwrap();
    model.execute_async(&caller).unwrap();
    // A later record does not count for this run.
    other.launch(&second.function, 1, [0; 4]).unwrap();
    other.record_event(&event).unwrap();
    first.wait_for(1);
    until(|| model.is_running());
    assert_eq!(counted.load(Ordering::SeqCst), 1);
    first.open();
    caller.synchronize(LONG).unwrap();
    assert_eq!(counted.load(Ordering::SeqCst), 2);
    // A run that waits too long is aborted, and the next one is as the first.
    let outcome = model.execute(Some(Duration::from_millis(50)));
    assert_eq!(code(outcome), 507_046);
    second.open();
    other.synchronize(LONG).unwrap();
    model.execute(LONG).unwrap();
    assert_eq!(counted.load(Ordering::SeqCst), 3);
}

#[test]
fn a_run_that_fails_or_is_refused_keeps_nobody_waiting() {
    let context = context();
    let [stream, caller, other] = [0, 1, 2].map(|_| ordinary(&context));
    let event = context.event(EventFlags::default()).unwrap();
    let fail = failing(&context, Fault::Exception);
    let model = captured(&stream, || {
        stream.launch(&fail, 1, [0; 4]).unwrap();
        stream.record_event_external(&event).unwrap();
    });
    model.execute_async(&caller).unwrap();
    other.wait_event(&event, 0).unwrap();
    other.synchronize(LONG).unwrap();
    assert_eq!(code(caller.synchronize(LONG)), 507_015);
    // Models do not run in captured streams: no record is counted for this run.
    caller.begin_capture(CaptureMode::Relaxed).unwrap();
    assert_eq!(code(model.execute_async(&caller)), 107_030);
    assert!(passed(&event));
}

#[test]
fn where_external_events_are_refused() {
    let context = context();
    let [stream, other] = [0, 1].map(|_| ordinary(&context));
    let events: Vec<Event> =
        (0..6).map(|_| context.event(EventFlags::default()).unwrap()).collect();
    let [event, plain, ..] = &events[..] else { unreachable!() };
    assert_eq!(code(stream.wait_event_external(event)), 107_029);
    assert_eq!(code(stream.record_event_external(plain)), 107_029);
    other.record_event(plain).unwrap();
    other.synchronize(LONG).unwrap();
    stream.begin_capture(CaptureMode::Relaxed).unwrap();
    assert_eq!(code(stream.record_event_external(plain)), 107_000, "recorded otherwise before");
    stream.record_event_external(event).unwrap();
    assert_eq!(code(stream.wait_event_external(event)), 107_000, "once in a model");
    assert_eq!(code(other.record_event(event)), 107_000, "it stays external");
    stream.wait_event_external(plain).unwrap();
    for event in &events[2..4] {
        stream.wait_event_external(event).unwrap();
    }
    assert_eq!(code(stream.wait_event_external(&events[4])), 207_005);
    let model = stream.capture_info().1.unwrap();
    let handle = model.condition(0, false).unwrap();
    let branch = stream.add_condition(&handle, CondType::If, 1).unwrap();
    other.begin_capture_into(&branch[0], CaptureMode::Relaxed).unwrap();
    assert_eq!(code(other.wait_event_external(&events[5])), 107_000, "in a branch");
    other.end_capture().unwrap();
    let model = stream.end_capture().unwrap();
    let mut target = [None];
    model.streams(Some(&mut target)).unwrap();
    let kinds: Vec<_> = target[0].as_ref().unwrap().tasks().iter().map(|task| task.kind).collect();
    assert_eq!(kinds[..2], [TaskType::EventRecord, TaskType::EventWait]);
    model.execute(LONG).unwrap();
}
