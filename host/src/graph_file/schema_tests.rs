//! The committed JSON schema against the serde model: same keys, same words, same examples.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::fault::FaultKind;
use super::reader::Reader;
use super::tree::Tree;
use super::{SCHEMA, from_json};
use crate::graph::{
    Align, AlignTime, AttrValue, DType, FlowGraph, FlowNode, Forwarding, GraphInput, GraphOutput,
    NodeInput, NodeOutput, Priority, QueuePolicy, Restart, RestartPolicy, SessionSettings,
    TensorDesc, WritableInputs,
};

fn schema() -> Value {
    serde_json::from_str(SCHEMA).unwrap()
}

/// The keys the model knows: what it says when it meets one it does not know.
fn keys<T: DeserializeOwned>() -> Vec<&'static str> {
    let tree = Tree::Map(vec![("?".to_owned(), Tree::Null)]);
    let mut known = match T::deserialize(Reader(&tree)).err().map(|fault| fault.kind) {
        Some(FaultKind::UnknownKey { known, .. }) => known.to_vec(),
        other => panic!("{other:?}"),
    };
    known.sort_unstable();
    known
}

fn words<'de, T: Deserialize<'de>>() -> Vec<&'static str> {
    let text = Box::leak(Box::new(Tree::Text("?".to_owned())));
    match T::deserialize(Reader(text)).err().map(|fault| fault.kind) {
        Some(FaultKind::UnknownWord { known, .. }) => known.to_vec(),
        other => panic!("{other:?}"),
    }
}

fn properties(schema: &Value) -> Vec<&str> {
    assert_eq!(schema["additionalProperties"], false);
    let mut keys: Vec<_> = schema["properties"].as_object().unwrap().keys().collect();
    keys.sort_unstable();
    keys.into_iter().map(String::as_str).collect()
}

#[test]
fn every_object_has_the_keys_of_the_model() {
    let schema = schema();
    let defs = &schema["$defs"];
    assert_eq!(properties(&schema), keys::<FlowGraph>());
    assert_eq!(properties(&defs["input"]), keys::<GraphInput>());
    assert_eq!(properties(&defs["output_fields"]), keys::<GraphOutput>());
    assert_eq!(properties(&defs["node"]), keys::<FlowNode>());
    assert_eq!(properties(&defs["node_input_fields"]), keys::<NodeInput>());
    assert_eq!(properties(&defs["node_output"]), keys::<NodeOutput>());
    assert_eq!(properties(&defs["tensor_desc"]), keys::<TensorDesc>());
    assert_eq!(properties(&defs["restart"]), keys::<Restart>());
    assert_eq!(properties(&defs["align"]), keys::<Align>());
    assert_eq!(properties(&defs["align_time"]), keys::<AlignTime>());
    assert_eq!(properties(&defs["priority"]), keys::<Priority>());
    assert_eq!(properties(&defs["session"]), keys::<SessionSettings>());
    let of_attr = [properties(&defs["attr_dtype"]), properties(&defs["attr_file"])].concat();
    assert_eq!(of_attr, keys::<AttrValue>());
}

#[test]
fn every_choice_has_the_words_of_the_model() {
    let schema = schema();
    let choice = |path: &str| schema.pointer(path).unwrap()["enum"].clone();
    assert_eq!(choice("/$defs/dtype"), Value::from(words::<DType>()));
    let policy = choice("/$defs/node_input_fields/properties/policy");
    assert_eq!(policy, Value::from(words::<QueuePolicy>()));
    let restart = choice("/$defs/restart/properties/policy");
    assert_eq!(restart, Value::from(words::<RestartPolicy>()));
    let inputs = choice("/$defs/node/properties/writable_inputs");
    assert_eq!(inputs, Value::from(words::<WritableInputs>()));
    let forwarding = choice("/$defs/node/properties/forwarding");
    assert_eq!(forwarding, Value::from(words::<Forwarding>()));
}

#[test]
fn defaults_are_the_models() {
    let schema = schema();
    let text = r#"{"name": "g",
        "inputs": {"i": {"dtype": "uint8", "shape": [1]}},
        "nodes": {"n": {"library": "l", "function": "f", "outputs": {}, "inputs": ["i"]}},
        "outputs": {"o": {"from": "n.x"}}}"#;
    let graph = serde_json::to_value(from_json(text, "g.json").unwrap()).unwrap();
    let check = |def: &str, value: &Value| {
        let properties = schema.pointer(def).unwrap()["properties"].as_object().unwrap();
        for (key, property) in properties {
            let (Some(default), Some(value)) = (property.get("default"), value.get(key)) else {
                continue;
            };
            assert_eq!(default, value, "{def} {key}");
        }
    };
    check("/$defs/input", &graph["inputs"]["i"]);
    check("/$defs/node", &graph["nodes"]["n"]);
    check("/$defs/restart", &graph["nodes"]["n"]["restart"]);
    check("/$defs/session", &graph["session"]);
}

#[test]
fn the_example_follows_the_schema() {
    let text = include_str!("../../../examples/graphs/pages.yaml");
    let value: Value = serde_saphyr::from_str(text).unwrap();
    let root = schema();
    follow(&root, &root, &value, "").unwrap();
    let mut broken = value.clone();
    broken["nodes"]["decode"]["instances"] = 33.into();
    assert!(follow(&root, &root, &broken, "").is_err());
    let mut broken = value;
    broken["nodes"]["decode"]["instance"] = 1.into();
    assert!(follow(&root, &root, &broken, "").is_err());
}

/// The part of JSON schema that the file uses, without patterns.
fn follow(root: &Value, schema: &Value, value: &Value, path: &str) -> Result<(), String> {
    let fail = |what: &str| Err(format!("{path}: {what}: {value}"));
    if let Some(name) = schema["$ref"].as_str() {
        let target = root.pointer(name.strip_prefix('#').unwrap()).unwrap();
        return follow(root, target, value, path);
    }
    if let Some(choices) = schema["oneOf"].as_array() {
        let fits = choices.iter().filter(|one| follow(root, one, value, path).is_ok()).count();
        return if fits == 1 { Ok(()) } else { fail("fits not exactly one") };
    }
    let kinds = match &schema["type"] {
        Value::Array(kinds) => kinds.clone(),
        Value::Null => Vec::new(),
        kind => vec![kind.clone()],
    };
    if !kinds.is_empty() && !kinds.iter().any(|kind| is_kind(kind.as_str().unwrap(), value)) {
        return fail("type");
    }
    if schema["enum"].as_array().is_some_and(|words| !words.contains(value)) {
        return fail("enum");
    }
    let beyond = |key: &str| schema[key].as_i64().zip(value.as_i64());
    if beyond("minimum").is_some_and(|(least, value)| value < least)
        || beyond("maximum").is_some_and(|(most, value)| value > most)
    {
        return fail("range");
    }
    for item in value.as_array().into_iter().flatten() {
        follow(root, &schema["items"], item, path)?;
    }
    for key in schema["required"].as_array().into_iter().flatten() {
        if value.get(key.as_str().unwrap()).is_none() {
            return fail("required key");
        }
    }
    for (key, item) in value.as_object().into_iter().flatten() {
        let path = format!("{path}.{key}");
        match schema["properties"].get(key) {
            Some(property) => follow(root, property, item, &path)?,
            None if schema["additionalProperties"] == false => return fail("unknown key"),
            None => follow(root, &schema["additionalProperties"], item, &path)?,
        }
    }
    Ok(())
}

fn is_kind(kind: &str, value: &Value) -> bool {
    match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "null" => value.is_null(),
        other => panic!("{other}"),
    }
}
