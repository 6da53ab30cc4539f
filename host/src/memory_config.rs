//! The grammar of memory settings (spec/executor-deployer.md §5, `ge.flowGraphMemMaxSize`).
//!
//! `size[:limit][,size[:limit]]…`, in bytes, at most 128 pools. A pool's limit is the largest
//! block it gives out; 0 or none = no limit. Pools are sized 1024 B … 256 GiB, together at most
//! 256 GiB. No setting at all means one pool of 10 GiB; an empty one is refused.

use std::fmt;

use executor_core::error::Code;

/// Largest pool, and largest sum of pools: 256 GiB.
pub const MAX_BYTES: u64 = 256 << 30;
/// Smallest pool and smallest limit, bytes.
pub const MIN_BYTES: u64 = 1024;
/// Size of the pool that stands for no setting.
pub const DEFAULT_BYTES: u64 = 10 << 30;
/// Most pools in one setting.
pub const MAX_POOLS: usize = 128;

/// One pool of the setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryPool {
    /// Bytes.
    pub size: u64,
    /// Largest block, bytes; `None` = no limit.
    pub limit: Option<u64>,
}

impl MemoryPool {
    /// Size in KiB, the unit of the runtime's own calls.
    #[must_use]
    pub fn size_kib(&self) -> u64 {
        self.size / 1024
    }
}

/// Parsed memory settings: at least one pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryConfig {
    /// In the order given.
    pub pools: Vec<MemoryPool>,
}

/// Why a text is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum MemoryConfigError {
    /// The setting is there but empty.
    Empty,
    /// More pools than [`MAX_POOLS`]; their number.
    TooManyPools(usize),
    /// This item is not `size` or `size:limit` with 1–12 and 1–10 digits.
    Malformed(String),
    /// Pool sizes lie between 1024 B and 256 GiB; this many bytes do not.
    Size(u64),
    /// A limit is 0 or at least 1024 B, and fits 32 signed bits; this many bytes do not.
    Limit(u64),
    /// A limit exceeds its pool.
    LimitAboveSize {
        /// The limit, bytes.
        limit: u64,
        /// The pool's size, bytes.
        size: u64,
    },
    /// The pools together exceed 256 GiB; their sum in bytes.
    Sum(u64),
}

impl fmt::Display for MemoryConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("found an empty text, expected size[:limit],…"),
            Self::TooManyPools(count) => write!(f, "found {count} pools, expected at most 128"),
            Self::Malformed(item) => {
                write!(f, "found `{item}`, expected size[:limit] with 1-12 and 1-10 digits")
            }
            Self::Size(size) => {
                write!(f, "found a pool of {size} B, expected {MIN_BYTES} to {MAX_BYTES} B")
            }
            Self::Limit(limit) => {
                write!(f, "found a limit of {limit} B, expected 0 or {MIN_BYTES} to {} B", i32::MAX)
            }
            Self::LimitAboveSize { limit, size } => {
                write!(f, "found a limit of {limit} B, expected at most its pool's {size} B")
            }
            Self::Sum(sum) => {
                write!(f, "found pools of {sum} B together, expected at most {MAX_BYTES} B")
            }
        }
    }
}

impl std::error::Error for MemoryConfigError {}

impl MemoryConfigError {
    /// The code that callers of the specification's API see.
    #[must_use]
    pub fn code(&self) -> Code {
        Code::PARAM_INVALID
    }
}

impl MemoryConfig {
    /// Parses a setting; `None` = the setting is absent.
    ///
    /// # Errors
    /// [`MemoryConfigError`]
    pub fn parse(text: Option<&str>) -> Result<Self, MemoryConfigError> {
        let Some(text) = text else {
            return Ok(Self { pools: vec![MemoryPool { size: DEFAULT_BYTES, limit: None }] });
        };
        if text.is_empty() {
            return Err(MemoryConfigError::Empty);
        }
        let count = text.split(',').count();
        if count > MAX_POOLS {
            return Err(MemoryConfigError::TooManyPools(count));
        }
        let pools = text.split(',').map(parse_pool).collect::<Result<Vec<_>, _>>()?;
        let config = Self { pools };
        if config.total() > MAX_BYTES {
            return Err(MemoryConfigError::Sum(config.total()));
        }
        Ok(config)
    }

    /// Bytes of all pools together.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.pools.iter().map(|pool| pool.size).sum()
    }

    /// The largest block any pool gives out, bytes.
    #[must_use]
    pub fn largest_block(&self) -> u64 {
        self.pools.iter().map(|pool| pool.limit.unwrap_or(pool.size)).max().unwrap_or(0)
    }
}

fn parse_pool(item: &str) -> Result<MemoryPool, MemoryConfigError> {
    let malformed = || MemoryConfigError::Malformed(item.to_owned());
    let (size, limit) = match item.split_once(':') {
        Some((size, limit)) => (size, Some(limit)),
        None => (item, None),
    };
    let size = digits(size, 12).ok_or_else(malformed)?;
    let limit = limit.map(|limit| digits(limit, 10).ok_or_else(malformed)).transpose()?;
    if !(MIN_BYTES..=MAX_BYTES).contains(&size) {
        return Err(MemoryConfigError::Size(size));
    }
    let limit = limit.filter(|limit| *limit != 0);
    match limit {
        Some(limit) if limit < MIN_BYTES || i32::try_from(limit).is_err() => {
            Err(MemoryConfigError::Limit(limit))
        }
        Some(limit) if limit > size => Err(MemoryConfigError::LimitAboveSize { limit, size }),
        _ => Ok(MemoryPool { size, limit }),
    }
}

/// One to `most` ASCII digits.
fn digits(text: &str, most: usize) -> Option<u64> {
    let plain = (1..=most).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    if plain { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn parse(text: &str) -> Result<Vec<(u64, Option<u64>)>, MemoryConfigError> {
        let config = MemoryConfig::parse(Some(text))?;
        Ok(config.pools.iter().map(|pool| (pool.size, pool.limit)).collect())
    }

    /// spec/executor-deployer.md §9.2, row by row.
    #[test]
    fn numbered_cases_of_the_specification() {
        let absent = MemoryConfig::parse(None).unwrap();
        assert_eq!(absent.pools, [MemoryPool { size: 10 * GIB, limit: None }]);
        assert_eq!(absent.pools[0].size_kib(), 10 * 1024 * 1024);
        assert_eq!(parse(""), Err(MemoryConfigError::Empty));
        assert_eq!(parse("4294967295"), Ok(vec![(4_294_967_295, None)]));
        let long = "12345678901234567890";
        assert_eq!(parse(long), Err(MemoryConfigError::Malformed(long.to_owned())));
        let limited = format!("{}:{}", 15 * GIB, 10 << 20);
        assert_eq!(parse(&limited), Ok(vec![(15 * GIB, Some(10 << 20))]));
        assert_eq!(parse("10737418240:0"), Ok(vec![(10 * GIB, None)]));
        assert_eq!(parse("10737418240:1023"), Err(MemoryConfigError::Limit(1023)));
        let two = "10737418240,2147483648:2097152";
        assert_eq!(parse(two), Ok(vec![(10 * GIB, None), (2 * GIB, Some(2 << 20))]));
        let both = format!("{0},{0}", 200 * GIB);
        assert_eq!(parse(&both), Err(MemoryConfigError::Sum(400 * GIB)));
    }

    #[test]
    fn borders() {
        assert_eq!(parse("1024"), Ok(vec![(1024, None)]));
        assert_eq!(parse("1023"), Err(MemoryConfigError::Size(1023)));
        assert_eq!(parse("274877906944"), Ok(vec![(256 * GIB, None)]));
        assert_eq!(parse("274877906945"), Err(MemoryConfigError::Size(256 * GIB + 1)));
        assert_eq!(parse("2048:1024"), Ok(vec![(2048, Some(1024))]));
        let above = MemoryConfigError::LimitAboveSize { limit: 4096, size: 2048 };
        assert_eq!(parse("2048:4096"), Err(above));
        let wide = MemoryConfigError::Limit(2_147_483_648);
        assert_eq!(parse("10737418240:2147483648"), Err(wide));
        for text in ["a", "1024:", ":1024", "1024,", "1024:1:1", " 1024", "+1024", "1024:-1"] {
            assert!(matches!(parse(text), Err(MemoryConfigError::Malformed(_))), "{text}");
        }
        assert!(parse(&vec!["1024"; 128].join(",")).is_ok());
        let many = vec!["1024"; 129].join(",");
        assert_eq!(parse(&many), Err(MemoryConfigError::TooManyPools(129)));
    }
}
