//! `cargo xtask ci-sizes`: stripped executors against their ceilings.

use crate::context::Context;
use crate::demo;
use crate::elf;

/// Ceilings of one release binary.
struct Ceiling {
    binary: &'static str,
    /// The file as built (stripped by the release profile).
    file_kib: u64,
    /// Writable segments: .data, .bss and what is made read-only after relocation.
    writable_kib: u64,
}

/// The aim for an executor is 2048 KiB (`start` in the figures); growth is a reviewed diff.
const CEILINGS: &[Ceiling] = &[
    Ceiling { binary: "udf-executor", file_kib: 2048, writable_kib: 256 },
    Ceiling { binary: "npu-executor", file_kib: 2048, writable_kib: 256 },
    Ceiling { binary: "dflow-supervisor", file_kib: 2048, writable_kib: 256 },
];

/// Builds the executors, then checks them.
pub(crate) fn run(context: &Context) -> Result<(), String> {
    demo::build_executors(context)?;
    for line in check(context)? {
        println!("{line}");
    }
    Ok(())
}

/// One line per executor that was built; a missing one or one over its ceiling is an error.
pub(crate) fn check(context: &Context) -> Result<Vec<String>, String> {
    CEILINGS
        .iter()
        .map(|ceiling| {
            let path = context.executors().join(ceiling.binary);
            let file =
                std::fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            let length = u64::try_from(file.len()).map_err(|error| error.to_string())?;
            let writable = elf::writable_bytes(&file)
                .map_err(|error| format!("{}: {error}", path.display()))?;
            judge(ceiling, length.div_ceil(1024), writable.div_ceil(1024))
        })
        .collect()
}

fn judge(ceiling: &Ceiling, file_kib: u64, writable_kib: u64) -> Result<String, String> {
    let line = format!(
        "{}: {file_kib} KiB of {}, writable {writable_kib} KiB of {}",
        ceiling.binary, ceiling.file_kib, ceiling.writable_kib
    );
    if file_kib > ceiling.file_kib || writable_kib > ceiling.writable_kib {
        return Err(format!("{line}: over its ceiling (xtask/src/sizes.rs)"));
    }
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_kib_over_a_ceiling_fails() {
        let ceiling = Ceiling { binary: "x", file_kib: 10, writable_kib: 2 };
        assert!(judge(&ceiling, 10, 2).is_ok());
        assert!(judge(&ceiling, 11, 2).unwrap_err().contains("over its ceiling"));
        assert!(judge(&ceiling, 10, 3).is_err());
    }
}
