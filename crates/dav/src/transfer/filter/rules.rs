//! Patterns as in `.gitignore`, in the order of rclone's rules: the first that matches decides.
//!
//! A rule for a folder applies to its contents. So the first rule counts that matches a path or a folder above it, and
//! a walk passes the rule of the folders down: [`Scope`](super::Scope).

use std::{ffi::OsStr, os::unix::ffi::OsStrExt};

use globset::{Glob, GlobBuilder, GlobSet, GlobSetBuilder};

/// An include or exclude rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Whether it includes or excludes.
    pub include: bool,
    /// The pattern, as in `.gitignore`.
    pub pattern: String,
}

/// A pattern that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is not a valid pattern: {why}", pattern.escape_debug())]
pub struct BadPattern {
    pattern: String,
    why: String,
}

/// Compiled rules.
#[derive(Debug, Clone, Default)]
pub(super) struct Rules {
    globs: GlobSet,
    rules: Vec<Compiled>,
}

#[derive(Debug, Clone)]
struct Compiled {
    include: bool,
    /// Whether it matches only folders, with their contents.
    folders: bool,
    /// The segments of a pattern anchored at the root, up to the first `**`; none if it may match anywhere.
    anchored: Option<Vec<String>>,
}

impl Rules {
    pub(super) fn new(rules: &[Rule]) -> Result<Self, BadPattern> {
        let (mut globs, mut compiled) = (GlobSetBuilder::new(), Vec::new());
        for rule in rules {
            let (glob, shape) = compile(rule)?;
            globs.add(glob);
            compiled.push(shape);
        }
        let globs = globs.build().map_err(|error| BadPattern { pattern: String::new(), why: error.to_string() })?;
        Ok(Self { globs, rules: compiled })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The first rule that matches a path itself.
    pub(super) fn first(&self, path: &[u8], folder: bool) -> Option<usize> {
        let matches = self.globs.matches(OsStr::from_bytes(path));
        matches.into_iter().filter(|rule| folder || !self.rules[*rule].folders).min()
    }

    /// Whether the rule includes; without a rule, a path is included.
    pub(super) fn includes(&self, rule: Option<usize>) -> bool {
        rule.is_none_or(|rule| self.rules[rule].include)
    }

    /// Whether a rule before this one may include something in the folder.
    pub(super) fn may_include_below(&self, folder: &[u8], before: usize) -> bool {
        self.rules[..before].iter().any(|rule| rule.include && rule.may_match_below(folder))
    }
}

impl Compiled {
    fn may_match_below(&self, folder: &[u8]) -> bool {
        let Some(segments) = &self.anchored else { return true };
        let above = folder.split(|byte| *byte == b'/');
        let mut pairs = above.zip(segments);
        // A segment with a wildcard counts as a match, which only costs a listing.
        pairs.all(|(name, segment)| segment.contains(['*', '?', '[', '{', '\\']) || name == segment.as_bytes())
    }
}

fn compile(rule: &Rule) -> Result<(Glob, Compiled), BadPattern> {
    let bad = |why: &str| BadPattern { pattern: rule.pattern.clone(), why: why.to_owned() };
    let mut pattern = rule.pattern.as_str();
    let rooted = pattern.starts_with('/');
    pattern = pattern.strip_prefix('/').unwrap_or(pattern);
    // `folder/` and `folder/**` are equivalent here.
    let mut folders = false;
    while let Some(rest) = pattern.strip_suffix("/**").or_else(|| pattern.strip_suffix('/')) {
        (pattern, folders) = (rest, true);
    }
    if pattern.is_empty() {
        let all = rooted && (folders || rule.pattern == "/");
        return Err(bad(if all { "write `**` to match everything" } else { "it is empty" }));
    }
    let anchored = rooted || pattern.contains('/');
    let text = if anchored { pattern.to_owned() } else { format!("**/{pattern}") };
    let built = GlobBuilder::new(&text).literal_separator(true).backslash_escape(true).build();
    let glob = built.map_err(|error| bad(&error.kind().to_string()))?;
    let segments = || text.split('/').take_while(|segment| !segment.contains("**")).map(str::to_owned).collect();
    // A `/` within braces does not end a segment.
    let known = anchored && !pattern.starts_with("**") && !pattern.contains('{');
    Ok((glob, Compiled { include: rule.include, folders, anchored: known.then(segments) }))
}
