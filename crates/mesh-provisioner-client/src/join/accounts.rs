//! Who the client runs as, from the tree's own passwd: a static program has no other source.

use crate::site::Site;
use std::fs;

/// The user of the package.
pub(super) const USER: &str = "mesh-provisioner-client";

/// Whose the client's files are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) uid: u32,
    pub(super) gid: u32,
    /// Whether files are given to it. Whoever is not root owns what it makes.
    pub(super) gives: bool,
}

/// The user of that name, else the package's. In a tree that is not the machine, and has no such user, the one who runs the command.
pub(super) fn owner(site: &Site, name: Option<&str>) -> Result<Owner, String> {
    let (own, group) = (rustix::process::geteuid(), rustix::process::getegid());
    let is_root = own.is_root();
    if site.is_machine() && !is_root {
        return Err("joining writes settings of root and makes the host's key: run it as root, or with --root DIR for a tree that is not the machine".into());
    }
    let path = site.root().join("etc/passwd");
    let passwd = fs::read_to_string(&path).unwrap_or_default();
    let wanted = name.unwrap_or(USER);
    match find(&passwd, wanted) {
        Some((uid, gid)) => Ok(Owner { uid, gid, gives: is_root }),
        None if name.is_none() && !site.is_machine() => {
            Ok(Owner { uid: own.as_raw(), gid: group.as_raw(), gives: false })
        }
        None => Err(format!(
            "{} has no user {wanted}: install the package, or make it (useradd --system --user-group --groups mesh {wanted}), or name another with --user",
            path.display()
        )),
    }
}

fn find(passwd: &str, name: &str) -> Option<(u32, u32)> {
    let mut lines = passwd.lines().map(|line| line.split(':').collect::<Vec<_>>());
    lines.find_map(|fields| match fields[..] {
        [user, _, uid, gid, ..] if user == name => Some((uid.parse().ok()?, gid.parse().ok()?)),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_found_by_its_whole_name() {
        let passwd = "root:x:0:0:root:/root:/bin/sh\nmesh-provisioner-client2:x:1:1::/:\nmesh-provisioner-client:x:998:997::/:/usr/sbin/nologin\nodd\nbad:x:a:b::/:\n";
        assert_eq!(find(passwd, USER), Some((998, 997)));
        assert_eq!(find(passwd, "root"), Some((0, 0)));
        for none in ["mesh", "odd", "bad", ""] {
            assert_eq!(find(passwd, none), None);
        }
    }

    #[test]
    fn a_tree_without_the_user_belongs_to_whoever_joins() {
        let folder = tempfile::tempdir().unwrap();
        let site = Site::new(Some(folder.path()));
        let own = owner(&site, None).unwrap();
        assert_eq!(own.uid, rustix::process::geteuid().as_raw());
        assert!(!own.gives);
        assert!(owner(&site, Some("nobody-at-all")).unwrap_err().contains("has no user nobody-at-all"));
        fs::create_dir_all(folder.path().join("etc")).unwrap();
        fs::write(folder.path().join("etc/passwd"), "mesh-provisioner-client:x:998:997::/:\n").unwrap();
        assert_eq!(owner(&site, None).map(|owner| (owner.uid, owner.gid)), Ok((998, 997)));
    }
}
