//! Which folders to list before a program comes to them.
//!
//! `ls -R`, `find`, `du`, `git status` and most other walks visit a folder, then the folders in it, each with all that is below
//! it, in the order of their names (depth first, pre-order). Each listing would cost a round trip. So a second visit in
//! this order opens a window of the folders that come next, as far as the tree is known; it doubles with every visit in
//! order, and closes when the program goes elsewhere. Listings that arrive show folders further below, which take their
//! place in the window. Several walks go on at once, because `git status` has several threads.
//!
//! The budget: at most [`FOLDERS`] listings ahead of each walk, and [`WALKS`] walks. A program that stops has cost no more. A walk
//! that is certain, because git has read its list of files, begins with [`CERTAIN`] listings.

use std::collections::HashSet;

use crate::tree::Ino;

/// The largest window.
const FOLDERS: usize = 32;
/// The window of a walk that is certain before it begins.
const CERTAIN: usize = 64;
/// The first window.
const FIRST: usize = 4;
/// How many folders a program may leave out, and still walks in order: a filter by name, or another alphabet.
const LEFT_OUT: usize = 16;
/// The maximum number of walks.
const WALKS: usize = 8;

#[derive(Debug)]
struct Walk {
    /// The last folder in order.
    last: Ino,
    /// The number of folders to have listed ahead.
    window: usize,
    /// The folders that were listed ahead.
    listed: HashSet<Ino>,
}

/// The walks of all programs, the latest last.
#[derive(Debug, Default)]
pub(crate) struct Walks(Vec<Walk>);

impl Walks {
    /// A program visits a folder. `after` gives so many folders after one, in pre-order; `is_news` says that it may give others
    /// than before. Returns those to list now.
    pub(crate) fn visit(&mut self, folder: Ino, is_news: bool, after: impl Fn(Ino, usize) -> Vec<Ino>) -> Vec<Ino> {
        let known = self.0.iter().position(|walk| walk.last == folder);
        // Every lookup of a file is a visit.
        if known.is_some() && !is_news {
            return Vec::new();
        }
        let walk = if let Some(at) = known {
            self.0.remove(at)
        } else {
            let continues = |walk: &&(usize, &Walk)| after(walk.1.last, LEFT_OUT).contains(&folder);
            let walks: Vec<_> = self.0.iter().enumerate().collect();
            let at = walks.iter().filter(continues).max_by_key(|(_, walk)| walk.window).map(|(at, _)| *at);
            match at.map(|at| self.0.remove(at)) {
                Some(mut walk) => {
                    walk.last = folder;
                    walk.window = (walk.window * 2).clamp(FIRST, FOLDERS);
                    walk.listed.remove(&folder);
                    walk
                }
                None => Walk { last: folder, window: 0, listed: HashSet::new() },
            }
        };
        self.add(walk);
        self.go_on(after)
    }

    /// A program will visit the folders after `last`, as its own list of them says. Returns those to list now.
    pub(crate) fn begin(&mut self, last: Ino, after: impl Fn(Ino, usize) -> Vec<Ino>) -> Vec<Ino> {
        self.0.retain(|walk| walk.last != last);
        self.add(Walk { last, window: CERTAIN, listed: HashSet::new() });
        self.go_on(after)
    }

    fn add(&mut self, walk: Walk) {
        if self.0.len() == WALKS {
            self.0.remove(0);
        }
        self.0.push(walk);
    }

    /// More of the tree is known. Returns the folders to list now.
    pub(crate) fn go_on(&mut self, after: impl Fn(Ino, usize) -> Vec<Ino>) -> Vec<Ino> {
        let mut wanted = Vec::new();
        for walk in &mut self.0 {
            let window = if walk.window > 0 { after(walk.last, walk.window) } else { Vec::new() };
            // What has left the window is forgotten: another walk may come to it.
            walk.listed.retain(|folder| window.contains(folder));
            wanted.extend(window.into_iter().filter(|folder| walk.listed.insert(*folder)));
        }
        wanted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Folders 1 to `count`, in pre-order.
    fn after(count: u64) -> impl Fn(Ino, usize) -> Vec<Ino> {
        move |last, number| (last.0 + 1..=count).take(number).map(Ino).collect()
    }

    #[test]
    fn folders_in_order_are_listed_once_each_and_within_the_budget() {
        let mut walks = Walks::default();
        let mut listed = Vec::new();
        for visited in 1..=200 {
            listed.extend(walks.visit(Ino(visited), false, after(200)).into_iter().map(|ino| ino.0));
            let asked = |_: Ino, _: usize| panic!("a second lookup in the folder changes nothing");
            assert!(walks.visit(Ino(visited), false, asked).is_empty());
            assert!(listed.iter().filter(|listed| **listed > visited).count() <= FOLDERS);
        }
        // The first two show the order.
        assert_eq!(listed, (3..=200).collect::<Vec<_>>());
    }

    #[test]
    fn folders_out_of_order_are_not_listed() {
        let mut walks = Walks::default();
        for visited in [500, 100, 900, 300, 200, 700, 650] {
            assert!(walks.visit(Ino(visited), false, after(1000)).is_empty());
        }
    }

    #[test]
    fn several_threads_walk_at_once() {
        let mut walks = Walks::default();
        let mut listed = Vec::new();
        for step in 1..=50 {
            for thread in 0..4 {
                listed.extend(walks.visit(Ino(thread * 100 + step), false, after(400)));
            }
        }
        listed.sort();
        listed.dedup();
        assert!(listed.len() > 4 * 48, "{}", listed.len());
    }

    #[test]
    fn folders_that_become_known_below_take_their_place() {
        let mut walks = Walks::default();
        let flat = |last: Ino, number: usize| (last.0 / 10 + 1..).map(|ino| Ino(ino * 10)).take(number).collect();
        walks.visit(Ino(10), false, flat);
        assert_eq!(walks.visit(Ino(20), false, flat), [Ino(30), Ino(40), Ino(50), Ino(60)]);
        let deep = |_: Ino, number: usize| [30, 31, 32, 40, 50].into_iter().map(Ino).take(number).collect();
        assert_eq!(walks.go_on(deep), [Ino(31), Ino(32)]);
    }
}
