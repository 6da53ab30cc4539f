//! Tests of Conv: against its definition, element by element, and what is refused.
#![allow(clippy::needless_range_loop, reason = "the reference is written by index")]

use super::*;
use crate::isa::Isa;
use crate::ops::by_code;
use crate::ops::testing::{Case, Value, assert_close, float, ints, noise};

/// A convolution to be compared with its definition.
#[derive(Clone, Debug)]
struct Sample {
    x: Vec<usize>,
    w: Vec<usize>,
    strides: Vec<i64>,
    dilations: Vec<i64>,
    pads: Vec<i64>,
    group: i64,
    bias: bool,
}

impl Sample {
    fn new(x: &[usize], w: &[usize]) -> Self {
        let rank = x.len() - 2;
        Self {
            x: x.to_vec(),
            w: w.to_vec(),
            strides: vec![1; rank],
            dilations: vec![1; rank],
            pads: vec![0; 2 * rank],
            group: 1,
            bias: false,
        }
    }

    fn input(&self) -> Value {
        float(&self.x, &noise(self.x.iter().product(), 1))
    }

    fn weights(&self) -> Value {
        float(&self.w, &noise(self.w.iter().product(), 2))
    }

    fn bias(&self) -> Value {
        float(&self.w[..1], &noise(self.w[0], 3))
    }

    fn case(&self) -> Case {
        let case = Case::new(&ENTRY, 15)
            .ints("strides", &self.strides)
            .ints("dilations", &self.dilations)
            .ints("pads", &self.pads)
            .int("group", self.group)
            .input(self.input())
            .input(self.weights());
        if self.bias { case.input(self.bias()) } else { case }
    }

    /// By the definition, in f64.
    fn expected(&self, shape: &[usize]) -> Value {
        let rank = self.x.len() - 2;
        let (x, w, bias) = (self.input(), self.weights(), self.bias());
        let group = usize::try_from(self.group).unwrap();
        let (in_maps, out_maps) = (self.w[1], self.w[0] / group);
        let taps: usize = self.w[2..].iter().product();
        let out: usize = shape.iter().product();
        let values = (0..out).map(|flat| {
            let place = index(flat, shape);
            let (image, map) = (place[0], place[1]);
            let mut sum = if self.bias { f64::from(bias.elements::<f32>()[map]) } else { 0.0 };
            for in_map in 0..in_maps {
                for tap in 0..taps {
                    let kernel = index(tap, &self.w[2..]);
                    let at: Option<Vec<usize>> = (0..rank)
                        .map(|dim| {
                            let at = i64::try_from(place[2 + dim]).unwrap() * self.strides[dim]
                                + i64::try_from(kernel[dim]).unwrap() * self.dilations[dim]
                                - self.pads[dim];
                            usize::try_from(at).ok().filter(|at| *at < self.x[2 + dim])
                        })
                        .collect();
                    let Some(at) = at else { continue };
                    let mut from = image * self.x[1] + map / out_maps * in_maps + in_map;
                    for dim in 0..rank {
                        from = from * self.x[2 + dim] + at[dim];
                    }
                    let weight = (map * in_maps + in_map) * taps + tap;
                    sum += f64::from(x.elements::<f32>()[from])
                        * f64::from(w.elements::<f32>()[weight]);
                }
            }
            #[expect(clippy::cast_possible_truncation, reason = "to the kernel's precision")]
            let value = sum as f32;
            value
        });
        float(shape, &values.collect::<Vec<_>>())
    }

    fn check(&self) {
        let shape = self.case().run().info.shape;
        let expected = self.expected(shape.dims());
        for isa in Isa::ALL {
            assert_close(&isa::at_most(isa, || self.case().run()), &expected, 1e-5);
        }
    }
}

fn index(flat: usize, dims: &[usize]) -> Vec<usize> {
    let mut rest = flat;
    let mut own: Vec<usize> = dims
        .iter()
        .rev()
        .map(|dim| {
            let index = rest % dim;
            rest /= dim;
            index
        })
        .collect();
    own.reverse();
    own
}

#[test]
fn pointwise() {
    Sample { bias: true, ..Sample::new(&[2, 5, 3, 7], &[6, 5, 1, 1]) }.check();
    Sample { group: 2, ..Sample::new(&[1, 4, 3, 3], &[6, 2, 1, 1]) }.check();
    Sample::new(&[1, 33, 1, 1], &[9, 33, 1, 1]).check();
}

#[test]
fn every_width_of_a_row() {
    for width in 1..40 {
        let wide = Sample { pads: vec![1; 4], ..Sample::new(&[1, 2, 2, width], &[5, 2, 3, 3]) };
        wide.check();
        Sample { strides: vec![2, 2], ..wide.clone() }.check();
        let five = Sample { pads: vec![2; 4], ..Sample::new(&[1, 1, 3, width], &[1, 1, 5, 5]) };
        five.check();
        Sample { strides: vec![1, 3], bias: true, ..five }.check();
    }
}

#[test]
fn each_map_on_its_own() {
    let sample = Sample { group: 6, pads: vec![1; 4], ..Sample::new(&[2, 6, 9, 9], &[6, 1, 3, 3]) };
    sample.check();
    Sample { strides: vec![2, 2], bias: true, ..sample.clone() }.check();
    Sample { w: vec![12, 1, 3, 3], ..sample }.check();
}

#[test]
fn one_and_three_dims() {
    let line = Sample { pads: vec![3, 0], ..Sample::new(&[1, 2, 11], &[3, 2, 4]) };
    line.check();
    Sample { dilations: vec![2], strides: vec![2], ..line }.check();
    let cube = Sample::new(&[1, 2, 4, 5, 6], &[3, 2, 2, 3, 3]);
    cube.check();
    let odd = Sample {
        pads: vec![1, 0, 2, 0, 3, 1],
        strides: vec![2, 1, 3],
        dilations: vec![1, 2, 1],
        ..cube
    };
    odd.check();
}

#[test]
fn padding_wider_than_the_kernel() {
    Sample { pads: vec![4, 5, 6, 7], ..Sample::new(&[1, 1, 2, 2], &[4, 1, 3, 3]) }.check();
    let far = Sample { dilations: vec![7, 7], ..Sample::new(&[1, 1, 9, 9], &[1, 1, 2, 2]) };
    far.check();
    Sample { pads: vec![7, 7, 0, 0], ..far }.check();
}

#[test]
fn automatic_padding() {
    let case = |mode: &str| {
        Case::new(&ENTRY, 1)
            .text("auto_pad", mode)
            .ints("strides", &[2])
            .input(float(&[1, 1, 4], &[1.0, 2.0, 3.0, 4.0]))
            .input(float(&[1, 1, 3], &[1.0, 1.0, 1.0]))
    };
    assert_close(&case("SAME_UPPER").run(), &float(&[1, 1, 2], &[6.0, 7.0]), 1e-6);
    assert_close(&case("SAME_LOWER").run(), &float(&[1, 1, 2], &[3.0, 9.0]), 1e-6);
    assert_close(&case("VALID").run(), &float(&[1, 1, 1], &[6.0]), 1e-6);
    assert_close(&case("NOTSET").run(), &float(&[1, 1, 1], &[6.0]), 1e-6);
    let even = Case::new(&ENTRY, 11)
        .text("auto_pad", "SAME_UPPER")
        .ints("dilations", &[2])
        .input(float(&[1, 1, 3], &[1.0, 2.0, 3.0]))
        .input(float(&[1, 1, 2], &[1.0, 10.0]));
    assert_close(&even.run(), &float(&[1, 1, 3], &[20.0, 31.0, 2.0]), 1e-6);
    let zeros = case("VALID").ints("pads", &[0, 0]);
    assert_close(&zeros.run(), &float(&[1, 1, 1], &[6.0]), 1e-6);
}

#[test]
fn an_activation_behind_it() {
    let sample = Sample { pads: vec![1; 4], ..Sample::new(&[1, 2, 5, 5], &[4, 2, 3, 3]) };
    let (op, _) = sample.case().import().unwrap();
    let conv = *op.as_any().downcast_ref::<Conv>().unwrap();
    let fused = conv.with_activation(Activation::HardSwish);
    let mut writer = ParamWriter::default();
    fused.encode(&mut writer);
    let bytes = writer.into_bytes();
    let read = by_code(ENTRY.code).unwrap().decode_params(&bytes).unwrap();
    assert_eq!(read.as_any().downcast_ref::<Conv>(), Some(&fused));
}

fn refused(edit: impl Fn(Case) -> Case) -> String {
    edit(Case::new(&ENTRY, 15))
        .input(float(&[1, 4, 3, 3], &[0.0; 36]))
        .input(float(&[2, 4, 3, 3], &[0.0; 72]))
        .refused()
}

#[test]
fn attributes_that_are_refused() {
    for (found, expected) in [
        (refused(|case| case.ints("kernel_shape", &[3, 2])), "`kernel_shape`: [3, 2]"),
        (refused(|case| case.ints("kernel_shape", &[3])), "`kernel_shape`: [3]; supported: [3, 3]"),
        (refused(|case| case.ints("strides", &[1])), "`strides`: [1]; supported: 2 numbers"),
        (refused(|case| case.ints("strides", &[0, 1])), "`strides`: [0, 1]"),
        (refused(|case| case.ints("dilations", &[1, -1])), "`dilations`: [1, -1]"),
        (refused(|case| case.ints("pads", &[0, 0, 0])), "`pads`: [0, 0, 0]; supported: 4 numbers"),
        (refused(|case| case.ints("pads", &[0, 0, 0, -1])), "`pads`: [0, 0, 0, -1]"),
        (refused(|case| case.int("group", 0)), "`group`: 0; supported: 1 or more"),
        (refused(|case| case.int("group", 3)), "group is 3"),
        (refused(|case| case.text("auto_pad", "SAME")), "`auto_pad`: \"SAME\"; supported: NOTSET"),
        (refused(|case| case.int("auto_pad", 1)), "`auto_pad`: a number; supported: a text"),
        (
            refused(|case| case.text("auto_pad", "VALID").ints("pads", &[1; 4])),
            "`pads`: given beside `auto_pad` = VALID",
        ),
        (
            refused(|case| case.ints("dilations", &[2, 1])),
            "does not fit into [1, 4, 3, 3] at dim 0",
        ),
        // What a program could not say.
        (
            refused(|case| case.ints("strides", &[1, 1 << 62])),
            "`strides`: [1, 4611686018427387904]; supported: 2 numbers, 1 to 1099511627776 each",
        ),
        (
            refused(|case| case.ints("dilations", &[(1 << 40) + 1, 1])),
            "`dilations`: [1099511627777",
        ),
        (refused(|case| case.ints("pads", &[1, 1, 1, i64::MAX])), "0 to 1099511627776 each"),
        (
            refused(|case| case.text("auto_pad", "SAME_UPPER").ints("dilations", &[1, 1 << 40])),
            "`auto_pad`: SAME_UPPER pads dim 1 by ",
        ),
    ] {
        assert!(found.contains(expected), "{found}; expected {expected}");
    }
}

#[test]
fn shapes_and_types_that_are_refused() {
    let case = |x: &[usize], w: &[usize]| {
        let value = |dims: &[usize]| float(dims, &vec![0.0; dims.iter().product()]);
        Case::new(&ENTRY, 11).input(value(x)).input(value(w))
    };
    assert!(case(&[1, 2], &[1, 2]).refused().contains("expected the same rank, 3 to 5"));
    assert!(case(&[1, 2, 3], &[1, 2, 3, 3]).refused().contains("expected the same rank"));
    let four = case(&[1, 1, 1, 1, 1, 1], &[1, 1, 1, 1, 1, 1]);
    assert!(four.refused().contains("3 to 5"));
    assert!(case(&[1, 2, 3], &[1, 1, 3]).refused().contains("maps of x = group"));
    let far = case(&[1, 1, 1], &[1, 1, 2]).ints("pads", &[1 << 39, 1 << 39]);
    let far = far.ints("dilations", &[(1 << 40) - 1]);
    assert!(far.refused().contains("too large with padding and dilation"), "{}", far.refused());
    let bias = case(&[1, 1, 3], &[2, 1, 3]).input(float(&[3], &[0.0; 3]));
    assert!(bias.refused().contains("the bias is [3]; expected [2]"));
    let whole = Case::new(&ENTRY, 11).input(ints(&[1, 1, 1], &[1])).input(ints(&[1, 1, 1], &[1]));
    assert!(whole.refused().contains("input 0 is int32; supported: float32"));
    let alone = Case::new(&ENTRY, 11).input(float(&[1, 1, 1], &[1.0]));
    assert_eq!(alone.refused(), "1 inputs; supported: 2 to 3");
}

#[test]
fn an_empty_batch_is_an_empty_result() {
    let case = Case::new(&ENTRY, 11).input(float(&[0, 1, 3], &[]));
    let case = case.input(float(&[2, 1, 3], &[0.0; 6]));
    assert_eq!(case.run(), float(&[0, 2, 1], &[]));
}

#[test]
fn parameters_of_a_program_that_are_none() {
    let sample = Sample::new(&[1, 1, 3, 3], &[1, 1, 3, 3]);
    let (op, _) = sample.case().import().unwrap();
    let conv = *op.as_any().downcast_ref::<Conv>().unwrap();
    let read = |conv: Conv| {
        let mut writer = ParamWriter::default();
        conv.encode(&mut writer);
        by_code(ENTRY.code).unwrap().decode_params(&writer.into_bytes()).map(|_| ())
    };
    assert_eq!(read(conv), Ok(()));
    for wrong in [
        Conv { rank: 0, ..conv },
        Conv { rank: 4, ..conv },
        Conv { strides: [1, 0, 1], ..conv },
        Conv { strides: [2, 1, 1], ..conv },
        Conv { dilations: [1, 1, 0], ..conv },
        Conv { pads_begin: [1, 0, 0], ..conv },
        Conv { pads_end: [0, usize::MAX, 0], ..conv },
        Conv { group: 0, ..conv },
    ] {
        assert!(read(wrong).is_err(), "{wrong:?}");
    }
}
