//! Every op with parameters and shapes that nobody would write: refused, or it runs inside its
//! memory. A program brings both from a file. And every op of a model with attributes that nobody
//! would write: what is imported is what a program can hold.
//!
//! What is tried are the examples of the ops with some words of their parameters changed, and some
//! dims and types of their operands.

use proptest::prelude::*;

use crate::DataType;
use crate::aligned::AlignedBytes;
use crate::ops::examples::{self, Example};
use crate::ops::testing::{params, team};
use crate::ops::{Line, infer};
use crate::shape::Shape;
use crate::tensor::{TensorInfo, TensorList, run_into};

/// A number for a parameter: a small one mostly, so that much is accepted.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![
        12 => 0u64..4,
        3 => 0u64..9,
        1 => (0u64..4).prop_map(u64::wrapping_neg),
        1 => any::<u64>(),
    ]
}

fn dim() -> impl Strategy<Value = usize> {
    prop_oneof![6 => 1usize..4, 2 => 0usize..7, 1 => 7usize..40]
}

/// A change: what it is, where, and to which number.
#[derive(Clone, Debug)]
enum Change {
    /// A word of 4 bytes of the parameters.
    Word(usize, u64),
    /// 8 bytes of the parameters.
    Long(usize, u64),
    /// A dim of an operand.
    Dim(usize, usize, usize),
    /// A dim of an operand is taken away or added.
    Rank(usize, bool, usize),
    /// The type of an operand.
    Type(usize, DataType),
    /// An operand is taken away, or is there once more.
    Count(usize, bool),
    /// The bytes of an operand that holds indices, or other numbers.
    Value(usize, u64),
}

fn change() -> impl Strategy<Value = Change> {
    let types: Vec<DataType> = DataType::ALL.iter().map(|(dtype, ..)| *dtype).collect();
    prop_oneof![
        4 => (any::<usize>(), number()).prop_map(|(at, to)| Change::Word(at, to)),
        4 => (any::<usize>(), number()).prop_map(|(at, to)| Change::Long(at, to)),
        6 => (any::<usize>(), any::<usize>(), dim())
            .prop_map(|(at, dim, to)| Change::Dim(at, dim, to)),
        1 => (any::<usize>(), any::<bool>(), dim())
            .prop_map(|(at, more, to)| Change::Rank(at, more, to)),
        1 => (any::<usize>(), prop::sample::select(types))
            .prop_map(|(at, to)| Change::Type(at, to)),
        1 => (any::<usize>(), any::<bool>()).prop_map(|(at, more)| Change::Count(at, more)),
        2 => (any::<usize>(), number()).prop_map(|(at, to)| Change::Value(at, to)),
    ]
}

/// An op as a program brings it.
struct Hostile {
    line: &'static Line,
    params: Vec<u8>,
    infos: Vec<TensorInfo>,
    /// What operands are filled with.
    fill: Vec<u64>,
}

impl Hostile {
    fn of(example: &Example) -> Self {
        let imported = example.case.import();
        let (op, operands) = imported.unwrap_or_else(|error| panic!("{}: {error}", example.name));
        let infos: Vec<TensorInfo> = operands.iter().map(|value| value.info).collect();
        let fill = vec![0; infos.len()];
        Self { line: op.line(), params: params(&*op), infos, fill }
    }

    fn apply(&mut self, change: &Change) {
        let width = match change {
            Change::Word(..) => 4,
            _ => 8,
        };
        let count = self.infos.len();
        match change {
            Change::Word(at, to) | Change::Long(at, to) if self.params.len() >= width => {
                let at = at % (self.params.len() / 4) * 4;
                let at = at.min(self.params.len() - width);
                self.params[at..at + width].copy_from_slice(&to.to_le_bytes()[..width]);
            }
            Change::Dim(at, dim, to) if count > 0 => {
                let own = &mut self.infos[at % count].shape;
                let mut dims = own.dims().to_vec();
                if let Some(index) = dim.checked_rem(dims.len()) {
                    dims[index] = *to;
                }
                *own = Shape::new(&dims).unwrap_or(*own);
            }
            Change::Rank(at, more, to) if count > 0 => {
                let own = &mut self.infos[at % count].shape;
                let mut dims = own.dims().to_vec();
                if *more {
                    dims.insert(0, *to)
                } else {
                    dims.pop();
                }
                *own = Shape::new(&dims).unwrap_or(*own);
            }
            Change::Type(at, to) if count > 0 => self.infos[at % count].dtype = *to,
            Change::Count(at, true) if count > 0 => {
                self.infos.push(self.infos[at % count]);
                self.fill.push(0);
            }
            Change::Count(_, false) => {
                self.infos.pop();
                self.fill.pop();
            }
            Change::Value(at, to) if count > 0 => self.fill[at % count] = *to,
            _ => {}
        }
    }

    /// Runs it if it is accepted; whether it was.
    fn run(&self) -> bool {
        const MODERATE: usize = 1 << 20;
        let Ok(op) = self.line.decode_params(&self.params) else { return false };
        let Ok(outputs) = infer(&*op, &self.infos) else { return false };
        let scratch = op.scratch_bytes(&self.infos, &outputs[0]);
        let sizes = outputs.iter().chain(&self.infos).map(TensorInfo::bytes).chain([scratch]);
        if sizes.into_iter().any(|bytes| bytes > MODERATE) {
            return true;
        }
        let values: Vec<AlignedBytes> = self.infos.iter().zip(&self.fill).map(filled).collect();
        let list: Vec<(TensorInfo, &[u8])> =
            self.infos.iter().zip(&values).map(|(info, bytes)| (*info, &bytes[..])).collect();
        let mut results: Vec<(TensorInfo, AlignedBytes)> =
            outputs.iter().map(|info| (*info, AlignedBytes::zeroed(info.bytes()))).collect();
        let mut scratch = AlignedBytes::zeroed(scratch);
        let outcome = run_into(&*op, &TensorList(&list), &mut results, &mut scratch, Some(&team()));
        outcome.unwrap_or_else(|fault| {
            panic!("{op:?} {:?} was accepted and does not run: {fault}", self.params)
        });
        op.flops(&self.infos, &outputs[0]);
        true
    }
}

/// A tensor of one number.
fn filled((info, number): (&TensorInfo, &u64)) -> AlignedBytes {
    let mut bytes = AlignedBytes::zeroed(info.bytes());
    let width = info.bytes().checked_div(info.shape.elements()).unwrap_or(1).clamp(1, 8);
    for element in bytes.chunks_exact_mut(width) {
        element.copy_from_slice(&number.to_le_bytes()[..width]);
    }
    bytes
}

/// Small numbers mostly, and those around what a program may say.
fn attribute_number() -> impl Strategy<Value = i64> {
    let edges = [1 << 31, 1 << 40, (1 << 40) + 1, 1 << 62, i64::MAX, i64::MIN, -1 << 40];
    prop_oneof![6 => 0i64..4, 2 => -2i64..9, 2 => prop::sample::select(edges.to_vec())]
}

fn attribute_change() -> impl Strategy<Value = (usize, usize, i64)> {
    (any::<usize>(), any::<usize>(), attribute_number())
}

fn cases() -> u32 {
    if std::env::var_os("DFLOW_FUZZ_FULL").is_some() { 1_000_000 } else { 10_000 }
}

/// Every op has an example; without a change it is accepted.
#[test]
fn every_op_is_reached() {
    for example in examples::all() {
        assert!(Hostile::of(&example).run(), "{}", example.name);
    }
}

thread_local! {
    static EXAMPLES: Vec<Example> = examples::all();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    #[test]
    fn no_op_leaves_its_memory(
        example in any::<usize>(),
        changes in prop::collection::vec(change(), 1..5),
    ) {
        let mut own = EXAMPLES.with(|all| Hostile::of(&all[example % all.len()]));
        changes.iter().for_each(|change| own.apply(change));
        own.run();
    }

    /// `import` itself compares what an op writes with what it reads.
    #[test]
    fn what_is_imported_a_program_can_hold(
        example in any::<usize>(),
        changes in prop::collection::vec(attribute_change(), 1..4),
    ) {
        let mut case = EXAMPLES.with(|all| all[example % all.len()].case.clone());
        for (attribute, place, to) in changes {
            case.change(attribute, place, to);
        }
        let _ = case.import().is_ok();
    }
}
