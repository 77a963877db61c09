//! Flags, environment and contexts become one validated [`BusConfig`].
//!
//! Flags override environment variables, which override the context. Settings that belong together come from one of
//! the three as a whole: the servers; the authentication; the client certificate with its key; the CA.
//!
//! Two rules keep credentials from the wrong server:
//!
//! - The user information of a URL belongs to its URL: if the servers of another source are used, it is not.
//! - A context that is merely selected (`nats context select`) is left alone altogether when a flag or the
//!   environment names the servers. One that the operator names, with `--context` or `NATS_CONTEXT`, gives what
//!   flags and environment leave open, as it does for the `nats` tool.
//!
//! Nothing here connects to a server, and no error quotes a secret.

pub mod address;
mod context;
mod files;
mod secret;

use std::fmt;
use std::path::PathBuf;

pub use self::secret::Secret;

use self::address::{Address, DEFAULT_PORT, UserInfo, parse_list};
use self::files::FileKind;
use crate::pem;

/// The servers and the authentication. Every file that it names existed and was readable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BusConfig {
    /// At least one. Without any setting it is `nats://127.0.0.1:4222`.
    pub servers: Vec<Address>,
    /// One kind of authentication, for every server of the cluster.
    pub auth: Auth,
    /// What TLS needs beyond the system's roots, if a server requires it.
    pub tls: Tls,
    /// The first tokens of the inbox that this account may subscribe, if a context names them.
    pub inbox_prefix: Option<String>,
}

/// How we authenticate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Auth {
    /// No credentials: the server decides, perhaps by the client certificate.
    None,
    /// An account of the server's configuration.
    UserPassword {
        /// The account's name.
        user: String,
        /// Its password.
        password: Secret,
    },
    /// A token of the server's configuration.
    Token(Secret),
    /// A file with a user's JWT and seed, read again for each connection.
    Creds(PathBuf),
    /// A file with a user's seed, read again at each connect.
    Nkey(PathBuf),
    /// A user's seed that is in no file, such as one out of a token.
    Seed(Secret),
}

/// Files for TLS, in PEM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tls {
    /// The CA to trust in place of the system's roots.
    pub ca: Option<PathBuf>,
    /// The client certificate. Present exactly if `key` is.
    pub cert: Option<PathBuf>,
    /// The private key of `cert`.
    pub key: Option<PathBuf>,
    /// The SHA-256 of the public key (SPKI) that the server's certificate must have. It takes the place of the roots:
    /// who signed the certificate, for which name and until when does not matter then.
    pub pin: Option<[u8; 32]>,
}

/// The flags from the command line. Passwords and tokens are not among them: every user of the machine can read the
/// arguments of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// `--server`: URLs, comma-separated.
    pub server: Option<String>,
    /// `--creds`: the path of a creds file.
    pub creds: Option<String>,
    /// `--nkey`: the path of a seed file.
    pub nkey: Option<String>,
    /// `--user`: an account's name; its password is `NATS_PASSWORD`.
    pub user: Option<String>,
    /// `--tls-ca`: the path of a PEM file.
    pub tls_ca: Option<String>,
    /// `--tls-cert`: the path of a PEM file.
    pub tls_cert: Option<String>,
    /// `--tls-key`: the path of a PEM file.
    pub tls_key: Option<String>,
    /// `--context`: a context of the `nats` tool, by name or by the path of its `.json` file.
    pub context: Option<String>,
}

/// A configuration error: one line that names the setting and what to change, without any secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError(String);

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ConfigError {}

/// A value with its name for error texts: `--creds`, `NATS_CREDS`, `creds in the context "lab"`.
///
/// The value may be a secret, so a setting has no `Debug`.
#[derive(Clone)]
struct Setting {
    name: String,
    value: String,
}

/// All settings of one source.
#[derive(Default)]
struct Level {
    url: Option<Setting>,
    creds: Option<Setting>,
    nkey: Option<Setting>,
    user: Option<Setting>,
    password: Option<Setting>,
    token: Option<Setting>,
    ca: Option<Setting>,
    cert: Option<Setting>,
    key: Option<Setting>,
    inbox_prefix: Option<Setting>,
}

/// The process's environment, for [`load`]. A value that is not UTF-8 is converted with replacement characters, so
/// that it is rejected instead of counted as unset.
pub fn environment(name: &str) -> Option<String> {
    std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
}

/// Decides how to connect; the module documents the precedence. Reads the chosen context and checks every file that
/// the result names.
///
/// An empty variable counts as unset, as in the `nats` CLI. An empty flag is an error, because it usually comes from
/// an unset shell variable. Two kinds of authentication in one source are an error, too.
pub fn load(flags: &Flags, environment: &dyn Fn(&str) -> Option<String>) -> Result<BusConfig, ConfigError> {
    let context_flag = flag("--context", flags.context.as_ref())?;
    let variables = Level::of_environment(environment);
    let flags = Level::of_flags(flags, variables.password.clone())?;
    let context = match context_flag.or_else(|| variable("NATS_CONTEXT", environment)) {
        Some(name) => context::named(&name, environment)?,
        None if flags.url.is_some() || variables.url.is_some() => Level::default(),
        None => context::selected(environment)?.unwrap_or_default(),
    };
    let context = context.with_password(variables.password.clone());
    let levels = [flags, variables, context];

    let mut servers = vec![Address { tls: false, host: "127.0.0.1".to_owned(), port: DEFAULT_PORT }];
    let mut user_infos = [None, None, None];
    if let Some((rank, url)) =
        levels.iter().enumerate().find_map(|(rank, level)| Some((rank, level.url.as_ref()?)))
    {
        let user_info;
        (servers, user_info) =
            parse_list(&url.value).map_err(|why| ConfigError(format!("{}: {why}", url.name)))?;
        user_infos[rank] = user_info;
    }

    let mut auth = None;
    for (level, user_info) in levels.iter().zip(user_infos) {
        auth = level.auth(user_info, environment)?;
        if auth.is_some() {
            break;
        }
    }
    if let (None, Some(password)) = (&auth, levels.iter().find_map(|level| level.password.as_ref())) {
        return Err(ConfigError(format!(
            "{} is given but no user is: set NATS_USER or --user",
            password.name
        )));
    }
    Ok(BusConfig {
        servers,
        auth: auth.unwrap_or(Auth::None),
        tls: tls(&levels, environment)?,
        inbox_prefix: inbox_prefix(&levels)?,
    })
}

fn inbox_prefix(levels: &[Level]) -> Result<Option<String>, ConfigError> {
    let Some(setting) = levels.iter().find_map(|level| level.inbox_prefix.as_ref()) else { return Ok(None) };
    match check_inbox_prefix(&setting.value) {
        Ok(()) => Ok(Some(setting.value.clone())),
        Err(why) => Err(ConfigError(format!("{}: {why}", setting.name))),
    }
}

/// Whether a text can be the first tokens of an inbox.
pub fn check_inbox_prefix(text: &str) -> Result<(), String> {
    let is_token = |token: &str| {
        !token.is_empty()
            && !token.contains(|c: char| matches!(c, '*' | '>') || c.is_whitespace() || c.is_control())
    };
    if text.split('.').all(is_token) && !text.starts_with('$') {
        return Ok(());
    }
    Err(format!(
        "{text:?} is not an inbox prefix: give the first tokens of an inbox that the account may subscribe, such as _INBOX_attic, without wildcards"
    ))
}

/// What others than the operator can read of the secrets: a sentence each, for the log. They are in a file that others
/// can read, or in an argument of the process.
pub fn warnings(flags: &Flags, config: &BusConfig) -> Vec<String> {
    let auth = match &config.auth {
        Auth::Creds(path) => files::exposed("creds", path),
        Auth::Nkey(path) => files::exposed("nkey", path),
        Auth::None | Auth::UserPassword { .. } | Auth::Token(_) | Auth::Seed(_) => None,
    };
    let key = config.tls.key.as_ref().and_then(|path| files::exposed("TLS key", path));
    let in_url = flags.server.as_ref().and_then(|urls| match parse_list(urls) {
        Ok((_, Some(_))) => Some(
            "--server holds a password or token, and every user of this machine can read the arguments of a process: put it into NATS_URL, NATS_PASSWORD or a file"
                .to_owned(),
        ),
        _ => None,
    });
    auth.into_iter().chain(key).chain(in_url).collect()
}

fn flag(name: &str, value: Option<&String>) -> Result<Option<Setting>, ConfigError> {
    match value {
        Some(value) if value.is_empty() => {
            Err(ConfigError(format!("{name} is empty: give it a value, or omit it")))
        }
        value => Ok(value.map(|value| Setting { name: name.to_owned(), value: value.clone() })),
    }
}

fn variable(name: &str, environment: &dyn Fn(&str) -> Option<String>) -> Option<Setting> {
    let value = environment(name).filter(|value| !value.is_empty())?;
    Some(Setting { name: name.to_owned(), value })
}

impl Level {
    fn of_flags(flags: &Flags, password: Option<Setting>) -> Result<Self, ConfigError> {
        let level = Self {
            url: flag("--server", flags.server.as_ref())?,
            creds: flag("--creds", flags.creds.as_ref())?,
            nkey: flag("--nkey", flags.nkey.as_ref())?,
            user: flag("--user", flags.user.as_ref())?,
            ca: flag("--tls-ca", flags.tls_ca.as_ref())?,
            cert: flag("--tls-cert", flags.tls_cert.as_ref())?,
            key: flag("--tls-key", flags.tls_key.as_ref())?,
            password: None,
            token: None,
            inbox_prefix: None,
        };
        Ok(level.with_password(password))
    }

    fn of_environment(environment: &dyn Fn(&str) -> Option<String>) -> Self {
        let variable = |name| variable(name, environment);
        Self {
            url: variable("NATS_URL"),
            creds: variable("NATS_CREDS"),
            nkey: variable("NATS_NKEY"),
            user: variable("NATS_USER"),
            password: variable("NATS_PASSWORD"),
            token: variable("NATS_TOKEN"),
            ca: variable("NATS_CA"),
            cert: variable("NATS_CERT"),
            key: variable("NATS_KEY"),
            inbox_prefix: None,
        }
    }

    /// A user from the flags or a context without its own password gets the environment's.
    fn with_password(mut self, password: Option<Setting>) -> Self {
        if self.user.is_some() {
            self.password = self.password.or(password);
        }
        self
    }

    /// The one kind of authentication of this level, if any; `user_info` belongs to its URL.
    fn auth(
        &self,
        user_info: Option<UserInfo>,
        environment: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Option<Auth>, ConfigError> {
        let url = user_info.as_ref().and(self.url.as_ref());
        let given: Vec<&Setting> =
            [url, self.creds.as_ref(), self.nkey.as_ref(), self.user.as_ref(), self.token.as_ref()]
                .into_iter()
                .flatten()
                .collect();
        if let [one, other, ..] = given[..] {
            let of_url = if url.is_some() { "the user information of " } else { "" };
            return Err(ConfigError(format!(
                "{of_url}{} and {} are two kinds of authentication: give one",
                one.name, other.name
            )));
        }
        let secret = |setting: &Setting| Secret::from(setting.value.clone());
        Ok(if let Some(user_info) = user_info {
            Some(match user_info {
                UserInfo::UserPassword { user, password } => Auth::UserPassword { user, password },
                UserInfo::Token(token) => Auth::Token(token),
            })
        } else if let Some(creds) = &self.creds {
            Some(Auth::Creds(files::path(creds, FileKind::Creds, environment)?))
        } else if let Some(nkey) = &self.nkey {
            Some(Auth::Nkey(files::path(nkey, FileKind::Nkey, environment)?))
        } else if let Some(user) = &self.user {
            let Some(password) = &self.password else {
                return Err(ConfigError(format!(
                    "{} has no password: set NATS_PASSWORD (a token goes into NATS_TOKEN)",
                    user.name
                )));
            };
            Some(Auth::UserPassword { user: user.value.clone(), password: secret(password) })
        } else {
            self.token.as_ref().map(|token| Auth::Token(secret(token)))
        })
    }
}

fn tls(levels: &[Level], environment: &dyn Fn(&str) -> Option<String>) -> Result<Tls, ConfigError> {
    let mut tls = Tls::default();
    if let Some(ca) = levels.iter().find_map(|level| level.ca.as_ref()) {
        let path = files::path(ca, FileKind::Certificate, environment)?;
        pem::roots(Some(&path)).map_err(|why| ConfigError(format!("{}: {why}", ca.name)))?;
        tls.ca = Some(path);
    }
    match levels.iter().map(|level| (&level.cert, &level.key)).find(|pair| !matches!(pair, (None, None))) {
        Some((Some(cert), Some(key))) => {
            let cert_path = files::path(cert, FileKind::Certificate, environment)?;
            let key_path = files::path(key, FileKind::Key, environment)?;
            let identity = pem::identity(&cert_path, &key_path);
            identity.map_err(|why| ConfigError(format!("{} and {}: {why}", cert.name, key.name)))?;
            tls.cert = Some(cert_path);
            tls.key = Some(key_path);
        }
        Some((Some(cert), None)) => {
            return Err(ConfigError(format!("{} comes without its key: give both in one place", cert.name)));
        }
        Some((None, Some(key))) => {
            return Err(ConfigError(format!(
                "{} comes without its certificate: give both in one place",
                key.name
            )));
        }
        Some((None, None)) | None => {}
    }
    Ok(tls)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    const SEED: &str = "SUANQDPB2RUOE4ETUA26CNX7FUKE5ZZKFCQIIW63OX225F2CO7UEXTM7ZY";

    /// A certificate and its key.
    fn pem() -> String {
        let key = rcgen::KeyPair::generate().unwrap();
        let wanted = rcgen::CertificateParams::new(vec!["node".to_owned()]).unwrap();
        wanted.self_signed(&key).unwrap().pem() + &key.serialize_pem()
    }

    /// A home with files in it, and an environment that has it for `HOME`. Gone at the end of the test.
    struct Home {
        path: PathBuf,
        variables: HashMap<&'static str, String>,
    }

    impl Home {
        fn new() -> Self {
            static COUNT: AtomicU32 = AtomicU32::new(0);
            let count = COUNT.fetch_add(1, Ordering::Relaxed);
            let path = std::env::temp_dir().join(format!("mesh-config-{}-{count}", std::process::id()));
            fs::create_dir_all(path.join(".config/nats/context")).unwrap();
            let variables = HashMap::from([("HOME", path.to_str().unwrap().to_owned())]);
            let home = Self { path, variables };
            home.file(
                "creds",
                &format!(
                    "-----BEGIN NATS USER JWT-----\neyJ0.eyJq.c2ln\n------END NATS USER JWT------\n{SEED}\n"
                ),
            )
            .file("nkey", SEED)
            .file("pem", &pem())
        }

        fn file(self, name: &str, contents: &str) -> Self {
            let path = self.path.join(name);
            fs::write(&path, contents).unwrap();
            fs::set_permissions(path, PermissionsExt::from_mode(0o600)).unwrap();
            self
        }

        fn context(self, name: &str, contents: &str) -> Self {
            self.file(&format!(".config/nats/context/{name}.json"), contents)
        }

        fn selected(self, name: &str) -> Self {
            self.file(".config/nats/context.txt", name)
        }

        fn set(mut self, name: &'static str, value: &str) -> Self {
            self.variables.insert(name, value.to_owned());
            self
        }

        fn load(&self, flags: &[(&str, &str)]) -> Result<BusConfig, String> {
            let mut given = Flags::default();
            for (name, value) in flags {
                let flag = match *name {
                    "--server" => &mut given.server,
                    "--creds" => &mut given.creds,
                    "--nkey" => &mut given.nkey,
                    "--user" => &mut given.user,
                    "--tls-ca" => &mut given.tls_ca,
                    "--tls-cert" => &mut given.tls_cert,
                    "--tls-key" => &mut given.tls_key,
                    "--context" => &mut given.context,
                    other => panic!("no flag {other}"),
                };
                *flag = Some((*value).to_owned());
            }
            load(&given, &|name| self.variables.get(name).cloned()).map_err(|error| error.to_string())
        }

        fn auth(&self, flags: &[(&str, &str)]) -> Result<Auth, String> {
            self.load(flags).map(|connection| connection.auth)
        }

        fn servers(&self, flags: &[(&str, &str)]) -> Result<Vec<String>, String> {
            let connection = self.load(flags)?;
            Ok(connection.servers.iter().map(Address::to_string).collect())
        }

        fn error(&self, flags: &[(&str, &str)]) -> String {
            self.load(flags).unwrap_err()
        }
    }

    impl Drop for Home {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.path).unwrap();
        }
    }

    fn user(user: &str, password: &str) -> Auth {
        Auth::UserPassword { user: user.to_owned(), password: password.to_owned().into() }
    }

    fn token(token: &str) -> Auth {
        Auth::Token(token.to_owned().into())
    }

    #[test]
    fn without_any_setting_it_is_the_local_server() {
        let local = BusConfig {
            servers: vec![Address { tls: false, host: "127.0.0.1".to_owned(), port: 4222 }],
            auth: Auth::None,
            tls: Tls::default(),
            inbox_prefix: None,
        };
        assert_eq!(Home::new().load(&[]), Ok(local.clone()));
        assert_eq!(load(&Flags::default(), &|_| None), Ok(local.clone()));
        assert_eq!(Home::new().set("NATS_URL", "").set("NATS_CREDS", "").load(&[]), Ok(local));
    }

    #[test]
    fn flags_beat_environment_beats_context() {
        let home = Home::new().context("lab", r#"{"url":"c","token":"of-context","ca":"~/pem"}"#);
        assert_eq!(home.servers(&[("--context", "lab")]), Ok(vec!["nats://c:4222".to_owned()]));
        assert_eq!(home.auth(&[("--context", "lab")]), Ok(token("of-context")));
        let home = home.set("NATS_URL", "e,f").set("NATS_TOKEN", "of-environment").set("NATS_CONTEXT", "lab");
        assert_eq!(home.servers(&[]), Ok(vec!["nats://e:4222".to_owned(), "nats://f:4222".to_owned()]));
        assert_eq!(home.auth(&[]), Ok(token("of-environment")));
        assert_eq!(home.load(&[]).unwrap().tls.ca, Some(home.path.join("pem")));
        assert_eq!(home.servers(&[("--server", "tls://g:1")]), Ok(vec!["tls://g:1".to_owned()]));
        assert_eq!(home.auth(&[("--nkey", "~/nkey")]), Ok(Auth::Nkey(home.path.join("nkey"))));
        assert_eq!(home.error(&[("--server", "")]), "--server is empty: give it a value, or omit it");
    }

    #[test]
    fn each_kind_of_authentication_is_read() {
        let home = Home::new();
        assert_eq!(home.auth(&[("--creds", "$HOME/creds")]), Ok(Auth::Creds(home.path.join("creds"))));
        assert_eq!(home.auth(&[("--server", "nats://seat:p%40ss%2Fw@bus")]), Ok(user("seat", "p@ss/w")));
        assert_eq!(home.auth(&[("--server", "nats://hush@bus")]), Ok(token("hush")));
        let home = home.set("NATS_PASSWORD", "hush");
        assert_eq!(home.auth(&[("--user", "seat")]), Ok(user("seat", "hush")));
        let home = home.set("NATS_USER", "other");
        assert_eq!(home.auth(&[]), Ok(user("other", "hush")));
        assert_eq!(home.auth(&[("--user", "seat")]), Ok(user("seat", "hush")));
        let home = Home::new()
            .set("NATS_PASSWORD", "of-environment")
            .context("half", r#"{"user":"seat"}"#)
            .context("whole", r#"{"user":"seat","password":"of-context"}"#);
        assert_eq!(home.auth(&[("--context", "half")]), Ok(user("seat", "of-environment")));
        assert_eq!(home.auth(&[("--context", "whole")]), Ok(user("seat", "of-context")));
    }

    #[test]
    fn half_a_user_is_no_authentication() {
        let home = Home::new().context("lab", r#"{"password":"hush"}"#);
        assert_eq!(
            home.error(&[("--user", "seat")]),
            "--user has no password: set NATS_PASSWORD (a token goes into NATS_TOKEN)"
        );
        assert_eq!(
            home.error(&[("--context", "lab")]),
            r#"password in the context "lab" is given but no user is: set NATS_USER or --user"#
        );
        let home = home.set("NATS_PASSWORD", "hush");
        assert_eq!(home.error(&[]), "NATS_PASSWORD is given but no user is: set NATS_USER or --user");
        assert_eq!(home.auth(&[("--creds", "~/creds")]), Ok(Auth::Creds(home.path.join("creds"))));
    }

    #[test]
    fn one_source_gives_one_kind() {
        let home = Home::new().set("NATS_CREDS", "~/creds").set("NATS_NKEY", "~/nkey");
        assert_eq!(home.error(&[]), "NATS_CREDS and NATS_NKEY are two kinds of authentication: give one");
        assert_eq!(home.auth(&[("--nkey", "~/nkey")]), Ok(Auth::Nkey(home.path.join("nkey"))));
        assert_eq!(
            home.error(&[("--server", "nats://u:hush@bus"), ("--creds", "~/creds")]),
            "the user information of --server and --creds are two kinds of authentication: give one"
        );
        let home = home.context("lab", r#"{"user":"seat","password":"hush","token":"hush"}"#);
        let home = home.set("NATS_CREDS", "").set("NATS_NKEY", "");
        assert_eq!(
            home.error(&[("--context", "lab")]),
            r#"user in the context "lab" and token in the context "lab" are two kinds of authentication: give one"#
        );
    }

    #[test]
    fn user_information_goes_only_where_its_url_goes() {
        let home = Home::new().set("NATS_URL", "nats://u:hush@bus");
        assert_eq!(home.auth(&[]), Ok(user("u", "hush")));
        assert_eq!(home.auth(&[("--server", "elsewhere")]), Ok(Auth::None));
        let home = Home::new().context("lab", r#"{"url":"nats://u:hush@bus"}"#);
        assert_eq!(home.auth(&[("--context", "lab")]), Ok(user("u", "hush")));
        assert_eq!(home.auth(&[("--context", "lab"), ("--server", "elsewhere")]), Ok(Auth::None));
    }

    #[test]
    fn a_selected_context_keeps_its_credentials_for_its_own_server() {
        let home = Home::new().context("lab", r#"{"url":"bus","token":"hush"}"#).selected("lab\n");
        assert_eq!(home.servers(&[]), Ok(vec!["nats://bus:4222".to_owned()]));
        assert_eq!(home.auth(&[]), Ok(token("hush")));
        assert_eq!(home.auth(&[("--server", "elsewhere")]), Ok(Auth::None));
        assert_eq!(home.auth(&[("--server", "elsewhere"), ("--context", "lab")]), Ok(token("hush")));
        let home = home.set("NATS_URL", "elsewhere");
        assert_eq!(home.auth(&[]), Ok(Auth::None));
    }

    #[test]
    fn contexts_are_found_or_missed_by_name() {
        let home = Home::new().selected("lab").file("own.json", r#"{"token":"hush"}"#);
        let contexts = home.path.join(".config/nats");
        assert_eq!(
            home.error(&[]),
            format!(
                "{:?} names the context \"lab\", which does not exist ({:?}): name another",
                contexts.join("context.txt"),
                contexts.join("context/lab.json")
            )
        );
        assert_eq!(
            home.error(&[("--context", "lab")]),
            format!(
                "--context names the context \"lab\", which does not exist ({:?}): name another",
                contexts.join("context/lab.json")
            )
        );
        assert_eq!(
            home.error(&[("--context", "../lab")]),
            r#"--context: "../lab" is not the name of a context, nor a .json file that exists"#
        );
        let own = home.path.join("own.json");
        assert_eq!(home.auth(&[("--context", own.to_str().unwrap())]), Ok(token("hush")));
        let flags = Flags { context: Some("lab".to_owned()), ..Flags::default() };
        assert_eq!(
            load(&flags, &|_| None).unwrap_err().to_string(),
            "--context: neither HOME nor XDG_CONFIG_HOME is set: set one"
        );
        let elsewhere = home.path.join("elsewhere").to_str().unwrap().to_owned();
        assert_eq!(home.set("XDG_CONFIG_HOME", &elsewhere).auth(&[]), Ok(Auth::None));
    }

    #[test]
    fn a_certificate_and_its_key_go_together() {
        let home = Home::new().context("lab", r#"{"cert":"~/pem","key":"~/pem"}"#);
        let pem = Some(home.path.join("pem"));
        let tls = |flags: &[(&str, &str)]| home.load(flags).map(|connection| connection.tls);
        assert_eq!(
            tls(&[("--tls-ca", "~/pem"), ("--tls-cert", "~/pem"), ("--tls-key", "file://~/pem")]),
            Ok(Tls { ca: pem.clone(), cert: pem.clone(), key: pem.clone(), pin: None })
        );
        assert_eq!(
            tls(&[("--context", "lab")]),
            Ok(Tls { ca: None, cert: pem.clone(), key: pem, pin: None })
        );
        assert_eq!(
            tls(&[("--context", "lab"), ("--tls-cert", "~/pem")]),
            Err("--tls-cert comes without its key: give both in one place".to_owned())
        );
        let home = Home::new().set("NATS_KEY", "~/pem");
        assert_eq!(home.error(&[]), "NATS_KEY comes without its certificate: give both in one place");
    }

    #[test]
    fn a_file_that_cannot_serve_is_said_with_its_setting() {
        let home = Home::new().file("empty", "");
        for (flag, value, words) in [
            ("--creds", "~/none", "there is no such file: name one that exists"),
            ("--creds", "~", "this is not a regular file, which is read again for each connection"),
            ("--creds", "~/nkey", "the file holds no user JWT: name another file"),
            ("--nkey", "~/empty", "the file holds no user seed (a line SU…): name another file"),
            ("--tls-ca", "~/empty", "the file holds no certificate in PEM: name another file"),
            ("--creds", "$NOT_SET", "the variable NOT_SET in it is not set"),
        ] {
            assert_eq!(home.error(&[(flag, value)]), format!("{flag} {value:?}: {words}"));
        }
        assert_eq!(
            home.set("NATS_CREDS", "op://vault/seat").error(&[]),
            "NATS_CREDS: credentials by op: are not supported: name a file"
        );
    }

    #[test]
    fn no_secret_is_shown() {
        let home = Home::new();
        let shown = format!("{:?}", home.load(&[("--server", "nats://u:hush@bus")]));
        assert!(shown.contains("bus") && !shown.contains("hush"), "{shown}");
        assert_eq!(
            home.error(&[("--server", "nats://u:hush@bus:x")]),
            r#"--server: server "nats://bus:x": the port is not a number from 1 to 65535"#
        );
        assert_eq!(
            home.error(&[("--nkey", SEED)]),
            "--nkey is the secret itself: put it into a file and name that"
        );
        let home = home.set("NATS_PASSWORD", "hush");
        assert_eq!(
            home.error(&[("--creds", "$NATS_PASSWORD")]),
            r#"--creds "$NATS_PASSWORD": there is no such file: name one that exists"#
        );
    }

    #[test]
    fn files_that_others_can_reach_are_warned_of() {
        let home = Home::new();
        let creds = home.path.join("creds");
        let given = home.load(&[("--creds", "~/creds")]).unwrap();
        let warnings = |config| warnings(&Flags::default(), config);
        assert_eq!(warnings(&given), Vec::<String>::new());
        fs::set_permissions(Path::new(&creds), PermissionsExt::from_mode(0o644)).unwrap();
        assert_eq!(
            warnings(&given),
            [format!(
                "the creds file {creds:?} has mode 0644: others than its owner can read it (chmod 600)"
            )]
        );
    }

    #[test]
    fn a_password_on_the_command_line_is_warned_of() {
        let said = |server: &str| {
            let flags = Flags { server: Some(server.to_owned()), ..Flags::default() };
            warnings(&flags, &load(&flags, &|_| None).unwrap())
        };
        assert_eq!(said("nats://bus"), Vec::<String>::new());
        for server in ["nats://u:hush@bus", "nats://hush@bus"] {
            let said = said(server);
            assert!(
                said.len() == 1 && said[0].contains("NATS_PASSWORD") && !said[0].contains("hush"),
                "{said:?}"
            );
        }
    }

    #[test]
    fn a_context_may_name_the_inbox() {
        let home = Home::new()
            .context("lab", r#"{"inbox_prefix":"_INBOX_me"}"#)
            .context("bad", r#"{"inbox_prefix":"_INBOX.>"}"#);
        assert_eq!(home.load(&[("--context", "lab")]).unwrap().inbox_prefix.as_deref(), Some("_INBOX_me"));
        assert!(home.error(&[("--context", "bad")]).starts_with("inbox_prefix in the context \"bad\": "));
        assert_eq!(home.load(&[]).unwrap().inbox_prefix, None);
    }

    #[test]
    fn an_inbox_prefix_is_tokens_without_wildcards() {
        for good in ["_INBOX", "_INBOX_attic", "_MY.inbox"] {
            assert_eq!(check_inbox_prefix(good), Ok(()));
        }
        for bad in ["", ".", "_INBOX.", "_INBOX.>", "*", "a b", "$SYS", "a\r\nPUB b"] {
            assert!(check_inbox_prefix(bad).is_err(), "{bad}");
        }
    }
}
