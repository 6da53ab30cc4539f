//! Which stream runs when.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use npu_device::{Call, Config, Priority};

use crate::support::{
    Gate, LONG, code, context, context_of, counter, finish, logger, model, ordinary,
};

#[test]
fn priorities_have_their_range() {
    assert_eq!(code(Priority::new(3, 0)), 107_000);
    assert_eq!(code(Priority::new(0, -2)), 107_000);
    assert_eq!(Priority::new(-1, -1).unwrap(), Priority::LOWEST);
    assert_ne!(Priority::new(1, 0).unwrap(), Priority::new(0, 2).unwrap());
}

#[test]
fn a_model_of_higher_priority_overtakes_at_the_next_task() {
    let context = context_of(Config { cores: 1, ..Config::default() });
    let (log, logged) = logger(&context);
    let ((low, low_stream), (high, high_stream)) = (model(&context), model(&context));
    let gate = Gate::new(&context);
    low.set_priority(Priority::new(1, 2).unwrap());
    high.set_priority(Priority::new(1, 1).unwrap());
    low_stream.launch(&gate.function, 1, [0; 4]).unwrap();
    for _ in 0..10 {
        low_stream.launch(&log, 1, [1, 0, 0, 0]).unwrap();
        high_stream.launch(&log, 1, [2, 0, 0, 0]).unwrap();
    }
    finish(&low, &low_stream);
    finish(&high, &high_stream);
    let (first, second) = (ordinary(&context), ordinary(&context));
    second.set_priority(Priority::new(0, 0).unwrap());
    low.execute_async(&first).unwrap();
    gate.wait_for(1);
    // The low model is at its first task, on the only core, when the high one is asked for.
    high.execute_async(&second).unwrap();
    gate.open();
    first.synchronize(LONG).unwrap();
    second.synchronize(LONG).unwrap();
    let expected: Vec<u64> = [2; 10].into_iter().chain([1; 10]).collect();
    assert_eq!(*logged.lock().unwrap(), expected);
}

#[test]
fn equal_streams_take_turns_on_one_core() {
    let context = context_of(Config { cores: 1, ..Config::default() });
    let (log, logged) = logger(&context);
    let gate = Gate::new(&context);
    let hold = ordinary(&context);
    hold.launch(&gate.function, 1, [0; 4]).unwrap();
    gate.wait_for(1);
    let streams = [ordinary(&context), ordinary(&context)];
    for (stream, name) in streams.iter().zip(0..) {
        for _ in 0..1000 {
            stream.launch(&log, 1, [name, 0, 0, 0]).unwrap();
        }
    }
    gate.open();
    streams.iter().for_each(|stream| stream.synchronize(LONG).unwrap());
    let logged = logged.lock().unwrap();
    let second = logged.iter().position(|name| *name == 1).unwrap();
    assert!(second < 1000, "the second one began after {second} tasks of the first");
    assert_eq!(logged.len(), 2000);
}

#[test]
fn as_many_tasks_run_at_once_as_there_are_cores() {
    let context = context_of(Config { cores: 3, ..Config::default() });
    let gate = Gate::new(&context);
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (now, peak) = (running.clone(), most.clone());
    let short = move |_: &Call| {
        peak.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        std::thread::yield_now();
        now.fetch_sub(1, Ordering::SeqCst);
        Ok(())
    };
    let short = context.register("short", Arc::new(short)).unwrap();
    let streams: Vec<_> = (0..8).map(|_| ordinary(&context)).collect();
    for stream in &streams {
        stream.launch(&gate.function, 1, [0; 4]).unwrap();
        for _ in 0..50 {
            stream.launch(&short, 1, [0; 4]).unwrap();
        }
    }
    // Three are at the gate together; the others have no core.
    gate.wait_for(3);
    gate.open();
    streams.iter().for_each(|stream| stream.synchronize(LONG).unwrap());
    assert!(most.load(Ordering::SeqCst) <= 3);
}

#[test]
fn models_and_streams_run_side_by_side() {
    let context = context();
    let models: Vec<_> = (0..8)
        .map(|_| {
            let (model, stream) = model(&context);
            let (count, counted) = counter(&context);
            for _ in 0..100 {
                stream.launch(&count, 1, [0; 4]).unwrap();
            }
            finish(&model, &stream);
            (model, ordinary(&context), counted)
        })
        .collect();
    for _ in 0..50 {
        models.iter().for_each(|(model, stream, _)| model.execute_async(stream).unwrap());
    }
    for (_, stream, counted) in &models {
        stream.synchronize(LONG).unwrap();
        assert_eq!(counted.load(Ordering::SeqCst), 5000);
    }
}

#[test]
fn submitters_of_several_threads_lose_nothing() {
    let context = context();
    let (count, counted) = counter(&context);
    let shared = ordinary(&context);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let own = ordinary(&context);
                for round in 0..500 {
                    shared.launch(&count, 1, [0; 4]).unwrap();
                    own.launch(&count, 1, [0; 4]).unwrap();
                    if round % 10 == 0 {
                        own.synchronize(LONG).unwrap();
                    }
                }
                own.destroy().unwrap();
            });
        }
    });
    shared.synchronize(LONG).unwrap();
    assert_eq!(counted.load(Ordering::SeqCst), 4000);
}

#[test]
fn a_device_makes_sense_or_is_refused() {
    for wrong in [
        Config { cores: 0, ..Config::default() },
        Config { sq_depth: 3, ..Config::default() },
        Config { sq_depth: 1, ..Config::default() },
        Config { label_ids: 0, ..Config::default() },
    ] {
        assert_eq!(code(npu_device::Device::new(wrong)), 107_000);
    }
}

#[test]
fn a_device_ends_with_tasks_that_never_run() {
    let context = context();
    let stream = ordinary(&context);
    let notify = context.notify().unwrap();
    stream.wait_notify(&notify, 0).unwrap();
    stream.nop().unwrap();
    drop((stream, notify, context));
}
