//! What an input of a model is bound to.

use serde::{Deserialize, Serialize};

use super::{DType, Shape};

/// Element type and shape of one input of a model; it gives dims that the model leaves open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TensorDesc {
    /// Name of the input; without it the place in the list counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Element type, which must be the model's.
    pub dtype: DType,
    /// Shape, without open dimensions.
    pub shape: Shape,
}
