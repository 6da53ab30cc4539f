//! The C ABI is written twice, in Rust and for C++: both must say the same.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;

/// `Type.field` and `Type` (its size) with their numbers.
type Layouts = BTreeMap<String, u64>;

/// The `layout!` lines of src/abi.rs.
fn rust() -> Layouts {
    let text = include_str!("../src/abi.rs");
    let mut layouts = Layouts::new();
    for block in text.split("layout!(").skip(1).filter(|block| !block.starts_with("\n    $")) {
        let body = block.split(");").next().unwrap();
        let mut words = body.split(',').map(str::trim);
        let name = words.next().unwrap();
        let Some(size) = words.next().and_then(|size| size.parse().ok()) else { continue };
        layouts.insert(name.to_owned(), size);
        for (field, at) in words.filter_map(|word| word.split_once(" = ")) {
            let field = if field == "private" { "internal" } else { field };
            layouts.insert(format!("{name}.{field}"), at.parse().unwrap());
        }
    }
    layouts
}

/// The `SIZE` and `LAYOUT` lines of cpp/abi.h.
fn cpp() -> Layouts {
    let text = include_str!("../cpp/abi.h");
    let call = |line: &str, name: &str| {
        let body = line.strip_prefix(name)?.strip_prefix('(')?.strip_suffix(");")?;
        Some(body.split(", ").map(str::to_owned).collect::<Vec<_>>())
    };
    let sizes = text.lines().filter_map(|line| call(line, "SIZE"));
    let mut layouts: Layouts =
        sizes.map(|words| (words[0].clone(), words[1].parse().unwrap())).collect();
    let fields = text.lines().filter_map(|line| call(line, "LAYOUT"));
    let fields =
        fields.map(|words| (format!("{}.{}", words[0], words[1]), words[2].parse().unwrap()));
    layouts.extend(fields);
    layouts
}

#[test]
fn both_sides_of_the_abi_have_the_same_layout() {
    let (rust, cpp) = (rust(), cpp());
    assert!(rust.len() > 60, "{rust:?}");
    assert_eq!(rust, cpp);
}

/// A constant of src/abi.rs and its counterpart.
#[test]
fn both_sides_have_the_same_numbers() {
    use flow_func::abi::{self, field, kind, level};
    use flow_func::codes;
    let text = include_str!("../cpp/abi.h");
    let number = |name: &str| {
        let line = text.lines().find_map(|line| {
            let (before, after) = line.split_once(" = ")?;
            (before.split_whitespace().last()? == name).then_some(after)
        });
        let value = line.unwrap_or_else(|| panic!("{name}")).split([',', ';']).next().unwrap();
        match value.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).unwrap(),
            None => value.parse().unwrap(),
        }
    };
    let pairs = [
        ("LIBRARY_MAGIC", abi::LIBRARY_MAGIC),
        ("API_MAGIC", abi::API_MAGIC),
        ("ABI_VERSION", u64::from(abi::ABI_VERSION)),
        ("PANIC_UNWIND", u64::from(abi::PANIC_UNWIND)),
        ("ACCESS_OWNED", u64::from(abi::ACCESS_OWNED)),
        ("ACCESS_NULL_DATA", u64::from(abi::ACCESS_NULL_DATA)),
        ("FIELD_RET_CODE", u64::from(field::RET_CODE)),
        ("FIELD_FLAGS", u64::from(field::FLAGS)),
        ("FIELD_TRANS_ID", u64::from(field::TRANS_ID)),
        ("FIELD_MSG_TYPE", u64::from(field::MSG_TYPE)),
        ("FIELD_START_TIME", u64::from(field::START_TIME)),
        ("FIELD_END_TIME", u64::from(field::END_TIME)),
        ("FIELD_ROUTE_LABEL", u64::from(field::ROUTE_LABEL)),
        ("KIND_STR", u64::from(kind::STR)),
        ("KIND_STR_LIST", u64::from(kind::STR_LIST)),
        ("KIND_INT", u64::from(kind::INT)),
        ("KIND_INT_LIST", u64::from(kind::INT_LIST)),
        ("KIND_INT_LIST_LIST", u64::from(kind::INT_LIST_LIST)),
        ("KIND_FLOAT", u64::from(kind::FLOAT)),
        ("KIND_FLOAT_LIST", u64::from(kind::FLOAT_LIST)),
        ("KIND_BOOL", u64::from(kind::BOOL)),
        ("KIND_BOOL_LIST", u64::from(kind::BOOL_LIST)),
        ("KIND_DATA_TYPE", u64::from(kind::DATA_TYPE)),
        ("KIND_DATA_TYPE_LIST", u64::from(kind::DATA_TYPE_LIST)),
        ("LEVEL_ERROR", u64::from(level::ERROR)),
        ("INIT_AGAIN", codes::INIT_AGAIN.cast_unsigned().into()),
        ("PROC_PENDING", codes::PENDING.cast_unsigned().into()),
        ("UDF_PANIC", codes::UDF_PANIC.cast_unsigned().into()),
        ("NO_MBUF", codes::NO_MBUF.cast_unsigned().into()),
        ("TOO_LARGE", codes::TOO_LARGE.cast_unsigned().into()),
    ];
    for (name, value) in pairs {
        assert_eq!(number(name), value, "{name}");
    }
}
