//! `permissions`: prints the least rights of a role, to be put into a nats-server's configuration.

use argh::{ArgsInfo, FromArgs};
use mesh_daemon::arguments::{did_you_mean, mask};
use mesh_daemon::exit::Exit;
use mesh_daemon::output::{complain, print};
use mesh_model::rights::Rights;
use mesh_provisioner_api::REPLIES;

/// The roles other than a node.
pub(super) const ROLES: [&str; 7] =
    ["seat", "reader", "administrator", "controller", "vault", "joiner", "node"];

/// What a role can be.
const KNOWN: &str = "expected seat, reader, administrator, controller, vault, joiner, or node NAME";

/// print the least bus permissions of a role
#[derive(FromArgs, ArgsInfo, Debug)]
#[argh(
    subcommand,
    name = "permissions",
    note = "--format nats prints a block for the user's entry in a nats-server's configuration, besides user and\npassword; nsc the command line that makes such a user; json what a user's JWT has. A node's name is printed\nas the token that stands for it in keys, so a name gives no rights on another node's keys.",
    example = "{command_name} seat --reply-prefix _INBOX_mesh.node.attic",
    example = "{command_name} node attic",
    example = "{command_name} reader --format nsc",
    example = "{command_name} administrator"
)]
pub struct Permissions {
    /// seat, reader, administrator, controller, vault, joiner, or node and its name [seat]
    #[argh(positional)]
    role: Vec<String>,

    /// for seat: a subject that it is told to answer under too; may be repeated
    #[argh(option, arg_name = "subject", from_str_fn(parse_prefix))]
    reply_prefix: Vec<String>,

    /// for node and controller: a module that other modules are bound to, with a bucket of its own; may be
    /// repeated
    #[argh(option, arg_name = "module")]
    provider: Vec<String>,
    /// the form of the output: nats, nsc or json [nats]
    #[argh(option, arg_name = "form", default = "Format::Nats", from_str_fn(parse_format))]
    format: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Nats,
    Nsc,
    Json,
}

fn parse_format(word: &str) -> Result<Format, String> {
    match word {
        "nats" => Ok(Format::Nats),
        "nsc" => Ok(Format::Nsc),
        "json" => Ok(Format::Json),
        _ => Err(format!("{word:?} is not a form of output; it can be nats, nsc or json")),
    }
}

impl Permissions {
    /// Runs the command; returns how it ended.
    pub fn run(self) -> Exit {
        let user = self.role.last().map_or("seat", String::as_str);
        match self.rights() {
            Ok(rights) => print(&match self.format {
                Format::Nats => rights.to_config(),
                Format::Nsc => rights.to_nsc(user),
                Format::Json => rights.to_json(),
            }),
            Err(why) => {
                complain(&mask(&why));
                Exit::Usage
            }
        }
    }

    fn rights(&self) -> Result<Rights, String> {
        let words: Vec<&str> = self.role.iter().map(String::as_str).collect();
        if !self.provider.is_empty() && !matches!(words[..], ["node", _] | ["controller"]) {
            return Err("--provider is for node and controller alone: leave it out".to_owned());
        }
        if !matches!(words[..], [] | ["seat"]) && !self.reply_prefix.is_empty() {
            return Err("--reply-prefix is for the seat alone: leave it out".to_owned());
        }
        match words[..] {
            [] | ["seat"] => Ok(Rights::of_seat(&self.reply_prefix)),
            ["reader"] => Ok(Rights::of_reader()),
            ["administrator"] => Ok(Rights::of_administrator()),
            ["controller"] => Ok(Rights::of_controller(&self.provider)),
            ["vault"] => Ok(Rights::of_vault()),
            ["joiner"] => Ok(Rights::of_joiner()),
            ["node", name] => node(name, &self.provider),
            ["node"] => Err("node takes the node's name, such as: permissions node attic".to_owned()),
            ["node", _, extra, ..] => Err(surplus(extra)),
            [role, extra, ..] if ROLES.contains(&role) => Err(surplus(extra)),
            [other, ..] => match did_you_mean(other, ROLES) {
                near if near.is_empty() => Err(format!("unknown role {other:?}: {KNOWN}")),
                near => Err(format!("unknown role {other:?}{near}")),
            },
        }
    }
}

fn surplus(word: &str) -> String {
    format!("{word:?} is one word too many: a role is one word, and only a node has a name")
}

fn node(name: &str, providers: &[String]) -> Result<Rights, String> {
    Rights::of_node(name, providers).map_err(|why| format!("the node's name {why}"))
}

/// Reads `--reply-prefix`.
pub fn parse_prefix(text: &str) -> Result<String, String> {
    REPLIES.check_prefix(text).map(|()| text.to_owned())
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
        assert_eq!(rights(&["administrator"]), Ok(Rights::of_administrator()));
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
