//! What ops compute, in the plainest way: loops over indices in `f64`. Nothing here is used by, or
//! taken from, what is tested.

use dflow::Tensor;

use super::tensor::{as_floats, floats};
use crate::random::Random;

/// Values with their dims.
#[derive(Clone, Debug)]
pub struct Array {
    /// Dims, outermost first.
    pub dims: Vec<usize>,
    /// Values, row by row.
    pub values: Vec<f64>,
}

/// Every index of a shape, in row-major order.
#[must_use]
pub fn indices(dims: &[usize]) -> Vec<Vec<usize>> {
    dims.iter().fold(vec![vec![]], |all, dim| {
        let longer = |index: &Vec<usize>| {
            let index = index.clone();
            (0..*dim).map(move |last| [&index[..], &[last]].concat())
        };
        all.iter().flat_map(longer).collect()
    })
}

impl Array {
    /// Values computed index by index.
    pub fn made(dims: &[usize], value: impl FnMut(&[usize]) -> f64) -> Self {
        let mut value = value;
        let values = indices(dims).iter().map(|index| value(index)).collect();
        Self { dims: dims.to_vec(), values }
    }

    /// Random values from −2 to 2 in steps of 1/1000.
    #[must_use]
    pub fn random(dims: &[usize], seed: u64) -> Self {
        let mut random = Random::new(seed);
        Self::made(dims, |_| {
            let step = u16::try_from(random.below(4001)).unwrap_or(0);
            // As a message carries it.
            f64::from((f32::from(step) - 2000.0) / 1000.0)
        })
    }

    /// The value at an index.
    #[must_use]
    pub fn at(&self, index: &[usize]) -> f64 {
        let place = self.dims.iter().zip(index).fold(0, |place, (dim, at)| place * dim + at);
        self.values[place]
    }

    /// The value at an index of a larger shape, as numpy broadcasts.
    #[must_use]
    pub fn broadcast_at(&self, index: &[usize]) -> f64 {
        let own = &index[index.len() - self.dims.len()..];
        let own = own.iter().zip(&self.dims).map(|(at, dim)| if *dim == 1 { 0 } else { *at });
        self.at(&own.collect::<Vec<_>>())
    }

    /// As a message carries it.
    #[must_use]
    pub fn tensor(&self) -> Tensor {
        let dims: Vec<i64> =
            self.dims.iter().map(|dim| i64::try_from(*dim).unwrap_or(i64::MAX)).collect();
        #[allow(clippy::cast_possible_truncation, reason = "rounding to float32 is what is meant")]
        let values: Vec<f32> = self.values.iter().map(|value| *value as f32).collect();
        floats(&dims, &values)
    }

    /// Of a tensor of floats.
    #[must_use]
    pub fn of(tensor: &Tensor) -> Self {
        let dims = tensor.shape.iter().map(|dim| usize::try_from(*dim).unwrap_or(0)).collect();
        Self { dims, values: as_floats(tensor).into_iter().map(f64::from).collect() }
    }

    /// Each value on its own.
    #[must_use]
    pub fn map(&self, value: impl Fn(f64) -> f64) -> Self {
        Self { dims: self.dims.clone(), values: self.values.iter().map(|x| value(*x)).collect() }
    }
}

/// What a convolution is told; lists have one number a spatial dim.
#[derive(Clone, Debug)]
pub struct Window {
    /// Distance between places.
    pub strides: Vec<usize>,
    /// Distance between elements of the kernel.
    pub dilations: Vec<usize>,
    /// Zeros before.
    pub before: Vec<usize>,
    /// Zeros after.
    pub after: Vec<usize>,
    /// Groups.
    pub group: usize,
}

impl Window {
    /// Of so many spatial dims, with nothing special.
    #[must_use]
    pub fn plain(rank: usize) -> Self {
        let (ones, none) = (vec![1; rank], vec![0; rank]);
        let dilations = ones.clone();
        Self { strides: ones, dilations, before: none.clone(), after: none, group: 1 }
    }
}

/// Convolution of `x` `[N, C, D…]` with `w` `[M, C / group, K…]` and one bias an output map.
#[must_use]
pub fn conv(x: &Array, w: &Array, bias: Option<&Array>, window: &Window) -> Array {
    let kernel = &w.dims[2..];
    let (maps, per_group) = (w.dims[0], w.dims[1]);
    let size = |dim: usize| {
        let padded = x.dims[2 + dim] + window.before[dim] + window.after[dim];
        let reach = window.dilations[dim] * (kernel[dim] - 1) + 1;
        (padded - reach) / window.strides[dim] + 1
    };
    let mut dims = vec![x.dims[0], maps];
    dims.extend((0..kernel.len()).map(size));
    Array::made(&dims, |place| {
        let (batch, map) = (place[0], place[1]);
        let first = map / (maps / window.group) * per_group;
        let mut sum = bias.map_or(0.0, |bias| bias.at(&[map]));
        for element in indices(&w.dims[1..]) {
            let mut from = vec![batch, first + element[0]];
            for dim in 0..kernel.len() {
                let padded =
                    place[2 + dim] * window.strides[dim] + element[1 + dim] * window.dilations[dim];
                let inside = padded.checked_sub(window.before[dim]);
                from.extend(inside.filter(|at| *at < x.dims[2 + dim]));
            }
            if from.len() == x.dims.len() {
                sum += x.at(&from) * w.at(&[&[map], &element[..]].concat());
            }
        }
        sum
    })
}

/// Matrix product of `a` `[B…, N, K]` and `b` `[B…, K, M]`; dims before the last two broadcast.
#[must_use]
pub fn mat_mul(a: &Array, b: &Array, dims: &[usize]) -> Array {
    let inner = a.dims[a.dims.len() - 1];
    Array::made(dims, |place| {
        let (batch, rest) = place.split_at(dims.len() - 2);
        let at = |row: usize, column: usize| [batch, &[row, column]].concat();
        (0..inner).map(|k| a.broadcast_at(&at(rest[0], k)) * b.broadcast_at(&at(k, rest[1]))).sum()
    })
}

/// exp(x) by its sum over the dims `from` to `to`.
#[must_use]
pub fn softmax(x: &Array, from: usize, to: usize) -> Array {
    Array::made(&x.dims, |place| {
        let beside = |index: &Vec<usize>| [&place[..from], &index[..], &place[to..]].concat();
        let all: Vec<f64> =
            indices(&x.dims[from..to]).iter().map(|index| x.at(&beside(index))).collect();
        let greatest = all.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = all.iter().map(|value| (value - greatest).exp()).sum();
        (x.at(place) - greatest).exp() / sum
    })
}

/// Mean of everything behind the first two dims.
#[must_use]
pub fn global_average(x: &Array) -> Array {
    let spatial = indices(&x.dims[2..]);
    let dims: Vec<usize> =
        (0..x.dims.len()).map(|dim| if dim < 2 { x.dims[dim] } else { 1 }).collect();
    Array::made(&dims, |place| {
        let at = |index: &Vec<usize>| x.at(&[&place[..2], &index[..]].concat());
        let count = u32::try_from(spatial.len()).unwrap_or(1);
        spatial.iter().map(at).sum::<f64>() / f64::from(count)
    })
}

/// `scale · (x − mean) / √(variance + epsilon) + bias`, one of each for every map; `params` are
/// scale, bias, mean and variance.
#[must_use]
pub fn batch_normalization(x: &Array, params: [&Array; 4], epsilon: f64) -> Array {
    let [scale, bias, mean, variance] = params;
    Array::made(&x.dims, |place| {
        let map = &place[1..2];
        let width = (variance.at(map) + epsilon).sqrt();
        scale.at(map) * (x.at(place) - mean.at(map)) / width + bias.at(map)
    })
}

/// min(max(alpha · x + beta, 0), 1)
#[must_use]
pub fn hard_sigmoid(x: f64, alpha: f64, beta: f64) -> f64 {
    (alpha * x + beta).clamp(0.0, 1.0)
}
