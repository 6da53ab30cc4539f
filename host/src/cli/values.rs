//! Values of a tensor in words, for a line of `dflow run --values`.

use half::{bf16, f16};

use crate::graph::DType;
use crate::session::Output;

/// A tab and the first `count` values of `data`, `…` after them where there are more; nothing when
/// none are asked for, or `data` has none.
pub(super) fn first(data: &Output, count: usize) -> String {
    match DType::of_code(data.data_type().0).filter(|_| count > 0 && !data.is_null()) {
        Some(kind) => format!("\t{}", text(kind, data.bytes(), count)),
        None => String::new(),
    }
}

fn text(kind: DType, bytes: &[u8], count: usize) -> String {
    match kind {
        DType::Float32 => list(bytes, count, f32::from_ne_bytes),
        DType::Float64 => list(bytes, count, f64::from_ne_bytes),
        DType::Float16 => list(bytes, count, |b| f16::from_ne_bytes(b).to_f32()),
        DType::Bfloat16 => list(bytes, count, |b| bf16::from_ne_bytes(b).to_f32()),
        DType::Int8 => list(bytes, count, i8::from_ne_bytes),
        DType::Int16 => list(bytes, count, i16::from_ne_bytes),
        DType::Int32 => list(bytes, count, i32::from_ne_bytes),
        DType::Int64 => list(bytes, count, i64::from_ne_bytes),
        DType::Uint8 => list(bytes, count, u8::from_ne_bytes),
        DType::Uint16 => list(bytes, count, u16::from_ne_bytes),
        DType::Uint32 => list(bytes, count, u32::from_ne_bytes),
        DType::Uint64 => list(bytes, count, u64::from_ne_bytes),
        DType::Bool => list(bytes, count, |[byte]| byte != 0),
    }
}

fn list<const N: usize, T: std::fmt::Display>(
    bytes: &[u8],
    count: usize,
    value: impl Fn([u8; N]) -> T,
) -> String {
    let elements = bytes.as_chunks::<N>().0;
    let shown = elements.iter().take(count).map(|bytes| value(*bytes).to_string());
    let mut text = shown.collect::<Vec<_>>().join(" ");
    if elements.len() > count {
        text.push_str(" …");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_of_their_type_and_not_more_than_asked_for() {
        let bytes: Vec<u8> = [1.5_f32, -2.0, 3.25].iter().flat_map(|v| v.to_ne_bytes()).collect();
        assert_eq!(text(DType::Float32, &bytes, 2), "1.5 -2 …");
        assert_eq!(text(DType::Float32, &bytes, 3), "1.5 -2 3.25");
        assert_eq!(text(DType::Int16, &[0xff, 0xff, 7, 0], 9), "-1 7");
        assert_eq!(text(DType::Bool, &[1, 0], 9), "true false");
        assert_eq!(text(DType::Float16, &[0, 0x3c], 9), "1");
        assert_eq!(text(DType::Bfloat16, &[0x80, 0x3f], 9), "1");
    }
}
