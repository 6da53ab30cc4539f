//! Every refusal, from the text of a graph file to the text of the error: file, node, port, found,
//! expected and what to do.
#![deny(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use dflow::{Error, Limits, graph_file};

/// One good graph that the cases break by replacing text.
const GOOD: &str = "
name: g
inputs:
  file: {dtype: uint8, shape: [-1], max_bytes: 1000}
nodes:
  decode:
    library: Cargo.toml
    function: decode
    inputs: {data: file}
    outputs:
      image: {dtype: uint8, shape: [-1, 4], max_bytes: 4000}
  scale:
    library: Cargo.toml
    function: scale
    inputs: {pixels: {from: decode.image, depth: 4}}
    outputs:
      small: {dtype: uint8, shape: [2, 4]}
  join:
    library: Cargo.toml
    function: join
    inputs: {left: decode.image, right: scale.small}
    outputs:
      row: {dtype: float32, shape: [1]}
outputs:
  result: join.row
";

/// Runs all stages.
fn plan(text: &str) -> Result<(), Error> {
    let graph = graph_file::from_yaml(text, "g.yaml")?;
    let mut graph = graph;
    graph.origin = Some("./g.yaml".into());
    graph.check()?.plan(&Limits { machine: Some(1 << 40), ..Limits::default() })?;
    Ok(())
}

/// Replaces text that has to be there, and expects all words in the error.
#[track_caller]
fn refused(old: &str, new: &str, words: &[&str]) {
    assert!(GOOD.contains(old), "{old}");
    let text = GOOD.replacen(old, new, 1);
    let error = plan(&text).expect_err(new).to_string();
    for word in ["g.yaml", "found:", "expected:", "to do:"].iter().chain(words) {
        assert!(error.contains(word), "{word:?} is not in:\n{error}");
    }
    no_internals(&error);
}

/// Words of Rust, serde and the parsers mean nothing to the author of a graph.
#[track_caller]
fn no_internals(error: &str) {
    let internals = [
        "unit value",
        "struct ",
        "sequence",
        "DuplicateKeyPolicy",
        "from_str",
        "budget breached",
        "invalid type",
        "invalid value",
        "u32",
        "u64",
        "i64",
        "`0`: a string",
        "a string",
        "os error",
        "deserialize",
        "visitor",
        "variant",
        "data did not match",
        "untagged",
        "newtype",
    ];
    for word in internals {
        assert!(!error.contains(word), "{word:?} is in:\n{error}");
    }
}

/// What is replaced, by what, and words of the error.
type Case = (&'static str, &'static str, &'static [&'static str]);

#[track_caller]
fn all_refused(cases: &[Case]) {
    for (old, new, words) in cases {
        refused(old, new, words);
    }
}

#[test]
fn the_good_graph_is_good() {
    plan(GOOD).unwrap();
}

const READ: &[Case] = &[
    ("depth: 4", "depht: 4", &["`scale`", "input `pixels`", "`depht`", "write `depth`"]),
    ("function: scale", "funktion: scale", &["`scale`", "`funktion`", "`function` is the"]),
    ("    function: scale\n", "", &["missing key", "`scale`", "no `function`"]),
    ("name: g", "nam: g", &["unknown key", "`nam`", "`name`"]),
    (
        "uint8, shape: [-1], max",
        "uint9, shape: [-1], max",
        &["graph input `file`", "`uint9`", "`uint8`", "as `dtype`"],
    ),
    (
        "depth: 4",
        "depth: deep",
        &["`scale`", "input `pixels`", "\"deep\"", "as `depth`: a whole number from 0"],
    ),
    ("depth: 4", "depth: -4", &["the number `-4`", "a whole number from 0 to 4294967295"]),
    ("depth: 4", "policy: newest", &["`newest`", "fifo, overwrite"]),
    ("depth: 4", "depth: 4, depth: 5", &["duplicate key", "depth"]),
    ("  scale:", "  decode:", &["duplicate key", "decode"]),
    (
        "[-1, 4]",
        "[-1, x]",
        &["`decode`", "output `image`", "as `shape`, item 2: a whole number", "\"x\""],
    ),
    ("name: g", "name: [g", &["not well-formed", "YAML", "line"]),
    (
        "function: join",
        "function: join\n    attrs: {a: [1, x]}",
        &["`join`", "as `attrs.a`: a list of one kind"],
    ),
    (
        "function: join",
        "function: join\n    restart: {maximum: 3}",
        &["`join`", "`maximum`", "policy, max, backoff_ms"],
    ),
    ("function: join", "function: join\n    max_open: 3", &["`join`", "unknown key"]),
];

#[test]
fn read_errors() {
    all_refused(READ);
}

#[test]
fn values_that_are_refused_have_line_and_column() {
    for (old, new, place) in [
        ("depth: 4", "depth: deep", "g.yaml, line 15, column 50: node `scale`: input `pixels`"),
        ("depth: 4", "depht: 4", "g.yaml, line 15, column 50: node `scale`: input `pixels`"),
        ("name: g", "name: [1]", "g.yaml, line 2, column 7: wrong value"),
        ("    function: scale\n", "", "g.yaml, line 13, column 5: node `scale`: missing key"),
        ("[-1, 4]", "[-1, x]", "g.yaml, line 11, column 41: node `decode`: output `image`"),
        ("  scale:", "  decode:", "g.yaml, line 12, column 3: duplicate key"),
    ] {
        refused(old, new, &[place]);
    }
}

/// Kinds of values: what is a list and should be a map, and so on.
const KINDS: &[Case] = &[
    (
        "file: {dtype: uint8, shape: [-1], max_bytes: 1000}",
        "file: [uint8, [-1], 1000]",
        &[
            "graph input `file`",
            "a list",
            "a map with the keys: dtype, shape",
            "`key: value` pairs",
        ],
    ),
    (
        "image: {dtype: uint8, shape: [-1, 4], max_bytes: 4000}",
        "image: [uint8, [-1, 4], 4000]",
        &["node `decode`: output `image`", "as this output: a map with the keys: dtype"],
    ),
    ("function: join", "function: join\n    restart: [never, 3, 1]", &["`restart`", "a list"]),
    ("name: g", "name: g\nsession: [4]", &["as `session`", "a list", "max_open, deadline_ms"]),
    (
        "name: g",
        "name: g\nsession:",
        &["as `session`", "nothing (an empty value)", "remove the key"],
    ),
    (
        "    inputs: {pixels: {from: decode.image, depth: 4}}",
        "    inputs: {pixels: [decode.image, 4]}",
        &[
            "node `scale`: input `pixels`",
            "a list",
            "as this input: a source such as `node.output`",
        ],
    ),
    (
        "inputs: {data: file}",
        "inputs: [5]",
        &["`decode`: input `0`", "the number `5`", "as this input"],
    ),
    ("inputs: {data: file}", "inputs: 5", &["`decode`", "as `inputs`", "the number `5`"]),
    ("outputs:\n  result: join.row", "outputs: [join.row]", &["as `outputs`: a map", "a list"]),
    ("result: join.row", "result: [join.row]", &["as this graph output", "a list"]),
    ("function: join", "function: join\n    env: [a]", &["`join`", "as `env`", "a list"]),
    (
        "function: join",
        "function: join\n    instances: many",
        &["as `instances`", "a number, without"],
    ),
    ("function: join", "function: join\n    instances: '2'", &["the text \"2\"", "without quotes"]),
    (
        "function: join",
        "function: join\n    instances: 1.5",
        &["the number `1.5`", "a whole number"],
    ),
    ("function: join", "function: join\n    stateful: 1", &["as `stateful`: true or false"]),
    ("function: join", "function: join\n    stateful: ok", &["without quotes", "true or false"]),
    ("function: join", "function: join\n    cpu: [0, -1]", &["as `cpu`, item 2", "`-1`"]),
    ("function: join", "function: join\n    cpu: zero", &["as `cpu`: a core number or a list"]),
    ("function: join", "function: 7", &["as `function`: a text", "looks like a number in quotes"]),
    ("function: join", "function: ", &["as `function`: a text", "an empty one is \"\""]),
    ("function: join", "function: join\n    env: {A: 1}", &["as `env.A`: a text", "in quotes"]),
    ("function: join", "function: join\n    attrs: {a: }", &["as `attrs.a`", "nothing (an empty"]),
    ("function: join", "function: join\n    attrs: {a: {x: 1}}", &["unknown key", "`x`", "dtype"]),
    ("function: join", "function: join\n    attrs: {a: {file: 1}}", &["as `attrs.a.file`"]),
    (
        "function: join",
        "function: join\n    attrs: {a: {file: x, dtype: int8}}",
        &["`dtype`", "file"],
    ),
    (
        "function: join",
        "function: join\n    inputs_tensor_desc: [{name: y, dtype: int8, shape: [1]}]",
        &["as `inputs_tensor_desc`, item 1, `name`: a text", "reads y, n, yes"],
    ),
    ("depth: 4", "policy: 1", &["as `policy`: one of: fifo, overwrite", "the number `1`"]),
    ("depth: 4", "depth: 99999999999", &["as `depth`", "`99999999999`", "to 4294967295"]),
];

#[test]
fn kinds_of_values() {
    all_refused(KINDS);
}

#[test]
fn yaml_truth_values_where_a_text_is_meant_are_explained() {
    for word in ["yes", "no", "on", "off", "true", "False"] {
        for (old, new, key) in [
            ("name: g", format!("name: {word}"), "as `name`: a text"),
            ("function: join", format!("function: {word}"), "as `function`: a text"),
            (
                "function: join",
                format!("function: join\n    env: {{A: {word}}}"),
                "as `env.A`: a text",
            ),
            ("data: file", format!("data: {word}"), "as this input: a source"),
            ("depth: 4", format!("policy: {word}"), "as `policy`: one of"),
        ] {
            refused(old, &new, &[key, "a truth value", "in quotes", "yes, no, on, off"]);
        }
        let quoted = GOOD.replace("name: g", &format!("name: '{word}'"));
        plan(&quoted).unwrap();
    }
}

/// Text that is no YAML or no JSON, and what is not there.
#[test]
fn syntax_errors_name_line_and_column() {
    let deep = format!("name: {}1{}", "[".repeat(5_000), "]".repeat(5_000));
    let aliases = "a: &a [1,1,1,1,1,1,1,1,1,1]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\n\
                   c: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\n\
                   e: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: [*e,*e,*e,*e,*e,*e,*e,*e,*e,*e]\n";
    for (text, words) in [
        ("name: g\nname: h\n", &["duplicate key", "line 2, column 1", "`name` twice"][..]),
        ("name: g\n--- \nname: h\n", &["line", "a second document", "one document in a file"]),
        ("name: [g\n", &["not well-formed", "line"]),
        ("name: *x\n", &["line 1, column 7"]),
        ("name: 99999999999999999999\n", &["as `name`: a text", "the number"]),
        ("name: g\ninputs: {n: .inf}\n", &["line 2, column 13", "`.inf`", "a finite number"]),
        ("name: {? [a] : b}\n", &["line 1"]),
        ("", &["g.yaml"]),
        ("- name\n", &["as the whole file: a map with the keys: name", "a list"]),
        ("just text\n", &["as the whole file", "the text \"just text\""]),
        (&deep, &["line 1"]),
        (aliases, &["more depth, aliases or values"]),
    ] {
        let error = graph_file::from_yaml(text, "g.yaml").unwrap_err().to_string();
        for word in ["g.yaml", "found:", "expected:", "to do:"].iter().chain(words) {
            assert!(error.contains(word), "{word:?} is not in:\n{error}\nof:\n{text:.80}");
        }
        no_internals(&error);
    }
    let deep = format!("{}1{}", "[".repeat(5_000), "]".repeat(5_000));
    for (text, words) in [
        ("{\"name\": \"g\",\n \"name\": \"h\"}", &["duplicate key", "line 2", "`name` twice"][..]),
        ("{\"name\": ", &["line 1, column 9", "an early end"]),
        ("{\"name\": g}", &["line 1, column 10", "expected value"]),
        ("{\"name\": 18446744073709551615}", &["18446744073709551615", "2^63 - 1"]),
        ("[]", &["as the whole file: a map with the keys: name", "a list"]),
        (
            "{\"name\": \"g\", \"inputs\": {\"f\": [\"uint8\", [1]]}}",
            &["graph input `f`", "a list"],
        ),
        ("{\"name\": null}", &["as `name`: a text", "nothing"]),
        ("", &["an early end"]),
        (&deep, &["more depth"]),
    ] {
        let error = graph_file::from_json(text, "g.json").unwrap_err().to_string();
        for word in ["g.json", "found:", "expected:", "to do:"].iter().chain(words) {
            assert!(error.contains(word), "{word:?} is not in:\n{error}");
        }
        no_internals(&error);
    }
}

const NAMES: &[Case] = &[
    ("name: g", "name: 'a b'", &["unusable name", "`a b`", "letters, digits"]),
    ("  result:", "  re.sult:", &["unusable name", "graph output `re.sult`"]),
    ("  scale:", "  host:", &["node `host`", "the session's own"]),
    ("    inputs: {data: file}\n", "", &["port count", "`decode`", "0 inputs", "1 to 32"]),
    (
        "    outputs:\n      row: {dtype: float32, shape: [1]}",
        "    outputs: {}",
        &["port count", "`join`", "0 outputs"],
    ),
    ("  result: join.row", "  {}", &["port count", "0 graph outputs"]),
    (
        "  file: {",
        "  decode: {",
        &["duplicate name", "graph input `decode`", "a node is named `decode` too"],
    ),
    ("function: join", "function: ''", &["`join`", "`function`", "a function name"]),
    ("name: g", "name: ''", &["unusable name", "1 to 128 letters"]),
    ("name: g", "name: \"a\\0b\"", &["unusable name", "`a\\0b`"]),
    ("  scale:", "  \"sc\\0ale\":", &["unusable name", "node `sc\\0ale`"]),
    ("function: join", "function: \"jo\\0in\"", &["`join`", "`function`"]),
    (
        "function: join",
        "function: join\n    env: {A: \"a\\0b\"}",
        &["`join`", "env.A", "zero byte"],
    ),
    ("function: join", "function: join\n    env: {\"A\\0\": b}", &["`join`", "`A\\0`"]),
    (
        "function: join",
        "function: join\n    attrs: {a: \"\\0\"}",
        &["`join`", "attrs.a", "zero byte"],
    ),
    ("function: join", "function: join\n    attrs: {a: [x, \"\\0\"]}", &["attrs.a", "zero byte"]),
    (
        "function: join",
        "function: join\n    attrs: {a: {file: \"\\0\"}}",
        &["attrs.a", "zero byte"],
    ),
    ("library: Cargo.toml", "library: \"Cargo\\0.toml\"", &["`decode`", "`library`", "zero bytes"]),
    ("library: Cargo.toml", "library: ''", &["`decode`", "`library`"]),
];

#[test]
fn names_and_counts() {
    all_refused(NAMES);
    let long = "s".repeat(125);
    refused(
        "  scale:",
        &format!("  {long}:"),
        &["name too long", &long, "132 bytes", "at most 127"],
    );
    let (longest, long) = ("n".repeat(128), "n".repeat(129));
    plan(&GOOD.replace("name: g", &format!("name: {longest}"))).unwrap();
    refused("name: g", &format!("name: {long}"), &["name too long", "129 bytes", "1 to 128 bytes"]);
    refused("  scale:", &format!("  {long}:"), &["node `nnn", "129 bytes", "1 to 128 bytes"]);
    refused("  file: {", &format!("  {long}: {{"), &["graph input `nnn", "1 to 128 bytes"]);
    let ports: Vec<_> = (0..33).map(|port| format!("p{port}: file")).collect();
    let new = format!("inputs: {{{}}}", ports.join(", "));
    refused("inputs: {data: file}", &new, &["`decode`", "33 inputs", "1 to 32 inputs"]);
}

const CONNECTIONS: &[Case] = &[
    (
        "data: file",
        "data: fil",
        &["unknown source", "`decode`", "input `data`", "`fil`", "write `file`"],
    ),
    (
        "from: decode.image",
        "from: decod.image",
        &["`scale`", "input `pixels`", "`decod.image`", "write `decode`"],
    ),
    ("from: decode.image", "from: decode.imag", &["the outputs of `decode`: image"]),
    ("from: decode.image", "from: decode", &["`scale`", "an output of the node: `decode.image`"]),
    ("from: decode.image, depth: 4", "depth: 4", &["not connected", "`scale`", "input `pixels`"]),
    ("left: decode.image", "left: ", &["not connected", "`join`", "input `left`"]),
    ("result: join.row", "result: file", &["graph output `result`", "`file`", "`node.output`"]),
    ("result: join.row", "result: join.rows", &["graph output `result`", "write `row`"]),
    (
        "data: file",
        "data: join.row",
        &["cycle", "decode", "join", "->", "without cycles", "input `data`"],
    ),
    ("result: join.row", "result: scale.small", &["dead end", "`join`", "outputs row"]),
    (
        "  file: {",
        "  spare: {dtype: int8, shape: []}\n  file: {",
        &["dead end", "graph input `spare`"],
    ),
    ("library: Cargo.toml", "library: nothing.so", &["missing library", "`decode`", "nothing.so"]),
    (
        "library: Cargo.toml",
        "library: libx.so\n    project: src",
        &["missing project", "`decode`", "`project`", "src/CMakeLists.txt"],
    ),
    (
        "library: Cargo.toml",
        "library: src/libx.so\n    project: src",
        &["`decode`", "`library`", "`lib<name>.so` without a folder"],
    ),
    (
        "library: Cargo.toml",
        "library: libx.so\n    project: ''",
        &["`decode`", "`project`", "a path without zero bytes"],
    ),
    ("library: Cargo.toml", "library: src", &["missing library", "src is not a file"]),
    (
        "function: join",
        "function: join\n    attrs: {words: {file: words.txt}}",
        &["`join`", "`attrs.words`", "words.txt", "a file that the function reads"],
    ),
];

#[test]
fn connections() {
    all_refused(CONNECTIONS);
}

#[test]
fn a_cycle_is_named_in_order() {
    let text = "{name: g, inputs: {i: {dtype: int8, shape: [1]}}, nodes: {\
        a: {library: l, function: f, inputs: [i], outputs: {o: {dtype: int8, shape: [1]}}},\
        b: {library: l, function: f, inputs: [a.o, d.o], outputs: {o: {dtype: int8, shape: [1]}}},\
        c: {library: l, function: f, inputs: [b.o], outputs: {o: {dtype: int8, shape: [1]}}},\
        d: {library: l, function: f, inputs: [c.o], outputs: {o: {dtype: int8, shape: [1]}}}},\
        outputs: {o: d.o}}";
    let error = graph_file::from_yaml(text, "g.yaml").unwrap().check_structure().unwrap_err();
    let error = error.to_string();
    assert!(error.contains("b -> c -> d -> b"), "{error}");
    assert!(error.contains("node `b`: input `1`: cycle"), "{error}");
}

const VALUES: &[Case] = &[
    (
        "depth: 4",
        "depth: 1",
        &["queue depth", "`scale`", "input `pixels`", "a depth of 1", "2 to 65536"],
    ),
    ("depth: 4", "depth: 65537", &["queue depth", "65537"]),
    ("max_bytes: 1000", "max_bytes: 1000, depth: 0", &["graph input `file`", "a depth of 0"]),
    ("result: join.row", "result: {from: join.row, depth: 1}", &["graph output `result`"]),
    ("function: join", "function: join\n    instances: 0", &["`join`", "0 instances", "1 to 32"]),
    ("function: join", "function: join\n    instances: 33", &["`join`", "33 instances"]),
    ("[-1, 4]", "[-2, 4]", &["impossible shape", "`decode`", "output `image`", "[-2, 4]"]),
    (", max_bytes: 4000", "", &["message size", "`decode`", "output `image`", "no `max_bytes`"]),
    ("[2, 4]}", "[2, 4], max_bytes: 7}", &["`scale`", "output `small`", "7", "at least 8"]),
    (
        "depth: 4",
        "dtype: int8",
        &["dtype mismatch", "`scale`", "input `pixels`", "uint8 from `decode.image`", "int8"],
    ),
    (
        "depth: 4",
        "shape: [-1, 5]",
        &["shape mismatch", "input `pixels`", "[-1, 4] from", "[-1, 5]"],
    ),
    ("depth: 4", "shape: [4]", &["shape mismatch", "[4]"]),
    ("function: join", "function: join\n    cpu: [0, 1]", &["`cpu`", "2 cores for 1 instances"]),
    (
        "function: join",
        "function: join\n    cpu: 4294967295",
        &["`join`: `cpu`", "core 4294967295", "cores that this process may use: "],
    ),
    ("function: join", "function: join\n    env: {DFLOW_SLOT: '1'}", &["`env`", "`DFLOW_SLOT`"]),
    (
        "function: join",
        "function: join\n    redeliver: true\n    poison_limit: 0",
        &["`poison_limit`"],
    ),
    ("function: join", "function: join\n    redeliver: true\n    stateful: true", &["`redeliver`"]),
    ("function: join", "function: join\n    stall_ms: 0", &["`stall_ms`"]),
    (
        "function: join",
        "function: join\n    align: {max_cache: 1025}",
        &["`join`: `align`", "`max_cache` 1025", "1 to 1024"],
    ),
    ("function: join", "function: join\n    align: {max_cache: 0}", &["`align`", "`max_cache` 0"]),
    (
        "function: join",
        "function: join\n    align: {max_cache: 4, timeout_ms: 600001}",
        &["`align`", "`timeout_ms` 600001", "1 to 600000 milliseconds"],
    ),
    (
        "function: scale",
        "function: scale\n    align: {max_cache: 4}",
        &["`scale`: `align`", "a node with 1 input(s)", "several inputs"],
    ),
    (
        "function: join",
        "function: join\n    align_time: {interval: 5, offsets: [1], timeout_ms: 0}",
        &["`join`: `align_time`", "1 `offsets` for 2 input(s)", "`timeout_ms` 0"],
    ),
    (
        "function: join",
        "function: join\n    align_time: {interval: 5}\n    align: {max_cache: 4}",
        &["`join`: `align_time`", "by id or by time", "remove one of the two"],
    ),
    (
        "function: scale",
        "function: scale\n    align_time: {interval: 5}",
        &["`scale`: `align_time`", "a node with 1 input(s)"],
    ),
    ("function: join", "function: join\n    align_time: {offsets: [0, 1]}", &["no `interval`"]),
    ("name: g", "name: g\nsession: {max_open: 0}", &["session `max_open`", "1 to 1048576"]),
    ("name: g", "name: g\nsession: {deadline_ms: 0}", &["session `deadline_ms`"]),
];

#[test]
fn values_and_types() {
    all_refused(VALUES);
}

const ALIGNER: &str = "or a node that aligns its inputs";

const JOINS: &[Case] = &[
    (
        "function: scale",
        "function: scale\n    instances: 2",
        &["`join`", "input `right`", "`scale` has 2 instances", ALIGNER],
    ),
    (
        "function: decode",
        "function: decode\n    instances: 2",
        &["`join`", "input `left`", "`decode` has 2", ALIGNER],
    ),
    (
        "depth: 4",
        "policy: overwrite",
        &["`join`", "input `right`", "in front of `scale`", "same ids"],
    ),
    (
        "left: decode.image",
        "left: {from: decode.image, policy: overwrite}",
        &["`join`", "input `left`", "its own queue overwrites"],
    ),
];

#[test]
fn joins() {
    all_refused(JOINS);
}

#[test]
fn branches_that_part_after_the_merge_may_join() {
    let before = "{name: g, inputs: {i: {dtype: int8, shape: [1]}}, nodes: {\
        many: {library: l, function: f, instances: 3, inputs: [i], outputs: OUT},\
        one: {library: l, function: f, inputs: [{from: many.o, policy: overwrite}], outputs: OUT},\
        side: {library: l, function: f, inputs: [one.o], outputs: OUT},\
        join: {library: l, function: f, inputs: [one.o, side.o], outputs: OUT}},\
        outputs: {o: join.o}}";
    let before = before.replace("OUT", "{o: {dtype: int8, shape: [1]}}");
    graph_file::from_yaml(&before, "g.yaml").unwrap().check_structure().unwrap();
    let fifo = before.replace("{from: many.o, policy: overwrite}", "many.o");
    graph_file::from_yaml(&fifo, "g.yaml").unwrap().check_structure().unwrap();
    let mixed = fifo.replace("[one.o, side.o]", "[i, side.o]");
    let error = graph_file::from_yaml(&mixed, "g.yaml").unwrap().check_structure().unwrap_err();
    assert!(error.to_string().contains("`many` has 3 instances"), "{error}");
    let align = |text: &str, node: &str| {
        let (head, tail) = text.split_once(&format!("{node}: {{")).unwrap();
        format!("{head}{node}: {{align: {{max_cache: 4}}, {tail}")
    };
    let aligned = align(&mixed, "join");
    graph_file::from_yaml(&aligned, "g.yaml").unwrap().check_structure().unwrap();
    // What an aligned node sends has an order of its own.
    let behind = aligned.replace("outputs: {o: join.o}", "outputs: {o: last.o}");
    let last = "last: {library: l, function: f, inputs: [join.o, i], \
        outputs: {o: {dtype: int8, shape: [1]}}}, join: {";
    let behind = behind.replacen("join: {", last, 1);
    let error = graph_file::from_yaml(&behind, "g.yaml").unwrap().check_structure().unwrap_err();
    assert!(error.to_string().contains("`join` aligns its inputs"), "{error}");
    let behind = align(&behind, "last");
    graph_file::from_yaml(&behind, "g.yaml").unwrap().check_structure().unwrap();
}

const BUDGETS: &[Case] = &[
    (
        "max_bytes: 1000",
        "max_bytes: 4294960000, depth: 100",
        &[
            "impossible budget of a partition",
            "node `host`",
            "graph inputs file",
            " + 128 blocks x 4.00 GiB",
            "at most 256 GiB",
        ],
    ),
    (
        "max_bytes: 4000",
        "max_bytes: 4294967296",
        &["message too large", "`decode`", "outputs image", "4294971392 B", "at most 4 GiB"],
    ),
    ("max_bytes: 4000", "max_bytes: 9223372036854775807", &["`decode`", "at most 4 GiB"]),
    (
        "name: g",
        "name: g\nsession: {memory: '65536'}",
        &[
            "impossible budget",
            " in all = host ",
            " + decode ",
            "at most 64 KiB (session `memory`)",
        ],
    ),
    (
        "name: g",
        "name: g\nsession: {memory: ''}",
        &["memory settings", "session `memory`", "empty"],
    ),
    ("name: g", "name: g\nsession: {memory: '1048576:1023'}", &["1023 B"]),
    (
        "name: g",
        "name: g\nsession: {memory: '1073741824:4096'}",
        &["`decode`", "blocks of 8 KiB", "at most 4 KiB"],
    ),
];

#[test]
fn budgets() {
    all_refused(BUDGETS);
    let graph = graph_file::from_yaml(GOOD, "g.yaml").unwrap().check_structure().unwrap();
    let ports: Vec<_> = (0..17).map(|n| format!("p{n}: {{from: file, depth: 65536}}")).collect();
    let ports = format!("inputs: {{{}}}", ports.join(", "));
    let words = ["more than a memory group holds", "`host`", "1114121", "at most 1048576"];
    refused("inputs: {data: file}", &ports, &words);
    let small = Limits { machine: Some(100_000), ..Limits::default() };
    let error = graph.plan(&small).unwrap_err().to_string();
    assert!(
        error.contains("at most 97.66 KiB (the memory of this machine or control group)"),
        "{error}"
    );
    let mut graph = GOOD.replace("function: decode", "function: decode\n    instances: 32");
    graph = graph
        .replace("left: decode.image, ", "")
        .replace("function: scale", "function: scale\n    instances: 32");
    for extra in ["a", "b"] {
        let node = format!(
            "  {extra}:\n    library: l\n    function: f\n    instances: 32\n    \
             inputs: [decode.image]\n    outputs: {{o: {{dtype: int8, shape: [1]}}}}\n  join:"
        );
        graph = graph.replace("  join:", &node);
        graph.push_str(&format!("  {extra}: {extra}.o\n"));
    }
    let flow = graph_file::from_yaml(&graph, "g.yaml").unwrap().check_structure().unwrap();
    let error = flow.plan(&Limits::default()).unwrap_err().to_string();
    assert!(error.contains("129 executors") && error.contains("at most 63"), "{error}");
}

#[test]
fn all_problems_of_a_graph_are_reported_at_once() {
    let text = GOOD.replace("depth: 4", "depth: 1").replace("data: file", "data: fil");
    let error = plan(&text).unwrap_err().to_string();
    assert!(error.contains("queue depth") && error.contains("unknown source"), "{error}");
}

#[test]
fn files() {
    let read = |name: &str| graph_file::read(name.as_ref()).unwrap_err().to_string();
    assert!(read("no/such.yaml").contains("no/such.yaml: can't read"));
    let ending = read("Cargo.toml");
    assert!(ending.contains("`.toml`") && ending.contains("`.json`"), "{ending}");
    let json = graph_file::from_json("{\"name\": \"g\", \"name\": \"h\"}", "g.json").unwrap_err();
    assert!(json.to_string().contains("duplicate key"), "{json}");
}

#[test]
fn a_library_that_several_nodes_miss_is_one_error() {
    let node = |name: &str, library: &str| {
        format!(
            "  {name}:\n    library: {library}\n    function: f\n    inputs: {{x: in}}\n    \
             outputs:\n      y: {{dtype: int8, shape: [1]}}\n"
        )
    };
    let nodes = [("a", "no.so"), ("b", "no.so"), ("c", "other.so"), ("d", "no.so")];
    let nodes: String = nodes.iter().map(|(name, library)| node(name, library)).collect();
    let text = format!(
        "name: f\ninputs:\n  in: {{dtype: int8, shape: [1]}}\nnodes:\n{nodes}outputs:\n  \
         oa: a.y\n  ob: b.y\n  oc: c.y\n  od: d.y\n"
    );
    let graph = graph_file::from_yaml(&text, "f.yaml").unwrap();
    let errors = graph.check().unwrap_err().errors;
    let found: Vec<&str> = errors.iter().map(|one| one.problem().found.as_str()).collect();
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].contains("no.so: No such file"), "{found:?}");
    assert!(found[0].ends_with("(also of nodes `b`, `d`)"), "{found:?}");
    assert_eq!(errors[0].problem().place.node.as_deref(), Some("a"));
    assert!(found[1].contains("other.so") && !found[1].contains("also"), "{found:?}");
}
