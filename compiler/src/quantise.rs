//! Quantised layers: a convolution or a product between DequantizeLinear and QuantizeLinear becomes
//! one task on bytes, and so do QLinearConv, QLinearMatMul and MatMulInteger with constant weights.
//!
//! Sums are those of the bytes, exactly; of what the unfused graph computes, which rounds floats on
//! the way, a result differs by one quantum at most, where it lies next to the middle between two.

mod elements;

use npu::DataType;
use npu::ops::add::Add;
use npu::ops::blocked::{
    BLOCK, Finish, QuantisedConv, QuantisedDense, QuantisedDepthwise, Window, blocks,
    pack_depthwise, pack_kernel, pack_maps, pack_pairs,
};
use npu::ops::conv::Conv;
use npu::ops::general_mat_mul::GeneralMatMul;
use npu::ops::integer_conv::IntegerConv;
use npu::ops::integer_product::IntegerProduct;
use npu::ops::mat_mul::MatMul;
use npu::ops::quantize::{Linear, Way};
use npu::ops::{Activation, Op};
use npu::shape::Shape;
use npu::tensor::TensorInfo;

use crate::typed::{TensorIndex, Typed};

/// Largest whole number up to which floats have all.
const EXACT: i64 = 1 << 24;

/// Weights as whole numbers without their zeros, and one scale for all or one a column or map.
struct Weights {
    dims: Vec<usize>,
    values: Vec<i16>,
    scales: Vec<f32>,
}

/// What is multiplied.
enum Kind {
    Conv(Conv),
    /// A matrix `[K, N]`, or `[N, K]`.
    Dense {
        transposed: bool,
    },
}

/// A layer that is found.
struct Layer {
    kind: Kind,
    /// Bytes, with scale and zero.
    x: TensorIndex,
    scale: f32,
    zero: i32,
    /// The zero of x when it is computed.
    given_zero: Option<TensorIndex>,
    weights: Weights,
    bias: Vec<i32>,
    activation: Activation,
    /// Scale, zero and type of the result; none for floats.
    end: Option<(f32, i32, DataType)>,
    /// The sums are the result.
    sums: bool,
    /// Nodes that it takes in, and what the last one makes.
    taken: Vec<usize>,
    output: TensorIndex,
}

type Found = Result<Layer, String>;

impl Typed {
    /// Makes quantised layers of what is one.
    pub(crate) fn quantise(&mut self) {
        let readers = self.readers();
        let mut gone = vec![false; self.nodes.len()];
        for index in 0..self.nodes.len() {
            let made = self.nodes[index].output();
            let layer = match self.quantised_layer(index, &readers) {
                None => continue,
                Some(Ok(layer)) => layer,
                Some(Err(why)) => {
                    self.story.tell(made, format!("not computed with bytes: {why}"));
                    continue;
                }
            };
            if self.put_layer(index, &layer).is_none() {
                continue;
            }
            self.story.tell(made, "computed with bytes, weights packed");
            for taken in layer.taken {
                gone[taken] = true;
                self.story.takes(made, self.nodes[taken].output(), "its bias, function or end");
            }
        }
        let mut gone = gone.into_iter();
        self.nodes.retain(|_| !gone.next().unwrap_or(false));
    }

    /// The layer that begins with a node; why it is none, if there are bytes around it.
    fn quantised_layer(&self, index: usize, readers: &[Vec<usize>]) -> Option<Found> {
        let op = self.nodes[index].op.as_any();
        if let Some(own) = op.downcast_ref::<IntegerConv>() {
            return Some(self.linear_conv(index, own));
        }
        if let Some(own) = op.downcast_ref::<IntegerProduct>() {
            return Some(self.linear_product(index, *own));
        }
        let (kind, along) = if let Some(conv) = op.downcast_ref::<Conv>() {
            (Kind::Conv(*conv), 0)
        } else if op.is::<MatMul>() {
            (Kind::Dense { transposed: false }, 1)
        } else {
            let gemm = op.downcast_ref::<GeneralMatMul>()?;
            let [a, transposed] = gemm.transposed;
            if a || gemm.alpha != 1.0 || gemm.beta != 1.0 {
                return None;
            }
            (Kind::Dense { transposed }, usize::from(!transposed))
        };
        let inputs = &self.nodes[index].inputs;
        let from = self.nodes[..index].iter().find(|node| node.outputs.contains(&inputs[0]))?;
        let linear = from.op.as_any().downcast_ref::<Linear>()?;
        if linear.way != Way::Back {
            return None;
        }
        let x = from.inputs[0];
        Some(self.island(index, readers, (kind, along), (x, linear)))
    }

    /// A layer between DequantizeLinear and QuantizeLinear.
    fn island(
        &self,
        index: usize,
        readers: &[Vec<usize>],
        (kind, along): (Kind, usize),
        (x, linear): (TensorIndex, &Linear),
    ) -> Found {
        let node = &self.nodes[index];
        let (scale, zero) = linear.whole.ok_or("its input has no constant scale for all of it")?;
        if !is_bytes(self.tensors[x].info.dtype) {
            return Err(format!("its input was {}", self.tensors[x].info));
        }
        let known = self.dequantised.get(&node.inputs[1]);
        let known = known.ok_or("its weights are no constants of DequantizeLinear")?;
        let weights = self.without_zeros(known, along)?;
        let count = columns(&kind, &weights.dims);
        let mut layer = Layer {
            kind,
            x,
            scale,
            zero,
            given_zero: None,
            weights,
            bias: vec![0; count],
            activation: Activation::None,
            end: None,
            sums: false,
            taken: Vec::new(),
            output: node.output(),
        };
        if let Some(bias) = node.inputs.get(2) {
            self.whole_bias(&mut layer, *bias)?;
        }
        if let Kind::Conv(conv) = &layer.kind {
            layer.activation = conv.activation;
        }
        while let Some(next) = self.only_reader(layer.output, readers) {
            let own = &self.nodes[next];
            let end = own.op.as_any().downcast_ref::<Linear>().filter(|own| own.way == Way::To);
            if let Some(((scale, zero), to)) = end.and_then(|own| Some((own.whole?, own.to))) {
                if is_bytes(to) {
                    layer.end = Some((scale, zero, to));
                    layer.take(next, own.output());
                }
                break;
            }
            if layer.activation != Activation::None {
                break;
            }
            if let Some(activation) = own.op.activation() {
                layer.activation = activation;
            } else if layer.taken.is_empty()
                && node.inputs.len() == 2
                && own.op.as_any().is::<Add>()
            {
                let other = own.inputs.iter().find(|input| **input != layer.output);
                let same = self.shape(own.output()) == self.shape(layer.output);
                let fits = match (other, &layer.kind) {
                    (Some(bias), Kind::Dense { .. }) if same => self.whole_bias(&mut layer, *bias),
                    _ => break,
                };
                if fits.is_err() {
                    break;
                }
            } else {
                break;
            }
            layer.take(next, self.nodes[next].output());
        }
        Ok(layer)
    }

    /// A constant bias in the quanta of sums.
    fn whole_bias(&self, layer: &mut Layer, bias: TensorIndex) -> Result<(), String> {
        let values = self.constant_floats(bias).ok_or("its bias is no constant")?;
        let shape = self.shape(bias);
        let along = shape.dims().last().is_none_or(|last| *last == shape.elements());
        let own = &layer.weights.scales;
        if values.len() != layer.bias.len() || !along {
            return Err("its bias is not one number a column or map".to_owned());
        }
        let mut bias = Vec::with_capacity(values.len());
        for (place, value) in values.iter().enumerate() {
            let quantum = f64::from(layer.scale) * f64::from(own[place % own.len()]);
            let sum = f64::from(*value) / quantum;
            let whole = sum.round();
            // A float has 24 bits of it.
            if (sum - whole).abs() > 0.01 + whole.abs() * 2f64.powi(-22) {
                return Err("its bias is not a whole number of quanta".to_owned());
            }
            #[expect(clippy::cast_possible_truncation, reason = "compared")]
            let own = whole as i32;
            if f64::from(own) != whole {
                return Err("its bias is beyond 32 bits".to_owned());
            }
            bias.push(own);
        }
        // All of it or nothing: a layer whose bias does not fit is left without it.
        layer.bias = bias;
        Ok(())
    }

    /// What DequantizeLinear computed with, for sums along all dims but one.
    fn without_zeros(
        &self,
        (linear, operands): &(Linear, Vec<TensorIndex>),
        along: usize,
    ) -> Result<Weights, String> {
        let (scales, zeros) = match (linear.whole, &operands[1..]) {
            (Some((scale, zero)), _) => (vec![scale], vec![zero]),
            (None, [scales, rest @ ..]) => {
                let scales = self.constant_floats(*scales).unwrap_or_default();
                let zeros = rest.first().map(|zeros| self.whole_numbers(*zeros));
                let zeros = zeros.unwrap_or_else(|| Some(vec![0; scales.len()]));
                (scales, zeros.unwrap_or_default())
            }
            _ => (Vec::new(), Vec::new()),
        };
        let several = scales.len() > 1;
        if several && (linear.axis != along || linear.block > 0) {
            return Err(format!("scales of its weights are not along dim {along}"));
        }
        self.weights(operands[0], along, scales, &zeros)
    }

    fn weights(
        &self,
        tensor: TensorIndex,
        along: usize,
        scales: Vec<f32>,
        zeros: &[i32],
    ) -> Result<Weights, String> {
        let info = self.tensors[tensor].info;
        let values = self.whole_numbers(tensor).filter(|_| is_bytes(info.dtype));
        let values = values.ok_or("its weights are no constant bytes")?;
        let dims = info.shape.dims().to_vec();
        let inner: usize = dims.iter().skip(along + 1).product();
        let count = dims.get(along).copied().unwrap_or(1).max(1);
        let of = |list: usize, place: usize| if list > 1 { place / inner % count } else { 0 };
        if scales.is_empty() || zeros.is_empty() || !(scales.len() == 1 || scales.len() == count) {
            return Err("scales or zeros of its weights are no constants".to_owned());
        }
        let centred = values.iter().enumerate().map(|(place, value)| {
            let zero = zeros.get(of(zeros.len(), place)).copied().unwrap_or(0);
            i16::try_from(value - zero).unwrap_or(0)
        });
        Ok(Weights { dims, values: centred.collect(), scales })
    }

    /// The values of a constant of bytes, or of numbers of 32 bits.
    fn whole_numbers(&self, tensor: TensorIndex) -> Option<Vec<i32>> {
        let tensor = &self.tensors[tensor];
        let value = tensor.value.as_ref()?;
        match tensor.info.dtype {
            DataType::UINT8 => Some(value.iter().map(|x| i32::from(*x)).collect()),
            DataType::INT8 => Some(value.iter().map(|x| i32::from(x.cast_signed())).collect()),
            DataType::INT32 => {
                let (words, _) = value.as_chunks();
                Some(words.iter().map(|word| i32::from_le_bytes(*word)).collect())
            }
            _ => None,
        }
    }

    /// Scale and zero of operands that are constants of one element.
    fn quantum(&self, scale: TensorIndex, zero: TensorIndex) -> Result<(f32, i32), String> {
        let scale = self.constant_floats(scale).filter(|own| own.len() == 1);
        let zero = self.whole_numbers(zero).filter(|own| own.len() == 1);
        let own = scale.zip(zero).map(|(scale, zero)| (scale[0], zero[0]));
        own.ok_or_else(|| "a scale or a zero is no constant for all of a tensor".to_owned())
    }

    fn linear_conv(&self, index: usize, own: &IntegerConv) -> Found {
        let (inputs, output) = (&self.nodes[index].inputs, self.nodes[index].output());
        if !own.scaled {
            return Err("its sums are the result".to_owned());
        }
        let (scale, zero) = self.quantum(inputs[1], inputs[2])?;
        let (scale_y, zero_y) = self.quantum(inputs[6], inputs[7])?;
        let scales = self.constant_floats(inputs[4]).unwrap_or_default();
        let zeros = self.whole_numbers(inputs[5]).unwrap_or_default();
        let weights = self.weights(inputs[3], 0, scales, &zeros)?;
        let maps = weights.dims[0];
        let bias = match inputs.get(8) {
            Some(bias) => self.whole_numbers(*bias).ok_or("its bias is no constant")?,
            None => vec![0; maps],
        };
        let to = self.tensors[output].info.dtype;
        Ok(Layer {
            kind: Kind::Conv(own.conv),
            x: inputs[0],
            scale,
            zero,
            given_zero: None,
            weights,
            bias,
            activation: Activation::None,
            end: Some((scale_y, zero_y, to)),
            sums: false,
            taken: Vec::new(),
            output,
        })
    }

    fn linear_product(&self, index: usize, own: IntegerProduct) -> Found {
        let (inputs, output) = (&self.nodes[index].inputs, self.nodes[index].output());
        let [at, zero_x, zero_w] = own.places();
        let (scale, end, scales) = if own.scaled {
            let (scale_y, zero_y) = self.quantum(inputs[6], inputs[7])?;
            let (scale, _) = self.quantum(inputs[1], inputs[2])?;
            let to = self.tensors[output].info.dtype;
            (scale, Some((scale_y, zero_y, to)), self.constant_floats(inputs[4]))
        } else {
            (1.0, None, Some(vec![1.0]))
        };
        let zeros = match inputs.get(zero_w) {
            Some(zeros) => self.whole_numbers(*zeros).unwrap_or_default(),
            None => vec![0],
        };
        let weights = self.weights(inputs[at], 1, scales.unwrap_or_default(), &zeros)?;
        let (zero, given_zero) = match inputs.get(zero_x) {
            None => (0, None),
            Some(zero) if self.shape(*zero).elements() != 1 => {
                return Err("its rows have zeros of their own".to_owned());
            }
            Some(zero) => match self.whole_numbers(*zero) {
                Some(own) => (own[0], None),
                None => (0, Some(*zero)),
            },
        };
        let kind = Kind::Dense { transposed: false };
        Ok(Layer {
            bias: vec![0; columns(&kind, &weights.dims)],
            kind,
            x: inputs[0],
            scale,
            zero,
            given_zero,
            weights,
            activation: Activation::None,
            end,
            sums: !own.scaled,
            taken: Vec::new(),
            output,
        })
    }

    /// Replaces the node; what it takes in goes by the caller.
    fn put_layer(&mut self, index: usize, layer: &Layer) -> Option<()> {
        let made = self.nodes[index].output();
        let (op, packed) = match self.pack(index, layer) {
            Ok(own) => own,
            Err(why) => {
                self.story.tell(made, format!("not packed: {why}"));
                return None;
            }
        };
        let name = self.tensors[made].name.clone();
        let mut inputs = vec![layer.x];
        for (kind, (info, value)) in ["weights", "bias", "factors"].into_iter().zip(packed) {
            inputs.push(self.add(&format!("{name} {kind}"), info, Some(value.into())));
        }
        inputs.extend(layer.given_zero);
        let node = &mut self.nodes[index];
        (node.op, node.inputs, node.outputs) = (op, inputs, vec![layer.output]);
        Some(())
    }

    fn pack(&self, index: usize, layer: &Layer) -> Result<(Box<dyn Op>, [Packed; 3]), String> {
        let node = &self.nodes[index];
        let Weights { dims, values, scales } = &layer.weights;
        let count = columns(&layer.kind, dims);
        if self.shape(node.output()).elements() == 0 || self.shape(layer.x).elements() == 0 {
            return Err("it is empty".to_owned());
        }
        // Signs and ends of the order of factors and functions would count otherwise.
        let end = layer.end.map(|(scale, ..)| scale);
        let mut factors = scales.iter().copied().chain([layer.scale]).chain(end);
        if !layer.sums && !factors.all(|own| own > 0.0 && own.is_normal()) {
            return Err("one of its scales is no positive number".to_owned());
        }
        let largest = |list: &mut dyn Iterator<Item = i64>| list.map(i64::abs).max().unwrap_or(0);
        let weight = largest(&mut values.iter().map(|own| i64::from(*own)));
        let depth = i64::try_from(values.len() / count.max(1)).unwrap_or(i64::MAX);
        let sums = depth.saturating_mul(255 * weight);
        let most = sums.saturating_add(largest(&mut layer.bias.iter().map(|own| i64::from(*own))));
        if !layer.sums && i32::try_from(most).is_err() {
            return Err("its sums may be beyond 32 bits".to_owned());
        }
        let linear = matches!(layer.activation, Activation::None | Activation::Relu);
        let (to, zero, behind) = match layer.end {
            _ if layer.sums => (DataType::INT32, 0, 1.0),
            None => (DataType::FLOAT, 0, 1.0),
            Some((scale, zero, to)) => (to, zero, scale),
        };
        let factors = (0..count).map(|column| {
            let own = layer.scale * scales[column % scales.len()];
            if linear { own / behind } else { own }
        });
        let factors = floats(&[blocks(count), BLOCK], &pack_maps(&factors.collect::<Vec<f32>>()))?;
        let factor = if linear { 1.0 } else { 1.0 / behind };
        let finish = Finish { to, zero, activation: layer.activation, factor };
        let mut bias = layer.bias.clone();
        bias.resize(blocks(count) * BLOCK, 0);
        let whole_bias =
            packed(DataType::INT32, &[blocks(count), BLOCK], &bias, |x| x.to_le_bytes())?;
        let lists = [whole_bias, factors];
        match &layer.kind {
            Kind::Conv(conv) => self.pack_conv(layer, *conv, finish, lists),
            Kind::Dense { transposed } => pack_dense(layer, *transposed, finish, lists),
        }
    }

    fn pack_conv(
        &self,
        layer: &Layer,
        conv: Conv,
        finish: Finish,
        [bias, factors]: [Packed; 2],
    ) -> Result<(Box<dyn Op>, [Packed; 3]), String> {
        let (values, zero) = (&layer.weights.values, layer.zero);
        let (&[m, c, height, width], &[_, maps, _, _]) =
            (&layer.weights.dims[..], self.shape(layer.x).dims())
        else {
            return Err(format!("its weights have {} dims, not 4", layer.weights.dims.len()));
        };
        let window = Window::of(&conv);
        if blocks(m) * BLOCK > 2 * m {
            return Err(format!("{m} maps would fill blocks of {BLOCK} too little"));
        }
        if conv.group == 1 {
            let (dims, pairs) = pack_kernel([m, c, height, width], values);
            let weights = packed(DataType::INT16, &dims, &pairs, i16::to_le_bytes)?;
            let op = QuantisedConv { window, kernel: [height, width], zero, finish };
            return Ok((Box::new(op), [weights, bias, factors]));
        }
        if conv.group != maps || m != maps {
            return Err(format!("it has {} groups of several maps", conv.group));
        }
        let most = i64::try_from(height * width).unwrap_or(i64::MAX).saturating_mul(255 * 255);
        if most > EXACT {
            return Err("its sums may be beyond 2^24".to_owned());
        }
        let own: Vec<f32> = values.iter().map(|own| f32::from(*own)).collect();
        let (dims, own) = pack_depthwise([m, c, height, width], &own);
        #[expect(clippy::cast_precision_loss, reason = "rounded as the whole sum would be")]
        let own_bias: Vec<f32> = layer.bias.iter().map(|own| *own as f32).collect();
        let bias = floats(&[blocks(m), BLOCK], &pack_maps(&own_bias))?;
        let op = QuantisedDepthwise { window, zero, finish };
        Ok((Box::new(op), [floats(&dims, &own)?, bias, factors]))
    }
}

fn pack_dense(
    layer: &Layer,
    transposed: bool,
    finish: Finish,
    [bias, factors]: [Packed; 2],
) -> Result<(Box<dyn Op>, [Packed; 3]), String> {
    let Weights { dims, values, .. } = &layer.weights;
    let &[rows, columns] = &dims[..] else {
        return Err(format!("its weights have {} dims, not 2", dims.len()));
    };
    let [depth, columns] = if transposed { [columns, rows] } else { [rows, columns] };
    let (dims, pairs) = pack_pairs([depth, columns], |k, column| {
        values[if transposed { column * depth + k } else { k * columns + column }]
    });
    let weights = packed(DataType::INT16, &dims, &pairs, i16::to_le_bytes)?;
    let op = QuantisedDense { columns, zero: layer.zero, finish };
    Ok((Box::new(op), [weights, bias, factors]))
}

/// A constant.
type Packed = (TensorInfo, Vec<u8>);

fn packed<T: Copy, const N: usize>(
    dtype: DataType,
    dims: &[usize],
    values: &[T],
    bytes: impl Fn(T) -> [u8; N],
) -> Result<Packed, String> {
    let shape = Shape::new(dims).map_err(|error| error.to_string())?;
    Ok((TensorInfo::new(dtype, shape), values.iter().flat_map(|value| bytes(*value)).collect()))
}

fn floats(dims: &[usize], values: &[f32]) -> Result<Packed, String> {
    packed(DataType::FLOAT, dims, values, f32::to_le_bytes)
}

fn is_bytes(dtype: DataType) -> bool {
    matches!(dtype, DataType::INT8 | DataType::UINT8)
}

/// Maps or columns of the result.
fn columns(kind: &Kind, dims: &[usize]) -> usize {
    let along = match kind {
        Kind::Conv(_) | Kind::Dense { transposed: true } => 0,
        Kind::Dense { transposed: false } => 1,
    };
    dims.get(along).copied().unwrap_or(1)
}

impl Layer {
    fn take(&mut self, node: usize, output: TensorIndex) {
        self.taken.push(node);
        self.output = output;
    }
}

#[cfg(test)]
mod tests;
