//! Requests of the verb.

use crate::names::any_name;
use mesh_provisioner_api::request::{Ask, MAX_BODY_BYTES, MAX_LIMIT, What};
use proptest::option;
use proptest::prelude::*;

/// Any request that can be asked: each field only where the question takes it.
fn any_ask() -> impl Strategy<Value = Ask> {
    let fields = (
        0..What::ALL.len(),
        option::of(any_name()),
        option::of(any_name()),
        option::of(any_name()),
        option::of(any_name()),
        option::of(any::<String>().prop_filter("short", |after| after.len() < 1024)),
        option::of(1..=MAX_LIMIT),
        option::of(0..1_000_000_u64),
    );
    fields.prop_map(|(what, node, module, kind, collection, after, limit, stale_after)| {
        let what = What::ALL[what];
        let narrowed = !matches!(what, What::Registry | What::Health);
        let paged = what != What::Health;
        Ask {
            node: node.filter(|_| narrowed),
            module: module.filter(|_| narrowed),
            kind: kind.filter(|_| matches!(what, What::Registry | What::Needs)),
            collection: collection.filter(|_| what == What::Collect),
            after: after.filter(|_| paged),
            limit: limit.filter(|_| paged),
            stale_after: stale_after.filter(|_| what == What::Nodes),
            ..Ask::new(what)
        }
    })
}

proptest! {
    #[test]
    fn any_request_reads_back_as_it_was_written(ask in any_ask()) {
        prop_assert_eq!(Ask::parse(ask.to_json().as_bytes()), Ok(ask));
    }

    #[test]
    fn any_bytes_are_a_request_or_an_error(body in proptest::collection::vec(any::<u8>(), 0..400)) {
        if let Err(bad) = Ask::parse(&body) {
            prop_assert_eq!(bad.reason.code(), 400);
            prop_assert!(!bad.message.is_empty());
        }
    }

    #[test]
    fn a_damaged_request_is_read_strictly(ask in any_ask(), at in any::<usize>(), byte in any::<u8>()) {
        let mut body = ask.to_json().into_bytes();
        let at = at % body.len();
        body[at] = byte;
        // It may still be one, then it is written and read like any other.
        if let Ok(other) = Ask::parse(&body) {
            prop_assert_eq!(Ask::parse(other.to_json().as_bytes()), Ok(other));
        }
        body.truncate(at);
        prop_assert!(Ask::parse(&body).is_err() || at == 0);
    }

    #[test]
    fn a_field_that_stands_twice_is_an_error(node in any_name(), other in any_name()) {
        let body = format!(
            r#"{{"what":"needs","node":{},"node":{}}}"#,
            serde_json::Value::from(node),
            serde_json::Value::from(other)
        );
        let bad = Ask::parse(body.as_bytes()).unwrap_err();
        prop_assert_eq!((bad.reason.code(), bad.message.as_str()), (400, "the field \"node\" occurs twice"));
    }

    #[test]
    fn a_body_over_the_bound_is_refused_whatever_it_says(more in 1..1000_usize) {
        prop_assert_eq!(Ask::parse(&vec![b' '; MAX_BODY_BYTES + more]).unwrap_err().reason.code(), 413);
    }
}
