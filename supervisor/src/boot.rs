//! What the host left for this process: the plan and the descriptors, checked before anything is
//! started.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};

use executor_rt::attach::Failure;
use executor_rt::plan::{
    ENV_ARENA_FD, ENV_COMMAND_FD, ENV_CONTROL_FD, ENV_HOST_PIDFD, ENV_PLAN_FD, NodePlan,
    SupervisorPlan,
};
use sys::{SysError, inherited, memfd};

/// Why nothing was started.
#[derive(Debug)]
pub(crate) enum Refused {
    /// Unknown arguments.
    Arguments(String),
    /// A variable is missing or no number: name, found.
    Environment(&'static str, Option<String>),
    /// A descriptor is not there: who names it, number, why.
    Descriptor(String, i32, SysError),
    /// The document can't be read.
    Plan(String),
    /// A node can't be what it says: node, what.
    Node(String, String),
    /// The memory group.
    Group(Failure),
    /// Another call.
    System(SysError),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Arguments(found) => {
                write!(f, "found arguments `{found}`, expected none or --watcher; use `dflow run`")
            }
            Self::Environment(name, found) => {
                let found = found.as_deref().unwrap_or("nothing");
                write!(f, "{name}: found {found}, expected a descriptor number; use `dflow run`")
            }
            Self::Descriptor(who, number, error) => {
                write!(f, "{who}: descriptor {number} was not inherited: {error}")
            }
            Self::Plan(what) => write!(f, "plan in {ENV_PLAN_FD}: {what}"),
            Self::Node(name, what) => write!(f, "plan, node {name}: {what}"),
            Self::Group(failure) => write!(f, "memory group: {failure}"),
            Self::System(error) => error.fmt(f),
        }
    }
}

impl From<SysError> for Refused {
    fn from(error: SysError) -> Self {
        Self::System(error)
    }
}

impl From<Failure> for Refused {
    fn from(failure: Failure) -> Self {
        Self::Group(failure)
    }
}

/// Inherited descriptors by their number, closed on exec from now on.
#[derive(Debug, Default)]
pub(crate) struct Files(BTreeMap<i32, File>);

impl Files {
    /// Takes `number` over, once.
    fn take(&mut self, who: &str, number: i32) -> Result<(), Refused> {
        if let Entry::Vacant(place) = self.0.entry(number) {
            let fd = inherited::take(number)
                .map_err(|error| Refused::Descriptor(who.to_owned(), number, error))?;
            place.insert(File::from(fd));
        }
        Ok(())
    }

    /// Files of a test.
    #[cfg(test)]
    pub(crate) fn of<const N: usize>(files: [(i32, File); N]) -> Files {
        Files(BTreeMap::from(files))
    }

    /// The file of a number; `None` for a standard stream or one that was not taken.
    pub(crate) fn get(&self, number: i32) -> Option<&File> {
        self.0.get(&number)
    }

    /// Every descriptor.
    pub(crate) fn all(&self) -> Vec<BorrowedFd<'_>> {
        self.0.values().map(AsFd::as_fd).collect()
    }
}

/// Everything this process was given.
#[derive(Debug)]
pub(crate) struct Boot {
    /// The plan.
    pub(crate) plan: SupervisorPlan,
    /// Its descriptors and those below.
    pub(crate) files: Files,
    control: i32,
    arena: i32,
    host: i32,
    command: i32,
}

/// Reads the environment, takes the descriptors over and checks the plan.
pub(crate) fn load() -> Result<Boot, Refused> {
    let mut files = Files::default();
    let mut take = |name: &'static str| {
        let found = std::env::var(name).ok();
        let number = found.as_deref().and_then(|text| text.parse().ok());
        let number = number.ok_or(Refused::Environment(name, found))?;
        files.take(name, number).map(|()| number)
    };
    let plan_fd = take(ENV_PLAN_FD)?;
    let (control, arena) = (take(ENV_CONTROL_FD)?, take(ENV_ARENA_FD)?);
    let (host, command) = (take(ENV_HOST_PIDFD)?, take(ENV_COMMAND_FD)?);
    let bytes = match files.get(plan_fd) {
        Some(file) => memfd::read_all(file)?,
        None => Vec::new(),
    };
    let plan = parse(&bytes)?;
    for node in &plan.nodes {
        let streams = [node.stdout_fd, node.stderr_fd].into_iter().filter(|fd| *fd > 2);
        for number in node.inherit.iter().copied().chain(streams) {
            files.take(&format!("plan, node {}", node.name), number)?;
        }
    }
    for number in &plan.log_fds {
        files.take("plan, log_fds", *number)?;
    }
    Ok(Boot { plan, files, control, arena, host, command })
}

impl Boot {
    /// The host's pidfd.
    pub(crate) fn host(&self) -> Result<BorrowedFd<'_>, Refused> {
        self.required(ENV_HOST_PIDFD, self.host)
    }

    /// The command socket.
    pub(crate) fn command(&self) -> Result<BorrowedFd<'_>, Refused> {
        self.required(ENV_COMMAND_FD, self.command)
    }

    /// Control segment and arena.
    pub(crate) fn group(&self) -> Result<(BorrowedFd<'_>, BorrowedFd<'_>), Refused> {
        let control = self.required(ENV_CONTROL_FD, self.control)?;
        Ok((control, self.required(ENV_ARENA_FD, self.arena)?))
    }

    fn required(&self, name: &'static str, number: i32) -> Result<BorrowedFd<'_>, Refused> {
        let file = self.files.get(number);
        file.map(AsFd::as_fd).ok_or(Refused::Environment(name, Some(number.to_string())))
    }
}

/// Decodes and checks what can be checked without the group.
fn parse(bytes: &[u8]) -> Result<SupervisorPlan, Refused> {
    let plan: SupervisorPlan =
        serde_json::from_slice(bytes).map_err(|error| Refused::Plan(error.to_string()))?;
    if plan.version != SupervisorPlan::VERSION {
        let (found, expected) = (plan.version, SupervisorPlan::VERSION);
        let what =
            format!("found version {found}, expected {expected}: host and supervisor differ");
        return Err(Refused::Plan(what));
    }
    for (index, node) in plan.nodes.iter().enumerate() {
        check(node, plan.nodes.get(..index).unwrap_or_default())
            .map_err(|what| Refused::Node(node.name.clone(), what))?;
    }
    Ok(plan)
}

fn check(node: &NodePlan, before: &[NodePlan]) -> Result<(), String> {
    for (index, slot) in node.slots().enumerate() {
        if slot == 0 {
            return Err("slot 0 is the host's; expected 1 or more".to_owned());
        }
        if node.slots().take(index).any(|other| other == slot) {
            return Err(format!("slot {slot} is named twice"));
        }
        if let Some(other) = before.iter().find(|other| other.slots().any(|other| other == slot)) {
            return Err(format!("slot {slot} is also that of node {}", other.name));
        }
    }
    if node.program.is_empty() {
        return Err("no program".to_owned());
    }
    Ok(())
}

/// Checks the slots against a group of `slots`.
pub(crate) fn check_slots(plan: &SupervisorPlan, slots: u32) -> Result<(), Refused> {
    let outside = |node: &NodePlan| node.slots().find(|slot| *slot >= slots);
    let found = plan.nodes.iter().find_map(|node| Some((node, outside(node)?)));
    found.map_or(Ok(()), |(node, slot)| {
        let what = format!("slot {slot}, but the group has {slots}");
        Err(Refused::Node(node.name.clone(), what))
    })
}

#[cfg(test)]
mod tests {
    use super::{SupervisorPlan, check_slots, parse};

    const NODE: &str = r#"{"slot":1,"name":"a","program":"/bin/sh","args":[],"env":[],
        "inherit":[],"stdout_fd":1,"stderr_fd":2,"restart":{"when":"on-failure","max":1,
        "backoff_ms":1,"backoff_max_ms":1,"window_ms":1},"init_timeout_ms":0,"stall_ms":0,
        "cpu":null}"#;

    fn plan(version: u32, nodes: &str) -> String {
        format!(
            r#"{{"version":{version},"flow":"f","nodes":[{nodes}],"lock_stall_ms":1,
            "namespace":false,"log_keep_bytes":1,"log_fds":[]}}"#
        )
    }

    fn refusal(text: &str) -> String {
        parse(text.as_bytes()).expect_err("refused").to_string()
    }

    #[test]
    fn a_good_plan_passes() {
        let plan = parse(plan(SupervisorPlan::VERSION, NODE).as_bytes()).expect("plan");
        assert_eq!((plan.nodes.len(), plan.sabotage), (1, 0));
        check_slots(&plan, 2).expect("slots");
        let text = check_slots(&plan, 1).expect_err("outside").to_string();
        assert_eq!(text, "plan, node a: slot 1, but the group has 1");
    }

    #[test]
    fn impossible_plans_are_refused_with_what_is_wrong() {
        assert!(refusal("{").contains("plan in DFLOW_PLAN_FD: EOF"));
        assert!(refusal(&plan(9, "")).contains("found version 9, expected 2"));
        assert!(
            refusal(&plan(SupervisorPlan::VERSION, &format!("{NODE},{NODE}")))
                .contains("also that of node a")
        );
        let twice = |slot: u32| {
            let also = format!(r#""cpu":null,"also":[{{"slot":{slot},"name":"m"}}]"#);
            NODE.replace(r#""cpu":null"#, &also)
        };
        assert!(
            refusal(&plan(SupervisorPlan::VERSION, &twice(1))).contains("slot 1 is named twice")
        );
        assert!(
            refusal(&plan(SupervisorPlan::VERSION, &twice(0))).contains("slot 0 is the host's")
        );
        let second = twice(2).replace(r#""slot":1,"#, r#""slot":3,"#);
        let both = plan(SupervisorPlan::VERSION, &format!("{},{second}", twice(2)));
        assert!(refusal(&both).contains("slot 2 is also that of node a"));
        let outside = parse(plan(SupervisorPlan::VERSION, &twice(7)).as_bytes()).expect("plan");
        let text = check_slots(&outside, 2).expect_err("outside").to_string();
        assert_eq!(text, "plan, node a: slot 7, but the group has 2");
        let zero = NODE.replace("\"slot\":1", "\"slot\":0");
        assert!(refusal(&plan(SupervisorPlan::VERSION, &zero)).contains("slot 0 is the host's"));
        assert!(
            refusal(&plan(SupervisorPlan::VERSION, &NODE.replace("/bin/sh", "")))
                .contains("no program")
        );
        assert!(
            refusal(&plan(SupervisorPlan::VERSION, &NODE.replace("stall_ms", "stal_ms")))
                .contains("stal_ms")
        );
    }
}
