//! What is closed, or let in from fewer places, is undone unless the bus is reached again.

use crate::mesh::{Mesh, Module};
use crate::{DB, DB_LESS, Lab, WEB, is, rules, say};
use mesh_host::session::{self, How, Input, Trouble};
use mesh_host::site::Site;
use mesh_model::host_api::Request;
use mesh_model::json::Read as _;
use mesh_model::report::{Outcome, Word};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

fn folder(own: &Path) -> PathBuf {
    own.join("var/lib/mesh-host/undo")
}

/// Which timer is set, by its name.
fn token(own: &Path) -> Option<String> {
    let text = fs::read_to_string(folder(own).join("undo.json")).ok()?;
    let undo: Value = serde_json::from_str(&text).unwrap();
    Some(undo["token"].as_str().unwrap().to_owned())
}

fn is_systemd() -> bool {
    Path::new("/run/systemd/system").is_dir()
}

/// Whether a timer of that name still waits.
fn waits(token: &str) -> bool {
    if is_systemd() {
        let unit = format!("mesh-host-undo-{token}.timer");
        return say(&["systemctl", "show", "--value", "--property", "SubState", &unit]).trim() == "waiting";
    }
    !sleepers(token).is_empty()
}

fn sleepers(token: &str) -> Vec<String> {
    let numbers =
        fs::read_dir("/proc").unwrap().filter_map(|entry| entry.unwrap().file_name().into_string().ok());
    let is_it = |number: &String| {
        let line = fs::read(format!("/proc/{number}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(token)
    };
    numbers.filter(is_it).collect()
}

/// Ends it, as a kill of every process would.
fn end(token: &str) {
    if is_systemd() {
        say(&["systemctl", "stop", &format!("mesh-host-undo-{token}.timer")]);
        return;
    }
    for number in sleepers(token) {
        say(&["kill", "-9", &number]);
    }
    crate::mesh::until("the timer is gone", || !waits(token));
}

/// Lets the two minutes pass: what the timer runs is run.
fn go_off(own: &Path) {
    let token = token(own).expect("a timer is set");
    assert!(waits(&token));
    if is_systemd() {
        say(&["systemctl", "start", "--wait", &format!("mesh-host-undo-{token}.service")]);
    } else {
        let line = format!(
            "cd {} && mv -f undo-{token}.sh undo.run && sh undo.run; rm undo.run",
            folder(own).display()
        );
        say(&["sh", "-ec", &line]);
    }
    assert!(folder(own).join("undone.json").exists());
    end(&token);
}

#[test]
fn what_is_closed_is_opened_again_unless_it_is_confirmed() {
    let lab = Lab::new();
    lab.apply(&[WEB]);
    assert_eq!(token(lab.0.path()), None, "an opening needs no undoing");
    lab.ends(&[], &[is(Word::Removed)]);
    go_off(lab.0.path());
    assert!(rules().contains("8080"), "{}", rules());
    // It is still to be closed, and this time a person stays connected.
    lab.ends(&[], &[is(Word::Removed)]);
    let set = token(lab.0.path()).unwrap();
    session::confirm_by_hand(&Site::beside(lab.0.path())).unwrap();
    assert_eq!((token(lab.0.path()), waits(&set) && is_systemd()), (None, false));
    assert!(!rules().contains("8080"), "{}", rules());
    end(&set);
}

#[test]
fn fewer_sources_are_undone_like_a_closing() {
    let lab = Lab::new();
    lab.apply(&[DB]);
    lab.ends(&[DB_LESS], &[is(Word::Updated)]);
    assert!(!rules().contains("fd00"), "{}", rules());
    // What is opened meanwhile stays.
    lab.apply(&[DB_LESS, WEB]);
    go_off(lab.0.path());
    assert!(rules().contains("fd00") && rules().contains("8080"), "{}", rules());
    session::confirm_by_hand(&Site::beside(lab.0.path())).unwrap();
    lab.apply(&[]);
    end(&token(lab.0.path()).unwrap());
}

#[test]
fn a_timer_that_was_lost_is_set_again_by_the_next_apply() {
    let lab = Lab::new();
    lab.apply(&[WEB, DB]);
    lab.apply(&[DB]);
    let lost = token(lab.0.path()).unwrap();
    end(&lost);
    // Whatever is applied.
    lab.ends(&[DB], &[is(Word::Unchanged)]);
    let set = token(lab.0.path()).unwrap();
    assert!(set != lost && waits(&set), "{set}");
    // Lost once more, just before something else is closed.
    end(&set);
    lab.apply(&[]);
    go_off(lab.0.path());
    assert!(rules().contains("8080") && rules().contains("5432"), "{}", rules());
    lab.apply(&[]);
    end(&token(lab.0.path()).unwrap());
}

/// Applies a declaration in which one module has these openings.
fn declare(mesh: &Mesh, sequence: u64, openings: &[&str]) -> Vec<Outcome> {
    let resources: Vec<Value> = openings
        .iter()
        .map(|text| {
            let mut opening: Value = serde_json::from_str(text).unwrap();
            opening["id"] = json!(format!("web.{}", opening["id"].as_str().unwrap()));
            opening
        })
        .collect();
    let request = mesh.request(sequence, &[Module::new("web", json!(resources))]).to_string();
    let Ok(Request::Apply(apply)) = Request::from_json_bytes(request.as_bytes()) else { panic!("{request}") };
    let site = Site::beside(mesh.tree.root());
    loop {
        match session::apply(&site, Input::Mesh(apply.clone()), How::Apply, &mut |_, _| {}) {
            Err(Trouble::Locked) => std::thread::yield_now(),
            other => return other.unwrap().outcomes,
        }
    }
}

fn word(outcomes: &[Outcome]) -> Word {
    assert_eq!(outcomes.len(), 1, "{outcomes:?}");
    outcomes[0].word
}

#[test]
fn a_confirmation_counts_for_what_was_closed_before_it_and_no_other() {
    let _lab = Lab::new();
    let mesh = Mesh::new();
    let own = mesh.tree.root();
    let site = Site::beside(own);
    declare(&mesh, 1, &[WEB, DB]);
    session::confirm(&site, 1).unwrap();
    declare(&mesh, 2, &[WEB]);
    let set = token(own).unwrap();
    // The client's word of the declaration before comes late.
    session::confirm(&site, 1).unwrap();
    assert!(token(own).as_ref() == Some(&set) && waits(&set));
    // One of a declaration that never was would silence all that come.
    assert!(matches!(session::confirm(&site, 3), Err(Trouble::Refused(_))));
    assert!(matches!(session::confirm(&site, u64::MAX), Err(Trouble::Refused(_))));
    assert!(waits(&set));
    session::confirm(&site, 2).unwrap();
    assert_eq!(token(own), None);
    end(&set);
    declare(&mesh, 3, &[]);
    end(&token(own).unwrap());
}

#[test]
fn what_was_undone_is_not_closed_again_by_the_same_declaration() {
    let _lab = Lab::new();
    let mesh = Mesh::new();
    let own = mesh.tree.root();
    declare(&mesh, 1, &[WEB]);
    assert_eq!(word(&declare(&mesh, 2, &[])), Word::Removed);
    go_off(own);
    assert!(rules().contains("8080"), "{}", rules());
    // At its interval, and at boot: the bus would be cut off again.
    let again = declare(&mesh, 2, &[]);
    assert!(word(&again) == Word::Failed && again[0].cause.contains("that was undone"), "{again:?}");
    assert!(rules().contains("8080"), "{}", rules());
    assert_eq!(word(&declare(&mesh, 3, &[])), Word::Removed);
    assert!(!rules().contains("8080"), "{}", rules());
    let set = token(own).unwrap();
    session::confirm(&Site::beside(own), 3).unwrap();
    end(&set);
    // The same with fewer sources.
    declare(&mesh, 4, &[DB]);
    assert_eq!(word(&declare(&mesh, 5, &[DB_LESS])), Word::Updated);
    go_off(own);
    let again = declare(&mesh, 5, &[DB_LESS]);
    assert!(word(&again) == Word::Failed && again[0].cause.contains("that was undone"), "{again:?}");
    declare(&mesh, 6, &[]);
    end(&token(own).unwrap());
}
