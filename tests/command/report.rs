//! `report`: the mesh as one page of HTML.

use crate::support::accounts::READER;
use crate::support::bucket::{APPLIED, COLLECT, NEEDS};
use crate::support::mesh::Mesh;
use crate::support::program::Program;
use crate::support::server::Server;

#[test]
fn the_page_shows_what_is_not_well_and_no_value() {
    let mesh = Mesh::start();
    let tester = mesh.tester();
    tester.kv_put(NEEDS, "attic.web.port.http", r#"{"port":"canary-of-a-need"}"#);
    tester.kv_put(APPLIED, "attic.web", r#"{"version":"canary-of-an-apply"}"#);
    tester.kv_put(NEEDS, "attic.backup.secret.key", r#"{"state":"waiting","why":"no responder"}"#);
    tester.kv_put(NEEDS, "cellar.media.licence.codec", "1");
    tester.kv_put(NEEDS, "cellar.<b>", "1");
    tester.kv_put(COLLECT, "attic.motd.web", r#"["canary-of-a-contribution"]"#);
    let page = Program::new(&["report"]).server(&mesh.server).account(&READER).run().expect_code(0).stdout;
    for part in [
        "<h1>The mesh <span class=\"bad\">is not well</span></h1>",
        "<code>${licence:codec}</code>",
        "<span class=\"good\">no responder</span>",
        "<td><b>attic</b></td><td><span class=\"bad\">never</span></td>",
        "motd on attic <span class=\"bad\">unread: no module of this node reads it</span>",
        "<code>cellar.&lt;b&gt;</code>",
    ] {
        assert!(page.contains(part), "{part} is not in\n{page}");
    }
    assert!(!page.contains("canary") && page.ends_with("</html>\n"), "{page}");
}

#[test]
fn without_a_seat_there_is_no_page() {
    let server = Server::start();
    let finished = Program::new(&["report"]).server(&server).account(&READER).run().expect_code(69);
    assert_eq!(finished.stdout, "");
    assert!(finished.stderr.contains("nobody holds the seat"), "{}", finished.stderr);
}
