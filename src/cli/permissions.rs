//! `permissions`: prints the least rights of a role, to be put into a nats-server's configuration.

use crate::permissions::Rights;
use crate::seat;
use argh::FromArgs;
use mesh_daemon::exit::Exit;
use mesh_daemon::output::{complain, print};

/// print the least bus permissions of a role, as a block of a nats-server's configuration
#[derive(FromArgs, Debug)]
#[argh(
    subcommand,
    name = "permissions",
    note = "The block goes into the user's entry, beside user and password. A node's name is printed as the token\nthat stands for it in keys, so a name gives no rights on another node's keys.",
    example = "{command_name} seat --reply-prefix _INBOX_attic",
    example = "{command_name} node attic",
    example = "{command_name} reader"
)]
pub(super) struct Permissions {
    /// seat, reader, or node and its name [seat]
    #[argh(positional)]
    role: Vec<String>,

    /// for seat: a subject that it is told to answer under too; may be given several times
    #[argh(option, arg_name = "subject", from_str_fn(parse_prefix))]
    reply_prefix: Vec<String>,
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
        let is_seat = matches!(role[..], [] | ["seat"]);
        if !is_seat && !self.reply_prefix.is_empty() {
            return Err("--reply-prefix is for the seat alone: leave it out".to_owned());
        }
        match role[..] {
            [] | ["seat"] => Ok(Rights::of_seat(&self.reply_prefix)),
            ["reader"] => Ok(Rights::of_reader()),
            ["node", name] => Rights::of_node(name).map_err(|bad| bad.to_string()),
            ["node"] => Err("node takes the node's name, such as: permissions node attic".to_owned()),
            ["seat" | "reader" | "node", ..] => {
                Err("one role at a time: say seat, reader, or node and its name".to_owned())
            }
            [other, ..] => Err(format!("{other:?} is no role: say seat, reader, or node and its name")),
        }
    }
}

pub(super) fn parse_prefix(text: &str) -> Result<String, String> {
    seat::check_prefix(text).map(|()| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_is_one_of_three_and_only_a_node_has_a_name() {
        let rights = |words: &[&str]| {
            Permissions::from_args(&["permissions"], words).map_err(|early| early.output)?.rights()
        };
        assert_eq!(rights(&[]), Ok(Rights::of_seat(&[])));
        assert_eq!(rights(&["seat", "--reply-prefix", "_A"]), Ok(Rights::of_seat(&["_A".to_owned()])));
        assert_eq!(rights(&["reader"]), Ok(Rights::of_reader()));
        assert_eq!(rights(&["node", "a.b"]), Ok(Rights::of_node("a.b").unwrap()));
        for wrong in [
            &["node"][..],
            &["node", ""],
            &["node", "mesh-provisioner"],
            &["seat", "attic"],
            &["reader", "attic"],
            &["administrator"],
            &["reader", "--reply-prefix", "_A"],
            &["seat", "--reply-prefix", "$KV"],
        ] {
            assert!(rights(wrong).is_err(), "{wrong:?}");
        }
    }
}
