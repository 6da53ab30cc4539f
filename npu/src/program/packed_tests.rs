//! Tests of PACKED sections: what is written is read, nothing else is, and runs give the same bits
//! from a section, packed at load, and from pairs.

use proptest::prelude::*;

use super::packed::{FOURS, Layout, with_layouts};
use super::records::{u32_at, u64_at};
use super::section::{Contents, PACKED, header_checksum, size};
use super::{Om, Place, Section, Writer, write};
use crate::DataType;
use crate::aligned::AlignedBytes;
use crate::checksum::checksum;
use crate::engine::{Input, Model};
use crate::ops::Op;
use crate::ops::blocked::{Finish, QuantisedConv, QuantisedDense, Window, pack_kernel, pack_pairs};
use crate::ops::testing::noise;
use crate::shape::Shape;
use crate::tensor::TensorInfo;

fn info(dtype: DataType, dims: &[usize]) -> TensorInfo {
    TensorInfo::new(dtype, Shape::new(dims).unwrap())
}

fn bytes_of(pairs: &[i16]) -> Vec<u8> {
    pairs.iter().flat_map(|own| own.to_le_bytes()).collect()
}

fn weight(at: usize, seed: usize) -> i16 {
    i16::try_from((at * 37 + seed * 11) % 256).unwrap() - 128
}

/// x [1, 3, 4, 5] of bytes → convolution → y, and a [3, 7] → product → b, both of sums. The weights
/// of a third layer have more than eight bits.
fn sample() -> AlignedBytes {
    let mut writer = Writer::new();
    let (x, a) = (info(DataType::UINT8, &[1, 3, 4, 5]), info(DataType::INT8, &[3, 7]));
    let inputs = [writer.tensor("x", &x, Place::Input(0)), writer.tensor("a", &a, Place::Input(1))];
    let (y, b) = (info(DataType::INT32, &[1, 1, 4, 5, 16]), info(DataType::INT32, &[3, 20]));
    let outputs = [("y", y), ("b", b), ("c", b)].into_iter().enumerate();
    let outputs: Vec<u32> = outputs
        .map(|(slot, (name, info))| writer.tensor(name, &info, Place::Output(slot)))
        .collect();
    inputs.iter().for_each(|input| writer.input(*input));
    outputs.iter().for_each(|output| writer.output(*output));
    let window =
        Window { strides: [1; 2], dilations: [1; 2], pads_begin: [1; 2], pads_end: [1; 2] };
    let conv = QuantisedConv { window, kernel: [3; 2], zero: 200, finish: Finish::SUM };
    let values: Vec<i16> = (0..16 * 27).map(|at| weight(at, 1)).collect();
    let (dims, kernel) = pack_kernel([16, 3, 3, 3], &values);
    let dense = QuantisedDense { columns: 20, zero: -3, finish: Finish::SUM };
    let layers: [(&dyn Op, Vec<usize>, Vec<i16>); 3] = {
        let of = |seed, more| {
            let (dims, own) = pack_pairs([7, 20], |k, column| weight(k * 20 + column, seed) + more);
            (dims.to_vec(), own)
        };
        let ([first, second], conv_dims) = ([of(2, 0), of(3, 100)], dims.to_vec());
        [(&conv, conv_dims, kernel), (&dense, first.0, first.1), (&dense, second.0, second.1)]
    };
    for (task, (op, dims, pairs)) in layers.into_iter().enumerate() {
        let weights = info(DataType::INT16, &dims);
        let list = [dims[0], 16];
        let weights = writer.constant("w", &weights, &bytes_of(&pairs));
        let zeros = vec![0; 64 * dims[0]];
        let bias = writer.constant("bias", &info(DataType::INT32, &list), &zeros);
        let factors = writer.constant("factors", &info(DataType::FLOAT, &list), &zeros);
        let input = inputs[task.min(1)];
        let x = if task == 0 { x } else { a };
        let infos = [x, info(DataType::INT16, &dims)];
        let scratch = op.scratch_bytes(&infos, &y);
        writer.task("layer", op, &[input, weights, bias, factors], &[outputs[task]], (0, scratch));
    }
    writer.finish(1024).unwrap()
}

fn packed() -> AlignedBytes {
    let om = Om::open(sample()).unwrap();
    with_layouts(&om, &[Layout::Pairs, Layout::Fours]).unwrap()
}

fn run(model: &Model<AlignedBytes>) -> Vec<AlignedBytes> {
    let bytes = |count, seed| {
        let values: Vec<u8> =
            noise(count, seed).iter().map(|x| x.to_bits().to_le_bytes()[1]).collect();
        AlignedBytes::copy_of(&values)
    };
    let infos: Vec<TensorInfo> = model.inputs().copied().collect();
    let values = [bytes(60, 1), bytes(21, 2)];
    let inputs: Vec<Input<'_>> =
        infos.iter().zip(&values).map(|(info, bytes)| Input { info: *info, bytes }).collect();
    let mut outputs: Vec<AlignedBytes> =
        model.outputs().map(|info| AlignedBytes::zeroed(info.bytes())).collect();
    let mut memory: Vec<&mut [u8]> = outputs.iter_mut().map(|bytes| &mut bytes[..]).collect();
    let mut arena = AlignedBytes::zeroed(model.arena_bytes());
    arena.fill(0xEE);
    model.run(&inputs, &mut memory, &mut arena).unwrap();
    outputs
}

/// Where the section lies: its entry of the table, begin and size.
fn place(file: &[u8]) -> (usize, usize, usize) {
    let entry = 64 + 32 * Section::ALL.len();
    assert_eq!(u32_at(&file[entry..], 0), PACKED);
    (entry, size(u64_at(&file[entry..], 8)), size(u64_at(&file[entry..], 16)))
}

/// The file with other bytes in the section, and all checksums right.
fn with(at: usize, bytes: &[u8]) -> AlignedBytes {
    let mut file = packed();
    let (entry, offset, length) = place(&file);
    file[offset + at..][..bytes.len()].copy_from_slice(bytes);
    let sum = checksum(&file[offset..offset + length]).to_le_bytes();
    file[entry + 24..][..8].copy_from_slice(&sum);
    let sum = header_checksum(&file[..64], &file[64..entry + 32]).to_le_bytes();
    file[56..64].copy_from_slice(&sum);
    file
}

#[test]
fn pairs_a_section_and_packing_at_load_give_the_same_bits() {
    let (plain, file) = (sample(), packed());
    let pairs = Model::load_as(plain.clone(), Layout::Pairs).unwrap();
    let expected = run(&pairs);
    assert!(expected.iter().all(|output| output.iter().any(|byte| *byte != 0)));
    let at_load = Model::load_as(plain.clone(), Layout::Fours).unwrap();
    let section = Model::load_as(file.clone(), Layout::Fours).unwrap();
    let skipped = Model::load_as(file.clone(), Layout::Pairs).unwrap();
    for (model, own, reads) in
        [(&pairs, false, 0), (&at_load, true, 2), (&section, false, 2), (&skipped, false, 0)]
    {
        let om = model.program();
        assert_eq!((0..3).filter(|task| om.fours()(*task).is_some()).count(), reads);
        // 27 numbers of a sum in 9 fours, with the sums; 7 in 2, for two blocks.
        let packed = if own { 64 * (9 + 1) + 2 * 64 * (2 + 1) } else { 0 };
        assert_eq!(om.packed_bytes(), packed);
        let found = run(model);
        for (found, expected) in found.iter().zip(&expected) {
            assert_eq!(found[..], expected[..]);
        }
    }
    assert_eq!(section.program().fours()(0), at_load.program().fours()(0));
    assert_eq!([0, 1, 2].map(|task| section.program().fours_bytes(task)), [640, 384, 0]);
    assert_eq!(Model::load(file).unwrap().program().packed_bytes(), 0);
}

#[test]
fn a_run_reads_the_section() {
    let (expected, at) = (run(&Model::load_as(packed(), Layout::Fours).unwrap()), 64);
    let changed = Model::load_as(with(at, &[0x55; 64]), Layout::Fours).unwrap();
    assert_ne!(run(&changed)[0][..], expected[0][..]);
    let skipped = Model::load_as(with(at, &[0x55; 64]), Layout::Pairs).unwrap();
    assert_eq!(run(&skipped)[0][..], expected[0][..]);
}

#[test]
fn sections_come_and_go_and_are_the_same_every_time() {
    let (plain, file) = (sample(), packed());
    assert_eq!(packed()[..], file[..]);
    let om = Om::open(file.clone()).unwrap();
    let sections = om.sections();
    assert_eq!(sections.len(), Section::ALL.len() + 1);
    let last = sections.last().unwrap();
    assert_eq!((last.name.as_str(), last.isa.as_str()), ("PACKED", "vnni"));
    assert_eq!(last.bytes, 64 + 640 + 384);
    assert_eq!(with_layouts(&om, &[Layout::Fours]).unwrap()[..], file[..]);
    assert_eq!(with_layouts(&om, &[]).unwrap()[..], plain[..]);
    let nothing = crate::program::tests::sample();
    let om = Om::open(nothing.clone()).unwrap();
    assert_eq!(with_layouts(&om, &[Layout::Fours]).unwrap()[..], nothing[..], "no such weights");
}

#[test]
fn every_flipped_bit_is_found() {
    let file = packed();
    let (entry, offset, length) = place(&file);
    for bit in (8 * entry..8 * (entry + 32)).chain(8 * offset..8 * (offset + length)) {
        let mut wrong = file.clone();
        wrong[bit / 8] ^= 1 << (bit % 8);
        assert!(Om::open(wrong).is_err(), "bit {} of byte {}", bit % 8, bit / 8);
    }
    let mut wrong = file;
    wrong[offset] ^= 1;
    let error = Om::open(wrong).unwrap_err().to_string();
    assert!(error.contains("section PACKED for isa vnni: damaged (checksum)"), "{error}");
}

#[test]
fn every_value_is_checked() {
    let word = |value: u64| value.to_le_bytes().to_vec();
    let half = |value: u32| value.to_le_bytes().to_vec();
    let cases: [(usize, Vec<u8>, &str); 14] = [
        (0, half(3), "entry 0: bytes 64 + 640 of 1088; task 0 expects 128 + 640"),
        (0, half(1), "1088 bytes; its entries end at 704"),
        (0, half(u32::MAX), "1088 bytes are no index of 4294967295 entries"),
        (4, half(1), "are no index of"),
        (8, half(1), "bytes 64 + 640 of 1088; task 1 expects 64 + 384"),
        (8, half(3), "entry 0: task 3; expected 0 to 3"),
        (8, half(u32::MAX), "entry 0: task 4294967295; expected 0 to 3"),
        (12, half(1), "entry 0: task 0; expected 0 to 3, zero behind"),
        (16, word(128), "entry 0: bytes 128 + 640 of 1088; task 0 expects 64 + 640"),
        (24, word(639), "entry 0: bytes 64 + 639 of 1088; task 0 expects 64 + 640"),
        (32, half(0), "entry 1: task 0; expected 1 to 3"),
        (40, word(u64::MAX), "task 1 expects 704 + 384"),
        (48, word(u64::MAX), "task 1 expects 704 + 384"),
        (0, half(0), "1088 bytes; its entries end at 8"),
    ];
    for (at, bytes, expected) in cases {
        let found = Om::open(with(at, &bytes)).map(|_| ());
        let error = found.expect_err(expected).to_string();
        let whole = error.starts_with("program: section PACKED for isa vnni");
        assert!(whole && error.contains(expected), "{at}: {error}; expected {expected}");
    }
}

#[test]
fn a_task_without_such_weights_is_no_entry_and_no_section_is_there_twice() {
    let plain = crate::program::tests::sample();
    let om = Om::open(plain.clone()).unwrap();
    let file = |packed: &[&[u8]]| {
        let plain = Section::ALL.into_iter().map(|section| Contents {
            kind: section.kind(),
            isa: 0,
            bytes: om.section(section),
        });
        let packed = packed.iter().map(|bytes| Contents { kind: PACKED, isa: FOURS, bytes });
        write::file(&plain.chain(packed).collect::<Vec<_>>(), om.arena_bytes()).unwrap()
    };
    let mut entry = [1u32, 0, 0, 0].map(u32::to_le_bytes).concat();
    entry.extend([64u64, 0].map(u64::to_le_bytes).concat());
    let error = Om::open(file(&[&entry])).unwrap_err().to_string();
    assert!(error.contains("entry 0: task 0 (Conv) has no weights of this layout"), "{error}");
    let nothing = [0; 8];
    assert!(Om::open(file(&[&nothing])).is_ok());
    let error = Om::open(file(&[&nothing, &nothing])).unwrap_err().to_string();
    assert!(error.contains("PACKED for isa vnni is there twice"), "{error}");
}

#[test]
fn weights_that_are_named_often_are_packed_as_often_as_there_is_room() {
    let mut writer = Writer::new();
    let (x, y) = (info(DataType::UINT8, &[1, 64]), info(DataType::INT32, &[1, 16]));
    let input = writer.tensor("x", &x, Place::Input(0));
    let (dims, pairs) = pack_pairs([64, 16], |k, _| i16::try_from(k).unwrap());
    let weights = writer.constant("w", &info(DataType::INT16, &dims), &bytes_of(&pairs));
    let bias = writer.constant("bias", &info(DataType::INT32, &[1, 16]), &[0; 64]);
    let factors = writer.constant("factors", &info(DataType::FLOAT, &[1, 16]), &[0; 64]);
    let output = writer.tensor("y", &y, Place::Output(0));
    writer.input(input);
    writer.output(output);
    let dense = QuantisedDense { columns: 16, zero: 0, finish: Finish::SUM };
    for _ in 0..50 {
        let operands = [input, weights, bias, factors];
        writer.task("layer", &dense, &operands, &[output], (0, 128));
    }
    let model = Model::load_as(writer.finish(128).unwrap(), Layout::Fours).unwrap();
    let om = model.program();
    let weights = om.weights_bytes();
    assert!((weights..=2 * weights).contains(&om.packed_bytes()), "{}", om.packed_bytes());
    assert!(om.fours()(0).is_some() && om.fours()(49).is_none());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// Whoever writes a section by hand, with right checksums, gets it refused, or gets a program
    /// that runs inside its memory.
    #[test]
    fn hostile_sections_do_no_harm(
        edits in prop::collection::vec((0usize..80, prop_oneof![0u8..3, any::<u8>()]), 1..5),
        layout in prop_oneof![Just(Layout::Pairs), Just(Layout::Fours)],
    ) {
        let (mut file, whole) = (packed(), packed());
        let (_, offset, _) = place(&file);
        edits.iter().for_each(|(at, byte)| file[offset + at] = *byte);
        let changed = file[offset..offset + 80].to_vec();
        if let Ok(model) = Model::load_as(with(0, &changed), layout) {
            run(&model);
            // The second entry may name the third task, whose weights are of the same shape.
            let but_its_task = |own: &[u8]| [&own[..32], &own[36..56]].concat();
            prop_assert_eq!(but_its_task(&changed), but_its_task(&whole[offset..]));
        }
    }
}
