//! Layout: feature maps in blocks of 16 (`npu::ops::blocked`) wherever a chain of ops can keep them
//! so, with reorder tasks at its borders only.
//!
//! Nodes are walked in order; a tensor has a plain form, a blocked one, or both. A convolution of
//! two dims makes the blocked form, from either; ops of one element, Add, Mul, pools, the mean of
//! maps and what moves whole maps or pixels keep it; every other reader gets the plain form. What
//! is one pixel large needs no reorder task: its bytes are the same in both forms, when its maps
//! fill their blocks.

use bytes::Bytes;
use npu::ops::add::Add;
use npu::ops::blocked::{
    BLOCK, BlockedConcat, BlockedConv, BlockedDepthwise, BlockedMean, BlockedRepeat, BlockedSpread,
    FromBlocked, HALF, OPERANDS, QuantisedConv, QuantisedDepthwise, QuantisedPair, ToBlocked,
    Window, blocked, blocks, pack_depthwise, pack_maps, pack_weights,
};
use npu::ops::concat::Concat;
use npu::ops::conv::Conv;
use npu::ops::global_average_pool::GlobalAveragePool;
use npu::ops::mul::Mul;
use npu::ops::pool::Pool;
use npu::ops::reshape::Reshape;
use npu::ops::resize::Resize;
use npu::ops::space::Space;
use npu::ops::{Broadcast, Op};
use npu::shape::Shape;
use npu::tensor::TensorInfo;

use crate::typed::{TensorIndex, Typed, TypedNode};

/// Forms of a tensor.
#[derive(Clone, Copy, Debug, Default)]
struct Forms {
    /// The blocked form.
    blocked: Option<TensorIndex>,
    /// The plain form is not made by a node yet.
    only_blocked: bool,
}

/// The graph while it is walked.
struct Layout<'a> {
    graph: &'a mut Typed,
    forms: Vec<Forms>,
    nodes: Vec<TypedNode>,
}

impl Typed {
    /// Puts feature maps into blocks.
    pub(crate) fn block(&mut self) {
        let nodes = std::mem::take(&mut self.nodes);
        let forms = vec![Forms::default(); self.tensors.len()];
        let mut layout = Layout { graph: self, forms, nodes: Vec::new() };
        for node in nodes {
            layout.node(node);
        }
        for index in 0..layout.graph.outputs.len() {
            let output = layout.graph.outputs[index].1;
            layout.plain(output);
        }
        let nodes = layout.nodes;
        self.nodes = nodes;
    }
}

impl Layout<'_> {
    fn shape(&self, tensor: TensorIndex) -> Shape {
        self.graph.tensors[tensor].info.shape
    }

    fn forms(&self, tensor: TensorIndex) -> Forms {
        self.forms.get(tensor).copied().unwrap_or_default()
    }

    fn node(&mut self, node: TypedNode) {
        let made = self
            .conv(&node)
            .or_else(|| self.quantised(&node))
            .or_else(|| self.one_element(&node))
            .or_else(|| self.of_floats(&node));
        match made {
            Some((op, inputs)) => self.push_blocked(node, op, inputs),
            None => {
                self.tell_plain(&node);
                node.inputs.iter().for_each(|input| self.plain(*input));
                self.nodes.push(node);
            }
        }
    }

    /// What is for floats only.
    fn of_floats(&mut self, node: &TypedNode) -> Option<(Box<dyn Op>, Vec<TensorIndex>)> {
        if self.graph.tensors[node.output()].info.dtype != npu::DataType::FLOAT {
            return None;
        }
        self.mean(node)
            .or_else(|| self.pair(node))
            .or_else(|| self.moved(node))
            .or_else(|| self.joined(node))
    }

    /// Tells why a node does not work on maps in blocks.
    fn tell_plain(&mut self, node: &TypedNode) {
        let what = if let Some(conv) = node.op.as_any().downcast_ref::<Conv>() {
            let (x, w) = (self.shape(node.inputs[0]), self.shape(node.inputs[1]));
            let (group, maps) = (conv.group, w.dims()[0]);
            let depthwise = group == x.dims()[1] && maps == group;
            match (x.rank(), self.graph.constant_floats(node.inputs[1]).is_some()) {
                (4, false) => "its weights are no constant of floats".to_owned(),
                (4, _) if group > 1 && !depthwise => format!("it has {group} groups"),
                (4, _) => format!("{maps} maps would fill blocks of {BLOCK} too little"),
                (rank, _) => format!("its input has {rank} dims, not 4"),
            }
        } else if node.inputs.iter().any(|input| self.forms(*input).blocked.is_some()) {
            "it has no form for them".to_owned()
        } else {
            return;
        };
        self.graph.story.tell(node.output(), format!("not on maps in blocks: {what}"));
    }

    /// Adds a node that makes the blocked form of what `node` makes.
    fn push_blocked(&mut self, node: TypedNode, op: Box<dyn Op>, inputs: Vec<TensorIndex>) {
        let tensor = &self.graph.tensors[node.output()];
        let (name, info) = (format!("{} in blocks", tensor.name), tensor.info);
        let Some(shape) = blocked(&info.shape) else { return };
        let output = self.add(&name, TensorInfo::new(info.dtype, shape), None);
        self.forms[node.output()] = Forms { blocked: Some(output), only_blocked: true };
        self.graph.story.stands_for(output, node.output());
        self.nodes.push(TypedNode { name: node.name, op, inputs, outputs: vec![output] });
    }

    fn add(&mut self, name: &str, info: TensorInfo, value: Option<Bytes>) -> TensorIndex {
        let index = self.graph.add(name, info, value);
        self.forms.resize(index + 1, Forms::default());
        index
    }

    /// Whether both forms have the same bytes.
    fn same_bytes(shape: &Shape) -> bool {
        matches!(*shape.dims(), [_, c, 1, 1] if c.is_multiple_of(BLOCK))
    }

    /// Makes the plain form, if it is not there.
    fn plain(&mut self, tensor: TensorIndex) {
        let forms = self.forms(tensor);
        let (Some(from), true) = (forms.blocked, forms.only_blocked) else { return };
        self.forms[tensor].only_blocked = false;
        let shape = self.shape(tensor);
        let op: Box<dyn Op> = match Self::same_bytes(&shape) {
            true => Box::new(Reshape { shape }),
            false => Box::new(FromBlocked { maps: shape.dims()[1] }),
        };
        let name = format!("{} out of blocks", self.graph.tensors[tensor].name);
        self.nodes.push(TypedNode { name, op, inputs: vec![from], outputs: vec![tensor] });
    }

    /// The blocked form; made if it is not there.
    fn in_blocks(&mut self, tensor: TensorIndex) -> Option<TensorIndex> {
        if let Some(own) = self.forms(tensor).blocked {
            return Some(own);
        }
        let (info, name) = (self.graph.tensors[tensor].info, &self.graph.tensors[tensor].name);
        let name = format!("{name} in blocks");
        let shape = blocked(&info.shape)?;
        let op: Box<dyn Op> = match Self::same_bytes(&info.shape) {
            true => Box::new(Reshape { shape }),
            false => Box::new(ToBlocked),
        };
        let output = self.add(&name, TensorInfo::new(info.dtype, shape), None);
        self.forms[tensor].blocked = Some(output);
        self.nodes.push(TypedNode { name, op, inputs: vec![tensor], outputs: vec![output] });
        Some(output)
    }

    /// A constant of floats, packed.
    fn constant(&mut self, name: &str, dims: &[usize], values: &[f32]) -> Option<TensorIndex> {
        let info = TensorInfo::new(npu::DataType::FLOAT, Shape::new(dims).ok()?);
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        Some(self.add(name, info, Some(bytes.into())))
    }

    fn conv(&mut self, node: &TypedNode) -> Option<(Box<dyn Op>, Vec<TensorIndex>)> {
        let conv = *node.op.as_any().downcast_ref::<Conv>()?;
        let (x, w) = (node.inputs[0], node.inputs[1]);
        let &[_, maps, _, _] = self.shape(x).dims() else { return None };
        let &[m, c, height, width] = self.shape(w).dims() else { return None };
        let depthwise = conv.group == maps && m == maps && maps > 1;
        // What is padded to blocks is at most as much as there is, or spares a reorder.
        let spares = self.forms(x).only_blocked && maps >= BLOCK;
        let worth = blocks(m) * BLOCK <= if spares { 4 * m } else { 2 * m }
            && (depthwise || conv.group == 1);
        if !worth || self.shape(node.output()).elements() == 0 || self.shape(x).elements() == 0 {
            return None;
        }
        let weights = self.graph.constant_floats(w)?;
        let bias = match node.inputs.get(2) {
            Some(bias) => self.graph.constant_floats(*bias)?,
            None => vec![0.0; m],
        };
        let window = Window::of(&conv);
        let activation = conv.activation;
        let name = self.graph.tensors[w].name.clone();
        let bias =
            self.constant(&format!("{name} bias"), &[blocks(m), BLOCK], &pack_maps(&bias))?;
        let dims = [m, c, height, width];
        if depthwise {
            let (dims, packed) = pack_depthwise(dims, &weights);
            let inputs = vec![self.in_blocks(x)?, self.constant(&name, &dims, &packed)?, bias];
            return Some((Box::new(BlockedDepthwise { window, activation }), inputs));
        }
        let (dims, packed) = pack_weights(dims, &weights);
        let weights = self.constant(&name, &dims, &packed)?;
        // A few maps are read as they are.
        let in_blocks = self.forms(x).blocked.is_some() || maps >= BLOCK;
        let x = if in_blocks { self.in_blocks(x)? } else { x };
        Some((Box::new(BlockedConv { window, activation }), vec![x, weights, bias]))
    }

    /// What works on bytes: convolutions, whose weights are packed already, and pairs.
    fn quantised(&mut self, node: &TypedNode) -> Option<(Box<dyn Op>, Vec<TensorIndex>)> {
        let (op, mut inputs) = (node.op.as_any(), node.inputs.clone());
        let in_blocks = |own: &TensorIndex| self.forms(*own).blocked.is_some();
        if op.is::<QuantisedPair>() && inputs.iter().any(in_blocks) {
            for input in &mut inputs {
                *input = self.in_blocks(*input)?;
            }
            return self.graph.copy_of(node).map(|op| (op, inputs));
        }
        let maps = *self.shape(*inputs.first()?).dims().get(1)?;
        if op.is::<QuantisedDepthwise>() || op.is::<QuantisedConv>() {
            let gathers = op.is::<QuantisedConv>() && !QuantisedConv::reads_blocks(maps);
            inputs[0] =
                if gathers { self.in_plain(inputs[0])? } else { self.in_blocks(inputs[0])? };
            return self.graph.copy_of(node).map(|op| (op, inputs));
        }
        None
    }

    fn one_element(&mut self, node: &TypedNode) -> Option<(Box<dyn Op>, Vec<TensorIndex>)> {
        let &[x] = &node.inputs[..] else { return None };
        let x = self.forms(x).blocked.filter(|_| node.op.is_elementwise())?;
        self.graph.copy_of(node).map(|op| (op, vec![x]))
    }

    fn mean(&mut self, node: &TypedNode) -> Option<(Box<dyn Op>, Vec<TensorIndex>)> {
        node.op.as_any().downcast_ref::<GlobalAveragePool>()?;
        let x = self.forms(node.inputs[0]).blocked?;
        Some((Box::new(BlockedMean), vec![x]))
    }

    /// Add and Mul: of two tensors with the same maps, or of one and a scalar.
    fn pair(&mut self, node: &TypedNode) -> Option<(Box<dyn Op>, Vec<TensorIndex>)> {
        let op = node.op.as_any();
        let add = op.downcast_ref::<Add>().map(|own| own.broadcast);
        let rule = add.or_else(|| op.downcast_ref::<Mul>().map(|own| own.broadcast))?;
        let &[a, b] = &node.inputs[..] else { return None };
        let result = self.shape(node.output());
        let &[n, c, _, _] = result.dims() else { return None };
        if !matches!(rule, Broadcast::Numpy | Broadcast::Equal) || result.elements() == 0 {
            return None;
        }
        let in_blocks = [a, b].map(|own| self.forms(own).blocked);
        if in_blocks == [None; 2] {
            return None;
        }
        let maps = |own: TensorIndex| match *self.shape(own).dims() {
            [batch, maps, _, _] => (batch, maps) == (n, c),
            _ => false,
        };
        let scalar = |own: TensorIndex| self.shape(own).elements() == 1 && !maps(own);
        if ![a, b].into_iter().all(|own| maps(own) || (scalar(own) && rule == Broadcast::Numpy)) {
            return None;
        }
        let [a_scalar, b_scalar] = [a, b].map(scalar);
        let a = if a_scalar { self.in_plain(a)? } else { self.in_blocks(a)? };
        let b = if b_scalar { self.in_plain(b)? } else { self.in_blocks(b)? };
        self.graph.copy_of(node).map(|op| (op, vec![a, b]))
    }

    /// Pools, and pixels that go to other places.
    fn moved(&mut self, node: &TypedNode) -> Option<(Box<dyn Op>, Vec<TensorIndex>)> {
        let &[input] = &node.inputs[..] else { return None };
        let x = self.forms(input).blocked?;
        let (op, maps) = (node.op.as_any(), self.shape(node.output()).dims()[1]);
        if self.shape(node.output()).elements() == 0 {
            return None;
        }
        if let Some(pool) = op.downcast_ref::<Pool>() {
            return pool.in_blocks().map(|pool| (Box::new(pool) as Box<dyn Op>, vec![x]));
        }
        if let Some(resize) = op.downcast_ref::<Resize>() {
            let times = resize.repeats()?;
            return Some((Box::new(BlockedRepeat { times }), vec![x]));
        }
        let size = op.downcast_ref::<Space>()?.spreads()?;
        let op: Box<dyn Op> = Box::new(BlockedSpread { size, maps });
        maps.is_multiple_of(HALF).then_some((op, vec![x]))
    }

    /// Maps behind one another.
    fn joined(&mut self, node: &TypedNode) -> Option<(Box<dyn Op>, Vec<TensorIndex>)> {
        let concat = node.op.as_any().downcast_ref::<Concat>()?;
        let some = node.inputs.iter().any(|input| self.forms(*input).blocked.is_some());
        let maps = node.inputs.iter().map(|input| match *self.shape(*input).dims() {
            [_, maps, _, _] if maps.is_multiple_of(HALF) && maps > 0 => Some(maps),
            _ => None,
        });
        let maps: Vec<usize> = maps.collect::<Option<_>>()?;
        let empty = self.shape(node.output()).elements() == 0;
        if concat.axis != 1 || !some || empty || maps.len() > OPERANDS {
            return None;
        }
        let inputs = node.inputs.iter().map(|input| self.in_blocks(*input));
        let inputs: Vec<TensorIndex> = inputs.collect::<Option<_>>()?;
        Some((Box::new(BlockedConcat { maps }), inputs))
    }

    /// A tensor in its plain form, for a reader of it.
    fn in_plain(&mut self, tensor: TensorIndex) -> Option<TensorIndex> {
        self.plain(tensor);
        Some(tensor)
    }
}

#[cfg(test)]
mod tests;
