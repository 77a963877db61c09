//! The manual page and the completions, out of the one table of commands that the parser is made of.

use super::{Arguments, PROGRAM};
use argh::ArgsInfo;
use mesh_daemon::pages::Pages;

/// What they are made of.
pub fn pages() -> Pages {
    Pages {
        program: PROGRAM,
        summary: "decides and signs what each node of a mesh runs",
        info: Arguments::get_args_info(),
        closing: END,
    }
}

const END: &str = ".SH EXIT STATUS\n0 done; 1 refused or failed; 2 plan found something; 3 status is not well; 64 the command line is wrong; 69 the bus \
cannot be reached, or the store is in use; 77 the bus denies a right; 78 the configuration is wrong.\n.SH FILES\n.TP\n\
.I /var/lib/mesh\\-controller/inventory.db\nnodes, modules, settings, assignments, what was sent\n.TP\n\
.I /var/lib/mesh\\-controller/identity.db\nkeys, tokens, accounts\n.TP\n.I /var/lib/mesh\\-controller/identity.nk\n\
the mesh's key, mode 0600: keep a copy of it off this machine\n.SH SEE ALSO\n.BR mesh\\-provisioner (8),\n\
/usr/share/doc/mesh\\-controller\n";
