//! Models without inputs or without outputs (executor-deployer §2): a queue in their place only
//! says when to run, or that a set is done.
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::{Device, models};
use executor_core::abi::DataType;
use executor_core::error::Code;
use executor_core::primitive::Ordering;
use harness::Fetched;
use npu::aligned::AlignedBytes;
use npu::ops::identity::Identity;
use npu::program::{Place, Writer};
use npu::shape::Shape;
use npu::tensor::TensorInfo;

fn pair() -> TensorInfo {
    TensorInfo::new(npu::DataType::FLOAT, Shape::new(&[2]).unwrap())
}

/// No input; one output, always 1.5, 2.5.
fn source() -> AlignedBytes {
    let mut writer = Writer::new();
    let bytes: Vec<u8> = [1.5f32, 2.5].iter().flat_map(|value| value.to_le_bytes()).collect();
    let c = writer.constant("c", &pair(), &bytes);
    let y = writer.tensor("y", &pair(), Place::Output(0));
    writer.output(y);
    writer.task("copy", &Identity, &[c], &[y], (0, 0));
    writer.finish(0).unwrap()
}

/// One input of two floats; no output.
fn sink() -> AlignedBytes {
    let mut writer = Writer::new();
    let x = writer.tensor("x", &pair(), Place::Input(0));
    let t = writer.tensor("t", &pair(), Place::Arena(0));
    writer.input(x);
    writer.task("copy", &Identity, &[x], &[t], (0, 0));
    writer.finish(64).unwrap()
}

/// Neither inputs nor outputs.
fn nothing() -> AlignedBytes {
    Writer::new().finish(0).unwrap()
}

/// Says that a set is done: no data, no code.
fn assert_done(got: &Fetched, id: u64) {
    got.assert_answer(id, Code::SUCCESS);
    assert_eq!(got.values, [] as [u8; 0]);
}

#[test]
fn a_control_input_says_when_to_run_whatever_is_in_it() {
    let mut device = Device::new();
    let mut links = device.with(2, &source());
    device.start();
    let messages: [(DataType, &[i64], &[f32]); 4] = [
        (DataType::FLOAT, &[2], &[7.0, 7.0]),
        (DataType::INT64, &[1], &[0.0, 0.0]),
        (DataType::FLOAT, &[], &[1.0]),
        (DataType::FLOAT, &[0], &[]),
    ];
    for (id, (dtype, dims, values)) in (1u64..).zip(messages) {
        let mbuf = device.tensor(id, dtype, dims, values);
        device.feed_mbuf(&mut links, 0, mbuf);
        device.fetch(&mut links, 0).assert_data(id, &[1.5, 2.5]);
    }
    // Not even a descriptor.
    let empty = device.message(5, &[]);
    device.feed_mbuf(&mut links, 0, empty);
    device.fetch(&mut links, 0).assert_data(5, &[1.5, 2.5]);
    device.feed_code(&mut links, 0, 6, Code::MISPAIRED);
    device.fetch(&mut links, 0).assert_answer(6, Code::MISPAIRED);
    device.feed_code(&mut links, 0, 7, Code::SUCCESS);
    device.fetch(&mut links, 0).assert_answer(7, Code::SUCCESS);
    device.feed(&mut links, 0, 8, &[0.0]);
    device.fetch(&mut links, 0).assert_data(8, &[1.5, 2.5]);
    let copied = device.ctl(2).bytes_copied.load(Ordering::Relaxed);
    assert_eq!(copied, 0, "it is dequeued and nothing else");
    device.finalize();
}

#[test]
fn control_outputs_say_that_a_set_is_done() {
    let mut device = Device::new();
    let mut links = device.link(2, 1, 2);
    let path = device.model(&sink());
    device.preload(links.request(1, &path));
    device.start();
    for id in 1..=20 {
        device.feed(&mut links, 0, id, &[1.0, 2.0]);
        for output in 0..2 {
            assert_done(&device.fetch(&mut links, output), id);
        }
    }
    // What does not fit is a code there, too, and so is a code that comes in.
    device.feed(&mut links, 0, 21, &[1.0]);
    device.feed_code(&mut links, 0, 22, Code::MISPAIRED);
    device.feed(&mut links, 0, 23, &[1.0, 2.0]);
    for output in 0..2 {
        device.fetch(&mut links, output).assert_answer(21, Code::PARAM_INVALID);
        device.fetch(&mut links, output).assert_answer(22, Code::MISPAIRED);
        assert_done(&device.fetch(&mut links, output), 23);
        assert!(device.is_silent(&mut links, output));
    }
    device.finalize();
}

#[test]
fn a_model_without_outputs_needs_no_queue_for_them() {
    let mut device = Device::new();
    let mut links = device.link(2, 1, 0);
    let path = device.model(&sink());
    device.preload(links.request(1, &path));
    device.start();
    for id in 1..=20 {
        device.feed(&mut links, 0, id, &[1.0, 2.0]);
    }
    device.until("twenty sets", 2, |ctl| ctl.processed.load(Ordering::Relaxed) == 20);
    device.finalize();
}

#[test]
fn a_model_of_controls_only_answers_each_id() {
    let mut device = Device::new();
    let mut links = device.with(2, &nothing());
    let mut other = device.with(3, &models::plus(&[1.0]));
    device.start();
    for id in 1..=20 {
        device.feed(&mut links, 0, id, &[0.0]);
        assert_done(&device.fetch(&mut links, 0), id);
        device.feed(&mut other, 0, id, &[1.0]);
        device.fetch(&mut other, 0).assert_data(id, &[2.0]);
    }
    device.finalize();
}

#[test]
fn one_queue_is_a_control_input_and_several_or_none_are_not() {
    let mut device = Device::new();
    let path = device.model(&source());
    let two = device.link(2, 2, 1);
    let no_output = device.link(3, 1, 0);
    let none = device.link(4, 0, 1);
    device.start();
    let invalid = Code::EXEC_MODEL_QUEUE_ID_INVALID;
    for (links, code, text) in [
        (&two, invalid, "2 input queues, but the model has 0 inputs"),
        (&no_output, invalid, "0 output queues, but the model has 1 outputs"),
        (&none, Code::PARAM_INVALID, "no input queue"),
    ] {
        let response = device.load(vec![links.request(1, &path)]);
        assert_eq!(Code(response.error_code), Code::FAILED, "{response:?}");
        assert!(response.error_message.contains(text), "{response:?}");
        let number = format!("({})", code.0.cast_signed());
        assert!(response.error_message.contains(&number), "{response:?}");
    }
    device.finalize();
}
