//! What befalls the bus, the line to it, the seat and its registry: three hands that draw from one seed, so that their
//! faults meet in every way.

use super::Soak;
use super::chance::Chance;
use super::support::accounts::{READER, TESTER};
use super::support::bucket::{NEEDS, REGISTRY};
use super::support::client::Client;
use super::support::server::Server;
use super::support::verb::VERB;
use super::support::wire::headers;
use mesh_model::registry::ENTRIES;
use std::time::Duration;

/// How long somebody's write to the registry may take.
const BY_HAND: Duration = Duration::from_secs(5);

/// Headers that break the connection to which the message is delivered.
const POISON: &[u8] = b"NATS/1.0\r\nX-Bad: \xff\xfe\r\n\r\n";

/// What befalls the bus.
#[derive(Clone, Copy)]
enum Bus {
    Restart,
    Freeze,
}

/// Ends and starts the server, and has it stand still.
pub(crate) fn bus(soak: &Soak, server: &mut Server, mut chance: Chance) {
    while !soak.pause(chance.between(8_000, 25_000)) {
        match chance.weighted(&[(3, Bus::Restart), (2, Bus::Freeze)]) {
            Bus::Restart => {
                let _under_way = soak.tally.disturb("server killed");
                server.kill();
                soak.pause(chance.between(0, 5_000));
                server.restart();
            }
            Bus::Freeze => {
                let _under_way = soak.tally.disturb("server frozen");
                server.freeze();
                soak.pause(chance.between(500, 20_000));
                server.thaw();
            }
        }
    }
}

/// What befalls the line between seat and bus, and the seat.
#[derive(Clone, Copy)]
enum Line {
    Cut,
    CutInAnAnswer,
    Stall,
    Refuse,
    Terminate,
    Kill,
    Freeze,
}

const LINE: [(usize, Line); 7] = [
    (4, Line::Cut),
    (3, Line::CutInAnAnswer),
    (3, Line::Stall),
    (2, Line::Refuse),
    (3, Line::Terminate),
    (2, Line::Kill),
    (2, Line::Freeze),
];

/// Cuts and stalls the line, and ends the seat in every way.
pub(crate) fn line(soak: &Soak, mut chance: Chance) {
    let proxy = &soak.proxy;
    while !soak.pause(chance.between(3_000, 15_000)) {
        match chance.weighted(&LINE) {
            Line::Cut => {
                let _under_way = soak.tally.disturb("connection cut");
                proxy.cut();
            }
            Line::CutInAnAnswer => {
                let _under_way = soak.tally.disturb("connection cut in an answer");
                proxy.cut_after(chance.below(100_000));
                soak.pause(chance.between(500, 3_000));
            }
            Line::Stall => {
                let _under_way = soak.tally.disturb("line stalled");
                proxy.stall();
                // Beyond 30 s the seat gives itself up.
                soak.pause(chance.between(500, 45_000));
                proxy.resume();
            }
            Line::Refuse => {
                let _under_way = soak.tally.disturb("connections refused");
                proxy.refuse(true);
                proxy.cut();
                soak.pause(chance.between(500, 10_000));
                proxy.refuse(false);
            }
            Line::Terminate => {
                let _under_way = soak.tally.disturb("seat told to end");
                soak.supervisor.terminate();
            }
            Line::Kill => {
                let _under_way = soak.tally.disturb("seat killed");
                soak.supervisor.kill();
            }
            Line::Freeze => {
                let _under_way = soak.tally.disturb("seat frozen");
                soak.supervisor.freeze(soak, chance.between(500, 20_000));
            }
        }
    }
}

/// What somebody does who may do everything.
#[derive(Clone, Copy)]
enum Hand {
    HangUp,
    ChangeKind,
    DeleteKind,
    StrangeKind,
    BadKeys,
    PoisonAsk,
    NoReply,
    StrangeReplies,
    SecondSeat,
}

const HAND: [(usize, Hand); 9] = [
    (3, Hand::HangUp),
    (3, Hand::ChangeKind),
    (2, Hand::DeleteKind),
    (2, Hand::StrangeKind),
    (1, Hand::BadKeys),
    (2, Hand::PoisonAsk),
    (1, Hand::NoReply),
    (1, Hand::StrangeReplies),
    (2, Hand::SecondSeat),
];

/// Changes the registry, writes what is out of shape, asks what cannot be answered, and starts a second seat.
pub(crate) fn hand(soak: &Soak, mut chance: Chance) {
    let mut client = None;
    let mut last = 0;
    while !soak.pause(chance.between(1_000, 6_000)) {
        let what = chance.weighted(&HAND);
        let Some(tester) = client
            .take()
            .filter(|client: &Client| !client.is_closed())
            .or_else(|| Client::try_connect(soak.address, &TESTER).ok())
        else {
            continue;
        };
        last += 1;
        let kind = chance.pick(&ENTRIES).kind;
        let put = |kind: &str, headers: &[u8], value: &str| {
            soak.touch(kind);
            let subject = format!("$KV.{REGISTRY}.{kind}");
            // Without an answer it may be stored or not, and the seat puts it right either way.
            let _ = tester.request_later(subject, headers, value).next(BY_HAND);
            soak.touch(kind);
        };
        match what {
            Hand::HangUp => {
                soak.tally.fault("registry pass requested");
                soak.supervisor.hang_up();
            }
            Hand::ChangeKind => {
                soak.tally.fault("registry key changed by hand");
                put(kind, &[], &format!("{{\"kind\":\"{kind}\",\"domain\":\"by hand\",\"at\":{last}}}"));
            }
            Hand::DeleteKind => {
                soak.tally.fault("registry key deleted by hand");
                put(kind, &headers(&[("KV-Operation", "DEL")]), "");
            }
            Hand::StrangeKind => {
                soak.tally.fault("strange registry key");
                put(&format!("strange{}", last % 5), &[], "{}");
            }
            Hand::BadKeys => {
                soak.tally.fault("keys that are not UTF-8");
                for bucket in [NEEDS, REGISTRY] {
                    let subject = [format!("$KV.{bucket}.attic.").as_bytes(), b"\xff\xfe.x.y"].concat();
                    let _ = tester.request_later(subject, &[], "1").next(BY_HAND);
                }
            }
            Hand::PoisonAsk => {
                let _under_way = soak.tally.disturb("ask that breaks the connection");
                let _ = tester.request_later(VERB, POISON, "{}").next(Duration::from_secs(1));
            }
            Hand::NoReply => {
                soak.tally.fault("1000 asks without a reply subject");
                for _ in 0..1000 {
                    tester.publish(VERB, "{}");
                }
            }
            Hand::StrangeReplies => {
                soak.tally.fault("asks with a reply subject that is not answered");
                for reply in ["$KV.mesh-provisioner_registry.injected", VERB, "_INBOX_mesh.provisioner.x.1"] {
                    tester.publish_with(VERB, Some(reply.as_bytes()), &[], "{}");
                }
            }
            Hand::SecondSeat => {
                // It takes asks that it cannot answer any more when it is killed.
                let _under_way = soak.tally.disturb("second seat");
                second_seat(soak, &mut chance);
            }
        }
        client = Some(tester);
    }
}

fn second_seat(soak: &Soak, chance: &mut Chance) {
    let (mut process, mut transcript) = soak.second_seat.spawn("second seat");
    soak.pause(chance.between(500, 8_000));
    if chance.one_in(2) {
        process.kill();
        return;
    }
    process.signal("TERM");
    match process.ended(Duration::from_secs(30)) {
        // It stood behind a frozen server, which is not a reason to fail.
        Some(status) if status.success() || status.code() == Some(75) => {}
        ended => {
            process.kill();
            transcript.finish();
            soak.tally.fail(&format!("the second seat was told to end: {ended:?}\n{}", transcript.text()));
        }
    }
}

/// Whether there is anybody who answers: for the end, when all faults are off.
pub(crate) fn is_answered(soak: &Soak) -> bool {
    Client::try_connect(soak.address, &READER)
        .is_ok_and(|client| client.request(VERB, "{}", Duration::from_secs(5)).is_ok())
}
