//! Checks of the pages by their readers' programs: a shell runs the commands, and Chromium opens the web pages.

mod browser;
mod walk;
