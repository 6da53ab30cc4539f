//! Every rank from 0 to 8: what an op makes of each index is what its definition says.
#![allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "small numbers")]

use super::{Draw, Tensor, case, each_rank, every};
use crate::DataType;
use crate::ops::testing::{assert_close, float, int64};
use crate::shape::RANK_MAX;

/// A shape that is broadcast to `dims`: dims are left out at the front, or are 1.
fn side(dims: &[usize], draw: &mut Draw) -> Vec<usize> {
    let from = if draw.coin() { draw.below(dims.len() + 1) } else { 0 };
    dims[from..].iter().map(|dim| if draw.below(3) == 0 { 1 } else { *dim }).collect()
}

/// What both make, by numpy's rule.
fn both(a: &[usize], b: &[usize]) -> Vec<usize> {
    let rank = a.len().max(b.len());
    let dim =
        |dims: &[usize], at: usize| (at + dims.len()).checked_sub(rank).map_or(1, |at| dims[at]);
    (0..rank).map(|at| if dim(a, at) == 1 { dim(b, at) } else { dim(a, at) }).collect()
}

/// What an index of the result meets in an operand.
fn met(operand: &Tensor, index: &[usize]) -> i32 {
    let behind = &index[index.len() - operand.dims.len()..];
    let own = behind.iter().zip(&operand.dims).map(|(at, dim)| if *dim == 1 { 0 } else { *at });
    operand.at(&own.collect::<Vec<_>>())
}

/// An op of two operands: its types and what it makes of two numbers.
type Pair = (&'static str, DataType, DataType, fn(i32, i32) -> i32);

/// A reduction: what it makes of all numbers.
type Kind = (&'static str, fn(&[f64]) -> f64);

#[test]
fn two_and_three_operands_that_are_broadcast() {
    each_rank(0, |rank, draw, dtype| {
        let dims = draw.any_dims(rank);
        let [a, b, c] = [(); 3].map(|()| Tensor::drawn(&side(&dims, draw), draw));
        let result = both(&a.dims, &b.dims);
        let pairs: [Pair; 5] = [
            ("Sub", dtype, dtype, |a, b| a - b),
            ("Less", dtype, DataType::BOOL, |a, b| i32::from(a < b)),
            ("Mod", DataType::INT32, DataType::INT32, |a, b| a % b),
            ("Div", DataType::INT64, DataType::INT64, |a, b| a / b),
            ("BitwiseXor", DataType::UINT8, DataType::UINT8, |a, b| a ^ b),
        ];
        for (name, from, to, of) in pairs {
            let expected = Tensor::of(&result, |at| of(met(&a, at), met(&b, at)));
            let case = case(name, 18).variable(a.value(from)).variable(b.value(from));
            assert_eq!(case.run(), expected.value(to), "{name} of {a:?}, {b:?}");
        }
        let result = both(&result, &c.dims);
        let expected = Tensor::of(&result, |at| met(&a, at).max(met(&b, at)).max(met(&c, at)));
        let most = case("Max", 13).variable(a.value(dtype)).variable(b.value(dtype));
        assert_eq!(
            most.variable(c.value(dtype)).run(),
            expected.value(dtype),
            "{a:?}, {b:?}, {c:?}"
        );
        let condition = Tensor::of(&a.dims, |at| a.at(at) % 2);
        let expected =
            Tensor::of(
                &result,
                |at| if met(&condition, at) == 1 { met(&b, at) } else { met(&c, at) },
            );
        let own = case("Where", 16).variable(condition.value(DataType::BOOL));
        let own = own.variable(b.value(dtype)).variable(c.value(dtype));
        assert_eq!(own.run(), expected.value(dtype), "{condition:?}, {b:?}, {c:?}");
    });
}

#[test]
fn one_operand_that_is_expanded_or_repeated() {
    each_rank(0, |rank, draw, dtype| {
        let dims = draw.any_dims(rank);
        let x = Tensor::drawn(&side(&dims, draw), draw);
        let shape: Vec<i64> = dims.iter().map(|dim| i64::try_from(*dim).unwrap()).collect();
        let expected = Tensor::of(&dims, |at| met(&x, at));
        let own = case("Expand", 13).variable(x.value(dtype)).input(int64(&[rank], &shape));
        assert_eq!(own.run(), expected.value(dtype), "{x:?} to {dims:?}");

        let x = Tensor::drawn(&draw.dims(rank), draw);
        let times: Vec<usize> = x.dims.iter().map(|_| (draw.below(7) + 1) / 3).collect();
        let dims: Vec<usize> = x.dims.iter().zip(&times).map(|(dim, times)| dim * times).collect();
        let expected = Tensor::of(&dims, |at| {
            x.at(&at.iter().zip(&x.dims).map(|(at, dim)| at % dim).collect::<Vec<_>>())
        });
        let repeats: Vec<i64> = times.iter().map(|times| i64::try_from(*times).unwrap()).collect();
        let own = case("Tile", 13).variable(x.value(dtype)).input(int64(&[rank], &repeats));
        assert_eq!(own.run(), expected.value(dtype), "{x:?} by {times:?}");
    });
}

#[test]
fn dims_in_any_order() {
    each_rank(0, |rank, draw, dtype| {
        let x = Tensor::drawn(&draw.any_dims(rank), draw);
        let mut order: Vec<usize> = (0..rank).collect();
        (1..rank).for_each(|at| order.swap(at, draw.below(at + 1)));
        let dims: Vec<usize> = order.iter().map(|from| x.dims[*from]).collect();
        let expected = Tensor::of(&dims, |at| {
            let mut from = vec![0; rank];
            order.iter().zip(at).for_each(|(own, at)| from[*own] = *at);
            x.at(&from)
        });
        let perm: Vec<i64> = order.iter().map(|own| i64::try_from(*own).unwrap()).collect();
        let own = case("Transpose", 13).ints("perm", &perm).variable(x.value(dtype));
        assert_eq!(own.run(), expected.value(dtype), "{x:?}, {order:?}");
    });
}

#[test]
fn reductions_along_any_axes() {
    let kinds: [Kind; 10] = [
        ("ReduceSum", |x| x.iter().sum()),
        ("ReduceMax", |x| x.iter().copied().fold(f64::MIN, f64::max)),
        ("ReduceMin", |x| x.iter().copied().fold(f64::MAX, f64::min)),
        ("ReduceL1", |x| x.iter().map(|x| x.abs()).sum()),
        ("ReduceSumSquare", |x| x.iter().map(|x| x * x).sum()),
        ("ReduceMean", |x| x.iter().sum::<f64>() / x.len() as f64),
        ("ReduceL2", |x| x.iter().map(|x| x * x).sum::<f64>().sqrt()),
        ("ReduceProd", |x| x.iter().product()),
        ("ReduceLogSum", |x| x.iter().sum::<f64>().ln()),
        ("ReduceLogSumExp", |x| x.iter().map(|x| x.exp()).sum::<f64>().ln()),
    ];
    each_rank(0, |rank, draw, dtype| {
        let x = Tensor::drawn(&draw.dims(rank), draw);
        let mut axes: Vec<usize> = (0..rank).filter(|_| draw.coin()).collect();
        let given: Vec<i64> = axes
            .iter()
            .map(|axis| i64::try_from(*axis).unwrap() - if draw.coin() { rank as i64 } else { 0 })
            .collect();
        if axes.is_empty() {
            axes = (0..rank).collect();
        }
        let keep = draw.coin();
        let kept: Vec<usize> =
            (0..rank).map(|dim| if axes.contains(&dim) { 1 } else { x.dims[dim] }).collect();
        let dims = (0..rank).filter(|dim| keep || !axes.contains(dim)).map(|dim| kept[dim]);
        let dims: Vec<usize> = dims.collect();
        for (name, of) in kinds {
            // A tenth of the numbers, so that products and exponentials are no infinities.
            let tenth = f64::from(u8::from(dtype == DataType::FLOAT)) * 0.9;
            let number =
                |x: i32| f64::from(x) * (1.0 - tenth) / if tenth > 0.0 { 8.0 } else { 1.0 };
            let expected: Vec<f64> = every(&kept)
                .iter()
                .map(|to| {
                    let own = every(&x.dims).into_iter().filter(|from| {
                        (0..rank).all(|dim| axes.contains(&dim) || from[dim] == to[dim])
                    });
                    of(&own.map(|from| number(x.at(&from))).collect::<Vec<_>>())
                })
                .collect();
            let own = case(name, 18).int("keepdims", i64::from(keep));
            if dtype == DataType::FLOAT {
                let values: Vec<f32> = x.values.iter().map(|x| number(*x) as f32).collect();
                let own = own.variable(float(&x.dims, &values));
                let expected: Vec<f32> = expected.iter().map(|x| *x as f32).collect();
                let found = own.input(int64(&[given.len()], &given)).run();
                assert_close(&found, &float(&dims, &expected), 1e-5);
            } else if dtype == DataType::INT64 && !name.contains("Prod") {
                let own = own.variable(x.value(dtype)).input(int64(&[given.len()], &given));
                let expected: Vec<i64> = expected.iter().map(|x| x.trunc() as i64).collect();
                assert_eq!(own.run(), int64(&dims, &expected), "{name} of {x:?} along {given:?}");
            }
        }
    });
}

#[test]
fn parts_that_are_joined() {
    each_rank(1, |rank, draw, dtype| {
        let dtype = if dtype == DataType::UINT8 { DataType::INT32 } else { dtype };
        let (given, axis) = draw.axis(rank);
        let mut dims = draw.any_dims(rank);
        let parts: Vec<Tensor> = (0..3)
            .map(|_| {
                dims[axis] = draw.below(4);
                Tensor::drawn(&dims, draw)
            })
            .collect();
        dims[axis] = parts.iter().map(|part| part.dims[axis]).sum();
        let expected = Tensor::of(&dims, |at| {
            let mut at = at.clone();
            for part in &parts {
                if at[axis] < part.dims[axis] {
                    return part.at(&at);
                }
                at[axis] -= part.dims[axis];
            }
            unreachable!("behind the last part")
        });
        let own = case("Concat", 13).int("axis", given);
        let own = parts.iter().fold(own, |own, part| own.variable(part.value(dtype)));
        assert_eq!(own.run(), expected.value(dtype), "{parts:?} along {axis}");
    });
}

#[test]
fn places_that_are_gathered() {
    each_rank(1, |rank, draw, dtype| {
        let (given, axis) = draw.axis(rank);
        let x = Tensor::drawn(&draw.dims(rank), draw);
        let rank_of_places = draw.below(3.min(RANK_MAX - rank + 1) + 1);
        let places_dims = draw.any_dims(rank_of_places);
        let dim = i64::try_from(x.dims[axis]).unwrap();
        let count = places_dims.iter().product();
        let places: Vec<i64> = (0..count).map(|_| draw.between(-dim, dim)).collect();
        let dims = [&x.dims[..axis], &places_dims, &x.dims[axis + 1..]].concat();
        let expected = Tensor::of(&dims, |at| {
            let (front, rest) = at.split_at(axis);
            let (own, behind) = rest.split_at(rank_of_places);
            let flat = places_dims.iter().zip(own).fold(0, |flat, (dim, own)| flat * dim + own);
            let place = usize::try_from((places[flat] + dim) % dim).unwrap();
            x.at(&[front, &[place], behind].concat())
        });
        let own = case("Gather", 13).int("axis", given).variable(x.value(dtype));
        let own = own.variable(int64(&places_dims, &places));
        assert_eq!(own.run(), expected.value(dtype), "{x:?} at {places:?} along {axis}");
    });
}

#[test]
fn slices_along_every_axis() {
    each_rank(1, |rank, draw, dtype| {
        let x = Tensor::drawn(&draw.any_dims(rank), draw);
        let cuts: Vec<(i64, i64, i64)> = (0..rank)
            .map(|_| (draw.between(-4, 5), draw.between(-5, 6), [-2, -1, 1, 2][draw.below(4)]))
            .collect();
        // Python's rule.
        let places = |dim: usize, (start, end, step): (i64, i64, i64)| {
            let dim = i64::try_from(dim).unwrap();
            let (low, high) = if step > 0 { (0, dim) } else { (-1, dim - 1) };
            let end_of = |at: i64| (if at < 0 { at + dim } else { at }).clamp(low, high.max(low));
            let mut own = Vec::new();
            // As numpy has it, but a start before the first element is the first one.
            let mut at = (if start < 0 { start + dim } else { start }).max(0).min(high);
            let end = end_of(end);
            while (step > 0 && at < end) || (step < 0 && at > end) {
                own.push(usize::try_from(at).unwrap());
                at += step;
            }
            own
        };
        let kept: Vec<Vec<usize>> =
            x.dims.iter().zip(&cuts).map(|(dim, cut)| places(*dim, *cut)).collect();
        let dims: Vec<usize> = kept.iter().map(Vec::len).collect();
        let expected = Tensor::of(&dims, |at| {
            x.at(&kept.iter().zip(at).map(|(own, at)| own[*at]).collect::<Vec<_>>())
        });
        let axes: Vec<i64> = (0..rank as i64).collect();
        let list = |of: fn(&(i64, i64, i64)) -> i64| {
            int64(&[rank], &cuts.iter().map(of).collect::<Vec<_>>())
        };
        let own = case("Slice", 13).variable(x.value(dtype)).input(list(|cut| cut.0));
        let own =
            own.input(list(|cut| cut.1)).input(int64(&[rank], &axes)).input(list(|cut| cut.2));
        assert_eq!(own.run(), expected.value(dtype), "{x:?}, {cuts:?}");
    });
}

#[test]
fn padding_of_every_kind() {
    each_rank(1, |rank, draw, dtype| {
        let x = Tensor::drawn(&draw.dims(rank), draw);
        for mode in ["constant", "edge", "reflect", "wrap"] {
            let limit = |dim: usize| if mode == "reflect" { dim - 1 } else { dim.min(2) };
            let pads: Vec<i64> = [0, 1]
                .iter()
                .flat_map(|_| x.dims.clone())
                .map(|dim| {
                    let low = if mode == "constant" && dim > 2 { -1 } else { 0 };
                    let pad = draw.between(low, i64::try_from(limit(dim)).unwrap() + 1);
                    if draw.below(3) == 0 { pad } else { 0 }
                })
                .collect();
            let dims: Vec<usize> = (0..rank)
                .map(|dim| x.dims[dim] as i64 + pads[dim] + pads[dim + rank])
                .map(|dim| usize::try_from(dim).unwrap())
                .collect();
            let expected = Tensor::of(&dims, |at| {
                let mut from = Vec::new();
                for dim in 0..rank {
                    let (own, at) = (x.dims[dim] as i64, at[dim] as i64 - pads[dim]);
                    from.push(match mode {
                        "constant" if at < 0 || at >= own => return 55,
                        "edge" => at.clamp(0, own - 1),
                        "reflect" if at < 0 => -at,
                        "reflect" if at >= own => 2 * own - 2 - at,
                        "wrap" => at.rem_euclid(own),
                        _ => at,
                    });
                }
                let from = from.iter().map(|at| usize::try_from(*at).unwrap());
                x.at(&from.collect::<Vec<_>>())
            });
            let fill = Tensor { dims: Vec::new(), values: vec![55] };
            let own = case("Pad", 19).text("mode", mode).variable(x.value(dtype));
            let own = own.input(int64(&[2 * rank], &pads)).variable(fill.value(dtype));
            assert_eq!(own.run(), expected.value(dtype), "{mode}: {x:?} by {pads:?}");
        }
    });
}

#[test]
fn shares_along_an_axis_or_from_one_on() {
    each_rank(1, |rank, draw, _| {
        let (given, axis) = draw.axis(rank);
        let x = Tensor::drawn(&draw.dims(rank), draw);
        let values: Vec<f32> = x.values.iter().map(|x| (*x as f32) / 20.0).collect();
        let same = |opset: u32, a: &[usize], b: &[usize]| match opset {
            13 => (0..rank).all(|dim| dim == axis || a[dim] == b[dim]),
            _ => a[..axis] == b[..axis],
        };
        for opset in [11, 13] {
            let of = |log: bool| {
                let own = every(&x.dims).into_iter().map(|at| {
                    let others = every(&x.dims).into_iter().filter(|own| same(opset, &at, own));
                    let exp = |at: &[usize]| (f64::from(x.at(at)) / 20.0).exp();
                    let share = exp(&at) / others.map(|at| exp(&at)).sum::<f64>();
                    (if log { share.ln() } else { share }) as f32
                });
                float(&x.dims, &own.collect::<Vec<_>>())
            };
            for (name, log) in [("Softmax", false), ("LogSoftmax", true)] {
                let own = case(name, opset).int("axis", given).variable(float(&x.dims, &values));
                assert_close(&own.run(), &of(log), 1e-5);
            }
        }
    });
}

#[test]
fn views_keep_the_order() {
    each_rank(0, |rank, draw, dtype| {
        let dtype = if dtype == DataType::UINT8 { DataType::INT32 } else { dtype };
        let x = Tensor::drawn(&draw.any_dims(rank), draw);
        let ones: Vec<usize> = (0..rank).filter(|dim| x.dims[*dim] == 1 && draw.coin()).collect();
        let left = (0..rank).filter(|dim| !ones.contains(dim)).map(|dim| x.dims[dim]);
        let left = Tensor { dims: left.collect(), values: x.values.clone() };
        let axes: Vec<i64> = ones.iter().map(|dim| i64::try_from(*dim).unwrap()).collect();
        let axes = int64(&[axes.len()], &axes);
        if !ones.is_empty() {
            let own = case("Squeeze", 13).variable(x.value(dtype)).input(axes.clone());
            assert_eq!(own.run(), left.value(dtype), "{x:?} without {ones:?}");
            let own = case("Unsqueeze", 13).variable(left.value(dtype)).input(axes);
            assert_eq!(own.run(), x.value(dtype), "{x:?} with {ones:?}");
        }
        let mut turned = x.clone();
        turned.dims.reverse();
        let shape: Vec<i64> = turned.dims.iter().map(|dim| i64::try_from(*dim).unwrap()).collect();
        let own = case("Reshape", 14).int("allowzero", 1).variable(x.value(dtype));
        assert_eq!(own.input(int64(&[rank], &shape)).run(), turned.value(dtype), "{x:?}");
        let at = draw.below(rank + 1);
        let dims = vec![x.dims[..at].iter().product(), x.dims[at..].iter().product()];
        let flat = Tensor { dims, values: x.values.clone() };
        let own = case("Flatten", 13).int("axis", at as i64).variable(x.value(dtype));
        assert_eq!(own.run(), flat.value(dtype), "{x:?} from {at} on");
    });
}

#[test]
fn the_greatest_along_an_axis_and_sums_on_the_way() {
    each_rank(1, |rank, draw, dtype| {
        let (given, axis) = draw.axis(rank);
        let x = Tensor::drawn(&draw.dims(rank), draw);
        let x = Tensor { values: x.values.iter().map(|x| x % 5 + 1).collect(), ..x };
        let lane = |at: &[usize]| -> Vec<i32> {
            let mut at = at.to_vec();
            (0..x.dims[axis])
                .map(|own| {
                    at[axis] = own;
                    x.at(&at)
                })
                .collect()
        };
        let (keep, last) = (draw.coin(), draw.coin());
        let mut dims = x.dims.clone();
        dims[axis] = 1;
        for (name, sign) in [("ArgMax", 1), ("ArgMin", -1)] {
            let mut expected = Tensor::of(&dims, |at| {
                let own: Vec<i32> = lane(at).iter().map(|x| x * sign).collect();
                let most = own.iter().max().unwrap();
                let place = own.iter().position(|x| x == most);
                let place = if last { own.iter().rposition(|x| x == most) } else { place };
                i32::try_from(place.unwrap()).unwrap()
            });
            if !keep {
                expected.dims.remove(axis);
            }
            let own = case(name, 13).int("axis", given).int("keepdims", i64::from(keep));
            let own = own.int("select_last_index", i64::from(last)).variable(x.value(dtype));
            assert_eq!(own.run(), expected.value(DataType::INT64), "{name} of {x:?} along {axis}");
        }
        let (exclusive, reverse) = (draw.coin(), draw.coin());
        let expected = Tensor::of(&x.dims, |at| {
            let (own, place) = (lane(at), at[axis]);
            match (reverse, exclusive) {
                (false, false) => own[..=place].iter().sum(),
                (false, true) => own[..place].iter().sum(),
                (true, false) => own[place..].iter().sum(),
                (true, true) => own[place + 1..].iter().sum(),
            }
        });
        let dtype = if dtype == DataType::UINT8 { DataType::INT32 } else { dtype };
        let own = case("CumSum", 14).int("exclusive", i64::from(exclusive));
        let own = own.int("reverse", i64::from(reverse)).variable(x.value(dtype));
        assert_eq!(own.input(int64(&[], &[given])).run(), expected.value(dtype), "{x:?}, {axis}");
    });
}
