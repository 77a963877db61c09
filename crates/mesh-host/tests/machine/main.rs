//! The built program in a machine that boots: systemd, dpkg and apt, accounts, podman. `MESH_MACHINE` names the tree of the
//! machine (`packaging/lib/machine.sh`); root alone can boot one.

mod containers;
mod firewalld;
mod machine;
mod managers;
mod own;
mod packages;
mod sample;
mod services;
