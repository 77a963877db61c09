use core::net::IpAddr;
use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use super::AbsolutePath;
use crate::json::{At, Json, Problem, Read, text_form};

/// A port or an id: a number, or its digits as a string, since a placeholder can only stand in a string.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Number<T>(pub T);

impl<T: Read + FromStr> Read for Number<T> {
    fn read(json: &Json, at: &At<'_>) -> Result<Self, Problem> {
        match json {
            Json::Text(text) if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) => {
                T::read(&Json::Number(text.clone()), at).map(Number)
            }
            other => T::read(other, at).map(Number),
        }
    }
}

impl<T: Serialize> Serialize for Number<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

/// The protocol of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Protocol {
    /// TCP, where nothing is said.
    #[default]
    Tcp,
    /// UDP.
    Udp,
}

impl FromStr for Protocol {
    type Err = String;

    fn from_str(text: &str) -> Result<Protocol, String> {
        match text {
            "tcp" => Ok(Protocol::Tcp),
            "udp" => Ok(Protocol::Udp),
            _ => Err(format!("{text:?} is not a protocol: tcp or udp")),
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Protocol::Tcp => "tcp",
            Protocol::Udp => "udp",
        })
    }
}

/// A port of a container that is published: `80`, `8080:80`, `127.0.0.1:8080:80`, `[::1]:8080:80`, each with `/udp`
/// or `/tcp` at its end.
///
/// ```
/// use mesh_model::resource::PortMapping;
/// let port: PortMapping = "127.0.0.1:8080:80".parse().unwrap();
/// assert_eq!((port.host, port.container), (Some(8080), 80));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortMapping {
    /// The machine's address that it is bound to; absent: all.
    pub address: Option<IpAddr>,
    /// The machine's port; absent: the runtime takes one.
    pub host: Option<u16>,
    /// The container's port.
    pub container: u16,
    /// TCP, where nothing is said.
    pub protocol: Protocol,
}

fn port(text: &str) -> Option<u16> {
    if !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    text.parse().ok().filter(|port| *port > 0)
}

impl FromStr for PortMapping {
    type Err = String;

    fn from_str(text: &str) -> Result<PortMapping, String> {
        let read = || {
            let (rest, protocol) = match text.rsplit_once('/') {
                Some((rest, protocol)) => (rest, protocol.parse().ok()?),
                None => (text, Protocol::Tcp),
            };
            let Some((front, container)) = rest.rsplit_once(':') else {
                return Some(PortMapping { address: None, host: None, container: port(rest)?, protocol });
            };
            let container = port(container)?;
            let Some((address, host)) = front.rsplit_once(':') else {
                return Some(PortMapping { address: None, host: Some(port(front)?), container, protocol });
            };
            let bare = address.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
            let address: IpAddr = bare.unwrap_or(address).parse().ok()?;
            if address.is_ipv6() != bare.is_some() {
                return None;
            }
            Some(PortMapping { address: Some(address), host: Some(port(host)?), container, protocol })
        };
        read()
            .ok_or_else(|| format!("{text:?} is not a port of a container such as \"127.0.0.1:8080:80/tcp\""))
    }
}

impl fmt::Display for PortMapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.address {
            Some(IpAddr::V6(address)) => write!(f, "[{address}]:")?,
            Some(IpAddr::V4(address)) => write!(f, "{address}:")?,
            None => {}
        }
        if let Some(host) = self.host {
            write!(f, "{host}:")?;
        }
        write!(f, "{}", self.container)?;
        if self.protocol == Protocol::Udp { f.write_str("/udp") } else { Ok(()) }
    }
}

/// A mount of a container: `/path/on/machine:/path/inside` or `volume:/path/inside`, with `:ro` at its end where the
/// container may only read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Volume {
    /// What is mounted.
    pub source: VolumeSource,
    /// Where it appears in the container.
    pub target: AbsolutePath,
    /// Whether the container may only read.
    pub read_only: bool,
}

/// What is mounted into a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VolumeSource {
    /// A file or directory of the machine.
    Path(AbsolutePath),
    /// A volume that the runtime keeps.
    Named(String),
}

impl FromStr for Volume {
    type Err = String;

    fn from_str(text: &str) -> Result<Volume, String> {
        let wrong = |why: String| format!("{text:?} is not a mount such as \"/srv/films:/films:ro\": {why}");
        let mut parts = text.split(':');
        let (Some(source), Some(target), option, None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(wrong("it has not two or three parts".into()));
        };
        let read_only = match option {
            None | Some("rw") => false,
            Some("ro") => true,
            Some(other) => return Err(wrong(format!("unknown option {other:?}, known are ro and rw"))),
        };
        let source = if source.starts_with('/') {
            VolumeSource::Path(source.parse().map_err(wrong)?)
        } else {
            source.parse::<super::ContainerName>().map_err(wrong)?;
            VolumeSource::Named(source.to_owned())
        };
        Ok(Volume { source, target: target.parse().map_err(wrong)?, read_only })
    }
}

impl fmt::Display for Volume {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            VolumeSource::Path(path) => write!(f, "{path}")?,
            VolumeSource::Named(name) => f.write_str(name)?,
        }
        write!(f, ":{}{}", self.target, if self.read_only { ":ro" } else { "" })
    }
}

/// From where an opening lets in: an address, or a network such as `10.0.0.0/8`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The address; of a network, its first, with no bit set after the prefix.
    pub address: IpAddr,
    /// How many leading bits count; of an address all.
    pub prefix: u8,
}

impl FromStr for Source {
    type Err = String;

    fn from_str(text: &str) -> Result<Source, String> {
        let wrong = || format!("{text:?} is not an address or network such as \"10.0.0.0/8\"");
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix_length(prefix).ok_or_else(wrong)?)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let whole: u8 = if address.is_ipv4() { 32 } else { 128 };
        let prefix = prefix.unwrap_or(whole);
        if prefix > whole {
            return Err(wrong());
        }
        let after = match address {
            IpAddr::V4(four) => u128::from(four.to_bits()).checked_shl(96 + u32::from(prefix)),
            IpAddr::V6(six) => six.to_bits().checked_shl(u32::from(prefix)),
        };
        if after.unwrap_or(0) != 0 {
            return Err(format!(
                "{text:?} sets bits after its prefix; write the address alone, or the network's first address"
            ));
        }
        Ok(Source { address, prefix })
    }
}

fn prefix_length(text: &str) -> Option<u8> {
    if text.bytes().all(|b| b.is_ascii_digit()) { text.parse().ok() } else { None }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = if self.address.is_ipv4() { 32 } else { 128 };
        write!(f, "{}", self.address)?;
        if self.prefix == whole { Ok(()) } else { write!(f, "/{}", self.prefix) }
    }
}

text_form!(Protocol, PortMapping, Volume, Source);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_of_containers() {
        for (text, shown) in [
            ("80", "80"),
            ("8080:80", "8080:80"),
            ("8080:80/tcp", "8080:80"),
            ("127.0.0.1:8080:80/udp", "127.0.0.1:8080:80/udp"),
            ("[::1]:8080:80", "[::1]:8080:80"),
        ] {
            assert_eq!(text.parse::<PortMapping>().unwrap().to_string(), shown);
        }
        for text in [
            "",
            "0",
            "65536",
            "8080:",
            ":80",
            "a:80",
            "::1:80:80",
            "[127.0.0.1]:1:1",
            "80/icmp",
            "+80",
            "80-90:80-90",
        ] {
            assert!(text.parse::<PortMapping>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn mounts() {
        let volume: Volume = "/srv/films:/films:ro".parse().unwrap();
        assert!(volume.read_only);
        for text in ["/srv/films:/films:ro", "data:/data"] {
            assert_eq!(text.parse::<Volume>().unwrap().to_string(), text);
        }
        for text in ["", "/a", "/a:b", "/a:/b:rx", "/a:/b:ro:z", "../a:/b", "/a/../b:/c", "a b:/c"] {
            assert!(text.parse::<Volume>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn sources_are_addresses_or_whole_networks() {
        for text in ["10.0.0.2", "10.0.0.0/8", "0.0.0.0/0", "fd00::/8", "::1", "::/0"] {
            assert_eq!(text.parse::<Source>().unwrap().to_string(), text);
        }
        for text in ["", "10.0.0.1/8", "10.0.0.0/33", "fd00::1/64", "host", "10.0.0.0/", "10.0.0.0/+8"] {
            assert!(text.parse::<Source>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn numbers_may_be_digits_in_a_string() {
        let read = |text: &str| Number::<u16>::from_json_bytes(text.as_bytes()).ok().map(|number| number.0);
        assert_eq!((read("8080"), read("\"8080\"")), (Some(8080), Some(8080)));
        assert_eq!(
            (read("\"\""), read("\"-1\""), read("70000"), read("\"70000\"")),
            (None, None, None, None)
        );
    }
}
