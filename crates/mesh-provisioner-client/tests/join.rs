//! Joining, on a real bus over TLS, with the real program of the host, and a controller that says what the test wants.

use mesh_model::digest::Digest;
use mesh_model::host_api::Line;
use mesh_model::join::{Answer, Proven, Request};
use mesh_model::json::Read as _;
use mesh_model::keys::SealingKey;
use mesh_model::rights::{JOIN, Rights};
use mesh_model::signed::{Envelope, PayloadType};
use mesh_model::token::{Seed, Token};
use mesh_provisioner_client::join::{Failure, Wanted, join};
use mesh_provisioner_client::site::{Joined, Site};
use mesh_testing::accounts::Account;
use mesh_testing::client::Client;
use mesh_testing::proxy::Proxy;
use mesh_testing::server::Server;
use mesh_testing::setup::Setup;
use mesh_testing::tls::{Authority, Term};
use mesh_testing::wire::headers;
use nkeys::{KeyPair, XKey};
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(30);

/// The host's program, built for this test.
fn host_program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let built = Command::new(env!("CARGO")).args(["build", "--quiet", "-p", "mesh-host"]).status();
        assert!(built.is_ok_and(|status| status.success()), "mesh-host cannot be built");
        // Beside the folder that this test is in.
        let own = std::env::current_exe().expect("a path");
        own.parent().and_then(Path::parent).expect("target/debug").join("mesh-host")
    })
}

/// What the controller says to a request, or `None` for nothing.
type Says = Box<dyn FnMut(&[u8]) -> Option<Vec<u8>> + Send>;

/// A bus whose joiners may do what they may do, and a token for it.
struct Mesh {
    server: Server,
    key: KeyPair,
    vault: XKey,
    token_key: KeyPair,
    joiner: KeyPair,
    /// May do everything.
    node: KeyPair,
    pin: Digest,
    _authority: Authority,
    heard: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Mesh {
    fn start() -> Mesh {
        // It may have to be built, which is not to count as a wait.
        host_program();
        let (joiner, node) = (KeyPair::new_user(), KeyPair::new_user());
        let authority = Authority::new();
        let issued = authority.issue("bus", "bus.example", Term::Valid);
        let pin = mesh_bus::pin::of_file(Path::new(&issued.certificate)).unwrap();
        let text = format!(
            "accounts {{ M {{ users: [\n{{ user: controller, password: x }}\n{{ nkey: {} }}\n{{ nkey: {}\n{} }}\n] }} }}\ntls {{ cert_file: {:?}, key_file: {:?} }}\nallow_non_tls: true\n",
            node.public_key(),
            joiner.public_key(),
            Rights::of_joiner().to_config(),
            issued.certificate,
            issued.key,
        );
        Mesh {
            server: Setup::custom(&text).start(),
            key: KeyPair::new_operator(),
            vault: XKey::new(),
            token_key: KeyPair::new_user(),
            joiner,
            node,
            pin: format!("sha256:{}", data_encoding::HEXLOWER.encode(&pin)).parse().unwrap(),
            _authority: authority,
            heard: Arc::default(),
        }
    }

    fn token(&self, url: &str) -> Token {
        let seed = |pair: &KeyPair| Seed::try_from(pair.seed().unwrap()).unwrap();
        Token {
            id: "t1".into(),
            node: "attic".into(),
            servers: vec![url.replace("nats://", "tls://")],
            pin: Some(self.pin),
            mesh: self.key.public_key().parse().unwrap(),
            vault: SealingKey::of(&self.vault),
            key: seed(&self.token_key),
            joiner: seed(&self.joiner),
        }
    }

    /// Listens as the controller.
    fn controller(&self, mut says: Says) {
        let client = Client::connect(self.server.address(), &Account::new("controller", "x"));
        let requests = client.subscribe(JOIN, Some("q"));
        let heard = Arc::clone(&self.heard);
        thread::spawn(move || {
            while let Ok(message) = requests.next(PATIENCE) {
                heard.lock().unwrap().push(message.body.clone());
                let Some(answer) = says(&message.body) else { continue };
                let text = String::from_utf8_lossy(&answer).into_owned();
                let code = text
                    .contains("\"error\"")
                    .then(|| text.split(&[':', ','][..]).nth(2).unwrap().to_owned());
                let headers =
                    code.map_or_else(Vec::new, |code| headers(&[("Nats-Service-Error-Code", &code)]));
                client.publish_with(message.reply.unwrap(), None, &headers, answer);
            }
        });
    }

    /// The answer to a request whose proofs hold.
    fn answer(&self) -> impl Fn(&[u8]) -> Vec<u8> + Send + use<> {
        let (seed, token) = (self.key.seed().unwrap(), self.token_key.public_key());
        let vault = SealingKey::of(&self.vault);
        move |body| {
            let proven = Proven::from_json_bytes(body).unwrap();
            signed(&KeyPair::from_seed(&seed).unwrap(), proven.check(&token).unwrap(), &vault)
        }
    }

    fn heard(&self) -> Vec<Vec<u8>> {
        self.heard.lock().unwrap().clone()
    }
}

fn signed(key: &KeyPair, request: &Request, vault: &SealingKey) -> Vec<u8> {
    let answer = Answer {
        mesh: "the-mesh".into(),
        node: request.node.clone(),
        bus: request.bus.clone(),
        sealing: request.sealing.clone(),
        vault: vault.clone(),
        token: request.token.clone(),
    };
    let envelope = Envelope::sign_json(PayloadType::JoinAnswer, &answer, key).unwrap();
    [b"{\"answer\":", &envelope.to_bytes()[..], b"}"].concat()
}

/// A tree that is not the machine.
struct Tree(tempfile::TempDir);

impl Tree {
    fn new() -> Tree {
        Tree(tempfile::tempdir().unwrap())
    }

    fn site(&self) -> Site {
        Site::new(Some(self.0.path()))
    }

    fn join(&self, token: Token, within: Duration) -> Result<Joined, Failure> {
        let wanted = Wanted {
            site: self.site(),
            token,
            user: None,
            address: Some("10.0.0.7".into()),
            host: Some(host_program().to_owned()),
            ca: None,
            within,
        };
        join(&wanted, &mut |_| {})
    }

    /// The files that there are, without those of the host's own making.
    fn files(&self) -> Vec<String> {
        fn below(folder: &Path, found: &mut Vec<PathBuf>) {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() { below(&path, found) } else { found.push(path) }
            }
        }
        let mut found = Vec::new();
        below(self.0.path(), &mut found);
        let names = found.iter().map(|path| path.strip_prefix(self.0.path()).unwrap().display().to_string());
        let mut names: Vec<String> = names
            .filter(|name| !name.starts_with("var/lib/mesh-host") && !name.starts_with("run/mesh-host"))
            .collect();
        names.sort();
        names
    }
}

const JOINED: [&str; 3] = [
    "etc/mesh-host/host.json",
    "etc/mesh-provisioner-client/client.json",
    "var/lib/mesh-provisioner-client/bus.nk",
];

#[test]
fn a_token_makes_a_machine_a_node() {
    let mesh = Mesh::start();
    let answer = mesh.answer();
    mesh.controller(Box::new(move |body| Some(answer(body))));
    let tree = Tree::new();
    let joined = tree.join(mesh.token(&mesh.server.client_url()), PATIENCE).unwrap();
    assert_eq!((joined.mesh.as_str(), joined.node.as_str()), ("the-mesh", "attic"));
    assert_eq!(tree.site().joined(), Ok(joined));
    assert_eq!(tree.files(), JOINED);

    let of = |name: &str| fs::metadata(tree.0.path().join(name)).unwrap();
    let modes = JOINED.map(|name| of(name).permissions().mode() & 0o7777);
    assert_eq!(modes, [0o644, 0o644, 0o600]);
    assert_eq!(of("var/lib/mesh-provisioner-client").permissions().mode() & 0o7777, 0o700);

    // The host reads its own.
    let host = mesh_host::site::Site::new(Some(tree.0.path()));
    let settings = host.settings().unwrap();
    assert_eq!((settings.mesh.as_str(), settings.node.as_str()), ("the-mesh", "attic"));
    assert_eq!(settings.mesh_key.as_str(), mesh.key.public_key());
    assert_eq!(settings.vault, SealingKey::of(&mesh.vault));
    assert_eq!(settings.client_uid, of(JOINED[2]).uid());

    // What was asked holds the keys that are here, and no secret of the token.
    let [request] = &mesh.heard()[..] else { panic!("one request") };
    let proven = Proven::from_json_bytes(request).unwrap();
    let request = proven.check(&mesh.token_key.public_key()).unwrap();
    let seed = fs::read_to_string(tree.site().seed_path()).unwrap();
    assert_eq!(request.bus.as_str(), KeyPair::from_seed(seed.trim()).unwrap().public_key());
    assert_eq!(request.sealing.as_str(), host.sealing_key().unwrap().unwrap().public_key());
    assert_eq!(request.facts.get("address").and_then(|text| text.as_text()), Some("10.0.0.7"));
    for name in JOINED {
        let text = fs::read_to_string(tree.0.path().join(name)).unwrap();
        for secret in [mesh.token_key.seed().unwrap(), mesh.joiner.seed().unwrap()] {
            assert!(!text.contains(&secret), "{name}");
        }
    }
}

/// J2, the client's side: joining again is asking again with the keys that are known.
#[test]
fn j2_a_machine_that_has_joined_asks_with_the_keys_it_has() {
    let mesh = Mesh::start();
    let answer = mesh.answer();
    mesh.controller(Box::new(move |body| Some(answer(body))));
    let tree = Tree::new();
    let first = tree.join(mesh.token(&mesh.server.client_url()), PATIENCE).unwrap();
    let again = tree.join(mesh.token(&mesh.server.client_url()), PATIENCE).unwrap();
    assert_eq!(first, again);
    let heard = mesh.heard();
    assert_eq!((heard.len(), &heard[0]), (2, &heard[1]));
    // A token for something else changes nothing.
    let before = tree.files();
    let other = Token { node: "cellar".into(), ..mesh.token(&mesh.server.client_url()) };
    let why = tree.join(other, PATIENCE).unwrap_err();
    assert!(matches!(&why, Failure::Here(why) if why.contains("is the node attic")), "{why:?}");
    assert_eq!((mesh.heard().len(), tree.files()), (2, before));
}

#[test]
fn j5_a_lost_answer_is_asked_for_again_with_the_same_keys() {
    let mesh = Mesh::start();
    let proxy = Arc::new(Proxy::start(&mesh.server));
    let (answer, cut) = (mesh.answer(), Arc::clone(&proxy));
    let mut lost = 0;
    mesh.controller(Box::new(move |body| {
        lost += 1;
        if lost > 2 {
            return Some(answer(body));
        }
        cut.cut();
        None
    }));
    let tree = Tree::new();
    tree.join(mesh.token(&proxy.client_url()), PATIENCE).unwrap();
    let heard = mesh.heard();
    assert_eq!(heard.len(), 3);
    assert!(heard.iter().all(|body| *body == heard[0]));
    assert_eq!(tree.files(), JOINED);
}

#[test]
fn a_refusal_is_told_and_nothing_is_written_but_the_key() {
    let mesh = Mesh::start();
    mesh.controller(Box::new(|_| {
        Some(br#"{"error":{"code":409,"reason":"conflict","message":"the token was used"}}"#.to_vec())
    }));
    let tree = Tree::new();
    let refused = tree.join(mesh.token(&mesh.server.client_url()), PATIENCE).unwrap_err();
    assert_eq!(refused, Failure::Refused("the controller says: 409 the token was used".into()));
    assert_eq!(mesh.heard().len(), 1);
    assert_eq!(tree.files(), [JOINED[2]]);
}

#[test]
fn a_controller_that_cannot_now_is_asked_again() {
    let mesh = Mesh::start();
    let answer = mesh.answer();
    let mut asked = 0;
    mesh.controller(Box::new(move |body| {
        asked += 1;
        let busy = br#"{"error":{"code":503,"reason":"timeout","message":"ask again"}}"#;
        Some(if asked == 1 { busy.to_vec() } else { answer(body) })
    }));
    let tree = Tree::new();
    tree.join(mesh.token(&mesh.server.client_url()), PATIENCE).unwrap();
    assert_eq!(mesh.heard().len(), 2);
}

#[test]
fn an_answer_of_somebody_else_does_not_count() {
    let mesh = Mesh::start();
    let (answer, token, vault) = (mesh.answer(), mesh.token_key.public_key(), SealingKey::of(&mesh.vault));
    let mut asked = 0;
    mesh.controller(Box::new(move |body| {
        asked += 1;
        let proven = Proven::from_json_bytes(body).unwrap();
        let request = proven.check(&token).unwrap();
        Some(match asked {
            1 => signed(&KeyPair::new_operator(), request, &vault),
            2 => b"{\"answer\":{}}".to_vec(),
            _ => answer(body),
        })
    }));
    let tree = Tree::new();
    tree.join(mesh.token(&mesh.server.client_url()), PATIENCE).unwrap();
    assert_eq!(mesh.heard().len(), 3);
}

#[test]
fn a_server_with_another_key_hears_nothing() {
    let mesh = Mesh::start();
    let answer = mesh.answer();
    mesh.controller(Box::new(move |body| Some(answer(body))));
    let tree = Tree::new();
    let token = Token { pin: Some(Digest::of(b"another")), ..mesh.token(&mesh.server.client_url()) };
    let why = tree.join(token, Duration::from_secs(1)).unwrap_err();
    assert!(matches!(&why, Failure::Unavailable(why) if why.contains("is not the pinned one")), "{why:?}");
    assert!(mesh.heard().is_empty());
    assert_eq!(tree.files(), [JOINED[2]]);
}

#[test]
fn what_cannot_be_written_is_found_before_the_token_is_spent() {
    let mesh = Mesh::start();
    let answer = mesh.answer();
    mesh.controller(Box::new(move |body| Some(answer(body))));
    let tree = Tree::new();
    // The folder of the host's settings is a file.
    fs::create_dir(tree.0.path().join("etc")).unwrap();
    fs::write(tree.0.path().join("etc/mesh-host"), "").unwrap();
    let why = tree.join(mesh.token(&mesh.server.client_url()), PATIENCE).unwrap_err();
    assert!(matches!(&why, Failure::Here(why) if why.contains("host.json cannot be written")), "{why:?}");
    assert!(mesh.heard().is_empty());
    assert_eq!(tree.files(), ["etc/mesh-host", JOINED[2]]);
}

#[test]
fn nobody_listens_is_told_when_the_time_is_over() {
    let mesh = Mesh::start();
    let why = Tree::new().join(mesh.token(&mesh.server.client_url()), Duration::from_secs(1)).unwrap_err();
    assert!(
        matches!(&why, Failure::Unavailable(why) if why.contains("is mesh-controller serve running?")),
        "{why:?}"
    );
    let stranger = KeyPair::new_user().seed().unwrap();
    let token = Token { joiner: Seed::try_from(stranger).unwrap(), ..mesh.token(&mesh.server.client_url()) };
    let why = Tree::new().join(token, Duration::from_secs(1)).unwrap_err();
    assert!(matches!(&why, Failure::Denied(why) if why.ends_with("issue a new token")), "{why:?}");
}

/// The key is asked of a host that runs.
#[test]
fn a_host_that_runs_tells_its_key_and_takes_requests() {
    use mesh_provisioner_client::host::{self, Call, Told};
    let tree = Tree::new();
    let root = tree.0.path();
    let made = Command::new(host_program()).args(["key", "make", "--root"]).arg(root).output().unwrap();
    assert!(made.status.success(), "{made:?}");
    let key = String::from_utf8(made.stdout).unwrap();
    let _host = mesh_testing::process::Process::start(
        "mesh-host",
        Command::new(host_program()).args(["serve", "--root"]).arg(root),
    );
    let site = tree.site();
    let told = mesh_testing::wait::until("the host to listen", PATIENCE, || {
        host::ask(&site.socket(), &mesh_model::host_api::Request::Key, PATIENCE)
    });
    assert_eq!(told, Line::Key(key.trim().to_owned()));

    let (tell, heard) = crossbeam_channel::unbounded::<Told>();
    let calls = host::start(site.socket(), tell).unwrap();
    for (number, request) in [(1, r#"{"status":{}}"#), (2, r#"{"nonsense":{}}"#)] {
        calls.send(Call { number, request: request.into() }).unwrap();
    }
    let Told::Ended { call: 1, result: Ok(Line::Status(_)) } = heard.recv_timeout(PATIENCE).unwrap() else {
        panic!("no status")
    };
    let Told::Ended { call: 2, result: Ok(Line::Error { code: 400, .. }) } =
        heard.recv_timeout(PATIENCE).unwrap()
    else {
        panic!("no refusal")
    };
    // A bus, a token and a controller as above, and no program of the host anywhere.
    let mesh = Mesh::start();
    let answer = mesh.answer();
    mesh.controller(Box::new(move |body| Some(answer(body))));
    let wanted = Wanted {
        site,
        token: mesh.token(&mesh.server.client_url()),
        user: None,
        address: None,
        host: Some("/nonexistent/mesh-host".into()),
        ca: None,
        within: PATIENCE,
    };
    join(&wanted, &mut |_| {}).unwrap();
    let proven = Proven::from_json_bytes(&mesh.heard()[0]).unwrap();
    assert_eq!(proven.check(&mesh.token_key.public_key()).unwrap().sealing.as_str(), key.trim());
}

/// Whom the tree's own passwd names owns the key, and is the client that the host knows. Only root can give it away.
#[test]
fn the_key_belongs_to_the_user_that_the_client_runs_as() {
    let mesh = Mesh::start();
    let answer = mesh.answer();
    mesh.controller(Box::new(move |body| Some(answer(body))));
    let tree = Tree::new();
    fs::create_dir(tree.0.path().join("etc")).unwrap();
    fs::write(tree.0.path().join("etc/passwd"), "mesh-provisioner-client:x:7998:7997::/:/usr/sbin/nologin\n")
        .unwrap();
    tree.join(mesh.token(&mesh.server.client_url()), PATIENCE).unwrap();
    let host = mesh_host::site::Site::new(Some(tree.0.path()));
    assert_eq!(host.settings().unwrap().client_uid, 7998);
    let own = rustix::process::geteuid();
    let wanted =
        if own.is_root() { (7998, 7997) } else { (own.as_raw(), rustix::process::getegid().as_raw()) };
    for path in [tree.site().state(), tree.site().seed_path()] {
        let found = fs::metadata(&path).unwrap();
        assert_eq!((found.uid(), found.gid()), wanted, "{}", path.display());
    }
    for name in &JOINED[..2] {
        assert_eq!(fs::metadata(tree.0.path().join(name)).unwrap().uid(), own.as_raw(), "{name}");
    }
}

#[test]
fn the_pin_that_joining_wrote_holds_for_every_later_connection() {
    let mesh = Mesh::start();
    let tree = Tree::new();
    let joined = Joined {
        mesh: "the-mesh".into(),
        mesh_key: mesh.key.public_key().parse().unwrap(),
        node: "attic".into(),
        servers: vec![mesh.server.client_url().replace("nats://", "tls://")],
        pin: Some(mesh.pin),
    };
    fs::create_dir_all(tree.site().settings()).unwrap();
    fs::create_dir_all(tree.site().state()).unwrap();
    fs::write(tree.site().seed_path(), mesh.node.seed().unwrap()).unwrap();
    let check = |joined: &Joined| {
        fs::write(tree.site().joined_path(), serde_json::to_vec(joined).unwrap()).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_mesh-provisioner-client"));
        let output = command.args(["check", "--root"]).arg(tree.0.path()).env_clear().output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let said = check(&joined);
    assert!(said.contains("ok    bus: connected to tls://"), "{said}");
    let said = check(&Joined { pin: Some(Digest::of(b"another")), ..joined.clone() });
    assert!(said.contains("FAIL  bus: ") && said.contains("is not the pinned one"), "{said}");
    // Without a pin the certificate is checked as usual, and nobody knows who signed this one.
    let said = check(&Joined { pin: None, ..joined });
    assert!(said.contains("FAIL  bus: ") && said.contains("not signed by a known CA"), "{said}");
}
