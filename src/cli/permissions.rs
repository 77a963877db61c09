//! `permissions`: prints the least rights of a role, to be put into a nats-server's configuration.

use crate::seat;
use argh::FromArgs;
use mesh_daemon::exit::Exit;
use mesh_daemon::output::{complain, print};
use mesh_model::rights::Rights;

/// The roles beside a node.
const ROLES: [&str; 7] = ["seat", "reader", "administrator", "controller", "vault", "joiner", "node"];

/// What a role can be.
const KNOWN: &str = "expected seat, reader, administrator, controller, vault, joiner, or node NAME";

/// print the least bus permissions of a role, as a block of a nats-server's configuration
#[derive(FromArgs, Debug)]
#[argh(
    subcommand,
    name = "permissions",
    note = "The block goes into the user's entry, beside user and password. A node's name is printed as the token\nthat stands for it in keys, so a name gives no rights on another node's keys.",
    example = "{command_name} seat --reply-prefix _INBOX_mesh.node.attic",
    example = "{command_name} node attic",
    example = "{command_name} reader"
)]
pub(super) struct Permissions {
    /// seat, reader, administrator, controller, vault, joiner, or node and its name [seat]
    #[argh(positional)]
    role: Vec<String>,

    /// for seat: a subject that it is told to answer under too; may be given several times
    #[argh(option, arg_name = "subject", from_str_fn(parse_prefix))]
    reply_prefix: Vec<String>,

    /// for node and controller: a module that other modules are bound to, with a bucket of its own; may be given
    /// several times
    #[argh(option, arg_name = "module")]
    provider: Vec<String>,
}

impl Permissions {
    pub(super) fn run(self) -> Exit {
        match self.rights() {
            Ok(rights) => print(&rights.to_config()),
            Err(why) => {
                complain(&why);
                Exit::Usage
            }
        }
    }

    fn rights(&self) -> Result<Rights, String> {
        let role: Vec<&str> = self.role.iter().map(String::as_str).collect();
        if !self.provider.is_empty() && !matches!(role[..], ["node", _] | ["controller"]) {
            return Err("--provider is for node and controller alone: leave it out".to_owned());
        }
        let is_seat = matches!(role[..], [] | ["seat"]);
        if !is_seat && !self.reply_prefix.is_empty() {
            return Err("--reply-prefix is for the seat alone: leave it out".to_owned());
        }
        match role[..] {
            [] | ["seat"] => Ok(Rights::of_seat(&self.reply_prefix)),
            ["reader"] => Ok(Rights::of_reader()),
            ["administrator"] => Ok(Rights::of_administrator()),
            ["controller"] => Ok(Rights::of_controller(&self.provider)),
            ["vault"] => Ok(Rights::of_vault()),
            ["joiner"] => Ok(Rights::of_joiner()),
            ["node", name] => node(name, &self.provider),
            ["node"] => Err("node takes the node's name, such as: permissions node attic".to_owned()),
            [role, ..] if ROLES.contains(&role) => Err(format!("one role at a time: {KNOWN}")),
            [other, ..] => Err(format!("unknown role {other:?}: {KNOWN}")),
        }
    }
}

fn node(name: &str, providers: &[String]) -> Result<Rights, String> {
    Rights::of_node(name, providers).map_err(|why| format!("the node's name {why}"))
}

pub(super) fn parse_prefix(text: &str) -> Result<String, String> {
    seat::check_prefix(text).map(|()| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_is_one_of_seven_and_only_a_node_has_a_name() {
        let rights = |words: &[&str]| {
            Permissions::from_args(&["permissions"], words).map_err(|early| early.output)?.rights()
        };
        assert_eq!(rights(&[]), Ok(Rights::of_seat(&[])));
        assert_eq!(rights(&["seat", "--reply-prefix", "_A"]), Ok(Rights::of_seat(&["_A".to_owned()])));
        assert_eq!(rights(&["reader"]), Ok(Rights::of_reader()));
        assert_eq!(rights(&["node", "a.b"]), Ok(Rights::of_node("a.b", &[]).unwrap()));
        for wrong in [
            &["node"][..],
            &["node", ""],
            &["seat", "attic"],
            &["reader", "attic"],
            &["nobody"],
            &["reader", "--provider", "postgres"],
            &["reader", "--reply-prefix", "_A"],
            &["seat", "--reply-prefix", "$KV"],
        ] {
            assert!(rights(wrong).is_err(), "{wrong:?}");
        }
    }
}
