//! A mesh to measure: a real server under the shipped configuration, buckets of a wanted size, and a seat.

use mesh_jetstream::bucket::Kv;
use std::fs;

use mesh_model::bucket::Bucket;
use mesh_model::name::encode;
use serde_json::{Value, json};

use crate::raw::Raw;
use crate::support::accounts::{SEAT, TESTER};
use crate::support::mesh::init;
use crate::support::seat::Seat;
use crate::support::server::Server;

/// How many needs a node has.
pub(crate) const NEEDS_A_NODE: usize = 100;

const MODULES_A_NODE: usize = 10;

/// The kinds of a module's needs, sorted, so that keys are written in their own order.
const KINDS: [&str; 10] =
    ["access", "bound", "config", "consumers", "dir", "environment", "machine", "port", "seat", "secret"];

/// How many writes are on their way at a time.
const WINDOW: usize = 500;

/// The server and what is in its buckets.
pub(crate) struct Mesh {
    pub(crate) server: Server,
    nodes: usize,
}

/// What a connection has sent and received.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Traffic {
    pub(crate) sent_messages: u64,
    pub(crate) sent_bytes: u64,
    pub(crate) received_bytes: u64,
}

impl Mesh {
    /// Empty buckets.
    pub(crate) fn start() -> Self {
        let server = Server::start();
        init(&server);
        Mesh { server, nodes: 0 }
    }

    /// Fills the buckets up to this many needs; what each node needs is applied after it was written.
    pub(crate) fn fill(&mut self, needs: usize) {
        let mut writer = self.raw("filler");
        for node in self.nodes..needs / NEEDS_A_NODE {
            self.nodes += 1;
            let name = node_name(node);
            let modules = (0..MODULES_A_NODE).map(|module| format!("{name}.m{module}"));
            let wanted = modules.clone().flat_map(|module| {
                KINDS.map(|kind| (format!("{module}.{kind}.{kind}-of-it"), value_of(kind)))
            });
            write(&mut writer, Bucket::Needs, wanted);
            write(&mut writer, Bucket::Applied, modules.map(|module| (module, value_of("applied"))));
            let collection = encode("environment:environment-of-it");
            let contribution = (format!("{name}.{collection}.m0"), value_of("contribution"));
            write(&mut writer, Bucket::Collect, [contribution]);
        }
    }

    /// Writes one need again, as somewhere in a mesh that is in use somebody always does.
    pub(crate) fn touch(&self, writer: &mut Raw, at: usize) {
        let key = format!("{}.m0.access.access-of-it", node_name(at * 31 % self.nodes));
        write(writer, Bucket::Needs, [(key, value_of("access"))]);
    }

    /// How many nodes there are.
    pub(crate) const fn nodes(&self) -> usize {
        self.nodes
    }

    /// A seat that answers.
    pub(crate) fn seat(&self) -> Seat {
        let mut seat = Seat::start(&self.server, &[]);
        seat.wait_ready();
        seat
    }

    /// A client that may do everything.
    pub(crate) fn raw(&self, name: &str) -> Raw {
        Raw::connect(self.server.address(), &TESTER, name)
    }

    /// What the seat's connections have sent and received so far.
    pub(crate) fn traffic_of_the_seat(&self) -> Traffic {
        let connections = self.server.connections_of(&SEAT.user);
        assert!(!connections.is_empty(), "the seat is connected");
        let number = |field: &str| {
            let of_each = connections.iter().map(|connection| connection[field].as_u64());
            of_each.sum::<Option<u64>>().expect("a number of the server")
        };
        Traffic {
            sent_messages: number("in_msgs"),
            sent_bytes: number("in_bytes"),
            received_bytes: number("out_bytes"),
        }
    }

    /// The server's version in words.
    pub(crate) fn version(&self) -> String {
        let (major, minor, patch) = self.server.version();
        format!("{major}.{minor}.{patch}")
    }
}

/// The name of a node by its number; names sort as numbers do.
pub(crate) fn node_name(node: usize) -> String {
    format!("n{node:05}")
}

/// About 150 bytes, as a need of a real module has.
fn value_of(kind: &str) -> Value {
    json!({
        "wanted": kind, "version": 3, "since": "2026-11-29T13:26:00Z", "required": true,
        "note": "what a module's file asks for, with some words on why",
    })
}

fn write(writer: &mut Raw, bucket: Bucket, entries: impl IntoIterator<Item = (String, Value)>) {
    let prefix = Kv::new(bucket.name()).subject_prefix();
    let reply = writer.reply_subject(0);
    let entries: Vec<_> = entries.into_iter().collect();
    for chunk in entries.chunks(WINDOW) {
        for (key, value) in chunk {
            writer.publish(&format!("{prefix}{key}"), &reply, value.to_string().as_bytes());
        }
        writer.flush();
        for _ in chunk {
            let answer: Value = serde_json::from_slice(writer.next().body).expect("JSON of the bus");
            assert!(answer["seq"].as_u64() > Some(0), "not stored: {answer}");
        }
    }
}

/// The most resident memory of a process since [`forget_peak`], in kilobytes.
pub(crate) fn peak_of(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).expect("the process runs");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("the peak");
    peak.trim().trim_end_matches(" kB").parse().expect("a number of kilobytes")
}

/// Has the peak of a process's resident memory counted from now on.
pub(crate) fn forget_peak(process: u32) {
    fs::write(format!("/proc/{process}/clear_refs"), "5").expect("the process is ours");
}
