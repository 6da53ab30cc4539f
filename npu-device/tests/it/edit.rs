//! Single tasks of complete models, changed between runs; streams that a comparison starts.

use std::sync::atomic::Ordering;

use npu_device::{Compare, Config, Memory, TaskChange, WaitValue};

use crate::support::{
    Gate, LONG, code, config, context, context_of, counter, finish, logger, model, ordinary,
    persistent,
};

fn write(memory: &Memory, value: u64) -> TaskChange<'static> {
    TaskChange::Write { address: memory.address(0), value }
}

#[test]
fn kernels_values_and_waits_get_other_parameters() {
    for auto_split in [true, false] {
        let context = context_of(Config { auto_split, ..config() });
        let (model, stream) = model(&context);
        let memory = context.allocate(8).unwrap();
        let (log, logged) = logger(&context);
        let (count, counted) = counter(&context);
        stream.launch(&log, 1, [1, 0, 0, 0]).unwrap();
        stream.write_value(&memory, 0, 10).unwrap();
        stream.wait_value(&memory, 0, WaitValue::Equal, 10).unwrap();
        let kernel = |arg| TaskChange::Kernel { function: &log, blocks: 2, args: [arg, 0, 0, 0] };
        assert_eq!(code(stream.change_task(0, &kernel(2))), 507_011, "not complete yet");
        finish(&model, &stream);
        model.execute(LONG).unwrap();
        stream.change_task(0, &kernel(2)).unwrap();
        stream.change_task(1, &write(&memory, 20)).unwrap();
        let address = memory.address(0);
        let wait = TaskChange::Wait { address, condition: WaitValue::Equal, operand: 20 };
        stream.change_task(2, &wait).unwrap();
        // Nothing is changed before the update.
        model.execute(LONG).unwrap();
        assert_eq!(memory.load(0).unwrap(), 10);
        model.update().unwrap();
        model.execute(LONG).unwrap();
        assert_eq!((memory.load(0).unwrap(), &logged.lock().unwrap()[..]), (20, &[1, 1, 2][..]));
        assert_eq!(stream.tasks()[0].sqe.header.block_dim, 2);
        // Another function; the last change counts.
        stream.change_task(0, &kernel(3)).unwrap();
        let other = TaskChange::Kernel { function: &count, blocks: 1, args: [0; 4] };
        stream.change_task(0, &other).unwrap();
        model.update().unwrap();
        model.execute(LONG).unwrap();
        assert_eq!((counted.load(Ordering::SeqCst), logged.lock().unwrap().len()), (1, 3));
    }
}

#[test]
fn a_task_becomes_nothing_and_stays_so() {
    let context = context();
    let (model, stream) = model(&context);
    let (count, counted) = counter(&context);
    let memory = context.allocate(8).unwrap();
    stream.launch(&count, 1, [0; 4]).unwrap();
    stream.wait_value(&memory, 0, WaitValue::Equal, 1).unwrap();
    stream.launch(&count, 1, [0; 4]).unwrap();
    finish(&model, &stream);
    for gone in 0..2 {
        stream.change_task(gone, &TaskChange::Nothing).unwrap();
    }
    model.update().unwrap();
    model.execute(LONG).unwrap();
    assert_eq!(counted.load(Ordering::SeqCst), 1);
    let kernel = TaskChange::Kernel { function: &count, blocks: 1, args: [0; 4] };
    assert_eq!(code(stream.change_task(0, &kernel)), 507_009);
}

#[test]
fn captured_tasks_and_tasks_in_slaves_can_be_changed() {
    let context = context();
    let memory = context.allocate(8).unwrap();
    let stream = ordinary(&context);
    stream.begin_capture(npu_device::CaptureMode::Relaxed).unwrap();
    stream.write_value(&memory, 0, 1).unwrap();
    let captured = stream.end_capture().unwrap();
    let mut target = [None];
    captured.streams(Some(&mut target)).unwrap();
    let target = target[0].take().unwrap();
    target.change_task(0, &write(&memory, 2)).unwrap();
    captured.update().unwrap();
    captured.execute(LONG).unwrap();
    assert_eq!(memory.load(0).unwrap(), 2);
    let (long, line) = model(&context);
    (0..33_000).for_each(|_| assert!(line.nop().is_ok()));
    line.write_value(&memory, 0, 3).unwrap();
    finish(&long, &line);
    assert_eq!(line.slave_count(), 1);
    line.change_task(33_000, &write(&memory, 4)).unwrap();
    long.update().unwrap();
    long.execute(LONG).unwrap();
    assert_eq!(memory.load(0).unwrap(), 4);
}

#[test]
fn changes_that_do_not_fit() {
    let patience = std::time::Duration::from_millis(50);
    let context = context_of(Config { patience, ..config() });
    let (model, stream) = model(&context);
    let memory = context.allocate(8).unwrap();
    let gate = Gate::new(&context);
    let event = context.event(Default::default()).unwrap();
    stream.launch(&gate.function, 1, [0; 4]).unwrap();
    stream.record_event(&event).unwrap();
    finish(&model, &stream);
    let free = persistent(&context);
    assert_eq!(code(free.change_task(0, &TaskChange::Nothing)), 107_005);
    assert_eq!(code(stream.change_task(3, &TaskChange::Nothing)), 107_000);
    assert_eq!(code(stream.change_task(0, &write(&memory, 1))), 507_009);
    // Others wait for these.
    assert_eq!(code(stream.change_task(1, &TaskChange::Nothing)), 507_009);
    assert_eq!(code(stream.change_task(2, &TaskChange::Nothing)), 507_009);
    let none = TaskChange::Kernel { function: &gate.function, blocks: 0, args: [0; 4] };
    assert_eq!(code(stream.change_task(0, &none)), 107_000);
    let caller = ordinary(&context);
    model.execute_async(&caller).unwrap();
    gate.wait_for(1);
    assert_eq!(code(model.update()), 107_037);
    gate.open();
    caller.synchronize(LONG).unwrap();
    model.update().unwrap();
    model.destroy().unwrap();
    assert_eq!(code(model.update()), 107_040);
}

#[test]
fn a_stream_is_started_by_a_comparison() {
    use Compare::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual, NotEqual};
    let context = context();
    let (model, head) = model(&context);
    let memory = context.allocate(16).unwrap();
    let (log, logged) = logger(&context);
    // Of each kind a stream that says that it was started.
    let kinds = [Equal, NotEqual, Greater, GreaterOrEqual, Less, LessOrEqual];
    for (number, compare) in (0..).zip(kinds) {
        let branch = persistent(&context);
        model.bind(&branch, false).unwrap();
        head.activate_if((&memory, 8), compare, -2, &branch).unwrap();
        branch.launch(&log, 1, [number, 0, 0, 0]).unwrap();
        branch.nop().unwrap();
    }
    let elsewhere = persistent(&context);
    assert_eq!(code(head.activate_if((&memory, 8), Equal, 0, &elsewhere)), 107_005);
    assert_eq!(code(head.activate_if((&memory, 9), Equal, 0, &head)), 107_000);
    // The end comes when as many have run as are to: the head waits for their number.
    let done = context.allocate(8).unwrap();
    let tell = {
        let (logged, done) = (logged.clone(), done.clone());
        let run = move |_: &npu_device::Call| {
            // Under the lock, so that no smaller number comes after a larger one.
            let logged = logged.lock().unwrap();
            done.store(0, logged.len() as u64).map_err(|_| npu_device::Fault::Exception)
        };
        context.register("tell", std::sync::Arc::new(run)).unwrap()
    };
    let mut streams = vec![None; 7];
    model.streams(Some(&mut streams)).unwrap();
    for branch in streams.iter().flatten().filter(|stream| stream.id() != head.id()) {
        branch.launch(&tell, 1, [0; 4]).unwrap();
    }
    head.wait_value(&done, 0, WaitValue::Equal, 3).unwrap();
    finish(&model, &head);
    for (value, expected) in [(-2_i64, [0, 3, 5]), (-1, [1, 2, 3]), (i64::MIN, [1, 4, 5])] {
        memory.store(8, value.cast_unsigned()).unwrap();
        logged.lock().unwrap().clear();
        done.store(0, 0).unwrap();
        model.execute(LONG).unwrap();
        let mut started = logged.lock().unwrap().clone();
        started.sort_unstable();
        assert_eq!(started, expected, "{value}");
    }
}
