//! Images: convolutions, pools, and graphs of them, by loops over places.

use super::*;
use crate::testing::noise;

/// An image or a filter with its dims.
#[derive(Clone, Debug)]
struct Image {
    dims: [usize; 4],
    values: Vec<f32>,
}

impl Image {
    fn noise(dims: [usize; 4], seed: usize) -> Self {
        Self { dims, values: noise(dims.iter().product(), seed) }
    }

    fn at(&self, [a, b, c, d]: [usize; 4]) -> f32 {
        let [_, second, third, fourth] = self.dims;
        self.values[((a * second + b) * third + c) * fourth + d]
    }

    fn wide(&self) -> Vec<i64> {
        self.dims.iter().map(|dim| i64::try_from(*dim).unwrap()).collect()
    }
}

/// How a window moves, the same in both directions.
#[derive(Clone, Copy, Debug)]
struct Step {
    stride: usize,
    dilation: usize,
    same: bool,
}

impl Step {
    /// Number of places, and what is added in front.
    fn places(self, length: usize, kernel: usize) -> (usize, usize) {
        let reach = (kernel - 1) * self.dilation + 1;
        if !self.same {
            return ((length - reach) / self.stride + 1, 0);
        }
        let places = length.div_ceil(self.stride);
        let missing = ((places - 1) * self.stride + reach).saturating_sub(length);
        (places, missing / 2)
    }

    fn attributes(self) -> Vec<(&'static str, Value)> {
        let four = |own: usize| {
            let own = i64::try_from(own).unwrap();
            list(&[1, own, own, 1])
        };
        vec![
            ("strides", four(self.stride)),
            ("dilations", four(self.dilation)),
            ("padding", text(if self.same { "SAME" } else { "VALID" })),
            ("data_format", text("NHWC")),
            ("T", Value::Type(FLOAT)),
            ("use_cudnn_on_gpu", Value::B(true)),
            ("explicit_paddings", list(&[])),
        ]
    }
}

/// For each place of a window: `of` gets the elements inside, with their place in the window.
fn windows(
    x: &Image,
    kernel: [usize; 2],
    step: Step,
    mut of: impl FnMut(usize, &[([usize; 2], [usize; 2])]) -> Vec<f32>,
) -> Vec<f32> {
    let [batch, height, width, _] = x.dims;
    let (rows, top) = step.places(height, kernel[0]);
    let (columns, left) = step.places(width, kernel[1]);
    let mut all = Vec::new();
    for image in 0..batch {
        for (row, column) in (0..rows).flat_map(|row| (0..columns).map(move |at| (row, at))) {
            let mut inside = Vec::new();
            for (i, j) in (0..kernel[0]).flat_map(|i| (0..kernel[1]).map(move |j| (i, j))) {
                let y = (row * step.stride + i * step.dilation).checked_sub(top);
                let x = (column * step.stride + j * step.dilation).checked_sub(left);
                if let (Some(y), Some(x)) = (y, x)
                    && y < height
                    && x < width
                {
                    inside.push(([i, j], [y, x]));
                }
            }
            all.extend(of(image, &inside));
        }
    }
    all
}

fn conv(x: &Image, filter: &Image, step: Step) -> Vec<f32> {
    let [height, width, maps, made] = filter.dims;
    windows(x, [height, width], step, |image, inside| {
        let sum = |to: usize| {
            let terms =
                inside.iter().flat_map(|(tap, place)| (0..maps).map(move |map| (tap, place, map)));
            let product = |(tap, place, map): (&[usize; 2], &[usize; 2], usize)| {
                let weight = filter.at([tap[0], tap[1], map, to]);
                f64::from(x.at([image, place[0], place[1], map])) * f64::from(weight)
            };
            #[expect(clippy::cast_possible_truncation, reason = "to a float's precision")]
            let sum = terms.map(product).sum::<f64>() as f32;
            sum
        };
        (0..made).map(sum).collect()
    })
}

const STEPS: [Step; 6] = [
    Step { stride: 1, dilation: 1, same: true },
    Step { stride: 1, dilation: 1, same: false },
    Step { stride: 2, dilation: 1, same: true },
    Step { stride: 2, dilation: 1, same: false },
    Step { stride: 1, dilation: 2, same: true },
    Step { stride: 1, dilation: 2, same: false },
];

#[test]
fn convolutions_of_any_step() {
    for (step, kernel) in STEPS.iter().flat_map(|step| [[3, 3], [2, 1], [1, 4]].map(|k| (step, k)))
    {
        let x = Image::noise([2, 9, 8, 3], 1);
        let filter = Image::noise([kernel[0], kernel[1], 3, 5], 2);
        let own = Frozen::default()
            .input("x", &x.wide())
            .floats("w", &filter.wide(), &filter.values)
            .node("Conv2D", "y", &["x", "w"], &step.attributes());
        near(&own.run(&[&x.values])[0], &conv(&x, &filter, *step));
    }
}

#[test]
fn filters_of_each_map() {
    for step in STEPS {
        let x = Image::noise([1, 7, 8, 3], 3);
        let filter = Image::noise([3, 2, 3, 2], 4);
        let own = Frozen::default()
            .input("x", &x.wide())
            .floats("w", &filter.wide(), &filter.values)
            .node("Identity", "w/read", &["w"], &[])
            .node("DepthwiseConv2dNative", "y", &["x", "w/read"], &step.attributes());
        let expected = windows(&x, [3, 2], step, |image, inside| {
            let one = |to: usize| {
                let product = |(tap, place): &([usize; 2], [usize; 2])| {
                    x.at([image, place[0], place[1], to / 2])
                        * filter.at([tap[0], tap[1], to / 2, to % 2])
                };
                inside.iter().map(product).sum()
            };
            (0..6).map(one).collect()
        });
        near(&own.run(&[&x.values])[0], &expected);
    }
}

#[test]
#[expect(clippy::cast_precision_loss, reason = "small numbers")]
fn pools_of_what_is_inside() {
    for step in STEPS.into_iter().filter(|step| step.dilation == 1) {
        let x = Image::noise([2, 7, 6, 3], 5);
        let mut attributes = step.attributes();
        attributes.retain(|(name, _)| !matches!(*name, "dilations" | "use_cudnn_on_gpu"));
        attributes.push(("ksize", list(&[1, 3, 2, 1])));
        let with = |op: &str| {
            let own = Frozen::default().input("x", &x.wide()).node(op, "y", &["x"], &attributes);
            own.run(&[&x.values]).remove(0)
        };
        let each = |of: fn(&[f32]) -> f32| {
            windows(&x, [3, 2], step, |image, inside| {
                let one = |map: usize| {
                    let own = inside.iter().map(|(_, [y, at])| x.at([image, *y, *at, map]));
                    of(&own.collect::<Vec<f32>>())
                };
                (0..3).map(one).collect()
            })
        };
        near(&with("MaxPool"), &each(|own| own.iter().copied().fold(f32::MIN, f32::max)));
        near(&with("AvgPool"), &each(|own| own.iter().sum::<f32>() / own.len() as f32));
    }
}

#[test]
fn maps_in_front_and_paddings_that_are_written_out() {
    // One map: both formats have the same elements in the same order.
    let (x, filter) = (Image::noise([1, 5, 4, 1], 6), Image::noise([3, 3, 1, 2], 7));
    let conv = |format: &str, dims: &[i64], pads: &[i64]| {
        let attributes = [
            ("strides", list(&[1, 1, 1, 1])),
            ("padding", text("EXPLICIT")),
            ("explicit_paddings", list(pads)),
            ("data_format", text(format)),
        ];
        Frozen::default()
            .input("x", dims)
            .floats("w", &filter.wide(), &filter.values)
            .floats("b", &[2], &[10.0, 20.0])
            .node("Conv2D", "y", &["x", "w"], &attributes)
            .node("BiasAdd", "z", &["y", "b"], &[("data_format", text(format))])
    };
    let last = conv("NHWC", &[1, 5, 4, 1], &[0, 0, 1, 2, 0, 1, 0, 0]).run(&[&x.values]).remove(0);
    let first = conv("NCHW", &[1, 1, 5, 4], &[0, 0, 0, 0, 1, 2, 0, 1]).run(&[&x.values]).remove(0);
    assert_eq!(last.len(), 2 * 6 * 3);
    for (place, value) in last.iter().enumerate() {
        assert_eq!(first[place % 2 * 18 + place / 2], *value, "the same in another order");
    }
    // A place in the corner by hand: what is added in front of row 0 is a row.
    let by_hand = |to: usize| -> f32 {
        let taps = (1..3).flat_map(|i| (0..3).map(move |j| (i, j)));
        taps.map(|(i, j)| x.at([0, i - 1, j, 0]) * filter.at([i, j, 0, to])).sum()
    };
    near(&last[..2], &[by_hand(0) + 10.0, by_hand(1) + 20.0]);
}

/// Convolution, offset, Relu, pool, convolution, normalisation, a sum, mean, dense, Softmax.
fn network() -> (Frozen, Image) {
    let x = Image::noise([2, 8, 8, 3], 8);
    let (a, b) = (Image::noise([3, 3, 3, 16], 9), Image::noise([3, 3, 16, 16], 10));
    let step = STEPS[0].attributes();
    let pool = [
        ("ksize", list(&[1, 2, 2, 1])),
        ("strides", list(&[1, 2, 2, 1])),
        ("padding", text("VALID")),
    ];
    let norm = [("is_training", Value::B(false)), ("epsilon", Value::F(0.5))];
    let positive: Vec<f32> = noise(16, 14).iter().map(|own| own.abs() + 0.5).collect();
    let own = Frozen::default()
        .input("x", &x.wide())
        .floats("a", &a.wide(), &a.values)
        .floats("b", &b.wide(), &b.values)
        .floats("offset", &[16], &noise(16, 11))
        .floats("scale", &[16], &noise(16, 12))
        .floats("mean", &[16], &noise(16, 13))
        .floats("variance", &[16], &positive)
        .floats("dense", &[16, 4], &noise(64, 15))
        .ints("axes", &[2], &[1, 2])
        .node("Conv2D", "conv", &["x", "a"], &step)
        .node("BiasAdd", "bias", &["conv", "offset"], &[])
        .node("Relu", "relu", &["bias"], &[])
        .node("MaxPool", "pool", &["relu"], &pool)
        .node("Conv2D", "again", &["pool", "b"], &step)
        .node("FusedBatchNormV3", "norm", &["again", "scale", "offset", "mean", "variance"], &norm)
        .node("Relu6", "relu6", &["norm"], &[("T", Value::Type(FLOAT))])
        .node("AddV2", "sum", &["relu6", "pool"], &[])
        .node("Mean", "mean2", &["sum", "axes"], &[("keep_dims", Value::B(false))])
        .node("MatMul", "logits", &["mean2", "dense"], &[])
        .node("Softmax", "y", &["logits"], &[]);
    (own, x)
}

#[test]
fn a_network_has_the_values_of_loops() {
    let (own, x) = network();
    let of = |name: &str| -> Vec<f32> {
        let node = own.0.node.iter().find(|node| node.name == name).unwrap();
        let super::Value::Tensor(tensor) = node.attr[1].value.clone().unwrap().value.unwrap()
        else {
            panic!("{name} is no constant")
        };
        let (words, _) = tensor.tensor_content.as_chunks();
        words.iter().map(|word| f32::from_le_bytes(*word)).collect()
    };
    let (a, b) = (Image { dims: [3, 3, 3, 16], values: of("a") }, of("b"));
    let b = Image { dims: [3, 3, 16, 16], values: b };
    let (offset, scale, mean, variance) = (of("offset"), of("scale"), of("mean"), of("variance"));
    let first = conv(&x, &a, STEPS[0]).into_iter().enumerate();
    let first = first.map(|(at, own)| (own + offset[at % 16]).max(0.0)).collect();
    let first = Image { dims: [2, 8, 8, 16], values: first };
    let halves = Step { stride: 2, dilation: 1, same: false };
    let pooled = windows(&first, [2, 2], halves, |image, inside| {
        let one = |map: usize| {
            let own = inside.iter().map(|(_, [y, at])| first.at([image, *y, *at, map]));
            own.fold(f32::MIN, f32::max)
        };
        (0..16).map(one).collect()
    });
    let pooled = Image { dims: [2, 4, 4, 16], values: pooled };
    let second = conv(&pooled, &b, STEPS[0]).into_iter().enumerate().map(|(at, own)| {
        let map = at % 16;
        let own = (own - mean[map]) / (variance[map] + 0.5).sqrt() * scale[map] + offset[map];
        own.clamp(0.0, 6.0) + pooled.values[at]
    });
    let second: Vec<f32> = second.collect();
    let dense = of("dense");
    let mut expected = Vec::new();
    for image in second.chunks(16 * 16) {
        let means: Vec<f32> =
            (0..16).map(|map| image.iter().skip(map).step_by(16).sum::<f32>() / 16.0).collect();
        let logits = (0..4).map(|to| {
            means.iter().enumerate().map(|(map, own)| own * dense[map * 4 + to]).sum::<f32>()
        });
        let powers: Vec<f32> = logits.map(f32::exp).collect();
        let sum: f32 = powers.iter().sum();
        expected.extend(powers.iter().map(|own| own / sum));
    }
    near(&own.run(&[&x.values])[0], &expected);
}

#[test]
fn transposes_are_left_at_the_borders_only() {
    let tasks = network().0.tasks();
    let transposes = tasks.iter().filter(|op| *op == "Transpose").count();
    assert_eq!(transposes, 1, "of the input: {tasks:?}");
    // One map moves nowhere: no transpose at all.
    let filter = Image::noise([3, 3, 1, 16], 1);
    let own = Frozen::default()
        .input("x", &[1, 4, 4, 1])
        .floats("w", &filter.wide(), &filter.values)
        .node("Conv2D", "y", &["x", "w"], &STEPS[0].attributes());
    let transposes = own.tasks().iter().filter(|op| *op == "Transpose").count();
    assert_eq!(transposes, 1, "of the result: {:?}", own.tasks());
}
