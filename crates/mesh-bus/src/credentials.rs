//! The files with a user's seed and JWT, as `nsc` and the `nats` tool write them: the one reader of them, at the start
//! and at each connect. Blanks at line ends and a missing last line end make no difference.

use nkeys::{KeyPair, KeyPairType};
use std::fs;
use std::path::Path;

/// Who we are by a key.
pub(crate) struct Credentials {
    /// The user's JWT; an nkey file has none.
    pub(crate) jwt: Option<String>,
    /// Signs the server's nonce.
    pub(crate) key: KeyPair,
}

/// Reads a creds file: a JWT, and the seed of the user that it is for.
pub(crate) fn read_creds(path: &Path) -> Result<Credentials, String> {
    parse_creds(&read("creds", path)?).map_err(|lack| lacking("creds", path, lack))
}

/// Reads an nkey file: a seed, bare or between its banners.
pub(crate) fn read_nkey(path: &Path) -> Result<Credentials, String> {
    parse_nkey(&read("nkey", path)?).map_err(|lack| lacking("nkey", path, lack))
}

/// Reads the text of a creds file. The error is what it lacks.
pub(crate) fn parse_creds(text: &str) -> Result<Credentials, &'static str> {
    let mut lines = text.lines().map(str::trim);
    lines.find(|line| line.contains("BEGIN NATS USER JWT")).ok_or("no user JWT")?;
    let jwt: String = lines.take_while(|line| !line.starts_with('-')).collect();
    let is_part = |part: &str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_=".contains(&byte))
    };
    if jwt.split('.').count() != 3 || !jwt.split('.').all(is_part) {
        return Err("a user JWT that is cut off or damaged");
    }
    Ok(Credentials { jwt: Some(jwt), ..parse_nkey(text)? })
}

/// Reads the text of an nkey file. The error is what it lacks.
pub(crate) fn parse_nkey(text: &str) -> Result<Credentials, &'static str> {
    let seed = nkey_seed(text).ok_or("no user seed (a line SU…)")?;
    let key = KeyPair::from_seed(seed).map_err(|_| "no user seed (a line SU…)")?;
    Ok(Credentials { jwt: None, key })
}

/// The user's seed in the text of an nkey or creds file: the first line that is one, decorated or bare.
pub(crate) fn nkey_seed(contents: &str) -> Option<&str> {
    let is_seed = |line: &str| {
        let pair = line.starts_with("SU").then(|| KeyPair::from_seed(line).ok()).flatten();
        pair.is_some_and(|pair| pair.key_pair_type() == KeyPairType::User)
    };
    contents.lines().map(str::trim).find(|line| is_seed(line))
}

fn read(what: &str, path: &Path) -> Result<String, String> {
    let text = fs::read(path)
        .map_err(|error| format!("the {what} file {} cannot be read: {error}", path.display()))?;
    // Comments may be in any encoding; what is looked for is ASCII.
    Ok(String::from_utf8_lossy(&text).into_owned())
}

fn lacking(what: &str, path: &Path, lack: &str) -> String {
    format!("the {what} file {} holds {lack}: name another file", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEED: &str = "SUANQDPB2RUOE4ETUA26CNX7FUKE5ZZKFCQIIW63OX225F2CO7UEXTM7ZY";

    fn lack(text: &str) -> Option<&'static str> {
        parse_creds(text).err()
    }

    #[test]
    fn the_seed_is_found() {
        assert_eq!(nkey_seed(SEED), Some(SEED));
        let decorated =
            format!("-----BEGIN USER NKEY SEED-----\r\n{SEED}\r\n------END USER NKEY SEED------\r\n");
        assert_eq!(nkey_seed(&decorated), Some(SEED));
        assert_eq!(nkey_seed(&SEED.replace("QDPB", "QDPA")), None);
        assert_eq!(nkey_seed("UAMMBNV2EYR65NYZZ7IAK5SIR5ODNTTERJOBOF4KJLMWI45YOXOSWULM"), None);
        assert_eq!(nkey_seed("SUÄ\nSU"), None);
    }

    #[test]
    fn creds_are_read_however_their_lines_end() {
        let lines = [
            "-----BEGIN NATS USER JWT-----",
            "eyJ0.eyJq.c2ln",
            "------END NATS USER JWT------",
            "",
            "-----BEGIN USER NKEY SEED-----",
            SEED,
            "------END USER NKEY SEED------",
        ];
        for separator in ["\n", "\r\n", " \n", "\t \r\n"] {
            let creds = parse_creds(&lines.join(separator)).unwrap_or_else(|lack| panic!("{lack}"));
            assert_eq!(creds.jwt.as_deref(), Some("eyJ0.eyJq.c2ln"));
            assert_eq!(creds.key.seed().unwrap(), SEED);
        }
        let text = lines.join("\n");
        assert_eq!(lack(SEED), Some("no user JWT"));
        assert_eq!(lack(&lines[..3].join("\n")), Some("no user seed (a line SU…)"));
        for damaged in ["eyJ0.eyJq", "", "eyJ0..c2ln", "eyJ0.ey Jq.c2ln", "eyJ0.eyJq.c2ln.x"] {
            let text = text.replace("eyJ0.eyJq.c2ln", damaged);
            assert_eq!(lack(&text), Some("a user JWT that is cut off or damaged"), "{damaged:?}");
        }
    }
}
