//! Every ISA of this machine computes what the portable form does.
#![allow(clippy::float_cmp, reason = "values that are exact in every form")]

use super::{Isa, LANES, Routine, Simd, at_most, best, has_vnni, run, run_fours, run_pairs};

/// All instructions, on two vectors and on a part of one.
struct All<'a> {
    a: [f32; LANES],
    b: [f32; LANES],
    count: usize,
    out: &'a mut Vec<f32>,
}

impl Routine for All<'_> {
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let (a, b) = (s.load(&self.a), s.load(&self.b));
        let part = s.load_part(&self.a[..self.count]);
        let results = [
            s.add(a, b),
            s.mul(a, b),
            s.mul_add(a, b, s.splat(0.5)),
            s.max(a, b),
            s.min(a, b),
            s.div(a, s.splat(4.0)),
            s.pow2(a),
            part,
        ];
        for v in results {
            let mut lanes = [0f32; LANES];
            s.store(v, &mut lanes);
            self.out.extend(lanes);
            let mut some = [7.0; LANES + 1];
            s.store_part(v, &mut some[..self.count]);
            self.out.extend(some);
            self.out.push(s.sum(v));
        }
    }
}

fn all(isa: Isa, count: usize) -> Vec<f32> {
    let mut a = [0f32; LANES];
    let mut b = [0f32; LANES];
    for (lane, (a, b)) in a.iter_mut().zip(&mut b).enumerate() {
        let lane = f32::from(u8::try_from(lane).unwrap());
        (*a, *b) = (lane - 6.0, 3.0 - lane * 0.5);
    }
    let mut out = Vec::new();
    at_most(isa, || run(All { a, b, count, out: &mut out }));
    out
}

#[test]
fn every_isa_computes_the_same_of_exact_values() {
    for count in 0..=LANES {
        let portable = all(Isa::Portable, count);
        assert_eq!(portable[..3], [-3.0, -2.5, -2.0]);
        for isa in Isa::ALL {
            assert_eq!(all(isa, count), portable, "{isa:?}, {count}");
        }
    }
}

/// A NaN on each side.
struct Bounds<'a>(&'a mut [bool; 4]);

impl Routine for Bounds<'_> {
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let nan = s.splat(f32::NAN);
        let one = s.splat(1.0);
        let results = [s.max(one, nan), s.max(nan, one), s.min(one, nan), s.min(nan, one)];
        for (to, v) in self.0.iter_mut().zip(results) {
            let mut lanes = [0f32; LANES];
            s.store(v, &mut lanes);
            *to = lanes.iter().all(|lane| lane.is_nan());
        }
    }
}

#[test]
fn a_nan_in_the_second_operand_stays() {
    for isa in Isa::ALL {
        let mut nans = [false; 4];
        at_most(isa, || run(Bounds(&mut nans)));
        assert_eq!(nans, [true, false, true, false], "{isa:?}");
    }
}

#[derive(Clone, Copy)]
struct Exp;

impl super::Function for Exp {
    #[inline(always)]
    fn of<S: Simd>(self, s: S, x: S::V) -> S::V {
        super::exp(s, x)
    }
}

/// The exponentials of some floats.
struct Exps<'a>(&'a [f32], &'a mut [f32]);

impl Routine for Exps<'_> {
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        super::map(s, self.0, self.1, Exp);
    }
}

#[test]
fn exponentials_of_every_size_on_every_isa() {
    let x: Vec<f32> = (0..1765u16).map(|step| f32::from(step) / 10.0 - 88.2).collect();
    for isa in Isa::ALL {
        let mut found = vec![0.0; x.len()];
        at_most(isa, || run(Exps(&x, &mut found)));
        for (x, found) in x.iter().zip(&found) {
            let expected = f64::from(*x).exp();
            if *x < -87.33 {
                assert!(f64::from(*found) <= expected * 1.000_001, "{isa:?}: exp({x}) = {found:e}");
                continue;
            }
            let off = (f64::from(*found) - expected).abs() / expected;
            assert!(off < 2.5e-7, "{isa:?}: exp({x}) = {found:e}, expected {expected:e}");
        }
        let beyond = [-87.7, -88.0, -100.0, -1e30, f32::MIN, f32::NEG_INFINITY];
        let mut none = [7f32; 6];
        at_most(isa, || run(Exps(&beyond, &mut none)));
        assert_eq!(none.map(f32::to_bits), [0; 6], "{isa:?}");
        let mut ends = [0.0; 5];
        let x = [f32::NAN, 88.73, 100.0, f32::MAX, f32::INFINITY];
        at_most(isa, || run(Exps(&x, &mut ends)));
        assert!(ends[0].is_nan() && ends[1..] == [f32::INFINITY; 4], "{isa:?}: {ends:?}");
    }
}

#[test]
#[ignore = "only where DFLOW_ISA names what the machine has"]
fn the_best_isa_is_the_named_one() {
    let vnni = if has_vnni(best()) { "+vnni" } else { "" };
    assert_eq!(format!("{:?}{vnni}", best()), std::env::var("DFLOW_ISA").unwrap());
}

#[test]
fn a_limit_ends_with_its_call() {
    assert_eq!(at_most(Isa::Portable, || super::LIMIT.get()), Isa::Portable);
    assert_eq!(super::LIMIT.get(), Isa::Avx512);
}

/// Whole numbers, on pairs at the ends of their range.
struct Whole<'a> {
    a: [i32; LANES],
    pair: i32,
    sums: [i32; LANES],
    out: &'a mut ([i32; LANES], [f32; LANES], [u8; LANES]),
}

impl Routine for Whole<'_> {
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let sums = s.dot(s.whole(&self.a), s.word(self.pair), s.whole(&self.sums));
        s.store_whole(sums, &mut self.out.0);
        s.store(s.floats(sums), &mut self.out.1);
        let halves = s.mul(s.floats(s.whole(&self.sums)), s.splat(0.5 / 4_194_304.0));
        s.store_bytes(s.round(halves, 254), &mut self.out.2);
    }
}

/// A pair as one word.
fn word([first, second]: [i16; 2]) -> i32 {
    i32::from(second) << 16 | i32::from(first) & 0xffff
}

#[test]
fn every_isa_multiplies_pairs_exactly() {
    for pair in [[255, -255], [-1, 3], [-256, 127], [0, -32_768], [32_767, 32_767]] {
        let numbers = [0i16, 1, -1, 255, -255, -256, 127, -128];
        let mut a = [[0i16; 2]; LANES];
        let mut sums = [0i32; LANES];
        for (lane, (a, sum)) in a.iter_mut().zip(&mut sums).enumerate() {
            *a = [numbers[lane % 8], numbers[lane / 3 % 8]];
            *sum = [0, -7, 1 << 24, i32::MIN / 2][lane % 4];
        }
        let mut expected = sums;
        for (sum, a) in expected.iter_mut().zip(&a) {
            *sum += i32::from(a[0]) * i32::from(pair[0]) + i32::from(a[1]) * i32::from(pair[1]);
        }
        for (isa, vnni) in Isa::ALL.into_iter().flat_map(|isa| [(isa, false), (isa, true)]) {
            let mut out = ([0; LANES], [0.0; LANES], [0; LANES]);
            let whole = Whole { a: a.map(word), pair: word(pair), sums, out: &mut out };
            at_most(isa, || if vnni { run_pairs(whole) } else { run(whole) });
            assert_eq!(out.0, expected, "{isa:?}");
            #[expect(clippy::cast_precision_loss, reason = "the nearest float is meant")]
            let floats = expected.map(|sum| sum as f32);
            assert_eq!(out.1, floats, "{isa:?}");
            // 0, nearly 0, 2 and -128, each of them added to 254.
            let bytes = [254, 254, 0, 126];
            assert_eq!(out.2, std::array::from_fn(|lane| bytes[lane % 4]), "{isa:?}");
        }
    }
}

/// Sums of fours.
struct Fours<'a>([i32; LANES], i32, [i32; LANES], &'a mut [i32; LANES]);

impl Routine for Fours<'_> {
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let sums = s.dot_fours(s.word(self.1), s.whole(&self.0), s.whole(&self.2));
        s.store_whole(sums, self.3);
    }
}

#[test]
fn every_isa_multiplies_fours_exactly() {
    let bytes = [0u8, 1, 255, 128, 127, 254, 3, 129];
    for first in [[0u8; 4], [255; 4], [1, 2, 3, 4], [255, 0, 128, 7], [0, 0, 0, 255]] {
        let fours: [[u8; 4]; LANES] = std::array::from_fn(|lane| {
            std::array::from_fn(|place| bytes[(lane * 3 + place * (1 + lane / 8)) % 8])
        });
        // All at the end once: a sum of 16 bits would saturate.
        let fours = if first[3] == 255 { [[128; 4]; LANES] } else { fours };
        let sums: [i32; LANES] = std::array::from_fn(|lane| [0, -7, i32::MAX, i32::MIN][lane % 4]);
        let expected: [i32; LANES] = std::array::from_fn(|lane| {
            let each = first.into_iter().zip(fours[lane]);
            let products = each.map(|(a, b)| i32::from(a) * i32::from(b.cast_signed()));
            products.fold(sums[lane], i32::wrapping_add)
        });
        for (isa, vnni) in Isa::ALL.into_iter().flat_map(|isa| [(isa, false), (isa, true)]) {
            let mut found = [0; LANES];
            let words = fours.map(i32::from_le_bytes);
            let own = Fours(words, i32::from_le_bytes(first), sums, &mut found);
            at_most(isa, || if vnni { run_fours(own) } else { run(own) });
            assert_eq!(found, expected, "{isa:?} {vnni}");
        }
    }
}
