//! Server addresses: the URLs that an operator writes, and the `host:port` that a server reports of its cluster.
//!
//! A small parser of our own, for two reasons: user information is removed here, once, so that nothing else can print
//! it; and no error quotes it, not even for an invalid URL.

use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;

use percent_encoding::percent_decode_str;

use super::secret::Secret;

/// The port of a server whose URL names none.
pub const DEFAULT_PORT: u16 = 4222;

/// The longest host name in DNS.
const MAX_HOST: usize = 253;

/// One server. Written as a URL, it never has user information.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Address {
    /// Whether the URL requires TLS (`tls://`). A server may require it anyway.
    pub tls: bool,
    /// A host name, an IPv4 address, or an IPv6 address without brackets.
    pub host: String,
    /// The TCP port, never 0.
    pub port: u16,
}

/// The user information of a URL, percent-decoded. It applies to every server of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UserInfo {
    /// `nats://user:password@host`
    UserPassword {
        /// The part before the colon.
        user: String,
        /// The part after it.
        password: Secret,
    },
    /// `nats://token@host`: a user part alone is a token, as in the `nats` CLI.
    Token(Secret),
}

/// Reads a comma-separated list of URLs: the servers, each once and at least one, and the user information
/// for all of them. The scheme is `nats` (also when there is none) or `tls`.
///
/// The error is text for the operator. It names the server, without its user information.
pub fn parse_list(list: &str) -> Result<(Vec<Address>, Option<UserInfo>), String> {
    let entries: Vec<&str> = list.split(',').map(str::trim).filter(|entry| !entry.is_empty()).collect();
    let mut addresses = Vec::new();
    let mut all: Option<UserInfo> = None;
    for (index, entry) in entries.iter().enumerate() {
        let at_fault = |why| format!("server {}: {why}", shown(&entries, index));
        // A comma in a password splits the URL; the rest looks like this, and must not become a host name.
        if index > 0 && entry.contains('@') && !entry.contains("://") {
            return Err(at_fault("user information needs a scheme (a comma in a password is %2C)"));
        }
        let (address, user_info) = parse_url(entry).map_err(at_fault)?;
        if !addresses.contains(&address) {
            addresses.push(address);
        }
        match (&all, user_info) {
            (Some(before), Some(here)) if *before != here => {
                return Err(at_fault("its user information differs from another's: give one for all"));
            }
            (None, Some(here)) => all = Some(here),
            _ => {}
        }
    }
    if addresses.is_empty() { Err("no server is named".to_owned()) } else { Ok((addresses, all)) }
}

/// The entry as an error may show it. In a list with user information, an entry without it may be one half of a
/// password that contains a comma, and so may an entry that is followed by such a piece: then only its position is
/// shown.
fn shown(entries: &[&str], index: usize) -> String {
    let entry = entries[index];
    let is_piece = |entry: &&str| entry.contains('@') && !entry.contains("://");
    if entries[index + 1..].iter().any(is_piece) {
        return format!("number {}", index + 1);
    }
    let (scheme, rest) = match entry.split_once("://") {
        Some((scheme, rest)) if is_scheme(scheme) => (format!("{scheme}://"), rest),
        _ => (String::new(), entry),
    };
    match rest.rsplit_once('@') {
        Some((_, place)) => format!("{:?}", scheme + place),
        None if entries.iter().any(|entry| entry.contains('@')) => format!("number {}", index + 1),
        None => format!("{entry:?}"),
    }
}

/// RFC 3986, section 3.1.
fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
}

/// One URL. The errors quote nothing: the caller knows which part of the URL may be shown.
fn parse_url(url: &str) -> Result<(Address, Option<UserInfo>), &'static str> {
    let (tls, rest) = match url.split_once("://") {
        Some((scheme, rest)) => (parse_scheme(scheme)?, rest),
        None => (false, url),
    };
    let (user_info, place) = match rest.rsplit_once('@') {
        Some((user_info, place)) => (Some(parse_user_info(user_info)?), place),
        None => (None, rest),
    };
    let (host, port) = parse_place(place.strip_suffix('/').unwrap_or(place))?;
    Ok((Address { tls, host, port }, user_info))
}

fn parse_scheme(scheme: &str) -> Result<bool, &'static str> {
    match scheme.to_ascii_lowercase().as_str() {
        "nats" => Ok(false),
        "tls" => Ok(true),
        "ws" | "wss" => Err("WebSocket (ws, wss) is not supported: write nats:// or tls://"),
        _ => Err("the scheme is not one of nats, tls"),
    }
}

fn parse_user_info(text: &str) -> Result<UserInfo, &'static str> {
    // By RFC 3986 the host would end at the first of these, in the middle of a password.
    if text.contains(['/', '?', '#']) {
        return Err("in user information / is written %2F, ? %3F, # %23");
    }
    match text.split_once(':') {
        Some(("", _)) => Err("its user information has no user before the colon"),
        Some((_, "")) => Err("its user information has no password after the colon"),
        Some((user, password)) => {
            Ok(UserInfo::UserPassword { user: decode(user)?, password: decode(password)?.into() })
        }
        None if text.is_empty() => Err("there is nothing before the @"),
        None => Ok(UserInfo::Token(decode(text)?.into())),
    }
}

/// Percent-decodes. Unlike the library's decoder it rejects a stray `%`: a password with one works only by luck.
fn decode(text: &str) -> Result<String, &'static str> {
    let escaped = text.split('%').skip(1).all(|after| {
        after.as_bytes().get(..2).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    });
    if !escaped {
        return Err("its user information has a stray %: a % is written %25");
    }
    let decoded = percent_decode_str(text).decode_utf8();
    decoded.map(String::from).map_err(|_| "its user information is not UTF-8 when percent-decoded")
}

/// `host`, `host:port`, `[ipv6]`, `[ipv6]:port`.
fn parse_place(place: &str) -> Result<(String, u16), &'static str> {
    if let Some(rest) = place.strip_prefix('[') {
        let (host, after) = rest.split_once(']').ok_or("the [ of the IPv6 address has no ]")?;
        let host: Ipv6Addr = host.parse().map_err(|_| "what is in the brackets is not an IPv6 address")?;
        let port = match after.strip_prefix(':') {
            Some(port) => parse_port(port)?,
            None if after.is_empty() => DEFAULT_PORT,
            None => return Err("only a colon and a port may follow the IPv6 address"),
        };
        return Ok((host.to_string(), port));
    }
    if place.contains(['/', '?', '#']) {
        return Err("nothing may follow the host and the port");
    }
    let (host, port) = match place.split_once(':') {
        Some((_, port)) if port.contains(':') => {
            return Err("an IPv6 address is written in brackets, as in nats://[::1]:4222");
        }
        Some((host, port)) => (host, parse_port(port)?),
        None => (place, DEFAULT_PORT),
    };
    if host.is_empty() {
        return Err("the host is missing");
    }
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    if host.len() > MAX_HOST || !host.bytes().all(fits) {
        return Err("the host is not a name or an address");
    }
    Ok((host.to_owned(), port))
}

fn parse_port(text: &str) -> Result<u16, &'static str> {
    // `u16::from_str` takes a sign.
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse() {
        Ok(port) if digits && port > 0 => Ok(port),
        _ => Err("the port is not a number from 1 to 65535"),
    }
}

impl FromStr for Address {
    type Err = String;

    /// Reads one address without user information: a URL, or `host:port` as a server reports it of its cluster.
    fn from_str(text: &str) -> Result<Self, String> {
        match parse_url(text) {
            Ok((address, None)) => Ok(address),
            Ok((_, Some(_))) => Err("user information is not expected here".to_owned()),
            Err(why) => Err(why.to_owned()),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "tls" } else { "nats" };
        if self.host.contains(':') {
            write!(f, "{scheme}://[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{scheme}://{}:{}", self.host, self.port)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(list: &str) -> Vec<String> {
        parse_list(list).unwrap().0.iter().map(Address::to_string).collect()
    }

    fn user_info(list: &str) -> Option<UserInfo> {
        parse_list(list).unwrap().1
    }

    fn user(user: &str, password: &str) -> UserInfo {
        UserInfo::UserPassword { user: user.to_owned(), password: password.to_owned().into() }
    }

    fn error(list: &str) -> String {
        parse_list(list).unwrap_err()
    }

    #[test]
    fn every_spelling_of_a_server_is_read() {
        assert_eq!(written("nats://127.0.0.1:4222"), ["nats://127.0.0.1:4222"]);
        assert_eq!(written("bus"), ["nats://bus:4222"]);
        assert_eq!(written("bus_1.example:14222/"), ["nats://bus_1.example:14222"]);
        assert_eq!(written("TLS://bus"), ["tls://bus:4222"]);
        assert_eq!(written("nats://[::1]"), ["nats://[::1]:4222"]);
        assert_eq!(written("[2001:DB8::0]:1"), ["nats://[2001:db8::]:1"]);
        assert_eq!(
            parse_list("tls://[::1]:4443").unwrap().0,
            [Address { tls: true, host: "::1".to_owned(), port: 4443 }]
        );
    }

    #[test]
    fn a_list_has_each_server_once() {
        assert_eq!(written(" nats://a , b:4333,,nats://a:4222,"), ["nats://a:4222", "nats://b:4333"]);
        assert_eq!(error(" , "), "no server is named");
    }

    #[test]
    fn user_information_is_decoded_and_holds_for_the_list() {
        assert_eq!(user_info("nats://bus"), None);
        assert_eq!(user_info("nats://seat:p%40ss%2Fw@bus"), Some(user("seat", "p@ss/w")));
        assert_eq!(user_info("nats://a%3Ab:c:d+%25@bus"), Some(user("a:b", "c:d+%")));
        assert_eq!(user_info("seat:p@ss@bus"), Some(user("seat", "p@ss")));
        assert_eq!(user_info("tls://s%C3%A9same@bus"), Some(UserInfo::Token("sésame".to_owned().into())));
        assert_eq!(user_info("nats://a,nats://u:p@b,nats://u:p@c"), Some(user("u", "p")));
        assert_eq!(written("nats://u:p@b:1,nats://c"), ["nats://b:1", "nats://c:4222"]);
    }

    #[test]
    fn what_cannot_be_read_is_said_with_the_server() {
        for (list, words) in [
            (
                "ws://bus",
                r#"server "ws://bus": WebSocket (ws, wss) is not supported: write nats:// or tls://"#,
            ),
            ("http://bus", r#"server "http://bus": the scheme is not one of nats, tls"#),
            ("://bus", r#"server "://bus": the scheme is not one of nats, tls"#),
            ("nats://", r#"server "nats://": the host is missing"#),
            ("bus:", r#"server "bus:": the port is not a number from 1 to 65535"#),
            ("bus:0", r#"server "bus:0": the port is not a number from 1 to 65535"#),
            ("bus:+1", r#"server "bus:+1": the port is not a number from 1 to 65535"#),
            ("bus:65536", r#"server "bus:65536": the port is not a number from 1 to 65535"#),
            ("bus/path", r#"server "bus/path": nothing may follow the host and the port"#),
            ("::1", r#"server "::1": an IPv6 address is written in brackets, as in nats://[::1]:4222"#),
            ("[::1", r#"server "[::1": the [ of the IPv6 address has no ]"#),
            ("[bus]", r#"server "[bus]": what is in the brackets is not an IPv6 address"#),
            ("[::1]4222", r#"server "[::1]4222": only a colon and a port may follow the IPv6 address"#),
            ("a b", r#"server "a b": the host is not a name or an address"#),
            ("b\u{fc}s", "server \"b\u{fc}s\": the host is not a name or an address"),
            ("a\nb", r#"server "a\nb": the host is not a name or an address"#),
        ] {
            assert_eq!(error(list), words, "{list:?}");
        }
    }

    #[test]
    fn no_error_shows_user_information() {
        for (list, words) in [
            ("nats://u:hush@bus:x", r#"server "nats://bus:x": the port is not a number from 1 to 65535"#),
            (
                "wss://hush@bus",
                r#"server "wss://bus": WebSocket (ws, wss) is not supported: write nats:// or tls://"#,
            ),
            (
                "nats://u:hush/hush@bus",
                r#"server "nats://bus": in user information / is written %2F, ? %3F, # %23"#,
            ),
            (
                "nats://u:hush%@bus",
                r#"server "nats://bus": its user information has a stray %: a % is written %25"#,
            ),
            (
                "nats://hush%ff@bus",
                r#"server "nats://bus": its user information is not UTF-8 when percent-decoded"#,
            ),
            ("nats://:hush@bus", r#"server "nats://bus": its user information has no user before the colon"#),
            (
                "nats://hush:@bus",
                r#"server "nats://bus": its user information has no password after the colon"#,
            ),
            ("nats://@bus", r#"server "nats://bus": there is nothing before the @"#),
            ("hush hush://hush@bus", r#"server "bus": the scheme is not one of nats, tls"#),
            // A comma in a password cuts it in two.
            ("nats://u:@hush,@bus", "server number 1: its user information has no password after the colon"),
            ("nats://u:hush,hush@bus", "server number 1: the port is not a number from 1 to 65535"),
            (
                "nats://u:123,hush@bus",
                r#"server "bus": user information needs a scheme (a comma in a password is %2C)"#,
            ),
            (
                "nats://u:hush@a,nats://u:hush2@b",
                r#"server "nats://b": its user information differs from another's: give one for all"#,
            ),
        ] {
            assert_eq!(error(list), words, "{list:?}");
        }
        assert!(!format!("{:?}", parse_list("nats://u:hush@bus")).contains("hush"));
        assert!(!format!("{:?}", parse_list("nats://hush@bus")).contains("hush"));
    }

    #[test]
    fn a_cluster_address_is_read() {
        assert_eq!("10.0.0.1:4333".parse::<Address>().unwrap().to_string(), "nats://10.0.0.1:4333");
        assert_eq!("[fe80::1]:4222".parse::<Address>().unwrap().to_string(), "nats://[fe80::1]:4222");
        assert_eq!("u:p@bus".parse::<Address>(), Err("user information is not expected here".to_owned()));
    }
}
