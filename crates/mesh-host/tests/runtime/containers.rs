//! A container that runs always: made, exchanged, put back, removed.

use crate::lab::{IMAGE, Lab, ask, exists, field, is, is_running, number, words};
use mesh_host::session::How;
use mesh_model::report::Word;

/// A container with these members beside the usual ones.
fn container(lab: &Lab, name: &str, more: &str) -> String {
    let name = lab.name(name);
    let (id, more) = ("c", if more.is_empty() { String::new() } else { format!(",{more}") });
    format!(
        r#"{{"id":"{id}","type":"container","name":"{name}","image":"{IMAGE}","network":"none","settle":"300ms","stop":"1s"{more}}}"#
    )
}

const SLEEP: &str = r#""args":["sleep","1000"]"#;

#[test]
fn a_container_is_made_left_alone_put_back_and_removed() {
    let lab = Lab::new("life");
    let name = lab.name("web");
    let web = container(
        &lab,
        "web",
        &format!(r#"{SLEEP},"env":{{"MOTTO":"a b"}},"volumes":["{}-data:/data"]"#, lab.tag),
    );
    is(&lab.one(&web), Word::Created, "");
    assert!(is_running(&name));
    assert!(field(&name, "{{.Config.Env}}").contains("MOTTO=a b"));
    let first = number(&name);
    is(&lab.one(&web), Word::Unchanged, "");
    assert_eq!(number(&name), first);
    // Stopped by hand.
    ask(&["stop", "--time", "1", &name]);
    is(&lab.one(&web), Word::Corrected, "state");
    assert!(is_running(&name));
    assert_eq!(number(&name), first);
    // Removed by hand.
    ask(&["rm", "--force", &name]);
    is(&lab.one(&web), Word::Corrected, "gone");
    assert!(is_running(&name));
    // No longer declared: it goes, its volume stays.
    assert_eq!(lab.apply(&[]), ["c removed"]);
    assert!(!exists(&name));
    let volume = format!("{}-data", lab.tag);
    assert!(ask(&["volume", "ls", "--quiet"]).lines().any(|found| found == volume));
    ask(&["volume", "rm", &volume]);
    assert!(lab.memory().records.is_empty());
}

#[test]
fn h59_every_declared_field_counts() {
    let lab = Lab::new("h59");
    let name = lab.name("web");
    lab.one(&container(&lab, "web", SLEEP));
    let mut before = number(&name);
    for more in [
        r#""args":["sleep","1001"]"#.to_owned(),
        format!(r#"{SLEEP},"hosts":{{"db":"10.0.0.2"}}"#),
        format!(r#"{SLEEP},"env":{{"A":"1"}}"#),
        format!(r#"{SLEEP},"env":{{"A":"2"}}"#),
    ] {
        let declared = container(&lab, "web", &more);
        // Names of hosts need a network that is not none.
        let declared = if more.contains("hosts") {
            declared.replace(r#""network":"none""#, r#""network":"host""#)
        } else {
            declared
        };
        is(&lab.one(&declared), Word::Updated, "");
        let now = number(&name);
        assert!(now != before && is_running(&name), "{more}");
        assert!(!exists(&format!("{name}.prev")) && !exists(&format!("{name}.next")), "{more}");
        is(&lab.one(&declared), Word::Unchanged, "");
        before = now;
    }
}

#[test]
fn h16_h51_when_the_new_one_cannot_be_made_the_old_one_runs_on() {
    let lab = Lab::new("h51");
    let name = lab.name("web");
    lab.one(&container(&lab, "web", SLEEP));
    let old = number(&name);
    let wrong = [
        // A program that is not in the image.
        container(&lab, "web", r#""args":["/no/such/program"]"#),
        // One that ends at once, though a busy machine may take longer than the labs' 0.3 s.
        container(&lab, "web", r#""args":["false"]"#).replace("300ms", "3s"),
        // An option that the runtime refuses.
        container(&lab, "web", SLEEP).replace(r#""network":"none""#, r#""network":"no-such-network""#),
    ];
    for declared in wrong {
        let outcome = lab.one(&declared);
        assert!(outcome.word == Word::Failed && !outcome.cause.is_empty(), "{outcome:?}");
        // Stopped for the exchange, and started again.
        assert!(is_running(&name), "{declared}: {outcome:?}");
        assert_eq!(number(&name), old, "{declared}");
        assert!(!exists(&format!("{name}.prev")) && !exists(&format!("{name}.next")), "{declared}");
    }
    is(&lab.one(&container(&lab, "web", SLEEP)), Word::Unchanged, "");
    assert_eq!(number(&name), old);
}

#[test]
fn h51_while_an_image_cannot_be_had_its_module_waits_and_keeps_what_it_has() {
    let lab = Lab::new("image");
    let (name, other) = (lab.name("web"), lab.name("other"));
    lab.one(&container(&lab, "web", SLEEP));
    // Renamed, and of an image that is nowhere: the old one goes only when the new one can come.
    let nowhere = container(&lab, "other", SLEEP).replace(IMAGE, "localhost:1/none:9");
    let report = lab.report(std::slice::from_ref(&nowhere), How::Apply);
    let module = &report.modules["foundation"];
    assert!(module.state.as_str() == "waiting" && module.why.contains("localhost:1/none:9"), "{report:?}");
    assert!(report.outcomes.is_empty() && is_running(&name) && !exists(&other), "{report:?}");
    assert_eq!(lab.apply(&[container(&lab, "other", SLEEP)]), ["c removed", "c created"]);
    assert!(!exists(&name) && is_running(&other));
}

#[test]
fn h58_a_container_that_does_not_stay_up_is_not_made_anew_at_every_apply() {
    let lab = Lab::new("h58");
    let name = lab.name("loop");
    // A busy machine may take more than the labs' 0.3 s until it has ended.
    let declared = container(&lab, "loop", r#""args":["false"]"#).replace("300ms", "3s");
    let outcome = lab.one(&declared);
    assert_eq!(outcome.word, Word::Failed, "{outcome:?}");
    assert!(
        outcome.cause.contains("exited with 1") || outcome.cause.contains("does not stay up"),
        "{outcome:?}"
    );
    let first = number(&name);
    let outcome = lab.one(&declared);
    assert!(outcome.word == Word::Failed && outcome.cause.contains("--again"), "{outcome:?}");
    assert_eq!(number(&name), first);
    let again = lab.report(std::slice::from_ref(&declared), How::Again);
    assert!(
        again.outcomes[0].word == Word::Failed && !again.outcomes[0].cause.contains("--again"),
        "{again:?}"
    );
    // Another form is tried at once.
    is(&lab.one(&container(&lab, "loop", SLEEP)), Word::Updated, "");
    assert!(is_running(&name) && lab.memory().tries.is_empty());
}

#[test]
fn h54_a_persons_container_of_the_name_is_refused_and_untouched() {
    let lab = Lab::new("h54");
    let name = lab.name("web");
    ask(&["create", "--name", &name, "--network", "none", IMAGE, "sleep", "5"]);
    let theirs = number(&name);
    let outcome = lab.one(&container(&lab, "web", SLEEP));
    assert!(outcome.word == Word::Failed && outcome.cause.contains("did not make"), "{outcome:?}");
    assert_eq!((number(&name), is_running(&name)), (theirs.clone(), false));
    assert_eq!(lab.apply(&[]), Vec::<String>::new());
    assert_eq!(number(&name), theirs);
}

#[test]
fn h52_a_container_whose_number_begins_like_the_name_is_somebody_elses() {
    let lab = Lab::new("h52");
    let foreign = lab.name("foreign");
    ask(&["create", "--name", &foreign, "--network", "none", IMAGE, "sleep", "5"]);
    let name = number(&foreign)[..12].to_owned();
    let declared = container(&lab, "web", SLEEP).replace(&lab.name("web"), &name);
    is(&lab.one(&declared), Word::Created, "");
    assert!(exists(&foreign) && !is_running(&foreign));
    assert_eq!(lab.apply(&[]), ["c removed"]);
    assert!(exists(&foreign));
}

#[test]
fn h61_a_container_that_was_only_made_is_started() {
    let lab = Lab::new("h61");
    let name = lab.name("web");
    let web = container(&lab, "web", SLEEP);
    lab.one(&web);
    // As after a kill between making and starting.
    ask(&["stop", "--time", "1", &name]);
    is(&lab.one(&web), Word::Corrected, "state");
    assert!(is_running(&name));
}

#[test]
fn h49_what_an_exchange_left_is_finished_or_taken_back() {
    let lab = Lab::new("h49");
    let name = lab.name("web");
    let (next, prev) = (format!("{name}.next"), format!("{name}.prev"));
    let (one, two) = (container(&lab, "web", SLEEP), container(&lab, "web", r#""args":["sleep","1001"]"#));
    lab.one(&one);
    // Cut off after the old one went aside: the old one comes back, and is exchanged again.
    ask(&["stop", "--time", "1", &name]);
    ask(&["rename", &name, &prev]);
    is(&lab.one(&two), Word::Updated, "");
    assert!(is_running(&name) && !exists(&next) && !exists(&prev));
    assert_eq!(field(&name, "{{.Config.Cmd}}"), "[sleep 1001]");
    // Cut off after the new one was made beside it, and then declared as before.
    let label = field(&name, r#"{{index .Config.Labels "mesh-host.id"}}"#);
    let id = format!("mesh-host.id={label}");
    ask(&[
        "create",
        "--name",
        &next,
        "--label",
        &id,
        "--label",
        "mesh-host.digest=v2:0",
        "--network",
        "none",
        IMAGE,
        "sleep",
        "9",
    ]);
    let same = lab.one(&two);
    assert!(matches!(same.word, Word::Unchanged | Word::Updated), "{same:?}");
    assert!(is_running(&name) && !exists(&next) && !exists(&prev));
}

#[test]
fn h60_declared_back_and_forth_the_last_form_runs() {
    let lab = Lab::new("h60");
    let name = lab.name("web");
    let (one, two) = (container(&lab, "web", SLEEP), container(&lab, "web", r#""args":["sleep","1001"]"#));
    for declared in [&one, &two, &one] {
        lab.one(declared);
    }
    assert_eq!(field(&name, "{{.Config.Cmd}}"), "[sleep 1000]");
    assert!(is_running(&name) && !exists(&format!("{name}.prev")));
}

#[test]
fn h21_h47_and_k56_a_mounted_file_that_changes_gives_a_new_container() {
    let lab = Lab::new("h21");
    let name = lab.name("web");
    let path = lab.path("site");
    let file = |content: &str| format!(r#"{{"id":"f","type":"file","path":"{path}","content":"{content}"}}"#);
    let web = container(&lab, "web", &format!(r#"{SLEEP},"volumes":["{path}:/site:ro"],"restart-on":["f"]"#));
    assert_eq!(lab.apply(&[file("one"), web.clone()]), ["f created", "c created"]);
    let first = number(&name);
    assert_eq!(lab.apply(&[file("one"), web.clone()]), ["f unchanged", "c unchanged"]);
    assert_eq!(lab.apply(&[file("two"), web.clone()]), ["f updated", "c updated"]);
    assert!(number(&name) != first);
    assert_eq!(ask(&["exec", &name, "cat", "/site"]), "two");
    assert_eq!(lab.apply(&[file("two"), web]), ["f unchanged", "c unchanged"]);
}

#[test]
fn what_it_mounts_has_to_exist() {
    let lab = Lab::new("source");
    let path = lab.path("missing");
    let web = container(&lab, "web", &format!(r#"{SLEEP},"volumes":["{path}:/data"]"#));
    let outcome = lab.one(&web);
    assert!(outcome.word == Word::Failed && outcome.cause.contains("does not exist"), "{outcome:?}");
    assert!(!std::path::Path::new(&path).exists() && !exists(&lab.name("web")));
}

#[test]
fn h64_fields_that_the_runtime_writes_otherwise_are_no_change() {
    let lab = Lab::new("h64");
    let path = lab.path("");
    let web = container(
        &lab,
        "web",
        &format!(r#"{SLEEP},"volumes":["{}:/data:ro"],"env":{{"UPPER":"x=y"}}"#, path.trim_end_matches('/')),
    );
    is(&lab.one(&web), Word::Created, "");
    is(&lab.one(&web), Word::Unchanged, "");
}

#[test]
fn h45_h46_a_container_has_one_label_whatever_else_was_applied_or_fetched() {
    let lab = Lab::new("h45");
    let (name, other) =
        (lab.name("web"), container(&lab, "other", SLEEP).replace(r#""id":"c""#, r#""id":"o""#));
    // An image of its own: what is committed has the labels of the container.
    let image = "localhost/lab:h45";
    ask(&["tag", IMAGE, image]);
    let web = container(&lab, "web", SLEEP).replace(IMAGE, image);
    let label = || field(&name, r#"{{index .Config.Labels "mesh-host.digest"}}"#);
    assert_eq!(lab.apply(&[web.clone(), other.clone()]), ["c created", "o created"]);
    let (first, made) = (label(), number(&name));
    // Alone.
    ask(&["rm", "--force", &name]);
    assert_eq!(lab.apply(std::slice::from_ref(&web)), ["o removed", "c corrected"]);
    assert_eq!(label(), first);
    assert_ne!(number(&name), made);
    // Another image came under its name.
    let made = number(&name);
    ask(&["commit", &name, image]);
    assert_eq!(lab.apply(std::slice::from_ref(&web)), ["c unchanged"]);
    assert_eq!((label(), number(&name)), (first, made));
}

#[test]
fn h65_an_orphan_of_one_bundle_leaves_those_of_another() {
    let lab = Lab::new("h65");
    lab.bundle("one", &[container(&lab, "aa", SLEEP)], How::Apply);
    lab.bundle("two", &[container(&lab, "bb", SLEEP)], How::Apply);
    let report = lab.bundle("one", &[], How::Apply);
    assert_eq!(words(&report), ["c removed"]);
    assert!(!exists(&lab.name("aa")) && is_running(&lab.name("bb")));
}

#[test]
fn no_value_of_an_environment_is_in_arguments_state_or_report() {
    let lab = Lab::new("secret");
    let name = lab.name("web");
    let web = container(&lab, "web", &format!(r#"{SLEEP},"env":{{"KEY":"${{secret:key}}"}}"#));
    let text = format!(
        r#"{{"bundle":"b","resources":[{web}],"needs":[{{"kind":"secret","name":"key"}}],"values":{{"secret:key":{{"text":"canary-5150"}}}}}}"#
    );
    use mesh_model::json::Read as _;
    let bundle = mesh_model::bundle::Bundle::from_json_bytes(text.as_bytes()).unwrap();
    let site = mesh_host::site::Site::beside(lab.path("").as_ref());
    let input = mesh_host::session::Input::Bundle(Box::new(bundle));
    let report = mesh_host::session::apply(&site, input, How::Apply, &mut |_, _| {}).unwrap();
    assert_eq!(report.outcomes[0].word, Word::Created, "{report:?}");
    assert!(field(&name, "{{.Config.Env}}").contains("canary-5150"));
    assert!(!serde_json::to_string(&report).unwrap().contains("canary"));
    let found =
        std::process::Command::new("grep").args(["-rl", "canary-5150", &lab.path("")]).output().unwrap();
    let found = String::from_utf8(found.stdout).unwrap();
    assert_eq!(found, "", "a value lies in the state");
    if crate::lab::runtime() == "podman" {
        assert!(!field(&name, "{{.Config.CreateCommand}}").contains("canary"));
    }
}
