//! Conditions in captured models: if, while, switch.

use std::sync::Arc;

use npu_device::{Call, CaptureMode, CondHandle, CondType, Context, Memory, Model, Stream};

use crate::support::{LONG, code, context, failing, logger, ordinary, until};

const MODE: CaptureMode = CaptureMode::Relaxed;

/// Begins a capture and adds a condition to it.
fn conditioned(
    stream: &Stream,
    (default, reset): (u64, bool),
    (kind, branches): (CondType, usize),
) -> (CondHandle, Vec<Model>) {
    stream.begin_capture(MODE).unwrap();
    let handle = stream.capture_info().1.unwrap().condition(default, reset).unwrap();
    let branches = stream.add_condition(&handle, kind, branches).unwrap();
    (handle, branches)
}

/// Captures one kernel into a branch.
fn fill(context: &Context, branch: &Model, act: impl FnOnce(&Stream) -> u16) {
    let stream = ordinary(context);
    stream.begin_capture_into(branch, MODE).unwrap();
    act(&stream);
    stream.end_capture().unwrap();
}

/// A kernel that takes one from a cell.
fn decrement(context: &Context, cell: &Memory) -> npu_device::Function {
    let cell = cell.clone();
    let run = move |_: &Call| {
        cell.store(0, cell.load(0).unwrap() - 1).unwrap();
        Ok(())
    };
    context.register("decrement", Arc::new(run)).unwrap()
}

#[test]
fn v7_17_if_while_and_switch() {
    let context = context();
    let stream = ordinary(&context);
    let (log, logged) = logger(&context);
    let run = |model: &Model| {
        model.execute(LONG).unwrap();
        std::mem::take(&mut *logged.lock().unwrap())
    };
    for size in [1, 2] {
        let (handle, branches) = conditioned(&stream, (1, false), (CondType::If, size));
        for (number, branch) in (0..).zip(&branches) {
            fill(&context, branch, |s| s.launch(&log, 1, [number, 0, 0, 0]).unwrap());
        }
        stream.launch(&log, 1, [9, 0, 0, 0]).unwrap();
        let model = stream.end_capture().unwrap();
        assert_eq!(handle.cell().unwrap().load(0).unwrap(), 0, "zero at first");
        handle.cell().unwrap().store(0, 1).unwrap();
        assert_eq!(run(&model), [0, 9]);
        handle.cell().unwrap().store(0, 0).unwrap();
        let other: &[u64] = if size == 2 { &[1, 9] } else { &[9] };
        assert_eq!(run(&model), other);
        model.destroy().unwrap();
    }
    let (handle, branches) = conditioned(&stream, (1, true), (CondType::If, 1));
    fill(&context, &branches[0], |s| s.launch(&log, 1, [5, 0, 0, 0]).unwrap());
    let model = stream.end_capture().unwrap();
    handle.cell().unwrap().store(0, 0).unwrap();
    assert_eq!(run(&model), [5], "set to its default before each run");
    let (handle, branches) = conditioned(&stream, (2, true), (CondType::Switch, 3));
    for (number, branch) in (0..).zip(&branches) {
        fill(&context, branch, |s| s.launch(&log, 1, [number, 0, 0, 0]).unwrap());
    }
    let model = stream.end_capture().unwrap();
    assert_eq!(run(&model), [2]);
    let _ = handle;
    let (handle, branches) = conditioned(&stream, (0, false), (CondType::Switch, 3));
    for (number, branch) in (0..).zip(&branches) {
        fill(&context, branch, |s| s.launch(&log, 1, [number, 0, 0, 0]).unwrap());
    }
    let model = stream.end_capture().unwrap();
    for (cell, expected) in [(0, &[0][..]), (2, &[2]), (3, &[]), (u64::MAX, &[])] {
        handle.cell().unwrap().store(0, cell).unwrap();
        assert_eq!(run(&model), expected, "cell {cell}");
    }
    let (handle, branches) = conditioned(&stream, (3, true), (CondType::While, 1));
    let decrement = decrement(&context, handle.cell().unwrap());
    fill(&context, &branches[0], |s| {
        s.launch(&log, 1, [1, 0, 0, 0]).unwrap();
        s.launch(&decrement, 1, [0; 4]).unwrap()
    });
    let model = stream.end_capture().unwrap();
    for _ in 0..20 {
        assert_eq!(run(&model), [1, 1, 1]);
    }
}

#[test]
fn v7_17_what_does_not_fit() {
    let context = context();
    let (stream, other) = (ordinary(&context), ordinary(&context));
    stream.begin_capture(MODE).unwrap();
    let model = stream.capture_info().1.unwrap();
    let handle = model.condition(0, false).unwrap();
    for (kind, wrong) in
        [(CondType::If, 0), (CondType::If, 3), (CondType::While, 2), (CondType::Switch, 0)]
    {
        assert_eq!(code(stream.add_condition(&handle, kind, wrong)), 107_000);
    }
    assert_eq!(code(other.add_condition(&handle, CondType::If, 1)), 107_029);
    let branches = stream.add_condition(&handle, CondType::If, 1).unwrap();
    assert_eq!(code(stream.add_condition(&handle, CondType::If, 1)), 107_000);
    let branch = &branches[0];
    assert_eq!(code(branch.destroy()), 107_000);
    assert_eq!(code(branch.execute(LONG)), 107_000);
    other.begin_capture_into(branch, MODE).unwrap();
    assert_eq!(code(branch.destroy()), 107_026);
    let third = ordinary(&context);
    assert_eq!(code(third.add_condition(&handle, CondType::If, 1)), 107_029);
    assert_eq!(code(third.begin_capture_into(branch, MODE)), 107_026);
    assert_eq!(code(stream.end_capture()), 107_045, "the branch is not ended");
    assert_eq!(code(other.end_capture()), 107_029, "and its capture is over");
    assert_eq!(context.model_count(), 0);
    assert_eq!(code(model.condition(0, false)), 107_000, "no capture is active");
    // A branch that was never captured is not ended either, nor one that came to nothing.
    conditioned(&stream, (0, false), (CondType::If, 1));
    assert_eq!(code(stream.end_capture()), 107_045);
    let (_, branches) = conditioned(&stream, (0, false), (CondType::If, 1));
    other.begin_capture_into(&branches[0], MODE).unwrap();
    assert_eq!(code(other.synchronize(LONG)), 107_027);
    assert_eq!(code(other.end_capture()), 507_903);
    assert_eq!(code(stream.end_capture()), 107_045);
    // A condition of another capture.
    let (handle, _) = conditioned(&stream, (0, false), (CondType::If, 1));
    other.begin_capture(MODE).unwrap();
    assert_eq!(code(other.add_condition(&handle, CondType::If, 1)), 107_000);
}

#[test]
fn conditions_nest_fail_and_end() {
    let context = context();
    let stream = ordinary(&context);
    let (log, logged) = logger(&context);
    let fault = failing(&context, npu_device::Fault::Exception);
    let (outer, branches) = conditioned(&stream, (2, true), (CondType::While, 1));
    let decrement = decrement(&context, outer.cell().unwrap());
    let inside = ordinary(&context);
    inside.begin_capture_into(&branches[0], MODE).unwrap();
    let handle = inside.capture_info().1.unwrap().condition(0, false).unwrap();
    let inner = inside.add_condition(&handle, CondType::Switch, 2).unwrap();
    fill(&context, &inner[0], |s| s.launch(&log, 1, [7, 0, 0, 0]).unwrap());
    fill(&context, &inner[1], |s| s.launch(&fault, 1, [0; 4]).unwrap());
    inside.launch(&decrement, 1, [0; 4]).unwrap();
    inside.end_capture().unwrap();
    let model = stream.end_capture().unwrap();
    model.execute(LONG).unwrap();
    assert_eq!(*logged.lock().unwrap(), [7, 7]);
    handle.cell().unwrap().store(0, 1).unwrap();
    assert_eq!(code(model.execute(LONG)), 507_015, "a failure inside ends all around it");
    until(|| !model.is_running());
    handle.cell().unwrap().store(0, 0).unwrap();
    model.execute(LONG).unwrap();
    assert_eq!(logged.lock().unwrap().len(), 4);
    model.destroy().unwrap();
    assert_eq!(context.model_count(), 0);
}

#[test]
fn a_loop_without_end_is_stopped_by_a_timeout() {
    let context = context();
    let stream = ordinary(&context);
    let (handle, branches) = conditioned(&stream, (1, true), (CondType::While, 1));
    let (log, logged) = logger(&context);
    fill(&context, &branches[0], |s| s.launch(&log, 1, [0; 4]).unwrap());
    let model = stream.end_capture().unwrap();
    for _ in 0..3 {
        assert_eq!(code(model.execute(Some(std::time::Duration::from_millis(20)))), 507_046);
        until(|| !model.is_running());
    }
    assert!(!logged.lock().unwrap().is_empty());
    let _ = handle;
    let (_, branches) = conditioned(&stream, (1, true), (CondType::If, 1));
    let notify = context.notify().unwrap();
    fill(&context, &branches[0], |s| s.wait_notify(&notify, 0).unwrap());
    let model = stream.end_capture().unwrap();
    assert_eq!(code(model.execute(Some(std::time::Duration::from_millis(20)))), 507_046);
    until(|| !model.is_running());
    let helper = ordinary(&context);
    helper.record_notify(&notify).unwrap();
    model.execute(LONG).unwrap();
}

#[test]
fn conditions_end_with_the_notifies_that_they_have() {
    let context = context();
    let stream = ordinary(&context);
    stream.begin_capture(MODE).unwrap();
    let model = stream.capture_info().1.unwrap();
    let handles: Vec<_> = (0..8192).map(|_| model.condition(0, false).unwrap()).collect();
    assert_eq!(code(model.condition(0, false)), 207_009);
    // There is none for the model's end either; it goes, its conditions too, and there is room.
    assert_eq!(code(stream.end_capture()), 207_009);
    drop(handles);
    stream.begin_capture(MODE).unwrap();
    stream.capture_info().1.unwrap().condition(0, false).unwrap();
    stream.end_capture().unwrap();
}
