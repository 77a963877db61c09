//! The manual page and the completions, out of the one table of commands that the parser is made of.

use super::{Arguments, PROGRAM};
use argh::ArgsInfo;
use mesh_daemon::pages::Pages;

/// What they are made of.
pub fn pages() -> Pages {
    Pages {
        program: PROGRAM,
        summary: "finds the value of every placeholder of a node's modules",
        info: Arguments::get_args_info(),
        closing: END,
    }
}

const END: &str = ".SH ENVIRONMENT\n.TP\n.B MESH_TOKEN\nthe token of join, in place of an argument\n.TP\n\
.BR NATS_URL \", \" NATS_CA \", \" NATS_NKEY \", \" NATS_CREDS \", \" NATS_USER \", \" NATS_PASSWORD\n\
override what joining wrote\n.TP\n.B RUST_LOG\nwhat goes into the log: error, warn, info or debug\n\
.SH EXIT STATUS\n0 done; 1 failed; 2 plan found something; 3 something waits; 5 the host failed; \
64 the command line is wrong; 69 the bus cannot be reached, or nobody answers; 75 another client serves this node; 77 the bus \
denies a right; 78 the configuration is wrong.\n.SH FILES\n.TP\n\
.I /etc/mesh\\-provisioner\\-client/client.json\nmesh, node, servers and pin, as joining wrote them\n.TP\n\
.I /var/lib/mesh\\-provisioner\\-client/bus.nk\nthe seed of this node's key on the bus, mode 0600\n.TP\n\
.I /var/lib/mesh\\-provisioner\\-client/journal\nwhat was handed over, and how it ended; no value is in it\n.TP\n\
.I /run/mesh\\-provisioner\\-client/status.json\nhow every module stands\n.TP\n\
.I /run/mesh\\-host/host.sock\nthe host\n.SH SEE ALSO\n.BR mesh\\-host (8),\n\
/usr/share/doc/mesh\\-provisioner\\-client\n";
