//! Tests of runs: binding, refusals, several models.

use super::*;
use crate::aligned::AlignedBytes;
use crate::program::{Place, Writer};
use crate::tensor::TensorInfo;

fn info(dims: &[usize]) -> TensorInfo {
    TensorInfo::new(DataType::FLOAT, Shape::new(dims).unwrap())
}

fn bytes(values: &[f32]) -> AlignedBytes {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    AlignedBytes::copy_of(&bytes)
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    let (words, _) = bytes.as_chunks();
    words.iter().map(|word| f32::from_le_bytes(*word)).collect()
}

fn relu() -> crate::ops::relu::Relu {
    crate::ops::relu::Relu
}

fn mul() -> crate::ops::mul::Mul {
    crate::ops::mul::Mul::new(crate::ops::Broadcast::Numpy)
}

/// positive = max(0, x * factor); squares = positive * positive. Both are outputs, and the second
/// task reads the first one's.
fn model(factor: f32) -> Model<AlignedBytes> {
    let mut writer = Writer::new();
    let (x, one) = (info(&[2, 2]), info(&[1]));
    let input = writer.tensor("x", &x, Place::Input(0));
    let positive = writer.tensor("positive", &x, Place::Output(0));
    let squares = writer.tensor("squares", &x, Place::Output(1));
    writer.input(input);
    writer.output(positive);
    writer.output(squares);
    let factor = writer.constant("factor", &one, &bytes(&[factor]));
    let scaled = writer.tensor("scaled", &x, Place::Arena(64));
    writer.task("scale", &mul(), &[input, factor], &[scaled], (0, 0));
    writer.task("relu", &relu(), &[scaled], &[positive], (0, 0));
    writer.task("square", &mul(), &[positive, positive], &[squares], (0, 0));
    Model::load(writer.finish(128).unwrap()).unwrap()
}

fn run(model: &Model<AlignedBytes>, values: &[f32]) -> (Vec<f32>, Vec<f32>) {
    let x = bytes(values);
    let (mut first, mut second) = (AlignedBytes::zeroed(16), AlignedBytes::zeroed(100));
    let mut arena = AlignedBytes::zeroed(128);
    let inputs = [Input { info: info(&[2, 2]), bytes: &x }];
    model.run(&inputs, &mut [&mut first, &mut second], &mut arena).unwrap();
    assert!(second[16..].iter().all(|byte| *byte == 0), "nothing behind an output is written");
    (floats(&first), floats(&second[..16]))
}

#[test]
fn an_observer_sees_each_task_end_in_order() {
    let (model, x) = (model(2.0), bytes(&[1.0, -2.0, 3.0, -4.0]));
    let (mut first, mut second) = (AlignedBytes::zeroed(16), AlignedBytes::zeroed(16));
    let mut arena = AlignedBytes::zeroed(128);
    let inputs = [Input { info: info(&[2, 2]), bytes: &x }];
    let mut seen = Vec::new();
    let outputs: &mut [&mut [u8]] = &mut [&mut first, &mut second];
    model.run_with(&inputs, outputs, &mut arena, None, |task| seen.push(task)).unwrap();
    assert_eq!(seen, [0, 1, 2]);
    seen.clear();
    let refused = model.run_with(&inputs, outputs, &mut [], None, |task| seen.push(task));
    assert!(refused.is_err() && seen.is_empty());
}

/// x → a → (b, over or beside it) → y, where `b` is what the test says of `a`.
fn beside_or_over(
    op: &dyn crate::ops::Op,
    operands: &[usize],
    (a, b): (usize, usize),
) -> Result<Model<AlignedBytes>, OmError> {
    let mut writer = Writer::new();
    let x = info(&[40, 5]);
    let input = writer.tensor("x", &x, Place::Input(0));
    let first = writer.tensor("a", &x, Place::Arena(a));
    let other = writer.tensor("other", &x, Place::Arena(2048));
    let second = writer.tensor("b", &x, Place::Arena(b));
    let y = writer.tensor("y", &x, Place::Output(0));
    writer.input(input);
    writer.output(y);
    writer.task("square", &mul(), &[input, input], &[first], (0, 0));
    writer.task("fourth", &mul(), &[first, first], &[other], (0, 0));
    let operands: Vec<u32> = operands.iter().map(|own| [first, other][*own]).collect();
    writer.task("op", op, &operands, &[second], (0, 0));
    writer.task(
        "sum",
        &crate::ops::add::Add::new(crate::ops::Broadcast::Numpy),
        &[second, other],
        &[y],
        (0, 0),
    );
    Model::load(writer.finish(4096).unwrap())
}

fn noise_of(model: &Model<AlignedBytes>, team: Option<&Team>) -> AlignedBytes {
    let x = bytes(&crate::ops::testing::noise(200, 3));
    let mut y = AlignedBytes::zeroed(800);
    let mut arena = AlignedBytes::zeroed(4096);
    let inputs = [Input { info: info(&[40, 5]), bytes: &x }];
    model.run_with(&inputs, &mut [&mut y], &mut arena, team, |_| {}).unwrap();
    y
}

#[test]
fn a_result_over_its_operand_is_the_one_beside_it() {
    let team = crate::ops::testing::team();
    let sub = crate::ops::pairwise::Pairwise::<crate::ops::arithmetic::Minus>::new(
        crate::ops::Broadcast::Numpy,
    );
    for (op, operands) in
        [(&relu() as &dyn crate::ops::Op, &[0][..]), (&sub, &[0, 1]), (&sub, &[1, 0])]
    {
        let beside = beside_or_over(op, operands, (0, 1024)).unwrap();
        let over = beside_or_over(op, operands, (0, 0)).unwrap();
        let own = operands.iter().position(|own| *own == 0);
        let tasks = [&beside, &over].map(|model| model.program().tasks()[2].over);
        assert_eq!(tasks, [None, own]);
        let expected = noise_of(&beside, None);
        assert_eq!(expected[..], noise_of(&over, None)[..]);
        assert_eq!(expected[..], noise_of(&over, Some(&team))[..]);
    }
}

#[test]
fn a_result_that_overlaps_an_operand_otherwise_is_refused() {
    let refused = |op: &dyn crate::ops::Op, operands: &[usize], places| {
        beside_or_over(op, operands, places).unwrap_err().to_string()
    };
    let mut params = crate::params::ParamWriter::default();
    params.sizes(&[1, 2]);
    let softmax = crate::ops::by_code(15).unwrap().decode_params(&params.into_bytes()).unwrap();
    let sub = crate::ops::pairwise::Pairwise::<crate::ops::arithmetic::Minus>::new(
        crate::ops::Broadcast::Numpy,
    );
    // An op that reads more than one place, half of the operand, and an operand that is read twice.
    let cases: [(&dyn crate::ops::Op, &[usize], _); 3] =
        [(&*softmax, &[0], (0, 0)), (&relu(), &[0], (0, 64)), (&sub, &[0, 0], (0, 0))];
    for (op, operands, places) in cases {
        let error = refused(op, operands, places);
        assert!(error.contains("reads and writes arena+0"), "{op:?}: {error}");
    }
}

#[test]
fn models_side_by_side() {
    let (double, negate) = (model(2.0), model(-1.0));
    let values = [1.0, -2.0, 3.0, -4.0];
    let first = || run(&double, &values);
    assert_eq!(first(), (vec![2.0, 0.0, 6.0, 0.0], vec![4.0, 0.0, 36.0, 0.0]));
    assert_eq!(run(&negate, &values), (vec![0.0, 2.0, 0.0, 4.0], vec![0.0, 4.0, 0.0, 16.0]));
    assert_eq!(first(), first(), "nothing is left of another run");
    std::thread::scope(|scope| {
        let threads = [(); 3].map(|()| scope.spawn(first));
        for thread in threads {
            assert_eq!(thread.join().unwrap(), first());
        }
    });
}

/// One value of a run is wrong: its error.
fn refused(edit: impl FnOnce(&mut Input<'_>, &mut [&mut [u8]; 2], &mut &mut [u8])) -> RunError {
    let x = AlignedBytes::zeroed(128);
    let (mut first, mut second) = (AlignedBytes::zeroed(128), AlignedBytes::zeroed(128));
    let mut arena = AlignedBytes::zeroed(256);
    let mut input = Input { info: info(&[2, 2]), bytes: &x };
    let mut outputs = [&mut first[..], &mut second[..]];
    let mut arena = &mut arena[..];
    edit(&mut input, &mut outputs, &mut arena);
    let error = model(1.0).run(&[input], &mut outputs, arena).unwrap_err();
    assert!(outputs.iter().all(|output| output.iter().all(|byte| *byte == 0)), "nothing written");
    error
}

#[test]
fn what_does_not_fit_is_named() {
    let dtype = refused(|input, _, _| input.info.dtype = DataType::INT32);
    assert_eq!(dtype.to_string(), "input 0 is int32; the model expects float32");
    let shape = refused(|input, _, _| input.info = info(&[4]));
    assert_eq!(shape.to_string(), "input 0 is [4]; the model was compiled for [2, 2]");
    let size = refused(|input, _, _| input.bytes = &input.bytes[..12]);
    assert_eq!(size.to_string(), "input 0 has 12 bytes; expected 16");
    let address = refused(|input, _, _| input.bytes = &input.bytes[4..]);
    assert_eq!(address, RunError::InputAddress { input: 0 });
    let short = refused(|_, outputs, _| outputs[1] = &mut []);
    assert_eq!(short.to_string(), "0 bytes for output 1; expected 16");
    let address = refused(|_, outputs, _| {
        let own = std::mem::take(&mut outputs[0]);
        outputs[0] = &mut own[4..];
    });
    assert_eq!(address, RunError::OutputAddress { output: 0 });
    let arena = refused(|_, _, arena| *arena = &mut []);
    assert_eq!(arena.to_string(), "an arena of 0 bytes; the program needs 128");
    let address = refused(|_, _, arena| *arena = &mut std::mem::take(arena)[4..]);
    assert_eq!(address, RunError::ArenaAddress);
    for error in [dtype, shape, size, short] {
        assert_eq!(error.code(), Code::PARAM_INVALID);
    }
}

#[test]
fn counts_that_differ_are_refused() {
    let model = model(1.0);
    let mut arena = AlignedBytes::zeroed(128);
    let error = model.run(&[], &mut [], &mut arena).unwrap_err();
    assert_eq!(error, RunError::InputCount { expected: 1, found: 0 });
    let x = bytes(&[0.0; 4]);
    let input = [Input { info: info(&[2, 2]), bytes: &x }];
    let error = model.run(&input, &mut [], &mut arena).unwrap_err();
    assert_eq!(error, RunError::OutputCount { expected: 2, found: 0 });
}
