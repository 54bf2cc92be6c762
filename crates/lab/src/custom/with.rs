//! Contenders from the command line: `--with './mine put {dir} {url}'`.
//!
//! `[NAME[.KEY]=]COMMAND`: the key is one of a contender in the experiment file, and `command` if it is left out; texts
//! of the same name describe one contender. A name consists of lowercase letters, digits and dashes, so that `HOME=…
//! program` is a command and no name. Without a name, the program's file gives it.

use std::collections::BTreeMap;

use super::{
    CustomContender, CustomError, STEPS, Step, is_name,
    template::{Template, is_shell_word},
};
use crate::experiment::advice;

/// Why an argument of `--with` describes no contender.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WithError {
    /// The key of a step is unknown.
    #[error("unknown key `{key}` of `{name}`; {advice}")]
    Key {
        /// The contender.
        name: String,
        /// The key.
        key: String,
        /// The nearest key, or all.
        advice: String,
    },
    /// A step is given twice.
    #[error("`{name}.{key}` is given twice")]
    Twice {
        /// The contender.
        name: String,
        /// The key.
        key: &'static str,
    },
    /// The contender is invalid.
    #[error(transparent)]
    Custom(#[from] CustomError),
    /// A command's program does not exist.
    #[error("`{command}`: there is no program `{program}`")]
    Program {
        /// The command.
        command: String,
        /// Its program.
        program: String,
    },
}

/// The contenders that these arguments describe; `is_taken` says which names others have.
pub fn with(arguments: &[String], is_taken: impl Fn(&str) -> bool) -> Result<Vec<CustomContender>, WithError> {
    let mut described: Vec<(String, BTreeMap<Step, String>)> = Vec::new();
    for argument in arguments {
        let (named, command) = split(argument);
        let (name, step) = if let Some((name, key)) = named {
            (name.to_owned(), step(name, key)?)
        } else {
            let taken = |name: &str| is_taken(name) || described.iter().any(|(other, _)| other == name);
            (free(&name_of(command), taken), Step::Command)
        };
        let at = described.iter().position(|(other, _)| *other == name).unwrap_or(described.len());
        if at == described.len() {
            described.push((name.clone(), BTreeMap::new()));
        }
        if described[at].1.insert(step, command.to_owned()).is_some() {
            return Err(WithError::Twice { name, key: step.key() });
        }
    }
    let contender = |(name, steps): (String, BTreeMap<Step, String>)| {
        if is_taken(&name) {
            let why = format!("there is a contender `{name}` already; give yours another name, as in `my-{name}=…`");
            return Err(CustomError { step: None, why }.into());
        }
        let contender = CustomContender::new(&name, steps)?.for_first_workload();
        match contender.missing_program() {
            Some((command, program)) => Err(WithError::Program { command: command.to_owned(), program }),
            None => Ok(contender),
        }
    };
    described.into_iter().map(contender).collect()
}

/// The name and the key, if there are any, and the command.
fn split(argument: &str) -> (Option<(&str, Option<&str>)>, &str) {
    let Some((left, command)) = argument.split_once('=') else { return (None, argument) };
    match left.split_once('.') {
        // A second dot is a mistake, which is reported as a wrong key.
        Some((name, key)) if is_name(name) && is_name(&key.replace('.', "-")) => (Some((name, Some(key))), command),
        None if is_name(left) => (Some((left, None)), command),
        _ => (None, argument),
    }
}

fn step(name: &str, key: Option<&str>) -> Result<Step, WithError> {
    let Some(key) = key else { return Ok(Step::Command) };
    let step = STEPS.iter().find(|(known, _)| *known == key).map(|(_, step)| *step);
    step.ok_or_else(|| WithError::Key {
        name: name.to_owned(),
        key: key.to_owned(),
        advice: advice(key, STEPS.map(|(known, _)| known)),
    })
}

/// A name for a command: that of its program's file.
pub(super) fn name_of(command: &str) -> String {
    let first = Template::parse(command).program();
    let is_program = |word: &&str| !word.contains(['=', '{']) && !is_shell_word(word);
    let words = || command.split_whitespace().find(is_program);
    let program = first.or_else(|| words().map(str::to_owned)).unwrap_or_default();
    let file = program.rsplit('/').next().unwrap_or_default().to_lowercase();
    let name: String = file.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let name = name.trim_matches('-');
    if is_name(name) { name.to_owned() } else { "mine".to_owned() }
}

/// The name, with a number if it is taken.
pub(super) fn free(name: &str, is_taken: impl Fn(&str) -> bool) -> String {
    let numbered = (2..).map(|number| format!("{name}-{number}"));
    std::iter::once(name.to_owned()).chain(numbered).find(|name| !is_taken(name)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(arguments: &[&str]) -> Result<Vec<(String, String)>, String> {
        let arguments: Vec<String> = arguments.iter().map(|text| (*text).to_owned()).collect();
        let contenders = with(&arguments, |name| name == "sh").map_err(|error| error.to_string())?;
        Ok(contenders.iter().map(|one| (one.name().to_owned(), one.describe())).collect())
    }

    #[test]
    fn name_and_key_are_optional() {
        let pairs =
            |pairs: &[(&str, &str)]| Ok(pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect());
        assert_eq!(described(&["/bin/ls {dir}"]), pairs(&[("ls", "/bin/ls {dir}")]));
        assert_eq!(described(&["sh {dir}", "sh {url}"]), pairs(&[("sh-2", "sh {dir}"), ("sh-3", "sh {url}")]));
        assert_eq!(described(&["HOME={home} sh x"]), pairs(&[("sh-2", "HOME={home} sh x")]));
        assert_eq!(described(&["exec /bin/ls {dir}"]), pairs(&[("ls", "exec /bin/ls {dir}")]));
        assert_eq!(described(&["a=sh --to={url}"]), pairs(&[("a", "sh --to={url}")]));
        assert_eq!(
            described(&["a.upload=sh {dir}", "b=sh", "a.download=sh {url}"]),
            pairs(&[("a", "upload: sh {dir}; download: sh {url}"), ("b", "sh")])
        );
    }

    #[test]
    fn mistakes_are_named() {
        for (arguments, said) in [
            (&["a.uplod=sh"][..], "unknown key `uplod` of `a`; did you mean `upload`?"),
            (
                &["a.command.upload=sh"],
                "unknown key `command.upload` of `a`; available: `command`, `upload`, `download`, `list`, `edit`, `mount`, `unmount`, `setup`, `teardown`, `verify`, `version`, `config`",
            ),
            (&["a=sh", "a=sh"], "`a.command` is given twice"),
            (&["./no-such {dir}"], "`./no-such {dir}`: there is no program `./no-such`"),
            (&["sh=sh {dir}"], "there is a contender `sh` already; give yours another name, as in `my-sh=…`"),
            (&["a="], "`command` is empty"),
            (&["a.setup=true"], "`a` needs a command that does the work, or one that mounts"),
            (&["a.mount=true {file}"], "`mount` has no placeholder {file}"),
            (&["a.mount=true", "a.upload=true"], "`upload` and `mount` exclude each other"),
            (&["a=true", "a.unmount=true"], "`unmount` needs `mount`"),
        ] {
            assert_eq!(described(arguments), Err(said.to_owned()), "{arguments:?}");
        }
    }
}
