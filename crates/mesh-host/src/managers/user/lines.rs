//! The files of accounts, line by line. What is not understood stays as it is.

use crate::facts::AccountFact;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

/// `passwd`, `group` and `shadow` of one tree.
#[derive(Debug)]
pub(super) struct Tables {
    passwd: Vec<String>,
    group: Vec<String>,
    /// `None`: the tree has none.
    shadow: Option<Vec<String>>,
}

/// The numbers of accounts: those of the system, and those of people.
const SYSTEM: std::ops::RangeInclusive<u32> = 100..=999;
const PEOPLE: std::ops::RangeInclusive<u32> = 1_000..=59_999;

impl Tables {
    pub(super) fn read(etc: &Path) -> io::Result<Self> {
        let read = |name: &str| match fs::read_to_string(etc.join(name)) {
            Ok(text) => Ok(Some(text.lines().map(str::to_owned).collect::<Vec<_>>())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        };
        // Only root may read the third one, and only root changes accounts.
        let shadow = read("shadow").unwrap_or_default();
        let (passwd, group) = (read("passwd")?.unwrap_or_default(), read("group")?.unwrap_or_default());
        Ok(Self { passwd, group, shadow })
    }

    pub(super) fn user(&self, name: &str) -> Option<&str> {
        line(&self.passwd, name)
    }

    /// Lines of accounts that another source of names knows.
    pub(super) fn add_users(&mut self, text: &str) {
        self.passwd.extend(text.lines().map(str::to_owned));
    }

    pub(super) fn account(&self, name: &str) -> Option<AccountFact> {
        let fields: Vec<&str> = self.user(name)?.split(':').collect();
        let number = |place: usize| fields.get(place)?.parse().ok();
        let (uid, gid) = (number(2)?, number(3)?);
        let text = |place: usize| fields.get(place).copied().unwrap_or_default().to_owned();
        let first = |line: &String| line.split(':').next().unwrap_or_default().to_owned();
        let groups = self.group.iter().filter(|line| members(line).any(|member| member == name)).map(first);
        let group = self.groups().into_iter().find(|(_, number)| *number == gid).map(|(name, _)| name);
        Some(AccountFact { uid, gid, group, groups: groups.collect(), home: text(5), shell: text(6) })
    }

    fn groups(&self) -> BTreeMap<String, u32> {
        let one = |line: &String| {
            let mut fields = line.split(':');
            Some((fields.next()?.to_owned(), fields.nth(1)?.parse().ok()?))
        };
        self.group.iter().filter_map(one).collect()
    }

    pub(super) fn group(&self, name: &str) -> Option<u32> {
        self.groups().get(name).copied()
    }

    /// The declared number, if nobody has it; or one that is free.
    pub(super) fn free(&self, uid: Option<u32>, system: bool) -> Result<u32, String> {
        let taken = |number: u32| {
            let is =
                |line: &String| line.split(':').nth(2).and_then(|text| text.parse().ok()) == Some(number);
            self.passwd.iter().any(is)
        };
        match uid {
            Some(uid) if taken(uid) => Err(format!("the uid {uid} is another user's")),
            Some(uid) => Ok(uid),
            None => range(system)
                .find(|number| !taken(*number) && !self.groups().values().any(|gid| gid == number))
                .ok_or_else(|| "no uid is free".to_owned()),
        }
    }

    /// Adds a group, with the number `like` if nobody has it.
    pub(super) fn add_group(&mut self, name: &str, like: u32, system: bool) -> Result<u32, String> {
        let groups = self.groups();
        let taken = |number: &u32| groups.values().any(|gid| gid == number);
        let gid = Some(like)
            .filter(|like| !taken(like))
            .or_else(|| range(system).find(|number| !taken(number)))
            .ok_or_else(|| "no gid is free".to_owned())?;
        self.group.push(format!("{name}:x:{gid}:"));
        Ok(gid)
    }

    pub(super) fn add_user(&mut self, name: &str, fact: AccountFact) {
        let AccountFact { uid, gid, home, shell, .. } = fact;
        self.passwd.push(format!("{name}:x:{uid}:{gid}::{home}:{shell}"));
        if let Some(shadow) = &mut self.shadow {
            shadow.push(format!("{name}:!:::::::"));
        }
    }

    pub(super) fn change(&mut self, name: &str, home: Option<&str>, shell: Option<&str>) {
        let own = |line: &&mut String| line.split(':').next() == Some(name);
        for line in self.passwd.iter_mut().filter(own) {
            let mut fields: Vec<&str> = line.split(':').collect();
            for (place, value) in [(5, home), (6, shell)] {
                if let (Some(field), Some(value)) = (fields.get_mut(place), value) {
                    *field = value;
                }
            }
            *line = fields.join(":");
        }
    }

    /// Makes `name` a member of groups.
    pub(super) fn join(&mut self, name: &str, groups: &[String]) -> Result<(), String> {
        for group in groups {
            let own = |line: &&mut String| line.split(':').next() == Some(group);
            let line = self.group.iter_mut().find(own).ok_or_else(|| format!("there is no group {group}"))?;
            if !members(line).any(|member| member == name) {
                let comma = if members(line).next().is_none() { "" } else { "," };
                line.push_str(comma);
                line.push_str(name);
            }
        }
        Ok(())
    }

    pub(super) fn write(&self, etc: &Path) -> io::Result<()> {
        // Groups first: an account whose group is not known yet would be the worse half.
        replace(etc, "group", &self.group)?;
        if let Some(shadow) = &self.shadow {
            replace(etc, "shadow", shadow)?;
        }
        replace(etc, "passwd", &self.passwd)
    }
}

const fn range(system: bool) -> std::ops::RangeInclusive<u32> {
    if system { SYSTEM } else { PEOPLE }
}

fn line<'l>(lines: &'l [String], name: &str) -> Option<&'l str> {
    lines.iter().map(String::as_str).find(|line| line.split(':').next() == Some(name))
}

fn members(line: &str) -> impl Iterator<Item = &str> {
    line.split(':').nth(3).unwrap_or_default().split(',').filter(|member| !member.is_empty())
}

/// Puts the lines in place of a file, with its mode and owner.
fn replace(etc: &Path, name: &str, lines: &[String]) -> io::Result<()> {
    let mut text = lines.join("\n");
    text.push('\n');
    let (path, temporary) = (etc.join(name), etc.join(format!("{name}.mesh-host")));
    if fs::read_to_string(&path).is_ok_and(|found| found == text) {
        return Ok(());
    }
    let found = fs::metadata(&path).ok();
    fs::create_dir_all(etc)?;
    // Hashes of passwords pass through here: nobody else reads the file before it has its mode.
    if let Err(error) = fs::remove_file(&temporary)
        && error.kind() != io::ErrorKind::NotFound
    {
        return Err(error);
    }
    let mut options = fs::OpenOptions::new();
    std::os::unix::fs::OpenOptionsExt::mode(options.write(true).create_new(true), 0o600);
    let mut file = options.open(&temporary)?;
    io::Write::write_all(&mut file, text.as_bytes())?;
    if let Some(found) = found.as_ref().filter(|_| rustix::process::geteuid().is_root()) {
        std::os::unix::fs::fchown(&file, Some(found.uid()), Some(found.gid()))?;
    }
    file.set_permissions(fs::Permissions::from_mode(found.map_or(0o644, |found| found.mode() & 0o7777)))?;
    file.sync_all()?;
    fs::rename(&temporary, &path)?;
    fs::File::open(etc)?.sync_all()
}
