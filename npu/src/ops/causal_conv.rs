//! CausalConvWithState: each feature map by a kernel of its own that sees what came before; the end
//! is the state of the next run.

use crate::DataType;
use crate::numbers::Numbers;
use crate::ops::{Imported, Node, Op, OpEntry, OpError, always};
use crate::params::{ParamReader, ParamWriter};
use crate::shape::Shape;
use crate::tensor::{Fault, Inputs, Output, TensorInfo};

/// The line of the table.
pub static ENTRY: OpEntry = OpEntry {
    name: "CausalConvWithState",
    code: 181,
    versions: &[27],
    attributes: &[always("activation")],
    inputs: (2, 4),
    outputs: 2,
    operands: (2, 4),
    types: &[(DataType::FLOAT, 27), (DataType::FLOAT16, 27), (DataType::BF16, 27)],
    import,
    decode: |from: &mut ParamReader<'_>| {
        let (swish, bias) = (from.flag()?, from.flag()?);
        Ok(Box::new(CausalConv { swish, bias, past: from.flag()?, state: from.flag()? }))
    },
    ..OpEntry::BASE
};

/// A kernel a feature map.
#[derive(Clone, Copy, Debug)]
pub struct CausalConv {
    swish: bool,
    /// Whether there is a bias, what came before, and a state to write.
    bias: bool,
    past: bool,
    state: bool,
}

fn import(node: &Node<'_>) -> Result<Imported, OpError> {
    let swish = match node.text("activation")?.unwrap_or("none") {
        "none" => false,
        "silu" | "swish" => true,
        other => return Err(OpError::attribute("activation", other, "none, silu, swish")),
    };
    let (bias, past, state) = (node.has(2), node.has(3), node.outputs > 1);
    Ok(Imported::all(CausalConv { swish, bias, past, state }, node))
}

/// A feature map with what came before it.
struct Line<'a> {
    x: Numbers<'a, f64>,
    past: Option<Numbers<'a, f64>>,
    /// Elements of both.
    length: usize,
    before: usize,
}

impl Line<'_> {
    fn at(&self, map: usize, place: usize) -> f64 {
        match place.checked_sub(self.before) {
            Some(place) => self.x.get(map * self.length + place),
            None => self.past.map_or(0.0, |past| past.get(map * self.before + place)),
        }
    }
}

impl Op for CausalConv {
    fn code(&self) -> u16 {
        const { ENTRY.code }
    }

    fn encode(&self, into: &mut ParamWriter) {
        [self.swish, self.bias, self.past, self.state].into_iter().for_each(|own| into.flag(own));
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        let (x, kernel) = (inputs[0].shape, inputs[1].shape);
        let refuse = || {
            let given: Vec<String> = inputs.iter().map(|own| own.shape.to_string()).collect();
            let wanted = "[N, C, L], [C, 1, k], [C], [N, C, k - 1]";
            OpError::shape(format!("{}: {wanted} are supported", given.join(", ")))
        };
        if inputs.len() != 2 + usize::from(self.bias) + usize::from(self.past) {
            return Err(refuse());
        }
        let ([n, c, _], [maps, 1, size]) = (x.dims(), kernel.dims()) else {
            return Err(refuse());
        };
        let bias = !self.bias || inputs[2].shape.dims() == [*c];
        let past = self.past.then(|| inputs[inputs.len() - 1].shape);
        let past = past.is_none_or(|past| past.dims() == [*n, *c, size.saturating_sub(1)]);
        if *size > 0 && c == maps && bias && past { Ok(inputs[0]) } else { Err(refuse()) }
    }

    fn further(&self, inputs: &[TensorInfo]) -> Result<Vec<TensorInfo>, OpError> {
        if !self.state {
            return Ok(Vec::new());
        }
        let (x, size) = (inputs[0].shape, inputs[1].shape.dims()[2]);
        let shape = Shape::new(&[x.dims()[0], x.dims()[1], size - 1])?;
        Ok(vec![TensorInfo::new(inputs[0].dtype, shape)])
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        let [n, c, length] = *inputs.dims(0) else { return Err(Fault::Memory) };
        let (size, kernel) = (inputs.dims(1)[2], inputs.numbers::<f64>(1)?);
        let bias = if self.bias { Some(inputs.numbers::<f64>(2)?) } else { None };
        let past = if self.past { Some(inputs.numbers(inputs.count() - 1)?) } else { None };
        let line = Line { x: inputs.numbers(0)?, past, length, before: size - 1 };
        let mut to = output.numbers::<f64>()?;
        for flat in 0..n * c * length {
            let (map, place) = (flat / length, flat % length);
            let own = map % c;
            let first = bias.map_or(0.0, |bias| bias.get(own));
            let sum = (0..size)
                .fold(first, |sum, k| sum + kernel.get(own * size + k) * line.at(map, place + k));
            to.set(flat, if self.swish { sum / (1.0 + (-sum).exp()) } else { sum });
        }
        if let Some(mut state) = output.further_numbers::<f64>(0)? {
            for flat in 0..n * c * (size - 1) {
                let (map, place) = (flat / (size - 1), flat % (size - 1));
                state.set(flat, line.at(map, length + place));
            }
        }
        Ok(())
    }

    fn flops(&self, inputs: &[TensorInfo], output: &TensorInfo) -> u64 {
        let size = inputs[1].shape.dims().last().copied().unwrap_or(0) as u64;
        (2 * size).saturating_mul(output.shape.elements() as u64)
    }
}
