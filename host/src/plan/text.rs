//! The plan for people: processes, queues, and the arithmetic of every budget.

use std::fmt;

use crate::graph::{Align, AlignTime, Priority};

use super::{DeployPlan, PartitionPlan, QueueKind, Term, Work};

/// Bytes with a binary unit, exact where they are whole: `4 KiB`, `5.51 MiB`.
#[must_use]
pub fn bytes_text(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let power = (bytes.ilog2() / 10).min(4);
    let unit = 1_u128 << (10 * power);
    let bytes = u128::from(bytes);
    let name = UNITS[power as usize - 1];
    if bytes.is_multiple_of(unit) {
        return format!("{} {name}", bytes / unit);
    }
    let hundredths = (bytes * 100 + unit / 2) / unit;
    format!("{}.{:02} {name}", hundredths / 100, hundredths % 100)
}

/// What is set of a priority: `; process priority 0, event priority 1`.
fn priority(priority: Priority) -> String {
    let Priority { process, event } = priority;
    let parts = [("process", process), ("event", event)];
    let parts = parts.iter().filter_map(|(of, value)| Some(format!("{of} priority {}", (*value)?)));
    let parts = parts.collect::<Vec<_>>().join(", ");
    if parts.is_empty() { parts } else { format!("; {parts}") }
}

/// `; aligned by id: 16 wait, 1000 ms, then answered`.
fn align(Align { max_cache, timeout_ms, drop }: Align) -> String {
    let time = timeout_ms.map_or_else(String::new, |ms| format!(", {ms} ms"));
    let then = if drop { "answered" } else { "as they are" };
    format!("; aligned by id: {max_cache} wait{time}, then {then}")
}

/// `; aligned by time: at most 5 apart, offsets [0, 2], 1000 ms`.
fn align_time(align: &AlignTime) -> String {
    let AlignTime { interval, offsets, timeout_ms } = align;
    let time = timeout_ms.map_or_else(String::new, |ms| format!(", {ms} ms"));
    let offsets = match offsets.as_slice() {
        [] => String::new(),
        offsets => format!(", offsets {offsets:?}"),
    };
    format!("; aligned by time: at most {interval} apart{offsets}{time}")
}

impl fmt::Display for DeployPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let processes = self.processes().count();
        writeln!(f, "flow {}: {processes} executor(s)", self.name)?;
        writeln!(f, "\nprocesses")?;
        writeln!(f, "  slot 0  host")?;
        for executor in &self.executors {
            let (slot, label) = (executor.slot, &executor.label);
            let what = match &executor.work {
                Work::Function => {
                    format!("{} of {}", executor.function, executor.library.display())
                }
                Work::Model(model) => {
                    let (path, device) = (model.path.display(), model.device);
                    let priority = priority(model.priority);
                    format!("{path} in the process of device:{device}{priority}")
                }
                Work::Device(device) => {
                    let models = self.models_of(executor).map(|model| model.label.as_str());
                    let models = models.collect::<Vec<_>>().join(", ");
                    let cores = match device.cores {
                        None => String::new(),
                        Some(1) => "; 1 core".to_owned(),
                        Some(cores) => format!("; {cores} cores"),
                    };
                    match device.threads {
                        0 | 1 => format!("one process for {models}{cores}"),
                        threads => {
                            format!("one process for {models}{cores}; {threads} threads a run")
                        }
                    }
                }
            };
            let align = executor.align.map(align).unwrap_or_default();
            let time = executor.align_time.as_ref().map(align_time).unwrap_or_default();
            writeln!(f, "  slot {slot}  {label}: {what}{align}{time}")?;
        }
        writeln!(f, "\nqueues")?;
        for queue in self.queues.iter().filter(|queue| queue.kind == QueueKind::Data) {
            let lanes = queue.producer_slots.len();
            let policy = format!("{:?}", queue.policy).to_lowercase();
            writeln!(
                f,
                "  {:>3}  {}  depth {} x {lanes} lane(s), {policy}",
                queue.id, queue.name, queue.depth
            )?;
        }
        let control = processes * 2;
        writeln!(f, "       and {control} request and response queues, depth 3")?;
        writeln!(f, "\nmemory (batches 0: not in use)")?;
        for partition in &self.partitions {
            partition.fmt(f)?;
        }
        for executor in self.executors.iter().filter(|one| !one.private().is_empty()) {
            let (slot, label) = (executor.slot, &executor.label);
            writeln!(f, "  private to slot {slot}, {label}: {}", executor.private_text())?;
        }
        writeln!(f, "total  {}", bytes_text(self.bytes().saturating_add(self.private_bytes())))
    }
}

impl fmt::Display for PartitionPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (slot, label) = (self.slot, &self.label);
        writeln!(f, "  partition of slot {slot}, {label}: {}", bytes_text(self.bytes))?;
        for (index, pool) in self.pools.iter().enumerate() {
            let size = bytes_text(pool.block_size);
            let sum = bytes_text(pool.block_size.saturating_mul(u64::from(pool.block_count)));
            let kind = if index == self.control_pool as usize { "control, " } else { "" };
            writeln!(f, "    pool {index}: {kind}{} blocks x {size} = {sum}", pool.block_count)?;
            write_terms(&pool.terms, f)?;
        }
        writeln!(f, "    entries: {} blocks + {} extra", self.blocks(), self.extra_entries)?;
        let listed = |term: &&Term| self.pools.iter().any(|pool| pool.terms.contains(term));
        let (above, other): (Vec<_>, Vec<_>) = self.entry_terms.iter().partition(listed);
        let count = above.iter().map(|term| term.count).sum();
        let above = Term { what: "a copy_ref at each place above".to_owned(), count };
        write_terms(std::iter::once(&above).chain(other), f)
    }
}

fn write_terms<'a>(
    terms: impl IntoIterator<Item = &'a Term>,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    for term in terms {
        writeln!(f, "      {:>6}  {}", term.count, term.what)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::bytes_text;

    #[test]
    fn bytes_have_a_fitting_unit() {
        assert_eq!(bytes_text(17), "17 B");
        assert_eq!(bytes_text(4096), "4 KiB");
        assert_eq!(bytes_text(5_771_264), "5.50 MiB");
        assert_eq!(bytes_text(256 << 30), "256 GiB");
        assert_eq!(bytes_text(u64::MAX), "16777216.00 TiB");
    }
}
