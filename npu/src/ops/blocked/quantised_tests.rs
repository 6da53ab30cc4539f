//! Packed sums of bytes: the same numbers as the plain ops, bit for bit, on every ISA; and what is
//! refused.
#![allow(clippy::cast_possible_truncation, reason = "bytes and small numbers are meant")]
#![allow(clippy::cast_possible_wrap, clippy::cast_precision_loss, reason = "small numbers")]

use proptest::prelude::*;

use super::tests::{fours, run};
use super::*;
use crate::aligned::AlignedBytes;
use crate::isa::{self, Isa};
use crate::ops::testing::{Case, Value, float, ints, noise};
use crate::ops::{Activation, infer, integer_conv, integer_product};
use crate::params::ParamWriter;

/// Bytes of a type, with those at the ends among them.
fn bytes(dims: &[usize], dtype: DataType, seed: u64) -> Value {
    let count = dims.iter().product();
    let of = |x: &f32| if *x > 0.9 { -128 } else { (x * 127.0) as i8 };
    let values: Vec<i8> = noise(count, seed).iter().map(of).collect();
    Value::new(dims, &values).of_type(dtype)
}

/// The bytes less a zero.
fn centred(value: &Value, zero: impl Fn(usize) -> i32) -> Vec<i16> {
    let signed = value.info.dtype == DataType::INT8;
    let own = value.bytes.iter().enumerate().map(|(place, x)| {
        let x = if signed { i32::from(x.cast_signed()) } else { i32::from(*x) };
        i16::try_from(x - zero(place)).unwrap()
    });
    own.collect()
}

fn one(dtype: DataType, zero: i32) -> Value {
    let byte = zero.to_le_bytes()[0];
    Value::new(&[], &[byte]).of_type(dtype)
}

/// In blocks, with other numbers than 0 behind the last map.
fn in_blocks(value: &Value) -> Value {
    let maps = value.info.shape.dims()[1];
    let mut own = run(&ToBlocked, &[value]);
    let dims = own.info.shape.dims().to_vec();
    let plane = dims[2] * dims[3];
    for (index, byte) in own.bytes.iter_mut().enumerate() {
        if index / BLOCK / plane % dims[1] * BLOCK + index % BLOCK >= maps {
            *byte = 0x77;
        }
    }
    own
}

fn of_blocks(value: &Value, maps: usize) -> Value {
    run(&FromBlocked { maps }, &[value])
}

fn vectors<T: crate::tensor::Element>(values: &[T]) -> Value {
    let mut own = values.to_vec();
    own.resize(blocks(values.len()) * BLOCK, T::ZERO);
    Value::new(&[blocks(values.len()), BLOCK], &own)
}

const TYPES: [DataType; 2] = [DataType::UINT8, DataType::INT8];

/// One convolution, by the plain op and by the packed one, with types and zeros of its own.
struct Sample {
    x: [usize; 4],
    w: [usize; 4],
    window: Window,
    group: usize,
}

impl Sample {
    fn check(&self, x_type: DataType, w_type: DataType) {
        let (maps, to) = (self.w[0], x_type);
        let (x, w) = (bytes(&self.x, x_type, 1), bytes(&self.w, w_type, 2));
        let zero_x = if x_type == DataType::INT8 { -128 } else { 255 };
        let each = self.w[1..].iter().product::<usize>();
        let zeros_w: Vec<i32> = match w_type {
            DataType::INT8 => vec![0; maps],
            _ => (0..maps).map(|map| 100 + i32::try_from(map % 50).unwrap()).collect(),
        };
        let zeros: Vec<u8> = zeros_w.iter().map(|zero| zero.to_le_bytes()[0]).collect();
        let scales: Vec<f32> = noise(maps, 3).iter().map(|x| 0.01 + x.abs() * 0.02).collect();
        let bias: Vec<i32> = noise(maps, 4).iter().map(|x| (x * 5000.0) as i32).collect();
        let (scale_x, scale_y, zero_y) = (0.05, 3.7 * each as f32 / 20.0, 3);
        let list = |own: [usize; 2]| [own[0] as i64, own[1] as i64];
        let [above, left] = list(self.window.pads_begin);
        let [below, right] = list(self.window.pads_end);
        let case = Case::new(&integer_conv::LINEAR, 10)
            .int("group", self.group as i64)
            .ints("pads", &[above, left, below, right])
            .ints("strides", &list(self.window.strides))
            .ints("dilations", &list(self.window.dilations))
            .input(x.clone())
            .input(float(&[], &[scale_x]))
            .input(one(x_type, zero_x))
            .input(w.clone())
            .input(float(&[maps], &scales))
            .input(Value::new(&[maps], &zeros).of_type(w_type))
            .input(float(&[], &[scale_y]))
            .input(one(to, zero_y))
            .input(ints(&[maps], &bias));
        let expected = case.run();
        let weights = centred(&w, |place| zeros_w[place / each]);
        let factors: Vec<f32> = scales.iter().map(|own| scale_x * own / scale_y).collect();
        let finish = Finish { to, zero: zero_y, ..Finish::SUM };
        let (window, zero) = (self.window, zero_x);
        for isa in Isa::ALL {
            isa::at_most(isa, || {
                let found = if self.group > 1 {
                    let floats: Vec<f32> = weights.iter().map(|own| f32::from(*own)).collect();
                    let (dims, packed) = pack_depthwise(self.w, &floats);
                    let bias: Vec<f32> = bias.iter().map(|own| *own as f32).collect();
                    let op = QuantisedDepthwise { window, zero, finish };
                    let (w, bias) = (float(&dims, &packed), vectors(&bias));
                    run(&op, &[&in_blocks(&x), &w, &bias, &vectors(&factors)])
                } else {
                    let (dims, packed) = pack_kernel(self.w, &weights);
                    let kernel = [self.w[2], self.w[3]];
                    let op = QuantisedConv { window, kernel, zero, finish };
                    let blocks = QuantisedConv::reads_blocks(self.x[1]);
                    let x = if blocks { in_blocks(&x) } else { x.clone() };
                    let (w, bias) = (Value::new(&dims, &packed), vectors(&bias));
                    let inputs = [&x, &w, &bias, &vectors(&factors)];
                    assert!(w_type == DataType::UINT8 || fours(&op, &inputs).is_some());
                    run(&op, &inputs)
                };
                assert_eq!(of_blocks(&found, maps), expected, "{isa:?} {:?} {:?}", self.x, self.w);
            });
        }
    }
}

const PLACED: Window =
    Window { strides: [1; 2], dilations: [1; 2], pads_begin: [0; 2], pads_end: [0; 2] };

#[test]
fn convolutions_of_every_width_are_those_of_the_plain_op() {
    let padded = Window { pads_begin: [1; 2], pads_end: [1; 2], ..PLACED };
    for width in (1..15).chain([24, 27, 50]) {
        let types = [(TYPES[width % 2], TYPES[width / 2 % 2])];
        for (x, w) in types {
            for maps in [3, 20] {
                let (x_dims, kernel) = ([1, maps, 3, width], [20, maps, 3, 3]);
                let plain = Sample { x: x_dims, w: kernel, window: padded, group: 1 };
                plain.check(x, w);
                Sample { window: Window { strides: [2; 2], ..padded }, ..plain }.check(x, w);
                Sample { x: x_dims, w: [9, maps, 1, 1], window: PLACED, group: 1 }.check(x, w);
            }
            let depthwise =
                Sample { x: [2, 20, 3, width], w: [20, 1, 3, 3], window: padded, group: 20 };
            depthwise.check(x, w);
            Sample { window: Window { strides: [2; 2], ..padded }, ..depthwise }.check(x, w);
        }
    }
}

#[test]
fn strange_windows() {
    let windows = [
        Window { dilations: [2, 3], pads_begin: [2, 0], pads_end: [0, 5], ..PLACED },
        Window { strides: [3, 4], pads_begin: [0, 5], pads_end: [6, 0], ..PLACED },
        Window { strides: [6; 2], pads_begin: [5; 2], ..PLACED },
    ];
    for (window, x, w) in windows.into_iter().flat_map(|own| TYPES.map(|x| (own, x, TYPES[1]))) {
        for maps in [2, 17] {
            Sample { x: [2, maps, 9, 11], w: [40, maps, 2, 3], window, group: 1 }.check(x, w);
            Sample { x: [2, maps, 9, 11], w: [8, maps, 1, 1], window, group: 1 }.check(x, w);
        }
        Sample { x: [1, 18, 9, 11], w: [18, 1, 2, 3], window, group: 18 }.check(x, w);
    }
}

/// A product, by the plain op and by the packed one.
fn check_dense([rows, depth, columns]: [usize; 3], x_type: DataType, w_type: DataType) {
    let (x, w) = (bytes(&[rows, depth], x_type, 5), bytes(&[depth, columns], w_type, 6));
    let zero_x = if x_type == DataType::INT8 { 127 } else { 3 };
    // Without a zero the weights are bytes with a sign, and are packed as fours, too.
    let zero_w = if w_type == DataType::INT8 && depth % 5 > 0 { 0 } else { 7 };
    let case = Case::new(&integer_product::INTEGER, 10).input(x.clone()).input(w.clone());
    let sums = case.input(one(x_type, zero_x)).input(one(w_type, zero_w)).run();
    let weights = centred(&w, |_| zero_w);
    let (dims, packed) = pack_pairs([depth, columns], |k, column| weights[k * columns + column]);
    let (weights, bias) = (Value::new(&dims, &packed), vectors(&vec![0i32; columns]));
    let factors: Vec<f32> = noise(columns, 7).iter().map(|x| x * 1e-3).collect();
    let scaled = |activation: Activation, factor: f32| -> Vec<f32> {
        let sums = sums.elements::<i32>().iter().enumerate();
        sums.map(|(at, sum)| activation.of(*sum as f32 * factors[at % columns]) * factor).collect()
    };
    for isa in Isa::ALL {
        isa::at_most(isa, || {
            let own = QuantisedDense { columns, zero: zero_x, finish: Finish::SUM };
            let inputs = [&x, &weights, &bias, &vectors(&factors)];
            assert_eq!(fours(&own, &inputs).is_some(), zero_w == 0);
            assert_eq!(run(&own, &inputs), sums, "{isa:?} {rows} {depth} {columns}");
            let zero = one(x_type, zero_x);
            let given = [inputs[0], inputs[1], inputs[2], inputs[3], &zero];
            assert_eq!(run(&QuantisedDense { zero: 0, ..own }, &given), sums);
            let activation = Activation::HardSwish;
            let finish = Finish { to: DataType::FLOAT, zero: 0, activation, factor: 0.5 };
            let found = run(&QuantisedDense { finish, ..own }, &inputs);
            let expected = scaled(activation, 0.5);
            for (found, expected) in found.elements::<f32>().iter().zip(&expected) {
                assert!((found - expected).abs() <= 1e-5 * expected.abs().max(1.0));
            }
            let activation = Activation::Relu;
            let finish = Finish { to: DataType::INT8, zero: -128, activation, factor: 1.0 };
            let found = run(&QuantisedDense { finish, ..own }, &inputs);
            let expected = scaled(activation, 1.0).into_iter();
            let expected: Vec<i8> = expected
                .map(|x| (x.round_ties_even() - 128.0).clamp(-128.0, 127.0) as i8)
                .collect();
            assert_eq!(found.elements::<i8>(), expected, "{isa:?}");
        });
    }
}

#[test]
fn products_of_every_size_are_those_of_the_plain_op() {
    for depth in (1..34).chain([64, 100]) {
        let (x, w) = (TYPES[depth % 2], TYPES[depth / 2 % 2]);
        check_dense([1, depth, 1 + depth * 5 % 190], x, w);
        check_dense([1 + depth % 9, depth, 17], x, w);
    }
    for rows in 1..60 {
        check_dense([rows, 20, 33], TYPES[rows % 2], TYPES[1]);
    }
}

#[test]
fn a_table_and_pairs_of_every_size() {
    let values: Vec<u8> = (0..=255u8).map(|x| x.wrapping_mul(7)).collect();
    let values: Box<[u8; 256]> = Box::new(values.try_into().unwrap());
    let table = QuantisedTable { to: DataType::INT8, values: values.clone() };
    for count in (1..40).chain([100]) {
        let types = [TYPES[count % 2], TYPES[count / 2 % 2]];
        let (a, b) = (bytes(&[count], types[0], 8), bytes(&[count], types[1], 9));
        let expected: Vec<u8> = a.bytes.iter().map(|x| values[usize::from(*x)]).collect();
        assert_eq!(&run(&table, &[&a]).bytes[..], &expected[..]);
        let (zeros, end) = ([100, -5], (0.3, -7));
        let zeros = [0, 1].map(|x| if types[x] == DataType::INT8 { zeros[x] } else { 200 });
        let quanta = [(0.1, zeros[0]), (0.025, zeros[1])];
        let floats = [(&a, quanta[0]), (&b, quanta[1])].map(|(own, (scale, zero))| {
            centred(own, |_| zero).into_iter().map(|x| f32::from(x) * scale).collect::<Vec<f32>>()
        });
        let (to, activation) = (DataType::INT8, Activation::Relu);
        for (isa, product) in Isa::ALL.into_iter().flat_map(|isa| [(isa, false), (isa, true)]) {
            let pair = QuantisedPair { product, quanta, activation, to, end };
            let found = isa::at_most(isa, || run(&pair, &[&a, &b]));
            let of = |(a, b): (&f32, &f32)| if product { a * b } else { a + b };
            let expected = floats[0].iter().zip(&floats[1]).map(of);
            let expected = expected.map(|x| (x.max(0.0) / end.0).round_ties_even() - 7.0);
            let expected: Vec<i8> = expected.map(|x| x.clamp(-128.0, 127.0) as i8).collect();
            assert_eq!(found.elements::<i8>(), expected, "{isa:?} {product}");
        }
    }
    let (a, b) = (bytes(&[2], TYPES[0], 1).info, bytes(&[3], TYPES[0], 1).info);
    let quanta = [(1.0, 0); 2];
    let (to, activation, end) = (DataType::UINT8, Activation::None, (1.0, 0));
    let pair = QuantisedPair { product: false, quanta, activation, to, end };
    let wrong = infer(&pair, &[a, b]).unwrap_err().to_string();
    assert!(wrong.contains("expected one shape"), "{wrong}");
    for wrong in [
        QuantisedPair { end: (1.0, -1), ..pair },
        QuantisedPair { to: DataType::FLOAT, ..pair },
        QuantisedPair { quanta: [(1.0, 400); 2], ..pair },
    ] {
        let line = (&wrong as &dyn Op).line();
        assert!(line.decode_params(&crate::ops::testing::params(&wrong)).is_err());
    }
}

#[test]
fn what_is_refused() {
    let x = Value::new(&[2, 5], &[0u8; 10]);
    let (dims, packed) = pack_pairs([5, 20], |_, _| 1);
    let w = Value::new(&dims, &packed);
    let (bias, factors) = (vectors(&[0i32; 20]), vectors(&[1f32; 20]));
    let infos = [x.info, w.info, bias.info, factors.info];
    let own = QuantisedDense { columns: 20, zero: 0, finish: Finish::SUM };
    assert!(infer(&own, &infos).is_ok());
    let wrong = infer(&QuantisedDense { columns: 40, ..own }, &infos).unwrap_err();
    assert!(wrong.to_string().contains("expected […, K], [3, K / 2, 16, 2]"), "{wrong}");
    let line = crate::ops::by_code(own.code()).unwrap();
    for finish in [
        Finish { to: DataType::INT64, ..Finish::SUM },
        Finish { to: DataType::INT8, zero: 200, ..Finish::SUM },
        Finish { zero: 1, ..Finish::SUM },
    ] {
        let params = crate::ops::testing::params(&QuantisedDense { finish, ..own });
        assert!(line.decode_params(&params).is_err(), "{finish:?}");
    }
    let params = crate::ops::testing::params(&QuantisedDense { zero: 300, ..own });
    assert!(line.decode_params(&params).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    /// A program brings parameters and shapes from a file.
    #[test]
    fn no_op_leaves_its_memory(
        op in 0usize..3,
        numbers in prop::collection::vec(prop_oneof![15 => 0usize..4, 1 => any::<usize>()], 11),
        zero in prop_oneof![4 => Just(0), 1 => any::<i32>()],
        to in prop_oneof![9 => prop::sample::select(vec![1, 2, 3, 6]), 1 => any::<i32>()],
        x in [0usize..3, 0..20, 0..9, 0..9],
        w in [0usize..3, 0..20, 0..3, 0..3],
        given in any::<bool>(),
    ) {
        let two = |at: usize| [numbers[at], numbers[at + 1]];
        let window = Window {
            strides: two(0), dilations: two(2), pads_begin: two(4), pads_end: two(6),
        };
        let finish = Finish { to: DataType(to), ..Finish::SUM };
        let (kernel, columns) = (two(8), numbers[10]);
        let own: Box<dyn Op> = match op {
            0 => Box::new(QuantisedDense { columns, zero, finish }),
            1 => Box::new(QuantisedConv { window, kernel, zero, finish }),
            _ => Box::new(QuantisedDepthwise { window, zero, finish }),
        };
        let mut writer = ParamWriter::default();
        own.encode(&mut writer);
        let Ok(own) = own.line().decode_params(&writer.into_bytes()) else { return Ok(()) };
        let [n, c, height, width] = x;
        let x_dims: &[usize] = match (op, given) {
            (0, _) => &[n, c],
            (1, false) => &[n, c, height, width],
            _ => &[n, w[1].div_ceil(8), height, width, BLOCK],
        };
        let taps = kernel[0].wrapping_mul(kernel[1]);
        let depth = match given {
            true => w[1].div_ceil(8).wrapping_mul(8).wrapping_mul(taps),
            false => c.div_ceil(2).wrapping_mul(taps),
        };
        let w_dims: &[usize] = match op {
            0 => &[w[0], c.div_ceil(2), BLOCK, 2],
            1 => &[w[0], depth.min(999), BLOCK, 2],
            _ => &[w[1].div_ceil(8), w[2], w[3], BLOCK],
        };
        let of = |dims: &[usize]| Value::new(dims, &vec![1u8; dims.iter().product()]);
        let floats = |dims: &[usize]| float(dims, &vec![1.0; dims.iter().product()]);
        let count = if op == 2 { w_dims[0] } else { w[0] };
        let (pairs, list) = (vec![1i16; w_dims.iter().product()], [count, BLOCK]);
        let mut values = match op {
            2 => vec![of(x_dims), floats(w_dims), floats(&list), floats(&list)],
            _ => {
                let bias = ints(&list, &vec![1; count * BLOCK]);
                vec![of(x_dims), Value::new(w_dims, &pairs), bias, floats(&list)]
            }
        };
        if op == 0 && given {
            values.push(of(&[]));
        }
        let infos: Vec<TensorInfo> = values.iter().map(|value| value.info).collect();
        if let Ok(outputs) = infer(&*own, &infos) {
            let scratch = own.scratch_bytes(&infos, &outputs[0]);
            if outputs[0].bytes().max(scratch) < 1 << 20 {
                run(&*own, &values.iter().collect::<Vec<_>>());
            }
        }
    }
}

/// Numbers that say where they come from.
#[test]
fn fours_lie_as_they_are_read() {
    // Two runs of three pairs: the last of each has a pair of zeros beside it.
    let (depth, columns) = (12, 17);
    let matrix = |k: usize, column: usize| (k * 10) as i16 - column as i16;
    let (dims, pairs) = pack_pairs([depth, columns], matrix);
    let (pairs, fours) = (Value::new(&dims, &pairs), Fours::new(&dims, 3).unwrap());
    assert!(fours.fits(&pairs.bytes));
    assert_eq!(fours.bytes(), 2 * (4 + 1) * 64);
    let mut packed = AlignedBytes::zeroed(fours.bytes());
    fours.pack(&pairs.bytes, &mut packed);
    for (column, k) in (0..columns).flat_map(|column| (0..16).map(move |k| (column, k))) {
        let at = ((column / BLOCK * 4 + k / 4) * BLOCK + column % BLOCK) * 4 + k % 4;
        let expected = if k % 8 < 6 { matrix(k / 8 * 6 + k % 8, column) } else { 0 };
        assert_eq!(i16::from(packed[at].cast_signed()), expected, "{column} {k}");
    }
    let sums = &crate::cast::elements::<i32>(&packed).unwrap()[2 * 4 * BLOCK..];
    for (column, sum) in sums.iter().enumerate() {
        let expected: i16 = (0..depth).map(|k| matrix(k, column)).sum();
        assert_eq!(*sum, if column < columns { i32::from(expected) } else { 0 });
    }
    for (number, fits) in [(127, true), (128, false), (-128, true), (-129, false)] {
        let (dims, pairs) = pack_pairs([2, 1], |k, _| if k == 1 { number } else { 0 });
        let fours = Fours::new(&dims, 1).unwrap();
        assert_eq!(fours.fits(&Value::new(&dims, &pairs).bytes), fits, "{number}");
        assert!(!fours.fits(&[0; 2]), "another length");
    }
    assert!(Fours::new(&dims, 4).is_none() && Fours::new(&dims, 0).is_none());
    assert!(Fours::new(&[1, 1, 8, 2], 1).is_none());
}

#[test]
fn padding_that_is_no_byte_has_no_fours() {
    let (dims, packed) = pack_kernel([16, 3, 1, 1], &[1; 48]);
    let (x, w) = (Value::new(&[1, 3, 2, 2], &[1u8; 12]), Value::new(&dims, &packed));
    let has = |zero, dtype| {
        let own = QuantisedConv { window: PLACED, kernel: [1; 2], zero, finish: Finish::SUM };
        own.fours(&[x.clone().of_type(dtype).info, w.info]).is_some()
    };
    assert!(has(255, DataType::UINT8) && has(-128, DataType::INT8));
    assert!(!has(-1, DataType::UINT8) && !has(128, DataType::INT8));
}
