//! Functions of elements between DequantizeLinear and QuantizeLinear, on bytes: of one tensor as a
//! table of all its values, computed by the ops themselves; sums and products of two as one task,
//! step by step as the ops have it. Both are the same bytes as without the pass.

use npu::DataType;
use npu::aligned::AlignedBytes;
use npu::ops::add::Add;
use npu::ops::blocked::{QuantisedPair, QuantisedTable};
use npu::ops::mul::Mul;
use npu::ops::quantize::{Linear, Way};
use npu::ops::{Activation, Op};
use npu::shape::Shape;
use npu::tensor::{TensorInfo, TensorList, run_into};

use super::is_bytes;
use crate::typed::{TensorIndex, Typed};

impl Typed {
    /// Makes functions of quantised elements work on bytes.
    pub(crate) fn quantise_elements(&mut self) {
        let readers = self.readers();
        let mut maker = vec![None; self.tensors.len()];
        for (index, node) in self.nodes.iter().enumerate() {
            node.outputs.iter().for_each(|output| maker[*output] = Some(index));
        }
        let mut gone = vec![false; self.nodes.len()];
        for index in 0..self.nodes.len() {
            let Some((op, inputs, taken)) = self.on_bytes(index, &maker, &readers) else {
                continue;
            };
            let made = self.nodes[index].output();
            self.story.tell(made, "computed with bytes");
            for node in taken {
                gone[node] = true;
                self.story.takes(made, self.nodes[node].output(), "a function before it");
            }
            (self.nodes[index].op, self.nodes[index].inputs) = (op, inputs);
        }
        let mut gone = gone.into_iter();
        self.nodes.retain(|_| !gone.next().unwrap_or(false));
    }

    /// What stands for QuantizeLinear and what is before it, with its operands; and what it takes
    /// in.
    #[expect(clippy::type_complexity, reason = "used once")]
    fn on_bytes(
        &self,
        index: usize,
        maker: &[Option<usize>],
        readers: &[Vec<usize>],
    ) -> Option<(Box<dyn Op>, Vec<TensorIndex>, Vec<usize>)> {
        let linear = self.nodes[index].op.as_any().downcast_ref::<Linear>()?;
        let end = linear.whole.filter(|_| linear.way == Way::To && is_bytes(linear.to))?;
        let mut taken: Vec<usize> = Vec::new();
        let mut last = self.nodes[index].inputs[0];
        loop {
            let from = maker[last]?;
            let node = &self.nodes[from];
            if self.bytes_behind(last, maker).is_some() {
                let steps = taken.iter().rev().map(|step| &*self.nodes[*step].op);
                let steps: Vec<&dyn Op> =
                    [&*node.op].into_iter().chain(steps).chain([&*self.nodes[index].op]).collect();
                let x = node.inputs[0];
                let values = table(self.tensors[x].info.dtype, &steps)?;
                let op = QuantisedTable { to: linear.to, values };
                return Some((Box::new(op), vec![x], taken));
            }
            self.only_reader(last, readers)?;
            taken.push(from);
            if let [a, b] = node.inputs[..] {
                let product = node.op.as_any().is::<Mul>();
                if !product && !node.op.as_any().is::<Add>() {
                    return None;
                }
                let activation = match taken[..] {
                    [_] => Activation::None,
                    [step, _] => self.nodes[step].op.activation()?,
                    _ => return None,
                };
                let [(x, of_x), (y, of_y)] =
                    [self.bytes_behind(a, maker)?, self.bytes_behind(b, maker)?];
                if self.shape(x) != self.shape(y) {
                    return None;
                }
                let (quanta, to) = ([of_x, of_y], linear.to);
                let op = QuantisedPair { product, quanta, activation, to, end };
                if let Some((x, op)) = self.of_one(&op, [x, y], maker) {
                    return Some((Box::new(op), vec![x], taken));
                }
                return Some((Box::new(op), vec![x, y], taken));
            }
            if node.inputs.len() != 1 || !node.op.is_elementwise() {
                return None;
            }
            last = node.inputs[0];
        }
    }

    /// The table of a pair whose operands are a tensor and a table of it, or twice the same one.
    fn of_one(
        &self,
        pair: &QuantisedPair,
        operands: [TensorIndex; 2],
        maker: &[Option<usize>],
    ) -> Option<(TensorIndex, QuantisedTable)> {
        let same: Box<[u8; 256]> = Box::new(std::array::from_fn(|byte| byte.to_le_bytes()[0]));
        let table_of = |tensor: TensorIndex| {
            let node = &self.nodes[maker[tensor]?];
            let table = node.op.as_any().downcast_ref::<QuantisedTable>()?;
            Some((node.inputs[0], table.values.clone()))
        };
        let [a, b] = operands;
        let (x, values) = match (table_of(a), table_of(b)) {
            _ if a == b => (a, [same.clone(), same]),
            (_, Some((x, values))) if x == a => (x, [same, values]),
            (Some((x, values)), _) if x == b => (x, [values, same]),
            _ => return None,
        };
        let shape = Shape::new(&[256]).ok()?;
        let inputs = [0, 1].map(|index| {
            let info = TensorInfo::new(self.tensors[operands[index]].info.dtype, shape);
            (info, AlignedBytes::copy_of(&values[index][..]))
        });
        let inputs = [0, 1].map(|index| (inputs[index].0, &inputs[index].1[..]));
        let mut made = [(TensorInfo::new(pair.to, shape), AlignedBytes::zeroed(256))];
        run_into(pair, &TensorList(&inputs), &mut made, &mut [], None).ok()?;
        let values = Box::new(made[0].1[..].try_into().ok()?);
        Some((x, QuantisedTable { to: pair.to, values }))
    }

    /// The bytes that a tensor was dequantised from, with scale and zero.
    fn bytes_behind(
        &self,
        tensor: TensorIndex,
        maker: &[Option<usize>],
    ) -> Option<(TensorIndex, (f32, i32))> {
        let node = &self.nodes[maker[tensor]?];
        let linear = node.op.as_any().downcast_ref::<Linear>()?;
        let known = linear.way == Way::Back && is_bytes(self.tensors[node.inputs[0]].info.dtype);
        Some((node.inputs[0], linear.whole.filter(|_| known)?))
    }
}

/// The bytes that ops make of each byte, one after the other.
fn table(dtype: DataType, steps: &[&dyn Op]) -> Option<Box<[u8; 256]>> {
    let shape = Shape::new(&[256]).ok()?;
    let bytes: Vec<u8> = (0..=255).collect();
    let mut value = (TensorInfo::new(dtype, shape), AlignedBytes::copy_of(&bytes));
    for op in steps {
        let info = *npu::ops::infer(*op, &[value.0]).ok()?.first()?;
        let mut scratch = AlignedBytes::zeroed(op.scratch_bytes(&[value.0], &info));
        let mut made = [(info, AlignedBytes::zeroed(info.bytes()))];
        let inputs = [(value.0, &value.1[..])];
        run_into(*op, &TensorList(&inputs), &mut made, &mut scratch, None).ok()?;
        [value] = made;
    }
    Some(Box::new(value.1[..].try_into().ok()?))
}
