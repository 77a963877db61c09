//! What this machine says of itself when it joins. The controller takes address and architecture from it; the rest is for
//! people.

use super::text_members;
use mesh_bus::config::address::parse_list;
use mesh_model::json::Json;
use std::fs;
use std::net::{ToSocketAddrs as _, UdpSocket};

/// The facts; `address` overrides the one that is found.
pub(super) fn facts(address: Option<&str>, servers: &[String]) -> Json {
    let address = address.map(str::to_owned).or_else(|| own_address(servers));
    let one_line = |path: &str| {
        let text = fs::read_to_string(path).ok()?;
        let line = text.lines().next()?.trim();
        (!line.is_empty()).then(|| line.chars().take(255).collect())
    };
    text_members(vec![
        ("address", address),
        ("arch", Some(std::env::consts::ARCH.to_owned())),
        ("hostname", one_line("/proc/sys/kernel/hostname")),
        ("kernel", one_line("/proc/sys/kernel/osrelease")),
        ("system", system()),
        ("version", Some(env!("CARGO_PKG_VERSION").to_owned())),
    ])
}

/// The address from which the bus is spoken to. Nothing is sent: the kernel only picks a way.
fn own_address(servers: &[String]) -> Option<String> {
    let (servers, _) = parse_list(&servers.join(",")).ok()?;
    servers.iter().find_map(|server| {
        let to = (server.host.as_str(), server.port).to_socket_addrs().ok()?.next()?;
        let any = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let socket = UdpSocket::bind(any).ok()?;
        socket.connect(to).ok()?;
        Some(socket.local_addr().ok()?.ip().to_string())
    })
}

fn system() -> Option<String> {
    let text = fs::read_to_string("/etc/os-release").ok()?;
    let name = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(name.trim_matches('"').chars().take(255).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_the_one_that_the_bus_is_spoken_to_from() {
        let servers = ["nats://127.0.0.1:4222".to_owned()];
        let own = facts(None, &servers);
        assert_eq!(own.get("address"), Some(&Json::text("127.0.0.1")));
        assert_eq!(own.get("arch"), Some(&Json::text(std::env::consts::ARCH)));
        assert_eq!(facts(Some("10.0.0.7"), &servers).get("address"), Some(&Json::text("10.0.0.7")));
        assert_eq!(facts(None, &["nats://no-such-host.invalid".to_owned()]).get("address"), None);
    }
}
