//! Containers that run to an end: once, or at times.

use crate::lab::{IMAGE, Lab, exists, is};
use mesh_model::report::Word;

fn once(lab: &Lab, folder: &str, script: &str) -> String {
    let name = lab.name("once");
    format!(
        r#"{{"id":"m","type":"container","name":"{name}","image":"{IMAGE}","network":"none","run-once":true,"volumes":["{folder}:/out"],"args":["sh","-c","{script}"]}}"#
    )
}

fn lines(lab: &Lab) -> usize {
    std::fs::read_to_string(lab.path("out/log")).unwrap_or_default().lines().count()
}

#[test]
fn h67_a_container_that_runs_once_runs_once() {
    let lab = Lab::new("h67");
    std::fs::create_dir(lab.path("out")).unwrap();
    let declared = once(&lab, &lab.path("out"), "echo ran >> /out/log");
    is(&lab.one(&declared), Word::Created, "");
    for _ in 0..2 {
        is(&lab.one(&declared), Word::Unchanged, "");
    }
    assert_eq!((lines(&lab), exists(&lab.name("once"))), (1, false));
    // A changed declaration runs again, and so does the first one.
    is(&lab.one(&once(&lab, &lab.path("out"), "echo again >> /out/log")), Word::Created, "");
    is(&lab.one(&declared), Word::Created, "");
    assert_eq!(lines(&lab), 3);
}

#[test]
fn h69_while_it_fails_what_follows_waits_and_it_runs_again_at_the_next_apply() {
    let lab = Lab::new("h69");
    std::fs::create_dir(lab.path("out")).unwrap();
    let declared = once(&lab, &lab.path("out"), "echo ran >> /out/log; test -e /out/ready");
    let file = format!(r#"{{"id":"f","type":"file","path":"{}","content":"x"}}"#, lab.path("after"));
    let resources = [declared, file];
    assert_eq!(lab.apply(&resources), ["m failed", "f not-attempted"]);
    assert!(!std::path::Path::new(&lab.path("after")).exists());
    assert_eq!(lab.apply(&resources), ["m failed", "f not-attempted"]);
    assert_eq!(lines(&lab), 2);
    std::fs::write(lab.path("out/ready"), "").unwrap();
    assert_eq!(lab.apply(&resources), ["m created", "f created"]);
    assert_eq!((lines(&lab), exists(&lab.name("once"))), (3, false));
}

#[test]
fn one_that_does_not_end_is_ended_at_its_limit() {
    let lab = Lab::new("limit");
    std::fs::create_dir(lab.path("out")).unwrap();
    let declared = once(&lab, &lab.path("out"), "sleep 1000")
        .replace(r#""run-once":true"#, r#""run-once":true,"limit":"1s""#);
    let outcome = lab.one(&declared);
    assert!(outcome.word == Word::Failed && outcome.cause.contains("did not end within 1 s"), "{outcome:?}");
    assert!(!crate::lab::is_running(&lab.name("once")));
}

#[test]
fn a_schedule_is_installed_run_by_hand_and_taken_out() {
    let lab = Lab::new("cron");
    std::fs::create_dir(lab.path("out")).unwrap();
    let name = lab.name("job");
    let declared = |schedule: &str| {
        format!(
            r#"{{"id":"j","type":"container","name":"{name}","image":"{IMAGE}","network":"none","schedule":"{schedule}","zone":"Europe/Berlin","env":{{"WORD":"spoken"}},"volumes":["{}:/out"],"args":["sh","-c","echo $WORD >> /out/log; test ! -e /out/bad"]}}"#,
            lab.path("out")
        )
    };
    is(&lab.one(&declared("30 2 * * *")), Word::Created, "");
    assert_eq!((lines(&lab), exists(&name)), (0, false));
    is(&lab.one(&declared("30 2 * * *")), Word::Unchanged, "");
    lab.run("j").unwrap();
    assert_eq!(std::fs::read_to_string(lab.path("out/log")).unwrap(), "spoken\n");
    assert!(!exists(&name));
    // A run that fails is told, and changes nothing about the apply.
    std::fs::write(lab.path("out/bad"), "").unwrap();
    assert!(lab.run("j").unwrap_err().contains("exited with 1"));
    is(&lab.one(&declared("30 2 * * *")), Word::Unchanged, "");
    std::fs::remove_file(lab.path("out/bad")).unwrap();
    lab.run("j").unwrap();
    assert_eq!(lines(&lab), 3);
    is(&lab.one(&declared("0 4 * * *")), Word::Updated, "");
    // What its runs need was removed by hand.
    std::fs::remove_file(lab.path(&format!("var/lib/mesh-host/env/{name}"))).unwrap();
    is(&lab.one(&declared("0 4 * * *")), Word::Corrected, "content");
    assert_eq!(lab.apply(&[]), ["j removed"]);
    assert!(!std::path::Path::new(&lab.path(&format!("var/lib/mesh-host/env/{name}"))).exists());
    assert!(lab.run("j").unwrap_err().contains("is not a scheduled resource"));
}

#[test]
fn the_daemon_runs_what_is_due() {
    let lab = Lab::new("serve");
    std::fs::create_dir(lab.path("out")).unwrap();
    let declared = format!(
        r#"{{"id":"j","type":"container","name":"{}","image":"{IMAGE}","network":"none","schedule":"* * * * *","volumes":["{}:/out"],"args":["sh","-c","echo ran >> /out/log"]}}"#,
        lab.name("job"),
        lab.path("out")
    );
    is(&lab.one(&declared), Word::Created, "");
    // The program itself, with the state of this test instead of the machine's.
    let script = format!(
        "mkdir -p /var/lib/mesh-host /run/mesh-host && mount --bind {0}/var/lib/mesh-host /var/lib/mesh-host && \
         mount --bind {0}/run/mesh-host /run/mesh-host && exec {1} serve",
        lab.path(""),
        env!("CARGO_BIN_EXE_mesh-host")
    );
    let mut daemon =
        std::process::Command::new("unshare").args(["--mount", "sh", "-c", &script]).spawn().unwrap();
    let until = std::time::Instant::now() + std::time::Duration::from_secs(90);
    while lines(&lab) == 0 && std::time::Instant::now() < until {
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
    let ended = daemon.kill().and_then(|()| daemon.wait());
    assert!(ended.is_ok() && lines(&lab) == 1, "{} runs", lines(&lab));
}
