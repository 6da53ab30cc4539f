//! Floats of 16 bits: in which form ops work on them, and types that stand for them.

use crate::DataType;

/// In which form an op works on floats of 16 bits. A compiler that widens them keeps results that
/// are not rounded; this says where that does not matter, and where it does. Whatever of them
/// decides about whole numbers or bools is rounded before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Halves {
    /// As float32: near arguments have near results.
    Widened,
    /// In either form: elements are moved.
    Moved,
    /// Rounded to their type, as results jump or the op is about types.
    Rounded,
}

/// Types with a kernel, and those that are widened to one of them.
pub(super) fn with_widened(types: &[DataType], widened: &[DataType]) -> Vec<DataType> {
    let more =
        widened.iter().filter(|own| types.contains(&DataType::FLOAT) && !types.contains(own));
    types.iter().chain(more).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::{Known, Node, OPSET_MAX, TABLE, infer, mat_mul};
    use crate::tensor::TensorInfo;

    #[test]
    fn what_is_widened_has_a_kernel_of_float32_and_none_of_its_own() {
        let mut count = 0;
        for entry in TABLE.iter().filter(|entry| !entry.widened.is_empty()) {
            let of_float = |types: &[DataType]| types.contains(&DataType::FLOAT);
            let mixed = entry.mixed.iter().any(|(_, types)| of_float(types));
            assert!(of_float(&entry.types_since(OPSET_MAX)) || mixed, "{entry:?}");
            for (dtype, since) in entry.widened {
                assert!(!entry.types.iter().any(|(own, _)| own == dtype), "{entry:?}");
                assert!([DataType::FLOAT16, DataType::BF16].contains(dtype) && *since <= OPSET_MAX);
            }
            count += 1;
        }
        assert!(count > 10);
    }

    #[test]
    fn a_node_has_types_that_a_program_has_not() {
        let info = |dtype| TensorInfo::from_i64(dtype, &[2, 2]).unwrap();
        let import = |dtype, opset| {
            let known = Some(Known { info: info(dtype), value: None });
            let (attributes, inputs) = (&[][..], &[known, known][..]);
            mat_mul::ENTRY.import_node(&Node { opset, attributes, inputs, outputs: 1 })
        };
        let half = info(DataType::FLOAT16);
        let op = import(DataType::FLOAT16, 9).unwrap().op;
        assert_eq!(mat_mul::ENTRY.infer_node(&*op, &[half; 2], 9), Ok(vec![half]));
        let refused = infer(&*op, &[half; 2]).unwrap_err().to_string();
        assert!(
            refused.starts_with("input 0 is float16; supported: float32, float64"),
            "{refused}"
        );
        let refused = import(DataType::BF16, 9).unwrap_err().to_string();
        assert!(refused.ends_with("uint64, float16"), "{refused}");
        let two = [half, info(DataType::FLOAT)];
        let refused = mat_mul::ENTRY.infer_node(&*op, &two, 9).unwrap_err().to_string();
        assert_eq!(refused, "input 1 is float32; supported: float16");
    }
}
