//! Ops of one or two operands, element by element, one after the other: a part of the result goes
//! through all of them before the next part begins, so that what lies between stays in the
//! first-level cache and has no place in the arena.
//!
//! ```text
//! operands ─┬─► step 0 ─► buffer ─► step 1 ─► buffer ─► … ─► last step ─► result
//!           ╰──(a part of each, by numpy's rule)──┴──────────────╯
//! ```
//! The steps are the ops themselves with their own kernels, so the bits are those of the ops in
//! tasks of their own. Every step makes the whole shape of the result, of floats, and reads
//! operands and what the step before it made, once or twice.

use std::cell::RefCell;
use std::sync::{Mutex, PoisonError};

use super::entry;
use crate::DataType;
use crate::ops::broadcast::Walk;
use crate::ops::{BY_PLACE_MAX, Line, Op, OpError, by_code, infer};
use crate::params::{ParamReader, ParamWriter};
use crate::shape::{RANK_MAX, Shape};
use crate::team;
use crate::tensor::{Fault, Inputs, Output, TensorInfo};

pub(super) const ENTRY: Line =
    Line { operands: (1, BY_PLACE_MAX), ..entry("Chain", 1021, 1, Chain::decode) };

/// Most steps.
pub const STEPS_MAX: usize = 8;

/// Most elements of a part: what lies between two steps stays in the first-level cache.
const PIECE: usize = if cfg!(test) { 24 } else { 4096 };

/// Bytes of an element.
const SIZE: usize = size_of::<f32>();

/// Where a step finds an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// What the step before it made.
    Before,
    /// An operand of the chain.
    Operand(usize),
}

/// A step.
#[derive(Debug)]
pub struct Step {
    /// Its op.
    pub op: Box<dyn Op>,
    /// What it reads: one or two.
    pub sources: Vec<Source>,
}

/// The op.
#[derive(Debug)]
pub struct Chain {
    steps: Vec<Step>,
}

impl Chain {
    /// Of two steps or more; `None` of what is no chain.
    #[must_use]
    pub fn new(steps: Vec<Step>) -> Option<Self> {
        let fits = |(index, step): (usize, &Step)| {
            let known = |source: &Source| match source {
                Source::Before => index > 0,
                Source::Operand(operand) => *operand < BY_PLACE_MAX,
            };
            let of_two = (1..=2).contains(&step.sources.len());
            of_two && step.op.is_pointwise() && step.sources.iter().all(known)
        };
        let own = (2..=STEPS_MAX).contains(&steps.len());
        (own && steps.iter().enumerate().all(fits)).then_some(Self { steps })
    }

    /// Names of its ops.
    #[must_use]
    pub fn names(&self) -> String {
        let names: Vec<&str> = self.steps.iter().map(|step| step.op.line().name).collect();
        names.join("+")
    }

    fn decode(from: &mut ParamReader<'_>) -> Result<Box<dyn Op>, OpError> {
        let what = || OpError::params("no chain of ops");
        let count = from.size()?;
        if count > STEPS_MAX {
            return Err(what());
        }
        let mut steps = Vec::new();
        for _ in 0..count {
            let (code, sources, length) = (from.u32()?, from.size()?, from.size()?);
            if sources > 2 {
                return Err(what());
            }
            let mut own = Vec::new();
            for _ in 0..sources {
                let source = from.size()?;
                own.push(source.checked_sub(1).map_or(Source::Before, Source::Operand));
            }
            let line = u16::try_from(code).ok().filter(|code| *code != ENTRY.code);
            let line = line.and_then(by_code).ok_or_else(what)?;
            let op = line.decode_params(from.bytes(length)?)?;
            steps.push(Step { op, sources: own });
        }
        Ok(Box::new(Self::new(steps).ok_or_else(what)?))
    }

    /// Types and shapes of what a step reads.
    fn infos(
        step: &Step,
        inputs: &[TensorInfo],
        before: Option<TensorInfo>,
    ) -> Option<Vec<TensorInfo>> {
        let of = |source: &Source| match source {
            Source::Before => before,
            Source::Operand(index) => inputs.get(*index).copied(),
        };
        step.sources.iter().map(of).collect()
    }

    /// Type and shape of what each step makes: all the same.
    fn check(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        let mut before = None;
        for step in &self.steps {
            let what = |what: &str| OpError::shape(format!("a chain's {:?} {what}", step.op));
            let infos = Self::infos(step, inputs, before);
            let infos = infos.ok_or_else(|| what("reads an operand that is not there"))?;
            let made = infer(&*step.op, &infos)?;
            let [made] = made[..] else { return Err(what("makes several tensors")) };
            if made.dtype != DataType::FLOAT || before.is_some_and(|before| before != made) {
                return Err(what(&format!("makes {made}, not what the others make")));
            }
            if step.op.scratch_bytes(&infos, &made) > 0 {
                return Err(what("needs memory of its own"));
            }
            before = Some(made);
        }
        before.ok_or_else(|| OpError::params("a chain of nothing"))
    }
}

/// How results are cut: along one dim of the walk, with all dims behind it whole.
struct Cut {
    walk: Walk<BY_PLACE_MAX>,
    /// The dim, and elements of one of its places.
    dim: usize,
    row: usize,
    /// Places of a part, at most.
    rows: usize,
}

impl Cut {
    fn new(shape: &Shape, inputs: &dyn Inputs) -> Self {
        let of =
            |index| if index < inputs.count() { inputs.info(index).shape } else { Shape::SCALAR };
        let shapes: [Shape; BY_PLACE_MAX] = std::array::from_fn(of);
        let walk = Walk::new(shape, shapes.each_ref());
        let (mut dim, mut row) = (walk.rank - 1, 1);
        while dim > 0 && row * walk.dims[dim] <= PIECE {
            row *= walk.dims[dim];
            dim -= 1;
        }
        Self { walk, dim, row, rows: (PIECE / row).max(1) }
    }

    /// Shapes of a part of so many places, of the result and of each operand.
    fn part(&self, count: usize) -> Option<Part> {
        let walk = &self.walk;
        let shape = |whole: &dyn Fn(usize) -> bool| {
            let mut dims = [1; RANK_MAX];
            for (to, at) in dims.iter_mut().zip(self.dim..walk.rank) {
                let own = if at == self.dim { count } else { walk.dims[at] };
                *to = if whole(at) { own } else { 1 };
            }
            let shape = Shape::new(&dims[..walk.rank - self.dim]).ok()?;
            Some(TensorInfo::new(DataType::FLOAT, shape))
        };
        let result = shape(&|_| true)?;
        let mut operands = [result; BY_PLACE_MAX];
        for (to, strides) in operands.iter_mut().zip(&walk.strides) {
            *to = shape(&|at| strides[at] != 0)?;
        }
        Some(Part { count, result, operands })
    }
}

/// Types and shapes of a part.
struct Part {
    count: usize,
    result: TensorInfo,
    operands: [TensorInfo; BY_PLACE_MAX],
}

/// A part of what lies between two steps.
#[repr(align(64))]
struct Buffer([u8; PIECE * SIZE]);

thread_local! {
    /// Of each thread, so that no run begins with filling them. No op of a chain is a chain.
    static BUFFERS: RefCell<[Buffer; 2]> =
        const { RefCell::new([Buffer([0; PIECE * SIZE]), Buffer([0; PIECE * SIZE])]) };
}

/// What a step reads.
struct Parts<'a>([(TensorInfo, &'a [u8]); 2], usize);

impl Inputs for Parts<'_> {
    fn count(&self) -> usize {
        self.1
    }

    fn info(&self, index: usize) -> &TensorInfo {
        &self.0[index].0
    }

    fn bytes(&self, index: usize) -> &[u8] {
        self.0[index].1
    }
}

impl Chain {
    /// Some places of the dim that is cut, from one on.
    fn places(
        &self,
        (cut, operands): (&Cut, &[&[u8]; BY_PLACE_MAX]),
        (first, part): (usize, &Part),
        (out, buffers): (&mut [u8], &mut [Buffer; 2]),
    ) -> Result<(), Fault> {
        let (_, elements) = cut.walk.place(first * cut.row);
        let info = part.result;
        let [a, b] = buffers;
        let (mut before, mut next) = (a, b);
        for (index, step) in self.steps.iter().enumerate() {
            let mut read: [(TensorInfo, &[u8]); 2] = [(info, &[]); 2];
            for (to, source) in read.iter_mut().zip(&step.sources) {
                *to = match source {
                    Source::Before => (info, &before.0[..out.len()]),
                    Source::Operand(operand) => {
                        let own = part.operands[*operand];
                        let bytes = operands[*operand].get(elements[*operand] * SIZE..);
                        let bytes = bytes.and_then(|bytes| bytes.get(..own.bytes()));
                        (own, bytes.ok_or(Fault::Memory)?)
                    }
                };
            }
            let last = index + 1 == self.steps.len();
            let bytes = if last { &mut *out } else { &mut next.0[..out.len()] };
            let (scratch, more) = (&mut [][..], &mut [][..]);
            let mut output = Output { info: &info, bytes, scratch, more, team: None };
            step.op.run(&Parts(read, step.sources.len()), &mut output)?;
            std::mem::swap(&mut before, &mut next);
        }
        Ok(())
    }

    /// A part of the result, from a place on.
    fn rows(
        &self,
        (cut, operands): (&Cut, &[&[u8]; BY_PLACE_MAX]),
        (first, out): (usize, &mut [u8]),
    ) -> Result<(), Fault> {
        let (row, length) = (cut.row * SIZE, cut.walk.dims[cut.dim]);
        let mut part = cut.part(cut.rows.min(length)).ok_or(Fault::Memory)?;
        let (mut at, mut rest) = (first, out);
        BUFFERS.with(|buffers| {
            let mut buffers = buffers.try_borrow_mut().map_err(|_| Fault::Memory)?;
            while !rest.is_empty() {
                let count = cut.rows.min(length - at % length).min(rest.len() / row);
                if part.count != count {
                    part = cut.part(count).ok_or(Fault::Memory)?;
                }
                let (own, behind) = std::mem::take(&mut rest).split_at_mut(count * row);
                self.places((cut, operands), (at, &part), (own, &mut buffers))?;
                (at, rest) = (at + count, behind);
            }
            Ok(())
        })
    }
}

impl Op for Chain {
    fn code(&self) -> u16 {
        ENTRY.code
    }

    fn encode(&self, into: &mut ParamWriter) {
        into.size(self.steps.len());
        for step in &self.steps {
            let mut own = ParamWriter::default();
            step.op.encode(&mut own);
            let own = own.into_bytes();
            into.u32(step.op.code().into());
            into.sizes(&[step.sources.len(), own.len()]);
            for source in &step.sources {
                into.size(match source {
                    Source::Before => 0,
                    Source::Operand(operand) => operand + 1,
                });
            }
            into.bytes(&own);
        }
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        self.check(inputs)
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        let cut = Cut::new(&output.info.shape, inputs);
        let bytes = |index| if index < inputs.count() { inputs.bytes(index) } else { &[] };
        let operands: [&[u8]; BY_PLACE_MAX] = std::array::from_fn(bytes);
        let outcome = Mutex::new(Ok(()));
        let cost = team::moved(cut.row).saturating_mul(self.steps.len());
        team::deal(output.team, output.bytes, (cut.row * SIZE, cost), |first, part| {
            if let Err(fault) = self.rows((&cut, &operands), (first, part)) {
                *outcome.lock().unwrap_or_else(PoisonError::into_inner) = Err(fault);
            }
        });
        outcome.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_by_place(&self, inputs: &[TensorInfo], output: &TensorInfo) -> bool {
        let one = |input: &TensorInfo| input.shape.elements() == 1;
        inputs.iter().all(|input| input.shape == output.shape || one(input))
    }

    fn flops(&self, inputs: &[TensorInfo], output: &TensorInfo) -> u64 {
        let of = |step: &Step| {
            let infos = Self::infos(step, inputs, Some(*output));
            infos.map_or(0, |infos| step.op.flops(&infos, output))
        };
        self.steps.iter().map(of).sum()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::aligned::AlignedBytes;
    use crate::engine::over;
    use crate::ops::testing::{Value, float, team};
    use crate::ops::{Broadcast, add, arithmetic, exponential, mul, relu};
    use crate::tensor::{TensorList, run_into};

    /// An op of one operand, or of two, by number.
    fn op(kind: usize) -> (Box<dyn Op>, usize) {
        match kind % 6 {
            0 => (Box::new(add::Add::new(Broadcast::Numpy)), 2),
            1 => (Box::new(mul::Mul::new(Broadcast::Numpy)), 2),
            2 => ((arithmetic::SUB.decode)(&mut ParamReader::new(&[0; 12])).unwrap(), 2),
            3 => (Box::new(relu::Relu), 1),
            4 => ((exponential::SIGMOID.decode)(&mut ParamReader::new(&[0; 8])).unwrap(), 1),
            _ => ((exponential::TANH.decode)(&mut ParamReader::new(&[0; 8])).unwrap(), 1),
        }
    }

    fn values(dims: &[usize], seed: usize) -> Value {
        let count = dims.iter().product();
        #[expect(clippy::cast_precision_loss, reason = "small numbers")]
        let own: Vec<f32> =
            (0..count).map(|at: usize| ((at * 37 + seed * 11) % 29) as f32 / 7.0 - 2.0).collect();
        float(dims, &own)
    }

    fn run(op: &dyn Op, list: &[Value], team: Option<&crate::team::Team>) -> Value {
        let list: Vec<(TensorInfo, &[u8])> =
            list.iter().map(|own| (own.info, &own.bytes[..])).collect();
        let infos: Vec<TensorInfo> = list.iter().map(|(info, _)| *info).collect();
        let info = infer(op, &infos).unwrap()[0];
        let mut results = [(info, AlignedBytes::zeroed(info.bytes()))];
        run_into(op, &TensorList(&list), &mut results, &mut [], team).unwrap();
        let [(info, bytes)] = results;
        Value { info, bytes }
    }

    /// The same chain out of its bytes.
    fn again(chain: &Chain) -> Box<dyn Op> {
        let mut writer = ParamWriter::default();
        chain.encode(&mut writer);
        let bytes = writer.into_bytes();
        for end in 0..bytes.len() {
            assert!(ENTRY.decode_params(&bytes[..end]).is_err(), "{end} of {}", bytes.len());
        }
        ENTRY.decode_params(&bytes).unwrap()
    }

    proptest! {
        /// Random chains give the bits of their ops one after the other, by any number of threads,
        /// and over their operands.
        #[test]
        fn the_bits_are_those_of_the_ops(
            dims in prop::collection::vec(1usize..7, 0..5),
            kinds in prop::collection::vec((0usize..6, any::<u8>(), any::<bool>()), 2..9),
        ) {
            let mut operands = vec![values(&dims, 0)];
            let mut steps = Vec::new();
            let mut expected = operands[0].clone();
            for (index, (kind, ones, turned)) in kinds.into_iter().enumerate() {
                let (own, count) = op(kind);
                let mut sources =
                    vec![if index == 0 { Source::Operand(0) } else { Source::Before }];
                let mut read = vec![expected.clone()];
                if count == 2 && operands.len() < BY_PLACE_MAX {
                    // Some of its dims are 1, and some in front are left out.
                    let one = |at: usize| ones >> at & 1 == 1;
                    let of = |(at, dim): (usize, &usize)| if one(at) { 1 } else { *dim };
                    let all: Vec<usize> = dims.iter().enumerate().map(of).collect();
                    let front = all.iter().take_while(|dim| **dim == 1).count();
                    let other = values(&all[front * usize::from(ones & 0x20 != 0)..], index + 1);
                    sources.push(Source::Operand(operands.len()));
                    read.push(other.clone());
                    operands.push(other);
                } else if count == 2 {
                    sources.push(Source::Before);
                    read.push(expected.clone());
                }
                if turned {
                    sources.reverse();
                    read.reverse();
                }
                expected = run(&*own, &read, None);
                steps.push(Step { op: own, sources });
            }
            let chain = Chain::new(steps).unwrap();
            let team = team();
            for op in [&chain as &dyn Op, &*again(&chain)] {
                prop_assert_eq!(&run(op, &operands, None), &expected);
                prop_assert_eq!(&run(op, &operands, Some(&team)), &expected);
            }
            let infos: Vec<TensorInfo> = operands.iter().map(|own| own.info).collect();
            let op: &dyn Op = &chain;
            let may = |at: &usize| op.may_lie_over(*at, &infos, &expected.info);
            for over in (0..operands.len()).filter(may) {
                let mut bytes = AlignedBytes::copy_of(&operands[over].bytes);
                let list: Vec<(TensorInfo, &[u8])> =
                    operands.iter().map(|own| (own.info, &own.bytes[..])).collect();
                let result = (&expected.info, &mut bytes[..]);
                over::run(op, over, &TensorList(&list), result, Some(&team)).unwrap();
                prop_assert_eq!(&bytes[..], &expected.bytes[..], "over {}", over);
            }
        }

        /// Bytes that nobody wrote are refused, or are a chain that runs.
        #[test]
        fn what_a_file_says_is_refused_or_runs(
            changes in prop::collection::vec((any::<usize>(), any::<u8>()), 1..6),
        ) {
            let steps = [0, 3, 1, 4].map(|kind| {
                let (op, count) = op(kind);
                let sources = vec![Source::Operand(0); count];
                Step { op, sources }
            });
            let mut writer = ParamWriter::default();
            Chain::new(steps.into()).unwrap().encode(&mut writer);
            let mut bytes = writer.into_bytes();
            for (at, to) in changes {
                let at = at % bytes.len();
                bytes[at] = to % 5;
            }
            if let Ok(op) = ENTRY.decode_params(&bytes) {
                let list = [values(&[2, 3], 1), values(&[3], 2)];
                let infos = list.each_ref().map(|own| own.info);
                if infer(&*op, &infos).is_ok() {
                    run(&*op, &list, None);
                }
            }
        }
    }

    #[test]
    fn what_is_no_chain() {
        let step = |kind: usize, sources: &[Source]| {
            let (op, _) = op(kind);
            Step { op, sources: sources.to_vec() }
        };
        let first = || step(3, &[Source::Operand(0)]);
        assert!(Chain::new(vec![first()]).is_none(), "one step");
        assert!(Chain::new(vec![step(3, &[Source::Before]), first()]).is_none(), "nothing before");
        let far = step(0, &[Source::Before, Source::Operand(BY_PLACE_MAX)]);
        assert!(Chain::new(vec![first(), far]).is_none(), "an operand beyond all");
        assert!(Chain::new((0..=STEPS_MAX).map(|_| first()).collect()).is_none(), "too long");
        let at = Box::new(add::Add::new(Broadcast::At(1)));
        let sources = vec![Source::Before, Source::Operand(0)];
        assert!(Chain::new(vec![first(), Step { op: at, sources }]).is_none(), "the old rule");
        let wider =
            Chain::new(vec![first(), step(0, &[Source::Before, Source::Operand(1)])]).unwrap();
        let infos = [&[3][..], &[2, 3]].map(|dims| values(dims, 0).info);
        let refused = infer(&wider, &infos).unwrap_err().to_string();
        assert!(refused.contains("makes float32 [2, 3], not what the others make"), "{refused}");
        let refused = infer(&wider, &infos[..1]).unwrap_err().to_string();
        assert!(refused.contains("reads an operand that is not there"), "{refused}");
        let whole = Chain::new(vec![first(), first()]).unwrap();
        let of = |dtype| TensorInfo::new(dtype, Shape::SCALAR);
        assert!(infer(&whole, &[of(DataType::INT32)]).is_err());
    }
}
