//! What the machine is, as far as a report says it.

use crate::managers::Managers;
use crate::record::{Memory, Written};
use mesh_model::report::{Facts, HeldPort};
use std::fs;
use std::path::Path;

/// What this machine is. No process is started for it, but the container runtime's once a boot.
pub fn facts(memory: &Memory, mut managers: Option<&mut Managers>) -> Facts {
    let is_machine = managers.is_some();
    let mut held: Vec<HeldPort> = Vec::new();
    for record in memory.records.values() {
        if let Written::Container(container) = &record.written {
            held.extend(
                container.ports.iter().map(|port| HeldPort { port: port.port, id: record.id.clone() }),
            );
        }
    }
    held.sort();
    held.dedup();
    let there = |program: &str| {
        let folders = crate::managers::command::PATH.split(':');
        folders.map(|folder| Path::new(folder).join(program)).any(|path| path.is_file())
    };
    Facts {
        arch: std::env::consts::ARCH.to_owned(),
        service_manager: is_machine.then(service_manager).flatten(),
        runtime: managers.as_mut().and_then(|managers| managers.runtime_words()),
        package_manager: (is_machine && there("apt-get") && there("dpkg-query")).then(|| "apt".to_owned()),
        firewall: is_machine.then(Managers::firewall).flatten(),
        ports_held: held,
        ephemeral: is_machine.then(ephemeral).flatten(),
    }
}

/// The service manager and its version, which the name of its library has.
fn service_manager() -> Option<String> {
    if !Path::new("/run/systemd/system").is_dir() {
        return None;
    }
    let library = |name: String| {
        let version = name.strip_prefix("libsystemd-shared-")?.split(['.', '-']).next()?.to_owned();
        Some(format!("systemd {version}"))
    };
    let folders =
        ["/usr/lib/systemd", "/lib/systemd", "/usr/lib/x86_64-linux-gnu/systemd", "/usr/lib64/systemd"];
    let entries =
        folders.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten().filter_map(Result::ok);
    let found = entries.filter_map(|entry| entry.file_name().into_string().ok()).find_map(library);
    Some(found.unwrap_or_else(|| "systemd".to_owned()))
}

/// The first and the last port that the machine gives to outgoing connections.
fn ephemeral() -> Option<(u16, u16)> {
    let text = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok()?;
    let mut words = text.split_whitespace().map(str::parse);
    Some((words.next()?.ok()?, words.next()?.ok()?))
}
