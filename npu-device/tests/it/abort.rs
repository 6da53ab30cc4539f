//! Timeouts and aborts.

use std::sync::atomic::Ordering;
use std::time::Duration;

use npu_device::Config;

use crate::support::{
    Gate, LONG, code, config, context, context_of, counter, finish, model, ordinary, until,
};

#[test]
fn v7_10_execute_with_a_timeout_and_again_after_the_abort() {
    let context = context();
    let (model, stream) = model(&context);
    let notify = context.notify().unwrap();
    let (count, counted) = counter(&context);
    stream.wait_notify(&notify, 0).unwrap();
    stream.launch(&count, 1, [0; 4]).unwrap();
    finish(&model, &stream);
    for _ in 0..3 {
        assert_eq!(code(model.execute(Some(Duration::from_millis(50)))), 507_046);
        until(|| !model.is_running());
    }
    assert_eq!(counted.load(Ordering::SeqCst), 0);
    let user = ordinary(&context);
    user.record_notify(&notify).unwrap();
    user.synchronize(LONG).unwrap();
    model.execute(LONG).unwrap();
    assert_eq!(counted.load(Ordering::SeqCst), 1);
}

#[test]
fn a_kernel_that_does_not_end_holds_the_model_and_then_lets_it_go() {
    let context = context();
    let (model, stream) = model(&context);
    let gate = Gate::new(&context);
    stream.launch(&gate.function, 1, [0; 4]).unwrap();
    finish(&model, &stream);
    // On a busy machine the time may be over before the kernel has begun.
    while !model.is_running() {
        assert_eq!(code(model.execute(Some(Duration::from_millis(20)))), 507_046);
    }
    gate.open();
    until(|| !model.is_running());
    model.execute(LONG).unwrap();
}

#[test]
fn abort_gives_the_waiting_stream_its_code() {
    let context = context();
    let (model, stream) = model(&context);
    let notify = context.notify().unwrap();
    stream.wait_notify(&notify, 0).unwrap();
    finish(&model, &stream);
    let user = ordinary(&context);
    model.execute_async(&user).unwrap();
    until(|| model.is_running());
    model.abort().unwrap();
    assert_eq!(code(user.synchronize(LONG)), 507_023);
    until(|| !model.is_running());
    model.abort().unwrap();
    user.record_notify(&notify).unwrap();
    model.execute_async(&user).unwrap();
    user.synchronize(LONG).unwrap();
}

#[test]
fn stream_abort_drops_what_waits_and_says_so() {
    let context = context();
    let stream = ordinary(&context);
    let notify = context.notify().unwrap();
    let (count, counted) = counter(&context);
    stream.wait_notify(&notify, 0).unwrap();
    for _ in 0..100 {
        stream.launch(&count, 1, [0; 4]).unwrap();
    }
    let waiter = stream.clone();
    let waiting = std::thread::spawn(move || code(waiter.synchronize(LONG)));
    assert_eq!(stream.waiting().len(), 101);
    // Whether the thread waits already or not, it sees the abort or an empty stream.
    stream.abort().unwrap();
    assert!([0, 107_023].contains(&waiting.join().unwrap()));
    assert_eq!((stream.waiting().len(), counted.load(Ordering::SeqCst)), (0, 0));
    stream.launch(&count, 1, [0; 4]).unwrap();
    stream.synchronize(LONG).unwrap();
    assert_eq!(counted.load(Ordering::SeqCst), 1);
    // The notify is as it was: nobody waits for it.
    stream.record_notify(&notify).unwrap();
    stream.wait_notify(&notify, 0).unwrap();
    stream.synchronize(LONG).unwrap();
    let (_model, persistent) = model(&context);
    assert_eq!(code(persistent.abort()), 207_000);
}

#[test]
fn tasks_submitted_while_a_stream_is_aborted_are_refused() {
    let context = context();
    let stream = ordinary(&context);
    let gate = Gate::new(&context);
    stream.launch(&gate.function, 1, [0; 4]).unwrap();
    gate.wait_for(1);
    let aborted = stream.clone();
    let abort = std::thread::spawn(move || aborted.abort());
    until(|| code(stream.nop()) == 107_023);
    let waiter = stream.clone();
    let waiting = std::thread::spawn(move || code(waiter.synchronize(LONG)));
    gate.open();
    abort.join().unwrap().unwrap();
    assert!([0, 107_023].contains(&waiting.join().unwrap()));
    stream.nop().unwrap();
    stream.synchronize(LONG).unwrap();
}

#[test]
fn a_synchronize_that_waits_is_told_of_the_abort() {
    let context = context();
    let stream = ordinary(&context);
    let gate = Gate::new(&context);
    stream.launch(&gate.function, 1, [0; 4]).unwrap();
    gate.wait_for(1);
    let (waiter, aborted) = (stream.clone(), stream.clone());
    let waiting = std::thread::spawn(move || code(waiter.synchronize(LONG)));
    until(|| aborted.is_waited_for());
    let abort = std::thread::spawn(move || aborted.abort());
    until(|| code(stream.nop()) == 107_023);
    gate.open();
    abort.join().unwrap().unwrap();
    assert_eq!(waiting.join().unwrap(), 107_023);
}

#[test]
fn an_aborted_runner_aborts_its_model() {
    let context = context();
    let (model, stream) = model(&context);
    let notify = context.notify().unwrap();
    stream.wait_notify(&notify, 0).unwrap();
    finish(&model, &stream);
    let (user, second) = (ordinary(&context), ordinary(&context));
    model.execute_async(&user).unwrap();
    until(|| model.is_running());
    model.execute_async(&second).unwrap();
    user.abort().unwrap();
    // The second run waits for the notify now.
    user.record_notify(&notify).unwrap();
    second.synchronize(LONG).unwrap();
    user.synchronize(LONG).unwrap();
    until(|| !model.is_running());
}

#[test]
fn waits_have_timeouts() {
    let context = context();
    let stream = ordinary(&context);
    let notify = context.notify().unwrap();
    stream.wait_notify(&notify, 1).unwrap();
    assert_eq!(code(stream.synchronize(Some(Duration::from_millis(20)))), 507_046);
    assert_eq!(code(stream.synchronize(LONG)), 507_012);
    stream.synchronize(LONG).unwrap();
    let event = context.event(Default::default()).unwrap();
    let gate = Gate::new(&context);
    let blocked = ordinary(&context);
    blocked.launch(&gate.function, 1, [0; 4]).unwrap();
    blocked.record_event(&event).unwrap();
    assert_eq!(code(event.synchronize(Some(Duration::from_millis(20)))), 507_047);
    assert!(!event.query().unwrap());
    stream.wait_event(&event, 1).unwrap();
    assert_eq!(code(stream.synchronize(LONG)), 507_012);
    gate.open();
    event.synchronize(LONG).unwrap();
    assert!(event.query().unwrap());
}

#[test]
fn an_abort_of_a_task_that_does_not_end_is_given_up() {
    let context =
        context_of(Config { patience: Duration::from_millis(30), sq_depth: 2, ..config() });
    let stream = ordinary(&context);
    let gate = Gate::new(&context);
    stream.launch(&gate.function, 1, [0; 4]).unwrap();
    gate.wait_for(1);
    stream.nop().unwrap();
    assert_eq!(code(stream.nop()), 507_002, "two tasks wait, and that is all there is room for");
    assert_eq!(code(stream.abort()), 507_012);
    gate.open();
    until(|| stream.waiting().is_empty());
    stream.nop().unwrap();
    stream.synchronize(LONG).unwrap();
}
