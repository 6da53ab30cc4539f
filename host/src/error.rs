//! Errors of the host's stages: one enum a stage, one shape of text.
//!
//! Every variant carries a [`Problem`], so a text always names the file, the node, the port, what
//! was found, what was expected and what to do. It is not a place for run-time failures of a
//! deployed flow; those are codes.

use std::fmt;

/// Most characters of a problem with a file that are said.
const FOUND_MAX: usize = 2000;

/// A text that may come from a file, for a terminal: no control characters, and so many characters
/// at most.
pub(crate) fn shown_up_to(most: usize, text: &str) -> String {
    let mut own = String::new();
    for (index, c) in text.chars().enumerate() {
        if index == most {
            own.push('…');
            break;
        }
        if c.is_control() { own.extend(c.escape_default()) } else { own.push(c) }
    }
    own
}

/// What was found in a file, whose names stand in it.
pub(crate) fn found_in_file(text: &str) -> String {
    shown_up_to(FOUND_MAX, text)
}

/// Where a problem is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The graph file, with line and column where one value is wrong; or ``graph `name` `` for a
    /// graph built by API.
    pub file: String,
    /// The node, where one is concerned.
    pub node: Option<String>,
    /// The port or setting, such as ``input `image` ``, where one is concerned.
    pub port: Option<String>,
}

impl Place {
    /// The graph as a whole.
    #[must_use]
    pub fn graph(file: &str) -> Self {
        Self { file: file.to_owned(), node: None, port: None }
    }

    /// The same place, narrowed to a node.
    #[must_use]
    pub fn node(mut self, name: &str) -> Self {
        self.node = Some(name.to_owned());
        self
    }

    /// The same place, narrowed to an input port.
    #[must_use]
    pub fn input(self, name: &str) -> Self {
        self.port(format!("input `{name}`"))
    }

    /// The same place, narrowed to an output port.
    #[must_use]
    pub fn output(self, name: &str) -> Self {
        self.port(format!("output `{name}`"))
    }

    /// The same place, narrowed to a port or setting named in words.
    #[must_use]
    pub fn port(mut self, words: impl Into<String>) -> Self {
        self.port = Some(words.into());
        self
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(node) = &self.node {
            write!(f, ": node `{node}`")?;
        }
        if let Some(port) = &self.port {
            write!(f, ": {port}")?;
        }
        Ok(())
    }
}

/// One thing that is wrong: where, what was found, what was expected, what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Where it is.
    pub place: Place,
    /// What is there.
    pub found: String,
    /// What should be there.
    pub expected: String,
    /// What the user can do.
    pub hint: String,
}

impl Problem {
    /// A boxed problem: variants stay one word wide.
    #[must_use]
    pub fn new(
        place: Place,
        found: impl Into<String>,
        expected: impl Into<String>,
        hint: impl Into<String>,
    ) -> Box<Self> {
        let (found, expected, hint) = (found.into(), expected.into(), hint.into());
        Box::new(Self { place, found, expected, hint })
    }

    fn write(&self, what: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {what}\n  found:    {}", self.place, self.found)?;
        write!(f, "\n  expected: {}\n  to do:    {}", self.expected, self.hint)
    }
}

macro_rules! stage_error {
    ($(#[$doc:meta])* $name:ident { $($(#[$case_doc:meta])* $case:ident => $what:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$case_doc])* $case(Box<Problem>),)*
        }

        impl $name {
            /// Place, found, expected and what to do.
            #[must_use]
            pub fn problem(&self) -> &Problem {
                match self { $(Self::$case(problem) => problem,)* }
            }

            #[allow(dead_code, reason = "not every stage puts errors together")]
            pub(crate) fn problem_mut(&mut self) -> &mut Problem {
                match self { $(Self::$case(problem) => problem,)* }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self { $(Self::$case(problem) => problem.write($what, f),)* }
            }
        }

        impl std::error::Error for $name {}
    };
}

stage_error! {
    /// A graph file that can't be read into a flow graph.
    ReadError {
        /// The file can't be opened or read.
        Io => "can't read the graph file",
        /// The file name ends in something else than `.yaml`, `.yml` or `.json`.
        Format => "unknown kind of graph file",
        /// The text is not YAML or JSON.
        Syntax => "not well-formed",
        /// A key that means nothing here.
        UnknownKey => "unknown key",
        /// A key that has to be there.
        MissingKey => "missing key",
        /// The same key twice.
        DuplicateKey => "duplicate key",
        /// A value of the wrong type, out of range, or not one of the allowed words.
        Value => "wrong value",
    }
}

stage_error! {
    /// A flow graph that is refused before anything is forked.
    CheckError {
        /// A name with characters that are not allowed, or a reserved one.
        Name => "unusable name",
        /// A name that makes a queue name of more than 127 bytes.
        NameLength => "name too long",
        /// Two things of one kind with one name.
        Duplicate => "duplicate name",
        /// Too few or too many ports or nodes.
        PortCount => "port count",
        /// A source that is neither a graph input nor a node's output.
        UnknownSource => "unknown source",
        /// An input or graph output without a source.
        Unconnected => "not connected",
        /// The library is not there or not a file.
        Library => "missing library",
        /// The folder of a C++ project is not there or has no CMakeLists.txt.
        Project => "missing project",
        /// The model of a node can't be read, is not supported, or does not fit the node.
        Model => "model",
        /// A queue depth below 2 or too large.
        Depth => "queue depth",
        /// A number of instances out of range.
        Instances => "instances",
        /// A shape with impossible dimensions.
        BadShape => "impossible shape",
        /// `max_bytes` is missing, or too small for the shape.
        MaxBytes => "message size",
        /// A setting out of range.
        Setting => "setting",
        /// Nodes that wait for each other.
        Cycle => "cycle",
        /// A node or graph input that no graph output depends on.
        DeadEnd => "dead end",
        /// Element types of the two ends of an edge differ.
        DType => "dtype mismatch",
        /// Shapes of the two ends of an edge differ.
        ShapeMismatch => "shape mismatch",
        /// A join whose branches can come in different orders.
        Alignment => "join of reordered branches",
        /// A join with a branch that can lose messages.
        OverwriteJoin => "join behind an overwrite queue",
    }
}

stage_error! {
    /// A checked flow that can't be planned within the limits.
    PlanError {
        /// More executors than a memory group has slots.
        Slots => "too many executors",
        /// One partition is larger than a partition may be.
        Partition => "impossible budget of a partition",
        /// All partitions together are larger than allowed, or they and the models' working memory
        /// and programs than the machine's memory.
        Total => "impossible budget",
        /// One message is larger than a block may be.
        Message => "message too large",
        /// More entries or queue places than a memory group has room for.
        Group => "more than a memory group holds",
        /// One block is larger than any pool of `session.memory` gives out.
        Block => "message larger than the memory settings allow",
        /// `session.memory` does not follow its grammar.
        Memory => "memory settings",
    }
}

stage_error! {
    /// Deploying. No process of the flow is left when it is returned.
    DeployError {
        /// The supervisor's or an executor's program is missing or can't be run.
        Program => "program missing or not usable",
        /// The library of a node with `project` can't be built.
        Build => "a library can't be built",
        /// A model can't be read or compiled.
        Model => "a model can't be compiled",
        /// The memory group can't be made.
        Group => "memory group",
        /// A process did not start or ended before it was ready.
        Start => "start-up failed",
        /// The caller asked to stop before everything was ready.
        Stopped => "start-up stopped",
    }
}

/// Everything that is wrong with a flow graph, as far as one look finds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// At least one.
    pub errors: Vec<CheckError>,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.errors.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{error}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Refused {}

/// Any stage's error, for callers that go through several stages.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// Reading the graph file.
    Read(ReadError),
    /// Checking the graph.
    Check(Refused),
    /// Planning.
    Plan(PlanError),
    /// Deploying.
    Deploy(DeployError),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(error) => error.fmt(f),
            Self::Check(error) => error.fmt(f),
            Self::Plan(error) => error.fmt(f),
            Self::Deploy(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {}

impl From<ReadError> for Error {
    fn from(error: ReadError) -> Self {
        Self::Read(error)
    }
}

impl From<Refused> for Error {
    fn from(error: Refused) -> Self {
        Self::Check(error)
    }
}

impl From<DeployError> for Error {
    fn from(error: DeployError) -> Self {
        Self::Deploy(error)
    }
}

impl From<PlanError> for Error {
    fn from(error: PlanError) -> Self {
        Self::Plan(error)
    }
}

/// The known word closest to `found`, unless it is nothing alike.
#[must_use]
pub fn closest<'a>(found: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let reach = (found.chars().count() / 3).max(2);
    known
        .into_iter()
        .map(|word| (strsim::damerau_levenshtein(found, word), word))
        .filter(|(distance, _)| *distance <= reach)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, word)| word)
}

/// The system's sentence without its `(os error 2)`, and with what to do where one limit explains
/// it.
pub(crate) fn io_text(error: &std::io::Error) -> String {
    let text = error.to_string();
    let text = text.rsplit_once(" (os error ").map_or(text.as_str(), |(text, _)| text);
    match error.raw_os_error().map(sys::errno::Errno::from_raw) {
        Some(sys::errno::Errno::MFILE) => format!("{text} (raise `ulimit -n`)"),
        _ => text.to_owned(),
    }
}

/// What to do about a call that the system refused.
pub(crate) fn system_hint(error: &sys::SysError) -> &'static str {
    use sys::errno::Errno;
    match error.errno {
        Errno::MFILE => "raise the limit of open files (`ulimit -n`)",
        Errno::NFILE => "close files elsewhere: the whole machine's table is full",
        Errno::NOMEM => "free memory, or lower max_bytes, depths or instances (`dflow plan`)",
        Errno::AGAIN => "raise the limit of processes (`ulimit -u`)",
        Errno::FBIG => "raise the limit on file sizes (`ulimit -f`)",
        _ => "raise the limits of open files and processes (`ulimit -a`)",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closest_word_is_alike_or_none() {
        let known = ["depth", "policy", "from"];
        assert_eq!(closest("depht", known), Some("depth"));
        assert_eq!(closest("frm", known), Some("from"));
        assert_eq!(closest("writable_inputs", known), None);
    }

    #[test]
    fn a_text_has_all_six_facts() {
        let place = Place::graph("g.yaml").node("decode").input("file");
        let text = CheckError::Depth(Problem::new(place, "1", "2 or more", "raise it")).to_string();
        for fact in ["g.yaml", "`decode`", "input `file`", "found:    1", "2 or more", "raise it"] {
            assert!(text.contains(fact), "{text}");
        }
    }
}
