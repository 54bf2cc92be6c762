use std::time::Duration;

use super::*;

fn filter(rules: &[&str]) -> Filter {
    let rule = |text: &&str| Rule { include: text.starts_with('+'), pattern: text[2..].to_owned() };
    Filter::new(&rules.iter().map(rule).collect::<Vec<_>>()).unwrap()
}

/// Whether a walk comes to a file and takes it. A folder's path ends with `/`.
fn takes(filter: &Filter, path: &str) -> bool {
    let (folders, file) = path.rsplit_once('/').map_or(("", path), |(folders, file)| (folders, file));
    let mut scope = Scope::default();
    for name in folders.split('/').filter(|name| !name.is_empty()) {
        match filter.folder(&scope, name.as_bytes()) {
            Some(below) => scope = below,
            None => return false,
        }
    }
    if file.is_empty() { !scope.passing } else { filter.file(&scope, file.as_bytes(), None, None) }
}

fn check(rules: &[&str], taken: &[&str], left: &[&str]) {
    let filter = filter(rules);
    for path in taken {
        assert!(takes(&filter, path), "{rules:?} leaves {path} out");
    }
    for path in left {
        assert!(!takes(&filter, path), "{rules:?} lets {path} in");
    }
}

#[test]
fn patterns_match_as_in_gitignore() {
    check(&["- *.tmp"], &["a", "a.tmp.x", "x/a"], &["a.tmp", "x/y/a.tmp", "x.tmp/a"]);
    check(&["- /a"], &["x/a"], &["a", "a/x"]);
    check(&["- x/a"], &["y/x/a", "a"], &["x/a", "x/a/b"]);
    check(&["- **/x/a"], &["x/b"], &["y/x/a", "x/a"]);
    check(&["- cache/"], &["cache"], &["cache/a", "x/cache/y/z", "cache/"]);
    check(&["- cache/**"], &["cache"], &["cache/a", "cache/", "cache/x/y"]);
    check(&["- a?c", "- [xy]1", "- {p,q}.o"], &["ac", "a/c", "z1", "r.o"], &["abc", "x1", "y1", "p.o", "d/q.o"]);
    check(&["- a/**/z"], &["z", "b/z"], &["a/z", "a/b/c/z"]);
    check(&[r"- \*", "- !x", "- #y"], &["a", "x", "y"], &["*", "!x", "#y"]);
}

#[test]
fn first_matching_rule_decides() {
    check(&["+ keep.tmp", "- *.tmp"], &["keep.tmp", "x/keep.tmp", "a"], &["other.tmp"]);
    check(&["- *.tmp", "+ keep.tmp"], &["a"], &["keep.tmp"]);
    check(&["+ *.jpg", "- **"], &["a.jpg", "x/y/a.jpg"], &["a.png", "x/", "x/a.png"]);
    check(&["+ /photos/", "- **"], &["photos/a", "photos/x/y"], &["a", "x/photos/a", "docs/a"]);
    check(&["+ /a/b/c.txt", "- a/"], &["a/b/c.txt", "z"], &["a/b/d.txt", "a/x"]);
    check(&["- a/", "+ /a/b/c.txt"], &["z"], &["a/b/c.txt"]);
}

#[test]
fn folder_without_possible_matches_is_not_entered() {
    let only = filter(&["+ /photos/2*/*.jpg", "- **"]);
    let root = Scope::default();
    assert!(only.folder(&root, b"docs").is_none());
    let photos = only.folder(&root, b"photos").unwrap();
    assert!(photos.passing && only.folder(&photos, b"2024").is_some());
    let left = filter(&["- node_modules/"]);
    assert!(left.folder(&root, b"node_modules").is_none() && left.folder(&root, b"src").is_some());
}

#[test]
fn sizes_times_and_lists_exclude_files() {
    let day = |number: u64| SystemTime::UNIX_EPOCH + Duration::from_secs(number * 86_400);
    let by = Filter::default().sizes(Some(10), Some(20)).times(Some(day(3)), Some(day(5)));
    let root = Scope::default();
    for (length, modified, taken) in [
        (Some(10), Some(day(3)), true),
        (Some(20), Some(day(5)), true),
        (Some(9), Some(day(4)), false),
        (Some(21), Some(day(4)), false),
        (Some(15), Some(day(2)), false),
        (Some(15), Some(day(6)), false),
        (None, None, true),
    ] {
        assert_eq!(by.file(&root, b"a", length, modified), taken, "{length:?} {modified:?}");
    }
    let list = Filter::default().only([b"a".to_vec(), b"./x//y/z".to_vec(), b"gone".to_vec()]);
    assert!(takes(&list, "a") && takes(&list, "x/y/z"));
    assert!(!takes(&list, "b") && !takes(&list, "x/z") && !takes(&list, "y/"));
    assert_eq!(list.missing(), ["gone"]);
    assert!(Filter::default().is_empty() && !list.is_empty() && !by.is_empty());
}

#[test]
fn invalid_pattern_is_named_in_the_error() {
    for pattern in ["", "/", "a[", "{a"] {
        let told = Filter::new(&[Rule { include: false, pattern: pattern.into() }]).unwrap_err().to_string();
        assert!(told.starts_with(&format!("`{pattern}` is not a valid pattern: ")), "{told}");
    }
}
