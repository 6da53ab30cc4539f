//! Every kill point of the product and a scene whose victim vanishes there. A point that no scene
//! reaches, or one that is not listed, is a failure.

use std::collections::BTreeSet;
use std::path::Path;

/// Kill point, scene.
const POINTS: &[(&str, &str)] = &[
    ("alloc: count", "alloc"),
    ("chain: linked", "chain append"),
    ("chain: member unlinked", "chain free"),
    ("chain: owner", "chain append"),
    ("claimed", "alloc"),
    ("copy: block", "copy_ref shared"),
    ("copy: count", "copy_ref shared"),
    ("create: decided", "create"),
    ("create: generation", "create"),
    ("create: index taken", "create"),
    ("create: named", "create"),
    ("create: rival lost", "create"),
    ("dequeue: head", "dequeue"),
    ("dequeue: owner", "dequeue"),
    ("destroy: destroyed", "destroy"),
    ("destroy: free", "destroy"),
    ("destroy: generation", "destroy"),
    ("destroy: owner", "destroy"),
    ("enqueue: destination", "enqueue"),
    ("enqueue: owner", "enqueue"),
    ("enqueue: ring word", "enqueue"),
    ("enqueue: tail", "enqueue"),
    ("free: block", "adopt"),
    ("free: count", "adopt"),
    ("free: owner", "adopt"),
    ("full waiter taken", "dequeue, full"),
    ("grant: a right", "grant"),
    ("grant: lane counted", "grant"),
    ("grant: place written", "grant"),
    ("journal closed", "alloc"),
    ("journal opened", "alloc"),
    ("lock released", "grant"),
    ("lock taken", "grant"),
    ("pool waiters taken", "wake pool"),
    ("ready bit set", "wake"),
    ("sequence bumped, futex not woken", "wake"),
    ("unparked, sequence not bumped", "wake"),
    ("withdraw: owner", "enqueue, destroyed"),
];

/// The victims of a scene vanished at these points; all that are listed for it are there.
pub(crate) fn assert_reached(scene: &str, reached: &BTreeSet<&str>) {
    for (point, _) in POINTS.iter().filter(|(_, of)| *of == scene) {
        assert!(reached.contains(point), "{scene}: nobody vanished at {point:?}");
    }
}

fn points_in(folder: &Path, into: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            points_in(&path, into);
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
        let points = code.filter_map(|line| line.split_once("kill_point!(\"")?.1.split_once('"'));
        into.extend(points.map(|(name, _)| name.to_owned()));
    }
}

#[test]
fn every_kill_point_has_a_scene() {
    let mut own = BTreeSet::new();
    points_in(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut own);
    let listed: BTreeSet<String> = POINTS.iter().map(|(point, _)| (*point).to_owned()).collect();
    assert_eq!(own, listed);
}
