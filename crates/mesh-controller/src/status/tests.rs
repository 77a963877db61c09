use super::*;
use crate::compose::compose;
use crate::compose::tests::mesh;
use crate::plan::{Plan, plan};
use crate::store::nodes::Heard;
use mesh_model::declaration::Declaration;
use mesh_model::report::{ModuleReport, Outcome, Word as OutcomeWord};
use mesh_model::resource::Kind;
use mesh_model::signed::Envelope;
use mesh_model::signed::PayloadType;

const NOW: Moment = 10_000_000_000;

struct Case {
    plan: Plan,
    sent: Vec<Sent>,
    declaration: Declaration,
}

/// `attic` with one module, declared with sequence 7.
fn case() -> Case {
    let composed = compose(&mesh());
    let wanted = plan(&composed, &[], Some("attic"));
    let declared = wanted.nodes["attic"].declaration.clone().unwrap();
    let declaration = Declaration {
        mesh: "m".into(),
        node: "attic".into(),
        sequence: 7,
        fence: 1,
        at: "t".into(),
        vault: declared.vault,
        modules: declared.parts,
        adoption: None,
    };
    let pair = nkeys::KeyPair::new_operator();
    let value = Envelope::sign_json(PayloadType::Declaration, &declaration, &pair).unwrap().to_bytes();
    let row = Sent {
        bucket: Bucket::Declarations,
        key: "attic".into(),
        node: "attic".into(),
        module: String::new(),
        value: Some(value),
        sequence: 7,
        fence: 1,
        done: true,
        revision: 3,
        at: NOW - 60_000,
    };
    let mut empty = Plan::default();
    empty.nodes.insert("attic".into(), crate::plan::NodeChange::default());
    Case { plan: empty, sent: vec![row], declaration }
}

fn report(case: &Case, sequence: u64, state: ModuleState) -> Report {
    let mut report = Report::new(sequence, 1);
    let part = &case.declaration.modules[0];
    let module =
        ModuleReport { state, why: String::new(), assignment: part.assignment, resources: 2, changed: 0 };
    report.modules.insert(part.module.clone(), module);
    report
}

fn told(case: &Case, report: Option<&Report>, age: Moment) -> NodeStatus {
    let heard = report.map(|report| {
        let heard = Heard { at: NOW - age, revision: 1, body: Vec::new() };
        ("attic".to_owned(), (heard, Ok(report.clone())))
    });
    let reports = heard.into_iter().collect();
    let joined = ["attic".to_owned()].into();
    let known = Known {
        outstanding: &Outstanding::of_plan(&case.plan),
        declarations: &case.sent,
        undone: &BTreeMap::new(),
        reports: &reports,
        joined: &joined,
        now: NOW,
    };
    status(&known).nodes.remove(0)
}

fn words(status: &NodeStatus) -> [Option<bool>; 4] {
    [status.sent.holds, status.taken.holds, status.applied.holds, status.well.holds]
}

#[test]
fn r07_each_word_follows_what_the_machine_said_of_it() {
    let case = case();
    assert_eq!(words(&told(&case, None, 0)), [Some(true), Some(false), Some(false), None]);
    let old = told(&case, Some(&report(&case, 6, ModuleState::Applied)), 0);
    assert_eq!(words(&old), [Some(true), Some(false), Some(false), Some(true)]);
    assert!(old.wrong[0].contains("has not taken sequence 7, its machine is at 6"), "{:?}", old.wrong);
    let good = told(&case, Some(&report(&case, 7, ModuleState::Applied)), 0);
    assert_eq!(words(&good), [Some(true); 4]);
    assert!(good.wrong.is_empty(), "{:?}", good.wrong);
}

#[test]
fn r01_what_failed_is_sent_and_never_well() {
    let case = case();
    let mut failed = report(&case, 7, ModuleState::Failed);
    failed.first_failure = Some(Outcome {
        module: "web".into(),
        id: "web.image".into(),
        kind: Kind::Container,
        target: "web".into(),
        word: OutcomeWord::Failed,
        cause: "no such image".into(),
        detail: String::new(),
        from: None,
        to: None,
        asked: None,
        ms: 1,
    });
    let told = told(&case, Some(&failed), 0);
    assert_eq!(words(&told), [Some(true), Some(true), Some(false), Some(false)]);
    assert!(told.wrong.iter().any(|wrong| wrong == "web.image failed: no such image"), "{:?}", told.wrong);
}

#[test]
fn c01_a_quiet_node_is_unknown_with_its_age_and_r12_nothing_is_concluded() {
    let case = case();
    let quiet = told(&case, Some(&report(&case, 7, ModuleState::Applied)), 3 * 3_600_000);
    assert_eq!(quiet.well.holds, None);
    assert_eq!(quiet.quiet_since, Some(NOW - 3 * 3_600_000));
    assert!(quiet.wrong.iter().any(|wrong| wrong == "quiet for 180 minutes"), "{:?}", quiet.wrong);
    assert_eq!(words(&quiet)[..3], [Some(true); 3], "what it said stays said");
    let json = serde_json::to_value(&quiet).unwrap();
    assert!(json["well"]["holds"].is_null() && json["quiet_since"].is_number());
}

#[test]
fn a_report_of_another_assignment_says_nothing_of_this_one() {
    let case = case();
    let mut other = report(&case, 7, ModuleState::Applied);
    other.modules.values_mut().next().unwrap().assignment = mesh_model::digest::Digest::of(b"other");
    let told = told(&case, Some(&other), 0);
    assert_eq!((told.applied.holds, told.modules[0].state.as_str()), (Some(false), "unknown"));
}

#[test]
fn r03_a_report_that_was_lost_is_mended_by_the_next_one() {
    let case = case();
    // The report of sequence 7 did not come; that of before stands, and nothing is stuck by it.
    let lost = told(&case, Some(&report(&case, 6, ModuleState::Applied)), 9 * 60_000);
    assert_eq!(words(&lost), [Some(true), Some(false), Some(false), Some(true)]);
    assert_eq!(lost.quiet_since, None, "it is written again every ten minutes");
    // The next one says the same as the lost one, and more is not needed.
    let next = told(&case, Some(&report(&case, 7, ModuleState::Applied)), 0);
    assert_eq!(words(&next), [Some(true); 4]);
    assert!(next.wrong.is_empty(), "{:?}", next.wrong);
}

#[test]
fn r05_a_module_that_always_fails_is_said_and_holds_no_other_back() {
    let case = case();
    let mut both = report(&case, 7, ModuleState::Failed);
    let other = ModuleReport { state: ModuleState::Applied, ..both.modules.values().next().unwrap().clone() };
    both.modules.insert("other".into(), other);
    let status = told(&case, Some(&both), 0);
    assert_eq!(words(&status), [Some(true), Some(true), Some(false), Some(false)]);
    assert_eq!(status.wrong.len(), 1, "the one that fails, once: {:?}", status.wrong);
    assert!(status.wrong[0].contains("is failed"), "{:?}", status.wrong);
}
