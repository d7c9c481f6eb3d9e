//! Tests of the web pages in a browser.

mod explorer;
mod first;
mod live;
