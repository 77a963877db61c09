//! A command line, taken apart into its commands, the options of each, and the words that are neither.

use super::{Early, Grammar, did_you_mean, flag, mask, shown, takes_value};
use argh::{CommandInfoWithArgs, FlagInfo, FlagInfoKind, Optionality};

/// An option, and its value if it takes one.
type Given = (String, Option<String>);

/// A command line that names known commands and options.
#[derive(Debug)]
pub(super) struct Line {
    /// The commands, one inside the other.
    pub(super) commands: Vec<String>,
    /// The options of the program, then those of each command.
    pub(super) levels: Vec<Vec<Given>>,
    /// The words of the innermost command.
    pub(super) positionals: Vec<String>,
    /// Help was asked for.
    pub(super) asks_help: bool,
    /// A command was named, as far as the program has any.
    pub(super) has_command: bool,
}

impl Line {
    /// Takes the arguments apart.
    pub(super) fn read(
        grammar: &Grammar,
        program: &CommandInfoWithArgs,
        arguments: &[String],
    ) -> Result<Line, Early> {
        Reader { grammar, path: vec![program], line: Line::new(), early: Vec::new() }.read(arguments)
    }

    fn new() -> Self {
        Line {
            commands: Vec::new(),
            levels: vec![Vec::new()],
            positionals: Vec::new(),
            asks_help: false,
            has_command: false,
        }
    }

    /// The words as the derived parser knows them.
    pub(super) fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        for (level, options) in self.levels.iter().enumerate() {
            if let Some(command) = level.checked_sub(1).map(|above| &self.commands[above]) {
                words.push(command.clone());
            }
            for (flag, value) in options {
                words.push(flag.clone());
                words.extend(value.clone());
            }
        }
        if self.asks_help || !self.has_command {
            words.push("--help".to_owned());
        } else if !self.positionals.is_empty() {
            words.push("--".to_owned());
            words.extend(self.positionals.iter().cloned());
        }
        words
    }
}

struct Reader<'a> {
    grammar: &'a Grammar,
    /// The program, and the commands that were entered.
    path: Vec<&'a CommandInfoWithArgs>,
    line: Line,
    /// Options before the command that they belong to.
    early: Vec<Given>,
}

impl<'a> Reader<'a> {
    fn read(mut self, arguments: &[String]) -> Result<Line, Early> {
        let mut arguments = arguments.iter().peekable();
        let mut options_ended = false;
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--" if !options_ended => options_ended = true,
                option if option.starts_with('-') && option.len() > 1 && !options_ended => {
                    self.option(option, &mut arguments)?;
                }
                word => self.word(word, options_ended)?,
            }
        }
        self.settle_early()?;
        let command = self.path[self.path.len() - 1];
        self.line.has_command = command.commands.is_empty();
        if self.line.asks_help || self.line.has_command || self.line.commands.is_empty() {
            self.needs_words(command)?;
            return Ok(self.line);
        }
        let names: Vec<&str> = command.commands.iter().map(|command| command.name).collect();
        Err(self.wrong(format!("{} needs a command: {}", self.line.commands.join(" "), names.join(", "))))
    }

    fn wrong(&self, message: impl Into<String>) -> Early {
        self.grammar.wrong(&self.line.commands, message)
    }

    fn option<'b>(
        &mut self,
        argument: &str,
        rest: &mut std::iter::Peekable<impl Iterator<Item = &'b String>>,
    ) -> Result<(), Early> {
        let (name, value) = match argument.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (argument, None),
        };
        match name {
            "-h" | "--help" if value.is_none() => {
                self.line.asks_help = true;
                return Ok(());
            }
            "-V" | "--version" if value.is_none() => return Err(Early::Version),
            _ => {}
        }
        let alias = self.grammar.aliases.iter().find(|(alias, _)| *alias == name);
        let known = alias.map_or(name, |(_, known)| *known);
        let Some((place, flag)) = self.find(known) else { return Err(self.unknown(known, name)) };
        let name = known;
        let value = if takes_value(flag) {
            Some(match value {
                Some(value) => value,
                None => self.value(flag, rest)?,
            })
        } else if value.is_some() {
            return Err(self.wrong(format!("{name} takes no value")));
        } else {
            None
        };
        let repeats = matches!(flag.optionality, Optionality::Repeating | Optionality::Greedy);
        let given = match place {
            Place::Level(level) => &mut self.line.levels[level],
            Place::Early => &mut self.early,
        };
        if !repeats && given.iter().any(|(other, _)| other == name) {
            return Err(self.wrong(format!("{name} is given twice")));
        }
        given.push((name.to_owned(), value));
        Ok(())
    }

    /// Whose option it is: the innermost command's first.
    fn find(&self, name: &str) -> Option<(Place, &'a FlagInfo<'static>)> {
        let mut entered = self.path.iter().enumerate().rev();
        let known = entered.find_map(|(level, info)| Some((Place::Level(level), flag(info, name)?)));
        known.or_else(|| below(self.path[self.path.len() - 1], name).map(|flag| (Place::Early, flag)))
    }

    /// The value that follows an option.
    fn value<'b>(
        &self,
        flag: &FlagInfo<'_>,
        rest: &mut std::iter::Peekable<impl Iterator<Item = &'b String>>,
    ) -> Result<String, Early> {
        let name = flag.long;
        if let Some((_, default)) = self.grammar.defaults.iter().find(|(option, _)| *option == name) {
            let given = rest.next_if(|next| next.starts_with(|c: char| c.is_ascii_digit()));
            return Ok(given.map_or_else(|| (*default).to_owned(), String::clone));
        }
        let what = match flag.kind {
            FlagInfoKind::Option { arg_name }
                if !arg_name.is_empty() && arg_name != name.trim_matches('-') =>
            {
                arg_name
            }
            _ => "value",
        };
        match rest.next() {
            Some(next) if self.find(next).is_some() => Err(self.wrong(format!(
                "{name} needs a {what}; {next} is an option (if it is meant, write {name}={next})"
            ))),
            Some(next) => Ok(next.clone()),
            None => Err(self.wrong(format!("{name} needs a {what}"))),
        }
    }

    fn unknown(&self, name: &str, typed: &str) -> Early {
        let shown = mask(typed);
        if let Some((_, instead)) = self.grammar.instead.iter().find(|(option, _)| *option == name) {
            return self.wrong(format!("there is no option {shown}: {instead}"));
        }
        let mut known: Vec<&str> =
            self.path.iter().flat_map(|info| info.flags).map(|flag| flag.long).collect();
        if self.line.commands.is_empty() {
            all_below(self.path[0], &mut known);
        }
        self.wrong(format!("there is no option {shown}{}", did_you_mean(name, known)))
    }

    fn word(&mut self, word: &str, options_ended: bool) -> Result<(), Early> {
        let command = self.path[self.path.len() - 1];
        if !options_ended {
            match word {
                "help" if self.line.positionals.is_empty() => {
                    self.line.asks_help = true;
                    return Ok(());
                }
                "version" if self.line.commands.is_empty() && !self.line.asks_help => {
                    return Err(Early::Version);
                }
                _ => {}
            }
        }
        if command.commands.is_empty() {
            return self.positional(command, word);
        }
        if let Some(found) = command.commands.iter().find(|command| command.name == word) {
            self.path.push(&found.command);
            self.line.commands.push(word.to_owned());
            self.line.levels.push(Vec::new());
            return Ok(());
        }
        let names: Vec<&str> = command.commands.iter().map(|command| command.name).collect();
        let near = did_you_mean(word, names.iter().copied());
        let near = if near.is_empty() { format!(": the commands are {}", names.join(", ")) } else { near };
        Err(self.wrong(format!("there is no command {}{near}", shown(word))))
    }

    fn positional(&mut self, command: &CommandInfoWithArgs, word: &str) -> Result<(), Early> {
        let takes = command.positionals;
        let repeats = takes
            .last()
            .is_some_and(|last| matches!(last.optionality, Optionality::Repeating | Optionality::Greedy));
        if self.line.positionals.len() >= takes.len() && !repeats {
            let names: Vec<&str> = takes.iter().map(|positional| positional.name).collect();
            let takes = match names[..] {
                [] => "takes none".to_owned(),
                [one] => format!("takes one, {one}"),
                _ => format!("takes {}", names.join(" and ")),
            };
            return Err(self.wrong(format!(
                "{} is one word too many: {} {takes}",
                shown(word),
                self.line.commands.join(" ")
            )));
        }
        self.line.positionals.push(word.to_owned());
        Ok(())
    }

    /// Gives the options before the command to the command.
    fn settle_early(&mut self) -> Result<(), Early> {
        for (name, value) in std::mem::take(&mut self.early) {
            match self.find(&name) {
                Some((Place::Level(level), flag)) => {
                    let repeats = matches!(flag.optionality, Optionality::Repeating | Optionality::Greedy);
                    if !repeats && self.line.levels[level].iter().any(|(other, _)| *other == name) {
                        return Err(self.wrong(format!("{name} is given twice")));
                    }
                    self.line.levels[level].push((name, value));
                }
                // No command came at all: that is reported.
                Some((Place::Early, _)) => {}
                None => {
                    let command = self.line.commands.join(" ");
                    return Err(self.wrong(format!("{command} does not take the option {name}")));
                }
            }
        }
        Ok(())
    }

    fn needs_words(&self, command: &CommandInfoWithArgs) -> Result<(), Early> {
        if self.line.asks_help {
            return Ok(());
        }
        let missing = command.positionals.get(self.line.positionals.len());
        match missing.filter(|positional| positional.optionality == Optionality::Required) {
            Some(positional) => {
                Err(self.wrong(format!("{} needs a {}", self.line.commands.join(" "), positional.name)))
            }
            None => Ok(()),
        }
    }
}

/// Whose an option is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// The program's, or that of the command this many below it.
    Level(usize),
    /// Of a command that has not come yet.
    Early,
}

/// An option of that name of some command below `info`.
fn below<'a>(info: &'a CommandInfoWithArgs, name: &str) -> Option<&'a FlagInfo<'static>> {
    info.commands.iter().find_map(|inner| flag(&inner.command, name).or_else(|| below(&inner.command, name)))
}

fn all_below<'a>(info: &'a CommandInfoWithArgs, names: &mut Vec<&'a str>) {
    for inner in &info.commands {
        names.extend(inner.command.flags.iter().map(|flag| flag.long));
        all_below(&inner.command, names);
    }
}
