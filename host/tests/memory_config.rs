//! Memory settings: the numbered cases of executor-deployer §9.2, row by row.

use dflow::memory_config::{MemoryConfig, MemoryPool};
use executor_core::error::Code;

const GIB: u64 = 1 << 30;

/// Sizes and limits of the pools, or the code of the refusal.
fn parse(text: &str) -> Result<Vec<(u64, Option<u64>)>, Code> {
    let config = MemoryConfig::parse(Some(text)).map_err(|e| e.code())?;
    Ok(config.pools.iter().map(|pool| (pool.size, pool.limit)).collect())
}

#[test]
fn v9_2_absent() {
    let pools = MemoryConfig::parse(None).unwrap().pools;
    assert_eq!(pools, [MemoryPool { size: 10 * GIB, limit: None }]);
}

#[test]
fn v9_2_empty() {
    assert_eq!(parse(""), Err(Code::PARAM_INVALID));
}

#[test]
fn v9_2_4294967295() {
    assert_eq!(parse("4294967295"), Ok(vec![(4_294_967_295, None)]));
}

#[test]
fn v9_2_20_digits() {
    assert_eq!(parse("12345678901234567890"), Err(Code::PARAM_INVALID));
}

#[test]
fn v9_2_15_gib_with_limit_10_mib() {
    let text = format!("{}:{}", 15 * GIB, 10 << 20);
    assert_eq!(parse(&text), Ok(vec![(15 * GIB, Some(10 << 20))]));
}

#[test]
fn v9_2_limit_0() {
    assert_eq!(parse("10737418240:0"), Ok(vec![(10 * GIB, None)]));
}

#[test]
fn v9_2_limit_1023() {
    assert_eq!(parse("10737418240:1023"), Err(Code::PARAM_INVALID));
}

#[test]
fn v9_2_two_pools() {
    let pools = vec![(10 * GIB, None), (2 * GIB, Some(2 << 20))];
    assert_eq!(parse("10737418240,2147483648:2097152"), Ok(pools));
}

#[test]
fn v9_2_200_gib_and_200_gib() {
    assert_eq!(parse(&format!("{0},{0}", 200 * GIB)), Err(Code::PARAM_INVALID));
}
