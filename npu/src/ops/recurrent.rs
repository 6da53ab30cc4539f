//! RNN, GRU and LSTM: one step after the other, forwards, backwards or both.

use crate::DataType;
use crate::cast::elements_mut;
use crate::numbers::NumbersMut;
use crate::ops::cell::{Cell, Gates, Kind, State};
use crate::ops::{
    AttributeSpec, Imported, Node, Op, OpEntry, OpError, always, before, since, types,
};
use crate::params::{ParamReader, ParamWriter};
use crate::shape::Shape;
use crate::tensor::{Fault, Inputs, Output, TensorInfo};

const fn entry(
    name: &'static str,
    code: u16,
    versions: &'static [u32],
    attributes: &'static [AttributeSpec],
    inputs: usize,
    outputs: usize,
) -> OpEntry {
    let (inputs, types) = ((3, inputs), FLOATS);
    OpEntry {
        name,
        code,
        versions,
        attributes,
        inputs,
        outputs,
        operands: inputs,
        types,
        widened: const { &types::halves(22) },
        ..OpEntry::BASE
    }
}

const FLOATS: types::Types = &[(DataType::FLOAT, 1), (DataType::DOUBLE, 1)];
const COMMON: [AttributeSpec; 7] = [
    always("activation_alpha"),
    always("activation_beta"),
    always("activations"),
    always("clip"),
    always("direction"),
    always("hidden_size"),
    since("layout", 14),
];

/// The line of RNN.
pub static RNN: OpEntry = OpEntry {
    import: |node| Recurrent::import(Kind::Plain, node),
    decode: |from| Recurrent::decode(Kind::Plain, from),
    ..entry("RNN", 143, &[1, 7, 14, 22], OF_RNN, 6, 2)
};
const OF_RNN: &[AttributeSpec] = &[
    COMMON[0],
    COMMON[1],
    COMMON[2],
    COMMON[3],
    COMMON[4],
    COMMON[5],
    COMMON[6],
    before("output_sequence", 7),
];

/// The line of GRU.
pub static GRU: OpEntry = OpEntry {
    import: |node| Recurrent::import(Kind::Gru, node),
    decode: |from| Recurrent::decode(Kind::Gru, from),
    ..entry("GRU", 144, &[1, 3, 7, 14, 22], OF_GRU, 6, 2)
};
const OF_GRU: &[AttributeSpec] = &[
    COMMON[0],
    COMMON[1],
    COMMON[2],
    COMMON[3],
    COMMON[4],
    COMMON[5],
    COMMON[6],
    since("linear_before_reset", 3),
    before("output_sequence", 7),
];

/// The line of LSTM.
pub static LSTM: OpEntry = OpEntry {
    import: |node| Recurrent::import(Kind::Lstm, node),
    decode: |from| Recurrent::decode(Kind::Lstm, from),
    ..entry("LSTM", 145, &[1, 7, 14, 22], OF_LSTM, 8, 3)
};
const OF_LSTM: &[AttributeSpec] = &[
    COMMON[0],
    COMMON[1],
    COMMON[2],
    COMMON[3],
    COMMON[4],
    COMMON[5],
    COMMON[6],
    always("input_forget"),
    before("output_sequence", 7),
];

/// Optional operands behind X, W and R: bias, lengths, first hidden and cell state, peepholes.
const OPTIONAL: usize = 5;

/// Steps over a sequence.
#[derive(Clone, Copy, Debug)]
pub struct Recurrent {
    cell: Cell,
    /// Forwards, backwards, or both.
    direction: Direction,
    /// The batch is the first dim, not the second.
    batch_first: bool,
    has: [bool; OPTIONAL],
    outputs: usize,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Direction {
    Forwards,
    Backwards,
    Both,
}

impl Direction {
    fn count(self) -> usize {
        if self == Self::Both { 2 } else { 1 }
    }
}

/// Sizes of everything.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    steps: usize,
    batches: usize,
    inputs: usize,
    hidden: usize,
}

impl Recurrent {
    fn import(kind: Kind, node: &Node<'_>) -> Result<Imported, OpError> {
        let direction = match node.text("direction")?.unwrap_or("forward") {
            // The first definition of GRU has a slip of the pen.
            "forward" | "foward" => Direction::Forwards,
            "reverse" => Direction::Backwards,
            "bidirectional" => Direction::Both,
            other => {
                let supported = "forward, reverse, bidirectional";
                return Err(OpError::attribute("direction", other, supported));
            }
        };
        let cell = Cell::import(kind, direction.count(), node)?;
        let has = std::array::from_fn(|index| node.has(3 + index));
        let batch_first = node.flag("layout", false)?;
        let own = Self { cell, direction, batch_first, has, outputs: node.outputs };
        if let Some(given) = node.int("hidden_size")? {
            let hidden = node.input(2)?.info.shape.dims().get(2).copied();
            if usize::try_from(given).ok() != hidden {
                return Err(OpError::attribute("hidden_size", given, format!("R's {hidden:?}")));
            }
        }
        Ok(Imported::all(own, node))
    }

    fn decode(kind: Kind, from: &mut ParamReader<'_>) -> Result<Box<dyn Op>, OpError> {
        let direction = match from.u32()? {
            0 => Direction::Forwards,
            1 => Direction::Backwards,
            2 => Direction::Both,
            other => return Err(OpError::params(format!("direction {other}"))),
        };
        let (batch_first, outputs) = (from.flag()?, from.size()?);
        let mut has = [false; OPTIONAL];
        for own in &mut has {
            *own = from.flag()?;
        }
        let most = if kind == Kind::Lstm { 3 } else { 2 };
        if !(1..=most).contains(&outputs) || (kind != Kind::Lstm && (has[3] || has[4])) {
            return Err(OpError::params(format!("{outputs} outputs, operands {has:?}")));
        }
        let cell = Cell::decode(kind, from)?;
        Ok(Box::new(Self { cell, direction, batch_first, has, outputs }))
    }

    /// Index of an optional operand.
    fn operand(&self, index: usize) -> Option<usize> {
        let before = self.has[..index].iter().filter(|own| **own).count();
        self.has[index].then_some(3 + before)
    }

    fn sizes(&self, shapes: &[Shape]) -> Result<Sizes, OpError> {
        let refuse = |what: &str| OpError::shape(format!("{shapes:?}: {what}"));
        let count = 3 + self.has.iter().filter(|own| **own).count();
        let [x, w, r] = match shapes {
            [x, w, r, ..] if shapes.len() == count => [x.dims(), w.dims(), r.dims()],
            _ => return Err(refuse("another number of operands")),
        };
        let ([first, second, inputs], [directions, _, hidden]) = (x, r) else {
            return Err(refuse("X and R have three dims"));
        };
        let (steps, batches) = if self.batch_first { (second, first) } else { (first, second) };
        let rows = self.cell.gates().saturating_mul(*hidden);
        let own = self.direction.count();
        if *directions != own || w != [own, rows, *inputs] || r != [own, rows, *hidden] {
            return Err(refuse("W and R do not fit"));
        }
        let sizes = Sizes { steps: *steps, batches: *batches, inputs: *inputs, hidden: *hidden };
        let state = if self.batch_first {
            [sizes.batches, own, sizes.hidden]
        } else {
            [own, sizes.batches, sizes.hidden]
        };
        let wanted: [&[usize]; OPTIONAL] =
            [&[own, 2 * rows], &[sizes.batches], &state, &state, &[own, 3 * sizes.hidden]];
        for (index, wanted) in wanted.iter().enumerate() {
            if let Some(at) = self.operand(index)
                && shapes[at].dims() != *wanted
            {
                return Err(refuse(&format!("operand {at} has to be {wanted:?}")));
            }
        }
        Ok(sizes)
    }

    fn shapes(&self, inputs: &[TensorInfo]) -> Result<Vec<Shape>, OpError> {
        let own: Vec<Shape> = inputs.iter().map(|input| input.shape).collect();
        let s = self.sizes(&own)?;
        let (directions, hidden) = (self.direction.count(), s.hidden);
        let (all, state) = if self.batch_first {
            ([s.batches, s.steps, directions, hidden], [s.batches, directions, hidden])
        } else {
            ([s.steps, directions, s.batches, hidden], [directions, s.batches, hidden])
        };
        let (all, state) = (Shape::new(&all)?, Shape::new(&state)?);
        Ok([all, state, state][..self.outputs].to_vec())
    }

    fn compute(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        let shapes: [Shape; 3 + OPTIONAL] = std::array::from_fn(|index| {
            if index < inputs.count() { inputs.info(index).shape } else { Shape::SCALAR }
        });
        let s = self.sizes(&shapes[..inputs.count()]).map_err(|_| Fault::Memory)?;
        let (directions, hidden) = (self.direction.count(), s.hidden);
        let rows = self.cell.gates() * hidden;
        let optional =
            |index: usize| self.operand(index).map(|at| inputs.numbers::<f64>(at)).transpose();
        let lengths = self.operand(1).map(|at| inputs.indices(at)).transpose()?;
        let (first_h, first_c) = (optional(2)?, optional(3)?);
        let (bias, peepholes) = (optional(0)?, optional(4)?);
        let [x, w, r] = [inputs.numbers(0)?, inputs.numbers(1)?, inputs.numbers(2)?];
        let scratch = elements_mut::<f64>(output.scratch).ok_or(Fault::Memory)?;
        let (h, rest) = scratch.split_at_mut_checked(hidden).ok_or(Fault::Memory)?;
        let (c, rest) = rest.split_at_mut_checked(hidden).ok_or(Fault::Memory)?;
        let (gates, rest) = rest.split_at_mut_checked(rows + hidden).ok_or(Fault::Memory)?;
        let (from, line) = rest.split_at_mut_checked(s.inputs).ok_or(Fault::Memory)?;
        let line = line.get_mut(..s.inputs.max(hidden)).ok_or(Fault::Memory)?;
        let mut state = State { h, c, gates, line };
        output.bytes.fill(0);
        let mut to = NumbersMut::<f64>::new(output.info.dtype, output.bytes)?;
        for lane in 0..directions * s.batches {
            let (direction, batch) = (lane / s.batches, lane % s.batches);
            let own = Gates { w, r, bias, peepholes, direction, rows };
            let place =
                hidden * if self.batch_first { batch * directions + direction } else { lane };
            for (to, from) in [(&mut *state.h, first_h), (&mut *state.c, first_c)] {
                match from {
                    Some(from) => from.read(place, 1, to),
                    None => to.fill(0.0),
                }
            }
            let steps = lengths
                .map_or(s.steps, |list| usize::try_from(list.get(batch)).unwrap_or(0).min(s.steps));
            let backwards = self.direction == Direction::Backwards || direction == 1;
            for step in 0..steps {
                let step = if backwards { steps - 1 - step } else { step };
                let at = if self.batch_first {
                    batch * s.steps + step
                } else {
                    step * s.batches + batch
                };
                x.read(at * s.inputs, 1, from);
                self.cell.step(&own, from, &mut state)?;
                let at = if self.batch_first {
                    at * directions + direction
                } else {
                    (step * directions + direction) * s.batches + batch
                };
                to.write(at * hidden, state.h);
            }
            for (index, from) in [&*state.h, &*state.c].into_iter().enumerate() {
                let Some(Some(part)) = output.more.get_mut(index) else { continue };
                NumbersMut::new(part.info.dtype, part.bytes)?.write(place, from);
            }
        }
        Ok(())
    }
}

impl Op for Recurrent {
    fn code(&self) -> u16 {
        match self.cell.kind() {
            Kind::Plain => const { RNN.code },
            Kind::Gru => const { GRU.code },
            Kind::Lstm => const { LSTM.code },
        }
    }

    fn encode(&self, into: &mut ParamWriter) {
        into.u32(match self.direction {
            Direction::Forwards => 0,
            Direction::Backwards => 1,
            Direction::Both => 2,
        });
        into.flag(self.batch_first);
        into.size(self.outputs);
        self.has.iter().for_each(|own| into.flag(*own));
        self.cell.encode(into);
    }

    fn types_of(&self, operand: usize) -> Option<&'static [DataType]> {
        (self.operand(1) == Some(operand)).then_some(&[DataType::INT32])
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        Ok(TensorInfo::new(inputs[0].dtype, self.shapes(inputs)?[0]))
    }

    fn further(&self, inputs: &[TensorInfo]) -> Result<Vec<TensorInfo>, OpError> {
        let shapes = self.shapes(inputs)?.into_iter().skip(1);
        Ok(shapes.map(|shape| TensorInfo::new(inputs[0].dtype, shape)).collect())
    }

    fn scratch_bytes(&self, inputs: &[TensorInfo], _output: &TensorInfo) -> usize {
        let last = |index: usize| inputs[index].shape.dims().last().copied().unwrap_or(0);
        let (width, hidden) = (last(0), last(2));
        // Both states, all gates, and what a gate is multiplied by; an input, and a row of weights.
        let state = hidden.saturating_mul(2 + self.cell.gates() + 1);
        state.saturating_add(width).saturating_add(width.max(hidden)).saturating_mul(8)
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        self.compute(inputs, output)
    }

    fn flops(&self, inputs: &[TensorInfo], _output: &TensorInfo) -> u64 {
        let (x, weights) =
            (inputs[0].shape, inputs[1].shape.elements() + inputs[2].shape.elements());
        let steps = x.dims()[..2].iter().product::<usize>() as u64;
        (2 * steps).saturating_mul(weights as u64)
    }
}
