//! Multistatus answers (RFC 4918 §13), parsed as they arrive.
//!
//! A folder with 100,000 files is an answer of 50 MB. It is parsed in the pieces that arrive, and each `response` is passed
//! on when it is complete. So neither the answer nor the list is ever in memory, and the first files are in transfer before
//! the last are known. The same document answers PROPFIND, PROPPATCH and REPORT, and DELETE, COPY, MOVE and LOCK that failed
//! for some resources (with status 207; from Apache also 424).
//!
//! A truncated answer is an error. Otherwise a mirror would delete files that it did not see in the list.

use std::mem;

use http::StatusCode;

use crate::{
    path::{PathError, RemotePath},
    precondition_codes::UnmetCondition,
    properties::Properties,
    qnames::{Element, ElementPath, QName},
    xml::{self, Sink, XmlError, XmlProblem},
};

/// Maximum number of bytes of text and names in one `response`.
const LARGEST: usize = 1024 * 1024;

/// A parser for one answer.
#[derive(Debug)]
pub struct Multistatus {
    document: xml::Document,
    reading: Reading,
    failed: Option<XmlError>,
}

/// An item of an answer, in document order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    /// A resource.
    Entry(Box<Entry>),
    /// A resource with an unusable name, or one that was not requested. The other items remain valid.
    Misplaced(PathError),
}

/// What an answer says about one resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its path: a folder's if its properties say so, or otherwise if its href ends with `/`.
    pub path: RemotePath,
    /// The status of the whole resource, if the answer has one. In a `sync-collection` report, 404 means deleted, and
    /// 507 for the folder itself means that the list continues (RFC 6578 §3.6).
    pub status: Option<StatusCode>,
    /// The properties that it has.
    pub properties: Properties,
    /// The properties that could not be read or set, except those that do not exist (404).
    pub refused: Vec<(QName, StatusCode)>,
    /// The conditions that were not met. If one `response` is about several resources, the first entry has them.
    pub conditions: Vec<UnmetCondition>,
    /// The server's description.
    pub description: Option<String>,
}

/// What follows all entries.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct End {
    /// The sync token for the next `sync-collection` (RFC 6578 §6.4).
    pub sync_token: Option<String>,
    /// The server's description.
    pub description: Option<String>,
}

#[derive(Debug)]
struct Reading {
    requested: RemotePath,
    destination: Option<RemotePath>,
    trail: ElementPath,
    response: Response,
    /// The size of the response so far.
    size: usize,
    found: Vec<Item>,
    end: End,
}

#[derive(Debug, Default)]
struct Response {
    hrefs: Vec<String>,
    status: Option<StatusCode>,
    properties: Properties,
    refused: Vec<(QName, StatusCode)>,
    conditions: Vec<UnmetCondition>,
    description: Option<String>,
    propstat: Propstat,
}

#[derive(Debug, Default)]
struct Propstat {
    /// The properties before this `propstat`, which are restored if its status is an error.
    before: Properties,
    names: Vec<QName>,
    status: Option<StatusCode>,
}

impl Multistatus {
    /// A parser for the answer to a request for `requested`. Anything else than `requested` and below is misplaced.
    pub fn new(requested: RemotePath) -> Self {
        let reading = Reading {
            requested,
            destination: None,
            trail: ElementPath::default(),
            response: Response::default(),
            size: 0,
            found: Vec::new(),
            end: End::default(),
        };
        Self { document: xml::Document::default(), reading, failed: None }
    }

    /// Also accepts paths below `destination`, for COPY and MOVE.
    #[must_use]
    pub fn or_below(mut self, destination: RemotePath) -> Self {
        self.reading.destination = Some(destination);
        self
    }

    /// Parses the next bytes and returns the items that they complete. Nothing follows an error.
    pub fn feed(&mut self, piece: &[u8]) -> impl Iterator<Item = Result<Item, XmlError>> + '_ {
        let mut failure = None;
        if self.failed.is_none()
            && let Err(error) = self.document.feed(piece, &mut self.reading)
        {
            failure = Some(Err(error.clone()));
            self.failed = Some(error);
        }
        self.reading.found.drain(..).map(Ok).chain(failure)
    }

    /// Ends the input: returns what follows the entries, or an error if the answer is truncated.
    pub fn finish(self) -> Result<End, XmlError> {
        self.failed.map_or_else(|| self.document.finish(), Err)?;
        Ok(self.reading.end)
    }
}

impl Reading {
    fn grow(&mut self, by: usize) -> Result<(), XmlProblem> {
        self.size += by;
        if self.size > LARGEST { Err(XmlProblem::Large) } else { Ok(()) }
    }

    fn close_propstat(&mut self) {
        let response = &mut self.response;
        let propstat = mem::take(&mut response.propstat);
        // Some servers omit the status of a success.
        let Some(status) = propstat.status.filter(|status| !status.is_success()) else { return };
        response.properties = propstat.before;
        if status != StatusCode::NOT_FOUND {
            response.refused.extend(propstat.names.into_iter().map(|name| (name, status)));
        }
    }

    fn place(&self, href: &str) -> Result<RemotePath, PathError> {
        RemotePath::from_href(href, &self.requested).or_else(|error| {
            let there = self.destination.as_ref().and_then(|requested| RemotePath::from_href(href, requested).ok());
            there.ok_or(error)
        })
    }

    fn close_response(&mut self) {
        let mut response = mem::take(&mut self.response);
        if response.hrefs.is_empty() {
            response.hrefs.push(String::new());
        }
        // A status may apply to several hrefs, but properties belong to one (RFC 4918 §14.24). Everything else goes to
        // the first href, too: otherwise memory would grow with the product of hrefs and conditions.
        for href in &response.hrefs {
            self.found.push(match self.place(href) {
                Err(error) => Item::Misplaced(error),
                Ok(path) => {
                    let folder = response.properties.collection.unwrap_or(path.is_folder());
                    Item::Entry(Box::new(Entry {
                        path: path.as_folder(folder),
                        status: response.status,
                        properties: mem::take(&mut response.properties),
                        refused: mem::take(&mut response.refused),
                        conditions: mem::take(&mut response.conditions),
                        description: mem::take(&mut response.description),
                    }))
                }
            });
        }
    }
}

impl Sink for Reading {
    fn open(&mut self, namespace: &str, local: &str) -> Result<(), XmlProblem> {
        let tag = Element::of(namespace, local);
        let response = &mut self.response;
        match (self.trail.path.as_slice(), tag) {
            ([], Element::Multistatus) => {}
            ([], _) => return Err(XmlProblem::Root(local.to_owned())),
            ([Element::Multistatus], Element::Response) => {
                *response = Response::default();
                self.size = 0;
            }
            ([Element::Multistatus, Element::Response], Element::Propstat) => {
                response.propstat = Propstat { before: response.properties.clone(), ..Propstat::default() };
            }
            ([Element::Multistatus, Element::Response, Element::Propstat, Element::Prop, within @ ..], _) => {
                if within.is_empty() {
                    response.propstat.names.push(QName::new(tag, namespace, local));
                }
                response.properties.open(within, tag);
            }
            (
                [Element::Multistatus, Element::Response, Element::Error] | [.., Element::Propstat, Element::Error],
                _,
            ) => {
                response.conditions.push(UnmetCondition::new(local));
            }
            _ => {}
        }
        self.trail.open(tag);
        // An element takes memory besides its name, so an empty name must count too.
        self.grow(namespace.len() + local.len() + 64)
    }

    fn text(&mut self, text: &str) -> Result<(), XmlProblem> {
        let before = self.trail.text.len();
        self.trail.text(text)?;
        self.grow(self.trail.text.len() - before)
    }

    fn close(&mut self) -> Result<(), XmlProblem> {
        let text = self.trail.text.trim();
        let response = &mut self.response;
        let some = || Some(text.to_owned()).filter(|text| !text.is_empty());
        match self.trail.path.as_slice() {
            [Element::Multistatus, Element::SyncToken] => self.end.sync_token = some(),
            [Element::Multistatus, Element::Description] => self.end.description = some(),
            [Element::Multistatus, Element::Response, Element::Href] => response.hrefs.push(text.to_owned()),
            [Element::Multistatus, Element::Response, Element::Status] => response.status = status(text)?,
            [Element::Multistatus, Element::Response, Element::Propstat, Element::Status] => {
                response.propstat.status = status(text)?;
            }
            [Element::Multistatus, Element::Response, Element::Description]
            | [Element::Multistatus, Element::Response, Element::Propstat, Element::Description] => {
                response.description = some();
            }
            [Element::Multistatus, Element::Response, Element::Propstat, Element::Prop, place @ ..] => {
                response.properties.close(place, text);
                if let ([Element::Other], Some(name)) = (place, response.propstat.names.last()) {
                    response.properties.others.push((name.clone(), self.trail.text.clone()));
                }
            }
            [Element::Multistatus, Element::Response, .., Element::Error, _, Element::Href] => {
                response.conditions.last_mut().into_iter().for_each(|last| last.hrefs.push(text.to_owned()));
            }
            [Element::Multistatus, Element::Response, Element::Propstat] => self.close_propstat(),
            [Element::Multistatus, Element::Response] => self.close_response(),
            _ => {}
        }
        self.trail.close();
        if self.trail.path.len() == 1 {
            self.size = 0;
        }
        Ok(())
    }
}

/// Parses a status line such as `HTTP/1.1 200 OK`, or a part of it; none if it is empty.
fn status(line: &str) -> Result<Option<StatusCode>, XmlProblem> {
    let code = line.split_whitespace().find_map(|word| (word.len() == 3).then(|| word.parse().ok())?);
    if code.is_none() && !line.is_empty() { Err(XmlProblem::Status(line.to_owned())) } else { Ok(code) }
}

#[cfg(test)]
mod tests;
