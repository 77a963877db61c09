//! What a server says of itself in its INFO.

use crate::config::address::Address;
use serde::Deserialize;

/// How much of an unknown greeting is quoted, in bytes.
const MAX_QUOTE: usize = 60;

/// How many addresses of one INFO are looked at.
const MAX_URLS: usize = 1024;

/// INFO, as far as the gate needs it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[allow(clippy::struct_excessive_bools, reason = "so the protocol has it")]
pub struct Info {
    /// The server's name; empty where it has none.
    #[serde(default, rename = "server_name")]
    pub name: String,
    /// The server's version, such as `2.10.7`.
    pub version: String,
    /// The largest message that the server takes, in bytes, headers included.
    pub max_payload: usize,
    /// Whether a client has to speak TLS from here on.
    #[serde(default)]
    pub tls_required: bool,
    /// Whether a client may speak TLS from here on.
    #[serde(default)]
    pub tls_available: bool,
    /// Whether messages may have headers. Without them this program cannot work.
    #[serde(default)]
    pub headers: bool,
    /// Whether the server is about to stop and wants no new clients.
    #[serde(default, rename = "ldm")]
    pub lame_duck: bool,
    /// What the holder of a key has to sign.
    #[serde(default)]
    pub nonce: String,
    /// The other ways into the cluster, as the server writes them.
    #[serde(default)]
    pub connect_urls: Vec<String>,
    /// Only the port for clients has one.
    #[serde(rename = "client_id")]
    _client_id: u64,
}

/// Other servers of the cluster, as one of them says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cluster {
    /// Where they are.
    pub servers: Vec<Address>,
    /// What cannot be read as an address.
    pub odd: Vec<String>,
}

impl Info {
    /// Reads a server's first line. The error is words for the operator; the server's own text is in them only with its
    /// control bytes escaped.
    pub fn greeting(line: &[u8]) -> Result<Info, String> {
        let line = line.trim_ascii_end();
        if let Some(reason) = line.strip_prefix(b"-ERR") {
            return Err(format!("the server turns clients away: {}", quote(reason.trim_ascii())));
        }
        let json = line.strip_prefix(b"INFO").filter(|rest| matches!(rest.first(), Some(b' ' | b'\t')));
        Info::parse(json.ok_or_else(|| stranger(line))?)
    }

    /// Reads the JSON of an INFO.
    pub fn parse(json: &[u8]) -> Result<Info, String> {
        // The ports for the cluster and for leaf nodes greet too, without a `client_id`.
        serde_json::from_slice(json)
            .map_err(|error| format!("its INFO cannot be read (is this its port for clients?): {error}"))
    }

    /// The other servers. They speak TLS if the connection to `teller`, which told of them, does.
    pub fn cluster(&self, tls: bool) -> Cluster {
        let mut cluster = Cluster::default();
        for url in self.connect_urls.iter().take(MAX_URLS) {
            match url.parse::<Address>() {
                Ok(address) => {
                    let address = Address { tls: tls || address.tls, ..address };
                    if !cluster.servers.contains(&address) {
                        cluster.servers.push(address);
                    }
                }
                Err(why) => cluster.odd.push(format!("{}: {why}", quote(url.as_bytes()))),
            }
        }
        cluster
    }
}

/// The error for a greeting that is not that of a nats-server.
pub(super) fn stranger(line: &[u8]) -> String {
    format!("this is not a NATS server: it sent {}", quote(line))
}

/// The beginning of bytes from outside, as a message may show it.
pub(super) fn quote(bytes: &[u8]) -> String {
    let shown = &bytes[..bytes.len().min(MAX_QUOTE)];
    format!("\"{}\"{}", shown.escape_ascii(), if shown.len() < bytes.len() { " …" } else { "" })
}

#[cfg(test)]
mod tests {
    use super::*;

    const INFO: &str = r#"{"server_id":"NA","server_name":"n1","version":"2.10.7","proto":1,"go":"go1.21","host":"0.0.0.0","port":4222,"headers":true,"max_payload":1048576,"client_id":5,"auth_required":true,"tls_available":true,"ldm":true,"nonce":"x","cluster":"c","connect_urls":["10.0.0.1:4222","[::1]:4333","[fe80::1%eth0]:4222",":4222","host:99999"],"of_tomorrow":1}"#;

    #[test]
    fn an_info_is_read_and_its_odd_addresses_are_told_apart() {
        let info = Info::greeting(format!("INFO {INFO} \r\n").as_bytes()).unwrap();
        assert_eq!((info.name.as_str(), info.version.as_str(), info.nonce.as_str()), ("n1", "2.10.7", "x"));
        assert_eq!((info.max_payload, info.headers, info.lame_duck), (1_048_576, true, true));
        assert_eq!((info.tls_required, info.tls_available), (false, true));
        let cluster = info.cluster(false);
        let servers: Vec<String> = cluster.servers.iter().map(Address::to_string).collect();
        assert_eq!(servers, ["nats://10.0.0.1:4222", "nats://[::1]:4333"]);
        assert_eq!(
            cluster.odd,
            [
                r#""[fe80::1%eth0]:4222": what is in the brackets is not an IPv6 address"#,
                r#"":4222": the host is missing"#,
                r#""host:99999": the port is not a number from 1 to 65535"#,
            ]
        );
    }

    #[test]
    fn servers_that_are_told_of_over_tls_are_dialled_with_tls() {
        let cluster = Info::parse(INFO.as_bytes()).unwrap().cluster(true);
        assert!(cluster.servers.iter().all(|server| server.tls));
    }

    #[test]
    fn what_is_no_server_for_clients_is_said() {
        for (line, words) in [
            (&b"SSH-2.0-OpenSSH_9.2\r\n"[..], r#"this is not a NATS server: it sent "SSH-2.0-OpenSSH_9.2""#),
            (b"\x1b[\xff\"\n", r#"this is not a NATS server: it sent "\x1b[\xff\"""#),
            (b"INFORMATION\r\n", r#"this is not a NATS server: it sent "INFORMATION""#),
            (
                b"-ERR 'maximum connections exceeded'\r\n",
                r#"the server turns clients away: "\'maximum connections exceeded\'""#,
            ),
        ] {
            assert_eq!(Info::greeting(line), Err(words.to_owned()));
        }
        let route = INFO.replace(r#""client_id":5,"#, "");
        let error = Info::parse(route.as_bytes()).unwrap_err();
        assert!(error.contains("port for clients") && error.contains("client_id"), "{error}");
    }
}
