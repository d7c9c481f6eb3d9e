//! Checks of the pages by their readers' programs: a shell runs the commands, Chromium opens the web pages, and Node runs
//! the explorer's package.

mod browser;
mod package;
mod walk;
