//! A bucket on another server of a cluster than the seat's, which forgets it.

use crate::support::accounts::TESTER;
use crate::support::bucket::NEEDS;
use crate::support::mesh;
use crate::support::seat::Seat;
use crate::support::server::Server;
use crate::support::setup::Setup;
use crate::support::verb::AsksTheSeat;
use crate::support::wait::{self, PATIENCE};
use serde_json::{Value, json};
use std::net::TcpListener;
use std::time::Duration;

/// Three servers with streams, each of which knows the routes of all.
fn three() -> [Server; 3] {
    let free = [(); 3].map(|()| TcpListener::bind("127.0.0.1:0").expect("a port"));
    let ports = free.map(|listener| listener.local_addr().expect("an address").port());
    let routes = ports.map(|port| format!("\"nats://127.0.0.1:{port}\"")).join(", ");
    let mut names = ["a", "b", "c"].into_iter();
    ports.map(|port| {
        let name = names.next().expect("a name");
        let cluster = format!(
            "server_name: {name}\ncluster {{ name: mesh, listen: \"127.0.0.1:{port}\", routes: [{routes}] }}"
        );
        Setup::shipped().append(&cluster).start()
    })
}

#[test]
fn f02_a_memory_bucket_that_began_anew_behind_the_same_sequences_is_read_anew() {
    let mut servers = three();
    let keys = || (0..33).map(|at| format!("n1.web.port.p{at:02}"));
    for server in &servers {
        wait::until("a leader of the cluster", PATIENCE, || {
            let cluster = server.monitor("/jsz")["meta_cluster"].clone();
            if cluster["leader"].is_string() && cluster["cluster_size"] == 3 {
                Ok(())
            } else {
                Err(cluster.to_string())
            }
        });
    }
    let made = servers[0].client(&TESTER).create_bucket(NEEDS, &json!({"storage": "memory"}));
    let holder = made["cluster"]["leader"].as_str().and_then(|name| "abc".find(name)).expect("its server");
    let other = (holder + 1) % 3;
    mesh::init(&servers[other]);
    let mut seat = Seat::start(&servers[other], &[]);
    seat.wait_ready();
    let tester = servers[other].client(&TESTER);
    let values = || -> Vec<Value> {
        let needs = tester.ask(&json!({"what": "needs"})).good();
        needs.entries().iter().map(|entry| entry["value"].clone()).collect()
    };
    tester.kv_put_all(NEEDS, keys().map(|key| (key, "1")));
    assert_eq!(values(), vec![json!(1); 33]);

    servers[holder].restart();
    wait::until("the bucket to be there again, empty", PATIENCE * 2, || {
        // Without a leader of the stream nobody answers.
        let info = tester.request(format!("$JS.API.STREAM.INFO.KV_{NEEDS}"), "", Duration::from_secs(1));
        let info = info.map_err(|error| error.to_string())?.json();
        if info["state"]["messages"] == 0 { Ok(()) } else { Err(info.to_string()) }
    });
    tester.kv_put_all(NEEDS, keys().map(|key| (key, "2")));
    assert_eq!(tester.kv_put(NEEDS, "n1.web.port.p32", "2"), 34);
    assert_eq!(values(), vec![json!(2); 33]);
}
