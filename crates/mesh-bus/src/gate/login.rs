//! What we say of ourselves in CONNECT. The client library's own goes no further than the gate.

use crate::config::Auth;
use crate::credentials::{self, Credentials};
use data_encoding::BASE64URL_NOPAD;
use serde::Serialize;

#[derive(Serialize)]
#[allow(clippy::struct_excessive_bools, reason = "so the protocol has it")]
struct Connect<'a> {
    verbose: bool,
    pedantic: bool,
    echo: bool,
    tls_required: bool,
    headers: bool,
    no_responders: bool,
    /// 1: INFO may come at any time.
    protocol: u8,
    lang: &'static str,
    version: &'static str,
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pass: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    auth_token: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    jwt: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    nkey: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sig: Option<String>,
}

/// The line with which `client` introduces itself to a server that gave this nonce. Files are read again.
pub(super) fn line(client: &str, tls: bool, auth: &Auth, nonce: &str) -> Result<String, String> {
    let mut connect = Connect {
        verbose: false,
        pedantic: false,
        echo: true,
        tls_required: tls,
        headers: true,
        no_responders: true,
        protocol: 1,
        lang: "rust",
        version: env!("CARGO_PKG_VERSION"),
        name: client,
        user: None,
        pass: None,
        auth_token: None,
        jwt: None,
        nkey: None,
        sig: None,
    };
    match auth {
        Auth::None => {}
        Auth::UserPassword { user, password } => {
            connect.user = Some(user);
            connect.pass = Some(password.expose());
        }
        Auth::Token(token) => connect.auth_token = Some(token.expose()),
        Auth::Creds(path) => prove(&mut connect, credentials::read_creds(path)?, nonce)?,
        Auth::Nkey(path) => prove(&mut connect, credentials::read_nkey(path)?, nonce)?,
        Auth::Seed(seed) => {
            let credentials = credentials::parse_nkey(seed.expose());
            prove(&mut connect, credentials.map_err(|lack| format!("the seed given is {lack}"))?, nonce)?;
        }
    }
    let json = serde_json::to_string(&connect).expect("text and numbers");
    Ok(format!("CONNECT {json}\r\n"))
}

fn prove(connect: &mut Connect<'_>, credentials: Credentials, nonce: &str) -> Result<(), String> {
    let Credentials { jwt, key } = credentials;
    let signature = key
        .sign(nonce.as_bytes())
        .map_err(|error| format!("the server's nonce cannot be signed: {error}"))?;
    connect.sig = Some(BASE64URL_NOPAD.encode(&signature));
    connect.nkey = jwt.is_none().then(|| key.public_key());
    connect.jwt = jwt;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_to_authenticate_has_its_fields() {
        let user = Auth::UserPassword { user: "a\"b".to_owned(), password: "p".to_owned().into() };
        for (auth, fields) in [
            (Auth::None, r#""name":"me"}"#),
            (user, r#""name":"me","user":"a\"b","pass":"p"}"#),
            (Auth::Token("t".to_owned().into()), r#""name":"me","auth_token":"t"}"#),
        ] {
            let line = line("me", true, &auth, "").unwrap();
            assert!(
                line.ends_with(&format!("{fields}\r\n")) && line.contains(r#""tls_required":true"#),
                "{line}"
            );
        }
    }
}
