//! Firewalld, told by its own tool: now and for later, without a reload, which would drop what others added.

use super::{Opened, said, tool};
use crate::outcome::Failure;
use std::collections::BTreeSet;
use std::fs;

/// Whether it runs in this network. Under systemd it writes no file with its number.
pub(super) fn runs() -> bool {
    let network = |number: &str| fs::read_link(format!("/proc/{number}/ns/net")).ok();
    let Ok(entries) = fs::read_dir("/proc") else { return false };
    let numbers = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    numbers.filter(|number| number.bytes().all(|byte| byte.is_ascii_digit())).any(|number| {
        fs::read_to_string(format!("/proc/{number}/comm")).is_ok_and(|name| name.trim() == "firewalld")
            && network(&number) == network("self")
    })
}

pub(super) fn list() -> Result<String, String> {
    said("firewall-cmd", &["--list-all"])
}

/// From where the port is let in; `None`: it is not.
pub(super) fn from(said: &str, opened: &Opened) -> Option<BTreeSet<String>> {
    let name = format!("{}/{}", opened.port, opened.protocol);
    let ports = said.lines().filter_map(|line| line.trim().strip_prefix("ports:"));
    if ports.flat_map(str::split_whitespace).any(|port| port == name) {
        return Some(BTreeSet::new());
    }
    let of_port = format!("port port=\"{}\" protocol=\"{}\" accept", opened.port, opened.protocol);
    let source = |line: &str| Some(line.split_once("source address=\"")?.1.split_once('"')?.0.to_owned());
    let sources: BTreeSet<String> =
        said.lines().filter(|line| line.contains(&of_port)).filter_map(source).collect();
    Some(sources).filter(|sources| !sources.is_empty())
}

/// What is added or removed for one source.
pub(super) fn argument(opened: &Opened, from: Option<&str>, word: &str) -> String {
    let Opened { port, protocol, .. } = opened;
    match from {
        None => format!("--{word}-port={port}/{protocol}"),
        Some(from) => {
            let family = if from.contains(':') { "ipv6" } else { "ipv4" };
            format!(
                "--{word}-rich-rule=rule family=\"{family}\" source address=\"{from}\" port port=\"{port}\" \
                 protocol=\"{protocol}\" accept"
            )
        }
    }
}

pub(super) fn open(opened: &Opened) -> Result<(), Failure> {
    if let Some(before) = from(&list().map_err(Failure::NotAnswered)?, opened) {
        close(&Opened { from: before, ..opened.clone() })?;
    }
    each(opened, "add")
}

pub(super) fn close(opened: &Opened) -> Result<(), Failure> {
    each(opened, "remove")
}

fn each(opened: &Opened, word: &str) -> Result<(), Failure> {
    for from in opened.sources() {
        let argument = argument(opened, from, word);
        tool("firewall-cmd", &["--permanent", &argument])?;
        tool("firewall-cmd", &[&argument])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::Opened;
    use super::{argument, from};
    use std::collections::BTreeSet;

    #[test]
    fn rules_are_read_as_firewalld_writes_them() {
        let said = "public (active)\n  services: ssh\n  ports: 8080/tcp 53/udp\n  rich rules: \n\
                    \trule family=\"ipv4\" source address=\"10.0.0.0/8\" port port=\"5432\" protocol=\"tcp\" accept\n";
        let opened = |name: &str| Opened::new(name, &BTreeSet::new()).unwrap();
        assert_eq!(from(said, &opened("8080/tcp")), Some(BTreeSet::new()));
        assert_eq!(from(said, &opened("8080/udp")), None);
        assert_eq!(from(said, &opened("5432/tcp")), Some(BTreeSet::from(["10.0.0.0/8".to_owned()])));
        let rule = argument(&opened("5432/tcp"), Some("fd00::/8"), "add");
        assert!(rule.contains("family=\"ipv6\"") && rule.starts_with("--add-rich-rule="), "{rule}");
    }
}
