//! Tests of the k6 scripts. They need k6, which takes a minute to compile: `make test-k6`.

mod replay;
mod run;
mod scripts;
mod wrong_answers;
