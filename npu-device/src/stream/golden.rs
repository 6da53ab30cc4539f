//! Entries byte by byte, as calls make them.

use std::sync::Arc;

use crate::capture::{CaptureMode, CondType};
use crate::codes::Result;
use crate::context::Context;
use crate::device::{Config, Device};
use crate::lock::lock;
use crate::sqe::SQE_BYTES;
use crate::stream::{StreamFlags, WaitValue};

/// Zeros but for the bytes from these places on.
fn bytes(parts: &[(usize, &[u8])]) -> [u8; SQE_BYTES] {
    let mut all = [0; SQE_BYTES];
    for (at, part) in parts {
        all[*at..*at + part.len()].copy_from_slice(part);
    }
    all
}

fn context() -> Result<Context> {
    Context::new(&Device::new(Config::default())?)
}

#[test]
fn golden_bytes_of_tasks_of_a_model() -> Result<()> {
    const ADDRESS: u64 = 0x1817_1615_1413_1211;
    let context = context()?;
    let kernel = || context.register("k", Arc::new(|_: &crate::kernel::Call| Ok(())));
    // Numbers that are not 0: the second function, label and list; the fourth stream.
    let (_, kernel) = (kernel()?, kernel()?);
    let persistent = StreamFlags(StreamFlags::PERSISTENT);
    let (stream, other) = (context.stream(persistent)?, context.stream(persistent)?);
    assert_eq!((stream.id(), other.id()), (2, 3), "behind the context's own two");
    let model = context.build_begin()?;
    model.bind(&stream, true)?;
    model.bind(&other, false)?;
    let labels = [context.label(Some(&model))?, context.label(Some(&model))?];
    let lists = [context.label_list(&labels[..1])?, context.label_list(&labels[1..])?];

    stream.launch(&kernel, 0x0201, [0x0A, 0x0B, 0x0C, 0x0D])?;
    stream.launch_cpu(&kernel, 1, [0; 4])?;
    stream.host_function(&kernel, [0x0A, 0, 0, 0x0D])?;
    stream.write_value_at(ADDRESS, 0x0807_0605_0403_0201)?;
    stream.wait_value_at(ADDRESS, WaitValue::And, 0x0908)?;
    stream.activate(&other)?;
    stream.set_label(&labels[1])?;
    stream.go_to(&labels[1])?;
    stream.switch_by_index_at(ADDRESS, 1, &lists[1])?;

    let address = ADDRESS.to_le_bytes();
    let expected: [&[(usize, &[u8])]; 9] = [
        &[(2, &[1, 2]), (16, &[1]), (24, &[0x0A]), (32, &[0x0B]), (40, &[0x0C]), (48, &[0x0D])],
        &[(0, &[1]), (2, &[1]), (16, &[1])],
        &[(0, &[3]), (2, &[72]), (16, &[1]), (24, &[0x0A]), (48, &[0x0D])],
        &[(0, &[8]), (16, &address), (24, &[1, 2, 3, 4, 5, 6, 7, 8]), (32, &[8])],
        &[(0, &[3]), (2, &[114]), (16, &address), (24, &[8, 9]), (32, &[2])],
        &[(0, &[3]), (2, &[19]), (16, &[3])],
        &[(0, &[3]), (2, &[20]), (16, &[1])],
        &[(0, &[3]), (2, &[77]), (16, &[1])],
        &[(0, &[3]), (2, &[75]), (16, &address), (24, &[1]), (32, &[1])],
    ];
    let entries = stream.core.entries();
    assert_eq!(entries.len(), expected.len());
    for ((number, entry), expected) in (0..).zip(entries).zip(expected) {
        let mut expected = bytes(expected);
        (expected[4], expected[6]) = (2, number);
        assert_eq!(entry.bytes(), expected, "task {number}");
    }
    model.destroy()
}

#[test]
fn golden_bytes_of_a_condition() -> Result<()> {
    let context = context()?;
    let stream = context.stream(StreamFlags(0))?;
    stream.begin_capture(CaptureMode::Relaxed)?;
    let model = stream.capture_info().1.expect("a model under way");
    // The second of the device.
    let (_, second) = (model.condition(0, false)?, model.condition(0, false)?);
    let branches = stream.add_condition(&second, CondType::Switch, 2)?;
    assert_eq!(branches.len(), 2);
    let core = lock(&model.graph.build).streams[0].clone();
    let entries = core.entries();
    assert_eq!(entries.len(), 1);
    let mut expected = bytes(&[(0, &[3]), (2, &[133]), (16, &[1])]);
    expected[4] = u8::try_from(core.shown).expect("a small number");
    assert_eq!(entries[0].bytes(), expected);
    Ok(())
}
