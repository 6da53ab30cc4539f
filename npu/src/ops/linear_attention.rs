//! LinearAttention: a matrix a head that keys and values are written into one after the other, and
//! that queries read.

use crate::DataType;
use crate::numbers::NumbersMut;
use crate::ops::sample::from_size;
use crate::ops::{Imported, Node, Op, OpEntry, OpError, always};
use crate::params::{ParamReader, ParamWriter};
use crate::shape::Shape;
use crate::tensor::{Fault, Inputs, Output, TensorInfo};

/// The line of the table.
pub static ENTRY: OpEntry = OpEntry {
    name: "LinearAttention",
    code: 182,
    versions: &[27],
    attributes: &[
        always("chunk_size"),
        always("kv_num_heads"),
        always("q_num_heads"),
        always("scale"),
        always("update_rule"),
    ],
    inputs: (3, 6),
    outputs: 2,
    operands: (3, 6),
    types: &[(DataType::FLOAT, 27), (DataType::FLOAT16, 27), (DataType::BF16, 27)],
    refused: "a state of another type than the rest",
    import,
    decode,
    ..OpEntry::BASE
};

/// A state that is written and read step by step.
#[derive(Clone, Copy, Debug)]
pub struct LinearAttention {
    /// The state fades: there is an operand that says how much.
    gated: bool,
    /// Only what the state does not yet answer is written: an operand says how much of it.
    delta: bool,
    /// Whether there is a first state, and whether the last one is written.
    past: bool,
    present: bool,
    /// Heads of queries, and of keys and values.
    heads: [usize; 2],
    /// 0: by the length of a key.
    scale: f32,
}

fn import(node: &Node<'_>) -> Result<Imported, OpError> {
    let rule = node.text("update_rule")?.unwrap_or("gated_delta");
    let (gated, delta) = match rule {
        "linear" => (false, false),
        "gated" => (true, false),
        "delta" => (false, true),
        "gated_delta" => (true, true),
        other => {
            let supported = "linear, gated, delta, gated_delta";
            return Err(OpError::attribute("update_rule", other, supported));
        }
    };
    if (node.has(4), node.has(5)) != (gated, delta) {
        let found = format!("{rule} with decay: {}, beta: {}", node.has(4), node.has(5));
        return Err(OpError::attribute("update_rule", found, "those inputs that the rule has"));
    }
    node.int("chunk_size")?;
    let heads = |name: &str| {
        let given = node.int(name)?.unwrap_or(0);
        let own = usize::try_from(given).ok().filter(|own| (1..=1 << 20).contains(own));
        own.ok_or_else(|| OpError::attribute(name, given, "1 or more"))
    };
    let heads = [heads("q_num_heads")?, heads("kv_num_heads")?];
    let (past, present, scale) = (node.has(3), node.outputs > 1, node.float("scale", 0.0)?);
    Ok(Imported::all(LinearAttention { gated, delta, past, present, heads, scale }, node))
}

fn decode(from: &mut ParamReader<'_>) -> Result<Box<dyn Op>, OpError> {
    let (gated, delta, past, present) = (from.flag()?, from.flag()?, from.flag()?, from.flag()?);
    let (heads, scale) = (from.sizes()?, from.f32()?);
    if heads.iter().any(|own| !(1..=1 << 20).contains(own)) {
        return Err(OpError::params(format!("{heads:?} heads")));
    }
    Ok(Box::new(LinearAttention { gated, delta, past, present, heads, scale }))
}

/// Lengths that the shapes tell.
#[derive(Clone, Copy)]
struct Sizes {
    batches: usize,
    steps: usize,
    /// Of a key, and of a value.
    key: usize,
    value: usize,
    /// Numbers a step that fade the state, and that say how much is written.
    decay: usize,
    beta: usize,
}

impl LinearAttention {
    /// Places of the operands that may be left out: the first state, decay, beta.
    fn places(&self) -> [usize; 3] {
        let decay = 3 + usize::from(self.past);
        [3, decay, decay + usize::from(self.gated)]
    }

    fn sizes(&self, shapes: &[&[usize]]) -> Option<Sizes> {
        let ([queries, own], [state, decay, beta]) = (self.heads, self.places());
        let ([batches, steps, q], [_, _, k], [_, _, v]) = (shapes[0], shapes[1], shapes[2]) else {
            return None;
        };
        let (key, value) = (k / own, v / own);
        let count = beta + usize::from(self.delta);
        let whole = queries % own == 0 && k % own == 0 && v % own == 0 && *q == queries * key;
        if shapes.len() != count || !whole || key == 0 || value == 0 {
            return None;
        }
        let steps_fit = |shape: &[usize]| shape[..2] == [*batches, *steps];
        let number = |used: bool, at: usize, allowed: [usize; 2]| match shapes.get(at) {
            Some([rows @ .., last]) if used => {
                (rows == [*batches, *steps] && allowed.contains(last)).then_some(*last)
            }
            _ => (!used).then_some(0),
        };
        let decay = number(self.gated, decay, [own, own * key])?;
        let beta = number(self.delta, beta, [own, 1])?;
        let fits = !self.past || shapes[state] == [*batches, own, key, value];
        let fits = fits && steps_fit(shapes[1]) && steps_fit(shapes[2]);
        let (batches, steps) = (*batches, *steps);
        fits.then_some(Sizes { batches, steps, key, value, decay, beta })
    }

    fn sizes_of(&self, inputs: &[TensorInfo]) -> Result<Sizes, OpError> {
        let shapes: Vec<&[usize]> = inputs.iter().map(|own| own.shape.dims()).collect();
        self.sizes(&shapes).ok_or_else(|| {
            OpError::shape(format!("{shapes:?} with {:?} heads of queries and keys", self.heads))
        })
    }

    /// All steps of one head of one batch.
    fn head(
        &self,
        inputs: &dyn Inputs,
        sizes: &Sizes,
        (batch, head): (usize, usize),
        (state, new): (&mut [f64], &mut [f64]),
        to: &mut NumbersMut<'_, f64>,
    ) -> Result<(), Fault> {
        let ([queries, own], [_, decay, beta]) = (self.heads, self.places());
        let Sizes { steps, key, value, .. } = *sizes;
        let (q, k, v) = (inputs.numbers::<f64>(0)?, inputs.numbers::<f64>(1)?, inputs.numbers(2)?);
        let fades = if self.gated { Some(inputs.numbers::<f64>(decay)?) } else { None };
        let shares = if self.delta { Some(inputs.numbers::<f64>(beta)?) } else { None };
        let scale = f64::from(self.scale);
        let scale = if self.scale == 0.0 { 1.0 / from_size(key).sqrt() } else { scale };
        for row in (0..steps).map(|step| batch * steps + step) {
            let keys = |at: usize| k.get((row * own + head) * key + at);
            if let Some(fades) = fades {
                // One a head, or one an element of a key.
                let (each, width) = (sizes.decay / own, value);
                for (at, line) in state.chunks_exact_mut(width).enumerate() {
                    let place = row * sizes.decay + head * each + at % each;
                    let by = fades.get(place).exp();
                    line.iter_mut().for_each(|own| *own *= by);
                }
            }
            v.read((row * own + head) * value, 1, new);
            if let Some(shares) = shares {
                let by = shares.get(row * sizes.beta + head % sizes.beta);
                for (at, line) in state.chunks_exact(value).enumerate() {
                    new.iter_mut().zip(line).for_each(|(new, own)| *new -= keys(at) * own);
                }
                new.iter_mut().for_each(|own| *own *= by);
            }
            for (at, line) in state.chunks_exact_mut(value).enumerate() {
                line.iter_mut().zip(&*new).for_each(|(own, new)| *own += keys(at) * new);
            }
            let group = queries / own;
            for query in head * group..(head + 1) * group {
                new.fill(0.0);
                for (at, line) in state.chunks_exact(value).enumerate() {
                    let by = scale * q.get((row * queries + query) * key + at);
                    new.iter_mut().zip(line).for_each(|(sum, own)| *sum += by * own);
                }
                to.write((row * queries + query) * value, new);
            }
        }
        Ok(())
    }
}

impl Op for LinearAttention {
    fn code(&self) -> u16 {
        const { ENTRY.code }
    }

    fn encode(&self, into: &mut ParamWriter) {
        let flags = [self.gated, self.delta, self.past, self.present];
        flags.into_iter().for_each(|own| into.flag(own));
        into.sizes(&self.heads);
        into.f32(self.scale);
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        let sizes = self.sizes_of(inputs)?;
        let width = self.heads[0].saturating_mul(sizes.value);
        let shape = Shape::new(&[sizes.batches, sizes.steps, width])?;
        Ok(TensorInfo::new(inputs[0].dtype, shape))
    }

    fn further(&self, inputs: &[TensorInfo]) -> Result<Vec<TensorInfo>, OpError> {
        let Sizes { batches, key, value, .. } = self.sizes_of(inputs)?;
        let shape = Shape::new(&[batches, self.heads[1], key, value])?;
        Ok(vec![TensorInfo::new(inputs[0].dtype, shape); usize::from(self.present)])
    }

    fn scratch_bytes(&self, inputs: &[TensorInfo], _output: &TensorInfo) -> usize {
        let own =
            self.sizes_of(inputs).map(|own| own.key.saturating_add(1).saturating_mul(own.value));
        own.unwrap_or(0).saturating_mul(8)
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        let mut shapes = [&[][..]; 6];
        let count = inputs.count().min(6);
        (0..count).for_each(|at| shapes[at] = inputs.dims(at));
        let sizes = self.sizes(&shapes[..count]).ok_or(Fault::Memory)?;
        let scratch = crate::cast::elements_mut::<f64>(output.scratch).ok_or(Fault::Memory)?;
        let area = sizes.key * sizes.value;
        let (state, new) = scratch.split_at_mut_checked(area).ok_or(Fault::Memory)?;
        let new = new.get_mut(..sizes.value).ok_or(Fault::Memory)?;
        let past = if self.past { Some(inputs.numbers::<f64>(3)?) } else { None };
        let dtype = output.info.dtype;
        let mut to = NumbersMut::<f64>::new(dtype, output.bytes)?;
        for place in 0..sizes.batches * self.heads[1] {
            match past {
                Some(past) => past.read(place * area, 1, state),
                None => state.fill(0.0),
            }
            let at = (place / self.heads[1], place % self.heads[1]);
            self.head(inputs, &sizes, at, (state, new), &mut to)?;
            if let Some(Some(part)) = output.more.get_mut(0) {
                NumbersMut::<f64>::new(dtype, part.bytes)?.write(place * area, state);
            }
        }
        Ok(())
    }

    fn flops(&self, inputs: &[TensorInfo], output: &TensorInfo) -> u64 {
        let key = inputs[1].shape.dims().last().copied().unwrap_or(0) as u64;
        (6 * key).saturating_mul(output.shape.elements() as u64)
    }
}
