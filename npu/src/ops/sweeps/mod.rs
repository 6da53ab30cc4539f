//! Families of ops over what their own tests have a few samples of: every rank, compared with the
//! definition index by index, and every ISA, compared with the portable code.

mod isas;
mod ranks;

use crate::DataType;
use crate::ops::by_name;
use crate::ops::testing::{Case, Value};
use crate::shape::RANK_MAX;

/// A node of an op by its name.
fn case(name: &str, opset: u32) -> Case {
    Case::new(by_name(name).unwrap_or_else(|| panic!("no op {name}")), opset)
}

/// Numbers that look drawn and are the same every time.
#[derive(Debug)]
struct Draw(u64);

impl Draw {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        usize::try_from(self.0 >> 33).unwrap() % limit
    }

    fn coin(&mut self) -> bool {
        self.below(2) == 1
    }

    /// From `low` to before `high`.
    fn between(&mut self, low: i64, high: i64) -> i64 {
        low + i64::try_from(self.below(usize::try_from(high - low).unwrap())).unwrap()
    }

    /// Dims of 1 to 3, of at most some hundred elements.
    fn dims(&mut self, rank: usize) -> Vec<usize> {
        let mut elements = 1;
        (0..rank)
            .map(|_| {
                let dim = if elements > 300 { 1 } else { 1 + self.below(3) };
                elements *= dim;
                dim
            })
            .collect()
    }

    /// The same where a dim may be 0.
    fn any_dims(&mut self, rank: usize) -> Vec<usize> {
        let mut dims = self.dims(rank);
        if rank > 0 && self.below(8) == 0 {
            let at = self.below(rank);
            dims[at] = 0;
        }
        dims
    }

    /// An axis, from one end or from the other, and which it is.
    fn axis(&mut self, rank: usize) -> (i64, usize) {
        let axis = self.below(rank);
        let from_end = i64::try_from(rank).unwrap();
        let own = i64::try_from(axis).unwrap();
        (if self.coin() { own } else { own - from_end }, axis)
    }
}

/// Every index of a shape, in the order of memory.
fn every(dims: &[usize]) -> Vec<Vec<usize>> {
    let of = |flat: usize| {
        let (mut index, mut rest) = (vec![0; dims.len()], flat);
        for (own, dim) in index.iter_mut().zip(dims).rev() {
            (*own, rest) = (rest % dim, rest / dim);
        }
        index
    };
    (0..dims.iter().product()).map(of).collect()
}

/// A tensor as its definition has it.
#[derive(Clone, Debug, PartialEq)]
struct Tensor {
    dims: Vec<usize>,
    values: Vec<i32>,
}

impl Tensor {
    /// Of what each index has.
    fn of(dims: &[usize], value: impl FnMut(&Vec<usize>) -> i32) -> Self {
        Self { dims: dims.to_vec(), values: every(dims).iter().map(value).collect() }
    }

    /// Numbers from 1 to 97, the same for a seed.
    fn drawn(dims: &[usize], draw: &mut Draw) -> Self {
        Self::of(dims, |_| i32::try_from(draw.below(97)).unwrap() + 1)
    }

    fn at(&self, index: &[usize]) -> i32 {
        let flat = self.dims.iter().zip(index).fold(0, |flat, (dim, own)| flat * dim + own);
        self.values[flat]
    }

    /// Elements of a type of 1, 4 or 8 bytes.
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small numbers")]
    fn value(&self, dtype: DataType) -> Value {
        let Self { dims, values } = self;
        match dtype {
            DataType::FLOAT => {
                Value::new(dims, &values.iter().map(|x| *x as f32).collect::<Vec<_>>())
            }
            DataType::INT64 => {
                Value::new(dims, &values.iter().map(|x| i64::from(*x)).collect::<Vec<_>>())
            }
            DataType::INT32 => Value::new(dims, values),
            other => Value::new(dims, &values.iter().map(|x| *x as u8).collect::<Vec<_>>())
                .of_type(other),
        }
    }
}

/// Types of elements of 1, 4 and 8 bytes.
const TYPES: [DataType; 3] = [DataType::FLOAT, DataType::INT64, DataType::UINT8];

/// Calls `of` often enough with each rank.
fn each_rank(least: usize, mut of: impl FnMut(usize, &mut Draw, DataType)) {
    for rank in least..=RANK_MAX {
        for round in 0..15 {
            let seed = rank * 100 + round;
            of(rank, &mut Draw(seed as u64), TYPES[round % TYPES.len()]);
        }
    }
}
