//! A compiled model as a task, and a model of streams as Chrome trace JSON.

use std::slice::from_ref;
use std::sync::Arc;

use npu::DataType;
use npu::aligned::AlignedBytes;
use npu::engine;
use npu::ops::Broadcast;
use npu::ops::add::Add;
use npu::program::{Place, Writer};
use npu::shape::Shape;
use npu::tensor::TensorInfo;
use npu_device::{Detail, Memory, ProgramTask, WaitValue};
use serde_json::Value;

use crate::support::{LONG, code, context, finish, logger, model, ordinary, persistent};

/// `y = x + x`, 16 floats.
fn doubler() -> Arc<engine::Model<AlignedBytes>> {
    let info = TensorInfo::new(DataType::FLOAT, Shape::new(&[16]).unwrap());
    let mut writer = Writer::new();
    let x = writer.tensor("x", &info, Place::Input(0));
    let y = writer.tensor("y", &info, Place::Output(0));
    writer.input(x);
    writer.output(y);
    writer.task("double", &Add::new(Broadcast::Numpy), &[x, x], &[y], (0, 0));
    Arc::new(engine::Model::load(writer.finish(0).unwrap()).unwrap())
}

fn put(memory: &Memory, values: &[f32; 16]) {
    memory.write(|bytes| {
        for (to, value) in bytes.chunks_exact_mut(4).zip(values) {
            to.copy_from_slice(&value.to_le_bytes());
        }
    });
}

fn first(memory: &Memory) -> f32 {
    memory.read(|bytes| f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
}

#[test]
fn programs_run_in_a_models_streams_where_their_memory_lies() {
    let context = context();
    let memory = [0, 1, 2].map(|_| context.allocate(64).unwrap());
    let [a, b, c] = memory.each_ref();
    let program = doubler();
    let register = |inputs: &[Memory], outputs: &[Memory]| {
        ProgramTask::register(&context, "double", program.clone(), inputs, outputs)
    };
    let small = context.allocate(60).unwrap();
    assert_eq!(code(register(&[], from_ref(b))), 107_000);
    assert_eq!(code(register(from_ref(a), &[small])), 107_000);
    assert_eq!(code(register(from_ref(a), from_ref(a))), 107_000);
    let one = register(from_ref(a), from_ref(b)).unwrap();
    let two = register(from_ref(b), from_ref(c)).unwrap();
    let (model, stream) = model(&context);
    stream.launch(&one, 1, [0; 4]).unwrap();
    stream.launch(&two, 1, [0; 4]).unwrap();
    finish(&model, &stream);
    for value in [1.0, 2.5, -7.0] {
        put(a, &[value; 16]);
        model.execute(LONG).unwrap();
        assert_eq!((first(b), first(c)), (2.0 * value, 4.0 * value));
    }
    // Whoever waits for a value sees what a program writes.
    let waiter = ordinary(&context);
    put(a, &[0.0; 16]);
    model.execute(LONG).unwrap();
    waiter.wait_value(b, 0, WaitValue::Nor, !1).unwrap();
    waiter.synchronize(LONG).unwrap();
}

#[test]
fn a_model_is_shown_as_chrome_trace() {
    let context = context();
    let (model, head) = model(&context);
    model.set_name("page \"one\"\n").unwrap();
    let second = persistent(&context);
    model.bind(&second, false).unwrap();
    let event = context.event(Default::default()).unwrap();
    let (log, _) = logger(&context);
    head.launch(&log, 3, [0xABCD, 0, 0, 0]).unwrap();
    head.record_event(&event).unwrap();
    head.activate(&second).unwrap();
    second.wait_event(&event, 0).unwrap();
    second.nop().unwrap();
    for complete in [false, true] {
        if complete {
            finish(&model, &second);
        }
        for detail in [Detail::Summary, Detail::Verbose] {
            let mut text = Vec::new();
            model.trace(&mut text, detail).unwrap();
            let json: Value = serde_json::from_slice(&text).unwrap();
            let events = json["traceEvents"].as_array().unwrap();
            let named = |name: &str| events.iter().find(|event| event["name"] == name).unwrap();
            let tasks = events.iter().filter(|event| event["ph"] == "X").count();
            assert_eq!(tasks, 5 + usize::from(complete));
            let kernel = named("log");
            assert_eq!((&kernel["tid"], &kernel["args"]["blocks"]), (&head.id().into(), &3.into()));
            let verbose = detail == Detail::Verbose;
            assert_eq!(kernel["args"]["args"][0] == "0xabcd", verbose);
            assert_eq!(kernel["args"]["args"].is_null(), !verbose);
            let arrows: Vec<_> = events.iter().filter(|event| event["cat"] == "event").collect();
            assert_eq!(arrows[0]["id"], arrows[1]["id"]);
            assert!(
                named("process_name")["args"]["name"].as_str().unwrap().contains("page \"one\"")
            );
            assert_eq!(events.iter().any(|event| event["name"] == "MODEL_END_GRAPH"), complete);
        }
    }
}
