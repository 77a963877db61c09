//! Networks: made if they are not there, removed if this host made them and nothing uses them.

use crate::lab::{IMAGE, Lab, ask, exists, is, say};
use mesh_model::report::Word;

fn network(lab: &Lab) -> String {
    format!(r#"{{"id":"n","type":"network","name":"{}"}}"#, lab.name("net"))
}

fn is_there(lab: &Lab) -> bool {
    ask(&["network", "ls", "--format", "{{.Name}}"]).lines().any(|name| name == lab.name("net"))
}

#[test]
fn a_network_is_made_put_back_and_removed() {
    let lab = Lab::new("net");
    is(&lab.one(&network(&lab)), Word::Created, "");
    is(&lab.one(&network(&lab)), Word::Unchanged, "");
    ask(&["network", "rm", &lab.name("net")]);
    is(&lab.one(&network(&lab)), Word::Corrected, "gone");
    assert_eq!(lab.apply(&[]), ["n removed"]);
    assert!(!is_there(&lab));
}

#[test]
fn a_network_that_was_there_is_left() {
    let lab = Lab::new("found");
    ask(&["network", "create", &lab.name("net")]);
    is(&lab.one(&network(&lab)), Word::Unchanged, "");
    assert_eq!(lab.apply(&[]), ["n forgotten"]);
    assert!(is_there(&lab));
}

#[test]
fn h63_a_network_that_is_still_used_fails_alone_and_is_tried_again() {
    let lab = Lab::new("h63");
    lab.one(&network(&lab));
    let user = lab.name("user");
    ask(&["create", "--name", &user, "--network", &lab.name("net"), IMAGE, "sleep", "1000"]);
    let (started, why) = say(&["start", &user]);
    let file = format!(r#"{{"id":"f","type":"file","path":"{}","content":"x"}}"#, lab.path("x"));
    let words = lab.apply(&[file.clone()]);
    if started || crate::lab::runtime() == "podman" {
        assert_eq!(words, ["n failed", "f created"], "{why}");
        assert!(is_there(&lab) && exists(&user));
        ask(&["rm", "--force", &user]);
        assert_eq!(lab.apply(&[file]), ["n removed", "f unchanged"]);
    } else {
        // Docker counts only containers that run as users; without iptables none can.
        assert_eq!(words, ["n removed", "f created"]);
    }
    assert!(!is_there(&lab));
}
