//! Questions that passes ask of the graph.

use npu::ops::Op;
use npu::params::ParamWriter;
use npu::shape::Shape;
use npu::tensor::TensorInfo;

use crate::typed::{TensorIndex, Typed, TypedNode};

impl Typed {
    /// The shape of a tensor.
    pub(crate) fn shape(&self, tensor: TensorIndex) -> Shape {
        self.tensors[tensor].info.shape
    }

    /// The values of a constant of floats.
    pub(crate) fn constant_floats(&self, tensor: TensorIndex) -> Option<Vec<f32>> {
        let tensor = &self.tensors[tensor];
        if tensor.info.dtype != npu::DataType::FLOAT {
            return None;
        }
        let (words, _) = tensor.value.as_ref()?.as_chunks();
        Some(words.iter().map(|word| f32::from_le_bytes(*word)).collect())
    }

    /// Adds a constant of floats.
    pub(crate) fn add_floats(
        &mut self,
        name: &str,
        dims: &[usize],
        values: &[f32],
    ) -> Option<TensorIndex> {
        let info = TensorInfo::new(npu::DataType::FLOAT, Shape::new(dims).ok()?);
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        Some(self.add(name, info, Some(bytes.into())))
    }

    /// The nodes that read each tensor; an output of the graph is read by one that does not exist.
    pub(crate) fn readers(&self) -> Vec<Vec<usize>> {
        let mut readers = vec![Vec::new(); self.tensors.len()];
        for (index, node) in self.nodes.iter().enumerate() {
            node.inputs.iter().for_each(|input| readers[*input].push(index));
        }
        self.outputs.iter().for_each(|(_, output)| readers[*output].push(usize::MAX));
        readers
    }

    /// The node that reads a tensor once, when no other does.
    pub(crate) fn only_reader(&self, tensor: TensorIndex, readers: &[Vec<usize>]) -> Option<usize> {
        match readers.get(tensor)?[..] {
            [node] if node < self.nodes.len() => Some(node),
            _ => None,
        }
    }

    /// The same op again.
    pub(crate) fn copy_of(&self, node: &TypedNode) -> Option<Box<dyn Op>> {
        let mut writer = ParamWriter::default();
        node.op.encode(&mut writer);
        node.op.line().decode_params(&writer.into_bytes()).ok()
    }
}
