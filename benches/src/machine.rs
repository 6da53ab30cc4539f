//! The machine line that every figure carries: processor, cores, kernel, date, commit.

use std::fs;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

/// Describes this machine and the measured commit; what can't be found out is `"unknown"`.
#[must_use]
pub fn describe() -> Value {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    // Not `available_parallelism`, which counts only the cores this process is pinned to.
    let cores = info.lines().filter(|line| line.starts_with("processor")).count();
    json!({
        "cpu": cpu_model(&info).unwrap_or_else(unknown),
        "cores": cores,
        "kernel": first_line("/proc/sys/kernel/osrelease").unwrap_or_else(unknown),
        "load": first_line("/proc/loadavg").unwrap_or_else(unknown),
        "date": today(),
        "commit": commit().unwrap_or_else(unknown),
    })
}

fn unknown() -> String {
    "unknown".to_owned()
}

fn first_line(path: &str) -> Option<String> {
    fs::read_to_string(path).ok()?.lines().next().map(str::to_owned)
}

/// `model name`, with family and model where the name alone is vague; aarch64 has only part
/// numbers.
fn cpu_model(info: &str) -> Option<String> {
    let field = |name: &str| {
        let line = info.lines().find(|line| line.split(':').next().map(str::trim) == Some(name))?;
        line.split_once(':').map(|(_, value)| value.trim().to_owned())
    };
    if let Some(name) = field("model name") {
        let family = field("cpu family").unwrap_or_else(unknown);
        let model = field("model").unwrap_or_else(unknown);
        return Some(format!("{name}, family {family} model {model}"));
    }
    field("CPU part").map(|part| format!("CPU part {part}"))
}

fn commit() -> Option<String> {
    let git = |args: &[&str]| {
        let output = Command::new("git").args(args).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let hash = git(&["rev-parse", "--short=12", "HEAD"])?;
    let changed = git(&["status", "--porcelain", "--untracked-files=no"])?;
    Some(if changed.is_empty() { hash } else { format!("{hash}+changes") })
}

fn today() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (year, month, day) = civil(seconds / 86_400);
    format!("{year:04}-{month:02}-{day:02}")
}

/// Year, month and day (UTC) of a number of days since 1970-01-01.
fn civil(days: u64) -> (u64, u64, u64) {
    // Years are counted from March, so that the leap day is the last day of a year.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let leap_days = day_of_era / 1_460 - day_of_era / 36_524 + day_of_era / 146_096;
    let year_of_era = (day_of_era - leap_days) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::{civil, cpu_model, describe};

    #[test]
    fn days_become_dates() {
        assert_eq!(civil(0), (1970, 1, 1));
        assert_eq!(civil(11_016), (2000, 2, 29));
        assert_eq!(civil(11_017), (2000, 3, 1));
        assert_eq!(civil(20_088), (2024, 12, 31));
    }

    #[test]
    fn the_model_is_found_by_whole_field_name() {
        let info = "cpu family\t: 25\nmodel\t\t: 17\nmodel name\t: AMD EPYC\n";
        assert_eq!(cpu_model(info).unwrap(), "AMD EPYC, family 25 model 17");
        assert_eq!(cpu_model(""), None);
    }

    #[test]
    fn every_field_is_there() {
        let machine = describe();
        for key in ["cpu", "cores", "kernel", "load", "date", "commit"] {
            assert!(!machine[key].is_null(), "{key}");
        }
    }
}
