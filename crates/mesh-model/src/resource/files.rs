//! What lies in the file system: directories, the operator's paths, files, archives.

use data_encoding::BASE64;

use super::{AbsolutePath, Encode, Format, Inserts, Mode, Number, Owner, words};
use crate::json::{Fields, Problem};

/// A directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Directory {
    /// Where.
    pub path: AbsolutePath,
    /// Absent: 0755 for a new one.
    pub mode: Option<Mode>,
    /// Absent: root for a new one, else as it is.
    pub owner: Option<Owner>,
}

impl Directory {
    pub(super) fn read(fields: &mut Fields<'_>) -> Result<Self, Problem> {
        Ok(Directory {
            path: fields.required("path")?,
            mode: fields.optional("mode")?,
            owner: fields.optional("owner")?,
        })
    }
}

words!(
    /// What a module may do below an operator's path.
    AccessMode, "mode of an access" {
        /// Look: each mount of it ends in `:ro`.
        Read = "read",
        /// Look and change.
        Write = "write",
    }
);

/// A directory that the operator provides. The host looks whether it is there, and never touches it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    /// Where.
    pub path: AbsolutePath,
    /// Read, where nothing is said.
    pub mode: AccessMode,
}

impl Access {
    pub(super) fn read(fields: &mut Fields<'_>) -> Result<Self, Problem> {
        Ok(Access {
            path: fields.required("path")?,
            mode: fields.optional("mode")?.unwrap_or(AccessMode::Read),
        })
    }
}

/// A file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// Whose file it is, and where.
    pub place: Placed,
    /// What it holds.
    pub content: Content,
    /// Absent: 0644, or 0600 when a secret goes in.
    pub mode: Option<Mode>,
    /// Absent: root for a new one, else as it is.
    pub owner: Option<Owner>,
    /// Written once, as a seed, and left alone while it is there.
    pub create_once: bool,
    /// How inserted values are written.
    pub encode: Option<Encode>,
    /// What the filled text must parse as.
    pub format: Option<Format>,
    /// Written into the inode that is there, where something holds on to it.
    pub in_place: bool,
    /// A link at the end of the path is followed.
    pub through_link: bool,
    /// How objects and lists are written where a placeholder stands.
    pub insert: Inserts,
}

/// Whose file it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Placed {
    /// The mesh's, whole.
    Path(AbsolutePath),
    /// The machine's: only the leaves of the content are set in it.
    Into(AbsolutePath),
}

impl Placed {
    /// Where.
    pub fn path(&self) -> &AbsolutePath {
        match self {
            Placed::Path(path) | Placed::Into(path) => path,
        }
    }
}

/// What a file holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// Text that may hold placeholders.
    Text(String),
    /// Bytes as they are; nothing is filled.
    Bytes(Vec<u8>),
}

impl File {
    pub(super) fn read(fields: &mut Fields<'_>) -> Result<Self, Problem> {
        let place = match (fields.optional("path")?, fields.optional("into")?) {
            (Some(path), None) => Placed::Path(path),
            (None, Some(into)) => Placed::Into(into),
            _ => return Err(fields.at().problem("has neither path nor into, or both")),
        };
        let content = match (fields.optional("content")?, bytes(fields)?) {
            (Some(text), None) => Content::Text(text),
            (None, Some(bytes)) => Content::Bytes(bytes),
            _ => return Err(fields.at().problem("has neither content nor bytes, or both")),
        };
        let file = File {
            place,
            content,
            mode: fields.optional("mode")?,
            owner: fields.optional("owner")?,
            create_once: fields.or_default("create-once")?,
            encode: fields.optional("encode")?,
            format: fields.optional("format")?,
            in_place: fields.or_default("in-place")?,
            through_link: fields.or_default("through-link")?,
            insert: fields.or_default("insert")?,
        };
        file.check().map_err(|(name, why)| fields.at().field(name).problem(why))?;
        Ok(file)
    }

    fn check(&self) -> Result<(), (&'static str, &'static str)> {
        if matches!(self.content, Content::Bytes(_)) {
            if self.encode.is_some() || !self.insert.is_empty() {
                return Err(("bytes", "nothing is filled in bytes, so encode and insert have no meaning"));
            }
            if matches!(self.place, Placed::Into(_)) {
                return Err(("bytes", "what is set in a file of the machine is text"));
            }
        }
        if matches!(self.place, Placed::Into(_)) {
            match self.format {
                Some(Format::Json | Format::Toml | Format::Ini) => {}
                _ => return Err(("into", "needs the format of that file: json, toml or ini")),
            }
            if self.create_once || self.mode.is_some() || self.owner.is_some() {
                return Err((
                    "into",
                    "the file is the machine's, so mode, owner and create-once are not ours to say",
                ));
            }
        }
        Ok(())
    }
}

/// Reads the field `bytes`: padded standard base64.
fn bytes(fields: &mut Fields<'_>) -> Result<Option<Vec<u8>>, Problem> {
    let Some(text) = fields.optional::<String>("bytes")? else { return Ok(None) };
    match BASE64.decode(text.as_bytes()) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(_) => Err(fields.at().field("bytes").problem("is not padded standard base64")),
    }
}

/// An archive, unpacked into a directory of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Archive {
    /// The directory.
    pub path: AbsolutePath,
    /// Where the archive comes from.
    pub source: ArchiveSource,
    /// The SHA-256 of the archive, 64 lower-case hex digits. It decides whether anything is done.
    pub sha256: String,
    /// How many leading components of each entry's path are left out.
    pub strip: u8,
    /// Absent: root.
    pub owner: Option<Owner>,
}

/// Where an archive comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ArchiveSource {
    /// A file of this machine.
    Path(AbsolutePath),
    /// The archive itself.
    Bytes(Vec<u8>),
}

impl Archive {
    pub(super) fn read(fields: &mut Fields<'_>) -> Result<Self, Problem> {
        let path = fields.required("path")?;
        let source = match (fields.optional("source")?, bytes(fields)?) {
            (Some(path), None) => ArchiveSource::Path(path),
            (None, Some(bytes)) => ArchiveSource::Bytes(bytes),
            _ => return Err(fields.at().problem("has neither source nor bytes, or both")),
        };
        let sha256: String = fields.required("sha256")?;
        if sha256.len() != 64 || !sha256.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
            return Err(fields.at().field("sha256").problem("is not 64 lower-case hex digits"));
        }
        let strip = fields.optional::<Number<u8>>("strip")?.map_or(0, |strip| strip.0);
        Ok(Archive { path, source, sha256, strip, owner: fields.optional("owner")? })
    }
}
