//! `NAME GROUP REQUEST_QUEUE RESPONSE_QUEUE DEVICE [key=value …]` (executor-deployer §1.2).

use std::collections::BTreeMap;

use executor_core::error::Code;

use super::{ArgError, decimal};

const CODE: Code = Code::PARAM_INVALID;
const FIXED: usize = 5;

/// The command line of a built-in executor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuiltinArgs {
    /// Display name, such as `npu_executor`.
    pub display_name: String,
    /// Memory group to attach; not empty.
    pub group_name: String,
    /// Control request queue.
    pub request_queue: u32,
    /// Control response queue.
    pub response_queue: u32,
    /// Device; negative on a host without one.
    pub device_id: i32,
    /// `key=value` arguments, handed on.
    pub options: BTreeMap<String, String>,
    /// Words that were ignored, to be logged as warnings.
    pub ignored: Vec<String>,
}

/// Reads the whole command line, the display name first.
///
/// # Errors
/// [`ArgError`] with `PARAM_INVALID` for fewer than five words or a number with trailing junk.
pub fn parse_builtin<'a, I>(words: I) -> Result<BuiltinArgs, ArgError>
where
    I: IntoIterator<Item = &'a str>,
{
    let words: Vec<&str> = words.into_iter().collect();
    let [display_name, group_name, request, response, device, rest @ ..] = words.as_slice() else {
        return Err(ArgError::TooFew { code: CODE, found: words.len(), expected: FIXED });
    };
    if group_name.is_empty() {
        return Err(ArgError::Missing { code: CODE, name: "memory group" });
    }
    let mut args = BuiltinArgs {
        display_name: (*display_name).to_owned(),
        group_name: (*group_name).to_owned(),
        request_queue: number("request queue", request, "a queue number (decimal u32)")?,
        response_queue: number("response queue", response, "a queue number (decimal u32)")?,
        device_id: number("device", device, "a decimal number")?,
        options: BTreeMap::new(),
        ignored: Vec::new(),
    };
    for word in rest {
        match word.split_once('=') {
            Some((key, value)) if !value.contains('=') => {
                args.options.insert(key.to_owned(), value.to_owned());
            }
            _ => args.ignored.push((*word).to_owned()),
        }
    }
    Ok(args)
}

fn number<T: core::str::FromStr>(
    name: &'static str,
    found: &str,
    expected: &'static str,
) -> Result<T, ArgError> {
    decimal(found).ok_or_else(|| ArgError::Invalid {
        code: CODE,
        name,
        found: found.into(),
        expected,
    })
}

#[cfg(test)]
mod tests {
    use super::parse_builtin;
    use executor_core::error::Code;

    const GOOD: [&str; 5] = ["npu_executor", "group", "1", "2", "0"];

    #[test]
    fn fixed_part_and_options() {
        let extra = ["--base_dir=/x/", "a=b=c", "alone", "empty="];
        let args = parse_builtin(GOOD.into_iter().chain(extra)).unwrap();
        assert_eq!((args.request_queue, args.response_queue, args.device_id), (1, 2, 0));
        assert_eq!(args.options["--base_dir"], "/x/");
        assert_eq!(args.options["empty"], "");
        assert_eq!(args.ignored, ["a=b=c", "alone"]);
    }

    /// Conformance §9.6: a daemon with four arguments.
    #[test]
    fn four_words_are_too_few() {
        for count in 0..5 {
            let error = parse_builtin(GOOD.into_iter().take(count)).unwrap_err();
            assert_eq!(error.code(), Code::PARAM_INVALID);
            assert!(error.to_string().starts_with(&format!("{count} arguments")), "{error}");
        }
    }

    #[test]
    fn numbers_parse_completely() {
        for (at, bad) in [(2, "1x"), (2, ""), (3, "-1"), (3, "4294967296"), (4, "0 "), (4, "+1")] {
            let mut words = GOOD;
            words[at] = bad;
            assert_eq!(parse_builtin(words).unwrap_err().code(), Code::PARAM_INVALID, "{bad:?}");
        }
        let mut words = GOOD;
        words[1] = "";
        assert!(parse_builtin(words).is_err());
    }
}
