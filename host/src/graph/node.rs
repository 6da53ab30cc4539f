//! A node: a user function in processes of its own, or a model on a device.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use serde::de::{Deserializer, Error, SeqAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};

use super::named::named_or_indexed;
use super::{AttrValue, DType, Named, NodeInput, NodeOutput, Shape, TensorDesc, is_default};

/// When the supervisor starts an instance again after it has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RestartPolicy {
    /// Not at all: the node has failed and open ids are answered.
    Never,
    /// After a failure: any end that nobody asked for, exit code 0 included.
    #[default]
    OnFailure,
    /// After any end that nobody asked for; today the same as `on-failure`.
    Always,
}

/// Restart policy of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Restart {
    /// When to start again.
    pub policy: RestartPolicy,
    /// Restarts of one instance before the node counts as failed. Default 5.
    pub max: u32,
    /// Base of the growing pause between restarts of one instance, milliseconds. Default 10.
    pub backoff_ms: u32,
}

impl Default for Restart {
    fn default() -> Self {
        Self { policy: RestartPolicy::default(), max: 5, backoff_ms: 10 }
    }
}

/// How urgent a model is when it waits for a core of its device: 0 is first, 2 and unset are last.
/// The process's priority counts first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Priority {
    /// `_eschedProcessPriority` of the load request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<u32>,
    /// `_eschedEventPriority` of the load request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event: Option<u32>,
}

/// How inputs are put together by id (and data_label) instead of by position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Align {
    /// Ids that may wait for the rest of their inputs, 1 to 1024. Beyond it the lowest is given up.
    pub max_cache: u32,
    /// How long one may wait, 1 to 600000 milliseconds. Default: for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u32>,
    /// Whether an id that is given up is answered with a code. Otherwise a function is called with
    /// empty messages, which have a code, for what did not come; a model never runs without one.
    #[serde(default, skip_serializing_if = "is_default")]
    pub drop: bool,
}

/// How inputs are put together by time instead of by position: messages whose `start_time`, which
/// is their `end_time`, too, are near each other. The first input's message names the set: its id
/// is that of the outputs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AlignTime {
    /// How far the times of a set may be apart, less their offsets, in the unit of the times.
    /// Beyond it the oldest message leaves: of the first input with a code, of another one it is
    /// dropped and counted.
    pub interval: u64,
    /// What the times of each input are less by, in the order of the inputs. Default: 0.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub offsets: Vec<u64>,
    /// How long a message of the first input may wait for the others, 1 to 600000 milliseconds;
    /// then its id is answered with a code. Default: for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u32>,
}

/// What a function may do to its input messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WritableInputs {
    /// Inputs are shared and read-only; a write ends as a code that names function and input.
    #[default]
    Share,
    /// Each input is copied into the node's own partition first and may be written.
    Copy,
}

/// What becomes of an input message that a function sets as an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Forwarding {
    /// It is sent on as it is: no copy, but the partition of whoever wrote it needs a block for
    /// each place behind this node, too.
    #[default]
    Share,
    /// It is copied into the node's own partition first. For a function that makes its outputs
    /// itself: nothing is copied then, and blocks upstream are not counted beyond this node.
    Copy,
}

/// A user function or a model, its ports and how it is run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct FlowNode {
    /// Library file, relative to the graph file's folder (or the working directory without one).
    #[serde(default = "absent_path", skip_serializing_if = "is_default")]
    pub library: PathBuf,
    /// Folder of a C++ project (with a CMakeLists.txt, relative to the graph file's folder) that
    /// is built into `library`, which is then a file name `lib….so`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<PathBuf>,
    /// Name of the function in the library.
    #[serde(default = "absent_text", skip_serializing_if = "is_default")]
    pub function: String,
    /// Model instead of a function: an ONNX file or a frozen TensorFlow graph, which is compiled,
    /// or a compiled one (OM); relative to the graph file's folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<PathBuf>,
    /// What the model's inputs are bound to; needed where the model leaves dims open.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inputs_tensor_desc: Vec<TensorDesc>,
    /// Device that runs the model. All models of a device share one process. Default 0.
    #[serde(default, skip_serializing_if = "is_default")]
    pub device: u32,
    /// Cores of the model's device: so many of its models compute at once. Models of a device that
    /// declare it agree. Default: the processors that the process may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cores: Option<u32>,
    /// Which model of a device computes next when several wait for a core.
    #[serde(default, skip_serializing_if = "is_default")]
    pub priority: Priority,
    /// Threads that compute a run of the model together. The models of a device share as many as
    /// the one with most declares; at most one for each core of the device, and no more than the
    /// processors that the process may use. A run has them while so many cores are free. Default 1.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub threads: u32,
    /// Input ports in the order the function takes them; a list in a file names them `0`, `1`, ….
    /// Those of a model have its inputs' names, or their numbers.
    #[serde(default, deserialize_with = "named_or_indexed")]
    pub inputs: Named<NodeInput>,
    /// Has inputs put together by id, for branches that do not keep one order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub align: Option<Align>,
    /// Has inputs put together by time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub align_time: Option<AlignTime>,
    /// Output ports in the order the function sets them. A model knows its own: what is said here
    /// is compared with them.
    #[serde(default = "absent_outputs")]
    pub outputs: Named<NodeOutput>,
    /// Processes; a message goes to instance (trans_id + route_label) mod N, where the label is 0
    /// unless a function sets it. Default 1, at most 32.
    #[serde(default = "one")]
    pub instances: u32,
    /// What the function reads in init.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub attrs: BTreeMap<String, AttrValue>,
    /// Restart policy.
    #[serde(default)]
    pub restart: Restart,
    /// Whether a successor gets the input its predecessor died with, unless an output of that id
    /// was already sent. Otherwise the id is answered with a code.
    #[serde(default, skip_serializing_if = "is_default")]
    pub redeliver: bool,
    /// Deaths with the same input before it is answered instead of redelivered. Default 2.
    #[serde(default = "two")]
    pub poison_limit: u32,
    /// Whether the function remembers ids beyond Proc; its death then answers all that are open.
    #[serde(default, skip_serializing_if = "is_default")]
    pub stateful: bool,
    /// What the function may do to its inputs.
    #[serde(default, skip_serializing_if = "is_default")]
    pub writable_inputs: WritableInputs,
    /// What becomes of an input that the function sets as an output.
    #[serde(default, skip_serializing_if = "is_default")]
    pub forwarding: Forwarding,
    /// Messages of each input port that the function keeps beyond Proc. Default 0.
    #[serde(default, skip_serializing_if = "is_default")]
    pub holds: u32,
    /// Time without progress after which an instance is killed, milliseconds: one call of its
    /// function, one task of its model, a queue's lock that it holds. Default 2000.
    #[serde(default = "default_stall_ms")]
    pub stall_ms: u32,
    /// Time to load the library and run init, milliseconds. Default 10000.
    #[serde(default = "default_init_timeout_ms")]
    pub init_timeout_ms: u32,
    /// Environment of the processes, on top of what the runtime sets.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Cores to pin to, one an instance; none = not pinned. A file may write one number for one
    /// instance.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "one_or_many")]
    pub cpu: Vec<u32>,
}

fn one() -> u32 {
    1
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde calls it")]
fn is_one(number: &u32) -> bool {
    *number == 1
}

fn two() -> u32 {
    2
}

fn default_stall_ms() -> u32 {
    2000
}

fn default_init_timeout_ms() -> u32 {
    10_000
}

impl FlowNode {
    /// A node for one function of a library, with all settings at their defaults.
    #[must_use]
    pub fn udf(library: impl Into<PathBuf>, function: impl Into<String>) -> Self {
        Self {
            library: library.into(),
            project: None,
            function: function.into(),
            model: None,
            inputs_tensor_desc: Vec::new(),
            device: 0,
            cores: None,
            priority: Priority::default(),
            threads: 1,
            inputs: Named::default(),
            align: None,
            align_time: None,
            outputs: Named::default(),
            instances: one(),
            attrs: BTreeMap::new(),
            restart: Restart::default(),
            redeliver: false,
            poison_limit: two(),
            stateful: false,
            writable_inputs: WritableInputs::default(),
            forwarding: Forwarding::default(),
            holds: 0,
            stall_ms: default_stall_ms(),
            init_timeout_ms: default_init_timeout_ms(),
            env: BTreeMap::new(),
            cpu: Vec::new(),
        }
    }

    /// A node for a model, with all settings at their defaults. Its output ports are the model's.
    #[must_use]
    pub fn model(path: impl Into<PathBuf>) -> Self {
        Self { model: Some(path.into()), ..Self::udf("", "") }
    }

    /// Binds an input of the model.
    #[must_use]
    pub fn tensor_desc(
        mut self,
        name: impl Into<String>,
        dtype: DType,
        shape: impl Into<Shape>,
    ) -> Self {
        let (name, shape) = (Some(name.into()), shape.into());
        self.inputs_tensor_desc.push(TensorDesc { name, dtype, shape });
        self
    }

    /// Sets how many threads compute a run of the model together.
    #[must_use]
    pub fn threads(mut self, threads: u32) -> Self {
        self.threads = threads;
        self
    }

    /// Sets the cores of the model's device.
    #[must_use]
    pub fn cores(mut self, cores: u32) -> Self {
        self.cores = Some(cores);
        self
    }

    /// Sets the model's priorities, 0 (first) to 2: of its process and of its event.
    #[must_use]
    pub fn priority(mut self, process: u32, event: u32) -> Self {
        self.priority = Priority { process: Some(process), event: Some(event) };
        self
    }

    /// Sets the device that runs the model.
    #[must_use]
    pub fn device(mut self, device: u32) -> Self {
        self.device = device;
        self
    }

    /// Has the library built from a C++ project before the deployment.
    #[must_use]
    pub fn project(mut self, folder: impl Into<PathBuf>) -> Self {
        self.project = Some(folder.into());
        self
    }

    /// Adds an input port with its source, or a [`NodeInput`].
    #[must_use]
    pub fn input(mut self, name: impl Into<String>, input: impl Into<NodeInput>) -> Self {
        self.inputs.push(name, input.into());
        self
    }

    /// Adds an output port.
    #[must_use]
    pub fn output(mut self, name: impl Into<String>, output: NodeOutput) -> Self {
        self.outputs.push(name, output);
        self
    }

    /// Sets the number of processes.
    #[must_use]
    pub fn instances(mut self, count: u32) -> Self {
        self.instances = count;
        self
    }

    /// Sets an attribute.
    #[must_use]
    pub fn attr(mut self, name: impl Into<String>, value: impl Into<AttrValue>) -> Self {
        self.attrs.insert(name.into(), value.into());
        self
    }

    /// Sets the restart policy.
    #[must_use]
    pub fn restart(mut self, restart: Restart) -> Self {
        self.restart = restart;
        self
    }

    /// Turns redelivery on, with the number of deaths one input may cause.
    #[must_use]
    pub fn redeliver(mut self, poison_limit: u32) -> Self {
        self.redeliver = true;
        self.poison_limit = poison_limit;
        self
    }

    /// Says that the function remembers ids beyond Proc.
    #[must_use]
    pub fn stateful(mut self) -> Self {
        self.stateful = true;
        self
    }

    /// Sets what the function may do to its inputs.
    #[must_use]
    pub fn writable_inputs(mut self, mode: WritableInputs) -> Self {
        self.writable_inputs = mode;
        self
    }

    /// Sets what becomes of an input that the function sets as an output.
    #[must_use]
    pub fn forwarding(mut self, mode: Forwarding) -> Self {
        self.forwarding = mode;
        self
    }

    /// Has the inputs put together by id.
    #[must_use]
    pub fn align(mut self, align: Align) -> Self {
        self.align = Some(align);
        self
    }

    /// Has the inputs put together by time.
    #[must_use]
    pub fn align_time(mut self, align: AlignTime) -> Self {
        self.align_time = Some(align);
        self
    }

    /// Declares how many messages of each input the function keeps beyond Proc.
    #[must_use]
    pub fn holds(mut self, messages: u32) -> Self {
        self.holds = messages;
        self
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn env(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.insert(key.into(), value.into());
        self
    }

    /// Pins the instances, one core each.
    #[must_use]
    pub fn cpu(mut self, cores: impl Into<Vec<u32>>) -> Self {
        self.cpu = cores.into();
        self
    }
}

/// What stands, while a node is read, for a key that is not there: no file can say it.
const ABSENT: &str = "\0absent";

fn absent_path() -> PathBuf {
    PathBuf::from(ABSENT)
}

fn absent_text() -> String {
    ABSENT.to_owned()
}

fn absent_outputs() -> Named<NodeOutput> {
    let mut outputs = Named::default();
    outputs.push(ABSENT, NodeOutput::new(DType::Uint8, []));
    outputs
}

impl Serialize for FlowNode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Self::serialize(self, serializer)
    }
}

/// A function needs three keys that a model does without.
impl<'de> Deserialize<'de> for FlowNode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut node = Self::deserialize(deserializer)?;
        let missing =
            |key| if node.model.is_none() { Err(D::Error::missing_field(key)) } else { Ok(()) };
        let (library, function) = (node.library == absent_path(), node.function == ABSENT);
        let outputs = node.outputs.get(ABSENT).is_some();
        for (key, absent) in [("library", library), ("function", function), ("outputs", outputs)] {
            if absent {
                missing(key)?;
            }
        }
        if library {
            node.library = PathBuf::new();
        }
        if function {
            node.function = String::new();
        }
        if outputs {
            node.outputs = Named::default();
        }
        Ok(node)
    }
}

fn one_or_many<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u32>, D::Error> {
    struct Cores;
    impl<'de> Visitor<'de> for Cores {
        type Value = Vec<u32>;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a core number or a list of them")
        }
        fn visit_i64<E: Error>(self, core: i64) -> Result<Vec<u32>, E> {
            let refuse = |_| E::invalid_value(serde::de::Unexpected::Signed(core), &self);
            u32::try_from(core).map(|core| vec![core]).map_err(refuse)
        }
        fn visit_u64<E: Error>(self, core: u64) -> Result<Vec<u32>, E> {
            let refuse = |_| E::invalid_value(serde::de::Unexpected::Unsigned(core), &self);
            u32::try_from(core).map(|core| vec![core]).map_err(refuse)
        }
        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<u32>, A::Error> {
            let mut cores = Vec::new();
            while let Some(core) = list.next_element()? {
                cores.push(core);
            }
            Ok(cores)
        }
    }
    deserializer.deserialize_any(Cores)
}
