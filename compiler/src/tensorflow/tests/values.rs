//! Constants of every spelling, and ops that move elements.

use super::*;

fn of(dtype: i32, dims: &[i64]) -> TensorProto {
    TensorProto { dtype, tensor_shape: Some(shape(dims)), ..TensorProto::default() }
}

/// A constant as it is read back, as floats.
fn read(tensor: TensorProto) -> Vec<f32> {
    let to = [("DstT", Value::Type(FLOAT)), ("Truncate", Value::B(false))];
    let own = Frozen::default().constant("c", tensor).node("Cast", "y", &["c"], &to);
    own.run(&[]).remove(0)
}

#[test]
fn constants_of_every_spelling() {
    let bytes = |own: &[u8]| Bytes::copy_from_slice(own);
    let content = TensorProto { tensor_content: bytes(&[1, 0, 255, 255]), ..of(5, &[2]) };
    assert_eq!(read(content), [1.0, -1.0]);
    assert_eq!(read(TensorProto { float_val: vec![0.5, -2.0], ..of(1, &[2]) }), [0.5, -2.0]);
    assert_eq!(read(TensorProto { double_val: vec![0.25], ..of(2, &[1]) }), [0.25]);
    assert_eq!(read(TensorProto { int_val: vec![-7, 3], ..of(3, &[2]) }), [-7.0, 3.0]);
    assert_eq!(read(TensorProto { int_val: vec![200, 3], ..of(4, &[2]) }), [200.0, 3.0]);
    assert_eq!(read(TensorProto { int_val: vec![-300], ..of(5, &[1]) }), [-300.0]);
    assert_eq!(read(TensorProto { int_val: vec![-3], ..of(6, &[1]) }), [-3.0]);
    assert_eq!(read(TensorProto { int_val: vec![65_000], ..of(17, &[1]) }), [65_000.0]);
    assert_eq!(read(TensorProto { int64_val: vec![-9], ..of(9, &[]) }), [-9.0]);
    assert_eq!(read(TensorProto { bool_val: vec![true, false], ..of(10, &[2]) }), [1.0, 0.0]);
    assert_eq!(read(TensorProto { half_val: vec![0x3e00], ..of(19, &[1]) }), [1.5]);
    assert_eq!(read(TensorProto { half_val: vec![0x3fc0], ..of(14, &[1]) }), [1.5]);
    assert_eq!(read(TensorProto { uint32_val: vec![9], ..of(22, &[1]) }), [9.0]);
    assert_eq!(read(TensorProto { uint64_val: vec![9], ..of(23, &[1]) }), [9.0]);
}

#[test]
fn the_last_value_stands_for_those_that_follow() {
    let three = |own: &[f32]| TensorProto { float_val: own.to_vec(), ..of(1, &[3]) };
    assert_eq!(read(three(&[7.0])), [7.0; 3]);
    assert_eq!(read(three(&[1.0, 2.0])), [1.0, 2.0, 2.0]);
    assert_eq!(read(three(&[])), [0.0; 3], "none: zeros");
    assert_eq!(read(TensorProto { int_val: vec![5], ..of(4, &[2, 2]) }), [5.0; 4]);
    assert_eq!(read(TensorProto { int64_val: vec![1, 2], ..of(9, &[4]) }), [1.0, 2.0, 2.0, 2.0]);
}

#[test]
fn weights_are_a_part_of_the_file() {
    let file = Frozen::default().floats("w", &[2], &[1.0, 2.0]).node("Relu", "y", &["w"], &[]);
    let bytes = file.bytes();
    let imported = crate::import(bytes.clone()).unwrap();
    let weights = &imported.constants["w"].as_ref().unwrap().bytes;
    let place = weights.as_ptr().addr() - bytes.as_ptr().addr();
    assert_eq!(bytes.slice(place..place + 8), *weights, "the same memory");
}

#[test]
fn constants_that_are_refused() {
    let refused = |tensor: TensorProto| {
        let own = Frozen::default().constant("c", tensor).node("Identity", "y", &["c"], &[]);
        own.refused(&[])
    };
    let short = TensorProto { tensor_content: Bytes::from_static(&[0; 8]), ..of(1, &[3]) };
    assert_eq!(refused(short), "node `c` (Const): 8 bytes; float32 [3] has 12");
    let long = TensorProto { float_val: vec![0.0; 4], ..of(1, &[3]) };
    assert_eq!(refused(long), "node `c` (Const): 4 values; float32 [3] has 3");
    assert_eq!(refused(of(1, &[-2])), "node `c` (Const): dim 0 is -2; expected 0 or more");
    let text = refused(of(7, &[1]));
    assert!(text.starts_with("node `c` (Const): is string; supported: float32, "), "{text}");
    assert!(refused(of(99, &[1])).contains("is type 99; supported: "));
    let huge = refused(of(1, &[i64::MAX, i64::MAX]));
    assert!(huge.contains("more than 1099511627776 elements"), "{huge}");
    let much = refused(of(1, &[1 << 39]));
    assert!(much.starts_with("node `c` (Const): float32 [549755813888] repeats a value"), "{much}");
    let unknown = TensorShapeProto { dim: Vec::new(), unknown_rank: true };
    let unknown = TensorProto { tensor_shape: Some(unknown), ..of(1, &[]) };
    assert_eq!(refused(unknown), "node `c` (Const): its number of dims is not known");
    // One that nobody reads does no harm.
    let unused = Frozen::default().constant("c", of(7, &[1])).input("x", &[1]);
    unused.node("Relu", "y", &["x"], &[]).compile(&[]).unwrap();
}

/// Values of 2×3 through an op with numbers as further inputs.
fn moved(op: &str, numbers: &[(&[i64], &[i32])], attr: &[(&str, Value)]) -> (Vec<f32>, Vec<usize>) {
    let mut own = Frozen::default().input("x", &[2, 3]);
    let names: Vec<String> = (0..numbers.len()).map(|index| format!("n{index}")).collect();
    for (name, (dims, values)) in names.iter().zip(numbers) {
        own = own.ints(name, dims, values);
    }
    let inputs: Vec<&str> = std::iter::once("x").chain(names.iter().map(String::as_str)).collect();
    let own = own.node(op, "y", &inputs, attr);
    let dims = own.compile(&[]).unwrap().report.outputs[0].info.shape.dims().to_vec();
    (own.run(&[&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]]).remove(0), dims)
}

#[test]
fn elements_that_move() {
    let all = vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
    assert_eq!(moved("Reshape", &[(&[2], &[3, -1])], &[]), (all.clone(), vec![3, 2]));
    let turned = vec![1.0, 4.0, 2.0, 5.0, 3.0, 6.0];
    assert_eq!(moved("Transpose", &[(&[2], &[1, 0])], &[]), (turned, vec![3, 2]));
    assert_eq!(moved("ExpandDims", &[(&[], &[-1])], &[]), (all.clone(), vec![2, 3, 1]));
    let padded = vec![0.0, 0.0, 0.0, 0.0, 1.0, 2.0, 3.0, 0.0, 4.0, 5.0, 6.0, 0.0];
    assert_eq!(moved("Pad", &[(&[2, 2], &[1, 0, 0, 1])], &[]), (padded, vec![3, 4]));
    let twice = vec![1.0, 2.0, 3.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 4.0, 5.0, 6.0];
    assert_eq!(moved("Tile", &[(&[2], &[1, 2])], &[]), (twice, vec![2, 6]));
    let picked = (vec![3.0, 1.0, 6.0, 4.0], vec![2, 2]);
    assert_eq!(moved("GatherV2", &[(&[2], &[2, 0]), (&[], &[1])], &[]), picked);
}

#[test]
fn parts_of_a_tensor() {
    let part = |begin: &[i32], end: &[i32], strides: &[i32], masks: [i64; 3]| {
        let [first, last, gone] = masks.map(Value::I);
        let attr = [("begin_mask", first), ("end_mask", last), ("shrink_axis_mask", gone)];
        let dims = [i64::try_from(begin.len()).unwrap()];
        moved("StridedSlice", &[(&dims, begin), (&dims, end), (&dims, strides)], &attr)
    };
    assert_eq!(part(&[0, 1], &[1, 3], &[1, 1], [0; 3]), (vec![2.0, 3.0], vec![1, 2]));
    assert_eq!(part(&[9, 1], &[9, 9], &[1, 1], [1, 3, 0]), (vec![2.0, 3.0, 5.0, 6.0], vec![2, 2]));
    assert_eq!(part(&[1], &[2], &[1], [0, 0, 1]), (vec![4.0, 5.0, 6.0], vec![3]));
    assert_eq!(part(&[-1, -1], &[0, 0], &[1, 1], [0, 0, 3]), (vec![6.0], vec![]));
    let back = vec![3.0, 2.0, 1.0, 6.0, 5.0, 4.0];
    assert_eq!(part(&[0, 0], &[0, 0], &[1, -1], [3, 3, 0]), (back, vec![2, 3]));
}

#[test]
fn tensors_that_are_put_together_and_squeezed() {
    let base =
        || Frozen::default().input("x", &[1, 2]).input("z", &[1, 2]).ints("axis", &[], &[-1]);
    let (x, z) = ([1.0, 2.0], [3.0, 4.0]);
    let joined = base().node("ConcatV2", "y", &["x", "z", "axis"], &[("N", Value::I(2))]);
    assert_eq!(joined.run(&[&x, &z])[0], [1.0, 2.0, 3.0, 4.0]);
    let packed = base().node("Pack", "y", &["x", "z"], &[("axis", Value::I(2))]);
    assert_eq!(packed.run(&[&x, &z])[0], [1.0, 3.0, 2.0, 4.0]);
    for (squeezed, rank) in [(vec![], 1), (vec![("squeeze_dims", list(&[0]))], 1)] {
        let own = base().node("Squeeze", "y", &["x"], &squeezed);
        let outputs = own.compile(&[]).unwrap().report.outputs;
        assert_eq!(outputs.iter().find(|own| own.name == "y").unwrap().info.shape.rank(), rank);
    }
}

#[test]
fn shapes_that_are_computed_are_known() {
    // As exporters flatten: [dim 0, everything else].
    let own = Frozen::default()
        .input("x", &[2, 3, 2])
        .node("Shape", "shape", &["x"], &[("out_type", Value::Type(INT32))])
        .ints("zero", &[1], &[0])
        .ints("one", &[1], &[1])
        .ints("rest", &[], &[-1])
        .node(
            "StridedSlice",
            "batch",
            &["shape", "zero", "one", "one"],
            &[("shrink_axis_mask", Value::I(1))],
        )
        .node("Pack", "to", &["batch", "rest"], &[("N", Value::I(2)), ("axis", Value::I(0))])
        .node("Reshape", "y", &["x", "to"], &[]);
    assert_eq!(own.compile(&[]).unwrap().report.outputs[0].info.shape.dims(), [2, 6]);
    let filled = Frozen::default().ints("dims", &[2], &[2, 1]).floats("value", &[], &[3.0]).node(
        "Fill",
        "y",
        &["dims", "value"],
        &[],
    );
    assert_eq!(filled.run(&[])[0], [3.0, 3.0]);
}
