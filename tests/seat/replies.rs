//! Who may be answered: the guard of reply subjects.

use crate::play::{Play, asked};
use mesh_model::provisioner::VERB;
use mesh_provisioner::seat::Event;

const REFUSED: &str =
    "which is not allowed: use an inbox under _INBOX or _R_, or one that --reply-prefix names";

fn refused(reply: &str) -> String {
    format!("warn: request with the reply subject {reply:?}, {REFUSED}")
}

#[test]
fn nothing_is_published_where_only_the_seat_may_write() {
    for reply in [
        "$KV.mesh-provisioner_registry.injected",
        "$JS.API.STREAM.DELETE.KV_mesh-provisioner_registry",
        "$SRV.PING",
        VERB,
        "mesh-provisioner.x",
        "_INBOX_reader.1",
        "_INBOX.*",
        "_INBOX.a.>",
        "_INBOX..a",
        "foo",
        "",
    ] {
        let mut play = Play::serving();
        play.tell(asked(reply, r#"{"what":"health"}"#)).is([refused(reply)]);
        // The guard stands before everything, a bad request included.
        play.tell(asked(reply, "nonsense")).nothing();
        play.tell(Event::Request {
            subject: "$SRV.PING".to_owned(),
            reply: Some(reply.to_owned()),
            body: vec![],
        })
        .nothing();
        assert_eq!(play.seat.health(play.now).counters.refused_replies, 3);
    }
}

#[test]
fn the_seat_answers_into_the_inbox_of_a_seat_by_the_services_api_alone() {
    let mut play = Play::serving();
    let inbox = "_INBOX_mesh.provisioner.OTHER.1";
    play.tell(asked(inbox, r#"{"what":"health"}"#)).is([refused(inbox)]);
    let ping =
        Event::Request { subject: "$SRV.PING".to_owned(), reply: Some(inbox.to_owned()), body: vec![] };
    assert!(play.tell(ping).lines()[0].starts_with(&format!("to {inbox}: ")));
}

#[test]
fn inboxes_and_the_prefixes_of_the_operator_are_answered() {
    let mut play = Play::with(|settings| settings.reply_prefixes = vec!["_MINE.a".to_owned()]);
    play.connect();
    for reply in ["_INBOX.a.b", "_INBOX_mesh.node.attic.1", "_R_.x.1", "_MINE.a.7"] {
        let lines = play.tell(asked(reply, "nonsense")).lines();
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].starts_with(&format!("to {reply}: 400 ")), "{lines:?}");
    }
    play.tell(asked("_MINE.b", "")).is([refused("_MINE.b")]);
}

#[test]
fn a_request_without_a_reply_subject_is_counted_and_said_once_a_minute() {
    let mut play = Play::serving();
    let silent = || Event::Request { subject: VERB.to_owned(), reply: None, body: vec![] };
    play.tell(silent()).is(["warn: request without a reply subject: no response can be sent"]);
    for _ in 1..1_000 {
        play.tell(silent()).nothing();
    }
    play.tell_after(59_999, silent()).nothing();
    play.tell_after(1, silent()).is([
        "warn: request without a reply subject: no response can be sent (and 1000 more like it since the last such line)",
    ]);
    let counters = play.seat.health(play.now).counters;
    assert_eq!((counters.without_reply, counters.requests, counters.answers), (1_002, 1_002, 0));
}
