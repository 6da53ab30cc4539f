//! Tests of the blocked ops: against the plain ones on every ISA, and what is refused. Maps behind
//! the last one are NaN in what is read, so that a result shows who reads them.

use proptest::prelude::*;

use super::*;
use crate::aligned::AlignedBytes;
use crate::isa::{self, Isa};
use crate::ops::concat::Concat;
use crate::ops::conv::Conv;
use crate::ops::global_average_pool::GlobalAveragePool;
use crate::ops::space::Space;
use crate::ops::testing::{Value, assert_close, float, noise, team};
use crate::ops::{Activation, infer};
use crate::params::ParamWriter;
use crate::tensor::{Inputs, Output, TensorList};

/// The result of an op that went through its bytes.
pub(super) fn run(op: &dyn Op, inputs: &[&Value]) -> Value {
    let mut writer = ParamWriter::default();
    op.encode(&mut writer);
    let bytes = writer.into_bytes();
    let read = crate::ops::by_code(op.code()).unwrap().decode_params(&bytes).unwrap();
    assert_eq!(format!("{read:?}"), format!("{op:?}"), "bytes keep the parameters");
    let infos: Vec<TensorInfo> = inputs.iter().map(|value| value.info).collect();
    let info = infer(&*read, &infos).unwrap()[0];
    let mut bytes = AlignedBytes::zeroed(info.bytes());
    bytes.fill(0xFF);
    let mut scratch = AlignedBytes::zeroed(read.scratch_bytes(&infos, &info));
    let list: Vec<(TensorInfo, &[u8])> =
        inputs.iter().map(|value| (value.info, &value.bytes[..])).collect();
    let (bytes_of, scratch) = (&mut bytes[..], &mut scratch[..]);
    let mut output = Output { info: &info, bytes: bytes_of, scratch, more: &mut [], team: None };
    read.run(&TensorList(&list), &mut output).unwrap();
    let mut again = AlignedBytes::zeroed(info.bytes());
    again.fill(0xFF);
    let (bytes_of, team) = (&mut again[..], team());
    let team = Some(&*team);
    let mut output = Output { info: &info, bytes: bytes_of, scratch, more: &mut [], team };
    read.run(&TensorList(&list), &mut output).unwrap();
    assert!(bytes[..] == again[..], "a team makes other bits: {op:?} of {infos:?}");
    if let Some(packed) = fours(&*read, inputs) {
        again.fill(0xFF);
        scratch.fill(0xFF);
        let bytes_of = &mut again[..];
        let mut output = Output { info: &info, bytes: bytes_of, scratch, more: &mut [], team };
        read.run(&WithFours(TensorList(&list), &packed), &mut output).unwrap();
        assert!(bytes[..] == again[..], "fours make other bits: {op:?} of {infos:?}");
    }
    Value { info, bytes }
}

/// The weights of an op as fours, if it has any and they fit.
pub(super) fn fours(op: &dyn Op, inputs: &[&Value]) -> Option<AlignedBytes> {
    let infos: Vec<TensorInfo> = inputs.iter().map(|value| value.info).collect();
    let fours = op.fours(&infos).filter(|fours| fours.fits(&inputs[1].bytes))?;
    let mut packed = AlignedBytes::zeroed(fours.bytes());
    fours.pack(&inputs[1].bytes, &mut packed);
    Some(packed)
}

/// Operands with the weights as fours; the pairs are not looked at.
struct WithFours<'a>(TensorList<'a>, &'a [u8]);

impl Inputs for WithFours<'_> {
    fn count(&self) -> usize {
        self.0.count()
    }

    fn info(&self, index: usize) -> &TensorInfo {
        self.0.info(index)
    }

    fn bytes(&self, index: usize) -> &[u8] {
        assert!(index != 1, "pairs are read where there are fours");
        self.0.bytes(index)
    }

    fn fours(&self) -> Option<&[u8]> {
        Some(self.1)
    }
}

/// In blocks, with NaN behind the last map.
pub(super) fn in_blocks(value: &Value) -> Value {
    let maps = value.info.shape.dims()[1];
    let own = run(&ToBlocked, &[value]);
    let dims = own.info.shape.dims();
    let plane = dims[2] * dims[3];
    let mut values = own.elements::<f32>().to_vec();
    for (index, value) in values.iter_mut().enumerate() {
        let block = index / BLOCK / plane % dims[1];
        if block * BLOCK + index % BLOCK >= maps {
            assert_eq!(value.to_bits(), 0, "zeros behind the last map");
            *value = f32::NAN;
        }
    }
    float(dims, &values)
}

pub(super) fn plain(value: &Value, maps: usize) -> Value {
    run(&FromBlocked { maps }, &[value])
}

/// A convolution to be compared with the plain one.
#[derive(Clone, Debug)]
struct Sample {
    x: [usize; 4],
    w: [usize; 4],
    window: Window,
    depthwise: bool,
    activation: Activation,
}

const PLACED: Window =
    Window { strides: [1; 2], dilations: [1; 2], pads_begin: [0; 2], pads_end: [0; 2] };

impl Sample {
    fn new(x: [usize; 4], w: [usize; 4], window: Window) -> Self {
        Self { x, w, window, depthwise: w[1] == 1 && x[1] > 1, activation: Activation::None }
    }

    fn conv(&self) -> Conv {
        let three = |list: [usize; 2], front| [front, list[0], list[1]];
        Conv {
            rank: 2,
            strides: three(self.window.strides, 1),
            dilations: three(self.window.dilations, 1),
            pads_begin: three(self.window.pads_begin, 0),
            pads_end: three(self.window.pads_end, 0),
            group: if self.depthwise { self.x[1] } else { 1 },
            activation: self.activation,
        }
    }

    /// Both sides round each of their sums' steps, in another order: half a unit a step of each.
    fn tolerance(&self) -> f32 {
        let steps: usize = self.w[1..].iter().product();
        (steps as f32 * f32::EPSILON).max(1e-5)
    }

    /// What is added comes before the activation.
    fn check_sum(&self, op: &BlockedConv, inputs: &[&Value; 3]) {
        let alone = run(&BlockedConv { activation: Activation::None, ..*op }, inputs);
        let maps = self.w[0];
        let dims = plain(&alone, maps).info.shape;
        let added = noise(dims.elements(), 6);
        let added = float(dims.dims(), &added);
        let added = in_blocks(&added);
        let sums = alone.elements::<f32>().iter().zip(added.elements::<f32>());
        let expected: Vec<f32> = sums.map(|(a, b)| self.activation.of(a + b)).collect();
        let expected = plain(&float(alone.info.shape.dims(), &expected), maps);
        let found = run(op, &[inputs[0], inputs[1], inputs[2], &added]);
        assert_close(&plain(&found, maps), &expected, 1e-5);
    }

    /// Whether the kernel fits; compared on every ISA if so.
    fn check(&self) -> bool {
        let x = float(&self.x, &noise(self.x.iter().product(), 1));
        let weights = noise(self.w.iter().product(), 2);
        let (w, bias) = (float(&self.w, &weights), noise(self.w[0], 3));
        if infer(&self.conv(), &[x.info, w.info]).is_err() {
            return false;
        }
        let bias_plain = float(&[self.w[0]], &bias);
        let expected = isa::at_most(Isa::Portable, || run(&self.conv(), &[&x, &w, &bias_plain]));
        let bias = float(&[blocks(self.w[0]), BLOCK], &pack_maps(&bias));
        let (window, activation) = (self.window, self.activation);
        for isa in Isa::ALL {
            isa::at_most(isa, || {
                if self.depthwise {
                    let (dims, packed) = pack_depthwise(self.w, &weights);
                    let w = float(&dims, &packed);
                    let op = BlockedDepthwise { window, activation };
                    let found = run(&op, &[&in_blocks(&x), &w, &bias]);
                    assert_close(&plain(&found, self.w[0]), &expected, self.tolerance());
                    return;
                }
                let (dims, packed) = pack_weights(self.w, &weights);
                let (w, op) = (float(&dims, &packed), BlockedConv { window, activation });
                for x in [&x, &in_blocks(&x)] {
                    let found = run(&op, &[x, &w, &bias]);
                    assert_close(&plain(&found, self.w[0]), &expected, self.tolerance());
                }
                self.check_sum(&op, &[&in_blocks(&x), &w, &bias]);
            });
        }
        true
    }
}

#[test]
fn pointwise_with_every_number_of_pixels() {
    for width in 1..32 {
        assert!(Sample::new([1, 5, 1, width], [19, 5, 1, 1], PLACED).check());
    }
    assert!(Sample::new([2, 17, 3, 5], [33, 17, 1, 1], PLACED).check());
}

#[test]
fn one_pixel_with_every_number_of_blocks() {
    for blocks in 1..15 {
        assert!(Sample::new([2, 40, 1, 1], [blocks * BLOCK - 3, 40, 1, 1], PLACED).check());
    }
}

#[test]
fn every_width_of_a_row() {
    let padded = Window { pads_begin: [1; 2], pads_end: [1; 2], ..PLACED };
    for width in 1..32 {
        for window in [padded, Window { strides: [2; 2], ..padded }] {
            assert!(Sample::new([1, 3, 4, width], [20, 3, 3, 3], window).check());
            assert!(Sample::new([1, 20, 4, width], [20, 1, 3, 3], window).check());
        }
    }
}

#[test]
fn dense_layers_of_every_size() {
    let depths = [1, 2, 17, 40];
    for (rows, columns) in (1..20).flat_map(|rows| [1, 15, 16, 17, 90].map(|own| (rows, own))) {
        let depth = depths[rows % 4];
        let (x, matrix) = (noise(rows * depth, 1), noise(depth * columns, 2));
        let bias = noise(columns, 3);
        let (dims, packed) = pack_columns([depth, columns], &matrix);
        let expected = (0..rows * columns).map(|at| {
            let (row, column) = (at / columns, at % columns);
            let product = |k| x[row * depth + k] * matrix[k * columns + column];
            ((0..depth).map(product).sum::<f32>() + bias[column]).max(0.0)
        });
        let expected = float(&[1, rows, columns], &expected.collect::<Vec<f32>>());
        let (x, w) = (float(&[1, rows, depth], &x), float(&dims, &packed));
        let bias = float(&[blocks(columns), BLOCK], &pack_maps(&bias));
        let dense = Dense { columns, activation: Activation::Relu };
        for isa in Isa::ALL {
            let found = isa::at_most(isa, || run(&dense, &[&x, &w, &bias]));
            assert_close(&found, &expected, 1e-5);
        }
    }
}

#[test]
fn maps_behind_one_another() {
    let parts = [8, 24, 16, 40].map(|maps| float(&[2, maps, 2, 3], &noise(12 * maps, maps as u64)));
    let expected = run(&Concat { axis: 1 }, &parts.each_ref());
    let parts = parts.map(|part| in_blocks(&part));
    let found = run(&BlockedConcat { maps: vec![8, 24, 16, 40] }, &parts.each_ref());
    assert_eq!(plain(&found, 88), expected);
}

#[test]
fn pools_of_windows() {
    let pad = Window { pads_begin: [1; 2], pads_end: [1; 2], strides: [2, 1], ..PLACED };
    let x = noise(2 * 17 * 20, 8);
    let value = float(&[2, 17, 4, 5], &x);
    for (window, greatest) in [(pad, true), (PLACED, true), (PLACED, false)] {
        let pool = BlockedPool { window, kernel: [3, 2], greatest };
        let [rows, columns] = window.places([4, 5], [3, 2]).unwrap();
        let expected = (0..34 * rows * columns).map(|at| {
            let (map, row, column) = (at / columns / rows, at / columns % rows, at % columns);
            let taps = (0..6).filter_map(|tap| {
                let (y, x_at) = (window.meets(0, row, tap / 2), window.meets(1, column, tap % 2));
                (y < 4 && x_at < 5).then(|| x[(map * 4 + y) * 5 + x_at])
            });
            if greatest { taps.fold(f32::MIN, f32::max) } else { taps.sum::<f32>() / 6.0 }
        });
        let expected = float(&[2, 17, rows, columns], &expected.collect::<Vec<f32>>());
        for isa in Isa::ALL {
            let found = isa::at_most(isa, || run(&pool, &[&in_blocks(&value)]));
            assert_close(&plain(&found, 17), &expected, 1e-6);
        }
    }
}

#[test]
fn pixels_are_repeated() {
    let x = float(&[2, 17, 2, 3], &noise(204, 8));
    let found = plain(&run(&BlockedRepeat { times: [2, 3] }, &[&in_blocks(&x)]), 17);
    assert_eq!(found.info.shape.dims(), [2, 17, 4, 9]);
    for (at, own) in found.elements::<f32>().iter().enumerate() {
        let (plane, row, column) = (at / 36, at / 9 % 4, at % 9);
        assert_eq!(*own, x.elements::<f32>()[plane * 6 + row / 2 * 3 + column / 3]);
    }
}

#[test]
fn depth_goes_to_space() {
    for (size, maps) in [(1, 16), (2, 8), (2, 24), (3, 16)] {
        let depth = size * size * maps;
        let x = float(&[2, depth, 3, 2], &noise(12 * depth, 7));
        let expected = run(&Space::spread(size), &[&x]);
        let found = run(&BlockedSpread { size, maps }, &[&in_blocks(&x)]);
        assert_eq!(plain(&found, maps), expected);
    }
}

#[test]
fn means_of_maps() {
    for (maps, width) in [(1, 1), (16, 7), (33, 5)] {
        let x = float(&[2, maps, 3, width], &noise(6 * maps * width, 4));
        let expected = run(&GlobalAveragePool, &[&x]);
        for isa in Isa::ALL {
            let found = isa::at_most(isa, || run(&BlockedMean, &[&in_blocks(&x)]));
            assert_close(&plain(&found, maps), &expected, 1e-5);
        }
    }
}

#[test]
fn there_and_back() {
    for maps in [1, 15, 16, 17, 40] {
        let x = float(&[2, maps, 2, 3], &noise(12 * maps, 5));
        assert_eq!(plain(&in_blocks(&x), maps), x);
    }
}

#[test]
fn numbers_are_unique_and_no_model_names_them() {
    for line in LINES {
        let codes = LINES.iter().map(|other| other.code);
        let all = codes.chain(crate::ops::TABLE.iter().map(|entry| entry.code));
        assert_eq!(all.filter(|code| *code == line.code).count(), 1);
        assert!(crate::ops::by_name(line.name).is_none());
    }
}

#[test]
fn what_is_refused() {
    let info = |dims: &[usize]| TensorInfo::new(DataType::FLOAT, Shape::new(dims).unwrap());
    let refused = |op: &dyn Op, dims: &[&[usize]]| {
        let infos: Vec<TensorInfo> = dims.iter().map(|dims| info(dims)).collect();
        infer(op, &infos).unwrap_err().to_string()
    };
    let conv = BlockedConv { window: PLACED, activation: Activation::None };
    let (x, w, bias) = (&[1, 2, 5, 5, 16][..], &[3, 1, 1, 20, 16][..], &[3, 16][..]);
    assert!(refused(&conv, &[x, &[3, 1, 1, 40, 16], bias]).contains("expected [M / 16, KH"));
    assert!(refused(&conv, &[x, w, &[2, 16]]).contains("expected [3, 16]"));
    assert!(refused(&conv, &[&[1, 2, 5, 5, 8], w, bias]).contains("no maps in blocks"));
    assert!(refused(&conv, &[x, &[3, 6, 1, 20, 16], bias]).contains("does not fit"));
    assert!(refused(&conv, &[&[1, 20, 0, 5], w, bias]).contains("expected [M / 16, KH"));
    let depthwise = BlockedDepthwise { window: PLACED, activation: Activation::None };
    assert!(refused(&depthwise, &[x, &[1, 3, 3, 16], bias]).contains("expected [2, KH, KW, 16]"));
    assert!(refused(&FromBlocked { maps: 16 }, &[x]).contains("16 maps in 2 blocks"));
    assert!(refused(&ToBlocked, &[&[1, 0, 2, 2]]).contains("no maps"));
    assert!(refused(&BlockedMean, &[&[1, 1, 2, 16]]).contains("no maps in blocks"));
    let added: &[&[usize]] = &[x, w, bias, &[1, 3, 5, 4, 16]];
    assert!(refused(&conv, added).contains("[1, 3, 5, 4, 16] is added to [1, 3, 5, 5, 16]"));
    let dense = Dense { columns: 20, activation: Activation::None };
    assert!(refused(&dense, &[&[4, 3], &[2, 4, 16], &[2, 16]]).contains("expected […, K]"));
    assert!(refused(&dense, &[&[4, 3], &[2, 3, 16], &[1, 16]]).contains("expected […, K]"));
    let concat = BlockedConcat { maps: vec![8, 20] };
    assert!(refused(&concat, &[&[1, 1, 2, 2, 16], &[1, 2, 2, 2, 16]]).contains("maps [8, 20]"));
    let pool = BlockedPool { window: PLACED, kernel: [6, 1], greatest: true };
    assert!(refused(&pool, &[x]).contains("does not fit"));
    let outside = Window { pads_begin: [0, 2], ..PLACED };
    let pool = BlockedPool { window: outside, kernel: [2; 2], greatest: true };
    assert!(refused(&pool, &[x]).contains("would stand outside"));
    let mean = BlockedPool { window: outside, kernel: [3; 2], greatest: false };
    assert!(refused(&mean, &[x]).contains("would stand outside"));
    assert!(refused(&BlockedRepeat { times: [0, 1] }, &[x]).contains("no times"));
    let spread = BlockedSpread { size: 2, maps: 12 };
    assert!(refused(&spread, &[&[1, 3, 2, 2, 16]]).contains("can't be spread over 2 to 12 maps"));
    let still = Window { strides: [1, 0], ..PLACED };
    let mut writer = ParamWriter::default();
    BlockedConv { window: still, ..conv }.encode(&mut writer);
    assert!((&conv as &dyn Op).line().decode_params(&writer.into_bytes()).is_err());
}

fn window() -> impl Strategy<Value = Window> {
    let two = |range: std::ops::Range<usize>| [range.clone(), range];
    (two(1..4), two(1..3), two(0..4), two(0..4)).prop_map(|own| {
        let (strides, dilations, pads_begin, pads_end) = own;
        Window { strides, dilations, pads_begin, pads_end }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn as_the_plain_convolution_has_it(
        x in [1usize..3, 1..40, 1..12, 1..40],
        maps in 1usize..50,
        kernel in [1usize..5, 1..6],
        window in window(),
        depthwise in any::<bool>(),
        swish in any::<bool>(),
    ) {
        let [height, width] = kernel;
        let w = if depthwise { [x[1], 1, height, width] } else { [maps, x[1], height, width] };
        let activation = if swish { Activation::HardSwish } else { Activation::Relu };
        Sample { activation, ..Sample::new(x, w, window) }.check();
    }

    /// A program brings parameters and shapes from a file.
    #[test]
    fn no_op_leaves_its_memory(
        // Those of bytes: quantised_tests.rs; chains: chain.rs.
        op in 0usize..LINES.len() - 6,
        numbers in prop::collection::vec(prop_oneof![9 => 0u64..4, 1 => any::<u64>()], 10),
        x in [0usize..3, 0..4, 0..9, 0..9],
        w in [0usize..4, 0..4, 0..4, 0..40],
    ) {
        let entry = &LINES[op];
        let words = [8, 8, 0, 1, 0, 1, 3, 2, 2, 10, 0, 8][op];
        let mut numbers = numbers;
        if matches!(entry.code, 1007 | 1008) {
            // Two operands, or a size, and halves of blocks.
            numbers[1..].iter_mut().for_each(|own| *own = own.wrapping_mul(8));
        }
        let mut bytes: Vec<u8> = numbers[..words].iter().flat_map(|n| n.to_le_bytes()).collect();
        let more = match entry.code {
            1001 | 1002 | 1006 | 1016 => 12,
            1010 => 4,
            1020 => 24,
            _ => 0,
        };
        bytes.resize(bytes.len() + more, 0);
        if entry.code == 1020 {
            let flags = bytes[4..].chunks_exact_mut(4).zip(&numbers);
            flags.for_each(|(flag, number)| flag[0] = u8::from(*number == 1));
        }
        let Ok(op) = entry.decode_params(&bytes) else { return Ok(()) };
        let [n, c, height, width] = x;
        let [m, kh, kw, k] = w;
        let shapes: [&[usize]; 8] = [
            &[n, c, height, width, BLOCK],
            &[n, k, height, width],
            &[m, kh, kw, k, BLOCK],
            &[c, kh, kw, BLOCK],
            &[m, BLOCK],
            &[n, c, k],
            &[m, k, BLOCK],
            &[m, 16, k, BLOCK],
        ];
        let pick = match entry.code {
            1001 if kh % 2 == 0 && kw % 2 == 0 => vec![0, 2, 4, 0],
            1001 if kh % 2 == 0 => vec![0, 2, 4],
            1001 => vec![1, 2, 4],
            1002 => vec![0, 3, 4],
            1003 => vec![1],
            1006 => vec![5, 6, 4],
            1007 => vec![0, 0],
            1016 if kh % 2 == 0 => vec![0, 7, 4, 0],
            1016 => vec![0, 7, 4],
            1020 if kh % 2 == 0 => vec![1, 1, 1],
            1020 if kw % 2 == 0 => vec![5, 5, 5],
            1020 => vec![1, 1, 1, 1],
            _ => vec![0],
        };
        let of = |dims: &[usize]| float(dims, &vec![0.0; dims.iter().product()]);
        let values: Vec<Value> = pick.into_iter().map(|index| of(shapes[index])).collect();
        let infos: Vec<TensorInfo> = values.iter().map(|value| value.info).collect();
        let small = |info: &TensorInfo| info.bytes() < 1 << 20;
        if infer(&*op, &infos).is_ok_and(|infos| small(&infos[0])) {
            run(&*op, &values.iter().collect::<Vec<_>>());
        }
    }
}
