//! A request body, whole or in pieces.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};

/// A request body. A whole body is sent with its length. A body in pieces is sent chunked, and each piece is written to
/// the network before the next one.
#[derive(Debug)]
pub(crate) struct Pieces {
    left: VecDeque<Bytes>,
    /// The length in bytes, if it is sent.
    length: Option<u64>,
    /// Whether the next poll returns pending, so that the last piece is written.
    pause: bool,
}

impl Pieces {
    /// Creates a body that is sent with its length.
    pub(crate) fn whole(body: Bytes) -> Self {
        let length = Some(body.len() as u64);
        let left = [body].into_iter().filter(|body| !body.is_empty()).collect();
        Self { left, length, pause: false }
    }

    /// Creates a body that is sent in chunks, without its length.
    pub(crate) fn chunked(pieces: Vec<Bytes>) -> Self {
        Self { left: pieces.into(), length: None, pause: false }
    }
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.pause {
            self.pause = false;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.pause = true;
        Poll::Ready(self.left.pop_front().map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.length.is_some() && self.left.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        self.length.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}
