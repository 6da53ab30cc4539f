//! Every op with parameters and shapes that nobody would write: refused, or it runs inside its
//! memory. A program brings both from a file.

use proptest::prelude::*;

use crate::DataType;
use crate::aligned::AlignedBytes;
use crate::ops::{TABLE, infer};
use crate::shape::Shape;
use crate::tensor::{Output, TensorInfo, TensorList};

/// Parameters of an op as words: `q` has 8 bytes, `i` 4. Those that a number comes before are as
/// many as the number says.
fn words(op: &str, rank: usize) -> String {
    match op {
        "Add" | "Mul" => "iq".to_owned(),
        "BatchNormalization" => "i".to_owned(),
        "Concat" => "q".to_owned(),
        "Conv" => format!("{}iii", "q".repeat(14)),
        "HardSigmoid" => "ii".to_owned(),
        "Reshape" => "q".repeat(1 + rank),
        "Shape" | "Softmax" => "qq".to_owned(),
        "Slice" => "q".repeat(1 + 3 * rank),
        _ => String::new(),
    }
}

/// A small number mostly, so that much is accepted; sometimes any.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![
        12 => 0u64..4,
        2 => 0u64..9,
        1 => (0u64..4).prop_map(u64::wrapping_neg),
        1 => any::<u64>(),
    ]
}

fn dims() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(prop_oneof![6 => 1usize..4, 2 => 0usize..7, 1 => 7usize..40], 0..6)
}

fn info() -> impl Strategy<Value = TensorInfo> {
    let types = [DataType::FLOAT, DataType::FLOAT, DataType::INT32, DataType::INT64];
    let dtype = prop::sample::select(types.to_vec());
    (dtype, dims()).prop_map(|(dtype, dims)| TensorInfo::new(dtype, Shape::new(&dims).unwrap()))
}

/// Operands that resemble one another, since others are refused at once.
fn infos() -> impl Strategy<Value = Vec<TensorInfo>> {
    (info(), prop::collection::vec((any::<u8>(), dims()), 0..5)).prop_map(|(first, more)| {
        let own = |(kind, dims): (u8, Vec<usize>)| {
            let of_first = first.shape.dims();
            let dims = match kind % 7 {
                0 => of_first.to_vec(),
                1 => of_first.iter().take(2).skip(1).copied().collect(),
                2 => of_first.iter().skip(1).copied().collect(),
                // Weights of a convolution.
                4 | 5 if of_first.len() > 2 => {
                    let kernel =
                        of_first[2..].iter().map(|dim| (usize::from(kind) / 7 % 3 + 1).min(*dim));
                    [2, of_first[1]].into_iter().chain(kernel).collect()
                }
                3 => [&dims[..dims.len().min(1)], of_first.get(1..).unwrap_or_default()].concat(),
                _ => dims,
            };
            TensorInfo::new(first.dtype, Shape::new(&dims).unwrap())
        };
        // One value a map, four times: what a BatchNormalization has.
        let kinds: u32 = more.iter().map(|(kind, _)| u32::from(*kind)).sum();
        if let (0, Some(maps)) = (kinds % 4, first.shape.dims().get(1)) {
            let per_map = TensorInfo::new(first.dtype, Shape::new(&[*maps]).unwrap());
            return [vec![first], vec![per_map; 4]].concat();
        }
        std::iter::once(first).chain(more.into_iter().map(own)).collect()
    })
}

fn cases() -> u32 {
    if std::env::var_os("DFLOW_FUZZ_FULL").is_some() { 300_000 } else { 1000 }
}

/// A number that has a chance to be accepted where not every one has.
fn likely(op: &str, index: usize, rank: usize, number: u64) -> u64 {
    let dims = rank.saturating_sub(2) as u64;
    match (op, index) {
        // The number of dims that follow.
        ("Reshape" | "Slice", 0) => rank as u64,
        // Spatial dims; strides and dilations; pads; group; activation. Dims in front are neutral.
        ("Conv", 0) => dims,
        ("Conv", 1..7) if (index as u64 - 1) % 3 < 3u64.saturating_sub(dims) => 1,
        ("Conv", 1..7) => number.max(1),
        ("Conv", 7..13) if (index as u64 - 1) % 3 < 3u64.saturating_sub(dims) => 0,
        ("Conv", 13) => number.clamp(1, 2),
        ("Conv", 14) => number % 4,
        _ => number,
    }
}

/// Runs one op if it is accepted; whether it was.
fn try_op(op: usize, numbers: &[u64], infos: &[TensorInfo]) -> bool {
    const MODERATE: usize = 1 << 20;
    let entry = TABLE[op % TABLE.len()];
    let rank = infos[0].shape.rank();
    let mut bytes = Vec::new();
    for (index, (word, number)) in words(entry.name, rank).chars().zip(numbers).enumerate() {
        let number =
            if number % 16 == 15 { *number } else { likely(entry.name, index, rank, *number) };
        let width = if word == 'q' { 8 } else { 4 };
        bytes.extend_from_slice(&number.to_le_bytes()[..width]);
    }
    let Ok(op) = entry.decode_params(&bytes) else { return false };
    let operands = infos.len().min(entry.operands.1);
    let infos = &infos[..operands];
    let Ok(output) = infer(&*op, infos) else { return false };
    let scratch = op.scratch_bytes(infos, &output);
    if output.bytes() > MODERATE || scratch > MODERATE || output.bytes() == 0 {
        return true;
    }
    let values: Vec<AlignedBytes> =
        infos.iter().map(|info| AlignedBytes::zeroed(info.bytes())).collect();
    let list: Vec<(TensorInfo, &[u8])> =
        infos.iter().zip(&values).map(|(info, bytes)| (*info, &bytes[..])).collect();
    let mut result = AlignedBytes::zeroed(output.bytes());
    let mut scratch = AlignedBytes::zeroed(scratch);
    let mut place = Output { info: &output, bytes: &mut result, scratch: &mut scratch };
    op.run(&TensorList(&list), &mut place).expect("what was accepted runs");
    op.flops(infos, &output);
    true
}

#[test]
fn every_op_is_reached() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let strategy = (prop::collection::vec(number(), 40), infos());
    for (op, entry) in TABLE.iter().enumerate() {
        let accepted = (0..4000).any(|_| {
            let (numbers, infos) = strategy.new_tree(&mut runner).unwrap().current();
            try_op(op, &numbers, &infos)
        });
        assert!(accepted, "{} is never accepted: the test shows nothing", entry.name);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    #[test]
    fn no_op_leaves_its_memory(
        op in any::<usize>(),
        numbers in prop::collection::vec(number(), 40),
        infos in infos(),
    ) {
        try_op(op, &numbers, &infos);
    }
}
