use std::cell::RefCell;
use std::rc::Rc;

use super::Inflater;
use super::inflater::Workspace;

/// Where inflaters come from. What is large in them is kept when they are dropped, for the next ones: to make it anew
/// takes longer than to inflate a small body.
#[derive(Debug, Clone, Default)]
pub struct Inflaters(Rc<RefCell<Vec<Workspace>>>);

/// The most workspaces that are kept while nobody needs them.
const KEPT: usize = 4;

impl Inflaters {
    /// One for another body.
    pub fn take(&self) -> Inflater {
        let kept = self.0.borrow_mut().pop();
        Inflater::new(kept.unwrap_or_default(), self.clone())
    }

    /// Takes a workspace back.
    pub(super) fn keep(&self, mut workspace: Workspace) {
        let mut kept = self.0.borrow_mut();
        if kept.len() < KEPT {
            workspace.reset();
            kept.push(workspace);
        }
    }

    /// How many workspaces are kept.
    #[cfg(test)]
    pub fn idle(&self) -> usize {
        self.0.borrow().len()
    }
}
