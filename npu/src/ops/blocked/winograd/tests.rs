//! Tests of the form with fewer products: against the plain convolution on every ISA, sums, pads of
//! every width, no number, and what is refused. Maps behind the last one are NaN in what is read.

use proptest::prelude::*;

use super::super::tests::{in_blocks, plain, run};
use super::super::{pack_maps, pack_weights};
use super::*;
use crate::DataType;
use crate::isa::Isa;
use crate::ops::conv::Conv;
use crate::ops::infer;
use crate::ops::testing::{Value, assert_close, float, noise};

fn placed(pads: [usize; 4]) -> Window {
    let [top, left, bottom, right] = pads;
    let (pads_begin, pads_end) = ([top, left], [bottom, right]);
    Window { strides: [1; 2], dilations: [1; 2], pads_begin, pads_end }
}

/// U of plain weights `[M, C, 3, 3]`.
fn packed(dims: [usize; 4], weights: &[f32]) -> Value {
    let (dims, own) = pack_weights(dims, weights);
    let (dims, own) = pack_winograd(&dims, &own).unwrap();
    float(&dims, &own)
}

/// Compared with the plain convolution if the kernel fits, with and without a sum.
fn check(x: [usize; 4], maps: usize, pads: [usize; 4], activation: Activation) -> bool {
    let (window, w) = (placed(pads), [maps, x[1], 3, 3]);
    let value = float(&x, &noise(x.iter().product(), 1));
    let weights = noise(w.iter().product(), 2);
    let plain_w = float(&w, &weights);
    let bias = noise(maps, 3);
    let three = |list: [usize; 2], front| [front, list[0], list[1]];
    let conv = Conv {
        rank: 2,
        strides: [1; 3],
        dilations: [1; 3],
        pads_begin: three(window.pads_begin, 0),
        pads_end: three(window.pads_end, 0),
        group: 1,
        activation: Activation::None,
    };
    if infer(&conv, &[value.info, plain_w.info]).is_err() {
        return false;
    }
    let direct =
        isa::at_most(Isa::Portable, || run(&conv, &[&value, &plain_w, &float(&[maps], &bias)]));
    let dims = direct.info.shape;
    let added = float(dims.dims(), &noise(dims.elements(), 4));
    let of = |sum: &dyn Fn(usize) -> f32| {
        let direct = direct.elements::<f32>().iter().enumerate();
        let all: Vec<f32> = direct.map(|(at, own)| activation.of(own + sum(at))).collect();
        float(dims.dims(), &all)
    };
    let expected = [of(&|_| 0.0), of(&|at| added.elements::<f32>()[at])];
    let (value, added) = (in_blocks(&value), in_blocks(&added));
    let (w, bias) = (packed(w, &weights), float(&[blocks(maps), BLOCK], &pack_maps(&bias)));
    // A sum has 9 terms a map, and V up to four times a pixel.
    let tolerance = (40.0 * x[1] as f32 * f32::EPSILON).max(2e-5);
    let op = BlockedWinograd { window, activation };
    for isa in Isa::ALL {
        isa::at_most(isa, || {
            let found = run(&op, &[&value, &w, &bias]);
            assert_close(&plain(&found, maps), &expected[0], tolerance);
            let found = run(&op, &[&value, &w, &bias, &added]);
            assert_close(&plain(&found, maps), &expected[1], tolerance);
        });
    }
    true
}

#[test]
fn every_height_and_width() {
    for size in 1..28 {
        assert!(check([1, 20, 3, size], 20, [1; 4], Activation::Relu), "3 x {size}");
        assert!(check([1, 17, size, 5], 33, [1; 4], Activation::None), "{size} x 5");
    }
}

#[test]
fn strips_and_bands_begin_anywhere() {
    // More tiles in a row than a strip has; several rows of tiles in one; 17 blocks are two deals.
    assert!(check([2, 16, 6, 101], 16, [1; 4], Activation::HardSwish));
    assert!(check([2, 130, 9, 6], 20, [1; 4], Activation::Relu));
    assert!(check([1, 16, 5, 5], 17 * BLOCK, [1; 4], Activation::None));
}

#[test]
fn pads_of_every_kind() {
    for pads in [[0; 4], [2, 0, 0, 0], [0, 3, 0, 0], [0, 0, 4, 0], [0, 0, 0, 5], [7, 6, 5, 4]] {
        assert!(check([1, 16, 5, 4], 16, pads, Activation::Relu), "{pads:?}");
    }
    assert!(!check([1, 16, 2, 4], 16, [0; 4], Activation::None), "the kernel does not fit");
}

#[test]
fn weights_are_those_of_the_paper() {
    // A kernel with one weight: rows and columns of G, one by one.
    let row = [[1.0, 0.5, 0.5, 0.0], [0.0, 0.5, -0.5, 0.0], [0.0, 0.5, 0.5, 1.0]];
    for (at, (y, x)) in (0..3).flat_map(|y| (0..3).map(move |x| (y, x))).enumerate() {
        let mut weights = [0.0; 9];
        weights[at] = 4.0;
        let own = packed([1, 1, 3, 3], &weights);
        for (place, found) in own.elements::<f32>().iter().step_by(BLOCK).enumerate() {
            assert_eq!(*found, 4.0 * row[y][place / 4] * row[x][place % 4], "{at} {place}");
        }
    }
}

#[test]
fn no_number_stays_where_it_is_met() {
    let mut x = noise(16 * 8 * 8, 1);
    x[3 * 8 + 3] = f32::NAN;
    let (x, w) = (in_blocks(&float(&[1, 16, 8, 8], &x)), packed([16, 16, 3, 3], &noise(2304, 2)));
    let op = BlockedWinograd { window: placed([1; 4]), activation: Activation::Relu };
    let found = plain(&run(&op, &[&x, &w, &float(&[1, 16], &[0.0; 16])]), 16);
    for (at, own) in found.elements::<f32>().iter().enumerate() {
        let (y, x) = (at / 8 % 8, at % 8);
        // Tiles that meet the pixel are those of rows and columns 2 to 5.
        let meets = (2..5).contains(&y) && (2..5).contains(&x);
        let near = (2..6).contains(&y) && (2..6).contains(&x);
        assert!(!meets || own.is_nan(), "{y} {x}: {own}");
        assert!(near || own.is_finite(), "{y} {x}: {own}");
    }
}

#[test]
fn what_is_refused() {
    let info = |dims: &[usize]| TensorInfo::new(DataType::FLOAT, Shape::new(dims).unwrap());
    let op = BlockedWinograd { window: placed([0; 4]), activation: Activation::None };
    let refused = |dims: &[&[usize]]| {
        let infos: Vec<TensorInfo> = dims.iter().map(|dims| info(dims)).collect();
        infer(&op, &infos).unwrap_err().to_string()
    };
    let (x, w, bias) = (&[1, 2, 5, 5, 16][..], &[3, 16, 20, 16][..], &[3, 16][..]);
    assert!(refused(&[x, &[3, 16, 40, 16], bias]).contains("expected [M / 16, 16, C, 16]"));
    assert!(refused(&[x, &[3, 9, 20, 16], bias]).contains("expected [M / 16, 16, C, 16]"));
    assert!(refused(&[x, w, &[2, 16]]).contains("expected [3, 16]"));
    assert!(refused(&[&[1, 2, 5, 2, 16], w, bias]).contains("does not fit"));
    let added: &[&[usize]] = &[x, w, bias, &[1, 3, 3, 4, 16]];
    assert!(refused(added).contains("[1, 3, 3, 4, 16] is added to [1, 3, 3, 3, 16]"));
    for (strides, dilations) in [([1, 2], [1, 1]), ([1, 1], [2, 1])] {
        let mut writer = ParamWriter::default();
        let window = Window { strides, dilations, ..op.window };
        BlockedWinograd { window, ..op }.encode(&mut writer);
        assert!((&op as &dyn Op).line().decode_params(&writer.into_bytes()).is_err());
    }
    assert!(pack_winograd(&[1, 3, 2, 16, 16], &[]).is_none());
}

#[test]
fn it_pays_where_there_are_tiles_and_maps() {
    let pays = |window: &Window, weights: [usize; 5], output: [usize; 2]| {
        let shape = Shape::new(&[1, weights[0], output[0], output[1], BLOCK]).unwrap();
        BlockedWinograd::pays(window, &weights, &shape)
    };
    let same = placed([1; 4]);
    assert!(pays(&same, [2, 3, 3, 32, 16], [32, 32]));
    assert!(pays(&same, [1, 3, 3, 16, 16], [14, 14]));
    assert!(!pays(&same, [1, 3, 3, 16, 16], [2, 2]), "one tile");
    assert!(!pays(&same, [1, 3, 3, 3, 16], [32, 32]), "few maps");
    assert!(!pays(&same, [2, 3, 3, 32, 16], [32, 1]), "half of each tile");
    assert!(!pays(&same, [2, 5, 5, 32, 16], [32, 32]), "another kernel");
    assert!(!pays(&Window { strides: [2; 2], ..same }, [2, 3, 3, 32, 16], [32, 32]));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn as_the_plain_convolution_has_it(
        x in [1usize..3, 1..40, 1..14, 1..30],
        maps in 1usize..50,
        pads in [0usize..4, 0..4, 0..4, 0..4],
        swish in any::<bool>(),
    ) {
        let activation = if swish { Activation::HardSwish } else { Activation::Relu };
        check(x, maps, pads, activation);
    }
}
