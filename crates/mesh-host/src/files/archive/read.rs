//! Reads an archive: tar, alone or inside gzip or zstd. Whatever could be written elsewhere, or be more than it looks, is
//! refused.

use crate::digest::{Digest, Stream};
use rustix::fd::OwnedFd;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Cursor, Read, Seek, SeekFrom, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;
use tar::EntryType;

/// How much an archive may unpack to, in bytes.
const MAX_TOTAL: u64 = 4 << 30;
/// How many times its own size it may unpack to, beyond the first megabytes.
const MAX_RATIO: u64 = 200;
const FREE_OF_RATIO: u64 = 16 << 20;
/// How many entries it may have.
const MAX_ENTRIES: usize = 100_000;
/// How deep they may lie.
const MAX_DEPTH: usize = 48;
/// How long a name may be, in bytes.
const MAX_NAME: usize = 2_048;

/// Copies an archive into a file without a name in `folder`, which is closed to everybody else. Returns the size and the
/// digest of what was copied.
pub(super) fn copy(mut from: File, folder: &Path) -> io::Result<(File, u64, Digest)> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let name = folder.join("source.new");
    // A run that was cut off may have left one.
    match fs::remove_file(&name) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut copy = fs::OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&name)?;
    fs::remove_file(&name)?;
    let mut stream = Stream::new(None);
    let mut buffer = vec![0; 64 << 10];
    let mut size = 0;
    loop {
        let count = match from.read(&mut buffer) {
            Ok(0) => return Ok((copy, size, stream.finish().plain)),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        size += count as u64;
        if size > MAX_TOTAL {
            return Err(io::Error::other("it has more than 4 GiB"));
        }
        stream.update(&buffer[..count]);
        copy.write_all(&buffer[..count])?;
    }
}

trait ReadSeek: Read + Seek {}
impl<T: Read + Seek> ReadSeek for T {}

/// An archive that can be read from its beginning again and again.
pub(super) struct Source<'a> {
    from: Box<dyn ReadSeek + 'a>,
    size: u64,
}

/// What an entry is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    File,
    Directory,
    /// A symbolic link.
    Link(String),
    /// Another name of an earlier file.
    Same(String),
}

/// One entry, and what it holds.
pub(super) struct Entry<'e> {
    pub(super) name: String,
    pub(super) kind: Kind,
    /// Nine bits.
    pub(super) mode: u32,
    content: &'e mut dyn Read,
}

impl Entry<'_> {
    /// Writes the content. Returns its digest.
    pub(super) fn copy_to(&mut self, handle: &OwnedFd) -> io::Result<Digest> {
        let mut stream = Stream::new(None);
        let mut buffer = vec![0; 64 << 10];
        loop {
            let count = self.content.read(&mut buffer)?;
            if count == 0 {
                return Ok(stream.finish().plain);
            }
            stream.update(&buffer[..count]);
            let mut rest = &buffer[..count];
            while !rest.is_empty() {
                let written = rustix::io::write(handle, rest)?;
                rest = &rest[written..];
            }
        }
    }
}

impl<'a> Source<'a> {
    pub(super) fn of_bytes(bytes: &'a [u8]) -> Self {
        Self { from: Box::new(Cursor::new(bytes)), size: bytes.len() as u64 }
    }

    pub(super) fn of_file(file: File, size: u64) -> Self {
        Self { from: Box::new(file), size }
    }

    fn rewind(&mut self) -> Result<(), String> {
        self.from.seek(SeekFrom::Start(0)).map(drop).map_err(|error| error.to_string())
    }

    /// Refuses what may not be unpacked, before anything is written.
    pub(super) fn check(&mut self, strip: usize) -> Result<(), String> {
        let mut seen = Seen::default();
        self.each(strip, &mut |entry| {
            seen.take(entry)?;
            io::copy(entry.content, &mut io::sink()).map(drop).map_err(|error| error.to_string())
        })?;
        if seen.0.is_empty() { Err("nothing is in it, with that strip".to_owned()) } else { Ok(()) }
    }

    /// Hands out each entry, in order.
    pub(super) fn each(
        &mut self,
        strip: usize,
        visit: &mut dyn FnMut(&mut Entry<'_>) -> Result<(), String>,
    ) -> Result<(), String> {
        self.rewind()?;
        let limit = MAX_TOTAL.min(FREE_OF_RATIO.max(self.size.saturating_mul(MAX_RATIO)));
        let reader =
            Counted { from: decoded(&mut self.from).map_err(|error| error.to_string())?, left: limit };
        let mut archive = tar::Archive::new(reader);
        let entries = archive.entries().map_err(|error| format!("cannot be read: {error}"))?;
        for entry in entries {
            let mut entry = entry.map_err(|error| format!("cannot be read: {error}"))?;
            let raw = entry.path_bytes().into_owned();
            let shown = String::from_utf8_lossy(&raw).into_owned();
            let kind = entry.header().entry_type();
            if matches!(kind, EntryType::XGlobalHeader) {
                continue;
            }
            let Some(name) = name(&raw, strip).map_err(|why| format!("the entry {shown:?} {why}"))? else {
                continue;
            };
            let link = entry.link_name_bytes().map(std::borrow::Cow::into_owned);
            let kind = match kind {
                EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => Kind::File,
                EntryType::Directory => Kind::Directory,
                EntryType::Symlink => {
                    Kind::Link(link_inside(&name, link).map_err(|why| format!("the link {shown:?} {why}"))?)
                }
                EntryType::Link => {
                    let as_name = link.ok_or_else(|| format!("the hard link {shown:?} leads nowhere"))?;
                    let as_name = self::name(&as_name, strip)
                        .map_err(|why| format!("the hard link {shown:?} {why}"))?
                        .ok_or_else(|| format!("the hard link {shown:?} leads out of it"))?;
                    Kind::Same(as_name)
                }
                other => {
                    return Err(format!("the entry {shown:?} is of type {other:?}, which is not unpacked"));
                }
            };
            let mode = entry.header().mode().map_err(|error| format!("the mode of {shown:?}: {error}"))?;
            if mode & 0o7000 != 0 && kind == Kind::File {
                return Err(format!("the file {shown:?} is setuid, setgid or sticky: declare it as a file"));
            }
            visit(&mut Entry { name, kind, mode: mode & 0o777, content: &mut entry })?;
        }
        Ok(())
    }
}

/// The entries so far.
#[derive(Default)]
struct Seen(BTreeMap<String, Kind>);

impl Seen {
    fn take(&mut self, entry: &Entry<'_>) -> Result<(), String> {
        let name = &entry.name;
        for (at, _) in name.match_indices('/') {
            if self.0.get(&name[..at]).is_some_and(|kind| *kind != Kind::Directory) {
                return Err(format!(
                    "the entry {name:?} leads through {:?}, which is not a directory",
                    &name[..at]
                ));
            }
        }
        if let Kind::Same(other) = &entry.kind
            && !matches!(self.0.get(other), Some(Kind::File | Kind::Same(_)))
        {
            return Err(format!("the hard link {name:?} leads to {other:?}, which is not a file before it"));
        }
        let below = format!("{name}/");
        let has_below =
            self.0.range(below.clone()..).next().is_some_and(|(other, _)| other.starts_with(&below));
        if entry.kind != Kind::Directory && has_below {
            return Err(format!("the entry {name:?} is a directory before and something else later"));
        }
        match self.0.insert(name.clone(), entry.kind.clone()) {
            Some(before) if before != Kind::Directory || entry.kind != Kind::Directory => {
                Err(format!("the entry {name:?} stands twice"))
            }
            _ if self.0.len() > MAX_ENTRIES => Err(format!("it has more than {MAX_ENTRIES} entries")),
            _ => Ok(()),
        }
    }
}

/// The name of an entry below the directory; `None`: nothing of it is left after `strip`.
fn name(raw: &[u8], strip: usize) -> Result<Option<String>, String> {
    let text = std::str::from_utf8(raw).map_err(|_| "has a name that is not UTF-8".to_owned())?;
    if text.starts_with('/') {
        return Err("has an absolute path".to_owned());
    }
    if text.len() > MAX_NAME || text.contains('\0') {
        return Err("has a name that is too long or holds a NUL".to_owned());
    }
    let parts: Vec<&str> = text.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    if parts.contains(&"..") {
        return Err("has .. in its path".to_owned());
    }
    if parts.len() > MAX_DEPTH + strip {
        return Err(format!("lies deeper than {MAX_DEPTH} directories"));
    }
    let left = parts.get(strip..).unwrap_or_default().join("/");
    Ok(if left.is_empty() { None } else { Some(left) })
}

/// Where a link leads, if that is inside. `..` may only stand in front: behind the name of another link it would mean
/// something else than it looks.
fn link_inside(name: &str, to: Option<Vec<u8>>) -> Result<String, String> {
    let to = to.and_then(|to| String::from_utf8(to).ok()).filter(|to| !to.is_empty() && to.len() <= MAX_NAME);
    let to = to.ok_or_else(|| "leads to no name that can be read".to_owned())?;
    let parts: Vec<&str> = to.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    let up = parts.iter().take_while(|part| **part == "..").count();
    let depth = name.matches('/').count();
    if to.starts_with('/') || up > depth || parts[up..].contains(&"..") {
        return Err(format!("leads to {to:?}, which may be outside"));
    }
    Ok(to)
}

/// A reader that ends with an error at its limit.
struct Counted<'r> {
    from: Box<dyn Read + 'r>,
    left: u64,
}

impl Read for Counted<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.from.read(buffer)?;
        self.left = self.left.checked_sub(count as u64).ok_or_else(|| {
            io::Error::other(format!(
                "it unpacks to more than {MAX_RATIO} times its size, or more than 4 GiB"
            ))
        })?;
        Ok(count)
    }
}

/// The tar inside.
fn decoded<'r>(from: &'r mut (dyn ReadSeek + '_)) -> io::Result<Box<dyn Read + 'r>> {
    let mut from = BufReader::with_capacity(64 << 10, from);
    let head = from.fill_buf()?;
    if head.starts_with(&[0x1f, 0x8b]) {
        return Ok(Box::new(flate2::bufread::MultiGzDecoder::new(from)));
    }
    if head.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        let decoder = ruzstd::decoding::StreamingDecoder::new(from)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))?;
        return Ok(Box::new(decoder));
    }
    if head.get(257..262) == Some(b"ustar") {
        return Ok(Box::new(from));
    }
    let why = "is not a tar archive, alone or inside gzip or zstd";
    Err(io::Error::new(io::ErrorKind::InvalidData, why))
}

#[cfg(test)]
mod tests {
    use super::{link_inside, name};

    #[test]
    fn names_stay_inside() {
        let named = |text: &str, strip| name(text.as_bytes(), strip);
        assert_eq!(named("./a//b/", 0), Ok(Some("a/b".to_owned())));
        assert_eq!((named("a/b/c", 2), named("a", 1)), (Ok(Some("c".to_owned())), Ok(None)));
        assert!(named("/a", 0).is_err() && named("a/../b", 0).is_err() && named("a/..", 1).is_err());
    }

    #[test]
    fn links_stay_inside() {
        let link = |name: &str, to: &str| link_inside(name, Some(to.as_bytes().to_vec())).is_ok();
        assert!(link("a", "b") && link("d/a", "../b") && link("d/e/a", "../../b/c"));
        assert!(
            !link("a", "../b") && !link("a", "/b") && !link("d/a", "x/../../b") && !link("d/a", "../../b")
        );
    }
}
