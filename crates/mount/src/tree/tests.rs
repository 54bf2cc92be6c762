use super::*;

const FRESH: Duration = Duration::from_secs(10);

fn tree() -> Tree {
    Tree::new(RemotePath::from_url_path("/dav/").unwrap(), FRESH)
}

fn file(name: &str, length: u64) -> Listed {
    let etag = dav::ETag::parse(&format!("\"{length}\""));
    Listed { name: name.into(), is_folder: false, facts: Facts { length, modified: None, etag } }
}

fn folder(name: &str) -> Listed {
    Listed { name: name.into(), is_folder: true, facts: Facts::default() }
}

fn found(lookup: Lookup) -> Ino {
    let Lookup::Found(ino) = lookup else { panic!("{lookup:?}") };
    ino
}

#[test]
fn a_listing_is_believed_for_its_time_and_says_what_does_not_exist() {
    let (mut tree, start) = (tree(), Instant::now());
    assert_eq!(tree.lookup(Tree::ROOT, b"a", start), Lookup::Unlisted);
    let mark = tree.mark(start);
    tree.listed(Tree::ROOT, mark, vec![file("a", 1), folder("b")], start);
    let ino = found(tree.lookup(Tree::ROOT, b"a", start + FRESH / 2));
    assert_eq!(tree.path(ino).unwrap().target(), "/dav/a");
    assert_eq!(tree.lookup(Tree::ROOT, b"c", start + FRESH / 2), Lookup::Absent);
    assert_eq!(tree.lookup(Tree::ROOT, b"a", start + FRESH), Lookup::Unlisted);
    assert_eq!(tree.lookup(Tree::ROOT, b"c", start + FRESH), Lookup::Unlisted);
}

#[test]
fn a_file_keeps_its_inode_over_listings() {
    let (mut tree, start) = (tree(), Instant::now());
    tree.listed(Tree::ROOT, tree.mark(start), vec![file("a", 1)], start);
    let ino = found(tree.lookup(Tree::ROOT, b"a", start));
    tree.listed(Tree::ROOT, tree.mark(start), vec![file("a", 2)], start);
    assert_eq!(found(tree.lookup(Tree::ROOT, b"a", start)), ino);
    assert_eq!(tree.facts(ino).length, 2);
    // A folder of the same name is something else.
    tree.listed(Tree::ROOT, tree.mark(start), vec![folder("a")], start);
    assert_ne!(found(tree.lookup(Tree::ROOT, b"a", start)), ino);
    assert!(!tree.contains(ino), "neither the kernel nor a program has it");
}

#[test]
fn a_listing_from_before_a_change_does_not_undo_it() {
    let (mut tree, start) = (tree(), Instant::now());
    tree.listed(Tree::ROOT, tree.mark(start), vec![file("gone", 1), file("moved", 2)], start);
    let early = tree.mark(start);
    let made = tree.create(Tree::ROOT, b"made", true);
    tree.remove(Tree::ROOT, b"gone");
    tree.rename(Tree::ROOT, b"moved", made, b"here");
    tree.listed(Tree::ROOT, early, vec![file("gone", 1), file("moved", 2)], start);
    assert_eq!(found(tree.lookup(Tree::ROOT, b"made", start)), made);
    assert_eq!(tree.lookup(Tree::ROOT, b"gone", start), Lookup::Absent);
    assert_eq!(tree.lookup(Tree::ROOT, b"moved", start), Lookup::Absent);
    let moved = tree.member(made, b"here").unwrap();
    assert_eq!(tree.path(moved).unwrap().target(), "/dav/made/here");
    // One from after it does: somebody else has.
    tree.listed(Tree::ROOT, tree.mark(start), vec![file("gone", 3)], start);
    assert_eq!(tree.facts(found(tree.lookup(Tree::ROOT, b"gone", start))).length, 3);
    assert_eq!(tree.lookup(Tree::ROOT, b"made", start), Lookup::Absent);
}

#[test]
fn what_the_server_lacks_is_found_however_old_the_listing_is() {
    let (mut tree, start) = (tree(), Instant::now());
    tree.listed(Tree::ROOT, tree.mark(start), vec![], start);
    let ino = tree.create(Tree::ROOT, b"new", false);
    tree.changed(ino, 5);
    assert_eq!(found(tree.lookup(Tree::ROOT, b"new", start + FRESH * 2)), ino);
    tree.listed(Tree::ROOT, tree.mark(start), vec![], start);
    assert_eq!(found(tree.lookup(Tree::ROOT, b"new", start)), ino);
    tree.uploaded(ino, Facts { length: 5, ..Facts::default() }, false);
    tree.listed(Tree::ROOT, tree.mark(start), vec![], start);
    assert_eq!(tree.lookup(Tree::ROOT, b"new", start), Lookup::Absent);
}

#[test]
fn a_removed_file_stays_until_the_kernel_and_the_programs_have_done_with_it() {
    let (mut tree, start) = (tree(), Instant::now());
    tree.listed(Tree::ROOT, tree.mark(start), vec![file("a", 1)], start);
    let ino = found(tree.lookup(Tree::ROOT, b"a", start));
    tree.looked_up(ino);
    tree.open(ino);
    tree.remove(Tree::ROOT, b"a");
    assert_eq!(tree.path(ino), None);
    tree.forget(ino, 1);
    assert!(tree.contains(ino));
    tree.close(ino);
    assert!(!tree.contains(ino));
}

#[test]
fn a_renamed_folder_takes_its_members_along() {
    let (mut tree, start) = (tree(), Instant::now());
    tree.listed(Tree::ROOT, tree.mark(start), vec![folder("a"), folder("b")], start);
    let a = found(tree.lookup(Tree::ROOT, b"a", start));
    tree.listed(a, tree.mark(start), vec![file("x", 1)], start);
    let x = found(tree.lookup(a, b"x", start));
    tree.rename(Tree::ROOT, b"a", Tree::ROOT, b"b");
    assert_eq!(tree.path(x).unwrap().target(), "/dav/b/x");
    assert_eq!(tree.members(Tree::ROOT), [(b"b".to_vec(), a)]);
}

#[test]
fn a_listing_that_takes_long_is_believed_for_as_long() {
    let (mut tree, start) = (tree(), Instant::now());
    let mark = tree.mark(start);
    tree.listed(Tree::ROOT, mark, vec![file("a", 1)], start + FRESH * 3);
    found(tree.lookup(Tree::ROOT, b"a", start + FRESH * 5));
    assert_eq!(tree.lookup(Tree::ROOT, b"a", start + FRESH * 6), Lookup::Unlisted);
}

#[test]
fn a_walk_in_order_lists_the_folders_that_come_next() {
    let (mut tree, start) = (tree(), Instant::now());
    tree.listed(Tree::ROOT, tree.mark(start), vec![folder("a"), file("b", 1), folder("c"), folder("d")], start);
    let [first, second, third] = ["a", "c", "d"].map(|name| tree.member(Tree::ROOT, name.as_bytes()).unwrap());
    assert_eq!(tree.visits(Tree::ROOT, start), []);
    assert_eq!(tree.visits(first, start), [second, third]);
    // What is below it comes first.
    tree.listed(first, tree.mark(start), vec![folder("x"), folder("y")], start);
    let below = ["x", "y"].map(|name| tree.member(first, name.as_bytes()).unwrap());
    assert_eq!(tree.goes_on(start), below);
    tree.listed(second, tree.mark(start), vec![], start);
    tree.remove(Tree::ROOT, b"d");
    tree.remove(first, b"x");
    assert_eq!(tree.visits(below[1], start), []);
    assert_eq!(tree.visits(second, start), []);
}

#[test]
fn a_path_has_the_same_inode_in_the_next_mount_and_no_number_is_given_twice() {
    let start = Instant::now();
    let inode = |tree: &mut Tree| {
        tree.listed(Tree::ROOT, tree.mark(start), vec![folder("f"), file("a", 1)], start);
        let folder = found(tree.lookup(Tree::ROOT, b"f", start));
        tree.listed(folder, tree.mark(start), vec![file("a", 1)], start);
        found(tree.lookup(folder, b"a", start))
    };
    let (mut one, mut other) = (tree(), tree());
    other.listed(Tree::ROOT, other.mark(start), vec![file("0", 1)], start);
    let ino = inode(&mut one);
    assert_eq!(inode(&mut other), ino);
    let folder = one.parent(ino).unwrap();
    one.remove(folder, b"a");
    assert!(!one.contains(ino));
    assert_ne!(one.create(folder, b"a", false), ino);
}

#[test]
fn folders_beside_a_repository_are_listed_ahead_of_git() {
    let (mut tree, start) = (tree(), Instant::now());
    let names = (0..40).map(|number| folder(&format!("{number:02}")));
    tree.listed(Tree::ROOT, tree.mark(start), names.chain([folder(".git")]).collect(), start);
    let git = found(tree.lookup(Tree::ROOT, b".git", start));
    tree.listed(git, tree.mark(start), vec![folder("objects"), folder("refs")], start);
    let name = |tree: &Tree, ino: &Ino| String::from_utf8(tree.place(*ino).unwrap().1).unwrap();
    let ahead: Vec<_> = tree.visits_after(git, start).iter().map(|ino| name(&tree, ino)).collect();
    assert_eq!(ahead, (0..40).map(|number| format!("{number:02}")).collect::<Vec<_>>());
    assert!(tree.visits(found(tree.lookup(Tree::ROOT, b"00", start)), start).is_empty(), "listed twice");
}

#[test]
fn a_listing_of_a_path_is_not_taken_for_that_of_the_folder_that_was_there() {
    let (mut tree, start) = (tree(), Instant::now());
    tree.listed(Tree::ROOT, tree.mark(start), vec![folder("a"), folder("b"), file("c", 1)], start);
    let [a, b] = [b"a", b"b"].map(|name| found(tree.lookup(Tree::ROOT, name, start)));
    tree.listed(a, tree.mark(start), vec![folder("below")], start);
    let below = found(tree.lookup(a, b"below", start));
    let mark = tree.mark(start);
    tree.rename(Tree::ROOT, b"c", b, b"c");
    assert!(![a, b, below].iter().any(|folder| tree.has_moved(*folder, mark)), "a file has no listing");
    tree.rename(Tree::ROOT, b"a", b, b"a");
    assert!(tree.has_moved(a, mark) && tree.has_moved(below, mark));
    assert!(!tree.has_moved(b, mark) && !tree.has_moved(below, tree.mark(start)));
}

fn large(tree: &mut Tree, start: Instant) {
    let names = (0..100).map(|number| file(&format!("{number}"), number));
    assert!(tree.listed(Tree::ROOT, tree.mark(start), names.collect(), start));
    tree.set_sync_token(Tree::ROOT, "one".into(), start);
}

#[test]
fn changes_since_a_sync_point_make_the_present_listing() {
    let (mut tree, start) = (tree(), Instant::now());
    large(&mut tree, start);
    assert!(tree.is_large(Tree::ROOT));
    assert_eq!(tree.sync_token(Tree::ROOT, start).unwrap(), "one");
    let mark = tree.mark(start + FRESH);
    let changes = vec![Change::There(file("new", 1)), Change::There(file("7", 700)), Change::Gone(b"8".into())];
    tree.changed_there(Tree::ROOT, mark, changes, "two".into(), start + FRESH);
    let now = start + FRESH;
    assert_eq!(tree.members(Tree::ROOT).len(), 100);
    assert_eq!(tree.facts(found(tree.lookup(Tree::ROOT, b"7", now))).length, 700);
    assert_eq!(tree.lookup(Tree::ROOT, b"8", now), Lookup::Absent);
    assert_eq!(tree.sync_token(Tree::ROOT, now).unwrap(), "two");
}

#[test]
fn what_is_changed_here_is_reported_again() {
    let (mut tree, start) = (tree(), Instant::now());
    large(&mut tree, start);
    let mark = tree.mark(start);
    let ino = tree.create(Tree::ROOT, b"mine", false);
    let changes = || vec![Change::There(file("mine", 5)), Change::There(file("7", 700))];
    tree.changed_there(Tree::ROOT, mark, changes(), "two".into(), start);
    assert_eq!(tree.sync_token(Tree::ROOT, start).unwrap(), "one");
    tree.uploaded(ino, Facts { length: 4, ..Facts::default() }, false);
    tree.changed_there(Tree::ROOT, tree.mark(start), changes(), "three".into(), start);
    assert_eq!(tree.facts(ino).length, 5, "somebody has replaced it since");
    assert_eq!(tree.sync_token(Tree::ROOT, start).unwrap(), "three");
}

#[test]
fn a_folder_is_listed_whole_in_case_of_doubt() {
    let (mut tree, start) = (tree(), Instant::now());
    large(&mut tree, start);
    assert_eq!(tree.sync_token(Tree::ROOT, start + Duration::from_hours(1)), None, "too old");
    tree.expire(Tree::ROOT);
    assert_eq!(tree.sync_token(Tree::ROOT, start), None);
    large(&mut tree, start);
    tree.create(Tree::ROOT, b"mine", false);
    assert!(!tree.listed(Tree::ROOT, tree.mark(start), vec![file("0", 0)], start), "a file is only here");
    assert_eq!(tree.sync_token(Tree::ROOT, start), None);
    // Under another path there may be another folder.
    tree.listed(Tree::ROOT, tree.mark(start), vec![folder("a")], start);
    let a = found(tree.lookup(Tree::ROOT, b"a", start));
    tree.set_sync_token(a, "one".into(), start);
    tree.rename(Tree::ROOT, b"a", Tree::ROOT, b"b");
    assert_eq!(tree.sync_token(a, start), None);
}

#[test]
fn a_supposed_folder_is_found_only_if_its_parent_lists_it() {
    for is_there in [true, false] {
        let (mut tree, start) = (tree(), Instant::now());
        let supposed = tree.suppose(Tree::ROOT, b".git").unwrap();
        assert_eq!(tree.lookup(Tree::ROOT, b".git", start), Lookup::Unlisted);
        tree.listed(supposed, tree.mark(start), vec![file("HEAD", 1)], start);
        let entries = if is_there { vec![folder(".git")] } else { Vec::new() };
        tree.listed(Tree::ROOT, tree.mark(start), entries, start);
        if is_there {
            assert_eq!(found(tree.lookup(Tree::ROOT, b".git", start)), supposed);
            assert!(matches!(tree.lookup(supposed, b"HEAD", start), Lookup::Found(_)));
        } else {
            assert_eq!(tree.lookup(Tree::ROOT, b".git", start), Lookup::Absent);
            assert!(!tree.contains(supposed));
        }
    }
}

#[test]
fn a_supposed_folder_that_is_a_file_or_not_there_is_withdrawn() {
    let (mut tree, start) = (tree(), Instant::now());
    let supposed = tree.suppose(Tree::ROOT, b".git").unwrap();
    tree.withdraw(supposed);
    assert!(!tree.contains(supposed) && tree.member(Tree::ROOT, b".git").is_none());
    tree.suppose(Tree::ROOT, b".git").unwrap();
    tree.listed(Tree::ROOT, tree.mark(start), vec![file(".git", 1)], start);
    assert!(!tree.is_folder(found(tree.lookup(Tree::ROOT, b".git", start))));
    assert_eq!(tree.suppose(Tree::ROOT, b".git"), None);
}

fn at(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
}

fn folder_at(name: &str, seconds: u64) -> Listed {
    Listed { facts: Facts { modified: Some(at(seconds)), ..Facts::default() }, ..folder(name) }
}

#[test]
fn a_folder_s_time_changes_with_its_members_until_the_server_tells_another() {
    let (mut tree, start) = (tree(), Instant::now());
    let listed = |tree: &mut Tree, seconds| {
        let mark = tree.mark(start);
        tree.listed(Tree::ROOT, mark, vec![folder_at("a", seconds), folder_at("b", 1), file("c", 1)], start);
        tree.listed(found(tree.lookup(Tree::ROOT, b"a", start)), mark, vec![file("x", 1), folder("y")], start);
    };
    listed(&mut tree, 1);
    let [a, b, c] = [b"a", b"b", b"c"].map(|name| found(tree.lookup(Tree::ROOT, name, start)));
    let untouched = tree.facts(c).clone();
    let mut last = Some(at(1));
    let changes: [&dyn Fn(&mut Tree); 6] = [
        &|tree| _ = tree.create(a, b"made", false),
        &|tree| _ = tree.create(a, b"folder", true),
        &|tree| tree.remove(a, b"x"),
        &|tree| tree.rename(a, b"y", a, b"z"),
        &|tree| tree.rename(a, b"z", b, b"z"),
        &|tree| tree.rename(b, b"z", a, b"y"),
    ];
    for (number, change) in changes.iter().enumerate() {
        change(&mut tree);
        let now = tree.facts(a).modified;
        assert!(now > last, "{number}");
        last = now;
    }
    assert!(tree.facts(b).modified > Some(at(1)));
    assert_eq!(tree.facts(c), &untouched);
    // The server has not seen it yet.
    listed(&mut tree, 1);
    assert_eq!(tree.facts(a).modified, last);
    listed(&mut tree, 2);
    assert_eq!(tree.facts(a).modified, Some(at(2)));
    // A content that changes is no change of the folder.
    let mark = tree.mark(start);
    let made = tree.member(a, b"made").unwrap();
    tree.uploaded(made, Facts::default(), false);
    assert_eq!(tree.facts(a).modified, Some(at(2)));
    tree.folder_is(a, mark, folder_at("a", 3).facts);
    assert_eq!(tree.facts(a).modified, Some(at(3)));
}

#[test]
fn a_folder_s_time_does_not_go_back_to_one_from_before_a_change() {
    let (mut tree, start) = (tree(), Instant::now());
    let early = tree.mark(start);
    let made = tree.create(Tree::ROOT, b"made", false);
    let shown = tree.facts(Tree::ROOT).modified;
    tree.folder_is(Tree::ROOT, early, folder_at("", 5).facts);
    assert_eq!(tree.facts(Tree::ROOT).modified, shown);
    // The server's clock is ahead by more than the change is late.
    let ahead = shown.map(|time| time + Duration::from_hours(1));
    tree.folder_is(Tree::ROOT, tree.mark(start), Facts { modified: ahead, ..Facts::default() });
    assert_eq!(tree.facts(Tree::ROOT).modified, ahead);
    tree.uploaded(made, Facts::default(), false);
    tree.remove(Tree::ROOT, b"made");
    let shown = tree.facts(Tree::ROOT).modified;
    assert!(shown > ahead);
    // The same second.
    let told = second_of(shown);
    tree.folder_is(Tree::ROOT, tree.mark(start), Facts { modified: told, ..Facts::default() });
    assert_eq!(tree.facts(Tree::ROOT).modified, shown);
    tree.folder_is(Tree::ROOT, tree.mark(start), Facts::default());
    assert_eq!(tree.facts(Tree::ROOT).modified, shown, "a server without times");
}

fn second_of(time: Option<SystemTime>) -> Option<SystemTime> {
    Some(at(time?.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs()))
}
