//! Labels: jumps within a model.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use npu_device::Call;

use crate::support::{
    LONG, code, context, counter, finish, logger, model, ordinary, persistent, until,
};

#[test]
fn v7_12_setting_labels() {
    let context = context();
    let (model, stream) = model(&context);
    let [a, b] = [0, 1].map(|_| context.label(Some(&model)).unwrap());
    assert_eq!((a.id(), b.id()), (0, 1));
    assert_eq!(code(stream.set_label(&a)), 507_000, "its list comes first");
    let list = context.label_list(std::slice::from_ref(&a)).unwrap();
    assert_eq!(code(context.label_list(&[b.clone(), a.clone()])), 507_000, "in a list already");
    let second = context.label_list(std::slice::from_ref(&b)).unwrap();
    assert!(list.descriptors().read(|bytes| bytes.iter().all(|byte| *byte == 0xFF)));
    stream.set_label(&a).unwrap();
    let (model_id, stream_id) = (model.id().to_le_bytes(), stream.id().to_le_bytes());
    list.descriptors().read(|bytes| {
        assert_eq!(bytes[..2], model_id[..2]);
        assert_eq!(bytes[2..4], stream_id[..2]);
        assert_eq!(bytes[4..], [0, 0, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255]);
    });
    assert_eq!(code(stream.set_label(&a)), 507_000, "set already");
    assert_eq!(code(ordinary(&context).set_label(&b)), 507_000, "no stream of a model");
    let (_other, elsewhere) = crate::support::model(&context);
    assert_eq!(code(elsewhere.set_label(&b)), 507_000, "another model's");
    let foreign = crate::support::context();
    let (_, of_other_context) = crate::support::model(&foreign);
    assert_eq!(code(of_other_context.set_label(&b)), 507_031);
    assert_eq!(code(context.label_list(&[])), 107_000);
    second.destroy();
    context.label_list(&[b]).unwrap();
}

#[test]
fn v7_13_switch_clamps_and_loops() {
    let context = context();
    let (model, head) = model(&context);
    let branches = [0, 1, 2].map(|_| persistent(&context));
    branches.iter().for_each(|branch| model.bind(branch, false).unwrap());
    let labels: Vec<_> = (0..4).map(|_| context.label(Some(&model)).unwrap()).collect();
    let list = context.label_list(&labels[..3]).unwrap();
    let _join = context.label_list(&labels[3..]).unwrap();
    let index = context.allocate(8).unwrap();
    let (log, logged) = logger(&context);
    assert_eq!(code(head.switch_by_index((&index, 0), 0, &list)), 107_000);
    assert_eq!(code(head.switch_by_index((&index, 0), 4, &list)), 107_000);
    assert_eq!(code(head.switch_by_index((&index, 5), 3, &list)), 107_000);
    head.switch_by_index((&index, 0), 3, &list).unwrap();
    for (branch, number) in branches.iter().zip(0..) {
        branch.set_label(&labels[number]).unwrap();
        branch.launch(&log, 1, [number as u64, 0, 0, 0]).unwrap();
        branch.go_to(&labels[3]).unwrap();
    }
    head.set_label(&labels[3]).unwrap();
    head.launch(&log, 1, [9, 0, 0, 0]).unwrap();
    finish(&model, &head);
    for (value, expected) in [(0, 0), (1, 1), (2, 2), (7, 2)] {
        index.store(0, value).unwrap();
        model.execute(LONG).unwrap();
        assert_eq!(*logged.lock().unwrap(), [expected, 9]);
        logged.lock().unwrap().clear();
    }
}

#[test]
fn v7_13_a_loop_of_five_by_a_counter() {
    let context = context();
    let (model, stream) = model(&context);
    let labels = [0, 1].map(|_| context.label(Some(&model)).unwrap());
    let list = context.label_list(&labels).unwrap();
    let (cell, left) = (context.allocate(8).unwrap(), Arc::new(std::sync::Mutex::new(0)));
    let (count, counted) = counter(&context);
    let (inside, counter) = (cell.clone(), left.clone());
    let step = move |_: &Call| {
        let mut left = counter.lock().unwrap();
        *left -= 1;
        inside.store(0, u64::from(*left == 0)).unwrap();
        Ok(())
    };
    let step = context.register("step", Arc::new(step)).unwrap();
    stream.set_label(&labels[0]).unwrap();
    stream.launch(&count, 1, [0; 4]).unwrap();
    stream.launch(&step, 1, [0; 4]).unwrap();
    stream.switch_by_index((&cell, 0), 2, &list).unwrap();
    stream.set_label(&labels[1]).unwrap();
    finish(&model, &stream);
    for run in 1..=3 {
        *left.lock().unwrap() = 5;
        model.execute(LONG).unwrap();
        assert_eq!(counted.load(Ordering::SeqCst), run * 5);
    }
}

#[test]
fn an_endless_loop_can_be_aborted() {
    let context = context();
    let (model, stream) = model(&context);
    let label = context.label(Some(&model)).unwrap();
    let _list = context.label_list(std::slice::from_ref(&label)).unwrap();
    stream.set_label(&label).unwrap();
    stream.go_to(&label).unwrap();
    finish(&model, &stream);
    assert_eq!(code(model.execute(Some(std::time::Duration::from_millis(20)))), 507_046);
    until(|| !model.is_running());
}

#[test]
fn v7_14_labels_outlive_their_model() {
    let context = context();
    let (model, stream) = model(&context);
    let [a, b] = [0, 1].map(|_| context.label(Some(&model)).unwrap());
    finish(&model, &stream);
    b.destroy().unwrap();
    assert_eq!(code(b.destroy()), 507_000, "destroyed before");
    model.destroy().unwrap();
    a.destroy().unwrap();
    assert_eq!(code(context.label(Some(&model))), 507_000);
}

#[test]
fn a_jump_to_a_label_that_was_never_set_fails_the_run() {
    let context = context();
    let (model, stream) = model(&context);
    let label = context.label(Some(&model)).unwrap();
    stream.go_to(&label).unwrap();
    finish(&model, &stream);
    assert_eq!(code(model.execute(LONG)), 507_000);
}

#[test]
fn the_devices_own_labels_have_ids_of_their_own() {
    let context = crate::support::context_of(npu_device::Config {
        label_ids: 1024,
        ..crate::support::config()
    });
    let labels: Vec<_> = (0..1024).map(|_| context.label(None).unwrap()).collect();
    assert_eq!(code(context.label(None)), 507_000);
    labels[5].destroy().unwrap();
    assert_eq!(context.label(None).unwrap().id(), 5);
}
