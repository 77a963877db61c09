//! Ufw, told by its own tool. Our rules have a comment.

use super::{Opened, said, tool};
use crate::outcome::Failure;
use std::collections::BTreeSet;

pub(super) fn list() -> Result<String, String> {
    said("ufw", &["show", "added"])
}

/// From where the port is let in; `None`: it is not.
pub(super) fn from(said: &str, opened: &Opened) -> Option<BTreeSet<String>> {
    let (port, protocol) = (opened.port.to_string(), opened.protocol.as_str());
    let mut sources = BTreeSet::new();
    let mut everywhere = false;
    for line in said.lines() {
        let line = line.split(" comment ").next().unwrap_or_default();
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["ufw", "allow", short] if *short == port || *short == format!("{port}/{protocol}") => {
                everywhere = true;
            }
            ["ufw", "allow", "from", source, "to", "any", "port", number, rest @ ..]
                if *number == port && (rest.is_empty() || rest == ["proto", protocol]) =>
            {
                sources.insert((*source).to_owned());
            }
            _ => {}
        }
    }
    if everywhere { Some(BTreeSet::new()) } else { Some(sources).filter(|sources| !sources.is_empty()) }
}

fn words<'o>(opened: &'o Opened, port: &'o str, from: Option<&'o str>) -> Vec<&'o str> {
    vec!["allow", "proto", &opened.protocol, "from", from.unwrap_or("any"), "to", "any", "port", port]
}

pub(super) fn open(opened: &Opened) -> Result<(), Failure> {
    let port = opened.port.to_string();
    // What it was before goes first: sources that are no longer declared.
    if let Some(before) = from(&list().map_err(Failure::NotAnswered)?, opened) {
        close(&Opened { from: before, ..opened.clone() })?;
    }
    for from in opened.sources() {
        let mut words = words(opened, &port, from);
        words.extend(["comment", "mesh-host"]);
        tool("ufw", &words)?;
    }
    Ok(())
}

pub(super) fn close(opened: &Opened) -> Result<(), Failure> {
    let port = opened.port.to_string();
    for from in opened.sources() {
        tool("ufw", &[vec!["--force", "delete"], words(opened, &port, from)].concat())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::Opened;
    use super::from;
    use std::collections::BTreeSet;

    #[test]
    fn rules_are_read_as_ufw_writes_them() {
        let said = "Added user rules (see 'ufw status' for running firewall):\nufw allow 22/tcp\n\
                    ufw allow 8080/tcp comment 'mesh-host'\n\
                    ufw allow from 10.0.0.0/8 to any port 53 proto udp comment 'mesh-host'\n\
                    ufw allow from 10.9.0.1 to any port 53 proto tcp\nufw deny 99/tcp\n";
        let ask = |name: &str| from(said, &Opened::new(name, &BTreeSet::new()).unwrap());
        assert_eq!(ask("8080/tcp"), Some(BTreeSet::new()));
        assert_eq!(ask("8080/udp"), None);
        assert_eq!(ask("53/udp"), Some(BTreeSet::from(["10.0.0.0/8".to_owned()])));
        assert_eq!(ask("99/tcp"), None);
    }
}
