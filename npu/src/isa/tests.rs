//! Every ISA of this machine computes what the portable form does.
#![allow(clippy::float_cmp, reason = "values that are exact in every form")]

use super::{Isa, LANES, Routine, Simd, at_most, run};

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
            let expected = f64::from(x.max(-87.3)).exp();
            let off = (f64::from(*found) - expected).abs() / expected;
            assert!(off < 2.5e-7, "{isa:?}: exp({x}) = {found:e}, expected {expected:e}");
        }
        let mut ends = [0.0; 3];
        at_most(isa, || run(Exps(&[f32::NAN, f32::NEG_INFINITY, f32::INFINITY], &mut ends)));
        assert!(ends[0].is_nan() && ends[1] < 1.4e-38 && ends[2] > 2e38, "{isa:?}: {ends:?}");
    }
}

#[test]
fn a_limit_ends_with_its_call() {
    assert_eq!(at_most(Isa::Portable, || super::LIMIT.get()), Isa::Portable);
    assert_eq!(super::LIMIT.get(), Isa::Avx512);
}
