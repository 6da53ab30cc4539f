//! Tests of attention: against plain sums on every ISA, and what is refused.

use super::*;
use crate::isa::Isa;
use crate::ops::blocked::tests::run;
use crate::ops::infer;
use crate::ops::testing::{Value, float, noise};

/// Dims of one call.
#[derive(Clone, Copy, Debug)]
struct Dims {
    n: usize,
    h: usize,
    s: usize,
    t: usize,
    d: usize,
    e: usize,
}

impl Dims {
    fn operand(self, rows: usize, width: usize, by_row: bool, seed: u64) -> Value {
        let dims =
            if by_row { [self.n, rows, self.h, width] } else { [self.n, self.h, rows, width] };
        float(&dims, &noise(dims.iter().product(), seed))
    }
}

/// The element of one matrix at a row and a column.
fn element(value: &Value, by_row: bool, [n, h, row, column]: [usize; 4]) -> f64 {
    let dims = value.info.shape.dims();
    let [a, b] = if by_row { [row, h] } else { [h, row] };
    let place = ((n * dims[1] + a) * dims[2] + b) * dims[3] + column;
    f64::from(value.elements::<f32>()[place])
}

/// The element of a mask for an element of the products.
fn of_mask(mask: &Value, at: [usize; 4]) -> f64 {
    let dims = mask.info.shape.dims();
    let own = &at[4 - dims.len()..];
    let place = dims.iter().zip(own).fold(0, |place, (dim, at)| place * dim + at.min(&(dim - 1)));
    f64::from(mask.elements::<f32>()[place])
}

fn expected(op: &Attend, dims: Dims, operands: &[&Value], [n, h, row]: [usize; 3]) -> Vec<f64> {
    let [q, k, v] = [operands[0], operands[1], operands[2]];
    let product = |key: usize| {
        let key_at = |x| if op.keys_turned { [n, h, x, key] } else { [n, h, key, x] };
        let terms = (0..dims.d).map(|x| {
            element(q, op.by_row[0], [n, h, row, x]) * element(k, op.by_row[1], key_at(x))
        });
        let added = operands.get(3).map_or(0.0, |mask| of_mask(mask, [n, h, row, key]));
        terms.sum::<f64>() * f64::from(op.scale) + added
    };
    let products: Vec<f64> = (0..dims.t).map(product).collect();
    let greatest = products.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let shares: Vec<f64> = products.iter().map(|x| (x - greatest).exp()).collect();
    let sum: f64 = shares.iter().sum();
    let column = |column| {
        let own = shares.iter().enumerate();
        own.map(|(key, x)| x * element(v, op.by_row[2], [n, h, key, column])).sum::<f64>() / sum
    };
    (0..dims.e).map(column).collect()
}

fn check(op: &Attend, dims: Dims, mask: Option<&Value>) {
    let [q, k, v, out] = op.by_row;
    let keys = if op.keys_turned { [dims.d, dims.t] } else { [dims.t, dims.d] };
    let q = dims.operand(dims.s, dims.d, q, 1);
    let k = dims.operand(keys[0], keys[1], k, 2);
    let v = dims.operand(dims.t, dims.e, v, 3);
    let operands: Vec<&Value> = [&q, &k, &v].into_iter().chain(mask).collect();
    for isa in Isa::ALL {
        let found = isa::at_most(isa, || run(op, &operands));
        for (n, h, row) in (0..dims.n)
            .flat_map(|n| (0..dims.h * dims.s).map(move |at| (n, at / dims.s, at % dims.s)))
        {
            let expected = expected(op, dims, &operands, [n, h, row]);
            for (column, expected) in expected.into_iter().enumerate() {
                let found = element(&found, out, [n, h, row, column]);
                let close = (found - expected).abs() < 1e-5 || found.is_nan() && expected.is_nan();
                assert!(close, "{op:?} {dims:?} {isa:?} at {row}: {found}, expected {expected}");
            }
        }
    }
}

const PLAIN: Attend = Attend { scale: 0.25, by_row: [false; 4], keys_turned: false, hides: false };

#[test]
fn every_size() {
    let sizes = [(1, 1, 1, 1), (5, 7, 8, 3), (24, 16, 16, 16), (31, 33, 20, 40), (50, 100, 3, 17)];
    for (s, t, d, e) in sizes {
        check(&PLAIN, Dims { n: 2, h: 3, s, t, d, e }, None);
    }
}

#[test]
fn what_is_hidden_may_be_no_number() {
    let dims = Dims { n: 1, h: 2, s: 26, t: 37, d: 6, e: 5 };
    let q = dims.operand(dims.s, dims.d, false, 1);
    let v = dims.operand(dims.t, dims.e, false, 3);
    let keys = |of: f32| {
        let mut values = noise(dims.h * dims.t * dims.d, 2);
        for (place, value) in values.iter_mut().enumerate() {
            // One in the vectors, one behind them.
            if [3, 35].contains(&(place / dims.d % dims.t)) {
                *value = of;
            }
        }
        float(&[dims.n, dims.h, dims.t, dims.d], &values)
    };
    for hidden in [f32::NEG_INFINITY, f32::MIN] {
        let mut mask = vec![0.0; dims.t];
        (mask[3], mask[35]) = (hidden, hidden);
        let mask = float(&[dims.t], &mask);
        let hides = Attend { hides: true, ..PLAIN };
        for isa in Isa::ALL {
            let of = |op: &Attend, of: f32| {
                let keys = keys(of);
                isa::at_most(isa, || run(op, &[&q, &keys, &v, &mask]))
            };
            let expected = of(&PLAIN, 0.0);
            for odd in [f32::NAN, f32::INFINITY, 3e38] {
                let found = of(&hides, odd);
                let pairs = found.elements::<f32>().iter().zip(expected.elements::<f32>());
                let apart = pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
                assert!(apart < 1e-6, "{isa:?} {odd}: {apart}");
            }
            // A mask that is added hides nothing of that kind.
            assert!(of(&PLAIN, f32::NAN).elements::<f32>().iter().any(|x| x.is_nan()));
        }
    }
}

#[test]
fn every_layout() {
    let dims = Dims { n: 2, h: 3, s: 26, t: 19, d: 6, e: 18 };
    for bits in 0..16 {
        let by_row = [1, 2, 4, 8].map(|bit| bits & bit != 0);
        check(&Attend { by_row, ..PLAIN }, dims, None);
        if !by_row[1] {
            check(&Attend { by_row, keys_turned: true, ..PLAIN }, dims, None);
        }
    }
    // Without heads, and with one dim before.
    let [q, k, v] = [(5, 4), (7, 4), (7, 9)];
    let own = |(rows, width): (usize, usize), dims: &[usize]| {
        let dims = [dims, &[rows, width]].concat();
        float(&dims, &noise(dims.iter().product(), 4))
    };
    let two = run(&PLAIN, &[&own(q, &[]), &own(k, &[]), &own(v, &[])]);
    let three = run(&PLAIN, &[&own(q, &[1]), &own(k, &[1]), &own(v, &[1])]);
    assert_eq!((two.info.shape.dims(), three.info.shape.dims()), (&[5, 9][..], &[1, 5, 9][..]));
    assert_eq!(two.bytes[..], three.bytes[..]);
}

#[test]
fn every_mask() {
    let dims = Dims { n: 2, h: 3, s: 26, t: 19, d: 6, e: 4 };
    let masks: [&[usize]; 9] = [
        &[],
        &[19],
        &[26, 1],
        &[26, 19],
        &[2, 1, 1, 19],
        &[1, 3, 26, 1],
        &[2, 3, 26, 19],
        &[3, 1, 19],
        &[1, 1, 26, 19],
    ];
    for mask in masks {
        let mut values = noise(mask.iter().product(), 5);
        values.iter_mut().step_by(3).skip(1).for_each(|own| *own = f32::NEG_INFINITY);
        let mask = float(mask, &values);
        for out in [false, true] {
            check(&Attend { by_row: [true, false, false, out], ..PLAIN }, dims, Some(&mask));
        }
    }
    // As a softmax of nothing but negative infinities.
    let hidden = float(&[1], &[f32::NEG_INFINITY]);
    check(&PLAIN, dims, Some(&hidden));
}

#[test]
fn large_products_do_not_overflow() {
    let dims = Dims { n: 1, h: 1, s: 3, t: 40, d: 16, e: 16 };
    check(&Attend { scale: 100.0, ..PLAIN }, dims, None);
}

#[test]
fn what_is_refused() {
    let refused = |op: &Attend, shapes: &[&[usize]]| {
        let info =
            |dims: &&[usize]| TensorInfo::new(crate::DataType::FLOAT, Shape::new(dims).unwrap());
        let infos: Vec<TensorInfo> = shapes.iter().map(info).collect();
        infer(op, &infos).unwrap_err().to_string()
    };
    let (q, k, v) = (&[2, 5, 4][..], &[2, 7, 4][..], &[2, 7, 9][..]);
    for shapes in [[q, k, &[2, 8, 9]], [q, &[2, 7, 3], v], [&[3, 5, 4], k, v], [q, k, &[2, 0, 9]]] {
        assert!(refused(&PLAIN, &shapes).contains("the same dims before"), "{shapes:?}");
    }
    let by_row = Attend { by_row: [false, false, false, true], ..PLAIN };
    assert!(refused(&by_row, &[q, k, v]).contains("the same dims before"));
    let mask = refused(&PLAIN, &[q, k, v, &[3, 5, 7]]);
    assert!(mask.contains("[3, 5, 7] does not broadcast to [2, 5, 7]"), "{mask}");
    let line = [1, 1 << 30];
    assert!(refused(&PLAIN, &[&[1, 1], &[1 << 30, 1], &line]).contains("too large"));
}
