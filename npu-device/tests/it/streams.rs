//! Ordinary streams: what tasks do.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use npu_device::{Call, EventFlags, Fault, WaitValue};

use crate::support::{
    Gate, LONG, code, context, counter, failing, finish, logger, model, ordinary, persistent, until,
};

#[test]
fn a_million_tasks_on_one_stream_reuse_their_numbers() {
    let context = context();
    let stream = ordinary(&context);
    let (count, counted) = counter(&context);
    let mut expected = 0_u16;
    for number in 0..1_000_000 {
        let task = stream.launch(&count, 1, [0; 4]).unwrap();
        assert_eq!(task, expected, "task {number}");
        expected = if expected == 0xFFFE { 0 } else { expected + 1 };
    }
    stream.synchronize(LONG).unwrap();
    assert_eq!(counted.load(Ordering::SeqCst), 1_000_000);
    assert!(stream.waiting().is_empty());
}

#[test]
fn places_tell_which_tasks_wait() {
    let context = context();
    let stream = ordinary(&context);
    let gate = Gate::new(&context);
    stream.nop().unwrap();
    stream.synchronize(LONG).unwrap();
    stream.launch(&gate.function, 1, [0; 4]).unwrap();
    for _ in 0..3 {
        stream.nop().unwrap();
    }
    gate.wait_for(1);
    assert_eq!(stream.waiting(), [1, 2, 3, 4]);
    assert!(!stream.query().unwrap());
    gate.open();
    stream.synchronize(LONG).unwrap();
    assert!(stream.waiting().is_empty() && stream.query().unwrap());
}

#[test]
fn kernels_fail_with_the_code_of_their_core_and_the_stream_goes_on() {
    let context = context();
    let stream = ordinary(&context);
    let (count, counted) = counter(&context);
    let exception = failing(&context, Fault::Exception);
    let own = failing(&context, Fault::Code(executor_core::error::Code(9_900_001)));
    let panics = context.register("panics", Arc::new(|_: &Call| panic!("as asked"))).unwrap();
    type Launch = fn(&npu_device::Stream, &npu_device::Function) -> npu_device::Result<u16>;
    let core: Launch = |stream, function| stream.launch(function, 1, [0; 4]);
    let cpu: Launch = |stream, function| stream.launch_cpu(function, 1, [0; 4]);
    let host: Launch = |stream, function| stream.host_function(function, [0; 4]);
    let cases = [
        (core, &exception, 507_015, 1),
        (cpu, &exception, 507_018, 1),
        (core, &panics, 507_016, 2),
        (core, &own, 9_900_001, 1),
        (host, &exception, 507_018, 1),
        (host, &panics, 507_018, 1),
    ];
    for (index, (launch, function, expected, error_type)) in (1..).zip(cases) {
        let task = launch(&stream, function).unwrap();
        stream.launch(&count, 1, [0; 4]).unwrap();
        assert_eq!(code(stream.synchronize(LONG)), expected);
        assert_eq!(counted.load(Ordering::SeqCst), index);
        let report = stream.take_report().unwrap();
        assert_eq!((report.task, report.error.0), (task, expected));
        assert_eq!((report.error_type & 0x3F, report.dropped), (error_type, false));
        assert!(stream.take_report().is_none());
    }
    assert_eq!(code(stream.launch(&count, 0, [0; 4])), 107_000);
    // The first code counts, and only once.
    stream.launch(&exception, 1, [0; 4]).unwrap();
    stream.launch(&panics, 1, [0; 4]).unwrap();
    assert_eq!(code(stream.synchronize(LONG)), 507_015);
    stream.synchronize(LONG).unwrap();
}

#[test]
fn objects_that_are_gone_are_a_code_of_the_task() {
    let context = context();
    let (stream, gate) = (ordinary(&context), Gate::new(&context));
    let memory = context.allocate(64).unwrap();
    let (count, _) = counter(&context);
    let notify = context.notify().unwrap();
    let event = context.event(EventFlags::default()).unwrap();
    type Submit<'a> = &'a dyn Fn() -> npu_device::Result<u16>;
    let submits: [(Submit<'_>, u32); 5] = [
        (&|| stream.fill(&memory, 0, 1, 64), 507_015),
        (&|| stream.write_value(&memory, 8, 1), 507_015),
        (&|| stream.launch(&count, 1, [0; 4]), 507_000),
        (&|| stream.record_notify(&notify), 507_000),
        (&|| stream.record_event(&event), 507_000),
    ];
    stream.launch(&gate.function, 1, [0; 4]).unwrap();
    gate.wait_for(1);
    for (submit, _) in &submits {
        submit().unwrap();
    }
    memory.clone().free();
    count.clone().unregister();
    notify.clone().destroy();
    event.clone().destroy();
    gate.open();
    assert_eq!(code(stream.synchronize(LONG)), 507_015);
    for (_, expected) in submits {
        assert_eq!(stream.take_report().unwrap().error.0, expected);
    }
}

#[test]
fn reports_of_all_tasks_and_a_full_queue_of_them() {
    let context = context();
    let stream = ordinary(&context);
    stream.report_all(true);
    let tasks: Vec<u16> = (0..1500).map(|_| stream.nop().unwrap()).collect();
    stream.synchronize(LONG).unwrap();
    for task in &tasks[..1024] {
        let report = stream.take_report().unwrap();
        assert_eq!((report.task, report.error.0, report.dropped), (*task, 0, false));
    }
    assert!(stream.take_report().is_none());
    stream.nop().unwrap();
    stream.synchronize(LONG).unwrap();
    assert!(stream.take_report().unwrap().dropped, "476 are missing before this one");
}

#[test]
fn memory_is_filled_copied_written_and_waited_for() {
    let context = context();
    let (stream, other) = (ordinary(&context), ordinary(&context));
    let [a, b] = [0, 1].map(|_| context.allocate(256).unwrap());
    stream.fill(&a, 16, 7, 32).unwrap();
    stream.copy((&b, 0), (&a, 8), 48).unwrap();
    stream.copy((&b, 4), (&b, 0), 16).unwrap();
    stream.write_value(&b, 64, 0x0102_0304_0506_0708).unwrap();
    stream.synchronize(LONG).unwrap();
    b.read(|bytes| {
        assert!(bytes[..4].iter().chain(&bytes[4..12]).all(|byte| *byte == 0));
        assert!(bytes[12..40].iter().all(|byte| *byte == 7));
        assert!(bytes[40..48].iter().all(|byte| *byte == 0));
        assert_eq!((bytes[64], bytes[71]), (8, 1));
    });
    assert_eq!(b.load(64).unwrap(), 0x0102_0304_0506_0708);
    assert_eq!(code(a.load(249)), 107_000);
    assert_eq!(code(a.store(249, 0)), 107_000);
    assert_eq!(code(stream.fill(&a, 0, 0, 257)), 107_000);
    assert_eq!(code(stream.copy((&a, 1), (&b, 0), 256)), 107_000);
    assert_eq!(code(stream.wait_value(&a, 252, WaitValue::Equal, 1)), 107_000);
    for (condition, operand, not, yes) in [
        (WaitValue::GreaterOrEqual, 5, 4, 5),
        (WaitValue::GreaterOrEqual, 0, u64::MAX, 0),
        (WaitValue::Equal, 9, 8, 9),
        (WaitValue::And, 6, 1, 2),
        (WaitValue::Nor, 1, u64::MAX - 1, 3),
    ] {
        a.store(0, not).unwrap();
        stream.wait_value(&a, 0, condition, operand).unwrap();
        let waited = stream.synchronize(Some(std::time::Duration::from_millis(5)));
        assert_eq!(code(waited), 507_046, "{condition:?} {operand} does not hold of {not}");
        other.write_value(&a, 0, yes).unwrap();
        stream.synchronize(LONG).unwrap();
    }
    stream.wait_value(&a, 0, WaitValue::Equal, 1234).unwrap();
    a.store(0, 1234).unwrap();
    stream.synchronize(LONG).unwrap();
}

#[test]
fn copies_in_opposite_directions_do_not_wait_for_each_other() {
    let context = context();
    let [a, b] = [0, 1].map(|_| context.allocate(1 << 16).unwrap());
    let (one, two) = (ordinary(&context), ordinary(&context));
    for _ in 0..2000 {
        one.copy((&a, 0), (&b, 0), 1 << 16).unwrap();
        two.copy((&b, 0), (&a, 0), 1 << 16).unwrap();
    }
    one.synchronize(LONG).unwrap();
    two.synchronize(LONG).unwrap();
}

#[test]
fn host_functions_take_no_core() {
    let context = crate::support::context_of(npu_device::Config { cores: 1, ..Default::default() });
    let (stream, other) = (ordinary(&context), ordinary(&context));
    let (log, logged) = logger(&context);
    let inside = other.clone();
    // It waits for another stream, on a device with one core.
    let wait = context.register(
        "waits",
        Arc::new(move |_: &Call| {
            inside.synchronize(LONG).map_err(|error| Fault::Code(error.code()))
        }),
    );
    let notify = context.notify().unwrap();
    other.wait_notify(&notify, 0).unwrap();
    other.launch(&log, 1, [1, 0, 0, 0]).unwrap();
    stream.record_notify(&notify).unwrap();
    stream.host_function(&wait.unwrap(), [0; 4]).unwrap();
    stream.launch(&log, 1, [2, 0, 0, 0]).unwrap();
    stream.synchronize(LONG).unwrap();
    assert_eq!(*logged.lock().unwrap(), [1, 2]);
}

#[test]
fn a_notify_is_one_bit() {
    let context = context();
    let (stream, other) = (ordinary(&context), ordinary(&context));
    let notify = context.notify().unwrap();
    stream.record_notify(&notify).unwrap();
    stream.record_notify(&notify).unwrap();
    stream.synchronize(LONG).unwrap();
    assert!(notify.is_set());
    other.wait_notify(&notify, 0).unwrap();
    other.synchronize(LONG).unwrap();
    assert!(!notify.is_set());
    // One record lets one of two go on.
    stream.wait_notify(&notify, 0).unwrap();
    other.wait_notify(&notify, 0).unwrap();
    let third = ordinary(&context);
    third.record_notify(&notify).unwrap();
    until(|| stream.query().unwrap() != other.query().unwrap());
    third.record_notify(&notify).unwrap();
    stream.synchronize(LONG).unwrap();
    other.synchronize(LONG).unwrap();
}

#[test]
fn an_event_is_waited_for_as_it_was_when_the_wait_was_submitted() {
    let context = context();
    let (stream, other) = (ordinary(&context), ordinary(&context));
    let event = context.event(EventFlags(EventFlags::TIME_LINE)).unwrap();
    assert!(event.query().unwrap(), "complete before the first record");
    other.wait_event(&event, 0).unwrap();
    other.synchronize(LONG).unwrap();
    let (first, second) = (Gate::new(&context), Gate::new(&context));
    stream.launch(&first.function, 1, [0; 4]).unwrap();
    stream.record_event(&event).unwrap();
    other.wait_event(&event, 0).unwrap();
    stream.launch(&second.function, 1, [0; 4]).unwrap();
    stream.record_event(&event).unwrap();
    first.open();
    other.synchronize(LONG).unwrap();
    assert!(!event.query().unwrap(), "the second record has not run");
    second.open();
    event.synchronize(LONG).unwrap();
    let later = context.event(EventFlags(EventFlags::TIME_LINE)).unwrap();
    assert_eq!(code(event.elapsed(&later)), 107_000);
    stream.record_event(&later).unwrap();
    stream.synchronize(LONG).unwrap();
    event.elapsed(&later).unwrap();
    assert_eq!(code(stream.reset_event(&later)), 107_000);
    assert_eq!(code(context.event(EventFlags(0x1000))), 107_000);
    let flag = context.event(EventFlags(EventFlags::SYNC)).unwrap();
    stream.record_event(&flag).unwrap();
    stream.reset_event(&flag).unwrap();
    stream.synchronize(LONG).unwrap();
    assert!(!flag.query().unwrap(), "as if it had not been recorded");
}

#[test]
fn events_order_streams_of_a_model_in_every_run() {
    let context = context();
    let (model, first) = model(&context);
    let second = persistent(&context);
    model.bind(&second, true).unwrap();
    let event = context.event(EventFlags::default()).unwrap();
    let (log, logged) = logger(&context);
    for number in 0..20 {
        first.launch(&log, 1, [number, 0, 0, 0]).unwrap();
    }
    first.record_event(&event).unwrap();
    second.wait_event(&event, 0).unwrap();
    second.launch(&log, 1, [20, 0, 0, 0]).unwrap();
    finish(&model, &second);
    for _ in 0..50 {
        model.execute(LONG).unwrap();
        assert_eq!(*logged.lock().unwrap(), (0..=20).collect::<Vec<u64>>());
        logged.lock().unwrap().clear();
    }
}

/// Raw memory of 64 bytes at address 0x1000.
#[derive(Debug)]
struct Raw(std::sync::Mutex<[u8; 64]>);

impl Raw {
    fn new() -> Arc<Self> {
        Arc::new(Self(std::sync::Mutex::new([0; 64])))
    }

    fn range(address: u64, bytes: usize) -> Option<std::ops::Range<usize>> {
        let begin = usize::try_from(address.checked_sub(0x1000)?).ok()?;
        let end = begin.checked_add(bytes).filter(|end| *end <= 64)?;
        Some(begin..end)
    }
}

impl npu_device::RawMemory for Raw {
    fn load(&self, address: u64, bytes: usize) -> Option<u64> {
        let mut word = [0; 8];
        word[..bytes].copy_from_slice(&self.0.lock().unwrap()[Self::range(address, bytes)?]);
        Some(u64::from_le_bytes(word))
    }

    fn store(&self, address: u64, value: u64, bytes: usize) -> Option<()> {
        let range = Self::range(address, bytes)?;
        self.0.lock().unwrap()[range].copy_from_slice(&value.to_le_bytes()[..bytes]);
        Some(())
    }

    fn fill(&self, address: u64, value: u8, bytes: usize) -> Option<()> {
        self.0.lock().unwrap()[Self::range(address, bytes)?].fill(value);
        Some(())
    }

    fn copy(&self, to: u64, from: u64, bytes: usize) -> Option<()> {
        let (to, from) = (Self::range(to, bytes)?, Self::range(from, bytes)?);
        self.0.lock().unwrap().copy_within(from, to.start);
        Some(())
    }
}

#[test]
fn tasks_name_raw_memory_by_its_address() {
    let raw = Raw::new();
    let device = npu_device::Device::with_raw_memory(crate::support::config(), raw.clone());
    let context = npu_device::Context::new(&device.unwrap()).unwrap();
    let stream = ordinary(&context);
    stream.fill_at(0x1000, 7, 16).unwrap();
    stream.copy_at(0x1008, 0x1000, 16).unwrap();
    stream.write_value_at(0x1020, 0x0102).unwrap();
    stream.synchronize(LONG).unwrap();
    let bytes = *raw.0.lock().unwrap();
    assert_eq!((bytes[23], bytes[24], bytes[32], bytes[33]), (7, 0, 2, 1));
    // Whoever writes raw memory does not say so.
    stream.wait_value_at(0x1030, WaitValue::Equal, 9).unwrap();
    assert_eq!(code(stream.synchronize(Some(std::time::Duration::from_millis(20)))), 507_046);
    raw.0.lock().unwrap()[0x30] = 9;
    stream.synchronize(LONG).unwrap();
    // What is not there is a code of the task, also between raw memory and the device's own.
    let memory = context.allocate(8).unwrap();
    let submits: [&dyn Fn() -> npu_device::Result<u16>; 5] = [
        &|| stream.fill_at(0x1000, 0, 65),
        &|| stream.write_value_at(0x103F, 0),
        &|| stream.wait_value_at(0, WaitValue::Equal, 1),
        &|| stream.copy_at(0x1000, 0x2000, 1),
        &|| stream.copy_at(memory.address(0), 0x1000, 8),
    ];
    for submit in submits {
        submit().unwrap();
        assert_eq!(code(stream.synchronize(LONG)), 507_015);
    }
    let without = crate::support::context();
    let stream = ordinary(&without);
    stream.write_value_at(0x1000, 1).unwrap();
    assert_eq!(code(stream.synchronize(LONG)), 507_015);
}

#[test]
fn a_condition_can_have_its_cell_in_raw_memory() {
    let raw = Raw::new();
    let device = npu_device::Device::with_raw_memory(crate::support::config(), raw.clone());
    let context = npu_device::Context::new(&device.unwrap()).unwrap();
    let (stream, inside) = (ordinary(&context), ordinary(&context));
    let (count, counted) = counter(&context);
    stream.begin_capture(npu_device::CaptureMode::Relaxed).unwrap();
    let model = stream.capture_info().1.unwrap();
    let handle = model.condition_at(0x1000, 1, false).unwrap();
    assert!(handle.cell().is_none());
    let branches = stream.add_condition(&handle, npu_device::CondType::If, 1).unwrap();
    inside.begin_capture_into(&branches[0], npu_device::CaptureMode::Relaxed).unwrap();
    inside.launch(&count, 1, [0; 4]).unwrap();
    inside.end_capture().unwrap();
    let model = stream.end_capture().unwrap();
    for (cell, expected) in [(0, 0), (1, 1), (0, 1), (1, 2)] {
        raw.0.lock().unwrap()[0] = cell;
        model.execute(LONG).unwrap();
        assert_eq!(counted.load(Ordering::SeqCst), expected);
    }
    model.destroy().unwrap();
}
