//! Building, running and ending models.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use npu_device::{Config, Fault, StreamFlags};

use crate::support::{
    LONG, code, config, context, context_of, counter, failing, finish, model, ordinary, persistent,
    until,
};

fn both_modes() -> [Config; 2] {
    [true, false].map(|auto_split| Config { auto_split, ..config() })
}

#[test]
fn v7_5_a_model_of_the_cpus_streams_alone() {
    for config in both_modes() {
        let context = context_of(config);
        let model = context.build_begin().unwrap();
        let [head, next] =
            [0, 1].map(|_| context.stream(StreamFlags(StreamFlags::CPU_SCHEDULE)).unwrap());
        model.bind(&head, true).unwrap();
        model.bind(&next, false).unwrap();
        let (count, calls) = counter(&context);
        let notify = context.notify().unwrap();
        head.launch_cpu(&count, 1, [0; 4]).unwrap();
        head.activate(&next).unwrap();
        head.wait_notify(&notify, 0).unwrap();
        next.launch_cpu(&count, 1, [0; 4]).unwrap();
        next.record_notify(&notify).unwrap();
        // What the CPU has not: kernels of cores, memory, labels, the host.
        let memory = context.allocate(8).unwrap();
        assert_eq!(code(head.launch(&count, 1, [0; 4])), 507_009);
        assert_eq!(code(head.write_value(&memory, 0, 1)), 507_009);
        assert_eq!(code(head.host_function(&count, [0; 4])), 507_009);
        finish(&model, &head);
        assert_eq!((head.sq_depth(), next.sq_depth()), (4, 2));
        assert_eq!(code(head.nop()), 507_011);
        assert_eq!(code(model.execute_async(&ordinary(&context))), 207_000);
        for run in 1..=3 {
            model.execute(LONG).unwrap();
            assert_eq!(calls.load(Ordering::SeqCst), 2 * run);
        }
        let faulty = context.build_begin().unwrap();
        let stream = context.stream(StreamFlags(StreamFlags::CPU_SCHEDULE)).unwrap();
        faulty.bind(&stream, true).unwrap();
        stream.launch_cpu(&failing(&context, Fault::Exception), 1, [0; 4]).unwrap();
        finish(&faulty, &stream);
        assert_eq!(code(faulty.execute(LONG)), 507_018);
        until(|| !model.is_running() && !faulty.is_running());
        model.unbind(&next).unwrap();
        model.unbind(&head).unwrap();
        next.destroy().unwrap();
    }
}

#[test]
fn v7_5_the_cpus_streams_beside_others() {
    for config in both_modes() {
        let context = context_of(config);
        let (model, entry) = model(&context);
        let cpu = context.stream(StreamFlags(StreamFlags::CPU_SCHEDULE)).unwrap();
        model.bind(&cpu, false).unwrap();
        let (count, calls) = counter(&context);
        let notify = context.notify().unwrap();
        entry.launch(&count, 1, [0; 4]).unwrap();
        entry.activate(&cpu).unwrap();
        cpu.launch_cpu(&count, 1, [0; 4]).unwrap();
        cpu.record_notify(&notify).unwrap();
        entry.wait_notify(&notify, 0).unwrap();
        finish(&model, &entry);
        let stream = ordinary(&context);
        model.execute_async(&stream).unwrap();
        stream.synchronize(LONG).unwrap();
        assert_eq!(calls.load(Ordering::SeqCst), 2);
    }
}

#[test]
fn the_list_of_a_stream_of_the_cpu_has_an_end() {
    let context = context();
    let cpu = context.stream(StreamFlags(StreamFlags::CPU_SCHEDULE)).unwrap();
    let put = (0..40_000).take_while(|_| cpu.nop().is_ok()).count();
    assert_eq!((put, code(cpu.nop())), (32_734, 507_002));
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
    // The end mark of a model is a notify too.
    let unmarked = context.build_begin().unwrap();
    streams.pop().unwrap().destroy().unwrap();
    let last = persistent(&context);
    unmarked.bind(&last, true).unwrap();
    assert_eq!(code(unmarked.end_task(&last)), 207_009);
    notifies.pop().unwrap().destroy();
    unmarked.end_task(&last).unwrap();
    unmarked.destroy().unwrap();
    let models: Vec<_> = (0..4096).map(|_| context.build_begin().unwrap()).collect();
    assert_eq!(code(context.build_begin()), 207_010);
    models[0].destroy().unwrap();
    context.build_begin().unwrap();
    let events: Vec<_> = (0..65_536).map(|_| context.event(Default::default()).unwrap()).collect();
    assert_eq!(code(context.event(Default::default())), 207_005);
    events.into_iter().for_each(|event| event.destroy());
    let function = || context.register("f", Arc::new(|_: &npu_device::Call| Ok(())));
    let functions: Vec<_> = (0..65_536).map(|_| function().unwrap()).collect();
    assert_eq!(code(function()), 207_005);
    functions.into_iter().for_each(|function| function.unregister());
    failing(&context, Fault::Exception);
    let memories: Vec<_> = (0..65_536).map(|_| context.allocate(1).unwrap()).collect();
    assert_eq!(code(context.allocate(1)), 207_001);
    memories.into_iter().for_each(|memory| memory.free());
    context.allocate(1).unwrap();
    assert_eq!(code(context.allocate(0)), 107_000);
    assert_eq!(code(context.allocate((1 << 32) + 1)), 107_000);
    assert_eq!(code(context.stream(npu_device::StreamFlags(0x20))), 207_000);
    assert_eq!(code(context.stream(npu_device::StreamFlags(0x100))), 107_000);
}

#[test]
fn a_task_does_not_take_another_object_for_the_one_it_was_given() {
    let context = context();
    let stream = ordinary(&context);
    let (count, calls) = counter(&context);
    let gate = context.notify().unwrap();
    let run = |submit: &dyn Fn()| {
        stream.wait_notify(&gate, 0).unwrap();
        submit();
        // What was submitted is waited for by its number: the object goes before it runs.
        let other = ordinary(&context);
        other.record_notify(&gate).unwrap();
        let outcome = code(stream.synchronize(LONG));
        other.destroy().unwrap();
        outcome
    };
    let again = || {
        let notify = context.notify().unwrap();
        stream.record_notify(&notify).unwrap();
        let id = notify.id();
        notify.destroy();
        let new = context.notify().unwrap();
        assert_eq!(new.id(), id, "the number is given again");
    };
    assert_eq!(run(&again), 507_000);
    let again = || {
        let event = context.event(Default::default()).unwrap();
        stream.record_event(&event).unwrap();
        event.destroy();
        context.event(Default::default()).unwrap();
    };
    assert_eq!(run(&again), 507_000);
    let again = || {
        let function = context.register("first", Arc::new(|_: &npu_device::Call| Ok(()))).unwrap();
        stream.launch(&function, 1, [0; 4]).unwrap();
        function.unregister();
        counter(&context);
    };
    assert_eq!(run(&again), 507_000);
    let again = || {
        let memory = context.allocate(8).unwrap();
        stream.write_value(&memory, 0, 1).unwrap();
        memory.free();
        context.allocate(8).unwrap();
    };
    assert_eq!(run(&again), 507_015);
    // A handle that is destroyed once more leaves the new object alone.
    let old = context.notify().unwrap();
    old.clone().destroy();
    let new = context.notify().unwrap();
    old.destroy();
    stream.record_notify(&new).unwrap();
    stream.launch(&count, 1, [0; 4]).unwrap();
    stream.synchronize(LONG).unwrap();
    assert!(new.is_set() && calls.load(Ordering::SeqCst) == 1);
}

#[test]
fn a_context_that_is_closed_answers_who_waits_and_leaves_nothing() {
    let device = npu_device::Device::new(config()).unwrap();
    let context = npu_device::Context::new(&device).unwrap();
    let stream = ordinary(&context);
    let never = context.notify().unwrap();
    stream.wait_notify(&never, 0).unwrap();
    let captured = ordinary(&context);
    captured.begin_capture(npu_device::CaptureMode::Relaxed).unwrap();
    captured.nop().unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| code(stream.synchronize(LONG)));
        until(|| stream.is_waited_for());
        context.close();
        assert_eq!(waiting.join().unwrap(), 107_023);
    });
    assert!(context.is_closed());
    assert_eq!(code(stream.nop()), 107_023);
    assert_eq!(code(stream.synchronize(LONG)), 107_023);
    assert_eq!(code(captured.end_capture()), 107_029);
    // Another context of the device goes on, until the device does not.
    let other = npu_device::Context::new(&device).unwrap();
    let stream = ordinary(&other);
    stream.nop().unwrap();
    stream.synchronize(LONG).unwrap();
    stream.wait_notify(&other.notify().unwrap(), 0).unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| code(stream.synchronize(None)));
        until(|| stream.is_waited_for());
        device.shut_down();
        assert_eq!(waiting.join().unwrap(), 107_023);
    });
    assert_eq!(code(stream.nop()), 107_023);
}

#[test]
fn a_capture_without_a_stream_left_is_refused_and_leaves_nothing() {
    let device = npu_device::Device::new(config()).unwrap();
    let context = npu_device::Context::new(&device).unwrap();
    let first = ordinary(&context);
    let mut streams = Vec::new();
    while let Ok(stream) = context.stream(StreamFlags::default()) {
        streams.push(stream);
    }
    let relaxed = npu_device::CaptureMode::Relaxed;
    assert_eq!(code(first.begin_capture(relaxed)), 207_008);
    assert_eq!(code(first.begin_capture(relaxed)), 207_008);
    streams.pop().unwrap().destroy().unwrap();
    first.begin_capture(relaxed).unwrap();
    first.end_capture().unwrap().destroy().unwrap();
    drop((first, streams, context));
    // Captures under way end with their context, streams and models of theirs too.
    for _ in 0..1500 {
        let context = npu_device::Context::new(&device).unwrap();
        let stream = ordinary(&context);
        stream.begin_capture(relaxed).unwrap();
        stream.nop().unwrap();
    }
}

#[test]
fn a_model_that_lost_a_stream_does_not_run_and_ends() {
    for config in both_modes() {
        let context = context_of(config);
        let (own, stream) = model(&context);
        let other = persistent(&context);
        own.bind(&other, true).unwrap();
        // The end mark goes with the stream that it is in.
        own.end_task(&stream).unwrap();
        own.unbind(&stream).unwrap();
        assert_eq!(code(own.build_end()), 507_011);
        own.bind(&stream, true).unwrap();
        finish(&own, &stream);
        own.execute(LONG).unwrap();
        own.unbind(&other).unwrap();
        assert_eq!(code(own.execute(LONG)), 507_011);
        assert_eq!(code(own.execute_async(&ordinary(&context))), 507_011);
        own.unbind(&stream).unwrap();
        assert_eq!(code(own.execute(LONG)), 507_011);
        own.destroy().unwrap();
        let (next, stream) = model(&context);
        finish(&next, &stream);
        next.execute(LONG).unwrap();
    }
}
