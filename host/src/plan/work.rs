//! What runs in a slot: a function, a model, or a device with its models.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{ExecutorPlan, SlotId};
use crate::graph::{Priority, TensorDesc};
use crate::model::Program;

/// What runs in a slot.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Work {
    /// A user function in a process of its own.
    #[default]
    Function,
    /// A model in the process of its device.
    Model(ModelPlan),
    /// A device: one process for all its models.
    Device(DevicePlan),
}

impl Work {
    /// Whether it is a function.
    #[must_use]
    pub fn is_function(&self) -> bool {
        *self == Self::Function
    }

    /// Slots of a device's models; empty for others.
    #[must_use]
    pub fn models(&self) -> &[SlotId] {
        match self {
            Self::Device(device) => &device.models,
            _ => &[],
        }
    }
}

fn one() -> u32 {
    1
}

/// One instance of a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelPlan {
    /// ONNX, TensorFlow or OM file (relative to the working directory, or absolute).
    pub path: PathBuf,
    /// What its inputs are bound to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inputs_tensor_desc: Vec<TensorDesc>,
    /// Number of the device.
    pub device: u32,
    /// Cores that it says its device has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cores: Option<u32>,
    /// Which model of a device computes next.
    #[serde(default)]
    pub priority: Priority,
    /// Threads that it asks its device for.
    #[serde(default = "one")]
    pub threads: u32,
    /// Bytes of working memory: intermediate results of a run, in the device's process.
    #[serde(default)]
    pub arena_bytes: u64,
    /// Bytes of the program with its weights, which the device's process maps.
    #[serde(default)]
    pub program_bytes: u64,
    /// The program; a plan that was stored has none, and the deployer makes it again.
    #[serde(skip)]
    pub program: Option<Program>,
}

/// One device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DevicePlan {
    /// Its number.
    pub device: u32,
    /// Models that compute at once; `None`: as many as the process may use processors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cores: Option<u32>,
    /// Threads that compute a run together, the model's own among them.
    #[serde(default = "one")]
    pub threads: u32,
    /// Slots of its models.
    pub models: Vec<SlotId>,
}

impl ExecutorPlan {
    /// Whether it is a process: a model is a part of its device's.
    #[must_use]
    pub fn is_process(&self) -> bool {
        !matches!(self.work, Work::Model(_))
    }
}
