//! The firewall of the machine.

use std::fs;
use std::path::Path;

/// Which firewall is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// Ufw, which is enabled.
    Ufw,
    /// Firewalld, which runs.
    Firewalld,
    /// Neither; the kernel's own tables are there.
    Nftables,
}

impl Found {
    /// Its name.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Ufw => "ufw",
            Self::Firewalld => "firewalld",
            Self::Nftables => "nftables",
        }
    }

    /// Looks for it; no process is started. `None`: there is no tool for any.
    pub(super) fn find() -> Option<Self> {
        let ufw = fs::read_to_string("/etc/ufw/ufw.conf").unwrap_or_default();
        if ufw.lines().any(|line| line.trim().eq_ignore_ascii_case("enabled=yes")) {
            return Some(Self::Ufw);
        }
        if Path::new("/run/firewalld.pid").exists() || Path::new("/run/firewalld/firewalld.pid").exists() {
            return Some(Self::Firewalld);
        }
        let folders = super::command::PATH.split(':');
        folders
            .map(|folder| Path::new(folder).join("nft"))
            .any(|path| path.is_file())
            .then_some(Self::Nftables)
    }
}
