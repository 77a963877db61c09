//! A whole mesh: the bus with the shipped accounts, the four buckets, and a seat that answers.

use super::accounts::{self, ADMINISTRATOR, READER, TESTER};
use super::client::Client;
use super::program::{Finished, Program};
use super::proxy::Proxy;
use super::seat::Seat;
use super::server::Server;

/// What most tests need. The parts are there to be killed, frozen and started again.
pub(crate) struct Mesh {
    /// Dropped first: a seat that loses its server writes of nothing else in its last lines.
    pub(crate) seat: Seat,
    pub(crate) server: Server,
}

impl Mesh {
    /// A mesh under the shipped configuration.
    #[track_caller]
    pub(crate) fn start() -> Self {
        Self::start_on(Server::start(), &[])
    }

    /// A mesh on this server, with further arguments to `serve`.
    #[track_caller]
    pub(crate) fn start_on(server: Server, args: &[&str]) -> Self {
        init(&server);
        let mut seat = Seat::start(&server, args);
        seat.wait_ready();
        Self { seat, server }
    }

    /// A mesh under the shipped configuration whose seat reaches the server only through a proxy.
    #[track_caller]
    pub(crate) fn start_behind_a_proxy() -> (Self, Proxy) {
        Self::start_on_behind_a_proxy(Server::start())
    }

    /// A mesh on this server whose seat reaches it only through a proxy.
    #[track_caller]
    pub(crate) fn start_on_behind_a_proxy(server: Server) -> (Self, Proxy) {
        init(&server);
        let proxy = Proxy::start(&server);
        let mut seat = Seat::start_through(&proxy, &server, &[]);
        seat.wait_ready();
        (Self { seat, server }, proxy)
    }

    /// A client that may use all of `$JS.API`, and delete keys.
    #[track_caller]
    pub(crate) fn admin(&self) -> Client {
        self.server.client(&ADMINISTRATOR)
    }

    /// A client that may ask the verb.
    #[track_caller]
    pub(crate) fn reader(&self) -> Client {
        self.server.client(&READER)
    }

    /// A node's provisioner client, which may write the keys of its node.
    #[track_caller]
    pub(crate) fn node(&self, name: &str) -> Client {
        self.server.client(&accounts::node(name))
    }

    /// A client that may do everything.
    #[track_caller]
    pub(crate) fn tester(&self) -> Client {
        self.server.client(&TESTER)
    }
}

/// Creates the four buckets with `mesh-provisioner init`, run by the administrator.
#[track_caller]
pub(crate) fn init(server: &Server) -> Finished {
    Program::new(&["init"]).server(server).account(&ADMINISTRATOR).run().expect_code(0)
}
