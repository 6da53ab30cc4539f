//! Running flows of this user: found through their supervisors.

use std::fs::File;

use executor_rt::plan::{NodePlan, SUPERVISOR_COMM, SupervisorPlan};
use sys::{memfd, procfs};

use super::ToolError;

/// A running flow.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Flow {
    /// Name of the flow.
    pub name: String,
    /// Process number of its supervisor.
    pub pid: u32,
    /// What its supervisor was told: nodes, slots.
    pub plan: SupervisorPlan,
    descriptors: Vec<(i32, String)>,
}

/// Which output of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Output {
    /// What the function prints.
    Stdout,
    /// Log lines, and what libraries write to stderr.
    Stderr,
}

impl Output {
    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }

    const fn file(self) -> &'static str {
        match self {
            Self::Stdout => "dflow-log-out",
            Self::Stderr => "dflow-log-err",
        }
    }
}

impl Flow {
    /// The flow whose supervisor is process `pid`; `None` when it has ended or is something else.
    #[must_use]
    pub fn of(pid: u32) -> Option<Flow> {
        let descriptors = procfs::descriptors(pid);
        let file = open(pid, &descriptors, "dflow-plan")?;
        let plan: SupervisorPlan = serde_json::from_slice(&memfd::read_all(&file).ok()?).ok()?;
        Some(Flow { name: plan.flow.clone(), pid, plan, descriptors })
    }

    /// Opens its memory file `name` for reading.
    ///
    /// # Errors
    /// [`ToolError::Unreadable`]: the flow has ended, or has no such file.
    pub fn open(&self, name: &str) -> Result<File, ToolError> {
        open(self.pid, &self.descriptors, name).ok_or_else(|| ToolError::Unreadable {
            what: format!("`{name}` of flow {}", self.title()),
            why: "its supervisor has no such memory file open".to_owned(),
        })
    }

    /// Opens a log of the node with this label.
    ///
    /// # Errors
    /// As [`Flow::open`].
    pub fn open_log(&self, label: &str, output: Output) -> Result<File, ToolError> {
        self.open(&format!("{}:{label}", output.file()))
    }

    /// Labels of its nodes' processes that `node` means: a label, a node's name for all its
    /// instances, or a model for its device. All of them for `None`.
    #[must_use]
    pub fn labels(&self, node: Option<&str>) -> Vec<String> {
        let meant = |plan: &&NodePlan| {
            node.is_none_or(|node| {
                let mut models = plan.also.iter();
                means(node, &plan.name) || models.any(|model| means(node, &model.name))
            })
        };
        self.plan.nodes.iter().filter(meant).map(|plan| plan.name.clone()).collect()
    }

    /// Label of a slot's process; `host` for slot 0.
    #[must_use]
    pub fn label(&self, slot: u32) -> &str {
        let also = self.plan.nodes.iter().flat_map(|node| &node.also);
        let mut named = self.plan.nodes.iter().map(|node| (node.slot, &node.name));
        let named = named.find(|(own, _)| *own == slot);
        let mut also = also.map(|also| (also.slot, &also.name)).filter(|(own, _)| *own == slot);
        match named.or_else(|| also.next()) {
            Some((_, name)) => name,
            None if slot == 0 => "host",
            None => "?",
        }
    }

    /// Name and process number, as lists show it.
    #[must_use]
    pub fn title(&self) -> String {
        format!("{} (supervisor {})", self.name, self.pid)
    }

    fn line(&self) -> String {
        format!("{}, nodes: {}", self.title(), self.labels(None).join(", "))
    }
}

/// `decode` means `decode` and every `decode@N`.
fn means(node: &str, label: &str) -> bool {
    label.strip_prefix(node).is_some_and(|rest| rest.is_empty() || rest.starts_with('@'))
}

fn open(pid: u32, descriptors: &[(i32, String)], name: &str) -> Option<File> {
    let (number, link) = descriptors.iter().find(|(_, link)| memfd_name(link) == Some(name))?;
    let path = format!("/proc/{pid}/fd/{number}");
    let file = File::open(&path).ok()?;
    // The number may have come to mean another file, or the process another program.
    let still = std::fs::read_link(path).ok()?;
    (still.to_string_lossy() == link.as_str()).then_some(file)
}

/// `/memfd:name (deleted)`.
fn memfd_name(link: &str) -> Option<&str> {
    let name = link.strip_prefix("/memfd:")?;
    Some(name.strip_suffix(" (deleted)").unwrap_or(name))
}

/// All running flows of this user, by process number.
#[must_use]
pub fn running() -> Vec<Flow> {
    procfs::find_by_comm(SUPERVISOR_COMM).into_iter().filter_map(Flow::of).collect()
}

/// The flow, and the node in it, that a user means: both names are optional where only one flow
/// runs, and a single name may be a flow's name, its supervisor's process number or a node of the
/// only flow.
///
/// # Errors
/// [`ToolError`] says what runs.
pub fn select(
    flows: Vec<Flow>,
    first: Option<&str>,
    node: Option<&str>,
) -> Result<(Flow, Option<String>), ToolError> {
    if flows.is_empty() {
        return Err(ToolError::None);
    }
    let lines: Vec<String> = flows.iter().map(Flow::line).collect();
    let unknown = |name: &str| ToolError::Unknown { name: name.to_owned(), running: lines.clone() };
    let Some(name) = first else { return Ok((only(flows)?, None)) };
    let fits = |flow: &Flow| flow.name == name || flow.pid.to_string() == name;
    if flows.iter().any(fits) {
        let flow = only(flows.into_iter().filter(fits).collect())?;
        if let Some(node) = node.filter(|node| flow.labels(Some(node)).is_empty()) {
            return Err(unknown(node));
        }
        return Ok((flow, node.map(str::to_owned)));
    }
    let has_node = |flow: &Flow| node.is_none() && !flow.labels(Some(name)).is_empty();
    if !flows.iter().any(has_node) {
        return Err(unknown(name));
    }
    Ok((only(flows.into_iter().filter(has_node).collect())?, Some(name.to_owned())))
}

fn only(mut flows: Vec<Flow>) -> Result<Flow, ToolError> {
    match (flows.pop(), flows.is_empty()) {
        (Some(flow), true) => Ok(flow),
        (None, _) => Err(ToolError::None),
        (Some(last), false) => {
            let mut running: Vec<String> = flows.iter().map(Flow::line).collect();
            running.push(last.line());
            Err(ToolError::Ambiguous { running })
        }
    }
}

#[cfg(test)]
mod tests {
    use executor_rt::plan::{Restart, RestartWhen};

    use super::*;

    fn flow(name: &str, pid: u32, labels: &[&str]) -> Flow {
        let restart = Restart {
            when: RestartWhen::Never,
            max: 0,
            backoff_ms: 0,
            backoff_max_ms: 0,
            window_ms: 0,
        };
        let node = |(slot, label): (u32, &&str)| NodePlan {
            slot,
            name: (*label).to_owned(),
            program: String::new(),
            args: vec![],
            env: vec![],
            inherit: vec![],
            stdout_fd: 1,
            stderr_fd: 2,
            restart,
            init_timeout_ms: 0,
            stall_ms: 0,
            cpu: None,
            also: Vec::new(),
        };
        let plan = SupervisorPlan {
            version: SupervisorPlan::VERSION,
            flow: name.to_owned(),
            nodes: (1..).zip(labels).map(node).collect(),
            lock_stall_ms: 0,
            namespace: false,
            log_keep_bytes: 0,
            log_fds: vec![],
            sabotage: 0,
        };
        Flow { name: name.to_owned(), pid, plan, descriptors: vec![] }
    }

    fn picked(flows: &[Flow], first: Option<&str>, node: Option<&str>) -> String {
        match select(flows.to_vec(), first, node) {
            Ok((flow, node)) => format!("{} {}", flow.pid, node.unwrap_or_default()),
            Err(ToolError::None) => "none".to_owned(),
            Err(ToolError::Unknown { name, .. }) => format!("unknown {name}"),
            Err(ToolError::Ambiguous { running }) => format!("{} fit", running.len()),
            Err(other) => other.to_string(),
        }
    }

    #[test]
    fn names_are_optional_while_they_are_clear() {
        let pages = flow("pages", 10, &["decode@0", "decode@1", "measure"]);
        let one = [pages.clone()];
        assert_eq!(picked(&[], None, None), "none");
        assert_eq!(picked(&one, None, None), "10 ");
        assert_eq!(picked(&one, Some("measure"), None), "10 measure");
        assert_eq!(picked(&one, Some("decode"), None), "10 decode");
        assert_eq!(picked(&one, Some("pages"), Some("decode@1")), "10 decode@1");
        assert_eq!(picked(&one, Some("pages"), Some("deco")), "unknown deco");
        assert_eq!(picked(&one, Some("page"), None), "unknown page");
        let two = [pages.clone(), flow("pages", 20, &["measure"])];
        assert_eq!(picked(&two, None, None), "2 fit");
        assert_eq!(picked(&two, Some("pages"), None), "2 fit");
        assert_eq!(picked(&two, Some("20"), Some("measure")), "20 measure");
        assert_eq!(picked(&two, Some("decode@0"), None), "10 decode@0");
        assert_eq!(pages.labels(Some("decode")), ["decode@0", "decode@1"]);
        assert_eq!((pages.label(0), pages.label(3), pages.label(9)), ("host", "measure", "?"));
    }

    #[test]
    fn a_process_without_a_plan_is_no_flow() {
        assert_eq!(Flow::of(std::process::id()), None);
        assert_eq!(memfd_name("/memfd:dflow-log-err:a@1 (deleted)"), Some("dflow-log-err:a@1"));
        assert_eq!(memfd_name("socket:[7]"), None);
    }

    #[test]
    fn errors_list_what_runs() {
        let flows = vec![flow("a", 1, &["x"]), flow("b", 2, &["y"])];
        let text = select(flows, Some("c"), None).expect_err("unknown").to_string();
        assert!(text.contains("`c`") && text.contains("a (supervisor 1), nodes: x"), "{text}");
    }
}
