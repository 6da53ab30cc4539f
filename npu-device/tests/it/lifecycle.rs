//! Building, running and ending models.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use npu_device::{Config, Fault};

use crate::support::{
    LONG, code, config, context, context_of, counter, failing, finish, model, ordinary, persistent,
    until,
};

fn both_modes() -> [Config; 2] {
    [true, false].map(|auto_split| Config { auto_split, ..config() })
}

#[test]
fn v7_1_build_end_without_streams() {
    for config in both_modes() {
        assert_eq!(code(context_of(config).build_begin().unwrap().build_end()), 107_005);
    }
}

#[test]
fn v7_2_build_end_or_execute_without_an_end_mark() {
    for config in both_modes() {
        let context = context_of(config);
        let (model, stream) = model(&context);
        assert_eq!(code(model.build_end()), 507_011);
        assert_eq!(code(model.execute(LONG)), 507_011);
        model.end_task(&stream).unwrap();
        assert_eq!(code(model.execute(LONG)), 507_011, "not complete yet");
        assert_eq!(code(model.execute_async(&ordinary(&context))), 507_011);
        model.build_end().unwrap();
        model.execute(LONG).unwrap();
    }
}

#[test]
fn v7_3_end_task_twice_or_on_another_models_stream() {
    let context = context();
    let (model_a, a) = model(&context);
    let (_model_b, b) = model(&context);
    assert_eq!(code(model_a.end_task(&b)), 507_000);
    assert_eq!(code(model_a.end_task(&ordinary(&context))), 507_000);
    model_a.end_task(&a).unwrap();
    assert_eq!(code(model_a.end_task(&a)), 507_000);
}

#[test]
fn v7_4_bind_and_unbind() {
    for config in both_modes() {
        let context = context_of(config);
        let (model_a, stream) = model(&context);
        let model_b = context.build_begin().unwrap();
        assert_eq!(code(model_a.bind(&stream, true)), 107_005);
        assert_eq!(code(model_b.bind(&stream, true)), 107_005);
        assert_eq!(code(model_b.unbind(&stream)), 107_005);
        model_a.unbind(&stream).unwrap();
        assert_eq!(code(model_a.unbind(&stream)), 107_005);
        model_b.bind(&stream, false).unwrap();
    }
}

#[test]
fn only_open_models_and_persistent_streams_of_one_context_go_together() {
    let context = context();
    let (model_a, stream) = model(&context);
    assert_eq!(code(model_a.bind(&ordinary(&context), true)), 107_000);
    let other = crate::support::context();
    assert_eq!(code(model_a.bind(&persistent(&other), true)), 107_003);
    assert_eq!(code(other.label(Some(&model_a))), 107_004);
    finish(&model_a, &stream);
    assert_eq!(code(model_a.bind(&persistent(&context), true)), 107_000);
    assert_eq!(code(model_a.build_end()), 107_000);
    assert_eq!(code(stream.nop()), 507_011, "the model is complete");
    assert_eq!(code(model_a.execute_async(&ordinary(&other))), 107_003);
    assert_eq!(code(model_a.execute_async(&stream)), 107_000);
}

#[test]
fn v7_9_executed_three_times_and_from_two_streams() {
    for config in both_modes() {
        let context = context_of(config);
        let (model, stream) = model(&context);
        let (count, counted) = counter(&context);
        for _ in 0..10 {
            stream.launch(&count, 1, [0; 4]).unwrap();
        }
        finish(&model, &stream);
        for run in 1..=3 {
            model.execute(LONG).unwrap();
            assert_eq!(counted.load(Ordering::SeqCst), run * 10);
            until(|| !model.is_running());
        }
        let streams = [ordinary(&context), ordinary(&context)];
        for _ in 0..20 {
            streams.iter().for_each(|stream| model.execute_async(stream).unwrap());
        }
        streams.iter().for_each(|stream| stream.synchronize(LONG).unwrap());
        assert_eq!(counted.load(Ordering::SeqCst), 30 + 400);
    }
}

#[test]
fn other_streams_run_when_they_are_activated() {
    let context = context();
    let (model, head) = model(&context);
    let (second, third) = (persistent(&context), persistent(&context));
    model.bind(&second, false).unwrap();
    model.bind(&third, false).unwrap();
    let (count, counted) = counter(&context);
    head.activate(&second).unwrap();
    second.launch(&count, 1, [0; 4]).unwrap();
    third.launch(&count, 1, [0; 4]).unwrap();
    assert_eq!(code(head.activate(&ordinary(&context))), 107_005);
    finish(&model, &second);
    for run in 1..=5 {
        model.execute(LONG).unwrap();
        assert_eq!(counted.load(Ordering::SeqCst), run, "the third was never activated");
    }
}

#[test]
fn streams_that_end_without_the_mark_end_the_run_with_a_code() {
    let context = context();
    let (model, head) = model(&context);
    let never = persistent(&context);
    model.bind(&never, false).unwrap();
    head.nop().unwrap();
    finish(&model, &never);
    assert_eq!(code(model.execute(LONG)), 507_011);
    assert_eq!(code(model.execute(LONG)), 507_011);
    model.destroy().unwrap();
    // And without a head there is nothing that could end.
    let model = context.build_begin().unwrap();
    let stream = persistent(&context);
    model.bind(&stream, false).unwrap();
    finish(&model, &stream);
    assert_eq!(code(model.execute(LONG)), 507_011);
}

#[test]
fn a_failed_task_ends_the_run_with_its_code_and_the_next_run_is_clean() {
    let context = context();
    let (model, stream) = model(&context);
    let fail = Arc::new(std::sync::atomic::AtomicBool::new(true));
    let inside = fail.clone();
    let run = move |_: &npu_device::Call| {
        if inside.load(Ordering::SeqCst) { Err(Fault::Exception) } else { Ok(()) }
    };
    let function = context.register("sometimes", Arc::new(run)).unwrap();
    let (count, counted) = counter(&context);
    stream.launch(&function, 1, [0; 4]).unwrap();
    stream.launch(&count, 1, [0; 4]).unwrap();
    finish(&model, &stream);
    assert_eq!(code(model.execute(LONG)), 507_015);
    assert_eq!(stream.take_report().unwrap().error.0, 507_015);
    fail.store(false, Ordering::SeqCst);
    model.execute(LONG).unwrap();
    assert_eq!(counted.load(Ordering::SeqCst), 1, "tasks behind the failed one did not run");
}

#[test]
fn v7_18_streams_and_name() {
    let context = context();
    let (model, first) = model(&context);
    let second = persistent(&context);
    model.bind(&second, false).unwrap();
    assert_eq!(model.streams(None).unwrap(), 2);
    assert_eq!(code(model.streams(Some(&mut [None]))), 107_039);
    let mut array = [None, None, None];
    assert_eq!(model.streams(Some(&mut array)).unwrap(), 2);
    let ids = array.iter().flatten().map(|stream| stream.id()).collect::<Vec<_>>();
    assert_eq!(ids, [second.id(), first.id()]);
    assert_eq!(model.name(), "");
    model.set_name("first").unwrap();
    model.set_name("last").unwrap();
    assert_eq!(model.name(), "last");
    model.set_name(&"x".repeat(511)).unwrap();
    assert_eq!(code(model.set_name(&"x".repeat(512))), 107_000);
    first.nop().unwrap();
    assert_eq!(first.tasks_into(None).unwrap(), 1);
    assert_eq!(code(first.tasks_into(Some(&mut []))), 107_039);
    assert_eq!(first.tasks_into(Some(&mut [None])).unwrap(), 1);
}

#[test]
fn v7_19_destroy_callbacks() {
    for config in both_modes() {
        let context = context_of(config);
        let (model, stream) = model(&context);
        let calls = Arc::new(AtomicUsize::new(0));
        let (one, two) = (calls.clone(), calls.clone());
        let inside = context.clone();
        model.on_destroy(move || {
            assert_eq!(inside.model_count(), 0, "the context has left it by now");
            one.fetch_add(1, Ordering::SeqCst);
        });
        let gone = model.on_destroy(move || {
            two.fetch_add(100, Ordering::SeqCst);
        });
        model.forget_callback(gone).unwrap();
        assert_eq!(code(model.forget_callback(gone)), 107_000);
        finish(&model, &stream);
        model.execute(LONG).unwrap();
        assert_eq!(context.model_count(), 1);
        model.destroy().unwrap();
        assert_eq!(calls.load(Ordering::SeqCst), 1);
        assert_eq!(code(model.destroy()), 107_000);
        assert_eq!(calls.load(Ordering::SeqCst), 1);
        assert_eq!(code(model.execute(LONG)), 507_011);
        // The stream is free: of no model, without tasks, and can be bound again.
        assert_eq!(stream.tasks().len(), 0);
        let again = context.build_begin().unwrap();
        again.bind(&stream, true).unwrap();
        let (count, counted) = counter(&context);
        stream.launch(&count, 1, [0; 4]).unwrap();
        finish(&again, &stream);
        again.execute(LONG).unwrap();
        assert_eq!(counted.load(Ordering::SeqCst), 1);
        assert_eq!(code(stream.clone().destroy()), 107_005);
        again.unbind(&stream).unwrap();
        stream.destroy().unwrap();
    }
}

#[test]
fn a_running_model_is_not_destroyed_and_its_end_mark_is_its_own() {
    let patience = Duration::from_millis(50);
    let context = context_of(Config { patience, ..config() });
    let (model, stream) = model(&context);
    let gate = crate::support::Gate::new(&context);
    stream.launch(&gate.function, 1, [0; 4]).unwrap();
    finish(&model, &stream);
    let user = ordinary(&context);
    model.execute_async(&user).unwrap();
    gate.wait_for(1);
    assert_eq!(code(model.destroy()), 107_037);
    assert_eq!(code(model.unbind(&stream)), 107_037);
    gate.open();
    user.synchronize(LONG).unwrap();
    model.destroy().unwrap();
    // A run that was asked for before the end finds no model, and none that came after it.
    let (model, stream) = crate::support::model(&context);
    finish(&model, &stream);
    let hold = crate::support::Gate::new(&context);
    user.launch(&hold.function, 1, [0; 4]).unwrap();
    hold.wait_for(1);
    model.execute_async(&user).unwrap();
    model.destroy().unwrap();
    let (later, stream) = crate::support::model(&context);
    assert_eq!(later.id(), model.id());
    finish(&later, &stream);
    hold.open();
    assert_eq!(code(user.synchronize(LONG)), 507_011);
}

#[test]
fn ids_end_with_their_codes() {
    let context = context();
    let mut streams = Vec::new();
    let refused = loop {
        match context.stream(Default::default()) {
            Ok(stream) => streams.push(stream),
            Err(error) => break error,
        }
    };
    assert_eq!((refused.code().0, streams.len()), (207_008, 1022));
    streams.pop().unwrap().destroy().unwrap();
    ordinary(&context);
    let mut notifies = Vec::new();
    let refused = loop {
        match context.notify() {
            Ok(notify) => notifies.push(notify),
            Err(error) => break error,
        }
    };
    assert_eq!((refused.code().0, notifies.len()), (207_009, 8192));
    let models: Vec<_> = (0..4096).map(|_| context.build_begin().unwrap()).collect();
    assert_eq!(code(context.build_begin()), 207_010);
    models[0].destroy().unwrap();
    context.build_begin().unwrap();
    let events: Vec<_> = (0..65_536).map(|_| context.event(Default::default()).unwrap()).collect();
    assert_eq!(code(context.event(Default::default())), 207_005);
    events.into_iter().for_each(|event| event.destroy());
    failing(&context, Fault::Exception);
    assert_eq!(code(context.allocate(0)), 107_000);
    assert_eq!(code(context.allocate((1 << 32) + 1)), 107_000);
    assert_eq!(code(context.stream(npu_device::StreamFlags(0x10))), 207_000);
    assert_eq!(code(context.stream(npu_device::StreamFlags(0x100))), 107_000);
}
