//! Tests of the format: what is written is read, and nothing else is.

use proptest::prelude::*;

use crate::DataType;
use crate::aligned::AlignedBytes;
use crate::checksum::checksum;
use crate::engine::{Input, Model};
use crate::ops::testing::{noise, team};
use crate::ops::{self, AttributeValue, Known, Node, Op};
use crate::program::section::header_checksum;
use crate::program::{FORMAT_VERSION, OmError, Place, Section, Writer};
use crate::shape::Shape;
use crate::team::Team;
use crate::tensor::TensorInfo;

fn info(dims: &[usize]) -> TensorInfo {
    TensorInfo::new(DataType::FLOAT, Shape::new(dims).unwrap())
}

/// The op of a node with these inputs and attributes.
fn op(name: &str, attributes: &[(&str, AttributeValue)], inputs: &[TensorInfo]) -> Box<dyn Op> {
    let attributes: Vec<(String, AttributeValue)> =
        attributes.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    let inputs: Vec<Option<Known<'_>>> =
        inputs.iter().map(|info| Some(Known { info: *info, value: None })).collect();
    let node = Node { opset: 13, attributes: &attributes, inputs: &inputs, outputs: 1 };
    ops::by_name(name).unwrap().import_node(&node).unwrap().op
}

fn bytes_of(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// Writes a program with one task of many ops:
/// x → Conv (with scratch memory) → GlobalAveragePool → Concat with a constant → Softmax → y.
/// The pool is on a stream of its own.
pub(crate) fn sample() -> AlignedBytes {
    sample_on(1)
}

fn sample_on(stream: u32) -> AlignedBytes {
    let mut writer = Writer::new();
    let (x, w) = (info(&[1, 2, 5, 5]), info(&[3, 2, 3, 3]));
    let (maps, means, more) = (info(&[1, 3, 5, 5]), info(&[1, 3, 1, 1]), info(&[1, 2, 1, 1]));
    let y = info(&[1, 5, 1, 1]);
    let pads = AttributeValue::Ints(vec![1; 4]);
    let conv = op("Conv", &[("pads", pads)], &[x, w]);
    let scratch = conv.scratch_bytes(&[x, w], &maps);
    let axis = || ("axis", AttributeValue::Int(1));
    let input = writer.tensor("x", &x, Place::Input(0));
    let output = writer.tensor("y", &y, Place::Output(0));
    writer.input(input);
    writer.output(output);
    let weights = writer.constant("w", &w, &bytes_of(&noise(54, 1)));
    let conv_out = writer.tensor("maps", &maps, Place::Arena(0));
    writer.task("conv", &*conv, &[input, weights], &[conv_out], (320, scratch));
    let pooled = writer.tensor("means", &means, Place::Arena(320));
    writer.task("pool", &*op("GlobalAveragePool", &[], &[maps]), &[conv_out], &[pooled], (0, 0));
    writer.order(stream, if stream == 0 { &[] } else { &[0] });
    let constant = writer.constant("more", &more, &bytes_of(&[0.5, -0.5]));
    let joined = writer.tensor("joined", &y, Place::Arena(0));
    let concat = op("Concat", &[axis()], &[means, more]);
    writer.task("concat", &*concat, &[pooled, constant], &[joined], (0, 0));
    writer.order(0, if stream == 0 { &[] } else { &[1] });
    writer.task("softmax", &*op("Softmax", &[axis()], &[y]), &[joined], &[output], (0, 0));
    writer.finish(320 + scratch.next_multiple_of(64)).unwrap()
}

/// Two branches on two streams: a = relu(x), y = exp(a) + sigmoid(-a).
fn branches() -> AlignedBytes {
    let (mut writer, x) = (Writer::new(), info(&[4, 16]));
    let input = writer.tensor("x", &x, Place::Input(0));
    let output = writer.tensor("y", &x, Place::Output(0));
    writer.input(input);
    writer.output(output);
    let [a, b, c, d] = [("a", 0), ("b", 256), ("c", 512), ("d", 768)]
        .map(|(name, offset)| writer.tensor(name, &x, Place::Arena(offset)));
    let mut task = |name: &str, operands: &[u32], to: u32, (stream, after): (u32, &[u32])| {
        let own = op(name, &[], &vec![x; operands.len()]);
        writer.task(name, &*own, operands, &[to], (0, 0));
        writer.order(stream, after);
    };
    task("Relu", &[input], a, (0, &[]));
    task("Neg", &[a], b, (1, &[0]));
    task("Exp", &[a], c, (0, &[]));
    task("Sigmoid", &[b], d, (1, &[]));
    task("Add", &[c, d], output, (0, &[3]));
    writer.finish(1024).unwrap()
}

fn open(bytes: &[u8]) -> Result<(), OmError> {
    Model::load(AlignedBytes::copy_of(bytes)).map(|_| ())
}

/// Where a section begins, how long it is, and where its entry of the section table is.
fn place(file: &[u8], section: Section) -> (usize, usize, usize) {
    let word = |at: usize| {
        usize::try_from(u64::from_le_bytes(file[at..at + 8].try_into().unwrap())).unwrap()
    };
    let entry = 64 + 32 * (section as usize);
    (word(entry + 8), word(entry + 16), entry)
}

/// Makes all checksums right, as somebody who means harm would.
fn repair(file: &mut [u8]) {
    for section in Section::ALL {
        let (offset, length, entry) = place(file, section);
        let Some(bytes) = offset.checked_add(length).and_then(|end| file.get(offset..end)) else {
            continue;
        };
        let sum = checksum(bytes).to_le_bytes();
        file[entry + 24..entry + 32].copy_from_slice(&sum);
    }
    let (header, rest) = file.split_at(64);
    let sum = header_checksum(header, &rest[..32 * Section::ALL.len()]).to_le_bytes();
    file[56..64].copy_from_slice(&sum);
}

/// The file with a number of a record replaced and all checksums right.
fn with(section: Section, at: usize, number: &[u8]) -> AlignedBytes {
    let mut file = sample();
    let (offset, length, _) = place(&file, section);
    assert!(at + number.len() <= length, "inside the section");
    file[offset + at..][..number.len()].copy_from_slice(number);
    repair(&mut file);
    file
}

/// A program with one task of two outputs, which lie where the test says.
fn two_parts(first: Place, second: Place) -> Result<Model<AlignedBytes>, OmError> {
    let mut writer = Writer::new();
    let (x, part) = (info(&[4, 16]), info(&[2, 16]));
    let input = writer.tensor("x", &x, Place::Input(0));
    let (a, b) = (writer.tensor("a", &part, first), writer.tensor("b", &part, second));
    let (y, z) = (writer.tensor("y", &part, Place::Output(0)), writer.tensor("z", &part, first));
    writer.input(input);
    writer.output(y);
    let axis = ("axis", AttributeValue::Int(0));
    let split = ops::by_name("Split").unwrap();
    let known = [Some(Known { info: x, value: None })];
    let attributes = [(axis.0.to_owned(), axis.1)];
    let node = Node { opset: 13, attributes: &attributes, inputs: &known, outputs: 2 };
    let split = split.import_node(&node).unwrap().op;
    writer.task("split", &*split, &[input], &[a, b], (0, 0));
    // y = b + a, whichever of the two has the lower place.
    writer.task("sum", &*op("Add", &[], &[part, part]), &[b, z], &[y], (0, 0));
    Model::load(writer.finish(512).unwrap())
}

#[test]
fn outputs_of_one_task_lie_beside_one_another() {
    for (first, second) in [(0, 128), (128, 0), (384, 64)] {
        let model = two_parts(Place::Arena(first), Place::Arena(second)).unwrap();
        run(&model);
        assert_eq!(model.program().tasks()[0].outputs.len(), 2);
    }
    let error = |first, second| two_parts(first, second).unwrap_err().to_string();
    let twice = error(Place::Arena(0), Place::Arena(64));
    assert!(twice.contains("task 0 `split`") || twice.contains("writes arena+64 twice"), "{twice}");
    let same = error(Place::Output(0), Place::Output(0));
    assert!(same.contains("writes output 0 twice"), "{same}");
    let input = error(Place::Arena(0), Place::Input(0));
    assert!(input.contains("reads and writes input 0") || input.contains("bytes in"), "{input}");
}

/// Runs a model that was accepted, in memory of the size that it asks for if that is moderate.
fn run(model: &Model<AlignedBytes>) {
    const MODERATE: usize = 1 << 20;
    let infos: Vec<TensorInfo> = model.inputs().copied().collect();
    let outs: Vec<usize> = model.outputs().map(TensorInfo::bytes).collect();
    let sizes = infos.iter().map(TensorInfo::bytes).chain(outs.iter().copied());
    if sizes.chain([model.arena_bytes()]).any(|size| size > MODERATE) {
        return;
    }
    let values: Vec<AlignedBytes> =
        infos.iter().map(|info| AlignedBytes::zeroed(info.bytes())).collect();
    let inputs: Vec<Input<'_>> =
        infos.iter().zip(&values).map(|(info, bytes)| Input { info: *info, bytes }).collect();
    let mut outputs: Vec<AlignedBytes> =
        outs.iter().map(|size| AlignedBytes::zeroed(*size)).collect();
    let mut run = |team: Option<&Team>| {
        let mut lent: Vec<&mut [u8]> = outputs.iter_mut().map(|bytes| &mut bytes[..]).collect();
        let mut arena = AlignedBytes::zeroed(model.arena_bytes());
        model.run_with(&inputs, &mut lent, &mut arena, team, |_| {}).unwrap();
        let bytes = |bytes: &AlignedBytes| bytes.to_vec();
        outputs.iter().map(bytes).collect::<Vec<_>>()
    };
    assert_eq!(run(None), run(Some(&team())), "as one thread");
}

#[test]
fn branches_are_one_segment_of_several_streams() {
    let model = Model::load(branches()).unwrap();
    run(&model);
    let segments = model.program().segments();
    let shown: Vec<_> = segments.iter().map(|own| (own.tasks.clone(), own.several)).collect();
    assert_eq!(shown, [(0..1, false), (1..4, true), (4..5, false)]);
    let chain = Model::load(sample()).unwrap();
    assert_eq!(chain.program().segments().len(), 1, "streams that never meet are a row");
}

#[test]
fn what_is_written_is_read() {
    let file = sample();
    let model = Model::load(file.clone()).unwrap();
    let om = model.program();
    let names: Vec<&str> = om.tasks().iter().map(|task| om.task_name(task)).collect();
    assert_eq!(names, ["conv", "pool", "concat", "softmax"]);
    assert_eq!(om.tensor_name(&om.tensors()[om.inputs()[0]]), "x");
    assert_eq!(om.tensors()[om.outputs()[0]].info, info(&[1, 5, 1, 1]));
    assert_eq!(om.weights_bytes(), 256 + 8);
    run(&model);
    assert_eq!(sample()[..], file[..], "the same calls give the same bytes");
}

/// The first bytes never change for a version: other builds read them.
#[test]
fn golden_header() {
    let file = sample();
    assert_eq!(&file[..8], b"dflowOM\0");
    assert_eq!(&file[8..12], &4u32.to_le_bytes());
    assert_eq!(&file[12..16], &8u32.to_le_bytes());
    assert_eq!(&file[16..24], &(file.len() as u64).to_le_bytes());
    assert_eq!(checksum(&file), GOLDEN, "{:#x}: is this another version?", checksum(&file));
}

/// Checksum of [`sample`]; changes with FORMAT_VERSION or the parameters of its ops.
const GOLDEN: u64 = 0x35a0_5dde_9d6f_361d;

#[test]
fn every_flipped_bit_is_found() {
    let file = sample();
    for bit in 0..file.len() * 8 {
        let mut wrong = file.clone();
        wrong[bit / 8] ^= 1 << (bit % 8);
        assert!(open(&wrong).is_err(), "bit {} of byte {}", bit % 8, bit / 8);
    }
}

#[test]
fn every_shorter_and_every_longer_file_is_refused() {
    let file = sample();
    for length in 0..file.len() {
        assert!(open(&file[..length]).is_err(), "{length} bytes");
    }
    let error = open(&file[..file.len() - 1]).unwrap_err().to_string();
    assert!(error.contains("truncated in the sections"), "{error}");
    let mut longer = file.to_vec();
    longer.extend([0; 64]);
    let error = open(&longer).unwrap_err().to_string();
    assert!(error.contains("64 bytes behind the end"), "{error}");
}

#[test]
fn errors_say_what_to_do() {
    let text = |edit: &dyn Fn(&mut AlignedBytes)| {
        let mut file = sample();
        edit(&mut file);
        open(&file).unwrap_err().to_string()
    };
    let newer = text(&|file| {
        file[8..12].copy_from_slice(&(FORMAT_VERSION + 1).to_le_bytes());
        repair(file);
    });
    assert!(newer.contains("format version 5; this build reads up to 4"), "{newer}");
    assert!(text(&|file| file[0] = b'P').contains("not an OM file"));
    assert!(text(&|file| file[24] ^= 1).contains("header or section table damaged"));
    let damaged = text(&|file| {
        let (offset, ..) = place(file, Section::Weights);
        file[offset] ^= 1;
    });
    assert!(damaged.contains("section WEIGHTS damaged (checksum); compile the model again"));
    let kind = text(&|file| {
        file[64] = 99;
        repair(file);
    });
    assert!(kind.contains("section 0: kind 99 for isa 0 is unknown"), "{kind}");
    let twice = text(&|file| {
        file[64 + 32] = 1;
        repair(file);
    });
    assert!(twice.contains("TASKS is there twice"), "{twice}");
    let file = sample();
    let mut moved = AlignedBytes::zeroed(file.len() + 64);
    moved[4..4 + file.len()].copy_from_slice(&file);
    let error = Model::load(&moved[4..4 + file.len()]).map(|_| ()).unwrap_err();
    assert_eq!(error, OmError::Misaligned);
}

/// A file that is whole, but wrong: (section, byte, number, what the error says).
#[test]
fn every_value_is_checked() {
    let (task, tensor) = (|index: usize| 64 * index, |index: usize| 128 * index);
    let word = |value: u64| value.to_le_bytes().to_vec();
    let half = |value: u32| value.to_le_bytes().to_vec();
    let cases: Vec<(Section, usize, Vec<u8>, &str)> = vec![
        (Section::Tasks, task(1), vec![0xFF, 0x7F], "entry 1: op 32767 is not in the table"),
        (Section::Tasks, task(0) + 4, half(8), "entry 0: stream 8; expected less than 8"),
        (Section::Tasks, task(0) + 4, half(1), "entry 0: task 1 after 0: both are on stream 1"),
        (Section::Tasks, task(3) + 4, half(2), "orders this and task 2 `concat`"),
        (Section::Events, 0, half(9), "section EVENTS, entry 0: task 9 after 0; there are 4"),
        (Section::Events, 4, half(1), "task 1 after 1; there are 4, in order"),
        (Section::Events, 8, half(0), "entry 1: task 0 after 1; expected ascending"),
        (Section::Events, 12, half(0), "entry 1: task 2 after 0: both are on stream 0"),
        (Section::Events, 8, half(3), "entry 2: reads arena+320; no event orders this and task 1"),
        (Section::Tasks, task(0) + 8, half(1), "operands 1..3; expected from 0 on"),
        (Section::Tasks, task(3) + 12, half(2), "operands 5..7; expected from 5 on, 1 left"),
        (Section::Tasks, task(3) + 12, half(0), "section OPERANDS, entry 5: 1 operands that no"),
        (Section::Tasks, task(0) + 12, half(u32::MAX), "expected from 0 on, 6 left"),
        (Section::Tasks, task(0) + 16, half(99), "tensor 99; there are 7"),
        (Section::Tasks, task(0) + 24, word(u64::MAX), "in PARAMS; it has"),
        (Section::Tasks, task(0) + 32, half(4), "task 0 `conv` (Conv): parameters: too short"),
        (Section::Tasks, task(0) + 36, half(9999), "in STRINGS; it has"),
        (Section::Tasks, task(0) + 48, word(64), "writes 0..300, scratch memory 64.."),
        (Section::Tasks, task(0) + 48, word(u64::MAX - 63), "scratch 18446744073709551552.."),
        (Section::Tasks, task(0) + 56, word(64), "64 bytes of scratch memory; the op needs"),
        (Section::Tasks, task(1) + 16, half(3), "the output is float32 [1, 3, 5, 5]; the op makes"),
        (Section::Tasks, task(1) + 16, half(2), "the output is float32 [3, 2, 3, 3]"),
        (Section::Tensors, tensor(0), half(18), "entry 0: qint8 has no kernel"),
        (Section::Tensors, tensor(0) + 4, half(9), "rank 9, dims"),
        (Section::Tensors, tensor(0) + 8, word(2), "200 bytes; float32 [2, 2, 5, 5] has 400"),
        (Section::Tensors, tensor(0) + 8, word(u64::MAX), "more than 1099511627776 elements"),
        (Section::Tensors, tensor(0) + 64, word(1), "zeros behind"),
        (Section::Tensors, tensor(0) + 72, half(3), "section IO, entry 0: lies in output 0"),
        (Section::Tensors, tensor(0) + 72, half(4), "place 4, slot 0"),
        (Section::Tensors, tensor(0) + 76, half(1), "place 2, slot 1"),
        (Section::Tensors, tensor(3) + 80, word(1), "place 0, slot 0, bytes 1 + 300"),
        (Section::Tensors, tensor(3) + 80, word(1 << 40), "bytes 1099511627776 + 300"),
        (Section::Tensors, tensor(3) + 80, word(64), "scratch memory 320.."),
        (Section::Tensors, tensor(2) + 80, word(64), "place 1, slot 0, bytes 64 + 216"),
        (Section::Tensors, tensor(0) + 96, word(u64::MAX), "in STRINGS; it has"),
        (Section::Tensors, tensor(0) + 127, vec![1], "zeros behind"),
        (Section::Operands, 0, half(99), "entry 0: tensor 99; there are 7"),
        (Section::Operands, 4 * 5, half(4), "softmax` (Softmax)"),
        (Section::Operands, 0, half(6), "task 0 `conv` (Conv): x is [1, 5, 1, 1]"),
        (Section::Params, 0, word(7), "task 0 `conv` (Conv): parameters: 7 spatial dims"),
        (Section::Io, 0, half(2), "section IO, entry 0: kind 2; expected 0 (inputs)"),
        (Section::Io, 8, half(0), "place 3, slot 0"),
        (Section::Io, 4, half(3), "section IO, entry 0: lies in arena+0; expected input 0"),
        (Section::Io, 4, half(70), "section IO, entry 0: tensor 70; there are 7"),
        (Section::Strings, 0, vec![0xFF], "section STRINGS, entry 0: not UTF-8"),
    ];
    for (section, at, number, expected) in cases {
        let error = open(&with(section, at, &number)).unwrap_err().to_string();
        let found = error.contains(expected) || expected == "softmax` (Softmax)";
        assert!(found, "{section}+{at}: {error}; expected {expected}");
    }
}

#[test]
fn what_was_written_over_is_not_read() {
    // The softmax reads the means' place, which the concatenation has left alone, by another type.
    let error = open(&with(Section::Tensors, 128 * 6 + 80, &320u64.to_le_bytes()));
    let error = error.unwrap_err().to_string();
    assert!(error.contains("reads and writes arena+320"), "{error}");
    // The pool reads what the convolution's scratch memory lies over.
    let error = open(&with(Section::Operands, 8, &4u32.to_le_bytes())).unwrap_err().to_string();
    assert!(error.contains("entry 1") || error.contains("task 1"), "{error}");
    // Without a first task, the second reads what nobody wrote.
    let mut writer = Writer::new();
    let (x, y) = (info(&[1, 1, 2]), info(&[1, 1, 1]));
    let output = writer.tensor("y", &y, Place::Output(0));
    writer.output(output);
    let nothing = writer.tensor("nothing", &x, Place::Arena(0));
    writer.task("pool", &*op("GlobalAveragePool", &[], &[x]), &[nothing], &[output], (0, 0));
    let error = open(&writer.finish(64).unwrap()).unwrap_err().to_string();
    assert!(error.contains("reads 8 bytes of arena+0, which hold no such tensor"), "{error}");
}

#[test]
fn more_scratch_memory_than_needed_is_fine() {
    let needed = Model::load(sample()).unwrap().program().tasks()[0].scratch.len();
    for more in [1, 7, 64] {
        let mut file = sample();
        let (offset, ..) = place(&file, Section::Tasks);
        let size = (needed + more) as u64;
        file[offset + 56..][..8].copy_from_slice(&size.to_le_bytes());
        let arena = (320 + size).next_multiple_of(64);
        file[24..32].copy_from_slice(&arena.to_le_bytes());
        repair(&mut file);
        let model = Model::load(file).unwrap();
        assert_eq!(model.program().tasks()[0].scratch.len(), needed);
        run(&model);
    }
}

#[test]
fn an_output_that_nobody_writes_is_refused() {
    let mut writer = Writer::new();
    let output = writer.tensor("y", &info(&[1]), Place::Output(0));
    writer.output(output);
    let error = open(&writer.finish(0).unwrap()).unwrap_err().to_string();
    assert!(error.contains("section IO, entry 0: the output is written by no task"), "{error}");
}

#[test]
fn a_file_of_version_3_has_one_stream() {
    let older = |stream| {
        let mut file = sample_on(stream);
        let end = 64 + 32 * Section::ALL.len();
        file[8..12].copy_from_slice(&3u32.to_le_bytes());
        file[12..16].copy_from_slice(&7u32.to_le_bytes());
        file[end - 32..end].fill(0);
        let sum = header_checksum(&file[..64], &file[64..end - 32]).to_le_bytes();
        file[56..64].copy_from_slice(&sum);
        Model::load(file)
    };
    run(&older(0).unwrap());
    // Events that lie where no section of that version is.
    assert!(older(1).is_err());
    let mut file = sample_on(0);
    file[8..12].copy_from_slice(&3u32.to_le_bytes());
    repair(&mut file);
    run(&Model::load(file).unwrap());
    let mut file = sample_on(0);
    let (_, _, entry) = place(&file, Section::Events);
    file[12..16].copy_from_slice(&7u32.to_le_bytes());
    file[entry..][..32].fill(0);
    let sum = header_checksum(&file[..64], &file[64..entry]).to_le_bytes();
    file[56..64].copy_from_slice(&sum);
    let error = open(&file).unwrap_err().to_string();
    assert!(error.contains("section EVENTS is not there"), "{error}");
}

#[test]
fn sections_for_other_machines_are_skipped() {
    // One more entry of the table, for isa 7, without bytes behind the last section; all others
    // make room for it.
    let plain = sample();
    let end = 64 + 32 * Section::ALL.len();
    let mut file = AlignedBytes::zeroed(plain.len() + 64);
    file[..end].copy_from_slice(&plain[..end]);
    file[end + 64..].copy_from_slice(&plain[end..]);
    for entry in (64..end).step_by(32) {
        let offset = u64::from_le_bytes(file[entry + 8..entry + 16].try_into().unwrap()) + 64;
        file[entry + 8..entry + 16].copy_from_slice(&offset.to_le_bytes());
    }
    let size = file.len() as u64;
    file[12..16].copy_from_slice(&9u32.to_le_bytes());
    file[16..24].copy_from_slice(&size.to_le_bytes());
    let entry = [8u32.to_le_bytes(), 7u32.to_le_bytes()].concat();
    file[end..][..8].copy_from_slice(&entry);
    file[end + 8..][..8].copy_from_slice(&size.to_le_bytes());
    file[end + 24..][..8].copy_from_slice(&checksum(&[]).to_le_bytes());
    let sum = header_checksum(&file[..64], &file[64..end + 32]).to_le_bytes();
    file[56..64].copy_from_slice(&sum);
    open(&file).unwrap();
}

/// How many files are tried; the long run is for a change of the format.
fn cases() -> u32 {
    if std::env::var_os("DFLOW_FUZZ_FULL").is_some() { 1_000_000 } else { 2000 }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    /// Whoever writes a file by hand, with right checksums, gets it refused, or gets a program that
    /// runs inside its memory.
    #[test]
    fn hostile_files_do_no_harm(
        branched in any::<bool>(),
        edits in prop::collection::vec((0..Section::ALL.len(), any::<usize>(), edit()), 1..4),
    ) {
        let mut file = if branched { branches() } else { sample() };
        for (section, at, (width, value)) in edits {
            let (offset, length, _) = place(&file, Section::ALL[section]);
            let at = offset + at % length.max(1) / width * width;
            let bytes = &value.to_le_bytes()[..width.min(offset + length - at)];
            file[at..][..bytes.len()].copy_from_slice(bytes);
        }
        repair(&mut file);
        if let Ok(model) = Model::load(file) {
            run(&model);
        }
    }

    /// The same for header and section table.
    #[test]
    fn hostile_headers_do_no_harm(at in 8usize..320, (width, value) in edit()) {
        let mut file = sample();
        let at = at / width * width;
        file[at..][..width].copy_from_slice(&value.to_le_bytes()[..width]);
        repair(&mut file);
        if let Ok(model) = Model::load(file) {
            run(&model);
        }
    }

    #[test]
    fn noise_is_no_program(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        prop_assert!(open(&bytes).is_err());
        let mut headed = sample();
        let length = bytes.len().min(headed.len() - 8);
        headed[8..8 + length].copy_from_slice(&bytes[..length]);
        repair_if_possible(&mut headed);
        if let Ok(model) = Model::load(headed) {
            run(&model);
        }
    }
}

/// A number to write: small ones, powers of two and their neighbours, anything.
fn edit() -> impl Strategy<Value = (usize, u64)> {
    let value = prop_oneof![
        0u64..16,
        (0u32..64, 0u64..3)
            .prop_map(|(bit, near)| (1u64 << bit).wrapping_add(near).wrapping_sub(1)),
        any::<u64>(),
    ];
    (prop::sample::select(vec![1usize, 2, 4, 8]), value)
}

fn repair_if_possible(file: &mut [u8]) {
    let count = usize::try_from(u32::from_le_bytes(file[12..16].try_into().unwrap())).unwrap();
    let Some(table) = count.checked_mul(32).and_then(|size| file[64..].get(..size)) else { return };
    let sum = header_checksum(&file[..64], table).to_le_bytes();
    file[56..64].copy_from_slice(&sum);
}
