//! `udf-executor --device_id=N --load_path=P --group_name=G …` (udf §3.2).

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use executor_core::error::Code;

use super::{ArgError, decimal};

const CODE: Code = Code::FLOW_FUNC_PARAM_INVALID;
const DEVICE_ID_MAX: u32 = 1024;
const NO_QUEUE: u32 = u32::MAX;

/// The command line of a UDF executor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UdfArgs {
    /// Logical device, 0..=1024.
    pub device_id: u32,
    /// File with the load message, relative to `base_dir` by plain concatenation; not empty.
    pub load_path: OsString,
    /// Memory group to attach; not empty.
    pub group_name: String,
    /// Prefix of `load_path` and of every model path; may be empty.
    pub base_dir: OsString,
    /// Physical device; −1 = host without a device.
    pub phy_device_id: i32,
    /// Control request queue.
    pub request_queue: Option<u32>,
    /// Control response queue.
    pub response_queue: Option<u32>,
    /// NPU-scheduled model mode.
    pub npu_sched: bool,
    /// All other `key=value` arguments.
    pub options: BTreeMap<String, String>,
}

impl UdfArgs {
    /// `base_dir` + `load_path`.
    #[must_use]
    pub fn load_file(&self) -> PathBuf {
        self.under_base(&self.load_path)
    }

    /// `base_dir` + `relative`, by plain concatenation as the specification has it.
    #[must_use]
    pub fn under_base(&self, relative: &OsStr) -> PathBuf {
        let mut bytes = self.base_dir.as_bytes().to_vec();
        bytes.extend_from_slice(relative.as_bytes());
        PathBuf::from(OsString::from_vec(bytes))
    }
}

/// What was seen so far; `None` = not given.
#[derive(Default)]
struct Seen {
    device_id: Option<u32>,
    load_path: OsString,
    group_name: String,
    base_dir: OsString,
    phy_device_id: i32,
    request_queue: Option<u32>,
    response_queue: Option<u32>,
    npu_sched: bool,
    options: BTreeMap<String, String>,
}

/// Reads the whole command line, the program's name first (it is skipped).
///
/// An argument given twice: the last one counts. Words without `=` and pairs with an empty key or
/// value that are not named in the table are ignored.
///
/// # Errors
/// [`ArgError`] with code 164000 (exit code 160) for a bad or missing argument.
pub fn parse_udf<I>(words: I) -> Result<UdfArgs, ArgError>
where
    I: IntoIterator<Item = OsString>,
{
    let mut seen = Seen::default();
    for word in words.into_iter().skip(1) {
        let bytes = word.as_bytes();
        let Some(at) = bytes.iter().position(|byte| *byte == b'=') else { continue };
        let (key, value) = (&bytes[..at], OsStr::from_bytes(&bytes[at + 1..]));
        seen.accept(key, value)?;
    }
    seen.finish()
}

impl Seen {
    fn accept(&mut self, key: &[u8], value: &OsStr) -> Result<(), ArgError> {
        match key {
            b"--device_id" => {
                let device = number::<u32>("--device_id", value, "a decimal in 0..=1024")?;
                if device > DEVICE_ID_MAX {
                    return Err(invalid("--device_id", value, "a decimal in 0..=1024"));
                }
                self.device_id = Some(device);
            }
            b"--load_path" => self.load_path = value.to_owned(),
            b"--group_name" => {
                let Some(name) = value.to_str() else {
                    return Err(invalid("--group_name", value, "UTF-8 text"));
                };
                name.clone_into(&mut self.group_name);
            }
            b"--base_dir" => self.base_dir = value.to_owned(),
            b"--phy_device_id" => {
                let device = number::<i32>("--phy_device_id", value, "a decimal of at least -1")?;
                if device < -1 {
                    return Err(invalid("--phy_device_id", value, "a decimal of at least -1"));
                }
                self.phy_device_id = device;
            }
            b"--req_queue_id" => self.request_queue = queue("--req_queue_id", value)?,
            b"--rsp_queue_id" => self.response_queue = queue("--rsp_queue_id", value)?,
            b"--npu_sched" => match value.as_bytes() {
                b"0" => self.npu_sched = false,
                b"1" => self.npu_sched = true,
                _ => return Err(invalid("--npu_sched", value, "0 or 1")),
            },
            _ => self.option(key, value),
        }
        Ok(())
    }

    fn option(&mut self, key: &[u8], value: &OsStr) {
        if let (Ok(key), Some(value)) = (core::str::from_utf8(key), value.to_str())
            && !key.is_empty()
            && !value.is_empty()
        {
            self.options.insert(key.to_owned(), value.to_owned());
        }
    }

    fn finish(self) -> Result<UdfArgs, ArgError> {
        let missing = |name| ArgError::Missing { code: CODE, name };
        let device_id = self.device_id.ok_or(missing("--device_id"))?;
        if self.load_path.is_empty() {
            return Err(missing("--load_path"));
        }
        if self.group_name.is_empty() {
            return Err(missing("--group_name"));
        }
        Ok(UdfArgs {
            device_id,
            load_path: self.load_path,
            group_name: self.group_name,
            base_dir: self.base_dir,
            phy_device_id: self.phy_device_id,
            request_queue: self.request_queue,
            response_queue: self.response_queue,
            npu_sched: self.npu_sched,
            options: self.options,
        })
    }
}

fn invalid(name: &'static str, found: &OsStr, expected: &'static str) -> ArgError {
    ArgError::Invalid { code: CODE, name, found: found.to_owned(), expected }
}

fn number<T: core::str::FromStr>(
    name: &'static str,
    value: &OsStr,
    expected: &'static str,
) -> Result<T, ArgError> {
    value.to_str().and_then(decimal).ok_or_else(|| invalid(name, value, expected))
}

fn queue(name: &'static str, value: &OsStr) -> Result<Option<u32>, ArgError> {
    let id = number::<u32>(name, value, "a queue number (decimal u32)")?;
    Ok((id != NO_QUEUE).then_some(id))
}

#[cfg(test)]
mod tests {
    use super::{ArgError, UdfArgs, parse_udf};
    use crate::exit::exit_code;
    use crate::server::Dialect;
    use proptest::prelude::*;
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;
    use std::path::Path;

    fn parse(words: &[&str]) -> Result<UdfArgs, ArgError> {
        let name = core::iter::once("udf-executor");
        parse_udf(name.chain(words.iter().copied()).map(OsString::from))
    }

    const GOOD: [&str; 3] = ["--device_id=0", "--load_path=m.bin", "--group_name=g"];

    fn with(extra: &[&str]) -> Result<UdfArgs, ArgError> {
        parse(&[&GOOD, extra].concat())
    }

    #[test]
    fn required_only() {
        let args = parse(&GOOD).unwrap();
        assert_eq!((args.device_id, args.phy_device_id, args.npu_sched), (0, 0, false));
        assert_eq!((args.request_queue, args.response_queue), (None, None));
        assert_eq!(args.load_file(), Path::new("m.bin"));
        assert!(args.options.is_empty());
    }

    #[test]
    fn every_row() {
        let args = with(&[
            "--device_id=1024",
            "--base_dir=/proc/self/",
            "--load_path=fd/9",
            "--phy_device_id=-1",
            "--req_queue_id=3",
            "--rsp_queue_id=4294967295",
            "--npu_sched=1",
            "ge.exec.dumpStep=1=2",
            "--unknown=x",
            "empty=",
            "=empty",
            "ignored",
        ])
        .unwrap();
        assert_eq!((args.device_id, args.phy_device_id, args.npu_sched), (1024, -1, true));
        assert_eq!((args.request_queue, args.response_queue), (Some(3), None));
        assert_eq!(args.load_file(), Path::new("/proc/self/fd/9"));
        let options: Vec<_> = args.options.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        assert_eq!(options, [("--unknown", "x"), ("ge.exec.dumpStep", "1=2")]);
    }

    /// Edge case 46: each of these is code 164000, seen by the parent as exit code 160.
    #[test]
    fn bad_arguments_exit_with_160() {
        for missing in 0..GOOD.len() {
            let words: Vec<_> =
                (0..GOOD.len()).filter(|i| *i != missing).map(|i| GOOD[i]).collect();
            let error = parse(&words).unwrap_err();
            assert!(matches!(error, ArgError::Missing { .. }), "{error}");
            assert_eq!(exit_code(Dialect::Udf, error.code()), 160);
        }
        for bad in [
            "--load_path=",
            "--group_name=",
            "--device_id=",
            "--device_id=abc",
            "--device_id=1025",
            "--device_id=1d",
            "--device_id=-1",
            "--device_id=+1",
            "--device_id= 1",
            "--device_id=4294967296",
            "--phy_device_id=-2",
            "--phy_device_id=1d",
            "--phy_device_id=2147483648",
            "--npu_sched=Grp1",
            "--npu_sched=2",
            "--npu_sched=",
            "--req_queue_id=x",
            "--req_queue_id=4294967296",
            "--rsp_queue_id=-1",
            "--rsp_queue_id=",
        ] {
            let error = with(&[bad]).unwrap_err();
            assert_eq!(exit_code(Dialect::Udf, error.code()), 160, "{bad}: {error}");
            assert!(
                bad.starts_with(error.to_string().split([' ', ':']).nth(1).unwrap()),
                "{error}"
            );
        }
    }

    #[test]
    fn paths_need_no_utf8_but_the_group_does() {
        let raw = |prefix: &str| OsString::from_vec([prefix.as_bytes(), &[0xff]].concat());
        let words = ["x", "--device_id=0", "--group_name=g"].map(OsString::from);
        assert!(parse_udf(words.iter().cloned().chain([raw("--load_path=")])).is_ok());
        let words = ["x", "--device_id=0", "--load_path=p"].map(OsString::from);
        assert!(parse_udf(words.iter().cloned().chain([raw("--group_name=")])).is_err());
    }

    proptest! {
        #[test]
        fn any_words_end_as_a_value_or_160(
            words in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 0..8),
        ) {
            match parse_udf(words.into_iter().map(OsString::from_vec)) {
                Ok(args) => prop_assert!(args.device_id <= 1024),
                Err(error) => prop_assert_eq!(error.code().0, 164_000),
            }
        }
    }
}
