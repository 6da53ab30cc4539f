//! Attention: for each query the values of all keys, by the shares of a softmax over products.

use crate::DataType;
use crate::cast::elements_mut;
use crate::numbers::{NumbersMut, dot};
use crate::ops::sample::from_size;
use crate::ops::{Imported, Node, Op, OpEntry, OpError, always, since};
use crate::params::{ParamReader, ParamWriter};
use crate::shape::Shape;
use crate::tensor::{Fault, Inputs, Output, Part, TensorInfo, element_size};

/// The line of the table.
pub static ENTRY: OpEntry = OpEntry {
    name: "Attention",
    code: 141,
    versions: &[23, 24, 25],
    attributes: &[
        always("is_causal"),
        always("kv_num_heads"),
        always("q_num_heads"),
        always("qk_matmul_output_mode"),
        always("scale"),
        always("softcap"),
        always("softmax_precision"),
        since("left_window_size", 25),
        since("right_window_size", 25),
    ],
    inputs: (3, 7),
    outputs: 4,
    operands: (3, 7),
    types: &[(DataType::FLOAT, 1), (DataType::DOUBLE, 1), (DataType::FLOAT16, 1)],
    widened: &[(DataType::BF16, 1)],
    refused: "values of another type than keys",
    import,
    decode,
    ..OpEntry::BASE
};

/// Queries, keys and values of several heads.
#[derive(Clone, Copy, Debug)]
pub struct Attention {
    causal: bool,
    /// Of inputs with three dims; 0 for those with four.
    q_heads: usize,
    kv_heads: usize,
    /// What products are before the fourth output: 0 and 1 as they are, 2 with masks, 3 as shares.
    mode: u32,
    scale: Option<f32>,
    softcap: f32,
    /// How many keys before and behind a query are seen; all when negative.
    window: [i64; 2],
    has: Operands,
    outputs: usize,
}

/// Which optional operands there are.
#[derive(Clone, Copy, Debug)]
struct Operands {
    mask: bool,
    past: bool,
    lengths: bool,
}

impl Operands {
    fn past(self) -> Option<usize> {
        self.past.then_some(3 + usize::from(self.mask))
    }

    fn lengths(self) -> Option<usize> {
        self.lengths.then_some(3 + usize::from(self.mask) + 2 * usize::from(self.past))
    }

    fn count(self) -> usize {
        3 + usize::from(self.mask) + 2 * usize::from(self.past) + usize::from(self.lengths)
    }
}

fn import(node: &Node<'_>) -> Result<Imported, OpError> {
    let count = |name: &str| {
        let given = node.int(name)?.unwrap_or(0);
        usize::try_from(given).map_err(|_| OpError::attribute(name, given, "0 or more"))
    };
    let mode = node.int("qk_matmul_output_mode")?.unwrap_or(0);
    let own = u32::try_from(mode).ok().filter(|mode| *mode < 4);
    let mode = own.ok_or_else(|| OpError::attribute("qk_matmul_output_mode", mode, "0 to 3"))?;
    if let Some(given) = node.int("softmax_precision")?
        && ![1, 10, 11, 16].contains(&given)
    {
        return Err(OpError::attribute("softmax_precision", given, "1, 10, 11, 16"));
    }
    if node.has(4) != node.has(5) {
        return Err(OpError::shape("`past_key` and `past_value` are given together"));
    }
    if node.opset < 24 && node.has(6) {
        return Err(OpError::Count { what: "inputs", found: 7, supported: "3 to 6".to_owned() });
    }
    let side = |name: &str| node.int(name).map(|own| own.unwrap_or(-1));
    let has = Operands { mask: node.has(3), past: node.has(4), lengths: node.has(6) };
    let own = Attention {
        causal: node.flag("is_causal", false)?,
        q_heads: count("q_num_heads")?,
        kv_heads: count("kv_num_heads")?,
        mode,
        scale: node.find_float("scale")?,
        softcap: node.float("softcap", 0.0)?,
        window: [side("left_window_size")?, side("right_window_size")?],
        has,
        outputs: node.outputs,
    };
    Ok(Imported::all(own, node))
}

fn decode(from: &mut ParamReader<'_>) -> Result<Box<dyn Op>, OpError> {
    let own = Attention {
        causal: from.flag()?,
        q_heads: from.size()?,
        kv_heads: from.size()?,
        mode: from.u32()?,
        scale: if from.flag()? { Some(from.f32()?) } else { None },
        softcap: from.f32()?,
        window: [from.i64()?, from.i64()?],
        has: Operands { mask: from.flag()?, past: from.flag()?, lengths: from.flag()? },
        outputs: from.size()?,
    };
    if !(1..=4).contains(&own.outputs) || own.mode > 3 {
        return Err(OpError::params(format!("{} outputs, mode {}", own.outputs, own.mode)));
    }
    Ok(Box::new(own))
}

/// Sizes of everything.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    batches: usize,
    q_heads: usize,
    kv_heads: usize,
    queries: usize,
    /// Keys that are given, and those before them.
    keys: usize,
    past: usize,
    width: usize,
    value_width: usize,
    /// Heads are the second dim; else they are parts of the third.
    four: bool,
}

impl Sizes {
    fn total(&self) -> usize {
        self.past + self.keys
    }

    /// Place of the first element of a row.
    fn row(&self, heads: usize, rows: usize, width: usize, at: [usize; 3]) -> usize {
        let [batch, head, row] = at;
        if self.four {
            ((batch * heads + head) * rows + row) * width
        } else {
            ((batch * rows + row) * heads + head) * width
        }
    }
}

impl Attention {
    /// Sizes of queries, keys and values.
    fn given(&self, inputs: &[Shape]) -> Option<Sizes> {
        let (batches, [q_heads, kv_heads], [queries, keys], [width, value_width], four) =
            match [inputs[0].dims(), inputs[1].dims(), inputs[2].dims()] {
                [[b, h, s, d], [c, i, t, e], [x, j, u, v]] => {
                    let fits = (b, d) == (c, e) && (b, i, t) == (x, j, u);
                    fits.then_some((*b, [*h, *i], [*s, *t], [*d, *v], true))?
                }
                [[b, s, d], [c, t, e], [x, u, v]] => {
                    let (h, i) = (self.q_heads, self.kv_heads);
                    let whole = h > 0
                        && i > 0
                        && d.is_multiple_of(h)
                        && e.is_multiple_of(i)
                        && v.is_multiple_of(i);
                    let fits = whole && b == c && (b, t) == (x, u) && d / h == e / i;
                    fits.then(|| (*b, [h, i], [*s, *t], [d / h, v / i], false))?
                }
                _ => return None,
            };
        let past = 0;
        Some(Sizes { batches, q_heads, kv_heads, queries, keys, past, width, value_width, four })
    }

    fn sizes(&self, inputs: &[Shape]) -> Result<Sizes, OpError> {
        let refuse = |what: &str| OpError::shape(format!("{inputs:?}: {what}"));
        if inputs.len() != self.has.count() {
            return Err(refuse("another number of operands"));
        }
        let mut sizes = self.given(inputs).ok_or_else(|| {
            refuse("queries, keys and values do not fit: three dims each and heads, or four dims")
        })?;
        if sizes.kv_heads == 0 || !sizes.q_heads.is_multiple_of(sizes.kv_heads) {
            return Err(refuse("heads of queries are no multiple of those of keys"));
        }
        if let Some(at) = self.has.past() {
            let (keys, values) = (inputs[at].dims(), inputs[at + 1].dims());
            let past = *keys.get(2).ok_or_else(|| refuse("past keys have four dims"))?;
            let own = |width| [sizes.batches, sizes.kv_heads, past, width];
            if keys != own(sizes.width) || values != own(sizes.value_width) {
                return Err(refuse("past keys and values do not fit"));
            }
            sizes.past = past;
        }
        if let Some(at) = self.has.lengths()
            && inputs[at].dims() != [sizes.batches]
        {
            return Err(refuse("one length a batch"));
        }
        if self.has.mask {
            let mask = inputs[3].dims();
            let (last, rest) = mask.split_last().ok_or_else(|| refuse("a mask without dims"))?;
            let whole = [sizes.batches, sizes.q_heads, sizes.queries];
            let fits = rest.len() <= 3
                && rest
                    .iter()
                    .rev()
                    .zip(whole.iter().rev())
                    .all(|(own, all)| *own == 1 || own == all);
            // A mask of one number is for all keys only when there is one.
            if !fits || *last > sizes.total() || *last == 0 {
                return Err(refuse("the mask does not broadcast"));
            }
        }
        Ok(sizes)
    }

    fn shapes(&self, inputs: &[TensorInfo]) -> Result<Vec<Shape>, OpError> {
        let own: Vec<Shape> = inputs.iter().map(|input| input.shape).collect();
        let s = self.sizes(&own)?;
        let y = if s.four {
            Shape::new(&[s.batches, s.q_heads, s.queries, s.value_width])?
        } else {
            Shape::new(&[s.batches, s.queries, s.q_heads.saturating_mul(s.value_width)])?
        };
        let all = [
            y,
            Shape::new(&[s.batches, s.kv_heads, s.total(), s.width])?,
            Shape::new(&[s.batches, s.kv_heads, s.total(), s.value_width])?,
            Shape::new(&[s.batches, s.q_heads, s.queries, s.total()])?,
        ];
        Ok(all[..self.outputs].to_vec())
    }

    fn compute(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        let shapes: [Shape; 7] = std::array::from_fn(|index| {
            if index < inputs.count() { inputs.info(index).shape } else { Shape::SCALAR }
        });
        let s = self.sizes(&shapes[..inputs.count()]).map_err(|_| Fault::Memory)?;
        self.caches(&s, inputs, output)?;
        let q = inputs.numbers::<f64>(0)?;
        let scratch = elements_mut::<f64>(output.scratch).ok_or(Fault::Memory)?;
        let (scores, rest) = scratch.split_at_mut_checked(s.total()).ok_or(Fault::Memory)?;
        let (own, rest) = rest.split_at_mut_checked(s.width).ok_or(Fault::Memory)?;
        let (sums, line) = rest.split_at_mut_checked(s.value_width).ok_or(Fault::Memory)?;
        let scale = self.scale.map_or(from_size(s.width).sqrt().recip(), f64::from);
        for row in 0..s.batches * s.q_heads * s.queries {
            let at = [row / s.queries / s.q_heads, row / s.queries % s.q_heads, row % s.queries];
            let [batch, head, query] = at;
            let kv = head / (s.q_heads / s.kv_heads);
            q.read(s.row(s.q_heads, s.queries, s.width, at), 1, own);
            let key = line.get_mut(..s.width).ok_or(Fault::Memory)?;
            for (index, score) in scores.iter_mut().enumerate() {
                let (operand, first) = self.line(&s, 0, [batch, kv, index]);
                inputs.numbers(operand)?.read(first, 1, key);
                *score = dot(own, key) * scale;
                if self.softcap > 0.0 {
                    let cap = f64::from(self.softcap);
                    *score = (*score / cap).tanh() * cap;
                }
            }
            self.keep(output.more, row, scores, self.mode < 2);
            let mut hidden = true;
            for (index, score) in scores.iter_mut().enumerate() {
                let bias = self.bias(&s, inputs, [batch, head, query], index)?;
                hidden &= bias == f64::NEG_INFINITY;
                *score += bias;
            }
            self.keep(output.more, row, scores, self.mode == 2);
            softmax(scores, hidden);
            self.keep(output.more, row, scores, self.mode == 3);
            sums.fill(0.0);
            let value = line.get_mut(..s.value_width).ok_or(Fault::Memory)?;
            for (index, share) in scores.iter().enumerate().filter(|(_, share)| **share != 0.0) {
                let (operand, first) = self.line(&s, 1, [batch, kv, index]);
                inputs.numbers(operand)?.read(first, 1, value);
                sums.iter_mut().zip(&*value).for_each(|(sum, x)| *sum += share * x);
            }
            let first = s.row(s.q_heads, s.queries, s.value_width, at);
            NumbersMut::new(output.info.dtype, output.bytes)?.write(first, sums);
        }
        Ok(())
    }

    /// The operand with a key (0), or a value (1), and the place of its first element.
    fn line(&self, s: &Sizes, place: usize, [batch, head, index]: [usize; 3]) -> (usize, usize) {
        let width = [s.width, s.value_width][place];
        match (self.has.past(), index.checked_sub(s.past)) {
            (Some(at), None) => {
                (at + place, ((batch * s.kv_heads + head) * s.past + index) * width)
            }
            (_, own) => {
                let at = [batch, head, own.unwrap_or(index)];
                (1 + place, s.row(s.kv_heads, s.keys, width, at))
            }
        }
    }

    /// Writes products of a query into the fourth output, if there is one.
    fn keep(&self, more: &mut [Option<Part<'_>>], row: usize, scores: &[f64], wanted: bool) {
        let Some(Some(part)) = more.get_mut(2).filter(|_| wanted) else { return };
        let Ok(mut to) = NumbersMut::new(part.info.dtype, part.bytes) else { return };
        to.write(row * scores.len(), scores);
    }

    /// What is added for a key: a mask, or that it must not be seen.
    fn bias(
        &self,
        s: &Sizes,
        inputs: &dyn Inputs,
        [batch, head, query]: [usize; 3],
        key: usize,
    ) -> Result<f64, Fault> {
        let number = |index: usize| i64::try_from(index).unwrap_or(i64::MAX);
        let mut bias = 0.0;
        let length = match self.has.lengths() {
            Some(at) => Some(inputs.elements::<i64>(at)?[batch]),
            None => None,
        };
        // Keys before the first query.
        let offset =
            length.map_or(number(s.past), |length| length.saturating_sub(number(s.queries)));
        let way = number(query).saturating_add(offset).saturating_sub(number(key));
        let [left, right] = self.window;
        let unseen = (self.causal && way < 0)
            || (left >= 0 && way > left)
            || (right >= 0 && way.saturating_neg() > right)
            || length.is_some_and(|length| number(key) >= length);
        if self.has.mask {
            let dims = inputs.dims(3);
            let last = dims.len() - 1;
            if key >= dims[last] {
                return Ok(f64::NEG_INFINITY);
            }
            let whole = [batch, head, query];
            let mut place = 0;
            for (dim, length) in dims[..last].iter().enumerate() {
                let index = if *length == 1 { 0 } else { whole[3 - last + dim] };
                place = place * length + index;
            }
            let at = place * dims[last] + key;
            bias = if inputs.info(3).dtype == DataType::BOOL {
                if inputs.bytes(3)[at] != 0 { 0.0 } else { f64::NEG_INFINITY }
            } else {
                inputs.numbers::<f64>(3)?.get(at)
            };
        }
        Ok(if unseen { f64::NEG_INFINITY } else { bias })
    }

    /// All keys and values, as the second and third output.
    fn caches(&self, s: &Sizes, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        let size = element_size(output.info.dtype).ok_or(Fault::Type(output.info.dtype))?;
        for (place, width) in [s.width, s.value_width].into_iter().enumerate() {
            let Some(Some(part)) = output.more.get_mut(place) else { return Ok(()) };
            for (row, to) in part.bytes.chunks_exact_mut((width * size).max(1)).enumerate() {
                let (batch, head) = (row / s.total() / s.kv_heads, row / s.total() % s.kv_heads);
                let (from, first) = self.line(s, place, [batch, head, row % s.total()]);
                to.copy_from_slice(&inputs.bytes(from)[first * size..][..width * size]);
            }
        }
        Ok(())
    }
}

/// Shares of a sum of exponentials; none where nothing is to be seen.
fn softmax(scores: &mut [f64], hidden: bool) {
    let most = scores.iter().fold(f64::NEG_INFINITY, |most, score| most.max(*score));
    if hidden || most == f64::NEG_INFINITY {
        scores.fill(0.0);
        return;
    }
    let mut sum = 0.0;
    for score in scores.iter_mut() {
        *score = (*score - most).exp();
        sum += *score;
    }
    scores.iter_mut().for_each(|score| *score /= sum);
}

impl Op for Attention {
    fn code(&self) -> u16 {
        const { ENTRY.code }
    }

    fn encode(&self, into: &mut ParamWriter) {
        into.flag(self.causal);
        into.sizes(&[self.q_heads, self.kv_heads]);
        into.u32(self.mode);
        into.flag(self.scale.is_some());
        self.scale.iter().for_each(|scale| into.f32(*scale));
        into.f32(self.softcap);
        self.window.iter().for_each(|side| into.i64(*side));
        [self.has.mask, self.has.past, self.has.lengths].iter().for_each(|own| into.flag(*own));
        into.size(self.outputs);
    }

    fn types_of(&self, operand: usize) -> Option<&'static [DataType]> {
        match operand {
            3 if self.has.mask => Some(MASKS),
            _ if self.has.lengths() == Some(operand) => Some(&[DataType::INT64]),
            _ => None,
        }
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        Ok(TensorInfo::new(inputs[0].dtype, self.shapes(inputs)?[0]))
    }

    fn further(&self, inputs: &[TensorInfo]) -> Result<Vec<TensorInfo>, OpError> {
        let shapes = self.shapes(inputs)?.into_iter().skip(1);
        Ok(shapes.map(|shape| TensorInfo::new(inputs[0].dtype, shape)).collect())
    }

    fn scratch_bytes(&self, inputs: &[TensorInfo], _output: &TensorInfo) -> usize {
        let own: Vec<Shape> = inputs.iter().map(|input| input.shape).collect();
        self.sizes(&own).map_or(0, |s| {
            let lines =
                s.width.saturating_add(s.value_width).saturating_add(s.width.max(s.value_width));
            s.total().saturating_add(lines).saturating_mul(8)
        })
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        self.compute(inputs, output)
    }

    fn flops(&self, inputs: &[TensorInfo], output: &TensorInfo) -> u64 {
        let keys = inputs[1].shape.elements() as u64;
        (4 * keys).saturating_mul(output.shape.elements() as u64 / 64 + 1)
    }
}

/// Types of masks.
const MASKS: &[DataType] = &[
    DataType::BOOL,
    DataType::FLOAT,
    DataType::DOUBLE,
    DataType::FLOAT16,
    DataType::BF16,
    DataType::INT8,
    DataType::INT16,
    DataType::INT32,
    DataType::INT64,
    DataType::UINT8,
    DataType::UINT16,
    DataType::UINT32,
    DataType::UINT64,
];
