//! What a reader of a page does: the files that it shows, and the commands, in order.
//!
//! A fenced block of `sh` is a step. A block of another language is a file, if the paragraph before it ends by naming one
//! in backticks: "Describe it in `clients.toml`:". A comment above a block of commands, `<!-- not run: REASON -->`, marks
//! commands that no test can run; readers do not see it.

/// A step on the way through a page.
#[derive(Debug, PartialEq)]
pub(crate) enum Step {
    /// A file that the reader writes.
    File { name: String, content: String },
    /// Commands that the reader types, and the line of the first.
    Commands { line: usize, script: String },
    /// Commands that are not run here, and why.
    Omitted { line: usize, reason: String },
}

pub(crate) fn steps(page: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut paragraph = String::new();
    let mut is_new_paragraph = false;
    let mut lines = page.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        let Some(language) = line.trim_start().strip_prefix("```") else {
            if line.trim().is_empty() {
                is_new_paragraph = true;
            } else {
                if std::mem::take(&mut is_new_paragraph) {
                    paragraph.clear();
                }
                paragraph.push_str(line);
                paragraph.push('\n');
            }
            continue;
        };
        let block = lines.by_ref().map(|(_, line)| line).take_while(|line| line.trim() != "```");
        let block: String = block.flat_map(|line| [line, "\n"]).collect();
        let line = number + 2;
        if language != "sh" {
            let name = last_name(&paragraph).filter(|_| !matches!(language, "" | "text" | "json"));
            steps.extend(name.map(|name| Step::File { name, content: block }));
        } else if let Some(reason) = not_run(&paragraph) {
            steps.push(Step::Omitted { line, reason });
        } else {
            steps.push(Step::Commands { line, script: block });
        }
        paragraph.clear();
    }
    steps
}

/// The file's name with which a paragraph ends.
fn last_name(paragraph: &str) -> Option<String> {
    let name = paragraph.trim_end().strip_suffix("`:")?.rsplit('`').next()?;
    let is_name = name.contains('.') && !name.contains(char::is_whitespace);
    is_name.then(|| name.to_owned())
}

fn not_run(paragraph: &str) -> Option<String> {
    let comment = paragraph.trim_end().strip_suffix("-->")?.rsplit("<!--").next()?;
    Some(comment.trim().strip_prefix("not run:")?.trim().to_owned())
}

/// The reader of this module's own example.
pub(crate) fn finds_files_and_commands() {
    let page = "\
# A page

Write `x.toml`:

```toml
a = 1
```

It says `y.toml` and more.

```toml
b = 2
```

```sh
one
two # a comment
```

<!-- not run: needs root -->
```sh
sudo three
```

```text
output
```
";
    let commands = |line, script: &str| Step::Commands { line, script: script.to_owned() };
    let expected = [
        Step::File { name: "x.toml".into(), content: "a = 1\n".into() },
        commands(16, "one\ntwo # a comment\n"),
        Step::Omitted { line: 22, reason: "needs root".into() },
    ];
    assert_eq!(steps(page), expected);
}
