//! The way to a path: component by component, by handles, below a trusted root.

use super::Accounts;
use crate::facts::{FileKind, Stamp};
use crate::step::Ids;
use rustix::fd::OwnedFd;
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, StatxAttributes, StatxFlags, mkdirat, openat,
    openat2, statx,
};
use rustix::io::Errno;
use std::io;
use std::path::Path;

/// A directory that is declared with an owner: at and below it, components may belong to that owner.
#[derive(Clone, Debug)]
pub struct Trust {
    /// The directory.
    pub path: String,
    /// Its declared owner.
    pub owner: String,
}

/// Walks below a root.
#[derive(Debug)]
pub struct Walker {
    root: OwnedFd,
    trust: Vec<Trust>,
    own: u32,
}

/// How a walk failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// It must not be gone: a link, a stranger's component, something that is not a directory.
    Refused(String),
    /// The system did not answer the question.
    Silent(String),
}

/// Where a walk ended.
pub(super) enum Found {
    /// The directory around the path is there.
    There(Parent),
    /// A directory on the way is not there.
    Missing {
        /// The mount point of what is there.
        mount: String,
        /// Whether anyone may pass through every directory that is there.
        open: bool,
    },
}

/// The directory around a path, and the last component.
pub(super) struct Parent {
    pub(super) directory: OwnedFd,
    pub(super) name: String,
    pub(super) mount: String,
    pub(super) path: String,
    /// Whether anyone may pass through every directory on the way.
    pub(super) open: bool,
}

/// What is at a path, without its content.
#[derive(Clone, Debug)]
pub(super) struct Stat {
    pub(super) mode: u32,
    pub(super) owner: Ids,
    pub(super) size: u64,
    pub(super) links: u32,
    pub(super) mounted: bool,
    pub(super) stamp: Stamp,
    pub(super) file_type: FileType,
}

impl Stat {
    pub(super) fn is_directory(&self) -> bool {
        self.file_type == FileType::Directory
    }

    pub(super) fn is_regular(&self) -> bool {
        self.file_type == FileType::RegularFile
    }

    /// What cannot be read any further, in words.
    pub(super) fn words(&self) -> FileKind {
        match self.file_type {
            FileType::RegularFile => FileKind::Regular,
            FileType::Fifo => FileKind::Other("a FIFO"),
            FileType::Socket => FileKind::Other("a socket"),
            FileType::CharacterDevice => FileKind::Other("a character device"),
            FileType::BlockDevice => FileKind::Other("a block device"),
            _ => FileKind::Other("of an unknown kind"),
        }
    }
}

fn wanted() -> StatxFlags {
    StatxFlags::BASIC_STATS
}

/// Looks at `name` in `directory` without following a link; an empty name is the directory itself.
pub(super) fn stat_at(directory: &OwnedFd, name: &str) -> Result<Option<Stat>, Errno> {
    let flags = if name.is_empty() { AtFlags::EMPTY_PATH } else { AtFlags::SYMLINK_NOFOLLOW };
    let raw = match statx(directory, name, flags | AtFlags::NO_AUTOMOUNT, wanted()) {
        Ok(raw) => raw,
        Err(Errno::NOENT) => return Ok(None),
        Err(error) => return Err(error),
    };
    Ok(Some(Stat {
        mode: u32::from(raw.stx_mode) & 0o7777,
        owner: Ids { uid: raw.stx_uid, gid: raw.stx_gid },
        size: raw.stx_size,
        links: raw.stx_nlink,
        mounted: raw.stx_attributes.contains(StatxAttributes::MOUNT_ROOT),
        stamp: Stamp {
            device: rustix::fs::makedev(raw.stx_dev_major, raw.stx_dev_minor),
            inode: raw.stx_ino,
            changed_ns: i128::from(raw.stx_ctime.tv_sec) * 1_000_000_000 + i128::from(raw.stx_ctime.tv_nsec),
        },
        file_type: FileType::from_raw_mode(u32::from(raw.stx_mode)),
    }))
}

impl Parent {
    pub(super) fn stat(&self) -> Result<Option<Stat>, Errno> {
        stat_at(&self.directory, &self.name)
    }
}

impl Walker {
    /// Walks below `root`, which may itself lie anywhere. Components of the directories in `trust` may belong to their
    /// declared owners, all others to root or to this process.
    pub fn new(root: &Path, trust: Vec<Trust>) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = openat(CWD, root, flags, Mode::empty())?;
        Ok(Self { root, trust, own: rustix::process::geteuid().as_raw() })
    }

    /// The directory around `path`.
    pub(super) fn parent(&self, path: &str, accounts: &Accounts) -> Result<Found, Stop> {
        self.walk(path, accounts, None)
    }

    /// The directory around `path`; the directories that are missing are made (0755). Those that were made are told to
    /// `made`, each with the directory around it.
    pub(super) fn make_parent(
        &self,
        path: &str,
        accounts: &Accounts,
        made: &mut dyn FnMut(&OwnedFd),
    ) -> Result<Parent, Stop> {
        match self.walk(path, accounts, Some(made))? {
            Found::There(parent) => Ok(parent),
            Found::Missing { .. } => Err(Stop::Silent(format!("the directories around {path} vanish"))),
        }
    }

    fn walk(
        &self,
        path: &str,
        accounts: &Accounts,
        mut on_made: Option<&mut dyn FnMut(&OwnedFd)>,
    ) -> Result<Found, Stop> {
        let mut components: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let name = components.pop().unwrap_or("").to_owned();
        if components.iter().chain([&name.as_str()]).any(|part| [".", ".."].contains(part)) {
            return Err(Stop::Refused(format!("{path} has . or .. in it")));
        }
        let silent = |at: &str, error: Errno| Stop::Silent(format!("{at} cannot be looked at: {error}"));
        let mut directory = self.root.try_clone().map_err(|error| Stop::Silent(error.to_string()))?;
        let (mut at, mut mount, mut open) = (String::new(), "/".to_owned(), true);
        for component in components {
            at = format!("{at}/{component}");
            let stat = stat_at(&directory, component).map_err(|error| silent(&at, error))?;
            let stat = match (stat, &mut on_made) {
                (Some(stat), _) => stat,
                (None, None) => return Ok(Found::Missing { mount, open }),
                (None, Some(tell)) => {
                    let mode = Mode::from_raw_mode(0o755);
                    match mkdirat(&directory, component, mode) {
                        Ok(()) => tell(&directory),
                        Err(Errno::EXIST) => {}
                        Err(error) => {
                            return Err(Stop::Refused(format!("the directory {at} cannot be made: {error}")));
                        }
                    }
                    match stat_at(&directory, component).map_err(|error| silent(&at, error))? {
                        Some(stat) => stat,
                        None => {
                            return Err(Stop::Refused(format!("the directory {at} was made and is gone")));
                        }
                    }
                }
            };
            self.trusted(&at, &stat, accounts)?;
            open &= stat.mode & 0o001 != 0;
            if stat.mounted {
                mount.clone_from(&at);
            }
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
            directory = match openat2(&directory, component, flags, Mode::empty(), resolve) {
                Ok(directory) => directory,
                Err(Errno::NOENT) => return Ok(Found::Missing { mount, open }),
                Err(Errno::LOOP | Errno::NOTDIR) => {
                    return Err(Stop::Refused(format!("{at} changed while it was walked; try again")));
                }
                Err(error) => return Err(silent(&at, error)),
            };
            // What was opened is what was looked at.
            match stat_at(&directory, "") {
                Ok(Some(opened)) if same_inode(&opened, &stat) || stat.mounted => {}
                _ => return Err(Stop::Refused(format!("{at} changed while it was walked; try again"))),
            }
        }
        Ok(Found::There(Parent { directory, name, mount, path: path.to_owned(), open }))
    }

    /// A component has to be a directory of an owner that is trusted.
    fn trusted(&self, at: &str, stat: &Stat, accounts: &Accounts) -> Result<(), Stop> {
        match stat.file_type {
            FileType::Directory => {}
            FileType::Symlink => {
                return Err(Stop::Refused(format!(
                    "{at} is a link, and links are not followed: declare the path that it leads to"
                )));
            }
            _ => return Err(Stop::Refused(format!("{at} is not a directory"))),
        }
        let uid = stat.owner.uid;
        let declared = || {
            self.trust.iter().any(|trust| {
                let above = at == trust.path || at.starts_with(&format!("{}/", trust.path));
                above && accounts.owner(&trust.owner).is_some_and(|(owner, _)| owner == uid)
            })
        };
        if uid == 0 || uid == self.own || declared() {
            return Ok(());
        }
        Err(Stop::Refused(format!(
            "{at} belongs to user {uid}, who could lead the write elsewhere: declare the directory with that owner, or \
             give it to root"
        )))
    }
}

fn same_inode(a: &Stat, b: &Stat) -> bool {
    (a.stamp.device, a.stamp.inode) == (b.stamp.device, b.stamp.inode)
}
